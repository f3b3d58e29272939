/* The scheduler: which sequences are in work, and which rows of theirs the next forward computes.
 *
 * Sequences wait in a queue, are admitted to a slot when the pages they may come to need can be had, and leave it when
 * they end, are cancelled or have to give way. A step computes one row for every sequence that writes an answer, more
 * where drafts are verified, and beside them rows of prompts: as many as let the step end in the time aimed at. Half of
 * those go to the prompt that came first, so that each comes to its end; the others to the one that has least left, so
 * that a short one need not wait for a long one.
 *
 * Order of admission: priority, then arrival; whoever is passed over PASS times by later arrivals rises by one. The
 * first in that order is never passed over because it is large. Pages are held back in the full group for all tokens a
 * sequence may come to; with `overcommit` only for those it has, and when pages run out, the last admitted of the
 * lowest priority goes back to the queue. Its pages stay in the prefix cache while they can, and it goes on where it
 * was.
 *
 * No threads, no clock, no logits: what is decided depends on the calls alone. None of it reaches the bytes of an
 * answer. */
#ifndef GLIM_RUN_SCHED_H
#define GLIM_RUN_SCHED_H

#include "run/prefix.h"

enum sched_state { SCHED_OUT, SCHED_WAITING, SCHED_RUNNING };

struct sched_seq {
    /* the owner's */
    const int32_t *token; /* [n_most] of which n are known */
    uint32_t n, n_most;
    uint32_t n_reuse; /* most tokens it may take from the cache; less than n */
    uint32_t turn;    /* tokens before the last user turn, 0 unknown: its windows are worth keeping */
    uint32_t n_draft; /* guesses after token[n - 1] that wait for being verified */
    bool all_logits;  /* each row of the prompt takes one of the rows of logits */
    bool cache;       /* may read and leave pages there */
    int32_t priority;
    /* the scheduler's */
    enum sched_state state;
    uint64_t order;  /* of arrival; kept when it gives way */
    uint32_t passed; /* times a later arrival was admitted before it */
    uint32_t slot;
    uint32_t start;    /* n when it was admitted: positions before that are prefill */
    uint32_t n_cached; /* of those, taken from the cache */
    uint32_t rows;     /* of the coming forward: positions kv.len .. + rows, drafts last */
    uint32_t drafts;   /* of those, guesses */
    struct prefix_hold hold;
    struct sched_seq *next; /* in the queue */
};

struct sched_limits {
    uint32_t n_seq;      /* slots */
    uint32_t max_rows;   /* of a forward; at least n_seq */
    uint32_t max_logits; /* rows of logits of a forward; more than n_seq */
    uint32_t slot_rows;  /* of one sequence in a forward: what its windows have pages for */
    bool overcommit;
    double step_s; /* time of a step aimed at while answers are written */
};

struct sched {
    struct sched_limits limit;
    struct kv *kv;
    struct prefix *prefix;
    struct sha256 identity; /* of all prefixes */
    struct sched_seq **run; /* [n_run] in work, in order of admission */
    uint32_t n_run;
    uint32_t *slot, n_slot;  /* free ones */
    struct sched_seq *first; /* of the queue, in no order */
    uint32_t n_waiting;
    uint64_t arrivals, n_preempted;
    double decode_s, row_s; /* moving averages: a step without prompts, and a prompt's row beside it */
};

glim_status sched_create(struct sched *s, struct kv *kv, struct prefix *p, const struct sha256 *identity,
                         const struct sched_limits *l, struct glim_err *e);
void sched_fini(struct sched *s);

/* Refused: a sequence of so many tokens could never be admitted. */
glim_status sched_fits(const struct sched *s, uint32_t n_most, struct glim_err *e);
/* Into the queue, behind all others of its priority; first: before them. */
void sched_queue(struct sched *s, struct sched_seq *q, bool first);
/* The next that is admitted now, or NULL: n_cached of its tokens are in its slot. */
struct sched_seq *sched_admit(struct sched *s);
/* Decide the rows of the next forward and reserve their pages. Sequences that had to give way are then SCHED_WAITING.
 * Returns all rows; 0: there is nothing to do. */
uint32_t sched_plan(struct sched *s);
/* The rows of q are computed, and all but the last `wrong` of them (drafts) stand. q->n may have grown. */
void sched_advance(struct sched *s, struct sched_seq *q, uint32_t wrong);
/* q leaves its slot or the queue. keep: what it has computed is left to the cache. */
void sched_leave(struct sched *s, struct sched_seq *q, bool keep);
/* What the planned forward took. */
void sched_measure(struct sched *s, double seconds);

static inline bool sched_prefills(const struct sched *s, const struct sched_seq *q)
{
    return s->kv->len[q->slot] < q->start;
}
/* GLIM_FAILED, naming it, when an invariant of queue, slots, tree or pages does not hold (tests, debug builds). */
glim_status sched_check(const struct sched *s, struct glim_err *e);

#endif
