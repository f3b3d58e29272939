/* Jobs: what every API that generates has in common.
 *
 * A route's `run` (in a worker) reads its fields into a struct job_spec, by the helpers here, and starts a job. A job
 * has one or more inputs (prompts as tokens), each an engine's task with n answers. The engine's events are copied into
 * the job's queue in the engine's thread, and taken from there in the event thread, where the text goes through the
 * dialect's parser and comes out as calls of the API's emitter. An API implements the emitter once; whether it sends
 * pieces or gathers them, the text is the same.
 *
 * Answers are numbered input * n + i. Inputs beyond what the engine's queue should hold of one job are submitted as
 * earlier ones end.
 *
 * The client's going cancels the job, unless it is to be kept. For a client that reads slower than the model writes,
 * events wait in the job's queue while the socket has JOB_BACKLOG bytes to take; when the queue holds JOB_QUEUE bytes,
 * the client is cut. Nobody else waits. */
#ifndef GLIM_SERVE_JOB_H
#define GLIM_SERVE_JOB_H

#include "serve/serve.h"

enum { JOB_BACKLOG = 256 << 10, JOB_QUEUE = 16 << 20, JOB_AHEAD = 32, JOB_MAX_ANSWERS = 128, JOB_MAX_STOP = 16 };

/* ---- what is asked for ---- */

struct job_input {
    int32_t *id;
    size_t n;
};

struct grammar_lease; /* grammars.h */

/* job_spec_init to begin with; job_spec_fini in every case: job_start takes what it needs out. */
struct job_spec {
    struct job_input *input; /* [n_input] */
    size_t n_input, cap_input;
    struct glim_task task; /* all but request.prompt, on_event and user; its lists are those below */
    char **stop;
    struct glim_bias *bias;
    int32_t *end;
    struct grammars *grammars;
    struct grammar_lease *grammar;
    /* how the text is taken apart; dialect NULL: it is all content */
    const struct dialect *dialect;
    enum dialect_prompt prompt_end;
    json_t *tools;
    bool parse_tools;
    bool keep;          /* goes on when the client has gone */
    const char *member; /* what holds the prompts, for errors; NULL: "prompt" */
};
void job_spec_fini(struct job_spec *s);

/* top_k, min_p, typical_p, repeat_penalty (and repetition_penalty), repeat_last_n, seed, logit_bias, stop, ignore_eos,
 * cache_prompt: members of these names, with bounds that hold for all APIs. */
extern const struct field_shape job_sampling_shape;
/* Reads these, and temperature, top_p, presence_penalty and frequency_penalty where there are any, into s->task. What
 * is absent is as in s->task already: job_spec_init sets temperature 1 and the rest off, seed random. */
void job_spec_init(struct call *c, struct job_spec *s);
glim_status job_read_sampling(struct call *c, const json_t *body, struct job_spec *s, struct glim_err *e);
/* At most n new tokens, cut to what the context holds; 0: as many as that. */
void job_set_max_tokens(struct job_spec *s, int64_t n); /* the prompts need not be there yet */

/* Prompts: a string, a list of strings, of token ids, or of lists of token ids. Text such as <|im_start|> is text
 * unless `special`. */
extern const struct field_shape job_prompt_shape;
glim_status job_add_prompts(struct call *c, const json_t *prompt, bool special, struct job_spec *s, struct glim_err *e);
glim_status job_add_text(struct call *c, const char *text, size_t n, bool special, struct job_spec *s,
                         struct glim_err *e);
/* ids: fresh memory, the spec's from now on, also after a failure. */
glim_status job_add_tokens(struct job_spec *s, int32_t *id, size_t n, struct glim_err *e);

enum job_tool_choice { JOB_TOOLS_AUTO, JOB_TOOLS_NONE, JOB_TOOLS_REQUIRED, JOB_TOOLS_NAMED };
enum job_format { JOB_FORMAT_TEXT, JOB_FORMAT_JSON, JOB_FORMAT_SCHEMA, JOB_FORMAT_GBNF };

struct job_constraint {
    enum job_format format;
    const json_t *schema; /* SCHEMA */
    const char *gbnf;     /* GBNF */
    size_t n_gbnf;
};
/* The answer's grammar, without a conversation. member: what errors call it. */
glim_status job_constrain(struct call *c, const struct job_constraint *f, const char *member, struct job_spec *s,
                          struct glim_err *e);

struct job_chat {
    const json_t *messages; /* as OpenAI's chat API has them; content may be absent or null */
    const json_t *tools;    /* NULL, or as OpenAI's chat API has them */
    enum job_tool_choice choice;
    const char *tool; /* JOB_TOOLS_NAMED */
    bool parallel;
    struct job_constraint format;
    enum chat_reasoning reasoning;
    const json_t *extra;
    bool no_answer;
    const char *messages_member, *tools_member, *format_member; /* what errors call them; NULL: OpenAI's names */
};
/* The text of a conversation's prompt, chat_prompt_fini. */
glim_status job_chat_prompt(struct call *c, const struct job_chat *chat, struct chat_prompt *p, struct glim_err *e);
/* A conversation becomes the one prompt; sets grammar and dialect. */
glim_status job_chat(struct call *c, const struct job_chat *chat, struct job_spec *s, struct glim_err *e);

/* ---- what comes out ---- */

enum job_part { JOB_CONTENT, JOB_REASONING };
enum job_finish {
    JOB_STOP,   /* the model's end, or a stop string */
    JOB_LENGTH, /* max_tokens, or the context */
    JOB_CALLS,  /* the model's end, after tool calls */
    JOB_CANCELLED
};

struct job_answer {
    struct dialect_parser *parser; /* NULL: the text is all content */
    uint32_t n_call;               /* calls that are complete */
    bool over;
    enum job_finish finish;
    int stop; /* which stop string ended it; -1: none */
    struct glim_usage usage;
};

struct job_call {
    size_t index;
    const char *id, *name; /* id: the dialect's, else one made here */
};

struct job_token {
    int32_t id;
    const struct glim_logprob *logprob; /* [n]: the token, then the likeliest; n 0 when nobody asked */
    size_t n;
};

/* In the event thread. What an API does not care for is NULL. */
struct job_emitter {
    void (*begin)(struct job *j); /* accepted by the engine: send a stream's headers */
    /* Prompt of an input, once, before its answers, when its logprobs were asked for: [n_token - 1][each]. */
    void (*prompt)(struct job *j, uint32_t input, const struct glim_logprob *logprob, size_t each);
    void (*text)(struct job *j, uint32_t answer, enum job_part part, const char *p, size_t n);
    void (*call_begin)(struct job *j, uint32_t answer, const struct job_call *call);
    void (*call_args)(struct job *j, uint32_t answer, size_t index, const char *p, size_t n);
    void (*call_end)(struct job *j, uint32_t answer, size_t index);
    void (*token)(struct job *j, uint32_t answer, const struct job_token *t); /* after the text it made certain; not for
                                                                                 a token that ended the answer */
    void (*embedding)(struct job *j, uint32_t input, const float *v, size_t n);
    void (*end)(struct job *j, uint32_t answer);                     /* j->answer[answer] says how */
    void (*flush)(struct job *j);                                    /* after some of the above */
    void (*done)(struct job *j);                                     /* every answer is over */
    void (*fail)(struct job *j, int http, const struct glim_err *e); /* instead of done; NULL: call_error */
    void (*ping)(struct job *j); /* nothing was sent for 10 s; NULL: a comment, where the call is a stream */
    void (*free)(struct job *j); /* of j->user */
};

struct job {
    struct call *call;
    const struct job_emitter *emit;
    void *user;
    struct job_input *input; /* as submitted */
    size_t n_input;
    uint32_t n;                /* answers an input */
    struct job_answer *answer; /* [n_input * n] */
    size_t n_answer, n_over;
    struct job_state *state;
    struct job *next, **link;
};

/* The last thing a route's `run` does. user is the job's from now on, also after a failure (emit->free). */
glim_status job_start(struct call *c, struct job_spec *s, const struct job_emitter *emit, void *user,
                      struct glim_err *e);
/* In the event thread: all answers end within a step, as JOB_CANCELLED. The job may be gone when it returns. */
void job_cancel(struct job *j);
/* The client has gone while the job goes on: nothing waits for it to take what it has. */
void job_unblock(struct job *j);
/* How far it has come: sums over inputs and answers. Any time between begin and end. */
enum job_phase { JOB_QUEUED, JOB_PREFILL, JOB_DECODE };
struct job_progress {
    enum job_phase phase; /* the furthest of them */
    size_t n_prompt, n_cached, n_done, n_token;
};
struct job_progress job_progress(const struct job *j);
/* Sums over all answers; the prompt of an input counts once. */
struct glim_usage job_usage(const struct job *j);

#endif
