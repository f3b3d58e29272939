/* A grammar at work in one generation. */
#ifndef GLIM_RUN_CONSTRAINT_H
#define GLIM_RUN_CONSTRAINT_H

#include "base/status.h"

struct constraint;
/* thinks: the prompt has opened reasoning. g must outlive it, and may have any number of constraints at once. */
glim_status constraint_create(struct constraint **out, struct glim_grammar *g, bool thinks, struct glim_err *e);
void constraint_free(struct constraint *c);
/* The only token that may come next, or -1 when there are more (or none). */
glim_status constraint_forced(struct constraint *c, int32_t *token, struct glim_err *e);
/* The tokens that may come next, valid until the next call, NULL being all; *none: nothing may come. */
glim_status constraint_mask(struct constraint *c, const uint64_t **mask, bool *none, struct glim_err *e);
glim_status constraint_accept(struct constraint *c, int32_t token, struct glim_err *e);

#endif
