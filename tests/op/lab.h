/* What the op tests share: reproducible numbers, weights of every format, contexts, and comparison of bits.
 *
 * A "lab" runs cases against one or more devices under test (a backend on a crew of some size) and op_ref. Include it
 * once a test program. Sanitizer builds run fewer sizes (LAB_SMALL). */
#ifndef GLIM_TESTS_OP_LAB_H
#define GLIM_TESTS_OP_LAB_H

#include "base/mem.h"
#include "op/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAB_SMALL 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LAB_SMALL 1
#endif
#endif
#ifndef LAB_SMALL
#define LAB_SMALL 0
#endif

/* Every value of the enums that ops take. */
static const enum act_fn lab_fns[] = {ACT_FN_SILU, ACT_FN_GELU_TANH, ACT_FN_GELU_ERF};
static const enum kv_type lab_kv_types[] = {KV_F32, KV_F16, KV_BF16, KV_Q8};

/* ---- numbers ---- */

struct rng {
    uint64_t s;
};

static inline uint32_t rng_next(struct rng *r)
{
    r->s += 0x9E3779B97F4A7C15u;
    uint64_t z = (r->s ^ r->s >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)(z >> 32);
}

static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
    return (uint32_t)((uint64_t)rng_next(r) * n >> 32);
}

/* Bell-shaped, deviation about 1, at most 3.5. */
static inline float rng_normal(struct rng *r)
{
    float s = 0;
    for (int i = 0; i < 4; i++)
        s += (float)rng_next(r) * 0x1p-32f;
    return (s - 2.0f) * 1.75f;
}

static inline void rng_fill(struct rng *r, float *p, size_t n, float size)
{
    for (size_t i = 0; i < n; i++)
        p[i] = rng_normal(r) * size;
}

/* ---- memory ---- */

static inline void *lab_alloc(size_t n)
{
    void *p = mem_aligned(64, n);
    assert_non_null(p);
    return p;
}

/* n bytes of 0xFF: NaN as f32, f16 and bf16. */
static inline void *lab_poison(void *p, size_t n)
{
    return memset(p, 0xFF, n);
}

/* Rows with a gap after each; all of it is NaN until filled. Free r.p. */
static inline struct rows lab_rows(uint32_t n, uint32_t dim, size_t gap)
{
    struct rows r = {.n = n, .dim = dim, .stride = dim + gap};
    size_t bytes = (n * r.stride + 1) * sizeof(float);
    r.p = lab_poison(lab_alloc(bytes), bytes);
    return r;
}

static inline float *lab_row(struct rows r, uint32_t i)
{
    return r.p + i * r.stride;
}

static inline struct rows lab_rows_random(struct rng *g, uint32_t n, uint32_t dim, size_t gap, float size)
{
    struct rows r = lab_rows(n, dim, gap);
    for (uint32_t i = 0; i < n; i++)
        rng_fill(g, lab_row(r, i), dim, size);
    return r;
}

static inline void lab_rows_copy(struct rows to, struct rows from)
{
    for (uint32_t i = 0; i < to.n; i++)
        memcpy(lab_row(to, i), lab_row(from, i), to.dim * sizeof(float));
}

/* The first n rows and dim columns. */
static inline struct rows lab_part(struct rows r, uint32_t first, uint32_t n, uint32_t dim)
{
    return (struct rows){.p = lab_row(r, first), .n = n, .dim = dim, .stride = r.stride};
}

/* ---- comparison ---- */

static inline uint32_t lab_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* The same bits, or NaN both (which NaN is the processor's business). */
static inline bool lab_same(float a, float b)
{
    return lab_bits(a) == lab_bits(b) || (isnan(a) && isnan(b));
}

/* Fails with the first place where bits differ, or where the gap behind a row was written. The text says which case. */
__attribute__((format(printf, 3, 4))) static inline void lab_equal(struct rows got, struct rows want, const char *fmt,
                                                                   ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    for (uint32_t r = 0; r < got.n; r++) {
        for (uint32_t j = 0; j < got.dim; j++) {
            float g = lab_row(got, r)[j], w = lab_row(want, r)[j];
            if (!lab_same(g, w))
                fail_msg("%s: [%u,%u] is %.9g (%08x), op_ref says %.9g (%08x)", what, r, j, (double)g, lab_bits(g),
                         (double)w, lab_bits(w));
        }
        for (size_t j = got.dim; j < got.stride && r + 1 < got.n; j++)
            if (lab_bits(lab_row(got, r)[j]) != 0xFFFFFFFF)
                fail_msg("%s: wrote behind row %u, at column %zu", what, r, j);
    }
}

/* ---- weights ---- */

/* Where a format's scales lie; everything else in a block is quants. */
struct lab_scale {
    enum quant_type type;
    int f16[2];       /* offsets of f16 fields, -1 = none */
    int fixed, bytes; /* range of other scale bytes that extreme rows keep random */
};
static const struct lab_scale lab_scales[] = {
    {QT_Q4_0, {0, -1}, 0, 0},   {QT_Q4_1, {0, 2}, 0, 0},       {QT_Q5_0, {0, -1}, 0, 0},     {QT_Q5_1, {0, 2}, 0, 0},
    {QT_Q8_0, {0, -1}, 0, 0},   {QT_Q2_K, {80, 82}, 0, 16},    {QT_Q3_K, {108, -1}, 96, 12}, {QT_Q4_K, {0, 2}, 4, 12},
    {QT_Q5_K, {0, 2}, 4, 12},   {QT_Q6_K, {208, -1}, 192, 16}, {QT_IQ4_NL, {0, -1}, 0, 0},   {QT_IQ4_XS, {0, -1}, 2, 6},
    {QT_MXFP4, {-1, -1}, 0, 1}, {QT_NVFP4, {-1, -1}, 0, 4},
};

/* One block: quants are random, or `quant` in every byte when it is not negative; scales are random, moderate, of both
 * signs and sometimes zero. */
static inline void lab_block(struct rng *g, const struct quant_format *f, uint8_t *p, int quant)
{
    const struct lab_scale *s = lab_scales;
    while (s->type != f->type)
        s++;
    for (int i = 0; i < f->block_bytes; i++) {
        bool scale = i >= s->fixed && i < s->fixed + s->bytes;
        p[i] = (uint8_t)(quant < 0 || scale ? (int)(rng_next(g) & 255) : quant);
    }
    for (int i = 0; i < 2; i++)
        if (s->f16[i] >= 0) {
            uint16_t h = f32_to_f16(rng_below(g, 20) == 0 ? 0 : rng_normal(g) * 0.02f);
            memcpy(p + s->f16[i], &h, 2);
        }
    if (f->type == QT_MXFP4)
        p[0] = (uint8_t)(116 + rng_below(g, 8));
    if (f->type == QT_NVFP4)
        for (int i = 0; i < 4; i++)
            p[i] = (uint8_t)rng_below(g, 0x48);
}

/* n_out rows of n_in elements in file layout. The first rows carry the extreme quants, where narrow integer arithmetic
 * would overflow. Free the result. */
static inline uint8_t *lab_matrix(struct rng *g, const struct quant_format *f, uint32_t n_out, uint32_t n_in,
                                  size_t *row_bytes)
{
    static const int extreme[] = {0xFF, 0x00, 0x80, 0x7F, 0x88};
    assert_int_equal(quant_row_bytes(f, n_in, row_bytes, NULL), GLIM_OK);
    uint8_t *m = lab_alloc(n_out * *row_bytes + 1);
    for (uint32_t j = 0; j < n_out; j++) {
        uint8_t *p = m + j * *row_bytes;
        if (f->group == 0) {
            for (uint32_t k = 0; k < n_in; k++) {
                float v = rng_normal(g) * 0.05f;
                f->encode(&v, p + (size_t)k * f->block_bytes, 1);
            }
            continue;
        }
        for (uint32_t k = 0; k < n_in / f->block_elems; k++, p += f->block_bytes)
            lab_block(g, f, p, j < sizeof extreme / sizeof *extreme ? extreme[j] : -1);
    }
    return m;
}

/* Activation rows that look for trouble in their first nine, and bell-shaped ones after them. */
static inline struct rows lab_activations(struct rng *g, uint32_t n, uint32_t dim, size_t gap)
{
    struct rows x = lab_rows_random(g, n, dim, gap, 1.0f);
    for (uint32_t k = 0; k < dim; k++)
        for (uint32_t r = 0; r < n && r < 9; r++) {
            float *v = &lab_row(x, r)[k];
            switch (r) {
            case 1: /* the largest level everywhere, then the most negative one */
                *v = 1.0f;
                break;
            case 2:
                *v = -3.0f;
                break;
            case 3: /* some runs are all zero, -0 included */
                *v = k / 32 % 2 ? *v : k % 2 ? 0.0f : -0.0f;
                break;
            case 4: /* too small to have a level; too small for f32's normal range */
                *v = k / 32 % 2 ? *v * 1e-32f : *v * 1e-41f;
                break;
            case 5: /* one outlier */
                *v = k == dim / 2 ? 1e4f : *v * 1e-3f;
                break;
            case 6:
                *v *= 1e9f;
                break;
            case 7: /* alternating ends */
                *v = k % 2 ? 2.0f : -2.0f;
                break;
            case 8: /* a NaN stays in its row */
                *v = k == dim - 1 ? NAN : *v;
                break;
            default: /* 0: an ordinary row, for launches of one */
                break;
            }
        }
    return x;
}

/* ---- devices under test ---- */

struct dut {
    struct op_ctx ctx;
    struct crew *crew;
    int n_thread;
    void (*poison)(struct op_ctx *); /* fills scratch with NaN; NULL = cannot */
};

enum { LAB_DUT_MAX = 16 };
struct lab {
    struct op_ctx ref;
    struct crew *one; /* crew of one, for the reference and for packing */
    struct dut dut[LAB_DUT_MAX];
    int n_dut;
};
static struct lab lab;

static const struct op_limits lab_limits = {.max_rows = 160, .max_in = 1024, .max_head = 16, .max_head_dim = 256};

static inline int lab_open(void)
{
    struct glim_err e;
    if (crew_create(&lab.one, 1, &e) != GLIM_OK || op_ref.open(&lab.ref, &lab_limits, lab.one, &e) != GLIM_OK)
        return -1;
    return 0;
}

static inline int lab_add(const struct backend *be, int n_thread, void (*poison)(struct op_ctx *))
{
    struct glim_err e;
    struct dut *d = &lab.dut[lab.n_dut];
    if (lab.n_dut == LAB_DUT_MAX || crew_create(&d->crew, n_thread, &e) != GLIM_OK)
        return -1;
    if (be->open(&d->ctx, &lab_limits, d->crew, &e) != GLIM_OK)
        return -1;
    d->n_thread = n_thread;
    d->poison = poison;
    lab.n_dut++;
    return 0;
}

static inline void lab_close(void)
{
    for (int i = 0; i < lab.n_dut; i++) {
        lab.dut[i].ctx.be->close(&lab.dut[i].ctx);
        crew_free(lab.dut[i].crew);
    }
    lab.n_dut = 0;
    op_ref.close(&lab.ref);
    crew_free(lab.one);
}

/* Scratch is NaN before a run; errors are none after it. */
static inline const struct backend *lab_ready(struct dut *d)
{
    if (d->poison != NULL)
        d->poison(&d->ctx);
    return d->ctx.be;
}

static inline void lab_done(struct dut *d)
{
    assert_int_equal(d->ctx.be->sync(&d->ctx, NULL), GLIM_OK);
}

/* The activation types a format takes: act[0, n). */
enum { LAB_ACTS = 3 };
static inline size_t lab_acts(const struct quant_format *f, enum act_type act[LAB_ACTS])
{
    act[0] = f->group == 0 ? ACT_F32 : ACT_Q8;
    act[1] = ACT_MIXED;
    act[2] = ACT_Q16;
    return f->group == 0 ? 1 : LAB_ACTS;
}

/* A weight in the backend's layout, from file layout. Laid out in two parts when it has more than 64 rows. */
static inline struct weight lab_weight(const struct backend *be, const struct quant_format *f, enum act_type act,
                                       const uint8_t *file, uint32_t n_out, uint32_t n_in)
{
    enum { GUARD = 64 };
    struct weight w = {.fmt = f, .n_out = n_out, .n_in = n_in, .act = act};
    struct glim_err e;
    size_t row;
    if (be->weight_bytes(f, n_out, n_in, &w.bytes, &e) != GLIM_OK)
        fail_msg("%s refuses %s [%u,%u]: %s", be->name, f->name, n_out, n_in, e.message);
    assert_int_equal(quant_row_bytes(f, n_in, &row, NULL), GLIM_OK);
    w.data = lab_alloc(w.bytes + GUARD);
    lab_poison(w.data, w.bytes + GUARD);
    uint32_t cut = n_out > 64 ? 64 : n_out;
    be->weight_pack(lab.one, &w, file, 0, cut);
    if (cut < n_out)
        be->weight_pack(lab.one, &w, file + cut * row, cut, n_out - cut);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(((uint8_t *)w.data)[w.bytes + i], 0xFF);
    return w;
}

/* ---- attn_prepare, one step at a time ---- */

static inline void lab_head_norm(const struct backend *be, struct op_ctx *c, struct rows x, uint32_t n_head,
                                 const float *w, float eps)
{
    be->attn_prepare(c, &(struct attn_prepare){.q = x, .n_head = n_head, .norm = true, .q_norm = w, .eps = eps});
}

static inline void lab_rope(const struct backend *be, struct op_ctx *c, struct rows x, uint32_t n_head, struct rows t,
                            bool interleaved)
{
    be->attn_prepare(c, &(struct attn_prepare){.q = x, .n_head = n_head, .rope = t, .interleaved = interleaved});
}

static inline void lab_kv_append(const struct backend *be, struct op_ctx *c, const struct kv_layer *kv,
                                 const struct batch *b, struct page_map map, struct rows k, struct rows v)
{
    be->attn_prepare(
        c, &(struct attn_prepare){.k = k, .v = v, .n_kv_head = kv->n_kv_head, .kv = kv, .batch = b, .map = map});
}

#endif
