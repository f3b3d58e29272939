/* Plain numbers: a block is one element and there is no integer view. I8 and I32 occur in files as auxiliary tensors;
 * they are sized and can be printed, and are never the operand of a product. */
#include "quant/family.h"

void f32_decode(const void *src, float *dst, size_t n)
{
    memcpy(dst, src, n * sizeof(float));
}

void f32_encode(const float *src, void *dst, size_t n)
{
    memcpy(dst, src, n * sizeof(float));
}

bool f32_finite(const void *p)
{
    return (le32(p) & 0x7F800000) != 0x7F800000;
}

void f16_decode(const void *src, float *dst, size_t n)
{
    const uint8_t *s = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = f16_at(s + 2 * i);
}

void f16_encode(const float *src, void *dst, size_t n)
{
    uint8_t *d = dst;
    for (size_t i = 0; i < n; i++)
        put_f16(d + 2 * i, src[i]);
}

bool f16_finite(const void *p)
{
    return f16_finite_at(p);
}

void bf16_decode(const void *src, float *dst, size_t n)
{
    const uint8_t *s = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = bf16_to_f32((uint16_t)le16(s + 2 * i));
}

void bf16_encode(const float *src, void *dst, size_t n)
{
    uint8_t *d = dst;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = f32_to_bf16(src[i]);
        d[2 * i] = (uint8_t)h;
        d[2 * i + 1] = (uint8_t)(h >> 8);
    }
}

bool bf16_finite(const void *p)
{
    return (le16(p) & 0x7F80) != 0x7F80;
}

void i8_decode(const void *src, float *dst, size_t n)
{
    const int8_t *s = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)s[i];
}

bool i8_finite(const void *p)
{
    (void)p;
    return true;
}

void i32_decode(const void *src, float *dst, size_t n)
{
    const uint8_t *s = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)(int32_t)le32(s + 4 * i);
}

bool i32_finite(const void *p)
{
    (void)p;
    return true;
}
