/* Where pages lie. A group's memory is a row of blocks; a block has some consecutive pages of each pool (two a layer),
 * pools side by side:
 *
 *     | pages 0…15 of layer 0's K | of its V | of layer 1's K | … | pages 16…31 of layer 0's K | …
 *
 * so that a short sequence touches the front of the memory and not the front of each pool: fresh memory has to be
 * cleared, in huge pages. An op finds page number p of a pool at p * page_bytes from its start, so numbers leap from
 * block to block by the pages of all pools. */
#include "run/kv.h"

#include "base/arith.h"

#include <stdio.h>
#include <string.h>

/* Pages a slot of this group may hold at once. A window needs what the earliest of max_rows new rows sees, the new
 * rows, and one page of grace, so that a session can step back by a few tokens. */
static uint32_t slot_pages(uint32_t window, const struct kv_shape *s)
{
    uint64_t all = ceil_div(s->n_ctx, KV_PAGE);
    if (window == 0)
        return (uint32_t)all;
    uint64_t need = ceil_div((size_t)window + s->max_rows, KV_PAGE) + 2;
    return (uint32_t)(need < all ? need : all);
}

size_t kv_pool_pages(uint32_t window, const struct kv_shape *s)
{
    size_t slots = (size_t)s->n_slot * slot_pages(window, s);
    if (window == 0)
        return s->n_token ? ceil_div(s->n_token, KV_PAGE) : slots;
    size_t all = ceil_div(s->n_ctx, KV_PAGE), one = ceil_div(window, KV_PAGE) + 1;
    return slots + s->n_window * (one < all ? one : all);
}

struct pools {                     /* of one group */
    uint32_t n_page, block, apart; /* as in struct kv_table */
    uint32_t n_layer;
    size_t bytes; /* of all its pools */
};

/* A pool's part of a block. */
static bool add_pool(const struct pools *g, size_t page, size_t *bytes)
{
    size_t n;
    return mul_size(g->block, page, &n) && align_up(n, 64, &n) && add_size(*bytes, n, bytes);
}

static bool in_group(const struct plan *p, uint32_t layer, uint32_t group)
{
    return p->layer[layer].attn.kv_group == (int)group;
}

static size_t layer_page(const struct plan *p, const struct backend *be, const struct kv_shape *s, uint32_t layer)
{
    const struct attn_rule *a = &p->layer[layer].attn;
    return be->kv_page_bytes(s->type, a->n_kv_head, a->head_dim);
}

/* Blocks need pools of one page size; a group that has several is one block. */
static glim_status group_pools(const struct plan *p, const struct backend *be, const struct kv_shape *s, uint32_t group,
                               struct pools *g, struct glim_err *e)
{
    enum { BLOCK = 16 };
    size_t n = kv_pool_pages(p->group[group].window, s), n_block, page = 0;
    bool alike = true, fits = n <= UINT32_MAX;
    *g = (struct pools){0};
    for (uint32_t i = 0; i < p->n_layer; i++)
        if (in_group(p, i, group)) {
            size_t mine = layer_page(p, be, s, i);
            alike = alike && mine % 64 == 0 && (g->n_layer == 0 || mine == page);
            page = mine;
            g->n_layer++;
        }
    n_block = fits && alike && n >= BLOCK && (n + n / BLOCK) * 2 * g->n_layer <= UINT32_MAX ? n / BLOCK : 1;
    if (fits) {
        g->n_page = (uint32_t)n;
        g->block = (uint32_t)ceil_div(n, n_block);
        g->apart = g->block * 2 * g->n_layer;
    }
    for (uint32_t i = 0; fits && i < p->n_layer; i++)
        if (in_group(p, i, group)) {
            size_t mine = layer_page(p, be, s, i);
            fits = add_pool(g, mine, &g->bytes) && add_pool(g, mine, &g->bytes);
        }
    if (!fits || !mul_size(g->bytes, n_block, &g->bytes))
        return err_set(e, GLIM_REFUSED,
                       "plan: KV cache: have a size beyond 64 bits, need less context or fewer sequences");
    return GLIM_OK;
}

glim_status kv_plan(const struct plan *p, const struct backend *be, const struct kv_shape *s, struct mem_plan *mp,
                    struct glim_err *e)
{
    for (uint32_t i = 0; i < p->n_group; i++) {
        struct pools g;
        TRY(group_pools(p, be, s, i, &g, e));
        char pages[32], window[24] = "full";
        if (p->group[i].window)
            snprintf(window, sizeof window, "window %u", p->group[i].window);
        if (s->n_token || s->n_window)
            snprintf(pages, sizeof pages, "%u pages", g.n_page);
        else
            snprintf(pages, sizeof pages, "%u x %u pages", s->n_slot, slot_pages(p->group[i].window, s));
        TRY(mem_plan_add(mp, MEM_KV, g.bytes, e, "%u layers, %s, %s", g.n_layer, window, pages));
    }
    return GLIM_OK;
}

static glim_status table_init(struct kv *kv, struct kv_table *t, const struct pools *g, const struct kv_shape *s,
                              struct glim_err *e)
{
    t->n_page = g->n_page;
    t->block = g->block;
    t->apart = g->apart;
    t->stride = (uint32_t)ceil_div(s->n_ctx, KV_PAGE);
    t->free = mem_calloc(t->n_page, sizeof *t->free);
    t->ref = mem_calloc(t->n_page, sizeof *t->ref);
    t->page = mem_calloc((size_t)s->n_slot * t->stride, sizeof *t->page);
    t->first = mem_calloc(s->n_slot, sizeof *t->first);
    t->end = mem_calloc(s->n_slot, sizeof *t->end);
    if (!t->free || !t->ref || !t->page || !t->first || !t->end)
        return err_nomem(e, "page tables", (size_t)kv->n_slot * t->stride * 4);
    for (uint32_t i = 0; i < t->n_page; i++) /* so that page 0 goes first */
        t->free[t->n_page - 1 - i] = i / t->block * t->apart + i % t->block;
    t->n_free = t->n_page;
    return GLIM_OK;
}

static void place_pools(struct kv *kv, const struct backend *be, const struct kv_shape *s, uint32_t group,
                        const struct pools *g)
{
    uint8_t *base = arena_take(&kv->arena, g->bytes);
    size_t at = 0;
    for (uint32_t i = 0; i < kv->plan->n_layer; i++) {
        const struct attn_rule *a = &kv->plan->layer[i].attn;
        size_t page = layer_page(kv->plan, be, s, i), k = at;
        if (!in_group(kv->plan, i, group))
            continue;
        add_pool(g, page, &at);
        kv->layer[i] = (struct kv_layer){.k = base + k,
                                         .v = base + at,
                                         .type = s->type,
                                         .n_kv_head = a->n_kv_head,
                                         .head_dim = a->head_dim,
                                         .page_bytes = page};
        add_pool(g, page, &at);
    }
}

glim_status kv_create(struct kv *kv, const struct plan *p, const struct backend *be, const struct kv_shape *s,
                      struct glim_err *e)
{
    *kv = (struct kv){.plan = p, .n_slot = s->n_slot, .n_ctx = s->n_ctx, .poison = s->poison};
    glim_status st = GLIM_OK;
    kv->len = mem_calloc(s->n_slot, sizeof *kv->len);
    kv->layer = mem_calloc(p->n_layer, sizeof *kv->layer);
    if (!kv->len || !kv->layer) {
        st = err_nomem(e, "KV cache", p->n_layer * sizeof *kv->layer);
        goto out;
    }
    struct pools g[PLAN_GROUPS];
    size_t total = 0;
    for (uint32_t i = 0; i < p->n_group; i++) {
        TRY_OUT(group_pools(p, be, s, i, &g[i], e));
        if (!add_size(total, g[i].bytes, &total)) {
            st = err_set(e, GLIM_REFUSED, "plan: KV cache: have a size beyond 64 bits, need less context");
            goto out;
        }
    }
    TRY_OUT(arena_init(&kv->arena, total, "KV cache", e));
    for (uint32_t i = 0; i < p->n_group; i++) {
        kv->group[i].window = p->group[i].window;
        place_pools(kv, be, s, i, &g[i]);
        TRY_OUT(table_init(kv, &kv->group[i], &g[i], s, e));
    }
out:
    if (st != GLIM_OK)
        kv_fini(kv);
    return st;
}

void kv_fini(struct kv *kv)
{
    for (uint32_t g = 0; g < PLAN_GROUPS; g++) {
        mem_free(kv->group[g].free);
        mem_free(kv->group[g].ref);
        mem_free(kv->group[g].page);
        mem_free(kv->group[g].first);
        mem_free(kv->group[g].end);
    }
    mem_free(kv->len);
    mem_free(kv->layer);
    arena_fini(&kv->arena);
    memset(kv, 0, sizeof *kv);
}

/* ---- pages ---- */

uint32_t kv_page_index(const struct kv_table *t, uint32_t page)
{
    return page / t->apart * t->block + page % t->apart;
}

uint32_t kv_holders(const struct kv *kv, uint32_t group, uint32_t page)
{
    const struct kv_table *t = &kv->group[group];
    return t->ref[kv_page_index(t, page)];
}

void kv_hold(struct kv *kv, uint32_t group, uint32_t page)
{
    struct kv_table *t = &kv->group[group];
    t->ref[kv_page_index(t, page)]++;
}

static void drop_page(struct kv_table *t, uint32_t page)
{
    if (--t->ref[kv_page_index(t, page)] == 0)
        t->free[t->n_free++] = page;
}

void kv_drop(struct kv *kv, uint32_t group, uint32_t page)
{
    drop_page(&kv->group[group], page);
}

static uint32_t *entry(const struct kv_table *t, uint32_t slot, uint32_t i)
{
    return &t->page[(size_t)slot * t->stride + i];
}

static void drop_entries(struct kv_table *t, uint32_t slot, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        drop_page(t, *entry(t, slot, i));
}

size_t kv_page_size(const struct kv *kv, uint32_t group)
{
    size_t n = 0;
    for (uint32_t i = 0; i < kv->plan->n_layer; i++)
        if (in_group(kv->plan, i, group))
            n += 2 * kv->layer[i].page_bytes;
    return n;
}

static void copy_page(const struct kv *kv, uint32_t group, uint32_t to, uint32_t from)
{
    for (uint32_t i = 0; i < kv->plan->n_layer; i++) {
        const struct kv_layer *l = &kv->layer[i];
        size_t n = l->page_bytes;
        if (!in_group(kv->plan, i, group))
            continue;
        memcpy((char *)l->k + to * n, (const char *)l->k + from * n, n);
        memcpy((char *)l->v + to * n, (const char *)l->v + from * n, n);
    }
}

/* All bits set is a NaN in f32, f16 and bf16: a row that reads what was never written shows it. */
static void poison_page(const struct kv *kv, uint32_t group, uint32_t page)
{
    for (uint32_t i = 0; i < kv->plan->n_layer; i++) {
        const struct kv_layer *l = &kv->layer[i];
        if (!in_group(kv->plan, i, group))
            continue;
        memset((char *)l->k + page * l->page_bytes, 0xFF, l->page_bytes);
        memset((char *)l->v + page * l->page_bytes, 0xFF, l->page_bytes);
    }
}

static uint32_t fresh_page(struct kv *kv, uint32_t group)
{
    struct kv_table *t = &kv->group[group];
    uint32_t page = t->free[--t->n_free];
    t->ref[kv_page_index(t, page)] = 1;
    if (kv->poison)
        poison_page(kv, group, page);
    return page;
}

/* ---- a slot's positions ---- */

/* First table entry that a row at position pos can see, one page of grace included. */
static uint32_t first_entry(const struct kv_table *t, uint32_t pos)
{
    if (t->window == 0 || pos < t->window + KV_PAGE)
        return 0;
    return (pos - t->window + 1) / KV_PAGE - 1;
}

struct change { /* what a group's table goes through to get room for n more positions */
    uint32_t first, end;
    uint32_t freed, fresh; /* pages; fresh counts the copy */
    bool copy;             /* the last page, which others hold as well */
};

static struct change change_for(const struct kv_table *t, uint32_t slot, uint32_t pos, uint32_t n)
{
    struct change c = {.first = first_entry(t, pos), .end = (uint32_t)ceil_div((size_t)pos + n, KV_PAGE)};
    if (c.first < t->first[slot])
        c.first = t->first[slot];
    if (c.end < t->end[slot])
        c.end = t->end[slot];
    for (uint32_t i = t->first[slot]; i < c.first; i++)
        c.freed += t->ref[kv_page_index(t, *entry(t, slot, i))] == 1;
    c.copy = n > 0 && pos % KV_PAGE && t->ref[kv_page_index(t, *entry(t, slot, pos / KV_PAGE))] > 1;
    c.fresh = c.end - t->end[slot] + c.copy;
    return c;
}

uint32_t kv_need(const struct kv *kv, uint32_t slot, uint32_t n, uint32_t group)
{
    struct change c = change_for(&kv->group[group], slot, kv->len[slot], n);
    return c.fresh > c.freed ? c.fresh - c.freed : 0;
}

static void apply_change(struct kv *kv, uint32_t slot, uint32_t group, const struct change *c)
{
    struct kv_table *t = &kv->group[group];
    drop_entries(t, slot, t->first[slot], c->first);
    t->first[slot] = c->first;
    if (c->copy) {
        uint32_t *last = entry(t, slot, kv->len[slot] / KV_PAGE), page = fresh_page(kv, group);
        copy_page(kv, group, page, *last);
        drop_page(t, *last);
        *last = page;
    }
    for (; t->end[slot] < c->end; t->end[slot]++)
        *entry(t, slot, t->end[slot]) = fresh_page(kv, group);
}

glim_status kv_reserve(struct kv *kv, uint32_t slot, uint32_t n, struct glim_err *e)
{
    uint32_t pos = kv->len[slot];
    struct change c[PLAN_GROUPS];
    if (n > kv->n_ctx - pos)
        return err_set(e, GLIM_REFUSED, "session: context: have room for %u tokens, need %llu", kv->n_ctx,
                       (unsigned long long)pos + n);
    for (uint32_t g = 0; g < kv->plan->n_group; g++) {
        const struct kv_table *t = &kv->group[g];
        c[g] = change_for(t, slot, pos, n);
        if (c[g].fresh > t->n_free + c[g].freed)
            return err_set(e, GLIM_REFUSED, "KV cache: window %u: have %u free pages, need %u", t->window,
                           t->n_free + c[g].freed, c[g].fresh);
    }
    for (uint32_t g = 0; g < kv->plan->n_group; g++)
        apply_change(kv, slot, g, &c[g]);
    return GLIM_OK;
}

void kv_advance(struct kv *kv, uint32_t slot, uint32_t n)
{
    kv->len[slot] += n;
}

uint32_t kv_trim(struct kv *kv, uint32_t slot, uint32_t n)
{
    if (n > kv->len[slot])
        n = kv->len[slot];
    for (uint32_t g = 0; g < kv->plan->n_group; g++) {
        const struct kv_table *t = &kv->group[g];
        uint32_t lo = t->window && n >= t->window ? n - t->window + 1 : 0;
        if (t->first[slot] * KV_PAGE > lo)
            n = 0; /* the window has moved on: only a fresh start is exact */
    }
    uint32_t end = (uint32_t)ceil_div(n, KV_PAGE);
    for (uint32_t g = 0; g < kv->plan->n_group; g++) {
        struct kv_table *t = &kv->group[g];
        uint32_t from = end > t->first[slot] ? end : t->first[slot];
        if (t->end[slot] > from)
            drop_entries(t, slot, from, t->end[slot]);
        if (t->end[slot] > end)
            t->end[slot] = end;
        if (n == 0)
            t->first[slot] = t->end[slot] = 0;
    }
    kv->len[slot] = n;
    return n;
}

struct page_map kv_map(const struct kv *kv, int group)
{
    return (struct page_map){.page = kv->group[group].page, .stride = kv->group[group].stride};
}

/* ---- sharing ---- */

uint32_t kv_first_page(uint32_t window, uint32_t n)
{
    if (window == 0 || n < window)
        return 0;
    return (window > 1 ? n - window + 1 : n - 1) / KV_PAGE;
}

uint32_t kv_page(const struct kv *kv, uint32_t slot, uint32_t group, uint32_t i)
{
    const struct kv_table *t = &kv->group[group];
    return i >= t->first[slot] && i < t->end[slot] ? *entry(t, slot, i) : KV_NO_PAGE;
}

void kv_adopt(struct kv *kv, uint32_t slot, uint32_t group, uint32_t first, uint32_t end, const uint32_t *page)
{
    struct kv_table *t = &kv->group[group];
    t->first[slot] = first;
    t->end[slot] = end;
    for (uint32_t i = first; i < end; i++) {
        kv_hold(kv, group, page[i - first]);
        *entry(t, slot, i) = page[i - first];
    }
}

void kv_swap(struct kv *kv, uint32_t slot, uint32_t group, uint32_t i, uint32_t page)
{
    uint32_t *mine = entry(&kv->group[group], slot, i);
    kv_hold(kv, group, page);
    kv_drop(kv, group, *mine);
    *mine = page;
}

/* ---- invariants ---- */

/* Adds the table's holders to seen: [n_page]. */
static glim_status count_entries(const struct kv *kv, uint32_t group, uint32_t *seen, struct glim_err *e)
{
    const struct kv_table *t = &kv->group[group];
    for (uint32_t s = 0; s < kv->n_slot; s++) {
        uint32_t held = (uint32_t)ceil_div(kv->len[s], KV_PAGE);
        if (t->first[s] > t->end[s] || t->end[s] > t->stride || held > t->end[s] ||
            (held && kv_first_page(t->window, kv->len[s]) < t->first[s]))
            return err_set(e, GLIM_FAILED,
                           "KV cache: group %u: slot %u: have entries %u to %u, need those of %u tokens", group, s,
                           t->first[s], t->end[s], kv->len[s]);
        for (uint32_t i = t->first[s]; i < t->end[s]; i++) {
            uint32_t at = kv_page_index(t, *entry(t, s, i));
            seen[at]++;
            if (i >= held && t->ref[at] != 1)
                return err_set(e, GLIM_FAILED,
                               "KV cache: group %u: slot %u: have page %u to write, need no other holder", group, s, i);
        }
    }
    return GLIM_OK;
}

static glim_status check_group(const struct kv *kv, uint32_t group, uint32_t *seen, struct glim_err *e)
{
    const struct kv_table *t = &kv->group[group];
    uint32_t n_held = 0;
    TRY(count_entries(kv, group, seen, e));
    for (uint32_t i = 0; i < t->n_page; i++) {
        n_held += seen[i] > 0;
        if (seen[i] != t->ref[i])
            return err_set(e, GLIM_FAILED, "KV cache: group %u: page %u: have %u holders, need %u", group, i, t->ref[i],
                           seen[i]);
    }
    for (uint32_t i = 0; i < t->n_free; i++)
        if (seen[kv_page_index(t, t->free[i])]++)
            return err_set(e, GLIM_FAILED, "KV cache: group %u: page %u: have it among the free, need it there once",
                           group, kv_page_index(t, t->free[i]));
    if (n_held + t->n_free != t->n_page)
        return err_set(e, GLIM_FAILED, "KV cache: group %u: have %u held and %u free pages, need %u in all", group,
                       n_held, t->n_free, t->n_page);
    return GLIM_OK;
}

glim_status kv_check(const struct kv *kv, uint32_t *const tree[PLAN_GROUPS], struct glim_err *e)
{
    for (uint32_t g = 0; g < kv->plan->n_group; g++) {
        uint32_t n_page = kv->group[g].n_page, *seen = mem_calloc(n_page, sizeof *seen);
        if (!seen)
            return err_nomem(e, "KV check", n_page * sizeof *seen);
        if (tree)
            memcpy(seen, tree[g], n_page * sizeof *seen);
        glim_status st = check_group(kv, g, seen, e);
        mem_free(seen);
        TRY(st);
    }
    return GLIM_OK;
}
