/* What the readers of checkpoint files share: names kept in pools, an index of names, names made fit for an error
 * sentence.
 *
 * The index is a sorted order rather than a hash table: names come from files, and no choice of names makes a merge
 * sort or a binary search slow. 100,000 tensors sort in some 30 ms and are found in 17 comparisons. */
#ifndef GLIM_FORMAT_NAMES_H
#define GLIM_FORMAT_NAMES_H

#include "base/status.h"

/* NUL-terminated copies of byte strings that live until the pool is freed. Zero-initialise. */
struct name_chunk;
struct name_pool {
    struct name_chunk *last;
};
/* NULL when out of memory. */
const char *name_add(struct name_pool *p, const void *s, size_t n);
void name_pool_free(struct name_pool *p);

/* Order of n structs of `stride` bytes whose first member is `const char *name`. The structs stay the caller's and must
 * not move while the index is used. Zero-initialise. */
struct name_index {
    uint32_t *order; /* [n] */
    size_t n, stride;
    const void *base;
};
/* *dup: position of a struct whose name another one has too, else SIZE_MAX. */
glim_status name_index_build(struct name_index *x, const void *base, size_t n, size_t stride, size_t *dup,
                             struct glim_err *e);
size_t name_index_find(const struct name_index *x, const char *name); /* SIZE_MAX when absent */
void name_index_fini(struct name_index *x);

/* Merge sort of v[0, n): `after(ctx, a, b)` says that a belongs behind b. False when out of memory (4 n bytes). */
bool sort_order(uint32_t *v, size_t n, bool (*after)(const void *ctx, uint32_t a, uint32_t b), const void *ctx);

/* A name or a path as a person may see it: invalid UTF-8 and control characters as \xNN, the middle of long ones cut
 * out. */
enum { NAME_SHOWN = 112 };
const char *name_show(char buf[NAME_SHOWN], const void *s, size_t n);

/* What a file that is not what was asked for looks like ("a Git LFS pointer, not the file itself"), for a sentence;
 * NULL when there is no telling. */
const char *file_guess(const void *p, size_t n);

#endif
