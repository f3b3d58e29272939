/* Opening and rendering templates, and the tables of what the engine knows. */
#include "text/jinja_impl.h"
#include "text/unicode.h"

#include <stdlib.h>

enum { PARSE_BYTES = 256 << 20 }; /* memory of one parsed template */

/* ---- tables ---- */

const struct jj_fn *jj_fn_find(const struct jj_fn *table, const char *p, size_t n)
{
    for (const struct jj_fn *f = table; f->name; f++)
        if (f->name[0] == (n ? p[0] : 0) && strlen(f->name) == n && memcmp(f->name, p, n) == 0)
            return f;
    return NULL;
}

const struct jj_fn *jj_filter_find(const char *p, size_t n)
{
    const struct jj_fn *f = jj_fn_find(jj_filters, p, n);
    return f ? f : jj_fn_find(jj_filters_seq, p, n);
}

const char *jinja_kind_name(enum jinja_kind k)
{
    static const char *const name[] = {"statements",       "filters",          "tests",  "functions", "methods of text",
                                       "methods of lists", "methods of dicts", "refused"};
    return k < JINJA_KIND_COUNT ? name[k] : NULL;
}

/* The i-th row of two tables that is implemented (or refused); *i counts down. */
static const char *walk(const struct jj_fn *table, bool implemented, size_t *i)
{
    for (const struct jj_fn *f = table; f->name; f++)
        if ((f->fn != NULL) == implemented && (*i)-- == 0)
            return f->name;
    return NULL;
}

const char *jinja_feature(enum jinja_kind k, size_t i)
{
    static const struct jj_fn *const all[] = {jj_filters,     jj_filters_seq,  jj_tests,        jj_globals,
                                              jj_str_methods, jj_list_methods, jj_dict_methods, jj_other_attrs};
    const char *name = NULL;
    switch (k) {
    case JINJA_STATEMENT:
        return jj_statement_name(i);
    case JINJA_FILTER:
        name = walk(jj_filters, true, &i);
        return name ? name : walk(jj_filters_seq, true, &i);
    case JINJA_TEST:
        return walk(jj_tests, true, &i);
    case JINJA_FUNCTION:
        return walk(jj_globals, true, &i);
    case JINJA_STR_METHOD:
        return walk(jj_str_methods, true, &i);
    case JINJA_LIST_METHOD:
        return walk(jj_list_methods, true, &i);
    case JINJA_DICT_METHOD:
        return walk(jj_dict_methods, true, &i);
    case JINJA_REFUSED:
        for (size_t t = 0; t < sizeof all / sizeof *all && !name; t++)
            name = walk(all[t], false, &i);
        return name;
    case JINJA_KIND_COUNT:
        break;
    }
    return NULL;
}

/* ---- opening ---- */

static bool valid_utf8(const char *p, size_t n)
{
    uint32_t cp;
    for (size_t i = 0; i < n;) {
        int len = utf8_decode((const uint8_t *)p + i, n - i, &cp);
        if (len == 0)
            return false;
        i += (size_t)len;
    }
    return true;
}

glim_status jinja_open(struct jinja **out, const char *text, size_t n, const char *name, struct glim_err *e)
{
    *out = NULL;
    if (n > JJ_TEMPLATE)
        return err_set(e, GLIM_REFUSED, "chat template: %.100s: have %zu bytes, need at most %d", name, n, JJ_TEMPLATE);
    if (!valid_utf8(text, n))
        return err_set(e, GLIM_REFUSED, "chat template: %.100s: have invalid UTF-8, need text", name);
    struct jinja *t = mem_calloc(1, sizeof *t);
    if (!t)
        return err_nomem(e, "chat template", sizeof *t);
    t->mem.left = PARSE_BYTES;
    t->name = mem_strdup(name);
    glim_status st = t->name ? jj_parse_all(t, text, n, e) : err_nomem(e, "chat template", strlen(name));
    if (st != GLIM_OK)
        jinja_close(t);
    else
        *out = t;
    return st;
}

void jinja_close(struct jinja *t)
{
    if (!t)
        return;
    jj_mem_fini(&t->mem);
    mem_free(t->name);
    mem_free(t->var);
    mem_free(t->attr);
    mem_free(t);
}

bool jinja_mentions(const struct jinja *t, const char *name)
{
    for (size_t i = 0; i < t->n_var; i++)
        if (jj_is(t->var[i], name))
            return true;
    for (size_t i = 0; i < t->n_attr; i++)
        if (jj_is(t->attr[i], name))
            return true;
    return false;
}

/* ---- rendering ---- */

/* Rough bytes of a JSON value, for the budget. Stops counting beyond the depth that is refused anyway. */
static size_t json_weight(const json_t *j, int depth)
{
    size_t n = 64;
    if (!j || depth > JJ_NEST)
        return n;
    if (json_is_string(j))
        return n + json_string_length(j);
    for (size_t i = 0; i < json_array_size(j); i++)
        n += json_weight(json_array_get(j, i), depth + 1);
    json_t *o = json_is_object(j) ? (json_t *)(uintptr_t)j : NULL;
    for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it))
        n += strlen(json_object_iter_key(it)) + json_weight(json_object_iter_value(it), depth + 1);
    return n;
}

/* Twice x, at most SIZE_MAX / 2. */
static size_t scaled(size_t base, size_t n, size_t by)
{
    size_t more;
    return mul_size(n, by, &more) && more < SIZE_MAX / 2 ? base + more : SIZE_MAX / 2;
}

static void set_budget(struct jj *x, const struct jinja_var *var, size_t n_var)
{
    size_t weight = 0;
    for (size_t i = 0; i < n_var; i++)
        weight += json_weight(var[i].value, 0);
    x->steps = x->limit_steps = scaled(JJ_BASE_STEPS, weight, JJ_STEPS_PER_BYTE);
    x->mem.left = x->limit_bytes = scaled(JJ_BASE_BYTES, weight, JJ_BYTES_PER_BYTE);
    if (x->limit_bytes > UINT32_MAX) /* runs are 32 bits long */
        x->mem.left = x->limit_bytes = UINT32_MAX;
}

static glim_status check_text(struct jj *x, const json_t *j)
{
    if (json_is_string(j) && !valid_utf8(json_string_value(j), json_string_length(j)))
        return jj_fail(x, "have invalid UTF-8 in a variable, need text");
    return GLIM_OK;
}

/* The words of a variable that are trusted though the rest is data. */
static glim_status trust_words(struct jj *x, const struct jinja_var *var, struct jj_val list)
{
    struct jj_val key, *v;
    if (!var->word_key || list.type != JJ_LIST)
        return GLIM_OK;
    TRY(jj_str_z(x, var->word_key, &key));
    for (size_t i = 0; i < list.l->n; i++) {
        if (list.l->v[i].type != JJ_DICT)
            continue;
        TRY(jj_dict_get(x, list.l->v[i].d, key, &v));
        for (const char *const *w = var->words; v && *w; w++)
            if (jj_is(*v, *w))
                v->s->data = false;
    }
    return GLIM_OK;
}

/* The root scope: functions first, then the caller's variables. Names that the template never reads have no place. */
static glim_status set_root(struct jj *x, const struct jinja_var *var, size_t n_var)
{
    struct jj_scope *s = jj_take(x, sizeof *s);
    struct jj_val *root = jj_take(x, (x->t->n_var + 1) * sizeof *root);
    if (!s || !root)
        return jj_out_of(x);
    memset(root, 0, (x->t->n_var + 1) * sizeof *root);
    *s = (struct jj_scope){.root = root};
    x->scope = s;
    for (size_t i = 0; i < x->t->n_var; i++) {
        const struct jj_str *name = x->t->var[i].s;
        const struct jj_fn *fn = jj_fn_find(jj_globals, name->p, name->n);
        if (fn)
            root[i] = (struct jj_val){.type = JJ_FUNC, .fn = fn};
        for (size_t k = 0; k < n_var; k++)
            if (jj_is(x->t->var[i], var[k].name)) {
                TRY(check_text(x, var[k].value));
                TRY(jj_from_json(x, var[k].value, !var[k].trusted, 0, &root[i]));
                TRY(trust_words(x, &var[k], root[i]));
            }
    }
    return GLIM_OK;
}

static glim_status give(struct jj *x, const struct jj_buf *b, struct jinja_output *out)
{
    out->span = mem_alloc((b->n_run + 1) * sizeof *out->span);
    str_add(&out->text, b->n ? b->p : "", b->n);
    if (!out->span || out->text.failed)
        return err_nomem(x->e, "chat template", b->n);
    for (size_t i = 0; i < b->n_run; i++)
        out->span[i] = (struct jinja_span){b->run[i].n, !b->run[i].data};
    out->n_span = b->n_run;
    return GLIM_OK;
}

glim_status jinja_render(const struct jinja *t, const struct jinja_var *var, size_t n_var, const struct tm *now,
                         struct jinja_output *out, struct glim_err *e)
{
    struct glim_err own;
    struct jj_buf b = {0};
    struct jj x = {.t = t, .e = e ? e : &own, .now = now, .out = &b};
    *out = (struct jinja_output){0};
    set_budget(&x, var, n_var);
    glim_status st = set_root(&x, var, n_var);
    if (st == GLIM_OK)
        st = jj_exec(&x, &t->body);
    if (st == GLIM_OK)
        st = give(&x, &b, out);
    jj_mem_fini(&x.mem);
    if (st != GLIM_OK)
        jinja_output_fini(out);
    return st;
}

void jinja_output_fini(struct jinja_output *out)
{
    str_fini(&out->text);
    mem_free(out->span);
    *out = (struct jinja_output){0};
}
