/* Four-bit floats (E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and negatives) under a shared scale.
 *
 *   MXFP4  E8M0 scale e | 16 bytes of nibbles        32 elements               value = 2^(e - 127) * element
 *   NVFP4  4 E4M3 scales | 32 bytes of nibbles       64 elements, groups 16    value = scale * element
 *
 * Views hold twice the element, an integer, under half the scale. Nibbles: byte j of a group of n elements holds
 * elements j (low) and j + n/2 (high). The sign bit of an NVFP4 scale is ignored, as in ggml.
 *
 * Damage: the scale codes that stand for NaN (E8M0 255, E4M3 127) give NaN here, so that it shows; ggml reads 2^128 and
 * 0. E8M0 253 and 254 are fine as long as no element carries the product past f32's range. */
#include "quant/family.h"

static const int8_t twice_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void mxfp4_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block;
    v->a[0] = 0.5f * e8m0_to_f32(p[0]);
    v->b[0] = 0;
    unpack_nibbles(v->q, p + 1, 16, twice_e2m1);
}

void nvfp4_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block;
    for (int g = 0; g < 4; g++) {
        v->a[g] = 0.5f * e4m3_to_f32(p[g] & 0x7F);
        v->b[g] = 0;
        unpack_nibbles(v->q + 16 * g, p + 4 + 8 * g, 8, twice_e2m1);
    }
}

DECODE_BY_VIEW(mxfp4, 32, 17, 32, false)
DECODE_BY_VIEW(nvfp4, 64, 36, 16, false)

bool mxfp4_finite(const void *block)
{
    float value[32];
    mxfp4_decode(block, value, 1);
    for (int i = 0; i < 32; i++)
        if (!isfinite(value[i]))
            return false;
    return true;
}

bool nvfp4_finite(const void *block)
{
    const uint8_t *scale = block;
    for (int g = 0; g < 4; g++)
        if ((scale[g] & 0x7F) == 0x7F)
            return false;
    return true;
}
