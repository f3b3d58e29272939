/* If this fails: words of some language are cut at the wrong places, or accents typed in two ways give two token lists.
 */
#include "test_text_vocab.h"

#include "base/hash.h"
#include "text/unicode.h"

/* Members of each class among all code points, counted with the regular expressions of `tokenizers` 0.23.3. */
static void classes_have_the_size_they_have_in_unicode_16(void **state)
{
    (void)state;
    static const struct {
        uint8_t mask;
        int n;
    } want[] = {{UC_L, 141028}, {UC_N, 1911},     {UC_M, 2501},     {UC_P, 855},
                {UC_S, 8514},   {UC_UPPER, 1889}, {UC_LOWER, 2258}, {UC_SPACE, 25}};
    int have[8] = {0};
    for (uint32_t cp = 0; cp < 0x110000; cp++)
        for (int k = 0; k < 8; k++)
            have[k] += (uc_class(cp) & want[k].mask) != 0;
    for (int k = 0; k < 8; k++)
        assert_int_equal(have[k], want[k].n);
}

static void single_characters_have_their_class(void **state)
{
    (void)state;
    static const struct {
        uint32_t cp;
        uint8_t cls;
    } want[] = {{'a', UC_L | UC_LOWER},
                {'Z', UC_L | UC_UPPER},
                {'0', UC_N},
                {' ', UC_SPACE},
                {'\n', UC_SPACE},
                {0, 0},
                {'_', UC_P},
                {'$', UC_S},
                {0x1C5, UC_L | UC_UPPER},
                {0x2B0, UC_L},
                {0x301, UC_M},
                {0xBD, UC_N},
                {0x85, UC_SPACE},
                {0x3000, UC_SPACE},
                {0x200B, 0},
                {0x4E00, UC_L},
                {0x1F600, UC_S},
                {0x10FFFF, 0},
                {0xE0100, UC_M},
                {0x1E943, UC_L | UC_LOWER},
                {0x2028, UC_SPACE},
                {0xA7CB, UC_L | UC_UPPER},
                {0x20000, UC_L},
                {0x31350, UC_L},
                {0x323AF, UC_L},
                {0x323B0, 0},
                {0x1FFFF, 0}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (uc_class(want[i].cp) != want[i].cls)
            fail_msg("U+%04X: have %d, need %d", want[i].cp, uc_class(want[i].cp), want[i].cls);
    for (uint32_t cp = 0; cp < 128; cp++)
        assert_int_equal(uc_class(cp), uc_ascii[cp]);
    assert_true(uc_in(uc_han, uc_han_n, 0x3005));
    assert_false(uc_in(uc_han, uc_han_n, 0x3006));
    assert_false(uc_in(uc_han, uc_han_n, 0));
    assert_false(uc_in(uc_han, uc_han_n, 0x10FFFF));
}

static void an_invalid_byte_is_one_symbol(void **state)
{
    (void)state;
    static const uint8_t text[] = {0xFF, 0xE4, 0xBD, 0xE4, 0xBD, 0xA0, 0xED, 0xA0, 0x80, 0xC0, 0x80};
    static const uint8_t len[] = {1, 1, 1, 3, 1, 1, 1, 1, 1};
    const uint8_t *p = text, *end = text + sizeof text;
    for (size_t i = 0; i < sizeof len; i++) {
        struct uc_char c = uc_at(p, end);
        assert_int_equal(c.len, len[i]);
        assert_int_equal(c.cp, len[i] == 1 ? 0xFFFD : 0x4F60);
        assert_int_equal(c.cls, len[i] == 1 ? UC_S : UC_L);
        p += c.len;
    }
    assert_true(p == end);
    assert_int_equal(uc_at(p, end).len, 0);
    assert_int_equal(uc_at(p, end).cls, 0);
}

static void hash_is(struct sha256_ctx *c, const char *want)
{
    struct sha256 h;
    char hex[65];
    assert_int_equal(sha256_end(c, &h, NULL), GLIM_OK);
    sha256_hex(&h, hex);
    assert_string_equal(hex, want);
}

static void add_nfc(struct sha256_ctx *c, const char *p, size_t n)
{
    struct str s = {0};
    uc_nfc((const uint8_t *)p, n, &s);
    assert_false(s.failed);
    str_putc(&s, '\n');
    sha256_add(c, s.s, s.n, NULL);
    str_fini(&s);
}

/* Sums over unicodedata.normalize("NFC", …) of Python's unicodedata2 16.0: first each code point alone. */
static void nfc_of_every_code_point(void **state)
{
    (void)state;
    struct sha256_ctx *c;
    char utf8[4];
    assert_int_equal(sha256_begin(&c, NULL), GLIM_OK);
    for (uint32_t cp = 0; cp < 0x110000; cp++)
        if (cp < 0xD800 || cp > 0xDFFF)
            add_nfc(c, utf8, (size_t)utf8_encode(cp, utf8));
    hash_is(c, "9cc65524a9d8082bf10840c616cd199bd2ac12ee49a3381bd6fb7957711f342b");
}

/* … then 20,000 sequences of letters, marks, composites and Hangul, drawn by the same generator on both sides. */
static void nfc_of_random_sequences(void **state)
{
    (void)state;
    struct sha256_ctx *c;
    uint64_t x = 1;
    assert_int_equal(sha256_begin(&c, NULL), GLIM_OK);
    for (int k = 0; k < 20000; k++) {
        char text[32];
        size_t n = 0;
        for (uint32_t left = next_random(&x) % 6 + 1; left > 0; left--) {
            uint32_t cp, kind = next_random(&x) % 4;
            if (kind == 0) {
                cp = 0x61 + next_random(&x) % 26;
            } else if (kind == 1) {
                cp = 0x300 + next_random(&x) % 0x70;
            } else if (kind == 2) {
                cp = 0xC0 + next_random(&x) % 0x1F40;
            } else {
                uint32_t hangul[4] = {0x1100 + next_random(&x) % 19, 0, 0, 0};
                hangul[1] = 0x1161 + next_random(&x) % 21;
                hangul[2] = 0x11A8 + next_random(&x) % 27;
                hangul[3] = 0xAC00 + next_random(&x) % 11172;
                cp = hangul[next_random(&x) % 4];
            }
            n += (size_t)utf8_encode(cp, text + n);
        }
        add_nfc(c, text, n);
    }
    hash_is(c, "a684d7982efd29511457cd3171efe77551aafdcbc3839e0caed1261c5be55ace");
}

static void nfc_keeps_invalid_bytes_and_stays_linear(void **state)
{
    (void)state;
    struct str s = {0}, marks = {0};
    uc_nfc((const uint8_t *)"e\xCC\x81\xFF"
                            "e\xCC",
           6, &s);
    assert_int_equal(s.n, 5);
    assert_memory_equal(s.s,
                        "\xC3\xA9\xFF"
                        "e\xCC",
                        5);
    str_clear(&s);
    for (int i = 0; i < 200000; i++) /* by turns above and below: the worst order */
        str_puts(&marks, i % 2 ? "\xCC\xA3" : "\xCC\x81");
    uc_nfc((const uint8_t *)marks.s, marks.n, &s);
    assert_int_equal(s.n, marks.n);
    assert_memory_equal(s.s, "\xCC\xA3\xCC\xA3", 4);
    assert_memory_equal(s.s + s.n - 4, "\xCC\x81\xCC\x81", 4);
    mem_fail_after(2);
    str_fini(&s);
    uc_nfc((const uint8_t *)marks.s, marks.n, &s);
    mem_fail_after(0);
    assert_true(s.failed);
    str_fini(&s);
    str_fini(&marks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_have_the_size_they_have_in_unicode_16),
        cmocka_unit_test(single_characters_have_their_class),
        cmocka_unit_test(an_invalid_byte_is_one_symbol),
        cmocka_unit_test(nfc_of_every_code_point),
        cmocka_unit_test(nfc_of_random_sequences),
        cmocka_unit_test(nfc_keeps_invalid_bytes_and_stays_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
