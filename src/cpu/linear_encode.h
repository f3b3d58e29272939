/* act_encode (quant.h) for one row, in plain C that compilers turn into vectors: each instruction set includes it once.
 * Same bits: the peak is a maximum of integers, the scales divisions, and a product is rounded to the nearest even
 * integer by adding 1.5 * 2^23, at which f32 has no fraction bits left. */
#ifndef GLIM_CPU_LINEAR_ENCODE_H
#define GLIM_CPU_LINEAR_ENCODE_H

#include "cpu/linear.h"
#include "op/op_math.h"

#include <math.h>
#include <string.h>

#define TO_INTEGER 0x1.8p23f

static inline float encode_peak(const float *x)
{
    uint32_t bits[RUN], peak_bits = 0;
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < RUN; i++) {
        uint32_t u = bits[i] & 0x7FFFFFFF;
        peak_bits = u > peak_bits ? u : peak_bits;
    }
    float peak;
    memcpy(&peak, &peak_bits, sizeof peak);
    return peak;
}

/* cap times the mean, from the row's sum of peaks in 16 lanes. */
static inline float encode_top(const float lane[16], size_t n_run, float cap)
{
    return cap == 0 ? 0 : cap / (float)n_run * op_sum16(lane);
}

/* The limit of a run. */
static inline float encode_limit(float peak, float top)
{
    float limit = top < peak ? top : peak, least = peak / 256;
    return limit < least ? least : limit;
}

/* Run g of a row, of the given peak. */
static inline void encode_run(const float *x, size_t g, float peak, float top, const struct linear_encoded *to)
{
    int32_t v[RUN] = {0}, first = 0, second = 0;
    uint8_t spill = 0;
    to->d[g] = isfinite(peak) ? 0 : NAN;
    if (isfinite(peak) && peak >= ACT_PEAK_MIN) {
        float limit = encode_limit(peak, top), inv = 127 / limit;
        to->d[g] = limit / 127;
        for (int i = 0; i < RUN; i++)
            v[i] = (int32_t)((x[i] * inv + TO_INTEGER) - TO_INTEGER);
    }
    for (int i = 0; i < 16; i++) {
        first += v[i];
        second += v[i + 16];
    }
    to->sum16[2 * g] = first;
    to->sum16[2 * g + 1] = second;
    int8_t *lo = to->lo + g * to->stride, *hi = to->hi + g * to->stride;
    for (int i = 0; i < RUN; i++) {
        int32_t top_byte = (v[i] + 128) >> 8;
        hi[i] = (int8_t)top_byte;
        lo[i] = (int8_t)(v[i] - 256 * top_byte);
    }
    for (int i = 0; i < RUN; i++)
        spill |= (uint8_t)((hi[i] != 0) << i / 4);
    to->spill[g] |= spill;
}

static inline void encode_row(const float *x, size_t n, float cap, const struct linear_encoded *to)
{
    float lane[16] = {0};
    for (size_t g = 0; g < n / RUN; g++) {
        float peak = encode_peak(x + g * RUN);
        to->d[g] = peak;
        lane[g % 16] += isfinite(peak) ? peak : 0;
    }
    float top = encode_top(lane, n / RUN, cap);
    for (size_t g = 0; g < n / RUN; g++)
        encode_run(x + g * RUN, g, to->d[g], top, to);
}

/* 16 numbers of a block: of 16 runs, or of the halves of 8. */
static inline void sums16(const struct pack_layout *l, const float *d, const int32_t *sum16, const bool whole,
                          uint32_t *to)
{
    float dx[16];
    int32_t x[16];
    for (int i = 0; i < 16; i++) {
        x[i] = whole ? sum16[2 * i] + sum16[2 * i + 1] : sum16[i];
        dx[i] = (whole ? d[i] : d[i / 2]) * (float)x[i];
    }
    for (int i = 0; i < 16; i++)
        x[i] *= -l->zero;
    memcpy(to, pack_has_min(l) ? (void *)dx : (void *)x, sizeof x);
}

static inline void encode_sums(const struct pack_layout *l, const float *d, const int32_t *sum16, size_t n_block,
                               uint32_t *to, size_t stride)
{
    for (size_t b = 0; b < n_block; b++, to += stride, d += 16, sum16 += 32) {
        if (l->group == RUN) {
            sums16(l, d, sum16, true, to);
        } else {
            sums16(l, d, sum16, false, to);
            sums16(l, d + 8, sum16 + 16, false, to + 16);
        }
    }
}

#endif
