/* Conversations on the command line: what `glim run --chat` and `glim chat` share. */
#ifndef GLIM_CLI_TALK_H
#define GLIM_CLI_TALK_H

#include "cli/cli.h"

#include "run/run.h"
#include "text/chat.h"

#include <stdio.h>

/* ---- options ---- */

struct talk_options {
    const char *system, *tools, *schema, *grammar, *reasoning, *template, *dialect;
};
enum { TALK_ARGS = 7 };
/* Rows for these options: arg[0, TALK_ARGS). */
void talk_args(struct talk_options *o, struct arg *arg);

/* The grammar of --json-schema or --grammar; NULL without either. */
glim_status talk_grammar(const struct talk_options *o, const struct glim_model *m, struct glim_grammar **out,
                         struct glim_err *e);

struct sampling_options {
    struct glim_sampling s;
    int64_t top_k, repeat_last_n;
    struct arg_list bias_text;
    struct glim_bias *bias;
};
enum { SAMPLING_ARGS = 11 };
void sampling_args(struct sampling_options *o, struct arg *arg);           /* also sets the defaults: greedy */
void sampling_apply(struct sampling_options *o);                           /* after a row was set */
glim_status sampling_read(struct sampling_options *o, struct glim_err *e); /* after parsing */
void sampling_fini(struct sampling_options *o);

/* ---- a conversation ---- */

struct talk {
    const struct glim_model *model;
    struct chat *chat;
    struct glim_session *session;
    struct chat_memory memory;    /* what the session holds */
    json_t *tools;                /* NULL or a list */
    struct glim_grammar *calls;   /* of the tools; NULL without any */
    struct glim_grammar *grammar; /* what the answer must be, or NULL; then there are no calls */
    bool grammar_waits;           /* for the end of reasoning */
    enum chat_reasoning reasoning;
    int32_t end[DIALECT_MAX_STOP]; /* the dialect's own ends of a turn */
    size_t n_end;
};
/* Zeroed *t in; talk_fini in every case. */
glim_status talk_init(struct talk *t, const struct glim_model *m, const struct talk_options *o, struct glim_err *e);
void talk_fini(struct talk *t);
glim_status talk_set_tools(struct talk *t, const char *file, struct glim_err *e); /* NULL: none */
glim_status talk_reasoning(const char *word, enum chat_reasoning *out, struct glim_err *e);

/* What one answer consists of. */
struct answer {
    struct str content, reasoning;
    json_t *calls;        /* list of {"id"?, "name", "arguments": object} */
    struct str malformed; /* raw text of what was meant as a call, and why it is none */
    struct glim_result result;
    size_t n_prompt;
};
void answer_fini(struct answer *a);
/* {"role": "assistant", "content", "reasoning_content"?, "tool_calls"?}; NULL: out of memory. */
json_t *answer_message(const struct answer *a);

enum shown { SHOWN_REASONING, SHOWN_CONTENT };
struct talk_job {
    const json_t *messages;
    struct glim_sampling sampling;
    uint32_t max_tokens; /* 0: as many as the context holds */
    const char *const *stop;
    size_t n_stop;
    bool ignore_end;
    /* pieces as they become certain; may be NULL */
    void (*show)(void *user, enum shown what, const char *text, size_t n);
    glim_progress *progress;
    void *user;
};
/* Tokens a second; 0 when there was nothing to measure. */
double talk_rate(size_t n, double seconds);
/* Reasoning, as a terminal shows it. */
void talk_dim(FILE *to, const char *text, size_t n);
/* Ctrl-C ends it early: what there is so far is the answer. */
glim_status talk_answer(struct talk *t, const struct talk_job *j, struct answer *a, struct glim_err *e);

#endif
