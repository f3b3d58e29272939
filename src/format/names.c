#include "format/names.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

/* ---- pool ---- */

enum { CHUNK_MIN = 512, CHUNK_MAX = 64 * 1024 };

struct name_chunk {
    struct name_chunk *before;
    size_t size, used;
    char s[];
};

/* Chunks double from a small one, so that a tiny file costs little and a large one few allocations. */
static struct name_chunk *chunk_for(struct name_pool *p, size_t need)
{
    struct name_chunk *last = p->last;
    if (last && last->size - last->used >= need)
        return last;
    size_t size = last ? last->size * 2 : CHUNK_MIN;
    if (size > CHUNK_MAX)
        size = CHUNK_MAX;
    if (size < need)
        size = need;
    struct name_chunk *c = mem_alloc(sizeof *c + size);
    if (!c)
        return NULL;
    *c = (struct name_chunk){.before = last, .size = size};
    p->last = c;
    return c;
}

const char *name_add(struct name_pool *p, const void *s, size_t n)
{
    if (n >= SIZE_MAX / 2)
        return NULL;
    struct name_chunk *c = chunk_for(p, n + 1);
    if (!c)
        return NULL;
    char *out = c->s + c->used;
    if (n > 0)
        memcpy(out, s, n);
    out[n] = '\0';
    c->used += n + 1;
    return out;
}

void name_pool_free(struct name_pool *p)
{
    while (p->last) {
        struct name_chunk *c = p->last;
        p->last = c->before;
        mem_free(c);
    }
}

/* ---- sort ---- */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool sort_order(uint32_t *v, size_t n, bool (*after)(const void *ctx, uint32_t a, uint32_t b), const void *ctx)
{
    uint32_t *other = mem_alloc(n * sizeof *other);
    if (!other)
        return false;
    uint32_t *from = v, *to = other;
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t first = 0; first < n; first += 2 * run) {
            size_t a = first, a_end = min_size(first + run, n);
            size_t b = a_end, b_end = min_size(first + 2 * run, n);
            for (size_t k = first; k < b_end; k++) {
                bool take_b = a == a_end || (b < b_end && after(ctx, from[a], from[b]));
                to[k] = take_b ? from[b++] : from[a++];
            }
        }
        uint32_t *t = from;
        from = to;
        to = t;
    }
    if (from != v)
        memcpy(v, from, n * sizeof *v);
    mem_free(other);
    return true;
}

/* ---- index ---- */

static const char *name_of(const struct name_index *x, size_t i)
{
    return *(const char *const *)(const void *)((const char *)x->base + i * x->stride);
}

static bool name_after(const void *ctx, uint32_t a, uint32_t b)
{
    return strcmp(name_of(ctx, a), name_of(ctx, b)) > 0;
}

glim_status name_index_build(struct name_index *x, const void *base, size_t n, size_t stride, size_t *dup,
                             struct glim_err *e)
{
    *x = (struct name_index){.n = n, .stride = stride, .base = base};
    *dup = SIZE_MAX;
    if (n > UINT32_MAX)
        return err_set(e, GLIM_REFUSED, "too many names to index: have %zu, need at most %u", n, UINT32_MAX);
    x->order = mem_alloc(n * sizeof *x->order);
    if (!x->order)
        return err_nomem(e, "index of names", n * sizeof *x->order);
    for (size_t i = 0; i < n; i++)
        x->order[i] = (uint32_t)i;
    if (!sort_order(x->order, n, name_after, x)) {
        name_index_fini(x);
        return err_nomem(e, "index of names", n * sizeof *x->order);
    }
    for (size_t i = 1; i < n && *dup == SIZE_MAX; i++)
        if (strcmp(name_of(x, x->order[i - 1]), name_of(x, x->order[i])) == 0)
            *dup = x->order[i];
    return GLIM_OK;
}

size_t name_index_find(const struct name_index *x, const char *name)
{
    size_t lo = 0, hi = x->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int d = strcmp(name_of(x, x->order[mid]), name);
        if (d == 0)
            return x->order[mid];
        if (d < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return SIZE_MAX;
}

void name_index_fini(struct name_index *x)
{
    mem_free(x->order);
    *x = (struct name_index){0};
}

/* ---- wrong files ---- */

const char *file_guess(const void *p, size_t n)
{
    static const struct {
        const char *start, *what;
    } row[] = {
        {"version https://git-lfs", "a Git LFS pointer, not the file itself"},
        {"<!DOCTYPE html", "a web page, not the file itself"},
        {"<html", "a web page, not the file itself"},
        {"PK\x03\x04", "a zip archive (a PyTorch checkpoint?)"},
        {"GGUF", "a GGUF file"},
        {"ggjt", "a file of the format before GGUF"},
        {"lmgg", "a file of the format before GGUF"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (n >= strlen(row[i].start) && memcmp(p, row[i].start, strlen(row[i].start)) == 0)
            return row[i].what;
    /* A header length below 16 MB and the brace that follows it. */
    const uint8_t *b = p;
    if (n > 9 && b[8] == '{' && b[3] == 0 && b[4] == 0 && b[5] == 0 && b[6] == 0 && b[7] == 0)
        return "a safetensors file";
    return NULL;
}

/* ---- names in sentences ---- */

enum { SHOW_HEAD = 64, SHOW_TAIL = 40 }; /* bytes kept of a long name; with "…" and the NUL they fit NAME_SHOWN */

/* Append what fits of s[0, n) before buf[end]; returns the new length. */
static size_t show_part(char *buf, size_t at, size_t end, const uint8_t *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int len = utf8_decode(s + i, n - i, &cp);
        bool plain = len > 0 && cp >= 0x20 && (cp < 0x7f || cp > 0x9f);
        size_t take = plain ? (size_t)len : 4;
        if (at + take > end)
            break;
        if (plain) {
            memcpy(buf + at, s + i, take);
            i += take;
        } else {
            char hex[5];
            snprintf(hex, sizeof hex, "\\x%02x", s[i]);
            memcpy(buf + at, hex, take);
            i++;
        }
        at += take;
    }
    return at;
}

const char *name_show(char buf[NAME_SHOWN], const void *s, size_t n)
{
    const uint8_t *p = s;
    size_t at = 0;
    if (n <= SHOW_HEAD + SHOW_TAIL) {
        at = show_part(buf, 0, NAME_SHOWN - 1, p, n);
    } else {
        at = show_part(buf, 0, SHOW_HEAD, p, SHOW_HEAD);
        memcpy(buf + at, "...", 3);
        const uint8_t *tail = p + n - SHOW_TAIL;
        size_t skip = 0;
        while (skip < 3 && (tail[skip] & 0xC0) == 0x80) /* do not begin inside a UTF-8 sequence */
            skip++;
        at = show_part(buf, at + 3, NAME_SHOWN - 1, tail + skip, SHOW_TAIL - skip);
    }
    buf[at] = '\0';
    return buf;
}
