/* If this fails, the definition that every kernel is compared with is itself wrong: all backends would agree on
 * nonsense.
 *
 * Each op of op_ref against the textbook formula in double, written here independently. */
#include "lab.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* |got - want| within `part` of size, the sum of magnitudes that went into it. */
static void near(double got, double want, double size, double part, const char *what)
{
    if (!(fabs(got - want) <= part * size + 1e-30))
        fail_msg("%s: %.9g, want %.9g (size %.3g)", what, got, want, size);
}

/* ---- products ---- */

/* x as the integer form gives it back, or x itself. */
static void dequantised(double *y, const float *x, uint32_t n, enum act_type act)
{
    int8_t hi[1024], lo[1024];
    float d[32];
    int32_t sum16[64];
    if (act != ACT_F32)
        act_encode(x, n, act_cap(act), lo, hi, d, sum16);
    for (uint32_t k = 0; k < n; k++)
        y[k] = act == ACT_F32 ? (double)x[k] : (double)d[k / 32] * (256 * hi[k] + lo[k]);
}

static void check_linear(const struct quant_format *f, enum act_type act, uint32_t n_in)
{
    enum { M = 4, N = 21 };
    struct rng g = {(uint64_t)f->type * 31 + n_in};
    size_t row_bytes;
    uint8_t *file = lab_matrix(&g, f, N, n_in, &row_bytes);
    struct weight w = lab_weight(&op_ref, f, act, file, N, n_in);
    struct rows x = lab_rows_random(&g, M, n_in, 2, 1), y = lab_rows(M, N, 3), sum = lab_rows_random(&g, M, N, 0, 1);
    struct rows sum0 = lab_rows(M, N, 0);
    float bias[N];
    rng_fill(&g, bias, N, 1);
    lab_rows_copy(sum0, sum);
    struct linear_job job[2] = {{.y = y, .w = &w}, {.y = sum, .w = &w, .bias = bias, .add = true}};
    op_ref.linear(&lab.ref, job, 2, x);
    assert_memory_equal(w.data, file, w.bytes); /* file layout */
    for (uint32_t r = 0; r < M; r++) {
        double in[1024];
        dequantised(in, lab_row(x, r), n_in, act);
        for (uint32_t j = 0; j < N; j++) {
            float weights[1024];
            f->decode(file + j * row_bytes, weights, n_in / f->block_elems);
            double want = 0, size = 0;
            for (uint32_t k = 0; k < n_in; k++) {
                want += in[k] * (double)weights[k];
                size += fabs(in[k] * (double)weights[k]);
            }
            float v = lab_row(y, r)[j];
            near((double)v, want, size, 2e-6, f->name);
            assert_int_equal(lab_bits(lab_row(sum, r)[j]), lab_bits(lab_row(sum0, r)[j] + (v + bias[j])));
            if (act == ACT_Q16 || act == ACT_F32) { /* close to the unrounded input as well */
                double exact = 0;
                for (uint32_t k = 0; k < n_in; k++)
                    exact += (double)lab_row(x, r)[k] * (double)weights[k];
                near((double)v, exact, size, 2e-4, f->name);
            }
        }
    }
    mem_free(file);
    mem_free(w.data);
    mem_free(x.p);
    mem_free(y.p);
    mem_free(sum.p);
    mem_free(sum0.p);
}

static void linear(void **state)
{
    (void)state;
    int n_format = 0;
    for (size_t i = 0; i < quant_n(); i++) {
        const struct quant_format *f = quant_at(i);
        if (!f->is_weight)
            continue;
        n_format++;
        if (f->group == 0) {
            check_linear(f, ACT_F32, 1);
            check_linear(f, ACT_F32, 77);
        } else {
            check_linear(f, ACT_Q8, 768);
            check_linear(f, ACT_MIXED, 512);
            check_linear(f, ACT_Q16, 256);
        }
    }
    assert_int_equal(n_format, 17);
}

/* k ascends from 0 in one chain: 1e8 swallows the 1, so the result is 0, not 1. */
static void plain_products_keep_their_order(void **state)
{
    (void)state;
    float ones[3] = {1, 1, 1}, in[3] = {1e8f, 1, -1e8f}, out = NAN;
    struct weight w = {.fmt = quant_format(QT_F32), .n_out = 1, .n_in = 3, .act = ACT_F32, .data = ones, .bytes = 12};
    struct rows x = {in, 1, 3, 3}, y = {&out, 1, 1, 1};
    op_ref.linear(&lab.ref, &(struct linear_job){.y = y, .w = &w}, 1, x);
    assert_int_equal(lab_bits(out), 0);
}

static void embed(void **state)
{
    (void)state;
    static const enum quant_type types[] = {QT_F32, QT_BF16, QT_Q4_K, QT_Q8_0};
    for (size_t i = 0; i < COUNT(types); i++) {
        const struct quant_format *f = quant_format(types[i]);
        struct rng g = {i};
        size_t row_bytes;
        uint8_t *file = lab_matrix(&g, f, 70, 256, &row_bytes);
        struct weight w = lab_weight(&op_ref, f, f->group ? ACT_Q8 : ACT_F32, file, 70, 256);
        static const int32_t token[] = {69, 0, 33, 33};
        struct rows y = lab_rows(4, 256, 1);
        op_ref.embed(&lab.ref, y, &w, token, 3.5f);
        for (uint32_t r = 0; r < 4; r++) {
            float want[256];
            f->decode(file + (size_t)token[r] * row_bytes, want, 256u / f->block_elems);
            for (int k = 0; k < 256; k++)
                assert_int_equal(lab_bits(lab_row(y, r)[k]), lab_bits(3.5f * want[k]));
        }
        mem_free(file);
        mem_free(w.data);
        mem_free(y.p);
    }
}

static void weights_are_checked(void **state)
{
    (void)state;
    struct glim_err e;
    size_t n;
    assert_int_equal(op_ref.weight_bytes(quant_format(QT_Q6_K), 3, 512, &n, &e), GLIM_OK);
    assert_int_equal(n, 3 * 2 * 210);
    assert_int_not_equal(op_ref.weight_bytes(quant_format(QT_I32), 3, 512, &n, &e), GLIM_OK);
    assert_non_null(strstr(e.message, "have I32"));
    assert_int_not_equal(op_ref.weight_bytes(quant_format(QT_Q6_K), 3, 500, &n, &e), GLIM_OK);
    assert_non_null(strstr(e.message, "500"));
    assert_string_equal(op_ref.kernel_name(quant_format(QT_F32), ACT_F32), "ref f32");
    assert_string_equal(op_ref.kernel_name(quant_format(QT_Q4_K), ACT_Q8), "ref int8");
    assert_string_equal(op_ref.kernel_name(quant_format(QT_Q4_K), ACT_MIXED), "ref int8+16");
    assert_string_equal(op_ref.kernel_name(quant_format(QT_Q4_K), ACT_Q16), "ref int16");
}

/* ---- norms ---- */

static void check_norm(const float *y, const float *x, const float *w, uint32_t dim, double eps)
{
    double sum = 0;
    for (uint32_t j = 0; j < dim; j++)
        sum += (double)x[j] * (double)x[j];
    double s = 1 / sqrt(sum / dim + eps);
    for (uint32_t j = 0; j < dim; j++) {
        double want = (double)x[j] * s * (w != NULL ? (double)w[j] : 1);
        near((double)y[j], want, fabs(want), 1e-6, "norm");
    }
}

static void norms(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 15, 16, 40, 576};
    struct rng g = {3};
    float w[576];
    rng_fill(&g, w, 576, 1);
    for (size_t i = 0; i < COUNT(dims); i++)
        for (int weightless = 0; weightless < 2; weightless++) {
            const float *wp = weightless ? NULL : w;
            struct rows x = lab_rows_random(&g, 3, dims[i], 1, 1e-3f), y = lab_rows(3, dims[i], 2);
            op_ref.rmsnorm(&lab.ref, y, x, wp, 1e-6f);
            for (uint32_t r = 0; r < 3; r++)
                check_norm(lab_row(y, r), lab_row(x, r), wp, dims[i], (double)1e-6f);
            mem_free(x.p);
            mem_free(y.p);
            struct rows heads = lab_rows_random(&g, 2, 3 * dims[i], 1, 1), before = lab_rows(2, 3 * dims[i], 0);
            lab_rows_copy(before, heads);
            lab_head_norm(&op_ref, &lab.ref, heads, 3, wp, 1e-5f);
            for (uint32_t r = 0; r < 2; r++)
                for (uint32_t k = 0; k < 3; k++)
                    check_norm(lab_row(heads, r) + k * dims[i], lab_row(before, r) + k * dims[i], wp, dims[i],
                               (double)1e-5f);
            mem_free(heads.p);
            mem_free(before.p);
        }
}

/* Sixteen lanes, then the tree. Lane 0 starts at 2^24, where each further 1 rounds away; the other lanes collect 33 and
 * are added to it in pairs: 2^24 + 33 rounds to 2^24 + 32, then + 66, + 132 and + 264 are exact. */
static void norm_sums_in_lanes(void **state)
{
    (void)state;
    enum { DIM = 33 * 16 };
    float x[DIM], y[DIM];
    for (int i = 0; i < DIM; i++)
        x[i] = 1;
    x[0] = 4096;
    op_ref.rmsnorm(&lab.ref, (struct rows){y, 1, DIM, DIM}, (struct rows){x, 1, DIM, DIM}, NULL, 0);
    float sum = 16777216.0f + 32 + 66 + 132 + 264;
    assert_int_equal(lab_bits(y[0]), lab_bits(4096 * (1.0f / sqrtf(sum / (float)DIM))));
}

/* ---- rope ---- */

static void rope(void **state)
{
    (void)state;
    enum { HEADS = 3, DIM = 20, FREQ = 7, N = 4 };
    struct rng g = {4};
    const int32_t pos[N] = {0, 1, 1000, 131071};
    float inv_freq[FREQ];
    for (int i = 0; i < FREQ; i++)
        inv_freq[i] = powf(500.0f, -(float)i / FREQ);
    struct rows t = lab_rows(N, 2 * FREQ, 1);
    op_ref.rope_table(&lab.ref, t, pos, inv_freq, 1.25f);
    for (uint32_t r = 0; r < N; r++)
        for (int i = 0; i < FREQ; i++) {
            float angle = (float)pos[r] * inv_freq[i];
            near((double)lab_row(t, r)[2 * i], 1.25 * cos((double)angle), 1.25, 6e-8, "cos");
            near((double)lab_row(t, r)[2 * i + 1], 1.25 * sin((double)angle), 1.25, 6e-8, "sin");
        }
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        struct rows x = lab_rows_random(&g, N, HEADS * DIM, 2, 1), before = lab_rows(N, HEADS * DIM, 0);
        lab_rows_copy(before, x);
        lab_rope(&op_ref, &lab.ref, x, HEADS, t, interleaved);
        for (uint32_t r = 0; r < N; r++)
            for (uint32_t e = 0; e < HEADS * DIM; e++) {
                uint32_t in_head = e % DIM;
                double want = (double)lab_row(before, r)[e];
                if (in_head < 2 * FREQ) {
                    uint32_t i = interleaved ? in_head / 2 : in_head % FREQ;
                    bool second = interleaved ? in_head % 2 : in_head >= FREQ;
                    uint32_t partner = interleaved ? e ^ 1 : /* DIM is even */
                                           second ? e - FREQ
                                                  : e + FREQ;
                    double other = (double)lab_row(before, r)[partner], c = (double)lab_row(t, r)[2 * i],
                           s = (double)lab_row(t, r)[2 * i + 1];
                    want = second ? want * c + other * s : want * c - other * s;
                }
                near((double)lab_row(x, r)[e], want, 6, 2e-7, "rope");
            }
        mem_free(x.p);
        mem_free(before.p);
    }
    mem_free(t.p);
}

/* ---- elementwise ---- */

static void elementwise(void **state)
{
    (void)state;
    enum { N = 5, DIM = 33 };
    struct rng g = {5};
    struct rows a = lab_rows_random(&g, N, DIM, 1, 3), b = lab_rows_random(&g, N, DIM, 4, 2), y = lab_rows(N, DIM, 2);
    for (int i = 0; i < 3; i++) {
        enum act_fn fn = lab_fns[i];
        op_ref.glu(&lab.ref, y, a, b, fn);
        for (uint32_t r = 0; r < N; r++)
            for (uint32_t j = 0; j < DIM; j++) {
                double x = (double)lab_row(a, r)[j], u = (double)lab_row(b, r)[j], v;
                if (fn == ACT_FN_SILU)
                    v = x / (1 + exp(-x));
                else if (fn == ACT_FN_GELU_TANH)
                    v = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
                else
                    v = 0.5 * x * (1 + erf(x / 1.4142135623730951));
                near((double)lab_row(y, r)[j], v * u, 10 + fabs(v * u), 1e-6, "glu");
            }
    }
    lab_rows_copy(y, a);
    op_ref.add(&lab.ref, y, b);
    for (uint32_t r = 0; r < N; r++)
        for (uint32_t j = 0; j < DIM; j++)
            assert_int_equal(lab_bits(lab_row(y, r)[j]), lab_bits(lab_row(a, r)[j] + lab_row(b, r)[j]));
    lab_rows_copy(y, a);
    op_ref.scale(&lab.ref, y, 0.37f);
    for (uint32_t r = 0; r < N; r++)
        for (uint32_t j = 0; j < DIM; j++)
            assert_int_equal(lab_bits(lab_row(y, r)[j]), lab_bits(lab_row(a, r)[j] * 0.37f));
    lab_rows_copy(y, a);
    op_ref.softcap(&lab.ref, y, 2.5f);
    for (uint32_t r = 0; r < N; r++)
        for (uint32_t j = 0; j < DIM; j++)
            near((double)lab_row(y, r)[j], 2.5 * tanh((double)lab_row(a, r)[j] / 2.5), 2.5, 3e-7, "softcap");
    static const uint32_t pick[] = {4, 0, 0};
    op_ref.gather(&lab.ref, lab_part(y, 0, 3, DIM), a, pick);
    for (uint32_t i = 0; i < 3; i++)
        assert_memory_equal(lab_row(y, i), lab_row(a, pick[i]), DIM * sizeof(float));
    mem_free(a.p);
    mem_free(b.p);
    mem_free(y.p);
}

/* ---- attention ---- */

enum { SEQS = 3, LEN = 70, PAGES = 5, POOL = SEQS * PAGES, KV_HEADS = 2, HEAD_DIM = 24, WIDTH = KV_HEADS * HEAD_DIM };

struct cache {
    struct kv_layer kv;
    uint32_t page[SEQS][PAGES];
    struct page_map map;
    struct rows k[SEQS], v[SEQS]; /* what was stored, as it reads back: [LEN, WIDTH] */
};

static float narrowed(float x, enum kv_type t)
{
    return t == KV_F32 ? x : t == KV_F16 ? f16_to_f32(f32_to_f16(x)) : bf16_to_f32(f32_to_bf16(x));
}

/* All three sequences, appended in ragged pieces: the rows of each launch come from all of them. */
static void cache_init(struct cache *c, struct rng *g, enum kv_type type)
{
    *c = (struct cache){.kv = {.type = type, .n_kv_head = KV_HEADS, .head_dim = HEAD_DIM}};
    c->kv.page_bytes = op_ref.kv_page_bytes(type, KV_HEADS, HEAD_DIM);
    assert_int_equal(c->kv.page_bytes, WIDTH * KV_PAGE * (type == KV_F32 ? 4 : 2));
    c->kv.k = lab_poison(lab_alloc(POOL * c->kv.page_bytes), POOL * c->kv.page_bytes);
    c->kv.v = lab_poison(lab_alloc(POOL * c->kv.page_bytes), POOL * c->kv.page_bytes);
    for (uint32_t i = 0; i < POOL; i++)
        c->page[i % SEQS][i / SEQS] = i * 7 % POOL;
    c->map = (struct page_map){.page = c->page[0], .stride = PAGES};
    for (int s = 0; s < SEQS; s++) {
        c->k[s] = lab_rows_random(g, LEN, WIDTH, 0, 1);
        c->v[s] = lab_rows_random(g, LEN, WIDTH, 0, 1);
    }
    static const uint32_t cut[] = {0, 1, 18, 64, LEN};
    for (size_t piece = 0; piece + 1 < COUNT(cut); piece++) {
        uint32_t n = cut[piece + 1] - cut[piece];
        struct rows k = lab_rows(SEQS * n, WIDTH, 3), v = lab_rows(SEQS * n, WIDTH, 1);
        struct span span[SEQS];
        for (uint32_t s = 0; s < SEQS; s++) {
            span[s] = (struct span){.row = s * n, .n = n, .pos = cut[piece], .seq = s};
            lab_rows_copy(lab_part(k, s * n, n, WIDTH), lab_part(c->k[s], cut[piece], n, WIDTH));
            lab_rows_copy(lab_part(v, s * n, n, WIDTH), lab_part(c->v[s], cut[piece], n, WIDTH));
        }
        struct batch b = {.n_row = SEQS * n, .n_span = SEQS, .span = span};
        lab_kv_append(&op_ref, &lab.ref, &c->kv, &b, c->map, k, v);
        mem_free(k.p);
        mem_free(v.p);
    }
    for (int s = 0; s < SEQS; s++)
        for (size_t i = 0; i < LEN * WIDTH; i++) {
            c->k[s].p[i] = narrowed(c->k[s].p[i], type);
            c->v[s].p[i] = narrowed(c->v[s].p[i], type);
        }
}

static void cache_free(struct cache *c)
{
    mem_free(c->kv.k);
    mem_free(c->kv.v);
    for (int s = 0; s < SEQS; s++) {
        mem_free(c->k[s].p);
        mem_free(c->v[s].p);
    }
}

/* Position p of sequence s lies in K at [page][head][d][token], in V at [page][head][token][d]. */
static void kv_layout(void **state)
{
    (void)state;
    struct rng g = {6};
    struct cache c;
    cache_init(&c, &g, KV_F32);
    for (uint32_t s = 0; s < SEQS; s++)
        for (uint32_t p = 0; p < LEN; p++)
            for (uint32_t h = 0; h < KV_HEADS; h++)
                for (uint32_t d = 0; d < HEAD_DIM; d++) {
                    size_t page = c.page[s][p / 16] * c.kv.page_bytes / sizeof(float);
                    float k = ((float *)c.kv.k)[page + (h * HEAD_DIM + d) * 16 + p % 16];
                    float v = ((float *)c.kv.v)[page + (h * 16 + p % 16) * HEAD_DIM + d];
                    assert_int_equal(lab_bits(k), lab_bits(lab_row(c.k[s], p)[h * HEAD_DIM + d]));
                    assert_int_equal(lab_bits(v), lab_bits(lab_row(c.v[s], p)[h * HEAD_DIM + d]));
                }
    cache_free(&c);
}

/* softmax(scale q k) v over what position p may see, in double. */
static void textbook(double *y, const float *q, const struct cache *c, uint32_t seq, uint32_t p, uint32_t kv_head,
                     const struct attn_params *a)
{
    double e[LEN], sum = 0;
    uint32_t lo = a->window != 0 && p + 1 > a->window ? p + 1 - a->window : 0;
    for (uint32_t t = lo; t <= p; t++) {
        double s = 0;
        for (uint32_t d = 0; d < HEAD_DIM; d++)
            s += (double)q[d] * (double)lab_row(c->k[seq], t)[kv_head * HEAD_DIM + d];
        s *= (double)a->scale;
        if (a->softcap != 0)
            s = (double)a->softcap * tanh(s / (double)a->softcap);
        e[t] = exp(s);
        sum += e[t];
    }
    for (uint32_t d = 0; d < HEAD_DIM; d++) {
        y[d] = 0;
        for (uint32_t t = lo; t <= p; t++)
            y[d] += e[t] / sum * (double)lab_row(c->v[seq], t)[kv_head * HEAD_DIM + d];
    }
}

static void attention(void **state)
{
    (void)state;
    static const struct attn_params variants[] = {
        {.n_head = 2, .scale = 0.2f},
        {.n_head = 6, .scale = 0.2f, .window = 1},
        {.n_head = 4, .scale = 0.3f, .window = 16, .softcap = 1.5f},
        {.n_head = 4, .scale = 2.0f, .window = 21},
        {.n_head = 8, .scale = 0.2f, .window = 4000},
    };
    static const struct span spans[] = {{.row = 0, .n = 20, .pos = 0, .seq = 1},
                                        {.row = 20, .n = 1, .pos = 69, .seq = 0},
                                        {.row = 21, .n = 9, .pos = 27, .seq = 2}};
    enum { ROWS = 30 };
    for (int type = 0; type < 3; type++) {
        struct rng g = {7};
        struct cache c;
        cache_init(&c, &g, lab_kv_types[type]);
        for (size_t i = 0; i < COUNT(variants); i++) {
            const struct attn_params *a = &variants[i];
            struct rows q = lab_rows_random(&g, ROWS, a->n_head * HEAD_DIM, 1, 1),
                        y = lab_rows(ROWS, a->n_head * HEAD_DIM, 2);
            struct batch b = {.n_row = ROWS, .n_span = COUNT(spans), .span = spans};
            op_ref.attention(&lab.ref, y, q, &c.kv, &b, c.map, a);
            for (size_t s = 0; s < COUNT(spans); s++)
                for (uint32_t k = 0; k < spans[s].n; k++)
                    for (uint32_t h = 0; h < a->n_head; h++) {
                        double want[HEAD_DIM];
                        uint32_t r = spans[s].row + k, at = h * HEAD_DIM;
                        textbook(want, lab_row(q, r) + at, &c, spans[s].seq, spans[s].pos + k,
                                 h / (a->n_head / KV_HEADS), a);
                        for (uint32_t d = 0; d < HEAD_DIM; d++)
                            near((double)lab_row(y, r)[at + d], want[d], 1, 4e-6, "attention");
                    }
            mem_free(q.p);
            mem_free(y.p);
        }
        cache_free(&c);
    }
}

/* ---- life ---- */

static void opens_and_copes(void **state)
{
    (void)state;
    struct op_ctx c;
    struct glim_err e;
    for (long n = 1;; n++) {
        mem_fail_after(n);
        glim_status st = op_ref.open(&c, &lab_limits, lab.one, &e);
        mem_fail_after(0);
        if (st == GLIM_OK)
            break;
        assert_true(n < 10);
        assert_int_equal(e.status, st);
        assert_non_null(strstr(e.message, "need"));
        assert_null(c.priv);
    }
    assert_ptr_equal(c.be, &op_ref);
    assert_int_equal(op_ref.sync(&c, &e), GLIM_OK);
    op_ref.close(&c);
    op_ref.close(&c); /* twice is harmless */
    assert_true(op_ref.scratch_bytes(&lab_limits, 1) >= 1024 * 6);
}

int main(void)
{
    if (lab_open() != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear),
        cmocka_unit_test(plain_products_keep_their_order),
        cmocka_unit_test(embed),
        cmocka_unit_test(weights_are_checked),
        cmocka_unit_test(norms),
        cmocka_unit_test(norm_sums_in_lanes),
        cmocka_unit_test(rope),
        cmocka_unit_test(elementwise),
        cmocka_unit_test(kv_layout),
        cmocka_unit_test(attention),
        cmocka_unit_test(opens_and_copes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lab_close();
    return failed;
}
