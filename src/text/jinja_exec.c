/* Statements: loops, macros, assignments.
 *
 * Scopes follow Jinja2: the bodies of for, with, filter, set, macro, call and generation have their own, an if has
 * none. A name is read from the innermost scope that has it; setting one never reaches outwards. */
#include "text/jinja_impl.h"

/* ---- assignment ---- */

static glim_status assign_tuple(struct jj *x, const struct jj_node *target, struct jj_val v)
{
    struct jj_val list;
    TRY(jj_to_list(x, v, &list));
    if (list.l->n != target->kids.n)
        return jj_fail(x, "have %zu values for %zu names, need as many", list.l->n, target->kids.n);
    for (size_t i = 0; i < target->kids.n; i++)
        TRY(jj_assign(x, target->kids.v[i], list.l->v[i]));
    return GLIM_OK;
}

static glim_status assign_ns(struct jj *x, const struct jj_node *target, struct jj_val v)
{
    struct jj_val ns;
    const struct jj_node name = {.kind = JJ_E_NAME, .line = target->line, .name = target->name};
    TRY(jj_eval(x, &name, &ns));
    if (ns.type != JJ_NS)
        return jj_fail(x, "have an attribute set on a value of type '%s', need a namespace", jj_type_name(ns));
    return jj_dict_set(x, ns.d, target->value, v);
}

glim_status jj_assign(struct jj *x, const struct jj_node *target, struct jj_val v)
{
    if (target->kind == JJ_E_TUPLE)
        return assign_tuple(x, target, v);
    if (target->kind == JJ_E_NSREF)
        return assign_ns(x, target, v);
    return jj_scope_set(x, target->name, v);
}

/* ---- blocks whose text is a value ---- */

/* Run a body in a new scope and give its text. */
static glim_status capture(struct jj *x, const struct jj_nodes *body, struct jj_scope *parent, struct jj_val *out)
{
    struct jj_buf b = {0}, *before = x->out;
    struct jj_scope *scope = x->scope;
    TRY(jj_scope_push(x, parent));
    x->out = &b;
    glim_status st = jj_exec(x, body);
    x->out = before;
    x->scope = scope;
    return st == GLIM_OK ? jj_buf_done(x, &b, out) : st;
}

static glim_status apply_filters(struct jj *x, const struct jj_node *filter, struct jj_val *v)
{
    struct jj_val before = x->block_text;
    if (!filter)
        return GLIM_OK;
    x->block_text = *v;
    glim_status st = jj_eval(x, filter, v);
    x->block_text = before;
    return st;
}

static glim_status set_block(struct jj *x, const struct jj_node *n)
{
    struct jj_val v;
    TRY(capture(x, &n->block[0], x->scope, &v));
    if (x->flow != JJ_NEXT)
        return GLIM_OK;
    TRY(apply_filters(x, n->b, &v));
    return jj_assign(x, n->a, v);
}

static glim_status filter_block(struct jj *x, const struct jj_node *n)
{
    struct jj_val v;
    TRY(capture(x, &n->block[0], x->scope, &v));
    if (x->flow != JJ_NEXT) /* break and continue drop the text */
        return GLIM_OK;
    TRY(apply_filters(x, n->b, &v));
    return jj_print(x, x->out, v);
}

static glim_status with_block(struct jj *x, const struct jj_node *n)
{
    struct jj_scope *outer = x->scope, *inner;
    struct jj_val v;
    TRY(jj_scope_push(x, outer));
    inner = x->scope;
    for (size_t i = 0; i < n->kids.n; i += 2) { /* values do not see the new names */
        x->scope = outer;
        TRY(jj_eval(x, n->kids.v[i + 1], &v));
        x->scope = inner;
        TRY(jj_assign(x, n->kids.v[i], v));
    }
    glim_status st = jj_exec(x, &n->block[0]);
    x->scope = outer;
    return st;
}

/* ---- macros ---- */

static glim_status make_macro(struct jj *x, const struct jj_node *n, struct jj_val *out)
{
    struct jj_macro *m = jj_take(x, sizeof *m);
    if (!m)
        return jj_out_of(x);
    *m = (struct jj_macro){.sig = n->sig, .body = &n->block[0], .scope = x->scope, .name = n->value};
    *out = (struct jj_val){.type = JJ_MACRO, .m = m};
    return GLIM_OK;
}

/* Take the keyword out of the call; JJ_MISSING when it is not there. */
static struct jj_val take_kw(struct jj_call *c, struct jj_val name)
{
    struct jj_val v = {.type = JJ_MISSING};
    for (size_t i = 0; i < c->n_kw; i++)
        if (c->kw[i].key.s->n == name.s->n && memcmp(c->kw[i].key.s->p, name.s->p, name.s->n) == 0) {
            v = c->kw[i].v;
            for (size_t k = i + 1; k < c->n_kw; k++)
                c->kw[k - 1] = c->kw[k];
            c->n_kw--;
            break;
        }
    return v;
}

static glim_status bind_caller(struct jj *x, struct jj_call *c)
{
    struct jj_val name, caller;
    TRY(jj_str_z(x, "caller", &name));
    caller = take_kw(c, name);
    if (caller.type == JJ_MISSING || caller.type == JJ_NONE)
        TRY(jj_undef_hint(x, "No caller defined", &caller));
    return jj_scope_set(x, x->t->id_caller, caller);
}

/* Arguments beyond the parameters: for a body that reads kwargs or varargs, else an error. */
static glim_status bind_rest(struct jj *x, struct jj_macro *m, struct jj_call *c)
{
    struct jj_val v;
    if (m->sig->uses_kwargs) {
        TRY(jj_dict_new(x, c->n_kw, &v));
        for (size_t i = 0; i < c->n_kw; i++)
            TRY(jj_dict_set(x, v.d, c->kw[i].key, c->kw[i].v));
        TRY(jj_scope_set(x, x->t->id_kwargs, v));
    } else if (c->n_kw) {
        struct jj_str *k = c->kw[0].key.s;
        return jj_fail(x, "have the keyword '%.*s' for the macro '%.60s', need one that it takes",
                       (int)(k->n < 60 ? k->n : 60), k->p, m->name.s->p);
    }
    if (m->sig->uses_varargs) {
        TRY(jj_list_new(x, JJ_TUPLE, 0, &v));
        for (size_t i = m->sig->n; i < c->n_pos; i++)
            TRY(jj_list_add(x, v, c->pos[i]));
        TRY(jj_scope_set(x, x->t->id_varargs, v));
    } else if (c->n_pos > m->sig->n) {
        return jj_fail(x, "have %zu arguments for the macro '%.60s', need at most %zu", c->n_pos, m->name.s->p,
                       m->sig->n);
    }
    return GLIM_OK;
}

/* Parameters in order, so that a default can read the ones before it. */
static glim_status bind_params(struct jj *x, struct jj_macro *m, struct jj_call *c)
{
    const struct jj_sig *s = m->sig;
    struct jj_val *v = jj_take(x, s->n * sizeof *v);
    if (!v)
        return jj_out_of(x);
    bool found_caller = s->explicit_caller && c->n_pos >= s->n;
    for (size_t i = 0; i < s->n; i++) {
        TRY(jj_work(x, 1 + c->n_kw));
        found_caller |= i >= c->n_pos && jj_is(s->name_str[i], "caller");
        v[i] = i < c->n_pos ? c->pos[i] : take_kw(c, s->name_str[i]);
    }
    if (s->uses_caller && !found_caller)
        TRY(bind_caller(x, c));
    TRY(bind_rest(x, m, c));
    for (size_t i = 0; i < s->n; i++) {
        if (v[i].type == JJ_MISSING && i + s->def.n >= s->n) {
            TRY(jj_eval(x, s->def.v[i + s->def.n - s->n], &v[i]));
        } else if (v[i].type == JJ_MISSING) {
            TRY(jj_undef_name(x, s->name_str[i], &v[i]));
            v[i].u->why = JJ_U_ARG;
        }
        TRY(jj_scope_set(x, s->name[i], v[i]));
    }
    return GLIM_OK;
}

glim_status jj_call_macro(struct jj *x, struct jj_macro *m, struct jj_call *c, struct jj_val *out)
{
    struct jj_buf b = {0}, *before = x->out;
    struct jj_scope *scope = x->scope;
    TRY(jj_scope_push(x, m->scope));
    glim_status st = bind_params(x, m, c);
    x->out = &b;
    if (st == GLIM_OK)
        st = jj_exec(x, m->body);
    x->out = before;
    x->scope = scope;
    return st == GLIM_OK ? jj_buf_done(x, &b, out) : st;
}

/* The call of a call block, with the block as its caller. */
static glim_status call_block(struct jj *x, const struct jj_node *n)
{
    struct jj_call c = {.n_kw = 0};
    struct jj_val f, caller, v, key;
    TRY(jj_eval(x, n->a->a, &f));
    TRY(jj_args_eval(x, n->a->args, 1, &c));
    TRY(make_macro(x, n, &caller));
    TRY(jj_str_z(x, "caller", &key));
    struct jj_val given = take_kw(&c, key);
    if (given.type != JJ_MISSING)
        return jj_fail(x, "have two values for 'caller', need one");
    struct jj_pair *kw = jj_take(x, (c.n_kw + 1) * sizeof *kw);
    if (!kw)
        return jj_out_of(x);
    if (c.n_kw)
        memcpy(kw, c.kw, c.n_kw * sizeof *kw);
    kw[c.n_kw++] = (struct jj_pair){key, caller};
    c.kw = kw;
    TRY(jj_call_value(x, f, &c, &v));
    return jj_print(x, x->out, v);
}

static glim_status generation(struct jj *x, const struct jj_node *n)
{
    struct jj_val v;
    TRY(capture(x, &n->block[0], x->scope, &v));
    return jj_print(x, x->out, v);
}

/* ---- loops ---- */

/* The next item that passes the loop's filter, which sees the item's names but not the loop's body. */
static glim_status next_passing(struct jj *x, struct jj_loop *l, bool *got, struct jj_val *out)
{
    struct jj_scope *scope = x->scope;
    for (;;) {
        struct jj_val test;
        TRY(jj_iter_next(x, &l->it, got, out));
        if (!*got || !l->node->c || l->drained)
            return GLIM_OK;
        TRY(jj_scope_push(x, l->scope));
        TRY(jj_assign(x, l->node->a, *out));
        TRY(jj_eval(x, l->node->c, &test));
        x->scope = scope;
        if (jj_true(test))
            return GLIM_OK;
    }
}

glim_status jj_loop_peek(struct jj *x, struct jj_loop *l)
{
    if (l->has_after)
        return GLIM_OK;
    return next_passing(x, l, &l->has_after, &l->after);
}

/* Where the items do not say how many they are, the rest is read into a list. */
glim_status jj_loop_length(struct jj *x, struct jj_loop *l)
{
    struct jj_val list, v;
    bool got = true;
    size_t n;
    if (l->length >= 0)
        return GLIM_OK;
    if (!l->node->c && l->it.of.type != JJ_ITER) {
        TRY(jj_len(x, l->it.of, &n));
        l->length = (int64_t)n;
        return GLIM_OK;
    }
    TRY(jj_list_new(x, JJ_ITER, 0, &list));
    while (got) {
        TRY(next_passing(x, l, &got, &v));
        if (got)
            TRY(jj_list_add(x, list, v));
    }
    l->length = (int64_t)list.l->n + l->index0 + 1 + l->has_after;
    l->drained = true;
    l->it = (struct jj_iter){.of = list};
    return GLIM_OK;
}

static glim_status loop_next(struct jj *x, struct jj_loop *l, bool *got)
{
    struct jj_val v = l->after;
    *got = l->has_after;
    if (!*got)
        TRY(next_passing(x, l, got, &v));
    l->has_after = false;
    if (!*got)
        return GLIM_OK;
    l->index0++;
    l->before = l->current;
    l->current = v;
    return GLIM_OK;
}

static glim_status loop_body(struct jj *x, struct jj_loop *l)
{
    struct jj_scope *scope = x->scope;
    TRY(jj_scope_push(x, l->scope));
    TRY(jj_scope_set(x, x->t->id_loop, (struct jj_val){.type = JJ_LOOP, .loop = l}));
    TRY(jj_assign(x, l->node->a, l->current));
    TRY(jj_exec(x, &l->node->block[0]));
    x->scope = scope;
    return GLIM_OK;
}

glim_status jj_loop_run(struct jj *x, const struct jj_node *n, struct jj_scope *around, struct jj_val of, int depth0)
{
    struct jj_loop *l = jj_take(x, sizeof *l);
    struct jj_scope *scope = x->scope;
    bool got, any = false;
    if (!l)
        return jj_out_of(x);
    *l = (struct jj_loop){.node = n, .scope = around, .index0 = -1, .length = -1, .depth0 = depth0};
    TRY(jj_iter_open(x, of, &l->it));
    while (x->flow != JJ_BREAK) {
        x->line = n->line;
        TRY(loop_next(x, l, &got));
        if (!got)
            break;
        TRY(loop_body(x, l));
        any |= x->flow == JJ_NEXT; /* an iteration that was cut short does not count for `else` */
        if (x->flow == JJ_CONTINUE)
            x->flow = JJ_NEXT;
    }
    x->flow = JJ_NEXT;
    if (any || n->block[1].n == 0)
        return GLIM_OK;
    TRY(jj_scope_push(x, around));
    TRY(jj_exec(x, &n->block[1]));
    x->scope = scope;
    return GLIM_OK;
}

static glim_status for_block(struct jj *x, const struct jj_node *n)
{
    struct jj_val of;
    TRY(jj_eval(x, n->b, &of));
    return jj_loop_run(x, n, x->scope, of, 0);
}

/* ---- the rest ---- */

static glim_status if_block(struct jj *x, const struct jj_node *n)
{
    struct jj_val test;
    for (size_t i = 0; i < n->kids.n; i++) {
        TRY(jj_eval(x, n->kids.v[i], &test));
        if (jj_true(test))
            return jj_exec(x, &n->block[i]);
    }
    return n->n_block > n->kids.n ? jj_exec(x, &n->block[n->kids.n]) : GLIM_OK;
}

static glim_status print(struct jj *x, const struct jj_node *n)
{
    struct jj_val v;
    for (size_t i = 0; i < n->kids.n; i++) {
        TRY(jj_eval(x, n->kids.v[i], &v));
        TRY(jj_print(x, x->out, v));
    }
    return GLIM_OK;
}

static glim_status set(struct jj *x, const struct jj_node *n)
{
    struct jj_val v;
    TRY(jj_eval(x, n->b, &v));
    return jj_assign(x, n->a, v);
}

static glim_status exec_one(struct jj *x, const struct jj_node *n)
{
    struct jj_val v;
    switch ((enum jj_kind)n->kind) {
    case JJ_S_DATA:
        return jj_buf_str(x, x->out, n->value.s);
    case JJ_S_PRINT:
        return print(x, n);
    case JJ_S_IF:
        return if_block(x, n);
    case JJ_S_FOR:
        return for_block(x, n);
    case JJ_S_SET:
        return set(x, n);
    case JJ_S_SETBLOCK:
        return set_block(x, n);
    case JJ_S_WITH:
        return with_block(x, n);
    case JJ_S_MACRO:
        TRY(make_macro(x, n, &v));
        return jj_scope_set(x, n->name, v);
    case JJ_S_CALL:
        return call_block(x, n);
    case JJ_S_FILTER:
        return filter_block(x, n);
    case JJ_S_GENERATION:
        return generation(x, n);
    case JJ_S_BREAK:
        x->flow = JJ_BREAK;
        return GLIM_OK;
    case JJ_S_CONTINUE:
        x->flow = JJ_CONTINUE;
        return GLIM_OK;
    case JJ_E_CONST:
    case JJ_E_NAME:
    case JJ_E_TUPLE:
    case JJ_E_LIST:
    case JJ_E_DICT:
    case JJ_E_COND:
    case JJ_E_AND:
    case JJ_E_OR:
    case JJ_E_NOT:
    case JJ_E_NEG:
    case JJ_E_POS:
    case JJ_E_BIN:
    case JJ_E_CONCAT:
    case JJ_E_CMP:
    case JJ_E_ATTR:
    case JJ_E_ITEM:
    case JJ_E_SLICE:
    case JJ_E_CALL:
    case JJ_E_FILTER:
    case JJ_E_TEST:
    case JJ_E_NSREF:
        break;
    }
    return jj_fail(x, "have an expression where a statement stands, need a statement");
}

glim_status jj_exec(struct jj *x, const struct jj_nodes *body)
{
    TRY(jj_enter(x));
    for (size_t i = 0; i < body->n && x->flow == JJ_NEXT; i++) {
        TRY(jj_work(x, 1));
        x->line = body->v[i]->line;
        TRY(exec_one(x, body->v[i]));
    }
    x->depth--;
    return GLIM_OK;
}
