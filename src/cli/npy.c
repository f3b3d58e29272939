/* .npy: "\x93NUMPY", version, header length, a Python dict literal padded so that the data starts at a multiple of 64.
 */
#include "cli/npy.h"

#include "base/arith.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

static const char MAGIC[6] = "\x93NUMPY";
enum { ALIGN = 64 };

static glim_status shape_bytes(const char *what, uint32_t n_dim, const size_t *dim, size_t *bytes, struct glim_err *e)
{
    *bytes = sizeof(float);
    for (uint32_t i = 0; i < n_dim; i++)
        if (!mul_size(*bytes, dim[i], bytes) || *bytes > SIZE_MAX / 4)
            return err_set(e, GLIM_REFUSED, "%s: size: have more than 2^62 bytes, need less", what);
    return GLIM_OK;
}

/* "{'descr': '<f4', …}" with its prefix, padded; the header's bytes. */
static void put_header(struct str *s, uint32_t n_dim, const size_t *dim)
{
    struct str d = {0};
    str_puts(&d, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (uint32_t i = 0; i < n_dim; i++)
        str_printf(&d, n_dim == 1 ? "%zu," : i ? ", %zu" : "%zu", dim[i]);
    str_puts(&d, "), }");
    while ((10 + d.n + 1) % ALIGN != 0 && !d.failed)
        str_putc(&d, ' ');
    str_putc(&d, '\n');
    str_add(s, MAGIC, sizeof MAGIC);
    str_putc(s, 1);
    str_putc(s, 0);
    str_putc(s, (char)(d.n & 255));
    str_putc(s, (char)(d.n >> 8));
    str_add(s, d.s, d.n);
    s->failed |= d.failed;
    str_fini(&d);
}

glim_status npy_create(struct npy *a, const char *what, uint32_t n_dim, const size_t *dim, struct glim_err *e)
{
    size_t bytes;
    TRY(shape_bytes(what, n_dim, dim, &bytes, e));
    struct str head = {0};
    put_header(&head, n_dim, dim);
    a->header = head.n;
    a->bytes = bytes;
    a->n_dim = n_dim;
    memcpy(a->dim, dim, n_dim * sizeof *dim);
    a->block = head.failed ? NULL : mem_aligned(ALIGN, head.n + bytes);
    if (a->block) {
        memcpy(a->block, head.s, head.n);
        a->data = (float *)(void *)(a->block + head.n);
    }
    str_fini(&head);
    return a->block ? GLIM_OK : err_nomem(e, what, bytes);
}

glim_status npy_write(const struct npy *a, const char *path, struct glim_err *e)
{
    return file_write_atomic(path, a->block, a->header + a->bytes, e);
}

void npy_fini(struct npy *a)
{
    mem_free(a->block);
    *a = (struct npy){0};
}

/* ---- reading ---- */

static glim_status bad(const char *path, const char *have, const char *need, struct glim_err *e)
{
    return err_set(e, GLIM_FAILED, ".npy: %s: have %s, need %s", path, have, need);
}

/* "(3, 4)" after 'shape': into dim. */
static bool parse_shape(const char *p, const char *end, struct npy *a)
{
    if (p == end || *p++ != '(')
        return false;
    a->n_dim = 0;
    for (;;) {
        while (p < end && *p == ' ')
            p++;
        if (p < end && *p == ')')
            return a->n_dim > 0;
        size_t v = 0, digits = 0;
        for (; p < end && *p >= '0' && *p <= '9' && digits < 15; p++, digits++)
            v = v * 10 + (size_t)(*p - '0');
        if (digits == 0 || a->n_dim == NPY_DIMS)
            return false;
        a->dim[a->n_dim++] = v;
        while (p < end && *p == ' ')
            p++;
        if (p < end && *p == ',')
            p++;
        else if (p == end || *p != ')')
            return false;
    }
}

static glim_status parse_header(struct npy *a, const char *text, size_t n, const char *path, struct glim_err *e)
{
    const char *shape = memmem(text, n, "'shape': ", 9);
    if (!memmem(text, n, "'descr': '<f4'", 14))
        return bad(path, "another element type", "little-endian f32 ('<f4')", e);
    if (!memmem(text, n, "'fortran_order': False", 22))
        return bad(path, "Fortran order", "C order", e);
    if (!shape || !parse_shape(shape + 9, text + n, a))
        return bad(path, "an unreadable shape", "1 to 4 dimensions", e);
    return GLIM_OK;
}

glim_status npy_read(struct npy *a, const char *path, struct glim_err *e)
{
    size_t size, want;
    TRY(file_read(path, SIZE_MAX / 4, &a->block, &size, e));
    const uint8_t *p = (const uint8_t *)a->block;
    if (size < 12 || memcmp(p, MAGIC, sizeof MAGIC) != 0)
        return bad(path, "no .npy magic", "a .npy file", e);
    size_t n = (size_t)p[8] | (size_t)p[9] << 8, at = 10;
    if (p[6] >= 2) {
        n |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
        at = 12;
    }
    if (p[6] < 1 || p[6] > 3 || n > size - at)
        return bad(path, "a damaged header", "version 1, 2 or 3", e);
    TRY(parse_header(a, a->block + at, n, path, e));
    a->header = at + n;
    TRY(shape_bytes(path, a->n_dim, a->dim, &want, e));
    a->bytes = size - a->header;
    if (a->bytes != want)
        return err_set(e, GLIM_FAILED, ".npy: %s: have %zu bytes of data, need %zu", path, a->bytes, want);
    memmove(a->block, a->block + a->header, a->bytes); /* aligned for f32 */
    a->data = (float *)(void *)a->block;
    return GLIM_OK;
}
