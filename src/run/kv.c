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
    size_t n, n_block, page = 0;
    bool alike = true, fits = mul_size(slot_pages(p->group[group].window, s), s->n_slot, &n) && n <= UINT32_MAX;
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
        uint32_t pages = slot_pages(p->group[i].window, s);
        if (p->group[i].window)
            TRY(mem_plan_add(mp, MEM_KV, g.bytes, e, "%u layers, window %u, %u x %u pages", g.n_layer,
                             p->group[i].window, s->n_slot, pages));
        else
            TRY(mem_plan_add(mp, MEM_KV, g.bytes, e, "%u layers, full, %u x %u pages", g.n_layer, s->n_slot, pages));
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
    t->page = mem_calloc((size_t)s->n_slot * t->stride, sizeof *t->page);
    t->first = mem_calloc(s->n_slot, sizeof *t->first);
    t->end = mem_calloc(s->n_slot, sizeof *t->end);
    if (!t->free || !t->page || !t->first || !t->end)
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
        mem_free(kv->group[g].page);
        mem_free(kv->group[g].first);
        mem_free(kv->group[g].end);
    }
    mem_free(kv->len);
    mem_free(kv->layer);
    arena_fini(&kv->arena);
    memset(kv, 0, sizeof *kv);
}

/* All bits set is a NaN in f32, f16 and bf16: a row that reads what was never written shows it. */
static void poison_page(struct kv *kv, uint32_t g, uint32_t page)
{
    for (uint32_t i = 0; i < kv->plan->n_layer; i++) {
        const struct kv_layer *l = &kv->layer[i];
        if (kv->plan->layer[i].attn.kv_group != (int)g)
            continue;
        memset((char *)l->k + page * l->page_bytes, 0xFF, l->page_bytes);
        memset((char *)l->v + page * l->page_bytes, 0xFF, l->page_bytes);
    }
}

/* First table entry that a row at position pos can see, one page of grace included. */
static uint32_t first_entry(const struct kv_table *t, uint32_t pos)
{
    if (t->window == 0 || pos < t->window + KV_PAGE)
        return 0;
    return (pos - t->window + 1) / KV_PAGE - 1;
}

static void drop_entries(struct kv_table *t, uint32_t slot, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        t->free[t->n_free++] = t->page[(size_t)slot * t->stride + i];
}

glim_status kv_reserve(struct kv *kv, uint32_t slot, uint32_t n, struct glim_err *e)
{
    uint32_t pos = kv->len[slot];
    if (n > kv->n_ctx - pos)
        return err_set(e, GLIM_REFUSED, "session: context: have room for %u tokens, need %llu", kv->n_ctx,
                       (unsigned long long)pos + n);
    uint32_t end = (uint32_t)ceil_div(pos + n, KV_PAGE);
    for (uint32_t g = 0; g < kv->plan->n_group; g++) {
        struct kv_table *t = &kv->group[g];
        uint32_t first = first_entry(t, pos);
        uint32_t freed = first > t->first[slot] ? first - t->first[slot] : 0;
        uint32_t need = end > t->end[slot] ? end - t->end[slot] : 0;
        if (need > t->n_free + freed)
            return err_set(e, GLIM_REFUSED, "KV cache: window %u: have %u free pages, need %u", t->window,
                           t->n_free + freed, need);
    }
    for (uint32_t g = 0; g < kv->plan->n_group; g++) {
        struct kv_table *t = &kv->group[g];
        uint32_t first = first_entry(t, pos);
        if (first > t->first[slot]) {
            drop_entries(t, slot, t->first[slot], first);
            t->first[slot] = first;
        }
        for (; t->end[slot] < end; t->end[slot]++) {
            uint32_t page = t->free[--t->n_free];
            t->page[(size_t)slot * t->stride + t->end[slot]] = page;
            if (kv->poison)
                poison_page(kv, g, page);
        }
    }
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

/* Pages of a pool before this one. */
static uint32_t page_index(const struct kv_table *t, uint32_t page)
{
    return page / t->apart * t->block + page % t->apart;
}

glim_status kv_check(const struct kv *kv, struct glim_err *e)
{
    for (uint32_t g = 0; g < kv->plan->n_group; g++) {
        const struct kv_table *t = &kv->group[g];
        uint8_t *owner = mem_calloc(t->n_page, 1);
        if (!owner)
            return err_nomem(e, "KV check", t->n_page);
        glim_status st = GLIM_OK;
        uint32_t held = 0;
        for (uint32_t i = 0; i < t->n_free; i++)
            owner[page_index(t, t->free[i])]++;
        for (uint32_t s = 0; s < kv->n_slot; s++)
            for (uint32_t i = t->first[s]; i < t->end[s]; i++, held++)
                owner[page_index(t, t->page[(size_t)s * t->stride + i])]++;
        if (held + t->n_free != t->n_page)
            st = err_set(e, GLIM_FAILED, "KV cache: group %u: have %u held and %u free pages, need %u in all", g, held,
                         t->n_free, t->n_page);
        for (uint32_t i = 0; st == GLIM_OK && i < t->n_page; i++)
            if (owner[i] != 1)
                st = err_set(e, GLIM_FAILED, "KV cache: group %u: page %u: have %u owners, need 1", g, i, owner[i]);
        mem_free(owner);
        TRY(st);
    }
    return GLIM_OK;
}
