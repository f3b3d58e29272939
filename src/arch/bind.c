#include "arch/bind.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

void binder_fini(struct binder *b)
{
    mem_free(b->matrix);
    mem_free(b->vector);
    b->matrix = NULL;
    b->vector = NULL;
}

static const char *pick(const struct binder *b, const char *hf, const char *gguf)
{
    return checkpoint_is_hf(b->ck) ? hf : gguf;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* formats are this module's own literals */
static glim_status find(const struct binder *b, const char *hf, const char *gguf, uint32_t layer,
                        const struct tensor **t, struct glim_err *e)
{
    char name[128];
    snprintf(name, sizeof name, pick(b, hf, gguf), layer);
    *t = checkpoint_tensor(b->ck, name);
    if (!*t)
        return err_set(e, GLIM_FAILED, "open model: %s: have no tensor %s, need one", b->ck->path, name);
    if (!(*t)->fmt || !(*t)->fmt->is_weight)
        return err_set(e, GLIM_REFUSED, "open model: %s: tensor %s: have type %s, need one that weights can have",
                       b->ck->path, name, (*t)->type_name);
    return GLIM_OK;
}
#pragma GCC diagnostic pop

static glim_status shape_error(const struct binder *b, const struct tensor *t, const char *need, struct glim_err *e)
{
    struct str have = {0};
    for (uint32_t i = 0; i < t->n_dim; i++)
        str_printf(&have, "%s%llu", i ? ", " : "", (unsigned long long)t->dim[i]);
    err_set(e, GLIM_FAILED, "open model: %s: tensor %s: have shape [%s], need [%s]", b->ck->path, t->name,
            have.s ? have.s : "", need);
    str_fini(&have);
    return GLIM_FAILED;
}

glim_status bind_matrix(struct binder *b, struct weight *w, uint32_t n_out, uint32_t n_in, const char *name_hf,
                        const char *name_gguf, uint32_t layer, struct glim_err *e)
{
    const struct tensor *t;
    TRY(find(b, name_hf, name_gguf, layer, &t, e));
    if (t->n_dim != 2 || t->dim[0] != n_out || t->dim[1] != n_in) {
        char need[48];
        snprintf(need, sizeof need, "%u, %u", n_out, n_in);
        return shape_error(b, t, need, e);
    }
    if (!mem_grow((void **)&b->matrix, &b->cap_matrix, b->n_matrix, sizeof *b->matrix))
        return err_nomem(e, "binder", sizeof *b->matrix);
    *w = (struct weight){.fmt = t->fmt, .n_out = n_out, .n_in = n_in, .act = ACT_F32};
    b->matrix[b->n_matrix++] = (struct bind_matrix){.t = t, .w = w};
    return GLIM_OK;
}

glim_status bind_vector(struct binder *b, const float **dst, uint32_t n, float add, const char *name_hf,
                        const char *name_gguf, uint32_t layer, struct glim_err *e)
{
    const struct tensor *t;
    TRY(find(b, name_hf, name_gguf, layer, &t, e));
    if (t->n_dim != 1 || t->dim[0] != n) {
        char need[24];
        snprintf(need, sizeof need, "%u", n);
        return shape_error(b, t, need, e);
    }
    if (t->fmt->group)
        return err_set(e, GLIM_REFUSED, "open model: %s: tensor %s: have type %s, need F32, F16 or BF16 for a vector",
                       b->ck->path, t->name, t->type_name);
    if (!mem_grow((void **)&b->vector, &b->cap_vector, b->n_vector, sizeof *b->vector))
        return err_nomem(e, "binder", sizeof *b->vector);
    b->vector[b->n_vector++] = (struct bind_vector){.t = t, .dst = dst, .add = add};
    return GLIM_OK;
}

bool bind_has(const struct binder *b, const char *name_hf, const char *name_gguf)
{
    return checkpoint_tensor(b->ck, pick(b, name_hf, name_gguf)) != NULL;
}

static bool is_used(const struct binder *b, const struct tensor *t)
{
    for (size_t i = 0; i < b->n_matrix; i++)
        if (b->matrix[i].t == t)
            return true;
    for (size_t i = 0; i < b->n_vector; i++)
        if (b->vector[i].t == t)
            return true;
    return false;
}

/* Tables that old checkpoints store although the config already says them; llama3's factors are read by rope.c. */
static bool is_table(const char *name)
{
    const char *end = strstr(name, ".rotary_emb.inv_freq");
    return strcmp(name, "rope_freqs.weight") == 0 || (end && end[strlen(".rotary_emb.inv_freq")] == 0);
}

glim_status bind_check_unused(const struct binder *b, struct glim_err *e)
{
    for (size_t i = 0; i < checkpoint_n_tensor(b->ck); i++) {
        const struct tensor *t = checkpoint_tensor_at(b->ck, i);
        if (!is_used(b, t) && !is_table(t->name))
            return err_set(e, GLIM_REFUSED,
                           "open model: %s: have tensor %s, which nothing in this architecture uses, need "
                           "a glim that knows it",
                           b->ck->path, t->name);
    }
    return GLIM_OK;
}
