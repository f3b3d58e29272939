/* Checked arithmetic on sizes. A false return means the true result does not fit; *out is then unspecified.
 * Every size that comes from a file or a request goes through these. */
#ifndef GLIM_BASE_ARITH_H
#define GLIM_BASE_ARITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Smallest multiple of align (a power of two) that is >= n. */
static inline bool align_up(size_t n, size_t align, size_t *out)
{
    if (!add_size(n, align - 1, out))
        return false;
    *out &= ~(align - 1);
    return true;
}

static inline size_t ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

#endif
