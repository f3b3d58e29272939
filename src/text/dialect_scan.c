/* JSON (RFC 8259), a byte at a time, without recursion. Input is valid UTF-8. Lone surrogates in escapes are refused,
 * since no text has them, and so are NUL bytes in keys, which most programs would read as other keys. */
#include "text/dialect_impl.h"

#include <string.h>

enum {
    VALUE,  /* a value has to come */
    FIRST,  /* after [: a value or ] */
    OPENED, /* after {: a key or } */
    KEY,
    COLON,
    AFTER,
    STRING,
    ESCAPE,
    HEX,
    LOW,  /* after a high surrogate: a backslash */
    LOWU, /* … and its u */
    LITERAL,
    MINUS,
    ZERO,
    INT,
    DOT,
    FRACTION,
    EXP,
    EXP_SIGN,
    EXP_DIGITS
};

void dia_scan_reset(struct dia_scan *m)
{
    struct str text = m->text;
    text.n = 0;
    *m = (struct dia_scan){.state = VALUE, .text = text};
}

bool dia_scan_object(const struct dia_scan *m)
{
    return m->depth && (m->object[(m->depth - 1) / 8] >> (m->depth - 1) % 8 & 1);
}

bool dia_scan_complete(const struct dia_scan *m)
{
    return m->depth == 0 &&
           (m->state == AFTER || m->state == ZERO || m->state == INT || m->state == FRACTION || m->state == EXP_DIGITS);
}

static int open_level(struct dia_scan *m, bool object)
{
    if (m->depth == DIA_DEPTH)
        return SCAN_BAD;
    uint8_t bit = (uint8_t)(1u << m->depth % 8);
    uint8_t *at = &m->object[m->depth / 8];
    *at = (uint8_t)(object ? *at | bit : *at & ~bit);
    m->depth++;
    m->state = object ? OPENED : FIRST;
    return SCAN_OPEN;
}

static int close_level(struct dia_scan *m, char c)
{
    if (m->depth == 0 || dia_scan_object(m) != (c == '}'))
        return SCAN_BAD;
    m->depth--;
    m->state = AFTER;
    return SCAN_CLOSE;
}

static int begin_string(struct dia_scan *m, bool key)
{
    m->key = key;
    m->keep = m->depth <= (key ? 2 : 1);
    m->text.n = 0;
    m->state = STRING;
    return 0;
}

static int begin_value(struct dia_scan *m, char c)
{
    static const char *const word[] = {"true", "false", "null"};
    if (c == '{' || c == '[')
        return open_level(m, c == '{');
    if (c == '"')
        return begin_string(m, false);
    if (c == '-' || (c >= '0' && c <= '9')) {
        m->state = c == '-' ? MINUS : c == '0' ? ZERO : INT;
        return SCAN_SCALAR;
    }
    for (size_t i = 0; i < 3; i++)
        if (c == word[i][0]) {
            m->literal = word[i] + 1;
            m->state = LITERAL;
            return SCAN_SCALAR;
        }
    return SCAN_BAD;
}

static int after_value(struct dia_scan *m, char c)
{
    if (c == '}' || c == ']')
        return close_level(m, c);
    if (c != ',' || m->depth == 0)
        return SCAN_BAD;
    m->state = dia_scan_object(m) ? KEY : VALUE;
    return 0;
}

/* ---- strings ---- */

static void keep(struct dia_scan *m, const char *s, size_t n)
{
    if (m->keep)
        str_add(&m->text, s, n);
}

static int string_end(struct dia_scan *m)
{
    m->state = m->key ? COLON : AFTER;
    if (m->keep)
        str_add(&m->text, "", 0);
    return m->key ? SCAN_KEY : SCAN_STRING;
}

static int escape(struct dia_scan *m, char c)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (c == 'u') {
        m->cp = 0;
        m->left = 4;
        m->state = HEX;
        return 0;
    }
    const char *at = c ? strchr(from, c) : NULL;
    if (!at)
        return SCAN_BAD;
    keep(m, &to[at - from], 1);
    m->state = STRING;
    return 0;
}

unsigned dia_hex(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    char low = (char)(c | 0x20);
    return low >= 'a' && low <= 'f' ? (unsigned)(low - 'a' + 10) : 16;
}

static int hex(struct dia_scan *m, char c)
{
    unsigned digit = dia_hex(c);
    if (digit == 16)
        return SCAN_BAD;
    m->cp = m->cp * 16 + digit;
    if (--m->left)
        return 0;
    bool high = m->cp >= 0xD800 && m->cp < 0xDC00, low = m->cp >= 0xDC00 && m->cp < 0xE000;
    if (low != (m->high != 0) || (m->key && m->cp == 0))
        return SCAN_BAD;
    if (high) {
        m->high = m->cp;
        m->state = LOW;
        return 0;
    }
    if (low)
        m->cp = 0x10000 + ((m->high - 0xD800) << 10) + (m->cp - 0xDC00);
    m->high = 0;
    char out[4];
    int n = utf8_encode(m->cp, out);
    keep(m, out, (size_t)n);
    m->state = STRING;
    return 0;
}

static int in_string(struct dia_scan *m, char c)
{
    if (c == '"')
        return string_end(m);
    if (c == '\\') {
        m->state = ESCAPE;
        return 0;
    }
    if ((unsigned char)c < 0x20)
        return SCAN_BAD;
    keep(m, &c, 1);
    return 0;
}

/* ---- numbers ---- */

/* The state after c, or -1 when c does not belong to the number. */
static int number_next(uint8_t state, char c)
{
    bool digit = c >= '0' && c <= '9', e = c == 'e' || c == 'E';
    switch (state) {
    case MINUS:
        return c == '0' ? ZERO : digit ? INT : -1;
    case ZERO:
        return c == '.' ? DOT : e ? EXP : -1;
    case INT:
        return digit ? INT : c == '.' ? DOT : e ? EXP : -1;
    case DOT:
        return digit ? FRACTION : -1;
    case FRACTION:
        return digit ? FRACTION : e ? EXP : -1;
    case EXP:
        return digit ? EXP_DIGITS : c == '+' || c == '-' ? EXP_SIGN : -1;
    default:
        return digit ? EXP_DIGITS : -1;
    }
}

static int number(struct dia_scan *m, char c)
{
    int next = number_next(m->state, c);
    if (next >= 0) {
        m->state = (uint8_t)next;
        return 0;
    }
    if (m->state != ZERO && m->state != INT && m->state != FRACTION && m->state != EXP_DIGITS)
        return SCAN_BAD;
    m->state = AFTER;
    return dia_blank(c) ? 0 : after_value(m, c);
}

static int literal(struct dia_scan *m, char c)
{
    if (c != *m->literal)
        return SCAN_BAD;
    if (*++m->literal == 0)
        m->state = AFTER;
    return 0;
}

int dia_scan_step(struct dia_scan *m, char c)
{
    switch (m->state) {
    case STRING:
        return in_string(m, c);
    case ESCAPE:
        return escape(m, c);
    case HEX:
        return hex(m, c);
    case LOW:
    case LOWU:
        if (c != (m->state == LOW ? '\\' : 'u'))
            return SCAN_BAD;
        if (m->state == LOWU) {
            m->cp = 0;
            m->left = 4;
        }
        m->state = m->state == LOW ? LOWU : HEX;
        return 0;
    case LITERAL:
        return literal(m, c);
    default:
        break;
    }
    if (m->state >= MINUS)
        return number(m, c);
    if (dia_blank(c))
        return 0;
    switch (m->state) {
    case FIRST:
        return c == ']' ? close_level(m, c) : begin_value(m, c);
    case OPENED:
        return c == '}' ? close_level(m, c) : c == '"' ? begin_string(m, true) : SCAN_BAD;
    case KEY:
        return c == '"' ? begin_string(m, true) : SCAN_BAD;
    case COLON:
        m->state = VALUE;
        return c == ':' ? 0 : SCAN_BAD;
    case AFTER:
        return after_value(m, c);
    default:
        return begin_value(m, c);
    }
}
