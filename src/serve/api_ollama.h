/* The inside of Ollama's API: api_ollama_shape.c what requests and replies look like, api_ollama_emit.c how an answer
 * is told, api_ollama.c the routes. */
#ifndef GLIM_SERVE_API_OLLAMA_H
#define GLIM_SERVE_API_OLLAMA_H

#include "serve/job.h"

extern const struct field_shape ollama_chat, ollama_chat_reply, ollama_generate, ollama_generate_reply;
extern const struct field_shape ollama_tags_reply, ollama_ps_reply, ollama_show, ollama_show_reply,
    ollama_version_reply;

/* What a reply is made with. */
struct ollama_ask {
    bool chat; /* else a text */
    bool stream;
    bool context; /* the last line tells all tokens */
};
/* Starts the job: one prompt, one answer. */
glim_status ollama_start(struct call *c, struct job_spec *s, const struct ollama_ask *ask, struct glim_err *e);
/* The answer that there is when nothing was asked. */
glim_status ollama_reply_loaded(struct call *c, bool chat, struct glim_err *e);

/* "2023-08-04T19:22:45.499127000Z" */
enum { OLLAMA_TIME_MAX = 40 };
void ollama_time(char out[OLLAMA_TIME_MAX], const struct timespec *t);

#endif
