/* Which types a parameter may have by its tool's JSON schema. This only decides between a text and a JSON value, so
 * what it does not understand leaves all types possible. */
#include "text/dialect_impl.h"

#include <string.h>

/* Schemas may refer to themselves: nesting and the number of schemas looked at are limited. */
enum { DEPTH = 8, SCHEMAS = 200 };

const json_t *dia_tool(const json_t *tools, const char *name)
{
    size_t i;
    json_t *t;
    json_array_foreach(tools, i, t)
    {
        const json_t *f = json_object_get(t, "function");
        const json_t *fn = json_is_object(f) ? f : t;
        const char *have = json_string_value(json_object_get(fn, "name"));
        if (have && strcmp(have, name) == 0)
            return fn;
    }
    return NULL;
}

static unsigned type_named(const char *s)
{
    static const struct {
        const char *name;
        unsigned type;
    } known[] = {{"string", DIA_STRING}, {"number", DIA_NUMBER}, {"integer", DIA_NUMBER}, {"boolean", DIA_BOOL},
                 {"null", DIA_NULL},     {"object", DIA_OBJECT}, {"array", DIA_ARRAY}};
    for (size_t i = 0; s && i < sizeof known / sizeof *known; i++)
        if (strcmp(s, known[i].name) == 0)
            return known[i].type;
    return DIA_ANY;
}

static unsigned type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING:
        return DIA_STRING;
    case JSON_INTEGER:
    case JSON_REAL:
        return DIA_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return DIA_BOOL;
    case JSON_OBJECT:
        return DIA_OBJECT;
    case JSON_ARRAY:
        return DIA_ARRAY;
    case JSON_NULL:
        break;
    }
    return DIA_NULL;
}

static unsigned types_in(const json_t *list, unsigned (*of)(const json_t *))
{
    unsigned types = 0;
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) types |= of(v);
    return types ? types : DIA_ANY;
}

static unsigned type_from_name(const json_t *v)
{
    return type_named(json_string_value(v));
}

/* "#/$defs/x" and "#/definitions/x" of the tool's parameters. */
static const json_t *referred(const json_t *root, const char *ref)
{
    static const char *const place[] = {"$defs", "definitions"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(place[i]);
        if (strncmp(ref, "#/", 2) == 0 && strncmp(ref + 2, place[i], n) == 0 && ref[2 + n] == '/')
            return json_object_get(json_object_get(root, place[i]), ref + 3 + n);
    }
    return NULL;
}

static unsigned types_of(const json_t *root, const json_t *schema, int depth, int *left)
{
    unsigned types = DIA_ANY;
    if (!json_is_object(schema) || depth == 0 || *left == 0)
        return DIA_ANY;
    --*left;
    const json_t *t = json_object_get(schema, "type"), *v;
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref)
        types &= types_of(root, referred(root, ref), depth - 1, left);
    if (t)
        types &= json_is_array(t) ? types_in(t, type_from_name) : type_from_name(t);
    if ((v = json_object_get(schema, "const")))
        types &= type_of(v);
    if ((v = json_object_get(schema, "enum")))
        types &= types_in(v, type_of);
    static const char *const any[] = {"anyOf", "oneOf"};
    for (size_t k = 0; k < 2; k++) {
        unsigned sum = 0;
        size_t i;
        json_t *s;
        json_array_foreach(json_object_get(schema, any[k]), i, s) sum |= types_of(root, s, depth - 1, left);
        types &= sum ? sum : DIA_ANY;
    }
    if (json_is_true(json_object_get(schema, "nullable")))
        types |= DIA_NULL;
    return types ? types : DIA_ANY;
}

unsigned dia_param_types(const json_t *tool, const char *key)
{
    const json_t *root = json_object_get(tool, "parameters");
    int left = SCHEMAS;
    return types_of(root, json_object_get(json_object_get(root, "properties"), key), DEPTH, &left);
}
