/* Rotating and encoding heads in 8 bits (KV_Q8 of op.h), sixteen runs at a time: their peaks end up in the lanes of one
 * vector, so that one division serves all. Included by attention_q8_<isa>.c after its lanes. */
#ifndef GLIM_CPU_Q8_ENCODE_H
#define GLIM_CPU_Q8_ENCODE_H

#include "cpu/lanes_math.h"

struct q8_runs { /* rotated */
    vf x[16][2];
};

LANES_INLINE void rotate(vf *a, vf *b)
{
    vf sum = v_add(*a, *b);
    *b = v_butterfly(v_butterfly(v_butterfly(v_butterfly(v_sub(*a, *b), 8), 4), 2), 1);
    *a = v_butterfly(v_butterfly(v_butterfly(v_butterfly(sum, 8), 4), 2), 1);
}

/* Run i of r: n numbers at x, then zeros. */
LANES_INLINE void load_run(struct q8_runs *r, unsigned i, const float *x, size_t n)
{
    vf a = n >= 16 ? v_load(x) : v_load_n(x, n), b = v_set(0);
    if (n >= 32)
        b = v_load(x + 16);
    else if (n > 16)
        b = v_load_n(x + 16, n - 16);
    rotate(&a, &b);
    r->x[i][0] = a;
    r->x[i][1] = b;
}

/* max|x| of each run, NaN or Inf when it holds one. */
LANES_INLINE vf run_peaks(const struct q8_runs *r)
{
    vf x[16];
    for (int i = 0; i < 16; i++)
        x[i] = v_larger(r->x[i][0], r->x[i][1]);
    return v_peaks(x);
}

/* Codes of run i; scale must keep them within +-127. */
LANES_INLINE void run_codes(const struct q8_runs *r, unsigned i, float scale, vi *a, vi *b)
{
    vf s = v_set(scale);
    *a = vi_round(v_mul(r->x[i][0], s));
    *b = vi_round(v_mul(r->x[i][1], s));
}

/* Runs that are not finite become 0; returns which they were. */
LANES_INLINE uint32_t drop_bad(struct q8_runs *r, vf peak)
{
    uint32_t bad = ~v_gt_bits(v_set(INFINITY), peak) & 0xFFFF;
    for (unsigned i = 0; bad >> i != 0; i++)
        if (bad >> i & 1)
            r->x[i][0] = r->x[i][1] = v_set(0);
    return bad;
}

/* d = peak / 127 and inv = 127 / peak of sixteen runs: 0 and 0 of those that count as zero, NaN and 0 of those that are
 * not finite (they become 0). */
LANES_INLINE void run_scales(struct q8_runs *r, float d[16], float inv[16])
{
    vf peak = run_peaks(r), full = v_set(127.0f), zero = v_set(0), least = v_set(ACT_PEAK_MIN);
    uint32_t bad = drop_bad(r, peak);
    v_store(d, v_lt_select(peak, least, zero, v_div(peak, full)));
    v_store(inv, v_lt_select(peak, least, zero, v_div(full, peak)));
    for (unsigned i = 0; bad >> i != 0; i++)
        if (bad >> i & 1) {
            d[i] = NAN;
            inv[i] = 0;
        }
}

#endif
