/* attn_prepare: rows are shared out evenly, and a member takes a few of its rows at a time through all steps, so that
 * they stay in its first cache. */
#include "cpu/cpu_impl.h"

enum { ROWS = 16 };

struct prepare_job {
    const struct op_ctx *c;
    const struct attn_prepare *p;
};

static void heads(const struct prepare_job *j, struct rows x, uint32_t n_head, const float *norm, size_t first,
                  size_t last)
{
    const struct attn_prepare *p = j->p;
    const struct cpu_kernels *k = cpu_of(j->c)->k;
    uint32_t head_dim = x.dim / n_head;
    for (size_t r = first; r < last; r++) {
        float *row = x.p + r * x.stride;
        for (uint32_t h = 0; p->norm && h < n_head; h++)
            k->norm->rmsnorm(row + h * head_dim, row + h * head_dim, norm, head_dim, p->eps);
        if (p->rope.p)
            k->rope->rotate(row, n_head, head_dim, p->rope.p + r * p->rope.stride, p->rope.dim / 2, p->interleaved);
    }
}

static void prepare_member(void *arg, int member, int n_member)
{
    const struct prepare_job *j = arg;
    const struct attn_prepare *p = j->p;
    size_t first, end;
    cpu_share(p->q.n > 0 ? p->q.n : p->k.n, member, n_member, &first, &end);
    for (size_t last; first < end; first = last) {
        last = first + ROWS < end ? first + ROWS : end;
        if (p->q.n > 0)
            heads(j, p->q, p->n_head, p->q_norm, first, last);
        if (p->k.n > 0) {
            heads(j, p->k, p->n_kv_head, p->k_norm, first, last);
            cpu_kv_append(j->c, p, first, last);
        }
    }
}

void cpu_attn_prepare(struct op_ctx *c, const struct attn_prepare *p)
{
    struct prepare_job j = {.c = c, .p = p};
    double turned = (double)p->q.n * p->q.dim + (double)p->k.n * p->k.dim, stored = (double)p->k.n * p->k.dim;
    cpu_run(c, prepare_member, &j, (p->norm ? 0.2 : 0) * turned + (p->rope.p ? 0.1 : 0) * turned + stored);
}
