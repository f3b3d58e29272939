/* The prefix cache: which KV pages of earlier sequences a new one may start from.
 *
 * A tree of pages. A node is one page of 16 tokens after those of its parent, or a leaf with fewer (what was left when
 * a sequence ended). A root has no tokens: it stands for everything else that keys and values depend on (model,
 * adapter, …), its *identity*. A node's key is SHA-256(parent's key || its tokens as little-endian int32), a root's key
 * is its identity: equal keys mean equal prefixes, in every process. By the row contract equal prefixes have equal
 * bits, so whoever computes a page first serves everybody.
 *
 * A node holds one page in each KV group. In sliding groups it may have lost it: a prefix can be used when the pages
 * that its last window reaches into are there, however many before them are not. Window pages that run up to a *marked*
 * place (end of a prompt, before the last user turn, end of an answer) are kept longest; those between such places are
 * loose and go first.
 *
 * A running sequence holds the path it stands on (struct prefix_hold): held nodes stay, and so do all before them. The
 * others are idle, in order of last use with children before their parents, so that the first is always a leaf:
 * that one goes when a page is needed. Nothing here is allocated after prefix_create.
 *
 * A tier below (disk, another host) would be asked for a key when prefix_match ends, and told keys and pages of nodes
 * as they are evicted; keys and page contents are all it would need. */
#ifndef GLIM_RUN_PREFIX_H
#define GLIM_RUN_PREFIX_H

#include "run/kv.h"

#include "base/hash.h"

struct prefix_node;
struct prefix_list {
    uint32_t oldest, newest; /* nodes; 0: empty */
};

struct prefix {
    struct kv *kv;
    struct sha256_ctx *sha;
    struct prefix_node *node; /* [n_node + 1]; node 0 is none */
    uint32_t n_node, n_free, free;
    uint32_t *bucket; /* [n_bucket] first node whose key belongs there */
    uint32_t n_bucket;
    uint32_t *path; /* [pages of n_ctx] */
    struct prefix_list idle;
    struct prefix_list window[PLAN_GROUPS][2]; /* sliding groups' pages: loose, kept */
    int full;                                  /* the group without a window; -1: there is none */
    uint32_t n_idle;                           /* idle nodes that have a page, roots have none */
    uint32_t n_page[PLAN_GROUPS];              /* pages that nodes hold */
    uint64_t n_hit, n_evicted;                 /* tokens that sequences started with; pages that were taken back */
};

/* A row for the memory plan. */
glim_status prefix_plan(const struct kv_shape *s, struct mem_plan *mp, struct glim_err *e);
/* kv, which must outlive it, has this shape. */
glim_status prefix_create(struct prefix *p, struct kv *kv, const struct kv_shape *s, struct glim_err *e);
/* Before kv_fini. Gives no page back. */
void prefix_fini(struct prefix *p);

/* What the cache has of some tokens. Holds until the tree changes. */
struct prefix_match {
    struct sha256 identity;
    uint32_t tail;    /* last node that is used whole; 0: not even the root is there */
    uint32_t partial; /* its child, of which some tokens are used; 0: none */
    uint32_t n_token;
    uint32_t n_page; /* whole pages, which stay shared; one more is copied by the first kv_reserve if n_token says so */
    uint32_t n_pin;  /* idle nodes with pages that would be held, and could not be evicted */
};
/* The longest usable prefix of at most n tokens. A prompt must leave one token to compute: n = n_prompt - 1. Changes
 * nothing. */
void prefix_match(const struct prefix *p, const struct sha256 *identity, const int32_t *tokens, size_t n,
                  struct prefix_match *m);

/* A running sequence's place in the tree: it holds the path to that node. {0}: it takes no part in the cache, and the
 * functions below do nothing for it but release its slot. */
struct prefix_hold {
    uint32_t tail;
};
/* The empty slot begins with the match's tokens. */
struct prefix_hold prefix_start(struct prefix *p, const struct prefix_match *m, uint32_t slot);
/* Whole pages that the slot has now become nodes, or are exchanged for those that somebody else computed meanwhile.
 * tokens: those of all its positions, which must be final: the slot is not cut back below them. Call it when a page has
 * been filled: a window page that the slot has given back cannot be cached. */
void prefix_extend(struct prefix *p, struct prefix_hold *h, uint32_t slot, const int32_t *tokens);
/* Keep windows for the first n tokens of the held path. Best called once the page of token n - 1 is a node. */
void prefix_mark(struct prefix *p, const struct prefix_hold *h, uint32_t n);
/* The sequence leaves its slot, which is empty then. keep: what it has computed stays, and its end is marked. */
void prefix_finish(struct prefix *p, struct prefix_hold *h, uint32_t slot, const int32_t *tokens, bool keep);

/* Take n pages of the group back from the tree; returns how many became free. */
uint32_t prefix_evict(struct prefix *p, uint32_t group, uint32_t n);
/* kv_reserve, after evicting what it needs. */
glim_status prefix_reserve(struct prefix *p, uint32_t slot, uint32_t n, struct glim_err *e);

/* Bytes of the pages that nodes hold. */
size_t prefix_bytes(const struct prefix *p);
/* GLIM_FAILED, naming the node or page, when an invariant of the tree or of its pages does not hold, given all holds
 * there are (tests, debug builds). Calls kv_check. */
glim_status prefix_check(const struct prefix *p, const struct prefix_hold *hold, size_t n_hold, struct glim_err *e);

#endif
