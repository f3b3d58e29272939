/* Products on AVX-512: plain numbers, activations, and the table of kernels. */
#include "cpu/linear_body_avx512.h"
#include "cpu/linear_encode.h"

/* 16 weights of one k as f32. */
INLINE __m512 plain16(const enum pack_id id, const uint8_t *p)
{
    if (id == PACK_F32)
        return _mm512_loadu_ps(p);
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);
    if (id == PACK_F16)
        return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
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
            v[p] = plain16(id, w + (size_t)p * a->panel_bytes);
            if (R == 1)
                _mm_prefetch((const char *)w + (size_t)p * a->panel_bytes + AHEAD, _MM_HINT_T0);
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

#define PLAIN_ONE(id, R, P)                                                                                            \
    static void product_##id##_##R(const struct linear_args *a)                                                        \
    {                                                                                                                  \
        product_plain(a, PACK_##id, R, P);                                                                             \
    }
#define PLAIN_ALL(id) PLAIN_ONE(id, 1, 4) PLAIN_ONE(id, 2, 4) PLAIN_ONE(id, 4, 2) PLAIN_ONE(id, 6, 2)
#define PLAIN_ROW(id)                                                                                                  \
    {                                                                                                                  \
        {product_##id##_1, product_##id##_2, product_##id##_4, product_##id##_6},                                      \
        {                                                                                                              \
            NULL                                                                                                       \
        }                                                                                                              \
    }

PLAIN_ALL(F32)
PLAIN_ALL(F16)
PLAIN_ALL(BF16)
ALL(Q4_0)
ALL(Q4_1)
ALL(Q5_0)
ALL(Q5_1)
ALL(Q8_0)
ALL(Q2_K)
ALL(Q3_K)
ALL(Q4_K)
ALL(Q5_K)
ALL(Q6_K)
ALL(IQ4_NL)
ALL(IQ4_XS)
ALL(MXFP4)
ALL(NVFP4)

const struct linear_kernels linear_avx512 = {
    .encode = encode_row,
    .product = {[PACK_F32] = PLAIN_ROW(F32),
                [PACK_F16] = PLAIN_ROW(F16),
                [PACK_BF16] = PLAIN_ROW(BF16),
                [PACK_Q4_0] = ROW(Q4_0),
                [PACK_Q4_1] = ROW(Q4_1),
                [PACK_Q5_0] = ROW(Q5_0),
                [PACK_Q5_1] = ROW(Q5_1),
                [PACK_Q8_0] = ROW(Q8_0),
                [PACK_Q2_K] = ROW(Q2_K),
                [PACK_Q3_K] = ROW(Q3_K),
                [PACK_Q4_K] = ROW(Q4_K),
                [PACK_Q5_K] = ROW(Q5_K),
                [PACK_Q6_K] = ROW(Q6_K),
                [PACK_IQ4_NL] = ROW(IQ4_NL),
                [PACK_IQ4_XS] = ROW(IQ4_XS),
                [PACK_MXFP4] = ROW(MXFP4),
                [PACK_NVFP4] = ROW(NVFP4)},
    .kernel_plain = "avx512 panel16 f32",
    .kernel_quant = "avx512-vnni panel16 int8",
};
