/* The CPU backend. */
#ifndef GLIM_CPU_CPU_H
#define GLIM_CPU_CPU_H

#include "op/op.h"

enum cpu_isa { CPU_GENERIC, CPU_AVX2, CPU_AVX512, CPU_ISA_COUNT };

/* Best instruction set this machine has (AVX512 means F, BW, VL, DQ and VNNI). */
enum cpu_isa cpu_isa_best(void);
bool cpu_isa_usable(enum cpu_isa isa);
/* The backend table for an instruction set; NULL when this machine cannot run it. All give the same bits. */
const struct backend *cpu_backend(enum cpu_isa isa);
/* Processor name as the system reports it, "" when unknown. */
void cpu_model_name(char *buf, size_t n);

#endif
