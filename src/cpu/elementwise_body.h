/* Inner kernels of add, scale, softcap and glu; included by elementwise_<isa>.c after its lanes. Each lane stands
 * alone, so whole vectors and the shorter last one give the same bits. */
#include "cpu/cpu_impl.h"
#include "cpu/lanes_math.h"

/* Whole vectors in one loop, the last short one after it; `at` is the index of the vector's first element, `n_at` how
 * many of its lanes are in memory. */
#define EACH_VECTOR(n, whole, part)                                                                                    \
    do {                                                                                                               \
        size_t at = 0;                                                                                                 \
        for (; at + 16 <= (n); at += 16)                                                                               \
            whole;                                                                                                     \
        size_t n_at = (n)-at;                                                                                          \
        if (n_at != 0)                                                                                                 \
            part;                                                                                                      \
    } while (0)

static void add_row(float *y, const float *x, size_t n)
{
    EACH_VECTOR(n, v_store(y + at, v_add(v_load(y + at), v_load(x + at))),
                v_store_n(y + at, v_add(v_load_n(y + at, n_at), v_load_n(x + at, n_at)), n_at));
}

static void scale_row(float *x, size_t n, float s)
{
    vf f = v_set(s);
    EACH_VECTOR(n, v_store(x + at, v_mul(v_load(x + at), f)),
                v_store_n(x + at, v_mul(v_load_n(x + at, n_at), f), n_at));
}

static void softcap_row(float *x, size_t n, float cap)
{
    vf c = v_set(cap);
    EACH_VECTOR(n, v_store(x + at, v_softcap(v_load(x + at), c)),
                v_store_n(x + at, v_softcap(v_load_n(x + at, n_at), c), n_at));
}

#define GLU_ROW(act)                                                                                                   \
    EACH_VECTOR(n, v_store(y + at, v_mul(act(v_load(g + at)), v_load(u + at))),                                        \
                v_store_n(y + at, v_mul(act(v_load_n(g + at, n_at)), v_load_n(u + at, n_at)), n_at))

static void glu_row(float *y, const float *g, const float *u, size_t n, enum act_fn fn)
{
    switch (fn) {
    case ACT_FN_SILU:
        GLU_ROW(v_silu);
        break;
    case ACT_FN_GELU_TANH:
        GLU_ROW(v_gelu_tanh);
        break;
    case ACT_FN_GELU_ERF:
        GLU_ROW(v_gelu_erf);
        break;
    }
}

const struct elementwise_kernels LANES_NAME(elementwise) = {
    .add = add_row, .scale = scale_row, .softcap = softcap_row, .glu = glu_row};
