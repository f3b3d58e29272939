/* Calls: from a request to its route's `run`, and from there to the answer. */
#include "serve/serve.h"

#include "base/mem.h"
#include "serve/access.h"
#include "serve/call.h"
#include "serve/streams.h"

#include <string.h>

enum { EXTRA_HEADERS = ACCESS_HEADERS + 4 };

/* ---- life ---- */

void call_hold(struct call *c)
{
    c->n_hold++;
}

void call_drop(struct call *c)
{
    if (--c->n_hold > 0)
        return;
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->server->n_call--;
    json_decref(c->query);
    json_decref(c->json);
    mem_free(c->body);
    str_fini(&c->ignored);
    str_fini(&c->frame);
    str_fini(&c->reply);
    access_drop(c->access);
    serve_look(c->server);
    mem_free(c);
}

/* The answer is complete, or nobody waits for it. */
static void let_go(struct call *c)
{
    c->x = NULL;
    c->ended = true;
    call_drop(c);
}

void call_gone(struct call *c)
{
    if (c->begun && c->on_gone)
        c->on_gone(c);
    call_drop(c);
}

/* A stream that is kept goes on, and holds the call in the exchange's place. */
static void gone(void *arg)
{
    struct call *c = arg;
    c->x = NULL;
    if (c->stream)
        stream_lost(c->stream);
    else
        call_gone(c);
}

static bool is_heard(const struct call *c)
{
    return c->x || c->stream;
}

/* ---- in `run` ---- */

glim_status call_reply_text(struct call *c, int status, const char *type, struct str *text, struct glim_err *e)
{
    if (text->failed) {
        str_fini(text);
        return err_nomem(e, "reply", text->n);
    }
    str_fini(&c->reply);
    c->reply = *text;
    *text = (struct str){0};
    c->status = status;
    c->type = type;
    return GLIM_OK;
}

glim_status call_reply_json(struct call *c, int status, json_t *body, struct glim_err *e)
{
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    struct str s = {0};
    str_puts(&s, text ? text : "");
    s.failed |= !text;
    json_decref(body);
    mem_free(text);
    return call_reply_text(c, status, "application/json", &s, e);
}

glim_status call_fail(struct call *c, int status, const char *param, const char *code, const struct glim_err *e)
{
    c->status = status;
    c->param = NULL;
    if (param) {
        snprintf(c->param_buffer, sizeof c->param_buffer, "%s", param);
        c->param = c->param_buffer;
    }
    c->code = code;
    return e->status;
}

void call_take(struct call *c, void (*begin)(struct call *c), void (*on_gone)(struct call *c), void *user)
{
    c->begin = begin;
    c->on_gone = on_gone;
    c->user = user;
}

/* ---- the answer, in the event thread ---- */

/* Names of members are the client's text: only what a header can hold is repeated. */
static void clean_header(struct str *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->s[i] < ' ' || s->s[i] > '~')
            s->s[i] = '?';
}

static size_t extra_headers(struct call *c, struct http_field f[EXTRA_HEADERS], char retry[24])
{
    size_t n = access_headers(c->access, f);
    if (c->ignored.n && !c->ignored.failed) {
        clean_header(&c->ignored);
        f[n++] = (struct http_field){"x-ignored-fields", c->ignored.s};
    }
    if (c->retry_s > 0) {
        snprintf(retry, 24, "%.0f", c->retry_s);
        f[n++] = (struct http_field){"retry-after", retry};
    }
    return n;
}

void call_stream(struct call *c, int status, const char *type)
{
    struct http_field f[EXTRA_HEADERS];
    char retry[24];
    if (!c->x)
        return;
    size_t n = extra_headers(c, f, retry);
    f[n++] = (struct http_field){"cache-control", "no-store"};
    c->streaming = true;
    if (c->resume_s && strcmp(type, "text/event-stream") == 0 && (c->stream = stream_create(c, c->resume_s)))
        f[n++] = (struct http_field){"x-stream-id", c->id};
    http_stream(c->x, status, f, n, type);
}

void call_send(struct call *c, const char *p, size_t n)
{
    if (c->stream)
        stream_feed(c->stream, p, n);
    else if (c->x)
        http_send(c->x, p, n);
}

void call_cut(struct call *c)
{
    struct http_exchange *x = c->x;
    if (!is_heard(c))
        return;
    if (c->stream)
        stream_break(c->stream);
    let_go(c);
    if (x)
        http_cut(x);
}

void call_event(struct call *c, const char *name, struct str *json)
{
    if (json->failed) {
        str_fini(json);
        call_cut(c);
        return;
    }
    struct str *f = &c->frame; /* sent as one piece: naive clients take a chunk for an event */
    if (name)
        str_printf(f, "event: %s\n", name);
    str_puts(f, "data: ");
    str_add(f, json->s, json->n);
    str_puts(f, "\n\n");
    str_clear(json);
    if (f->failed) {
        call_cut(c);
        return;
    }
    call_send(c, f->s, f->n);
    str_clear(f);
}

void call_end(struct call *c)
{
    struct http_exchange *x = c->x;
    if (!is_heard(c))
        return;
    if (c->stream)
        stream_end(c->stream);
    c->stream = NULL;
    let_go(c);
    if (x)
        http_end(x);
}

void call_answer_with(struct call *c, int status, const struct http_field *field, size_t n_field, const char *type,
                      const char *body, size_t n)
{
    struct http_field f[EXTRA_HEADERS + CALL_FIELDS];
    struct http_exchange *x = c->x;
    if (!x)
        return;
    size_t k = access_headers(c->access, f);
    for (size_t i = 0; i < n_field && i < CALL_FIELDS; i++)
        f[k++] = field[i];
    http_reply(x, status, f, k, type, body, n);
    let_go(c);
}

void call_answer(struct call *c, int status, const char *type, struct str *text)
{
    struct http_field f[EXTRA_HEADERS];
    char retry[24];
    struct http_exchange *x = c->x;
    if (text->failed) {
        call_cut(c);
    } else if (x) {
        size_t n = extra_headers(c, f, retry);
        http_reply(x, status, f, n, type, text->s ? text->s : "", text->n);
        let_go(c);
    }
    str_fini(text);
}

bool call_is_head(struct call *c, const char *type)
{
    if (!c->x || strcmp(http_request(c->x)->method, "HEAD") != 0)
        return false;
    c->on_gone = NULL;
    call_stream(c, 200, type);
    call_end(c);
    return true;
}

/* Seconds at the end of the engine's "try again in 3 s". */
static double retry_after(const char *message)
{
    const char *p = strstr(message, "try again in ");
    double s = 1;
    if (p)
        for (s = 0, p += 13; *p >= '0' && *p <= '9'; p++)
            s = s * 10 + (*p - '0');
    return s > 0 ? s : 1;
}

void call_error(struct call *c, int status, const struct glim_err *e)
{
    struct str body = {0};
    if (!is_heard(c))
        return;
    if ((status == 429 || status == 503) && c->retry_s == 0)
        c->retry_s = retry_after(e->message);
    route_print_error(&body, c->route->style, status, e->message, c->param, c->code);
    if (!c->streaming) {
        call_answer(c, status, "application/json", &body);
        return;
    }
    bool named = c->route->style == ROUTE_ANTHROPIC;
    if (c->route->style == ROUTE_OLLAMA) {
        str_putc(&body, '\n');
        call_send(c, body.s, body.failed ? 0 : body.n);
    } else {
        call_event(c, named ? "error" : NULL, &body);
    }
    str_fini(&body);
    call_end(c);
}

int serve_http_status(const struct server *s, const struct glim_err *e)
{
    if (atomic_load(&s->draining) && e->status != GLIM_USAGE)
        return 503;
    switch (e->status) {
    case GLIM_OK:
        return 200;
    case GLIM_USAGE:
    case GLIM_REFUSED:
        return 400;
    case GLIM_BUSY:
        return 429;
    case GLIM_FAILED:
        return 500;
    }
    return 500;
}

/* ---- the way of a call ---- */

/* `run` has returned: its worker lets go. */
static void finish(void *arg)
{
    struct call *c = arg;
    if (c->outcome != GLIM_OK) {
        struct glim_err e = c->err;
        call_error(c, c->status ? c->status : serve_http_status(c->server, &e), &e);
    } else if (c->begin) {
        c->begun = true;
        c->begin(c);
    } else {
        call_answer(c, c->status ? c->status : 200, c->type ? c->type : "application/json", &c->reply);
    }
    call_drop(c);
}

static glim_status check_body(struct call *c, struct glim_err *e)
{
    bool lax = c->server->lv->unknown_fields == LEVER_UNKNOWN_IGNORE;
    struct field_report r = {.lax = lax};
    glim_status st = json_parse(c->body ? c->body : "", c->n_body, "the body", &c->json, e);
    if (st != GLIM_OK)
        return strncmp(e->message, "out of memory", 13) == 0 ? st : call_fail(c, 400, NULL, "invalid_json", e);
    st = field_check(c->route->request, c->json, &r, e);
    c->ignored = r.ignored;
    return st == GLIM_OK ? GLIM_OK : call_fail(c, 400, r.path, "invalid_value", e);
}

static void run(struct call *c)
{
    struct glim_err *e = &c->err;
    c->outcome = c->route->request ? check_body(c, e) : GLIM_OK;
    if (c->outcome == GLIM_OK)
        c->outcome = c->route->run(c, e);
}

static void run_in_worker(void *arg)
{
    struct call *c = arg;
    run(c);
    http_post(c->server->http, &c->note);
}

/* A parameter as JSON, of the kind its shape wants; what does not read as that stays a string, which the check then
 * refuses. */
static json_t *parameter(const struct field_shape *s, const char *name, const char *value)
{
    int64_t i;
    double d;
    for (; s; s = s->also)
        for (size_t k = 0; k < s->n_field; k++) {
            if (strcmp(s->field[k].name, name) != 0)
                continue;
            unsigned kinds = s->field[k].shape->kinds;
            if ((kinds & FIELD_INT) && parse_i64(value, &i))
                return json_integer(i);
            if ((kinds & FIELD_NUMBER) && parse_f64(value, &d))
                return json_real(d);
            if ((kinds & FIELD_BOOL) && (strcmp(value, "true") == 0 || strcmp(value, "false") == 0))
                return json_boolean(value[0] == 't');
        }
    return json_string(value);
}

static glim_status read_query(struct call *c, const char *query, struct glim_err *e)
{
    static const struct field_shape none = {.kinds = FIELD_OBJECT};
    const struct field_shape *s = c->route->query ? c->route->query : &none;
    struct field_report r = {.lax = c->server->lv->unknown_fields == LEVER_UNKNOWN_IGNORE};
    char *copy = mem_strdup(query);
    glim_status st = GLIM_OK;
    json_setup();
    if (!(c->query = json_object()) || !copy)
        st = err_nomem(e, "query", strlen(query));
    for (char *p = copy, *next; st == GLIM_OK && p && *p; p = next) {
        next = p + strcspn(p, "&");
        if (*next)
            *next++ = 0;
        char *value = p + strcspn(p, "=");
        if (*value)
            *value++ = 0;
        for (char *q = value; *q; q++)
            *q = *q == '+' ? ' ' : *q;
        if (!http_unescape(p) || !http_unescape(value) || json_object_get(c->query, p))
            st = err_set(e, GLIM_REFUSED, "the query: have a broken or repeated parameter, need each once");
        else if (json_object_set_new(c->query, p, parameter(s, p, value)) != 0)
            st = err_set(e, GLIM_REFUSED, "the query: have a parameter that is no UTF-8, need text");
    }
    mem_free(copy);
    if (st == GLIM_OK && (st = field_check(s, c->query, &r, e)) != GLIM_OK)
        call_fail(c, 400, r.path, "invalid_value", e);
    field_report_fini(&r);
    return st;
}

static struct call *call_create(struct server *s, struct http_exchange *x, const struct http_request *r)
{
    struct call *c = mem_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->server = s;
    c->x = x;
    route_find(r->method, r->path, &c->match);
    c->route = c->match.route;
    c->access = http_data(x);
    access_hold(c->access);
    snprintf(c->id, sizeof c->id, "%s", c->access->made);
    c->resume_s = stream_seconds(r);
    clock_gettime(CLOCK_MONOTONIC, &c->arrived);
    c->n_hold = 2; /* the exchange and `run` */
    c->work = (struct work){.fn = run_in_worker, .arg = c};
    c->note = (struct http_note){.fn = finish, .arg = c};
    c->next = s->call;
    c->link = &s->call;
    if (s->call)
        s->call->link = &c->next;
    s->call = c;
    s->n_call++;
    http_on_close(x, gone, c);
    return c;
}

/* ---- what the transport calls ---- */

static void refuse(struct http_exchange *x, int status, const struct http_field *field, const char *code,
                   const char *message)
{
    const struct access *a = http_data(x);
    struct http_field f[ACCESS_HEADERS + 1];
    struct str body = {0};
    size_t n = access_headers(a, f);
    if (field)
        f[n++] = *field;
    route_print_error(&body, a->route ? a->route->style : route_style_of(http_request(x)->path), status, message, NULL,
                      code);
    if (body.failed)
        http_cut(x);
    else
        http_reply(x, status, f, n, "application/json", body.s, body.n);
    str_fini(&body);
}

/* Is there such a route? */
static bool is_known(struct http_exchange *x, const struct http_request *r, const struct route_match *m, int status)
{
    char message[300];
    struct http_field allow = {"allow", m->allow};
    if (status == 404) {
        snprintf(message, sizeof message, "route: have %.200s, need one of those in /openapi.json", r->path);
        refuse(x, 404, NULL, "unknown_route", message);
    } else if (status == 405) {
        snprintf(message, sizeof message, "method: have %s, need %s", r->method, m->allow);
        refuse(x, 405, &allow, "method_not_allowed", message);
    } else if (status == 501) {
        snprintf(message, sizeof message, "route: have %.120s, need another: %s", r->path, m->route->absent);
        refuse(x, 501, NULL, "not_supported", message);
    }
    return status == 200;
}

/* Who asks is known and may begin. What carries no body costs nothing: it has no limits, and goes on to the end. */
static bool may_begin(struct server *s, struct http_exchange *x, const struct http_request *r)
{
    struct access *a = http_data(x);
    struct http_field bearer = {"www-authenticate", "Bearer"}, retry = {"retry-after", "5"};
    enum limit_kind kind;
    double wait_s;
    char message[200], seconds[24];
    if (!access_key(a, r)) {
        refuse(x, 401, &bearer, "invalid_api_key",
               "API key: have none that is known, need one as Authorization: Bearer KEY or x-api-key: KEY");
        return false;
    }
    if (!a->route->request)
        return true;
    if (atomic_load(&s->draining)) {
        refuse(x, 503, &retry, "shutting_down", "server: have a new request, need none: it is shutting down");
        return false;
    }
    if (!access_begin(a, &kind, &wait_s)) {
        snprintf(seconds, sizeof seconds, "%.0f", wait_s);
        snprintf(message, sizeof message, "API key %s: limit of %s: have as many as allowed: try again in %s s",
                 a->limit->name, limit_says[kind], seconds);
        retry.value = seconds;
        refuse(x, 429, &retry, "rate_limit_exceeded", message);
        return false;
    }
    return true;
}

/* The answer to a browser's question whether a page may ask. */
static void answer_preflight(struct http_exchange *x, const struct http_request *r)
{
    struct http_field f[ACCESS_HEADERS + 3];
    size_t n = access_preflight(http_data(x), r, f);
    http_reply(x, 204, f, n, NULL, "", 0);
}

void call_on_head(void *user, struct http_exchange *x, const struct http_request *r)
{
    struct server *s = user;
    struct route_match m;
    int status = route_find(r->method, r->path, &m);
    struct access *a = access_create(s->hub, x, r, m.route);
    if (!a) {
        http_cut(x);
        return;
    }
    if (atomic_load(&s->draining))
        http_last(x);
    if (!access_origin(a, r))
        refuse(x, 403, NULL, "foreign_origin",
               "origin: have a page of another origin, need one that the lever cors lists");
    else if (access_is_preflight(r))
        answer_preflight(x, r);
    else if (is_known(x, r, &m, status) && may_begin(s, x, r)) {
        if (stream_seconds(r) < 0)
            refuse(x, 400, NULL, "invalid_value", "x-resume-seconds: have something else, need a number from 1 to 600");
        else
            http_body_limit(x, route_body_max(m.route));
    }
}

void call_on_ended(void *user, const struct http_record *rec)
{
    struct server *s = user;
    access_ended(s->hub, rec);
}

void call_on_request(void *user, struct http_exchange *x, const struct http_request *r)
{
    struct server *s = user;
    struct call *c = call_create(s, x, r);
    if (!c) {
        http_cut(x);
        return;
    }
    if (c->route->request)
        c->body = http_take_body(x, &c->n_body);
    c->outcome = read_query(c, r->query, &c->err);
    if (c->outcome == GLIM_OK && !c->route->quick) {
        serve_work(s, &c->work);
        return;
    }
    if (c->outcome == GLIM_OK)
        run(c);
    finish(c);
}

void call_on_refusal(void *user, const char *path, int status, const char *sentence, struct str *body)
{
    (void)user;
    route_print_error(body, route_style_of(path ? path : ""), status, sentence, NULL, NULL);
}
