/* Vocabularies for the tests of text: flat lists (tests/tools/vocab.py says how they look) as a tok_spec. */
#ifndef TEST_TEXT_VOCAB_H
#define TEST_TEXT_VOCAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/tokenizer.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SLOW_BUILD = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { SLOW_BUILD = 1 };
#else
enum { SLOW_BUILD = 0 };
#endif
#else
enum { SLOW_BUILD = 0 };
#endif

struct dump {
    char *buf;
    size_t n;
    struct tok_spec spec;
    struct tok_piece *piece;
    char model[32], pre[32];
};

static uint32_t dump_u32(const char **p)
{
    uint32_t v;
    memcpy(&v, *p, 4);
    *p += 4;
    return v;
}

static struct tok_piece dump_piece(const char **p)
{
    struct tok_piece s = {.n = dump_u32(p)};
    s.s = *p;
    *p += s.n;
    return s;
}

static void dump_name(const char **p, char *to, size_t cap)
{
    struct tok_piece s = dump_piece(p);
    assert_true(s.n < cap);
    memcpy(to, s.s, s.n);
    to[s.n] = 0;
}

/* Takes d->buf over as read. Types and scores may lie unaligned, so they are copied behind the pieces. */
static void dump_parse(struct dump *d)
{
    struct tok_spec *s = &d->spec;
    assert_true(d->n > 40 && memcmp(d->buf, "TVOC", 4) == 0);
    const char *p = d->buf + 4;
    dump_name(&p, d->model, sizeof d->model);
    dump_name(&p, d->pre, sizeof d->pre);
    s->model = d->model;
    s->pre = d->pre[0] ? d->pre : NULL;
    s->bos = (int32_t)dump_u32(&p);
    s->eos = (int32_t)dump_u32(&p);
    s->unk = (int32_t)dump_u32(&p);
    s->eot = -1;
    s->add_bos = (int8_t)dump_u32(&p);
    s->add_space_prefix = (int8_t)dump_u32(&p);
    s->add_eos = -1;
    s->n_token = dump_u32(&p);
    s->n_merge = dump_u32(&p);
    bool scores = dump_u32(&p);
    s->n_charsmap = dump_u32(&p);
    s->remove_extra_spaces = dump_u32(&p);
    size_t n = s->n_token;
    d->piece = mem_alloc((n + s->n_merge) * sizeof *d->piece + n * 8);
    assert_non_null(d->piece);
    int32_t *type = (int32_t *)(void *)(d->piece + n + s->n_merge);
    float *score = (float *)(void *)(type + n);
    for (size_t i = 0; i < n; i++)
        d->piece[i] = dump_piece(&p);
    memcpy(type, p, n * 4);
    p += n * 4;
    if (scores) {
        memcpy(score, p, n * 4);
        p += n * 4;
        s->score = score;
    }
    for (size_t i = 0; i < s->n_merge; i++)
        d->piece[n + i] = dump_piece(&p);
    s->token = d->piece;
    s->merge = d->piece + n;
    s->type = type;
    s->charsmap = (const uint8_t *)p;
    assert_true(p + s->n_charsmap == d->buf + d->n);
}

static inline void dump_file(struct dump *d, const char *path)
{
    struct glim_err e = {0};
    *d = (struct dump){0};
    if (file_read(path, (size_t)1 << 30, &d->buf, &d->n, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    dump_parse(d);
}

/* One of the GGUF vocabularies, rebuilt by tests/tools/vocab.py. */
static inline void dump_rebuilt(struct dump *d, const char *name)
{
    struct str all = {0};
    char command[512], chunk[65536];
    snprintf(command, sizeof command, "python3 '%s/../tools/vocab.py' dump %s", TEST_DATA, name);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        str_add(&all, chunk, n);
    if (pclose(f) != 0 || all.failed)
        fail_msg("vocab.py dump %s failed", name);
    *d = (struct dump){.buf = all.s, .n = all.n};
    dump_parse(d);
}

static inline void dump_fini(struct dump *d)
{
    mem_free(d->piece);
    mem_free(d->buf);
}

static inline struct tokenizer *open_spec(const struct tok_spec *s)
{
    struct glim_err e = {0};
    struct tokenizer *t = NULL;
    if (tok_open(&t, s, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return t;
}

/* "12 5 7": the ids of a text, in fresh memory. */
static inline char *ids_of(const struct tokenizer *t, const char *text, size_t n, int flags)
{
    struct glim_err e = {0};
    struct str s = {0};
    int32_t *id;
    size_t n_id;
    if (tok_encode(t, text, n, flags, &id, &n_id, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    str_puts(&s, "");
    for (size_t i = 0; i < n_id; i++)
        str_printf(&s, i ? " %d" : "%d", id[i]);
    mem_free(id);
    return s.s;
}

static inline void expect_ids(const struct tokenizer *t, const char *text, size_t n, int flags, const char *want)
{
    char *have = ids_of(t, text, n, flags);
    if (strcmp(have, want) != 0)
        fail_msg("%s: \"%.*s\"\n  have %s\n  need %s", tok_pre_name(t), (int)n, text, have, want);
    mem_free(have);
}

static inline void expect_round_trip(const struct tokenizer *t, const char *text, size_t n, int flags)
{
    struct glim_err e = {0};
    int32_t *id;
    size_t n_id, n_back = 0;
    char *back = NULL;
    if (tok_encode(t, text, n, flags, &id, &n_id, &e) != GLIM_OK ||
        tok_decode(t, id, n_id, true, &back, &n_back, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    if (n_back != n || memcmp(back, text, n) != 0)
        fail_msg("%s: %zu bytes came back as %zu: \"%.*s\" as \"%.*s\"", tok_pre_name(t), n, n_back, (int)n, text,
                 (int)n_back, back);
    mem_free(back);
    mem_free(id);
}

/* A text of up to 60 pieces: random bytes, characters of many scripts, emoji, runs of spaces, NULs. U+2581 does not
 * occur. */
static inline uint32_t next_random(uint64_t *x)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*x >> 33);
}

static inline void random_text(uint64_t *x, struct str *s)
{
    static const uint32_t first[] = {0x20,   0x61,    0xC0,    0x370,   0x410,   0x5D0,  0x620,
                                     0x905,  0xE01,   0x1100,  0x2010,  0x3041,  0x4E00, 0xAC00,
                                     0xFF01, 0x10400, 0x1F300, 0x1F1E6, 0x20000, 0xE0100};
    static const char *const word[] = {"the ",   " I'm", "don't",     "1234567",
                                       "\r\n",   " \n",  "\t\t",      "<|im_end|>",
                                       "<0x41>", "éà",   "e\xCC\x81", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80",
                                       "</s>",   "..."};
    char utf8[4];
    str_clear(s);
    str_puts(s, "");
    for (uint32_t n = next_random(x) % 60; n > 0; n--) {
        uint32_t kind = next_random(x) % 8, v = next_random(x);
        if (kind == 0)
            str_putc(s, (char)v);
        else if (kind == 1)
            for (uint32_t i = v % 40; i > 0; i--)
                str_putc(s, ' ');
        else if (kind == 2)
            str_putc(s, 0);
        else if (kind == 3)
            str_puts(s, word[v % (sizeof word / sizeof *word)]);
        else
            str_add(s, utf8, (size_t)utf8_encode(first[v % 20] + (v >> 8) % 80, utf8));
    }
}

#endif
