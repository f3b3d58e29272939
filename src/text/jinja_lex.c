/* Text to tokens.
 *
 * The rules are those of Jinja2's lexer with trim_blocks and lstrip_blocks: newlines become "\n", one newline at the
 * very end goes; `-` at a tag eats all white space on its side; without a sign, blanks between the start of a line and
 * a block or comment go, and so does one newline after it; `+` keeps them. The whole template is cut at once. */
#include "text/jinja_impl.h"
#include "text/unicode.h"

struct lex {
    struct jj_lex *l;
    const char *p, *end;
    const char *counted; /* newlines before this are in `line` */
    int line;
    bool line_start; /* the last match ended with a newline */
    char stack[JJ_PARSE_NEST * 2];
    size_t n_stack; /* open brackets of a tag */
};

static int line_at(struct lex *x, const char *p)
{
    for (; x->counted < p; x->counted++)
        x->line += *x->counted == '\n';
    return x->line;
}

static glim_status fail(struct lex *x, const char *have, const char *need)
{
    return err_set(x->l->e, GLIM_REFUSED, "chat template: %.100s line %d: have %s, need %s", x->l->t->name,
                   line_at(x, x->p), have, need);
}

static glim_status push(struct lex *x, struct jj_tok t)
{
    struct jj_lex *l = x->l;
    if (!mem_grow((void **)&l->tok, &l->cap, l->n, sizeof *l->tok))
        return err_nomem(l->e, "chat template", l->n * sizeof *l->tok);
    l->tok[l->n++] = t;
    return GLIM_OK;
}

static glim_status push_text(struct lex *x, enum jj_tok_type type, const char *p, size_t n)
{
    return push(x, (struct jj_tok){.type = (uint8_t)type, .line = line_at(x, p), .p = p, .n = n});
}

/* Length of the white space character at p, 0 when it is none. */
static size_t space_len(const char *p, const char *end)
{
    struct uc_char c = uc_at((const uint8_t *)p, (const uint8_t *)end);
    return c.len && jj_space(c.cp) ? c.len : 0;
}

static const char *skip_space(const char *p, const char *end)
{
    for (size_t n; (n = space_len(p, end)) > 0;)
        p += n;
    return p;
}

static const char *strip_space_end(const char *p, const char *end)
{
    while (end > p) {
        const char *c = end - 1;
        while (c > p && ((unsigned char)*c & 0xC0) == 0x80)
            c--;
        if (space_len(c, end) != (size_t)(end - c))
            break;
        end = c;
    }
    return end;
}

static bool at(const struct lex *x, const char *p, const char *s)
{
    size_t n = strlen(s);
    return (size_t)(x->end - p) >= n && memcmp(p, s, n) == 0;
}

/* A tag's end at p: "<close>" with its sign and what it eats. NULL when there is none here. */
static const char *tag_end(const struct lex *x, const char *p, const char *close, bool trim)
{
    if (at(x, p, close)) {
        p += 2;
        return trim && p < x->end && *p == '\n' ? p + 1 : p;
    }
    if (p < x->end && *p == '-' && at(x, p + 1, close))
        return skip_space(p + 3, x->end);
    if (trim && p < x->end && *p == '+' && at(x, p + 1, close))
        return p + 3;
    return NULL;
}

static void matched(struct lex *x, const char *to)
{
    x->line_start = to > x->p ? to[-1] == '\n' : x->line_start;
    x->p = to;
}

/* The text before a tag. sign: what stands after the tag's opening, or 0. */
static glim_status data(struct lex *x, const char *to, char sign, bool lstrip)
{
    const char *end = to;
    if (sign == '-') {
        end = strip_space_end(x->p, to);
    } else if (sign != '+' && lstrip) {
        const char *bol = to;
        while (bol > x->p && bol[-1] != '\n')
            bol--;
        if ((bol > x->p || x->line_start) && skip_space(bol, to) == to)
            end = bol;
    }
    return end > x->p ? push_text(x, JJ_T_DATA, x->p, (size_t)(end - x->p)) : GLIM_OK;
}

static char sign_at(const struct lex *x, const char *p)
{
    return p < x->end && (*p == '-' || *p == '+') ? *p : 0;
}

/* `{% raw %}` at p: the position after it, or NULL. */
static const char *raw_begin(const struct lex *x, const char *p)
{
    p += 2 + (sign_at(x, p + 2) != 0);
    p = skip_space(p, x->end);
    if (!at(x, p, "raw"))
        return NULL;
    p = skip_space(p + 3, x->end);
    return tag_end(x, p, "%}", false);
}

static glim_status raw_body(struct lex *x)
{
    for (const char *p = x->p; p < x->end; p++) {
        if (!at(x, p, "{%"))
            continue;
        char sign = sign_at(x, p + 2);
        const char *q = skip_space(p + 2 + (sign != 0), x->end);
        if (!at(x, q, "endraw"))
            continue;
        q = tag_end(x, skip_space(q + 6, x->end), "%}", true);
        if (!q)
            continue;
        TRY(data(x, p, sign, true));
        matched(x, q);
        return GLIM_OK;
    }
    return fail(x, "a raw block without end", "{% endraw %}");
}

static glim_status comment(struct lex *x, const char *p)
{
    for (; p < x->end; p++) {
        const char *q = tag_end(x, p, "#}", true);
        if (q) {
            matched(x, q);
            return GLIM_OK;
        }
    }
    return fail(x, "a comment without end", "#}");
}

/* ---- inside a tag ---- */

static bool word_char(struct uc_char c)
{
    return c.len && (c.cp == '_' || (c.cls & (UC_L | UC_N | UC_M)));
}

static glim_status name(struct lex *x)
{
    const char *p = x->p;
    struct uc_char c = uc_at((const uint8_t *)p, (const uint8_t *)x->end);
    if (c.cls & (UC_N | UC_M))
        return fail(x, "a name that begins with a digit or mark", "a letter first");
    for (; word_char(c); c = uc_at((const uint8_t *)p, (const uint8_t *)x->end))
        p += c.len;
    TRY(push_text(x, JJ_T_NAME, x->p, (size_t)(p - x->p)));
    x->p = p;
    return GLIM_OK;
}

static bool digit_of(char c, int base)
{
    int v = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
    return v < base;
}

/* Digits with single underscores between them. */
static const char *digits(const struct lex *x, const char *p, int base, bool lead_underscore)
{
    for (;;) {
        const char *q = p;
        if (q < x->end && *q == '_' && lead_underscore)
            q++;
        if (q >= x->end || !digit_of(*q, base))
            return p;
        p = q + 1;
        lead_underscore = true;
    }
}

/* End of a float at p, or NULL when the number there is none. */
static const char *float_end(const struct lex *x, const char *p)
{
    const char *int_end = digits(x, p, 10, false), *q = int_end, *frac = NULL;
    if (q == p)
        return NULL;
    if (q < x->end && *q == '.') {
        const char *f = digits(x, q + 1, 10, false);
        if (f > q + 1)
            q = frac = f;
    }
    if (q < x->end && (*q == 'e' || *q == 'E')) {
        const char *s = q + 1;
        s += s < x->end && (*s == '+' || *s == '-');
        const char *ex = digits(x, s, 10, false);
        if (ex > s)
            return ex;
    }
    return frac;
}

/* Copy without underscores, NUL-terminated. */
static bool plain_number(const char *p, const char *end, char *out, size_t n)
{
    size_t k = 0;
    for (; p < end; p++)
        if (*p != '_') {
            if (k + 1 >= n)
                return false;
            out[k++] = *p;
        }
    out[k] = 0;
    return true;
}

static glim_status integer(struct lex *x)
{
    const char *p = x->p, *q;
    char kind = p + 1 < x->end && *p == '0' ? (char)(p[1] | 32) : 0, text[80], *stop;
    int base = kind == 'b' ? 2 : kind == 'o' ? 8 : kind == 'x' ? 16 : 10;
    bool prefix = base != 10 && digits(x, p + 2, base, true) > p + 2;
    if (prefix) {
        q = digits(x, p + 2, base, true);
    } else if (*p == '0') { /* zeros only */
        for (q = p + 1; q < x->end && (*q == '0' || (*q == '_' && q + 1 < x->end && q[1] == '0'));)
            q++;
        base = 10;
    } else {
        q = digits(x, p, 10, false);
        base = 10;
    }
    struct jj_tok t = {.type = JJ_T_INT, .line = line_at(x, p), .p = p, .n = (size_t)(q - p)};
    if (!plain_number(prefix ? p + 2 : p, q, text, sizeof text))
        return fail(x, "a number of too many digits", "one of 64 bits");
    unsigned long long v = 0;
    for (stop = text; *stop; stop++) {
        unsigned d = (unsigned)(*stop <= '9' ? *stop - '0' : (*stop | 32) - 'a' + 10);
        if (__builtin_mul_overflow(v, (unsigned long long)base, &v) || __builtin_add_overflow(v, d, &v) ||
            v > INT64_MAX)
            return fail(x, "an integer beyond 64 bits", "a smaller one");
    }
    t.i = (int64_t)v;
    x->p = q;
    return push(x, t);
}

static glim_status number(struct lex *x)
{
    const char *end = x->p > x->l->src && x->p[-1] == '.' ? NULL : float_end(x, x->p);
    char text[400];
    if (!end)
        return integer(x);
    struct jj_tok t = {.type = JJ_T_FLOAT, .line = line_at(x, x->p), .p = x->p, .n = (size_t)(end - x->p)};
    if (!plain_number(x->p, end, text, sizeof text) || !parse_f64(text, &t.f))
        return fail(x, "a number that is no 64-bit float", "a smaller or shorter one");
    x->p = end;
    return push(x, t);
}

/* Value of n hexadecimal digits at p, -1 when they are not there. */
static int64_t hex(const char *p, const char *end, int n)
{
    int64_t v = 0;
    for (int i = 0; i < n; i++, p++) {
        if (p >= end || !digit_of(*p, 16))
            return -1;
        v = v * 16 + (*p <= '9' ? *p - '0' : (*p | 32) - 'a' + 10);
    }
    return v;
}

/* One escape: *p stands behind the backslash. Writes to o and moves both. */
static glim_status escape(struct lex *x, const char **p, const char *end, char **o)
{
    static const char simple[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    char c = **p;
    int n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    for (size_t i = 0; i + 1 < sizeof simple; i += 2)
        if (simple[i] == c) {
            *(*o)++ = simple[i + 1];
            (*p)++;
            return GLIM_OK;
        }
    if (c == '\n') {
        (*p)++;
        return GLIM_OK;
    }
    int64_t cp = 0;
    if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3 && *p < end && **p >= '0' && **p <= '7'; i++)
            cp = cp * 8 + *(*p)++ - '0';
    } else if (n_hex) {
        cp = hex(*p + 1, end, n_hex);
        *p += 1 + n_hex;
    } else if (c == 'N') {
        return fail(x, "a character by name (\\N)", "its number (\\u)");
    } else { /* no escape: the backslash stays */
        *(*o)++ = '\\';
        return GLIM_OK;
    }
    int n = cp < 0 || cp > 0x10FFFF ? 0 : utf8_encode((uint32_t)cp, *o);
    if (n == 0)
        return fail(x, "an escape that is no character", "hexadecimal digits of a code point");
    *o += n;
    return GLIM_OK;
}

/* Escapes never make text longer, so it fits where it came from; a copy keeps the source for line numbers. */
static glim_status string(struct lex *x)
{
    char quote = *x->p;
    const char *p = x->p + 1;
    bool over;
    while (p < x->end && *p != quote)
        p += *p == '\\' && p + 1 < x->end ? 2 : 1;
    if (p >= x->end)
        return fail(x, "a string without end", "a closing quote");
    struct jj_tok t = {.type = JJ_T_STRING, .line = line_at(x, x->p)};
    char *text = jj_mem_take(&x->l->t->mem, (size_t)(p - x->p), &over), *o = text;
    if (!text)
        return err_nomem(x->l->e, "chat template", (size_t)(p - x->p));
    for (const char *q = x->p + 1; q < p;) {
        if (*q != '\\') {
            *o++ = *q++;
            continue;
        }
        q++;
        TRY(escape(x, &q, p, &o));
    }
    t.p = text;
    t.n = (size_t)(o - text);
    x->p = p + 1;
    return push(x, t);
}

static glim_status bracket(struct lex *x, char c)
{
    const char *open = "([{", *close = ")]}", *k;
    if ((k = strchr(open, c))) {
        if (x->n_stack == sizeof x->stack)
            return fail(x, "brackets nested too deeply", "fewer");
        x->stack[x->n_stack++] = close[k - open];
    } else if (strchr(close, c)) {
        if (x->n_stack == 0 || x->stack[x->n_stack - 1] != c)
            return fail(x, "a closing bracket that nothing opened", "matching brackets");
        x->n_stack--;
    }
    return GLIM_OK;
}

static glim_status operator(struct lex *x)
{
    static const char two[][3] = {"//", "**", "==", "!=", ">=", "<="};
    struct jj_tok t = {.type = JJ_T_OP, .line = line_at(x, x->p), .p = x->p, .n = 1};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (at(x, x->p, two[i]))
            t.n = 2;
    if (t.n == 1 && (*x->p == 0 || !strchr("+-/*%~[](){}><=.:|,;", *x->p)))
        return fail(x, "a character that begins nothing", "a name, number, string or operator");
    memcpy(t.op, x->p, t.n);
    if (t.n == 1)
        TRY(bracket(x, t.op[0]));
    x->p += t.n;
    return push(x, t);
}

/* Tokens up to the tag's end. */
static glim_status tag(struct lex *x, bool block)
{
    x->n_stack = 0;
    for (;;) {
        const char *q = x->n_stack ? NULL : tag_end(x, x->p, block ? "%}" : "}}", block);
        if (q) {
            TRY(push_text(x, block ? JJ_T_BLOCK_END : JJ_T_VAR_END, x->p, 0));
            matched(x, q);
            return GLIM_OK;
        }
        if (x->p >= x->end)
            return fail(x, "a tag without end", block ? "%}" : "}}");
        size_t blank = space_len(x->p, x->end);
        if (blank)
            x->p += blank;
        else if (*x->p >= '0' && *x->p <= '9')
            TRY(number(x));
        else if (word_char(uc_at((const uint8_t *)x->p, (const uint8_t *)x->end)))
            TRY(name(x));
        else if (*x->p == '"' || *x->p == '\'')
            TRY(string(x));
        else
            TRY(operator(x));
    }
}

/* A tag that opens at p ("{{", "{%" or "{#"), with the text before it. */
static glim_status opening(struct lex *x, const char *p)
{
    bool block = p[1] == '%';
    const char *raw = block ? raw_begin(x, p) : NULL;
    char sign = sign_at(x, p + 2);
    TRY(data(x, p, sign, p[1] != '{'));
    if (raw) {
        x->p = p; /* so that `matched` sees the tag alone */
        matched(x, raw);
        return x->p == x->end ? GLIM_OK : raw_body(x); /* Jinja2 does not mind one that opens at the very end */
    }
    x->p = p + 2 + (sign != 0);
    x->line_start = false;
    if (p[1] == '#')
        return x->p == x->end ? GLIM_OK : comment(x, x->p);
    TRY(push_text(x, block ? JJ_T_BLOCK_BEGIN : JJ_T_VAR_BEGIN, p, 0));
    return tag(x, block);
}

static glim_status cut(struct lex *x)
{
    while (x->p < x->end) {
        const char *p = x->p;
        while (p + 1 < x->end && !(p[0] == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#')))
            p++;
        if (p + 1 >= x->end) {
            TRY(push_text(x, JJ_T_DATA, x->p, (size_t)(x->end - x->p)));
            break;
        }
        TRY(opening(x, p));
    }
    x->p = x->end;
    return push_text(x, JJ_T_EOF, x->end, 0);
}

static size_t normal_newlines(const char *text, size_t n, char *out)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        out[k++] = text[i] == '\r' ? '\n' : text[i];
        i += text[i] == '\r' && i + 1 < n && text[i + 1] == '\n';
    }
    return k && out[k - 1] == '\n' ? k - 1 : k;
}

glim_status jj_lex_all(struct jj_lex *l, const char *text, size_t n)
{
    bool over;
    l->src = jj_mem_take(&l->t->mem, n + 1, &over);
    if (!l->src)
        return err_nomem(l->e, "chat template", n);
    l->n_src = normal_newlines(text, n, l->src);
    l->src[l->n_src] = 0;
    struct lex x = {.l = l, .p = l->src, .end = l->src + l->n_src, .counted = l->src, .line = 1, .line_start = true};
    return cut(&x);
}
