/* Streams: n sequences, a slot of one KV cache each, that take their decode steps in one ragged batch. What batching
 * gains on this machine is measured with them. */
#include "run/run.h"
#include "run/session.h"

struct run_streams {
    const struct glim_model *model;
    struct crew *crew;
    struct kv kv; /* [n_stream] slots */
    struct forward fwd;
    uint32_t n_stream;
    uint32_t chunk;    /* rows of a prefill's forward */
    int32_t *pos;      /* [max(chunk, n_stream)] */
    struct span *span; /* [n_stream] */
    float *logits;     /* [n_stream, n_vocab] */
};

static glim_status take_buffers(struct run_streams *s, struct glim_err *e)
{
    size_t rows = s->fwd.max_rows, n_vocab = s->model->plan.n_vocab;
    s->pos = mem_calloc(rows, sizeof *s->pos);
    s->span = mem_calloc(s->n_stream, sizeof *s->span);
    s->logits = mem_calloc(s->n_stream * n_vocab, sizeof *s->logits);
    if (!s->pos || !s->span || !s->logits)
        return err_nomem(e, "streams", s->n_stream * n_vocab * sizeof *s->logits);
    return GLIM_OK;
}

glim_status run_streams_create(struct run_streams **out, const struct glim_model *m, uint32_t n_stream, uint32_t n_ctx,
                               struct glim_err *e)
{
    *out = NULL;
    if (n_ctx > m->plan.n_ctx_train)
        return err_set(e, GLIM_REFUSED, "session: context: have a model for %u positions, need %u", m->plan.n_ctx_train,
                       n_ctx);
    struct run_streams *s = mem_calloc(1, sizeof *s);
    if (!s)
        return err_nomem(e, "streams", sizeof *s);
    struct kv_shape shape = session_shape(&m->lv, m->kv_type, n_ctx, n_stream);
    glim_status st;
    s->model = m;
    s->n_stream = n_stream;
    s->chunk = shape.max_rows;
    TRY_OUT(crew_create(&s->crew, (int)m->lv.threads, e));
    TRY_OUT(session_memory(m, &shape, n_stream, crew_size(s->crew), e));
    TRY_OUT(kv_create(&s->kv, &m->plan, m->be, &shape, e));
    TRY_OUT(forward_create(&s->fwd, &m->plan, m->be, s->crew, n_stream > s->chunk ? n_stream : s->chunk, e));
    TRY_OUT(take_buffers(s, e));
out:
    if (st != GLIM_OK)
        run_streams_free(s);
    else
        *out = s;
    return st;
}

void run_streams_free(struct run_streams *s)
{
    if (!s)
        return;
    forward_fini(&s->fwd);
    kv_fini(&s->kv);
    mem_free(s->pos);
    mem_free(s->span);
    mem_free(s->logits);
    crew_free(s->crew);
    mem_free(s);
}

int run_streams_threads(const struct run_streams *s)
{
    return crew_size(s->crew);
}

uint32_t run_streams_cut(struct run_streams *s, uint32_t stream, uint32_t n)
{
    return kv_trim(&s->kv, stream, n);
}

void run_streams_profile(struct run_streams *s, struct run_profile *p)
{
    s->fwd.op.be = p ? &p->be : s->model->be;
}

/* Compute n rows whose spans and positions are set; logits of the last n_logit rows. */
static glim_status run_rows(struct run_streams *s, const int32_t *tokens, uint32_t n, uint32_t n_span, uint32_t n_logit,
                            struct glim_err *e)
{
    struct batch b = {.n_row = n, .n_span = n_span, .token = tokens, .pos = s->pos, .span = s->span};
    uint32_t last = n - 1;
    struct forward_job j = {.batch = &b, .kv = &s->kv, .logits = s->logits, .n_logit = n_logit};
    if (n_logit == 1)
        j.logit_row = &last;
    for (uint32_t i = 0; i < n_span; i++)
        TRY(kv_reserve(&s->kv, s->span[i].seq, s->span[i].n, e));
    TRY(forward_run(&s->fwd, &j, e));
    for (uint32_t i = 0; i < n_span; i++)
        kv_advance(&s->kv, s->span[i].seq, s->span[i].n);
    return GLIM_OK;
}

glim_status run_streams_prefill(struct run_streams *s, uint32_t stream, const int32_t *tokens, size_t n,
                                const float **logits, struct glim_err *e)
{
    for (size_t at = 0; at < n;) {
        uint32_t rows = n - at < s->chunk ? (uint32_t)(n - at) : s->chunk, pos = s->kv.len[stream];
        s->span[0] = (struct span){.row = 0, .n = rows, .pos = pos, .seq = stream};
        for (uint32_t i = 0; i < rows; i++)
            s->pos[i] = (int32_t)(pos + i);
        TRY(run_rows(s, tokens + at, rows, 1, at + rows == n, e));
        at += rows;
    }
    *logits = s->logits;
    return GLIM_OK;
}

glim_status run_streams_step(struct run_streams *s, const int32_t *tokens, uint32_t n, const float **logits,
                             struct glim_err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        s->span[i] = (struct span){.row = i, .n = 1, .pos = s->kv.len[i], .seq = i};
        s->pos[i] = (int32_t)s->kv.len[i];
    }
    TRY(run_rows(s, tokens, n, n, n, e));
    *logits = s->logits;
    return GLIM_OK;
}
