/* The OpenAI API's inside: openai_shape.c what requests and replies look like, openai_emit.c how an answer is told,
 * api_openai.c the routes. */
#ifndef GLIM_SERVE_OPENAI_H
#define GLIM_SERVE_OPENAI_H

#include "serve/job.h"

extern const struct field_shape openai_chat, openai_chat_reply, openai_chat_chunk;
extern const struct field_shape openai_completion, openai_completion_reply;
extern const struct field_shape openai_embeddings, openai_embeddings_reply;
extern const struct field_shape openai_models_reply, openai_model_reply;

/* What other APIs have in common with this one: 404 for a model that is not the served one; a word such as "low", NULL
 * for none; one item of a list of TokenLogprob. */
glim_status openai_check_model(struct call *c, struct glim_err *e);
enum chat_reasoning openai_effort(const char *word);
void openai_put_token(struct str *s, const struct tokenizer *tok, const struct job_token *t);
extern const struct field_shape openai_token_logprob;
/* Messages, tools, tool_choice, reasoning_effort, chat_template_kwargs and add_generation_prompt of a body that was
 * checked against openai_chat; *chat refers to it. */
glim_status openai_read_conversation(struct call *c, struct job_chat *chat, struct glim_err *e);

struct openai_prompt;
/* What a generation's reply is made with. */
struct openai_ask {
    bool chat;   /* else a completion */
    bool stream; /* in chunks */
    bool usage;  /* the stream ends with a chunk of usage */
    bool echo;   /* a completion begins with its prompt */
    bool logprobs;
    struct openai_prompt *prompt; /* echo: [n_prompt], owned */
    size_t n_prompt;
};
struct openai_prompt {
    char *text;
    size_t n;
    bool bos; /* the first token is none of the text */
};
/* Starts the job; *ask moves into it, also after a failure. */
glim_status openai_start(struct call *c, struct job_spec *s, struct openai_ask *ask, struct glim_err *e);
void openai_ask_fini(struct openai_ask *ask);

glim_status openai_start_embeddings(struct call *c, struct job_spec *s, bool base64, struct glim_err *e);

#endif
