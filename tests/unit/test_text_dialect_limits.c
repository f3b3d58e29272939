/* If this fails: a model's output, however odd, hangs or exhausts the server, memory that runs out is answered with
 * wrong calls, a chat template gets another family's parser, or a grammar of calls is built from forms that its own
 * parser does not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/dialect_impl.h"

/* Events as one line of text: R(…) C(…) B0(name#id) A(…) E M0(reason). */
struct seen {
    struct str log;
    enum dialect_event_kind last;
    long fail_at; /* the sink fails at this event */
    size_t n_call, n_end, n_bad;
};

static glim_status see(void *ctx, const struct dialect_event *ev, struct glim_err *e)
{
    struct seen *s = ctx;
    static const char *const name[] = {"R", "C", "B", "A", "E", "M"};
    if (s->fail_at > 0 && --s->fail_at == 0)
        return err_set(e, GLIM_FAILED, "the sink failed");
    bool joins = ev->kind == s->last &&
                 (ev->kind == DIALECT_REASONING || ev->kind == DIALECT_CONTENT || ev->kind == DIALECT_ARGUMENTS);
    if (!joins)
        str_printf(&s->log, "|%s:", name[ev->kind]);
    s->last = ev->kind;
    if (ev->kind == DIALECT_CALL_BEGIN)
        str_puts(&s->log, ev->name);
    else if (ev->kind == DIALECT_MALFORMED)
        str_puts(&s->log, ev->reason);
    else if (ev->text)
        str_add(&s->log, ev->text, ev->n);
    s->n_call += ev->kind == DIALECT_CALL_BEGIN;
    s->n_end += ev->kind == DIALECT_CALL_END;
    s->n_bad += ev->kind == DIALECT_MALFORMED;
    return GLIM_OK;
}

/* The log; pieces of `step` bytes. */
static char *parse(const char *dialect, const char *text, size_t n, size_t step, const json_t *tools, struct seen *out)
{
    struct glim_err e = {0};
    struct dialect_parser *p;
    struct seen s = {.last = DIALECT_CALL_END};
    const struct dialect_sink sink = {see, &s};
    const struct dialect_opts opts = {.tools = tools, .parse_tools = true};
    const struct dialect *d = dialect_by_name(dialect);
    assert_non_null(d);
    assert_int_equal(dialect_parser_create(&p, d, &opts, &e), GLIM_OK);
    for (size_t at = 0; at < n; at += step)
        if (dialect_push(p, text + at, n - at < step ? n - at : step, &sink, &e) != GLIM_OK)
            fail_msg("%s", e.message);
    if (dialect_end(p, DIALECT_STOPPED, &sink, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    dialect_parser_free(p);
    str_puts(&s.log, "");
    assert_false(s.log.failed);
    if (out)
        *out = s;
    return s.log.s;
}

static void expect(const char *dialect, const char *text, const char *want)
{
    for (size_t step = 1; step < 3; step++) {
        char *have = parse(dialect, text, strlen(text), step, NULL, NULL);
        if (!strstr(have, want))
            fail_msg("%s: \"%.80s\": have %.300s, need %s", dialect, text, have, want);
        mem_free(have);
    }
}

/* ---- the table ---- */

static void rows_are_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < dialect_count(); i++) {
        const struct dialect *d = dialect_at(i);
        assert_ptr_equal(dialect_by_name(d->name), d);
        assert_true(d->families && d->doc && d->families[0] && d->doc[0]);
        assert_int_equal(d->think_end != NULL, d->think != NULL || (d->flags & DIALECT_THINK_FIRST) != 0);
        const char *mark[] = {d->think,    d->think_end, d->open,     d->close,   d->call,    d->id_end,
                              d->name_end, d->id,        d->call_end, d->param,   d->key_end, d->type_end,
                              d->value,    d->param_end, d->start,    d->channel, d->message};
        for (size_t k = 0; k < sizeof mark / sizeof *mark; k++)
            assert_true(!mark[k] || (mark[k][0] && strlen(mark[k]) <= DIA_HELD - 8));
        const char *trigger = dialect_trigger(d);
        const struct dialect_frame *f = &d->frame;
        assert_int_equal(d->syntax == DIALECT_NO_CALLS, f->args == DIALECT_ARGS_NONE);
        if (d->syntax == DIALECT_NO_CALLS)
            continue;
        struct str begin = {0};
        str_printf(&begin, "%s%s%s", f->begin, f->before_name, f->again_name);
        if (trigger && !strstr(begin.s, trigger))
            fail_msg("%s: the trigger is not where a call begins", d->name);
        str_fini(&begin);
    }
    assert_null(dialect_by_name("klingon"));
    assert_null(dialect_at(dialect_count()));
    assert_string_equal(dialect_syntax_name(DIALECT_NO_CALLS), "none");
}

/* No mark of a state is the beginning of another one of it: the first that is complete is then the only one. */
static void check_marks(const struct dialect_parser *p)
{
    assert_true(p->n_mark < DIA_MARKS);
    for (size_t i = 0; i < p->n_mark; i++)
        for (size_t k = 0; k < p->n_mark; k++)
            if (i != k && p->mark[i].n <= p->mark[k].n && memcmp(p->mark[i].s, p->mark[k].s, p->mark[i].n) == 0)
                fail_msg("%s: a mark \"%s\" begins with another, \"%s\"", p->d->name, p->mark[k].s, p->mark[i].s);
}

static glim_status ignore(void *ctx, const struct dialect_event *ev, struct glim_err *e)
{
    (void)ctx, (void)ev, (void)e;
    return GLIM_OK;
}

static void marks_are_distinct(void **state)
{
    (void)state;
    for (size_t i = 0; i < dialect_count(); i++) {
        const struct dialect *d = dialect_at(i);
        const struct dialect_sink sink = {ignore, NULL};
        const struct dialect_opts opts = {.parse_tools = true};
        struct glim_err e = {0};
        char path[512];
        json_t *cases, *c;
        size_t k;
        snprintf(path, sizeof path, "%s/dialects/%s.json", TEST_DATA, d->name);
        assert_int_equal(json_parse_file(path, 1 << 20, &cases, &e), GLIM_OK);
        json_array_foreach(cases, k, c)
        {
            struct dialect_parser *p;
            const char *text = json_string_value(json_object_get(c, "text"));
            assert_int_equal(dialect_parser_create(&p, d, &opts, &e), GLIM_OK);
            check_marks(p);
            for (; *text; text++) {
                assert_int_equal(dialect_push(p, text, 1, &sink, &e), GLIM_OK);
                check_marks(p);
            }
            dialect_parser_free(p);
        }
        json_decref(cases);
    }
}

/* Calls written by a row's frame are what its parser reads. */
static void frame_call(struct str *out, const struct dialect_frame *f, const char *name, bool last)
{
    str_printf(out, "%s%s", f->before_name, name);
    if (f->again_name[0])
        str_printf(out, "%s%s", f->again_name, name);
    str_puts(out, f->after_name);
    if (f->args == DIALECT_ARGS_JSON)
        str_puts(out, "{\"s\": \"x\", \"n\": 1}");
    else if (f->args == DIALECT_ARGS_PYTHON)
        str_puts(out, "s=\"x\", n=1");
    for (int i = 0; i < 2 && f->args == DIALECT_ARGS_PARAMS; i++) {
        const char *type = i == 0 ? f->string_type : f->other_type ? f->other_type : "number";
        str_printf(out, "%s%s%s", f->before_key, i == 0 ? "s" : "n", f->after_key);
        if (f->after_type)
            str_printf(out, "%s%s", type, f->after_type);
        str_printf(out, "%s%s", i == 0 ? "x" : "1", f->after_value);
    }
    str_puts(out, f->after_args);
    if (!last)
        str_puts(out, f->between);
}

static void frames_are_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < dialect_count(); i++) {
        const struct dialect *d = dialect_at(i);
        const struct dialect_frame *f = &d->frame;
        struct str text = {0};
        bool single = strncmp(d->name, "gigachat", 8) == 0;
        if (d->syntax == DIALECT_NO_CALLS)
            continue;
        if (f->args == DIALECT_ARGS_BRACE) {
            str_printf(&text, "%s%s%s%ss:%sx%s,n:1%s", f->begin, f->before_name, "f", f->after_name, d->quote, d->quote,
                       f->after_args);
        } else {
            str_puts(&text, f->begin);
            if (!single)
                frame_call(&text, f, "f", false);
            frame_call(&text, f, single ? "f" : "g", true);
            str_puts(&text, f->end);
        }
        const char *want = single || f->args == DIALECT_ARGS_BRACE
                               ? "|B:f|A:{\"s\": \"x\", \"n\": 1}|E:"
                               : "|B:f|A:{\"s\": \"x\", \"n\": 1}|E:|B:g|A:{\"s\": \"x\", \"n\": 1}|E:";
        struct seen s;
        const char *first = d->flags & DIALECT_THINK_FIRST ? d->think_end : "";
        struct str all = {0};
        str_printf(&all, "%s%s", first, text.s);
        char *have = parse(d->name, all.s, all.n, 7, NULL, &s);
        if (strcmp(have, want) != 0)
            fail_msg("%s: %s: have %s", d->name, all.s, have);
        mem_free(have);
        str_fini(&all);
        str_fini(&text);
    }
}

static void expect_prompt(const char *dialect, const char *prompt, enum dialect_prompt want)
{
    assert_int_equal(dialect_prompt_end(dialect_by_name(dialect), prompt, strlen(prompt)), want);
}

static void ends_of_prompts(void **state)
{
    (void)state;
    expect_prompt("hermes", "x<think>\n", DIALECT_PROMPT_THINKS);
    expect_prompt("hermes", "<think>\n\n</think>\n\n", DIALECT_PROMPT_HAS_THOUGHT);
    expect_prompt("hermes", "<think>x", DIALECT_PROMPT_PLAIN);
    expect_prompt("hermes", "", DIALECT_PROMPT_PLAIN);
    expect_prompt("none", "<think>", DIALECT_PROMPT_PLAIN);
    expect_prompt("apriel", "steps:\n", DIALECT_PROMPT_PLAIN);
}

static void templates_name_their_dialect(void **state)
{
    (void)state;
    struct glim_err e = {0};
    json_t *list, *t;
    size_t i;
    if (json_parse_file(TEST_DATA "/dialects/templates.json", 2 << 20, &list, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    assert_int_equal(json_array_size(list), 70);
    json_array_foreach(list, i, t)
    {
        const char *name = json_string_value(json_object_get(t, "template"));
        struct str path = {0};
        char *text;
        size_t n;
        str_printf(&path, TEST_DATA "/templates/%s.jinja", name);
        if (file_read(path.s, 1 << 20, &text, &n, &e) != GLIM_OK)
            fail_msg("%s", e.message);
        const char *have = dialect_find(text, n)->name, *want = json_string_value(json_object_get(t, "dialect"));
        if (strcmp(have, want) != 0)
            fail_msg("%s: have %s, need %s", name, have, want);
        mem_free(text);
        str_fini(&path);
    }
    json_decref(list);
    assert_string_equal(dialect_find("", 0)->name, "none");
    assert_string_equal(dialect_find("<think>", 6)->name, "none");
    static const char other[] = "{{ tools }} some other way to call";
    assert_int_equal(dialect_find(other, sizeof other - 1)->syntax, DIALECT_NO_CALLS);
}

/* ---- limits ---- */

static void limits(void **state)
{
    (void)state;
    struct str s = {0};
    struct seen seen;
    str_puts(&s, "<tool_call><function=f>");
    for (int i = 0; i <= DIALECT_PARAMS_MAX; i++)
        str_printf(&s, "<parameter=p%d>1</parameter>", i);
    str_puts(&s, "</function></tool_call>");
    mem_free(parse("qwen3-coder", s.s, s.n, 4096, NULL, &seen));
    assert_int_equal(seen.n_bad, 1);
    assert_int_equal(seen.n_end, 0);
    str_clear(&s);
    str_puts(&s, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ");
    for (int i = 0; i < DIA_DEPTH; i++)
        str_putc(&s, '[');
    expect("hermes", s.s, "|M:a call: have text that is not JSON");
    str_clear(&s);
    str_puts(&s, "<|channel|>");
    for (int i = 0; i < DIA_HEADER; i++)
        str_putc(&s, 'x');
    expect("harmony", s.s, "more than 512 bytes");
    str_clear(&s);
    str_puts(&s, "[TOOL_CALLS]");
    for (int i = 0; i <= DIALECT_NAME_MAX; i++)
        str_putc(&s, 'x');
    expect("mistral", s.s, "more than 256 bytes");
    str_clear(&s);
    str_puts(&s, "<|tool_call_start|>[f(a=");
    for (size_t i = 0; i < sizeof((struct dia_literal *)0)->close; i++)
        str_putc(&s, '[');
    expect("lfm2", s.s, "not a literal");
    str_fini(&s);
}

static void invalid_bytes(void **state)
{
    (void)state;
    expect("hermes",
           "a\xFF"
           "b",
           "|C:a\xEF\xBF\xBD"
           "b");
    expect("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\xC3\"}}", "{\"a\": \"\xEF\xBF\xBD\"}|E:");
    expect("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": {\"\\u0000\": 1}}}", "|M:");
    expect("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": {\"b\": \"\\u0000\"}}}", "\\u0000\"}}|E:");
    expect("lfm2", "<|tool_call_start|>[f(a={'\\0': 1})]", "|M:a key: have a NUL byte");
    char *have = parse("hermes", "<tool_call>{\"name\": \"f\0\"}</tool_call>", 34, 5, NULL, NULL);
    assert_non_null(strstr(have, "|M:"));
    mem_free(have);
    have = parse("hermes", "a\0b", 3, 1, NULL, NULL);
    assert_memory_equal(have, "|C:a\0b", 6);
    mem_free(have);
}

/* References in circles, branching: no more than a bounded look. */
static void hostile_schema(void **state)
{
    (void)state;
    struct glim_err e;
    struct str s = {0};
    json_t *tools;
    str_puts(&s, "[{\"name\": \"f\", \"parameters\": {\"$defs\": {\"x\": {\"anyOf\": [");
    for (int i = 0; i < 500; i++)
        str_puts(&s, "{\"$ref\": \"#/$defs/x\"}, ");
    str_puts(&s, "{\"type\": \"string\"}]}}, \"properties\": {\"a\": {\"$ref\": \"#/$defs/x\"}}}}]");
    assert_int_equal(json_parse(s.s, s.n, "tools", &tools, &e), GLIM_OK);
    static const char text[] = "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>";
    char *have = parse("glm", text, sizeof text - 1, 9, tools, NULL);
    assert_string_equal(have, "|B:f|A:{\"a\": 1}|E:");
    mem_free(have);
    json_decref(tools);
    str_fini(&s);
}

static void misuse(void **state)
{
    (void)state;
    struct glim_err e = {0};
    struct dialect_parser *p;
    struct seen s = {.last = DIALECT_CALL_END};
    const struct dialect_sink sink = {see, &s};
    json_t *object = json_object();
    struct dialect_opts opts = {.tools = object, .parse_tools = true};
    assert_int_equal(dialect_parser_create(&p, dialect_by_name("hermes"), &opts, &e), GLIM_USAGE);
    json_decref(object);
    opts.tools = NULL;
    assert_int_equal(dialect_parser_create(&p, dialect_by_name("hermes"), &opts, &e), GLIM_OK);
    assert_int_equal(dialect_push(p, "a", 1, &sink, &e), GLIM_OK);
    s.fail_at = 1;
    assert_int_equal(dialect_push(p, "b", 1, &sink, &e), GLIM_FAILED);
    assert_string_equal(e.message, "the sink failed");
    assert_int_equal(dialect_push(p, "c", 1, &sink, &e), GLIM_FAILED);
    assert_int_equal(dialect_end(p, DIALECT_STOPPED, &sink, &e), GLIM_FAILED);
    assert_string_equal(s.log.s, "|C:a");
    dialect_parser_free(p);
    assert_int_equal(dialect_parser_create(&p, dialect_by_name("hermes"), &opts, &e), GLIM_OK);
    assert_int_equal(dialect_end(p, DIALECT_STOPPED, &sink, &e), GLIM_OK);
    assert_int_equal(dialect_push(p, "c", 1, &sink, &e), GLIM_USAGE);
    dialect_parser_free(p);
    dialect_parser_free(NULL);
    str_fini(&s.log);
}

/* ---- time ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A piece of text again and again. */
static void repeated(const struct dialect *d, const char *first, const char *piece, size_t n)
{
    struct str s = {0};
    str_puts(&s, first);
    while (s.n < n)
        str_puts(&s, piece);
    double t = now();
    struct seen seen;
    mem_free(parse(d->name, s.s, s.n, 5, NULL, &seen));
    t = now() - t;
    if (t > 10)
        fail_msg("%s: \"%s\": have %g s for %zu bytes, need time linear in them", d->name, piece, t, s.n);
    str_fini(&s);
}

/* Beginnings of marks, calls that never end, blanks, brackets: quadratic time would be minutes. */
static void time_is_linear(void **state)
{
    (void)state;
    enum { BYTES = 150 << 10 };
    for (size_t i = 0; i < dialect_count(); i++) {
        const struct dialect *d = dialect_at(i);
        const char *mark = d->open      ? d->open
                           : d->call    ? d->call
                           : d->message ? d->message
                           : d->think   ? d->think
                                        : "<think>";
        char part[DIA_HELD];
        snprintf(part, sizeof part, "%.*s", (int)strlen(mark) - 1, mark);
        repeated(d, "", part, BYTES);
        repeated(d, "", mark, BYTES);
        repeated(d, mark, " \n", BYTES);
        repeated(d, mark, d->param ? d->param : "{\"name\": \"f\", \"arguments\": {}}", BYTES);
        repeated(d, "", "[{\"a\":", BYTES);
    }
    repeated(dialect_by_name("llama3"), "{\"name\": \"f\"", " ", 1 << 20);
    repeated(dialect_by_name("hermes"), "", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", 1 << 20);
    repeated(dialect_by_name("qwen3-coder"), "<tool_call><function=f><parameter=x>", "</param", 1 << 20);
    repeated(dialect_by_name("gemma4"), "<|tool_call>call:f{x:<|\"|>", "<|\"", 1 << 20);
}

/* ---- memory ---- */

static void no_memory(void **state)
{
    (void)state;
    static const char *const text[][2] = {
        {"hermes", "<think>a</think> b <tool_call>{\"name\": \"f\", \"id\": \"x\", \"arguments\": {\"k\": [1, "
                   "\"\\u00e9\"]}}</tool_call> c"},
        {"hermes",
         "<tool_call>{\"arguments\": \"{\\\"a\\\": 1}\", \"name\": \"f\"}</tool_call><tool_call>{\"a\":x</tool_call>"},
        {"qwen3-coder", "<tool_call><function=f><parameter=s>\n\"x\"\n</parameter><parameter=n>[1]</parameter></"
                        "function></tool_call>"},
        {"kimi-k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": "
                    "1}<|tool_call_end|>"},
        {"atem",
         " to=self<|message|>x<|eom|><|start|>assistant to=f<|message|><atem:function_calls><atem:invoke name=\"f\">"
         "<atem:parameter name=\"s\">1</atem:parameter></atem:invoke></atem:function_calls><|eot|>"},
        {"pythonic", "[f(s='x\\n', n=[1, {\"k\": None}])]"},
        {"pythonic", "[f(x"},
        {"glm", "<tool_call>a_name_that_is_longer_than_the_first_piece_of_memory</tool_call>"},
        {"hermes", "<tool_call>{\"name\": \"f\", \"id\": \"\", \"arguments\": {\"\": 1, \"\": 2}}</tool_call>"},
        {"apertus", "<|tools_prefix|>[{\"f\": {\"a\": 1}, \"g\": null, \"h\": \"{}\"}]<|tools_suffix|>"},
        {"harmony", "<|channel|>analysis<|message|>x<|end|><|start|>assistant to=functions.f<|channel|>commentary json"
                    "<|message|>{\"a\": 1}<|call|>"},
        {"mistral", "[TOOL_CALLS]f[CALL_ID]x[ARGS]{\"a\": 1}[TOOL_CALLS][{\"name\": \"f\"}]"},
        {"kimi-k3", "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"&amp;\" "
                    "type=\"number\"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>"},
        {"llama3", "{\"name\": \"f\", \"parameters\": {}}; {\"name\": 1"},
        {"llama3", "<|python_tag|>f.call(a=\"x\")"},
        {"gemma4", "<|tool_call>call:f{s:<|\"|>x<|\"|>,n:word}<tool_call|>"},
    };
    static const char schema[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"type\": \"string\"}}}}]";
    json_t *tools;
    struct glim_err e = {0};
    assert_int_equal(json_parse(schema, sizeof schema - 1, "tools", &tools, &e), GLIM_OK);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        glim_status st = GLIM_FAILED;
        long n = 0;
        char *full = parse(text[i][0], text[i][1], strlen(text[i][1]), 1, tools, NULL);
        while (st != GLIM_OK) {
            struct seen s = {.last = DIALECT_CALL_END};
            const struct dialect_sink sink = {see, &s};
            const struct dialect_opts opts = {.tools = tools, .parse_tools = true};
            struct dialect_parser *p = NULL;
            mem_fail_after(++n);
            st = dialect_parser_create(&p, dialect_by_name(text[i][0]), &opts, &e);
            for (const char *c = text[i][1]; *c && st == GLIM_OK; c++)
                st = dialect_push(p, c, 1, &sink, &e);
            if (st == GLIM_OK)
                st = dialect_end(p, DIALECT_STOPPED, &sink, &e);
            mem_fail_after(0);
            if (st != GLIM_OK && !s.log.failed)
                assert_non_null(strstr(e.message, "out of memory"));
            if (!s.log.failed) /* nothing was given out that is not so */
                assert_memory_equal(s.log.s ? s.log.s : "", full, s.log.n);
            if (st == GLIM_OK && s.log.failed)
                st = GLIM_FAILED; /* the test's own log */
            dialect_parser_free(p);
            str_fini(&s.log);
        }
        assert_true(n > 3);
        mem_free(full);
    }
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(marks_are_distinct),
        cmocka_unit_test(frames_are_read_back),
        cmocka_unit_test(ends_of_prompts),
        cmocka_unit_test(templates_name_their_dialect),
        cmocka_unit_test(limits),
        cmocka_unit_test(invalid_bytes),
        cmocka_unit_test(hostile_schema),
        cmocka_unit_test(misuse),
        cmocka_unit_test(time_is_linear),
        cmocka_unit_test(no_memory),
    };
    json_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
