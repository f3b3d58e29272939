/* Private to src/cpu: what an open CPU backend holds, and the tables of inner kernels an instruction set fills.
 *
 * An op is one function in <op>.c that splits work over the crew and calls inner kernels through cpu_of(c)->k; the
 * inner kernels are one body (<op>_body.h, written over 16-lane vectors) compiled three times: <op>_generic.c,
 * <op>_avx2.c and <op>_avx512.c. linear*.c, pack*.c and embed.c have a table of their own (linear.h). All three give
 * the same bits. */
#ifndef GLIM_CPU_CPU_IMPL_H
#define GLIM_CPU_CPU_IMPL_H

#include "cpu/cpu.h"

/* Inner kernels work on one row, or a run of numbers n of any length. */
struct elementwise_kernels {
    void (*add)(float *y, const float *x, size_t n);
    void (*scale)(float *x, size_t n, float s);
    void (*softcap)(float *x, size_t n, float cap);
    void (*glu)(float *y, const float *g, const float *u, size_t n, enum act_fn fn);
};
struct norm_kernels {
    void (*rmsnorm)(float *y, const float *x, const float *w, uint32_t dim, float eps); /* w may be NULL */
};
struct rope_kernels {
    /* n_head heads, head_dim apart; t: [2 * n_freq] as rope_table made it. */
    void (*rotate)(float *x, uint32_t n_head, uint32_t head_dim, const float *t, uint32_t n_freq, bool interleaved);
};
struct kv_kernels {
    void (*to_f16)(uint16_t *y, const float *x, size_t n); /* nearest even */
    void (*to_bf16)(uint16_t *y, const float *x, size_t n);
};
struct attn_kernels;   /* attention.h */
struct linear_kernels; /* linear.h */

/* All of one instruction set. */
struct cpu_kernels {
    const struct elementwise_kernels *elementwise;
    const struct norm_kernels *norm;
    const struct rope_kernels *rope;
    const struct kv_kernels *kv;
    const struct attn_kernels *attn;
    const struct linear_kernels *linear;
};

extern const struct elementwise_kernels elementwise_generic, elementwise_avx2, elementwise_avx512;
extern const struct norm_kernels norm_generic, norm_avx2, norm_avx512;
extern const struct rope_kernels rope_generic, rope_avx2, rope_avx512;
extern const struct kv_kernels kv_generic, kv_avx2, kv_avx512;

/* op_ctx->priv */
struct cpu_priv {
    enum cpu_isa isa;
    const struct cpu_kernels *k;
    struct op_limits limits;
    int n_thread;
    struct arena arena;   /* the scratch below is cut from it; scratch_bytes() long */
    void *linear_scratch; /* linear_scratch_bytes(limits, n_thread), 64-byte aligned */
    void *attn_scratch;   /* attn_scratch_bytes(limits, n_thread), 64-byte aligned */
};

static inline struct cpu_priv *cpu_of(const struct op_ctx *c)
{
    return c->priv;
}

/* Run fn on the crew, or on the caller alone when the work (ns: rough nanoseconds of one thread) would not pay for the
 * barrier. Who runs what never changes a result. */
enum { CPU_BARRIER_NS = 4000 };
static inline void cpu_run(const struct op_ctx *c, crew_fn *fn, void *arg, double ns)
{
    if (ns < CPU_BARRIER_NS || cpu_of(c)->n_thread == 1)
        fn(arg, 0, 1);
    else
        crew_run(c->crew, fn, arg);
}

/* This member's share [first, last) of n equal items. */
static inline void cpu_share(size_t n, int member, int n_member, size_t *first, size_t *last)
{
    *first = n * (size_t)member / (size_t)n_member;
    *last = n * ((size_t)member + 1) / (size_t)n_member;
}

/* The ops, as struct backend has them. */
void cpu_add(struct op_ctx *c, struct rows y, struct rows x);
void cpu_scale(struct op_ctx *c, struct rows x, float s);
void cpu_softcap(struct op_ctx *c, struct rows x, float cap);
void cpu_glu(struct op_ctx *c, struct rows y, struct rows g, struct rows u, enum act_fn fn);
void cpu_gather(struct op_ctx *c, struct rows y, struct rows x, const uint32_t *row);
void cpu_rmsnorm(struct op_ctx *c, struct rows y, struct rows x, const float *w, float eps);
void cpu_rope_table(struct op_ctx *c, struct rows t, const int32_t *pos, const float *inv_freq, float mscale);
void cpu_attn_prepare(struct op_ctx *c, const struct attn_prepare *p);
size_t cpu_kv_page_bytes(enum kv_type t, uint32_t n_kv_head, uint32_t head_dim);
/* Rows [first, last) of k and v into their pages. */
void cpu_kv_append(const struct op_ctx *c, const struct attn_prepare *p, size_t first, size_t last);
void cpu_attention(struct op_ctx *c, struct rows y, struct rows q, const struct kv_layer *kv, const struct batch *b,
                   struct page_map map, const struct attn_params *p);
size_t attn_scratch_bytes(const struct op_limits *l, int n_thread);

/* Expected of linear.h (cpu.c builds the backend tables from these):
 *   extern const struct linear_kernels linear_generic, linear_avx2, linear_avx512;
 *   size_t linear_scratch_bytes(const struct op_limits *l, int n_thread);
 *   cpu_linear, cpu_embed, cpu_weight_bytes, cpu_weight_pack: signatures of struct backend (one layout for all sets);
 *   const char *cpu_kernel_name(enum cpu_isa isa, const struct quant_format *f, enum act_type act); */

#endif
