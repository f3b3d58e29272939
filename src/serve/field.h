/* Tables that describe JSON: what a request may say, and what replies look like.
 *
 * A shape says which kinds of JSON value are fine and, for each kind, its limits: one shape is a union of kinds.
 * Objects list their members; a member that no shape speaks of is refused by its path, or only reported where the
 * server is told to be lax. From the same table come the check of a request (the only one there is), the getters' trust
 * in what they get, the JSON Schema of /openapi.json, and docs/SERVER.md.
 *
 * Shapes are static: written as designated initialisers, with the macros below for the common ones. A shape with a name
 * is a component of /openapi.json; it may refer to itself. A row without designators but its name's writes .shape =,
 * for the compiler's sake. */
#ifndef GLIM_SERVE_FIELD_H
#define GLIM_SERVE_FIELD_H

#include "base/json.h"
#include "base/str.h"

enum {
    FIELD_NULL = 1,
    FIELD_BOOL = 2,
    FIELD_INT = 4,    /* 3, and 3.0, as JSON Schema has it */
    FIELD_NUMBER = 8, /* any number */
    FIELD_STRING = 16,
    FIELD_ARRAY = 32,
    FIELD_OBJECT = 64,
    FIELD_ANY = 127
};

struct field_shape;

/* A member of an object. */
struct field {
    const char *name;
    const struct field_shape *shape;
    bool required;
    bool nullable;       /* null is fine too, and means the same as leaving it out */
    const char *refused; /* not NULL: why there can be no such member; null alone is fine */
    const char *doc;     /* one sentence, "" where the name says it all */
};

/* One of the shapes an object may have, by the value of a member. */
struct field_variant {
    const char *word;
    const struct field_shape *shape;
    const char *refused; /* not NULL: why this one cannot be */
};

struct field_shape {
    const char *name; /* its component's; NULL: written where it is used */
    const char *doc;
    unsigned kinds; /* FIELD_… */
    /* INT, NUMBER */
    bool bounded;
    double min, max;
    /* STRING */
    const char *const *words;    /* the only ones, up to a NULL; NULL: any */
    size_t min_chars, max_chars; /* code points; max 0: any number */
    /* ARRAY */
    const struct field_shape *item;
    size_t min_items, max_items; /* max 0: any number */
    bool uniform;                /* items are all of one kind */
    /* OBJECT: members, those of another shape (which may go on), and what members of any other name must be (NULL:
     * there are none) */
    const struct field *field;
    size_t n_field;
    const struct field_shape *also, *rest;
    /* OBJECT, instead: the shape is chosen by the string member `tag`; without it, by `untagged` (NULL: it is
     * required). The chosen shape lists `tag` as a member too. */
    const char *tag;
    const struct field_variant *variant;
    size_t n_variant;
    const struct field_shape *untagged;
};

#define FIELD_SHAPE(...)    (&(const struct field_shape){__VA_ARGS__})
#define FIELD_MEMBERS(list) .kinds = FIELD_OBJECT, .field = (list), .n_field = sizeof(list) / sizeof *(list)
#define FIELD_VARIANTS(member, list)                                                                                   \
    .kinds = FIELD_OBJECT, .tag = (member), .variant = (list), .n_variant = sizeof(list) / sizeof *(list)
#define FIELD_NUMBER_IN(lo, hi) FIELD_SHAPE(.kinds = FIELD_NUMBER, .bounded = true, .min = (lo), .max = (hi))
#define FIELD_INT_IN(lo, hi)    FIELD_SHAPE(.kinds = FIELD_INT, .bounded = true, .min = (lo), .max = (hi))
#define FIELD_WORDS(...)        FIELD_SHAPE(.kinds = FIELD_STRING, .words = (const char *const[]){__VA_ARGS__, NULL})
#define FIELD_LIST_OF(shape)    FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = (shape))

extern const struct field_shape field_any, field_bool, field_text, field_number, field_int,
    field_object;                              /* no limits */
extern const struct field_shape field_count;   /* an integer from 0 */
extern const struct field_shape field_token;   /* a token id */
extern const struct field_shape field_nothing; /* null */

/* ---- checking ---- */

enum { FIELD_PATH_MAX = 160 };

struct field_report {
    bool lax;                  /* in: unknown members are no error */
    char path[FIELD_PATH_MAX]; /* out: where the error is: "messages[2].content"; "" is the whole value */
    struct str ignored;        /* out, when lax: paths of unknown members joined by ", ", at most a thousand bytes */
};
void field_report_fini(struct field_report *r);

/* GLIM_REFUSED: "messages[2].content: have a number, need a string, an array or null". */
glim_status field_check(const struct field_shape *s, const json_t *v, struct field_report *r, struct glim_err *e);

/* ---- reading what was checked ---- */

const json_t *field_get(const json_t *object, const char *name); /* NULL when absent or null */
bool field_get_bool(const json_t *object, const char *name, bool otherwise);
int64_t field_get_int(const json_t *object, const char *name, int64_t otherwise);
double field_get_number(const json_t *object, const char *name, double otherwise);
const char *field_get_text(const json_t *object, const char *name, size_t *n); /* NULL when absent or null */

/* ---- printing ---- */

/* The JSON Schema where the shape is used: a $ref for one that has a name. */
void field_print_schema(struct str *out, const struct field_shape *s);
/* "name":{…} for each named shape that s reaches and that is not in `seen`, joined by commas. */
struct field_seen {
    const struct field_shape **shape;
    size_t n, cap;
};
void field_print_components(struct str *out, const struct field_shape *s, struct field_seen *seen);
void field_seen_fini(struct field_seen *s);
/* "a number from 0 to 2", "a string or an array of strings". */
void field_print_kind(struct str *out, const struct field_shape *s);

#endif
