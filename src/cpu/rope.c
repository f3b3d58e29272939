/* rope_table and rope.
 *
 * The table costs a sine and a cosine in double for each row and frequency; it is made once a forward and rope rule and
 * used by every layer. */
#include "cpu/cpu_impl.h"

#include <math.h>

struct table_job {
    struct rows t;
    const int32_t *pos;
    const float *inv_freq;
    float mscale;
};

static void table_member(void *arg, int member, int n_member)
{
    const struct table_job *j = arg;
    uint32_t n_freq = j->t.dim / 2;
    size_t first, last;
    cpu_share((size_t)j->t.n * n_freq, member, n_member, &first, &last);
    for (size_t at = first; at < last; at++) {
        size_t r = at / n_freq, i = at % n_freq;
        float *t = j->t.p + r * j->t.stride + 2 * i, f = (float)j->pos[r] * j->inv_freq[i];
        t[0] = (float)(cos((double)f) * (double)j->mscale);
        t[1] = (float)(sin((double)f) * (double)j->mscale);
    }
}

void cpu_rope_table(struct op_ctx *c, struct rows t, const int32_t *pos, const float *inv_freq, float mscale)
{
    struct table_job j = {.t = t, .pos = pos, .inv_freq = inv_freq, .mscale = mscale};
    cpu_run(c, table_member, &j, 30.0 * t.n * t.dim / 2);
}

struct rope_job {
    const struct rope_kernels *k;
    struct rows x, t;
    uint32_t n_head;
    bool interleaved;
};

static void rope_member(void *arg, int member, int n_member)
{
    const struct rope_job *j = arg;
    size_t first, last;
    cpu_share(j->x.n, member, n_member, &first, &last);
    for (size_t r = first; r < last; r++)
        j->k->rotate(j->x.p + r * j->x.stride, j->n_head, j->x.dim / j->n_head, j->t.p + r * j->t.stride, j->t.dim / 2,
                     j->interleaved);
}

void cpu_rope(struct op_ctx *c, struct rows x, uint32_t n_head, struct rows t, bool interleaved)
{
    struct rope_job j = {.k = cpu_of(c)->k->rope, .x = x, .t = t, .n_head = n_head, .interleaved = interleaved};
    cpu_run(c, rope_member, &j, 0.1 * x.n * n_head * t.dim);
}
