/* The compiler: nodes → states.
 *
 * emit_full(x, next) gives the state from which x's texts, but for the empty one, lead to `next`; sequences are emitted
 * from the right, so a state's successors exist before it does. What may be empty becomes a split between that state
 * and `next`: so no rule and no turn of a repetition is ever empty (grammar_impl.h), and nothing is emitted twice.
 *
 * Parts that are used more than once, and repetitions that count, become rules of their own. */
#include "text/grammar_compile.h"

#include "base/hash.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    FAIL = 0,
    END = 1,
    COPY_SIZE = 32, /* a shared part of up to so many states is copied instead of called */
    TRIE_DEPTH = 64 /* branchings of a trie above one another */
};

struct compiler {
    const struct grammar_builder *b;
    struct grammar *g;
    struct g_facts *f;
    uint32_t *part;    /* [n_node] rule that a node is compiled as, + 1; 0 = none */
    uint32_t *of_rule; /* the node of each rule, in the order of g->rule */
    size_t n_of_rule, cap_of_rule;
    struct g_table slot; /* of states with edges */
    struct g_byte_seq *seq;
    size_t n_seq, cap_seq;
    glim_status st; /* the first failure: nothing is added after it, and every emit gives FAIL */
    struct glim_err *e;
};

static uint32_t emit_full(struct compiler *c, grammar_node x, uint32_t next);

/* ---- states ---- */

static bool grow(struct compiler *c, void **arr, size_t *cap, size_t n, size_t size)
{
    const struct grammar *g = c->g;
    if (c->st != GLIM_OK)
        return false;
    if (g->n_state + g->n_edge + g->n_data + g->n_call >= g->limits.n_state)
        c->st = err_set(c->e, GLIM_REFUSED, "grammar: automaton: have more than %u states and edges, need fewer",
                        g->limits.n_state);
    else if (!mem_grow(arr, cap, n, size))
        c->st = err_nomem(c->e, "grammar", size);
    return c->st == GLIM_OK;
}

static uint32_t add_state(struct compiler *c, enum g_state_kind kind, size_t a, size_t n)
{
    struct grammar *g = c->g;
    if (!grow(c, (void **)&g->state, &g->cap_state, g->n_state, sizeof *g->state))
        return FAIL;
    g->state[g->n_state] = (struct g_state){(uint8_t)kind, (uint32_t)a, (uint32_t)n};
    return (uint32_t)g->n_state++;
}

static void add_data(struct compiler *c, uint32_t v)
{
    struct grammar *g = c->g;
    if (grow(c, (void **)&g->data, &g->cap_data, g->n_data, sizeof *g->data))
        g->data[g->n_data++] = v;
}

static void add_edge(struct compiler *c, uint8_t lo, uint8_t hi, uint32_t to)
{
    struct grammar *g = c->g;
    if (to != FAIL && grow(c, (void **)&g->edge, &g->cap_edge, g->n_edge, sizeof *g->edge)) {
        memset(&g->edge[g->n_edge], 0, sizeof *g->edge); /* the padding is hashed */
        g->edge[g->n_edge].lo = lo;
        g->edge[g->n_edge].hi = hi;
        g->edge[g->n_edge++].to = to;
    }
}

/* The state of the edges from `first` to the last that was added; where there is one like it, that, and they go. */
static uint32_t edges_state(struct compiler *c, size_t first)
{
    struct grammar *g = c->g;
    size_t n = g->n_edge - first, bytes = n * sizeof *g->edge;
    if (c->st != GLIM_OK || n == 0)
        return FAIL;
    if (!g_table_room(&c->slot)) {
        c->st = err_nomem(c->e, "grammar", bytes);
        return FAIL;
    }
    uint64_t hash = xxh3(g->edge + first, bytes);
    struct g_slot *s = g_table_first(&c->slot, hash);
    for (; s->number; s = g_table_next(&c->slot, s, hash)) {
        const struct g_state *x = &g->state[s->number];
        if (x->n == n && memcmp(g->edge + x->a, g->edge + first, bytes) == 0) {
            g->n_edge = first;
            return s->number;
        }
    }
    uint32_t state = add_state(c, G_S_EDGES, first, n);
    if (state != FAIL)
        g_table_put(&c->slot, s, hash, state);
    return state;
}

static uint32_t byte_state(struct compiler *c, uint8_t lo, uint8_t hi, uint32_t next)
{
    size_t first = c->g->n_edge;
    add_edge(c, lo, hi, next);
    return edges_state(c, first);
}

static uint32_t split(struct compiler *c, uint32_t x, uint32_t y)
{
    if (x == FAIL || x == y)
        return y;
    if (y == FAIL)
        return x;
    size_t first = c->g->n_data;
    add_data(c, x);
    add_data(c, y);
    return add_state(c, G_S_SPLIT, first, 2);
}

/* What may be over after one character would be left and entered again all the time: it is wide only where a circle
 * would have nothing wide without it. */
static bool is_wide(const struct g_facts *f)
{
    return f->length > G_WIDE && (f->turns || !f->quick);
}

static uint32_t call(struct compiler *c, grammar_node x, uint32_t next, uint32_t min, uint32_t max)
{
    struct grammar *g = c->g;
    if (next == FAIL)
        return FAIL;
    if (c->part[x] == 0) {
        if (!grow(c, (void **)&g->rule, &g->cap_rule, g->n_rule, sizeof *g->rule) ||
            !grow(c, (void **)&c->of_rule, &c->cap_of_rule, c->n_of_rule, sizeof *c->of_rule))
            return FAIL;
        g->rule[g->n_rule++] = (struct g_rule){.wide = is_wide(&c->f[x])};
        c->of_rule[c->n_of_rule++] = x;
        c->part[x] = (uint32_t)g->n_rule;
    }
    if (!grow(c, (void **)&g->call, &g->cap_call, g->n_call, sizeof *g->call))
        return FAIL;
    g->call[g->n_call] = (struct g_call){c->part[x] - 1, next, min, max};
    return add_state(c, G_S_CALL, g->n_call++, 0);
}

/* ---- characters ---- */

static uint32_t emit_bytes(struct compiler *c, const char *p, size_t n, uint32_t next)
{
    while (n > 0 && next != FAIL) {
        uint8_t byte = (uint8_t)p[--n];
        next = byte_state(c, byte, byte, next);
    }
    return next;
}

/* The state that reads the sequences first .. last, of which byte `at` is the next. Their ranges there are ascending,
 * and equal or disjoint. */
static uint32_t emit_seqs(struct compiler *c, size_t first, size_t last, int at, uint32_t next)
{
    uint32_t to[256];
    uint8_t lo[256], hi[256];
    size_t n = 0;
    for (size_t i = first; i < last; n++) {
        size_t k = i;
        lo[n] = c->seq[i].lo[at];
        hi[n] = c->seq[i].hi[at];
        while (k < last && c->seq[k].lo[at] == lo[n])
            k++;
        to[n] = at == 3 || c->seq[i].n == at + 1 ? next : emit_seqs(c, i, k, at + 1, next);
        i = k;
    }
    size_t edge = c->g->n_edge;
    for (size_t i = 0; i < n; i++)
        add_edge(c, lo[i], hi[i], to[i]);
    return edges_state(c, edge);
}

static uint32_t emit_class(struct compiler *c, const struct g_node *x, uint32_t next)
{
    c->n_seq = 0;
    for (uint32_t i = 0; i < x->n; i += 2) {
        struct g_byte_seq part[G_SEQ_MAX];
        size_t n = g_utf8_range(c->b->data[x->first + i], c->b->data[x->first + i + 1], part);
        for (size_t k = 0; k < n; k++) {
            if (!grow(c, (void **)&c->seq, &c->cap_seq, c->n_seq, sizeof *c->seq))
                return FAIL;
            c->seq[c->n_seq++] = part[k];
        }
    }
    return emit_seqs(c, 0, c->n_seq, 0, next);
}

/* ---- repetition ---- */

/* One turn or more: a split after the turn leads back to its beginning. */
static uint32_t emit_endless(struct compiler *c, grammar_node x, uint32_t next)
{
    size_t at = c->g->n_data;
    add_data(c, FAIL);
    add_data(c, next);
    uint32_t again = add_state(c, G_S_SPLIT, at, 2), turn = emit_full(c, x, again);
    if (c->st == GLIM_OK)
        c->g->data[at] = turn;
    return turn;
}

static uint32_t emit_repeat(struct compiler *c, const struct g_node *x, uint32_t next)
{
    grammar_node turn = c->b->data[x->first];
    const struct g_facts *f = &c->f[turn];
    bool endless = x->max == GRAMMAR_MANY;
    uint32_t min = f->empty || x->min == 0 ? 1 : x->min; /* the empty text is left out */
    if (!g_is_written_out(x, f))
        return call(c, turn, next, min, x->max);
    uint32_t s = next;
    if (endless) {
        s = emit_endless(c, turn, next);
        min--;
    }
    for (uint32_t i = min; !endless && i < x->max; i++)
        s = split(c, emit_full(c, turn, s), next);
    for (uint32_t i = 0; i < min; i++)
        s = emit_full(c, turn, s);
    return s;
}

/* ---- alternatives ---- */

struct text {
    const char *p;
    size_t n;
};

static int by_bytes(const void *x, const void *y)
{
    const struct text *a = x, *b = y;
    int order = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    return order ? order : a->n < b->n ? -1 : a->n > b->n;
}

/* Sorted, different texts that agree in their first `at` bytes, as a trie: one state for each branching, and chains
 * between them. */
static uint32_t emit_trie(struct compiler *c, const struct text *t, size_t n, size_t at, int depth, uint32_t next)
{
    uint32_t to[256], s = FAIL;
    uint8_t byte[256];
    size_t n_to = 0, same = at, i = 0;
    while (same < t[0].n && t[0].p[same] == t[n - 1].p[same]) /* the first and the last agree: so do all */
        same++;
    if (n == 1)
        return emit_bytes(c, t[0].p + at, t[0].n - at, next);
    if (t[0].n == same)
        i++; /* it ends here, and others go on */
    while (i < n && depth < TRIE_DEPTH) {
        size_t k = i;
        while (k < n && t[k].p[same] == t[i].p[same])
            k++;
        byte[n_to] = (uint8_t)t[i].p[same];
        to[n_to++] = emit_trie(c, t + i, k - i, same + 1, depth + 1, next);
        i = k;
    }
    size_t edge = c->g->n_edge;
    for (size_t k = 0; k < n_to; k++)
        add_edge(c, byte[k], byte[k], to[k]);
    if (n_to > 0)
        s = edges_state(c, edge);
    for (; i < n; i++)
        s = split(c, s, emit_bytes(c, t[i].p + same, t[i].n - same, next));
    if (t[0].n == same)
        s = split(c, s, next);
    return emit_bytes(c, t[0].p + at, same - at, s);
}

/* The children that are texts, as a trie. t: room for all children. */
static uint32_t emit_texts(struct compiler *c, const struct g_node *x, struct text *t, uint32_t next)
{
    size_t n = 0, n_kept = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const struct g_node *k = &c->b->node[c->b->data[x->first + i]];
        if (k->kind == G_TEXT)
            t[n++] = (struct text){c->b->text + k->first, k->n};
    }
    if (n == 0)
        return FAIL;
    qsort(t, n, sizeof *t, by_bytes);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_bytes(&t[i], &t[i - 1]) != 0)
            t[n_kept++] = t[i];
    return emit_trie(c, t, n_kept, 0, 0, next);
}

static uint32_t emit_alt(struct compiler *c, const struct g_node *x, uint32_t next)
{
    struct text *t = mem_alloc(x->n * sizeof *t);
    uint32_t *to = mem_alloc((x->n + 1) * sizeof *to), s = FAIL;
    size_t n = 0;
    if (!t || !to) {
        c->st = err_nomem(c->e, "grammar", x->n * sizeof *t);
        goto out;
    }
    to[n] = emit_texts(c, x, t, next);
    n += to[n] != FAIL;
    for (uint32_t i = 0; i < x->n; i++) {
        grammar_node k = c->b->data[x->first + i];
        to[n] = c->b->node[k].kind == G_TEXT ? FAIL : emit_full(c, k, next);
        n += to[n] != FAIL;
    }
    if (n > 0)
        s = to[0];
    if (n > 1) {
        size_t first = c->g->n_data;
        for (size_t i = 0; i < n; i++)
            add_data(c, to[i]);
        s = add_state(c, G_S_SPLIT, first, n);
    }
out:
    mem_free(t);
    mem_free(to);
    return s;
}

/* ---- nodes ---- */

static uint32_t emit_seq(struct compiler *c, grammar_node at, uint32_t next)
{
    const struct g_node *x = &c->b->node[at];
    uint32_t s = next, full = FAIL; /* from child i on: with the empty text; without */
    for (uint32_t i = x->n; i > 0 && c->st == GLIM_OK; i--) {
        grammar_node k = c->b->data[x->first + i - 1];
        uint32_t some = emit_full(c, k, s);
        full = c->f[k].empty ? split(c, some, full) : some;
        s = c->f[k].empty ? split(c, some, s) : some;
    }
    return c->f[at].empty ? full : s;
}

static uint32_t emit_body(struct compiler *c, grammar_node at, uint32_t next)
{
    const struct g_node *x = &c->b->node[at];
    switch ((enum g_kind)x->kind) {
    case G_EMPTY:
        return FAIL;
    case G_TEXT:
        return emit_bytes(c, c->b->text + x->first, x->n, next);
    case G_CLASS:
        return emit_class(c, x, next);
    case G_DFA:
        return call(c, at, next, 1, 1);
    case G_SEQ:
        return emit_seq(c, at, next);
    case G_ALT:
        return emit_alt(c, x, next);
    case G_REPEAT:
        return emit_repeat(c, x, next);
    case G_REF:
        break;
    }
    return call(c, c->b->rule[x->n].node, next, 1, 1);
}

/* Worth a rule of its own: used twice, and large or likely to be where a mask is asked for. */
static bool is_part(const struct compiler *c, grammar_node at)
{
    const struct g_facts *f = &c->f[at];
    uint8_t kind = c->b->node[at].kind;
    if (f->n_user < 2 || kind == G_REF || kind == G_DFA)
        return false;
    return f->size > COPY_SIZE || (kind == G_REPEAT && f->length >= G_ENDLESS);
}

/* The texts of x but the empty one, then next. */
static uint32_t emit_full(struct compiler *c, grammar_node x, uint32_t next)
{
    if (c->st != GLIM_OK || next == FAIL || !c->f[x].useful)
        return FAIL;
    return is_part(c, x) ? call(c, x, next, 1, 1) : emit_body(c, x, next);
}

/* ---- rules ---- */

/* A rule that is an automaton starts in the automaton's start; whether that accepts is the caller's business. */
static uint32_t emit_dfa(struct compiler *c, uint32_t dfa)
{
    uint32_t first = (uint32_t)c->g->n_state;
    for (uint32_t i = 0; i < c->b->dfa[dfa]->n_state; i++)
        add_state(c, G_S_DFA, dfa, i);
    return first + 1;
}

/* The rules that calls have asked for, in the order they did. */
static void emit_rules(struct compiler *c)
{
    for (size_t i = 0; i < c->g->n_rule && c->st == GLIM_OK; i++) {
        grammar_node x = c->of_rule[i];
        bool dfa = c->b->node[x].kind == G_DFA;
        uint32_t start = dfa ? emit_dfa(c, c->b->node[x].n) : emit_body(c, x, END);
        c->g->rule[i].start = start;
    }
}

static void move_automata(struct compiler *c)
{
    struct grammar *g = c->g;
    if (c->st != GLIM_OK || c->b->n_dfa == 0)
        return;
    if (!(g->dfa = mem_calloc(c->b->n_dfa, sizeof *g->dfa))) {
        c->st = err_nomem(c->e, "grammar", c->b->n_dfa);
        return;
    }
    for (; g->n_dfa < c->b->n_dfa; g->n_dfa++)
        if (!(g->dfa[g->n_dfa] = g_dfa_trimmed(c->b->dfa[g->n_dfa]))) {
            c->st = err_nomem(c->e, "grammar", c->b->dfa[g->n_dfa]->n_state);
            return;
        }
}

static glim_status check_rules(const struct grammar_builder *b, uint32_t root, struct glim_err *e)
{
    if (b->err.status != GLIM_OK)
        return err_set(e, b->err.status, "%s", b->err.message);
    if (root == 0 || root > b->n_rule)
        return err_set(e, GLIM_USAGE, "grammar: root: have rule %u, need one of this builder", root);
    for (size_t i = 0; i < b->n_rule; i++) {
        const struct g_rule_def *r = &b->rule[i];
        if (!r->node && (r->used || i + 1 == root))
            return err_set(e, GLIM_REFUSED, "grammar: rule %.*s: have no definition, need one", (int)r->n_name,
                           b->text + r->name);
    }
    return GLIM_OK;
}

static glim_status compile(struct compiler *c, grammar_node root)
{
    const struct grammar_builder *b = c->b;
    struct grammar *g = c->g;
    c->f = mem_calloc(b->n_node, sizeof *c->f);
    c->part = mem_calloc(b->n_node, sizeof *c->part);
    if (!c->f || !c->part)
        return err_nomem(c->e, "grammar", b->n_node * sizeof *c->f);
    TRY(g_analyse(b, root, c->f, c->e));
    if (!c->f[root].useful)
        return err_set(c->e, GLIM_REFUSED, "grammar: root: have a rule that no text matches, need one that some do");
    add_state(c, G_S_FAIL, 0, 0);
    add_state(c, G_S_END, 0, 0);
    g->start = c->f[root].length > 0 ? call(c, root, END, 1, 1) : FAIL;
    if (c->f[root].empty)
        g->start = split(c, g->start, END);
    emit_rules(c);
    move_automata(c);
    TRY(c->st);
    g_classes(g);
    return g_order(g, b, c->of_rule, c->e);
}

glim_status grammar_compile(struct grammar **out, struct grammar_builder *b, uint32_t root, struct glim_err *e)
{
    struct compiler c = {.b = b, .e = e, .st = GLIM_OK};
    *out = NULL;
    TRY(check_rules(b, root, e));
    if (!(c.g = mem_calloc(1, sizeof *c.g)))
        return err_nomem(e, "grammar", sizeof *c.g);
    c.g->limits = b->limits;
    glim_status st = compile(&c, b->rule[root - 1].node);
    mem_free(c.f);
    mem_free(c.part);
    mem_free(c.of_rule);
    mem_free(c.slot.slot);
    mem_free(c.seq);
    if (st == GLIM_OK)
        *out = c.g;
    else
        grammar_free(c.g);
    return st;
}

void grammar_free(struct grammar *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_dfa; i++)
        g_dfa_free(g->dfa[i]);
    mem_free(g->dfa);
    mem_free(g->state);
    mem_free(g->edge);
    mem_free(g->data);
    mem_free(g->call);
    mem_free(g->rule);
    mem_free(g);
}
