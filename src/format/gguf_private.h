/* Inside the GGUF module: its structs, the parse of one file, and the open-from-memory that tests and fuzzers use. */
#ifndef GLIM_FORMAT_GGUF_PRIVATE_H
#define GLIM_FORMAT_GGUF_PRIVATE_H

#include "format/gguf.h"
#include "format/names.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF values are read in place: a little-endian host");

/* Limits of what a file may hold; far above any real checkpoint, and low enough that nothing hostile is slow. */
enum {
    GGUF_NAME_MAX = 65535, /* bytes of a key (the format's own limit) or of a tensor's name */
    GGUF_KV_MAX = 1 << 16,
    GGUF_TENSOR_MAX = 1 << 20,
    GGUF_DIMS = 4,
    GGUF_ALIGN_MIN = 8,
    GGUF_ALIGN_DEFAULT = 32,
    GGUF_ALIGN_MAX = 1 << 20,
    GGUF_SPLIT_MAX = 4096,
    GGUF_HEADER_BYTES = 24,     /* magic, version, tensor count, key count */
    GGUF_KV_MIN_BYTES = 14,     /* the shortest key: length, one letter, type, one byte */
    GGUF_TENSOR_MIN_BYTES = 25, /* the shortest tensor entry: length, one letter, 0 dims, type, offset */
};

/* One file of a set (most sets have one). */
struct gguf_file {
    struct gguf_file *next;
    struct file_map map; /* all zero when opened from memory */
    const uint8_t *p;
    size_t size;
    const char *path; /* for messages */
    uint32_t version;
    struct gguf_kv *kv;
    size_t n_kv, kv_cap;
    struct name_index kv_index;
    size_t first_tensor; /* where this file's tensors begin in gguf->tensor */
};

struct gguf {
    struct gguf_file *first;
    struct tensor *tensor;
    size_t n_tensor, tensor_cap;
    struct name_index tensor_index; /* built once all files are parsed */
    struct name_pool names;
};

/* How a tensor type lies in a file. fmt is NULL for the types that have no row in the format table: their size is
 * known, so the file can be opened, but they cannot be computed with. */
struct gguf_layout {
    const struct quant_format *fmt;
    const char *name;
    uint32_t type;
    uint32_t block_elems, block_bytes;
};
bool gguf_layout(uint32_t type, struct gguf_layout *l);
bool gguf_layout_by_name(const char *name, struct gguf_layout *l);
/* Bytes of a tensor of these dims (outermost first). On failure *why says what is wrong, as "have …, need …". */
bool gguf_tensor_bytes(const struct gguf_layout *l, const uint64_t *dim, uint32_t n_dim, size_t *bytes, char *why,
                       size_t why_n);

/* Bytes of one value on disk; 0 for strings, arrays and unknown types. */
size_t gguf_type_size(enum gguf_type t);
const char *gguf_type_name(enum gguf_type t); /* "u32", "string", … */
/* Bytes that n strings take at p (each a u64 length and its bytes); false when they do not fit avail. */
bool gguf_strings_bytes(const uint8_t *p, size_t avail, uint64_t n, size_t *bytes);
/* First byte of p[0, n) that is not 0 or 1, else -1. */
int gguf_bad_bool(const uint8_t *p, size_t n);

static inline uint32_t gguf_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t gguf_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Parse f (p, size and path set): its keys into f, its tensors appended to g->tensor. */
glim_status gguf_parse(struct gguf *g, struct gguf_file *f, struct glim_err *e);
/* A key of one file, NULL when absent. */
const struct gguf_kv *gguf_file_find(const struct gguf_file *f, const char *key);

/* Open a single file from memory that stays the caller's and unchanged until gguf_close; tensors get no map. */
glim_status gguf_open_memory(struct gguf **out, const void *p, size_t n, const char *name, struct glim_err *e);

#endif
