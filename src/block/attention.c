/* Causal self-attention with grouped KV heads (Ainslie et al. 2023), optional biases, RMSNorm of each head of q and k
 * (Qwen3, Gemma 3), rotary positions (Su et al. 2021), sliding windows and score soft-capping. */
#include "block/block.h"

void block_attention(struct op_ctx *c, const struct attn_rule *a, const struct attn_weights *w,
                     const struct block_scratch *s, const struct attn_io *io, struct rows y, struct rows x, bool add)
{
    const struct backend *be = c->be;
    struct rows q = rows_cut(s->q, x.n, a->n_head * a->head_dim);
    struct rows k = rows_cut(s->k, x.n, a->n_kv_head * a->head_dim);
    struct rows v = rows_cut(s->v, x.n, a->n_kv_head * a->head_dim);
    struct rows att = rows_cut(s->att, x.n, a->n_head * a->head_dim);

    struct linear_job qkv[3] = {
        {.y = q, .w = &w->q, .bias = w->q_bias},
        {.y = k, .w = &w->k, .bias = w->k_bias},
        {.y = v, .w = &w->v, .bias = w->v_bias},
    };
    be->linear(c, qkv, 3, x);
    if (a->qk_norm) {
        be->head_norm(c, q, a->n_head, w->q_norm, a->norm_eps);
        be->head_norm(c, k, a->n_kv_head, w->k_norm, a->norm_eps);
    }
    if (a->rope >= 0) {
        be->rope(c, q, a->n_head, io->rope, io->interleaved);
        be->rope(c, k, a->n_kv_head, io->rope, io->interleaved);
    }
    be->kv_append(c, &io->kv, io->batch, io->map, k, v);
    be->attention(
        c, att, q, &io->kv, io->batch, io->map,
        &(struct attn_params){.n_head = a->n_head, .scale = a->scale, .softcap = a->softcap, .window = a->window});

    struct linear_job out = {.y = y, .w = &w->o, .bias = w->o_bias, .add = add};
    be->linear(c, &out, 1, att);
}
