#include "arch/config.h"

#include "base/arith.h"
#include "base/mem.h"

#include <float.h>
#include <string.h>

/* ---- what may stand in a checkpoint without being read ---- */

/* config.json keys that say nothing about the text model's forward pass: provenance, training, dropout, runtime hints.
 */
static const char *const ignored_hf[] = {
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "decoder_start_token_id",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_llama_config",
    "label2id",
    "max_length",
    "model_type",
    "name",
    "pad_token_id",
    "pretraining_tp",
    "resid_pdrop",
    "task_specific_params",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
    "_attn_implementation",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "tokenizer_class",
    "transformers.js_config",
    "problem_type",
    "num_labels",
    "cache_dtype",
    "image_token_id",
};

static const char *const ignored_gguf[] = {
    "rope.scaling.finetuned",
};

static bool in_list(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}

/* ---- open ---- */

glim_status config_open(struct config *c, const struct checkpoint *ck, struct glim_err *e)
{
    memset(c, 0, sizeof *c);
    c->ck = ck;
    if (checkpoint_is_hf(ck)) {
        json_t *t = json_object_get(ck->config, "model_type");
        if (!json_is_string(t))
            return err_set(e, GLIM_FAILED, "open model: %s/config.json: have no string \"model_type\", need one",
                           ck->path);
        c->arch = json_string_value(t);
        c->arch_len = json_string_length(t);
        return GLIM_OK;
    }
    const struct gguf_kv *kv = gguf_find(ck->gguf, "general.architecture");
    if (!kv)
        return err_set(e, GLIM_FAILED, "open model: %s: have no key general.architecture, need one", ck->path);
    return gguf_string(kv, &c->arch, &c->arch_len, e);
}

void config_close(struct config *c)
{
    mem_free(c->seen);
    memset(c, 0, sizeof *c);
}

bool config_is_hf(const struct config *c)
{
    return checkpoint_is_hf(c->ck);
}

/* ---- look-up ---- */

/* Remember the key (HF: only up to the first dot is compared later). A lost mark under memory pressure is an error. */
static glim_status mark(struct config *c, const char *name, struct glim_err *e)
{
    if (!mem_grow((void **)&c->seen, &c->cap_seen, c->n_seen, sizeof *c->seen))
        return err_nomem(e, "config", sizeof *c->seen);
    c->seen[c->n_seen++] = name;
    return GLIM_OK;
}

static json_t *json_at(json_t *o, const char *path)
{
    char key[128];
    while (o) {
        const char *dot = strchr(path, '.');
        size_t n = dot ? (size_t)(dot - path) : strlen(path);
        if (n >= sizeof key)
            return NULL;
        memcpy(key, path, n);
        key[n] = 0;
        o = json_object_get(o, key);
        if (!dot)
            break;
        path = dot + 1;
    }
    return json_is_null(o) ? NULL : o;
}

static const struct gguf_kv *kv_at(const struct config *c, const char *suffix)
{
    char key[192];
    if (c->arch_len + strlen(suffix) + 2 > sizeof key)
        return NULL;
    memcpy(key, c->arch, c->arch_len);
    key[c->arch_len] = '.';
    strcpy(key + c->arch_len + 1, suffix);
    return gguf_find(c->ck->gguf, key);
}

struct found {
    json_t *json;
    const struct gguf_kv *kv;
    const char *name;
};

static glim_status find(struct config *c, const char *hf, const char *gguf, bool optional, struct found *f,
                        struct glim_err *e)
{
    memset(f, 0, sizeof *f);
    f->name = config_is_hf(c) ? hf : gguf;
    if (f->name) {
        TRY(mark(c, f->name, e));
        if (config_is_hf(c))
            f->json = json_at(c->ck->config, f->name);
        else
            f->kv = kv_at(c, f->name);
    }
    if (!f->json && !f->kv && !optional)
        return err_set(e, GLIM_FAILED, "open model: %s: have no key %s, need one", c->ck->path, f->name ? f->name : hf);
    return GLIM_OK;
}

bool cfg_has(struct config *c, const char *hf, const char *gguf)
{
    if (config_is_hf(c))
        return hf && json_at(c->ck->config, hf);
    return gguf && kv_at(c, gguf);
}

static glim_status wrong_type(const struct config *c, const char *name, const char *need, struct glim_err *e)
{
    return err_set(e, GLIM_FAILED, "open model: %s: key %s: have another type, need %s", c->ck->path, name, need);
}

glim_status cfg_int(struct config *c, const char *hf, const char *gguf, bool optional, int64_t min, int64_t max,
                    int64_t *out, struct glim_err *e)
{
    struct found f;
    TRY(find(c, hf, gguf, optional, &f, e));
    if (f.kv)
        return gguf_int(f.kv, min, max, out, e);
    if (!f.json)
        return GLIM_OK;
    if (!json_is_integer(f.json))
        return wrong_type(c, f.name, "an integer", e);
    int64_t v = json_integer_value(f.json);
    if (v < min || v > max)
        return err_set(e, GLIM_FAILED, "open model: %s: key %s: have %lld, need %lld..%lld", c->ck->path, f.name,
                       (long long)v, (long long)min, (long long)max);
    *out = v;
    return GLIM_OK;
}

glim_status cfg_u32(struct config *c, const char *hf, const char *gguf, bool optional, uint32_t min, uint32_t max,
                    uint32_t *out, struct glim_err *e)
{
    int64_t v = *out;
    TRY(cfg_int(c, hf, gguf, optional, min, max, &v, e));
    *out = (uint32_t)v;
    return GLIM_OK;
}

glim_status cfg_float(struct config *c, const char *hf, const char *gguf, bool optional, float *out, struct glim_err *e)
{
    struct found f;
    TRY(find(c, hf, gguf, optional, &f, e));
    double v;
    if (f.kv)
        TRY(gguf_float(f.kv, &v, e));
    else if (!f.json)
        return GLIM_OK;
    else if (!json_is_number(f.json))
        return wrong_type(c, f.name, "a number", e);
    else
        v = json_number_value(f.json);
    if (!(v >= -FLT_MAX && v <= FLT_MAX))
        return err_set(e, GLIM_FAILED, "open model: %s: key %s: have %g, need a finite 32-bit number", c->ck->path,
                       f.name, v);
    *out = (float)v;
    return GLIM_OK;
}

glim_status cfg_bool(struct config *c, const char *hf, const char *gguf, bool optional, bool *out, struct glim_err *e)
{
    struct found f;
    TRY(find(c, hf, gguf, optional, &f, e));
    if (f.kv)
        return gguf_bool(f.kv, out, e);
    if (!f.json)
        return GLIM_OK;
    if (!json_is_boolean(f.json))
        return wrong_type(c, f.name, "true or false", e);
    *out = json_is_true(f.json);
    return GLIM_OK;
}

glim_status cfg_str(struct config *c, const char *hf, const char *gguf, bool optional, char *buf, size_t n,
                    struct glim_err *e)
{
    struct found f;
    TRY(find(c, hf, gguf, optional, &f, e));
    const char *s;
    size_t len;
    if (f.kv)
        TRY(gguf_string(f.kv, &s, &len, e));
    else if (!f.json)
        return GLIM_OK;
    else if (!json_is_string(f.json))
        return wrong_type(c, f.name, "a string", e);
    else
        s = json_string_value(f.json), len = json_string_length(f.json);
    if (len >= n || memchr(s, 0, len))
        return err_set(e, GLIM_FAILED,
                       "open model: %s: key %s: have a string of %zu bytes, need fewer than %zu without NUL",
                       c->ck->path, f.name, len, n);
    memcpy(buf, s, len);
    buf[len] = 0;
    return GLIM_OK;
}

json_t *cfg_json(struct config *c, const char *hf)
{
    if (!config_is_hf(c) || mark(c, hf, NULL) != GLIM_OK)
        return NULL;
    return json_at(c->ck->config, hf);
}

glim_status cfg_layer_type(struct config *c, uint32_t i, uint32_t n_layer, const char **type, struct glim_err *e)
{
    *type = "";
    json_t *list = cfg_json(c, "layer_types");
    if (!list)
        return GLIM_OK;
    if (!json_is_array(list) || json_array_size(list) != n_layer)
        return err_set(e, GLIM_FAILED, "open model: %s: key layer_types: have %zu entries, need %u", c->ck->path,
                       json_array_size(list), n_layer);
    json_t *t = json_array_get(list, i);
    if (!json_is_string(t))
        return wrong_type(c, "layer_types", "an array of strings", e);
    *type = json_string_value(t);
    return GLIM_OK;
}

/* ---- nothing overlooked ---- */

static bool seen_hf(const struct config *c, const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < c->n_seen; i++)
        if (strncmp(c->seen[i], key, n) == 0 && (c->seen[i][n] == 0 || c->seen[i][n] == '.'))
            return true;
    return false;
}

/* A key whose value is null, false or empty switches nothing on. */
static bool json_is_off(const json_t *v)
{
    return json_is_null(v) || json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

static glim_status check_hf(const struct config *c, struct glim_err *e)
{
    const char *key;
    json_t *v;
    json_object_foreach(c->ck->config, key, v)
    {
        if (!json_is_off(v) && !seen_hf(c, key) && !in_list(key, ignored_hf, sizeof ignored_hf / sizeof *ignored_hf))
            return err_set(
                e, GLIM_REFUSED,
                "open model: %s/config.json: have key \"%s\", which the architecture %s does not know, need a "
                "glim that does",
                c->ck->path, key, c->arch);
    }
    return GLIM_OK;
}

static glim_status check_gguf(const struct config *c, struct glim_err *e)
{
    for (size_t i = 0; i < gguf_n_kv(c->ck->gguf); i++) {
        const char *key = gguf_kv_at(c->ck->gguf, i)->key;
        if (strncmp(key, c->arch, c->arch_len) != 0 || key[c->arch_len] != '.')
            continue;
        const char *suffix = key + c->arch_len + 1;
        if (!in_list(suffix, c->seen, c->n_seen) &&
            !in_list(suffix, ignored_gguf, sizeof ignored_gguf / sizeof *ignored_gguf))
            return err_set(
                e, GLIM_REFUSED,
                "open model: %s: have key %s, which the architecture %.*s does not know, need a glim that does",
                c->ck->path, key, (int)c->arch_len, c->arch);
    }
    return GLIM_OK;
}

glim_status config_check_seen(const struct config *c, struct glim_err *e)
{
    return config_is_hf(c) ? check_hf(c, e) : check_gguf(c, e);
}
