/* The scanner of safetensors' JSON: strict RFC 8259 without a tree. */
#include "format/safetensors_private.h"

#include "base/arith.h"

enum { DEPTH_MAX = 64 };

bool st_fault(struct st_scan *s, const char *fault)
{
    if (!s->fault)
        s->fault = fault;
    return false;
}

static void skip_space(struct st_scan *s)
{
    while (s->at < s->n && (s->p[s->at] == ' ' || s->p[s->at] == '\n' || s->p[s->at] == '\r' || s->p[s->at] == '\t'))
        s->at++;
}

bool st_is(struct st_scan *s, char c)
{
    skip_space(s);
    return s->at < s->n && s->p[s->at] == (uint8_t)c;
}

static const char *wanted(char c)
{
    switch (c) {
    case '{':
        return "have something else, need '{'";
    case '[':
        return "have something else, need '['";
    case ':':
        return "have something else, need ':'";
    case '"':
        return "have something else, need a string";
    case ']':
        return "have something else, need ',' or ']'";
    case '}':
        return "have something else, need ',' or '}'";
    default:
        return "have something else, need other JSON";
    }
}

bool st_take(struct st_scan *s, char c)
{
    if (st_is(s, c)) {
        s->at++;
        return true;
    }
    return st_fault(s, s->at == s->n ? "have the end of the text, need more JSON" : wanted(c));
}

bool st_end(struct st_scan *s)
{
    skip_space(s);
    return s->at == s->n || st_fault(s, "have more text, need the end of the JSON");
}

/* ---- strings ---- */

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits behind \u. */
static bool hex4(struct st_scan *s, uint32_t *v)
{
    *v = 0;
    for (int i = 0; i < 4; i++) {
        int d = s->at < s->n ? hex_digit(s->p[s->at]) : -1;
        if (d < 0)
            return st_fault(s, "have a \\u escape without four hex digits, need four");
        *v = *v * 16 + (uint32_t)d;
        s->at++;
    }
    return true;
}

/* A code point written as one \uXXXX or as a pair of surrogates; the first \u is consumed. */
static bool unicode_escape(struct st_scan *s)
{
    uint32_t cp = 0, low = 0;
    if (!hex4(s, &cp))
        return false;
    if (cp >= 0xD800 && cp < 0xDC00 && s->n - s->at >= 2 && s->p[s->at] == '\\' && s->p[s->at + 1] == 'u') {
        s->at += 2;
        if (!hex4(s, &low))
            return false;
        if (low < 0xDC00 || low > 0xDFFF)
            return st_fault(s, "have half a surrogate pair, need both halves");
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    }
    if (cp == 0)
        return st_fault(s, "have a NUL in a string, need text without it");
    char utf8[4];
    int n = utf8_encode(cp, utf8);
    if (n == 0)
        return st_fault(s, "have half a surrogate pair, need both halves");
    str_add(&s->text, utf8, (size_t)n);
    return true;
}

static bool escape(struct st_scan *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (s->at == s->n)
        return st_fault(s, "have an escape cut off, need its letter");
    char c = (char)s->p[s->at++];
    if (c == 'u')
        return unicode_escape(s);
    const char *k = c ? strchr(from, c) : NULL;
    if (!k)
        return st_fault(s, "have an unknown escape in a string, need one of JSON's");
    str_putc(&s->text, to[k - from]);
    return true;
}

bool st_string(struct st_scan *s)
{
    str_clear(&s->text);
    if (!st_take(s, '"'))
        return false;
    while (s->at < s->n) {
        uint8_t c = s->p[s->at];
        if (c == '"') {
            s->at++;
            return !s->text.failed || st_fault(s, "have no memory for a string, need some");
        }
        if (c < 0x20)
            return st_fault(s, "have a control character in a string, need it escaped");
        if (c == '\\') {
            s->at++;
            if (!escape(s))
                return false;
            continue;
        }
        uint32_t cp = 0;
        int n = utf8_decode(s->p + s->at, s->n - s->at, &cp);
        if (n == 0)
            return st_fault(s, "have invalid UTF-8 in a string, need valid UTF-8");
        str_add(&s->text, (const char *)s->p + s->at, (size_t)n);
        s->at += (size_t)n;
    }
    return st_fault(s, "have a string that does not end, need its closing quote");
}

/* ---- numbers ---- */

static bool is_digit(const struct st_scan *s)
{
    return s->at < s->n && s->p[s->at] >= '0' && s->p[s->at] <= '9';
}

bool st_u64(struct st_scan *s, uint64_t *v)
{
    skip_space(s);
    if (!is_digit(s))
        return st_fault(s, "have something else, need a whole number of at least 0");
    size_t first = s->at;
    for (*v = 0; is_digit(s); s->at++)
        if (!mul_u64(*v, 10, v) || !add_u64(*v, (uint64_t)(s->p[s->at] - '0'), v))
            return st_fault(s, "have a number above 2^64 - 1, need a smaller one");
    if (s->at - first > 1 && s->p[first] == '0')
        return st_fault(s, "have a number with leading zeros, need none");
    if (s->at < s->n && (s->p[s->at] == '.' || s->p[s->at] == 'e' || s->p[s->at] == 'E'))
        return st_fault(s, "have a fraction or exponent, need a whole number");
    return true;
}

static bool skip_digits(struct st_scan *s)
{
    if (!is_digit(s))
        return st_fault(s, "have a number without digits, need digits");
    while (is_digit(s))
        s->at++;
    return true;
}

static bool skip_number(struct st_scan *s)
{
    if (s->p[s->at] == '-')
        s->at++;
    if (s->at < s->n && s->p[s->at] == '0')
        s->at++;
    else if (!skip_digits(s))
        return false;
    if (s->at < s->n && s->p[s->at] == '.') {
        s->at++;
        if (!skip_digits(s))
            return false;
    }
    if (s->at < s->n && (s->p[s->at] == 'e' || s->p[s->at] == 'E')) {
        s->at++;
        if (s->at < s->n && (s->p[s->at] == '+' || s->p[s->at] == '-'))
            s->at++;
        return skip_digits(s);
    }
    return true;
}

/* ---- objects, arrays, anything ---- */

/* Common to both: consume what stands before the next element, or the closing bracket. */
static bool next_item(struct st_scan *s, size_t *n, char open, char close)
{
    if (*n == 0) {
        if (!st_take(s, open))
            return false;
        if (st_is(s, close)) {
            s->at++;
            return false;
        }
    } else if (st_is(s, ',')) {
        s->at++;
    } else {
        st_take(s, close); /* sets the fault when it is not there */
        return false;
    }
    ++*n;
    return true;
}

bool st_next_member(struct st_scan *s, size_t *n)
{
    return next_item(s, n, '{', '}') && st_string(s) && st_take(s, ':');
}

bool st_next_element(struct st_scan *s, size_t *n)
{
    return next_item(s, n, '[', ']');
}

static bool skip_word(struct st_scan *s, const char *word)
{
    size_t n = strlen(word);
    if (s->n - s->at < n || memcmp(s->p + s->at, word, n) != 0)
        return st_fault(s, "have something else, need a JSON value");
    s->at += n;
    return true;
}

static bool skip_value(struct st_scan *s, int depth)
{
    skip_space(s);
    if (s->at == s->n)
        return st_fault(s, "have the end of the text, need a JSON value");
    if (depth > DEPTH_MAX)
        return st_fault(s, "have values nested deeper than 64, need fewer levels");
    size_t n = 0;
    switch (s->p[s->at]) {
    case '{':
        while (st_next_member(s, &n))
            if (!skip_value(s, depth + 1))
                return false;
        return !s->fault;
    case '[':
        while (st_next_element(s, &n))
            if (!skip_value(s, depth + 1))
                return false;
        return !s->fault;
    case '"':
        return st_string(s);
    case 't':
        return skip_word(s, "true");
    case 'f':
        return skip_word(s, "false");
    case 'n':
        return skip_word(s, "null");
    default:
        return skip_number(s);
    }
}

bool st_skip(struct st_scan *s)
{
    return skip_value(s, 0);
}
