/* GGUF v2/v3: reader (single files and split sets) and writer.
 *
 * The reader trusts nothing: every count is bounded by the bytes left in the file before anything is allocated for it,
 * every size goes through checked arithmetic, every tensor's range is checked against its data section once, at open.
 * Errors name the key or tensor, what was found and what is needed. After gguf_open succeeds, every view is safe to
 * read. */
#ifndef GLIM_FORMAT_GGUF_H
#define GLIM_FORMAT_GGUF_H

#include "format/tensor.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
};

struct gguf_kv {
    const char *key; /* NUL-terminated */
    enum gguf_type type;
    enum gguf_type elem; /* of an array */
    uint64_t n;          /* elements of an array; bytes of a string; 1 otherwise */
    const uint8_t *data; /* little-endian values; a string's bytes; an array's first element */
    size_t bytes;        /* of data */
};

struct gguf;
/* path may be the first file of a split set ("…-00001-of-00003.gguf"); all parts are opened and their tensors merged.
 */
glim_status gguf_open(struct gguf **out, const char *path, struct glim_err *e);
void gguf_close(struct gguf *g);
uint32_t gguf_version(const struct gguf *g);
size_t gguf_n_kv(const struct gguf *g);
const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i);
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key); /* NULL when absent */
size_t gguf_n_tensor(const struct gguf *g);
const struct tensor *gguf_tensor_at(const struct gguf *g, size_t i);
const struct tensor *gguf_tensor(const struct gguf *g, const char *name); /* NULL when absent */

/* Typed reads of one kv. Any integer type is accepted where its value fits [min, max]; else an error naming the key. */
glim_status gguf_int(const struct gguf_kv *kv, int64_t min, int64_t max, int64_t *out, struct glim_err *e);
glim_status gguf_float(const struct gguf_kv *kv, double *out, struct glim_err *e); /* F32 or F64, finite */
glim_status gguf_bool(const struct gguf_kv *kv, bool *out, struct glim_err *e);
/* Not NUL-terminated: kv->n bytes at *s. */
glim_status gguf_string(const struct gguf_kv *kv, const char **s, size_t *n, struct glim_err *e);
/* Element i of an array of integers / floats (bounds and type checked). */
glim_status gguf_int_at(const struct gguf_kv *kv, uint64_t i, int64_t min, int64_t max, int64_t *out,
                        struct glim_err *e);
glim_status gguf_float_at(const struct gguf_kv *kv, uint64_t i, double *out, struct glim_err *e);
/* Walk an array of strings: *cursor starts at 0 and is advanced; false at the end. Call only when kv->elem is
 * GGUF_STRING. */
bool gguf_next_string(const struct gguf_kv *kv, size_t *cursor, const char **s, size_t *n);

/* ---- writer ---- */
struct gguf_writer;
glim_status gguf_writer_create(struct gguf_writer **w, struct glim_err *e);
glim_status gguf_put(struct gguf_writer *w, const struct gguf_kv *kv,
                     struct glim_err *e); /* any kv, as the reader gives it */
glim_status gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v, struct glim_err *e);
glim_status gguf_put_f32(struct gguf_writer *w, const char *key, float v, struct glim_err *e);
glim_status gguf_put_str(struct gguf_writer *w, const char *key, const char *v, struct glim_err *e);
/* data stays the caller's until gguf_write has returned. dim as in struct tensor. */
glim_status gguf_put_tensor(struct gguf_writer *w, const struct tensor *t, struct glim_err *e);
/* Atomic; version 3; aligned to 32 unless general.alignment was put. Refused: a key or a tensor name put twice. */
glim_status gguf_write(struct gguf_writer *w, const char *path, struct glim_err *e);
void gguf_writer_free(struct gguf_writer *w);

#endif
