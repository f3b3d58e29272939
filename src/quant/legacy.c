/* ggml's first formats: 32 elements, an f16 scale d, perhaps an f16 minimum m.
 *
 *   Q4_0  d | 16 bytes of nibbles                     value = d * (q - 8)
 *   Q4_1  d m | 16 bytes of nibbles                   value = d * q + m
 *   Q5_0  d | 32 fifth bits | 16 bytes of nibbles     value = d * (q - 16)
 *   Q5_1  d m | 32 fifth bits | 16 bytes of nibbles   value = d * q + m
 *   Q8_0  d | 32 signed bytes                         value = d * q
 *
 * Byte j of the nibbles holds elements j (low) and j + 16 (high); bit i of the fifth bits belongs to element i.
 * Encoders round like ggml's reference quantisers: with the f32 scale, before it is stored as f16. */
#include "quant/family.h"

/* ---- views ---- */

void q4_0_view(const void *block, struct quant_view *v)
{
    static const int8_t level[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    const uint8_t *p = block;
    v->a[0] = f16_at(p);
    v->b[0] = 0;
    unpack_nibbles(v->q, p + 2, 16, level);
}

static const int8_t level_0_15[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

void q4_1_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block;
    v->a[0] = f16_at(p);
    v->b[0] = f16_at(p + 2);
    unpack_nibbles(v->q, p + 4, 16, level_0_15);
}

/* Nibbles at qs, fifth bits at qh, minus zero. */
static void unpack_5bit(int8_t *q, const uint8_t *qs, const uint8_t *qh, int zero)
{
    uint32_t high = le32(qh);
    unpack_nibbles(q, qs, 16, level_0_15);
    for (int i = 0; i < 32; i++)
        q[i] = (int8_t)(q[i] + (int)(high >> i & 1) * 16 - zero);
}

void q5_0_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block;
    v->a[0] = f16_at(p);
    v->b[0] = 0;
    unpack_5bit(v->q, p + 6, p + 2, 16);
}

void q5_1_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block;
    v->a[0] = f16_at(p);
    v->b[0] = f16_at(p + 2);
    unpack_5bit(v->q, p + 8, p + 4, 0);
}

void q8_0_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block;
    v->a[0] = f16_at(p);
    v->b[0] = 0;
    memcpy(v->q, p + 2, 32);
}

DECODE_BY_VIEW(q4_0, 32, 18, 32, false)
DECODE_BY_VIEW(q4_1, 32, 20, 32, true)
DECODE_BY_VIEW(q5_0, 32, 22, 32, false)
DECODE_BY_VIEW(q5_1, 32, 24, 32, true)
DECODE_BY_VIEW(q8_0, 32, 34, 32, false)

/* ---- damage: the f16 fields ---- */

bool q4_0_finite(const void *block)
{
    return f16_finite_at(block);
}

bool q4_1_finite(const void *block)
{
    const uint8_t *p = block;
    return f16_finite_at(p) && f16_finite_at(p + 2);
}

bool q5_0_finite(const void *block)
{
    return f16_finite_at(block);
}

bool q5_1_finite(const void *block)
{
    return q4_1_finite(block);
}

bool q8_0_finite(const void *block)
{
    return f16_finite_at(block);
}

/* ---- encoders ---- */

/* x truncated to an integer in [0, top]; NaN gives 0. */
static int level_of(float x, int top)
{
    return x >= (float)top ? top : x > 0 ? (int)x : 0;
}

/* Scale and offset of 32 elements: level = floor(x * inv + shift), value = d * (level - zero) + m. */
struct fit {
    float d, inv, m;
};

/* Without a minimum: the element of largest magnitude gets the lowest level, -zero. */
static struct fit fit_signed(const float *x, int zero)
{
    float peak = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(peak))
            peak = x[i];
    float d = peak / (float)-zero;
    return (struct fit){.d = d, .inv = d != 0 ? 1.0f / d : 0, .m = 0};
}

/* With a minimum: the range of the elements is cut into `top` steps. */
static struct fit fit_range(const float *x, int top)
{
    float lo = x[0], hi = x[0];
    for (int i = 1; i < 32; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    float d = (hi - lo) / (float)top;
    return (struct fit){.d = d, .inv = d != 0 ? 1.0f / d : 0, .m = lo};
}

/* Levels [0, top] of 32 elements into nibbles and, when qh is not NULL, fifth bits. shift = zero + 1/2. */
static void pack_levels(uint8_t *qs, uint8_t *qh, const float *x, struct fit f, float shift, int top)
{
    uint32_t high = 0;
    for (int i = 0; i < 32; i++) {
        int q = level_of((x[i] - f.m) * f.inv + shift, top);
        if (i < 16)
            qs[i] = (uint8_t)(q & 15);
        else
            qs[i - 16] = (uint8_t)(qs[i - 16] | (q & 15) << 4);
        high |= (uint32_t)(q >> 4) << i;
    }
    for (int i = 0; qh != NULL && i < 4; i++)
        qh[i] = (uint8_t)(high >> 8 * i);
}

void q4_0_encode(const float *src, void *dst, size_t n_block)
{
    uint8_t *p = dst;
    for (size_t k = 0; k < n_block; k++, src += 32, p += 18) {
        struct fit f = fit_signed(src, 8);
        put_f16(p, f.d);
        pack_levels(p + 2, NULL, src, f, 8.5f, 15);
    }
}

void q4_1_encode(const float *src, void *dst, size_t n_block)
{
    uint8_t *p = dst;
    for (size_t k = 0; k < n_block; k++, src += 32, p += 20) {
        struct fit f = fit_range(src, 15);
        put_f16(p, f.d);
        put_f16(p + 2, f.m);
        pack_levels(p + 4, NULL, src, f, 0.5f, 15);
    }
}

void q5_0_encode(const float *src, void *dst, size_t n_block)
{
    uint8_t *p = dst;
    for (size_t k = 0; k < n_block; k++, src += 32, p += 22) {
        struct fit f = fit_signed(src, 16);
        put_f16(p, f.d);
        pack_levels(p + 6, p + 2, src, f, 16.5f, 31);
    }
}

void q5_1_encode(const float *src, void *dst, size_t n_block)
{
    uint8_t *p = dst;
    for (size_t k = 0; k < n_block; k++, src += 32, p += 24) {
        struct fit f = fit_range(src, 31);
        put_f16(p, f.d);
        put_f16(p + 2, f.m);
        pack_levels(p + 8, p + 4, src, f, 0.5f, 31);
    }
}

void q8_0_encode(const float *src, void *dst, size_t n_block)
{
    uint8_t *p = dst;
    for (size_t k = 0; k < n_block; k++, src += 32, p += 34) {
        float peak = 0;
        for (int i = 0; i < 32; i++)
            peak = fmaxf(peak, fabsf(src[i]));
        float d = peak / 127.0f, inv = d != 0 ? 1.0f / d : 0;
        put_f16(p, d);
        for (int i = 0; i < 32; i++) {
            float x = roundf(src[i] * inv); /* halves away from zero */
            p[2 + i] = (uint8_t)(int8_t)(x >= 127 ? 127 : x > -127 ? (int)x : -127);
        }
    }
}
