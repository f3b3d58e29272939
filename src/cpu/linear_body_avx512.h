/* What the AVX-512 products share: reading packed panels, and writing results. Everything is inlined with a constant
 * layout, so that pack_low and the switches below fold away. */
#ifndef GLIM_CPU_LINEAR_BODY_AVX512_H
#define GLIM_CPU_LINEAR_BODY_AVX512_H

#include "cpu/linear.h"
#include "cpu/unroll.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

extern linear_unpack *const linear_unpack_avx512[PACK_COUNT];
extern linear_product *const linear_row_avx512[PACK_COUNT];
linear_product *linear_tile_avx512(const struct pack_layout *l, unsigned slot);
void linear_encode_avx512(const float *x, size_t n, float cap, const struct linear_encoded *to);
void linear_sums_avx512(const struct pack_layout *l, const float *d, const int32_t *sum16, size_t n_block, uint32_t *to,
                        size_t stride);

/* Index of a tile size in the tables: 1, 2, 4, 6. */
INLINE unsigned tile_slot(uint32_t rows)
{
    return rows == 6 ? 3 : rows / 2;
}

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

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

INLINE __m512 f16x16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

INLINE __m512 bf16x16(const uint8_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* ---- integers ---- (s and t: pack_sharing) */

/* The bits above the low plane, moved to their place above it. A rotation may cross bytes, but under the mask are only
 * bits of the right one. */
INLINE __m512i high_bits(const struct pack_layout *l, const uint8_t *vecs, unsigned s, unsigned t, unsigned j)
{
    unsigned shift = pack_high(l->shape, t, j).shift;
    __m512i h = _mm512_loadu_si512(vecs + 64 * pack_high(l->shape, s, j).vec);
    if (l->shape == SHAPE_K3 || l->shape == SHAPE_K5) /* eight runs in a byte */
        h = _mm512_rolv_epi32(h, _mm512_set1_epi32((int)(l->low_bits - s) & 31));
    else if (shift < l->low_bits)
        h = shift_left(h, l->low_bits - shift);
    else if (shift > l->low_bits)
        h = shift_right(h, shift - l->low_bits);
    return _mm512_and_si512(h, _mm512_set1_epi8((char)(((1 << l->high_bits) - 1) << l->low_bits)));
}

/* Quad j: 16 outputs x 4 unsigned integers. */
INLINE __m512i quad(const struct pack_layout *l, const uint8_t *vecs, unsigned s, unsigned t, unsigned j)
{
    unsigned shift = pack_low(l->shape, t, j).shift;
    __m512i v = _mm512_loadu_si512(vecs + 64 * pack_low(l->shape, s, j).vec);
    if (l->low_bits == 8)
        return v;
    if (shift > 0)
        v = shift_right(v, shift);
    __m512i mask = _mm512_set1_epi8((char)((1 << l->low_bits) - 1));
    if (l->high_bits)
        return _mm512_ternarylogic_epi32(v, mask, high_bits(l, vecs, s, t, j), 0xEA); /* (v & mask) | high */
    v = _mm512_and_si512(v, mask);
    if (l->levels == LEVELS_LINEAR)
        return v;
    return _mm512_shuffle_epi8(
        _mm512_broadcast_i32x4(load16(l->levels == LEVELS_IQ4 ? pack_iq4_levels : pack_e2m1_levels)), v);
}

/* ---- scales: a and b of group g of a block ---- */

INLINE void scales(const struct pack_layout *l, const uint8_t *record, unsigned g, __m512 *a, __m512 *b)
{
    __m512 minus = _mm512_set1_ps(-0.0f);
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
        *a = bf16x16(record);
        break;
    case SCALE_I8:
        *a = _mm512_mul_ps(f16x16(record), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16(record + 32 + 16 * g))));
        break;
    case SCALE_K2: {
        __m512i s = _mm512_cvtepu8_epi32(load16(record + 64 + 16 * g));
        *a = _mm512_mul_ps(f16x16(record), _mm512_cvtepi32_ps(_mm512_and_si512(s, _mm512_set1_epi32(15))));
        *b = _mm512_mul_ps(f16x16(record + 32), _mm512_cvtepi32_ps(_mm512_srli_epi32(s, 4)));
        *b = _mm512_xor_ps(*b, minus);
        break;
    }
    case SCALE_K4:
        *a = _mm512_mul_ps(f16x16(record), _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load16(record + 64 + 32 * g))));
        *b = _mm512_mul_ps(f16x16(record + 32), _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load16(record + 80 + 32 * g))));
        *b = _mm512_xor_ps(*b, minus);
        break;
    case SCALE_E4M3: /* the seven bits are an f16 of 2^-8 the value; times 2^8 and the half of E2M1's view */
        *a = _mm512_mul_ps(_mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(load16(record + 16 * g)), 7)),
                           _mm512_set1_ps(128.0f));
        break;
    }
}

/* ---- results: + bias, + y, store the lanes there are ---- */

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

#endif
