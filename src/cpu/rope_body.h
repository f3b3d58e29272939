/* Inner kernel of rope; included by rope_<isa>.c after its lanes. Sixteen frequencies at a time for all heads of a row,
 * so that the table is unzipped once. */
#include "cpu/cpu_impl.h"

#include <string.h>

struct angle {
    vf cos, sin;
};

LANES_INLINE void turn(struct angle a, vf x0, vf x1, vf *y0, vf *y1)
{
    *y0 = v_fma(x0, a.cos, v_neg(v_mul(x1, a.sin)));
    *y1 = v_fma(x1, a.cos, v_mul(x0, a.sin));
}

/* Pairs (i, i + n_freq) of n <= 16 frequencies; x0 and x1 point to their first members in the first head. */
LANES_INLINE void rotate_halves(float *x0, float *x1, size_t n, uint32_t n_head, uint32_t head_dim, struct angle a)
{
    for (size_t at = 0; at < (size_t)n_head * head_dim; at += head_dim) {
        vf y0, y1;
        if (n == 16) {
            turn(a, v_load(x0 + at), v_load(x1 + at), &y0, &y1);
            v_store(x0 + at, y0);
            v_store(x1 + at, y1);
        } else {
            turn(a, v_load_n(x0 + at, n), v_load_n(x1 + at, n), &y0, &y1);
            v_store_n(x0 + at, y0, n);
            v_store_n(x1 + at, y1, n);
        }
    }
}

/* Pairs (2i, 2i + 1). */
LANES_INLINE void rotate_pairs(float *x, size_t n, uint32_t n_head, uint32_t head_dim, struct angle a)
{
    for (size_t at = 0; at < (size_t)n_head * head_dim; at += head_dim) {
        float part[32] = {0}, *p = x + at;
        vf x0, x1, y0, y1;
        if (n < 16)
            p = memcpy(part, p, 2 * n * sizeof *p);
        v_unzip(p, &x0, &x1);
        turn(a, x0, x1, &y0, &y1);
        v_zip(p, y0, y1);
        if (n < 16)
            memcpy(x + at, part, 2 * n * sizeof *p);
    }
}

static void rotate(float *x, uint32_t n_head, uint32_t head_dim, const float *t, uint32_t n_freq, bool interleaved)
{
    for (uint32_t i = 0; i < n_freq; i += 16) {
        float part[32] = {0};
        const float *p = t + 2 * i;
        size_t n = n_freq - i < 16 ? n_freq - i : 16;
        struct angle a;
        if (n < 16)
            p = memcpy(part, p, 2 * n * sizeof *p);
        v_unzip(p, &a.cos, &a.sin);
        if (interleaved)
            rotate_pairs(x + 2 * i, n, n_head, head_dim, a);
        else
            rotate_halves(x + i, x + n_freq + i, n, n_head, head_dim, a);
    }
}

const struct rope_kernels LANES_NAME(rope) = {.rotate = rotate};
