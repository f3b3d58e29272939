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

/* ---- base 2 ---- */

LANES_INLINE vf v_scale2(vf p, vf n)
{
    return v_mul(p, v_pow2(n));
}

LANES_INLINE __m256 exponent8(__m256 x)
{
    __m256i e = _mm256_srli_epi32(_mm256_castps_si256(x), 23);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(e, _mm256_set1_epi32(127)));
}

LANES_INLINE __m256 mantissa8(__m256 x)
{
    __m256i m = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFF));
    return _mm256_castsi256_ps(_mm256_or_si256(m, _mm256_set1_epi32(0x3F800000)));
}

LANES_INLINE void v_split(vf x, vf *m, vf *e)
{
    *e = LANES_EACH(exponent8, x);
    *m = LANES_EACH(mantissa8, x);
}

/* ---- sixteen vectors at once ---- */

/* Lane i of the result is op over the lanes of a[i]; each vector's two halves are joined first. */
#define LANES_TREE(name, type, in, op, out)                                                                            \
    LANES_INLINE __m256i name##_8(const type a[8])                                                                     \
    {                                                                                                                  \
        __m256i h[8], t[4], u[2];                                                                                      \
        for (int i = 0; i < 8; i++)                                                                                    \
            h[i] = op(in(a[i].a), in(a[i].b));                                                                         \
        for (int i = 0; i < 4; i++)                                                                                    \
            t[i] = op(_mm256_unpacklo_epi32(h[2 * i], h[2 * i + 1]), _mm256_unpackhi_epi32(h[2 * i], h[2 * i + 1]));   \
        for (int i = 0; i < 2; i++)                                                                                    \
            u[i] = op(_mm256_unpacklo_epi64(t[2 * i], t[2 * i + 1]), _mm256_unpackhi_epi64(t[2 * i], t[2 * i + 1]));   \
        return op(_mm256_permute2x128_si256(u[0], u[1], 0x20), _mm256_permute2x128_si256(u[0], u[1], 0x31));           \
    }                                                                                                                  \
    LANES_INLINE type name(const type a[16])                                                                           \
    {                                                                                                                  \
        return (type){out(name##_8(a)), out(name##_8(a + 8))};                                                         \
    }
#define LANES_SAME(x)      (x)
#define LANES_MAX_PS(x, y) _mm256_castps_si256(_mm256_max_ps(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y)))
LANES_INLINE __m256i magnitude(__m256 a)
{
    return _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7FFFFFFF));
}

LANES_TREE(v_tops, vf, _mm256_castps_si256, LANES_MAX_PS, _mm256_castsi256_ps)
LANES_TREE(v_peaks, vf, _mm256_castps_si256, _mm256_max_epu32, _mm256_castsi256_ps)

LANES_INLINE __m256 larger8(__m256 a, __m256 b)
{
    return _mm256_castsi256_ps(_mm256_max_epu32(magnitude(a), magnitude(b)));
}

LANES_INLINE vf v_larger(vf a, vf b)
{
    return LANES_PAIR(larger8, a, b);
}

LANES_INLINE vf v_hide(uint32_t bits, vf a)
{
    __m256 none = _mm256_set1_ps(-INFINITY);
    return (vf){_mm256_blendv_ps(none, a.a, mask8(bits)), _mm256_blendv_ps(none, a.b, mask8(bits >> 8))};
}

LANES_INLINE __m256 butterfly8(__m256 a, const int h)
{
    __m256 other = h == 4   ? _mm256_permute2f128_ps(a, a, 0x01)
                   : h == 2 ? _mm256_permute_ps(a, 0x4E)
                            : _mm256_permute_ps(a, 0xB1);
    const float s1 = h == 1 ? -1.0f : 1.0f, s2 = h == 2 ? -1.0f : 1.0f, s4 = h == 4 ? -1.0f : 1.0f;
    __m256 sign = _mm256_setr_ps(1, s1, s2, s1 * s2, s4, s1 * s4, s2 * s4, s1 * s2 * s4);
    return _mm256_fmadd_ps(a, sign, other);
}

/* A product with +-1 is exact, so the fma is the sum or the difference. */
LANES_INLINE vf v_butterfly(vf a, const int h)
{
    if (h == 8)
        return (vf){_mm256_add_ps(a.a, a.b), _mm256_sub_ps(a.a, a.b)};
    return (vf){butterfly8(a.a, h), butterfly8(a.b, h)};
}

/* ---- integers ---- */

enum { LANES_INT_Q = 2, LANES_INT_ACC = 2, LANES_INT_SUM = 4 };

typedef struct {
    __m256i a, b; /* lanes 0-7, 8-15 */
} vi;
#define LANES_PAIR_I(f, x, y) ((vi){f((x).a, (y).a), f((x).b, (y).b)})
/* Bytes widened to 16 bits, because the 8-bit multiply-add saturates: the even bytes and the odd ones of each half. */
typedef struct {
    __m256i a0, a1, b0, b1;
} vu;
typedef vu vs;

LANES_INLINE vi vi_set(int32_t x)
{
    return (vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}

LANES_INLINE vi vi_load(const int32_t *p)
{
    return (vi){_mm256_loadu_si256((const __m256i *)(const void *)p),
                _mm256_loadu_si256((const __m256i *)(const void *)(p + 8))};
}

LANES_INLINE void vi_store(int32_t *p, vi x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, x.a);
    _mm256_storeu_si256((__m256i *)(void *)(p + 8), x.b);
}

LANES_INLINE vi vi_add(vi x, vi y)
{
    return LANES_PAIR_I(_mm256_add_epi32, x, y);
}

LANES_INLINE vf vi_float(vi x)
{
    return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}

LANES_INLINE vu widen_u(__m256i a, __m256i b)
{
    __m256i even = _mm256_set1_epi16(0xFF);
    return (vu){_mm256_and_si256(a, even), _mm256_srli_epi16(a, 8), _mm256_and_si256(b, even), _mm256_srli_epi16(b, 8)};
}

LANES_INLINE vs widen_s(__m256i a, __m256i b)
{
    return (vs){_mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8), _mm256_srai_epi16(a, 8),
                _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8), _mm256_srai_epi16(b, 8)};
}

LANES_INLINE vu vu_load(const void *p)
{
    vi x = vi_load(p);
    return widen_u(x.a, x.b);
}

LANES_INLINE vs vs_load(const void *p)
{
    vi x = vi_load(p);
    return widen_s(x.a, x.b);
}

LANES_INLINE __m256i spread8(const void *p)
{
    int x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}

LANES_INLINE vu vu_spread(const void *p)
{
    __m256i x = spread8(p);
    return widen_u(x, x);
}

LANES_INLINE vs vs_spread(const void *p)
{
    __m256i x = spread8(p);
    return widen_s(x, x);
}

LANES_INLINE vi vi_dot(vi x, vu u, vs s)
{
    __m256i a = _mm256_add_epi32(_mm256_madd_epi16(u.a0, s.a0), _mm256_madd_epi16(u.a1, s.a1));
    __m256i b = _mm256_add_epi32(_mm256_madd_epi16(u.b0, s.b0), _mm256_madd_epi16(u.b1, s.b1));
    return (vi){_mm256_add_epi32(x.a, a), _mm256_add_epi32(x.b, b)};
}

LANES_TREE(vi_sums, vi, LANES_SAME, _mm256_add_epi32, LANES_SAME)

LANES_INLINE vi vi_round(vf x)
{
    return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}

/* Packing works by halves of a register: 32-bit parts 0 4 1 5 2 6 3 7 put 16-bit pairs in order again. */
LANES_INLINE __m256i pack32(vi a, vi b, const bool is_signed)
{
    __m256i x = _mm256_packs_epi32(a.a, a.b), y = _mm256_packs_epi32(b.a, b.b);
    x = is_signed ? _mm256_packs_epi16(x, y) : _mm256_packus_epi16(x, y);
    return _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

LANES_INLINE void vi_bytes64(uint8_t *p, const vi a[4])
{
    _mm256_storeu_si256((__m256i *)(void *)p, pack32(a[0], a[1], false));
    _mm256_storeu_si256((__m256i *)(void *)(p + 32), pack32(a[2], a[3], false));
}

LANES_INLINE void vi_bytes32(int8_t *p, vi a, vi b)
{
    _mm256_storeu_si256((__m256i *)(void *)p, pack32(a, b, true));
}

/* Bytes of one 32-bit lane: 0 4 8 12 of a packed quarter, and so on. */
LANES_INLINE __m256i zip_bytes(__m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i x = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(order));
}

LANES_INLINE void vi_zip4(int8_t *p, const vi a[4])
{
    _mm256_storeu_si256((__m256i *)(void *)p, zip_bytes(a[0].a, a[1].a, a[2].a, a[3].a));
    _mm256_storeu_si256((__m256i *)(void *)(p + 32), zip_bytes(a[0].b, a[1].b, a[2].b, a[3].b));
}

#endif
