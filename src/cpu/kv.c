/* Storing new tokens' K and V in their pages.
 *
 * A page of K has a token a lane, so a token's K is scattered with a stride of a page; a page of V has a token a row.
 * Two rows never write the same number, so members may append at the same time. */
#include "cpu/attention_q8.h"
#include "cpu/cpu_impl.h"

#include <string.h>

enum { PIECE = 128 }; /* numbers narrowed at a time on the way to a K page */

size_t cpu_kv_page_bytes(enum kv_type t, uint32_t n_kv_head, uint32_t head_dim)
{
    if (t == KV_Q8)
        return n_kv_head * kv8_head_bytes(head_dim);
    return (size_t)n_kv_head * head_dim * KV_PAGE * (t == KV_F32 ? sizeof(float) : sizeof(uint16_t));
}

struct append_job {
    const struct kv_kernels *k;
    const struct q8_kernels *q8;
    const struct kv_layer *kv;
    struct page_map map;
    struct rows k_row, v_row;
};

/* n numbers of f32 in the cache's type. */
static void narrow(const struct append_job *j, void *y, const float *x, size_t n)
{
    switch (j->kv->type) {
    case KV_F32:
        memcpy(y, x, n * sizeof *x);
        break;
    case KV_F16:
        j->k->to_f16(y, x, n);
        break;
    case KV_BF16:
        j->k->to_bf16(y, x, n);
        break;
    case KV_Q8:
        break;
    }
}

/* n numbers of one token's K into its lane of the page: dim d goes to page[d * 16 + lane]. */
static void store_k(const struct append_job *j, void *page, uint32_t lane, const float *x, size_t n)
{
    if (j->kv->type == KV_F32) {
        float *p = page;
        for (size_t d = 0; d < n; d++)
            p[d * KV_PAGE + lane] = x[d];
        return;
    }
    uint16_t *p = page, part[PIECE];
    for (size_t at = 0; at < n; at += PIECE) {
        size_t m = n - at < PIECE ? n - at : PIECE;
        narrow(j, part, x + at, m);
        for (size_t d = 0; d < m; d++)
            p[(at + d) * KV_PAGE + lane] = part[d];
    }
}

static void append_row(const struct append_job *j, uint32_t r, uint32_t seq, uint32_t pos)
{
    const struct kv_layer *kv = j->kv;
    size_t size = kv->type == KV_F32 ? sizeof(float) : sizeof(uint16_t), hd = kv->head_dim;
    size_t at = j->map.page[seq * j->map.stride + pos / KV_PAGE] * kv->page_bytes;
    unsigned char *k = (unsigned char *)kv->k + at, *v = (unsigned char *)kv->v + at;
    const float *x = j->k_row.p + r * j->k_row.stride, *y = j->v_row.p + r * j->v_row.stride;
    uint32_t lane = pos % KV_PAGE;
    /* All heads of K are one run of dims, because [n_kv_head][head_dim][16] is. */
    store_k(j, k, lane, x, kv->n_kv_head * hd);
    for (size_t h = 0; h < kv->n_kv_head; h++)
        narrow(j, v + (h * KV_PAGE + lane) * hd * size, y + h * hd, hd);
}

/* KV_Q8: rows [r, end) of a span, by quads of tokens that share words of V. */
static void append_quads(const struct append_job *j, const struct span *s, uint32_t r, uint32_t end)
{
    for (uint32_t n; r < end; r += n) {
        uint32_t pos = s->pos + (r - s->row);
        size_t at = j->map.page[s->seq * j->map.stride + pos / KV_PAGE] * j->kv->page_bytes;
        n = 4 - pos % 4 < end - r ? 4 - pos % 4 : end - r;
        struct rows k = {j->k_row.p + r * j->k_row.stride, n, j->k_row.dim, j->k_row.stride};
        struct rows v = {j->v_row.p + r * j->v_row.stride, n, j->v_row.dim, j->v_row.stride};
        j->q8->append(j->kv, (uint8_t *)j->kv->k + at, (uint8_t *)j->kv->v + at, pos % KV_PAGE, k, v);
    }
}

void cpu_kv_append(const struct op_ctx *c, const struct attn_prepare *p, size_t first, size_t last)
{
    struct append_job j = {
        .k = cpu_of(c)->k->kv, .q8 = cpu_of(c)->k->attn->q8, .kv = p->kv, .map = p->map, .k_row = p->k, .v_row = p->v};
    for (uint32_t i = 0; i < p->batch->n_span; i++) {
        const struct span *s = &p->batch->span[i];
        uint32_t r = s->row > first ? s->row : (uint32_t)first, end = s->row + s->n;
        end = end < last ? end : (uint32_t)last;
        if (p->kv->type == KV_Q8)
            append_quads(&j, s, r, end);
        else
            for (; r < end; r++)
                append_row(&j, r, s->seq, s->pos + (r - s->row));
    }
}
