/* Levers from outside the program: the environment and glim.toml. The only getenv of the program is here. */
#include "base/lever_row.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/toml.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_MAX = 64 << 10 };

const char *lever_system_env(const char *name)
{
    static const char *const known[] = {"HOME", "NO_COLOR", "TERM", "COLUMNS"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0)
            return getenv(name);
    return NULL;
}

/* ---- environment ---- */

static bool is_ours(const char *name)
{
    return strncmp(name, "GLIM_", 5) == 0 || strncmp(name, "MUSER_", 6) == 0 || strncmp(name, "METRALE_", 8) == 0;
}

/* Refuse names with one of the three prefixes that no row has, and families, which no lookup by name would meet. */
static glim_status check_names(struct lever_set *s, struct glim_err *e)
{
    for (char **p = environ; p && *p; p++) {
        char name[LEVER_NAME_MAX], hint[LEVER_NAME_MAX + 24];
        const struct lever_alias *alias = NULL;
        size_t n = strcspn(*p, "=");
        bool cut = n >= sizeof name;
        if (!is_ours(*p))
            continue;
        n = cut ? sizeof name - 1 : n;
        memcpy(name, *p, n);
        name[n] = 0;
        const struct lever_row *r = lever_find(name, &alias);
        if (!r || (cut && !(alias && lever_is_family(alias)))) {
            lever_hint(name, false, hint);
            return err_set(e, GLIM_REFUSED,
                           "environment: %s%s: have an unknown name, need one that `glim levers` lists%s", name,
                           cut ? "..." : "", hint);
        }
        if (alias && lever_is_family(alias))
            TRY(lever_store(s, r, alias->to, FROM_ENV, name, e));
    }
    return GLIM_OK;
}

/* What the aliases of a row say: *text is the first that says something (NULL when none does), *name the alias it came
 * from, or the first one set at all. */
static glim_status read_aliases(const struct lever_row *r, char **text, const char **name, struct glim_err *e)
{
    *text = NULL;
    *name = NULL;
    for (int i = 0; i < LEVER_ALIAS_MAX && r->alias[i].name && !*text; i++) {
        const char *value = getenv(r->alias[i].name);
        if (!value)
            continue;
        glim_status st = lever_parse_alias(r, &r->alias[i], value, text, e);
        if (st != GLIM_OK)
            return st;
        if (*text || !*name)
            *name = r->alias[i].name;
    }
    return GLIM_OK;
}

/* An alias that says nothing leaves the lever where it would be without it, which is its default. */
static glim_status check_agree(const struct lever_row *r, const char *canonical, const char *text, const char *alias,
                               const char *alias_text, struct glim_err *e)
{
    char a[LEVER_QUOTE_MAX], b[LEVER_QUOTE_MAX];
    const char *other = alias_text ? alias_text : r->def;
    if (other && strcmp(text, other) == 0)
        return GLIM_OK;
    return err_set(e, GLIM_REFUSED, "lever %s: environment: have %s from %s and %s from %s, need one value", canonical,
                   lever_quote(text, a), canonical, other ? lever_quote(other, b) : "nothing", alias);
}

static glim_status read_row(struct lever_set *s, const struct lever_row *r, struct glim_err *e)
{
    char canonical[LEVER_NAME_MAX], *text = NULL, *alias_text = NULL;
    const char *alias = NULL;
    glim_status st;
    lever_env_name(r, canonical);
    const char *value = getenv(canonical);
    TRY_OUT(read_aliases(r, &alias_text, &alias, e));
    if (value) {
        TRY_OUT(lever_parse(r, canonical, value, &text, e));
        if (alias)
            TRY_OUT(check_agree(r, canonical, text, alias, alias_text, e));
        st = lever_store(s, r, text, FROM_ENV, canonical, e);
    } else if (alias_text) {
        st = lever_store(s, r, alias_text, FROM_ENV, alias, e);
    }
out:
    mem_free(text);
    mem_free(alias_text);
    return st;
}

glim_status lever_load_env(struct lever_set *s, struct glim_err *e)
{
    TRY(check_names(s, e));
    for (size_t i = 0; i < lever_n_row; i++)
        TRY(read_row(s, &lever_rows[i], e));
    return GLIM_OK;
}

/* ---- glim.toml ---- */

static bool kind_fits(enum lever_type type, enum toml_kind kind)
{
    switch (type) {
    case TYPE_BOOL:
        return kind != TOML_FLOAT; /* the grammar of booleans has words and digits too */
    case TYPE_INT:
        return kind == TOML_INT;
    case TYPE_FLOAT:
        return kind == TOML_INT || kind == TOML_FLOAT;
    case TYPE_TEXT:
    case TYPE_PATH:
    case TYPE_ENUM:
        return kind == TOML_STRING;
    }
    return false;
}

static glim_status take_item(struct lever_set *s, const struct toml_item *it, const char *where, struct glim_err *e)
{
    const struct lever_row *r = lever_find_key(it->key);
    char hint[LEVER_NAME_MAX + 24], quoted[LEVER_QUOTE_MAX], *text = NULL;
    if (!r) {
        lever_hint(it->key, true, hint);
        return err_set(e, GLIM_REFUSED, "config file: %s: have the unknown key %s, need one that `glim levers` lists%s",
                       where, lever_quote(it->key, quoted), hint);
    }
    if (!kind_fits(r->type, it->kind)) {
        struct str need = {0};
        lever_range_text(r, &need);
        err_set(e, GLIM_REFUSED, "lever %s: %s: have %s, need %s%s", r->key, where, toml_kind_name(it->kind),
                need.s ? need.s : "another kind", r->type >= TYPE_TEXT ? " in quotes" : "");
        str_fini(&need);
        return GLIM_REFUSED;
    }
    glim_status st = lever_parse(r, r->key, it->text, &text, e);
    if (st == GLIM_OK)
        st = lever_store(s, r, text, FROM_FILE, where, e);
    else
        err_prefix(e, "%s", where);
    mem_free(text);
    return st;
}

static glim_status take_file(struct lever_set *s, const char *path, struct glim_err *e)
{
    struct toml t = {0};
    struct str where = {0};
    char *buf = NULL;
    size_t n;
    glim_status st;
    TRY(file_read(path, CONFIG_MAX, &buf, &n, e));
    TRY_OUT(toml_parse(&t, buf, n, path, e));
    for (size_t i = 0; i < t.n; i++) {
        str_clear(&where);
        str_printf(&where, "%s:%d", path, t.item[i].line);
        if (where.failed) {
            st = err_nomem(e, "config file", strlen(path));
            goto out;
        }
        TRY_OUT(take_item(s, &t.item[i], where.s, e));
    }
out:
    str_fini(&where);
    toml_free(&t);
    mem_free(buf);
    return st;
}

glim_status lever_load_file(struct lever_set *s, struct glim_err *e)
{
    if (file_exists("glim.toml"))
        return take_file(s, "glim.toml", e);
    char *path = path_join(s->v.home, "glim.toml");
    if (!path)
        return err_nomem(e, "config file", strlen(s->v.home));
    glim_status st = file_exists(path) ? take_file(s, path, e) : GLIM_OK;
    mem_free(path);
    return st;
}
