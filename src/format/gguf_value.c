/* Types and values: the sizes of key and tensor types, and typed reads of a key.
 *
 * A typed read never converts silently: an integer of any width is an integer, a float is a float, and anything else is
 * an error that names the key, what it holds and what was wanted. */
#include "format/gguf_private.h"

#include "base/arith.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- key types ---- */

static const struct {
    const char *name;
    uint8_t size;
} key_type[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {"u8", 1},   [GGUF_I8] = {"i8", 1},         [GGUF_U16] = {"u16", 2},     [GGUF_I16] = {"i16", 2},
    [GGUF_U32] = {"u32", 4}, [GGUF_I32] = {"i32", 4},       [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"boolean", 1},
    [GGUF_U64] = {"u64", 8}, [GGUF_STRING] = {"string", 0}, [GGUF_ARRAY] = {"array", 0}, [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

size_t gguf_type_size(enum gguf_type t)
{
    return (unsigned)t < GGUF_TYPE_COUNT ? key_type[t].size : 0;
}

const char *gguf_type_name(enum gguf_type t)
{
    return (unsigned)t < GGUF_TYPE_COUNT ? key_type[t].name : "unknown";
}

bool gguf_strings_bytes(const uint8_t *p, size_t avail, uint64_t n, size_t *bytes)
{
    size_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (avail - at < 8)
            return false;
        uint64_t len = gguf_u64(p + at);
        at += 8;
        if (len > avail - at)
            return false;
        at += len;
    }
    *bytes = at;
    return true;
}

int gguf_bad_bool(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] > 1)
            return p[i];
    return -1;
}

/* ---- tensor types ---- */

/* Types that files may hold and the format table has no row for: name, number, elements and bytes of a block. */
static const struct gguf_layout size_only[] = {
    {NULL, "IQ2_XXS", 16, 256, 66}, {NULL, "IQ2_XS", 17, 256, 74}, {NULL, "IQ3_XXS", 18, 256, 98},
    {NULL, "IQ1_S", 19, 256, 50},   {NULL, "IQ3_S", 21, 256, 110}, {NULL, "IQ2_S", 22, 256, 82},
    {NULL, "I16", 25, 1, 2},        {NULL, "I64", 27, 1, 8},       {NULL, "F64", 28, 1, 8},
    {NULL, "IQ1_M", 29, 256, 56},   {NULL, "TQ1_0", 34, 256, 54},  {NULL, "TQ2_0", 35, 256, 66},
    {NULL, "Q1_0", 41, 128, 18},
};

static bool layout_of(const struct quant_format *f, struct gguf_layout *l)
{
    if (f)
        *l = (struct gguf_layout){f, f->name, (uint32_t)f->type, f->block_elems, f->block_bytes};
    return f != NULL;
}

bool gguf_layout(uint32_t type, struct gguf_layout *l)
{
    if (layout_of(quant_format(type), l))
        return true;
    for (size_t i = 0; i < sizeof size_only / sizeof *size_only; i++)
        if (size_only[i].type == type) {
            *l = size_only[i];
            return true;
        }
    return false;
}

bool gguf_layout_by_name(const char *name, struct gguf_layout *l)
{
    if (layout_of(quant_by_name(name), l))
        return true;
    for (size_t i = 0; i < sizeof size_only / sizeof *size_only; i++)
        if (strcmp(size_only[i].name, name) == 0) {
            *l = size_only[i];
            return true;
        }
    return false;
}

bool gguf_tensor_bytes(const struct gguf_layout *l, const uint64_t *dim, uint32_t n_dim, size_t *bytes, char *why,
                       size_t why_n)
{
    uint64_t row = n_dim > 0 ? dim[n_dim - 1] : 1, elems = 1, n_block = 0;
    if (row % l->block_elems != 0) {
        snprintf(why, why_n, "have rows of %" PRIu64 " elements, need a multiple of %u (%s blocks)", row,
                 l->block_elems, l->name);
        return false;
    }
    bool fits = true;
    for (uint32_t i = 0; i < n_dim && fits; i++)
        fits = mul_u64(elems, dim[i], &elems);
    n_block = elems / l->block_elems; /* exact: rows are whole blocks */
    if (!fits || !mul_size(n_block, l->block_bytes, bytes)) {
        snprintf(why, why_n, "have dimensions whose product passes 64 bits, need a size that a file can have");
        return false;
    }
    return true;
}

/* ---- typed reads ---- */

/* "bad GGUF key: <key>: have <type>, need <want>" */
static glim_status wrong_type(const struct gguf_kv *kv, const char *want, struct glim_err *e)
{
    char key[NAME_SHOWN];
    bool array = kv->type == GGUF_ARRAY;
    return err_set(e, GLIM_FAILED, "bad GGUF key: %s: have %s%s, need %s", name_show(key, kv->key, strlen(kv->key)),
                   array ? "an array of " : "type ", gguf_type_name(array ? kv->elem : kv->type), want);
}

/* Sign and magnitude of one stored integer; false when t is not an integer type. */
static bool load_int(enum gguf_type t, const uint8_t *p, bool *negative, uint64_t *magnitude)
{
    int64_t s = 0;
    uint64_t u = 0;
    switch (t) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        memcpy(&u, p, key_type[t].size);
        break;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64: {
        unsigned unused = 64 - 8u * key_type[t].size;
        memcpy(&u, p, key_type[t].size);
        s = (int64_t)(u << unused) >> unused; /* sign-extend */
        u = s < 0 ? 0 - (uint64_t)s : (uint64_t)s;
        break;
    }
    case GGUF_F32:
    case GGUF_BOOL:
    case GGUF_STRING:
    case GGUF_ARRAY:
    case GGUF_F64:
    case GGUF_TYPE_COUNT:
        return false;
    }
    *negative = s < 0;
    *magnitude = u;
    return true;
}

static glim_status take_int(const struct gguf_kv *kv, enum gguf_type t, const uint8_t *p, int64_t min, int64_t max,
                            int64_t *out, struct glim_err *e)
{
    bool negative = false;
    uint64_t u = 0;
    if (!load_int(t, p, &negative, &u))
        return wrong_type(kv, "an integer", e);
    bool fits = negative || u <= INT64_MAX;
    int64_t v = negative ? (int64_t)(0 - u) : (int64_t)u;
    if (!fits || v < min || v > max) {
        char key[NAME_SHOWN];
        return err_set(e, GLIM_FAILED, "bad GGUF key: %s: have %s%" PRIu64 ", need %" PRId64 " to %" PRId64,
                       name_show(key, kv->key, strlen(kv->key)), negative ? "-" : "", u, min, max);
    }
    *out = v;
    return GLIM_OK;
}

static glim_status take_float(const struct gguf_kv *kv, enum gguf_type t, const uint8_t *p, double *out,
                              struct glim_err *e)
{
    double v = 0;
    if (t == GGUF_F32) {
        float f = 0;
        memcpy(&f, p, sizeof f);
        v = (double)f;
    } else if (t == GGUF_F64) {
        memcpy(&v, p, sizeof v);
    } else {
        return wrong_type(kv, "a float (f32 or f64)", e);
    }
    if (!isfinite(v)) {
        char key[NAME_SHOWN];
        return err_set(e, GLIM_FAILED, "bad GGUF key: %s: have %s, need a finite number",
                       name_show(key, kv->key, strlen(kv->key)), isnan(v) ? "NaN" : "infinity");
    }
    *out = v;
    return GLIM_OK;
}

/* Address of element i of an array of fixed-size elements. */
static glim_status element(const struct gguf_kv *kv, uint64_t i, const char *want, const uint8_t **p,
                           struct glim_err *e)
{
    size_t size = gguf_type_size(kv->elem);
    if (kv->type != GGUF_ARRAY || size == 0)
        return wrong_type(kv, want, e);
    if (i >= kv->n) {
        char key[NAME_SHOWN];
        return err_set(e, GLIM_FAILED, "bad GGUF key: %s: have %" PRIu64 " elements, need at least %" PRIu64,
                       name_show(key, kv->key, strlen(kv->key)), kv->n, i == UINT64_MAX ? i : i + 1);
    }
    *p = kv->data + i * size;
    return GLIM_OK;
}

glim_status gguf_int(const struct gguf_kv *kv, int64_t min, int64_t max, int64_t *out, struct glim_err *e)
{
    return take_int(kv, kv->type, kv->data, min, max, out, e);
}

glim_status gguf_float(const struct gguf_kv *kv, double *out, struct glim_err *e)
{
    return take_float(kv, kv->type, kv->data, out, e);
}

glim_status gguf_bool(const struct gguf_kv *kv, bool *out, struct glim_err *e)
{
    if (kv->type != GGUF_BOOL)
        return wrong_type(kv, "a boolean", e);
    *out = kv->data[0] != 0;
    return GLIM_OK;
}

glim_status gguf_string(const struct gguf_kv *kv, const char **s, size_t *n, struct glim_err *e)
{
    if (kv->type != GGUF_STRING)
        return wrong_type(kv, "a string", e);
    *s = (const char *)kv->data;
    *n = kv->n;
    return GLIM_OK;
}

glim_status gguf_int_at(const struct gguf_kv *kv, uint64_t i, int64_t min, int64_t max, int64_t *out,
                        struct glim_err *e)
{
    const uint8_t *p = NULL;
    TRY(element(kv, i, "an array of integers", &p, e));
    return take_int(kv, kv->elem, p, min, max, out, e);
}

glim_status gguf_float_at(const struct gguf_kv *kv, uint64_t i, double *out, struct glim_err *e)
{
    const uint8_t *p = NULL;
    TRY(element(kv, i, "an array of floats", &p, e));
    return take_float(kv, kv->elem, p, out, e);
}

bool gguf_next_string(const struct gguf_kv *kv, size_t *cursor, const char **s, size_t *n)
{
    if (kv->type != GGUF_ARRAY || kv->elem != GGUF_STRING || *cursor >= kv->bytes)
        return false;
    const uint8_t *p = kv->data + *cursor;
    *n = gguf_u64(p); /* lengths were checked at open */
    *s = (const char *)p + 8;
    *cursor += 8 + *n;
    return true;
}
