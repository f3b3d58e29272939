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

/* ---- base 2 ---- */

/* p * 2^n of a whole number n in [-126, 127]; the result is normal */
LANES_INLINE vf v_scale2(vf p, vf n)
{
    return v_mul(p, v_pow2(n));
}

/* a normal number above 0 is m * 2^e, m in [1, 2) */
LANES_INLINE void v_split(vf a, vf *m, vf *e)
{
    uint32_t u[16];
    memcpy(u, a.v, sizeof u);
    LANES_FOR e->v[i] = (float)((int32_t)(u[i] >> 23) - 127);
    LANES_FOR u[i] = (u[i] & 0x7FFFFF) | 0x3F800000;
    memcpy(m->v, u, sizeof u);
}

/* ---- sixteen vectors at once: lane i of the result is about vector i ---- */

/* largest lane; none is NaN */
LANES_INLINE vf v_tops(const vf a[16])
{
    vf r;
    LANES_FOR r.v[i] = v_max_of(0xFFFF, a[i]);
    return r;
}

/* the larger magnitude of two lanes; a NaN is larger than all */
LANES_INLINE vf v_larger(vf a, vf b)
{
    uint32_t x[16], y[16];
    memcpy(x, a.v, sizeof x);
    memcpy(y, b.v, sizeof y);
    LANES_FOR
    {
        x[i] &= 0x7FFFFFFF;
        y[i] &= 0x7FFFFFFF;
        x[i] = x[i] > y[i] ? x[i] : y[i];
    }
    memcpy(a.v, x, sizeof x);
    return a;
}

/* largest lane of what v_larger gave */
LANES_INLINE vf v_peaks(const vf a[16])
{
    vf r = v_set(0);
    LANES_FOR for (size_t k = 0; k < 16; k++)
    {
        uint32_t x, y;
        memcpy(&x, &r.v[i], sizeof x);
        memcpy(&y, &a[i].v[k], sizeof y);
        r.v[i] = x > y ? r.v[i] : a[i].v[k];
    }
    return r;
}

/* lanes whose bit is clear become -inf */
LANES_INLINE vf v_hide(uint32_t bits, vf a)
{
    LANES_FOR a.v[i] = bits >> i & 1 ? a.v[i] : -INFINITY;
    return a;
}

/* one stage of a Hadamard transform: lane i + h of a pair becomes x[i] - x[i + h], lane i the sum; h = 1, 2, 4, 8 */
LANES_INLINE vf v_butterfly(vf a, const int h)
{
    vf r;
    LANES_FOR r.v[i] = i & (size_t)h ? a.v[i ^ (size_t)h] - a.v[i] : a.v[i] + a.v[i ^ (size_t)h];
    return r;
}

/* ---- integers: sixteen lanes of 32 bits, or of four bytes ---- */

enum { LANES_INT_Q = 4, LANES_INT_ACC = 4, LANES_INT_SUM = 4 }; /* queries; accumulators of scores, of values */

typedef struct {
    int32_t v[16];
} vi;
typedef struct {
    uint8_t v[64];
} vu;
typedef struct {
    int8_t v[64];
} vs;

LANES_INLINE vi vi_set(int32_t x)
{
    vi r;
    LANES_FOR r.v[i] = x;
    return r;
}

LANES_INLINE vi vi_load(const int32_t *p)
{
    vi r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

LANES_INLINE void vi_store(int32_t *p, vi a)
{
    memcpy(p, a.v, sizeof a.v);
}

LANES_INLINE vi vi_add(vi a, vi b)
{
    LANES_FOR a.v[i] += b.v[i];
    return a;
}

LANES_INLINE vf vi_float(vi a)
{
    vf r;
    LANES_FOR r.v[i] = (float)a.v[i];
    return r;
}

LANES_INLINE vu vu_load(const void *p)
{
    vu r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

LANES_INLINE vs vs_load(const void *p)
{
    vs r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

/* the four bytes at p in every lane */
LANES_INLINE vu vu_spread(const void *p)
{
    vu r;
    LANES_FOR memcpy(r.v + 4 * i, p, 4);
    return r;
}

LANES_INLINE vs vs_spread(const void *p)
{
    vs r;
    LANES_FOR memcpy(r.v + 4 * i, p, 4);
    return r;
}

/* a + the four products of each lane */
LANES_INLINE vi vi_dot(vi a, vu u, vs s)
{
    LANES_FOR for (size_t k = 4 * i; k < 4 * i + 4; k++) a.v[i] += u.v[k] * s.v[k];
    return a;
}

/* lane i = sum of the lanes of a[i] */
LANES_INLINE vi vi_sums(const vi a[16])
{
    vi r = vi_set(0);
    LANES_FOR for (size_t k = 0; k < 16; k++) r.v[i] += a[i].v[k];
    return r;
}

/* nearest integers, ties to even; x in [-2^30, 2^30] */
LANES_INLINE vi vi_round(vf a)
{
    vi r;
    LANES_FOR r.v[i] = (int32_t)rintf(a.v[i]);
    return r;
}

/* 64 integers in [0, 255] as bytes */
LANES_INLINE void vi_bytes64(uint8_t *p, const vi a[4])
{
    for (size_t i = 0; i < 64; i++)
        p[i] = (uint8_t)a[i / 16].v[i % 16];
}

/* 32 integers in [-128, 127] as bytes */
LANES_INLINE void vi_bytes32(int8_t *p, vi a, vi b)
{
    for (size_t i = 0; i < 32; i++)
        p[i] = (int8_t)(i < 16 ? a : b).v[i % 16];
}

/* lane i of a, b, c and d, in [-128, 127], as bytes 4i … 4i + 3 */
LANES_INLINE void vi_zip4(int8_t *p, const vi a[4])
{
    for (size_t i = 0; i < 64; i++)
        p[i] = (int8_t)a[i % 4].v[i / 4];
}

#endif
