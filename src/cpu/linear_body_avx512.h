/* Products on AVX-512 with VNNI: one body that each format and tile size instantiates with constants.
 *
 * A kernel keeps R rows x P panels of f32 sums in registers and walks n_in once. For each group it forms R x P exact integer
 * sums, a quad at a time: unpack one vector of weights (16 outputs x 4 elements), broadcast 4 activations of each row,
 * vpdpbusd. Then a lane's chain advances as quant_dot says. With R = 6 and P = 2 there are 12 + 12 sums, 2 vectors of
 * weights and a broadcast in 32 registers; a broadcast feeds two instructions, so the two load ports do not limit, and the
 * two multiply ports do: 8 vpdpbusd, a product and one or two fma for 32 elements.
 * The 16-bit form has two integer sums (hi and lo) and so P = 1. */
#ifndef GLIM_CPU_LINEAR_BODY_AVX512_H
#define GLIM_CPU_LINEAR_BODY_AVX512_H

#include "cpu/linear.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#ifndef AHEAD
#define AHEAD 6144
#endif

typedef uint16_t u16x32 __attribute__((vector_size(64)));

INLINE __m512i shift_right(__m512i v, unsigned n)
{
    return (__m512i)((u16x32)v >> (uint16_t)n);
}

INLINE __m512i shift_left(__m512i v, unsigned n)
{
    return (__m512i)((u16x32)v << (uint16_t)n);
}

INLINE __m512i spread4(const void *p) /* 4 bytes to every lane */
{
    int v;
    memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}

INLINE __m512 f16x16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

INLINE __m512i u8x16(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* The bits above the low plane, moved to their place above it (rotation keeps bytes apart: only bits of one byte end up
 * under the mask). */
INLINE __m512i high_bits(const struct pack_layout *l, const uint8_t *vecs, unsigned s, unsigned t, unsigned j)
{
    struct pack_place at = pack_high(l->shape, s, j);
    if (l->shape == SHAPE_K6)
        at.shift = pack_high(l->shape, t, j).shift;
    __m512i h = _mm512_loadu_si512(vecs + 64 * at.vec);
    if (l->shape == SHAPE_K3 || l->shape == SHAPE_K5) /* the bit depends on s */
        h = _mm512_rolv_epi32(h, _mm512_set1_epi32((int)(l->low_bits - at.shift) & 31));
    else if (at.shift < l->low_bits)
        h = shift_left(h, l->low_bits - at.shift);
    else if (at.shift > l->low_bits)
        h = shift_right(h, at.shift - l->low_bits);
    return _mm512_and_si512(h, _mm512_set1_epi8((char)(((1 << l->high_bits) - 1) << l->low_bits)));
}

/* Quad j of run s: 16 outputs x 4 unsigned integers. */
INLINE __m512i quad(const struct pack_layout *l, const uint8_t *vecs, unsigned s, unsigned t, unsigned j)
{
    struct pack_place at = pack_low(l->shape, s, j);
    at.shift = pack_low(l->shape, t, j).shift;
    __m512i v = _mm512_loadu_si512(vecs + 64 * at.vec);
    if (l->low_bits == 8)
        return v;
    if (at.shift > 0)
        v = shift_right(v, at.shift);
    __m512i mask = _mm512_set1_epi8((char)((1 << l->low_bits) - 1));
    if (l->high_bits)
        return _mm512_ternarylogic_epi32(v, mask, high_bits(l, vecs, s, t, j), 0xEA); /* (v & mask) | high */
    v = _mm512_and_si512(v, mask);
    if (l->levels != LEVELS_LINEAR) {
        const uint8_t *lv = l->levels == LEVELS_IQ4 ? pack_iq4_levels : pack_e2m1_levels;
        v = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)lv)), v);
    }
    return v;
}

/* a and b of group g of a block. */
INLINE void scales(const struct pack_layout *l, const uint8_t *record, unsigned g, __m512 *a, __m512 *b)
{
    *b = _mm512_setzero_ps();
    switch (l->scale) {
    case SCALE_NONE:
        *a = *b;
        break;
    case SCALE_F16_MIN:
        *a = f16x16(record);
        *b = f16x16(record + 32);
        break;
    case SCALE_F16:
        *a = f16x16(record);
        break;
    case SCALE_BF16:
        *a = _mm512_castsi512_ps(_mm512_slli_epi32(
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)record)), 16));
        break;
    case SCALE_I8: {
        __m512i s = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(record + 32 + 16 * g)));
        *a = _mm512_mul_ps(f16x16(record), _mm512_cvtepi32_ps(s));
        break;
    }
    case SCALE_K2: {
        __m512i s = u8x16(record + 64 + 16 * g);
        *a = _mm512_mul_ps(f16x16(record), _mm512_cvtepi32_ps(_mm512_and_si512(s, _mm512_set1_epi32(15))));
        *b = _mm512_mul_ps(f16x16(record + 32), _mm512_cvtepi32_ps(_mm512_srli_epi32(s, 4)));
        break;
    }
    case SCALE_K4:
        *a = _mm512_mul_ps(f16x16(record), _mm512_cvtepi32_ps(u8x16(record + 64 + 32 * g)));
        *b = _mm512_mul_ps(f16x16(record + 32), _mm512_cvtepi32_ps(u8x16(record + 80 + 32 * g)));
        break;
    case SCALE_E4M3: { /* the seven bits are an f16 of 2^-8 the value; times 2^8 and the half of E2M1's view */
        __m256i h = _mm256_slli_epi16(
            _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(record + 16 * g))), 7);
        *a = _mm512_mul_ps(_mm512_cvtph_ps(h), _mm512_set1_ps(128.0f));
        break;
    }
    }
    if (l->scale == SCALE_K2 || l->scale == SCALE_K4)
        *b = _mm512_xor_ps(*b, _mm512_set1_ps(-0.0f));
}

/* + bias, + y, store the lanes there are. */
INLINE void finish(const struct linear_args *a, uint32_t panel, const __m512 *acc, const int R)
{
    uint32_t first = panel * PANEL, n = a->n_out - first;
    __mmask16 m = (__mmask16)(n >= PANEL ? 0xFFFF : (1U << n) - 1);
    UNROLL
    for (int r = 0; r < R; r++) {
        float *y = a->y + (size_t)r * a->y_stride + first;
        __m512 v = acc[r];
        if (a->bias)
            v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, a->bias + first));
        if (a->add)
            v = _mm512_add_ps(_mm512_maskz_loadu_ps(m, y), v);
        _mm512_mask_storeu_ps(y, m, v);
    }
}

/* P panels from `panel` on, R rows. */
INLINE void panels(const struct linear_args *a, const struct pack_layout *l, uint32_t panel, const int R, const int P,
                   const bool wide)
{
    const bool has_min = pack_has_min(l);
    const unsigned n_run = l->block / RUN, n_group = RUN / l->group, quads = l->group / 4U;
    const unsigned PER = l->shape == SHAPE_K4 || l->shape == SHAPE_K5 ? 2 : l->shape == SHAPE_K2 || l->shape == SHAPE_K3 || l->shape == SHAPE_K6 ? 4 : 1;
    const unsigned run_bytes = l->q_bytes / n_run;
    const uint8_t *record = a->panel + panel * a->panel_bytes, *vecs = record + a->q_offset;
    const int8_t *x = a->hi, *x_lo = a->lo;
    const float *d = a->d;
    const uint8_t *sum = a->sum;
    __m512 acc[2][TILE_MAX];
    UNROLL
    for (int i = 0; i < P * R; i++)
        acc[i / R][i % R] = _mm512_setzero_ps();
    for (uint32_t b = a->n_in / l->block; b > 0; b--, record += l->scale_bytes, vecs += l->q_bytes)
        for (unsigned s0 = 0; s0 < n_run; s0 += PER) UNROLL for (unsigned t = 0; t < PER; t++, x += R * RUN, x_lo += wide ? R * RUN : 0, d += R) { const unsigned s = s0 + t;
            UNROLL
            for (unsigned h = 0; h < n_group; h++, sum += 4 * R) {
                __m512i isum[2][TILE_MAX], top[TILE_MAX];
                UNROLL
                for (int i = 0; i < P * R; i++) {
                    isum[i / R][i % R] = has_min ? _mm512_setzero_si512() : spread4(sum + 4 * (i % R));
                    if (wide)
                        top[i] = _mm512_setzero_si512();
                }
                UNROLL
                for (unsigned j = h * quads; j < (h + 1) * quads; j++) {
                    __m512i w[2];
                    UNROLL
                    for (int p = 0; p < P; p++)
                        w[p] = quad(l, vecs + (size_t)p * a->panel_bytes, s, t, j);
                    UNROLL
                    for (int r = 0; r < R; r++) {
                        __m512i q = spread4((wide ? x_lo : x) + r * RUN + 4 * j);
                        UNROLL
                        for (int p = 0; p < P; p++)
                            isum[p][r] = _mm512_dpbusd_epi32(isum[p][r], w[p], q);
                        if (wide)
                            top[r] = _mm512_dpbusd_epi32(top[r], w[0], spread4(x + r * RUN + 4 * j));
                    }
                }
                UNROLL
                for (int p = 0; p < P; p++) {
                    __m512 ga, gb;
                    scales(l, record + (size_t)p * a->panel_bytes, s * n_group + h, &ga, &gb);
                    UNROLL
                    for (int r = 0; r < R; r++) {
                        if (wide)
                            isum[p][r] = _mm512_add_epi32(isum[p][r], _mm512_slli_epi32(top[r], 8));
                        acc[p][r] = _mm512_fmadd_ps(_mm512_mul_ps(ga, _mm512_set1_ps(d[r])),
                                                    _mm512_cvtepi32_ps(isum[p][r]), acc[p][r]);
                        if (has_min)
                            acc[p][r] = _mm512_fmadd_ps(gb, _mm512_castsi512_ps(spread4(sum + 4 * r)), acc[p][r]);
                    }
                }
            }
            if (R == 1) {
                for (unsigned i = 0; i < run_bytes; i += 64)
                    _mm_prefetch((const char *)vecs + AHEAD + s * run_bytes + i, _MM_HINT_T0);
            } else {
                for (size_t p = (size_t)P; p < 2 * (size_t)P; p++)
                    for (unsigned i = 0; i < run_bytes; i += 64)
                        _mm_prefetch((const char *)vecs + p * a->panel_bytes + s * run_bytes + i, _MM_HINT_T1);
            }
        }
    UNROLL
    for (int p = 0; p < P; p++)
        finish(a, panel + (uint32_t)p, acc[p], R);
}

INLINE void product_quant(const struct linear_args *a, const struct pack_layout *l, const int R, const bool wide)
{
    uint32_t p = 0;
    if (R == TILE_MAX && !wide)
        for (; p + 2 <= a->n_panel; p += 2)
            panels(a, l, p, R, 2, wide);
    for (; p < a->n_panel; p++)
        panels(a, l, p, R, 1, wide);
}

#define ONE(id, R, wide)                                                                                               \
    static void product_##id##_##R##_##wide(const struct linear_args *a)                                               \
    {                                                                                                                  \
        product_quant(a, &pack_layouts[PACK_##id], R, wide);                                                           \
    }
#define ALL(id) ONE(id, 1, 0) ONE(id, 2, 0) ONE(id, 4, 0) ONE(id, 6, 0) ONE(id, 1, 1) ONE(id, 2, 1) ONE(id, 4, 1) ONE(id, 6, 1)
#define ROW(id)                                                                                                        \
    {                                                                                                                  \
        {product_##id##_1_0, product_##id##_2_0, product_##id##_4_0, product_##id##_6_0},                              \
        {                                                                                                              \
            product_##id##_1_1, product_##id##_2_1, product_##id##_4_1, product_##id##_6_1                             \
        }                                                                                                              \
    }

#endif
