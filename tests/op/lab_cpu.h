/* The devices of the CPU tests: every instruction set this machine has, on crews of 1, 2 and 3.
 *
 * To run one thing:  test_cpu_ops 'rmsnorm*'              tests by name (a pattern)
 *                    test_cpu_ops '*' avx2                one instruction set: generic, avx2, avx512
 *                    test_cpu_ops_linear 'linear_Q4_K' avx512 */
#ifndef GLIM_TESTS_OP_LAB_CPU_H
#define GLIM_TESTS_OP_LAB_CPU_H

#include "lab.h"

#include "cpu/cpu_impl.h"

static void lab_cpu_poison(struct op_ctx *c)
{
    struct arena *a = &cpu_of(c)->arena;
    lab_poison(a->base, a->used);
}

static inline int lab_cpu_open(int argc, char **argv)
{
    static const char *const name[CPU_ISA_COUNT] = {"generic", "avx2", "avx512"};
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (lab_open() != 0)
        return -1;
    for (int isa = CPU_GENERIC; isa < CPU_ISA_COUNT; isa++) {
        const struct backend *be = cpu_backend((enum cpu_isa)isa);
        if (be == NULL || (argc > 2 && strcmp(argv[2], name[isa]) != 0))
            continue;
        for (int n_thread = 1; n_thread <= 3; n_thread++)
            if (lab_add(be, n_thread, lab_cpu_poison) != 0)
                return -1;
    }
    return lab.n_dut == 0 ? -1 : 0;
}

#endif
