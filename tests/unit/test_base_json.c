/* If this fails: a request or a config file with two values for one key is read one way here and another way elsewhere,
 * or a bad file is reported without saying where. */
#include "base/json.h"
#include "base/file.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void any_value_at_the_top(void **state)
{
    (void)state;
    const char *good[] = {"{\"a\":[1,2.5,null,true]}", "[]", "3", "-0.5e3", "\"x\"", "true", "null", " {} \n"};
    struct glim_err e;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        json_t *j;
        assert_int_equal(json_parse(good[i], strlen(good[i]), "t", &j, &e), GLIM_OK);
        assert_non_null(j);
        json_decref(j);
    }
}

static void malformed_texts_are_refused_with_their_place(void **state)
{
    (void)state;
    const char *bad[] = {
        "",           " ",           "{",        "[1,]",         "{\"a\":1,}",           "{a:1}", "01",          "nul",
        "[1] 2",      "\"\\ud800\"", "\"\xff\"", "\"\xC0\x80\"", "99999999999999999999", "1e999", "\"\\u0000\"", "'x'",
        "[1 // c\n]", "NaN",         "\"a\nb\""};
    struct glim_err e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *j = (json_t *)&e;
        memset(&e, 0, sizeof e);
        assert_int_equal(json_parse(bad[i], strlen(bad[i]), "body", &j, &e), GLIM_FAILED);
        assert_null(j);
        assert_memory_equal(e.message, "malformed JSON: body: have ", 27);
        assert_non_null(strstr(e.message, " line "));
        assert_null(strchr(e.message, '\n'));
    }
    json_t *j;
    json_parse("{\n \"a\": x}", 10, "f.json", &j, &e);
    assert_non_null(strstr(e.message, "line 2 column "));
}

static void duplicate_keys_are_refused(void **state)
{
    (void)state;
    struct glim_err e;
    json_t *j;
    const char *s = "{\"a\":1,\"b\":{\"c\":1,\"c\":2}}";
    assert_int_equal(json_parse(s, strlen(s), "t", &j, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "duplicate"));
}

static void deep_nesting_is_an_error_and_not_a_crash(void **state)
{
    (void)state;
    size_t n = 200000;
    char *s = mem_alloc(n);
    struct glim_err e;
    json_t *j;
    memset(s, '[', n);
    assert_int_equal(json_parse(s, n, "t", &j, &e), GLIM_FAILED);
    mem_free(s);
}

/* Every allocation of a parse fails once: an error each time, nothing leaked (the sanitizer build looks), and at last
 * success. */
static void lack_of_memory_is_an_error_at_every_point(void **state)
{
    (void)state;
    const char *s = "{\"layers\":[{\"name\":\"a\",\"w\":[1,2,3]},{\"name\":\"b\",\"w\":[1.5,null]}],\"n\":2}";
    struct glim_err e;
    glim_status st = GLIM_FAILED;
    long n = 0;
    while (st != GLIM_OK) {
        assert_true(++n < 1000);
        json_t *j;
        memset(&e, 0, sizeof e);
        mem_fail_after(n);
        st = json_parse(s, strlen(s), "t", &j, &e);
        mem_fail_after(0);
        if (st != GLIM_OK) {
            assert_null(j);
            assert_non_null(strstr(e.message, "out of memory"));
        } else
            json_decref(j);
    }
    assert_true(n > 10);
}

static void files_are_parsed_and_bounded(void **state)
{
    (void)state;
    char dir[] = "/tmp/glim-test-XXXXXX", path[64];
    struct glim_err e;
    json_t *j;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f.json", dir);
    assert_int_equal(json_parse_file(path, 100, &j, &e), GLIM_FAILED);
    assert_int_equal(file_write_atomic(path, "{\"a\":17}", 8, &e), GLIM_OK);
    assert_int_equal(json_parse_file(path, 8, &j, &e), GLIM_OK);
    assert_int_equal(json_integer_value(json_object_get(j, "a")), 17);
    json_decref(j);
    assert_int_equal(json_parse_file(path, 7, &j, &e), GLIM_REFUSED);
    assert_null(j);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_value_at_the_top),
        cmocka_unit_test(malformed_texts_are_refused_with_their_place),
        cmocka_unit_test(duplicate_keys_are_refused),
        cmocka_unit_test(deep_nesting_is_an_error_and_not_a_crash),
        cmocka_unit_test(lack_of_memory_is_an_error_at_every_point),
        cmocka_unit_test(files_are_parsed_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
