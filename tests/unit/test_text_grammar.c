/* If this fails: a grammar admits text that it does not describe, refuses text that it does, or is read other than its
 * author meant it; or a hostile one takes the engine's memory or time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "text/grammar.h"
#include "text/grammar_impl.h"

/* ---- whole texts against a grammar ---- */

/* Tokens are the 256 bytes, and 256 ends. */
static struct grammar_vocab *byte_vocab(void)
{
    static char byte[256];
    struct grammar_piece piece[257] = {{0}};
    struct glim_err e = {0};
    struct grammar_vocab *v;
    uint32_t end = 256;
    for (int i = 0; i < 256; i++) {
        byte[i] = (char)i;
        piece[i] = (struct grammar_piece){&byte[i], 1};
    }
    if (grammar_vocab_create(&v, piece, 257, &end, 1, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return v;
}

struct bench {
    struct grammar *g;
    struct grammar_vocab *v;
    struct grammar_matcher *m;
    struct grammar_state *s;
};

static void bench_of(struct bench *b, struct grammar *g)
{
    struct glim_err e = {0};
    b->g = g;
    b->v = byte_vocab();
    if (grammar_matcher_create(&b->m, b->g, b->v, &e) != GLIM_OK || grammar_state_create(&b->s, b->m, &e) != GLIM_OK)
        fail_msg("%s", e.message);
}

static void bench_open(struct bench *b, const char *gbnf)
{
    struct glim_err e = {0};
    struct grammar *g;
    if (grammar_gbnf(&g, gbnf, strlen(gbnf), &e) != GLIM_OK)
        fail_msg("%s\n%s", e.message, gbnf);
    bench_of(b, g);
}

static void bench_close(struct bench *b)
{
    grammar_state_free(b->s);
    grammar_matcher_free(b->m);
    grammar_vocab_free(b->v);
    grammar_free(b->g);
}

enum verdict { NO, BEGINNING, SENTENCE };
static const char *const verdict_name[] = {"refused", "a beginning", "a sentence"};

/* Byte by byte, and each byte must be in the mask if and only if it is taken. */
static enum verdict judge(struct bench *b, const char *p, size_t n)
{
    struct glim_err e = {0};
    uint64_t bits[5];
    grammar_state_reset(b->s);
    for (size_t i = 0; i <= n; i++) {
        if (grammar_mask(b->s, bits, &e) != GLIM_OK)
            fail_msg("%s", e.message);
        assert_int_equal(bits[4] & 1, grammar_can_end(b->s));
        if (i == n)
            break;
        uint8_t byte = (uint8_t)p[i];
        bool admitted = bits[byte / 64] >> (byte % 64) & 1;
        if (admitted != (grammar_accept(b->s, byte, &e) == GLIM_OK))
            fail_msg("byte %zu of \"%.*s\": the mask says %d", i, (int)n, p, admitted);
        if (!admitted)
            return NO;
    }
    return grammar_can_end(b->s) ? SENTENCE : BEGINNING;
}

static void expect(struct bench *b, const char *gbnf, const char *text, size_t n, enum verdict want)
{
    enum verdict have = judge(b, text, n);
    if (have != want)
        fail_msg("%s\n  \"%.*s\": have %s, need %s", gbnf, (int)n, text, verdict_name[have], verdict_name[want]);
}

/* Texts: '=' sentence, '<' only a beginning, '!' neither. */
static const struct {
    const char *gbnf, *text[16];
} cases[] = {
    {"root ::= \"abc\"", {"<", "<a", "<ab", "=abc", "!abcd", "!b", "!ac"}},
    {"root ::= \"\"", {"=", "!a"}},
    {"root ::=", {"=", "!a"}},
    {"root ::= | \"a\"", {"=", "=a", "!aa"}},
    {"root ::= \"a\" | \"ab\" | \"abc\" \"d\"?", {"<", "=a", "=ab", "=abc", "=abcd", "!abd"}},
    {"root ::= [a-c]", {"=a", "=b", "=c", "!d", "!aa", "!`"}},
    {"root ::= [^a-c]",
     {"!a", "!c", "=d", "=\n", "=é", "=\U0001F600", "<\xC3", "<\xF0\x9F", "!\xFF", "!\xC0", "!\x80", "!\xED\xA0",
      "<\xED\x9F", "!\xF4\x90", "!\xE0\x80"}},
    {"root ::= [-a]", {"=-", "=a", "!b"}},
    {"root ::= [a-]", {"=-", "=a", "!b"}},
    {"root ::= [\\]\\[\\\\]", {"=]", "=[", "=\\", "!a"}},
    {"root ::= .", {"=a", "=\n", "=ü", "!ab", "<\xE2\x82"}},
    {"root ::= [ü-ü]\"\\xFC\\u00fc\\U0001f600\"", {"<ü", "<üüü", "=üüü\U0001F600", "<\xC3", "!u"}},
    {"root ::= \"\\n\\r\\t\\\\\\\"\\[\\]\"", {"=\n\r\t\\\"[]"}},
    {"root ::= \"a\"*", {"=", "=a", "=aaaa", "!b"}},
    {"root ::= \"ab\"+", {"<", "=ab", "<aba", "=abab", "!aa"}},
    {"root ::= \"a\"? \"b\"", {"<a", "=ab", "=b", "!aa"}},
    {"root ::= \"a\"{3}", {"<aa", "=aaa", "!aaaa"}},
    {"root ::= \"a\"{2,}", {"<a", "=aa", "=aaaaaaa"}},
    {"root ::= \"a\"{1,3}", {"<", "=a", "=aa", "=aaa", "!aaaa"}},
    {"root ::= \"a\"{0,0} \"b\"", {"!a", "=b"}},
    {"root ::= \"a\"{0}", {"=", "!a"}},
    {"root ::= (\"a\"*)*", {"=", "=aaa", "!b"}},
    {"root ::= (\"a\"? \"b\"?){2}", {"=", "=a", "=ab", "=aa", "=ba", "=abab", "!aaa", "!baba"}},
    {"root ::= (\"a\"? \"b\"?){2,3} \"c\"", {"=c", "=ababc", "=abababc", "!ababababc", "=aaac", "!aaaa", "<abab"}},
    {"root ::= ((\"a\"{0,40}){0,2}){0,1} \"c\"", {"=c", "=aac", "<aaaaaaaa"}},
    {"root ::= ([a-z]{2,40} \";\"){2,30} \"!\"", {"<ab;", "=ab;cd;!", "!ab;!", "!a;", "<abcdefghijklm"}},
    {"root ::= a b # comment\n# another\n\n a ::= \"x\" |\n \"y\"\r\nb ::= (\n \"1\" # one\n | \"2\"\n )",
     {"=x1", "=y2", "!z"}},
    {"root ::= \"a\" root \"b\" | \"\"", {"=", "=ab", "=aabb", "<aab", "!abb", "!ba"}},
    {"root ::= \"a\" root | \"a\"", {"<", "=a", "=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
    {"root ::= s s\ns ::= \"(\" s* \")\"", {"<()", "=()()", "=(()())()", "!)", "!()()("}},
    {"root ::= p\np ::= \"a\" p \"a\" | \"b\" p \"b\" | \"c\"", {"=c", "=abcba", "<abc", "!abca", "<abcb"}},
    {"root ::= e\ne ::= t (\"+\" t)*\nt ::= [0-9] | \"(\" e \")\"", {"=1", "=1+2", "=(1+2)+3", "!1+)", "<((1)"}},
    {"root ::= \"x\" (\"aa\" | \"a\"){3} \"y\"", {"=xaaay", "=xaaaaaay", "!xaay", "!xaaaaaaa", "<xaaaa"}},
    {"root ::= ([a-z]+){3} \".\"", {"!ab.", "=abc.", "=abcdef.", "<ab"}},
    {"root ::= never | \"a\"\nnever ::= \"b\" never", {"=a", "!b"}},
    {"root ::= \"x\" opt opt \"y\"\nopt ::= \"a\"? | opt2\nopt2 ::= \"b\" opt2 | \"\"",
     {"=xy", "=xay", "=xbbay", "=xaay", "!xaaay"}},
    {"root ::= \"Jan\" | \"January\" | \"Janus\" | \"June\" | \"Ju\"",
     {"=Jan", "<Janu", "=January", "=Janus", "=Ju", "<Jun", "!Jo"}},
    {"root ::= a-b_C9\na-b_C9 ::= \"x\"", {"=x"}},
};

static void texts_are_judged_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench b;
        bench_open(&b, cases[i].gbnf);
        for (const char *const *t = cases[i].text; *t; t++)
            expect(&b, cases[i].gbnf, *t + 1, strlen(*t) - 1, **t == '=' ? SENTENCE : **t == '<' ? BEGINNING : NO);
        bench_close(&b);
    }
}

/* ---- what is refused, and how ---- */

static const struct {
    const char *gbnf, *say;
} wrong[] = {
    {"", "line 1, column 1: have no rule root"},
    {"a ::= \"x\"\n", "line 2, column 1: have no rule root"},
    {"root ::= a\n", "line 1, column 10: have rule a without definition"},
    {"root ::= \"x\" |\n  (b | \"y\")\n", "line 2, column 4: have rule b without definition"},
    {"root ::= \"x\"\nroot ::= \"y\"\n", "line 2, column 1: have a second definition"},
    {"root = \"x\"", "line 1, column 6: have '=', need '::='"},
    {"root ::= \"x", "line 1, column 10: have a text without end"},
    {"root ::= [a-", "line 1, column 10: have a character class without end"},
    {"root ::= \"a\\", "line 1, column 13: have the end of the text, need an escape"},
    {"root ::= [ab", "line 1, column 10: have a character class without end"},
    {"root ::= [z-a]", "line 1, column 11: have a range that descends"},
    {"root ::= (\"x\"\n", "line 2, column 1: have the end of the text, need ')'"},
    {"root ::= \"x\")", "line 1, column 13: have ')', need an item"},
    {"root ::= *", "line 1, column 10: have '*', need an item before the repetition"},
    {"root ::= \"a\" | {2}", "line 1, column 16: have '{'"},
    {"root ::= \"a\"{,2}", "line 1, column 14: have ',', need a number"},
    {"root ::= \"a\"{3,2}", "line 1, column 13: have a repetition with more than its most"},
    {"root ::= \"a\"{1", "line 1, column 15: have the end of the text, need '}'"},
    {"root ::= \"a\"{4294967295}", "line 1, column 14: have too large a number"},
    {"root ::= \"\\q\"", "line 1, column 11: have an unknown escape"},
    {"root ::= [a\\-c]", "line 1, column 12: have an unknown escape"},
    {"root ::= \"\\x4\"", "line 1, column 14: have '\"', need a hexadecimal digit"},
    {"root ::= \"\\uD800\"", "line 1, column 11: have an escape that is no character"},
    {"root ::= \"\\U00110000\"", "line 1, column 11: have an escape that is no character"},
    {"root ::= \"\xFF\"", "line 1, column 11: have byte 0xFF, need UTF-8"},
    {"root ::= <think> \"x\"", "line 1, column 10: have '<', need an item over characters"},
    {"root ::= !<[12]>", "line 1, column 10: have '!', need an item over characters"},
    {"root ::= \"x\"\n  \"y\"\n", "line 2, column 3: have '\"', need the name of a rule"},
    {"root ::= \"x\" $", "line 1, column 14: have '$'"},
    {"root ::= root \"x\" | \"y\"", "rule root: have left recursion"},
    {"root ::= a\na ::= b? \"\" c\nb ::= \"b\"\nc ::= a \"x\" | \"y\"\n", "have left recursion"},
    {"root ::= (root | \"x\")+", "rule root: have left recursion"},
    {"root ::= \"x\" root", "root: have a rule that no text matches"},
    {"root ::= []", "root: have a rule that no text matches"},
    {"root ::= \"a\" never{2}\nnever ::= \"b\" never", "root: have a rule that no text matches"},
};

static void wrong_grammars_are_refused_by_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct glim_err e = {0};
        struct grammar *g = (struct grammar *)1;
        assert_int_equal(grammar_gbnf(&g, wrong[i].gbnf, strlen(wrong[i].gbnf), &e), GLIM_REFUSED);
        assert_null(g);
        if (!strstr(e.message, wrong[i].say))
            fail_msg("%s\n  have \"%s\"\n  need \"%s\"", wrong[i].gbnf, e.message, wrong[i].say);
    }
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    struct str s = {0};
    struct glim_err e = {0};
    struct grammar *g;
    str_puts(&s, "root ::= ");
    for (int i = 0; i < 100000; i++)
        str_putc(&s, '(');
    assert_false(s.failed);
    assert_int_equal(grammar_gbnf(&g, s.s, s.n, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "too deep a nesting"));
    str_fini(&s);
}

/* A count of a count of a count: 10^18 states if it were written out. */
static void counts_are_not_written_out(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "root ::= (((([ab]{1000}){1000}){1000}){1000} \"x\"){1,1000000}");
    assert_true(b.g->n_state < 100);
    expect(&b, "counts", "abababababab", 12, BEGINNING);
    expect(&b, "counts", "abx", 3, NO);
    bench_close(&b);
}

/* ---- the builder ---- */

static struct grammar_builder *builder(const struct grammar_limits *limits)
{
    struct glim_err e = {0};
    struct grammar_builder *b;
    if (grammar_builder_create(&b, limits, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return b;
}

/* Compile the node as the only rule, and give the builder back. */
static glim_status compiled(struct grammar **g, struct grammar_builder *b, grammar_node node, struct glim_err *e)
{
    uint32_t root = grammar_rule(b, "top", 3);
    *e = (struct glim_err){0};
    grammar_define(b, root, node);
    glim_status st = grammar_compile(g, b, root, e);
    grammar_builder_free(b);
    return st;
}

static void expect_misuse(struct grammar_builder *b, glim_status want, const char *say)
{
    struct glim_err e;
    struct grammar *g;
    assert_int_equal(grammar_text(b, "x", 1), 0); /* the failure stays */
    assert_int_equal(compiled(&g, b, 1, &e), want);
    if (!strstr(e.message, say))
        fail_msg("have \"%s\", need \"%s\"", e.message, say);
}

static void a_builder_remembers_its_first_failure(void **state)
{
    (void)state;
    struct grammar_builder *b = builder(NULL);
    grammar_node none = 77, x = grammar_text(b, "x", 1);
    assert_int_equal(grammar_seq(b, &none, 1), 0);
    assert_int_equal(grammar_repeat(b, x, 2, 1), 0);
    expect_misuse(b, GLIM_USAGE, "node: have 77");
    b = builder(NULL);
    grammar_repeat(b, grammar_text(b, "x", 1), 2, 1);
    expect_misuse(b, GLIM_USAGE, "have 2 to 1 times");
    b = builder(NULL);
    grammar_class(b, &(struct code_range){5, 0x110000}, 1, false);
    expect_misuse(b, GLIM_USAGE, "character range");
    b = builder(NULL);
    grammar_ref(b, 3);
    expect_misuse(b, GLIM_USAGE, "rule: have 3");
    b = builder(NULL);
    uint32_t r = grammar_rule(b, "twice", 5);
    grammar_define(b, r, grammar_text(b, "x", 1));
    grammar_define(b, r, grammar_text(b, "y", 1));
    expect_misuse(b, GLIM_REFUSED, "rule twice: have two definitions");
    b = builder(NULL);
    grammar_rule(b, "a name longer than a name should be", 300);
    expect_misuse(b, GLIM_REFUSED, "rule name: have 300 bytes");
}

static void limits_are_kept(void **state)
{
    (void)state;
    struct grammar_limits l = grammar_limits_default;
    struct glim_err e;
    struct grammar *g;
    l.depth = 10;
    struct grammar_builder *b = builder(&l);
    grammar_node x = grammar_text(b, "x", 1);
    for (int i = 0; i < 20; i++)
        x = grammar_seq(b, (grammar_node[]){x, x}, 2);
    assert_int_equal(compiled(&g, b, x, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "nesting: have more than 10"));

    l = grammar_limits_default;
    l.n_node = 100;
    b = builder(&l);
    assert_int_equal(grammar_text(b, cases, 101), 0);
    assert_int_equal(compiled(&g, b, 1, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "have more than 100 nodes"));

    l = grammar_limits_default;
    l.n_state = 50;
    b = builder(&l);
    x = grammar_text(b, "012345678901234567890123456789012345678901234567890123456789", 60);
    assert_int_equal(compiled(&g, b, x, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "have more than 50 states"));
}

/* x x, doubled 40 times: as a tree 10^12 letters, as a DAG 40 nodes. */
static void shared_nodes_cost_once(void **state)
{
    (void)state;
    struct grammar_builder *b = builder(NULL);
    struct bench bench;
    struct glim_err e;
    struct grammar *g;
    grammar_node x = grammar_text(b, "x", 1);
    for (int i = 0; i < 40; i++)
        x = grammar_seq(b, (grammar_node[]){x, x}, 2);
    assert_int_equal(compiled(&g, b, x, &e), GLIM_OK);
    assert_true(g->n_state < 300);
    bench_of(&bench, g);
    expect(&bench, "shared", "xxxxxxxxxxxxxxxxxxxxxxxx", 24, BEGINNING);
    expect(&bench, "shared", "xy", 2, NO);
    bench_close(&bench);
}

/* (ab)* and an odd number of c, as an automaton with useless states, a way to nowhere and an unreachable acceptance. */
static void automata_are_terminals(void **state)
{
    (void)state;
    uint32_t next[7 * 4] = {
        9, 9, 9, 9, /* dead, whatever it says */
        2, 0, 3, 0, /* start: a, b, c, others */
        0, 1, 0, 0, /* a seen */
        5, 0, 4, 0, /* odd c: accepts */
        0, 0, 3, 0, /* even c */
        5, 5, 5, 5, /* nowhere */
        3, 0, 0, 0, /* unreachable, accepts */
    };
    uint64_t accept[1] = {1 << 1 | 1 << 3 | 1 << 6};
    struct dfa d = {.n_state = 7, .n_class = 4, .next = next, .accept = accept};
    struct grammar_builder *b = builder(NULL);
    struct glim_err e;
    struct grammar *g;
    struct bench bench;
    memset(d.cls, 3, sizeof d.cls);
    d.cls['a'] = 0;
    d.cls['b'] = 1;
    d.cls['c'] = 2;
    assert_int_equal(grammar_dfa(b, &d), 0); /* state 9 */
    grammar_builder_free(b);
    memset(next, 0, 4 * sizeof *next);
    b = builder(NULL);
    grammar_node x = grammar_dfa(b, &d), two[] = {x, grammar_text(b, "-", 1), x};
    assert_int_equal(grammar_dfa(b, &d), x);
    assert_int_equal(compiled(&g, b, grammar_seq(b, two, 3), &e), GLIM_OK);
    bench_of(&bench, g);
    expect(&bench, "automaton", "-", 1, SENTENCE);
    expect(&bench, "automaton", "abab-ccc", 8, SENTENCE);
    expect(&bench, "automaton", "abc-", 4, SENTENCE);
    expect(&bench, "automaton", "abcc-", 5, NO);
    expect(&bench, "automaton", "abcc", 4, BEGINNING);
    expect(&bench, "automaton", "ca", 2, NO);
    expect(&bench, "automaton", "aba-", 4, NO);
    bench_close(&bench);
}

/* Every code point is in exactly one of a class and its opposite, at all edges of UTF-8's lengths. */
static void classes_split_the_code_points(void **state)
{
    (void)state;
    static const struct code_range r[] = {{0x10FFFF, 0x10FFFF}, {0x41, 0x7F},      {0x7E, 0x90},    {0x7FE, 0x801},
                                          {0xD7FF, 0xE000},     {0xFFFE, 0x10001}, {0x1000, 0x1FFF}};
    struct grammar_builder *b = builder(NULL), *opposite = builder(NULL);
    struct bench in, out;
    struct glim_err e;
    struct grammar *g;
    assert_int_equal(compiled(&g, b, grammar_class(b, r, 7, false), &e), GLIM_OK);
    bench_of(&in, g);
    assert_int_equal(compiled(&g, opposite, grammar_class(opposite, r, 7, true), &e), GLIM_OK);
    bench_of(&out, g);
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp += cp < 0x900 || cp % 0x1000 < 2 || cp % 0x1000 > 0xFFD ? 1 : 61) {
        char utf8[4];
        size_t n = (size_t)utf8_encode(cp, utf8);
        bool inside = false;
        for (size_t i = 0; i < sizeof r / sizeof *r; i++)
            inside |= cp >= r[i].first && cp <= r[i].last;
        if (n == 0)
            continue;
        grammar_state_reset(in.s);
        grammar_state_reset(out.s);
        bool a = grammar_accept_bytes(in.s, utf8, n, &e) == GLIM_OK && grammar_can_end(in.s);
        bool o = grammar_accept_bytes(out.s, utf8, n, &e) == GLIM_OK && grammar_can_end(out.s);
        if (a != inside || o == inside)
            fail_msg("U+%04X: inside %d, class %d, opposite %d", cp, inside, a, o);
    }
    bench_close(&in);
    bench_close(&out);
}

/* ---- memory ---- */

static const char everything[] = "root ::= (item \",\")* item{2,40} [^a-z]? | \"Jan\" | \"June\" | list\n"
                                 "item ::= \"(\" item{0,3} \")\" | [a-zé]{3,90}\nlist ::= \"[\" (list list)? \"]\"\n";

/* What a request does, once. */
static glim_status use(const struct grammar_vocab *v, struct glim_err *e)
{
    struct grammar *g = NULL;
    struct grammar_matcher *m = NULL;
    struct grammar_state *s = NULL, *copy = NULL;
    uint64_t bits[5];
    int64_t id;
    glim_status st = grammar_gbnf(&g, everything, sizeof everything - 1, e);
    if (st == GLIM_OK)
        st = grammar_matcher_create(&m, g, v, e);
    if (st == GLIM_OK)
        st = grammar_state_create(&s, m, e);
    for (const char *p = "((abc)),(abcdef)"; *p && st == GLIM_OK; p++) {
        st = grammar_mask(s, bits, e);
        if (st == GLIM_OK)
            st = grammar_accept(s, (uint8_t)*p, e);
    }
    if (st == GLIM_OK)
        st = grammar_forced(s, &id, e);
    if (st == GLIM_OK)
        st = grammar_state_copy(&copy, s, e);
    grammar_state_free(copy);
    grammar_state_free(s);
    grammar_matcher_free(m);
    grammar_free(g);
    return st;
}

static void a_lack_of_memory_is_an_error(void **state)
{
    (void)state;
    struct grammar_vocab *v = byte_vocab();
    glim_status st = GLIM_FAILED;
    long n = 0;
    while (st != GLIM_OK && n < 100000) {
        struct glim_err e = {0};
        mem_fail_after(++n);
        st = use(v, &e);
        mem_fail_after(0);
        if (st != GLIM_OK && (st != GLIM_FAILED || !strstr(e.message, "out of memory")))
            fail_msg("allocation %ld: status %d, \"%s\"", n, st, e.message);
    }
    assert_int_equal(st, GLIM_OK);
    assert_true(n > 50);
    grammar_vocab_free(v);
}

/* a^n with ever deeper stacks, in a matcher that holds little: what no state needs goes, and a text that needs too much
 * is refused and stays where it was. */
static void a_matcher_keeps_to_its_bytes(void **state)
{
    (void)state;
    struct grammar_limits l = grammar_limits_default;
    struct grammar_builder *b;
    struct glim_err e = {0};
    struct grammar *g;
    l.bytes = (size_t)1 << 20;
    b = builder(&l);
    uint32_t r = grammar_rule(b, "r", 1);
    grammar_node nest = grammar_seq(
        b,
        (grammar_node[]){grammar_text(b, "(", 1), grammar_repeat(b, grammar_ref(b, r), 0, 1), grammar_text(b, ")", 1)},
        3);
    grammar_define(b, r, nest);
    assert_int_equal(compiled(&g, b, grammar_repeat(b, grammar_ref(b, r), 0, GRAMMAR_MANY), &e), GLIM_OK);
    struct bench bench;
    bench_of(&bench, g);
    for (size_t depth = 1; depth < 400; depth++) { /* all of them together are more than 1 MiB of stacks */
        for (size_t i = 0; i < depth; i++)
            assert_int_equal(grammar_accept(bench.s, '(', &e), GLIM_OK);
        for (size_t i = 0; i < depth; i++) {
            uint64_t bits[5];
            assert_int_equal(grammar_mask(bench.s, bits, &e), GLIM_OK);
            assert_int_equal(bits[0] >> ')' & 1, 1);
            assert_int_equal(grammar_accept(bench.s, ')', &e), GLIM_OK);
        }
        assert_true(grammar_can_end(bench.s));
        grammar_state_reset(bench.s);
    }
    size_t n = 0;
    while (n < 1 << 20 && grammar_accept(bench.s, '(', &e) == GLIM_OK)
        n++;
    assert_in_range(n, 1000, 100000);
    assert_non_null(strstr(e.message, "too ambiguous or too deep"));
    assert_int_equal(grammar_taken(bench.s), n);
    grammar_rollback(bench.s, n - 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(grammar_accept(bench.s, ')', &e), GLIM_OK);
    assert_true(grammar_can_end(bench.s));
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_judged_as_written),
        cmocka_unit_test(wrong_grammars_are_refused_by_place),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(counts_are_not_written_out),
        cmocka_unit_test(a_builder_remembers_its_first_failure),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(shared_nodes_cost_once),
        cmocka_unit_test(automata_are_terminals),
        cmocka_unit_test(classes_split_the_code_points),
        cmocka_unit_test(a_lack_of_memory_is_an_error),
        cmocka_unit_test(a_matcher_keeps_to_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
