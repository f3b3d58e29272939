/* act_encode8 and act_encode16 (quant.h) for one row, in plain C that compilers turn into vectors: each instruction set
 * includes it once. Same bits: the peak is a maximum of integers, the scale two divisions, and a product is rounded to
 * the nearest even integer by adding 1.5 * 2^23, at which f32 has no fraction bits left. */
#ifndef GLIM_CPU_LINEAR_ENCODE_H
#define GLIM_CPU_LINEAR_ENCODE_H

#include "cpu/linear.h"

#include <math.h>
#include <string.h>

#define TO_INTEGER 0x1.8p23f

/* The scale of a run and what to multiply its elements with; *inv = 0: all integers are 0. */
static inline float encode_scale(const float *x, float full, float *inv)
{
    uint32_t bits[RUN], peak_bits = 0;
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < RUN; i++) {
        uint32_t u = bits[i] & 0x7FFFFFFF;
        peak_bits = u > peak_bits ? u : peak_bits;
    }
    float peak;
    memcpy(&peak, &peak_bits, sizeof peak);
    *inv = 0;
    if (peak_bits >= 0x7F800000)
        return NAN;
    if (peak < ACT_PEAK_MIN)
        return 0;
    *inv = full / peak;
    return peak / full;
}

static inline void encode_row(const float *x, size_t n, int8_t *hi, int8_t *lo, size_t stride, float *d, int32_t *sum16)
{
    for (size_t g = 0; g < n / RUN; g++, x += RUN, hi += stride, sum16 += 2) {
        float inv;
        int32_t v[RUN];
        d[g] = encode_scale(x, lo ? 32512.0f : 127.0f, &inv);
        for (int i = 0; i < RUN; i++)
            v[i] = (int32_t)((x[i] * inv + TO_INTEGER) - TO_INTEGER);
        if (inv == 0)
            memset(v, 0, sizeof v);
        int32_t first = 0, second = 0;
        for (int i = 0; i < 16; i++) {
            first += v[i];
            second += v[i + 16];
        }
        sum16[0] = first;
        sum16[1] = second;
        if (!lo) {
            for (int i = 0; i < RUN; i++)
                hi[i] = (int8_t)v[i];
            continue;
        }
        for (int i = 0; i < RUN; i++) {
            int32_t top = (v[i] + 128) >> 8;
            hi[i] = (int8_t)top;
            lo[i] = (int8_t)(v[i] - 256 * top);
        }
        lo += stride;
    }
}

#endif
