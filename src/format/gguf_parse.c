/* The parse of one GGUF file.
 *
 *   header   "GGUF", u32 version, u64 tensors, u64 keys
 *   keys     name, u32 type, value
 *   tensors  name, u32 n_dim, u64 dim[n_dim] (innermost first), u32 type, u64 offset
 *   padding to the alignment; data section; offsets count from its start
 *
 * A name or string is a u64 length and its bytes. Everything is read through need(), which compares with the bytes
 * left; counts are compared with the room that so many elements take at the least before anything is kept for them. All
 * ranges are checked against the file's size here, so that a view handed out later can be read without a further look.
 */
#include "format/gguf_private.h"

#include "base/arith.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* A position in the file, and what is being read there (for messages). */
struct reader {
    const uint8_t *p;
    size_t size, at;
    const char *path;
    struct glim_err *e;
    const char *item; /* "header", "key", "tensor" */
    uint64_t i, n;    /* the item's number and how many there are */
    const uint8_t *name;
    size_t name_n; /* 0 until the name is read */
};

/* "<head>: <path>: <item>: <text>" */
static glim_status vfail(struct reader *r, glim_status s, const char *head, const char *fmt, va_list ap)
{
    char text[320], name[NAME_SHOWN], path[NAME_SHOWN], item[NAME_SHOWN + 16];
    vsnprintf(text, sizeof text, fmt, ap);
    if (r->name_n > 0)
        snprintf(item, sizeof item, "%s %s", r->item, name_show(name, r->name, r->name_n));
    else if (r->n > 0)
        snprintf(item, sizeof item, "%s %" PRIu64 " of %" PRIu64, r->item, r->i + 1, r->n);
    else
        snprintf(item, sizeof item, "%s", r->item);
    return err_set(r->e, s, "%s: %s: %s: %s", head, name_show(path, r->path, strlen(r->path)), item, text);
}

/* The file breaks the format. */
static glim_status __attribute__((format(printf, 2, 3))) bad(struct reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    glim_status s = vfail(r, GLIM_FAILED, "damaged GGUF file", fmt, ap);
    va_end(ap);
    return s;
}

/* The file may be fine, but this reader does not take it. */
static glim_status __attribute__((format(printf, 2, 3))) refuse(struct reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    glim_status s = vfail(r, GLIM_REFUSED, "unsupported GGUF file", fmt, ap);
    va_end(ap);
    return s;
}

static void item(struct reader *r, const char *what, uint64_t i, uint64_t n)
{
    r->item = what;
    r->i = i;
    r->n = n;
    r->name_n = 0;
}

static glim_status need(struct reader *r, uint64_t n, const char *what)
{
    if (n <= r->size - r->at)
        return GLIM_OK;
    return bad(r, "%s: have %zu bytes left, need %" PRIu64 ": the file is cut short or its lengths are wrong", what,
               r->size - r->at, n);
}

static glim_status read_u32(struct reader *r, const char *what, uint32_t *v)
{
    TRY(need(r, 4, what));
    *v = gguf_u32(r->p + r->at);
    r->at += 4;
    return GLIM_OK;
}

static glim_status read_u64(struct reader *r, const char *what, uint64_t *v)
{
    TRY(need(r, 8, what));
    *v = gguf_u64(r->p + r->at);
    r->at += 8;
    return GLIM_OK;
}

/* The name of a key or tensor; kept in the pool, NUL-terminated. */
static glim_status read_name(struct reader *r, struct name_pool *names, const char **out)
{
    uint64_t n = 0;
    TRY(read_u64(r, "length of its name", &n));
    if (n == 0 || n > GGUF_NAME_MAX)
        return bad(r, "length of its name: have %" PRIu64 " bytes, need 1 to %d", n, GGUF_NAME_MAX);
    TRY(need(r, n, "its name"));
    const uint8_t *s = r->p + r->at;
    if (memchr(s, 0, n))
        return bad(r, "its name: have a NUL byte inside, need plain text");
    r->name = s;
    r->name_n = n;
    r->at += n;
    *out = name_add(names, s, n);
    return *out ? GLIM_OK : err_nomem(r->e, "names of a GGUF file", n + 1);
}

/* ---- keys ---- */

static glim_status read_string(struct reader *r, struct gguf_kv *kv)
{
    TRY(read_u64(r, "length of its string", &kv->n));
    TRY(need(r, kv->n, "its string"));
    kv->bytes = kv->n;
    return GLIM_OK;
}

static glim_status read_array(struct reader *r, struct gguf_kv *kv)
{
    uint32_t elem = 0;
    TRY(read_u32(r, "its element type", &elem));
    if (elem == GGUF_ARRAY)
        return refuse(r, "have an array of arrays, need an array of numbers, booleans or strings");
    if (elem >= GGUF_TYPE_COUNT)
        return bad(r, "its element type: have %u, need 0 to %d", elem, GGUF_TYPE_COUNT - 1);
    kv->elem = (enum gguf_type)elem;
    TRY(read_u64(r, "its element count", &kv->n));
    size_t left = r->size - r->at, size = kv->elem == GGUF_STRING ? 8 : gguf_type_size(kv->elem);
    if (kv->n > left / size)
        return bad(r, "its %s elements: have %zu bytes left, need %" PRIu64 " times %s%zu", gguf_type_name(kv->elem),
                   left, kv->n, kv->elem == GGUF_STRING ? "at least " : "", size);
    kv->bytes = kv->n * size;
    if (kv->elem == GGUF_STRING && !gguf_strings_bytes(r->p + r->at, left, kv->n, &kv->bytes))
        return bad(r, "its %" PRIu64 " strings: have lengths that pass the file's end, need them to fit %zu bytes",
                   kv->n, left);
    return GLIM_OK;
}

static glim_status read_value(struct reader *r, struct gguf_kv *kv)
{
    if (kv->type == GGUF_STRING)
        TRY(read_string(r, kv));
    else if (kv->type == GGUF_ARRAY)
        TRY(read_array(r, kv));
    else {
        kv->n = 1;
        kv->bytes = gguf_type_size(kv->type);
        TRY(need(r, kv->bytes, "its value"));
    }
    kv->data = r->p + r->at;
    if (kv->type == GGUF_BOOL || (kv->type == GGUF_ARRAY && kv->elem == GGUF_BOOL)) {
        int v = gguf_bad_bool(kv->data, kv->bytes);
        if (v >= 0)
            return bad(r, "boolean: have %d, need 0 or 1", v);
    }
    r->at += kv->bytes;
    return GLIM_OK;
}

static glim_status read_keys(struct reader *r, struct gguf *g, struct gguf_file *f, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        item(r, "key", i, n);
        void *arr = f->kv;
        if (!mem_grow(&arr, &f->kv_cap, f->n_kv, sizeof *f->kv))
            return err_nomem(r->e, "keys of a GGUF file", (f->n_kv + 1) * sizeof *f->kv);
        f->kv = arr;
        struct gguf_kv *kv = &f->kv[f->n_kv];
        *kv = (struct gguf_kv){0};
        TRY(read_name(r, &g->names, &kv->key));
        uint32_t type = 0;
        TRY(read_u32(r, "its type", &type));
        if (type >= GGUF_TYPE_COUNT)
            return bad(r, "its type: have %u, need 0 to %d", type, GGUF_TYPE_COUNT - 1);
        kv->type = (enum gguf_type)type;
        TRY(read_value(r, kv));
        f->n_kv++;
    }
    size_t dup = 0;
    TRY(name_index_build(&f->kv_index, f->kv, f->n_kv, sizeof *f->kv, &dup, r->e));
    item(r, "keys", 0, 0);
    if (dup != SIZE_MAX) {
        char shown[NAME_SHOWN];
        return bad(r, "have %s twice, need each key once", name_show(shown, f->kv[dup].key, strlen(f->kv[dup].key)));
    }
    return GLIM_OK;
}

static glim_status read_alignment(struct reader *r, const struct gguf_file *f, size_t *align)
{
    *align = GGUF_ALIGN_DEFAULT;
    const struct gguf_kv *kv = gguf_file_find(f, "general.alignment");
    if (!kv)
        return GLIM_OK;
    item(r, "key general.alignment", 0, 0);
    int64_t v = 0;
    if (gguf_int(kv, 0, INT64_MAX, &v, NULL) != GLIM_OK)
        return bad(r, "have no whole number of bytes (%s), need a power of two from %d to %d", gguf_type_name(kv->type),
                   GGUF_ALIGN_MIN, GGUF_ALIGN_MAX);
    if (v < GGUF_ALIGN_MIN || v > GGUF_ALIGN_MAX || (v & (v - 1)) != 0)
        return bad(r, "have %" PRId64 ", need a power of two from %d to %d", v, GGUF_ALIGN_MIN, GGUF_ALIGN_MAX);
    *align = (size_t)v;
    return GLIM_OK;
}

/* ---- tensors ---- */

static glim_status read_shape(struct reader *r, struct tensor *t)
{
    TRY(read_u32(r, "its number of dimensions", &t->n_dim));
    if (t->n_dim > GGUF_DIMS)
        return bad(r, "its number of dimensions: have %u, need at most %d", t->n_dim, GGUF_DIMS);
    for (int i = 0; i < TENSOR_DIMS; i++)
        t->dim[i] = 1;
    for (uint32_t i = t->n_dim; i-- > 0;) { /* the file has the innermost first */
        TRY(read_u64(r, "its dimensions", &t->dim[i]));
        if (t->dim[i] == 0)
            return bad(r, "dimension %u: have 0, need at least 1", i);
    }
    return GLIM_OK;
}

static glim_status read_tensor(struct reader *r, struct gguf *g, struct tensor *t, uint64_t *offset)
{
    *t = (struct tensor){0};
    TRY(read_name(r, &g->names, &t->name));
    TRY(read_shape(r, t));
    uint32_t type = 0;
    TRY(read_u32(r, "its type", &type));
    TRY(read_u64(r, "its offset", offset));
    struct gguf_layout l;
    if (!gguf_layout(type, &l))
        return refuse(
            r, "its type: have number %u, need one whose block size is known: a newer glim may read this file", type);
    t->fmt = l.fmt;
    snprintf(t->type_name, sizeof t->type_name, "%s", l.name);
    char why[160];
    if (!gguf_tensor_bytes(&l, t->dim, t->n_dim, &t->bytes, why, sizeof why))
        return bad(r, "its shape: %s", why);
    return GLIM_OK;
}

struct placement {
    const struct tensor *t;
    const uint64_t *offset;
};

static bool placed_after(const void *ctx, uint32_t a, uint32_t b)
{
    const struct placement *x = ctx;
    return x->offset[a] > x->offset[b];
}

/* No two tensors share a byte. Files written by the usual tools list them in order; others are sorted first. */
static glim_status check_overlap(struct reader *r, const struct tensor *t, const uint64_t *offset, size_t n)
{
    bool in_order = true;
    for (size_t i = 1; i < n && in_order; i++)
        in_order = offset[i] >= offset[i - 1] + t[i - 1].bytes;
    if (in_order)
        return GLIM_OK;
    uint32_t *order = mem_alloc(n * sizeof *order);
    if (!order)
        return err_nomem(r->e, "order of tensors", n * sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    glim_status st = GLIM_OK;
    if (!sort_order(order, n, placed_after, &(struct placement){t, offset}))
        st = err_nomem(r->e, "order of tensors", n * sizeof *order);
    for (size_t i = 1; i < n && st == GLIM_OK; i++) {
        size_t a = order[i - 1], b = order[i];
        if (offset[b] >= offset[a] + t[a].bytes)
            continue;
        char x[NAME_SHOWN], y[NAME_SHOWN];
        item(r, "tensors", 0, 0);
        st = bad(r, "%s overlaps %s: have offset %" PRIu64 ", need at least %" PRIu64,
                 name_show(x, t[b].name, strlen(t[b].name)), name_show(y, t[a].name, strlen(t[a].name)), offset[b],
                 offset[a] + t[a].bytes);
    }
    mem_free(order);
    return st;
}

/* Point every tensor at its bytes, once all of them are known to lie in the file. */
static glim_status place_tensors(struct reader *r, struct gguf_file *f, struct tensor *t, const uint64_t *offset,
                                 size_t n, size_t align)
{
    size_t start = 0;
    if (!align_up(r->at, align, &start))
        return bad(r, "start of the data section: have no room in 64 bits, need a smaller header");
    uint64_t largest = 0;
    size_t last = 0;
    for (size_t i = 0; i < n; i++) {
        item(r, "tensor", i, n);
        r->name = (const uint8_t *)t[i].name;
        r->name_n = strlen(t[i].name);
        if (offset[i] % align != 0)
            return bad(r, "its offset: have %" PRIu64 ", need a multiple of %zu", offset[i], align);
        uint64_t end = 0;
        if (!add_u64(offset[i], t[i].bytes, &end) || !add_u64(end, start, &end))
            return bad(r, "its range: have offset %" PRIu64 " and %zu bytes, need an end below 2^64", offset[i],
                       t[i].bytes);
        if (end > largest) {
            largest = end;
            last = i;
        }
    }
    if (largest > r->size) {
        char shown[NAME_SHOWN];
        item(r, "size", 0, 0);
        return bad(r, "have %zu bytes, need %" PRIu64 " (where %s ends): the file is cut short", r->size, largest,
                   name_show(shown, t[last].name, strlen(t[last].name)));
    }
    for (size_t i = 0; i < n; i++) {
        t[i].data = r->p + start + offset[i];
        t[i].map = f->map.data ? &f->map : NULL;
    }
    return check_overlap(r, t, offset, n);
}

static glim_status read_tensors(struct reader *r, struct gguf *g, struct gguf_file *f, uint64_t n, size_t align)
{
    uint64_t *offset = NULL;
    size_t cap = 0;
    glim_status st = GLIM_OK;
    f->first_tensor = g->n_tensor;
    for (uint64_t i = 0; i < n; i++) {
        item(r, "tensor", i, n);
        void *a = g->tensor, *b = offset;
        bool room = mem_grow(&a, &g->tensor_cap, g->n_tensor, sizeof *g->tensor);
        g->tensor = a;
        room = room && mem_grow(&b, &cap, i, sizeof *offset);
        offset = b;
        if (!room) {
            st = err_nomem(r->e, "tensors of a GGUF file", (g->n_tensor + 1) * sizeof *g->tensor);
            goto out;
        }
        TRY_OUT(read_tensor(r, g, &g->tensor[g->n_tensor], &offset[i]));
        g->n_tensor++;
    }
    if (n > 0)
        st = place_tensors(r, f, g->tensor + f->first_tensor, offset, n, align);
out:
    mem_free(offset);
    return st;
}

/* ---- header ---- */

static glim_status read_header(struct reader *r, uint32_t *version, uint64_t *n_tensor, uint64_t *n_kv)
{
    item(r, "header", 0, 0);
    TRY(need(r, 4, "its magic"));
    const char *guess = file_guess(r->p, r->size);
    if (memcmp(r->p, "GGUF", 4) != 0 && guess)
        return bad(r, "its magic: have %s, need GGUF", guess);
    if (memcmp(r->p, "GGUF", 4) != 0)
        return bad(r, "its magic: have bytes %02x %02x %02x %02x, need 47 47 55 46 (GGUF)", r->p[0], r->p[1], r->p[2],
                   r->p[3]);
    r->at = 4;
    TRY(read_u32(r, "its version", version));
    if (*version != 2 && *version != 3) {
        uint32_t swapped = __builtin_bswap32(*version);
        if (swapped == 2 || swapped == 3)
            return refuse(r, "its byte order: have a big-endian file (version %u), need a little-endian one", swapped);
        return refuse(r, "its version: have %u, need 2 or 3", *version);
    }
    TRY(need(r, GGUF_HEADER_BYTES - 8, "its counts"));
    TRY(read_u64(r, "its counts", n_tensor));
    TRY(read_u64(r, "its counts", n_kv));
    size_t left = r->size - r->at;
    if (*n_kv > GGUF_KV_MAX || *n_kv > left / GGUF_KV_MIN_BYTES)
        return bad(r, "its number of keys: have %" PRIu64 ", need at most %zu (limit %d, and %zu bytes left)", *n_kv,
                   left / GGUF_KV_MIN_BYTES < GGUF_KV_MAX ? left / GGUF_KV_MIN_BYTES : GGUF_KV_MAX, GGUF_KV_MAX, left);
    if (*n_tensor > GGUF_TENSOR_MAX || *n_tensor > left / GGUF_TENSOR_MIN_BYTES)
        return bad(r, "its number of tensors: have %" PRIu64 ", need at most %zu (limit %d, and %zu bytes left)",
                   *n_tensor,
                   left / GGUF_TENSOR_MIN_BYTES < GGUF_TENSOR_MAX ? left / GGUF_TENSOR_MIN_BYTES : GGUF_TENSOR_MAX,
                   GGUF_TENSOR_MAX, left);
    return GLIM_OK;
}

glim_status gguf_parse(struct gguf *g, struct gguf_file *f, struct glim_err *e)
{
    struct reader r = {.p = f->p, .size = f->size, .path = f->path, .e = e};
    uint64_t n_tensor = 0, n_kv = 0;
    size_t align = 0;
    TRY(read_header(&r, &f->version, &n_tensor, &n_kv));
    TRY(read_keys(&r, g, f, n_kv));
    TRY(read_alignment(&r, f, &align));
    return read_tensors(&r, g, f, n_tensor, align);
}
