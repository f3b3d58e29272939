/* What this machine can do at most, measured in about a second: the limits that `glim bench --roofline` holds ops
 * against. */
#ifndef GLIM_CPU_PEAK_H
#define GLIM_CPU_PEAK_H

#include "base/crew.h"

/* Of all the crew's threads together: the best of many short rounds. */
struct cpu_peaks {
    double memory; /* bytes a second read from a block several times as large as the caches */
    double cache;  /* bytes a second read from PEAK_CACHE_BYTES a thread */
    double int8;   /* operations a second (a multiply-add is two): sums of products of bytes */
    double f32;    /* multiply-adds of f32 */
    double bf16;   /* sums of products of bf16; 0 when the processor has no instruction for them */
    const char *int8_name, *f32_name, *bf16_name; /* the instructions that were measured */
};
enum { PEAK_CACHE_BYTES = 256 << 10 }; /* fits a second-level cache */

glim_status cpu_peaks(struct crew *crew, struct cpu_peaks *out, struct glim_err *e);

/* The loops of an instruction set. Operands are hidden from the compiler, so that nothing is computed beforehand. */
struct peak_kernels {
    void (*read)(const void *p, size_t n); /* n bytes, a multiple of 512; p on a 64-byte border */
    double (*int8)(size_t n);              /* n turns; returns operations */
    double (*f32)(size_t n);
    const char *int8_name, *f32_name;
};
extern const struct peak_kernels peak_generic, peak_avx2, peak_avx512;
double peak_bf16_avx512(size_t n);

#endif
