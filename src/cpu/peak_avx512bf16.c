#if defined(__x86_64__)
#include "cpu/peak.h"
#include "cpu/unroll.h"

#include <immintrin.h>

enum { SUMS = 16 }; /* enough to hide the latency of two multiply ports */

double peak_bf16_avx512(size_t n)
{
    __m512 s[SUMS];
    __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1)), b = a;
    __asm__ volatile("" : "+v"(a), "+v"(b));
    UNROLL
    for (int k = 0; k < SUMS; k++) {
        s[k] = _mm512_setzero_ps();
        __asm__ volatile("" : "+v"(s[k])); /* so that the sums are not one */
    }
    for (size_t i = 0; i < n; i++) {
        UNROLL
        for (int k = 0; k < SUMS; k++)
            s[k] = _mm512_dpbf16_ps(s[k], a, b);
    }
    UNROLL
    for (int k = 0; k < SUMS; k++)
        __asm__ volatile("" : : "v"(s[k]));
    return 2.0 * 32 * SUMS * (double)n;
}
#endif
