/* Qwen2 / Qwen2.5 (biases on q, k and v) and Qwen3 dense (no biases, RMSNorm over each head of q and k). */
#include "arch/arch.h"

#include <string.h>

/* Which layers slide: HF lists layer_types, or, in older files, use_sliding_window with max_window_layers full ones
 * first. */
static glim_status qwen_window(struct config *c, uint32_t i, const struct dense *d, uint32_t *window,
                               struct glim_err *e)
{
    *window = 0;
    bool use = false;
    uint32_t size = 0, first = 0;
    TRY(cfg_bool(c, "use_sliding_window", NULL, true, &use, e));
    TRY(cfg_u32(c, "sliding_window", "attention.sliding_window", true, 0, INT32_MAX, &size, e));
    TRY(cfg_u32(c, "max_window_layers", NULL, true, 0, INT32_MAX, &first, e));
    const char *type;
    TRY(cfg_layer_type(c, i, d->n_layer, &type, e));
    if (*type && strcmp(type, "full_attention") != 0 && strcmp(type, "sliding_attention") != 0)
        return err_set(e, GLIM_REFUSED,
                       "open model: %s: layer_types: have \"%s\", need full_attention or sliding_attention",
                       c->ck->path, type);
    bool slides = *type ? strcmp(type, "sliding_attention") == 0 : use && i >= first;
    if (slides && size == 0)
        return err_set(e, GLIM_FAILED, "open model: %s: layer %u slides: have no sliding_window, need one", c->ck->path,
                       i);
    if (slides)
        *window = size;
    return GLIM_OK;
}

static glim_status qwen_plan(struct config *c, struct plan *p, bool qwen3, struct glim_err *e)
{
    struct dense d;
    TRY(dense_read(c, &d, p, e));
    struct layer_rule l = dense_layer(&d);
    TRY(dense_act(c, "hidden_act", &l.ffn.act, e));
    l.attn.qk_norm = qwen3;
    l.attn_bias_qkv = !qwen3;
    if (qwen3) {
        bool bias = false;
        TRY(cfg_bool(c, "attention_bias", NULL, true, &bias, e));
        l.attn_bias_qkv = l.attn_bias_o = bias;
    }
    struct rope_config rc;
    struct rope_rule rope;
    TRY(rope_config_read(c, NULL, 10000.0f, &rc, e));
    uint32_t n_rot = d.head_dim;
    TRY(cfg_u32(c, NULL, "rope.dimension_count", true, 2, d.head_dim, &n_rot, e));
    TRY(rope_rule_make(c, &rc, n_rot, false, &rope, e));
    TRY(plan_rope(p, &rope, &l.attn.rope, e));
    for (uint32_t i = 0; i < p->n_layer; i++) {
        TRY(qwen_window(c, i, &d, &l.attn.window, e));
        TRY(plan_group(p, l.attn.window, &l.attn.kv_group, e));
        p->layer[i] = l;
    }
    return GLIM_OK;
}

static glim_status qwen2_plan(struct config *c, struct plan *p, struct glim_err *e)
{
    return qwen_plan(c, p, false, e);
}

static glim_status qwen3_plan(struct config *c, struct plan *p, struct glim_err *e)
{
    return qwen_plan(c, p, true, e);
}

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .hf = (const char *const[]){"qwen2", NULL},
    .gguf = (const char *const[]){"qwen2", NULL},
    .doc = "Qwen2 and Qwen2.5, dense",
    .plan = qwen2_plan,
    .bind = dense_bind,
};

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .hf = (const char *const[]){"qwen3", NULL},
    .gguf = (const char *const[]){"qwen3", NULL},
    .doc = "Qwen3, dense",
    .plan = qwen3_plan,
    .bind = dense_bind,
};
