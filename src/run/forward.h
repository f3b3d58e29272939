/* The forward pass: one walk over the plan for a ragged batch. There is no other. */
#ifndef GLIM_RUN_FORWARD_H
#define GLIM_RUN_FORWARD_H

#include "run/kv.h"

struct forward {
    const struct plan *plan;
    struct op_ctx op;
    bool op_open;
    uint32_t max_rows;
    struct arena arena;
    struct rows h, y;             /* residual stream, branch output: [max_rows, dim] */
    struct rows last;             /* the wanted rows after the last layer: [max_rows, dim] */
    struct block_scratch blocks;  /* [max_rows, …] */
    struct rows rope[PLAN_ROPES]; /* [max_rows, 2 * n_freq] */
    int32_t *pos;                 /* the rows of the last layer, when it computes fewer: [max_rows] */
    struct span *span;            /* [max_rows] */
    uint32_t *want;               /* [max_rows] wanted rows, as indices into the batch */
    uint32_t *pick;               /* [max_rows] scratch: where rows lie among the wanted ones */
};

glim_status forward_plan(const struct plan *p, const struct backend *be, int n_thread, uint32_t max_rows,
                         struct mem_plan *mp, struct glim_err *e);
glim_status forward_create(struct forward *f, const struct plan *p, const struct backend *be, struct crew *crew,
                           uint32_t max_rows, struct glim_err *e);
void forward_fini(struct forward *f);

/* What a forward leaves behind. Rows to ask for are named by their index in the batch, ascending; NULL: every row. The
 * bits of what a row gives do not depend on what else is asked for. */
struct forward_job {
    const struct batch *batch; /* n_row <= max_rows; spans' pages are reserved */
    struct kv *kv;
    const uint32_t *logit_row; /* [n_logit] rows whose logits are wanted */
    uint32_t n_logit;          /* <= n_row */
    float *logits;             /* f32 [n_logit, n_vocab] */
    const uint32_t *state_row; /* [n_state] rows whose final states are wanted */
    uint32_t n_state;          /* <= n_row */
    /* f32 [n_state, dim]: the residual stream after the last layer and the final norm, as the head reads it */
    float *state;
    /* NULL, or (with nothing else wanted) f32: layer i's output row r goes to trace[i * trace_stride + r * dim] */
    float *trace;
    size_t trace_stride;
};
/* Allocates nothing. A token outside the vocabulary is refused before anything is computed. */
glim_status forward_run(struct forward *f, const struct forward_job *j, struct glim_err *e);

#endif
