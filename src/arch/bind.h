/* The binder: from the tensors a plan needs to the tensors a file has.
 *
 * An architecture names its tensors once; the binder checks each shape and type and notes where the weights go. Nothing
 * is read yet, so that the memory plan can be summed and refused first; run/model.c then lays the weights out. */
#ifndef GLIM_ARCH_BIND_H
#define GLIM_ARCH_BIND_H

#include "arch/checkpoint.h"
#include "arch/plan.h"

struct bind_matrix {
    const struct tensor *t;
    struct weight *w; /* shape and format are set; activations, data and bytes are not */
};

struct bind_vector {
    const struct tensor *t;
    const float **dst;
    float add; /* added to each element: 1 for files that store w - 1 */
};

struct binder {
    const struct checkpoint *ck;
    struct bind_matrix *matrix;
    size_t n_matrix, cap_matrix;
    struct bind_vector *vector;
    size_t n_vector, cap_vector;
};

void binder_fini(struct binder *b);

/* name_hf and name_gguf are printf formats with at most one %u, which gets `layer`. */
glim_status bind_matrix(struct binder *b, struct weight *w, uint32_t n_out, uint32_t n_in, const char *name_hf,
                        const char *name_gguf, uint32_t layer, struct glim_err *e);
glim_status bind_vector(struct binder *b, const float **dst, uint32_t n, float add, const char *name_hf,
                        const char *name_gguf, uint32_t layer, struct glim_err *e);
/* Whether the file has such a tensor. */
bool bind_has(const struct binder *b, const char *name_hf, const char *name_gguf);
/* Refuse a file with weights that nothing uses, but for tensors of the names that carry no weights. */
glim_status bind_check_unused(const struct binder *b, struct glim_err *e);

#endif
