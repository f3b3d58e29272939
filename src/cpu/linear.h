/* Products with weights: what an instruction set provides (linear_<isa>.c) and what the rest of the backend calls. */
#ifndef GLIM_CPU_LINEAR_H
#define GLIM_CPU_LINEAR_H

#include "cpu/cpu.h"
#include "cpu/pack.h"

/* Rows are cut into tiles of 6, then 4, 2 and 1 for the rest. A tile's activations lie together, so that a kernel walks
 * few pointers: R rows, G = n_in / 32 runs,
 *     hi, lo  i8  [G][R][32]      the integers of quant.h's act_row; lo only in the 16-bit form
 *     d       f32 [G][R]
 *     sum         [G][32 / group][R]   what the format adds for each group: with a minimum, f32 d * xsum;
 *                                      without, i32 -zero * xsum, which makes the unsigned stored integers signed again
 *     x       f32 [n_in][R]       plain numbers instead of all that
 * All of a tile's arrays start at its first row times their bytes a row. */
enum { TILE_MAX = 6 };

static inline uint32_t linear_tile_rows(uint32_t left)
{
    return left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

struct linear_args {
    const struct pack_layout *layout;
    const uint8_t *panel; /* the first of n_panel */
    size_t panel_bytes, q_offset;
    uint32_t n_panel, n_in, rows;
    /* the tile */
    const int8_t *hi, *lo;
    const float *d;
    const void *sum;
    const float *x;
    /* the output of the first panel's first lane for the tile's first row */
    float *y;
    size_t y_stride;
    uint32_t n_out; /* lanes there are from there on: at most 16 * n_panel; the rest of the last panel is padding */
    const float *bias;
    bool add;
};
typedef void linear_product(const struct linear_args *a);

struct linear_kernels {
    /* One row of n (a multiple of 32) numbers: act_encode8, and act_encode16 when lo is not NULL; sum16 as there. Run g goes
     * to hi + g * stride, lo + g * stride. */
    void (*encode)(const float *x, size_t n, int8_t *hi, int8_t *lo, size_t stride, float *d, int32_t *sum16);
    /* By layout, 16-bit activations or not, rows of the tile: 1, 2, 4, 6. */
    linear_product *product[PACK_COUNT][2][4];
    const char *kernel_plain, *kernel_quant; /* for kernel_name */
};

extern const struct linear_kernels linear_generic;
#if defined(__x86_64__)
extern const struct linear_kernels linear_avx2, linear_avx512;
#endif

size_t linear_scratch_bytes(const struct op_limits *l, int n_thread);
void cpu_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x);
void cpu_embed(struct op_ctx *c, struct rows y, const struct weight *table, const int32_t *token, float scale);
glim_status cpu_weight_bytes(const struct quant_format *f, uint32_t n_out, uint32_t n_in, size_t *bytes,
                             struct glim_err *e);
void cpu_weight_pack(struct crew *crew, struct weight *w, const void *src, uint32_t row, uint32_t n_row);
const char *cpu_kernel_name(enum cpu_isa isa, const struct quant_format *f, enum act_type act);

#endif
