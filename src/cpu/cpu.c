/* The CPU backend: which instruction sets this machine can run, the backend table of each, and an open backend's life.
 *
 * The three tables differ in their inner kernels only; the layout of weights and of the cache, the cutting of work and
 * every result are the same. All memory an op needs is one arena taken by open(). */
#include "cpu/cpu.h"
#include "cpu/attention.h"
#include "cpu/cpu_impl.h"
#include "cpu/linear.h"

#include "base/arith.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ---- instruction sets ---- */

#if defined(__x86_64__)
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* The builtin asks the operating system too (XGETBV): a set whose registers are not saved counts as absent. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
           has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#else
static bool has_avx2(void)
{
    return false;
}

static bool has_avx512(void)
{
    return false;
}
#endif

bool cpu_isa_usable(enum cpu_isa isa)
{
    switch (isa) {
    case CPU_GENERIC:
        return true;
    case CPU_AVX2:
        return has_avx2();
    case CPU_AVX512:
        return has_avx512();
    case CPU_ISA_COUNT:
        break;
    }
    return false;
}

enum cpu_isa cpu_isa_best(void)
{
    return has_avx512() ? CPU_AVX512 : has_avx2() ? CPU_AVX2 : CPU_GENERIC;
}

/* The first "model name : …" line of /proc/cpuinfo (x86), or "Model" (some arm64 boards). */
void cpu_model_name(char *buf, size_t n)
{
    if (n == 0)
        return;
    buf[0] = 0;
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f)
        return;
    char line[256];
    while (buf[0] == 0 && fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        if (!value || (strncmp(line, "model name", 10) != 0 && strncmp(line, "Model", 5) != 0))
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = 0;
        snprintf(buf, n, "%s", value);
    }
    fclose(f);
}

/* ---- kernels ---- */

#define KERNELS(isa)                                                                                                   \
    {                                                                                                                  \
        .elementwise = &elementwise_##isa, .norm = &norm_##isa, .rope = &rope_##isa, .kv = &kv_##isa,                  \
        .attn = &attn_##isa, .linear = &linear_##isa                                                                   \
    }
static const struct cpu_kernels kernels[CPU_ISA_COUNT] = {
    [CPU_GENERIC] = KERNELS(generic),
#if defined(__x86_64__)
    [CPU_AVX2] = KERNELS(avx2),
    [CPU_AVX512] = KERNELS(avx512),
#endif
};

/* ---- life ---- */

/* Far above any model; below it no size of the scratch plan overflows. */
enum { MAX_ROWS = 1 << 24, MAX_HEADS = 1 << 14, MAX_HEAD_DIM = 1 << 14 };

struct scratch_plan {
    size_t linear, attn, total;
};

static glim_status plan_scratch(const struct op_limits *l, int n_thread, struct scratch_plan *p, struct glim_err *e)
{
    *p = (struct scratch_plan){0};
    if (l->max_rows > MAX_ROWS)
        return err_set(e, GLIM_REFUSED, "cannot plan CPU scratch: rows of a forward: have %u, need at most %d",
                       l->max_rows, MAX_ROWS);
    if (l->max_head > MAX_HEADS || l->max_head_dim > MAX_HEAD_DIM)
        return err_set(e, GLIM_REFUSED,
                       "cannot plan CPU scratch: heads and their width: have %u x %u, need at most %d x %d",
                       l->max_head, l->max_head_dim, MAX_HEADS, MAX_HEAD_DIM);
    bool fits = align_up(linear_scratch_bytes(l, n_thread), 64, &p->linear) &&
                align_up(attn_scratch_bytes(l, n_thread), 64, &p->attn) && add_size(p->linear, p->attn, &p->total);
    if (!fits)
        return err_set(e, GLIM_REFUSED,
                       "cannot plan CPU scratch: products of %u rows of %u: have a size past 64 bits, need less",
                       l->max_rows, l->max_in);
    return GLIM_OK;
}

static size_t scratch_bytes(const struct op_limits *l, int n_thread)
{
    struct scratch_plan p;
    return plan_scratch(l, n_thread, &p, NULL) == GLIM_OK ? p.total : SIZE_MAX;
}

static void cpu_close(struct op_ctx *c)
{
    struct cpu_priv *p = c->priv;
    if (p)
        arena_fini(&p->arena);
    mem_free(p);
    *c = (struct op_ctx){0};
}

static glim_status open_isa(enum cpu_isa isa, struct op_ctx *c, const struct op_limits *l, struct crew *crew,
                            struct glim_err *e)
{
    struct scratch_plan plan;
    *c = (struct op_ctx){.be = cpu_backend(isa), .crew = crew};
    TRY(plan_scratch(l, crew_size(crew), &plan, e));
    struct cpu_priv *p = mem_calloc(1, sizeof *p);
    if (!p)
        return err_nomem(e, "CPU backend", sizeof *p);
    *p = (struct cpu_priv){.isa = isa, .k = &kernels[isa], .limits = *l, .n_thread = crew_size(crew)};
    c->priv = p;
    glim_status st = arena_init(&p->arena, plan.total, "CPU scratch", e);
    if (st != GLIM_OK) {
        cpu_close(c);
        return st;
    }
    p->linear_scratch = arena_take(&p->arena, plan.linear);
    p->attn_scratch = arena_take(&p->arena, plan.attn);
    return GLIM_OK;
}

/* Every op has finished when it returns, and none can fault. */
static glim_status cpu_sync(struct op_ctx *c, struct glim_err *e)
{
    (void)c, (void)e;
    return GLIM_OK;
}

/* ---- tables ---- */

#define BACKEND(isa, ISA)                                                                                              \
    static glim_status open_##isa(struct op_ctx *c, const struct op_limits *l, struct crew *crew, struct glim_err *e)  \
    {                                                                                                                  \
        return open_isa(ISA, c, l, crew, e);                                                                           \
    }                                                                                                                  \
    static const char *kernel_name_##isa(const struct quant_format *f, enum act_type act)                              \
    {                                                                                                                  \
        return cpu_kernel_name(ISA, f, act);                                                                           \
    }                                                                                                                  \
    static const struct backend backend_##isa = {.name = "cpu-" #isa,                                                  \
                                                 .scratch_bytes = scratch_bytes,                                       \
                                                 .open = open_##isa,                                                   \
                                                 .close = cpu_close,                                                   \
                                                 .sync = cpu_sync,                                                     \
                                                 .weight_bytes = cpu_weight_bytes,                                     \
                                                 .weight_pack = cpu_weight_pack,                                       \
                                                 .kv_page_bytes = cpu_kv_page_bytes,                                   \
                                                 .kernel_name = kernel_name_##isa,                                     \
                                                 .embed = cpu_embed,                                                   \
                                                 .rmsnorm = cpu_rmsnorm,                                               \
                                                 .add = cpu_add,                                                       \
                                                 .linear = cpu_linear,                                                 \
                                                 .norm_linear = cpu_norm_linear,                                       \
                                                 .glu_linear = cpu_glu_linear,                                         \
                                                 .rope_table = cpu_rope_table,                                         \
                                                 .attn_prepare = cpu_attn_prepare,                                     \
                                                 .attention = cpu_attention,                                           \
                                                 .glu = cpu_glu,                                                       \
                                                 .softcap = cpu_softcap,                                               \
                                                 .scale = cpu_scale,                                                   \
                                                 .gather = cpu_gather};

BACKEND(generic, CPU_GENERIC)
#if defined(__x86_64__)
BACKEND(avx2, CPU_AVX2)
BACKEND(avx512, CPU_AVX512)
#endif

const struct backend *cpu_backend(enum cpu_isa isa)
{
    if (!cpu_isa_usable(isa))
        return NULL;
#if defined(__x86_64__)
    if (isa == CPU_AVX512)
        return &backend_avx512;
    if (isa == CPU_AVX2)
        return &backend_avx2;
#endif
    return &backend_generic;
}
