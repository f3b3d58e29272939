/* If this fails: streamed text shows broken characters, numbers on the command line are read wrongly, or JSON answers
 * do not parse. */
#include "base/str.h"
#include "base/json.h"
#include "base/mem.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* ---- strings ---- */

static void appends_keep_everything(void **state)
{
    (void)state;
    struct str b = {0};
    str_puts(&b, "ab");
    str_putc(&b, 'c');
    str_add(&b, "d\0e", 3);
    str_add(&b, NULL, 0);
    str_printf(&b, "%d-%s", 42, "xyz");
    assert_int_equal(b.n, 12);
    assert_memory_equal(b.s, "abcd\0e42-xyz", 13);
    str_clear(&b);
    assert_int_equal(b.n, 0);
    assert_string_equal(b.s, "");
    for (int i = 0; i < 10000; i++)
        str_putc(&b, (char)('a' + i % 26));
    assert_int_equal(strlen(b.s), 10000);
    assert_int_equal(b.s[9999], 'a' + 9999 % 26);
    assert_false(b.failed);
    str_fini(&b);
    assert_null(b.s);
}

static void lack_of_memory_keeps_the_content_and_stays(void **state)
{
    (void)state;
    struct str b = {0};
    char big[4096];
    memset(big, 'x', sizeof big);
    str_puts(&b, "kept");
    mem_fail_after(1);
    str_add(&b, big, sizeof big);
    mem_fail_after(0);
    assert_true(b.failed);
    str_puts(&b, "no more");
    str_printf(&b, "%d", 1);
    assert_string_equal(b.s, "kept");
    str_clear(&b);
    str_puts(&b, "again");
    assert_false(b.failed);
    assert_string_equal(b.s, "again");

    mem_fail_after(1); /* a quoted string is all there or not at all */
    str_json(&b, big, sizeof big);
    mem_fail_after(0);
    assert_true(b.failed);
    assert_string_equal(b.s, "again");
    assert_int_equal(b.n, 5);
    str_fini(&b);

    str_add(&b, "x", SIZE_MAX); /* a length no memory can hold */
    assert_true(b.failed);
    assert_null(b.s);
    str_fini(&b);
}

static void json_strings_escape(void **state)
{
    (void)state;
    struct str b = {0};
    const char raw[] = "a\"\\/\b\f\n\r\t\x01\x1f\x7f\0é€😀";
    str_json(&b, raw, sizeof raw - 1);
    assert_string_equal(b.s, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\\u0000é€😀\"");
    str_clear(&b);
    str_json(&b, "x\xff\xC3y\xE2\x82", 6);
    assert_string_equal(b.s, "\"x\xEF\xBF\xBD\xEF\xBF\xBDy\xEF\xBF\xBD\xEF\xBF\xBD\"");
    str_fini(&b);
}

/* Any byte pair must come out as JSON that jansson reads back, and valid UTF-8 unchanged. */
static void json_strings_parse_back(void **state)
{
    (void)state;
    for (unsigned i = 1; i < 65536; i += 7) {
        char raw[2] = {(char)(i >> 8), (char)i};
        if (!raw[0] || !raw[1])
            continue;
        struct str b = {0};
        struct glim_err e;
        json_t *j;
        str_json(&b, raw, 2);
        assert_int_equal(json_parse(b.s, b.n, "t", &j, &e), GLIM_OK);
        if (i < 0x8000 && !(i & 0x80))
            assert_memory_equal(json_string_value(j), raw, 2);
        json_decref(j);
        str_fini(&b);
    }
}

/* ---- numbers ---- */

static void integers_are_strict(void **state)
{
    (void)state;
    int64_t i;
    uint64_t u;
    const struct {
        const char *s;
        int64_t v;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"42", 42},
                {"-17", -17},
                {"007", 7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        assert_true(parse_i64(good[k].s, &i));
        assert_true(i == good[k].v);
    }
    const char *bad[] = {"",
                         "-",
                         "+1",
                         " 1",
                         "1 ",
                         "1x",
                         "0x10",
                         "1.0",
                         "1e3",
                         "--1",
                         "9223372036854775808",
                         "-9223372036854775809",
                         "99999999999999999999"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_false(parse_i64(bad[k], &i));
    assert_true(parse_u64("18446744073709551615", &u));
    assert_true(u == UINT64_MAX);
    assert_false(parse_u64("18446744073709551616", &u));
    assert_false(parse_u64("-1", &u));
}

static void reals_are_strict_and_finite(void **state)
{
    (void)state;
    double v;
    const struct {
        const char *s;
        double v;
    } good[] = {{"0", 0},        {"1.5", 1.5},     {"-2.25e2", -225}, {".5", 0.5}, {"5.", 5},
                {"+1E-3", 1e-3}, {"1e308", 1e308}, {"1e-400", 0},     {"0.1", 0.1}};
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        assert_true(parse_f64(good[k].s, &v));
        assert_true(v == good[k].v);
    }
    const char *bad[] = {"",     ".",     "-",     "e5", "1e", "1e+", "nan",   "inf",
                         "-inf", "1e309", "0x1p3", " 1", "1 ", "1,5", "1.5.2", "1_000"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_false(parse_f64(bad[k], &v));
}

static void reals_ignore_the_locale(void **state)
{
    (void)state;
    const char *comma[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"}; /* whichever is installed */
    for (size_t k = 0; k < sizeof comma / sizeof *comma && !setlocale(LC_NUMERIC, comma[k]); k++)
        ;
    double v;
    assert_true(parse_f64("1.5", &v));
    assert_true(v == 1.5);
    setlocale(LC_NUMERIC, "C");
}

/* ---- UTF-8 ---- */

static void every_code_point_round_trips(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x110005; cp++) {
        char s[4];
        uint32_t back = 0;
        int n = utf8_encode(cp, s);
        if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) {
            assert_int_equal(n, 0);
            continue;
        }
        if (n != (cp < 0x80      ? 1
                  : cp < 0x800   ? 2
                  : cp < 0x10000 ? 3
                                 : 4) ||
            utf8_decode((const uint8_t *)s, 4, &back) != n || back != cp)
            fail_msg("U+%04X", cp);
        for (int cut = 0; cut < n; cut++) /* cut short: invalid, and recognised as unfinished */
            if (utf8_decode((const uint8_t *)s, (size_t)cut, &back) != 0 ||
                utf8_partial_tail((const uint8_t *)s, (size_t)cut) != (size_t)cut)
                fail_msg("U+%04X cut to %d", cp, cut);
        if (utf8_partial_tail((const uint8_t *)s, (size_t)n) != 0)
            fail_msg("U+%04X is whole", cp);
    }
}

static void ill_formed_sequences_are_invalid(void **state)
{
    (void)state;
    const struct {
        const char *s;
        size_t tail; /* bytes that could still become a character */
    } bad[] = {
        {"\x80", 0},             /* lone continuation */
        {"\xBF\xBF", 0},         /**/
        {"\xC0\x80", 0},         /* overlong NUL */
        {"\xC1\xBF", 0},         /* overlong */
        {"\xE0\x80\x80", 0},     /* overlong */
        {"\xE0\x9F\xBF", 0},     /* overlong, just below U+0800 */
        {"\xED\xA0\x80", 0},     /* U+D800 */
        {"\xED\xBF\xBF", 0},     /* U+DFFF */
        {"\xF0\x80\x80\x80", 0}, /* overlong */
        {"\xF0\x8F\xBF\xBF", 0}, /* overlong, just below U+10000 */
        {"\xF4\x90\x80\x80", 0}, /* U+110000 */
        {"\xF5\x80\x80\x80", 0}, /* beyond */
        {"\xF8\x88\x80\x80", 0}, /* five-byte form */
        {"\xFE", 0},
        {"\xFF", 0},
        {"\xE2\x28\xA1", 0}, /* a letter inside */
        {"\xE2\x82", 2},     /* unfinished */
        {"\xF0\x9F\x98", 3},
        {"\xF0\x9F", 2},
        {"\xC3", 1},
        {"\xE0\x9F", 0}, /* unfinished but already wrong */
        {"\xED\xA0", 0},
        {"\xF4\x90", 0},
        {"\xF0\x8F\xBF", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t cp;
        const uint8_t *p = (const uint8_t *)bad[i].s;
        size_t n = strlen(bad[i].s);
        if (utf8_decode(p, n, &cp) != 0)
            fail_msg("row %zu decodes", i);
        if (utf8_partial_tail(p, n) != bad[i].tail)
            fail_msg("row %zu has a tail of %zu", i, utf8_partial_tail(p, n));
    }
    uint32_t cp;
    assert_int_equal(utf8_decode((const uint8_t *)"", 0, &cp), 0);
    assert_int_equal(utf8_partial_tail((const uint8_t *)"", 0), 0);
}

static void the_tail_looks_at_the_end_alone(void **state)
{
    (void)state;
    assert_int_equal(utf8_partial_tail((const uint8_t *)"abc\xE2\x82", 5), 2);
    assert_int_equal(utf8_partial_tail((const uint8_t *)"\xE2\x82 abc", 6), 0);
    assert_int_equal(utf8_partial_tail((const uint8_t *)"\xC3\xA9\xC3", 3), 1);
    assert_int_equal(utf8_partial_tail((const uint8_t *)"\xC3\xA9\x80", 3), 0);
    assert_int_equal(utf8_partial_tail((const uint8_t *)"\xF0\x9F\x98\x80\x80\x80\x80", 7), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_keep_everything),
        cmocka_unit_test(lack_of_memory_keeps_the_content_and_stays),
        cmocka_unit_test(json_strings_escape),
        cmocka_unit_test(json_strings_parse_back),
        cmocka_unit_test(integers_are_strict),
        cmocka_unit_test(reals_are_strict_and_finite),
        cmocka_unit_test(reals_ignore_the_locale),
        cmocka_unit_test(every_code_point_round_trips),
        cmocka_unit_test(ill_formed_sequences_are_invalid),
        cmocka_unit_test(the_tail_looks_at_the_end_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
