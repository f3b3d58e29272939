/* If this fails: a model under a grammar is offered tokens that lead nowhere, or is kept from right ones; what is
 * offered depends on what was computed before; or it cannot go back over rejected draft tokens. */
#include "test_text_vocab.h"

#include <regex.h>

#include "base/hash.h"
#include "text/grammar_gate.h"

static struct dump dump;
static struct tokenizer *tok;
static struct grammar_piece *piece;
static size_t n_piece, n_word;
static uint32_t end_id;
static struct grammar_vocab *vocab;

/* GPT-2's vocabulary, with one end token. */
static int open_vocab(void **state)
{
    struct glim_err e = {0};
    (void)state;
    dump_rebuilt(&dump, "gpt-2");
    tok = open_spec(&dump.spec);
    n_piece = tok_n(tok);
    end_id = (uint32_t)tok_eos(tok);
    piece = mem_calloc(n_piece, sizeof *piece);
    assert_non_null(piece);
    for (size_t i = 0; i < n_piece; i++) {
        struct tok_piece p = tok_bytes(tok, (int32_t)i, false, false);
        piece[i] = (struct grammar_piece){p.s, p.n};
    }
    if (grammar_vocab_create(&vocab, piece, n_piece, &end_id, 1, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    n_word = grammar_vocab_words(vocab);
    return 0;
}

static int close_vocab(void **state)
{
    (void)state;
    grammar_vocab_free(vocab);
    mem_free(piece);
    tok_close(tok);
    dump_fini(&dump);
    return 0;
}

/* ---- a grammar of tests/data/grammars, at work ---- */

struct bench {
    struct grammar *g;
    struct grammar_matcher *m;
    struct grammar_state *s;
    uint64_t *bits;
};

static void bench_open_text(struct bench *b, const char *gbnf, size_t n)
{
    struct glim_err e = {0};
    b->bits = mem_calloc(n_word, sizeof *b->bits);
    assert_non_null(b->bits);
    if (grammar_gbnf(&b->g, gbnf, n, &e) != GLIM_OK || grammar_matcher_create(&b->m, b->g, vocab, &e) != GLIM_OK ||
        grammar_state_create(&b->s, b->m, &e) != GLIM_OK)
        fail_msg("%s: %s", gbnf, e.message);
}

static void bench_open(struct bench *b, const char *name)
{
    struct glim_err e = {0};
    char path[512], *text;
    size_t n;
    snprintf(path, sizeof path, TEST_DATA "/grammars/%s.gbnf", name);
    if (file_read(path, 1 << 20, &text, &n, &e) != GLIM_OK)
        fail_msg("%s: %s", name, e.message);
    bench_open_text(b, text, n);
    mem_free(text);
}

static void bench_close(struct bench *b)
{
    grammar_state_free(b->s);
    grammar_matcher_free(b->m);
    grammar_free(b->g);
    mem_free(b->bits);
}

static void mask(struct bench *b, struct grammar_state *s)
{
    struct glim_err e = {0};
    if (grammar_mask(s, b->bits, &e) != GLIM_OK)
        fail_msg("%s", e.message);
}

static void take(struct grammar_state *s, uint32_t id)
{
    struct glim_err e = {0};
    if (grammar_accept(s, id, &e) != GLIM_OK)
        fail_msg("token %u: %s", id, e.message);
}

static size_t count(const uint64_t *bits)
{
    size_t n = 0;
    for (size_t i = 0; i < n_word; i++)
        n += (size_t)__builtin_popcountll(bits[i]);
    return n;
}

static bool bit(const uint64_t *bits, uint32_t id)
{
    return bits[id / 64] >> (id % 64) & 1;
}

static uint32_t nth(const uint64_t *bits, size_t k)
{
    for (uint32_t i = 0; i < n_piece; i++)
        if (bit(bits, i) && k-- == 0)
            return i;
    fail_msg("no such bit");
    return 0;
}

/* An admitted token, one of few bytes in half of the cases. */
static uint32_t draw(const uint64_t *bits, uint64_t *x)
{
    size_t n = count(bits);
    uint32_t id = 0;
    assert_true(n > 0);
    for (int i = next_random(x) % 2 ? 1 : 8; i > 0; i--) {
        id = nth(bits, next_random(x) % n);
        if (piece[id].n <= 2)
            break;
    }
    return id;
}

static const char *const names[] = {"ambiguous", "arithmetic", "balanced", "c",          "chess",   "counts",   "csv",
                                    "dashes",    "date",       "email",    "emoji",      "english", "japanese", "json",
                                    "json_arr",  "list",       "markdown", "palindrome", "regex",   "schema",   "sql",
                                    "toolcall",  "utf8",       "uuid",     "words",      "xml"};
enum { N_NAME = sizeof names / sizeof *names };

/* ---- against llguidance ---- */

static void compare_walk(const char *name, struct bench *b, const json_t *walk)
{
    const json_t *ids = json_object_get(walk, "ids"), *masks = json_object_get(walk, "masks");
    struct glim_err e = {0};
    grammar_state_reset(b->s);
    assert_true(json_array_size(masks) >= json_array_size(ids));
    for (size_t i = 0; i < json_array_size(masks); i++) {
        struct sha256 h;
        char have[65];
        const char *want = json_string_value(json_array_get(masks, i));
        mask(b, b->s);
        assert_int_equal(sha256_of(b->bits, n_word * 8, &h, &e), GLIM_OK);
        sha256_hex(&h, have);
        if (strncmp(have, want, 16) != 0)
            fail_msg("%s: step %zu: the mask (%zu tokens) has hash %.16s, llguidance's %s", name, i, count(b->bits),
                     have, want);
        if (i < json_array_size(ids))
            take(b->s, (uint32_t)json_integer_value(json_array_get(ids, i)));
    }
}

static void llguidance_gives_the_same_masks(void **state)
{
    (void)state;
    struct glim_err e = {0};
    char *text;
    size_t n, k, n_grammar = 0;
    const char *name;
    json_t *file, *walks, *walk;
    if (file_read(TEST_DATA "/grammars/masks.json", 2 << 20, &text, &n, &e) != GLIM_OK ||
        json_parse(text, n, "masks.json", &file, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    json_object_foreach(json_object_get(file, "grammars"), name, walks)
    {
        struct bench b;
        bench_open(&b, name);
        json_array_foreach(walks, k, walk) compare_walk(name, &b, walk);
        bench_close(&b);
        n_grammar++;
    }
    assert_true(n_grammar >= 20);
    json_decref(file);
    mem_free(text);
}

/* ---- against trying every token ---- */

static void expect_mask_is_what_is_taken(const char *name, struct bench *b, struct grammar_state *s)
{
    mask(b, s);
    for (uint32_t id = 0; id < n_piece; id++) {
        struct glim_err e = {0};
        bool taken = grammar_accept(s, id, &e) == GLIM_OK;
        if (taken)
            grammar_rollback(s, 1);
        if (taken != bit(b->bits, id))
            fail_msg("%s: after %zu tokens, token %u \"%.*s\" is %s, the mask says %d", name, grammar_taken(s), id,
                     (int)piece[id].n, piece[id].s, taken ? "taken" : "refused", bit(b->bits, id));
    }
    assert_int_equal(bit(b->bits, end_id), grammar_can_end(s));
}

static void a_mask_holds_the_tokens_that_are_taken(void **state)
{
    (void)state;
    uint64_t x = 1;
    for (int i = 0; i < N_NAME; i++) {
        struct bench b;
        bench_open(&b, names[i]);
        for (int walk = 0; walk < (SLOW_BUILD ? 1 : 3); walk++) {
            grammar_state_reset(b.s);
            for (int step = 0; step < (SLOW_BUILD ? 3 : 12); step++) {
                expect_mask_is_what_is_taken(names[i], &b, b.s);
                uint32_t id = draw(b.bits, &x);
                take(b.s, id);
                if (id == end_id)
                    break;
            }
        }
        bench_close(&b);
    }
}

/* ---- counts that are used up inside tokens ---- */

/* Along `text`, which begins a sentence, at every `every`-th byte and, from `near` on, at each. */
static void expect_masks_along(const char *gbnf, const char *text, size_t every, size_t near)
{
    struct glim_err e = {0};
    struct bench b;
    bench_open_text(&b, gbnf, strlen(gbnf));
    for (size_t i = 0; i <= strlen(text); i++) {
        if (i > 0)
            assert_int_equal(grammar_accept_bytes(b.s, text + i - 1, 1, &e), GLIM_OK);
        if (i % every == 0 || i >= near)
            expect_mask_is_what_is_taken(gbnf, &b, b.s);
    }
    bench_close(&b);
}

static void counts_end_inside_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf, *text;
    } c[] = {
        /* nothing of the kind begins after the last one */
        {"root ::= \"<\" [a-z ]{3,30} \">\"", "<abcdefghijklmnopqrstuvwxyz"},
        {"root ::= [^\n]{1,30} \"\\n\"", "abcdefghijklmnopqrstuvwxyz"},
        /* characters are counted, not bytes; some are cut */
        {"root ::= [^\n]{1,24} \"\\n\"",
         "\xC3\xA9\xC3\xA9\xC3\xA9\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC abcdefghijk\xD0\xB0\xD0\xB1"},
        {"root ::= [\\u00E0-\\u00FF\\u0430-\\u044F]{1,9} \".\"", "\xC3\xA9\xD0\xB0\xD0\xB1\xD0\xB2\xC3\xAA"},
        /* the rule may be over before the count is used up, */
        {"root ::= (w \" \")+\nw ::= [a-z]{2,40}", "ab abcdefghijklmnopqrstuvwxyzabcdefghij"},
        /* at every second character only, */
        {"root ::= (w \" \"?)+\nw ::= ([a-z] [a-z]){2,20}", "abcd abcdefghijklmnopqrstuvwxyzabcdefgh"},
        {"root ::= w \"ing!\"\nw ::= ([a-z] [a-z]){2,20}", "abcdefghijklmnopqrstuvwxyzabcdefghij"},
        /* and what comes then is of the same kind, or some of it */
        {"root ::= w [a-z]{1,3} \"!\"\nw ::= [a-z]{2,40}", "abcdefghijklmnopqrstuvwxyzabcdefghijk"},
        {"root ::= w [m-z0-9]* \"!\"\nw ::= [a-z0-9]{4,40}", "abcdefghijklmnopqrstuvwxyz0123456789a"},
        {"root ::= t t t \"\\n\"\nt ::= [^\\n]{9,36}", "\xC3\xA9 the quick brown fox jumps over th"},
        {"root ::= (w | n)+ \".\"\nw ::= [a-z ]{1,34} \"-\"\nn ::= [0-9a-f]{3,36} \"-\"",
         "cafe-beef and more of it all"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        size_t n = strlen(c[i].text);
        expect_masks_along(c[i].gbnf, c[i].text, SLOW_BUILD ? n : 7, SLOW_BUILD ? n : n - 3);
    }
}

/* ---- tokens of equal bytes, and of bytes that others begin with ---- */

static void equal_tokens_are_admitted_alike(void **state)
{
    (void)state;
    enum { N = 3000 };
    static const char *const some[] = {"english", "csv", "json", "utf8", "chess"};
    struct grammar_piece *twice = mem_calloc(2 * N, sizeof *twice);
    struct grammar_vocab *v;
    struct glim_err e = {0};
    uint64_t x = 7;
    assert_non_null(twice);
    for (size_t i = 0; i < 2 * N; i++)
        twice[i] = piece[i % N];
    assert_int_equal(grammar_vocab_create(&v, twice, 2 * N, NULL, 0, &e), GLIM_OK);
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        struct bench b;
        struct grammar_matcher *m;
        struct grammar_state *s;
        uint64_t *bits = mem_calloc(grammar_vocab_words(v), sizeof *bits);
        bench_open(&b, some[k]);
        assert_int_equal(grammar_matcher_create(&m, b.g, v, &e), GLIM_OK);
        assert_int_equal(grammar_state_create(&s, m, &e), GLIM_OK);
        for (int step = 0; step < 20; step++) {
            assert_int_equal(grammar_mask(s, bits, &e), GLIM_OK);
            mask(&b, b.s);
            for (uint32_t i = 0; i < 2 * N; i++)
                if (bit(bits, i) != (i % N != end_id && bit(b.bits, i % N)))
                    fail_msg("%s: token %u of twice %d: %d", some[k], i, N, bit(bits, i));
            uint32_t id = draw(b.bits, &x);
            if (id == end_id)
                break;
            take(b.s, id);
            assert_int_equal(grammar_accept_bytes(s, piece[id].s, piece[id].n, &e), GLIM_OK);
        }
        grammar_state_free(s);
        grammar_matcher_free(m);
        mem_free(bits);
        bench_close(&b);
    }
    grammar_vocab_free(v);
    mem_free(twice);
}

/* ---- a gate whose trigger begins most tokens ---- */

static void what_begins_with_a_trigger_is_masked(void **state)
{
    (void)state;
    static const char gbnf[] = "root ::= [^b]{0,9}";
    const struct grammar_trigger t[] = {{.s = " ", .n = 1}, {.s = "th", .n = 2}};
    struct glim_err e = {0};
    struct grammar_gate *g;
    struct bench b;
    bench_open_text(&b, gbnf, sizeof gbnf - 1);
    assert_int_equal(grammar_gate_create(&g, b.m, t, 2, true, &e), GLIM_OK);
    assert_int_equal(grammar_gate_mask(g, b.bits, &e), GLIM_OK);
    for (uint32_t id = 0; id < n_piece; id++) {
        bool taken = grammar_gate_accept(g, id, &e) == GLIM_OK;
        if (taken)
            grammar_gate_rollback(g, 1);
        if (taken != bit(b.bits, id))
            fail_msg("token %u \"%.*s\" is %s", id, (int)piece[id].n, piece[id].s, taken ? "taken" : "refused");
    }
    grammar_gate_free(g);
    bench_close(&b);
}

/* ---- automata, which may take bytes that are no UTF-8 ---- */

struct edge {
    uint32_t from;
    int lo, hi;
    uint32_t to;
};

/* States 1 (the start) to 4, and 5, which accepts after a quote; later edges win. */
static void expect_automaton_is_masked(const struct edge *edge, size_t n, const char *begin)
{
    uint32_t next[6 * 256] = {0}, root;
    uint64_t accept = 1 << 5;
    struct dfa d = {.n_state = 6, .n_class = 256, .next = next, .accept = &accept};
    struct glim_err e = {0};
    struct grammar_builder *build;
    struct bench b = {.bits = mem_calloc(n_word, sizeof *b.bits)};
    for (size_t i = 0; i < n; i++)
        for (int c = edge[i].lo; c <= edge[i].hi; c++)
            next[edge[i].from * 256 + (uint32_t)c] = edge[i].to;
    next[256 + '"'] = 5;
    for (int i = 0; i < 256; i++) { /* bytes that lead to the same states are one class */
        int k = 0;
        while (next[256 + k] != next[256 + i] || next[512 + k] != next[512 + i] || next[768 + k] != next[768 + i] ||
               next[1024 + k] != next[1024 + i])
            k++;
        d.cls[i] = (uint8_t)k;
    }
    assert_int_equal(grammar_builder_create(&build, NULL, &e), GLIM_OK);
    root = grammar_rule(build, "root", 4);
    grammar_define(build, root, grammar_dfa(build, &d));
    assert_int_equal(grammar_compile(&b.g, build, root, &e), GLIM_OK);
    grammar_builder_free(build);
    assert_int_equal(grammar_matcher_create(&b.m, b.g, vocab, &e), GLIM_OK);
    assert_int_equal(grammar_state_create(&b.s, b.m, &e), GLIM_OK);
    expect_mask_is_what_is_taken("automaton", &b, b.s);
    assert_int_equal(grammar_accept_bytes(b.s, begin, strlen(begin), &e), GLIM_OK);
    expect_mask_is_what_is_taken("automaton", &b, b.s);
    expect_mask_is_what_is_taken("automaton", &b, b.s);
    bench_close(&b);
}

static void automata_over_bytes_are_masked_too(void **state)
{
    (void)state;
    const struct edge but_one[] = {{1, 0, 255, 1}, {1, 0xA9, 0xA9, 0}};
    const struct edge but_one_character[] = {{1, 0, 0x7F, 1},    {1, 0xC2, 0xDF, 2}, {1, 0xE0, 0xEF, 3},
                                             {2, 0x80, 0xBF, 1}, {2, 0xA9, 0xA9, 0}, {3, 0x80, 0xBF, 4},
                                             {4, 0x80, 0xBF, 1}};
    /* whole characters lead from 1 to 1; so does a lead alone from 2, and what follows it then dies on A9 */
    const struct edge shifted[] = {{1, 0, 0x7F, 1},    {1, 0x80, 0xBF, 1}, {1, 0xA9, 0xA9, 0},
                                   {1, 0xC2, 0xDF, 2}, {1, 0xE0, 0xEF, 3}, {1, 0xF0, 0xF4, 4},
                                   {2, 0, 255, 1},     {3, 0, 255, 2},     {4, 0, 255, 3}};
    expect_automaton_is_masked(but_one, 2, "x\xC3");
    expect_automaton_is_masked(but_one_character, 7, "x\xC3");
    expect_automaton_is_masked(shifted, 9, "x\xC3");
}

/* ---- going back, copies, caches ---- */

static uint64_t mask_hash(struct bench *b, struct grammar_state *s)
{
    mask(b, s);
    return xxh3(b->bits, n_word * 8);
}

/* A walk with its masks; then back to every place, in any order, and by another matcher that has seen nothing. */
static void expect_same_masks_again(const char *name, uint64_t *x)
{
    enum { STEPS = 40 };
    struct glim_err e = {0};
    struct bench b, fresh;
    struct grammar_state *copy;
    uint64_t hash[STEPS + 1];
    uint32_t id[STEPS];
    size_t n = 0;
    bench_open(&b, name);
    bench_open(&fresh, name);
    for (; n < STEPS; n++) {
        hash[n] = mask_hash(&b, b.s);
        id[n] = draw(b.bits, x);
        if (id[n] == end_id)
            break;
        take(b.s, id[n]);
    }
    hash[n] = mask_hash(&b, b.s);
    for (int turn = 0; turn < 20; turn++) {
        size_t to = next_random(x) % (n + 1);
        if (to <= grammar_taken(b.s))
            grammar_rollback(b.s, grammar_taken(b.s) - to);
        while (grammar_taken(b.s) < to)
            take(b.s, id[grammar_taken(b.s)]);
        assert_int_equal(mask_hash(&b, b.s), hash[to]);
        assert_int_equal(grammar_state_copy(&copy, b.s, &e), GLIM_OK);
        assert_int_equal(mask_hash(&b, copy), hash[to]);
        grammar_rollback(copy, to / 2);
        assert_int_equal(mask_hash(&b, copy), hash[to - to / 2]);
        grammar_state_free(copy);
    }
    for (size_t i = 0; i < n; i++)
        take(fresh.s, id[i]);
    assert_int_equal(mask_hash(&fresh, fresh.s), hash[n]); /* the only mask it ever made */
    bench_close(&b);
    bench_close(&fresh);
}

static void masks_do_not_depend_on_the_way(void **state)
{
    (void)state;
    uint64_t x = 2;
    for (int i = 0; i < N_NAME; i++)
        for (int walk = 0; walk < (SLOW_BUILD ? 1 : 4); walk++)
            expect_same_masks_again(names[i], &x);
}

/* A small matcher must drop what it remembers again and again; a large one never. */
static void dropping_what_is_remembered_changes_nothing(void **state)
{
    (void)state;
    struct grammar_limits small = grammar_limits_default;
    struct bench b[2] = {{0}};
    struct glim_err e = {0};
    uint64_t x = 5;
    small.bytes = (size_t)1 << 20;
    for (int i = 0; i < 2; i++) {
        struct grammar_builder *build;
        assert_int_equal(grammar_builder_create(&build, i ? &small : NULL, &e), GLIM_OK);
        uint32_t r = grammar_rule(build, "r", 1);
        grammar_node in[] = {grammar_text(build, "(", 1), grammar_ref(build, r), grammar_text(build, ")", 1)};
        grammar_node out[] = {grammar_text(build, "[", 1), grammar_ref(build, r), grammar_text(build, "]", 1)};
        grammar_node any[] = {grammar_seq(build, in, 3), grammar_seq(build, out, 3),
                              grammar_class(build, &(struct code_range){'a', 'z'}, 1, false)};
        grammar_define(build, r, grammar_repeat(build, grammar_alt(build, any, 3), 0, GRAMMAR_MANY));
        assert_int_equal(grammar_compile(&b[i].g, build, r, &e), GLIM_OK);
        grammar_builder_free(build);
        b[i].bits = mem_calloc(n_word, sizeof *b[i].bits);
        assert_int_equal(grammar_matcher_create(&b[i].m, b[i].g, vocab, &e), GLIM_OK);
        assert_int_equal(grammar_state_create(&b[i].s, b[i].m, &e), GLIM_OK);
    }
    for (int step = 0; step < (SLOW_BUILD ? 100 : 600); step++) {
        char deep[2000];
        for (size_t i = 0; i < sizeof deep; i++)
            deep[i] = next_random(&x) % 2 ? '(' : '[';
        assert_int_equal(grammar_accept_bytes(b[1].s, deep, sizeof deep, &e), GLIM_OK);
        grammar_rollback(b[1].s, 1);
        assert_int_equal(mask_hash(&b[1], b[1].s), mask_hash(&b[0], b[0].s));
        uint32_t id = draw(b[0].bits, &x);
        if (id == end_id || next_random(&x) % 8 == 0) {
            size_t back = next_random(&x) % (grammar_taken(b[0].s) + 1) / 2;
            grammar_rollback(b[0].s, back);
            grammar_rollback(b[1].s, back);
        } else {
            take(b[0].s, id);
            take(b[1].s, id);
        }
    }
    bench_close(&b[0]);
    bench_close(&b[1]);
}

/* ---- walks end, in what somebody else accepts ---- */

static uint32_t token(const char *s)
{
    for (uint32_t i = 0; i < n_piece; i++)
        if (piece[i].n == strlen(s) && memcmp(piece[i].s, s, piece[i].n) == 0)
            return i;
    fail_msg("no token \"%s\"", s);
    return 0;
}

/* Walk by masks to an end. From `want` tokens on it is preferred, and so are bytes that close lines and texts. */
static void walk_to_end(const char *name, struct bench *b, size_t want, uint64_t *x, struct str *out)
{
    const uint32_t close[] = {token("0"), token("-"), token("\n"), token("\""), token("1")};
    grammar_state_reset(b->s);
    str_clear(out);
    str_puts(out, "");
    for (int step = 0; step < 2000; step++) {
        mask(b, b->s);
        if (count(b->bits) == 0)
            fail_msg("%s: an empty mask after \"%s\"", name, out->s);
        uint32_t id = draw(b->bits, x);
        if (grammar_taken(b->s) >= want) {
            uint32_t closing = close[next_random(x) % 8 % 5];
            id = bit(b->bits, end_id) ? end_id : bit(b->bits, closing) ? closing : id;
        }
        take(b->s, id);
        if (id == end_id) {
            mask(b, b->s);
            assert_int_equal(count(b->bits), 0);
            return;
        }
        str_add(out, piece[id].s, piece[id].n);
    }
    fail_msg("%s: no end of \"%s\"", name, out->s);
}

static void walks_end_in_sentences(void **state)
{
    (void)state;
    static const struct {
        const char *name, *regex; /* POSIX, over bytes */
    } c[] = {
        {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
        {"words",
         "^((January|February|March|April|May|June|July|Janus|Jan|Mar|Marchen) ([1-9]|[12][0-9]|3[01])\n){2,3}$"},
        {"chess",
         "^([1-9][0-9]?\\. (([KQRBN]([a-h][1-8]?|[1-8])?x?[a-h][1-8]|([a-h]x)?[a-h][1-8](=[QRBN])?|O-O(-O)?)[+#]?) "
         "((([KQRBN]([a-h][1-8]?|[1-8])?x?[a-h][1-8]|([a-h]x)?[a-h][1-8](=[QRBN])?|O-O(-O)?)[+#]?)\n)?)+"
         "(1-0|0-1|1/2-1/2)$"},
        {"email", "^[A-Za-z0-9_.+-]{1,64}@([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.){1,8}[a-z]{2,24}$"},
        {"list", "^(- [^\n\r]+\n)+$"},
        {"english", "^[!-~]+([ \t\n][!-~]+)*$"},
        {"csv", "^((\"([^\"]|\"\")*\"|[^\",\r\n]*)(,(\"([^\"]|\"\")*\"|[^\",\r\n]*)){3}\r?\n){3,}$"},
    };
    uint64_t x = 3;
    struct str out = {0};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct bench b;
        regex_t re;
        assert_int_equal(regcomp(&re, c[i].regex, REG_EXTENDED | REG_NOSUB), 0);
        bench_open(&b, c[i].name);
        for (int walk = 0; walk < (SLOW_BUILD ? 20 : 200); walk++) {
            walk_to_end(c[i].name, &b, next_random(&x) % 20, &x, &out);
            if (strlen(out.s) == out.n && regexec(&re, out.s, 0, NULL, 0) != 0)
                fail_msg("%s: \"%s\" is none", c[i].name, out.s);
        }
        bench_close(&b);
        regfree(&re);
    }
    str_fini(&out);
}

/* Objects of any depth are what jansson reads. */
static void json_walks_are_json(void **state)
{
    (void)state;
    uint64_t x = 4;
    struct str out = {0};
    struct bench b;
    bench_open(&b, "json");
    for (int walk = 0; walk < (SLOW_BUILD ? 20 : 300); walk++) {
        json_error_t why;
        walk_to_end("json", &b, 0, &x, &out);
        json_t *v = json_loadb(out.s, out.n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
        if (!v && json_error_code(&why) != json_error_numeric_overflow &&
            json_error_code(&why) != json_error_invalid_utf8)
            fail_msg("\"%s\": %s", out.s, why.text);
        json_decref(v);
    }
    bench_close(&b);
    str_fini(&out);
}

/* ---- one way on ---- */

static void a_single_way_on_is_forced(void **state)
{
    (void)state;
    static const char gbnf[] = "root ::= \"Q\" (\"7\" | \"8\") \"\\x01\"";
    struct glim_err e = {0};
    struct bench b = {.bits = mem_calloc(n_word, sizeof *b.bits)};
    int64_t id = 0;
    assert_int_equal(grammar_gbnf(&b.g, gbnf, sizeof gbnf - 1, &e), GLIM_OK);
    assert_int_equal(grammar_matcher_create(&b.m, b.g, vocab, &e), GLIM_OK);
    assert_int_equal(grammar_state_create(&b.s, b.m, &e), GLIM_OK);
    assert_int_equal(grammar_forced(b.s, &id, &e), GLIM_OK);
    assert_int_equal(id, token("Q"));
    take(b.s, (uint32_t)id);
    assert_int_equal(grammar_forced(b.s, &id, &e), GLIM_OK);
    assert_int_equal(id, -1);
    take(b.s, token("7"));
    assert_int_equal(grammar_forced(b.s, &id, &e), GLIM_OK);
    assert_int_equal(id, token("\x01"));
    take(b.s, (uint32_t)id);
    assert_int_equal(grammar_forced(b.s, &id, &e), GLIM_OK);
    assert_int_equal(id, end_id);
    take(b.s, (uint32_t)id);
    assert_int_equal(grammar_forced(b.s, &id, &e), GLIM_OK);
    assert_int_equal(id, -1);
    assert_false(grammar_can_end(b.s));
    assert_int_equal(grammar_accept(b.s, token("Q"), &e), GLIM_REFUSED);
    assert_int_equal(grammar_accept(b.s, end_id, &e), GLIM_REFUSED);
    assert_int_equal(grammar_accept(b.s, (uint32_t)n_piece, &e), GLIM_USAGE);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llguidance_gives_the_same_masks),
        cmocka_unit_test(a_mask_holds_the_tokens_that_are_taken),
        cmocka_unit_test(counts_end_inside_tokens),
        cmocka_unit_test(equal_tokens_are_admitted_alike),
        cmocka_unit_test(what_begins_with_a_trigger_is_masked),
        cmocka_unit_test(automata_over_bytes_are_masked_too),
        cmocka_unit_test(masks_do_not_depend_on_the_way),
        cmocka_unit_test(dropping_what_is_remembered_changes_nothing),
        cmocka_unit_test(walks_end_in_sentences),
        cmocka_unit_test(json_walks_are_json),
        cmocka_unit_test(a_single_way_on_is_forced),
    };
    return cmocka_run_group_tests(tests, open_vocab, close_vocab);
}
