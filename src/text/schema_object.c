/* Objects.
 *
 * Declared members come in their order and each at most once, so a grammar over them has one place per member: "from
 * member i on, c members have been written". c stops counting where it no longer matters: at 1 (is a comma due?), or at
 * minProperties and maxProperties. That keeps any number of optional members linear.
 *
 * Names that are not declared are divided into regions, by which of the patterns they match; each region is an
 * automaton of names and a conjunction for the values. */
#include "base/mem.h"
#include "text/schema_impl.h"

#include <string.h>

enum { REGIONS_MAX = 64, RULE_EVERY = 48 };

struct member {
    const char *name;
    bool required, possible;
    struct conj *value;
};
struct object {
    struct member *v;
    size_t n, cap, n_required;
    struct conj *names; /* of propertyNames; NULL = none */
};

/* ---- what the schemas say about one name ---- */

/* The schemas of `node` for properties that it does not name; NULL = nothing is said. */
static const json_t *others_of(const json_t *node)
{
    const json_t *v = json_object_get(node, "additionalProperties");
    return v || !schema_alone(node) ? v : json_object_get(node, "unevaluatedProperties");
}

static glim_status name_conj(struct sch *s, const struct pure *p, const char *name, struct conj **out)
{
    struct nodes l = {0};
    for (size_t i = 0; i < p->n; i++) {
        const json_t *node = p->node[i], *v = json_object_get(json_object_get(node, "properties"), name);
        bool found = v != NULL;
        const char *pattern;
        json_t *x;
        if (v)
            TRY(nodes_add(s, &l, v));
        json_object_foreach(json_object_get(node, "patternProperties"), pattern, x)
        {
            const struct dfa *d;
            TRY(string_pattern(s, node, "patternProperties", pattern, strlen(pattern), &d));
            if (!dfa_match(d, name, strlen(name)))
                continue;
            found = true;
            TRY(nodes_add(s, &l, x));
        }
        if (!found && others_of(node))
            TRY(nodes_add(s, &l, others_of(node)));
    }
    return schema_conj(s, &l, out);
}

static glim_status name_allowed(struct sch *s, const struct pure *p, struct conj *names, const char *name, bool *ok)
{
    *ok = true;
    if (!names)
        return GLIM_OK;
    json_t *v = json_string(name);
    glim_status st = v ? schema_validates(s, names, p->loose ? LOOSE : STRICT, v, 0, ok) : schema_starved(s);
    json_decref(v);
    return st;
}

/* ---- members ---- */

static glim_status add_member(struct sch *s, struct object *o, struct map *index, const char *name, bool required)
{
    uintptr_t at = (uintptr_t)map_get(index, name, strlen(name));
    if (at) {
        o->n_required += required && !o->v[at - 1].required;
        o->v[at - 1].required |= required;
        return GLIM_OK;
    }
    if (o->n == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 1;
        struct member *v = schema_take(s, cap * sizeof *v);
        if (!v)
            return schema_starved(s);
        if (o->n)
            memcpy(v, o->v, o->n * sizeof *v);
        o->v = v;
        o->cap = cap;
    }
    o->v[o->n++] = (struct member){.name = name, .required = required};
    o->n_required += required;
    return map_put(s, index, name, strlen(name), (void *)(uintptr_t)o->n);
}

static glim_status collect(struct sch *s, const struct pure *p, struct object *o, struct map *index)
{
    struct nodes names = {0};
    for (size_t i = 0; i < p->n; i++) {
        const char *name;
        json_t *v;
        json_object_foreach(json_object_get(p->node[i], "properties"), name, v)
            TRY(add_member(s, o, index, name, false));
        if ((v = json_object_get(p->node[i], "propertyNames")))
            TRY(nodes_add(s, &names, v));
    }
    for (size_t i = 0; i < p->n; i++) {
        const json_t *list = json_object_get(p->node[i], "required");
        for (size_t j = 0; j < json_array_size(list); j++)
            TRY(add_member(s, o, index, json_string_value(json_array_get(list, j)), true));
    }
    return names.n ? schema_conj(s, &names, &o->names) : GLIM_OK;
}

static glim_status object_of(struct sch *s, struct pure *p, struct object **out)
{
    struct map index = {0};
    struct object *o = *out = p->object;
    if (o)
        return GLIM_OK;
    if (!(o = *out = schema_take(s, sizeof *o)))
        return schema_starved(s);
    glim_status st = collect(s, p, o, &index);
    mem_free(index.slot);
    for (size_t i = 0; st == GLIM_OK && i < o->n; i++) {
        st = schema_spend(s, p->n);
        if (st == GLIM_OK)
            st = name_conj(s, p, o->v[i].name, &o->v[i].value);
        if (st == GLIM_OK)
            st = name_allowed(s, p, o->names, o->v[i].name, &o->v[i].possible);
    }
    p->object = st == GLIM_OK ? o : NULL;
    return st;
}

/* The value of a name that is not declared and that no pattern matches. */
static glim_status others_conj(struct sch *s, const struct pure *p, struct conj **out)
{
    struct nodes l = {0};
    for (size_t i = 0; i < p->n; i++)
        if (others_of(p->node[i]))
            TRY(nodes_add(s, &l, others_of(p->node[i])));
    return schema_conj(s, &l, out);
}

static bool has_patterns(const struct pure *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (json_object_size(json_object_get(p->node[i], "patternProperties")))
            return true;
    return false;
}

glim_status object_is_empty(struct sch *s, struct pure *p, bool *empty)
{
    struct object *o;
    struct conj *others;
    uint32_t min, max;
    size_t n_possible = 0;
    bool closed;
    *empty = false;
    TRY(object_of(s, p, &o));
    pure_counts(p, "minProperties", "maxProperties", &min, &max);
    for (size_t i = 0; i < o->n && !*empty; i++) {
        bool none = !o->v[i].possible;
        if (!none && (o->v[i].required || min))
            TRY(schema_is_empty(s, o->v[i].value, &none));
        n_possible += !none;
        *empty = none && o->v[i].required;
    }
    if (*empty || o->n_required > max) {
        *empty = true;
        return GLIM_OK;
    }
    if (min <= n_possible || has_patterns(p))
        return GLIM_OK;
    TRY(others_conj(s, p, &others));
    TRY(schema_is_empty(s, others, &closed));
    *empty = closed;
    return GLIM_OK;
}

glim_status object_validates(struct sch *s, struct pure *p, const json_t *value, int depth, bool *ok)
{
    struct object *o;
    uint32_t min, max;
    const char *name;
    json_t *v;
    TRY(object_of(s, p, &o));
    pure_counts(p, "minProperties", "maxProperties", &min, &max);
    *ok = json_object_size(value) >= min && json_object_size(value) <= max;
    for (size_t i = 0; i < o->n; i++)
        *ok = *ok && (!o->v[i].required || json_object_get(value, o->v[i].name));
    if (!*ok)
        return GLIM_OK;
    json_object_foreach((json_t *)(uintptr_t)value, name, v)
    {
        struct conj *c;
        TRY(name_allowed(s, p, o->names, name, ok));
        if (!*ok)
            return GLIM_OK;
        TRY(name_conj(s, p, name, &c));
        TRY(schema_validates(s, c, p->loose ? LOOSE : STRICT, v, depth + 1, ok));
        if (!*ok)
            return GLIM_OK;
    }
    return GLIM_OK;
}

/* ---- names that are not declared ---- */

struct regions {
    struct sch *s;
    const struct pure *p;
    const char **pattern; /* [n] all patterns, with the automata of the names they match */
    const struct dfa **match;
    size_t n;
    bool *in; /* [n] which of them the region at hand matches */
    grammar_node *entry;
    size_t n_entry;
};

static size_t pattern_index(const struct regions *r, const char *pattern)
{
    size_t i = 0;
    while (i < r->n && strcmp(r->pattern[i], pattern) != 0)
        i++;
    return i;
}

static glim_status find_patterns(struct regions *r)
{
    size_t room = 1;
    const char *pattern;
    json_t *x;
    for (size_t i = 0; i < r->p->n; i++)
        room += json_object_size(json_object_get(r->p->node[i], "patternProperties"));
    r->pattern = schema_take(r->s, room * sizeof *r->pattern);
    r->match = schema_take(r->s, room * sizeof *r->match);
    r->in = schema_take(r->s, room);
    r->entry = schema_take(r->s, REGIONS_MAX * sizeof *r->entry);
    if (!r->pattern || !r->match || !r->in || !r->entry)
        return schema_starved(r->s);
    for (size_t i = 0; i < r->p->n; i++)
        json_object_foreach(json_object_get(r->p->node[i], "patternProperties"), pattern, x)
        {
            if (pattern_index(r, pattern) < r->n)
                continue;
            r->pattern[r->n] = pattern;
            TRY(string_pattern(r->s, r->p->node[i], "patternProperties", pattern, strlen(pattern), &r->match[r->n]));
            r->n++;
        }
    return GLIM_OK;
}

static glim_status region_conj(struct regions *r, struct conj **out)
{
    struct nodes l = {0};
    for (size_t i = 0; i < r->p->n; i++) {
        const json_t *node = r->p->node[i];
        bool found = false;
        const char *pattern;
        json_t *x;
        json_object_foreach(json_object_get(node, "patternProperties"), pattern,
                            x) if (r->in[pattern_index(r, pattern)])
        {
            found = true;
            TRY(nodes_add(r->s, &l, x));
        }
        if (!found && others_of(node))
            TRY(nodes_add(r->s, &l, others_of(node)));
    }
    return schema_conj(r->s, &l, out);
}

static glim_status add_entry(struct regions *r, const struct dfa *spelled, struct conj *value)
{
    struct sch *s = r->s;
    grammar_node v;
    if (r->n_entry == REGIONS_MAX)
        return schema_refuse(s, r->p->node[0], "patternProperties", "more than 64 combinations of patterns", "fewer");
    TRY(schema_build(s, value, &v));
    grammar_node part[] = {grammar_dfa(s->b, spelled), grammar_text(s->b, ":", 1), s->sp_colon, v};
    r->entry[r->n_entry++] = schema_seq(s, part, 4);
    return GLIM_OK;
}

/* Divide the names d by the patterns from `at` on; d belongs to the callee. */
static glim_status divide(struct regions *r, struct dfa *d, size_t at)
{
    struct conj *value;
    struct dfa *part = NULL;
    bool empty = dfa_is_empty(d);
    glim_status st = schema_spend(r->s, 1);
    if (empty || st != GLIM_OK) {
        dfa_free(d);
        return st;
    }
    if (at == r->n) {
        st = region_conj(r, &value);
        if (st == GLIM_OK)
            st = schema_is_empty(r->s, value, &empty);
        if (st == GLIM_OK && !empty)
            st = string_spell(r->s, d, &part);
        if (st == GLIM_OK && !empty)
            st = add_entry(r, part, value);
        dfa_free(part);
        dfa_free(d);
        return st;
    }
    for (int in = 1; in >= 0 && st == GLIM_OK; in--) {
        r->in[at] = in;
        st = dfa_combine(&part, d, in ? DFA_AND : DFA_BUT_NOT, r->match[at], r->s->e);
        if (st == GLIM_OK)
            st = divide(r, part, at + 1);
        else if (st == GLIM_REFUSED)
            st = schema_blame(r->s, r->p->node[0], "patternProperties");
    }
    dfa_free(d);
    return st;
}

/* The declared names as texts, or as they are spelled. */
static glim_status declared(struct sch *s, const struct object *o, bool spelled, struct dfa **out)
{
    struct str *text = schema_take(s, (o->n + 1) * sizeof *text);
    glim_status st = text ? GLIM_OK : schema_starved(s);
    *out = NULL;
    for (size_t i = 0; text && i < o->n; i++) {
        if (spelled)
            string_literal(&text[i], o->v[i].name, strlen(o->v[i].name));
        else
            str_puts(&text[i], o->v[i].name);
        if (text[i].failed)
            st = schema_starved(s);
    }
    if (st == GLIM_OK)
        st = string_list(s, text, o->n, out);
    for (size_t i = 0; text && i < o->n; i++)
        str_fini(&text[i]);
    return st;
}

/* All names but the declared ones: from `all`, which is in values or spelled. */
static glim_status undeclared(struct sch *s, const struct object *o, const struct dfa *all, bool spelled,
                              struct dfa **out)
{
    struct dfa *names;
    TRY(declared(s, o, spelled, &names));
    glim_status st = dfa_combine(out, all, DFA_BUT_NOT, names, s->e);
    dfa_free(names);
    return st;
}

static glim_status find_regions(struct regions *r, const struct object *o)
{
    struct sch *s = r->s;
    const struct dfa *all;
    struct dfa *d = NULL, *allowed = NULL;
    struct conj *value;
    bool empty;
    TRY(find_patterns(r));
    if (!r->n && !o->names) { /* the usual case works on spellings at once */
        TRY(region_conj(r, &value));
        TRY(schema_is_empty(s, value, &empty));
        if (empty)
            return GLIM_OK;
        TRY(string_any_spelled(s, &all));
        TRY(undeclared(s, o, all, true, &d));
        glim_status st = add_entry(r, d, value);
        dfa_free(d);
        return st;
    }
    TRY(string_any(s, &all));
    TRY(undeclared(s, o, all, false, &d));
    if (o->names) {
        glim_status st = string_conj(s, o->names, &all);
        if (st == GLIM_OK)
            st = dfa_combine(&allowed, d, DFA_AND, all, s->e);
        dfa_free(d);
        if (st != GLIM_OK)
            return st;
        d = allowed;
    }
    return divide(r, d, 0);
}

/* ---- building ---- */

struct shape {
    struct sch *s;
    const struct object *o;
    grammar_node *entry; /* [n] of each possible member: name, colon, value */
    bool *required;
    size_t n;
    grammar_node other; /* a member that is not declared; 0 = none may come */
    uint32_t min, max, cap;
};

static glim_status check_object(struct sch *s, const struct pure *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const json_t *v = json_object_get(p->node[i], "unevaluatedProperties");
        if (v && !schema_says_nothing(v) && !others_of(p->node[i]))
            return schema_refuse(s, p->node[i], "unevaluatedProperties",
                                 "it beside keywords that evaluate properties elsewhere",
                                 "additionalProperties, or all properties in one schema");
    }
    return GLIM_OK;
}

static glim_status member_entries(struct shape *b)
{
    struct sch *s = b->s;
    b->entry = schema_take(s, (b->o->n + 1) * sizeof *b->entry);
    b->required = schema_take(s, b->o->n + 1);
    if (!b->entry || !b->required)
        return schema_starved(s);
    for (size_t i = 0; i < b->o->n; i++) {
        const struct member *m = &b->o->v[i];
        struct str key = {0};
        bool empty = !m->possible;
        grammar_node v;
        if (!empty)
            TRY(schema_is_empty(s, m->value, &empty));
        if (empty)
            continue;
        TRY(schema_build(s, m->value, &v));
        string_literal(&key, m->name, strlen(m->name));
        str_putc(&key, ':');
        grammar_node part[] = {key.failed ? 0 : grammar_text(s->b, key.s, key.n), s->sp_colon, v};
        bool failed = key.failed;
        str_fini(&key);
        if (failed)
            return schema_starved(s);
        b->required[b->n] = m->required;
        b->entry[b->n++] = schema_seq(s, part, 3);
    }
    return GLIM_OK;
}

static grammar_node comma(const struct shape *b, grammar_node v, uint32_t written)
{
    grammar_node part[] = {grammar_text(b->s->b, ",", 1), b->s->sp_comma, v};
    return written ? schema_seq(b->s, part, 3) : v;
}

/* What may follow the declared members when `written` have been written. */
static grammar_node last_part(const struct shape *b, uint32_t written)
{
    struct sch *s = b->s;
    uint32_t due = b->min > written ? b->min - written : 0;
    uint32_t room = b->max == GRAMMAR_MANY ? GRAMMAR_MANY : b->max - written;
    if (!b->other || !room)
        return due ? grammar_alt(s->b, NULL, 0) : grammar_text(s->b, "", 0);
    if (written)
        return grammar_repeat(s->b, comma(b, b->other, 1), due, room);
    grammar_node more =
        grammar_repeat(s->b, comma(b, b->other, 1), due ? due - 1 : 0, room == GRAMMAR_MANY ? room : room - 1);
    grammar_node part[] = {b->other, more};
    grammar_node all = schema_seq(s, part, 2);
    return due ? all : schema_maybe(s, all);
}

/* The members from i on, for each number that may have been written: row[c]. Filled from the last member up. */
static glim_status all_parts(const struct shape *b, grammar_node *out)
{
    struct sch *s = b->s;
    size_t width = (size_t)b->cap + 1;
    grammar_node *row = schema_take(s, width * sizeof *row), *next = schema_take(s, width * sizeof *next);
    if (!row || !next)
        return schema_starved(s);
    for (uint32_t c = 0; c <= b->cap; c++)
        row[c] = last_part(b, c);
    for (size_t i = b->n; i-- > 0;) {
        for (uint32_t c = 0; c <= b->cap && c <= i; c++) {
            grammar_node v[2];
            size_t n = 0;
            if (c < b->max) {
                grammar_node part[] = {comma(b, b->entry[i], c), row[c < b->cap ? c + 1 : c]};
                v[n++] = schema_seq(s, part, 2);
            }
            if (!b->required[i])
                v[n++] = row[c];
            next[c] = n == 1 ? v[0] : grammar_alt(s->b, v, n);
            if (i % RULE_EVERY == RULE_EVERY - 1)
                next[c] = schema_rule(s, next[c]);
        }
        grammar_node *swap = row;
        row = next;
        next = swap;
    }
    *out = row[0];
    return GLIM_OK;
}

/* Which counts matter. Two members that are not declared may have one name, so that two of them do not make
 * minProperties 2 true. */
static glim_status count_states(struct shape *b, const struct pure *p)
{
    size_t n_required = b->o->n_required;
    pure_counts(p, "minProperties", "maxProperties", &b->min, &b->max);
    if (b->min <= n_required)
        b->min = 0;
    if (!b->other && b->n <= b->max)
        b->max = GRAMMAR_MANY;
    if (b->other && b->min > n_required + 1)
        for (size_t i = 0; i < p->n; i++)
            if (json_object_get(p->node[i], "minProperties"))
                return schema_refuse(b->s, p->node[i], "minProperties", "properties that are not declared to count",
                                     "additionalProperties: false, or one more than the required ones at most");
    b->cap = b->max != GRAMMAR_MANY ? b->max : b->min ? b->min : 1;
    if (b->cap > b->n)
        b->cap = (uint32_t)b->n; /* no more than that are ever written before the others */
    if (((size_t)b->cap + 1) * (b->n + 1) <= SCHEMA_MAX_CHOICES)
        return GLIM_OK;
    return schema_refuse(b->s, p->node[0], b->min ? "minProperties" : "maxProperties",
                         "more than 20000 states of counting", "fewer optional properties");
}

/* Properties are declared, and nothing is said about others (schema_opts.closed). */
static bool may_close(const struct sch *s, const struct pure *p, const struct object *o)
{
    static const char *const about[] = {"additionalProperties", "unevaluatedProperties", "patternProperties",
                                        "propertyNames", "minProperties"};
    bool declared = false;
    for (size_t i = 0; i < p->n; i++) {
        declared = declared || json_object_get(p->node[i], "properties");
        for (size_t k = 0; k < sizeof about / sizeof *about; k++)
            if (json_object_get(p->node[i], about[k]))
                return false;
    }
    return s->opts.closed && declared && o->n > 0;
}

glim_status object_build(struct sch *s, struct pure *p, grammar_node *out)
{
    static const char *const keyword[] = {"patternProperties", "propertyNames", "properties", "required"};
    struct object *o;
    struct shape b = {.s = s};
    struct regions r = {.s = s, .p = p};
    grammar_node body = 0;
    TRY(check_object(s, p));
    TRY(object_of(s, p, &o));
    b.o = o;
    TRY(member_entries(&b));
    glim_status st = find_regions(&r, o);
    if (st != GLIM_OK)
        return st == GLIM_REFUSED ? pure_blame(s, p, keyword, sizeof keyword / sizeof *keyword) : st;
    if (r.n_entry && !may_close(s, p, o))
        b.other = r.n_entry == 1 ? r.entry[0] : grammar_alt(s->b, r.entry, r.n_entry);
    TRY(count_states(&b, p));
    TRY(schema_spend(s, (size_t)(b.cap + 1) * (b.n + 1)));
    TRY(all_parts(&b, &body));
    grammar_node all[] = {grammar_text(s->b, "{", 1), s->sp_open, body, s->sp_close, grammar_text(s->b, "}", 1)};
    *out = schema_seq(s, all, 5);
    return GLIM_OK;
}
