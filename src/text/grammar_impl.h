/* Inside the grammar module: what the builder hands to the compiler, and the compiled automaton.
 *
 * The compiled grammar is a recursive transition network over bytes. A state has byte edges, or splits, or calls a
 * rule, or ends its rule. Three properties are made by the compiler and everything else rests on them:
 *
 *   - No rule matches the empty text. Where a rule or a repeated part may be empty, the caller goes round it. So a
 *     frame on the stack always stands for at least one byte to come, and a repetition never turns without reading.
 *   - No left recursion: the rules that a rule's first state may call have a topological order (struct g_rule).
 *   - Every state leads to its rule's end by some text. So a text whose states are not all gone is a beginning of a
 *     sentence, and a mask never admits what cannot be finished.
 *
 * A repetition {min,max} is a call that counts: its frame carries how many turns must and may still follow. Rules, and
 * parts that are used more than once, are compiled once and called.
 *
 * A rule is `wide` when its texts may be longer than G_WIDE bytes but not as short as one character: masks are
 * remembered per wide rule, whatever called it (grammar_mask.c). Every circle of recursive rules has one that is wide,
 * however short its texts may be. */
#ifndef GLIM_TEXT_GRAMMAR_IMPL_H
#define GLIM_TEXT_GRAMMAR_IMPL_H

#include "base/str.h"
#include "text/grammar.h"

enum { G_WIDE = 32, G_NAME_MAX = 255 };

/* ---- a hash table of numbers; what they stand for is the caller's (grammar_build.c) ---- */

struct g_slot {
    uint64_t hash;
    uint32_t number; /* 0 = free */
};
struct g_table {
    struct g_slot *slot;
    size_t n, cap;
};
bool g_table_room(struct g_table *t); /* for one more; before g_table_first */
/* The slots whose hash is `hash`, one after the other; a free one, to be filled by g_table_put, ends them. */
struct g_slot *g_table_first(const struct g_table *t, uint64_t hash);
struct g_slot *g_table_next(const struct g_table *t, struct g_slot *s, uint64_t hash);
void g_table_put(struct g_table *t, struct g_slot *s, uint64_t hash, uint32_t number);

/* ---- what the builder collects ---- */

enum g_kind { G_EMPTY, G_TEXT, G_CLASS, G_DFA, G_SEQ, G_ALT, G_REPEAT, G_REF };

/* Equal nodes are one node. Children have smaller numbers; a reference leads to its rule instead. */
struct g_node {
    uint8_t kind;
    uint16_t depth;
    /* TEXT: n bytes of text; CLASS: n numbers of data, first and last code points; SEQ, ALT, REPEAT: n children in
     * data; DFA, REF: n is the automaton or the rule */
    uint32_t first, n;
    uint32_t min, max; /* REPEAT */
};

struct g_rule_def {
    uint32_t name, n_name; /* in text */
    grammar_node node;     /* 0 = not defined */
    bool used;             /* there is a reference */
};

struct grammar_builder {
    struct grammar_limits limits;
    struct g_node *node; /* [0] is no node */
    size_t n_node, cap_node;
    uint32_t *data;
    size_t n_data, cap_data;
    char *text;
    size_t n_text, cap_text;
    struct g_rule_def *rule;
    size_t n_rule, cap_rule;
    struct dfa **dfa;
    size_t n_dfa, cap_dfa;
    struct g_table slot, slot_rule, slot_dfa; /* of node numbers; of rule and automaton numbers + 1 */
    struct glim_err err;                      /* the first failure; status GLIM_OK = none */
};

void g_dfa_free(struct dfa *d);
/* A copy in which what the start does not reach is dead, and so is what leads to no acceptance; NULL: no memory. */
struct dfa *g_dfa_trimmed(const struct dfa *d);
/* Remember the first failure; returns 0. */
grammar_node g_fail(struct grammar_builder *b, glim_status s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- the compiled automaton ---- */

enum g_state_kind {
    G_S_FAIL,  /* state 0: no text */
    G_S_END,   /* state 1: the rule is complete */
    G_S_EDGES, /* a, n: edges */
    G_S_SPLIT, /* a, n: data: states that are reached without a byte */
    G_S_CALL,  /* a: call */
    G_S_DFA    /* a: dfa, n: its state */
};

struct g_state {
    uint8_t kind;
    uint32_t a, n;
};

struct g_edge {
    uint8_t lo, hi;
    uint32_t to;
};

struct g_call {
    uint32_t rule, ret; /* go on at ret after min .. max turns, min >= 1 */
    uint32_t min, max;
};

struct g_rule {
    uint32_t start;
    uint32_t order; /* a rule's first states call only rules of higher order */
    bool wide;
};

struct grammar {
    struct grammar_limits limits;
    struct g_state *state;
    size_t n_state, cap_state;
    struct g_edge *edge;
    size_t n_edge, cap_edge;
    uint32_t *data;
    size_t n_data, cap_data;
    struct g_call *call;
    size_t n_call, cap_call;
    struct g_rule *rule;
    size_t n_rule, cap_rule;
    struct dfa **dfa; /* states that lead to no acceptance are dead */
    size_t n_dfa;
    uint32_t start;    /* of the whole text; its end is the text's end */
    uint8_t cls[256];  /* bytes that no state tells apart share a class */
    uint8_t byte[256]; /* one byte of each class */
    uint32_t n_class;
};

/* The byte sequences of one range of code points: at most G_SEQ_MAX, ascending; each byte range is disjoint from, or
 * equal to, that of its neighbour. Returns how many. */
enum { G_SEQ_MAX = 16 };
struct g_byte_seq {
    uint8_t n, lo[4], hi[4];
};
size_t g_utf8_range(uint32_t first, uint32_t last, struct g_byte_seq out[G_SEQ_MAX]);

/* Fill cls, byte and n_class. */
void g_classes(struct grammar *g);

#endif
