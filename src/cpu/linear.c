/* y = x W^T: quantise the rows once, then give panels of outputs to the crew.
 *
 * Three decisions live here, none of which can reach a result, because a lane's chain over n_in is never cut:
 *   tiles     rows are cut into tiles of at most 6 (linear.h), the rows a kernel keeps in registers
 *   few rows  weights are read once and memory is the limit: each member streams one contiguous range of panels
 *   many rows are cut into chunks; a member encodes and multiplies its own chunks before it helps with others', so that
 *             rows stay in the caches of the member that made them. A chunk's pairs of panels are handed out one by
 *             one, and a pair stays in the first cache while the chunk passes by it
 * Jobs that differ in what they ask of the activations (plain, or how many bits) go in one pass each. */
#include "cpu/cpu_impl.h"
#include "cpu/linear.h"

#include "base/arith.h"

#include <string.h>

enum {
    MAX_JOB = 4,
    SMALL = 32768, /* activations every member may as well encode for itself: cheaper than a barrier */
    SLACK = 1024,  /* alignment of the arrays of a pass */
    PADDING = 648, /* bytes of a row at the ends of its blocks */
    FEW_ROWS = 16,
    STREAM_START = 6144,  /* bytes of weights asked for before the rows are made */
    CHUNK_ROWS = 258,     /* at most, of a chunk */
    CHUNK_ROWS_LEAST = 96 /* taking panels apart for fewer costs too much; but a launch may have fewer */
};

/* Scratch: for each member a small input's encoding, two unpacked pieces and the chains between pieces; then for each
 * the encoding of a row on its way into a tile; then the encoding all members share. An encoding takes 101 bytes a run
 * of 32 at most (two planes, a byte of spill, a scale, four sums of half runs), plain numbers 128. */
struct member_scratch {
    uint8_t encoded[SMALL * 4 + FEW_ROWS * PADDING + SLACK];
    uint8_t piece[2][PIECE * PANEL + PIECE / 16 * 128]; /* integers, and the scales of groups of 16 */
    float acc[CHUNK_ROWS * 2 * PANEL];
};

/* A row on its way into a tile: what is made of the input, and what of its encoding goes elsewhere. */
struct row_scratch {
    float *x;
    float *d;
    int32_t *sum16;
};

static size_t runs_of(const struct op_limits *l)
{
    return ((size_t)l->max_in + RUN - 1) / RUN;
}

static size_t row_scratch_bytes(const struct op_limits *l)
{
    return (linear_blocks(l->max_in + RUN) * 16 * (RUN * sizeof(float) + 12) + 63) & ~(size_t)63;
}

size_t linear_scratch_bytes(const struct op_limits *l, int n_thread)
{
    return (sizeof(struct member_scratch) + row_scratch_bytes(l)) * (size_t)n_thread +
           (runs_of(l) * 128 + PADDING) * l->max_rows + SLACK;
}

static struct member_scratch *member_scratch(const struct op_ctx *c, int member)
{
    return (struct member_scratch *)cpu_of(c)->linear_scratch + member;
}

static uint8_t *after_members(const struct op_ctx *c)
{
    return (uint8_t *)member_scratch(c, cpu_of(c)->n_thread);
}

static struct row_scratch row_scratch(const struct op_ctx *c, int member)
{
    const struct op_limits *l = &cpu_of(c)->limits;
    uint8_t *at = after_members(c) + (size_t)member * row_scratch_bytes(l);
    struct row_scratch r = {.x = (float *)(void *)at};
    size_t n = linear_blocks(l->max_in + RUN) * 16;
    r.d = r.x + n * RUN;
    r.sum16 = (int32_t *)(void *)(r.d + n);
    return r;
}

static uint8_t *shared_scratch(const struct op_ctx *c)
{
    return after_members(c) + (size_t)cpu_of(c)->n_thread * row_scratch_bytes(&cpu_of(c)->limits);
}

/* ---- the encoded rows ---- */

/* The arrays of linear.h's tiles for all rows. sum[j] belongs to job j; equal ones are shared. */
struct encoded {
    int8_t *lo, *hi;
    uint8_t *spill;
    float *d, *x;
    void *sum[MAX_JOB];
};

/* Where input rows come from. */
struct input {
    enum { AS_IT_IS, NORMED, GATED } made;
    struct rows x, up;
    const float *norm;
    float eps;
    enum act_fn fn;
};

struct pass {
    struct op_ctx *c;
    const struct linear_kernels *k;
    struct linear_job job[MAX_JOB];
    const struct pack_layout *layout[MAX_JOB];
    uint32_t n_job, n_in;
    enum act_type act;
    const struct input *in;
    uint32_t n_row;
    struct encoded shared;
    uint32_t n_chunk, chunk_rows;
    struct crew_queue *encode, *product; /* [n_chunk]: tiles, and pairs of panels */
};

/* Whether this pass takes pairs of panels apart before it multiplies. */
static bool unpacks(const struct pass *p)
{
    return p->k->unpack && p->act != ACT_F32 && p->n_row > 1;
}

static uint8_t *cut(uint8_t **p, size_t n)
{
    uint8_t *at = *p;
    *p += (n + 63) & ~(size_t)63;
    return at;
}

static bool same_sum(const struct pack_layout *a, const struct pack_layout *b)
{
    return a->group == b->group && a->zero == b->zero && pack_has_min(a) == pack_has_min(b);
}

static struct encoded lay_out(const struct pass *p, uint8_t *at)
{
    size_t n = p->n_row, n_in = p->n_in;
    struct encoded e = {0};
    if (p->act == ACT_F32) {
        e.x = (float *)(void *)at;
        return e;
    }
    e.lo = (int8_t *)cut(&at, n * n_in);
    e.hi = (int8_t *)cut(&at, n * n_in);
    e.spill = cut(&at, n * (n_in / RUN));
    e.d = (float *)(void *)cut(&at, n * linear_blocks(n_in) * 64);
    for (uint32_t j = 0; j < p->n_job; j++) {
        for (uint32_t i = 0; i < j && !e.sum[j]; i++)
            if (same_sum(p->layout[i], p->layout[j]))
                e.sum[j] = e.sum[i];
        if (!e.sum[j])
            e.sum[j] = cut(&at, n * linear_blocks(n_in) * 64 * (RUN / p->layout[j]->group));
    }
    return e;
}

/* Row r of the input: where it lies, or made in own->x. */
static const float *input_row(const struct pass *p, const struct row_scratch *own, uint32_t r)
{
    const struct input *in = p->in;
    const struct cpu_kernels *k = cpu_of(p->c)->k;
    const float *x = in->x.p + r * in->x.stride;
    if (in->made == AS_IT_IS)
        return x;
    if (in->made == NORMED)
        k->norm->rmsnorm(own->x, x, in->norm, p->n_in, in->eps);
    else
        k->elementwise->glu(own->x, x, in->up.p + r * in->up.stride, p->n_in, in->fn);
    return own->x;
}

static void encode_quant(const struct pass *p, const struct encoded *e, struct row_scratch own, uint32_t row,
                         uint32_t rows)
{
    size_t n_in = p->n_in, n_run = n_in / RUN, n_block = linear_blocks(n_in);
    uint8_t *spill = e->spill + row * n_run;
    memset(spill, 0, n_run);
    for (uint32_t r = 0; r < rows; r++) {
        size_t at = row * n_in + (size_t)r * RUN;
        struct linear_encoded to = {.lo = e->lo + at,
                                    .hi = e->hi + at,
                                    .stride = (size_t)rows * RUN,
                                    .d = own.d,
                                    .sum16 = own.sum16,
                                    .spill = spill};
        p->k->encode(input_row(p, &own, row + r), n_in, act_cap(p->act), &to);
        for (size_t b = 0; b < n_block; b++)
            memcpy(e->d + (row * n_block + b * rows + r) * 16, own.d + 16 * b, 64);
        for (uint32_t j = 0; j < p->n_job; j++) {
            const struct pack_layout *l = p->layout[j];
            size_t stride = (size_t)16 * (RUN / l->group);
            bool done = false;
            for (uint32_t i = 0; i < j; i++)
                done |= e->sum[i] == e->sum[j];
            if (!done)
                p->k->sums(l, own.d, own.sum16, n_block, (uint32_t *)e->sum[j] + (row * n_block + r) * stride,
                           rows * stride);
        }
    }
}

static void encode_plain(const struct pass *p, float *to, struct row_scratch own, uint32_t row, uint32_t rows)
{
    for (uint32_t r = 0; r < rows; r++) {
        const float *x = input_row(p, &own, row + r);
        for (size_t k = 0; k < p->n_in; k++)
            to[(size_t)row * p->n_in + k * rows + r] = x[k];
    }
}

static void encode_tile(const struct pass *p, const struct encoded *e, int member, uint32_t row)
{
    uint32_t rows = linear_tile_rows(p->n_row - row);
    if (p->act == ACT_F32)
        encode_plain(p, e->x, row_scratch(p->c, member), row, rows);
    else
        encode_quant(p, e, row_scratch(p->c, member), row, rows);
}

/* A tile of one row of plain numbers is the row. */
static bool is_encoded(const struct pass *p)
{
    return p->act == ACT_F32 && p->n_row == 1 && p->in->made == AS_IT_IS;
}

/* The n-th chunk a member turns to: its own first. */
static uint32_t chunk_of(const struct pass *p, int member, int n_member, uint32_t n)
{
    return ((uint32_t)((uint64_t)member * p->n_chunk / (uint64_t)n_member) + n) % p->n_chunk;
}

static uint32_t chunk_end(const struct pass *p, uint32_t chunk)
{
    uint64_t end = ((uint64_t)chunk + 1) * p->chunk_rows;
    return end < p->n_row ? (uint32_t)end : p->n_row;
}

static void encode_member(void *arg, int member, int n_member)
{
    struct pass *p = arg;
    for (uint32_t i = 0; i < p->n_chunk; i++) {
        uint32_t chunk = chunk_of(p, member, n_member, i), first_row = chunk * p->chunk_rows, end = chunk_end(p, chunk);
        size_t first, last;
        while (crew_take(&p->encode[chunk], ceil_div(end - first_row, TILE_MAX), 1, &first, &last))
            for (uint32_t row = first_row + (uint32_t)first * TILE_MAX, stop = row + TILE_MAX; row < stop && row < end;
                 row += linear_tile_rows(p->n_row - row))
                encode_tile(p, &p->shared, member, row);
    }
}

/* ---- products ---- */

/* A piece of work: n_panel panels of a job for n_row rows; row is the first of a tile. */
struct stretch {
    uint32_t job, panel, n_panel, row, n_row;
};

/* A tile's part of the arguments, from element k on, and the output's. */
static void point_at_tile(const struct pass *p, const struct encoded *e, struct stretch s, uint32_t row, uint32_t k,
                          struct linear_args *a)
{
    const struct rows *y = &p->job[s.job].y;
    size_t n_in = p->n_in, rows = a->rows = linear_tile_rows(p->n_row - row);
    a->y = y->p + row * y->stride + (size_t)s.panel * PANEL;
    if (p->act == ACT_F32) {
        a->x = e->x + row * n_in + k * rows;
        return;
    }
    a->lo = e->lo + row * n_in + k * rows;
    a->hi = e->hi + row * n_in + k * rows;
    a->spill = e->spill + row * (n_in / RUN) + k / RUN;
    size_t block = row * linear_blocks(n_in);
    a->d = e->d + block * 16;
    a->sum = (const uint32_t *)e->sum[s.job] + block * 16 * (RUN / p->layout[s.job]->group);
    a->run = k / RUN;
}

/* Packed panels, as many as there are, against each tile. */
static void product_packed(const struct pass *p, const struct encoded *e, struct stretch s, struct linear_args *a)
{
    for (uint32_t row = s.row; row < s.row + s.n_row; row += a->rows) {
        point_at_tile(p, e, s, row, 0, a);
        p->k->find(a->layout, a->rows, false)(a);
    }
}

/* One or two panels: a piece of them is taken apart, meets each tile, and so on. While the first tile is at work, the
 * panels after these are on their way from memory. */
static void product_unpacked(const struct pass *p, const struct encoded *e, struct member_scratch *own,
                             struct stretch s, struct linear_args *a)
{
    const struct pack_layout *l = a->layout;
    const uint8_t *panel = a->panel;
    uint32_t n_in = a->n_in, most = PIECE - PIECE % (uint32_t)l->block;
    uint32_t n_piece = (n_in + most - 1) / most, size = (n_in / l->block + n_piece - 1) / n_piece * l->block;
    size_t panel_bytes = a->panel_bytes, q_offset = a->q_offset;
    a->panel = own->piece[0];
    a->panel_bytes = sizeof own->piece[0];
    for (uint32_t k = 0; k < n_in; k += size) {
        a->n_in = n_in - k < size ? n_in - k : size;
        a->q_offset = linear_unpacked_scales(l, a->n_in);
        a->first = k == 0;
        a->last = k + a->n_in == n_in;
        for (uint32_t i = 0; i < s.n_panel; i++) {
            const uint8_t *from = panel + i * panel_bytes;
            p->k->unpack[pack_id(l)](from + (size_t)(k / l->block) * l->scale_bytes,
                                     from + q_offset + (size_t)(k / l->block) * l->q_bytes, a->n_in, own->piece[i]);
        }
        a->soon_bytes = s.n_panel * panel_bytes / n_piece;
        a->soon = panel + s.n_panel * panel_bytes + k / size * a->soon_bytes;
        a->acc = own->acc;
        for (uint32_t row = s.row, end = s.row + s.n_row; row < end; row += a->n_tile * a->rows) {
            point_at_tile(p, e, s, row, k, a);
            a->n_tile = a->rows == TILE_MAX ? (end - row) / TILE_MAX : 1;
            p->k->find(l, a->rows, true)(a);
            a->soon = NULL;
            a->acc += (size_t)s.n_panel * a->n_tile * a->rows * PANEL;
        }
    }
}

static void product(const struct pass *p, const struct encoded *e, int member, struct stretch s)
{
    const struct linear_job *job = &p->job[s.job];
    const struct weight *w = job->w;
    const struct pack_layout *l = p->layout[s.job];
    uint32_t left = w->n_out - s.panel * PANEL, size = s.n_panel * PANEL;
    struct linear_args a = {.layout = l,
                            .panel_bytes = pack_panel_bytes(l, w->n_in),
                            .q_offset = pack_q_offset(l, w->n_in),
                            .n_panel = s.n_panel,
                            .n_in = w->n_in,
                            .n_tile = 1,
                            .row_in = w->n_in,
                            .n_out = left < size ? left : size,
                            .bias = job->bias ? job->bias + (size_t)s.panel * PANEL : NULL,
                            .y_stride = job->y.stride,
                            .add = job->add};
    a.panel = (const uint8_t *)w->data + s.panel * a.panel_bytes;
    if (unpacks(p))
        product_unpacked(p, e, member_scratch(p->c, member), s, &a);
    else
        product_packed(p, e, s, &a);
}

static uint32_t panels(const struct pass *p, uint32_t j)
{
    return (p->job[j].w->n_out + PANEL - 1) / PANEL;
}

static uint64_t stream_panel_bytes(const struct pass *p, uint32_t j)
{
    return pack_panel_bytes(p->layout[j], p->n_in);
}

/* Few rows: the jobs' panels as one stretch of bytes, cut into n_member equal parts at panel boundaries. The member's
 * panels [first, last) of job j. */
static void stream_share(const struct pass *p, uint32_t j, int member, int n_member, uint64_t *first, uint64_t *last)
{
    uint64_t total = 0, at = 0, size = stream_panel_bytes(p, j), n = panels(p, j);
    for (uint32_t i = 0; i < p->n_job; i++) {
        at += i < j ? panels(p, i) * stream_panel_bytes(p, i) : 0;
        total += panels(p, i) * stream_panel_bytes(p, i);
    }
    uint64_t from = total * (uint64_t)member / (uint64_t)n_member;
    uint64_t to = total * ((uint64_t)member + 1) / (uint64_t)n_member;
    *first = from > at ? (from - at + size - 1) / size : 0;
    *last = to > at ? (to - at + size - 1) / size : 0;
    *first = *first < n ? *first : n;
    *last = *last < n ? *last : n;
}

static void stream_member(const struct pass *p, const struct encoded *e, int member, int n_member)
{
    for (uint32_t j = 0; j < p->n_job; j++) {
        uint64_t first, last, step = 2; /* several rows: a pair of panels meets them all */
        stream_share(p, j, member, n_member, &first, &last);
        if (p->n_row == 1 || p->act == ACT_F32)
            step = panels(p, j);
        for (; first < last; first += step)
            product(p, e, member,
                    (struct stretch){.job = j,
                                     .panel = (uint32_t)first,
                                     .n_panel = (uint32_t)(last - first < step ? last - first : step),
                                     .n_row = p->n_row});
    }
}

/* Have the beginning of a member's weights on its way while the rows are made. */
static void stream_start(const struct pass *p, int member, int n_member)
{
    uint64_t first = 0, last = 0;
    uint32_t j = 0;
    for (; j < p->n_job && first == last; j++)
        stream_share(p, j, member, n_member, &first, &last);
    if (first == last)
        return;
    uint64_t size = stream_panel_bytes(p, j - 1), n = (last - first) * size;
    const char *at = (const char *)p->job[j - 1].w->data + first * size;
    for (size_t i = 0; i < n && i < STREAM_START; i += 64)
        __builtin_prefetch(at + i);
}

/* Pair number `pair` of the jobs' panels and the rows of a chunk. */
static struct stretch pair_of(const struct pass *p, size_t pair, uint32_t chunk)
{
    struct stretch s = {.row = chunk * p->chunk_rows};
    while (pair >= (panels(p, s.job) + 1) / 2)
        pair -= (panels(p, s.job++) + 1) / 2;
    s.panel = (uint32_t)pair * 2;
    s.n_panel = panels(p, s.job) - s.panel < 2 ? 1 : 2;
    s.n_row = chunk_end(p, chunk) - s.row;
    return s;
}

static void queue_member(struct pass *p, int member, int n_member)
{
    size_t n_pair = 0, first, last;
    for (uint32_t j = 0; j < p->n_job; j++)
        n_pair += (panels(p, j) + 1) / 2;
    for (uint32_t i = 0; i < p->n_chunk; i++) {
        uint32_t chunk = chunk_of(p, member, n_member, i);
        while (crew_take(&p->product[chunk], n_pair, 1, &first, &last))
            product(p, &p->shared, member, pair_of(p, first, chunk));
    }
}

static void product_member(void *arg, int member, int n_member)
{
    struct pass *p = arg;
    if (p->n_row <= FEW_ROWS)
        stream_member(p, &p->shared, member, n_member);
    else
        queue_member(p, member, n_member);
}

/* Small inputs: no barrier between the two steps, each member has its own encoding. */
static void small_member(void *arg, int member, int n_member)
{
    struct pass *p = arg;
    struct encoded e = lay_out(p, member_scratch(p->c, member)->encoded);
    stream_start(p, member, n_member);
    if (is_encoded(p))
        e.x = p->in->x.p;
    else
        for (uint32_t row = 0; row < p->n_row; row += linear_tile_rows(p->n_row - row))
            encode_tile(p, &e, member, row);
    stream_member(p, &e, member, n_member);
}

/* Cut the rows: a chunk a member, unless that makes them too short or too long. Whole tiles. */
static void cut_chunks(struct pass *p, uint8_t **at)
{
    size_t most = p->n_row / CHUNK_ROWS_LEAST, n = ceil_div(p->n_row, CHUNK_ROWS);
    size_t fair = (size_t)cpu_of(p->c)->n_thread < most ? (size_t)cpu_of(p->c)->n_thread : most;
    p->chunk_rows = (uint32_t)ceil_div(ceil_div(p->n_row, n < fair ? fair : n), TILE_MAX) * TILE_MAX;
    p->n_chunk = (uint32_t)ceil_div(p->n_row, p->chunk_rows);
    size_t bytes = p->n_chunk * sizeof *p->encode;
    p->encode = (struct crew_queue *)(void *)cut(at, bytes);
    p->product = (struct crew_queue *)(void *)cut(at, bytes);
    memset(p->encode, 0, bytes);
    memset(p->product, 0, bytes);
}

static void run_pass(struct pass *p)
{
    double bytes = 0, ops = 0;
    for (uint32_t j = 0; j < p->n_job; j++) {
        bytes += (double)p->job[j].w->bytes;
        ops += 2.0 * p->n_row * p->job[j].w->n_out * p->n_in;
    }
    double cost = bytes / 20 + ops / 600;
    if ((size_t)p->n_row * p->n_in <= SMALL && p->n_row <= FEW_ROWS) {
        cpu_run(p->c, small_member, p, cost);
        return;
    }
    uint8_t *at = shared_scratch(p->c);
    cut_chunks(p, &at);
    p->shared = lay_out(p, at);
    if (is_encoded(p))
        p->shared.x = p->in->x.p;
    else
        cpu_run(p->c, encode_member, p, (double)p->n_row * p->n_in / 8);
    cpu_run(p->c, product_member, p, cost);
}

/* What a weight asks of the activations; plain numbers can only take plain ones, and quantised weights never do. */
static enum act_type act_of(const struct weight *w)
{
    if (pack_layout(w->fmt)->group == 0)
        return ACT_F32;
    return w->act == ACT_F32 ? ACT_MIXED : w->act;
}

static void products(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, const struct input *in)
{
    for (enum act_type act = ACT_F32; act <= ACT_Q16; act++) {
        struct pass p = {.c = c, .k = cpu_of(c)->k->linear, .act = act, .in = in, .n_row = in->x.n, .n_in = in->x.dim};
        for (uint32_t j = 0; j < n_job; j++)
            if (act_of(job[j].w) == act) {
                p.layout[p.n_job] = pack_layout(job[j].w->fmt);
                p.job[p.n_job++] = job[j];
            }
        if (p.n_job > 0 && p.n_row > 0)
            run_pass(&p);
    }
}

void cpu_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x)
{
    products(c, job, n_job, &(struct input){.made = AS_IT_IS, .x = x});
}

void cpu_norm_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x, const float *w,
                     float eps)
{
    products(c, job, n_job, &(struct input){.made = NORMED, .x = x, .norm = w, .eps = eps});
}

void cpu_glu_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows g, struct rows u,
                    enum act_fn fn)
{
    products(c, job, n_job, &(struct input){.made = GATED, .x = g, .up = u, .fn = fn});
}

const char *cpu_kernel_name(enum cpu_isa isa, const struct quant_format *f, enum act_type act)
{
    const struct linear_kernels *k = &linear_generic;
#if defined(__x86_64__)
    if (isa != CPU_GENERIC)
        k = isa == CPU_AVX2 ? &linear_avx2 : &linear_avx512;
#else
    (void)isa;
#endif
    return act == ACT_F32 || f->group == 0 ? k->kernel_plain : k->kernel_quant;
}
