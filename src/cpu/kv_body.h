/* Inner kernels of kv_append: narrowing to the cache's number type; included by kv_<isa>.c after its lanes. */
#include "cpu/cpu_impl.h"

static void to_f16(uint16_t *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store_f16_n(y + i, v_load(x + i), 16);
    if (i < n)
        v_store_f16_n(y + i, v_load_n(x + i, n - i), n - i);
}

static void to_bf16(uint16_t *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store_bf16_n(y + i, v_load(x + i), 16);
    if (i < n)
        v_store_bf16_n(y + i, v_load_n(x + i, n - i), n - i);
}

const struct kv_kernels LANES_NAME(kv) = {.to_f16 = to_f16, .to_bf16 = to_bf16};
