/* What the compiler must know of every node before it emits states: may it be empty, does it match anything at all,
 * may it be over after a character, how long can it get, how often is it used, how large will it be, and where do
 * circles of rules turn.
 *
 * The first four are least fixed points over the graph of nodes, in which a reference's child is its rule's node.
 * Each node counts the children it still waits for, so a fixed point takes time linear in the edges, whatever the
 * rules refer to. */
#include "text/grammar_compile.h"

#include "base/mem.h"

#include <string.h>

/* The child of a reference is its rule's node; others' children are in data. Leaves have none. */
static uint32_t n_child(const struct grammar_builder *b, const struct g_node *x)
{
    if (x->kind == G_REF)
        return b->rule[x->n].node != 0;
    return x->kind == G_SEQ || x->kind == G_ALT || x->kind == G_REPEAT ? x->n : 0;
}

static uint32_t child(const struct grammar_builder *b, const struct g_node *x, uint32_t i)
{
    return x->kind == G_REF ? b->rule[x->n].node : b->data[x->first + i];
}

/* ---- users: the edges the other way round ---- */

struct graph {
    const struct grammar_builder *b;
    uint32_t *first, *user; /* users of node i: user[first[i]] .. user[first[i + 1]], one for each occurrence */
    uint32_t *wait, *due;
};

static void graph_fini(struct graph *g)
{
    mem_free(g->first);
    mem_free(g->user);
    mem_free(g->wait);
    mem_free(g->due);
}

static glim_status graph_init(struct graph *g, const struct grammar_builder *b, struct glim_err *e)
{
    size_t n = b->n_node, n_edge = 0;
    *g = (struct graph){.b = b, .first = mem_calloc(n + 2, sizeof *g->first)};
    if (!g->first)
        return err_nomem(e, "grammar", n);
    for (size_t i = 1; i < n; i++)
        for (uint32_t k = 0; k < n_child(b, &b->node[i]); k++, n_edge++)
            g->first[child(b, &b->node[i], k) + 2]++;
    g->user = mem_alloc(n_edge * sizeof *g->user);
    g->wait = mem_alloc(n * sizeof *g->wait);
    g->due = mem_alloc(n * sizeof *g->due);
    if (!g->user || !g->wait || !g->due)
        return err_nomem(e, "grammar", n + n_edge);
    for (size_t i = 2; i < n + 2; i++)
        g->first[i] += g->first[i - 1];
    for (size_t i = 1; i < n; i++)
        for (uint32_t k = 0; k < n_child(b, &b->node[i]); k++)
            g->user[g->first[child(b, &b->node[i], k) + 1]++] = (uint32_t)i;
    return GLIM_OK;
}

/* Every node whose wait has come down to 0, each once; `reach` is told of it before its users are. */
static void propagate(struct graph *g, struct g_facts *f,
                      void (*reach)(const struct graph *, struct g_facts *, uint32_t))
{
    size_t n = 0;
    for (size_t i = 1; i < g->b->n_node; i++)
        if (g->wait[i] == 0)
            g->due[n++] = (uint32_t)i;
    while (n > 0) {
        uint32_t x = g->due[--n];
        reach(g, f, x);
        for (uint32_t k = g->first[x]; k < g->first[x + 1]; k++) {
            uint32_t u = g->user[k];
            if (g->wait[u] != 0 && --g->wait[u] == 0)
                g->due[n++] = u;
        }
    }
}

/* ---- may it be empty? ---- */

static void reach_empty(const struct graph *g, struct g_facts *f, uint32_t x)
{
    (void)g;
    f[x].empty = true;
}

static uint32_t wait_empty(const struct grammar_builder *b, const struct g_node *x)
{
    switch ((enum g_kind)x->kind) {
    case G_EMPTY:
        return 0;
    case G_TEXT:
    case G_CLASS:
        return UINT32_MAX;
    case G_DFA:
        return dfa_accepts(b->dfa[x->n], 1) ? 0 : UINT32_MAX;
    case G_SEQ:
        return x->n;
    case G_ALT:
        return x->n ? 1 : UINT32_MAX;
    case G_REPEAT:
        return x->min ? 1 : 0;
    case G_REF:
        break;
    }
    return 1;
}

/* ---- does it match anything? ---- */

static void reach_useful(const struct graph *g, struct g_facts *f, uint32_t x)
{
    (void)g;
    f[x].useful = true;
}

static bool accepts_anything(const struct dfa *d)
{
    for (uint32_t i = 1; i < d->n_state; i++)
        if (dfa_accepts(d, i))
            return true;
    return false;
}

static uint32_t wait_useful(const struct grammar_builder *b, const struct g_node *x)
{
    switch ((enum g_kind)x->kind) {
    case G_EMPTY:
    case G_TEXT:
        return 0;
    case G_CLASS:
        return x->n ? 0 : UINT32_MAX;
    case G_DFA:
        return accepts_anything(b->dfa[x->n]) ? 0 : UINT32_MAX; /* all states are of use: g_dfa_trim */
    case G_SEQ:
        return x->n;
    case G_ALT:
        return x->n ? 1 : UINT32_MAX;
    case G_REPEAT:
        return x->min ? 1 : 0;
    case G_REF:
        break;
    }
    return 1;
}

/* ---- may it be over after one character? ---- */

static void reach_quick(const struct graph *g, struct g_facts *f, uint32_t x)
{
    (void)g;
    f[x].quick = true;
}

static uint32_t wait_quick(const struct grammar_builder *b, const struct g_facts *f, uint32_t at)
{
    const struct g_node *x = &b->node[at];
    switch ((enum g_kind)x->kind) {
    case G_EMPTY:
    case G_DFA:
        return UINT32_MAX;
    case G_TEXT:
        return x->n == 1 ? 0 : UINT32_MAX;
    case G_CLASS:
        return x->n ? 0 : UINT32_MAX;
    case G_SEQ:
        return x->n == 1 || f[at].empty ? 1 : UINT32_MAX;
    case G_REPEAT:
        return x->min <= 1 || f[at].empty ? 1 : UINT32_MAX;
    case G_ALT:
    case G_REF:
        break;
    }
    return 1;
}

/* ---- where do circles turn? Where a depth-first walk from the root meets what it has not left yet. ---- */

static void find_turns(struct graph *g, struct g_facts *f, uint32_t root)
{
    enum { OPEN = 1, LEFT };
    uint32_t *stack = g->due, *next = g->wait;
    size_t n = 0;
    memset(next, 0, g->b->n_node * sizeof *next);
    stack[n++] = root;
    f[root].walked = OPEN;
    while (n > 0) {
        uint32_t at = stack[n - 1];
        const struct g_node *x = &g->b->node[at];
        if (next[at] == n_child(g->b, x)) {
            f[at].walked = LEFT;
            n--;
            continue;
        }
        uint32_t to = child(g->b, x, next[at]++);
        f[to].turns |= f[to].walked == OPEN;
        if (f[to].walked == 0) {
            f[to].walked = OPEN;
            stack[n++] = to;
        }
    }
}

/* ---- how long can it get? What is on a cycle, or behind one, is never reached and stays endless. ---- */

static uint32_t capped(uint64_t n)
{
    return n > G_ENDLESS ? G_ENDLESS : (uint32_t)n;
}

static void reach_length(const struct graph *g, struct g_facts *f, uint32_t at)
{
    const struct g_node *x = &g->b->node[at];
    uint64_t sum = 0, max = 0;
    for (uint32_t i = 0; i < n_child(g->b, x); i++) {
        uint32_t n = f[child(g->b, x, i)].length;
        sum = capped(sum + n);
        max = n > max ? n : max;
    }
    switch ((enum g_kind)x->kind) {
    case G_EMPTY:
        f[at].length = 0;
        break;
    case G_TEXT:
        f[at].length = capped(x->n);
        break;
    case G_CLASS:
        f[at].length = 4;
        break;
    case G_DFA:
        break; /* dfa_lengths has set it */
    case G_SEQ:
        f[at].length = capped(sum);
        break;
    case G_ALT:
    case G_REF:
        f[at].length = capped(max);
        break;
    case G_REPEAT:
        f[at].length = x->max == GRAMMAR_MANY && max ? G_ENDLESS : capped(max * x->max);
        break;
    }
}

static glim_status dfa_lengths(const struct grammar_builder *b, struct g_facts *f, struct glim_err *e)
{
    for (size_t i = 1; i < b->n_node; i++)
        if (b->node[i].kind == G_DFA)
            TRY(g_dfa_length(b->dfa[b->node[i].n], &f[i].length, e));
    return GLIM_OK;
}

/* ---- how many states will it be? An estimate. Rules, automata and counted repetitions are calls. ---- */

static uint32_t size_of(const struct grammar_builder *b, const struct g_facts *f, const struct g_node *x)
{
    uint64_t n = 1;
    switch ((enum g_kind)x->kind) {
    case G_EMPTY:
    case G_DFA:
    case G_REF:
        break;
    case G_TEXT:
        n = x->n;
        break;
    case G_CLASS:
        n += x->n / 2;
        break;
    case G_SEQ:
    case G_ALT:
        for (uint32_t i = 0; i < x->n; i++)
            n = capped(n + f[child(b, x, i)].size);
        break;
    case G_REPEAT:
        n += g_is_written_out(x, &f[child(b, x, 0)]) ? (uint64_t)f[child(b, x, 0)].size * g_turns(x) : 0;
        break;
    }
    return capped(n);
}

glim_status g_analyse(const struct grammar_builder *b, grammar_node root, struct g_facts *f, struct glim_err *e)
{
    struct graph g;
    glim_status st = graph_init(&g, b, e);
    if (st != GLIM_OK)
        goto out;
    for (size_t i = 1; i < b->n_node; i++)
        g.wait[i] = wait_empty(b, &b->node[i]);
    propagate(&g, f, reach_empty);
    for (size_t i = 1; i < b->n_node; i++)
        g.wait[i] = wait_useful(b, &b->node[i]);
    propagate(&g, f, reach_useful);
    for (size_t i = 1; i < b->n_node; i++)
        g.wait[i] = wait_quick(b, f, (uint32_t)i);
    propagate(&g, f, reach_quick);
    find_turns(&g, f, root);
    for (size_t i = 1; i < b->n_node; i++) {
        g.wait[i] = n_child(b, &b->node[i]);
        f[i].length = G_ENDLESS;
        f[i].n_user = g.first[i + 1] - g.first[i];
    }
    TRY_OUT(dfa_lengths(b, f, e));
    propagate(&g, f, reach_length);
    for (size_t i = 1; i < b->n_node; i++) /* children have smaller numbers */
        f[i].size = size_of(b, f, &b->node[i]);
out:
    graph_fini(&g);
    return st;
}
