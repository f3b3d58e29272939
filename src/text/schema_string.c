/* Strings: patterns, formats and lengths as automata of values, and values as they are spelled in JSON. */
#include "base/mem.h"
#include "text/schema_impl.h"

#include <string.h>

/* A string that only its length restricts: any character, or any escape of one but U+0000. */
#define PLAIN "[^\"\\\\\\u0000-\\u001f]"
#define HEX   "[0-9A-Fa-f]"
#define UNIT                                                                                                           \
    "(?:[1-9A-CEFa-cef]" HEX "{3}|[Dd][0-7]" HEX "{2}|0[1-9A-Fa-f]" HEX "{2}|00[1-9A-Fa-f]" HEX "|000[1-9A-Fa-f])"
#define PAIR      "[Dd][89ABab]" HEX "{2}\\\\u[Dd][C-Fc-f]" HEX "{2}"
#define CHARACTER "(?:" PLAIN "|\\\\(?:[\"\\\\/bfnrt]|u(?:" UNIT "|" PAIR ")))"

static glim_status known_regex(struct sch *s, const char *regex, enum regex_match how, const struct dfa **out)
{
    struct str key = {0};
    struct dfa *d;
    str_printf(&key, "r%d%s", how, regex);
    glim_status st = GLIM_OK;
    *out = schema_dfa_get(s, &key);
    if (!*out) {
        st = regex_dfa(&d, regex, strlen(regex), how, s->e);
        if (st == GLIM_OK)
            st = schema_dfa_put(s, &key, d, out);
    }
    str_fini(&key);
    return st;
}

glim_status string_pattern(struct sch *s, const json_t *node, const char *keyword, const char *pattern, size_t n,
                           const struct dfa **out)
{
    struct str key = {0};
    struct dfa *d;
    str_putc(&key, 'p');
    str_add(&key, pattern, n);
    glim_status st = GLIM_OK;
    *out = schema_dfa_get(s, &key);
    if (!*out) {
        st = regex_dfa(&d, pattern, n, REGEX_ANYWHERE, s->e);
        if (st == GLIM_OK)
            st = schema_dfa_put(s, &key, d, out);
        else
            st = schema_blame(s, node, keyword);
    }
    str_fini(&key);
    return st;
}

glim_status string_any(struct sch *s, const struct dfa **out)
{
    return known_regex(s, "[^]*", REGEX_WHOLE, out);
}

/* ---- spelling ---- */

void string_literal(struct str *out, const char *p, size_t n)
{
    str_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        static const char letter[] = "btn\0fr";
        uint8_t c = (uint8_t)p[i];
        if (c == '"' || c == '\\')
            str_printf(out, "\\%c", c);
        else if (c >= 8 && c <= 13 && letter[c - 8])
            str_printf(out, "\\%c", letter[c - 8]);
        else if (c < 0x20)
            str_printf(out, "\\u%04x", c);
        else
            str_add(out, p + i, 1);
    }
    str_putc(out, '"');
}

/* The escape of byte c from state `from` to state `to`, in states of its own; `way` keeps what the escapes of one
 * state share: after the backslash, u, 0, 0, and 0 or 1. */
static void spell_escape(struct nfa *a, uint32_t from, uint32_t to, uint8_t c, uint32_t way[6])
{
    static const char path[] = "\\u00";
    struct str text = {0};
    string_literal(&text, (const char *)&c, 1);
    size_t n = text.failed ? 0 : text.n - 2;
    a->no_memory |= text.failed;
    for (size_t i = 0; i < n; i++) {
        uint8_t b = (uint8_t)text.s[1 + i];
        bool shared = i < 4 ? (i == 0 || n > 2) : i == 4;
        uint32_t *next = !shared ? NULL : i < 4 ? &way[i] : &way[4 + (b - '0')];
        if (i + 1 == n) {
            nfa_bytes(a, from, to, b, b);
            break;
        }
        if (i < 4 && path[i] != (char)b)
            break;
        if (*next == UINT32_MAX) {
            *next = nfa_state(a);
            nfa_bytes(a, from, *next, b, b);
        }
        from = *next;
    }
    str_fini(&text);
}

static void spell_state(struct nfa *a, const struct dfa *d, uint32_t s, uint32_t base)
{
    uint32_t way[6] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    for (int lo = 1, hi; lo < 256; lo = hi + 1) {
        uint32_t t = dfa_step(d, s, (uint8_t)lo);
        hi = lo;
        if (!t)
            continue;
        if (lo < 0x20 || lo == '"' || lo == '\\') {
            spell_escape(a, base + s, base + t, (uint8_t)lo, way);
            continue;
        }
        while (hi < 255 && hi + 1 != '"' && hi + 1 != '\\' && dfa_step(d, s, (uint8_t)(hi + 1)) == t)
            hi++;
        nfa_bytes(a, base + s, base + t, (uint8_t)lo, (uint8_t)hi);
    }
}

glim_status string_spell(struct sch *s, const struct dfa *d, struct dfa **out)
{
    struct nfa a = {0};
    struct nfa_frag f = {nfa_state(&a), nfa_state(&a)};
    uint32_t base = 0;
    for (uint32_t i = 0; i < d->n_state; i++) {
        uint32_t q = nfa_state(&a);
        base = i ? base : q;
    }
    if (!a.no_memory && !a.too_large) {
        nfa_bytes(&a, f.in, base + 1, '"', '"');
        for (uint32_t i = 1; i < d->n_state; i++) {
            spell_state(&a, d, i, base);
            if (dfa_accepts(d, i))
                nfa_bytes(&a, base + i, f.out, '"', '"');
        }
    }
    glim_status st = nfa_to_dfa(out, &a, f, s->e);
    nfa_fini(&a);
    if (st != GLIM_OK)
        return st;
    st = schema_spend(s, 1);
    if (st != GLIM_OK) {
        dfa_free(*out);
        *out = NULL;
    }
    return st;
}

glim_status string_any_spelled(struct sch *s, const struct dfa **out)
{
    struct str key = {0};
    struct dfa *d;
    const struct dfa *any;
    str_puts(&key, "any spelled");
    glim_status st = GLIM_OK;
    *out = schema_dfa_get(s, &key);
    if (!*out) {
        st = string_any(s, &any);
        if (st == GLIM_OK)
            st = string_spell(s, any, &d);
        if (st == GLIM_OK)
            st = schema_dfa_put(s, &key, d, out);
    }
    str_fini(&key);
    return st;
}

/* A tree of the texts: node 1 is the root, 0 none. */
struct tree {
    struct tree_node {
        uint32_t child, sibling;
        uint8_t byte;
        bool ends;
    } * v;
    uint32_t n;
};

static uint32_t tree_step(struct tree *t, uint32_t at, uint8_t byte)
{
    uint32_t *link = &t->v[at].child;
    while (*link && t->v[*link].byte != byte)
        link = &t->v[*link].sibling;
    if (!*link) {
        *link = t->n++;
        t->v[*link].byte = byte;
    }
    return *link;
}

glim_status string_list(struct sch *s, const struct str *text, size_t n, struct dfa **out)
{
    struct tree t = {.n = 2};
    size_t room = 2, n_class = 1;
    uint8_t cls[256] = {0};
    *out = NULL;
    for (size_t i = 0; i < n; i++)
        room += text[i].n;
    TRY(schema_spend(s, room / 8));
    if (!(t.v = mem_calloc(room, sizeof *t.v)))
        return schema_starved(s);
    for (size_t i = 0; i < n; i++) {
        uint32_t at = 1;
        for (size_t j = 0; j < text[i].n; j++) {
            uint8_t byte = (uint8_t)text[i].s[j];
            at = tree_step(&t, at, byte);
            if (!cls[byte])
                cls[byte] = (uint8_t)n_class++;
        }
        t.v[at].ends = true;
    }
    glim_status st = schema_spend(s, 1);
    if (st == GLIM_OK)
        st = dfa_new(out, t.n, n_class, s->e);
    if (st == GLIM_OK) {
        memcpy((*out)->cls, cls, sizeof cls);
        for (uint32_t i = 1; i < t.n; i++) {
            for (uint32_t k = t.v[i].child; k; k = t.v[k].sibling)
                (*out)->next[i * n_class + cls[t.v[k].byte]] = k;
            if (t.v[i].ends)
                dfa_set_accept(*out, i);
        }
        st = dfa_minimise(out, s->e);
    }
    mem_free(t.v);
    return st;
}

/* ---- what restricts a string ---- */

/* Texts of min..max code points, of those that are UTF-8: every byte that is no continuation counts. */
static glim_status length_dfa(uint32_t min, uint32_t max, struct dfa **out, struct glim_err *e)
{
    bool open = max == GRAMMAR_MANY;
    size_t n = (size_t)(open ? min : max) + 2;
    TRY(dfa_new(out, n > DFA_MAX_STATE ? DFA_MAX_STATE + 1 : n, 2, e));
    struct dfa *d = *out;
    for (int b = 0; b < 256; b++)
        d->cls[b] = (b & 0xC0) == 0x80;
    for (uint32_t i = 1; i < n; i++) {
        d->next[i * 2 + 1] = i;
        d->next[i * 2] = i + 1 < n ? i + 1 : open ? i : 0;
        if (i - 1 >= min)
            dfa_set_accept(d, i);
    }
    return dfa_minimise(out, e);
}

/* The longest text in code points; GRAMMAR_MANY when there is none. Depth first over a minimal automaton, in which
 * every state but the dead one lies on a way to acceptance. */
static glim_status longest(struct sch *s, const struct dfa *d, uint32_t *out)
{
    enum { FRESH, OPEN, DONE };
    struct at {
        uint32_t state, byte;
    } *stack = mem_alloc(d->n_state * sizeof *stack);
    uint8_t *mark = mem_calloc(d->n_state, 1);
    uint32_t *length = mem_calloc(d->n_state, sizeof *length);
    size_t n = 0;
    glim_status st = stack && mark && length ? GLIM_OK : schema_starved(s);
    *out = 0;
    if (st == GLIM_OK) {
        stack[n++] = (struct at){1, 0};
        mark[1] = OPEN;
    }
    while (n) {
        struct at *a = &stack[n - 1];
        if (a->byte == 256) {
            mark[a->state] = DONE;
            n--;
            continue;
        }
        uint32_t t = dfa_step(d, a->state, (uint8_t)a->byte), one = (a->byte & 0xC0) != 0x80;
        if (t && mark[t] == FRESH) {
            mark[t] = OPEN;
            stack[n++] = (struct at){t, 0};
            continue; /* the same byte again, when t is done */
        }
        if (t && mark[t] == OPEN) {
            *out = GRAMMAR_MANY;
            break;
        }
        if (t && length[t] + one > length[a->state])
            length[a->state] = length[t] + one;
        a->byte++;
    }
    if (st == GLIM_OK && *out == 0)
        *out = length[1];
    mem_free(stack);
    mem_free(mark);
    mem_free(length);
    return st;
}

struct parts {
    struct str key; /* all of it, as the name of the result */
    bool automata;  /* is there more than a length? */
    uint32_t min, max;
};

static void add_part(struct parts *w, char kind, const json_t *v)
{
    if (!json_is_string(v))
        return;
    str_printf(&w->key, "%c%zu:", kind, json_string_length(v));
    str_add(&w->key, json_string_value(v), json_string_length(v));
    w->automata = true;
}

/* Formats that only annotate do not count; when loose, those that leave something out do not either, because a proof
 * must not rest on what they leave out. */
static glim_status format_of(struct sch *s, const struct pure *p, const json_t *node, const struct schema_format **out)
{
    const char *name = json_string_value(json_object_get(node, "format"));
    *out = name ? schema_find_format(name) : NULL;
    if (name && !*out)
        return schema_refuse(s, node, "format", "an unknown format", "a known one, or a pattern");
    if (*out && (!(*out)->regex || (p->loose && !(*out)->exact)))
        *out = NULL;
    return GLIM_OK;
}

static glim_status find_parts(struct sch *s, const struct pure *p, struct parts *w)
{
    pure_counts(p, "minLength", "maxLength", &w->min, &w->max);
    str_putc(&w->key, 's');
    for (size_t i = 0; i < p->n; i++) {
        const struct schema_format *f;
        const json_t *list = json_object_get(p->node[i], KW_NOT_ENUM);
        TRY(format_of(s, p, p->node[i], &f));
        add_part(w, 'p', json_object_get(p->node[i], "pattern"));
        add_part(w, 'P', json_object_get(p->node[i], KW_NOT_PATTERN));
        if (f)
            add_part(w, 'f', json_object_get(p->node[i], "format"));
        add_part(w, 'F', json_object_get(p->node[i], KW_NOT_FORMAT));
        for (size_t j = 0; j < json_array_size(list); j++)
            add_part(w, 'E', json_array_get(list, j));
    }
    str_printf(&w->key, "%u-%u", w->min, w->max);
    return w->key.failed ? schema_starved(s) : GLIM_OK;
}

/* *at := *at op d */
static glim_status narrow(struct sch *s, struct dfa **at, enum dfa_op op, const struct dfa *d)
{
    struct dfa *next;
    TRY(dfa_combine(&next, *at, op, d, s->e));
    dfa_free(*at);
    *at = next;
    return schema_spend(s, 1);
}

static glim_status narrow_keyword(struct sch *s, const json_t *node, const char *keyword, enum dfa_op op,
                                  const char *shown, struct dfa **at)
{
    const json_t *v = json_object_get(node, keyword);
    const struct dfa *d;
    if (!v)
        return GLIM_OK;
    if (strcmp(shown, "pattern") == 0)
        TRY(string_pattern(s, node, shown, json_string_value(v), json_string_length(v), &d));
    else
        TRY(known_regex(s, schema_find_format(json_string_value(v))->regex, REGEX_WHOLE, &d));
    glim_status st = narrow(s, at, op, d);
    return st == GLIM_REFUSED ? schema_blame(s, node, shown) : st;
}

static glim_status narrow_enum(struct sch *s, const json_t *node, struct dfa **at)
{
    const json_t *list = json_object_get(node, KW_NOT_ENUM);
    struct str *text = schema_take(s, (json_array_size(list) + 1) * sizeof *text);
    struct dfa *d = NULL;
    size_t n = 0;
    glim_status st = text ? GLIM_OK : schema_starved(s);
    for (size_t i = 0; text && i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_string(v))
            continue;
        str_add(&text[n], json_string_value(v), json_string_length(v));
        st = text[n++].failed ? schema_starved(s) : st;
    }
    if (st == GLIM_OK && n)
        st = string_list(s, text, n, &d);
    if (d)
        st = narrow(s, at, DFA_BUT_NOT, d);
    dfa_free(d);
    for (size_t i = 0; i < n; i++)
        str_fini(&text[i]);
    return st;
}

static glim_status narrow_length(struct sch *s, const struct pure *p, struct parts *w, struct dfa **at)
{
    static const char *const keyword[] = {"maxLength", "minLength"};
    struct dfa *d;
    uint32_t most;
    TRY(longest(s, *at, &most));
    if (most != GRAMMAR_MANY && most <= w->max)
        w->max = GRAMMAR_MANY;
    if (w->min == 0 && w->max == GRAMMAR_MANY)
        return GLIM_OK;
    glim_status st = length_dfa(w->min, w->max, &d, s->e);
    if (st == GLIM_OK) {
        st = narrow(s, at, DFA_AND, d);
        dfa_free(d);
    }
    return st == GLIM_REFUSED ? pure_blame(s, p, keyword, sizeof keyword / sizeof *keyword) : st;
}

static glim_status narrow_all(struct sch *s, const struct pure *p, struct parts *w, struct dfa **at)
{
    const struct dfa *any;
    TRY(string_any(s, &any));
    TRY(dfa_combine(at, any, DFA_AND, any, s->e));
    for (size_t i = 0; i < p->n; i++) {
        const struct schema_format *f;
        TRY(format_of(s, p, p->node[i], &f));
        TRY(narrow_keyword(s, p->node[i], "pattern", DFA_AND, "pattern", at));
        TRY(narrow_keyword(s, p->node[i], KW_NOT_PATTERN, DFA_BUT_NOT, "pattern", at));
        if (f)
            TRY(narrow_keyword(s, p->node[i], "format", DFA_AND, "format", at));
        TRY(narrow_keyword(s, p->node[i], KW_NOT_FORMAT, DFA_BUT_NOT, "format", at));
        TRY(narrow_enum(s, p->node[i], at));
    }
    return narrow_length(s, p, w, at);
}

/* The values as an automaton; NULL where nothing but the length is restricted, unless always. */
static glim_status string_values(struct sch *s, const struct pure *p, bool always, struct parts *w,
                                 const struct dfa **out)
{
    struct dfa *d = NULL;
    *out = NULL;
    TRY(find_parts(s, p, w));
    if (!w->automata && !always)
        return GLIM_OK;
    if ((*out = schema_dfa_get(s, &w->key)))
        return GLIM_OK;
    glim_status st = narrow_all(s, p, w, &d);
    if (st == GLIM_OK)
        return schema_dfa_put(s, &w->key, d, out);
    dfa_free(d);
    return st;
}

glim_status string_is_empty(struct sch *s, struct pure *p, bool *empty)
{
    struct parts w = {0};
    const struct dfa *d;
    glim_status st = string_values(s, p, false, &w, &d);
    if (st == GLIM_OK)
        *empty = d ? dfa_is_empty(d) : w.min > w.max;
    str_fini(&w.key);
    return st;
}

glim_status string_validates(struct sch *s, struct pure *p, const json_t *value, bool *ok)
{
    struct parts w = {0};
    const struct dfa *d;
    const char *text = json_string_value(value);
    uint32_t n = 0;
    glim_status st = string_values(s, p, false, &w, &d);
    for (size_t i = 0; i < json_string_length(value); i++)
        n += ((uint8_t)text[i] & 0xC0) != 0x80;
    if (st == GLIM_OK)
        *ok = d ? dfa_match(d, text, json_string_length(value)) : n >= w.min && n <= w.max;
    str_fini(&w.key);
    return st;
}

/* ---- building ---- */

static glim_status build_length(struct sch *s, const struct parts *w, grammar_node *out)
{
    const struct dfa *d;
    if (w->min == 0 && w->max == GRAMMAR_MANY) {
        TRY(known_regex(s, "\"" CHARACTER "*\"", REGEX_WHOLE, &d));
        *out = grammar_dfa(s->b, d);
        return GLIM_OK;
    }
    TRY(known_regex(s, CHARACTER, REGEX_WHOLE, &d));
    grammar_node quote = grammar_text(s->b, "\"", 1);
    grammar_node part[] = {quote, grammar_repeat(s->b, grammar_dfa(s->b, d), w->min, w->max), quote};
    *out = schema_seq(s, part, 3);
    return GLIM_OK;
}

glim_status string_build(struct sch *s, struct pure *p, grammar_node *out)
{
    static const char *const keyword[] = {"pattern", "format", "maxLength", "minLength"};
    struct parts w = {0};
    const struct dfa *values, *spelled = NULL;
    struct dfa *d;
    glim_status st = string_values(s, p, false, &w, &values);
    if (st == GLIM_OK && !values)
        st = build_length(s, &w, out);
    else if (st == GLIM_OK) {
        str_puts(&w.key, " spelled");
        if (!(spelled = schema_dfa_get(s, &w.key))) {
            st = string_spell(s, values, &d);
            if (st == GLIM_OK)
                st = schema_dfa_put(s, &w.key, d, &spelled);
        }
        if (st == GLIM_OK)
            *out = grammar_dfa(s->b, spelled);
    }
    str_fini(&w.key);
    return st == GLIM_REFUSED ? pure_blame(s, p, keyword, sizeof keyword / sizeof *keyword) : st;
}

/* The union over the alternatives of a conjunction. */
static glim_status add_alternative(struct sch *s, struct pure *p, struct dfa **at)
{
    const struct dfa *d = NULL;
    struct dfa *own = NULL;
    glim_status st;
    TRY(pure_settle(s, p));
    if (!(p->live & T_STRING))
        return GLIM_OK;
    if (p->has_literal) {
        struct str *text = schema_take(s, (p->n_literal + 1) * sizeof *text);
        size_t n = 0;
        st = text ? GLIM_OK : schema_starved(s);
        for (size_t i = 0; text && i < p->n_literal; i++)
            if (json_is_string(p->literal[i])) {
                str_add(&text[n], json_string_value(p->literal[i]), json_string_length(p->literal[i]));
                st = text[n++].failed ? schema_starved(s) : st;
            }
        if (st == GLIM_OK)
            st = string_list(s, text, n, &own);
        for (size_t i = 0; i < n; i++)
            str_fini(&text[i]);
        d = own;
    } else {
        struct parts w = {0};
        st = string_values(s, p, true, &w, &d);
        str_fini(&w.key);
    }
    if (st == GLIM_OK)
        st = narrow(s, at, DFA_OR, d);
    dfa_free(own);
    return st;
}

glim_status string_conj(struct sch *s, struct conj *c, const struct dfa **out)
{
    struct dfa *d;
    struct str key = {0};
    str_add(&key, (const char *)&c, sizeof c);
    *out = schema_dfa_get(s, &key);
    glim_status st = *out ? GLIM_OK : string_list(s, NULL, 0, &d);
    if (st == GLIM_OK && !*out) {
        st = schema_expand(s, c, STRICT);
        for (size_t i = 0; st == GLIM_OK && i < c->alt[STRICT].n; i++)
            st = add_alternative(s, &c->alt[STRICT].v[i], &d);
        if (st == GLIM_OK)
            st = schema_dfa_put(s, &key, d, out);
        else
            dfa_free(d);
    }
    str_fini(&key);
    return st;
}
