#include "run/engine.h"

#include "base/log.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* ---- telling ---- */

static void tell(struct glim_engine *g, const struct seq *q, struct glim_event *ev)
{
    double begin = engine_now();
    ev->id = q->task->id;
    ev->answer = q->index;
    q->task->spec.on_event(q->task->spec.user, ev);
    g->told_s += engine_now() - begin;
}

static void tell_prompt(struct glim_engine *g, const struct seq *q, size_t done)
{
    struct glim_event ev = {.kind = GLIM_EVENT_PROMPT, .done = done, .total = q->gen.n_prompt};
    if (done == ev.total && q->prompt) {
        ev.logprob = q->prompt;
        ev.n_logprob = (done - 1) * (1 + (size_t)q->task->spec.n_prompt_logprob);
    }
    tell(g, q, &ev);
}

static void tell_tokens(struct glim_engine *g, struct seq *q)
{
    size_t each = 1 + (size_t)q->task->spec.n_logprob, from = 0;
    const char *text = q->gen.fresh.s ? q->gen.fresh.s : "";
    double now = engine_now();
    for (size_t i = 0; i < q->n_piece; i++) {
        const struct piece *p = &q->piece[i];
        struct glim_event ev = {
            .kind = GLIM_EVENT_TOKEN, .token = p->token, .text = text + from, .n_text = p->text_end - from};
        if (q->task->spec.n_logprob >= 0) {
            ev.logprob = q->logprob + i * each;
            ev.n_logprob = each;
        }
        if (q->first_s == 0) {
            q->first_s = now;
            metrics_observe(&g->metrics, METRIC_FIRST_TOKEN_SECONDS, now - q->task->submitted_s);
        } else {
            metrics_observe(&g->metrics, METRIC_INTER_TOKEN_SECONDS, now - q->last_s);
        }
        q->last_s = now;
        tell(g, q, &ev);
        from = p->text_end;
    }
    metrics_add(&g->metrics, METRIC_GENERATED_TOKENS, q->n_piece);
    if (!q->gen.done) /* what the end gave out is told with it */
        str_clear(&q->gen.fresh);
}

static enum metric finish_metric(enum glim_finish f)
{
    switch (f) {
    case GLIM_FINISH_LENGTH:
        return METRIC_FINISHED_LENGTH;
    case GLIM_FINISH_END:
        return METRIC_FINISHED_END;
    case GLIM_FINISH_STOP:
        return METRIC_FINISHED_STOP;
    case GLIM_FINISH_CANCELLED:
        return METRIC_FINISHED_CANCELLED;
    case GLIM_FINISH_DEADLINE:
        return METRIC_FINISHED_DEADLINE;
    }
    return METRIC_FINISHED_ERROR;
}

static void tell_end(struct glim_engine *g, struct seq *q)
{
    double now = engine_now();
    struct glim_event ev = {.kind = GLIM_EVENT_ERROR, .err = q->err};
    if (q->status == GLIM_OK) {
        size_t from = q->n_piece ? q->piece[q->n_piece - 1].text_end : 0;
        q->usage.n_token = q->gen.n - q->gen.n_prompt;
        q->usage.queue_s = (q->admitted_s > 0 ? q->admitted_s : now) - q->task->submitted_s;
        q->usage.prefill_s = q->admitted_s > 0 ? (q->first_s > 0 ? q->first_s : now) - q->admitted_s : 0;
        q->usage.decode_s = q->first_s > 0 ? now - q->first_s : 0;
        ev = (struct glim_event){.kind = GLIM_EVENT_DONE,
                                 .text = q->gen.fresh.s ? q->gen.fresh.s + from : "",
                                 .n_text = q->gen.fresh.n - from,
                                 .finish = q->gen.finish,
                                 .stop = text_stream_which(q->gen.stream),
                                 .usage = q->usage};
    }
    metrics_add(&g->metrics, q->status == GLIM_OK ? finish_metric(q->gen.finish) : METRIC_FINISHED_ERROR, 1);
    metrics_observe(&g->metrics, METRIC_REQUEST_SECONDS, now - q->task->submitted_s);
    tell(g, q, &ev);
}

/* ---- sequences ---- */

void engine_declare(struct seq *q)
{
    const struct glim_task *t = &q->task->spec;
    bool rows = (t->n_prompt_logprob >= 0 && q->done_rows + 1 < q->gen.n_prompt) || t->pool == GLIM_POOL_MEAN ||
                t->pool == GLIM_POOL_CLS;
    q->sched.n = (uint32_t)q->gen.n;
    q->sched.n_reuse = rows && q->done_rows < q->gen.n - 1 ? q->done_rows : (uint32_t)q->gen.n - 1;
    q->sched.all_logits = rows && t->n_prompt_logprob >= 0;
}

/* The answers that waited for this one's prompt, or for its end. */
static void release_others(struct glim_engine *g, struct seq *q)
{
    if (q->index != 0 || q->told_prompt)
        return;
    q->told_prompt = true;
    for (uint32_t i = 1; i < q->task->n_answer; i++) {
        struct seq *o = &q->task->seq[i];
        engine_declare(o);
        sched_queue(&g->sched, &o->sched, false);
    }
}

static void leave_queue(struct glim_engine *g, struct seq *q, double now)
{
    pthread_mutex_lock(&g->lock);
    g->n_queued--;
    pthread_mutex_unlock(&g->lock);
    q->admitted_s = now;
}

void engine_end(struct glim_engine *g, struct seq *q)
{
    double now = engine_now();
    if (q->admitted_s == 0) {
        leave_queue(g, q, 0);
    } else if (q->status == GLIM_OK) {
        pthread_mutex_lock(&g->lock);
        g->answer_s += (now - q->admitted_s - g->answer_s) * (g->answer_s > 0 ? 0.1 : 1);
        pthread_mutex_unlock(&g->lock);
    }
    sched_leave(&g->sched, &q->sched, q->status == GLIM_OK);
    release_others(g, q);
    tell_end(g, q);
    q->task->n_left--;
}

static bool is_over(const struct seq *q)
{
    return q->gen.done || q->status != GLIM_OK;
}

/* End all answers of a task that have not ended: those of no state wait for the first one's prompt. */
static void end_task(struct glim_engine *g, struct task *t, enum glim_finish why)
{
    for (uint32_t i = 0; i < t->n_answer; i++) {
        struct seq *q = &t->seq[i];
        if (is_over(q))
            continue;
        q->n_piece = 0;
        q->status = gen_end(&q->gen, why, &q->err);
        engine_end(g, q);
    }
}

static void end_late(struct glim_engine *g)
{
    double now = engine_now();
    for (struct task *t = g->task; t; t = t->next)
        if (atomic_load(&t->cancelled))
            end_task(g, t, GLIM_FINISH_CANCELLED);
        else if (t->deadline_s > 0 && now > t->deadline_s && t->n_left > 0)
            end_task(g, t, GLIM_FINISH_DEADLINE);
}

static void admit(struct glim_engine *g)
{
    struct sched_seq *s;
    while ((s = sched_admit(&g->sched))) {
        struct seq *q = (struct seq *)s;
        bool again = q->admitted_s > 0;
        if (again)
            continue;
        double now = engine_now();
        leave_queue(g, q, now);
        q->usage.n_cached = s->n_cached;
        metrics_observe(&g->metrics, METRIC_QUEUE_SECONDS, now - q->task->submitted_s);
        metrics_add(&g->metrics, METRIC_PROMPT_TOKENS, q->gen.n_prompt);
        if (s->cache) {
            metrics_add(&g->metrics, METRIC_CACHE_QUERY_TOKENS, q->gen.n_prompt);
            metrics_add(&g->metrics, METRIC_CACHE_HIT_TOKENS, s->n_cached);
        }
        tell_prompt(g, q, s->n_cached);
    }
}

/* ---- the forward ---- */

static void draft(struct glim_engine *g)
{
    for (uint32_t i = 0; g->drafter && i < g->sched.n_run; i++) {
        struct seq *q = (struct seq *)g->sched.run[i];
        uint32_t len = g->kv.len[q->sched.slot];
        if (q->drafter && len > 0 && len < q->sched.start) /* read the prompt bit by bit, not all at the end */
            g->drafter->propose(q->drafter, q->gen.prefix, len, 0, q->draft);
        if (!q->drafter || len + 1 != q->sched.n || len < q->sched.start)
            continue;
        size_t left = q->gen.n_prompt + q->gen.max - q->gen.n - 1; /* the last token is never computed */
        uint32_t most = left < g->draft_max ? (uint32_t)left : g->draft_max;
        q->sched.n_draft = most ? g->drafter->propose(q->drafter, q->gen.prefix, q->gen.n, most, q->draft) : 0;
    }
}

/* Rows of one sequence join the batch. */
static void add_rows(struct glim_engine *g, struct seq *q, uint32_t *row, uint32_t *n_logit, uint32_t *n_state)
{
    const struct sched_seq *s = &q->sched;
    uint32_t known = s->rows - s->drafts, pos = g->kv.len[s->slot];
    bool whole = pos + known == s->n, answers = q->task->spec.pool == GLIM_POOL_NONE && !q->task->spec.prompt_only;
    q->row = *row;
    q->pos = pos;
    q->verified = s->drafts;
    q->logit = *n_logit;
    q->state = *n_state;
    memcpy(g->token + *row, s->token + pos, known * sizeof *g->token);
    memcpy(g->token + *row + known, q->draft, s->drafts * sizeof *g->token);
    for (uint32_t i = 0; i < s->rows; i++) {
        bool last = whole && i + 1 >= known, first = pos + i == 0;
        g->pos[*row + i] = (int32_t)(pos + i);
        if (s->all_logits || (last && answers))
            g->logit_row[(*n_logit)++] = *row + i;
        if (q->task->spec.pool == GLIM_POOL_MEAN || (q->task->spec.pool == GLIM_POOL_LAST && last) ||
            (q->task->spec.pool == GLIM_POOL_CLS && first))
            g->state_row[(*n_state)++] = *row + i;
    }
    g->span[g->n_judged] = (struct span){.row = *row, .n = s->rows, .pos = pos, .seq = s->slot};
    g->judged[g->n_judged++] = q;
    q->n_logit = *n_logit - q->logit;
    q->n_state = *n_state - q->state;
    *row += s->rows;
}

static glim_status forward(struct glim_engine *g, struct glim_err *e)
{
    uint32_t row = 0, n_logit = 0, n_state = 0;
    g->n_judged = 0;
    for (uint32_t i = 0; i < g->sched.n_run; i++)
        if (g->sched.run[i]->rows)
            add_rows(g, (struct seq *)g->sched.run[i], &row, &n_logit, &n_state);
    struct batch b = {.n_row = row, .n_span = g->n_judged, .token = g->token, .pos = g->pos, .span = g->span};
    struct forward_job j = {.batch = &b,
                            .kv = &g->kv,
                            .logit_row = g->logit_row,
                            .n_logit = n_logit,
                            .logits = g->logits,
                            .state_row = g->state_row,
                            .n_state = n_state,
                            .state = g->state};
    return forward_run(&g->fwd, &j, e);
}

/* ---- judging: what the rows of one sequence mean ---- */

static glim_status prompt_logprobs(struct glim_engine *g, struct seq *q)
{
    uint32_t n = (uint32_t)q->task->spec.n_prompt_logprob, n_vocab = g->model->plan.n_vocab;
    for (uint32_t i = 0; i < q->sched.rows; i++) {
        uint32_t pos = q->pos + i;
        if (pos != q->done_rows || pos + 1 >= q->gen.n_prompt)
            continue;
        TRY(logprob_row(g->logits + (size_t)(q->logit + i) * n_vocab, n_vocab, q->gen.prefix[pos + 1], n,
                        q->prompt + (size_t)pos * (1 + n), &q->err));
        q->done_rows++;
    }
    return GLIM_OK;
}

/* Sums in double, in the order of positions: chunks do not matter. */
static void pool_states(struct glim_engine *g, struct seq *q)
{
    uint32_t dim = g->model->plan.dim;
    for (uint32_t i = 0; i < q->n_state; i++) {
        if (q->task->spec.pool != GLIM_POOL_LAST && q->pos + i != q->done_rows)
            continue; /* it counts already: the sequence had to give way since */
        const float *x = g->state + (size_t)(q->state + i) * dim;
        for (uint32_t k = 0; k < dim; k++)
            q->pool[k] += (double)x[k];
        q->done_rows++;
    }
}

/* The pooled state at length 1. */
static void make_embedding(struct glim_engine *g, struct seq *q)
{
    uint32_t dim = g->model->plan.dim;
    double sum = 0;
    for (uint32_t k = 0; k < dim; k++)
        sum += q->pool[k] * q->pool[k];
    double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (uint32_t k = 0; k < dim; k++)
        q->embedding[k] = (float)(q->pool[k] * scale);
}

static glim_status add_piece(struct glim_engine *g, struct seq *q, const float *logits)
{
    uint32_t n = (uint32_t)(q->task->spec.n_logprob + 1);
    int32_t token = q->gen.prefix[q->gen.n - 1];
    size_t cap = q->cap_piece;
    if (!mem_grow((void **)&q->piece, &q->cap_piece, q->n_piece, sizeof *q->piece))
        return err_nomem(&q->err, "answer", q->n_piece * sizeof *q->piece);
    if (n && q->cap_piece != cap) {
        struct glim_logprob *more = mem_realloc(q->logprob, q->cap_piece * n * sizeof *more);
        if (!more) {
            q->cap_piece = cap;
            return err_nomem(&q->err, "logprobs", q->n_piece * n * sizeof *more);
        }
        q->logprob = more;
    }
    if (n)
        TRY(logprob_row(logits, g->model->plan.n_vocab, token, n - 1, q->logprob + q->n_piece * n, &q->err));
    q->piece[q->n_piece++] = (struct piece){token, q->gen.fresh.n};
    return GLIM_OK;
}

/* Draw from the row after the whole prefix; where a draft guessed right, from the row behind it, and so on. */
static glim_status draw(struct glim_engine *g, struct seq *q, struct sampler *s)
{
    uint32_t n_vocab = g->model->plan.n_vocab;
    const float *row = g->logits + (size_t)(q->logit + q->n_logit - q->verified - 1) * n_vocab;
    for (bool took = true; took;) {
        TRY(gen_next(&q->gen, s, row, &took, &q->err));
        if (!took)
            break;
        TRY(add_piece(g, q, row));
        bool right = row && q->right < q->verified && q->draft[q->right] == q->gen.prefix[q->gen.n - 1];
        q->right += right;
        row = right ? row + n_vocab : NULL;
    }
    return GLIM_OK;
}

static glim_status judge(struct glim_engine *g, struct seq *q, struct sampler *s)
{
    bool whole = q->pos + q->sched.rows - q->verified == q->sched.n;
    if (q->sched.all_logits)
        TRY(prompt_logprobs(g, q));
    if (q->pool) {
        pool_states(g, q);
        if (whole)
            make_embedding(g, q);
    }
    if (whole && (q->pool || q->task->spec.prompt_only))
        return gen_end(&q->gen, GLIM_FINISH_LENGTH, &q->err);
    return whole ? draw(g, q, s) : GLIM_OK;
}

static void judge_all(void *arg, int member, int n_member)
{
    struct glim_engine *g = arg;
    size_t first, last;
    (void)n_member;
    while (crew_take(&g->work, g->n_judged, 1, &first, &last)) {
        struct seq *q = g->judged[first];
        q->n_piece = 0;
        q->right = 0;
        q->status = judge(g, q, g->sampler[member]);
    }
}

/* ---- after the forward ---- */

static void after(struct glim_engine *g, struct seq *q)
{
    uint32_t end = q->pos + q->sched.rows - q->verified;
    if (q->verified) {
        q->drafter->kind->result(q->drafter, q->verified, q->right);
        q->usage.n_draft += q->verified;
        q->usage.n_accepted += q->right;
        metrics_add(&g->metrics, METRIC_DRAFTS, 1);
        metrics_add(&g->metrics, METRIC_DRAFT_TOKENS, q->verified);
        metrics_add(&g->metrics, METRIC_DRAFT_ACCEPTED, q->right);
    }
    q->sched.n = (uint32_t)q->gen.n;
    sched_advance(&g->sched, &q->sched, q->verified - q->right);
    if (q->pos < q->gen.n_prompt && q->first_s == 0 && q->status == GLIM_OK)
        tell_prompt(g, q, end < q->gen.n_prompt ? end : q->gen.n_prompt);
    if (q->embedding && q->gen.done && q->status == GLIM_OK)
        tell(g, q,
             &(struct glim_event){
                 .kind = GLIM_EVENT_EMBEDDING, .embedding = q->embedding, .n_embedding = g->model->plan.dim});
    if (end >= q->gen.n_prompt) {
        q->sched.all_logits = false;
        release_others(g, q);
    }
    if (q->n_piece)
        tell_tokens(g, q);
    if (is_over(q))
        engine_end(g, q);
}

static void count_step(struct glim_engine *g, uint32_t rows, double forward_s, double other_s)
{
    uint32_t prefill = 0;
    struct timespec t;
    for (uint32_t i = 0; i < g->n_judged; i++)
        prefill += g->judged[i]->pos < g->judged[i]->sched.start;
    enum metric phase = prefill == 0            ? METRIC_STEP_DECODE_SECONDS
                        : prefill < g->n_judged ? METRIC_STEP_MIXED_SECONDS
                                                : METRIC_STEP_PREFILL_SECONDS;
    clock_gettime(CLOCK_REALTIME, &t);
    metrics_observe(&g->metrics, phase, forward_s);
    metrics_observe(&g->metrics, METRIC_STEP_ROWS, rows);
    metrics_observe(&g->metrics, METRIC_SCHEDULE_SECONDS, other_s);
    metrics_add(&g->metrics, METRIC_STEPS, 1);
    metrics_set(&g->metrics, METRIC_LAST_STEP, (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
}

static void gauge(struct glim_engine *g)
{
    const struct kv_table *t = &g->kv.group[g->prefix.full >= 0 ? g->prefix.full : 0];
    double total = t->n_page, cached = g->prefix.n_idle, used = total - t->n_free - cached;
    pthread_mutex_lock(&g->lock);
    uint32_t queued = g->n_queued;
    pthread_mutex_unlock(&g->lock);
    metrics_set(&g->metrics, METRIC_REQUESTS_WAITING, queued);
    metrics_set(&g->metrics, METRIC_REQUESTS_RUNNING, g->sched.n_run);
    metrics_set(&g->metrics, METRIC_PAGES_TOTAL, total);
    metrics_set(&g->metrics, METRIC_PAGES_USED, used);
    metrics_set(&g->metrics, METRIC_PAGES_CACHED, cached);
    metrics_set(&g->metrics, METRIC_KV_USAGE, used / total);
}

/* Those that gave way say anew what they need. */
static void count_preempted(struct glim_engine *g, uint64_t n)
{
    metrics_add(&g->metrics, METRIC_PREEMPTIONS, n);
    for (struct sched_seq *q = n ? g->sched.first : NULL; q; q = q->next)
        engine_declare((struct seq *)q);
}

/* Nothing runs, and the first in the queue still finds no room: it never will. */
static void fail_first(struct glim_engine *g)
{
    struct seq *q = (struct seq *)g->sched.first;
    q->status =
        err_set(&q->err, GLIM_FAILED, "engine: KV cache: have no pages left, need those of %u tokens", q->sched.n_most);
    engine_end(g, q);
}

static void check(const struct glim_engine *g)
{
#ifdef GLIM_CHECKS
    struct glim_err e = {0};
    static const char no_memory[] = "out of memory";
    bool good = sched_check(&g->sched, &e) == GLIM_OK || strncmp(e.message, no_memory, sizeof no_memory - 1) == 0;
    if (!good)
        log_line(LOG_ERROR, "engine", "%s", e.message);
    assert(good);
#else
    (void)g;
#endif
}

void engine_step(struct glim_engine *g)
{
    struct glim_err e;
    double t0 = engine_now();
    g->told_s = 0;
    end_late(g);
    admit(g);
    draft(g);
    uint64_t preempted = g->sched.n_preempted;
    uint32_t rows = sched_plan(&g->sched);
    count_preempted(g, g->sched.n_preempted - preempted);
    gauge(g);
    if (rows == 0 && g->sched.n_waiting > 0 && g->sched.n_preempted == preempted)
        fail_first(g);
    if (rows == 0)
        return;
    double t1 = engine_now();
    glim_status st = forward(g, &e);
    double t2 = engine_now();
    sched_measure(&g->sched, t2 - t1);
    atomic_store(&g->work.next, 0);
    if (st == GLIM_OK)
        crew_run(g->crew, judge_all, g);
    double t3 = engine_now();
    for (uint32_t i = 0; i < g->n_judged; i++) {
        struct seq *q = g->judged[i];
        if (st != GLIM_OK) {
            q->status = st;
            q->err = e;
            engine_end(g, q);
        } else {
            after(g, q);
        }
    }
    count_step(g, rows, t2 - t1, engine_now() - t3 + t1 - t0 - g->told_s);
    gauge(g); /* there may be no next step to tell what ended in this one */
    check(g);
}
