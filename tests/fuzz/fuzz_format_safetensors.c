/* Any bytes as a safetensors file, or, when they begin with '{', as a folder's index. */
#include "../file/hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    glim_status st;
    const char *fault =
        size > 0 && data[0] == '{' ? hostile_index(data, size, &st) : hostile_safetensors(data, size, &st);
    if (fault && strcmp(fault, HOSTILE_SLOW) != 0) {
        fprintf(stderr, "%s\n", fault);
        abort();
    }
    return 0;
}
