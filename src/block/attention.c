/* Causal self-attention with grouped KV heads (Ainslie et al. 2023), optional biases, RMSNorm of each head of q and k
 * (Qwen3, Gemma 3), rotary positions (Su et al. 2021), sliding windows and score soft-capping. */
#include "block/block.h"

/* A product as long as the block's input and as wide as a row of so many heads. */
static struct linear_job project(struct rows to, const struct block_in *x, uint32_t n_head, const struct attn_rule *a,
                                 const struct weight *w, const float *bias)
{
    return (struct linear_job){.y = rows_cut(to, x->h.n, n_head * a->head_dim), .w = w, .bias = bias};
}

/* q and k normed and turned, k and v stored; q.n or k.n = 0: not that half. */
static void prepare(struct op_ctx *c, const struct attn_rule *a, const struct attn_weights *w, const struct attn_io *io,
                    struct rows q, struct rows k, struct rows v)
{
    struct attn_prepare p = {.q = q,
                             .k = k,
                             .v = v,
                             .n_head = a->n_head,
                             .n_kv_head = a->n_kv_head,
                             .norm = a->qk_norm,
                             .interleaved = io->interleaved,
                             .q_norm = w->q_norm,
                             .k_norm = w->k_norm,
                             .eps = a->norm_eps,
                             .kv = &io->kv,
                             .batch = io->batch,
                             .map = io->map};
    if (a->rope >= 0)
        p.rope = io->rope;
    c->be->attn_prepare(c, &p);
}

static void attend(struct op_ctx *c, const struct attn_rule *a, const struct attn_weights *w,
                   const struct block_scratch *s, const struct attn_io *io, struct rows y, struct rows q, bool add)
{
    struct rows att = rows_cut(s->att, q.n, q.dim);
    c->be->attention(
        c, att, q, &io->kv, io->batch, io->map,
        &(struct attn_params){.n_head = a->n_head, .scale = a->scale, .softcap = a->softcap, .window = a->window});
    struct linear_job out = {.y = y, .w = &w->o, .bias = w->o_bias, .add = add};
    c->be->linear(c, &out, 1, att);
}

void block_attention(struct op_ctx *c, const struct attn_rule *a, const struct attn_weights *w,
                     const struct block_scratch *s, const struct attn_io *io, struct rows y, struct block_in x,
                     bool add)
{
    struct linear_job qkv[3] = {project(s->q, &x, a->n_head, a, &w->q, w->q_bias),
                                project(s->k, &x, a->n_kv_head, a, &w->k, w->k_bias),
                                project(s->v, &x, a->n_kv_head, a, &w->v, w->v_bias)};
    c->be->norm_linear(c, qkv, 3, x.h, x.norm, x.eps);
    prepare(c, a, w, io, qkv[0].y, qkv[1].y, qkv[2].y);
    attend(c, a, w, s, io, y, qkv[0].y, add);
}

void block_attention_store(struct op_ctx *c, const struct attn_rule *a, const struct attn_weights *w,
                           const struct block_scratch *s, const struct attn_io *io, struct block_in x)
{
    struct linear_job kv[2] = {project(s->k, &x, a->n_kv_head, a, &w->k, w->k_bias),
                               project(s->v, &x, a->n_kv_head, a, &w->v, w->v_bias)};
    c->be->norm_linear(c, kv, 2, x.h, x.norm, x.eps);
    prepare(c, a, w, io, (struct rows){0}, kv[0].y, kv[1].y);
}

void block_attention_ask(struct op_ctx *c, const struct attn_rule *a, const struct attn_weights *w,
                         const struct block_scratch *s, const struct attn_io *io, struct rows y, struct block_in x,
                         bool add)
{
    struct linear_job q = project(s->q, &x, a->n_head, a, &w->q, w->q_bias);
    c->be->norm_linear(c, &q, 1, x.h, x.norm, x.eps);
    prepare(c, a, w, io, q.y, (struct rows){0}, (struct rows){0});
    attend(c, a, w, s, io, y, q.y, add);
}
