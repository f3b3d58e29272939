#if defined(__x86_64__)
#include "cpu/peak.h"
#include "cpu/unroll.h"

#include <immintrin.h>

enum { SUMS = 16 }; /* enough to hide the latency of two multiply ports */

static void read_block(const void *p, size_t n)
{
    const __m512i *v = p, *end = v + n / sizeof *v;
    __m512i s[8];
    UNROLL
    for (int k = 0; k < 8; k++)
        s[k] = _mm512_setzero_si512();
    for (; v < end; v += 8) {
        UNROLL
        for (int k = 0; k < 8; k++) {
            _mm_prefetch((const char *)(v + k + 8), _MM_HINT_T0);
            s[k] = _mm512_or_si512(s[k], _mm512_load_si512(v + k));
        }
    }
    UNROLL
    for (int k = 0; k < 8; k++)
        __asm__ volatile("" : : "v"(s[k]));
}

static double int8_turns(size_t n)
{
    __m512i s[SUMS], a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(1);
    __asm__ volatile("" : "+v"(a), "+v"(b));
    UNROLL
    for (int k = 0; k < SUMS; k++) {
        s[k] = a;
        __asm__ volatile("" : "+v"(s[k])); /* so that the sums are not one */
    }
    for (size_t i = 0; i < n; i++) {
        UNROLL
        for (int k = 0; k < SUMS; k++)
            s[k] = _mm512_dpbusd_epi32(s[k], a, b);
    }
    UNROLL
    for (int k = 0; k < SUMS; k++)
        __asm__ volatile("" : : "v"(s[k]));
    return 2.0 * 64 * SUMS * (double)n;
}

static double f32_turns(size_t n)
{
    __m512 s[SUMS], a = _mm512_set1_ps(1), b = _mm512_setzero_ps();
    __asm__ volatile("" : "+v"(a), "+v"(b));
    UNROLL
    for (int k = 0; k < SUMS; k++) {
        s[k] = a;
        __asm__ volatile("" : "+v"(s[k])); /* so that the sums are not one */
    }
    for (size_t i = 0; i < n; i++) {
        UNROLL
        for (int k = 0; k < SUMS; k++)
            s[k] = _mm512_fmadd_ps(a, b, s[k]);
    }
    UNROLL
    for (int k = 0; k < SUMS; k++)
        __asm__ volatile("" : : "v"(s[k]));
    return 2.0 * 16 * SUMS * (double)n;
}

const struct peak_kernels peak_avx512 = {.read = read_block,
                                         .int8 = int8_turns,
                                         .f32 = f32_turns,
                                         .int8_name = "512-bit vpdpbusd",
                                         .f32_name = "512-bit vfmadd"};
#endif
