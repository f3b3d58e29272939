#include "serve/access.h"

#include "base/mem.h"
#include "serve/serve.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* Statuses that are counted by themselves; the last row is all others, and 0 an exchange without one. */
static const int statuses[] = {0,   200, 204, 304, 400, 401, 403, 404, 405, 408, 409,
                               410, 413, 414, 417, 429, 431, 500, 501, 503, 505, 999};
enum { N_STATUS = sizeof statuses / sizeof *statuses };

struct hub {
    const char *cors;
    struct keys *keys;
    struct access_log *log;
    size_t n_route;
    uint64_t (*count)[N_STATUS]; /* [n_route + 1]: by route in the order of the table, then those of none */
    uint64_t n_byte, n_broken, n_unauthorized;
};

/* ---- the hub ---- */

static size_t count_routes(void)
{
    size_t n = 0;
    for (size_t g = 0; g < route_n_group; g++)
        n += route_groups[g].n;
    return n;
}

glim_status hub_create(struct hub **out, const struct hub_config *c, struct glim_err *e)
{
    struct hub *h = mem_calloc(1, sizeof *h);
    glim_status st = GLIM_OK;
    size_t n = count_routes();
    *out = h;
    if (!h) {
        keys_free(c->keys);
        return err_nomem(e, "server", sizeof *h);
    }
    h->cors = c->cors ? c->cors : "";
    h->keys = c->keys;
    h->n_route = n;
    if (!(h->count = mem_calloc(n + 1, sizeof *h->count)))
        st = err_nomem(e, "server's counters", (n + 1) * sizeof *h->count);
    else if (c->log_path)
        st = access_log_open(&h->log, c->log_path, e);
    if (st != GLIM_OK) {
        hub_free(h);
        *out = NULL;
    }
    return st;
}

void hub_free(struct hub *h)
{
    if (!h)
        return;
    access_log_close(h->log);
    keys_free(h->keys);
    mem_free(h->count);
    mem_free(h);
}

void hub_set_keys(struct hub *h, struct keys *keys)
{
    keys_inherit(keys, h->keys);
    keys_free(h->keys);
    h->keys = keys;
}

bool hub_has_keys(const struct hub *h)
{
    return h->keys != NULL;
}

void hub_reopen_log(struct hub *h)
{
    if (h->log)
        access_log_reopen(h->log);
}

/* ---- names ---- */

static void take_id(struct access *a, const struct http_request *r)
{
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_+/=@-";
    const char *id = http_header(r, "x-request-id");
    size_t n = id ? strlen(id) : 0;
    bool good = n > 0 && n <= ACCESS_ID_MAX && strspn(id, fine) == n;
    snprintf(a->id, sizeof a->id, "%s", good ? id : a->made);
}

/* n lower-case hexadecimal digits, then `end`; not all of them zero unless `zero`. */
static bool take_hex(const char **p, size_t n, char end, bool zero, char *out)
{
    if (strspn(*p, "0123456789abcdef") != n || (*p)[n] != end)
        return false;
    memcpy(out, *p, n);
    out[n] = 0;
    *p += n + (end != 0);
    return zero || strspn(out, "0") < n;
}

/* version-trace-parent-flags; later versions may go on after another dash. */
static void take_trace(struct access *a, const struct http_request *r)
{
    const char *p = http_header(r, "traceparent");
    char version[3], trace[33];
    if (!p || !take_hex(&p, 2, '-', true, version) || strcmp(version, "ff") == 0 ||
        !take_hex(&p, 32, '-', false, trace) || !take_hex(&p, 16, '-', false, a->parent))
        return;
    bool more = strcmp(version, "00") != 0 && p[0] && p[1] && p[2] == '-';
    if (!take_hex(&p, 2, more ? '-' : 0, true, a->flags))
        return;
    memcpy(a->trace, trace, sizeof trace);
    do
        snprintf(a->span, sizeof a->span, "%016" PRIx64, serve_random());
    while (strspn(a->span, "0") == 16);
    snprintf(a->traceparent, sizeof a->traceparent, "00-%s-%s-%s", a->trace, a->span, a->flags);
}

struct access *access_create(struct hub *h, struct http_exchange *x, const struct http_request *r,
                             const struct route *route)
{
    struct access *a = mem_calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->hub = h;
    a->refs = 1;
    a->route = route;
    serve_id("req_", a->made);
    take_id(a, r);
    take_trace(a, r);
    http_set_data(x, a);
    return a;
}

void access_hold(struct access *a)
{
    a->refs++;
}

void access_drop(struct access *a)
{
    if (!a || --a->refs > 0)
        return;
    if (a->counted)
        limit_end(a->limit);
    limit_drop(a->limit);
    mem_free(a);
}

/* ---- origins ---- */

static bool listed(const char *list, const char *origin)
{
    size_t n = strlen(origin);
    for (const char *p = list; *p; p += *p == ',') {
        p += strspn(p, " ");
        size_t k = strcspn(p, ",");
        while (k && p[k - 1] == ' ')
            k--;
        if ((k == 1 && *p == '*') || (k == n && strncasecmp(p, origin, n) == 0))
            return true;
        p += strcspn(p, ",");
    }
    return false;
}

bool access_origin(struct access *a, const struct http_request *r)
{
    const char *origin = http_header(r, "origin"), *host = http_header(r, "host");
    const char *after = origin ? strstr(origin, "://") : NULL;
    if (!origin || (after && host && strcmp(after + 3, host) == 0))
        return true;
    if (strlen(origin) >= sizeof a->origin || !listed(a->hub->cors, origin))
        return false;
    snprintf(a->origin, sizeof a->origin, "%s", origin);
    return true;
}

bool access_is_preflight(const struct http_request *r)
{
    return strcmp(r->method, "OPTIONS") == 0 && http_header(r, "origin") &&
           http_header(r, "access-control-request-method");
}

/* A page that may ask may send what it likes. */
size_t access_preflight(const struct access *a, const struct http_request *r, struct http_field f[ACCESS_HEADERS + 3])
{
    size_t n = access_headers(a, f);
    const char *want = http_header(r, "access-control-request-headers");
    f[n++] = (struct http_field){"access-control-allow-methods", "GET, POST, DELETE"};
    if (want)
        f[n++] = (struct http_field){"access-control-allow-headers", want};
    f[n++] = (struct http_field){"access-control-max-age", "600"};
    return n;
}

size_t access_headers(const struct access *a, struct http_field f[ACCESS_HEADERS])
{
    size_t n = 0;
    f[n++] = (struct http_field){"x-request-id", a->id};
    if (a->trace[0])
        f[n++] = (struct http_field){"traceparent", a->traceparent};
    if (a->origin[0]) {
        f[n++] = (struct http_field){"access-control-allow-origin", a->origin};
        f[n++] = (struct http_field){"access-control-expose-headers",
                                     "x-request-id, x-stream-id, x-ignored-fields, retry-after, traceparent"};
        f[n++] = (struct http_field){"vary", "origin"};
    }
    return n;
}

/* ---- keys and limits ---- */

static const char *secret_of(const struct http_request *r)
{
    const char *s = http_header(r, "authorization");
    if (!s)
        return http_header(r, "x-api-key");
    if (strncasecmp(s, "bearer ", 7) != 0)
        return NULL;
    return s + 7 + strspn(s + 7, " ");
}

bool access_key(struct access *a, const struct http_request *r)
{
    const char *secret = secret_of(r);
    if (!a->hub->keys || (a->route && a->route->open))
        return true;
    a->limit = secret && strlen(secret) < 4 * KEY_SECRET_MAX ? keys_find(a->hub->keys, secret) : NULL;
    if (!a->limit) {
        a->hub->n_unauthorized++;
        return false;
    }
    limit_hold(a->limit);
    return true;
}

bool access_begin(struct access *a, enum limit_kind *kind, double *wait_s)
{
    if (!a->limit)
        return true;
    return a->counted = limit_begin(a->limit, serve_now(), kind, wait_s);
}

void access_tokens(struct access *a, uint64_t n_prompt, uint64_t n_token)
{
    a->n_prompt += n_prompt;
    a->n_token += n_token;
    if (a->limit)
        limit_tokens(a->limit, serve_now(), n_prompt, n_token);
}

/* ---- the end ---- */

static void put_text(struct str *s, const char *name, const char *value)
{
    str_printf(s, ",\"%s\":", name);
    str_json(s, value, strlen(value));
}

/* One line. What was asked after the '?' is left out: it may be anything, a secret too. */
static void print_line(struct str *s, const struct access *a, const struct http_record *rec)
{
    struct timespec t;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    str_printf(s, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\"", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
               tm.tm_hour, tm.tm_min, tm.tm_sec, t.tv_nsec / 1000000);
    if (a)
        put_text(s, "id", a->id);
    put_text(s, "peer", rec->peer);
    if (a && a->limit)
        put_text(s, "key", a->limit->name);
    if (rec->request) {
        put_text(s, "method", rec->request->method);
        put_text(s, "path", rec->request->path);
    }
    str_printf(s, ",\"status\":%d,\"complete\":%s,\"bytes\":%" PRIu64 ",\"ms\":%.3f", rec->status,
               rec->complete ? "true" : "false", rec->sent, rec->seconds * 1e3);
    if (a)
        str_printf(s, ",\"prompt_tokens\":%" PRIu64 ",\"generated_tokens\":%" PRIu64, a->n_prompt, a->n_token);
    if (a && a->trace[0]) {
        put_text(s, "trace_id", a->trace);
        put_text(s, "span_id", a->span);
        put_text(s, "parent_span_id", a->parent);
    }
    str_puts(s, "}\n");
}

/* Its place in the table of routes; one past the end for none. */
static size_t route_number(const struct hub *h, const struct route *r)
{
    size_t n = 0;
    for (size_t g = 0; r && g < route_n_group; n += route_groups[g++].n) {
        const struct route_group *group = &route_groups[g];
        if (r >= group->route && r < group->route + group->n)
            return n + (size_t)(r - group->route);
    }
    return h->n_route;
}

void access_ended(struct hub *h, const struct http_record *rec)
{
    struct access *a = rec->data;
    size_t k = 0;
    while (k + 1 < N_STATUS && statuses[k] != rec->status)
        k++;
    h->count[route_number(h, a ? a->route : NULL)][k]++;
    h->n_byte += rec->sent;
    h->n_broken += !rec->complete;
    if (h->log) {
        struct str line = {0};
        print_line(&line, a, rec);
        if (!line.failed)
            access_log_put(h->log, line.s, line.n);
        str_fini(&line);
    }
    access_drop(a);
}

/* ---- metrics ---- */

static void put_family(struct str *out, const char *name, const char *kind, const char *help)
{
    str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void put_routes(struct hub *h, struct str *out)
{
    size_t n = 0;
    put_family(out, "glim_http_requests_total", "counter",
               "HTTP exchanges that have ended; status 0: the client went before there was one, 999: any other.");
    for (size_t g = 0; g <= route_n_group; g++)
        for (size_t i = 0; i < (g < route_n_group ? route_groups[g].n : 1); i++, n++)
            for (size_t k = 0; k < N_STATUS; k++) {
                const struct route *r = g < route_n_group ? &route_groups[g].route[i] : NULL;
                if (h->count[n][k])
                    str_printf(out,
                               "glim_http_requests_total{method=\"%s\",handler=\"%s\",status=\"%d\"} %" PRIu64 "\n",
                               r && r->method ? r->method : "", r ? r->path : "none", statuses[k], h->count[n][k]);
            }
}

static void put_number(struct str *out, const char *name, const char *kind, const char *help, uint64_t value)
{
    put_family(out, name, kind, help);
    str_printf(out, "%s %" PRIu64 "\n", name, value);
}

/* Names of keys need no escaping. */
static void put_keys(const struct keys *k, struct str *out)
{
    size_t n = keys_count(k);
    if (!n)
        return;
    put_family(out, "glim_key_requests_total", "counter", "Requests with a body that began, by key.");
    for (size_t i = 0; i < n; i++)
        str_printf(out, "glim_key_requests_total{key=\"%s\"} %" PRIu64 "\n", keys_limit(k, i)->name,
                   keys_limit(k, i)->n_request);
    put_family(out, "glim_key_tokens_total", "counter", "Tokens, by key: of prompts, and generated.");
    for (size_t i = 0; i < n; i++)
        str_printf(out,
                   "glim_key_tokens_total{key=\"%s\",kind=\"prompt\"} %" PRIu64 "\n"
                   "glim_key_tokens_total{key=\"%s\",kind=\"generated\"} %" PRIu64 "\n",
                   keys_limit(k, i)->name, keys_limit(k, i)->n_prompt, keys_limit(k, i)->name,
                   keys_limit(k, i)->n_token);
    put_family(out, "glim_key_running", "gauge", "Requests with a body under way, by key.");
    for (size_t i = 0; i < n; i++)
        str_printf(out, "glim_key_running{key=\"%s\"} %u\n", keys_limit(k, i)->name, keys_limit(k, i)->running);
    put_family(out, "glim_key_refused_total", "counter", "Requests refused by a limit of their key.");
    for (size_t i = 0; i < n; i++)
        for (size_t kind = 0; kind < LIMIT_KINDS; kind++)
            str_printf(out, "glim_key_refused_total{key=\"%s\",limit=\"%s\"} %" PRIu64 "\n", keys_limit(k, i)->name,
                       limit_name[kind], keys_limit(k, i)->n_refused[kind]);
}

void hub_print_metrics(struct hub *h, struct str *out, const struct http_stats *http)
{
    put_routes(h, out);
    put_number(out, "glim_http_response_bytes_total", "counter", "Bytes of bodies of answers.", h->n_byte);
    put_number(out, "glim_http_broken_total", "counter", "HTTP exchanges whose client went before the end.",
               h->n_broken);
    put_number(out, "glim_http_unauthorized_total", "counter", "Requests without a valid key.", h->n_unauthorized);
    put_number(out, "glim_http_connections", "gauge", "Connections that are open.", http->connections);
    put_number(out, "glim_http_connections_total", "counter", "Connections that were accepted.", http->accepted);
    put_number(out, "glim_http_refused_total", "counter", "Requests refused as malformed, too large or too slow.",
               http->refused);
    if (h->log)
        put_number(out, "glim_access_log_dropped_total", "counter", "Lines of the access log that were lost.",
                   access_log_dropped(h->log));
    put_keys(h->keys, out);
}
