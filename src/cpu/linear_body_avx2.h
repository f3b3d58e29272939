/* What the AVX2 products share: reading packed panels, and writing results. A panel's vector is two registers: half 0
 * holds outputs 0..7, half 1 outputs 8..15. Everything is inlined with a constant layout, so that pack_low and the
 * switches below fold away. */
#ifndef GLIM_CPU_LINEAR_BODY_AVX2_H
#define GLIM_CPU_LINEAR_BODY_AVX2_H

#include "cpu/linear.h"
#include "cpu/unroll.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

extern linear_unpack *const linear_unpack_avx2[PACK_COUNT];
extern linear_product *const linear_row_avx2[PACK_COUNT];
linear_product *linear_tile_avx2(const struct pack_layout *l);
/* + bias, + y, store the lanes there are of tile row `row`. Not inlined: it would be most of the code. */
void linear_finish_avx2(const struct linear_args *a, uint32_t panel, uint32_t row, __m256 acc0, __m256 acc1);
void linear_encode_avx2(const float *x, size_t n, float cap, const struct linear_encoded *to);
void linear_sums_avx2(const struct pack_layout *l, const float *d, const int32_t *sum16, size_t n_block, uint32_t *to,
                      size_t stride);

typedef uint16_t u16x16 __attribute__((vector_size(32)));

INLINE __m256i shift_right(__m256i v, unsigned n)
{
    return (__m256i)((u16x16)v >> (uint16_t)n);
}

INLINE __m256i shift_left(__m256i v, unsigned n)
{
    return (__m256i)((u16x16)v << (uint16_t)n);
}

INLINE __m256i load32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

INLINE __m128i load8(const uint8_t *p)
{
    return _mm_loadl_epi64((const __m128i *)(const void *)p);
}

INLINE __m256i spread4(const void *p)
{
    int v;
    memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}

/* ---- integers ---- (s and t: pack_sharing) */

INLINE __m256i high_bits(const struct pack_layout *l, const uint8_t *vecs, unsigned s, unsigned t, unsigned j,
                         unsigned half)
{
    bool eight = l->shape == SHAPE_K3 || l->shape == SHAPE_K5; /* runs in a byte */
    unsigned shift = pack_high(l->shape, eight ? s : t, j).shift;
    __m256i h = load32(vecs + 64 * pack_high(l->shape, s, j).vec + 32 * half);
    h = _mm256_and_si256(shift_right(h, shift), _mm256_set1_epi8((char)((1 << l->high_bits) - 1)));
    return shift_left(h, l->low_bits);
}

/* Quad j, outputs 8 half … 8 half + 7: unsigned integers. */
INLINE __m256i quad(const struct pack_layout *l, const uint8_t *vecs, unsigned s, unsigned t, unsigned j, unsigned half)
{
    unsigned shift = pack_low(l->shape, t, j).shift;
    __m256i v = load32(vecs + 64 * pack_low(l->shape, s, j).vec + 32 * half);
    if (l->low_bits == 8)
        return v;
    if (shift > 0)
        v = shift_right(v, shift);
    v = _mm256_and_si256(v, _mm256_set1_epi8((char)((1 << l->low_bits) - 1)));
    if (l->high_bits)
        v = _mm256_or_si256(v, high_bits(l, vecs, s, t, j, half));
    if (l->levels == LEVELS_LINEAR)
        return v;
    return _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(load16(l->levels == LEVELS_IQ4 ? pack_iq4_levels : pack_e2m1_levels)), v);
}

/* Bits of the stored integers. Larger than 6: products do not fit 16 bits in pairs, and they are cut into nibbles. */
INLINE unsigned stored_bits(const struct pack_layout *l)
{
    return l->levels == LEVELS_IQ4 ? 8 : l->levels == LEVELS_E2M1 ? 5 : l->low_bits + l->high_bits;
}

/* Quads whose vpmaddubsw results can be added in 16 bits: with activations of at most 128 in magnitude, 8 for integers
 * up to 15, 4 up to 31, 2 up to 63. */
INLINE unsigned chain_quads(unsigned bits, unsigned quads)
{
    unsigned fit = bits > 6 || bits <= 4 ? 8 : bits == 5 ? 4 : 2;
    return fit < quads ? fit : quads;
}

/* ---- scales ---- */

INLINE __m256 f16x8(const uint8_t *p)
{
    return _mm256_cvtph_ps(load16(p));
}

INLINE __m256 u8x8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load8(p)));
}

/* a and b of group g, outputs 8 half … 8 half + 7. */
INLINE void scales(const struct pack_layout *l, const uint8_t *record, unsigned g, unsigned half, __m256 *a, __m256 *b)
{
    const uint8_t *d = record + 16 * half, *m = d + 32, *parts = record + 8 * half;
    *b = _mm256_setzero_ps();
    switch (l->scale) {
    case SCALE_NONE:
        *a = *b;
        break;
    case SCALE_F16_MIN:
        *a = f16x8(d);
        *b = f16x8(m);
        break;
    case SCALE_F16:
        *a = f16x8(d);
        break;
    case SCALE_BF16:
        *a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(d)), 16));
        break;
    case SCALE_I8:
        *a = _mm256_mul_ps(f16x8(d), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8(parts + 32 + 16 * g))));
        break;
    case SCALE_K2: {
        __m256i s = _mm256_cvtepu8_epi32(load8(parts + 64 + 16 * g));
        *a = _mm256_mul_ps(f16x8(d), _mm256_cvtepi32_ps(_mm256_and_si256(s, _mm256_set1_epi32(15))));
        *b = _mm256_mul_ps(f16x8(m), _mm256_cvtepi32_ps(_mm256_srli_epi32(s, 4)));
        break;
    }
    case SCALE_K4:
        *a = _mm256_mul_ps(f16x8(d), u8x8(parts + 64 + 32 * g));
        *b = _mm256_mul_ps(f16x8(m), u8x8(parts + 80 + 32 * g));
        break;
    case SCALE_E4M3: /* the seven bits are an f16 of 2^-8 the value; times 2^8 and the half of E2M1's view */
        *a = _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(load8(parts + 16 * g)), 7)),
                           _mm256_set1_ps(128.0f));
        break;
    }
    if (l->scale == SCALE_K2 || l->scale == SCALE_K4)
        *b = _mm256_xor_ps(*b, _mm256_set1_ps(-0.0f));
}

#endif
