#include "arch/plan.h"

#include "base/mem.h"

#include <string.h>

glim_status plan_init(struct plan *p, uint32_t n_layer, struct glim_err *e)
{
    memset(p, 0, sizeof *p);
    p->layer = mem_calloc(n_layer, sizeof *p->layer);
    p->weights = mem_calloc(n_layer, sizeof *p->weights);
    if (!p->layer || !p->weights) {
        plan_fini(p);
        return err_nomem(e, "plan", (size_t)n_layer * (sizeof *p->layer + sizeof *p->weights));
    }
    p->n_layer = n_layer;
    p->embed_scale = 1.0f;
    return GLIM_OK;
}

void plan_fini(struct plan *p)
{
    mem_free(p->layer);
    mem_free(p->weights);
    memset(p, 0, sizeof *p);
}

glim_status plan_group(struct plan *p, uint32_t window, int *index, struct glim_err *e)
{
    for (uint32_t i = 0; i < p->n_group; i++) {
        if (p->group[i].window == window) {
            *index = (int)i;
            return GLIM_OK;
        }
    }
    if (p->n_group == PLAN_GROUPS)
        return err_set(e, GLIM_REFUSED, "plan: windows: have more than %d different sizes, need at most %d",
                       PLAN_GROUPS, PLAN_GROUPS);
    p->group[p->n_group].window = window;
    *index = (int)p->n_group++;
    return GLIM_OK;
}

static bool rope_equal(const struct rope_rule *a, const struct rope_rule *b)
{
    return a->n_freq == b->n_freq && a->interleaved == b->interleaved && a->mscale == b->mscale &&
           memcmp(a->inv_freq, b->inv_freq, a->n_freq * sizeof a->inv_freq[0]) == 0;
}

glim_status plan_rope(struct plan *p, const struct rope_rule *r, int *index, struct glim_err *e)
{
    for (uint32_t i = 0; i < p->n_rope; i++) {
        if (rope_equal(&p->rope[i], r)) {
            *index = (int)i;
            return GLIM_OK;
        }
    }
    if (p->n_rope == PLAN_ROPES)
        return err_set(e, GLIM_REFUSED, "plan: rotary embeddings: have more than %d different ones, need at most %d",
                       PLAN_ROPES, PLAN_ROPES);
    p->rope[p->n_rope] = *r;
    *index = (int)p->n_rope++;
    return GLIM_OK;
}
