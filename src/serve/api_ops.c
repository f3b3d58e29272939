/* What operators, their programs and the page ask of a server: is it there, how is it doing, what is it doing. */
#include "serve/access.h"
#include "serve/api.h"
#include "serve/job.h"
#include "serve/page.h"
#include "serve/serve.h"
#include "serve/streams.h"
#include "serve/telemetry.h"

#include "base/mem.h"
#include "run/metrics.h"
#include "run/run.h"

#include <string.h>

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* ---- health ---- */

static const struct field health[] = {{"status", FIELD_WORDS("ok"), .required = true}};
static const struct field_shape health_shape = {.name = "Health", FIELD_MEMBERS(health)};
static const struct field ready[] = {{"status", FIELD_WORDS("ready"), .required = true}};
static const struct field_shape ready_shape = {.name = "Ready", FIELD_MEMBERS(ready)};

static glim_status check_engine(struct call *c, struct glim_err *e)
{
    double age_s;
    if (!engine_hangs(c->server, &age_s))
        return GLIM_OK;
    err_set(e, GLIM_FAILED, "engine: step: have been in it for %.1f s, need an end within %g s", age_s,
            c->server->lv->health_s);
    return call_fail(c, 503, NULL, "engine_hangs", e);
}

static glim_status run_health(struct call *c, struct glim_err *e)
{
    TRY(check_engine(c, e));
    return call_reply_json(c, 200, json_pack("{s:s}", "status", "ok"), e);
}

static glim_status run_ready(struct call *c, struct glim_err *e)
{
    TRY(check_engine(c, e));
    if (atomic_load(&c->server->draining)) {
        err_set(e, GLIM_REFUSED, "server: have been told to stop, need a running one");
        return call_fail(c, 503, NULL, "shutting_down", e);
    }
    return call_reply_json(c, 200, json_pack("{s:s}", "status", "ready"), e);
}

/* ---- metrics: the engine's in a worker, then the transport's in the event thread ---- */

static void add_http_metrics(struct call *c)
{
    struct http_stats http = http_server_stats(c->server->http);
    hub_print_metrics(c->server->hub, &c->reply, &http);
    call_answer(c, 200, METRICS_TYPE, &c->reply);
}

static glim_status run_metrics(struct call *c, struct glim_err *e)
{
    struct metrics_view *v = mem_alloc(sizeof *v);
    if (!v)
        return err_nomem(e, "metrics", sizeof *v);
    metrics_read(v, run_engine_metrics(c->server->engine));
    metrics_print(&c->reply, v, false, c->server->name[0]);
    metrics_print(&c->reply, v, true, c->server->name[0]);
    mem_free(v);
    call_take(c, add_http_metrics, NULL, NULL);
    return GLIM_OK;
}

/* ---- ending a request ---- */

static const struct field cancel[] = {
    {"id", &field_text, .required = true},
    {"cancelled", &field_count, .required = true, .doc = "Requests of this id that end now."}};
static const struct field_shape cancel_shape = {.name = "Cancelled", FIELD_MEMBERS(cancel)};

/* By the id that was made here, or the one the client brought, which may be that of several. */
static bool is_meant(const struct job *j, const struct call *by)
{
    const char *id = by->match.param[0];
    const struct access *a = j->call->access;
    return a->limit == by->access->limit && (strcmp(j->call->id, id) == 0 || strcmp(a->id, id) == 0);
}

static glim_status run_cancel(struct call *c, struct glim_err *e)
{
    int n = 0;
    for (struct job *j = c->server->job, *next; j; j = next) {
        next = j->next; /* j may be gone after its cancellation */
        if (!is_meant(j, c))
            continue;
        job_cancel(j);
        n++;
    }
    if (!n) {
        err_set(e, GLIM_REFUSED, "request: have no %.100s under way, need one of /telemetry", c->match.param[0]);
        return call_fail(c, 404, "id", "unknown_request", e);
    }
    return call_reply_json(c, 200, json_pack("{s:s, s:i}", "id", c->match.param[0], "cancelled", n), e);
}

/* ---- the page ---- */

_Static_assert((int)PAGE_FIELDS <= (int)CALL_FIELDS, "the page's header fields fit a reply");

static void send_page(struct call *c)
{
    struct http_field f[PAGE_FIELDS];
    if (!c->x)
        return;
    bool unchanged = page_unchanged(http_header(http_request(c->x), "if-none-match"));
    page_fields(f);
    call_answer_with(c, unchanged ? 304 : 200, f, PAGE_FIELDS, PAGE_TYPE, (const char *)page.bytes, page.n);
}

static glim_status run_page(struct call *c, struct glim_err *e)
{
    (void)e;
    call_take(c, send_page, NULL, NULL);
    return GLIM_OK;
}

/* ---- the table ---- */

static const struct field after[] = {
    {"after", FIELD_SHAPE(.kinds = FIELD_INT, .bounded = true, .min = 0, .max = 9e15),
     .doc = "Number of the last event that the client has; else that of the header Last-Event-ID, else 0."}};
static const struct field_shape after_shape = {FIELD_MEMBERS(after)};

static glim_status run_openapi(struct call *c, struct glim_err *e)
{
    struct str s = {0};
    route_print_openapi(&s);
    return call_reply_text(c, 200, "application/json", &s, e);
}

const struct route ops_routes[OPS_ROUTES] = {
    {.method = "GET",
     .path = "/openapi.json",
     .open = true,
     .run = run_openapi,
     .reply = &field_object,
     .doc = "This table, for programs."},
    {.method = "GET",
     .path = "/",
     .open = true,
     .quick = true,
     .run = run_page,
     .reply_type = PAGE_TYPE,
     .doc = "The page: chat and dashboard."},
    {.method = "GET",
     .path = "/health",
     .open = true,
     .quick = true,
     .run = run_health,
     .reply = &health_shape,
     .doc = "Does the engine make progress? 503 when it has work and no step has ended for as long as the lever "
            "health_s says."},
    {.method = "GET",
     .path = "/ready",
     .open = true,
     .quick = true,
     .run = run_ready,
     .reply = &ready_shape,
     .doc = "Does the server take requests? 503 also from the moment it was told to stop."},
    {.method = "GET",
     .path = "/metrics",
     .run = run_metrics,
     .reply_type = METRICS_TYPE,
     .doc = "Counters in Prometheus' text format: the engine's under glim's names, those that vLLM has too also under "
            "vLLM's, each with the label model_name; HTTP's and the API keys'."},
    {.method = "GET",
     .path = "/telemetry",
     .quick = true,
     .run = telemetry_run,
     .event = &telemetry_shape,
     .reply_type = "text/event-stream",
     .doc = "A snapshot of the server once a second."},
    {.method = "POST",
     .path = "/v1/requests/{id}/cancel",
     .quick = true,
     .run = run_cancel,
     .reply = &cancel_shape,
     .doc = "Ends requests of this key within a step, by the id of /telemetry or the x-request-id they came with; what "
            "was generated is answered."},
    {.method = "GET",
     .path = "/v1/streams/{id}",
     .quick = true,
     .run = stream_run,
     .query = &after_shape,
     .reply_type = "text/event-stream",
     .doc = "Goes on with a stream whose request had the header x-resume-seconds, by the x-stream-id of its answer."},
    {.method = "GET",
     .path = "/dashboard",
     .open = true,
     .quick = true,
     .run = run_page,
     .reply_type = PAGE_TYPE,
     .doc = "The page too; the dashboard is its part behind #/dashboard."},
};
