/* If this fails: a family's words begin or end elsewhere than in training, so common words reach the model as rare
 * tokens. */
#include "test_text_vocab.h"

#include "text/split.h"

#include <time.h>

static glim_status note(void *user, const uint8_t *p, size_t n)
{
    (void)p;
    str_printf(user, "%zu ", n);
    return n ? GLIM_OK : GLIM_FAILED;
}

static char *lengths(const struct split *s, const char *text, size_t n)
{
    struct str b = {0};
    str_puts(&b, "");
    assert_int_equal(split_text(s, (const uint8_t *)text, n, note, &b), GLIM_OK);
    return b.s;
}

static void expect_words(const char *family, const char *text, size_t n, const char *want)
{
    struct split s;
    assert_true(split_family(family, &s));
    char *have = lengths(&s, text, n);
    if (strcmp(have, want) != 0)
        fail_msg("%s: \"%s\": have %s, need %s", family, text, have, want);
    mem_free(have);
}

/* Word lengths in bytes by `tokenizers` 0.23.3 from the families' regular expressions. */
static void tokenizers_gives_the_same_words(void **state)
{
    (void)state;
    struct glim_err e = {0};
    json_t *root, *rows;
    const char *family;
    int n_family = 0;
    if (json_parse_file(TEST_DATA "/vocab/words.json", 1 << 20, &root, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    const json_t *texts = json_object_get(root, "texts");
    assert_true(json_array_size(texts) >= 90);
    json_object_foreach(json_object_get(root, "families"), family, rows)
    {
        assert_int_equal(json_array_size(rows), json_array_size(texts));
        n_family++;
        for (size_t i = 0; i < json_array_size(texts); i++) {
            struct str want = {0};
            str_puts(&want, "");
            for (size_t k = 0; k < json_array_size(json_array_get(rows, i)); k++)
                str_printf(&want, "%lld ", (long long)json_integer_value(json_array_get(json_array_get(rows, i), k)));
            const json_t *t = json_array_get(texts, i);
            expect_words(family, json_string_value(t), json_string_length(t), want.s);
            str_fini(&want);
        }
    }
    assert_int_equal(n_family, 12);
    json_decref(root);
}

static const char *const all[] = {"none",           "gpt-2",       "digits", "llama3",  "qwen2",
                                  "qwen35",         "gpt-4o",      "tekken", "kimi-k2", "deepseek-llm",
                                  "deepseek-coder", "deepseek-v3", "default"};
enum { N_ALL = sizeof all / sizeof *all };

static glim_status append(void *user, const uint8_t *p, size_t n)
{
    str_add(user, (const char *)p, n);
    return n ? GLIM_OK : GLIM_FAILED;
}

static void words_laid_end_to_end_are_the_text(void **state)
{
    (void)state;
    struct str text = {0}, back = {0};
    uint64_t x = 7;
    for (int k = 0; k < 2000; k++) {
        random_text(&x, &text);
        for (int f = 0; f < N_ALL; f++) {
            struct split s;
            assert_true(split_family(all[f], &s));
            assert_string_equal(split_name(&s), all[f]);
            str_clear(&back);
            assert_int_equal(split_text(&s, (const uint8_t *)text.s, text.n, append, &back), GLIM_OK);
            assert_int_equal(back.n, text.n);
            if (text.n)
                assert_memory_equal(back.s, text.s, text.n);
        }
    }
    str_fini(&text);
    str_fini(&back);
}

static void invalid_bytes_are_kept_like_a_symbol(void **state)
{
    (void)state;
    expect_words("gpt-2", "a\xFF\xFE b", 5, "1 2 2 ");
    expect_words("llama3",
                 "\xFF"
                 "abc",
                 4, "4 "); /* a symbol may begin a word there */
    expect_words("digits",
                 "12\x80"
                 "3",
                 4, "1 1 1 1 ");
}

static glim_status refuse(void *user, const uint8_t *p, size_t n)
{
    (void)p;
    (void)n;
    return --*(int *)user ? GLIM_OK : GLIM_REFUSED;
}

static void the_first_failure_stops_it(void **state)
{
    (void)state;
    struct split s;
    int left = 2;
    assert_true(split_family("digits", &s));
    assert_int_equal(split_text(&s, (const uint8_t *)"1 2 3", 5, refuse, &left), GLIM_REFUSED);
    assert_int_equal(left, 0);
}

static void long_runs_take_linear_time(void **state)
{
    (void)state;
    static const char *const unit[] = {" ",        "\n",           "a",    "A",  "1",   ".",
                                       "\xCC\x81", "\xE3\x80\x80", "\x01", "aA", " \n", "'"};
    const size_t n = 300000;
    char *text = mem_alloc(n);
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
        for (size_t i = 0; i < n; i++)
            text[i] = unit[u][i % strlen(unit[u])];
        for (int f = 0; f < N_ALL; f++) {
            struct split s;
            struct str sum = {0};
            split_family(all[f], &s);
            assert_int_equal(split_text(&s, (const uint8_t *)text, n, append, &sum), GLIM_OK);
            str_fini(&sum);
        }
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    mem_free(text);
    assert_true(SLOW_BUILD || b.tv_sec - a.tv_sec < 10); /* 47 MB; a quadratic scan of one run takes minutes */
}

static void patterns_are_known_by_their_exact_text(void **state)
{
    (void)state;
    struct split s = {0};
    assert_true(split_pattern("\\p{N}{1,3}", &s));
    assert_true(split_pattern("[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+", &s));
    assert_int_equal(s.n, 2);
    assert_false(split_is_total(&s.stage[0]));
    assert_string_equal(split_name(&s), "custom");
    assert_false(split_pattern("\\p{N}{1,4}", &s));
    assert_false(split_pattern("", &s));
    for (int i = 0; i < SPLIT_MAX - 2; i++)
        assert_true(split_pattern("\\p{N}", &s));
    assert_false(split_pattern("\\p{N}", &s)); /* no room */
    assert_false(split_family("no-such-family", &s));
    assert_true(split_family("qwen35", &s));
    assert_true(split_is_total(&s.stage[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenizers_gives_the_same_words),
        cmocka_unit_test(words_laid_end_to_end_are_the_text),
        cmocka_unit_test(invalid_bytes_are_kept_like_a_symbol),
        cmocka_unit_test(the_first_failure_stops_it),
        cmocka_unit_test(long_runs_take_linear_time),
        cmocka_unit_test(patterns_are_known_by_their_exact_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
