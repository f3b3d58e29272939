/* glim: one LLM inference engine. This header is the whole public C API; its comments are the contract.
 *
 *   glim_config   the levers: defaults, then glim.toml, then the environment, then what the program sets
 *   glim_model    weights, tokenizer and plan of one checkpoint; immutable and shareable between threads once open
 *   glim_session  the working state of one sequence; its only input is the whole token prefix, and it finds by itself
 * what of its cache can be kept: callers never manage positions
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

/* What an answer may be: a grammar over the model's vocabulary. Used by one generation at a time; the model must
 * outlive it. */
struct glim_grammar;
/* GBNF (the rule "root"), or a JSON Schema. Refused by name: whatever cannot be enforced exactly. An object that
 * declares properties gets no others unless its schema speaks of them. */
glim_status glim_grammar_gbnf(struct glim_grammar **out, const struct glim_model *m, const char *text, size_t n,
                              struct glim_err *err);
glim_status glim_grammar_json_schema(struct glim_grammar **out, const struct glim_model *m, const char *text, size_t n,
                                     struct glim_err *err);
/* The grammar begins only after this text has appeared in the answer (the end of reasoning, say); repeatable: after the
 * first of them. may_end: the answer may also end before any appears. */
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
    struct glim_grammar *grammar; /* NULL: anything */
};

/* A piece of text became certain: UTF-8 sequences are whole, and no part of a stop string is ever shown. n may be 0
 * when a token produced nothing visible yet. Return false to cancel. */
typedef bool glim_on_text(void *user, int32_t token, const char *text, size_t n);

enum glim_finish { GLIM_FINISH_LENGTH, GLIM_FINISH_END, GLIM_FINISH_STOP, GLIM_FINISH_CANCELLED };

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

#ifdef __cplusplus
}
#endif
#endif
