/* The table of number formats. One row a format; the functions are in the family's file, and everything that differs
 * between formats is either a column here or in those functions. Rows are in the order of GGUF's type numbers. */
#include "quant/family.h"

#include "base/arith.h"

#include <inttypes.h>
#include <strings.h>

/* Columns: type, name, elements and bytes of a block, elements of a group, minimum?, weight?, functions. */
static const struct quant_format table[] = {
    {QT_F32, "F32", 1, 4, 0, false, true, f32_decode, f32_encode, NULL, f32_finite},
    {QT_F16, "F16", 1, 2, 0, false, true, f16_decode, f16_encode, NULL, f16_finite},
    {QT_Q4_0, "Q4_0", 32, 18, 32, false, true, q4_0_decode, q4_0_encode, q4_0_view, q4_0_finite},
    {QT_Q4_1, "Q4_1", 32, 20, 32, true, true, q4_1_decode, q4_1_encode, q4_1_view, q4_1_finite},
    {QT_Q5_0, "Q5_0", 32, 22, 32, false, true, q5_0_decode, q5_0_encode, q5_0_view, q5_0_finite},
    {QT_Q5_1, "Q5_1", 32, 24, 32, true, true, q5_1_decode, q5_1_encode, q5_1_view, q5_1_finite},
    {QT_Q8_0, "Q8_0", 32, 34, 32, false, true, q8_0_decode, q8_0_encode, q8_0_view, q8_0_finite},
    {QT_Q2_K, "Q2_K", 256, 84, 16, true, true, q2_k_decode, NULL, q2_k_view, q2_k_finite},
    {QT_Q3_K, "Q3_K", 256, 110, 16, false, true, q3_k_decode, NULL, q3_k_view, q3_k_finite},
    {QT_Q4_K, "Q4_K", 256, 144, 32, true, true, q4_k_decode, NULL, q4_k_view, q4_k_finite},
    {QT_Q5_K, "Q5_K", 256, 176, 32, true, true, q5_k_decode, NULL, q5_k_view, q5_k_finite},
    {QT_Q6_K, "Q6_K", 256, 210, 16, false, true, q6_k_decode, NULL, q6_k_view, q6_k_finite},
    {QT_IQ4_NL, "IQ4_NL", 32, 18, 32, false, true, iq4_nl_decode, NULL, iq4_nl_view, iq4_nl_finite},
    {QT_IQ4_XS, "IQ4_XS", 256, 136, 32, false, true, iq4_xs_decode, NULL, iq4_xs_view, iq4_xs_finite},
    {QT_I8, "I8", 1, 1, 0, false, false, i8_decode, NULL, NULL, i8_finite},
    {QT_I32, "I32", 1, 4, 0, false, false, i32_decode, NULL, NULL, i32_finite},
    {QT_BF16, "BF16", 1, 2, 0, false, true, bf16_decode, bf16_encode, NULL, bf16_finite},
    {QT_MXFP4, "MXFP4", 32, 17, 32, false, true, mxfp4_decode, NULL, mxfp4_view, mxfp4_finite},
    {QT_NVFP4, "NVFP4", 64, 36, 16, false, true, nvfp4_decode, NULL, nvfp4_view, nvfp4_finite},
};

size_t quant_n(void)
{
    return sizeof table / sizeof *table;
}

const struct quant_format *quant_at(size_t i)
{
    return i < quant_n() ? &table[i] : NULL;
}

const struct quant_format *quant_format(uint32_t type)
{
    for (size_t i = 0; i < quant_n(); i++)
        if ((uint32_t)table[i].type == type)
            return &table[i];
    return NULL;
}

const struct quant_format *quant_by_name(const char *name)
{
    for (size_t i = 0; i < quant_n(); i++)
        if (strcasecmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

glim_status quant_row_bytes(const struct quant_format *f, uint64_t n, size_t *bytes, struct glim_err *e)
{
    if (n % f->block_elems != 0)
        return err_set(e, GLIM_FAILED, "cannot size a row: %s: have %" PRIu64 " elements, need a multiple of %d",
                       f->name, n, f->block_elems);
    if (!mul_size(n / f->block_elems, f->block_bytes, bytes))
        return err_set(e, GLIM_FAILED, "cannot size a row: %s: have %" PRIu64 " elements, need a size below 2^64 bytes",
                       f->name, n);
    return GLIM_OK;
}
