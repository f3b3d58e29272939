/* A grammar at work in one generation. */
#ifndef GLIM_RUN_CONSTRAINT_H
#define GLIM_RUN_CONSTRAINT_H

#include "base/status.h"

struct constraint;
/* g must not be in use by another. */
glim_status constraint_create(struct constraint **out, struct glim_grammar *g, struct glim_err *e);
void constraint_free(struct constraint *c);
/* The tokens that may come next, valid until the next call, NULL being all; *forced is the only one, or -1. *none:
 * nothing may come. */
glim_status constraint_next(struct constraint *c, const uint64_t **mask, int32_t *forced, bool *none,
                            struct glim_err *e);
glim_status constraint_accept(struct constraint *c, int32_t token, struct glim_err *e);

#endif
