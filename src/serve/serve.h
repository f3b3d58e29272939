/* The server: one process around one model and its engine.
 *
 * Threads. The event thread owns all sockets, every struct call and every job's answers; it never waits and does
 * nothing that takes a millisecond. A few workers do what does: JSON, templates, tokenising, grammars. The engine's
 * thread calls back into jobs, which only copy and hand on (job.h).
 *
 * A call is one request under way: made in the event thread when the request is there, handled by its route's `run` in
 * a worker, answered in the event thread. The client may go at any time; the call then lives on until its worker and
 * its job have let go, and nothing is written any more. */
#ifndef GLIM_SERVE_SERVE_H
#define GLIM_SERVE_SERVE_H

#include "base/lever.h"
#include "serve/http.h"
#include "serve/route.h"
#include "text/chat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

struct access;
struct glim_engine;
struct hub;
struct job;
struct keys;
struct server;
struct store;
struct stream;
struct telemetry;

/* ---- workers ---- */

/* A piece of work; the node is its owner's, who may free it once fn runs. */
struct work {
    void (*fn)(void *arg);
    void *arg;
    struct work *next;
};
void serve_work(struct server *s, struct work *w);

/* ---- the server ---- */

struct serve_config {
    const struct glim_model *model; /* must outlive the server */
    const struct levers *levers;    /* likewise */
    const char *path;               /* the model as it was asked for, its last part the name clients use; likewise */
};

enum { SERVE_NAMES = 8 };

struct server {
    const struct glim_model *model;
    const struct levers *lv;
    const char *path;  /* the model as it was asked for */
    struct chat *chat; /* NULL: no_chat says why */
    struct glim_err no_chat;
    int32_t end[DIALECT_MAX_STOP]; /* the dialect's own ends of a turn */
    size_t n_end;
    struct glim_engine *engine;
    struct http_server *http;
    struct grammars *grammars; /* grammars.h */
    struct store *store;       /* store.h; NULL: nothing is kept */
    char *name[SERVE_NAMES];   /* what clients may call the model; the first is what replies say */
    size_t n_name;
    uint32_t n_ctx;       /* tokens of a prompt and its answer together */
    char fingerprint[24]; /* changes with whatever may change an answer's bytes */
    time_t started;
    struct call *call; /* the event thread's: all that are under way */
    struct job *job;   /* the event thread's: all that are */
    size_t n_call, n_job;
    struct hub *hub;             /* access.h */
    struct telemetry *telemetry; /* telemetry.h */
    size_t n_watcher;            /* of telemetry: calls that end nothing by ending */
    struct stream *stream;       /* streams.h: those that are kept, the newest first */
    size_t n_stream;
    struct serve_pool *pool;
    /* the end */
    atomic_bool draining, stop_asked;
    double drain_s, deadline_s; /* of serve_stop; when answers are cut, monotonic */
    struct http_note stop_note, keys_note;
    struct http_timer *deadline;
    pthread_mutex_t reload; /* of `fresh`: keys that were read, on their way to the event thread */
    struct keys *fresh;
    bool stopping; /* no event thread any more: only what was begun ends */
};

/* Everything up to the listening socket. */
glim_status serve_create(struct server **out, const struct serve_config *c, struct glim_err *e);
/* In the calling thread until the end that serve_stop asks for. */
glim_status serve_run(struct server *s, struct glim_err *e);
/* From any thread. Requests with a body are refused from now on (503, and the connection ends); those under way may end
 * within drain_s, then they are cut. A second call cuts them at once. */
void serve_stop(struct server *s, double drain_s);
/* Read keys and certificate again, and open the log again; what cannot be read stays as it was, and the log says why.
 * From one thread. */
void serve_reload(struct server *s);
/* In the event thread: has the last of the answers ended that a stopping server waits for? */
void serve_look(struct server *s);
void serve_free(struct server *s);
int serve_port(const struct server *s);
bool serve_knows_model(const struct server *s, const char *name);

/* ---- calls ---- */

enum { CALL_ID_MAX = 40, CALL_FIELDS = 12 };

struct call {
    struct server *server;
    const struct route *route;
    struct route_match match;
    char id[CALL_ID_MAX]; /* "req_…": in the log and the header X-Request-Id */
    json_t *query;        /* object: numbers where the shape says so; NULL where the route takes none */
    char *body;           /* as it came; NULL without one */
    size_t n_body;
    json_t *json;            /* the body, checked */
    struct str frame;        /* an event on its way out */
    struct str ignored;      /* paths of members that were ignored (lever unknown_fields) */
    struct timespec arrived; /* monotonic */
    /* the reply, or why there is none */
    int status;
    struct str reply;
    const char *type;         /* static */
    const char *param, *code; /* of an error; static, or inside param_buffer */
    char param_buffer[FIELD_PATH_MAX];
    double retry_s; /* Retry-After of 429 and 503 */
    /* the event thread's */
    struct http_exchange *x; /* NULL: the client is gone */
    struct access *access;   /* never NULL */
    int resume_s;            /* the client wants to come back to a stream so long; 0: not */
    struct stream *stream;   /* what is sent is kept in */
    bool streaming, ended, begun;
    struct job *job;
    void (*begin)(struct call *c), (*on_gone)(struct call *c); /* call_take */
    void *user;
    int n_hold; /* worker, job, exchange */
    struct work work;
    struct http_note note;
    glim_status outcome;
    struct glim_err err;
    struct call *next, **link;
};

/* In `run`: a whole reply. JSON is dumped and let go; NULL means out of memory. */
glim_status call_reply_json(struct call *c, int status, json_t *body, struct glim_err *e);
/* The text moves into the call. */
glim_status call_reply_text(struct call *c, int status, const char *type, struct str *text, struct glim_err *e);
/* In `run`: fail with this HTTP status instead of the one that follows from e's status (USAGE, REFUSED 400; BUSY 429;
 * FAILED 500). param: path of the member that is wrong, copied; code: static. Both may be NULL. Returns e's status. */
glim_status call_fail(struct call *c, int status, const char *param, const char *code, const struct glim_err *e);
/* In `run`: nothing is answered when it returns; the event thread's code does so with the functions below, beginning
 * with `begin`, which is called there once `run` has returned. on_gone: the client went away after that
 * and before call_end; one that went before has left c->x NULL. */
void call_take(struct call *c, void (*begin)(struct call *c), void (*on_gone)(struct call *c), void *user);

/* In the event thread. All do nothing once the client is gone. */
void call_stream(struct call *c, int status, const char *type); /* headers of a stream */
void call_send(struct call *c, const char *p, size_t n);
/* A server-sent event of JSON, "event: NAME" before it unless name is NULL; clears json. Out of memory cuts the stream.
 */
void call_event(struct call *c, const char *name, struct str *json);
void call_end(struct call *c);                                                    /* of a stream */
void call_answer(struct call *c, int status, const char *type, struct str *text); /* a whole reply; clears text */
void call_cut(struct call *c); /* the client sees the connection break */
/* An error reply, or within a stream an event of the route's style, and the end. */
void call_error(struct call *c, int status, const struct glim_err *e);
/* A whole reply with these header fields (at most CALL_FIELDS) and those that every reply has. */
void call_answer_with(struct call *c, int status, const struct http_field *field, size_t n_field, const char *type,
                      const char *body, size_t n);
/* HEAD of a stream: the headers, and that was it. */
bool call_is_head(struct call *c, const char *type);
/* Nobody can hear the call any more: on_gone, and the exchange's hold goes. */
void call_gone(struct call *c);
/* Counted: whoever keeps a call beyond its callbacks holds it. In the event thread. */
void call_hold(struct call *c);
void call_drop(struct call *c);

/* HTTP status of a failure, as call_fail describes. */
int serve_http_status(const struct server *s, const struct glim_err *e);
/* prefix and 24 random letters and digits; out holds CALL_ID_MAX. */
void serve_id(const char *prefix, char *out);
uint64_t serve_random(void);
double serve_now(void); /* seconds, monotonic */

#endif
