/* The builder: nodes of a grammar as its callers put them together.
 *
 * Equal nodes are found by hash and become one, so that a part that is written twice is compiled once. */
#include "text/grammar_impl.h"

#include "base/arith.h"
#include "base/hash.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct grammar_limits grammar_limits_default = {
    .n_node = 1 << 22, .n_state = 1 << 22, .depth = 2000, .bytes = (size_t)128 << 20};

enum { LAST_CODE = 0x10FFFF, FIRST_SURROGATE = 0xD800, LAST_SURROGATE = 0xDFFF };

grammar_node g_fail(struct grammar_builder *b, glim_status s, const char *fmt, ...)
{
    if (b->err.status != GLIM_OK)
        return 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b->err.message, sizeof b->err.message, fmt, ap);
    va_end(ap);
    b->err.status = s;
    return 0;
}

static grammar_node no_memory(struct grammar_builder *b)
{
    return g_fail(b, GLIM_FAILED, "out of memory: grammar");
}

static bool ok(const struct grammar_builder *b)
{
    return b->err.status == GLIM_OK;
}

static grammar_node too_large(struct grammar_builder *b)
{
    return g_fail(b, GLIM_REFUSED, "grammar: have more than %u nodes, rules and bytes of text, need fewer",
                  b->limits.n_node);
}

static bool full(const struct grammar_builder *b, size_t more)
{
    return b->n_node + b->n_rule + b->n_data + b->n_text + more > b->limits.n_node;
}

glim_status grammar_builder_create(struct grammar_builder **out, const struct grammar_limits *limits,
                                   struct glim_err *e)
{
    struct grammar_builder *b = mem_calloc(1, sizeof *b);
    *out = NULL;
    if (!b)
        return err_nomem(e, "grammar", sizeof *b);
    b->limits = limits ? *limits : grammar_limits_default;
    if (!mem_grow((void **)&b->node, &b->cap_node, 0, sizeof *b->node)) {
        mem_free(b);
        return err_nomem(e, "grammar", sizeof *b->node);
    }
    b->node[b->n_node++] = (struct g_node){.kind = G_EMPTY};
    *out = b;
    return GLIM_OK;
}

void grammar_builder_free(struct grammar_builder *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n_dfa; i++)
        g_dfa_free(b->dfa[i]);
    mem_free(b->node);
    mem_free(b->data);
    mem_free(b->text);
    mem_free(b->rule);
    mem_free(b->dfa);
    mem_free(b->slot.slot);
    mem_free(b->slot_rule.slot);
    mem_free(b->slot_dfa.slot);
    mem_free(b);
}

/* ---- hash tables of numbers ---- */

static bool table_double(struct g_table *t)
{
    size_t cap = t->cap ? t->cap * 2 : 64;
    struct g_slot *slot = mem_calloc(cap, sizeof *slot);
    if (!slot)
        return false;
    for (size_t i = 0; i < t->cap; i++) {
        if (t->slot[i].number == 0)
            continue;
        size_t k = t->slot[i].hash & (cap - 1);
        while (slot[k].number)
            k = (k + 1) & (cap - 1);
        slot[k] = t->slot[i];
    }
    mem_free(t->slot);
    t->slot = slot;
    t->cap = cap;
    return true;
}

bool g_table_room(struct g_table *t)
{
    return t->n * 4 < t->cap * 3 || table_double(t);
}

struct g_slot *g_table_first(const struct g_table *t, uint64_t hash)
{
    struct g_slot *s = &t->slot[hash & (t->cap - 1)];
    return s->number == 0 || s->hash == hash ? s : g_table_next(t, s, hash);
}

struct g_slot *g_table_next(const struct g_table *t, struct g_slot *s, uint64_t hash)
{
    do
        s = &t->slot[((size_t)(s - t->slot) + 1) & (t->cap - 1)];
    while (s->number != 0 && s->hash != hash);
    return s;
}

void g_table_put(struct g_table *t, struct g_slot *s, uint64_t hash, uint32_t number)
{
    *s = (struct g_slot){hash, number};
    t->n++;
}

/* ---- nodes ---- */

static const void *content(const struct grammar_builder *b, const struct g_node *x, size_t *n)
{
    bool text = x->kind == G_TEXT;
    *n = x->kind == G_DFA || x->kind == G_REF ? 0 : text ? x->n : x->n * sizeof *b->data;
    if (*n == 0)
        return NULL;
    return text ? (const void *)(b->text + x->first) : (const void *)(b->data + x->first);
}

static bool same_node(const struct grammar_builder *b, const struct g_node *x, const struct g_node *y)
{
    size_t n, n_y;
    if (x->kind != y->kind || x->n != y->n || x->min != y->min || x->max != y->max)
        return false;
    const void *p = content(b, x, &n), *q = content(b, y, &n_y);
    return n == 0 || memcmp(p, q, n) == 0;
}

/* The node x, whose content lies at the end of text or data; where there is one like it, that, and the content goes. */
static grammar_node node_add(struct grammar_builder *b, struct g_node x)
{
    size_t n;
    if (!g_table_room(&b->slot) || !mem_grow((void **)&b->node, &b->cap_node, b->n_node, sizeof *b->node))
        return no_memory(b);
    uint32_t head[4] = {x.kind, x.n, x.min, x.max};
    const void *p = content(b, &x, &n);
    uint64_t hash = xxh3(head, sizeof head) * 31 + (n ? xxh3(p, n) : 0);
    struct g_slot *s = g_table_first(&b->slot, hash);
    for (; s->number; s = g_table_next(&b->slot, s, hash)) {
        if (!same_node(b, &b->node[s->number], &x))
            continue;
        if (n > 0 && x.kind == G_TEXT)
            b->n_text -= n;
        else
            b->n_data -= n / sizeof *b->data;
        return s->number;
    }
    if (full(b, 1))
        return too_large(b);
    g_table_put(&b->slot, s, hash, (uint32_t)b->n_node);
    b->node[b->n_node] = x;
    return (grammar_node)b->n_node++;
}

static bool text_add(struct grammar_builder *b, const void *p, size_t n)
{
    if (n > b->limits.n_node || full(b, n))
        return too_large(b);
    if (b->n_text + n > b->cap_text) {
        size_t cap = (b->n_text + n) * 2;
        char *text = mem_realloc(b->text, cap);
        if (!text)
            return no_memory(b);
        b->text = text;
        b->cap_text = cap;
    }
    if (n > 0)
        memcpy(b->text + b->n_text, p, n);
    b->n_text += n;
    return true;
}

static bool data_add(struct grammar_builder *b, uint32_t v)
{
    if (full(b, 1))
        return too_large(b);
    if (!mem_grow((void **)&b->data, &b->cap_data, b->n_data, sizeof *b->data))
        return no_memory(b);
    b->data[b->n_data++] = v;
    return true;
}

grammar_node grammar_text(struct grammar_builder *b, const void *p, size_t n)
{
    if (!ok(b))
        return 0;
    if (n == 0)
        return node_add(b, (struct g_node){.kind = G_EMPTY});
    if (!text_add(b, p, n))
        return 0;
    return node_add(b, (struct g_node){.kind = G_TEXT, .first = (uint32_t)(b->n_text - n), .n = (uint32_t)n});
}

static int by_first(const void *x, const void *y)
{
    const struct code_range *a = x, *b = y;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Append [first, last] without the surrogates. */
static bool range_add(struct grammar_builder *b, uint32_t first, uint32_t last)
{
    if (first < FIRST_SURROGATE && last >= FIRST_SURROGATE)
        return range_add(b, first, FIRST_SURROGATE - 1) && range_add(b, FIRST_SURROGATE, last);
    if (first >= FIRST_SURROGATE && first <= LAST_SURROGATE)
        first = LAST_SURROGATE + 1;
    return first > last || (data_add(b, first) && data_add(b, last));
}

/* Append the sorted ranges, merged, or what lies between them. */
static bool ranges_add(struct grammar_builder *b, const struct code_range *r, size_t n, bool negated)
{
    uint32_t from = 0; /* negated: the first code point that no range has covered */
    for (size_t i = 0; i < n;) {
        uint32_t first = r[i].first, last = r[i].last;
        for (i++; i < n && r[i].first <= last + 1; i++)
            last = r[i].last > last ? r[i].last : last;
        if (!negated && !range_add(b, first, last))
            return false;
        if (negated && first > from && !range_add(b, from, first - 1))
            return false;
        from = last + 1;
    }
    return !negated || from > LAST_CODE || range_add(b, from, LAST_CODE);
}

grammar_node grammar_class(struct grammar_builder *b, const struct code_range *r, size_t n, bool negated)
{
    if (!ok(b))
        return 0;
    if (n > b->limits.n_node)
        return too_large(b);
    for (size_t i = 0; i < n; i++)
        if (r[i].first > r[i].last || r[i].last > LAST_CODE)
            return g_fail(b, GLIM_USAGE, "grammar: character range: have U+%04X to U+%04X, need ascending code points",
                          r[i].first, r[i].last);
    struct code_range *sorted = mem_alloc(n * sizeof *r);
    if (!sorted)
        return no_memory(b);
    if (n > 0)
        memcpy(sorted, r, n * sizeof *r);
    qsort(sorted, n, sizeof *sorted, by_first);
    size_t first = b->n_data;
    bool done = ranges_add(b, sorted, n, negated);
    mem_free(sorted);
    if (!done)
        return 0;
    return node_add(b, (struct g_node){.kind = G_CLASS, .first = (uint32_t)first, .n = (uint32_t)(b->n_data - first)});
}

static bool is_node(struct grammar_builder *b, grammar_node x)
{
    if (x != 0 && x < b->n_node)
        return true;
    return g_fail(b, GLIM_USAGE, "grammar: node: have %u, need one of this builder", x);
}

/* A node over n children. */
static grammar_node parent_add(struct grammar_builder *b, struct g_node x, const grammar_node *child, size_t n)
{
    size_t first = b->n_data;
    for (size_t i = 0; i < n; i++) {
        if (!is_node(b, child[i]) || !data_add(b, child[i]))
            return 0;
        if (b->node[child[i]].depth >= x.depth)
            x.depth = (uint16_t)(b->node[child[i]].depth + 1);
    }
    if (x.depth > b->limits.depth || x.depth > UINT16_MAX - 1)
        return g_fail(b, GLIM_REFUSED, "grammar: nesting: have more than %u, need less", b->limits.depth);
    x.first = (uint32_t)first;
    x.n = (uint32_t)n;
    return node_add(b, x);
}

grammar_node grammar_seq(struct grammar_builder *b, const grammar_node *node, size_t n)
{
    if (!ok(b))
        return 0;
    if (n == 0)
        return grammar_text(b, "", 0);
    if (n == 1)
        return is_node(b, node[0]) ? node[0] : 0;
    return parent_add(b, (struct g_node){.kind = G_SEQ}, node, n);
}

grammar_node grammar_alt(struct grammar_builder *b, const grammar_node *node, size_t n)
{
    if (!ok(b))
        return 0;
    if (n == 1)
        return is_node(b, node[0]) ? node[0] : 0;
    return parent_add(b, (struct g_node){.kind = G_ALT}, node, n);
}

grammar_node grammar_repeat(struct grammar_builder *b, grammar_node node, uint32_t min, uint32_t max)
{
    if (!ok(b) || !is_node(b, node))
        return 0;
    if (min > max || min == GRAMMAR_MANY)
        return g_fail(b, GLIM_USAGE, "grammar: repetition: have %u to %u times, need ascending counts", min, max);
    if (max == 0)
        return grammar_text(b, "", 0);
    if (min == 1 && max == 1)
        return node;
    return parent_add(b, (struct g_node){.kind = G_REPEAT, .min = min, .max = max}, &node, 1);
}

/* ---- automata ---- */

static bool same_dfa(const struct dfa *a, const struct dfa *b)
{
    return a->n_state == b->n_state && a->n_class == b->n_class && memcmp(a->cls, b->cls, 256) == 0 &&
           memcmp(a->next, b->next, (size_t)a->n_state * a->n_class * sizeof *a->next) == 0 &&
           memcmp(a->accept, b->accept, ceil_div(a->n_state, 64) * sizeof *a->accept) == 0;
}

static bool valid_dfa(const struct dfa *d)
{
    if (d->n_state < 2 || d->n_class == 0 || d->n_class > 256)
        return false;
    for (int i = 0; i < 256; i++)
        if (d->cls[i] >= d->n_class)
            return false;
    for (size_t i = 0; i < (size_t)d->n_state * d->n_class; i++)
        if (d->next[i] >= d->n_state)
            return false;
    return true;
}

grammar_node grammar_dfa(struct grammar_builder *b, const struct dfa *d)
{
    if (!ok(b))
        return 0;
    if (!valid_dfa(d))
        return g_fail(b, GLIM_USAGE, "grammar: automaton: have states or classes out of range, need them inside");
    if (!g_table_room(&b->slot_dfa) || !mem_grow((void **)&b->dfa, &b->cap_dfa, b->n_dfa, sizeof *b->dfa))
        return no_memory(b);
    struct dfa *copy = g_dfa_trimmed(d);
    if (!copy)
        return no_memory(b);
    uint64_t hash = xxh3(copy->next, (size_t)d->n_state * d->n_class * sizeof *d->next) * 31 + xxh3(d->cls, 256);
    struct g_slot *s = g_table_first(&b->slot_dfa, hash);
    while (s->number && !same_dfa(b->dfa[s->number - 1], copy))
        s = g_table_next(&b->slot_dfa, s, hash);
    if (s->number) {
        g_dfa_free(copy);
    } else {
        b->dfa[b->n_dfa] = copy;
        g_table_put(&b->slot_dfa, s, hash, (uint32_t)++b->n_dfa);
    }
    return node_add(b, (struct g_node){.kind = G_DFA, .n = s->number - 1});
}

/* ---- rules ---- */

uint32_t grammar_rule(struct grammar_builder *b, const char *name, size_t n)
{
    if (!ok(b))
        return 0;
    if (n > G_NAME_MAX)
        return g_fail(b, GLIM_REFUSED, "grammar: rule name: have %zu bytes, need at most %d", n, G_NAME_MAX);
    if (!g_table_room(&b->slot_rule) || !mem_grow((void **)&b->rule, &b->cap_rule, b->n_rule, sizeof *b->rule))
        return no_memory(b);
    uint64_t hash = n ? xxh3(name, n) : 0;
    struct g_slot *s = g_table_first(&b->slot_rule, hash);
    for (; s->number; s = g_table_next(&b->slot_rule, s, hash)) {
        const struct g_rule_def *r = &b->rule[s->number - 1];
        if (r->n_name == n && (n == 0 || memcmp(b->text + r->name, name, n) == 0))
            return s->number;
    }
    if (!text_add(b, name, n))
        return 0;
    b->rule[b->n_rule] = (struct g_rule_def){.name = (uint32_t)(b->n_text - n), .n_name = (uint32_t)n};
    g_table_put(&b->slot_rule, s, hash, (uint32_t)++b->n_rule);
    return (uint32_t)b->n_rule;
}

static bool is_rule(struct grammar_builder *b, uint32_t rule)
{
    if (rule != 0 && rule <= b->n_rule)
        return true;
    return g_fail(b, GLIM_USAGE, "grammar: rule: have %u, need one of this builder", rule);
}

void grammar_define(struct grammar_builder *b, uint32_t rule, grammar_node node)
{
    if (!ok(b) || !is_rule(b, rule) || !is_node(b, node))
        return;
    struct g_rule_def *r = &b->rule[rule - 1];
    if (r->node)
        g_fail(b, GLIM_REFUSED, "grammar: rule %.*s: have two definitions, need one", (int)r->n_name,
               b->text + r->name);
    r->node = node;
}

bool grammar_defined(const struct grammar_builder *b, uint32_t rule)
{
    return rule != 0 && rule <= b->n_rule && b->rule[rule - 1].node != 0;
}

grammar_node grammar_ref(struct grammar_builder *b, uint32_t rule)
{
    if (!ok(b) || !is_rule(b, rule))
        return 0;
    b->rule[rule - 1].used = true;
    return node_add(b, (struct g_node){.kind = G_REF, .n = rule - 1});
}
