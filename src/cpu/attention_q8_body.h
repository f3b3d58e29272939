/* Inner kernels of attention over 8-bit keys and values; included by attention_q8_<isa>.c after its lanes.
 *
 * scores and values are the register tiles of the integer products: nq queries times nv vectors of 32-bit sums, four
 * bytes of a query (or of its p) spread against nv vectors of K (or V) a step. nq and nv are constants of each
 * instance. */
#include "cpu/attention_q8.h"
#include "cpu/q8_encode.h"
#include "cpu/unroll.h"

enum { Q8_MAX_Q = LANES_INT_Q, Q8_MAX_V = 4, Q8_QUADS = KV8_RUN / 4 };
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
    vf acc[Q8_MAX_Q][Q8_MAX_V];
    UNROLL for (int p = 0; p < np; p++)
    {
        k[p] = q8_page(j, j->k, p0 + (uint32_t)p);
        ahead[p] = j->k + j->next[p0 + (uint32_t)p] * j->page_bytes;
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
    UNROLL for (int p = 0; p < np; p++)
    {
        if (fetch) {
            __builtin_prefetch(ahead[p]);
            __builtin_prefetch(j->v + j->next[p0 + (uint32_t)p] * j->page_bytes + dim * KV_PAGE);
        }
        vf e = v_load_f16(q8_scales(j, q8_page(j, j->v, p0 + (uint32_t)p))), log2e = v_set(OP_LOG2E);
        UNROLL for (int i = 0; i < nq; i++) v_store(s + i * KV8_TILE + p * KV_PAGE, v_fma(acc[i][p], log2e, e));
    }
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

/* True when every row sees all of the tile's pages: the last row's window begins before them, the first row is past. */
static bool q8_all_visible(const struct q8_job *j)
{
    return attn_visible_bits(j->pos + j->n_row - 1, j->window, j->first) == 0xFFFF &&
           attn_visible_bits(j->pos, j->window, j->first + j->n_page - 1) == 0xFFFF;
}

/* The largest visible score of query q, by lane. */
LANES_INLINE vf q8_lane_tops(const struct q8_job *j, uint32_t q, const uint32_t n_page, const bool whole)
{
    const float *s = j->s + (size_t)q * KV8_TILE;
    uint64_t bits = whole ? 0 : q8_visible(j, q / j->n_head);
    vf top = v_set(-INFINITY);
    for (uint32_t p = 0; p < n_page; p++, bits >>= 16) {
        vf x = v_load(s + p * KV_PAGE);
        top = v_max(whole ? x : v_hide((uint32_t)bits & 0xFFFF, x), top);
    }
    return top;
}

/* top of the queries from q0 on, at most sixteen. */
LANES_INLINE void q8_tops(const struct q8_job *j, uint32_t q0, const bool whole)
{
    uint32_t n = at_most_16(j->n_query - q0);
    vf top[16];
    if (whole && n == 16 && j->n_page == Q8_PAGES) {
        UNROLL for (uint32_t i = 0; i < 16; i++) top[i] = q8_lane_tops(j, q0 + i, Q8_PAGES, true);
    } else {
        for (uint32_t i = 0; i < 16; i++)
            top[i] = i < n ? q8_lane_tops(j, q0 + i, j->n_page, whole) : v_set(-INFINITY);
    }
    v_store_n(j->top + q0, v_tops(top), n);
}

/* p and u of query q; inv: op_exp2(-e) of the tile's tokens. */
LANES_INLINE void q8_exponentials(const struct q8_job *j, uint32_t q, const vf inv[Q8_PAGES], const bool whole)
{
    const float *s = j->s + (size_t)q * KV8_TILE;
    uint64_t bits = whole ? ~(uint64_t)0 : q8_visible(j, q / j->n_head);
    vf top = v_set(j->top[q] - OP_LOG2_255), u = v_set(0);
    vi code[Q8_PAGES];
    for (uint32_t i = 0; i < Q8_PAGES; i++, bits >>= 16) {
        code[i] = vi_set(0);
        if (i >= j->n_page)
            continue;
        vf p = v_exp2(v_sub(v_load(s + i * KV_PAGE), top)), f = inv[i];
        if (!whole) {
            p = v_keep((uint32_t)bits & 0xFFFF, p);
            f = v_keep((uint32_t)bits & 0xFFFF, f);
        }
        u = v_fma(p, f, u);
        code[i] = vi_round(p);
    }
    vi_bytes64(j->p + (size_t)q * KV8_TILE, code);
    v_store(j->u + (size_t)q * KV_PAGE, u);
}

LANES_INLINE void q8_softmax(const struct q8_job *j, const bool whole)
{
    vf inv[Q8_PAGES];
    for (uint32_t i = 0; i < Q8_PAGES; i++) {
        vf e = v_load_f16(q8_scales(j, q8_page(j, j->v, i < j->n_page ? i : 0)));
        inv[i] = v_add(v_exp2(v_neg(e)), v_mul(e, v_set(0)));
    }
    for (uint32_t q = 0; q < j->n_query; q += 16)
        q8_tops(j, q, whole);
    for (uint32_t q = 0; q < j->n_query; q++)
        q8_exponentials(j, q, inv, whole);
}

static void softmax(const struct q8_job *job)
{
    struct q8_job j = *job; /* a copy nobody else can see stays in registers while floats are stored */
    if (q8_all_visible(&j))
        q8_softmax(&j, true);
    else
        q8_softmax(&j, false);
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
    for (size_t q = 0; q < j.n_query; q++) {
        vf l = v_mul(v_load(j.l + q * KV_PAGE), v_set(j.c[q]));
        v_store(j.l + q * KV_PAGE, v_fma(v_set(j.w[q]), v_load(j.u + q * KV_PAGE), l));
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
        const uint8_t *at = q8_page(j, j->v, page) + d * 4, *ahead = j->v + j->next[page] * j->page_bytes + d * 4;
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

static void values(const struct q8_job *job)
{
    struct q8_job j = *job;
    q8_values(&j, true);
}

static void sums(const struct q8_job *job)
{
    struct q8_job j = *job;
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
        l = v_fma(v_set(w[i]), v_load(j->u + ((t + i) * nq + q) * KV_PAGE), v_mul(l, v_set(c[i])));
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

/* ---- append ---- */

/* Codes of a run of K into lane `lane` of the head's page. */
LANES_INLINE void q8_store_k(uint8_t *head, uint32_t run, uint32_t lane, const int8_t code[KV8_RUN])
{
    uint8_t *to = head + ((size_t)run * Q8_QUADS * KV_PAGE + lane) * 4;
    for (unsigned i = 0; i < Q8_QUADS; i++, to += KV_PAGE * 4) {
        uint32_t x;
        memcpy(&x, code + 4 * i, sizeof x);
        x ^= 0x80808080;
        memcpy(to, &x, sizeof x);
    }
}

struct q8_place { /* of a run: where it comes from and goes to */
    const float *x;
    uint8_t *head;
    uint32_t run, lane;
};

/* At most 16 runs of K. */
static void append_runs(const struct kv_layer *kv, const struct q8_place *at, uint32_t n)
{
    size_t codes = (size_t)kv8_dim(kv->head_dim) * KV_PAGE;
    struct q8_runs r;
    float d[16], inv[16];
    uint16_t half[16];
    for (uint32_t i = 0; i < n; i++)
        load_run(&r, i, at[i].x + at[i].run * KV8_RUN, kv->head_dim - at[i].run * KV8_RUN);
    for (uint32_t i = n; i < 16; i++)
        r.x[i][0] = r.x[i][1] = v_set(0);
    run_scales(&r, d, inv);
    v_store_f16_n(half, v_load(d), 16);
    for (uint32_t i = 0; i < n; i++) {
        int8_t code[KV8_RUN];
        vi a, b;
        run_codes(&r, i, inv[i], &a, &b);
        vi_bytes32(code, a, b);
        q8_store_k(at[i].head, at[i].run, at[i].lane, code);
        memcpy(at[i].head + codes + (at[i].run * KV_PAGE + at[i].lane) * 2, &half[i], 2);
    }
}

static void append_k(const struct kv_layer *kv, uint8_t *page, uint32_t lane, struct rows k)
{
    struct q8_place at[16];
    uint32_t n_run = kv8_dim(kv->head_dim) / KV8_RUN, have = 0;
    for (uint32_t t = 0; t < k.n; t++)
        for (uint32_t h = 0; h < kv->n_kv_head; h++)
            for (uint32_t run = 0; run < n_run; run++) {
                at[have++] = (struct q8_place){k.p + t * k.stride + (size_t)h * kv->head_dim,
                                               page + h * kv8_head_bytes(kv->head_dim), run, lane + t};
                if (have == 16) {
                    append_runs(kv, at, 16);
                    have = 0;
                }
            }
    if (have > 0)
        append_runs(kv, at, have);
}

/* inv = op_exp2(-e) of each of n <= 4 heads, which are x + i * stride; 0 and a NaN e where one is not finite. */
LANES_INLINE void q8_v_scales(const float *x, size_t stride, uint32_t n, uint32_t head_dim, uint16_t e[16],
                              float inv[16])
{
    vf top[16];
    for (uint32_t i = 0; i < 16; i++)
        top[i] = v_set(0);
    for (uint32_t d = 0; d < head_dim; d += KV8_RUN) {
        struct q8_runs r;
        for (uint32_t i = 0; i < n; i++) {
            load_run(&r, i, x + i * stride + d, head_dim - d);
            top[i] = v_larger(top[i], v_larger(r.x[i][0], r.x[i][1]));
        }
    }
    vf peak = v_peaks(top);
    uint32_t bad = ~v_gt_bits(v_set(INFINITY), peak) & ((1u << n) - 1);
    v_store_f16_n(e, v_sub(v_log2(v_max(peak, v_set(0x1p-24f))), v_set(OP_LOG2_127)), 16);
    v_store(inv, v_exp2(v_neg(v_load_f16(e))));
    for (uint32_t i = 0; bad >> i != 0; i++)
        if (bad >> i & 1) {
            e[i] = f32_to_f16(NAN);
            inv[i] = 0;
        }
}

/* One run of V of n <= 4 tokens at lanes from `lane` on: whole words when it is all four. */
LANES_INLINE void q8_store_v(int8_t *to, const struct q8_runs *r, const float inv[16], uint32_t lane, uint32_t n)
{
    vi half[2][4];
    int8_t word[64];
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            vf c = v_mul(r->x[i][k], v_set(inv[i]));
            half[k][i] = vi_round(v_max(v_min(c, v_set(127)), v_set(-127)));
        }
    for (uint32_t i = n; i < 4; i++)
        half[0][i] = half[1][i] = vi_set(0);
    for (int k = 0; k < 2; k++, to += 64) {
        vi_zip4(n == 4 ? to : word, half[k]);
        for (uint32_t i = 0; n < 4 && i < n; i++)
            for (int d = 0; d < 16; d++)
                to[4 * d + (int)(lane % 4 + i)] = word[4 * d + (int)i];
    }
}

static void append_v(const struct kv_layer *kv, uint8_t *head, uint32_t lane, uint32_t n, const float *x, size_t stride)
{
    size_t dim = kv8_dim(kv->head_dim);
    int8_t *to = (int8_t *)head + lane / 4 * dim * 4;
    uint16_t e[16];
    float inv[16];
    q8_v_scales(x, stride, n, kv->head_dim, e, inv);
    memcpy(head + dim * KV_PAGE + (size_t)lane * 2, e, n * sizeof *e);
    for (uint32_t d = 0; d < dim; d += KV8_RUN, to += KV8_RUN * 4) {
        struct q8_runs r;
        for (uint32_t i = 0; i < n; i++) {
            load_run(&r, i, x + i * stride + d, kv->head_dim - d);
            if (inv[i] == 0)
                r.x[i][0] = r.x[i][1] = v_set(0);
        }
        q8_store_v(to, &r, inv, lane, n);
    }
}

static void append(const struct kv_layer *kv, uint8_t *k_page, uint8_t *v_page, uint32_t lane, struct rows k,
                   struct rows v)
{
    append_k(kv, k_page, lane, k);
    for (size_t h = 0; h < kv->n_kv_head; h++)
        append_v(kv, v_page + h * kv8_head_bytes(kv->head_dim), lane, k.n, v.p + h * kv->head_dim, v.stride);
}

const struct q8_kernels LANES_NAME(q8) = {.encode = encode,
                                          .scores = scores,
                                          .softmax = softmax,
                                          .take = take,
                                          .values = values,
                                          .sums = sums,
                                          .merge = merge,
                                          .finish = finish,
                                          .append = append};
