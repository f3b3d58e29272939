/* Memory: the only place that calls the system's allocator.
 *
 * Two uses: small host objects (mem_alloc … mem_free) and planned blocks (struct mem_plan, struct arena): weights, KV,
 * scratch and state are summed first, checked, then allocated, so that a model that does not fit is refused with the
 * table. Tests make the n-th allocation fail (mem_fail_after) to show that every path copes. */
#ifndef GLIM_BASE_MEM_H
#define GLIM_BASE_MEM_H

#include "base/status.h"

void *mem_alloc(size_t n);               /* uninitialised; NULL when out of memory; n = 0 gives a valid pointer */
void *mem_calloc(size_t n, size_t size); /* zeroed, n * size checked */
void *mem_realloc(void *p, size_t n);
void *mem_aligned(size_t align, size_t n); /* align: power of two >= 16; freed by mem_free as well */
void mem_free(void *p);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);

/* Test hook: the n-th allocation from now (1 = the next) and all later ones fail; 0 switches it off. */
void mem_fail_after(long n);
/* Allocations made since the process started (used by the "a decode step allocates nothing" test). */
long mem_count(void);

/* Growable array helper: makes room for one more element of `size` bytes in *arr (capacity *cap, length n). */
bool mem_grow(void **arr, size_t *cap, size_t n, size_t size);

/* ---- the plan ---- */
enum mem_kind { MEM_WEIGHTS, MEM_KV, MEM_SCRATCH, MEM_STATE, MEM_TABLES, MEM_KIND_COUNT };
const char *mem_kind_name(enum mem_kind k);

struct mem_row {
    enum mem_kind kind;
    char what[56];
    size_t bytes;
    size_t file_bytes; /* what these weights take in the file; 0 = they are not in one */
};

struct mem_plan {
    struct mem_row *row;
    size_t n_row, cap;
    bool overflow; /* a size or the total did not fit 64 bits: mem_plan_check refuses */
};

glim_status mem_plan_add(struct mem_plan *p, enum mem_kind kind, size_t bytes, struct glim_err *e, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
size_t mem_plan_total(const struct mem_plan *p);
size_t mem_plan_kind(const struct mem_plan *p, enum mem_kind k);
/* GLIM_REFUSED naming the largest rows when total > limit bytes. */
glim_status mem_plan_check(const struct mem_plan *p, size_t limit, struct glim_err *e);
void mem_plan_free(struct mem_plan *p);
/* Bytes this process may still take: the smaller of MemAvailable and the cgroup's and RLIMIT_AS's room; SIZE_MAX if
 * unknown. */
size_t mem_available(void);

/* ---- arena: one block, cut from the front, freed whole ---- */
struct arena {
    unsigned char *base;
    size_t size, used;
};
glim_status arena_init(struct arena *a, size_t size, const char *what, struct glim_err *e);
void *arena_take(struct arena *a, size_t n); /* 64-byte aligned; NULL when the plan was too small */
void arena_fini(struct arena *a);

#endif
