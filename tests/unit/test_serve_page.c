/* If this fails: a browser refuses the page's own script or runs that of others, or shows the page of an old program.
 */
#include "base/hash.h"
#include "serve/page.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

/* What is between the only <tag> and the </tag> after it. */
static const char *element(const char *tag, size_t *n)
{
    char open[16], close[16];
    snprintf(open, sizeof open, "<%s>", tag);
    snprintf(close, sizeof close, "</%s>", tag);
    const char *p = memmem(page.bytes, page.n, open, strlen(open));
    assert_non_null(p);
    p += strlen(open);
    size_t left = page.n - (size_t)(p - (const char *)page.bytes);
    const char *end = memmem(p, left, close, strlen(close));
    assert_non_null(end);
    assert_null(memmem(p, left, open, strlen(open)));
    *n = (size_t)(end - p);
    return p;
}

static void hash_source(const char *tag, char out[80])
{
    size_t n;
    const char *p = element(tag, &n);
    struct sha256 h;
    struct glim_err e;
    assert_int_equal(sha256_of(p, n, &h, &e), GLIM_OK);
    unsigned char text[48];
    EVP_EncodeBlock(text, h.b, sizeof h.b);
    snprintf(out, 80, "'sha256-%s'", (const char *)text);
}

static void the_policy_names_what_the_page_has(void **state)
{
    (void)state;
    char script[80], style[80], need[256];
    hash_source("script", script);
    hash_source("style", style);
    snprintf(need, sizeof need, "default-src 'none'; script-src %s; style-src %s; connect-src 'self'; img-src data:; ",
             script, style);
    assert_int_equal(strncmp(page.csp, need, strlen(need)), 0);
    assert_non_null(strstr(page.csp, "frame-ancestors 'none'"));
    assert_null(strstr(page.csp, "unsafe"));
}

static void the_tag_is_of_the_bytes(void **state)
{
    (void)state;
    struct sha256 h;
    struct glim_err e;
    char hex[65], quoted[70];
    assert_int_equal(sha256_of(page.bytes, page.n, &h, &e), GLIM_OK);
    sha256_hex(&h, hex);
    snprintf(quoted, sizeof quoted, "\"%s\"", hex);
    assert_string_equal(page.etag, quoted);
    assert_memory_equal(page.bytes, "<!doctype html>\n", 16);
    assert_true(page.n <= 200000);
}

static void fields_carry_policy_and_tag(void **state)
{
    (void)state;
    struct http_field f[PAGE_FIELDS];
    page_fields(f);
    int found = 0;
    for (size_t i = 0; i < PAGE_FIELDS; i++) {
        assert_non_null(f[i].name);
        assert_null(strpbrk(f[i].value, "\r\n"));
        found += strcmp(f[i].name, "ETag") == 0 && strcmp(f[i].value, page.etag) == 0;
        found += strcmp(f[i].name, "Content-Security-Policy") == 0 && strcmp(f[i].value, page.csp) == 0;
        found += strcmp(f[i].name, "X-Content-Type-Options") == 0 && strcmp(f[i].value, "nosniff") == 0;
    }
    assert_int_equal(found, 3);
}

static void if_none_match(void **state)
{
    (void)state;
    char text[256];
    assert_false(page_unchanged(NULL));
    assert_false(page_unchanged(""));
    assert_false(page_unchanged(" , ,"));
    assert_false(page_unchanged("\"other\""));
    assert_false(page_unchanged("W/"));
    assert_true(page_unchanged("*"));
    assert_true(page_unchanged(page.etag));
    snprintf(text, sizeof text, "\"a\", W/%s", page.etag);
    assert_true(page_unchanged(text));
    snprintf(text, sizeof text, "%sx", page.etag);
    assert_false(page_unchanged(text));
    snprintf(text, sizeof text, "\"a\" ,\t%s , \"b\"", page.etag);
    assert_true(page_unchanged(text));
    text[strlen(text) - 9] = 0; /* cut inside the tag */
    assert_false(page_unchanged(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_policy_names_what_the_page_has),
        cmocka_unit_test(the_tag_is_of_the_bytes),
        cmocka_unit_test(fields_carry_policy_and_tag),
        cmocka_unit_test(if_none_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
