/* Streams that outlive their connection.
 *
 * A client that wants to come back says so: the header `x-resume-seconds: N` (1 to 600) on a request whose answer is a
 * stream of server-sent events. The answer then has the header `x-stream-id` and its events are numbered by `id:` lines
 * from 1 on. When the connection breaks, the model goes on for N seconds, and GET /v1/streams/{id}?after=K (or the
 * header Last-Event-ID: K, as browsers send it) gives the events after K and then those to come. An answer that has
 * ended is kept N seconds more. Without the header a client's going cancels its request at once.
 *
 * The last STREAM_KEEP bytes are kept of each stream; who asks for more is told so (410). There is one reader at a
 * time: a new one takes the place of an old one, which may be a connection that only seems to be open. A stream belongs
 * to the key it was made with. Of more than STREAMS_MAX streams the oldest that has ended is forgotten; when none has,
 * a new one is an ordinary stream, without x-stream-id.
 *
 * All of it belongs to the event thread. */
#ifndef GLIM_SERVE_STREAMS_H
#define GLIM_SERVE_STREAMS_H

#include "serve/serve.h"

enum { STREAM_KEEP = 4 << 20, STREAMS_MAX = 64, STREAM_SECONDS_MAX = 600 };

struct stream; /* call.stream */

/* What the request asks for: 0 when nothing, -1 when that is not a number from 1 to STREAM_SECONDS_MAX. */
int stream_seconds(const struct http_request *r);

/* The producer's events, which are about to be sent, are kept too. NULL: there is no room, or no memory. */
struct stream *stream_create(struct call *producer, int seconds);
void stream_feed(struct stream *t, const char *p, size_t n);
/* The producer is done: whole, or in the middle. It is not called any more. */
void stream_end(struct stream *t);
void stream_break(struct stream *t);
/* The producer's own connection is gone. */
void stream_lost(struct stream *t);
/* Ends all, and the calls that feed them; before the engine and the transport go. */
void streams_free(struct server *s);

/* GET /v1/streams/{id} */
glim_status stream_run(struct call *c, struct glim_err *e);

#endif
