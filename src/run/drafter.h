/* Drafters guess the tokens that come next, so that one forward can check several.
 *
 * A guess is accepted only where it is the token that plain decoding draws, so a drafter can cost time but never
 * change an answer: whatever it proposes is right to verify, and proposing nothing is always allowed. One drafter
 * serves one sequence at a time and is used by one thread. What it does depends on the calls made to it since the last
 * reset and on nothing else. */
#ifndef GLIM_RUN_DRAFTER_H
#define GLIM_RUN_DRAFTER_H

#include "base/status.h"

struct drafter { /* a kind's own state begins with this */
    const struct drafter_kind *kind;
};

struct drafter_kind {
    const char *name;
    /* What create allocates for a sequence of up to n_ctx tokens; the other functions allocate nothing. */
    size_t (*bytes)(uint32_t n_ctx);
    glim_status (*create)(struct drafter **out, uint32_t n_ctx, struct glim_err *e);
    void (*free)(struct drafter *d); /* NULL is fine */
    /* Another sequence begins. */
    void (*reset)(struct drafter *d);
    /* Guess what follows prefix [n], the sequence's prompt and answer so far: out [max] gets the returned number of
     * tokens, at most max and n_ctx - n; 0 = no guess. Usually the prefix continues that of the last call; where it
     * was cut back or replaced, the drafter starts over with it. max = 0 only takes in what is new of the prefix: calls
     * beside a long prompt's chunks spread that cost. */
    uint32_t (*propose)(struct drafter *d, const int32_t *prefix, size_t n, uint32_t max, int32_t *out);
    /* Of the last proposal, so many tokens were verified and the first `accepted` of those were right. Not called
     * when none was verified. */
    void (*result)(struct drafter *d, uint32_t verified, uint32_t accepted);
};

/* Prompt lookup: the last occurrence earlier in the prefix of its last 3 tokens, else of its last 2, says what follows.
 * How many it proposes follows from how many were accepted; after misses it rests for a growing number of tokens. */
extern const struct drafter_kind drafter_ngram;

#endif
