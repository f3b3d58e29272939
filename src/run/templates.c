/* Where checkpoints keep their chat templates. */
#include "base/file.h"
#include "run/model.h"

#include <string.h>

enum { MAX_TEMPLATE = 1 << 20 };

static glim_status keep(char **out, const char *s, size_t n, struct glim_err *e)
{
    if (*out)
        return GLIM_OK;
    if (n > MAX_TEMPLATE || memchr(s, 0, n))
        return err_set(e, GLIM_FAILED, "open model: chat template: have %zu bytes, need text of at most %d", n,
                       MAX_TEMPLATE);
    *out = mem_strndup(s, n);
    return *out ? GLIM_OK : err_nomem(e, "chat template", n);
}

/* ---- GGUF ---- */

static glim_status from_key(const struct gguf *g, const char *key, char **out, struct glim_err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    const char *s;
    size_t n;
    if (!kv)
        return GLIM_OK;
    TRY(gguf_string(kv, &s, &n, e));
    return keep(out, s, n, e);
}

/* ---- a folder ---- */

/* A string, or a list of {"name": …, "template": …}. */
static glim_status from_value(const json_t *v, char **chat, char **tools, struct glim_err *e)
{
    size_t i;
    json_t *item;
    if (json_is_string(v))
        return keep(chat, json_string_value(v), json_string_length(v), e);
    json_array_foreach(v, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        const json_t *text = json_object_get(item, "template");
        if (!name || !json_is_string(text))
            return err_set(e, GLIM_FAILED,
                           "open model: chat_template: entry %zu: have no name and template, need both as strings", i);
        if (strcmp(name, "default") == 0)
            TRY(keep(chat, json_string_value(text), json_string_length(text), e));
        else if (strcmp(name, "tool_use") == 0)
            TRY(keep(tools, json_string_value(text), json_string_length(text), e));
    }
    return GLIM_OK;
}

static glim_status from_folder(const char *dir, char **chat, char **tools, struct glim_err *e)
{
    static const char *const config[] = {"chat_template.json", "tokenizer_config.json"};
    struct str path = {0};
    char *text = NULL;
    size_t n;
    glim_status st = GLIM_OK;
    str_printf(&path, "%s/chat_template.jinja", dir);
    if (path.failed)
        TRY_OUT(err_nomem(e, "chat template", strlen(dir)));
    if (file_exists(path.s)) {
        TRY_OUT(file_read(path.s, MAX_TEMPLATE, &text, &n, e));
        TRY_OUT(keep(chat, text, n, e));
    }
    for (size_t i = 0; i < sizeof config / sizeof *config; i++) {
        json_t *j;
        str_clear(&path);
        str_printf(&path, "%s/%s", dir, config[i]);
        if (path.failed)
            TRY_OUT(err_nomem(e, "chat template", strlen(dir)));
        if (!file_exists(path.s))
            continue;
        TRY_OUT(json_parse_file(path.s, (size_t)64 << 20, &j, e));
        st = from_value(json_object_get(j, "chat_template"), chat, tools, e);
        json_decref(j);
        TRY_OUT(st);
    }
out:
    mem_free(text);
    str_fini(&path);
    return st;
}

glim_status model_chat_templates(const struct checkpoint *ck, char **chat, char **tools, struct glim_err *e)
{
    *chat = *tools = NULL;
    if (checkpoint_is_hf(ck))
        return from_folder(ck->path, chat, tools, e);
    TRY(from_key(ck->gguf, "tokenizer.chat_template", chat, e));
    return from_key(ck->gguf, "tokenizer.chat_template.tool_use", tools, e);
}
