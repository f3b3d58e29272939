/* Expressions and calls.
 *
 * The tree is walked as it is. Each level of evaluation takes one of JJ_DEPTH levels and one step, so neither a deep
 * tree nor a macro that calls itself can use up the stack or the time. */
#include "text/jinja_impl.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- errors and budgets ---- */

glim_status jj_fail(struct jj *x, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(x->e, GLIM_REFUSED, "chat template: %.60s line %d: %s", x->t->name, x->line, text);
}

glim_status jj_work(struct jj *x, size_t n)
{
    if (n >= x->steps) {
        x->steps = 0;
        return jj_fail(x, "have more than %zu steps, need a template that ends sooner", x->limit_steps);
    }
    x->steps -= n;
    return GLIM_OK;
}

glim_status jj_enter(struct jj *x)
{
    if (x->depth >= JJ_DEPTH)
        return jj_fail(x, "have calls nested deeper than %d levels, need fewer", JJ_DEPTH);
    x->depth++;
    return jj_work(x, 1);
}

/* ---- undefined ---- */

static glim_status undef(struct jj *x, struct jj_undef u, struct jj_val *out)
{
    struct jj_undef *p = jj_take(x, sizeof *p);
    if (!p)
        return jj_out_of(x);
    *p = u;
    *out = (struct jj_val){.type = JJ_UNDEF, .u = p};
    return GLIM_OK;
}

glim_status jj_undef_name(struct jj *x, struct jj_val name, struct jj_val *out)
{
    return undef(x, (struct jj_undef){.why = JJ_U_NAME, .element = name}, out);
}

glim_status jj_undef_attr(struct jj *x, struct jj_val obj, struct jj_val name, struct jj_val *out)
{
    return undef(x,
                 (struct jj_undef){.why = name.type == JJ_STR ? JJ_U_ATTR : JJ_U_ELEMENT,
                                   .type = obj.type == JJ_NONE ? "None" : jj_type_name(obj),
                                   .element = name},
                 out);
}

glim_status jj_undef_hint(struct jj *x, const char *hint, struct jj_val *out)
{
    return undef(x, (struct jj_undef){.why = JJ_U_HINT, .hint = hint}, out);
}

glim_status jj_undef_fail(struct jj *x, struct jj_val v)
{
    struct jj_buf b = {0};
    const struct jj_undef *u = v.u;
    const char *object = u->type && strcmp(u->type, "None") == 0 ? "" : " object";
    if (u->why != JJ_U_HINT) { /* within the budget; the element may be large */
        TRY(jj_print(x, &b, u->element));
        b.n = b.n > 200 ? 200 : b.n;
    }
    int n = (int)b.n;
    const char *p = b.p ? b.p : "";
    switch (u->why) {
    case JJ_U_NAME:
        return jj_fail(x, "have '%.*s', which is undefined, need a value", n, p);
    case JJ_U_ATTR:
        return jj_fail(x, "have '%s%s' without attribute '%.*s', need one that has it", u->type, object, n, p);
    case JJ_U_ELEMENT:
        return jj_fail(x, "have '%s%s' without element %.*s, need one that has it", u->type, object, n, p);
    case JJ_U_UNSAFE:
        return jj_fail(x, "have attribute '%.*s' of '%s%s', which the sandbox forbids, need another", n, p, u->type,
                       object);
    case JJ_U_ARG:
        return jj_fail(x, "have parameter '%.*s', which was not given, need a value", n, p);
    case JJ_U_HINT:
        break;
    }
    return jj_fail(x, "have an undefined value (%s), need a value", u->hint);
}

/* ---- variables ---- */

static glim_status lookup(struct jj *x, uint32_t name, struct jj_val *out)
{
    struct jj_scope *s = x->scope;
    for (; !s->root; s = s->parent) {
        for (size_t i = s->n; i-- > 0;)
            if (s->var[i].name == name) {
                *out = s->var[i].v;
                return GLIM_OK;
            }
        TRY(jj_work(x, 1 + s->n / 8));
    }
    *out = s->root[name];
    return out->type == JJ_MISSING ? jj_undef_name(x, x->t->var[name], out) : GLIM_OK;
}

glim_status jj_scope_push(struct jj *x, struct jj_scope *parent)
{
    struct jj_scope *s = jj_take(x, sizeof *s);
    if (!s)
        return jj_out_of(x);
    *s = (struct jj_scope){.parent = parent};
    x->scope = s;
    return GLIM_OK;
}

glim_status jj_scope_set(struct jj *x, uint32_t name, struct jj_val v)
{
    struct jj_scope *s = x->scope;
    if (s->root) {
        s->root[name] = v;
        return GLIM_OK;
    }
    TRY(jj_work(x, s->n / 8));
    for (size_t i = 0; i < s->n; i++)
        if (s->var[i].name == name) {
            s->var[i].v = v;
            return GLIM_OK;
        }
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 4;
        struct jj_var *p = jj_take(x, cap * sizeof *p);
        if (!p)
            return jj_out_of(x);
        if (s->n)
            memcpy(p, s->var, s->n * sizeof *p);
        s->var = p;
        s->cap = cap;
    }
    s->var[s->n++] = (struct jj_var){name, v};
    return GLIM_OK;
}

/* ---- arguments ---- */

glim_status jj_arg_int(struct jj *x, struct jj_val v, int64_t def, int64_t *out)
{
    *out = def;
    if (v.type == JJ_MISSING)
        return GLIM_OK;
    if (v.type == JJ_UNDEF)
        return jj_undef_fail(x, v);
    if (v.type != JJ_INT && v.type != JJ_BOOL)
        return jj_fail(x, "have '%s' as an argument, need an integer", jj_type_name(v));
    *out = jj_as_int(v);
    return GLIM_OK;
}

bool jj_arg_true(struct jj_val v, bool def)
{
    return v.type == JJ_MISSING ? def : jj_true(v);
}

static glim_status add_kw(struct jj *x, struct jj_call *c, size_t *cap, struct jj_val k, struct jj_val v)
{
    if (c->n_kw == *cap) {
        *cap = *cap ? 2 * *cap : 4;
        struct jj_pair *p = jj_take(x, *cap * sizeof *p);
        if (!p)
            return jj_out_of(x);
        if (c->n_kw)
            memcpy(p, c->kw, c->n_kw * sizeof *p);
        c->kw = p;
    }
    for (size_t i = 0; i < c->n_kw; i++)
        if (c->kw[i].key.s->n == k.s->n && memcmp(c->kw[i].key.s->p, k.s->p, k.s->n) == 0)
            return jj_fail(x, "have the keyword '%.60s' twice, need it once", k.s->p);
    c->kw[c->n_kw++] = (struct jj_pair){k, v};
    return jj_work(x, c->n_kw / 4);
}

static glim_status spread_kw(struct jj *x, struct jj_val v, struct jj_call *c, size_t *cap)
{
    if (v.type == JJ_UNDEF)
        return jj_undef_fail(x, v);
    if (v.type != JJ_DICT)
        return jj_fail(x, "have ** before a value of type '%s', need a dict", jj_type_name(v));
    for (size_t i = 0; i < v.d->n; i++) {
        if (v.d->p[i].key.type != JJ_STR)
            return jj_fail(x, "have ** of a dict with a key of type '%s', need text", jj_type_name(v.d->p[i].key));
        TRY(add_kw(x, c, cap, v.d->p[i].key, v.d->p[i].v));
    }
    return GLIM_OK;
}

/* The arguments of a call; room: how many more keywords the caller will add. a may be NULL. */
glim_status jj_args_eval(struct jj *x, const struct jj_args *a, size_t room, struct jj_call *c)
{
    static const struct jj_args none;
    struct jj_val list, v;
    a = a ? a : &none;
    size_t cap = a->kw.n + room;
    if (a->pos.n || a->star) {
        TRY(jj_list_new(x, JJ_LIST, a->pos.n, &list));
        for (size_t i = 0; i < a->pos.n; i++)
            TRY(jj_eval(x, a->pos.v[i], &list.l->v[list.l->n++]));
        if (a->star) {
            struct jj_iter it;
            bool got;
            TRY(jj_eval(x, a->star, &v));
            TRY(jj_iter_open(x, v, &it));
            TRY(jj_iter_next(x, &it, &got, &v));
            while (got) {
                TRY(jj_list_add(x, list, v));
                TRY(jj_iter_next(x, &it, &got, &v));
            }
        }
        c->pos = list.l->v;
        c->n_pos = list.l->n;
    }
    if (cap) {
        c->kw = jj_take(x, cap * sizeof *c->kw);
        if (!c->kw)
            return jj_out_of(x);
    }
    for (size_t i = 0; i < a->kw.n; i++) {
        TRY(jj_eval(x, a->kw.v[i], &v));
        c->kw[c->n_kw++] = (struct jj_pair){a->kw_name[i], v};
    }
    if (a->dstar) {
        TRY(jj_eval(x, a->dstar, &v));
        TRY(spread_kw(x, v, c, &cap));
    }
    return GLIM_OK;
}

/* ---- calling builtins ---- */

/* The parameter of this name: its index, or -1. */
static int param_index(const char *params, const char *name, size_t n)
{
    int i = 0;
    for (const char *p = params; *p; i++) {
        size_t len = strcspn(p, " ");
        if (len == n && memcmp(p, name, n) == 0)
            return i;
        p += len;
        p += *p == ' ';
    }
    return -1;
}

static int param_count(const char *params)
{
    int n = *params != 0;
    for (; *params; params++)
        n += *params == ' ';
    return n;
}

static glim_status bind(struct jj *x, const struct jj_fn *fn, const char *what, struct jj_call *c)
{
    bool only_pos = fn->params[0] == '/';
    const char *params = only_pos ? fn->params + 1 + (fn->params[1] == ' ') : fn->params;
    size_t n = (size_t)param_count(params);
    memset(c->arg, 0, sizeof c->arg);
    if (c->n_pos > n)
        return jj_fail(x, "have %zu arguments for the %s '%s', need at most %zu", c->n_pos, what, fn->name, n);
    for (size_t i = 0; i < c->n_pos; i++)
        c->arg[i] = c->pos[i];
    for (size_t i = 0; i < c->n_kw; i++) {
        struct jj_str *k = c->kw[i].key.s;
        int at = only_pos ? -1 : param_index(params, k->p, k->n);
        if (at < 0)
            return jj_fail(x, "have the keyword '%.*s' for the %s '%s', need one that it knows",
                           (int)(k->n < 60 ? k->n : 60), k->p, what, fn->name);
        if (c->arg[at].type != JJ_MISSING)
            return jj_fail(x, "have two values for '%.60s' of the %s '%s', need one", k->p, what, fn->name);
        c->arg[at] = c->kw[i].v;
    }
    for (int i = 0; i < fn->min; i++)
        if (c->arg[i].type == JJ_MISSING)
            return jj_fail(x, "have too few arguments for the %s '%s', need %d", what, fn->name, fn->min);
    return GLIM_OK;
}

glim_status jj_call_fn(struct jj *x, const struct jj_fn *fn, const char *what, struct jj_call *c, struct jj_val *out)
{
    TRY(jj_work(x, 1 + c->n_pos + c->n_kw));
    if (!fn->fn)
        return jj_fail(x, "have the %s '%s', need one that is implemented", what, fn->name);
    if (fn->params[0] != '*')
        TRY(bind(x, fn, what, c));
    return fn->fn(x, c, out);
}

/* Methods of escaped text give escaped text. */
static void keep_markup(struct jj_val *v)
{
    if (v->type == JJ_STR && v->s->n_cp != 1) /* one-character strings may be shared */
        v->s->markup = true;
}

static glim_status call_method(struct jj *x, struct jj_method *m, struct jj_call *c, struct jj_val *out)
{
    c->self = m->self;
    TRY(jj_call_fn(x, m->fn, "method", c, out));
    if (m->self.type == JJ_STR && m->self.s->markup && out->type == JJ_STR)
        keep_markup(out);
    return GLIM_OK;
}

static glim_status call_joiner(struct jj *x, struct jj_cycle *j, struct jj_val *out)
{
    if (j->at) {
        *out = j->items->v[0];
        return GLIM_OK;
    }
    j->at = 1;
    return jj_str_z(x, "", out);
}

/* loop(items) inside a recursive loop: the text of the loop over the new items. */
static glim_status call_loop(struct jj *x, struct jj_loop *l, struct jj_call *c, struct jj_val *out)
{
    struct jj_buf b = {0}, *before = x->out;
    if (!l->node->flag)
        return jj_fail(x, "have a call of a loop without 'recursive', need the marker");
    if (c->n_pos != 1 || c->n_kw)
        return jj_fail(x, "have %zu arguments for loop(), need one", c->n_pos + c->n_kw);
    x->out = &b;
    glim_status st = jj_loop_run(x, l->node, l->scope, c->pos[0], l->depth0 + 1);
    x->out = before;
    return st == GLIM_OK ? jj_buf_done(x, &b, out) : st;
}

glim_status jj_call_value(struct jj *x, struct jj_val f, struct jj_call *c, struct jj_val *out)
{
    switch (f.type) {
    case JJ_FUNC:
        return jj_call_fn(x, f.fn, "function", c, out);
    case JJ_METHOD:
        return call_method(x, f.method, c, out);
    case JJ_MACRO:
        return jj_call_macro(x, f.m, c, out);
    case JJ_LOOP:
        return call_loop(x, f.loop, c, out);
    case JJ_JOINER:
        return call_joiner(x, f.cycle, out);
    case JJ_UNDEF:
        return jj_undef_fail(x, f);
    default:
        return jj_fail(x, "have a call of a value of type '%s', need a macro, function or method", jj_type_name(f));
    }
}

/* ---- nodes ---- */

static glim_status eval_all(struct jj *x, const struct jj_nodes *kids, enum jj_type t, struct jj_val *out)
{
    TRY(jj_list_new(x, t, kids->n, out));
    for (size_t i = 0; i < kids->n; i++)
        TRY(jj_eval(x, kids->v[i], &out->l->v[out->l->n++]));
    return GLIM_OK;
}

static glim_status eval_dict(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_val k, v;
    TRY(jj_dict_new(x, n->kids.n / 2, out));
    for (size_t i = 0; i + 1 < n->kids.n; i += 2) {
        TRY(jj_eval(x, n->kids.v[i], &k));
        TRY(jj_eval(x, n->kids.v[i + 1], &v));
        TRY(jj_dict_set(x, out->d, k, v));
    }
    return GLIM_OK;
}

static glim_status eval_cond(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_val test;
    TRY(jj_eval(x, n->b, &test));
    if (jj_true(test))
        return jj_eval(x, n->a, out);
    return n->c ? jj_eval(x, n->c, out) : jj_undef_hint(x, "an inline if was false and has no else", out);
}

static glim_status eval_concat(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_buf b = {0};
    struct jj_val v;
    for (size_t i = 0; i < n->kids.n; i++) {
        TRY(jj_eval(x, n->kids.v[i], &v));
        TRY(jj_print(x, &b, v));
    }
    return jj_buf_done(x, &b, out);
}

static glim_status eval_cmp(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_val left, right;
    bool yes = true;
    TRY(jj_eval(x, n->a, &left));
    for (size_t i = 0; i < n->kids.n && yes; i++, left = right) {
        TRY(jj_eval(x, n->kids.v[i], &right));
        TRY(jj_compare(x, (enum jj_cmp)n->value.s->p[i], left, right, &yes));
    }
    *out = jj_bool(yes);
    return GLIM_OK;
}

static glim_status eval_item(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_val obj, key, part[3];
    TRY(jj_eval(x, n->a, &obj));
    if (n->b->kind != JJ_E_SLICE) {
        TRY(jj_eval(x, n->b, &key));
        return jj_getitem(x, obj, key, out);
    }
    for (int i = 0; i < 3; i++) {
        part[i] = jj_none();
        if (n->b->kids.v[i])
            TRY(jj_eval(x, n->b->kids.v[i], &part[i]));
    }
    return jj_slice(x, obj, part, out);
}

static glim_status eval_call(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_call c = {.n_kw = 0};
    struct jj_val f;
    TRY(jj_eval(x, n->a, &f));
    TRY(jj_args_eval(x, n->args, 0, &c));
    x->line = n->line;
    return jj_call_value(x, f, &c, out);
}

static glim_status eval_filter(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_call c = {.self = x->block_text};
    if (n->a)
        TRY(jj_eval(x, n->a, &c.self));
    TRY(jj_args_eval(x, n->args, 0, &c));
    x->line = n->line;
    if (!n->fn)
        return jj_fail(x, "have the filter '%.60s', need one that is implemented", n->value.s->p);
    return jj_call_fn(x, n->fn, "filter", &c, out);
}

static glim_status eval_test(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_call c = {.n_kw = 0};
    TRY(jj_eval(x, n->a, &c.self));
    TRY(jj_args_eval(x, n->args, 0, &c));
    x->line = n->line;
    if (!n->fn)
        return jj_fail(x, "have the test '%.60s', need one that is implemented", n->value.s->p);
    return jj_call_fn(x, n->fn, "test", &c, out);
}

static glim_status eval_binary(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_val a, b;
    TRY(jj_eval(x, n->a, &a));
    TRY(jj_eval(x, n->b, &b));
    return jj_binary(x, (enum jj_op)n->op, a, b, out);
}

static glim_status eval_logic(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    TRY(jj_eval(x, n->a, out));
    if (jj_true(*out) == (n->kind == JJ_E_AND))
        return jj_eval(x, n->b, out);
    return GLIM_OK;
}

static glim_status eval_one(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_val v;
    switch ((enum jj_kind)n->kind) {
    case JJ_E_CONST:
        *out = n->value;
        return GLIM_OK;
    case JJ_E_NAME:
        return lookup(x, n->name, out);
    case JJ_E_TUPLE:
        return eval_all(x, &n->kids, JJ_TUPLE, out);
    case JJ_E_LIST:
        return eval_all(x, &n->kids, JJ_LIST, out);
    case JJ_E_DICT:
        return eval_dict(x, n, out);
    case JJ_E_COND:
        return eval_cond(x, n, out);
    case JJ_E_AND:
    case JJ_E_OR:
        return eval_logic(x, n, out);
    case JJ_E_NOT:
        TRY(jj_eval(x, n->a, &v));
        *out = jj_bool(!jj_true(v));
        return GLIM_OK;
    case JJ_E_NEG:
    case JJ_E_POS:
        TRY(jj_eval(x, n->a, &v));
        return jj_negate(x, v, n->kind == JJ_E_NEG, out);
    case JJ_E_BIN:
        return eval_binary(x, n, out);
    case JJ_E_CONCAT:
        return eval_concat(x, n, out);
    case JJ_E_CMP:
        return eval_cmp(x, n, out);
    case JJ_E_ATTR:
        TRY(jj_eval(x, n->a, &v));
        return jj_getattr(x, v, n->value, out);
    case JJ_E_ITEM:
        return eval_item(x, n, out);
    case JJ_E_CALL:
        return eval_call(x, n, out);
    case JJ_E_FILTER:
        return eval_filter(x, n, out);
    case JJ_E_TEST:
        return eval_test(x, n, out);
    case JJ_E_SLICE:
    case JJ_E_NSREF:
    case JJ_S_DATA:
    case JJ_S_PRINT:
    case JJ_S_IF:
    case JJ_S_FOR:
    case JJ_S_SET:
    case JJ_S_SETBLOCK:
    case JJ_S_WITH:
    case JJ_S_MACRO:
    case JJ_S_CALL:
    case JJ_S_FILTER:
    case JJ_S_GENERATION:
    case JJ_S_BREAK:
    case JJ_S_CONTINUE:
        break;
    }
    return jj_fail(x, "have a slice outside a simple subscript, need it alone in its brackets");
}

glim_status jj_eval(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    TRY(jj_enter(x));
    x->line = n->line;
    glim_status st = eval_one(x, n, out);
    x->depth--;
    return st;
}
