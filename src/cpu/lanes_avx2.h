/* Sixteen f32 lanes on AVX2 with FMA and F16C: two registers. See lanes_generic.h for what each function means. */
#ifndef GLIM_CPU_LANES_AVX2_H
#define GLIM_CPU_LANES_AVX2_H

#include "op/op.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define LANES_INLINE  static inline __attribute__((always_inline))
#define LANES_NAME(x) x##_avx2
enum {
    LANES_TILE_Q = 6,
    LANES_ACC = 6
}; /* queries and accumulators of a register tile: 12 of the 16 registers; the rest hold a broadcast and two halves of
      an operand */

typedef struct {
    __m256 a, b; /* lanes 0-7, 8-15 */
} vf;

#define LANES_EACH(f, x)    ((vf){f((x).a), f((x).b)})
#define LANES_PAIR(f, x, y) ((vf){f((x).a, (y).a), f((x).b, (y).b)})

LANES_INLINE vf v_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

/* All ones in the lanes below n, of those from `from` on. */
LANES_INLINE __m256i first8(size_t n, int from)
{
    __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(from));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n < 16 ? n : 16)), lane);
}

LANES_INLINE vf v_load_n(const float *p, size_t n)
{
    return (vf){_mm256_maskload_ps(p, first8(n, 0)), _mm256_maskload_ps(p + 8, first8(n, 8))};
}

LANES_INLINE void v_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}

LANES_INLINE void v_store_n(float *p, vf x, size_t n)
{
    _mm256_maskstore_ps(p, first8(n, 0), x.a);
    _mm256_maskstore_ps(p + 8, first8(n, 8), x.b);
}

LANES_INLINE vf v_load_f16(const uint16_t *p)
{
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 8)))};
}

LANES_INLINE __m256 bf16_8(const uint16_t *p)
{
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

LANES_INLINE vf v_load_bf16(const uint16_t *p)
{
    return (vf){bf16_8(p), bf16_8(p + 8)};
}

LANES_INLINE vf v_load_f16_n(const uint16_t *p, size_t n)
{
    uint16_t t[16] = {0};
    memcpy(t, p, (n < 16 ? n : 16) * sizeof *t);
    return v_load_f16(t);
}

LANES_INLINE vf v_load_bf16_n(const uint16_t *p, size_t n)
{
    uint16_t t[16] = {0};
    memcpy(t, p, (n < 16 ? n : 16) * sizeof *t);
    return v_load_bf16(t);
}

LANES_INLINE void v_store_f16_n(uint16_t *p, vf x, size_t n)
{
    uint16_t t[16];
    _mm_storeu_si128((__m128i *)(void *)t, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(void *)(t + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
    memcpy(p, t, (n < 16 ? n : 16) * sizeof *t);
}

/* The rounded upper half of each f32, as 32-bit integers. */
LANES_INLINE __m256i bf16_round8(__m256 x)
{
    __m256i u = _mm256_castps_si256(x), high = _mm256_srli_epi32(u, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i r = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7FFF)), odd), 16);
    __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(r, nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

LANES_INLINE void v_store_bf16_n(uint16_t *p, vf x, size_t n)
{
    uint16_t t[16];
    __m256i r = _mm256_packus_epi32(bf16_round8(x.a), bf16_round8(x.b)); /* 128-bit lanes: a0 b0 a1 b1 */
    _mm256_storeu_si256((__m256i *)(void *)t, _mm256_permute4x64_epi64(r, 0xD8));
    memcpy(p, t, (n < 16 ? n : 16) * sizeof *t);
}

LANES_INLINE vf v_set(float x)
{
    return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

LANES_INLINE vf v_add(vf x, vf y)
{
    return LANES_PAIR(_mm256_add_ps, x, y);
}

LANES_INLINE vf v_sub(vf x, vf y)
{
    return LANES_PAIR(_mm256_sub_ps, x, y);
}

LANES_INLINE vf v_mul(vf x, vf y)
{
    return LANES_PAIR(_mm256_mul_ps, x, y);
}

LANES_INLINE vf v_div(vf x, vf y)
{
    return LANES_PAIR(_mm256_div_ps, x, y);
}

LANES_INLINE vf v_fma(vf x, vf y, vf z)
{
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

LANES_INLINE vf v_max(vf x, vf y)
{
    return LANES_PAIR(_mm256_max_ps, x, y);
}

LANES_INLINE vf v_min(vf x, vf y)
{
    return LANES_PAIR(_mm256_min_ps, x, y);
}

LANES_INLINE vf v_rint(vf x)
{
    return (vf){_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

LANES_INLINE vf v_neg(vf x)
{
    vf sign = v_set(-0.0f);
    return LANES_PAIR(_mm256_xor_ps, x, sign);
}

LANES_INLINE vf v_abs(vf x)
{
    vf sign = v_set(-0.0f);
    return LANES_PAIR(_mm256_andnot_ps, sign, x);
}

LANES_INLINE vf v_copysign(vf x, vf s)
{
    vf sign = v_set(-0.0f), mag = v_abs(x), bit = LANES_PAIR(_mm256_and_ps, s, sign);
    return LANES_PAIR(_mm256_or_ps, mag, bit);
}

LANES_INLINE vf v_lt_select(vf x, vf y, vf yes, vf no)
{
    return (vf){_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
                _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}

LANES_INLINE __m256 pow2_8(__m256 n)
{
    __m256i i = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(i, 23));
}

LANES_INLINE vf v_pow2(vf n)
{
    return LANES_EACH(pow2_8, n);
}

LANES_INLINE uint32_t v_gt_bits(vf x, vf y)
{
    uint32_t a = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ));
    uint32_t b = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ));
    return a | b << 8;
}

/* Eight lanes of all ones where the bit is set. */
LANES_INLINE __m256 mask8(uint32_t bits)
{
    __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i on = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), bit), bit);
    return _mm256_castsi256_ps(on);
}

LANES_INLINE float v_max_of(uint32_t bits, vf x)
{
    __m256 none = _mm256_set1_ps(-INFINITY);
    __m256 m8 = _mm256_max_ps(_mm256_blendv_ps(none, x.a, mask8(bits)), _mm256_blendv_ps(none, x.b, mask8(bits >> 8)));
    __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

LANES_INLINE vf v_keep(uint32_t bits, vf x)
{
    return (vf){_mm256_and_ps(mask8(bits), x.a), _mm256_and_ps(mask8(bits >> 8), x.b)};
}

LANES_INLINE float v_sum(vf x)
{
    __m256 s8 = _mm256_add_ps(x.a, x.b);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* Eight pairs: even and odd members, in order. */
LANES_INLINE void unzip8(const float *p, __m256 *even, __m256 *odd)
{
    __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps(p + 8);
    __m256 e = _mm256_shuffle_ps(a, b, 0x88), o = _mm256_shuffle_ps(a, b, 0xDD); /* a0 b0 a1 b1 by pairs of floats */
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(e), 0xD8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(o), 0xD8));
}

LANES_INLINE void v_unzip(const float *p, vf *even, vf *odd)
{
    unzip8(p, &even->a, &odd->a);
    unzip8(p + 16, &even->b, &odd->b);
}

LANES_INLINE void zip8(float *p, __m256 even, __m256 odd)
{
    __m256 lo = _mm256_unpacklo_ps(even, odd), hi = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(lo, hi, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(lo, hi, 0x31));
}

LANES_INLINE void v_zip(float *p, vf even, vf odd)
{
    zip8(p, even.a, odd.a);
    zip8(p + 16, even.b, odd.b);
}

#endif
