/* Filters of sequences. Those that Jinja2 writes as generators give a JJ_ITER: true even when empty, without a length,
 * to be walked once. */
#include "text/jinja_impl.h"

#include <stdlib.h>

/* ---- attributes of items ---- */

/* "a.b.0" or 3: where to look in each item. NULL path: the item itself. */
struct getter {
    struct jj_val *part;
    size_t n;
    struct jj_val def; /* JJ_MISSING: none */
    bool fold;         /* text in lower case, so that sorting ignores case */
};

static bool all_digits(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9')
            return false;
    return n > 0 && n < 18;
}

static glim_status add_part(struct jj *x, struct getter *g, const struct jj_str *s, size_t from, size_t to)
{
    char digits[24];
    struct jj_val *p = &g->part[g->n++];
    if (!all_digits(s->p + from, to - from))
        return jj_str_sub(x, s, from, to, p);
    memcpy(digits, s->p + from, to - from);
    digits[to - from] = 0;
    *p = jj_int(strtoll(digits, NULL, 10));
    return GLIM_OK;
}

static glim_status getter_of(struct jj *x, struct jj_val attr, bool fold, struct getter *g)
{
    *g = (struct getter){.fold = fold, .def = {.type = JJ_MISSING}};
    if (attr.type == JJ_MISSING || attr.type == JJ_NONE)
        return GLIM_OK;
    size_t n = 1;
    for (size_t i = 0; attr.type == JJ_STR && i < attr.s->n; i++)
        n += attr.s->p[i] == '.';
    g->part = jj_take(x, n * sizeof *g->part);
    if (!g->part)
        return jj_out_of(x);
    if (attr.type != JJ_STR) {
        g->part[g->n++] = attr;
        return GLIM_OK;
    }
    for (size_t from = 0, i = 0; i <= attr.s->n; i++)
        if (i == attr.s->n || attr.s->p[i] == '.') {
            TRY(add_part(x, g, attr.s, from, i));
            from = i + 1;
        }
    return GLIM_OK;
}

static glim_status get(struct jj *x, const struct getter *g, struct jj_val item, struct jj_val *out)
{
    *out = item;
    for (size_t i = 0; i < g->n; i++) {
        TRY(jj_getitem(x, *out, g->part[i], out));
        if (out->type == JJ_UNDEF && g->def.type != JJ_MISSING)
            *out = g->def;
    }
    if (g->fold && out->type == JJ_STR)
        return jj_recase(x, out->s, JJ_LOWER, out);
    return GLIM_OK;
}

/* ---- sorting ---- */

struct sorting {
    struct jj_val *key; /* lists of keys when there are several attributes */
    size_t *order, *tmp;
    bool reverse;
};

/* Stable merge sort of positions a..b; Python's reverse keeps equal items in their order too. */
static glim_status merge(struct jj *x, struct sorting *s, size_t a, size_t b)
{
    if (b - a < 2)
        return GLIM_OK;
    size_t mid = a + (b - a) / 2, i = a, k = mid, o = a;
    TRY(merge(x, s, a, mid));
    TRY(merge(x, s, mid, b));
    while (i < mid && k < b) {
        bool right;
        struct jj_val l = s->key[s->order[i]], r = s->key[s->order[k]];
        TRY(s->reverse ? jj_order(x, JJ_LT, l, r, &right) : jj_order(x, JJ_LT, r, l, &right));
        s->tmp[o++] = right ? s->order[k++] : s->order[i++];
    }
    while (i < mid)
        s->tmp[o++] = s->order[i++];
    while (k < b)
        s->tmp[o++] = s->order[k++];
    memcpy(s->order + a, s->tmp + a, (b - a) * sizeof *s->order);
    return jj_work(x, b - a);
}

/* items in the order of keys. */
static glim_status sort_by(struct jj *x, const struct jj_list *items, struct jj_val *key, bool reverse,
                           struct jj_val *out)
{
    size_t n = items->n;
    struct sorting s = {.key = key, .reverse = reverse};
    s.order = jj_take(x, (n + 1) * sizeof *s.order);
    s.tmp = jj_take(x, (n + 1) * sizeof *s.tmp);
    if (!s.order || !s.tmp)
        return jj_out_of(x);
    for (size_t i = 0; i < n; i++)
        s.order[i] = i;
    TRY(merge(x, &s, 0, n));
    TRY(jj_list_new(x, JJ_LIST, n, out));
    for (size_t i = 0; i < n; i++)
        out->l->v[i] = items->v[s.order[i]];
    out->l->n = n;
    return GLIM_OK;
}

/* n_g = 0: the plain value of g; else lists of n_g values, as `sort` compares (two undefined values are equal there).
 */
static glim_status keys_of(struct jj *x, const struct jj_list *items, const struct getter *g, size_t n_g,
                           struct jj_val **out)
{
    *out = jj_take(x, (items->n + 1) * sizeof **out);
    if (!*out)
        return jj_out_of(x);
    for (size_t i = 0; i < items->n; i++) {
        struct jj_val *k = &(*out)[i];
        TRY(jj_work(x, 1));
        if (n_g == 0) {
            TRY(get(x, g, items->v[i], k));
            continue;
        }
        TRY(jj_list_new(x, JJ_LIST, n_g, k));
        for (size_t j = 0; j < n_g; j++)
            TRY(get(x, &g[j], items->v[i], &k->l->v[k->l->n++]));
    }
    return GLIM_OK;
}

/* attribute "a,b" sorts by several keys. */
static glim_status getters(struct jj *x, struct jj_val attr, bool fold, struct getter *g, size_t max, size_t *n)
{
    *n = 0;
    if (attr.type != JJ_STR) {
        *n = 1;
        return getter_of(x, attr, fold, &g[0]);
    }
    for (size_t from = 0, i = 0; i <= attr.s->n; i++)
        if (i == attr.s->n || attr.s->p[i] == ',') {
            struct jj_val part;
            if (*n == max)
                return jj_fail(x, "have more than %zu attributes to sort by, need fewer", max);
            TRY(jj_str_sub(x, attr.s, from, i, &part));
            TRY(getter_of(x, part, fold, &g[(*n)++]));
            from = i + 1;
        }
    return GLIM_OK;
}

static glim_status f_sort(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct getter g[8];
    struct jj_val list, *key;
    size_t n;
    TRY(getters(x, c->arg[2], !jj_arg_true(c->arg[1], false), g, 8, &n));
    TRY(jj_to_list(x, c->self, &list));
    TRY(keys_of(x, list.l, g, n, &key));
    return sort_by(x, list.l, key, jj_arg_true(c->arg[0], false), out);
}

static glim_status f_dictsort(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_call items = {.self = c->self};
    struct jj_val list, *key;
    struct getter g;
    bool by_value = jj_is(c->arg[1], "value");
    if (c->arg[1].type != JJ_MISSING && !by_value && !jj_is(c->arg[1], "key"))
        return jj_fail(x, "have another order for dictsort, need key or value");
    if (c->self.type == JJ_UNDEF)
        return jj_undef_fail(x, c->self);
    if (c->self.type != JJ_DICT)
        return jj_fail(x, "have '%s' for dictsort, need a dict", jj_type_name(c->self));
    TRY(jj_fn_find(jj_dict_methods, "items", 5)->fn(x, &items, &list));
    TRY(getter_of(x, jj_int(by_value), !jj_arg_true(c->arg[0], false), &g));
    TRY(keys_of(x, list.l, &g, 0, &key));
    return sort_by(x, list.l, key, jj_arg_true(c->arg[2], false), out);
}

static glim_status f_groupby(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct getter g, plain;
    struct jj_val list, sorted, *key;
    bool fold = !jj_arg_true(c->arg[2], false);
    TRY(getter_of(x, c->arg[0], fold, &g));
    g.def = c->arg[1].type == JJ_NONE ? g.def : c->arg[1];
    plain = g;
    plain.fold = false;
    TRY(jj_to_list(x, c->self, &list));
    TRY(keys_of(x, list.l, &g, 0, &key));
    TRY(sort_by(x, list.l, key, false, &sorted));
    TRY(keys_of(x, sorted.l, &g, 0, &key));
    TRY(jj_list_new(x, JJ_LIST, 0, out));
    for (size_t i = 0, from = 0; i < sorted.l->n; i++) {
        bool same = false;
        struct jj_val group, pair, name;
        if (i + 1 < sorted.l->n)
            TRY(jj_eq(x, key[i], key[i + 1], &same));
        if (same)
            continue;
        TRY(jj_list_new(x, JJ_LIST, i + 1 - from, &group));
        for (size_t k = from; k <= i; k++)
            group.l->v[group.l->n++] = sorted.l->v[k];
        TRY(get(x, &plain, sorted.l->v[from], &name));
        TRY(jj_tuple2(x, name, group, &pair));
        pair.l->name = "group";
        TRY(jj_list_add(x, *out, pair));
        from = i + 1;
    }
    return GLIM_OK;
}

static glim_status f_unique(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct getter g;
    struct jj_val list, seen, key, *old;
    TRY(getter_of(x, c->arg[1], !jj_arg_true(c->arg[0], false), &g));
    TRY(jj_to_list(x, c->self, &list));
    TRY(jj_dict_new(x, 0, &seen));
    TRY(jj_list_new(x, JJ_ITER, 0, out));
    for (size_t i = 0; i < list.l->n; i++) {
        TRY(get(x, &g, list.l->v[i], &key));
        TRY(jj_dict_get(x, seen.d, key, &old));
        if (old)
            continue;
        TRY(jj_dict_set(x, seen.d, key, jj_none()));
        TRY(jj_list_add(x, *out, list.l->v[i]));
    }
    return GLIM_OK;
}

static glim_status extreme(struct jj *x, struct jj_call *c, enum jj_cmp op, struct jj_val *out)
{
    struct getter g;
    struct jj_val list, *key;
    size_t best = 0;
    TRY(getter_of(x, c->arg[1], !jj_arg_true(c->arg[0], false), &g));
    TRY(jj_to_list(x, c->self, &list));
    if (list.l->n == 0)
        return jj_undef_hint(x, "No aggregated item, sequence was empty.", out);
    TRY(keys_of(x, list.l, &g, 0, &key));
    for (size_t i = 1; i < list.l->n; i++) {
        bool better;
        TRY(jj_order(x, op, key[i], key[best], &better));
        best = better ? i : best;
    }
    *out = list.l->v[best];
    return GLIM_OK;
}

static glim_status f_min(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return extreme(x, c, JJ_LT, out);
}

static glim_status f_max(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return extreme(x, c, JJ_GT, out);
}

static glim_status f_sum(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct getter g;
    struct jj_val list, v;
    TRY(getter_of(x, c->arg[0], false, &g));
    *out = c->arg[1].type == JJ_MISSING ? jj_int(0) : c->arg[1];
    if (out->type == JJ_STR)
        return jj_fail(x, "have a sum of texts, need numbers or lists (or join)");
    TRY(jj_to_list(x, c->self, &list));
    for (size_t i = 0; i < list.l->n; i++) {
        TRY(get(x, &g, list.l->v[i], &v));
        TRY(jj_binary(x, JJ_ADD, *out, v, out));
    }
    return GLIM_OK;
}

/* ---- map, select ---- */

/* The arguments of a filter or test that another filter applies: those from `skip` on. */
static struct jj_call inner_call(const struct jj_call *c, size_t skip, struct jj_val self)
{
    struct jj_call in = {.self = self, .pos = c->pos + skip, .n_pos = c->n_pos - skip, .kw = c->kw, .n_kw = c->n_kw};
    return in;
}

static glim_status named(struct jj *x, struct jj_val name, bool filter, const struct jj_fn **fn)
{
    *fn = NULL;
    if (name.type == JJ_STR)
        *fn = filter ? jj_filter_find(name.s->p, name.s->n) : jj_fn_find(jj_tests, name.s->p, name.s->n);
    if (*fn)
        return GLIM_OK;
    struct jj_str *s;
    TRY(jj_text_arg(x, name, &s));
    return jj_fail(x, "have the %s '%.*s', need one that is implemented", filter ? "filter" : "test",
                   (int)(s->n < 60 ? s->n : 60), s->p);
}

static glim_status map_attribute(struct jj *x, struct jj_call *c, struct jj_val list, struct jj_val *out)
{
    struct getter g;
    struct jj_val attr = {.type = JJ_MISSING}, def = attr;
    for (size_t i = 0; i < c->n_kw; i++) {
        if (jj_is(c->kw[i].key, "attribute"))
            attr = c->kw[i].v;
        else if (jj_is(c->kw[i].key, "default"))
            def = c->kw[i].v;
        else
            return jj_fail(x, "have another keyword for map, need attribute and default");
    }
    if (attr.type == JJ_MISSING)
        return jj_fail(x, "have map without a filter, need its name or attribute=");
    TRY(getter_of(x, attr, false, &g));
    g.def = def.type == JJ_NONE ? g.def : def;
    for (size_t i = 0; i < list.l->n; i++)
        TRY(get(x, &g, list.l->v[i], &out->l->v[out->l->n++]));
    return GLIM_OK;
}

static glim_status f_map(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val list;
    const struct jj_fn *fn;
    TRY(jj_list_new(x, JJ_ITER, 0, out));
    if (!jj_true(c->self))
        return GLIM_OK;
    TRY(jj_to_list(x, c->self, &list));
    TRY(jj_list_new(x, JJ_ITER, list.l->n, out));
    if (c->n_pos == 0)
        return map_attribute(x, c, list, out);
    TRY(named(x, c->pos[0], true, &fn));
    for (size_t i = 0; i < list.l->n; i++) {
        struct jj_call in = inner_call(c, 1, list.l->v[i]);
        TRY(jj_enter(x));
        TRY(jj_call_fn(x, fn, "filter", &in, &out->l->v[out->l->n++]));
        x->depth--;
    }
    return GLIM_OK;
}

static glim_status select_items(struct jj *x, struct jj_call *c, bool attr, bool want, struct jj_val *out)
{
    struct jj_val list, v, yes;
    struct getter g = {.def = {.type = JJ_MISSING}};
    const struct jj_fn *fn = NULL;
    size_t skip = attr;
    TRY(jj_list_new(x, JJ_ITER, 0, out));
    if (!jj_true(c->self))
        return GLIM_OK;
    if (attr && c->n_pos == 0)
        return jj_fail(x, "have no attribute to select by, need its name");
    if (attr)
        TRY(getter_of(x, c->pos[0], false, &g));
    if (c->n_pos > skip)
        TRY(named(x, c->pos[skip++], false, &fn));
    TRY(jj_to_list(x, c->self, &list));
    for (size_t i = 0; i < list.l->n; i++) {
        TRY(jj_work(x, 1));
        TRY(get(x, &g, list.l->v[i], &v));
        yes = v;
        if (fn) {
            struct jj_call in = inner_call(c, skip, v);
            TRY(jj_call_fn(x, fn, "test", &in, &yes));
        }
        if (jj_true(yes) == want)
            TRY(jj_list_add(x, *out, list.l->v[i]));
    }
    return GLIM_OK;
}

static glim_status f_select(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return select_items(x, c, false, true, out);
}

static glim_status f_reject(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return select_items(x, c, false, false, out);
}

static glim_status f_selectattr(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return select_items(x, c, true, true, out);
}

static glim_status f_rejectattr(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return select_items(x, c, true, false, out);
}

/* ---- parts and lengths ---- */

static glim_status f_length(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    size_t n;
    TRY(jj_len(x, c->self, &n));
    *out = jj_int((int64_t)n);
    return GLIM_OK;
}

static glim_status f_list(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_to_list(x, c->self, out);
}

static glim_status f_first(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_iter it;
    bool got;
    TRY(jj_iter_open(x, c->self, &it));
    TRY(jj_iter_next(x, &it, &got, out));
    return got ? GLIM_OK : jj_undef_hint(x, "No first item, sequence was empty.", out);
}

static glim_status need_reversible(struct jj *x, struct jj_val v)
{
    if (v.type == JJ_UNDEF || v.type == JJ_STR || v.type == JJ_DICT || v.type == JJ_VIEW || jj_is_seq(v))
        return GLIM_OK;
    return jj_fail(x, "have the last of a value of type '%s', need a list (or |list)", jj_type_name(v));
}

static glim_status f_last(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val list = c->self;
    TRY(need_reversible(x, list));
    if (list.type == JJ_STR && list.s->n) {
        size_t n;
        TRY(jj_len(x, list, &n));
        return jj_getitem(x, list, jj_int((int64_t)n - 1), out);
    }
    if (!jj_is_seq(list))
        TRY(jj_to_list(x, list, &list));
    if (list.l->n == 0)
        return jj_undef_hint(x, "No last item, sequence was empty.", out);
    *out = list.l->v[list.l->n - 1];
    return GLIM_OK;
}

static glim_status f_reverse(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val list;
    if (c->self.type == JJ_STR) {
        const struct jj_val part[3] = {jj_none(), jj_none(), jj_int(-1)};
        return jj_slice(x, c->self, part, out);
    }
    bool generator = c->self.type == JJ_ITER; /* reversed() cannot walk one, so Jinja2 makes a list */
    TRY(jj_to_list(x, c->self, &list));
    TRY(jj_list_new(x, generator ? JJ_LIST : JJ_ITER, list.l->n, out));
    for (size_t i = list.l->n; i-- > 0;)
        out->l->v[out->l->n++] = list.l->v[i];
    return GLIM_OK;
}

static glim_status f_join(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct getter g;
    struct jj_iter it;
    struct jj_buf b = {0};
    struct jj_str *sep = &(struct jj_str){.p = ""};
    struct jj_val v;
    bool got;
    if (c->arg[0].type != JJ_MISSING)
        TRY(jj_text_arg(x, c->arg[0], &sep));
    TRY(getter_of(x, c->arg[1], false, &g));
    TRY(jj_iter_open(x, c->self, &it));
    for (size_t i = 0;; i++) {
        TRY(jj_iter_next(x, &it, &got, &v));
        if (!got)
            return jj_buf_done(x, &b, out);
        TRY(get(x, &g, v, &v));
        if (i)
            TRY(jj_buf_str(x, &b, sep));
        TRY(jj_print(x, &b, v));
    }
}

static glim_status f_items(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_call m = {.self = c->self};
    if (c->self.type == JJ_UNDEF)
        return jj_list_new(x, JJ_ITER, 0, out);
    if (c->self.type != JJ_DICT)
        return jj_fail(x, "have '%s' for items, need a dict", jj_type_name(c->self));
    TRY(jj_fn_find(jj_dict_methods, "items", 5)->fn(x, &m, out));
    out->type = JJ_ITER;
    return GLIM_OK;
}

static glim_status part_of(struct jj *x, const struct jj_list *l, size_t from, size_t n, struct jj_val *out)
{
    TRY(jj_list_new(x, JJ_LIST, n, out));
    for (size_t i = 0; i < n; i++)
        out->l->v[i] = l->v[from + i];
    out->l->n = n;
    return GLIM_OK;
}

static glim_status f_batch(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val list, row, fill = c->arg[1];
    int64_t n;
    TRY(jj_arg_int(x, c->arg[0], 0, &n));
    TRY(jj_to_list(x, c->self, &list));
    TRY(jj_list_new(x, JJ_ITER, 0, out));
    if (n <= 0) /* never full: Jinja2 gives an empty batch first for 0, one batch for less */
        return jj_fail(x, "have batches of %lld items, need at least 1", (long long)n);
    for (size_t i = 0; i < list.l->n; i += (size_t)n) {
        size_t k = list.l->n - i < (uint64_t)n ? list.l->n - i : (size_t)n;
        TRY(part_of(x, list.l, i, k, &row));
        for (; fill.type > JJ_NONE && k < (uint64_t)n; k++)
            TRY(jj_list_add(x, row, fill));
        TRY(jj_list_add(x, *out, row));
        if (list.l->n - i <= (uint64_t)n)
            break;
    }
    return GLIM_OK;
}

static glim_status f_slice(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val list, part, fill = c->arg[1];
    int64_t n;
    TRY(jj_arg_int(x, c->arg[0], 0, &n));
    TRY(jj_to_list(x, c->self, &list));
    if (n <= 0)
        return jj_fail(x, "have %lld slices, need at least 1", (long long)n);
    TRY(jj_list_new(x, JJ_ITER, 0, out));
    size_t each = list.l->n / (size_t)n, more = list.l->n % (size_t)n, at = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        size_t k = each + (i < more);
        TRY(jj_work(x, 1));
        TRY(part_of(x, list.l, at, k, &part));
        at += k;
        if (fill.type > JJ_NONE && i >= more)
            TRY(jj_list_add(x, part, fill));
        TRY(jj_list_add(x, *out, part));
    }
    return GLIM_OK;
}

const struct jj_fn jj_filters_seq[] = {
    {"batch", f_batch, "linecount fill_with", 1},
    {"count", f_length, "", 0},
    {"dictsort", f_dictsort, "case_sensitive by reverse", 0},
    {"first", f_first, "", 0},
    {"groupby", f_groupby, "attribute default case_sensitive", 1},
    {"items", f_items, "", 0},
    {"join", f_join, "d attribute", 0},
    {"last", f_last, "", 0},
    {"length", f_length, "", 0},
    {"list", f_list, "", 0},
    {"map", f_map, "*", 0},
    {"max", f_max, "case_sensitive attribute", 0},
    {"min", f_min, "case_sensitive attribute", 0},
    {"reject", f_reject, "*", 0},
    {"rejectattr", f_rejectattr, "*", 0},
    {"reverse", f_reverse, "", 0},
    {"select", f_select, "*", 0},
    {"selectattr", f_selectattr, "*", 0},
    {"slice", f_slice, "slices fill_with", 1},
    {"sort", f_sort, "reverse case_sensitive attribute", 0},
    {"sum", f_sum, "attribute start", 0},
    {"unique", f_unique, "case_sensitive attribute", 0},
    {NULL, NULL, NULL, 0},
};
