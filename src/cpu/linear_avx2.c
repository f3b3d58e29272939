/* Products on AVX2: plain numbers and the table of kernels. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx2.h"

void linear_finish_avx2(const struct linear_args *a, uint32_t panel, uint32_t row, __m256 acc0, __m256 acc1)
{
    uint32_t first = panel * PANEL, n = a->n_out - first < PANEL ? a->n_out - first : PANEL;
    float *y = a->y + row * a->y_stride + first, v[PANEL];
    _mm256_storeu_ps(v, acc0);
    _mm256_storeu_ps(v + 8, acc1);
    for (uint32_t i = 0; a->bias && i < n; i++)
        v[i] += a->bias[first + i];
    for (uint32_t i = 0; a->add && i < n; i++)
        v[i] = y[i] + v[i];
    memcpy(y, v, n * sizeof *y);
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
        linear_finish_avx2(a, panel + (uint32_t)(i / R), (uint32_t)(i % R), acc[i][0], acc[i][1]);
}

INLINE void product_plain(const struct linear_args *a, const enum pack_id id, const int R, const int P)
{
    uint32_t p = 0;
    for (; p + (uint32_t)P <= a->n_panel; p += (uint32_t)P)
        plain_panels(a, id, p, R, P);
    for (; p < a->n_panel; p++)
        plain_panels(a, id, p, R, 1);
}

#define ONE(id, R, P)                                                                                                  \
    static void plain_##id##_##R(const struct linear_args *a)                                                          \
    {                                                                                                                  \
        product_plain(a, PACK_##id, R, P);                                                                             \
    }
#define EACH(id) ONE(id, 1, 4) ONE(id, 2, 2) ONE(id, 4, 1) ONE(id, 6, 1)

EACH(F32)
EACH(F16)
EACH(BF16)
#define PLAIN(id) [PACK_##id] = {plain_##id##_1, plain_##id##_2, plain_##id##_4, plain_##id##_6}

static linear_product *find(const struct pack_layout *l, uint32_t rows, bool unpacked)
{
    static linear_product *const plain[PACK_COUNT][4] = {PLAIN(F32), PLAIN(F16), PLAIN(BF16)};
    if (l->group == 0)
        return plain[pack_id(l)][rows == 6 ? 3 : rows / 2];
    return unpacked ? linear_tile_avx2(l) : linear_row_avx2[pack_id(l)];
}

const struct linear_kernels linear_avx2 = {
    .encode = linear_encode_avx2,
    .sums = linear_sums_avx2,
    .find = find,
    .unpack = linear_unpack_avx2,
    .kernel_plain = "avx2 panel16 f32",
    .kernel_quant = "avx2 panel16 int8",
};
#endif
