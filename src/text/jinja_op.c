/* Operators on values: truth, equality, order, arithmetic, slices. Each follows Python; where Python raises a
 * TypeError, the render fails. */
#include "text/jinja_impl.h"

#include <math.h>

const char *jj_type_name(struct jj_val v)
{
    static const char *const name[] = {
        "missing", "Undefined", "NoneType",    "bool",  "int",       "float",
        "str",     "list",      "tuple",       "range", "dict_view", "generator",
        "dict",    "Namespace", "LoopContext", "Macro", "function",  "builtin_function_or_method",
        "Cycler",  "Joiner"};
    return name[v.type];
}

/* ---- truth and length ---- */

bool jj_true(struct jj_val v)
{
    switch ((enum jj_type)v.type) {
    case JJ_MISSING:
    case JJ_UNDEF:
    case JJ_NONE:
        return false;
    case JJ_BOOL:
        return v.b;
    case JJ_INT:
        return v.i != 0;
    case JJ_FLOAT:
        return v.f != 0;
    case JJ_STR:
        return v.s->n != 0;
    case JJ_LIST:
    case JJ_TUPLE:
    case JJ_RANGE:
    case JJ_VIEW:
        return v.l->n != 0;
    case JJ_DICT:
        return v.d->n != 0;
    case JJ_ITER:
    case JJ_NS:
    case JJ_LOOP:
    case JJ_MACRO:
    case JJ_FUNC:
    case JJ_METHOD:
    case JJ_CYCLER:
    case JJ_JOINER:
        break;
    }
    return true;
}

glim_status jj_len(struct jj *x, struct jj_val v, size_t *n)
{
    *n = 0;
    switch (v.type) {
    case JJ_UNDEF:
        return GLIM_OK;
    case JJ_STR:
        TRY(jj_work(x, v.s->n_cp == SIZE_MAX ? v.s->n / 64 : 0));
        *n = jj_str_len(v.s);
        return GLIM_OK;
    case JJ_LIST:
    case JJ_TUPLE:
    case JJ_RANGE:
    case JJ_VIEW:
        *n = v.l->n;
        return GLIM_OK;
    case JJ_DICT:
        *n = v.d->n;
        return GLIM_OK;
    case JJ_LOOP:
        TRY(jj_loop_length(x, v.loop));
        *n = (size_t)v.loop->length;
        return GLIM_OK;
    default:
        return jj_fail(x, "have the length of a value of type '%s', need a text, list or dict", jj_type_name(v));
    }
}

/* ---- comparison ---- */

/* -1, 0, 1; 2 when either is NaN. Exact also where a 64-bit integer has no float. */
static int num_cmp(struct jj_val a, struct jj_val b)
{
    if (a.type == JJ_FLOAT && b.type == JJ_FLOAT)
        return isnan(a.f) || isnan(b.f) ? 2 : (a.f > b.f) - (a.f < b.f);
    if (a.type != JJ_FLOAT && b.type != JJ_FLOAT)
        return (jj_as_int(a) > jj_as_int(b)) - (jj_as_int(a) < jj_as_int(b));
    if (a.type == JJ_FLOAT) {
        int c = num_cmp(b, a);
        return c == 2 ? 2 : -c;
    }
    int64_t i = jj_as_int(a);
    if (isnan(b.f))
        return 2;
    if (b.f >= 0x1p63 || b.f < -0x1p63)
        return b.f > 0 ? -1 : 1;
    int64_t t = (int64_t)b.f; /* towards zero */
    double rest = b.f - (double)t;
    return i != t ? (i > t ? 1 : -1) : (rest < 0) - (rest > 0);
}

static glim_status eq_deep(struct jj *x, struct jj_val a, struct jj_val b, int depth, bool *out);

static glim_status list_eq(struct jj *x, struct jj_list *a, struct jj_list *b, int depth, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && *out; i++)
        TRY(eq_deep(x, a->v[i], b->v[i], depth + 1, out));
    return GLIM_OK;
}

static glim_status dict_eq(struct jj *x, struct jj_dict *a, struct jj_dict *b, int depth, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && *out; i++) {
        struct jj_val *v;
        TRY(jj_dict_get(x, b, a->p[i].key, &v));
        *out = v != NULL;
        if (v)
            TRY(eq_deep(x, a->p[i].v, *v, depth + 1, out));
    }
    return GLIM_OK;
}

static glim_status eq_deep(struct jj *x, struct jj_val a, struct jj_val b, int depth, bool *out)
{
    TRY(jj_work(x, 1));
    if (depth > JJ_NEST)
        return jj_fail(x, "have values nested deeper than %d to compare, need less", JJ_NEST);
    *out = false;
    if (jj_is_num(a) && jj_is_num(b)) {
        *out = num_cmp(a, b) == 0;
        return GLIM_OK;
    }
    if (a.type != b.type)
        return GLIM_OK;
    switch ((enum jj_type)a.type) {
    case JJ_STR:
        *out = a.s->n == b.s->n && memcmp(a.s->p, b.s->p, a.s->n) == 0;
        return jj_work(x, a.s->n / 64);
    case JJ_LIST:
    case JJ_TUPLE:
    case JJ_RANGE:
        return list_eq(x, a.l, b.l, depth, out);
    case JJ_DICT:
        return dict_eq(x, a.d, b.d, depth, out);
    case JJ_MISSING:
    case JJ_UNDEF:
    case JJ_NONE:
        *out = true;
        return GLIM_OK;
    case JJ_FUNC:
        *out = a.fn == b.fn;
        return GLIM_OK;
    case JJ_BOOL:
    case JJ_INT:
    case JJ_FLOAT:
    case JJ_VIEW:
    case JJ_ITER:
    case JJ_NS:
    case JJ_LOOP:
    case JJ_MACRO:
    case JJ_METHOD:
    case JJ_CYCLER:
    case JJ_JOINER:
        break;
    }
    *out = a.l == b.l; /* the same object */
    return GLIM_OK;
}

glim_status jj_eq(struct jj *x, struct jj_val a, struct jj_val b, bool *out)
{
    return eq_deep(x, a, b, 0, out);
}

static bool by_op(enum jj_cmp op, int c)
{
    return c != 2 && (op == JJ_LT ? c < 0 : op == JJ_LE ? c <= 0 : op == JJ_GT ? c > 0 : c >= 0);
}

static const char *const cmp_sign[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};

/* The first pair that differs decides, else the lengths. */
static glim_status list_order(struct jj *x, enum jj_cmp op, struct jj_list *a, struct jj_list *b, int depth, bool *out);

static glim_status order_deep(struct jj *x, enum jj_cmp op, struct jj_val a, struct jj_val b, int depth, bool *out)
{
    TRY(jj_work(x, 1));
    if (a.type == JJ_UNDEF || b.type == JJ_UNDEF)
        return jj_undef_fail(x, a.type == JJ_UNDEF ? a : b);
    if (jj_is_num(a) && jj_is_num(b)) {
        *out = by_op(op, num_cmp(a, b));
        return GLIM_OK;
    }
    if (a.type == JJ_STR && b.type == JJ_STR) { /* UTF-8 sorts as code points do */
        size_t n = a.s->n < b.s->n ? a.s->n : b.s->n;
        int c = n ? memcmp(a.s->p, b.s->p, n) : 0;
        c = c ? (c > 0 ? 1 : -1) : (a.s->n > b.s->n) - (a.s->n < b.s->n);
        *out = by_op(op, c);
        return jj_work(x, n / 64);
    }
    if (a.type == b.type && (a.type == JJ_LIST || a.type == JJ_TUPLE))
        return list_order(x, op, a.l, b.l, depth, out);
    return jj_fail(x, "have '%s' %s '%s', need values that have an order", jj_type_name(a), cmp_sign[op],
                   jj_type_name(b));
}

static glim_status list_order(struct jj *x, enum jj_cmp op, struct jj_list *a, struct jj_list *b, int depth, bool *out)
{
    if (depth > JJ_NEST)
        return jj_fail(x, "have values nested deeper than %d to compare, need less", JJ_NEST);
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        TRY(eq_deep(x, a->v[i], b->v[i], depth + 1, &same));
        if (!same)
            return order_deep(x, op, a->v[i], b->v[i], depth + 1, out);
    }
    *out = by_op(op, (a->n > b->n) - (a->n < b->n));
    return GLIM_OK;
}

glim_status jj_order(struct jj *x, enum jj_cmp op, struct jj_val a, struct jj_val b, bool *out)
{
    return order_deep(x, op, a, b, 0, out);
}

glim_status jj_in(struct jj *x, struct jj_val needle, struct jj_val in, bool *out)
{
    struct jj_iter it;
    struct jj_val e, *v;
    bool got;
    *out = false;
    if (in.type == JJ_STR) {
        if (needle.type != JJ_STR)
            return jj_fail(x, "have '%s' in a text, need a text on the left", jj_type_name(needle));
        TRY(jj_work(x, in.s->n / 16));
        *out = jj_find(in.s->p, in.s->n, needle.s->p, needle.s->n, 0) != SIZE_MAX;
        return GLIM_OK;
    }
    if (in.type == JJ_DICT) {
        TRY(jj_dict_get(x, in.d, needle, &v));
        *out = v != NULL;
        return GLIM_OK;
    }
    TRY(jj_iter_open(x, in, &it));
    while (!*out) {
        TRY(jj_iter_next(x, &it, &got, &e));
        if (!got)
            return GLIM_OK;
        TRY(jj_eq(x, e, needle, out));
    }
    return GLIM_OK;
}

glim_status jj_compare(struct jj *x, enum jj_cmp op, struct jj_val a, struct jj_val b, bool *out)
{
    switch (op) {
    case JJ_EQ:
        return jj_eq(x, a, b, out);
    case JJ_NE:
        TRY(jj_eq(x, a, b, out));
        *out = !*out;
        return GLIM_OK;
    case JJ_IN:
        return jj_in(x, a, b, out);
    case JJ_NOTIN:
        TRY(jj_in(x, a, b, out));
        *out = !*out;
        return GLIM_OK;
    case JJ_LT:
    case JJ_LE:
    case JJ_GT:
    case JJ_GE:
        break;
    }
    return jj_order(x, op, a, b, out);
}

/* ---- arithmetic ---- */

static glim_status overflow(struct jj *x)
{
    return jj_fail(x, "have an integer beyond 64 bits, need a smaller one");
}

static glim_status int_pow(struct jj *x, int64_t a, int64_t b, struct jj_val *out)
{
    int64_t r = 1;
    if (b < 0) {
        if (a == 0)
            return jj_fail(x, "have 0 to a negative power, need another base");
        *out = jj_float(pow((double)a, (double)b));
        return GLIM_OK;
    }
    for (; b; b >>= 1) {
        if ((b & 1) && __builtin_mul_overflow(r, a, &r))
            return overflow(x);
        if (b > 1 && __builtin_mul_overflow(a, a, &a))
            return overflow(x);
    }
    *out = jj_int(r);
    return GLIM_OK;
}

static glim_status int_op(struct jj *x, enum jj_op op, int64_t a, int64_t b, struct jj_val *out)
{
    int64_t r = 0;
    bool over = false;
    if ((op == JJ_DIV || op == JJ_FLOORDIV || op == JJ_MOD) && b == 0)
        return jj_fail(x, "have a division by zero, need another divisor");
    switch (op) {
    case JJ_ADD:
        over = __builtin_add_overflow(a, b, &r);
        break;
    case JJ_SUB:
        over = __builtin_sub_overflow(a, b, &r);
        break;
    case JJ_MUL:
        over = __builtin_mul_overflow(a, b, &r);
        break;
    case JJ_DIV:
        *out = jj_float((double)a / (double)b);
        return GLIM_OK;
    case JJ_FLOORDIV: /* rounds down, not towards zero */
        over = a == INT64_MIN && b == -1;
        r = over ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    case JJ_MOD: /* has the sign of b */
        r = b == -1 ? 0 : a % b;
        r += r != 0 && (r < 0) != (b < 0) ? b : 0;
        break;
    case JJ_POW:
        return int_pow(x, a, b, out);
    }
    *out = jj_int(r);
    return over ? overflow(x) : GLIM_OK;
}

static glim_status float_op(struct jj *x, enum jj_op op, double a, double b, struct jj_val *out)
{
    double r = 0;
    if ((op == JJ_DIV || op == JJ_FLOORDIV || op == JJ_MOD) && b == 0)
        return jj_fail(x, "have a division by zero, need another divisor");
    switch (op) {
    case JJ_ADD:
        r = a + b;
        break;
    case JJ_SUB:
        r = a - b;
        break;
    case JJ_MUL:
        r = a * b;
        break;
    case JJ_DIV:
        r = a / b;
        break;
    case JJ_FLOORDIV:
    case JJ_MOD: {
        double m = fmod(a, b), q = (a - m) / b;
        if (m != 0 && (m < 0) != (b < 0)) {
            m += b;
            q -= 1;
        }
        m = m == 0 ? copysign(0, b) : m;
        r = op == JJ_MOD ? m : q == 0 ? copysign(0, a / b) : floor(q) + (q - floor(q) > 0.5);
        break;
    }
    case JJ_POW:
        r = pow(a, b);
        if ((a == 0 && b < 0) || (a < 0 && b != floor(b)) || (isinf(r) && isfinite(a) && isfinite(b)))
            return jj_fail(x, "have a power that is no 64-bit float, need another");
        break;
    }
    *out = jj_float(r);
    return GLIM_OK;
}

static glim_status num_op(struct jj *x, enum jj_op op, struct jj_val a, struct jj_val b, struct jj_val *out)
{
    if (a.type == JJ_FLOAT || b.type == JJ_FLOAT)
        TRY(float_op(x, op, jj_as_float(a), jj_as_float(b), out));
    else
        TRY(int_op(x, op, jj_as_int(a), jj_as_int(b), out));
    out->data = a.data || b.data;
    return GLIM_OK;
}

/* Escaped text stays escaped: what is added to it is escaped first. */
static glim_status str_add_op(struct jj *x, struct jj_val a, struct jj_val b, struct jj_val *out)
{
    struct jj_buf buf = {0};
    bool markup = a.s->markup || b.s->markup;
    if (markup) {
        TRY(jj_escape(x, a, &a));
        TRY(jj_escape(x, b, &b));
    }
    TRY(jj_buf_str(x, &buf, a.s));
    TRY(jj_buf_str(x, &buf, b.s));
    TRY(jj_buf_done(x, &buf, out));
    out->s->markup = markup;
    return GLIM_OK;
}

static glim_status list_add_op(struct jj *x, struct jj_val a, struct jj_val b, struct jj_val *out)
{
    TRY(jj_work(x, (a.l->n + b.l->n) / 4));
    TRY(jj_list_new(x, a.type, a.l->n + b.l->n, out));
    if (a.l->n)
        memcpy(out->l->v, a.l->v, a.l->n * sizeof *a.l->v);
    if (b.l->n)
        memcpy(out->l->v + a.l->n, b.l->v, b.l->n * sizeof *b.l->v);
    out->l->n = a.l->n + b.l->n;
    return GLIM_OK;
}

/* Text that a client's number repeats is data: the number chose what it says. */
static glim_status repeat(struct jj *x, struct jj_val v, struct jj_val by, struct jj_val *out)
{
    struct jj_buf b = {0};
    int64_t times = jj_as_int(by) < 0 ? 0 : jj_as_int(by);
    if (v.type == JJ_STR) {
        if (!v.s->run) {
            TRY(jj_buf_fill(x, &b, v.s->p, v.s->n, (size_t)times, v.s->data || by.data));
        } else {
            for (int64_t i = 0; i < times; i++)
                TRY(jj_buf_add(x, &b, v.s->p, v.s->n, true));
        }
        TRY(jj_buf_done(x, &b, out));
        out->s->markup = v.s->markup;
        return GLIM_OK;
    }
    TRY(jj_list_new(x, v.type, 0, out));
    for (int64_t i = 0; i < times && v.l->n; i++) {
        TRY(jj_work(x, v.l->n));
        for (size_t k = 0; k < v.l->n; k++)
            TRY(jj_list_add(x, *out, v.l->v[k]));
    }
    return GLIM_OK;
}

static bool repeatable(struct jj_val v)
{
    return v.type == JJ_STR || v.type == JJ_LIST || v.type == JJ_TUPLE;
}

static bool whole(struct jj_val v)
{
    return v.type == JJ_INT || v.type == JJ_BOOL;
}

glim_status jj_binary(struct jj *x, enum jj_op op, struct jj_val a, struct jj_val b, struct jj_val *out)
{
    static const char *const sign[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (jj_is_num(a) && jj_is_num(b))
        return num_op(x, op, a, b, out);
    if (op == JJ_MOD && a.type == JJ_STR)
        return jj_percent(x, a.s, b, out);
    if (a.type == JJ_UNDEF || b.type == JJ_UNDEF)
        return jj_undef_fail(x, a.type == JJ_UNDEF ? a : b);
    if (op == JJ_ADD && a.type == JJ_STR && b.type == JJ_STR)
        return str_add_op(x, a, b, out);
    if (op == JJ_ADD && a.type == b.type && (a.type == JJ_LIST || a.type == JJ_TUPLE))
        return list_add_op(x, a, b, out);
    if (op == JJ_MUL && repeatable(a) && whole(b))
        return repeat(x, a, b, out);
    if (op == JJ_MUL && repeatable(b) && whole(a))
        return repeat(x, b, a, out);
    return jj_fail(x, "have '%s' %s '%s', need operands of types that fit", jj_type_name(a), sign[op], jj_type_name(b));
}

glim_status jj_negate(struct jj *x, struct jj_val v, bool minus, struct jj_val *out)
{
    if (v.type == JJ_UNDEF)
        return jj_undef_fail(x, v);
    if (!jj_is_num(v))
        return jj_fail(x, "have a sign before a value of type '%s', need a number", jj_type_name(v));
    if (v.type == JJ_FLOAT)
        *out = jj_float(minus ? -v.f : v.f);
    else if (minus && jj_as_int(v) == INT64_MIN)
        return overflow(x);
    else
        *out = jj_int(minus ? -jj_as_int(v) : jj_as_int(v));
    out->data = v.data;
    return GLIM_OK;
}

/* ---- slices ---- */

/* Python's slice.indices: start, stop and step for a length. */
static glim_status indices(struct jj *x, const struct jj_val part[3], int64_t n, int64_t out[3])
{
    for (int i = 0; i < 3; i++)
        if (part[i].type != JJ_NONE && !whole(part[i]))
            return jj_fail(x, "have a slice by '%s', need integers", jj_type_name(part[i]));
    int64_t step = part[2].type == JJ_NONE ? 1 : jj_as_int(part[2]);
    if (step == 0)
        return jj_fail(x, "have a slice of step 0, need another");
    step = step == INT64_MIN ? -INT64_MAX : step;
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    for (int i = 0; i < 2; i++) {
        if (part[i].type == JJ_NONE) {
            out[i] = (i == 0) == (step < 0) ? high : low;
            continue;
        }
        int64_t v = jj_as_int(part[i]);
        v = v < 0 ? v + n : v;
        out[i] = v < low ? low : v > high ? high : v;
    }
    out[2] = step;
    return GLIM_OK;
}

static size_t count(const int64_t r[3])
{
    uint64_t gap, step = (uint64_t)(r[2] < 0 ? -r[2] : r[2]);
    if (r[2] < 0 ? r[0] <= r[1] : r[0] >= r[1])
        return 0;
    gap = r[2] < 0 ? (uint64_t)r[0] - (uint64_t)r[1] : (uint64_t)r[1] - (uint64_t)r[0];
    return (size_t)((gap - 1) / step + 1);
}

static glim_status slice_str(struct jj *x, struct jj_str *s, const struct jj_val part[3], struct jj_val *out)
{
    int64_t r[3];
    struct jj_buf b = {0};
    TRY(jj_work(x, s->n / 32));
    TRY(indices(x, part, (int64_t)jj_str_len(s), r));
    size_t n = count(r);
    if (r[2] == 1) {
        size_t from = jj_str_byte(s, (size_t)r[0]);
        size_t to = n ? jj_str_byte(s, (size_t)r[1]) : from;
        TRY(jj_str_sub(x, s, from, to, out));
        out->s->markup = s->markup;
        return GLIM_OK;
    }
    /* each code point's byte, so that a long step over text of several bytes per character stays linear */
    size_t *at = jj_take(x, (jj_str_len(s) + 1) * sizeof *at), k = 0;
    if (!at)
        return jj_out_of(x);
    for (size_t i = 0; i < s->n; i++)
        if (((unsigned char)s->p[i] & 0xC0) != 0x80)
            at[k++] = i;
    at[k] = s->n;
    for (size_t i = 0; i < n; i++) {
        int64_t c = r[0] + (int64_t)i * r[2];
        TRY(jj_buf_sub(x, &b, s, at[c], at[c + 1]));
        TRY(jj_work(x, 1 + s->n_run / 8));
    }
    TRY(jj_buf_done(x, &b, out));
    out->s->markup = s->markup;
    return GLIM_OK;
}

glim_status jj_slice(struct jj *x, struct jj_val v, const struct jj_val part[3], struct jj_val *out)
{
    int64_t r[3];
    if (v.type == JJ_STR)
        return slice_str(x, v.s, part, out);
    if (v.type == JJ_UNDEF)
        return jj_undef_fail(x, v);
    if (!jj_is_seq(v))
        return jj_fail(x, "have a slice of a value of type '%s', need a text or list", jj_type_name(v));
    TRY(indices(x, part, (int64_t)v.l->n, r));
    size_t n = count(r);
    TRY(jj_work(x, n));
    TRY(jj_list_new(x, v.type, n, out));
    for (size_t i = 0; i < n; i++)
        out->l->v[i] = v.l->v[r[0] + (int64_t)i * r[2]];
    out->l->n = n;
    if (v.type == JJ_RANGE) {
        out->l->start = v.l->start + r[0] * v.l->step;
        out->l->stop = v.l->start + r[1] * v.l->step;
        out->l->step = v.l->step * r[2];
    }
    return GLIM_OK;
}

/* ---- subscripts ---- */

static glim_status item_of_seq(struct jj *x, struct jj_val obj, int64_t i, struct jj_val *out)
{
    size_t n;
    TRY(jj_len(x, obj, &n));
    i = i < 0 ? i + (int64_t)n : i;
    if (i < 0 || (uint64_t)i >= n) {
        out->type = JJ_MISSING;
        return GLIM_OK;
    }
    if (obj.type != JJ_STR) {
        *out = obj.l->v[i];
        return GLIM_OK;
    }
    uint32_t cp;
    size_t at = jj_str_byte(obj.s, (size_t)i);
    if (obj.s->n_cp != obj.s->n)
        TRY(jj_work(x, at / 32));
    size_t len = (size_t)utf8_decode((const uint8_t *)obj.s->p + at, obj.s->n - at, &cp);
    return jj_str_char(x, obj.s, at, len, out);
}

/* obj[key] as Python does it; JJ_MISSING where Python raises TypeError or LookupError. */
static glim_status python_item(struct jj *x, struct jj_val obj, struct jj_val key, struct jj_val *out)
{
    *out = (struct jj_val){.type = JJ_MISSING};
    if ((obj.type == JJ_STR || jj_is_seq(obj)) && whole(key))
        return item_of_seq(x, obj, jj_as_int(key), out);
    if (obj.type == JJ_DICT && key.type != JJ_LIST && key.type != JJ_DICT) {
        struct jj_val *v;
        TRY(jj_dict_get(x, obj.d, key, &v));
        if (v)
            *out = *v;
    }
    return GLIM_OK;
}

glim_status jj_getitem(struct jj *x, struct jj_val obj, struct jj_val key, struct jj_val *out)
{
    bool found = false;
    if (obj.type == JJ_UNDEF)
        return jj_undef_fail(x, obj);
    TRY(python_item(x, obj, key, out));
    if (out->type != JJ_MISSING)
        return GLIM_OK;
    if (key.type == JJ_STR)
        TRY(jj_pyattr(x, obj, key.s->p, key.s->n, &found, out));
    return found ? GLIM_OK : jj_undef_attr(x, obj, key, out);
}

glim_status jj_getattr(struct jj *x, struct jj_val obj, struct jj_val name, struct jj_val *out)
{
    bool found;
    if (obj.type == JJ_UNDEF)
        return jj_undef_fail(x, obj);
    TRY(jj_pyattr(x, obj, name.s->p, name.s->n, &found, out));
    if (found)
        return GLIM_OK;
    TRY(python_item(x, obj, name, out));
    return out->type == JJ_MISSING ? jj_undef_attr(x, obj, name, out) : GLIM_OK;
}
