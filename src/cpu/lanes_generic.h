/* Sixteen f32 lanes in plain C: the vector the kernels' bodies are written over.
 *
 * Sixteen because the contract's sums have sixteen partial lanes and a KV page sixteen tokens: with one such vector as
 * the unit, a body's order of operations is the contract's on every instruction set. Each function is one IEEE
 * operation a lane, so the bits agree by construction. v_xxx_n functions touch the first min(n, 16) lanes of memory
 * only; loaded lanes past n are zero. lanes_avx2.h and lanes_avx512.h define the same names. */
#ifndef GLIM_CPU_LANES_GENERIC_H
#define GLIM_CPU_LANES_GENERIC_H

#include "op/op.h"
#include "op/op_math.h"

#define LANES_INLINE  static inline __attribute__((always_inline))
#define LANES_NAME(x) x##_generic
enum { LANES_TILE_Q = 4, LANES_ACC = 4 }; /* queries and accumulators of a register tile */

typedef struct {
    float v[16];
} vf;

#define LANES_FOR for (size_t i = 0; i < 16; i++)

LANES_INLINE vf v_load_n(const float *p, size_t n)
{
    vf r = {{0}};
    memcpy(r.v, p, (n < 16 ? n : 16) * sizeof *p);
    return r;
}

LANES_INLINE vf v_load(const float *p)
{
    return v_load_n(p, 16);
}

LANES_INLINE void v_store_n(float *p, vf a, size_t n)
{
    memcpy(p, a.v, (n < 16 ? n : 16) * sizeof *p);
}

LANES_INLINE void v_store(float *p, vf a)
{
    v_store_n(p, a, 16);
}

LANES_INLINE vf v_load_f16_n(const uint16_t *p, size_t n)
{
    vf r = {{0}};
    for (size_t i = 0; i < n && i < 16; i++)
        r.v[i] = f16_to_f32(p[i]);
    return r;
}

LANES_INLINE vf v_load_f16(const uint16_t *p)
{
    return v_load_f16_n(p, 16);
}

LANES_INLINE vf v_load_bf16_n(const uint16_t *p, size_t n)
{
    uint32_t u[16] = {0};
    vf r;
    for (size_t i = 0; i < n && i < 16; i++)
        u[i] = (uint32_t)p[i] << 16;
    memcpy(r.v, u, sizeof u);
    return r;
}

LANES_INLINE vf v_load_bf16(const uint16_t *p)
{
    return v_load_bf16_n(p, 16);
}

/* Rounded to nearest even, as f32_to_f16 and f32_to_bf16 do. */
LANES_INLINE void v_store_f16_n(uint16_t *p, vf a, size_t n)
{
    for (size_t i = 0; i < n && i < 16; i++)
        p[i] = f32_to_f16(a.v[i]);
}

LANES_INLINE void v_store_bf16_n(uint16_t *p, vf a, size_t n)
{
    for (size_t i = 0; i < n && i < 16; i++)
        p[i] = f32_to_bf16(a.v[i]);
}

LANES_INLINE vf v_set(float x)
{
    vf r;
    LANES_FOR r.v[i] = x;
    return r;
}

LANES_INLINE vf v_add(vf a, vf b)
{
    LANES_FOR a.v[i] = a.v[i] + b.v[i];
    return a;
}

LANES_INLINE vf v_sub(vf a, vf b)
{
    LANES_FOR a.v[i] = a.v[i] - b.v[i];
    return a;
}

LANES_INLINE vf v_mul(vf a, vf b)
{
    LANES_FOR a.v[i] = a.v[i] * b.v[i];
    return a;
}

LANES_INLINE vf v_div(vf a, vf b)
{
    LANES_FOR a.v[i] = a.v[i] / b.v[i];
    return a;
}

/* a * b + c, rounded once */
LANES_INLINE vf v_fma(vf a, vf b, vf c)
{
    LANES_FOR a.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return a;
}

/* b when unordered, as op_exp needs it and the vector instructions do it */
LANES_INLINE vf v_max(vf a, vf b)
{
    LANES_FOR a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}

LANES_INLINE vf v_min(vf a, vf b)
{
    LANES_FOR a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return a;
}

/* nearest integer, ties to even */
LANES_INLINE vf v_rint(vf a)
{
    LANES_FOR a.v[i] = rintf(a.v[i]);
    return a;
}

LANES_INLINE vf v_neg(vf a)
{
    LANES_FOR a.v[i] = -a.v[i];
    return a;
}

LANES_INLINE vf v_abs(vf a)
{
    LANES_FOR a.v[i] = fabsf(a.v[i]);
    return a;
}

LANES_INLINE vf v_copysign(vf a, vf sign)
{
    LANES_FOR a.v[i] = copysignf(a.v[i], sign.v[i]);
    return a;
}

/* a < b ? yes : no */
LANES_INLINE vf v_lt_select(vf a, vf b, vf yes, vf no)
{
    LANES_FOR no.v[i] = a.v[i] < b.v[i] ? yes.v[i] : no.v[i];
    return no;
}

/* 2^n of an integer n in [-126, 127] */
LANES_INLINE vf v_pow2(vf n)
{
    uint32_t u[16];
    LANES_FOR u[i] = (uint32_t)((int32_t)n.v[i] + 127) << 23;
    memcpy(n.v, u, sizeof u);
    return n;
}

/* bit i = lane i of a > b */
LANES_INLINE uint32_t v_gt_bits(vf a, vf b)
{
    uint32_t bits = 0;
    LANES_FOR bits |= (uint32_t)(a.v[i] > b.v[i]) << i;
    return bits;
}

/* largest lane whose bit is set, -inf when none is; no such lane may be NaN */
LANES_INLINE float v_max_of(uint32_t bits, vf a)
{
    float m = -INFINITY;
    LANES_FOR m = bits >> i & 1 && a.v[i] > m ? a.v[i] : m;
    return m;
}

/* lanes whose bit is clear become 0 */
LANES_INLINE vf v_keep(uint32_t bits, vf a)
{
    LANES_FOR a.v[i] = bits >> i & 1 ? a.v[i] : 0;
    return a;
}

/* op_sum16 */
LANES_INLINE float v_sum(vf a)
{
    return op_sum16(a.v);
}

/* 16 pairs at p: first members, second members */
LANES_INLINE void v_unzip(const float *p, vf *even, vf *odd)
{
    LANES_FOR
    {
        even->v[i] = p[2 * i];
        odd->v[i] = p[2 * i + 1];
    }
}

LANES_INLINE void v_zip(float *p, vf even, vf odd)
{
    LANES_FOR
    {
        p[2 * i] = even.v[i];
        p[2 * i + 1] = odd.v[i];
    }
}

#endif
