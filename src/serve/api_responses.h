/* The responses API's inside: api_responses_shape.c what requests and replies look like, api_responses_read.c how items
 * become a conversation, api_responses_emit.c how an answer is told and kept, api_responses.c the routes. */
#ifndef GLIM_SERVE_API_RESPONSES_H
#define GLIM_SERVE_API_RESPONSES_H

#include "serve/job.h"

extern const struct field_shape responses_request, responses_reply, responses_event;
extern const struct field_shape responses_deleted, responses_items, responses_items_query;
extern const struct field_shape responses_count, responses_count_reply;

/* A request's own input as a list of items, each with an id: what is stored, and what input_items says. */
glim_status responses_input(const struct call *c, json_t **items, struct glim_err *e);

/* Items and instructions as a conversation, and the request's tools, tool_choice, text and reasoning. *chat points into
 * *own and the call: fresh JSON, to be let go of after use, also after a failure. */
struct responses_chat {
    struct job_chat chat;
    json_t *messages, *tools;
};
glim_status responses_read(struct call *c, const json_t *items, struct responses_chat *own, struct glim_err *e);
void responses_chat_fini(struct responses_chat *own);

/* What a response is told with. */
struct responses_ask {
    bool stream, store, logprobs;
    const json_t *input; /* the request's own items */
};
glim_status responses_start(struct call *c, struct job_spec *s, const struct responses_ask *ask, struct glim_err *e);
/* In the event thread. The job of a response that is under way; NULL when there is none of this id. */
struct job *responses_find(const struct server *s, const char *id);
/* The response object as it is now. status: instead of in_progress. */
void responses_print(struct str *out, const struct job *j, const char *status);

#endif
