#include "serve/telemetry.h"

#include "base/mem.h"
#include "op/op.h"
#include "run/metrics.h"
#include "run/run.h"
#include "serve/access.h"
#include "serve/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A watcher that has so many bytes to take is left out of a second, not queued for. */
enum { BACKLOG = 128 << 10 };

struct telemetry {
    struct server *server;
    struct http_timer *timer;
    struct call *watcher[TELEMETRY_WATCHERS];
    size_t n_watcher;
    struct metrics_view now, before;
    double now_s, before_s; /* monotonic; before_s 0: this is the first of a row */
};

bool engine_hangs(const struct server *s, double *age_s)
{
    *age_s = run_engine_step_age(s->engine);
    return *age_s > s->lv->health_s;
}

/* ---- the snapshot ---- */

static const struct metric_view *of(const struct telemetry *t, enum metric m)
{
    return &t->now.of[m];
}

static uint64_t count(const struct telemetry *t, enum metric m)
{
    return t->now.of[m].count;
}

static double per_second(const struct telemetry *t, enum metric m)
{
    double passed = t->now_s - t->before_s;
    return t->before_s > 0 && passed > 0 ? (double)(count(t, m) - t->before.of[m].count) / passed : 0;
}

static void put_histogram(struct str *s, const char *name, const struct telemetry *t, enum metric m)
{
    const struct metric_info *info = metric_info(m);
    str_printf(s, ",\"%s\":{\"edges\":[", name);
    for (uint32_t i = 0; i < info->n_edge; i++)
        str_printf(s, "%s%.15g", i ? "," : "", info->edge[i]);
    str_puts(s, "],\"counts\":[");
    for (uint32_t i = 0; i <= info->n_edge; i++)
        str_printf(s, "%s%llu", i ? "," : "", (unsigned long long)of(t, m)->bucket[i]);
    str_printf(s, "],\"sum\":%.9g}", of(t, m)->value);
}

static unsigned long long rss_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return 0;
    int n = fscanf(f, "%llu %llu", &size, &resident);
    fclose(f);
    return n == 2 ? resident * (unsigned long long)sysconf(_SC_PAGESIZE) : 0;
}

static void put_steps(struct str *s, const struct telemetry *t, double now)
{
    const struct metric_view *rows = of(t, METRIC_STEP_ROWS), *was = &t->before.of[METRIC_STEP_ROWS];
    double last = of(t, METRIC_LAST_STEP)->value;
    str_printf(s, ",\"steps\":{\"total\":%llu,\"last_age_s\":", (unsigned long long)count(t, METRIC_STEPS));
    if (last > 0)
        str_printf(s, "%.3f", fmax(0, now - last));
    else
        str_puts(s, "null");
    str_puts(s, ",\"rows_mean\":");
    if (t->before_s > 0 && rows->count > was->count)
        str_printf(s, "%.3g}", (rows->value - was->value) / (double)(rows->count - was->count));
    else
        str_puts(s, "null}");
}

static void put_counts(struct str *s, const struct telemetry *t)
{
    static const struct {
        const char *name;
        enum metric m;
    } finished[] = {{"length", METRIC_FINISHED_LENGTH},     {"end", METRIC_FINISHED_END},
                    {"stop", METRIC_FINISHED_STOP},         {"cancelled", METRIC_FINISHED_CANCELLED},
                    {"deadline", METRIC_FINISHED_DEADLINE}, {"error", METRIC_FINISHED_ERROR},
                    {"refused", METRIC_REFUSED_BUSY}};
    const struct levers *lv = t->server->lv;
    str_printf(s, ",\"queue\":{\"waiting\":%.0f,\"running\":%.0f,\"max_waiting\":%lld,\"max_running\":%lld}",
               of(t, METRIC_REQUESTS_WAITING)->value, of(t, METRIC_REQUESTS_RUNNING)->value, (long long)lv->queue,
               (long long)lv->n_seq);
    for (size_t i = 0; i < sizeof finished / sizeof *finished; i++)
        str_printf(s, "%s\"%s\":%llu", i ? "," : ",\"finished\":{", finished[i].name,
                   (unsigned long long)count(t, finished[i].m));
    str_printf(s,
               "},\"tokens\":{\"prompt_total\":%llu,\"cached_total\":%llu,\"generated_total\":%llu,"
               "\"prompt_per_s\":%.3f,\"generated_per_s\":%.3f}",
               (unsigned long long)count(t, METRIC_PROMPT_TOKENS),
               (unsigned long long)count(t, METRIC_CACHE_HIT_TOKENS),
               (unsigned long long)count(t, METRIC_GENERATED_TOKENS), per_second(t, METRIC_PROMPT_TOKENS),
               per_second(t, METRIC_GENERATED_TOKENS));
}

static void put_caches(struct str *s, const struct telemetry *t)
{
    str_printf(s, ",\"kv\":{\"pages\":%.0f,\"used\":%.0f,\"cached\":%.0f,\"page_tokens\":%d}",
               of(t, METRIC_PAGES_TOTAL)->value, of(t, METRIC_PAGES_USED)->value, of(t, METRIC_PAGES_CACHED)->value,
               KV_PAGE);
    str_printf(s, ",\"drafts\":{\"proposed_total\":%llu,\"accepted_total\":%llu}",
               (unsigned long long)count(t, METRIC_DRAFT_TOKENS), (unsigned long long)count(t, METRIC_DRAFT_ACCEPTED));
    str_printf(s, ",\"preemptions_total\":%llu,\"connections\":%u,\"rss_bytes\":%llu",
               (unsigned long long)count(t, METRIC_PREEMPTIONS), http_server_stats(t->server->http).connections,
               rss_bytes());
}

static void put_request(struct str *s, const struct job *j)
{
    static const char *const phase[] = {[JOB_QUEUED] = "queued", [JOB_PREFILL] = "prefill", [JOB_DECODE] = "decode"};
    struct job_progress p = job_progress(j);
    str_printf(s,
               "{\"id\":\"%s\",\"api\":\"%s\",\"state\":\"%s\",\"prompt\":%zu,\"cached\":%zu,\"done\":%zu,"
               "\"generated\":%zu,\"age_s\":%.3f}",
               j->call->id, j->call->route->path, phase[p.phase], p.n_prompt, p.n_cached, p.n_done, p.n_token,
               serve_now() - (double)j->call->arrived.tv_sec - 1e-9 * (double)j->call->arrived.tv_nsec);
}

/* The list is the newest first. */
static void put_requests(struct str *s, const struct server *server)
{
    const struct job *oldest[TELEMETRY_REQUESTS];
    size_t n = server->n_job, k = 0;
    for (const struct job *j = server->job; j; j = j->next)
        if (n-- <= TELEMETRY_REQUESTS)
            oldest[k++] = j;
    str_puts(s, ",\"requests\":[");
    while (k) {
        put_request(s, oldest[--k]);
        if (k)
            str_putc(s, ',');
    }
    str_putc(s, ']');
}

static const char *state_of(const struct server *s)
{
    double age_s;
    return engine_hangs(s, &age_s) ? "failed" : atomic_load(&s->draining) ? "draining" : "ready";
}

static void put_snapshot(struct str *s, struct telemetry *t)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double time_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    metrics_read(&t->now, run_engine_metrics(t->server->engine));
    t->now_s = serve_now();
    str_printf(s, "{\"time\":%.3f,\"uptime_s\":%.3f,\"model\":", time_s, time_s - (double)t->server->started);
    str_json(s, t->server->name[0], strlen(t->server->name[0]));
    str_printf(s, ",\"state\":\"%s\"", state_of(t->server));
    put_counts(s, t);
    put_histogram(s, "ttft", t, METRIC_FIRST_TOKEN_SECONDS);
    put_histogram(s, "itl", t, METRIC_INTER_TOKEN_SECONDS);
    put_steps(s, t, time_s);
    put_caches(s, t);
    put_requests(s, t->server);
    str_putc(s, '}');
}

/* ---- watchers ---- */

static void leave(struct call *c)
{
    struct telemetry *t = c->server->telemetry;
    for (size_t i = 0; i < t->n_watcher; i++)
        if (t->watcher[i] == c) {
            t->watcher[i] = t->watcher[--t->n_watcher];
            break;
        }
    c->server->n_watcher = t->n_watcher;
    if (!t->n_watcher)
        http_timer_stop(t->timer);
}

static void show(struct call *c, const struct str *snapshot)
{
    if (snapshot->failed || http_backlog(c->x) > BACKLOG)
        return;
    call_send(c, "data: ", 6);
    call_send(c, snapshot->s, snapshot->n);
    call_send(c, "\n\n", 2);
}

static void show_all(struct telemetry *t)
{
    struct str s = {0};
    put_snapshot(&s, t);
    for (size_t i = 0; i < t->n_watcher; i++)
        show(t->watcher[i], &s);
    str_fini(&s);
    t->before = t->now;
    t->before_s = t->now_s;
}

static void on_second(void *arg)
{
    struct telemetry *t = arg;
    http_timer_start(t->timer, 1);
    show_all(t);
}

/* The first snapshot comes at once, with rates of the second before if somebody else was there. */
static void begin(struct call *c)
{
    struct telemetry *t = c->server->telemetry;
    struct str s = {0};
    if (!c->x || call_is_head(c, "text/event-stream"))
        return;
    if (!t->n_watcher) {
        t->before_s = 0;
        http_timer_start(t->timer, 1);
    }
    t->watcher[t->n_watcher++] = c;
    c->server->n_watcher = t->n_watcher;
    call_stream(c, 200, "text/event-stream");
    put_snapshot(&s, t);
    show(c, &s);
    str_fini(&s);
    if (t->before_s == 0) {
        t->before = t->now;
        t->before_s = t->now_s;
    }
}

glim_status telemetry_run(struct call *c, struct glim_err *e)
{
    if (atomic_load(&c->server->draining)) {
        err_set(e, GLIM_REFUSED, "telemetry: have a new stream, need none: the server is shutting down");
        return call_fail(c, 503, NULL, "shutting_down", e);
    }
    if (c->server->telemetry->n_watcher == TELEMETRY_WATCHERS) {
        err_set(e, GLIM_BUSY, "telemetry: streams: have %d, need fewer: try again in 5 s", TELEMETRY_WATCHERS);
        return call_fail(c, 429, NULL, "too_many_watchers", e);
    }
    call_take(c, begin, leave, NULL);
    return GLIM_OK;
}

void telemetry_end(struct telemetry *t)
{
    if (t->n_watcher)
        show_all(t);
    while (t->n_watcher) {
        struct call *c = t->watcher[0];
        leave(c);
        c->on_gone = NULL;
        call_end(c);
    }
}

/* ---- life ---- */

glim_status telemetry_create(struct telemetry **out, struct server *s, struct glim_err *e)
{
    struct telemetry *t = mem_calloc(1, sizeof *t);
    *out = t;
    if (!t)
        return err_nomem(e, "telemetry", sizeof *t);
    t->server = s;
    t->timer = http_timer_create(s->http, on_second, t);
    return t->timer ? GLIM_OK : err_nomem(e, "telemetry", sizeof *t);
}

void telemetry_free(struct telemetry *t)
{
    if (!t)
        return;
    http_timer_free(t->timer);
    mem_free(t);
}

/* ---- its shape ---- */

#define COUNT(n)                                                                                                       \
    {                                                                                                                  \
        .name = n, .shape = &field_count, .required = true                                                             \
    }
#define NUMBER(n)                                                                                                      \
    {                                                                                                                  \
        .name = n, .shape = &field_number, .required = true                                                            \
    }
static const struct field queue[] = {COUNT("waiting"), COUNT("running"), COUNT("max_waiting"), COUNT("max_running")};
static const struct field finished[] = {COUNT("length"),   COUNT("end"),   COUNT("stop"),   COUNT("cancelled"),
                                        COUNT("deadline"), COUNT("error"), COUNT("refused")};
static const struct field tokens[] = {COUNT("prompt_total"), COUNT("cached_total"), COUNT("generated_total"),
                                      NUMBER("prompt_per_s"), NUMBER("generated_per_s")};
static const struct field histogram[] = {
    {"edges", FIELD_LIST_OF(&field_number), .required = true, .doc = "Ascending upper bounds, in seconds."},
    {"counts", FIELD_LIST_OF(&field_count), .required = true, .doc = "Of each bound, then of what is above all."},
    NUMBER("sum")};
static const struct field_shape histogram_shape = {.name = "Histogram", FIELD_MEMBERS(histogram)};
static const struct field steps[] = {COUNT("total"),
                                     {"last_age_s", FIELD_SHAPE(.kinds = FIELD_NUMBER | FIELD_NULL), .required = true,
                                      .doc = "Since the last; null before the first."},
                                     {"rows_mean", FIELD_SHAPE(.kinds = FIELD_NUMBER | FIELD_NULL), .required = true,
                                      .doc = "Rows of a forward pass in the last second; null without one."}};
static const struct field kv[] = {COUNT("pages"), COUNT("used"), COUNT("cached"), COUNT("page_tokens")};
static const struct field drafts[] = {COUNT("proposed_total"), COUNT("accepted_total")};
static const struct field request[] = {
    {"id", &field_text, .required = true, .doc = "For POST /v1/requests/{id}/cancel."},
    {"api", &field_text, .required = true, .doc = "The route."},
    {"state", FIELD_WORDS("queued", "prefill", "decode"), .required = true},
    COUNT("prompt"),
    COUNT("cached"),
    {"done", &field_count, .required = true, .doc = "Tokens of the prompt that are in place."},
    COUNT("generated"),
    NUMBER("age_s")};
static const struct field members[] = {
    {"time", &field_number, .required = true, .doc = "Seconds since 1970."},
    NUMBER("uptime_s"),
    {"model", &field_text, .required = true},
    {"state", FIELD_WORDS("ready", "draining", "failed"), .required = true},
    {"queue", FIELD_SHAPE(FIELD_MEMBERS(queue)), .required = true},
    {"finished", FIELD_SHAPE(FIELD_MEMBERS(finished)), .required = true, .doc = "Answers that ended, by reason."},
    {"tokens", FIELD_SHAPE(FIELD_MEMBERS(tokens)), .required = true, .doc = "Since the start, and in the last second."},
    {"ttft", &histogram_shape, .required = true, .doc = "Time to the first token."},
    {"itl", &histogram_shape, .required = true, .doc = "Time between two tokens."},
    {"steps", FIELD_SHAPE(FIELD_MEMBERS(steps)), .required = true, .doc = "Forward passes."},
    {"kv", FIELD_SHAPE(FIELD_MEMBERS(kv)), .required = true, .doc = "KV pages."},
    {"drafts", FIELD_SHAPE(FIELD_MEMBERS(drafts)), .required = true, .doc = "Drafted tokens."},
    COUNT("preemptions_total"),
    COUNT("connections"),
    COUNT("rss_bytes"),
    {"requests", FIELD_LIST_OF(FIELD_SHAPE(FIELD_MEMBERS(request))), .required = true,
     .doc = "Those under way, at most 64, the oldest first."},
};
const struct field_shape telemetry_shape = {.name = "Telemetry", FIELD_MEMBERS(members)};
