/* Checking JSON against shapes, and reading it afterwards. */
#include "serve/field.h"

#include <math.h>
#include <string.h>

const struct field_shape field_any = {.kinds = FIELD_ANY};
const struct field_shape field_bool = {.kinds = FIELD_BOOL};
const struct field_shape field_text = {.kinds = FIELD_STRING};
const struct field_shape field_number = {.kinds = FIELD_NUMBER};
const struct field_shape field_int = {.kinds = FIELD_INT};
const struct field_shape field_object = {.kinds = FIELD_OBJECT, .rest = &field_any};
const struct field_shape field_count = {.kinds = FIELD_INT, .bounded = true, .min = 0, .max = 9007199254740991.0};
const struct field_shape field_token = {.kinds = FIELD_INT, .bounded = true, .min = 0, .max = INT32_MAX};
const struct field_shape field_nothing = {.kinds = FIELD_NULL};

enum { IGNORED_MAX = 1000, WORDS_SHOWN = 12 };

void field_report_fini(struct field_report *r)
{
    str_fini(&r->ignored);
}

/* ---- paths ---- */

/* A path that does not fit ends early: it is for people. */
static size_t push_name(struct field_report *r, const char *name)
{
    size_t n = strlen(r->path);
    snprintf(r->path + n, FIELD_PATH_MAX - n, "%s%s", n ? "." : "", name);
    return n;
}

static size_t push_index(struct field_report *r, size_t i)
{
    size_t n = strlen(r->path);
    snprintf(r->path + n, FIELD_PATH_MAX - n, "[%zu]", i);
    return n;
}

static void pop(struct field_report *r, size_t n)
{
    r->path[n] = 0;
}

static const char *where(const struct field_report *r)
{
    return r->path[0] ? r->path : "the body";
}

/* ---- kinds ---- */

static const struct {
    unsigned kind;
    const char *text;
} kind_text[] = {{FIELD_STRING, "a string"},    {FIELD_INT, "a whole number"}, {FIELD_NUMBER, "a number"},
                 {FIELD_BOOL, "true or false"}, {FIELD_ARRAY, "an array"},     {FIELD_OBJECT, "an object"},
                 {FIELD_NULL, "null"}};

/* All kinds a value counts as. */
static unsigned kinds_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return FIELD_OBJECT;
    case JSON_ARRAY:
        return FIELD_ARRAY;
    case JSON_STRING:
        return FIELD_STRING;
    case JSON_INTEGER:
        return FIELD_INT | FIELD_NUMBER;
    case JSON_REAL: {
        double x = json_real_value(v);
        return x == floor(x) && fabs(x) <= 9007199254740992.0 ? FIELD_INT | FIELD_NUMBER : FIELD_NUMBER;
    }
    case JSON_TRUE:
    case JSON_FALSE:
        return FIELD_BOOL;
    case JSON_NULL:
        return FIELD_NULL;
    }
    return 0;
}

static const char *have_text(const json_t *v)
{
    unsigned k = kinds_of(v);
    if (json_is_boolean(v))
        return json_is_true(v) ? "true" : "false";
    for (size_t i = 0; i < sizeof kind_text / sizeof *kind_text; i++)
        if (k & kind_text[i].kind)
            return kind_text[i].text;
    return "nothing";
}

static glim_status wrong_kind(unsigned kinds, const json_t *v, const struct field_report *r, struct glim_err *e)
{
    char need[128] = "";
    size_t n = 0;
    if (kinds & FIELD_NUMBER)
        kinds &= ~(unsigned)FIELD_INT;
    for (size_t i = 0; i < sizeof kind_text / sizeof *kind_text; i++) {
        unsigned rest = kinds & ~kind_text[i].kind;
        if (!(kinds & kind_text[i].kind))
            continue;
        kinds = rest;
        n += (size_t)snprintf(need + n, sizeof need - n, "%s%s", n == 0 ? "" : rest ? ", " : " or ", kind_text[i].text);
    }
    return err_set(e, GLIM_REFUSED, "%s: have %s, need %s", where(r), have_text(v), need);
}

/* ---- values ---- */

static glim_status check_number(const struct field_shape *s, const json_t *v, const struct field_report *r,
                                struct glim_err *e)
{
    double x = json_number_value(v);
    if (!s->bounded || (x >= s->min && x <= s->max))
        return GLIM_OK;
    return err_set(e, GLIM_REFUSED, "%s: have %.17g, need a number from %.17g to %.17g", where(r), x, s->min, s->max);
}

static glim_status no_word(const char *const *words, const char *have, const struct field_report *r, struct glim_err *e)
{
    char list[200] = "";
    size_t n = 0;
    for (size_t i = 0; words[i] && i < WORDS_SHOWN && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    return err_set(e, GLIM_REFUSED, "%s: have '%.60s', need %s", where(r), have, list);
}

static size_t count_chars(const char *p, size_t n)
{
    size_t chars = 0;
    for (size_t i = 0; i < n; i++)
        chars += ((unsigned char)p[i] & 0xC0) != 0x80;
    return chars;
}

static glim_status check_string(const struct field_shape *s, const json_t *v, const struct field_report *r,
                                struct glim_err *e)
{
    const char *text = json_string_value(v);
    size_t n = count_chars(text, json_string_length(v));
    if (s->words) {
        for (size_t i = 0; s->words[i]; i++)
            if (strcmp(text, s->words[i]) == 0)
                return GLIM_OK;
        return no_word(s->words, text, r, e);
    }
    if (n < s->min_chars)
        return err_set(e, GLIM_REFUSED, "%s: have %zu characters, need at least %zu", where(r), n, s->min_chars);
    if (s->max_chars && n > s->max_chars)
        return err_set(e, GLIM_REFUSED, "%s: have %zu characters, need at most %zu", where(r), n, s->max_chars);
    return GLIM_OK;
}

static glim_status check_array(const struct field_shape *s, const json_t *v, struct field_report *r, struct glim_err *e)
{
    size_t n = json_array_size(v), i;
    json_t *item;
    if (n < s->min_items)
        return err_set(e, GLIM_REFUSED, "%s: have %zu items, need at least %zu", where(r), n, s->min_items);
    if (s->max_items && n > s->max_items)
        return err_set(e, GLIM_REFUSED, "%s: have %zu items, need at most %zu", where(r), n, s->max_items);
    json_array_foreach(v, i, item)
    {
        size_t at = push_index(r, i);
        if (s->item)
            TRY(field_check(s->item, item, r, e));
        if (s->uniform && !(kinds_of(item) & kinds_of(json_array_get(v, 0))))
            return err_set(e, GLIM_REFUSED, "%s: have %s after %s, need items of one kind", where(r), have_text(item),
                           have_text(json_array_get(v, 0)));
        pop(r, at);
    }
    return GLIM_OK;
}

/* ---- objects ---- */

static const struct field *find(const struct field_shape *s, const char *name, const struct field_shape **rest)
{
    *rest = NULL;
    for (; s; s = s->also) {
        for (size_t i = 0; i < s->n_field; i++)
            if (strcmp(s->field[i].name, name) == 0)
                return &s->field[i];
        *rest = *rest ? *rest : s->rest;
    }
    return NULL;
}

static glim_status unknown(struct field_report *r, struct glim_err *e)
{
    if (!r->lax)
        return err_set(e, GLIM_REFUSED, "%s: have an unknown member, need none", where(r));
    size_t n = strlen(r->path);
    if (r->ignored.n + n + 2 <= IGNORED_MAX)
        str_printf(&r->ignored, "%s%s", r->ignored.n ? ", " : "", r->path);
    return GLIM_OK;
}

static glim_status check_member(const struct field_shape *s, const char *name, const json_t *v, struct field_report *r,
                                struct glim_err *e)
{
    const struct field_shape *rest;
    const struct field *f = find(s, name, &rest);
    if (!f)
        return rest ? field_check(rest, v, r, e) : unknown(r, e);
    if (json_is_null(v) && (f->nullable || f->refused))
        return GLIM_OK;
    if (f->refused)
        return err_set(e, GLIM_REFUSED, "%s: have a value, need none: %s", where(r), f->refused);
    if (f->nullable && !(kinds_of(v) & f->shape->kinds))
        return wrong_kind(f->shape->kinds | FIELD_NULL, v, r, e);
    return field_check(f->shape, v, r, e);
}

static glim_status check_required(const struct field_shape *s, const json_t *v, struct field_report *r,
                                  struct glim_err *e)
{
    for (; s; s = s->also)
        for (size_t i = 0; i < s->n_field; i++)
            if (s->field[i].required && !json_object_get(v, s->field[i].name)) {
                push_name(r, s->field[i].name);
                return err_set(e, GLIM_REFUSED, "%s: have no such member, need one", where(r));
            }
    return GLIM_OK;
}

/* The shape that the tag asks for. */
static glim_status choose(const struct field_shape *s, const json_t *v, const struct field_shape **out,
                          struct field_report *r, struct glim_err *e)
{
    const json_t *tag = json_object_get(v, s->tag);
    char list[200] = "";
    size_t n = 0;
    if (!tag && s->untagged) {
        *out = s->untagged;
        return GLIM_OK;
    }
    push_name(r, s->tag);
    if (!tag)
        return err_set(e, GLIM_REFUSED, "%s: have no such member, need one", where(r));
    if (!json_is_string(tag))
        return wrong_kind(FIELD_STRING, tag, r, e);
    for (size_t i = 0; i < s->n_variant; i++) {
        const struct field_variant *a = &s->variant[i];
        if (strcmp(a->word, json_string_value(tag)) == 0) {
            if (a->refused)
                return err_set(e, GLIM_REFUSED, "%s: have '%s', need another: %s", where(r), a->word, a->refused);
            *out = a->shape;
            return GLIM_OK;
        }
        if (!a->refused && n < sizeof list)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", a->word);
    }
    return err_set(e, GLIM_REFUSED, "%s: have '%.60s', need one of %s", where(r), json_string_value(tag), list);
}

static glim_status check_object(const struct field_shape *s, const json_t *v, struct field_report *r,
                                struct glim_err *e)
{
    const char *name;
    json_t *member;
    if (s->tag) {
        size_t at = strlen(r->path);
        TRY(choose(s, v, &s, r, e));
        pop(r, at);
    }
    json_object_foreach((json_t *)(uintptr_t)v, name, member)
    {
        size_t at = push_name(r, name);
        TRY(check_member(s, name, member, r, e));
        pop(r, at);
    }
    return check_required(s, v, r, e);
}

glim_status field_check(const struct field_shape *s, const json_t *v, struct field_report *r, struct glim_err *e)
{
    if (!(kinds_of(v) & s->kinds))
        return wrong_kind(s->kinds, v, r, e);
    switch (json_typeof(v)) {
    case JSON_INTEGER:
    case JSON_REAL:
        return check_number(s, v, r, e);
    case JSON_STRING:
        return check_string(s, v, r, e);
    case JSON_ARRAY:
        return check_array(s, v, r, e);
    case JSON_OBJECT:
        return s->kinds == FIELD_ANY && !s->tag && !s->field ? GLIM_OK : check_object(s, v, r, e);
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        return GLIM_OK;
    }
    return GLIM_OK;
}

/* ---- reading ---- */

const json_t *field_get(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    return json_is_null(v) ? NULL : v;
}

bool field_get_bool(const json_t *object, const char *name, bool otherwise)
{
    const json_t *v = field_get(object, name);
    return v ? json_is_true(v) : otherwise;
}

int64_t field_get_int(const json_t *object, const char *name, int64_t otherwise)
{
    const json_t *v = field_get(object, name);
    return !v ? otherwise : json_is_real(v) ? (int64_t)json_real_value(v) : json_integer_value(v);
}

double field_get_number(const json_t *object, const char *name, double otherwise)
{
    const json_t *v = field_get(object, name);
    return v ? json_number_value(v) : otherwise;
}

const char *field_get_text(const json_t *object, const char *name, size_t *n)
{
    const json_t *v = field_get(object, name);
    *n = json_is_string(v) ? json_string_length(v) : 0;
    return json_string_value(v);
}
