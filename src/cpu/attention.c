/* attention: cutting a batch into walks and sharing them out.
 *
 * The rows of a span are cut into blocks of positions that share a page. A walk is a block times a run of KV heads, one
 * job (attention.h) each. Usually a member takes walks from a queue, the longest contexts first, and does each alone.
 * That balances as long as no walk is a large part of the whole. Where one is (decoding a single long sequence), the
 * crew does its block together, one step of a chunk after another, cut by pages, queries and dims. Neither changes a
 * bit.
 *
 * Decoding is bound by memory. So a walk takes as many KV heads as its query limit allows, and goes through its pages
 * in small groups, all heads of a group before the next: reads then run along whole pages of the pool. The next piece
 * is fetched while one is in work, because pages may lie anywhere. */
#include "cpu/attention.h"
#include "cpu/cpu_impl.h"

#include "base/arith.h"

#include <math.h>
#include <string.h>

enum {
    WALK_QUERIES = 64,      /* most queries of a member's walk */
    WALK_SCORES = 512,      /* pages * queries of its chunk: scores, and K and V when queries are many, stay in cache */
    GROUP_PAGES = 4,        /* pages of a group: what the kernels' tiles take at once */
    GROUP_QUERIES = 0,      /* jobs with more queries are bound by arithmetic: their group is the chunk */
    STEP_PAGES = 32,        /* pages of a piece of the scores step when the crew works together */
    TOGETHER_TOKENS = 4096, /* tokens of a one-row chunk when the crew works together */
    TOGETHER_NS = 20000,    /* blocks below this are not worth three barriers a chunk */
};

struct block { /* rows [row, row + n_row) of the batch, positions pos … of slot seq */
    uint32_t row, n_row, pos, seq;
};

struct walk {
    const struct block *block;
    uint32_t head; /* the first of job 0 */
    uint32_t n_job, first_page, end_page, chunk;
    struct attn_job *job;
    float *room;
};

/* One op. */
struct attn_call {
    const struct attn_kernels *k;
    struct rows y, q;
    const struct kv_layer *kv;
    const struct batch *b;
    struct page_map map;
    const struct attn_params *p;
    uint32_t share; /* heads that read one KV head */
    uint32_t part;  /* heads of a job of a member's walk: share, or WALK_QUERIES where that is less */
    uint32_t n_kv;  /* KV heads of a member's walk; 1 when part < share */
    uint32_t walks; /* of a block */
    struct block *block;
    size_t n_block;
    unsigned char *alone; /* scratch of the members' walks */
    size_t alone_bytes;   /* of each */
    struct walk together;
    size_t together_scores; /* pages * queries that fit */
    struct crew_queue queue;
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

struct attn_layout {
    size_t alone_jobs, alone_bytes;          /* a member's walk: its jobs, then their rooms */
    size_t block_at, job_at, room_at, bytes; /* after the members' walks: blocks, the walk done together */
    size_t together_scores;
};

/* Rooms of n_job jobs together take at most job_floats of their sum and a line each. */
static size_t rooms_bytes(struct job_room sum, size_t n_job)
{
    return (job_floats(sum) + 16 * n_job) * sizeof(float);
}

static struct attn_layout attn_layout(const struct op_limits *l, int n_thread)
{
    struct attn_layout a = {0};
    a.alone_jobs = round_line(WALK_QUERIES * sizeof(struct attn_job));
    a.alone_bytes =
        a.alone_jobs + rooms_bytes((struct job_room){WALK_QUERIES, l->max_head_dim, WALK_SCORES}, WALK_QUERIES);
    a.together_scores = (size_t)l->max_head * (TOGETHER_TOKENS / KV_PAGE);
    struct job_room sum = {(size_t)l->max_head * ATTN_MAX_ROWS, l->max_head_dim, a.together_scores};
    a.room_at = a.alone_bytes * (size_t)n_thread;
    a.job_at = a.room_at + rooms_bytes(sum, l->max_head);
    a.block_at = a.job_at + l->max_head * sizeof(struct attn_job);
    a.bytes = a.block_at + l->max_rows * sizeof(struct block);
    return a;
}

size_t attn_scratch_bytes(const struct op_limits *l, int n_thread)
{
    return attn_layout(l, n_thread).bytes;
}

/* ---- a walk ---- */

static size_t type_bytes(const struct kv_layer *kv)
{
    return kv->type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Heads [head, head + n_head) of the block, which read KV head kv_head. */
static void job_start(const struct attn_call *a, struct attn_job *j, const struct block *b, uint32_t kv_head,
                      uint32_t head, uint32_t n_head)
{
    const struct kv_layer *kv = a->kv;
    size_t dim = kv->head_dim, at = kv_head * dim * KV_PAGE * type_bytes(kv);
    j->k = (const unsigned char *)kv->k + at;
    j->v = (const unsigned char *)kv->v + at;
    j->page = a->map.page + b->seq * a->map.stride;
    j->page_bytes = kv->page_bytes;
    j->type = kv->type;
    j->head_dim = kv->head_dim;
    j->n_row = b->n_row;
    j->n_head = n_head;
    j->n_query = b->n_row * n_head;
    j->pos = b->pos;
    j->window = a->p->window;
    j->scale = a->p->scale;
    j->softcap = a->p->softcap;
    for (size_t r = 0; r < b->n_row; r++)
        memcpy(j->q + r * n_head * dim, a->q.p + (b->row + r) * a->q.stride + head * dim, n_head * dim * sizeof(float));
    memset(j->o, 0, j->n_query * dim * sizeof(float));
    memset(j->l, 0, (size_t)j->n_query * KV_PAGE * sizeof(float));
    for (uint32_t i = 0; i < j->n_query; i++)
        j->m[i] = -INFINITY;
}

/* Page numbers [first, end) hold what the block's rows see. */
static uint32_t first_page(const struct attn_call *a, const struct block *b)
{
    uint32_t w = a->p->window;
    return w != 0 && b->pos >= w ? (b->pos - w + 1) / KV_PAGE : 0;
}

static uint32_t end_page(const struct block *b)
{
    return (b->pos + b->n_row - 1) / KV_PAGE + 1;
}

/* n_job jobs of n_head heads each, from `head` on; `scores` is how many pages * queries w->room has place for. */
static void walk_start(const struct attn_call *a, struct walk *w, const struct block *b, uint32_t head, uint32_t n_head,
                       size_t scores)
{
    uint32_t n_query = b->n_row * n_head;
    w->block = b;
    w->head = head;
    w->first_page = first_page(a, b);
    w->end_page = end_page(b);
    w->chunk = (uint32_t)(scores / ((size_t)n_query * w->n_job));
    struct job_room room = {n_query, a->kv->head_dim, (size_t)w->chunk * n_query};
    for (uint32_t i = 0; i < w->n_job; i++) {
        job_cut(&w->job[i], w->room + i * job_floats(room), room);
        job_start(a, &w->job[i], b, head / a->share + i, head + i * n_head, n_head);
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

static uint32_t group_pages(const struct walk *w)
{
    return w->job->n_query > GROUP_QUERIES ? w->job->n_page : GROUP_PAGES;
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Part i of n of what the jobs will read of pages [p0, p1): base is where job 0's KV head lies in page 0, run how many
 * bytes follow it in each page. */
static void fetch(const struct attn_job *j, const unsigned char *base, uint32_t p0, uint32_t p1, size_t run, size_t i,
                  size_t n)
{
    size_t all = p0 < p1 ? (p1 - p0) * run : 0, from = all * i / n, to = all * (i + 1) / n;
    while (from < to) {
        size_t page = from / run, at = from % run, stop = (page + 1) * run < to ? run : to - page * run;
        const unsigned char *p = base + j->page[j->first + p0 + page] * j->page_bytes;
        for (; at < stop; at += 64)
            (void)p;
        from = page * run + stop;
    }
}

/* Pages [p0, p1) of the chunk. */
static void walk_scores(const struct attn_call *a, const struct walk *w, uint32_t p0, uint32_t p1)
{
    uint32_t group = group_pages(w);
    size_t bytes = (size_t)a->kv->head_dim * KV_PAGE * type_bytes(a->kv);
    for (uint32_t p = p0, end; p < p1; p = end) {
        end = min_u32(p + group, p1);
        for (uint32_t i = 0; i < w->n_job; i++) {
            if (group == GROUP_PAGES)
                fetch(w->job, w->job->k, end, min_u32(end + group, p1), bytes * w->n_job, i, w->n_job);
            a->k->scores(&w->job[i], p, end);
        }
    }
}

/* Queries [q0, q1), counted over all jobs. */
static void walk_softmax(const struct attn_call *a, const struct walk *w, size_t q0, size_t q1)
{
    size_t n = w->job->n_query;
    for (size_t i = q0 / n; i * n < q1; i++)
        a->k->softmax(&w->job[i], (uint32_t)(q0 > i * n ? q0 - i * n : 0),
                      (uint32_t)(q1 < (i + 1) * n ? q1 - i * n : n));
}

/* Columns [c0, c1): sixteen dims each (the last of a head may be short), counted over all jobs. */
static void walk_values(const struct attn_call *a, const struct walk *w, size_t c0, size_t c1, bool last)
{
    uint32_t dim = a->kv->head_dim, group = group_pages(w), n_page = w->job->n_page;
    size_t n = ceil_div(dim, 16), row = dim * type_bytes(a->kv);
    for (uint32_t p = 0, end; p < n_page; p = end) {
        end = min_u32(p + group, n_page);
        for (size_t i = c0 / n; i * n < c1; i++) {
            const struct attn_job *j = &w->job[i];
            uint32_t d0 = (uint32_t)(c0 > i * n ? c0 - i * n : 0) * 16;
            uint32_t d1 = min_u32((uint32_t)(c1 < (i + 1) * n ? c1 - i * n : n) * 16, dim);
            if (group == GROUP_PAGES) {
                fetch(w->job, w->job->v, end, min_u32(end + group, n_page), KV_PAGE * row * w->n_job, i, w->n_job);
            }
            a->k->values(j, d0, d1, p, end);
            if (last && end == n_page)
                a->k->finish(j, a->y.p + w->block->row * a->y.stride + (w->head + i * j->n_head) * (size_t)dim,
                             a->y.stride, d0, d1);
        }
    }
}

/* ---- walks of one member each ---- */

static void walk_alone(const struct attn_call *a, size_t number, unsigned char *scratch, size_t jobs_bytes)
{
    const struct block *b = &a->block[a->n_block - 1 - number / a->walks]; /* later positions see more */
    uint32_t i = (uint32_t)(number % a->walks), n_part = (uint32_t)ceil_div(a->share, a->part);
    uint32_t head = i / n_part * a->n_kv * a->share + i % n_part * a->part, n_head = a->part;
    struct walk w = {.job = (struct attn_job *)(void *)scratch, .room = (float *)(void *)(scratch + jobs_bytes)};
    w.n_job = min_u32(a->n_kv, a->kv->n_kv_head - head / a->share);
    if (a->part < a->share)
        n_head = min_u32(a->part, a->share - head % a->share);
    walk_start(a, &w, b, head, n_head, WALK_SCORES);
    for (uint32_t p = w.first_page; p < w.end_page;) {
        p = walk_chunk(&w, p);
        walk_scores(a, &w, 0, w.job->n_page);
        walk_softmax(a, &w, 0, (size_t)w.job->n_query * w.n_job);
        walk_values(a, &w, 0, ceil_div(a->kv->head_dim, 16) * w.n_job, p == w.end_page);
    }
}

static void alone_member(void *arg, int member, int n_member)
{
    (void)n_member;
    struct attn_call *a = arg;
    size_t first, last, jobs = round_line(WALK_QUERIES * sizeof(struct attn_job));
    while (crew_take(&a->queue, a->n_block * a->walks, 1, &first, &last))
        walk_alone(a, first, a->alone + (size_t)member * a->alone_bytes, jobs);
}

/* ---- one block by the whole crew ---- */

static void together_scores(void *arg, int member, int n_member)
{
    (void)member, (void)n_member;
    struct attn_call *a = arg;
    size_t first, last;
    while (crew_take(&a->queue, a->together.job->n_page, STEP_PAGES, &first, &last))
        walk_scores(a, &a->together, (uint32_t)first, (uint32_t)last);
}

static void together_softmax(void *arg, int member, int n_member)
{
    const struct attn_call *a = arg;
    size_t first, last;
    cpu_share((size_t)a->together.job->n_query * a->together.n_job, member, n_member, &first, &last);
    if (first < last)
        walk_softmax(a, &a->together, first, last);
}

static void together_values(void *arg, int member, int n_member)
{
    const struct attn_call *a = arg;
    const struct walk *w = &a->together;
    size_t first, last;
    cpu_share(ceil_div(a->kv->head_dim, 16) * w->n_job, member, n_member, &first, &last);
    if (first < last)
        walk_values(a, w, first, last, w->job->first + w->job->n_page == w->end_page);
}

static void walk_together(struct op_ctx *c, struct attn_call *a, const struct block *b)
{
    struct walk *w = &a->together;
    w->n_job = a->kv->n_kv_head;
    walk_start(a, w, b, 0, a->share, a->together_scores);
    for (uint32_t p = w->first_page; p < w->end_page;) {
        p = walk_chunk(w, p);
        a->queue = (struct crew_queue){0};
        crew_run(c->crew, together_scores, a);
        crew_run(c->crew, together_softmax, a);
        crew_run(c->crew, together_values, a);
    }
}

/* ---- the op ---- */

/* Rough nanoseconds of a block on one thread. */
static double block_ns(const struct attn_call *a, const struct block *b)
{
    double page = end_page(b) - first_page(a, b), dim = a->kv->head_dim;
    double compute = b->n_row * a->p->n_head * (dim * 0.35 + 10);
    return page * (compute + (double)a->kv->page_bytes * 0.03);
}

/* Cut the batch into blocks, and blocks into walks; returns the cost of all. */
static double cut_blocks(struct attn_call *a)
{
    uint32_t most = min_u32(WALK_QUERIES / a->part, ATTN_MAX_ROWS), rows = 1;
    double ns = 0;
    a->n_block = 0;
    for (uint32_t i = 0; i < a->b->n_span; i++) {
        const struct span *s = &a->b->span[i];
        for (uint32_t r = 0, n; r < s->n; r += n) {
            n = min_u32(min_u32(KV_PAGE - (s->pos + r) % KV_PAGE, most), s->n - r);
            a->block[a->n_block] = (struct block){s->row + r, n, s->pos + r, s->seq};
            ns += block_ns(a, &a->block[a->n_block++]);
            rows = n > rows ? n : rows;
        }
    }
    a->n_kv = a->part < a->share ? 1 : min_u32(WALK_QUERIES / (rows * a->share), a->kv->n_kv_head);
    a->walks = (uint32_t)(ceil_div(a->kv->n_kv_head, a->n_kv) * ceil_div(a->share, a->part));
    return ns;
}

/* Do the blocks whose walks would keep one member busy while the others have nothing left, and drop them from the list.
 * Returns the cost of the rest. */
static double do_large_blocks(struct op_ctx *c, struct attn_call *a, double ns)
{
    double all = ns;
    size_t keep = 0;
    for (size_t i = 0; i < a->n_block; i++) {
        double block = block_ns(a, &a->block[i]);
        if (block > TOGETHER_NS && block / a->walks * 4 * cpu_of(c)->n_thread > all) {
            walk_together(c, a, &a->block[i]);
            ns -= block;
        } else {
            a->block[keep++] = a->block[i];
        }
    }
    a->n_block = keep;
    return ns;
}

void cpu_attention(struct op_ctx *c, struct rows y, struct rows q, const struct kv_layer *kv, const struct batch *b,
                   struct page_map map, const struct attn_params *p)
{
    struct cpu_priv *priv = cpu_of(c);
    struct attn_layout lay = attn_layout(&priv->limits, priv->n_thread);
    unsigned char *base = priv->attn_scratch;
    struct attn_call a = {.k = priv->k->attn, .y = y, .q = q, .kv = kv, .b = b, .map = map, .p = p};
    a.share = p->n_head / kv->n_kv_head;
    a.part = min_u32(a.share, WALK_QUERIES);
    a.block = (struct block *)(void *)(base + lay.block_at);
    a.alone = base;
    a.alone_bytes = lay.alone_bytes;
    a.together.job = (struct attn_job *)(void *)(base + lay.job_at);
    a.together.room = (float *)(void *)(base + lay.room_at);
    a.together_scores = lay.together_scores;
    double ns = cut_blocks(&a);
    if (priv->n_thread > 1)
        ns = do_large_blocks(c, &a, ns);
    a.queue = (struct crew_queue){0};
    if (a.n_block != 0)
        cpu_run(c, alone_member, &a, ns);
}
