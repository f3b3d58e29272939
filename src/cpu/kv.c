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

/* Where row r of a span goes, all heads. */
static void q8_pages(const struct append_job *j, const struct span *s, uint32_t r, uint8_t **k, uint8_t **v)
{
    size_t at = j->map.page[s->seq * j->map.stride + (s->pos + (r - s->row)) / KV_PAGE] * j->kv->page_bytes;
    *k = (uint8_t *)j->kv->k + at;
    *v = (uint8_t *)j->kv->v + at;
}

/* KV_Q8: rows [r, end) of a span, by quads of tokens that share words of V. A quad whose rows are all here has no other
 * writer. */
static void append_quads(const struct append_job *j, const struct span *s, uint32_t r, uint32_t end)
{
    for (uint32_t n; r < end; r += n) {
        uint32_t pos = s->pos + (r - s->row), before = pos % 4, after = 4 - before;
        uint8_t *k_page, *v_page;
        q8_pages(j, s, r, &k_page, &v_page);
        n = after < end - r ? after : end - r;
        bool sole = (before == 0 || r == s->row) && (n == after || r + n == s->row + s->n);
        struct rows k = {j->k_row.p + r * j->k_row.stride, n, j->k_row.dim, j->k_row.stride};
        struct rows v = {j->v_row.p + r * j->v_row.stride, n, j->v_row.dim, j->v_row.stride};
        j->q8->append(j->kv, k_page, v_page, pos % KV_PAGE, k, v, sole);
    }
}

/* A sequence's page has been out of the cache for a step: fetch the lines that its token is in. A token of K is in all
 * lines of the page, one of V in its quad's. */
static void fetch_quad(const struct append_job *j, const struct span *s)
{
    size_t head = kv8_head_bytes(j->kv->head_dim), quad = (size_t)kv8_dim(j->kv->head_dim) * 4;
    uint8_t *k, *v;
    q8_pages(j, s, s->row, &k, &v);
    for (uint32_t h = 0; h < j->kv->n_kv_head; h++, k += head, v += head) {
        for (size_t at = 0; at < head; at += 64)
            __builtin_prefetch(k + at, 1);
        for (size_t at = 0; at < quad; at += 64)
            __builtin_prefetch(v + s->pos % KV_PAGE / 4 * quad + at, 1);
        __builtin_prefetch(v + 4 * quad, 1);
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
        if (r >= end)
            continue;
        if (p->kv->type == KV_Q8) {
            if (i + 1 < p->batch->n_span && s[1].row < last)
                fetch_quad(&j, s + 1);
            append_quads(&j, s, r, end);
        } else {
            for (; r < end; r++)
                append_row(&j, r, s->seq, s->pos + (r - s->row));
        }
    }
}
