/* Inside the grammar of calls.
 *
 *   calls.c        tools, frames, triggers
 *   calls_read.c   what the dialect's parser makes of a name
 *   calls_value.c  arguments that are no JSON object, by their schema */
#ifndef GLIM_TEXT_CALLS_IMPL_H
#define GLIM_TEXT_CALLS_IMPL_H

#include "base/str.h"
#include "text/calls.h"

/* How a name stands in a call: JSON escapes, entities, or as it is. */
void calls_spell_name(const struct dialect *d, struct str *out, const char *name);
/* A text of the frame, in which line breaks may be missing where the parser does not look at them. */
grammar_node calls_loose_text(struct grammar_builder *b, const struct dialect *d, const char *s);
/* The parser reads back a call of that tool, with a parameter of that name (NULL: without any); else GLIM_REFUSED. */
glim_status calls_check_name(const struct dialect *d, const char *tool, const char *key, struct glim_err *e);

/* ARGUMENTS of the frame as parameters or literals. root: the schema of an object; tool: as the parser is given it;
 * id: a number that no other tool of the builder has. */
glim_status calls_value_node(struct grammar_builder *b, const struct dialect *d, const json_t *tool, const json_t *root,
                             size_t id, grammar_node *out, struct glim_err *e);

/* Of all valid texts, those in which no mark occurs ([n], NULL entries are none) and no NUL. */
glim_status calls_text_without(const char *const *mark, size_t n, struct dfa **out, struct glim_err *e);

#endif
