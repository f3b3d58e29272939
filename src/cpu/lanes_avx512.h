/* Sixteen f32 lanes on AVX-512: one register. See lanes_generic.h for what each function means. */
#ifndef GLIM_CPU_LANES_AVX512_H
#define GLIM_CPU_LANES_AVX512_H

#include "op/op.h"

#include <immintrin.h>
#include <math.h>

#define LANES_INLINE  static inline __attribute__((always_inline))
#define LANES_NAME(x) x##_avx512
enum { LANES_TILE_Q = 6, LANES_ACC = 24 }; /* queries and accumulators of a register tile */

typedef __m512 vf;

LANES_INLINE __mmask16 v_first(size_t n)
{
    return (__mmask16)_bzhi_u32(0xFFFF, (uint32_t)n);
}

LANES_INLINE vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

LANES_INLINE vf v_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(v_first(n), p);
}

LANES_INLINE void v_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

LANES_INLINE void v_store_n(float *p, vf a, size_t n)
{
    _mm512_mask_storeu_ps(p, v_first(n), a);
}

LANES_INLINE vf v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

LANES_INLINE vf v_load_bf16(const uint16_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

LANES_INLINE vf v_load_f16_n(const uint16_t *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p));
}

LANES_INLINE vf v_load_bf16_n(const uint16_t *p, size_t n)
{
    __m256i h = _mm256_maskz_loadu_epi16(v_first(n), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

LANES_INLINE void v_store_f16_n(uint16_t *p, vf a, size_t n)
{
    _mm256_mask_storeu_epi16(p, v_first(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

/* Integer rounding rather than the bf16 instruction, which flushes subnormals. */
LANES_INLINE void v_store_bf16_n(uint16_t *p, vf a, size_t n)
{
    __m512i u = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd), 16);
    __m512i nan = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
    r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), nan);
    _mm256_mask_storeu_epi16(p, v_first(n), _mm512_cvtepi32_epi16(r));
}

LANES_INLINE vf v_set(float x)
{
    return _mm512_set1_ps(x);
}

LANES_INLINE vf v_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

LANES_INLINE vf v_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

LANES_INLINE vf v_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

LANES_INLINE vf v_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

LANES_INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

LANES_INLINE vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

LANES_INLINE vf v_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

LANES_INLINE vf v_rint(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

LANES_INLINE vf v_neg(vf a)
{
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}

LANES_INLINE vf v_abs(vf a)
{
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}

LANES_INLINE vf v_copysign(vf a, vf sign)
{
    return _mm512_or_ps(v_abs(a), _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}

LANES_INLINE vf v_lt_select(vf a, vf b, vf yes, vf no)
{
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), yes);
}

LANES_INLINE vf v_pow2(vf n)
{
    __m512i i = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(i, 23));
}

LANES_INLINE uint32_t v_gt_bits(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

LANES_INLINE float v_max_of(uint32_t bits, vf a)
{
    a = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), (__mmask16)bits, a);
    __m256 m8 = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

LANES_INLINE vf v_keep(uint32_t bits, vf a)
{
    return _mm512_maskz_mov_ps((__mmask16)bits, a);
}

LANES_INLINE float v_sum(vf a)
{
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

LANES_INLINE void v_unzip(const float *p, vf *even, vf *odd)
{
    __m512i e = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    vf a = v_load(p), b = v_load(p + 16);
    *even = _mm512_permutex2var_ps(a, e, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(e, _mm512_set1_epi32(1)), b);
}

LANES_INLINE void v_zip(float *p, vf even, vf odd)
{
    __m512i lo = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    v_store(p, _mm512_permutex2var_ps(even, lo, odd));
    v_store(p + 16, _mm512_permutex2var_ps(even, _mm512_add_epi32(lo, _mm512_set1_epi32(8)), odd));
}

#endif
