/* Log probabilities: ln softmax of a row of the model's own logits, and its likeliest tokens. */
#ifndef GLIM_RUN_LOGPROB_H
#define GLIM_RUN_LOGPROB_H

#include "base/status.h"

enum { LOGPROB_MAX = 20 };

/* out [1 + n]: the token, then the n likeliest, descending; ties go to the lower id. A token whose logit is -infinity
 * has the logprob -infinity. Allocates nothing; the same bits on every machine.
 * GLIM_USAGE: n above LOGPROB_MAX or n_vocab, or a token outside the vocabulary. GLIM_FAILED, naming the id: a NaN or
 * +infinity among the logits. GLIM_REFUSED: all at -infinity. */
glim_status logprob_row(const float *logits, uint32_t n_vocab, int32_t token, uint32_t n, struct glim_logprob *out,
                        struct glim_err *e);

#endif
