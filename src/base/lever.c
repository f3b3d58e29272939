/* The table itself, and sets of values.
 *
 * A set holds one cell a row: the value's canonical text, where it came from, and for built rows the typed copy in
 * struct levers that the engine reads. Sources may be read in any order: a weaker origin never overwrites a stronger
 * one, but its values are checked all the same, so that a mistake in a file does not hide behind a flag. */
#include "base/lever_row.h"

#include "base/file.h"
#include "base/mem.h"

#include <string.h>

/* ---- the table ---- */

#define AS(n, r)                                                                                                       \
    {                                                                                                                  \
        .name = n, .rule = r                                                                                           \
    }
#define TO(n, r, t)                                                                                                    \
    {                                                                                                                  \
        .name = n, .rule = r, .to = t                                                                                  \
    }

const struct lever_row lever_rows[] = {
#define LEVER(k, t, ...)                                                                                               \
    {.key = #k,                                                                                                        \
     .group = LEVER_GROUP,                                                                                             \
     .type = TYPE_##t,                                                                                                 \
     .built = true,                                                                                                    \
     .field = offsetof(struct levers, k),                                                                              \
     __VA_ARGS__},
#define LEVER_LATER(k, t, ...) {.key = #k, .group = LEVER_GROUP, .type = TYPE_##t, __VA_ARGS__},
#include "base/lever_table.def"
#undef LEVER
#undef LEVER_LATER
};
const size_t lever_n_row = sizeof lever_rows / sizeof *lever_rows;

/* struct levers as the built rows would lay it out: every field has its row and every built row its field. */
typedef bool c_BOOL;
typedef int64_t c_INT;
typedef double c_FLOAT;
typedef const char *c_TEXT;
typedef const char *c_PATH;
typedef int c_ENUM;
#define LEVER_LATER(k, t, ...)
struct built {
#define LEVER(k, t, ...) c_##t k;
#include "base/lever_table.def"
#undef LEVER
};
#define LEVER(k, t, ...)                                                                                               \
    _Static_assert(offsetof(struct levers, k) == offsetof(struct built, k), "order of struct levers: " #k);            \
    _Static_assert(__builtin_types_compatible_p(__typeof__(((struct levers *)0)->k), c_##t), "type of lever: " #k);
#include "base/lever_table.def"
#undef LEVER
#undef LEVER_LATER
_Static_assert(sizeof(struct levers) == sizeof(struct built), "a field of struct levers has no built row");

/* ---- names ---- */

void lever_env_name(const struct lever_row *r, char out[LEVER_NAME_MAX])
{
    size_t n = 5;
    memcpy(out, "GLIM_", 5);
    for (const char *p = r->key; *p && n + 1 < LEVER_NAME_MAX; p++)
        out[n++] = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
    out[n] = 0;
}

bool lever_is_family(const struct lever_alias *a)
{
    return a->name && a->name[strlen(a->name) - 1] == '*';
}

const struct lever_row *lever_find(const char *name, const struct lever_alias **alias)
{
    const struct lever_row *family = NULL;
    *alias = NULL;
    for (const struct lever_row *r = lever_rows; r < lever_rows + lever_n_row; r++) {
        char canonical[LEVER_NAME_MAX];
        lever_env_name(r, canonical);
        if (strcmp(name, canonical) == 0) {
            *alias = NULL;
            return r;
        }
        for (const struct lever_alias *a = r->alias; a < r->alias + LEVER_ALIAS_MAX && a->name; a++) {
            if (strcmp(name, a->name) == 0) {
                *alias = a;
                return r;
            }
            if (lever_is_family(a) && strncmp(name, a->name, strlen(a->name) - 1) == 0) {
                family = r;
                *alias = a;
            }
        }
    }
    return family;
}

const struct lever_row *lever_find_key(const char *key)
{
    for (size_t i = 0; i < lever_n_row; i++)
        if (strcmp(lever_rows[i].key, key) == 0)
            return &lever_rows[i];
    return NULL;
}

/* Levenshtein distance of two names shorter than LEVER_NAME_MAX. */
static size_t edits(const char *a, const char *b)
{
    size_t row[LEVER_NAME_MAX], nb = strlen(b);
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < nb; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (diagonal + 1 < best)
                best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[nb];
}

struct nearest {
    char name[LEVER_NAME_MAX];
    size_t distance;
};

static void consider(struct nearest *best, const char *asked, const char *known)
{
    size_t d = edits(asked, known);
    if (d < best->distance) {
        best->distance = d;
        strcpy(best->name, known);
    }
}

void lever_hint(const char *name, bool keys, char out[LEVER_NAME_MAX + 24])
{
    size_t n = strlen(name);
    struct nearest best = {.distance = n / 4 + 2}; /* farther is no help */
    out[0] = 0;
    if (n >= LEVER_NAME_MAX)
        return;
    for (const struct lever_row *r = lever_rows; r < lever_rows + lever_n_row; r++) {
        char canonical[LEVER_NAME_MAX];
        lever_env_name(r, canonical);
        consider(&best, name, keys ? r->key : canonical);
        for (int i = 0; i < LEVER_ALIAS_MAX && r->alias[i].name && !keys; i++)
            if (!lever_is_family(&r->alias[i]))
                consider(&best, name, r->alias[i].name);
    }
    if (best.name[0]) {
        strcpy(out, "; nearest known: ");
        strcat(out, best.name);
    }
}

/* ---- sets ---- */

/* A path with a leading ~/ resolved. */
static char *expand_home(const char *path)
{
    if (strncmp(path, "~/", 2) != 0)
        return mem_strdup(path);
    const char *home = lever_system_env("HOME");
    return path_join(home && *home ? home : ".", path + 2);
}

/* Copy a built row's value into struct levers. The texts it parses are canonical already. */
static glim_status apply(struct lever_set *s, const struct lever_row *r, struct glim_err *e)
{
    struct lever_cell *c = &s->cell[r - lever_rows];
    const char *text = c->text ? c->text : r->def;
    void *field = (char *)&s->v + r->field;
    char *path;
    switch (r->type) {
    case TYPE_BOOL:
        *(bool *)field = strcmp(text, "on") == 0;
        break;
    case TYPE_INT:
        if (!parse_i64(text, field))
            return err_set(e, GLIM_FAILED, "lever %s: default: have \"%s\", need a whole number", r->key, text);
        break;
    case TYPE_FLOAT:
        if (!parse_f64(text, field))
            return err_set(e, GLIM_FAILED, "lever %s: default: have \"%s\", need a number", r->key, text);
        break;
    case TYPE_TEXT:
        *(const char **)field = text;
        break;
    case TYPE_PATH:
        path = text ? expand_home(text) : NULL;
        if (text && !path)
            return err_nomem(e, "lever value", strlen(text) + 1);
        mem_free(c->path);
        *(const char **)field = c->path = path;
        break;
    case TYPE_ENUM:
        *(int *)field = lever_enum_index(r->values, text);
        break;
    }
    return GLIM_OK;
}

static glim_status refuse_unbuilt(const struct lever_row *r, const char *text, const char *where, struct glim_err *e)
{
    char name[LEVER_NAME_MAX], quoted[LEVER_QUOTE_MAX];
    const char *also = r->alias[0].name;
    lever_env_name(r, name);
    return err_set(e, GLIM_REFUSED, "lever %s%s%s%s: %s%s: have %s from %s, need %s", name, also ? " (" : "",
                   also ? also : "", also ? ")" : "", r->why ? "" : "this build has no ", r->why ? r->why : r->need,
                   lever_quote(text, quoted), where, r->def ? r->def : "it unset");
}

glim_status lever_store(struct lever_set *s, const struct lever_row *r, const char *text, enum lever_origin origin,
                        const char *where, struct glim_err *e)
{
    struct lever_cell *c = &s->cell[r - lever_rows];
    if (!r->built && !(r->def && strcmp(r->def, text) == 0))
        return refuse_unbuilt(r, text, where, e);
    if (origin < c->origin)
        return GLIM_OK;
    char *t = mem_strdup(text), *w = mem_strdup(where);
    if (!t || !w) {
        mem_free(t);
        mem_free(w);
        return err_nomem(e, "lever value", strlen(text) + 1);
    }
    struct lever_cell old = *c;
    *c = (struct lever_cell){.origin = origin, .text = t, .path = c->path, .where = w};
    glim_status st = r->built ? apply(s, r, e) : GLIM_OK;
    if (st != GLIM_OK) { /* the typed value is still the old one */
        *c = old;
        old = (struct lever_cell){.text = t, .where = w};
    }
    mem_free(old.text);
    mem_free(old.where);
    return st;
}

glim_status lever_defaults(struct lever_set **out, struct glim_err *e)
{
    size_t bytes = sizeof(struct lever_set) + lever_n_row * sizeof(struct lever_cell);
    struct lever_set *s = mem_calloc(1, bytes);
    *out = NULL;
    if (!s)
        return err_nomem(e, "levers", bytes);
    for (size_t i = 0; i < lever_n_row; i++) {
        glim_status st = lever_rows[i].built ? apply(s, &lever_rows[i], e) : GLIM_OK;
        if (st != GLIM_OK) {
            lever_free(s);
            return st;
        }
    }
    *out = s;
    return GLIM_OK;
}

glim_status lever_load(struct lever_set **out, struct glim_err *e)
{
    struct lever_set *s;
    *out = NULL;
    TRY(lever_defaults(&s, e));
    glim_status st = lever_load_env(s, e); /* first: it says where home is */
    if (st == GLIM_OK)
        st = lever_load_file(s, e);
    if (st == GLIM_OK)
        *out = s;
    else
        lever_free(s);
    return st;
}

/* The row of a key, a flag's stem ("prefill-chunk"), a canonical name or an alias. */
static const struct lever_row *find_any(const char *name, const struct lever_alias **alias)
{
    char key[LEVER_NAME_MAX];
    size_t n = strlen(name);
    *alias = NULL;
    if (n >= sizeof key)
        return NULL;
    for (size_t i = 0; i <= n; i++)
        key[i] = name[i] == '-' ? '_' : name[i];
    const struct lever_row *r = lever_find_key(key);
    return r ? r : lever_find(name, alias);
}

glim_status lever_put(struct lever_set *s, const char *name, const char *value, struct glim_err *e)
{
    const struct lever_alias *alias;
    const struct lever_row *r = find_any(name, &alias);
    char *text = NULL;
    if (!r) {
        char hint[LEVER_NAME_MAX + 24], quoted[LEVER_QUOTE_MAX];
        lever_hint(name, strncmp(name, "GLIM_", 5) != 0, hint);
        return err_set(e, GLIM_USAGE, "option: have the unknown name %s, need one that `glim levers` lists%s",
                       lever_quote(name, quoted), hint);
    }
    TRY(alias ? lever_parse_alias(r, alias, value, &text, e) : lever_parse(r, name, value, &text, e));
    glim_status st = text ? lever_store(s, r, text, FROM_FLAG, name, e) : GLIM_OK;
    mem_free(text);
    return st;
}

const struct levers *lever_values(const struct lever_set *s)
{
    return &s->v;
}

void lever_free(struct lever_set *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < lever_n_row; i++) {
        mem_free(s->cell[i].text);
        mem_free(s->cell[i].path);
        mem_free(s->cell[i].where);
    }
    mem_free(s);
}
