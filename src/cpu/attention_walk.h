/* What attention.c cuts a batch into, and the two ways to walk it: attention_plain.c over pages of numbers,
 * attention_q8.c over pages of integers. */
#ifndef GLIM_CPU_ATTENTION_WALK_H
#define GLIM_CPU_ATTENTION_WALK_H

#include "cpu/attention.h"
#include "cpu/cpu_impl.h"

enum { ATTN_MAX_QUERIES = 64 }; /* of a part of a block */

struct attn_block { /* rows [row, row + n_row) of the batch, positions pos … of slot seq, all in one page */
    uint32_t row, n_row, pos, seq;
};

/* A block's share of heads: heads [head, head + n_head), which read KV head kv_head. */
struct attn_part {
    uint32_t kv_head, head, n_head;
};

/* One op. */
struct attn_call {
    const struct attn_kernels *k;
    struct rows y, q;
    const struct kv_layer *kv;
    const struct batch *b;
    struct page_map map;
    const struct attn_params *p;
    uint32_t share; /* heads that read one KV head */
    uint32_t split; /* heads of a part: share, or ATTN_MAX_QUERIES where that is less */
    uint32_t parts; /* of a block */
};

/* A walk: one part of a block. */
struct attn_item {
    const struct attn_block *b;
    struct attn_part part;
};

struct attn_walker {
    size_t (*alone_bytes)(const struct op_limits *l); /* a member's room */
    size_t (*together_bytes)(const struct op_limits *l, int n_thread);
    /* A walk by one member, who most likely does `next` after it: its first pages may be fetched meanwhile. */
    void (*alone)(const struct attn_call *a, struct attn_item now, struct attn_item next, void *room);
    /* A block with all its heads, by the whole crew. */
    void (*together)(struct op_ctx *c, const struct attn_call *a, const struct attn_block *b, void *room);
};

extern const struct attn_walker attn_walk_plain, attn_walk_q8;

/* Part i of a block, 0 <= i < a->parts. */
static inline struct attn_part attn_part(const struct attn_call *a, uint32_t i)
{
    uint32_t n = (a->share + a->split - 1) / a->split, skip = i % n * a->split;
    uint32_t n_head = a->share - skip < a->split ? a->share - skip : a->split;
    return (struct attn_part){i / n, i / n * a->share + skip, n_head};
}

/* Page numbers [attn_first_page, attn_end_page) hold what the block's rows see. */
static inline uint32_t attn_first_page(const struct attn_call *a, const struct attn_block *b)
{
    uint32_t w = a->p->window;
    return w != 0 && b->pos >= w ? (b->pos - w + 1) / KV_PAGE : 0;
}

static inline uint32_t attn_end_page(const struct attn_block *b)
{
    return (b->pos + b->n_row - 1) / KV_PAGE + 1;
}

#endif
