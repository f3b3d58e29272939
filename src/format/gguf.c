/* GGUF files: opening one file or a split set, and looking things up.
 *
 * A split set is files "<name>-00001-of-00003.gguf" … whose keys split.no and split.count say the same as their names;
 * the first holds the model's keys, all of them hold tensors. The keys of later files other than split.* and
 * general.alignment are copies or nothing, and are not used. */
#include "format/gguf_private.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

static void file_close(struct gguf_file *f)
{
    name_index_fini(&f->kv_index);
    mem_free(f->kv);
    file_map_close(&f->map);
    mem_free(f);
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    while (g->first) {
        struct gguf_file *f = g->first;
        g->first = f->next;
        file_close(f);
    }
    name_index_fini(&g->tensor_index);
    mem_free(g->tensor);
    name_pool_free(&g->names);
    mem_free(g);
}

/* Map and parse one file and put it behind *link. It belongs to g from then on, also when this fails. */
static glim_status add_file(struct gguf *g, struct gguf_file **link, const char *path, struct glim_err *e)
{
    struct gguf_file *f = mem_calloc(1, sizeof *f);
    if (!f)
        return err_nomem(e, "GGUF file", sizeof *f);
    *link = f;
    TRY(file_map_open(&f->map, path, e));
    f->p = f->map.data;
    f->size = f->map.size;
    f->path = f->map.path;
    return gguf_parse(g, f, e);
}

/* All files are parsed: names must be unique over the set. */
static glim_status index_tensors(struct gguf *g, struct glim_err *e)
{
    size_t dup = 0;
    TRY(name_index_build(&g->tensor_index, g->tensor, g->n_tensor, sizeof *g->tensor, &dup, e));
    if (dup == SIZE_MAX)
        return GLIM_OK;
    char path[NAME_SHOWN], name[NAME_SHOWN];
    return err_set(e, GLIM_FAILED, "damaged GGUF file: %s: tensors: have %s twice, need each name once",
                   name_show(path, g->first->path, strlen(g->first->path)),
                   name_show(name, g->tensor[dup].name, strlen(g->tensor[dup].name)));
}

/* ---- split sets ---- */

struct split {
    int64_t no, count, n_tensor; /* n_tensor: of the whole set; -1 when not said */
};

static glim_status split_key(const struct gguf_file *f, const char *key, int64_t min, int64_t max, int64_t *out,
                             struct glim_err *e)
{
    const struct gguf_kv *kv = gguf_file_find(f, key);
    if (!kv)
        return GLIM_OK;
    glim_status st = gguf_int(kv, min, max, out, e);
    if (st != GLIM_OK) {
        char path[NAME_SHOWN];
        err_prefix(e, "damaged GGUF file: %s", name_show(path, f->path, strlen(f->path)));
    }
    return st;
}

/* Files without the keys are a set of one. */
static glim_status read_split(const struct gguf_file *f, struct split *s, struct glim_err *e)
{
    *s = (struct split){.no = 0, .count = 1, .n_tensor = -1};
    TRY(split_key(f, "split.count", 0, GGUF_SPLIT_MAX, &s->count, e));
    TRY(split_key(f, "split.no", 0, GGUF_SPLIT_MAX - 1, &s->no, e));
    return split_key(f, "split.tensors.count", 0, INT64_MAX, &s->n_tensor, e);
}

/* "-00001-of-00003.gguf" */
enum { SPLIT_SUFFIX = 64 };
static void split_suffix(char buf[SPLIT_SUFFIX], int64_t no, int64_t count)
{
    snprintf(buf, SPLIT_SUFFIX, "-%05" PRId64 "-of-%05" PRId64 ".gguf", no + 1, count);
}

/* Open files 2 … count, named after the first. */
static glim_status add_split_files(struct gguf *g, int64_t count, struct glim_err *e)
{
    char suffix[SPLIT_SUFFIX], shown[NAME_SHOWN];
    const char *first = g->first->path;
    size_t n = strlen(first);
    split_suffix(suffix, 0, count);
    size_t tail = strlen(suffix);
    if (n < tail || strcmp(first + n - tail, suffix) != 0)
        return err_set(e, GLIM_REFUSED,
                       "cannot find the other files of a split set: %s: have this name, need one that ends in %s",
                       name_show(shown, first, n), suffix);
    char *path = mem_alloc(n + SPLIT_SUFFIX);
    if (!path)
        return err_nomem(e, "path of a split file", n + SPLIT_SUFFIX);
    memcpy(path, first, n - tail);
    glim_status st = GLIM_OK;
    struct gguf_file *f = g->first;
    for (int64_t i = 1; i < count && st == GLIM_OK; i++) {
        split_suffix(suffix, i, count);
        memcpy(path + n - tail, suffix, strlen(suffix) + 1);
        st = add_file(g, &f->next, path, e);
        f = f->next;
        struct split s;
        if (st == GLIM_OK)
            st = read_split(f, &s, e);
        if (st == GLIM_OK && (s.no != i || s.count != count))
            st = err_set(e, GLIM_FAILED,
                         "damaged split set: %s: have file %" PRId64 " of %" PRId64 " by its keys, need %" PRId64
                         " of %" PRId64,
                         name_show(shown, path, strlen(path)), s.no + 1, s.count, i + 1, count);
    }
    mem_free(path);
    return st;
}

/* The first file is parsed: find the others if there are any, and check that the set is whole. */
static glim_status complete_set(struct gguf *g, bool on_disk, struct glim_err *e)
{
    struct split s;
    char shown[NAME_SHOWN];
    const char *path = g->first->path;
    TRY(read_split(g->first, &s, e));
    if (s.no != 0) {
        char suffix[SPLIT_SUFFIX];
        split_suffix(suffix, 0, s.count);
        return err_set(e, GLIM_REFUSED,
                       "cannot open a split set here: %s: have its file %" PRId64 " of %" PRId64
                       ", need the first (...%s)",
                       name_show(shown, path, strlen(path)), s.no + 1, s.count, suffix);
    }
    if (s.count > 1 && !on_disk)
        return err_set(e, GLIM_REFUSED, "cannot open a split set from memory: %s: have %" PRId64 " files, need 1",
                       name_show(shown, path, strlen(path)), s.count);
    if (s.count > 1)
        TRY(add_split_files(g, s.count, e));
    if (s.n_tensor >= 0 && (uint64_t)s.n_tensor != g->n_tensor)
        return err_set(e, GLIM_FAILED,
                       "damaged split set: %s: have %zu tensors, need %" PRId64 " (split.tensors.count)",
                       name_show(shown, path, strlen(path)), g->n_tensor, s.n_tensor);
    return index_tensors(g, e);
}

/* ---- open ---- */

glim_status gguf_open(struct gguf **out, const char *path, struct glim_err *e)
{
    *out = NULL;
    struct gguf *g = mem_calloc(1, sizeof *g);
    if (!g)
        return err_nomem(e, "GGUF file", sizeof *g);
    glim_status st = add_file(g, &g->first, path, e);
    if (st == GLIM_OK)
        st = complete_set(g, true, e);
    if (st == GLIM_OK)
        *out = g;
    else
        gguf_close(g);
    return st;
}

glim_status gguf_open_memory(struct gguf **out, const void *p, size_t n, const char *name, struct glim_err *e)
{
    *out = NULL;
    struct gguf *g = mem_calloc(1, sizeof *g);
    struct gguf_file *f = mem_calloc(1, sizeof *f);
    if (!g || !f) {
        mem_free(g);
        mem_free(f);
        return err_nomem(e, "GGUF file", sizeof *g + sizeof *f);
    }
    *f = (struct gguf_file){.p = p, .size = n, .path = name};
    g->first = f;
    glim_status st = gguf_parse(g, f, e);
    if (st == GLIM_OK)
        st = complete_set(g, false, e);
    if (st == GLIM_OK)
        *out = g;
    else
        gguf_close(g);
    return st;
}

/* ---- look-ups ---- */

const struct gguf_kv *gguf_file_find(const struct gguf_file *f, const char *key)
{
    size_t i = name_index_find(&f->kv_index, key);
    return i == SIZE_MAX ? NULL : &f->kv[i];
}

uint32_t gguf_version(const struct gguf *g)
{
    return g->first->version;
}

size_t gguf_n_kv(const struct gguf *g)
{
    return g->first->n_kv;
}

const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i)
{
    return i < g->first->n_kv ? &g->first->kv[i] : NULL;
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
    return gguf_file_find(g->first, key);
}

size_t gguf_n_tensor(const struct gguf *g)
{
    return g->n_tensor;
}

const struct tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    return i < g->n_tensor ? &g->tensor[i] : NULL;
}

const struct tensor *gguf_tensor(const struct gguf *g, const char *name)
{
    size_t i = name_index_find(&g->tensor_index, name);
    return i == SIZE_MAX ? NULL : &g->tensor[i];
}
