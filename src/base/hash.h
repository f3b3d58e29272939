/* SHA-256 (identities, integrity against intent) and XXH3-64 (hash tables, accidents only). */
#ifndef GLIM_BASE_HASH_H
#define GLIM_BASE_HASH_H

#include "base/status.h"

struct sha256 {
    uint8_t b[32];
};
struct sha256_ctx; /* streaming */

glim_status sha256_of(const void *p, size_t n, struct sha256 *out, struct glim_err *e);
glim_status sha256_file(const char *path, struct sha256 *out, struct glim_err *e);
glim_status sha256_begin(struct sha256_ctx **c, struct glim_err *e);
glim_status sha256_add(struct sha256_ctx *c, const void *p, size_t n, struct glim_err *e);
glim_status sha256_end(struct sha256_ctx *c, struct sha256 *out, struct glim_err *e); /* frees c, also on failure */
/* The digest of one short message, without allocating: c is begun and has had nothing added, before and after. */
glim_status sha256_short(struct sha256_ctx *c, const void *p, size_t n, struct sha256 *out, struct glim_err *e);
void sha256_hex(const struct sha256 *h, char out[65]);

uint64_t xxh3(const void *p, size_t n);

#endif
