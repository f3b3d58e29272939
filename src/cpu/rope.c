/* rope_table. It costs a sine and a cosine in double for each row and frequency; it is made once a forward and rope
 * rule and used by every layer. */
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
