/* Any text in any dialect, whole and in pieces: the same joined events, and arguments of ended calls that are JSON.
 *
 * Input: byte 0 the dialect, 1 flags (1: cut by length, 2: reasoning open, 4: no tools, 8: calls off; high bits: size
 * of the pieces), then the text. */
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct str log, args;
    enum dialect_event_kind last;
    size_t next;
    bool open;
};

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static bool is_utf8(const char *s, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        len = (size_t)utf8_decode((const uint8_t *)s + i, n - i, &cp);
        if (len == 0)
            return false;
    }
    return true;
}

static void end_of_call(struct seen *s)
{
    json_error_t bad;
    json_t *v = json_loadb(s->args.s ? s->args.s : "", s->args.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &bad);
    check(json_is_object(v) || (!v && json_error_code(&bad) == json_error_numeric_overflow),
          "arguments are no JSON object");
    json_decref(v);
}

static glim_status see(void *ctx, const struct dialect_event *ev, struct glim_err *e)
{
    struct seen *s = ctx;
    (void)e;
    bool text = ev->kind == DIALECT_REASONING || ev->kind == DIALECT_CONTENT || ev->kind == DIALECT_ARGUMENTS;
    if (!text || ev->kind != s->last)
        str_printf(&s->log, "\n%d %zu %s %s %s ", ev->kind, ev->index, ev->name ? ev->name : "", ev->id ? ev->id : "",
                   ev->reason ? ev->reason : "");
    s->last = ev->kind;
    if (ev->text) {
        str_add(&s->log, ev->text, ev->n);
        check(is_utf8(ev->text, ev->n), "text is not UTF-8");
    }
    check(!ev->reason || is_utf8(ev->reason, strlen(ev->reason)), "a reason is not UTF-8");
    switch (ev->kind) {
    case DIALECT_REASONING:
    case DIALECT_CONTENT:
        check(!s->open && ev->n, "text inside a call");
        break;
    case DIALECT_CALL_BEGIN:
        check(!s->open && ev->index == s->next++ && ev->name[0], "a call begins inside a call");
        s->open = true;
        s->args.n = 0;
        break;
    case DIALECT_ARGUMENTS:
        check(s->open && ev->index == s->next - 1, "arguments outside of a call");
        str_add(&s->args, ev->text, ev->n);
        break;
    case DIALECT_CALL_END:
        check(s->open && ev->index == s->next - 1, "the end of no call");
        end_of_call(s);
        s->open = false;
        break;
    case DIALECT_MALFORMED:
        check(ev->n && ev->reason[0] && s->open == (ev->index != DIALECT_NO_INDEX),
              "a malformed call without its text");
        s->open = false;
        break;
    }
    return GLIM_OK;
}

static struct str parse(const struct dialect *d, const struct dialect_opts *o, enum dialect_finish why,
                        const char *text, size_t n, size_t step)
{
    struct glim_err e = {0};
    struct dialect_parser *p;
    struct seen s = {.last = DIALECT_CALL_END};
    const struct dialect_sink sink = {see, &s};
    check(dialect_parser_create(&p, d, o, &e) == GLIM_OK, e.message);
    for (size_t at = 0; at < n; at += step)
        check(dialect_push(p, text + at, n - at < step ? n - at : step, &sink, &e) == GLIM_OK, e.message);
    check(dialect_end(p, why, &sink, &e) == GLIM_OK, e.message);
    check(!s.open, "a call is open at the end");
    dialect_parser_free(p);
    str_fini(&s.args);
    return s.log;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char schema[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": "
        "{\"type\": [\"integer\", \"null\"]}, \"m\": {\"type\": [\"string\", \"number\"]}}}}, "
        "{\"name\": \"g\"}]";
    static json_t *tools;
    struct glim_err e;
    if (!tools && json_parse(schema, sizeof schema - 1, "tools", &tools, &e) != GLIM_OK)
        abort();
    if (size < 2)
        return 0;
    const struct dialect *d = dialect_at(data[0] % dialect_count());
    const struct dialect_opts o = {data[1] & 4 ? NULL : tools, !(data[1] & 8),
                                   data[1] & 2 ? DIALECT_PROMPT_THINKS : DIALECT_PROMPT_PLAIN};
    enum dialect_finish why = data[1] & 1 ? DIALECT_CUT_BY_LENGTH : DIALECT_STOPPED;
    const char *text = (const char *)data + 2;
    struct str whole = parse(d, &o, why, text, size - 2, size),
               pieces = parse(d, &o, why, text, size - 2, 1 + (data[1] >> 4));
    check(whole.n == pieces.n && (whole.n == 0 || memcmp(whole.s, pieces.s, whole.n) == 0), "pieces give other events");
    str_fini(&whole);
    str_fini(&pieces);
    return 0;
}
