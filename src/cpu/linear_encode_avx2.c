/* The encoding of activations on AVX2, a run at a time. Same bits as act_encode8 and act_encode16: the peak is a
 * maximum of integers, cvtps_epi32 rounds to nearest even. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx2.h"

#include <math.h>

static uint32_t largest(__m256i v)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

static int32_t total(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

/* Four times 8 integers as bytes, in order; they fit. */
static void store_bytes(int8_t *to, const __m256i v[4])
{
    __m256i b = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    b = _mm256_permutevar8x32_epi32(b, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
    _mm256_storeu_si256((__m256i *)(void *)to, b);
}

/* The scale of a run, and what to multiply its elements with; *inv = 0: all integers are 0. */
static float run_scale(const float *x, float full, float *inv)
{
    __m256i m = _mm256_setzero_si256();
    for (int i = 0; i < RUN; i += 8)
        m = _mm256_max_epu32(m, _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)(x + i)),
                                                 _mm256_set1_epi32(0x7FFFFFFF)));
    uint32_t bits = largest(m);
    float peak;
    memcpy(&peak, &bits, sizeof peak);
    *inv = 0;
    if (bits >= 0x7F800000)
        return NAN;
    if (peak < ACT_PEAK_MIN)
        return 0;
    *inv = full / peak;
    return peak / full;
}

void linear_encode_avx2(const float *x, size_t n, int8_t *hi, int8_t *lo, size_t stride, float *d, int32_t *sum16)
{
    for (size_t g = 0; g < n / RUN; g++, x += RUN, hi += stride, sum16 += 2) {
        float inv;
        __m256i v[4], low[4];
        d[g] = run_scale(x, lo ? 32512.0f : 127.0f, &inv);
        for (int i = 0; i < 4; i++)
            v[i] = inv == 0 ? _mm256_setzero_si256()
                            : _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inv)));
        sum16[0] = total(_mm256_add_epi32(v[0], v[1]));
        sum16[1] = total(_mm256_add_epi32(v[2], v[3]));
        if (lo) {
            for (int i = 0; i < 4; i++) {
                __m256i top = _mm256_srai_epi32(_mm256_add_epi32(v[i], _mm256_set1_epi32(128)), 8);
                low[i] = _mm256_sub_epi32(v[i], _mm256_slli_epi32(top, 8));
                v[i] = top;
            }
            store_bytes(lo, low);
            lo += stride;
        }
        store_bytes(hi, v);
    }
}
#endif
