/* Walks of attention over pages of plain numbers (f32, f16, bf16).
 *
 * A walk is a block of rows times some parts of its heads, one job (attention.h) each, and goes over its pages in
 * chunks. A member's walk has one job; a walk of the whole crew has all of a block's, and each step of a chunk is cut:
 * scores by pages, softmax by queries, values by dims. Neither changes a bit. */
#include "cpu/attention_walk.h"

#include "base/arith.h"

#include <math.h>
#include <string.h>

enum {
    ALONE_SCORES = 384,     /* pages * queries of a member's chunk: with many queries, scores, K and V stay near */
    STEP_PAGES = 4,         /* a tile of the kernels: what the scores step is cut in when the crew walks together */
    TOGETHER_TOKENS = 8192, /* tokens of a one-row chunk when the crew walks together */
};

struct walk {
    const struct attn_block *block;
    uint32_t head; /* first of job 0; the jobs have equally many */
    uint32_t n_job, first_page, end_page, chunk;
    struct attn_job *job;
    float *room;
};

/* ---- scratch ---- */

struct job_room { /* queries; dims of a head; pages * queries of the chunk */
    size_t query, dim, score;
};

static size_t round_line(size_t n) /* floats */
{
    return (n + 15) & ~(size_t)15;
}

static size_t job_floats(struct job_room r)
{
    return round_line(r.query * (2 * r.dim + 1 + KV_PAGE) + r.score * (KV_PAGE + 2));
}

static void job_cut(struct attn_job *j, float *base, struct job_room r)
{
    j->s = base, base += r.score * KV_PAGE;
    j->l = base, base += r.query * KV_PAGE;
    j->q = base, base += r.query * r.dim;
    j->o = base, base += r.query * r.dim;
    j->m = base, base += r.query;
    j->top = base, base += r.score;
    j->c = base;
}

/* Pages * queries of all jobs. */
static size_t together_room(const struct op_limits *l)
{
    return (size_t)l->max_head * (TOGETHER_TOKENS / KV_PAGE);
}

static size_t alone_bytes(const struct op_limits *l)
{
    return job_floats((struct job_room){ATTN_MAX_QUERIES, l->max_head_dim, ALONE_SCORES}) * sizeof(float);
}

/* The jobs, then a room for each (which rounds up to a line). */
static size_t jobs_bytes(const struct op_limits *l)
{
    return (l->max_head * sizeof(struct attn_job) + 63) & ~(size_t)63;
}

static size_t together_bytes(const struct op_limits *l, int n_thread)
{
    (void)n_thread;
    struct job_room all = {(size_t)l->max_head * ATTN_MAX_ROWS, l->max_head_dim, together_room(l)};
    return jobs_bytes(l) + (job_floats(all) + 16 * (size_t)l->max_head) * sizeof(float);
}

/* ---- a walk ---- */

static size_t type_bytes(const struct kv_layer *kv)
{
    return kv->type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* The part's heads of the block. */
static void job_start(const struct attn_call *a, struct attn_job *j, const struct attn_block *b, struct attn_part part)
{
    const struct kv_layer *kv = a->kv;
    size_t dim = kv->head_dim, n_head = part.n_head, at = part.kv_head * dim * KV_PAGE * type_bytes(kv);
    j->k = (const unsigned char *)kv->k + at;
    j->v = (const unsigned char *)kv->v + at;
    j->page = a->map.page + b->seq * a->map.stride;
    j->page_bytes = kv->page_bytes;
    j->type = kv->type;
    j->head_dim = kv->head_dim;
    j->n_row = b->n_row;
    j->n_head = part.n_head;
    j->n_query = b->n_row * part.n_head;
    j->pos = b->pos;
    j->window = a->p->window;
    j->scale = a->p->scale;
    j->softcap = a->p->softcap;
    for (size_t r = 0; r < b->n_row; r++)
        memcpy(j->q + r * n_head * dim, a->q.p + (b->row + r) * a->q.stride + part.head * dim,
               n_head * dim * sizeof(float));
    memset(j->o, 0, j->n_query * dim * sizeof(float));
    memset(j->l, 0, (size_t)j->n_query * KV_PAGE * sizeof(float));
    for (uint32_t i = 0; i < j->n_query; i++)
        j->m[i] = -INFINITY;
}

/* The jobs are n_head heads each, from `head` on; most: pages * queries that w->room has place for. */
static void walk_start(const struct attn_call *a, struct walk *w, const struct attn_block *b, uint32_t head,
                       uint32_t n_head, size_t most)
{
    uint32_t n_query = b->n_row * n_head;
    w->block = b;
    w->head = head;
    w->first_page = attn_first_page(a, b);
    w->end_page = attn_end_page(b);
    /* As many equal chunks as it takes. */
    size_t n_page = w->end_page - w->first_page;
    w->chunk = (uint32_t)ceil_div(n_page, ceil_div(n_page, most / ((size_t)n_query * w->n_job)));
    struct job_room room = {n_query, a->kv->head_dim, (size_t)w->chunk * n_query};
    for (uint32_t i = 0; i < w->n_job; i++) {
        job_cut(&w->job[i], w->room + i * job_floats(room), room);
        job_start(a, &w->job[i], b, (struct attn_part){head / a->share + i, head + i * n_head, n_head});
    }
}

/* Sets the chunk that begins at page p; returns its end. */
static uint32_t walk_chunk(struct walk *w, uint32_t p)
{
    uint32_t n = w->end_page - p < w->chunk ? w->end_page - p : w->chunk;
    for (uint32_t i = 0; i < w->n_job; i++) {
        w->job[i].first = p;
        w->job[i].n_page = n;
    }
    return p + n;
}

/* Pages [p0, p1) of the chunk. */
static void walk_scores(const struct attn_call *a, const struct walk *w, size_t p0, size_t p1)
{
    for (uint32_t i = 0; i < w->n_job; i++)
        a->k->scores(&w->job[i], (uint32_t)p0, (uint32_t)p1);
}

/* Queries [q0, q1), counted over all jobs. */
static void walk_softmax(const struct attn_call *a, const struct walk *w, size_t q0, size_t q1)
{
    size_t n = w->job->n_query;
    for (size_t i = q0 / n; i * n < q1; i++)
        a->k->softmax(&w->job[i], (uint32_t)(q0 > i * n ? q0 - i * n : 0),
                      (uint32_t)(q1 < (i + 1) * n ? q1 - i * n : n));
}

/* Columns of sixteen dims (the last of a head may be short). */
static size_t columns(const struct attn_call *a)
{
    return ceil_div(a->kv->head_dim, 16);
}

/* Columns [c0, c1), counted over all jobs. */
static void walk_values(const struct attn_call *a, const struct walk *w, size_t c0, size_t c1)
{
    uint32_t dim = a->kv->head_dim;
    size_t n = columns(a);
    for (size_t i = c0 / n; i * n < c1; i++) {
        const struct attn_job *j = &w->job[i];
        uint32_t d0 = (uint32_t)(c0 > i * n ? c0 - i * n : 0) * 16;
        uint32_t d1 = c1 < (i + 1) * n ? (uint32_t)(c1 - i * n) * 16 : dim;
        a->k->values(j, d0, d1);
        if (j->first + j->n_page == w->end_page)
            a->k->finish(j, a->y.p + w->block->row * a->y.stride + (w->head + i * j->n_head) * dim, a->y.stride, d0,
                         d1);
    }
}

/* ---- by one member ---- */

static void walk_alone(const struct attn_call *a, struct attn_item now, struct attn_item next, void *room)
{
    (void)next;
    struct attn_job job;
    struct walk w = {.job = &job, .n_job = 1, .room = room};
    walk_start(a, &w, now.b, now.part.head, now.part.n_head, ALONE_SCORES);
    for (uint32_t p = w.first_page; p < w.end_page;) {
        p = walk_chunk(&w, p);
        walk_scores(a, &w, 0, job.n_page);
        walk_softmax(a, &w, 0, job.n_query);
        walk_values(a, &w, 0, columns(a));
    }
}

/* ---- by the crew ---- */

struct together {
    const struct attn_call *a;
    struct walk w;
};

static void together_scores(void *arg, int member, int n_member)
{
    const struct together *t = arg;
    size_t n = t->w.job->n_page, first, last;
    cpu_share(ceil_div(n, STEP_PAGES), member, n_member, &first, &last);
    walk_scores(t->a, &t->w, first * STEP_PAGES, last * STEP_PAGES < n ? last * STEP_PAGES : n);
}

static void together_softmax(void *arg, int member, int n_member)
{
    const struct together *t = arg;
    size_t first, last;
    cpu_share((size_t)t->w.job->n_query * t->w.n_job, member, n_member, &first, &last);
    walk_softmax(t->a, &t->w, first, last);
}

static void together_values(void *arg, int member, int n_member)
{
    const struct together *t = arg;
    size_t first, last;
    cpu_share(columns(t->a) * t->w.n_job, member, n_member, &first, &last);
    walk_values(t->a, &t->w, first, last);
}

static void walk_together(struct op_ctx *c, const struct attn_call *a, const struct attn_block *b, void *room)
{
    const struct op_limits *l = &cpu_of(c)->limits;
    struct together t = {.a = a, .w = {.job = room, .n_job = a->kv->n_kv_head}};
    t.w.room = (float *)(void *)((unsigned char *)room + jobs_bytes(l));
    walk_start(a, &t.w, b, 0, a->share, together_room(l));
    for (uint32_t p = t.w.first_page; p < t.w.end_page;) {
        p = walk_chunk(&t.w, p);
        crew_run(c->crew, together_scores, &t);
        crew_run(c->crew, together_softmax, &t);
        crew_run(c->crew, together_values, &t);
    }
}

const struct attn_walker attn_walk_plain = {
    .alone_bytes = alone_bytes, .together_bytes = together_bytes, .alone = walk_alone, .together = walk_together};
