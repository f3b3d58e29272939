/* If this fails, an answer depends on what else the engine did: who else was served, in which order they came, what the
 * prefix cache held, who had to give way, how prompts were cut, or what a drafter guessed. Or an event is missing, or
 * pages are lost.
 *
 * With no argument it runs on small checkpoints of the test data; with a model's path, on that. Each request is
 * answered by a session first; every condition must repeat that byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "run/engine.h"
#include "run/run.h"

#include <string.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SLOW 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1
#endif
#ifdef SLOW
enum { N_REQUEST = 60 };
#else
enum { N_REQUEST = 200 };
#endif
enum { N_BASE = 4, BASE = 120, PROMPT_MAX = 400, CTX = 512 };

static const char *const small[] = {
    TEST_DATA "/hf/llama",
    TEST_DATA "/hf/qwen3",
    TEST_DATA "/hf/gemma3_text", /* windows of 16 tokens */
    TEST_DATA "/gguf/llama_q.Q4_K_M.gguf",
};
static const char *const *models = small;
static size_t n_model = sizeof small / sizeof *small;

struct want {
    int32_t prompt[PROMPT_MAX];
    struct glim_request q;
    int32_t n_logprob, n_prompt_logprob;
    enum glim_pooling pool;
    /* the session's answer */
    int32_t *tokens;
    size_t n_token;
    char *text;
    size_t n_text;
    enum glim_finish finish;
    /* everything else, as the first condition had it */
    struct str rest;
};
static struct want want[N_REQUEST];

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

static uint32_t rnd(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

/* Levers as "key", "value", …, NULL. */
static struct glim_model *open_model(const char *path, const char *const *levers)
{
    struct glim_err e;
    struct glim_config *c;
    struct glim_model *m;
    ok(glim_config_create(&c, &e), &e);
    ok(glim_config_set(c, "kv_poison", "on", &e), &e);
    ok(glim_config_set(c, "threads", "2", &e), &e);
    ok(glim_config_set(c, "ctx", "512", &e), &e);
    for (; levers && *levers; levers += 2)
        ok(glim_config_set(c, levers[0], levers[1], &e), &e);
    ok(glim_model_open(&m, path, c, NULL, NULL, &e), &e);
    glim_config_free(c);
    return m;
}

/* ---- requests ---- */

/* Beginnings that many prompts share, in every length around the borders of pages, with loops for drafters to find. */
static void make_prompt(struct want *w, uint32_t i, int32_t base[N_BASE][BASE], uint32_t n_vocab, uint32_t *x)
{
    static const uint32_t border[] = {15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 80, 81, 111, 112, 113};
    uint32_t shared = border[i % (sizeof border / sizeof *border)], tail = i % 7 == 0 ? 0 : rnd(x) % 40;
    if (i % 23 == 0)
        tail = 200 + rnd(x) % 80;
    memcpy(w->prompt, base[i % N_BASE], shared * sizeof *w->prompt);
    for (uint32_t k = 0; k < tail; k++)
        w->prompt[shared + k] = k >= 10 && i % 3 == 0 ? w->prompt[shared + k - 10] : (int32_t)(rnd(x) % n_vocab);
    w->q.prompt = w->prompt;
    w->q.n_prompt = shared + tail;
}

static void make_requests(uint32_t n_vocab)
{
    static int32_t base[N_BASE][BASE];
    static const char *const stop[] = {"e", "th"};
    static struct glim_bias bias[] = {{5, 2.0f}, {9, -1.5f}};
    uint32_t x = 77;
    for (uint32_t b = 0; b < N_BASE; b++)
        for (uint32_t k = 0; k < BASE; k++)
            base[b][k] = (int32_t)(rnd(&x) % n_vocab);
    for (uint32_t i = 0; i < N_REQUEST; i++) {
        struct want *w = &want[i];
        struct glim_sampling *s = &w->q.sampling;
        *w = (struct want){.n_logprob = -1, .n_prompt_logprob = -1};
        make_prompt(w, i, base, n_vocab, &x);
        *s = glim_sampling_default();
        w->q.max_tokens = i % 8 == 3 ? 120 : 1 + rnd(&x) % 24;
        w->q.ignore_end = i % 4 != 1;
        if (i % 2) {
            s->temperature = 0.8f;
            s->seed = 1000 + i;
            s->top_p = i % 6 == 1 ? 0.9f : 1.0f;
        }
        if (i % 5 == 2)
            s->repeat_penalty = 1.2f;
        if (i % 11 == 3) {
            s->bias = bias;
            s->n_bias = 2;
        }
        if (i % 9 == 4) {
            w->q.stop = stop;
            w->q.n_stop = 2;
        }
        w->n_logprob = i % 8 == 5 ? 3 : -1;
        w->n_prompt_logprob = i % 13 == 6 ? 2 : -1;
        w->pool = i % 17 == 7 ? (enum glim_pooling)(1 + i % 3) : GLIM_POOL_NONE;
        if (w->pool != GLIM_POOL_NONE)
            w->n_prompt_logprob = -1;
    }
}

static void answer_alone(const struct glim_model *m, struct glim_grammar *g)
{
    struct glim_err e;
    struct glim_session *s;
    ok(glim_session_create(&s, m, CTX, &e), &e);
    for (uint32_t i = 0; i < N_REQUEST; i++) {
        struct want *w = &want[i];
        struct glim_result r;
        if (g && i % 10 == 8 && w->pool == GLIM_POOL_NONE) {
            w->q.grammar = g;
            w->q.ignore_end = false;
        }
        if (w->pool != GLIM_POOL_NONE)
            continue;
        ok(glim_generate(s, &w->q, NULL, NULL, NULL, &r, &e), &e);
        w->tokens = r.tokens;
        w->n_token = r.n_token;
        w->text = r.text;
        w->n_text = r.n_text;
        w->finish = r.finish;
    }
    glim_session_free(s);
}

static void forget_answers(void)
{
    for (uint32_t i = 0; i < N_REQUEST; i++) {
        mem_free(want[i].tokens);
        mem_free(want[i].text);
        str_fini(&want[i].rest);
    }
}

/* ---- what the engine says ---- */

struct hall;
struct got {
    struct hall *hall;
    const struct want *w;
    int32_t tokens[128];
    size_t n_token, n_prompt_event;
    struct str text, rest;
    enum glim_finish finish;
    bool over, failed;
    struct glim_usage usage;
};
struct hall { /* answers under way */
    pthread_mutex_t lock;
    pthread_cond_t done;
    uint32_t left;
    struct got got[N_REQUEST];
};

static void on_event(void *user, const struct glim_event *ev)
{
    struct got *g = user;
    if (g->over || g->failed)
        fail_msg("an event after the last");
    switch (ev->kind) {
    case GLIM_EVENT_PROMPT:
        g->n_prompt_event++;
        str_add(&g->rest, (const char *)ev->logprob, ev->n_logprob * sizeof *ev->logprob);
        break;
    case GLIM_EVENT_TOKEN:
        g->tokens[g->n_token++] = ev->token;
        str_add(&g->text, ev->text, ev->n_text);
        str_add(&g->rest, (const char *)ev->logprob, ev->n_logprob * sizeof *ev->logprob);
        break;
    case GLIM_EVENT_EMBEDDING:
        str_add(&g->rest, (const char *)ev->embedding, ev->n_embedding * sizeof *ev->embedding);
        break;
    case GLIM_EVENT_ERROR:
        g->failed = true;
        print_error("%s\n", ev->err.message);
        break;
    case GLIM_EVENT_DONE:
        str_add(&g->text, ev->text, ev->n_text);
        g->finish = ev->finish;
        g->usage = ev->usage;
        g->over = true;
        break;
    }
    if (!g->over && !g->failed)
        return;
    pthread_mutex_lock(&g->hall->lock);
    g->hall->left--;
    pthread_cond_signal(&g->hall->done);
    pthread_mutex_unlock(&g->hall->lock);
}

/* Ask for all of them, in the order that `by` steps through, and compare. first: there is nothing yet to compare the
 * rest with. */
static void ask_all(struct glim_engine *g, const char *what, uint32_t by, bool first)
{
    static struct hall h;
    struct glim_err e;
    h.left = N_REQUEST;
    for (uint32_t k = 0; k < N_REQUEST; k++) {
        uint32_t i = k * by % N_REQUEST;
        struct want *w = &want[i];
        uint64_t id;
        h.got[i] = (struct got){.hall = &h, .w = w};
        struct glim_task t = {.request = w->q,
                              .priority = (int32_t)(i % 3),
                              .n_logprob = w->n_logprob,
                              .n_prompt_logprob = w->n_prompt_logprob,
                              .pool = w->pool,
                              .turn = i % 2 ? 40 : 0,
                              .no_cache = i % 29 == 0,
                              .on_event = on_event,
                              .user = &h.got[i]};
        ok(glim_engine_submit(g, &t, &id, &e), &e);
    }
    pthread_mutex_lock(&h.lock);
    while (h.left)
        pthread_cond_wait(&h.done, &h.lock);
    pthread_mutex_unlock(&h.lock);
    for (uint32_t i = 0; i < N_REQUEST; i++) {
        struct want *w = &want[i];
        struct got *a = &h.got[i];
        bool same = a->n_token == w->n_token && a->text.n == w->n_text && !a->failed;
        if (same && w->n_token)
            same = memcmp(a->tokens, w->tokens, w->n_token * sizeof *w->tokens) == 0;
        if (same && w->n_text)
            same = memcmp(a->text.s, w->text, w->n_text) == 0;
        if (w->pool == GLIM_POOL_NONE && (!same || a->finish != w->finish))
            fail_msg("%s: request %u (prompt %zu): another answer than alone: %zu tokens for %zu, ended by %d for %d",
                     what, i, w->q.n_prompt, a->n_token, w->n_token, a->finish, w->finish);
        assert_true(a->n_prompt_event >= 2);
        if (first) {
            w->rest = a->rest;
            a->rest = (struct str){0};
        } else if (a->rest.n != w->rest.n || (w->rest.n && memcmp(a->rest.s, w->rest.s, w->rest.n) != 0)) {
            fail_msg("%s: request %u: other logprobs or another embedding than alone", what, i);
        }
        str_fini(&a->text);
        str_fini(&a->rest);
    }
}

static uint64_t counter(const struct glim_engine *g, enum metric m)
{
    static struct metrics_view v;
    metrics_read(&v, run_engine_metrics(g));
    return v.of[m].count;
}

/* ---- conditions ---- */

struct condition {
    const char *name;
    const char *levers[16];
    enum metric must; /* this counter is above 0 afterwards */
};
static const struct condition conditions[] = {
    {"alone", {"n_seq", "1", "prefix_cache", "off"}, METRIC_STEPS},
    {"alone, cached", {"n_seq", "1"}, METRIC_CACHE_HIT_TOKENS},
    {"with 31 others", {"n_seq", "32"}, METRIC_CACHE_HIT_TOKENS},
    {"with 5 others, chunks of 7", {"n_seq", "6", "prefill_chunk", "7"}, METRIC_CACHE_HIT_TOKENS},
    {"drafted", {"n_seq", "8", "draft", "ngram"}, METRIC_DRAFT_ACCEPTED},
    {"drafted, alone", {"n_seq", "1", "draft", "ngram", "draft_max", "3", "threads", "1"}, METRIC_DRAFT_ACCEPTED},
    {"giving way", {"n_seq", "24", "overcommit", "on", "kv_size", "SMALL", "draft", "ngram"}, METRIC_PREEMPTIONS},
    {"steps of 1 ms", {"n_seq", "16", "step_ms", "1"}, METRIC_CACHE_HIT_TOKENS},
    {"steps of 1 s", {"n_seq", "16", "step_ms", "1000"}, METRIC_CACHE_HIT_TOKENS},
};

/* The levers, with SMALL as the bytes of one context. */
static void with_small(const struct glim_model *m, const struct condition *c, const char *levers[17])
{
    static char bytes[32];
    struct kv_shape s = session_shape(&m->lv, m->kv_type, CTX, 24);
    struct mem_plan mp = {0};
    struct glim_err e;
    s.max_rows = 512;
    s.n_window = 48;
    s.n_token = CTX;
    ok(kv_plan(&m->plan, m->be, &s, &mp, &e), &e);
    snprintf(bytes, sizeof bytes, "%zu", mem_plan_total(&mp));
    mem_plan_free(&mp);
    memcpy(levers, c->levers, sizeof c->levers);
    levers[16] = NULL;
    for (size_t i = 0; i < 16; i++)
        if (levers[i] && strcmp(levers[i], "SMALL") == 0)
            levers[i] = bytes;
}

static void everybody_gets_the_answer_they_have_alone(void **state)
{
    (void)state;
#ifdef SLOW
    n_model -= models == small; /* the quantised one: kernels have no more to show here */
#endif
    for (size_t i = 0; i < n_model; i++) {
        struct glim_model *m = open_model(models[i], NULL);
        struct glim_err e;
        struct glim_grammar *gr = NULL;
        static const char text[] = "root ::= [a-z ]{3,40} \"ing\"";
        make_requests(glim_model_info(m)->n_vocab);
        if (tok_n(m->tok) > 0 && models != small)
            ok(glim_grammar_gbnf(&gr, m, text, sizeof text - 1, &e), &e);
        answer_alone(m, gr);
        for (size_t c = 0; c < sizeof conditions / sizeof *conditions; c++) {
            const char *levers[17];
            if (models != small && c > 0 && strcmp(conditions[c].levers[1], "1") == 0)
                continue; /* one sequence at a time takes a real model minutes */
            with_small(m, &conditions[c], levers);
            struct glim_model *mc = open_model(models[i], levers);
            struct glim_engine *g;
            char what[200];
            ok(glim_engine_create(&g, mc, &e), &e);
            for (uint32_t k = 0; k < N_REQUEST; k++) /* its vocabulary is the same */
                want[k].q.grammar = want[k].q.grammar ? gr : NULL;
            snprintf(what, sizeof what, "%s, %s", models[i], conditions[c].name);
            if (c == 0 || models == small) /* others pay seconds for it */
                ask_all(g, what, 1, c == 0);
            snprintf(what, sizeof what, "%s, %s, in another order", models[i], conditions[c].name);
            ask_all(g, what, 77, false);
            if (conditions[c].must != METRIC_PREEMPTIONS || g->prefix.full >= 0)
                if (counter(g, conditions[c].must) == 0)
                    fail_msg("%s: %s: have 0, need some", what, metric_info(conditions[c].must)->name);
            assert_int_equal(g->n_queued, 0);
            glim_engine_free(g, 10);
            glim_model_close(mc);
        }
        forget_answers();
        glim_grammar_free(gr);
        glim_model_close(m);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everybody_gets_the_answer_they_have_alone)};
    if (argc > 1) {
        models = (const char *const *)(argv + 1);
        n_model = (size_t)argc - 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
