/* Walks of attention over pages of 8-bit integers (attention_q8.h has the steps of a tile).
 *
 * A member's walk takes a part of a block over its tiles in order. When the crew walks a block together, members take
 * equal runs of (tile, part): a tile's K and V are read by one member, once. What each tile gives is kept and merged in
 * order afterwards, cut by queries. */
#include "cpu/attention_q8.h"
#include "cpu/attention_walk.h"

#include "base/arith.h"

#include <math.h>
#include <string.h>

enum { TOGETHER_TILES = 128 }; /* tiles of a one-row chunk when the crew walks together */

/* ---- scratch: arrays of whole lines ---- */

static size_t line(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Cuts an array off the room. */
static void *take(unsigned char **room, size_t bytes)
{
    void *p = *room;
    *room += line(bytes);
    return p;
}

/* Codes and running softmax of n queries. */
static size_t queries_bytes(size_t n, size_t dim)
{
    return line(n * dim) + 2 * line(n * dim / KV8_RUN * 4) + line(n * 4) + line(n * KV_PAGE * 4) + line(n * dim * 4);
}

static void cut_queries(struct q8_job *j, unsigned char **room, size_t n, size_t dim)
{
    j->code = take(room, n * dim);
    j->d = take(room, n * dim / KV8_RUN * sizeof(float));
    j->bias = take(room, n * dim / KV8_RUN * sizeof(int32_t));
    j->m = take(room, n * sizeof(float));
    j->l = take(room, n * KV_PAGE * sizeof(float));
    j->o = take(room, n * dim * sizeof(float));
}

/* What a tile of n queries needs on its way. */
static size_t tile_bytes(size_t n)
{
    return line(n * KV8_TILE * 4) + line(n * KV8_TILE) + line(n * KV_PAGE * 4) + 2 * line(n * 4);
}

static void cut_tile(struct q8_job *j, unsigned char **room, size_t n)
{
    j->s = take(room, n * KV8_TILE * sizeof(float));
    j->p = take(room, n * KV8_TILE);
    j->tops = take(room, n * KV_PAGE * sizeof(float));
    j->c = take(room, n * sizeof(float));
    j->w = take(room, n * sizeof(float));
}

/* What comes of n queries in n_tile tiles; dim = 0 without sums. */
static size_t result_bytes(size_t n, size_t dim, size_t n_tile)
{
    return line(n_tile * n * 4) + line(n_tile * n * KV_PAGE * 4) + line(n_tile * n * dim * 4);
}

static void cut_result(struct q8_job *j, unsigned char **room, size_t n, size_t dim, size_t n_tile)
{
    j->top = take(room, n_tile * n * sizeof(float));
    j->u = take(room, n_tile * n * KV_PAGE * sizeof(float));
    j->sum = take(room, n_tile * n * dim * sizeof(int32_t));
}

static size_t alone_bytes(const struct op_limits *l)
{
    size_t n = ATTN_MAX_QUERIES;
    return queries_bytes(n, kv8_dim(l->max_head_dim)) + tile_bytes(n) + result_bytes(n, 0, 1);
}

/* Jobs of a block's parts, each rounding its arrays up to lines; a tile for each member. */
static size_t jobs_bytes(const struct op_limits *l)
{
    return line(l->max_head * sizeof(struct q8_job));
}

static size_t together_bytes(const struct op_limits *l, int n_thread)
{
    enum { ARRAYS = 9 };
    size_t n = l->max_head, dim = kv8_dim(l->max_head_dim);
    return jobs_bytes(l) + queries_bytes(n * ATTN_MAX_ROWS, dim) + result_bytes(n, dim, TOGETHER_TILES) +
           n * ARRAYS * 64 + (size_t)n_thread * tile_bytes(ATTN_MAX_QUERIES);
}

/* ---- jobs ---- */

static void job_start(const struct attn_call *a, struct q8_job *j, const struct attn_block *b, struct attn_part part)
{
    const struct kv_layer *kv = a->kv;
    size_t at = part.kv_head * kv8_head_bytes(kv->head_dim);
    j->k = (const uint8_t *)kv->k + at;
    j->v = (const uint8_t *)kv->v + at;
    j->page = a->map.page + b->seq * a->map.stride;
    j->page_bytes = kv->page_bytes;
    j->head_dim = kv->head_dim;
    j->dim = kv8_dim(kv->head_dim);
    j->n_run = j->dim / KV8_RUN;
    j->n_row = b->n_row;
    j->n_head = part.n_head;
    j->n_query = b->n_row * part.n_head;
    j->pos = b->pos;
    j->window = a->p->window;
    j->softcap = a->p->softcap;
}

static void job_clear(const struct attn_call *a, const struct q8_job *j, const struct attn_block *b, uint32_t head)
{
    const float *q = a->q.p + b->row * a->q.stride + (size_t)head * j->head_dim;
    a->k->q8->encode(j, q, a->q.stride, a->p->scale);
    memset(j->o, 0, (size_t)j->n_query * j->dim * sizeof(float));
    memset(j->l, 0, (size_t)j->n_query * KV_PAGE * sizeof(float));
    for (uint32_t i = 0; i < j->n_query; i++)
        j->m[i] = -INFINITY;
}

/* Where row 0, head 0 of a job's result goes. */
static float *result_at(const struct attn_call *a, const struct attn_block *b, uint32_t head)
{
    return a->y.p + b->row * a->y.stride + (size_t)head * a->kv->head_dim;
}

/* Sets the pages of tile number t that the block sees. */
static void job_tile(struct q8_job *j, const struct attn_call *a, const struct attn_block *b, uint32_t t)
{
    uint32_t first = attn_first_page(a, b), end = attn_end_page(b);
    j->first = t * Q8_PAGES > first ? t * Q8_PAGES : first;
    j->n_page = ((t + 1) * Q8_PAGES < end ? (t + 1) * Q8_PAGES : end) - j->first;
}

/* Sets what comes next, of a KV head that is at k and v in page 0: pages [from, end) of a page table, the last one
 * again where there are no more. */
static void job_next(struct q8_job *j, const uint8_t *k, const uint8_t *v, const uint32_t *page, uint32_t from,
                     uint32_t end)
{
    for (uint32_t i = 0; i < Q8_PAGES; i++) {
        size_t at = page[from + i < end ? from + i : end - 1] * j->page_bytes;
        j->next_k[i] = k + at;
        j->next_v[i] = v + at;
    }
}

/* The same, of the walk after this one. */
static void job_next_walk(struct q8_job *j, const struct attn_call *a, struct attn_item next)
{
    size_t at = next.part.kv_head * kv8_head_bytes(j->head_dim);
    job_next(j, (const uint8_t *)a->kv->k + at, (const uint8_t *)a->kv->v + at,
             a->map.page + next.b->seq * a->map.stride, attn_first_page(a, next.b), attn_end_page(next.b));
}

/* ---- by one member ---- */

static void walk_alone(const struct attn_call *a, struct attn_item now, struct attn_item next, void *room)
{
    const struct attn_block *b = now.b;
    struct attn_part part = now.part;
    const struct q8_kernels *k = a->k->q8;
    unsigned char *at = room;
    struct q8_job j;
    job_start(a, &j, b, part);
    cut_queries(&j, &at, j.n_query, j.dim);
    cut_tile(&j, &at, j.n_query);
    cut_result(&j, &at, j.n_query, 0, 1);
    job_clear(a, &j, b, part.head);
    uint32_t end = (uint32_t)ceil_div(attn_end_page(b), Q8_PAGES);
    for (uint32_t t = attn_first_page(a, b) / Q8_PAGES; t < end; t++) {
        job_tile(&j, a, b, t);
        if (t + 1 < end)
            job_next(&j, j.k, j.v, j.page, j.first + j.n_page, attn_end_page(b));
        else
            job_next_walk(&j, a, next);
        k->scores(&j);
        k->tops(&j);
        k->take(&j);
        k->weights(&j);
        k->values(&j);
    }
    k->finish(&j, result_at(a, b, part.head), a->y.stride, 0, j.n_query);
}

/* ---- by the crew ---- */

struct together {
    const struct attn_call *a;
    const struct attn_block *b;
    struct q8_job *job; /* [a->parts] */
    uint32_t tile, n_tile;
    unsigned char *tile_room; /* one a member */
};

/* Tiles of the chunk, a part at a time. */
static void together_tiles(void *arg, int member, int n_member)
{
    const struct together *g = arg;
    const struct q8_kernels *k = g->a->k->q8;
    uint32_t parts = g->a->parts;
    size_t first, last;
    cpu_share((size_t)g->n_tile * parts, member, n_member, &first, &last);
    for (size_t i = first; i < last; i++) {
        struct q8_job j = g->job[i % parts];
        size_t t = i / parts, n = j.n_query;
        unsigned char *room = g->tile_room + (size_t)member * tile_bytes(ATTN_MAX_QUERIES);
        cut_tile(&j, &room, n);
        j.top += t * n;
        j.u += t * n * KV_PAGE;
        j.sum += t * n * j.dim;
        job_tile(&j, g->a, g->b, g->tile + (uint32_t)t);
        job_next(&j, j.k, j.v, j.page, j.first + j.n_page, attn_end_page(g->b));
        k->scores(&j);
        k->tops(&j);
        k->sums(&j);
    }
}

/* Queries, counted over all parts. */
static void together_merge(void *arg, int member, int n_member)
{
    const struct together *g = arg;
    size_t rows = g->b->n_row, first, last, at = 0;
    cpu_share(rows * g->a->p->n_head, member, n_member, &first, &last);
    for (uint32_t i = 0; i < g->a->parts; i++) {
        const struct q8_job *j = &g->job[i];
        size_t q0 = first > at ? first - at : 0, q1 = last > at ? last - at : 0;
        q1 = q1 < j->n_query ? q1 : j->n_query;
        at += j->n_query;
        if (q0 >= q1)
            continue;
        g->a->k->q8->merge(j, g->n_tile, (uint32_t)q0, (uint32_t)q1);
        if ((g->tile + g->n_tile) * Q8_PAGES >= attn_end_page(g->b))
            g->a->k->q8->finish(j, result_at(g->a, g->b, attn_part(g->a, i).head), g->a->y.stride, (uint32_t)q0,
                                (uint32_t)q1);
    }
}

static void walk_together(struct op_ctx *c, const struct attn_call *a, const struct attn_block *b, void *room)
{
    const struct op_limits *l = &cpu_of(c)->limits;
    unsigned char *at = (unsigned char *)room + jobs_bytes(l);
    struct together g = {.a = a, .b = b, .job = room, .tile = attn_first_page(a, b) / Q8_PAGES};
    uint32_t end = (uint32_t)ceil_div(attn_end_page(b), Q8_PAGES);
    size_t dim = kv8_dim(a->kv->head_dim), n_tile = TOGETHER_TILES / b->n_row;
    n_tile = n_tile < end - g.tile ? n_tile : end - g.tile;
    for (uint32_t i = 0; i < a->parts; i++) {
        struct attn_part part = attn_part(a, i);
        struct q8_job *j = &g.job[i];
        job_start(a, j, b, part);
        cut_queries(j, &at, j->n_query, dim);
        cut_result(j, &at, j->n_query, dim, n_tile);
        job_clear(a, j, b, part.head);
    }
    g.tile_room = at;
    for (; g.tile < end; g.tile += g.n_tile) {
        g.n_tile = n_tile < end - g.tile ? (uint32_t)n_tile : end - g.tile;
        double merge_ns = 1.0 * g.n_tile * b->n_row * a->p->n_head * (10 + (double)dim * 0.06);
        crew_run(c->crew, together_tiles, &g);
        cpu_run(c, together_merge, &g, merge_ns);
    }
}

const struct attn_walker attn_walk_q8 = {
    .alone_bytes = alone_bytes, .together_bytes = together_bytes, .alone = walk_alone, .together = walk_together};
