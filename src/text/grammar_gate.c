/* The gate: an automaton that finds the triggers (Aho and Corasick's), then a grammar state.
 *
 * State 0 is the beginning; others are the beginnings of triggers. The mask of each state is made once: it is a walk
 * over the tries in which a branch that completes a trigger goes on in the grammar. */
#include "text/grammar_gate.h"
#include "text/grammar_match.h"

#include "base/mem.h"

#include <string.h>

enum { ACTIVE = 0xFFFFFFFF, ENDED = 0xFFFFFFFE };

struct trigger {
    uint32_t token;           /* V_NONE: a text */
    struct grammar_state *at; /* where the grammar begins: at its start, or after the trigger */
};

struct grammar_gate {
    struct grammar_matcher *m;
    struct grammar_state *s;
    struct trigger *trigger;
    size_t n_trigger;
    bool may_end;
    uint16_t (*next)[256]; /* [n_state] */
    uint16_t *found;       /* [n_state] trigger + 1 that ends there */
    size_t n_state;
    uint64_t **mask; /* [n_state] NULL until it is asked for */
    uint32_t *path;  /* [longest token + 1] */
    uint32_t *at;    /* [n] states after each token; ACTIVE: s is */
    size_t n, cap;
};

/* ---- the automaton ---- */

static void add_text(struct grammar_gate *g, const struct grammar_trigger *t, uint16_t number)
{
    uint16_t s = 0;
    for (size_t i = 0; i < t->n; i++) {
        uint16_t *to = &g->next[s][(uint8_t)t->s[i]];
        if (*to == 0)
            *to = (uint16_t)g->n_state++;
        s = *to;
    }
    if (g->found[s] == 0)
        g->found[s] = number;
}

/* Breadth first: where a trigger does not go on, whatever its longest end that begins a trigger goes on with. */
static void link_states(struct grammar_gate *g, uint16_t *queue, uint16_t *back)
{
    size_t first = 0, n = 0;
    for (int b = 0; b < 256; b++)
        if (g->next[0][b] != 0) {
            back[g->next[0][b]] = 0;
            queue[n++] = g->next[0][b];
        }
    while (first < n) {
        uint16_t s = queue[first++];
        if (g->found[s] == 0)
            g->found[s] = g->found[back[s]];
        for (int b = 0; b < 256; b++) {
            uint16_t to = g->next[s][b], other = g->next[back[s]][b];
            if (to == 0) {
                g->next[s][b] = other;
            } else {
                back[to] = other;
                queue[n++] = to;
            }
        }
    }
}

static glim_status build(struct grammar_gate *g, const struct grammar_trigger *t, size_t n, size_t bytes,
                         struct glim_err *e)
{
    size_t cap = bytes + 1;
    uint32_t longest = 0;
    for (int i = 0; i < V_PART; i++)
        longest = g->m->v->longest[i] > longest ? g->m->v->longest[i] : longest;
    g->next = mem_calloc(cap, sizeof *g->next);
    g->found = mem_calloc(cap, sizeof *g->found);
    g->mask = mem_calloc(cap, sizeof *g->mask);
    g->path = mem_alloc((longest + 1) * sizeof *g->path);
    uint16_t *queue = mem_alloc(2 * cap * sizeof *queue);
    glim_status st = GLIM_OK;
    if (!g->next || !g->found || !g->mask || !g->path || !queue) {
        st = err_nomem(e, "grammar gate", cap * sizeof *g->next);
    } else {
        g->n_state = 1;
        for (size_t i = 0; i < n; i++)
            if (t[i].n > 0)
                add_text(g, &t[i], (uint16_t)(i + 1));
        link_states(g, queue, queue + cap);
    }
    mem_free(queue);
    return st;
}

static glim_status add_triggers(struct grammar_gate *g, const struct grammar_trigger *t, size_t n, struct glim_err *e)
{
    if (!(g->trigger = mem_calloc(n, sizeof *g->trigger)))
        return err_nomem(e, "grammar gate", n * sizeof *g->trigger);
    for (; g->n_trigger < n; g->n_trigger++) {
        const struct grammar_trigger *from = &t[g->n_trigger];
        struct trigger *to = &g->trigger[g->n_trigger];
        if (from->n == 0 && from->token >= g->m->v->n_piece)
            return err_set(e, GLIM_USAGE, "grammar gate: trigger: have token %u, need one below %zu", from->token,
                           g->m->v->n_piece);
        to->token = from->n ? V_NONE : from->token;
        TRY(grammar_state_create(&to->at, g->m, e));
        if (from->keep && from->n > 0 && grammar_accept_bytes(to->at, from->s, from->n, e) != GLIM_OK) {
            grammar_state_free(to->at);
            return err_prefix(e, "grammar gate: trigger %zu", g->n_trigger);
        }
    }
    return GLIM_OK;
}

glim_status grammar_gate_create(struct grammar_gate **out, struct grammar_matcher *m, const struct grammar_trigger *t,
                                size_t n, bool may_end, struct glim_err *e)
{
    size_t bytes = 0;
    *out = NULL;
    for (size_t i = 0; i < n && bytes <= GRAMMAR_TRIGGER_MAX; i++)
        bytes += t[i].n > GRAMMAR_TRIGGER_MAX ? GRAMMAR_TRIGGER_MAX + 1 : t[i].n;
    if (bytes > GRAMMAR_TRIGGER_MAX || n > GRAMMAR_TRIGGER_MAX)
        return err_set(e, GLIM_REFUSED, "grammar gate: triggers: have more than %d bytes, need fewer",
                       GRAMMAR_TRIGGER_MAX);
    struct grammar_gate *g = mem_calloc(1, sizeof *g);
    if (!g)
        return err_nomem(e, "grammar gate", sizeof *g);
    g->m = m;
    g->may_end = may_end;
    glim_status st = grammar_state_create(&g->s, m, e);
    if (st == GLIM_OK)
        st = add_triggers(g, t, n, e);
    if (st == GLIM_OK)
        st = build(g, t, n, bytes, e);
    if (st == GLIM_OK && !mem_grow((void **)&g->at, &g->cap, 0, sizeof *g->at))
        st = err_nomem(e, "grammar gate", sizeof *g->at);
    if (st != GLIM_OK) {
        grammar_gate_free(g);
        return st;
    }
    g->at[g->n++] = 0;
    *out = g;
    return GLIM_OK;
}

void grammar_gate_free(struct grammar_gate *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_trigger; i++)
        grammar_state_free(g->trigger[i].at);
    for (size_t i = 0; i < g->n_state; i++)
        mem_free(g->mask[i]);
    grammar_state_free(g->s);
    mem_free(g->trigger);
    mem_free(g->next);
    mem_free(g->found);
    mem_free(g->mask);
    mem_free(g->path);
    mem_free(g->at);
    mem_free(g);
}

/* ---- steps ---- */

static uint32_t here(const struct grammar_gate *g)
{
    return g->at[g->n - 1];
}

bool grammar_gate_active(const struct grammar_gate *g)
{
    return here(g) == ACTIVE;
}

size_t grammar_gate_taken(const struct grammar_gate *g)
{
    return g->n - 1;
}

bool grammar_gate_can_end(const struct grammar_gate *g)
{
    return here(g) == ACTIVE ? grammar_can_end(g->s) : here(g) != ENDED && g->may_end;
}

void grammar_gate_rollback(struct grammar_gate *g, size_t steps)
{
    for (; steps > 0 && g->n > 1; steps--)
        if (g->at[--g->n] == ACTIVE)
            grammar_rollback(g->s, 1);
}

/* The state after a token that is not under the grammar yet, or ACTIVE after a trigger in it. */
static glim_status wait_on(struct grammar_gate *g, uint32_t id, uint32_t *to, struct glim_err *e)
{
    const struct grammar_vocab *v = g->m->v;
    const char *p = v->text + v->piece[id], *end = v->text + v->piece[id + 1];
    uint32_t s = p == end ? 0 : here(g);
    for (size_t i = 0; i < g->n_trigger; i++)
        if (g->trigger[i].token == id) {
            *to = ACTIVE;
            return g_accept_from(g->s, g->trigger[i].at, NULL, 0, e);
        }
    while (p < end) {
        s = g->next[s][(uint8_t)*p++];
        if (g->found[s] != 0) {
            *to = ACTIVE;
            return g_accept_from(g->s, g->trigger[g->found[s] - 1].at, p, (size_t)(end - p), e);
        }
    }
    *to = s;
    return GLIM_OK;
}

glim_status grammar_gate_accept(struct grammar_gate *g, uint32_t id, struct glim_err *e)
{
    const struct grammar_vocab *v = g->m->v;
    uint32_t to = here(g);
    if (id >= v->n_piece)
        return err_set(e, GLIM_USAGE, "grammar gate: token: have %u, need one below %zu", id, v->n_piece);
    if (!mem_grow((void **)&g->at, &g->cap, g->n, sizeof *g->at))
        return err_nomem(e, "grammar gate", g->n * sizeof *g->at);
    if (to == ACTIVE) {
        TRY(grammar_accept(g->s, id, e));
    } else if (to == ENDED || (bit_get(v->end, id) && !g->may_end)) {
        return err_set(e, GLIM_REFUSED, "grammar gate: token %u: have %s, need %s", id,
                       to == ENDED ? "a text that has ended" : "an end before any trigger",
                       to == ENDED ? "none after it" : "a trigger first");
    } else if (bit_get(v->end, id)) {
        to = ENDED;
    } else {
        TRY(wait_on(g, id, &to, e));
    }
    g->at[g->n++] = to;
    return GLIM_OK;
}

/* ---- masks ---- */

/* One trie, from state s on: a branch that completes a trigger goes on in the grammar. Tokens that end where it does
 * are admitted like others. */
static bool walk(struct grammar_gate *g, uint32_t s, uint32_t top, uint64_t *bits)
{
    const struct grammar_vocab *v = g->m->v;
    uint32_t end = v->node[top].skip;
    for (uint32_t i = top; i < end;) {
        const struct v_node *n = &v->node[i];
        uint32_t to = i == top ? s : g->next[g->path[n->depth - 1]][n->byte];
        bool found = i > top && g->found[to] != 0;
        for (uint32_t r = n->rank; r < (found ? n->leaf : n->inner); r++)
            bit_set(bits, v->ranked[r]);
        g->path[n->depth] = to;
        if (!found) {
            i++;
            continue;
        }
        const struct grammar_state *at = g->trigger[g->found[to] - 1].at;
        if (!m_walk(g->m, at->at[at->n - 1], i, bits))
            return false;
        i = n->skip;
    }
    return true;
}

static bool waiting_mask(struct grammar_gate *g, uint32_t s, uint64_t *bits)
{
    const struct grammar_vocab *v = g->m->v;
    memset(bits, 0, v->n_word * sizeof *bits);
    m_calm(g->m);
    for (uint32_t id = 0; id < v->n_piece; id++)
        if (bit_get(v->end, id) ? g->may_end : v->piece[id] == v->piece[id + 1])
            bit_set(bits, id);
    for (uint32_t part = 0; part < V_PART; part++)
        if (v->longest[part] > 0 && !walk(g, s, v->root[part], bits))
            return false;
    for (size_t i = 0; i < g->n_trigger; i++) /* a trigger may be any token */
        if (g->trigger[i].token != V_NONE)
            bit_set(bits, g->trigger[i].token);
    return true;
}

glim_status grammar_gate_mask(struct grammar_gate *g, uint64_t *bits, struct glim_err *e)
{
    size_t n_word = g->m->v->n_word;
    uint32_t s = here(g);
    if (s == ACTIVE)
        return grammar_mask(g->s, bits, e);
    memset(bits, 0, n_word * sizeof *bits);
    if (s == ENDED)
        return GLIM_OK;
    if (!g->mask[s]) {
        uint64_t *mask = mem_alloc(n_word * sizeof *mask);
        if (!mask)
            return err_nomem(e, "grammar gate", n_word * sizeof *mask);
        if (!waiting_mask(g, s, mask) && !(g->m->why == GLIM_REFUSED && m_collect(g->m) && waiting_mask(g, s, mask))) {
            mem_free(mask);
            return m_failed(g->m, e);
        }
        g->mask[s] = mask;
    }
    memcpy(bits, g->mask[s], n_word * sizeof *bits);
    return GLIM_OK;
}

glim_status grammar_gate_forced(struct grammar_gate *g, int64_t *id, struct glim_err *e)
{
    *id = -1; /* while it waits, there is always more than one token, but for vocabularies of one */
    return here(g) == ACTIVE ? grammar_forced(g->s, id, e) : GLIM_OK;
}
