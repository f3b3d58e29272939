/* The reference dot product of quantised weights: the order that quant.h defines, and nothing else. */
#include "quant/quant.h"

#include <math.h>

/* Exact integer sum of q * v over n elements. */
static int32_t dot_int(const int8_t *q, const struct act_row *x, size_t at, size_t n)
{
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += q[i] * (256 * x->hi[at + i] + x->lo[at + i]);
    return sum;
}

float quant_dot(const struct quant_format *f, const void *row, const struct act_row *x, size_t n)
{
    const uint8_t *block = row;
    size_t group = f->group;
    float acc = 0;
    struct quant_view v;
    for (size_t at = 0; at < n; at += f->block_elems, block += f->block_bytes) {
        f->view(block, &v);
        for (size_t g = 0; g < f->block_elems / group; g++) {
            size_t first = at + g * group, run = first / 32;
            int32_t isum = dot_int(v.q + g * group, x, first, group);
            acc = fmaf(v.a[g] * x->d[run], (float)isum, acc);
            if (f->has_min) {
                int32_t xsum = x->sum16[first / 16];
                if (group == 32)
                    xsum += x->sum16[first / 16 + 1];
                acc = fmaf(v.b[g], x->d[run] * (float)xsum, acc);
            }
        }
    }
    return acc;
}
