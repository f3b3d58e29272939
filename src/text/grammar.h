/* Grammars: which bytes, and which tokens, may come next.
 *
 * A grammar is a context-free grammar over bytes. It is put together from nodes (struct grammar_builder), read from
 * GBNF text (grammar_gbnf), or made from a JSON Schema (schema.h), and compiled once (struct grammar, immutable, may
 * be shared by threads). A matcher joins a grammar to a vocabulary and keeps what was computed for both (one thread
 * at a time). A state is one text's position in a matcher: it takes tokens, gives the mask of the tokens that may
 * come next, and goes back by any number of tokens.
 *
 * Exact: a token is admitted if and only if the text so far, followed by the token's bytes, is the beginning of a
 * sentence; an end token if and only if the text so far is a sentence. Tokens may cut UTF-8 sequences. How it works,
 * and what bounds it: grammar_impl.h. What a limit stops ends in GLIM_REFUSED with a sentence, and admits nothing. */
#ifndef GLIM_TEXT_GRAMMAR_H
#define GLIM_TEXT_GRAMMAR_H

#include "text/dfa.h"

struct grammar;

#define GRAMMAR_MANY UINT32_MAX /* as a maximum: no maximum */

/* ---- building ----
 *
 * Nodes are numbers and form a DAG: a node may be used any number of times, and costs its size about once. Strings,
 * ranges and automata are copied. A call that cannot be done (no memory, a limit, a node that does not exist, a wrong
 * argument) makes the builder fail for good: it returns 0, every later call returns 0, and grammar_compile reports the
 * first failure. So only grammar_compile needs a check. */
struct grammar_limits {
    uint32_t n_node;  /* nodes, rules and bytes of text given to the builder */
    uint32_t n_state; /* states and edges of the compiled automaton */
    uint32_t depth;   /* nesting of nodes; a reference to a rule does not nest */
    size_t bytes;     /* of one matcher's caches and stacks; at least 1 MiB */
};
extern const struct grammar_limits grammar_limits_default;

typedef uint32_t grammar_node; /* 0 is no node */
struct grammar_builder;

struct code_range {
    uint32_t first, last; /* Unicode code points, both included */
};

/* limits: NULL = grammar_limits_default. Freed by grammar_builder_free, also after compiling. */
glim_status grammar_builder_create(struct grammar_builder **out, const struct grammar_limits *limits,
                                   struct glim_err *e);
void grammar_builder_free(struct grammar_builder *b);

grammar_node grammar_text(struct grammar_builder *b, const void *p, size_t n); /* n = 0: the empty text */
/* One character of (negated: of none of) the ranges, as UTF-8; surrogates are no characters. n = 0 and negated: any. */
grammar_node grammar_class(struct grammar_builder *b, const struct code_range *r, size_t n, bool negated);
grammar_node grammar_dfa(struct grammar_builder *b,
                         const struct dfa *d); /* the bytes that d accepts; equal ones share */
grammar_node grammar_seq(struct grammar_builder *b, const grammar_node *node, size_t n); /* n = 0: the empty text */
grammar_node grammar_alt(struct grammar_builder *b, const grammar_node *node, size_t n); /* n = 0: matches nothing */
/* min .. max times; max may be GRAMMAR_MANY. Counts cost nothing: {0,1000000} is as small as {0,10}. */
grammar_node grammar_repeat(struct grammar_builder *b, grammar_node node, uint32_t min, uint32_t max);

/* The rule of that name (bytes, at most 255), made if there is none. Define it once, before compiling. */
uint32_t grammar_rule(struct grammar_builder *b, const char *name, size_t n);
void grammar_define(struct grammar_builder *b, uint32_t rule, grammar_node node);
bool grammar_defined(const struct grammar_builder *b, uint32_t rule);
grammar_node grammar_ref(struct grammar_builder *b, uint32_t rule);

/* Refused, by rule name: a rule that is used and not defined; left recursion; a root that matches no text at all.
 * Alternatives that match nothing are left out. The grammar does not need the builder any more. */
glim_status grammar_compile(struct grammar **out, struct grammar_builder *b, uint32_t root, struct glim_err *e);
void grammar_free(struct grammar *g); /* NULL is fine; matchers of it must be gone */

/* GBNF as llama.cpp documents it; the root is the rule "root". Errors name line and column. Character classes hold
 * code points; \xHH, \uHHHH and \UHHHHHHHH are code points. `.` is any character, newline included. */
glim_status grammar_gbnf(struct grammar **out, const char *text, size_t n, struct glim_err *e);

/* ---- vocabulary ---- */
struct grammar_piece {
    const char *s; /* the token's bytes */
    uint32_t n;    /* 0: never admitted (control tokens), but for end tokens when the text is complete */
};
struct grammar_vocab; /* immutable; may be shared by threads */
/* piece[id] for n_piece ids; end: the ids that end a text (their bytes do not count). */
glim_status grammar_vocab_create(struct grammar_vocab **out, const struct grammar_piece *piece, size_t n_piece,
                                 const uint32_t *end, size_t n_end, struct glim_err *e);
void grammar_vocab_free(struct grammar_vocab *v);
size_t grammar_vocab_words(const struct grammar_vocab *v); /* uint64_t words of a mask: (n_piece + 63) / 64 */

/* ---- matching ---- */
struct grammar_matcher; /* g and v must outlive it */
glim_status grammar_matcher_create(struct grammar_matcher **out, const struct grammar *g, const struct grammar_vocab *v,
                                   struct glim_err *e);
void grammar_matcher_free(struct grammar_matcher *m); /* its states must be gone */

struct grammar_state; /* m must outlive it */
glim_status grammar_state_create(struct grammar_state **out, struct grammar_matcher *m, struct glim_err *e);
glim_status grammar_state_copy(struct grammar_state **out, const struct grammar_state *from, struct glim_err *e);
void grammar_state_free(struct grammar_state *s);
void grammar_state_reset(struct grammar_state *s); /* back to before the first token */

/* Take one token, or n bytes as one step. GLIM_REFUSED, and the state stays as it is, when it is not admitted. After
 * an end token nothing is admitted. */
glim_status grammar_accept(struct grammar_state *s, uint32_t id, struct glim_err *e);
glim_status grammar_accept_bytes(struct grammar_state *s, const void *p, size_t n, struct glim_err *e);
size_t grammar_taken(const struct grammar_state *s);          /* steps taken so far */
void grammar_rollback(struct grammar_state *s, size_t steps); /* at most grammar_taken */
bool grammar_can_end(const struct grammar_state *s);          /* the text so far is a sentence */

/* bits[i / 64] bit i % 64: token i may come next. All words are written; on failure all are 0. */
glim_status grammar_mask(struct grammar_state *s, uint64_t *bits, struct glim_err *e);
/* *id = the only token that may come next, or -1 when there are more (or none). */
glim_status grammar_forced(struct grammar_state *s, int64_t *id, struct glim_err *e);

#endif
