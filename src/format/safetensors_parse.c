/* The parse of one safetensors file.
 *
 *   u64 header bytes, header (JSON, may end in spaces), data
 *   header: {"<name>": {"dtype": "BF16", "shape": [outermost, …], "data_offsets": [begin, end]}, …,
 *            "__metadata__": {…} (skipped)}
 *
 * Offsets count from the start of the data. The tensors must cover the data exactly: a gap, an overlap or bytes behind
 * the last one are damage. */
#include "format/safetensors_private.h"

#include "base/arith.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Bits of each dtype, and the row of the format table that computes with it (-1: none, the tensor may only exist). */
static const struct dtype {
    const char *name;
    uint8_t bits;
    int type;
} dtypes[] = {
    {"BOOL", 8, -1},    {"U8", 8, -1},       {"I8", 8, QT_I8},    {"F8_E4M3", 8, -1},  {"F8_E5M2", 8, -1},
    {"F8_E8M0", 8, -1}, {"U16", 16, -1},     {"I16", 16, -1},     {"F16", 16, QT_F16}, {"BF16", 16, QT_BF16},
    {"U32", 32, -1},    {"I32", 32, QT_I32}, {"F32", 32, QT_F32}, {"U64", 64, -1},     {"I64", 64, -1},
    {"F64", 64, -1},    {"C64", 64, -1},     {"F4", 4, -1},       {"F6_E2M3", 6, -1},  {"F6_E3M2", 6, -1},
};

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

struct parse {
    struct safetensors *s;
    struct st_file *f;
    struct st_scan scan; /* of the header */
    const uint8_t *data;
    size_t n_data;
    size_t first;    /* this file's first tensor in s->tensor */
    uint64_t *begin; /* [tensors of this file] */
    size_t begin_cap;
    struct glim_err *e;
};

/* "damaged safetensors file: <path>: <text>" */
static glim_status __attribute__((format(printf, 2, 3))) bad(struct parse *p, const char *fmt, ...)
{
    char text[320], path[NAME_SHOWN];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(p->e, GLIM_FAILED, "damaged safetensors file: %s: %s",
                   name_show(path, p->f->path, strlen(p->f->path)), text);
}

static glim_status bad_json(struct parse *p)
{
    if (p->scan.text.failed)
        return err_nomem(p->e, "a name in a safetensors header", p->scan.text.n);
    return bad(p, "header byte %zu: %s", p->scan.at, p->scan.fault);
}

static const char *shown(char buf[NAME_SHOWN], const struct tensor *t)
{
    return name_show(buf, t->name, strlen(t->name));
}

/* ---- one entry ---- */

struct entry {
    const struct dtype *dtype;
    bool has_shape, has_range;
    uint64_t begin, end;
};

static glim_status read_dtype(struct parse *p, struct tensor *t, struct entry *x)
{
    char name[NAME_SHOWN], got[NAME_SHOWN];
    if (x->dtype)
        return bad(p, "tensor %s: have dtype twice, need it once", shown(name, t));
    if (!st_string(&p->scan))
        return bad_json(p);
    x->dtype = find_dtype(p->scan.text.s ? p->scan.text.s : "");
    if (!x->dtype)
        return bad(p, "tensor %s: dtype: have %s, need one such as F32, BF16, I64 or F8_E4M3", shown(name, t),
                   name_show(got, p->scan.text.s, p->scan.text.n));
    t->fmt = x->dtype->type >= 0 ? quant_format((uint32_t)x->dtype->type) : NULL;
    snprintf(t->type_name, sizeof t->type_name, "%s", x->dtype->name);
    return GLIM_OK;
}

static glim_status read_shape(struct parse *p, struct tensor *t, struct entry *x)
{
    char name[NAME_SHOWN];
    if (x->has_shape)
        return bad(p, "tensor %s: have shape twice, need it once", shown(name, t));
    x->has_shape = true;
    for (size_t n = 0; st_next_element(&p->scan, &n);) {
        if (n > TENSOR_DIMS)
            return bad(p, "tensor %s: shape: have more than %d dimensions, need at most %d", shown(name, t),
                       TENSOR_DIMS, TENSOR_DIMS);
        if (!st_u64(&p->scan, &t->dim[n - 1]))
            return bad_json(p);
        if (t->dim[n - 1] == 0)
            return bad(p, "tensor %s: dimension %zu: have 0, need at least 1", shown(name, t), n - 1);
        t->n_dim = (uint32_t)n;
    }
    return p->scan.fault ? bad_json(p) : GLIM_OK;
}

static glim_status read_range(struct parse *p, struct tensor *t, struct entry *x)
{
    char name[NAME_SHOWN];
    if (x->has_range)
        return bad(p, "tensor %s: have data_offsets twice, need it once", shown(name, t));
    x->has_range = true;
    size_t n = 0;
    if (!st_next_element(&p->scan, &n) || !st_u64(&p->scan, &x->begin) || !st_next_element(&p->scan, &n) ||
        !st_u64(&p->scan, &x->end) || st_next_element(&p->scan, &n) || p->scan.fault)
        return p->scan.fault
                   ? bad_json(p)
                   : bad(p, "tensor %s: data_offsets: have another number of elements, need 2", shown(name, t));
    return GLIM_OK;
}

/* Fill t->bytes from dtype and shape, and hold it against the range. */
static glim_status check_size(struct parse *p, struct tensor *t, const struct entry *x)
{
    char name[NAME_SHOWN];
    if (!x->dtype || !x->has_shape || !x->has_range)
        return bad(p, "tensor %s: have no %s, need dtype, shape and data_offsets", shown(name, t),
                   !x->dtype       ? "dtype"
                   : !x->has_shape ? "shape"
                                   : "data_offsets");
    uint64_t bits = x->dtype->bits;
    bool fits = true;
    for (uint32_t i = 0; i < t->n_dim && fits; i++)
        fits = mul_u64(bits, t->dim[i], &bits);
    if (!fits)
        return bad(p,
                   "tensor %s: shape: have dimensions whose product passes 64 bits, need a size that a file can have",
                   shown(name, t));
    if (bits % 8 != 0)
        return bad(p, "tensor %s: shape: have %" PRIu64 " bits, need whole bytes", shown(name, t), bits);
    t->bytes = bits / 8;
    if (x->begin > x->end || x->end - x->begin != t->bytes)
        return bad(p, "tensor %s: data_offsets: have %" PRIu64 " to %" PRIu64 ", need %zu bytes by dtype and shape",
                   shown(name, t), x->begin, x->end, t->bytes);
    return GLIM_OK;
}

static glim_status read_entry(struct parse *p, struct tensor *t, uint64_t *begin)
{
    struct entry x = {0};
    char name[NAME_SHOWN], field[NAME_SHOWN];
    for (int i = 0; i < TENSOR_DIMS; i++)
        t->dim[i] = 1;
    for (size_t n = 0; st_next_member(&p->scan, &n);) {
        const char *key = p->scan.text.s ? p->scan.text.s : "";
        if (strcmp(key, "dtype") == 0)
            TRY(read_dtype(p, t, &x));
        else if (strcmp(key, "shape") == 0)
            TRY(read_shape(p, t, &x));
        else if (strcmp(key, "data_offsets") == 0)
            TRY(read_range(p, t, &x));
        else
            return bad(p, "tensor %s: have field %s, need dtype, shape and data_offsets only", shown(name, t),
                       name_show(field, p->scan.text.s, p->scan.text.n));
    }
    if (p->scan.fault)
        return bad_json(p);
    TRY(check_size(p, t, &x));
    *begin = x.begin;
    return GLIM_OK;
}

/* ---- the header ---- */

static glim_status add_tensor(struct parse *p)
{
    struct safetensors *s = p->s;
    size_t k = s->n_tensor - p->first;
    if (s->n_tensor >= ST_TENSOR_MAX)
        return bad(p, "have more than %d tensors, need fewer", ST_TENSOR_MAX);
    if (p->scan.text.n == 0)
        return bad(p, "header byte %zu: have a tensor without a name, need one", p->scan.at);
    void *a = s->tensor, *b = p->begin;
    bool room = mem_grow(&a, &s->tensor_cap, s->n_tensor, sizeof *s->tensor);
    s->tensor = a;
    room = room && mem_grow(&b, &p->begin_cap, k, sizeof *p->begin);
    p->begin = b;
    struct tensor *t = room ? &s->tensor[s->n_tensor] : NULL;
    if (t)
        *t = (struct tensor){.name = name_add(&s->names, p->scan.text.s, p->scan.text.n)};
    if (!t || !t->name)
        return err_nomem(p->e, "tensors of a safetensors file", (s->n_tensor + 1) * sizeof *t);
    TRY(read_entry(p, t, &p->begin[k]));
    s->n_tensor++;
    return GLIM_OK;
}

static glim_status read_entries(struct parse *p)
{
    bool has_metadata = false;
    for (size_t n = 0; st_next_member(&p->scan, &n);) {
        if (!p->scan.text.s || strcmp(p->scan.text.s, "__metadata__") != 0) {
            TRY(add_tensor(p));
            continue;
        }
        if (has_metadata)
            return bad(p, "have __metadata__ twice, need it once");
        has_metadata = true;
        if (!st_is(&p->scan, '{'))
            return bad(p, "__metadata__: have another kind of value, need an object");
        if (!st_skip(&p->scan))
            return bad_json(p);
    }
    if (p->scan.fault || !st_end(&p->scan))
        return bad_json(p);
    return GLIM_OK;
}

/* ---- ranges ---- */

static bool begins_after(const void *ctx, uint32_t a, uint32_t b)
{
    const struct parse *p = ctx;
    return p->begin[a] > p->begin[b];
}

/* In the order of their ranges, each tensor begins where the one before it ended, and the last ends with the data. */
static glim_status check_cover(struct parse *p, const struct tensor *t, const uint32_t *order, size_t n)
{
    char name[NAME_SHOWN], before[NAME_SHOWN];
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tensor *x = &t[order[i]];
        uint64_t begin = p->begin[order[i]];
        if (begin < at)
            return bad(p, "tensor %s overlaps %s: have offset %" PRIu64 ", need %" PRIu64, shown(name, x),
                       shown(before, &t[order[i - 1]]), begin, at);
        if (begin > at)
            return bad(p, "tensor %s: have a gap of %" PRIu64 " bytes before its offset %" PRIu64 ", need none",
                       shown(name, x), begin - at, begin);
        at = begin + x->bytes;
    }
    if (at < p->n_data)
        return bad(p, "have %" PRIu64 " bytes that belong to no tensor behind the last one, need 0", p->n_data - at);
    return GLIM_OK;
}

static glim_status place_tensors(struct parse *p)
{
    size_t n = p->s->n_tensor - p->first, last = 0;
    struct tensor *t = n > 0 ? p->s->tensor + p->first : NULL;
    uint64_t largest = 0;
    char name[NAME_SHOWN];
    for (size_t i = 0; i < n; i++) {
        uint64_t end = p->begin[i] + t[i].bytes; /* cannot wrap: it is the file's own "end" */
        if (end > largest) {
            largest = end;
            last = i;
        }
    }
    if (largest > p->n_data)
        return bad(p, "have %zu bytes of data, need %" PRIu64 " (where tensor %s ends): the file is cut short",
                   p->n_data, largest, shown(name, &t[last]));
    for (size_t i = 0; i < n; i++) {
        t[i].data = p->data + p->begin[i];
        t[i].map = p->f->map.data ? &p->f->map : NULL;
    }
    uint32_t *order = mem_alloc(n * sizeof *order);
    if (!order)
        return err_nomem(p->e, "order of tensors", n * sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    glim_status st = GLIM_OK;
    if (!sort_order(order, n, begins_after, p))
        st = err_nomem(p->e, "order of tensors", n * sizeof *order);
    else
        st = check_cover(p, t, order, n);
    mem_free(order);
    return st;
}

glim_status st_parse(struct safetensors *s, struct st_file *f, struct glim_err *e)
{
    struct parse p = {.s = s, .f = f, .first = s->n_tensor, .e = e};
    if (f->size < 8)
        return bad(&p, "length of its header: have %zu bytes, need 8: the file is cut short", f->size);
    uint64_t n = 0;
    memcpy(&n, f->p, sizeof n); /* little-endian, as the host */
    const char *guess = file_guess(f->p, f->size);
    if (n > ST_HEADER_MAX && guess)
        return bad(&p, "length of its header: have %s, need a safetensors file", guess);
    if (n > ST_HEADER_MAX)
        return bad(&p, "length of its header: have %" PRIu64 " bytes, need at most %d", n, ST_HEADER_MAX);
    if (n > f->size - 8)
        return bad(&p, "header: have %zu bytes, need %" PRIu64 ": the file is cut short", f->size - 8, n);
    if (n < 2 || f->p[8] != '{')
        return bad(&p, "header: have no object at its start, need '{'");
    p.scan = (struct st_scan){.p = f->p + 8, .n = n};
    p.data = f->p + 8 + n;
    p.n_data = f->size - 8 - n;
    glim_status st = read_entries(&p);
    if (st == GLIM_OK)
        st = place_tensors(&p);
    str_fini(&p.scan.text);
    mem_free(p.begin);
    return st;
}
