/* Any bytes as a GBNF grammar: refused with a sentence; or its masks are right: each token is in the mask if and only
 * if it is taken, no mask is empty, going back restores it, and a gate in front admits what it later takes.
 *
 * Input: the grammar, then after the first byte 0xFF one byte for each step: which admitted token to take, or how many
 * to go back. */
#include "base/mem.h"
#include "text/grammar.h"
#include "text/grammar_gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    N_BYTE = 256,
    N_MORE = 24,
    N_TOKEN = N_BYTE + N_MORE,
    END = N_TOKEN - 1,
    WORDS = (N_TOKEN + 63) / 64,
    STEPS = 24
};

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* All bytes, some longer tokens, and an end. */
static struct grammar_vocab *vocab(void)
{
    static const char *const more[N_MORE - 1] = {
        "aa",  ",\"",  "aaaa",      "aa",  "abababababababababab", "abc",      "((",   "\": ", "\xC3\xA9",    "aa\n",
        "\"}", "baab", "a\xE2\x82", "111", "\xC3\xA9\xC3\xA9",     "\x82\xAC", "))))", "ab a", "a\xC3\xA9 b", "ba",
        "bab", "10",   "ab"};
    static char byte[N_BYTE];
    static struct grammar_vocab *v;
    struct grammar_piece piece[N_TOKEN];
    uint32_t end = END;
    struct glim_err e;
    if (v)
        return v;
    for (int i = 0; i < N_TOKEN; i++) {
        if (i < N_BYTE)
            byte[i] = (char)i;
        piece[i] = i < N_BYTE ? (struct grammar_piece){&byte[i], 1}
                   : i < END  ? (struct grammar_piece){more[i - N_BYTE], (uint32_t)strlen(more[i - N_BYTE])}
                              : (struct grammar_piece){"", 0};
    }
    check(grammar_vocab_create(&v, piece, N_TOKEN, &end, 1, &e) == GLIM_OK, "vocabulary");
    return v;
}

static bool bit(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

/* The k-th admitted token, counted round. */
static uint32_t choose(const uint64_t *bits, uint8_t k)
{
    uint32_t n = 0, id[N_TOKEN];
    for (uint32_t i = 0; i < N_TOKEN; i++)
        if (bit(bits, i))
            id[n++] = i;
    check(n > 0, "an empty mask");
    return id[k % n];
}

static bool mask_is_right(struct grammar_state *s, uint64_t *bits)
{
    struct glim_err e = {0};
    if (grammar_mask(s, bits, &e) != GLIM_OK) {
        check(e.message[0] != 0, "refused without a sentence");
        return false;
    }
    for (uint32_t i = 0; i < N_TOKEN; i++) {
        bool taken = grammar_accept(s, i, &e) == GLIM_OK;
        if (taken)
            grammar_rollback(s, 1);
        check(taken == bit(bits, i) || (!taken && strstr(e.message, "too ambiguous")),
              "a mask that is not what is taken");
    }
    check(bit(bits, END) == grammar_can_end(s), "an end where there is none");
    return true;
}

static void walk(struct grammar_state *s, const uint8_t *step, size_t n)
{
    uint64_t bits[WORDS], again[WORDS];
    struct glim_err e;
    for (size_t i = 0; i < n && i < STEPS; i++) {
        if (!mask_is_right(s, bits))
            return;
        uint32_t id = choose(bits, step[i]);
        if (grammar_accept(s, id, &e) != GLIM_OK)
            return;
        if (step[i] % 8 == 7 || id == END) {
            grammar_rollback(s, 1);
            check(grammar_mask(s, again, &e) != GLIM_OK || memcmp(bits, again, sizeof bits) == 0, "going back");
            if (id == END)
                return;
        }
    }
}

static void wait_and_walk(struct grammar_matcher *m, const uint8_t *step, size_t n)
{
    static const struct grammar_trigger t[] = {{.s = "aba", .n = 3}, {.s = "ba", .n = 2}, {.token = 'z'}};
    uint64_t bits[WORDS];
    struct grammar_gate *g;
    struct glim_err e;
    if (grammar_gate_create(&g, m, t, 3, n % 2, &e) != GLIM_OK)
        return;
    for (size_t i = 0; i < n && i < STEPS && grammar_gate_mask(g, bits, &e) == GLIM_OK; i++) {
        for (uint32_t k = 0; k < N_TOKEN; k++) {
            bool taken = grammar_gate_accept(g, k, &e) == GLIM_OK;
            if (taken)
                grammar_gate_rollback(g, 1);
            check(taken == bit(bits, k) || (!taken && strstr(e.message, "too ambiguous")),
                  "a gate's mask that is not what is taken");
        }
        uint32_t id = choose(bits, step[i]);
        if (id == END || grammar_gate_accept(g, id, &e) != GLIM_OK)
            break;
    }
    grammar_gate_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *cut = memchr(data, 0xFF, size);
    size_t n = cut ? (size_t)(cut - data) : size, n_step = cut ? size - n - 1 : 0;
    struct glim_err e = {0};
    struct grammar *g;
    struct grammar_matcher *m;
    struct grammar_state *s;
    if (grammar_gbnf(&g, (const char *)data, n, &e) != GLIM_OK) {
        check(e.message[0] && !g, "refused without a sentence");
        return 0;
    }
    if (grammar_matcher_create(&m, g, vocab(), &e) == GLIM_OK) {
        check(grammar_state_create(&s, m, &e) == GLIM_OK, "state");
        walk(s, cut ? cut + 1 : data, cut ? n_step : n);
        wait_and_walk(m, cut ? cut + 1 : data, cut ? n_step : n);
        grammar_state_free(s);
        grammar_matcher_free(m);
    }
    grammar_free(g);
    return 0;
}
