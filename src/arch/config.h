/* A checkpoint's hyper-parameters under one roof, and the rule that nothing is overlooked.
 *
 * A key has a Hugging Face name (a path into config.json: "num_hidden_layers", "rope_scaling.factor") and a GGUF name
 * (what follows "<arch>."). Whoever reads a key marks it seen. config_check_seen then refuses a checkpoint that holds a
 * key nobody read and that is not on the list of keys known not to change the maths: a model is computed as its config
 * says or not at all. */
#ifndef GLIM_ARCH_CONFIG_H
#define GLIM_ARCH_CONFIG_H

#include "arch/checkpoint.h"

struct config {
    const struct checkpoint *ck;
    const char *arch; /* GGUF's general.architecture or HF's model_type; points into the checkpoint */
    size_t arch_len;
    const char **seen; /* names read so far: HF top-level keys or GGUF suffixes; static strings */
    size_t n_seen, cap_seen;
};

glim_status config_open(struct config *c, const struct checkpoint *ck, struct glim_err *e);
void config_close(struct config *c);
bool config_is_hf(const struct config *c);

/* Reads. hf or gguf may be NULL: that kind of file has no such key. Absent (or JSON null): *out keeps the value it came
 * with when `optional`, else an error. Out of [min, max], or of another type: an error that names the key. */
glim_status cfg_int(struct config *c, const char *hf, const char *gguf, bool optional, int64_t min, int64_t max,
                    int64_t *out, struct glim_err *e);
glim_status cfg_u32(struct config *c, const char *hf, const char *gguf, bool optional, uint32_t min, uint32_t max,
                    uint32_t *out, struct glim_err *e);
glim_status cfg_float(struct config *c, const char *hf, const char *gguf, bool optional, float *out,
                      struct glim_err *e);
glim_status cfg_bool(struct config *c, const char *hf, const char *gguf, bool optional, bool *out, struct glim_err *e);
/* Copied into buf[n], NUL-terminated; an absent optional string leaves buf as it came. */
glim_status cfg_str(struct config *c, const char *hf, const char *gguf, bool optional, char *buf, size_t n,
                    struct glim_err *e);
bool cfg_has(struct config *c, const char *hf, const char *gguf); /* present and not null; does not mark it seen */
/* The JSON value at a path, NULL when absent or null or not an HF checkpoint; marks its top-level key seen. */
json_t *cfg_json(struct config *c, const char *hf);
/* Element i of HF's layer_types, "" when the checkpoint has none. */
glim_status cfg_layer_type(struct config *c, uint32_t i, uint32_t n_layer, const char **type, struct glim_err *e);

glim_status config_check_seen(const struct config *c, struct glim_err *e);

#endif
