/* KV pages and attention of the reference backend, as op.h writes them. */
#include "op/op_ref.h"

#include "op/op_math.h"

/* ---- pages ---- */

size_t ref_kv_page_bytes(enum kv_type t, uint32_t n_kv_head, uint32_t head_dim)
{
    size_t n = (size_t)n_kv_head * head_dim * KV_PAGE;
    switch (t) {
    case KV_F32:
        return n * 4;
    case KV_F16:
    case KV_BF16:
        return n * 2;
    case KV_Q8:
        return n_kv_head * kv8_head_bytes(head_dim);
    }
    return 0;
}

static float load(const void *page, enum kv_type t, size_t i)
{
    switch (t) {
    case KV_F32:
        return ((const float *)page)[i];
    case KV_F16:
        return f16_to_f32(((const uint16_t *)page)[i]);
    case KV_BF16:
        return bf16_to_f32(((const uint16_t *)page)[i]);
    case KV_Q8:
        break;
    }
    return 0;
}

static void store(void *page, enum kv_type t, size_t i, float v)
{
    switch (t) {
    case KV_F32:
        ((float *)page)[i] = v;
        return;
    case KV_F16:
        ((uint16_t *)page)[i] = f32_to_f16(v);
        return;
    case KV_BF16:
        ((uint16_t *)page)[i] = f32_to_bf16(v);
        return;
    case KV_Q8:
        break;
    }
}

/* Where element d of KV head h, token t of the page, lies: K is [head][d][token], V is [head][token][d]. */
static size_t k_index(const struct kv_layer *kv, uint32_t h, uint32_t d, uint32_t t)
{
    return ((size_t)h * kv->head_dim + d) * KV_PAGE + t;
}

static size_t v_index(const struct kv_layer *kv, uint32_t h, uint32_t d, uint32_t t)
{
    return ((size_t)h * KV_PAGE + t) * kv->head_dim + d;
}

/* Byte offset, in both pools, of the page that holds position pos of slot seq. */
static size_t page_at(const struct kv_layer *kv, struct page_map map, uint32_t seq, uint32_t pos)
{
    return map.page[seq * map.stride + pos / KV_PAGE] * kv->page_bytes;
}

void ref_kv_append(const struct attn_prepare *p)
{
    const struct kv_layer *kv = p->kv;
    for (const struct span *s = p->batch->span; s < p->batch->span + p->batch->n_span; s++)
        for (uint32_t i = 0; i < s->n; i++) {
            size_t page = page_at(kv, p->map, s->seq, s->pos + i);
            const float *k = row_at(p->k, s->row + i), *v = row_at(p->v, s->row + i);
            uint32_t t = (s->pos + i) % KV_PAGE;
            if (kv->type == KV_Q8) {
                ref_q8_append(kv, (char *)kv->k + page, (char *)kv->v + page, s->pos + i, k, v);
                continue;
            }
            for (uint32_t h = 0; h < kv->n_kv_head; h++)
                for (uint32_t d = 0; d < kv->head_dim; d++) {
                    store((char *)kv->k + page, kv->type, k_index(kv, h, d, t), k[h * kv->head_dim + d]);
                    store((char *)kv->v + page, kv->type, v_index(kv, h, d, t), v[h * kv->head_dim + d]);
                }
        }
}

/* ---- attention ---- */

/* The running softmax of one row and head. */
struct softmax {
    float m;     /* largest score so far */
    float l[16]; /* sum of exp(s - m), by lane = position mod 16 */
    float *o;    /* sum of exp(s - m) * v, [head_dim] */
};

/* Scores s[first, last) of the page's visible tokens. */
static void scores(float s[16], const float *q, const void *k, const struct kv_layer *kv, uint32_t h, uint32_t first,
                   uint32_t last, const struct attn_params *p)
{
    for (uint32_t t = first; t < last; t++) {
        float dot = 0;
        for (uint32_t d = 0; d < kv->head_dim; d++)
            dot = fmaf(q[d], load(k, kv->type, k_index(kv, h, d, t)), dot);
        s[t] = p->scale * dot;
        if (p->softcap != 0)
            s[t] = p->softcap * op_tanh(s[t] / p->softcap);
    }
}

/* Take the page's visible tokens [first, last) into the running softmax. */
static void take_page(struct softmax *a, const float s[16], const void *v, const struct kv_layer *kv, uint32_t h,
                      uint32_t first, uint32_t last)
{
    float m = a->m;
    for (uint32_t t = first; t < last; t++)
        m = s[t] > m ? s[t] : m;
    if (m != a->m) {
        float c = op_exp(a->m - m);
        for (uint32_t j = 0; j < 16; j++)
            a->l[j] = a->l[j] * c;
        for (uint32_t d = 0; d < kv->head_dim; d++)
            a->o[d] = a->o[d] * c;
        a->m = m;
    }
    for (uint32_t t = first; t < last; t++) {
        float e = op_exp(s[t] - m);
        a->l[t] = a->l[t] + e;
        for (uint32_t d = 0; d < kv->head_dim; d++)
            a->o[d] = fmaf(e, load(v, kv->type, v_index(kv, h, d, t)), a->o[d]);
    }
}

/* One row at position pos, one head: y, q are [head_dim]. */
static void attend(float *y, const float *q, const struct kv_layer *kv, struct page_map map, uint32_t seq, uint32_t pos,
                   uint32_t kv_head, const struct attn_params *p)
{
    struct softmax a = {.m = -INFINITY, .o = y};
    uint32_t lo = p->window != 0 && pos >= p->window ? pos - p->window + 1 : 0;
    for (uint32_t d = 0; d < kv->head_dim; d++)
        y[d] = 0;
    for (uint32_t start = lo - lo % KV_PAGE; start <= pos; start += KV_PAGE) {
        size_t page = page_at(kv, map, seq, start);
        uint32_t first = start < lo ? lo - start : 0, last = pos - start < KV_PAGE ? pos - start + 1 : KV_PAGE;
        float s[16];
        scores(s, q, (const char *)kv->k + page, kv, kv_head, first, last, p);
        take_page(&a, s, (const char *)kv->v + page, kv, kv_head, first, last);
    }
    float sum = op_sum16(a.l);
    for (uint32_t d = 0; d < kv->head_dim; d++)
        y[d] = y[d] / sum;
}

void ref_attention(struct op_ctx *c, struct rows y, struct rows q, const struct kv_layer *kv, const struct batch *b,
                   struct page_map map, const struct attn_params *p)
{
    uint32_t share = p->n_head / kv->n_kv_head; /* heads that read one KV head */
    for (const struct span *s = b->span; s < b->span + b->n_span; s++)
        for (uint32_t i = 0; i < s->n; i++)
            for (uint32_t h = 0; h < p->n_head; h++) {
                size_t at = (size_t)h * kv->head_dim;
                if (kv->type == KV_Q8) {
                    ref_q8_attend(ref_head_of(c), row_at(y, s->row + i) + at, row_at(q, s->row + i) + at, kv,
                                  map.page + s->seq * map.stride, s->pos + i, h / share, p);
                    continue;
                }
                attend(row_at(y, s->row + i) + at, row_at(q, s->row + i) + at, kv, map, s->seq, s->pos + i, h / share,
                       p);
            }
}
