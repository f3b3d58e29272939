/* Filters of one value: text, numbers, escapes, JSON. Those of sequences are in jinja_filter_seq.c. */
#include "text/jinja_impl.h"
#include "text/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- text ---- */

/* A filter that is a method of the value's text. Escaped text stays escaped. */
static glim_status as_method(struct jj *x, struct jj_call *c, const char *name, struct jj_val *out)
{
    struct jj_call m = *c;
    bool markup = c->self.type == JJ_STR && c->self.s->markup;
    TRY(jj_string(x, c->self, &m.self));
    const struct jj_fn *fn = jj_fn_find(jj_str_methods, name, strlen(name));
    TRY(fn->fn(x, &m, out));
    if (markup && out->type == JJ_STR && out->s->n_cp != 1)
        out->s->markup = true;
    return GLIM_OK;
}

static glim_status f_upper(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return as_method(x, c, "upper", out);
}

static glim_status f_lower(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return as_method(x, c, "lower", out);
}

static glim_status f_capitalize(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return as_method(x, c, "capitalize", out);
}

static glim_status f_trim(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return as_method(x, c, "strip", out);
}

static glim_status f_center(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    if (c->arg[0].type == JJ_MISSING)
        c->arg[0] = jj_int(80);
    return as_method(x, c, "center", out);
}

/* Words begin after white space and after - ( { [ <. */
static glim_status f_title(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_buf b = {0};
    struct jj_str *s;
    struct jj_val piece, cased;
    TRY(jj_text_arg(x, c->self, &s));
    for (size_t at = 0; at < s->n;) {
        size_t from = at;
        bool first = true, sep = false;
        while (at < s->n) {
            struct uc_char ch = uc_at((const uint8_t *)s->p + at, (const uint8_t *)s->p + s->n);
            bool is = jj_space(ch.cp) || (ch.cp < 128 && strchr("-({[<", (int)ch.cp) && ch.cp);
            if (!first && is != sep)
                break;
            sep = is;
            first = false;
            at += ch.len;
        }
        size_t rest = from + uc_at((const uint8_t *)s->p + from, (const uint8_t *)s->p + s->n).len;
        TRY(jj_str_sub(x, s, from, rest, &piece));
        TRY(jj_recase(x, piece.s, JJ_UPPER, &cased));
        TRY(jj_buf_str(x, &b, cased.s));
        TRY(jj_str_sub(x, s, rest, at, &piece));
        TRY(jj_recase(x, piece.s, JJ_LOWER, &cased));
        TRY(jj_buf_str(x, &b, cased.s));
    }
    return jj_buf_done(x, &b, out);
}

static glim_status f_string(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_string(x, c->self, out);
}

static glim_status f_replace(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_call m = *c;
    if (m.arg[2].type == JJ_NONE)
        m.arg[2].type = JJ_MISSING;
    TRY(jj_string(x, c->arg[0], &m.arg[0]));
    TRY(jj_string(x, c->arg[1], &m.arg[1]));
    TRY(jj_string(x, c->self, &m.self));
    return jj_fn_find(jj_str_methods, "replace", 7)->fn(x, &m, out);
}

static glim_status need_text(struct jj *x, struct jj_call *c, struct jj_str **s)
{
    *s = c->self.type == JJ_STR ? c->self.s : NULL;
    if (c->self.type == JJ_UNDEF)
        return jj_undef_fail(x, c->self);
    if (!*s)
        return jj_fail(x, "have '%s' to filter, need text", jj_type_name(c->self));
    return GLIM_OK;
}

/* The lines of the text, as splitlines gives them for text + "\n": at least one. */
static glim_status lines_of(struct jj *x, struct jj_val text, struct jj_val *out)
{
    struct jj_call c = {.n_kw = 0};
    struct jj_buf b = {0};
    TRY(jj_buf_str(x, &b, text.s));
    TRY(jj_buf_z(x, &b, "\n", false));
    TRY(jj_buf_done(x, &b, &c.self));
    return jj_fn_find(jj_str_methods, "splitlines", 10)->fn(x, &c, out);
}

static glim_status f_indent(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s;
    struct jj_buf b = {0}, in = {0};
    struct jj_val lines, fill = c->arg[0];
    int64_t width;
    bool first = jj_arg_true(c->arg[1], false), blank = jj_arg_true(c->arg[2], false);
    TRY(need_text(x, c, &s));
    if (fill.type != JJ_STR) {
        TRY(jj_arg_int(x, fill, 4, &width));
        TRY(jj_buf_fill(x, &in, " ", 1, width > 0 ? (size_t)width : 0, fill.data));
        TRY(jj_buf_done(x, &in, &fill));
    }
    TRY(lines_of(x, c->self, &lines));
    for (size_t i = 0; i < lines.l->n; i++) {
        struct jj_str *line = lines.l->v[i].s;
        if (i)
            TRY(jj_buf_z(x, &b, "\n", false));
        if (i ? blank || line->n : first)
            TRY(jj_buf_str(x, &b, fill.s));
        TRY(jj_buf_str(x, &b, line));
    }
    TRY(jj_buf_done(x, &b, out));
    out->s->markup = s->markup;
    return GLIM_OK;
}

/* Bytes of the first n characters. */
static size_t head(const struct jj_str *s, int64_t n)
{
    return jj_str_byte(s, (size_t)n);
}

static glim_status f_truncate(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s, dots = {.p = "...", .n = 3, .n_cp = 3}, *end = &dots;
    struct jj_buf b = {0};
    int64_t length, leeway;
    bool kill = jj_arg_true(c->arg[1], false);
    size_t n_self;
    TRY(jj_len(x, c->self, &n_self));
    TRY(jj_arg_int(x, c->arg[0], 255, &length));
    if (c->arg[2].type != JJ_MISSING)
        TRY(jj_text_arg(x, c->arg[2], &end));
    TRY(jj_arg_int(x, c->arg[3].type == JJ_NONE ? jj_int(5) : c->arg[3], 5, &leeway));
    int64_t n_end = (int64_t)jj_str_len(end), n = (int64_t)n_self;
    if (length < n_end || leeway < 0)
        return jj_fail(x, "have a text truncated to %lld characters, need at least %lld and no negative leeway",
                       (long long)length, (long long)n_end);
    if (n - leeway <= length) {
        *out = c->self;
        return GLIM_OK;
    }
    TRY(need_text(x, c, &s));
    TRY(jj_work(x, s->n / 32));
    size_t cut = head(s, length - n_end);
    if (!kill)
        for (size_t i = cut; i-- > 0;)
            if (s->p[i] == ' ') {
                cut = i;
                break;
            }
    TRY(jj_buf_sub(x, &b, s, 0, cut));
    TRY(jj_buf_str(x, &b, end));
    return jj_buf_done(x, &b, out);
}

static glim_status f_wordcount(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_str *s;
    int64_t n = 0;
    bool inside = false;
    TRY(jj_text_arg(x, c->self, &s));
    TRY(jj_work(x, s->n / 8));
    for (size_t at = 0; at < s->n;) {
        struct uc_char ch = uc_at((const uint8_t *)s->p + at, (const uint8_t *)s->p + s->n);
        bool word = ch.cp == '_' || (ch.cls & (UC_L | UC_N));
        n += word && !inside;
        inside = word;
        at += ch.len;
    }
    *out = jj_int(n);
    return GLIM_OK;
}

static glim_status f_format(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val args;
    struct jj_str *s;
    if (c->n_pos && c->n_kw)
        return jj_fail(x, "have positions and keywords for format, need one of them");
    TRY(jj_text_arg(x, c->self, &s));
    if (c->n_kw) {
        TRY(jj_dict_new(x, c->n_kw, &args));
        for (size_t i = 0; i < c->n_kw; i++)
            TRY(jj_dict_set(x, args.d, c->kw[i].key, c->kw[i].v));
    } else {
        TRY(jj_list_new(x, JJ_TUPLE, c->n_pos, &args));
        for (size_t i = 0; i < c->n_pos; i++)
            args.l->v[args.l->n++] = c->pos[i];
    }
    return jj_percent(x, s, args, out);
}

/* ---- escapes ---- */

static glim_status f_escape(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    return jj_escape(x, c->self, out);
}

static glim_status plain_copy(struct jj *x, struct jj_val v, struct jj_val *out)
{
    TRY(jj_string(x, v, out));
    return jj_str_sub(x, out->s, 0, out->s->n, out);
}

static glim_status f_forceescape(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    TRY(plain_copy(x, c->self, out));
    return jj_escape(x, *out, out);
}

static glim_status f_safe(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    TRY(plain_copy(x, c->self, out));
    out->s->markup = true;
    return GLIM_OK;
}

/* Bytes other than letters, digits, _.-~ and those of `keep` become %XX. */
static glim_status quote(struct jj *x, struct jj_buf *b, struct jj_val v, bool query)
{
    struct jj_str *s;
    char hex[4];
    TRY(jj_text_arg(x, v, &s));
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->p[i];
        bool data = jj_str_data_in(s, i, i + 1);
        bool keep = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                    (c && strchr(query ? "_.-~" : "_.-~/", c));
        TRY(jj_work(x, 1));
        snprintf(hex, sizeof hex, keep ? "%c" : "%%%02X", c);
        TRY(jj_buf_z(x, b, query && c == ' ' ? "+" : hex, data));
    }
    return GLIM_OK;
}

static glim_status f_urlencode(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_buf b = {0};
    struct jj_val list = c->self, pair;
    bool single = list.type == JJ_STR || list.type == JJ_NONE || jj_is_num(list);
    if (single) {
        TRY(quote(x, &b, list, false));
        return jj_buf_done(x, &b, out);
    }
    if (list.type == JJ_DICT) {
        struct jj_call m = {.self = list};
        TRY(jj_fn_find(jj_dict_methods, "items", 5)->fn(x, &m, &list));
    }
    TRY(jj_to_list(x, list, &list));
    for (size_t i = 0; i < list.l->n; i++) {
        TRY(jj_to_list(x, list.l->v[i], &pair));
        if (pair.l->n != 2)
            return jj_fail(x, "have %zu values for a pair, need 2", pair.l->n);
        if (i)
            TRY(jj_buf_z(x, &b, "&", false));
        TRY(quote(x, &b, pair.l->v[0], true));
        TRY(jj_buf_z(x, &b, "=", false));
        TRY(quote(x, &b, pair.l->v[1], true));
    }
    return jj_buf_done(x, &b, out);
}

static glim_status f_xmlattr(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_buf b = {0};
    bool space = jj_arg_true(c->arg[0], true);
    if (c->self.type != JJ_DICT)
        return jj_fail(x, "have '%s' for xmlattr, need a dict", jj_type_name(c->self));
    for (size_t i = 0; i < c->self.d->n; i++) {
        struct jj_pair *p = &c->self.d->p[i];
        struct jj_val e;
        if (p->v.type == JJ_NONE || p->v.type == JJ_UNDEF)
            continue;
        if (p->key.type != JJ_STR)
            return jj_fail(x, "have a key of type '%s' for xmlattr, need text", jj_type_name(p->key));
        for (size_t k = 0; k < p->key.s->n; k++)
            if (strchr(" \t\n\r\f\v/>=", p->key.s->p[k]))
                return jj_fail(x, "have a key for xmlattr with a blank or one of />=, need a name");
        if (b.n || space)
            TRY(jj_buf_z(x, &b, " ", false));
        TRY(jj_escape(x, p->key, &e));
        TRY(jj_buf_str(x, &b, e.s));
        TRY(jj_buf_z(x, &b, "=\"", false));
        TRY(jj_escape(x, p->v, &e));
        TRY(jj_buf_str(x, &b, e.s));
        TRY(jj_buf_z(x, &b, "\"", false));
    }
    return jj_buf_done(x, &b, out);
}

/* ---- JSON ---- */

static glim_status separators(struct jj *x, struct jj_val v, struct jj_json *how)
{
    struct jj_val list;
    if (v.type == JJ_MISSING || v.type == JJ_NONE)
        return GLIM_OK;
    TRY(jj_to_list(x, v, &list));
    if (list.l->n != 2 || list.l->v[0].type != JJ_STR || list.l->v[1].type != JJ_STR)
        return jj_fail(x, "have other separators for tojson, need two texts");
    how->item_sep = list.l->v[0].s;
    how->key_sep = list.l->v[1].s;
    return GLIM_OK;
}

/* tojson as transformers defines it: no HTML escapes, Python's defaults. */
static glim_status f_tojson(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_json how = {.ascii = jj_arg_true(c->arg[0], false), .sort = jj_arg_true(c->arg[3], false)};
    struct jj_val indent = c->arg[1];
    struct jj_buf b = {0};
    if (indent.type == JJ_INT || indent.type == JJ_BOOL) {
        int64_t n = jj_as_int(indent);
        TRY(jj_buf_fill(x, &b, " ", 1, n > 0 ? (size_t)n : 0, indent.data));
        TRY(jj_buf_done(x, &b, &indent));
    } else if (indent.type != JJ_STR && indent.type != JJ_MISSING && indent.type != JJ_NONE) {
        return jj_fail(x, "have '%s' as the indent of tojson, need an integer or text", jj_type_name(indent));
    }
    how.pretty = indent.type == JJ_STR;
    how.indent = how.pretty ? indent.s : NULL;
    TRY(separators(x, c->arg[2], &how));
    return jj_to_json(x, c->self, &how, out);
}

/* ---- numbers ---- */

static glim_status f_abs(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val v = c->self;
    bool negative = jj_is_num(v) && jj_as_float(v) < 0;
    if (v.type == JJ_FLOAT && v.f == 0) {
        *out = v;
        out->f = 0;
        return GLIM_OK;
    }
    return jj_negate(x, v, negative, out);
}

static glim_status f_round(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val v = c->self, method = c->arg[1];
    int64_t precision;
    char text[400];
    TRY(jj_arg_int(x, c->arg[0], 0, &precision));
    bool ceiling = jj_is(method, "ceil"), floored = jj_is(method, "floor");
    if (method.type != JJ_MISSING && !ceiling && !floored && !jj_is(method, "common"))
        return jj_fail(x, "have another method for round, need common, ceil or floor");
    if (v.type == JJ_UNDEF)
        return jj_undef_fail(x, v);
    if (!jj_is_num(v))
        return jj_fail(x, "have '%s' for round, need a number", jj_type_name(v));
    if (precision < -20 || precision > 60)
        return jj_fail(x, "have a precision of %lld for round, need -20 to 60", (long long)precision);
    double f = jj_as_float(v), scale = pow(10, (double)precision);
    if (ceiling || floored) {
        *out = jj_float((ceiling ? ceil(f * scale) : floor(f * scale)) / scale);
    } else if (v.type != JJ_FLOAT) {
        if (precision < 0)
            return jj_fail(x, "have an integer rounded to tens, need a precision of at least 0");
        *out = jj_int(jj_as_int(v));
    } else if (precision < 0 || !isfinite(f)) {
        *out = jj_float(isfinite(f) ? nearbyint(f * scale) / scale : f);
    } else { /* the exact decimal value, rounded half to even, read back */
        jj_float_fmt(f, 'f', (int)precision, false, text, sizeof text);
        if (!parse_f64(text, &f))
            return jj_fail(x, "have a number too large for round, need a smaller one");
        *out = jj_float(f);
    }
    out->data = v.data;
    return GLIM_OK;
}

/* Single underscores between digits go; any other underscore makes it no number. */
static bool drop_underscores(char *text)
{
    char *o = text;
    for (const char *p = text; *p; p++) {
        bool digit_before = p > text && p[-1] >= '0' && p[-1] <= '9', digit_after = p[1] >= '0' && p[1] <= '9';
        if (*p == '_' && !(digit_before && digit_after))
            return false;
        if (*p != '_')
            *o++ = *p;
    }
    *o = 0;
    return true;
}

/* Text without the white space around it and the underscores between digits; false when it is no such text. */
static bool number_text(const struct jj_str *s, char *out, size_t n)
{
    const uint8_t *p = (const uint8_t *)s->p, *end = p + s->n;
    size_t k = 0;
    bool blank = false; /* white space may only stand at either end */
    for (struct uc_char c; (c = uc_at(p, end)).len; p += c.len) {
        bool space = jj_space(c.cp);
        if (space && k == 0)
            continue;
        blank |= space;
        if (space)
            continue;
        char ascii = c.cp < 128 ? (char)c.cp : jj_digit(c.cp, true) ? (char)('0' + jj_digit_value(c.cp)) : 0;
        if (blank || ascii == 0 || k + 1 >= n)
            return false;
        out[k++] = ascii;
    }
    out[k] = 0;
    return k > 0 && drop_underscores(out);
}

/* float(text): decimal, or inf and nan in Python's spellings. */
static bool text_float(const struct jj_str *s, double *f)
{
    char text[400];
    if (!number_text(s, text, sizeof text))
        return false;
    const char *p = text + (*text == '+' || *text == '-');
    bool nan = strcasecmp(p, "nan") == 0;
    if (nan || strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0) {
        *f = nan ? (double)NAN : *text == '-' ? -(double)INFINITY : (double)INFINITY;
        return true;
    }
    if (*p == '+' || *p == '-' || strpbrk(p, "xXpP"))
        return false;
    char plain[402]; /* parse_f64 wants digits on both sides of the point */
    const char *dot = strchr(p, '.');
    bool before = dot && dot > p, after = dot && dot[1] >= '0' && dot[1] <= '9';
    if (dot && !before && !after)
        return false;
    if (!dot)
        snprintf(plain, sizeof plain, "%s", p);
    else
        snprintf(plain, sizeof plain, "%s%.*s.%s%s", before ? "" : "0", (int)(dot - p), p, after ? "" : "0", dot + 1);
    if (!parse_f64(plain, f) && !isinf(*f))
        return false;
    *f = *text == '-' ? -*f : *f;
    return true;
}

/* int(text, base); *big: digits were fine but the value does not fit. */
static bool text_int(const struct jj_str *s, int base, int64_t *i, bool *big)
{
    char text[400], *p = text;
    *big = false;
    if (!number_text(s, text, sizeof text))
        return false;
    bool minus = *p == '-';
    p += *p == '-' || *p == '+';
    if (*p == '0' && p[1]) {
        int named = (p[1] | 32) == 'x' ? 16 : (p[1] | 32) == 'o' ? 8 : (p[1] | 32) == 'b' ? 2 : 0;
        if (named && (base == named || base == 0)) {
            base = named;
            p += 2;
        }
    }
    uint64_t v = 0;
    if (!*p)
        return false;
    for (; *p; p++) {
        int d = *p >= '0' && *p <= '9' ? *p - '0' : (*p | 32) >= 'a' && (*p | 32) <= 'z' ? (*p | 32) - 'a' + 10 : 99;
        if (d >= (base ? base : 10))
            return false;
        *big |= __builtin_mul_overflow(v, (uint64_t)(base ? base : 10), &v);
        *big |= __builtin_add_overflow(v, (uint64_t)d, &v);
    }
    *big |= v > (uint64_t)INT64_MAX;
    *i = minus ? -(int64_t)(v & INT64_MAX) : (int64_t)(v & INT64_MAX);
    return true;
}

static glim_status float_to_int(struct jj *x, double f, struct jj_val def, struct jj_val *out)
{
    if (!isfinite(f)) {
        *out = def;
        return GLIM_OK;
    }
    if (f >= 0x1p63 || f < -0x1p63)
        return jj_fail(x, "have an integer beyond 64 bits, need a smaller one");
    *out = jj_int((int64_t)f);
    return GLIM_OK;
}

static glim_status f_int(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val v = c->self, def = c->arg[0].type == JJ_MISSING ? jj_int(0) : c->arg[0];
    int64_t base, i;
    double f;
    bool big = false;
    TRY(jj_arg_int(x, c->arg[1], 10, &base));
    bool good_base = base == 0 || (base >= 2 && base <= 36);
    *out = def;
    if (v.type == JJ_UNDEF)
        return jj_undef_fail(x, v);
    if (v.type == JJ_STR && good_base && text_int(v.s, (int)base, &i, &big)) {
        if (big)
            return jj_fail(x, "have an integer beyond 64 bits, need a smaller one");
        *out = jj_int(i);
    } else if (v.type == JJ_STR && text_float(v.s, &f)) {
        TRY(float_to_int(x, f, def, out));
    } else if (v.type == JJ_FLOAT) {
        TRY(float_to_int(x, v.f, def, out));
    } else if (v.type == JJ_INT || v.type == JJ_BOOL) {
        *out = jj_int(jj_as_int(v));
    }
    out->data |= v.data || (v.type == JJ_STR && v.s->data);
    return GLIM_OK;
}

static glim_status f_float(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    struct jj_val v = c->self;
    double f;
    *out = c->arg[0].type == JJ_MISSING ? jj_float(0) : c->arg[0];
    if (v.type == JJ_UNDEF)
        return jj_undef_fail(x, v);
    if (jj_is_num(v))
        *out = jj_float(jj_as_float(v));
    else if (v.type == JJ_STR && text_float(v.s, &f))
        *out = jj_float(f);
    out->data |= v.data || (v.type == JJ_STR && v.s->data);
    return GLIM_OK;
}

static glim_status f_filesizeformat(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    static const char *const unit[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    struct jj_buf b = {0};
    struct jj_val v;
    char number[400], text[440];
    bool binary = jj_arg_true(c->arg[0], false);
    double base = binary ? 1024 : 1000, f, scale;
    c->arg[0].type = JJ_MISSING;
    if (c->self.type == JJ_STR ? !text_float(c->self.s, &f) : !jj_is_num(c->self))
        return jj_fail(x, "have '%s' for filesizeformat, need a number", jj_type_name(c->self));
    TRY(f_float(x, c, &v));
    f = v.f;
    if (f == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (f < base) {
        if (!(f > -0x1p63))
            return jj_fail(x, "have a number out of range for filesizeformat, need a size");
        snprintf(text, sizeof text, "%lld Bytes", (long long)f);
    } else {
        size_t i = 0;
        scale = base * base;
        for (; i < 7 && !(f < scale); i++)
            scale *= base;
        jj_float_fmt(base * f / scale, 'f', 1, false, number, sizeof number);
        if (binary)
            snprintf(text, sizeof text, "%s %ciB", number, unit[i][0] & ~32);
        else
            snprintf(text, sizeof text, "%s %s", number, unit[i]);
    }
    TRY(jj_buf_z(x, &b, text, v.data));
    return jj_buf_done(x, &b, out);
}

/* ---- anything ---- */

static glim_status f_default(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    bool use = c->self.type == JJ_UNDEF || (jj_arg_true(c->arg[1], false) && !jj_true(c->self));
    *out = c->self;
    if (!use)
        return GLIM_OK;
    if (c->arg[0].type == JJ_MISSING)
        return jj_str_z(x, "", out);
    *out = c->arg[0];
    return GLIM_OK;
}

static glim_status f_attr(struct jj *x, struct jj_call *c, struct jj_val *out)
{
    bool found = false;
    if (c->arg[0].type != JJ_STR)
        return jj_fail(x, "have '%s' as the name for attr, need text", jj_type_name(c->arg[0]));
    if (c->self.type == JJ_UNDEF)
        return jj_undef_fail(x, c->self);
    TRY(jj_pyattr(x, c->self, c->arg[0].s->p, c->arg[0].s->n, &found, out));
    return found ? GLIM_OK : jj_undef_attr(x, c->self, c->arg[0], out);
}

const struct jj_fn jj_filters[] = {
    {"abs", f_abs, "", 0},
    {"attr", f_attr, "name", 1},
    {"capitalize", f_capitalize, "", 0},
    {"center", f_center, "width", 0},
    {"d", f_default, "default_value boolean", 0},
    {"default", f_default, "default_value boolean", 0},
    {"e", f_escape, "", 0},
    {"escape", f_escape, "", 0},
    {"filesizeformat", f_filesizeformat, "binary", 0},
    {"float", f_float, "default", 0},
    {"forceescape", f_forceescape, "", 0},
    {"format", f_format, "*", 0},
    {"indent", f_indent, "width first blank", 0},
    {"int", f_int, "default base", 0},
    {"lower", f_lower, "", 0},
    {"replace", f_replace, "old new count", 2},
    {"round", f_round, "precision method", 0},
    {"safe", f_safe, "", 0},
    {"string", f_string, "", 0},
    {"title", f_title, "", 0},
    {"tojson", f_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"trim", f_trim, "chars", 0},
    {"truncate", f_truncate, "length killwords end leeway", 0},
    {"upper", f_upper, "", 0},
    {"urlencode", f_urlencode, "", 0},
    {"wordcount", f_wordcount, "", 0},
    {"xmlattr", f_xmlattr, "autospace", 0},
    JJ_REFUSE("pprint"),
    JJ_REFUSE("random"),
    JJ_REFUSE("striptags"),
    JJ_REFUSE("urlize"),
    JJ_REFUSE("wordwrap"),
    {NULL, NULL, NULL, 0},
};
