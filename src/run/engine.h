/* The engine's inside: engine.c is its life, its inbox and its thread; engine_step.c one step of that thread.
 *
 * Other threads leave tasks in the inbox, mark tasks as cancelled and order the end, under one lock that the engine's
 * thread takes for a moment at the beginning of a step. Everything else belongs to that thread. It calls back with no
 * lock held, so a callback may submit and cancel.
 *
 * A step: take what came in, end what is cancelled or late, admit what there is room for, let the scheduler choose
 * rows, run one forward over all of them, then let the crew judge the sequences side by side (masks, draws, verified
 * drafts, logprobs), and tell. A sequence's draws touch nothing but its own state, so who judges it cannot matter. */
#ifndef GLIM_RUN_ENGINE_H
#define GLIM_RUN_ENGINE_H

#include "run/drafter.h"
#include "run/gen.h"
#include "run/logprob.h"
#include "run/metrics.h"
#include "run/sched.h"
#include "run/session.h"

enum { ENGINE_DRAFT_MAX = 64 };

struct piece { /* a token that a step added to an answer */
    int32_t token;
    size_t text_end; /* its text ends there in gen.fresh */
};

struct seq {                /* one answer */
    struct sched_seq sched; /* first */
    struct task *task;
    uint32_t index;
    struct gen gen;
    struct drafter *drafter;
    int32_t draft[ENGINE_DRAFT_MAX]; /* of which sched.n_draft are proposed */
    uint32_t verified;               /* drafts of the forward under way */
    /* what the forward computes of it: rows from .row, logits from the row .logit, states from .state */
    uint32_t row, pos, logit, n_logit, state, n_state;
    /* what the step found */
    struct piece *piece; /* [n_piece] */
    size_t n_piece, cap_piece;
    struct glim_logprob *logprob; /* [cap_piece * (1 + n_logprob)] */
    uint32_t right;               /* drafts that were */
    glim_status status;
    struct glim_err err;
    /* what it keeps */
    uint32_t done_rows;          /* of the prompt, whose logprobs or states are taken */
    struct glim_logprob *prompt; /* [n_prompt - 1][1 + n_prompt_logprob], or NULL */
    double *pool;                /* [dim] sum of states; NULL */
    float *embedding;            /* [dim]; NULL */
    bool told_prompt;            /* that it is computed */
    double admitted_s, first_s, last_s;
    struct glim_usage usage;
};

struct task {
    uint64_t id;
    struct glim_task spec; /* request's lists are gone */
    uint32_t n_answer, n_left;
    atomic_bool cancelled;
    double submitted_s, deadline_s; /* 0: none */
    struct seq *seq;                /* [n_answer] */
    struct task *next;
};

struct glim_engine {
    const struct glim_model *model;
    struct crew *crew;
    struct kv kv;
    struct prefix prefix;
    struct sched sched;
    struct forward fwd;
    struct sampler **sampler; /* [crew size] */
    const struct drafter_kind *drafter;
    uint32_t n_ctx, max_rows, max_logits, draft_max;
    struct metrics metrics;
    /* the engine's thread */
    struct task *task;    /* all that have not ended */
    int32_t *token, *pos; /* [max_rows] */
    struct span *span;    /* [n_seq] */
    struct seq **judged;  /* [n_seq] sequences of the forward under way */
    uint32_t n_judged;
    uint32_t *logit_row, *state_row; /* [max_rows] */
    float *logits;                   /* f32 [max_logits, n_vocab] */
    float *state;                    /* f32 [max_rows, dim] */
    struct crew_queue work;
    double told_s; /* time that callbacks took in this step */
    /* the inbox */
    pthread_mutex_t lock;
    pthread_cond_t more, idle; /* something came in; nothing is left to do */
    struct task *in, **in_end;
    bool closing, stop; /* nothing more may come in; the thread ends when nothing is left */
    uint64_t last_id;
    uint32_t n_queued, max_queue; /* answers that were never admitted */
    double answer_s;              /* what an answer takes once admitted: a moving average */
    double step_s;                /* when the step under way began, or work came to an idle engine */
    bool has_thread;
    pthread_t thread;
};

double engine_now(void); /* seconds of the monotonic clock */
/* Set what the scheduler needs to know of a sequence that is going to wait. */
void engine_declare(struct seq *q);
/* The answer is over: q->status, and q->gen.finish unless that is an error. */
void engine_end(struct glim_engine *g, struct seq *q);
void engine_step(struct glim_engine *g);

#endif
