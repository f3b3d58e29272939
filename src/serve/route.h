/* The table of routes: what the server answers to. The router, the checks before and after a body is read,
 * GET /openapi.json and docs/SERVER.md all come from its rows.
 *
 * Each API has a group of rows in its own file; route.c lists the groups. */
#ifndef GLIM_SERVE_ROUTE_H
#define GLIM_SERVE_ROUTE_H

#include "serve/field.h"

struct call; /* serve.h */

/* Whose manners: how errors look. */
enum route_style { ROUTE_OPENAI, ROUTE_ANTHROPIC, ROUTE_LLAMACPP, ROUTE_OLLAMA };

struct route {
    const char *method; /* "GET"; HEAD goes where GET does */
    const char *path;   /* "/v1/responses/{id}": {…} is one segment; a last "*" is whatever is left, "" included */
    const char *doc;    /* one sentence */
    const char *absent; /* why there is no such thing here: 501; then there is nothing more */
    enum route_style style;
    bool open;       /* needs no key even where keys are in use */
    bool quick;      /* run in the event thread: well under a millisecond, and takes no body */
    size_t body_max; /* bytes; 0: ROUTE_BODY_MAX where there is a request shape, else no body is taken */
    /* In a worker (quick: in the event thread), after the body was checked against `request`. It leaves a whole reply
     * in the call (call_reply…), or starts a job, or takes the exchange over (call_take), or fails: see serve.h. */
    glim_status (*run)(struct call *c, struct glim_err *e);
    const struct field_shape *query;   /* parameters after '?', an object; NULL: there are none */
    const struct field_shape *request; /* NULL: takes no body */
    const struct field_shape *reply;   /* of 200, when it is JSON */
    const struct field_shape *event;   /* of one SSE event's data, where the route can stream */
    const char *reply_type;            /* NULL: application/json */
};

enum { ROUTE_BODY_MAX = 16 << 20, ROUTE_PARAMS = 2, ROUTE_PARAM_MAX = 128 };

struct route_group {
    const char *name, *doc;
    const struct route *route;
    size_t n;
};
extern const struct route_group route_groups[];
extern const size_t route_n_group;

/* Values of {…}, in order, percent-decoded. */
struct route_match {
    const struct route *route;
    char param[ROUTE_PARAMS][ROUTE_PARAM_MAX];
    const char *allow; /* 405: the methods that there are, "GET, POST" */
    char allow_buffer[64];
};
/* The HTTP status that is certain before the body is read: 200 with m->route, 404, 405 (m->allow), or 501 with
 * m->route. */
int route_find(const char *method, const char *path, struct route_match *m);
size_t route_body_max(const struct route *r);
/* Whose manners an error has where there is no route. */
enum route_style route_style_of(const char *path);

/* {"openapi": "3.1.0", …} */
void route_print_openapi(struct str *out);
/* docs/SERVER.md */
void route_print_markdown(struct str *out);

/* The body of an error reply in a style's shape. param and code may be NULL. */
void route_print_error(struct str *out, enum route_style style, int http, const char *message, const char *param,
                       const char *code);
/* What `route_print_error` prints. */
const struct field_shape *route_error_shape(enum route_style style);

#endif
