/* i-quants with a table of sixteen levels that lie closer together around zero, where weights are.
 *
 *   IQ4_NL  d | 16 bytes of nibbles                                32 elements     value = d * level
 *   IQ4_XS  d | 16 high scale bits | 4 scale bytes | 128 nibbles   256 elements    value = d * (sc - 32) * level
 *
 * Nibbles of each 32 elements: byte j holds elements j (low) and j + 16 (high). */
#include "quant/family.h"

static const int8_t level[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void iq4_nl_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block;
    v->a[0] = f16_at(p);
    v->b[0] = 0;
    unpack_nibbles(v->q, p + 2, 16, level);
}

void iq4_xs_view(const void *block, struct quant_view *v)
{
    const uint8_t *p = block, *low = p + 4, *qs = p + 8;
    uint32_t high = le16(p + 2);
    float d = f16_at(p);
    for (int g = 0; g < 8; g++) {
        int sc = (low[g / 2] >> 4 * (g % 2) & 15) | (int)(high >> 2 * g & 3) << 4;
        v->a[g] = d * (float)(sc - 32);
        v->b[g] = 0;
        unpack_nibbles(v->q + 32 * g, qs + 16 * g, 16, level);
    }
}

DECODE_BY_VIEW(iq4_nl, 32, 18, 32, false)
DECODE_BY_VIEW(iq4_xs, 256, 136, 32, false)

bool iq4_nl_finite(const void *block)
{
    return f16_finite_at(block);
}

bool iq4_xs_finite(const void *block)
{
    return f16_finite_at(block);
}
