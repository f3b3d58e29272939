/* Jobs at work: submitting inputs, queueing the engine's events, telling the emitter. See job.h.
 *
 * Who touches what: `in` and the few words beside it belong to whoever holds the lock; `submitting` hands a job to a
 * worker until its note has come back; all else belongs to the event thread. A job ends when no worker has it and every
 * answer that was submitted is over. */
#include "serve/job.h"

#include "base/arith.h"
#include "base/mem.h"
#include "serve/access.h"
#include "serve/grammars.h"

#include <string.h>

enum { PING_S = 10 };
static const double RETRY_S = 0.05; /* until a full queue is tried again */

struct event {
    enum glim_event_kind kind;
    uint32_t answer;
    int32_t token;
    size_t n_text, n_logprob, n_float;
};

/* Events, and what belongs to them in the same order. */
struct queue {
    struct event *event;
    size_t n, cap, at; /* at: taken so far */
    struct str text;
    size_t text_at;
    struct glim_logprob *logprob;
    size_t n_logprob, cap_logprob, logprob_at;
    float *number;
    size_t n_number, cap_number, number_at;
};

struct job_task { /* one input's */
    struct job *job;
    uint32_t input;
    uint64_t id;
    bool admitted; /* with the job's lock, as what follows */
    size_t n_cached, n_done;
};

struct ending { /* what a DONE or an ERROR said */
    enum glim_finish finish;
    size_t stop;
    struct glim_usage usage;
    struct glim_err err;
};

struct job_state {
    struct glim_task spec;
    struct job_spec own; /* lists that spec points to */
    struct job_task *task;
    pthread_mutex_t lock;
    struct queue in;
    bool posted, failed_in, too_much;
    struct ending *ending;     /* [n_answer] */
    size_t n_token;            /* told by the engine so far */
    size_t n_submitted, quota; /* inputs; those the next submission may take */
    struct http_note note;
    struct queue out;
    struct work work;
    struct http_note submitted;
    bool submitting, begun, cancelled, failed, waits, full; /* waits: for the socket; full: the engine's queue */
    glim_status submit_status;
    struct glim_err submit_err;
    struct http_timer *ping, *retry;
    double sent_s;
};

static void pump(struct job *j);
static void cancel(struct job *j);

/* ---- the queue ---- */

static bool reserve(void **p, size_t *cap, size_t n, size_t more, size_t size)
{
    if (n + more <= *cap)
        return true;
    size_t want = *cap ? *cap : 16;
    while (want < n + more)
        want *= 2;
    void *q = mem_realloc(*p, want * size);
    if (!q)
        return false;
    *p = q;
    *cap = want;
    return true;
}

static bool reserve_endings(struct queue *q, size_t n)
{
    void *event = q->event;
    bool ok = reserve(&event, &q->cap, q->n, n, sizeof *q->event);
    q->event = event;
    return ok;
}

static bool is_over(const struct glim_event *ev)
{
    return ev->kind == GLIM_EVENT_DONE || ev->kind == GLIM_EVENT_ERROR;
}

static void queue_clear(struct queue *q)
{
    q->n = q->at = q->text_at = q->n_logprob = q->logprob_at = q->n_number = q->number_at = 0;
    str_clear(&q->text);
}

static void queue_fini(struct queue *q)
{
    mem_free(q->event);
    mem_free(q->logprob);
    mem_free(q->number);
    str_fini(&q->text);
}

static size_t queue_bytes(const struct queue *q)
{
    return q->n * sizeof *q->event + q->text.n + q->n_logprob * sizeof *q->logprob + q->n_number * sizeof *q->number;
}

/* Room for `spare` endings is always left, so that those cannot be lost. */
static bool queue_add(struct queue *q, const struct glim_event *ev, uint32_t answer, size_t spare)
{
    struct event e = {.kind = ev->kind,
                      .answer = answer,
                      .token = ev->token,
                      .n_text = ev->n_text,
                      .n_logprob = ev->n_logprob,
                      .n_float = ev->n_embedding};
    void *event = q->event, *logprob = q->logprob, *number = q->number;
    bool ok = is_over(ev) || reserve(&event, &q->cap, q->n, 1 + spare, sizeof *q->event);
    q->event = event;
    ok = ok && reserve(&logprob, &q->cap_logprob, q->n_logprob, e.n_logprob, sizeof *q->logprob);
    q->logprob = logprob;
    ok = ok && reserve(&number, &q->cap_number, q->n_number, e.n_float, sizeof *q->number);
    q->number = number;
    if (ok && e.n_text) {
        str_add(&q->text, ev->text, e.n_text);
        ok = !q->text.failed;
    }
    if (!ok)
        return false;
    if (e.n_logprob)
        memcpy(q->logprob + q->n_logprob, ev->logprob, e.n_logprob * sizeof *q->logprob);
    if (e.n_float)
        memcpy(q->number + q->n_number, ev->embedding, e.n_float * sizeof *q->number);
    q->n_logprob += e.n_logprob;
    q->n_number += e.n_float;
    q->event[q->n++] = e;
    return true;
}

/* ---- in the engine's thread ---- */

/* With the lock. */
static void note_progress(struct job_task *t, const struct glim_event *ev)
{
    t->job->state->n_token += ev->kind == GLIM_EVENT_TOKEN;
    if (ev->kind != GLIM_EVENT_PROMPT || ev->answer != 0)
        return;
    if (!t->admitted)
        t->n_cached = ev->done;
    t->admitted = true;
    t->n_done = ev->done;
}

/* An event that tells nothing an emitter wants to hear. */
static bool is_idle(const struct glim_event *ev)
{
    return ev->kind == GLIM_EVENT_PROMPT && (ev->n_logprob == 0 || ev->answer != 0);
}

static void on_event(void *user, const struct glim_event *ev)
{
    struct job_task *t = user;
    struct job *j = t->job;
    struct job_state *st = j->state;
    uint32_t answer = t->input * j->n + ev->answer;
    pthread_mutex_lock(&st->lock);
    note_progress(t, ev);
    if (is_idle(ev)) {
        pthread_mutex_unlock(&st->lock);
        return;
    }
    if (is_over(ev))
        st->ending[answer] =
            (struct ending){.finish = ev->finish, .stop = ev->stop, .usage = ev->usage, .err = ev->err};
    st->too_much |= queue_bytes(&st->in) + queue_bytes(&st->out) > JOB_QUEUE;
    if (!st->too_much && !st->failed_in)
        st->failed_in = !queue_add(&st->in, ev, answer, j->n_answer);
    if ((st->too_much || st->failed_in) && is_over(ev))
        queue_add(&st->in, &(struct glim_event){.kind = ev->kind}, answer, 0);
    if (!st->posted)
        http_post(j->call->server->http, &st->note);
    st->posted = true;
    pthread_mutex_unlock(&st->lock);
}

/* ---- submitting, in a worker ---- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void submit(struct job *j)
{
    struct job_state *st = j->state;
    struct glim_task t = st->spec;
    uint32_t n_ctx = j->call->server->n_ctx;
    t.on_event = on_event;
    st->submit_status = GLIM_OK;
    for (; st->quota && st->submit_status == GLIM_OK && st->n_submitted < j->n_input; st->quota--) {
        size_t i = st->n_submitted;
        st->task[i] = (struct job_task){.job = j, .input = (uint32_t)i};
        t.request.prompt = j->input[i].id;
        t.request.n_prompt = j->input[i].n;
        t.request.max_tokens = least(st->spec.request.max_tokens, n_ctx - (uint32_t)j->input[i].n);
        t.user = &st->task[i];
        st->submit_status = glim_engine_submit(j->call->server->engine, &t, &st->task[i].id, &st->submit_err);
        st->n_submitted += st->submit_status == GLIM_OK;
    }
}

static void submit_more(void *arg)
{
    struct job *j = arg;
    submit(j);
    http_post(j->call->server->http, &j->state->submitted);
}

/* ---- telling the emitter ---- */

/* Timers are gone before the transport is: so with the client. */
static void stop_timers(struct job *j)
{
    http_timer_free(j->state->ping);
    http_timer_free(j->state->retry);
    j->state->ping = j->state->retry = NULL;
}

static void fail(struct job *j, int http, const struct glim_err *e)
{
    struct job_state *st = j->state;
    if (st->failed)
        return;
    st->failed = true;
    stop_timers(j);
    cancel(j);
    if (j->emit->fail)
        j->emit->fail(j, http, e);
    else
        call_error(j->call, http, e);
}

/* Where a parser's events go. */
struct hearing {
    struct job *job;
    uint32_t answer;
};

static void tell_text(struct job *j, uint32_t answer, enum job_part part, const char *p, size_t n)
{
    if (n && j->emit->text)
        j->emit->text(j, answer, part, p, n);
}

static glim_status hear(void *ctx, const struct dialect_event *ev, struct glim_err *e)
{
    struct hearing *h = ctx;
    struct job *j = h->job;
    char made[CALL_ID_MAX];
    (void)e;
    switch (ev->kind) {
    case DIALECT_REASONING:
        tell_text(j, h->answer, JOB_REASONING, ev->text, ev->n);
        break;
    case DIALECT_CONTENT:
        tell_text(j, h->answer, JOB_CONTENT, ev->text, ev->n);
        break;
    case DIALECT_CALL_BEGIN: {
        struct job_call call = {.index = ev->index, .id = ev->id, .name = ev->name};
        if (!call.id) {
            serve_id("call_", made);
            call.id = made;
        }
        if (j->emit->call_begin)
            j->emit->call_begin(j, h->answer, &call);
        break;
    }
    case DIALECT_ARGUMENTS:
        if (j->emit->call_args && ev->n)
            j->emit->call_args(j, h->answer, ev->index, ev->text, ev->n);
        break;
    case DIALECT_CALL_END:
        j->answer[h->answer].n_call++;
        if (j->emit->call_end)
            j->emit->call_end(j, h->answer, ev->index);
        break;
    case DIALECT_MALFORMED: /* of a call that had begun, what came of it is out already */
        if (ev->index == DIALECT_NO_INDEX)
            tell_text(j, h->answer, JOB_CONTENT, ev->text, ev->n);
        break;
    }
    return GLIM_OK;
}

static void take_text(struct job *j, uint32_t answer, const char *p, size_t n)
{
    struct hearing h = {j, answer};
    struct dialect_sink sink = {hear, &h};
    struct job_answer *a = &j->answer[answer];
    struct glim_err e;
    if (!a->parser)
        tell_text(j, answer, JOB_CONTENT, p, n);
    else if (n && dialect_push(a->parser, p, n, &sink, &e) != GLIM_OK)
        fail(j, 500, &e);
}

/* The end token is none of the answer. */
static bool ends(const struct job *j, int32_t token)
{
    const struct glim_request *r = &j->state->spec.request;
    for (size_t i = 0; i < r->n_end; i++)
        if (r->end[i] == token)
            return true;
    return !r->ignore_end && glim_token_is_end(j->call->server->model, token);
}

static enum job_finish finish_of(const struct job_answer *a, enum glim_finish f)
{
    switch (f) {
    case GLIM_FINISH_LENGTH:
    case GLIM_FINISH_DEADLINE:
        return JOB_LENGTH;
    case GLIM_FINISH_END:
    case GLIM_FINISH_STOP:
        return a->n_call ? JOB_CALLS : JOB_STOP;
    case GLIM_FINISH_CANCELLED:
        return JOB_CANCELLED;
    }
    return JOB_STOP;
}

static void take_end(struct job *j, uint32_t answer)
{
    struct hearing h = {j, answer};
    struct dialect_sink sink = {hear, &h};
    struct job_answer *a = &j->answer[answer];
    const struct ending *end = &j->state->ending[answer];
    struct glim_err e;
    bool cut = end->finish == GLIM_FINISH_LENGTH || end->finish == GLIM_FINISH_CANCELLED ||
               end->finish == GLIM_FINISH_DEADLINE;
    if (!j->state->failed && a->parser &&
        dialect_end(a->parser, cut ? DIALECT_CUT_BY_LENGTH : DIALECT_STOPPED, &sink, &e) != GLIM_OK)
        fail(j, 500, &e);
    a->over = true;
    a->finish = finish_of(a, end->finish);
    a->stop = end->finish == GLIM_FINISH_STOP ? (int)end->stop : -1;
    a->usage = end->usage;
    j->n_over++;
    j->state->full = false;
    if (a->finish == JOB_CANCELLED && !j->state->cancelled) {
        err_set(&e, GLIM_REFUSED, "server: answer: have a cancelled one, need a running engine: it is shutting down");
        fail(j, 503, &e);
    }
    if (!j->state->failed && j->emit->end)
        j->emit->end(j, answer);
}

static void take_event(struct job *j, const struct event *ev, const char *text, const struct glim_logprob *logprob,
                       const float *number)
{
    struct job_token token = {.id = ev->token, .logprob = logprob, .n = ev->n_logprob};
    bool mute = j->state->failed;
    switch (ev->kind) {
    case GLIM_EVENT_PROMPT:
        if (!mute && j->emit->prompt)
            j->emit->prompt(j, ev->answer / j->n, logprob, 1 + (size_t)j->state->spec.n_prompt_logprob);
        break;
    case GLIM_EVENT_TOKEN:
        access_tokens(j->call->access, 0, 1);
        if (mute)
            break;
        take_text(j, ev->answer, text, ev->n_text);
        if (j->emit->token && !ends(j, ev->token))
            j->emit->token(j, ev->answer, &token);
        break;
    case GLIM_EVENT_EMBEDDING:
        if (!mute && j->emit->embedding)
            j->emit->embedding(j, ev->answer / j->n, number, ev->n_float);
        break;
    case GLIM_EVENT_DONE:
        if (!mute)
            take_text(j, ev->answer, text, ev->n_text);
        take_end(j, ev->answer);
        break;
    case GLIM_EVENT_ERROR:
        j->n_over++;
        j->answer[ev->answer].over = true;
        fail(j, serve_http_status(j->call->server, &j->state->ending[ev->answer].err),
             &j->state->ending[ev->answer].err);
        break;
    }
}

/* ---- the pump, in the event thread ---- */

static void on_room(void *arg)
{
    struct job *j = arg;
    j->state->waits = false;
    pump(j);
}

/* Is the client behind? Then the pump goes on when it has caught up. */
static bool is_behind(struct job *j)
{
    struct call *c = j->call;
    if (!c->x || http_backlog(c->x) <= JOB_BACKLOG)
        return false;
    if (!j->state->waits)
        http_on_drain(c->x, JOB_BACKLOG / 2, on_room, j);
    j->state->waits = true;
    return true;
}

/* false: there is nothing to take. */
static bool take_batch(struct job *j)
{
    struct job_state *st = j->state;
    struct queue *q = &st->out;
    struct queue empty;
    pthread_mutex_lock(&st->lock);
    if (q->at == q->n) {
        queue_clear(q);
        empty = *q;
        *q = st->in;
        st->in = empty;
    }
    pthread_mutex_unlock(&st->lock);
    return q->at < q->n;
}

static void take_events(struct job *j)
{
    struct queue *q = &j->state->out;
    while (!is_behind(j) && take_batch(j)) {
        while (q->at < q->n && !is_behind(j)) {
            const struct event *ev = &q->event[q->at++];
            take_event(j, ev, ev->n_text ? q->text.s + q->text_at : "",
                       ev->n_logprob ? q->logprob + q->logprob_at : NULL,
                       ev->n_float ? q->number + q->number_at : NULL);
            q->text_at += ev->n_text;
            q->logprob_at += ev->n_logprob;
            q->number_at += ev->n_float;
            j->state->sent_s = serve_now();
        }
        if (j->emit->flush && !j->state->failed)
            j->emit->flush(j);
    }
}

/* What went wrong in the engine's thread. */
static void take_trouble(struct job *j)
{
    struct job_state *st = j->state;
    struct glim_err e;
    pthread_mutex_lock(&st->lock);
    bool nomem = st->failed_in, behind = st->too_much;
    pthread_mutex_unlock(&st->lock);
    if (nomem) {
        err_nomem(&e, "answer", JOB_QUEUE);
        fail(j, 500, &e);
    } else if (behind && !st->failed) {
        st->failed = true;
        stop_timers(j);
        cancel(j);
        call_cut(j->call);
    }
}

/* How many inputs may be submitted now. */
static size_t allow(struct job *j)
{
    size_t open = j->state->n_submitted * j->n - j->n_over;
    return j->state->quota = open == 0 ? ceil_div(JOB_AHEAD, j->n) : open < JOB_AHEAD ? (JOB_AHEAD - open) / j->n : 0;
}

/* Inputs that wait for earlier ones. */
static void go_on(struct job *j)
{
    struct job_state *st = j->state;
    if (st->submitting || st->full || st->failed || st->cancelled || st->n_submitted == j->n_input ||
        j->call->server->stopping)
        return;
    if (!allow(j))
        return;
    st->submitting = true;
    serve_work(j->call->server, &st->work);
}

/* A note that is on its way will come back to the job. */
static bool is_complete(struct job *j)
{
    struct job_state *st = j->state;
    if (st->submitting || j->n_over < st->n_submitted * j->n)
        return false;
    pthread_mutex_lock(&st->lock);
    bool posted = st->posted;
    pthread_mutex_unlock(&st->lock);
    if (posted)
        return false;
    return st->n_submitted == j->n_input || st->failed || st->cancelled || j->call->server->stopping;
}

static void job_free(struct job *j)
{
    struct job_state *st = j->state;
    if (st)
        stop_timers(j);
    if (j->emit->free && j->user)
        j->emit->free(j);
    for (size_t i = 0; i < j->n_answer && j->answer; i++)
        dialect_parser_free(j->answer[i].parser);
    for (size_t i = 0; i < j->n_input && j->input; i++)
        mem_free(j->input[i].id);
    mem_free(j->answer);
    mem_free(j->input);
    if (st) {
        job_spec_fini(&st->own);
        queue_fini(&st->in);
        queue_fini(&st->out);
        mem_free(st->task);
        mem_free(st->ending);
        pthread_mutex_destroy(&st->lock);
        mem_free(st);
    }
    mem_free(j);
}

static void end(struct job *j)
{
    struct call *c = j->call;
    if (!j->state->failed && j->emit->done)
        j->emit->done(j);
    if (j->link) {
        *j->link = j->next;
        if (j->next)
            j->next->link = j->link;
        c->server->n_job--;
    }
    c->job = NULL;
    c->on_gone = NULL;
    if (j->state->waits && c->x)
        http_on_drain(c->x, 0, NULL, NULL);
    job_free(j);
    call_drop(c);
}

static void pump(struct job *j)
{
    if (!j->state->begun)
        return;
    take_events(j);
    take_trouble(j);
    go_on(j);
    if (is_complete(j))
        end(j);
}

static void on_note(void *arg)
{
    struct job *j = arg;
    pthread_mutex_lock(&j->state->lock);
    j->state->posted = false;
    pthread_mutex_unlock(&j->state->lock);
    pump(j);
}

static void on_ping(void *arg)
{
    struct job *j = arg;
    if (serve_now() - j->state->sent_s >= PING_S * 0.9) {
        if (j->emit->ping)
            j->emit->ping(j);
        else if (j->call->streaming)
            call_send(j->call, ": ping\n\n", 8);
    }
    http_timer_start(j->state->ping, PING_S);
}

/* ---- life ---- */

static void cancel_submitted(struct job *j)
{
    struct glim_engine *g = j->call->server->engine;
    for (size_t i = 0; g && i < j->state->n_submitted; i++)
        glim_engine_cancel(g, j->state->task[i].id);
}

static void cancel(struct job *j)
{
    j->state->cancelled = true;
    if (!j->state->submitting)
        cancel_submitted(j);
}

void job_cancel(struct job *j)
{
    cancel(j);
    pump(j); /* there may be nothing in work that would end and tell */
}

static void on_retry(void *arg)
{
    struct job *j = arg;
    j->state->full = false;
    pump(j);
}

/* A worker has submitted what it could. A queue that is full of others' answers is tried again: a part of the job is
 * done already. */
static void on_submitted(void *arg)
{
    struct job *j = arg;
    struct job_state *st = j->state;
    st->submitting = false;
    if (st->submit_status == GLIM_BUSY && !st->retry && !st->cancelled)
        st->retry = http_timer_create(j->call->server->http, on_retry, j);
    if (st->cancelled) {
        cancel_submitted(j);
    } else if (st->submit_status == GLIM_BUSY && st->retry) {
        st->full = true;
        http_timer_start(st->retry, RETRY_S);
    } else if (st->submit_status != GLIM_OK) {
        fail(j, serve_http_status(j->call->server, &st->submit_err), &st->submit_err);
    }
    pump(j);
}

static void on_gone(struct call *c)
{
    struct job *j = c->job;
    stop_timers(j);
    j->state->waits = false;
    if (!j->state->own.keep)
        cancel(j);
    pump(j);
}

void job_unblock(struct job *j)
{
    j->state->waits = false;
    pump(j);
}

static void on_begin(struct call *c)
{
    struct job *j = c->user;
    struct job_state *st = j->state;
    struct server *s = c->server;
    call_hold(c);
    c->job = j;
    for (size_t i = 0; i < j->n_input; i++)
        access_tokens(c->access, j->input[i].n, 0);
    st->begun = true;
    j->next = s->job;
    j->link = &s->job;
    if (s->job)
        s->job->link = &j->next;
    s->job = j;
    s->n_job++;
    st->sent_s = serve_now();
    if (!c->x && !st->own.keep) {
        st->cancelled = true;
    } else {
        if (j->emit->begin)
            j->emit->begin(j);
        if (c->streaming && (st->ping = http_timer_create(s->http, on_ping, j)))
            http_timer_start(st->ping, PING_S);
    }
    on_submitted(j);
}

static glim_status open_answers(struct job *j, struct glim_err *e)
{
    struct job_spec *own = &j->state->own;
    struct dialect_opts o = {.tools = own->tools, .parse_tools = own->parse_tools, .prompt = own->prompt_end};
    for (size_t i = 0; i < j->n_answer; i++) {
        j->answer[i].stop = -1;
        if (own->dialect)
            TRY(dialect_parser_create(&j->answer[i].parser, own->dialect, &o, e));
    }
    return GLIM_OK;
}

static glim_status job_create(struct job **out, struct call *c, struct job_spec *s, const struct job_emitter *emit,
                              void *user, struct glim_err *e)
{
    struct job *j = mem_calloc(1, sizeof *j);
    struct job_state *st = mem_calloc(1, sizeof *st);
    *out = j;
    if (j)
        *j = (struct job){.call = c, .emit = emit, .user = user, .state = st};
    if (!j || !st) {
        mem_free(j ? NULL : st);
        return err_nomem(e, "job", sizeof *j + sizeof *st);
    }
    pthread_mutex_init(&st->lock, NULL);
    st->spec = s->task;
    st->own = *s;
    *s = (struct job_spec){0};
    j->input = st->own.input;
    j->n_input = st->own.n_input;
    st->own.input = NULL;
    st->own.n_input = 0;
    j->n = st->spec.n_answer ? st->spec.n_answer : 1;
    j->n_answer = j->n_input * j->n;
    j->answer = mem_calloc(j->n_answer, sizeof *j->answer);
    st->task = mem_calloc(j->n_input, sizeof *st->task);
    st->ending = mem_calloc(j->n_answer, sizeof *st->ending);
    if (!j->answer || !st->task || !st->ending)
        return err_nomem(e, "job", j->n_answer * (sizeof *j->answer + sizeof *st->ending));
    if (!reserve_endings(&st->in, j->n_answer) || !reserve_endings(&st->out, j->n_answer))
        return err_nomem(e, "job", j->n_answer * sizeof *st->in.event);
    st->spec.request.stop = (const char *const *)st->own.stop;
    st->spec.request.end = st->own.end;
    st->spec.request.sampling.bias = st->own.bias;
    st->spec.request.grammar = grammar_of(st->own.grammar);
    st->note = (struct http_note){.fn = on_note, .arg = j};
    st->submitted = (struct http_note){.fn = on_submitted, .arg = j};
    st->work = (struct work){.fn = submit_more, .arg = j};
    return open_answers(j, e);
}

/* An answer has at least one token. */
static glim_status check_inputs(struct call *c, const struct job_spec *s, struct glim_err *e)
{
    const char *member = s->member ? s->member : "prompt";
    if (s->n_input == 0)
        return err_set(e, GLIM_USAGE, "job: inputs: have none, need one");
    for (size_t i = 0; i < s->n_input; i++) {
        size_t n = s->input[i].n;
        if (n == 0) {
            err_set(e, GLIM_REFUSED, "%s: input %zu: have 0 tokens, need at least 1", member, i);
            return call_fail(c, 400, member, "invalid_value", e);
        }
        if (n >= c->server->n_ctx) {
            err_set(e, GLIM_REFUSED, "%s: input %zu: have %zu tokens, need fewer than the context's %u", member, i, n,
                    c->server->n_ctx);
            return call_fail(c, 400, member, "context_length_exceeded", e);
        }
    }
    return GLIM_OK;
}

glim_status job_start(struct call *c, struct job_spec *s, const struct job_emitter *emit, void *user,
                      struct glim_err *e)
{
    struct job *j = NULL;
    glim_status st = check_inputs(c, s, e);
    if (st == GLIM_OK)
        st = job_create(&j, c, s, emit, user, e);
    if (st == GLIM_OK) {
        j->state->submitting = true;
        allow(j);
        submit(j);
        if (j->state->n_submitted == 0) {
            st = j->state->submit_status;
            *e = j->state->submit_err;
        }
    }
    if (st != GLIM_OK) {
        struct job bare = {.call = c, .emit = emit, .user = user};
        if (j)
            job_free(j);
        else if (emit->free && user)
            emit->free(&bare);
        return st;
    }
    call_take(c, on_begin, on_gone, j);
    return GLIM_OK;
}

struct job_progress job_progress(const struct job *j)
{
    struct job_state *st = j->state;
    struct job_progress p = {0};
    pthread_mutex_lock(&st->lock);
    for (size_t i = 0; i < j->n_input; i++) {
        p.n_prompt += j->input[i].n;
        p.n_cached += st->task[i].n_cached;
        p.n_done += st->task[i].n_done;
        if (st->task[i].admitted)
            p.phase = JOB_PREFILL;
    }
    p.n_token = st->n_token;
    if (p.n_token)
        p.phase = JOB_DECODE;
    pthread_mutex_unlock(&st->lock);
    return p;
}

struct glim_usage job_usage(const struct job *j)
{
    struct glim_usage sum = {0};
    for (size_t i = 0; i < j->n_answer; i++) {
        const struct glim_usage *u = &j->answer[i].usage;
        if (i % j->n == 0) {
            sum.n_prompt += u->n_prompt;
            sum.n_cached += u->n_cached;
        }
        sum.n_token += u->n_token;
        sum.n_draft += u->n_draft;
        sum.n_accepted += u->n_accepted;
        sum.queue_s = u->queue_s > sum.queue_s ? u->queue_s : sum.queue_s;
        sum.prefill_s = u->prefill_s > sum.prefill_s ? u->prefill_s : sum.prefill_s;
        sum.decode_s = u->decode_s > sum.decode_s ? u->decode_s : sum.decode_s;
    }
    return sum;
}
