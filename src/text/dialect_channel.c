/* Messages with headers: a turn is a row of messages, and a message's header says what its body is.
 *
 *   Harmony   <|channel|>analysis<|message|>…<|end|><|start|>assistant to=functions.f<|channel|>commentary
 * json<|message|>{}<|call|> ATEM       to=self<|message|>…<|eom|><|start|>assistant to=user<|message|>…<|eot|>
 *
 * The prompt ends inside the first header, after its role. An output that does not begin like a header is content. */
#include "text/dialect_impl.h"

#include <string.h>

static const struct dia_state header_state;

/* ---- headers ---- */

static void start_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->start, DIA_START);
    dia_mark(p, p->d->message, DIA_MESSAGE);
    dia_mark(p, p->d->channel, DIA_HEADER_TEXT);
    dia_mark(p, "to=", DIA_HEADER_TEXT);
    dia_drop_marks(p, DIA_MESSAGE_END);
}

static void start_text(struct dialect_parser *p, char c)
{
    if (dia_blank(c)) {
        str_putc(&p->blanks, c);
        return;
    }
    dia_unread(p, c);
    dia_go(p, &dia_content);
}

static void header_text(struct dialect_parser *p, char c)
{
    str_putc(&p->header, c);
    if (p->header.n > DIA_HEADER)
        dia_bad(p, "a message's header: have more than %d bytes, need fewer", DIA_HEADER);
}

/* The word after `key` in the header. */
static void header_word(const struct dialect_parser *p, const char *key, struct str *out)
{
    const char *s = key && p->header.n ? strstr(p->header.s, key) : NULL;
    out->n = 0;
    if (!s)
        return;
    s += strlen(key);
    size_t n = strcspn(s, " \t\r\n<");
    str_add(out, s, n);
}

static bool word_is(const struct str *s, const char *word)
{
    return s->n == strlen(word) && memcmp(s->s, word, s->n) == 0;
}

static void call_body(struct dialect_parser *p)
{
    if (!p->parse_tools) {
        dia_bad(p, "a call: have one, need none: no tools were offered");
        return;
    }
    p->n_group = 0;
    p->grouped = true;
    if (p->d->syntax == DIALECT_PARAMS) {
        dia_go(p, &dia_message_tail);
        return;
    }
    static const char prefix[] = "functions.";
    size_t skip = p->recipient.n > sizeof prefix - 1 && memcmp(p->recipient.s, prefix, sizeof prefix - 1) == 0
                      ? sizeof prefix - 1
                      : 0;
    p->name.n = 0;
    str_add(&p->name, p->recipient.s + skip, p->recipient.n - skip);
    dia_scan_reset(&p->scan);
    dia_go(p, &dia_named_args);
}

/* The header is complete. */
static void decide(struct dialect_parser *p)
{
    struct str word = {0};
    dia_call_reset(p);
    if (p->header.n == 0)
        str_puts(&p->header, "");
    if (p->header.failed)
        return;
    size_t role = strspn(p->header.s, " ");
    bool assistant = !p->after_start || strncmp(p->header.s + role, "assistant", 9) == 0;
    header_word(p, "to=", &p->recipient);
    header_word(p, p->d->channel, &word);
    bool to_user = p->recipient.n == 0 || word_is(&p->recipient, "user") || word_is(&p->recipient, "all");
    bool thinks = p->d->self ? word_is(&p->recipient, p->d->self) : to_user && word_is(&word, "analysis");
    bool known = word.n == 0 || word_is(&word, "analysis") || word_is(&word, "commentary") || word_is(&word, "final");
    if (word.failed)
        p->recipient.failed = true;
    str_fini(&word);
    p->header.n = 0;
    if (!assistant)
        dia_bad(p, "a message: have another author, need the assistant");
    else if (!known)
        dia_bad(p, "a message: have an unknown channel, need analysis, commentary or final");
    else if (thinks || to_user)
        dia_go(p, thinks ? &dia_reasoning : &dia_content);
    else
        call_body(p);
}

/* Raw begins with what made the header one: blanks and a mark. */
static void header_begin(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    p->raw.n = p->header.n = 0;
    str_add(&p->raw, p->blanks.s, p->blanks.n);
    str_add(&p->raw, s, n);
    p->blanks.n = 0;
    p->after_start = what == DIA_START;
    if (what == DIA_HEADER_TEXT)
        str_add(&p->header, s, n);
    dia_go(p, &header_state);
}

static void start_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    if (what == DIA_MESSAGE_END) {
        p->blanks.n = 0;
        return;
    }
    header_begin(p, what, s, n);
    if (what == DIA_MESSAGE)
        decide(p);
}

/* Blanks alone are content; where other text might have followed, it has not. */
static void start_end(struct dialect_parser *p, enum dialect_finish why)
{
    (void)why;
    p->blanks.n = 0;
}

const struct dia_state dia_message_start = {start_enter, start_text, start_mark, start_end, false};

static void header_enter(struct dialect_parser *p)
{
    dia_mark(p, p->d->message, DIA_MESSAGE);
    dia_mark(p, p->d->start, DIA_START);
    dia_drop_marks(p, DIA_MESSAGE_END);
}

static void header_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s;
    if (what == DIA_MESSAGE) {
        decide(p);
        return;
    }
    if (p->raw.n >= n)
        p->raw.n -= n;
    dia_bad(p, "a message's header: have no body after it, need one");
    dia_malformed(p);
    dia_message_mark(p, what);
}

/* A header that was cut gives nothing: it says nothing yet. */
static void header_end(struct dialect_parser *p, enum dialect_finish why)
{
    if (why == DIALECT_CUT_BY_LENGTH)
        return;
    dia_bad(p, "a message's header: have no body after it, need one");
    dia_malformed(p);
}

static const struct dia_state header_state = {header_enter, header_text, header_mark, header_end, true};

void dia_message_mark(struct dialect_parser *p, enum dia_what what)
{
    if (what == DIA_START) {
        header_begin(p, what, p->d->start, strlen(p->d->start));
        return;
    }
    p->raw.n = 0;
    dia_go(p, &dia_message_start);
}

/* ---- the body of a call, outside of the call itself ---- */

static void tail_enter(struct dialect_parser *p)
{
    dia_drop_marks(p, DIA_MESSAGE_END);
    dia_mark(p, p->d->start, DIA_START);
    if (p->d->syntax == DIALECT_PARAMS)
        dia_mark(p, p->d->open, DIA_OPEN);
}

static void tail_text(struct dialect_parser *p, char c)
{
    if (!dia_blank(c))
        dia_bad_at(p, c, "a message to a tool: have other text, need calls");
}

static void tail_mark(struct dialect_parser *p, enum dia_what what, const char *s, size_t n)
{
    (void)s;
    if (what == DIA_OPEN) {
        dia_call_reset(p);
        p->grouped = true;
        p->n_group = 0;
        dia_go(p, &dia_params_group);
        return;
    }
    if (p->n_group == 0) {
        if (p->raw.n >= n)
            p->raw.n -= n;
        dia_bad(p, "a message to a tool: have no call, need one");
        dia_malformed(p);
    }
    dia_message_mark(p, what);
}

static void tail_end(struct dialect_parser *p, enum dialect_finish why)
{
    if (p->n_group == 0)
        dia_incomplete(p, why);
}

const struct dia_state dia_message_tail = {tail_enter, tail_text, tail_mark, tail_end, true};
