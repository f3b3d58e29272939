/* What the dashboard shows: a snapshot of the server once a second, as server-sent events (page.h lists the members),
 * and the requests under way with a way to end them. In the event thread; nothing runs while nobody watches. */
#ifndef GLIM_SERVE_TELEMETRY_H
#define GLIM_SERVE_TELEMETRY_H

#include "serve/serve.h"

enum { TELEMETRY_WATCHERS = 32, TELEMETRY_REQUESTS = 64 };

struct telemetry;

extern const struct field_shape telemetry_shape;

glim_status telemetry_create(struct telemetry **out, struct server *s, struct glim_err *e);
void telemetry_free(struct telemetry *t); /* before the transport; NULL is fine */
/* GET /telemetry */
glim_status telemetry_run(struct call *c, struct glim_err *e);
/* A last snapshot, which says that the server drains, and the end of all streams of them. */
void telemetry_end(struct telemetry *t);

/* The engine has been in one step, or in none though it has work, for longer than the lever health_s. *age_s: how long.
 */
bool engine_hangs(const struct server *s, double *age_s);

#endif
