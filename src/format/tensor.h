/* A named tensor in a checkpoint file: a checked view into a read-only map. */
#ifndef GLIM_FORMAT_TENSOR_H
#define GLIM_FORMAT_TENSOR_H

#include "base/file.h"
#include "quant/quant.h"

enum { TENSOR_DIMS = 6 }; /* GGUF has at most 4; the kernels of 3-D convolutions in safetensors have 5 */

struct tensor {
    const char *name; /* NUL-terminated */
    /* Row of the format table, or NULL when the file's type has none: such a tensor may exist, but not be used. */
    const struct quant_format *fmt;
    char type_name[16];        /* as the file calls it, for messages: "Q4_K", "BF16", "F8_E4M3" */
    uint32_t n_dim;            /* 0 = scalar */
    uint64_t dim[TENSOR_DIMS]; /* outermost first (C order), in both file kinds; unused ones are 1; none is 0 */
    const uint8_t *data;       /* no alignment is promised: safetensors files have none */
    size_t bytes;
    const struct file_map *map; /* the file that data points into */
};

/* Product of the dims; cannot overflow for a tensor that a reader returned. */
uint64_t tensor_elems(const struct tensor *t);

#endif
