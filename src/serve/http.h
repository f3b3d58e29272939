/* The transport: HTTP/1.1 and 1.0 over TCP and TLS, one event thread, every number bounded.
 *
 * http_server_run is the event thread: it owns all sockets and timers and calls every handler. All functions that take
 * a struct http_exchange or a struct http_timer belong to that thread. From any thread: http_post, http_server_drain,
 * http_server_stop, http_server_reload and the getters of the server. A handler must return within a millisecond or so:
 * work belongs to other threads, which come back by http_post.
 *
 * An exchange is one request and its answer. Its life: `head` (the header section is there) -> `handle` (the body is
 * there too) -> http_reply, or http_stream, http_send …, http_end. The answer may come at any time after the call, also
 * from within it. From http_reply or http_end on, and after `closed` has been called, x is gone: do not touch it. A
 * connection answers one request at a time; what a client sends ahead waits unparsed, 64 KiB of it at most: who sends
 * more is cut.
 *
 * Nothing here fails for the handler: when there is no memory to send something, the connection is cut and the handler
 * hears `closed`, never from within a call of its own.
 *
 * What the transport refuses by itself, before `handle` (and where the cause is known by then, before `head`):
 * malformed or ambiguous requests and unknown methods 400, a foreign Host 403, too slow 408, body over the limit 413,
 * long target 414, unknown expectation 417, large header section 431, CONNECT 501, more connections than allowed or no
 * memory 503, other versions of HTTP 505. Each is the last answer of its connection. */
#ifndef GLIM_SERVE_HTTP_H
#define GLIM_SERVE_HTTP_H

#include "base/str.h"

struct http_server;
struct http_exchange;

struct http_field {
    const char *name, *value;
};

/* All strings are NUL-terminated and live until the exchange ends; a body that was taken lives on. */
struct http_request {
    const char *method;             /* GET, POST, … : any that llhttp knows, but CONNECT */
    const char *path;               /* as sent (escapes intact), begins with '/'; "*" for OPTIONS of the server */
    const char *query;              /* what follows the '?', as sent; "" when there is none */
    const struct http_field *field; /* [n_field] in order; names in lower case, values without blanks around them */
    size_t n_field;
    const char *body; /* in `handle`: n_body bytes and a NUL; NULL in `head` */
    size_t n_body;
    const char *peer; /* the client's address: "127.0.0.1", "::1" */
    uint16_t peer_port;
    bool tls;
};

/* Value of the first field of that name (lower case); NULL when there is none. host, authorization, content-type,
 * content-length, transfer-encoding, expect and x-api-key occur once at most: the transport sees to it. */
const char *http_header(const struct http_request *r, const char *name);
/* Undoes percent escapes in place. False: a bad escape, or one of NUL; s is then unspecified. */
bool http_unescape(char *s);
/* The value of a query parameter ("after=3&x"), unescaped ('+' is a blank), into out[cap] with NUL. False: absent,
 * malformed or too long. */
bool http_query(const struct http_request *r, const char *name, char *out, size_t cap);

/* The header section is there and its syntax is right; the body, if any, is not read yet. May set the body's limit, and
 * may refuse with http_reply: the body is then never read. Not called for what the transport refuses before. */
typedef void http_head(void *user, struct http_exchange *x, const struct http_request *r);
/* The whole request is there. */
typedef void http_handler(void *user, struct http_exchange *x, const struct http_request *r);
/* The body (JSON; put into *body) of a refusal by the transport. path: NULL when the request line could not be read. */
typedef void http_refusal(void *user, const char *path, int status, const char *sentence, struct str *body);
/* An exchange has ended: for logs and counters. */
struct http_record {
    const struct http_request *request; /* NULL when the header section was refused */
    const char *peer;
    int status;     /* 0: the client was gone before there was one */
    bool complete;  /* the socket took all of the answer */
    uint64_t sent;  /* bytes of the answer's body */
    double seconds; /* since the header section was complete */
    void *data;     /* http_data: this is the last call that sees it */
};
typedef void http_ended(void *user, const struct http_record *rec);

struct http_config {
    const char *address;            /* numeric, IPv4 or IPv6 */
    uint16_t port;                  /* 0: any free one, see http_server_port */
    const char *tls_cert, *tls_key; /* PEM files (certificate chain; key, no permission for group or others); or NULL */
    const char *const *host;        /* [n_host] names that Host may have besides localhost, names under .localhost, */
    size_t n_host;                  /* loopback addresses and the bound one (any address when bound to all); "*": all */
    uint32_t max_connections;       /* over it: 503 */
    uint32_t max_target, max_head;  /* bytes of the request's target (414), of the whole header section (431) */
    uint32_t max_field;             /* number of header fields (431) */
    uint64_t max_body;              /* bytes, unless `head` says otherwise (413) */
    double head_s;                  /* from a request's first byte (or the connection's begin) to its last header */
    double body_s, body_rate;       /* a body may take body_s seconds and one more for each body_rate bytes */
    double idle_s;                  /* a connection without a request is closed */
    double stall_s;                 /* a client that takes nothing of what is queued for so long is cut */
    http_head *head;                /* may be NULL */
    http_handler *handle;
    http_refusal *refusal; /* NULL: a plain text sentence */
    http_ended *ended;     /* may be NULL */
    void *user;
};
/* 127.0.0.1, any port, 4096 connections, target 8 KiB, head 32 KiB, 100 fields, body 1 MiB, head 10 s, body 30 s and
 * 4096 bytes/s, idle 75 s, stall 30 s; handlers NULL. */
struct http_config http_config_default(void);

/* ---- the server ---- */

/* Binds and listens: connections queue up from now on and are served by http_server_run. The strings of *c are copied.
 * Refused: what is not a numeric address, a key file that others may read, a certificate that is not the key's, more
 * connections than the process may have files. The process ignores SIGPIPE from now on. */
glim_status http_server_create(struct http_server **out, const struct http_config *c, struct glim_err *e);
uint16_t http_server_port(const struct http_server *s);
/* Serves until http_server_stop, or until http_server_drain has ended. All connections are gone when it returns. */
glim_status http_server_run(struct http_server *s, struct glim_err *e);
/* Cuts every connection (handlers hear `closed`) and makes http_server_run return. Any thread; async-signal-safe. */
void http_server_stop(struct http_server *s);
/* Accepts nobody any more, closes idle connections, lets answers end (the last of their connection), and cuts what is
 * left after deadline_s. A later call may only shorten the deadline. Any thread; async-signal-safe. */
void http_server_drain(struct http_server *s, double deadline_s);
bool http_server_draining(const struct http_server *s);
/* Reads the certificate and key again; connections made so far keep theirs. On failure the old ones stay in force.
 * GLIM_USAGE without TLS. Any thread. */
glim_status http_server_reload(struct http_server *s, struct glim_err *e);
struct http_stats {
    uint32_t connections, exchanges; /* now: open, being answered */
    uint64_t accepted, refused;      /* since the start: connections, requests refused by the transport */
};
struct http_stats http_server_stats(const struct http_server *s);
/* After http_server_run has returned (or was never called) and no thread posts any more. Runs what was posted too late
 * to be run in the event thread. */
void http_server_free(struct http_server *s);

/* ---- from other threads ---- */

/* A call to make in the event thread. The caller owns the memory; it is free for reuse when fn begins. Zero `next`. */
struct http_note {
    void (*fn)(void *arg);
    void *arg;
    struct http_note *next;
};
/* fn(arg) will be called in the event thread, exactly once, in the order of the posts of each thread. Cannot fail. */
void http_post(struct http_server *s, struct http_note *n);

/* ---- timers ---- */
struct http_timer;
/* One shot; NULL when out of memory. Starting a running timer sets it anew. fn may start, stop or free it. */
struct http_timer *http_timer_create(struct http_server *s, void (*fn)(void *arg), void *arg);
void http_timer_start(struct http_timer *t, double seconds);
void http_timer_stop(struct http_timer *t);
void http_timer_free(struct http_timer *t); /* NULL is fine; all are freed before http_server_free */

/* ---- an exchange ---- */

/* In `head`: the most bytes of body that this request may have. */
void http_body_limit(struct http_exchange *x, uint64_t bytes);
/* Before the answer's header section: the connection ends after this answer. */
void http_last(struct http_exchange *x);
/* In `handle` or later: the body becomes the caller's, who frees it with mem_free; *n bytes and a NUL. Never NULL; the
 * request's body is empty from then on. May be called once. */
char *http_take_body(struct http_exchange *x, size_t *n);
/* The request, for as long as x lives. */
const struct http_request *http_request(const struct http_exchange *x);
/* A word of the handlers', NULL at first. */
void http_set_data(struct http_exchange *x, void *data);
void *http_data(const struct http_exchange *x);

/* The whole answer: a length is sent; HEAD gets the header section only. field[n_field] are further header fields; type
 * NULL: no content-type. 204 and 304 have no body. */
void http_reply(struct http_exchange *x, int status, const struct http_field *field, size_t n_field, const char *type,
                const char *body, size_t n);
/* The answer's header section, then any number of sends, then the end. Chunked in HTTP/1.1, to the end of the
 * connection in 1.0. Each send is handed to the socket as soon as the handler returns. n = 0 does nothing. */
void http_stream(struct http_exchange *x, int status, const struct http_field *field, size_t n_field, const char *type);
void http_send(struct http_exchange *x, const char *p, size_t n);
void http_end(struct http_exchange *x);
/* End an answer that cannot be completed: the client sees the connection break, not an end. x is gone. */
void http_cut(struct http_exchange *x);

/* Bytes of the answer that the socket has not taken. */
size_t http_backlog(const struct http_exchange *x);
/* fn is called once, as soon as the backlog is at most `mark` bytes (not from within this call); a new call replaces
 * the old one, fn NULL takes it back. */
void http_on_drain(struct http_exchange *x, size_t mark, void (*fn)(void *arg), void *arg);
/* fn is called, once, if the client goes away (or is cut: too slow, drain's deadline, no memory) before http_reply or
 * http_end; never after them. A client that closes its sending side counts as gone: nothing distinguishes the two. */
void http_on_close(struct http_exchange *x, void (*fn)(void *arg), void *arg);

#endif
