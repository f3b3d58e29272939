/* y = x W^T: quantise the rows once, then give panels of outputs to the crew.
 *
 * Three decisions live here, none of which can reach a result, because a lane's chain over n_in is never cut:
 *   tiles     rows are cut into tiles of at most 6 (linear.h), the rows a kernel keeps in registers
 *   few rows  weights are read once and memory is the limit: each member streams one contiguous range of panels
 *   many rows pairs of panels times a stretch of rows are handed out from a queue, so that a pair stays in the first cache
 *             while the activations pass by it
 * Jobs that differ in what they ask of the activations (plain, 8 or 16 bits) go in one pass each. */
#include "cpu/cpu_impl.h"
#include "cpu/linear.h"

#include "base/arith.h"

#include <string.h>

enum {
    MAX_JOB = 4,
    SMALL = 8192,          /* activations every member may as well encode for itself: cheaper than a barrier */
    SLACK = 1024,          /* alignment of the arrays of a pass */
    ENCODE_STEP = 64,      /* runs encoded at a time */
    FEW_ROWS = 16,
    UNIT_OPS = 8 << 20     /* multiplications and additions a queue item is worth: about 10 us */
};

size_t linear_scratch_bytes(const struct op_limits *l, int n_thread)
{
    /* 16-bit form with four sums: 100 bytes a run of 32 at most; plain numbers: 128. */
    size_t run = ((size_t)l->max_in + RUN - 1) / RUN, each = (size_t)SMALL * 4 + SLACK;
    return run * l->max_rows * 128 + SLACK + each * (size_t)n_thread;
}

/* ---- the encoded rows ---- */

/* The arrays of linear.h's tiles for all rows. sum[j] belongs to job j; equal ones are shared. */
struct encoded {
    int8_t *hi, *lo;
    float *d, *x;
    void *sum[MAX_JOB];
};

struct pass {
    struct op_ctx *c;
    const struct linear_kernels *k;
    struct linear_job job[MAX_JOB];
    const struct pack_layout *layout[MAX_JOB];
    uint32_t n_job, n_in;
    enum act_type act;
    struct rows x;
    struct encoded shared;
    struct crew_queue encode, product;
    uint32_t chunk_rows; /* of a queue item */
};

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
    size_t n = p->x.n, n_in = p->n_in;
    struct encoded e = {0};
    if (p->act == ACT_F32) {
        e.x = (float *)(void *)at;
        return e;
    }
    e.hi = (int8_t *)cut(&at, n * n_in);
    e.lo = p->act == ACT_Q16 ? (int8_t *)cut(&at, n * n_in) : NULL;
    e.d = (float *)(void *)cut(&at, n * (n_in / RUN) * sizeof(float));
    for (uint32_t j = 0; j < p->n_job; j++) {
        for (uint32_t i = 0; i < j && !e.sum[j]; i++)
            if (same_sum(p->layout[i], p->layout[j]))
                e.sum[j] = e.sum[i];
        if (!e.sum[j])
            e.sum[j] = cut(&at, n * (n_in / p->layout[j]->group) * 4);
    }
    return e;
}

/* Runs [run, run + n) of row r of a tile of R rows, from d and sum16 into job j's sums. */
static void put_sums(const struct pack_layout *l, uint32_t *sum, uint32_t rows, const float *d, const int32_t *sum16,
                     uint32_t n)
{
    bool has_min = pack_has_min(l);
    int32_t zero = l->zero;
    for (uint32_t g = 0; g < n; g++)
        for (uint32_t h = 0; h < RUN / l->group; h++, sum += rows) {
            int32_t xsum = l->group == RUN ? sum16[2 * g] + sum16[2 * g + 1] : sum16[2 * g + h];
            float f = d[g] * (float)xsum;
            int32_t i = -zero * xsum;
            if (has_min)
                memcpy(sum, &f, 4);
            else
                memcpy(sum, &i, 4);
        }
}

static void encode_quant(const struct pass *p, const struct encoded *e, uint32_t row, uint32_t rows)
{
    size_t n_in = p->n_in, n_run = n_in / RUN;
    float d[ENCODE_STEP];
    int32_t sum16[2 * ENCODE_STEP];
    for (uint32_t r = 0; r < rows; r++) {
        const float *x = p->x.p + (row + r) * p->x.stride;
        for (size_t g = 0; g < n_run; g += ENCODE_STEP) {
            size_t n = n_run - g < ENCODE_STEP ? n_run - g : ENCODE_STEP;
            size_t at = row * n_in + (g * rows + r) * RUN;
            p->k->encode(x + g * RUN, n * RUN, e->hi + at, e->lo ? e->lo + at : NULL, (size_t)rows * RUN, d, sum16);
            for (size_t i = 0; i < n; i++)
                e->d[row * n_run + (g + i) * rows + r] = d[i];
            for (uint32_t j = 0; j < p->n_job; j++) {
                const struct pack_layout *l = p->layout[j];
                size_t groups = RUN / l->group;
                bool done = false;
                for (uint32_t i = 0; i < j; i++)
                    done |= e->sum[i] == e->sum[j];
                if (!done)
                    put_sums(l, (uint32_t *)e->sum[j] + row * n_run * groups + g * groups * rows + r, rows, d, sum16,
                             (uint32_t)n);
            }
        }
    }
}

static void encode_plain(const struct pass *p, float *to, uint32_t row, uint32_t rows)
{
    for (uint32_t r = 0; r < rows; r++) {
        const float *x = p->x.p + (row + r) * p->x.stride;
        for (size_t k = 0; k < p->n_in; k++)
            to[(size_t)row * p->n_in + k * rows + r] = x[k];
    }
}

static void encode_tile(const struct pass *p, const struct encoded *e, uint32_t row)
{
    uint32_t rows = linear_tile_rows(p->x.n - row);
    if (p->act == ACT_F32)
        encode_plain(p, e->x, row, rows);
    else
        encode_quant(p, e, row, rows);
}

static void encode_member(void *arg, int member, int n_member)
{
    (void)member, (void)n_member;
    struct pass *p = arg;
    size_t first, last, n = p->x.n;
    while (crew_take(&p->encode, ceil_div(n, TILE_MAX), 1, &first, &last))
        for (uint32_t row = (uint32_t)first * TILE_MAX, end = row + TILE_MAX; row < end && row < n;
             row += linear_tile_rows(p->x.n - row))
            encode_tile(p, &p->shared, row);
}

/* ---- products ---- */

/* Panels [panel, panel + n_panel) of job j for rows [row, row + n_row), tile by tile. Tiles start at row. */
static void product(const struct pass *p, const struct encoded *e, uint32_t j, uint32_t panel, uint32_t n_panel, uint32_t row,
                    uint32_t n_row)
{
    static const uint8_t slot[TILE_MAX + 1] = {0, 0, 1, 0, 2, 0, 3};
    const struct linear_job *job = &p->job[j];
    const struct weight *w = job->w;
    const struct pack_layout *l = p->layout[j];
    size_t n_in = p->n_in, n_run = n_in / RUN, sums = l->group ? n_in / l->group : 0;
    struct linear_args a = {.layout = l,
                            .panel_bytes = pack_panel_bytes(l, w->n_in),
                            .q_offset = pack_q_offset(l, w->n_in),
                            .n_panel = n_panel,
                            .n_in = w->n_in,
                            .bias = job->bias ? job->bias + (size_t)panel * PANEL : NULL,
                            .y_stride = job->y.stride,
                            .add = job->add};
    a.panel = (const uint8_t *)w->data + panel * a.panel_bytes;
    a.n_out = w->n_out - panel * PANEL < n_panel * PANEL ? w->n_out - panel * PANEL : n_panel * PANEL;
    for (uint32_t end = row + n_row; row < end; row += a.rows) {
        a.rows = linear_tile_rows(p->x.n - row);
        a.y = job->y.p + row * job->y.stride + (size_t)panel * PANEL;
        if (p->act == ACT_F32) {
            a.x = e->x + row * n_in;
        } else {
            a.hi = e->hi + row * n_in;
            a.lo = e->lo ? e->lo + row * n_in : NULL;
            a.d = e->d + row * n_run;
            a.sum = (const uint32_t *)e->sum[j] + row * sums;
        }
        p->k->product[pack_id(l)][p->act == ACT_Q16][slot[a.rows]](&a);
    }
}

static uint32_t panels(const struct pass *p, uint32_t j)
{
    return (p->job[j].w->n_out + PANEL - 1) / PANEL;
}

/* Few rows: the jobs' panels as one stretch of bytes, cut into n_member equal parts at panel boundaries. */
static void stream_member(const struct pass *p, const struct encoded *e, int member, int n_member)
{
    uint64_t total = 0, at = 0;
    for (uint32_t j = 0; j < p->n_job; j++)
        total += panels(p, j) * (uint64_t)pack_panel_bytes(p->layout[j], p->n_in);
    uint64_t from = total * (uint64_t)member / (uint64_t)n_member;
    uint64_t to = total * ((uint64_t)member + 1) / (uint64_t)n_member;
    for (uint32_t j = 0; j < p->n_job; j++) {
        uint64_t size = pack_panel_bytes(p->layout[j], p->n_in), n = panels(p, j);
        uint64_t first = from > at ? (from - at + size - 1) / size : 0, last = to > at ? (to - at + size - 1) / size : 0;
        first = first < n ? first : n;
        last = last < n ? last : n;
        uint64_t step = p->x.n <= TILE_MAX ? n : 2; /* one tile: a call; several: a pair of panels meets them all */
        for (; first < last; first += step)
            product(p, e, j, (uint32_t)first, (uint32_t)(last - first < step ? last - first : step), 0, p->x.n);
        at += size * n;
    }
}

/* Many rows: items are (pair of panels, stretch of rows), stretches of a pair in succession. */
static void queue_member(struct pass *p)
{
    size_t n_chunk = ceil_div(p->x.n, p->chunk_rows), n = 0, first, last;
    for (uint32_t j = 0; j < p->n_job; j++)
        n += (panels(p, j) + 1) / 2 * n_chunk;
    while (crew_take(&p->product, n, 1, &first, &last)) {
        size_t pair = first / n_chunk;
        uint32_t row = (uint32_t)(first % n_chunk) * p->chunk_rows, j = 0;
        while (pair >= (panels(p, j) + 1) / 2)
            pair -= (panels(p, j++) + 1) / 2;
        uint32_t panel = (uint32_t)pair * 2, n_panel = panels(p, j) - panel < 2 ? 1 : 2;
        product(p, &p->shared, j, panel, n_panel, row, p->x.n - row < p->chunk_rows ? p->x.n - row : p->chunk_rows);
    }
}

static void product_member(void *arg, int member, int n_member)
{
    struct pass *p = arg;
    if (p->x.n <= FEW_ROWS)
        stream_member(p, &p->shared, member, n_member);
    else
        queue_member(p);
}

/* Small inputs: no barrier between the two steps, each member has its own encoding. */
static void small_member(void *arg, int member, int n_member)
{
    struct pass *p = arg;
    uint8_t *own = (uint8_t *)cpu_of(p->c)->linear_scratch + (size_t)member * ((size_t)SMALL * 4 + SLACK);
    struct encoded e = lay_out(p, own);
    if (p->act == ACT_F32 && p->x.n == 1)
        e.x = p->x.p; /* a tile of one row is the row */
    else
        for (uint32_t row = 0; row < p->x.n; row += linear_tile_rows(p->x.n - row))
            encode_tile(p, &e, row);
    stream_member(p, &e, member, n_member);
}

static void run_pass(struct pass *p)
{
    struct cpu_priv *priv = cpu_of(p->c);
    double bytes = 0, ops = 0;
    for (uint32_t j = 0; j < p->n_job; j++) {
        bytes += (double)p->job[j].w->bytes;
        ops += 2.0 * p->x.n * p->job[j].w->n_out * p->n_in;
    }
    double cost = bytes / 20 + ops / 600;
    if ((size_t)p->x.n * p->n_in <= SMALL && p->x.n <= FEW_ROWS) {
        cpu_run(p->c, small_member, p, cost);
        return;
    }
    size_t rows = UNIT_OPS / (64 * (size_t)p->n_in) + 1, n_chunk = ceil_div(p->x.n, rows < 24 ? 24 : rows);
    p->chunk_rows = (uint32_t)ceil_div(ceil_div(p->x.n, n_chunk), TILE_MAX) * TILE_MAX;
    size_t each = (size_t)SMALL * 4 + SLACK;
    p->shared = lay_out(p, (uint8_t *)priv->linear_scratch + each * (size_t)priv->n_thread);
    if (p->act == ACT_F32 && p->x.n == 1)
        p->shared.x = p->x.p;
    else
        cpu_run(p->c, encode_member, p, (double)p->x.n * p->n_in / 8);
    cpu_run(p->c, product_member, p, cost);
}

/* What a weight asks of the activations; plain numbers can only take plain ones, and quantised weights never do. */
static enum act_type act_of(const struct weight *w)
{
    if (pack_layout(w->fmt)->group == 0)
        return ACT_F32;
    return w->act == ACT_Q16 ? ACT_Q16 : ACT_Q8;
}

void cpu_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x)
{
    for (enum act_type act = ACT_F32; act <= ACT_Q16; act++) {
        struct pass p = {.c = c, .k = cpu_of(c)->k->linear, .act = act, .x = x, .n_in = x.dim};
        for (uint32_t j = 0; j < n_job; j++)
            if (act_of(job[j].w) == act) {
                p.layout[p.n_job] = pack_layout(job[j].w->fmt);
                p.job[p.n_job++] = job[j];
            }
        if (p.n_job > 0 && x.n > 0)
            run_pass(&p);
    }
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
