/* Products on AVX2 with FMA and F16C.
 *
 * A panel's vector is two registers, outputs 0..7 and 8..15. Without an instruction that adds four byte products into 32 bits,
 * vpmaddubsw adds pairs into 16 bits, and as many quads are summed there as cannot overflow: with activations of at most 128
 * in magnitude, integers up to 15 allow 8 quads, up to 31 four, up to 63 two. Larger ones are cut into two nibbles. A kernel
 * takes two rows of a tile at a time: 4 sums, 4 partial sums and their operands in 16 registers. */
#include "cpu/linear_encode.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef uint16_t u16x16 __attribute__((vector_size(32)));

INLINE __m256i shift_right(__m256i v, unsigned n)
{
    return (__m256i)((u16x16)v >> (uint16_t)n);
}

INLINE __m256i shift_left(__m256i v, unsigned n)
{
    return (__m256i)((u16x16)v << (uint16_t)n);
}

INLINE __m256i load32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

INLINE __m128i load8(const uint8_t *p)
{
    return _mm_loadl_epi64((const __m128i *)(const void *)p);
}

/* Quad j of run s, outputs 8 half … 8 half + 7: unsigned integers. */
INLINE __m256i quad(const struct pack_layout *l, const uint8_t *vecs, unsigned s, unsigned j, unsigned half)
{
    struct pack_place at = pack_low(l->shape, s, j), top = pack_high(l->shape, s, j);
    __m256i v = load32(vecs + 64 * at.vec + 32 * half);
    if (l->low_bits == 8)
        return v;
    v = _mm256_and_si256(shift_right(v, at.shift), _mm256_set1_epi8((char)((1 << l->low_bits) - 1)));
    if (l->high_bits) {
        __m256i h = shift_right(load32(vecs + 64 * top.vec + 32 * half), top.shift);
        h = _mm256_and_si256(h, _mm256_set1_epi8((char)((1 << l->high_bits) - 1)));
        v = _mm256_or_si256(v, shift_left(h, l->low_bits));
    }
    if (l->levels != LEVELS_LINEAR) {
        const uint8_t *t = l->levels == LEVELS_IQ4 ? pack_iq4_levels : pack_e2m1_levels;
        v = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load16(t)), v);
    }
    return v;
}

INLINE __m256 f16x8(const uint8_t *p)
{
    return _mm256_cvtph_ps(load16(p));
}

INLINE __m256 u8x8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load8(p)));
}

/* a and b of group g, outputs 8 half … 8 half + 7. */
INLINE void scales(const struct pack_layout *l, const uint8_t *record, unsigned g, unsigned half, __m256 *a, __m256 *b)
{
    const uint8_t *d = record + 16 * half, *m = d + 32, *parts = record + 8 * half;
    *b = _mm256_setzero_ps();
    switch (l->scale) {
    case SCALE_NONE:
        *a = *b;
        break;
    case SCALE_F16_MIN:
        *a = f16x8(d);
        *b = f16x8(m);
        break;
    case SCALE_F16:
        *a = f16x8(d);
        break;
    case SCALE_BF16:
        *a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(d)), 16));
        break;
    case SCALE_I8:
        *a = _mm256_mul_ps(f16x8(d), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8(parts + 32 + 16 * g))));
        break;
    case SCALE_K2: {
        __m256i s = _mm256_cvtepu8_epi32(load8(parts + 64 + 16 * g));
        *a = _mm256_mul_ps(f16x8(d), _mm256_cvtepi32_ps(_mm256_and_si256(s, _mm256_set1_epi32(15))));
        *b = _mm256_mul_ps(f16x8(m), _mm256_cvtepi32_ps(_mm256_srli_epi32(s, 4)));
        break;
    }
    case SCALE_K4:
        *a = _mm256_mul_ps(f16x8(d), u8x8(parts + 64 + 32 * g));
        *b = _mm256_mul_ps(f16x8(m), u8x8(parts + 80 + 32 * g));
        break;
    case SCALE_E4M3: /* the seven bits are an f16 of 2^-8 the value; times 2^8 and the half of E2M1's view */
        *a = _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(load8(parts + 16 * g)), 7)),
                           _mm256_set1_ps(128.0f));
        break;
    }
    if (l->scale == SCALE_K2 || l->scale == SCALE_K4)
        *b = _mm256_xor_ps(*b, _mm256_set1_ps(-0.0f));
}

INLINE __m256i spread4(const void *p)
{
    int v;
    memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}

/* isum[r][half] += the products of quads [first, last) with rows x, x + 32. */
INLINE void add_dots(const struct pack_layout *l, const uint8_t *vecs, unsigned s, unsigned first, unsigned last,
                     const int8_t *x, const int R, __m256i isum[2][2])
{
    const unsigned bits = l->levels == LEVELS_IQ4 ? 8 : l->levels == LEVELS_E2M1 ? 5 : l->low_bits + l->high_bits;
    const bool cut = bits > 6;
    const unsigned fit = cut || bits <= 4 ? 8 : bits == 5 ? 4 : 2, chain = fit < last - first ? fit : last - first;
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_set1_epi8(15);
    UNROLL
    for (unsigned j0 = first; j0 < last; j0 += chain) {
        UNROLL
        for (unsigned half = 0; half < 2; half++) {
            __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, top[2] = {sum[0], sum[0]};
            UNROLL
            for (unsigned j = j0; j < j0 + chain; j++) {
                __m256i w = quad(l, vecs, s, j, half);
                UNROLL
                for (int r = 0; r < R; r++) {
                    __m256i q = spread4(x + r * RUN + 4 * j);
                    sum[r] = _mm256_add_epi16(sum[r], _mm256_maddubs_epi16(cut ? _mm256_and_si256(w, low) : w, q));
                    if (cut)
                        top[r] = _mm256_add_epi16(
                            top[r], _mm256_maddubs_epi16(_mm256_and_si256(shift_right(w, 4), low), q));
                }
            }
            UNROLL
            for (int r = 0; r < R; r++) {
                isum[r][half] = _mm256_add_epi32(isum[r][half], _mm256_madd_epi16(sum[r], ones));
                if (cut)
                    isum[r][half] =
                        _mm256_add_epi32(isum[r][half], _mm256_slli_epi32(_mm256_madd_epi16(top[r], ones), 4));
            }
        }
    }
}

/* + bias, + y, store the lanes there are of tile row `row`. */
INLINE void finish(const struct linear_args *a, uint32_t panel, uint32_t row, const __m256 acc[2])
{
    uint32_t first = panel * PANEL, n = a->n_out - first < PANEL ? a->n_out - first : PANEL;
    float *y = a->y + row * a->y_stride + first, v[PANEL];
    _mm256_storeu_ps(v, acc[0]);
    _mm256_storeu_ps(v + 8, acc[1]);
    for (uint32_t i = 0; a->bias && i < n; i++)
        v[i] += a->bias[first + i];
    for (uint32_t i = 0; i < n; i++)
        y[i] = a->add ? y[i] + v[i] : v[i];
}

/* One panel, rows [row, row + R) of the tile. */
INLINE void panel_rows(const struct linear_args *a, const struct pack_layout *l, uint32_t panel, uint32_t row, const int R,
                       const bool wide)
{
    const bool has_min = pack_has_min(l);
    const unsigned n_run = l->block / RUN, n_group = RUN / l->group, quads = l->group / 4U;
    const uint8_t *record = a->panel + panel * a->panel_bytes, *vecs = record + a->q_offset;
    const size_t rows = a->rows;
    const int8_t *x = a->hi + row * RUN, *x_lo = wide ? a->lo + row * RUN : NULL;
    const float *d = a->d + row;
    const uint8_t *sum = (const uint8_t *)a->sum + 4 * row;
    __m256 acc[2][2] = {{_mm256_setzero_ps(), _mm256_setzero_ps()}, {_mm256_setzero_ps(), _mm256_setzero_ps()}};
    for (uint32_t b = a->n_in / l->block; b > 0; b--, record += l->scale_bytes, vecs += l->q_bytes)
        for (unsigned s = 0; s < n_run; s++, x += rows * RUN, x_lo += wide ? rows * RUN : 0, d += rows) {
            UNROLL
            for (unsigned h = 0; h < n_group; h++, sum += 4 * rows) {
                __m256i isum[2][2];
                UNROLL
                for (int r = 0; r < R; r++)
                    isum[r][0] = isum[r][1] = wide || has_min ? _mm256_setzero_si256() : spread4(sum + 4 * r);
                add_dots(l, vecs, s, h * quads, (h + 1) * quads, x, R, isum);
                if (wide) {
                    UNROLL
                    for (int i = 0; i < 2 * R; i++) {
                        __m256i top = _mm256_slli_epi32(isum[i / 2][i % 2], 8);
                        isum[i / 2][i % 2] = has_min ? top : _mm256_add_epi32(top, spread4(sum + 4 * (i / 2)));
                    }
                    add_dots(l, vecs, s, h * quads, (h + 1) * quads, x_lo, R, isum);
                }
                UNROLL
                for (unsigned half = 0; half < 2; half++) {
                    __m256 ga, gb;
                    scales(l, record, s * n_group + h, half, &ga, &gb);
                    UNROLL
                    for (int r = 0; r < R; r++) {
                        acc[r][half] = _mm256_fmadd_ps(_mm256_mul_ps(ga, _mm256_set1_ps(d[r])),
                                                       _mm256_cvtepi32_ps(isum[r][half]), acc[r][half]);
                        if (has_min)
                            acc[r][half] =
                                _mm256_fmadd_ps(gb, _mm256_castsi256_ps(spread4(sum + 4 * r)), acc[r][half]);
                    }
                }
            }
        }
    UNROLL
    for (int r = 0; r < R; r++)
        finish(a, panel, row + (uint32_t)r, acc[r]);
}

INLINE void product_quant(const struct linear_args *a, const struct pack_layout *l, const bool wide)
{
    for (uint32_t p = 0; p < a->n_panel; p++) {
        uint32_t row = 0;
        for (; row + 2 <= a->rows; row += 2)
            panel_rows(a, l, p, row, 2, wide);
        if (row < a->rows)
            panel_rows(a, l, p, row, 1, wide);
    }
}

/* ---- plain numbers ---- */

INLINE __m256 plain8(const enum pack_id id, const uint8_t *p)
{
    if (id == PACK_F32)
        return _mm256_castsi256_ps(load32(p));
    if (id == PACK_F16)
        return _mm256_cvtph_ps(load16(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p)), 16));
}

/* P panels x R rows, each two registers: 8 or more of them hide the latency of fma. */
INLINE void plain_panels(const struct linear_args *a, const enum pack_id id, uint32_t panel, const int R, const int P)
{
    const uint8_t *w = a->panel + panel * a->panel_bytes;
    const size_t half_step = id == PACK_F32 ? 32 : 16;
    const float *x = a->x;
    __m256 acc[TILE_MAX * 4][2];
    UNROLL
    for (int i = 0; i < P * R; i++)
        acc[i][0] = acc[i][1] = _mm256_setzero_ps();
    for (uint32_t k = a->n_in; k > 0; k--, w += 2 * half_step, x += R) {
        UNROLL
        for (int p = 0; p < P; p++) {
            __m256 w0 = plain8(id, w + (size_t)p * a->panel_bytes);
            __m256 w1 = plain8(id, w + (size_t)p * a->panel_bytes + half_step);
            UNROLL
            for (int r = 0; r < R; r++) {
                __m256 xr = _mm256_set1_ps(x[r]);
                acc[p * R + r][0] = _mm256_fmadd_ps(xr, w0, acc[p * R + r][0]);
                acc[p * R + r][1] = _mm256_fmadd_ps(xr, w1, acc[p * R + r][1]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < P * R; i++)
        finish(a, panel + (uint32_t)(i / R), (uint32_t)(i % R), acc[i]);
}

INLINE void product_plain(const struct linear_args *a, const enum pack_id id, const int R, const int P)
{
    uint32_t p = 0;
    for (; p + (uint32_t)P <= a->n_panel; p += (uint32_t)P)
        plain_panels(a, id, p, R, P);
    for (; p < a->n_panel; p++)
        plain_panels(a, id, p, R, 1);
}

#define PLAIN_ONE(id, R, P)                                                                                            \
    static void plain_##id##_##R(const struct linear_args *a)                                                          \
    {                                                                                                                  \
        product_plain(a, PACK_##id, R, P);                                                                             \
    }
#define PLAIN(id) PLAIN_ONE(id, 1, 4) PLAIN_ONE(id, 2, 2) PLAIN_ONE(id, 4, 1) PLAIN_ONE(id, 6, 1)
#define EACH(id)                                                                                                       \
    static void quant_##id(const struct linear_args *a)                                                                \
    {                                                                                                                  \
        product_quant(a, &pack_layouts[PACK_##id], false);                                                             \
    }                                                                                                                  \
    static void quant16_##id(const struct linear_args *a)                                                              \
    {                                                                                                                  \
        product_quant(a, &pack_layouts[PACK_##id], true);                                                              \
    }

PLAIN(F32)
PLAIN(F16)
PLAIN(BF16)
EACH(Q4_0)
EACH(Q4_1)
EACH(Q5_0)
EACH(Q5_1)
EACH(Q8_0)
EACH(Q2_K)
EACH(Q3_K)
EACH(Q4_K)
EACH(Q5_K)
EACH(Q6_K)
EACH(IQ4_NL)
EACH(IQ4_XS)
EACH(MXFP4)
EACH(NVFP4)

#define PLAIN_ROW(id) [PACK_##id] = {plain_##id##_1, plain_##id##_2, plain_##id##_4, plain_##id##_6}
#define ROW(id)       [PACK_##id] = {quant_##id, quant16_##id}

static linear_product *find(const struct pack_layout *l, bool wide, uint32_t rows, bool unpacked)
{
    static linear_product *const plain[PACK_COUNT][4] = {PLAIN_ROW(F32), PLAIN_ROW(F16), PLAIN_ROW(BF16)};
    static linear_product *const quant[PACK_COUNT][2] = {
        ROW(Q4_0), ROW(Q4_1), ROW(Q5_0), ROW(Q5_1),   ROW(Q8_0),   ROW(Q2_K),  ROW(Q3_K),
        ROW(Q4_K), ROW(Q5_K), ROW(Q6_K), ROW(IQ4_NL), ROW(IQ4_XS), ROW(MXFP4), ROW(NVFP4),
    };
    (void)unpacked;
    return l->group ? quant[pack_id(l)][wide] : plain[pack_id(l)][rows == 6 ? 3 : rows / 2];
}

const struct linear_kernels linear_avx2 = {
    .encode = encode_row,
    .find = find,
    .kernel_plain = "avx2 panel16 f32",
    .kernel_quant = "avx2 panel16 int8",
};
