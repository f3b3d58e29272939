/* k-quants: super-blocks of 256 elements with an f16 scale d (and dmin), cut into groups of 16 or 32 that have small
 * integer scales (and minimums) of their own.
 *
 *   Q2_K  16 scale bytes | 64 bytes of 2 bits | d dmin              value = d * sc * q - dmin * m      groups of 16
 *   Q3_K  32 high bits | 64 bytes of 2 bits | 12 scale bytes | d    value = d * (sc - 32) * (q - 4)    groups of 16
 *   Q4_K  d dmin | 12 scale bytes | 128 bytes of nibbles            value = d * sc * q - dmin * m      groups of 32
 *   Q5_K  d dmin | 12 scale bytes | 32 high bits | 128 nibbles      value = d * sc * q - dmin * m      groups of 32
 *   Q6_K  128 nibbles | 64 bytes of 2 high bits | 16 scales | d     value = d * sc * (q - 32)          groups of 16
 *
 * Everywhere below, element 128 h + 32 j + l: half h, quarter j of the half, l in [0, 32).
 * d * sc has at most 11 + 8 significant bits: exact. */
#include "quant/family.h"

/* Two bits of 256 elements: byte 32 h + l holds the four quarters' element l, quarter 0 lowest. */
static int crumb(const uint8_t *qs, int h, int j, int l)
{
    return qs[32 * h + l] >> 2 * j & 3;
}

void q2_k_view(const void *block, struct quant_view *v)
{
    const uint8_t *scales = block, *qs = scales + 16;
    float d = f16_at(scales + 80), dmin = f16_at(scales + 82);
    for (int g = 0; g < 16; g++) { /* low nibble: scale; high nibble: minimum */
        v->a[g] = d * (float)(scales[g] & 15);
        v->b[g] = -(dmin * (float)(scales[g] >> 4));
    }
    for (int i = 0; i < 256; i++)
        v->q[i] = (int8_t)crumb(qs, i / 128, i / 32 % 4, i % 32);
}

void q3_k_view(const void *block, struct quant_view *v)
{
    const uint8_t *high = block, *qs = high + 32, *scales = high + 96;
    float d = f16_at(high + 108);
    for (int g = 0; g < 16; g++) { /* 6-bit scale: 4 low bits in bytes 0..7 (two a byte), 2 high bits in bytes 8..11 */
        int low = scales[g % 8] >> 4 * (g / 8) & 15, top = scales[8 + g % 4] >> 2 * (g / 4) & 3;
        v->a[g] = d * (float)((low | top << 4) - 32);
        v->b[g] = 0;
    }
    for (int i = 0; i < 256; i++) { /* bit 4 h + j of high byte l is the third bit */
        int third = high[i % 32] >> (i / 32) & 1;
        v->q[i] = (int8_t)((crumb(qs, i / 128, i / 32 % 4, i % 32) | third << 2) - 4);
    }
}

/* 6-bit scales and minimums of 8 groups in 12 bytes: groups 0..3 have theirs in the low six bits of bytes 0..3
 * and 4..7; groups 4..7 have four bits in bytes 8..11 and two in the top bits of bytes 0..3 and 4..7. */
static void six_bit_scales(const uint8_t *s, float d, float dmin, struct quant_view *v)
{
    for (int g = 0; g < 8; g++) {
        int k = g % 4, sc, m;
        if (g < 4) {
            sc = s[k] & 63;
            m = s[4 + k] & 63;
        } else {
            sc = (s[8 + k] & 15) | s[k] >> 6 << 4;
            m = s[8 + k] >> 4 | s[4 + k] >> 6 << 4;
        }
        v->a[g] = d * (float)sc;
        v->b[g] = -(dmin * (float)m);
    }
}

/* Nibble of element i: byte 32 (i / 64) + l holds groups 2c (low) and 2c + 1 (high). */
static int nibble64(const uint8_t *qs, int i)
{
    return qs[i / 64 * 32 + i % 32] >> 4 * (i / 32 % 2) & 15;
}

void q4_k_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block, *qs = p + 16;
    six_bit_scales(p + 4, f16_at(p), f16_at(p + 2), v);
    for (int i = 0; i < 256; i++)
        v->q[i] = (int8_t)nibble64(qs, i);
}

void q5_k_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block, *high = p + 16, *qs = p + 48;
    six_bit_scales(p + 4, f16_at(p), f16_at(p + 2), v);
    for (int i = 0; i < 256; i++) { /* bit g of high byte l */
        int fifth = high[i % 32] >> (i / 32) & 1;
        v->q[i] = (int8_t)(nibble64(qs, i) | fifth << 4);
    }
}

void q6_k_view(const void *block, struct quant_view *v)
{
    const uint8_t *ql = block, *qh = ql + 128, *scales = ql + 192;
    float d = f16_at(ql + 208);
    for (int g = 0; g < 16; g++) {
        v->a[g] = d * (float)(int8_t)scales[g];
        v->b[g] = 0;
    }
    for (int i = 0; i < 256;
         i++) { /* quarters 0, 1 are the low nibbles of a half's 64 bytes, quarters 2, 3 the high ones */
        int h = i / 128, j = i / 32 % 4, l = i % 32;
        int low = ql[64 * h + 32 * (j % 2) + l] >> 4 * (j / 2) & 15;
        v->q[i] = (int8_t)((low | crumb(qh, h, j, l) << 4) - 32);
    }
}

DECODE_BY_VIEW(q2_k, 256, 84, 16, true)
DECODE_BY_VIEW(q3_k, 256, 110, 16, false)
DECODE_BY_VIEW(q4_k, 256, 144, 32, true)
DECODE_BY_VIEW(q5_k, 256, 176, 32, true)
DECODE_BY_VIEW(q6_k, 256, 210, 16, false)

bool q2_k_finite(const void *block)
{
    const uint8_t *p = block;
    return f16_finite_at(p + 80) && f16_finite_at(p + 82);
}

bool q3_k_finite(const void *block)
{
    return f16_finite_at((const uint8_t *)block + 108);
}

bool q4_k_finite(const void *block)
{
    const uint8_t *p = block;
    return f16_finite_at(p) && f16_finite_at(p + 2);
}

bool q5_k_finite(const void *block)
{
    return q4_k_finite(block);
}

bool q6_k_finite(const void *block)
{
    return f16_finite_at((const uint8_t *)block + 208);
}
