/* If this fails, a product or a lookup on the CPU depends on the instruction set, the number of threads, or how many
 * rows share a launch: the same prompt answers differently on another machine or in other company.
 *
 * Every weight format x activations x shapes; op_ref computes 129 rows by 100 columns once, and each device must give
 * the same bits for any part of it. How to run one case: lab_cpu.h. */
#include "lab_cpu.h"

enum { M_MAX = LAB_SMALL ? 17 : 129, N_MAX = LAB_SMALL ? 70 : 100 };

#if LAB_SMALL
static const uint32_t rows_of[] = {1, 2, 5, 17};
static const uint32_t cols_of[] = {1, 17};
#else
static const uint32_t rows_of[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 129};
static const uint32_t cols_of[] = {1, 15, 16, 17, 48};
#endif
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Widths of x: one block, and multiples of it around the sizes kernels unroll by. */
static size_t widths(const struct quant_format *f, uint32_t w[8])
{
    static const uint32_t plain[] = {1, 7, 16, 31, 72, 112, 576};
    static const uint32_t b32[] = {32, 64, 96, 224, 256, 288, 576};
    static const uint32_t b64[] = {64, 128, 192, 576};
    static const uint32_t b256[] = {256, 512, 768};
    const uint32_t *from = f->block_elems == 1 ? plain : f->block_elems == 32 ? b32 : f->block_elems == 64 ? b64 : b256;
    size_t n = f->block_elems == 1    ? COUNT(plain)
               : f->block_elems == 32 ? COUNT(b32)
               : f->block_elems == 64 ? COUNT(b64)
                                      : COUNT(b256);
    if (LAB_SMALL) /* the first and the last */
        return w[0] = from[0], w[1] = from[n - 1], 2;
    memcpy(w, from, n * sizeof *w);
    return n;
}

/* One weight matrix, its input, and what op_ref makes of them. */
struct product {
    const struct quant_format *f;
    enum act_type act;
    uint32_t k;
    uint8_t *file;   /* [N_MAX, k] in file layout */
    struct rows x;   /* [M_MAX, k] */
    struct rows ref; /* [M_MAX, N_MAX] */
    struct rows y0;  /* [M_MAX, N_MAX]: what y holds before an add */
    float bias[N_MAX];
};

/* The input is drawn from x_seed alone. */
static void product_init(struct product *p, const struct quant_format *f, enum act_type act, uint32_t k,
                         uint64_t x_seed)
{
    struct rng g = {(uint64_t)f->type * 1000 + k}, gx = {x_seed};
    size_t row;
    *p = (struct product){.f = f, .act = act, .k = k};
    p->file = lab_matrix(&g, f, N_MAX, k, &row);
    p->x = lab_activations(&gx, M_MAX, k, 3);
    p->y0 = lab_rows_random(&g, M_MAX, N_MAX, 0, 1);
    p->ref = lab_rows(M_MAX, N_MAX, 0);
    rng_fill(&g, p->bias, N_MAX, 1);
    struct weight w = lab_weight(&op_ref, f, act, p->file, N_MAX, k);
    op_ref.linear(&lab.ref, &(struct linear_job){.y = p->ref, .w = &w}, 1, p->x);
    mem_free(w.data);
}

static void product_free(struct product *p)
{
    mem_free(p->file);
    mem_free(p->x.p);
    mem_free(p->y0.p);
    mem_free(p->ref.p);
}

/* What y must be, given the bare product: + bias, then y0 + that. */
static struct rows expected(const struct product *p, struct rows ref, struct rows y0, bool bias, bool add)
{
    struct rows e = lab_rows(ref.n, ref.dim, 0);
    for (uint32_t r = 0; r < e.n; r++)
        for (uint32_t j = 0; j < e.dim; j++) {
            float v = lab_row(ref, r)[j];
            if (bias)
                v = v + p->bias[j];
            lab_row(e, r)[j] = add ? lab_row(y0, r)[j] + v : v;
        }
    return e;
}

/* Rows [first, first + m) and all of w's columns on one device. */
static void check(struct dut *d, const struct product *p, const struct weight *w, uint32_t first, uint32_t m,
                  unsigned variant)
{
    bool bias = variant & 1, add = variant & 2;
    struct rows ref = lab_part(p->ref, first, m, w->n_out), y0 = lab_part(p->y0, first, m, w->n_out);
    struct rows y = lab_rows(m, w->n_out, 5), want = expected(p, ref, y0, bias, add);
    if (add)
        lab_rows_copy(y, y0);
    struct linear_job job = {.y = y, .w = w, .bias = bias ? p->bias : NULL, .add = add};
    lab_ready(d)->linear(&d->ctx, &job, 1, lab_part(p->x, first, m, p->k));
    lab_done(d);
    lab_equal(y, want, "%s x%d: linear %s act %d rows %u+%u n %u k %u bias %d add %d", d->ctx.be->name, d->n_thread,
              p->f->name, p->act, first, m, w->n_out, p->k, bias, add);
    mem_free(y.p);
    mem_free(want.p);
}

/* The same rows in another order in one launch. */
static void check_permuted(struct dut *d, const struct product *p, const struct weight *w, uint32_t m)
{
    struct rows x = lab_rows(m, p->k, 0), y = lab_rows(m, w->n_out, 0), want = lab_rows(m, w->n_out, 0);
    for (uint32_t i = 0; i < m; i++) {
        uint32_t r = (i * 5 + 3) % m; /* m is not a multiple of 5 */
        memcpy(lab_row(x, i), lab_row(p->x, r), p->k * sizeof(float));
        memcpy(lab_row(want, i), lab_row(p->ref, r), w->n_out * sizeof(float));
    }
    lab_ready(d)->linear(&d->ctx, &(struct linear_job){.y = y, .w = w}, 1, x);
    lab_done(d);
    lab_equal(y, want, "%s x%d: linear %s act %d permuted rows, n %u k %u", d->ctx.be->name, d->n_thread, p->f->name,
              p->act, w->n_out, p->k);
    mem_free(x.p);
    mem_free(y.p);
    mem_free(want.p);
}

/* Shapes on one instruction set: devices [first, first + 3) differ in threads only. Every shape runs on one crew, in
 * turn. */
static void check_shapes(const struct product *p, int first)
{
    struct dut *d = &lab.dut[first];
    struct weight w = lab_weight(d->ctx.be, p->f, p->act, p->file, N_MAX, p->k);
    unsigned turn = 0;
    for (size_t i = 0; i < COUNT(rows_of); i++, turn++)
        check(&d[turn % 3], p, &w, 0, rows_of[i], turn % 4);
    for (int t = 0; t < 3; t++) {
        check(&d[t], p, &w, 9, 8, 0); /* a launch's second half */
        check(&d[t], p, &w, 16, 1, 0);
        check_permuted(&d[t], p, &w, 17);
    }
    mem_free(w.data);
    for (size_t i = 0; i < COUNT(cols_of); i++) {
        w = lab_weight(d->ctx.be, p->f, p->act, p->file, cols_of[i], p->k);
        for (uint32_t m = 1; m <= 17; m = m * 4 + 1, turn++) /* 1, 5 */
            check(&d[turn % 3], p, &w, 0, m, turn % 4);
        check(&d[turn++ % 3], p, &w, 0, 17, 0);
        mem_free(w.data);
    }
}

static void linear(void **state)
{
    const struct quant_format *f = *state;
    uint32_t k[8];
    enum act_type act[LAB_ACTS];
    size_t n_k = widths(f, k), n_act = lab_acts(f, act);
    for (size_t i = 0; i < n_k * n_act; i++) {
        struct product p;
        product_init(&p, f, act[i % n_act], k[i / n_act], i);
        for (int d = 0; d < lab.n_dut; d += 3)
            check_shapes(&p, d);
        product_free(&p);
    }
}

/* Lookup in a table that is laid out for products. */
static void embed(void **state)
{
    const struct quant_format *f = *state;
    static const int32_t token[] = {0, 15, 16, 17, 63, 64, 69, 1, 17, 40};
    enum { N = COUNT(token), ROWS = 70 };
    uint32_t widths_of[8];
    enum act_type act[LAB_ACTS];
    size_t n_k = widths(f, widths_of), n_act = lab_acts(f, act);
    for (size_t i = 0; i < n_k * n_act; i++) {
        uint32_t k = widths_of[i / n_act];
        struct rng g = {(uint64_t)f->type + 77 * k};
        size_t row;
        uint8_t *file = lab_matrix(&g, f, ROWS, k, &row);
        struct rows want = lab_rows(N, k, 0);
        struct weight ref = lab_weight(&op_ref, f, act[i % n_act], file, ROWS, k);
        float scale = i % 3 ? 23.5f : 1.0f;
        op_ref.embed(&lab.ref, want, &ref, token, scale);
        for (int d = 0; d < lab.n_dut; d++) {
            struct dut *u = &lab.dut[d];
            struct weight w = lab_weight(u->ctx.be, f, act[i % n_act], file, ROWS, k);
            struct rows y = lab_rows(N, k, 3);
            lab_ready(u)->embed(&u->ctx, y, &w, token, scale);
            lab_done(u);
            lab_equal(y, want, "%s x%d: embed %s k %u", u->ctx.be->name, u->n_thread, f->name, k);
            mem_free(w.data);
            mem_free(y.p);
        }
        mem_free(ref.data);
        mem_free(want.p);
        mem_free(file);
    }
}

/* Products of different formats, widths and activations that share one input: each as if it were alone. */
static const struct {
    enum quant_type t;
    enum act_type act;
    uint32_t n;
} mixes[3][4] = {{{QT_Q4_K, ACT_Q8, 70}, {QT_Q6_K, ACT_Q8, 17}, {QT_Q4_K, ACT_Q8, 1}, {QT_Q8_0, ACT_Q16, 33}},
                 {{QT_F32, ACT_F32, 5}, {QT_BF16, ACT_F32, 48}, {QT_F16, ACT_F32, 64}, {QT_F32, ACT_F32, 17}},
                 {{QT_F16, ACT_F32, 20}, {QT_Q4_0, ACT_Q8, 20}, {QT_NVFP4, ACT_Q16, 16}, {QT_Q2_K, ACT_Q8, 15}}};

static void check_together(struct dut *d, int mix, const struct product p[4], uint32_t n_job, uint32_t m)
{
    struct linear_job job[4];
    struct weight w[4];
    for (uint32_t j = 0; j < n_job; j++) {
        w[j] = lab_weight(d->ctx.be, p[j].f, p[j].act, p[j].file, mixes[mix][j].n, p[j].k);
        job[j] = (struct linear_job){.y = lab_rows(m, w[j].n_out, 1), .w = &w[j], .add = j == 2};
        if (job[j].add)
            lab_rows_copy(job[j].y, p[j].y0);
        if (j == 1)
            job[j].bias = p[j].bias;
    }
    lab_ready(d)->linear(&d->ctx, job, n_job, lab_part(p[0].x, 0, m, p[0].k));
    lab_done(d);
    for (uint32_t j = 0; j < n_job; j++) {
        struct rows want = expected(&p[j], lab_part(p[j].ref, 0, m, w[j].n_out), p[j].y0, j == 1, j == 2);
        lab_equal(job[j].y, want, "%s x%d: mix %d job %u of %u (%s) rows %u", d->ctx.be->name, d->n_thread, mix, j,
                  n_job, p[j].f->name, m);
        mem_free(want.p);
        mem_free(job[j].y.p);
        mem_free(w[j].data);
    }
}

static void linear_together(void **state)
{
    (void)state;
    for (int mix = 0; mix < 3; mix++) {
        struct product p[4];
        for (int j = 0; j < 4; j++)
            product_init(&p[j], quant_format(mixes[mix][j].t), mixes[mix][j].act, 256, 42);
        for (int d = 0; d < lab.n_dut; d++)
            for (uint32_t n_job = 2; n_job <= 4; n_job++) {
                check_together(&lab.dut[d], mix, p, n_job, 1);
                check_together(&lab.dut[d], mix, p, n_job, 17);
            }
        for (int j = 0; j < 4; j++)
            product_free(&p[j]);
    }
}

/* Matrices large enough that every member of the crew gets some, also for a single row. */
static void linear_large(void **state)
{
    (void)state;
    static const enum quant_type types[] = {QT_Q4_K, QT_Q8_0, QT_Q3_K, QT_BF16};
    enum { M = 9, N = LAB_SMALL ? 300 : 2000, K = 1024 };
    for (size_t i = 0; i < COUNT(types); i++) {
        struct rng g = {i};
        const struct quant_format *f = quant_format(types[i]);
        enum act_type act = f->group == 0 ? ACT_F32 : ACT_Q8;
        size_t row;
        uint8_t *file = lab_matrix(&g, f, N, K, &row);
        struct rows x = lab_rows_random(&g, M, K, 0, 1), want = lab_rows(M, N, 0);
        struct weight ref = lab_weight(&op_ref, f, act, file, N, K);
        op_ref.linear(&lab.ref, &(struct linear_job){.y = want, .w = &ref}, 1, x);
        for (int k = 0; k < lab.n_dut; k++) {
            struct dut *d = &lab.dut[k];
            struct weight w = lab_weight(d->ctx.be, f, act, file, N, K);
            for (uint32_t m = 1; m <= M; m += 4) {
                struct rows y = lab_rows(m, N, 5);
                lab_ready(d)->linear(&d->ctx, &(struct linear_job){.y = y, .w = &w}, 1, lab_part(x, 0, m, K));
                lab_done(d);
                lab_equal(y, want, "%s x%d: large linear %s, %u rows", d->ctx.be->name, d->n_thread, f->name, m);
                mem_free(y.p);
            }
            mem_free(w.data);
        }
        mem_free(ref.data);
        mem_free(file);
        mem_free(x.p);
        mem_free(want.p);
    }
}

/* More rows and wider rows than a kernel takes at once, whatever its pieces are; widths end just behind such sizes. */
static void linear_deep(void **state)
{
    (void)state;
    static const struct {
        enum quant_type t;
        enum act_type act;
        uint32_t k;
    } deep[] = {{QT_Q4_K, ACT_Q8, 2304}, {QT_Q6_K, ACT_Q16, 4352}, {QT_Q8_0, ACT_Q16, 2080},
                {QT_Q5_1, ACT_Q8, 4128}, {QT_NVFP4, ACT_Q8, 2112}, {QT_BF16, ACT_F32, 4097}};
    enum { M = LAB_SMALL ? 9 : 265, N = 33 };
    static const uint32_t rows[] = {1, 9, M};
    const struct op_limits limits = {.max_rows = M, .max_in = 4352, .max_head = 16, .max_head_dim = 256};
    struct op_ctx ref;
    assert_int_equal(op_ref.open(&ref, &limits, lab.one, NULL), GLIM_OK);
    for (size_t i = 0; i < COUNT(deep); i++) {
        struct rng g = {i};
        const struct quant_format *f = quant_format(deep[i].t);
        uint32_t k = deep[i].k;
        size_t row;
        uint8_t *file = lab_matrix(&g, f, N, k, &row);
        struct rows x = lab_activations(&g, M, k, 1), want = lab_rows(M, N, 0);
        struct weight rw = lab_weight(&op_ref, f, deep[i].act, file, N, k);
        op_ref.linear(&ref, &(struct linear_job){.y = want, .w = &rw}, 1, x);
        for (int j = 0; j < lab.n_dut; j++) {
            struct dut d = lab.dut[j]; /* the same crew, room for these shapes */
            assert_int_equal(d.ctx.be->open(&d.ctx, &limits, d.crew, NULL), GLIM_OK);
            struct weight w = lab_weight(d.ctx.be, f, deep[i].act, file, N, k);
            for (size_t m = 0; m < COUNT(rows); m++) {
                struct rows y = lab_rows(rows[m], N, 2);
                lab_ready(&d)->linear(&d.ctx, &(struct linear_job){.y = y, .w = &w}, 1, lab_part(x, 0, rows[m], k));
                lab_done(&d);
                lab_equal(y, want, "%s x%d: deep linear %s act %d, %u rows of %u", d.ctx.be->name, d.n_thread, f->name,
                          deep[i].act, rows[m], k);
                mem_free(y.p);
            }
            mem_free(w.data);
            d.ctx.be->close(&d.ctx);
        }
        mem_free(rw.data);
        mem_free(file);
        mem_free(x.p);
        mem_free(want.p);
    }
    op_ref.close(&ref);
}

/* Rows made on the way are what rmsnorm and glu write, then linear. */
static void linear_of_made_rows(void **state)
{
    (void)state;
    enum { M = 41, N = 37, K = 256 };
    static const uint32_t rows[] = {1, 3, M};
    static const struct {
        enum quant_type t;
        enum act_type act;
    } kind[] = {{QT_Q6_K, ACT_MIXED}, {QT_Q4_1, ACT_Q16}, {QT_F16, ACT_F32}};
    for (size_t i = 0; i < COUNT(kind); i++) {
        struct rng g = {i + 70};
        const struct quant_format *f = quant_format(kind[i].t);
        enum act_fn fn = (enum act_fn)i;
        size_t row;
        uint8_t *file = lab_matrix(&g, f, N, K, &row);
        struct rows x = lab_rows_random(&g, M, K, 3, 2), u = lab_rows_random(&g, M, K, 1, 1), made = lab_rows(M, K, 0);
        struct rows normed = lab_rows(M, N, 0), gated = lab_rows(M, N, 0);
        float norm[K];
        rng_fill(&g, norm, K, 1);
        struct weight rw = lab_weight(&op_ref, f, kind[i].act, file, N, K);
        op_ref.rmsnorm(&lab.ref, made, x, norm, 1e-5f);
        op_ref.linear(&lab.ref, &(struct linear_job){.y = normed, .w = &rw}, 1, made);
        op_ref.glu(&lab.ref, made, x, u, fn);
        op_ref.linear(&lab.ref, &(struct linear_job){.y = gated, .w = &rw}, 1, made);
        struct rows y = lab_rows(M, N, 2);
        op_ref.norm_linear(&lab.ref, &(struct linear_job){.y = y, .w = &rw}, 1, x, norm, 1e-5f);
        lab_equal(y, normed, "ref: norm_linear %s", f->name);
        op_ref.glu_linear(&lab.ref, &(struct linear_job){.y = y, .w = &rw}, 1, x, u, fn);
        lab_equal(y, gated, "ref: glu_linear %s", f->name);
        mem_free(y.p);
        for (int j = 0; j < lab.n_dut; j++) {
            struct dut *d = &lab.dut[j];
            struct weight w = lab_weight(d->ctx.be, f, kind[i].act, file, N, K);
            for (size_t m = 0; m < COUNT(rows); m++) {
                y = lab_rows(rows[m], N, 2);
                struct linear_job job = {.y = y, .w = &w};
                struct rows some = lab_part(x, 0, rows[m], K), other = lab_part(u, 0, rows[m], K);
                lab_ready(d)->norm_linear(&d->ctx, &job, 1, some, norm, 1e-5f);
                lab_equal(y, normed, "%s x%d: norm_linear %s, %u rows", d->ctx.be->name, d->n_thread, f->name, rows[m]);
                lab_ready(d)->glu_linear(&d->ctx, &job, 1, some, other, fn);
                lab_equal(y, gated, "%s x%d: glu_linear %s, %u rows", d->ctx.be->name, d->n_thread, f->name, rows[m]);
                mem_free(y.p);
            }
            mem_free(w.data);
        }
        mem_free(rw.data);
        mem_free(file);
        mem_free(x.p);
        mem_free(u.p);
        mem_free(made.p);
        mem_free(normed.p);
        mem_free(gated.p);
    }
}

/* What cannot be laid out is refused by name. */
static void refusals(void **state)
{
    (void)state;
    for (int d = 0; d < lab.n_dut; d += 3) {
        const struct backend *be = lab.dut[d].ctx.be;
        struct glim_err e;
        size_t n;
        e.message[0] = 0;
        assert_int_not_equal(be->weight_bytes(quant_format(QT_I8), 16, 32, &n, &e), GLIM_OK);
        assert_non_null(strstr(e.message, "I8"));
        e.message[0] = 0;
        assert_int_not_equal(be->weight_bytes(quant_format(QT_Q4_K), 16, 288, &n, &e), GLIM_OK);
        assert_non_null(strstr(e.message, "288"));
    }
}

int main(int argc, char **argv)
{
    if (lab_cpu_open(argc, argv) != 0)
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
        snprintf(name[n], sizeof name[n], "embed_%s", f->name);
        tests[n] = (struct CMUnitTest){name[n], embed, NULL, NULL, (void *)(uintptr_t)f};
        n++;
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(linear_together);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(linear_large);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(linear_deep);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(linear_of_made_rows);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(refusals);
    int failed = _cmocka_run_group_tests("linear", tests, n, NULL, NULL);
    lab_close();
    return failed;
}
