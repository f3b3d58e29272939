/* If this fails: glim reads other tokens than the model was trained on, and every answer gets worse without any error;
 * or a long paste hangs the tokenizer. */
#include "test_text_vocab.h"

#include <time.h>

/* qwen35 is qwen2's vocabulary under another pre-tokeniser. */
static const char *const names[] = {"gpt-2",        "qwen2",   "qwen35",    "llama-bpe",
                                    "deepseek-llm", "gemma-4", "llama-spm", "phi-3"};
enum { N_NAME = sizeof names / sizeof *names };

static struct dump dump[N_NAME];
static struct tokenizer *tok[N_NAME];
static double open_ms[N_NAME];

/* CPU time of this process: other processes must not make a test fail. */
static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int open_all(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        bool renamed = strcmp(names[i], "qwen35") == 0;
        if (renamed)
            dump[i].spec = dump[i - 1].spec;
        else
            dump_rebuilt(&dump[i], names[i]);
        if (renamed)
            dump[i].spec.pre = names[i];
        double start = cpu_ms();
        tok[i] = open_spec(&dump[i].spec);
        open_ms[i] = cpu_ms() - start;
    }
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        tok_close(tok[i]);
        dump_fini(&dump[i]);
    }
    return 0;
}

static struct tokenizer *named(const char *name)
{
    for (int i = 0; i < N_NAME; i++)
        if (strcmp(names[i], name) == 0)
            return tok[i];
    fail_msg("no vocabulary %s", name);
    return NULL;
}

/* ---- expectations of llama.cpp ---- */

static char *read_text(const char *name, const char *ending)
{
    struct glim_err e = {0};
    char path[512], *buf;
    size_t n;
    snprintf(path, sizeof path, TEST_DATA "/vocab/%s.%s", name, ending);
    if (file_read(path, 1 << 20, &buf, &n, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return buf;
}

/* One line of ids, without the space it may begin or end with; *p moves to the next line. */
static char *next_line(char **p)
{
    char *line = *p, *end = strchr(line, '\n');
    if (!end)
        return NULL;
    *end = 0;
    *p = end + 1;
    line += *line == ' ';
    if (end > line && end[-1] == ' ')
        end[-1] = 0;
    return line;
}

static void llama_cpp_gives_the_same_ids(void **state)
{
    (void)state;
    static const char separator[] = "\n__ggml_vocab_test__\n";
    for (int i = 0; i < N_NAME; i++) {
        char *inp = read_text(names[i], "inp"), *out = read_text(names[i], "out"), *lines = out;
        int n = 0;
        for (char *text = inp, *next; text && *text; text = next, n++) {
            char *end = strstr(text, separator), *want = next_line(&lines);
            next = end ? end + strlen(separator) : NULL;
            size_t len = end ? (size_t)(end - text) : strlen(text);
            assert_non_null(want);
            expect_ids(tok[i], text, len, 0, want);
            expect_round_trip(tok[i], text, len, 0);
        }
        assert_true(n >= 46);
        assert_null(next_line(&lines));
        mem_free(inp);
        mem_free(out);
    }
}

/* ---- expectations of tokenizers and sentencepiece ---- */

static int compare_rows(const struct tokenizer *t, const json_t *rows, int flags)
{
    size_t i;
    json_t *row, *v;
    json_array_foreach(rows, i, row)
    {
        struct str want = {0};
        size_t k;
        str_puts(&want, "");
        json_array_foreach(json_array_get(row, 1), k, v)
            str_printf(&want, k ? " %lld" : "%lld", (long long)json_integer_value(v));
        const json_t *text = json_array_get(row, 0);
        expect_ids(t, json_string_value(text), json_string_length(text), flags, want.s);
        str_fini(&want);
    }
    return (int)json_array_size(rows);
}

static void other_programs_give_the_same_ids(void **state)
{
    (void)state;
    struct glim_err e = {0};
    json_t *root, *rows;
    const char *name;
    int n = 0, n_name = 0;
    if (json_parse_file(TEST_DATA "/vocab/ids.json", 1 << 20, &root, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    json_object_foreach(root, name, rows)
    {
        struct tokenizer *t = NULL;
        struct dump d = {0};
        n_name++;
        if (strcmp(name, "spm") == 0 || strcmp(name, "unigram") == 0) {
            char path[512];
            snprintf(path, sizeof path, TEST_DATA "/vocab/%s.tvoc", name);
            dump_file(&d, path);
            t = open_spec(&d.spec);
            n += compare_rows(t, rows, 0);
            tok_close(t);
            dump_fini(&d);
        } else if (strcmp(name, "hf/llama") == 0) {
            assert_int_equal(tok_open_hf(&t, TEST_DATA "/hf/llama", &e), GLIM_OK);
            n += compare_rows(t, rows, TOK_SPECIAL);
            tok_close(t);
        } else {
            n += compare_rows(named(name), rows, TOK_SPECIAL);
        }
    }
    assert_int_equal(n_name, 9);
    assert_true(n >= 500);
    json_decref(root);
}

/* ---- bytes come back ---- */

/* Phi-3's </s> is user-defined there and swallows spaces; DeepSeek's first vocabulary lacks the bytes that UTF-8 never
 * has. */
static bool can_hold(const char *name, const char *s, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok = ok && (uint8_t)s[i] != 0xC0 && (uint8_t)s[i] != 0xC1 && (uint8_t)s[i] < 0xF5;
    if (strcmp(name, "phi-3") == 0)
        return !memmem(s, n, "</s>", 4);
    return ok || strcmp(name, "deepseek-llm") != 0;
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    struct str s = {0};
    uint64_t x = 1;
    for (int k = 0; k < (SLOW_BUILD ? 2000 : 10000); k++) {
        random_text(&x, &s);
        for (int i = k % 4; i < N_NAME; i += 4)
            if (can_hold(names[i], s.s, s.n))
                expect_round_trip(tok[i], s.s, s.n, k % 8 < 4 ? 0 : TOK_SPECIAL);
    }
    str_fini(&s);
}

static void a_byte_without_a_token_is_refused(void **state)
{
    (void)state;
    struct glim_err e = {0};
    int32_t *id;
    size_t n;
    assert_int_equal(tok_encode(named("deepseek-llm"), "a\xFF", 2, 0, &id, &n, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "byte 0xFF"));
    assert_null(id);
    expect_ids(named("deepseek-llm"), "\xC3\xBF", 2, 0, "100005"); /* the letter that would stand for that byte */
    expect_round_trip(named("deepseek-llm"), "\xC3\xBF", 2, 0);
}

/* ---- time ---- */

static void long_words_take_linear_time(void **state)
{
    (void)state;
    static const char *const unit[] = {"a",    " ", "\n",       "1",   ".",   "\xE4\xBD\xA0",
                                       "\x80", "A", "\xCC\x81", "ab ", " a1,"};
    const size_t mega = 1 << 20;
    char *text = mem_alloc(mega + 4);
    assert_non_null(text);
    for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
        size_t len = strlen(unit[u]), n = SLOW_BUILD ? mega / 32 : u == 0 ? mega : mega / 16;
        for (size_t i = 0; i < n; i++)
            text[i] = unit[u][i % len];
        for (int i = 0; i < N_NAME; i++) {
            double start = cpu_ms();
            expect_round_trip(tok[i], text, n, TOK_SPECIAL);
            double took = cpu_ms() - start;
            if (!SLOW_BUILD && took > 1000)
                fail_msg("%s: %zu bytes of \"%s\": have %.0f ms, need at most 1000", names[i], n, unit[u], took);
        }
    }
    mem_free(text);
}

/* The limits are several times what an idle machine needs (gemma-4: 80 ms, gpt-2: 8 ms). */
static void opening_is_fast(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAME; i++) {
        double most = strcmp(names[i], "gemma-4") == 0 ? 400 : 250;
        if (!SLOW_BUILD && open_ms[i] > most)
            fail_msg("open %s: have %.1f ms, need at most %.0f", names[i], open_ms[i], most);
    }
}

/* ---- special tokens of the families ---- */

static int32_t special(const struct tokenizer *t, const char *s)
{
    return tok_special(t, s, strlen(s));
}

static void user_text_does_not_become_special(void **state)
{
    (void)state;
    struct tokenizer *qwen = named("qwen2"), *llama = named("llama-bpe");
    char *ids = ids_of(qwen, "<|im_start|>", 12, 0);
    assert_null(strstr(ids, "151644"));
    mem_free(ids);
    expect_ids(qwen, "<|im_start|>user", 16, TOK_SPECIAL, "151644 872");
    expect_ids(llama, "<|eot_id|>", 10, TOK_SPECIAL | TOK_ADD_BOS, "128000 128009");
    ids = ids_of(llama, "<|eot_id|>", 10, 0);
    assert_null(strstr(ids, "128009"));
    mem_free(ids);
    assert_int_equal(special(qwen, "<|im_end|>"), 151645);
    assert_int_equal(special(qwen, "hello"), -1);
    assert_int_equal(special(qwen, ""), -1);
}

static void ends_of_turns_are_known(void **state)
{
    (void)state;
    assert_true(tok_is_end(named("qwen2"), 151643)); /* <|endoftext|>, its eos */
    assert_true(tok_is_end(named("qwen2"), 151645)); /* <|im_end|>: not named by the file */
    assert_false(tok_is_end(named("qwen2"), 151644));
    assert_true(tok_is_end(named("llama-bpe"), 128009)); /* <|eot_id|> */
    assert_true(tok_is_end(named("llama-bpe"), 128001));
    assert_true(tok_is_end(named("gemma-4"), 106)); /* <turn|> */
    assert_true(tok_is_end(named("gemma-4"), 1));
    assert_false(tok_is_end(named("gemma-4"), 105));
    assert_true(tok_is_end(named("phi-3"), 32007)); /* <|end|> */
    assert_true(tok_is_end(named("llama-spm"), 2));
    assert_false(tok_is_end(named("llama-spm"), -1));
    assert_false(tok_is_end(named("llama-spm"), 32000));
}

static void bos_is_added_where_the_model_wants_it(void **state)
{
    (void)state;
    static const struct {
        const char *name, *ids;
    } want[] = {{"gpt-2", "31373"}, {"llama-bpe", "128000 15339"}, {"llama-spm", "1 22172"}, {"gemma-4", "2 23391"}};
    for (size_t i = 0; i < 4; i++) {
        expect_ids(named(want[i].name), "hello", 5, TOK_ADD_BOS, want[i].ids);
        assert_int_equal(tok_adds_bos(named(want[i].name)), strchr(want[i].ids, ' ') != NULL);
    }
    assert_int_equal(tok_n(named("gemma-4")), 262144);
    assert_int_equal(tok_bos(named("llama-spm")), 1);
    assert_int_equal(tok_eos(named("llama-spm")), 2);
    assert_string_equal(tok_pre_name(named("llama-spm")), "spm");
    assert_string_equal(tok_pre_name(named("qwen35")), "qwen35");
}

/* Phi-3's special tokens swallow the spaces behind them, all but three. */
static void phi3_special_tokens_swallow_spaces(void **state)
{
    (void)state;
    struct tokenizer *t = named("phi-3");
    expect_ids(t, "<|user|>\nhello<|end|>\n<|assistant|>\n", 36, TOK_SPECIAL, "32010 22172 32007 32001");
    char *ids = ids_of(t, "<s>\nhello", 9, TOK_SPECIAL);
    assert_string_not_equal(ids, "1 22172");
    mem_free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_cpp_gives_the_same_ids),
        cmocka_unit_test(other_programs_give_the_same_ids),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(a_byte_without_a_token_is_refused),
        cmocka_unit_test(long_words_take_linear_time),
        cmocka_unit_test(opening_is_fast),
        cmocka_unit_test(user_text_does_not_become_special),
        cmocka_unit_test(ends_of_turns_are_known),
        cmocka_unit_test(bos_is_added_where_the_model_wants_it),
        cmocka_unit_test(phi3_special_tokens_swallow_spaces),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
