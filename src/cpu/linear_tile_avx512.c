/* Tiles of rows against unpacked panels (prefill, batches, verification).
 *
 * A kernel keeps R rows x P panels of f32 sums in registers and walks n_in once. For each group it forms R x P exact
 * integer sums, a quad at a time: a vector of weights of each panel (16 outputs x 4 elements), 4 activations of each
 * row broadcast, vpdpbusd. Then a lane's chain advances as quant_dot says. With R = 6 and P = 2 there are 12 + 12 sums,
 * two vectors of weights and a broadcast in 32 registers. A broadcast feeds two instructions, so that the two load
 * ports do not limit; the two multiply ports do: 8 vpdpbusd and a product and fma a group, plus one fma for a minimum.
 * Formats differ only in the size of a group and in having a minimum.
 *
 * The hi plane of the activations goes first, where it is not 0: its sums, times 256, are what the lo plane's are added
 * to. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx512.h"

/* The quads of a group, R rows x P panels. The sums have the type the dot instruction adds to: where it differs, gcc
 * copies registers at the end of a loop. */
typedef int v16 __attribute__((vector_size(64)));
struct sums {
    v16 v[2][TILE_MAX];
};

INLINE void dot_quad(struct sums *s, const uint8_t *u, size_t other, const int8_t *x, const int R, const int P)
{
    __m512i w[2];
    UNROLL
    for (int p = 0; p < P; p++)
        w[p] = _mm512_loadu_si512(u + (size_t)p * other);
    UNROLL
    for (int r = 0; r < R; r++) {
        __m512i q = spread4(x + (size_t)r * RUN);
        UNROLL
        for (int p = 0; p < P; p++)
            s->v[p][r] = (v16)_mm512_dpbusd_epi32((__m512i)s->v[p][r], w[p], q);
    }
}

/* 256 * the sums of the quads of `spill`; u and hi are the group's first quad. */
INLINE void dot_spill(struct sums *s, unsigned spill, const uint8_t *u, size_t other, const int8_t *hi, const int R,
                      const int P)
{
    for (; spill; spill &= spill - 1) {
        unsigned j = (unsigned)__builtin_ctz(spill);
        dot_quad(s, u + 64 * j, other, hi + 4 * j, R, P);
    }
    UNROLL
    for (int i = 0; i < P * R; i++)
        s->v[i / R][i % R] = (v16)_mm512_slli_epi32((__m512i)s->v[i / R][i % R], 8);
}

/* A run of the activations: row r's d and sums are 64 and 64 * n_group bytes apart. */
struct run_of {
    const int8_t *lo, *hi;
    const uint8_t *d, *sum;
    unsigned spill;
};

/* acc += the run's products; scale and u are of its first group. */
INLINE void run(__m512 acc[2][TILE_MAX], const uint8_t *scale, const uint8_t *u, size_t other, struct run_of x,
                const unsigned group, const bool has_min, const int R, const int P)
{
    const unsigned quads = group / 4, n_group = RUN / group;
    UNROLL
    for (unsigned h = 0; h < n_group; h++) {
        unsigned out = x.spill >> (h * quads) & ((1U << quads) - 1);
        struct sums s;
        UNROLL
        for (int i = 0; i < P * R; i++)
            s.v[i / R][i % R] = (v16){0};
        if (__builtin_expect(out, 0))
            dot_spill(&s, out, u, other, x.hi + 4 * h * quads, R, P);
        UNROLL
        for (unsigned j = 0; j < quads; j++)
            dot_quad(&s, u + 64 * j, other, x.lo + 4 * (h * quads + j), R, P);
        UNROLL
        for (int p = 0; p < P; p++) {
            __m512 ga = _mm512_loadu_ps(scale + (size_t)p * other), gb = ga;
            if (has_min)
                gb = _mm512_loadu_ps(scale + (size_t)p * other + 64);
            UNROLL
            for (int r = 0; r < R; r++) {
                __m512i sum = spread4(x.sum + 4 * h + (size_t)r * 64 * n_group);
                __m512 d = _mm512_castsi512_ps(spread4(x.d + (size_t)r * 64));
                if (!has_min)
                    s.v[p][r] += (v16)sum;
                acc[p][r] = _mm512_fmadd_ps(_mm512_mul_ps(ga, d), _mm512_cvtepi32_ps((__m512i)s.v[p][r]), acc[p][r]);
                if (has_min)
                    acc[p][r] = _mm512_fmadd_ps(gb, _mm512_castsi512_ps(sum), acc[p][r]);
            }
        }
        u += 64 * quads;
        scale += has_min ? 128 : 64;
    }
}

INLINE void tile(const struct linear_args *a, uint32_t panel, const unsigned group, const bool has_min, const int R,
                 const int P)
{
    const unsigned n_group = RUN / group, run_scales = n_group * (has_min ? 128 : 64);
    const uint8_t *scale = a->panel + panel * a->panel_bytes, *u = scale + a->q_offset;
    const size_t other = a->panel_bytes; /* from a panel to the next */
    float *carry = a->acc + (size_t)panel * (unsigned)R * PANEL;
    const char *soon = (const char *)a->soon;
    size_t lines = a->soon ? a->soon_bytes / 64 / (a->n_in / RUN) + 1 : 0;
    size_t block = (size_t)a->run / 16 * (unsigned)R, at = a->run % 16;
    struct run_of x = {.lo = a->lo, .hi = a->hi};
    const uint8_t *spill = a->spill, *d = (const uint8_t *)a->d + 64 * block;
    const uint8_t *sum = (const uint8_t *)a->sum + 64 * n_group * block;
    __m512 acc[2][TILE_MAX];
    UNROLL
    for (int i = 0; i < P * R; i++)
        acc[i / R][i % R] = a->first ? _mm512_setzero_ps() : _mm512_loadu_ps(carry + i * PANEL);
    for (size_t left = a->n_in / RUN; left > 0; d += 64 * R, sum += 64 * R * (int)n_group, at = 0) {
        size_t n = left < 16 - at ? left : 16 - at;
        left -= n;
        x.d = d + 4 * at;
        x.sum = sum + 4 * n_group * at;
        for (; n > 0; n--) {
            for (size_t i = 0; i < lines; i++, soon += 64)
                _mm_prefetch(soon, _MM_HINT_T1);
            x.spill = *spill++;
            run(acc, scale, u, other, x, group, has_min, R, P);
            x.lo += R * RUN;
            x.hi += R * RUN;
            x.d += 4;
            x.sum += 4 * n_group;
            u += 64 * QUADS;
            scale += run_scales;
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

INLINE void tiles(const struct linear_args *first, const unsigned group, const bool has_min, const int R)
{
    struct linear_args a = *first;
    for (uint32_t t = a.n_tile; t > 0; t--, linear_next_tile(&a)) {
        uint32_t p = 0;
        for (; p + 2 <= a.n_panel; p += 2)
            tile(&a, p, group, has_min, R, 2);
        for (; p < a.n_panel; p++)
            tile(&a, p, group, has_min, R, 1);
    }
}

#define ONE(group, min, R)                                                                                             \
    static void tile_##group##_##min##_##R(const struct linear_args *a)                                                \
    {                                                                                                                  \
        tiles(a, group, min, R);                                                                                       \
    }
#define EACH(group, min) ONE(group, min, 1) ONE(group, min, 2) ONE(group, min, 4) ONE(group, min, 6)
#define ROW(group, min)                                                                                                \
    {                                                                                                                  \
        tile_##group##_##min##_1, tile_##group##_##min##_2, tile_##group##_##min##_4, tile_##group##_##min##_6         \
    }

EACH(32, 0)
EACH(32, 1)
EACH(16, 0)
EACH(16, 1)

linear_product *linear_tile_avx512(const struct pack_layout *l, unsigned slot)
{
    /* [group of 16][has_min][slot] */
    static linear_product *const table[2][2][4] = {{ROW(32, 0), ROW(32, 1)}, {ROW(16, 0), ROW(16, 1)}};
    return table[l->group == 16][pack_has_min(l)][slot];
}
#endif
