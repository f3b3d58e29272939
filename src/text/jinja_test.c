/* Tests: `value is name(args)`. */
#include "text/jinja_impl.h"

static glim_status answer(struct jj_val *out, bool yes)
{
    *out = jj_bool(yes);
    return GLIM_OK;
}

static glim_status t_defined(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type != JJ_UNDEF);
}

static glim_status t_undefined(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_UNDEF);
}

static glim_status t_none(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_NONE);
}

static glim_status t_boolean(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_BOOL);
}

static glim_status t_true(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_BOOL && c->self.b);
}

static glim_status t_false(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_BOOL && !c->self.b);
}

static glim_status t_integer(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_INT);
}

static glim_status t_float(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_FLOAT);
}

static glim_status t_number(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, jj_is_num(c->self));
}

static glim_status t_string(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_STR);
}

static glim_status t_mapping(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_DICT);
}

/* Has a length and subscripts; an undefined value has both. */
static glim_status t_sequence(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out,
                  c->self.type == JJ_UNDEF || c->self.type == JJ_STR || c->self.type == JJ_DICT || jj_is_seq(c->self));
}

static glim_status t_iterable(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    uint8_t t = c->self.type;
    (void)x;
    return answer(out, t == JJ_UNDEF || t == JJ_STR || (t >= JJ_LIST && t <= JJ_DICT) || t == JJ_LOOP);
}

static glim_status t_callable(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    uint8_t t = c->self.type;
    (void)x;
    return answer(out,
                  t == JJ_UNDEF || t == JJ_MACRO || t == JJ_FUNC || t == JJ_METHOD || t == JJ_LOOP || t == JJ_JOINER);
}

static glim_status by_method(struct jj *x, struct jj_call *c, const char *name, struct jj_val *out)
{
    struct jj_call m = {.n_kw = 0};
    TRY(jj_string(x, c->self, &m.self));
    return jj_fn_find(jj_str_methods, name, strlen(name))->fn(x, &m, out);
}

static glim_status t_lower(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return by_method(x, c, "islower", out);
}

static glim_status t_upper(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return by_method(x, c, "isupper", out);
}

static glim_status t_escaped(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_STR && c->self.s->markup);
}

/* value % n == what */
static glim_status remainder_is(struct jj *x, struct jj_val v, struct jj_val n, int64_t what, struct jj_val *out)
{
    struct jj_val r;
    bool same;
    TRY(jj_binary(x, JJ_MOD, v, n, &r));
    TRY(jj_eq(x, r, jj_int(what), &same));
    return answer(out, same);
}

static glim_status t_odd(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return remainder_is(x, c->self, jj_int(2), 1, out);
}

static glim_status t_even(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return remainder_is(x, c->self, jj_int(2), 0, out);
}

static glim_status t_divisibleby(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return remainder_is(x, c->self, c->arg[0], 0, out);
}

/* Python's `is`: the same object. Of equal small values Python keeps one; of others that depends. */
static glim_status t_sameas(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val a = c->self, b = c->arg[0];
    if (a.type != b.type)
        return answer(out, false);
    if (a.type == JJ_NONE)
        return answer(out, true);
    if (a.type == JJ_BOOL)
        return answer(out, a.b == b.b);
    if (a.type == JJ_STR || a.type == JJ_INT || a.type == JJ_FLOAT)
        return jj_fail(x, "have sameas of two values of type '%s', need ==", jj_type_name(a));
    return answer(out, a.l == b.l);
}

static glim_status compare(struct jj *x, struct jj_call *c, enum jj_cmp op, struct jj_val *out)
{
    bool yes;
    TRY(jj_compare(x, op, c->self, c->arg[0], &yes));
    return answer(out, yes);
}

static glim_status t_eq(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return compare(x, c, JJ_EQ, out);
}

static glim_status t_ne(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return compare(x, c, JJ_NE, out);
}

static glim_status t_lt(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return compare(x, c, JJ_LT, out);
}

static glim_status t_le(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return compare(x, c, JJ_LE, out);
}

static glim_status t_gt(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return compare(x, c, JJ_GT, out);
}

static glim_status t_ge(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return compare(x, c, JJ_GE, out);
}

static glim_status t_in(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return compare(x, c, JJ_IN, out);
}

static glim_status t_filter(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_STR && jj_filter_find(c->self.s->p, c->self.s->n));
}

static glim_status t_test(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    (void)x;
    return answer(out, c->self.type == JJ_STR && jj_fn_find(jj_tests, c->self.s->p, c->self.s->n));
}

const struct jj_fn jj_tests[] = {
    {"!=", t_ne, "/ other", 1},
    {"<", t_lt, "/ other", 1},
    {"<=", t_le, "/ other", 1},
    {"==", t_eq, "/ other", 1},
    {">", t_gt, "/ other", 1},
    {">=", t_ge, "/ other", 1},
    {"boolean", t_boolean, "", 0},
    {"callable", t_callable, "/", 0},
    {"defined", t_defined, "", 0},
    {"divisibleby", t_divisibleby, "num", 1},
    {"eq", t_eq, "/ other", 1},
    {"equalto", t_eq, "/ other", 1},
    {"escaped", t_escaped, "", 0},
    {"even", t_even, "", 0},
    {"false", t_false, "", 0},
    {"filter", t_filter, "", 0},
    {"float", t_float, "", 0},
    {"ge", t_ge, "/ other", 1},
    {"greaterthan", t_gt, "/ other", 1},
    {"gt", t_gt, "/ other", 1},
    {"in", t_in, "seq", 1},
    {"integer", t_integer, "", 0},
    {"iterable", t_iterable, "", 0},
    {"le", t_le, "/ other", 1},
    {"lessthan", t_lt, "/ other", 1},
    {"lower", t_lower, "", 0},
    {"lt", t_lt, "/ other", 1},
    {"mapping", t_mapping, "", 0},
    {"ne", t_ne, "/ other", 1},
    {"none", t_none, "", 0},
    {"number", t_number, "", 0},
    {"odd", t_odd, "", 0},
    {"sameas", t_sameas, "other", 1},
    {"sequence", t_sequence, "", 0},
    {"string", t_string, "", 0},
    {"test", t_test, "", 0},
    {"true", t_true, "", 0},
    {"undefined", t_undefined, "", 0},
    {"upper", t_upper, "", 0},
    {NULL, NULL, NULL, 0},
};
