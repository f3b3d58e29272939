/* Building, combining and shrinking automata.
 *
 * nfa_to_dfa is the subset construction: a deterministic state is the set of states one may be in. Only states that
 * matter later are kept in a set (those with an edge that takes a byte or waits for the end, and the last one). Edges
 * that need the start of the text are followed for the first set alone, which is why that set is never shared; edges
 * that need the end are followed when it is asked whether a set accepts.
 *
 * dfa_combine walks pairs of states. Both end in dfa_minimise: what cannot reach acceptance becomes dead, then
 * Hopcroft's partition refinement (n log n), then bytes that nothing tells apart are merged. */
#include "text/dfa.h"
#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

#define NONE UINT32_MAX

enum { SET_POOL_MAX = 1 << 22 }; /* numbers in all sets of one subset construction */

static _Thread_local uint64_t work;

uint64_t dfa_work(void)
{
    return work;
}

static glim_status too_large(struct glim_err *e)
{
    return err_set(e, GLIM_REFUSED, "automaton too large: have more than %d states or %d transitions, need fewer",
                   DFA_MAX_STATE, DFA_MAX_CELL);
}

static glim_status starved(struct glim_err *e)
{
    return err_nomem(e, "automaton", 0);
}

/* ---- deterministic ---- */

void dfa_free(struct dfa *d)
{
    if (d) {
        mem_free(d->next);
        mem_free(d->accept);
        mem_free(d);
    }
}

bool dfa_match(const struct dfa *d, const char *p, size_t n)
{
    uint32_t s = 1;
    for (size_t i = 0; i < n && s; i++)
        s = dfa_step(d, s, (uint8_t)p[i]);
    return dfa_accepts(d, s);
}

bool dfa_is_empty(const struct dfa *d)
{
    for (size_t i = 0; i <= d->n_state / 64; i++)
        if (d->accept[i])
            return false;
    return true;
}

glim_status dfa_new(struct dfa **out, size_t n_state, size_t n_class, struct glim_err *e)
{
    *out = NULL;
    if (n_state > DFA_MAX_STATE || n_state * n_class > DFA_MAX_CELL)
        return too_large(e);
    struct dfa *d = mem_calloc(1, sizeof *d);
    if (!d)
        return starved(e);
    d->n_state = (uint32_t)n_state;
    d->n_class = (uint32_t)n_class;
    d->next = mem_calloc(n_state * n_class, sizeof *d->next);
    d->accept = mem_calloc(n_state / 64 + 1, sizeof *d->accept);
    if (!d->next || !d->accept) {
        dfa_free(d);
        return starved(e);
    }
    *out = d;
    return GLIM_OK;
}

/* ---- minimisation ---- */

/* Work of one minimisation over n states and k classes. Blocks are runs of `elem`. */
struct refine {
    const struct dfa *d;
    uint32_t n, k;
    uint32_t *back_at; /* [n * k + 1] where the sources of (class, target) begin in back */
    uint32_t *back;    /* [n * k] */
    uint32_t *elem, *loc, *block_of;
    uint32_t *first, *last, *marked; /* [n] of a block: its run, and how many of it are marked */
    uint32_t *due, *touched, *copy;  /* [n] */
    uint8_t *queued;
    uint32_t n_block, n_due;
};

static bool refine_alloc(struct refine *r)
{
    size_t n = r->n, cells = n * r->k;
    uint32_t **list[] = {&r->elem,   &r->loc, &r->block_of, &r->first, &r->last,
                         &r->marked, &r->due, &r->touched,  &r->copy};
    r->back_at = mem_calloc(cells + 2, sizeof *r->back_at);
    r->back = mem_alloc(cells * sizeof *r->back);
    r->queued = mem_calloc(n, 1);
    bool ok = r->back_at && r->back && r->queued;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        ok = (*list[i] = mem_calloc(n, sizeof **list[i])) && ok;
    return ok;
}

static void refine_free(struct refine *r)
{
    uint32_t *list[] = {r->back_at, r->back,   r->elem, r->loc,     r->block_of, r->first,
                        r->last,    r->marked, r->due,  r->touched, r->copy};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        mem_free(list[i]);
    mem_free(r->queued);
}

static void back_edges(struct refine *r)
{
    const struct dfa *d = r->d;
    for (uint32_t s = 0; s < r->n; s++)
        for (uint32_t c = 0; c < r->k; c++)
            r->back_at[c * r->n + d->next[s * r->k + c] + 2]++;
    for (size_t i = 2; i < (size_t)r->n * r->k + 2; i++)
        r->back_at[i] += r->back_at[i - 1];
    for (uint32_t s = 0; s < r->n; s++)
        for (uint32_t c = 0; c < r->k; c++)
            r->back[r->back_at[c * r->n + d->next[s * r->k + c] + 1]++] = s;
}

/* Point every transition to a state that cannot reach acceptance at 0. */
static void drop_dead_ends(struct refine *r, struct dfa *d)
{
    uint32_t n_due = 0;
    uint8_t *alive = r->queued;
    for (uint32_t s = 1; s < r->n; s++)
        if (dfa_accepts(d, s)) {
            alive[s] = 1;
            r->due[n_due++] = s;
        }
    while (n_due) {
        uint32_t t = r->due[--n_due];
        for (uint32_t c = 0; c < r->k; c++)
            for (uint32_t i = r->back_at[c * r->n + t]; i < r->back_at[c * r->n + t + 1]; i++)
                if (!alive[r->back[i]]) {
                    alive[r->back[i]] = 1;
                    r->due[n_due++] = r->back[i];
                }
    }
    for (size_t s = 0; s < r->n; s++)
        for (size_t c = 0; c < r->k; c++) {
            uint32_t *to = &d->next[s * r->k + c];
            *to = alive[s] && alive[*to] ? *to : 0;
        }
    memset(r->queued, 0, r->n);
    memset(r->back_at, 0, ((size_t)r->n * r->k + 2) * sizeof *r->back_at);
    back_edges(r);
}

static void add_block(struct refine *r, uint32_t first, uint32_t last)
{
    uint32_t b = r->n_block++;
    r->first[b] = first;
    r->last[b] = last;
    for (uint32_t i = first; i < last; i++)
        r->block_of[r->elem[i]] = b;
}

static void queue_block(struct refine *r, uint32_t b)
{
    if (!r->queued[b]) {
        r->queued[b] = 1;
        r->due[r->n_due++] = b;
    }
}

/* Move s into the marked front part of its block. */
static uint32_t mark(struct refine *r, uint32_t s, uint32_t n_touched)
{
    uint32_t b = r->block_of[s], at = r->first[b] + r->marked[b];
    if (r->loc[s] < at)
        return n_touched;
    uint32_t other = r->elem[at], from = r->loc[s];
    r->elem[at] = s;
    r->loc[s] = at;
    r->elem[from] = other;
    r->loc[other] = from;
    if (!r->marked[b]++)
        r->touched[n_touched++] = b;
    return n_touched;
}

static void split_touched(struct refine *r, uint32_t n_touched)
{
    for (uint32_t i = 0; i < n_touched; i++) {
        uint32_t b = r->touched[i], m = r->marked[b], first = r->first[b];
        r->marked[b] = 0;
        if (m == r->last[b] - first)
            continue;
        uint32_t fresh = r->n_block;
        bool front_smaller = m * 2 <= r->last[b] - first;
        if (front_smaller) {
            r->first[b] = first + m;
            add_block(r, first, first + m);
        } else {
            uint32_t last = r->last[b];
            r->last[b] = first + m;
            add_block(r, first + m, last);
        }
        queue_block(r, fresh); /* the new block is the smaller part; b stays queued if it was */
    }
}

static void refine_all(struct refine *r)
{
    uint32_t n_yes = 0;
    for (uint32_t s = 0; s < r->n; s++) /* accepting states first */
        if (dfa_accepts(r->d, s))
            r->elem[n_yes++] = s;
    for (uint32_t s = 0, at = n_yes; s < r->n; s++)
        if (!dfa_accepts(r->d, s))
            r->elem[at++] = s;
    for (uint32_t i = 0; i < r->n; i++)
        r->loc[r->elem[i]] = i;
    if (n_yes)
        add_block(r, 0, n_yes);
    add_block(r, n_yes, r->n);
    for (uint32_t b = 0; b < r->n_block; b++)
        queue_block(r, b);
    while (r->n_due) {
        uint32_t b = r->due[--r->n_due], n = r->last[b] - r->first[b];
        r->queued[b] = 0;
        memcpy(r->copy, r->elem + r->first[b], n * sizeof *r->copy);
        for (uint32_t c = 0; c < r->k; c++) {
            uint32_t n_touched = 0;
            for (uint32_t i = 0; i < n; i++) {
                uint32_t t = c * r->n + r->copy[i];
                for (uint32_t j = r->back_at[t]; j < r->back_at[t + 1]; j++)
                    n_touched = mark(r, r->back[j], n_touched);
            }
            split_touched(r, n_touched);
        }
    }
}

/* The blocks as an automaton: dead first, then the start. */
static glim_status rebuild(const struct refine *r, struct dfa **out, struct glim_err *e)
{
    const struct dfa *d = r->d;
    uint32_t dead = r->block_of[0], start = r->block_of[1], *number = r->copy, n = 2;
    for (uint32_t b = 0; b < r->n_block; b++)
        number[b] = b == dead ? 0 : b == start ? 1 : n++;
    TRY(dfa_new(out, n, r->k, e));
    memcpy((*out)->cls, d->cls, sizeof d->cls);
    if (start == dead)
        return GLIM_OK;
    for (uint32_t b = 0; b < r->n_block; b++) {
        uint32_t s = r->elem[r->first[b]], to = number[b];
        for (uint32_t c = 0; c < r->k; c++)
            (*out)->next[to * r->k + c] = number[r->block_of[d->next[s * r->k + c]]];
        if (dfa_accepts(d, s))
            dfa_set_accept(*out, to);
    }
    return GLIM_OK;
}

static uint64_t column_hash(const struct dfa *d, uint32_t c)
{
    uint64_t h = 1469598103934665603u;
    for (size_t s = 0; s < d->n_state; s++)
        h = (h ^ d->next[s * d->n_class + c]) * 1099511628211u;
    return h;
}

static bool same_column(const struct dfa *d, uint32_t a, uint32_t b)
{
    for (size_t s = 0; s < d->n_state; s++)
        if (d->next[s * d->n_class + a] != d->next[s * d->n_class + b])
            return false;
    return true;
}

/* Classes with equal transitions become one. */
static void merge_classes(struct dfa *d)
{
    uint64_t hash[256];
    uint32_t rep[256], number[256], n = 0;
    for (uint32_t c = 0; c < d->n_class; c++) {
        hash[c] = column_hash(d, c);
        uint32_t i = 0;
        while (i < n && (hash[rep[i]] != hash[c] || !same_column(d, rep[i], c)))
            i++;
        if (i == n)
            rep[n++] = c;
        number[c] = i;
    }
    if (n == d->n_class)
        return;
    for (size_t s = 0; s < d->n_state; s++)
        for (uint32_t i = 0; i < n; i++)
            d->next[s * n + i] = d->next[s * d->n_class + rep[i]]; /* rep ascends: never overtakes what is read */
    for (int b = 0; b < 256; b++)
        d->cls[b] = (uint8_t)number[d->cls[b]];
    d->n_class = n;
}

glim_status dfa_minimise(struct dfa **d, struct glim_err *e)
{
    struct refine r = {.d = *d, .n = (*d)->n_state, .k = (*d)->n_class};
    struct dfa *small = NULL;
    glim_status st = starved(e);
    work += (uint64_t)r.n * r.k;
    if (refine_alloc(&r)) {
        back_edges(&r);
        drop_dead_ends(&r, *d);
        refine_all(&r);
        st = rebuild(&r, &small, e);
    }
    refine_free(&r);
    dfa_free(*d);
    *d = small;
    if (st == GLIM_OK)
        merge_classes(small);
    return st;
}

/* ---- pairs ---- */

/* Numbers for things by hash: open addressing, slots hold a number + 1. */
struct numbers {
    uint32_t *slot;
    size_t mask, n;
};

static bool numbers_grow(struct numbers *t, const uint64_t *hash)
{
    if (t->slot && t->n * 2 <= t->mask)
        return true;
    size_t n_slot = t->slot ? (t->mask + 1) * 2 : 64;
    uint32_t *slot = mem_calloc(n_slot, sizeof *slot);
    if (!slot)
        return false;
    mem_free(t->slot);
    t->slot = slot;
    t->mask = n_slot - 1;
    for (size_t i = 0; i < t->n; i++) {
        size_t at = hash[i] & t->mask;
        while (slot[at])
            at = (at + 1) & t->mask;
        slot[at] = (uint32_t)i + 1;
    }
    return true;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

struct pairs {
    const struct dfa *a, *b;
    enum dfa_op op;
    uint8_t of_a[256], of_b[256]; /* classes of a and b in each common class */
    uint8_t cls[256];
    uint32_t n_class;
    uint64_t *pair, *hash; /* [cap] state of a << 32 | state of b */
    uint32_t *next;        /* [cap * n_class] */
    size_t n, cap;         /* n counts from state 1 on: pair[0] is the dead one */
    struct numbers known;
};

static void common_classes(struct pairs *p)
{
    for (int i = 0; i < 256; i++) {
        uint32_t c = 0;
        while (c < p->n_class && (p->of_a[c] != p->a->cls[i] || p->of_b[c] != p->b->cls[i]))
            c++;
        if (c == p->n_class) {
            p->of_a[c] = p->a->cls[i];
            p->of_b[c] = p->b->cls[i];
            p->n_class++;
        }
        p->cls[i] = (uint8_t)c;
    }
}

static bool pairs_grow(struct pairs *p)
{
    if (p->n < p->cap)
        return true;
    size_t cap = p->cap ? p->cap * 2 : 64;
    uint64_t *pair = mem_realloc(p->pair, cap * sizeof *pair);
    if (pair)
        p->pair = pair;
    uint64_t *hash = mem_realloc(p->hash, cap * sizeof *hash);
    if (hash)
        p->hash = hash;
    uint32_t *next = mem_realloc(p->next, cap * p->n_class * sizeof *next);
    if (next)
        p->next = next;
    if (!pair || !hash || !next)
        return false;
    p->cap = cap;
    return true;
}

/* The number of a pair, a new one if need be. */
static glim_status pair_number(struct pairs *p, uint32_t a, uint32_t b, uint32_t *out, struct glim_err *e)
{
    uint64_t key = (uint64_t)a << 32 | b, h = mix(key);
    bool dead = p->op == DFA_AND ? !a || !b : p->op == DFA_OR ? !a && !b : !a;
    *out = 0;
    if (dead)
        return GLIM_OK;
    if (!pairs_grow(p) || !numbers_grow(&p->known, p->hash))
        return starved(e);
    size_t at = h & p->known.mask;
    for (; p->known.slot[at]; at = (at + 1) & p->known.mask)
        if (p->pair[p->known.slot[at] - 1] == key) {
            *out = p->known.slot[at];
            return GLIM_OK;
        }
    if (p->n + 2 > DFA_MAX_STATE || (p->n + 2) * p->n_class > DFA_MAX_CELL)
        return too_large(e);
    p->pair[p->n] = key;
    p->hash[p->n] = h;
    *out = p->known.slot[at] = (uint32_t)++p->n;
    p->known.n = p->n;
    return GLIM_OK;
}

static glim_status walk_pairs(struct pairs *p, struct glim_err *e)
{
    uint32_t first;
    TRY(pair_number(p, 1, 1, &first, e));
    for (size_t i = 0; i < p->n; i++) {
        uint32_t a = (uint32_t)(p->pair[i] >> 32), b = (uint32_t)p->pair[i], to;
        for (uint32_t c = 0; c < p->n_class; c++) {
            TRY(pair_number(p, p->a->next[a * p->a->n_class + p->of_a[c]], p->b->next[b * p->b->n_class + p->of_b[c]],
                            &to, e));
            p->next[i * p->n_class + c] = to;
        }
    }
    return GLIM_OK;
}

static glim_status pairs_to_dfa(const struct pairs *p, struct dfa **out, struct glim_err *e)
{
    TRY(dfa_new(out, p->n + 1, p->n_class, e));
    memcpy((*out)->cls, p->cls, sizeof p->cls);
    memcpy((*out)->next + p->n_class, p->next, p->n * p->n_class * sizeof *p->next);
    for (size_t i = 0; i < p->n; i++) {
        bool a = dfa_accepts(p->a, (uint32_t)(p->pair[i] >> 32)), b = dfa_accepts(p->b, (uint32_t)p->pair[i]);
        if (p->op == DFA_AND ? a && b : p->op == DFA_OR ? a || b : a && !b)
            dfa_set_accept(*out, (uint32_t)i + 1);
    }
    return dfa_minimise(out, e);
}

glim_status dfa_combine(struct dfa **out, const struct dfa *a, enum dfa_op op, const struct dfa *b, struct glim_err *e)
{
    struct pairs p = {.a = a, .b = b, .op = op};
    *out = NULL;
    common_classes(&p);
    glim_status st = walk_pairs(&p, e);
    if (st == GLIM_OK)
        st = pairs_to_dfa(&p, out, e);
    mem_free(p.pair);
    mem_free(p.hash);
    mem_free(p.next);
    mem_free(p.known.slot);
    return st;
}

/* ---- nondeterministic ---- */

uint32_t nfa_state(struct nfa *a)
{
    if (a->no_memory || a->too_large)
        return 0;
    if (a->n_state >= NFA_MAX_STATE) {
        a->too_large = true;
        return 0;
    }
    if (!mem_grow((void **)&a->first, &a->cap_state, a->n_state, sizeof *a->first)) {
        a->no_memory = true;
        return 0;
    }
    a->first[a->n_state] = NONE;
    return (uint32_t)a->n_state++;
}

static void add_edge(struct nfa *a, uint32_t from, struct nfa_edge edge)
{
    if (a->no_memory || a->too_large)
        return;
    if (a->n_edge >= NFA_MAX_STATE)
        a->too_large = true;
    else if (!mem_grow((void **)&a->edge, &a->cap_edge, a->n_edge, sizeof *a->edge))
        a->no_memory = true;
    else {
        edge.next = a->first[from];
        a->first[from] = (uint32_t)a->n_edge;
        a->edge[a->n_edge++] = edge;
    }
}

void nfa_bytes(struct nfa *a, uint32_t from, uint32_t to, uint8_t lo, uint8_t hi)
{
    add_edge(a, from, (struct nfa_edge){.to = to, .lo = lo, .hi = hi});
}

void nfa_empty(struct nfa *a, uint32_t from, uint32_t to, enum nfa_when when)
{
    add_edge(a, from, (struct nfa_edge){.to = to, .lo = (uint8_t)when, .empty = 1});
}

void nfa_dfa(struct nfa *a, uint32_t from, uint32_t to, const struct dfa *d)
{
    uint32_t base = 0;
    for (uint32_t s = 1; s < d->n_state; s++) {
        uint32_t q = nfa_state(a);
        base = s == 1 ? q : base;
    }
    if (a->no_memory || a->too_large)
        return;
    nfa_empty(a, from, base, NFA_ALWAYS);
    for (uint32_t s = 1; s < d->n_state; s++) {
        for (int lo = 0, hi; lo < 256; lo = hi + 1) {
            uint32_t t = dfa_step(d, s, (uint8_t)lo);
            for (hi = lo; hi < 255 && dfa_step(d, s, (uint8_t)(hi + 1)) == t;)
                hi++;
            if (t)
                nfa_bytes(a, base + s - 1, base + t - 1, (uint8_t)lo, (uint8_t)hi);
        }
        if (dfa_accepts(d, s))
            nfa_empty(a, base + s - 1, to, NFA_ALWAYS);
    }
}

void nfa_fini(struct nfa *a)
{
    mem_free(a->first);
    mem_free(a->edge);
    *a = (struct nfa){0};
}

/* ---- the subset construction ---- */

struct subset {
    const struct nfa *a;
    uint32_t last;           /* where a word must arrive */
    uint32_t *seen, stamp;   /* [n_state] == stamp: in the set being made */
    uint32_t *stack, *fresh; /* [n_state] */
    size_t n_fresh;
    uint32_t *pool; /* the sets, one after another, ascending */
    size_t n_pool, cap_pool;
    size_t *at; /* [n + 1] where a set begins; set i is state i + 1 */
    uint64_t *hash;
    uint32_t *next;
    uint8_t *accept;
    size_t n, cap;
    struct numbers known;
    uint8_t cls[256], low[256]; /* class of a byte; lowest byte of a class */
    uint32_t n_class;
};

static void byte_classes(struct subset *s)
{
    bool cut[257] = {true};
    for (size_t i = 0; i < s->a->n_edge; i++)
        if (!s->a->edge[i].empty)
            cut[s->a->edge[i].lo] = cut[s->a->edge[i].hi + 1] = true;
    for (int b = 0; b < 256; b++) {
        if (cut[b])
            s->low[s->n_class++] = (uint8_t)b;
        s->cls[b] = (uint8_t)(s->n_class - 1);
    }
}

/* Does this state have to stay in a set? */
static bool matters(const struct subset *s, uint32_t q)
{
    if (q == s->last)
        return true;
    for (uint32_t i = s->a->first[q]; i != NONE; i = s->a->edge[i].next)
        if (!s->a->edge[i].empty || s->a->edge[i].lo == NFA_AT_END)
            return true;
    return false;
}

/* Add q and what it reaches without a byte to `fresh`. */
static void close_over(struct subset *s, uint32_t q, bool at_start, bool at_end)
{
    size_t n = 0;
    if (s->seen[q] == s->stamp)
        return;
    s->seen[q] = s->stamp;
    s->stack[n++] = q;
    while (n) {
        q = s->stack[--n];
        if (at_end || matters(s, q))
            s->fresh[s->n_fresh++] = q;
        for (uint32_t i = s->a->first[q]; i != NONE; i = s->a->edge[i].next) {
            const struct nfa_edge *x = &s->a->edge[i];
            bool open = x->empty && (x->lo == NFA_ALWAYS || (x->lo == NFA_AT_START ? at_start : at_end));
            if (open && s->seen[x->to] != s->stamp) {
                s->seen[x->to] = s->stamp;
                s->stack[n++] = x->to;
            }
        }
    }
}

static void begin_set(struct subset *s)
{
    s->stamp++;
    s->n_fresh = 0;
}

/* Ascending order by Shell's method: sets are short, and nearly sorted when they are not. */
static void sort(uint32_t *v, size_t n)
{
    size_t gap = 1;
    while (gap < n / 3)
        gap = gap * 3 + 1;
    for (; gap; gap /= 3)
        for (size_t i = gap; i < n; i++) {
            uint32_t x = v[i];
            size_t j = i;
            for (; j >= gap && v[j - gap] > x; j -= gap)
                v[j] = v[j - gap];
            v[j] = x;
        }
}

static bool subset_grow(struct subset *s)
{
    if (s->n < s->cap)
        return true;
    size_t cap = s->cap ? s->cap * 2 : 64;
    size_t *at = mem_realloc(s->at, (cap + 1) * sizeof *at);
    s->at = at ? at : s->at;
    uint64_t *hash = mem_realloc(s->hash, cap * sizeof *hash);
    s->hash = hash ? hash : s->hash;
    uint32_t *next = mem_realloc(s->next, cap * s->n_class * sizeof *next);
    s->next = next ? next : s->next;
    uint8_t *accept = mem_realloc(s->accept, cap);
    s->accept = accept ? accept : s->accept;
    if (!at || !hash || !next || !accept)
        return false;
    s->cap = cap;
    s->at[0] = 0;
    return true;
}

static bool pool_grow(struct subset *s)
{
    size_t cap = s->cap_pool ? s->cap_pool : 256;
    while (cap < s->n_pool + s->n_fresh)
        cap *= 2;
    if (cap == s->cap_pool)
        return true;
    uint32_t *pool = mem_realloc(s->pool, cap * sizeof *pool);
    if (!pool)
        return false;
    s->pool = pool;
    s->cap_pool = cap;
    return true;
}

/* Can a word end in this set? Spoils `fresh`. */
static bool set_accepts(struct subset *s, const uint32_t *set, size_t n, bool at_start)
{
    begin_set(s);
    for (size_t i = 0; i < n; i++)
        close_over(s, set[i], at_start, true);
    return s->seen[s->last] == s->stamp;
}

/* The number of the set in `fresh`; 0 for the empty set. */
static glim_status set_number(struct subset *s, bool at_start, uint32_t *out, struct glim_err *e)
{
    *out = 0;
    if (!s->n_fresh)
        return GLIM_OK;
    sort(s->fresh, s->n_fresh);
    uint64_t h = at_start ? 0 : xxh3(s->fresh, s->n_fresh * sizeof *s->fresh);
    if (!subset_grow(s) || !pool_grow(s) || !numbers_grow(&s->known, s->hash))
        return starved(e);
    size_t slot = h & s->known.mask;
    for (; s->known.slot[slot]; slot = (slot + 1) & s->known.mask) {
        uint32_t i = s->known.slot[slot] - 1;
        if (i && s->hash[i] == h && s->at[i + 1] - s->at[i] == s->n_fresh &&
            memcmp(s->pool + s->at[i], s->fresh, s->n_fresh * sizeof *s->fresh) == 0) {
            *out = i + 1;
            return GLIM_OK;
        }
    }
    if (s->n + 2 > DFA_MAX_STATE || (s->n + 2) * s->n_class > DFA_MAX_CELL || s->n_pool + s->n_fresh > SET_POOL_MAX)
        return too_large(e);
    memcpy(s->pool + s->n_pool, s->fresh, s->n_fresh * sizeof *s->fresh);
    s->n_pool += s->n_fresh;
    s->hash[s->n] = h;
    s->known.slot[slot] = (uint32_t)++s->n;
    s->known.n = s->n;
    s->at[s->n] = s->n_pool;
    *out = (uint32_t)s->n;
    s->accept[s->n - 1] = set_accepts(s, s->pool + s->at[s->n - 1], s->at[s->n] - s->at[s->n - 1], at_start);
    return GLIM_OK;
}

/* Where set i goes by each class. Neighbouring classes with the same edges share the work. */
static glim_status set_steps(struct subset *s, size_t i, struct glim_err *e)
{
    bool change[257] = {true};
    for (size_t j = s->at[i]; j < s->at[i + 1]; j++)
        for (uint32_t k = s->a->first[s->pool[j]]; k != NONE; k = s->a->edge[k].next)
            if (!s->a->edge[k].empty)
                change[s->cls[s->a->edge[k].lo]] = change[s->cls[s->a->edge[k].hi] + 1] = true;
    for (uint32_t c = 0; c < s->n_class; c++) {
        uint32_t to;
        if (!change[c]) {
            s->next[i * s->n_class + c] = s->next[i * s->n_class + c - 1];
            continue;
        }
        begin_set(s);
        work += s->at[i + 1] - s->at[i];
        for (size_t j = s->at[i]; j < s->at[i + 1]; j++)
            for (uint32_t k = s->a->first[s->pool[j]]; k != NONE; k = s->a->edge[k].next) {
                const struct nfa_edge *x = &s->a->edge[k];
                if (!x->empty && x->lo <= s->low[c] && s->low[c] <= x->hi)
                    close_over(s, x->to, false, false);
            }
        TRY(set_number(s, false, &to, e));
        s->next[i * s->n_class + c] = to;
    }
    return GLIM_OK;
}

static glim_status subset_run(struct subset *s, uint32_t first, struct dfa **out, struct glim_err *e)
{
    uint32_t start;
    size_t n = s->a->n_state;
    s->seen = mem_calloc(n, sizeof *s->seen);
    s->stack = mem_alloc(n * sizeof *s->stack);
    s->fresh = mem_alloc(n * sizeof *s->fresh);
    if (!s->seen || !s->stack || !s->fresh)
        return starved(e);
    byte_classes(s);
    begin_set(s);
    close_over(s, first, true, false);
    TRY(set_number(s, true, &start, e));
    for (size_t i = 0; i < s->n; i++)
        TRY(set_steps(s, i, e));
    TRY(dfa_new(out, (s->n ? s->n : 1) + 1, s->n_class, e));
    memcpy((*out)->cls, s->cls, sizeof s->cls);
    if (s->n)
        memcpy((*out)->next + s->n_class, s->next, s->n * s->n_class * sizeof *s->next);
    for (size_t i = 0; i < s->n; i++)
        if (s->accept[i])
            dfa_set_accept(*out, (uint32_t)i + 1);
    return dfa_minimise(out, e);
}

glim_status nfa_to_dfa(struct dfa **out, const struct nfa *a, struct nfa_frag f, struct glim_err *e)
{
    struct subset s = {.a = a, .last = f.out};
    *out = NULL;
    if (a->no_memory)
        return starved(e);
    if (a->too_large)
        return too_large(e);
    glim_status st = subset_run(&s, f.in, out, e);
    void *list[] = {s.seen, s.stack, s.fresh, s.pool, s.at, s.hash, s.next, s.accept, s.known.slot};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        mem_free(list[i]);
    return st;
}
