/* A line at a time: every construct accepted here fits on one line, so an error's line is where the reader stands. */
#include "base/toml.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

struct reader {
    const char *p, *end; /* rest of the text */
    const char *what;
    int line;
    struct glim_err *e;
};

const char *toml_kind_name(enum toml_kind k)
{
    switch (k) {
    case TOML_STRING:
        return "a string";
    case TOML_INT:
        return "a whole number";
    case TOML_FLOAT:
        return "a decimal number";
    case TOML_BOOL:
        return "a boolean";
    }
    return "?";
}

static glim_status bad(const struct reader *r, const char *have, const char *need)
{
    return err_set(r->e, GLIM_FAILED, "config file: %s:%d: have %s, need %s", r->what, r->line, have, need);
}

static int peek(const struct reader *r)
{
    return r->p < r->end ? (unsigned char)*r->p : -1;
}

static void skip_blanks(struct reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\t')
        r->p++;
}

static bool is_key_char(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Characters of a bare word, number or boolean. */
static bool is_word_char(int c)
{
    return is_key_char(c) || c == '+' || c == '.' || c == ':';
}

/* Blanks, a comment, and the end of the line; counts the line. */
static glim_status read_line_end(struct reader *r)
{
    skip_blanks(r);
    if (peek(r) == '#')
        while (peek(r) >= 0 && peek(r) != '\n') {
            uint32_t cp;
            int n = utf8_decode((const uint8_t *)r->p, (size_t)(r->end - r->p), &cp);
            bool cr = cp == '\r' && r->p + 1 < r->end && r->p[1] == '\n';
            if (n == 0 || (cp < 0x20 && cp != '\t' && !cr) || cp == 0x7f)
                return bad(r, "a control character or invalid UTF-8 in a comment", "plain text");
            r->p += n;
        }
    if (peek(r) == '\r' && r->p + 1 < r->end && r->p[1] == '\n')
        r->p++;
    if (peek(r) >= 0 && peek(r) != '\n')
        return bad(r, "more text after the value", "one key = value a line");
    if (peek(r) == '\n') {
        r->p++;
        r->line++;
    }
    return GLIM_OK;
}

static glim_status read_unicode(struct reader *r, int n_digit, struct str *out)
{
    uint32_t cp = 0;
    for (int i = 0; i < n_digit; i++, r->p++) {
        int c = peek(r);
        uint32_t d = c >= '0' && c <= '9'   ? (uint32_t)c - '0'
                     : c >= 'a' && c <= 'f' ? (uint32_t)c - 'a' + 10
                     : c >= 'A' && c <= 'F' ? (uint32_t)c - 'A' + 10
                                            : 16;
        if (d == 16)
            return bad(r, "a broken \\u escape", "4 hex digits after \\u, 8 after \\U");
        cp = cp << 4 | d; /* 8 digits fill 32 bits */
    }
    char utf8[4];
    int len = cp == 0 ? 0 : utf8_encode(cp, utf8);
    if (len == 0)
        return bad(r, "an escape that is no character", "a Unicode scalar value other than U+0000");
    str_add(out, utf8, (size_t)len);
    return GLIM_OK;
}

static glim_status read_escape(struct reader *r, struct str *out)
{
    static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
    int c = peek(r);
    if (c == 'u' || c == 'U') {
        r->p++;
        return read_unicode(r, c == 'u' ? 4 : 8, out);
    }
    const char *at = c > 0 ? strchr(from, c) : NULL;
    if (!at)
        return bad(r, "an unknown escape", "one of \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX \\UXXXXXXXX");
    str_putc(out, to[at - from]);
    r->p++;
    return GLIM_OK;
}

/* "basic" with escapes or 'literal' without. */
static glim_status read_string(struct reader *r, struct str *out)
{
    int quote = peek(r);
    if (r->end - r->p >= 3 && r->p[1] == quote && r->p[2] == quote)
        return bad(r, "a multi-line string", "a string on one line");
    r->p++;
    while (peek(r) != quote) {
        uint32_t cp;
        if (peek(r) < 0 || peek(r) == '\n')
            return bad(r, "a string without end", "a closing quote on the same line");
        int n = utf8_decode((const uint8_t *)r->p, (size_t)(r->end - r->p), &cp);
        if (n == 0 || (cp < 0x20 && cp != '\t') || cp == 0x7f)
            return bad(r, "a control character or invalid UTF-8 in a string", "an escape such as \\n");
        if (cp == '\\' && quote == '"') {
            r->p++;
            TRY(read_escape(r, out));
        } else {
            str_add(out, r->p, (size_t)n);
            r->p += n;
        }
    }
    r->p++;
    return GLIM_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them; false when there are none or an underscore stands alone. */
static bool copy_digits(const char **p, struct str *out)
{
    const char *s = *p;
    if (!is_digit(*s))
        return false;
    for (;; s++) {
        if (is_digit(*s))
            str_putc(out, *s);
        else if (*s != '_' || !is_digit(s[1]))
            break;
    }
    *p = s;
    return true;
}

/* [+-] digits [. digits] [e [+-] digits]; a leading zero stands alone. */
static bool copy_number(const char *s, struct str *out, enum toml_kind *kind)
{
    *kind = TOML_INT;
    if (*s == '-')
        str_putc(out, '-');
    s += *s == '-' || *s == '+';
    if (s[0] == '0' && (is_digit(s[1]) || s[1] == '_'))
        return false;
    if (!copy_digits(&s, out))
        return false;
    if (*s == '.') {
        *kind = TOML_FLOAT;
        str_putc(out, '.');
        s++;
        if (!copy_digits(&s, out))
            return false;
    }
    if (*s == 'e' || *s == 'E') {
        *kind = TOML_FLOAT;
        str_putc(out, 'e');
        s++;
        if (*s == '-')
            str_putc(out, '-');
        s += *s == '-' || *s == '+';
        if (!copy_digits(&s, out))
            return false;
    }
    return *s == 0;
}

static glim_status read_word(struct reader *r, struct str *out, enum toml_kind *kind)
{
    char word[64];
    size_t n = 0;
    for (; is_word_char(peek(r)); r->p++) {
        if (n + 1 >= sizeof word)
            return bad(r, "a very long unquoted value", "a string, number or boolean");
        word[n++] = *r->p;
    }
    word[n] = 0;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        *kind = TOML_BOOL;
        str_puts(out, word);
        return GLIM_OK;
    }
    if (n == 0)
        return bad(r, "no plain value after the equals sign", "a string, number or boolean");
    if (!copy_number(word, out, kind))
        return bad(r, "an unquoted value that is no decimal number", "a string in quotes, a number, true or false");
    return GLIM_OK;
}

static glim_status read_key(struct reader *r, struct str *out)
{
    if (peek(r) == '[')
        return bad(r, "a table", "keys at the top level");
    while (is_key_char(peek(r)))
        str_putc(out, *r->p++);
    if (out->n == 0 && !out->failed)
        return bad(r, "a line that begins with no key", "key = value");
    skip_blanks(r);
    if (peek(r) == '.')
        return bad(r, "a dotted key", "keys at the top level");
    if (peek(r) != '=')
        return bad(r, "a key without an equals sign", "key = value");
    r->p++;
    skip_blanks(r);
    return GLIM_OK;
}

static const struct toml_item *find(const struct toml *t, const char *key)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->item[i].key, key) == 0)
            return &t->item[i];
    return NULL;
}

/* One item. Its strings move from *key and *text into the table. */
static glim_status read_item(struct reader *r, struct toml *t, struct str *key, struct str *text)
{
    enum toml_kind kind = TOML_STRING;
    TRY(read_key(r, key));
    if (peek(r) == '"' || peek(r) == '\'')
        TRY(read_string(r, text));
    else
        TRY(read_word(r, text, &kind));
    int line = r->line;
    TRY(read_line_end(r));
    if (key->failed || text->failed || !mem_grow((void **)&t->item, &t->cap, t->n, sizeof *t->item))
        return err_nomem(r->e, "config file", key->n + text->n);
    const struct toml_item *before = find(t, key->s);
    if (before)
        return err_set(r->e, GLIM_FAILED, "config file: %s:%d: have %s a second time (first on line %d), need it once",
                       r->what, line, before->key, before->line);
    if (!text->s && !(text->s = mem_strdup("")))
        return err_nomem(r->e, "config file", 1);
    t->item[t->n++] = (struct toml_item){.key = key->s, .text = text->s, .kind = kind, .line = line};
    *key = *text = (struct str){0};
    return GLIM_OK;
}

glim_status toml_parse(struct toml *t, const char *p, size_t n, const char *what, struct glim_err *e)
{
    struct reader r = {.p = p, .end = p + n, .what = what, .line = 1, .e = e};
    struct str key = {0}, text = {0};
    glim_status st = GLIM_OK;
    *t = (struct toml){0};
    while (st == GLIM_OK && r.p < r.end) {
        skip_blanks(&r);
        int c = peek(&r);
        if (c < 0 || c == '\n' || c == '\r' || c == '#')
            st = read_line_end(&r);
        else
            st = read_item(&r, t, &key, &text);
        str_fini(&key);
        str_fini(&text);
    }
    if (st != GLIM_OK)
        toml_free(t);
    return st;
}

void toml_free(struct toml *t)
{
    for (size_t i = 0; i < t->n; i++) {
        mem_free(t->item[i].key);
        mem_free(t->item[i].text);
    }
    mem_free(t->item);
    *t = (struct toml){0};
}
