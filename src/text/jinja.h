/* Jinja, as chat templates use it: parse once, render many times.
 *
 * The language is Jinja2 3.1 as the `transformers` library sets it up (immutable sandbox, trim_blocks, lstrip_blocks,
 * loop controls, the `generation` block, `tojson` without HTML escapes, `raise_exception`, `strftime_now`). What this
 * engine does not know is refused by name when the template is parsed or reached, never skipped.
 *
 * Marking. Every string remembers, run by run, whether its bytes come from the template (trusted) or from the values
 * that a client sent (data). Joining, cutting, stripping, splitting and replacing keep the runs; whatever makes new
 * text out of several sources (tojson, repr, upper on a mixed string) gives data as soon as one source was data. So a
 * special token can be looked for in trusted bytes alone, and no user can write one.
 *
 * Limits. A render has a budget of steps and of memory, made from the size of its input, and a depth of calls: the same
 * template with the same input always ends at the same place, whatever the machine. Templates of model files are
 * strangers. */
#ifndef GLIM_TEXT_JINJA_H
#define GLIM_TEXT_JINJA_H

#include "base/json.h"
#include "base/str.h"

#include <time.h>

struct jinja;

/* n bytes of UTF-8; name is used in error sentences. The text is copied. */
glim_status jinja_open(struct jinja **t, const char *text, size_t n, const char *name, struct glim_err *e);
void jinja_close(struct jinja *t);

/* A global variable of a render. value: strings inside are data, but for trusted = true; NULL is None.
 * word_key, words (may be NULL; words ends with NULL): in a list of objects, a string under word_key that equals one of
 * the words is trusted all the same. Templates write "<|" + role + "|>", and a fixed list of roles makes no new token.
 */
struct jinja_var {
    const char *name;
    const json_t *value;
    bool trusted;
    const char *word_key;
    const char *const *words;
};

struct jinja_span {
    size_t n; /* bytes */
    bool trusted;
};

/* Text and its runs; the spans' n add up to text.n, neighbours differ in `trusted`. */
struct jinja_output {
    struct str text;
    struct jinja_span *span;
    size_t n_span;
};

/* now: local time for strftime_now. Later variables win over earlier ones of the same name. On failure *out is empty.
 * Several threads may render one template at once. */
glim_status jinja_render(const struct jinja *t, const struct jinja_var *var, size_t n_var, const struct tm *now,
                         struct jinja_output *out, struct glim_err *e);
void jinja_output_fini(struct jinja_output *out);

/* Does the template's text read a variable or attribute of this name anywhere? */
bool jinja_mentions(const struct jinja *t, const char *name);

/* ---- what the engine knows, for docs: i = 0, 1, … until NULL ---- */
enum jinja_kind {
    JINJA_STATEMENT,
    JINJA_FILTER,
    JINJA_TEST,
    JINJA_FUNCTION,
    JINJA_STR_METHOD,
    JINJA_LIST_METHOD,
    JINJA_DICT_METHOD,
    JINJA_REFUSED, /* names Jinja2 or Python know and this engine refuses */
    JINJA_KIND_COUNT
};
const char *jinja_kind_name(enum jinja_kind k);
const char *jinja_feature(enum jinja_kind k, size_t i);

#endif
