/* One row of activations against packed panels (decode), and taking panels apart for several rows. Both read weights
 * once, front to back. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx2.h"

enum { AHEAD = 4096 }; /* bytes of weights asked for in advance */

/* isum[half] += the products of quads [first, last) with x. */
INLINE void add_dots(const struct pack_layout *l, const uint8_t *vecs, unsigned s, unsigned t, unsigned first,
                     unsigned last, const int8_t *x, __m256i isum[2])
{
    const unsigned bits = stored_bits(l), chain = chain_quads(bits, last - first);
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_set1_epi8(15);
    UNROLL
    for (unsigned j0 = first; j0 < last; j0 += chain) {
        __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, top[2] = {sum[0], sum[0]};
        UNROLL
        for (unsigned j = j0; j < j0 + chain; j++) {
            __m256i q = spread4(x + 4 * j);
            UNROLL
            for (unsigned half = 0; half < 2; half++) {
                __m256i w = quad(l, vecs, s, t, j, half), wl = bits > 6 ? _mm256_and_si256(w, low) : w;
                sum[half] = _mm256_add_epi16(sum[half], _mm256_maddubs_epi16(wl, q));
                if (bits > 6) {
                    __m256i wh = _mm256_and_si256(shift_right(w, 4), low);
                    top[half] = _mm256_add_epi16(top[half], _mm256_maddubs_epi16(wh, q));
                }
            }
        }
        UNROLL
        for (unsigned half = 0; half < 2; half++) {
            __m256i v = _mm256_madd_epi16(sum[half], ones);
            if (bits > 6)
                v = _mm256_add_epi32(v, _mm256_slli_epi32(_mm256_madd_epi16(top[half], ones), 4));
            isum[half] = _mm256_add_epi32(isum[half], v);
        }
    }
}

/* acc += run s of a block (t: pack_sharing) times the same run of the activations; wide: some hi is not 0. */
INLINE void add_run(const struct pack_layout *l, const uint8_t *record, const uint8_t *vecs, unsigned s, unsigned t,
                    const int8_t *lo, const int8_t *hi, float d, const uint8_t *sum, __m256 acc[2], const bool wide)
{
    const bool has_min = pack_has_min(l);
    const unsigned n_group = RUN / l->group, quads = l->group / 4U;
    UNROLL
    for (unsigned h = 0; h < n_group; h++, sum += 4) {
        __m256i start = has_min ? _mm256_setzero_si256() : spread4(sum), isum[2] = {start, start};
        if (wide) {
            isum[0] = isum[1] = _mm256_setzero_si256();
            add_dots(l, vecs, s, t, h * quads, (h + 1) * quads, hi, isum);
            isum[0] = _mm256_add_epi32(_mm256_slli_epi32(isum[0], 8), start);
            isum[1] = _mm256_add_epi32(_mm256_slli_epi32(isum[1], 8), start);
        }
        add_dots(l, vecs, s, t, h * quads, (h + 1) * quads, lo, isum);
        UNROLL
        for (unsigned half = 0; half < 2; half++) {
            __m256 ga, gb;
            scales(l, record, s * n_group + h, half, &ga, &gb);
            acc[half] =
                _mm256_fmadd_ps(_mm256_mul_ps(ga, _mm256_set1_ps(d)), _mm256_cvtepi32_ps(isum[half]), acc[half]);
            if (has_min)
                acc[half] = _mm256_fmadd_ps(gb, _mm256_castsi256_ps(spread4(sum)), acc[half]);
        }
    }
}

INLINE void panel_row(const struct linear_args *a, const struct pack_layout *l, uint32_t panel)
{
    const unsigned n_run = l->block / RUN, n_group = RUN / l->group;
    const unsigned sharing = pack_sharing(l->shape), run_bytes = l->q_bytes / n_run;
    const uint8_t *record = a->panel + panel * a->panel_bytes, *vecs = record + a->q_offset, *sum = a->sum;
    const uint8_t *spill = a->spill;
    const int8_t *lo = a->lo, *hi = a->hi;
    const float *d = a->d;
    __m256 acc[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint32_t b = a->n_in / l->block; b > 0; b--, record += l->scale_bytes, vecs += l->q_bytes)
        for (unsigned s0 = 0; s0 < n_run; s0 += sharing) {
            UNROLL
            for (unsigned t = 0; t < sharing; t++, lo += RUN, hi += RUN, d++, sum += 4 * n_group, spill++) {
                unsigned s = s0 + t;
                for (unsigned i = 0; i < run_bytes; i += 64)
                    _mm_prefetch((const char *)vecs + s * run_bytes + AHEAD + i, _MM_HINT_T0);
                if (*spill)
                    add_run(l, record, vecs, s, t, lo, hi, *d, sum, acc, true);
                else
                    add_run(l, record, vecs, s, t, lo, hi, *d, sum, acc, false);
            }
        }
    linear_finish_avx2(a, panel, 0, acc[0], acc[1]);
}

INLINE void product_row(const struct linear_args *a, const struct pack_layout *l)
{
    for (uint32_t p = 0; p < a->n_panel; p++)
        panel_row(a, l, p);
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
                for (unsigned i = 0; i < 2 * QUADS; i++)
                    _mm256_storeu_si256((__m256i *)(void *)(u + 32 * i), quad(l, vecs, s, t, i / 2, i % 2));
                UNROLL
                for (unsigned i = 0; i < 2 * n_group; i++) {
                    uint8_t *at = to + i / 2 * (has_min ? 128 : 64) + i % 2 * 32;
                    __m256 ga, gb;
                    scales(l, record, s * n_group + i / 2, i % 2, &ga, &gb);
                    _mm256_storeu_ps((float *)(void *)at, ga);
                    if (has_min)
                        _mm256_storeu_ps((float *)(void *)(at + 64), gb);
                }
                to += n_group * (has_min ? 128 : 64);
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

linear_product *const linear_row_avx2[PACK_COUNT] = {
    ROW(Q4_0), ROW(Q4_1), ROW(Q5_0), ROW(Q5_1),   ROW(Q8_0),   ROW(Q2_K),  ROW(Q3_K),
    ROW(Q4_K), ROW(Q5_K), ROW(Q6_K), ROW(IQ4_NL), ROW(IQ4_XS), ROW(MXFP4), ROW(NVFP4),
};

linear_unpack *const linear_unpack_avx2[PACK_COUNT] = {
    UNPACK(Q4_0), UNPACK(Q4_1), UNPACK(Q5_0), UNPACK(Q5_1),   UNPACK(Q8_0),   UNPACK(Q2_K),  UNPACK(Q3_K),
    UNPACK(Q4_K), UNPACK(Q5_K), UNPACK(Q6_K), UNPACK(IQ4_NL), UNPACK(IQ4_XS), UNPACK(MXFP4), UNPACK(NVFP4),
};
#endif
