/* A session: one sequence, its KV pages, and the one rule that callers hand over the whole prefix. */
#include "run/run.h"

#include "run/forward.h"
#include "run/session.h"

#include "base/arith.h"

#include <string.h>

struct kv_shape session_shape(const struct levers *lv, enum kv_type type, uint32_t n_ctx, uint32_t n_seq)
{
    return (struct kv_shape){.n_slot = n_seq,
                             .n_ctx = n_ctx,
                             .max_rows = (uint32_t)lv->prefill_chunk,
                             .type = type,
                             .poison = lv->kv_poison};
}

glim_status session_plan(const struct plan *p, const struct backend *be, const struct kv_shape *shape, uint32_t n_logit,
                         int n_thread, struct mem_plan *mp, struct glim_err *e)
{
    TRY(kv_plan(p, be, shape, mp, e));
    TRY(forward_plan(p, be, n_thread, n_logit > shape->max_rows ? n_logit : shape->max_rows, mp, e));
    return mem_plan_add(mp, MEM_SCRATCH, (size_t)n_logit * p->n_vocab * sizeof(float), e, "logits");
}

glim_status run_plan(const char *path, const struct glim_config *c, uint32_t n_ctx, uint32_t n_seq, struct mem_plan *mp,
                     struct glim_err *e)
{
    const struct levers *lv = lever_values(c->set);
    struct checkpoint ck = {0};
    struct config config = {0};
    struct binder b = {.ck = &ck};
    struct plan p = {0};
    const struct arch *arch;
    const struct backend *be;
    struct crew *crew = NULL;
    glim_status st;
    TRY_OUT(model_backend(lv, &be, e));
    TRY_OUT(checkpoint_open(&ck, path, e));
    TRY_OUT(config_open(&config, &ck, e));
    TRY_OUT(arch_plan(&config, &arch, &p, e));
    TRY_OUT(arch->bind(&b, &p, e));
    TRY_OUT(bind_check_unused(&b, e));
    TRY_OUT(model_plan_weights(&p, &b, be, mp, e));
    TRY_OUT(crew_create(&crew, (int)lv->threads, e));
    struct kv_shape shape = session_shape(lv, model_kv_type(lv, &b), n_ctx ? n_ctx : model_default_ctx(lv, &p), n_seq);
    TRY_OUT(session_plan(&p, be, &shape, 1, crew_size(crew), mp, e));
out:
    crew_free(crew);
    binder_fini(&b);
    plan_fini(&p);
    config_close(&config);
    checkpoint_close(&ck);
    return st;
}

/* ---- life ---- */

static glim_status session_buffers(struct glim_session *s, uint32_t n_ctx, struct glim_err *e)
{
    const struct plan *p = &s->model->plan;
    s->held = mem_calloc(n_ctx, sizeof *s->held);
    s->pos = mem_calloc(s->max_rows, sizeof *s->pos);
    s->logits = mem_calloc(p->n_vocab, sizeof *s->logits);
    if (!s->held || !s->pos || !s->logits)
        return err_nomem(e, "session", (size_t)n_ctx * 4 + (size_t)p->n_vocab * 4);
    return GLIM_OK;
}

glim_status memory_fits(const struct glim_model *m, struct mem_plan *mp, struct glim_err *e)
{
    size_t limit = m->lv.mem_limit ? (size_t)m->lv.mem_limit : mem_available();
    if (m->lv.mem_limit) /* the limit covers the weights too */
        TRY(mem_plan_add(mp, MEM_WEIGHTS, m->weights.size, e, "weights"));
    return mem_plan_check(mp, limit, e);
}

glim_status session_memory(const struct glim_model *m, const struct kv_shape *shape, uint32_t n_logit, int n_thread,
                           struct glim_err *e)
{
    struct mem_plan mp = {0};
    glim_status st = session_plan(&m->plan, m->be, shape, n_logit, n_thread, &mp, e);
    if (st == GLIM_OK)
        st = memory_fits(m, &mp, e);
    mem_plan_free(&mp);
    return st;
}

glim_status glim_session_create(struct glim_session **out, const struct glim_model *m, uint32_t n_ctx,
                                struct glim_err *err)
{
    *out = NULL;
    if (n_ctx == 0)
        n_ctx = model_default_ctx(&m->lv, &m->plan);
    if (n_ctx > m->plan.n_ctx_train)
        return err_set(err, GLIM_REFUSED, "session: context: have a model for %u positions, need %u",
                       m->plan.n_ctx_train, n_ctx);
    struct glim_session *s = mem_calloc(1, sizeof *s);
    if (!s)
        return err_nomem(err, "session", sizeof *s);
    struct kv_shape shape = session_shape(&m->lv, m->kv_type, n_ctx, 1);
    glim_status st;
    s->model = m;
    s->max_rows = shape.max_rows;
    TRY_OUT(crew_create(&s->crew, (int)m->lv.threads, err));
    TRY_OUT(session_memory(m, &shape, 1, crew_size(s->crew), err));
    TRY_OUT(session_buffers(s, n_ctx, err));
    TRY_OUT(kv_create(&s->kv, &m->plan, m->be, &shape, err));
    TRY_OUT(forward_create(&s->fwd, &m->plan, m->be, s->crew, s->max_rows, err));
    TRY_OUT(sampler_create(&s->sampler, m->plan.n_vocab, err));
out:
    if (st != GLIM_OK)
        glim_session_free(s);
    else
        *out = s;
    return st;
}

void glim_session_free(struct glim_session *s)
{
    if (!s)
        return;
    sampler_free(s->sampler);
    forward_fini(&s->fwd);
    kv_fini(&s->kv);
    mem_free(s->held);
    mem_free(s->pos);
    mem_free(s->logits);
    crew_free(s->crew);
    mem_free(s);
}

/* ---- eval ---- */

/* Forget the prefix, so that the next run computes everything. */
static void forget(struct glim_session *s)
{
    kv_trim(&s->kv, 0, 0);
    s->n_reused = 0;
}

struct want {     /* what a run over a prefix should leave behind */
    float *last;  /* logits of the last token */
    float *all;   /* or of every token */
    float *trace; /* hidden states */
    size_t trace_stride;
    glim_progress *progress;
    void *user;
};

/* Compute tokens [0, n) as positions len, len + 1, …; n <= max_rows. */
static glim_status run_chunk(struct glim_session *s, const int32_t *tokens, uint32_t n, bool is_last,
                             const struct want *w, struct glim_err *e)
{
    const struct plan *p = &s->model->plan;
    uint32_t pos = s->kv.len[0];
    TRY(kv_reserve(&s->kv, 0, n, e));
    for (uint32_t i = 0; i < n; i++)
        s->pos[i] = (int32_t)(pos + i);
    struct span span = {.row = 0, .n = n, .pos = pos, .seq = 0};
    struct batch b = {.n_row = n, .n_span = 1, .token = tokens, .pos = s->pos, .span = &span};
    uint32_t last_row = n - 1;
    struct forward_job j = {.batch = &b, .kv = &s->kv};
    if (w->trace) {
        j.trace = w->trace + (size_t)pos * p->dim;
        j.trace_stride = w->trace_stride;
    }
    if (w->all) {
        j.logits = w->all + (size_t)pos * p->n_vocab;
        j.n_logit = n;
    } else if (is_last && w->last) {
        j.logits = w->last;
        j.logit_row = &last_row;
        j.n_logit = 1;
    }
    TRY(forward_run(&s->fwd, &j, e));
    kv_advance(&s->kv, 0, n);
    memcpy(s->held + pos, tokens, n * sizeof *tokens);
    return GLIM_OK;
}

/* Bring the cache from its kept positions to the whole prefix. A failure leaves an empty session, never a half-true
 * one. */
static glim_status run_rest(struct glim_session *s, const int32_t *tokens, size_t n_token, const struct want *w,
                            struct glim_err *e)
{
    for (size_t at = s->kv.len[0]; at < n_token;) {
        uint32_t n = n_token - at < s->max_rows ? (uint32_t)(n_token - at) : s->max_rows;
        glim_status st = run_chunk(s, tokens + at, n, at + n == n_token, w, e);
        if (st != GLIM_OK) {
            forget(s);
            return st;
        }
        at += n;
        if (w->progress && !w->progress(w->user, at, n_token))
            break;
    }
    return GLIM_OK;
}

static glim_status check_length(const struct glim_session *s, size_t n_token, struct glim_err *e)
{
    if (n_token == 0)
        return err_set(e, GLIM_USAGE, "session: prefix: have 0 tokens, need at least 1");
    if (n_token > s->kv.n_ctx)
        return err_set(e, GLIM_REFUSED, "session: prefix: have %zu tokens, need at most the context's %u", n_token,
                       s->kv.n_ctx);
    return GLIM_OK;
}

glim_status run_session_eval(struct glim_session *s, const int32_t *tokens, size_t n_token, const float **logits,
                             glim_progress *progress, void *user, struct glim_err *e)
{
    TRY(check_length(s, n_token, e));
    uint32_t keep = 0;
    while (keep < s->kv.len[0] && keep < n_token - 1 && s->held[keep] == tokens[keep])
        keep++;
    s->n_reused = kv_trim(&s->kv, 0, keep);
    struct want w = {.last = s->logits, .progress = progress, .user = user};
    TRY(run_rest(s, tokens, n_token, &w, e));
    *logits = s->kv.len[0] == n_token ? s->logits : NULL;
    return GLIM_OK;
}

glim_status glim_session_eval(struct glim_session *s, const int32_t *tokens, size_t n_token, const float **logits,
                              struct glim_err *err)
{
    return run_session_eval(s, tokens, n_token, logits, NULL, NULL, err);
}

glim_status glim_session_eval_all(struct glim_session *s, const int32_t *tokens, size_t n_token, float *out,
                                  struct glim_err *err)
{
    TRY(check_length(s, n_token, err));
    forget(s);
    return run_rest(s, tokens, n_token, &(struct want){.all = out}, err);
}

glim_status run_trace(struct glim_session *s, const int32_t *tokens, size_t n_token, float *hidden, struct glim_err *e)
{
    TRY(check_length(s, n_token, e));
    forget(s);
    return run_rest(s, tokens, n_token, &(struct want){.trace = hidden, .trace_stride = n_token * s->model->plan.dim},
                    e);
}

glim_status run_session_append(struct glim_session *s, int32_t token, const float **logits, struct glim_err *e)
{
    struct want w = {.last = s->logits};
    TRY(run_chunk(s, &token, 1, true, &w, e));
    *logits = s->logits;
    return GLIM_OK;
}

size_t glim_session_reused(const struct glim_session *s)
{
    return s->n_reused;
}
