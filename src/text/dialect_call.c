/* What all calls share. A call begins (dia_call_begin) when its name is certain, its arguments follow as JSON text, and
 * it ends or is malformed. After a malformed one the text is skipped up to a mark after which another may begin. */
#include "text/dialect_impl.h"
#include "base/hash.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void dia_call_reset(struct dialect_parser *p)
{
    p->begun = p->id_told = false;
    p->name.n = p->id.n = p->early.n = p->value.n = 0;
    p->keys_text.n = p->n_key = 0;
    p->tool = NULL;
    p->have_args = p->in_args = p->args_null = false;
    p->printed = false;
}

static const struct dia_state *group_of(const struct dialect_parser *p)
{
    switch (p->d->syntax) {
    case DIALECT_JSON:
        return &dia_json_group;
    case DIALECT_NAMED:
        return &dia_named_group;
    case DIALECT_PARAMS:
        return &dia_params_group;
    case DIALECT_LITERAL:
        return &dia_literal_group;
    case DIALECT_NO_CALLS:
        break;
    }
    return &dia_content;
}

static const struct dia_state *call_of(const struct dialect_parser *p)
{
    if (p->d->syntax == DIALECT_NAMED)
        return &dia_named_call;
    return p->d->syntax == DIALECT_PARAMS ? &dia_params_call : &dia_literal_call;
}

void dia_trigger(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    p->raw.n = 0;
    str_add(&p->raw, s, n);
    dia_call_reset(p);
    p->grouped = what == DIA_OPEN;
    p->alone = what == DIA_CALL && p->d->open;
    p->list = what == DIA_OPEN && (p->d->flags & DIALECT_LIST_OPEN);
    p->listed = false;
    p->n_group = 0;
    dia_go(p, what == DIA_OPEN ? group_of(p) : call_of(p));
}

/* Blanks and control bytes do not belong into a name, nor quotes and angle brackets, which are lost markup. */
bool dia_name_ok(const struct str *name)
{
    for (size_t i = 0; i < name->n; i++) {
        unsigned char c = (unsigned char)name->s[i];
        if (c <= ' ' || c == 0x7f || c == '"' || c == '<' || c == '>')
            return false;
    }
    return name->n > 0 && name->n <= DIALECT_NAME_MAX;
}

bool dia_tool_known(const struct dialect_parser *p, const struct str *name)
{
    return !p->tools || dia_tool(p->tools, name->s);
}

bool dia_call_begin(struct dialect_parser *p)
{
    if (!dia_name_ok(&p->name)) {
        dia_bad(p, "a tool's name: have %zu bytes, need 1 to %d without blanks or markup", p->name.n, DIALECT_NAME_MAX);
        return false;
    }
    p->tool = p->tools ? dia_tool(p->tools, p->name.s) : NULL;
    p->id_told = p->id.n > 0;
    struct dialect_event ev = {.kind = DIALECT_CALL_BEGIN,
                               .index = p->n_call,
                               .name = p->name.s,
                               .id = p->id_told ? p->id.s : NULL,
                               .unknown_tool = p->tools && !p->tool};
    dia_emit(p, &ev);
    p->n_call++;
    p->begun = true;
    return true;
}

void dia_args(struct dialect_parser *p, const char *s, size_t n)
{
    dia_delta(p, DIALECT_ARGUMENTS, s, n);
}

bool dia_key_add(struct dialect_parser *p, const char *s, size_t n)
{
    uint64_t hash = xxh3(s, n);
    if (n && memchr(s, 0, n)) {
        dia_bad(p, "a parameter's name: have a NUL byte, need none");
        return false;
    }
    for (size_t i = 0; i < p->n_key; i++)
        if (p->key[i].hash == hash && p->key[i].n == n &&
            (n == 0 || memcmp(p->keys_text.s + p->key[i].at, s, n) == 0)) {
            dia_bad(p, "a parameter: have \"%.*s\" twice, need each once", n > 60 ? 60 : (int)n, s);
            return false;
        }
    if (p->n_key == DIALECT_PARAMS_MAX) {
        dia_bad(p, "parameters: have more than %d, need fewer", DIALECT_PARAMS_MAX);
        return false;
    }
    void *key = p->key;
    if (!mem_grow(&key, &p->cap_key, p->n_key, sizeof *p->key)) {
        dia_fail(p, err_nomem(&p->err, "parameters of a call", (p->n_key + 1) * sizeof *p->key));
        return false;
    }
    p->key = key;
    p->key[p->n_key++] = (struct dia_key){hash, p->keys_text.n, n};
    str_add(&p->keys_text, s, n);
    return true;
}

void dia_call_end(struct dialect_parser *p)
{
    struct dialect_event ev = {
        .kind = DIALECT_CALL_END, .index = p->n_call - 1, .id = p->id.n && !p->id_told ? p->id.s : NULL};
    dia_emit(p, &ev);
    p->n_group++;
    p->raw.n = 0;
    dia_call_reset(p);
}

/* ---- malformed calls ---- */

void dia_malformed(struct dialect_parser *p)
{
    struct dialect_event ev = {.kind = DIALECT_MALFORMED,
                               .text = p->raw.s ? p->raw.s : "",
                               .n = p->raw.n,
                               .index = p->begun ? p->n_call - 1 : DIALECT_NO_INDEX,
                               .reason = p->reason};
    dia_emit(p, &ev);
    p->n_group++;
    p->raw.n = 0;
    dia_call_reset(p);
}

static void bad_enter(struct dialect_parser *p)
{
    const struct dialect *d = p->d;
    if (d->message) {
        dia_drop_marks(p, DIA_MESSAGE_END);
        dia_mark(p, d->start, DIA_START);
        return;
    }
    bool json = d->syntax == DIALECT_JSON;
    if (!json)
        dia_mark(p, d->call_end, DIA_CALL_END);
    if (p->grouped || p->alone)
        dia_mark(p, d->close, DIA_CLOSE);
    if (p->n_mark)
        return;
    dia_mark(p, d->open, DIA_OPEN);
    dia_mark(p, d->call, json ? DIA_OPEN : DIA_CALL);
}

static void bad_text(struct dialect_parser *p, char c)
{
    (void)p, (void)c; /* kept in raw */
}

static void bad_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    bool next = what == DIA_OPEN || what == DIA_CALL || what == DIA_MESSAGE_END || what == DIA_START;
    if (next && p->raw.n >= n)
        p->raw.n -= n;
    dia_malformed(p);
    if (what == DIA_OPEN || what == DIA_CALL)
        dia_trigger(p, what, s, n);
    else if (next)
        dia_message_mark(p, what);
    else if (what == DIA_CALL_END)
        dia_group(p);
    else
        dia_leave(p);
}

static void bad_end(struct dialect_parser *p, enum dialect_finish why)
{
    (void)why;
    dia_malformed(p);
}

static const struct dia_state bad = {bad_enter, bad_text, bad_mark, bad_end, true};

void dia_bad(struct dialect_parser *p, const char *fmt, ...)
{
    if (p->tentative) {
        dia_replay(p);
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(p->reason, sizeof p->reason, fmt, ap);
    va_end(ap);
    /* a name that was cut short must not end inside a character */
    size_t have = n < 0 ? 0 : (size_t)n < sizeof p->reason ? (size_t)n : sizeof p->reason - 1;
    for (size_t at = 0, len; at < have; at += len) {
        uint32_t cp;
        len = (size_t)utf8_decode((const uint8_t *)p->reason + at, have - at, &cp);
        if (len == 0) {
            p->reason[at] = '?';
            len = 1;
        }
    }
    dia_go(p, &bad);
}

void dia_bad_at(struct dialect_parser *p, char c, const char *why)
{
    bool tentative = p->tentative;
    if (!tentative)
        dia_unread(p, c);
    dia_bad(p, "%s", why);
}

void dia_incomplete(struct dialect_parser *p, enum dialect_finish why)
{
    if (p->tentative && why == DIALECT_STOPPED) {
        dia_replay(p);
        p->st->end(p, why);
        return;
    }
    p->tentative = false;
    snprintf(p->reason, sizeof p->reason, "a call: have the end of the text (%s), need the call's end",
             why == DIALECT_STOPPED ? "the model stopped" : "its length is used up");
    dia_malformed(p);
}

/* ---- between calls ---- */

void dia_leave(struct dialect_parser *p)
{
    p->raw.n = 0;
    p->grouped = p->alone = p->list = p->listed = false;
    p->drop_lead = !(p->d->flags & DIALECT_VERBATIM);
    p->at_start = true;
    p->no_bare = true;
    dia_go(p, p->d->message ? &dia_message_tail : &dia_content);
}

void dia_group(struct dialect_parser *p)
{
    if (p->grouped || p->alone)
        dia_go(p, group_of(p));
    else
        dia_leave(p);
}

/* Text between calls: blanks, or what does not belong there. */
void dia_group_text(struct dialect_parser *p, char c)
{
    if (dia_blank(c))
        return;
    if (p->alone) {
        dia_unread(p, c);
        dia_leave(p);
        return;
    }
    dia_bad_at(p, c, "a group of calls: have text, need a call or the group's end");
}

/* A group that is not closed is whole as far as its calls are. */
void dia_group_end(struct dialect_parser *p, enum dialect_finish why)
{
    size_t n = p->raw.n;
    while (n && dia_blank(p->raw.s[n - 1]))
        n--;
    if (p->n_group == 0 || n)
        dia_incomplete(p, why);
}
