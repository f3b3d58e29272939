#include "run/prefix.h"

#include "base/arith.h"

#include <string.h>

/* Children that a partial match or a new page looks at, newest first. */
enum { LOOK = 32 };

struct link {
    uint32_t older, newer; /* 0: end of the list */
};
enum { IDLE, WINDOW }; /* links of a node: in the idle list, and in a list of group g at WINDOW + g */

struct prefix_node {
    struct sha256 key;
    uint32_t parent; /* 0: a root */
    uint32_t child;  /* the newest */
    struct link sibling;
    uint32_t chain; /* next in the bucket, or among the free */
    uint32_t pins;  /* holds whose tail it is, and children with pins */
    uint32_t depth; /* pages up to and with it; a root's is 0 */
    uint32_t n;     /* tokens: KV_PAGE; fewer: a partial leaf; 0: a root */
    int32_t token[KV_PAGE];
    uint32_t page[PLAN_GROUPS]; /* KV_NO_PAGE: lost, or a root */
    bool kept[PLAN_GROUPS];     /* which list of the window's its page is in */
    struct link link[WINDOW + PLAN_GROUPS];
};

/* ---- life ---- */

/* Every page of the pool without a window may be a node, and every slot stand on a root of its own. Without such a pool
 * its size is what bounds the tree. */
static size_t node_count(const struct kv_shape *s)
{
    return kv_pool_pages(0, s) + s->n_slot;
}

static size_t bucket_count(size_t n_node)
{
    size_t n = 1;
    while (n < n_node)
        n *= 2;
    return n;
}

glim_status prefix_plan(const struct kv_shape *s, struct mem_plan *mp, struct glim_err *e)
{
    size_t n = node_count(s), bytes;
    if (n >= UINT32_MAX || !mul_size(n + 1, sizeof(struct prefix_node), &bytes))
        return err_set(e, GLIM_REFUSED, "plan: prefix cache: have %zu pages, need fewer than 2^32", n);
    return mem_plan_add(mp, MEM_TABLES, bytes + 4 * bucket_count(n), e, "prefix cache, %zu pages", n);
}

glim_status prefix_create(struct prefix *p, struct kv *kv, const struct kv_shape *s, struct glim_err *e)
{
    size_t n = node_count(s);
    glim_status st = GLIM_OK;
    *p = (struct prefix){.kv = kv, .full = -1};
    if (n >= UINT32_MAX)
        return err_set(e, GLIM_REFUSED, "prefix cache: tree: have %zu pages, need fewer than 2^32", n);
    p->n_node = p->n_free = (uint32_t)n;
    p->n_bucket = (uint32_t)bucket_count(n);
    p->node = mem_calloc(n + 1, sizeof *p->node);
    p->bucket = mem_calloc(p->n_bucket, sizeof *p->bucket);
    p->path = mem_calloc(ceil_div(s->n_ctx, KV_PAGE), sizeof *p->path);
    if (!p->node || !p->bucket || !p->path) {
        st = err_nomem(e, "prefix cache", (n + 1) * sizeof *p->node);
        goto out;
    }
    for (uint32_t i = p->n_node; i > 0; i--) {
        p->node[i].chain = p->free;
        p->free = i;
    }
    for (uint32_t g = 0; g < kv->plan->n_group; g++)
        if (kv->group[g].window == 0)
            p->full = (int)g;
    TRY_OUT(sha256_begin(&p->sha, e));
out:
    if (st != GLIM_OK)
        prefix_fini(p);
    return st;
}

void prefix_fini(struct prefix *p)
{
    struct sha256 last;
    if (p->sha)
        sha256_end(p->sha, &last, NULL);
    mem_free(p->node);
    mem_free(p->bucket);
    mem_free(p->path);
    *p = (struct prefix){0};
}

/* ---- lists ---- */

static void list_add(struct prefix *p, struct prefix_list *l, uint32_t which, uint32_t i)
{
    p->node[i].link[which] = (struct link){.older = l->newest};
    if (l->newest)
        p->node[l->newest].link[which].newer = i;
    else
        l->oldest = i;
    l->newest = i;
}

static void list_remove(struct prefix *p, struct prefix_list *l, uint32_t which, uint32_t i)
{
    struct link at = p->node[i].link[which];
    if (at.older)
        p->node[at.older].link[which].newer = at.newer;
    else
        l->oldest = at.newer;
    if (at.newer)
        p->node[at.newer].link[which].older = at.older;
    else
        l->newest = at.older;
}

static void join_idle(struct prefix *p, uint32_t i)
{
    list_add(p, &p->idle, IDLE, i);
    p->n_idle += p->node[i].n > 0;
}

static void leave_idle(struct prefix *p, uint32_t i)
{
    list_remove(p, &p->idle, IDLE, i);
    p->n_idle -= p->node[i].n > 0;
}

/* A pin goes up to the first node that has others. */
static void pin(struct prefix *p, uint32_t i)
{
    for (; i && p->node[i].pins++ == 0; i = p->node[i].parent)
        leave_idle(p, i);
}

static void unpin(struct prefix *p, uint32_t i)
{
    for (; i && --p->node[i].pins == 0; i = p->node[i].parent)
        join_idle(p, i);
}

static void add_child(struct prefix *p, uint32_t parent, uint32_t i)
{
    uint32_t first = p->node[parent].child;
    p->node[i].sibling = (struct link){.older = first};
    if (first)
        p->node[first].sibling.newer = i;
    p->node[parent].child = i;
}

static void remove_child(struct prefix *p, uint32_t parent, uint32_t i)
{
    struct link at = p->node[i].sibling;
    if (at.newer)
        p->node[at.newer].sibling.older = at.older;
    else
        p->node[parent].child = at.older;
    if (at.older)
        p->node[at.older].sibling.newer = at.newer;
}

/* A leaf was of use; its parent is held. */
static void touch(struct prefix *p, uint32_t i)
{
    uint32_t parent = p->node[i].parent;
    remove_child(p, parent, i);
    add_child(p, parent, i);
    if (p->node[i].pins == 0) {
        leave_idle(p, i);
        join_idle(p, i);
    }
}

/* ---- pages of nodes ---- */

static void give_page(struct prefix *p, uint32_t i, uint32_t g, uint32_t page)
{
    struct prefix_node *n = &p->node[i];
    kv_hold(p->kv, g, page);
    n->page[g] = page;
    n->kept[g] = false;
    p->n_page[g]++;
    if ((int)g != p->full)
        list_add(p, &p->window[g][0], WINDOW + g, i);
}

static void lose_page(struct prefix *p, uint32_t i, uint32_t g)
{
    struct prefix_node *n = &p->node[i];
    if ((int)g != p->full)
        list_remove(p, &p->window[g][n->kept[g]], WINDOW + g, i);
    kv_drop(p->kv, g, n->page[g]);
    n->page[g] = KV_NO_PAGE;
    p->n_page[g]--;
}

/* The window page was of use. */
static void renew_page(struct prefix *p, uint32_t i, uint32_t g, bool keep)
{
    struct prefix_node *n = &p->node[i];
    if (n->page[g] == KV_NO_PAGE || (int)g == p->full)
        return;
    list_remove(p, &p->window[g][n->kept[g]], WINDOW + g, i);
    n->kept[g] = n->kept[g] || keep;
    list_add(p, &p->window[g][n->kept[g]], WINDOW + g, i);
}

static bool is_complete(const struct prefix *p, uint32_t i)
{
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++)
        if (p->node[i].page[g] == KV_NO_PAGE)
            return false;
    return true;
}

/* ---- nodes ---- */

static uint32_t *bucket_of(const struct prefix *p, const struct sha256 *key)
{
    uint32_t h;
    memcpy(&h, key->b, sizeof h);
    return &p->bucket[h & (p->n_bucket - 1)];
}

static uint32_t find(const struct prefix *p, const struct sha256 *key)
{
    uint32_t i = *bucket_of(p, key);
    while (i && memcmp(&p->node[i].key, key, sizeof *key) != 0)
        i = p->node[i].chain;
    return i;
}

/* False when the library cannot hash: such a page is not found and not cached. */
static bool key_of(const struct prefix *p, uint32_t parent, const int32_t *tokens, uint32_t n, struct sha256 *key)
{
    uint8_t m[sizeof *key + 4 * KV_PAGE], *at = m + sizeof *key;
    memcpy(m, &p->node[parent].key, sizeof *key);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t shift = 0; shift < 32; shift += 8)
            *at++ = (uint8_t)((uint32_t)tokens[i] >> shift);
    return sha256_short(p->sha, m, (size_t)(at - m), key, NULL) == GLIM_OK;
}

/* An idle leaf goes. */
static void drop_node(struct prefix *p, uint32_t i)
{
    struct prefix_node *n = &p->node[i];
    uint32_t *at = bucket_of(p, &n->key);
    leave_idle(p, i);
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++)
        if (n->page[g] != KV_NO_PAGE)
            lose_page(p, i, g);
    if (n->parent)
        remove_child(p, n->parent, i);
    while (*at != i)
        at = &p->node[*at].chain;
    *at = n->chain;
    n->chain = p->free;
    p->free = i;
    p->n_free++;
}

static void evict_oldest(struct prefix *p)
{
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++)
        p->n_evicted += p->node[p->idle.oldest].page[g] != KV_NO_PAGE;
    drop_node(p, p->idle.oldest);
}

/* An idle node without pages, whose parent is held; 0 when all nodes are held. */
static uint32_t new_node(struct prefix *p, uint32_t parent, const struct sha256 *key, const int32_t *tokens, uint32_t n)
{
    if (!p->free && p->idle.oldest)
        evict_oldest(p);
    uint32_t i = p->free, *bucket = bucket_of(p, key);
    if (!i)
        return 0;
    struct prefix_node *node = &p->node[i];
    p->free = node->chain;
    p->n_free--;
    *node = (struct prefix_node){.key = *key, .parent = parent, .chain = *bucket, .n = n};
    *bucket = i;
    for (uint32_t g = 0; g < PLAN_GROUPS; g++)
        node->page[g] = KV_NO_PAGE;
    if (parent) {
        node->depth = p->node[parent].depth + 1;
        memcpy(node->token, tokens, n * sizeof *tokens);
        add_child(p, parent, i);
    }
    join_idle(p, i);
    return i;
}

/* ---- match ---- */

/* Has a path whose last run[g] pages are there in each group what a sequence of n tokens needs? */
static bool usable(const struct prefix *p, const uint32_t *run, uint32_t n)
{
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++)
        if (run[g] < (uint32_t)ceil_div(n, KV_PAGE) - kv_first_page(p->kv->group[g].window, n))
            return false;
    return true;
}

static uint32_t common(const struct prefix_node *a, const int32_t *tokens, size_t n)
{
    uint32_t i = 0;
    while (i < a->n && i < n && a->token[i] == tokens[i])
        i++;
    return i;
}

/* The child with all its pages that begins with most of the tokens; 0 when none begins with any. After a usable path it
 * is usable: windows only move on. */
static uint32_t closest_child(const struct prefix *p, uint32_t parent, const int32_t *tokens, size_t n,
                              uint32_t *n_common)
{
    uint32_t best = 0, i = p->node[parent].child;
    *n_common = 0;
    for (int look = 0; i && look < LOOK; look++, i = p->node[i].sibling.older) {
        uint32_t c = common(&p->node[i], tokens, n);
        if (c > *n_common && is_complete(p, i)) {
            best = i;
            *n_common = c;
        }
    }
    return best;
}

void prefix_match(const struct prefix *p, const struct sha256 *identity, const int32_t *tokens, size_t n,
                  struct prefix_match *m)
{
    uint32_t run[PLAN_GROUPS] = {0}, at = find(p, identity), next, n_common = 0;
    struct sha256 key;
    *m = (struct prefix_match){.identity = *identity, .tail = at};
    for (size_t done = 0; at && n - done >= KV_PAGE; at = next) {
        next = key_of(p, at, tokens + done, KV_PAGE, &key) ? find(p, &key) : 0;
        if (!next)
            break;
        done += KV_PAGE;
        for (uint32_t g = 0; g < PLAN_GROUPS; g++)
            run[g] = p->node[next].page[g] == KV_NO_PAGE ? 0 : run[g] + 1;
        if (usable(p, run, (uint32_t)done)) {
            m->tail = next;
            m->n_token = (uint32_t)done;
        }
    }
    if (m->tail)
        m->partial = closest_child(p, m->tail, tokens + m->n_token, n - m->n_token, &n_common);
    m->n_token += n_common;
    m->n_page = p->node[m->tail].depth;
    for (uint32_t i = m->tail; i && p->node[i].pins == 0; i = p->node[i].parent)
        m->n_pin += p->node[i].n > 0;
}

/* ---- a running sequence ---- */

struct prefix_hold prefix_start(struct prefix *p, const struct prefix_match *m, uint32_t slot)
{
    struct prefix_hold h = {.tail = m->tail ? m->tail : new_node(p, 0, &m->identity, NULL, 0)};
    uint32_t last = m->partial ? m->partial : m->tail, end = p->node[last].depth;
    pin(p, h.tail);
    if (m->n_token == 0)
        return h;
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++) {
        uint32_t first = kv_first_page(p->kv->group[g].window, m->n_token), i = last;
        for (uint32_t at = end; at > first; at--, i = p->node[i].parent) {
            p->path[at - 1 - first] = p->node[i].page[g];
            renew_page(p, i, g, false);
        }
        kv_adopt(p->kv, slot, g, first, end, p->path);
    }
    kv_advance(p->kv, slot, m->n_token);
    p->n_hit += m->n_token;
    if (m->partial)
        touch(p, m->partial);
    return h;
}

/* The node and the slot have the same tokens in this page: they share pages from now, the node's where it has one. */
static void share_pages(struct prefix *p, uint32_t i, uint32_t slot)
{
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++) {
        uint32_t at = p->node[i].depth - 1, mine = kv_page(p->kv, slot, g, at), its = p->node[i].page[g];
        if (mine == KV_NO_PAGE)
            continue;
        if (its == KV_NO_PAGE)
            give_page(p, i, g, mine);
        else if (its != mine)
            kv_swap(p->kv, slot, g, at, its);
    }
}

/* Partial leaves beside the node whose tokens it begins with have become useless. */
static void drop_beginnings(struct prefix *p, uint32_t node)
{
    const struct prefix_node *n = &p->node[node];
    uint32_t i = p->node[n->parent].child, older;
    for (int look = 0; i && look < LOOK; look++, i = older) {
        older = p->node[i].sibling.older;
        if (i != node && common(&p->node[i], n->token, n->n) == p->node[i].n)
            drop_node(p, i);
    }
}

/* The node for the slot's page after the parent, which is held, with n tokens; 0 when it cannot be had. */
static uint32_t insert(struct prefix *p, uint32_t parent, uint32_t slot, const int32_t *tokens, uint32_t n)
{
    struct sha256 key;
    if (!key_of(p, parent, tokens, n, &key))
        return 0;
    uint32_t i = find(p, &key);
    if (!i)
        i = new_node(p, parent, &key, tokens, n);
    if (i)
        share_pages(p, i, slot);
    if (i && is_complete(p, i))
        drop_beginnings(p, i);
    return i;
}

void prefix_extend(struct prefix *p, struct prefix_hold *h, uint32_t slot, const int32_t *tokens)
{
    while (h->tail && p->kv->len[slot] / KV_PAGE > p->node[h->tail].depth) {
        uint32_t next = insert(p, h->tail, slot, tokens + (size_t)p->node[h->tail].depth * KV_PAGE, KV_PAGE);
        if (!next)
            return;
        pin(p, next);
        unpin(p, h->tail);
        h->tail = next;
    }
}

/* Keep the window pages of a hit that ends anywhere in this node. */
static void mark(struct prefix *p, uint32_t node)
{
    uint32_t before = (p->node[node].depth - 1) * KV_PAGE;
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++) {
        uint32_t first = kv_first_page(p->kv->group[g].window, before + 1);
        for (uint32_t i = node; p->node[i].depth > first; i = p->node[i].parent)
            renew_page(p, i, g, true);
    }
}

void prefix_mark(struct prefix *p, const struct prefix_hold *h, uint32_t n)
{
    uint32_t i = h->tail;
    if (n == 0)
        return;
    while (p->node[i].depth > ceil_div(n, KV_PAGE))
        i = p->node[i].parent;
    if (p->node[i].depth > 0)
        mark(p, i);
}

/* Does somebody else hold the page of the slot? */
static bool is_shared(const struct prefix *p, uint32_t slot, uint32_t at)
{
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++)
        if (kv_holders(p->kv, g, kv_page(p->kv, slot, g, at)) > 1)
            return true;
    return false;
}

/* What the slot has after its last whole page becomes a leaf, unless a child that is there begins with it, or the slot
 * has only adopted it: a page has one node. Returns the last node of what it has. */
static uint32_t insert_rest(struct prefix *p, uint32_t tail, uint32_t slot, const int32_t *tokens, uint32_t n)
{
    uint32_t n_common, i = closest_child(p, tail, tokens, n, &n_common);
    if (n_common < n)
        i = is_shared(p, slot, p->node[tail].depth) ? 0 : insert(p, tail, slot, tokens, n);
    if (i)
        touch(p, i);
    return i ? i : tail;
}

void prefix_finish(struct prefix *p, struct prefix_hold *h, uint32_t slot, const int32_t *tokens, bool keep)
{
    if (keep && h->tail) {
        prefix_extend(p, h, slot, tokens);
        uint32_t n = p->kv->len[slot], done = p->node[h->tail].depth * KV_PAGE, end = h->tail;
        if (n > done && n - done < KV_PAGE)
            end = insert_rest(p, h->tail, slot, tokens + done, n - done);
        if (p->node[end].depth > 0)
            mark(p, end);
    }
    unpin(p, h->tail);
    h->tail = 0;
    kv_trim(p->kv, slot, 0);
}

/* ---- eviction ---- */

static bool only_ours(const struct prefix *p, uint32_t i, uint32_t g)
{
    uint32_t page = p->node[i].page[g];
    return page != KV_NO_PAGE && kv_holders(p->kv, g, page) == 1;
}

/* A page that a slot is using would not become free, so it is passed over. */
static uint32_t evict_windows(struct prefix *p, uint32_t g, uint32_t n)
{
    uint32_t freed = 0;
    for (int kept = 0; kept < 2; kept++)
        for (uint32_t i = p->window[g][kept].oldest, newer; i && freed < n; i = newer) {
            newer = p->node[i].link[WINDOW + g].newer;
            if (only_ours(p, i, g)) {
                lose_page(p, i, g);
                freed++;
            }
        }
    p->n_evicted += freed;
    return freed;
}

uint32_t prefix_evict(struct prefix *p, uint32_t group, uint32_t n)
{
    uint32_t freed = 0;
    if ((int)group != p->full)
        return evict_windows(p, group, n);
    while (freed < n && p->idle.oldest) {
        freed += only_ours(p, p->idle.oldest, group);
        evict_oldest(p);
    }
    return freed;
}

glim_status prefix_reserve(struct prefix *p, uint32_t slot, uint32_t n, struct glim_err *e)
{
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++) {
        uint32_t need = kv_need(p->kv, slot, n, g), have = p->kv->group[g].n_free;
        if (need > have)
            prefix_evict(p, g, need - have);
    }
    return kv_reserve(p->kv, slot, n, e);
}

size_t prefix_bytes(const struct prefix *p)
{
    size_t n = 0;
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++)
        n += p->n_page[g] * kv_page_size(p->kv, g);
    return n;
}

/* ---- invariants ---- */

enum { NOT_SEEN = 0, FREE = UINT32_MAX };

struct check {
    const struct prefix *p;
    uint32_t *order;             /* [n_node + 1] place in the idle list, from 1; or FREE */
    uint32_t *pins;              /* [n_node + 1] as they should be */
    uint32_t *page[PLAN_GROUPS]; /* holders in the tree, [n_page] */
    uint32_t n_root, n_child;
};

static glim_status wrong(struct glim_err *e, uint32_t node, const char *have, const char *need)
{
    return err_set(e, GLIM_FAILED, "prefix cache: node %u: have %s, need %s", node, have, need);
}

static glim_status check_lists(struct check *c, struct glim_err *e)
{
    const struct prefix *p = c->p;
    uint32_t n = 0, older = 0, n_idle = 0;
    for (uint32_t i = p->free; i; i = p->node[i].chain, n++) {
        if (c->order[i])
            return wrong(e, i, "it among the free twice", "it there once");
        c->order[i] = FREE;
    }
    if (n != p->n_free)
        return wrong(e, 0, "another count of free nodes", "as many as the list has");
    n = 0;
    for (uint32_t i = p->idle.oldest; i; older = i, i = p->node[i].link[IDLE].newer) {
        if (c->order[i] || p->node[i].pins || p->node[i].link[IDLE].older != older)
            return wrong(e, i, "it among the idle", "a node without pins, once");
        c->order[i] = ++n;
        n_idle += p->node[i].n > 0;
    }
    if (older != p->idle.newest || n_idle != p->n_idle)
        return wrong(e, older, "another end or count of idle nodes", "those of the list");
    return GLIM_OK;
}

/* What a node is by itself and to its parent. */
static glim_status check_node(struct check *c, uint32_t i, struct glim_err *e)
{
    const struct prefix *p = c->p;
    const struct prefix_node *n = &p->node[i], *up = &p->node[n->parent];
    struct sha256 key;
    if (find(p, &n->key) != i)
        return wrong(e, i, "another node with its key", "one");
    if ((c->order[i] == NOT_SEEN) != (n->pins > 0))
        return wrong(e, i, "it idle or held", "what its pins say");
    if (n->parent == 0) {
        c->n_root++;
        return n->n == 0 && n->depth == 0 ? GLIM_OK : wrong(e, i, "a root with tokens", "none");
    }
    if (c->order[n->parent] == FREE || (up->parent && up->n != KV_PAGE) || n->depth != up->depth + 1)
        return wrong(e, i, "a parent it cannot follow", "a root or a whole page");
    if (n->n == 0 || n->n > KV_PAGE || (n->n < KV_PAGE && (n->child || n->pins)))
        return wrong(e, i, "a number of tokens that cannot be", "16, or fewer in an idle leaf");
    if (!key_of(p, n->parent, n->token, n->n, &key) || memcmp(&key, &n->key, sizeof key) != 0)
        return wrong(e, i, "another key", "that of its parent and tokens");
    if (n->pins == 0 && up->pins == 0 && c->order[i] > c->order[n->parent])
        return wrong(e, i, "a parent that goes first", "leaves to go first");
    if (n->pins)
        c->pins[n->parent]++;
    return GLIM_OK;
}

static glim_status check_children(struct check *c, uint32_t parent, struct glim_err *e)
{
    const struct prefix *p = c->p;
    uint32_t newer = 0;
    for (uint32_t i = p->node[parent].child; i; newer = i, i = p->node[i].sibling.older, c->n_child++)
        if (c->order[i] == FREE || p->node[i].parent != parent || p->node[i].sibling.newer != newer ||
            c->n_child > p->n_node)
            return wrong(e, i, "a place among other children", "one among its parent's");
    return GLIM_OK;
}

static glim_status check_pages(struct check *c, uint32_t g, struct glim_err *e)
{
    const struct prefix *p = c->p;
    uint32_t n_page = 0, n_listed = 0;
    for (uint32_t i = 1; i <= p->n_node; i++) {
        uint32_t page = p->node[i].page[g];
        if (c->order[i] == FREE)
            continue;
        if (p->node[i].n == 0 ? page != KV_NO_PAGE : page == KV_NO_PAGE && (int)g == p->full)
            return wrong(e, i, "a page in a root, or none in a node", "it the other way");
        if (page == KV_NO_PAGE)
            continue;
        if (c->page[g][kv_page_index(&p->kv->group[g], page)]++)
            return wrong(e, i, "a page of another node", "its own");
        n_page++;
    }
    if (n_page != p->n_page[g])
        return wrong(e, 0, "another count of pages", "as many as nodes have");
    for (uint32_t kept = 0; (int)g != p->full && kept < 2; kept++)
        for (uint32_t i = p->window[g][kept].oldest, older = 0; i; older = i, i = p->node[i].link[WINDOW + g].newer)
            if (c->order[i] == FREE || p->node[i].page[g] == KV_NO_PAGE || p->node[i].kept[g] != (bool)kept ||
                p->node[i].link[WINDOW + g].older != older || ++n_listed > n_page)
                return wrong(e, i, "a place in a list of window pages", "a page of that list");
    if ((int)g != p->full && n_listed != n_page)
        return wrong(e, 0, "window pages outside the lists", "none");
    return GLIM_OK;
}

static glim_status check_tree(struct check *c, const struct prefix_hold *hold, size_t n_hold, struct glim_err *e)
{
    const struct prefix *p = c->p;
    TRY(check_lists(c, e));
    for (size_t i = 0; i < n_hold; i++)
        c->pins[hold[i].tail]++;
    for (uint32_t i = 1; i <= p->n_node; i++)
        if (c->order[i] != FREE) {
            TRY(check_node(c, i, e));
            TRY(check_children(c, i, e));
        }
    if (c->n_root + c->n_child + p->n_free != p->n_node)
        return wrong(e, 0, "nodes that nobody reaches", "none");
    for (uint32_t i = 1; i <= p->n_node; i++)
        if (c->order[i] != FREE && p->node[i].pins != c->pins[i])
            return wrong(e, i, "other pins", "its holds and its children with pins");
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++)
        TRY(check_pages(c, g, e));
    return kv_check(p->kv, c->page, e);
}

glim_status prefix_check(const struct prefix *p, const struct prefix_hold *hold, size_t n_hold, struct glim_err *e)
{
    struct check c = {.p = p};
    bool room = true;
    c.order = mem_calloc(p->n_node + 1, sizeof *c.order);
    c.pins = mem_calloc(p->n_node + 1, sizeof *c.pins);
    for (uint32_t g = 0; g < p->kv->plan->n_group; g++) {
        c.page[g] = mem_calloc(p->kv->group[g].n_page, sizeof *c.page[g]);
        room = room && c.page[g];
    }
    glim_status st = room && c.order && c.pins ? check_tree(&c, hold, n_hold, e)
                                               : err_nomem(e, "prefix check", p->n_node * sizeof *c.order);
    mem_free(c.order);
    mem_free(c.pins);
    for (uint32_t g = 0; g < PLAN_GROUPS; g++)
        mem_free(c.page[g]);
    return st;
}
