/* Opening a file that may be anything, from a block of exactly its size, and holding the answer against the promise: an
 * open file whose every byte may be read, or one sentence; little memory; little time. */
#ifndef TESTS_FILE_HOSTILE_H
#define TESTS_FILE_HOSTILE_H

#include "blob.h"
#include "format/safetensors_private.h"

#include <time.h>

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

/* Milliseconds of processor time for an answer; the sanitizers slow everything down. */
enum { HOSTILE_MS = UNDER_ASAN ? 1500 : 100 };

#define HOSTILE_SLOW "too slow"

static double hostile_slowest; /* ms of processor time of the slowest answer so far */

static inline double hostile_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static volatile uint64_t hostile_sink;

static inline void touch(const void *p, size_t n)
{
    const uint8_t *b = p;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += b[i];
    hostile_sink += sum;
}

static inline void touch_tensor(const struct tensor *t)
{
    touch(t->name, strlen(t->name));
    touch(t->data, t->bytes);
    hostile_sink += tensor_elems(t);
}

/* All typed reads of a key, right or wrong. */
static inline void touch_kv(const struct gguf_kv *kv)
{
    struct glim_err e;
    int64_t i = 0;
    double d = 0;
    bool b = false;
    const char *s = NULL;
    size_t n = 0, cursor = 0;
    touch(kv->key, strlen(kv->key));
    touch(kv->data, kv->bytes);
    (void)gguf_int(kv, 0, 100, &i, &e);
    (void)gguf_float(kv, &d, &e);
    (void)gguf_bool(kv, &b, &e);
    if (gguf_string(kv, &s, &n, &e) == GLIM_OK)
        touch(s, n);
    for (uint64_t k = 0; k < 4; k++) {
        uint64_t at = k < 3 ? k : UINT64_MAX;
        (void)gguf_int_at(kv, at, 0, 100, &i, &e);
        (void)gguf_float_at(kv, at, &d, &e);
    }
    if (kv->type == GGUF_ARRAY && kv->n > 0)
        (void)gguf_int_at(kv, kv->n - 1, 0, 100, &i, &e);
    for (uint64_t k = 0; gguf_next_string(kv, &cursor, &s, &n); k++)
        touch(s, n);
}

/* The sentence of a failure: there, one line, and not "out of memory", since no small file justifies a large block. */
static inline const char *sentence_fault(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_FAILED && st != GLIM_REFUSED)
        return "status is neither failed nor refused";
    if (e->status != st || strlen(e->message) < 10)
        return "no sentence";
    if (strpbrk(e->message, "\n\r\x1b"))
        return "control characters in the sentence";
    if (!strstr(e->message, "have ") || !strstr(e->message, "need "))
        return "the sentence does not say have and need";
    if (strncmp(e->message, "out of memory", 13) == 0)
        return "a small file made us ask for a large block";
    return NULL;
}

/* NULL, or what was wrong with the answer. *st gets the answer. */
static inline const char *hostile_gguf(const void *p, size_t n, glim_status *st)
{
    struct glim_err e = {0};
    struct gguf *g = NULL;
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    if (n)
        memcpy(copy, p, n);
    double t0 = hostile_ms();
    *st = gguf_open_memory(&g, copy, n, "hostile.gguf", &e);
    double ms = hostile_ms() - t0;
    const char *fault = *st == GLIM_OK ? NULL : sentence_fault(*st, &e);
    if (*st == GLIM_OK) {
        for (size_t i = 0; i < gguf_n_kv(g); i++)
            touch_kv(gguf_kv_at(g, i));
        for (size_t i = 0; i < gguf_n_tensor(g); i++)
            touch_tensor(gguf_tensor_at(g, i));
        gguf_close(g);
    } else if (g) {
        fault = "a file handed out although opening failed";
    }
    free(copy);
    if (ms > hostile_slowest)
        hostile_slowest = ms;
    return fault ? fault : ms > HOSTILE_MS ? HOSTILE_SLOW : NULL;
}

static inline const char *hostile_safetensors(const void *p, size_t n, glim_status *st)
{
    struct glim_err e = {0};
    struct safetensors *s = NULL;
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    if (n)
        memcpy(copy, p, n);
    double t0 = hostile_ms();
    *st = safetensors_open_memory(&s, copy, n, "hostile.safetensors", &e);
    double ms = hostile_ms() - t0;
    const char *fault = *st == GLIM_OK ? NULL : sentence_fault(*st, &e);
    if (*st == GLIM_OK) {
        for (size_t i = 0; i < safetensors_n_tensor(s); i++)
            touch_tensor(safetensors_tensor_at(s, i));
        safetensors_close(s);
    } else if (s) {
        fault = "a file handed out although opening failed";
    }
    free(copy);
    if (ms > hostile_slowest)
        hostile_slowest = ms;
    return fault ? fault : ms > HOSTILE_MS ? HOSTILE_SLOW : NULL;
}

static inline const char *hostile_index(const void *p, size_t n, glim_status *st)
{
    struct glim_err e = {0};
    struct st_index x = {0};
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    if (n)
        memcpy(copy, p, n);
    *st = st_index_parse(&x, copy, n, "hostile.json", &e);
    const char *fault = *st == GLIM_OK ? NULL : sentence_fault(*st, &e);
    for (size_t i = 0; i < x.n && *st == GLIM_OK; i++) {
        touch(x.entry[i].name, strlen(x.entry[i].name));
        if (strchr(x.entry[i].file, '/'))
            fault = "a shard outside the folder";
    }
    st_index_fini(&x);
    free(copy);
    return fault;
}

#endif
