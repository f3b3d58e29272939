/* If this fails, a norm, an activation, a rotation or a copy on the CPU gives other bits on some instruction set,
 * thread count or launch size than it should: outputs then depend on the machine and on who shares the batch.
 *
 * Every op that is not a product or attention, against op_ref, bit for bit. How to run one case: lab_cpu.h. */
#include "lab_cpu.h"

static const uint32_t dims[] = {1, 2, 15, 16, 17, 31, 33, 64, 100, 576};
static const uint32_t counts[] = {1, 2, 3, 17};
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Calls body for every size and device: n rows of dim, generator g, device d. */
#define EACH_SIZE                                                                                                      \
    for (size_t i_ = 0; i_ < COUNT(dims) * COUNT(counts); i_++)                                                        \
        for (uint32_t dim = dims[i_ % COUNT(dims)], n = counts[i_ / COUNT(dims)], once_ = 1; once_; once_ = 0)
#define EACH_DUT for (struct dut *d = lab.dut; d < lab.dut + lab.n_dut; d++)

/* A copy of x with a gap of NaN behind each row. */
static struct rows copy_of(struct rows x)
{
    struct rows c = lab_rows(x.n, x.dim, 5);
    lab_rows_copy(c, x);
    return c;
}

static void rmsnorm(void **state)
{
    (void)state;
    struct rng g = {1};
    float w[576];
    rng_fill(&g, w, 576, 1);
    EACH_SIZE
    {
        struct rows x = lab_rows_random(&g, n, dim, 2, i_ % 3 == 0 ? 1e-12f : 3.0f), want = lab_rows(n, dim, 0);
        if (n > 2) /* an all-zero row is eps's business */
            memset(lab_row(x, 2), 0, dim * sizeof(float));
        for (int weightless = 0; weightless < 2; weightless++) {
            const float *wp = weightless ? NULL : w;
            op_ref.rmsnorm(&lab.ref, want, x, wp, 1e-5f);
            EACH_DUT
            {
                struct rows y = lab_rows(n, dim, 5), in_place = copy_of(x);
                lab_ready(d)->rmsnorm(&d->ctx, y, x, wp, 1e-5f);
                lab_equal(y, want, "%s x%d: rmsnorm %u of %u", d->ctx.be->name, d->n_thread, n, dim);
                lab_ready(d)->rmsnorm(&d->ctx, in_place, in_place, wp, 1e-5f);
                lab_done(d);
                lab_equal(in_place, want, "%s x%d: rmsnorm in place %u of %u", d->ctx.be->name, d->n_thread, n, dim);
                mem_free(y.p);
                mem_free(in_place.p);
            }
        }
        mem_free(x.p);
        mem_free(want.p);
    }
}

static void head_norm(void **state)
{
    (void)state;
    static const uint32_t head_dims[] = {8, 16, 20, 64, 80, 96, 128, 256};
    struct rng g = {2};
    float w[256];
    rng_fill(&g, w, 256, 1);
    for (size_t i = 0; i < COUNT(head_dims) * COUNT(counts); i++) {
        uint32_t head_dim = head_dims[i % COUNT(head_dims)], n = counts[i / COUNT(head_dims)];
        uint32_t n_head = 1 + (uint32_t)i % 5;
        struct rows x = lab_rows_random(&g, n, n_head * head_dim, 0, 2), want = copy_of(x);
        const float *wp = i % 3 == 0 ? NULL : w;
        lab_head_norm(&op_ref, &lab.ref, want, n_head, wp, 1e-6f);
        EACH_DUT
        {
            struct rows y = copy_of(x);
            lab_head_norm(lab_ready(d), &d->ctx, y, n_head, wp, 1e-6f);
            lab_done(d);
            lab_equal(y, want, "%s x%d: head_norm %u rows, %u heads of %u", d->ctx.be->name, d->n_thread, n, n_head,
                      head_dim);
            mem_free(y.p);
        }
        mem_free(x.p);
        mem_free(want.p);
    }
}

static void add_and_scale(void **state)
{
    (void)state;
    struct rng g = {3};
    EACH_SIZE
    {
        struct rows y0 = lab_rows_random(&g, n, dim, 0, 1), x = lab_rows_random(&g, n, dim, 7, 1e-3f);
        struct rows sum = copy_of(y0), scaled = copy_of(y0);
        op_ref.add(&lab.ref, sum, x);
        op_ref.scale(&lab.ref, scaled, 0.3f);
        EACH_DUT
        {
            struct rows y = copy_of(y0), z = copy_of(y0);
            lab_ready(d)->add(&d->ctx, y, x);
            lab_ready(d)->scale(&d->ctx, z, 0.3f);
            lab_done(d);
            lab_equal(y, sum, "%s x%d: add %u of %u", d->ctx.be->name, d->n_thread, n, dim);
            lab_equal(z, scaled, "%s x%d: scale %u of %u", d->ctx.be->name, d->n_thread, n, dim);
            mem_free(y.p);
            mem_free(z.p);
        }
        mem_free(y0.p);
        mem_free(x.p);
        mem_free(sum.p);
        mem_free(scaled.p);
    }
}

/* Inputs of the activation functions: a dense walk over where they bend, then every order of magnitude, then the edges.
 */
static struct rows bends(struct rng *g, uint32_t n, uint32_t dim)
{
    static const float edge[] = {0.0f,   -0.0f,  0.02f,  -0.02f,  87.33f,   -87.33f,   88.37f, -88.37f,
                                 43.66f, -44.2f, 1e-38f, -1e-38f, 1e-45f,   -1e-45f,   3e38f,  -3e38f,
                                 1e19f,  -1e19f, 1e13f,  -1e13f,  INFINITY, -INFINITY, NAN,    -NAN};
    struct rows x = lab_rows(n, dim, 0);
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t j = 0; j < dim; j++) {
            uint32_t i = r * dim + j;
            float walk = rng_normal(g) * (i % 3 == 0 ? 0.05f : i % 3 == 1 ? 3.0f : 60.0f);
            float scaled = ldexpf(rng_normal(g), (int)rng_below(g, 200) - 100);
            lab_row(x, r)[j] = i % 7 == 0 ? scaled : i % 11 == 0 ? edge[i / 11 % COUNT(edge)] : walk;
        }
    return x;
}

static void glu(void **state)
{
    (void)state;
    struct rng g = {4};
    EACH_SIZE
    {
        struct rows a = bends(&g, n, dim), b = lab_rows_random(&g, n, dim, 1, 2), want = lab_rows(n, dim, 0);
        for (int i = 0; i < 3; i++) {
            enum act_fn fn = lab_fns[i];
            op_ref.glu(&lab.ref, want, a, b, fn);
            EACH_DUT
            {
                struct rows y = lab_rows(n, dim, 5), over_g = copy_of(a), over_u = copy_of(b);
                lab_ready(d)->glu(&d->ctx, y, a, b, fn);
                lab_ready(d)->glu(&d->ctx, over_g, over_g, b, fn);
                lab_ready(d)->glu(&d->ctx, over_u, a, over_u, fn);
                lab_done(d);
                lab_equal(y, want, "%s x%d: glu %d, %u of %u", d->ctx.be->name, d->n_thread, fn, n, dim);
                lab_equal(over_g, want, "%s x%d: glu %d over g", d->ctx.be->name, d->n_thread, fn);
                lab_equal(over_u, want, "%s x%d: glu %d over u", d->ctx.be->name, d->n_thread, fn);
                mem_free(y.p);
                mem_free(over_g.p);
                mem_free(over_u.p);
            }
        }
        mem_free(a.p);
        mem_free(b.p);
        mem_free(want.p);
    }
}

static void softcap(void **state)
{
    (void)state;
    struct rng g = {5};
    EACH_SIZE
    {
        struct rows x = bends(&g, n, dim), want = copy_of(x);
        op_ref.softcap(&lab.ref, want, 30.0f);
        EACH_DUT
        {
            struct rows y = copy_of(x);
            lab_ready(d)->softcap(&d->ctx, y, 30.0f);
            lab_done(d);
            lab_equal(y, want, "%s x%d: softcap %u of %u", d->ctx.be->name, d->n_thread, n, dim);
            mem_free(y.p);
        }
        mem_free(x.p);
        mem_free(want.p);
    }
}

/* A NaN logit or score stays one, so that the sampler can name it. */
static void softcap_keeps_nan(void **state)
{
    (void)state;
    EACH_DUT
    {
        struct rows y = lab_rows(2, 37, 0);
        for (uint32_t i = 0; i < 37; i++)
            lab_row(y, 0)[i] = lab_row(y, 1)[i] = i % 3 ? 1.0f : NAN;
        lab_ready(d)->softcap(&d->ctx, y, 30.0f);
        lab_done(d);
        for (uint32_t i = 0; i < 37; i++)
            assert_int_equal(isnan(lab_row(y, 1)[i]) != 0, i % 3 == 0);
        mem_free(y.p);
    }
}

static void gather(void **state)
{
    (void)state;
    static const uint32_t pick[] = {16, 0, 3, 3, 9};
    struct rng g = {6};
    for (size_t i = 0; i < COUNT(dims); i++)
        for (uint32_t n = 1; n <= COUNT(pick); n += 2) {
            struct rows x = lab_rows_random(&g, 17, dims[i], 3, 1), want = lab_rows(n, dims[i], 0);
            op_ref.gather(&lab.ref, want, x, pick);
            EACH_DUT
            {
                struct rows y = lab_rows(n, dims[i], 5);
                lab_ready(d)->gather(&d->ctx, y, x, pick);
                lab_done(d);
                lab_equal(y, want, "%s x%d: gather %u of %u", d->ctx.be->name, d->n_thread, n, dims[i]);
                mem_free(y.p);
            }
            mem_free(x.p);
            mem_free(want.p);
        }
}

static void rope(void **state)
{
    (void)state;
    static const struct {
        uint32_t head_dim, n_freq, n_head;
    } shape[] = {{16, 8, 3},   {64, 32, 4}, {64, 16, 1},   {80, 40, 2}, {96, 48, 2},
                 {128, 64, 2}, {128, 8, 5}, {256, 128, 1}, {20, 5, 2},  {2, 1, 1}};
    struct rng g = {7};
    for (size_t i = 0; i < COUNT(shape) * COUNT(counts); i++) {
        uint32_t n = counts[i / COUNT(shape)], head_dim = shape[i % COUNT(shape)].head_dim;
        uint32_t n_freq = shape[i % COUNT(shape)].n_freq, n_head = shape[i % COUNT(shape)].n_head;
        float inv_freq[128];
        int32_t pos[17];
        for (uint32_t k = 0; k < n_freq; k++)
            inv_freq[k] = powf(10000.0f, -(float)k / (float)n_freq);
        for (uint32_t r = 0; r < n; r++) /* from the first positions to a million */
            pos[r] = (int32_t)(rng_next(&g) >> (12 + rng_below(&g, 20)));
        float mscale = i % 2 ? 1.0f : 1.2079f;
        struct rows t = lab_rows(n, 2 * n_freq, 0), x = lab_rows_random(&g, n, n_head * head_dim, 0, 1);
        op_ref.rope_table(&lab.ref, t, pos, inv_freq, mscale);
        for (int interleaved = 0; interleaved < 2; interleaved++) {
            struct rows want = copy_of(x);
            lab_rope(&op_ref, &lab.ref, want, n_head, t, interleaved);
            EACH_DUT
            {
                struct rows table = lab_rows(n, 2 * n_freq, 5), y = copy_of(x);
                lab_ready(d)->rope_table(&d->ctx, table, pos, inv_freq, mscale);
                lab_equal(table, t, "%s x%d: rope_table %u rows, %u frequencies", d->ctx.be->name, d->n_thread, n,
                          n_freq);
                lab_rope(lab_ready(d), &d->ctx, y, n_head, table, interleaved);
                lab_done(d);
                lab_equal(y, want, "%s x%d: rope %u rows, %u heads of %u, %u frequencies, interleaved %d",
                          d->ctx.be->name, d->n_thread, n, n_head, head_dim, n_freq, interleaved);
                mem_free(table.p);
                mem_free(y.p);
            }
            mem_free(want.p);
        }
        mem_free(t.p);
        mem_free(x.p);
    }
}

/* Launches large enough that every member of the crew gets a part. */
static void large_launches(void **state)
{
    (void)state;
    enum { N = LAB_SMALL ? 40 : 150, DIM = 1000 };
    struct rng g = {8};
    struct rows x = lab_rows_random(&g, N, DIM, 0, 1), u = lab_rows_random(&g, N, DIM, 0, 1);
    struct rows norm = lab_rows(N, DIM, 0), gated = lab_rows(N, DIM, 0), heads = copy_of(x), sum = copy_of(x);
    op_ref.rmsnorm(&lab.ref, norm, x, lab_row(u, 0), 1e-6f);
    op_ref.glu(&lab.ref, gated, x, u, ACT_FN_SILU);
    lab_head_norm(&op_ref, &lab.ref, heads, 10, lab_row(u, 1), 1e-6f);
    op_ref.add(&lab.ref, sum, u);
    EACH_DUT
    {
        struct rows y = lab_rows(N, DIM, 5), h = copy_of(x), s = copy_of(x);
        lab_ready(d)->rmsnorm(&d->ctx, y, x, lab_row(u, 0), 1e-6f);
        lab_equal(y, norm, "%s x%d: large rmsnorm", d->ctx.be->name, d->n_thread);
        lab_ready(d)->glu(&d->ctx, y, x, u, ACT_FN_SILU);
        lab_equal(y, gated, "%s x%d: large glu", d->ctx.be->name, d->n_thread);
        lab_head_norm(lab_ready(d), &d->ctx, h, 10, lab_row(u, 1), 1e-6f);
        lab_equal(h, heads, "%s x%d: large head_norm", d->ctx.be->name, d->n_thread);
        lab_ready(d)->add(&d->ctx, s, u);
        lab_done(d);
        lab_equal(s, sum, "%s x%d: large add", d->ctx.be->name, d->n_thread);
        mem_free(y.p);
        mem_free(h.p);
        mem_free(s.p);
    }
    mem_free(x.p);
    mem_free(u.p);
    mem_free(norm.p);
    mem_free(gated.p);
    mem_free(heads.p);
    mem_free(sum.p);
}

/* Opening says what is wrong instead of crashing, at every allocation. */
static void open_copes_without_memory(void **state)
{
    (void)state;
    EACH_DUT
    {
        for (long n = 1; n < 50; n++) {
            struct op_ctx c = {0};
            struct glim_err e = {0};
            mem_fail_after(n);
            glim_status st = d->ctx.be->open(&c, &lab_limits, d->crew, &e);
            mem_fail_after(0);
            if (st == GLIM_OK) {
                d->ctx.be->close(&c);
                assert_true(n > 1); /* the first failure was seen */
                break;
            }
            assert_int_equal(e.status, st);
            assert_true(e.message[0] != 0);
        }
    }
}

int main(int argc, char **argv)
{
    if (lab_cpu_open(argc, argv) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm),
        cmocka_unit_test(head_norm),
        cmocka_unit_test(add_and_scale),
        cmocka_unit_test(glu),
        cmocka_unit_test(softcap),
        cmocka_unit_test(gather),
        cmocka_unit_test(rope),
        cmocka_unit_test(large_launches),
        cmocka_unit_test(open_copes_without_memory),
        cmocka_unit_test(softcap_keeps_nan),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lab_close();
    return failed;
}
