/* The 8-bit encoding of activations, 16 runs at a time: their peaks end up in the 16 lanes of a vector, so that a
 * division serves all of them. Same bits as act_encode8: the peak is a maximum of integers, cvtps_epi32 rounds to
 * nearest even. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx512.h"
#include "cpu/linear_encode.h"

enum { GROUP = 16 };

/* Lane i of the result = largest lane of p[i]. */
static __m512i peaks(const __m512i p[GROUP])
{
    __m512i t[8], u[4], v[2];
    UNROLL
    for (int i = 0; i < 8; i++)
        t[i] = _mm512_max_epu32(_mm512_unpacklo_epi32(p[2 * i], p[2 * i + 1]),
                                _mm512_unpackhi_epi32(p[2 * i], p[2 * i + 1]));
    UNROLL
    for (int i = 0; i < 4; i++)
        u[i] = _mm512_max_epu32(_mm512_unpacklo_epi64(t[2 * i], t[2 * i + 1]),
                                _mm512_unpackhi_epi64(t[2 * i], t[2 * i + 1]));
    UNROLL
    for (int i = 0; i < 2; i++)
        v[i] = _mm512_max_epu32(_mm512_shuffle_i32x4(u[2 * i], u[2 * i + 1], 0x44),
                                _mm512_shuffle_i32x4(u[2 * i], u[2 * i + 1], 0xEE));
    return _mm512_max_epu32(_mm512_shuffle_i32x4(v[0], v[1], 0x88), _mm512_shuffle_i32x4(v[0], v[1], 0xDD));
}

/* A 4 x 4 transposition of 32-bit lanes. */
INLINE __m512i transpose4(__m512i v)
{
    return _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0), v);
}

/* Runs a and b as bytes, one after the other. */
INLINE __m512i encode_pair(const float *a, const float *b, float inv_a, float inv_b)
{
    __m512 ia = _mm512_set1_ps(inv_a), ib = _mm512_set1_ps(inv_b);
    __m512i a0 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(a), ia));
    __m512i a1 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(a + 16), ia));
    __m512i b0 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(b), ib));
    __m512i b1 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(b + 16), ib));
    return transpose4(_mm512_packs_epi16(_mm512_packs_epi32(a0, a1), _mm512_packs_epi32(b0, b1)));
}

/* At most 16 runs; false when one of them holds a NaN or an Inf (nothing is written then). */
static bool encode_group(const float *x, size_t n, int8_t *q, size_t stride, float *d, int32_t *sum16)
{
    static const float zeros[RUN];
    const float *run[GROUP];
    __m512i peak[GROUP];
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF), ones = _mm512_set1_epi8(1);
    for (size_t i = 0; i < GROUP; i++) {
        run[i] = i < n ? x + i * RUN : zeros;
        peak[i] = _mm512_max_epu32(_mm512_and_si512(_mm512_loadu_si512(run[i]), magnitude),
                                   _mm512_and_si512(_mm512_loadu_si512(run[i] + 16), magnitude));
    }
    __m512i bits = peaks(peak);
    if (_mm512_cmpge_epu32_mask(bits, _mm512_set1_epi32(0x7F800000)))
        return false;
    __m512 top = _mm512_castsi512_ps(bits), full = _mm512_set1_ps(127.0f);
    __mmask16 used = _mm512_cmp_ps_mask(top, _mm512_set1_ps(ACT_PEAK_MIN), _CMP_GE_OQ);
    float inv[GROUP];
    _mm512_storeu_ps(inv, _mm512_maskz_div_ps(used, full, top));
    _mm512_mask_storeu_ps(d, (__mmask16)((1U << n) - 1), _mm512_maskz_div_ps(used, top, full));
    for (size_t i = 0; i < n; i += 8) {
        __m512i s[4];
        UNROLL
        for (size_t k = 0; k < 4; k++) {
            size_t a = i + 2 * k, b = a + 1;
            __m512i v = encode_pair(run[a], run[b], inv[a], inv[b]);
            if (a < n)
                _mm256_storeu_si256((__m256i *)(void *)(q + a * stride), _mm512_castsi512_si256(v));
            if (b < n)
                _mm256_storeu_si256((__m256i *)(void *)(q + b * stride), _mm512_extracti64x4_epi64(v, 1));
            s[k] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, v);
        }
        __m512i t0 = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
        __m512i t1 = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
        __m512i sums = _mm512_add_epi32(_mm512_unpacklo_epi64(t0, t1), _mm512_unpackhi_epi64(t0, t1));
        size_t left = 2 * (n - i);
        _mm512_mask_storeu_epi32(sum16 + 2 * i, (__mmask16)(left >= 16 ? 0xFFFF : (1U << left) - 1), transpose4(sums));
    }
    return true;
}

void linear_encode_avx512(const float *x, size_t n, int8_t *hi, int8_t *lo, size_t stride, float *d, int32_t *sum16)
{
    if (lo) {
        encode_row(x, n, hi, lo, stride, d, sum16);
        return;
    }
    for (size_t g = 0; g < n / RUN; g += GROUP) {
        size_t left = n / RUN - g < GROUP ? n / RUN - g : GROUP;
        if (!encode_group(x + g * RUN, left, hi + g * stride, stride, d + g, sum16 + 2 * g))
            encode_row(x + g * RUN, left * RUN, hi + g * stride, NULL, stride, d + g, sum16 + 2 * g);
    }
}
#endif
