/* Conversions of single numbers, in integer arithmetic: the same bits on every machine.
 *
 * Widening is exact. Narrowing rounds to nearest even, overflows to infinity and keeps subnormals. A NaN stays a NaN:
 * it becomes quiet and keeps its sign and leading payload bits, as the processors' own conversions do. */
#include "quant/quant.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* f16: 1 sign, 5 exponent (bias 15), 10 mantissa bits. */
float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (uint32_t)h >> 10 & 31, man = h & 0x3FF;
    if (exp == 31)
        return of_bits(sign | 0x7F800000 | (man != 0 ? 0x400000 | man << 13 : 0));
    if (exp == 0) { /* man * 2^-24, exact */
        float f = (float)man * 0x1p-24f;
        return of_bits(sign | bits_of(f));
    }
    return of_bits(sign | (exp + 112) << 23 | man << 13);
}

/* u >> s, rounded to nearest even; 1 <= s <= 31. */
static uint32_t shift_round(uint32_t u, uint32_t s)
{
    uint32_t kept = u >> s, rest = u & ((1u << s) - 1), half = 1u << (s - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t f32_to_f16(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, mag = u & 0x7FFFFFFF;
    if (mag > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (mag >> 13 & 0x1FF));
    if (mag >= 0x477FF000) /* 65520, half way to what would be 65536 */
        return (uint16_t)(sign | 0x7C00);
    if (mag >= 0x38800000) /* 2^-14 and up: normal. Rounding carries into the exponent where it must. */
        return (uint16_t)(sign | (shift_round(mag, 13) - (112u << 10)));
    if (mag < 0x33000000) /* below 2^-25 */
        return (uint16_t)sign;
    /* Subnormal: a multiple of 2^-24. The mantissa with its hidden bit stands for man * 2^(exp - 150). */
    uint32_t exp = mag >> 23, man = (mag & 0x7FFFFF) | 0x800000;
    return (uint16_t)(sign | shift_round(man, 126 - exp));
}

/* bf16: the upper half of an f32. */
float bf16_to_f32(uint16_t h)
{
    return of_bits((uint32_t)h << 16);
}

uint16_t f32_to_bf16(float f)
{
    uint32_t u = bits_of(f);
    if ((u & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)shift_round(u, 16);
}

/* FP8 E4M3FN: bias 7, no infinities, one NaN of each sign (OCP 8-bit floating point specification). */
float e4m3_to_f32(uint8_t v)
{
    uint32_t sign = (uint32_t)(v & 0x80) << 24, exp = (uint32_t)v >> 3 & 15, man = v & 7;
    if (exp == 15 && man == 7)
        return of_bits(sign | 0x7FC00000);
    if (exp == 0)
        return of_bits(sign | bits_of((float)man * 0x1p-9f));
    return of_bits(sign | (exp + 120) << 23 | man << 20);
}

/* FP8 E5M2: the upper half of an f16. */
float e5m2_to_f32(uint8_t v)
{
    return f16_to_f32((uint16_t)(v << 8));
}

/* A power of two, 2^(v - 127); code 0 is an f32 subnormal. */
float e8m0_to_f32(uint8_t v)
{
    if (v == 0xFF)
        return of_bits(0x7FC00000);
    return of_bits(v == 0 ? 0x400000 : (uint32_t)v << 23);
}

float e2m1_to_f32(uint8_t v)
{
    static const float magnitude[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return v & 8 ? -magnitude[v & 7] : magnitude[v & 7];
}
