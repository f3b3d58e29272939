#include "run/gen.h"

#include "base/arith.h"

#include <string.h>

glim_status gen_check(const struct glim_model *m, const struct glim_request *q, uint32_t n_ctx, size_t *n_token,
                      struct glim_err *e)
{
    if (q->n_prompt == 0)
        return err_set(e, GLIM_USAGE, "generate: prompt: have 0 tokens, need at least 1");
    if (q->n_prompt >= n_ctx)
        return err_set(e, GLIM_REFUSED, "generate: prompt: have %zu tokens, need fewer than the context's %u",
                       q->n_prompt, n_ctx);
    size_t max = q->max_tokens ? q->max_tokens : n_ctx - q->n_prompt;
    if (max > n_ctx - q->n_prompt)
        return err_set(e, GLIM_REFUSED,
                       "generate: prompt and new tokens: have %zu + %zu, need at most the context's %u", q->n_prompt,
                       max, n_ctx);
    for (size_t i = 0; i < q->n_prompt; i++)
        if (q->prompt[i] < 0 || (uint32_t)q->prompt[i] >= m->plan.n_vocab)
            return err_set(e, GLIM_REFUSED, "generate: prompt token %zu: have id %d, need 0..%u", i, q->prompt[i],
                           m->plan.n_vocab - 1);
    if (q->grammar && q->ignore_end)
        return err_set(e, GLIM_USAGE, "generate: have a grammar and ignore_end, need one of them");
    *n_token = q->n_prompt + max;
    return sampler_check(&q->sampling, m->plan.n_vocab, e);
}

/* A list of the caller's as one of the generation's own. */
static glim_status own(const void *from, size_t n, size_t size, void *to, struct glim_err *e)
{
    void *p = NULL;
    if (n) {
        p = mem_calloc(n, size);
        if (!p)
            return err_nomem(e, "generation", n * size);
        memcpy(p, from, n * size);
    }
    memcpy(to, &p, sizeof p);
    return GLIM_OK;
}

glim_status gen_open(struct gen *g, const struct glim_model *m, const struct glim_request *q, uint32_t n_ctx,
                     struct glim_err *e)
{
    size_t n_token = 0;
    *g = (struct gen){.model = m};
    TRY(gen_check(m, q, n_ctx, &n_token, e));
    g->q = *q;
    g->q.prompt = NULL;
    g->q.stop = NULL;
    g->q.end = NULL;
    g->q.sampling.bias = NULL;
    TRY(own(q->end, q->n_end, sizeof *q->end, &g->q.end, e));
    TRY(own(q->sampling.bias, q->sampling.n_bias, sizeof *q->sampling.bias, &g->q.sampling.bias, e));
    g->prefix = mem_calloc(n_token, sizeof *g->prefix);
    if (!g->prefix)
        return err_nomem(e, "generation", n_token * sizeof *g->prefix);
    memcpy(g->prefix, q->prompt, q->n_prompt * sizeof *g->prefix);
    g->n = g->n_prompt = q->n_prompt;
    g->max = n_token - q->n_prompt;
    if (q->grammar)
        TRY(constraint_create(&g->constraint, q->grammar, q->thinks, e));
    return text_stream_create(&g->stream, q->stop, q->n_stop, e);
}

void gen_close(struct gen *g)
{
    mem_free((void *)(uintptr_t)g->q.end);
    mem_free((void *)(uintptr_t)g->q.sampling.bias);
    mem_free(g->prefix);
    constraint_free(g->constraint);
    text_stream_free(g->stream);
    str_fini(&g->fresh);
    memset(g, 0, sizeof *g);
}

glim_status gen_end(struct gen *g, enum glim_finish why, struct glim_err *e)
{
    g->done = true;
    g->finish = why;
    if (why == GLIM_FINISH_CANCELLED || why == GLIM_FINISH_STOP)
        return GLIM_OK;
    return text_stream_end(g->stream, &g->fresh, e);
}

static bool is_end(const struct gen *g, int32_t token)
{
    for (size_t i = 0; i < g->q.n_end; i++)
        if (g->q.end[i] == token)
            return true;
    return !g->q.ignore_end && tok_is_end(g->model->tok, token);
}

static glim_status take(struct gen *g, int32_t token, struct glim_err *e)
{
    bool stopped = false;
    if (g->constraint)
        TRY(constraint_accept(g->constraint, token, e));
    g->prefix[g->n++] = token;
    if (is_end(g, token))
        return gen_end(g, GLIM_FINISH_END, e);
    struct tok_piece piece = tok_bytes(g->model->tok, token, g->q.special, false);
    TRY(text_stream_push(g->stream, piece.s, piece.n, &g->fresh, &stopped, e));
    if (stopped)
        return gen_end(g, GLIM_FINISH_STOP, e);
    return g->n - g->n_prompt == g->max ? gen_end(g, GLIM_FINISH_LENGTH, e) : GLIM_OK;
}

glim_status gen_next(struct gen *g, struct sampler *s, const float *logits, bool *took, struct glim_err *e)
{
    const uint64_t *mask = NULL;
    int32_t token = -1;
    bool none = false;
    *took = false;
    if (g->done)
        return GLIM_OK;
    if (g->constraint && !g->draw_all)
        TRY(constraint_forced(g->constraint, &token, e));
    if (token < 0) {
        if (!logits)
            return GLIM_OK;
        if (g->constraint)
            TRY(constraint_mask(g->constraint, &mask, &none, e));
        if (none)
            return gen_end(g, GLIM_FINISH_END, e);
        TRY(sampler_draw(s, logits, g->prefix, g->n, &g->q.sampling, mask, &token, e));
    }
    *took = true;
    return take(g, token, e);
}
