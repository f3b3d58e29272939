/* Errors: one status, one sentence.
 *
 * Every function that can fail returns a glim_status and, on failure, fills the struct glim_err its caller handed in.
 * The sentence follows one form, so that a person can act on it:  <what failed>: <where>: have <x>, need <y> Nothing
 * below src/cli prints an error, exits or aborts. */
#ifndef GLIM_BASE_STATUS_H
#define GLIM_BASE_STATUS_H

#include "glim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fill *e (may be NULL) with a formatted sentence and return s, so that `return err_set(e, …)` reads well. */
glim_status err_set(struct glim_err *e, glim_status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put "prefix: " before the sentence already in *e; returns e's status. */
glim_status err_prefix(struct glim_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "out of memory: <what>: need <bytes> bytes". */
glim_status err_nomem(struct glim_err *e, const char *what, size_t bytes);

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        glim_status try_s_ = (call);                                                                                   \
        if (try_s_ != GLIM_OK)                                                                                         \
            return try_s_;                                                                                             \
    } while (0)

/* As TRY, for functions with an `out:` label and a glim_status `st`. */
#define TRY_OUT(call)                                                                                                  \
    do {                                                                                                               \
        st = (call);                                                                                                   \
        if (st != GLIM_OK)                                                                                             \
            goto out;                                                                                                  \
    } while (0)

#endif
