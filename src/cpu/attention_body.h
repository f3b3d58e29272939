/* Inner kernels of attention; included by attention_<isa>.c after its lanes.
 *
 * scores and values are the same register tile: nq queries times nv vectors of accumulators, one broadcast of a query's
 * number (or of its e) against nv vectors of K (or V) a step. In scores a vector is the sixteen tokens of a page, in
 * values sixteen dims of one token. nq, nv and the cache's type are constants of each instance, so the tile stays in
 * registers. */
#include "cpu/attention_q8.h"
#include "cpu/unroll.h"
#include "cpu/lanes_math.h"

enum { MAX_Q = 6, MAX_V = 4, FETCH_V = 4 };

LANES_INLINE vf load_as(enum kv_type type, const void *p, size_t i)
{
    switch (type) {
    case KV_F32:
        return v_load((const float *)p + i);
    case KV_F16:
        return v_load_f16((const uint16_t *)p + i);
    case KV_BF16:
        return v_load_bf16((const uint16_t *)p + i);
    case KV_Q8:
        break;
    }
    return v_set(0);
}

LANES_INLINE vf load_as_n(enum kv_type type, const void *p, size_t i, size_t n)
{
    switch (type) {
    case KV_F32:
        return v_load_n((const float *)p + i, n);
    case KV_F16:
        return v_load_f16_n((const uint16_t *)p + i, n);
    case KV_BF16:
        return v_load_bf16_n((const uint16_t *)p + i, n);
    case KV_Q8:
        break;
    }
    return v_set(0);
}

/* Queries of the next tile when n are left: LANES_TILE_Q, or the few sizes there are for the rest. */
static uint32_t tile_queries(uint32_t n)
{
    if (LANES_TILE_Q == 6 && n >= 5)
        return n == 8 || n == 7 ? 4 : n == 5 ? 3 : 6;
    return n >= 4 ? 4 : LANES_TILE_Q == 6 ? n : 1;
}

/* call(…, nq, …) with nq a constant of the instance, for the sizes tile_queries gives. */
#define WITH_NQ(n, call)                                                                                               \
    do {                                                                                                               \
        if (LANES_TILE_Q == 6 && n == 6)                                                                               \
            call(6);                                                                                                   \
        else if (n == 4)                                                                                               \
            call(4);                                                                                                   \
        else if (LANES_TILE_Q == 6 && n == 3)                                                                          \
            call(3);                                                                                                   \
        else if (LANES_TILE_Q == 6 && n == 2)                                                                          \
            call(2);                                                                                                   \
        else                                                                                                           \
            call(1);                                                                                                   \
    } while (0)

static size_t type_bytes(enum kv_type type)
{
    return type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* K and V of page p of the chunk, of the last page past its end. */
static const unsigned char *page_k(const struct attn_job *j, uint32_t p)
{
    return j->k + j->page[j->first + (p < j->n_page ? p : j->n_page - 1)] * j->page_bytes;
}

static const unsigned char *page_v(const struct attn_job *j, uint32_t p)
{
    return j->v + j->page[j->first + (p < j->n_page ? p : j->n_page - 1)] * j->page_bytes;
}

/* ---- scores ---- */

/* Queries [q0, q0 + nq), pages [p0, p0 + np) of the chunk. */
LANES_INLINE void score_tile(const struct attn_job *j, enum kv_type type, const int nq, const int np, uint32_t q0,
                             uint32_t p0)
{
    const unsigned char *k[MAX_V];
    vf acc[MAX_Q][MAX_V];
    const float *q = j->q + (size_t)q0 * j->head_dim;
    UNROLL for (int p = 0; p < np; p++)
    {
        k[p] = j->k + j->page[j->first + p0 + (uint32_t)p] * j->page_bytes;
        UNROLL for (int i = 0; i < nq; i++) acc[i][p] = v_set(0);
    }
    size_t part = (j->head_dim + (size_t)np - 1) / (size_t)np;
    for (size_t d = 0, end = part, next = 0; d < j->head_dim; end += part, next++) {
        const unsigned char *ahead = q0 == 0 ? page_k(j, p0 + (uint32_t)np + (uint32_t)next) : k[0];
        for (; d < end && d < j->head_dim; d++, ahead += np * KV_PAGE * (int)type_bytes(type)) {
            vf col[MAX_V];
            UNROLL for (int i = 0; i < np * KV_PAGE * (int)type_bytes(type); i += 64) __builtin_prefetch(ahead + i);
            UNROLL for (int p = 0; p < np; p++) col[p] = load_as(type, k[p], d * KV_PAGE);
            UNROLL for (int i = 0; i < nq; i++)
            {
                vf a = v_set(q[(size_t)i * j->head_dim + d]);
                UNROLL for (int p = 0; p < np; p++) acc[i][p] = v_fma(a, col[p], acc[i][p]);
            }
        }
    }
    vf scale = v_set(j->scale);
    UNROLL for (int p = 0; p < np; p++)
    {
        float *s = j->s + ((size_t)(p0 + (uint32_t)p) * j->n_query + q0) * KV_PAGE;
        UNROLL for (int i = 0; i < nq; i++)
        {
            v_store(s + i * KV_PAGE, v_mul(scale, acc[i][p]));
        }
    }
}

LANES_INLINE void score_pages(const struct attn_job *j, enum kv_type type, const int nq, uint32_t q0, uint32_t p0,
                              uint32_t p1)
{
    uint32_t p = p0;
    if (nq * 4 <= LANES_ACC)
        for (; p + 4 <= p1; p += 4)
            score_tile(j, type, nq, 4, q0, p);
    if (nq * 2 <= LANES_ACC)
        for (; p + 2 <= p1; p += 2)
            score_tile(j, type, nq, 2, q0, p);
    for (; p < p1; p++)
        score_tile(j, type, nq, 1, q0, p);
}

LANES_INLINE void score_queries(const struct attn_job *j, enum kv_type type, uint32_t p0, uint32_t p1)
{
    for (uint32_t q = 0, n; q < j->n_query; q += n) {
        n = tile_queries(j->n_query - q);
#define CALL(nq) score_pages(j, type, nq, q, p0, p1)
        WITH_NQ(n, CALL);
#undef CALL
    }
}

static void scores(const struct attn_job *j, uint32_t p0, uint32_t p1)
{
    switch (j->type) {
    case KV_F32:
        score_queries(j, KV_F32, p0, p1);
        break;
    case KV_F16:
        score_queries(j, KV_F16, p0, p1);
        break;
    case KV_BF16:
        score_queries(j, KV_BF16, p0, p1);
        break;
    case KV_Q8:
        break;
    }
}

/* ---- softmax ---- */

/* Bit t = token t of page p is visible to row r. */
static uint32_t visible_bits(const struct attn_job *j, uint32_t r, uint32_t p)
{
    return attn_visible_bits(j->pos + r, j->window, p);
}

/* The chunk's three passes have no branch on the data and short chains of dependence: a page's maximum is a tree a
 * query, the running maximum and its factors go sixteen queries at a time, and e has one multiplication and sum that
 * carry over. */

/* top = the largest visible score of each page, -inf when there is none; a NaN is never one. */
static void page_tops(const struct attn_job *j, uint32_t q0, uint32_t q1)
{
    vf none = v_set(-INFINITY), cap = v_set(j->softcap);
    for (uint32_t p = 0; p < j->n_page; p++) {
        for (uint32_t q = q0; q < q1; q++) {
            size_t at = (size_t)p * j->n_query + q;
            vf x = v_load(j->s + at * KV_PAGE);
            if (j->softcap != 0) {
                x = v_softcap(x, cap);
                v_store(j->s + at * KV_PAGE, x);
            }
            uint32_t bits = visible_bits(j, q / j->n_head, j->first + p);
            j->top[at] = v_max_of(v_gt_bits(x, none) & bits, x);
        }
    }
}

/* m = the running maximum, top = m after each page, c = the factor of its change: op_exp(0) = 1 where there is none. */
static void running_max(const struct attn_job *j, uint32_t q0, uint32_t q1)
{
    for (uint32_t q = q0; q < q1; q += 16) {
        uint32_t n = q1 - q < 16 ? q1 - q : 16;
        vf m = v_load_n(j->m + q, n);
        for (uint32_t p = 0; p < j->n_page; p++) {
            size_t at = (size_t)p * j->n_query + q;
            vf old = m;
            m = v_max(v_load_n(j->top + at, n), old);
            v_store_n(j->top + at, m, n);
            v_store_n(j->c + at, v_exp(v_lt_select(old, m, v_sub(old, m), v_set(0))), n);
        }
        v_store_n(j->m + q, m, n);
    }
}

/* e and the lane sums. Hidden lanes become +0, and l + 0 = l because l is never -0. */
static void exponentials(const struct attn_job *j, uint32_t q)
{
    vf l = v_load(j->l + (size_t)q * KV_PAGE);
    for (uint32_t p = 0; p < j->n_page; p++) {
        size_t at = (size_t)p * j->n_query + q;
        float *s = j->s + at * KV_PAGE;
        uint32_t bits = visible_bits(j, q / j->n_head, j->first + p);
        vf e = v_keep(bits, v_exp(v_sub(v_load(s), v_set(j->top[at]))));
        l = v_add(v_mul(l, v_set(j->c[at])), e);
        v_store(s, e);
    }
    v_store(j->l + (size_t)q * KV_PAGE, l);
}

static void softmax(const struct attn_job *job, uint32_t q0, uint32_t q1)
{
    struct attn_job j = *job; /* a copy nobody else can see stays in registers while floats are stored */
    page_tops(&j, q0, q1);
    running_max(&j, q0, q1);
    for (uint32_t q = q0; q < q1; q++)
        exponentials(&j, q);
}

/* ---- values ---- */

struct value_range {
    uint32_t p0, p1; /* pages of the chunk */
    uint32_t t0, t1; /* tokens of each that every query of the range sees */
};

/* True when one of nq factors is below 1. Multiplying the others by 1 as well changes nothing. */
LANES_INLINE bool rescales(const float *c, const int nq)
{
    return (v_gt_bits(v_set(1.0f), v_load_n(c, (size_t)nq)) & ((1u << nq) - 1)) != 0;
}

/* Queries [q0, q0 + nq), dims [d, d + 16 * nv), or n < 16 dims at d where nv is 1. */
LANES_INLINE void value_tile(const struct attn_job *j, enum kv_type type, const int nq, const int nv, const bool whole,
                             uint32_t q0, uint32_t d, uint32_t n, struct value_range at)
{
    size_t hd = j->head_dim;
    float *o = j->o + q0 * hd + d;
    vf acc[MAX_Q][MAX_V];
    UNROLL for (int i = 0; i < nq; i++)
    {
        UNROLL for (int v = 0; v < nv; v++)
        {
            float *p = o + (size_t)i * hd + 16 * v;
            acc[i][v] = whole ? v_load(p) : v_load_n(p, n);
        }
    }
    for (uint32_t p = at.p0; p < at.p1; p++) {
        const unsigned char *page = page_v(j, p), *ahead = page_v(j, p + FETCH_V);
        const float *e = j->s + ((size_t)p * j->n_query + q0) * KV_PAGE, *c = j->c + (size_t)p * j->n_query + q0;
        if (rescales(c, nq)) {
            UNROLL for (int i = 0; i < nq; i++)
            {
                UNROLL for (int v = 0; v < nv; v++) acc[i][v] = v_mul(acc[i][v], v_set(c[i]));
            }
        }
        for (size_t t = at.t0; t < at.t1; t++) {
            const float *et = e + t;
            vf row[MAX_V];
            UNROLL for (int i = 0; i < nv * 16 * (int)type_bytes(type); i += 64)
                __builtin_prefetch(ahead + (t * hd + d) * type_bytes(type) + (size_t)i);
            UNROLL for (int v = 0; v < nv; v++)
            {
                size_t x = t * hd + d + 16 * (size_t)v;
                row[v] = whole ? load_as(type, page, x) : load_as_n(type, page, x, n);
            }
            UNROLL for (int i = 0; i < nq; i++)
            {
                vf a = v_set(et[i * KV_PAGE]);
                UNROLL for (int v = 0; v < nv; v++) acc[i][v] = v_fma(a, row[v], acc[i][v]);
            }
        }
    }
    UNROLL for (int i = 0; i < nq; i++)
    {
        UNROLL for (int v = 0; v < nv; v++)
        {
            float *p = o + (size_t)i * hd + 16 * v;
            if (whole)
                v_store(p, acc[i][v]);
            else
                v_store_n(p, acc[i][v], n);
        }
    }
}

LANES_INLINE void value_dims(const struct attn_job *j, enum kv_type type, const int nq, uint32_t q0, uint32_t d0,
                             uint32_t d1, struct value_range at)
{
    uint32_t d = d0;
    if (nq * 4 <= LANES_ACC)
        for (; d + 64 <= d1; d += 64)
            value_tile(j, type, nq, 4, true, q0, d, 16, at);
    if (nq * 2 <= LANES_ACC)
        for (; d + 32 <= d1; d += 32)
            value_tile(j, type, nq, 2, true, q0, d, 16, at);
    for (; d + 16 <= d1; d += 16)
        value_tile(j, type, nq, 1, true, q0, d, 16, at);
    if (d < d1)
        value_tile(j, type, nq, 1, false, q0, d, d1 - d, at);
}

LANES_INLINE void value_queries(const struct attn_job *j, enum kv_type type, uint32_t q0, uint32_t q1, uint32_t d0,
                                uint32_t d1, struct value_range at)
{
    for (uint32_t q = q0, n; q < q1; q += n) {
        n = tile_queries(q1 - q);
#define CALL(nq) value_dims(j, type, nq, q, d0, d1, at)
        WITH_NQ(n, CALL);
#undef CALL
    }
}

static void value_range(const struct attn_job *j, uint32_t q0, uint32_t q1, uint32_t d0, uint32_t d1,
                        struct value_range at)
{
    switch (j->type) {
    case KV_F32:
        value_queries(j, KV_F32, q0, q1, d0, d1, at);
        break;
    case KV_F16:
        value_queries(j, KV_F16, q0, q1, d0, d1, at);
        break;
    case KV_BF16:
        value_queries(j, KV_BF16, q0, q1, d0, d1, at);
        break;
    case KV_Q8:
        break;
    }
}

/* True when every row of the job sees all of page p: the last row's window begins at or before it, and the first row is
 * at or past its end. */
static bool all_visible(const struct attn_job *j, uint32_t p)
{
    return (visible_bits(j, j->n_row - 1, p) & visible_bits(j, 0, p)) == 0xFFFF;
}

/* Runs of pages that all queries see whole go together; in the others a hidden token's V must not be touched (it may be
 * NaN), so they go row by row. */
static void values(const struct attn_job *j, uint32_t d0, uint32_t d1)
{
    for (uint32_t p = 0, end; p < j->n_page; p = end) {
        for (end = p; end < j->n_page && all_visible(j, j->first + end);)
            end++;
        if (end > p) {
            value_range(j, 0, j->n_query, d0, d1, (struct value_range){p, end, 0, KV_PAGE});
            continue;
        }
        end = p + 1;
        for (uint32_t r = 0; r < j->n_row; r++) {
            struct value_range at = {.p0 = p, .p1 = end};
            attn_visible(j->pos + r, j->window, j->first + p, &at.t0, &at.t1);
            if (at.t0 < at.t1)
                value_range(j, r * j->n_head, (r + 1) * j->n_head, d0, d1, at);
        }
    }
}

static void finish(const struct attn_job *j, float *y, size_t stride, uint32_t d0, uint32_t d1)
{
    for (uint32_t q = 0; q < j->n_query; q++) {
        const float *o = j->o + (size_t)q * j->head_dim;
        float *to = y + q / j->n_head * stride + (size_t)(q % j->n_head) * j->head_dim;
        vf sum = v_set(v_sum(v_load(j->l + (size_t)q * KV_PAGE)));
        uint32_t d = d0;
        for (; d + 16 <= d1; d += 16)
            v_store(to + d, v_div(v_load(o + d), sum));
        if (d < d1)
            v_store_n(to + d, v_div(v_load_n(o + d, d1 - d), sum), d1 - d);
    }
}

const struct attn_kernels LANES_NAME(attn) = {
    .q8 = &LANES_NAME(q8), .scores = scores, .softmax = softmax, .values = values, .finish = finish};
