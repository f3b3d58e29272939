/* Compiled grammars, kept: the grammar of a set of tools over a vocabulary of 128k tokens takes tens of milliseconds to
 * build, and an agent sends the same tools with every turn.
 *
 * A grammar is known by the SHA-256 of what it was made from. Those nobody uses stay until GRAMMARS_MAX newer ones have
 * been used. Any thread may call; two that ask for the same new grammar at once may both build it, and then share one.
 */
#ifndef GLIM_SERVE_GRAMMARS_H
#define GLIM_SERVE_GRAMMARS_H

#include "text/calls.h"

enum { GRAMMARS_MAX = 32 };

struct grammars;
struct grammar_lease;

glim_status grammars_create(struct grammars **out, const struct glim_model *m, const struct dialect *d,
                            struct glim_err *e);
void grammars_free(struct grammars *g);    /* after all leases were dropped */
size_t grammars_built(struct grammars *g); /* how many were built so far */

enum grammar_source { GRAMMAR_GBNF, GRAMMAR_SCHEMA, GRAMMAR_CALLS };
struct grammar_spec {
    enum grammar_source source;
    const char *text; /* GBNF, or a JSON Schema: n bytes */
    size_t n;
    const json_t *tools; /* CALLS */
    struct calls_opts calls;
    const char *after; /* begins behind this text; NULL: at once */
};
glim_status grammars_get(struct grammars *g, const struct grammar_spec *s, struct grammar_lease **out,
                         struct glim_err *e);
struct glim_grammar *grammar_of(const struct grammar_lease *l);
void grammar_drop(struct grammars *g, struct grammar_lease *l); /* NULL is fine */

#endif
