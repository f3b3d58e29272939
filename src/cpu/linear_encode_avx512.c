/* The encoding of activations, 16 runs at a time: their peaks end up in the 16 lanes of a vector, so that a division
 * serves all of them. Same bits as act_encode: the peak is a maximum of integers, cvtps_epi32 rounds to nearest even.
 */
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

/* Two vectors of 16 bits as bytes, in the order of the runs they came from. */
INLINE __m512i bytes(__m512i a, __m512i b)
{
    return transpose4(_mm512_packs_epi16(a, b));
}

/* Runs a and b as 32 integers of 16 bits each, in packs_epi32's order. */
INLINE void quantise_pair(const float *a, const float *b, float inv_a, float inv_b, __m512i v[2])
{
    __m512 ia = _mm512_set1_ps(inv_a), ib = _mm512_set1_ps(inv_b);
    v[0] = _mm512_packs_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(a), ia)),
                              _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(a + 16), ia)));
    v[1] = _mm512_packs_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(b), ib)),
                              _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(b + 16), ib)));
}

/* Lane i of *peak = max|x| of run i of at most 16. */
static __m512i group_peaks(const float *x, size_t n)
{
    __m512i peak[GROUP];
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    for (size_t i = 0; i < GROUP; i++)
        peak[i] = i < n ? _mm512_max_epu32(_mm512_and_si512(_mm512_loadu_si512(x + i * RUN), magnitude),
                                           _mm512_and_si512(_mm512_loadu_si512(x + i * RUN + 16), magnitude))
                        : _mm512_setzero_si512();
    return peaks(peak);
}

/* The 2n <= 32 bytes or words of two runs a and b, where b may not be there. */
INLINE void store_pair(int8_t *to, size_t stride, bool both, __m512i v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_castsi512_si256(v));
    if (both)
        _mm256_storeu_si256((__m256i *)(void *)(to + stride), _mm512_extracti64x4_epi64(v, 1));
}

/* Runs [g, g + n) of the row x, n <= 16. d holds their peaks, all of them finite. */
static void encode_group(const float *x, size_t g, size_t n, float top, const struct linear_encoded *to)
{
    static const float zeros[RUN];
    const __m512i ones = _mm512_set1_epi8(1), half = _mm512_set1_epi16(128);
    __mmask16 there = (__mmask16)((1U << n) - 1);
    __m512 peak = _mm512_maskz_loadu_ps(there, to->d + g), full = _mm512_set1_ps(127.0f);
    __m512 limit = _mm512_max_ps(_mm512_mul_ps(peak, _mm512_set1_ps(1.0f / 256)),
                                 _mm512_min_ps(_mm512_set1_ps(top), peak)); /* NaN in top: peak */
    __mmask16 used = _mm512_cmp_ps_mask(peak, _mm512_set1_ps(ACT_PEAK_MIN), _CMP_GE_OQ);
    float inv[GROUP];
    _mm512_storeu_ps(inv, _mm512_maskz_div_ps(used, full, limit));
    _mm512_mask_storeu_ps(to->d + g, there, _mm512_maskz_div_ps(used, limit, full));
    for (size_t i = 0; i < n; i += 8) {
        __m512i s[4];
        UNROLL
        for (size_t k = 0; k < 4; k++) {
            size_t a = i + 2 * k;
            if (a >= n) {
                s[k] = _mm512_setzero_si512();
                continue;
            }
            bool both = a + 1 < n;
            __m512i v[2], h[2];
            quantise_pair(x + (g + a) * RUN, both ? x + (g + a + 1) * RUN : zeros, inv[a], inv[a + both], v);
            h[0] = _mm512_srai_epi16(_mm512_add_epi16(v[0], half), 8);
            h[1] = _mm512_srai_epi16(_mm512_add_epi16(v[1], half), 8);
            __m512i hi = bytes(h[0], h[1]);
            __m512i lo = bytes(_mm512_sub_epi16(v[0], _mm512_slli_epi16(h[0], 8)),
                               _mm512_sub_epi16(v[1], _mm512_slli_epi16(h[1], 8)));
            __mmask16 spill = _mm512_test_epi32_mask(hi, hi);
            to->spill[g + a] |= (uint8_t)spill;
            if (both)
                to->spill[g + a + 1] |= (uint8_t)(spill >> 8);
            store_pair(to->lo + (g + a) * to->stride, to->stride, both, lo);
            store_pair(to->hi + (g + a) * to->stride, to->stride, both, hi);
            s[k] = _mm512_add_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, lo),
                                    _mm512_slli_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, hi), 8));
        }
        __m512i t0 = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
        __m512i t1 = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
        __m512i sums = _mm512_add_epi32(_mm512_unpacklo_epi64(t0, t1), _mm512_unpackhi_epi64(t0, t1));
        size_t left = 2 * (n - i);
        _mm512_mask_storeu_epi32(to->sum16 + 2 * (g + i), (__mmask16)(left >= 16 ? 0xFFFF : (1U << left) - 1),
                                 transpose4(sums));
    }
}

void linear_encode_avx512(const float *x, size_t n, float cap, const struct linear_encoded *to)
{
    __m512 sum = _mm512_setzero_ps();
    bool finite = true;
    for (size_t g = 0; g < n / RUN; g += GROUP) {
        size_t left = n / RUN - g < GROUP ? n / RUN - g : GROUP;
        __m512i peak = group_peaks(x + g * RUN, left);
        __mmask16 good = _mm512_cmplt_epu32_mask(peak, _mm512_set1_epi32(0x7F800000));
        finite = finite && good == 0xFFFF;
        sum = _mm512_add_ps(sum, _mm512_maskz_mov_ps(good, _mm512_castsi512_ps(peak)));
        _mm512_mask_storeu_ps(to->d + g, (__mmask16)((1U << left) - 1), _mm512_castsi512_ps(peak));
    }
    float lane[16];
    _mm512_storeu_ps(lane, sum);
    float top = encode_top(lane, n / RUN, cap);
    for (size_t g = 0; g < n / RUN; g += finite ? GROUP : 1) {
        if (finite)
            encode_group(x, g, n / RUN - g < GROUP ? n / RUN - g : GROUP, top, to);
        else
            encode_run(x + g * RUN, g, to->d[g], top, to);
    }
}

void linear_sums_avx512(const struct pack_layout *l, const float *d, const int32_t *sum16, size_t n_block, uint32_t *to,
                        size_t stride)
{
    encode_sums(l, d, sum16, n_block, to, stride);
}
#endif
