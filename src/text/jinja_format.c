/* Formatted text: `"%s" % x`, `"{}".format(x)` and strftime. */
#include "text/jinja_impl.h"
#include "text/unicode.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_WIDTH = 1 << 20, MAX_PREC = 300 };

/* One field: what both kinds of format ask for. */
struct spec {
    const char *fill; /* one character of n_fill bytes */
    size_t n_fill;
    char align; /* < > = ^, 0: the type's default */
    char sign;  /* - + or blank */
    bool alt, zero;
    char group;      /* , or _ between digits, or 0 */
    int width, prec; /* prec -1: not given */
    char type;       /* 0: not given */
    bool data;       /* the spec came from a client: what fills the field is data too */
};

/* Digits of a field's width or precision. */
static glim_status digits(struct jj *x, const char **p, const char *end, int max, int *out)
{
    *out = 0;
    while (*p < end && **p >= '0' && **p <= '9') {
        *out = *out * 10 + (*(*p)++ - '0');
        if (*out > max)
            return jj_fail(x, "have a field of more than %d characters, need less", max);
    }
    return GLIM_OK;
}

/* text in its field; prefix (sign, 0x) stays left of zeros when align is '='. */
static glim_status put_field(struct jj *x, struct jj_buf *b, const struct spec *s, const struct jj_str *prefix,
                             struct jj_str *text, char default_align)
{
    size_t n = jj_str_len(text) + prefix->n;
    size_t pad = (size_t)s->width > n ? (size_t)s->width - n : 0;
    char align = s->align ? s->align : default_align;
    size_t left = align == '>' || align == '=' ? pad : align == '^' ? pad / 2 : 0;
    const char *fill = s->n_fill ? s->fill : " ";
    size_t n_fill = s->n_fill ? s->n_fill : 1;
    if (align == '=')
        TRY(jj_buf_str(x, b, prefix));
    TRY(jj_buf_fill(x, b, fill, n_fill, left, s->data));
    if (align != '=')
        TRY(jj_buf_str(x, b, prefix));
    TRY(jj_buf_str(x, b, text));
    return jj_buf_fill(x, b, fill, n_fill, pad - left, s->data);
}

/* Put a separator between groups of `every` digits of the integer part; out has room for 2 n. */
static void group_digits(const char *in, char sep, size_t every, char *out)
{
    size_t n = strcspn(in, ".e%"), o = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % every == 0)
            out[o++] = sep;
        out[o++] = in[i];
    }
    memcpy(out + o, in + n, strlen(in + n) + 1);
}

/* Zeros between the sign and grouped digits count as digits of the groups. */
static void zero_grouped(const struct spec *s, size_t n_prefix, size_t every, const char *digits_in, char *out,
                         size_t n_out)
{
    char padded[1000];
    size_t n = strlen(digits_in), zeros = 0;
    group_digits(digits_in, s->group, every, out);
    while (n_prefix + strlen(out) < (size_t)s->width && n + zeros + 1 < sizeof padded / 2 && 2 * (n + zeros) < n_out) {
        zeros++;
        memset(padded, '0', zeros);
        memcpy(padded + zeros, digits_in, n + 1);
        group_digits(padded, s->group, every, out);
    }
}

static glim_status put_number(struct jj *x, struct jj_buf *b, const struct spec *s, bool negative, const char *base,
                              const char *digits_in, bool data)
{
    char prefix[8], text[2100];
    struct spec f = *s;
    size_t every = s->type == 'x' || s->type == 'X' || s->type == 'b' || s->type == 'o' ? 4 : 3;
    snprintf(prefix, sizeof prefix, "%s%s", negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "", base);
    bool zeros = s->zero && (!s->align || s->align == '=') && (!s->n_fill || s->fill[0] == '0');
    if (s->group && zeros)
        zero_grouped(s, strlen(prefix), every, digits_in, text, sizeof text);
    else if (s->group)
        group_digits(digits_in, s->group, every, text);
    else
        snprintf(text, sizeof text, "%s", digits_in);
    if (s->zero && !s->n_fill) {
        f.fill = "0";
        f.n_fill = 1;
        f.align = f.align ? f.align : '=';
    }
    struct jj_str pre = {.p = prefix, .n = strlen(prefix), .n_cp = strlen(prefix), .data = data || s->data};
    struct jj_str body = {.p = text, .n = strlen(text), .n_cp = strlen(text), .data = data || s->data};
    return put_field(x, b, &f, &pre, &body, '>');
}

static glim_status format_int(struct jj *x, struct jj_buf *b, const struct spec *s, int64_t i, bool data)
{
    char text[72];
    uint64_t v = i < 0 ? -(uint64_t)i : (uint64_t)i;
    size_t k = sizeof text - 1;
    uint64_t base = s->type == 'x' || s->type == 'X' ? 16 : s->type == 'o' ? 8 : s->type == 'b' ? 2 : 10;
    const char *prefix = !s->alt || base == 10 ? ""
                         : base == 2           ? "0b"
                         : base == 8           ? "0o"
                         : s->type == 'X'      ? "0X"
                                               : "0x";
    text[k] = 0;
    do
        text[--k] = (s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
    while ((v /= base) > 0);
    return put_number(x, b, s, i < 0, prefix, text + k, data);
}

/* repr-like for the missing type: shortest digits, or %g with one digit after the point kept. */
static void general(double f, int prec, char *out, size_t n)
{
    if (prec < 0) {
        jj_float_repr(f, out);
        return;
    }
    char sci[400];
    prec = prec ? prec : 1;
    jj_float_fmt(f, 'e', prec - 1, false, sci, sizeof sci);
    int exp = isfinite(f) ? atoi(strchr(sci, 'e') + 1) : 0;
    jj_float_fmt(f, 'g', prec, false, out, n);
    if (!isfinite(f) || strchr(out, '.') || strchr(out, 'e'))
        return;
    if (exp >= prec - 1) { /* Python shows at least one digit behind the point, so the exponent comes earlier */
        jj_float_fmt(f, 'e', prec - 1, true, out, n);
        char *e = strchr(out, 'e'), *p = e;
        while (p > out && p[-1] == '0')
            p--;
        p -= p > out && p[-1] == '.';
        memmove(p, e, strlen(e) + 1);
        return;
    }
    memcpy(out + strlen(out), ".0", 3);
}

static glim_status format_float(struct jj *x, struct jj_buf *b, const struct spec *s, double f, bool data)
{
    char text[1000];
    int prec = s->prec < 0 ? 6 : s->prec;
    bool negative = signbit(f) && !isnan(f);
    f = negative ? -f : f;
    if (s->type == 0)
        general(f, s->prec, text, sizeof text);
    else if (s->type == '%')
        jj_float_fmt(f * 100, 'f', prec, s->alt, text, sizeof text - 2);
    else
        jj_float_fmt(f, s->type == 'F' ? 'f' : s->type, s->type == 'g' || s->type == 'G' ? (prec ? prec : 1) : prec,
                     s->alt, text, sizeof text);
    if (s->type == '%')
        memcpy(text + strlen(text), "%", 2);
    if (s->type == 'F' || s->type == 'E' || s->type == 'G')
        for (char *p = text; *p; p++)
            *p = (char)(*p >= 'a' && *p <= 'z' ? *p & ~32 : *p);
    return put_number(x, b, s, negative, "", text, data);
}

/* The text's first prec characters in the field. */
static glim_status format_text(struct jj *x, struct jj_buf *b, const struct spec *s, struct jj_str *text,
                               char default_align)
{
    struct jj_val cut;
    struct jj_str none = {.p = ""};
    size_t n = jj_str_len(text);
    TRY(jj_work(x, text->n / 32));
    if (s->prec < 0 || (size_t)s->prec >= n)
        return put_field(x, b, s, &none, text, default_align);
    TRY(jj_str_sub(x, text, 0, jj_str_byte(text, (size_t)s->prec), &cut));
    return put_field(x, b, s, &none, cut.s, default_align);
}

/* ---- % ---- */

struct percent {
    struct jj_val args;
    size_t at; /* values used */
};

static glim_status next_arg(struct jj *x, struct percent *a, struct jj_val *out)
{
    bool is_tuple = a->args.type == JJ_TUPLE;
    if (a->at >= (is_tuple ? a->args.l->n : 1))
        return jj_fail(x, "have too few values for a %% format, need one for each field");
    *out = is_tuple ? a->args.l->v[a->at] : a->args;
    a->at++;
    return GLIM_OK;
}

static glim_status star_or_digits(struct jj *x, struct percent *a, const char **p, const char *end, int max, int *out)
{
    struct jj_val v;
    int64_t i;
    if (*p >= end || **p != '*')
        return digits(x, p, end, max, out);
    (*p)++;
    TRY(next_arg(x, a, &v));
    TRY(jj_arg_int(x, v, 0, &i));
    if (i > max || i < -max)
        return jj_fail(x, "have a field of more than %d characters, need less", max);
    *out = (int)i;
    return GLIM_OK;
}

/* From behind the % to the conversion's letter; a (key) sets *keyed. */
static glim_status percent_spec(struct jj *x, struct percent *a, const char **p, const char *end, struct spec *s,
                                struct jj_val *keyed)
{
    if (*p < end && **p == '(') {
        const char *q = ++*p;
        struct jj_val key;
        int open = 1;
        for (; q < end && open; q++)
            open += (*q == '(') - (*q == ')');
        if (open || a->args.type != JJ_DICT)
            return jj_fail(x, "have a %%(name) format without that, need a closed name and a dict");
        TRY(jj_str_ref(x, *p, (size_t)(q - 1 - *p), false, &key));
        struct jj_val *v;
        TRY(jj_dict_get(x, a->args.d, key, &v));
        if (!v)
            return jj_fail(x, "have no value for '%.*s' of a %% format, need one", (int)(key.s->n < 60 ? key.s->n : 60),
                           key.s->p);
        *keyed = *v;
        *p = q;
    }
    for (; *p < end && strchr("#0- +", **p) && **p; (*p)++) {
        s->alt |= **p == '#';
        s->zero |= **p == '0';
        s->align = **p == '-' ? '<' : s->align;
        s->sign = **p == '+' ? '+' : **p == ' ' && s->sign != '+' ? ' ' : s->sign;
    }
    TRY(star_or_digits(x, a, p, end, MAX_WIDTH, &s->width));
    if (s->width < 0) {
        s->width = -s->width;
        s->align = '<';
    }
    if (*p < end && **p == '.') {
        (*p)++;
        TRY(star_or_digits(x, a, p, end, MAX_WIDTH, &s->prec));
        s->prec = s->prec < 0 ? 0 : s->prec;
    }
    while (*p < end && strchr("hlL", **p) && **p)
        (*p)++;
    s->zero = s->zero && s->align != '<';
    return GLIM_OK;
}

static glim_status percent_int(struct jj *x, struct jj_buf *b, struct spec *s, char conv, struct jj_val v)
{
    char text[MAX_PREC + 80];
    bool hex = conv == 'x' || conv == 'X' || conv == 'o';
    if (v.type == JJ_UNDEF)
        return jj_undef_fail(x, v);
    if (v.type == JJ_FLOAT && !hex && isfinite(v.f) && fabs(v.f) < 0x1p63)
        v = (struct jj_val){.type = JJ_INT, .data = v.data, .i = (int64_t)v.f};
    if (v.type != JJ_INT && v.type != JJ_BOOL)
        return jj_fail(x, "have '%s' for %%%c, need an integer", jj_type_name(v), conv);
    if (s->prec > MAX_PREC)
        return jj_fail(x, "have a precision of %d, need at most %d", s->prec, MAX_PREC);
    int64_t i = jj_as_int(v);
    s->type = hex ? conv : 'd';
    if (s->prec < 0)
        return format_int(x, b, s, i, v.data);
    struct jj_buf tmp = {0}; /* the precision is the least number of digits */
    struct spec bare = {.width = s->prec, .zero = true, .prec = -1, .type = s->type};
    TRY(format_int(x, &tmp, &bare, i < 0 ? -(i + (i == INT64_MIN)) : i, v.data));
    if (i == INT64_MIN)
        return jj_fail(x, "have an integer beyond 64 bits, need a smaller one");
    snprintf(text, sizeof text, "%.*s", (int)tmp.n, tmp.p ? tmp.p : "");
    return put_number(x, b, s, i < 0,
                      s->alt && hex ? (conv == 'o'   ? "0o"
                                       : conv == 'x' ? "0x"
                                                     : "0X")
                                    : "",
                      text, v.data);
}

static glim_status percent_char(struct jj *x, struct jj_buf *b, struct spec *s, struct jj_val v)
{
    struct jj_buf tmp = {0};
    char utf8[4];
    s->prec = -1;
    if (v.type == JJ_STR && jj_str_len(v.s) == 1)
        return format_text(x, b, s, v.s, '>');
    int n = v.type == JJ_INT && v.i >= 0 && v.i <= 0x10FFFF ? utf8_encode((uint32_t)v.i, utf8) : 0;
    if (n == 0)
        return jj_fail(x, "have '%s' for %%c, need one character or its number", jj_type_name(v));
    TRY(jj_buf_add(x, &tmp, utf8, (size_t)n, v.data));
    TRY(jj_buf_done(x, &tmp, &v));
    return format_text(x, b, s, v.s, '>');
}

static glim_status percent_one(struct jj *x, struct jj_buf *b, struct spec *s, char conv, struct jj_val v)
{
    struct jj_buf tmp = {0};
    struct jj_val text;
    switch (conv) {
    case 's':
        TRY(jj_string(x, v, &text));
        return format_text(x, b, s, text.s, '>');
    case 'r':
        TRY(jj_repr(x, v, &tmp));
        TRY(jj_buf_done(x, &tmp, &text));
        return format_text(x, b, s, text.s, '>');
    case 'c':
        return percent_char(x, b, s, v);
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        return percent_int(x, b, s, conv, v);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (v.type == JJ_UNDEF)
            return jj_undef_fail(x, v);
        if (!jj_is_num(v))
            return jj_fail(x, "have '%s' for %%%c, need a number", jj_type_name(v), conv);
        if (s->prec > MAX_PREC)
            return jj_fail(x, "have a precision of %d, need at most %d", s->prec, MAX_PREC);
        s->type = conv;
        return format_float(x, b, s, jj_as_float(v), v.data);
    default:
        return jj_fail(x, "have the conversion %%%c, need one of s r c d i u o x X e E f F g G", conv ? conv : '?');
    }
}

/* `f % args`: a tuple gives its values in order, a dict those named; anything else is one value. */
glim_status jj_percent(struct jj *x, struct jj_str *f, struct jj_val args, struct jj_val *out)
{
    struct jj_buf b = {0};
    struct percent a = {.args = args};
    const char *p = f->p, *end = f->p + f->n;
    if (f->markup)
        return jj_fail(x, "have %% of escaped text, need plain text");
    while (p < end) {
        const char *q = memchr(p, '%', (size_t)(end - p));
        struct spec s = {.prec = -1, .data = f->data};
        struct jj_val v = {.type = JJ_MISSING};
        TRY(jj_buf_sub(x, &b, f, (size_t)(p - f->p), q ? (size_t)(q - f->p) : f->n));
        if (!q)
            break;
        p = q + 1;
        TRY(percent_spec(x, &a, &p, end, &s, &v));
        if (p >= end)
            return jj_fail(x, "have a %% format that ends early, need a conversion");
        TRY(jj_work(x, 1));
        if (*p == '%') {
            TRY(jj_buf_sub(x, &b, f, (size_t)(p - f->p), (size_t)(p - f->p) + 1));
            p++;
            continue;
        }
        if (v.type == JJ_MISSING)
            TRY(next_arg(x, &a, &v));
        TRY(percent_one(x, &b, &s, *p++, v));
    }
    bool subscripts = args.type == JJ_DICT || args.type == JJ_LIST || args.type == JJ_RANGE || args.type == JJ_UNDEF;
    if (args.type == JJ_TUPLE ? a.at < args.l->n : !subscripts && a.at == 0)
        return jj_fail(x, "have more values than fields of a %% format, need as many");
    return jj_buf_done(x, &b, out);
}

/* ---- str.format ---- */

struct fmt {
    struct jj *x;
    struct jj_call *c;
    size_t next; /* automatic number */
    bool automatic, manual;
};

static glim_status format_into(struct fmt *f, struct jj_buf *b, const struct jj_str *s, size_t from, size_t to,
                               int depth);

/* [[fill]align][sign][z][#][0][width][grouping][.precision][type] */
static glim_status parse_spec(struct jj *x, const struct jj_str *t, struct spec *s)
{
    const char *p = t->p, *end = t->p + t->n;
    *s = (struct spec){.prec = -1, .data = t->data};
    struct uc_char first = uc_at((const uint8_t *)p, (const uint8_t *)end);
    if (first.len && p + first.len < end && p[first.len] && strchr("<>=^", p[first.len])) {
        s->fill = p;
        s->n_fill = first.len;
        s->align = p[first.len];
        p += first.len + 1;
    } else if (p < end && *p && strchr("<>=^", *p)) {
        s->align = *p++;
    }
    if (p < end && *p && strchr("+- ", *p))
        s->sign = *p++;
    s->alt = p < end && *p == '#';
    p += s->alt;
    s->zero = p < end && *p == '0';
    p += s->zero;
    TRY(digits(x, &p, end, MAX_WIDTH, &s->width));
    if (p < end && (*p == ',' || *p == '_'))
        s->group = *p++;
    if (p < end && *p == '.') {
        const char *before = ++p;
        TRY(digits(x, &p, end, MAX_WIDTH, &s->prec));
        if (p == before)
            return jj_fail(x, "have a format without digits behind the point, need some");
    }
    if (p < end)
        s->type = *p++;
    return p == end
               ? GLIM_OK
               : jj_fail(x, "have an unknown format '%.*s', need one of Python's", (int)(t->n < 60 ? t->n : 60), t->p);
}

static glim_status bad_type(struct jj *x, const struct spec *s, struct jj_val v)
{
    return jj_fail(x, "have the format '%c' for a value of type '%s', need one that fits", s->type ? s->type : ' ',
                   jj_type_name(v));
}

/* format(v, spec) */
static glim_status format_value(struct jj *x, struct jj_buf *b, struct jj_val v, const struct jj_str *spec)
{
    struct spec s;
    if (spec->n == 0)
        return jj_print(x, b, v);
    TRY(parse_spec(x, spec, &s));
    if (v.type == JJ_STR) {
        if ((s.type && s.type != 's') || s.sign || s.alt || s.group || s.align == '=')
            return bad_type(x, &s, v);
        if (s.zero && !s.n_fill) {
            s.fill = "0";
            s.n_fill = 1;
        }
        return format_text(x, b, &s, v.s, '<');
    }
    if (v.type == JJ_UNDEF || !jj_is_num(v)) /* object.__format__ takes no spec */
        return bad_type(x, &s, v);
    bool as_float = s.type && strchr("eEfFgG%", s.type);
    if (v.type != JJ_FLOAT && !as_float) {
        if ((s.type && !strchr("dboxX", s.type)) || s.prec >= 0)
            return bad_type(x, &s, v);
        return format_int(x, b, &s, jj_as_int(v), v.data);
    }
    if ((s.type && !as_float) || s.prec > MAX_PREC || (s.alt && !s.type && s.prec >= 0))
        return bad_type(x, &s, v);
    return format_float(x, b, &s, jj_as_float(v), v.data);
}

static glim_status number_field(struct fmt *f, const char *p, size_t n, struct jj_val *out)
{
    struct jj *x = f->x;
    size_t i = 0;
    f->manual |= n > 0;
    f->automatic |= n == 0;
    if (f->manual && f->automatic)
        return jj_fail(x, "have fields with and without numbers in one format, need one kind");
    for (size_t k = 0; k < n; k++)
        i = i < 100000 ? i * 10 + (size_t)(p[k] - '0') : i;
    i = n ? i : f->next++;
    if (i >= f->c->n_pos)
        return jj_fail(x, "have no value %zu for a format, need one for each field", i);
    *out = f->c->pos[i];
    return GLIM_OK;
}

static bool is_number(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9')
            return false;
    return true;
}

static glim_status named_field(struct fmt *f, const char *p, size_t n, struct jj_val *out)
{
    for (size_t i = 0; i < f->c->n_kw; i++) {
        struct jj_val k = f->c->kw[i].key;
        if (k.type == JJ_STR && k.s->n == n && memcmp(k.s->p, p, n) == 0) {
            *out = f->c->kw[i].v;
            return GLIM_OK;
        }
    }
    return jj_fail(f->x, "have no value '%.*s' for a format, need one for each field", (int)(n < 60 ? n : 60), p);
}

/* "0.name[key]" */
static glim_status field_value(struct fmt *f, const char *p, size_t n, struct jj_val *out)
{
    size_t at = 0;
    struct jj_val key;
    while (at < n && p[at] != '.' && p[at] != '[')
        at++;
    TRY(is_number(p, at) ? number_field(f, p, at, out) : named_field(f, p, at, out));
    while (at < n) {
        bool dot = p[at] == '.';
        size_t from = ++at;
        while (at < n && (dot ? p[at] != '.' && p[at] != '[' : p[at] != ']'))
            at++;
        if ((!dot && at == n) || at == from)
            return jj_fail(f->x, "have a field of a format that is not closed, need one that is");
        TRY(jj_str_ref(f->x, p + from, at - from, false, &key));
        if (dot)
            TRY(jj_getattr(f->x, *out, key, out));
        else
            TRY(jj_getitem(f->x, *out,
                           is_number(p + from, at - from) && at - from < 18 ? jj_int(strtoll(p + from, NULL, 10)) : key,
                           out));
        at += !dot;
        if (!dot && at < n && p[at] != '.' && p[at] != '[')
            return jj_fail(f->x, "have text behind ] in a field of a format, need . or [");
    }
    return GLIM_OK;
}

/* name[!conversion][:spec] between from and to. */
static glim_status one_field(struct fmt *f, struct jj_buf *b, const struct jj_str *s, size_t from, size_t to, int depth)
{
    struct jj *x = f->x;
    size_t name = from, spec_at;
    int square = 0;
    for (; name < to && (square || (s->p[name] != '!' && s->p[name] != ':')); name++)
        square += (s->p[name] == '[') - (s->p[name] == ']' && square);
    char conv = name + 1 < to && s->p[name] == '!' ? s->p[name + 1] : 0;
    spec_at = conv ? name + 2 : name;
    if ((name < to && s->p[name] == '!' && !conv) || (spec_at < to && s->p[spec_at] != ':') ||
        (conv && conv != 's' && conv != 'r'))
        return jj_fail(x, "have a field of a format that is none, need {name!r:spec}");
    struct jj_val v, spec;
    struct jj_buf tmp = {0}, spec_text = {0};
    TRY(field_value(f, s->p + from, name - from, &v));
    if (spec_at < to)
        TRY(format_into(f, &spec_text, s, spec_at + 1, to, depth + 1));
    TRY(jj_buf_done(x, &spec_text, &spec));
    if (conv == 's')
        TRY(jj_string(x, v, &v));
    if (conv == 'r') {
        TRY(jj_repr(x, v, &tmp));
        TRY(jj_buf_done(x, &tmp, &v));
    }
    return format_value(x, b, v, spec.s);
}

static glim_status format_into(struct fmt *f, struct jj_buf *b, const struct jj_str *s, size_t from, size_t to,
                               int depth)
{
    struct jj *x = f->x;
    if (depth > 1)
        return jj_fail(x, "have fields nested in a format's field, need one level");
    for (size_t at = from; at < to;) {
        char c = s->p[at];
        bool twice = at + 1 < to && s->p[at + 1] == c;
        TRY(jj_work(x, 1));
        if (c != '{' && c != '}') {
            size_t end = at;
            while (end < to && s->p[end] != '{' && s->p[end] != '}')
                end++;
            TRY(jj_buf_sub(x, b, s, at, end));
            at = end;
        } else if (twice && depth == 0) {
            TRY(jj_buf_sub(x, b, s, at, at + 1));
            at += 2;
        } else if (c == '}') {
            return jj_fail(x, "have a single } in a format, need two or a field");
        } else {
            size_t end = ++at;
            for (int open = 1; end < to; end++) {
                open += (s->p[end] == '{') - (s->p[end] == '}');
                if (open == 0)
                    break;
            }
            if (end == to)
                return jj_fail(x, "have a field of a format that is not closed, need }");
            TRY(one_field(f, b, s, at, end, depth));
            at = end + 1;
        }
    }
    return GLIM_OK;
}

glim_status jj_str_format(struct jj *x, struct jj_str *s, struct jj_call *c, struct jj_val *out)
{
    struct fmt f = {.x = x, .c = c};
    struct jj_buf b = {0};
    if (s->markup)
        return jj_fail(x, "have format of escaped text, need plain text");
    TRY(format_into(&f, &b, s, 0, s->n, 0));
    return jj_buf_done(x, &b, out);
}

/* ---- strftime ---- */

/* One conversion, from behind the % to its letter. Dates have no zone, as Python's datetime.now(). */
static glim_status time_field(struct jj *x, struct jj_buf *b, const char *p, size_t n, bool data)
{
    char format[8] = "%", text[256];
    char c = p[n - 1];
    if (n > 2 || !strchr("aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyYZzf%", c) || c == 0)
        return jj_fail(x, "have %%%.*s for strftime_now, need a conversion that is implemented", (int)(n < 8 ? n : 8),
                       p);
    if (c == 'Z' || c == 'z')
        return GLIM_OK;
    if (c == 'f')
        return jj_buf_z(x, b, "000000", data);
    memcpy(format + 1, p, n);
    locale_t l = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!l)
        return err_nomem(x->e, "the C locale", 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t len = strftime_l(text, sizeof text, format, x->now, l);
#pragma GCC diagnostic pop
    freelocale(l);
    return jj_buf_add(x, b, text, len, data);
}

glim_status jj_strftime(struct jj *x, struct jj_str *f, struct jj_val *out)
{
    struct jj_buf b = {0};
    for (size_t at = 0; at < f->n;) {
        size_t to = at;
        while (to < f->n && f->p[to] != '%')
            to++;
        TRY(jj_buf_sub(x, &b, f, at, to));
        at = to + 1;
        if (to == f->n)
            break;
        size_t n = 1;
        while (at + n <= f->n && strchr("-_0^#", f->p[at + n - 1]) && f->p[at + n - 1])
            n++;
        if (at + n > f->n)
            return jj_fail(x, "have a format for strftime_now that ends early, need a conversion behind %%");
        TRY(jj_work(x, 64));
        TRY(time_field(x, &b, f->p + at, n, jj_str_data_in(f, to, at + n)));
        at += n;
    }
    return jj_buf_done(x, &b, out);
}
