/* Inside the JSON Schema compiler.
 *
 * A place in a document must satisfy several schemas at once: its own, the targets of $ref, the members of allOf, a
 * branch of each anyOf, what patternProperties and additionalProperties say. So the unit of work is a *conjunction*, a
 * set of schema objects (struct conj). It is expanded into alternatives without in-place keywords left (struct pure);
 * of these each type's part is built by itself. Conjunctions are kept by content: recursion through $ref meets the one
 * it began with, and becomes a grammar rule.
 *
 * The same expansion proves that nothing satisfies a conjunction (schema_is_empty), which is how oneOf shows its
 * branches disjoint and how unsatisfiable alternatives go. The proof may fail for what is empty, never the other way.
 *
 * `not` is pushed inwards: the negation of a schema is a list of schemas (schema_negate), one for each keyword, written
 * with ordinary keywords and three private ones that documents cannot have.
 *
 * schema.c          entry points, expansion of conjunctions, rules
 * schema_doc.c      pool, maps, the walk over the document, $ref
 * schema_table.c    keywords
 * schema_negate.c   not
 * schema_value.c    one pure alternative: types, literals, emptiness, arrays
 * schema_object.c   objects
 * schema_string.c   strings; schema_format.c: formats
 * schema_number.c   numbers */
#ifndef GLIM_TEXT_SCHEMA_IMPL_H
#define GLIM_TEXT_SCHEMA_IMPL_H

#include "base/str.h"
#include "text/regex.h"
#include "text/schema.h"

/* ---- memory that lives as long as one compilation, and maps from bytes ---- */

struct chunk {
    struct chunk *next;
    size_t used, size;
};
struct map_slot {
    const void *key;
    size_t n;
    uint64_t hash;
    void *value; /* NULL = free */
};
struct map {
    struct map_slot *slot;
    size_t n, cap;
};

enum { T_NULL = 1, T_BOOL = 2, T_NUMBER = 4, T_STRING = 8, T_ARRAY = 16, T_OBJECT = 32, T_ALL = 63 };

/* Keywords of schema_negate's results. */
#define KW_FRACTION     "\1fraction"    /* the number is no integer */
#define KW_NOT_ENUM     "\1notEnum"     /* as enum */
#define KW_NOT_PATTERN  "\1notPattern"  /* as pattern */
#define KW_NOT_FORMAT   "\1notFormat"   /* as format */
#define KW_NOT_MULTIPLE "\1notMultiple" /* as multipleOf */

/* What a keyword's value has to be. */
enum kw_value {
    KV_ANY,
    KV_BOOL,
    KV_STRING,
    KV_NUMBER,
    KV_BOUND, /* a number, or draft 4's boolean */
    KV_COUNT, /* an integer >= 0 */
    KV_LIST,
    KV_TYPE,
    KV_NAMES,      /* a list of strings */
    KV_NAME_LISTS, /* an object of lists of strings */
    KV_SCHEMA,
    KV_SCHEMAS,         /* a list of schemas, not empty */
    KV_SCHEMA_MAP,      /* an object of schemas */
    KV_SCHEMA_OR_LIST,  /* items of older drafts */
    KV_SCHEMA_OR_NAMES, /* an object of either (dependencies) */
    KV_NONE             /* the keyword is refused whatever it says */
};
const struct schema_keyword *schema_find_keyword(const char *name);

/* Where a schema object stands. */
struct info {
    const char *path; /* "#/properties/a" */
    const struct resource *resource;
};
struct resource {
    const json_t *root;
    const char *base; /* URI, "" = unknown */
};

struct pure {
    const json_t **node;
    size_t n;
    bool loose;
    bool known;             /* the fields below are filled in */
    unsigned live;          /* T_…: types that may have values */
    const json_t **literal; /* [n_literal] when an enum or const restricts the values */
    size_t n_literal;
    bool has_literal;
    struct object *object; /* what schema_object.c found out */
};

/* A conjunction as a list of alternatives, of which one must hold. The loose list may admit more than the conjunction
 * does (oneOf as anyOf, what cannot be negated left out): enough to prove that nothing satisfies it, and no such proof
 * needs another one. */
enum expansion { STRICT, LOOSE };
struct alternatives {
    struct pure *v;
    size_t n, cap;
    bool done;
};

enum emptiness { UNKNOWN, BUSY, EMPTY, MAYBE };
struct conj {
    const json_t **node; /* in the order they were met */
    size_t n;
    struct alternatives alt[2]; /* by enum expansion */
    enum emptiness empty;
    uint32_t rule;     /* + 1; 0 = none */
    grammar_node done; /* of a conjunction without arrays and objects */
};

struct sch {
    struct grammar_builder *b;
    struct glim_err *e;
    struct schema_opts opts;
    const json_t *root;
    struct chunk *pool;
    json_t **made; /* schemas that `not` and `if` made */
    size_t n_made, cap_made;
    struct map info;    /* schema object → struct info */
    struct map conj;    /* sorted addresses → struct conj */
    struct map dfa;     /* description → struct dfa_box */
    struct map made_of; /* a letter and a schema object → what was made of it: negation, dependencies, stripped copy */
    struct map target;  /* absolute URI or resource and anchor → json_t; marks of the cycle check */
    struct conj **due;  /* rules to define */
    size_t n_due, cap_due;
    char name[32]; /* rules are called this and a number */
    uint32_t n_rule;
    size_t bytes;                                       /* counted by the walk */
    size_t taken;                                       /* bytes of the pool */
    uint64_t work, dfa_work;                            /* spent; what of dfa_work() is in it. See schema_spend */
    int depth;                                          /* of emptiness proofs */
    grammar_node sp_colon, sp_comma, sp_open, sp_close; /* white space */
};

/* NULL when out of memory: `return schema_starved(s)`. */
void *schema_take(struct sch *s, size_t n);
char *schema_copy(struct sch *s, const char *p, size_t n);
glim_status schema_starved(const struct sch *s);
void *map_get(const struct map *m, const void *key, size_t n);
/* The key is copied into the pool. */
glim_status map_put(struct sch *s, struct map *m, const void *key, size_t n, void *value);
void schema_fini(struct sch *s);
/* Count work, so that no document takes long; GLIM_REFUSED when it is used up. */
glim_status schema_spend(struct sch *s, size_t n);

/* "schema refused: <path of node>/<keyword>: have …, need …"; keyword may be NULL. */
glim_status schema_refuse(const struct sch *s, const json_t *node, const char *keyword, const char *have,
                          const char *need);
/* Put that place before the sentence in s->e, unless one stands there or memory was short. */
glim_status schema_blame(const struct sch *s, const json_t *node, const char *keyword);
/* The same at the first of p's nodes that has one of these keywords. */
glim_status pure_blame(const struct sch *s, const struct pure *p, const char *const *keyword, size_t n);
const struct info *schema_info(const struct sch *s, const json_t *node);
/* Keep `made` (NULL: no memory) until the end, as standing where `origin` does. */
glim_status schema_keep(struct sch *s, json_t *made, const json_t *origin);

/* Check the whole document and note where everything is. */
glim_status schema_walk(struct sch *s, const json_t *root);
glim_status schema_resolve(struct sch *s, const json_t *node, const json_t **target);

/* ---- conjunctions ---- */

struct nodes {
    const json_t **v;
    size_t n, cap;
};
glim_status nodes_add(struct sch *s, struct nodes *l, const json_t *node);
glim_status schema_conj(struct sch *s, const struct nodes *l, struct conj **out);
glim_status schema_expand(struct sch *s, struct conj *c, enum expansion how);
glim_status schema_is_empty(struct sch *s, struct conj *c, bool *empty);
/* Does the value satisfy all of it? */
glim_status schema_validates(struct sch *s, struct conj *c, enum expansion how, const json_t *value, int depth,
                             bool *ok);
/* The grammar of a conjunction's values. */
glim_status schema_build(struct sch *s, struct conj *c, grammar_node *out);

/* The schemas of which one must hold where `node` must not. */
struct negation {
    const json_t **v;
    size_t n;
};
glim_status schema_negate(struct sch *s, const json_t *node, const struct negation **out);
/* dependentRequired and its like: pairs of alternatives, [2 * n]: that the name is absent, that it is there with what
 * it asks for (a schema made, or two in turn: then `also` is the second). */
struct dependency {
    const json_t *absent, *present, *also;
};
glim_status schema_dependencies(struct sch *s, const json_t *node, struct dependency **out, size_t *n);
/* The node without the keywords that apply in place. */
glim_status schema_strip(struct sch *s, const json_t *node, const json_t **out);

/* ---- one alternative ---- */

glim_status pure_settle(struct sch *s, struct pure *p); /* fill in live and the literals */
glim_status pure_build(struct sch *s, struct pure *p, grammar_node *out);
glim_status pure_validates(struct sch *s, struct pure *p, const json_t *value, int depth, bool *ok);
unsigned schema_node_types(const json_t *node, bool *integer); /* what `type` and `nullable` say */
bool schema_equal(const json_t *a, const json_t *b);           /* 1 equals 1.0 */
bool schema_says_nothing(const json_t *v);                     /* true or {} */
/* May unevaluatedItems or unevaluatedProperties of this node be read as items or additionalProperties? */
bool schema_alone(const json_t *node);

glim_status array_is_empty(struct sch *s, struct pure *p, bool *empty);
glim_status array_build(struct sch *s, struct pure *p, grammar_node *out);
glim_status array_validates(struct sch *s, struct pure *p, const json_t *value, int depth, bool *ok);

glim_status object_is_empty(struct sch *s, struct pure *p, bool *empty);
glim_status object_build(struct sch *s, struct pure *p, grammar_node *out);
glim_status object_validates(struct sch *s, struct pure *p, const json_t *value, int depth, bool *ok);

/* All strings that satisfy c. */
glim_status string_conj(struct sch *s, struct conj *c, const struct dfa **out);
glim_status string_is_empty(struct sch *s, struct pure *p, bool *empty);
glim_status string_validates(struct sch *s, struct pure *p, const json_t *value, bool *ok);
glim_status string_build(struct sch *s, struct pure *p, grammar_node *out);
/* A string's canonical spelling, quotes included. */
void string_literal(struct str *out, const char *p, size_t n);
/* Values to spellings. */
glim_status string_spell(struct sch *s, const struct dfa *values, struct dfa **out);
/* Every string / every string in its canonical spelling. */
glim_status string_any(struct sch *s, const struct dfa **out);
glim_status string_any_spelled(struct sch *s, const struct dfa **out);
/* These texts, byte by byte. */
glim_status string_list(struct sch *s, const struct str *text, size_t n, struct dfa **out);
glim_status string_pattern(struct sch *s, const json_t *node, const char *keyword, const char *pattern, size_t n,
                           const struct dfa **out);

glim_status number_is_empty(struct sch *s, struct pure *p, bool *empty);
glim_status number_validates(struct sch *s, struct pure *p, const json_t *value, bool *ok);
glim_status number_build(struct sch *s, struct pure *p, grammar_node *out);
void number_literal(struct str *out, const json_t *value); /* shortest spelling */
bool number_equal(const json_t *a, const json_t *b);
bool number_is_integer(const json_t *value);

/* ---- automata by description ---- */

/* NULL when it is not there yet. */
const struct dfa *schema_dfa_get(const struct sch *s, const struct str *key);
/* s owns d from now on, also on failure; *out = d. */
glim_status schema_dfa_put(struct sch *s, const struct str *key, struct dfa *d, const struct dfa **out);

struct schema_format {
    const char *name, *regex; /* NULL: known, and not enforced */
    bool exact;               /* the regex leaves nothing out, so that the format can be negated */
};
const struct schema_format *schema_find_format(const char *name);

/* min and max of count keywords over all nodes; *max = GRAMMAR_MANY when there is none. */
void pure_counts(const struct pure *p, const char *least, const char *most, uint32_t *min, uint32_t *max);
grammar_node schema_seq(struct sch *s, const grammar_node *v, size_t n);
grammar_node schema_maybe(struct sch *s, grammar_node v); /* v or nothing */
grammar_node schema_rule(struct sch *s, grammar_node v);  /* v as a rule of its own, so that it does not nest */

#endif
