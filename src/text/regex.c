/* From the tree of a regular expression to its automaton.
 *
 * A text that matches anywhere is any text, a match, any text. Lookaheads are what plain automata cannot say, so they
 * are cut out where the whole rest is known: at the top, "a (?=b) c" is a followed by (c and its tail) ∩ (b and any
 * text), and (?!b) takes the difference. ^ and $ are edges that need the start or the end (text/dfa.h), which makes
 * them exact wherever they stand. */
#include "base/mem.h"
#include "base/str.h"
#include "text/regex_parse.h"

#include <string.h>

enum { STEP_MAX = 1 << 18, AHEAD_MAX = 16 }; /* nodes visited; lookaheads in a row */

struct compiler {
    const struct re *r;
    enum regex_match how;
    struct dfa **set; /* [n_set] automaton of one character, made when first used */
    struct dfa *any;  /* one character */
    uint32_t steps;
    struct glim_err *e;
};

/* ---- one character ---- */

/* Characters of one encoded length whose encodings differ in runs of bytes: RFC 3629's table, cut where a
 * continuation byte does not run over its whole range. */
static void utf8_run(struct nfa *a, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi)
{
    char l[4], h[4];
    int n = utf8_encode(lo, l);
    utf8_encode(hi, h);
    for (int i = 0; i < n; i++) {
        uint32_t next = i == n - 1 ? to : nfa_state(a);
        nfa_bytes(a, from, next, (uint8_t)l[i], (uint8_t)h[i]);
        from = next;
    }
}

static void utf8_range(struct nfa *a, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi)
{
    static const uint32_t edge[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF};
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++)
        if (lo <= edge[i] && edge[i] < hi) {
            utf8_range(a, from, to, lo, edge[i]);
            utf8_range(a, from, to, edge[i] + 1, hi);
            return;
        }
    if (lo >= 0xD800 && lo <= 0xDFFF)
        return; /* surrogates are no characters */
    int n_tail = lo <= 0x7F ? 0 : lo <= 0x7FF ? 1 : lo <= 0xFFFF ? 2 : 3;
    for (int i = 1; i <= n_tail; i++) {
        uint32_t m = (1u << (6 * i)) - 1;
        if ((lo & ~m) == (hi & ~m))
            break;
        if (lo & m) {
            utf8_range(a, from, to, lo, lo | m);
            utf8_range(a, from, to, (lo | m) + 1, hi);
            return;
        }
        if ((hi & m) != m) {
            utf8_range(a, from, to, lo, (hi & ~m) - 1);
            utf8_range(a, from, to, hi & ~m, hi);
            return;
        }
    }
    utf8_run(a, from, to, lo, hi);
}

static glim_status one_of(struct dfa **out, const struct code_range *v, size_t n, struct glim_err *e)
{
    struct nfa a = {0};
    struct nfa_frag f = {nfa_state(&a), nfa_state(&a)};
    for (size_t i = 0; i < n; i++)
        utf8_range(&a, f.in, f.out, v[i].first, v[i].last);
    glim_status st = nfa_to_dfa(out, &a, f, e);
    nfa_fini(&a);
    return st;
}

/* ---- the tree ---- */

static glim_status emit(struct compiler *c, struct nfa *a, uint32_t node, uint32_t from, uint32_t *out);

static glim_status emit_set(struct compiler *c, struct nfa *a, uint32_t set, uint32_t from, uint32_t *out)
{
    const struct re_set *s = &c->r->set[set];
    const struct code_range *v = s->n ? c->r->range + s->first : NULL;
    *out = nfa_state(a);
    if (s->n && v[s->n - 1].last < 0x80) {
        for (uint32_t i = 0; i < s->n; i++)
            nfa_bytes(a, from, *out, (uint8_t)v[i].first, (uint8_t)v[i].last);
        return GLIM_OK;
    }
    if (!c->set[set])
        TRY(one_of(&c->set[set], v, s->n, c->e));
    nfa_dfa(a, from, *out, c->set[set]);
    return GLIM_OK;
}

static glim_status emit_alt(struct compiler *c, struct nfa *a, uint32_t child, uint32_t from, uint32_t *out)
{
    *out = nfa_state(a);
    for (; child != RE_NONE; child = c->r->node[child].next) {
        uint32_t end;
        TRY(emit(c, a, child, from, &end));
        nfa_empty(a, end, *out, NFA_ALWAYS);
    }
    return GLIM_OK;
}

static glim_status emit_repeat(struct compiler *c, struct nfa *a, const struct re_node *v, uint32_t from, uint32_t *out)
{
    for (uint32_t i = 0; i < v->min; i++)
        TRY(emit(c, a, v->child, from, &from));
    *out = nfa_state(a);
    if (v->max == RE_MANY) {
        uint32_t head = nfa_state(a), end;
        nfa_empty(a, from, head, NFA_ALWAYS);
        TRY(emit(c, a, v->child, head, &end));
        nfa_empty(a, end, head, NFA_ALWAYS);
        nfa_empty(a, head, *out, NFA_ALWAYS);
        return GLIM_OK;
    }
    for (uint32_t i = v->min; i < v->max; i++) {
        nfa_empty(a, from, *out, NFA_ALWAYS);
        TRY(emit(c, a, v->child, from, &from));
    }
    nfa_empty(a, from, *out, NFA_ALWAYS);
    return GLIM_OK;
}

/* The node's automaton from `from` to *out. Recursion is as deep as the parser allowed. */
static glim_status emit(struct compiler *c, struct nfa *a, uint32_t node, uint32_t from, uint32_t *out)
{
    const struct re_node *v = &c->r->node[node];
    if (++c->steps > STEP_MAX)
        return re_refuse(c->r, v->at, "an expression that unrolls too far", "smaller counts", c->e);
    *out = from;
    switch (v->kind) {
    case RE_SET:
        return emit_set(c, a, v->set, from, out);
    case RE_CAT:
        for (uint32_t k = v->child; k != RE_NONE; k = c->r->node[k].next)
            TRY(emit(c, a, k, *out, out));
        return GLIM_OK;
    case RE_ALT:
        return emit_alt(c, a, v->child, from, out);
    case RE_REPEAT:
        return emit_repeat(c, a, v, from, out);
    case RE_START:
    case RE_END:
        *out = nfa_state(a);
        nfa_empty(a, from, *out, v->kind == RE_START ? NFA_AT_START : NFA_AT_END);
        return GLIM_OK;
    case RE_AHEAD:
        break;
    }
    return re_refuse(c->r, v->at, "a lookahead inside a group", "one at the top level of the expression", c->e);
}

static void emit_any(const struct compiler *c, struct nfa *a, uint32_t from, uint32_t to)
{
    uint32_t head = nfa_state(a);
    nfa_empty(a, from, head, NFA_ALWAYS);
    nfa_dfa(a, head, head, c->any);
    nfa_empty(a, head, to, NFA_ALWAYS);
}

/* ---- lookaheads ---- */

/* Does the tree below `node`, or one of its later siblings if `rest`, ask for the start of the text? */
static const struct re_node *find_start(const struct re *r, uint32_t node, bool rest)
{
    for (; node != RE_NONE; node = rest ? r->node[node].next : RE_NONE) {
        const struct re_node *v = &r->node[node];
        if (v->kind == RE_START)
            return v;
        const struct re_node *inner = v->child == RE_NONE ? NULL : find_start(r, v->child, true);
        if (inner)
            return inner;
    }
    return NULL;
}

static glim_status emit_top(struct compiler *c, struct nfa *a, uint32_t item, uint32_t from, uint32_t to, int n_ahead);

/* The texts that begin with the lookahead's. */
static glim_status ahead_dfa(struct compiler *c, const struct re_node *v, struct dfa **out)
{
    struct nfa a = {0};
    struct nfa_frag f = {nfa_state(&a), nfa_state(&a)};
    uint32_t end;
    glim_status st = emit(c, &a, v->child, f.in, &end);
    if (st == GLIM_OK) {
        emit_any(c, &a, end, f.out);
        st = nfa_to_dfa(out, &a, f, c->e);
    }
    nfa_fini(&a);
    return st;
}

static glim_status rest_dfa(struct compiler *c, uint32_t item, int n_ahead, struct dfa **out)
{
    struct nfa a = {0};
    struct nfa_frag f = {nfa_state(&a), nfa_state(&a)};
    glim_status st = emit_top(c, &a, item, f.in, f.out, n_ahead);
    if (st == GLIM_OK)
        st = nfa_to_dfa(out, &a, f, c->e);
    nfa_fini(&a);
    return st;
}

static glim_status emit_ahead(struct compiler *c, struct nfa *a, const struct re_node *v, uint32_t from, uint32_t to,
                              int n_ahead)
{
    struct dfa *ahead = NULL, *rest = NULL, *both = NULL;
    const struct re_node *start = find_start(c->r, v->child, true);
    start = start ? start : find_start(c->r, v->next, true);
    if (start)
        return re_refuse(c->r, start->at, "a ^ in or after a lookahead", "it before the lookahead", c->e);
    if (n_ahead >= AHEAD_MAX)
        return re_refuse(c->r, v->at, "more than 16 lookaheads", "fewer", c->e);
    glim_status st = ahead_dfa(c, v, &ahead);
    if (st == GLIM_OK)
        st = rest_dfa(c, v->next, n_ahead + 1, &rest);
    if (st == GLIM_OK)
        st = dfa_combine(&both, rest, v->negated ? DFA_BUT_NOT : DFA_AND, ahead, c->e);
    if (st == GLIM_OK)
        nfa_dfa(a, from, to, both);
    dfa_free(ahead);
    dfa_free(rest);
    dfa_free(both);
    return st;
}

/* The items of one top alternative from `item` on, with whatever may follow a match, from `from` to `to`. */
static glim_status emit_top(struct compiler *c, struct nfa *a, uint32_t item, uint32_t from, uint32_t to, int n_ahead)
{
    for (; item != RE_NONE; item = c->r->node[item].next) {
        if (c->r->node[item].kind == RE_AHEAD)
            return emit_ahead(c, a, &c->r->node[item], from, to, n_ahead);
        TRY(emit(c, a, item, from, &from));
    }
    if (c->how == REGEX_ANYWHERE)
        emit_any(c, a, from, to);
    else
        nfa_empty(a, from, to, NFA_ALWAYS);
    return GLIM_OK;
}

static glim_status build(struct compiler *c, struct nfa *a, struct dfa **out)
{
    static const struct code_range all = {0, 0x10FFFF};
    struct nfa_frag f = {nfa_state(a), nfa_state(a)};
    uint32_t from = f.in;
    TRY(one_of(&c->any, &all, 1, c->e));
    if (c->how == REGEX_ANYWHERE)
        emit_any(c, a, f.in, from = nfa_state(a));
    for (uint32_t k = c->r->node[c->r->root].child; k != RE_NONE; k = c->r->node[k].next)
        TRY(emit_top(c, a, c->r->node[k].child, from, f.out, 0));
    return nfa_to_dfa(out, a, f, c->e);
}

glim_status regex_dfa(struct dfa **out, const char *pattern, size_t n, enum regex_match how, struct glim_err *e)
{
    struct re r;
    struct nfa a = {0};
    struct compiler c = {.r = &r, .how = how, .e = e};
    *out = NULL;
    glim_status st = re_parse(&r, pattern, n, e);
    if (st == GLIM_OK && !(c.set = mem_calloc(r.n_set, sizeof(struct dfa *))))
        st = err_nomem(e, "regular expression", n);
    if (st == GLIM_OK)
        st = build(&c, &a, out);
    for (size_t i = 0; c.set && i < r.n_set; i++)
        dfa_free(c.set[i]);
    mem_free(c.set);
    dfa_free(c.any);
    nfa_fini(&a);
    re_fini(&r);
    return st;
}

glim_status regex_any_text(struct dfa **out, struct glim_err *e)
{
    return regex_dfa(out, "[^]*", 4, REGEX_WHOLE, e);
}

glim_status regex_grammar(struct grammar **out, const char *pattern, size_t n, struct glim_err *e)
{
    struct dfa *d = NULL;
    struct grammar_builder *b = NULL;
    *out = NULL;
    glim_status st = regex_dfa(&d, pattern, n, REGEX_WHOLE, e);
    if (st == GLIM_OK && dfa_is_empty(d))
        st = err_set(e, GLIM_REFUSED,
                     "regular expression refused: have one that no text matches, need one that some do");
    if (st == GLIM_OK)
        st = grammar_builder_create(&b, NULL, e);
    if (st == GLIM_OK) {
        uint32_t root = grammar_rule(b, "root", 4);
        grammar_define(b, root, grammar_dfa(b, d));
        st = grammar_compile(out, b, root, e);
        grammar_builder_free(b);
    }
    dfa_free(d);
    return st;
}
