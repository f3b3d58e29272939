/* Llama (Touvron et al. 2023), SmolLM2, Mistral: pre-norm, SwiGLU, rotary positions, grouped KV heads.
 *
 * GGUF files of this family store the rows of Wq and Wk permuted for interleaved rotation; Hugging Face checkpoints
 * keep the halves apart. */
#include "arch/arch.h"

static glim_status llama_plan(struct config *c, struct plan *p, struct glim_err *e)
{
    struct dense d;
    TRY(dense_read(c, &d, p, e));
    struct layer_rule l = dense_layer(&d);
    TRY(dense_act(c, "hidden_act", &l.ffn.act, e));
    bool attn_bias = false;
    TRY(cfg_bool(c, "attention_bias", NULL, true, &attn_bias, e));
    l.attn_bias_qkv = l.attn_bias_o = attn_bias;
    TRY(cfg_bool(c, "mlp_bias", NULL, true, &l.ffn_bias, e));
    TRY(cfg_u32(c, "sliding_window", "attention.sliding_window", true, 0, INT32_MAX, &l.attn.window, e));

    struct rope_config rc;
    struct rope_rule rope;
    float partial = 1.0f;
    TRY(cfg_float(c, "partial_rotary_factor", NULL, true, &partial, e));
    uint32_t n_rot = (uint32_t)((float)d.head_dim * partial);
    TRY(cfg_u32(c, NULL, "rope.dimension_count", true, 2, d.head_dim, &n_rot, e));
    TRY(rope_config_read(c, NULL, 10000.0f, &rc, e));
    TRY(rope_rule_make(c, &rc, n_rot, !config_is_hf(c), &rope, e));
    TRY(plan_rope(p, &rope, &l.attn.rope, e));
    TRY(plan_group(p, l.attn.window, &l.attn.kv_group, e));
    for (uint32_t i = 0; i < p->n_layer; i++)
        p->layer[i] = l;
    return GLIM_OK;
}

const struct arch arch_llama = {
    .name = "llama",
    .hf = (const char *const[]){"llama", "mistral", NULL},
    .gguf = (const char *const[]){"llama", NULL},
    .doc = "Llama 1-3, SmolLM2, Mistral and others of that shape",
    .plan = llama_plan,
    .bind = dense_bind,
};
