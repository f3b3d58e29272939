/* What the command line needs beyond glim.h. */
#ifndef GLIM_RUN_RUN_H
#define GLIM_RUN_RUN_H

#include "run/model.h"

/* The memory table of a model and n_seq sessions of n_ctx positions (0 = default), without loading it. */
glim_status run_plan(const char *path, const struct glim_config *c, uint32_t n_ctx, uint32_t n_seq, struct mem_plan *mp,
                     struct glim_err *e);

/* Hidden states after each layer: f32 [n_layer, n_token, dim], computed from nothing. */
glim_status run_trace(struct glim_session *s, const int32_t *tokens, size_t n_token, float *hidden, struct glim_err *e);

/* Forget the prefix, so that the next eval computes everything (benchmarks). */
void run_session_reset(struct glim_session *s);
int run_session_threads(const struct glim_session *s);

/* Decode step for benchmarks: append one token to the session's prefix and compute its logits. */
glim_status run_session_append(struct glim_session *s, int32_t token, const float **logits, struct glim_err *e);

/* As glim_session_eval, calling progress(user, done, n_token) after each chunk. Cancelled before the last: *logits is
 * NULL, and what was computed stays in the cache. */
glim_status run_session_eval(struct glim_session *s, const int32_t *tokens, size_t n_token, const float **logits,
                             glim_progress *progress, void *user, struct glim_err *e);

#endif
