/* Activations in integer form: runs of 32 elements under one f32 scale. quant.h has the definition.
 *
 * The largest magnitude is found on the bit patterns, where the order of the comparisons cannot matter and a NaN counts
 * as larger than everything: a run that holds one is marked by its scale instead of poisoning the integers. */
#include "quant/quant.h"

#include <math.h>
#include <string.h>

enum { RUN = 32 };

static float peak_of(const float *x, size_t n)
{
    uint32_t peak = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        u &= 0x7FFFFFFF;
        peak = u > peak ? u : peak;
    }
    float f;
    memcpy(&f, &peak, sizeof f);
    return f;
}

static size_t run_length(size_t n, size_t r)
{
    return n - r * RUN < RUN ? n - r * RUN : RUN;
}

/* cap * mean of the peaks. */
static float row_top(const float *x, size_t n, float cap)
{
    float lane[16] = {0};
    size_t n_run = (n + RUN - 1) / RUN;
    for (size_t r = 0; r < n_run; r++) {
        float peak = peak_of(x + r * RUN, run_length(n, r));
        lane[r % 16] += isfinite(peak) ? peak : 0;
    }
    for (size_t step = 8; step > 0; step /= 2)
        for (size_t l = 0; l < step; l++)
            lane[l] += lane[l + step];
    return cap == 0 ? 0 : cap / (float)n_run * lane[0];
}

void act_encode(const float *x, size_t n, float cap, int8_t *lo, int8_t *hi, float *d, int32_t *sum16)
{
    float top = row_top(x, n, cap);
    for (size_t r = 0; r * RUN < n; r++, x += RUN, lo += RUN, hi += RUN) {
        size_t len = run_length(n, r);
        float peak = peak_of(x, len), limit = top < peak ? top : peak;
        limit = limit < peak / 256 ? peak / 256 : limit;
        bool used = isfinite(peak) && peak >= ACT_PEAK_MIN;
        d[r] = used ? limit / 127 : isfinite(peak) ? 0 : NAN;
        sum16[2 * r] = sum16[2 * r + 1] = 0;
        for (size_t i = 0; i < len; i++) {
            int32_t v = used ? (int32_t)rintf(x[i] * (127 / limit)) : 0;
            hi[i] = (int8_t)((v + 128) >> 8);
            lo[i] = (int8_t)(v - 256 * hi[i]);
            sum16[2 * r + i / 16] += v;
        }
    }
}
