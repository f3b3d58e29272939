/* rmsnorm and head_norm: rows, or heads of rows, shared out evenly. */
#include "cpu/cpu_impl.h"

struct norm_job {
    const struct norm_kernels *k;
    struct rows y, x;
    uint32_t n_head, dim; /* heads a row and the width of one; rmsnorm has one head */
    const float *w;
    float eps;
};

static void norm_member(void *arg, int member, int n_member)
{
    const struct norm_job *j = arg;
    size_t first, last;
    cpu_share((size_t)j->x.n * j->n_head, member, n_member, &first, &last);
    for (size_t i = first; i < last; i++) {
        size_t r = i / j->n_head, at = i % j->n_head * j->dim;
        j->k->rmsnorm(j->y.p + r * j->y.stride + at, j->x.p + r * j->x.stride + at, j->w, j->dim, j->eps);
    }
}

static void norm(struct op_ctx *c, struct norm_job *j)
{
    j->k = cpu_of(c)->k->norm;
    cpu_run(c, norm_member, j, 0.15 * j->x.n * j->n_head * (j->dim + 64));
}

void cpu_rmsnorm(struct op_ctx *c, struct rows y, struct rows x, const float *w, float eps)
{
    struct norm_job j = {.y = y, .x = x, .n_head = 1, .dim = x.dim, .w = w, .eps = eps};
    norm(c, &j);
}

void cpu_head_norm(struct op_ctx *c, struct rows x, uint32_t n_head, const float *w, float eps)
{
    struct norm_job j = {.y = x, .x = x, .n_head = n_head, .dim = x.dim / n_head, .w = w, .eps = eps};
    norm(c, &j);
}
