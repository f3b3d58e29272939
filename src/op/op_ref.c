/* The reference backend: op.h in scalar C, one thread, one row after another.
 *
 * It is the definition of the bits: a kernel of another backend is right when its output equals this one's. So nothing
 * here is clever, every sum is written in the order it is done in, and every function below is one formula of op.h.
 * Weights stay in file layout. KV pages and attention are in op_ref_attention.c.
 *
 * Compiled without contraction: a * b + c is two roundings, fmaf one. */
#include "op/op_ref.h"

#include "base/arith.h"
#include "op/op_math.h"

#include <inttypes.h>

/* ---- life ---- */

struct ref_priv {
    struct arena arena; /* the arrays below are cut from it */
    int8_t *lo, *hi;    /* one activation row in integer form, [max_in] rounded up to runs of 32 */
    float *d;           /* [runs] */
    int32_t *sum16;     /* [2 * runs] */
    float *w;           /* one decoded weight row, [max_in] */
    float *x;           /* one made input row, [max_in] */
    struct ref_head head;
};

static struct ref_priv *ref_of(const struct op_ctx *c)
{
    return c->priv;
}

struct ref_head ref_head_of(const struct op_ctx *c)
{
    return ref_of(c)->head;
}

/* Six arrays of a row and three of a head, and an arena's rounding of each. */
static size_t ref_scratch_bytes(const struct op_limits *l, int n_thread)
{
    (void)n_thread;
    size_t run = ceil_div(l->max_in, 32);
    return run * (32 + 32 + 4 + 8 + 128 + 128) + (size_t)6 * kv8_dim(l->max_head_dim) + (size_t)9 * 64;
}

static void ref_close(struct op_ctx *c)
{
    struct ref_priv *p = c->priv;
    if (p == NULL)
        return;
    arena_fini(&p->arena);
    mem_free(p);
    c->priv = NULL;
}

static glim_status ref_open(struct op_ctx *c, const struct op_limits *l, struct crew *crew, struct glim_err *e)
{
    *c = (struct op_ctx){.be = &op_ref, .crew = crew};
    struct ref_priv *p = mem_calloc(1, sizeof *p);
    if (p == NULL)
        return err_nomem(e, "reference backend", sizeof *p);
    c->priv = p;
    glim_status st = arena_init(&p->arena, ref_scratch_bytes(l, 1), "scratch of the reference backend", e);
    if (st != GLIM_OK) {
        ref_close(c);
        return st;
    }
    size_t run = ceil_div(l->max_in, 32);
    p->hi = arena_take(&p->arena, run * 32);
    p->lo = arena_take(&p->arena, run * 32);
    p->d = arena_take(&p->arena, run * sizeof(float));
    p->sum16 = arena_take(&p->arena, run * 2 * sizeof(int32_t));
    p->w = arena_take(&p->arena, run * 32 * sizeof(float));
    p->x = arena_take(&p->arena, run * 32 * sizeof(float));
    size_t dim = kv8_dim(l->max_head_dim);
    p->head.code = arena_take(&p->arena, dim);
    p->head.d = arena_take(&p->arena, dim / KV8_RUN * sizeof(float));
    p->head.o = arena_take(&p->arena, dim * sizeof(float));
    return GLIM_OK;
}

static glim_status ref_sync(struct op_ctx *c, struct glim_err *e)
{
    (void)c;
    (void)e;
    return GLIM_OK;
}

/* ---- weights: as in the file ---- */

static size_t row_bytes(const struct quant_format *f, uint32_t n_in)
{
    return (size_t)(n_in / f->block_elems) * f->block_bytes;
}

static glim_status ref_weight_bytes(const struct quant_format *f, uint32_t n_out, uint32_t n_in, size_t *bytes,
                                    struct glim_err *e)
{
    size_t row;
    if (!f->is_weight)
        return err_set(e, GLIM_REFUSED,
                       "cannot use a tensor as a weight: reference backend: have %s, need a weight format", f->name);
    TRY(quant_row_bytes(f, n_in, &row, e));
    if (!mul_size(row, n_out, bytes))
        return err_set(e, GLIM_REFUSED,
                       "cannot size a weight: reference backend: have %" PRIu32
                       " rows of %zu bytes, need a total below "
                       "2^64",
                       n_out, row);
    return GLIM_OK;
}

static void ref_weight_pack(struct crew *crew, struct weight *w, const void *src, uint32_t row, uint32_t n_row)
{
    (void)crew;
    size_t bytes = row_bytes(w->fmt, w->n_in);
    memcpy((uint8_t *)w->data + row * bytes, src, n_row * bytes);
}

static const void *weight_row(const struct weight *w, uint32_t j)
{
    return (const uint8_t *)w->data + j * row_bytes(w->fmt, w->n_in);
}

static void decode_row(const struct weight *w, uint32_t j, float *dst)
{
    w->fmt->decode(weight_row(w, j), dst, w->n_in / w->fmt->block_elems);
}

static const char *ref_kernel_name(const struct quant_format *f, enum act_type act)
{
    (void)f;
    switch (act) {
    case ACT_F32:
        return "ref f32";
    case ACT_Q8:
        return "ref int8";
    case ACT_MIXED:
        return "ref int8+16";
    case ACT_Q16:
        return "ref int16";
    }
    return "ref";
}

/* ---- lookup and products ---- */

static void ref_embed(struct op_ctx *c, struct rows y, const struct weight *table, const int32_t *token, float scale)
{
    (void)c;
    for (uint32_t r = 0; r < y.n; r++) {
        float *out = row_at(y, r);
        decode_row(table, (uint32_t)token[r], out);
        for (uint32_t i = 0; i < y.dim; i++)
            out[i] = scale * out[i];
    }
}

/* What happens to a product on its way into y. */
static void finish(const struct linear_job *job, uint32_t r, uint32_t j, float v)
{
    float *y = row_at(job->y, r) + j;
    if (job->bias != NULL)
        v = v + job->bias[j];
    *y = job->add ? *y + v : v;
}

/* acc = fma(x_k, w_k, acc), k ascending. */
static void linear_plain(struct ref_priv *p, const struct linear_job *job, struct rows x)
{
    for (uint32_t j = 0; j < job->w->n_out; j++) {
        decode_row(job->w, j, p->w);
        for (uint32_t r = 0; r < x.n; r++) {
            const float *in = row_at(x, r);
            float acc = 0;
            for (uint32_t k = 0; k < job->w->n_in; k++)
                acc = fmaf(in[k], p->w[k], acc);
            finish(job, r, j, acc);
        }
    }
}

static void linear_quantised(struct ref_priv *p, const struct linear_job *job, struct rows x)
{
    const struct weight *w = job->w;
    struct act_row act = {.lo = p->lo, .hi = p->hi, .d = p->d, .sum16 = p->sum16};
    for (uint32_t r = 0; r < x.n; r++) {
        act_encode(row_at(x, r), w->n_in, act_cap(w->act), p->lo, p->hi, p->d, p->sum16);
        for (uint32_t j = 0; j < w->n_out; j++)
            finish(job, r, j, quant_dot(w->fmt, weight_row(w, j), &act, w->n_in));
    }
}

static void ref_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x)
{
    for (uint32_t i = 0; i < n_job; i++) {
        if (job[i].w->act == ACT_F32)
            linear_plain(ref_of(c), &job[i], x);
        else
            linear_quantised(ref_of(c), &job[i], x);
    }
}

/* ---- norms ---- */

/* y = x * s (* w), s = 1 / sqrt(mean of squares + eps). */
static void norm(float *y, const float *x, const float *w, uint32_t dim, float eps)
{
    float lane[16] = {0};
    for (uint32_t j = 0; j < dim; j++)
        lane[j % 16] = fmaf(x[j], x[j], lane[j % 16]);
    float s = 1.0f / sqrtf(op_sum16(lane) / (float)dim + eps);
    for (uint32_t j = 0; j < dim; j++)
        y[j] = w != NULL ? (x[j] * s) * w[j] : x[j] * s;
}

static void ref_rmsnorm(struct op_ctx *c, struct rows y, struct rows x, const float *w, float eps)
{
    (void)c;
    for (uint32_t r = 0; r < x.n; r++)
        norm(row_at(y, r), row_at(x, r), w, x.dim, eps);
}

static void head_norm(struct rows x, uint32_t n_head, const float *w, float eps)
{
    uint32_t head_dim = x.dim / n_head;
    for (uint32_t r = 0; r < x.n; r++)
        for (uint32_t h = 0; h < n_head; h++) {
            float *head = row_at(x, r) + h * head_dim;
            norm(head, head, w, head_dim, eps);
        }
}

/* ---- heads ---- */

static void ref_rope_table(struct op_ctx *c, struct rows t, const int32_t *pos, const float *inv_freq, float mscale)
{
    (void)c;
    for (uint32_t r = 0; r < t.n; r++)
        for (uint32_t i = 0; i < t.dim / 2; i++) {
            float f = (float)pos[r] * inv_freq[i];
            row_at(t, r)[2 * i] = (float)(cos((double)f) * (double)mscale);
            row_at(t, r)[2 * i + 1] = (float)(sin((double)f) * (double)mscale);
        }
}

static void turn(struct rows x, uint32_t n_head, struct rows t, bool interleaved)
{
    uint32_t head_dim = x.dim / n_head, n_freq = t.dim / 2;
    for (uint32_t r = 0; r < x.n; r++)
        for (uint32_t h = 0; h < n_head; h++)
            for (uint32_t i = 0; i < n_freq; i++) {
                float *head = row_at(x, r) + h * head_dim;
                float *a = head + (interleaved ? 2 * i : i), *b = head + (interleaved ? 2 * i + 1 : i + n_freq);
                float cosine = row_at(t, r)[2 * i], sine = row_at(t, r)[2 * i + 1];
                float x0 = *a, x1 = *b;
                *a = fmaf(x0, cosine, -(x1 * sine));
                *b = fmaf(x1, cosine, x0 * sine);
            }
}

static void ref_heads(const struct attn_prepare *p, struct rows x, uint32_t n_head, const float *w)
{
    if (p->norm)
        head_norm(x, n_head, w, p->eps);
    if (p->rope.p)
        turn(x, n_head, p->rope, p->interleaved);
}

static void ref_attn_prepare(struct op_ctx *c, const struct attn_prepare *p)
{
    (void)c;
    if (p->q.n > 0)
        ref_heads(p, p->q, p->n_head, p->q_norm);
    if (p->k.n > 0)
        ref_heads(p, p->k, p->n_kv_head, p->k_norm);
    if (p->k.n > 0)
        ref_kv_append(p);
}

/* ---- elementwise ---- */

static void ref_add(struct op_ctx *c, struct rows y, struct rows x)
{
    (void)c;
    for (uint32_t r = 0; r < y.n; r++)
        for (uint32_t j = 0; j < y.dim; j++)
            row_at(y, r)[j] = row_at(y, r)[j] + row_at(x, r)[j];
}

static float act(enum act_fn fn, float x)
{
    switch (fn) {
    case ACT_FN_SILU:
        return op_silu(x);
    case ACT_FN_GELU_TANH:
        return op_gelu_tanh(x);
    case ACT_FN_GELU_ERF:
        return op_gelu_erf(x);
    }
    return x;
}

static void ref_glu(struct op_ctx *c, struct rows y, struct rows g, struct rows u, enum act_fn fn)
{
    (void)c;
    for (uint32_t r = 0; r < y.n; r++)
        for (uint32_t j = 0; j < y.dim; j++)
            row_at(y, r)[j] = act(fn, row_at(g, r)[j]) * row_at(u, r)[j];
}

static void ref_softcap(struct op_ctx *c, struct rows x, float cap)
{
    (void)c;
    for (uint32_t r = 0; r < x.n; r++)
        for (uint32_t j = 0; j < x.dim; j++)
            row_at(x, r)[j] = cap * op_tanh(row_at(x, r)[j] / cap);
}

static void ref_scale(struct op_ctx *c, struct rows x, float s)
{
    (void)c;
    for (uint32_t r = 0; r < x.n; r++)
        for (uint32_t j = 0; j < x.dim; j++)
            row_at(x, r)[j] = row_at(x, r)[j] * s;
}

static void ref_gather(struct op_ctx *c, struct rows y, struct rows x, const uint32_t *row)
{
    (void)c;
    for (uint32_t i = 0; i < y.n; i++)
        memcpy(row_at(y, i), row_at(x, row[i]), y.dim * sizeof(float));
}

/* ---- products of rows made on the way ---- */

/* Row r of the jobs' outputs from the row in p->x. */
static void linear_made(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, uint32_t dim, uint32_t r)
{
    struct rows x = {.p = ref_of(c)->x, .n = 1, .dim = dim, .stride = dim};
    for (uint32_t i = 0; i < n_job; i++) {
        struct linear_job one = job[i];
        one.y.p = row_at(one.y, r);
        one.y.n = 1;
        ref_linear(c, &one, 1, x);
    }
}

static void ref_norm_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x,
                            const float *w, float eps)
{
    for (uint32_t r = 0; r < x.n; r++) {
        norm(ref_of(c)->x, row_at(x, r), w, x.dim, eps);
        linear_made(c, job, n_job, x.dim, r);
    }
}

static void ref_glu_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows g, struct rows u,
                           enum act_fn fn)
{
    for (uint32_t r = 0; r < g.n; r++) {
        for (uint32_t j = 0; j < g.dim; j++)
            ref_of(c)->x[j] = act(fn, row_at(g, r)[j]) * row_at(u, r)[j];
        linear_made(c, job, n_job, g.dim, r);
    }
}

const struct backend op_ref = {
    .name = "ref",
    .scratch_bytes = ref_scratch_bytes,
    .open = ref_open,
    .close = ref_close,
    .sync = ref_sync,
    .weight_bytes = ref_weight_bytes,
    .weight_pack = ref_weight_pack,
    .kv_page_bytes = ref_kv_page_bytes,
    .kernel_name = ref_kernel_name,
    .embed = ref_embed,
    .rmsnorm = ref_rmsnorm,
    .add = ref_add,
    .linear = ref_linear,
    .norm_linear = ref_norm_linear,
    .glu_linear = ref_glu_linear,
    .rope_table = ref_rope_table,
    .attn_prepare = ref_attn_prepare,
    .attention = ref_attention,
    .glu = ref_glu,
    .softcap = ref_softcap,
    .scale = ref_scale,
    .gather = ref_gather,
};
