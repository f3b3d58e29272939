/* The encoding of activations on AVX2, a run at a time. Same bits as act_encode: the peak is a maximum of integers,
 * cvtps_epi32 rounds to nearest even. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx2.h"
#include "cpu/linear_encode.h"

static float peak_of(const float *x)
{
    __m256i v = _mm256_setzero_si256();
    for (int i = 0; i < RUN; i += 8)
        v = _mm256_max_epu32(v, _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)(x + i)),
                                                 _mm256_set1_epi32(0x7FFFFFFF)));
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
    return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

static int32_t total(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

/* Four times 8 integers as bytes, in order; they fit. */
static __m256i bytes(const __m256i v[4])
{
    __m256i b = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(b, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
}

/* Run g, of a finite peak that is not too small. */
static void encode_vectors(const float *x, size_t g, float peak, float top, const struct linear_encoded *to)
{
    float limit = encode_limit(peak, top);
    __m256 inv = _mm256_set1_ps(127 / limit);
    __m256i v[4], low[4], high[4];
    to->d[g] = limit / 127;
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inv));
        high[i] = _mm256_srai_epi32(_mm256_add_epi32(v[i], _mm256_set1_epi32(128)), 8);
        low[i] = _mm256_sub_epi32(v[i], _mm256_slli_epi32(high[i], 8));
    }
    to->sum16[2 * g] = total(_mm256_add_epi32(v[0], v[1]));
    to->sum16[2 * g + 1] = total(_mm256_add_epi32(v[2], v[3]));
    __m256i hi = bytes(high);
    _mm256_storeu_si256((__m256i *)(void *)(to->lo + g * to->stride), bytes(low));
    _mm256_storeu_si256((__m256i *)(void *)(to->hi + g * to->stride), hi);
    __m256i zero = _mm256_cmpeq_epi32(hi, _mm256_setzero_si256());
    to->spill[g] |= (uint8_t)~_mm256_movemask_ps(_mm256_castsi256_ps(zero));
}

void linear_encode_avx2(const float *x, size_t n, float cap, const struct linear_encoded *to)
{
    float lane[16] = {0};
    for (size_t g = 0; g < n / RUN; g++) {
        float peak = peak_of(x + g * RUN);
        to->d[g] = peak;
        lane[g % 16] += isfinite(peak) ? peak : 0;
    }
    float top = encode_top(lane, n / RUN, cap);
    for (size_t g = 0; g < n / RUN; g++) {
        float peak = to->d[g];
        if (isfinite(peak) && peak >= ACT_PEAK_MIN)
            encode_vectors(x + g * RUN, g, peak, top, to);
        else
            encode_run(x + g * RUN, g, peak, top, to);
    }
}

void linear_sums_avx2(const struct pack_layout *l, const float *d, const int32_t *sum16, size_t n_block, uint32_t *to,
                      size_t stride)
{
    encode_sums(l, d, sum16, n_block, to, stride);
}
#endif
