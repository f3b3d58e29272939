#include "format/tensor.h"

uint64_t tensor_elems(const struct tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dim; i++)
        n *= t->dim[i];
    return n;
}
