/* One generation: its tokens and text, as they are drawn from logits that somebody else computes.
 *
 * It knows nothing of caches, batches and threads, so that a session and an engine draw the same tokens by the same
 * code. Whoever drives it asks gen_next until that took nothing, computes what is missing, and asks again with the
 * logits after the whole prefix. */
#ifndef GLIM_RUN_GEN_H
#define GLIM_RUN_GEN_H

#include "base/str.h"
#include "run/constraint.h"
#include "run/model.h"
#include "run/sampler.h"
#include "text/stream.h"

struct gen {
    const struct glim_model *model;
    struct glim_request q; /* its lists are the generation's own */
    int32_t *prefix;       /* prompt and what was generated: [n_prompt + max] */
    size_t n, n_prompt, max;
    bool draw_all; /* tokens that a grammar forces are drawn too: somebody wants their logits */
    struct text_stream *stream;
    struct constraint *constraint; /* NULL: anything may follow */
    struct str fresh;              /* text that became certain and was not given out */
    bool done;
    enum glim_finish finish; /* when done */
};

/* Tokens that q may come to in a context of n_ctx, or the sentence why it cannot be served. */
glim_status gen_check(const struct glim_model *m, const struct glim_request *q, uint32_t n_ctx, size_t *n_token,
                      struct glim_err *e);
/* Copies q, but for its grammar. gen_close also after a failure. */
glim_status gen_open(struct gen *g, const struct glim_model *m, const struct glim_request *q, uint32_t n_ctx,
                     struct glim_err *e);
void gen_close(struct gen *g);
/* Take the next token: the one the grammar forces, else the one drawn from the logits f32 [n_vocab] after the whole
 * prefix. *took: false when it is done, or needs logits and has none (NULL). Text joins g->fresh. */
glim_status gen_next(struct gen *g, struct sampler *s, const float *logits, bool *took, struct glim_err *e);
/* End it for a reason of the caller's; what was held back joins g->fresh unless it was cancelled. */
glim_status gen_end(struct gen *g, enum glim_finish why, struct glim_err *e);

#endif
