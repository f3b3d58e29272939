/* OpenSSL's SHA-256 and xxHash's XXH3 behind three-line functions. */
#include "base/hash.h"
#include "base/file.h"
#include "base/mem.h"

#include <openssl/evp.h>
#include <xxhash.h>

struct sha256_ctx {
    EVP_MD_CTX *md;
};

static glim_status sha_failed(struct glim_err *e, const char *step)
{
    return err_set(e, GLIM_FAILED, "cannot compute SHA-256: %s: the cryptography library refused", step);
}

glim_status sha256_begin(struct sha256_ctx **out, struct glim_err *e)
{
    struct sha256_ctx *c = mem_calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return err_nomem(e, "SHA-256 state", sizeof *c);
    c->md = EVP_MD_CTX_new();
    if (!c->md || EVP_DigestInit_ex(c->md, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(c->md);
        mem_free(c);
        return sha_failed(e, "begin");
    }
    *out = c;
    return GLIM_OK;
}

glim_status sha256_add(struct sha256_ctx *c, const void *p, size_t n, struct glim_err *e)
{
    return EVP_DigestUpdate(c->md, p, n) == 1 ? GLIM_OK : sha_failed(e, "add");
}

glim_status sha256_end(struct sha256_ctx *c, struct sha256 *out, struct glim_err *e)
{
    unsigned n = sizeof out->b;
    bool ok = EVP_DigestFinal_ex(c->md, out->b, &n) == 1;
    EVP_MD_CTX_free(c->md);
    mem_free(c);
    return ok ? GLIM_OK : sha_failed(e, "end");
}

/* A null digest type begins again with the state that is there. */
glim_status sha256_short(struct sha256_ctx *c, const void *p, size_t n, struct sha256 *out, struct glim_err *e)
{
    bool ok = EVP_DigestUpdate(c->md, p, n) == 1 && EVP_DigestFinal_ex(c->md, out->b, NULL) == 1;
    return EVP_DigestInit_ex(c->md, NULL, NULL) == 1 && ok ? GLIM_OK : sha_failed(e, "digest");
}

glim_status sha256_of(const void *p, size_t n, struct sha256 *out, struct glim_err *e)
{
    return EVP_Digest(p, n, out->b, NULL, EVP_sha256(), NULL) == 1 ? GLIM_OK : sha_failed(e, "digest");
}

/* The file is dropped from our memory chunk by chunk, so that hashing a large checkpoint does not push others out. */
static glim_status add_file(struct sha256_ctx *c, const char *path, struct glim_err *e)
{
    const size_t chunk = (size_t)16 << 20;
    struct file_map m;
    TRY(file_map_open(&m, path, e));
    glim_status st = GLIM_OK;
    for (size_t off = 0; off < m.size && st == GLIM_OK; off += chunk) {
        size_t n = m.size - off < chunk ? m.size - off : chunk;
        file_map_want(&m, off, n);
        st = sha256_add(c, m.data + off, n, e);
        file_map_drop(&m, off, n);
    }
    file_map_close(&m);
    return st;
}

glim_status sha256_file(const char *path, struct sha256 *out, struct glim_err *e)
{
    size_t n;
    TRY(file_size(path, &n, e));
    if (n == 0)
        return sha256_of("", 0, out, e);
    struct sha256_ctx *c;
    TRY(sha256_begin(&c, e));
    glim_status st = add_file(c, path, e);
    glim_status end = sha256_end(c, out, st == GLIM_OK ? e : NULL);
    return st != GLIM_OK ? st : end;
}

void sha256_hex(const struct sha256 *h, char out[65])
{
    static const char digit[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        out[2 * i] = digit[h->b[i] >> 4];
        out[2 * i + 1] = digit[h->b[i] & 15];
    }
    out[64] = 0;
}

uint64_t xxh3(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}
