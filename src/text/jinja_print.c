/* Values as text: str(), repr() and JSON, byte for byte as Python writes them. */
#include "text/jinja_impl.h"
#include "text/unicode.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- numbers ---- */

static int format_double(char *out, size_t n, double f, char conv, int prec, bool alt)
{
    char fmt[8] = {'%', '.', '*', conv, 0};
    if (alt)
        memcpy(fmt, (char[]){'%', '#', '.', '*', conv, 0}, 6);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return snprintf(out, n, fmt, prec, f);
#pragma GCC diagnostic pop
}

/* The program's locale may write a decimal comma; Python never does. */
void jj_float_fmt(double f, char conv, int prec, bool alt, char *out, size_t n)
{
    const char *point = localeconv()->decimal_point;
    format_double(out, n, f, conv, prec, alt);
    char *at = strcmp(point, ".") == 0 ? NULL : strstr(out, point);
    if (at) {
        size_t len = strlen(point);
        *at = '.';
        memmove(at + 1, at + len, strlen(at + len) + 1);
    }
}

/* The shortest digits that read back as f, laid out like Python: 1e-05, 0.0001, 1e+16, 1234.0. */
void jj_float_repr(double f, char out[32])
{
    char sci[40], digits[24];
    size_t n = 0;
    if (!isfinite(f)) {
        memcpy(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf", isnan(f) || f > 0 ? 4 : 5);
        return;
    }
    for (int prec = 0; prec < 17; prec++) {
        format_double(sci, sizeof sci, f, 'e', prec, false); /* read back in the same locale */
        if (strtod(sci, NULL) == f)
            break;
    }
    char *e = strchr(sci, 'e'), *o = out;
    int exp = atoi(e + 1);
    for (char *p = sci; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    if (signbit(f))
        *o++ = '-';
    if (exp < -4 || exp >= 16) {
        *o++ = digits[0];
        if (n > 1) {
            *o++ = '.';
            memcpy(o, digits + 1, n - 1);
            o += n - 1;
        }
        snprintf(o, 8, "e%c%02d", exp < 0 ? '-' : '+', abs(exp) % 1000);
        return;
    }
    for (int i = exp < 0 ? exp : 0; i < (int)n || i <= exp; i++) { /* digit i has the weight 10^(exp - i) */
        *o++ = i < 0 || i >= (int)n ? '0' : digits[i];
        if (i == exp)
            *o++ = '.';
    }
    if (o[-1] == '.')
        *o++ = '0';
    *o = 0;
}

/* ---- provenance ---- */

bool jj_has_data(struct jj_val v, int depth)
{
    if (v.data || depth > JJ_NEST)
        return true;
    switch ((enum jj_type)v.type) {
    case JJ_STR:
        return v.s->data;
    case JJ_LIST:
    case JJ_TUPLE:
    case JJ_RANGE:
    case JJ_VIEW:
    case JJ_ITER:
        for (size_t i = 0; i < v.l->n; i++)
            if (jj_has_data(v.l->v[i], depth + 1))
                return true;
        return false;
    case JJ_DICT:
    case JJ_NS:
        for (size_t i = 0; i < v.d->n; i++)
            if (jj_has_data(v.d->p[i].key, depth + 1) || jj_has_data(v.d->p[i].v, depth + 1))
                return true;
        return false;
    case JJ_MISSING:
    case JJ_UNDEF:
    case JJ_NONE:
    case JJ_BOOL:
    case JJ_INT:
    case JJ_FLOAT:
    case JJ_LOOP:
    case JJ_MACRO:
    case JJ_FUNC:
    case JJ_METHOD:
    case JJ_CYCLER:
    case JJ_JOINER:
        break;
    }
    return false;
}

/* ---- repr ---- */

/* What repr writes goes here; `data` once anything written was. */
struct writer {
    struct jj *x;
    struct jj_buf *b;
    bool data;
    int depth;
    const struct jj_json *json;
};

static glim_status put(struct writer *w, const char *p, size_t n)
{
    return jj_buf_add(w->x, w->b, p, n, false);
}

static glim_status puts_(struct writer *w, const char *s)
{
    return put(w, s, strlen(s));
}

static glim_status number(struct writer *w, struct jj_val v)
{
    char text[40];
    if (v.type == JJ_FLOAT)
        jj_float_repr(v.f, text);
    else
        snprintf(text, sizeof text, "%lld", (long long)v.i);
    return puts_(w, text);
}

static bool printable(struct uc_char c)
{
    return c.cp == ' ' || (c.cls && !(c.cls & UC_SPACE));
}

static glim_status repr_char(struct writer *w, const char *p, struct uc_char c, char quote)
{
    char esc[16];
    TRY(jj_work(w->x, 2));
    const char *short_form = c.cp == '\n' ? "\\n" : c.cp == '\r' ? "\\r" : c.cp == '\t' ? "\\t" : NULL;
    if (short_form)
        return puts_(w, short_form);
    if (c.cp == '\\' || c.cp == (unsigned char)quote) {
        TRY(put(w, "\\", 1));
        return put(w, p, 1);
    }
    if (printable(c))
        return put(w, p, c.len);
    snprintf(esc, sizeof esc, c.cp < 0x100 ? "\\x%02x" : c.cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c.cp);
    return puts_(w, esc);
}

static bool plain(unsigned char c, char quote)
{
    return c >= ' ' && c < 127 && c != '\\' && c != (unsigned char)quote;
}

static glim_status repr_str(struct writer *w, const struct jj_str *s)
{
    char quote = memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    const char *p = s->p, *end = s->p + s->n;
    w->data |= s->data;
    TRY(jj_work(w->x, s->n / 8));
    TRY(put(w, &quote, 1));
    while (p < end) {
        const char *from = p;
        while (p < end && plain((unsigned char)*p, quote))
            p++;
        TRY(put(w, from, (size_t)(p - from)));
        if (p == end)
            break;
        struct uc_char c = uc_at((const uint8_t *)p, (const uint8_t *)end);
        TRY(repr_char(w, p, c, quote));
        p += c.len;
    }
    return put(w, &quote, 1);
}

static glim_status repr(struct writer *w, struct jj_val v);

static glim_status repr_list(struct writer *w, const struct jj_list *l, const char *open, const char *close)
{
    TRY(puts_(w, open));
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            TRY(puts_(w, ", "));
        TRY(repr(w, l->v[i]));
    }
    return puts_(w, close);
}

static glim_status repr_dict(struct writer *w, const struct jj_dict *d)
{
    TRY(puts_(w, "{"));
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            TRY(puts_(w, ", "));
        TRY(repr(w, d->p[i].key));
        TRY(puts_(w, ": "));
        TRY(repr(w, d->p[i].v));
    }
    return puts_(w, "}");
}

static glim_status repr_range(struct writer *w, const struct jj_list *l)
{
    char text[96];
    snprintf(text, sizeof text, l->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)", (long long)l->start,
             (long long)l->stop, (long long)l->step);
    return puts_(w, text);
}

static glim_status repr_loop(struct writer *w, struct jj_loop *l)
{
    char text[80];
    TRY(jj_loop_length(w->x, l));
    snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)l->index0 + 1, (long long)l->length);
    return puts_(w, text);
}

static glim_status repr_any(struct writer *w, struct jj_val v)
{
    switch ((enum jj_type)v.type) {
    case JJ_UNDEF:
        return puts_(w, "Undefined");
    case JJ_NONE:
        return puts_(w, "None");
    case JJ_BOOL:
        return puts_(w, v.b ? "True" : "False");
    case JJ_INT:
    case JJ_FLOAT:
        return number(w, v);
    case JJ_STR:
        TRY(puts_(w, v.s->markup ? "Markup(" : ""));
        TRY(repr_str(w, v.s));
        return puts_(w, v.s->markup ? ")" : "");
    case JJ_LIST:
        return repr_list(w, v.l, "[", "]");
    case JJ_TUPLE:
        return repr_list(w, v.l, "(", v.l->n == 1 ? ",)" : ")");
    case JJ_RANGE:
        return repr_range(w, v.l);
    case JJ_VIEW:
        TRY(puts_(w, v.l->name));
        return repr_list(w, v.l, "([", "])");
    case JJ_DICT:
        return repr_dict(w, v.d);
    case JJ_NS:
        TRY(puts_(w, "<Namespace "));
        TRY(repr_dict(w, v.d));
        return puts_(w, ">");
    case JJ_MACRO:
        TRY(puts_(w, "<Macro "));
        TRY(repr(w, v.m->name));
        return puts_(w, ">");
    case JJ_LOOP:
        return repr_loop(w, v.loop);
    case JJ_MISSING:
    case JJ_ITER:
    case JJ_FUNC:
    case JJ_METHOD:
    case JJ_CYCLER:
    case JJ_JOINER:
        break;
    }
    return jj_fail(w->x, "have the text of a value of type '%s', need one that prints the same every time (a list?)",
                   jj_type_name(v));
}

static glim_status repr(struct writer *w, struct jj_val v)
{
    TRY(jj_work(w->x, 1));
    if (++w->depth > JJ_NEST)
        return jj_fail(w->x, "have values nested deeper than %d to print, need less", JJ_NEST);
    w->data |= v.data;
    TRY(repr_any(w, v));
    w->depth--;
    return GLIM_OK;
}

/* Everything written from byte `from` on is data if any part of it was. */
static void settle(struct writer *w, struct jj_buf *tmp)
{
    for (size_t i = 0; i < tmp->n_run; i++)
        tmp->run[i].data = w->data;
}

glim_status jj_repr(struct jj *x, struct jj_val v, struct jj_buf *b)
{
    struct jj_buf tmp = {0};
    struct writer w = {.x = x, .b = &tmp};
    TRY(repr(&w, v));
    settle(&w, &tmp);
    return jj_buf_add(x, b, tmp.p, tmp.n, w.data);
}

glim_status jj_print(struct jj *x, struct jj_buf *b, struct jj_val v)
{
    char text[40];
    switch (v.type) {
    case JJ_STR:
        return jj_buf_str(x, b, v.s);
    case JJ_UNDEF:
        return GLIM_OK;
    case JJ_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.i);
        return jj_buf_z(x, b, text, v.data);
    default:
        return jj_repr(x, v, b);
    }
}

glim_status jj_string(struct jj *x, struct jj_val v, struct jj_val *out)
{
    struct jj_buf b = {0};
    *out = v;
    if (v.type == JJ_STR)
        return GLIM_OK;
    TRY(jj_print(x, &b, v));
    return jj_buf_done(x, &b, out);
}

glim_status jj_text_arg(struct jj *x, struct jj_val v, struct jj_str **out)
{
    struct jj_val s;
    TRY(jj_string(x, v, &s));
    *out = s.s;
    return GLIM_OK;
}

/* ---- JSON, as json.dumps ---- */

static glim_status json(struct writer *w, struct jj_val v);

static glim_status json_escape(struct writer *w, uint32_t cp)
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char esc[16];
    TRY(jj_work(w->x, 4)); /* of a text that is escaped again and again */
    for (size_t i = 0; i + 1 < sizeof named; i += 2)
        if (cp == (unsigned char)named[i]) {
            snprintf(esc, sizeof esc, "\\%c", named[i + 1]);
            return puts_(w, esc);
        }
    if (cp >= 0x10000)
        snprintf(esc, sizeof esc, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (cp >> 10)), (unsigned)(0xDC00 + (cp & 0x3FF)));
    else
        snprintf(esc, sizeof esc, "\\u%04x", (unsigned)cp);
    return puts_(w, esc);
}

static glim_status json_str(struct writer *w, const struct jj_str *s)
{
    const char *p = s->p, *end = s->p + s->n;
    uint32_t cp;
    w->data |= s->data;
    TRY(jj_work(w->x, s->n / 8));
    TRY(put(w, "\"", 1));
    while (p < end) {
        const char *from = p;
        while (p < end && (unsigned char)*p >= ' ' && *p != '"' && *p != '\\' &&
               (!w->json->ascii || (unsigned char)*p < 128))
            p++;
        TRY(put(w, from, (size_t)(p - from)));
        if (p == end)
            break;
        p += utf8_decode((const uint8_t *)p, (size_t)(end - p), &cp);
        TRY(json_escape(w, cp));
    }
    return put(w, "\"", 1);
}

static glim_status json_number(struct writer *w, struct jj_val v)
{
    if (v.type == JJ_FLOAT && !isfinite(v.f))
        return puts_(w, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
    return number(w, v);
}

static glim_status json_newline(struct writer *w)
{
    if (!w->json->pretty)
        return GLIM_OK;
    TRY(put(w, "\n", 1));
    for (int i = 0; i < w->depth; i++)
        TRY(put(w, w->json->indent->p, w->json->indent->n));
    return GLIM_OK;
}

static glim_status json_comma(struct writer *w)
{
    const struct jj_str *s = w->json->item_sep;
    TRY(s ? put(w, s->p, s->n) : puts_(w, w->json->pretty ? "," : ", "));
    return json_newline(w);
}

static glim_status json_list(struct writer *w, const struct jj_list *l)
{
    if (l->n == 0)
        return puts_(w, "[]");
    TRY(puts_(w, "["));
    w->depth++;
    TRY(json_newline(w));
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            TRY(json_comma(w));
        TRY(json(w, l->v[i]));
    }
    w->depth--;
    TRY(json_newline(w));
    return puts_(w, "]");
}

static glim_status json_key(struct writer *w, struct jj_val k)
{
    w->data |= k.data;
    if (k.type == JJ_STR)
        return json_str(w, k.s);
    if (k.type > JJ_FLOAT || k.type < JJ_NONE)
        return jj_fail(w->x, "have a key of type '%s' for JSON, need text", jj_type_name(k));
    TRY(puts_(w, "\""));
    TRY(json(w, k));
    return puts_(w, "\"");
}

static glim_status sorted_pairs(struct jj *x, const struct jj_dict *d, struct jj_val *out)
{
    struct jj_val all;
    struct jj_call c = {.n_kw = 0};
    TRY(jj_list_new(x, JJ_LIST, d->n, &all));
    for (size_t i = 0; i < d->n; i++)
        TRY(jj_tuple2(x, d->p[i].key, d->p[i].v, &all.l->v[all.l->n++]));
    c.self = all;
    struct jj_val zero = jj_int(0), keep_case = jj_bool(true);
    struct jj_pair kw[2];
    TRY(jj_str_z(x, "attribute", &kw[0].key));
    TRY(jj_str_z(x, "case_sensitive", &kw[1].key));
    kw[0].v = zero;
    kw[1].v = keep_case;
    c.kw = kw;
    c.n_kw = 2;
    return jj_call_fn(x, jj_filter_find("sort", 4), "filter", &c, out);
}

static glim_status json_dict(struct writer *w, const struct jj_dict *d)
{
    struct jj_val sorted;
    if (d->n == 0)
        return puts_(w, "{}");
    if (w->json->sort)
        TRY(sorted_pairs(w->x, d, &sorted));
    TRY(puts_(w, "{"));
    w->depth++;
    TRY(json_newline(w));
    for (size_t i = 0; i < d->n; i++) {
        struct jj_val k = w->json->sort ? sorted.l->v[i].l->v[0] : d->p[i].key;
        struct jj_val v = w->json->sort ? sorted.l->v[i].l->v[1] : d->p[i].v;
        const struct jj_str *s = w->json->key_sep;
        if (i)
            TRY(json_comma(w));
        TRY(json_key(w, k));
        TRY(s ? put(w, s->p, s->n) : puts_(w, ": "));
        TRY(json(w, v));
    }
    w->depth--;
    TRY(json_newline(w));
    return puts_(w, "}");
}

static glim_status json(struct writer *w, struct jj_val v)
{
    TRY(jj_work(w->x, 1));
    if (w->depth > JJ_NEST)
        return jj_fail(w->x, "have values nested deeper than %d for JSON, need less", JJ_NEST);
    w->data |= v.data;
    switch ((enum jj_type)v.type) {
    case JJ_NONE:
        return puts_(w, "null");
    case JJ_BOOL:
        return puts_(w, v.b ? "true" : "false");
    case JJ_INT:
    case JJ_FLOAT:
        return json_number(w, v);
    case JJ_STR:
        return json_str(w, v.s);
    case JJ_LIST:
    case JJ_TUPLE:
        return json_list(w, v.l);
    case JJ_DICT:
        return json_dict(w, v.d);
    case JJ_UNDEF:
    case JJ_MISSING:
    case JJ_RANGE:
    case JJ_VIEW:
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
    return jj_fail(w->x, "have a value of type '%s' for JSON, need text, numbers, lists or dicts", jj_type_name(v));
}

glim_status jj_to_json(struct jj *x, struct jj_val v, const struct jj_json *how, struct jj_val *out)
{
    struct jj_buf b = {0};
    struct writer w = {.x = x, .b = &b, .json = how};
    if (how->indent)
        w.data |= how->indent->data;
    w.data |= (how->item_sep && how->item_sep->data) || (how->key_sep && how->key_sep->data);
    TRY(json(&w, v));
    settle(&w, &b);
    return jj_buf_done(x, &b, out);
}

/* ---- HTML ---- */

glim_status jj_escape(struct jj *x, struct jj_val v, struct jj_val *out)
{
    struct jj_buf b = {0};
    TRY(jj_string(x, v, out));
    const struct jj_str *s = out->s;
    if (s->markup)
        return GLIM_OK;
    TRY(jj_work(x, s->n / 8));
    for (size_t i = 0, from = 0; i <= s->n; i++) {
        char c = i < s->n ? s->p[i] : 0;
        const char *r = c == '&'    ? "&amp;"
                        : c == '<'  ? "&lt;"
                        : c == '>'  ? "&gt;"
                        : c == '\'' ? "&#39;"
                        : c == '"'  ? "&#34;"
                                    : NULL;
        if (!r && i < s->n)
            continue;
        TRY(jj_work(x, 2));
        TRY(jj_buf_sub(x, &b, s, from, i));
        if (r)
            TRY(jj_buf_z(x, &b, r, jj_str_data_in(s, i, i + 1)));
        from = i + 1;
    }
    TRY(jj_buf_done(x, &b, out));
    out->s->markup = true;
    return GLIM_OK;
}
