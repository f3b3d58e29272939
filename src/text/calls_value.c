/* Arguments that are no JSON object: parameters between markers, and literals.
 *
 * A tool's schema is taken apart by the machinery of schema_impl.h; here its alternatives are put together again in the
 * dialect's spelling. Three things differ from schema.h's JSON: words, quotes and keys; strings leave out the texts
 * that would end a value early; and what the top level holds has the frame around it. */
#include "text/calls_impl.h"
#include "base/mem.h"
#include "text/dialect_impl.h"
#include "text/schema_impl.h"

#include <string.h>

enum { RULE_EVERY = 48, T_OTHER = T_ALL & ~T_STRING };
/* No node: nothing can be written. (0 is what a builder that failed returns.) */
#define NOTHING UINT32_MAX
/* Keys that are not declared, where they stand without quotes. */
#define KEY "[A-Za-z_][A-Za-z0-9_]{0,63}"

struct values {
    struct sch s;
    const struct dialect *d;
    const json_t *tool;
    struct dfa *text; /* what a string may be */
    uint32_t n_rule;
    char name[24];
    grammar_node none, comma, colon;
};

static grammar_node text_of(const struct values *v, const char *text)
{
    return grammar_text(v->s.b, text, strlen(text));
}

static bool braces(const struct values *v)
{
    return v->d->frame.args == DIALECT_ARGS_BRACE;
}

static bool python(const struct values *v)
{
    return v->d->frame.args == DIALECT_ARGS_PYTHON;
}

static glim_status combine(struct values *v, struct dfa **at, enum dfa_op op, const struct dfa *d)
{
    struct dfa *next;
    TRY(dfa_combine(&next, *at, op, d, v->s.e));
    dfa_free(*at);
    *at = next;
    return schema_spend(&v->s, (size_t)next->n_state * next->n_class / 16 + 1);
}

static glim_status combine_regex(struct values *v, struct dfa **at, enum dfa_op op, const char *regex)
{
    struct dfa *d;
    TRY(regex_dfa(&d, regex, strlen(regex), REGEX_WHOLE, v->s.e));
    glim_status st = combine(v, at, op, d);
    dfa_free(d);
    return st;
}

/* ---- strings ---- */

/* The strings of a conjunction that can be written; in fresh memory. */
static glim_status strings_of(struct values *v, struct conj *c, struct dfa **out)
{
    const struct dfa *all;
    *out = NULL;
    TRY(string_conj(&v->s, c, &all));
    return dfa_combine(out, all, DFA_AND, v->text, v->s.e);
}

/* One state's characters as they stand between two `quote`s; state i is base + i there. */
static void spell_state(struct nfa *a, const struct dfa *d, uint32_t i, uint32_t base, char quote)
{
    for (int c = 1; c < 256; c++) {
        static const char letter[] = "tn\0\0r";
        uint32_t to = dfa_step(d, i, (uint8_t)c), from = base + i;
        char as = (char)c;
        if (c < 0x20)
            as = c >= '\t' && c <= '\r' ? letter[c - '\t'] : 0;
        if (!to || !as)
            continue;
        if (c < 0x20 || c == quote || c == '\\') {
            uint32_t escape = nfa_state(a);
            nfa_bytes(a, from, escape, '\\', '\\');
            from = escape;
        }
        nfa_bytes(a, from, base + to, (uint8_t)as, (uint8_t)as);
    }
}

/* Python's spelling, in quotes of either kind. */
static glim_status spell_python(struct values *v, const struct dfa *d, struct dfa **out)
{
    static const char quote[] = {'"', '\''};
    struct nfa a = {0};
    struct nfa_frag f = {nfa_state(&a), nfa_state(&a)};
    TRY(schema_spend(&v->s, (size_t)d->n_state * 32));
    for (size_t q = 0; q < 2; q++) {
        uint8_t mark = (uint8_t)quote[q];
        uint32_t base = nfa_state(&a);
        for (uint32_t i = 1; i < d->n_state; i++)
            nfa_state(&a);
        for (uint32_t i = 1; i < d->n_state && !a.no_memory && !a.too_large; i++) {
            spell_state(&a, d, i, base, quote[q]);
            if (dfa_accepts(d, i))
                nfa_bytes(&a, base + i, f.out, mark, mark);
        }
        if (!a.no_memory && !a.too_large)
            nfa_bytes(&a, f.in, base + 1, mark, mark);
    }
    glim_status st = nfa_to_dfa(out, &a, f, v->s.e);
    nfa_fini(&a);
    return st;
}

/* The node of the strings d in quotes, or NOTHING. */
static glim_status quoted(struct values *v, const struct dfa *d, grammar_node *out)
{
    struct dfa *spelled;
    *out = NOTHING;
    if (dfa_is_empty(d))
        return GLIM_OK;
    if (braces(v)) {
        grammar_node part[] = {text_of(v, v->d->quote), grammar_dfa(v->s.b, d), text_of(v, v->d->quote)};
        *out = grammar_seq(v->s.b, part, 3);
        return GLIM_OK;
    }
    TRY(python(v) ? spell_python(v, d, &spelled) : string_spell(&v->s, d, &spelled));
    if (!dfa_is_empty(spelled))
        *out = grammar_dfa(v->s.b, spelled);
    dfa_free(spelled);
    return GLIM_OK;
}

static glim_status strings(struct values *v, struct conj *c, grammar_node *out)
{
    struct dfa *d;
    TRY(strings_of(v, c, &d));
    glim_status st = quoted(v, d, out);
    dfa_free(d);
    return st;
}

/* ---- literals of enum and const ---- */

/* One text in quotes. */
static glim_status quoted_text(struct values *v, const char *p, size_t n, grammar_node *out)
{
    struct str text = {0};
    struct dfa *d = NULL, *can = NULL;
    str_add(&text, p, n);
    glim_status st = text.failed ? schema_starved(&v->s) : string_list(&v->s, &text, 1, &d);
    if (st == GLIM_OK)
        st = dfa_combine(&can, d, DFA_AND, v->text, v->s.e);
    if (st == GLIM_OK)
        st = quoted(v, can, out);
    dfa_free(d);
    dfa_free(can);
    str_fini(&text);
    return st;
}

static bool is_word(const char *s)
{
    const char *c = s;
    while ((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' || *c == '-' ||
           *c == '.')
        c++;
    return *s && !*c;
}

/* A key as it stands before its value, colon or = included. */
static glim_status key_node(struct values *v, const char *key, bool top, grammar_node *out)
{
    bool bare = (braces(v) && is_word(key)) || (top && python(v));
    grammar_node part[] = {NOTHING, text_of(v, top && python(v) ? "=" : ":")};
    if (bare)
        part[0] = text_of(v, key);
    else
        TRY(quoted_text(v, key, strlen(key), &part[0]));
    if (part[0] == NOTHING)
        return schema_refuse(&v->s, v->s.root, NULL, "a property whose name the dialect cannot write", "another");
    *out = grammar_seq(v->s.b, part, 2);
    return GLIM_OK;
}

static glim_status literal(struct values *v, const json_t *x, grammar_node *out);

static glim_status literal_members(struct values *v, const json_t *x, grammar_node *out)
{
    struct sch *s = &v->s;
    bool object = json_is_object(x);
    size_t n = object ? json_object_size(x) : json_array_size(x), k = 0;
    grammar_node *part = schema_take(s, (n * 4 + 2) * sizeof *part);
    void *at = object ? json_object_iter((json_t *)(uintptr_t)x) : NULL;
    if (!part)
        return schema_starved(s);
    part[k++] = text_of(v, object ? "{" : "[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            part[k++] = v->comma;
        if (object) {
            TRY(key_node(v, json_object_iter_key(at), false, &part[k++]));
            part[k++] = v->colon;
        }
        grammar_node *value = &part[k++];
        TRY(literal(v, object ? json_object_iter_value(at) : json_array_get(x, i), value));
        if (*value == NOTHING) {
            *out = NOTHING;
            return GLIM_OK;
        }
        at = object ? json_object_iter_next((json_t *)(uintptr_t)x, at) : NULL;
    }
    part[k++] = text_of(v, object ? "}" : "]");
    *out = grammar_seq(s->b, part, k);
    return GLIM_OK;
}

static const char *word(const struct values *v, int kind)
{
    static const char *const json[] = {"null", "false", "true"}, *const py[] = {"None", "False", "True"};
    return python(v) ? py[kind] : json[kind];
}

/* NOTHING: a string in it cannot be written. As deep as schema_walk allowed. */
static glim_status literal(struct values *v, const json_t *x, grammar_node *out)
{
    struct str t = {0};
    if (json_is_array(x) || json_is_object(x))
        return literal_members(v, x, out);
    if (json_is_string(x))
        return quoted_text(v, json_string_value(x), json_string_length(x), out);
    if (json_is_number(x))
        number_literal(&t, x);
    else
        str_puts(&t, word(v, json_is_null(x) ? 0 : json_is_true(x) ? 2 : 1));
    if (!t.failed)
        *out = grammar_text(v->s.b, t.s, t.n);
    bool failed = t.failed;
    str_fini(&t);
    return failed ? schema_starved(&v->s) : GLIM_OK;
}

static unsigned type_of(const json_t *x)
{
    switch (json_typeof(x)) {
    case JSON_OBJECT:
        return T_OBJECT;
    case JSON_ARRAY:
        return T_ARRAY;
    case JSON_STRING:
        return T_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return T_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return T_BOOL;
    case JSON_NULL:
        break;
    }
    return T_NULL;
}

/* ---- values ---- */

static glim_status array(struct values *v, struct pure *p, grammar_node *out);
static glim_status object(struct values *v, struct pure *p, bool top, grammar_node *out);

/* The types that values of c may have. */
static glim_status live_types(struct values *v, struct conj *c, unsigned *live)
{
    struct alternatives *a = &c->alt[STRICT];
    *live = 0;
    TRY(schema_expand(&v->s, c, STRICT));
    for (size_t i = 0; i < a->n; i++) {
        TRY(pure_settle(&v->s, &a->v[i]));
        *live |= a->v[i].live;
    }
    return GLIM_OK;
}

static glim_status add_one(struct values *v, struct pure *p, unsigned types, grammar_node *part, size_t *n)
{
    struct sch *s = &v->s;
    unsigned live = p->live & types;
    if (live & T_NULL)
        part[(*n)++] = text_of(v, word(v, 0));
    for (int yes = 0; yes < 2 && (live & T_BOOL); yes++) {
        bool ok;
        TRY(pure_validates(s, p, yes ? json_true() : json_false(), 0, &ok));
        if (ok)
            part[(*n)++] = text_of(v, word(v, 1 + yes));
    }
    if (live & T_NUMBER)
        TRY(number_build(s, p, &part[(*n)++]));
    if (live & T_ARRAY)
        TRY(array(v, p, &part[(*n)++]));
    if (live & T_OBJECT)
        TRY(object(v, p, false, &part[(*n)++]));
    return GLIM_OK;
}

/* The values of c that have one of the types; NOTHING where none can be written. */
static glim_status typed(struct values *v, struct conj *c, unsigned types, grammar_node *out)
{
    struct sch *s = &v->s;
    struct alternatives *a = &c->alt[STRICT];
    size_t n = 0, room = 1;
    unsigned live;
    TRY(live_types(v, c, &live));
    for (size_t i = 0; i < a->n; i++)
        room += 6 + a->v[i].n_literal;
    grammar_node *part = schema_take(s, room * sizeof *part);
    if (!part)
        return schema_starved(s);
    if (live & types & T_STRING) {
        TRY(strings(v, c, &part[n]));
        n += part[n] != NOTHING;
    }
    for (size_t i = 0; i < a->n; i++) {
        struct pure *p = &a->v[i];
        if (!p->has_literal) {
            TRY(add_one(v, p, types & T_OTHER, part, &n));
            continue;
        }
        for (size_t k = 0; k < p->n_literal; k++)
            if (type_of(p->literal[k]) & types & T_OTHER) {
                TRY(literal(v, p->literal[k], &part[n]));
                n += part[n] != NOTHING;
            }
    }
    *out = n == 0 ? NOTHING : n == 1 ? part[0] : grammar_alt(s->b, part, n);
    return GLIM_OK;
}

static glim_status nothing_left(struct values *v, const struct conj *c)
{
    return schema_refuse(&v->s, c->n ? c->node[0] : v->s.root, NULL,
                         "no value that the dialect can write (its markers are all there is)", "one");
}

/* A value inside another one. Arrays and objects become rules, so that recursion ends; calls_value_node defines them.
 */
static glim_status value(struct values *v, struct conj *c, grammar_node *out)
{
    struct sch *s = &v->s;
    unsigned live;
    char name[48];
    if (c->done || c->rule) {
        *out = c->done ? c->done : grammar_ref(s->b, c->rule - 1);
        return GLIM_OK;
    }
    TRY(live_types(v, c, &live));
    if (!(live & (T_ARRAY | T_OBJECT))) {
        TRY(typed(v, c, T_ALL, out));
        if (*out == NOTHING)
            return nothing_left(v, c);
        c->done = *out;
        return GLIM_OK;
    }
    if (!mem_grow((void **)&s->due, &s->cap_due, s->n_due, sizeof *s->due))
        return schema_starved(s);
    s->due[s->n_due++] = c;
    int n = snprintf(name, sizeof name, "%s.%u", v->name, v->n_rule++);
    c->rule = grammar_rule(s->b, name, (size_t)n) + 1;
    *out = grammar_ref(s->b, c->rule - 1);
    return GLIM_OK;
}

static glim_status define_rules(struct values *v)
{
    struct sch *s = &v->s;
    while (s->n_due) {
        struct conj *c = s->due[--s->n_due];
        grammar_node node;
        TRY(typed(v, c, T_ALL, &node));
        if (node == NOTHING)
            return nothing_left(v, c);
        grammar_define(s->b, c->rule - 1, node);
        TRY(schema_spend(s, 1));
    }
    return GLIM_OK;
}

/* ---- arrays ---- */

static glim_status check_array(struct values *v, const struct pure *p, uint32_t max)
{
    for (size_t i = 0; i < p->n; i++) {
        const json_t *node = p->node[i], *rest = json_object_get(node, "unevaluatedItems");
        if (json_is_true(json_object_get(node, "uniqueItems")) && max > 1)
            return schema_refuse(&v->s, node, "uniqueItems", "arrays of more than one item", "it where maxItems is 1");
        if (json_object_get(node, "prefixItems") || json_is_array(json_object_get(node, "items")))
            return schema_refuse(&v->s, node, "prefixItems", "a tuple in a dialect whose calls are not JSON", "items");
        if (rest && !schema_says_nothing(rest))
            return schema_refuse(&v->s, node, "unevaluatedItems", "it in a dialect whose calls are not JSON", "items");
    }
    return GLIM_OK;
}

static glim_status array(struct values *v, struct pure *p, grammar_node *out)
{
    struct sch *s = &v->s;
    struct nodes l = {0};
    struct conj *c;
    bool empty;
    uint32_t min, max;
    grammar_node item, body = v->none;
    pure_counts(p, "minItems", "maxItems", &min, &max);
    TRY(check_array(v, p, max));
    for (size_t i = 0; i < p->n; i++)
        if (json_object_get(p->node[i], "items"))
            TRY(nodes_add(s, &l, json_object_get(p->node[i], "items")));
    TRY(schema_conj(s, &l, &c));
    TRY(schema_is_empty(s, c, &empty));
    if (max > 0 && !empty) {
        TRY(value(v, c, &item));
        grammar_node more[] = {v->comma, item};
        grammar_node part[] = {item, grammar_repeat(s->b, grammar_seq(s->b, more, 2), min ? min - 1 : 0,
                                                    max == GRAMMAR_MANY ? max : max - 1)};
        body = grammar_seq(s->b, part, 2);
        if (min == 0)
            body = schema_maybe(s, body);
    }
    grammar_node all[] = {text_of(v, "["), body, text_of(v, "]")};
    *out = grammar_seq(s->b, all, 3);
    return GLIM_OK;
}

/* ---- parameters between markers ---- */

/* Takes away the texts that the parser reads as another value than a string, of the types it thinks possible. */
static glim_status not_like_others(struct values *v, unsigned types, struct dfa **d)
{
    static const struct {
        unsigned type;
        const char *looks;
    } other[] = {{DIA_NULL, "[ \\n\\t\\r]*null[ \\n\\t\\r]*"},
                 {DIA_BOOL, "[ \\n\\t\\r]*(?:true|false)[ \\n\\t\\r]*"},
                 {DIA_NUMBER, "[ \\n\\t\\r]*-?[0-9]+(?:\\.[0-9]+)?(?:[eE][+\\-]?[0-9]+)?[ \\n\\t\\r]*"},
                 {DIA_OBJECT, "[ \\n\\t\\r]*\\{[^]*"},
                 {DIA_ARRAY, "[ \\n\\t\\r]*\\[[^]*"}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (other[i].type & types)
            TRY(combine_regex(v, d, DFA_BUT_NOT, other[i].looks));
    return GLIM_OK;
}

static glim_status verbatim(struct values *v, struct conj *c, unsigned types, grammar_node *out)
{
    struct dfa *d;
    *out = NOTHING;
    TRY(strings_of(v, c, &d));
    glim_status st = not_like_others(v, types, &d);
    if (st == GLIM_OK && !dfa_is_empty(d))
        *out = grammar_dfa(v->s.b, d);
    dfa_free(d);
    return st;
}

static const char *type_name(unsigned type)
{
    return type == T_NULL     ? "null"
           : type == T_BOOL   ? "boolean"
           : type == T_NUMBER ? "number"
           : type == T_ARRAY  ? "array"
                              : "object";
}

static void add_typed(struct values *v, const char *type, grammar_node x, grammar_node *part, size_t *n)
{
    grammar_node all[] = {text_of(v, type), text_of(v, v->d->frame.after_type), x};
    if (x != NOTHING)
        part[(*n)++] = grammar_seq(v->s.b, all, 3);
}

/* [TYPE after_type] VALUE where the frame has types: the text says whether it is a string. */
static glim_status typed_param(struct values *v, struct conj *c, grammar_node *part, size_t *n)
{
    const struct dialect_frame *f = &v->d->frame;
    grammar_node x;
    TRY(verbatim(v, c, 0, &x));
    add_typed(v, f->string_type, x, part, n);
    for (unsigned type = 1; type < T_ALL; type <<= 1) {
        if (type == T_STRING)
            continue;
        TRY(typed(v, c, type, &x));
        add_typed(v, f->other_type ? f->other_type : type_name(type), x, part, n);
    }
    return GLIM_OK;
}

/* The line break that DIALECT_LINE_VALUE wants after a value has to be there. */
static grammar_node after_value(const struct values *v)
{
    const char *s = v->d->frame.after_value;
    bool line = (v->d->flags & DIALECT_LINE_VALUE) && *s == '\n';
    grammar_node part[] = {text_of(v, line ? "\n" : ""), calls_loose_text(v->s.b, v->d, s + line)};
    return grammar_seq(v->s.b, part, 2);
}

/* What stands between a key and a value without a type; the last line break before a value is the value's. */
static grammar_node after_key(const struct values *v)
{
    const char *s = v->d->frame.after_key;
    return v->d->value ? calls_loose_text(v->s.b, v->d, s) : text_of(v, s);
}

/* key: NULL for one that is not declared. */
static glim_status param(struct values *v, const char *key, struct conj *c, grammar_node *out)
{
    const struct dialect_frame *f = &v->d->frame;
    unsigned types = key ? dia_param_types(v->tool, key) : DIA_ANY, live;
    grammar_node part[8];
    size_t n = 0;
    TRY(live_types(v, c, &live));
    if (f->after_type) {
        TRY(typed_param(v, c, part, &n));
    } else {
        if (types & DIA_STRING) {
            TRY(verbatim(v, c, types, &part[n]));
            n += part[n] != NOTHING;
        }
        if (types != DIA_STRING && (live & T_OTHER)) {
            TRY(typed(v, c, T_OTHER, &part[n]));
            n += part[n] != NOTHING;
        }
    }
    *out = n == 1 ? part[0] : grammar_alt(v->s.b, part, n);
    return n ? GLIM_OK : nothing_left(v, c);
}

/* ---- objects ---- */

struct entries {
    struct values *v;
    const struct pure *p;
    bool top;
    const char **name;
    bool *required;
    grammar_node *node; /* NOTHING: may not come */
    size_t n, n_required;
    grammar_node other; /* one that is not declared, or NOTHING */
};

/* The schema of `node` for properties that it does not name; NULL: it says nothing. */
static const json_t *others_of(const json_t *node)
{
    const json_t *x = json_object_get(node, "additionalProperties");
    return x || !schema_alone(node) ? x : json_object_get(node, "unevaluatedProperties");
}

/* The schemas of a property, or with name = NULL of one that is not declared. */
static glim_status name_conj(struct values *v, const struct pure *p, const char *name, struct conj **out)
{
    struct nodes l = {0};
    for (size_t i = 0; i < p->n; i++) {
        const json_t *x = name ? json_object_get(json_object_get(p->node[i], "properties"), name) : NULL;
        if (!x)
            x = others_of(p->node[i]);
        if (x)
            TRY(nodes_add(&v->s, &l, x));
    }
    return schema_conj(&v->s, &l, out);
}

/* Key and value. key: the key's node, with what stands between the two. */
static glim_status entry(struct entries *o, const char *name, struct conj *c, grammar_node key, grammar_node *out)
{
    struct values *v = o->v;
    grammar_node x, after = v->none;
    if (o->top && v->d->frame.args == DIALECT_ARGS_PARAMS) {
        TRY(param(v, name, c, &x));
        after = after_value(v);
    } else {
        TRY(value(v, c, &x));
    }
    grammar_node part[] = {key, x, after};
    *out = grammar_seq(v->s.b, part, 3);
    return GLIM_OK;
}

/* A declared name with what stands around it. */
static glim_status key_of(struct entries *o, const char *name, grammar_node *out)
{
    struct values *v = o->v;
    if (o->top && v->d->frame.args == DIALECT_ARGS_PARAMS) {
        struct str t = {0};
        str_puts(&t, v->d->frame.before_key);
        calls_spell_name(v->d, &t, name);
        bool failed = t.failed;
        grammar_node part[] = {failed ? 0 : grammar_text(v->s.b, t.s, t.n), after_key(v)};
        *out = grammar_seq(v->s.b, part, 2);
        str_fini(&t);
        return failed ? schema_starved(&v->s) : GLIM_OK;
    }
    grammar_node part[2] = {0, o->top ? v->none : v->colon};
    TRY(key_node(v, name, o->top, &part[0]));
    *out = grammar_seq(v->s.b, part, 2);
    return GLIM_OK;
}

static glim_status add_name(struct entries *o, struct map *index, const char *name, bool required)
{
    struct sch *s = &o->v->s;
    uintptr_t at = (uintptr_t)map_get(index, name, strlen(name));
    if (!at) {
        o->name[o->n++] = name;
        at = o->n;
        TRY(map_put(s, index, name, strlen(name), (void *)at));
    }
    o->n_required += required && !o->required[at - 1];
    o->required[at - 1] |= required;
    return GLIM_OK;
}

static glim_status add_names(struct entries *o, struct map *index)
{
    const char *name;
    json_t *x;
    for (size_t i = 0; i < o->p->n; i++)
        json_object_foreach(json_object_get(o->p->node[i], "properties"), name, x) TRY(add_name(o, index, name, false));
    for (size_t i = 0; i < o->p->n; i++) {
        const json_t *list = json_object_get(o->p->node[i], "required");
        for (size_t j = 0; j < json_array_size(list); j++)
            TRY(add_name(o, index, json_string_value(json_array_get(list, j)), true));
    }
    return GLIM_OK;
}

static glim_status collect(struct entries *o)
{
    struct sch *s = &o->v->s;
    struct map index = {0};
    size_t room = 1;
    for (size_t i = 0; i < o->p->n; i++)
        room += json_object_size(json_object_get(o->p->node[i], "properties")) +
                json_array_size(json_object_get(o->p->node[i], "required"));
    o->name = schema_take(s, room * sizeof *o->name);
    o->required = schema_take(s, room);
    o->node = schema_take(s, room * sizeof *o->node);
    if (!o->name || !o->required || !o->node)
        return schema_starved(s);
    glim_status st = add_names(o, &index);
    mem_free(index.slot);
    return st == GLIM_OK ? schema_spend(s, room * o->p->n) : st;
}

static glim_status declared_entries(struct entries *o)
{
    struct values *v = o->v;
    for (size_t i = 0; i < o->n; i++) {
        struct conj *c;
        bool empty;
        grammar_node key;
        o->node[i] = NOTHING;
        TRY(name_conj(v, o->p, o->name[i], &c));
        TRY(schema_is_empty(&v->s, c, &empty));
        if (empty)
            continue;
        if (o->top)
            TRY(calls_check_name(v->d, json_string_value(json_object_get(v->tool, "name")), o->name[i], v->s.e));
        TRY(key_of(o, o->name[i], &key));
        TRY(entry(o, o->name[i], c, key, &o->node[i]));
    }
    return GLIM_OK;
}

/* An object that says nothing of its properties is open; one that declares some is where additionalProperties says so.
 */
static bool is_open(const struct entries *o)
{
    bool open = o->n == 0;
    for (size_t i = 0; i < o->p->n && !open; i++) {
        const json_t *x = others_of(o->p->node[i]);
        open = x && !json_is_false(x);
    }
    return open;
}

/* The names that are not declared. */
static glim_status other_names(struct entries *o, bool bare, struct dfa **out)
{
    struct values *v = o->v;
    struct str *text = schema_take(&v->s, (o->n + 1) * sizeof *text);
    struct dfa *d = NULL;
    glim_status st = text ? GLIM_OK : schema_starved(&v->s);
    *out = NULL;
    for (size_t i = 0; text && i < o->n; i++) {
        str_puts(&text[i], o->name[i]);
        if (text[i].failed)
            st = schema_starved(&v->s);
    }
    if (st == GLIM_OK)
        st = string_list(&v->s, text, o->n, &d);
    if (st == GLIM_OK)
        st = dfa_combine(out, v->text, DFA_BUT_NOT, d, v->s.e);
    if (st == GLIM_OK && bare)
        st = combine_regex(v, out, DFA_AND, KEY);
    dfa_free(d);
    for (size_t i = 0; text && i < o->n; i++)
        str_fini(&text[i]);
    return st;
}

static glim_status other_entry(struct entries *o)
{
    struct values *v = o->v;
    const struct dialect_frame *f = &v->d->frame;
    bool bare = o->top || braces(v), framed = o->top && f->args == DIALECT_ARGS_PARAMS;
    struct conj *c;
    struct dfa *names;
    bool empty;
    grammar_node key = 0;
    TRY(name_conj(v, o->p, NULL, &c));
    TRY(schema_is_empty(&v->s, c, &empty));
    if (empty || !is_open(o))
        return GLIM_OK;
    glim_status st = other_names(o, bare, &names);
    if (st == GLIM_OK && bare)
        key = grammar_dfa(v->s.b, names);
    else if (st == GLIM_OK)
        st = quoted(v, names, &key);
    dfa_free(names);
    TRY(st);
    grammar_node sign = framed ? after_key(v) : text_of(v, o->top && python(v) ? "=" : ":");
    grammar_node part[] = {framed ? text_of(v, f->before_key) : v->none, key, sign, o->top ? v->none : v->colon};
    return entry(o, NULL, c, grammar_seq(v->s.b, part, 4), &o->other);
}

static glim_status check_object(const struct entries *o)
{
    static const char *const keyword[] = {"patternProperties", "propertyNames", "unevaluatedProperties"};
    struct sch *s = &o->v->s;
    uint32_t min, max;
    pure_counts(o->p, "minProperties", "maxProperties", &min, &max);
    for (size_t i = 0; i < o->p->n; i++) {
        const json_t *node = o->p->node[i];
        for (size_t k = 0; k < sizeof keyword / sizeof *keyword; k++) {
            const json_t *x = json_object_get(node, keyword[k]);
            if (x && x != others_of(node) && !schema_says_nothing(x))
                return schema_refuse(s, node, keyword[k], "it in a dialect whose calls are not JSON",
                                     "properties and additionalProperties");
        }
        if (json_object_get(node, "minProperties") && min > o->n_required)
            return schema_refuse(s, node, "minProperties", "it in a dialect whose calls are not JSON", "required");
        if (json_object_get(node, "maxProperties") && (o->other != NOTHING || max < o->n))
            return schema_refuse(s, node, "maxProperties", "it in a dialect whose calls are not JSON", "properties");
    }
    return GLIM_OK;
}

/* The members in their order; none[] and some[] differ in whether a comma is due. */
static grammar_node members(const struct entries *o)
{
    struct sch *s = &o->v->s;
    grammar_node comma = o->top && o->v->d->frame.args == DIALECT_ARGS_PARAMS ? o->v->none : o->v->comma;
    grammar_node none = o->v->none, some = o->v->none;
    if (o->other != NOTHING) {
        grammar_node more[] = {comma, o->other};
        some = grammar_repeat(s->b, grammar_seq(s->b, more, 2), 0, GRAMMAR_MANY);
        grammar_node all[] = {o->other, some};
        none = schema_maybe(s, grammar_seq(s->b, all, 2));
    }
    for (size_t i = o->n; i-- > 0;) {
        if (o->node[i] == NOTHING && o->required[i])
            return grammar_alt(s->b, NULL, 0);
        if (o->node[i] == NOTHING)
            continue;
        grammar_node first[] = {o->node[i], some}, later[] = {comma, o->node[i], some};
        grammar_node a[] = {grammar_seq(s->b, first, 2), none}, b[] = {grammar_seq(s->b, later, 3), some};
        none = o->required[i] ? a[0] : grammar_alt(s->b, a, 2);
        some = o->required[i] ? b[0] : grammar_alt(s->b, b, 2);
        if (i % RULE_EVERY == RULE_EVERY - 1) {
            none = schema_rule(s, none);
            some = schema_rule(s, some);
        }
    }
    return none;
}

static glim_status object(struct values *v, struct pure *p, bool top, grammar_node *out)
{
    struct entries o = {.v = v, .p = p, .top = top, .other = NOTHING};
    TRY(collect(&o));
    TRY(declared_entries(&o));
    TRY(other_entry(&o));
    TRY(check_object(&o));
    grammar_node all[] = {top ? v->none : text_of(v, "{"), members(&o), top ? v->none : text_of(v, "}")};
    *out = grammar_seq(v->s.b, all, 3);
    return GLIM_OK;
}

/* ---- the whole ---- */

static glim_status arguments(struct values *v, grammar_node *out)
{
    struct sch *s = &v->s;
    struct nodes l = {0};
    struct conj *c;
    bool empty;
    unsigned live;
    size_t n = 0;
    TRY(schema_walk(s, s->root));
    TRY(nodes_add(s, &l, s->root));
    TRY(schema_conj(s, &l, &c));
    TRY(schema_is_empty(s, c, &empty));
    TRY(live_types(v, c, &live));
    if (empty || !(live & T_OBJECT))
        return schema_refuse(s, s->root, NULL, "one that no object satisfies", "one that some do");
    struct alternatives *a = &c->alt[STRICT];
    grammar_node *part = schema_take(s, (a->n + 1) * sizeof *part);
    if (!part)
        return schema_starved(s);
    for (size_t i = 0; i < a->n; i++) {
        if (a->v[i].has_literal)
            return schema_refuse(s, a->v[i].node[0], NULL, "enum or const of whole arguments", "properties");
        if (a->v[i].live & T_OBJECT)
            TRY(object(v, &a->v[i], true, &part[n++]));
    }
    TRY(define_rules(v));
    *out = grammar_alt(s->b, part, n);
    return GLIM_OK;
}

/* The texts that end a value, or the message it stands in. */
static glim_status writable(struct values *v)
{
    const struct dialect *d = v->d;
    const char *mark[DIALECT_MAX_DROP + 2];
    size_t n = 0;
    if (d->frame.args == DIALECT_ARGS_BRACE)
        mark[n++] = d->quote;
    if (d->frame.args == DIALECT_ARGS_PARAMS) {
        mark[n++] = d->param_end;
        if (d->message)
            mark[n++] = d->start;
        for (size_t i = 0; d->message && i < DIALECT_MAX_DROP; i++)
            mark[n++] = d->drop[i];
    }
    return calls_text_without(mark, n, &v->text, v->s.e);
}

glim_status calls_value_node(struct grammar_builder *b, const struct dialect *d, const json_t *tool, const json_t *root,
                             size_t id, grammar_node *out, struct glim_err *e)
{
    struct glim_err own = {0};
    struct values v = {.s = {.b = b, .e = e ? e : &own, .root = root, .dfa_work = dfa_work()}, .d = d, .tool = tool};
    grammar_node space = grammar_repeat(b, grammar_text(b, " ", 1), 0, d->frame.args != DIALECT_ARGS_BRACE);
    grammar_node comma[] = {grammar_text(b, ",", 1), space};
    snprintf(v.name, sizeof v.name, "call%zu", id);
    snprintf(v.s.name, sizeof v.s.name, "call%zu.members", id);
    v.none = grammar_text(b, "", 0);
    v.comma = grammar_seq(b, comma, 2);
    v.colon = space;
    json_setup();
    glim_status st = writable(&v);
    if (st == GLIM_OK)
        st = arguments(&v, out);
    dfa_free(v.text);
    schema_fini(&v.s);
    return st;
}
