/* If this fails, a sequence that decodes in company gets other logits than alone, a stream cut back keeps what it
 * should not, or profiling changes an answer; and what `glim bench -b` and --roofline measure is not what runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/mem.h"
#include "run/run.h"

#include <string.h>

enum { N_VOCAB = 320, N_STREAM = 5, N_STEP = 24, N_CTX = 128 };

static const char *const models[] = {
    TEST_DATA "/hf/llama",
    TEST_DATA "/hf/qwen3",
    TEST_DATA "/hf/gemma3_text", /* windows of 16 tokens */
    TEST_DATA "/gguf/llama_q.Q4_K_M.gguf",
};
enum { N_MODEL = sizeof models / sizeof *models };

/* Prefixes of different lengths, so that streams stand at different places of their pages and windows. */
static const uint32_t depth[N_STREAM] = {0, 1, 17, 40, 63};
static int32_t tokens[N_STREAM][N_CTX];
static float got[N_STEP][N_STREAM][N_VOCAB];

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

static struct glim_model *open_model(const char *path, const char *chunk)
{
    struct glim_err e;
    struct glim_config *c;
    struct glim_model *m;
    ok(glim_config_create(&c, &e), &e);
    ok(glim_config_set(c, "kv_poison", "on", &e), &e);
    ok(glim_config_set(c, "threads", "2", &e), &e);
    ok(glim_config_set(c, "prefill_chunk", chunk, &e), &e);
    ok(glim_model_open(&m, path, c, NULL, NULL, &e), &e);
    glim_config_free(c);
    return m;
}

static void make_tokens(void)
{
    uint32_t x = 12345;
    for (size_t s = 0; s < N_STREAM; s++)
        for (size_t i = 0; i < N_CTX; i++) {
            x = x * 1664525u + 1013904223u;
            tokens[s][i] = (int32_t)(7 + (x >> 8) % (N_VOCAB - 7));
        }
}

static struct run_streams *open_streams(const struct glim_model *m)
{
    struct glim_err e;
    struct run_streams *s;
    ok(run_streams_create(&s, m, N_STREAM, N_CTX, &e), &e);
    return s;
}

/* Bring every stream to its prefix, cut back where the cache allows it, then decode all of them together. */
static void decode(struct run_streams *s)
{
    struct glim_err e;
    const float *logits;
    for (uint32_t k = 0; k < N_STREAM; k++) {
        uint32_t held = run_streams_cut(s, k, depth[k]);
        assert_true(held <= depth[k]);
        ok(run_streams_prefill(s, k, tokens[k] + held, depth[k] - held, &logits, &e), &e);
    }
    for (uint32_t i = 0; i < N_STEP; i++) {
        int32_t next[N_STREAM];
        for (uint32_t k = 0; k < N_STREAM; k++)
            next[k] = tokens[k][depth[k] + i];
        ok(run_streams_step(s, next, N_STREAM, &logits, &e), &e);
        memcpy(got[i], logits, sizeof got[i]);
    }
}

/* What a session that computes one sequence from nothing says. */
static void check(const struct glim_model *m, const char *what)
{
    struct glim_err e;
    struct glim_session *one;
    static float all[N_CTX][N_VOCAB];
    ok(glim_session_create(&one, m, N_CTX, &e), &e);
    for (uint32_t k = 0; k < N_STREAM; k++) {
        ok(glim_session_eval_all(one, tokens[k], depth[k] + N_STEP, all[0], &e), &e);
        for (uint32_t i = 0; i < N_STEP; i++)
            if (memcmp(got[i][k], all[depth[k] + i], sizeof got[i][k]) != 0)
                fail_msg("%s: stream %u, step %u: other logits than alone", what, k, i);
    }
    glim_session_free(one);
}

static void test_streams_equal_alone(void **state)
{
    (void)state;
    make_tokens();
    for (size_t i = 0; i < N_MODEL; i++) {
        /* 3: more streams than rows of a prefill's chunk */
        static const char *const chunk[] = {"3", "64"};
        for (size_t c = 0; c < 2; c++) {
            struct glim_model *m = open_model(models[i], chunk[c]);
            struct run_streams *s = open_streams(m);
            assert_int_equal(run_streams_threads(s), 2);
            decode(s);
            check(m, models[i]);
            memset(got, 0xFF, sizeof got);
            decode(s); /* again, from caches that hold the last run */
            check(m, models[i]);
            run_streams_free(s);
            glim_model_close(m);
        }
    }
}

static void test_profile(void **state)
{
    (void)state;
    make_tokens();
    for (size_t i = 0; i < N_MODEL; i++) {
        struct glim_model *m = open_model(models[i], "64");
        struct run_streams *s = open_streams(m);
        struct run_profile p;
        run_profile_init(&p, m);
        run_streams_profile(s, &p);
        decode(s);
        run_streams_profile(s, NULL);
        check(m, models[i]);
        const struct plan *plan = &m->plan;
        double prefix = 0, steps = N_STEP, rows = N_STEP * N_STREAM, forwards = N_STEP, split = 0;
        for (uint32_t k = 0; k < N_STREAM; k++) {
            prefix += depth[k];
            forwards += depth[k] > 0;
            split += depth[k] > 1;
        }
        /* the head is computed in each step and once a prefix, whose last layer goes on with one row; everything else
         * for every row */
        assert_int_equal(p.cost[RUN_HEAD].calls, forwards);
        assert_int_equal(p.cost[RUN_EMBED].calls, forwards);
        static const enum run_op a_layer[] = {RUN_QKV,      RUN_ATTN_PREPARE, RUN_ATTENTION,
                                              RUN_ATTN_OUT, RUN_GATE_UP,      RUN_DOWN};
        for (size_t k = 0; k < sizeof a_layer / sizeof *a_layer; k++) {
            const struct run_cost *c = &p.cost[a_layer[k]];
            double more = a_layer[k] == RUN_QKV || a_layer[k] == RUN_ATTN_PREPARE ? split : 0;
            assert_int_equal(c->calls, forwards * plan->n_layer + more);
            assert_true(c->seconds > 0 && c->rows + c->memory > 0);
        }
        const struct weight *w = &plan->weights[0].ffn.down, *head = &plan->head;
        double down = p.cost[RUN_DOWN].int8 + p.cost[RUN_DOWN].f32, wide = w->act == ACT_Q16 ? 2 : 1;
        double top = p.cost[RUN_HEAD].int8 + p.cost[RUN_HEAD].f32, head_wide = head->act == ACT_Q16 ? 2 : 1;
        double down_rows = (plan->n_layer - 1) * (prefix + rows) + forwards - steps + rows;
        double norm = 4, gate = plan->layer[0].ffn.act == ACT_FN_SILU ? 27 : 40; /* operations an element, in f32 */
        assert_true(down == (2 * wide * w->n_out + gate) * w->n_in * down_rows);
        assert_true(top == (2 * head_wide * head->n_out + norm) * head->n_in * (rows + forwards - steps));
        assert_true(p.cost[RUN_HEAD].memory == (double)head->bytes * forwards);
        long calls = (long)p.cost[RUN_EMBED].calls;
        decode(s); /* profiling has ended */
        assert_int_equal(p.cost[RUN_EMBED].calls, calls);
        run_streams_free(s);
        glim_model_close(m);
    }
}

/* Work of attention by hand: positions 0 … 39 in one span, then one step. */
static void test_profile_of_attention(void **state)
{
    (void)state;
    struct glim_err e;
    const float *logits;
    struct glim_model *m = open_model(models[2], "64");
    struct run_streams *s = open_streams(m);
    struct run_profile p;
    make_tokens();
    run_profile_init(&p, m);
    run_streams_profile(s, &p);
    ok(run_streams_prefill(s, 0, tokens[0], 40, &logits, &e), &e);
    ok(run_streams_step(s, tokens[0] + 40, 1, &logits, &e), &e);
    double keys = 0, memory = 0, score_ops = 0;
    for (uint32_t i = 0; i < m->plan.n_layer; i++) {
        const struct attn_rule *a = &m->plan.layer[i].attn;
        double seen = 0;
        for (uint32_t pos = i + 1 < m->plan.n_layer ? 0 : 39; pos <= 40; pos++) /* the last layer asks from one row */
            seen += a->window && pos + 1 > a->window ? a->window : pos + 1;
        keys += seen * a->n_head;
        score_ops += 4.0 * seen * a->n_head * a->head_dim;
        uint32_t last = a->window && a->window < 41 ? a->window : 41;
        uint32_t first = i + 1 < m->plan.n_layer || !a->window || a->window > 40 ? 40 : a->window;
        size_t page = m->be->kv_page_bytes(m->kv_type, a->n_kv_head, a->head_dim);
        memory += ((double)first + last) * 2 * (double)page / KV_PAGE;
    }
    const struct run_cost *c = &p.cost[RUN_ATTENTION];
    assert_true(c->memory == memory);
    assert_true(c->f32 > score_ops + 20 * keys && c->f32 < score_ops + 32 * keys); /* softmax on top */
    run_streams_free(s);
    glim_model_close(m);
}

static void test_too_long(void **state)
{
    (void)state;
    struct glim_err e;
    const float *logits;
    struct glim_model *m = open_model(models[0], "64");
    struct run_streams *s;
    assert_int_equal(run_streams_create(&s, m, 1, m->plan.n_ctx_train + 1, &e), GLIM_REFUSED);
    assert_null(s);
    ok(run_streams_create(&s, m, 2, 20, &e), &e);
    make_tokens();
    ok(run_streams_prefill(s, 1, tokens[1], 20, &logits, &e), &e);
    assert_int_equal(run_streams_prefill(s, 1, tokens[1], 1, &logits, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "context"));
    assert_int_equal(run_streams_cut(s, 1, 7), 7);
    ok(run_streams_step(s, tokens[1], 2, &logits, &e), &e);
    run_streams_free(s);
    glim_model_close(m);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct glim_err e;
    struct glim_model *m = open_model(models[0], "64");
    struct run_streams *s = NULL;
    long n = 1;
    for (;; n++) {
        mem_fail_after(n);
        glim_status st = run_streams_create(&s, m, 3, 64, &e);
        mem_fail_after(0);
        if (st == GLIM_OK)
            break;
        assert_null(s);
        assert_true(st == GLIM_FAILED || st == GLIM_REFUSED);
    }
    assert_true(n > 10);
    run_streams_free(s);
    glim_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_equal_alone),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_profile_of_attention),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
