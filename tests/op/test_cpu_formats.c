/* If this fails, a product in some number format gives other bits than the scalar reference for some shape, or a row of
 * strange numbers reaches its neighbours: an answer then depends on the machine, or on who else is being served.
 *
 * Every weight format x activations x instruction sets, up to 511 rows, odd numbers of outputs, and widths one block
 * around those that kernels cut at. test_cpu_ops_linear.c has the small shapes and the cutting of work; here are the
 * large ones, and inputs that look for trouble. op_ref computes each of 41 different rows in a launch of its own; any
 * launch is made of those rows and must repeat its bits. How to run one case: lab_cpu.h. */
#include "lab_cpu.h"

#include <float.h>

enum {
    DISTINCT = 41, /* a prime: a launch never repeats its rows in step with tiles */
    N_MAX = LAB_SMALL ? 33 : 131,
    ROWS_MAX = LAB_SMALL ? 65 : 511,
    WIDTH_MAX = 1536
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

#if LAB_SMALL
static const uint32_t rows_of[] = {1, 2, 3, 5, 7, 9, 17, 65};
static const uint32_t cols_of[] = {1, 15, 33};
#else
static const uint32_t rows_of[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 511};
static const uint32_t cols_of[] = {1, 15, 17, 33, 131};
#endif

static const struct op_limits limits = {.max_rows = ROWS_MAX, .max_in = WIDTH_MAX, .max_head = 1, .max_head_dim = 16};

/* ---- shapes ---- */

/* Widths: kernels take at most 640 elements of a row at once (fewer where blocks do not fit), so a multiple of that
 * and a block around it; for plain numbers, around powers of two. */
static size_t widths(const struct quant_format *f, uint32_t w[16])
{
    static const uint32_t plain[] = {1, 31, 33, 255, 257, 639, 641, 1025};
    static const uint32_t b32[] = {32, 64, 608, 640, 672, 1248, 1280, 1312};
    static const uint32_t b64[] = {64, 128, 576, 640, 704, 1216, 1280, 1344};
    static const uint32_t b256[] = {256, 512, 768, 1024, 1280, 1536};
    const uint32_t *from = f->block_elems == 1 ? plain : f->block_elems == 32 ? b32 : f->block_elems == 64 ? b64 : b256;
    size_t n = f->block_elems == 256 ? COUNT(b256) : 8;
    if (LAB_SMALL) /* one block, and the first that is more than a piece */
        return w[0] = from[0], w[1] = f->block_elems == 256 ? from[2] : from[4], 2;
    memcpy(w, from, n * sizeof *w);
    return n;
}

/* ---- rows that look for trouble ---- */

static void multiply_some(struct rng *g, float *x, uint32_t n, uint32_t one_in, float by)
{
    for (uint32_t k = 0; k < n; k++)
        if (rng_below(g, one_in) == 0)
            x[k] *= by;
}

/* Elements [4q, 4q + 4) of a row, as far as they exist. */
static void multiply_quad(float *x, uint32_t n, uint32_t q, float by)
{
    for (uint32_t k = 4 * q; k < 4 * q + 4 && k < n; k++)
        x[k] *= by;
}

static void fill(float *x, uint32_t n, float v)
{
    for (uint32_t k = 0; k < n; k++)
        x[k] = v;
}

/* Rows 0 … 8 are lab_activations', 9 … 28 these, the rest bell-shaped. */
static void trouble(struct rng *g, float *x, uint32_t n, int kind)
{
    uint32_t at = rng_below(g, n), run = at / 32 * 32, in_run = n - run < 32 ? n - run : 32;
    switch (kind) {
    case 0: /* nothing at all */
        fill(x, n, 0);
        break;
    case 1: /* one outlier */
        x[at] = 50;
        break;
    case 2:
        x[at] = -1000;
        break;
    case 3: /* the first and the last element */
        x[0] *= 300;
        x[n - 1] *= 300;
        break;
    case 4: /* a few, many, most */
        multiply_some(g, x, n, 100, 100);
        break;
    case 5:
        multiply_some(g, x, n, 20, 60);
        break;
    case 6:
        multiply_some(g, x, n, 3, 500);
        break;
    case 7: /* one four, two fours of a run, all of a run */
        multiply_quad(x, n, at / 4, 200);
        break;
    case 8:
        multiply_quad(x, n, run / 4, 200);
        multiply_quad(x, n, run / 4 + 7, 90);
        break;
    case 9:
        for (uint32_t k = 0; k < in_run; k++)
            x[run + k] *= 400;
        break;
    case 10: /* all of one size, not a power of two */
        fill(x, n, 0.3f);
        break;
    case 11: /* the sum of two elements is no number any more */
        fill(x, n, FLT_MAX);
        break;
    case 12: /* only one run has anything in it */
        for (uint32_t k = 0; k < n; k++)
            x[k] = k / 32 == run / 32 ? x[k] : 0;
        break;
    case 13: /* denormals, and one ordinary element among them */
        for (uint32_t k = 0; k < n; k++)
            x[k] *= 1e-40f;
        x[at] = 1;
        break;
    case 14: /* denormals alone */
        for (uint32_t k = 0; k < n; k++)
            x[k] *= 1e-42f;
        break;
    case 15: /* one element is no number, beside outliers and alone */
        multiply_some(g, x, n, 20, 100);
        x[at] = INFINITY;
        break;
    case 16:
        x[at] = -INFINITY;
        x[n - 1 - at] = NAN;
        break;
    case 17:
        multiply_some(g, x, n, 20, 100);
        x[at] = NAN;
        break;
    case 18:
        fill(x, n, NAN);
        break;
    case 19: /* products stay finite, the sum of a wide row's peaks does not */
        for (uint32_t k = 0; k < n; k++)
            x[k] *= 2e37f;
        break;
    default:
        break;
    }
}

static struct rows inputs(struct rng *g, uint32_t k)
{
    struct rows x = lab_activations(g, DISTINCT, k, 1);
    for (uint32_t r = 9; r < DISTINCT; r++)
        trouble(g, lab_row(x, r), k, (int)r - 9);
    return x;
}

/* ---- products and what they must give ---- */

struct product {
    const struct quant_format *f;
    enum act_type act;
    uint32_t n, k;
    uint8_t *file;   /* [n, k] in file layout */
    struct rows ref; /* [DISTINCT, n] */
    float bias[N_MAX];
};

static void product_init(struct product *p, const struct quant_format *f, enum act_type act, uint32_t n, struct rows x)
{
    struct rng g = {(uint64_t)f->type * 4096 + x.dim};
    struct op_ctx ref;
    size_t row;
    *p = (struct product){.f = f, .act = act, .n = n, .k = x.dim};
    p->file = lab_matrix(&g, f, n, x.dim, &row);
    p->ref = lab_rows(DISTINCT, n, 0);
    rng_fill(&g, p->bias, n, 1);
    assert_int_equal(op_ref.open(&ref, &limits, lab.one, NULL), GLIM_OK);
    struct weight w = lab_weight(&op_ref, f, act, p->file, n, x.dim);
    for (uint32_t r = 0; r < DISTINCT; r++)
        op_ref.linear(&ref, &(struct linear_job){.y = lab_part(p->ref, r, 1, n), .w = &w}, 1, lab_part(x, r, 1, x.dim));
    mem_free(w.data);
    op_ref.close(&ref);
}

static void product_free(struct product *p)
{
    mem_free(p->file);
    mem_free(p->ref.p);
}

/* A launch of m rows begins with row `first` of the inputs and goes round. */
struct launch {
    struct dut *d;
    struct rows x; /* [m, k] */
    uint32_t first, m;
};

static struct launch launch_of(struct dut *d, struct rows x, uint32_t first, uint32_t m)
{
    struct launch l = {.d = d, .x = lab_rows(m, x.dim, 3), .first = first, .m = m};
    for (uint32_t i = 0; i < m; i++)
        memcpy(lab_row(l.x, i), lab_row(x, (first + i) % DISTINCT), x.dim * sizeof(float));
    return l;
}

static float before(uint32_t r, uint32_t j) /* what y holds when it is added to */
{
    return (float)(int)((r * 7 + j * 3) % 11) - 5;
}

static struct linear_job job_of(const struct product *p, const struct weight *w, uint32_t m, unsigned variant)
{
    struct linear_job j = {.y = lab_rows(m, w->n_out, 5), .w = w, .bias = variant & 1 ? p->bias : NULL};
    j.add = variant & 2;
    for (uint32_t r = 0; j.add && r < m; r++)
        for (uint32_t i = 0; i < w->n_out; i++)
            lab_row(j.y, r)[i] = before(r, i);
    return j;
}

/* Compares and frees j->y. */
static void check_job(const struct launch *l, const struct product *p, const struct linear_job *j, const char *what)
{
    struct rows want = lab_rows(l->m, j->w->n_out, 0);
    for (uint32_t r = 0; r < l->m; r++)
        for (uint32_t i = 0; i < want.dim; i++) {
            float v = lab_row(p->ref, (l->first + r) % DISTINCT)[i];
            v = j->bias ? v + p->bias[i] : v;
            lab_row(want, r)[i] = j->add ? before(r, i) + v : v;
        }
    lab_equal(j->y, want, "%s x%d: %s %s act %d, %u rows from %u, n %u k %u bias %d add %d", l->d->ctx.be->name,
              l->d->n_thread, what, p->f->name, p->act, l->m, l->first, j->w->n_out, p->k, j->bias != NULL, j->add);
    mem_free(want.p);
    mem_free(j->y.p);
}

static void check(struct dut *d, const struct product *p, const struct weight *w, struct rows x, uint32_t first,
                  uint32_t m, unsigned variant)
{
    struct launch l = launch_of(d, x, first, m);
    struct linear_job j = job_of(p, w, m, variant);
    lab_ready(d)->linear(&d->ctx, &j, 1, l.x);
    lab_done(d);
    check_job(&l, p, &j, "linear");
    mem_free(l.x.p);
}

/* ---- the tests ---- */

/* The lab's devices with room for these shapes. */
static struct dut dut[LAB_DUT_MAX];

static bool is_generic(const struct dut *d)
{
    return d->ctx.be == cpu_backend(CPU_GENERIC);
}

/* Every number of rows with every number of outputs; crew, variant and first row change from launch to launch. Plain C
 * is slow and the same code for each shape: few of them. */
static void check_shapes(struct dut *three, const struct product *p, struct rows x, unsigned turn)
{
    for (size_t c = 0; c < COUNT(cols_of); c++) {
        struct weight w = lab_weight(three->ctx.be, p->f, p->act, p->file, cols_of[c], p->k);
        for (size_t m = 0; m < COUNT(rows_of); m++, turn++)
            if (!is_generic(three) || turn % (rows_of[m] > 64 ? 61 : 5) == 0)
                check(&three[turn % 3], p, &w, x, turn * 13 % DISTINCT, rows_of[m], turn / 3 % 4);
        mem_free(w.data);
    }
}

static void linear(void **state)
{
    const struct quant_format *f = *state;
    uint32_t k[16];
    enum act_type act[8];
    size_t n_k = widths(f, k), n_act = lab_acts(f, act);
    for (size_t i = 0; i < n_k * n_act; i++) {
        struct rng g = {i};
        struct rows x = inputs(&g, k[i / n_act]);
        struct product p;
        product_init(&p, f, act[i % n_act], N_MAX, x);
        for (int d = 0; d < lab.n_dut; d += 3)
            check_shapes(&dut[d], &p, x, (unsigned)i * 7);
        product_free(&p);
        mem_free(x.p);
    }
}

/* Each row of trouble alone, and each pair of neighbours: what a launch of one takes a different way for. */
static void linear_alone(void **state)
{
    (void)state;
    enum { K = 768, N = 17 };
    struct rng g = {99};
    struct rows x = inputs(&g, K);
    for (size_t i = 0; i < quant_n(); i++) {
        const struct quant_format *f = quant_at(i);
        enum act_type act[8];
        size_t n_act = f->is_weight ? lab_acts(f, act) : 0;
        for (size_t a = 0; a < n_act; a++) {
            struct product p;
            product_init(&p, f, act[a], N, x);
            for (int d = 0; d < lab.n_dut; d += 3) {
                struct weight w = lab_weight(dut[d].ctx.be, f, act[a], p.file, N, K);
                for (uint32_t r = 0; r < DISTINCT; r += LAB_SMALL ? 5 : 1) {
                    check(&dut[d], &p, &w, x, r, 1, 0);
                    check(&dut[d + 1], &p, &w, x, r, 2, 0);
                }
                mem_free(w.data);
            }
            product_free(&p);
        }
    }
    mem_free(x.p);
}

/* Four products of different formats and activations share an input; every pair of (format, activations) is the first
 * of four once. */
static void linear_together(void **state)
{
    (void)state;
    enum { K = 1280, N = 33, MAX = 128 };
    static const uint32_t rows[] = {1, 6, 17, 64};
    struct rng g = {7};
    struct rows x = inputs(&g, K);
    struct product *p = lab_alloc(MAX * sizeof *p);
    uint32_t n = 0;
    for (size_t i = 0; i < quant_n(); i++) {
        enum act_type act[8];
        size_t n_act = quant_at(i)->is_weight ? lab_acts(quant_at(i), act) : 0;
        for (size_t a = 0; a < n_act; a++)
            product_init(&p[n++], quant_at(i), act[a], N, x);
    }
    for (uint32_t i = 0; i < n; i += LAB_SMALL ? 3 : 1)
        for (int d = (int)(i % 3); d < lab.n_dut; d += 3) {
            const uint32_t member[4] = {i, (i + 1) % n, (i * 5 + 7) % n, (i + n / 2) % n};
            uint32_t m = rows[(i / 2) % COUNT(rows)];
            struct launch l = launch_of(&dut[d], x, i % DISTINCT, m);
            struct linear_job job[4];
            struct weight w[4];
            for (uint32_t j = 0; j < 4; j++) {
                const struct product *one = &p[member[j]];
                w[j] = lab_weight(dut[d].ctx.be, one->f, one->act, one->file, N - j % 2, K);
                job[j] = job_of(one, &w[j], m, i + j);
            }
            lab_ready(&dut[d])->linear(&dut[d].ctx, job, 4, l.x);
            lab_done(&dut[d]);
            for (uint32_t j = 0; j < 4; j++) {
                check_job(&l, &p[member[j]], &job[j], "one of four:");
                mem_free(w[j].data);
            }
            mem_free(l.x.p);
        }
    for (uint32_t i = 0; i < n; i++)
        product_free(&p[i]);
    mem_free(p);
    mem_free(x.p);
}

static int open_devices(void)
{
    for (int i = 0; i < lab.n_dut; i++) {
        dut[i] = lab.dut[i];
        if (dut[i].ctx.be->open(&dut[i].ctx, &limits, dut[i].crew, NULL) != GLIM_OK)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (lab_cpu_open(argc, argv) != 0 || open_devices() != 0)
        return 1;
    struct CMUnitTest tests[64];
    static char name[64][32];
    size_t n = 0;
    for (size_t i = 0; i < quant_n(); i++) {
        const struct quant_format *f = quant_at(i);
        if (!f->is_weight)
            continue;
        snprintf(name[n], sizeof name[n], "linear_%s", f->name);
        tests[n] = (struct CMUnitTest){name[n], linear, NULL, NULL, (void *)(uintptr_t)f};
        n++;
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(linear_alone);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(linear_together);
    int failed = _cmocka_run_group_tests("formats", tests, n, NULL, NULL);
    for (int i = 0; i < lab.n_dut; i++)
        dut[i].ctx.be->close(&dut[i].ctx);
    lab_close();
    return failed;
}
