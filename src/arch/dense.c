/* What the dense decoder families share: sizes, the plain layer, the usual tensor names. */
#include "arch/arch.h"

#include <string.h>

enum { LAYERS_MAX = 4096, DIM_MAX = 1 << 20, VOCAB_MAX = 1 << 24, HEADS_MAX = 4096 };

/* Rows of the embedding table: HF states the number, a GGUF's tokenizer or table does. */
static glim_status read_vocab(struct config *c, struct dense *d, struct glim_err *e)
{
    if (config_is_hf(c))
        return cfg_u32(c, "vocab_size", NULL, false, 1, VOCAB_MAX, &d->n_vocab, e);
    const struct tensor *t = checkpoint_tensor(c->ck, "token_embd.weight");
    if (!t || t->n_dim != 2 || t->dim[0] > VOCAB_MAX)
        return err_set(e, GLIM_FAILED,
                       "open model: %s: tensor token_embd.weight: have none with 2 dimensions, need one", c->ck->path);
    d->n_vocab = (uint32_t)t->dim[0];
    int64_t stated = d->n_vocab;
    TRY(cfg_int(c, NULL, "vocab_size", true, 1, VOCAB_MAX, &stated, e));
    if (stated != d->n_vocab)
        return err_set(e, GLIM_FAILED, "open model: %s: vocab_size: have %lld, need the %u rows of token_embd.weight",
                       c->ck->path, (long long)stated, d->n_vocab);
    return GLIM_OK;
}

static glim_status read_heads(struct config *c, struct dense *d, struct glim_err *e)
{
    TRY(cfg_u32(c, "num_attention_heads", "attention.head_count", false, 1, HEADS_MAX, &d->n_head, e));
    d->n_kv_head = d->n_head;
    TRY(cfg_u32(c, "num_key_value_heads", "attention.head_count_kv", true, 1, HEADS_MAX, &d->n_kv_head, e));
    if (d->n_head % d->n_kv_head)
        return err_set(e, GLIM_FAILED, "open model: %s: heads: have %u query and %u key heads, need a multiple",
                       c->ck->path, d->n_head, d->n_kv_head);
    d->head_dim = d->dim / d->n_head;
    TRY(cfg_u32(c, "head_dim", "attention.key_length", true, 1, 1024, &d->head_dim, e));
    uint32_t v_dim = d->head_dim;
    TRY(cfg_u32(c, NULL, "attention.value_length", true, 1, 1024, &v_dim, e));
    if (v_dim != d->head_dim)
        return err_set(e, GLIM_REFUSED,
                       "open model: %s: heads: have key length %u and value length %u, need them equal", c->ck->path,
                       d->head_dim, v_dim);
    if (d->head_dim == 0 || d->head_dim % 2)
        return err_set(e, GLIM_REFUSED, "open model: %s: head length: have %u, need an even number", c->ck->path,
                       d->head_dim);
    return GLIM_OK;
}

glim_status dense_read(struct config *c, struct dense *d, struct plan *p, struct glim_err *e)
{
    memset(d, 0, sizeof *d);
    TRY(cfg_u32(c, "num_hidden_layers", "block_count", false, 1, LAYERS_MAX, &d->n_layer, e));
    TRY(cfg_u32(c, "hidden_size", "embedding_length", false, 1, DIM_MAX, &d->dim, e));
    TRY(cfg_u32(c, "intermediate_size", "feed_forward_length", false, 1, DIM_MAX, &d->inner, e));
    TRY(cfg_u32(c, "max_position_embeddings", "context_length", false, 1, INT32_MAX, &d->n_ctx, e));
    TRY(cfg_float(c, "rms_norm_eps", "attention.layer_norm_rms_epsilon", false, &d->eps, e));
    if (!(d->eps >= 0.0f && d->eps < 1.0f))
        return err_set(e, GLIM_FAILED, "open model: %s: norm epsilon: have %g, need 0 <= it < 1", c->ck->path,
                       (double)d->eps);
    TRY(read_heads(c, d, e));
    TRY(read_vocab(c, d, e));
    int64_t n_expert = 0;
    TRY(cfg_int(c, NULL, "expert_count", true, 0, INT32_MAX, &n_expert, e));
    if (n_expert)
        return err_set(e, GLIM_REFUSED, "open model: %s: experts: have %lld, need 0 (this build runs dense models)",
                       c->ck->path, (long long)n_expert);

    TRY(plan_init(p, d->n_layer, e));
    p->dim = d->dim;
    p->n_vocab = d->n_vocab;
    p->n_ctx_train = d->n_ctx;
    p->final_eps = d->eps;
    if (config_is_hf(c))
        TRY(cfg_bool(c, "tie_word_embeddings", NULL, true, &p->tied, e));
    else
        p->tied = checkpoint_tensor(c->ck, "output.weight") == NULL;
    return GLIM_OK;
}

struct layer_rule dense_layer(const struct dense *d)
{
    /* HF computes head_dim ** -0.5 in double; the rounding to f32 is the same here. */
    return (struct layer_rule){
        .mixer = MIXER_ATTENTION,
        .attn = {.n_head = d->n_head,
                 .n_kv_head = d->n_kv_head,
                 .head_dim = d->head_dim,
                 .scale = (float)(1.0 / __builtin_sqrt((double)d->head_dim)),
                 .norm_eps = d->eps,
                 .rope = -1},
        .ffn_kind = FFN_GATED,
        .ffn = {.inner = d->inner, .act = ACT_FN_SILU},
        .norm_eps = d->eps,
    };
}

glim_status dense_act(struct config *c, const char *key, enum act_fn *act, struct glim_err *e)
{
    char name[40] = "silu";
    TRY(cfg_str(c, key, NULL, true, name, sizeof name, e));
    if (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0)
        *act = ACT_FN_SILU;
    else if (strcmp(name, "gelu_pytorch_tanh") == 0 || strcmp(name, "gelu_new") == 0)
        *act = ACT_FN_GELU_TANH;
    else if (strcmp(name, "gelu") == 0)
        *act = ACT_FN_GELU_ERF;
    else
        return err_set(e, GLIM_REFUSED, "open model: %s: key %s: have \"%s\", need silu, gelu or gelu_pytorch_tanh",
                       c->ck->path, key, name);
    return GLIM_OK;
}

static glim_status bind_attention(struct binder *b, const struct plan *p, uint32_t i, struct glim_err *e)
{
    const struct layer_rule *l = &p->layer[i];
    struct attn_weights *w = &p->weights[i].attn;
    uint32_t n_q = l->attn.n_head * l->attn.head_dim, n_kv = l->attn.n_kv_head * l->attn.head_dim;
    TRY(bind_matrix(b, &w->q, n_q, p->dim, "model.layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", i, e));
    TRY(bind_matrix(b, &w->k, n_kv, p->dim, "model.layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", i, e));
    TRY(bind_matrix(b, &w->v, n_kv, p->dim, "model.layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", i, e));
    TRY(bind_matrix(b, &w->o, p->dim, n_q, "model.layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", i,
                    e));
    if (l->attn_bias_qkv) {
        TRY(bind_vector(b, &w->q_bias, n_q, 0, "model.layers.%u.self_attn.q_proj.bias", "blk.%u.attn_q.bias", i, e));
        TRY(bind_vector(b, &w->k_bias, n_kv, 0, "model.layers.%u.self_attn.k_proj.bias", "blk.%u.attn_k.bias", i, e));
        TRY(bind_vector(b, &w->v_bias, n_kv, 0, "model.layers.%u.self_attn.v_proj.bias", "blk.%u.attn_v.bias", i, e));
    }
    if (l->attn_bias_o)
        TRY(bind_vector(b, &w->o_bias, p->dim, 0, "model.layers.%u.self_attn.o_proj.bias", "blk.%u.attn_output.bias", i,
                        e));
    if (l->attn.qk_norm) {
        float add = p->norm_plus_one ? 1.0f : 0.0f;
        uint32_t n = l->attn.head_dim;
        TRY(bind_vector(b, &w->q_norm, n, add, "model.layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight",
                        i, e));
        TRY(bind_vector(b, &w->k_norm, n, add, "model.layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight",
                        i, e));
    }
    return GLIM_OK;
}

static glim_status bind_ffn(struct binder *b, const struct plan *p, uint32_t i, struct glim_err *e)
{
    const struct layer_rule *l = &p->layer[i];
    struct ffn_weights *w = &p->weights[i].ffn;
    uint32_t n = l->ffn.inner;
    TRY(bind_matrix(b, &w->gate, n, p->dim, "model.layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", i, e));
    TRY(bind_matrix(b, &w->up, n, p->dim, "model.layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight", i, e));
    TRY(bind_matrix(b, &w->down, p->dim, n, "model.layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", i, e));
    if (l->ffn_bias) {
        TRY(bind_vector(b, &w->gate_bias, n, 0, "model.layers.%u.mlp.gate_proj.bias", "blk.%u.ffn_gate.bias", i, e));
        TRY(bind_vector(b, &w->up_bias, n, 0, "model.layers.%u.mlp.up_proj.bias", "blk.%u.ffn_up.bias", i, e));
        TRY(bind_vector(b, &w->down_bias, p->dim, 0, "model.layers.%u.mlp.down_proj.bias", "blk.%u.ffn_down.bias", i,
                        e));
    }
    return GLIM_OK;
}

static glim_status bind_norms(struct binder *b, const struct plan *p, uint32_t i, struct glim_err *e)
{
    struct layer_weights *w = &p->weights[i];
    float add = p->norm_plus_one ? 1.0f : 0.0f;
    TRY(bind_vector(b, &w->mix_norm, p->dim, add, "model.layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight",
                    i, e));
    if (!p->layer[i].sandwich)
        return bind_vector(b, &w->ffn_norm, p->dim, add, "model.layers.%u.post_attention_layernorm.weight",
                           "blk.%u.ffn_norm.weight", i, e);
    TRY(bind_vector(b, &w->mix_post_norm, p->dim, add, "model.layers.%u.post_attention_layernorm.weight",
                    "blk.%u.post_attention_norm.weight", i, e));
    TRY(bind_vector(b, &w->ffn_norm, p->dim, add, "model.layers.%u.pre_feedforward_layernorm.weight",
                    "blk.%u.ffn_norm.weight", i, e));
    return bind_vector(b, &w->ffn_post_norm, p->dim, add, "model.layers.%u.post_feedforward_layernorm.weight",
                       "blk.%u.post_ffw_norm.weight", i, e);
}

glim_status dense_bind(struct binder *b, struct plan *p, struct glim_err *e)
{
    TRY(bind_matrix(b, &p->embed, p->n_vocab, p->dim, "model.embed_tokens.weight", "token_embd.weight", 0, e));
    for (uint32_t i = 0; i < p->n_layer; i++) {
        TRY(bind_norms(b, p, i, e));
        TRY(bind_attention(b, p, i, e));
        TRY(bind_ffn(b, p, i, e));
    }
    float add = p->norm_plus_one ? 1.0f : 0.0f;
    TRY(bind_vector(b, &p->final_norm, p->dim, add, "model.norm.weight", "output_norm.weight", 0, e));
    if (p->tied)
        return GLIM_OK;
    return bind_matrix(b, &p->head, p->n_vocab, p->dim, "lm_head.weight", "output.weight", 0, e);
}
