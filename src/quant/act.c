/* Activations in integer form: runs of 32 elements under one f32 scale. quant.h has the definition.
 *
 * The largest magnitude is found on the bit patterns, where the order of the comparisons cannot matter and a NaN counts
 * as larger than everything: a run that holds one is marked by its scale instead of poisoning the integers. */
#include "quant/quant.h"

#include <math.h>
#include <string.h>

enum { RUN = 32 };

/* Largest |x| of n elements as bits. */
static uint32_t peak_bits(const float *x, size_t n)
{
    uint32_t peak = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        u &= 0x7FFFFFFF;
        peak = u > peak ? u : peak;
    }
    return peak;
}

/* Scale of a run and what to multiply its elements with; full is the integer that stands for the peak. */
static float run_scale(const float *x, size_t n, float full, float *inv)
{
    uint32_t bits = peak_bits(x, n);
    float peak;
    memcpy(&peak, &bits, sizeof peak);
    *inv = 0;
    if (!isfinite(peak))
        return NAN;
    if (peak < ACT_PEAK_MIN)
        return 0;
    *inv = full / peak;
    return peak / full;
}

static int32_t level(float x, float inv)
{
    return inv == 0 ? 0 : (int32_t)rintf(x * inv);
}

void act_encode8(const float *x, size_t n, int8_t *q, float *d, int32_t *sum16)
{
    for (size_t r = 0; r * RUN < n; r++, x += RUN, q += RUN) {
        size_t len = n - r * RUN < RUN ? n - r * RUN : RUN;
        float inv;
        d[r] = run_scale(x, len, 127.0f, &inv);
        sum16[2 * r] = sum16[2 * r + 1] = 0;
        for (size_t i = 0; i < len; i++) {
            q[i] = (int8_t)level(x[i], inv);
            sum16[2 * r + i / 16] += q[i];
        }
    }
}

void act_encode16(const float *x, size_t n, int8_t *hi, int8_t *lo, float *d, int32_t *sum16)
{
    for (size_t r = 0; r * RUN < n; r++, x += RUN, hi += RUN, lo += RUN) {
        size_t len = n - r * RUN < RUN ? n - r * RUN : RUN;
        float inv;
        d[r] = run_scale(x, len, 32512.0f, &inv);
        sum16[2 * r] = sum16[2 * r + 1] = 0;
        for (size_t i = 0; i < len; i++) {
            int32_t v = level(x[i], inv), top = (v + 128) >> 8;
            hi[i] = (int8_t)top;
            lo[i] = (int8_t)(v - 256 * top);
            sum16[2 * r + i / 16] += v;
        }
    }
}
