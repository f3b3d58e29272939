/* For the tests of the transport: a server with a few handlers in a thread of its own, and clients that are bare
 * sockets. */
#ifndef TEST_SERVE_HTTP_H
#define TEST_SERVE_HTTP_H

#include "serve/http.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define H        "Host: localhost\r\n"

struct lab {
    struct http_server *server;
    struct http_config config;
    pthread_t thread;
    atomic_bool returned;
    atomic_int begun, closed, ended, complete; /* handlers called, closes heard, records, those complete */
    atomic_int with_data;                      /* records that had the word which `head` left */
    atomic_int last_status;
    atomic_llong closed_us; /* monotonic, of the last close heard */
    atomic_ullong sent;     /* bytes that /flood and /drip have said so far */
    atomic_bool wrong;      /* a handler saw something it should not */
    atomic_bool overrun;    /* /flood's backlog was above its mark when it was told to go on */
};

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void sleep_s(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

/* Waits until *counter is at least n, at most five seconds. */
static inline bool reached(atomic_int *counter, int n)
{
    for (double end = now_s() + 5; now_s() < end; sleep_s(0.001))
        if (atomic_load(counter) >= n)
            return true;
    return false;
}

/* ---- handlers ---- */

enum { FLOOD_PIECE = 16 << 10, FLOOD_MARK = 64 << 10 };

struct talk { /* an answer that takes its time */
    struct lab *lab;
    struct http_exchange *x;
    struct http_timer *timer;
    int left;
};

static inline void talk_free(struct talk *t)
{
    if (t->timer)
        http_timer_stop(t->timer);
    http_timer_free(t->timer);
    free(t);
}

static inline void talk_closed(void *arg)
{
    struct talk *t = arg;
    atomic_store(&t->lab->closed_us, (long long)(now_s() * 1e6));
    atomic_fetch_add(&t->lab->closed, 1);
    talk_free(t);
}

static inline struct talk *talk_new(struct lab *lab, struct http_exchange *x, void (*tick)(void *))
{
    struct talk *t = calloc(1, sizeof *t);
    t->lab = lab;
    t->x = x;
    t->timer = tick ? http_timer_create(lab->server, tick, t) : NULL;
    http_on_close(x, talk_closed, t);
    return t;
}

/* Ten pieces, 10 ms apart. */
static inline void drip(void *arg)
{
    struct talk *t = arg;
    if (t->left-- == 0) {
        http_end(t->x);
        talk_free(t);
        return;
    }
    http_send(t->x, "drop\n", 5);
    atomic_fetch_add(&t->lab->sent, 5);
    http_timer_start(t->timer, 0.01);
}

/* Without end: more whenever the backlog is small. */
static inline void flood(void *arg)
{
    static char piece[FLOOD_PIECE];
    struct talk *t = arg;
    if (http_backlog(t->x) > FLOOD_MARK)
        atomic_store(&t->lab->overrun, true);
    while (http_backlog(t->x) <= FLOOD_MARK) {
        memset(piece, 'f', sizeof piece);
        http_send(t->x, piece, sizeof piece);
        atomic_fetch_add(&t->lab->sent, sizeof piece);
    }
    http_on_drain(t->x, FLOOD_MARK, flood, t);
}

static inline void late(void *arg)
{
    struct talk *t = arg;
    http_reply(t->x, 200, NULL, 0, "text/plain", "late", 4);
    talk_free(t);
}

static inline void show(struct http_exchange *x, const struct http_request *r)
{
    struct str b = {0};
    str_printf(&b, "%s|%s|%s|%s|%d|", r->method, r->path, r->query, r->peer, r->tls);
    for (size_t i = 0; i < r->n_field; i++)
        str_printf(&b, "%s=%s|", r->field[i].name, r->field[i].value);
    str_printf(&b, "%zu", r->n_body);
    http_reply(x, 200, (struct http_field[]){{"x-echo", "a\r\nevil: b"}}, 1, "text/plain", b.s, b.n);
    str_fini(&b);
}

static inline void lab_handle(void *user, struct http_exchange *x, const struct http_request *r)
{
    struct lab *lab = user;
    atomic_fetch_add(&lab->begun, 1);
    if (http_request(x) != r || http_data(x) != user)
        atomic_store(&lab->wrong, true);
    if (!strcmp(r->path, "/echo")) {
        size_t n;
        char *body = http_take_body(x, &n);
        http_reply(x, 200, NULL, 0, "application/octet-stream", body, n);
        mem_free(body);
    } else if (!strcmp(r->path, "/show")) {
        show(x, r);
    } else if (!strcmp(r->path, "/pieces")) {
        http_stream(x, 200, NULL, 0, "text/event-stream");
        http_send(x, "one ", 4);
        http_send(x, "", 0);
        http_send(x, "two ", 4);
        http_send(x, "three", 5);
        http_end(x);
    } else if (!strcmp(r->path, "/empty")) {
        http_reply(x, 204, NULL, 0, NULL, "ignored", 7);
    } else if (!strcmp(r->path, "/never")) {
        talk_new(lab, x, NULL);
    } else if (!strcmp(r->path, "/late")) {
        http_timer_start(talk_new(lab, x, late)->timer, 0.1);
    } else if (!strcmp(r->path, "/cut")) {
        http_stream(x, 200, NULL, 0, "text/plain");
        http_send(x, "half", 4);
        http_cut(x);
    } else if (!strcmp(r->path, "/drip")) {
        struct talk *t = talk_new(lab, x, drip);
        t->left = 10;
        http_stream(x, 200, NULL, 0, "text/event-stream");
        drip(t);
    } else if (!strcmp(r->path, "/flood")) {
        http_stream(x, 200, NULL, 0, "text/plain");
        flood(talk_new(lab, x, NULL));
    } else {
        http_reply(x, 404, NULL, 0, "text/plain", "no such path\n", 13);
    }
}

static inline void lab_head(void *user, struct http_exchange *x, const struct http_request *r)
{
    http_set_data(x, user);
    if (!strcmp(r->path, "/forbidden"))
        http_reply(x, 401, NULL, 0, "text/plain", "no\n", 3);
    if (!strcmp(r->path, "/echo"))
        http_body_limit(x, 16 << 20);
}

static inline void lab_ended(void *user, const struct http_record *rec)
{
    struct lab *lab = user;
    atomic_store(&lab->last_status, rec->status);
    atomic_fetch_add(&lab->ended, 1);
    atomic_fetch_add(&lab->complete, rec->complete);
    atomic_fetch_add(&lab->with_data, rec->data == lab);
}

/* ---- the server ---- */

static inline void *lab_thread(void *arg)
{
    struct lab *lab = arg;
    struct glim_err e = {0};
    if (http_server_run(lab->server, &e) != GLIM_OK)
        fprintf(stderr, "%s\n", e.message);
    atomic_store(&lab->returned, true);
    return NULL;
}

/* lab->config was filled by lab_config and changed by the test. */
static inline void lab_start(struct lab *lab)
{
    struct glim_err e = {0};
    if (http_server_create(&lab->server, &lab->config, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    assert_int_equal(pthread_create(&lab->thread, NULL, lab_thread, lab), 0);
}

static inline struct http_config lab_config(struct lab *lab)
{
    struct http_config c = http_config_default();
    c.head = lab_head;
    c.handle = lab_handle;
    c.ended = lab_ended;
    c.user = lab;
    return c;
}

static inline void lab_join(struct lab *lab)
{
    pthread_join(lab->thread, NULL);
    struct http_stats stats = http_server_stats(lab->server);
    assert_int_equal(stats.connections, 0);
    assert_int_equal(stats.exchanges, 0);
    assert_false(atomic_load(&lab->wrong));
    http_server_free(lab->server);
}

static inline void lab_stop(struct lab *lab)
{
    http_server_stop(lab->server);
    lab_join(lab);
}

/* ---- clients ---- */

static inline int dial(const struct lab *lab)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(http_server_port(lab->server))};
    struct timeval limit = {5, 0};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
        fail_msg("connect: %s", strerror(errno));
    return fd;
}

/* False: the server closed before it was all said. */
static inline bool say_n(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static inline void say(int fd, const char *text)
{
    say_n(fd, text, strlen(text));
}

/* Everything up to the end of the connection, or up to and with `end`. */
static inline char *hear(int fd, const char *end)
{
    size_t n = 0, cap = 4096;
    char *text = calloc(1, cap);
    while (!end || !strstr(text, end)) {
        ssize_t k = recv(fd, text + n, end ? 1 : cap - n - 1, 0);
        if (k < 0 && errno == EAGAIN)
            fail_msg("nothing heard for five seconds after <%s>", text);
        if (k < 0 && end == NULL && n > 0)
            fail_msg("broken off after <%s>: %s", text, strerror(errno));
        if (k <= 0)
            break;
        n += (size_t)k;
        text[n] = 0;
        if (n + 1 == cap)
            text = realloc(text, cap *= 2);
    }
    return text;
}

static inline int status_of(const char *text)
{
    int status = 0;
    sscanf(text, "HTTP/1.1 %d ", &status);
    return status;
}

/* Says it on a connection of its own, closes nothing, and hears all. Free the result. */
static inline char *ask(const struct lab *lab, const char *text)
{
    int fd = dial(lab);
    say(fd, text);
    char *answer = hear(fd, NULL);
    close(fd);
    return answer;
}

/* The answer's text contains all of what is named, ended by NULL. */
static inline void expect(char *answer, int status, ...)
{
    va_list ap;
    va_start(ap, status);
    if (status_of(answer) != status)
        fail_msg("have <%s>, need status %d", answer, status);
    for (const char *part; (part = va_arg(ap, const char *));)
        if (!strstr(answer, part))
            fail_msg("have <%s>, need <%s> in it", answer, part);
    va_end(ap);
    free(answer);
}

#endif
