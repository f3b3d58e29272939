/* Inner kernel of rmsnorm and head_norm; included by norm_<isa>.c after its lanes. */
#include "cpu/cpu_impl.h"

#include <math.h>

/* A short last vector is padded with zeros: fma(0, 0, acc) = acc, because a sum of squares is never -0. */
static float inverse_rms(const float *x, uint32_t dim, float eps)
{
    vf sum = v_set(0);
    uint32_t j = 0;
    for (; j + 16 <= dim; j += 16) {
        vf a = v_load(x + j);
        sum = v_fma(a, a, sum);
    }
    if (j < dim) {
        vf a = v_load_n(x + j, dim - j);
        sum = v_fma(a, a, sum);
    }
    return 1.0f / sqrtf(v_sum(sum) / (float)dim + eps);
}

static void rmsnorm_row(float *y, const float *x, const float *w, uint32_t dim, float eps)
{
    vf s = v_set(inverse_rms(x, dim, eps));
    uint32_t j = 0;
    for (; j + 16 <= dim; j += 16) {
        vf a = v_mul(v_load(x + j), s);
        v_store(y + j, w ? v_mul(a, v_load(w + j)) : a);
    }
    if (j < dim) {
        vf a = v_mul(v_load_n(x + j, dim - j), s);
        v_store_n(y + j, w ? v_mul(a, v_load_n(w + j, dim - j)) : a, dim - j);
    }
}

const struct norm_kernels LANES_NAME(norm) = {.rmsnorm = rmsnorm_row};
