/* The session's inside, shared by session.c and generate.c, and what streams.c plans alike. */
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

struct kv_shape session_shape(const struct levers *lv, enum kv_type type, uint32_t n_ctx, uint32_t n_seq);
/* Rows of the memory plan: caches of this shape, and the scratch of forwards that leave n_logit rows of logits. */
glim_status session_plan(const struct plan *p, const struct backend *be, const struct kv_shape *shape, uint32_t n_logit,
                         int n_thread, struct mem_plan *mp, struct glim_err *e);
/* Refused, with the table, when what is planned does not fit the lever mem_limit or the machine. */
glim_status memory_fits(const struct glim_model *m, struct mem_plan *mp, struct glim_err *e);
/* Refused, with the table, when caches of this shape and the scratch of forwards that leave n_logit rows of logits do
 * not fit. */
glim_status session_memory(const struct glim_model *m, const struct kv_shape *shape, uint32_t n_logit, int n_thread,
                           struct glim_err *e);

#endif
