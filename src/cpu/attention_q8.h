/* Attention over 8-bit keys and values (KV_Q8 of op.h): the unit of work between attention_q8.c, which walks, and
 * attention_q8_body.h, which computes.
 *
 * A job is some rows of one sequence times some heads that read the same KV head, so that a tile of K and V is loaded
 * once for all of them. A tile is 64 tokens, four pages from a multiple of 64. It goes through
 *
 *   scores   q·k: a lane a token, four dims a vpdpbusd
 *   tops     the tile's largest score
 *   take     running maximum, the factors c of what is there and w of the tile
 *   weights  p = 2^(s - top) as bytes, lane sums u; l = l * c + w * u
 *   values   p·v: a lane a dim, four tokens a vpdpbusd; o = o * c + w * sum
 *
 * p, u and the sums know nothing of other tiles, so tiles may be computed in any order by anyone (`sums`) and merged in
 * ascending order later, with the same bits. */
#ifndef GLIM_CPU_ATTENTION_Q8_H
#define GLIM_CPU_ATTENTION_Q8_H

#include "cpu/attention.h"

enum { Q8_PAGES = KV8_TILE / KV_PAGE };

struct q8_job {
    /* the cache */
    const uint8_t *k, *v; /* this KV head in page 0 */
    const uint32_t *page; /* the sequence's page table */
    size_t page_bytes;
    uint32_t head_dim, dim, n_run; /* dim = kv8_dim(head_dim) = 32 * n_run */
    /* the queries: number i is head i % n_head of row i / n_head */
    uint32_t n_row, n_head, n_query;
    uint32_t pos; /* of the first row; row i is at pos + i */
    uint32_t window;
    float softcap;
    int8_t *code;  /* [n_query][dim] */
    float *d;      /* [n_query][n_run] */
    int32_t *bias; /* [n_query][n_run]: -128 times the sum of the codes, because K's are stored with 128 added */
    /* the running softmax */
    float *m, *l, *o; /* [n_query], [n_query][16], [n_query][dim] */
    /* the tile: page numbers [first, first + n_page) of the sequence */
    uint32_t first, n_page;
    const uint8_t *next_k[Q8_PAGES], *next_v[Q8_PAGES]; /* where the tile is that comes next, to be fetched early */
    float *s;                                           /* [n_query][64] scores */
    uint8_t *p;                                         /* [n_query][64] */
    float *tops;                                        /* [n_query][16]: the lanes' */
    float *top;                                         /* [n_query] */
    float *u;                                           /* [n_query][16]: what `sums` leaves for `merge` */
    float *c, *w;                                       /* [n_query] */
    int32_t *sum;                                       /* [n_query][dim]: the same */
};

struct q8_kernels {
    /* The job's queries, from head 0 of row 0 on. */
    void (*encode)(const struct q8_job *j, const float *q, size_t stride, float scale);
    void (*scores)(const struct q8_job *j);
    void (*tops)(const struct q8_job *j);
    void (*take)(const struct q8_job *j);
    void (*weights)(const struct q8_job *j);
    void (*values)(const struct q8_job *j);
    void (*sums)(const struct q8_job *j); /* instead of take, weights and values */
    /* take, weights and values of n_tile tiles whose top, u and sum lie one after the other; queries [q0, q1). */
    void (*merge)(const struct q8_job *j, uint32_t n_tile, uint32_t q0, uint32_t q1);
    /* Row r, head h of the job goes to y + r * stride + h * head_dim; queries [q0, q1). */
    void (*finish)(const struct q8_job *j, float *y, size_t stride, uint32_t q0, uint32_t q1);
    /* k.n = v.n <= 4 tokens of all KV heads into lanes from `lane` on of their pages; of one quad. sole: nobody else
     * writes other tokens of the quad at the same time, though they share words. */
    void (*append)(const struct kv_layer *kv, uint8_t *k_page, uint8_t *v_page, uint32_t lane, struct rows k,
                   struct rows v, bool sole);
};

extern const struct q8_kernels q8_generic, q8_avx2, q8_avx512;

#endif
