/* rmsnorm: rows shared out evenly. */
#include "cpu/cpu_impl.h"

struct norm_job {
    const struct norm_kernels *k;
    struct rows y, x;
    const float *w;
    float eps;
};

static void norm_member(void *arg, int member, int n_member)
{
    const struct norm_job *j = arg;
    size_t first, last;
    cpu_share(j->x.n, member, n_member, &first, &last);
    for (size_t r = first; r < last; r++)
        j->k->rmsnorm(j->y.p + r * j->y.stride, j->x.p + r * j->x.stride, j->w, j->x.dim, j->eps);
}

void cpu_rmsnorm(struct op_ctx *c, struct rows y, struct rows x, const float *w, float eps)
{
    struct norm_job j = {.k = cpu_of(c)->k->norm, .y = y, .x = x, .w = w, .eps = eps};
    cpu_run(c, norm_member, &j, 0.15 * x.n * (x.dim + 64));
}
