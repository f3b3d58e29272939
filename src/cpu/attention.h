/* Attention's unit of work, between attention.c (which cuts and shares it) and attention_body.h (which computes it).
 *
 * A job is some rows of one sequence times some heads that read the same KV head, so that a page of K or V is loaded
 * once for all of them. It walks its pages in chunks, and a chunk in three steps:
 *
 *   scores   s = scale * q·k of every query and page of the chunk    independent by page and query
 *   softmax  softcap, running maximum, e = exp(s - m), lane sums     sequential in pages, independent by query
 *   values   o = o * c + e·v                                         sequential in pages, independent by query and dim
 *
 * No step reduces over an axis that another thread may have cut: any split of pages (scores), queries or dims gives the
 * same bits. */
#ifndef GLIM_CPU_ATTENTION_H
#define GLIM_CPU_ATTENTION_H

#include "op/op.h"

enum {
    ATTN_MAX_ROWS = KV_PAGE
}; /* rows of a job: positions within one page, so that only the ends of a walk are masked */

struct attn_job {
    /* the cache */
    const unsigned char *k, *v; /* this KV head in page 0 */
    const uint32_t *page;       /* the sequence's page table */
    size_t page_bytes;
    enum kv_type type;
    uint32_t head_dim;
    /* the queries: number i is head i % n_head of row i / n_head */
    uint32_t n_row, n_head, n_query;
    uint32_t pos; /* of the first row; row i is at pos + i */
    uint32_t window;
    float scale, softcap;
    /* the chunk: page numbers [first, first + n_page) of the sequence */
    uint32_t first, n_page;
    /* scratch */
    float *q, *o; /* [n_query][head_dim] */
    float *m;     /* [n_query] */
    float *l;     /* [n_query][16] */
    float *s;     /* [page of the chunk][n_query][16]: scores, then e */
    float *top;   /* [page of the chunk][n_query]: softmax's own */
    float *c;     /* [page of the chunk][n_query]: what o is multiplied with before the page, 1 = nothing */
};

/* Tokens [*t0, *t1) of page `p` are visible to a row at position pos; t0 >= t1 when none is. */
static inline void attn_visible(uint32_t pos, uint32_t window, uint32_t p, uint32_t *t0, uint32_t *t1)
{
    uint32_t start = p * KV_PAGE, lo = window != 0 && pos >= window ? pos - window + 1 : 0;
    *t0 = lo <= start ? 0 : lo - start < KV_PAGE ? lo - start : KV_PAGE;
    *t1 = pos < start ? 0 : pos - start < KV_PAGE ? pos - start + 1 : KV_PAGE;
}

/* The same: bit t = token t. */
static inline uint32_t attn_visible_bits(uint32_t pos, uint32_t window, uint32_t p)
{
    uint32_t t0, t1;
    attn_visible(pos, window, p, &t0, &t1);
    return t0 < t1 ? (1u << t1) - (1u << t0) : 0;
}

struct q8_kernels; /* attention_q8.h */
struct attn_kernels {
    const struct q8_kernels *q8;
    void (*scores)(const struct attn_job *j, uint32_t p0, uint32_t p1);  /* pages [p0, p1) of the chunk */
    void (*softmax)(const struct attn_job *j, uint32_t q0, uint32_t q1); /* queries [q0, q1) */
    void (*values)(const struct attn_job *j, uint32_t d0, uint32_t d1);  /* dims [d0, d1); d0 a multiple of 16 */
    /* y = o / L of dims [d0, d1): row r, head h of the job goes to y + r * stride + h * head_dim. */
    void (*finish)(const struct attn_job *j, float *y, size_t stride, uint32_t d0, uint32_t d1);
};

extern const struct attn_kernels attn_generic, attn_avx2, attn_avx512;

#endif
