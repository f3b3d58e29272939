/* The table of architectures: one row a family, one file a row (docs/ADDING_A_MODEL.md).
 *
 * A row turns a config into a plan and names the tensors of each layer. Everything else — files, memory, caches, the
 * forward pass — is shared. */
#ifndef GLIM_ARCH_ARCH_H
#define GLIM_ARCH_ARCH_H

#include "arch/bind.h"
#include "arch/config.h"
#include "arch/plan.h"

struct arch {
    const char *name;
    const char *const *hf;   /* model_type values, NULL-terminated */
    const char *const *gguf; /* general.architecture values, NULL-terminated */
    const char *doc;         /* one sentence for generated docs */
    /* Fill *p (made by plan_init inside) from the config. */
    glim_status (*plan)(struct config *c, struct plan *p, struct glim_err *e);
    /* Name every tensor the plan needs. */
    glim_status (*bind)(struct binder *b, struct plan *p, struct glim_err *e);
};

size_t arch_n(void);
const struct arch *arch_at(size_t i);
/* The row for a checkpoint; refused by name, with the known ones, when there is none. */
glim_status arch_find(const struct config *c, const struct arch **out, struct glim_err *e);
/* Plan a checkpoint: find its row, fill the plan, refuse keys that nobody read. */
glim_status arch_plan(struct config *c, const struct arch **arch, struct plan *p, struct glim_err *e);

/* ---- shared by the rows ---- */

enum rope_type { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN };

/* The scaling rules of a rotary embedding, as config files state them. */
struct rope_config {
    enum rope_type type;
    float theta, factor;
    float low_freq_factor, high_freq_factor;                         /* llama3 */
    float original_ctx;                                              /* llama3, yarn */
    float beta_fast, beta_slow, attn_factor, mscale, mscale_all_dim; /* yarn; attn_factor 0 = from factor */
    bool truncate;                                                   /* yarn: round the correction range outwards */
};
/* Read theta and scaling: HF's rope_parameters (or, old style, theta_key and rope_scaling), GGUF's rope.*. `sub` picks
 * a layer type's entry of rope_parameters ("full_attention"); NULL when there is one for all. */
glim_status rope_config_read(struct config *c, const char *sub, float default_theta, struct rope_config *r,
                             struct glim_err *e);
/* inv_freq and mscale for n_rot rotated elements of a head. GGUF may carry llama3's factors as the tensor
 * rope_freqs.weight, which then divides the frequencies. */
glim_status rope_rule_make(const struct config *c, const struct rope_config *r, uint32_t n_rot, bool interleaved,
                           struct rope_rule *out, struct glim_err *e);

/* Fields that every dense decoder has; read first, and the plan made. */
struct dense {
    uint32_t n_layer, dim, n_vocab, n_ctx, inner, n_head, n_kv_head, head_dim;
    float eps;
};
glim_status dense_read(struct config *c, struct dense *d, struct plan *p, struct glim_err *e);
/* A layer with attention over all of the past and a SiLU-gated FFN; rows change what differs. */
struct layer_rule dense_layer(const struct dense *d);
/* The names that Llama-like families share, biases, norms of q and k and sandwich norms as the rules say. */
glim_status dense_bind(struct binder *b, struct plan *p, struct glim_err *e);
/* HF's activation name. */
glim_status dense_act(struct config *c, const char *key, enum act_fn *act, struct glim_err *e);

extern const struct arch arch_llama, arch_qwen2, arch_qwen3, arch_gemma3;

#endif
