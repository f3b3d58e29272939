/* Tiles of rows against unpacked panels (prefill, batches, verification).
 *
 * A kernel keeps R rows x P panels of f32 sums in registers and walks n_in once. For each group it forms R x P exact
 * integer sums, a quad at a time: a vector of weights of each panel (16 outputs x 4 elements), 4 activations of each
 * row broadcast, vpdpbusd. Then a lane's chain advances as quant_dot says. With R = 6 and P = 2 there are 12 + 12 sums,
 * two vectors of weights and a broadcast in 32 registers. A broadcast feeds two instructions, so that the two load
 * ports do not limit; the two multiply ports do: 8 vpdpbusd and a product and fma a group, plus one fma for a minimum.
 * Formats differ only in the size of a group and in having a minimum. The 16-bit form has two integer sums and so P
 * = 1. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx512.h"

INLINE void tile(const struct linear_args *a, uint32_t panel, const unsigned group, const bool has_min, const int R,
                 const int P, const bool wide)
{
    const unsigned quads = group / 4, n_group = RUN / group;
    const uint8_t *scale = a->panel + panel * a->panel_bytes, *u = scale + a->q_offset, *sum = a->sum;
    const size_t other = a->panel_bytes; /* from a panel to the next */
    const int8_t *x = a->hi, *lo = a->lo;
    const float *d = a->d;
    float *carry = a->acc + (size_t)panel * (unsigned)R * PANEL;
    const char *soon = (const char *)a->soon;
    size_t lines = a->soon ? a->soon_bytes / 64 / (a->n_in / RUN) + 1 : 0;
    __m512 acc[2][TILE_MAX];
    UNROLL
    for (int i = 0; i < P * R; i++)
        acc[i / R][i % R] = a->first ? _mm512_setzero_ps() : _mm512_loadu_ps(carry + i * PANEL);
    for (uint32_t n = a->n_in / RUN; n > 0; n--, x += R * RUN, lo += wide ? R * RUN : 0, d += R) {
        for (size_t i = 0; i < lines; i++, soon += 64)
            _mm_prefetch(soon, _MM_HINT_T1);
        UNROLL
        for (unsigned h = 0; h < n_group; h++) {
            __m512i isum[2][TILE_MAX], top[TILE_MAX];
            UNROLL
            for (int i = 0; i < P * R; i++) {
                isum[i / R][i % R] = has_min ? _mm512_setzero_si512() : spread4(sum + 4 * (i % R));
                if (wide)
                    top[i] = _mm512_setzero_si512();
            }
            UNROLL
            for (unsigned j = 0; j < quads; j++) {
                __m512i w[2];
                UNROLL
                for (int p = 0; p < P; p++)
                    w[p] = _mm512_loadu_si512(u + (size_t)p * other + 64 * j);
                UNROLL
                for (int r = 0; r < R; r++) {
                    size_t at = (size_t)r * RUN + 4 * (h * quads + j);
                    __m512i q = spread4((wide ? lo : x) + at);
                    UNROLL
                    for (int p = 0; p < P; p++)
                        isum[p][r] = _mm512_dpbusd_epi32(isum[p][r], w[p], q);
                    if (wide)
                        top[r] = _mm512_dpbusd_epi32(top[r], w[0], spread4(x + at));
                }
            }
            UNROLL
            for (int p = 0; p < P; p++) {
                __m512 ga = _mm512_loadu_ps(scale + (size_t)p * other), gb = ga;
                if (has_min)
                    gb = _mm512_loadu_ps(scale + (size_t)p * other + 64);
                UNROLL
                for (int r = 0; r < R; r++) {
                    if (wide)
                        isum[p][r] = _mm512_add_epi32(isum[p][r], _mm512_slli_epi32(top[r], 8));
                    acc[p][r] = _mm512_fmadd_ps(_mm512_mul_ps(ga, _mm512_set1_ps(d[r])), _mm512_cvtepi32_ps(isum[p][r]),
                                                acc[p][r]);
                    if (has_min)
                        acc[p][r] = _mm512_fmadd_ps(gb, _mm512_castsi512_ps(spread4(sum + 4 * r)), acc[p][r]);
                }
            }
            u += 64 * quads;
            scale += has_min ? 128 : 64;
            sum += 4 * R;
        }
    }
    if (a->last) {
        UNROLL
        for (int p = 0; p < P; p++)
            finish(a, panel + (uint32_t)p, acc[p], R);
    } else {
        UNROLL
        for (int i = 0; i < P * R; i++)
            _mm512_storeu_ps(carry + i * PANEL, acc[i / R][i % R]);
    }
}

INLINE void tiles(const struct linear_args *a, const unsigned group, const bool has_min, const int R, const bool wide)
{
    uint32_t p = 0;
    for (; !wide && p + 2 <= a->n_panel; p += 2)
        tile(a, p, group, has_min, R, 2, wide);
    for (; p < a->n_panel; p++)
        tile(a, p, group, has_min, R, 1, wide);
}

#define ONE(group, min, wide, R)                                                                                       \
    static void tile_##group##_##min##_##wide##_##R(const struct linear_args *a)                                       \
    {                                                                                                                  \
        tiles(a, group, min, R, wide);                                                                                 \
    }
#define EACH(group, min, wide)                                                                                         \
    ONE(group, min, wide, 1) ONE(group, min, wide, 2) ONE(group, min, wide, 4) ONE(group, min, wide, 6)
#define ROW(group, min, wide)                                                                                          \
    {                                                                                                                  \
        tile_##group##_##min##_##wide##_1, tile_##group##_##min##_##wide##_2, tile_##group##_##min##_##wide##_4,       \
            tile_##group##_##min##_##wide##_6                                                                          \
    }

EACH(32, 0, 0)
EACH(32, 0, 1)
EACH(32, 1, 0)
EACH(32, 1, 1)
EACH(16, 0, 0)
EACH(16, 0, 1)
EACH(16, 1, 0)
EACH(16, 1, 1)

linear_product *linear_tile_avx512(const struct pack_layout *l, bool wide, unsigned slot)
{
    /* [group of 16][has_min][wide][slot] */
    static linear_product *const table[2][2][2][4] = {{{ROW(32, 0, 0), ROW(32, 0, 1)}, {ROW(32, 1, 0), ROW(32, 1, 1)}},
                                                      {{ROW(16, 0, 0), ROW(16, 0, 1)}, {ROW(16, 1, 0), ROW(16, 1, 1)}}};
    return table[l->group == 16][pack_has_min(l)][wide][slot];
}
#endif
