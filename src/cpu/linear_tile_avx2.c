/* Tiles of rows against unpacked panels (prefill, batches, verification) on AVX2.
 *
 * Without an instruction that adds four byte products into 32 bits, vpmaddubsw adds pairs into 16 bits, and as many
 * quads are summed there as cannot overflow (chain_quads). A kernel takes three rows of a tile at a time (two or one
 * where fewer are left) against one panel: 6 sums in 16 bits and 6 in f32, two halves of the weights and a broadcast in
 * 16 registers. Formats differ in the size of a group, in having a minimum and in the bits of their integers. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx2.h"

/* isum[r][half] += the products of a group with R rows; x is the first row's, rows RUN apart. */
INLINE void group_dots(const uint8_t *u, const int8_t *x, const unsigned quads, const unsigned bits, const int R,
                       __m256i isum[3][2])
{
    const unsigned chain = chain_quads(bits, quads);
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_set1_epi8(15);
    UNROLL
    for (unsigned j0 = 0; j0 < quads; j0 += chain) {
        __m256i sum[3][2], top[3][2];
        UNROLL
        for (int i = 0; i < 2 * R; i++)
            sum[i / 2][i % 2] = top[i / 2][i % 2] = _mm256_setzero_si256();
        UNROLL
        for (unsigned j = j0; j < j0 + chain; j++) {
            __m256i w[2] = {load32(u + 64 * j), load32(u + 64 * j + 32)}, wh[2] = {w[0], w[1]};
            UNROLL
            for (int half = 0; half < 2 && bits > 6; half++) {
                wh[half] = _mm256_and_si256(shift_right(w[half], 4), low);
                w[half] = _mm256_and_si256(w[half], low);
            }
            UNROLL
            for (int r = 0; r < R; r++) {
                __m256i q = spread4(x + r * RUN + 4 * j);
                UNROLL
                for (int half = 0; half < 2; half++) {
                    sum[r][half] = _mm256_add_epi16(sum[r][half], _mm256_maddubs_epi16(w[half], q));
                    if (bits > 6)
                        top[r][half] = _mm256_add_epi16(top[r][half], _mm256_maddubs_epi16(wh[half], q));
                }
            }
        }
        UNROLL
        for (int i = 0; i < 2 * R; i++) {
            __m256i v = _mm256_madd_epi16(sum[i / 2][i % 2], ones);
            if (bits > 6)
                v = _mm256_add_epi32(v, _mm256_slli_epi32(_mm256_madd_epi16(top[i / 2][i % 2], ones), 4));
            isum[i / 2][i % 2] = _mm256_add_epi32(isum[i / 2][i % 2], v);
        }
    }
}

struct kind {
    unsigned group, bits;
    bool has_min;
};

/* One panel, rows [row, row + R) of the tile. */
INLINE void rows(const struct linear_args *a, const struct kind k, uint32_t panel, uint32_t row, const int R)
{
    const unsigned quads = k.group / 4, n_group = RUN / k.group;
    const size_t tile_rows = a->rows;
    const uint8_t *scale = a->panel + panel * a->panel_bytes, *u = scale + a->q_offset;
    const int8_t *lo = a->lo + row * RUN, *hi = a->hi + row * RUN;
    const uint8_t *spill = a->spill;
    size_t run = a->run;
    float *carry = a->acc + (panel * tile_rows + row) * PANEL;
    __m256 acc[3][2];
    UNROLL
    for (int i = 0; i < 2 * R; i++)
        acc[i / 2][i % 2] = a->first ? _mm256_setzero_ps() : _mm256_loadu_ps(carry + 8 * i);
    for (uint32_t n = a->n_in / RUN; n > 0; n--, lo += tile_rows * RUN, hi += tile_rows * RUN, spill++, run++) {
        size_t block = run / 16 * tile_rows + row, in_block = run % 16;
        const float *d = a->d + block * 16 + in_block;
        const uint32_t *sum = (const uint32_t *)a->sum + (block * 16 + in_block) * n_group;
        UNROLL
        for (unsigned h = 0; h < n_group; h++, sum++) {
            __m256i isum[3][2];
            UNROLL
            for (int i = 0; i < 2 * R; i++)
                isum[i / 2][i % 2] = _mm256_setzero_si256();
            if (*spill) {
                group_dots(u, hi + 4 * h * quads, quads, k.bits, R, isum);
                UNROLL
                for (int i = 0; i < 2 * R; i++)
                    isum[i / 2][i % 2] = _mm256_slli_epi32(isum[i / 2][i % 2], 8);
            }
            group_dots(u, lo + 4 * h * quads, quads, k.bits, R, isum);
            UNROLL
            for (int i = 0; i < 2 * R; i++) {
                int r = i / 2, half = i % 2;
                __m256 ga = _mm256_loadu_ps((const float *)(const void *)scale + 8 * half);
                if (!k.has_min)
                    isum[r][half] = _mm256_add_epi32(isum[r][half], spread4(sum + 16 * n_group * (unsigned)r));
                acc[r][half] = _mm256_fmadd_ps(_mm256_mul_ps(ga, _mm256_set1_ps(d[16 * r])),
                                               _mm256_cvtepi32_ps(isum[r][half]), acc[r][half]);
                if (k.has_min)
                    acc[r][half] =
                        _mm256_fmadd_ps(_mm256_loadu_ps((const float *)(const void *)scale + 16 + 8 * half),
                                        _mm256_castsi256_ps(spread4(sum + 16 * n_group * (unsigned)r)), acc[r][half]);
            }
            u += 64 * quads;
            scale += k.has_min ? 128 : 64;
        }
    }
    UNROLL
    for (int r = 0; r < R; r++)
        if (a->last) {
            linear_finish_avx2(a, panel, row + (uint32_t)r, acc[r][0], acc[r][1]);
        } else {
            _mm256_storeu_ps(carry + 16 * r, acc[r][0]);
            _mm256_storeu_ps(carry + 16 * r + 8, acc[r][1]);
        }
}

INLINE void tile(const struct linear_args *a, const struct kind k)
{
    for (size_t i = 0; a->soon && i < a->soon_bytes; i += 64)
        _mm_prefetch((const char *)a->soon + i, _MM_HINT_T1);
    for (uint32_t p = 0; p < a->n_panel; p++) {
        uint32_t row = 0;
        for (; a->rows - row >= 3 && a->rows != 4; row += 3)
            rows(a, k, p, row, 3);
        for (; a->rows - row >= 2; row += 2)
            rows(a, k, p, row, 2);
        if (row < a->rows)
            rows(a, k, p, row, 1);
    }
}

INLINE void tiles(const struct linear_args *first, const struct kind k)
{
    struct linear_args a = *first;
    for (uint32_t t = a.n_tile; t > 0; t--, linear_next_tile(&a))
        tile(&a, k);
}

/* Name: group, bits, minimum. */
#define EACH(group, bits, min)                                                                                         \
    static void tile_##group##_##bits##_##min(const struct linear_args *a)                                             \
    {                                                                                                                  \
        tiles(a, (struct kind){group, bits, min});                                                                     \
    }

EACH(32, 4, 0)
EACH(32, 4, 1)
EACH(32, 5, 0)
EACH(32, 5, 1)
EACH(32, 8, 0)
EACH(16, 4, 0)
EACH(16, 4, 1)
EACH(16, 6, 0)

linear_product *linear_tile_avx2(const struct pack_layout *l)
{
    static linear_product *const table[] = {tile_32_4_0, tile_32_4_1, tile_32_5_0, tile_32_5_1,
                                            tile_32_8_0, tile_16_4_0, tile_16_4_1, tile_16_6_0};
    unsigned bits = stored_bits(l);
    if (l->group == 32)
        return table[bits > 5 ? 4 : 2 * (bits == 5) + pack_has_min(l)];
    /* a group of 16 is four quads: integers of 5 bits sum up as those of 4 do */
    return table[bits > 5 ? 7 : 5 + pack_has_min(l)];
}
#endif
