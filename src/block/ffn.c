/* The gated feed-forward layer (Shazeer 2020): SwiGLU, GeGLU. */
#include "block/block.h"

void block_ffn(struct op_ctx *c, const struct ffn_rule *f, const struct ffn_weights *w, const struct block_scratch *s,
               struct rows y, struct block_in x, bool add)
{
    struct rows gate = rows_cut(s->gate, x.h.n, f->inner);
    struct rows up = rows_cut(s->up, x.h.n, f->inner);
    struct linear_job in[2] = {
        {.y = gate, .w = &w->gate, .bias = w->gate_bias},
        {.y = up, .w = &w->up, .bias = w->up_bias},
    };
    c->be->norm_linear(c, in, 2, x.h, x.norm, x.eps);
    struct linear_job out = {.y = y, .w = &w->down, .bias = w->down_bias, .add = add};
    c->be->glu_linear(c, &out, 1, gate, up, f->act);
}
