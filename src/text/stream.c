/* Two steps: bytes become whole UTF-8 sequences (what is invalid, U+FFFD), then those are searched for stop strings.
 *
 * Every stop string has its own Knuth-Morris-Pratt state, so a byte costs a few steps for each stop whatever was seen
 * before, and where tokens were cut cannot matter. What is held back is the longest beginning of a stop that the text
 * ends with. */
#include "text/stream.h"
#include "base/mem.h"

#include <string.h>

struct stop {
    char *s;
    size_t n, matched;
    size_t *back; /* [n]: length of the longest border of s[0..i] */
};

struct text_stream {
    struct stop *stop;
    size_t n_stop, which;
    struct str held; /* certain text that may still begin a stop */
    uint8_t tail[3]; /* beginning of a UTF-8 sequence */
    size_t n_tail;
    bool stopped;
};

static glim_status init_stop(struct stop *x, const char *s, size_t i, struct glim_err *e)
{
    x->n = s ? strlen(s) : 0;
    if (x->n == 0)
        return err_set(e, GLIM_USAGE, "cannot use stop string %zu: have an empty one, need at least one character", i);
    for (size_t at = 0, len; at < x->n; at += len) {
        uint32_t cp;
        len = (size_t)utf8_decode((const uint8_t *)s + at, x->n - at, &cp);
        if (len == 0)
            return err_set(e, GLIM_USAGE, "cannot use stop string %zu: have invalid UTF-8 at byte %zu, need UTF-8", i,
                           at);
    }
    x->s = mem_strndup(s, x->n);
    x->back = mem_calloc(x->n, sizeof *x->back);
    if (!x->s || !x->back)
        return err_nomem(e, "stop string", x->n * (1 + sizeof *x->back));
    for (size_t at = 1, k = 0; at < x->n; at++) {
        while (k && s[at] != s[k])
            k = x->back[k - 1];
        k += s[at] == s[k];
        x->back[at] = k;
    }
    return GLIM_OK;
}

glim_status text_stream_create(struct text_stream **out, const char *const *stop, size_t n_stop, struct glim_err *e)
{
    struct text_stream *s = mem_calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return err_nomem(e, "text stream", sizeof *s);
    s->stop = mem_calloc(n_stop, sizeof *s->stop);
    glim_status st = s->stop ? GLIM_OK : err_nomem(e, "stop strings", n_stop * sizeof *s->stop);
    s->n_stop = s->which = s->stop ? n_stop : 0;
    for (size_t i = 0; i < s->n_stop && st == GLIM_OK; i++)
        st = init_stop(&s->stop[i], stop[i], i, e);
    if (st != GLIM_OK) {
        text_stream_free(s);
        return st;
    }
    *out = s;
    return GLIM_OK;
}

void text_stream_free(struct text_stream *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_stop; i++) {
        mem_free(s->stop[i].s);
        mem_free(s->stop[i].back);
    }
    mem_free(s->stop);
    str_fini(&s->held);
    mem_free(s);
}

/* One byte on; true when the stop is complete. */
static bool advance(struct stop *x, char c)
{
    while (x->matched && x->s[x->matched] != c)
        x->matched = x->back[x->matched - 1];
    x->matched += x->s[x->matched] == c;
    return x->matched == x->n;
}

/* Hold back certain text; when a stop completes, drop it and what follows. Of stops that complete at the same byte the
 * longest began first. */
static void hold(struct text_stream *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n && !s->stopped; i++) {
        size_t cut = 0;
        str_putc(&s->held, p[i]);
        for (size_t k = 0; k < s->n_stop; k++)
            if (advance(&s->stop[k], p[i]) && s->stop[k].n > cut)
                cut = s->stop[s->which = k].n;
        if (cut && !s->held.failed) {
            s->held.n -= cut;
            s->stopped = true;
        }
    }
}

/* Give out all but the last `keep` held bytes. */
static glim_status give(struct text_stream *s, size_t keep, struct str *out, struct glim_err *e)
{
    if (s->held.failed || out->failed)
        return err_nomem(e, "text stream", s->held.n);
    size_t n = s->held.n - keep;
    str_add(out, s->held.s, n);
    if (out->failed)
        return err_nomem(e, "generated text", n);
    if (n) {
        memmove(s->held.s, s->held.s + n, keep);
        s->held.n = keep;
    }
    return GLIM_OK;
}

/* Length of the invalid sequence at p that one U+FFFD stands for: the longest beginning of a valid one, else one byte.
 */
static size_t invalid_len(const uint8_t *p, size_t n)
{
    for (size_t k = n < 3 ? n : 3; k > 1; k--)
        if (utf8_partial_tail(p, k) == k)
            return k;
    return 1;
}

/* Sequences that are whole go on; the beginning of one waits. final: nothing will follow, so it is invalid. */
static void decode(struct text_stream *s, const uint8_t *p, size_t n, bool final)
{
    s->n_tail = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t len = (size_t)utf8_decode(p + i, n - i, &cp);
        if (len > 0) {
            hold(s, (const char *)p + i, len);
        } else if (!final && utf8_partial_tail(p + i, n - i) == n - i) {
            len = n - i;
            memcpy(s->tail, p + i, len);
            s->n_tail = len;
        } else {
            len = invalid_len(p + i, n - i);
            hold(s, "\xEF\xBF\xBD", 3);
        }
        i += len;
    }
}

/* Finish the waiting sequence byte by byte, so that no copy of p is needed. */
static size_t feed_tail(struct text_stream *s, const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (s->n_tail && i < n) {
        uint8_t seq[4];
        size_t k = s->n_tail;
        memcpy(seq, s->tail, k);
        seq[k++] = p[i++];
        decode(s, seq, k, false);
    }
    return i;
}

glim_status text_stream_push(struct text_stream *s, const char *p, size_t n, struct str *out, bool *stopped,
                             struct glim_err *e)
{
    *stopped = s->stopped;
    if (s->stopped)
        return GLIM_OK;
    size_t i = feed_tail(s, (const uint8_t *)p, n);
    if (i < n)
        decode(s, (const uint8_t *)p + i, n - i, false);
    *stopped = s->stopped;
    size_t keep = 0;
    for (size_t k = 0; k < s->n_stop && !s->stopped; k++)
        if (s->stop[k].matched > keep)
            keep = s->stop[k].matched;
    return give(s, keep, out, e);
}

size_t text_stream_which(const struct text_stream *s)
{
    return s->which;
}

glim_status text_stream_end(struct text_stream *s, struct str *out, struct glim_err *e)
{
    if (s->stopped)
        return GLIM_OK;
    uint8_t tail[sizeof s->tail];
    memcpy(tail, s->tail, sizeof tail);
    decode(s, tail, s->n_tail, true);
    return give(s, 0, out, e);
}
