/* If this fails: a tool call's arguments are not held to their schema, or the text before it is; or a rejected draft
 * that held a trigger leaves the grammar on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "text/grammar_gate.h"

/* Bytes, then these, then an end and a control token. */
static const char *const more[] = {"<tool",   "_call>",  "<tool_call>", "call>{\"a\"",     "call>{\"b\"", "{\"a\":",
                                   "think>4", "think>x", "</",          "x<tool_call>{\"", "hello"};
enum { N_MORE = sizeof more / sizeof *more, END = 256 + N_MORE, CONTROL, N_TOKEN, WORDS = (N_TOKEN + 63) / 64 };

static char byte[256];
static struct grammar_piece piece[N_TOKEN];
static struct grammar_vocab *vocab;

static int open_vocab(void **state)
{
    struct glim_err e;
    uint32_t end = END;
    (void)state;
    for (int i = 0; i < N_TOKEN; i++) {
        if (i < 256)
            byte[i] = (char)i;
        piece[i] = i < 256   ? (struct grammar_piece){&byte[i], 1}
                   : i < END ? (struct grammar_piece){more[i - 256], (uint32_t)strlen(more[i - 256])}
                             : (struct grammar_piece){"", 0};
    }
    return grammar_vocab_create(&vocab, piece, N_TOKEN, &end, 1, &e) != GLIM_OK;
}

static int close_vocab(void **state)
{
    (void)state;
    grammar_vocab_free(vocab);
    return 0;
}

struct bench {
    struct grammar *g;
    struct grammar_matcher *m;
    struct grammar_gate *gate;
};

static void bench_open(struct bench *b, const char *gbnf, const struct grammar_trigger *t, size_t n, bool may_end)
{
    struct glim_err e = {0};
    if (grammar_gbnf(&b->g, gbnf, strlen(gbnf), &e) != GLIM_OK ||
        grammar_matcher_create(&b->m, b->g, vocab, &e) != GLIM_OK ||
        grammar_gate_create(&b->gate, b->m, t, n, may_end, &e) != GLIM_OK)
        fail_msg("%s", e.message);
}

static void bench_close(struct bench *b)
{
    grammar_gate_free(b->gate);
    grammar_matcher_free(b->m);
    grammar_free(b->g);
}

static uint32_t token(const char *s)
{
    for (uint32_t i = 256; i < END; i++)
        if (strcmp(more[i - 256], s) == 0)
            return i;
    assert_int_equal(strlen(s), 1);
    return (uint8_t)*s;
}

static bool take(struct bench *b, uint32_t id)
{
    struct glim_err e;
    return grammar_gate_accept(b->gate, id, &e) == GLIM_OK;
}

/* The mask is what is taken, token by token; returns how many. */
static size_t check_mask(struct bench *b)
{
    uint64_t bits[WORDS];
    struct glim_err e;
    size_t n = 0, taken = grammar_gate_taken(b->gate);
    assert_int_equal(grammar_gate_mask(b->gate, bits, &e), GLIM_OK);
    for (uint32_t i = 0; i < N_TOKEN; i++) {
        bool yes = take(b, i);
        if (yes)
            grammar_gate_rollback(b->gate, 1);
        assert_int_equal(grammar_gate_taken(b->gate), taken);
        if (yes != (bits[i / 64] >> (i % 64) & 1))
            fail_msg("token %u (%s): taken %d", i, i >= 256 && i < END ? more[i - 256] : "", yes);
        n += yes;
    }
    assert_int_equal(grammar_gate_can_end(b->gate), bits[END / 64] >> (END % 64) & 1);
    for (uint32_t i = N_TOKEN; i < WORDS * 64; i++)
        assert_int_equal(bits[i / 64] >> (i % 64) & 1, 0);
    return n;
}

static const struct grammar_trigger tool[] = {{.s = "<tool_call>", .n = 11}};
static const char object[] = "root ::= \"{\\\"a\\\":\" [0-9]+ \"}\"";

static void a_trigger_lies_across_tokens(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, object, tool, 1, true);
    assert_int_equal(check_mask(&b), N_TOKEN);
    assert_true(take(&b, token("x<tool_call>{\"")));
    assert_true(grammar_gate_active(b.gate));
    assert_int_equal(check_mask(&b), 1);
    grammar_gate_rollback(b.gate, 1);
    assert_true(take(&b, token("hello")));
    assert_true(take(&b, token("<tool")));
    check_mask(&b);
    assert_true(take(&b, '_'));
    assert_false(take(&b, token("call>{\"b\"")));
    assert_int_equal(check_mask(&b), N_TOKEN - 1); /* all but the one that goes on wrongly after the trigger */
    assert_false(grammar_gate_active(b.gate));
    assert_true(take(&b, token("call>{\"a\"")));
    assert_true(grammar_gate_active(b.gate));
    assert_int_equal(check_mask(&b), 1);
    assert_true(take(&b, ':') && take(&b, '4') && take(&b, '}'));
    assert_int_equal(check_mask(&b), 1);
    assert_true(take(&b, END));
    assert_int_equal(check_mask(&b), 0);
    bench_close(&b);
}

static void going_back_takes_the_trigger_back(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, object, tool, 1, true);
    assert_true(take(&b, 'x') && take(&b, token("<tool")) && take(&b, token("_call>")) && take(&b, '{') &&
                take(&b, '"'));
    assert_true(grammar_gate_active(b.gate));
    grammar_gate_rollback(b.gate, 2);
    assert_true(grammar_gate_active(b.gate));
    assert_int_equal(check_mask(&b), 2); /* { and {"a": */
    grammar_gate_rollback(b.gate, 1);
    assert_false(grammar_gate_active(b.gate));
    assert_true(take(&b, token("_call>")));
    assert_true(take(&b, token("{\"a\":")));
    grammar_gate_rollback(b.gate, 100);
    assert_int_equal(grammar_gate_taken(b.gate), 0);
    assert_true(take(&b, END));
    assert_int_equal(check_mask(&b), 0);
    grammar_gate_rollback(b.gate, 1);
    assert_int_equal(check_mask(&b), N_TOKEN);
    bench_close(&b);
}

/* After reasoning: no end before the marker. The longest of the triggers that end together counts, and is kept. */
static void an_answer_after_reasoning_must_come(void **state)
{
    (void)state;
    static const struct grammar_trigger t[] = {{.s = "nk>", .n = 3}, {.s = "</think>", .n = 8, .keep = true}};
    struct bench b;
    bench_open(&b, "root ::= \"</think>\" [0-9]+", t + 1, 1, false);
    assert_int_equal(check_mask(&b), N_TOKEN - 1);
    assert_false(grammar_gate_can_end(b.gate));
    assert_true(take(&b, '<') && take(&b, token("</")));
    assert_int_equal(check_mask(&b), N_TOKEN - 2); /* nor think>x */
    assert_true(take(&b, token("think>4")));
    assert_true(grammar_gate_active(b.gate) && grammar_gate_can_end(b.gate));
    assert_int_equal(check_mask(&b), 11);
    bench_close(&b);

    bench_open(&b, "root ::= \"</think>\" [0-9]+ | \"x\"", t, 2, false);
    assert_true(take(&b, token("think>x"))); /* the shorter one, whose text is not kept */
    assert_true(grammar_gate_active(b.gate) && grammar_gate_can_end(b.gate));
    grammar_gate_rollback(b.gate, 1);
    assert_true(take(&b, token("</")));
    assert_false(take(&b, token("think>x")));
    assert_true(take(&b, token("think>4")));
    bench_close(&b);
}

static void a_token_can_be_the_trigger(void **state)
{
    (void)state;
    static const struct grammar_trigger t[] = {{.token = CONTROL}, {.s = "<tool_call>", .n = 11}};
    struct bench b;
    bench_open(&b, object, t, 2, true);
    assert_true(take(&b, token("<tool")));
    check_mask(&b);
    assert_true(take(&b, CONTROL));
    assert_true(grammar_gate_active(b.gate));
    assert_int_equal(check_mask(&b), 2);
    bench_close(&b);

    bench_open(&b, object, t + 1, 1, true);
    assert_true(take(&b, token("<tool")) && take(&b, CONTROL) && take(&b, token("_call>")));
    assert_false(grammar_gate_active(b.gate)); /* a control token lies between */
    bench_close(&b);
}

/* The beginning of one trigger inside another. */
static void overlapping_triggers_are_found(void **state)
{
    (void)state;
    static const struct grammar_trigger t[] = {
        {.s = "ababc", .n = 5}, {.s = "babd", .n = 4}, {.s = "e", .n = 1}, {.s = "zez", .n = 3}};
    static const struct {
        const char *text;
        size_t active; /* bytes after which the grammar begins */
    } c[] = {{"abababc", 7}, {"ababd", 5}, {"abae", 4}, {"ababababc", 9}, {"bababd", 6}, {"aababx", 0}, {"zze", 3}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct bench b;
        bench_open(&b, "root ::= \"1\"", t, 4, true);
        for (size_t k = 0; c[i].text[k]; k++) {
            assert_true(take(&b, (uint8_t)c[i].text[k]));
            assert_int_equal(grammar_gate_active(b.gate), k + 1 == c[i].active);
            check_mask(&b);
        }
        bench_close(&b);
    }
}

static void wrong_triggers_are_refused(void **state)
{
    (void)state;
    static char big[GRAMMAR_TRIGGER_MAX + 1];
    const struct grammar_trigger kept = {.s = "<tool_call>", .n = 11, .keep = true}, id = {.token = N_TOKEN},
                                 large = {.s = big, .n = sizeof big};
    struct bench b;
    struct grammar_gate *gate;
    struct glim_err e = {0};
    bench_open(&b, object, NULL, 0, false);
    assert_int_equal(grammar_gate_create(&gate, b.m, &kept, 1, true, &e), GLIM_REFUSED);
    assert_null(gate);
    assert_int_equal(grammar_gate_create(&gate, b.m, &id, 1, true, &e), GLIM_USAGE);
    assert_int_equal(grammar_gate_create(&gate, b.m, &large, 1, true, &e), GLIM_REFUSED);
    assert_int_equal(grammar_gate_accept(b.gate, N_TOKEN, &e), GLIM_USAGE);
    bench_close(&b);
}

static void a_lack_of_memory_is_an_error(void **state)
{
    (void)state;
    struct grammar *g;
    struct glim_err e = {0};
    assert_int_equal(grammar_gbnf(&g, object, sizeof object - 1, &e), GLIM_OK);
    glim_status st = GLIM_FAILED;
    long n = 0;
    while (st != GLIM_OK && n < 10000) {
        struct grammar_matcher *m = NULL;
        struct grammar_gate *gate = NULL;
        uint64_t bits[WORDS];
        mem_fail_after(++n);
        st = grammar_matcher_create(&m, g, vocab, &e);
        if (st == GLIM_OK)
            st = grammar_gate_create(&gate, m, tool, 1, true, &e);
        if (st == GLIM_OK)
            st = grammar_gate_mask(gate, bits, &e);
        if (st == GLIM_OK)
            st = grammar_gate_accept(gate, token("<tool_call>"), &e);
        if (st == GLIM_OK)
            st = grammar_gate_mask(gate, bits, &e);
        mem_fail_after(0);
        grammar_gate_free(gate);
        grammar_matcher_free(m);
    }
    assert_int_equal(st, GLIM_OK);
    assert_true(n > 20);
    grammar_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trigger_lies_across_tokens),        cmocka_unit_test(going_back_takes_the_trigger_back),
        cmocka_unit_test(an_answer_after_reasoning_must_come), cmocka_unit_test(a_token_can_be_the_trigger),
        cmocka_unit_test(overlapping_triggers_are_found),      cmocka_unit_test(wrong_triggers_are_refused),
        cmocka_unit_test(a_lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, open_vocab, close_vocab);
}
