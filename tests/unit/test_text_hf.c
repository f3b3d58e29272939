/* If this fails: a Hugging Face checkpoint is tokenised otherwise than by its own tokenizer.json, or one that glim
 * cannot follow exactly is taken all the same. */
#include "test_text_vocab.h"

#include "text/tok_impl.h"

#include <unistd.h>

static struct tokenizer *open_json(const char *tokenizer, const char *names, const char *generation, const char *config)
{
    struct glim_err e = {0};
    struct tokenizer *t = NULL;
    struct tok_json j = {tokenizer,
                         names,
                         generation,
                         config,
                         strlen(tokenizer),
                         names ? strlen(names) : 0,
                         generation ? strlen(generation) : 0,
                         config ? strlen(config) : 0};
    if (tok_open_json(&t, &j, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return t;
}

static void refused(const char *json, glim_status want, const char *text)
{
    struct glim_err e = {0};
    struct tokenizer *t = (struct tokenizer *)&e;
    struct tok_json j = {.tokenizer = json, .n_tokenizer = strlen(json)};
    glim_status st = tok_open_json(&t, &j, &e);
    if (st != want || !strstr(e.message, text))
        fail_msg("%s\n  have %d \"%s\", need %d \"…%s…\"", json, st, e.message, want, text);
    assert_null(t);
}

/* Characters as tokens: enough for a pre-tokeniser to show where it cuts. */
#define VOCAB                                                                                                          \
    "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xC4\xA0\":3,\"\xE2\x96\x81\":4,\"\xE2\x96\x81\x61\":5,\"1\":6,\"11\":7,"   \
    "\"<0x0A>\":8,\"<u>\":9}"
#define MODEL "\"model\":{\"type\":\"BPE\"," VOCAB ",\"merges\":[[\"a\",\"b\"],\"1 1\",[\"\xE2\x96\x81\",\"a\"]]}"

static char *with(const char *part, const char *json)
{
    struct str s = {0};
    str_printf(&s, "{\"%s\":%s," MODEL "}", part, json);
    return s.s;
}

static void expect(const char *part, const char *json, const char *text, const char *ids)
{
    char *all = with(part, json);
    struct tokenizer *t = open_json(all, NULL, NULL, NULL);
    expect_ids(t, text, strlen(text), 0, ids);
    tok_close(t);
    mem_free(all);
}

static void part_refused(const char *part, const char *json, const char *text)
{
    char *all = with(part, json);
    refused(all, GLIM_REFUSED, text);
    mem_free(all);
}

#define META(scheme, split)                                                                                            \
    "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"" scheme "\",\"split\":" split "}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"

static void pre_tokenizers_cut_and_mark(void **state)
{
    (void)state;
    expect("pre_tokenizer", "null", "ab11", "2 7");
    expect("pre_tokenizer", "{\"type\":\"Digits\",\"individual_digits\":true}", "ab11", "2 6 6");
    expect("pre_tokenizer", "{\"type\":\"Digits\",\"individual_digits\":false}", "ab11", "2 7");
    expect("pre_tokenizer", BYTES, "a ab", "0 3 2");
    expect("pre_tokenizer", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", "ab", "3 2");
    expect("pre_tokenizer", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", " ab", "3 2"); /* has one already */
    expect("pre_tokenizer", META("always", "true"), "a a", "5 5");
    expect("pre_tokenizer", META("always", "false"), " a a", "5 5");
    expect("pre_tokenizer", META("never", "false"), "a a", "0 5");
    expect("pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"add_prefix_space\":false}",
           "a a", "0 5");
    expect("pre_tokenizer",
           "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}\"},"
           "\"behavior\":"
           "\"Isolated\",\"invert\":false}," BYTES "]}",
           "ab11", "2 6 6");
    expect("pre_tokenizer",
           "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\",\"invert\":false}",
           "ab", "2");
}

static void normalizers_rewrite(void **state)
{
    (void)state;
    expect("normalizer",
           "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"},{\"type\":"
           "\"Replace\","
           "\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}]}",
           "a a", "5 5");
    struct tokenizer *t =
        open_json("{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xC3\xA9\":0},"
                  "\"merges\":[]}}",
                  NULL, NULL, NULL);
    expect_ids(t, "e\xCC\x81", 3, 0, "0");
    tok_close(t);
}

/* Llama 2 and its like: the normaliser puts a space in front of every stretch, Strip takes it away. */
static void strip_undoes_prepend(void **state)
{
    (void)state;
    struct str s = {0};
    str_puts(
        &s,
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}]},\"decoder\":{\"type\":"
        "\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},"
        "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
        "\",\"start\":1,\"stop\":0}]},"
        "\"added_tokens\":[{\"id\":9,\"content\":\"<u>\",\"special\":true}]," MODEL "}");
    struct tokenizer *t = open_json(s.s, NULL, NULL, NULL);
    expect_ids(t, "a<u>a", 5, TOK_SPECIAL, "5 9 5");
    expect_round_trip(t, "a<u> a  ab", 10, TOK_SPECIAL);
    assert_int_equal(tok_bytes(t, 5, false, true).n, 1);
    assert_int_equal(tok_bytes(t, 5, false, false).n, 2);
    tok_close(t);
    str_fini(&s);
}

/* Only a stretch that begins the text gets the prefix, and only that loses it. */
static void metaspace_first_is_for_the_first_stretch(void **state)
{
    (void)state;
    struct str s = {0};
    str_printf(&s,
               "{\"pre_tokenizer\":" META("first", "false") ",\"decoder\":" META(
                   "first", "false") ",\"added_tokens\":[{\"id\":9,\"content\":\"<u>\",\"special\":true}]," MODEL "}");
    struct tokenizer *t = open_json(s.s, NULL, NULL, NULL);
    expect_ids(t, "a<u>a", 5, TOK_SPECIAL, "5 9 0");
    expect_ids(t, "<u>a", 4, TOK_SPECIAL, "9 0");
    expect_ids(t, "<u>a<u>a", 8, TOK_SPECIAL, "9 0 9 0");
    int32_t *id; /* a text that goes on after a control token does not begin anything */
    size_t n;
    struct glim_err e;
    static const struct tok_run all = {1, true};
    assert_int_equal(tok_encode_runs(t, "a", &all, 1, TOK_GOES_ON, &id, &n, &e), GLIM_OK);
    assert_true(n == 1 && id[0] == 0);
    mem_free(id);
    expect_round_trip(t, "a<u>a", 5, TOK_SPECIAL);
    expect_round_trip(t, "<u> a", 5, TOK_SPECIAL);
    assert_string_equal(tok_pre_name(t), "spm-bpe");
    tok_close(t);
    str_fini(&s);
}

static void added_tokens_take_spaces_beside_them(void **state)
{
    (void)state;
    const char *json =
        "{\"pre_tokenizer\":" BYTES ",\"added_tokens\":["
        "{\"id\":9,\"content\":\"<u>\",\"special\":false,\"lstrip\":true,\"rstrip\":false},"
        "{\"id\":10,\"content\":\"<v>\",\"special\":true,\"lstrip\":false,\"rstrip\":true,\"normalized\":true}]," MODEL
        "}";
    struct tokenizer *t = open_json(json, NULL, NULL, NULL);
    assert_int_equal(tok_n(t), 11);
    expect_ids(t, "a  <u> a", 8, 0, "0 9 3 0");
    expect_ids(t, "a <v> \n\xE3\x80\x80 b", 12, TOK_SPECIAL, "0 3 10 1");
    expect_ids(t, "<v> <u>", 7, TOK_SPECIAL, "10 9"); /* the space is taken once */
    expect_ids(t, " \xC2\xA0<u>", 6, 0, "9");
    assert_int_equal(tok_special(t, "<v>", 3), 10);
    assert_int_equal(tok_special(t, "ab", 2), -1);
    tok_close(t);
}

static void byte_fallback_and_the_unknown(void **state)
{
    (void)state;
    struct str s = {0};
    struct glim_err e = {0};
    int32_t *id;
    size_t n;
    str_puts(&s, "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"<unk>\","
                 "\"merges\":[],\"vocab\":{");
    for (int b = 0; b < 255; b++)
        str_printf(&s, "\"<0x%02X>\":%d,", b, b);
    str_puts(&s, "\"<unk>\":255,\"a\":256}}}");
    struct tokenizer *t = open_json(s.s, NULL, NULL, NULL);
    expect_ids(t, "a\n\xC3\xA9", 4, 0, "256 10 195 169");
    expect_ids(t, "\xFF\xFF", 2, 0, "255"); /* <0xFF> is missing */
    tok_close(t);
    str_fini(&s);
#define FEW(fuse) "\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1},\"merges\":[]" fuse "}}"
    t = open_json("{" FEW(""), NULL, NULL, NULL);
    expect_ids(t, "azza", 4, 0, "1 0 0 1");
    tok_close(t);
    t = open_json("{\"pre_tokenizer\":{\"type\":\"Digits\"}," FEW(",\"fuse_unk\":true"), NULL, NULL, NULL);
    expect_ids(t, "azza11z", 7, 0, "1 0 1 0 0"); /* within a word */
    tok_close(t);
    t = open_json("{" MODEL "}", NULL, NULL, NULL);
    assert_int_equal(tok_encode(t, "az", 2, 0, &id, &n, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "byte 0x7A"));
    tok_close(t);
}

static void unigram_models_open(void **state)
{
    (void)state;
    struct tokenizer *t = open_json(
        "{\"pre_tokenizer\":" META("always", "true") ",\"decoder\":" META(
            "always",
            "true") ",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"\xE2\x96\x81\",-2],"
                    "[\"a\",-3],[\"\xE2\x96\x81\x61\",-4.5],[\"aa\",-4]]}}",
        NULL, NULL, NULL);
    expect_ids(t, "a aa aaa", 8, 0, "3 1 4 3 4");
    expect_ids(t, "xyz", 3, 0, "1 0");
    expect_round_trip(t, "a aa", 4, 0);
    assert_string_equal(tok_pre_name(t), "unigram");
    tok_close(t);
}

static void what_is_not_implemented_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const normalizers[] = {"NFKC",        "Lowercase",    "BertNormalizer",
                                              "Precompiled", "StripAccents", "Strip"};
    static const char *const pres[] = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation",
                                       "UnicodeScripts"};
    static const char *const decoders[] = {"WordPiece", "BPEDecoder", "CTC"};
    static const char *const posts[] = {"BertProcessing", "RobertaProcessing"};
    char json[200];
#define EACH(list, part)                                                                                               \
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {                                                          \
        snprintf(json, sizeof json, "{\"type\":\"%s\"}", list[i]);                                                     \
        part_refused(part, json, list[i]);                                                                             \
    }
    EACH(normalizers, "normalizer")
    EACH(pres, "pre_tokenizer")
    EACH(decoders, "decoder")
    EACH(posts, "post_processor")
    part_refused("normalizer", "{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"y\"}",
                 "normalizer: have Replace");
    part_refused("normalizer", "{\"type\":\"Prepend\",\"prepend\":\"_\"}", "normalizer: have Prepend");
    part_refused("normalizer", "{\"kind\":1}", "a component without a type");
    part_refused("pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-z]+\"},\"behavior\":\"Isolated\"}",
                 "the pattern \"[a-z]+\"");
    part_refused("pre_tokenizer",
                 "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}\"},\"behavior\":\"Removed\",\"invert\":true}",
                 "behavior: have Removed");
    part_refused("pre_tokenizer",
                 "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}\"},\"behavior\":\"Isolated\",\"invert\":true}",
                 "behavior: have Isolated");
    part_refused("pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},\"behavior\":\"Isolated\"}",
                 "literal pattern");
    part_refused("pre_tokenizer", "{\"type\":\"Split\"}", "no pattern or behavior");
    part_refused("pre_tokenizer", "{\"type\":\"Sequence\",\"pretokenizers\":[" BYTES ",{\"type\":\"Digits\"}]}",
                 "after ByteLevel");
    part_refused("pre_tokenizer",
                 "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":\"ByteLevel\",\"add_prefix_"
                 "space\":true}]}",
                 "add_prefix_space after a Split");
    part_refused("pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"_\"}", "Metaspace replacement");
    part_refused("pre_tokenizer",
                 "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"odd\"}", "have odd");
    part_refused("decoder", "{\"type\":\"Strip\",\"content\":\"x\",\"start\":1,\"stop\":0}", "decoder: have Strip");
    part_refused(
        "post_processor",
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"a\"}}],\"special_tokens\":{}}",
        "TemplateProcessing");
    refused("{\"model\":{\"type\":\"WordPiece\"}}", GLIM_REFUSED, "model: have WordPiece");
    refused("{\"model\":{\"type\":\"BPE\",\"dropout\":0.1," VOCAB ",\"merges\":[]}}", GLIM_REFUSED, "dropout");
    refused("{\"model\":{\"type\":\"BPE\",\"continuing_subword_prefix\":\"##\"," VOCAB ",\"merges\":[]}}", GLIM_REFUSED,
            "continuing_subword_prefix");
    refused("{\"added_tokens\":[{\"id\":9,\"content\":\"<u>\",\"single_word\":true}]," MODEL "}", GLIM_REFUSED,
            "single_word");
    refused("{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"},\"added_tokens\":[{\"id\":9,"
            "\"content\":\"<u>\","
            "\"normalized\":true}]," MODEL "}",
            GLIM_REFUSED, "normalized true");
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"model\":7}",
        "{\"model\":{\"type\":\"BPE\"}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":9999999},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a a\"]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"\"]]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"a\"]]}}",
        "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
        "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":5}}",
        "{\"added_tokens\":[{\"id\":-3,\"content\":\"x\"}]," MODEL "}",
        "{\"added_tokens\":[{\"id\":3}]," MODEL "}",
        "{\"added_tokens\":[{\"id\":0,\"content\":\"other\"}]," MODEL "}",
        "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],\"special_"
        "tokens\":{\"x\":"
        "{\"ids\":[77]}}}," MODEL "}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct glim_err e = {0};
        struct tokenizer *t;
        struct tok_json j = {.tokenizer = bad[i], .n_tokenizer = strlen(bad[i])};
        if (tok_open_json(&t, &j, &e) == GLIM_OK || !e.message[0])
            fail_msg("%s: have success, need an error", bad[i]);
        assert_null(t);
    }
}

/* ---- the files beside it ---- */

#define TEMPLATE                                                                                                       \
    "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":"                    \
    "\"TemplateProcessing\","                                                                                          \
    "\"single\":[{\"SpecialToken\":{\"id\":\"a\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"        \
    "\"special_tokens\":{\"a\":{\"id\":\"a\",\"ids\":[0]}}}]},"

static void check(const char *post, const char *names, const char *generation, const char *config, const char *want)
{
    struct str s = {0}, have = {0};
    str_printf(&s, "{%s" MODEL "}", post);
    struct tokenizer *t = open_json(s.s, names, generation, config);
    str_printf(&have, "bos %d%s eos %d ends", tok_bos(t), tok_adds_bos(t) ? " added" : "", tok_eos(t));
    for (int i = 0; i < 10; i++)
        if (tok_is_end(t, i))
            str_printf(&have, " %d", i);
    assert_string_equal(have.s, want);
    tok_close(t);
    str_fini(&s);
    str_fini(&have);
}

static void special_ids_come_from_the_neighbours(void **state)
{
    (void)state;
    check("", NULL, NULL, NULL, "bos -1 eos -1 ends");
    check(TEMPLATE, NULL, NULL, NULL, "bos 0 added eos -1 ends");
    check(TEMPLATE, "{\"add_bos_token\":false,\"bos_token\":\"b\"}", NULL, NULL, "bos 0 eos -1 ends");
    check("", "{\"bos_token\":\"b\",\"eos_token\":{\"content\":\"ab\"}}", NULL, NULL, "bos 1 eos 2 ends 2");
    check("", "{\"bos_token\":\"b\",\"add_bos_token\":true,\"eos_token\":null}", NULL, NULL, "bos 1 added eos -1 ends");
    check("", "{\"bos_token\":\"no such\"}", "{\"eos_token_id\":[6,7],\"bos_token_id\":5}", "{\"eos_token_id\":8}",
          "bos 5 eos 6 ends 6 7 8");
    check("", NULL, NULL, "{\"eos_token_id\":4,\"bos_token_id\":3}", "bos 3 eos 4 ends 4");
    check("", NULL, NULL, "{\"text_config\":{\"eos_token_id\":[4,5],\"bos_token_id\":3}}", "bos 3 eos 4 ends 4 5");
    check("", NULL, "{\"eos_token_id\":1000000}", "{\"bos_token_id\":null}",
          "bos -1 eos -1 ends"); /* a row without a token */
    struct glim_err e = {0};
    struct tokenizer *t;
    struct tok_json j = {"{" MODEL "}", "[]", NULL, NULL, strlen("{" MODEL "}"), 2, 0, 0};
    assert_int_equal(tok_open_json(&t, &j, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "tokenizer_config.json"));
}

static void a_checkpoint_folder_opens(void **state)
{
    (void)state;
    struct glim_err e = {0};
    struct tokenizer *t;
    assert_int_equal(tok_open_hf(&t, TEST_DATA "/hf/llama", &e), GLIM_OK);
    assert_int_equal(tok_n(t), 320);
    assert_int_equal(tok_bos(t), 1);
    assert_int_equal(tok_eos(t), 2);
    assert_false(tok_adds_bos(t));
    assert_string_equal(tok_pre_name(t), "gpt-2");
    struct str s = {0};
    uint64_t x = 11;
    for (int k = 0; k < (SLOW_BUILD ? 1000 : 10000); k++) {
        random_text(&x, &s);
        expect_round_trip(t, s.s, s.n, k % 2 ? TOK_SPECIAL : 0);
    }
    str_fini(&s);
    tok_close(t);
    assert_int_equal(tok_open_hf(&t, TEST_DATA "/vocab", &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "tokenizer.json"));
    assert_null(t);
    file_fail_after(2); /* tokenizer.json is read in more than one operation */
    assert_int_not_equal(tok_open_hf(&t, TEST_DATA "/hf/llama", &e), GLIM_OK);
    file_fail_after(0);
    assert_null(t);
}

static void lack_of_memory_is_an_error(void **state)
{
    (void)state;
    const char *json = "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":" BYTES
                       ",\"added_tokens\":[{\"id\":9,\"content\":\"<u>\"}]," MODEL "}";
    struct tok_json j = {json, "{\"bos_token\":\"a\"}", "{\"eos_token_id\":[1,2]}", "{}", strlen(json), 17, 22, 2};
    long k = 1;
    for (glim_status st = GLIM_FAILED; st != GLIM_OK; k++) {
        struct glim_err e = {0};
        struct tokenizer *t;
        int32_t *id = NULL;
        size_t n;
        mem_fail_after(k);
        st = tok_open_json(&t, &j, &e);
        if (st == GLIM_OK)
            st = tok_encode(t, "ab<u>ab 11 a ab", 15, 0, &id, &n, &e);
        mem_fail_after(0);
        mem_free(id);
        tok_close(t);
        if (st != GLIM_OK && (st != GLIM_FAILED || !e.message[0]))
            fail_msg("allocation %ld: have %d \"%s\"", k, st, e.message);
    }
    assert_true(k > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pre_tokenizers_cut_and_mark),
        cmocka_unit_test(normalizers_rewrite),
        cmocka_unit_test(strip_undoes_prepend),
        cmocka_unit_test(metaspace_first_is_for_the_first_stretch),
        cmocka_unit_test(added_tokens_take_spaces_beside_them),
        cmocka_unit_test(byte_fallback_and_the_unknown),
        cmocka_unit_test(unigram_models_open),
        cmocka_unit_test(what_is_not_implemented_is_refused_by_name),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(special_ids_come_from_the_neighbours),
        cmocka_unit_test(a_checkpoint_folder_opens),
        cmocka_unit_test(lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
