/* If this fails, glim.toml is misread, or an error in it points to the wrong line. */
#include "base/mem.h"
#include "base/toml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static struct glim_err err;

static glim_status parse(struct toml *t, const char *text)
{
    return toml_parse(t, text, strlen(text), "x.toml", &err);
}

static void values_of_each_kind(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum toml_kind kind;
        const char *value;
    } c[] = {
        {"k=1", TOML_INT, "1"},
        {"k = +0", TOML_INT, "0"},
        {"k = -0", TOML_INT, "-0"},
        {"\tk\t=\t-12 \t", TOML_INT, "-12"},
        {"k = 1_000_000", TOML_INT, "1000000"},
        {"k = 1.5", TOML_FLOAT, "1.5"},
        {"k = -1_0.2_5e+1_0", TOML_FLOAT, "-10.25e10"},
        {"k = 5E-3", TOML_FLOAT, "5e-3"},
        {"k = true", TOML_BOOL, "true"},
        {"k = false#c", TOML_BOOL, "false"},
        {"k = \"\"", TOML_STRING, ""},
        {"k = ''", TOML_STRING, ""},
        {"k = \"a # b\" # c", TOML_STRING, "a # b"},
        {"k = 'a\\n\"b'", TOML_STRING, "a\\n\"b"},
        {"k = \"\\b\\t\\n\\f\\r\\\"\\\\\"", TOML_STRING, "\b\t\n\f\r\"\\"},
        {"k = \"\\u00e9\\U0001F600\"", TOML_STRING, "\xC3\xA9\xF0\x9F\x98\x80"},
        {"k = \"\xC3\xA9\t\"", TOML_STRING, "\xC3\xA9\t"},
        {"k-1_A = 3", TOML_INT, "3"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct toml t;
        if (parse(&t, c[i].text) != GLIM_OK)
            fail_msg("%s: %s", c[i].text, err.message);
        assert_int_equal(t.n, 1);
        assert_int_equal(t.item[0].kind, c[i].kind);
        assert_string_equal(t.item[0].text, c[i].value);
        toml_free(&t);
    }
}

static void lines_are_counted(void **state)
{
    (void)state;
    struct toml t;
    assert_int_equal(parse(&t, "# first\r\n\r\n a = 1 # x\r\n\n\t# \xC3\xA9\nb = 'two'"), GLIM_OK);
    assert_int_equal(t.n, 2);
    assert_string_equal(t.item[0].key, "a");
    assert_int_equal(t.item[0].line, 3);
    assert_string_equal(t.item[1].key, "b");
    assert_int_equal(t.item[1].line, 6);
    toml_free(&t);
    assert_int_equal(parse(&t, ""), GLIM_OK);
    assert_int_equal(t.n, 0);
    assert_int_equal(parse(&t, "# only a comment"), GLIM_OK);
    assert_int_equal(t.n, 0);
}

static void what_is_no_such_file_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
        int line;
    } c[] = {
        {"a = 1\n[t]\nb = 2", "table", 2},
        {"a.b = 1", "dotted", 1},
        {"\"a\" = 1", "no key", 1},
        {"= 1", "no key", 1},
        {"a", "equals", 1},
        {"a b = 1", "equals", 1},
        {"a =", "no plain value", 1},
        {"a =\n1", "no plain value", 1},
        {"a = [1]", "no plain value", 1},
        {"a = {}", "no plain value", 1},
        {"a = 1979-05-27", "no decimal number", 1},
        {"a = 01", "no decimal number", 1},
        {"a = 0x10", "no decimal number", 1},
        {"a = 1__0", "no decimal number", 1},
        {"a = 1_", "no decimal number", 1},
        {"a = _1", "no decimal number", 1},
        {"a = 1.", "no decimal number", 1},
        {"a = .5", "no decimal number", 1},
        {"a = 1e", "no decimal number", 1},
        {"a = inf", "no decimal number", 1},
        {"a = nan", "no decimal number", 1},
        {"a = True", "no decimal number", 1},
        {"a = --1", "no decimal number", 1},
        {"a = 1 2", "more text", 1},
        {"a = 1\rb = 2", "more text", 1},
        {"a = \"x", "without end", 1},
        {"a = \"x\nb\"", "without end", 1},
        {"a = 'x", "without end", 1},
        {"a = \"\"\"x\"\"\"", "multi-line", 1},
        {"a = '''x'''", "multi-line", 1},
        {"a = \"\\x\"", "escape", 1},
        {"a = \"\\", "escape", 1},
        {"a = \"\\u12\"", "escape", 1},
        {"a = \"\\ud800\"", "no character", 1},
        {"a = \"\\u0000\"", "no character", 1},
        {"a = \"\\U00110000\"", "no character", 1},
        {"a = \"\x01\"", "control character", 1},
        {"a = \"\xFF\"", "invalid UTF-8", 1},
        {"\n# \x01", "control character", 2},
        {"# \xC3", "invalid UTF-8", 1},
        {"a = 1\n\na = 2", "first on line 1", 3},
        {"a = 1111111111111111111111111111111111111111111111111111111111111111", "very long", 1},
        {"\xEF\xBB\xBF"
         "a = 1",
         "no key", 1},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct toml t;
        char where[32];
        if (parse(&t, c[i].text) != GLIM_FAILED)
            fail_msg("accepted: %s", c[i].text);
        assert_int_equal(t.n, 0);
        assert_null(t.item);
        snprintf(where, sizeof where, "x.toml:%d:", c[i].line);
        if (!strstr(err.message, c[i].word) || !strstr(err.message, where))
            fail_msg("%s: need %s %s in: %s", c[i].text, where, c[i].word, err.message);
    }
    struct toml t;
    assert_int_equal(toml_parse(&t, "a = '\0'", 7, "x.toml", &err), GLIM_FAILED); /* a NUL byte */
    assert_int_equal(toml_parse(&t, "a\0 = 1", 6, "x.toml", &err), GLIM_FAILED);
}

/* Every cut of a valid file either parses or names a line, and reads nothing past its end (the copy has no spare byte).
 */
static void every_truncation_is_handled(void **state)
{
    (void)state;
    static const char text[] = "# c\r\nkey = \"a\\u00e9\\\"\" # d\nn = -1_0.5e3\nb = true\ns = 'x\xC3\xA9'\n";
    for (size_t n = 0; n < sizeof text; n++) {
        struct toml t;
        char *copy = mem_alloc(n);
        memcpy(copy, text, n);
        glim_status st = toml_parse(&t, copy, n, "x.toml", &err);
        assert_true(st == GLIM_OK || (st == GLIM_FAILED && strstr(err.message, "x.toml:")));
        toml_free(&t);
        mem_free(copy);
    }
}

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    int n_failed = 0;
    for (long n = 1;; n++) {
        struct toml t;
        mem_fail_after(n);
        glim_status st = parse(&t, "a = 'one'\nb = ''\nc = 3\n");
        mem_fail_after(0);
        if (st == GLIM_OK) {
            assert_int_equal(t.n, 3);
            toml_free(&t);
            break;
        }
        n_failed++;
        assert_int_equal(st, GLIM_FAILED);
        assert_non_null(strstr(err.message, "memory"));
    }
    assert_true(n_failed >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_each_kind),
        cmocka_unit_test(lines_are_counted),
        cmocka_unit_test(what_is_no_such_file_is_refused_with_its_line),
        cmocka_unit_test(every_truncation_is_handled),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
