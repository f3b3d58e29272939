/* Measuring the machine's limits. A round is a few milliseconds of one loop on every thread; the best round counts,
 * because whatever else runs can only make a round slower. */
#include "cpu/peak.h"
#include "cpu/cpu.h"

#include "base/mem.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool has_bf16(void)
{
#if defined(__x86_64__)
    return cpu_isa_usable(CPU_AVX512) && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

static const struct peak_kernels *kernels(void)
{
#if defined(__x86_64__)
    if (cpu_isa_usable(CPU_AVX512))
        return &peak_avx512;
    if (cpu_isa_usable(CPU_AVX2))
        return &peak_avx2;
#endif
    return &peak_generic;
}

/* ---- a round ---- */

struct round {
    double (*compute)(size_t n); /* or NULL to read */
    void (*read)(const void *p, size_t n);
    const unsigned char *block;
    size_t bytes; /* a member's part of the block */
    size_t turns;
    _Alignas(64) double done[256 * 8]; /* a member's operations or bytes, a cache line each */
};

static void run_member(void *arg, int member, int n_member)
{
    struct round *r = arg;
    (void)n_member;
    double done = 0;
    if (r->compute) {
        done = r->compute(r->turns);
    } else {
        for (size_t i = 0; i < r->turns; i++)
            r->read(r->block + (size_t)member * r->bytes, r->bytes);
        done = (double)r->turns * (double)r->bytes;
    }
    r->done[8 * member] = done;
}

static double rate(struct crew *crew, struct round *r, double *seconds)
{
    double begin = now(), sum = 0;
    crew_run(crew, run_member, r);
    *seconds = now() - begin;
    for (int i = 0; i < crew_size(crew); i++)
        sum += r->done[8 * i];
    return *seconds > 0 ? sum / *seconds : 0;
}

/* Double the turns until a round is long enough, then keep the best for a while. */
static double best(struct crew *crew, struct round *r)
{
    const double round_s = 0.004, total_s = 0.25;
    double top = 0, seconds = 0;
    for (r->turns = 1; seconds < round_s && r->turns < (size_t)1 << 40; r->turns *= 2)
        top = rate(crew, r, &seconds);
    for (double begin = now(); now() - begin < total_s;) {
        double v = rate(crew, r, &seconds);
        top = v > top ? v : top;
    }
    return top;
}

/* ---- all of them ---- */

/* A block of which no cache holds a good part, and which leaves half of the memory alone. (Virtual machines report
 * third levels of hundreds of megabytes that they do not have to themselves.) */
static size_t memory_bytes(void)
{
    long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t least = (size_t)256 << 20, most = (size_t)1 << 30, n = l3 > 0 ? (size_t)l3 * 4 : 0;
    size_t room = mem_available() / 2;
    n = n < least ? least : n > most ? most : n;
    return n < room ? n : room;
}

glim_status cpu_peaks(struct crew *crew, struct cpu_peaks *out, struct glim_err *e)
{
    const struct peak_kernels *k = kernels();
    size_t n_thread = (size_t)crew_size(crew), bytes = memory_bytes() / n_thread & ~(size_t)4095;
    struct arena a;
    TRY(arena_init(&a, bytes * n_thread, "bandwidth test", e));
    unsigned char *block = arena_take(&a, bytes * n_thread);
    memset(block, 1, bytes * n_thread);
    *out = (struct cpu_peaks){.int8_name = k->int8_name, .f32_name = k->f32_name, .bf16_name = "none"};
    out->memory = best(crew, &(struct round){.read = k->read, .block = block, .bytes = bytes});
    out->cache = best(crew, &(struct round){.read = k->read, .block = block, .bytes = PEAK_CACHE_BYTES});
    arena_fini(&a);
    out->int8 = best(crew, &(struct round){.compute = k->int8});
    out->f32 = best(crew, &(struct round){.compute = k->f32});
#if defined(__x86_64__)
    if (has_bf16()) {
        out->bf16 = best(crew, &(struct round){.compute = peak_bf16_avx512});
        out->bf16_name = "vdpbf16ps";
    }
#endif
    return GLIM_OK;
}
