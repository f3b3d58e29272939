/* What the families share: the functions a row of the table points to, and the readers of packed fields.
 *
 * A block format writes its layout down once, in its view; decode is the view multiplied out. That is bit-equal to
 * decoding in one go, because a_g is a product short enough to be exact in f32 and the one rounding left is the same:
 *   no minimum   value = a * q
 *   minimum      value = a * q + b, where a * q has at most 24 significant bits and is exact */
#ifndef GLIM_QUANT_FAMILY_H
#define GLIM_QUANT_FAMILY_H

#include "quant/quant.h"

#include <math.h>
#include <string.h>

/* ---- fields of a block: little-endian, unaligned ---- */
static inline uint32_t le16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t le32(const uint8_t *p)
{
    return le16(p) | le16(p + 2) << 16;
}

static inline float f16_at(const uint8_t *p)
{
    return f16_to_f32((uint16_t)le16(p));
}

static inline void put_f16(uint8_t *p, float f)
{
    uint16_t h = f32_to_f16(f);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* Neither Inf nor NaN. */
static inline bool f16_finite_at(const uint8_t *p)
{
    return (le16(p) & 0x7C00) != 0x7C00;
}

/* q[0..16) from the low nibbles of n bytes, then the high ones: the order of every 32-element 4-bit format. */
static inline void unpack_nibbles(int8_t *q, const uint8_t *qs, int n, const int8_t table[16])
{
    for (int j = 0; j < n; j++) {
        q[j] = table[qs[j] & 15];
        q[j + n] = table[qs[j] >> 4];
    }
}

/* ---- decode through the view ---- */
struct block_shape {
    int elems, bytes, group;
};

static inline void decode_views(void (*view)(const void *, struct quant_view *), struct block_shape s, bool has_min,
                                const uint8_t *src, float *dst, size_t n_block)
{
    struct quant_view v;
    for (size_t k = 0; k < n_block; k++, src += s.bytes, dst += s.elems) {
        view(src, &v);
        for (int i = 0; i < s.elems; i++) {
            float x = v.a[i / s.group] * (float)v.q[i];
            dst[i] = has_min ? x + v.b[i / s.group] : x;
        }
    }
}

/* name_decode, given name_view. */
#define DECODE_BY_VIEW(name, elems, bytes, group, has_min)                                                             \
    void name##_decode(const void *src, float *dst, size_t n_block)                                                    \
    {                                                                                                                  \
        decode_views(name##_view, (struct block_shape){elems, bytes, group}, has_min, src, dst, n_block);              \
    }

#define BLOCK_FORMAT(name)                                                                                             \
    void name##_decode(const void *src, float *dst, size_t n_block);                                                   \
    void name##_view(const void *block, struct quant_view *v);                                                         \
    bool name##_finite(const void *block);
#define ENCODER(name) void name##_encode(const float *src, void *dst, size_t n_block);
#define PLAIN_FORMAT(name)                                                                                             \
    void name##_decode(const void *src, float *dst, size_t n_block);                                                   \
    bool name##_finite(const void *block);

/* plain.c */
PLAIN_FORMAT(f32)
PLAIN_FORMAT(f16)
PLAIN_FORMAT(bf16)
PLAIN_FORMAT(i8)
PLAIN_FORMAT(i32)
ENCODER(f32)
ENCODER(f16)
ENCODER(bf16)
/* legacy.c */
BLOCK_FORMAT(q4_0)
BLOCK_FORMAT(q4_1)
BLOCK_FORMAT(q5_0)
BLOCK_FORMAT(q5_1)
BLOCK_FORMAT(q8_0)
ENCODER(q4_0)
ENCODER(q4_1)
ENCODER(q5_0)
ENCODER(q5_1)
ENCODER(q8_0)
/* kquant.c */
BLOCK_FORMAT(q2_k)
BLOCK_FORMAT(q3_k)
BLOCK_FORMAT(q4_k)
BLOCK_FORMAT(q5_k)
BLOCK_FORMAT(q6_k)
/* iquant.c */
BLOCK_FORMAT(iq4_nl)
BLOCK_FORMAT(iq4_xs)
/* fp4.c */
BLOCK_FORMAT(mxfp4)
BLOCK_FORMAT(nvfp4)

#undef BLOCK_FORMAT
#undef ENCODER
#undef PLAIN_FORMAT

#endif
