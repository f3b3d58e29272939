/* Files put together by hand, byte by byte, so that tests can make them wrong in any way. */
#ifndef TESTS_FILE_BLOB_H
#define TESTS_FILE_BLOB_H

#include "format/gguf_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct blob {
    uint8_t *p;
    size_t n, cap;
};

static inline void blob_add(struct blob *b, const void *p, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n) + 64;
        b->p = realloc(b->p, b->cap);
        if (!b->p)
            abort();
    }
    if (n > 0)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void blob_u8(struct blob *b, uint8_t v)
{
    blob_add(b, &v, 1);
}

static inline void blob_u32(struct blob *b, uint32_t v)
{
    blob_add(b, &v, 4);
}

static inline void blob_u64(struct blob *b, uint64_t v)
{
    blob_add(b, &v, 8);
}

static inline void blob_zeros(struct blob *b, size_t n)
{
    while (n-- > 0)
        blob_u8(b, 0);
}

static inline void blob_pad(struct blob *b, size_t align)
{
    while (b->n % align != 0)
        blob_u8(b, 0);
}

static inline void blob_str(struct blob *b, const char *s)
{
    blob_u64(b, strlen(s));
    blob_add(b, s, strlen(s));
}

static inline void blob_free(struct blob *b)
{
    free(b->p);
    *b = (struct blob){0};
}

/* ---- GGUF ---- */

static inline void blob_header(struct blob *b, uint32_t version, uint64_t n_tensor, uint64_t n_kv)
{
    blob_add(b, "GGUF", 4);
    blob_u32(b, version);
    blob_u64(b, n_tensor);
    blob_u64(b, n_kv);
}

static inline void blob_key(struct blob *b, const char *key, uint32_t type)
{
    blob_str(b, key);
    blob_u32(b, type);
}

static inline void blob_key_u32(struct blob *b, const char *key, uint32_t v)
{
    blob_key(b, key, GGUF_U32);
    blob_u32(b, v);
}

/* A plausible value of this type, without its type number. */
static inline void blob_value(struct blob *b, uint32_t type)
{
    if (type == GGUF_STRING)
        blob_str(b, "text");
    else if (type == GGUF_F32)
        blob_u32(b, 0x3fc00000); /* 1.5 */
    else if (type == GGUF_F64)
        blob_u64(b, 0x3ff8000000000000); /* 1.5 */
    else {
        blob_u8(b, 1);
        blob_zeros(b, gguf_type_size((enum gguf_type)type) - 1);
    }
}

static inline void blob_array(struct blob *b, const char *key, uint32_t elem, uint64_t n)
{
    blob_key(b, key, GGUF_ARRAY);
    blob_u32(b, elem);
    blob_u64(b, n);
    for (uint64_t i = 0; i < n; i++)
        blob_value(b, elem);
}

/* dim: innermost first, as in the file. */
static inline void blob_tensor(struct blob *b, const char *name, uint32_t n_dim, const uint64_t *dim, uint32_t type,
                               uint64_t offset)
{
    blob_str(b, name);
    blob_u32(b, n_dim);
    for (uint32_t i = 0; i < n_dim; i++)
        blob_u64(b, dim[i]);
    blob_u32(b, type);
    blob_u64(b, offset);
}

/* A valid file of about 1.5 KB: a key of every type, an array of every type, four tensors of three types. */
static inline void blob_good_gguf(struct blob *b, uint32_t version)
{
    blob_header(b, version, 4, 1 + 12 + 12);
    blob_key(b, "general.architecture", GGUF_STRING);
    blob_str(b, "llama");
    for (uint32_t t = 0; t < GGUF_TYPE_COUNT; t++) {
        char key[32];
        if (t == GGUF_ARRAY)
            continue;
        snprintf(key, sizeof key, "one.%u", t);
        blob_key(b, key, t);
        blob_value(b, t);
        snprintf(key, sizeof key, "many.%u", t);
        blob_array(b, key, t, 3);
    }
    blob_tensor(b, "token_embd.weight", 2, (uint64_t[]){32, 3}, QT_Q8_0, 0); /* 102 bytes */
    blob_tensor(b, "blk.0.norm", 1, (uint64_t[]){5}, QT_F32, 128);
    blob_tensor(b, "blk.0.conv", 4, (uint64_t[]){2, 1, 3, 2}, QT_F16, 160); /* 24 bytes */
    blob_tensor(b, "scale", 0, NULL, QT_F32, 192);
    blob_pad(b, 32);
    for (int i = 0; i < 196; i++)
        blob_u8(b, (uint8_t)i);
}

/* ---- safetensors ---- */

/* A file of this header text and n_data bytes 0, 1, 2 … */
static inline void blob_safetensors(struct blob *b, const char *header, size_t n_data)
{
    blob_u64(b, strlen(header));
    blob_add(b, header, strlen(header));
    for (size_t i = 0; i < n_data; i++)
        blob_u8(b, (uint8_t)i);
}

#define BLOB_GOOD_SAFETENSORS                                                                                          \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                                           \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[2,26]},"                                               \
    "\"a\\u00e9\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"                                           \
    "\"c\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,2,1,3,1],\"data_offsets\":[26,32]}}  "
enum { BLOB_GOOD_SAFETENSORS_DATA = 32 };

/* ---- files ---- */

/* A new folder for a test's files; dir gets at least 64 bytes. */
static inline void blob_tmp_dir(char *dir)
{
    strcpy(dir, "/tmp/glim-test-XXXXXX");
    if (!mkdtemp(dir))
        abort();
}

static inline const char *blob_save(const struct blob *b, const char *dir, const char *name)
{
    static char path[8][160];
    static int turn;
    char *out = path[turn++ % 8];
    snprintf(out, sizeof *path, "%s/%s", dir, name);
    FILE *f = fopen(out, "wb");
    if (!f || fwrite(b->p, 1, b->n, f) != b->n || fclose(f) != 0)
        abort();
    return out;
}

static inline void blob_remove_dir(const char *dir)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    if (system(cmd) != 0)
        abort();
}

#endif
