#include "arch/checkpoint.h"

#include "base/mem.h"

#include <string.h>

enum { CONFIG_MAX = 16 << 20 };

static glim_status open_hf(struct checkpoint *ck, struct glim_err *e)
{
    char *p = path_join(ck->path, "config.json");
    if (!p)
        return err_nomem(e, "path", strlen(ck->path));
    glim_status st = json_parse_file(p, CONFIG_MAX, &ck->config, e);
    mem_free(p);
    if (st != GLIM_OK)
        return st;
    if (!json_is_object(ck->config))
        return err_set(e, GLIM_FAILED, "open model: %s/config.json: have no object at the top, need one", ck->path);
    return safetensors_open(&ck->st, ck->path, e);
}

glim_status checkpoint_open(struct checkpoint *ck, const char *path, struct glim_err *e)
{
    memset(ck, 0, sizeof *ck);
    ck->path = mem_strdup(path);
    if (!ck->path)
        return err_nomem(e, "path", strlen(path));
    glim_status st;
    if (!file_exists(path))
        st = err_set(e, GLIM_FAILED,
                     "open model: %s: have no such file or folder, need a .gguf file or a checkpoint folder", path);
    else if (file_is_dir(path))
        st = open_hf(ck, e);
    else
        st = gguf_open(&ck->gguf, path, e);
    if (st != GLIM_OK)
        checkpoint_close(ck);
    return st;
}

void checkpoint_close(struct checkpoint *ck)
{
    gguf_close(ck->gguf);
    safetensors_close(ck->st);
    json_decref(ck->config);
    mem_free(ck->path);
    memset(ck, 0, sizeof *ck);
}

size_t checkpoint_n_tensor(const struct checkpoint *ck)
{
    return ck->gguf ? gguf_n_tensor(ck->gguf) : safetensors_n_tensor(ck->st);
}

const struct tensor *checkpoint_tensor_at(const struct checkpoint *ck, size_t i)
{
    return ck->gguf ? gguf_tensor_at(ck->gguf, i) : safetensors_tensor_at(ck->st, i);
}

const struct tensor *checkpoint_tensor(const struct checkpoint *ck, const char *name)
{
    return ck->gguf ? gguf_tensor(ck->gguf, name) : safetensors_tensor(ck->st, name);
}
