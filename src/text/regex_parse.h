/* A parsed regular expression: what regex_parse.c hands to regex.c. */
#ifndef GLIM_TEXT_REGEX_PARSE_H
#define GLIM_TEXT_REGEX_PARSE_H

#include "text/regex.h"

enum re_kind {
    RE_SET,    /* one character of set `set` */
    RE_CAT,    /* the children one after another; none: the empty text */
    RE_ALT,    /* one of the children */
    RE_REPEAT, /* the child min..max times */
    RE_START,  /* ^ */
    RE_END,    /* $ */
    RE_AHEAD   /* (?=child), (?!child) when negated */
};

enum { RE_NONE = 0xFFFFFFFF, RE_MANY = 0xFFFFFFFF };

struct re_node {
    enum re_kind kind;
    uint32_t child, next; /* first child, next sibling */
    uint32_t set, min, max;
    bool negated;
    uint32_t at; /* byte of the pattern where it begins */
};

/* Code points as ascending ranges that do not touch: range[first .. first + n). */
struct re_set {
    uint32_t first, n;
    uint64_t hash;
};

struct re {
    const char *pattern;
    size_t n;
    struct re_node *node;
    size_t n_node, cap_node;
    struct re_set *set;
    size_t n_set, cap_set;
    struct code_range *range;
    size_t n_range, cap_range;
    uint32_t root;
};

glim_status re_parse(struct re *r, const char *pattern, size_t n, struct glim_err *e); /* re_fini also on failure */
void re_fini(struct re *r);
/* "regular expression refused: /…/ at byte 3: have …, need …" */
glim_status re_refuse(const struct re *r, size_t at, const char *have, const char *need, struct glim_err *e);
/* add() gets the ranges of the property, ascending; *known tells whether there is one of that name. False when add()
 * said so. */
bool re_property(const char *name, size_t n, bool (*add)(void *user, uint32_t first, uint32_t last), void *user,
                 bool *known);

#endif
