/* The Anthropic API's inside: api_anthropic_shape.c what requests and replies look like, api_anthropic_read.c how a
 * request becomes a conversation, api_anthropic_emit.c how an answer is told, api_anthropic.c the routes. */
#ifndef GLIM_SERVE_API_ANTHROPIC_H
#define GLIM_SERVE_API_ANTHROPIC_H

#include "serve/job.h"

extern const struct field_shape anthropic_request, anthropic_count, anthropic_count_reply;
extern const struct field_shape anthropic_reply, anthropic_event;

/* The request's messages, system, tools, tool_choice, thinking and output_config as a conversation, which points into
 * *own: fresh JSON, to be let go of after use, also after a failure. */
struct anthropic_chat {
    struct job_chat chat;
    json_t *messages, *tools;
};
glim_status anthropic_read(struct call *c, struct anthropic_chat *a, struct glim_err *e);
void anthropic_chat_fini(struct anthropic_chat *a);

/* Starts the job. stops: the request's stop sequences, or NULL. */
glim_status anthropic_start(struct call *c, struct job_spec *s, bool stream, const json_t *stops, struct glim_err *e);

#endif
