/* Products on AVX-512: plain numbers, the encoding of activations, and the table of kernels. */
#if defined(__x86_64__)
#include "cpu/linear_body_avx512.h"

enum { AHEAD = 2048 };

/* ---- plain numbers ---- */

/* 16 weights of one k. */
INLINE __m512 plain16(const enum pack_id id, const uint8_t *p)
{
    if (id == PACK_F32)
        return _mm512_loadu_ps(p);
    return id == PACK_F16 ? f16x16(p) : bf16x16(p);
}

/* P panels x R rows of sums; 8 or more of them hide the latency of fma. */
INLINE void plain_panels(const struct linear_args *a, const enum pack_id id, uint32_t panel, const int R, const int P)
{
    const uint8_t *w = a->panel + panel * a->panel_bytes;
    const size_t step = id == PACK_F32 ? 64 : 32;
    const float *x = a->x;
    __m512 acc[4][TILE_MAX];
    UNROLL
    for (int i = 0; i < P * R; i++)
        acc[i / R][i % R] = _mm512_setzero_ps();
    for (uint32_t k = a->n_in; k > 0; k--, w += step, x += R) {
        __m512 v[4];
        UNROLL
        for (int p = 0; p < P; p++) {
            const uint8_t *at = w + (size_t)p * a->panel_bytes;
            v[p] = plain16(id, at);
            if (R == 1)
                _mm_prefetch((const char *)at + AHEAD, _MM_HINT_T0);
        }
        UNROLL
        for (int r = 0; r < R; r++) {
            __m512 xr = _mm512_set1_ps(x[r]);
            UNROLL
            for (int p = 0; p < P; p++)
                acc[p][r] = _mm512_fmadd_ps(xr, v[p], acc[p][r]);
        }
    }
    UNROLL
    for (int p = 0; p < P; p++)
        finish(a, panel + (uint32_t)p, acc[p], R);
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
#define EACH(id) ONE(id, 1, 4) ONE(id, 2, 4) ONE(id, 4, 2) ONE(id, 6, 2)

EACH(F32)
EACH(F16)
EACH(BF16)
#define PLAIN(id) [PACK_##id] = {plain_##id##_1, plain_##id##_2, plain_##id##_4, plain_##id##_6}

static linear_product *find(const struct pack_layout *l, uint32_t rows, bool unpacked)
{
    static linear_product *const plain[PACK_COUNT][4] = {PLAIN(F32), PLAIN(F16), PLAIN(BF16)};
    if (l->group == 0)
        return plain[pack_id(l)][tile_slot(rows)];
    return unpacked ? linear_tile_avx512(l, tile_slot(rows)) : linear_row_avx512[pack_id(l)];
}

const struct linear_kernels linear_avx512 = {
    .encode = linear_encode_avx512,
    .sums = linear_sums_avx512,
    .find = find,
    .unpack = linear_unpack_avx512,
    .kernel_plain = "avx512 panel16 f32",
    .kernel_quant = "avx512-vnni panel16 int8",
};
#endif
