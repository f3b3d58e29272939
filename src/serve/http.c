/* The server: its life, its listening socket, and what other threads ask of it. Other threads leave notes under a lock,
 * set flags, and write to an eventfd; the event thread does the rest. An idle server has no timer that repeats. */
#include "serve/http_impl.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_BOOL_LOCK_FREE == 2,
               "drain and stop are called by signal handlers");

double http_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct timeval http_timeval(double seconds)
{
    double whole = floor(seconds);
    return (struct timeval){(time_t)whole, (suseconds_t)((seconds - whole) * 1e6)};
}

struct http_config http_config_default(void)
{
    return (struct http_config){.address = "127.0.0.1",
                                .max_connections = 4096,
                                .max_target = 8 << 10,
                                .max_head = 32 << 10,
                                .max_field = 100,
                                .max_body = 1 << 20,
                                .head_s = 10,
                                .body_s = 30,
                                .body_rate = 4096,
                                .idle_s = 75,
                                .stall_s = 30};
}

/* ---- the end ---- */

void server_conn_gone(struct http_server *s)
{
    if ((s->stopping || s->drain_begun) && !s->conn)
        event_base_loopbreak(s->base);
}

static void stop_listening(struct http_server *s)
{
    if (s->listener)
        evconnlistener_free(s->listener); /* closes the socket: clients are refused, not left waiting */
    s->listener = NULL;
    event_del(s->retry);
}

static void cut_all(struct http_server *s)
{
    for (struct http_exchange *x = s->conn; x; x = x->next)
        conn_doom(x);
}

static void begin_stop(struct http_server *s)
{
    s->stopping = true;
    stop_listening(s);
    cut_all(s);
    server_conn_gone(s);
}

static void begin_drain(struct http_server *s)
{
    if (!s->drain_begun) {
        s->drain_begun = true;
        s->cutoff_s = INFINITY;
        stop_listening(s);
        for (struct http_exchange *x = s->conn; x; x = x->next)
            conn_drain(x);
    }
    double left = (double)atomic_load(&s->drain_ms) * 1e-3;
    if (http_now() + left < s->cutoff_s) {
        s->cutoff_s = http_now() + left;
        struct timeval tv = http_timeval(left);
        event_add(s->cutoff, &tv);
    }
    server_conn_gone(s);
}

static void on_cutoff(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    cut_all(arg);
}

/* ---- from other threads ---- */

static void wake(struct http_server *s)
{
    uint64_t one = 1;
    while (write(s->wake, &one, sizeof one) < 0 && errno == EINTR) /* a full counter wakes as well */
        ;
}

void http_server_stop(struct http_server *s)
{
    atomic_store(&s->stop, true);
    wake(s);
}

void http_server_drain(struct http_server *s, double deadline_s)
{
    long long ms = deadline_s > 1e9 ? (long long)1e12 : deadline_s > 0 ? (long long)(deadline_s * 1e3) : 0;
    long long have = atomic_load(&s->drain_ms);
    while (ms < have && !atomic_compare_exchange_weak(&s->drain_ms, &have, ms))
        ;
    atomic_store(&s->draining, true);
    wake(s);
}

bool http_server_draining(const struct http_server *s)
{
    return atomic_load(&s->draining);
}

void http_post(struct http_server *s, struct http_note *n)
{
    n->next = NULL;
    pthread_mutex_lock(&s->lock);
    bool first = !s->note;
    *s->note_end = n;
    s->note_end = &n->next;
    pthread_mutex_unlock(&s->lock);
    if (first) /* with others before it, the eventfd has been written to */
        wake(s);
}

static void run_notes(struct http_server *s)
{
    pthread_mutex_lock(&s->lock);
    struct http_note *n = s->note;
    s->note = NULL;
    s->note_end = &s->note;
    pthread_mutex_unlock(&s->lock);
    while (n) {
        struct http_note *next = n->next; /* n is the caller's again when fn begins */
        n->fn(n->arg);
        n = next;
    }
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;
    uint64_t count;
    (void)what;
    if (read(fd, &count, sizeof count) < 0 && errno != EAGAIN)
        log_line(LOG_ERROR, "http", "eventfd: %s", strerror(errno));
    if (atomic_load(&s->stop) && !s->stopping)
        begin_stop(s);
    else if (atomic_load(&s->draining))
        begin_drain(s);
    run_notes(s);
}

struct http_stats http_server_stats(const struct http_server *s)
{
    return (struct http_stats){.connections = atomic_load(&s->n_conn),
                               .exchanges = atomic_load(&s->n_exchange),
                               .accepted = atomic_load(&s->n_accepted),
                               .refused = atomic_load(&s->n_refused)};
}

/* ---- listening ---- */

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *peer, int n, void *arg)
{
    (void)l;
    (void)n;
    conn_accept(arg, fd, peer);
}

/* No file descriptor or memory left: the waiting client would wake us again and again. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
    struct http_server *s = arg;
    struct timeval tv = http_timeval(0.1);
    log_line(LOG_WARN, "http", "accept: %s", strerror(errno));
    evconnlistener_disable(l);
    event_add(s->retry, &tv);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;
    (void)fd;
    (void)what;
    if (s->listener)
        evconnlistener_enable(s->listener);
}

/* What accepted sockets inherit: answers leave at once, and clients whose machine has vanished are noticed. */
static void set_options(int fd, const struct http_config *c)
{
    int vanished_ms = (int)(c->stall_s * 3e3); /* the backstop of our own look at stalled clients */
    const struct {
        int level, name, value;
    } option[] = {
        {SOL_SOCKET, SO_REUSEADDR, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 15},
        {IPPROTO_TCP, TCP_KEEPINTVL, 5},
        {IPPROTO_TCP, TCP_KEEPCNT, 4},
        {IPPROTO_TCP, TCP_NOTSENT_LOWAT, HTTP_UNSENT_MAX},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, vanished_ms},
    };
    for (size_t i = 0; i < sizeof option / sizeof *option; i++)
        setsockopt(fd, option[i].level, option[i].name, &option[i].value, sizeof option[i].value);
}

static uint16_t bound_port(int fd)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } a = {0};
    socklen_t n = sizeof a;
    if (getsockname(fd, &a.sa, &n) != 0)
        return 0;
    return ntohs(a.sa.sa_family == AF_INET6 ? a.in6.sin6_port : a.in.sin_port);
}

static glim_status bind_socket(const struct http_config *c, int *out, struct glim_err *e)
{
    struct addrinfo *a, hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    char port[8];
    glim_status st = GLIM_OK;
    snprintf(port, sizeof port, "%u", (unsigned)c->port);
    if (getaddrinfo(c->address, port, &hints, &a) != 0)
        return err_set(e, GLIM_REFUSED, "server: address: have %s, need a numeric address", c->address);
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        set_options(fd, c);
    if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        st = err_set(e, GLIM_FAILED, "server: %s port %s: %s", c->address, port, strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(a);
    *out = fd;
    return st;
}

static glim_status listen_at(struct http_server *s, struct glim_err *e)
{
    int fd = -1;
    TRY(bind_socket(&s->config, &fd, e));
    s->port = bound_port(fd);
    s->listener =
        evconnlistener_new(s->base, on_accept, s, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_DISABLED, 0,
                           fd); /* it listens already */
    if (!s->listener) {
        close(fd);
        return err_nomem(e, "listener", 0);
    }
    evconnlistener_set_error_cb(s->listener, on_accept_error);
    return GLIM_OK;
}

/* ---- the beginning ---- */

static glim_status copy_string(const char **s, struct glim_err *e)
{
    if (!*s)
        return GLIM_OK;
    size_t n = strlen(*s) + 1;
    *s = mem_strdup(*s);
    return *s ? GLIM_OK : err_nomem(e, "server's configuration", n);
}

/* On failure what could not be copied is NULL, so that everything can be freed. */
static glim_status copy_config(struct http_config *c, const struct http_config *from, struct glim_err *e)
{
    *c = *from;
    const char **string[] = {&c->address, &c->tls_cert, &c->tls_key};
    glim_status st = GLIM_OK;
    for (size_t i = 0; i < sizeof string / sizeof *string; i++)
        if (st == GLIM_OK)
            st = copy_string(string[i], e);
        else
            *string[i] = NULL;
    const char **host = mem_calloc(c->n_host + 1, sizeof *host);
    c->host = host;
    c->n_host = 0;
    if (!host)
        return err_nomem(e, "server's configuration", (from->n_host + 1) * sizeof *host);
    for (; st == GLIM_OK && c->n_host < from->n_host; c->n_host++) {
        host[c->n_host] = from->host[c->n_host];
        st = copy_string(&host[c->n_host], e);
    }
    return st;
}

static void free_config(struct http_config *c)
{
    mem_free((void *)c->address);
    mem_free((void *)c->tls_cert);
    mem_free((void *)c->tls_key);
    for (size_t i = 0; i < c->n_host; i++)
        mem_free((void *)c->host[i]);
    mem_free((void *)c->host);
}

/* Each connection is a file; some more for listening, logs and models. */
static glim_status check_files(const struct http_config *c, struct glim_err *e)
{
    rlim_t need = (rlim_t)c->max_connections + HTTP_OVER_MAX + 64;
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= need)
        return GLIM_OK;
    if (r.rlim_max >= need) {
        r.rlim_cur = need;
        if (setrlimit(RLIMIT_NOFILE, &r) == 0)
            return GLIM_OK;
    }
    return err_set(e, GLIM_REFUSED, "server: %u connections: have a limit of %llu open files, need %llu",
                   c->max_connections, (unsigned long long)r.rlim_max, (unsigned long long)need);
}

static void on_library_log(int severity, const char *text)
{
    log_line(severity >= EVENT_LOG_ERR    ? LOG_ERROR
             : severity == EVENT_LOG_WARN ? LOG_WARN
                                          : LOG_DEBUG,
             "libevent", "%s", text);
}

static glim_status open_events(struct http_server *s, struct glim_err *e)
{
    event_set_log_callback(on_library_log);
    s->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->wake < 0)
        return err_set(e, GLIM_FAILED, "server: eventfd: %s", strerror(errno));
    s->base = event_base_new();
    if (!s->base)
        return err_set(e, GLIM_FAILED, "server: event loop: not available");
    s->woken = event_new(s->base, s->wake, EV_READ | EV_PERSIST, on_wake, s);
    s->retry = evtimer_new(s->base, on_retry, s);
    s->cutoff = evtimer_new(s->base, on_cutoff, s);
    if (!s->woken || !s->retry || !s->cutoff || event_add(s->woken, NULL) != 0)
        return err_nomem(e, "server's events", 0);
    return GLIM_OK;
}

static glim_status open_server(struct http_server *s, const struct http_config *c, struct glim_err *e)
{
    TRY(copy_config(&s->config, c, e));
    s->names = (struct http_names){s->config.host, s->config.n_host, s->config.address};
    TRY(check_files(c, e));
    if (c->tls_cert || c->tls_key) {
        if (!c->tls_cert || !c->tls_key)
            return err_set(e, GLIM_USAGE, "TLS: files: have one of certificate and key, need both");
        TRY(tls_load(&s->tls, c->tls_cert, c->tls_key, e));
    }
    TRY(open_events(s, e));
    return listen_at(s, e);
}

glim_status http_server_create(struct http_server **out, const struct http_config *c, struct glim_err *e)
{
    struct http_server *s = mem_calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return err_nomem(e, "server", sizeof *s);
    signal(SIGPIPE, SIG_IGN); /* a client that is gone is an error of write, not the end of the process */
    s->wake = -1;
    s->note_end = &s->note;
    atomic_store(&s->drain_ms, LLONG_MAX);
    pthread_mutex_init(&s->lock, NULL);
    glim_status st = open_server(s, c, e);
    if (st != GLIM_OK)
        http_server_free(s);
    else
        *out = s;
    return st;
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

glim_status http_server_run(struct http_server *s, struct glim_err *e)
{
    if (s->listener && evconnlistener_enable(s->listener) != 0)
        return err_set(e, GLIM_FAILED, "server: cannot listen");
    int rc = event_base_loop(s->base, EVLOOP_NO_EXIT_ON_EMPTY);
    if (rc >= 0)
        rc = event_base_loop(s->base, EVLOOP_NONBLOCK); /* the last connection's socket is closed in the next round */
    return rc < 0 ? err_set(e, GLIM_FAILED, "server: event loop: %s", strerror(errno)) : GLIM_OK;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    run_notes(s);
    if (s->listener)
        evconnlistener_free(s->listener);
    struct event *event[] = {s->woken, s->retry, s->cutoff};
    for (size_t i = 0; i < sizeof event / sizeof *event; i++)
        if (event[i])
            event_free(event[i]);
    if (s->base)
        event_base_free(s->base); /* after this no connection holds its socket any more */
    if (s->wake >= 0)
        close(s->wake);
    SSL_CTX_free(s->tls);
    pthread_mutex_destroy(&s->lock);
    free_config(&s->config);
    mem_free(s);
}

/* ---- timers ---- */

struct http_timer {
    struct event *event;
    void (*fn)(void *arg);
    void *arg;
};

static void on_http_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http_timer *t = arg;
    (void)fd;
    (void)what;
    t->fn(t->arg);
}

struct http_timer *http_timer_create(struct http_server *s, void (*fn)(void *arg), void *arg)
{
    struct http_timer *t = mem_alloc(sizeof *t);
    if (!t)
        return NULL;
    *t = (struct http_timer){evtimer_new(s->base, on_http_timer, t), fn, arg};
    if (!t->event) {
        mem_free(t);
        return NULL;
    }
    return t;
}

void http_timer_start(struct http_timer *t, double seconds)
{
    struct timeval tv = http_timeval(seconds);
    event_add(t->event, &tv);
}

void http_timer_stop(struct http_timer *t)
{
    event_del(t->event);
}

void http_timer_free(struct http_timer *t)
{
    if (!t)
        return;
    event_free(t->event);
    mem_free(t);
}
