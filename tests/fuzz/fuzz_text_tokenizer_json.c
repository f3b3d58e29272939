/* Any bytes as a tokenizer.json: refused with a sentence, or it encodes and decodes whatever it is given. */
#include "base/mem.h"
#include "text/tok_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "a ab  \xE2\x96\x81 <u>1 12\n\n\xC3\xA9"
                               "e\xCC\x81 I'm \xFF\xE4\xBD\xA0!";
    struct glim_err e = {0};
    struct tokenizer *t;
    struct tok_json j = {.tokenizer = (const char *)data, .n_tokenizer = size};
    if (tok_open_json(&t, &j, &e) != GLIM_OK) {
        check(e.message[0] && !t, "refused without a sentence");
        return 0;
    }
    for (int flags = 0; flags < 4; flags++) {
        int32_t *id;
        char *back;
        size_t n_id, n;
        if (tok_encode(t, text, sizeof text - 1, flags, &id, &n_id, &e) != GLIM_OK)
            continue;
        for (size_t i = 0; i < n_id; i++)
            check(id[i] >= 0 && (size_t)id[i] < tok_n(t), "an id outside the vocabulary");
        check(tok_decode(t, id, n_id, true, &back, &n, &e) == GLIM_OK && back[n] == 0, "decoding");
        mem_free(back);
        mem_free(id);
    }
    tok_close(t);
    return 0;
}
