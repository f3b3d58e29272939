/* API keys: a file of their hashes, and who a key belongs to.
 *
 * A key is 256 random bits made by `glim keys add`, shown once and kept nowhere: the file holds its SHA-256, which for
 * something nobody can guess needs no salt. A line is
 *
 *   NAME SHA256-IN-HEX [requests=N] [tokens=N] [concurrent=N]
 *
 * with limits as in limits.h; lines that begin with # and empty ones are for people. Only the file's owner may read or
 * write it (0600), or it is refused.
 *
 * A key is looked for by comparing its hash with that of every line, each compared to its end, so that the time taken
 * says nothing about what is in the file. */
#ifndef GLIM_SERVE_KEYS_H
#define GLIM_SERVE_KEYS_H

#include "base/str.h"
#include "serve/limits.h"

enum { KEYS_MAX = 1024, KEY_SECRET_MAX = 64 };

struct keys; /* a file that was read */

/* Refused: a file that others may read, a line that is not as above, a name twice, more than KEYS_MAX. */
glim_status keys_read(struct keys **out, const char *path, struct glim_err *e);
void keys_free(struct keys *k);
size_t keys_count(const struct keys *k);
struct limit *keys_limit(const struct keys *k, size_t i); /* in the order of the file */
/* The limit of the key, which bears its name; NULL: there is no such key. */
struct limit *keys_find(const struct keys *k, const char *secret);
/* Names that `old` had too keep what they have used. In the event thread. */
void keys_inherit(struct keys *fresh, const struct keys *old);

/* For `glim keys`. Names are 1 to 64 of a-z A-Z 0-9 . _ - */
glim_status keys_add(const char *path, const char *name, struct limit_rule rule, char secret[KEY_SECRET_MAX],
                     struct glim_err *e); /* the file is made when there is none */
glim_status keys_remove(const char *path, const char *name, struct glim_err *e);

#endif
