/* op_math.h over sixteen lanes: the same sequences, so the same bits. Included after a lanes_<isa>.h. */
#ifndef GLIM_CPU_LANES_MATH_H
#define GLIM_CPU_LANES_MATH_H

#include "op/op_math.h"

LANES_INLINE vf v_exp(vf x)
{
    x = v_max(x, v_set(OP_EXP_LO));
    x = v_min(x, v_set(OP_EXP_HI));
    vf n = v_rint(v_mul(x, v_set(OP_LOG2E)));
    vf r = v_fma(n, v_set(-OP_LN2_HI), x);
    r = v_fma(n, v_set(-OP_LN2_LO), r);
    vf p = v_set(OP_EXP_C0);
    p = v_fma(p, r, v_set(OP_EXP_C1));
    p = v_fma(p, r, v_set(OP_EXP_C2));
    p = v_fma(p, r, v_set(OP_EXP_C3));
    p = v_fma(p, r, v_set(OP_EXP_C4));
    p = v_fma(p, r, v_set(OP_EXP_C5));
    p = v_add(v_fma(p, v_mul(r, r), r), v_set(1.0f));
    return v_mul(p, v_pow2(n));
}

LANES_INLINE vf v_exp2(vf x)
{
    x = v_max(x, v_set(OP_EXP2_LO));
    vf n = v_rint(x), f = v_sub(x, n);
    vf p = v_fma(v_set(OP_EXP2_C3), f, v_set(OP_EXP2_C2));
    p = v_fma(p, f, v_set(OP_EXP2_C1));
    return v_scale2(v_fma(p, f, v_set(1.0f)), n);
}

LANES_INLINE vf v_log2(vf x)
{
    vf m, e;
    v_split(x, &m, &e);
    vf p = v_fma(v_fma(v_set(OP_LOG2_C3), m, v_set(OP_LOG2_C2)), m, v_set(OP_LOG2_C1));
    return v_add(e, v_fma(p, m, v_set(OP_LOG2_C0)));
}

LANES_INLINE vf v_tanh(vf x)
{
    vf a = v_abs(x), one = v_set(1.0f);
    vf t = v_sub(one, v_div(v_set(2.0f), v_add(v_exp(v_mul(v_set(2.0f), a)), one)));
    vf small = v_fma(v_mul(v_mul(a, a), a), v_set(-0.333333333f), a);
    return v_copysign(v_lt_select(v_set(0.02f), a, t, small), x);
}

LANES_INLINE vf v_silu(vf x)
{
    return v_div(x, v_add(v_set(1.0f), v_exp(v_neg(x))));
}

LANES_INLINE vf v_gelu_tanh(vf x)
{
    vf u = v_mul(v_set(0.7978845608f), v_fma(v_mul(v_mul(v_set(0.044715f), x), x), x, x));
    return v_mul(v_mul(v_set(0.5f), x), v_add(v_set(1.0f), v_tanh(u)));
}

LANES_INLINE vf v_gelu_erf(vf x)
{
    vf z = v_mul(v_abs(x), v_set(0.7071067812f)), one = v_set(1.0f);
    vf t = v_div(one, v_fma(v_set(0.3275911f), z, one));
    vf p = v_set(1.061405429f);
    p = v_fma(p, t, v_set(-1.453152027f));
    p = v_fma(p, t, v_set(1.421413741f));
    p = v_fma(p, t, v_set(-0.284496736f));
    p = v_fma(p, t, v_set(0.254829592f));
    vf erf_z = v_sub(one, v_mul(v_mul(p, t), v_exp(v_mul(v_neg(z), z))));
    return v_mul(v_mul(v_set(0.5f), x), v_add(one, v_copysign(erf_z, x)));
}

/* x = cap * tanh(x / cap) */
LANES_INLINE vf v_softcap(vf x, vf cap)
{
    return v_mul(cap, v_tanh(v_div(x, cap)));
}

#endif
