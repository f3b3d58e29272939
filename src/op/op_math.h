/* The elementary functions of the engine, defined as exact sequences of f32 operations, so that a vector kernel can
 * reproduce them bit for bit on any ISA: no libm, no fast-math, fma where it says fmaf.
 *
 * op_exp: Cody-Waite reduction, degree-6 polynomial; error under 2 ulp on [-87.33, 88.37] (tests/op/test_op_math.c
 * measures it against double). Below -87.33 it returns op_exp(-87.33) ~ 1.2e-38; above 88.37 it returns op_exp(88.37)
 * ~ 2.4e38. NaN in gives a number: callers that care check for it. */
#ifndef GLIM_OP_OP_MATH_H
#define GLIM_OP_OP_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define OP_EXP_LO (-87.33f)
#define OP_EXP_HI (88.37f)
#define OP_LOG2E  1.44269504088896341f
#define OP_LN2_HI 0.693359375f
#define OP_LN2_LO (-2.12194440e-4f)
#define OP_EXP_C0 1.9875691500e-4f
#define OP_EXP_C1 1.3981999507e-3f
#define OP_EXP_C2 8.3334519073e-3f
#define OP_EXP_C3 4.1665795894e-2f
#define OP_EXP_C4 1.6666665459e-1f
#define OP_EXP_C5 5.0000001201e-1f

/* max(x, lo) and min(x, hi) as the vector instructions do it: the second operand when unordered. */
static inline float op_exp(float x)
{
    x = x > OP_EXP_LO ? x : OP_EXP_LO; /* NaN -> lo */
    x = x < OP_EXP_HI ? x : OP_EXP_HI;
    float n = rintf(x * OP_LOG2E); /* nearest even */
    float r = fmaf(n, -OP_LN2_HI, x);
    r = fmaf(n, -OP_LN2_LO, r);
    float p = OP_EXP_C0;
    p = fmaf(p, r, OP_EXP_C1);
    p = fmaf(p, r, OP_EXP_C2);
    p = fmaf(p, r, OP_EXP_C3);
    p = fmaf(p, r, OP_EXP_C4);
    p = fmaf(p, r, OP_EXP_C5);
    p = fmaf(p, r * r, r) + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23; /* n in [-126, 127]: always a normal power of two */
    float two_n;
    memcpy(&two_n, &bits, 4);
    return p * two_n;
}

/* tanh(x) = 1 - 2 / (exp(2x) + 1) on |x|, sign restored; |x| < 0.02 uses x - x^3/3, where the difference form loses
 * bits. */
static inline float op_tanh(float x)
{
    float a = fabsf(x);
    float t = 1.0f - 2.0f / (op_exp(2.0f * a) + 1.0f);
    float small = fmaf(a * a * a, -0.333333333f, a);
    t = 0.02f < a ? t : small; /* so that NaN takes the side that keeps it */
    return copysignf(t, x);
}

/* x / (1 + exp(-x)) */
static inline float op_silu(float x)
{
    return x / (1.0f + op_exp(-x));
}

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
static inline float op_gelu_tanh(float x)
{
    float u = 0.7978845608f * fmaf(0.044715f * x * x, x, x);
    return 0.5f * x * (1.0f + op_tanh(u));
}

/* 0.5 x (1 + erf(x / sqrt 2)); erf by Abramowitz & Stegun 7.1.26 (absolute error 1.5e-7). */
static inline float op_gelu_erf(float x)
{
    float z = fabsf(x) * 0.7071067812f;
    float t = 1.0f / fmaf(0.3275911f, z, 1.0f);
    float p = 1.061405429f;
    p = fmaf(p, t, -1.453152027f);
    p = fmaf(p, t, 1.421413741f);
    p = fmaf(p, t, -0.284496736f);
    p = fmaf(p, t, 0.254829592f);
    float erf_z = 1.0f - p * t * op_exp(-z * z);
    return 0.5f * x * (1.0f + copysignf(erf_z, x));
}

/* 2^x for numbers that are rounded to 8 bits next: relative error under 1.1e-4, exact at whole x. Below -125 (and for
 * NaN) it returns 2^-125; x must be under 127. */
#define OP_EXP2_LO  (-125.0f)
#define OP_EXP2_C3  5.500877e-2f
#define OP_EXP2_C2  0.24221098f
#define OP_EXP2_C1  0.69328295f
#define OP_LOG2_127 6.98868469f
#define OP_LOG2_255 7.99435344f
static inline float op_exp2(float x)
{
    x = x > OP_EXP2_LO ? x : OP_EXP2_LO;
    float n = rintf(x), f = x - n; /* nearest even */
    float p = fmaf(fmaf(fmaf(OP_EXP2_C3, f, OP_EXP2_C2), f, OP_EXP2_C1), f, 1.0f);
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float two_n;
    memcpy(&two_n, &bits, 4);
    return p * two_n;
}

/* log2(x) of a normal x > 0, to 1.4e-3. */
#define OP_LOG2_C3 0.15391353f
#define OP_LOG2_C2 (-1.02949275f)
#define OP_LOG2_C1 3.01073029f
#define OP_LOG2_C0 (-2.13381654f)
static inline float op_log2(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    float e = (float)((int32_t)(bits >> 23) - 127), m;
    bits = (bits & 0x7FFFFF) | 0x3F800000;
    memcpy(&m, &bits, 4);
    return e + fmaf(fmaf(fmaf(OP_LOG2_C3, m, OP_LOG2_C2), m, OP_LOG2_C1), m, OP_LOG2_C0);
}

/* The rotation of KV_Q8 (op.h): a Hadamard matrix of 32 without its factor. */
static inline void op_rotate32(float x[32])
{
    for (int h = 16; h > 0; h /= 2)
        for (int i = 0; i < 32; i++)
            if (!(i & h)) {
                float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
}

/* The tree that ends every 16-lane sum. */
static inline float op_sum16(const float lane[16])
{
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = lane[i] + lane[i + 8];
    for (int i = 0; i < 4; i++)
        s[i] = s[i] + s[i + 4];
    return (s[0] + s[2]) + (s[1] + s[3]);
}

#endif
