/* Weights in panels of 16 outputs.
 *
 * A matrix [n_out, n_in] becomes ceil(n_out / 16) panels. Inside a panel an output is a lane, so that a vector of 16
 * partial sums needs no horizontal addition and each lane follows quant_dot's chain by itself; lanes past n_out are
 * zeros. The instruction all this is shaped for multiplies 4 bytes of a lane by 4 bytes of the activations and adds the
 * products to the lane's 32-bit sum, so 4 consecutive elements (a quad) of 16 outputs make a 64-byte vector:
 *
 *     byte 4 * lane + i of a vector = element 4 * quad + i of output `lane`
 *
 * Formats below 8 bits keep their bits packed: a byte of a vector holds the same place of several quads, as the file's
 * bytes hold several elements. That makes packing a transposition of the file's 32-bit words (the `copy` column):
 *
 *     file block of output 0:  w0 w1 w2 w3          vector 0:  output 0's w0, output 1's w0, …, output 15's w0
 *     file block of output 1:  w0 w1 w2 w3    ->    vector 1:  output 0's w1, …
 *     …                                             …
 *
 * pack_low and pack_high (pack.h) say which vector and bit a quad's integers are in; they follow the files' own order.
 * Integers are stored with their zero added, hence unsigned, as that instruction wants one operand.
 *
 * Scales come before the vectors, in the precision of the file (f16 and small integers), 16 lanes side by side:
 *
 *     panel = | record of block 0 | record of block 1 | … pad to 64 | vectors of block 0 | vectors of block 1 | … |
 *
 * Scales wider than the file's cost Q4_K 3 % over the file, Q5_K and IQ4_XS 2 %, Q3_K 4 % (six-bit ones take a byte)
 * and MXFP4 6 % (an exponent becomes a bf16); other formats have the file's size. Plain numbers are [n_in][16] in their
 * own type. */
#include "cpu/cpu_impl.h"
#include "cpu/linear.h"

#include "base/arith.h"

#include <inttypes.h>
#include <string.h>

glim_status cpu_weight_bytes(const struct quant_format *f, uint32_t n_out, uint32_t n_in, size_t *bytes,
                             struct glim_err *e)
{
    const struct pack_layout *l = pack_layout(f);
    if (!l)
        return err_set(e, GLIM_REFUSED,
                       "cannot lay out weights for the CPU: have number format %s, need a weight format", f->name);
    if (n_out == 0 || n_in == 0 || n_in % f->block_elems != 0)
        return err_set(e, GLIM_REFUSED,
                       "cannot lay out weights for the CPU: %s: have %" PRIu32 " x %" PRIu32
                       ", need at least one output and inputs a multiple of %d",
                       f->name, n_out, n_in, f->block_elems);
    if (!mul_size(pack_panel_bytes(l, n_in), ceil_div(n_out, PANEL), bytes))
        return err_set(e, GLIM_REFUSED,
                       "cannot lay out weights for the CPU: %s: have %" PRIu32 " x %" PRIu32
                       ", need a size below 2^64 bytes",
                       f->name, n_out, n_in);
    return GLIM_OK;
}

/* ---- scales ---- */

static void put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* Lane `lane` of a record's part that begins at `part`: two bytes from src. */
static void copy16(uint8_t *part, unsigned lane, const uint8_t *src)
{
    memcpy(part + 2 * lane, src, 2);
}

/* Q4_K and Q5_K: 12 bytes hold 8 six-bit scales and 8 minimums (src/quant/kquant.c has the places). */
static void unpack_k4(const uint8_t *p, uint8_t *part, unsigned lane)
{
    uint32_t a = get32(p), b = get32(p + 4), c = get32(p + 8);
    uint32_t sc[2] = {a & 0x3F3F3F3F, (c & 0x0F0F0F0F) | (a >> 2 & 0x30303030)};
    uint32_t m[2] = {b & 0x3F3F3F3F, (c >> 4 & 0x0F0F0F0F) | (b >> 2 & 0x30303030)};
    for (unsigned g = 0; g < 8; g++) {
        part[32 * g + lane] = (uint8_t)(sc[g / 4] >> 8 * (g % 4));
        part[32 * g + 16 + lane] = (uint8_t)(m[g / 4] >> 8 * (g % 4));
    }
}

/* Q3_K: 12 bytes hold 16 six-bit scales, stored with 32 added. */
static void unpack_k3(const uint8_t *p, uint8_t *part, unsigned lane)
{
    uint32_t a = get32(p), b = get32(p + 4), c = get32(p + 8);
    for (unsigned q = 0; q < 4; q++) {
        uint32_t low = q % 2 ? b : a, s = (low >> 4 * (q / 2) & 0x0F0F0F0F) | (c >> 2 * q & 0x03030303) << 4;
        for (unsigned i = 0; i < 4; i++)
            part[16 * (4 * q + i) + lane] = (uint8_t)((s >> 8 * i & 0xFF) - 32);
    }
}

/* IQ4_XS: 2 bytes of high and 4 of low bits hold 8 six-bit scales, stored with 32 added. */
static void unpack_iq4_xs(const uint8_t *p, uint8_t *part, unsigned lane)
{
    uint32_t high = (uint32_t)p[0] | (uint32_t)p[1] << 8;
    for (unsigned g = 0; g < 8; g++)
        part[16 * g + lane] = (uint8_t)(((p[2 + g / 2] >> 4 * (g % 2) & 15) | (high >> 2 * g & 3) << 4) - 32);
}

/* The scales of one file block into lane `lane` of its record. */
static void pack_scales(enum pack_id id, const uint8_t *src, uint8_t *record, unsigned lane)
{
    switch (id) {
    case PACK_F32:
    case PACK_F16:
    case PACK_BF16:
    case PACK_COUNT:
        break;
    case PACK_Q4_0:
    case PACK_Q5_0:
    case PACK_Q8_0:
    case PACK_IQ4_NL:
        copy16(record, lane, src);
        break;
    case PACK_Q4_1:
    case PACK_Q5_1:
        copy16(record, lane, src);
        copy16(record + 32, lane, src + 2);
        break;
    case PACK_Q2_K:
        copy16(record, lane, src + 80);
        copy16(record + 32, lane, src + 82);
        for (unsigned g = 0; g < 16; g++)
            record[64 + 16 * g + lane] = src[g];
        break;
    case PACK_Q3_K:
        copy16(record, lane, src + 108);
        unpack_k3(src + 96, record + 32, lane);
        break;
    case PACK_Q4_K:
    case PACK_Q5_K:
        copy16(record, lane, src);
        copy16(record + 32, lane, src + 2);
        unpack_k4(src + 4, record + 64, lane);
        break;
    case PACK_Q6_K:
        copy16(record, lane, src + 208);
        for (unsigned g = 0; g < 16; g++)
            record[32 + 16 * g + lane] = src[192 + g];
        break;
    case PACK_IQ4_XS:
        copy16(record, lane, src);
        unpack_iq4_xs(src + 2, record + 32, lane);
        break;
    case PACK_MXFP4: /* half of 2^(e - 127) in bf16, the lowest two subnormal; e = 255 is NaN */
        put16(record + 2 * lane, src[0] == 255 ? 0x7FC0U : src[0] < 2 ? 0x20U << src[0] : (src[0] - 1U) << 7);
        break;
    case PACK_NVFP4: /* kernels read the seven bits as the top of an f16: the code of NaN gets the sign bit, a NaN there
                      */
        for (unsigned g = 0; g < 4; g++)
            record[16 * g + lane] = (src[g] & 0x7F) == 0x7F ? 0xFF : src[g] & 0x7F;
        break;
    }
}

/* ---- integers ---- */

/* Four 32-bit words of four outputs at a time: 4 x 4 transpositions in vectors of 16 bytes, which every processor has;
 * packing is bound by memory with them. */
typedef uint32_t quad __attribute__((vector_size(16)));

static quad load_quad(const uint8_t *p)
{
    quad v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void transpose(quad v[4])
{
    quad a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5), b = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    quad c = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5), d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    v[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    v[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    v[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    v[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

/* Rows of a matrix in the file: n_lane <= 16 of them, `stride` bytes apart. */
struct lanes {
    const uint8_t *src;
    size_t stride;
    unsigned n;
};

static struct lanes at_byte(struct lanes s, size_t byte)
{
    return (struct lanes){s.src + byte, s.stride, s.n};
}

/* n words (a multiple of 4) of each lane, xor flip, into n vectors; lanes that are not there get zeros. */
static inline void pack_words(struct lanes s, unsigned n, uint32_t flip, uint8_t *vecs)
{
    for (unsigned i = 0; i < n; i += 4)
        for (unsigned lane = 0; lane < PANEL; lane += 4) {
            quad v[4] = {0};
            for (unsigned r = 0; r < 4 && lane + r < s.n; r++)
                v[r] = load_quad(s.src + (lane + r) * s.stride + 4 * (size_t)i) ^ flip;
            transpose(v);
            for (unsigned r = 0; r < 4; r++)
                memcpy(vecs + 64 * (i + r) + 4 * lane, &v[r], sizeof v[r]);
        }
}

/* The 32 fifth bits of a Q5_0 or Q5_1 block of four outputs: bit 4j + i of a word becomes bit j of its byte i. */
static quad spread_fifth(quad h)
{
    quad out = h & 0;
    for (int i = 0; i < 4; i++) {
        quad t = h >> i & 0x11111111; /* bit 4j -> bit j */
        t = (t | t >> 3) & 0x03030303;
        t = (t | t >> 6) & 0x000F000F;
        t = (t | t >> 12) & 0xFF;
        out |= t << 8 * i;
    }
    return out;
}

static void pack_fifth(struct lanes s, uint8_t *vec)
{
    for (unsigned lane = 0; lane < PANEL; lane += 4) {
        quad v = {0};
        for (unsigned r = 0; r < 4 && lane + r < s.n; r++)
            v[r] = get32(s.src + (lane + r) * s.stride);
        v = spread_fifth(v);
        memcpy(vec + 4 * lane, &v, sizeof v);
    }
}

/* The integers of one block of each lane. */
static void pack_integers(const struct pack_layout *l, struct lanes s, uint8_t *vecs)
{
    uint32_t flip = l->shape == SHAPE_BYTES ? 0x80808080 : 0; /* + 128 */
    for (const struct pack_copy *c = l->copy; c < l->copy + 4 && c->n; c++)
        pack_words(at_byte(s, c->from), c->n, flip, vecs + 64 * c->to);
    if (l->shape == SHAPE_NIB5)
        pack_fifth(at_byte(s, l->copy[0].from - 4U), vecs + 64 * 4);
}

/* ---- panels ---- */

struct pack_job {
    const struct pack_layout *layout;
    const uint8_t *src; /* row `row` of the matrix */
    uint8_t *data;
    size_t row_bytes, panel_bytes;
    uint32_t n_in, n_row; /* n_row from src on */
    uint32_t panel;       /* of row `row` */
    struct crew_queue queue;
};

/* A pair of 16-bit numbers of each lane, [16][2], becomes [2][16]. */
static void split_pairs(const uint32_t *pair, uint8_t *to)
{
    uint16_t v[2][PANEL];
    for (unsigned lane = 0; lane < PANEL; lane++) {
        v[0][lane] = (uint16_t)pair[lane];
        v[1][lane] = (uint16_t)(pair[lane] >> 16);
    }
    memcpy(to, v, sizeof v);
}

/* [lane][k] numbers become [k][16]; the last few one by one. */
static void pack_plain(const struct pack_job *j, struct lanes s, uint8_t *panel)
{
    size_t size = j->layout->file_bytes, step = 16 / size, k = 0;
    for (; k + step <= j->n_in; k += step) {
        uint32_t pair[4][PANEL];
        if (size == 4) {
            pack_words(at_byte(s, 4 * k), 4, 0, panel + 64 * k);
            continue;
        }
        pack_words(at_byte(s, 2 * k), 4, 0, (uint8_t *)pair);
        for (unsigned i = 0; i < 4; i++)
            split_pairs(pair[i], panel + 32 * k + 64 * (size_t)i);
    }
    for (; k < j->n_in; k++)
        for (unsigned lane = 0; lane < s.n; lane++)
            memcpy(panel + (k * PANEL + lane) * size, s.src + lane * s.stride + k * size, size);
}

static void pack_blocks(const struct pack_job *j, struct lanes s, uint8_t *panel)
{
    const struct pack_layout *l = j->layout;
    enum pack_id id = pack_id(l);
    uint8_t *record = panel, *vecs = panel + pack_q_offset(l, j->n_in);
    for (uint32_t b = 0; b < j->n_in / l->block; b++) {
        for (unsigned lane = 0; lane < s.n; lane++)
            pack_scales(id, s.src + lane * s.stride, record, lane);
        pack_integers(l, s, vecs);
        s.src += l->file_bytes;
        record += l->scale_bytes;
        vecs += l->q_bytes;
    }
}

static void pack_member(void *arg, int member, int n_member)
{
    (void)member;
    struct pack_job *j = arg;
    size_t n_panel = ceil_div(j->n_row, PANEL), first, last;
    size_t grain = n_panel / (8 * (size_t)n_member) + 1;
    while (crew_take(&j->queue, n_panel, grain, &first, &last))
        for (size_t p = first; p < last; p++) {
            uint8_t *panel = j->data + (j->panel + p) * j->panel_bytes;
            size_t left = j->n_row - p * PANEL;
            struct lanes s = {j->src + p * PANEL * j->row_bytes, j->row_bytes, left < PANEL ? (unsigned)left : PANEL};
            if (s.n < PANEL)
                memset(panel, 0, j->panel_bytes);
            if (j->layout->shape == SHAPE_PLAIN)
                pack_plain(j, s, panel);
            else
                pack_blocks(j, s, panel);
        }
}

void cpu_weight_pack(struct crew *crew, struct weight *w, const void *src, uint32_t row, uint32_t n_row)
{
    const struct pack_layout *l = pack_layout(w->fmt);
    struct pack_job j = {.layout = l,
                         .src = src,
                         .data = w->data,
                         .row_bytes = (size_t)(w->n_in / l->block) * l->file_bytes,
                         .panel_bytes = pack_panel_bytes(l, w->n_in),
                         .n_in = w->n_in,
                         .n_row = n_row,
                         .panel = row / PANEL};
    crew_run(crew, pack_member, &j);
}

/* ---- reading one run back ---- */

static float f16_lane(const uint8_t *part, unsigned lane)
{
    uint16_t h;
    memcpy(&h, part + 2 * lane, 2);
    return f16_to_f32(h);
}

static void unpack_scale(const struct pack_layout *l, const uint8_t *record, unsigned g, unsigned lane, float *a,
                         float *b)
{
    const uint8_t *parts = record + 64 + 16 * g + lane;
    uint16_t h;
    *b = 0;
    switch (l->scale) {
    case SCALE_NONE:
        *a = 1;
        break;
    case SCALE_F16_MIN:
        *b = f16_lane(record + 32, lane);
        *a = f16_lane(record, lane);
        break;
    case SCALE_F16:
        *a = f16_lane(record, lane);
        break;
    case SCALE_BF16:
        memcpy(&h, record + 2 * lane, 2);
        *a = bf16_to_f32(h);
        break;
    case SCALE_I8:
        *a = f16_lane(record, lane) * (float)(int8_t)record[32 + 16 * g + lane];
        break;
    case SCALE_K2:
        *a = f16_lane(record, lane) * (float)(*parts & 15);
        *b = -(f16_lane(record + 32, lane) * (float)(*parts >> 4));
        break;
    case SCALE_K4:
        *a = f16_lane(record, lane) * (float)record[64 + 32 * g + lane];
        *b = -(f16_lane(record + 32, lane) * (float)record[80 + 32 * g + lane]);
        break;
    case SCALE_E4M3:
        *a = 0.5f * e4m3_to_f32(record[16 * g + lane]);
        break;
    }
}

void pack_unpack(const struct pack_layout *l, const uint8_t *record, const uint8_t *vecs, unsigned s, unsigned lane,
                 unsigned n, struct pack_run *r)
{
    unsigned low_mask = (1U << l->low_bits) - 1, high_mask = (1U << l->high_bits) - 1;
    const uint8_t *level = l->levels == LEVELS_IQ4    ? pack_iq4_levels
                           : l->levels == LEVELS_E2M1 ? pack_e2m1_levels
                                                      : NULL;
    for (unsigned j = 0; j < QUADS; j++) {
        struct pack_place lo = pack_low(l->shape, s, j), hi = pack_high(l->shape, s, j);
        const uint8_t *lv = vecs + 64 * lo.vec, *hv = vecs + 64 * hi.vec;
        uint8_t *u = &r->u[j][0][0];
        for (unsigned i = 4 * lane; i < 4 * (lane + n); i++) {
            unsigned v = (lv[i] >> lo.shift & low_mask) | (hv[i] >> hi.shift & high_mask) << l->low_bits;
            u[i] = level ? level[v] : (uint8_t)v;
        }
    }
    unsigned n_group = RUN / l->group;
    for (unsigned h = 0; h < n_group; h++)
        for (unsigned i = lane; i < lane + n; i++)
            unpack_scale(l, record, s * n_group + h, i, &r->a[h][i], &r->b[h][i]);
}
