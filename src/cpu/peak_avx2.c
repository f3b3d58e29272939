#if defined(__x86_64__)
#include "cpu/peak.h"
#include "cpu/unroll.h"

#include <immintrin.h>

enum { SUMS = 12 }; /* enough to hide the latency of two multiply ports */

static void read_block(const void *p, size_t n)
{
    const __m256i *v = p, *end = v + n / sizeof *v;
    __m256i s[8];
    UNROLL
    for (int k = 0; k < 8; k++)
        s[k] = _mm256_setzero_si256();
    for (; v < end; v += 8) {
        UNROLL
        for (int k = 0; k < 8; k++) {
            if (k % 2 == 0)
                _mm_prefetch((const char *)(v + k + 16), _MM_HINT_T0);
            s[k] = _mm256_or_si256(s[k], _mm256_load_si256(v + k));
        }
    }
    UNROLL
    for (int k = 0; k < 8; k++)
        __asm__ volatile("" : : "x"(s[k]));
}

/* Products of bytes added in pairs, then to 16-bit sums, as the kernels do before they widen. The sum is an operand of
 * its own product, so that no product leaves the loop. */
static double int8_turns(size_t n)
{
    __m256i s[SUMS], a = _mm256_set1_epi8(1);
    __asm__ volatile("" : "+x"(a));
    UNROLL
    for (int k = 0; k < SUMS; k++) {
        s[k] = a;
        __asm__ volatile("" : "+x"(s[k])); /* so that the sums are not one */
    }
    for (size_t i = 0; i < n; i++) {
        UNROLL
        for (int k = 0; k < SUMS; k++)
            s[k] = _mm256_add_epi16(a, _mm256_maddubs_epi16(a, s[k]));
    }
    UNROLL
    for (int k = 0; k < SUMS; k++)
        __asm__ volatile("" : : "x"(s[k]));
    return 2.0 * 32 * SUMS * (double)n;
}

static double f32_turns(size_t n)
{
    __m256 s[SUMS], a = _mm256_set1_ps(1), b = _mm256_setzero_ps();
    __asm__ volatile("" : "+x"(a), "+x"(b));
    UNROLL
    for (int k = 0; k < SUMS; k++) {
        s[k] = a;
        __asm__ volatile("" : "+x"(s[k])); /* so that the sums are not one */
    }
    for (size_t i = 0; i < n; i++) {
        UNROLL
        for (int k = 0; k < SUMS; k++)
            s[k] = _mm256_fmadd_ps(a, b, s[k]);
    }
    UNROLL
    for (int k = 0; k < SUMS; k++)
        __asm__ volatile("" : : "x"(s[k]));
    return 2.0 * 8 * SUMS * (double)n;
}

const struct peak_kernels peak_avx2 = {.read = read_block,
                                       .int8 = int8_turns,
                                       .f32 = f32_turns,
                                       .int8_name = "256-bit vpmaddubsw",
                                       .f32_name = "256-bit vfmadd"};
#endif
