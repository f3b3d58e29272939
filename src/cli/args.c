/* Options by table: one row parses, checks and documents an option. No abbreviations: an option is spelled out or
 * refused.
 * "--name value" and "--name=value" are the same, "--" ends the options, and of a repeated option the last one counts.
 */
#include "cli/cli.h"

#include "base/lever_row.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

bool arg_list_add(struct arg_list *l, const char *s)
{
    void *item = l->item;
    if (!mem_grow(&item, &l->cap, l->n, sizeof *l->item))
        return false;
    l->item = item;
    l->item[l->n++] = s;
    return true;
}

void arg_list_fini(struct arg_list *l)
{
    mem_free(l->item);
    *l = (struct arg_list){0};
}

void args_fini(struct args *a)
{
    arg_list_fini(&a->positional);
    arg_list_fini(&a->lever);
}

/* ---- help ----------------------------------------------------------------------------------------------------------
 */

static void help_row(char letter, const char *name, const char *meta, const char *help)
{
    char left[LEVER_NAME_MAX + 32];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", letter ? '-' : ' ', letter ? letter : ' ', letter ? "," : " ", name,
             meta ? " " : "", meta ? meta : "");
    printf("  %-28s %s\n", left, help);
}

static void print_help(const struct arg_spec *spec)
{
    printf("usage: glim %s %s\n%s\n\n", spec->name, spec->usage, spec->about);
    for (size_t i = 0; i < spec->n_arg; i++)
        help_row(spec->arg[i].letter, spec->arg[i].name, spec->arg[i].meta, spec->arg[i].help);
    help_row('h', "help", NULL, "this text");
    if (!spec->levers)
        return;
    printf("\nlevers (all of them, with bounds and defaults: glim levers)\n");
    for (size_t i = 0; i < lever_n_row; i++) {
        const struct lever_row *r = &lever_rows[i];
        if (!r->built)
            continue;
        char name[LEVER_NAME_MAX];
        snprintf(name, sizeof name, "%s", r->key);
        for (char *p = name; *p; p++)
            *p = *p == '_' ? '-' : *p;
        help_row(strcmp(name, "threads") == 0 ? 't' : 0, name, "V", r->doc);
    }
}

/* ---- one option ----------------------------------------------------------------------------------------------------
 */

static glim_status bad_value(const struct arg *a, const char *v, struct glim_err *e)
{
    if (a->kind == ARG_U64)
        return err_set(e, GLIM_USAGE, "option --%s: have '%s', need a whole number from 0", a->name, v);
    return err_set(e, GLIM_USAGE, "option --%s: have '%s', need a %snumber from %.10g to %.10g", a->name, v,
                   a->kind == ARG_INT ? "whole " : "", a->min, a->max);
}

glim_status arg_set(const struct arg *a, const char *v, struct glim_err *e)
{
    int64_t i;
    uint64_t u;
    double d;
    switch (a->kind) {
    case ARG_FLAG:
        *(bool *)a->out = true;
        return GLIM_OK;
    case ARG_TEXT:
        *(const char **)a->out = v;
        return GLIM_OK;
    case ARG_LIST:
        return arg_list_add(a->out, v) ? GLIM_OK : err_nomem(e, "options", sizeof v);
    case ARG_INT:
        if (!parse_i64(v, &i) || (double)i < a->min || (double)i > a->max)
            return bad_value(a, v, e);
        *(int64_t *)a->out = i;
        return GLIM_OK;
    case ARG_U64:
        if (!parse_u64(v, &u))
            return bad_value(a, v, e);
        *(uint64_t *)a->out = u;
        return GLIM_OK;
    case ARG_FLOAT:
        if (!parse_f64(v, &d) || d < a->min || d > a->max)
            return bad_value(a, v, e);
        *(float *)a->out = (float)d;
        return GLIM_OK;
    }
    return err_set(e, GLIM_USAGE, "option --%s: have no such kind of option, need another", a->name);
}

static const struct arg *find(const struct arg_spec *spec, const char *name, size_t n, char letter)
{
    for (size_t i = 0; i < spec->n_arg; i++) {
        const struct arg *a = &spec->arg[i];
        if (letter ? a->letter == letter : strlen(a->name) == n && memcmp(a->name, name, n) == 0)
            return a;
    }
    return NULL;
}

/* The config key of a lever flag: "prefill-chunk" is prefill_chunk. NULL when there is no such lever, or its name was
 * written with underscores. */
static const char *lever_key(const char *name, size_t n)
{
    char key[LEVER_NAME_MAX];
    if (n >= sizeof key || memchr(name, '_', n))
        return NULL;
    for (size_t i = 0; i < n; i++)
        key[i] = name[i] == '-' ? '_' : name[i];
    key[n] = 0;
    const struct lever_row *r = lever_find_key(key);
    return r ? r->key : NULL;
}

struct cursor {
    int argc, i;
    char **argv;
};

static glim_status take_value(struct cursor *c, const char *inline_value, const char *option, const char **v,
                              struct glim_err *e)
{
    if (inline_value) {
        *v = inline_value;
        return GLIM_OK;
    }
    if (c->i + 1 >= c->argc)
        return err_set(e, GLIM_USAGE, "option %s: have no value, need one", option);
    *v = c->argv[++c->i];
    return GLIM_OK;
}

static glim_status one_option(const struct arg_spec *spec, struct cursor *c, struct args *out, struct glim_err *e)
{
    const char *text = c->argv[c->i];
    bool is_long = text[1] == '-';
    const char *name = text + (is_long ? 2 : 1);
    const char *equals = is_long ? strchr(name, '=') : NULL;
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    const char *value = equals ? equals + 1 : !is_long && name[0] && name[1] ? name + 1 : NULL;

    if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
        out->help = true;
        return GLIM_OK;
    }
    const struct arg *a = find(spec, name, n, is_long ? 0 : name[0]);
    if (a && a->kind == ARG_FLAG) {
        if (value)
            return err_set(e, GLIM_USAGE, "option %s: have a value, need none", text);
        return arg_set(a, NULL, e);
    }
    if (a) {
        TRY(take_value(c, value, text, &value, e));
        return arg_set(a, value, e);
    }
    const char *key = !spec->levers ? NULL : is_long ? lever_key(name, n) : name[0] == 't' ? "threads" : NULL;
    if (!key)
        return err_set(e, GLIM_USAGE, "%s: unknown option %.*s: see glim %s --help", spec->name,
                       (int)(n + (is_long ? 2 : 1)), text, spec->name);
    TRY(take_value(c, value, text, &value, e));
    if (!arg_list_add(&out->lever, key) || !arg_list_add(&out->lever, value))
        return err_nomem(e, "options", sizeof value);
    return GLIM_OK;
}

glim_status args_parse(const struct arg_spec *spec, int argc, char **argv, struct args *a, struct glim_err *e)
{
    struct cursor c = {.argc = argc, .i = 1, .argv = argv};
    bool options = true;
    for (; c.i < argc && !a->help; c.i++) {
        const char *text = argv[c.i];
        if (options && strcmp(text, "--") == 0) {
            options = false;
        } else if (options && text[0] == '-' && text[1]) {
            TRY(one_option(spec, &c, a, e));
        } else {
            if (a->positional.n >= spec->positional)
                return err_set(e, GLIM_USAGE, "%s: unexpected argument '%s': have %zu, need at most %zu", spec->name,
                               text, a->positional.n + 1, spec->positional);
            if (!arg_list_add(&a->positional, text))
                return err_nomem(e, "arguments", sizeof text);
        }
    }
    if (a->help)
        print_help(spec);
    return GLIM_OK;
}
