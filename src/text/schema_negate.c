/* Schemas made of schemas: negations, dependencies, and what is left without in-place keywords.
 *
 * A schema says that all its keywords hold, so its negation says that one of them does not: a list, one schema for
 * each. A keyword speaks about one type of value and holds for all others, so each of these schemas begins with the
 * type. What was made is kept by the node it was made of: asking again gives the same objects, which is why recursion
 * ends. */
#include "text/schema_impl.h"

#include <string.h>

struct made_key {
    const json_t *node;
    uintptr_t what;
};

static void *made_get(const struct sch *s, char what, const json_t *node)
{
    struct made_key key = {node, (uintptr_t)what};
    return map_get(&s->made_of, &key, sizeof key);
}

static glim_status made_put(struct sch *s, char what, const json_t *node, void *value)
{
    struct made_key key = {node, (uintptr_t)what};
    return map_put(s, &s->made_of, &key, sizeof key, value);
}

/* ---- negation ---- */

static glim_status add_made(struct sch *s, struct nodes *l, const json_t *origin, json_t *made)
{
    TRY(schema_keep(s, made, origin));
    return nodes_add(s, l, made);
}

/* {"not": child}, owned by s; as standing at child or, for true and false, at origin. */
static glim_status make_not(struct sch *s, const json_t *origin, json_t *child, json_t **out)
{
    *out = json_pack("{s:O}", "not", child);
    return schema_keep(s, *out, json_is_object(child) ? child : origin);
}

static json_t *typed(const char *type, const char *key, json_t *value)
{
    return json_pack("{s:s,s:o}", "type", type, key, value);
}

static glim_status negate_type(struct sch *s, struct nodes *l, const json_t *node)
{
    static const char *const name[] = {"null", "boolean", "number", "string", "array", "object"};
    bool integer;
    unsigned types = schema_node_types(node, &integer);
    json_t *list = json_array();
    bool ok = list;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (!(types >> i & 1))
            ok = json_array_append_new(list, json_string(name[i])) == 0 && ok;
    if (!ok) {
        json_decref(list);
        return schema_starved(s);
    }
    if (json_array_size(list))
        TRY(add_made(s, l, node, json_pack("{s:o}", "type", list)));
    else
        json_decref(list);
    return integer ? add_made(s, l, node, typed("number", KW_FRACTION, json_true())) : GLIM_OK;
}

/* The bound on the other side. Draft 4's booleans say which of two bounds is meant. */
static glim_status negate_bound(struct sch *s, struct nodes *l, const json_t *node, const char *key, json_t *v)
{
    bool low = strstr(key, "inimum") != NULL, open = key[0] == 'e';
    const char *other = low ? "exclusiveMinimum" : "exclusiveMaximum";
    if (json_is_boolean(v))
        return GLIM_OK; /* read with minimum or maximum */
    if (!open)
        open = json_is_true(json_object_get(node, other));
    const char *flipped = low ? (open ? "maximum" : "exclusiveMaximum") : (open ? "minimum" : "exclusiveMinimum");
    return add_made(s, l, node, typed("number", flipped, json_incref(v)));
}

static glim_status negate_count(struct sch *s, struct nodes *l, const json_t *node, const char *key, const json_t *v)
{
    const char *type = strstr(key, "Length") ? "string" : strstr(key, "Items") ? "array" : "object";
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : (json_int_t)json_real_value(v);
    bool least = key[1] == 'i';
    char flipped[16];
    if (least && n == 0)
        return GLIM_OK;
    snprintf(flipped, sizeof flipped, "%s%s", least ? "max" : "min", key + 3);
    json_int_t bound = least ? n - 1 : n == GRAMMAR_MANY ? n : n + 1;
    return add_made(s, l, node, typed(type, flipped, json_integer(bound)));
}

static glim_status negate_properties(struct sch *s, struct nodes *l, const json_t *node, json_t *v)
{
    const char *name;
    json_t *child, *not ;
    json_object_foreach(v, name, child)
    {
        if (schema_says_nothing(child))
            continue;
        TRY(make_not(s, node, child, &not ));
        TRY(add_made(s, l, node,
                     json_pack("{s:s,s:[s],s:{s:O}}", "type", "object", "required", name, "properties", name, not )));
    }
    return GLIM_OK;
}

static glim_status negate_required(struct sch *s, struct nodes *l, const json_t *node, json_t *v)
{
    size_t i;
    json_t *name;
    json_array_foreach(v, i, name) TRY(
        add_made(s, l, node, json_pack("{s:s,s:{s:b}}", "type", "object", "properties", json_string_value(name), 0)));
    return GLIM_OK;
}

static glim_status negate_prefix(struct sch *s, struct nodes *l, const json_t *node, json_t *v)
{
    size_t i;
    json_t *child, *not ;
    json_array_foreach(v, i, child)
    {
        if (schema_says_nothing(child))
            continue;
        TRY(make_not(s, node, child, &not ));
        json_t *list = json_array();
        bool ok = list;
        for (size_t j = 0; j < i; j++)
            ok = json_array_append_new(list, json_true()) == 0 && ok;
        if (json_array_append(list, not ) != 0 || !ok) {
            json_decref(list);
            return schema_starved(s);
        }
        TRY(add_made(s, l, node,
                     json_pack("{s:s,s:I,s:o}", "type", "array", "minItems", (json_int_t)i + 1, "prefixItems", list)));
    }
    return GLIM_OK;
}

static glim_status negate_each(struct sch *s, struct nodes *l, const json_t *node, json_t *v)
{
    size_t i;
    json_t *child, *not ;
    json_array_foreach(v, i, child)
    {
        TRY(make_not(s, node, child, &not ));
        TRY(nodes_add(s, l, not ));
    }
    return GLIM_OK;
}

static glim_status negate_any(struct sch *s, struct nodes *l, const json_t *node, json_t *v)
{
    size_t i;
    json_t *child, *not, *list = json_array();
    glim_status st = list ? GLIM_OK : schema_starved(s);
    json_array_foreach(v, i, child)
    {
        if (st == GLIM_OK)
            st = make_not(s, node, child, &not );
        if (st == GLIM_OK && json_array_append(list, not ) != 0)
            st = schema_starved(s);
    }
    if (st != GLIM_OK) {
        json_decref(list);
        return st;
    }
    return add_made(s, l, node, json_pack("{s:o}", "allOf", list));
}

static glim_status negate_format(struct sch *s, struct nodes *l, const json_t *node, json_t *v)
{
    const struct schema_format *f = schema_find_format(json_string_value(v));
    if (f && !f->regex)
        return GLIM_OK; /* an annotation: always holds */
    if (!f || !f->exact)
        return schema_refuse(s, node, "format", "a format whose negation is not known exactly", "another condition");
    return add_made(s, l, node, typed("string", KW_NOT_FORMAT, json_incref(v)));
}

static glim_status negate_ref(struct sch *s, struct nodes *l, const json_t *node)
{
    const json_t *target;
    json_t * not ;
    TRY(schema_resolve(s, node, &target));
    TRY(make_not(s, node, (json_t *)(uintptr_t)target, &not ));
    return nodes_add(s, l, not );
}

static bool is_one_of(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(key, list) is_one_of(key, list, sizeof(list) / sizeof *(list))

/* Append what it means that this keyword does not hold. */
static glim_status negate_keyword(struct sch *s, struct nodes *l, const json_t *node, const char *key, json_t *v)
{
    static const char *const bounds[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
                             *const counts[] = {"minLength", "maxLength",     "minItems",
                                                "maxItems",  "minProperties", "maxProperties"};
    const struct schema_keyword *k = schema_find_keyword(key);
    if (strcmp(key, "type") == 0)
        return negate_type(s, l, node);
    if (strcmp(key, "const") == 0)
        return add_made(s, l, node, json_pack("{s:[O]}", KW_NOT_ENUM, v));
    if (strcmp(key, "enum") == 0)
        return add_made(s, l, node, json_pack("{s:O}", KW_NOT_ENUM, v));
    if (IS_ONE_OF(key, bounds))
        return negate_bound(s, l, node, key, v);
    if (IS_ONE_OF(key, counts))
        return negate_count(s, l, node, key, v);
    if (strcmp(key, "multipleOf") == 0)
        return add_made(s, l, node, typed("number", KW_NOT_MULTIPLE, json_incref(v)));
    if (strcmp(key, "pattern") == 0)
        return add_made(s, l, node, typed("string", KW_NOT_PATTERN, json_incref(v)));
    if (strcmp(key, "format") == 0)
        return negate_format(s, l, node, v);
    if (strcmp(key, "properties") == 0)
        return negate_properties(s, l, node, v);
    if (strcmp(key, "required") == 0)
        return negate_required(s, l, node, v);
    if (strcmp(key, "prefixItems") == 0)
        return negate_prefix(s, l, node, v);
    if (strcmp(key, "allOf") == 0)
        return negate_each(s, l, node, v);
    if (strcmp(key, "anyOf") == 0)
        return negate_any(s, l, node, v);
    if (strcmp(key, "not") == 0)
        return nodes_add(s, l, v);
    if (strcmp(key, "$ref") == 0)
        return negate_ref(s, l, node);
    if (k && (k->level == SCHEMA_IGNORED || strcmp(key, "nullable") == 0 || key[0] == '$' ||
              strcmp(key, "definitions") == 0 || (k->value == KV_SCHEMA && schema_says_nothing(v)) ||
              (k->value == KV_BOOL && json_is_false(v))))
        return GLIM_OK;
    return schema_refuse(s, node, key, "a keyword whose negation cannot be enforced",
                         "it outside of not, if and oneOf");
}

glim_status schema_negate(struct sch *s, const json_t *node, const struct negation **out)
{
    const char *key;
    json_t *v;
    struct nodes l = {0};
    if (json_is_object(node) && (*out = made_get(s, 'n', node)))
        return GLIM_OK;
    struct negation *n = schema_take(s, sizeof *n);
    if (!n)
        return schema_starved(s);
    *out = n;
    if (json_is_false(node)) {
        json_t *all = json_pack("{s:b}", "x-all", 1);
        TRY(add_made(s, &l, s->root, all));
    }
    if (json_is_object(node))
        json_object_foreach((json_t *)(uintptr_t)node, key, v) TRY(negate_keyword(s, &l, node, key, v));
    *n = (struct negation){l.v, l.n};
    return json_is_object(node) ? made_put(s, 'n', node, n) : GLIM_OK;
}

/* ---- dependencies ---- */

static glim_status one_dependency(struct sch *s, const json_t *node, const char *name, json_t *v, struct dependency *d)
{
    json_t *absent = json_pack("{s:{s:b}}", "properties", name, 0);
    TRY(schema_keep(s, absent, node));
    json_t *list = json_array();
    bool ok = list && json_array_append_new(list, json_string(name)) == 0;
    for (size_t i = 0; i < json_array_size(v); i++)
        ok = ok && json_array_append(list, json_array_get(v, i)) == 0;
    if (!ok) {
        json_decref(list);
        return schema_starved(s);
    }
    json_t *present = json_pack("{s:s,s:o}", "type", "object", "required", list);
    TRY(schema_keep(s, present, node));
    *d = (struct dependency){absent, present, json_is_array(v) ? json_true() : v};
    return GLIM_OK;
}

struct dependencies {
    struct dependency *v;
    size_t n;
};

glim_status schema_dependencies(struct sch *s, const json_t *node, struct dependency **out, size_t *n)
{
    static const char *const key[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    struct dependencies *d = made_get(s, 'd', node);
    if (!d) {
        size_t room = 0;
        for (size_t i = 0; i < sizeof key / sizeof *key; i++)
            room += json_object_size(json_object_get(node, key[i]));
        if (!(d = schema_take(s, sizeof *d)) || !(d->v = schema_take(s, (room + 1) * sizeof *d->v)))
            return schema_starved(s);
        for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
            const char *name;
            json_t *v;
            json_object_foreach(json_object_get(node, key[i]), name, v)
                TRY(one_dependency(s, node, name, v, &d->v[d->n++]));
        }
        TRY(made_put(s, 'd', node, d));
    }
    *out = d->v;
    *n = d->n;
    return GLIM_OK;
}

/* ---- without in-place keywords ---- */

glim_status schema_strip(struct sch *s, const json_t *node, const json_t **out)
{
    static const char *const in_place[] = {"$ref",
                                           "allOf",
                                           "anyOf",
                                           "oneOf",
                                           "not",
                                           "if",
                                           "then",
                                           "else",
                                           "dependentRequired",
                                           "dependentSchemas",
                                           "dependencies",
                                           "unevaluatedItems",
                                           "unevaluatedProperties"};
    *out = schema_alone(node) ? node : made_get(s, 's', node);
    if (*out)
        return GLIM_OK;
    json_t *copy = json_copy((json_t *)(uintptr_t)node);
    if (json_object_size(copy) != json_object_size(node)) { /* a copy that ran out of memory is short, not NULL */
        json_decref(copy);
        copy = NULL;
    }
    TRY(schema_keep(s, copy, node));
    for (size_t i = 0; i < sizeof in_place / sizeof *in_place; i++)
        json_object_del(copy, in_place[i]);
    *out = copy;
    return made_put(s, 's', node, copy);
}
