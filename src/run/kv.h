/* Paged KV caches of many sequences.
 *
 * Tokens live in pages of 16. Layers that keep the same positions form a group (plan.h): a group has one page table a
 * sequence slot, and a page number stands for that page in the pools of each of the group's layers. A sliding group
 * gives back pages that no coming row can see. Pages are never shared between slots here; sharing is the prefix tree's
 * business.
 *
 * Invariants: a page is either free or in exactly one table entry; entries [first, end) of a slot's table are valid. */
#ifndef GLIM_RUN_KV_H
#define GLIM_RUN_KV_H

#include "arch/plan.h"
#include "base/mem.h"

struct kv_table { /* one group's bookkeeping */
    uint32_t window;
    uint32_t n_page;       /* in the pool */
    uint32_t block, apart; /* pages of a block (kv.c), and from a block's first page number to the next one's */
    uint32_t *free;        /* stack of free page numbers */
    uint32_t n_free;
    uint32_t stride;       /* table entries a slot: pages of n_ctx tokens */
    uint32_t *page;        /* [n_slot * stride] */
    uint32_t *first, *end; /* [n_slot] valid entries are [first, end) */
};

struct kv {
    const struct plan *plan;
    uint32_t n_slot, n_ctx;
    uint32_t *len; /* [n_slot] positions held */
    struct kv_table group[PLAN_GROUPS];
    struct kv_layer *layer; /* [n_layer] */
    bool poison;
    struct arena arena;
};

struct kv_shape {
    uint32_t n_slot, n_ctx;
    uint32_t max_rows; /* most rows a slot gets in one forward: a window's pool must hold them too */
    enum kv_type type;
    bool poison; /* fill fresh pages with NaN */
};

/* Rows for the memory plan. */
glim_status kv_plan(const struct plan *p, const struct backend *be, const struct kv_shape *s, struct mem_plan *mp,
                    struct glim_err *e);
glim_status kv_create(struct kv *kv, const struct plan *p, const struct backend *be, const struct kv_shape *s,
                      struct glim_err *e);
void kv_fini(struct kv *kv);

/* Make room for positions [len, len + n) of the slot. Nothing changes on failure. */
glim_status kv_reserve(struct kv *kv, uint32_t slot, uint32_t n, struct glim_err *e);
/* The slot has computed n more positions. */
void kv_advance(struct kv *kv, uint32_t slot, uint32_t n);
/* Cut the slot back to at most n positions; returns how many it now holds: n, or 0 when a window no longer has what the
 * row at n would see. */
uint32_t kv_trim(struct kv *kv, uint32_t slot, uint32_t n);
struct page_map kv_map(const struct kv *kv, int group);
/* GLIM_FAILED, naming the slot and page, when an invariant does not hold (tests, debug builds). */
glim_status kv_check(const struct kv *kv, struct glim_err *e);

#endif
