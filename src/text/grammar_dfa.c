/* Automata as terminals of a grammar. */
#include "text/grammar_compile.h"

#include "base/arith.h"
#include "base/mem.h"

#include <string.h>

void g_dfa_free(struct dfa *d)
{
    if (!d)
        return;
    mem_free(d->next);
    mem_free(d->accept);
    mem_free(d);
}

static size_t cells(const struct dfa *d)
{
    return (size_t)d->n_state * d->n_class;
}

static struct dfa *dfa_copy(const struct dfa *d)
{
    struct dfa *c = mem_calloc(1, sizeof *c);
    size_t words = ceil_div(d->n_state, 64);
    if (!c)
        return NULL;
    *c = *d;
    c->next = mem_alloc(cells(d) * sizeof *c->next);
    c->accept = mem_alloc(words * sizeof *c->accept);
    if (!c->next || !c->accept) {
        g_dfa_free(c);
        return NULL;
    }
    memcpy(c->next, d->next, cells(d) * sizeof *c->next);
    memcpy(c->accept, d->accept, words * sizeof *c->accept);
    return c;
}

/* mark[i] |= bit for the start and what it reaches. due: [n_state]. */
static void mark_reached(const struct dfa *d, uint8_t *mark, uint8_t bit, uint32_t *due)
{
    size_t n = 0;
    due[n++] = 1;
    mark[1] |= bit;
    while (n > 0) {
        const uint32_t *row = d->next + (size_t)due[--n] * d->n_class;
        for (uint32_t c = 0; c < d->n_class; c++)
            if (row[c] != 0 && !(mark[row[c]] & bit)) {
                mark[row[c]] |= bit;
                due[n++] = row[c];
            }
    }
}

/* mark[i] |= bit for what leads to acceptance: the accepting states, and then backwards. first: [n_state + 2], from:
 * [cells], due: [n_state]. */
static void mark_leading(const struct dfa *d, uint8_t *mark, uint8_t bit, uint32_t *first, uint32_t *from,
                         uint32_t *due)
{
    size_t n = 0;
    for (size_t i = 0; i < cells(d); i++)
        first[d->next[i] + 2]++;
    for (size_t i = 2; i < (size_t)d->n_state + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < cells(d); i++)
        from[first[d->next[i] + 1]++] = (uint32_t)(i / d->n_class);
    for (uint32_t i = 1; i < d->n_state; i++)
        if (dfa_accepts(d, i)) {
            mark[i] |= bit;
            due[n++] = i;
        }
    while (n > 0) {
        uint32_t s = due[--n];
        for (uint32_t k = first[s]; k < first[s + 1]; k++)
            if (!(mark[from[k]] & bit)) {
                mark[from[k]] |= bit;
                due[n++] = from[k];
            }
    }
}

struct dfa *g_dfa_trimmed(const struct dfa *d)
{
    struct dfa *c = dfa_copy(d);
    uint8_t *mark = mem_calloc(d->n_state, 1);
    uint32_t *first = mem_calloc((size_t)d->n_state + 2, sizeof *first);
    uint32_t *from = mem_alloc(cells(d) * sizeof *from), *due = mem_alloc(d->n_state * sizeof *due);
    bool done = c && mark && first && from && due;
    if (done) {
        memset(c->next, 0, d->n_class * sizeof *c->next); /* state 0 is dead whatever its row says */
        mark_reached(c, mark, 1, due);
        mark_leading(c, mark, 2, first, from, due);
        for (uint32_t i = 0; i < d->n_state; i++)
            if (mark[i] != 3 || i == 0)
                c->accept[i / 64] &= ~((uint64_t)1 << (i % 64));
        for (size_t i = 0; i < cells(c); i++)
            if (mark[c->next[i]] != 3 || mark[i / c->n_class] != 3)
                c->next[i] = 0;
    }
    mem_free(mark);
    mem_free(first);
    mem_free(from);
    mem_free(due);
    if (!done) {
        g_dfa_free(c);
        return NULL;
    }
    return c;
}

/* Longest paths in topological order; a state on a cycle, or behind one, is never taken, so fewer states are. */
glim_status g_dfa_length(const struct dfa *d, uint32_t *length, struct glim_err *e)
{
    uint32_t *wait = mem_calloc((size_t)d->n_state * 3, sizeof *wait);
    size_t n = 0, n_edge = 0;
    if (!wait)
        return err_nomem(e, "grammar", (size_t)d->n_state * 3 * sizeof *wait);
    uint32_t *longest = wait + d->n_state, *due = longest + d->n_state;
    for (size_t i = 0; i < cells(d); i++)
        if (d->next[i] != 0) {
            wait[d->next[i]]++;
            n_edge++;
        }
    *length = 0;
    if (wait[1] == 0)
        due[n++] = 1;
    while (n > 0) {
        uint32_t s = due[--n];
        *length = longest[s] > *length ? longest[s] : *length;
        for (uint32_t c = 0; c < d->n_class; c++) {
            uint32_t to = d->next[(size_t)s * d->n_class + c];
            if (to == 0)
                continue;
            longest[to] = longest[s] + 1 > longest[to] ? longest[s] + 1 : longest[to];
            n_edge--;
            if (--wait[to] == 0)
                due[n++] = to;
        }
    }
    if (n_edge > 0)
        *length = G_ENDLESS;
    mem_free(wait);
    return GLIM_OK;
}
