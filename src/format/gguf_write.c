/* The GGUF writer: keys are serialised as they are put, tensors are remembered, and gguf_write streams header, padding
 * and tensor data to a temporary beside the target, which then replaces it. What it is given is checked like what is
 * read, so that it cannot write a file that the reader refuses. */
#include "format/gguf_private.h"

#include "base/arith.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

struct put_tensor {
    const char *name; /* first: indexed by name */
    uint64_t dim[GGUF_DIMS];
    uint32_t n_dim, type;
    const uint8_t *data;
    size_t bytes;
};

struct put_key {
    const char *name; /* first: indexed by name */
};

struct gguf_writer {
    struct str kv; /* serialised */
    struct put_key *key;
    size_t n_key, key_cap;
    struct put_tensor *tensor;
    size_t n_tensor, tensor_cap;
    struct name_pool names;
    size_t align;
};

glim_status gguf_writer_create(struct gguf_writer **w, struct glim_err *e)
{
    *w = mem_calloc(1, sizeof **w);
    if (!*w)
        return err_nomem(e, "GGUF writer", sizeof **w);
    (*w)->align = GGUF_ALIGN_DEFAULT;
    return GLIM_OK;
}

void gguf_writer_free(struct gguf_writer *w)
{
    if (!w)
        return;
    str_fini(&w->kv);
    mem_free(w->key);
    mem_free(w->tensor);
    name_pool_free(&w->names);
    mem_free(w);
}

/* ---- put ---- */

static void add_u32le(struct str *b, uint32_t v)
{
    str_add(b, (const char *)&v, sizeof v);
}

static void add_u64le(struct str *b, uint64_t v)
{
    str_add(b, (const char *)&v, sizeof v);
}

static void add_bytes(struct str *b, const void *p, size_t n)
{
    if (n > 0)
        str_add(b, p, n);
}

static glim_status check_name(const char *what, const char *name, struct glim_err *e)
{
    size_t n = strlen(name);
    if (n > 0 && n <= GGUF_NAME_MAX)
        return GLIM_OK;
    return err_set(e, GLIM_USAGE, "cannot write a GGUF %s: its name: have %zu bytes, need 1 to %d", what, n,
                   GGUF_NAME_MAX);
}

/* NULL when the value can be written as it is, else what is wrong with it. */
static const char *value_fault(const struct gguf_kv *kv)
{
    if ((unsigned)kv->type >= GGUF_TYPE_COUNT)
        return "have an unknown type, need one of GGUF's";
    bool array = kv->type == GGUF_ARRAY;
    enum gguf_type t = array ? kv->elem : kv->type;
    if ((unsigned)t >= GGUF_TYPE_COUNT || t == GGUF_ARRAY)
        return "have an array of arrays or of an unknown type, need numbers, booleans or strings";
    size_t bytes = kv->n;
    bool fits = true;
    if (t == GGUF_STRING)
        fits = !array || gguf_strings_bytes(kv->data, kv->bytes, kv->n, &bytes);
    else
        fits = mul_size(array ? kv->n : 1, gguf_type_size(t), &bytes);
    if (!fits || bytes != kv->bytes)
        return "have a byte count that does not match its elements, need them to agree";
    if (t == GGUF_BOOL && gguf_bad_bool(kv->data, kv->bytes) >= 0)
        return "have a boolean other than 0 and 1, need 0 or 1";
    return NULL;
}

static glim_status check_value(const struct gguf_kv *kv, struct glim_err *e)
{
    const char *fault = value_fault(kv);
    int64_t align = 0;
    if (!fault && strcmp(kv->key, "general.alignment") == 0 &&
        (gguf_int(kv, GGUF_ALIGN_MIN, GGUF_ALIGN_MAX, &align, NULL) != GLIM_OK || (align & (align - 1)) != 0))
        fault = "have another value, need a power of two from 8 to 1048576";
    if (!fault)
        return GLIM_OK;
    char key[NAME_SHOWN];
    return err_set(e, GLIM_USAGE, "cannot write a GGUF key: %s: %s", name_show(key, kv->key, strlen(kv->key)), fault);
}

glim_status gguf_put(struct gguf_writer *w, const struct gguf_kv *kv, struct glim_err *e)
{
    TRY(check_name("key", kv->key, e));
    TRY(check_value(kv, e));
    void *arr = w->key;
    bool room = mem_grow(&arr, &w->key_cap, w->n_key, sizeof *w->key);
    w->key = arr;
    const char *name = room ? name_add(&w->names, kv->key, strlen(kv->key)) : NULL;
    size_t before = w->kv.n;
    struct str *b = &w->kv;
    if (name) {
        add_u64le(b, strlen(name));
        str_puts(b, name);
        add_u32le(b, (uint32_t)kv->type);
        if (kv->type == GGUF_ARRAY)
            add_u32le(b, (uint32_t)kv->elem);
        if (kv->type == GGUF_ARRAY || kv->type == GGUF_STRING)
            add_u64le(b, kv->n);
        add_bytes(b, kv->data, kv->bytes);
    }
    if (!name || b->failed)
        return err_nomem(e, "keys of a GGUF file", before + kv->bytes);
    w->key[w->n_key++].name = name;
    int64_t align = 0;
    if (strcmp(name, "general.alignment") == 0 && gguf_int(kv, 1, GGUF_ALIGN_MAX, &align, e) == GLIM_OK)
        w->align = (size_t)align;
    return GLIM_OK;
}

glim_status gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v, struct glim_err *e)
{
    return gguf_put(w, &(struct gguf_kv){key, GGUF_U32, GGUF_U8, 1, (const uint8_t *)&v, sizeof v}, e);
}

glim_status gguf_put_f32(struct gguf_writer *w, const char *key, float v, struct glim_err *e)
{
    return gguf_put(w, &(struct gguf_kv){key, GGUF_F32, GGUF_U8, 1, (const uint8_t *)&v, sizeof v}, e);
}

glim_status gguf_put_str(struct gguf_writer *w, const char *key, const char *v, struct glim_err *e)
{
    size_t n = strlen(v);
    return gguf_put(w, &(struct gguf_kv){key, GGUF_STRING, GGUF_U8, n, (const uint8_t *)v, n}, e);
}

/* A tensor of a type with no row goes by the name its reader gave it. */
static glim_status check_tensor(const struct tensor *t, struct gguf_layout *l, struct glim_err *e)
{
    TRY(check_name("tensor", t->name, e));
    char name[NAME_SHOWN], why[160] = "";
    bool known = gguf_layout_by_name(t->fmt ? t->fmt->name : t->type_name, l);
    size_t bytes = 0;
    bool zero = false;
    for (uint32_t i = 0; i < t->n_dim && i < GGUF_DIMS; i++)
        zero |= t->dim[i] == 0;
    if (!known)
        snprintf(why, sizeof why, "have type %.15s, need one that GGUF has", t->type_name);
    else if (t->n_dim > GGUF_DIMS)
        snprintf(why, sizeof why, "have %u dimensions, need at most %d", t->n_dim, GGUF_DIMS);
    else if (zero)
        snprintf(why, sizeof why, "have a dimension of 0, need at least 1");
    else if (gguf_tensor_bytes(l, t->dim, t->n_dim, &bytes, why, sizeof why) && bytes != t->bytes)
        snprintf(why, sizeof why, "have %zu bytes, need %zu by its shape", t->bytes, bytes);
    if (!why[0])
        return GLIM_OK;
    return err_set(e, GLIM_USAGE, "cannot write a GGUF tensor: %s: %s", name_show(name, t->name, strlen(t->name)), why);
}

glim_status gguf_put_tensor(struct gguf_writer *w, const struct tensor *t, struct glim_err *e)
{
    struct gguf_layout l;
    TRY(check_tensor(t, &l, e));
    void *arr = w->tensor;
    bool room = mem_grow(&arr, &w->tensor_cap, w->n_tensor, sizeof *w->tensor);
    w->tensor = arr;
    const char *name = room ? name_add(&w->names, t->name, strlen(t->name)) : NULL;
    if (!name)
        return err_nomem(e, "tensors of a GGUF file", (w->n_tensor + 1) * sizeof *w->tensor);
    struct put_tensor *p = &w->tensor[w->n_tensor++];
    *p = (struct put_tensor){.name = name, .n_dim = t->n_dim, .type = l.type, .data = t->data, .bytes = t->bytes};
    memcpy(p->dim, t->dim, t->n_dim * sizeof *p->dim);
    return GLIM_OK;
}

/* ---- write ---- */

static glim_status check_unique(const void *base, size_t n, size_t stride, const char *what, struct glim_err *e)
{
    struct name_index x = {0};
    size_t dup = SIZE_MAX;
    glim_status st = name_index_build(&x, base, n, stride, &dup, e);
    if (st == GLIM_OK && dup != SIZE_MAX) {
        const char *name = *(const char *const *)(const void *)((const char *)base + dup * stride);
        char shown[NAME_SHOWN];
        st = err_set(e, GLIM_USAGE, "cannot write a GGUF file: %s %s: have it twice, need it once", what,
                     name_show(shown, name, strlen(name)));
    }
    name_index_fini(&x);
    return st;
}

static size_t padding(uint64_t at, size_t align)
{
    return (size_t)(0 - at) & (align - 1);
}

/* Everything before the data section, its padding included. */
static void add_header(struct str *b, const struct gguf_writer *w)
{
    str_add(b, "GGUF", 4);
    add_u32le(b, 3);
    add_u64le(b, w->n_tensor);
    add_u64le(b, w->n_key);
    add_bytes(b, w->kv.s, w->kv.n);
    uint64_t offset = 0;
    for (size_t i = 0; i < w->n_tensor; i++) {
        const struct put_tensor *t = &w->tensor[i];
        add_u64le(b, strlen(t->name));
        str_puts(b, t->name);
        add_u32le(b, t->n_dim);
        for (uint32_t d = t->n_dim; d-- > 0;)
            add_u64le(b, t->dim[d]);
        add_u32le(b, t->type);
        add_u64le(b, offset);
        offset += t->bytes + padding(offset + t->bytes, w->align);
    }
    for (size_t n = w->n_tensor > 0 ? padding(b->n, w->align) : 0; n > 0; n--)
        str_putc(b, 0);
}

static bool write_pad(FILE *f, size_t n)
{
    static const char zero[64];
    while (n > 0) {
        size_t k = n < sizeof zero ? n : sizeof zero;
        if (fwrite(zero, 1, k, f) != k)
            return false;
        n -= k;
    }
    return true;
}

static bool write_all(FILE *f, const struct str *header, const struct gguf_writer *w)
{
    if (fwrite(header->s, 1, header->n, f) != header->n)
        return false;
    for (size_t i = 0; i < w->n_tensor; i++) {
        const struct put_tensor *t = &w->tensor[i];
        if (fwrite(t->data, 1, t->bytes, f) != t->bytes || !write_pad(f, padding(t->bytes, w->align)))
            return false;
    }
    return fflush(f) == 0 && fsync(fileno(f)) == 0;
}

static glim_status io_error(const char *verb, const char *path, const char *want, struct glim_err *e)
{
    char why[128], shown[NAME_SHOWN];
    const char *reason = strerror_r(errno, why, sizeof why);
    return err_set(e, GLIM_FAILED, "cannot %s: %s: have '%s', need %s", verb, name_show(shown, path, strlen(path)),
                   reason, want);
}

glim_status gguf_write(struct gguf_writer *w, const char *path, struct glim_err *e)
{
    static atomic_uint serial; /* two threads writing the same path must not share a temporary */
    struct str header = {0}, tmp = {0};
    FILE *f = NULL;
    glim_status st = GLIM_OK;
    TRY_OUT(check_unique(w->key, w->n_key, sizeof *w->key, "key", e));
    TRY_OUT(check_unique(w->tensor, w->n_tensor, sizeof *w->tensor, "tensor", e));
    add_header(&header, w);
    str_printf(&tmp, "%s.tmp-%ld-%u", path, (long)getpid(), atomic_fetch_add(&serial, 1));
    if (header.failed || tmp.failed || w->kv.failed) {
        st = err_nomem(e, "header of a GGUF file", header.n + w->kv.n);
        goto out;
    }
    f = fopen(tmp.s, "wbx");
    if (!f) {
        st = io_error("create", tmp.s, "a writable folder", e);
        goto out;
    }
    if (!write_all(f, &header, w))
        st = io_error("write", tmp.s, "room for the whole file", e);
    if (fclose(f) != 0 && st == GLIM_OK)
        st = io_error("write", tmp.s, "room for the whole file", e);
    if (st == GLIM_OK && rename(tmp.s, path) != 0)
        st = io_error("replace", path, "a writable folder", e);
    if (st != GLIM_OK)
        unlink(tmp.s);
out:
    str_fini(&header);
    str_fini(&tmp);
    return st;
}
