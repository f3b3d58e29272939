/* Shared by the two halves of the compiler: facts about nodes, and automata as terminals. */
#ifndef GLIM_TEXT_GRAMMAR_COMPILE_H
#define GLIM_TEXT_GRAMMAR_COMPILE_H

#include "text/grammar_impl.h"

enum {
    G_ENDLESS = 0xFFFFFF,
    /* A repetition of up to so many states is written out instead of counted. Of counts, masks forget what is larger
     * than tokens are long; states that are written out all have masks of their own. */
    G_WRITE_OUT = 24
};

struct g_facts {
    bool empty;      /* it matches the empty text */
    bool useful;     /* it matches some text */
    bool quick;      /* it matches some single character (not told of sequences with parts that may not be empty) */
    bool turns;      /* it is a rule's, and each circle of rules that the root leads to has at least one such */
    uint8_t walked;  /* while finding that out */
    uint32_t length; /* bytes of its longest text; G_ENDLESS = that or more */
    uint32_t n_user; /* places that use it */
    uint32_t size;   /* about how many states it takes */
};

/* How often a repetition's turn is written when it is written out, and is it? Otherwise it is a call that counts. */
static inline uint32_t g_turns(const struct g_node *repeat)
{
    return repeat->max != GRAMMAR_MANY ? repeat->max : repeat->min > 0 ? repeat->min : 1;
}
static inline bool g_is_written_out(const struct g_node *repeat, const struct g_facts *turn)
{
    return g_turns(repeat) == 1 || (uint64_t)g_turns(repeat) * turn->size <= G_WRITE_OUT;
}

/* f: [n_node], zeroed. */
glim_status g_analyse(const struct grammar_builder *b, grammar_node root, struct g_facts *f, struct glim_err *e);

/* Set every rule's order; refuses left recursion by name. of_rule: the node of each rule. */
glim_status g_order(struct grammar *g, const struct grammar_builder *b, const uint32_t *of_rule, struct glim_err *e);

/* Bytes of the longest text that a trimmed automaton accepts, or G_ENDLESS. */
glim_status g_dfa_length(const struct dfa *d, uint32_t *length, struct glim_err *e);

#endif
