/* If this fails: error sentences are cut in the middle of a character, carry line breaks out of hostile file names, or
 * lose the status a caller turns into an exit code. */
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void set_formats_and_returns_the_status(void **state)
{
    (void)state;
    struct glim_err e = {0};
    assert_int_equal(err_set(&e, GLIM_REFUSED, "cannot open: %s: have %d, need %d", "x.gguf", 1, 2), GLIM_REFUSED);
    assert_int_equal(e.status, GLIM_REFUSED);
    assert_string_equal(e.message, "cannot open: x.gguf: have 1, need 2");
    assert_int_equal(err_set(NULL, GLIM_BUSY, "nobody listens"), GLIM_BUSY);
}

static void arguments_may_point_into_the_old_message(void **state)
{
    (void)state;
    struct glim_err e = {0};
    err_set(&e, GLIM_FAILED, "inner");
    err_set(&e, GLIM_FAILED, "outer (%s)", e.message);
    assert_string_equal(e.message, "outer (inner)");
}

static void prefix_keeps_status_and_sentence(void **state)
{
    (void)state;
    struct glim_err e = {0};
    err_set(&e, GLIM_USAGE, "bad value");
    assert_int_equal(err_prefix(&e, "line %d", 7), GLIM_USAGE);
    assert_string_equal(e.message, "line 7: bad value");
    assert_int_not_equal(err_prefix(NULL, "x"), GLIM_OK);
}

static void control_bytes_become_question_marks(void **state)
{
    (void)state;
    struct glim_err e = {0};
    err_set(&e, GLIM_FAILED, "cannot open: a\nb\x1b[31m\x7f");
    assert_string_equal(e.message, "cannot open: a?b?[31m?");
}

static void long_sentences_are_cut_between_characters(void **state)
{
    (void)state;
    char text[1200];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'a', shift);
        size_t n = shift;
        while (n + 3 < sizeof text) {
            memcpy(text + n, "\xE2\x82\xAC", 3); /* U+20AC */
            n += 3;
        }
        text[n] = 0;
        struct glim_err e = {0};
        err_set(&e, GLIM_FAILED, "%s", text);
        size_t len = strlen(e.message);
        assert_true(len < sizeof e.message && len > 490);
        assert_string_equal(e.message + len - 3, "...");
        assert_int_equal((len - 3 - shift) % 3, 0);
        assert_memory_equal(e.message, text, len - 3);
    }
    struct glim_err e = {0};
    memset(text, 'b', 499);
    text[499] = 0;
    err_set(&e, GLIM_FAILED, "%s", text); /* fits exactly: not marked as cut */
    assert_string_equal(e.message, text);
    err_prefix(&e, "p");
    assert_int_equal(strlen(e.message), 499);
    assert_memory_equal(e.message, "p: bbb", 6);
    assert_string_equal(e.message + 496, "...");
}

static void nomem_names_what_and_how_much(void **state)
{
    (void)state;
    struct glim_err e = {0};
    assert_int_equal(err_nomem(&e, "kv pages", 4096), GLIM_FAILED);
    assert_string_equal(e.message, "out of memory: kv pages: need 4096 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_formats_and_returns_the_status),
        cmocka_unit_test(arguments_may_point_into_the_old_message),
        cmocka_unit_test(prefix_keeps_status_and_sentence),
        cmocka_unit_test(control_bytes_become_question_marks),
        cmocka_unit_test(long_sentences_are_cut_between_characters),
        cmocka_unit_test(nomem_names_what_and_how_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
