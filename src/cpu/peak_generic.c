#include "cpu/peak.h"

#include <stdint.h>

static void read_block(const void *p, size_t n)
{
    const uint64_t *w = p, *end = w + n / sizeof *w;
    uint64_t s[8] = {0};
    for (; w < end; w += 8)
        for (int k = 0; k < 8; k++)
            s[k] += w[k];
    __asm__ volatile("" : : "r"(s) : "memory");
}

/* The empty statements say that the operands may have changed. */
static double int8_turns(size_t n)
{
    int32_t sum[64] = {0};
    uint8_t u[64] = {1};
    int8_t v[64] = {1};
    for (size_t i = 0; i < n; i++) {
        __asm__ volatile("" : : "r"(u), "r"(v) : "memory");
        for (int k = 0; k < 64; k++)
            sum[k] += (int32_t)u[k] * v[k];
    }
    __asm__ volatile("" : : "r"(sum) : "memory");
    return 2.0 * 64 * (double)n;
}

static double f32_turns(size_t n)
{
    float sum[32] = {0}, a = 1, b = 0;
    __asm__ volatile("" : : "r"(&a), "r"(&b) : "memory");
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 32; k++)
            sum[k] = sum[k] * a + b;
    __asm__ volatile("" : : "r"(sum) : "memory");
    return 2.0 * 32 * (double)n;
}

const struct peak_kernels peak_generic = {
    .read = read_block, .int8 = int8_turns, .f32 = f32_turns, .int8_name = "plain C", .f32_name = "plain C"};
