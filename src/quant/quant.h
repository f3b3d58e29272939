/* Number formats of weights: one table, one row a format.
 *
 * A row says how a block is laid out in a file, how it decodes to f32 (bit-equal to gguf-py and ggml), how it breaks
 * down into the integer view that dot products use, and what a damaged block looks like. Adding a format is one row
 * here, one section in its family's file, and its kernels (docs/ADDING_A_FORMAT.md).
 *
 * The integer view: elements come in groups (32 or 16 of them) and element i of group g is
 *     value_i = a_g * q_i + b_g          q_i a signed 8-bit integer; a_g, b_g f32
 * with b_g = 0 for formats without a minimum (has_min false). The type numbers are GGUF's. */
#ifndef GLIM_QUANT_QUANT_H
#define GLIM_QUANT_QUANT_H

#include "base/status.h"

#include <math.h>

enum quant_type {
    QT_F32 = 0,
    QT_F16 = 1,
    QT_Q4_0 = 2,
    QT_Q4_1 = 3,
    QT_Q5_0 = 6,
    QT_Q5_1 = 7,
    QT_Q8_0 = 8,
    QT_Q2_K = 10,
    QT_Q3_K = 11,
    QT_Q4_K = 12,
    QT_Q5_K = 13,
    QT_Q6_K = 14,
    QT_IQ4_NL = 20,
    QT_IQ4_XS = 23,
    QT_I8 = 24,
    QT_I32 = 26,
    QT_BF16 = 30,
    QT_MXFP4 = 39,
    QT_NVFP4 = 40,
    QT_COUNT = 41
};

enum { QUANT_BLOCK_MAX = 256, QUANT_GROUP_MAX = 16 }; /* elements and groups of the largest block */

struct quant_view {
    int8_t q[QUANT_BLOCK_MAX];
    float a[QUANT_GROUP_MAX];
    float b[QUANT_GROUP_MAX]; /* 0 where the format has no minimum */
};

struct quant_format {
    enum quant_type type;
    const char *name; /* as GGUF tools spell it: "Q4_K" */
    uint16_t block_elems, block_bytes;
    uint8_t group;  /* elements that share a_g, b_g: 32 or 16; 0 for plain numbers (no integer view) */
    bool has_min;   /* b_g may be non-zero */
    bool is_weight; /* may be a matrix operand; false for I8, I32 */
    /* src: n_block blocks; dst: n_block * block_elems values. */
    void (*decode)(const void *src, float *dst, size_t n_block);
    /* dst: n_block blocks of the nearest values by this format's reference rounding; NULL = cannot encode yet. */
    void (*encode)(const float *src, void *dst, size_t n_block);
    /* Integer view of one block; NULL for plain numbers. */
    void (*view)(const void *block, struct quant_view *v);
    /* True when the block decodes to finite numbers only (what `glim inspect --check` asks). */
    bool (*finite)(const void *block);
};

/* NULL when the type is not in the table. */
const struct quant_format *quant_format(uint32_t type);
const struct quant_format *quant_by_name(const char *name); /* case-insensitive */
/* The rows, for generated docs and tests: 0 <= i < quant_n(). */
size_t quant_n(void);
const struct quant_format *quant_at(size_t i);

/* Bytes of n elements in a row of this format: refused when n is not a multiple of the block or the size overflows. */
glim_status quant_row_bytes(const struct quant_format *f, uint64_t n, size_t *bytes, struct glim_err *e);

/* ---- scalar conversions, exact or round-to-nearest-even ---- */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f); /* NaN stays NaN */
float e4m3_to_f32(uint8_t v);  /* FP8 E4M3FN: 0x7F and 0xFF are NaN */
float e5m2_to_f32(uint8_t v);
float e8m0_to_f32(uint8_t v); /* 2^(v-127); 0xFF is NaN */
float e2m1_to_f32(uint8_t v); /* low four bits */

/* ---- activations ----
 * The integer form of an f32 row for products with quantised weights: 16-bit integers v under one scale for each run of
 * 32 elements (the last may be short, and then stands for one padded with zeros), kept as two planes of signed bytes.
 *     peak  = max|x| of the run
 *     top   = cap * mean of the row's peaks: (cap / runs) * sum, in f32; the sum in 16 lanes, lane l taking runs l,
 *             l + 16, …, then (l, l + 8), (l, l + 4), (l, l + 2), (l, l + 1)
 *     limit = top if that is below peak, else peak; but at least peak / 256
 *     d     = limit / 127
 *     v     = round_to_nearest_even(x * (127 / limit))                      in [-32512, 32512]
 *     v     = 256 * hi + lo,   hi = (v + 128) >> 8,   lo = v - 256 * hi     so hi = 0 where |v| <= 127
 *     sum16[2g], sum16[2g + 1] = sums of v over the first and second half of run g
 * A large cap gives 8-bit activations (hi is 0 everywhere); cap = 0 gives 16-bit ones; in between, most elements have 8
 * bits, and the few that stick out of the row spill into hi instead of making their neighbours coarse. Products skip
 * the quads of hi that are 0, so bits cost time only where they are needed (docs/NUMERICS.md).
 * Every input has an answer: a run whose peak is below ACT_PEAK_MIN counts as all 0 (d = 0, v = 0; its 127 / limit
 * could overflow), and a run that holds a NaN or an Inf gets d = NaN and v = 0, and counts as 0 in the mean. */
#define ACT_PEAK_MIN  0x1p-100f
#define ACT_CAP_8     INFINITY
#define ACT_CAP_MIXED 2.0f
#define ACT_CAP_16    0.0f
struct act_row {
    const int8_t *lo, *hi; /* [n] */
    const float *d;        /* [ceil(n / 32)] */
    const int32_t *sum16;  /* [2 * ceil(n / 32)] */
};
void act_encode(const float *x, size_t n, float cap, int8_t *lo, int8_t *hi, float *d, int32_t *sum16);

/* Reference dot of one weight row (file layout) with one activation row. THE order every kernel must reproduce bit for
 * bit:
 *     acc = 0
 *     for each group g ascending:
 *         acc = fmaf(a_g * d_s, (float)isum, acc)
 *         if has_min: acc = fmaf(b_g, d_s * (float)xsum, acc)
 * s is the run of 32 that holds the group, isum the exact 32-bit sum of q_w * v over the group, xsum that of v.
 * n must be a multiple of the block. */
float quant_dot(const struct quant_format *f, const void *row, const struct act_row *x, size_t n);

#endif
