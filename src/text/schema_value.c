/* One alternative: which types it leaves, the literals of enum and const, and arrays. */
#include "text/schema_impl.h"

#include <string.h>

bool schema_says_nothing(const json_t *v)
{
    return json_is_true(v) || (json_is_object(v) && json_object_size(v) == 0);
}

bool schema_alone(const json_t *node)
{
    static const char *const in_place[] = {
        "$ref",        "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
        "dependencies"};
    for (size_t i = 0; i < sizeof in_place / sizeof *in_place; i++)
        if (json_object_get(node, in_place[i]))
            return false;
    return true;
}

static unsigned type_bit(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return T_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return T_BOOL;
    case JSON_INTEGER:
    case JSON_REAL:
        return T_NUMBER;
    case JSON_STRING:
        return T_STRING;
    case JSON_ARRAY:
        return T_ARRAY;
    case JSON_OBJECT:
        return T_OBJECT;
    }
    return 0;
}

static unsigned named_type(const char *name, bool *integer, bool *number)
{
    static const char *const list[] = {"null", "boolean", "number", "string", "array", "object"};
    if (strcmp(name, "integer") == 0) {
        *integer = true;
        return T_NUMBER;
    }
    *number = *number || strcmp(name, "number") == 0;
    for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(name, list[i]) == 0)
            return 1u << i;
    return 0;
}

unsigned schema_node_types(const json_t *node, bool *integer)
{
    const json_t *type = json_object_get(node, "type");
    bool number = false;
    unsigned types = 0;
    *integer = false;
    if (!type)
        return T_ALL;
    if (json_is_string(type))
        types = named_type(json_string_value(type), integer, &number);
    for (size_t i = 0; i < json_array_size(type); i++)
        types |= named_type(json_string_value(json_array_get(type, i)), integer, &number);
    if (json_is_true(json_object_get(node, "nullable")))
        types |= T_NULL;
    *integer = *integer && !number;
    return types;
}

bool schema_equal(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *v;
    if (type_bit(a) != type_bit(b))
        return false;
    if (json_is_number(a))
        return number_equal(a, b);
    if (json_is_array(a)) {
        bool same = json_array_size(a) == json_array_size(b);
        for (size_t i = 0; same && i < json_array_size(a); i++)
            same = schema_equal(json_array_get(a, i), json_array_get(b, i));
        return same;
    }
    if (!json_is_object(a))
        return json_equal(a, b);
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach((json_t *)(uintptr_t)a, key, v)
    {
        const json_t *w = json_object_get(b, key);
        if (!w || !schema_equal(v, w))
            return false;
    }
    return true;
}

static uint32_t count_of(const json_t *v)
{
    if (json_is_real(v))
        return (uint32_t)json_real_value(v);
    return json_integer_value(v) >= GRAMMAR_MANY ? GRAMMAR_MANY - 1 : (uint32_t)json_integer_value(v);
}

void pure_counts(const struct pure *p, const char *least, const char *most, uint32_t *min, uint32_t *max)
{
    *min = 0;
    *max = GRAMMAR_MANY;
    for (size_t i = 0; i < p->n; i++) {
        const json_t *a = json_object_get(p->node[i], least), *b = json_object_get(p->node[i], most);
        if (a && count_of(a) > *min)
            *min = count_of(a);
        if (b && count_of(b) < *max)
            *max = count_of(b);
    }
}

glim_status pure_blame(const struct sch *s, const struct pure *p, const char *const *keyword, size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < p->n; i++)
            if (json_object_get(p->node[i], keyword[k]))
                return schema_blame(s, p->node[i], keyword[k]);
    return schema_blame(s, p->n ? p->node[0] : s->root, NULL);
}

/* ---- validity of a value ---- */

static bool listed(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (schema_equal(json_array_get(list, i), value))
            return true;
    return false;
}

static bool node_admits(const json_t *node, const json_t *value)
{
    bool integer;
    unsigned types = schema_node_types(node, &integer);
    const json_t *list = json_object_get(node, "enum"), *one = json_object_get(node, "const");
    if (!(types & type_bit(value)) || (integer && json_is_number(value) && !number_is_integer(value)))
        return false;
    if ((list && !listed(list, value)) || (one && !schema_equal(one, value)))
        return false;
    return !listed(json_object_get(node, KW_NOT_ENUM), value);
}

glim_status pure_validates(struct sch *s, struct pure *p, const json_t *value, int depth, bool *ok)
{
    *ok = false;
    for (size_t i = 0; i < p->n; i++) {
        TRY(schema_spend(s, 1 + json_array_size(json_object_get(p->node[i], "enum")) / 8));
        if (!node_admits(p->node[i], value))
            return GLIM_OK;
    }
    *ok = true;
    if (json_is_number(value))
        return number_validates(s, p, value, ok);
    if (json_is_string(value))
        return string_validates(s, p, value, ok);
    if (json_is_array(value))
        return array_validates(s, p, value, depth, ok);
    return json_is_object(value) ? object_validates(s, p, value, depth, ok) : GLIM_OK;
}

/* ---- what is left ---- */

/* The candidates of the first enum or const, without those that something rules out. */
static glim_status settle_literals(struct sch *s, struct pure *p)
{
    const json_t *list = NULL, *one = NULL;
    for (size_t i = 0; i < p->n && !list && !one; i++) {
        one = json_object_get(p->node[i], "const");
        list = json_object_get(p->node[i], "enum");
    }
    size_t n = one ? 1 : json_array_size(list);
    p->has_literal = one || list;
    p->literal = p->has_literal ? schema_take(s, (n + 1) * sizeof *p->literal) : NULL;
    if (p->has_literal && !p->literal)
        return schema_starved(s);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = one ? one : json_array_get(list, i);
        bool ok;
        TRY(pure_validates(s, p, v, 0, &ok));
        if (!ok)
            continue;
        p->literal[p->n_literal++] = v;
        p->live |= type_bit(v);
    }
    return GLIM_OK;
}

static bool excluded(const struct pure *p, const json_t *value)
{
    for (size_t i = 0; i < p->n; i++)
        if (listed(json_object_get(p->node[i], KW_NOT_ENUM), value))
            return true;
    return false;
}

/* An enum under `not` that holds arrays or objects, where such values may come. */
static glim_status check_not_enum(struct sch *s, const struct pure *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const json_t *list = json_object_get(p->node[i], KW_NOT_ENUM);
        for (size_t j = 0; j < json_array_size(list); j++)
            if (type_bit(json_array_get(list, j)) & p->live & (T_ARRAY | T_OBJECT))
                return schema_refuse(s, p->node[i], "enum", "an array or object that must not come",
                                     "scalar values under not and oneOf");
    }
    return GLIM_OK;
}

glim_status pure_settle(struct sch *s, struct pure *p)
{
    static glim_status (*const is_empty[])(struct sch *, struct pure *, bool *) = {number_is_empty, string_is_empty,
                                                                                   array_is_empty, object_is_empty};
    unsigned types = T_ALL;
    bool integer;
    if (p->known)
        return GLIM_OK;
    TRY(schema_spend(s, p->n + 1));
    TRY(settle_literals(s, p));
    p->known = true;
    if (p->has_literal)
        return GLIM_OK;
    for (size_t i = 0; i < p->n; i++)
        types &= schema_node_types(p->node[i], &integer);
    p->live = types;
    if (excluded(p, json_null()))
        p->live &= ~(unsigned)T_NULL;
    if (excluded(p, json_true()) && excluded(p, json_false()))
        p->live &= ~(unsigned)T_BOOL;
    for (unsigned i = 0; i < sizeof is_empty / sizeof *is_empty; i++) {
        bool empty = false;
        if (types >> i & T_NUMBER)
            TRY(is_empty[i](s, p, &empty));
        if (empty)
            p->live &= ~((unsigned)T_NUMBER << i);
    }
    return p->loose ? GLIM_OK : check_not_enum(s, p);
}

/* ---- building ---- */

static grammar_node text_node(struct sch *s, struct str *t)
{
    grammar_node v = 0;
    if (!t->failed)
        v = grammar_text(s->b, t->s ? t->s : "", t->n);
    str_fini(t);
    return v;
}

static glim_status literal_build(struct sch *s, const json_t *value, grammar_node *out);

/* The members of an array or object, with brackets and white space. */
static glim_status literal_members(struct sch *s, const json_t *value, grammar_node *out)
{
    bool object = json_is_object(value);
    size_t n = object ? json_object_size(value) : json_array_size(value), k = 0, i = 0;
    grammar_node *v = schema_take(s, (n * 5 + 4) * sizeof *v);
    void *at = object ? json_object_iter((json_t *)(uintptr_t)value) : NULL;
    if (!v)
        return schema_starved(s);
    v[k++] = grammar_text(s->b, object ? "{" : "[", 1);
    v[k++] = s->sp_open;
    for (; i < n; i++) {
        const json_t *x = object ? json_object_iter_value(at) : json_array_get(value, i);
        if (i) {
            v[k++] = grammar_text(s->b, ",", 1);
            v[k++] = s->sp_comma;
        }
        if (object) {
            struct str key = {0};
            string_literal(&key, json_object_iter_key(at), strlen(json_object_iter_key(at)));
            str_putc(&key, ':');
            if (!(v[k++] = text_node(s, &key)))
                return schema_starved(s);
            v[k++] = s->sp_colon;
            at = json_object_iter_next((json_t *)(uintptr_t)value, at);
        }
        TRY(literal_build(s, x, &v[k++]));
    }
    v[k++] = s->sp_close;
    v[k++] = grammar_text(s->b, object ? "}" : "]", 1);
    *out = schema_seq(s, v, k);
    return GLIM_OK;
}

static glim_status literal_build(struct sch *s, const json_t *value, grammar_node *out)
{
    struct str t = {0};
    if (json_is_array(value) || json_is_object(value))
        return literal_members(s, value, out); /* as deep as schema_walk allowed */
    if (json_is_string(value))
        string_literal(&t, json_string_value(value), json_string_length(value));
    else if (json_is_number(value))
        number_literal(&t, value);
    else
        str_puts(&t, json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
    bool ok = !t.failed;
    *out = text_node(s, &t);
    return ok ? GLIM_OK : schema_starved(s);
}

static glim_status build_literals(struct sch *s, const struct pure *p, grammar_node *out)
{
    grammar_node *v = schema_take(s, (p->n_literal + 1) * sizeof *v);
    if (!v)
        return schema_starved(s);
    for (size_t i = 0; i < p->n_literal; i++)
        TRY(literal_build(s, p->literal[i], &v[i]));
    *out = grammar_alt(s->b, v, p->n_literal);
    return GLIM_OK;
}

glim_status pure_build(struct sch *s, struct pure *p, grammar_node *out)
{
    grammar_node v[7];
    size_t n = 0;
    if (p->has_literal)
        return build_literals(s, p, out);
    if (p->live & T_NULL)
        v[n++] = grammar_text(s->b, "null", 4);
    if (p->live & T_BOOL && !excluded(p, json_true()))
        v[n++] = grammar_text(s->b, "true", 4);
    if (p->live & T_BOOL && !excluded(p, json_false()))
        v[n++] = grammar_text(s->b, "false", 5);
    if (p->live & T_NUMBER)
        TRY(number_build(s, p, &v[n++]));
    if (p->live & T_STRING)
        TRY(string_build(s, p, &v[n++]));
    if (p->live & T_ARRAY)
        TRY(array_build(s, p, &v[n++]));
    if (p->live & T_OBJECT)
        TRY(object_build(s, p, &v[n++]));
    *out = n == 1 ? v[0] : grammar_alt(s->b, v, n);
    return GLIM_OK;
}

/* ---- arrays ---- */

enum { PREFIX_MAX = 500 };

/* prefixItems, or the list that items was in older drafts. */
static const json_t *prefix_of(const json_t *node)
{
    const json_t *items = json_object_get(node, "items");
    return json_is_array(items) ? items : json_object_get(node, "prefixItems");
}

/* What a node says about the items after its prefix; NULL = nothing. */
static const json_t *rest_of(const json_t *node)
{
    const json_t *items = json_object_get(node, "items");
    const json_t *rest = json_is_array(items) ? json_object_get(node, "additionalItems") : items;
    return rest || !schema_alone(node) ? rest : json_object_get(node, "unevaluatedItems");
}

static glim_status item_conj(struct sch *s, const struct pure *p, size_t at, struct conj **out)
{
    struct nodes l = {0};
    for (size_t i = 0; i < p->n; i++) {
        const json_t *prefix = prefix_of(p->node[i]);
        const json_t *x = at < json_array_size(prefix) ? json_array_get(prefix, at) : rest_of(p->node[i]);
        if (x)
            TRY(nodes_add(s, &l, x));
    }
    return schema_conj(s, &l, out);
}

static size_t prefix_length(const struct pure *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t k = json_array_size(prefix_of(p->node[i]));
        n = k > n ? k : n;
    }
    return n;
}

/* How many items may and must come; *max is lowered to where no item is possible. */
static glim_status array_bounds(struct sch *s, const struct pure *p, size_t n_prefix, uint32_t *min, uint32_t *max)
{
    pure_counts(p, "minItems", "maxItems", min, max);
    for (size_t i = 0; i <= n_prefix && i < *max; i++) {
        struct conj *c;
        bool empty;
        TRY(item_conj(s, p, i, &c));
        TRY(schema_is_empty(s, c, &empty));
        if (empty)
            *max = (uint32_t)i;
    }
    return GLIM_OK;
}

glim_status array_is_empty(struct sch *s, struct pure *p, bool *empty)
{
    uint32_t min, max;
    TRY(array_bounds(s, p, prefix_length(p), &min, &max));
    *empty = min > max;
    return GLIM_OK;
}

glim_status array_validates(struct sch *s, struct pure *p, const json_t *value, int depth, bool *ok)
{
    uint32_t min, max;
    size_t n = json_array_size(value);
    pure_counts(p, "minItems", "maxItems", &min, &max);
    *ok = n >= min && n <= max;
    for (size_t i = 0; i < p->n; i++)
        for (size_t a = 0; json_is_true(json_object_get(p->node[i], "uniqueItems")) && a < n; a++)
            for (size_t b = 0; b < a; b++) {
                TRY(schema_spend(s, 1));
                *ok = *ok && !schema_equal(json_array_get(value, a), json_array_get(value, b));
            }
    for (size_t i = 0; i < n && *ok; i++) {
        struct conj *c;
        TRY(item_conj(s, p, i, &c));
        TRY(schema_validates(s, c, p->loose ? LOOSE : STRICT, json_array_get(value, i), depth + 1, ok));
    }
    return GLIM_OK;
}

static glim_status check_array(struct sch *s, const struct pure *p, size_t n_prefix, uint32_t max)
{
    for (size_t i = 0; i < p->n; i++) {
        const json_t *node = p->node[i], *rest = json_object_get(node, "unevaluatedItems");
        if (json_is_true(json_object_get(node, "uniqueItems")) && max > 1)
            return schema_refuse(s, node, "uniqueItems", "arrays of more than one item", "it where maxItems is 1");
        if (rest && !schema_says_nothing(rest) && !schema_alone(node) && !rest_of(node))
            return schema_refuse(s, node, "unevaluatedItems", "it beside keywords that evaluate items elsewhere",
                                 "items or unevaluatedItems: true");
    }
    if (n_prefix > PREFIX_MAX)
        return schema_refuse(s, p->node[0], NULL, "more than 500 prefixItems", "fewer");
    return GLIM_OK;
}

static grammar_node after_comma(struct sch *s, grammar_node v)
{
    grammar_node part[] = {grammar_text(s->b, ",", 1), s->sp_comma, v};
    return schema_seq(s, part, 3);
}

/* The items from the second prefixed one on, each with its comma. */
static glim_status array_tail(struct sch *s, const struct pure *p, size_t n_prefix, uint32_t min, uint32_t max,
                              grammar_node *tail)
{
    struct conj *c;
    grammar_node item;
    size_t n = n_prefix < max ? n_prefix : max;
    *tail = grammar_text(s->b, "", 0);
    if (max > n_prefix) {
        TRY(item_conj(s, p, n_prefix, &c));
        TRY(schema_build(s, c, &item));
        *tail = grammar_repeat(s->b, after_comma(s, item), min > n ? min - (uint32_t)n : 0,
                               max == GRAMMAR_MANY ? max : max - (uint32_t)n);
    }
    for (size_t i = n; i-- > 1;) {
        TRY(item_conj(s, p, i, &c));
        TRY(schema_build(s, c, &item));
        grammar_node part[] = {after_comma(s, item), *tail};
        *tail = schema_seq(s, part, 2);
        if (min <= i)
            *tail = schema_maybe(s, *tail);
    }
    return GLIM_OK;
}

glim_status array_build(struct sch *s, struct pure *p, grammar_node *out)
{
    uint32_t min, max;
    size_t n_prefix = prefix_length(p);
    struct conj *c;
    grammar_node item, body = grammar_text(s->b, "", 0);
    TRY(array_bounds(s, p, n_prefix, &min, &max));
    TRY(check_array(s, p, n_prefix, max));
    if (max > 0) {
        grammar_node tail;
        TRY(item_conj(s, p, 0, &c));
        TRY(schema_build(s, c, &item));
        if (n_prefix == 0)
            tail = grammar_repeat(s->b, after_comma(s, item), min ? min - 1 : 0, max == GRAMMAR_MANY ? max : max - 1);
        else
            TRY(array_tail(s, p, n_prefix, min, max, &tail));
        grammar_node part[] = {item, tail};
        body = schema_seq(s, part, 2);
        if (min == 0)
            body = schema_maybe(s, body);
    }
    grammar_node all[] = {grammar_text(s->b, "[", 1), s->sp_open, body, s->sp_close, grammar_text(s->b, "]", 1)};
    *out = schema_seq(s, all, 5);
    return GLIM_OK;
}
