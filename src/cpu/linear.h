/* Products with weights: what an instruction set provides (linear_<isa>.c) and what the rest of the backend calls. */
#ifndef GLIM_CPU_LINEAR_H
#define GLIM_CPU_LINEAR_H

#include "cpu/cpu.h"
#include "cpu/pack.h"

/* Rows are cut into tiles of 6, then 4, 2 and 1 for the rest. A tile's activations lie together, so that a kernel walks
 * few pointers: R rows, G = n_in / 32 runs,
 *     lo, hi  i8  [G][R][32]     the two planes of quant.h's act_row
 *     spill   u8  [G]            bit j: quad j (elements 4j … 4j + 3) has a hi that is not 0, in one row at least
 *     d       f32 [G / 16][R][16]    a block of 16 runs at a time, the last padded
 *     sum         [G / 16][R][16][32 / group]    in blocks alike, what the format adds for each group: with a minimum,
 *                                f32 d * xsum; without, i32 -zero * xsum, which makes the unsigned stored integers
 *                                signed again
 *     x       f32 [n_in][R]      plain numbers instead of all that
 *
 * A kernel may skip a quad of hi or not, as spill says: zeros add nothing to an exact sum, so a row's bits do not
 * depend on its neighbours' outliers. */
enum { TILE_MAX = 6 };

/* Blocks of a row of n_in. */
static inline size_t linear_blocks(size_t n_in)
{
    return (n_in / RUN + 15) / 16;
}

static inline uint32_t linear_tile_rows(uint32_t left)
{
    return left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

struct linear_args {
    const struct pack_layout *layout;
    const uint8_t *panel; /* the first of n_panel, packed or unpacked (below) */
    size_t panel_bytes, q_offset;
    uint32_t n_panel, n_in, rows;
    uint32_t n_tile; /* tiles of so many rows, one after the other; unpacked panels only, else 1 */
    uint32_t row_in; /* n_in of the whole row, where panels are a piece of it */
    uint32_t run;    /* number of the piece's first run in the row */
    /* the first tile; d and sum at the row's block 0 */
    const int8_t *lo, *hi;
    const uint8_t *spill;
    const float *d;
    const void *sum;
    const float *x;
    /* the output of the first panel's first lane for the tile's first row */
    float *y;
    size_t y_stride;
    uint32_t n_out; /* lanes there are from there on: at most 16 * n_panel; the rest of the last panel is padding */
    const float *bias;
    bool add;
    /* unpacked panels come in pieces of n_in: a chain goes on from one to the next through acc, f32 [n_panel][rows][16]
     */
    float *acc;
    bool first, last;
    const uint8_t *soon; /* soon_bytes of memory that are wanted next, to be asked for on the way; NULL: nothing */
    size_t soon_bytes;
};
typedef void linear_product(const struct linear_args *a);

static inline void linear_next_tile(struct linear_args *a)
{
    size_t n = (size_t)a->rows * a->row_in;
    a->lo += n;
    a->hi += n;
    a->spill += n / RUN;
    a->d += a->rows * linear_blocks(a->row_in) * 16;
    a->sum = (const uint32_t *)a->sum + a->rows * linear_blocks(a->row_in) * 16 * (RUN / a->layout->group);
    a->y += a->rows * a->y_stride;
    a->acc += (size_t)a->n_panel * a->rows * PANEL;
    a->soon = NULL;
}

/* Several tiles that meet the same panels can share the work of taking them apart. An unpacked piece of a panel is, in
 * the order of a packed one, the scales f32 [groups][a, and b where there is a minimum][16] and the vectors of one quad
 * each, u8 [n_in / 4][64]. n_in is a multiple of the block and at most PIECE, so that two panels stay in the first
 * cache. */
enum { PIECE = 640 };

static inline size_t linear_unpacked_scales(const struct pack_layout *l, uint32_t n_in)
{
    return (size_t)n_in / l->group * (pack_has_min(l) ? 128 : 64);
}

typedef void linear_unpack(const uint8_t *record, const uint8_t *vecs, uint32_t n_in, uint8_t *to);

/* Where act_encode's results for one row go. */
struct linear_encoded {
    int8_t *lo, *hi; /* run g at g * stride */
    size_t stride;
    float *d;       /* [runs] */
    int32_t *sum16; /* [2 * runs] */
    uint8_t *spill; /* [runs] bit j is set where quad j has a hi that is not 0, and left alone where not */
};

struct linear_kernels {
    /* act_encode of one row of n (a multiple of 32) numbers. */
    void (*encode)(const float *x, size_t n, float cap, const struct linear_encoded *to);
    /* A row's n_block blocks of sums (see tiles), `stride` numbers apart. d and sum16 are readable to the end of the
     * last block. */
    void (*sums)(const struct pack_layout *l, const float *d, const int32_t *sum16, size_t n_block, uint32_t *to,
                 size_t stride);
    /* The kernel for tiles of `rows` rows (a value of linear_tile_rows). unpacked: it is given unpacked panels, at most
     * two at a time. */
    linear_product *(*find)(const struct pack_layout *l, uint32_t rows, bool unpacked);
    /* NULL, or by pack_id: then products of more than one row with quantised weights go through unpacked panels. */
    linear_unpack *const *unpack;
    const char *kernel_plain, *kernel_quant; /* for kernel_name */
};

extern const struct linear_kernels linear_generic;
#if defined(__x86_64__)
extern const struct linear_kernels linear_avx2, linear_avx512;
#endif

size_t linear_scratch_bytes(const struct op_limits *l, int n_thread);
void cpu_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x);
void cpu_norm_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x, const float *w,
                     float eps);
void cpu_glu_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows g, struct rows u,
                    enum act_fn fn);
void cpu_embed(struct op_ctx *c, struct rows y, const struct weight *table, const int32_t *token, float scale);
glim_status cpu_weight_bytes(const struct quant_format *f, uint32_t n_out, uint32_t n_in, size_t *bytes,
                             struct glim_err *e);
void cpu_weight_pack(struct crew *crew, struct weight *w, const void *src, uint32_t row, uint32_t n_row);
const char *cpu_kernel_name(enum cpu_isa isa, const struct quant_format *f, enum act_type act);

#endif
