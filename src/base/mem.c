/* The allocator's door, the memory plan and arenas.
 *
 * Fault injection rides on the allocation counter: one atomic add a call, compared with the number at which failing
 * starts. Large aligned blocks start at a huge-page boundary and ask for huge pages, because weights are read from end
 * to end for every token and would otherwise spend their time in address translation. */
#include "base/mem.h"
#include "base/arith.h"
#include "base/machine.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

static atomic_long n_alloc; /* allocations asked for so far */
static atomic_long fail_at; /* allocations from this number on fail; 0 = none */

static bool may_alloc(void)
{
    long i = atomic_fetch_add_explicit(&n_alloc, 1, memory_order_relaxed) + 1;
    long f = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return f == 0 || i < f;
}

void mem_fail_after(long n)
{
    atomic_store(&fail_at, n > 0 ? atomic_load(&n_alloc) + n : 0);
}

long mem_count(void)
{
    return atomic_load_explicit(&n_alloc, memory_order_relaxed);
}

void *mem_alloc(size_t n)
{
    return may_alloc() && n <= PTRDIFF_MAX ? malloc(n ? n : 1) : NULL;
}

void *mem_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (!may_alloc() || !mul_size(n, size, &bytes) || bytes > PTRDIFF_MAX)
        return NULL;
    return calloc(bytes ? bytes : 1, 1);
}

void *mem_realloc(void *p, size_t n)
{
    return may_alloc() && n <= PTRDIFF_MAX ? realloc(p, n ? n : 1) : NULL;
}

void *mem_aligned(size_t align, size_t n)
{
    void *p;
    bool huge = n >= HUGE_PAGE;
    if (huge && align < HUGE_PAGE)
        align = HUGE_PAGE;
    if (!may_alloc() || n > PTRDIFF_MAX || posix_memalign(&p, align, n ? n : 1) != 0)
        return NULL;
    if (huge)
        madvise(p, n & ~(HUGE_PAGE - 1), MADV_HUGEPAGE); /* advice: refused is fine */
    return p;
}

void mem_free(void *p)
{
    free(p);
}

char *mem_strndup(const char *s, size_t n)
{
    n = strnlen(s, n);
    char *d = mem_alloc(n + 1);
    if (d) {
        memcpy(d, s, n);
        d[n] = 0;
    }
    return d;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

bool mem_grow(void **arr, size_t *cap, size_t n, size_t size)
{
    if (n < *cap)
        return true;
    size_t want, bytes;
    if (!mul_size(*cap, 2, &want))
        return false;
    if (want < 8)
        want = 8;
    if (!mul_size(want, size, &bytes))
        return false;
    void *p = mem_realloc(*arr, bytes);
    if (!p)
        return false;
    *arr = p;
    *cap = want;
    return true;
}

/* ---- the plan ---- */

const char *mem_kind_name(enum mem_kind k)
{
    switch (k) {
    case MEM_WEIGHTS:
        return "weights";
    case MEM_KV:
        return "kv";
    case MEM_SCRATCH:
        return "scratch";
    case MEM_STATE:
        return "state";
    case MEM_TABLES:
        return "tables";
    case MEM_KIND_COUNT:
        break;
    }
    return "unknown";
}

glim_status mem_plan_add(struct mem_plan *p, enum mem_kind kind, size_t bytes, struct glim_err *e, const char *fmt, ...)
{
    void *rows = p->row;
    if (!mem_grow(&rows, &p->cap, p->n_row, sizeof *p->row))
        return err_nomem(e, "memory plan", (p->n_row + 1) * sizeof *p->row);
    p->row = rows;
    struct mem_row *r = &p->row[p->n_row++];
    *r = (struct mem_row){.kind = kind, .bytes = bytes};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->what, sizeof r->what, fmt, ap);
    va_end(ap);
    size_t total = 0;
    for (size_t i = 0; i < p->n_row; i++)
        p->overflow |= !add_size(total, p->row[i].bytes, &total);
    return GLIM_OK;
}

size_t mem_plan_total(const struct mem_plan *p)
{
    size_t total = 0;
    for (size_t i = 0; i < p->n_row; i++)
        if (!add_size(total, p->row[i].bytes, &total))
            return SIZE_MAX;
    return total;
}

size_t mem_plan_kind(const struct mem_plan *p, enum mem_kind k)
{
    size_t total = 0;
    for (size_t i = 0; i < p->n_row; i++)
        if (p->row[i].kind == k && !add_size(total, p->row[i].bytes, &total))
            return SIZE_MAX;
    return total;
}

/* Index of the largest row smaller than (bytes, index) of `after` in (bytes descending, index ascending) order, or
 * n_row. */
static size_t next_largest(const struct mem_plan *p, size_t after)
{
    size_t best = p->n_row;
    for (size_t i = 0; i < p->n_row; i++) {
        size_t b = p->row[i].bytes;
        if (after < p->n_row && (b > p->row[after].bytes || (b == p->row[after].bytes && i <= after)))
            continue;
        if (best == p->n_row || b > p->row[best].bytes)
            best = i;
    }
    return best;
}

glim_status mem_plan_check(const struct mem_plan *p, size_t limit, struct glim_err *e)
{
    enum { N_NAMED = 4 };
    size_t total = mem_plan_total(p);
    if (!p->overflow && total <= limit)
        return GLIM_OK;

    char table[400] = "";
    size_t n = 0, i = p->n_row, named = 0;
    while (named < N_NAMED && (i = next_largest(p, i)) < p->n_row && n < sizeof table) {
        const struct mem_row *r = &p->row[i];
        int w = snprintf(table + n, sizeof table - n, "%s%s %s %.1f MiB", named ? ", " : "", mem_kind_name(r->kind),
                         r->what, (double)r->bytes / 0x1p20);
        n += (size_t)w;
        named++;
    }
    if (p->overflow)
        return err_set(e, GLIM_REFUSED, "memory plan refused: %s: have %zu bytes, need more than 64 bits can count",
                       table, limit);
    return err_set(e, GLIM_REFUSED, "memory plan refused: %s%s: have %.1f MiB, need %.1f MiB", table,
                   named < p->n_row ? ", ..." : "", (double)limit / 0x1p20, (double)total / 0x1p20);
}

void mem_plan_free(struct mem_plan *p)
{
    mem_free(p->row);
    *p = (struct mem_plan){0};
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t mem_available(void)
{
    size_t n = machine_meminfo("/proc/meminfo");
    n = min_size(n, machine_cgroup_mem("/proc/self/cgroup", "/sys/fs/cgroup"));
    return min_size(n, machine_address_room());
}

/* ---- arena ---- */

enum { ARENA_ALIGN = 64 };

glim_status arena_init(struct arena *a, size_t size, const char *what, struct glim_err *e)
{
    *a = (struct arena){0};
    size_t n;
    if (!align_up(size, ARENA_ALIGN, &n) || !(a->base = mem_aligned(ARENA_ALIGN, n)))
        return err_nomem(e, what, size);
    a->size = n;
    return GLIM_OK;
}

void *arena_take(struct arena *a, size_t n)
{
    size_t step;
    if (!align_up(n, ARENA_ALIGN, &step) || step > a->size - a->used)
        return NULL;
    void *p = a->base + a->used;
    a->used += step;
    return p;
}

void arena_fini(struct arena *a)
{
    mem_free(a->base);
    *a = (struct arena){0};
}
