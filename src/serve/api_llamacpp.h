/* The inside of llama.cpp's API: api_llamacpp_shape.c what requests and replies look like, api_llamacpp_read.c how a
 * request becomes a job, api_llamacpp_emit.c how its answers are told, api_llamacpp_text.c what needs no generation,
 * api_llamacpp.c the routes. */
#ifndef GLIM_SERVE_API_LLAMACPP_H
#define GLIM_SERVE_API_LLAMACPP_H

#include "serve/job.h"

extern const struct field_shape lcpp_completion, lcpp_infill, lcpp_completion_reply, lcpp_completion_event;
extern const struct field_shape lcpp_embedding, lcpp_embedding_reply;
extern const struct field_shape lcpp_tokenize, lcpp_tokens, lcpp_detokenize, lcpp_content, lcpp_prompt_reply;
extern const struct field_shape lcpp_props_reply, lcpp_slots_query, lcpp_slots_reply, lcpp_models_reply;

/* `run` of routes. */
glim_status lcpp_run_completion(struct call *c, struct glim_err *e);
glim_status lcpp_run_infill(struct call *c, struct glim_err *e);
glim_status lcpp_run_embedding(struct call *c, struct glim_err *e);
glim_status lcpp_run_tokenize(struct call *c, struct glim_err *e);
glim_status lcpp_run_detokenize(struct call *c, struct glim_err *e);
glim_status lcpp_run_apply_template(struct call *c, struct glim_err *e);

/* ---- a completion ---- */

/* What a reply is made with. */
struct lcpp_ask {
    bool stream, return_tokens;
    uint32_t max_tokens;  /* 0: as many as the context holds */
    const json_t *fields; /* of the call's body: response_fields; NULL: all */
    json_t *settings;     /* generation_settings; owned */
    struct str *prompt;   /* [n_prompt] texts of the inputs as JSON; owned */
    size_t n_prompt;
};
void lcpp_ask_fini(struct lcpp_ask *ask);
/* Starts the job; *ask moves into it, also after a failure. */
glim_status lcpp_start(struct call *c, struct job_spec *s, struct lcpp_ask *ask, struct glim_err *e);
/* The settings of a task, and those of a request that says nothing. */
json_t *lcpp_settings(const struct server *server, const struct job_spec *s, const struct lcpp_ask *ask,
                      const char *grammar);
void lcpp_default_sampling(struct glim_sampling *p);
/* v, or NULL where one of the calls that filled it failed (they return -1). */
json_t *lcpp_whole(json_t *v, int failed);

/* Vectors in llama.cpp's words. */
glim_status lcpp_start_embeddings(struct call *c, struct job_spec *s, struct glim_err *e);

/* ---- text ---- */

/* A text, token ids, a mixed list of both, {"prompt_string": …}, or a list of these; errors name s->member. */
glim_status lcpp_add_prompts(struct call *c, const json_t *prompt, struct job_spec *s, struct glim_err *e);

/* Text between a prefix and a suffix; extra: NULL or a list of {"filename", "text"}. Refused (501) where the vocabulary
 * has no tokens for it. */
struct lcpp_gap {
    const char *prefix, *suffix, *prompt;
    size_t n_prefix, n_suffix, n_prompt;
    const json_t *extra;
};
glim_status lcpp_add_gap(struct call *c, const struct lcpp_gap *gap, struct job_spec *s, struct glim_err *e);
bool lcpp_has_gap_tokens(const struct server *server);

/* The text of the chat template in use: mem_free; NULL where there is none. In a worker. */
glim_status lcpp_template_text(const struct server *s, char **text, struct glim_err *e);

#endif
