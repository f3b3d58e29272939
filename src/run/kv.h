/* Paged KV caches of many sequences.
 *
 * Tokens live in pages of 16. Layers that keep the same positions form a group (plan.h): a group has one page table a
 * sequence slot, and a page number stands for that page in the pools of each of the group's layers. A sliding group
 * gives back pages that no coming row can see.
 *
 * A page may have many holders: table entries of slots, and the prefix tree (prefix.h). Positions that a slot has are
 * never written again, so holders do not see each other. The one page that has such positions and room for more, the
 * last one, is copied before a slot writes to it if anybody else holds it (kv_reserve).
 *
 * Invariants: a page is free or has as many holders as are counted; entries [first, end) of a slot's table are valid;
 * entries past the slot's positions have no other holder. */
#ifndef GLIM_RUN_KV_H
#define GLIM_RUN_KV_H

#include "arch/plan.h"
#include "base/mem.h"

#define KV_NO_PAGE UINT32_MAX

struct kv_table { /* one group's bookkeeping */
    uint32_t window;
    uint32_t n_page;       /* in the pool */
    uint32_t block, apart; /* pages of a block (kv.c), and from a block's first page number to the next one's */
    uint32_t *free;        /* stack of free page numbers */
    uint32_t n_free;
    uint32_t *ref;         /* [n_page] holders of the page of this index (kv_page_index); 0: free */
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
    uint64_t n_token;  /* tokens that the pool of layers without a window holds; 0: n_slot * n_ctx */
    uint32_t
        n_window; /* windows that a sliding pool holds beyond what its slots need at most; with a prefix tree >= 1 */
    enum kv_type type;
    bool poison; /* fill fresh pages with NaN */
};

/* Rows for the memory plan. */
glim_status kv_plan(const struct plan *p, const struct backend *be, const struct kv_shape *s, struct mem_plan *mp,
                    struct glim_err *e);
glim_status kv_create(struct kv *kv, const struct plan *p, const struct backend *be, const struct kv_shape *s,
                      struct glim_err *e);
void kv_fini(struct kv *kv);

/* Make room for positions [len, len + n) of the slot, all its own to write. Refused, with nothing changed, when a pool
 * lacks pages: kv_need says beforehand how many. */
glim_status kv_reserve(struct kv *kv, uint32_t slot, uint32_t n, struct glim_err *e);
/* Pages of the group that kv_reserve(slot, n) takes from the free ones, beyond those it gives back. n may be any number
 * of coming tokens (planning), for a sliding group at most max_rows. */
uint32_t kv_need(const struct kv *kv, uint32_t slot, uint32_t n, uint32_t group);
/* The slot has computed n more positions, or adopted them. */
void kv_advance(struct kv *kv, uint32_t slot, uint32_t n);
/* Cut the slot back to at most n positions; returns how many it now holds: n, or 0 when a window no longer has what the
 * row at n would see. Always possible: back to where the last kv_reserve was. */
uint32_t kv_trim(struct kv *kv, uint32_t slot, uint32_t n);

/* ---- sharing ---- */

/* First page that a sequence of n >= 1 positions must have, so that its next row can be computed. */
uint32_t kv_first_page(uint32_t window, uint32_t n);
/* The number of the slot's page i; KV_NO_PAGE when it has none. */
uint32_t kv_page(const struct kv *kv, uint32_t slot, uint32_t group, uint32_t i);
uint32_t kv_holders(const struct kv *kv, uint32_t group, uint32_t page);
void kv_hold(struct kv *kv, uint32_t group, uint32_t page);
/* The page is free when this was its last holder. */
void kv_drop(struct kv *kv, uint32_t group, uint32_t page);
/* An empty slot gets pages [first, end) of a group, a holder each. After all groups: kv_advance. */
void kv_adopt(struct kv *kv, uint32_t slot, uint32_t group, uint32_t first, uint32_t end, const uint32_t *page);
/* The slot's page i becomes another one with the same content. */
void kv_swap(struct kv *kv, uint32_t slot, uint32_t group, uint32_t i, uint32_t page);
/* Pages of a group's pool, and bytes of one over its layers, K and V. */
size_t kv_pool_pages(uint32_t window, const struct kv_shape *s);
size_t kv_page_size(const struct kv *kv, uint32_t group);
/* A page's place among the group's, from 0 without gaps. */
uint32_t kv_page_index(const struct kv_table *t, uint32_t page);

struct page_map kv_map(const struct kv *kv, int group);
/* GLIM_FAILED, naming the page, when an invariant does not hold (tests, debug builds). tree[g]: [n_page] how often each
 * page of group g is held outside the slots; tree NULL: never. */
glim_status kv_check(const struct kv *kv, uint32_t *const tree[PLAN_GROUPS], struct glim_err *e);

#endif
