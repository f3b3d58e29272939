/* If this fails, an answer under a grammar is not a sentence of it, differs from what the same draws give, or a model
 * that reasons is held to a call it only thinks about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "run/constraint.h"
#include "run/run.h"

#include <string.h>

static const char *const model_path = TEST_DATA "/gguf/llama_q.Q4_1.gguf";

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

static struct glim_model *open_model(void)
{
    struct glim_err e;
    struct glim_config *c;
    struct glim_model *m;
    ok(glim_config_create(&c, &e), &e);
    ok(glim_model_open(&m, model_path, c, NULL, NULL, &e), &e);
    glim_config_free(c);
    return m;
}

static struct glim_grammar *gbnf(const struct glim_model *m, const char *text)
{
    struct glim_grammar *g;
    struct glim_err e;
    ok(glim_grammar_gbnf(&g, m, text, strlen(text), &e), &e);
    return g;
}

static char *generate(struct glim_session *s, struct glim_grammar *g, uint32_t max, uint64_t seed,
                      enum glim_finish *finish)
{
    struct glim_err e;
    struct glim_result r;
    static const int32_t prompt[] = {9, 8, 7};
    struct glim_request q = {
        .prompt = prompt, .n_prompt = 3, .max_tokens = max, .sampling = glim_sampling_default(), .grammar = g};
    q.sampling.temperature = 1;
    q.sampling.seed = seed;
    ok(glim_generate(s, &q, NULL, NULL, NULL, &r, &e), &e);
    *finish = r.finish;
    char *text = mem_strdup(r.text);
    glim_result_fini(&r);
    return text;
}

static void answers_are_sentences(void **state)
{
    (void)state;
    struct glim_model *m = open_model();
    struct glim_session *s;
    struct glim_err e;
    enum glim_finish finish;
    ok(glim_session_create(&s, m, 200, &e), &e);
    struct glim_grammar *g = gbnf(m, "root ::= \"<\" [a-f]{2,9} \">\" (\" end\")?");
    for (uint64_t seed = 0; seed < 30; seed++) {
        char *text = generate(s, g, 100, seed, &finish);
        size_t n = strspn(text + 1, "abcdef");
        assert_int_equal(finish, GLIM_FINISH_END);
        assert_true(text[0] == '<' && n >= 2 && n <= 9);
        assert_true(strcmp(text + 1 + n, ">") == 0 || strcmp(text + 1 + n, "> end") == 0);
        mem_free(text);
    }
    glim_grammar_free(g);
    g = gbnf(m, "root ::= \"a sentence without a choice\""); /* computed together, where it is forced */
    char *text = generate(s, g, 100, 1, &finish);
    assert_string_equal(text, "a sentence without a choice");
    mem_free(text);
    text = generate(s, g, 4, 1, &finish);
    assert_int_equal(finish, GLIM_FINISH_LENGTH);
    assert_int_equal(strncmp(text, "a sentence without a choice", strlen(text)), 0);
    mem_free(text);
    glim_grammar_free(g);
    glim_session_free(s);
    glim_model_close(m);
}

static void a_grammar_and_endless_text_are_refused(void **state)
{
    (void)state;
    struct glim_model *m = open_model();
    struct glim_session *s;
    struct glim_result r;
    struct glim_err e;
    ok(glim_session_create(&s, m, 64, &e), &e);
    struct glim_grammar *g = gbnf(m, "root ::= [a-z]");
    static const int32_t prompt[] = {9};
    struct glim_request q = {
        .prompt = prompt, .n_prompt = 1, .sampling = glim_sampling_default(), .grammar = g, .ignore_end = true};
    assert_int_equal(glim_generate(s, &q, NULL, NULL, NULL, &r, &e), GLIM_USAGE);
    assert_int_equal(glim_grammar_after(g, "", false, &e), GLIM_USAGE);
    glim_grammar_free(g);
    assert_int_equal(glim_grammar_gbnf(&g, m, "root ::= x", 10, &e), GLIM_REFUSED);
    assert_null(g);
    assert_int_equal(glim_grammar_json_schema(&g, m, "{\"type\": 3}", 11, &e), GLIM_REFUSED);
    assert_int_equal(glim_grammar_json_schema(&g, m, "{", 1, &e), GLIM_FAILED);
    glim_session_free(s);
    glim_model_close(m);
}

/* ---- what may come, token by token ---- */

/* Feed the text's tokens; false: one of them was not admitted. */
static bool feed(struct constraint *c, const struct glim_model *m, const char *text)
{
    struct glim_err e;
    int32_t *id;
    size_t n;
    bool good = true;
    ok(glim_tokenize(m, text, strlen(text), 0, &id, &n, &e), &e);
    for (size_t i = 0; good && i < n; i++)
        good = constraint_accept(c, id[i], &e) == GLIM_OK;
    mem_free(id);
    return good;
}

/* How many tokens may come next. */
static size_t choices(struct constraint *c, const struct glim_model *m)
{
    const uint64_t *mask;
    struct glim_err e;
    int32_t forced;
    bool none;
    size_t n = 0;
    ok(constraint_forced(c, &forced, &e), &e);
    if (forced >= 0)
        return 1;
    ok(constraint_mask(c, &mask, &none, &e), &e);
    for (uint32_t i = 0; i < m->plan.n_vocab; i++)
        n += !mask || mask[i / 64] >> i % 64 & 1;
    return n;
}

static struct constraint *begin_after(struct glim_grammar *g, bool thinks)
{
    struct constraint *c;
    struct glim_err e;
    ok(constraint_create(&c, g, thinks, &e), &e);
    return c;
}

static struct constraint *begin(struct glim_grammar *g)
{
    return begin_after(g, false);
}

static void a_grammar_waits_for_its_trigger(void **state)
{
    (void)state;
    struct glim_model *m = open_model();
    struct glim_err e;
    struct glim_grammar *g = gbnf(m, "root ::= \"yes\" | \"no\"");
    ok(glim_grammar_after(g, "</t>", false, &e), &e);
    struct constraint *c = begin(g);
    assert_true(feed(c, m, "anything at all </t"));
    assert_true(choices(c, m) > 50);
    assert_true(feed(c, m, ">"));
    assert_false(feed(c, m, "maybe"));
    assert_true(feed(c, m, "yes"));
    size_t n_end = 0;
    for (uint32_t i = 0; i < m->plan.n_vocab; i++)
        n_end += glim_token_is_end(m, (int32_t)i);
    assert_int_equal(choices(c, m), n_end);
    constraint_free(c);
    glim_grammar_free(g);
    glim_model_close(m);
}

static void calls_are_held_to_their_tools_outside_of_reasoning(void **state)
{
    (void)state;
    struct glim_model *m = open_model();
    struct glim_err e;
    struct glim_grammar *g;
    json_t *tools = json_pack("[{s:s, s:{s:s, s:{s:s, s:{s:{s:s}}, s:[s], s:b}}}]", "type", "function", "function",
                              "name", "add", "parameters", "type", "object", "properties", "a", "type", "integer",
                              "required", "a", "additionalProperties", 0);
    const struct dialect *d = dialect_by_name("hermes");
    const struct calls_opts o = {.parallel = true, .lazy = true};
    static const char call[] = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 12}}\n</tool_call>";
    assert_non_null(tools);
    ok(run_grammar_calls(&g, m, d, tools, &o, &e), &e);

    struct constraint *c = begin(g);
    assert_true(feed(c, m, "Let me see. "));
    assert_true(choices(c, m) > 50);
    assert_true(feed(c, m, call));
    constraint_free(c);
    c = begin(g);
    assert_true(feed(c, m, "<tool_call>\n{\"name\": \""));
    assert_false(feed(c, m, "subtract"));
    assert_true(feed(c, m, "add\", \"arguments\": {\"a\": "));
    assert_false(feed(c, m, "\"12\""));
    constraint_free(c);

    c = begin(g); /* the model opens reasoning by itself */
    assert_true(feed(c, m, "\n<think> I could <tool_call> something, {or not"));
    assert_true(choices(c, m) == m->plan.n_vocab);
    assert_true(feed(c, m, "</think>\n\n<tool_call>\n{\"name\": \""));
    assert_false(feed(c, m, "subtract"));
    constraint_free(c);
    c = begin(g); /* what only begins like a marker */
    assert_true(feed(c, m, "<thin ice <tool_call>\n"));
    assert_false(feed(c, m, "}"));
    constraint_free(c);
    c = begin(g); /* blanks, then a call at once */
    assert_true(feed(c, m, "\n\n<tool_call>"));
    assert_false(feed(c, m, "}"));
    constraint_free(c);
    c = begin_after(g, true); /* the prompt has opened it */
    assert_true(feed(c, m, "hm <tool_call>}{"));
    assert_true(feed(c, m, "</think>"));
    assert_true(feed(c, m, call));
    constraint_free(c);
    glim_grammar_free(g);
    json_decref(tools);
    glim_model_close(m);
}

static void lack_of_memory_is_an_error(void **state)
{
    (void)state;
    struct glim_model *m = open_model();
    json_t *tools = json_pack("[{s:s}]", "name", "f");
    const struct calls_opts o = {.lazy = true};
    glim_status st = GLIM_FAILED;
    long n = 1;
    for (; st != GLIM_OK; n += n < 400 ? 1 : 37) {
        struct glim_grammar *g = NULL, *calls = NULL;
        struct constraint *c = NULL;
        struct glim_err e = {0};
        mem_fail_after(n);
        st = glim_grammar_gbnf(&g, m, "root ::= [a-z]{3}", 17, &e);
        if (st == GLIM_OK)
            st = glim_grammar_after(g, "x", true, &e);
        if (st == GLIM_OK)
            st = run_grammar_calls(&calls, m, dialect_by_name("hermes"), tools, &o, &e);
        if (st == GLIM_OK)
            st = constraint_create(&c, calls, false, &e);
        if (st == GLIM_OK)
            st = constraint_accept(c, 9, &e);
        mem_fail_after(0);
        if (st != GLIM_OK)
            assert_true(e.message[0] != 0);
        constraint_free(c);
        glim_grammar_free(g);
        glim_grammar_free(calls);
    }
    assert_true(n > 50);
    json_decref(tools);
    glim_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_sentences),
        cmocka_unit_test(a_grammar_and_endless_text_are_refused),
        cmocka_unit_test(a_grammar_waits_for_its_trigger),
        cmocka_unit_test(calls_are_held_to_their_tools_outside_of_reasoning),
        cmocka_unit_test(lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
