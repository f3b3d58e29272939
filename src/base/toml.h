/* The part of TOML that glim.toml needs: one `key = value` a line at the top level, comments, and values that are
 * strings, whole numbers, decimal numbers or booleans. Tables, arrays, dates, dotted or quoted keys and multi-line
 * strings are refused. */
#ifndef GLIM_BASE_TOML_H
#define GLIM_BASE_TOML_H

#include "base/status.h"

enum toml_kind { TOML_STRING, TOML_INT, TOML_FLOAT, TOML_BOOL };
const char *toml_kind_name(enum toml_kind k); /* "a string", "a whole number", … */

struct toml_item {
    char *key;
    char *text; /* the string itself; a number without its underscores; "true" or "false" */
    enum toml_kind kind;
    int line; /* from 1 */
};
struct toml {
    struct toml_item *item; /* in the order of the file */
    size_t n, cap;
};

/* Parse n bytes. Errors name `what` and the line; a key that comes twice is one. On failure *t is empty. */
glim_status toml_parse(struct toml *t, const char *p, size_t n, const char *what, struct glim_err *e);
void toml_free(struct toml *t);

#endif
