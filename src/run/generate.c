/* Generation: eval, draw, show, until an end token, a stop string, a limit or the caller says so. */
#include "run/run.h"

#include "run/gen.h"
#include "run/session.h"

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
struct job {
    struct glim_session *s;
    struct gen gen;
    struct str text;
    glim_on_text *on_text;
    void *user;
};

/* Hand out what became certain. */
static glim_status show(struct job *j, struct glim_err *e)
{
    struct gen *g = &j->gen;
    struct str *fresh = &g->fresh;
    str_add(&j->text, fresh->s, fresh->n);
    if (j->text.failed || fresh->failed)
        return err_nomem(e, "generated text", j->text.n);
    bool end = g->done && g->finish == GLIM_FINISH_END; /* its token is none of the text */
    bool on = !j->on_text || (end && fresh->n == 0) ||
              j->on_text(j->user, g->prefix[g->n - 1], fresh->s ? fresh->s : "", fresh->n);
    str_clear(fresh);
    return on || g->done ? GLIM_OK : gen_end(g, GLIM_FINISH_CANCELLED, e);
}

/* Logits after the whole prefix, of which the first `known` tokens are computed. */
static glim_status compute(struct job *j, size_t known, const float **logits, struct glim_err *e)
{
    const struct gen *g = &j->gen;
    if (known + 1 == g->n)
        return run_session_append(j->s, g->prefix[known], logits, e);
    return run_session_eval(j->s, g->prefix, g->n, logits, NULL, NULL, e);
}

/* Tokens until one ends the generation. Those that a grammar forces are taken without logits, and then computed
 * together. *first: when the first was there. */
static glim_status draw(struct job *j, const float *logits, double *first, struct glim_err *e)
{
    struct gen *g = &j->gen;
    size_t known = g->n;
    while (!g->done) {
        bool took;
        TRY(gen_next(g, j->s->sampler, g->n == known ? logits : NULL, &took, e));
        if (*first == 0)
            *first = seconds();
        if (took || g->done) {
            TRY(show(j, e));
        } else {
            TRY(compute(j, known, &logits, e));
            known = g->n;
        }
    }
    return GLIM_OK;
}

static glim_status run(struct job *j, glim_progress *progress, struct glim_result *r, struct glim_err *e)
{
    struct gen *g = &j->gen;
    const float *logits;
    double t0 = seconds(), t1 = 0;
    TRY(run_session_eval(j->s, g->prefix, g->n, &logits, progress, j->user, e));
    r->n_reused = glim_session_reused(j->s);
    if (logits)
        TRY(draw(j, logits, &t1, e));
    else
        TRY(gen_end(g, GLIM_FINISH_CANCELLED, e));
    t1 = t1 == 0 ? seconds() : t1;
    r->finish = g->finish;
    r->prefill_s = t1 - t0;
    r->decode_s = seconds() - t1;
    return GLIM_OK;
}

static glim_status take_result(struct job *j, struct glim_result *r, struct glim_err *e)
{
    const struct gen *g = &j->gen;
    r->n_token = g->n - g->n_prompt;
    r->tokens = mem_alloc(r->n_token * sizeof *r->tokens);
    r->text = mem_calloc(j->text.n + 1, 1); /* the text may hold NUL bytes of its own */
    r->n_text = j->text.n;
    if (!r->tokens || !r->text)
        return err_nomem(e, "result", r->n_text);
    if (r->n_text)
        memcpy(r->text, j->text.s, r->n_text);
    memcpy(r->tokens, g->prefix + g->n_prompt, r->n_token * sizeof *r->tokens);
    return GLIM_OK;
}

glim_status glim_generate(struct glim_session *s, const struct glim_request *q, glim_on_text *on_text,
                          glim_progress *progress, void *user, struct glim_result *r, struct glim_err *err)
{
    struct job j = {.s = s, .on_text = on_text, .user = user};
    memset(r, 0, sizeof *r);
    glim_status st = gen_open(&j.gen, s->model, q, s->kv.n_ctx, err);
    if (st == GLIM_OK)
        st = run(&j, progress, r, err);
    if (st == GLIM_OK)
        st = take_result(&j, r, err);
    gen_close(&j.gen);
    str_fini(&j.text);
    if (st != GLIM_OK)
        glim_result_fini(r);
    return st;
}
