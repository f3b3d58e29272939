/* A checkpoint on disk, whichever kind: a GGUF file (or split set), or a Hugging Face folder. */
#ifndef GLIM_ARCH_CHECKPOINT_H
#define GLIM_ARCH_CHECKPOINT_H

#include "base/json.h"
#include "format/gguf.h"
#include "format/safetensors.h"

struct checkpoint {
    char *path;
    struct gguf *gguf;      /* or */
    struct safetensors *st; /* … with */
    json_t *config;         /* config.json */
};

glim_status checkpoint_open(struct checkpoint *ck, const char *path, struct glim_err *e);
void checkpoint_close(struct checkpoint *ck);
static inline bool checkpoint_is_hf(const struct checkpoint *ck)
{
    return ck->st != NULL;
}
size_t checkpoint_n_tensor(const struct checkpoint *ck);
const struct tensor *checkpoint_tensor_at(const struct checkpoint *ck, size_t i);
const struct tensor *checkpoint_tensor(const struct checkpoint *ck, const char *name);

#endif
