/* Sixteen f32 lanes on AVX-512: one register. See lanes_generic.h for what each function means. */
#ifndef GLIM_CPU_LANES_AVX512_H
#define GLIM_CPU_LANES_AVX512_H

#include "op/op.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

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

/* ---- base 2 ---- */

LANES_INLINE vf v_scale2(vf p, vf n)
{
    return _mm512_scalef_ps(p, n);
}

LANES_INLINE void v_split(vf a, vf *m, vf *e)
{
    *e = _mm512_getexp_ps(a);
    *m = _mm512_getmant_ps(a, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
}

/* ---- sixteen vectors at once ---- */

/* Lane i of the result is op over the lanes of a[i]. */
#define LANES_TREE(name, type, in, op, out)                                                                            \
    LANES_INLINE type name(const type a[16])                                                                           \
    {                                                                                                                  \
        __m512i t[8], u[4], v[2];                                                                                      \
        for (int i = 0; i < 8; i++)                                                                                    \
            t[i] = op(_mm512_unpacklo_epi32(in(a[2 * i]), in(a[2 * i + 1])),                                           \
                      _mm512_unpackhi_epi32(in(a[2 * i]), in(a[2 * i + 1])));                                          \
        for (int i = 0; i < 4; i++)                                                                                    \
            u[i] = op(_mm512_unpacklo_epi64(t[2 * i], t[2 * i + 1]), _mm512_unpackhi_epi64(t[2 * i], t[2 * i + 1]));   \
        for (int i = 0; i < 2; i++)                                                                                    \
            v[i] = op(_mm512_shuffle_i32x4(u[2 * i], u[2 * i + 1], 0x44),                                              \
                      _mm512_shuffle_i32x4(u[2 * i], u[2 * i + 1], 0xEE));                                             \
        return out(op(_mm512_shuffle_i32x4(v[0], v[1], 0x88), _mm512_shuffle_i32x4(v[0], v[1], 0xDD)));                \
    }
#define LANES_SAME(x)      (x)
#define LANES_MAX_PS(x, y) _mm512_castps_si512(_mm512_max_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y)))
LANES_INLINE __m512i magnitude(__m512 a)
{
    return _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7FFFFFFF));
}

LANES_TREE(v_tops, vf, _mm512_castps_si512, LANES_MAX_PS, _mm512_castsi512_ps)
LANES_TREE(v_peaks, vf, _mm512_castps_si512, _mm512_max_epu32, _mm512_castsi512_ps)

LANES_INLINE vf v_larger(vf a, vf b)
{
    return _mm512_castsi512_ps(_mm512_max_epu32(magnitude(a), magnitude(b)));
}

LANES_INLINE vf v_hide(uint32_t bits, vf a)
{
    return _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), (__mmask16)bits, a);
}

/* A product with +-1 is exact, so the fma is the sum or the difference. */
LANES_INLINE vf v_butterfly(vf a, const int h)
{
    vf other = h == 8   ? _mm512_shuffle_f32x4(a, a, 0x4E)
               : h == 4 ? _mm512_shuffle_f32x4(a, a, 0xB1)
               : h == 2 ? _mm512_permute_ps(a, 0x4E)
                        : _mm512_permute_ps(a, 0xB1);
    const __mmask16 minus = h == 8 ? 0xFF00 : h == 4 ? 0xF0F0 : h == 2 ? 0xCCCC : 0xAAAA;
    return _mm512_fmadd_ps(a, _mm512_mask_mov_ps(_mm512_set1_ps(1), minus, _mm512_set1_ps(-1)), other);
}

/* ---- integers ---- */

enum { LANES_INT_Q = 6, LANES_INT_ACC = 12, LANES_INT_SUM = 24 };

/* All have the type of the dot instruction's sums: where types differ gcc copies registers and repeats loads. */
typedef int vi __attribute__((vector_size(64)));
typedef vi vu, vs;

LANES_INLINE vi vi_set(int32_t x)
{
    return (vi)_mm512_set1_epi32(x);
}

LANES_INLINE vi vi_load(const int32_t *p)
{
    return (vi)_mm512_loadu_si512(p);
}

LANES_INLINE void vi_store(int32_t *p, vi a)
{
    _mm512_storeu_si512(p, (__m512i)a);
}

LANES_INLINE vi vi_add(vi a, vi b)
{
    return a + b;
}

LANES_INLINE vf vi_float(vi a)
{
    return _mm512_cvtepi32_ps((__m512i)a);
}

LANES_INLINE vu vu_load(const void *p)
{
    vu x;
    memcpy(&x, p, sizeof x);
    return x;
}

LANES_INLINE vs vs_load(const void *p)
{
    return vu_load(p);
}

LANES_INLINE vu vu_spread(const void *p)
{
    int x;
    memcpy(&x, p, sizeof x);
    return vi_set(x);
}

LANES_INLINE vs vs_spread(const void *p)
{
    return vu_spread(p);
}

LANES_INLINE vi vi_dot(vi a, vu u, vs s)
{
    return (vi)_mm512_dpbusd_epi32((__m512i)a, (__m512i)u, (__m512i)s);
}

#define LANES_AS_VI(x)  ((vi)(x))
#define LANES_AS_512(x) ((__m512i)(x))
LANES_TREE(vi_sums, vi, LANES_AS_512, _mm512_add_epi32, LANES_AS_VI)

LANES_INLINE vi vi_round(vf a)
{
    return (vi)_mm512_cvtps_epi32(a);
}

/* A 4 x 4 transposition of 32-bit lanes: packing works by quarters of the register. */
LANES_INLINE __m512i transpose4(__m512i v)
{
    return _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0), v);
}

LANES_INLINE void vi_bytes64(uint8_t *p, const vi a[4])
{
    __m512i x = _mm512_packus_epi16(_mm512_packs_epi32((__m512i)a[0], (__m512i)a[1]),
                                    _mm512_packs_epi32((__m512i)a[2], (__m512i)a[3]));
    _mm512_storeu_si512(p, transpose4(x));
}

LANES_INLINE void vi_bytes32(int8_t *p, vi a, vi b)
{
    __m512i x = _mm512_packs_epi32((__m512i)a, (__m512i)b);
    x = transpose4(_mm512_packs_epi16(x, x));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_castsi512_si256(x));
}

/* After packing, a quarter of the register holds four bytes of each: a 4 x 4 transposition of bytes. */
LANES_INLINE void vi_zip4(int8_t *p, const vi a[4])
{
    __m512i x = _mm512_packs_epi16(_mm512_packs_epi32((__m512i)a[0], (__m512i)a[1]),
                                   _mm512_packs_epi32((__m512i)a[2], (__m512i)a[3]));
    __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(p, _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order)));
}

#endif
