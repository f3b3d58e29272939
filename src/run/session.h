/* The session's inside, shared by session.c and generate.c. */
#ifndef GLIM_RUN_SESSION_H
#define GLIM_RUN_SESSION_H

#include "run/forward.h"
#include "run/model.h"
#include "run/sampler.h"

struct glim_session {
    const struct glim_model *model;
    struct crew *crew;
    struct kv kv; /* one slot */
    struct forward fwd;
    uint32_t max_rows; /* of one forward */
    int32_t *held;     /* [n_ctx] tokens of the positions in the cache */
    int32_t *pos;      /* [max_rows] */
    float *logits;     /* [n_vocab] */
    size_t n_reused;
    struct sampler *sampler;
};

#endif
