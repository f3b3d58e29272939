/* If this fails: a `pattern` of a schema, or a user's own regular expression, lets texts through that do not match it,
 * keeps out some that do, or one that cannot be an automaton is taken all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "text/regex.h"

#include <string.h>

struct row {
    const char *pattern;
    enum regex_match how;
    const char *yes[8], *no[8];
};

/* What matches is ECMA-262's RegExp with the u flag. */
static const struct row table[] = {
    {"abc", REGEX_WHOLE, {"abc"}, {"", "ab", "abcd", "xabc"}},
    {"abc", REGEX_ANYWHERE, {"abc", "xabcx", "ababc"}, {"", "ab", "a bc"}},
    {"", REGEX_WHOLE, {""}, {"a"}},
    {"", REGEX_ANYWHERE, {"", "a"}, {NULL}},
    {"a|bc|", REGEX_WHOLE, {"a", "bc", ""}, {"b", "abc"}},
    {"(a|b)c|d", REGEX_WHOLE, {"ac", "bc", "d"}, {"c", "ad"}},
    {"a*", REGEX_WHOLE, {"", "a", "aaaa"}, {"b", "ab"}},
    {"a+?b??", REGEX_WHOLE, {"a", "aab"}, {"", "b", "abb"}},
    {"a{2,3}", REGEX_WHOLE, {"aa", "aaa"}, {"a", "aaaa"}},
    {"a{2}", REGEX_WHOLE, {"aa"}, {"a", "aaa"}},
    {"a{2,}", REGEX_WHOLE, {"aa", "aaaaa"}, {"a"}},
    {"a{0}b", REGEX_WHOLE, {"b"}, {"ab"}},
    {"(ab{0,2}){2}", REGEX_WHOLE, {"aa", "abab", "abbab"}, {"a", "abbba", "aaa"}},
    {"(?:a|)*b", REGEX_WHOLE, {"b", "ab", "aab"}, {"a"}},
    {"a{x}{", REGEX_WHOLE, {"a{x}{"}, {"a"}},
    {"x{,2}]}", REGEX_WHOLE, {"x{,2}]}"}, {"xx"}},
    {"[abc]", REGEX_WHOLE, {"a", "c"}, {"d", "", "ab"}},
    {"[^abc]", REGEX_WHOLE, {"d", "é", "\n", "😀"}, {"a", "", "dd"}},
    {"[a-c-]", REGEX_WHOLE, {"a", "b", "-"}, {"d"}},
    {"[-a]", REGEX_WHOLE, {"-", "a"}, {"b"}},
    {"[]", REGEX_WHOLE, {NULL}, {"", "a", "]"}},
    {"[^]", REGEX_WHOLE, {"a", "\n", "😀"}, {"", "ab"}},
    {"[\\]\\\\^]", REGEX_WHOLE, {"]", "\\", "^"}, {"["}},
    {"[\\d_]+", REGEX_WHOLE, {"1_2"}, {"a", "٣"}},
    {"[\\b]", REGEX_WHOLE, {"\b"}, {"b"}},
    {"[à-é]", REGEX_WHOLE, {"à", "ç", "é"}, {"a", "ê", "\xC3"}},
    {"[\\u{1F600}-\\u{1F64F}]", REGEX_WHOLE, {"😀", "😏"}, {"a", "🚀"}},
    {"\\uD83D\\uDE00\\x41\\u0042\\cJ\\0?", REGEX_WHOLE, {"😀AB\n"}, {"😀AB", "😀ABJ"}},
    {".",
     REGEX_WHOLE,
     {"a", "é", "😀", "\t", "\xC2\x85"},
     {"", "\n", "\r", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xFF", "ab"}},
    {"\\d\\D", REGEX_WHOLE, {"1a", "0\n", "5é"}, {"11", "aa", "٣a"}},
    {"\\w+\\W", REGEX_WHOLE, {"aZ_9 ", "a\xC3\xA9"}, {"a", " "}},
    {"\\s",
     REGEX_WHOLE,
     {" ", "\t", "\v", "\xC2\xA0", "\xEF\xBB\xBF", "\xE2\x80\xA8", "\xE3\x80\x80"},
     {"a", "\xC2\x85", "\x1F"}},
    {"\\S", REGEX_WHOLE, {"a", "\xC2\x85"}, {" ", "\xEF\xBB\xBF"}},
    {"\\t\\n\\v\\f\\r\\/\\.\\-\\*", REGEX_WHOLE, {"\t\n\v\f\r/.-*"}, {"tnvfr/.-*"}},
    {"\\p{L}\\p{Lu}\\p{Ll}\\p{Lt}",
     REGEX_WHOLE,
     {"aÉé\xC7\x85", "中Aa\xC7\x88"},
     {"1Aa\xC7\x85", "aaa\xC7\x85", "aAAA"}},
    {"\\p{Lu}", REGEX_WHOLE, {"A", "Ω", "\xF0\x90\x90\x80"}, {"a", "\xC7\x85", "1"}},
    {"\\P{L}", REGEX_WHOLE, {"1", " ", "-"}, {"a", "é", "中"}},
    {"[\\p{N}\\p{P}]", REGEX_WHOLE, {"1", "٣", "½", "!", "«"}, {"a", "+"}},
    {"\\p{Letter}\\p{gc=N}?", REGEX_WHOLE, {"a", "a1"}, {"1", "aa"}},
    {"\\p{S}\\p{Zs}\\p{M}", REGEX_WHOLE, {"+ \xCC\x81", "€\xC2\xA0\xCC\x81"}, {"a \xCC\x81"}},
    {"^a$", REGEX_ANYWHERE, {"a"}, {"", "ab", "ba", "a\n"}},
    {"^a", REGEX_ANYWHERE, {"a", "ab"}, {"ba", "\na"}},
    {"a$", REGEX_ANYWHERE, {"a", "ba"}, {"ab", "a\n"}},
    {"^a|b$", REGEX_ANYWHERE, {"a", "ax", "b", "xb"}, {"xa", "bx", ""}},
    {"(^a|b)(c|$)", REGEX_ANYWHERE, {"ac", "a", "xb", "xbcx"}, {"xa", "xbx", ""}},
    {"a^b|a$b", REGEX_ANYWHERE, {NULL}, {"ab", "a", ""}},
    {"^$", REGEX_ANYWHERE, {""}, {"a"}},
    {"$^", REGEX_ANYWHERE, {""}, {"a"}},
    {"(?:^|,)x(?:,|$)", REGEX_ANYWHERE, {"x", "a,x", "x,b", "a,x,b"}, {"xa", "ax", "a,xb"}},
    {"(a$)*", REGEX_ANYWHERE, {"", "a", "b"}, {NULL}},
    {"^(?=.*[a-z])(?=.*\\d)\\w{4,}$", REGEX_ANYWHERE, {"abc1", "1zzz"}, {"abcd", "1234", "a1", "abc1!"}},
    {"^(?!foo)", REGEX_ANYWHERE, {"", "fo", "bar", "xfoo"}, {"foo", "foobar"}},
    {"^(?!foo$)[a-z]*$", REGEX_ANYWHERE, {"", "fo", "foob"}, {"foo", "Foo"}},
    {"a(?=b)", REGEX_ANYWHERE, {"ab", "xabx"}, {"a", "ac"}},
    {"a(?!b)", REGEX_ANYWHERE, {"a", "ac", "aba"}, {"ab", "b"}},
    {"x(?=ab)(?!abc)a|q", REGEX_WHOLE, {"q"}, {"xa", "xab"}},
    {"(?<year>\\d{4})-(?<m>\\d\\d)", REGEX_WHOLE, {"2024-01"}, {"24-01"}},
    {"é+", REGEX_WHOLE, {"é", "éé"}, {"e", "\xC3"}},
};

static void the_table_holds(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct row *r = &table[i];
        struct dfa *d;
        struct glim_err e = {0};
        if (regex_dfa(&d, r->pattern, strlen(r->pattern), r->how, &e) != GLIM_OK) {
            print_error("%s\n", e.message);
            bad++;
            continue;
        }
        for (size_t k = 0; k < 8 && r->yes[k]; k++)
            if (!dfa_match(d, r->yes[k], strlen(r->yes[k]))) {
                print_error("/%s/ does not match \"%s\"\n", r->pattern, r->yes[k]);
                bad++;
            }
        for (size_t k = 0; k < 8 && r->no[k]; k++)
            if (dfa_match(d, r->no[k], strlen(r->no[k]))) {
                print_error("/%s/ matches \"%s\"\n", r->pattern, r->no[k]);
                bad++;
            }
        dfa_free(d);
    }
    assert_int_equal(bad, 0);
}

static void what_is_wrong_or_unknown_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        glim_status st;
        const char *text;
    } row[] = {
        {"a\\b", GLIM_REFUSED, "at byte 1: have a word boundary"},
        {"\\Ba", GLIM_REFUSED, "at byte 0: have a word boundary"},
        {"(a)\\1", GLIM_REFUSED, "at byte 3: have a backreference"},
        {"(?<n>a)\\k<n>", GLIM_REFUSED, "have a backreference"},
        {"(?<=a)b", GLIM_REFUSED, "have a lookbehind"},
        {"(?<!a)b", GLIM_REFUSED, "have a lookbehind"},
        {"(?i)a", GLIM_REFUSED, "have flags"},
        {"(?>a)", GLIM_REFUSED, "have an atomic group"},
        {"((?=a)b)", GLIM_REFUSED, "at byte 1: have a lookahead inside a group"},
        {"(?=a)*", GLIM_REFUSED, "have a repeated lookahead"},
        {"a(?=^b)", GLIM_REFUSED, "at byte 4: have a ^ in or after a lookahead"},
        {"\\p{Greek}", GLIM_REFUSED, "at byte 0: have an unknown property, need Any, ASCII, L"},
        {"a{70000}", GLIM_REFUSED, "have a count over 65535"},
        {"((((a{1000}){1000}){1000}){1000}){1000}", GLIM_REFUSED, ""},
        {"((((){9999}){9999}){9999}){9999}", GLIM_REFUSED, "unrolls too far"},
        {"(a|b)*a(a|b){20}", GLIM_REFUSED, "automaton too large"},
        {"(a", GLIM_FAILED, "at byte 0: have a group without its end"},
        {"a)", GLIM_FAILED, "at byte 1: have a ) without its ("},
        {"[a", GLIM_FAILED, "at byte 0: have a class without its end"},
        {"*a", GLIM_FAILED, "at byte 0: have a repetition of nothing"},
        {"a**", GLIM_FAILED, "at byte 2: have a repetition of nothing"},
        {"a{2}{3}", GLIM_FAILED, "at byte 4: have a repetition of nothing"},
        {"^*", GLIM_FAILED, "have a repeated ^ or $"},
        {"a{3,2}", GLIM_FAILED, "have a count out of order"},
        {"[z-a]", GLIM_FAILED, "at byte 1: have a range out of order"},
        {"[a-\\d]", GLIM_FAILED, "have a range that ends in a class"},
        {"\\", GLIM_FAILED, "at byte 0: have a backslash at the end"},
        {"\\x1", GLIM_FAILED, "have a damaged \\x"},
        {"\\u12", GLIM_FAILED, "have a damaged \\u"},
        {"\\u{110000}", GLIM_FAILED, "have a damaged \\u{…}"},
        {"\\q", GLIM_FAILED, "have an unknown escape"},
        {"(?<a", GLIM_FAILED, "have a group without its name"},
        {"(?P<a>b)", GLIM_FAILED, "have an unknown group"},
        {"a\xFF", GLIM_FAILED, "at byte 1: have a byte that is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct dfa *d = (struct dfa *)&d;
        struct glim_err e = {0};
        glim_status st = regex_dfa(&d, row[i].pattern, strlen(row[i].pattern), REGEX_ANYWHERE, &e);
        if (st != row[i].st || !strstr(e.message, row[i].text))
            fail_msg("/%s/: have %d \"%s\", need %d \"%s\"", row[i].pattern, st, e.message, row[i].st, row[i].text);
        assert_null(d);
    }
}

static void depth_and_length_are_limited(void **state)
{
    (void)state;
    static char deep[REGEX_MAX_BYTES + 2];
    struct dfa *d;
    struct glim_err e = {0};
    memset(deep, '(', sizeof deep);
    assert_int_equal(regex_dfa(&d, deep, 5000, REGEX_WHOLE, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "nested too deeply"));
    memset(deep, 'a', sizeof deep);
    assert_int_equal(regex_dfa(&d, deep, REGEX_MAX_BYTES + 1, REGEX_WHOLE, &e), GLIM_REFUSED);
    assert_int_equal(regex_dfa(&d, deep, 20000, REGEX_WHOLE, &e), GLIM_OK);
    assert_true(dfa_match(d, deep, 20000));
    assert_false(dfa_match(d, deep, 19999));
    dfa_free(d);
}

static void a_grammar_has_the_whole_texts(void **state)
{
    (void)state;
    struct grammar *g;
    struct glim_err e = {0};
    assert_int_equal(regex_grammar(&g, "[ab]{2}", 7, &e), GLIM_OK);
    grammar_free(g);
    assert_int_equal(regex_grammar(&g, "a[]", 3, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "no text matches"));
    assert_int_equal(regex_grammar(&g, "(", 1, &e), GLIM_FAILED);
    assert_null(g);
}

static void lack_of_memory_is_an_error_at_every_point(void **state)
{
    (void)state;
    static const char pattern[] = "^(?=.*[a-z])(?!x)[^é\\p{Lu}]{1,3}(?:a|b\\d)*$";
    struct dfa *d = NULL;
    struct glim_err e = {0};
    long n = 0;
    glim_status st = GLIM_FAILED;
    while (st != GLIM_OK) {
        assert_true(++n < 20000);
        mem_fail_after(n);
        st = regex_dfa(&d, pattern, strlen(pattern), REGEX_ANYWHERE, &e);
        mem_fail_after(0);
        if (st != GLIM_OK && !strstr(e.message, "out of memory"))
            fail_msg("%ld: %s", n, e.message);
    }
    assert_true(n > 100);
    assert_true(dfa_match(d, "ab1", 3));
    dfa_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_holds),
        cmocka_unit_test(what_is_wrong_or_unknown_is_refused_with_its_place),
        cmocka_unit_test(depth_and_length_are_limited),
        cmocka_unit_test(a_grammar_has_the_whole_texts),
        cmocka_unit_test(lack_of_memory_is_an_error_at_every_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
