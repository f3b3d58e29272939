/* Any bytes as a GGUF file: whatever opens is read from end to end. */
#include "../file/hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    glim_status st;
    const char *fault = hostile_gguf(data, size, &st);
    if (fault && strcmp(fault, HOSTILE_SLOW) != 0) {
        fprintf(stderr, "%s\n", fault);
        abort();
    }
    return 0;
}
