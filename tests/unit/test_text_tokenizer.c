/* If this fails: a GGUF's vocabulary is misread, refused for no reason, or accepted though it is damaged; special
 * tokens leak into what users type; decoded text gains or loses spaces. Small vocabularies written out here; the real
 * ones are in test_text_vocab.c. */
#include "test_text_vocab.h"

#include "text/tok_impl.h"

#include <math.h>

enum { MAX = 700 };

/* A vocabulary under construction. */
struct made {
    struct tok_spec spec;
    struct tok_piece token[MAX], merge[MAX];
    float score[MAX];
    int32_t type[MAX];
    char text[MAX][24];
};

static int32_t add(struct made *m, const char *s, int type, float score)
{
    size_t i = m->spec.n_token++;
    snprintf(m->text[i], sizeof m->text[i], "%s", s);
    m->token[i] = (struct tok_piece){m->text[i], (uint32_t)strlen(s)};
    m->type[i] = type;
    m->score[i] = score;
    return (int32_t)i;
}

static void merge(struct made *m, const char *s)
{
    m->merge[m->spec.n_merge++] = (struct tok_piece){s, (uint32_t)strlen(s)};
}

static void begin(struct made *m, const char *model, const char *pre)
{
    memset(m, 0, sizeof *m);
    m->spec = (struct tok_spec){.model = model,
                                .pre = pre,
                                .token = m->token,
                                .score = m->score,
                                .type = m->type,
                                .merge = m->merge,
                                .bos = -1,
                                .eos = -1,
                                .eot = -1,
                                .unk = -1,
                                .add_bos = -1,
                                .add_eos = -1,
                                .add_space_prefix = -1};
}

/* Ids 0-255 are the bytes in GPT-2's alphabet; then "he", "ll", "hell", "hello", "Ġ" + "hello", and special tokens. */
static void make_bpe(struct made *m, const char *pre)
{
    begin(m, "gpt2", pre);
    for (int b = 0; b < 256; b++) {
        char utf8[5] = {0};
        utf8_encode(tok_letter_of_byte((uint8_t)b), utf8);
        add(m, utf8, TOK_NORMAL, 0);
    }
    static const char *const made_by[][2] = {
        {"he", "h e"}, {"ll", "l l"}, {"hell", "he ll"}, {"hello", "hell o"}, {"\xC4\xA0hello", "\xC4\xA0 hello"}};
    for (int i = 0; i < 5; i++) {
        add(m, made_by[i][0], TOK_NORMAL, 0);
        merge(m, made_by[i][1]);
    }
    add(m, "<s>", TOK_CONTROL, 0);        /* 261 */
    add(m, "<|im_end|>", TOK_CONTROL, 0); /* 262 */
    add(m, "<tool>", TOK_USER, 0);        /* 263 */
    add(m, "<tool>s", TOK_USER, 0);       /* 264 */
    add(m, "", TOK_UNUSED, 0);            /* 265 */
    m->spec.bos = 261;
}

/* unk, bos, eos, the 256 bytes as 3…258, then pieces with falling scores. */
static void make_spm(struct made *m, const char *model)
{
    begin(m, model, NULL);
    add(m, "<unk>", TOK_UNKNOWN, 0);
    add(m, "<s>", TOK_CONTROL, 0);
    add(m, "</s>", TOK_CONTROL, 0);
    for (int b = 0; b < 256; b++) {
        char hex[8];
        snprintf(hex, sizeof hex, "<0x%02X>", b);
        add(m, hex, TOK_BYTE, 0);
    }
    static const char *const piece[] = {"\xE2\x96\x81\xE2\x96\x81",
                                        "he",
                                        "ll",
                                        "hell",
                                        "hello",
                                        "\xE2\x96\x81hello", /* 259 … 264 */
                                        "\xE2\x96\x81",
                                        "h",
                                        "e",
                                        "l",
                                        "o",
                                        "\xC3\xA9"}; /* 265 … 270 */
    for (int i = 0; i < 12; i++)
        add(m, piece[i], TOK_NORMAL, -(float)i);
    add(m, "<|u|>", TOK_USER, 0); /* 271 */
    m->spec.bos = 1;
    m->spec.eos = 2;
    m->spec.unk = 0;
}

static void refused(const struct tok_spec *s, glim_status want, const char *text)
{
    struct glim_err e = {0};
    struct tokenizer *t = (struct tokenizer *)&e;
    glim_status st = tok_open(&t, s, &e);
    if (st != want || !strstr(e.message, text))
        fail_msg("have %d \"%s\", need %d \"…%s…\"", st, e.message, want, text);
    assert_null(t);
}

/* ---- byte-level BPE ---- */

static void the_byte_alphabet_is_gpt2s(void **state)
{
    (void)state;
    assert_int_equal(tok_letter_of_byte(' '), 0x120);
    assert_int_equal(tok_letter_of_byte('\n'), 0x10A);
    assert_int_equal(tok_letter_of_byte(0x7F), 0x121);
    assert_int_equal(tok_letter_of_byte(0xA0), 0x142);
    assert_int_equal(tok_letter_of_byte(0xAD), 0x143);
    assert_int_equal(tok_letter_of_byte('A'), 'A');
    for (int b = 0; b < 256; b++)
        assert_int_equal(tok_byte_of_letter(tok_letter_of_byte((uint8_t)b)), b);
    assert_int_equal(tok_byte_of_letter(' '), -1);
    assert_int_equal(tok_byte_of_letter(0x144), -1);
    assert_int_equal(tok_byte_of_letter(0xAD), -1);
}

static void merges_go_by_rank(void **state)
{
    (void)state;
    struct made m;
    make_bpe(&m, "gpt-2");
    struct tokenizer *t = open_spec(&m.spec);
    expect_ids(t, "hello hello", 11, 0, "259 260");
    expect_ids(t, "hell", 4, 0, "258");
    expect_ids(t, "helo", 4, 0, "256 108 111");
    expect_ids(t, "lll", 3, 0, "257 108"); /* equal ranks from the left */
    expect_ids(t, "", 0, TOK_ADD_BOS, ""); /* gpt-2 does not add its bos by itself */
    tok_close(t);

    m.spec.n_merge--; /* without the merge " hello" stays in two */
    t = open_spec(&m.spec);
    expect_ids(t, " hello", 6, 0, "32 259");
    tok_close(t);
    m.spec.pre = "llama-bpe"; /* that family takes a word that is a token whole */
    t = open_spec(&m.spec);
    expect_ids(t, " hello", 6, TOK_ADD_BOS, "261 260");
    tok_close(t);
}

static void special_tokens_are_cut_out_first(void **state)
{
    (void)state;
    struct made m;
    make_bpe(&m, "gpt-2");
    struct tokenizer *t = open_spec(&m.spec);
    expect_ids(t, "<s>hello<|im_end|>", 18, TOK_SPECIAL, "261 259 262");
    char *plain = ids_of(t, "<s>", 3, 0);
    assert_string_equal(plain, "60 115 62");
    mem_free(plain);
    expect_ids(t, "<tool>x", 7, 0, "263 120"); /* user-defined tokens are text that is always cut out */
    expect_ids(t, "<tool>s", 7, 0, "264");     /* the longest */
    expect_ids(t, "<to", 3, TOK_SPECIAL, "60 116 111");
    struct tok_piece p = tok_bytes(t, 261, false, false);
    assert_int_equal(p.n, 0);
    p = tok_bytes(t, 261, true, false);
    assert_int_equal(p.n, 3);
    assert_memory_equal(p.s, "<s>", 3);
    p = tok_bytes(t, 263, false, false);
    assert_int_equal(p.n, 6);
    p = tok_bytes(t, 260, false, true); /* a byte-level vocabulary adds no space, so it drops none */
    assert_memory_equal(p.s, " hello", 6);
    assert_int_equal(tok_bytes(t, -1, true, false).n, 0);
    assert_int_equal(tok_bytes(t, 266, true, false).n, 0);
    assert_int_equal(tok_bytes(t, 265, true, false).n, 0);
    tok_close(t);
}

static void expect_runs(struct tokenizer *t, const char *text, const struct tok_run *run, size_t n_run, int flags,
                        const char *want)
{
    struct glim_err e = {0};
    int32_t *id;
    size_t n, at = 0;
    char have[300] = "";
    assert_int_equal(tok_encode_runs(t, text, run, n_run, flags, &id, &n, &e), GLIM_OK);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%d", i ? " " : "", id[i]);
    assert_string_equal(have, want);
    mem_free(id);
}

/* What a user typed cannot become a control token, also not together with what the template wrote around it. */
static void control_tokens_lie_in_trusted_runs(void **state)
{
    (void)state;
    struct made m;
    make_bpe(&m, "gpt-2");
    struct tokenizer *t = open_spec(&m.spec);
    static const struct tok_run mixed[] = {{3, true}, {8, false}, {10, true}};
    expect_runs(t, "<s>hello<s><|im_end|>", mixed, 3, 0, "261 259 60 115 62 262");
    static const struct tok_run across[] = {{1, true}, {2, false}, {3, true}, {0, false}, {3, true}};
    expect_runs(t, "<s><s><s>", across, 5, 0, "60 115 62 261 261");
    static const struct tok_run begun[] = {{2, false}, {1, true}};
    expect_runs(t, "<s>", begun, 2, 0, "60 115 62");
    static const struct tok_run user[] = {{3, false}, {4, false}};
    expect_runs(t, "<tool>x", user, 2, 0, "263 120");             /* user-defined tokens are text */
    static const struct tok_run word[] = {{3, true}, {3, false}}; /* words are cut as if there were no runs */
    expect_runs(t, " hello", word, 2, 0, "260");
    assert_true(tok_is_control(t, 261) && !tok_is_control(t, 263) && !tok_is_control(t, -1));
    assert_false(tok_is_control(t, 266));
    tok_close(t);
}

static void decoding_leaves_out_control_tokens(void **state)
{
    (void)state;
    struct made m;
    make_bpe(&m, NULL);
    struct tokenizer *t = open_spec(&m.spec);
    assert_string_equal(tok_pre_name(t), "default");
    static const int32_t ids[] = {261, 259, 9999, 0, 262, -5, 263};
    char *text;
    size_t n;
    assert_int_equal(tok_decode(t, ids, 7, false, &text, &n, NULL), GLIM_OK);
    assert_int_equal(n, 12);
    assert_memory_equal(text, "hello\0<tool>", 13);
    mem_free(text);
    assert_int_equal(tok_decode(t, ids, 7, true, &text, &n, NULL), GLIM_OK);
    assert_memory_equal(text, "<s>hello\0<|im_end|><tool>", 26);
    mem_free(text);
    assert_int_equal(tok_decode(t, NULL, 0, true, &text, &n, NULL), GLIM_OK);
    assert_string_equal(text, "");
    mem_free(text);
    tok_close(t);
}

static void ends_come_from_ids_and_spellings(void **state)
{
    (void)state;
    struct made m;
    int32_t more[] = {5, -1, 7};
    make_bpe(&m, "gpt-2");
    int32_t eot = add(&m, "<|eot_id|>", TOK_USER, 0), normal = add(&m, "<|end|>", TOK_NORMAL, 0);
    m.spec.eos = 3;
    m.spec.eot = 4;
    m.spec.end = more;
    m.spec.n_end = 3;
    struct tokenizer *t = open_spec(&m.spec);
    static const int32_t yes[] = {3, 4, 5, 7, 262}, no[] = {-1, 0, 6, 261, 263, 100000};
    for (int i = 0; i < 5; i++)
        assert_true(tok_is_end(t, yes[i]));
    for (int i = 0; i < 6; i++)
        assert_false(tok_is_end(t, no[i]));
    assert_true(tok_is_end(t, eot)); /* such a spelling cannot have been meant for user text … */
    char *ids = ids_of(t, "<|eot_id|>", 10, 0);
    assert_null(strstr(ids, "266")); /* … and does not come from it */
    mem_free(ids);
    assert_false(tok_is_end(t, normal));
    tok_close(t);

    add(&m, "<|return|>", TOK_CONTROL, 0); /* harmony: <|end|> ends a message there, not the turn */
    add(&m, "<|call|>", TOK_CONTROL, 0);
    m.type[normal] = TOK_CONTROL;
    t = open_spec(&m.spec);
    assert_false(tok_is_end(t, normal));
    assert_true(tok_is_end(t, normal + 1));
    assert_true(tok_is_end(t, normal + 2));
    tok_close(t);
}

static void every_listed_name_of_a_pre_tokeniser_opens(void **state)
{
    (void)state;
    static const char *const names[] = {
        "llama-bpe",    "llama3",         "llama-v3",    "falcon3", "smollm", "qwen2",  "deepseek-r1-qwen",
        "gpt-2",        "gpt2",           "default",     "qwen35",  "gpt-4o", "llama4", "tekken",
        "deepseek-llm", "deepseek-coder", "deepseek-v3", "kimi-k2", "refact", "glm4",   "minimax-m2"};
    struct made m;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        make_bpe(&m, names[i]);
        struct tokenizer *t = open_spec(&m.spec);
        assert_string_equal(tok_pre_name(t), names[i]);
        expect_round_trip(t, "Hello, w\xC3\xB6rld 12345!", 20, 0);
        tok_close(t);
    }
    make_bpe(&m, "unheard-of");
    refused(&m.spec, GLIM_REFUSED, "have \"unheard-of\", need one of llama-bpe, qwen2, qwen35, gpt-2, smollm, gpt-4o");
    m.spec.pre = "";
    refused(&m.spec, GLIM_REFUSED, "tokenizer.ggml.pre");
    m.spec.model = "bert";
    refused(&m.spec, GLIM_REFUSED, "have \"bert\", need gpt2, llama, gemma4 or t5");
    m.spec.model = NULL;
    refused(&m.spec, GLIM_REFUSED, "tokenizer.ggml.model");
}

static void damaged_vocabularies_are_refused(void **state)
{
    (void)state;
    static struct made m;
    make_bpe(&m, "gpt-2");
    m.spec.n_token = 0;
    refused(&m.spec, GLIM_FAILED, "have 0, need 1 to");
    make_bpe(&m, "gpt-2");
    merge(&m, "q q");
    refused(&m.spec, GLIM_FAILED, "merge 5 \"q q\": have no token for its result");
    make_bpe(&m, "gpt-2");
    merge(&m, "qq q");
    refused(&m.spec, GLIM_FAILED, "its left side");
    make_bpe(&m, "gpt-2");
    merge(&m, "h ee");
    refused(&m.spec, GLIM_FAILED, "its right side");
    static const char *const no_pair[] = {"hello", "", " ", "h", "h ", " h", "  "};
    for (size_t i = 0; i < sizeof no_pair / sizeof *no_pair; i++) {
        make_bpe(&m, "gpt-2");
        merge(&m, no_pair[i]);
        refused(&m.spec, GLIM_FAILED, "need \"left right\"");
    }
    make_bpe(&m, "gpt-2");
    m.spec.bos = 266;
    refused(&m.spec, GLIM_FAILED, "bos: have token 266, need one below 266");
    make_bpe(&m, "gpt-2");
    m.spec.eos = -2;
    refused(&m.spec, GLIM_FAILED, "eos: have token -2");
    make_bpe(&m, "gpt-2");
    m.type[9] = 7;
    refused(&m.spec, GLIM_FAILED, "type of token 9: have 7, need 0 to 6");
    make_bpe(&m, "gpt-2");
    m.spec.bos = -1;
    m.spec.add_bos = 1;
    refused(&m.spec, GLIM_FAILED, "add_bos_token");
    make_bpe(&m, "gpt-2");
    char *big = mem_alloc(5000);
    memset(big, 'x', 5000);
    m.token[256] = (struct tok_piece){big, 5000};
    refused(&m.spec, GLIM_REFUSED, "token 256: have 5000 bytes, need at most 4096");
    mem_free(big);
    make_spm(&m, "llama");
    m.spec.score = NULL;
    refused(&m.spec, GLIM_FAILED, "tokenizer.ggml.scores");
    make_spm(&m, "t5");
    m.score[259] = NAN;
    refused(&m.spec, GLIM_FAILED, "score of token 259");
    m.score[259] = -INFINITY;
    refused(&m.spec, GLIM_FAILED, "score of token 259");
}

static void a_vocabulary_may_lack_types_and_repeat_itself(void **state)
{
    (void)state;
    struct made m;
    make_bpe(&m, "gpt-2");
    add(&m, "hello", TOK_NORMAL, 0); /* spelled like 259 */
    add(&m, "x\xE4\xBD\xA0", TOK_NORMAL, 0);
    add(&m, "x", TOK_NORMAL, 0);
    merge(&m, "h e");
    struct tokenizer *t = open_spec(&m.spec);
    expect_ids(t, "hello", 5, 0, "259");
    assert_int_equal(tok_bytes(t, 266, false, false).n, 5);
    assert_int_equal(tok_bytes(t, 267, false, false).n, 4); /* not in the byte alphabet: stands for its own text */
    assert_memory_equal(tok_bytes(t, 267, false, false).s, "x\xE4\xBD\xA0", 4);
    assert_int_equal(tok_bytes(t, 268, false, false).n, 1);
    tok_close(t);
    m.spec.type = NULL;
    t = open_spec(&m.spec);
    expect_ids(t, "<s>", 3, TOK_SPECIAL, "60 115 62"); /* nothing says that it is special */
    tok_close(t);
}

/* ---- SentencePiece ---- */

static void spm_merges_by_score_after_a_dummy_space(void **state)
{
    (void)state;
    struct made m;
    make_spm(&m, "llama");
    struct tokenizer *t = open_spec(&m.spec);
    expect_ids(t, "hello", 5, TOK_ADD_BOS, "1 264");
    expect_ids(t, "hello hello", 11, 0, "264 264");
    expect_ids(t, " hello", 6, 0, "259 263"); /* two spaces score higher than one with the word */
    expect_ids(t, "\xC3\xA9\xC3\xA8", 4, 0, "265 270 198 171");
    expect_ids(t, "<0x41><s>", 9, 0, "265 63 51 123 55 52 65 63 118 65"); /* spellings of tokens are text */
    expect_ids(t, "<s>hello</s>", 12, TOK_SPECIAL, "1 264 2");
    expect_ids(t, "<|u|>hello", 10, 0, "271 264");
    static const char *const text[] = {"hello",    " hello", "  hello  ",   "\n", "",
                                       "\xFF\xFE", "h\xC3",  "<|u|> hello", " "};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        expect_round_trip(t, text[i], strlen(text[i]), 0);
        expect_round_trip(t, text[i], strlen(text[i]), TOK_SPECIAL);
    }
    expect_round_trip(t, "<s> hello</s>hello", 18, TOK_SPECIAL);
    struct tok_piece p = tok_bytes(t, 264, false, false);
    assert_int_equal(p.n, 6);
    p = tok_bytes(t, 264, false, true);
    assert_int_equal(p.n, 5);
    assert_memory_equal(p.s, "hello", 5);
    p = tok_bytes(t, 3 + ' ', false, true); /* a byte token is never the space that was put in front */
    assert_int_equal(p.n, 1);
    tok_close(t);

    m.spec.add_space_prefix = 0; /* Gemma */
    t = open_spec(&m.spec);
    expect_ids(t, "hello", 5, 0, "263");
    expect_ids(t, " hello", 6, 0, "264");
    expect_round_trip(t, " hello", 6, 0);
    tok_close(t);
}

/* A user-defined run of spaces, spelled with U+2581, comes out of merging: what follows it did not get a dummy space.
 */
static void user_defined_spaces_do_not_end_a_stretch(void **state)
{
    (void)state;
    struct made m;
    for (int kind = 0; kind < 2; kind++) {
        make_spm(&m, kind ? "t5" : "llama");
        m.spec.add_space_prefix = 1;
        m.type[259] = TOK_USER;
        struct tokenizer *t = open_spec(&m.spec);
        expect_ids(t, "   hello", 8, 0, "259 259 263");
        expect_round_trip(t, "    hello", 9, 0);
        expect_round_trip(t, "<|u|>    hello<|u|>", 19, 0);
        tok_close(t);
    }
    make_spm(&m, "t5"); /* of two tokens spelled alike the first counts, even where it may not be made from text */
    m.spec.add_space_prefix = 1;
    add(&m, "q", TOK_CONTROL, 0);
    add(&m, "q", TOK_USER, 0);
    struct tokenizer *t = open_spec(&m.spec);
    expect_round_trip(t, "q hello", 7, 0);
    tok_close(t);
}

static void equal_scores_go_from_the_left(void **state)
{
    (void)state;
    struct made m;
    make_spm(&m, "llama");
    int32_t b = add(&m, "b", TOK_NORMAL, -20), hb = add(&m, "hb", TOK_NORMAL, 0.0f),
            hh = add(&m, "hh", TOK_NORMAL, -0.0f);
    struct tokenizer *t = open_spec(&m.spec);
    struct str want = {0};
    str_printf(&want, "265 %d %d", hh, b); /* -0 is no lower than 0 */
    expect_ids(t, "hhb", 3, 0, want.s);
    str_clear(&want);
    str_printf(&want, "265 %d", hb);
    expect_ids(t, "hb", 2, 0, want.s);
    str_fini(&want);
    tok_close(t);
}

static void special_ids_of_spm_have_defaults(void **state)
{
    (void)state;
    struct made m;
    make_spm(&m, "llama");
    m.spec.bos = m.spec.eos = m.spec.unk = -1;
    struct tokenizer *t = open_spec(&m.spec);
    assert_int_equal(tok_bos(t), 1);
    assert_int_equal(tok_eos(t), 2);
    assert_true(tok_adds_bos(t));
    tok_close(t);
    m.spec.add_bos = 0;
    t = open_spec(&m.spec);
    assert_false(tok_adds_bos(t));
    tok_close(t);
}

static void without_byte_tokens_there_is_the_unknown(void **state)
{
    (void)state;
    struct made m;
    struct glim_err e = {0};
    int32_t *id;
    size_t n;
    make_spm(&m, "llama");
    for (int i = 3; i < 259; i++)
        m.type[i] = TOK_UNUSED;
    struct tokenizer *t = open_spec(&m.spec);
    expect_ids(t, "hello\xC3\xA8\xC3\xA8hello", 14, 0, "264 0 263"); /* neighbours are one */
    tok_close(t);
    m.spec.unk = -1;
    m.type[0] = TOK_CONTROL;
    t = open_spec(&m.spec);
    assert_int_equal(tok_encode(t, "\xC3\xA8", 2, 0, &id, &n, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "byte 0xC3"));
    assert_null(id);
    tok_close(t);
}

static void gemma4_merges_characters(void **state)
{
    (void)state;
    struct made m;
    make_spm(&m, "gemma4");
    merge(&m, "h e");
    merge(&m, "l l");
    merge(&m, "he ll");
    merge(&m, "hell o");
    merge(&m, "\xE2\x96\x81 hello");
    struct tokenizer *t = open_spec(&m.spec);
    expect_ids(t, "hello hello", 11, TOK_ADD_BOS, "1 263 264");
    expect_ids(t, "\xC3\xA9\xC3\xA8\xFF", 5, 0, "270 198 171 258");
    expect_round_trip(t, " \xFF hello\n", 9, 0);
    tok_close(t);
    m.spec.type = NULL; /* byte tokens are known by their spelling */
    t = open_spec(&m.spec);
    expect_ids(t, "A", 1, 0, "68");
    expect_round_trip(t, "A", 1, 0);
    tok_close(t);
}

/* ---- unigram ---- */

static void unigram_takes_the_likeliest_path(void **state)
{
    (void)state;
    struct made m;
    make_spm(&m, "t5");
    m.spec.add_space_prefix = 1;
    struct tokenizer *t = open_spec(&m.spec);
    expect_ids(t, "hello", 5, 0, "264");
    expect_ids(t, "hell", 4, 0, "265 262");
    expect_ids(t, "  ", 2, 0, "265 259"); /* equal sums: the one whose last piece is longest */
    expect_ids(t, "\xC3\xA8\xC3\xA8", 4, 0, "265 198 171 198 171");
    expect_round_trip(t, "hello  \xC3\xA8 hello", 15, 0);
    tok_close(t);
    m.spec.remove_extra_spaces = true;
    t = open_spec(&m.spec);
    expect_ids(t, "  hello   hello ", 16, 0, "264 264");
    expect_ids(t, "   ", 3, 0, "");
    tok_close(t);
}

/* Opens or is refused; if it opens, encoding works or says what is wrong. */
static void survive_charsmap(const struct tok_spec *s)
{
    struct tokenizer *t;
    struct glim_err e = {0};
    int32_t *id;
    size_t n;
    glim_status st = tok_open(&t, s, &e);
    if (st == GLIM_OK)
        st = tok_encode(t, "\xEF\xAC\x81n \xC2\xBD\xC3\xA9\xC3\x9F\xEF\xBC\xA1", 13, 0, &id, &n, &e);
    if (st == GLIM_OK)
        mem_free(id);
    else
        assert_non_null(strstr(e.message, "precompiled_charsmap"));
    tok_close(t);
}

static void a_damaged_charsmap_is_refused(void **state)
{
    (void)state;
    struct made m;
    struct dump d;
    dump_file(&d, TEST_DATA "/vocab/unigram.tvoc");
    const size_t n = d.spec.n_charsmap;
    uint8_t *map = mem_alloc(n);
    make_spm(&m, "t5");
    for (size_t cut = 1; cut < n; cut++) {
        uint8_t *part = mem_alloc(cut); /* of its own, so that reading past it is seen */
        memcpy(part, d.spec.charsmap, cut);
        m.spec.charsmap = part;
        m.spec.n_charsmap = cut;
        survive_charsmap(&m.spec);
        mem_free(part);
    }
    uint64_t x = 5;
    m.spec.charsmap = map;
    m.spec.n_charsmap = n;
    for (int k = 0; k < 3000; k++) {
        memcpy(map, d.spec.charsmap, n);
        for (int i = 0; i < 8; i++)
            map[4 + next_random(&x) % (n - 4)] ^= (uint8_t)(1 << next_random(&x) % 8);
        map[n - 1] = 0;
        survive_charsmap(&m.spec);
    }
    m.spec.n_charsmap = 3;
    refused(&m.spec, GLIM_FAILED, "precompiled_charsmap: have 3 bytes");
    mem_free(map);
    dump_fini(&d);
}

/* ---- memory ---- */

static void use(const struct tok_spec *s, long k, bool *done)
{
    struct glim_err e = {0};
    struct tokenizer *t;
    int32_t *id = NULL;
    char *text = NULL;
    size_t n;
    static const char input[] = "hello <|im_end|> hello \xC3\xA8\xFF 123 <s>hellohellohello";
    mem_fail_after(k);
    glim_status st = tok_open(&t, s, &e);
    if (st == GLIM_OK)
        st = tok_encode(t, input, sizeof input - 1, TOK_SPECIAL | TOK_ADD_BOS, &id, &n, &e);
    if (st == GLIM_OK)
        st = tok_decode(t, id, n, true, &text, &n, &e);
    mem_fail_after(0);
    mem_free(id);
    mem_free(text);
    tok_close(t);
    *done = st == GLIM_OK;
    if (st != GLIM_OK && (st != GLIM_FAILED || !strstr(e.message, "out of memory")))
        fail_msg("allocation %ld: have %d \"%s\", need out of memory", k, st, e.message);
}

static void lack_of_memory_is_an_error(void **state)
{
    (void)state;
    static struct made m;
    for (int kind = 0; kind < 4; kind++) {
        if (kind == 0)
            make_bpe(&m, "llama-bpe");
        else
            make_spm(&m, kind == 1 ? "llama" : kind == 2 ? "gemma4" : "t5");
        bool done = false;
        long k = 1;
        for (; !done; k++)
            use(&m.spec, k, &done);
        assert_true(k > 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_byte_alphabet_is_gpt2s),
        cmocka_unit_test(merges_go_by_rank),
        cmocka_unit_test(special_tokens_are_cut_out_first),
        cmocka_unit_test(control_tokens_lie_in_trusted_runs),
        cmocka_unit_test(decoding_leaves_out_control_tokens),
        cmocka_unit_test(ends_come_from_ids_and_spellings),
        cmocka_unit_test(every_listed_name_of_a_pre_tokeniser_opens),
        cmocka_unit_test(damaged_vocabularies_are_refused),
        cmocka_unit_test(a_vocabulary_may_lack_types_and_repeat_itself),
        cmocka_unit_test(spm_merges_by_score_after_a_dummy_space),
        cmocka_unit_test(user_defined_spaces_do_not_end_a_stretch),
        cmocka_unit_test(equal_scores_go_from_the_left),
        cmocka_unit_test(special_ids_of_spm_have_defaults),
        cmocka_unit_test(without_byte_tokens_there_is_the_unknown),
        cmocka_unit_test(gemma4_merges_characters),
        cmocka_unit_test(unigram_takes_the_likeliest_path),
        cmocka_unit_test(a_damaged_charsmap_is_refused),
        cmocka_unit_test(lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
