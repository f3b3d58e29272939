/* glim bench --engine: what scheduling costs and gives. Decode through the engine against the same number of bare
 * streams, measured in turns; a prompt's first token cold and from the prefix cache; and the time between the tokens of
 * eight answers while a long prompt is read beside them. */
#include "cli/bench.h"

#include "run/metrics.h"

#include "base/mem.h"
#include "base/str.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPANY = 8 };

/* ---- requests and what came of them ---- */

struct hall {
    pthread_mutex_t lock;
    pthread_cond_t news;
    uint32_t waiting, open; /* answers without a first token; answers that have not ended */
    bool failed;
    struct glim_err err;
};

struct answer {
    struct hall *hall;
    double asked, first, last, *gap; /* gap [n_gap]: between tokens */
    size_t n_gap, max_gap, n_token;
};

static void on_event(void *user, const struct glim_event *ev)
{
    struct answer *a = user;
    struct hall *h = a->hall;
    double now = cli_now();
    pthread_mutex_lock(&h->lock);
    if (ev->kind == GLIM_EVENT_TOKEN) {
        if (a->n_token++ == 0) {
            a->first = now;
            h->waiting--;
        } else if (a->n_gap < a->max_gap) {
            a->gap[a->n_gap++] = now - a->last;
        }
        a->last = now;
    }
    if (ev->kind == GLIM_EVENT_ERROR) {
        h->failed = true;
        h->err = ev->err;
    }
    if (ev->kind == GLIM_EVENT_ERROR || ev->kind == GLIM_EVENT_DONE)
        h->open--;
    if (h->waiting == 0 || h->open == 0 || h->failed)
        pthread_cond_signal(&h->news);
    pthread_mutex_unlock(&h->lock);
}

static glim_status ask(struct glim_engine *g, struct answer *a, const int32_t *prompt, size_t n, uint32_t max,
                       struct glim_err *e)
{
    uint64_t id;
    const struct glim_task t = {.request = {.prompt = prompt,
                                            .n_prompt = n,
                                            .max_tokens = max,
                                            .sampling = glim_sampling_default(),
                                            .ignore_end = true},
                                .n_logprob = -1,
                                .n_prompt_logprob = -1,
                                .on_event = on_event,
                                .user = a};
    pthread_mutex_lock(&a->hall->lock);
    a->hall->waiting++;
    a->hall->open++;
    pthread_mutex_unlock(&a->hall->lock);
    a->asked = cli_now();
    return glim_engine_submit(g, &t, &id, e);
}

/* Until all answers have begun, or (over) ended. */
static glim_status wait_for(struct hall *h, bool over, struct glim_err *e)
{
    pthread_mutex_lock(&h->lock);
    while (!h->failed && (over ? h->open : h->waiting) > 0)
        pthread_cond_wait(&h->news, &h->lock);
    pthread_mutex_unlock(&h->lock);
    if (h->failed)
        *e = h->err;
    return h->failed ? h->err.status : GLIM_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *v, size_t n, double q)
{
    qsort(v, n, sizeof *v, by_value);
    return n ? v[(size_t)((double)(n - 1) * q + 0.5)] : 0;
}

/* ---- decode ---- */

struct decode {               /* of one batch */
    double *engine, *streams; /* [repeat] tok/s */
    double overhead_s;        /* a step's time outside the forward, draws included in none */
};

static glim_status decode_engine(struct bench *b, struct glim_engine *g, uint32_t batch, double *rate)
{
    struct hall h = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};
    struct answer *a = mem_calloc(batch, sizeof *a);
    glim_status st = a ? GLIM_OK : err_nomem(&b->cli->err, "bench", batch * sizeof *a);
    double begin = 0;
    for (uint32_t i = 0; st == GLIM_OK && i < batch; i++) {
        a[i].hall = &h;
        st = ask(g, &a[i], b->tokens + i, 2, (uint32_t)b->n_gen + 1, &b->cli->err);
    }
    if (st == GLIM_OK)
        st = wait_for(&h, true, &b->cli->err);
    double end = 0, n = 0;
    for (uint32_t i = 0; st == GLIM_OK && i < batch; i++) {
        begin = a[i].first > begin ? a[i].first : begin;
        end = a[i].last > end ? a[i].last : end;
    }
    n = (double)b->n_gen * batch;
    *rate = end > begin ? n / (end - begin) : 0;
    mem_free(a);
    return st;
}

static glim_status decode(struct bench *b, struct glim_engine *g, uint32_t batch, struct decode *d)
{
    struct bench_test t = {.n = (uint32_t)b->n_gen, .batch = batch};
    struct metrics_view *v = mem_calloc(2, sizeof *v);
    glim_status st = v ? GLIM_OK : err_nomem(&b->cli->err, "bench", 2 * sizeof *v);
    if (v)
        metrics_read(&v[0], run_engine_metrics(g));
    for (int64_t r = -1; st == GLIM_OK && r < b->repeat; r++) {
        double rate, seconds = 0;
        st = decode_engine(b, g, batch, &rate);
        if (st == GLIM_OK)
            st = bench_measure(b, &t, NULL, &seconds);
        if (st == GLIM_OK && r >= 0) {
            d->engine[r] = rate;
            d->streams[r] = (double)t.n * batch / seconds;
        }
    }
    if (st == GLIM_OK) {
        metrics_read(&v[1], run_engine_metrics(g));
        const struct metric_view *x = &v[0].of[METRIC_SCHEDULE_SECONDS], *y = &v[1].of[METRIC_SCHEDULE_SECONDS];
        d->overhead_s = (y->value - x->value) / (double)(y->count - x->count);
    }
    mem_free(v);
    return st;
}

static glim_status run_decode(struct bench *b, struct glim_engine *g, struct str *s)
{
    size_t n = (size_t)b->repeat;
    double *rate = mem_calloc(3 * n, sizeof *rate);
    glim_status st = rate ? GLIM_OK : err_nomem(&b->cli->err, "bench", 3 * n * sizeof *rate);
    for (size_t i = 0; st == GLIM_OK && i < b->batch.n; i++) {
        struct decode d = {.engine = rate, .streams = rate + n};
        uint32_t batch = (uint32_t)b->batch.v[i];
        st = decode(b, g, batch, &d);
        if (st != GLIM_OK)
            break;
        for (size_t k = 0; k < n; k++)
            rate[2 * n + k] = d.engine[k] / d.streams[k];
        double ratio = quantile(rate + 2 * n, n, 0.5), engine = quantile(d.engine, n, 0.5);
        str_printf(s,
                   b->json ? "%s{\"batch\":%u,\"tok_s\":%.1f,\"of_streams\":%.3f,\"overhead_us\":%.1f}"
                           : "%sdecode b%-4u %10.1f tok/s  %.3f of bare streams, %.1f us a step beside them\n",
                   b->json && i ? "," : "", batch, engine, ratio, d.overhead_s * 1e6);
    }
    mem_free(rate);
    return st;
}

/* ---- the prefix cache ---- */

static glim_status run_warm(struct bench *b, struct glim_engine *g, struct str *s)
{
    struct hall h = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};
    double first[2];
    for (int warm = 0; warm < 2; warm++) {
        struct answer a = {.hall = &h};
        TRY(ask(g, &a, b->tokens, (size_t)b->n_prompt, 1, &b->cli->err));
        TRY(wait_for(&h, true, &b->cli->err));
        first[warm] = a.first - a.asked;
    }
    str_printf(s,
               b->json ? "{\"tokens\":%lld,\"cold_s\":%.6f,\"warm_s\":%.6f,\"ratio\":%.1f}"
                       : "prompt of %lld    first token after %.6f s cold, %.6f s cached: %.1f times sooner\n",
               (long long)b->n_prompt, first[0], first[1], first[0] / first[1]);
    return GLIM_OK;
}

/* ---- company ---- */

static glim_status company(struct bench *b, struct glim_engine *g, struct answer *a, size_t max, uint32_t n_long,
                           struct str *s)
{
    struct glim_err *e = &b->cli->err;
    struct answer longer = {.hall = a[0].hall};
    for (size_t i = 0; i < COMPANY; i++)
        TRY(ask(g, &a[i], b->tokens + 40 * i, 32, (uint32_t)max, e));
    TRY(wait_for(a[0].hall, false, e));
    for (size_t i = 0; i < COMPANY; i++) /* the gaps from here on */
        a[i].max_gap = max;
    TRY(ask(g, &longer, b->tokens, n_long, 1, e));
    TRY(wait_for(a[0].hall, true, e));
    size_t n = 0;
    double *all = a[0].gap; /* the answers' gaps lie one after another */
    for (size_t i = 0; i < COMPANY; i++) {
        size_t mine = 0; /* those before the long prompt was read */
        for (double at = a[i].last; mine < a[i].n_gap && at > longer.first; mine++)
            at -= a[i].gap[a[i].n_gap - 1 - mine];
        memmove(all + n, a[i].gap, (a[i].n_gap - mine) * sizeof *all);
        n += a[i].n_gap - mine;
    }
    str_printf(s,
               b->json
                   ? "{\"answers\":%d,\"prompt\":%u,\"aim_s\":%.3f,\"first_token_s\":%.3f,\"gaps\":%zu,\"p50_s\":%.6f,"
                     "\"p99_s\":%.6f,\"max_s\":%.6f}"
                   : "%d answers beside a prompt of %u (aim %.3f s): read in %.3f s; %zu gaps between tokens: median "
                     "%.6f s, p99 %.6f s, longest %.6f s\n",
               COMPANY, n_long, (double)cli_levers(b->cli)->step_ms / 1000, longer.first - longer.asked, n,
               quantile(all, n, 0.5), quantile(all, n, 0.99), quantile(all, n, 1));
    return GLIM_OK;
}

static glim_status run_company(struct bench *b, struct glim_engine *g, uint32_t n_long, struct str *s)
{
    struct hall h = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};
    struct answer a[COMPANY] = {0};
    size_t max = n_long / 2;
    double *gap = mem_calloc(COMPANY * max, sizeof *gap);
    glim_status st = gap ? GLIM_OK : err_nomem(&b->cli->err, "bench", COMPANY * max * sizeof *gap);
    for (size_t i = 0; i < COMPANY; i++)
        a[i] = (struct answer){.hall = &h, .gap = gap ? gap + i * max : NULL};
    if (st == GLIM_OK)
        st = company(b, g, a, max, n_long, s);
    mem_free(gap);
    return st;
}

glim_status bench_engine(struct bench *b)
{
    const struct glim_model_info *info = glim_model_info(b->cli->model);
    const struct levers *lv = cli_levers(b->cli);
    struct glim_engine *g;
    struct str s = {0};
    uint32_t n_ctx = model_default_ctx(lv, &b->cli->model->plan);
    uint32_t n_long = n_ctx < 16384 + 64 ? n_ctx - 64 : 16384;
    TRY(glim_engine_create(&g, b->cli->model, &b->cli->err));
    glim_status st;
    if (b->json) {
        str_puts(&s, "{\"model\":");
        str_json(&s, info->name, strlen(info->name));
        str_printf(&s, ",\"backend\":\"%s\",\"decode\":[", info->backend);
    }
    TRY_OUT(run_decode(b, g, &s));
    str_puts(&s, b->json ? "],\"warm\":" : "");
    TRY_OUT(run_warm(b, g, &s));
    str_puts(&s, b->json ? ",\"company\":" : "");
    TRY_OUT(run_company(b, g, n_long, &s));
    str_puts(&s, b->json ? "}\n" : "");
    TRY_OUT(cli_print(&s, &b->cli->err));
out:
    str_fini(&s);
    glim_engine_free(g, 0);
    return st;
}
