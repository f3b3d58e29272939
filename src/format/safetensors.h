/* safetensors: reader of one file, of a folder with model.safetensors, or of a sharded folder
 * (model.safetensors.index.json). Checked at open: header length against file size, JSON without duplicate names, dtype
 * known, shape times dtype size equal to the data range, ranges inside the file and not overlapping, no unaccounted
 * trailing bytes, index and shards agreeing. */
#ifndef GLIM_FORMAT_SAFETENSORS_H
#define GLIM_FORMAT_SAFETENSORS_H

#include "format/tensor.h"

struct safetensors;
glim_status safetensors_open(struct safetensors **out, const char *path, struct glim_err *e); /* file or folder */
void safetensors_close(struct safetensors *s);
size_t safetensors_n_tensor(const struct safetensors *s);
const struct tensor *safetensors_tensor_at(const struct safetensors *s, size_t i);
const struct tensor *safetensors_tensor(const struct safetensors *s, const char *name);

#endif
