/* One row of activations against packed panels (decode), and taking panels apart for several rows. Both read weights
 * once, front to back, and memory is what limits them: they ask for lines in advance. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx512.h"

/* Bytes of one of n streams to ask for in advance, into the second cache and from there into the first. One core has
 * too few requests of its first cache in flight to draw its share of a memory, so the second is asked earlier; and two
 * streams keep more in flight than one does, where they are long enough to pay for their starts (docs/BENCHMARKS.md).
 */
enum { LONG = 1 << 20 };

INLINE void ask(const uint8_t *p, unsigned bytes, const int n_stream)
{
    const unsigned far = n_stream == 2 ? 3072 : 6144, near = n_stream == 2 ? 1024 : 4096;
    for (unsigned i = 0; i < bytes; i += 64) {
        _mm_prefetch((const char *)p + i + far, _MM_HINT_T1);
        _mm_prefetch((const char *)p + i + near, _MM_HINT_T0);
    }
}

/* acc += run s of a block (t: pack_sharing) times the same run of the activations; wide: some hi is not 0. */
INLINE __m512 add_run(const struct pack_layout *l, const uint8_t *record, const uint8_t *vecs, unsigned s, unsigned t,
                      const int8_t *lo, const int8_t *hi, float d, const uint8_t *sum, __m512 acc, const bool wide)
{
    const bool has_min = pack_has_min(l);
    const unsigned n_group = RUN / l->group, quads = l->group / 4U;
    UNROLL
    for (unsigned h = 0; h < n_group; h++, sum += 4) {
        __m512i isum = has_min ? _mm512_setzero_si512() : spread4(sum), top = _mm512_setzero_si512();
        UNROLL
        for (unsigned j = h * quads; j < (h + 1) * quads; j++) {
            __m512i w = quad(l, vecs, s, t, j);
            isum = _mm512_dpbusd_epi32(isum, w, spread4(lo + 4 * j));
            if (wide)
                top = _mm512_dpbusd_epi32(top, w, spread4(hi + 4 * j));
        }
        if (wide)
            isum = _mm512_add_epi32(isum, _mm512_slli_epi32(top, 8));
        __m512 ga, gb;
        scales(l, record, s * n_group + h, &ga, &gb);
        acc = _mm512_fmadd_ps(_mm512_mul_ps(ga, _mm512_set1_ps(d)), _mm512_cvtepi32_ps(isum), acc);
        if (has_min)
            acc = _mm512_fmadd_ps(gb, _mm512_castsi512_ps(spread4(sum)), acc);
    }
    return acc;
}

INLINE void panel_row(const struct linear_args *a, const struct pack_layout *l, uint32_t panel, uint32_t second,
                      const int P)
{
    const unsigned n_run = l->block / RUN, n_group = RUN / l->group;
    const unsigned sharing = pack_sharing(l->shape), run_bytes = l->q_bytes / n_run;
    const uint8_t *record[2], *vecs[2], *sum = a->sum;
    const uint8_t *spill = a->spill;
    const int8_t *lo = a->lo, *hi = a->hi;
    const float *d = a->d;
    __m512 acc[2];
    UNROLL
    for (int p = 0; p < P; p++) {
        record[p] = a->panel + (p ? second : panel) * a->panel_bytes;
        vecs[p] = record[p] + a->q_offset;
        acc[p] = _mm512_setzero_ps();
    }
    for (uint32_t b = a->n_in / l->block; b > 0; b--) {
        UNROLL
        for (int p = 0; p < P; p++)
            ask(record[p], l->scale_bytes, P);
        for (unsigned s0 = 0; s0 < n_run; s0 += sharing) {
            UNROLL
            for (unsigned t = 0; t < sharing; t++, lo += RUN, hi += RUN, d++, sum += 4 * n_group, spill++) {
                unsigned s = s0 + t;
                UNROLL
                for (int p = 0; p < P; p++)
                    ask(vecs[p] + s * run_bytes, run_bytes, P);
                if (*spill) {
                    UNROLL
                    for (int p = 0; p < P; p++)
                        acc[p] = add_run(l, record[p], vecs[p], s, t, lo, hi, *d, sum, acc[p], true);
                } else {
                    UNROLL
                    for (int p = 0; p < P; p++)
                        acc[p] = add_run(l, record[p], vecs[p], s, t, lo, hi, *d, sum, acc[p], false);
                }
            }
        }
        UNROLL
        for (int p = 0; p < P; p++) {
            record[p] += l->scale_bytes;
            vecs[p] += l->q_bytes;
        }
    }
    finish(a, panel, &acc[0], 1);
    if (P == 2)
        finish(a, second, &acc[1], 1);
}

INLINE void product_row(const struct linear_args *a, const struct pack_layout *l)
{
    uint32_t half = a->n_panel * a->panel_bytes >= LONG ? a->n_panel / 2 : 0;
    for (uint32_t p = 0; p < half; p++)
        panel_row(a, l, p, half + p, 2);
    for (uint32_t p = 2 * half; p < a->n_panel; p++)
        panel_row(a, l, p, p, 1);
}

INLINE void unpack_piece(const struct pack_layout *l, const uint8_t *record, const uint8_t *vecs, uint32_t n_in,
                         uint8_t *to)
{
    const bool has_min = pack_has_min(l);
    const unsigned n_run = l->block / RUN, n_group = RUN / l->group, sharing = pack_sharing(l->shape);
    uint8_t *u = to + linear_unpacked_scales(l, n_in);
    for (uint32_t b = n_in / l->block; b > 0; b--, record += l->scale_bytes, vecs += l->q_bytes)
        for (unsigned s0 = 0; s0 < n_run; s0 += sharing) {
            UNROLL
            for (unsigned t = 0; t < sharing; t++, u += QUADS * 64) {
                unsigned s = s0 + t;
                UNROLL
                for (unsigned j = 0; j < QUADS; j++)
                    _mm512_storeu_si512(u + 64 * j, quad(l, vecs, s, t, j));
                UNROLL
                for (unsigned h = 0; h < n_group; h++, to += has_min ? 128 : 64) {
                    __m512 ga, gb;
                    scales(l, record, s * n_group + h, &ga, &gb);
                    _mm512_storeu_ps(to, ga);
                    if (has_min)
                        _mm512_storeu_ps(to + 64, gb);
                }
            }
        }
}

#define EACH(id)                                                                                                       \
    static void row_##id(const struct linear_args *a)                                                                  \
    {                                                                                                                  \
        product_row(a, &pack_layouts[PACK_##id]);                                                                      \
    }                                                                                                                  \
    static void unpack_##id(const uint8_t *record, const uint8_t *vecs, uint32_t n_in, uint8_t *to)                    \
    {                                                                                                                  \
        unpack_piece(&pack_layouts[PACK_##id], record, vecs, n_in, to);                                                \
    }

EACH(Q4_0)
EACH(Q4_1)
EACH(Q5_0)
EACH(Q5_1)
EACH(Q8_0)
EACH(Q2_K)
EACH(Q3_K)
EACH(Q4_K)
EACH(Q5_K)
EACH(Q6_K)
EACH(IQ4_NL)
EACH(IQ4_XS)
EACH(MXFP4)
EACH(NVFP4)

#define ROW(id)    [PACK_##id] = row_##id
#define UNPACK(id) [PACK_##id] = unpack_##id

linear_product *const linear_row_avx512[PACK_COUNT] = {
    ROW(Q4_0), ROW(Q4_1), ROW(Q5_0), ROW(Q5_1),   ROW(Q8_0),   ROW(Q2_K),  ROW(Q3_K),
    ROW(Q4_K), ROW(Q5_K), ROW(Q6_K), ROW(IQ4_NL), ROW(IQ4_XS), ROW(MXFP4), ROW(NVFP4),
};

linear_unpack *const linear_unpack_avx512[PACK_COUNT] = {
    UNPACK(Q4_0), UNPACK(Q4_1), UNPACK(Q5_0), UNPACK(Q5_1),   UNPACK(Q8_0),   UNPACK(Q2_K),  UNPACK(Q3_K),
    UNPACK(Q4_K), UNPACK(Q5_K), UNPACK(Q6_K), UNPACK(IQ4_NL), UNPACK(IQ4_XS), UNPACK(MXFP4), UNPACK(NVFP4),
};
#endif
