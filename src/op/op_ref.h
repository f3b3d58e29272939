/* Private to src/op: the reference's functions that live in a file of their own. */
#ifndef GLIM_OP_OP_REF_H
#define GLIM_OP_OP_REF_H

#include "op/op.h"

static inline float *row_at(struct rows x, uint32_t r)
{
    return x.p + (size_t)r * x.stride;
}

/* Scratch of KV_Q8's attention, for one head of D = kv8_dim(head_dim). */
struct ref_head {
    int8_t *code; /* [D] of q */
    float *d;     /* [D / 32] of q */
    float *o;     /* [D] */
};
struct ref_head ref_head_of(const struct op_ctx *c);

/* op_ref_q8.c */
void ref_q8_append(const struct kv_layer *kv, void *k_page, void *v_page, uint32_t pos, const float *k, const float *v);
/* One row at position pos, one head: y, q are [head_dim]. */
void ref_q8_attend(struct ref_head s, float *y, const float *q, const struct kv_layer *kv, const uint32_t *page,
                   uint32_t pos, uint32_t kv_head, const struct attn_params *p);

/* op_ref_attention.c */
size_t ref_kv_page_bytes(enum kv_type t, uint32_t n_kv_head, uint32_t head_dim);
void ref_kv_append(const struct attn_prepare *p);
void ref_attention(struct op_ctx *c, struct rows y, struct rows q, const struct kv_layer *kv, const struct batch *b,
                   struct page_map map, const struct attn_params *p);

#endif
