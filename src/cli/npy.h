/* .npy files (NumPy's format 1.0) of f32 in C order. */
#ifndef GLIM_CLI_NPY_H
#define GLIM_CLI_NPY_H

#include "base/status.h"

enum { NPY_DIMS = 4 };

/* A file being filled: fill data, then npy_write. Zeroed to begin with; npy_fini in every case. */
struct npy {
    char *block; /* header, then data */
    size_t header, bytes;
    float *data; /* [dim[0], dim[1], …] */
    uint32_t n_dim;
    size_t dim[NPY_DIMS];
};

/* Room for an array of this shape. what: for the message when it is too large. */
glim_status npy_create(struct npy *a, const char *what, uint32_t n_dim, const size_t *dim, struct glim_err *e);
glim_status npy_write(const struct npy *a, const char *path, struct glim_err *e); /* atomic */
/* Read a file: version 1, 2 or 3, '<f4', C order; anything else is refused by name. */
glim_status npy_read(struct npy *a, const char *path, struct glim_err *e);
void npy_fini(struct npy *a);

#endif
