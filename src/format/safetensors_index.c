/* model.safetensors.index.json: {"metadata": {…}, "weight_map": {"<tensor>": "<file>", …}}. The metadata is skipped:
 * its total_size is wrong in many published checkpoints, and the shards say the truth. */
#include "format/safetensors_private.h"

#include "base/mem.h"

#include <stdio.h>

struct parse {
    struct st_index *x;
    struct st_scan scan;
    const char *path;
    struct glim_err *e;
};

static glim_status bad(struct parse *p, const char *where, const char *text)
{
    char path[NAME_SHOWN], name[NAME_SHOWN];
    return err_set(p->e, GLIM_FAILED, "damaged safetensors index: %s: %s: %s",
                   name_show(path, p->path, strlen(p->path)), name_show(name, where, strlen(where)), text);
}

static glim_status bad_json(struct parse *p)
{
    if (p->scan.text.failed)
        return err_nomem(p->e, "a name in a safetensors index", p->scan.text.n);
    char where[40];
    snprintf(where, sizeof where, "byte %zu", p->scan.at);
    return bad(p, where, p->scan.fault);
}

/* A file beside the index and nothing else: no folders, no way out of this one. */
static bool is_plain_name(const char *s)
{
    static const char suffix[] = ".safetensors";
    size_t n = strlen(s), k = sizeof suffix - 1;
    return n > k && strcmp(s + n - k, suffix) == 0 && !strchr(s, '/');
}

/* One "<tensor>": "<file>"; the tensor's name is in scan.text. */
static glim_status read_weight(struct parse *p)
{
    struct st_index *x = p->x;
    void *arr = x->entry;
    if (x->n >= ST_TENSOR_MAX)
        return bad(p, "weight_map", "have more than 1048576 tensors, need fewer");
    if (p->scan.text.n == 0)
        return bad(p, "weight_map", "have a tensor without a name, need one");
    bool room = mem_grow(&arr, &x->cap, x->n, sizeof *x->entry);
    x->entry = arr;
    if (!room)
        return err_nomem(p->e, "a safetensors index", (x->n + 1) * sizeof *x->entry);
    struct st_entry *w = &x->entry[x->n];
    w->name = name_add(&x->names, p->scan.text.s, p->scan.text.n);
    if (!w->name)
        return err_nomem(p->e, "a safetensors index", p->scan.text.n + 1);
    if (!st_string(&p->scan))
        return bad_json(p);
    if (!p->scan.text.s || !is_plain_name(p->scan.text.s))
        return bad(p, w->name, "have another kind of file name, need <name>.safetensors in the same folder");
    /* Neighbours are mostly in the same file. */
    if (x->n > 0 && strcmp(w[-1].file, p->scan.text.s) == 0)
        w->file = w[-1].file;
    else
        w->file = name_add(&x->names, p->scan.text.s, p->scan.text.n);
    if (!w->file)
        return err_nomem(p->e, "a safetensors index", p->scan.text.n + 1);
    x->n++;
    return GLIM_OK;
}

static glim_status read_top(struct parse *p)
{
    bool has_map = false;
    for (size_t n = 0; st_next_member(&p->scan, &n);) {
        if (!p->scan.text.s || strcmp(p->scan.text.s, "weight_map") != 0) {
            if (!st_skip(&p->scan))
                return bad_json(p);
            continue;
        }
        if (has_map)
            return bad(p, "weight_map", "have it twice, need it once");
        has_map = true;
        for (size_t k = 0; st_next_member(&p->scan, &k);)
            TRY(read_weight(p));
        if (p->scan.fault)
            return bad_json(p);
    }
    if (p->scan.fault || !st_end(&p->scan))
        return bad_json(p);
    if (p->x->n == 0)
        return bad(p, "weight_map", "have no tensors, need at least 1");
    size_t dup = 0;
    TRY(name_index_build(&p->x->by_name, p->x->entry, p->x->n, sizeof *p->x->entry, &dup, p->e));
    return dup == SIZE_MAX ? GLIM_OK : bad(p, p->x->entry[dup].name, "have it twice, need each tensor once");
}

glim_status st_index_parse(struct st_index *x, const void *p, size_t n, const char *path, struct glim_err *e)
{
    *x = (struct st_index){0};
    struct parse q = {.x = x, .scan = {.p = p, .n = n}, .path = path, .e = e};
    if (n > ST_INDEX_MAX)
        return bad(&q, "size", "have more than 104857600 bytes, need at most that");
    glim_status st = read_top(&q);
    str_fini(&q.scan.text);
    return st;
}

void st_index_fini(struct st_index *x)
{
    name_index_fini(&x->by_name);
    mem_free(x->entry);
    name_pool_free(&x->names);
    *x = (struct st_index){0};
}
