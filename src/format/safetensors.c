/* safetensors checkpoints: one file, a folder with model.safetensors, or a folder whose model.safetensors.index.json
 * names the shards. With shards, index and files must tell the same story: each tensor of the index lies in the shard
 * it names, and each shard holds nothing else. */
#include "format/safetensors_private.h"

#include "base/mem.h"

#include <stdio.h>

#define ST_SINGLE "model.safetensors"
#define ST_INDEX  "model.safetensors.index.json"

void safetensors_close(struct safetensors *s)
{
    if (!s)
        return;
    while (s->first) {
        struct st_file *f = s->first;
        s->first = f->next;
        file_map_close(&f->map);
        mem_free(f);
    }
    name_index_fini(&s->index);
    mem_free(s->tensor);
    name_pool_free(&s->names);
    mem_free(s);
}

/* Map and parse one file; it belongs to s from then on, also when this fails. */
static glim_status add_file(struct safetensors *s, const char *path, struct glim_err *e)
{
    struct st_file *f = mem_calloc(1, sizeof *f);
    if (!f)
        return err_nomem(e, "safetensors file", sizeof *f);
    f->next = s->first;
    s->first = f;
    TRY(file_map_open(&f->map, path, e));
    f->p = f->map.data;
    f->size = f->map.size;
    f->path = f->map.path;
    return st_parse(s, f, e);
}

static glim_status index_tensors(struct safetensors *s, const char *path, struct glim_err *e)
{
    size_t dup = 0;
    TRY(name_index_build(&s->index, s->tensor, s->n_tensor, sizeof *s->tensor, &dup, e));
    if (dup == SIZE_MAX)
        return GLIM_OK;
    char where[NAME_SHOWN], name[NAME_SHOWN];
    return err_set(e, GLIM_FAILED, "damaged safetensors file: %s: tensor %s: have it twice, need it once",
                   name_show(where, path, strlen(path)),
                   name_show(name, s->tensor[dup].name, strlen(s->tensor[dup].name)));
}

/* ---- shards ---- */

static bool file_after(const void *ctx, uint32_t a, uint32_t b)
{
    const struct st_index *x = ctx;
    return strcmp(x->entry[a].file, x->entry[b].file) > 0;
}

/* Open each file that the index names, once. */
static glim_status add_shards(struct safetensors *s, const char *dir, const struct st_index *x, struct glim_err *e)
{
    glim_status st = GLIM_OK;
    uint32_t *order = mem_alloc(x->n * sizeof *order);
    if (!order)
        return err_nomem(e, "order of shards", x->n * sizeof *order);
    for (size_t i = 0; i < x->n; i++)
        order[i] = (uint32_t)i;
    if (!sort_order(order, x->n, file_after, x))
        st = err_nomem(e, "order of shards", x->n * sizeof *order);
    for (size_t i = 0; i < x->n && st == GLIM_OK; i++) {
        const char *file = x->entry[order[i]].file;
        if (i > 0 && strcmp(file, x->entry[order[i - 1]].file) == 0)
            continue;
        char *path = path_join(dir, file);
        st = path ? add_file(s, path, e) : err_nomem(e, "path of a shard", strlen(dir) + strlen(file) + 2);
        mem_free(path);
    }
    mem_free(order);
    return st;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Both directions: every tensor found is in the index under this file, every tensor of the index was found. */
static glim_status check_agree(const struct safetensors *s, const struct st_index *x, const char *path,
                               struct glim_err *e)
{
    char where[NAME_SHOWN], name[NAME_SHOWN], a[NAME_SHOWN], b[NAME_SHOWN];
    name_show(where, path, strlen(path));
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tensor *t = &s->tensor[i];
        const char *file = base_name(t->map->path);
        size_t k = name_index_find(&x->by_name, t->name);
        const char *said = k == SIZE_MAX ? "nothing" : x->entry[k].file;
        if (k == SIZE_MAX || strcmp(said, file) != 0)
            return err_set(e, GLIM_FAILED, "damaged safetensors index: %s: tensor %s: have %s in the index, need %s",
                           where, name_show(name, t->name, strlen(t->name)), name_show(a, said, strlen(said)),
                           name_show(b, file, strlen(file)));
    }
    for (size_t k = 0; k < x->n; k++) {
        const struct st_entry *w = &x->entry[k];
        if (name_index_find(&s->index, w->name) == SIZE_MAX)
            return err_set(e, GLIM_FAILED,
                           "damaged safetensors index: %s: tensor %s: have it in the index, need it in %s", where,
                           name_show(name, w->name, strlen(w->name)), name_show(a, w->file, strlen(w->file)));
    }
    return GLIM_OK;
}

static glim_status open_sharded(struct safetensors *s, const char *dir, const char *index_path, struct glim_err *e)
{
    struct file_map map = {0};
    struct st_index x = {0};
    glim_status st = GLIM_OK;
    TRY(file_map_open(&map, index_path, e));
    TRY_OUT(st_index_parse(&x, map.data, map.size, index_path, e));
    TRY_OUT(add_shards(s, dir, &x, e));
    TRY_OUT(index_tensors(s, index_path, e));
    st = check_agree(s, &x, index_path, e);
out:
    st_index_fini(&x);
    file_map_close(&map);
    return st;
}

/* ---- open ---- */

static glim_status open_file(struct safetensors *s, const char *path, struct glim_err *e)
{
    TRY(add_file(s, path, e));
    return index_tensors(s, path, e);
}

static glim_status open_folder(struct safetensors *s, const char *dir, struct glim_err *e)
{
    char *single = path_join(dir, ST_SINGLE), *index = path_join(dir, ST_INDEX);
    char shown[NAME_SHOWN];
    glim_status st = GLIM_OK;
    if (!single || !index)
        st = err_nomem(e, "path of a checkpoint", strlen(dir) + sizeof ST_INDEX + 1);
    else if (file_exists(single))
        st = open_file(s, single, e);
    else if (file_exists(index))
        st = open_sharded(s, dir, index, e);
    else
        st = err_set(e, GLIM_FAILED, "cannot open a checkpoint: %s: have neither file, need %s or %s",
                     name_show(shown, dir, strlen(dir)), ST_SINGLE, ST_INDEX);
    mem_free(single);
    mem_free(index);
    return st;
}

glim_status safetensors_open(struct safetensors **out, const char *path, struct glim_err *e)
{
    *out = NULL;
    struct safetensors *s = mem_calloc(1, sizeof *s);
    if (!s)
        return err_nomem(e, "safetensors file", sizeof *s);
    glim_status st = file_is_dir(path) ? open_folder(s, path, e) : open_file(s, path, e);
    if (st == GLIM_OK)
        *out = s;
    else
        safetensors_close(s);
    return st;
}

glim_status safetensors_open_memory(struct safetensors **out, const void *p, size_t n, const char *name,
                                    struct glim_err *e)
{
    *out = NULL;
    struct safetensors *s = mem_calloc(1, sizeof *s);
    struct st_file *f = mem_calloc(1, sizeof *f);
    if (!s || !f) {
        mem_free(s);
        mem_free(f);
        return err_nomem(e, "safetensors file", sizeof *s + sizeof *f);
    }
    *f = (struct st_file){.p = p, .size = n, .path = name};
    s->first = f;
    glim_status st = st_parse(s, f, e);
    if (st == GLIM_OK)
        st = index_tensors(s, name, e);
    if (st == GLIM_OK)
        *out = s;
    else
        safetensors_close(s);
    return st;
}

/* ---- look-ups ---- */

size_t safetensors_n_tensor(const struct safetensors *s)
{
    return s->n_tensor;
}

const struct tensor *safetensors_tensor_at(const struct safetensors *s, size_t i)
{
    return i < s->n_tensor ? &s->tensor[i] : NULL;
}

const struct tensor *safetensors_tensor(const struct safetensors *s, const char *name)
{
    size_t i = name_index_find(&s->index, name);
    return i == SIZE_MAX ? NULL : &s->tensor[i];
}
