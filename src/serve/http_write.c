/* Answers. Everything goes into the socket's buffer, which the event loop empties; lack of memory dooms the connection,
 * so that no client ever takes a part for the whole. */
#include "serve/http_impl.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } table[] = {
        {100, "Continue"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == status)
            return table[i].text;
    return "Unknown";
}

static void queue(struct http_exchange *x, const char *p, size_t n)
{
    if (x->state == CONN_DOOMED || n == 0)
        return;
    if (evbuffer_add(bufferevent_get_output(x->bev), p, n) != 0) {
        conn_doom(x);
        return;
    }
    x->queued += n;
    conn_watch(x);
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", made once a second. */
static const char *date(struct http_server *s)
{
    time_t now = time(NULL);
    struct tm tm;
    if (now != s->date_s && gmtime_r(&now, &tm)) {
        static const char day[] = "SunMonTueWedThuFriSat", month[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        snprintf(s->date, sizeof s->date, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", day + 3 * tm.tm_wday, tm.tm_mday,
                 month + 3 * tm.tm_mon, (tm.tm_year + 1900) % 10000, tm.tm_hour, tm.tm_min, tm.tm_sec);
        s->date_s = now;
    }
    return s->date;
}

/* A value can end neither its line nor the header section. */
static void put_field(struct str *b, const char *name, const char *value)
{
    str_puts(b, name);
    str_puts(b, ": ");
    for (const char *p = value; *p; p++)
        str_putc(b, (unsigned char)*p < 0x20 || *p == 0x7f ? ' ' : *p);
    str_puts(b, "\r\n");
}

/* Status line and header section; `framing` is the field that says how the body ends, or NULL. */
static void put_head(struct http_exchange *x, int status, const struct http_field *field, size_t n_field,
                     const char *type, const char *framing)
{
    struct str b = {0};
    x->status = status;
    x->last |= !x->parse.keep_alive || atomic_load(&x->server->draining);
    str_printf(&b, "HTTP/1.1 %d %s\r\n", status, reason(status));
    put_field(&b, "date", date(x->server));
    if (type)
        put_field(&b, "content-type", type);
    if (framing)
        str_puts(&b, framing);
    for (size_t i = 0; i < n_field; i++)
        put_field(&b, field[i].name, field[i].value);
    if (x->last)
        put_field(&b, "connection", "close");
    else if (x->parse.http10)
        put_field(&b, "connection", "keep-alive");
    str_puts(&b, "\r\n");
    if (b.failed)
        conn_doom(x);
    else
        queue(x, b.s, b.n);
    str_fini(&b);
}

/* An answer before the body has been read: what follows on this connection would be that body. */
static void begin_answer(struct http_exchange *x)
{
    if (x->state != CONN_BODY)
        return;
    x->last |= x->parse.chunked || x->parse.length;
    conn_answer(x);
}

static void finish_answer(struct http_exchange *x)
{
    x->closed = NULL;
    x->drained = NULL;
    if (x->state != CONN_DOOMED)
        conn_flush(x);
}

void http_reply(struct http_exchange *x, int status, const struct http_field *field, size_t n_field, const char *type,
                const char *body, size_t n)
{
    char length[48];
    bool bodyless = status == 204 || status == 304;
    begin_answer(x);
    x->mute |= bodyless;
    snprintf(length, sizeof length, "content-length: %zu\r\n", n);
    put_head(x, status, field, n_field, type, bodyless ? NULL : length);
    if (!x->mute) {
        queue(x, body, n);
        x->sent += n;
    }
    finish_answer(x);
}

void http_stream(struct http_exchange *x, int status, const struct http_field *field, size_t n_field, const char *type)
{
    begin_answer(x);
    bool bodyless = status == 204 || status == 304;
    x->mute |= bodyless;
    x->chunks = !x->parse.http10 && !bodyless;
    x->last |= x->parse.http10; /* the end of the connection is the end of the body */
    put_head(x, status, field, n_field, type, x->chunks ? "transfer-encoding: chunked\r\n" : NULL);
}

void http_send(struct http_exchange *x, const char *p, size_t n)
{
    char size[24];
    if (n == 0 || x->mute)
        return;
    if (x->chunks)
        queue(x, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n));
    queue(x, p, n);
    if (x->chunks)
        queue(x, "\r\n", 2);
    x->sent += n;
}

void http_end(struct http_exchange *x)
{
    if (x->chunks && !x->mute)
        queue(x, "0\r\n\r\n", 5);
    finish_answer(x);
}

void http_cut(struct http_exchange *x)
{
    x->closed = NULL;
    x->drained = NULL;
    conn_doom(x);
}

void write_refusal(struct http_exchange *x, int status, const char *sentence)
{
    const struct http_config *c = &x->server->config;
    struct str body = {0};
    const char *type = "application/json", *path = x->parse.head_done ? x->parse.request.path : NULL;
    if (c->refusal) {
        c->refusal(c->user, path, status, sentence, &body);
    } else {
        type = "text/plain; charset=utf-8";
        str_printf(&body, "%s\n", sentence);
    }
    x->last = true;
    if (body.failed)
        conn_doom(x);
    else
        http_reply(x, status, NULL, 0, type, body.s ? body.s : "", body.n);
    str_fini(&body);
}

void write_continue(struct http_exchange *x)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    queue(x, line, sizeof line - 1);
}
