/* What the tests of schemas share: the cases of tests/data/schemas, and a text's way through a grammar byte by byte.
 * If the vocabulary here were wrong, sentences could not be ended or bytes not be told apart. */
#ifndef TEST_TEXT_SCHEMA_H
#define TEST_TEXT_SCHEMA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The files of tests/data/schemas: lists of cases {name, schema, and either `refused`: a part of the message, or
 * valid, invalid: values in their canonical spelling, accepts, rejects: texts}. */
static const char *const case_file[] = {"types",   "numbers", "strings", "formats", "arrays",
                                        "objects", "combine", "refs",    "real"};
enum { N_CASE_FILE = sizeof case_file / sizeof *case_file };

/* A grammar over the 256 bytes as tokens, and one end token. */
struct bytes_grammar {
    struct grammar *grammar;
    struct grammar_vocab *vocab;
    struct grammar_matcher *matcher;
    struct grammar_state *state;
};
enum { END_TOKEN = 256, N_TOKEN = 257 };

static inline void bytes_close(struct bytes_grammar *g)
{
    grammar_state_free(g->state);
    grammar_matcher_free(g->matcher);
    grammar_vocab_free(g->vocab);
    grammar_free(g->grammar);
    *g = (struct bytes_grammar){0};
}

/* Takes the grammar. */
static inline glim_status bytes_open(struct bytes_grammar *g, struct grammar *grammar, struct glim_err *e)
{
    static char byte[256];
    struct grammar_piece piece[N_TOKEN];
    uint32_t end = END_TOKEN;
    for (int i = 0; i < 256; i++) {
        byte[i] = (char)i;
        piece[i] = (struct grammar_piece){&byte[i], 1};
    }
    piece[END_TOKEN] = (struct grammar_piece){"", 0};
    *g = (struct bytes_grammar){.grammar = grammar};
    glim_status st = grammar_vocab_create(&g->vocab, piece, N_TOKEN, &end, 1, e);
    if (st == GLIM_OK)
        st = grammar_matcher_create(&g->matcher, grammar, g->vocab, e);
    if (st == GLIM_OK)
        st = grammar_state_create(&g->state, g->matcher, e);
    if (st != GLIM_OK)
        bytes_close(g);
    return st;
}

static inline bool bytes_accept(struct bytes_grammar *g, const char *p, size_t n)
{
    struct glim_err e = {0};
    grammar_state_reset(g->state);
    return (n == 0 || grammar_accept_bytes(g->state, p, n, &e) == GLIM_OK) && grammar_can_end(g->state);
}

static inline glim_status schema_open(struct bytes_grammar *g, const json_t *schema, enum schema_space space,
                                      struct glim_err *e)
{
    struct schema_opts opts = {.space = space};
    struct grammar *grammar;
    *g = (struct bytes_grammar){0};
    TRY(schema_compile(&grammar, schema, &opts, e));
    return bytes_open(g, grammar, e);
}

static inline uint32_t walk_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* A random sentence: any byte that may come, and after a while those that bring the end near. False: a dead end, or a
 * failure (*e). */
static inline bool walk_sentence(struct bytes_grammar *g, uint64_t *seed, struct str *out, struct glim_err *e)
{
    static const char closing[] = "]},:0an1e-2b_sozAZ9@./";
    uint64_t bits[(N_TOKEN + 63) / 64];
    str_clear(out);
    grammar_state_reset(g->state);
    for (size_t soft = 8 + walk_random(seed) % 64;;) {
        uint32_t may[256], n = 0, pick;
        if (grammar_mask(g->state, bits, e) != GLIM_OK)
            return false;
        for (uint32_t i = 0; i < 256; i++)
            if (bits[i / 64] >> (i % 64) & 1)
                may[n++] = i;
        bool done = bits[END_TOKEN / 64] >> (END_TOKEN % 64) & 1;
        if (done && (!n || walk_random(seed) % 2 || out->n > soft))
            return grammar_accept(g->state, END_TOKEN, e) == GLIM_OK;
        if (!n) {
            err_set(e, GLIM_FAILED, "dead end: after %.200s: have no byte, need one", out->s ? out->s : "");
            return false;
        }
        pick = may[walk_random(seed) % n];
        for (int k = 0; out->n > soft && k < 8; k++) {
            uint8_t c = k < 2 ? (uint8_t) "\"}]"[walk_random(seed) % 3]
                              : (uint8_t)closing[walk_random(seed) % (sizeof closing - 1)];
            if (bits[c / 64] >> (c % 64) & 1) {
                pick = c;
                break;
            }
        }
        if (grammar_accept(g->state, pick, e) != GLIM_OK)
            return false;
        str_putc(out, (char)pick);
        if (out->n > 200000) {
            err_set(e, GLIM_FAILED, "endless sentence: %.100s: have 200000 bytes, need an end", out->s);
            return false;
        }
    }
}

static inline json_t *cases_of(const char *file)
{
    char path[512];
    struct glim_err e = {0};
    json_t *cases;
    snprintf(path, sizeof path, "%s/schemas/%s.json", TEST_DATA, file);
    if (json_parse_file(path, 1 << 20, &cases, &e) != GLIM_OK) {
        fprintf(stderr, "%s\n", e.message);
        exit(1);
    }
    return cases;
}

#endif
