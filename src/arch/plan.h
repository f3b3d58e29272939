/* The plan: a checkpoint's layers as data.
 *
 * An architecture turns its config into a plan; run/forward.c walks it. The same plan drives the memory plan, the
 * layout of caches and `glim inspect`. A family that needs a new rule adds it to this vocabulary; there is no other
 * forward pass. */
#ifndef GLIM_ARCH_PLAN_H
#define GLIM_ARCH_PLAN_H

#include "block/block.h"

enum mixer_kind { MIXER_ATTENTION };
enum ffn_kind { FFN_GATED };

/* One layer:  h += post(mixer(norm(h)));  h += post(ffn(norm(h)))   with post() the identity unless `sandwich`. */
struct layer_rule {
    enum mixer_kind mixer;
    struct attn_rule attn;
    bool attn_bias_qkv, attn_bias_o; /* which biases the checkpoint must have */
    enum ffn_kind ffn_kind;
    struct ffn_rule ffn;
    bool ffn_bias;
    bool sandwich;  /* a norm on each branch's output too, before it joins the residual */
    float norm_eps; /* of the layer's norms */
};

struct layer_weights {
    const float *mix_norm;      /* (dim) before the mixer */
    const float *mix_post_norm; /* (dim) sandwich only */
    const float *ffn_norm;      /* (dim) */
    const float *ffn_post_norm; /* (dim) sandwich only */
    struct attn_weights attn;
    struct ffn_weights ffn;
};

/* Layers whose caches keep the same positions share page numbers: all full layers, all layers of one window. */
struct kv_group {
    uint32_t window; /* 0 = everything */
};

enum { PLAN_ROPES = 4, PLAN_GROUPS = 4 };

struct plan {
    const char *arch;
    uint32_t n_layer, dim, n_vocab, n_ctx_train;
    struct layer_rule *layer;      /* [n_layer] */
    struct layer_weights *weights; /* [n_layer], filled by the binder */

    float embed_scale;   /* on the looked-up row */
    float final_eps;     /* of the norm before the head */
    float logit_softcap; /* 0 = none */
    bool tied;           /* the head is the embedding table */
    bool norm_plus_one;  /* the file stores w - 1 of every norm weight */

    struct rope_rule rope[PLAN_ROPES];
    uint32_t n_rope;
    struct kv_group group[PLAN_GROUPS];
    uint32_t n_group;

    struct weight embed;     /* (n_vocab, dim) */
    struct weight head;      /* (n_vocab, dim); shares embed's data when tied */
    const float *final_norm; /* (dim) */
};

/* A plan with n_layer zeroed layers. */
glim_status plan_init(struct plan *p, uint32_t n_layer, struct glim_err *e);
void plan_fini(struct plan *p);
/* Index of the KV group for this window, made on first use. */
glim_status plan_group(struct plan *p, uint32_t window, int *index, struct glim_err *e);
/* Index of an equal rope rule, added on first use. */
glim_status plan_rope(struct plan *p, const struct rope_rule *r, int *index, struct glim_err *e);

#endif
