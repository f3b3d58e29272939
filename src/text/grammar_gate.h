/* A grammar that begins later: when a tool call begins, or after reasoning.
 *
 * A gate lets everything pass until one of its triggers has appeared: a text, wherever it lies across tokens, or a
 * token. What follows the trigger inside the same token is already under the grammar. From then on the gate is a
 * grammar state. Tokens are the steps, and it goes back over any number of them, the trigger included.
 *
 * Exact here too: while it waits, a token is admitted unless it completes a trigger and goes on in a way that the
 * grammar does not. Triggers that end at the same byte: the longest counts. A token without text separates: no trigger
 * lies across it. */
#ifndef GLIM_TEXT_GRAMMAR_GATE_H
#define GLIM_TEXT_GRAMMAR_GATE_H

#include "text/grammar.h"

enum { GRAMMAR_TRIGGER_MAX = 1024 }; /* bytes of all triggers of a gate together */

struct grammar_trigger {
    const char *s; /* n bytes; n = 0: the token */
    size_t n;
    uint32_t token;
    bool keep; /* the text's first bytes are the trigger itself; else the text begins after it */
};

struct grammar_gate;
/* may_end: the answer may end before any trigger (tool calls: yes; an answer after reasoning: no). Triggers are copied.
 * Refused: a kept trigger that no sentence begins with. m must outlive the gate. */
glim_status grammar_gate_create(struct grammar_gate **out, struct grammar_matcher *m, const struct grammar_trigger *t,
                                size_t n, bool may_end, struct glim_err *e);
void grammar_gate_free(struct grammar_gate *g);

bool grammar_gate_active(const struct grammar_gate *g); /* the grammar has begun */
/* As grammar_accept, grammar_taken, … of a state. */
glim_status grammar_gate_accept(struct grammar_gate *g, uint32_t id, struct glim_err *e);
size_t grammar_gate_taken(const struct grammar_gate *g);
void grammar_gate_rollback(struct grammar_gate *g, size_t steps);
bool grammar_gate_can_end(const struct grammar_gate *g);
glim_status grammar_gate_mask(struct grammar_gate *g, uint64_t *bits, struct glim_err *e);
glim_status grammar_gate_forced(struct grammar_gate *g, int64_t *id, struct glim_err *e);

#endif
