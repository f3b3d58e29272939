/* glim: one LLM inference engine. This header is the whole public C API; its comments are the contract.
 *
 *   glim_config   the levers: defaults, then glim.toml, then the environment, then what the program sets
 *   glim_model    weights, tokenizer and plan of one checkpoint; immutable and shareable between threads once open
 *   glim_session  the working state of one sequence; its only input is the whole token prefix, and it finds by itself
 * what of its cache can be kept: callers never manage positions
 *   glim_engine   many sequences at once: requests go in, events come out
 *
 * Errors: functions that can fail return a glim_status and write one sentence into *err (which may be NULL). Nothing
 * here aborts, exits or prints. Strings are UTF-8. A session is used by one thread at a time.
 *
 * Determinism: with the same model file, levers that do not say "changes bits" and the same token prefix, logits and
 * sampled tokens are the same bytes whatever the number of threads, the prefill chunk, the batch or the cache's
 * content. */
#ifndef GLIM_H
#define GLIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The values are the exit codes of the command line too. */
typedef enum glim_status {
    GLIM_OK = 0,
    GLIM_FAILED = 1,  /* it did not work: I/O, memory, a damaged file */
    GLIM_USAGE = 2,   /* the call itself is malformed */
    GLIM_REFUSED = 3, /* well formed, but a rule or a limit says no */
    GLIM_BUSY = 75    /* a lock or a lease is held by another */
} glim_status;

struct glim_err {
    glim_status status;
    char message[500]; /* "<what failed>: <where>: have <x>, need <y>", no newline */
};

const char *glim_version(void);

/* ---- configuration -------------------------------------------------------------------------------------------------
 */

struct glim_config;

/* Read glim.toml (working folder, else $GLIM_HOME) and the environment. Refused: an unknown GLIM_, MUSER_ or METRALE_
 * name, an unknown key, a value outside its row's bounds, two spellings of one lever that disagree. */
glim_status glim_config_create(struct glim_config **out, struct glim_err *err);
/* Set one lever by its key or canonical name ("threads", "GLIM_THREADS"); wins over file and environment. */
glim_status glim_config_set(struct glim_config *c, const char *name, const char *value, struct glim_err *err);
void glim_config_free(struct glim_config *c);

/* ---- model ---------------------------------------------------------------------------------------------------------
 */

struct glim_model;

struct glim_model_info {
    const char *name;    /* as the checkpoint calls itself, else its file name */
    const char *arch;    /* row of the architecture table: "llama", "qwen3", … */
    const char *format;  /* "gguf" or "hf" */
    const char *backend; /* "cpu-avx512", … */
    uint32_t n_vocab;    /* rows of the logits */
    uint32_t n_layer;
    uint32_t dim;         /* width of the residual stream */
    uint32_t n_ctx_train; /* context length the checkpoint declares */
    uint64_t n_param;
    uint64_t weight_bytes; /* as laid out in memory */
    int32_t bos, eos;      /* -1 when there is none */
};

/* done of total (bytes of weights, tokens of a prompt) are in place; called from the caller's thread. Return false to
 * cancel. */
typedef bool glim_progress(void *user, uint64_t done, uint64_t total);

/* path: a .gguf file (the first of a split set) or a Hugging Face checkpoint folder. progress may be NULL; a cancelled
 * open fails. */
glim_status glim_model_open(struct glim_model **out, const char *path, const struct glim_config *c,
                            glim_progress *progress, void *user, struct glim_err *err);
void glim_model_close(struct glim_model *m);
const struct glim_model_info *glim_model_info(const struct glim_model *m);
/* True when generation ends at this token (end of text, end of turn). */
bool glim_token_is_end(const struct glim_model *m, int32_t token);

/* ---- text and tokens -----------------------------------------------------------------------------------------------
 */

enum {
    GLIM_TOK_BOS = 1,     /* begin with the BOS token where the model wants one */
    GLIM_TOK_SPECIAL = 2, /* text such as <|im_start|> becomes its special token; without it, it stays text */
};

/* *tokens is freed with glim_free. Any bytes are accepted; detokenising gives the same bytes back. */
glim_status glim_tokenize(const struct glim_model *m, const char *text, size_t n, int flags, int32_t **tokens,
                          size_t *n_token, struct glim_err *err);
/* *text gets n bytes and a terminating NUL; freed with glim_free. special: also print special tokens' text. */
glim_status glim_detokenize(const struct glim_model *m, const int32_t *tokens, size_t n_token, bool special,
                            char **text, size_t *n, struct glim_err *err);
void glim_free(void *p);

/* ---- sessions ------------------------------------------------------------------------------------------------------
 */

struct glim_session;

/* n_ctx: positions this session can hold; 0 = the lever `ctx`. Refused, with the memory table, when it does not fit. */
glim_status glim_session_create(struct glim_session **out, const struct glim_model *m, uint32_t n_ctx,
                                struct glim_err *err);
void glim_session_free(struct glim_session *s);

/* Bring the session to exactly this prefix and return the logits after its last token: f32 [n_vocab], valid until the
 * next call on s. Tokens shared with the previous prefix are not computed again. n_token >= 1. Refused when longer than
 * n_ctx. */
glim_status glim_session_eval(struct glim_session *s, const int32_t *tokens, size_t n_token, const float **logits,
                              struct glim_err *err);
/* Logits after each of the n_token tokens, computed from nothing: out is f32 [n_token, n_vocab]. */
glim_status glim_session_eval_all(struct glim_session *s, const int32_t *tokens, size_t n_token, float *out,
                                  struct glim_err *err);
/* Tokens of the last eval's prefix that were taken from the cache. */
size_t glim_session_reused(const struct glim_session *s);

/* ---- sampling and generation ---------------------------------------------------------------------------------------
 */

struct glim_bias {
    int32_t token;
    float add; /* added to the logit before anything else; -INFINITY forbids the token */
};

struct glim_sampling {
    float temperature;       /* 0 = greedy: the lowest id among the largest logits */
    uint32_t top_k;          /* 0 = all */
    float top_p;             /* 1 = all */
    float min_p;             /* 0 = all */
    float typical_p;         /* 1 = off */
    float repeat_penalty;    /* 1 = off; over the last repeat_last_n tokens */
    float presence_penalty;  /* 0 = off */
    float frequency_penalty; /* 0 = off */
    int32_t repeat_last_n;   /* 64; -1 = the whole prefix */
    uint64_t seed;
    const struct glim_bias *bias;
    size_t n_bias;
};
struct glim_sampling glim_sampling_default(void);

/* Draw the token that follows prefix[0, n_prefix). Noise is a function of (seed, n_prefix, token id) and of nothing
 * else. */
glim_status glim_sample(const float *logits, uint32_t n_vocab, const int32_t *prefix, size_t n_prefix,
                        const struct glim_sampling *s, int32_t *token, struct glim_err *err);

/* What an answer may be: a grammar over the model's vocabulary. Any number of generations may use it at once; it must
 * outlive them, and the model it. */
struct glim_grammar;
/* GBNF (the rule "root"), or a JSON Schema. Refused by name: whatever cannot be enforced exactly. An object that
 * declares properties gets no others unless its schema speaks of them. */
glim_status glim_grammar_gbnf(struct glim_grammar **out, const struct glim_model *m, const char *text, size_t n,
                              struct glim_err *err);
glim_status glim_grammar_json_schema(struct glim_grammar **out, const struct glim_model *m, const char *text, size_t n,
                                     struct glim_err *err);
/* The grammar begins only after this text has appeared in the answer (the end of reasoning, say); repeatable: after the
 * first of them. may_end: the answer may also end before any appears. Before the first generation. */
glim_status glim_grammar_after(struct glim_grammar *g, const char *trigger, bool may_end, struct glim_err *err);
void glim_grammar_free(struct glim_grammar *g);

struct glim_request {
    const int32_t *prompt;
    size_t n_prompt;
    uint32_t max_tokens; /* at most this many new tokens; 0 = as many as the context holds */
    struct glim_sampling sampling;
    const char *const *stop; /* n_stop strings; generation ends before the first that appears in the text */
    size_t n_stop;
    bool ignore_end;    /* go on after end-of-text tokens; not with a grammar, which says when it is done */
    const int32_t *end; /* n_end further tokens that end the generation; they may be none of the text */
    size_t n_end;
    bool special;                 /* control tokens appear in the text; those that end it do not */
    bool thinks;                  /* the prompt has opened reasoning, in which no tool call begins */
    struct glim_grammar *grammar; /* NULL: anything */
};

/* A piece of text became certain: UTF-8 sequences are whole, and no part of a stop string is ever shown. n may be 0
 * when a token produced nothing visible yet. Return false to cancel. */
typedef bool glim_on_text(void *user, int32_t token, const char *text, size_t n);

enum glim_finish {
    GLIM_FINISH_LENGTH,
    GLIM_FINISH_END,
    GLIM_FINISH_STOP,
    GLIM_FINISH_CANCELLED,
    GLIM_FINISH_DEADLINE /* an engine's task ran out of time; what was generated counts */
};

struct glim_result {
    int32_t *tokens; /* n_token generated ids, an end token included when one ended it; freed with glim_result_fini */
    size_t n_token;
    char *text; /* NUL-terminated, n_text bytes, without the stop string */
    size_t n_text;
    enum glim_finish finish;
    size_t n_reused;            /* prompt tokens taken from the cache */
    double prefill_s, decode_s; /* wall time of the prompt and of the tokens after the first */
};
void glim_result_fini(struct glim_result *r);

/* on_text may be NULL. progress(user, done, n_prompt), when not NULL, is called after each chunk of the prompt;
 * cancelling there ends the generation with GLIM_FINISH_CANCELLED and no token. */
glim_status glim_generate(struct glim_session *s, const struct glim_request *q, glim_on_text *on_text,
                          glim_progress *progress, void *user, struct glim_result *r, struct glim_err *err);

/* ---- engine --------------------------------------------------------------------------------------------------------
 * One thread owns the forward pass and serves every request from shared caches. Whatever else runs, is cached,
 * cancelled or preempted: an answer's bytes are those it has alone. Calls are safe from any thread, callbacks too. */

struct glim_engine;

enum glim_pooling { GLIM_POOL_NONE, GLIM_POOL_MEAN, GLIM_POOL_LAST, GLIM_POOL_CLS };

struct glim_event;
/* From the engine's thread, which waits for it: hand on, do not work. No lock is held. */
typedef void glim_on_event(void *user, const struct glim_event *ev);

struct glim_task { /* copied by glim_engine_submit, but for the grammar */
    struct glim_request request;
    uint32_t n_answer;        /* answers to the prompt, which is computed once; 0 = 1. Answer i draws with seed + i */
    int32_t priority;         /* -100..100; higher goes first, and whoever is passed over rises */
    double deadline_s;        /* seconds from now after which it ends (GLIM_FINISH_DEADLINE); 0 = none */
    int32_t n_logprob;        /* each token's logprob and the n likeliest (0..20); -1: none */
    int32_t n_prompt_logprob; /* the same for the prompt's tokens but the first; -1: none */
    enum glim_pooling pool;   /* not NONE: no answer but the embedding of the prompt, of length 1 */
    bool prompt_only;         /* no answer: the prompt's logprobs alone */
    uint32_t adapter;         /* 0: the model as it is. There are no others yet */
    size_t turn;              /* prompt tokens before the last user turn, 0 unknown: a place worth a state snapshot */
    bool no_cache;            /* takes nothing from the prefix cache and leaves nothing there */
    glim_on_event *on_event;
    void *user;
};

struct glim_logprob {
    int32_t token;
    float logprob; /* ln of the softmax of the model's own logits: before bias, penalties, temperature and grammar */
};

enum glim_event_kind { GLIM_EVENT_PROMPT, GLIM_EVENT_TOKEN, GLIM_EVENT_EMBEDDING, GLIM_EVENT_DONE, GLIM_EVENT_ERROR };

struct glim_usage {
    size_t n_prompt, n_cached, n_token, n_draft, n_accepted; /* cached: prompt tokens that were not computed */
    double queue_s, prefill_s, decode_s;                     /* until admitted, until the first token, after it */
};

/* Each answer ends with one DONE or ERROR, after which nothing of it follows. Pointers hold during the call. */
struct glim_event {
    uint64_t id;
    uint32_t answer;
    enum glim_event_kind kind;
    size_t done, total; /* PROMPT: tokens that are computed, of its length; 0 when it is admitted */
    int32_t token;
    const char *text; /* TOKEN: what became certain, perhaps nothing; DONE: what was held back */
    size_t n_text;
    const struct glim_logprob *logprob; /* TOKEN: the token, then the likeliest; PROMPT: this for tokens 1, 2, … */
    size_t n_logprob;                   /* of a token: 0, or 1 + those asked for */
    const float *embedding;             /* f32 [n_embedding] */
    size_t n_embedding;
    enum glim_finish finish; /* DONE */
    size_t stop;             /* DONE with GLIM_FINISH_STOP: which stop string */
    struct glim_usage usage; /* DONE */
    struct glim_err err;     /* ERROR */
};

/* Caches and slots as the levers n_seq, ctx, kv_size and their like say; refused, with the memory table, when they do
 * not fit. The model must outlive it. */
glim_status glim_engine_create(struct glim_engine **out, const struct glim_model *m, struct glim_err *err);
/* New tasks are refused from now; those in work may end within drain_s seconds, then they are cancelled. */
void glim_engine_free(struct glim_engine *g, double drain_s);
/* *id: of the task, never 0. Refused: what can never run. GLIM_BUSY, with an estimate in seconds: the queue is full. */
glim_status glim_engine_submit(struct glim_engine *g, const struct glim_task *t, uint64_t *id, struct glim_err *err);
/* Every answer of the task ends with GLIM_FINISH_CANCELLED within one step. An id that is done is fine. */
void glim_engine_cancel(struct glim_engine *g, uint64_t id);

#ifdef __cplusplus
}
#endif
#endif
