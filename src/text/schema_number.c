/* Numbers: bounds and divisors as automata over decimal digits.
 *
 * The automata of values read plain decimals of any length, [-]digits[.digits] without leading zeros, so that proofs
 * are about all numbers. What is generated is their intersection with the spellings that schema.h promises. */
#include "base/mem.h"
#include "text/schema_impl.h"

#include <math.h>
#include <string.h>

#define INTEGER  "(?:0|-?[1-9][0-9]*)"
#define FRACTION "-?(?:0|[1-9][0-9]*)\\.[0-9]+"
#define FREE     "-?(?:0|[1-9][0-9]{0,14})(?:\\.[0-9]{1,15})?(?:[eE][+-]?(?:0|[1-9][0-9]?))?"

enum { C_OTHER, C_DIGIT, C_MINUS = 11, C_POINT, N_CLASS }; /* the digit d is class C_DIGIT + d */
enum { LESS = 1, SAME = 2, MORE = 4 };

/* A decimal as digits: whole part without leading zeros but for one, fraction without trailing ones. */
struct decimal {
    bool negative;
    char digit[700];
    size_t n_whole, n; /* all digits */
};

/* The shortest spelling of a double that reads as the same double. */
static void shortest(double v, char out[40])
{
    for (int digits = 1; digits <= 17; digits++) {
        double back;
        snprintf(out, 40, "%.*e", digits - 1, v);
        for (char *c = out; *c; c++)
            if (*c == ',')
                *c = '.';
        if (parse_f64(out, &back) && back == v)
            return;
    }
}

/* Digits d of 0.d × 10^point as a decimal. */
static void place(struct decimal *x, const char *d, size_t n, int point)
{
    size_t k = 0;
    x->n = x->n_whole = 0;
    if (point <= 0)
        x->digit[x->n++] = '0';
    for (int i = 0; i < point; i++)
        x->digit[x->n++] = k < n ? d[k++] : '0';
    x->n_whole = x->n;
    for (int i = point; i < 0 && k < n; i++)
        x->digit[x->n++] = '0';
    while (k < n)
        x->digit[x->n++] = d[k++];
    while (x->n > x->n_whole && x->digit[x->n - 1] == '0')
        x->n--;
}

static struct decimal decimal_of(const json_t *v)
{
    struct decimal x = {0};
    char text[40], d[20];
    size_t n = 0;
    if (json_is_integer(v)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
        x.negative = *text == '-';
        x.n = x.n_whole = strlen(text + x.negative);
        memcpy(x.digit, text + x.negative, x.n);
        return x;
    }
    double r = json_real_value(v);
    shortest(fabs(r), text);
    const char *exponent = strchr(text, 'e');
    int64_t e = 0;
    parse_i64(exponent + (exponent[1] == '+' ? 2 : 1), &e);
    for (const char *c = text; c < exponent; c++)
        if (*c != '.')
            d[n++] = *c;
    while (n > 1 && d[n - 1] == '0')
        n--;
    if (r == 0)
        place(&x, "0", 1, 1);
    else
        place(&x, d, n, (int)e + 1);
    x.negative = r < 0;
    return x;
}

static void decimal_text(const struct decimal *x, struct str *out)
{
    if (x->negative)
        str_putc(out, '-');
    str_add(out, x->digit, x->n_whole);
    if (x->n > x->n_whole) {
        str_putc(out, '.');
        str_add(out, x->digit + x->n_whole, x->n - x->n_whole);
    }
}

static bool is_zero(const struct decimal *x)
{
    return x->n == 1 && x->digit[0] == '0';
}

bool number_equal(const json_t *a, const json_t *b)
{
    struct decimal x = decimal_of(a), y = decimal_of(b);
    return x.negative == y.negative && x.n == y.n && x.n_whole == y.n_whole && memcmp(x.digit, y.digit, x.n) == 0;
}

bool number_is_integer(const json_t *v)
{
    struct decimal x = decimal_of(v);
    return x.n == x.n_whole;
}

void number_literal(struct str *out, const json_t *v)
{
    char text[40];
    if (json_is_integer(v)) {
        str_printf(out, "%lld", (long long)json_integer_value(v));
        return;
    }
    struct decimal x = decimal_of(v);
    if (x.n <= 21) {
        bool whole = x.n == x.n_whole;
        decimal_text(&x, out);
        str_puts(out, whole ? ".0" : "");
        return;
    }
    shortest(json_real_value(v), text);
    str_puts(out, text);
}

/* ---- automata ---- */

static void number_classes(struct dfa *d)
{
    for (int i = 0; i < 10; i++)
        d->cls['0' + i] = (uint8_t)(C_DIGIT + i);
    d->cls['-'] = C_MINUS;
    d->cls['.'] = C_POINT;
}

/* States that compare a magnitude with the bound, digit by digit. While the whole part is read: how many digits, and
 * whether those read are less, the same or more. */
struct comparer {
    struct dfa *d;
    const struct decimal *x;
    uint32_t base;   /* of this half */
    unsigned accept; /* LESS | SAME | MORE */
};
enum { READ_LESS, READ_SAME, READ_MORE };

static uint32_t whole_state(const struct comparer *c, size_t digits, unsigned how)
{
    return c->base + 3 * (uint32_t)(digits - 1) + how;
}
/* After the whole part's states: too many digits; then fractions: less, more, and the same for each place. */
static uint32_t after_state(const struct comparer *c, size_t i)
{
    return c->base + 3 * (uint32_t)c->x->n_whole + (uint32_t)i;
}
enum { OVER, FRACTION_LESS, FRACTION_MORE, FRACTION_SAME };

static size_t comparer_states(const struct decimal *x)
{
    return 3 * x->n_whole + FRACTION_SAME + (x->n - x->n_whole) + 1;
}

static void go(const struct comparer *c, uint32_t from, unsigned cls, uint32_t to)
{
    c->d->next[from * N_CLASS + cls] = to;
}

static void accept_if(const struct comparer *c, uint32_t state, unsigned result)
{
    if (c->accept & result)
        dfa_set_accept(c->d, state);
}

static void compare_whole(const struct comparer *c, uint32_t first)
{
    const struct decimal *x = c->x;
    for (unsigned v = 0; v < 10; v++) {
        unsigned b = (unsigned)(x->digit[0] - '0');
        go(c, first, C_DIGIT + v, whole_state(c, 1, v < b ? READ_LESS : v == b ? READ_SAME : READ_MORE));
    }
    for (size_t n = 1; n <= x->n_whole; n++)
        for (unsigned how = 0; how < 3; how++) {
            uint32_t at = whole_state(c, n, how);
            unsigned result = n < x->n_whole ? LESS : 1u << how;
            bool longer = result == SAME && x->n > x->n_whole;
            accept_if(c, at, longer ? LESS : result);
            go(c, at, C_POINT,
               after_state(c, result == LESS   ? FRACTION_LESS
                              : result == MORE ? FRACTION_MORE
                                               : FRACTION_SAME));
            for (unsigned v = 0; v < 10; v++) {
                unsigned b = n < x->n_whole ? (unsigned)(x->digit[n] - '0') : 0;
                unsigned next = how != READ_SAME || v == b ? how : v < b ? READ_LESS : READ_MORE;
                go(c, at, C_DIGIT + v, n < x->n_whole ? whole_state(c, n + 1, next) : after_state(c, OVER));
            }
        }
}

static void compare_fraction(const struct comparer *c)
{
    const struct decimal *x = c->x;
    size_t n = x->n - x->n_whole;
    accept_if(c, after_state(c, OVER), MORE);
    go(c, after_state(c, OVER), C_POINT, after_state(c, FRACTION_MORE));
    accept_if(c, after_state(c, FRACTION_LESS), LESS);
    accept_if(c, after_state(c, FRACTION_MORE), MORE);
    for (unsigned v = 0; v < 10; v++) {
        go(c, after_state(c, OVER), C_DIGIT + v, after_state(c, OVER));
        go(c, after_state(c, FRACTION_LESS), C_DIGIT + v, after_state(c, FRACTION_LESS));
        go(c, after_state(c, FRACTION_MORE), C_DIGIT + v, after_state(c, FRACTION_MORE));
    }
    for (size_t i = 0; i <= n; i++) {
        uint32_t at = after_state(c, FRACTION_SAME + i);
        accept_if(c, at, i == n ? SAME : LESS);
        for (unsigned v = 0; v < 10; v++) {
            unsigned b = i < n ? (unsigned)(x->digit[x->n_whole + i] - '0') : 0;
            size_t same = FRACTION_SAME + (i < n ? i + 1 : i);
            go(c, at, C_DIGIT + v, after_state(c, v == b ? same : v < b ? FRACTION_LESS : FRACTION_MORE));
        }
    }
}

/* Decimals whose magnitude, compared with x's, is one of `positive`, or of `negative` where they have a sign. */
static glim_status compare_dfa(const struct decimal *x, unsigned positive, unsigned negative, struct dfa **out,
                               struct glim_err *e)
{
    size_t half = comparer_states(x);
    TRY(dfa_new(out, 3 + 2 * half, N_CLASS, e));
    number_classes(*out);
    struct comparer plus = {*out, x, 3, positive}, minus = {*out, x, 3 + (uint32_t)half, negative};
    go(&plus, 1, C_MINUS, 2);
    compare_whole(&plus, 1);
    compare_fraction(&plus);
    compare_whole(&minus, 2);
    compare_fraction(&minus);
    return dfa_minimise(out, e);
}

/* Numbers that are, compared with x, one of `want`. */
static glim_status bound_dfa(const struct decimal *x, unsigned want, struct dfa **out, struct glim_err *e)
{
    unsigned all = LESS | SAME | MORE, turned = (want & SAME) | (want & LESS ? MORE : 0) | (want & MORE ? LESS : 0);
    if (is_zero(x)) /* below zero is what has a sign, and -0 is zero */
        return compare_dfa(x, want & (SAME | MORE), (want & SAME) | (want & LESS ? MORE : 0), out, e);
    if (x->negative)
        return compare_dfa(x, want & MORE ? all : 0, turned, out, e);
    return compare_dfa(x, want, want & LESS ? all : 0, out, e);
}

/* ---- multiples ---- */

/* x = m / 10^scale, m without trailing zeros where scale > 0. False when m is too large. */
static bool as_ratio(const struct decimal *x, uint32_t *m, size_t *scale)
{
    uint64_t v = 0;
    *scale = x->n - x->n_whole;
    for (size_t i = 0; i < x->n; i++) {
        v = v * 10 + (uint64_t)(x->digit[i] - '0');
        if (v > DFA_MAX_STATE)
            return false;
    }
    *m = (uint32_t)v;
    return v > 0;
}

/* r * 10^times mod m */
static uint32_t shifted(uint32_t r, size_t times, uint32_t m)
{
    uint64_t v = r;
    for (size_t i = 0; i < times; i++)
        v = v * 10 % m;
    return (uint32_t)v;
}

/* States: 1 the start, 2 after a sign, then for each place of the point (none yet, 0 .. scale digits after it) the
 * remainder. After `scale` digits only zeros. */
static glim_status multiple_dfa(struct sch *s, const json_t *node, const json_t *value, struct dfa **out)
{
    struct decimal x = decimal_of(value);
    uint32_t m;
    size_t scale;
    if (x.negative || !as_ratio(&x, &m, &scale) || 3 + m * (scale + 2) > DFA_MAX_STATE)
        return schema_refuse(s, node, "multipleOf", "a divisor whose automaton is too large",
                             "digits times (places + 2) below 65536");
    TRY(dfa_new(out, 3 + m * (scale + 2), N_CLASS, s->e));
    struct dfa *d = *out;
    number_classes(d);
    d->next[1 * N_CLASS + C_MINUS] = 2;
    for (unsigned v = 0; v < 10; v++)
        d->next[1 * N_CLASS + C_DIGIT + v] = d->next[2 * N_CLASS + C_DIGIT + v] = 3 + v % m;
    for (uint32_t r = 0; r < m; r++) {
        if (shifted(r, scale, m) == 0)
            dfa_set_accept(d, 3 + r);
        d->next[(3 + r) * N_CLASS + C_POINT] = 3 + m + r;
        for (uint32_t v = 0; v < 10; v++)
            d->next[(3 + r) * N_CLASS + C_DIGIT + v] = 3 + (r * 10 + v) % m;
        for (size_t k = 0; k <= scale; k++) {
            uint32_t at = 3 + m * (uint32_t)(k + 1) + r;
            if (shifted(r, scale - k, m) == 0)
                dfa_set_accept(d, at);
            for (uint32_t v = 0; v < 10; v++)
                if (k < scale)
                    d->next[at * N_CLASS + C_DIGIT + v] = 3 + m * (uint32_t)(k + 2) + (r * 10 + v) % m;
                else if (v == 0)
                    d->next[at * N_CLASS + C_DIGIT] = at;
        }
    }
    return dfa_minimise(out, s->e);
}

/* ---- what restricts a number ---- */

static glim_status plain(struct sch *s, const char *regex, const struct dfa **out)
{
    struct str key = {0};
    struct dfa *d;
    str_printf(&key, "n%s", regex);
    glim_status st = GLIM_OK;
    *out = schema_dfa_get(s, &key);
    if (!*out) {
        st = regex_dfa(&d, regex, strlen(regex), REGEX_WHOLE, s->e);
        if (st == GLIM_OK)
            st = schema_dfa_put(s, &key, d, out);
    }
    str_fini(&key);
    return st;
}

struct limits {
    struct sch *s;
    struct str key;
    struct dfa *d; /* NULL while only the key is made */
    bool any;      /* is there a restriction? */
};

/* One restriction: its name for the key, or its automaton. */
static glim_status limit(struct limits *l, char kind, const json_t *node, const json_t *v, unsigned want)
{
    struct dfa *d, *next;
    struct decimal x = v ? decimal_of(v) : (struct decimal){0};
    const struct dfa *shared = NULL;
    glim_status st = GLIM_OK;
    l->any = true;
    if (!l->d) {
        str_printf(&l->key, "%c%u:", kind, want);
        decimal_text(&x, &l->key);
        return l->key.failed ? schema_starved(l->s) : GLIM_OK;
    }
    if (kind == 'i' || kind == 'f') {
        TRY(plain(l->s, "-?(?:0|[1-9][0-9]*)(?:\\.0+)?", &shared));
        d = NULL;
    } else
        st = kind == 'm' || kind == 'M' ? multiple_dfa(l->s, node, v, &d) : bound_dfa(&x, want, &d, l->s->e);
    if (st == GLIM_OK) {
        st = dfa_combine(&next, l->d, kind == 'M' || kind == 'f' ? DFA_BUT_NOT : DFA_AND, shared ? shared : d, l->s->e);
        dfa_free(d);
    }
    if (st == GLIM_REFUSED)
        return schema_blame(l->s, node, kind == 'm' || kind == 'M' ? "multipleOf" : "minimum");
    if (st != GLIM_OK)
        return st;
    dfa_free(l->d);
    l->d = next;
    return schema_spend(l->s, 1);
}

static glim_status node_limits(struct limits *l, const json_t *node)
{
    const json_t *low = json_object_get(node, "minimum"), *high = json_object_get(node, "maximum");
    const json_t *over = json_object_get(node, "exclusiveMinimum"), *under = json_object_get(node, "exclusiveMaximum");
    const json_t *not = json_object_get(node, KW_NOT_ENUM);
    bool integer;
    if (low)
        TRY(limit(l, 'b', node, low, json_is_true(over) ? MORE : MORE | SAME));
    if (high)
        TRY(limit(l, 'b', node, high, json_is_true(under) ? LESS : LESS | SAME));
    if (json_is_number(over))
        TRY(limit(l, 'b', node, over, MORE));
    if (json_is_number(under))
        TRY(limit(l, 'b', node, under, LESS));
    if (json_object_get(node, "multipleOf"))
        TRY(limit(l, 'm', node, json_object_get(node, "multipleOf"), 0));
    if (json_object_get(node, KW_NOT_MULTIPLE))
        TRY(limit(l, 'M', node, json_object_get(node, KW_NOT_MULTIPLE), 0));
    for (size_t i = 0; i < json_array_size(not ); i++)
        if (json_is_number(json_array_get(not, i)))
            TRY(limit(l, 'b', node, json_array_get(not, i), LESS | MORE));
    if (json_object_get(node, KW_FRACTION))
        TRY(limit(l, 'f', node, NULL, 0));
    schema_node_types(node, &integer);
    return integer ? limit(l, 'i', node, NULL, 0) : GLIM_OK;
}

static glim_status all_limits(struct limits *l, const struct pure *p)
{
    for (size_t i = 0; i < p->n; i++)
        TRY(node_limits(l, p->node[i]));
    return GLIM_OK;
}

/* The values as an automaton of plain decimals; NULL = all. */
static glim_status number_values(struct sch *s, const struct pure *p, struct str *key, const struct dfa **out)
{
    struct limits l = {.s = s};
    const struct dfa *all;
    *out = NULL;
    str_puts(&l.key, "number ");
    glim_status st = all_limits(&l, p);
    if (st == GLIM_OK && l.any && !(*out = schema_dfa_get(s, &l.key))) {
        st = plain(s, "(?:" INTEGER "|" FRACTION ")", &all);
        if (st == GLIM_OK)
            st = dfa_combine(&l.d, all, DFA_AND, all, s->e);
        struct str name = l.key;
        if (st == GLIM_OK)
            st = all_limits(&l, p);
        if (st == GLIM_OK)
            st = schema_dfa_put(s, &name, l.d, out);
        else
            dfa_free(l.d);
    }
    if (key)
        *key = l.key;
    else
        str_fini(&l.key);
    return st;
}

glim_status number_is_empty(struct sch *s, struct pure *p, bool *empty)
{
    const struct dfa *d;
    TRY(number_values(s, p, NULL, &d));
    *empty = d && dfa_is_empty(d);
    return GLIM_OK;
}

glim_status number_validates(struct sch *s, struct pure *p, const json_t *value, bool *ok)
{
    const struct dfa *d;
    struct decimal x = decimal_of(value);
    struct str text = {0};
    TRY(number_values(s, p, NULL, &d));
    decimal_text(&x, &text);
    bool failed = text.failed;
    *ok = !d || (!failed && dfa_match(d, text.s, text.n));
    str_fini(&text);
    return failed ? schema_starved(s) : GLIM_OK;
}

/* ---- spellings ---- */

/* Integers of 64 bits, or decimals with a fraction and at most 15 digits that count; not -0. */
static glim_status spellings(struct sch *s, bool fraction, struct dfa **out)
{
    static const struct decimal low = {true, "9223372036854775808", 19, 19},
                                high = {false, "9223372036854775807", 19, 19};
    struct str regex = {0};
    struct dfa *a = NULL, *b = NULL, *c = NULL;
    const struct dfa *base;
    if (fraction) {
        str_puts(&regex, "(?:-?(?:0\\.[0-9]{1,15}");
        for (int i = 0; i < 14; i++)
            str_printf(&regex, "|[1-9][0-9]{%d}\\.[0-9]{1,%d}", i, 14 - i);
        str_puts(&regex, "))");
    } else
        str_puts(&regex, INTEGER);
    glim_status st = regex.failed ? schema_starved(s) : plain(s, regex.s, &base);
    str_fini(&regex);
    if (st == GLIM_OK && fraction) {
        const struct dfa *zero;
        st = plain(s, "-0\\.0*", &zero);
        return st == GLIM_OK ? dfa_combine(out, base, DFA_BUT_NOT, zero, s->e) : st;
    }
    if (st == GLIM_OK)
        st = bound_dfa(&low, MORE | SAME, &a, s->e);
    if (st == GLIM_OK)
        st = bound_dfa(&high, LESS | SAME, &b, s->e);
    if (st == GLIM_OK)
        st = dfa_combine(&c, a, DFA_AND, b, s->e);
    if (st == GLIM_OK)
        st = dfa_combine(out, base, DFA_AND, c, s->e);
    dfa_free(a);
    dfa_free(b);
    dfa_free(c);
    return st;
}

/* `free`: with exponents. */
static glim_status all_spellings(struct sch *s, bool free, const struct dfa **out)
{
    struct str key = {0};
    struct dfa *a = NULL, *b = NULL, *c = NULL;
    const struct dfa *other;
    str_puts(&key, free ? "free spellings" : "spellings");
    glim_status st = GLIM_OK;
    *out = schema_dfa_get(s, &key);
    if (!*out) {
        st = spellings(s, false, &a);
        if (st == GLIM_OK && free) {
            st = plain(s, FREE, &other);
            if (st == GLIM_OK)
                st = dfa_combine(&c, a, DFA_OR, other, s->e);
        } else if (st == GLIM_OK) {
            st = spellings(s, true, &b);
            if (st == GLIM_OK)
                st = dfa_combine(&c, a, DFA_OR, b, s->e);
        }
        if (st == GLIM_OK)
            st = schema_dfa_put(s, &key, c, out);
    }
    dfa_free(a);
    dfa_free(b);
    str_fini(&key);
    return st;
}

static bool only_integers(const struct pure *p)
{
    bool integer = false;
    for (size_t i = 0; i < p->n && !integer; i++)
        schema_node_types(p->node[i], &integer);
    return integer;
}

/* Integers are spelled without a fraction; other numbers may have one of zeros. */
static glim_status spelled_numbers(struct sch *s, const struct pure *p, const struct dfa *values, struct dfa **out)
{
    const struct dfa *spelled, *whole;
    struct dfa *d;
    TRY(all_spellings(s, false, &spelled));
    TRY(dfa_combine(out, values, DFA_AND, spelled, s->e));
    if (!only_integers(p))
        return GLIM_OK;
    glim_status st = plain(s, INTEGER, &whole);
    if (st == GLIM_OK)
        st = dfa_combine(&d, *out, DFA_AND, whole, s->e);
    dfa_free(*out);
    *out = st == GLIM_OK ? d : NULL;
    return st;
}

glim_status number_build(struct sch *s, struct pure *p, grammar_node *out)
{
    static const char *const keyword[] = {"multipleOf", "minimum", "maximum"};
    const struct dfa *values, *spelled;
    struct dfa *d;
    struct str key = {0};
    glim_status st = number_values(s, p, &key, &values);
    if (st == GLIM_OK && !values)
        st = all_spellings(s, true, &spelled);
    else if (st == GLIM_OK) {
        str_puts(&key, only_integers(p) ? " spelled" : " spelled with fractions");
        if (!(spelled = schema_dfa_get(s, &key))) {
            st = spelled_numbers(s, p, values, &d);
            if (st == GLIM_OK)
                st = schema_dfa_put(s, &key, d, &spelled);
        }
    }
    str_fini(&key);
    if (st == GLIM_REFUSED)
        return pure_blame(s, p, keyword, sizeof keyword / sizeof *keyword);
    if (st == GLIM_OK)
        *out = grammar_dfa(s->b, spelled);
    return st;
}
