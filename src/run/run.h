/* What the command line needs beyond glim.h. */
#ifndef GLIM_RUN_RUN_H
#define GLIM_RUN_RUN_H

#include "run/model.h"
#include "text/calls.h"

/* The memory table of a model and n_seq sessions of n_ctx positions (0 = default), without loading it. */
glim_status run_plan(const char *path, const struct glim_config *c, uint32_t n_ctx, uint32_t n_seq, struct mem_plan *mp,
                     struct glim_err *e);

/* Where a conversation's form comes from: texts of templates, NULL where there is none, and what errors call them. */
struct run_templates {
    const char *text, *tool_text, *name;
};
/* The templates over a vocabulary, and the dialect of that name (NULL: the one the template shows). Refused where there
 * is no template. Close with chat_close. */
struct chat;
glim_status run_chat_open(struct chat **out, const struct tokenizer *t, const struct run_templates *from,
                          const char *dialect, struct glim_err *e);

/* The calls that a dialect can write for these tools (calls.h) as a grammar of the model. */
glim_status run_grammar_calls(struct glim_grammar **out, const struct glim_model *m, const struct dialect *d,
                              const json_t *tools, const struct calls_opts *o, struct glim_err *e);

/* Hidden states after each layer: f32 [n_layer, n_token, dim], computed from nothing. */
glim_status run_trace(struct glim_session *s, const int32_t *tokens, size_t n_token, float *hidden, struct glim_err *e);

/* A decode step: append one token to the session's prefix and compute its logits. */
glim_status run_session_append(struct glim_session *s, int32_t token, const float **logits, struct glim_err *e);

/* As glim_session_eval, calling progress(user, done, n_token) after each chunk. Cancelled before the last: *logits is
 * NULL, and what was computed stays in the cache. */
glim_status run_session_eval(struct glim_session *s, const int32_t *tokens, size_t n_token, const float **logits,
                             glim_progress *progress, void *user, struct glim_err *e);

/* The engine's counters, to be read while it runs. */
struct metrics;
const struct metrics *run_engine_metrics(const struct glim_engine *g);
/* Seconds since the step under way began, or since work came to an engine that has not begun one; 0 when there is
 * nothing to do. Any thread. */
double run_engine_step_age(struct glim_engine *g);

/* ---- streams: sequences that decode together, each with its own cache (benchmarks) ---- */

struct run_streams;
/* n_stream >= 1 sequences of up to n_ctx >= 1 positions; the model must outlive them. */
glim_status run_streams_create(struct run_streams **out, const struct glim_model *m, uint32_t n_stream, uint32_t n_ctx,
                               struct glim_err *e);
void run_streams_free(struct run_streams *s);
int run_streams_threads(const struct run_streams *s);
/* Cut a stream back to its first n tokens, or to none when its windows have moved on; returns how many it holds. */
uint32_t run_streams_cut(struct run_streams *s, uint32_t stream, uint32_t n);
/* Append n tokens to one stream, a chunk at a time; *logits: f32 [n_vocab] after the last, valid until the next call.
 */
glim_status run_streams_prefill(struct run_streams *s, uint32_t stream, const int32_t *tokens, size_t n,
                                const float **logits, struct glim_err *e);
/* One forward that appends tokens[i] to stream i for each i < n; *logits: f32 [n, n_vocab], valid until the next call.
 * A stream's logits are, byte for byte, those it has alone. */
glim_status run_streams_step(struct run_streams *s, const int32_t *tokens, uint32_t n, const float **logits,
                             struct glim_err *e);

/* ---- profile: where the time of a forward goes ---- */

enum run_op {
    RUN_EMBED,
    RUN_ROPE_TABLE,
    RUN_RMSNORM,
    RUN_QKV,
    RUN_ATTN_PREPARE,
    RUN_ATTENTION,
    RUN_ATTN_OUT,
    RUN_ADD,
    RUN_GATE_UP,
    RUN_GLU,
    RUN_DOWN,
    RUN_GATHER,
    RUN_HEAD,
    RUN_SOFTCAP,
    RUN_SCALE,
    RUN_OP_COUNT
};
const char *run_op_name(enum run_op op);

/* What an op did since the profile was cleared, whatever kernel did it. */
struct run_cost {
    uint64_t calls;
    double seconds;
    double memory;    /* bytes of weights and caches read: each at least once a call, and they come from memory */
    double rows;      /* bytes of activations read and written: they may stay in the processor's caches */
    double int8, f32; /* operations, a multiply-add being two; 16-bit activations count twice, mixed ones once */
};

/* A backend that times the real one's ops. Whoever is not profiled pays nothing. */
struct run_profile {
    struct backend be; /* first: an op finds the profile through op_ctx.be */
    const struct backend *real;
    const struct plan *plan;
    struct run_cost cost[RUN_OP_COUNT];
};
void run_profile_init(struct run_profile *p, const struct glim_model *m);
/* Time the streams' ops in p from now on; NULL ends it. p must outlive that. */
void run_streams_profile(struct run_streams *s, struct run_profile *p);

#endif
