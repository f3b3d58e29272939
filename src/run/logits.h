/* Arithmetic on a row of logits, for the sampler and for log probabilities. No libm and no fused operation: every
 * result is the same bits on every machine. */
#ifndef GLIM_RUN_LOGITS_H
#define GLIM_RUN_LOGITS_H

#include "base/status.h"

#include <string.h>

enum {
    LOGITS_LANES = 16,               /* sums over a row run in so many lanes, which are then added in ascending order */
    LOGITS_BLOCK = 4 * LOGITS_LANES, /* loops take so many at a time, to keep lanes in registers */
};

/* The largest of n values. NaN and +infinity are errors (GLIM_FAILED) that name the token, all at -infinity is refused.
 * what: who asks, the beginning of the sentence. */
glim_status logits_max(const float *l, uint32_t n, const char *what, float *max, struct glim_err *e);

/* ln v for a positive normal v: v = 2^e m with m in (sqrt(1/2), sqrt(2)], ln m = 2 atanh((m - 1) / (m + 1)). The series
 * to s^19 is below half an ulp there; near 1 the exponent term is 0, so small results keep their relative precision. */
static inline double logits_ln(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u;
    double m;
    memcpy(&m, &bits, 8);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double p = 1.0 / 19.0;
    for (int k = 17; k >= 1; k -= 2)
        p = p * z + 1.0 / k;
    return (double)e * 0.6931471805599453 + 2.0 * s * p;
}

/* exp x for x <= 0; 0 below -87 and at it. Written in f32 products and sums with a mask for the cut, since compilers
 * do not vectorise a branch: below the cut, exp(0) is computed and multiplied by 0. */
static inline float logits_exp(float x)
{
    float below = -87.0f - x, c, two_n;
    int32_t keep, bits;
    memcpy(&keep, &below, 4);
    memcpy(&bits, &x, 4);
    keep >>= 31; /* all ones where x > -87 */
    bits &= keep;
    memcpy(&c, &bits, 4);
    float n = (c * 1.44269504f + 12582912.0f) - 12582912.0f; /* nearest integer, by the 1.5 * 2^23 trick */
    float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    bits = ((int32_t)n + 127) * (1 << 23) & keep;
    memcpy(&two_n, &bits, 4);
    return p * two_n;
}

#endif
