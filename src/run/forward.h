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
    struct rows last;             /* rows that want logits: [max_rows, dim] */
    struct block_scratch blocks;  /* [max_rows, …] */
    struct rows rope[PLAN_ROPES]; /* [max_rows, 2 * n_freq] */
    int32_t *pos;                 /* the rows of the last layer, when it computes fewer: [max_rows] */
    struct span *span;            /* [max_rows] */
};

glim_status forward_plan(const struct plan *p, const struct backend *be, int n_thread, uint32_t max_rows,
                         struct mem_plan *mp, struct glim_err *e);
glim_status forward_create(struct forward *f, const struct plan *p, const struct backend *be, struct crew *crew,
                           uint32_t max_rows, struct glim_err *e);
void forward_fini(struct forward *f);

struct forward_job {
    const struct batch *batch; /* n_row <= max_rows; spans' pages are reserved */
    struct kv *kv;
    const uint32_t
        *logit_row;   /* [n_logit] batch rows whose logits are wanted, ascending; NULL: every row, n_logit = n_row */
    uint32_t n_logit; /* <= max_rows */
    float *logits;    /* f32 [n_logit, n_vocab] */
    float *trace; /* NULL, or (without logits) f32: layer i's output row r goes to trace[i * trace_stride + r * dim] */
    size_t trace_stride;
};
/* Allocates nothing. A token outside the vocabulary is refused before anything is computed. */
glim_status forward_run(struct forward *f, const struct forward_job *j, struct glim_err *e);

#endif
