/* op.h: THE contract a backend implements.
 *
 * A backend is one table of functions. Operands live in memory the backend allocated (on the CPU: ordinary memory). Ops
 * are asynchronous in principle and return nothing: shapes were checked when the plan was bound, and a device fault is
 * latched and reported by sync().
 *
 * The row contract (docs/NUMERICS.md): the bits of output row r depend on row r's own inputs, on its absolute position,
 * on the weights and on compile-time constants; never on how many rows share the launch, on their order, on the number
 * of threads or on what else is cached. Every formula below fixes its order of operations, and op_ref.c is that order
 * in scalar C: a kernel is right when its bits equal op_ref's. All of them: fma means one rounding, + and * one
 * rounding each. */
#ifndef GLIM_OP_OP_H
#define GLIM_OP_OP_H

#include "base/crew.h"
#include "base/mem.h"
#include "quant/quant.h"

/* f32 [n, dim]; row r starts at p + r * stride. */
struct rows {
    float *p;
    uint32_t n, dim;
    size_t stride;
};

/* A matrix [n_out, n_in] in the backend's own layout, or a table of n_out rows for embed(). */
enum act_type {
    ACT_F32,   /* plain numbers as weights: f32 activations */
    ACT_Q8,    /* quantised weights: 8-bit activations */
    ACT_MIXED, /* quantised weights: 8 bits, and 16 for elements that stick out of their row (quant.h) */
    ACT_Q16,   /* quantised weights: 16-bit activations, twice the integer work */
};
static inline float act_cap(enum act_type a)
{
    return a == ACT_Q8 ? ACT_CAP_8 : a == ACT_MIXED ? ACT_CAP_MIXED : ACT_CAP_16;
}
struct weight {
    const struct quant_format *fmt;
    uint32_t n_out, n_in;
    enum act_type act;
    void *data; /* backend layout, weight_bytes() long */
    size_t bytes;
};

/* y = x W^T (+ bias) (+ y): one of up to 4 products that share an input. */
struct linear_job {
    struct rows y; /* [n, w->n_out] */
    const struct weight *w;
    const float *bias; /* f32 [n_out] or NULL */
    bool add;          /* y += product instead of y = product */
};

enum act_fn { ACT_FN_SILU, ACT_FN_GELU_TANH, ACT_FN_GELU_ERF };

/* ---- KV pages ---- */
enum { KV_PAGE = 16 }; /* tokens a page, and the tile of attention */
enum kv_type { KV_F32, KV_F16, KV_BF16, KV_Q8 };

/* One layer's pools. A page of K is [n_kv_head][head_dim][16 tokens] (a token is a lane, so a tile's scores need no
 * horizontal sum), a page of V is [n_kv_head][16 tokens][head_dim]; page p starts at p * page_bytes.
 *
 * KV_Q8 keeps 8-bit integers, so that scores and values are integer dots. A head is padded with zeros to whole runs
 * of 32, and each run is rotated: for h = 16, 8, 4, 2, 1 every pair (i, i + h) with i & h = 0 becomes (a + b, a - b).
 * With queries rotated alike q·k is only scaled, R(q)·R(k) = 32 q·k, and R(R(v)) = 32 v gives values back. But what
 * stuck out of a run is spread over it, and that is most of what 8 bits lose. A run whose peak = max|x| is below
 * ACT_PEAK_MIN counts as all 0; one that holds a NaN or an Inf has codes 0 and a NaN for d, or for the head's e.
 *
 *   K, a run:              code = rint(k * (127 / peak)),  d = f16(peak / 127)
 *   V, a head of a token:  code = rint(v * op_exp2(-e)) within +-127,
 *                          e = f16(op_log2(max(peak of the head, 2^-24)) - OP_LOG2_127)
 *
 * A V is code * 2^e, so that e adds to a score. Layout, D = head_dim rounded up to runs; each KV head is rounded up to
 * 64 bytes:
 *
 *   K:  u8 [D / 4][16 tokens][4], code + 128,  then f16 d [D / 32][16 tokens]
 *   V:  i8 [4 quads of tokens][D][4], code,    then f16 e [16 tokens] */
struct kv_layer {
    void *k, *v;
    enum kv_type type;
    uint32_t n_kv_head, head_dim;
    size_t page_bytes; /* of one page of K, and of one page of V */
};

/* KV_Q8's padded head, and bytes of one KV head in a page. */
enum { KV8_RUN = 32, KV8_TILE = 64 };
static inline uint32_t kv8_dim(uint32_t head_dim)
{
    return (head_dim + KV8_RUN - 1) / KV8_RUN * KV8_RUN;
}
static inline size_t kv8_head_bytes(uint32_t head_dim)
{
    size_t codes = (size_t)kv8_dim(head_dim) * KV_PAGE, scales = (size_t)(kv8_dim(head_dim) / KV8_RUN) * KV_PAGE * 2;
    return (codes + scales + 63) / 64 * 64;
}

/* ---- the ragged batch ---- */
struct span { /* rows [row, row + n) are positions [pos, pos + n) of sequence slot seq */
    uint32_t row, n, pos, seq;
};
struct batch {
    uint32_t n_row, n_span;
    const int32_t *token;    /* [n_row] */
    const int32_t *pos;      /* [n_row] absolute positions */
    const struct span *span; /* [n_span] cover the rows in order */
};
/* Page tables of one KV group: page number `i` (tokens 16i … 16i+15) of slot s is page[s * stride + i]. */
struct page_map {
    const uint32_t *page;
    size_t stride;
};

/* Rows of q [n, n_head * head_dim], and of k and v [n, n_kv_head * head_dim]:
 *   norm  each head of q and k by itself: rmsnorm (below) with q_norm or k_norm [head_dim], NULL being weightless
 *   rope  the first 2 * n_freq elements of each head of q and k, in pairs (2i, 2i+1) when interleaved, else (i, i +
 *         n_freq):  x0' = fma(x0, cos, -(x1 * sin));   x1' = fma(x1, cos, x0 * sin)
 *   kv    row r's k and v at its position, rounded to nearest even in kv->type */
struct attn_prepare {
    struct rows q, k,
        v; /* q.n = 0: rows that nobody asks from; k.n = 0: nothing is stored, and the last three are not read */
    uint32_t n_head, n_kv_head;
    bool norm, interleaved;
    const float *q_norm, *k_norm;
    float eps;
    struct rows rope; /* [n, 2 * n_freq] as rope_table made it; p = NULL: no positions */
    const struct kv_layer *kv;
    const struct batch *batch;
    struct page_map map;
};

struct attn_params {
    uint32_t n_head;
    float scale;     /* multiplies q·k */
    float softcap;   /* 0 = none, else s = cap * tanh(s / cap) */
    uint32_t window; /* row at position p sees [p - window + 1, p]; 0 = all */
};

struct backend; /* the table below */
struct op_ctx { /* one forward at a time; made by backend->open */
    const struct backend *be;
    struct crew *crew;
    void *priv;
};

struct op_limits {     /* what scratch is planned for */
    uint32_t max_rows; /* rows in one forward */
    uint32_t max_in;   /* largest n_in of any weight, and dim of any rows */
    uint32_t max_head, max_head_dim;
};

struct backend {
    const char *name; /* "cpu-avx512" */

    /* -- life -- */
    size_t (*scratch_bytes)(const struct op_limits *l, int n_thread);
    glim_status (*open)(struct op_ctx *c, const struct op_limits *l, struct crew *crew, struct glim_err *e);
    void (*close)(struct op_ctx *c);
    /* OK, or the first device fault since the last call. */
    glim_status (*sync)(struct op_ctx *c, struct glim_err *e);

    /* -- weights -- */
    /* Size of the backend's layout; refused when the backend cannot run this format or shape. */
    glim_status (*weight_bytes)(const struct quant_format *f, uint32_t n_out, uint32_t n_in, size_t *bytes,
                                struct glim_err *e);
    /* Lay rows [row, row + n_row) of the matrix out into w->data; src is those rows in file layout. row is a multiple
     * of 64. Runs on the crew. */
    void (*weight_pack)(struct crew *crew, struct weight *w, const void *src, uint32_t row, uint32_t n_row);
    size_t (*kv_page_bytes)(enum kv_type t, uint32_t n_kv_head, uint32_t head_dim);
    /* The kernel that serves a product with this weight ("avx512-vnni panel16"), for doctor, bench and /props. */
    const char *(*kernel_name)(const struct quant_format *f, enum act_type act);

    /* -- ops -- */

    /* y[r,:] = scale * decode(table row token[r]).          token: [y.n], checked by the caller to be < n_out */
    void (*embed)(struct op_ctx *c, struct rows y, const struct weight *table, const int32_t *token, float scale);

    /* y[r,j] = (x[r,j] * s) * w[j],  s = 1 / sqrt(sum / dim + eps)             w may be NULL (weightless: x * s)
     * sum: 16 lanes, lane l takes j = l, l + 16, … ascending with fma(x, x, acc); then lanes are added in the tree
     * (l, l+8), (l, l+4), (l, l+2), (l, l+1). y may be x. */
    void (*rmsnorm)(struct op_ctx *c, struct rows y, struct rows x, const float *w, float eps);

    /* y += x, elementwise. */
    void (*add)(struct op_ctx *c, struct rows y, struct rows x);

    /* Up to 4 products on one input. Plain-number weights (ACT_F32): acc = fma(x_k, w_k, acc), k ascending from 0.
     * Quantised: activations encoded as quant.h says, then quant_dot's order. Then + bias, then (add) y + that. */
    void (*linear)(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x);

    /* linear on rmsnorm(x, w, eps), and on glu(g, u, fn), whose rows are made on the way and not kept. */
    void (*norm_linear)(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x, const float *w,
                        float eps);
    void (*glu_linear)(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows g, struct rows u,
                       enum act_fn fn);

    /* cos/sin of each row: t[r, 2i] = cos(f), t[r, 2i + 1] = sin(f), f = (float)pos[r] * inv_freq[i] in f32, the cosine
     * and sine of that f32 taken in double, times mscale, rounded once. t: [n, 2 * n_freq]. */
    void (*rope_table)(struct op_ctx *c, struct rows t, const int32_t *pos, const float *inv_freq, float mscale);

    /* Heads on their way to attention: q and k normed and turned in place, then k and v stored (struct attn_prepare).
     */
    void (*attn_prepare)(struct op_ctx *c, const struct attn_prepare *p);

    /* Causal attention of each row over its own sequence's pages. For row at position p, head h (KV head h / (n_head /
     * n_kv_head)), visible tokens t in [lo, p]; pages ascending from the one that holds lo:
     *   s_t   = scale * (fma chain over d ascending of q_d * k_td, from 0), softcapped if asked
     *   m'    = max(m, max of the page's visible s_t)                                          m starts at -inf
     *   c     = op_exp(m - m');  e_t = op_exp(s_t - m')                 (c = 1 and no multiplication when m' == m)
     *   l_j   = l_j * c + e_t   for lane j = t mod 16, a product and a sum    (hidden tokens leave it at l_j * c)
     *   o_d   = o_d * c, then fma(e_t, v_td, o_d) for visible t ascending
     * then y = o_d / L with L = the lanes of l added in rmsnorm's tree. K and V are read as f32.
     *
     * KV_Q8: q is rotated and encoded as K is, but d_q = (peak / 127) * (scale / 32). For visible t, in tiles of 64
     * tokens (the four pages from a multiple of 64):
     *   x_t   = fma chain over runs r ascending of (d_qr * d_rt) * (float)isum, from 0; softcapped if asked
     *   s_t   = fma(x_t, OP_LOG2E, e_t)
     *   T     = max of the tile's visible s_t, no NaN among them;   m' = max(m, T);   c = op_exp2(m - m')
     *   p_t   = op_exp2(s_t - (T - OP_LOG2_255));   w = op_exp2(T - m');   code_t = rint(p_t) in [0, 255]
     *   l_j   = fma(w, u_j, l_j * c),  u_j = fma chain over the tile's visible t = j mod 16 ascending of
     *           p_t * (op_exp2(-e_t) + e_t * 0), from 0                          (a NaN e_t shows in the sum)
     *   o_d   = fma(w, (float)isum of code_t * v_td, o_d * c)
     * then y = R(o)_d / (32 * L). */
    void (*attention)(struct op_ctx *c, struct rows y, struct rows q, const struct kv_layer *kv, const struct batch *b,
                      struct page_map map, const struct attn_params *p);

    /* y[r,j] = act(g[r,j]) * u[r,j]; y may be g or u. */
    void (*glu)(struct op_ctx *c, struct rows y, struct rows g, struct rows u, enum act_fn fn);

    /* x = cap * tanh(x / cap) in place. */
    void (*softcap)(struct op_ctx *c, struct rows x, float cap);

    /* x = x * s in place. */
    void (*scale)(struct op_ctx *c, struct rows x, float s);

    /* y[i,:] = x[row[i],:]. */
    void (*gather)(struct op_ctx *c, struct rows y, struct rows x, const uint32_t *row);
};

/* The scalar reference of all of the above, single threaded, weights kept in file layout. */
extern const struct backend op_ref;

/* ---- the functions ops are made of; defined bit for bit in op_math.h ----
 * op_exp, op_tanh, op_silu, op_gelu_tanh, op_gelu_erf: f32 -> f32 */

#endif
