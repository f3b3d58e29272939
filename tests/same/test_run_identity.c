/* If this fails, an answer depends on something it must not depend on: how the prompt was cut, what else was in the
 * batch, what the cache held, how many threads ran, or which instruction set computed it. Everything here is compared
 * byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "run/forward.h"
#include "run/run.h"

#include <stdio.h>
#include <string.h>

enum { N_TOKEN = 90, N_VOCAB = 320 };

static const char *const models[] = {
    TEST_DATA "/hf/llama",
    TEST_DATA "/hf/qwen2",
    TEST_DATA "/hf/qwen3",
    TEST_DATA "/hf/gemma3_text", /* windows of 16 tokens */
    TEST_DATA "/gguf/llama_q.Q4_K_M.gguf",
    TEST_DATA "/gguf/llama_q.Q4_1.gguf",
    TEST_DATA "/gguf/llama_q.IQ4_XS.gguf",
};
enum { N_MODEL = sizeof models / sizeof *models };

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

/* Levers as "key=value", NULL at the end. */
static struct glim_model *open_model(const char *path, const char *const *levers)
{
    struct glim_err e;
    struct glim_config *c;
    struct glim_model *m;
    ok(glim_config_create(&c, &e), &e);
    ok(glim_config_set(c, "kv_poison", "on", &e), &e);
    for (; levers && *levers; levers += 2)
        ok(glim_config_set(c, levers[0], levers[1], &e), &e);
    ok(glim_model_open(&m, path, c, NULL, NULL, &e), &e);
    glim_config_free(c);
    return m;
}

static struct glim_session *open_session(const struct glim_model *m)
{
    struct glim_err e;
    struct glim_session *s;
    ok(glim_session_create(&s, m, 256, &e), &e);
    return s;
}

static void make_tokens(int32_t *t, size_t n, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        t[i] = (int32_t)(7 + (x >> 8) % (N_VOCAB - 7));
    }
}

/* Logits of every position: [N_TOKEN][N_VOCAB]. */
static void all_logits(const char *path, const char *const *levers, const int32_t *tokens, float *out)
{
    struct glim_err e;
    struct glim_model *m = open_model(path, levers);
    struct glim_session *s = open_session(m);
    ok(glim_session_eval_all(s, tokens, N_TOKEN, out, &e), &e);
    glim_session_free(s);
    glim_model_close(m);
}

static float base[N_TOKEN * N_VOCAB], got[N_TOKEN * N_VOCAB];

static void test_chunks_threads_isa(void **state)
{
    (void)state;
    int32_t tokens[N_TOKEN];
    make_tokens(tokens, N_TOKEN, 1);
    static const char *const variants[][5] = {
        {"prefill_chunk", "1", NULL}, {"prefill_chunk", "7", NULL}, {"prefill_chunk", "64", NULL},
        {"threads", "1", NULL},       {"threads", "2", NULL},       {"threads", "3", "prefill_chunk", "33", NULL},
        {"cpu_isa", "generic", NULL}, {"cpu_isa", "avx2", NULL},    {"cpu_isa", "avx512", NULL},
        {"backend", "ref", NULL},
    };
    for (size_t i = 0; i < N_MODEL; i++) {
        all_logits(models[i], NULL, tokens, base);
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
            if (strcmp(variants[v][0], "cpu_isa") == 0 &&
                ((strcmp(variants[v][1], "avx2") == 0 && !cpu_isa_usable(CPU_AVX2)) ||
                 (strcmp(variants[v][1], "avx512") == 0 && !cpu_isa_usable(CPU_AVX512))))
                continue;
            memset(got, 0xFF, sizeof got);
            all_logits(models[i], variants[v], tokens, got);
            if (memcmp(base, got, sizeof got) != 0)
                fail_msg("%s: other bytes with %s=%s", models[i], variants[v][0], variants[v][1]);
        }
    }
}

/* Every prefix length, each reached from a cache that holds something else: longer, shorter, diverging at each page
 * ± 1. */
static void test_cache_contents(void **state)
{
    (void)state;
    struct glim_err e;
    int32_t tokens[N_TOKEN], other[N_TOKEN];
    make_tokens(tokens, N_TOKEN, 2);
    for (size_t i = 0; i < N_MODEL; i++) {
        all_logits(models[i], NULL, tokens, base);
        struct glim_model *m = open_model(models[i], NULL);
        struct glim_session *s = open_session(m);
        const float *logits;
        for (size_t cut = 1; cut < N_TOKEN; cut++) {
            size_t at = cut % KV_PAGE;
            if (at > 1 && at != KV_PAGE - 1)
                continue;
            make_tokens(other, N_TOKEN, 3);
            memcpy(other, tokens, cut * sizeof *tokens); /* share `cut` tokens, then differ */
            ok(glim_session_eval(s, other, N_TOKEN, &logits, &e), &e);
            ok(glim_session_eval(s, tokens, cut, &logits, &e), &e); /* step back */
            assert_memory_equal(logits, base + (cut - 1) * N_VOCAB, N_VOCAB * sizeof *logits);
            ok(glim_session_eval(s, tokens, N_TOKEN, &logits, &e), &e); /* and forward */
            assert_memory_equal(logits, base + (N_TOKEN - 1) * N_VOCAB, N_VOCAB * sizeof *logits);
            ok(glim_session_eval(s, tokens, N_TOKEN, &logits, &e), &e); /* a pure hit */
            assert_int_equal(glim_session_reused(s), N_TOKEN - 1);
            assert_memory_equal(logits, base + (N_TOKEN - 1) * N_VOCAB, N_VOCAB * sizeof *logits);
        }
        glim_session_free(s);
        glim_model_close(m);
    }
}

/* A ragged batch of four sequences, their spans in any order and of any size, equals each sequence alone, and few rows'
 * logits, which skip most of the last layer, equal all rows'. */
struct seq {
    int32_t tokens[N_TOKEN];
    uint32_t done;
};

/* Each span's last row, and the one before it where there are three: what a scheduler asks logits of. */
static uint32_t last_rows(const struct batch *b, uint32_t ask[8])
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < b->n_span; t++) {
        const struct span *s = &b->span[t];
        if (s->n > 2)
            ask[n++] = s->row + s->n - 2;
        ask[n++] = s->row + s->n - 1;
    }
    return n;
}

static void run_ragged(const struct glim_model *m, struct seq *seq, float *out[4], uint32_t rng)
{
    struct glim_err e;
    struct crew *crew;
    struct kv kv;
    struct forward f;
    enum { ROWS = 48 };
    struct kv_shape shape = {.n_slot = 4, .n_ctx = 128, .max_rows = ROWS, .type = m->kv_type, .poison = true};
    ok(crew_create(&crew, 2, &e), &e);
    ok(kv_create(&kv, &m->plan, m->be, &shape, &e), &e);
    ok(forward_create(&f, &m->plan, m->be, crew, ROWS, &e), &e);
    static float logits[ROWS * N_VOCAB];
    for (;;) {
        int32_t token[ROWS], pos[ROWS];
        struct span span[4];
        struct batch b = {.token = token, .pos = pos, .span = span};
        for (uint32_t k = 0; k < 4; k++) {
            rng = rng * 1664525u + 1013904223u;
            uint32_t q = (k + (rng >> 20)) % 4, left = N_TOKEN - seq[q].done, n = 1 + (rng >> 10) % 17;
            bool taken = false;
            for (uint32_t t = 0; t < b.n_span; t++)
                taken = taken || span[t].seq == q;
            n = n < left ? n : left;
            if (taken || n == 0 || b.n_row + n > ROWS)
                continue;
            ok(kv_reserve(&kv, q, n, &e), &e);
            span[b.n_span++] = (struct span){.row = b.n_row, .n = n, .pos = seq[q].done, .seq = q};
            for (uint32_t t = 0; t < n; t++, b.n_row++) {
                token[b.n_row] = seq[q].tokens[seq[q].done + t];
                pos[b.n_row] = (int32_t)(seq[q].done + t);
            }
        }
        if (b.n_row == 0) {
            bool all = true;
            for (uint32_t q = 0; q < 4; q++)
                all = all && seq[q].done == N_TOKEN;
            if (all)
                break;
            continue;
        }
        uint32_t ask[8], n_ask = last_rows(&b, ask);
        static float asked[8 * N_VOCAB];
        struct forward_job few = {.batch = &b, .kv = &kv, .logit_row = ask, .n_logit = n_ask, .logits = asked};
        ok(forward_run(&f, &few, &e), &e); /* the same positions again leave the same K and V */
        struct forward_job j = {.batch = &b, .kv = &kv, .n_logit = b.n_row, .logits = logits};
        ok(forward_run(&f, &j, &e), &e);
        for (uint32_t i = 0; i < n_ask; i++)
            assert_memory_equal(asked + i * N_VOCAB, logits + (size_t)ask[i] * N_VOCAB, N_VOCAB * sizeof *logits);
        ok(kv_check(&kv, NULL, &e), &e);
        for (uint32_t t = 0; t < b.n_span; t++) {
            struct seq *q = &seq[span[t].seq];
            memcpy(out[span[t].seq] + (size_t)q->done * N_VOCAB, logits + (size_t)span[t].row * N_VOCAB,
                   span[t].n * N_VOCAB * sizeof *logits);
            kv_advance(&kv, span[t].seq, span[t].n);
            q->done += span[t].n;
        }
    }
    forward_fini(&f);
    kv_fini(&kv);
    crew_free(crew);
}

static void test_batch_composition(void **state)
{
    (void)state;
    static float mine[4][N_TOKEN * N_VOCAB];
    float *out[4] = {mine[0], mine[1], mine[2], mine[3]};
    for (size_t i = 0; i < N_MODEL; i++) {
        struct glim_model *m = open_model(models[i], NULL);
        for (uint32_t round = 0; round < 3; round++) {
            struct seq seq[4] = {0};
            for (uint32_t q = 0; q < 4; q++)
                make_tokens(seq[q].tokens, N_TOKEN, 10 + q % 3); /* slots 0 and 3 hold the same text */
            memset(mine, 0xFF, sizeof mine);
            run_ragged(m, seq, out, 77 + round);
            for (uint32_t q = 0; q < 4; q++) {
                all_logits(models[i], NULL, seq[q].tokens, base);
                if (memcmp(base, mine[q], sizeof base) != 0)
                    fail_msg("%s: slot %u differs in company", models[i], q);
            }
        }
        glim_model_close(m);
    }
}

/* Greedy and seeded generation give the same ids whatever the chunk and threads, and a seed is worth something. */
static void generate(const char *path, const char *const *levers, float temperature, uint64_t seed, int32_t *out)
{
    struct glim_err e;
    struct glim_model *m = open_model(path, levers);
    struct glim_session *s = open_session(m);
    int32_t prompt[40];
    make_tokens(prompt, 40, 5);
    struct glim_request q = {
        .prompt = prompt, .n_prompt = 40, .max_tokens = 32, .sampling = glim_sampling_default(), .ignore_end = true};
    q.sampling.temperature = temperature;
    q.sampling.seed = seed;
    q.sampling.top_p = 0.95f;
    struct glim_result r;
    ok(glim_generate(s, &q, NULL, NULL, NULL, &r, &e), &e);
    assert_int_equal(r.n_token, 32);
    memcpy(out, r.tokens, 32 * sizeof *out);
    glim_result_fini(&r);
    glim_session_free(s);
    glim_model_close(m);
}

static void test_generation(void **state)
{
    (void)state;
    static const char *const a[] = {"threads", "1", "prefill_chunk", "1", NULL};
    static const char *const b[] = {"threads", "2", "prefill_chunk", "64", NULL};
    static const char *const g[] = {"cpu_isa", "generic", "prefill_chunk", "7", NULL};
    for (size_t i = 0; i < N_MODEL; i++) {
        int32_t x[32], y[32], z[32], other[32];
        for (int sampled = 0; sampled < 2; sampled++) {
            float t = sampled ? 1.0f : 0.0f;
            generate(models[i], a, t, 42, x);
            generate(models[i], b, t, 42, y);
            generate(models[i], g, t, 42, z);
            assert_memory_equal(x, y, sizeof x);
            assert_memory_equal(x, z, sizeof x);
        }
        generate(models[i], a, 1.0f, 43, other);
        assert_memory_not_equal(x, other, sizeof x);
    }
}

/* A decode step calls no allocator. */
static void test_decode_allocates_nothing(void **state)
{
    (void)state;
    struct glim_err e;
    struct glim_model *m = open_model(models[3], NULL);
    struct glim_session *s = open_session(m);
    int32_t tokens[N_TOKEN];
    const float *logits;
    make_tokens(tokens, N_TOKEN, 6);
    ok(glim_session_eval(s, tokens, 20, &logits, &e), &e);
    long before = mem_count();
    for (size_t n = 21; n <= N_TOKEN; n++)
        ok(glim_session_eval(s, tokens, n, &logits, &e), &e);
    assert_int_equal(mem_count(), before);
    glim_session_free(s);
    glim_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_threads_isa),       cmocka_unit_test(test_cache_contents),
        cmocka_unit_test(test_batch_composition),        cmocka_unit_test(test_generation),
        cmocka_unit_test(test_decode_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
