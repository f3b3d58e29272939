/* KV_Q8 of the reference backend: 8-bit keys, values and queries, as op.h writes them. */
#include "op/op_ref.h"

#include "op/op_math.h"

enum { RUN = KV8_RUN };

/* ---- encoding ---- */

/* Run r of a head: padded with zeros, rotated. */
static void rotated(float y[RUN], const float *x, uint32_t head_dim, uint32_t r)
{
    for (uint32_t i = 0; i < RUN; i++)
        y[i] = r * RUN + i < head_dim ? x[r * RUN + i] : 0;
    op_rotate32(y);
}

/* max|x| of a run; NaN when one of them is not finite. */
static float run_peak(const float x[RUN])
{
    float peak = 0;
    for (uint32_t i = 0; i < RUN; i++) {
        if (!isfinite(x[i]))
            return NAN;
        peak = fabsf(x[i]) > peak ? fabsf(x[i]) : peak;
    }
    return peak;
}

/* Codes of a rotated run; returns peak / 127. */
static float encode(int8_t code[RUN], const float x[RUN])
{
    float peak = run_peak(x);
    bool none = !(peak >= ACT_PEAK_MIN);
    for (uint32_t i = 0; i < RUN; i++)
        code[i] = none ? 0 : (int8_t)rintf(x[i] * (127.0f / peak));
    return isnan(peak) ? NAN : none ? 0 : peak / 127.0f;
}

/* ---- pages ---- */

static uint8_t *head_at(const struct kv_layer *kv, void *page, uint32_t h)
{
    return (uint8_t *)page + h * kv8_head_bytes(kv->head_dim);
}

/* The f16 numbers behind the codes of a head. */
static uint16_t *scales_at(const struct kv_layer *kv, uint8_t *head)
{
    return (uint16_t *)(void *)(head + (size_t)kv8_dim(kv->head_dim) * KV_PAGE);
}

static uint8_t *k_code(uint8_t *head, uint32_t d, uint32_t t)
{
    return head + ((size_t)(d / 4) * KV_PAGE + t) * 4 + d % 4;
}

static int8_t *v_code(const struct kv_layer *kv, uint8_t *head, uint32_t d, uint32_t t)
{
    return (int8_t *)head + ((size_t)(t / 4) * kv8_dim(kv->head_dim) + d) * 4 + t % 4;
}

static void append_k(const struct kv_layer *kv, uint8_t *head, uint32_t t, const float *x)
{
    for (uint32_t r = 0; r < kv8_dim(kv->head_dim) / RUN; r++) {
        float run[RUN];
        int8_t code[RUN];
        rotated(run, x, kv->head_dim, r);
        scales_at(kv, head)[r * KV_PAGE + t] = f32_to_f16(encode(code, run));
        for (uint32_t i = 0; i < RUN; i++)
            *k_code(head, r * RUN + i, t) = (uint8_t)(code[i] + 128);
    }
}

static void append_v(const struct kv_layer *kv, uint8_t *head, uint32_t t, const float *x)
{
    uint32_t n_run = kv8_dim(kv->head_dim) / RUN;
    float run[RUN], peak = 0x1p-24f;
    for (uint32_t r = 0; r < n_run; r++) {
        rotated(run, x, kv->head_dim, r);
        float p = run_peak(run);
        peak = isnan(p) || p > peak ? p : peak; /* a NaN stays */
    }
    uint16_t e = isnan(peak) ? f32_to_f16(NAN) : f32_to_f16(op_log2(peak) - OP_LOG2_127);
    float inv = op_exp2(-f16_to_f32(e));
    scales_at(kv, head)[t] = e;
    for (uint32_t r = 0; r < n_run; r++) {
        rotated(run, x, kv->head_dim, r);
        for (uint32_t i = 0; i < RUN; i++) {
            float c = isnan(peak) ? 0 : rintf(run[i] * inv);
            *v_code(kv, head, r * RUN + i, t) = (int8_t)(c > 127 ? 127 : c < -127 ? -127 : c);
        }
    }
}

void ref_q8_append(const struct kv_layer *kv, void *k_page, void *v_page, uint32_t pos, const float *k, const float *v)
{
    for (uint32_t h = 0; h < kv->n_kv_head; h++) {
        append_k(kv, head_at(kv, k_page, h), pos % KV_PAGE, k + (size_t)h * kv->head_dim);
        append_v(kv, head_at(kv, v_page, h), pos % KV_PAGE, v + (size_t)h * kv->head_dim);
    }
}

/* ---- attention ---- */

/* One row and head on its way over the tiles. */
struct walk {
    struct ref_head s;
    const struct kv_layer *kv;
    const uint32_t *page;
    uint32_t kv_head;
    const struct attn_params *p;
    float m, l[KV_PAGE];
};

static uint8_t *k_head(const struct walk *w, uint32_t t)
{
    return head_at(w->kv, (char *)w->kv->k + w->page[t / KV_PAGE] * w->kv->page_bytes, w->kv_head);
}

static uint8_t *v_head(const struct walk *w, uint32_t t)
{
    return head_at(w->kv, (char *)w->kv->v + w->page[t / KV_PAGE] * w->kv->page_bytes, w->kv_head);
}

static float v_exponent(const struct walk *w, uint32_t t)
{
    return f16_to_f32(scales_at(w->kv, v_head(w, t))[t % KV_PAGE]);
}

static float score(const struct walk *w, uint32_t t)
{
    uint8_t *head = k_head(w, t);
    const struct attn_params *p = w->p;
    float x = 0;
    for (uint32_t r = 0; r < kv8_dim(w->kv->head_dim) / RUN; r++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < RUN; i++)
            sum += w->s.code[r * RUN + i] * (*k_code(head, r * RUN + i, t % KV_PAGE) - 128);
        float d = f16_to_f32(scales_at(w->kv, head)[r * KV_PAGE + t % KV_PAGE]);
        x = fmaf(w->s.d[r] * d, (float)sum, x);
    }
    if (p->softcap != 0)
        x = p->softcap * op_tanh(x / p->softcap);
    return fmaf(x, OP_LOG2E, v_exponent(w, t));
}

/* Visible tokens [first, last) of one tile. */
static void take_tile(struct walk *w, uint32_t first, uint32_t last)
{
    float s[KV8_TILE], u[KV_PAGE] = {0}, top = -INFINITY;
    int32_t code[KV8_TILE];
    uint32_t start = first - first % KV8_TILE;
    for (uint32_t t = first; t < last; t++) {
        s[t - start] = score(w, t);
        top = s[t - start] > top ? s[t - start] : top;
    }
    float m = top > w->m ? top : w->m, c = op_exp2(w->m - m), f = op_exp2(top - m);
    for (uint32_t t = first; t < last; t++) {
        float p = op_exp2(s[t - start] - (top - OP_LOG2_255)), e = v_exponent(w, t), inv = op_exp2(-e) + e * 0;
        code[t - start] = (int32_t)rintf(p);
        u[t % KV_PAGE] = fmaf(p, inv, u[t % KV_PAGE]);
    }
    for (uint32_t j = 0; j < KV_PAGE; j++)
        w->l[j] = fmaf(f, u[j], w->l[j] * c);
    for (uint32_t d = 0; d < kv8_dim(w->kv->head_dim); d++) {
        int32_t sum = 0;
        for (uint32_t t = first; t < last; t++)
            sum += code[t - start] * *v_code(w->kv, v_head(w, t), d, t % KV_PAGE);
        w->s.o[d] = fmaf(f, (float)sum, w->s.o[d] * c);
    }
    w->m = m;
}

void ref_q8_attend(struct ref_head s, float *y, const float *q, const struct kv_layer *kv, const uint32_t *page,
                   uint32_t pos, uint32_t kv_head, const struct attn_params *p)
{
    struct walk w = {.s = s, .kv = kv, .page = page, .kv_head = kv_head, .p = p, .m = -INFINITY};
    uint32_t dim = kv8_dim(kv->head_dim), lo = p->window != 0 && pos >= p->window ? pos - p->window + 1 : 0;
    for (uint32_t r = 0; r < dim / RUN; r++) {
        float run[RUN];
        rotated(run, q, kv->head_dim, r);
        s.d[r] = encode(s.code + r * RUN, run) * (p->scale * (1.0f / RUN));
    }
    for (uint32_t d = 0; d < dim; d++)
        s.o[d] = 0;
    for (uint32_t first = lo, last; first <= pos; first = last) {
        last = first - first % KV8_TILE + KV8_TILE;
        last = last <= pos ? last : pos + 1;
        take_tile(&w, first, last);
    }
    float sum = (float)RUN * op_sum16(w.l);
    for (uint32_t d = 0; d < dim; d += RUN) {
        op_rotate32(s.o + d);
        for (uint32_t i = d; i < d + RUN && i < kv->head_dim; i++)
            y[i] = s.o[i] / sum;
    }
}
