/* Input, marks, events, and the two states that are text: content and reasoning. */
#include "text/dialect_impl.h"
#include "base/mem.h"

#include <string.h>

/* ---- events ---- */

void dia_fail(struct dialect_parser *p, glim_status st)
{
    if (p->status == GLIM_OK)
        p->status = st;
}

static void send(struct dialect_parser *p, const struct dialect_event *ev)
{
    if (p->status == GLIM_OK)
        dia_fail(p, p->sink->event(p->sink->ctx, ev, &p->err));
}

/* Out of memory anywhere in the parser's own strings: checked before anything is given out that was read from them. */
static void check_memory(struct dialect_parser *p)
{
    const struct str *s[] = {&p->clean, &p->out,   &p->blanks,    &p->header,    &p->recipient, &p->raw,  &p->name,
                             &p->id,    &p->value, &p->keys_text, &p->scan.text, &p->lit.token, &p->early};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++)
        if (s[i]->failed && p->status == GLIM_OK)
            dia_fail(p, err_nomem(&p->err, "model output", s[i]->n));
}

static void flush(struct dialect_parser *p)
{
    check_memory(p);
    if (p->out.n == 0)
        return;
    struct dialect_event ev = {.kind = p->out_kind, .text = p->out.s, .n = p->out.n, .index = DIALECT_NO_INDEX};
    if (p->out_kind == DIALECT_ARGUMENTS)
        ev.index = p->n_call - 1;
    send(p, &ev);
    p->out.n = 0;
}

void dia_emit(struct dialect_parser *p, const struct dialect_event *ev)
{
    flush(p);
    send(p, ev);
}

void dia_delta(struct dialect_parser *p, enum dialect_event_kind kind, const char *s, size_t n)
{
    if (n == 0)
        return;
    if (p->out.n && p->out_kind != kind)
        flush(p);
    p->out_kind = kind;
    str_add(&p->out, s, n);
}

/* ---- marks ---- */

void dia_mark(struct dialect_parser *p, const char *s, enum dia_what what)
{
    if (!s || p->n_mark == DIA_MARKS)
        return;
    for (size_t i = 0; i < p->n_mark; i++)
        if (strcmp(p->mark[i].s, s) == 0)
            return;
    p->mark[p->n_mark].s = s;
    p->mark[p->n_mark].n = strlen(s);
    p->mark[p->n_mark++].what = what;
}

void dia_drop_marks(struct dialect_parser *p, enum dia_what what)
{
    for (size_t i = 0; i < DIALECT_MAX_DROP; i++)
        dia_mark(p, p->d->drop[i], what);
}

void dia_go(struct dialect_parser *p, const struct dia_state *st)
{
    p->st = st;
    p->n_mark = 0;
    if (st->enter)
        st->enter(p);
}

void dia_unread(struct dialect_parser *p, char c)
{
    if (p->raw_last && p->raw.n)
        p->raw.n--;
    p->raw_last = false;
    memmove(p->held + 1, p->held, p->n_held);
    p->held[0] = c;
    p->n_held++;
}

static void byte_on(struct dialect_parser *p)
{
    char c = p->held[0];
    p->n_held--;
    memmove(p->held, p->held + 1, p->n_held);
    p->raw_last = p->st->in_call;
    if (p->raw_last)
        str_putc(&p->raw, c);
    p->st->text(p, c);
}

/* Handle what is held until nothing is, or what is left may become a mark. Marks of one state are no beginnings of each
 * other, so the first that is complete is the one. */
static void settle(struct dialect_parser *p)
{
    while (p->n_held && p->status == GLIM_OK) {
        size_t found = DIA_MARKS;
        bool partial = false;
        for (size_t i = 0; i < p->n_mark && found == DIA_MARKS; i++) {
            size_t n = p->mark[i].n < p->n_held ? p->mark[i].n : p->n_held;
            if (memcmp(p->mark[i].s, p->held, n) != 0)
                continue;
            if (n == p->mark[i].n)
                found = i;
            else
                partial = true;
        }
        if (found == DIA_MARKS && partial)
            return;
        if (found == DIA_MARKS) {
            byte_on(p);
            continue;
        }
        const char *s = p->mark[found].s;
        size_t n = p->mark[found].n;
        p->n_held -= n;
        memmove(p->held, p->held + n, p->n_held);
        if (p->st->in_call)
            str_add(&p->raw, s, n);
        p->st->mark(p, p->mark[found].what, s, n);
    }
}

static void feed(struct dialect_parser *p, const char *s, size_t n)
{
    for (size_t i = 0; i < n && p->status == GLIM_OK; i++) {
        p->held[p->n_held++] = s[i];
        settle(p);
    }
}

/* What looked like a call without a marker is content. States that are not certain of a call ask for no marks, so that
 * nothing is held behind raw. */
void dia_replay(struct dialect_parser *p)
{
    struct str raw = p->raw;
    p->raw = (struct str){0};
    p->tentative = false;
    p->no_bare = true;
    dia_call_reset(p);
    dia_go(p, &dia_content);
    feed(p, raw.s, raw.n);
    if (raw.failed)
        p->raw.failed = true;
    str_fini(&raw);
}

/* ---- content and reasoning ---- */

bool dia_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* A byte of text. Blanks wait while a mark may still take them. */
static void plain(struct dialect_parser *p, enum dialect_event_kind kind, char c, bool wait)
{
    if (dia_blank(c) && (wait || p->drop_lead)) {
        str_putc(&p->blanks, c);
        return;
    }
    if (!p->drop_lead)
        dia_delta(p, kind, p->blanks.s, p->blanks.n);
    p->blanks.n = 0;
    p->drop_lead = false;
    dia_delta(p, kind, &c, 1);
}

/* A mark next to text: blanks before it go, and those after it, unless they belong to the text. */
static void trim(struct dialect_parser *p, enum dialect_event_kind kind)
{
    bool verbatim = p->d->flags & DIALECT_VERBATIM;
    if (verbatim)
        dia_delta(p, kind, p->blanks.s, p->blanks.n);
    p->blanks.n = 0;
    p->drop_lead = !verbatim;
}

static void text_end(struct dialect_parser *p, enum dialect_event_kind kind)
{
    if (!p->drop_lead)
        dia_delta(p, kind, p->blanks.s, p->blanks.n);
    p->blanks.n = 0;
}

static void content_enter(struct dialect_parser *p)
{
    const struct dialect *d = p->d;
    if (d->message) {
        dia_drop_marks(p, DIA_MESSAGE_END);
        dia_mark(p, d->start, DIA_START);
        return;
    }
    if (p->parse_tools) {
        dia_mark(p, d->open, DIA_OPEN);
        if (d->syntax == DIALECT_JSON)
            dia_mark(p, d->call, DIA_OPEN);
        else if (!d->open || (d->flags & DIALECT_CALL_ALONE))
            dia_mark(p, d->call, DIA_CALL);
    }
    if (p->at_start || (d->flags & DIALECT_THINK_ANYWHERE))
        dia_mark(p, d->think, DIA_THINK);
    if (p->at_start)
        dia_mark(p, d->think_end, DIA_THINK_END);
    if (!(d->flags & DIALECT_DROP_PAIR)) {
        dia_drop_marks(p, DIA_DROP);
        return;
    }
    if (p->at_start && !p->wrapped)
        dia_mark(p, d->drop[0], DIA_DROP_OPEN);
    if (p->wrapped)
        dia_mark(p, d->drop[1], DIA_DROP_CLOSE);
}

static bool begins_bare(const struct dialect_parser *p, char c)
{
    return p->at_start && p->parse_tools && !p->no_bare && (p->d->flags & DIALECT_BARE) &&
           c == (p->d->syntax == DIALECT_JSON ? '{' : '[');
}

static void content_text(struct dialect_parser *p, char c)
{
    const struct dialect *d = p->d;
    if (begins_bare(p, c)) {
        str_putc(&p->raw, c);
        if (d->syntax == DIALECT_JSON)
            dia_json_bare(p, c);
        else
            dia_literal_bare(p, c);
        return;
    }
    bool calls = p->parse_tools && d->syntax != DIALECT_NO_CALLS;
    plain(p, DIALECT_CONTENT, c, !(d->flags & DIALECT_VERBATIM) && (calls || d->drop[0] || (p->at_start && d->think)));
    if (p->at_start && !dia_blank(c)) {
        p->at_start = false;
        dia_go(p, &dia_content);
    }
}

static void content_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    if (p->d->message) {
        text_end(p, DIALECT_CONTENT);
        dia_message_mark(p, what);
        return;
    }
    /* blanks of a start that nothing was said in yet are no content */
    trim(p, DIALECT_CONTENT);
    if (what == DIA_OPEN || what == DIA_CALL)
        dia_trigger(p, what, s, n);
    else if (what == DIA_THINK)
        dia_go(p, &dia_reasoning);
    if (what == DIA_DROP_OPEN || what == DIA_DROP_CLOSE) {
        p->wrapped = what == DIA_DROP_OPEN;
        dia_go(p, &dia_content);
    }
}

static void content_end(struct dialect_parser *p, enum dialect_finish why)
{
    (void)why;
    text_end(p, DIALECT_CONTENT);
}

static void reasoning_enter(struct dialect_parser *p)
{
    if (p->d->message) {
        dia_drop_marks(p, DIA_MESSAGE_END);
        dia_mark(p, p->d->start, DIA_START);
        return;
    }
    dia_mark(p, p->d->think_end, DIA_THINK_END);
    if (p->at_start) /* a model that repeats the marker its prompt ended with */
        dia_mark(p, p->d->think, DIA_THINK);
    if ((p->d->flags & DIALECT_THINK_FIRST) && p->parse_tools)
        dia_mark(p, p->d->open, DIA_OPEN);
}

static void reasoning_text(struct dialect_parser *p, char c)
{
    plain(p, DIALECT_REASONING, c, !(p->d->flags & DIALECT_VERBATIM));
    if (p->at_start && !dia_blank(c)) {
        p->at_start = false;
        dia_go(p, &dia_reasoning);
    }
}

static void reasoning_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    if (p->d->message) {
        text_end(p, DIALECT_REASONING);
        dia_message_mark(p, what);
        return;
    }
    trim(p, DIALECT_REASONING);
    if (what == DIA_OPEN) {
        dia_trigger(p, what, s, n);
    } else if (what == DIA_THINK_END) {
        p->at_start = true;
        dia_go(p, &dia_content);
    }
}

static void reasoning_end(struct dialect_parser *p, enum dialect_finish why)
{
    (void)why;
    if (p->d->flags & DIALECT_VERBATIM)
        text_end(p, DIALECT_REASONING);
    p->blanks.n = 0;
}

const struct dia_state dia_content = {content_enter, content_text, content_mark, content_end, false};
const struct dia_state dia_reasoning = {reasoning_enter, reasoning_text, reasoning_mark, reasoning_end, false};

/* ---- the public calls ---- */

glim_status dialect_parser_create(struct dialect_parser **out, const struct dialect *d, const struct dialect_opts *o,
                                  struct glim_err *e)
{
    *out = NULL;
    if (o->tools && !json_is_array(o->tools))
        return err_set(e, GLIM_USAGE, "cannot parse calls: tools: have another type, need an array");
    struct dialect_parser *p = mem_calloc(1, sizeof *p);
    if (!p)
        return err_nomem(e, "dialect parser", sizeof *p);
    p->d = d;
    p->parse_tools = o->parse_tools && d->syntax != DIALECT_NO_CALLS;
    p->tools = o->tools ? json_incref((json_t *)(uintptr_t)o->tools) : NULL;
    glim_status st = text_stream_create(&p->utf8, NULL, 0, e);
    if (st != GLIM_OK) {
        dialect_parser_free(p);
        return st;
    }
    p->at_start = true;
    bool thinks = o->prompt == DIALECT_PROMPT_THINKS ||
                  ((d->flags & DIALECT_THINK_FIRST) && o->prompt != DIALECT_PROMPT_HAS_THOUGHT);
    p->drop_lead = (thinks || o->prompt == DIALECT_PROMPT_HAS_THOUGHT) && !(d->flags & DIALECT_VERBATIM);
    if (thinks && (d->think_end || d->message))
        dia_go(p, &dia_reasoning);
    else
        dia_go(p, d->message ? &dia_message_start : &dia_content);
    *out = p;
    return GLIM_OK;
}

void dialect_parser_free(struct dialect_parser *p)
{
    if (!p)
        return;
    struct str *s[] = {&p->clean, &p->out,   &p->blanks,    &p->header,    &p->recipient, &p->raw,  &p->name,
                       &p->id,    &p->value, &p->keys_text, &p->scan.text, &p->lit.token, &p->early};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++)
        str_fini(s[i]);
    mem_free(p->key);
    text_stream_free(p->utf8);
    json_decref(p->tools);
    mem_free(p);
}

static glim_status result(struct dialect_parser *p, struct glim_err *e)
{
    flush(p);
    p->sink = NULL;
    if (p->status != GLIM_OK && e)
        *e = p->err;
    return p->status;
}

glim_status dialect_push(struct dialect_parser *p, const char *text, size_t n, const struct dialect_sink *sink,
                         struct glim_err *e)
{
    bool stopped;
    p->sink = sink;
    if (p->ended)
        dia_fail(p,
                 err_set(&p->err, GLIM_USAGE, "cannot parse model output: have text after its end, need a new parser"));
    p->clean.n = 0;
    if (p->status == GLIM_OK)
        dia_fail(p, text_stream_push(p->utf8, text, n, &p->clean, &stopped, &p->err));
    if (p->status == GLIM_OK)
        feed(p, p->clean.s, p->clean.n);
    return result(p, e);
}

/* Bytes that were held as the possible beginning of a mark. */
static void release(struct dialect_parser *p, enum dialect_finish why)
{
    if (p->st->in_call)
        str_add(&p->raw, p->held, p->n_held);
    if (p->st->in_call || why == DIALECT_CUT_BY_LENGTH) {
        p->n_held = 0;
        return;
    }
    while (p->n_held && p->status == GLIM_OK) {
        p->n_mark = 0;
        byte_on(p);
        p->n_mark = 0;
    }
}

glim_status dialect_end(struct dialect_parser *p, enum dialect_finish why, const struct dialect_sink *sink,
                        struct glim_err *e)
{
    p->sink = sink;
    if (p->ended)
        dia_fail(p, err_set(&p->err, GLIM_USAGE, "cannot parse model output: have a second end, need a new parser"));
    p->ended = true;
    p->clean.n = 0;
    if (p->status == GLIM_OK)
        dia_fail(p, text_stream_end(p->utf8, &p->clean, &p->err));
    if (p->status == GLIM_OK)
        feed(p, p->clean.s, p->clean.n);
    release(p, why);
    if (p->status == GLIM_OK)
        p->st->end(p, why);
    return result(p, e);
}
