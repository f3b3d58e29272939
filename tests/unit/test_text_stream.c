/* If this fails: people see broken characters while an answer streams, or the stop string they asked not to see, or
 * text past it. */
#include "test_text_vocab.h"

#include "text/stream.h"

static struct text_stream *make(const char *const *stop, size_t n)
{
    struct glim_err e = {0};
    struct text_stream *s = NULL;
    if (text_stream_create(&s, stop, n, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return s;
}

/* What comes out when the text goes in by pieces of `step` bytes; *stopped as after the last push. Every output must be
 * whole UTF-8. */
static char *streamed(const char *const *stop, size_t n_stop, const char *text, size_t n, size_t step, bool *stopped)
{
    struct text_stream *s = make(stop, n_stop);
    struct str out = {0};
    *stopped = false;
    str_puts(&out, "");
    for (size_t i = 0; i < n; i += step) {
        size_t before = out.n;
        assert_int_equal(text_stream_push(s, text + i, n - i < step ? n - i : step, &out, stopped, NULL), GLIM_OK);
        for (size_t at = before; at < out.n;) {
            uint32_t cp;
            int len = utf8_decode((const uint8_t *)out.s + at, out.n - at, &cp);
            assert_true(len > 0);
            at += (size_t)len;
        }
    }
    assert_int_equal(text_stream_end(s, &out, NULL), GLIM_OK);
    text_stream_free(s);
    return out.s;
}

/* The same whatever the pieces. */
static void expect(const char *const *stop, size_t n_stop, const char *text, const char *want, bool want_stopped)
{
    for (size_t step = 1; step <= strlen(text) + 1; step++) {
        bool stopped;
        char *have = streamed(stop, n_stop, text, strlen(text), step, &stopped);
        if (strcmp(have, want) != 0 || stopped != want_stopped)
            fail_msg("\"%s\" by %zu: have \"%s\" (%d), need \"%s\" (%d)", text, step, have, stopped, want,
                     want_stopped);
        mem_free(have);
    }
}

#define STOPS(...) ((const char *const[]){__VA_ARGS__}), sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static void stops_across_token_borders(void **state)
{
    (void)state;
    expect(NULL, 0, "plain text", "plain text", false);
    expect(STOPS("\n\n"), "a\nb\n\nc", "a\nb", true);
    expect(STOPS("</end>"), "x</en></end>y</end>", "x</en>", true);
    expect(STOPS("aab"), "aaaab", "aa", true); /* falls back within its own beginning */
    expect(STOPS("abab"), "abaababx", "aba", true);
    expect(STOPS("stop"), "stop", "", true);
    expect(STOPS("stop"), "sto", "sto", false); /* held back, given at the end */
    expect(STOPS("\xC3\xA9t"), "caf\xC3\xA9 \xC3\xA9t\xC3\xA9", "caf\xC3\xA9 ", true);
    expect(STOPS("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x81\xF0\x9F\x98\x80", "\xF0\x9F\x98\x81", true);
}

static void of_several_the_one_complete_first_then_the_earliest(void **state)
{
    (void)state;
    expect(STOPS("cd", "abcd"), "xabcd", "x", true); /* complete at the same byte: the one that began first */
    expect(STOPS("abcd", "cd"), "xabcd", "x", true);
    expect(STOPS("abcdef", "cd"), "xabcdef", "xab", true); /* complete before the other */
    expect(STOPS("zz", "b"), "azb", "az", true);
}

static void text_waits_only_while_it_may_be_a_stop(void **state)
{
    (void)state;
    struct text_stream *s = make(STOPS("STOP"));
    struct str out = {0};
    bool stopped;
    text_stream_push(s, "hello ST", 8, &out, &stopped, NULL);
    assert_string_equal(out.s, "hello ");
    text_stream_push(s, "Q", 1, &out, &stopped, NULL);
    assert_string_equal(out.s, "hello STQ");
    text_stream_push(s, "STOP more", 9, &out, &stopped, NULL);
    assert_string_equal(out.s, "hello STQ");
    assert_true(stopped);
    stopped = false;
    text_stream_push(s, "after", 5, &out, &stopped, NULL); /* nothing more, and it says so */
    assert_true(stopped);
    assert_int_equal(text_stream_end(s, &out, NULL), GLIM_OK);
    assert_string_equal(out.s, "hello STQ");
    str_fini(&out);
    text_stream_free(s);
}

static void a_character_is_shown_once_it_is_whole(void **state)
{
    (void)state;
    struct text_stream *s = make(NULL, 0);
    struct str out = {0};
    bool stopped;
    str_puts(&out, "");
    static const char *const part[] = {"\xF0", "\x9F", "", "\x98", "\x80"};
    for (int i = 0; i < 5; i++) {
        assert_string_equal(out.s, "");
        assert_int_equal(text_stream_push(s, part[i], strlen(part[i]), &out, &stopped, NULL), GLIM_OK);
    }
    assert_string_equal(out.s, "\xF0\x9F\x98\x80");
    str_fini(&out);
    text_stream_free(s);
}

#define BAD "\xEF\xBF\xBD"

static void what_is_invalid_becomes_a_replacement_character(void **state)
{
    (void)state;
    expect(NULL, 0, "a\xFFz", "a" BAD "z", false);
    expect(NULL, 0, "\xE4\xBDz", BAD "z", false); /* one for the beginning of a sequence … */
    expect(NULL, 0, "\xE4\xBD", BAD, false);
    expect(NULL, 0, "\xBD\xBD", BAD BAD, false); /* … and one for each stray byte */
    expect(NULL, 0, "\xE4\xE4\xBD\xA0\xF0\x9F", BAD "\xE4\xBD\xA0" BAD, false);
    expect(NULL, 0, "\xED\xA0\x80", BAD BAD BAD, false); /* a surrogate */
    expect(STOPS(BAD), "a\xFFz", "a", true);
}

static void nul_bytes_are_text(void **state)
{
    (void)state;
    bool stopped;
    char *have = streamed(STOPS("b"), "a\0\0b", 4, 2, &stopped);
    assert_memory_equal(have, "a\0\0", 4);
    assert_true(stopped);
    mem_free(have);
}

static void useless_stops_are_refused(void **state)
{
    (void)state;
    struct glim_err e = {0};
    struct text_stream *s;
    assert_int_equal(text_stream_create(&s, STOPS("ok", ""), &e), GLIM_USAGE);
    assert_non_null(strstr(e.message, "stop string 1"));
    assert_null(s);
    assert_int_equal(text_stream_create(&s, STOPS("a\xFF"), &e), GLIM_USAGE);
    assert_non_null(strstr(e.message, "UTF-8"));
    text_stream_free(NULL);
}

/* Random texts over two letters and random stops: the same as searching the whole text. */
static void random_texts_match_a_plain_search(void **state)
{
    (void)state;
    uint64_t x = 3;
    for (int k = 0; k < 3000; k++) {
        char stop[3][8], text[40];
        const char *list[3];
        size_t n_stop = next_random(&x) % 3 + 1, n = next_random(&x) % 39;
        for (size_t i = 0; i < n_stop; i++) {
            size_t len = next_random(&x) % 6 + 1;
            for (size_t c = 0; c < len; c++)
                stop[i][c] = (char)('a' + next_random(&x) % 2);
            stop[i][len] = 0;
            list[i] = stop[i];
        }
        for (size_t c = 0; c < n; c++)
            text[c] = (char)('a' + next_random(&x) % 2);
        text[n] = 0;
        size_t cut = n, first_end = SIZE_MAX;
        for (size_t i = 0; i < n_stop; i++) {
            const char *at = strstr(text, stop[i]);
            size_t end = at ? (size_t)(at - text) + strlen(stop[i]) : SIZE_MAX;
            if (at && (end < first_end || (end == first_end && (size_t)(at - text) < cut))) {
                first_end = end;
                cut = (size_t)(at - text);
            }
        }
        bool stopped;
        char *have = streamed(list, n_stop, text, n, next_random(&x) % 7 + 1, &stopped);
        assert_int_equal(strlen(have), cut);
        assert_memory_equal(have, text, cut);
        assert_int_equal(stopped, first_end != SIZE_MAX);
        mem_free(have);
    }
}

static void lack_of_memory_is_an_error(void **state)
{
    (void)state;
    for (long k = 1;; k++) {
        struct glim_err e = {0};
        struct text_stream *s;
        struct str out = {0};
        bool stopped;
        mem_fail_after(k);
        glim_status st = text_stream_create(&s, STOPS("stop", "other"), &e);
        if (st == GLIM_OK)
            st = text_stream_push(s, "some text that is longer than a small buffer, st", 48, &out, &stopped, &e);
        if (st == GLIM_OK)
            st = text_stream_end(s, &out, &e);
        mem_fail_after(0);
        text_stream_free(s);
        str_fini(&out);
        if (st == GLIM_OK) {
            assert_true(k > 5);
            return;
        }
        assert_int_equal(st, GLIM_FAILED);
        assert_non_null(strstr(e.message, "out of memory"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_across_token_borders),
        cmocka_unit_test(of_several_the_one_complete_first_then_the_earliest),
        cmocka_unit_test(text_waits_only_while_it_may_be_a_stop),
        cmocka_unit_test(a_character_is_shown_once_it_is_whole),
        cmocka_unit_test(what_is_invalid_becomes_a_replacement_character),
        cmocka_unit_test(nul_bytes_are_text),
        cmocka_unit_test(useless_stops_are_refused),
        cmocka_unit_test(random_texts_match_a_plain_search),
        cmocka_unit_test(lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
