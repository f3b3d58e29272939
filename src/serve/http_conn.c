/* A connection's life: accepted, read, answered, flushed, and back to idle or through a linger to its end.
 *
 * A connection has one timer, which means what its state makes of it: the next request, the rest of a header section or
 * body, a client that takes nothing, the end of a linger, doom. While a handler is thinking and nothing is queued it
 * does not run. Reading never stops, so that a client's going away is heard at once in every state. */
#include "serve/http_impl.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static void conn_input(struct http_exchange *x);

static size_t backlog(const struct http_exchange *x)
{
    return evbuffer_get_length(bufferevent_get_output(x->bev));
}

/* Enter a state; its timer fires after so many seconds, 0: never. */
static void enter(struct http_exchange *x, enum conn_state state, double seconds)
{
    x->state = state;
    event_del(x->timer); /* one that has fired and waits to be called is taken back too */
    if (seconds > 0) {
        struct timeval tv = http_timeval(seconds);
        event_add(x->timer, &tv);
    }
}

void conn_doom(struct http_exchange *x)
{
    if (x->state == CONN_DOOMED)
        return;
    bufferevent_disable(x->bev, EV_READ | EV_WRITE);
    enter(x, CONN_DOOMED, 0);
    event_active(x->timer, EV_TIMEOUT, 0);
}

/* ---- the exchange ---- */

static void begin_exchange(struct http_exchange *x)
{
    x->open = true;
    x->begin_s = http_now();
    atomic_fetch_add(&x->server->n_exchange, 1);
}

static void end_exchange(struct http_exchange *x, bool complete)
{
    const struct http_config *c = &x->server->config;
    if (!x->open)
        return;
    x->open = false;
    atomic_fetch_sub(&x->server->n_exchange, 1);
    struct http_record rec = {.request = x->parse.request.field ? &x->parse.request : NULL,
                              .peer = x->peer,
                              .status = x->status,
                              .complete = complete,
                              .sent = x->sent,
                              .seconds = http_now() - x->begin_s,
                              .data = x->data};
    if (c->ended)
        c->ended(c->user, &rec);
}

/* Only at the bottom of a callback of the event loop: x is gone. */
static void conn_close(struct http_exchange *x)
{
    struct http_server *s = x->server;
    if (x->open && x->status) { /* a broken answer must not look like one that ended */
        struct linger reset = {1, 0};
        setsockopt(bufferevent_getfd(x->bev), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    enter(x, CONN_DOOMED, 0);
    if (x->closed)
        x->closed(x->closed_arg);
    end_exchange(x, false);
    if (x->prev)
        x->prev->next = x->next;
    else
        s->conn = x->next;
    if (x->next)
        x->next->prev = x->prev;
    bufferevent_free(x->bev);
    event_free(x->timer);
    http_parse_reset(&x->parse);
    mem_free(x);
    atomic_fetch_sub(&s->n_conn, 1);
    server_conn_gone(s);
}

/* A refusal ends the connection: after it there is no telling where a next request would begin. */
static void refuse(struct http_exchange *x, int status, const char *sentence)
{
    atomic_fetch_add(&x->server->n_refused, 1);
    if (!x->open)
        begin_exchange(x);
    conn_answer(x);
    write_refusal(x, status, sentence);
}

/* ---- after an answer ---- */

/* Say goodbye and wait for the client to close: closing with unread bytes would take the answer from it. */
static void linger(struct http_exchange *x)
{
    if (x->eof) {
        conn_close(x);
        return;
    }
    if (x->ssl && SSL_is_init_finished(x->ssl))
        SSL_shutdown(x->ssl);
    shutdown(bufferevent_getfd(x->bev), SHUT_WR);
    struct evbuffer *in = bufferevent_get_input(x->bev);
    evbuffer_drain(in, evbuffer_get_length(in));
    enter(x, CONN_LINGER, HTTP_LINGER_S);
}

/* The socket has taken the whole answer. */
static void answered(struct http_exchange *x)
{
    struct http_server *s = x->server;
    end_exchange(x, true);
    if (x->last || x->eof || atomic_load(&s->draining)) {
        linger(x);
        return;
    }
    http_parse_reset(&x->parse);
    x->mute = x->chunks = false;
    x->status = 0;
    x->sent = 0;
    x->data = NULL;
    bufferevent_setwatermark(x->bev, EV_WRITE, 0, 0);
    enter(x, CONN_IDLE, s->config.idle_s);
    conn_input(x);
}

void conn_answer(struct http_exchange *x)
{
    enter(x, CONN_ANSWER, 0);
}

void conn_flush(struct http_exchange *x)
{
    x->state = CONN_FLUSH;
    if (backlog(x) == 0) /* a stream that had nothing left to say */
        event_active(x->timer, EV_TIMEOUT, 0);
}

void conn_watch(struct http_exchange *x)
{
    if ((x->state != CONN_ANSWER && x->state != CONN_FLUSH) || evtimer_pending(x->timer, NULL))
        return;
    x->taken = x->queued - backlog(x);
    x->still = 0;
    enter(x, x->state, x->server->config.stall_s / HTTP_STALL_LOOKS);
}

/* Has the client taken anything since the last look? */
static void look(struct http_exchange *x)
{
    size_t left = backlog(x);
    if (left == 0) {
        if (x->state == CONN_FLUSH)
            answered(x);
        return;
    }
    uint64_t taken = x->queued - left;
    x->still = taken == x->taken ? x->still + 1 : 0;
    x->taken = taken;
    if (x->still >= HTTP_STALL_LOOKS)
        conn_close(x);
    else
        enter(x, x->state, x->server->config.stall_s / HTTP_STALL_LOOKS);
}

void conn_drain(struct http_exchange *x)
{
    x->last = true;
    if (x->state == CONN_IDLE)
        conn_doom(x);
}

/* ---- reading ---- */

static void got_head(struct http_exchange *x)
{
    struct http_server *s = x->server;
    struct http_parse *p = &x->parse;
    struct http_request *r = &p->request;
    r->peer = x->peer;
    r->peer_port = x->peer_port;
    r->tls = x->ssl != NULL;
    begin_exchange(x);
    enter(x, CONN_BODY, s->config.body_s);
    x->mute = p->ll.method == HTTP_HEAD;
    if ((*p->authority && !http_names_have(&s->names, p->authority)) ||
        (p->target_authority && !http_names_have(&s->names, p->target_authority))) {
        refuse(x, 403, "request: Host: have a name that is not this server's");
        return;
    }
    if (s->config.head)
        s->config.head(s->config.user, x, r);
    if (x->state == CONN_BODY && p->expects && p->length <= p->max_body &&
        evbuffer_get_length(bufferevent_get_input(x->bev)) == 0)
        write_continue(x);
}

static void parsed(struct http_exchange *x, enum http_parsed what)
{
    const struct http_config *c = &x->server->config;
    switch (what) {
    case HTTP_PARSED_ALL:
        if (x->state == CONN_IDLE && x->parse.began)
            enter(x, CONN_HEAD, c->head_s);
        break;
    case HTTP_PARSED_HEAD:
        got_head(x);
        break;
    case HTTP_PARSED_DONE:
        conn_answer(x);
        c->handle(c->user, x, &x->parse.request);
        break;
    case HTTP_PARSED_BAD:
        refuse(x, x->parse.status, x->parse.sentence);
        break;
    }
}

/* Parse until there is a request to answer, or nothing left. */
static void conn_input(struct http_exchange *x)
{
    struct evbuffer *in = bufferevent_get_input(x->bev);
    enum http_parsed what = HTTP_PARSED_ALL;
    while ((x->state == CONN_IDLE || x->state == CONN_HEAD || x->state == CONN_BODY) &&
           (what == HTTP_PARSED_HEAD || evbuffer_get_length(in))) {
        struct evbuffer_iovec v = {"", 0};
        size_t used;
        evbuffer_peek(in, -1, NULL, &v, 1);
        what = http_parse_feed(&x->parse, v.iov_base, v.iov_len, &used);
        evbuffer_drain(in, used); /* the parser keeps copies */
        parsed(x, what);
    }
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct http_exchange *x = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    switch (x->state) {
    case CONN_IDLE:
    case CONN_HEAD:
    case CONN_BODY:
        conn_input(x);
        break;
    case CONN_ANSWER:
    case CONN_FLUSH:
        if (x->last)
            evbuffer_drain(in, evbuffer_get_length(in));
        else if (evbuffer_get_length(in) > HTTP_AHEAD_MAX)
            conn_close(x);
        break;
    case CONN_LINGER:
        evbuffer_drain(in, evbuffer_get_length(in));
        break;
    case CONN_DOOMED:
        break;
    }
}

/* ---- the loop's other callbacks ---- */

static void on_write(struct bufferevent *bev, void *arg)
{
    struct http_exchange *x = arg;
    (void)bev;
    if (x->drained && backlog(x) <= x->mark) {
        void (*fn)(void *) = x->drained;
        x->drained = NULL;
        fn(x->drained_arg);
    }
    if (backlog(x) > 0 || (x->state != CONN_ANSWER && x->state != CONN_FLUSH))
        return;
    event_del(x->timer); /* nothing queued, nothing to watch */
    if (x->state == CONN_FLUSH)
        answered(x);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct http_exchange *x = arg;
    (void)bev;
    if (x->state == CONN_DOOMED || (what & BEV_EVENT_CONNECTED))
        return;
    x->eof = true;
    if (x->state != CONN_FLUSH || (what & BEV_EVENT_ERROR)) /* what has been said may still be read */
        conn_close(x);
}

static void body_late(struct http_exchange *x)
{
    const struct http_config *c = &x->server->config;
    double late = http_now() - x->begin_s, may = c->body_s + (double)x->parse.body.n / c->body_rate;
    if (late >= may)
        refuse(x, 408, "request: body: too slow");
    else
        enter(x, CONN_BODY, may - late + 1e-3);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http_exchange *x = arg;
    (void)fd;
    (void)what;
    switch (x->state) {
    case CONN_HEAD:
        refuse(x, 408, "request: header section: too slow");
        break;
    case CONN_BODY:
        body_late(x);
        break;
    case CONN_ANSWER:
    case CONN_FLUSH:
        look(x);
        break;
    case CONN_IDLE:
    case CONN_LINGER:
    case CONN_DOOMED:
        conn_close(x);
        break;
    }
}

/* ---- the beginning ---- */

static struct bufferevent *open_bufferevent(struct http_exchange *x, evutil_socket_t fd)
{
    struct http_server *s = x->server;
    if (!s->config.tls_cert)
        return bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
    pthread_mutex_lock(&s->lock);
    x->ssl = SSL_new(s->tls);
    pthread_mutex_unlock(&s->lock);
    return x->ssl
               ? bufferevent_openssl_socket_new(s->base, fd, x->ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE)
               : NULL; /* on failure the SSL is freed, the socket is not closed */
}

static struct http_exchange *conn_new(struct http_server *s, evutil_socket_t fd)
{
    struct http_exchange *x = mem_calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->server = s;
    x->timer = evtimer_new(s->base, on_timer, x);
    x->bev = x->timer ? open_bufferevent(x, fd) : NULL;
    if (!x->bev) {
        if (x->timer)
            event_free(x->timer);
        mem_free(x);
        return NULL;
    }
    http_parse_init(&x->parse, &s->config);
    return x;
}

static void set_peer(struct http_exchange *x, const struct sockaddr *peer)
{
    if (peer->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)peer;
        inet_ntop(AF_INET, &in->sin_addr, x->peer, sizeof x->peer);
        x->peer_port = ntohs(in->sin_port);
    } else if (peer->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)peer;
        inet_ntop(AF_INET6, &in->sin6_addr, x->peer, sizeof x->peer);
        x->peer_port = ntohs(in->sin6_port);
    }
}

void conn_accept(struct http_server *s, evutil_socket_t fd, const struct sockaddr *peer)
{
    uint32_t n = atomic_load(&s->n_conn);
    struct http_exchange *x = n < s->config.max_connections + HTTP_OVER_MAX ? conn_new(s, fd) : NULL;
    if (!x) {
        close(fd);
        return;
    }
    atomic_fetch_add(&s->n_conn, 1);
    atomic_fetch_add(&s->n_accepted, 1);
    set_peer(x, peer);
    x->next = s->conn;
    if (x->next)
        x->next->prev = x;
    s->conn = x;
    bufferevent_setcb(x->bev, on_read, on_write, on_event, x);
    enter(x, CONN_IDLE, s->config.head_s);
    if (n >= s->config.max_connections)
        refuse(x, 503, "server: connections: have as many as allowed");
    if (bufferevent_enable(x->bev, EV_READ) != 0)
        conn_doom(x);
}

/* ---- what handlers ask of an exchange ---- */

void http_body_limit(struct http_exchange *x, uint64_t bytes)
{
    x->parse.max_body = bytes;
}

void http_last(struct http_exchange *x)
{
    x->last = true;
}

char *http_take_body(struct http_exchange *x, size_t *n)
{
    char *body = x->parse.body.s;
    *n = x->parse.body.n;
    x->parse.body = (struct str){0};
    x->parse.request.body = "";
    x->parse.request.n_body = 0;
    return body;
}

const struct http_request *http_request(const struct http_exchange *x)
{
    return &x->parse.request;
}

void http_set_data(struct http_exchange *x, void *data)
{
    x->data = data;
}

void *http_data(const struct http_exchange *x)
{
    return x->data;
}

size_t http_backlog(const struct http_exchange *x)
{
    return backlog(x);
}

void http_on_drain(struct http_exchange *x, size_t mark, void (*fn)(void *arg), void *arg)
{
    x->drained = fn;
    x->drained_arg = arg;
    x->mark = mark;
    bufferevent_setwatermark(x->bev, EV_WRITE, fn ? mark : 0, 0);
    if (fn && backlog(x) <= mark && x->state != CONN_DOOMED)
        bufferevent_trigger(x->bev, EV_WRITE, BEV_OPT_DEFER_CALLBACKS);
}

void http_on_close(struct http_exchange *x, void (*fn)(void *arg), void *arg)
{
    x->closed = fn;
    x->closed_arg = arg;
}
