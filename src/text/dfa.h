/* Deterministic automata over bytes, and the nondeterministic ones they are made from.
 *
 * Regular expressions, number ranges, string lengths and key sets of JSON Schema all become a struct dfa, so that
 * "both", "either", "but not" and "is anything left?" have exact answers. Bytes that no state tells apart share a
 * class; a transition is next[state * n_class + cls[byte]].
 *
 * Invariants of every automaton handed out: state 0 is dead (all its transitions lead to 0, it does not accept) and
 * state 1 is the start; it is minimal, so an empty language has the states 0 and 1 alone and accepts in neither.
 * Limits: DFA_MAX_STATE states and DFA_MAX_CELL transitions, NFA_MAX_STATE states and as many edges; what is larger is
 * GLIM_REFUSED. */
#ifndef GLIM_TEXT_DFA_H
#define GLIM_TEXT_DFA_H

#include "base/status.h"

enum { DFA_MAX_STATE = 1 << 16, DFA_MAX_CELL = 1 << 21, NFA_MAX_STATE = 1 << 17 };

struct dfa {
    uint32_t n_state, n_class;
    uint8_t cls[256];
    uint32_t *next;   /* [n_state * n_class], 0 = dead */
    uint64_t *accept; /* bit set */
};

static inline uint32_t dfa_step(const struct dfa *d, uint32_t state, uint8_t byte)
{
    return d->next[(size_t)state * d->n_class + d->cls[byte]];
}
static inline bool dfa_accepts(const struct dfa *d, uint32_t state)
{
    return d->accept[state >> 6] >> (state & 63) & 1;
}

void dfa_free(struct dfa *d); /* NULL is fine */
bool dfa_match(const struct dfa *d, const char *p, size_t n);
bool dfa_is_empty(const struct dfa *d); /* does it accept nothing? */
/* Transitions that this thread has computed so far: what building costs, for whoever bounds it. */
uint64_t dfa_work(void);

enum dfa_op { DFA_AND, DFA_OR, DFA_BUT_NOT };
/* *out, in fresh memory, accepts what a accepts and / or / but not b. */
glim_status dfa_combine(struct dfa **out, const struct dfa *a, enum dfa_op op, const struct dfa *b, struct glim_err *e);

/* An automaton written down by hand: n_state states (0 and 1 as above) over n_class classes, nothing accepting and all
 * transitions dead. Fill it in, then dfa_minimise. */
glim_status dfa_new(struct dfa **out, size_t n_state, size_t n_class, struct glim_err *e);
static inline void dfa_set_accept(struct dfa *d, uint32_t state)
{
    d->accept[state >> 6] |= (uint64_t)1 << (state & 63);
}
/* *d becomes minimal; on failure it is freed and NULL. */
glim_status dfa_minimise(struct dfa **d, struct glim_err *e);

/* ---- nondeterministic automata ---- */

enum nfa_when { NFA_ALWAYS, NFA_AT_START, NFA_AT_END }; /* where in the text an edge without a byte may be taken */

struct nfa_edge {
    uint32_t to, next; /* next edge of the same state; UINT32_MAX = last */
    uint8_t lo, hi;    /* bytes */
    uint8_t empty;     /* takes no byte: lo is an enum nfa_when */
};

/* Zero it, add states and edges, make it deterministic. Appends never fail half way: a lack of memory or of room is
 * remembered, later appends do nothing, and nfa_to_dfa tells. */
struct nfa {
    uint32_t *first; /* [n_state] first edge, UINT32_MAX = none */
    struct nfa_edge *edge;
    size_t n_state, cap_state, n_edge, cap_edge;
    bool no_memory, too_large;
};

/* A piece of an automaton with one way in and one way out. */
struct nfa_frag {
    uint32_t in, out;
};

uint32_t nfa_state(struct nfa *a);
void nfa_bytes(struct nfa *a, uint32_t from, uint32_t to, uint8_t lo, uint8_t hi);
void nfa_empty(struct nfa *a, uint32_t from, uint32_t to, enum nfa_when when);
/* The whole of d, read from `from` on, arriving in `to`. */
void nfa_dfa(struct nfa *a, uint32_t from, uint32_t to, const struct dfa *d);
void nfa_fini(struct nfa *a);
/* The words that lead from f.in to f.out, as a minimal automaton in fresh memory. */
glim_status nfa_to_dfa(struct dfa **out, const struct nfa *a, struct nfa_frag f, struct glim_err *e);

#endif
