/* Private to src/op: the reference's functions that live in a file of their own. */
#ifndef GLIM_OP_OP_REF_H
#define GLIM_OP_OP_REF_H

#include "op/op.h"

static inline float *row_at(struct rows x, uint32_t r)
{
    return x.p + (size_t)r * x.stride;
}

/* op_ref_attention.c */
size_t ref_kv_page_bytes(enum kv_type t, uint32_t n_kv_head, uint32_t head_dim);
void ref_kv_append(struct op_ctx *c, const struct kv_layer *kv, const struct batch *b, struct page_map map,
                   struct rows k, struct rows v);
void ref_attention(struct op_ctx *c, struct rows y, struct rows q, const struct kv_layer *kv, const struct batch *b,
                   struct page_map map, const struct attn_params *p);

#endif
