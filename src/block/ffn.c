/* The gated feed-forward layer (Shazeer 2020): SwiGLU, GeGLU. */
#include "block/block.h"

void block_ffn(struct op_ctx *c, const struct ffn_rule *f, const struct ffn_weights *w, const struct block_scratch *s,
               struct rows y, struct rows x, bool add)
{
    struct rows gate = rows_cut(s->gate, x.n, f->inner);
    struct rows up = rows_cut(s->up, x.n, f->inner);
    struct linear_job in[2] = {
        {.y = gate, .w = &w->gate, .bias = w->gate_bias},
        {.y = up, .w = &w->up, .bias = w->up_bias},
    };
    c->be->linear(c, in, 2, x);
    c->be->glu(c, gate, gate, up, f->act);
    struct linear_job out = {.y = y, .w = &w->down, .bias = w->down_bias, .add = add};
    c->be->linear(c, &out, 1, gate);
}
