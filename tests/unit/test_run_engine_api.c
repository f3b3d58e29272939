/* If this fails, a request that is cancelled, late, refused or one of many harms itself or others: an event is missing
 * or comes twice, pages or memory are lost, an embedding or a logprob is wrong, or the engine does not stop.
 *
 * `test_run_engine_api soak SECONDS` storms for that long and prints the resident memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "run/engine.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SLOW 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 1
#endif
#ifdef SLOW
enum { N_STORM = 600 };
#else
enum { N_STORM = 10000 };
#endif
enum { N_VOCAB = 320, MANY = 64 };

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

static struct glim_model *open_model(const char *path, const char *const *levers)
{
    struct glim_err e;
    struct glim_config *c;
    struct glim_model *m;
    ok(glim_config_create(&c, &e), &e);
    ok(glim_config_set(c, "kv_poison", "on", &e), &e);
    ok(glim_config_set(c, "threads", "2", &e), &e);
    ok(glim_config_set(c, "ctx", "256", &e), &e);
    for (; levers && *levers; levers += 2)
        ok(glim_config_set(c, levers[0], levers[1], &e), &e);
    ok(glim_model_open(&m, path, c, NULL, NULL, &e), &e);
    glim_config_free(c);
    return m;
}

static struct glim_engine *open_engine(const struct glim_model *m)
{
    struct glim_err e;
    struct glim_engine *g;
    ok(glim_engine_create(&g, m, &e), &e);
    return g;
}

/* ---- what was heard of a task ---- */

struct heard {
    pthread_mutex_t lock;
    pthread_cond_t news;
    uint32_t n_answer, n_over;
    struct {
        int32_t tokens[256];
        size_t n_token;
        bool over;
    } answer[MANY];
    enum glim_finish finish; /* of the last that ended */
    bool failed;
    struct glim_err err;
    struct glim_usage usage;
    struct str rest; /* logprobs or embedding */
    size_t n_prompt, last_prompt;
    size_t rest_at; /* after so many tokens the engine is kept waiting, so that others can act before the end */
    struct glim_engine *cancels; /* cancel the task at the n-th event, from the callback */
    uint32_t cancel_at, n_event;
};

static void heard_init(struct heard *h, uint32_t n)
{
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->news, NULL);
    h->n_answer = n;
}

static void on_event(void *user, const struct glim_event *ev)
{
    struct heard *h = user;
    pthread_mutex_lock(&h->lock);
    assert_true(ev->answer < h->n_answer);
    assert_false(h->answer[ev->answer].over);
    switch (ev->kind) {
    case GLIM_EVENT_PROMPT:
        assert_true(ev->done <= ev->total);
        h->n_prompt++;
        h->last_prompt = ev->done;
        str_add(&h->rest, (const char *)ev->logprob, ev->n_logprob * sizeof *ev->logprob);
        break;
    case GLIM_EVENT_TOKEN:
        h->answer[ev->answer].tokens[h->answer[ev->answer].n_token++] = ev->token;
        str_add(&h->rest, (const char *)ev->logprob, ev->n_logprob * sizeof *ev->logprob);
        break;
    case GLIM_EVENT_EMBEDDING:
        str_add(&h->rest, (const char *)ev->embedding, ev->n_embedding * sizeof *ev->embedding);
        break;
    case GLIM_EVENT_ERROR:
        h->failed = true;
        h->err = ev->err;
        h->answer[ev->answer].over = true;
        h->n_over++;
        break;
    case GLIM_EVENT_DONE:
        h->finish = ev->finish;
        h->usage = ev->usage;
        h->answer[ev->answer].over = true;
        h->n_over++;
        break;
    }
    bool rest = ev->kind == GLIM_EVENT_TOKEN && h->rest_at && h->answer[ev->answer].n_token == h->rest_at;
    struct glim_engine *cancels = h->cancels && ++h->n_event == h->cancel_at ? h->cancels : NULL;
    pthread_cond_broadcast(&h->news);
    pthread_mutex_unlock(&h->lock);
    if (rest)
        usleep(300000);
    if (cancels) /* h may be another's by now */
        glim_engine_cancel(cancels, ev->id);
}

static void wait_over(struct heard *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->n_over < h->n_answer)
        pthread_cond_wait(&h->news, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void wait_tokens(struct heard *h, size_t n)
{
    pthread_mutex_lock(&h->lock);
    while (h->answer[0].n_token < n)
        pthread_cond_wait(&h->news, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void heard_fini(struct heard *h)
{
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->news);
    str_fini(&h->rest);
}

static int32_t prompt[200];
static struct glim_task task(struct heard *h, size_t n_prompt, uint32_t max)
{
    for (size_t i = 0; i < sizeof prompt / sizeof *prompt; i++)
        prompt[i] = (int32_t)(7 + i * i * 31 % 300);
    return (struct glim_task){.request = {.prompt = prompt,
                                          .n_prompt = n_prompt,
                                          .max_tokens = max,
                                          .sampling = glim_sampling_default(),
                                          .ignore_end = true},
                              .n_logprob = -1,
                              .n_prompt_logprob = -1,
                              .on_event = on_event,
                              .user = h};
}

static void submit(struct glim_engine *g, const struct glim_task *t, uint64_t *id)
{
    struct glim_err e;
    ok(glim_engine_submit(g, t, id, &e), &e);
    assert_true(*id != 0);
}

/* ---- one by one ---- */

static void answers_to_one_prompt_share_it(void **state)
{
    (void)state;
    static const char *const levers[] = {"n_seq", "4", NULL};
    struct glim_model *m = open_model(TEST_DATA "/hf/llama", levers);
    struct glim_engine *g = open_engine(m);
    struct glim_err e;
    struct heard h, alone;
    uint64_t id;
    heard_init(&h, 6);
    struct glim_task t = task(&h, 100, 12);
    t.n_answer = 6;
    t.request.sampling.temperature = 1;
    t.request.sampling.seed = 40;
    submit(g, &t, &id);
    wait_over(&h);
    struct metrics_view *v = mem_calloc(1, sizeof *v);
    metrics_read(v, run_engine_metrics(g));
    assert_true(v->of[METRIC_CACHE_HIT_TOKENS].count >= 5 * 96); /* whole pages at least */
    mem_free(v);
    for (uint32_t i = 0; i < 6; i++) { /* answer i is that of seed + i */
        heard_init(&alone, 1);
        struct glim_task one = task(&alone, 100, 12);
        one.request.sampling.temperature = 1;
        one.request.sampling.seed = 40 + i;
        one.no_cache = true;
        submit(g, &one, &id);
        wait_over(&alone);
        assert_int_equal(alone.answer[0].n_token, 12);
        assert_memory_equal(alone.answer[0].tokens, h.answer[i].tokens, 12 * sizeof(int32_t));
        heard_fini(&alone);
    }
    t.n_answer = 1000;
    assert_int_equal(glim_engine_submit(g, &t, &id, &e), GLIM_REFUSED);
    heard_fini(&h);
    glim_engine_free(g, 0);
    glim_model_close(m);
}

static void what_cannot_run_is_refused_at_once(void **state)
{
    (void)state;
    static const char *const levers[] = {"n_seq", "2", "queue", "3", NULL};
    struct glim_model *m = open_model(TEST_DATA "/hf/llama", levers);
    struct glim_engine *g = open_engine(m);
    struct glim_err e;
    struct heard h[6];
    uint64_t id;
    heard_init(&h[0], 1);
    const struct {
        struct glim_task t;
        glim_status want;
        const char *says;
    } bad[] = {
        {task(&h[0], 0, 1), GLIM_USAGE, "prompt"},
        {task(&h[0], 100, 200), GLIM_REFUSED, "context"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(glim_engine_submit(g, &bad[i].t, &id, &e), bad[i].want);
        assert_non_null(strstr(e.message, bad[i].says));
    }
    struct glim_task t = task(&h[0], 5, 2);
    t.adapter = 1;
    assert_int_equal(glim_engine_submit(g, &t, &id, &e), GLIM_REFUSED);
    t = task(&h[0], 5, 2);
    t.n_logprob = 21;
    assert_int_equal(glim_engine_submit(g, &t, &id, &e), GLIM_USAGE);
    t = task(&h[0], 5, 2);
    t.deadline_s = -1;
    assert_int_equal(glim_engine_submit(g, &t, &id, &e), GLIM_USAGE);
    t = task(&h[0], 5, 2);
    t.priority = 101;
    assert_int_equal(glim_engine_submit(g, &t, &id, &e), GLIM_USAGE);
    t = task(&h[0], 5, 2);
    prompt[3] = N_VOCAB;
    assert_int_equal(glim_engine_submit(g, &t, &id, &e), GLIM_REFUSED);
    heard_fini(&h[0]);

    /* Two in work, three wait, and the next is told to come back. */
    glim_status st = GLIM_OK;
    size_t n = 0;
    for (; n < 6 && st == GLIM_OK; n++) {
        heard_init(&h[n], 1);
        h[n].rest_at = n < 2; /* no answer ends meanwhile */
        t = task(&h[n], 150, 100);
        st = glim_engine_submit(g, &t, &id, &e);
        if (n < 2)
            wait_tokens(&h[n], 1);
    }
    assert_int_equal(st, GLIM_BUSY);
    assert_int_equal(n, 6);
    assert_non_null(strstr(e.message, "have 3 answers waiting, need at most 2: try again in "));
    for (size_t i = 0; i < 5; i++) {
        wait_over(&h[i]);
        assert_int_equal(h[i].finish, GLIM_FINISH_LENGTH);
        heard_fini(&h[i]);
    }
    heard_fini(&h[5]);
    glim_engine_free(g, 0);
    glim_model_close(m);
}

static void the_late_and_the_cancelled_end_and_others_do_not(void **state)
{
    (void)state;
    static const char *const levers[] = {"n_seq", "2", NULL};
    struct glim_model *m = open_model(TEST_DATA "/hf/gemma3_text", levers);
    struct glim_engine *g = open_engine(m);
    struct heard h[4];
    uint64_t id[4];
    for (int i = 0; i < 4; i++) {
        heard_init(&h[i], i == 3 ? 3 : 1);
        h[i].rest_at = i == 0 ? 3 : 0;
        struct glim_task t = task(&h[i], 20 + (size_t)i, 200);
        if (i == 1)
            t.deadline_s = 1e-9;
        if (i == 3)
            t.n_answer = 3;
        submit(g, &t, &id[i]);
    }
    wait_tokens(&h[0], 3);
    glim_engine_cancel(g, id[0]);
    glim_engine_cancel(g, id[3]); /* waits, or has just begun */
    glim_engine_cancel(g, 0);
    glim_engine_cancel(g, 123456);
    for (int i = 0; i < 4; i++)
        wait_over(&h[i]);
    assert_int_equal(h[0].finish, GLIM_FINISH_CANCELLED);
    assert_true(h[0].answer[0].n_token >= 3 && h[0].answer[0].n_token < 200);
    assert_int_equal(h[0].usage.n_token, h[0].answer[0].n_token);
    assert_int_equal(h[1].finish, GLIM_FINISH_DEADLINE);
    assert_int_equal(h[2].finish, GLIM_FINISH_LENGTH);
    assert_int_equal(h[2].answer[0].n_token, 200);
    assert_int_equal(h[3].finish, GLIM_FINISH_CANCELLED);
    for (int i = 0; i < 4; i++)
        heard_fini(&h[i]);
    glim_engine_free(g, 0);
    glim_model_close(m);
}

static void the_end_waits_for_work_or_cuts_it(void **state)
{
    (void)state;
    struct glim_model *m = open_model(TEST_DATA "/hf/llama", NULL);
    for (int cut = 0; cut < 2; cut++) {
        struct glim_engine *g = open_engine(m);
        struct heard h;
        uint64_t id;
        heard_init(&h, 1);
        h.rest_at = (size_t)cut;
        struct glim_task t = task(&h, 20, 230);
        submit(g, &t, &id);
        wait_tokens(&h, 1);
        glim_engine_free(g, cut ? 0 : 60);
        assert_int_equal(h.n_over, 1);
        assert_int_equal(h.finish, cut ? GLIM_FINISH_CANCELLED : GLIM_FINISH_LENGTH);
        assert_true(cut ? h.answer[0].n_token < 230 : h.answer[0].n_token == 230);
        heard_fini(&h);
    }
    glim_model_close(m);
}

/* ---- numbers ---- */

static double logprob_of(const float *logits, int32_t token)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < N_VOCAB; i++)
        max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < N_VOCAB; i++)
        sum += exp((double)logits[i] - max);
    return (double)logits[token] - max - log(sum);
}

static void logprobs_are_those_of_the_logits(void **state)
{
    (void)state;
    enum { N = 70, MAX = 9, TOP = 4 };
    static const char *const levers[] = {"n_seq", "2", "prefill_chunk", "24", NULL};
    struct glim_model *m = open_model(TEST_DATA "/hf/qwen3", levers);
    struct glim_engine *g = open_engine(m);
    struct glim_session *s;
    struct glim_err e;
    struct heard h;
    static float logits[N + MAX][N_VOCAB];
    int32_t all[N + MAX];
    uint64_t id;
    heard_init(&h, 1);
    struct glim_task t = task(&h, N, MAX);
    t.n_logprob = t.n_prompt_logprob = TOP;
    submit(g, &t, &id);
    wait_over(&h);
    assert_int_equal(h.answer[0].n_token, MAX);
    memcpy(all, prompt, N * sizeof *all);
    memcpy(all + N, h.answer[0].tokens, MAX * sizeof *all);
    ok(glim_session_create(&s, m, 256, &e), &e);
    ok(glim_session_eval_all(s, all, N + MAX, logits[0], &e), &e);
    const struct glim_logprob *p = (const struct glim_logprob *)h.rest.s;
    assert_int_equal(h.rest.n, (N - 1 + MAX) * (1 + TOP) * sizeof *p);
    for (size_t i = 0; i + 1 < N + MAX; i++, p += 1 + TOP) {
        assert_int_equal(p->token, all[i + 1]);
        for (size_t k = 0; k <= TOP; k++)
            assert_true(fabs((double)p[k].logprob - logprob_of(logits[i], p[k].token)) < 2e-5);
        for (size_t k = 2; k <= TOP; k++)
            assert_true(p[k].logprob <= p[k - 1].logprob);
        for (int v = 0; v < N_VOCAB; v++) /* none is likelier than the likeliest */
            assert_true(logits[i][v] <= logits[i][p[1].token]);
    }
    heard_fini(&h);
    heard_init(&h, 1);
    t = task(&h, N, 0);
    t.n_prompt_logprob = TOP;
    t.prompt_only = true;
    submit(g, &t, &id);
    wait_over(&h);
    assert_int_equal(h.answer[0].n_token, 0);
    assert_int_equal(h.rest.n, (N - 1) * (1 + TOP) * sizeof *p);
    heard_fini(&h);
    glim_session_free(s);
    glim_engine_free(g, 0);
    glim_model_close(m);
}

static void embeddings_are_pooled_states_of_length_1(void **state)
{
    (void)state;
    enum { N = 50 };
    static const char *const levers[] = {"prefill_chunk", "16", NULL};
    struct glim_model *m = open_model(TEST_DATA "/hf/llama", levers);
    struct glim_engine *g = open_engine(m);
    struct glim_session *s;
    struct glim_err e;
    uint32_t dim = m->plan.dim, n_layer = m->plan.n_layer;
    float *hidden = mem_calloc((size_t)n_layer * N * dim, sizeof *hidden);
    double *want = mem_calloc(dim, sizeof *want);
    ok(glim_session_create(&s, m, 256, &e), &e);
    for (int pool = GLIM_POOL_MEAN; pool <= GLIM_POOL_CLS; pool++) {
        struct heard h;
        uint64_t id;
        heard_init(&h, 1);
        struct glim_task t = task(&h, N, 0);
        t.pool = (enum glim_pooling)pool;
        submit(g, &t, &id);
        wait_over(&h);
        assert_false(h.failed);
        ok(run_trace(s, prompt, N, hidden, &e), &e);
        double length = 0, got_length = 0, worst = 0;
        memset(want, 0, dim * sizeof *want);
        for (uint32_t r = 0; r < N; r++) {
            const float *x = hidden + ((size_t)(n_layer - 1) * N + r) * dim;
            double sum = 0;
            for (uint32_t k = 0; k < dim; k++)
                sum += (double)x[k] * x[k];
            double scale = 1 / sqrt(sum / dim + (double)m->plan.final_eps);
            if (pool == GLIM_POOL_MEAN || r == (pool == GLIM_POOL_CLS ? 0 : N - 1))
                for (uint32_t k = 0; k < dim; k++)
                    want[k] += (double)x[k] * scale * (double)m->plan.final_norm[k];
        }
        for (uint32_t k = 0; k < dim; k++)
            length += want[k] * want[k];
        const float *got = (const float *)h.rest.s;
        assert_int_equal(h.rest.n, dim * sizeof *got);
        for (uint32_t k = 0; k < dim; k++) {
            got_length += (double)got[k] * got[k];
            worst = fmax(worst, fabs((double)got[k] - want[k] / sqrt(length)));
        }
        assert_true(fabs(got_length - 1) < 1e-5);
        assert_true(worst < 1e-5);
        heard_fini(&h);
    }
    mem_free(want);
    mem_free(hidden);
    glim_session_free(s);
    glim_engine_free(g, 0);
    glim_model_close(m);
}

/* ---- storms ---- */

static size_t resident(void)
{
    unsigned long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &size, &pages), 2);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* N_STORM requests, most of them cancelled at a random event or right after they were asked. */
static void storm(struct glim_engine *g, uint32_t n, uint32_t seed)
{
    enum { AT_ONCE = 24 };
    static struct heard h[AT_ONCE];
    uint32_t x = seed;
    for (uint32_t from = 0; from < n; from += AT_ONCE) {
        uint64_t id[AT_ONCE];
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            x = x * 1664525u + 1013904223u;
            uint32_t r = x >> 8;
            heard_init(&h[i], 1 + (r % 16 == 0));
            struct glim_task t = task(&h[i], 1 + r % 120, 1 + r / 128 % 16);
            t.n_answer = h[i].n_answer;
            t.request.sampling.temperature = 1;
            t.request.sampling.seed = r;
            t.n_prompt_logprob = r % 5 == 1 ? 1 : -1;
            t.priority = (int32_t)(r % 3);
            if (r % 4 != 3) {
                h[i].cancels = g;
                h[i].cancel_at = 1 + r / 16 % 8;
            }
            submit(g, &t, &id[i]);
            if (r % 7 == 0)
                glim_engine_cancel(g, id[i]);
        }
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            wait_over(&h[i]);
            assert_false(h[i].failed);
            heard_fini(&h[i]);
        }
    }
}

static void a_storm_of_cancels_leaves_nothing_behind(void **state)
{
    (void)state;
    static const char *const levers[] = {"n_seq",   "6", "prefill_chunk", "32",    "overcommit", "on",
                                         "step_ms", "1", "draft",         "ngram", NULL};
    static const char *const paths[] = {TEST_DATA "/hf/llama", TEST_DATA "/hf/gemma3_text"};
    for (size_t k = 0; k < 2; k++) {
        struct glim_model *m = open_model(paths[k], levers);
        struct glim_engine *g = open_engine(m);
        struct glim_err e;
        storm(g, N_STORM / 4, 1);
        size_t before = resident();
        long tasks = mem_count();
        storm(g, N_STORM, 2);
        assert_true(mem_count() > tasks);
        pthread_mutex_lock(&g->lock);
        while (g->task || g->in)
            pthread_cond_wait(&g->idle, &g->lock);
        pthread_mutex_unlock(&g->lock);
        assert_int_equal(g->n_queued, 0);
        assert_int_equal(g->sched.n_run, 0);
        ok(sched_check(&g->sched, &e), &e);
        for (uint32_t i = 0; i < m->plan.n_group; i++) { /* all that is not free is in the cache, and can go */
            assert_int_equal(g->kv.group[i].n_free + g->prefix.n_page[i], g->kv.group[i].n_page);
        }
#ifndef SLOW
        assert_true(resident() < before + (2u << 20));
#else
        (void)before;
#endif
        glim_engine_free(g, 0);
        glim_model_close(m);
    }
}

/* Resident memory stays where it was after the first tenth of the time. */
static int soak(double seconds)
{
    static const char *const levers[] = {"n_seq", "6",     "prefill_chunk", "32", "overcommit",
                                         "on",    "draft", "ngram",         NULL};
    struct glim_model *m = open_model(TEST_DATA "/hf/gemma3_text", levers);
    struct glim_engine *g = open_engine(m);
    double begin = engine_now(), told = begin;
    size_t before = 0, n = 0;
    for (uint32_t seed = 1; engine_now() - begin < seconds; seed++, n += 240) {
        storm(g, 240, seed);
        if (before == 0 && engine_now() - begin > seconds / 10)
            before = resident();
        if (engine_now() - told > 30) {
            told = engine_now();
            printf("%4.0f s  %zu requests  %zu KiB\n", told - begin, n, resident() / 1024);
        }
    }
    size_t after = resident();
    printf("%zu requests, %zu KiB after a tenth of the time, %zu KiB at the end\n", n, before / 1024, after / 1024);
    glim_engine_free(g, 0);
    glim_model_close(m);
    return after <= before + before / 100 ? 0 : 1;
}

static void lack_of_memory_is_an_error(void **state)
{
    (void)state;
    static const char *const levers[] = {"n_seq", "2", "draft", "ngram", NULL};
    struct glim_model *m = open_model(TEST_DATA "/hf/llama", levers);
    struct glim_err e;
    struct glim_engine *g = NULL;
    glim_status st = GLIM_FAILED;
    for (long n = 1; st != GLIM_OK; n++) {
        mem_fail_after(n);
        st = glim_engine_create(&g, m, &e);
        mem_fail_after(0);
        assert_true(st == GLIM_OK || g == NULL);
        assert_true(n < 500);
    }
    struct heard h;
    uint64_t id;
    heard_init(&h, 2);
    struct glim_task t = task(&h, 30, 4);
    t.n_answer = 2;
    t.n_prompt_logprob = 1;
    st = GLIM_FAILED;
    for (long n = 1; st != GLIM_OK; n++) {
        mem_fail_after(n);
        st = glim_engine_submit(g, &t, &id, &e);
        mem_fail_after(0);
        assert_true(n < 500);
    }
    wait_over(&h);
    heard_fini(&h);
    glim_engine_free(g, 0);
    glim_model_close(m);
}

static void lack_of_memory_at_work_ends_answers_and_nothing_else(void **state)
{
    (void)state;
    static const char *const levers[] = {"n_seq", "3", "draft", "ngram", NULL};
    struct glim_model *m = open_model(TEST_DATA "/hf/llama", levers);
    struct glim_engine *g = open_engine(m);
    struct heard h[3], first;
    uint32_t failed = 0;
    uint64_t id;
    heard_init(&first, 1);
    struct glim_task t = task(&first, 30, 40);
    submit(g, &t, &id);
    wait_over(&first);
    for (long n = 1; n < 40; n++) {
        for (int i = 0; i < 3; i++) {
            heard_init(&h[i], 1);
            t = task(&h[i], 30, 40);
            t.n_logprob = 2;
            submit(g, &t, &id);
        }
        mem_fail_after(n);
        for (int i = 0; i < 3; i++)
            wait_over(&h[i]);
        mem_fail_after(0);
        for (int i = 0; i < 3; i++) {
            failed += h[i].failed;
            if (!h[i].failed)
                assert_memory_equal(h[i].answer[0].tokens, first.answer[0].tokens, 40 * sizeof(int32_t));
            heard_fini(&h[i]);
        }
    }
    assert_true(failed > 0);
    heard_fini(&first);
    heard_init(&first, 1);
    t = task(&first, 30, 40);
    submit(g, &t, &id);
    wait_over(&first);
    assert_false(first.failed);
    heard_fini(&first);
    glim_engine_free(g, 0);
    glim_model_close(m);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "soak") == 0)
        return soak(atof(argv[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_to_one_prompt_share_it),
        cmocka_unit_test(what_cannot_run_is_refused_at_once),
        cmocka_unit_test(the_late_and_the_cancelled_end_and_others_do_not),
        cmocka_unit_test(the_end_waits_for_work_or_cuts_it),
        cmocka_unit_test(logprobs_are_those_of_the_logits),
        cmocka_unit_test(embeddings_are_pooled_states_of_length_1),
        cmocka_unit_test(a_storm_of_cancels_leaves_nothing_behind),
        cmocka_unit_test(lack_of_memory_is_an_error),
        cmocka_unit_test(lack_of_memory_at_work_ends_answers_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
