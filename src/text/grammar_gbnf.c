/* GBNF, the grammar notation of llama.cpp.
 *
 *   file         rule*                                     blanks, newlines and # comments between
 *   rule         name ::= alternatives newline             a newline may follow ::=
 *   alternatives sequence ("|" sequence)*                  newlines may follow |, and stand anywhere inside ( )
 *   sequence     (item repeat*)*
 *   item         "text" | [class] | [^class] | . | name | ( alternatives )
 *   repeat       * | + | ? | {m} | {m,} | {m,n}
 *   escapes      \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH, in texts and classes
 *
 * Terminals that name tokens of a vocabulary (<think>, <[1000]>, !<think>) are refused: a grammar is over bytes here.
 */
#include "text/grammar_impl.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { NEST_MAX = 256 };

struct gbnf {
    const char *text, *p, *end;
    struct grammar_builder *b;
    grammar_node *node; /* a stack: the items of all open sequences and alternatives */
    size_t n_node, cap_node;
    struct str chars;         /* of a text */
    struct code_range *range; /* of a class */
    size_t n_range, cap_range;
    struct name_use {
        uint32_t rule;
        const char *at;
    } * use; /* references, in their order */
    size_t n_use, cap_use;
    int depth;
    struct glim_err *e;
};

/* "grammar: line 3, column 7: have <have>, need <need>"; columns count bytes. */
static glim_status fail_at(const struct gbnf *g, const char *at, const char *have, const char *need)
{
    size_t line = 1;
    const char *begin = g->text;
    for (const char *p = g->text; p < at; p++)
        if (*p == '\n') {
            line++;
            begin = p + 1;
        }
    return err_set(g->e, GLIM_REFUSED, "grammar: line %zu, column %zu: have %s, need %s", line,
                   (size_t)(at - begin) + 1, have, need);
}

/* As fail_at, for whatever stands there. */
static glim_status fail_here(const struct gbnf *g, const char *need)
{
    char have[16];
    if (g->p == g->end)
        return fail_at(g, g->p, "the end of the text", need);
    if (*g->p == '\n' || *g->p == '\r')
        return fail_at(g, g->p, "the end of the line", need);
    if ((uint8_t)*g->p < 0x20 || (uint8_t)*g->p > 0x7E)
        snprintf(have, sizeof have, "byte 0x%02X", (uint8_t)*g->p);
    else
        snprintf(have, sizeof have, "'%c'", *g->p);
    return fail_at(g, g->p, have, need);
}

static glim_status no_memory(struct gbnf *g)
{
    return err_nomem(g->e, "grammar", g->n_node * sizeof *g->node);
}

static bool at(const struct gbnf *g, const char *s)
{
    size_t n = strlen(s);
    return (size_t)(g->end - g->p) >= n && memcmp(g->p, s, n) == 0;
}

static void skip(struct gbnf *g, bool newlines)
{
    while (g->p < g->end) {
        if (*g->p == '#')
            while (g->p < g->end && *g->p != '\n' && *g->p != '\r')
                g->p++;
        else if (*g->p == ' ' || *g->p == '\t' || (newlines && (*g->p == '\n' || *g->p == '\r')))
            g->p++;
        else
            return;
    }
}

static bool is_digit(const struct gbnf *g)
{
    return g->p < g->end && *g->p >= '0' && *g->p <= '9';
}

static bool is_name(const struct gbnf *g)
{
    return is_digit(g) || (g->p < g->end && ((*g->p >= 'a' && *g->p <= 'z') || (*g->p >= 'A' && *g->p <= 'Z') ||
                                             *g->p == '-' || *g->p == '_'));
}

/* A name; 0 on failure, which the builder remembers. */
static uint32_t rule_name(struct gbnf *g)
{
    const char *p = g->p;
    while (is_name(g))
        g->p++;
    return grammar_rule(g->b, p, (size_t)(g->p - p));
}

static glim_status push(struct gbnf *g, grammar_node x)
{
    if (!mem_grow((void **)&g->node, &g->cap_node, g->n_node, sizeof *g->node))
        return no_memory(g);
    g->node[g->n_node++] = x;
    return GLIM_OK;
}

/* ---- characters ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static glim_status hex_code(struct gbnf *g, const char *from, int n, uint32_t *code)
{
    char utf8[4];
    *code = 0;
    for (int i = 0; i < n; i++, g->p++) {
        if (g->p == g->end || hex(*g->p) < 0)
            return fail_here(g, "a hexadecimal digit");
        *code = *code << 4 | (uint32_t)hex(*g->p);
    }
    if (utf8_encode(*code, utf8) == 0)
        return fail_at(g, from, "an escape that is no character", "a code point up to 10FFFF, surrogates excepted");
    return GLIM_OK;
}

/* One character or escape of a text or class. */
static glim_status character(struct gbnf *g, uint32_t *code)
{
    const char *from = g->p;
    if (g->p == g->end)
        return fail_here(g, "a character");
    if (*g->p != '\\') {
        int n = utf8_decode((const uint8_t *)g->p, (size_t)(g->end - g->p), code);
        g->p += n;
        return n ? GLIM_OK : fail_here(g, "UTF-8");
    }
    if (++g->p == g->end)
        return fail_here(g, "an escape");
    switch (*g->p++) {
    case 'n':
        *code = '\n';
        return GLIM_OK;
    case 'r':
        *code = '\r';
        return GLIM_OK;
    case 't':
        *code = '\t';
        return GLIM_OK;
    case '\\':
        *code = '\\';
        return GLIM_OK;
    case '"':
        *code = '"';
        return GLIM_OK;
    case '[':
        *code = '[';
        return GLIM_OK;
    case ']':
        *code = ']';
        return GLIM_OK;
    case 'x':
        return hex_code(g, from, 2, code);
    case 'u':
        return hex_code(g, from, 4, code);
    case 'U':
        return hex_code(g, from, 8, code);
    default:
        return fail_at(g, from, "an unknown escape", "one of \\n \\r \\t \\\\ \\\" \\[ \\] \\x \\u \\U");
    }
}

static glim_status text_item(struct gbnf *g)
{
    const char *from = g->p++;
    str_clear(&g->chars);
    while (g->p < g->end && *g->p != '"') {
        uint32_t code;
        char utf8[4];
        TRY(character(g, &code));
        str_add(&g->chars, utf8, (size_t)utf8_encode(code, utf8));
    }
    if (g->p == g->end)
        return fail_at(g, from, "a text without end", "a closing \"");
    g->p++;
    return g->chars.failed ? no_memory(g) : push(g, grammar_text(g->b, g->chars.s, g->chars.n));
}

static glim_status class_item(struct gbnf *g)
{
    const char *from = g->p++;
    bool negated = g->p < g->end && *g->p == '^';
    g->p += negated;
    g->n_range = 0;
    while (g->p < g->end && *g->p != ']') {
        const char *first = g->p;
        struct code_range r;
        TRY(character(g, &r.first));
        r.last = r.first;
        if (g->end - g->p >= 2 && g->p[0] == '-' && g->p[1] != ']') {
            g->p++;
            TRY(character(g, &r.last));
        }
        if (r.first > r.last)
            return fail_at(g, first, "a range that descends", "its first character before its last");
        if (!mem_grow((void **)&g->range, &g->cap_range, g->n_range, sizeof *g->range))
            return no_memory(g);
        g->range[g->n_range++] = r;
    }
    if (g->p == g->end)
        return fail_at(g, from, "a character class without end", "a closing ]");
    g->p++;
    return push(g, grammar_class(g->b, g->range, g->n_range, negated));
}

/* ---- items ---- */

static glim_status alternatives(struct gbnf *g, bool nested, grammar_node *out);

static glim_status reference(struct gbnf *g)
{
    const char *from = g->p;
    uint32_t rule = rule_name(g);
    if (!mem_grow((void **)&g->use, &g->cap_use, g->n_use, sizeof *g->use))
        return no_memory(g);
    g->use[g->n_use++] = (struct name_use){rule, from};
    return push(g, grammar_ref(g->b, rule));
}

static glim_status group(struct gbnf *g)
{
    const char *from = g->p++;
    grammar_node x;
    if (g->depth == NEST_MAX)
        return fail_at(g, from, "too deep a nesting", "at most 256 levels");
    g->depth++;
    skip(g, true);
    TRY(alternatives(g, true, &x));
    if (g->p == g->end || *g->p != ')')
        return fail_here(g, "')' or an item");
    g->p++;
    g->depth--;
    return push(g, x);
}

static glim_status count(struct gbnf *g, uint32_t *n)
{
    uint64_t v = 0;
    const char *from = g->p;
    if (!is_digit(g))
        return fail_here(g, "a number");
    for (; is_digit(g); g->p++)
        if ((v = v * 10 + (uint64_t)(*g->p - '0')) >= GRAMMAR_MANY)
            return fail_at(g, from, "too large a number", "one below 4294967295");
    *n = (uint32_t)v;
    return GLIM_OK;
}

/* {m}, {m,} or {m,n} */
static glim_status counts(struct gbnf *g, bool nested, uint32_t *min, uint32_t *max)
{
    const char *from = g->p++;
    skip(g, nested);
    TRY(count(g, min));
    *max = *min;
    skip(g, nested);
    if (g->p < g->end && *g->p == ',') {
        g->p++;
        *max = GRAMMAR_MANY;
        skip(g, nested);
        if (is_digit(g))
            TRY(count(g, max));
        skip(g, nested);
    }
    if (g->p == g->end || *g->p != '}')
        return fail_here(g, "'}'");
    g->p++;
    if (*min > *max)
        return fail_at(g, from, "a repetition with more than its most", "its counts in ascending order");
    return GLIM_OK;
}

/* Whatever repetitions follow the item on top of the stack. */
static glim_status repeats(struct gbnf *g, bool nested)
{
    for (;;) {
        uint32_t min = 0, max = GRAMMAR_MANY;
        skip(g, nested);
        char c = g->p < g->end ? *g->p : 0;
        if (c == '{') {
            TRY(counts(g, nested, &min, &max));
        } else if (c == '*' || c == '+' || c == '?') {
            min = c == '+';
            max = c == '?' ? 1 : GRAMMAR_MANY;
            g->p++;
        } else {
            return GLIM_OK;
        }
        g->node[g->n_node - 1] = grammar_repeat(g->b, g->node[g->n_node - 1], min, max);
    }
}

/* *found: there was one. */
static glim_status item(struct gbnf *g, bool *found)
{
    char c = g->p < g->end ? *g->p : 0;
    *found = true;
    if (is_name(g))
        return reference(g);
    switch (c) {
    case '"':
        return text_item(g);
    case '[':
        return class_item(g);
    case '(':
        return group(g);
    case '.':
        g->p++;
        return push(g, grammar_class(g->b, NULL, 0, true));
    case '*':
    case '+':
    case '?':
    case '{':
        return fail_here(g, "an item before the repetition");
    case '<':
    case '!':
        return fail_here(g, "an item over characters (tokens of a vocabulary cannot be named)");
    default:
        *found = false;
        return GLIM_OK;
    }
}

/* ---- rules ---- */

static glim_status sequence(struct gbnf *g, bool nested, grammar_node *out)
{
    size_t first = g->n_node;
    for (bool found = true; found;) {
        TRY(item(g, &found));
        if (found)
            TRY(repeats(g, nested));
    }
    *out = grammar_seq(g->b, g->node ? g->node + first : NULL, g->n_node - first);
    g->n_node = first;
    return GLIM_OK;
}

static glim_status alternatives(struct gbnf *g, bool nested, grammar_node *out)
{
    size_t first = g->n_node;
    grammar_node x;
    TRY(sequence(g, nested, &x));
    TRY(push(g, x));
    while (g->p < g->end && *g->p == '|') {
        g->p++;
        skip(g, true);
        TRY(sequence(g, nested, &x));
        TRY(push(g, x));
    }
    *out = grammar_alt(g->b, g->node + first, g->n_node - first);
    g->n_node = first;
    return GLIM_OK;
}

static glim_status rule(struct gbnf *g)
{
    const char *from = g->p;
    grammar_node x;
    if (!is_name(g))
        return fail_here(g, "the name of a rule");
    uint32_t r = rule_name(g);
    skip(g, false);
    if (!at(g, "::="))
        return fail_here(g, "'::='");
    if (grammar_defined(g->b, r))
        return fail_at(g, from, "a second definition of the rule", "one");
    g->p += 3;
    skip(g, true);
    TRY(alternatives(g, false, &x));
    grammar_define(g->b, r, x);
    if (g->p < g->end && *g->p != '\n' && *g->p != '\r')
        return fail_here(g, "an item, '|' or the end of the line");
    skip(g, true);
    return GLIM_OK;
}

static glim_status file(struct gbnf *g, uint32_t *root)
{
    char have[G_NAME_MAX + 32];
    skip(g, true);
    while (g->p < g->end && g->b->err.status == GLIM_OK)
        TRY(rule(g));
    *root = grammar_rule(g->b, "root", 4);
    if (g->b->err.status != GLIM_OK)
        return GLIM_OK; /* grammar_compile tells */
    for (size_t i = 0; i < g->n_use; i++)
        if (!grammar_defined(g->b, g->use[i].rule)) {
            const struct g_rule_def *r = &g->b->rule[g->use[i].rule - 1];
            snprintf(have, sizeof have, "rule %.*s without definition", (int)r->n_name, g->b->text + r->name);
            return fail_at(g, g->use[i].at, have, "one");
        }
    return grammar_defined(g->b, *root) ? GLIM_OK : fail_at(g, g->p, "no rule root", "one: the text begins there");
}

glim_status grammar_gbnf(struct grammar **out, const char *text, size_t n, struct glim_err *e)
{
    struct gbnf g = {.text = text, .p = text, .end = text + n, .e = e};
    uint32_t root = 0;
    *out = NULL;
    glim_status st = grammar_builder_create(&g.b, NULL, e);
    if (st == GLIM_OK)
        st = file(&g, &root);
    if (st == GLIM_OK)
        st = grammar_compile(out, g.b, root, e);
    grammar_builder_free(g.b);
    mem_free(g.node);
    mem_free(g.range);
    mem_free(g.use);
    str_fini(&g.chars);
    return st;
}
