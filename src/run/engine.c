#include "run/engine.h"

#include "run/run.h"

#include "base/arith.h"

#include <math.h>
#include <string.h>
#include <time.h>

double engine_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- tasks ---- */

static void seq_close(struct seq *q)
{
    gen_close(&q->gen);
    if (q->drafter)
        q->drafter->kind->free(q->drafter);
    mem_free(q->piece);
    mem_free(q->logprob);
    mem_free(q->prompt);
    mem_free(q->pool);
    mem_free(q->embedding);
}

static void task_free(struct task *t)
{
    for (uint32_t i = 0; i < t->n_answer; i++)
        seq_close(&t->seq[i]);
    mem_free(t->seq);
    mem_free(t);
}

static glim_status task_check(const struct glim_engine *g, const struct glim_task *t, struct glim_err *e)
{
    uint32_t most = g->model->plan.n_vocab < LOGPROB_MAX ? g->model->plan.n_vocab : LOGPROB_MAX;
    bool answers = t->pool == GLIM_POOL_NONE && !t->prompt_only;
    if (!t->on_event)
        return err_set(e, GLIM_USAGE, "engine: task: have no on_event, need one");
    if (t->adapter != 0)
        return err_set(e, GLIM_REFUSED, "engine: adapter: have %u, need 0: there are no adapters", t->adapter);
    if (t->priority < -100 || t->priority > 100)
        return err_set(e, GLIM_USAGE, "engine: priority: have %d, need -100 to 100", t->priority);
    if (!(t->deadline_s >= 0) || isinf(t->deadline_s))
        return err_set(e, GLIM_USAGE, "engine: deadline: have %g s, need 0 or more", t->deadline_s);
    if (t->n_logprob < -1 || t->n_logprob > (int32_t)most || t->n_prompt_logprob < -1 ||
        t->n_prompt_logprob > (int32_t)most)
        return err_set(e, GLIM_USAGE, "engine: logprobs: have %d and %d, need -1 to %u", t->n_logprob,
                       t->n_prompt_logprob, most);
    if (t->n_answer > (uint32_t)g->max_queue)
        return err_set(e, GLIM_REFUSED, "engine: answers: have %u, need at most the queue's %u", t->n_answer,
                       g->max_queue);
    if (!answers && (t->n_answer > 1 || t->request.grammar))
        return err_set(e, GLIM_USAGE, "engine: task: have %s, need a task with answers",
                       t->n_answer > 1 ? "several answers" : "a grammar");
    if (t->pool != GLIM_POOL_NONE && (t->prompt_only || t->n_prompt_logprob >= 0))
        return err_set(e, GLIM_USAGE, "engine: task: have an embedding and logprobs of the prompt, need one of them");
    return GLIM_OK;
}

static glim_status seq_open(struct glim_engine *g, struct task *t, struct seq *q, uint32_t index, struct glim_err *e)
{
    const struct glim_task *spec = &t->spec;
    struct glim_request r = spec->request;
    bool answers = spec->pool == GLIM_POOL_NONE && !spec->prompt_only;
    q->task = t;
    q->index = index;
    if (!answers)
        r.max_tokens = 1; /* there is room for one, and none is drawn */
    r.sampling.seed += index;
    TRY(gen_open(&q->gen, g->model, &r, g->n_ctx, e));
    q->gen.draw_all = spec->n_logprob >= 0;
    q->usage.n_prompt = q->gen.n_prompt;
    q->sched.token = q->gen.prefix;
    q->sched.n_most = (uint32_t)(q->gen.n_prompt + (answers ? q->gen.max : 0));
    q->sched.turn = spec->turn < q->gen.n_prompt ? (uint32_t)spec->turn : 0;
    q->sched.priority = spec->priority;
    q->sched.cache = g->model->lv.prefix_cache && !spec->no_cache;
    if (g->drafter && answers)
        TRY(g->drafter->create(&q->drafter, g->n_ctx, e));
    size_t dim = g->model->plan.dim, n_row = q->gen.n_prompt - 1, each = 1 + (size_t)spec->n_prompt_logprob;
    if (spec->n_prompt_logprob >= 0 && n_row > 0 && !(q->prompt = mem_calloc(n_row * each, sizeof *q->prompt)))
        return err_nomem(e, "logprobs of a prompt", n_row * each * sizeof *q->prompt);
    if (spec->pool != GLIM_POOL_NONE &&
        (!(q->pool = mem_calloc(dim, sizeof *q->pool)) || !(q->embedding = mem_calloc(dim, sizeof *q->embedding))))
        return err_nomem(e, "embedding", dim * (sizeof *q->pool + sizeof *q->embedding));
    return sched_fits(&g->sched, q->sched.n_most, e);
}

static glim_status task_open(struct glim_engine *g, const struct glim_task *spec, struct task **out, struct glim_err *e)
{
    TRY(task_check(g, spec, e));
    struct task *t = mem_calloc(1, sizeof *t);
    if (!t)
        return err_nomem(e, "task", sizeof *t);
    glim_status st = GLIM_OK;
    t->spec = *spec;
    t->submitted_s = engine_now();
    t->deadline_s = spec->deadline_s > 0 ? t->submitted_s + spec->deadline_s : 0;
    uint32_t n = spec->n_answer ? spec->n_answer : 1;
    if (!(t->seq = mem_calloc(n, sizeof *t->seq))) {
        st = err_nomem(e, "task", n * sizeof *t->seq);
        goto out;
    }
    t->n_answer = t->n_left = n;
    for (uint32_t i = 0; i < n; i++)
        TRY_OUT(seq_open(g, t, &t->seq[i], i, e));
    t->spec.request = (struct glim_request){0};
out:
    if (st != GLIM_OK)
        task_free(t);
    else
        *out = t;
    return st;
}

/* ---- the inbox ---- */

/* With the lock. */
static glim_status put_in(struct glim_engine *g, struct task *t, struct glim_err *e)
{
    if (g->closing)
        return err_set(e, GLIM_REFUSED, "engine: it is shutting down: have a new task, need none");
    if (g->n_queued + t->n_answer > g->max_queue) {
        double wait = ceil(g->answer_s * (g->n_queued + 1) / g->sched.limit.n_seq);
        metrics_add(&g->metrics, METRIC_REFUSED_BUSY, 1);
        return err_set(e, GLIM_BUSY, "engine: queue: have %u answers waiting, need at most %u: try again in %.0f s",
                       g->n_queued, g->max_queue - t->n_answer, wait > 1 ? wait : 1);
    }
    if (!g->task && !g->in)
        g->step_s = engine_now();
    g->n_queued += t->n_answer;
    t->id = ++g->last_id;
    *g->in_end = t;
    g->in_end = &t->next;
    pthread_cond_signal(&g->more);
    return GLIM_OK;
}

glim_status glim_engine_submit(struct glim_engine *g, const struct glim_task *spec, uint64_t *id, struct glim_err *err)
{
    struct task *t = NULL;
    *id = 0;
    TRY(task_open(g, spec, &t, err));
    pthread_mutex_lock(&g->lock);
    glim_status st = put_in(g, t, err);
    if (st == GLIM_OK)
        *id = t->id;
    pthread_mutex_unlock(&g->lock);
    if (st != GLIM_OK)
        task_free(t);
    return st;
}

/* With the lock. id 0: all. */
static void cancel_in(struct task *list, uint64_t id)
{
    for (struct task *t = list; t; t = t->next)
        if (t->id == id || id == 0)
            atomic_store(&t->cancelled, true);
}

static void cancel(struct glim_engine *g, uint64_t id)
{
    cancel_in(g->in, id);
    cancel_in(g->task, id);
}

void glim_engine_cancel(struct glim_engine *g, uint64_t id)
{
    pthread_mutex_lock(&g->lock);
    if (id)
        cancel(g, id);
    pthread_mutex_unlock(&g->lock);
}

/* Take tasks that have ended out of the list. With the lock. */
static void sweep(struct glim_engine *g)
{
    for (struct task **at = &g->task; *at;) {
        struct task *t = *at;
        if (t->n_left) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        task_free(t);
    }
}

/* Take out what has ended and in what came; with nothing in work, wait for that. false: the engine is to stop. */
static bool take_in(struct glim_engine *g)
{
    pthread_mutex_lock(&g->lock);
    sweep(g);
    if (!g->task && !g->in)
        pthread_cond_broadcast(&g->idle);
    while (!g->task && !g->in && !g->stop)
        pthread_cond_wait(&g->more, &g->lock);
    struct task *t = g->in;
    g->in = NULL;
    g->in_end = &g->in;
    while (t) {
        struct task *next = t->next;
        engine_declare(&t->seq[0]); /* the others wait until its prompt is cached */
        sched_queue(&g->sched, &t->seq[0].sched, false);
        t->next = g->task;
        g->task = t;
        t = next;
    }
    bool on = g->task || !g->stop;
    g->step_s = engine_now();
    pthread_mutex_unlock(&g->lock);
    return on;
}

static void *engine_thread(void *arg)
{
    struct glim_engine *g = arg;
    while (take_in(g))
        engine_step(g);
    return NULL;
}

/* ---- life ---- */

/* Bytes of the KV pools. */
static glim_status kv_bytes(const struct glim_model *m, const struct kv_shape *s, size_t *bytes, struct glim_err *e)
{
    struct mem_plan mp = {0};
    glim_status st = kv_plan(&m->plan, m->be, s, &mp, e);
    *bytes = mem_plan_total(&mp);
    mem_plan_free(&mp);
    return st;
}

/* As many pages as the lever kv_size, or half of the free memory, holds: at least one whole context, at most one for
 * each slot. */
static glim_status choose_pages(const struct glim_model *m, struct kv_shape *s, struct glim_err *e)
{
    size_t limit = m->lv.kv_size ? (size_t)m->lv.kv_size : mem_available() / 2, bytes;
    uint64_t lo = ceil_div(s->n_ctx, KV_PAGE), hi = lo * s->n_slot;
    s->n_token = lo * KV_PAGE;
    TRY(kv_bytes(m, s, &bytes, e));
    if (m->lv.kv_size && bytes > limit)
        return err_set(e, GLIM_REFUSED, "engine: kv_size: have %zu bytes, need %zu for one context of %u tokens", limit,
                       bytes, s->n_ctx);
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo + 1) / 2;
        s->n_token = mid * KV_PAGE;
        TRY(kv_bytes(m, s, &bytes, e));
        if (bytes <= limit)
            lo = mid;
        else
            hi = mid - 1;
    }
    s->n_token = lo * KV_PAGE;
    return GLIM_OK;
}

static glim_status check_memory(const struct glim_engine *g, const struct kv_shape *s, struct glim_err *e)
{
    const struct glim_model *m = g->model;
    struct mem_plan mp = {0};
    glim_status st;
    TRY_OUT(session_plan(&m->plan, m->be, s, g->max_rows, crew_size(g->crew), &mp, e));
    TRY_OUT(prefix_plan(s, &mp, e));
    TRY_OUT(memory_fits(m, &mp, e));
out:
    mem_plan_free(&mp);
    return st;
}

static glim_status take_buffers(struct glim_engine *g, uint32_t n_seq, struct glim_err *e)
{
    size_t rows = g->max_rows, n_vocab = g->model->plan.n_vocab, dim = g->model->plan.dim;
    g->token = mem_calloc(rows, sizeof *g->token);
    g->pos = mem_calloc(rows, sizeof *g->pos);
    g->span = mem_calloc(n_seq, sizeof *g->span);
    g->judged = mem_calloc(n_seq, sizeof *g->judged);
    g->logit_row = mem_calloc(rows, sizeof *g->logit_row);
    g->state_row = mem_calloc(rows, sizeof *g->state_row);
    g->logits = mem_calloc(g->max_logits * n_vocab, sizeof *g->logits);
    g->state = mem_calloc(rows * dim, sizeof *g->state);
    g->sampler = mem_calloc((size_t)crew_size(g->crew), sizeof *g->sampler);
    if (!g->token || !g->pos || !g->span || !g->judged || !g->logit_row || !g->state_row || !g->logits || !g->state ||
        !g->sampler)
        return err_nomem(e, "engine", (g->max_logits * n_vocab + rows * dim) * sizeof(float));
    for (int i = 0; i < crew_size(g->crew); i++)
        TRY(sampler_create(&g->sampler[i], (uint32_t)n_vocab, e));
    return GLIM_OK;
}

static glim_status start_scheduler(struct glim_engine *g, const struct kv_shape *shape, struct glim_err *e)
{
    const struct levers *lv = &g->model->lv;
    const struct sched_limits limit = {.n_seq = shape->n_slot,
                                       .max_rows = g->max_rows,
                                       .max_logits = g->max_logits,
                                       .slot_rows = shape->max_rows,
                                       .overcommit = lv->overcommit,
                                       .step_s = (double)lv->step_ms / 1000};
    static const char name[] = "the model as it is"; /* all that the prefixes of an engine have in common */
    struct sha256 identity;
    TRY(sha256_of(name, sizeof name, &identity, e));
    return sched_create(&g->sched, &g->kv, &g->prefix, &identity, &limit, e);
}

static glim_status engine_open(struct glim_engine *g, struct glim_err *e)
{
    const struct glim_model *m = g->model;
    uint32_t n_seq = (uint32_t)m->lv.n_seq;
    g->n_ctx = model_default_ctx(&m->lv, &m->plan);
    if (g->n_ctx > m->plan.n_ctx_train)
        return err_set(e, GLIM_REFUSED, "engine: context: have a model for %u positions, need %u", m->plan.n_ctx_train,
                       g->n_ctx);
    struct kv_shape shape = session_shape(&m->lv, m->kv_type, g->n_ctx, n_seq);
    shape.n_window = 2 * n_seq;
    g->max_rows = shape.max_rows > 2 * n_seq ? shape.max_rows : 2 * n_seq;
    g->max_logits = 2 * n_seq > 32 ? 2 * n_seq : g->max_rows < 32 ? g->max_rows : 32;
    g->max_queue = (uint32_t)m->lv.queue;
    g->draft_max = (uint32_t)m->lv.draft_max;
    g->drafter = m->lv.draft == LEVER_DRAFT_NGRAM ? &drafter_ngram : NULL;
    TRY(choose_pages(m, &shape, e));
    TRY(crew_create(&g->crew, (int)m->lv.threads, e));
    TRY(check_memory(g, &shape, e));
    TRY(kv_create(&g->kv, &m->plan, m->be, &shape, e));
    TRY(prefix_create(&g->prefix, &g->kv, &shape, e));
    TRY(forward_create(&g->fwd, &m->plan, m->be, g->crew, g->max_rows, e));
    TRY(take_buffers(g, n_seq, e));
    TRY(start_scheduler(g, &shape, e));
    if (pthread_create(&g->thread, NULL, engine_thread, g) != 0)
        return err_set(e, GLIM_FAILED, "engine: thread: have no room for one more, need one");
    g->has_thread = true;
    return GLIM_OK;
}

/* The thread has ended, or there was none. */
static void engine_close(struct glim_engine *g)
{
    for (int i = 0; g->sampler && i < crew_size(g->crew); i++)
        sampler_free(g->sampler[i]);
    mem_free(g->sampler);
    mem_free(g->token);
    mem_free(g->pos);
    mem_free(g->span);
    mem_free(g->judged);
    mem_free(g->logit_row);
    mem_free(g->state_row);
    mem_free(g->logits);
    mem_free(g->state);
    sched_fini(&g->sched);
    forward_fini(&g->fwd);
    prefix_fini(&g->prefix);
    kv_fini(&g->kv);
    crew_free(g->crew);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->more);
    pthread_cond_destroy(&g->idle);
    mem_free(g);
}

glim_status glim_engine_create(struct glim_engine **out, const struct glim_model *m, struct glim_err *err)
{
    struct glim_engine *g = mem_calloc(1, sizeof *g);
    pthread_condattr_t clock;
    *out = NULL;
    if (!g)
        return err_nomem(err, "engine", sizeof *g);
    g->model = m;
    g->in_end = &g->in;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->more, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&g->idle, &clock);
    pthread_condattr_destroy(&clock);
    glim_status st = engine_open(g, err);
    if (st != GLIM_OK)
        engine_close(g);
    else
        *out = g;
    return st;
}

void glim_engine_free(struct glim_engine *g, double drain_s)
{
    if (!g)
        return;
    double until = engine_now() + (drain_s > 0 ? drain_s < 1e9 ? drain_s : 1e9 : 0);
    struct timespec t = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - floor(until)) * 1e9)};
    pthread_mutex_lock(&g->lock);
    g->closing = true;
    int rc = 0;
    while ((g->task || g->in) && rc == 0)
        rc = pthread_cond_timedwait(&g->idle, &g->lock, &t);
    g->stop = true;
    cancel(g, 0);
    pthread_cond_signal(&g->more);
    pthread_mutex_unlock(&g->lock);
    pthread_join(g->thread, NULL);
    engine_close(g);
}

double run_engine_step_age(struct glim_engine *g)
{
    pthread_mutex_lock(&g->lock);
    double age = g->task || g->in ? engine_now() - g->step_s : 0;
    pthread_mutex_unlock(&g->lock);
    return age;
}

const struct metrics *run_engine_metrics(const struct glim_engine *g)
{
    return &g->metrics;
}
