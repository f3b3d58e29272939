/* The layout of weights on the CPU: panels of 16 outputs, an output a lane. pack.c has the essay and the table.
 *
 * This header is the layout itself: every kernel, the packer and embed() find an element through pack_low and
 * pack_high. */
#ifndef GLIM_CPU_PACK_H
#define GLIM_CPU_PACK_H

#include "quant/quant.h"

enum { PANEL = 16, RUN = 32, QUADS = 8 }; /* outputs a panel; elements a run of activations; 4-element steps a run */

/* Rows of pack_layouts. */
enum pack_id {
    PACK_F32,
    PACK_F16,
    PACK_BF16,
    PACK_Q4_0,
    PACK_Q4_1,
    PACK_Q5_0,
    PACK_Q5_1,
    PACK_Q8_0,
    PACK_Q2_K,
    PACK_Q3_K,
    PACK_Q4_K,
    PACK_Q5_K,
    PACK_Q6_K,
    PACK_IQ4_NL,
    PACK_IQ4_XS,
    PACK_MXFP4,
    PACK_NVFP4,
    PACK_COUNT
};

/* How the integers of a block are spread over its vectors. */
enum pack_shape {
    SHAPE_PLAIN, /* no integers: [k][16] numbers of the stored type */
    SHAPE_BYTES, /* 8 vectors a run */
    SHAPE_NIB32, /* 4 vectors a run: quads 0..3 low, 4..7 high */
    SHAPE_NIB5,  /* the same and a vector with bit j for quad j */
    SHAPE_NIB16, /* 2 vectors a group of 16: quads 0, 1 low, 2, 3 high */
    SHAPE_K2,    /* 8 vectors a half of 256: runs 0..3 of the half in bits 0, 2, 4, 6 */
    SHAPE_K3,    /* the same 16 vectors, then 8 with bit s for run s */
    SHAPE_K4,    /* 8 vectors a pair of runs: the first low, the second high */
    SHAPE_K5,    /* the same 32 vectors, then 8 with bit s for run s */
    SHAPE_K6     /* a half of 256: 16 vectors of nibbles, runs 0, 1 low, 2, 3 high, then 8 like K2 with the top bits */
};

/* The record of scales of a block: 16 lanes of each part, parts in this order. g: groups of the block, ascending. */
enum pack_scale {
    SCALE_NONE,
    SCALE_F16,     /* d f16                                  a = d */
    SCALE_F16_MIN, /* d f16, m f16                           a = d, b = m */
    SCALE_BF16,    /* a bf16 */
    SCALE_I8,      /* d f16, then per g: s i8                a = d * s */
    SCALE_K2,      /* d f16, dmin f16, then per g: a byte    a = d * low nibble, b = -(dmin * high nibble) */
    SCALE_K4,      /* d f16, dmin f16, then per g: s u8, m u8    a = d * s, b = -(dmin * m) */
    SCALE_E4M3     /* per g: e4m3                            a = e4m3 / 2 */
};

/* What a stored nibble means. */
enum pack_levels { LEVELS_LINEAR, LEVELS_IQ4, LEVELS_E2M1 };

struct pack_copy { /* n 32-bit words of a file block, from byte `from`, go to vectors to, to + 1, … */
    uint8_t from, n, to;
};

struct pack_layout {
    enum quant_type type;
    enum pack_shape shape;
    enum pack_scale scale;
    enum pack_levels levels;
    uint8_t low_bits, high_bits; /* of an integer, in the two planes */
    uint8_t zero;                /* stored = q + zero */
    uint8_t group;               /* 0 for plain numbers */
    uint16_t block;              /* elements a record of scales serves; 1 for plain numbers */
    uint16_t file_bytes;         /* of a block in the file */
    uint16_t scale_bytes;        /* of a record */
    uint16_t q_bytes;            /* of a block's vectors; bytes of 16 numbers for plain numbers */
    struct pack_copy copy[4];
};

/* clang-format off */
static const struct pack_layout pack_layouts[PACK_COUNT] = {
    /*              type       shape        scale          levels         bits   zero grp  blk file  scale    q   copies */
    [PACK_F32]    = {QT_F32,    SHAPE_PLAIN, SCALE_NONE,    LEVELS_LINEAR, 0, 0,   0,  0,   1,   4,    0,   64, {{0, 0, 0}}},
    [PACK_F16]    = {QT_F16,    SHAPE_PLAIN, SCALE_NONE,    LEVELS_LINEAR, 0, 0,   0,  0,   1,   2,    0,   32, {{0, 0, 0}}},
    [PACK_BF16]   = {QT_BF16,   SHAPE_PLAIN, SCALE_NONE,    LEVELS_LINEAR, 0, 0,   0,  0,   1,   2,    0,   32, {{0, 0, 0}}},
    [PACK_Q4_0]   = {QT_Q4_0,   SHAPE_NIB32, SCALE_F16,     LEVELS_LINEAR, 4, 0,   8, 32,  32,  18,   32,  256, {{2, 4, 0}}},
    [PACK_Q4_1]   = {QT_Q4_1,   SHAPE_NIB32, SCALE_F16_MIN, LEVELS_LINEAR, 4, 0,   0, 32,  32,  20,   64,  256, {{4, 4, 0}}},
    [PACK_Q5_0]   = {QT_Q5_0,   SHAPE_NIB5,  SCALE_F16,     LEVELS_LINEAR, 4, 1,  16, 32,  32,  22,   32,  320, {{6, 4, 0}}},
    [PACK_Q5_1]   = {QT_Q5_1,   SHAPE_NIB5,  SCALE_F16_MIN, LEVELS_LINEAR, 4, 1,   0, 32,  32,  24,   64,  320, {{8, 4, 0}}},
    [PACK_Q8_0]   = {QT_Q8_0,   SHAPE_BYTES, SCALE_F16,     LEVELS_LINEAR, 8, 0, 128, 32,  32,  34,   32,  512, {{2, 8, 0}}},
    [PACK_Q2_K]   = {QT_Q2_K,   SHAPE_K2,    SCALE_K2,      LEVELS_LINEAR, 2, 0,   0, 16, 256,  84,  320, 1024, {{16, 16, 0}}},
    [PACK_Q3_K]   = {QT_Q3_K,   SHAPE_K3,    SCALE_I8,      LEVELS_LINEAR, 2, 1,   4, 16, 256, 110,  288, 1536, {{32, 16, 0}, {0, 8, 16}}},
    [PACK_Q4_K]   = {QT_Q4_K,   SHAPE_K4,    SCALE_K4,      LEVELS_LINEAR, 4, 0,   0, 32, 256, 144,  320, 2048, {{16, 32, 0}}},
    [PACK_Q5_K]   = {QT_Q5_K,   SHAPE_K5,    SCALE_K4,      LEVELS_LINEAR, 4, 1,   0, 32, 256, 176,  320, 2560, {{48, 32, 0}, {16, 8, 32}}},
    [PACK_Q6_K]   = {QT_Q6_K,   SHAPE_K6,    SCALE_I8,      LEVELS_LINEAR, 4, 2,  32, 16, 256, 210,  288, 3072,
                     {{0, 16, 0}, {128, 8, 16}, {64, 16, 24}, {160, 8, 40}}},
    [PACK_IQ4_NL] = {QT_IQ4_NL, SHAPE_NIB32, SCALE_F16,     LEVELS_IQ4,    4, 0, 128, 32,  32,  18,   32,  256, {{2, 4, 0}}},
    [PACK_IQ4_XS] = {QT_IQ4_XS, SHAPE_NIB32, SCALE_I8,      LEVELS_IQ4,    4, 0, 128, 32, 256, 136,  160, 2048, {{8, 32, 0}}},
    [PACK_MXFP4]  = {QT_MXFP4,  SHAPE_NIB32, SCALE_BF16,    LEVELS_E2M1,   4, 0,  12, 32,  32,  17,   32,  256, {{1, 4, 0}}},
    [PACK_NVFP4]  = {QT_NVFP4,  SHAPE_NIB16, SCALE_E4M3,    LEVELS_E2M1,   4, 0,  12, 16,  64,  36,   64,  512, {{4, 8, 0}}},
};
/* clang-format on */

/* Levels plus their zero: 16 unsigned bytes a table instruction can look up. */
static const uint8_t pack_iq4_levels[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t pack_e2m1_levels[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

static inline bool pack_has_min(const struct pack_layout *l)
{
    return l->scale == SCALE_F16_MIN || l->scale == SCALE_K2 || l->scale == SCALE_K4;
}

/* Where quad j (elements 4j … 4j+3) of run s of a block lies: a vector of the block and a bit of its bytes. */
struct pack_place {
    unsigned vec, shift;
};

static inline __attribute__((always_inline)) struct pack_place pack_low(enum pack_shape shape, unsigned s, unsigned j)
{
    switch (shape) {
    case SHAPE_PLAIN:
    case SHAPE_BYTES:
        return (struct pack_place){j, 0};
    case SHAPE_NIB32:
    case SHAPE_NIB5: /* its blocks are one run */
        return (struct pack_place){s * 4 + j % 4, 4 * (j / 4)};
    case SHAPE_NIB16:
        return (struct pack_place){s * 4 + j / 4 * 2 + j % 2, 4 * (j / 2 % 2)};
    case SHAPE_K2:
    case SHAPE_K3:
        return (struct pack_place){s / 4 * 8 + j, 2 * (s % 4)};
    case SHAPE_K4:
    case SHAPE_K5:
        return (struct pack_place){s / 2 * 8 + j, 4 * (s % 2)};
    case SHAPE_K6:
        return (struct pack_place){s / 4 * 24 + s % 2 * 8 + j, 4 * (s / 2 % 2)};
    }
    return (struct pack_place){0, 0};
}

/* The same for the bits above low_bits, where there are any. */
static inline __attribute__((always_inline)) struct pack_place pack_high(enum pack_shape shape, unsigned s, unsigned j)
{
    switch (shape) {
    case SHAPE_PLAIN:
    case SHAPE_BYTES:
    case SHAPE_NIB32:
    case SHAPE_NIB16:
    case SHAPE_K2:
    case SHAPE_K4:
        break;
    case SHAPE_NIB5:
        return (struct pack_place){4, j};
    case SHAPE_K3:
        return (struct pack_place){16 + j, s};
    case SHAPE_K5:
        return (struct pack_place){32 + j, s};
    case SHAPE_K6:
        return (struct pack_place){s / 4 * 24 + 16 + j, 2 * (s % 4)};
    }
    return (struct pack_place){0, 0};
}

/* Runs that share vectors at different shifts. Kernels unroll a loop over them: with s a run of a block and t, a
 * constant, s modulo this number, pack_low(shape, t, j).shift is the shift of s too (and pack_high's, but for one bit
 * of each of eight runs in K3 and K5). */
static inline __attribute__((always_inline)) unsigned pack_sharing(enum pack_shape shape)
{
    if (shape == SHAPE_K2 || shape == SHAPE_K3 || shape == SHAPE_K6)
        return 4;
    return shape == SHAPE_K4 || shape == SHAPE_K5 ? 2 : 1;
}

/* The table is in this header so that kernels see constants; each file has a copy, hence pack_id and no subtraction of
 * pointers from elsewhere. NULL when the format has no layout. */
static inline const struct pack_layout *pack_layout(const struct quant_format *f)
{
    for (int i = 0; i < PACK_COUNT; i++)
        if (pack_layouts[i].type == f->type)
            return &pack_layouts[i];
    return NULL;
}

static inline enum pack_id pack_id(const struct pack_layout *l)
{
    int i = 0;
    while (i < PACK_COUNT - 1 && pack_layouts[i].type != l->type)
        i++;
    return (enum pack_id)i;
}

/* A panel: the records of all blocks, padded to 64 bytes, then the vectors of all blocks, padded to 64 bytes. */
static inline size_t pack_q_offset(const struct pack_layout *l, uint32_t n_in)
{
    return ((size_t)(n_in / l->block) * l->scale_bytes + 63) & ~(size_t)63;
}

static inline size_t pack_panel_bytes(const struct pack_layout *l, uint32_t n_in)
{
    return pack_q_offset(l, n_in) + (((size_t)(n_in / l->block) * l->q_bytes + 63) & ~(size_t)63);
}

/* One run of a panel, undone: what kernels without vectors of their own work from. */
struct pack_run {
    uint8_t u[QUADS][PANEL][4];     /* q + zero */
    float a[2][PANEL], b[2][PANEL]; /* of the run's group, or of its two halves' */
};
/* Run s of a block, lanes [lane, lane + n). */
void pack_unpack(const struct pack_layout *l, const uint8_t *record, const uint8_t *vecs, unsigned s, unsigned lane,
                 unsigned n, struct pack_run *r);

#endif
