/* Gemma 3, text (Gemma Team 2025): embeddings times sqrt(dim), norms on both sides of each branch, RMSNorm over each
 * head of q and k, five sliding layers to one full layer, a rotary base for each kind, tanh-GELU.
 *
 * Hugging Face files store norm weights minus one; GGUF files store them whole. A GGUF has no key for the pattern (it
 * is 5 to 1) nor for the score scale (1/sqrt(head_dim); the 27B model, known by its 62 layers, uses 1/sqrt(dim /
 * n_head)). */
#include "arch/arch.h"

#include <math.h>
#include <string.h>

static glim_status gemma3_slides(struct config *c, uint32_t i, const struct dense *d, bool *slides, struct glim_err *e)
{
    uint32_t pattern = 6;
    TRY(cfg_u32(c, "sliding_window_pattern", "attention.sliding_window_pattern", true, 1, 1024, &pattern, e));
    TRY(cfg_u32(c, "_sliding_window_pattern", NULL, true, 1, 1024, &pattern, e));
    const char *type;
    TRY(cfg_layer_type(c, i, d->n_layer, &type, e));
    if (*type && strcmp(type, "full_attention") != 0 && strcmp(type, "sliding_attention") != 0)
        return err_set(e, GLIM_REFUSED,
                       "open model: %s: layer_types: have \"%s\", need full_attention or sliding_attention",
                       c->ck->path, type);
    *slides = *type ? strcmp(type, "sliding_attention") == 0 : (i + 1) % pattern != 0;
    return GLIM_OK;
}

/* Rotary rules of the full and of the sliding layers. Scaling applies to the full ones alone. */
static glim_status gemma3_ropes(struct config *c, const struct dense *d, struct plan *p, int rope[2],
                                struct glim_err *e)
{
    struct rope_config full, slide;
    struct rope_rule r;
    TRY(rope_config_read(c, "full_attention", 1e6f, &full, e));
    slide = (struct rope_config){.type = ROPE_PLAIN, .theta = 1e4f, .factor = 1.0f};
    TRY(cfg_float(c, "rope_local_base_freq", "rope.freq_base_swa", true, &slide.theta, e));
    if (cfg_has(c, "rope_parameters.sliding_attention", NULL))
        TRY(rope_config_read(c, "sliding_attention", 1e4f, &slide, e));
    uint32_t n_rot = d->head_dim;
    TRY(cfg_u32(c, NULL, "rope.dimension_count", true, 2, d->head_dim, &n_rot, e));
    TRY(rope_rule_make(c, &full, n_rot, false, &r, e));
    TRY(plan_rope(p, &r, &rope[0], e));
    TRY(rope_rule_make(c, &slide, n_rot, false, &r, e));
    return plan_rope(p, &r, &rope[1], e);
}

static glim_status gemma3_scale(struct config *c, const struct dense *d, float *scale, struct glim_err *e)
{
    float per = (float)d->head_dim;
    if (!config_is_hf(c) && d->n_layer == 62)
        per = (float)d->dim / (float)d->n_head;
    TRY(cfg_float(c, "query_pre_attn_scalar", NULL, true, &per, e));
    if (!(per > 0.0f))
        return err_set(e, GLIM_FAILED, "open model: %s: query_pre_attn_scalar: have %g, need more than 0", c->ck->path,
                       (double)per);
    *scale = (float)(1.0 / sqrt((double)per));
    return GLIM_OK;
}

static glim_status gemma3_plan(struct config *c, struct plan *p, struct glim_err *e)
{
    struct dense d;
    TRY(dense_read(c, &d, p, e));
    p->embed_scale = sqrtf((float)d.dim);
    p->norm_plus_one = config_is_hf(c);
    if (config_is_hf(c) && !cfg_has(c, "tie_word_embeddings", NULL))
        p->tied = true;
    TRY(cfg_float(c, "final_logit_softcapping", "final_logit_softcapping", true, &p->logit_softcap, e));

    struct layer_rule l = dense_layer(&d);
    l.sandwich = true;
    l.attn.qk_norm = true;
    l.ffn.act = ACT_FN_GELU_TANH;
    if (cfg_has(c, "hidden_activation", NULL))
        TRY(dense_act(c, "hidden_activation", &l.ffn.act, e));
    else if (cfg_has(c, "hidden_act", NULL))
        TRY(dense_act(c, "hidden_act", &l.ffn.act, e));
    bool bias = false, bidirectional = false;
    TRY(cfg_bool(c, "attention_bias", NULL, true, &bias, e));
    l.attn_bias_qkv = l.attn_bias_o = bias;
    TRY(cfg_bool(c, "use_bidirectional_attention", NULL, true, &bidirectional, e));
    if (bidirectional)
        return err_set(e, GLIM_REFUSED, "open model: %s: use_bidirectional_attention: have true, need false",
                       c->ck->path);
    TRY(cfg_float(c, "attn_logit_softcapping", "attn_logit_softcapping", true, &l.attn.softcap, e));
    TRY(gemma3_scale(c, &d, &l.attn.scale, e));
    uint32_t window = 0;
    TRY(cfg_u32(c, "sliding_window", "attention.sliding_window", false, 1, INT32_MAX, &window, e));
    int rope[2];
    TRY(gemma3_ropes(c, &d, p, rope, e));
    for (uint32_t i = 0; i < p->n_layer; i++) {
        bool slides = false;
        TRY(gemma3_slides(c, i, &d, &slides, e));
        l.attn.window = slides ? window : 0;
        l.attn.rope = rope[slides];
        TRY(plan_group(p, l.attn.window, &l.attn.kv_group, e));
        p->layer[i] = l;
    }
    return GLIM_OK;
}

const struct arch arch_gemma3 = {
    .name = "gemma3",
    .hf = (const char *const[]){"gemma3_text", NULL},
    .gguf = (const char *const[]){"gemma3", NULL},
    .doc = "Gemma 3, text",
    .plan = gemma3_plan,
    .bind = dense_bind,
};
