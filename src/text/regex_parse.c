/* ECMA-262 patterns (21.2.1 with the u flag, and the leniencies of annex B that cannot be misread: a `{` or `]` that
 * begins nothing is a character, and so is any escaped punctuation) as a tree.
 *
 * Sets are kept by content, so that a pattern which says `.` a hundred times has one of them. */
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/regex_parse.h"

#include <string.h>

enum { LAST_CHAR = 0x10FFFF };

glim_status re_refuse(const struct re *r, size_t at, const char *have, const char *need, struct glim_err *e)
{
    int shown = r->n < 80 ? (int)r->n : 80;
    return err_set(e, GLIM_REFUSED, "regular expression refused: /%.*s%s/ at byte %zu: have %s, need %s", shown,
                   r->pattern, r->n > 80 ? "…" : "", at, have, need);
}

static glim_status malformed(const struct re *r, size_t at, const char *have, const char *need, struct glim_err *e)
{
    glim_status st = re_refuse(r, at, have, need, e);
    if (e)
        e->status = GLIM_FAILED;
    return st == GLIM_REFUSED ? GLIM_FAILED : st;
}

struct parser {
    struct re *r;
    const uint8_t *p;
    size_t at, n;
    int depth;
    struct glim_err *e;
    struct code_range *set; /* the set being made, unordered */
    size_t n_set, cap_set;
};

static bool more(const struct parser *s)
{
    return s->at < s->n;
}

static uint8_t peek(const struct parser *s)
{
    return s->at < s->n ? s->p[s->at] : 0;
}

static bool eat(struct parser *s, const char *word)
{
    size_t n = strlen(word);
    if (s->n - s->at < n || memcmp(s->p + s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

static glim_status bad(const struct parser *s, size_t at, const char *have, const char *need)
{
    return malformed(s->r, at, have, need, s->e);
}

static glim_status starved(const struct parser *s)
{
    return err_nomem(s->e, "regular expression", s->n);
}

static glim_status new_node(struct parser *s, enum re_kind kind, size_t at, uint32_t *out)
{
    struct re *r = s->r;
    if (!mem_grow((void **)&r->node, &r->cap_node, r->n_node, sizeof *r->node))
        return starved(s);
    r->node[r->n_node] = (struct re_node){.kind = kind, .child = RE_NONE, .next = RE_NONE, .at = (uint32_t)at};
    *out = (uint32_t)r->n_node++;
    return GLIM_OK;
}

/* ---- sets ---- */

static bool set_add(void *user, uint32_t first, uint32_t last)
{
    struct parser *s = user;
    if (!mem_grow((void **)&s->set, &s->cap_set, s->n_set, sizeof *s->set))
        return false;
    s->set[s->n_set++] = (struct code_range){first, last};
    return true;
}

static void sort_ranges(struct code_range *v, size_t n)
{
    size_t gap = 1;
    while (gap < n / 3)
        gap = gap * 3 + 1;
    for (; gap; gap /= 3)
        for (size_t i = gap; i < n; i++) {
            struct code_range x = v[i];
            size_t j = i;
            for (; j >= gap && v[j - gap].first > x.first; j -= gap)
                v[j] = v[j - gap];
            v[j] = x;
        }
}

/* Order the ranges from `from` on and join those that touch. */
static void set_tidy(struct parser *s, size_t from)
{
    size_t n = s->n_set - from, m = 0;
    if (!n)
        return;
    struct code_range *v = s->set + from;
    sort_ranges(v, n);
    for (size_t i = 1; i < n; i++) {
        if (v[i].first <= v[m].last + 1)
            v[m].last = v[i].last > v[m].last ? v[i].last : v[m].last;
        else
            v[++m] = v[i];
    }
    s->n_set = from + m + 1;
}

/* Replace the ranges from `from` on by all other characters. */
static bool set_negate(struct parser *s, size_t from)
{
    uint32_t next = 0;
    set_tidy(s, from);
    size_t n = s->n_set;
    for (size_t i = from; i < n; i++) {
        uint32_t first = s->set[i].first, last = s->set[i].last;
        if (first > next && !set_add(s, next, first - 1))
            return false;
        next = last + 1;
    }
    if (next <= LAST_CHAR && !set_add(s, next, LAST_CHAR))
        return false;
    memmove(s->set + from, s->set + n, (s->n_set - n) * sizeof *s->set);
    s->n_set -= n - from;
    return true;
}

/* The collected ranges as a node. */
static glim_status set_node(struct parser *s, size_t at, uint32_t *out)
{
    struct re *r = s->r;
    set_tidy(s, 0);
    uint64_t h = xxh3(s->set, s->n_set * sizeof *s->set);
    size_t i = 0;
    while (i < r->n_set && (r->set[i].hash != h || r->set[i].n != s->n_set ||
                            (s->n_set && memcmp(r->range + r->set[i].first, s->set, s->n_set * sizeof *s->set) != 0)))
        i++;
    if (i == r->n_set) {
        if (!mem_grow((void **)&r->set, &r->cap_set, r->n_set, sizeof *r->set))
            return starved(s);
        r->set[i] = (struct re_set){.first = (uint32_t)r->n_range, .n = (uint32_t)s->n_set, .hash = h};
        for (size_t j = 0; j < s->n_set; j++) {
            if (!mem_grow((void **)&r->range, &r->cap_range, r->n_range, sizeof *r->range))
                return starved(s);
            r->range[r->n_range++] = s->set[j];
        }
        r->n_set++;
    }
    s->n_set = 0;
    TRY(new_node(s, RE_SET, at, out));
    r->node[*out].set = (uint32_t)i;
    return GLIM_OK;
}

/* ---- escapes ---- */

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Exactly n hex digits; false leaves the place as it was. */
static bool hex(struct parser *s, size_t n, uint32_t *out)
{
    uint32_t v = 0;
    if (s->n - s->at < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int d = hex_digit(s->p[s->at + i]);
        if (d < 0)
            return false;
        v = v << 4 | (uint32_t)d;
    }
    s->at += n;
    *out = v;
    return true;
}

/* After "\u": four digits, a pair of surrogates, or {…}. */
static glim_status unicode_escape(struct parser *s, size_t at, uint32_t *cp)
{
    if (eat(s, "{")) {
        *cp = 0;
        size_t from = s->at;
        for (; hex_digit(peek(s)) >= 0 && *cp <= LAST_CHAR; s->at++)
            *cp = *cp << 4 | (uint32_t)hex_digit(peek(s));
        if (s->at == from || *cp > LAST_CHAR || !eat(s, "}"))
            return bad(s, at, "a damaged \\u{…}", "hex digits of a code point");
        return GLIM_OK;
    }
    if (!hex(s, 4, cp))
        return bad(s, at, "a damaged \\u", "four hex digits");
    size_t after = s->at;
    uint32_t low;
    if (*cp >= 0xD800 && *cp < 0xDC00 && eat(s, "\\u") && hex(s, 4, &low) && low >= 0xDC00 && low < 0xE000)
        *cp = 0x10000 + ((*cp - 0xD800) << 10) + (low - 0xDC00);
    else
        s->at = after;
    return GLIM_OK;
}

static const struct code_range digits[] = {{'0', '9'}}, words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                               spaces[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                           {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                           {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

static glim_status property_escape(struct parser *s, size_t at)
{
    bool known, braced = eat(s, "{");
    size_t from = s->at;
    while (more(s) && peek(s) != '}')
        s->at++;
    if (!braced || !more(s))
        return bad(s, at, "a damaged \\p", "\\p{name}");
    if (!re_property((const char *)s->p + from, s->at - from, set_add, s, &known))
        return starved(s);
    s->at++;
    return known ? GLIM_OK : re_refuse(s->r, at, "an unknown property", regex_property_names, s->e);
}

/* \d \w \s \p and their complements, added to the set; *done tells whether it was one of them. The backslash and the
 * letter c have been read. */
static glim_status class_escape(struct parser *s, size_t at, uint8_t c, bool *done)
{
    const struct code_range *v = NULL;
    size_t n = 0, from = s->n_set;
    bool negated = c < 'a';
    uint8_t lower = c | 0x20;
    *done = c != 0 && strchr("dDwWsSpP", c) != NULL;
    if (!*done)
        return GLIM_OK;
    if (lower == 'p')
        TRY(property_escape(s, at));
    else if (lower == 'd')
        v = digits, n = sizeof digits / sizeof *digits;
    else if (lower == 'w')
        v = words, n = sizeof words / sizeof *words;
    else
        v = spaces, n = sizeof spaces / sizeof *spaces;
    for (size_t i = 0; i < n; i++)
        if (!set_add(s, v[i].first, v[i].last))
            return starved(s);
    return negated && !set_negate(s, from) ? starved(s) : GLIM_OK;
}

/* The character that an escape stands for, after the backslash and c have been read. */
static glim_status char_escape(struct parser *s, size_t at, uint8_t c, uint32_t *cp)
{
    static const char letter[] = "tnvfr", code[] = "\t\n\v\f\r";
    const char *known = c ? strchr(letter, c) : NULL;
    *cp = c;
    if (known)
        *cp = (uint32_t)code[known - letter];
    else if (c == 'x')
        return hex(s, 2, cp) ? GLIM_OK : bad(s, at, "a damaged \\x", "two hex digits");
    else if (c == 'u')
        return unicode_escape(s, at, cp);
    else if (c == 'c') {
        uint8_t l = peek(s) | 0x20;
        if (l < 'a' || l > 'z')
            return bad(s, at, "a damaged \\c", "a letter after it");
        *cp = peek(s) & 31;
        s->at++;
    } else if (c == '0' && !(peek(s) >= '0' && peek(s) <= '9'))
        *cp = 0;
    else if (c >= '0' && c <= '9')
        return re_refuse(s->r, at, "a backreference or an octal escape", "an expression without them", s->e);
    else if (c == 'k')
        return re_refuse(s->r, at, "a backreference (\\k)", "an expression without them", s->e);
    else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return bad(s, at, "an unknown escape", "one that ECMA-262 has");
    else if (c >= 0x80) {
        s->at--;
        int len = utf8_decode(s->p + s->at, s->n - s->at, cp);
        s->at += (size_t)len;
    }
    return GLIM_OK;
}

/* ---- classes ---- */

/* One member of [...]: a class escape (added, *cp = RE_NONE) or a character. */
static glim_status class_member(struct parser *s, uint32_t *cp)
{
    size_t at = s->at;
    bool done = false;
    if (!eat(s, "\\")) {
        int len = utf8_decode(s->p + s->at, s->n - s->at, cp);
        s->at += (size_t)len;
        return GLIM_OK;
    }
    if (!more(s))
        return bad(s, at, "a backslash at the end", "an escape");
    uint8_t c = s->p[s->at++];
    TRY(class_escape(s, at, c, &done));
    if (done) {
        *cp = RE_NONE;
        return GLIM_OK;
    }
    if (c == 'b') {
        *cp = 8;
        return GLIM_OK;
    }
    return char_escape(s, at, c, cp);
}

static glim_status parse_class(struct parser *s, uint32_t *out)
{
    size_t at = s->at++;
    bool negated = eat(s, "^");
    s->n_set = 0;
    while (!eat(s, "]")) {
        size_t here = s->at;
        uint32_t a, b;
        if (!more(s))
            return bad(s, at, "a class without its end", "]");
        TRY(class_member(s, &a));
        b = a;
        if (peek(s) == '-' && s->at + 1 < s->n && s->p[s->at + 1] != ']') {
            s->at++;
            TRY(class_member(s, &b));
            if (a == RE_NONE || b == RE_NONE)
                return bad(s, here, "a range that ends in a class", "two characters");
            if (a > b)
                return bad(s, here, "a range out of order", "the lower character first");
        }
        if (a != RE_NONE && !set_add(s, a, b))
            return starved(s);
    }
    if (negated && !set_negate(s, 0))
        return starved(s);
    return set_node(s, at, out);
}

static glim_status one_char(struct parser *s, size_t at, uint32_t cp, uint32_t *out)
{
    s->n_set = 0;
    return set_add(s, cp, cp) ? set_node(s, at, out) : starved(s);
}

static glim_status parse_dot(struct parser *s, uint32_t *out)
{
    size_t at = s->at++;
    s->n_set = 0;
    if (!set_add(s, '\n', '\n') || !set_add(s, '\r', '\r') || !set_add(s, 0x2028, 0x2029) || !set_negate(s, 0))
        return starved(s);
    return set_node(s, at, out);
}

static glim_status parse_escape(struct parser *s, uint32_t *out)
{
    size_t at = s->at++;
    bool done;
    uint32_t cp;
    if (!more(s))
        return bad(s, at, "a backslash at the end", "an escape");
    uint8_t c = s->p[s->at++];
    if (c == 'b' || c == 'B')
        return re_refuse(s->r, at, "a word boundary (\\b, \\B)", "an expression without it", s->e);
    s->n_set = 0;
    TRY(class_escape(s, at, c, &done));
    if (done)
        return set_node(s, at, out);
    TRY(char_escape(s, at, c, &cp));
    return one_char(s, at, cp, out);
}

/* ---- structure ---- */

static glim_status parse_alt(struct parser *s, uint32_t *out);

/* What follows "(?" and is no group: refused by its name. */
static glim_status odd_group(const struct parser *s, size_t at)
{
    uint8_t a = peek(s), b = s->at + 1 < s->n ? s->p[s->at + 1] : 0;
    if (a == '<' && (b == '=' || b == '!'))
        return re_refuse(s->r, at, "a lookbehind", "an expression without it", s->e);
    if (a == '>')
        return re_refuse(s->r, at, "an atomic group", "an expression without it", s->e);
    if ((a >= 'a' && a <= 'z') || a == '-')
        return re_refuse(s->r, at, "flags inside the expression", "an expression without them", s->e);
    return bad(s, at, "an unknown group", "(…), (?:…), (?<name>…), (?=…) or (?!…)");
}

static bool group_name(struct parser *s)
{
    size_t from = s->at;
    while (more(s) && peek(s) != '>')
        s->at++;
    return s->at > from && eat(s, ">");
}

static glim_status parse_group(struct parser *s, uint32_t *out)
{
    size_t at = s->at++;
    bool ahead = false, negated = false;
    if (s->depth >= REGEX_MAX_DEPTH)
        return re_refuse(s->r, at, "groups nested too deeply", "at most 200 levels", s->e);
    if (eat(s, "?=") || eat(s, "?!")) {
        ahead = true;
        negated = s->p[s->at - 1] == '!';
    } else if (eat(s, "?:")) {
    } else if (s->n - s->at > 2 && memcmp(s->p + s->at, "?<", 2) == 0 && !strchr("=!", s->p[s->at + 2])) {
        s->at += 2;
        if (!group_name(s))
            return bad(s, at, "a group without its name", "(?<name>…)");
    } else if (eat(s, "?"))
        return odd_group(s, at);
    s->depth++;
    TRY(parse_alt(s, out));
    s->depth--;
    if (!eat(s, ")"))
        return bad(s, at, "a group without its end", ")");
    if (ahead) {
        uint32_t inner = *out;
        TRY(new_node(s, RE_AHEAD, at, out));
        s->r->node[*out].child = inner;
        s->r->node[*out].negated = negated;
    }
    return GLIM_OK;
}

static bool count_digits(struct parser *s, uint32_t *out)
{
    size_t from = s->at;
    uint32_t v = 0;
    for (; peek(s) >= '0' && peek(s) <= '9'; s->at++)
        if (v <= REGEX_MAX_COUNT)
            v = v * 10 + (uint32_t)(peek(s) - '0');
    *out = v;
    return s->at > from;
}

/* {n}, {n,} or {n,m}; what does not look so is left alone. */
static bool braces(struct parser *s, uint32_t *min, uint32_t *max)
{
    size_t from = s->at;
    if (eat(s, "{") && count_digits(s, min)) {
        *max = *min;
        if (eat(s, ",") && !count_digits(s, max))
            *max = RE_MANY;
        if (eat(s, "}"))
            return true;
    }
    s->at = from;
    return false;
}

static bool quantifier(struct parser *s, uint32_t *min, uint32_t *max)
{
    if (braces(s, min, max))
        return true;
    if (!more(s) || !strchr("*+?", peek(s)))
        return false;
    *min = peek(s) == '+';
    *max = peek(s) == '?' ? 1 : RE_MANY;
    s->at++;
    return true;
}

/* Put what stands before a quantifier into a repetition. */
static glim_status parse_quantifier(struct parser *s, uint32_t *node)
{
    size_t at = s->at;
    uint32_t min, max, inner = *node;
    if (!quantifier(s, &min, &max))
        return GLIM_OK;
    const struct re_node *v = &s->r->node[inner];
    if (v->kind == RE_AHEAD)
        return re_refuse(s->r, at, "a repeated lookahead", "an expression without it", s->e);
    if (v->kind == RE_START || v->kind == RE_END)
        return bad(s, at, "a repeated ^ or $", "something to repeat");
    if (min > REGEX_MAX_COUNT || (max != RE_MANY && max > REGEX_MAX_COUNT))
        return re_refuse(s->r, at, "a count over 65535", "a smaller one", s->e);
    if (min > max)
        return bad(s, at, "a count out of order", "the smaller number first");
    eat(s, "?"); /* lazy: the same texts match */
    TRY(new_node(s, RE_REPEAT, at, node));
    s->r->node[*node].child = inner;
    s->r->node[*node].min = min;
    s->r->node[*node].max = max;
    return GLIM_OK;
}

static glim_status parse_atom(struct parser *s, uint32_t *out)
{
    size_t at = s->at;
    uint32_t cp, min, max;
    uint8_t c = peek(s);
    if (c == '^' || c == '$') {
        s->at++;
        return new_node(s, c == '^' ? RE_START : RE_END, at, out);
    }
    if (c == '(')
        return parse_group(s, out);
    if (c == '[')
        return parse_class(s, out);
    if (c == '.')
        return parse_dot(s, out);
    if (c == '\\')
        return parse_escape(s, out);
    if (quantifier(s, &min, &max))
        return bad(s, at, "a repetition of nothing", "something to repeat");
    int len = utf8_decode(s->p + at, s->n - at, &cp);
    s->at += (size_t)len;
    return one_char(s, at, cp, out);
}

static glim_status parse_cat(struct parser *s, uint32_t *out)
{
    uint32_t node = RE_NONE, last = RE_NONE;
    TRY(new_node(s, RE_CAT, s->at, out));
    while (more(s) && peek(s) != '|' && peek(s) != ')') {
        TRY(parse_atom(s, &node));
        TRY(parse_quantifier(s, &node));
        *(last == RE_NONE ? &s->r->node[*out].child : &s->r->node[last].next) = node;
        last = node;
    }
    return GLIM_OK;
}

static glim_status parse_alt(struct parser *s, uint32_t *out)
{
    uint32_t node = RE_NONE, last = RE_NONE;
    TRY(new_node(s, RE_ALT, s->at, out));
    do {
        TRY(parse_cat(s, &node));
        *(last == RE_NONE ? &s->r->node[*out].child : &s->r->node[last].next) = node;
        last = node;
    } while (eat(s, "|"));
    return GLIM_OK;
}

static glim_status check_text(struct parser *s)
{
    uint32_t cp;
    if (s->n > REGEX_MAX_BYTES)
        return re_refuse(s->r, 0, "more than 65536 bytes", "a shorter expression", s->e);
    for (size_t i = 0; i < s->n;) {
        int len = utf8_decode(s->p + i, s->n - i, &cp);
        if (!len)
            return bad(s, i, "a byte that is not UTF-8", "UTF-8");
        i += (size_t)len;
    }
    return GLIM_OK;
}

glim_status re_parse(struct re *r, const char *pattern, size_t n, struct glim_err *e)
{
    *r = (struct re){.pattern = pattern, .n = n};
    struct parser s = {.r = r, .p = (const uint8_t *)pattern, .n = n, .e = e};
    glim_status st = check_text(&s);
    if (st == GLIM_OK)
        st = parse_alt(&s, &r->root);
    if (st == GLIM_OK && more(&s))
        st = bad(&s, s.at, "a ) without its (", "both or none");
    mem_free(s.set);
    return st;
}

void re_fini(struct re *r)
{
    mem_free(r->node);
    mem_free(r->set);
    mem_free(r->range);
    *r = (struct re){0};
}
