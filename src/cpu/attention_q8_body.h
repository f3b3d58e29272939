/* Inner kernels of attention over 8-bit keys and values; included by attention_q8_<isa>.c after its lanes.
 *
 * scores and values are the register tiles of the integer products: nq queries times nv vectors of 32-bit sums, four
 * bytes of a query (or of its p) spread against nv vectors of K (or V) a step. nq and nv are constants of each
 * instance. */
#include "cpu/attention_q8.h"
#include "cpu/q8_encode.h"
#include "cpu/unroll.h"

enum { Q8_MAX_Q = LANES_INT_Q, Q8_MAX_V = 4, Q8_QUADS = KV8_RUN / 4, Q8_EXPS = 8 };
enum { FETCH_Q = 4 }; /* tiles of so few queries wait for memory and fetch the next tile's pages meanwhile */

/* Queries of the next tile when n are left: the few sizes there are. */
static uint32_t q8_tile(uint32_t n)
{
    if (LANES_INT_Q == 6 && n >= 5)
        return n == 8 || n == 7 ? 4 : n == 5 ? 3 : 6;
    if (LANES_INT_Q >= 4 && n >= 4)
        return 4;
    return LANES_INT_Q == 6 && n == 3 ? 3 : LANES_INT_Q != 4 && n >= 2 ? 2 : 1;
}

/* call(nq) with a constant, for the sizes q8_tile gives. */
#define Q8_WITH(n, call)                                                                                               \
    do {                                                                                                               \
        if (LANES_INT_Q == 6 && n == 6)                                                                                \
            call(6);                                                                                                   \
        else if (LANES_INT_Q >= 4 && n == 4)                                                                           \
            call(4);                                                                                                   \
        else if (LANES_INT_Q == 6 && n == 3)                                                                           \
            call(3);                                                                                                   \
        else if (LANES_INT_Q != 4 && n == 2)                                                                           \
            call(2);                                                                                                   \
        else                                                                                                           \
            call(1);                                                                                                   \
    } while (0)

static uint32_t at_most_16(uint32_t n)
{
    return n < 16 ? n : 16;
}

/* This KV head in page i of the tile. */
static const uint8_t *q8_page(const struct q8_job *j, const uint8_t *pool, uint32_t i)
{
    return pool + j->page[j->first + i] * j->page_bytes;
}

/* The f16 numbers behind the codes of a head in a page. */
LANES_INLINE const uint16_t *q8_scales(const struct q8_job *j, const uint8_t *head)
{
    return (const uint16_t *)(const void *)(head + (size_t)j->dim * KV_PAGE);
}

/* ---- queries ---- */

/* Encode n <= 16 runs of r: codes go to code + 32 i. */
LANES_INLINE void encode_runs(struct q8_runs *r, unsigned n, float factor, int8_t *code, float *d, int32_t *bias)
{
    float scale[16], inv[16];
    vi sum[16];
    run_scales(r, scale, inv);
    for (unsigned i = 0; i < 16; i++) {
        vi a, b;
        run_codes(r, i, inv[i], &a, &b);
        sum[i] = vi_add(a, b);
        if (i < n)
            vi_bytes32(code + (size_t)i * KV8_RUN, a, b);
    }
    int32_t total[16];
    vi_store(total, vi_sums(sum));
    for (unsigned i = 0; i < n; i++) {
        d[i] = scale[i] * factor;
        bias[i] = -128 * total[i];
    }
}

static void encode(const struct q8_job *j, const float *q, size_t stride, float scale)
{
    uint32_t total = j->n_query * j->n_run, done = 0;
    struct q8_runs r;
    for (uint32_t row = 0; row < j->n_row; row++)
        for (uint32_t head = 0; head < j->n_head; head++) {
            const float *x = q + row * stride + (size_t)head * j->head_dim;
            for (uint32_t i = 0; i < j->n_run; i++) {
                load_run(&r, done % 16, x + i * KV8_RUN, j->head_dim - i * KV8_RUN);
                done++;
                if (done % 16 != 0 && done < total)
                    continue;
                uint32_t n = (done - 1) % 16 + 1, at = done - n;
                for (uint32_t k = n; k < 16; k++)
                    r.x[k][0] = r.x[k][1] = v_set(0);
                encode_runs(&r, n, scale * (1.0f / KV8_RUN), j->code + (size_t)at * KV8_RUN, j->d + at, j->bias + at);
            }
        }
}

/* ---- scores ---- */

/* softcap of the scores of nq queries and np pages. */
static void q8_cap(float *s, uint32_t nq, uint32_t np, vf cap)
{
    for (uint32_t q = 0; q < nq; q++, s += KV8_TILE)
        for (uint32_t i = 0; i < np * KV_PAGE; i += 16)
            v_store(s + i, v_softcap(v_load(s + i), cap));
}

typedef vf q8_scores[Q8_MAX_Q][Q8_MAX_V];

/* s of what q·k became, and the lanes' tops so far. */
LANES_INLINE void q8_store_scores(const struct q8_job *j, q8_scores x, const int nq, const int np, uint32_t q0,
                                  uint32_t p0)
{
    float *s = j->s + (size_t)q0 * KV8_TILE + p0 * KV_PAGE;
    UNROLL for (int p = 0; p < np; p++)
    {
        vf e = v_load_f16(q8_scales(j, q8_page(j, j->v, p0 + (uint32_t)p))), log2e = v_set(OP_LOG2E);
        UNROLL for (int i = 0; i < nq; i++)
        {
            x[i][p] = v_fma(x[i][p], log2e, e);
            v_store(s + i * KV8_TILE + p * KV_PAGE, x[i][p]);
        }
    }
    UNROLL for (int i = 0; i < nq; i++)
    {
        float *to = j->tops + (q0 + (size_t)i) * KV_PAGE;
        vf top = p0 == 0 ? v_set(-INFINITY) : v_load(to);
        UNROLL for (int p = 0; p < np; p++) top = v_max(x[i][p], top);
        v_store(to, top);
    }
}

/* Queries [q0, q0 + nq), pages [p0, p0 + np) of the tile. */
LANES_INLINE void q8_score_tile(const struct q8_job *j, const int nq, const int np, uint32_t q0, uint32_t p0)
{
    const bool fetch = nq <= FETCH_Q;
    const uint8_t *k[Q8_MAX_V], *ahead[Q8_MAX_V];
    const uint16_t *scale[Q8_MAX_V];
    const int8_t *code = j->code + (size_t)q0 * j->dim;
    const float *d = j->d + (size_t)q0 * j->n_run;
    const int32_t *bias = j->bias + (size_t)q0 * j->n_run;
    size_t dim = j->dim, n_run = j->n_run;
    q8_scores acc;
    UNROLL for (int p = 0; p < np; p++)
    {
        k[p] = q8_page(j, j->k, p0 + (uint32_t)p);
        ahead[p] = j->next_k[p0 + (uint32_t)p];
        scale[p] = q8_scales(j, k[p]);
        UNROLL for (int i = 0; i < nq; i++) acc[i][p] = v_set(0);
    }
    for (size_t r = 0; r < n_run; r++) {
        vi sum[Q8_MAX_Q][Q8_MAX_V];
        UNROLL for (int i = 0; i < nq; i++)
        {
            UNROLL for (int p = 0; p < np; p++) sum[i][p] = vi_set(bias[(size_t)i * n_run + r]);
        }
        UNROLL for (int at = 0; at < KV8_RUN; at += 4)
        {
            vu col[Q8_MAX_V];
            UNROLL for (int p = 0; p < np; p++) col[p] = vu_load(k[p] + at * KV_PAGE);
            if (fetch) {
                UNROLL for (int p = 0; p < np; p++) __builtin_prefetch(ahead[p] + at * KV_PAGE);
            }
            UNROLL for (int i = 0; i < nq; i++)
            {
                vs a = vs_spread(code + (size_t)i * dim + at);
                UNROLL for (int p = 0; p < np; p++) sum[i][p] = vi_dot(sum[i][p], col[p], a);
            }
        }
        code += KV8_RUN;
        UNROLL for (int p = 0; p < np; p++)
        {
            k[p] += KV8_RUN * KV_PAGE;
            ahead[p] += KV8_RUN * KV_PAGE;
        }
        UNROLL for (int p = 0; p < np; p++)
        {
            vf dk = v_load_f16(scale[p] + r * KV_PAGE);
            UNROLL for (int i = 0; i < nq; i++)
            {
                acc[i][p] = v_fma(v_mul(v_set(d[(size_t)i * n_run + r]), dk), vi_float(sum[i][p]), acc[i][p]);
            }
        }
    }
    float *s = j->s + (size_t)q0 * KV8_TILE + p0 * KV_PAGE;
    if (j->softcap != 0) {
        UNROLL for (int i = 0; i < nq; i++)
        {
            UNROLL for (int p = 0; p < np; p++) v_store(s + i * KV8_TILE + p * KV_PAGE, acc[i][p]);
        }
        q8_cap(s, (uint32_t)nq, (uint32_t)np, v_set(j->softcap));
        UNROLL for (int i = 0; i < nq; i++)
        {
            UNROLL for (int p = 0; p < np; p++) acc[i][p] = v_load(s + i * KV8_TILE + p * KV_PAGE);
        }
    }
    if (fetch) {
        UNROLL for (int p = 0; p < np; p++)
        {
            __builtin_prefetch(ahead[p]);
            __builtin_prefetch(j->next_v[p0 + (uint32_t)p] + dim * KV_PAGE);
        }
    }
    q8_store_scores(j, acc, nq, np, q0, p0);
}

LANES_INLINE void q8_score_pages(const struct q8_job *j, const int nq, uint32_t q0)
{
    uint32_t p = 0;
    if (nq * 4 <= LANES_INT_ACC)
        for (; p + 4 <= j->n_page; p += 4)
            q8_score_tile(j, nq, 4, q0, p);
    if (nq * 2 <= LANES_INT_ACC)
        for (; p + 2 <= j->n_page; p += 2)
            q8_score_tile(j, nq, 2, q0, p);
    for (; p < j->n_page; p++)
        q8_score_tile(j, nq, 1, q0, p);
}

static void scores(const struct q8_job *j)
{
    for (uint32_t q = 0, n; q < j->n_query; q += n) {
        n = q8_tile(j->n_query - q);
#define CALL(nq) q8_score_pages(j, nq, q)
        Q8_WITH(n, CALL);
#undef CALL
    }
}

/* ---- softmax ---- */

/* Bit 16 i + t = token t of page i of the tile is visible to row r. */
static uint64_t q8_visible(const struct q8_job *j, uint32_t r)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < j->n_page; i++)
        bits |= (uint64_t)attn_visible_bits(j->pos + r, j->window, j->first + i) << (i * KV_PAGE);
    return bits;
}

/* True when every row sees all of a whole tile: the last row's window begins before it, the first row is past. */
static bool q8_all_visible(const struct q8_job *j)
{
    return j->n_page == Q8_PAGES && attn_visible_bits(j->pos + j->n_row - 1, j->window, j->first) == 0xFFFF &&
           attn_visible_bits(j->pos, j->window, j->first + j->n_page - 1) == 0xFFFF;
}

/* The largest visible score of query q, by lane. */
static void q8_seen_tops(const struct q8_job *j, uint32_t q)
{
    const float *s = j->s + (size_t)q * KV8_TILE;
    uint64_t bits = q8_visible(j, q / j->n_head);
    vf top = v_set(-INFINITY);
    for (uint32_t p = 0; p < j->n_page; p++, bits >>= 16)
        top = v_max(v_hide((uint32_t)bits & 0xFFFF, v_load(s + p * KV_PAGE)), top);
    v_store(j->tops + (size_t)q * KV_PAGE, top);
}

static void tops(const struct q8_job *job)
{
    struct q8_job j = *job; /* a copy nobody else can see stays in registers while floats are stored */
    if (!q8_all_visible(&j))
        for (uint32_t q = 0; q < j.n_query; q++)
            q8_seen_tops(&j, q);
    for (uint32_t q = 0; q < j.n_query; q += 16) {
        uint32_t n = at_most_16(j.n_query - q);
        vf top[16];
        UNROLL for (uint32_t i = 0; i < 16; i++) top[i] = v_load(j.tops + (q + (i < n ? i : 0)) * KV_PAGE);
        v_store_n(j.top + q, v_tops(top), n);
    }
}

static void take(const struct q8_job *job)
{
    struct q8_job j = *job;
    for (uint32_t q = 0; q < j.n_query; q += 16) {
        uint32_t n = at_most_16(j.n_query - q);
        vf old = v_load_n(j.m + q, n), top = v_load_n(j.top + q, n), m = v_max(top, old);
        v_store_n(j.m + q, m, n);
        v_store_n(j.c + q, v_exp2(v_sub(old, m)), n);
        v_store_n(j.w + q, v_exp2(v_sub(top, m)), n);
    }
}

LANES_INLINE vf q8_add_u(vf l, vf u, float c, float w)
{
    return v_fma(v_set(w), u, v_mul(l, v_set(c)));
}

/* v_exp2 of n vectors, a step of all before the next: in one vector's order the machine's queues fill up with steps
 * that wait for each other. */
LANES_INLINE void q8_exp2(vf *x, const int n)
{
    vf whole[Q8_EXPS], p[Q8_EXPS];
    UNROLL for (int i = 0; i < n; i++) x[i] = v_max(x[i], v_set(OP_EXP2_LO));
    UNROLL for (int i = 0; i < n; i++) whole[i] = v_rint(x[i]);
    UNROLL for (int i = 0; i < n; i++) x[i] = v_sub(x[i], whole[i]);
    UNROLL for (int i = 0; i < n; i++) p[i] = v_fma(v_set(OP_EXP2_C3), x[i], v_set(OP_EXP2_C2));
    UNROLL for (int i = 0; i < n; i++) p[i] = v_fma(p[i], x[i], v_set(OP_EXP2_C1));
    UNROLL for (int i = 0; i < n; i++) p[i] = v_fma(p[i], x[i], v_set(1.0f));
    UNROLL for (int i = 0; i < n; i++) x[i] = v_scale2(p[i], whole[i]);
}

/* p of nq queries from q on, and u or, to merge, l with u in it; inv: op_exp2(-e) of the tile's tokens. */
LANES_INLINE void q8_exponentials(const struct q8_job *j, uint32_t q, const int nq, const vf inv[Q8_PAGES],
                                  const bool whole, const bool merge)
{
    const float *s = j->s + (size_t)q * KV8_TILE;
    const int n = nq * Q8_PAGES;
    vf p[Q8_EXPS], u[Q8_EXPS / Q8_PAGES];
    vi code[Q8_EXPS];
    uint32_t seen[Q8_EXPS];
    UNROLL for (int i = 0; i < nq; i++)
    {
        uint64_t bits = whole ? 0 : q8_visible(j, (q + (uint32_t)i) / j->n_head);
        UNROLL for (int k = 0; k < Q8_PAGES; k++) seen[i * Q8_PAGES + k] = (uint32_t)(bits >> k * KV_PAGE) & 0xFFFF;
    }
    UNROLL for (int i = 0; i < n; i++)
    {
        vf x = v_load(s + i * KV_PAGE);
        p[i] = v_sub(whole ? x : v_hide(seen[i], x), v_set(j->top[q + (uint32_t)i / Q8_PAGES] - OP_LOG2_255));
    }
    q8_exp2(p, n);
    UNROLL for (int i = 0; i < n; i++)
    {
        vf f = inv[i % Q8_PAGES];
        if (!whole) {
            p[i] = v_keep(seen[i], p[i]);
            f = v_keep(seen[i], f);
        }
        u[i / Q8_PAGES] = v_fma(p[i], f, i % Q8_PAGES ? u[i / Q8_PAGES] : v_set(0));
    }
    UNROLL for (int i = 0; i < n; i++) code[i] = vi_round(p[i]);
    UNROLL for (int i = 0; i < nq; i++)
    {
        size_t at = q + (size_t)i;
        vi_bytes64(j->p + at * KV8_TILE, code + i * Q8_PAGES);
        if (merge)
            v_store(j->l + at * KV_PAGE, q8_add_u(v_load(j->l + at * KV_PAGE), u[i], j->c[at], j->w[at]));
        else
            v_store(j->u + at * KV_PAGE, u[i]);
    }
}

LANES_INLINE void q8_weights(const struct q8_job *j, const bool merge)
{
    vf inv[Q8_PAGES];
    for (uint32_t i = 0; i < Q8_PAGES; i++) {
        vf e = v_load_f16(q8_scales(j, q8_page(j, j->v, i < j->n_page ? i : 0)));
        inv[i] = v_add(v_exp2(v_neg(e)), v_mul(e, v_set(0)));
    }
    uint32_t q = 0;
    if (q8_all_visible(j)) {
        for (; q + 2 <= j->n_query; q += 2)
            q8_exponentials(j, q, 2, inv, true, merge);
        if (q < j->n_query)
            q8_exponentials(j, q, 1, inv, true, merge);
    } else {
        for (; q < j->n_query; q++)
            q8_exponentials(j, q, 1, inv, false, merge);
    }
}

/* ---- values ---- */

/* True when one of nq factors is below 1. Multiplying the others by 1 as well changes nothing. */
LANES_INLINE bool q8_rescales(const float *c, const int nq)
{
    return (v_gt_bits(v_set(1.0f), v_load_n(c, (size_t)nq)) & ((1u << nq) - 1)) != 0;
}

/* Queries [q0, q0 + nq), dims [d, d + 16 * nv). */
LANES_INLINE void q8_value_tile(const struct q8_job *j, const int nq, const int nv, const bool merge, uint32_t q0,
                                size_t d)
{
    size_t dim = j->dim;
    vi sum[Q8_MAX_Q][Q8_MAX_V];
    UNROLL for (int i = 0; i < nq; i++)
    {
        UNROLL for (int v = 0; v < nv; v++) sum[i][v] = vi_set(0);
    }
    const uint8_t *p = j->p + (size_t)q0 * KV8_TILE;
    for (uint32_t page = 0; page < j->n_page; page++) {
        const uint8_t *at = q8_page(j, j->v, page) + d * 4, *ahead = j->next_v[page] + d * 4;
        UNROLL for (int t = 0; t < KV_PAGE; t += 4, p += 4, at += dim * 4)
        {
            vs row[Q8_MAX_V];
            UNROLL for (int v = 0; v < nv; v++) row[v] = vs_load(at + 64 * v);
            if (nq <= FETCH_Q) {
                UNROLL for (int v = 0; v < nv; v++) __builtin_prefetch(ahead + 64 * v);
                ahead += dim * 4;
            }
            UNROLL for (int i = 0; i < nq; i++)
            {
                vu a = vu_spread(p + i * KV8_TILE);
                UNROLL for (int v = 0; v < nv; v++) sum[i][v] = vi_dot(sum[i][v], a, row[v]);
            }
        }
    }
    if (!merge) {
        UNROLL for (int i = 0; i < nq; i++)
        {
            UNROLL for (int v = 0; v < nv; v++)
                vi_store(j->sum + (q0 + (size_t)i) * dim + d + 16 * (size_t)v, sum[i][v]);
        }
        return;
    }
    bool rescale = q8_rescales(j->c + q0, nq);
    UNROLL for (int i = 0; i < nq; i++)
    {
        float *o = j->o + (q0 + (size_t)i) * dim + d;
        vf w = v_set(j->w[q0 + (uint32_t)i]), c = v_set(j->c[q0 + (uint32_t)i]);
        UNROLL for (int v = 0; v < nv; v++)
        {
            vf x = v_load(o + 16 * v);
            if (rescale)
                x = v_mul(x, c);
            v_store(o + 16 * v, v_fma(w, vi_float(sum[i][v]), x));
        }
    }
}

LANES_INLINE void q8_value_dims(const struct q8_job *j, const int nq, const bool merge, uint32_t q0)
{
    size_t d = 0;
    if (nq * 4 <= LANES_INT_SUM)
        for (; d + 64 <= j->dim; d += 64)
            q8_value_tile(j, nq, 4, merge, q0, d);
    if (nq * 2 <= LANES_INT_SUM)
        for (; d < j->dim; d += 32)
            q8_value_tile(j, nq, 2, merge, q0, d);
    for (; d < j->dim; d += 16)
        q8_value_tile(j, nq, 1, merge, q0, d);
}

LANES_INLINE void q8_values(const struct q8_job *j, const bool merge)
{
    for (uint32_t q = 0, n; q < j->n_query; q += n) {
        n = q8_tile(j->n_query - q);
#define CALL(nq) q8_value_dims(j, nq, merge, q)
        Q8_WITH(n, CALL);
#undef CALL
    }
}

static void weights(const struct q8_job *job)
{
    struct q8_job j = *job;
    q8_weights(&j, true);
}

static void values(const struct q8_job *job)
{
    struct q8_job j = *job;
    q8_values(&j, true);
}

static void sums(const struct q8_job *job)
{
    struct q8_job j = *job;
    q8_weights(&j, false);
    q8_values(&j, false);
}

/* ---- merging tiles ---- */

/* n <= 16 tiles from number t on into query q. */
static void q8_merge_some(const struct q8_job *j, uint32_t q, uint32_t t, uint32_t n)
{
    float top[16] = {0}, old[16] = {0}, now[16] = {0}, c[16], w[16], m = j->m[q];
    size_t nq = j->n_query, dim = j->dim;
    for (uint32_t i = 0; i < n; i++) {
        top[i] = j->top[(t + i) * nq + q];
        old[i] = m;
        m = top[i] > m ? top[i] : m;
        now[i] = m;
    }
    j->m[q] = m;
    v_store(c, v_exp2(v_sub(v_load(old), v_load(now))));
    v_store(w, v_exp2(v_sub(v_load(top), v_load(now))));
    vf l = v_load(j->l + (size_t)q * KV_PAGE);
    for (uint32_t i = 0; i < n; i++)
        l = q8_add_u(l, v_load(j->u + ((t + i) * nq + q) * KV_PAGE), c[i], w[i]);
    v_store(j->l + (size_t)q * KV_PAGE, l);
    for (size_t d = 0; d < dim; d += 32) {
        float *o = j->o + q * dim + d;
        const int32_t *sum = j->sum + (t * nq + q) * dim + d;
        vf a = v_load(o), b = v_load(o + 16);
        for (uint32_t i = 0; i < n; i++, sum += nq * dim) {
            vf ci = v_set(c[i]), wi = v_set(w[i]);
            a = v_fma(wi, vi_float(vi_load(sum)), v_mul(a, ci));
            b = v_fma(wi, vi_float(vi_load(sum + 16)), v_mul(b, ci));
        }
        v_store(o, a);
        v_store(o + 16, b);
    }
}

static void merge(const struct q8_job *j, uint32_t n_tile, uint32_t q0, uint32_t q1)
{
    for (uint32_t q = q0; q < q1; q++)
        for (uint32_t t = 0; t < n_tile; t += 16)
            q8_merge_some(j, q, t, n_tile - t < 16 ? n_tile - t : 16);
}

static void finish(const struct q8_job *j, float *y, size_t stride, uint32_t q0, uint32_t q1)
{
    for (uint32_t q = q0; q < q1; q++) {
        const float *o = j->o + (size_t)q * j->dim;
        float *to = y + q / j->n_head * stride + (size_t)(q % j->n_head) * j->head_dim;
        vf sum = v_set((float)KV8_RUN * v_sum(v_load(j->l + (size_t)q * KV_PAGE)));
        for (uint32_t d = 0; d < j->dim; d += KV8_RUN) {
            vf a = v_load(o + d), b = v_load(o + d + 16);
            size_t n = j->head_dim - d < KV8_RUN ? j->head_dim - d : KV8_RUN;
            rotate(&a, &b);
            v_store_n(to + d, v_div(a, sum), n < 16 ? n : 16);
            if (n > 16)
                v_store_n(to + d + 16, v_div(b, sum), n - 16);
        }
    }
}

/* ---- append ----
 *
 * n <= 4 tokens of a quad, in groups of n so that up to sixteen runs (of K) or heads (of V) have their peaks in one
 * vector. n is a constant where it is 4. */

/* Codes of n tokens' runs of K into their lanes of the head's page. */
LANES_INLINE void q8_store_k(uint8_t *head, uint32_t run, uint32_t lane, int8_t code[4][KV8_RUN], const uint32_t n)
{
    uint8_t *to = head + ((size_t)run * Q8_QUADS * KV_PAGE + lane) * 4;
    for (unsigned i = 0; i < Q8_QUADS; i++, to += KV_PAGE * 4) {
        uint32_t x[4];
        for (uint32_t t = 0; t < n; t++) {
            memcpy(&x[t], code[t] + 4 * i, sizeof x[t]);
            x[t] ^= 0x80808080;
        }
        memcpy(to, x, n * sizeof *x);
    }
}

/* Groups [g, g + m) of K: group number i is run i % n_run of head i / n_run. */
LANES_INLINE void q8_groups_k(const struct kv_layer *kv, uint8_t *page, uint32_t lane, struct rows k, uint32_t g,
                              uint32_t m, const uint32_t n)
{
    uint32_t dim = kv8_dim(kv->head_dim), n_run = dim / KV8_RUN;
    struct q8_runs r;
    float d[16], inv[16];
    uint16_t half[16];
    for (uint32_t i = 0; i < m; i++) {
        uint32_t at = (g + i) % n_run * KV8_RUN;
        const float *x = k.p + (size_t)((g + i) / n_run) * kv->head_dim + at;
        for (uint32_t t = 0; t < n; t++)
            load_run(&r, i * n + t, x + t * k.stride, kv->head_dim - at);
    }
    for (uint32_t i = m * n; i < 16; i++)
        r.x[i][0] = r.x[i][1] = v_set(0);
    run_scales(&r, d, inv);
    v_store_f16_n(half, v_load(d), 16);
    for (uint32_t i = 0; i < m; i++) {
        int8_t code[4][KV8_RUN];
        uint32_t run = (g + i) % n_run;
        uint8_t *head = page + (g + i) / n_run * kv8_head_bytes(kv->head_dim);
        for (uint32_t t = 0; t < n; t++) {
            vi a, b;
            run_codes(&r, i * n + t, inv[i * n + t], &a, &b);
            vi_bytes32(code[t], a, b);
        }
        q8_store_k(head, run, lane, code, n);
        memcpy(head + (size_t)dim * KV_PAGE + ((size_t)run * KV_PAGE + lane) * 2, half + i * n, n * sizeof *half);
    }
}

LANES_INLINE void append_k(const struct kv_layer *kv, uint8_t *page, uint32_t lane, struct rows k, const uint32_t n)
{
    uint32_t total = kv->n_kv_head * (kv8_dim(kv->head_dim) / KV8_RUN), most = 16 / n;
    for (uint32_t g = 0; g < total; g += most)
        q8_groups_k(kv, page, lane, k, g, total - g < most ? total - g : most, n);
}

/* e and inv = op_exp2(-e) of sixteen heads from their peaks; NaN and 0 where one is not finite. */
static void q8_v_scales(const vf top[16], uint16_t e[16], float inv[16])
{
    vf peak = v_peaks(top);
    uint32_t bad = ~v_gt_bits(v_set(INFINITY), peak) & 0xFFFF;
    v_store_f16_n(e, v_sub(v_log2(v_max(peak, v_set(0x1p-24f))), v_set(OP_LOG2_127)), 16);
    v_store(inv, v_exp2(v_neg(v_load_f16(e))));
    for (uint32_t i = 0; bad >> i != 0; i++)
        if (bad >> i & 1) {
            e[i] = f32_to_f16(NAN);
            inv[i] = 0;
        }
}

/* Codes of n tokens' runs of V: whole words when it is all four, else the bytes from `byte` on. */
LANES_INLINE void q8_store_v(int8_t *to, const struct q8_runs *r, const float inv[4], uint32_t byte, const uint32_t n,
                             bool sole)
{
    const uint32_t keep = n == 4 ? 0 : ~(((1u << 8 * n) - 1) << 8 * byte);
    for (int k = 0; k < 2; k++, to += 64) {
        vi code[4] = {vi_set(0), vi_set(0), vi_set(0), vi_set(0)};
        for (uint32_t i = 0; i < n; i++) {
            vf c = inv[i] == 0 ? v_set(0) : v_mul(r->x[i][k], v_set(inv[i]));
            code[n == 4 ? i : byte + i] = vi_round(v_max(v_min(c, v_set(127)), v_set(-127)));
        }
        if (n == 4) {
            vi_zip4(to, code);
            continue;
        }
        int8_t word[64];
        uint32_t now[16], new[16];
        vi_zip4(word, code);
        if (!sole) {
            for (uint32_t i = byte; i < byte + n; i++)
                for (uint32_t d = 0; d < 16; d++)
                    to[4 * d + i] = word[4 * d + i];
            continue;
        }
        memcpy(new, word, sizeof new);
        memcpy(now, to, sizeof now);
        for (int i = 0; i < 16; i++)
            now[i] = (now[i] & keep) | new[i];
        memcpy(to, now, sizeof now);
    }
}

/* Heads [h, h + m) of V. */
LANES_INLINE void q8_groups_v(const struct kv_layer *kv, uint8_t *page, uint32_t lane, struct rows v, uint32_t h,
                              uint32_t m, const uint32_t n, bool sole)
{
    uint32_t hd = kv->head_dim, dim = kv8_dim(hd);
    const float *x = v.p + (size_t)h * hd;
    struct q8_runs r;
    vf top[16];
    uint16_t e[16];
    float inv[16];
    for (uint32_t i = 0; i < 16; i++)
        top[i] = v_set(0);
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t d = 0; d < hd; d += KV8_RUN)
            for (uint32_t t = 0; t < n; t++) {
                load_run(&r, t, x + (size_t)i * hd + d + t * v.stride, hd - d);
                top[i * n + t] = v_larger(top[i * n + t], v_larger(r.x[t][0], r.x[t][1]));
            }
    q8_v_scales(top, e, inv);
    for (uint32_t i = 0; i < m; i++) {
        uint8_t *head = page + (h + i) * kv8_head_bytes(hd);
        int8_t *to = (int8_t *)head + (size_t)(lane / 4) * dim * 4;
        memcpy(head + (size_t)dim * KV_PAGE + (size_t)lane * 2, e + i * n, n * sizeof *e);
        for (uint32_t d = 0; d < dim; d += KV8_RUN, to += KV8_RUN * 4) {
            for (uint32_t t = 0; t < n; t++)
                load_run(&r, t, x + (size_t)i * hd + d + t * v.stride, hd - d);
            q8_store_v(to, &r, inv + i * n, lane % 4, n, sole);
        }
    }
}

LANES_INLINE void append_v(const struct kv_layer *kv, uint8_t *page, uint32_t lane, struct rows v, const uint32_t n,
                           bool sole)
{
    uint32_t most = 16 / n;
    for (uint32_t h = 0; h < kv->n_kv_head; h += most)
        q8_groups_v(kv, page, lane, v, h, kv->n_kv_head - h < most ? kv->n_kv_head - h : most, n, sole);
}

static void append(const struct kv_layer *kv, uint8_t *k_page, uint8_t *v_page, uint32_t lane, struct rows k,
                   struct rows v, bool sole)
{
    if (k.n == 4) {
        append_k(kv, k_page, lane, k, 4);
        append_v(kv, v_page, lane, v, 4, sole);
    } else {
        append_k(kv, k_page, lane, k, k.n);
        append_v(kv, v_page, lane, v, v.n, sole);
    }
}

const struct q8_kernels LANES_NAME(q8) = {.encode = encode,
                                          .scores = scores,
                                          .tops = tops,
                                          .take = take,
                                          .weights = weights,
                                          .values = values,
                                          .sums = sums,
                                          .merge = merge,
                                          .finish = finish,
                                          .append = append};
