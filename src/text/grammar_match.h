/* Inside a matcher: positions of texts, and masks.
 *
 * A *frame* is the bottom of all texts, or a set of entries: where a rule was called from, and how many turns of it
 * must and may still follow. All calls of one rule at one place of a text share one frame, so the stacks of an
 * ambiguous text form a graph whose size does not multiply. A *thread* is a state and the frame of its rule; a *config*
 * is a set of threads: all that a position in a text means for what may follow. Frames and configs are kept once each
 * (equal ones have the same number), so a state is one number, a snapshot costs nothing, and what follows a byte is
 * remembered in a row of the config: the automaton is made deterministic as far as texts need it.
 *
 * Masks are remembered relative to a hole. A config is divided by the nearest wide frames below its threads; each of
 * these is replaced by the hole, and counts that are larger than the longest token are made endless. What the
 * vocabulary does in such a relative config is walked once: the tokens that it admits, and the trie nodes at which the
 * hole is reached with more bytes to come. These continue from the frame that the hole stands for, again relative to
 * the next hole: a mask is a few remembered sets joined, whatever lies on the stack, and exact. Tries are divided by
 * token length so that a nearly used up count concerns few tokens.
 *
 * Bounds: the bytes of all this (limits.bytes; what no state needs is dropped once, then the call is refused), and the
 * steps of one call (M_WORK_MAX). One thread at a time. */
#ifndef GLIM_TEXT_GRAMMAR_MATCH_H
#define GLIM_TEXT_GRAMMAR_MATCH_H

#include "text/grammar_impl.h"

/* ---- the vocabulary as tries (grammar_vocab.c) ---- */

enum { V_PART = 4, V_NONE = 0xFFFFFFFF, V_PIECE_MAX = 4096 };

/* What has more below: nodes, in depth-first order; those below node i are i + 1 .. skip - 1. What has nothing below
 * is a leaf of the node above it, and has no node. Tokens are ranked: first those that end at the node (`rank` on),
 * then its leaves (`leaf` on), then what is below its nodes (`inner` on, up to the rank of the node at skip). */
struct v_node {
    uint32_t skip;
    uint32_t rank, leaf, inner;
    uint16_t depth;
    uint16_t chars;  /* from the root to here; one that is cut, too */
    uint16_t height; /* characters of the longest way from here to what is below */
    uint8_t byte;
    uint64_t kinds; /* of what is below: bits 1 << kind; all if the node ends inside a character */
    uint64_t whole; /* of that and of the node's own byte; all if the node above ends inside a character */
};

struct grammar_vocab {
    size_t n_piece, n_word;
    struct v_node *node; /* and one after the last, for its rank */
    size_t n_node;
    uint32_t *ranked; /* by rank: the token, */
    uint16_t *chars;  /* its characters; one that is cut, too; */
    uint8_t *last;    /* and its last byte */
    size_t n_ranked;
    uint32_t root[V_PART], longest[V_PART]; /* trie of the tokens of at most `longest` bytes, and more than before */
    uint64_t *whole;                        /* [V_PART][n_word] its tokens */
    uint32_t *piece;                        /* [n_piece + 1] where a token's bytes begin in text */
    char *text;
    uint64_t *end; /* [n_word] */
};

/* Kinds of what tokens are made of: sorts of ASCII (most marks and blanks are a kind of their own) and characters of
 * more than one byte (perhaps cut at the token's end), by their first byte; and bytes that are no UTF-8. */
enum { V_KIND_BAD, V_KIND_LETTERS = 40, V_KINDS = 64 }; /* letters: g to z */
#define V_KINDS_GOOD (~((uint64_t)1 << V_KIND_BAD))
extern const struct v_kind {
    uint8_t first, last; /* bytes */
} v_kinds[V_KINDS];

/* The bytes that begin a longer character: which follow at once, and how many in all. */
enum { V_LEADS = 8 };
extern const struct v_lead {
    uint8_t first, last, lo, hi, more;
} v_leads[V_LEADS];

static inline bool bit_get(const uint64_t *w, size_t i)
{
    return w[i / 64] >> (i % 64) & 1;
}
static inline void bit_set(uint64_t *w, size_t i)
{
    w[i / 64] |= (uint64_t)1 << (i % 64);
}

/* ---- frames, threads, configs (grammar_pool.c) ---- */

enum { M_BOTTOM = 0, M_HOLE = 1 }; /* frames */
enum { M_FAILED = 0, M_DEAD = 1 }; /* configs: none (or not known yet); without threads */
enum { M_WORK_MAX = 1 << 22, M_SEEN = 256, M_HITS = 4096, M_RUNS = 512 };

struct m_entry {
    uint32_t rule, ret, parent; /* after the turns of `rule`, go on at ret in frame parent */
    uint32_t min, max;          /* turns, this one included */
};

struct m_frame {
    uint32_t first, n; /* entries */
    uint32_t pop;      /* the config after its rule is complete; M_FAILED = not known yet */
    bool wide;
};

struct m_config {
    uint32_t first, n;    /* threads */
    uint32_t row;         /* + 1; 0 = none yet */
    bool bottom, hole;    /* a thread is complete there */
    bool leaf;            /* and there is no other */
    uint16_t seen;        /* trie nodes below places that walks came to in it, up to M_SEEN: then kinds are tried */
    uint32_t then;        /* the config that follows whatever is of a free kind; M_FAILED = none tried */
    uint64_t tried, dead; /* kinds; those that nothing begins with here */
    uint64_t open;        /* free kinds, and those that may be: not tried yet */
};

/* A run: after `n` characters of some kinds, whichever they are, config has become `at`. It may go on from there. */
struct m_run {
    uint64_t kinds;
    uint32_t config, at; /* config M_FAILED: a free slot */
    uint16_t n;
    uint16_t first, last, holes; /* after how many characters the hole is reached, and how often */
    bool over;                   /* it does not go on, */
    bool none;                   /* and nothing of these kinds begins in `at` */
};

struct m_pending {
    uint32_t order, rule; /* rule: to be started */
    struct m_entry e;
};

struct m_range {
    uint32_t rank, n; /* of ranked tokens */
};

/* Where a walk reached the hole with more below: at a node (first = last = 0); or at this node and those below it that
 * are `first` to `last` characters from the root, and not inside one. */
struct m_pop_at {
    uint32_t node;
    uint16_t first, last;
};
enum { M_POP_WORDS = sizeof(struct m_pop_at) / sizeof(uint32_t) }; /* of a list */

struct m_memo {
    uint32_t first, n; /* of bits (dense); or of data: n ranges */
    uint32_t pops;     /* list number, of struct m_pop_at; 0 = the hole is not reached before a token's end */
    bool dense;
};

struct m_list {
    uint32_t first, n;
};

struct m_pair {
    uint32_t a, b;
};

struct grammar_matcher {
    const struct grammar *g;
    const struct grammar_vocab *v;
    uint32_t start; /* config before the first byte */

    struct m_frame *frame;
    size_t n_frame, cap_frame;
    struct m_entry *entry;
    size_t n_entry, cap_entry;
    struct m_config *config;
    size_t n_config, cap_config;
    uint64_t *thread; /* state << 32 | frame */
    size_t n_thread, cap_thread;
    uint32_t *row; /* [n_row][n_class] configs */
    size_t n_row, cap_row;
    struct g_table slot_frame, slot_config;

    /* one step */
    uint64_t *due, *out;
    size_t n_due, cap_due, n_out, cap_out;
    struct m_seen {
        uint64_t thread;
        uint32_t stamp;
    } * seen;
    size_t n_seen, cap_seen;
    uint32_t stamp;
    struct m_pending *heap;
    size_t n_heap, cap_heap;
    struct m_entry *set;
    size_t n_set, cap_set;

    /* masks */
    struct m_memo *memo;
    size_t n_memo, cap_memo;
    struct m_list *list; /* [0] is none; [1 + p] the root of trie p alone (struct m_pop_at) */
    size_t n_list, cap_list;
    uint32_t *data; /* of lists, ranges and divisions */
    size_t n_data, cap_data;
    uint64_t *bits;
    size_t n_bits, cap_bits;
    struct g_table slot_memo, slot_list, slot_divided;
    uint64_t *scratch;   /* [n_word], all zero between calls */
    uint64_t *forced;    /* [n_word] grammar_forced's mask; NULL until it is asked for */
    uint32_t *path;      /* [longest + 1] configs */
    struct m_range *hit; /* [M_HITS] what the running walk has admitted and not yet made bits */
    size_t n_hit;
    bool spilled;      /* there were more */
    struct m_run *run; /* [M_RUNS] by hash of config and kinds */
    struct m_pop_at *pops;
    uint32_t *group;
    size_t n_pops, cap_pops, n_group, cap_group;
    struct m_pair *work;
    size_t n_work, cap_work;

    size_t bytes;     /* of everything that grows */
    uint64_t steps;   /* of the running call */
    uint64_t give_up; /* dividing ends in failure when steps are more */
    glim_status why;  /* why the running call failed */
    struct grammar_state *states;
};

struct grammar_state {
    struct grammar_matcher *m;
    struct grammar_state *prev, *next;
    uint32_t *at; /* [n] configs: at[0] before the first step */
    size_t n, cap;
};

/* As mem_grow, for n elements and `more`, within the limit. */
bool m_room(struct grammar_matcher *m, void **arr, size_t *cap, size_t n, size_t more, size_t size);
bool m_table_room(struct grammar_matcher *m, struct g_table *t);

/* The frame of m->set's entries, which are reordered. M_FAILED does not exist here: false on failure. */
bool m_frame_of_set(struct grammar_matcher *m, bool wide, uint32_t *frame);
bool m_set_add(struct grammar_matcher *m, struct m_entry e);
/* One closure: begin, reach any states, end: the config. M_FAILED on failure (m->why). */
void m_begin(struct grammar_matcher *m);
void m_reach(struct grammar_matcher *m, uint32_t state, uint32_t frame);
uint32_t m_end(struct grammar_matcher *m);
/* The config of m->out's threads as they are. */
uint32_t m_config_of_out(struct grammar_matcher *m);
bool m_out_add(struct grammar_matcher *m, uint32_t state, uint32_t frame);

uint32_t m_step(struct grammar_matcher *m, uint32_t config, uint8_t cls); /* remembered; M_FAILED on failure */
bool m_row(struct grammar_matcher *m, uint32_t config);                   /* makes room for what is remembered */
uint32_t m_pop(struct grammar_matcher *m, uint32_t frame);

/* ---- states (grammar_match.c) ---- */

void m_calm(struct grammar_matcher *m); /* before a call's work, and before it is tried again */
glim_status m_failed(const struct grammar_matcher *m, struct glim_err *e); /* why it failed, as a sentence */
/* As grammar_accept_bytes, from where another state of the matcher is. */
glim_status g_accept_from(struct grammar_state *s, const struct grammar_state *from, const void *p, size_t n,
                          struct glim_err *e);

/* ---- walking tries (grammar_walk.c) ---- */
/* From trie node `top`, reached in `config`: the bits of the tokens below that are admitted, and, appended to m->pops,
 * the nodes with more below at which the hole is reached, unless all that is below is admitted anyway. */
bool m_walk(struct grammar_matcher *m, uint32_t config, uint32_t top, uint64_t *bits);
/* The same, but the last M_HITS ranges stay in m->hit; m_flush makes bits of them. */
bool m_walk_on(struct grammar_matcher *m, uint32_t config, uint32_t top, uint64_t *bits);
bool m_walk_from(struct grammar_matcher *m, uint32_t config, struct m_pop_at at, uint64_t *bits); /* the same */
void m_flush(struct grammar_matcher *m, uint64_t *bits);

/* ---- masks (grammar_mask.c) ---- */
bool m_mask(struct grammar_matcher *m, uint32_t config, uint64_t *bits);
bool m_mask_init(struct grammar_matcher *m);

/* ---- dropping what no state needs (grammar_gc.c) ---- */
bool m_collect(struct grammar_matcher *m);

#endif
