/* Regular expressions of ECMA-262 (what JSON Schema's `pattern` is written in) as automata over UTF-8.
 *
 * Known: characters, `.`, classes, \d \w \s \D \W \S with ECMA's meaning, \p{…} and \P{…} for the properties of
 * regex_property_names, groups (numbered, named, (?:…)), | * + ? {n} {n,} {n,m} and their lazy forms, ^ and $ anywhere
 * (start and end of the whole text), \t \n \v \f \r \0 \cX \xHH \uHHHH \u{…} and escaped punctuation, and lookaheads
 * (?=…) (?!…) where what follows them is the rest of the expression or of one of its top alternatives.
 * Refused by name: backreferences, \b and \B, lookbehinds, lookaheads elsewhere, flags, unknown properties.
 * The result is exact: the texts that the expression matches, no more and no fewer, of those that are valid UTF-8. */
#ifndef GLIM_TEXT_REGEX_H
#define GLIM_TEXT_REGEX_H

#include "text/grammar.h"

enum regex_match { REGEX_WHOLE, REGEX_ANYWHERE }; /* the whole text, or any part of it as JSON Schema has it */

enum { REGEX_MAX_BYTES = 1 << 16, REGEX_MAX_DEPTH = 200, REGEX_MAX_COUNT = 65535 };

/* A minimal automaton in fresh memory (dfa_free). GLIM_FAILED: malformed; GLIM_REFUSED: not supported or too large. */
glim_status regex_dfa(struct dfa **out, const char *pattern, size_t n, enum regex_match how, struct glim_err *e);
/* The texts that the pattern matches as a whole, as a grammar. */
glim_status regex_grammar(struct grammar **out, const char *pattern, size_t n, struct glim_err *e);
/* Every valid UTF-8 text. */
glim_status regex_any_text(struct dfa **out, struct glim_err *e);

extern const char regex_property_names[]; /* "Any, ASCII, L, …" */

#endif
