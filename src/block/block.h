/* Blocks: the maths of one part of a layer, written over ops, each readable next to its paper.
 *
 * A block takes a rule (numbers from the checkpoint's config), weights, scratch and rows; it allocates nothing and
 * keeps no state of its own. What the rules can say is the vocabulary of the plan (arch/plan.h). */
#ifndef GLIM_BLOCK_BLOCK_H
#define GLIM_BLOCK_BLOCK_H

#include "op/op.h"

enum { ROPE_FREQ_MAX = 256 };

/* One rotary embedding; layers that share it share a table of cosines and sines in each forward. */
struct rope_rule {
    uint32_t n_freq;               /* rotated elements of a head / 2 */
    bool interleaved;              /* pairs (2i, 2i+1); else (i, i + n_freq) */
    float mscale;                  /* on cos and sin: YaRN's attention factor, else 1 */
    float inv_freq[ROPE_FREQ_MAX]; /* radians a position, scaling rules applied */
};

struct attn_rule {
    uint32_t n_head, n_kv_head, head_dim;
    uint32_t window; /* 0 = all of the past */
    float scale;     /* on q·k */
    float softcap;   /* 0 = none */
    float norm_eps;  /* of the norms of q and k */
    bool qk_norm;    /* RMSNorm over each head of q and k, before RoPE */
    int rope;        /* index into the plan's ropes; -1 = no positions */
    int kv_group;    /* index into the plan's KV groups */
};

struct attn_weights {
    struct weight q;     /* (n_head * head_dim, dim) */
    struct weight k;     /* (n_kv_head * head_dim, dim) */
    struct weight v;     /* (n_kv_head * head_dim, dim) */
    struct weight o;     /* (dim, n_head * head_dim) */
    const float *q_bias; /* (n_head * head_dim) or NULL, as the next three */
    const float *k_bias, *v_bias, *o_bias;
    const float *q_norm; /* (head_dim) */
    const float *k_norm; /* (head_dim) */
};

struct ffn_rule {
    uint32_t inner;
    enum act_fn act;
};

struct ffn_weights {
    struct weight gate;                           /* (inner, dim) */
    struct weight up;                             /* (inner, dim) */
    struct weight down;                           /* (dim, inner) */
    const float *gate_bias, *up_bias, *down_bias; /* or NULL */
};

/* Rows that blocks write to, as wide as the widest layer; backend memory. */
struct block_scratch {
    struct rows q, k, v, att; /* attention */
    struct rows gate, up;     /* ffn */
};

/* What attention needs to know of the sequences. */
struct attn_io {
    const struct batch *batch;
    struct kv_layer kv;  /* this layer's pools */
    struct page_map map; /* of this layer's KV group */
    struct rows rope;    /* this layer's table of cosines and sines; ignored when rule->rope < 0 */
    bool interleaved;
};

/* What a block reads: x = rmsnorm(h, norm, eps). */
struct block_in {
    struct rows h; /* [n, dim] */
    const float *norm;
    float eps;
};

/* y = (or +=) W_o attention(q, k, v) with q, k, v from x. Appends the rows' K and V. y may be h. */
void block_attention(struct op_ctx *c, const struct attn_rule *a, const struct attn_weights *w,
                     const struct block_scratch *s, const struct attn_io *io, struct rows y, struct block_in x,
                     bool add);

/* Its two halves, for batches in which fewer rows are asked for than are appended (the last layer of a prefill): append
 * the rows' K and V; then attend from the rows of another batch. */
void block_attention_store(struct op_ctx *c, const struct attn_rule *a, const struct attn_weights *w,
                           const struct block_scratch *s, const struct attn_io *io, struct block_in x);
void block_attention_ask(struct op_ctx *c, const struct attn_rule *a, const struct attn_weights *w,
                         const struct block_scratch *s, const struct attn_io *io, struct rows y, struct block_in x,
                         bool add);

/* y = (or +=) W_down (act(W_gate x) * (W_up x)). y may be h. */
void block_ffn(struct op_ctx *c, const struct ffn_rule *f, const struct ffn_weights *w, const struct block_scratch *s,
               struct rows y, struct block_in x, bool add);

/* The first n rows and dim columns of r. */
static inline struct rows rows_cut(struct rows r, uint32_t n, uint32_t dim)
{
    r.n = n;
    r.dim = dim;
    return r;
}

#endif
