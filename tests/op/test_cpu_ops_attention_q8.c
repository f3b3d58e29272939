/* If this fails, a cache of 8-bit integers holds other numbers than it was given, attends to something else than the
 * f32 cache would, loses a NaN, or gives other bits when one long sequence is shared out over threads.
 *
 * That each instruction set equals op_ref is in test_cpu_ops_attention.c; here op_ref itself is held against plain
 * arithmetic in double, and long sequences go through every way of walking. How to run one case: lab_cpu.h. */
#include "lab_cpu.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* One sequence of `len` tokens, its pages in another order than its positions. */
struct cache {
    struct kv_layer kv;
    struct page_map map;
    uint32_t *page, n_page;
    struct rows k, v; /* what was stored */
};

static struct cache cache_make(struct rng *g, enum kv_type type, uint32_t n_kv_head, uint32_t head_dim, uint32_t len)
{
    struct cache c = {.n_page = len / KV_PAGE + 1};
    c.kv = (struct kv_layer){.type = type, .n_kv_head = n_kv_head, .head_dim = head_dim};
    c.kv.page_bytes = op_ref.kv_page_bytes(type, n_kv_head, head_dim);
    c.kv.k = lab_poison(lab_alloc(c.n_page * c.kv.page_bytes), c.n_page * c.kv.page_bytes);
    c.kv.v = lab_poison(lab_alloc(c.n_page * c.kv.page_bytes), c.n_page * c.kv.page_bytes);
    c.page = lab_alloc(c.n_page * sizeof *c.page);
    for (uint32_t i = 0; i < c.n_page; i++)
        c.page[i] = c.n_page - 1 - i;
    c.map = (struct page_map){.page = c.page, .stride = c.n_page};
    c.k = lab_rows_random(g, len, n_kv_head * head_dim, 1, 1);
    c.v = lab_rows_random(g, len, n_kv_head * head_dim, 0, 1);
    return c;
}

static void cache_fill(struct cache *c)
{
    struct span all = {.n = c->k.n};
    struct batch b = {.n_row = c->k.n, .n_span = 1, .span = &all};
    lab_kv_append(&op_ref, &lab.ref, &c->kv, &b, c->map, c->k, c->v);
}

static void cache_free(struct cache *c)
{
    mem_free(c->kv.k);
    mem_free(c->kv.v);
    mem_free(c->page);
    mem_free(c->k.p);
    mem_free(c->v.p);
}

/* Element i of the rotation of a run, from its definition as a matrix of +-1. */
static double rotated(const double x[KV8_RUN], uint32_t i)
{
    double s = 0;
    for (uint32_t j = 0; j < KV8_RUN; j++)
        s += __builtin_parity(i & j) ? -x[j] : x[j];
    return s;
}

/* ---- what is stored ---- */

static const uint8_t *head_at(const struct cache *c, const void *pool, uint32_t t, uint32_t h)
{
    return (const uint8_t *)pool + c->page[t / KV_PAGE] * c->kv.page_bytes + h * kv8_head_bytes(c->kv.head_dim);
}

static double scale_at(const struct cache *c, const uint8_t *head, uint32_t i)
{
    uint16_t half;
    memcpy(&half, head + (size_t)kv8_dim(c->kv.head_dim) * KV_PAGE + (size_t)i * 2, 2);
    return (double)f16_to_f32(half);
}

static double stored_k(const struct cache *c, uint32_t t, uint32_t h, uint32_t d)
{
    const uint8_t *head = head_at(c, c->kv.k, t, h);
    int code = head[((size_t)(d / 4) * KV_PAGE + t % KV_PAGE) * 4 + d % 4] - 128;
    return code * scale_at(c, head, d / KV8_RUN * KV_PAGE + t % KV_PAGE);
}

static double stored_v(const struct cache *c, uint32_t t, uint32_t h, uint32_t d)
{
    const uint8_t *head = head_at(c, c->kv.v, t, h);
    size_t at = ((size_t)(t % KV_PAGE / 4) * kv8_dim(c->kv.head_dim) + d) * 4 + t % 4;
    return (int8_t)head[at] * exp2(scale_at(c, head, t % KV_PAGE));
}

/* Each stored element is the rotated input to within half a step of its peak (and what f16 takes of the step). */
static void check_token(const struct cache *c, uint32_t t, uint32_t h)
{
    uint32_t hd = c->kv.head_dim, dim = kv8_dim(hd);
    double peak_v = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t r = 0; r < dim; r += KV8_RUN) {
            double k[KV8_RUN], v[KV8_RUN], peak = 0;
            for (uint32_t i = 0; i < KV8_RUN; i++) {
                k[i] = r + i < hd ? (double)lab_row(c->k, t)[h * hd + r + i] : 0;
                v[i] = r + i < hd ? (double)lab_row(c->v, t)[h * hd + r + i] : 0;
            }
            for (uint32_t i = 0; i < KV8_RUN; i++) {
                peak = fmax(peak, fabs(rotated(k, i)));
                peak_v = fmax(peak_v, fabs(rotated(v, i)));
            }
            for (uint32_t i = 0; pass == 1 && i < KV8_RUN; i++) {
                double ek = fabs(stored_k(c, t, h, r + i) - rotated(k, i));
                double ev = fabs(stored_v(c, t, h, r + i) - rotated(v, i));
                if (ek > peak * 0.0046 || ev > peak_v * 0.0063)
                    fail_msg("token %u head %u dim %u: K off by %g of its peak, V by %g", t, h, r + i, ek / peak,
                             ev / peak_v);
            }
        }
}

static void stored_numbers(void **state)
{
    (void)state;
    static const uint32_t dims[] = {16, 20, 32, 64, 80, 256};
    for (size_t i = 0; i < COUNT(dims); i++) {
        struct rng g = {i};
        struct cache c = cache_make(&g, KV_Q8, 3, dims[i], 37);
        cache_fill(&c);
        for (uint32_t t = 0; t < 37; t++)
            for (uint32_t h = 0; h < 3; h++)
                check_token(&c, t, h);
        cache_free(&c);
    }
}

/* Rows that start and end anywhere in a quad, one token at a time or many, leave the same pages. */
static void appended_in_pieces(void **state)
{
    (void)state;
    enum { LEN = 53, KV_HEADS = 3, DIM = 80 };
    static const uint32_t steps[] = {1, 2, 3, 4, 5, 6, 7, 30, LEN}; /* the last two are shared out */
    struct rng g = {11};
    struct cache want = cache_make(&g, KV_Q8, KV_HEADS, DIM, LEN);
    cache_fill(&want);
    for (int d = 0; d < lab.n_dut; d++)
        for (size_t i = 0; i < COUNT(steps); i++) {
            uint32_t step = steps[i];
            struct rng again = {11};
            struct cache got = cache_make(&again, KV_Q8, KV_HEADS, DIM, LEN);
            for (uint32_t at = 0, n; at < LEN; at += n) {
                n = step < LEN - at ? step : LEN - at;
                struct span s = {.n = n, .pos = at};
                struct batch b = {.n_row = n, .n_span = 1, .span = &s};
                lab_kv_append(lab_ready(&lab.dut[d]), &lab.dut[d].ctx, &got.kv, &b, got.map,
                              lab_part(got.k, at, n, got.k.dim), lab_part(got.v, at, n, got.v.dim));
                lab_done(&lab.dut[d]);
            }
            if (memcmp(got.kv.k, want.kv.k, got.n_page * got.kv.page_bytes) != 0 ||
                memcmp(got.kv.v, want.kv.v, got.n_page * got.kv.page_bytes) != 0)
                fail_msg("%s x%d: appended %u at a time: pools differ", lab.dut[d].ctx.be->name, lab.dut[d].n_thread,
                         step);
            cache_free(&got);
        }
    cache_free(&want);
}

/* ---- against plain arithmetic ---- */

/* One head of one row over what was stored, in double. */
static void plain_attention(double *y, const float *q, const struct cache *c, uint32_t pos, uint32_t h,
                            const struct attn_params *p)
{
    uint32_t hd = c->kv.head_dim, lo = p->window != 0 && pos >= p->window ? pos - p->window + 1 : 0;
    double top = -INFINITY, sum = 0;
    double *s = lab_alloc((pos + 1) * sizeof *s);
    for (uint32_t t = lo; t <= pos; t++) {
        s[t] = 0;
        for (uint32_t d = 0; d < hd; d++)
            s[t] += (double)q[d] * (double)lab_row(c->k, t)[h * hd + d];
        s[t] *= (double)p->scale;
        if (p->softcap != 0)
            s[t] = (double)p->softcap * tanh(s[t] / (double)p->softcap);
        top = fmax(top, s[t]);
    }
    for (uint32_t d = 0; d < hd; d++)
        y[d] = 0;
    for (uint32_t t = lo; t <= pos; t++) {
        double e = exp(s[t] - top);
        sum += e;
        for (uint32_t d = 0; d < hd; d++)
            y[d] += e * (double)lab_row(c->v, t)[h * hd + d];
    }
    for (uint32_t d = 0; d < hd; d++)
        y[d] /= sum;
    mem_free(s);
}

static void near_plain_arithmetic(void **state)
{
    (void)state;
    enum { LEN = 150, HEADS = 4, KV_HEADS = 2 };
    static const struct attn_params variants[] = {{.n_head = HEADS, .scale = 0.1f},
                                                  {.n_head = HEADS, .scale = 0.2f, .window = 70},
                                                  {.n_head = HEADS, .scale = 0.3f, .softcap = 2.0f},
                                                  {.n_head = HEADS, .scale = -0.1f, .window = 1}};
    static const uint32_t dims[] = {20, 64, 96}, rows[] = {0, 15, 16, 63, 64, 127, 149};
    for (size_t i = 0; i < COUNT(variants) * COUNT(dims); i++) {
        struct rng g = {20 + i};
        const struct attn_params *p = &variants[i % COUNT(variants)];
        uint32_t dim = dims[i / COUNT(variants)];
        struct cache c = cache_make(&g, KV_Q8, KV_HEADS, dim, LEN);
        cache_fill(&c);
        struct rows q = lab_rows_random(&g, 1, HEADS * dim, 0, 1), y = lab_rows(1, HEADS * dim, 0);
        double want[96], off = 0, size = 0;
        for (size_t r = 0; r < COUNT(rows); r++) {
            struct span one = {.n = 1, .pos = rows[r]};
            struct batch b = {.n_row = 1, .n_span = 1, .span = &one};
            op_ref.attention(&lab.ref, y, q, &c.kv, &b, c.map, p);
            for (uint32_t h = 0; h < HEADS; h++) {
                plain_attention(want, q.p + h * dim, &c, rows[r], h / 2, p);
                for (uint32_t d = 0; d < dim; d++) {
                    off += pow((double)y.p[h * dim + d] - want[d], 2);
                    size += want[d] * want[d];
                }
            }
        }
        if (sqrt(off / size) > 0.02)
            fail_msg("variant %zu dim %u: off by %g of the result", i % COUNT(variants), dim, sqrt(off / size));
        mem_free(q.p);
        mem_free(y.p);
        cache_free(&c);
    }
}

/* ---- NaN ---- */

/* Row `pos` of the cache, on every device: is the result of head 0 and of head 1 a number? */
static void check_numbers(const struct cache *c, struct rows q, uint32_t pos, bool first, bool second, const char *what)
{
    struct attn_params p = {.n_head = 2, .scale = 0.1f, .window = 40};
    struct span one = {.n = 1, .pos = pos};
    struct batch b = {.n_row = 1, .n_span = 1, .span = &one};
    struct rows y = lab_rows(1, q.dim, 0), want = lab_rows(1, q.dim, 0);
    op_ref.attention(&lab.ref, want, q, &c->kv, &b, c->map, &p);
    for (uint32_t j = 0; j < q.dim; j++)
        if (isfinite(want.p[j]) != (j < q.dim / 2 ? first : second))
            fail_msg("%s: row %u: element %u is %g", what, pos, j, (double)want.p[j]);
    for (int d = 0; d < lab.n_dut; d++) {
        lab_ready(&lab.dut[d])->attention(&lab.dut[d].ctx, y, q, &c->kv, &b, c->map, &p);
        lab_equal(y, want, "%s: %s, row %u", lab.dut[d].ctx.be->name, what, pos);
    }
    mem_free(y.p);
    mem_free(want.p);
}

static void not_a_number(void **state)
{
    (void)state;
    enum { LEN = 100, DIM = 64, BAD = 50 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct rng g = {30};
        struct cache c = cache_make(&g, KV_Q8, 2, DIM, LEN);
        struct rows q = lab_rows_random(&g, 1, 2 * DIM, 0, 1);
        lab_row(c.v, BAD)[DIM + 5] = bad[i]; /* KV head 1, which head 1 reads */
        cache_fill(&c);
        check_numbers(&c, q, BAD - 1, true, true, "before a bad V");
        check_numbers(&c, q, BAD, true, false, "at a bad V");
        check_numbers(&c, q, BAD + 39, true, false, "at the window's end with a bad V");
        check_numbers(&c, q, BAD + 40, true, true, "past a bad V");
        q.p[3] = bad[i];
        check_numbers(&c, q, 30, false, true, "a bad query");
        mem_free(q.p);
        cache_free(&c);
    }
}

/* ---- long sequences ---- */

/* One row and a chunk at the end of more tiles than are kept at a time, with and without a window. */
static void long_sequences(void **state)
{
    (void)state;
    enum { LEN = LAB_SMALL ? 1500 : 9000, HEADS = 4, KV_HEADS = 2, DIM = 32 };
    struct rng g = {40};
    struct cache c = cache_make(&g, KV_Q8, KV_HEADS, DIM, LEN);
    cache_fill(&c);
    for (int i = 0; i < 4; i++) {
        uint32_t n = i % 2 ? 20 : 1;
        struct attn_params p = {.n_head = HEADS, .scale = 0.2f, .window = i < 2 ? 0 : 1000};
        struct span span = {.n = n, .pos = LEN - n};
        struct batch b = {.n_row = n, .n_span = 1, .span = &span};
        struct rows q = lab_rows_random(&g, n, HEADS * DIM, 0, 1), want = lab_rows(n, HEADS * DIM, 0);
        op_ref.attention(&lab.ref, want, q, &c.kv, &b, c.map, &p);
        for (int d = 0; d < lab.n_dut; d++) {
            struct rows y = lab_rows(n, HEADS * DIM, 1);
            lab_ready(&lab.dut[d])->attention(&lab.dut[d].ctx, y, q, &c.kv, &b, c.map, &p);
            lab_done(&lab.dut[d]);
            lab_equal(y, want, "%s x%d: attention over %d tokens, %u rows, window %u", lab.dut[d].ctx.be->name,
                      lab.dut[d].n_thread, LEN, n, p.window);
            mem_free(y.p);
        }
        mem_free(q.p);
        mem_free(want.p);
    }
    cache_free(&c);
}

/* ---- many sequences ---- */

/* Rows that decode, each at a position of its own: members take them by the sequence, with all their heads. */
static void many_sequences(void **state)
{
    (void)state;
    enum { LEN = 200, ROWS = 21, HEADS = 6, KV_HEADS = 2, DIM = 40 };
    struct rng g = {50};
    struct cache c = cache_make(&g, KV_Q8, KV_HEADS, DIM, LEN);
    cache_fill(&c);
    struct span span[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        span[i] = (struct span){.row = i, .n = 1, .pos = i * 67 % LEN};
    struct batch b = {.n_row = ROWS, .n_span = ROWS, .span = span};
    struct rows q = lab_rows_random(&g, ROWS, HEADS * DIM, 0, 1), want = lab_rows(ROWS, HEADS * DIM, 0);
    for (uint32_t window = 0; window <= 50; window += 50) {
        struct attn_params p = {.n_head = HEADS, .scale = 0.2f, .window = window};
        op_ref.attention(&lab.ref, want, q, &c.kv, &b, c.map, &p);
        for (int d = 0; d < lab.n_dut; d++) {
            struct rows y = lab_rows(ROWS, HEADS * DIM, 1);
            lab_ready(&lab.dut[d])->attention(&lab.dut[d].ctx, y, q, &c.kv, &b, c.map, &p);
            lab_done(&lab.dut[d]);
            lab_equal(y, want, "%s x%d: %d sequences, window %u", lab.dut[d].ctx.be->name, lab.dut[d].n_thread, ROWS,
                      window);
            mem_free(y.p);
        }
    }
    mem_free(q.p);
    mem_free(want.p);
    cache_free(&c);
}

int main(int argc, char **argv)
{
    if (lab_cpu_open(argc, argv) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_numbers), cmocka_unit_test(appended_in_pieces), cmocka_unit_test(near_plain_arithmetic),
        cmocka_unit_test(not_a_number),   cmocka_unit_test(long_sequences),     cmocka_unit_test(many_sequences),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lab_close();
    return failed;
}
