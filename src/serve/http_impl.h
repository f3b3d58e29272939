/* The transport's inside. http.c: the server's life and what other threads may ask. http_conn.c: a connection's life.
 * http_write.c: answers. http_tls.c: certificates. http_parse.c: from bytes to requests. http_request.c: what is asked
 * of them.
 *
 * A connection is destroyed in one place, conn_close, which is only called at the bottom of a callback of the event
 * loop. Whatever finds out deeper in the stack that a connection must end dooms it: its timer fires at once. So a
 * handler may do anything to any exchange and never pulls the ground from under a caller. */
#ifndef GLIM_SERVE_HTTP_IMPL_H
#define GLIM_SERVE_HTTP_IMPL_H

#include "serve/http_parse.h"

#include <event2/event.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_AHEAD_MAX = 64 << 10,   /* bytes a client may send ahead while it is being answered; more, and it is cut */
    HTTP_OVER_MAX = 64,          /* connections over the limit that are told so; more are dropped */
    HTTP_UNSENT_MAX = 256 << 10, /* bytes of an answer that the kernel may hold unsent: more is backlog */
    HTTP_STALL_LOOKS = 4         /* a stalled client is looked at so often before it is cut */
};
#define HTTP_LINGER_S                                                                                                  \
    2.0 /* how long what a client still sends is read after the last answer, so that it reads that                     \
         */

enum conn_state {
    CONN_IDLE,   /* between requests, nothing of the next has come */
    CONN_HEAD,   /* the header section is coming */
    CONN_BODY,   /* the body is coming */
    CONN_ANSWER, /* the handler owes an answer or its end */
    CONN_FLUSH,  /* the answer has ended and is being written */
    CONN_LINGER, /* nothing will be said any more; what comes is thrown away until the client closes */
    CONN_DOOMED  /* to be destroyed as soon as the stack is clear */
};

struct http_exchange { /* and its connection: one object, since there is one exchange at a time */
    struct http_server *server;
    struct http_exchange *prev, *next; /* all connections */
    struct bufferevent *bev;
    SSL *ssl;            /* NULL: plain */
    struct event *timer; /* what it means depends on the state */
    enum conn_state state;
    bool eof;    /* the client has closed its side */
    bool last;   /* this answer is the connection's last */
    bool mute;   /* the answer has no body: HEAD, 204, 304 */
    bool chunks; /* the answer is sent in chunks */
    bool open;   /* an exchange is under way: http_ended will be told */
    struct http_parse parse;
    char peer[46];
    uint16_t peer_port;
    /* the answer */
    int status;
    uint64_t sent;   /* bytes of body */
    uint64_t queued; /* bytes ever given to the socket's buffer */
    uint64_t taken;  /* … of which the client had taken those when the timer last looked */
    int still;       /* looks since it took any */
    double begin_s;  /* monotonic: header section complete; in CONN_BODY also when the body's time began */
    void *data;
    void (*closed)(void *arg);
    void *closed_arg;
    void (*drained)(void *arg);
    void *drained_arg;
    size_t mark;
};

struct http_server {
    struct http_config config; /* own copies of the strings */
    struct http_names names;
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *retry;  /* listen again after accept had no file descriptor left */
    struct event *woken;  /* reads the eventfd */
    struct event *cutoff; /* drain's deadline */
    struct http_exchange *conn;
    uint16_t port;
    int wake;
    /* any thread */
    atomic_bool stop, draining;
    atomic_llong drain_ms; /* shortest deadline asked for */
    pthread_mutex_t lock;  /* of the next two */
    struct http_note *note, **note_end;
    SSL_CTX *tls;
    atomic_uint n_conn, n_exchange;
    atomic_ullong n_accepted, n_refused;
    /* event thread */
    bool stopping, drain_begun;
    double cutoff_s; /* when what is left is cut */
    time_t date_s;
    char date[32];
};

/* http.c */
double http_now(void); /* seconds, monotonic */
struct timeval http_timeval(double seconds);
void server_conn_gone(struct http_server *s);

/* http_conn.c */
void conn_accept(struct http_server *s, evutil_socket_t fd, const struct sockaddr *peer);
void conn_doom(struct http_exchange *x);
void conn_answer(struct http_exchange *x); /* reading is over: what comes now is time to answer */
void conn_flush(struct http_exchange *x);  /* the answer is complete: write what is left of it */
void conn_drain(struct http_exchange *x);  /* the server drains: go when nothing is under way */
void conn_watch(struct http_exchange *x);  /* bytes were queued: see that the client takes them */

/* http_write.c */
void write_refusal(struct http_exchange *x, int status, const char *sentence); /* x's last words */
void write_continue(struct http_exchange *x);

/* http_tls.c. *out is the caller's. */
glim_status tls_load(SSL_CTX **out, const char *cert, const char *key, struct glim_err *e);

#endif
