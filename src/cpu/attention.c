/* attention: cutting a batch into walks and sharing them out.
 *
 * The rows of a span are cut into blocks of positions that share a page. A walk is a block times some KV heads, one job
 * (attention.h) each. Usually a walk is one job, and a member takes walks from a queue, the longest contexts first, and
 * does each alone. That balances as long as no walk is a large part of the whole. Where one is (decoding a single long
 * sequence), the crew walks the block together with all its KV heads, one step of a chunk after another, cut by pages,
 * queries and dims. Neither changes a bit. */
#include "cpu/attention.h"
#include "cpu/cpu_impl.h"

#include "base/arith.h"

#include <math.h>
#include <string.h>

enum {
    ALONE_QUERIES = 64,     /* most queries of a member's walk */
    ALONE_SCORES = 384,     /* pages * queries of its chunk: with many queries, scores, K and V stay near */
    STEP_PAGES = 4,         /* a tile of the kernels: what the scores step is cut in when the crew walks together */
    TOGETHER_TOKENS = 8192, /* tokens of a one-row chunk when the crew walks together */
    TOGETHER_NS = 20000,    /* blocks below this are not worth three barriers a chunk */
};

struct block { /* rows [row, row + n_row) of the batch, positions pos … of slot seq */
    uint32_t row, n_row, pos, seq;
};

struct walk {
    const struct block *block;
    uint32_t head; /* first of job 0; the jobs have equally many */
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
    uint32_t part;  /* heads of a member's walk: share, or ALONE_QUERIES where that is less */
    uint32_t walks; /* of a block */
    struct block *block;
    size_t n_block;
    float *alone; /* scratch of the members' walks */
    size_t alone_floats;
    struct walk together;
    size_t together_scores; /* pages * queries that fit */
    struct crew_queue queue;
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

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

struct attn_layout { /* members' rooms; the room and the jobs of the walk done together; the blocks */
    size_t alone_floats, together_scores;
    size_t room_at, job_at, block_at, bytes;
};

static struct attn_layout attn_layout(const struct op_limits *l, int n_thread)
{
    struct attn_layout a;
    a.alone_floats = job_floats((struct job_room){ALONE_QUERIES, l->max_head_dim, ALONE_SCORES});
    a.together_scores = (size_t)l->max_head * (TOGETHER_TOKENS / KV_PAGE);
    struct job_room all = {(size_t)l->max_head * ATTN_MAX_ROWS, l->max_head_dim, a.together_scores};
    a.room_at = a.alone_floats * (size_t)n_thread * sizeof(float);
    /* Cut into a room a job: each rounds up to a line. */
    a.job_at = a.room_at + (job_floats(all) + 16 * (size_t)l->max_head) * sizeof(float);
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

/* w->n_job jobs of n_head heads each, from `head` on; `scores` is how many pages * queries w->room has place for. */
static void walk_start(const struct attn_call *a, struct walk *w, const struct block *b, uint32_t head, uint32_t n_head,
                       size_t scores)
{
    uint32_t n_query = b->n_row * n_head;
    w->block = b;
    w->head = head;
    w->first_page = first_page(a, b);
    w->end_page = end_page(b);
    /* As many equal chunks as it takes. */
    size_t most = scores / ((size_t)n_query * w->n_job), n_page = w->end_page - w->first_page;
    w->chunk = (uint32_t)ceil_div(n_page, ceil_div(n_page, most));
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

/* ---- walks of one member each ---- */

static void walk_alone(const struct attn_call *a, size_t number, float *room)
{
    const struct block *b = &a->block[a->n_block - 1 - number / a->walks]; /* later positions see more */
    uint32_t n_part = (uint32_t)ceil_div(a->share, a->part), i = (uint32_t)(number % a->walks);
    uint32_t skip = i % n_part * a->part, n_head = a->share - skip < a->part ? a->share - skip : a->part;
    struct attn_job job;
    struct walk w = {.job = &job, .n_job = 1, .room = room};
    walk_start(a, &w, b, i / n_part * a->share + skip, n_head, ALONE_SCORES);
    for (uint32_t p = w.first_page; p < w.end_page;) {
        p = walk_chunk(&w, p);
        walk_scores(a, &w, 0, job.n_page);
        walk_softmax(a, &w, 0, job.n_query);
        walk_values(a, &w, 0, columns(a));
    }
}

static void alone_member(void *arg, int member, int n_member)
{
    (void)n_member;
    struct attn_call *a = arg;
    size_t first, last;
    while (crew_take(&a->queue, a->n_block * a->walks, 1, &first, &last))
        walk_alone(a, first, a->alone + (size_t)member * a->alone_floats);
}

/* ---- one block by the whole crew ---- */

static void together_scores(void *arg, int member, int n_member)
{
    const struct attn_call *a = arg;
    size_t n = a->together.job->n_page, first, last;
    cpu_share(ceil_div(n, STEP_PAGES), member, n_member, &first, &last);
    walk_scores(a, &a->together, first * STEP_PAGES, last * STEP_PAGES < n ? last * STEP_PAGES : n);
}

static void together_softmax(void *arg, int member, int n_member)
{
    const struct attn_call *a = arg;
    size_t first, last;
    cpu_share((size_t)a->together.job->n_query * a->together.n_job, member, n_member, &first, &last);
    walk_softmax(a, &a->together, first, last);
}

static void together_values(void *arg, int member, int n_member)
{
    const struct attn_call *a = arg;
    size_t first, last;
    cpu_share(columns(a) * a->together.n_job, member, n_member, &first, &last);
    walk_values(a, &a->together, first, last);
}

static void walk_together(struct op_ctx *c, struct attn_call *a, const struct block *b)
{
    struct walk *w = &a->together;
    w->n_job = a->kv->n_kv_head;
    walk_start(a, w, b, 0, a->share, a->together_scores);
    for (uint32_t p = w->first_page; p < w->end_page;) {
        p = walk_chunk(w, p);
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
    uint32_t most = min_u32(ALONE_QUERIES / a->part, ATTN_MAX_ROWS);
    double ns = 0;
    a->n_block = 0;
    for (uint32_t i = 0; i < a->b->n_span; i++) {
        const struct span *s = &a->b->span[i];
        for (uint32_t r = 0, n; r < s->n; r += n) {
            n = min_u32(min_u32(KV_PAGE - (s->pos + r) % KV_PAGE, most), s->n - r);
            a->block[a->n_block] = (struct block){s->row + r, n, s->pos + r, s->seq};
            ns += block_ns(a, &a->block[a->n_block++]);
        }
    }
    a->walks = a->kv->n_kv_head * (uint32_t)ceil_div(a->share, a->part);
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
    a.part = min_u32(a.share, ALONE_QUERIES);
    a.block = (struct block *)(void *)(base + lay.block_at);
    a.alone = (float *)(void *)base;
    a.alone_floats = lay.alone_floats;
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
