/* If this fails: a client sees markers of a model's syntax in the answer, reasoning in the content, calls with other
 * arguments than the model wrote, or a broken call as if it were a good one; or what streams is not what the whole is.
 *
 * tests/data/dialects/<dialect>.json has outputs and what has to be read from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/dialect.h"

/* ---- events, joined ---- */

struct seen {
    json_t *list; /* as in the data files */
    size_t next;  /* index of the next call */
    bool open;    /* a call has begun and not ended */
    size_t n;     /* events */
};

static void set(json_t *o, const char *key, const char *s, size_t n)
{
    json_t *v = json_stringn(s, n);
    assert_non_null(v);
    assert_int_equal(json_object_set_new(o, key, v), 0);
}

static json_t *add(struct seen *s, const char *key, const char *text, size_t n)
{
    json_t *o = json_object();
    set(o, key, text, n);
    json_array_append_new(s->list, o);
    return o;
}

static json_t *last(const struct seen *s)
{
    size_t n = json_array_size(s->list);
    return n ? json_array_get(s->list, n - 1) : NULL;
}

static void append(json_t *o, const char *key, const char *text, size_t n)
{
    struct str joined = {0};
    json_t *have = json_object_get(o, key);
    str_add(&joined, json_string_value(have), json_string_length(have));
    str_add(&joined, text, n);
    set(o, key, joined.s, joined.n);
    str_fini(&joined);
}

static void see_text(struct seen *s, const char *key, const struct dialect_event *ev)
{
    assert_false(s->open);
    assert_true(ev->n > 0 && ev->index == DIALECT_NO_INDEX);
    json_t *o = last(s);
    if (o && json_object_get(o, key))
        append(o, key, ev->text, ev->n);
    else
        add(s, key, ev->text, ev->n);
}

static void see_malformed(struct seen *s, const struct dialect_event *ev)
{
    json_t *of = NULL;
    if (!ev->n)
        fail_msg("no raw text: %s", ev->reason);
    assert_int_equal(s->open, ev->index != DIALECT_NO_INDEX);
    if (s->open) {
        assert_int_equal(ev->index, s->next - 1);
        of = json_incref(json_object_get(last(s), "call"));
        json_array_remove(s->list, json_array_size(s->list) - 1);
    }
    json_t *o = add(s, "malformed", ev->reason, strlen(ev->reason));
    set(o, "raw", ev->text, ev->n);
    if (of)
        json_object_set_new(o, "of", of);
    s->open = false;
}

/* The arguments are one JSON object by another parser's judgement. Numbers that do not fit are JSON all the same. */
static void check_arguments(json_t *call)
{
    const json_t *args = json_object_get(call, "arguments");
    json_error_t bad;
    json_t *v =
        json_loadb(json_string_value(args), json_string_length(args), JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &bad);
    if (!v && json_error_code(&bad) == json_error_numeric_overflow)
        return;
    if (!json_is_object(v))
        fail_msg("arguments are no object: %s (%s)", json_string_value(args), bad.text);
    json_decref(v);
}

static glim_status see(void *ctx, const struct dialect_event *ev, struct glim_err *e)
{
    struct seen *s = ctx;
    (void)e;
    s->n++;
    switch (ev->kind) {
    case DIALECT_REASONING:
        see_text(s, "reasoning", ev);
        break;
    case DIALECT_CONTENT:
        see_text(s, "content", ev);
        break;
    case DIALECT_CALL_BEGIN: {
        assert_false(s->open);
        assert_int_equal(ev->index, s->next++);
        s->open = true;
        json_t *o = add(s, "call", ev->name, strlen(ev->name));
        set(o, "arguments", "", 0);
        if (ev->id)
            set(o, "id", ev->id, strlen(ev->id));
        if (ev->unknown_tool)
            json_object_set_new(o, "unknown", json_true());
        break;
    }
    case DIALECT_ARGUMENTS:
        assert_true(s->open && ev->n > 0);
        assert_int_equal(ev->index, s->next - 1);
        append(last(s), "arguments", ev->text, ev->n);
        break;
    case DIALECT_CALL_END:
        assert_true(s->open);
        assert_int_equal(ev->index, s->next - 1);
        if (ev->id)
            set(last(s), "id", ev->id, strlen(ev->id));
        check_arguments(last(s));
        s->open = false;
        break;
    case DIALECT_MALFORMED:
        see_malformed(s, ev);
        break;
    }
    return GLIM_OK;
}

/* ---- running a case ---- */

static json_t *tools;

static json_t *load(const char *name)
{
    char path[512];
    struct glim_err e = {0};
    json_t *v;
    snprintf(path, sizeof path, "%s/dialects/%s.json", TEST_DATA, name);
    if (json_parse_file(path, 1 << 20, &v, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return v;
}

struct how {
    const struct dialect *d;
    struct dialect_opts opts;
    enum dialect_finish finish;
};

static struct how how_of(const struct dialect *d, const json_t *c)
{
    const json_t *parse = json_object_get(c, "parse_tools");
    enum dialect_prompt prompt = json_is_true(json_object_get(c, "reasoning_open"))     ? DIALECT_PROMPT_THINKS
                                 : json_is_true(json_object_get(c, "reasoning_closed")) ? DIALECT_PROMPT_HAS_THOUGHT
                                                                                        : DIALECT_PROMPT_PLAIN;
    return (struct how){d,
                        {tools, !parse || json_is_true(parse), prompt},
                        json_is_true(json_object_get(c, "cut")) ? DIALECT_CUT_BY_LENGTH : DIALECT_STOPPED};
}

/* The text in pieces that end at `cut`, or of `step` bytes. */
static json_t *run(const struct how *h, const char *text, size_t n, size_t cut, size_t step, size_t *events)
{
    struct glim_err e = {0};
    struct dialect_parser *p;
    struct seen s = {.list = json_array()};
    const struct dialect_sink sink = {see, &s};
    assert_int_equal(dialect_parser_create(&p, h->d, &h->opts, &e), GLIM_OK);
    for (size_t at = 0; at < n;) {
        size_t len = step ? step : at < cut ? cut - at : n - at;
        len = len > n - at ? n - at : len;
        if (dialect_push(p, text + at, len, &sink, &e) != GLIM_OK)
            fail_msg("%s", e.message);
        at += len;
    }
    if (dialect_end(p, h->finish, &sink, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    assert_false(s.open);
    dialect_parser_free(p);
    if (events)
        *events = s.n;
    return s.list;
}

static void show(const struct how *h, const char *title, const char *what, const json_t *have, const json_t *want)
{
    char *a = json_dumps(have, JSON_ENCODE_ANY), *b = json_dumps(want, JSON_ENCODE_ANY);
    fail_msg("%s: %s: %s\nhave %s\nneed %s", h->d->name, title, what, a, b);
}

/* The data files give part of the reason of a malformed call. */
static bool same_event(const json_t *have, const json_t *want)
{
    const char *reason = json_string_value(json_object_get(have, "malformed"));
    const char *part = json_string_value(json_object_get(want, "malformed"));
    if (!reason || !part)
        return json_equal(have, want);
    if (!strstr(reason, part))
        return false;
    json_t *copy = json_copy((json_t *)(uintptr_t)have);
    json_object_set(copy, "malformed", json_object_get(want, "malformed"));
    bool same = json_equal(copy, want);
    json_decref(copy);
    return same;
}

static bool same_events(const json_t *have, const json_t *want)
{
    bool same = json_array_size(have) == json_array_size(want);
    for (size_t i = 0; i < json_array_size(want) && same; i++)
        same = same_event(json_array_get(have, i), json_array_get(want, i));
    return same;
}

static void each_case(void (*f)(const struct how *h, const json_t *c))
{
    tools = load("tools");
    for (size_t i = 0; i < dialect_count(); i++) {
        const struct dialect *d = dialect_at(i);
        json_t *cases = load(d->name), *c;
        size_t k;
        assert_true(json_array_size(cases) >= 6);
        json_array_foreach(cases, k, c)
        {
            struct how h = how_of(d, c);
            f(&h, c);
        }
        json_decref(cases);
    }
    json_decref(tools);
}

static const char *text_of(const json_t *c, size_t *n)
{
    const json_t *text = json_object_get(c, "text");
    *n = json_string_length(text);
    return json_string_value(text);
}

static void check_case(const struct how *h, const json_t *c)
{
    size_t n;
    const char *text = text_of(c, &n), *title = json_string_value(json_object_get(c, "title"));
    const json_t *want = json_object_get(c, "want");
    json_t *whole = run(h, text, n, n, 0, NULL);
    if (!same_events(whole, want))
        show(h, title, "the whole", whole, want);
    for (size_t cut = 1; cut < n; cut++) {
        json_t *have = run(h, text, n, cut, 0, NULL);
        if (!json_equal(have, whole))
            show(h, title, "cut in two", have, whole);
        json_decref(have);
    }
    for (size_t step = 1; step <= 3; step++) {
        json_t *have = run(h, text, n, 0, step, NULL);
        if (!json_equal(have, whole))
            show(h, title, "byte by byte", have, whole);
        json_decref(have);
    }
    json_decref(whole);
}

static void recorded_outputs(void **state)
{
    (void)state;
    each_case(check_case);
}

/* Turns as the families' own templates write them. */
static void rendered_turns(void **state)
{
    (void)state;
    json_t *cases = load("rendered"), *c;
    size_t i;
    tools = load("tools");
    assert_true(json_array_size(cases) > 100);
    json_array_foreach(cases, i, c)
    {
        const struct dialect *d = dialect_by_name(json_string_value(json_object_get(c, "dialect")));
        assert_non_null(d);
        struct how h = how_of(d, c);
        check_case(&h, c);
    }
    json_decref(cases);
    json_decref(tools);
}

/* ---- cut by length at every byte ---- */

/* All text of one kind, without the blanks at its end. */
static char *all_text(const json_t *events, const char *key)
{
    struct str out = {0};
    size_t i;
    json_t *ev;
    str_puts(&out, "");
    json_array_foreach(events, i, ev)
    {
        const char *s = json_string_value(json_object_get(ev, key));
        str_puts(&out, s ? s : "");
    }
    while (out.n && strchr(" \n\t\r", out.s[out.n - 1]))
        out.s[--out.n] = 0;
    return out.s;
}

static void expect_prefix(const struct how *h, const json_t *c, const json_t *have, const json_t *whole,
                          const char *key)
{
    char *a = all_text(have, key), *b = all_text(whole, key);
    if (strncmp(a, b, strlen(a)) != 0)
        show(h, json_string_value(json_object_get(c, "title")), "cut by length", have, whole);
    mem_free(a);
    mem_free(b);
}

/* Nothing is seen of a beginning that the whole would not have shown, and no call that the whole has not. */
static void check_beginnings(const struct how *how, const json_t *c)
{
    struct how h = *how;
    size_t n;
    const char *text = text_of(c, &n);
    if (json_is_false(json_object_get(c, "parse_tools")))
        return;
    json_t *whole = run(&h, text, n, n, 0, NULL);
    h.finish = DIALECT_CUT_BY_LENGTH;
    for (size_t cut = 0; cut < n; cut++) {
        if (((unsigned char)text[cut] & 0xC0) == 0x80)
            continue; /* inside a character */
        json_t *have = run(&h, text, cut, cut, 0, NULL), *ev;
        size_t i;
        expect_prefix(&h, c, have, whole, "reasoning");
        expect_prefix(&h, c, have, whole, "content");
        json_array_foreach(have, i, ev)
        {
            const json_t *w = json_array_get(whole, i);
            if (json_object_get(ev, "call") &&
                !json_equal(json_object_get(ev, "arguments"), json_object_get(w, "arguments")))
                show(&h, json_string_value(json_object_get(c, "title")), "a call that the whole has not", have, whole);
        }
        json_decref(have);
    }
    json_decref(whole);
}

static void cut_by_length_anywhere(void **state)
{
    (void)state;
    each_case(check_beginnings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_outputs),
        cmocka_unit_test(rendered_turns),
        cmocka_unit_test(cut_by_length_anywhere),
    };
    json_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
