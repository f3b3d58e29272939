/* If this fails, a caller's mistake or a lack of memory crashes the engine, leaks, or is answered with a vague
 * sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "run/run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const model_path = TEST_DATA "/gguf/llama_q.Q4_1.gguf";

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

static struct glim_model *open_model(const char *path, const char *key, const char *value)
{
    struct glim_err e;
    struct glim_config *c;
    struct glim_model *m;
    ok(glim_config_create(&c, &e), &e);
    if (key)
        ok(glim_config_set(c, key, value, &e), &e);
    ok(glim_model_open(&m, path, c, NULL, NULL, &e), &e);
    glim_config_free(c);
    return m;
}

static void refused(glim_status st, glim_status want, const struct glim_err *e, const char *part)
{
    assert_int_equal(st, want);
    if (!strstr(e->message, part))
        fail_msg("message does not name \"%s\": %s", part, e->message);
}

static void test_prefix_limits(void **state)
{
    (void)state;
    struct glim_err e;
    struct glim_model *m = open_model(model_path, NULL, NULL);
    struct glim_session *s;
    refused(glim_session_create(&s, m, 513, &e), GLIM_REFUSED, &e, "513");
    assert_null(s);
    ok(glim_session_create(&s, m, 32, &e), &e);
    int32_t t[40] = {0};
    const float *logits;
    refused(glim_session_eval(s, t, 33, &logits, &e), GLIM_REFUSED, &e, "33 tokens");
    refused(glim_session_eval(s, t, 0, &logits, &e), GLIM_USAGE, &e, "0 tokens");
    t[3] = 320;
    refused(glim_session_eval(s, t, 8, &logits, &e), GLIM_REFUSED, &e, "320");
    t[3] = -1;
    refused(glim_session_eval(s, t, 8, &logits, &e), GLIM_REFUSED, &e, "-1");
    t[3] = 0;
    ok(glim_session_eval(s, t, 32, &logits, &e), &e); /* exactly full still works, after failures too */
    glim_session_free(s);
    glim_model_close(m);
}

static void test_generate_limits(void **state)
{
    (void)state;
    struct glim_err e;
    struct glim_model *m = open_model(model_path, NULL, NULL);
    struct glim_session *s;
    struct glim_result r;
    ok(glim_session_create(&s, m, 32, &e), &e);
    int32_t t[40] = {0};
    struct glim_request q = {.prompt = t, .n_prompt = 32, .sampling = glim_sampling_default(), .ignore_end = true};
    refused(glim_generate(s, &q, NULL, NULL, NULL, &r, &e), GLIM_REFUSED, &e, "32 tokens");
    q.n_prompt = 30;
    q.max_tokens = 3;
    refused(glim_generate(s, &q, NULL, NULL, NULL, &r, &e), GLIM_REFUSED, &e, "30 + 3");
    q.max_tokens = 0;
    ok(glim_generate(s, &q, NULL, NULL, NULL, &r, &e), &e);
    assert_int_equal(r.n_token, 2);
    assert_int_equal(r.finish, GLIM_FINISH_LENGTH);
    glim_result_fini(&r);
    glim_session_free(s);
    glim_model_close(m);
}

static bool stop_at_half(void *user, uint64_t done, uint64_t total)
{
    *(uint64_t *)user = done;
    return done * 2 < total;
}

/* Cancelling a prompt half way is no error, gives no token, and what was computed is kept. */
static void test_cancel_prefill(void **state)
{
    (void)state;
    struct glim_err e;
    struct glim_model *m = open_model(model_path, "prefill_chunk", "8");
    struct glim_session *s;
    struct glim_result r;
    uint64_t done = 0;
    ok(glim_session_create(&s, m, 64, &e), &e);
    int32_t t[40];
    for (int i = 0; i < 40; i++)
        t[i] = 7 + i;
    struct glim_request q = {
        .prompt = t, .n_prompt = 40, .max_tokens = 2, .sampling = glim_sampling_default(), .ignore_end = true};
    ok(glim_generate(s, &q, NULL, stop_at_half, &done, &r, &e), &e);
    assert_int_equal(r.finish, GLIM_FINISH_CANCELLED);
    assert_int_equal(r.n_token, 0);
    assert_int_equal(done, 24);
    glim_result_fini(&r);
    ok(glim_generate(s, &q, NULL, NULL, NULL, &r, &e), &e);
    assert_int_equal(r.n_reused, 24);
    assert_int_equal(r.n_token, 2);
    glim_result_fini(&r);
    glim_session_free(s);
    glim_model_close(m);
}

static void test_memory_limit(void **state)
{
    (void)state;
    struct glim_err e;
    struct glim_config *c;
    struct glim_model *m;
    ok(glim_config_create(&c, &e), &e);
    ok(glim_config_set(c, "mem_limit", "200000", &e), &e);
    refused(glim_model_open(&m, model_path, c, NULL, NULL, &e), GLIM_REFUSED, &e, "have 0.2 MiB, need 0.");
    glim_config_free(c);
}

/* Load, 8 tokens, close, with the n-th allocation failing, for every n there is. */
static bool attempt(const char *path, long n_fail)
{
    struct glim_err e = {0};
    struct glim_config *c = NULL;
    struct glim_model *m = NULL;
    struct glim_session *s = NULL;
    struct glim_result r = {0};
    mem_fail_after(n_fail);
    glim_status st = glim_config_create(&c, &e);
    if (st == GLIM_OK)
        st = glim_config_set(c, "threads", "2", &e);
    if (st == GLIM_OK)
        st = glim_model_open(&m, path, c, NULL, NULL, &e);
    if (st == GLIM_OK)
        st = glim_session_create(&s, m, 64, &e);
    if (st == GLIM_OK) {
        int32_t *t;
        size_t n;
        st = glim_tokenize(m, "hello there", 11, GLIM_TOK_BOS, &t, &n, &e);
        if (st == GLIM_OK) {
            struct glim_request q = {
                .prompt = t, .n_prompt = n, .max_tokens = 8, .sampling = glim_sampling_default(), .ignore_end = true};
            q.sampling.temperature = 1.0f;
            q.sampling.top_k = 5;
            st = glim_generate(s, &q, NULL, NULL, NULL, &r, &e);
            glim_free(t);
        }
    }
    mem_fail_after(0);
    if (st != GLIM_OK) {
        assert_true(e.message[0] != 0);
        assert_null(strchr(e.message, '\n'));
    }
    glim_result_fini(&r);
    glim_session_free(s);
    glim_model_close(m);
    glim_config_free(c);
    return st == GLIM_OK;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const paths[] = {TEST_DATA "/gguf/llama_q.Q4_1.gguf", TEST_DATA "/hf/gemma3_text"};
    for (int p = 0; p < 2; p++) {
        assert_true(attempt(paths[p], 0));
        long n = 1;
        while (!attempt(paths[p], n))
            n++;
        assert_true(n > 50); /* the loop did fail things */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_limits),
        cmocka_unit_test(test_generate_limits),
        cmocka_unit_test(test_cancel_prefill),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
