/* Any bytes as a model's hyper-parameters: the first byte says which kind, the rest is a config.json or a whole GGUF.
 * Whatever gets through is planned, bound and its tokenizer opened. */
#include "format/gguf_private.h"
#include "run/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void plan_it(struct checkpoint *ck)
{
    struct glim_err e;
    struct config c;
    struct plan p;
    const struct arch *arch;
    if (config_open(&c, ck, &e) == GLIM_OK && arch_plan(&c, &arch, &p, &e) == GLIM_OK) {
        struct binder b = {.ck = ck};
        if (ck->gguf && arch->bind(&b, &p, &e) == GLIM_OK && bind_check_unused(&b, &e) == GLIM_OK) {
            struct mem_plan mp = {0};
            struct tokenizer *tok = NULL;
            (void)model_plan_weights(&p, &b, &op_ref, &mp, &e);
            mem_plan_free(&mp);
            if (model_tokenizer(ck, &tok, &e) == GLIM_OK)
                tok_close(tok);
        }
        binder_fini(&b);
        plan_fini(&p);
    }
    config_close(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct glim_err e;
    char path[] = "fuzz";
    struct checkpoint ck = {.path = path};
    if (size == 0)
        return 0;
    if (data[0] % 2) {
        if (gguf_open_memory(&ck.gguf, data + 1, size - 1, path, &e) == GLIM_OK)
            plan_it(&ck);
        gguf_close(ck.gguf);
        return 0;
    }
    ck.st = (struct safetensors *)&ck; /* says "Hugging Face"; planning looks at no tensor of it */
    if (json_parse((const char *)data + 1, size - 1, "config.json", &ck.config, &e) == GLIM_OK &&
        json_is_object(ck.config))
        plan_it(&ck);
    json_decref(ck.config);
    return 0;
}
