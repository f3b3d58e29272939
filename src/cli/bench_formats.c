/* glim bench --formats: the product of each number format, without a model.
 *
 * Decode is measured as one row against weights that no cache holds: several matrices in turn, READ_BYTES together. A
 * figure is GB/s of weights as they lie in memory. Prefill is measured as 512 rows: GOP/s, a multiplication and an
 * addition counting as two. Weights are random blocks whose numbers are finite and of moderate size (kernels do the
 * same work whatever the bits); rows are bell-shaped with a few larger elements, since those may cost time. */
#include "cli/bench.h"

#include "base/crew.h"
#include "base/mem.h"
#include "run/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_OUT = 4096,
    N_IN = 4096,
    ROWS = 512,
    READ_BYTES = 144 << 20,
    POOL = 4096, /* different blocks of weights */
    RUNS_MAX = 15
};
static const double RUNS_SECONDS = 0.4; /* no further run after that */

struct product {
    struct op_ctx ctx;
    struct crew *crew;
    uint64_t random;
    struct rows x, y;      /* [ROWS, N_IN], [ROWS, N_OUT] */
    struct weight *matrix; /* [n_matrix] views of data */
    size_t n_matrix;
    uint8_t *file, *data; /* one matrix in file layout; all of them in the backend's */
};

struct figures {
    double gb_s, gop_s;
};

static uint32_t next_random(struct product *p)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->random >> 32);
}

/* ---- operands ---- */

/* Finite, not all tiny, none huge: sums stay far from the ends of f32. */
static bool is_moderate(const struct quant_format *f, const uint8_t *block)
{
    float v[QUANT_BLOCK_MAX], peak = 0;
    if (!f->finite(block))
        return false;
    f->decode(block, v, 1);
    for (unsigned i = 0; i < f->block_elems; i++)
        peak = fmaxf(peak, fabsf(v[i]));
    return peak > 0x1p-20f && peak < 0x1p20f;
}

static glim_status fill_file(struct product *p, const struct quant_format *f, size_t bytes, struct glim_err *e)
{
    size_t size = f->block_bytes;
    uint8_t *pool = mem_alloc(POOL * size);
    p->file = mem_alloc(bytes);
    if (!pool || !p->file) {
        mem_free(pool);
        return err_nomem(e, "bench --formats", bytes);
    }
    for (size_t i = 0; i < POOL; i++)
        do {
            for (size_t k = 0; k < size; k++)
                pool[i * size + k] = (uint8_t)next_random(p);
        } while (!is_moderate(f, pool + i * size));
    for (size_t at = 0; at < bytes; at += size)
        memcpy(p->file + at, pool + next_random(p) % POOL * size, size);
    mem_free(pool);
    return GLIM_OK;
}

/* Matrices in the backend's layout; refused when it cannot run the format. */
static glim_status lay_out(struct product *p, const struct quant_format *f, enum act_type act, struct glim_err *e)
{
    size_t bytes, row;
    TRY(p->ctx.be->weight_bytes(f, N_OUT, N_IN, &bytes, e));
    TRY(quant_row_bytes(f, N_IN, &row, e));
    TRY(fill_file(p, f, N_OUT * row, e));
    bytes = (bytes + 63) & ~(size_t)63;
    p->n_matrix = READ_BYTES / bytes + 1;
    p->matrix = mem_calloc(p->n_matrix, sizeof *p->matrix);
    p->data = mem_aligned(64, p->n_matrix * bytes);
    if (!p->matrix || !p->data)
        return err_nomem(e, "bench --formats", p->n_matrix * bytes);
    for (size_t i = 0; i < p->n_matrix; i++) {
        p->matrix[i] = (struct weight){
            .fmt = f, .n_out = N_OUT, .n_in = N_IN, .act = act, .data = p->data + i * bytes, .bytes = bytes};
        p->ctx.be->weight_pack(p->crew, &p->matrix[i], p->file, 0, N_OUT);
    }
    return GLIM_OK;
}

static void clear(struct product *p)
{
    mem_free(p->matrix);
    mem_free(p->file);
    mem_free(p->data);
    p->matrix = NULL;
    p->file = p->data = NULL;
}

static glim_status open_product(struct product *p, const struct levers *lv, int threads, struct glim_err *e)
{
    const struct backend *be;
    const struct op_limits limits = {.max_rows = ROWS, .max_in = N_IN, .max_head = 1, .max_head_dim = 16};
    size_t n_x = (size_t)ROWS * N_IN, n_y = (size_t)ROWS * N_OUT;
    TRY(model_backend(lv, &be, e));
    TRY(crew_create(&p->crew, threads, e));
    TRY(be->open(&p->ctx, &limits, p->crew, e));
    p->x = (struct rows){.p = mem_aligned(64, n_x * sizeof(float)), .n = ROWS, .dim = N_IN, .stride = N_IN};
    p->y = (struct rows){.p = mem_aligned(64, n_y * sizeof(float)), .n = ROWS, .dim = N_OUT, .stride = N_OUT};
    if (!p->x.p || !p->y.p)
        return err_nomem(e, "bench --formats", (n_x + n_y) * sizeof(float));
    for (size_t i = 0; i < n_x; i++) {
        float v = 0;
        for (int k = 0; k < 4; k++)
            v += (float)next_random(p) * 0x1p-32f - 0.5f;
        p->x.p[i] = next_random(p) % 200 == 0 ? v * 10 : v;
    }
    return GLIM_OK;
}

static void close_product(struct product *p)
{
    clear(p);
    mem_free(p->x.p);
    mem_free(p->y.p);
    if (p->ctx.be)
        p->ctx.be->close(&p->ctx);
    crew_free(p->crew);
}

/* ---- measuring ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Each of the first n matrices against the first n_row rows: the median time of that, after an unmeasured one. */
static glim_status time_products(struct product *p, uint32_t n_row, size_t n, double *median, struct glim_err *e)
{
    double took[RUNS_MAX], end = 0;
    struct rows x = p->x, y = p->y;
    int n_took = 0;
    x.n = y.n = n_row;
    for (int run = -1; run < RUNS_MAX && (run < 1 || cli_now() < end); run++) {
        double begin = cli_now();
        for (size_t i = 0; i < n; i++)
            p->ctx.be->linear(&p->ctx, &(struct linear_job){.y = y, .w = &p->matrix[i]}, 1, x);
        TRY(p->ctx.be->sync(&p->ctx, e));
        if (run >= 0)
            took[n_took++] = cli_now() - begin;
        else
            end = cli_now() + RUNS_SECONDS;
    }
    qsort(took, (size_t)n_took, sizeof *took, by_value);
    *median = took[n_took / 2];
    return GLIM_OK;
}

static glim_status measure(struct product *p, const struct quant_format *f, enum act_type act, struct figures *out,
                           struct glim_err *e)
{
    double one, many;
    TRY(lay_out(p, f, act, e));
    TRY(time_products(p, 1, p->n_matrix, &one, e));
    TRY(time_products(p, ROWS, 1, &many, e));
    out->gb_s = (double)p->n_matrix * (double)p->matrix[0].bytes / one * 1e-9;
    out->gop_s = 2.0 * ROWS * N_OUT * N_IN / many * 1e-9;
    return GLIM_OK;
}

/* ---- output ---- */

static void put_row(const struct product *p, const struct quant_format *f, enum act_type act, const struct figures *r,
                    bool json, struct str *s)
{
    const char *kernel = p->ctx.be->kernel_name(f, act);
    if (!json) {
        str_printf(s, "%-8s %-6s %8.1f %12.1f  %s\n", f->name, cli_act_name(act), r->gb_s, r->gop_s, kernel);
        return;
    }
    str_printf(s, "%s{\"format\":\"%s\",\"activations\":\"%s\",\"backend\":\"%s\",\"threads\":%d,", s->n ? ",\n " : "[",
               f->name, cli_act_name(act), p->ctx.be->name, crew_size(p->crew));
    str_printf(s,
               "\"n_out\":%d,\"n_in\":%d,\"weight_bytes\":%zu,\"rows_1_gb_s\":%.3f,\"rows_%d_gop_s\":%.3f,\"kernel\":",
               N_OUT, N_IN, p->matrix[0].bytes, r->gb_s, ROWS, r->gop_s);
    str_json(s, kernel, strlen(kernel));
    str_putc(s, '}');
}

glim_status bench_formats(struct cli *c, int threads, bool json)
{
    const struct levers *lv = cli_levers(c);
    struct product p = {.random = 1};
    struct str s = {0};
    glim_status st;
    static const enum act_type wanted[] = {
        [LEVER_ACT_MIXED] = ACT_MIXED, [LEVER_ACT_Q16] = ACT_Q16, [LEVER_ACT_Q8] = ACT_Q8};
    TRY_OUT(open_product(&p, lv, threads, &c->err));
    if (!json)
        str_printf(&s, "%s  %d threads  weights [%d,%d]\n%-8s %-6s %8s %12s  kernel\n", p.ctx.be->name,
                   crew_size(p.crew), N_OUT, N_IN, "weights", "act", "1: GB/s", "512: GOP/s");
    for (size_t i = 0; i < quant_n(); i++) {
        const struct quant_format *f = quant_at(i);
        enum act_type act = f->group ? wanted[lv->act] : ACT_F32;
        struct figures r;
        if (!f->is_weight)
            continue;
        TRY_OUT(measure(&p, f, act, &r, &c->err));
        put_row(&p, f, act, &r, json, &s);
        clear(&p);
        if (!json)
            TRY_OUT(cli_print(&s, &c->err));
    }
    if (json)
        str_puts(&s, "]\n");
    TRY_OUT(cli_print(&s, &c->err));
out:
    close_product(&p);
    str_fini(&s);
    return st;
}
