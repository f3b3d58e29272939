/* attention: cutting a batch into jobs and sharing them out.
 *
 * The rows of a span are cut into blocks of positions that share a page, and a block times a KV head is a unit: a
 * member takes one from a queue and walks it alone (attention.h), the longest contexts first. That balances as long as
 * no unit is a large part of the whole. Where one is (decoding a single long sequence), its block is done by the whole
 * crew together, one step of a chunk after another, cut by pages, queries and dims. Neither changes a bit. */
#include "cpu/attention.h"
#include "cpu/cpu_impl.h"

#include "base/arith.h"

#include <math.h>
#include <string.h>

enum {
    UNIT_QUERIES = 64, /* most queries of a unit; fewer rows a block when many heads share a KV head */
    UNIT_SCORES = 512, /* pages * queries of a unit's chunk: where queries are many, its K, V and scores stay in the
                          first two cache levels */
    STEP_PAGES = 32,   /* pages of a piece of the scores step when the crew does a block together */
    TOGETHER_TOKENS = 4096, /* tokens of a block's chunk at one row a block, when the crew does it together */
    TOGETHER_NS = 20000,    /* blocks below this are not worth three barriers a chunk */
};

struct block { /* rows [row, row + n_row) of the batch, positions pos … of slot seq */
    uint32_t row, n_row, pos, seq;
};

/* Scratch of a job; the sizes are in floats. */
struct job_room {
    size_t query, dim, score; /* queries, dims of a head, pages * queries */
};

static size_t job_floats(struct job_room r)
{
    return r.query * (2 * r.dim + 1 + KV_PAGE) + r.score * (KV_PAGE + 2);
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

/* One op. */
struct attn_call {
    const struct attn_kernels *k;
    struct rows y, q;
    const struct kv_layer *kv;
    const struct batch *b;
    struct page_map map;
    const struct attn_params *p;
    uint32_t share; /* heads that read one KV head */
    uint32_t part;  /* heads of a unit: share, or UNIT_QUERIES when that is less */
    struct block *block;
    size_t n_block;
    float *unit_room; /* unit_floats for each member */
    size_t unit_floats;
    struct crew_queue queue;
    /* a block done together: one job a KV head */
    struct attn_job *job;
    float *together_room;
    size_t together_scores;    /* pages * queries that fit */
    const struct block *whole; /* the block in work */
    uint32_t step_dims;
    bool last; /* this chunk is the last */
};

/* ---- scratch ---- */

struct attn_layout {
    size_t unit_floats, together_floats, together_scores; /* floats are rounded up to whole cache lines */
    size_t block_at, job_at, together_at, unit_at, bytes;
};

static size_t round_floats(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

static struct attn_layout attn_layout(const struct op_limits *l, int n_thread)
{
    struct attn_layout a = {0};
    struct job_room unit = {UNIT_QUERIES, l->max_head_dim, UNIT_SCORES};
    a.unit_floats = round_floats(job_floats(unit));
    a.together_scores = (size_t)l->max_head * (TOGETHER_TOKENS / KV_PAGE);
    struct job_room all = {(size_t)l->max_head * ATTN_MAX_ROWS, l->max_head_dim, a.together_scores};
    /* cut into one room a KV head, each of whole lines */
    a.together_floats = round_floats(job_floats(all)) + 16 * (size_t)l->max_head;
    a.unit_at = 0;
    a.together_at = a.unit_at + a.unit_floats * (size_t)n_thread * sizeof(float);
    a.job_at = a.together_at + a.together_floats * sizeof(float);
    a.block_at = a.job_at + l->max_head * sizeof(struct attn_job);
    a.bytes = a.block_at + l->max_rows * sizeof(struct block);
    return a;
}

size_t attn_scratch_bytes(const struct op_limits *l, int n_thread)
{
    return attn_layout(l, n_thread).bytes;
}

/* ---- jobs ---- */

/* The page that holds the first position row 0 of the block sees. */
static uint32_t first_page(const struct attn_call *a, const struct block *b)
{
    uint32_t w = a->p->window;
    return w != 0 && b->pos >= w ? (b->pos - w + 1) / KV_PAGE : 0;
}

static uint32_t end_page(const struct block *b)
{
    return (b->pos + b->n_row - 1) / KV_PAGE + 1;
}

/* Heads [head, head + n_head) of the block, which read KV head kv_head; j's scratch is cut already. */
static void job_start(const struct attn_call *a, struct attn_job *j, const struct block *b, uint32_t kv_head,
                      uint32_t head, uint32_t n_head)
{
    const struct kv_layer *kv = a->kv;
    size_t dim = kv->head_dim;
    size_t at = kv_head * (kv->type == KV_F32 ? sizeof(float) : sizeof(uint16_t)) * dim * KV_PAGE;
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

static float *output(const struct attn_call *a, const struct block *b, uint32_t head)
{
    return a->y.p + b->row * a->y.stride + (size_t)head * a->kv->head_dim;
}

/* ---- units: one member each ---- */

static void run_unit(const struct attn_call *a, size_t unit, float *room)
{
    uint32_t n_part = (uint32_t)ceil_div(a->share, a->part), per_block = a->kv->n_kv_head * n_part;
    const struct block *b = &a->block[a->n_block - 1 - unit / per_block]; /* later positions see more */
    uint32_t i = (uint32_t)(unit % per_block), kv_head = i / n_part, skip = i % n_part * a->part;
    uint32_t n_head = a->share - skip < a->part ? a->share - skip : a->part, head = kv_head * a->share + skip;
    uint32_t n_query = b->n_row * n_head, chunk = UNIT_SCORES / n_query;
    struct attn_job j;
    job_cut(&j, room, (struct job_room){n_query, a->kv->head_dim, (size_t)chunk * n_query});
    job_start(a, &j, b, kv_head, head, n_head);
    for (uint32_t p = first_page(a, b), end = end_page(b); p < end; p += j.n_page) {
        j.first = p;
        j.n_page = end - p < chunk ? end - p : chunk;
        a->k->scores(&j, 0, j.n_page);
        a->k->softmax(&j, 0, j.n_query);
        a->k->values(&j, 0, j.head_dim);
    }
    a->k->finish(&j, output(a, b, head), a->y.stride, 0, j.head_dim);
}

static void unit_member(void *arg, int member, int n_member)
{
    (void)n_member;
    struct attn_call *a = arg;
    size_t n = a->n_block * a->kv->n_kv_head * ceil_div(a->share, a->part), first, last;
    while (crew_take(&a->queue, n, 1, &first, &last))
        run_unit(a, first, a->unit_room + (size_t)member * a->unit_floats);
}

/* ---- one block by the whole crew ---- */

static void together_scores(void *arg, int member, int n_member)
{
    (void)member, (void)n_member;
    struct attn_call *a = arg;
    size_t per_job = ceil_div(a->job->n_page, STEP_PAGES), first, last;
    while (crew_take(&a->queue, per_job * a->kv->n_kv_head, 1, &first, &last)) {
        uint32_t p = (uint32_t)(first % per_job) * STEP_PAGES, left = a->job->n_page - p;
        a->k->scores(&a->job[first / per_job], p, p + (left < STEP_PAGES ? left : STEP_PAGES));
    }
}

static void together_softmax(void *arg, int member, int n_member)
{
    (void)member, (void)n_member;
    struct attn_call *a = arg;
    uint32_t per_job = a->job->n_query;
    size_t first, last;
    while (crew_take(&a->queue, (size_t)per_job * a->kv->n_kv_head, 1, &first, &last)) {
        uint32_t q = (uint32_t)(first % per_job);
        a->k->softmax(&a->job[first / per_job], q, q + 1);
    }
}

static void together_values(void *arg, int member, int n_member)
{
    (void)member, (void)n_member;
    struct attn_call *a = arg;
    uint32_t dim = a->kv->head_dim, step = a->step_dims;
    size_t per_job = ceil_div(dim, step), first, last;
    while (crew_take(&a->queue, per_job * a->kv->n_kv_head, 1, &first, &last)) {
        uint32_t kv_head = (uint32_t)(first / per_job), d0 = (uint32_t)(first % per_job) * step;
        uint32_t d1 = dim - d0 < step ? dim : d0 + step;
        const struct attn_job *j = &a->job[kv_head];
        a->k->values(j, d0, d1);
        if (a->last)
            a->k->finish(j, output(a, a->whole, kv_head * a->share), a->y.stride, d0, d1);
    }
}

static void step(struct op_ctx *c, struct attn_call *a, crew_fn *fn)
{
    a->queue = (struct crew_queue){0};
    crew_run(c->crew, fn, a);
}

static void run_together(struct op_ctx *c, struct attn_call *a, const struct block *b)
{
    uint32_t n_kv = a->kv->n_kv_head, n_query = b->n_row * a->share;
    uint32_t chunk = (uint32_t)(a->together_scores / ((size_t)n_query * n_kv));
    struct job_room room = {n_query, a->kv->head_dim, (size_t)chunk * n_query};
    for (uint32_t h = 0; h < n_kv; h++) {
        job_cut(&a->job[h], a->together_room + h * round_floats(job_floats(room)), room);
        job_start(a, &a->job[h], b, h, h * a->share, a->share);
    }
    /* At least two pieces a member, and pieces as wide as the kernels' tiles where that allows. */
    a->step_dims = 64;
    while (a->step_dims > 16 && n_kv * ceil_div(a->kv->head_dim, a->step_dims) < 2 * (size_t)cpu_of(c)->n_thread)
        a->step_dims /= 2;
    a->whole = b;
    for (uint32_t p = first_page(a, b), end = end_page(b), n; p < end; p += n) {
        n = end - p < chunk ? end - p : chunk;
        for (uint32_t h = 0; h < n_kv; h++) {
            a->job[h].first = p;
            a->job[h].n_page = n;
        }
        a->last = p + n == end;
        step(c, a, together_scores);
        step(c, a, together_softmax);
        step(c, a, together_values);
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

/* Cut the batch into blocks; returns their cost. */
static double cut_blocks(struct attn_call *a)
{
    uint32_t most = UNIT_QUERIES / a->part < ATTN_MAX_ROWS ? UNIT_QUERIES / a->part : ATTN_MAX_ROWS;
    double ns = 0;
    a->n_block = 0;
    for (uint32_t i = 0; i < a->b->n_span; i++) {
        const struct span *s = &a->b->span[i];
        for (uint32_t r = 0, n; r < s->n; r += n) {
            uint32_t in_page = KV_PAGE - (s->pos + r) % KV_PAGE;
            n = in_page < most ? in_page : most;
            n = s->n - r < n ? s->n - r : n;
            a->block[a->n_block] = (struct block){s->row + r, n, s->pos + r, s->seq};
            ns += block_ns(a, &a->block[a->n_block++]);
        }
    }
    return ns;
}

/* Do the blocks whose units would keep one member busy while the others have nothing left, and drop them from the list.
 */
static double do_large_blocks(struct op_ctx *c, struct attn_call *a, double ns)
{
    double all = ns, n_unit = a->kv->n_kv_head * (double)ceil_div(a->share, a->part);
    size_t keep = 0;
    for (size_t i = 0; i < a->n_block; i++) {
        double block = block_ns(a, &a->block[i]);
        if (block > TOGETHER_NS && block / n_unit * 4 * cpu_of(c)->n_thread > all) {
            run_together(c, a, &a->block[i]);
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
    a.part = a.share < UNIT_QUERIES ? a.share : UNIT_QUERIES;
    a.block = (struct block *)(void *)(base + lay.block_at);
    a.job = (struct attn_job *)(void *)(base + lay.job_at);
    a.unit_room = (float *)(void *)(base + lay.unit_at);
    a.unit_floats = lay.unit_floats;
    a.together_room = (float *)(void *)(base + lay.together_at);
    a.together_scores = lay.together_scores;
    double ns = cut_blocks(&a);
    if (priv->n_thread > 1)
        ns = do_large_blocks(c, &a, ns);
    a.queue = (struct crew_queue){0};
    if (a.n_block != 0)
        cpu_run(c, unit_member, &a, ns);
}
