/* Calls as in a programming language (DIALECT_LITERAL), their arguments turned into JSON on the way:
 *
 *   [f(a=1, b="x"), g(c=[True, None], d={"k": 2.5})]     strings in ' or ", escapes as in Python
 *   f{a:1,b:<|"|>x<|"|>,c:[true,{d:null}]}               strings in the dialect's quote, no escapes
 *
 * Whatever is an expression rather than a literal is refused. */
#include "text/dialect_impl.h"

#include <string.h>

enum {
    KEY_OR_END, /* in ( or {: a key, or the end */
    IN_KEY,
    ASSIGN,
    VALUE,        /* a value has to come */
    VALUE_OR_END, /* in [: a value, or the end */
    QUOTE,        /* inside the first bytes of the dialect's quote */
    STRING,
    ESCAPE,
    HEX,
    OCTAL_DONE, /* \0 */
    TOKEN,      /* a number or word */
    AFTER
};

enum { GOING, DONE, FAILED };

static const struct dia_state literal_args, literal_after;

static bool braces(const struct dialect_parser *p)
{
    return p->d->quote != NULL;
}

/* The byte between a key and its value. */
static char assign(const struct dialect_parser *p)
{
    return braces(p) || p->lit.depth > 1 ? ':' : '=';
}

static char closer(const struct dialect_parser *p)
{
    return p->lit.close[p->lit.depth - 1];
}

static bool in_list(const struct dialect_parser *p)
{
    return closer(p) == ']';
}

static int open_level(struct dialect_parser *p, char close)
{
    struct dia_literal *l = &p->lit;
    if (l->depth == sizeof l->close)
        return FAILED;
    l->close[l->depth++] = close;
    l->first = true;
    l->state = close == ']' ? VALUE_OR_END : KEY_OR_END;
    dia_args(p, close == ']' ? "[" : "{", 1);
    return GOING;
}

static int close_level(struct dialect_parser *p)
{
    struct dia_literal *l = &p->lit;
    dia_args(p, in_list(p) ? "]" : "}", 1);
    l->depth--;
    l->first = false;
    l->state = AFTER;
    return l->depth ? GOING : DONE;
}

/* ---- keys ---- */

/* At the top a key is a parameter's name. False: the state is "bad", or the call was none. */
static bool key_done(struct dialect_parser *p)
{
    struct dia_literal *l = &p->lit;
    struct str json = {0};
    if (l->depth == 1 && !dia_key_add(p, l->token.s, l->token.n))
        return false;
    if (l->token.n && memchr(l->token.s, 0, l->token.n)) {
        dia_bad(p, "a key: have a NUL byte, need none");
        return false;
    }
    if (l->depth == 1)
        l->string_typed = p->tool && dia_param_types(p->tool, l->token.s) == DIA_STRING;
    str_json(&json, l->token.s, l->token.n);
    if (json.failed)
        l->token.failed = true;
    if (!l->first)
        dia_args(p, ", ", 2);
    dia_args(p, json.s, json.n);
    dia_args(p, ": ", 2);
    str_fini(&json);
    l->first = false;
    return true;
}

static bool word_byte(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 0x80 || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool key_byte(const struct dialect_parser *p, char c)
{
    return word_byte(c) || (braces(p) && (c == '-' || c == '.'));
}

static int key_or_end(struct dialect_parser *p, char c)
{
    struct dia_literal *l = &p->lit;
    bool quoted = l->depth > 1 || braces(p);
    if (dia_blank(c))
        return GOING;
    if (c == closer(p))
        return close_level(p);
    l->token.n = 0;
    l->in_key = true;
    if (braces(p) && c == p->d->quote[0]) {
        l->matched = 1;
        l->state = QUOTE;
        return GOING;
    }
    if (!braces(p) && quoted && (c == '"' || c == '\'')) {
        l->quote = c;
        l->state = STRING;
        return GOING;
    }
    if (!key_byte(p, c) || (!braces(p) && quoted))
        return FAILED;
    str_putc(&l->token, c);
    l->state = IN_KEY;
    return GOING;
}

static int after_key(struct dialect_parser *p, char c)
{
    if (dia_blank(c)) {
        p->lit.state = ASSIGN;
        return GOING;
    }
    if (c != assign(p))
        return FAILED;
    p->lit.in_key = false;
    p->lit.state = VALUE;
    return GOING;
}

/* ---- strings ---- */

static void string_bytes(struct dialect_parser *p, const char *s, size_t n)
{
    struct str json = {0};
    if (p->lit.in_key) {
        str_add(&p->lit.token, s, n);
        return;
    }
    unsigned char u = (unsigned char)*s;
    if (n > 1 || (u >= 0x20 && u != '"' && u != '\\')) {
        dia_args(p, s, n);
        return;
    }
    str_json(&json, s, n);
    if (json.failed)
        p->lit.token.failed = true;
    else
        dia_args(p, json.s + 1, json.n - 2);
    str_fini(&json);
}

static int string_begin(struct dialect_parser *p)
{
    p->lit.state = STRING;
    p->lit.matched = 0;
    if (!p->lit.in_key)
        dia_args(p, "\"", 1);
    return GOING;
}

static int string_end(struct dialect_parser *p)
{
    p->lit.state = p->lit.in_key ? ASSIGN : AFTER;
    if (p->lit.in_key)
        str_add(&p->lit.token, "", 0);
    else
        dia_args(p, "\"", 1);
    return GOING;
}

/* The dialect's quote occurs nowhere inside itself, so a mismatch begins anew with the byte at hand. */
static int quoted_byte(struct dialect_parser *p, char c)
{
    const char *quote = p->d->quote;
    struct dia_literal *l = &p->lit;
    if (c != quote[l->matched]) {
        for (size_t i = 0; i < l->matched; i++)
            string_bytes(p, quote + i, 1);
        l->matched = 0;
    }
    if (c != quote[l->matched]) {
        string_bytes(p, &c, 1);
        return GOING;
    }
    return quote[++l->matched] == 0 ? string_end(p) : GOING;
}

static int string_byte(struct dialect_parser *p, char c)
{
    struct dia_literal *l = &p->lit;
    if (braces(p))
        return quoted_byte(p, c);
    if (l->high && c != '\\')
        return FAILED; /* half of a surrogate pair */
    if (c == l->quote)
        return string_end(p);
    if (c == '\\')
        l->state = ESCAPE;
    else
        string_bytes(p, &c, 1);
    return GOING;
}

static int escape(struct dialect_parser *p, char c)
{
    static const char from[] = "\\'\"abfnrtv0", to[] = "\\'\"\a\b\f\n\r\t\v";
    struct dia_literal *l = &p->lit;
    l->state = STRING;
    if (l->high && c != 'u')
        return FAILED;
    l->left = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (l->left) {
        l->cp = 0;
        l->state = HEX;
        return GOING;
    }
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        string_bytes(p, &to[at - from], 1);
        if (c == '0')
            l->state = OCTAL_DONE;
    } else if (c >= '1' && c <= '9') {
        return FAILED;
    } else if (c != '\n') { /* an unknown escape is no escape; before a newline it joins lines */
        string_bytes(p, "\\", 1);
        string_bytes(p, &c, 1);
    }
    return GOING;
}

static int hex(struct dialect_parser *p, char c)
{
    struct dia_literal *l = &p->lit;
    unsigned digit = dia_hex(c);
    if (digit == 16 || l->cp > 0x10FFFF)
        return FAILED;
    l->cp = l->cp * 16 + digit;
    if (--l->left)
        return GOING;
    l->state = STRING;
    bool high = l->cp >= 0xD800 && l->cp < 0xDC00, low = l->cp >= 0xDC00 && l->cp < 0xE000;
    if (low != (l->high != 0))
        return FAILED;
    if (high) {
        l->high = l->cp;
        return GOING;
    }
    if (low)
        l->cp = 0x10000 + ((l->high - 0xD800) << 10) + (l->cp - 0xDC00);
    l->high = 0;
    char out[4];
    int n = utf8_encode(l->cp, out);
    if (n == 0)
        return FAILED;
    string_bytes(p, out, (size_t)n);
    return GOING;
}

/* ---- numbers and words ---- */

static bool number_is_json(const struct str *s)
{
    struct dia_scan m = {0};
    dia_scan_reset(&m);
    for (size_t i = 0; i < s->n; i++)
        if (dia_scan_step(&m, s->s[i]) & SCAN_BAD)
            return false;
    return dia_scan_complete(&m);
}

/* A token is complete: its JSON. */
static bool token_done(struct dialect_parser *p)
{
    static const struct {
        const char *from, *to;
        bool python;
    } word[] = {{"True", "true", true},  {"False", "false", true},  {"None", "null", true},
                {"true", "true", false}, {"false", "false", false}, {"null", "null", false}};
    struct str *t = &p->lit.token;
    while (t->n && dia_blank(t->s[t->n - 1]))
        t->s[--t->n] = 0;
    bool verbatim = (p->d->flags & DIALECT_WORDS) && p->lit.depth == 1 && p->lit.string_typed;
    for (size_t i = 0; i < sizeof word / sizeof *word && !verbatim; i++)
        if (t->n == strlen(word[i].from) && memcmp(t->s, word[i].from, t->n) == 0 && !(word[i].python && braces(p))) {
            dia_args(p, word[i].to, strlen(word[i].to));
            return true;
        }
    if (!verbatim && (t->s[0] == '-' || (t->s[0] >= '0' && t->s[0] <= '9')) && number_is_json(t)) {
        dia_args(p, t->s, t->n);
        return true;
    }
    if (!(p->d->flags & DIALECT_WORDS))
        return false;
    struct str json = {0};
    str_json(&json, t->s, t->n);
    if (json.failed)
        t->failed = true;
    dia_args(p, json.s, json.n);
    str_fini(&json);
    return true;
}

static int after_value(struct dialect_parser *p, char c)
{
    if (dia_blank(c))
        return GOING;
    if (c == closer(p))
        return close_level(p);
    if (c != ',')
        return FAILED;
    p->lit.state = in_list(p) ? VALUE_OR_END : KEY_OR_END;
    return GOING;
}

static int token_byte(struct dialect_parser *p, char c)
{
    bool words = p->d->flags & DIALECT_WORDS;
    bool over = c == ',' || c == ']' || c == '}' || (!words && (c == ')' || dia_blank(c)));
    if (!over) {
        str_putc(&p->lit.token, c);
        return words || word_byte(c) || c == '.' || c == '-' || c == '+' ? GOING : FAILED;
    }
    p->lit.state = AFTER;
    return token_done(p) ? after_value(p, c) : FAILED;
}

static int value(struct dialect_parser *p, char c)
{
    struct dia_literal *l = &p->lit;
    if (dia_blank(c))
        return GOING;
    if (l->state == VALUE_OR_END && c == ']')
        return close_level(p);
    if (in_list(p) && !l->first)
        dia_args(p, ", ", 2);
    l->first = false;
    l->in_key = false;
    if (c == '[' || c == '{')
        return open_level(p, c == '[' ? ']' : '}');
    if (braces(p) && c == p->d->quote[0]) {
        l->matched = 1;
        l->state = QUOTE;
        return GOING;
    }
    if (!braces(p) && (c == '"' || c == '\'')) {
        l->quote = c;
        return string_begin(p);
    }
    l->token.n = 0;
    l->state = TOKEN;
    return c == ',' || c == ')' || c == '}' || c == ']' ? FAILED : token_byte(p, c);
}

/* The first bytes of the dialect's quote; l->matched of them were seen. */
static int quote_byte(struct dialect_parser *p, char c)
{
    struct dia_literal *l = &p->lit;
    if (c != p->d->quote[l->matched])
        return FAILED;
    return p->d->quote[++l->matched] == 0 ? string_begin(p) : GOING;
}

static int step(struct dialect_parser *p, char c)
{
    switch (p->lit.state) {
    case KEY_OR_END:
        return key_or_end(p, c);
    case IN_KEY:
        if (key_byte(p, c)) {
            str_putc(&p->lit.token, c);
            return p->lit.token.n > DIALECT_NAME_MAX ? FAILED : GOING;
        }
        return after_key(p, c);
    case ASSIGN:
        return after_key(p, c);
    case VALUE:
    case VALUE_OR_END:
        return value(p, c);
    case QUOTE:
        return quote_byte(p, c);
    case OCTAL_DONE:
        p->lit.state = STRING;
        return c >= '0' && c <= '9' ? FAILED : string_byte(p, c);
    case STRING:
        return string_byte(p, c);
    case ESCAPE:
        return escape(p, c);
    case HEX:
        return hex(p, c);
    case TOKEN:
        return token_byte(p, c);
    default:
        return after_value(p, c);
    }
}

/* ---- around the arguments ---- */

static void group_enter(struct dialect_parser *p)
{
    if (p->grouped)
        dia_mark(p, p->d->close, DIA_CLOSE);
}

static void call_begin(struct dialect_parser *p)
{
    dia_call_reset(p);
    dia_go(p, &dia_literal_call);
}

static void group_text(struct dialect_parser *p, char c)
{
    bool name = word_byte(c) && !p->listed;
    if ((p->d->flags & DIALECT_LIST) && c == '[' && !p->list && !p->listed && p->n_group == 0) {
        p->list = true;
    } else if (c == ']' && p->list && p->tentative) {
        dia_bad(p, "not a call");
    } else if (c == ']' && p->list) {
        p->list = false;
        p->listed = true;
        p->raw.n = 0;
        if (!p->d->close || !p->grouped)
            dia_leave(p);
    } else if ((c == ',' || c == ';') && p->n_group && !p->listed) {
        p->raw.n = 0;
    } else if (name) {
        dia_unread(p, c);
        call_begin(p);
    } else {
        dia_group_text(p, c);
    }
}

static void group_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)what, (void)s, (void)n;
    if (p->n_group == 0 && !p->listed) {
        dia_bad(p, "a group of calls: have none, need one");
        dia_malformed(p);
    }
    dia_leave(p);
}

static void group_end(struct dialect_parser *p, enum dialect_finish why)
{
    if (p->tentative)
        dia_incomplete(p, why);
    else
        dia_group_end(p, why);
}

const struct dia_state dia_literal_group = {group_enter, group_text, group_mark, group_end, true};

void dia_literal_bare(struct dialect_parser *p, char c)
{
    (void)c;
    dia_call_reset(p);
    p->tentative = p->list = true;
    p->grouped = p->alone = p->listed = false;
    p->n_group = 0;
    dia_go(p, &dia_literal_group);
}

static void args_begin(struct dialect_parser *p, char close)
{
    static const char print[] = "print";
    struct str *name = &p->name;
    if ((p->d->flags & DIALECT_PRINT) && !p->printed && name->n == sizeof print - 1 &&
        memcmp(name->s, print, name->n) == 0) {
        p->printed = true;
        name->n = 0;
        return;
    }
    static const char call[] = ".call";
    size_t n = sizeof call - 1;
    if (p->d->flags & DIALECT_BUILTIN) {
        if (name->n <= n || memcmp(name->s + name->n - n, call, n) != 0) {
            dia_bad(p, "a call: have code for the model's own interpreter, need a call of a tool");
            return;
        }
        name->n -= n;
        name->s[name->n] = 0;
    }
    if (p->tentative && (!dia_name_ok(name) || !dia_tool_known(p, name))) {
        dia_bad(p, "not a call");
        return;
    }
    struct dia_literal *l = &p->lit;
    l->depth = 1;
    l->close[0] = close;
    l->first = true;
    l->in_key = false;
    l->high = 0;
    l->state = KEY_OR_END;
    dia_go(p, &literal_args);
}

static void call_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->call_end, DIA_CALL_END);
    if (p->grouped)
        dia_mark(p, p->d->close, DIA_CLOSE);
}

static void call_text(struct dialect_parser *p, char c)
{
    if (c == (braces(p) ? '{' : '(')) {
        args_begin(p, braces(p) ? '}' : ')');
        return;
    }
    bool builtin = p->d->flags & DIALECT_BUILTIN;
    if (!word_byte(c) && c != '.' && !(braces(p) && (c == '-' || c == '/' || c == ':'))) {
        dia_bad_at(p, c,
                   builtin ? "a call: have code for the model's own interpreter, need a call of a tool"
                           : "a call: have no name and arguments, need f(…)");
        return;
    }
    str_putc(&p->name, c);
    if (p->name.n > DIALECT_NAME_MAX)
        dia_bad(p, "a tool's name: have more than %d bytes, need fewer", DIALECT_NAME_MAX);
}

static void call_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s, (void)n;
    dia_bad(p, "a call: have its end in its name, need its arguments");
    dia_malformed(p);
    if (what == DIA_CLOSE)
        dia_leave(p);
    else
        dia_group(p);
}

const struct dia_state dia_literal_call = {call_enter, call_text, call_mark, dia_incomplete, true};

/* A call without a marker is one when its first key, or its end, has come. */
static bool certain(struct dialect_parser *p)
{
    if (p->begun)
        return true;
    p->tentative = false;
    if (!dia_call_begin(p))
        return false;
    dia_args(p, "{", 1);
    return true;
}

static void args_text(struct dialect_parser *p, char c)
{
    struct dia_literal *l = &p->lit;
    bool keyed = (l->state == IN_KEY && !key_byte(p, c)) || l->state == ASSIGN;
    bool ends = l->state == KEY_OR_END && l->depth == 1 && c == closer(p);
    if (keyed && !dia_blank(c)) {
        if (c != assign(p)) {
            dia_bad_at(p, c, "arguments: have one without a name, need name=value");
            return;
        }
        if (!certain(p) || !key_done(p))
            return;
    }
    if (ends && !certain(p))
        return;
    int got = step(p, c);
    if (got == FAILED) {
        dia_bad_at(p, c, "arguments: have text that is not a literal, need literals");
    } else if (got == DONE) {
        bool printed = p->printed;
        dia_call_end(p);
        p->printed = printed;
        dia_go(p, &literal_after);
    }
}

static const struct dia_state literal_args = {NULL, args_text, NULL, dia_incomplete, true};

static void after_enter(struct dialect_parser *p)
{
    if (!p->printed)
        call_enter(p);
}

static void after_text(struct dialect_parser *p, char c)
{
    if (p->printed && c == ')') {
        p->printed = false;
        dia_go(p, &literal_after);
    } else if (p->printed && !dia_blank(c)) {
        dia_bad_at(p, c, "a call: have text after its arguments, need its end");
    } else if (p->d->call_end) {
        if (!dia_blank(c))
            dia_bad_at(p, c, "a call: have text after its arguments, need its end");
    } else if (!p->printed) {
        dia_unread(p, c);
        if (p->d->flags & DIALECT_BUILTIN)
            dia_leave(p);
        else
            dia_go(p, &dia_literal_group);
    }
}

static void after_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s, (void)n;
    p->raw.n = 0;
    if (what == DIA_CLOSE)
        dia_leave(p);
    else
        dia_group(p);
}

static void after_end(struct dialect_parser *p, enum dialect_finish why)
{
    (void)p, (void)why; /* the call is complete */
}

static const struct dia_state literal_after = {after_enter, after_text, after_mark, after_end, true};
