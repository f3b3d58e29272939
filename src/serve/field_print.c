/* Shapes as JSON Schema (2020-12, as OpenAPI 3.1 has it) and as words. */
#include "serve/field.h"

#include "base/mem.h"

#include <string.h>

static const struct {
    unsigned kind;
    const char *type, *one, *many;
} kinds[] = {{FIELD_STRING, "string", "a string", "strings"},
             {FIELD_INT, "integer", "a whole number", "whole numbers"},
             {FIELD_NUMBER, "number", "a number", "numbers"},
             {FIELD_BOOL, "boolean", "true or false", "booleans"},
             {FIELD_ARRAY, "array", "an array", "arrays"},
             {FIELD_OBJECT, "object", "an object", "objects"},
             {FIELD_NULL, "null", "null", "nulls"}};
enum { N_KIND = sizeof kinds / sizeof *kinds };

static void print_body(struct str *out, const struct field_shape *s, unsigned of, const char *doc);

static void quote(struct str *out, const char *s)
{
    str_json(out, s, strlen(s));
}

/* ,"key": when something stands before it */
static void key(struct str *out, const char *name)
{
    if (out->n && out->s[out->n - 1] != '{')
        str_putc(out, ',');
    quote(out, name);
    str_putc(out, ':');
}

static void print_number(struct str *out, const char *name, double x)
{
    key(out, name);
    str_printf(out, "%.17g", x);
}

static void print_size(struct str *out, const char *name, size_t n)
{
    if (n) {
        key(out, name);
        str_printf(out, "%zu", n);
    }
}

/* ---- objects ---- */

static void print_member(struct str *out, const struct field *f)
{
    key(out, f->name);
    if (f->refused) {
        str_puts(out, "{\"type\":\"null\"");
        key(out, "description");
        str_puts(out, "\"Refused: ");
        struct str why = {0};
        str_json(&why, f->refused, strlen(f->refused));
        if (why.n > 1)
            str_add(out, why.s + 1, why.n - 1);
        out->failed |= why.failed;
        str_fini(&why);
        str_putc(out, '}');
    } else if (f->shape->name) {
        str_putc(out, '{');
        if (f->nullable && !(f->shape->kinds & FIELD_NULL))
            str_printf(out, "\"anyOf\":[{\"$ref\":\"#/components/schemas/%s\"},{\"type\":\"null\"}]", f->shape->name);
        else
            str_printf(out, "\"$ref\":\"#/components/schemas/%s\"", f->shape->name);
        if (f->doc && f->doc[0]) {
            key(out, "description");
            quote(out, f->doc);
        }
        str_putc(out, '}');
    } else {
        print_body(out, f->shape, f->shape->kinds | (f->nullable ? FIELD_NULL : 0), f->doc);
    }
}

static void print_members(struct str *out, const struct field_shape *s)
{
    const struct field_shape *rest = NULL;
    bool some = false;
    key(out, "properties");
    str_putc(out, '{');
    for (const struct field_shape *p = s; p; p = p->also)
        for (size_t i = 0; i < p->n_field; i++) {
            print_member(out, &p->field[i]);
            some |= p->field[i].required;
        }
    str_putc(out, '}');
    if (some) {
        bool first = true;
        key(out, "required");
        for (const struct field_shape *p = s; p; p = p->also)
            for (size_t i = 0; i < p->n_field; i++)
                if (p->field[i].required) {
                    str_putc(out, first ? '[' : ',');
                    quote(out, p->field[i].name);
                    first = false;
                }
        str_putc(out, ']');
    }
    for (const struct field_shape *p = s; p; p = p->also)
        rest = rest ? rest : p->rest;
    key(out, "additionalProperties");
    if (rest)
        field_print_schema(out, rest);
    else
        str_puts(out, "false");
}

static void print_variants(struct str *out, const struct field_shape *s)
{
    bool first = true;
    key(out, "anyOf");
    str_putc(out, '[');
    for (size_t i = 0; i < s->n_variant; i++) {
        bool twice = s->variant[i].refused != NULL;
        for (size_t k = 0; k < i; k++)
            twice |= s->variant[k].shape == s->variant[i].shape;
        if (twice)
            continue;
        if (!first)
            str_putc(out, ',');
        first = false;
        field_print_schema(out, s->variant[i].shape);
    }
    str_putc(out, ']');
}

/* ---- values ---- */

static void print_array(struct str *out, const struct field_shape *s)
{
    print_size(out, "minItems", s->min_items);
    print_size(out, "maxItems", s->max_items);
    if (s->item && !s->uniform) {
        key(out, "items");
        field_print_schema(out, s->item);
    }
    if (!s->item || !s->uniform)
        return;
    bool first = true;
    key(out, "anyOf");
    str_putc(out, '[');
    for (size_t i = 0; i < N_KIND; i++)
        if (s->item->kinds & kinds[i].kind) {
            str_puts(out, first ? "{\"items\":" : ",{\"items\":");
            print_body(out, s->item, kinds[i].kind, NULL);
            str_putc(out, '}');
            first = false;
        }
    str_putc(out, ']');
}

static void print_words(struct str *out, const char *const *words)
{
    key(out, "enum");
    for (size_t i = 0; words[i]; i++) {
        str_putc(out, i ? ',' : '[');
        quote(out, words[i]);
    }
    str_putc(out, ']');
}

static void print_types(struct str *out, unsigned of)
{
    bool many = (of & (of - 1)) != 0, first = true;
    key(out, "type");
    str_puts(out, many ? "[" : "");
    for (size_t i = 0; i < N_KIND; i++)
        if (of & kinds[i].kind) {
            str_puts(out, first ? "" : ",");
            quote(out, kinds[i].type);
            first = false;
        }
    str_puts(out, many ? "]" : "");
}

/* Keywords that speak of one kind alone leave the others be; these do not. */
static bool stands_alone(const struct field_shape *s, unsigned of)
{
    return ((of & FIELD_STRING) && s->words) || ((of & FIELD_OBJECT) && s->tag);
}

static void print_limits(struct str *out, const struct field_shape *s, unsigned of)
{
    if ((of & (FIELD_INT | FIELD_NUMBER)) && s->bounded) {
        print_number(out, "minimum", s->min);
        print_number(out, "maximum", s->max);
    }
    if (of & FIELD_STRING) {
        print_size(out, "minLength", s->min_chars);
        print_size(out, "maxLength", s->max_chars);
        if (s->words)
            print_words(out, s->words);
    }
    if (of & FIELD_ARRAY)
        print_array(out, s);
    if ((of & FIELD_OBJECT) && s->tag)
        print_variants(out, s);
    else if (of & FIELD_OBJECT)
        print_members(out, s);
}

/* The schema of a shape's kinds `of`. */
static void print_body(struct str *out, const struct field_shape *s, unsigned of, const char *doc)
{
    str_putc(out, '{');
    if ((of & FIELD_NUMBER) && (of & FIELD_INT))
        of &= ~(unsigned)FIELD_INT;
    if (s->kinds != FIELD_ANY && (of & (of - 1)) && stands_alone(s, of)) {
        bool first = true;
        key(out, "anyOf");
        str_putc(out, '[');
        for (size_t i = 0; i < N_KIND; i++)
            if (of & kinds[i].kind) {
                str_puts(out, first ? "" : ",");
                print_body(out, s, kinds[i].kind, NULL);
                first = false;
            }
        str_putc(out, ']');
    } else if (s->kinds != FIELD_ANY) {
        print_types(out, of);
        print_limits(out, s, of);
    }
    doc = doc && doc[0] ? doc : s->doc;
    if (doc && doc[0]) {
        key(out, "description");
        quote(out, doc);
    }
    str_putc(out, '}');
}

void field_print_schema(struct str *out, const struct field_shape *s)
{
    if (s->name)
        str_printf(out, "{\"$ref\":\"#/components/schemas/%s\"}", s->name);
    else
        print_body(out, s, s->kinds, NULL);
}

/* ---- components ---- */

static bool is_new(struct str *out, struct field_seen *seen, const struct field_shape *s)
{
    for (size_t i = 0; i < seen->n; i++)
        if (seen->shape[i] == s)
            return false;
    void *p = (void *)seen->shape;
    if (!mem_grow(&p, &seen->cap, seen->n, sizeof *seen->shape)) {
        out->failed = true;
        return false;
    }
    seen->shape = p;
    seen->shape[seen->n++] = s;
    return true;
}

void field_print_components(struct str *out, const struct field_shape *s, struct field_seen *seen)
{
    if (!s || !is_new(out, seen, s))
        return;
    if (s->name) {
        if (out->n && out->s[out->n - 1] == '}')
            str_putc(out, ',');
        quote(out, s->name);
        str_putc(out, ':');
        print_body(out, s, s->kinds, NULL);
    }
    field_print_components(out, s->item, seen);
    field_print_components(out, s->rest, seen);
    field_print_components(out, s->also, seen);
    field_print_components(out, s->untagged, seen);
    for (size_t i = 0; i < s->n_field; i++)
        if (!s->field[i].refused)
            field_print_components(out, s->field[i].shape, seen);
    for (size_t i = 0; i < s->n_variant; i++)
        field_print_components(out, s->variant[i].refused ? NULL : s->variant[i].shape, seen);
}

void field_seen_fini(struct field_seen *s)
{
    mem_free((void *)s->shape);
    *s = (struct field_seen){0};
}

/* ---- words ---- */

static void print_range(struct str *out, const struct field_shape *s)
{
    if (!s->bounded)
        return;
    if (s->max >= INT32_MAX)
        str_printf(out, " from %.10g", s->min);
    else
        str_printf(out, " from %.10g to %.10g", s->min, s->max);
}

static void print_one_kind(struct str *out, const struct field_shape *s, size_t i)
{
    unsigned k = kinds[i].kind;
    if (k == FIELD_STRING && s->words) {
        for (size_t w = 0; s->words[w]; w++)
            str_printf(out, "%s`%s`", w == 0 ? "" : s->words[w + 1] ? ", " : " or ", s->words[w]);
        return;
    }
    if (k == FIELD_ARRAY && s->item && s->item->kinds != FIELD_ANY) {
        str_puts(out, "an array of ");
        if (s->item->name)
            str_printf(out, "[%s](#%s)", s->item->name, s->item->name);
        bool first = true;
        for (size_t j = 0; j < N_KIND && !s->item->name; j++)
            if (s->item->kinds & kinds[j].kind) {
                str_printf(out, "%s%s", first ? "" : " or ", kinds[j].many);
                first = false;
            }
        return;
    }
    str_puts(out, kinds[i].one);
    if (k == FIELD_INT || k == FIELD_NUMBER)
        print_range(out, s);
}

void field_print_kind(struct str *out, const struct field_shape *s)
{
    unsigned of = s->kinds;
    bool first = true;
    if (s->name) {
        str_printf(out, "[%s](#%s)", s->name, s->name);
        return;
    }
    if (of == FIELD_ANY) {
        str_puts(out, "anything");
        return;
    }
    if (of & FIELD_NUMBER)
        of &= ~(unsigned)FIELD_INT;
    for (size_t i = 0; i < N_KIND; i++)
        if (of & kinds[i].kind) {
            str_puts(out, first ? "" : " or ");
            print_one_kind(out, s, i);
            first = false;
        }
}
