/* Byte strings, UTF-8 and numbers. Nothing here depends on the locale. */
#include "base/str.h"
#include "base/arith.h"
#include "base/mem.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- growable strings ---- */

/* Room for n more bytes and the terminator. */
static bool reserve(struct str *b, size_t n)
{
    size_t need;
    if (b->failed)
        return false;
    if (!add_size(b->n, n, &need) || !add_size(need, 1, &need)) {
        b->failed = true;
        return false;
    }
    if (need <= b->cap)
        return true;
    size_t cap = b->cap < 32 ? 32 : b->cap;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    char *s = mem_realloc(b->s, cap);
    if (!s) {
        b->failed = true;
        return false;
    }
    b->s = s;
    b->cap = cap;
    return true;
}

void str_add(struct str *b, const char *p, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n)
        memcpy(b->s + b->n, p, n);
    b->n += n;
    b->s[b->n] = 0;
}

void str_puts(struct str *b, const char *s)
{
    str_add(b, s, strlen(s));
}

void str_putc(struct str *b, char c)
{
    str_add(b, &c, 1);
}

void str_printf(struct str *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        b->failed = true;
    else if (reserve(b, (size_t)n)) {
        vsnprintf(b->s + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

static void add_json_char(struct str *b, const char *p, int n, uint32_t cp)
{
    static const char *const named[] = {['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f",
                                        ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\"};
    if (n == 0)
        str_add(b, "\xEF\xBF\xBD", 3); /* U+FFFD */
    else if (cp < sizeof named / sizeof *named && named[cp])
        str_puts(b, named[cp]);
    else if (cp < 0x20 || cp == 0x7f)
        str_printf(b, "\\u%04x", (unsigned)cp);
    else
        str_add(b, p, (size_t)n);
}

void str_json_part(struct str *b, const char *p, size_t n)
{
    size_t before = b->n;
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int len = utf8_decode((const uint8_t *)p + i, n - i, &cp);
        add_json_char(b, p + i, len, cp);
        i += len ? (size_t)len : 1;
    }
    if (b->failed) {
        b->n = before;
        if (b->s)
            b->s[before] = 0;
    }
}

void str_json(struct str *b, const char *p, size_t n)
{
    size_t before = b->n;
    str_putc(b, '"');
    str_json_part(b, p, n);
    str_putc(b, '"');
    if (b->failed) {
        b->n = before;
        if (b->s)
            b->s[before] = 0;
    }
}

void str_clear(struct str *b)
{
    b->n = 0;
    b->failed = false;
    if (b->s)
        b->s[0] = 0;
}

void str_fini(struct str *b)
{
    mem_free(b->s);
    *b = (struct str){0};
}

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool parse_u64(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    if (!is_digit(*s))
        return false;
    for (; is_digit(*s); s++)
        if (!mul_u64(v, 10, &v) || !add_u64(v, (uint64_t)(*s - '0'), &v))
            return false;
    *out = v;
    return *s == 0;
}

bool parse_i64(const char *s, int64_t *out)
{
    bool neg = *s == '-';
    uint64_t v;
    if (!parse_u64(s + neg, &v) || v > (uint64_t)INT64_MAX + neg)
        return false;
    *out = neg ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

static const char *skip_digits(const char *s)
{
    while (is_digit(*s))
        s++;
    return s;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit on at least one side of the point. */
static bool is_decimal(const char *s)
{
    s += *s == '-' || *s == '+';
    const char *a = s;
    s = skip_digits(s);
    size_t n = (size_t)(s - a);
    if (*s == '.') {
        a = ++s;
        s = skip_digits(s);
        n += (size_t)(s - a);
    }
    if (n == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '-' || *s == '+';
        if (!is_digit(*s))
            return false;
        s = skip_digits(s);
    }
    return *s == 0;
}

bool parse_f64(const char *s, double *out)
{
    if (!is_decimal(s))
        return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return false;
    double v = strtod_l(s, NULL, c);
    freelocale(c);
    *out = v;
    return isfinite(v);
}

/* ---- UTF-8 (the table of well-formed sequences, Unicode 15 section 3.9) ---- */

/* Length of the sequence a lead byte starts, 0 when none, and the range its second byte must lie in. */
static int utf8_lead(uint8_t c, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (c < 0x80)
        return 1;
    if (c < 0xC2) /* continuation bytes, and leads that could only be overlong */
        return 0;
    if (c < 0xE0)
        return 2;
    if (c < 0xF0) {
        if (c == 0xE0)
            *lo = 0xA0; /* below: overlong */
        if (c == 0xED)
            *hi = 0x9F; /* above: surrogates */
        return 3;
    }
    if (c < 0xF5) {
        if (c == 0xF0)
            *lo = 0x90;
        if (c == 0xF4)
            *hi = 0x8F; /* above: beyond U+10FFFF */
        return 4;
    }
    return 0;
}

/* How many of the n bytes at p, at most len, fit a sequence of that length. */
static int utf8_match(const uint8_t *p, size_t n, int len, uint8_t lo, uint8_t hi)
{
    int i = 1;
    for (; i < len && (size_t)i < n; i++) {
        if (p[i] < lo || p[i] > hi)
            break;
        lo = 0x80;
        hi = 0xBF;
    }
    return i;
}

int utf8_decode(const uint8_t *p, size_t n, uint32_t *cp)
{
    static const uint8_t lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint8_t lo, hi;
    if (n == 0)
        return 0;
    int len = utf8_lead(p[0], &lo, &hi);
    if (len == 0 || utf8_match(p, n, len, lo, hi) < len)
        return 0;
    uint32_t v = p[0] & lead_bits[len];
    for (int i = 1; i < len; i++)
        v = v << 6 | (p[i] & 0x3F);
    *cp = v;
    return len;
}

int utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        if (cp >= 0xD800 && cp <= 0xDFFF)
            return 0;
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    if (cp > 0x10FFFF)
        return 0;
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

size_t utf8_partial_tail(const uint8_t *p, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        uint8_t lo, hi, c = p[n - k];
        if ((c & 0xC0) == 0x80)
            continue; /* a continuation byte: its lead is further left */
        int len = utf8_lead(c, &lo, &hi);
        return (size_t)len > k && (size_t)utf8_match(p + n - k, k, len, lo, hi) == k ? k : 0;
    }
    return 0;
}
