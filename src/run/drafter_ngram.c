/* Prompt lookup.
 *
 * Two hash tables, of the runs of 3 tokens and of those of 2, each with the place of the last occurrence that has
 * something behind it. A place is a key by what stands there: runs are compared in the prefix itself, so a collision
 * costs a probe and never a wrong guess. A call adds the runs that ended since the last one, O(1) a token; at most
 * PROBES slots are looked at, so that a prefix made to collide costs no more than any other (the place of an older run
 * is forgotten then). What followed the occurrence is copied on into what is being proposed, so that a repetition with
 * a short period is continued as far as asked.
 *
 * How many: `mean`, an average of how many were accepted in which the last counts half, gives the length, since
 * repetition begins and ends at once. After MISSES proposals in a row of which nothing was accepted, none is made for a
 * number of tokens that doubles each time until something is accepted.
 *
 * Limits: a prefix that was replaced is noticed by its length or by its last TAIL tokens before the old end. Where only
 * earlier tokens changed, a guess still follows a real occurrence in the new prefix, though perhaps not the last. */
#include "run/drafter.h"

#include "base/arith.h"
#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

enum { LONG_RUN = 3, SHORT_RUN = 2, PROBES = 32, TAIL = 8 };
enum { ONE = 256, FIRST_MEAN = 2 * ONE, MEAN_MAX = 64 * ONE }; /* of the average, in 1 / 256 tokens */
enum { MISSES = 3, REST_MIN = 16, REST_MAX = 1024 };           /* tokens */

struct table {
    uint32_t *place; /* [mask + 1] 1 + where the run begins; 0 = empty */
    uint32_t len;    /* of a run */
};

struct ngram {
    struct drafter base;
    uint32_t n_ctx;
    uint32_t mask; /* of both tables: slots are a power of two, at least 2 * n_ctx */
    struct table run[2];
    uint32_t n_indexed;  /* tokens whose runs are in the tables, but for those that end with the last token */
    int32_t tail[TAIL];  /* the last of them, to notice another prefix; tail[i % TAIL] is token i */
    uint32_t mean;       /* accepted tokens a proposal */
    uint32_t miss;       /* proposals in a row of which nothing was accepted */
    uint32_t rest;       /* tokens the next rest lasts */
    uint32_t rest_until; /* length of the prefix at which proposals begin again */
};

/* ---- life ---- */

static size_t slots_of(uint32_t n_ctx)
{
    size_t n = 64;
    while (n < 2 * (size_t)n_ctx)
        n *= 2;
    return n;
}

static size_t ngram_bytes(uint32_t n_ctx)
{
    return sizeof(struct ngram) + 2 * slots_of(n_ctx) * sizeof(uint32_t);
}

static void forget(struct ngram *g)
{
    for (int i = 0; i < 2; i++)
        memset(g->run[i].place, 0, ((size_t)g->mask + 1) * sizeof(uint32_t));
    g->n_indexed = 0;
    g->rest_until = 0;
}

static void ngram_reset(struct drafter *d)
{
    struct ngram *g = (struct ngram *)d;
    forget(g);
    g->mean = FIRST_MEAN;
    g->miss = 0;
    g->rest = REST_MIN;
}

static void ngram_free(struct drafter *d)
{
    struct ngram *g = (struct ngram *)d;
    if (!g)
        return;
    mem_free(g->run[0].place);
    mem_free(g->run[1].place);
    mem_free(g);
}

static glim_status ngram_create(struct drafter **out, uint32_t n_ctx, struct glim_err *e)
{
    *out = NULL;
    size_t slots = slots_of(n_ctx);
    if (slots > (size_t)UINT32_MAX + 1)
        return err_set(e, GLIM_REFUSED, "drafter: context: have %u tokens, need at most 2^31", n_ctx);
    struct ngram *g = mem_calloc(1, sizeof *g);
    if (!g)
        return err_nomem(e, "drafter", ngram_bytes(n_ctx));
    *g = (struct ngram){.base.kind = &drafter_ngram, .n_ctx = n_ctx, .mask = (uint32_t)(slots - 1)};
    g->run[0].len = LONG_RUN;
    g->run[1].len = SHORT_RUN;
    for (int i = 0; i < 2; i++)
        g->run[i].place = mem_alloc(slots * sizeof(uint32_t));
    if (!g->run[0].place || !g->run[1].place) {
        ngram_free(&g->base);
        return err_nomem(e, "drafter", ngram_bytes(n_ctx));
    }
    ngram_reset(&g->base);
    *out = &g->base;
    return GLIM_OK;
}

/* ---- the index ---- */

/* The slot of the run at prefix + at: the one that holds this run, or else an empty one, or else the first. */
static uint32_t *slot_of(const struct ngram *g, const struct table *t, const int32_t *prefix, uint32_t at)
{
    size_t bytes = t->len * sizeof *prefix;
    uint32_t home = (uint32_t)xxh3(prefix + at, bytes) & g->mask;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t *slot = &t->place[(home + i) & g->mask];
        if (*slot == 0 || memcmp(prefix + *slot - 1, prefix + at, bytes) == 0)
            return slot;
    }
    return &t->place[home];
}

/* True when prefix [n] goes on from what is indexed. */
static bool goes_on(const struct ngram *g, const int32_t *prefix, uint32_t n)
{
    if (n < g->n_indexed)
        return false;
    for (uint32_t i = g->n_indexed > TAIL ? g->n_indexed - TAIL : 0; i < g->n_indexed; i++)
        if (prefix[i] != g->tail[i % TAIL])
            return false;
    return true;
}

/* Index every run that ends before the last token, so that each has something behind it. */
static void catch_up(struct ngram *g, const int32_t *prefix, uint32_t n)
{
    if (!goes_on(g, prefix, n))
        forget(g);
    for (; g->n_indexed < n; g->n_indexed++) {
        uint32_t end = g->n_indexed; /* the token behind the runs to add */
        for (int i = 0; i < 2; i++)
            if (end >= g->run[i].len)
                *slot_of(g, &g->run[i], prefix, end - g->run[i].len) = end - g->run[i].len + 1;
        g->tail[end % TAIL] = prefix[end];
    }
}

/* Where the last tokens of prefix [n] occurred before: the place of what followed, 0 for nowhere. */
static uint32_t find(const struct ngram *g, const int32_t *prefix, uint32_t n)
{
    for (int i = 0; i < 2; i++) {
        uint32_t len = g->run[i].len;
        if (n <= len)
            continue;
        uint32_t place = *slot_of(g, &g->run[i], prefix, n - len);
        if (place != 0 && memcmp(prefix + place - 1, prefix + n - len, len * sizeof *prefix) == 0)
            return place - 1 + len;
    }
    return 0;
}

/* ---- proposals ---- */

static uint32_t ngram_propose(struct drafter *d, const int32_t *prefix, size_t n, uint32_t max, int32_t *out)
{
    struct ngram *g = (struct ngram *)d;
    if (n > g->n_ctx)
        return 0;
    uint32_t len = (uint32_t)n, most = 1 + g->mean * 3 / (2 * ONE);
    catch_up(g, prefix, len);
    most = most < max ? most : max;
    most = most < g->n_ctx - len ? most : g->n_ctx - len;
    if (most == 0 || len < g->rest_until)
        return 0;
    uint32_t from = find(g, prefix, len);
    if (from == 0)
        return 0;
    for (uint32_t i = 0; i < most; i++)
        out[i] = from + i < len ? prefix[from + i] : out[from + i - len];
    return most;
}

static void ngram_result(struct drafter *d, uint32_t verified, uint32_t accepted)
{
    struct ngram *g = (struct ngram *)d;
    uint32_t seen = accepted == verified ? 2 * accepted : accepted; /* all right: there may have been more */
    seen = seen < MEAN_MAX / ONE ? seen * ONE : MEAN_MAX;
    g->mean = (g->mean + seen) / 2;
    if (accepted > 0) {
        g->miss = 0;
        g->rest = REST_MIN;
    } else if (++g->miss == MISSES) {
        g->miss = 0;
        g->rest_until = g->n_indexed + g->rest;
        g->rest = g->rest < REST_MAX ? g->rest * 2 : REST_MAX;
    }
}

const struct drafter_kind drafter_ngram = {
    .name = "ngram",
    .bytes = ngram_bytes,
    .create = ngram_create,
    .free = ngram_free,
    .reset = ngram_reset,
    .propose = ngram_propose,
    .result = ngram_result,
};
