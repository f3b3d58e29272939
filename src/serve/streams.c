#include "serve/streams.h"

#include "base/mem.h"
#include "serve/access.h"
#include "serve/job.h"

#include <string.h>

struct stream {
    struct server *server;
    struct call *producer; /* NULL: it has ended */
    struct call *reader;   /* NULL: nobody; the producer itself at first */
    struct limit *limit;   /* of its key; NULL */
    char id[CALL_ID_MAX];
    int seconds;
    struct http_timer *timer;      /* runs while there is no reader, and after the end */
    struct str kept;               /* events first … last, each with its blank line */
    uint64_t first, last;          /* first > last: none */
    bool inside, comment, newline; /* of an event; which is a comment; the last byte ended a line */
    bool lost;                     /* memory ran out: nothing more is kept, and soon it is forgotten */
    struct stream *next, **link;
};

int stream_seconds(const struct http_request *r)
{
    const char *s = http_header(r, "x-resume-seconds");
    int64_t v;
    if (!s)
        return 0;
    return parse_i64(s, &v) && v >= 1 && v <= STREAM_SECONDS_MAX ? (int)v : -1;
}

/* ---- life ---- */

static void stream_free(struct stream *t)
{
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    t->server->n_stream--;
    http_timer_free(t->timer);
    limit_drop(t->limit);
    str_fini(&t->kept);
    mem_free(t);
}

/* Nobody will read it. What its producer has to say is said to nobody. */
static void forget(struct stream *t)
{
    struct call *p = t->producer, *r = t->reader;
    t->reader = NULL;
    t->producer = NULL;
    if (r && r != p) {
        r->on_gone = NULL;
        call_cut(r);
    }
    stream_free(t);
    if (!p)
        return;
    p->stream = NULL;
    if (p->x)
        http_cut(p->x);
    p->x = NULL;
    call_gone(p);
}

static void on_time(void *arg)
{
    forget(arg);
}

static bool make_room(struct server *s)
{
    struct stream *oldest = NULL;
    if (s->n_stream < STREAMS_MAX)
        return true;
    for (struct stream *t = s->stream; t; t = t->next)
        if (!t->producer)
            oldest = t;
    if (oldest)
        forget(oldest);
    return oldest != NULL;
}

struct stream *stream_create(struct call *c, int seconds)
{
    struct server *s = c->server;
    struct stream *t = make_room(s) ? mem_calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    *t = (struct stream){.server = s, .producer = c, .reader = c, .seconds = seconds, .first = 1, .newline = true};
    if (!(t->timer = http_timer_create(s->http, on_time, t))) {
        mem_free(t);
        return NULL;
    }
    snprintf(t->id, sizeof t->id, "%s", c->id);
    if ((t->limit = c->access->limit))
        limit_hold(t->limit);
    t->next = s->stream;
    t->link = &s->stream;
    if (t->next)
        t->next->link = &t->next;
    s->stream = t;
    s->n_stream++;
    return t;
}

void streams_free(struct server *s)
{
    while (s->stream)
        forget(s->stream);
}

/* ---- events ---- */

/* Just after the n-th blank line of text[len]. */
static size_t skip_events(const char *text, size_t len, uint64_t n)
{
    const char *p = text, *end = text + len;
    for (; n && p < end; n--) {
        p = memmem(p, (size_t)(end - p), "\n\n", 2);
        if (!p)
            return len;
        p += 2;
    }
    return (size_t)(p - text);
}

/* The older half goes, in whole events. */
static void shorten(struct stream *t)
{
    size_t at = 0, next = 0;
    while (t->kept.n - at > STREAM_KEEP / 2 && (next = skip_events(t->kept.s + at, t->kept.n - at, 1)) &&
           t->first < t->last) {
        at += next;
        t->first++;
    }
    memmove(t->kept.s, t->kept.s + at, t->kept.n - at);
    t->kept.n -= at;
    t->kept.s[t->kept.n] = 0;
}

/* p[n] goes on with the stream; what a reader gets is appended to out, what is kept to t->kept. */
static void number(struct stream *t, const char *p, size_t n, struct str *out)
{
    for (size_t i = 0, from = 0; i < n; from = i) {
        size_t at = out->n;
        if (!t->inside) {
            t->inside = true;
            t->comment = p[i] == ':';
            if (!t->comment)
                str_printf(out, "id: %llu\n", (unsigned long long)++t->last);
        }
        for (bool end = false; i < n && !end; i++) {
            end = p[i] == '\n' && t->newline;
            t->newline = p[i] == '\n';
            t->inside = !end;
        }
        str_add(out, p + from, i - from);
        if (!t->comment && !out->failed)
            str_add(&t->kept, out->s + at, out->n - at);
    }
}

/* Another reader takes over, or this one is too slow. The producer goes on. */
static void send_away(struct stream *t)
{
    struct call *r = t->reader;
    t->reader = NULL;
    if (r && r == t->producer) {
        http_cut(r->x);
        r->x = NULL;
    } else if (r) {
        r->on_gone = NULL;
        call_cut(r);
    }
}

/* The reader has gone: who comes within so many seconds goes on. */
static void unread(struct stream *t)
{
    t->reader = NULL;
    http_timer_start(t->timer, t->seconds);
}

/* Called from within an emitter: nothing that the producer holds may go now. */
void stream_feed(struct stream *t, const char *p, size_t n)
{
    struct str out = {0};
    struct call *r = t->reader;
    if (t->lost)
        return;
    number(t, p, n, &out);
    if (out.failed || t->kept.failed) {
        t->lost = true;
        http_timer_start(t->timer, 0);
    } else if (r) {
        http_send(r->x, out.s, out.n);
        if (r != t->producer && http_backlog(r->x) > STREAM_KEEP) { /* it may come back */
            send_away(t);
            unread(t);
        }
    }
    if (t->kept.n > STREAM_KEEP)
        shorten(t);
    str_fini(&out);
}

void stream_end(struct stream *t)
{
    struct call *r = t->reader;
    if (r && r != t->producer) {
        r->on_gone = NULL;
        call_end(r);
    }
    t->producer = t->reader = NULL;
    http_timer_start(t->timer, t->seconds);
}

void stream_break(struct stream *t)
{
    t->producer->stream = NULL;
    if (t->reader == t->producer)
        t->reader = NULL;
    t->producer = NULL;
    forget(t);
}

void stream_lost(struct stream *t)
{
    if (t->reader == t->producer)
        unread(t);
    if (t->producer->job)
        job_unblock(t->producer->job);
}

/* ---- reading ---- */

static void on_reader_gone(struct call *c)
{
    struct stream *t = c->user;
    if (t->reader == c)
        unread(t);
}

static struct stream *find(const struct call *c)
{
    for (struct stream *t = c->server->stream; t; t = t->next)
        if (strcmp(t->id, c->match.param[0]) == 0 && t->limit == c->access->limit)
            return t;
    return NULL;
}

/* The number of the last event the client has. */
static bool read_after(const struct call *c, uint64_t *after)
{
    const char *last = http_header(http_request(c->x), "last-event-id");
    int64_t n = field_get_int(c->query, "after", -1);
    *after = n >= 0 ? (uint64_t)n : 0;
    return n >= 0 || !last || parse_u64(last, after);
}

static void begin(struct call *c)
{
    struct stream *t = c->user;
    uint64_t after = 0;
    if (call_is_head(c, "text/event-stream"))
        return;
    read_after(c, &after);
    send_away(t);
    if (t->producer && t->producer->job) {
        job_unblock(t->producer->job);
        if (!(t = find(c))) { /* what had waited there was an end with an error */
            c->on_gone = NULL;
            call_cut(c);
            return;
        }
    }
    http_timer_stop(t->timer);
    call_stream(c, 200, "text/event-stream");
    size_t at = skip_events(t->kept.s ? t->kept.s : "", t->kept.n, after + 1 - t->first);
    call_send(c, t->kept.s + at, t->kept.n - at);
    if (t->producer) {
        t->reader = c;
        return;
    }
    c->on_gone = NULL;
    call_end(c);
    http_timer_start(t->timer, t->seconds);
}

glim_status stream_run(struct call *c, struct glim_err *e)
{
    struct stream *t = find(c);
    uint64_t after;
    if (!t) {
        err_set(e, GLIM_REFUSED, "stream: have no %.60s, need one that is kept", c->match.param[0]);
        return call_fail(c, 404, "id", "unknown_stream", e);
    }
    if (!read_after(c, &after)) {
        err_set(e, GLIM_REFUSED, "stream: Last-Event-ID: have something else, need a number");
        return call_fail(c, 400, "after", "invalid_value", e);
    }
    if (after > t->last) {
        err_set(e, GLIM_REFUSED, "stream: after: have %llu, need at most %llu", (unsigned long long)after,
                (unsigned long long)t->last);
        return call_fail(c, 400, "after", "invalid_value", e);
    }
    if (after + 1 < t->first) {
        err_set(e, GLIM_REFUSED, "stream: after: have %llu, need at least %llu: earlier events are not kept",
                (unsigned long long)after, (unsigned long long)t->first - 1);
        return call_fail(c, 410, "after", "events_gone", e);
    }
    call_take(c, begin, on_reader_gone, t);
    return GLIM_OK;
}
