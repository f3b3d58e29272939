/* Generation: eval, draw, show, until an end token, a stop string, a limit or the caller says so. */
#include "run/run.h"

#include "run/constraint.h"
#include "run/session.h"
#include "text/stream.h"

#include <math.h>
#include <string.h>
#include <time.h>

struct glim_sampling glim_sampling_default(void)
{
    return (struct glim_sampling){.top_p = 1.0f, .typical_p = 1.0f, .repeat_penalty = 1.0f, .repeat_last_n = 64};
}

glim_status glim_sample(const float *logits, uint32_t n_vocab, const int32_t *prefix, size_t n_prefix,
                        const struct glim_sampling *s, int32_t *token, struct glim_err *err)
{
    struct sampler *sampler;
    TRY(sampler_check(s, n_vocab, err));
    TRY(sampler_create(&sampler, n_vocab, err));
    glim_status st = sampler_draw(sampler, logits, prefix, n_prefix, s, NULL, token, err);
    sampler_free(sampler);
    return st;
}

void glim_result_fini(struct glim_result *r)
{
    mem_free(r->tokens);
    mem_free(r->text);
    memset(r, 0, sizeof *r);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One generation under way. */
struct gen {
    struct glim_session *s;
    const struct glim_request *q;
    int32_t *prefix; /* prompt and what was generated: [n_prompt + max] */
    size_t n, max;   /* max: new tokens allowed */
    struct text_stream *stream;
    struct constraint *constraint; /* NULL: anything may follow */
    struct str text, delta;
    glim_on_text *on_text;
    void *user;
};

static glim_status gen_check(const struct glim_session *s, const struct glim_request *q, size_t *max,
                             struct glim_err *e)
{
    uint32_t n_ctx = s->kv.n_ctx;
    if (q->n_prompt == 0)
        return err_set(e, GLIM_USAGE, "generate: prompt: have 0 tokens, need at least 1");
    if (q->n_prompt >= n_ctx)
        return err_set(e, GLIM_REFUSED, "generate: prompt: have %zu tokens, need fewer than the context's %u",
                       q->n_prompt, n_ctx);
    *max = q->max_tokens ? q->max_tokens : n_ctx - q->n_prompt;
    if (*max > n_ctx - q->n_prompt)
        return err_set(e, GLIM_REFUSED,
                       "generate: prompt and new tokens: have %zu + %zu, need at most the context's %u", q->n_prompt,
                       *max, n_ctx);
    if (q->grammar && q->ignore_end)
        return err_set(e, GLIM_USAGE, "generate: have a grammar and ignore_end, need one of them");
    return sampler_check(&q->sampling, s->model->plan.n_vocab, e);
}

static glim_status gen_open(struct gen *g, struct glim_err *e)
{
    g->prefix = mem_calloc(g->q->n_prompt + g->max, sizeof *g->prefix);
    if (!g->prefix)
        return err_nomem(e, "generation", (g->q->n_prompt + g->max) * sizeof *g->prefix);
    memcpy(g->prefix, g->q->prompt, g->q->n_prompt * sizeof *g->prefix);
    g->n = g->q->n_prompt;
    if (g->q->grammar)
        TRY(constraint_create(&g->constraint, g->q->grammar, e));
    return text_stream_create(&g->stream, g->q->stop, g->q->n_stop, e);
}

static void gen_close(struct gen *g)
{
    mem_free(g->prefix);
    constraint_free(g->constraint);
    text_stream_free(g->stream);
    str_fini(&g->text);
    str_fini(&g->delta);
}

/* Hand out what g->delta holds. */
static glim_status gen_show(struct gen *g, int32_t token, bool *cancel, struct glim_err *e)
{
    str_add(&g->text, g->delta.s, g->delta.n);
    if (g->text.failed || g->delta.failed)
        return err_nomem(e, "generated text", g->text.n);
    *cancel = g->on_text && !g->on_text(g->user, token, g->delta.s ? g->delta.s : "", g->delta.n);
    str_clear(&g->delta);
    return GLIM_OK;
}

static bool is_end(const struct gen *g, int32_t token)
{
    for (size_t i = 0; i < g->q->n_end; i++)
        if (g->q->end[i] == token)
            return true;
    return !g->q->ignore_end && tok_is_end(g->s->model->tok, token);
}

/* Take one drawn token; *finish is set, and true returned through *done, when generation ends with it. */
static glim_status gen_take(struct gen *g, int32_t token, enum glim_finish *finish, bool *done, struct glim_err *e)
{
    bool stopped = false, cancel = false;
    g->prefix[g->n++] = token;
    *done = true;
    if (is_end(g, token)) {
        *finish = GLIM_FINISH_END;
        return GLIM_OK;
    }
    struct tok_piece piece = tok_bytes(g->s->model->tok, token, g->q->special, false);
    TRY(text_stream_push(g->stream, piece.s, piece.n, &g->delta, &stopped, e));
    TRY(gen_show(g, token, &cancel, e));
    if (cancel)
        *finish = GLIM_FINISH_CANCELLED;
    else if (stopped)
        *finish = GLIM_FINISH_STOP;
    else if (g->n - g->q->n_prompt == g->max)
        *finish = GLIM_FINISH_LENGTH;
    else
        *done = false;
    return GLIM_OK;
}

/* Logits after the whole prefix, of which the first `known` tokens are computed. */
static glim_status gen_logits(struct gen *g, size_t known, const float **logits, struct glim_err *e)
{
    if (known == g->n)
        return GLIM_OK;
    if (known + 1 == g->n)
        return run_session_append(g->s, g->prefix[known], logits, e);
    return run_session_eval(g->s, g->prefix, g->n, logits, NULL, NULL, e);
}

/* Tokens until one ends the generation. Those that a grammar forces are taken without logits, and then computed
 * together. *first: when the first was there. */
static glim_status gen_tokens(struct gen *g, const float *logits, enum glim_finish *finish, double *first,
                              struct glim_err *e)
{
    size_t known = g->n;
    for (bool done = false; !done;) {
        const uint64_t *mask = NULL;
        int32_t token = -1;
        bool none = false;
        if (g->constraint)
            TRY(constraint_next(g->constraint, &mask, &token, &none, e));
        if (none) {
            *finish = GLIM_FINISH_END;
            return GLIM_OK;
        }
        if (token < 0) {
            TRY(gen_logits(g, known, &logits, e));
            known = g->n;
            TRY(sampler_draw(g->s->sampler, logits, g->prefix, g->n, &g->q->sampling, mask, &token, e));
        }
        if (*first == 0)
            *first = seconds();
        if (g->constraint)
            TRY(constraint_accept(g->constraint, token, e));
        TRY(gen_take(g, token, finish, &done, e));
    }
    return GLIM_OK;
}

static glim_status gen_loop(struct gen *g, glim_progress *progress, struct glim_result *r, struct glim_err *e)
{
    const float *logits;
    double t0 = seconds(), t1 = 0;
    TRY(run_session_eval(g->s, g->prefix, g->n, &logits, progress, g->user, e));
    r->n_reused = glim_session_reused(g->s);
    if (!logits) {
        r->finish = GLIM_FINISH_CANCELLED;
        r->prefill_s = seconds() - t0;
        return GLIM_OK;
    }
    TRY(gen_tokens(g, logits, &r->finish, &t1, e));
    t1 = t1 == 0 ? seconds() : t1;
    r->prefill_s = t1 - t0;
    r->decode_s = seconds() - t1;
    if (r->finish == GLIM_FINISH_END || r->finish == GLIM_FINISH_LENGTH) {
        bool cancel;
        TRY(text_stream_end(g->stream, &g->delta, e));
        if (g->delta.n)
            TRY(gen_show(g, g->prefix[g->n - 1], &cancel, e));
    }
    return GLIM_OK;
}

static glim_status gen_result(struct gen *g, struct glim_result *r, struct glim_err *e)
{
    r->n_token = g->n - g->q->n_prompt;
    r->tokens = mem_alloc(r->n_token * sizeof *r->tokens);
    r->text = mem_calloc(g->text.n + 1, 1); /* the text may hold NUL bytes of its own */
    r->n_text = g->text.n;
    if (!r->tokens || !r->text)
        return err_nomem(e, "result", r->n_text);
    if (r->n_text)
        memcpy(r->text, g->text.s, r->n_text);
    memcpy(r->tokens, g->prefix + g->q->n_prompt, r->n_token * sizeof *r->tokens);
    return GLIM_OK;
}

glim_status glim_generate(struct glim_session *s, const struct glim_request *q, glim_on_text *on_text,
                          glim_progress *progress, void *user, struct glim_result *r, struct glim_err *err)
{
    memset(r, 0, sizeof *r);
    struct gen g = {.s = s, .q = q, .on_text = on_text, .user = user};
    TRY(gen_check(s, q, &g.max, err));
    glim_status st = gen_open(&g, err);
    if (st == GLIM_OK)
        st = gen_loop(&g, progress, r, err);
    if (st == GLIM_OK)
        st = gen_result(&g, r, err);
    gen_close(&g);
    if (st != GLIM_OK)
        glim_result_fini(r);
    return st;
}
