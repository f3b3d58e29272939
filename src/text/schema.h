/* JSON Schema as a grammar: whatever the grammar admits is valid under the schema.
 *
 * Draft 2020-12, with OpenAPI's `nullable` and the older spellings of tuples and exclusive bounds. schema_keywords
 * tells what is known of each keyword. What cannot be enforced exactly is refused before generation, by the JSON
 * pointer of the keyword ("schema refused: #/properties/a/contains: have …, need …"); so is an unknown keyword (names
 * that begin with x- are annotations), and a schema that no value satisfies.
 *
 * A value can be spelled in many ways. The grammar admits these:
 *   - Objects: declared properties in the order of the schema, then required ones that are not declared, then others.
 *     No property comes twice, but that two of the others may have one name is beyond an automaton; each value is valid
 *     by itself, so a parser that takes either is served.
 *   - Strings: characters as they are, and the escapes that JSON demands in their short form (\n, \u001f). A string
 *     that no keyword restricts but its length may use every escape. U+0000 does not occur.
 *   - Integers: digits, from -2^63 to 2^63-1, no -0. Other numbers: with a fraction of which all digits together are
 *     at most 15, so that different spellings are different doubles; an exponent of at most two digits only where no
 *     keyword restricts the number. A bound is read as the shortest decimal that means its double.
 *   - White space: struct schema_opts. */
#ifndef GLIM_TEXT_SCHEMA_H
#define GLIM_TEXT_SCHEMA_H

#include "base/json.h"
#include "text/grammar.h"

enum schema_space {
    SCHEMA_SPACE_MAYBE,  /* a space or none after each colon and comma: both are what models were trained on, and there
                            is no way to run on */
    SCHEMA_SPACE_ALWAYS, /* one space after each colon and comma */
    SCHEMA_SPACE_NONE,
    SCHEMA_SPACE_FREE /* also a line break and at most 32 blanks after [ { and commas, and before ] } */
};

struct schema_opts {
    enum schema_space space;
    bool closed; /* objects that declare properties hold no others, where additionalProperties, patternProperties,
                    propertyNames, unevaluatedProperties and minProperties say nothing: fewer values, all valid, and no
                    room for a small model to go on and on */
};

enum {
    SCHEMA_MAX_BYTES = 1 << 20, /* of names, strings and punctuation, counted while walking */
    SCHEMA_MAX_DEPTH = 128,     /* nesting of schemas, and of values in enum */
    SCHEMA_MAX_BRANCHES = 512,  /* combinations of anyOf, oneOf and if in one place */
    SCHEMA_MAX_CHOICES = 20000  /* states of counting an object's properties */
};

/* opts: NULL = the defaults. */
glim_status schema_compile(struct grammar **out, const json_t *schema, const struct schema_opts *opts,
                           struct glim_err *e);
/* The same as a node of a larger grammar. */
glim_status schema_node(struct grammar_builder *b, const json_t *schema, const struct schema_opts *opts,
                        grammar_node *out, struct glim_err *e);
/* Any JSON value, and any object (response_format json_object). */
glim_status schema_any(struct grammar_builder *b, const struct schema_opts *opts, grammar_node *out,
                       struct glim_err *e);
glim_status schema_any_object(struct grammar_builder *b, const struct schema_opts *opts, grammar_node *out,
                              struct glim_err *e);

/* ---- what is known ---- */

enum schema_level {
    SCHEMA_EXACT,   /* enforced */
    SCHEMA_PARTLY,  /* enforced, or refused where that cannot be done */
    SCHEMA_IGNORED, /* says nothing about validity */
    SCHEMA_REFUSED
};
struct schema_keyword {
    const char *name;
    enum schema_level level;
    uint8_t value; /* enum kw_value */
    const char *doc;
};
extern const struct schema_keyword schema_keywords[];
extern const size_t schema_n_keyword;
const char *schema_level_name(enum schema_level level); /* "exact", … */
/* The i-th known format and whether it is enforced; NULL after the last. */
const char *schema_format_name(size_t i, bool *enforced);

#endif
