/* Attributes of values, methods of everything but strings, and the global functions. */
#include "text/jinja_impl.h"

/* ---- lists, tuples, ranges ---- */

static glim_status m_list_count(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->self.l->n; i++) {
        bool same;
        TRY(jj_eq(x, c->self.l->v[i], c->arg[0], &same));
        n += same;
    }
    *out = jj_int(n);
    return GLIM_OK;
}

static glim_status m_list_index(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    int64_t n = (int64_t)c->self.l->n, from, to;
    TRY(jj_arg_int(x, c->arg[1], 0, &from));
    TRY(jj_arg_int(x, c->arg[2], n, &to));
    from = from < 0 ? (from + n < 0 ? 0 : from + n) : from;
    to = to < 0 ? to + n : to > n ? n : to;
    for (int64_t i = from; i < to; i++) {
        bool same;
        TRY(jj_eq(x, c->self.l->v[i], c->arg[0], &same));
        if (same) {
            *out = jj_int(i);
            return GLIM_OK;
        }
    }
    return jj_fail(x, "have a list without the value asked for, need one with it");
}

static glim_status m_copy(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    *out = c->self; /* nothing can change it, so it can be shared */
    return GLIM_OK;
}

const struct jj_fn jj_list_methods[] = {
    {"copy", m_copy, "/", 0},
    {"count", m_list_count, "/ value", 1},
    {"index", m_list_index, "/ value start stop", 1},
    {"append", NULL, "!", 0},
    {"clear", NULL, "!", 0},
    {"extend", NULL, "!", 0},
    {"insert", NULL, "!", 0},
    {"pop", NULL, "!", 0},
    {"remove", NULL, "!", 0},
    {"reverse", NULL, "!", 0},
    {"sort", NULL, "!", 0},
    {NULL, NULL, NULL, 0},
};

const struct jj_fn jj_tuple_methods[] = {
    {"count", m_list_count, "/ value", 1},
    {"index", m_list_index, "/ value start stop", 1},
    {NULL, NULL, NULL, 0},
};

/* ---- dicts ---- */

enum view { KEYS, VALUES, ITEMS };

static glim_status view(struct jj *x, struct jj_dict *d, enum view what, struct jj_val *out)
{
    static const char *const name[] = {"dict_keys", "dict_values", "dict_items"};
    TRY(jj_work(x, d->n));
    TRY(jj_list_new(x, JJ_VIEW, d->n, out));
    out->l->name = name[what];
    for (size_t i = 0; i < d->n; i++) {
        struct jj_val *v = &out->l->v[out->l->n++];
        if (what == ITEMS)
            TRY(jj_tuple2(x, d->p[i].key, d->p[i].v, v));
        else
            *v = what == KEYS ? d->p[i].key : d->p[i].v;
    }
    return GLIM_OK;
}

static glim_status m_keys(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return view(x, c->self.d, KEYS, out);
}

static glim_status m_values(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return view(x, c->self.d, VALUES, out);
}

static glim_status m_items(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return view(x, c->self.d, ITEMS, out);
}

static glim_status m_get(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val *v;
    TRY(jj_dict_get(x, c->self.d, c->arg[0], &v));
    *out = v ? *v : c->arg[1].type == JJ_MISSING ? jj_none() : c->arg[1];
    return GLIM_OK;
}

const struct jj_fn jj_dict_methods[] = {
    {"copy", m_copy, "/", 0},     {"get", m_get, "/ key default", 1},
    {"items", m_items, "/", 0},   {"keys", m_keys, "/", 0},
    {"values", m_values, "/", 0}, {"clear", NULL, "!", 0},
    {"pop", NULL, "!", 0},        {"popitem", NULL, "!", 0},
    {"setdefault", NULL, "!", 0}, {"update", NULL, "!", 0},
    JJ_REFUSE("fromkeys"),        {NULL, NULL, NULL, 0},
};

/* ---- loop, cycler, joiner ---- */

static glim_status m_cycle(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    if (c->n_pos == 0)
        return jj_fail(x, "have loop.cycle without items, need some");
    *out = c->pos[(size_t)c->self.loop->index0 % c->n_pos];
    return GLIM_OK;
}

static glim_status m_changed(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val now;
    bool same = false;
    TRY(jj_list_new(x, JJ_TUPLE, c->n_pos, &now));
    for (size_t i = 0; i < c->n_pos; i++)
        now.l->v[now.l->n++] = c->pos[i];
    if (c->self.loop->changed.type != JJ_MISSING)
        TRY(jj_eq(x, c->self.loop->changed, now, &same));
    c->self.loop->changed = now;
    *out = jj_bool(!same);
    return GLIM_OK;
}

const struct jj_fn jj_loop_methods[] = {
    {"changed", m_changed, "*", 0},
    {"cycle", m_cycle, "*", 0},
    {NULL, NULL, NULL, 0},
};

static glim_status m_next(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_cycle *k = c->self.cycle;
    (void)x;
    *out = k->items->v[k->at];
    k->at = (k->at + 1) % k->items->n;
    return GLIM_OK;
}

static glim_status m_reset(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    c->self.cycle->at = 0;
    *out = jj_none();
    return GLIM_OK;
}

const struct jj_fn jj_cycler_methods[] = {
    {"next", m_next, "/", 0},
    {"reset", m_reset, "/", 0},
    {NULL, NULL, NULL, 0},
};

/* What numbers have in Python. */
const struct jj_fn jj_other_attrs[] = {
    JJ_REFUSE("as_integer_ratio"), JJ_REFUSE("bit_count"),   JJ_REFUSE("bit_length"),
    JJ_REFUSE("conjugate"),        JJ_REFUSE("denominator"), JJ_REFUSE("from_bytes"),
    JJ_REFUSE("fromhex"),          JJ_REFUSE("hex"),         JJ_REFUSE("imag"),
    JJ_REFUSE("is_integer"),       JJ_REFUSE("numerator"),   JJ_REFUSE("real"),
    JJ_REFUSE("to_bytes"),         {NULL, NULL, NULL, 0},
};

/* ---- attributes ---- */

static glim_status loop_field(struct jj *x, struct jj_loop *l, const char *name, bool *found, struct jj_val *out)
{
    *found = true;
    if (strcmp(name, "index") == 0)
        *out = jj_int(l->index0 + 1);
    else if (strcmp(name, "index0") == 0)
        *out = jj_int(l->index0);
    else if (strcmp(name, "first") == 0)
        *out = jj_bool(l->index0 == 0);
    else if (strcmp(name, "depth") == 0)
        *out = jj_int(l->depth0 + 1);
    else if (strcmp(name, "depth0") == 0)
        *out = jj_int(l->depth0);
    else if (strcmp(name, "last") == 0 || strcmp(name, "nextitem") == 0) {
        TRY(jj_loop_peek(x, l));
        if (name[0] == 'l')
            *out = jj_bool(!l->has_after);
        else if (l->has_after)
            *out = l->after;
        else
            return jj_undef_hint(x, "there is no next item", out);
    } else if (strcmp(name, "previtem") == 0) {
        if (l->index0 == 0)
            return jj_undef_hint(x, "there is no previous item", out);
        *out = l->before;
    } else if (strcmp(name, "length") == 0 || strcmp(name, "revindex") == 0 || strcmp(name, "revindex0") == 0) {
        TRY(jj_loop_length(x, l));
        int64_t off = name[0] == 'l' ? 0 : name[8] ? l->index0 + 1 : l->index0;
        *out = jj_int(l->length - off);
    } else {
        *found = false;
    }
    return GLIM_OK;
}

static glim_status cycle_field(struct jj_val obj, const char *name, bool *found, struct jj_val *out)
{
    struct jj_cycle *k = obj.cycle;
    *found = true;
    if (obj.type == JJ_CYCLER && strcmp(name, "current") == 0)
        *out = k->items->v[k->at];
    else if (obj.type == JJ_CYCLER && strcmp(name, "pos") == 0)
        *out = jj_int((int64_t)k->at);
    else if (obj.type == JJ_CYCLER && strcmp(name, "items") == 0)
        *out = (struct jj_val){.type = JJ_TUPLE, .l = k->items};
    else if (obj.type == JJ_JOINER && strcmp(name, "sep") == 0)
        *out = k->items->v[0];
    else if (obj.type == JJ_JOINER && strcmp(name, "used") == 0)
        *out = jj_bool(k->at > 0);
    else
        *found = false;
    return GLIM_OK;
}

static glim_status macro_field(struct jj *x, struct jj_macro *m, const char *name, bool *found, struct jj_val *out)
{
    *found = true;
    if (strcmp(name, "name") == 0)
        *out = m->name;
    else if (strcmp(name, "caller") == 0)
        *out = jj_bool(m->sig->uses_caller);
    else if (strcmp(name, "catch_kwargs") == 0)
        *out = jj_bool(m->sig->uses_kwargs);
    else if (strcmp(name, "catch_varargs") == 0)
        *out = jj_bool(m->sig->uses_varargs);
    else if (strcmp(name, "explicit_caller") == 0)
        *out = jj_bool(m->sig->explicit_caller);
    else if (strcmp(name, "arguments") == 0) {
        TRY(jj_list_new(x, JJ_TUPLE, m->sig->n, out));
        for (size_t i = 0; i < m->sig->n; i++)
            out->l->v[out->l->n++] = m->sig->name_str[i];
    } else {
        *found = false;
    }
    return GLIM_OK;
}

static glim_status tuple_field(struct jj_list *l, const char *name, bool *found, struct jj_val *out)
{
    bool group = l->name != NULL;
    *found = group && (strcmp(name, "grouper") == 0 || strcmp(name, "list") == 0);
    if (*found)
        *out = l->v[name[0] == 'l'];
    return GLIM_OK;
}

static glim_status range_field(struct jj_list *l, const char *name, bool *found, struct jj_val *out)
{
    *found = true;
    if (strcmp(name, "start") == 0)
        *out = jj_int(l->start);
    else if (strcmp(name, "stop") == 0)
        *out = jj_int(l->stop);
    else if (strcmp(name, "step") == 0)
        *out = jj_int(l->step);
    else
        *found = false;
    return GLIM_OK;
}

static glim_status ns_field(struct jj *x, struct jj_dict *d, const char *name, size_t n, bool *found,
                            struct jj_val *out)
{
    struct jj_val key, *v;
    struct jj_str s = {.p = name, .n = n};
    key = (struct jj_val){.type = JJ_STR, .s = &s};
    TRY(jj_dict_get(x, d, key, &v));
    *found = v != NULL;
    if (v)
        *out = *v;
    return GLIM_OK;
}

/* Plain fields; methods are looked up in tables. */
static glim_status field(struct jj *x, struct jj_val obj, const char *name, bool *found, struct jj_val *out)
{
    switch (obj.type) {
    case JJ_LOOP:
        return loop_field(x, obj.loop, name, found, out);
    case JJ_CYCLER:
    case JJ_JOINER:
        return cycle_field(obj, name, found, out);
    case JJ_MACRO:
        return macro_field(x, obj.m, name, found, out);
    case JJ_TUPLE:
        return tuple_field(obj.l, name, found, out);
    case JJ_RANGE:
        return range_field(obj.l, name, found, out);
    default:
        *found = false;
        return GLIM_OK;
    }
}

static const struct jj_fn *methods_of(struct jj_val v)
{
    switch ((enum jj_type)v.type) {
    case JJ_STR:
        return jj_str_methods;
    case JJ_LIST:
        return jj_list_methods;
    case JJ_TUPLE:
    case JJ_RANGE:
        return jj_tuple_methods;
    case JJ_DICT:
        return jj_dict_methods;
    case JJ_LOOP:
        return jj_loop_methods;
    case JJ_CYCLER:
        return jj_cycler_methods;
    case JJ_BOOL:
    case JJ_INT:
    case JJ_FLOAT:
        return jj_other_attrs;
    case JJ_MISSING:
    case JJ_UNDEF:
    case JJ_NONE:
    case JJ_VIEW:
    case JJ_ITER:
    case JJ_NS:
    case JJ_MACRO:
    case JJ_FUNC:
    case JJ_METHOD:
    case JJ_JOINER:
        break;
    }
    return NULL;
}

static glim_status unsafe(struct jj *x, struct jj_val obj, const char *name, size_t n, struct jj_val *out)
{
    struct jj_val key;
    TRY(jj_str_ref(x, name, n, false, &key));
    TRY(jj_undef_attr(x, obj, key, out));
    out->u->why = JJ_U_UNSAFE;
    return GLIM_OK;
}

glim_status jj_pyattr(struct jj *x, struct jj_val obj, const char *name, size_t n, bool *found, struct jj_val *out)
{
    char z[24];
    *found = false;
    if (obj.type == JJ_NS)
        return ns_field(x, obj.d, name, n, found, out);
    if (n > 4 && memcmp(name, "__", 2) == 0 && memcmp(name + n - 2, "__", 2) == 0) {
        *found = true;
        return unsafe(x, obj, name, n, out);
    }
    if (n == 0 || n >= sizeof z)
        return GLIM_OK;
    memcpy(z, name, n);
    z[n] = 0;
    TRY(field(x, obj, z, found, out));
    const struct jj_fn *table = *found ? NULL : methods_of(obj), *fn = table ? jj_fn_find(table, name, n) : NULL;
    if (!fn)
        return GLIM_OK;
    *found = true;
    if (!fn->fn && fn->params[0] == '!')
        return unsafe(x, obj, name, n, out);
    if (!fn->fn)
        return jj_fail(x, "have .%s of a value of type '%s', need an attribute that is implemented", z,
                       jj_type_name(obj));
    struct jj_method *m = jj_take(x, sizeof *m);
    if (!m)
        return jj_out_of(x);
    *m = (struct jj_method){obj, fn};
    *out = (struct jj_val){.type = JJ_METHOD, .method = m};
    return GLIM_OK;
}

/* ---- global functions ---- */

enum { MAX_RANGE = 100000 }; /* as Jinja2's sandbox */

static glim_status g_range(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    int64_t a = 0, b, step = 1;
    uint64_t n = 0;
    TRY(jj_arg_int(x, c->arg[0], 0, &b));
    if (c->arg[1].type != JJ_MISSING) {
        a = b;
        TRY(jj_arg_int(x, c->arg[1], 0, &b));
    }
    TRY(jj_arg_int(x, c->arg[2], 1, &step));
    if (step == 0)
        return jj_fail(x, "have a range of step 0, need another");
    if (step > 0 ? a < b : a > b) {
        uint64_t gap = step > 0 ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
        n = (gap - 1) / (step > 0 ? (uint64_t)step : -(uint64_t)step) + 1;
    }
    if (n > MAX_RANGE)
        return jj_fail(x, "have a range of %llu numbers, need at most %d", (unsigned long long)n, MAX_RANGE);
    TRY(jj_work(x, (size_t)n / 4));
    TRY(jj_list_new(x, JJ_RANGE, (size_t)n, out));
    for (uint64_t i = 0; i < n; i++)
        out->l->v[i] = jj_int(a + (int64_t)i * step);
    out->l->n = (size_t)n;
    out->l->start = a;
    out->l->stop = b;
    out->l->step = step;
    return GLIM_OK;
}

/* dict(pairs or dict, **more) */
static glim_status make_dict(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_iter it;
    struct jj_val pair, list;
    bool got;
    TRY(jj_dict_new(x, c->n_kw, out));
    if (c->n_pos > 1)
        return jj_fail(x, "have %zu arguments for dict, need at most one", c->n_pos);
    if (c->n_pos && (c->pos[0].type == JJ_DICT || c->pos[0].type == JJ_NS)) {
        for (size_t i = 0; i < c->pos[0].d->n; i++)
            TRY(jj_dict_set(x, out->d, c->pos[0].d->p[i].key, c->pos[0].d->p[i].v));
    } else if (c->n_pos) {
        TRY(jj_iter_open(x, c->pos[0], &it));
        for (;;) {
            TRY(jj_iter_next(x, &it, &got, &pair));
            if (!got)
                break;
            TRY(jj_to_list(x, pair, &list));
            if (list.l->n != 2)
                return jj_fail(x, "have %zu values for a pair of a dict, need 2", list.l->n);
            TRY(jj_dict_set(x, out->d, list.l->v[0], list.l->v[1]));
        }
    }
    for (size_t i = 0; i < c->n_kw; i++)
        TRY(jj_dict_set(x, out->d, c->kw[i].key, c->kw[i].v));
    return GLIM_OK;
}

static glim_status g_dict(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return make_dict(x, c, out);
}

static glim_status g_namespace(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    TRY(make_dict(x, c, out));
    out->type = JJ_NS;
    return GLIM_OK;
}

static glim_status cycle_new(struct jj *x, enum jj_type t, const struct jj_val *items, size_t n, struct jj_val *out)
{
    struct jj_val l;
    struct jj_cycle *k = jj_take(x, sizeof *k);
    if (!k)
        return jj_out_of(x);
    TRY(jj_list_new(x, JJ_LIST, n, &l));
    memcpy(l.l->v, items, n * sizeof *items);
    l.l->n = n;
    *k = (struct jj_cycle){.items = l.l};
    *out = (struct jj_val){.type = (uint8_t)t, .cycle = k};
    return GLIM_OK;
}

static glim_status g_cycler(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    if (c->n_pos == 0 || c->n_kw)
        return jj_fail(x, "have a cycler without items, need at least one");
    return cycle_new(x, JJ_CYCLER, c->pos, c->n_pos, out);
}

static glim_status g_joiner(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val sep = c->arg[0];
    if (sep.type == JJ_MISSING)
        TRY(jj_str_z(x, ", ", &sep));
    return cycle_new(x, JJ_JOINER, &sep, 1, out);
}

static glim_status g_raise_exception(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s;
    (void)out;
    TRY(jj_text_arg(x, c->arg[0], &s));
    return jj_fail(x, "have what the template refuses (%.*s), need another conversation",
                   (int)(s->n < 280 ? s->n : 280), s->p);
}

static glim_status g_strftime_now(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    if (c->arg[0].type != JJ_STR)
        return jj_fail(x, "have '%s' for strftime_now, need text", jj_type_name(c->arg[0]));
    return jj_strftime(x, c->arg[0].s, out);
}

const struct jj_fn jj_globals[] = {
    {"cycler", g_cycler, "*", 0},
    {"dict", g_dict, "*", 0},
    {"joiner", g_joiner, "sep", 0},
    {"namespace", g_namespace, "*", 0},
    {"raise_exception", g_raise_exception, "message", 1},
    {"range", g_range, "/ start stop step", 1},
    {"strftime_now", g_strftime_now, "format", 1},
    JJ_REFUSE("lipsum"),
    {NULL, NULL, NULL, 0},
};
