/* Caches of a small plan without a model. A "forward" writes into each position's place in its page what a real one
 * would depend on: a hash of the identity and of all tokens up to it. Before it writes it looks at every position its
 * rows see. Every page, layer, K and V have their own. */
#ifndef TEST_RUN_PREFIX_H
#define TEST_RUN_PREFIX_H

#include "run/prefix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { CTX = 192, ROWS = 24, SLOTS = 5, LAYERS = 4 };

/* ---- a lab: caches of a small plan, and the sequences in them ---- */

struct seq {
    bool on;
    uint32_t identity;
    uint32_t n, planned; /* tokens that are known, and that it will have */
    int32_t token[CTX];
    uint64_t want[CTX]; /* content of each position */
};

struct lab {
    struct plan plan;
    struct kv_shape shape;
    struct kv kv;
    struct prefix tree;
    struct seq seq[SLOTS];
    struct prefix_hold hold[SLOTS];
};

static size_t page_bytes(enum kv_type t, uint32_t n_kv_head, uint32_t head_dim)
{
    (void)t, (void)n_kv_head, (void)head_dim;
    return KV_PAGE * sizeof(uint64_t);
}
static const struct backend pages_only = {.kv_page_bytes = page_bytes};

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

static struct sha256 identity_of(uint32_t i)
{
    struct sha256 h = {{(uint8_t)(i + 1), 7}};
    return h;
}

/* Layers take the windows in turn. */
static void make_plan(struct plan *p, const uint32_t *window, uint32_t n_window)
{
    struct glim_err e;
    ok(plan_init(p, LAYERS, &e), &e);
    for (uint32_t i = 0; i < LAYERS; i++)
        ok(plan_group(p, window[i % n_window], &p->layer[i].attn.kv_group, &e), &e);
}

static void lab_open(struct lab *l, const uint32_t *window, uint32_t n_window, uint64_t n_token, uint32_t n_more)
{
    struct glim_err e;
    memset(l, 0, sizeof *l);
    make_plan(&l->plan, window, n_window);
    l->shape = (struct kv_shape){
        .n_slot = SLOTS, .n_ctx = CTX, .max_rows = ROWS, .n_token = n_token, .n_window = n_more, .poison = true};
    ok(kv_create(&l->kv, &l->plan, &pages_only, &l->shape, &e), &e);
    ok(prefix_create(&l->tree, &l->kv, &l->shape, &e), &e);
}

static void check(const struct lab *l)
{
    struct glim_err e;
    ok(prefix_check(&l->tree, l->hold, SLOTS, &e), &e);
}

/* Give everything back; then every page is free, and every node. */
static void lab_close(struct lab *l)
{
    for (uint32_t s = 0; s < SLOTS; s++)
        prefix_finish(&l->tree, &l->hold[s], s, l->seq[s].token, false);
    for (uint32_t g = 0; g < l->plan.n_group; g++)
        prefix_evict(&l->tree, g, UINT32_MAX);
    check(l);
    for (uint32_t g = 0; g < l->plan.n_group; g++)
        assert_int_equal(l->kv.group[g].n_free, l->kv.group[g].n_page);
    assert_int_equal(prefix_bytes(&l->tree), 0);
    if (l->tree.full >= 0)
        assert_int_equal(l->tree.n_free, l->tree.n_node);
    prefix_fini(&l->tree);
    kv_fini(&l->kv);
    plan_fini(&l->plan);
}

/* ---- the forward that is not one ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static void append(struct seq *q, int32_t token)
{
    q->want[q->n] = mix(q->n ? q->want[q->n - 1] : q->identity + 1, (uint64_t)token + 1);
    q->token[q->n++] = token;
}

static void set_tokens(struct seq *q, uint32_t identity, const int32_t *token, uint32_t n)
{
    *q = (struct seq){.on = true, .identity = identity, .planned = n};
    for (uint32_t i = 0; i < n; i++)
        append(q, token[i]);
}

static uint64_t *cell(const struct lab *l, uint32_t layer, bool v, uint32_t slot, uint32_t pos)
{
    struct page_map map = kv_map(&l->kv, l->plan.layer[layer].attn.kv_group);
    const struct kv_layer *k = &l->kv.layer[layer];
    char *page = (char *)(v ? k->v : k->k) + map.page[slot * map.stride + pos / KV_PAGE] * k->page_bytes;
    return (uint64_t *)page + pos % KV_PAGE;
}

static uint64_t content(uint64_t want, uint32_t layer, bool v)
{
    return mix(want, 2 * layer + v);
}

/* What a row at pos sees is what the sequence has. */
static void look(const struct lab *l, uint32_t slot, uint32_t pos)
{
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint32_t w = l->plan.group[l->plan.layer[i].attn.kv_group].window;
        for (uint32_t at = w && pos >= w ? pos - w + 1 : 0; at < pos; at++)
            for (int v = 0; v < 2; v++)
                if (*cell(l, i, v, slot, at) != content(l->seq[slot].want[at], i, v))
                    fail_msg("slot %u, layer %u: position %u has other content (row at %u)", slot, i, at, pos);
    }
}

static void write(const struct lab *l, uint32_t slot, uint32_t pos, uint64_t want)
{
    for (uint32_t i = 0; i < LAYERS; i++)
        for (int v = 0; v < 2; v++)
            *cell(l, i, v, slot, pos) = content(want, i, v);
}

/* n more positions of the slot, whose pages are reserved. */
static void compute(struct lab *l, uint32_t slot, uint32_t n)
{
    uint32_t pos = l->kv.len[slot];
    look(l, slot, pos);
    for (uint32_t i = 0; i < n; i++)
        write(l, slot, pos + i, l->seq[slot].want[pos + i]);
    look(l, slot, pos + n - 1);
    kv_advance(&l->kv, slot, n);
}

static uint32_t start(struct lab *l, uint32_t slot)
{
    struct seq *q = &l->seq[slot];
    struct sha256 id = identity_of(q->identity);
    struct prefix_match m;
    prefix_match(&l->tree, &id, q->token, q->n - 1, &m);
    l->hold[slot] = prefix_start(&l->tree, &m, slot);
    assert_int_equal(l->kv.len[slot], m.n_token);
    return m.n_token;
}

static void run_to(struct lab *l, uint32_t slot, uint32_t n)
{
    struct glim_err e;
    while (l->kv.len[slot] < n) {
        uint32_t left = n - l->kv.len[slot], rows = left < KV_PAGE ? left : KV_PAGE;
        ok(prefix_reserve(&l->tree, slot, rows, &e), &e);
        compute(l, slot, rows);
        prefix_extend(&l->tree, &l->hold[slot], slot, l->seq[slot].token);
        check(l);
    }
}

static void finish(struct lab *l, uint32_t slot, bool keep)
{
    prefix_finish(&l->tree, &l->hold[slot], slot, l->seq[slot].token, keep);
    l->seq[slot].on = false;
    check(l);
}

/* Compute the tokens in a slot and leave them in the tree; returns how many were there. */
static uint32_t serve(struct lab *l, uint32_t slot, uint32_t identity, const int32_t *token, uint32_t n)
{
    set_tokens(&l->seq[slot], identity, token, n);
    uint32_t hit = start(l, slot);
    run_to(l, slot, n);
    finish(l, slot, true);
    return hit;
}

static const uint32_t mixed[] = {32, 0, 40}, sliding[] = {32, 17}; /* windows */

#endif
