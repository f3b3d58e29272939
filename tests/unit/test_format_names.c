/* If this fails: tensors are not found by name, or a hostile name garbles the terminal of the person who reads an
 * error. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "format/names.h"
#include "format/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_pool(void **state)
{
    (void)state;
    struct name_pool p = {0};
    enum { N = 3000 };
    static const char *kept[N];
    char text[100];
    for (int i = 0; i < N; i++) {
        int n = snprintf(text, sizeof text, "%0*d", 1 + i % 90, i);
        kept[i] = name_add(&p, text, (size_t)n);
    }
    char *big = calloc(1, 200000);
    memset(big, 'x', 199999);
    const char *copy = name_add(&p, big, 199999);
    assert_string_equal(copy, big);
    free(big);
    assert_string_equal(name_add(&p, NULL, 0), "");
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "%0*d", 1 + i % 90, i);
        assert_string_equal(kept[i], text);
    }
    name_pool_free(&p);
    assert_null(p.last);
}

struct item {
    const char *name;
    int other;
};

static void test_index(void **state)
{
    (void)state;
    static char text[2000][12];
    static struct item item[2000];
    for (int n = 0; n < 2000; n = n * 3 / 2 + 1) {
        for (int i = 0; i < n; i++) {
            snprintf(text[i], sizeof text[i], "n%d", (int)((i * 7919L) % n));
            item[i].name = text[i];
        }
        struct name_index x = {0};
        size_t dup = 0;
        assert_int_equal(name_index_build(&x, item, (size_t)n, sizeof *item, &dup, NULL), GLIM_OK);
        assert_true(dup == SIZE_MAX);
        for (int i = 0; i < n; i++)
            assert_int_equal(name_index_find(&x, text[i]), i);
        assert_true(name_index_find(&x, "") == SIZE_MAX);
        assert_true(name_index_find(&x, "n") == SIZE_MAX);
        assert_true(name_index_find(&x, "zzz") == SIZE_MAX);
        name_index_fini(&x);
        if (n < 2)
            continue;
        item[n - 1].name = text[n / 3 == n - 1 ? 0 : n / 3];
        assert_int_equal(name_index_build(&x, item, (size_t)n, sizeof *item, &dup, NULL), GLIM_OK);
        assert_string_equal(item[dup].name, item[n - 1].name);
        name_index_fini(&x);
    }
}

static bool larger(const void *ctx, uint32_t a, uint32_t b)
{
    const int *key = ctx;
    return key[a] > key[b];
}

/* Sorted, a permutation, and stable. */
static void test_sort(void **state)
{
    (void)state;
    static int key[777];
    static uint32_t v[777];
    uint32_t r = 1;
    for (size_t n = 0; n <= 777; n += n < 20 ? 1 : 31) {
        for (size_t i = 0; i < n; i++) {
            r = r * 1664525 + 1013904223;
            key[i] = (int)(r >> 26);
            v[i] = (uint32_t)i;
        }
        assert_true(sort_order(v, n, larger, key));
        for (size_t i = 1; i < n; i++)
            assert_true(key[v[i - 1]] < key[v[i]] || (key[v[i - 1]] == key[v[i]] && v[i - 1] < v[i]));
    }
    mem_fail_after(1);
    assert_false(sort_order(v, 3, larger, key));
    mem_fail_after(0);
}

static void shows(const char *name, size_t n, const char *want)
{
    char buf[NAME_SHOWN];
    assert_string_equal(name_show(buf, name, n), want);
}

static void test_show(void **state)
{
    (void)state;
    shows("blk.0.attn_q.weight", 19, "blk.0.attn_q.weight");
    shows("", 0, "");
    shows("a\0b\n\x1b[2J\x7f", 9, "a\\x00b\\x0a\\x1b[2J\\x7f");
    shows("gr\xc3\xbc\xc3\x9f", 6, "gr\xc3\xbc\xc3\x9f");
    shows("\xff\xc3", 2, "\\xff\\xc3");
    shows("\xc2\x9b", 2, "\\xc2\\x9b"); /* a C1 control: an escape sequence to some terminals */

    char big[300], buf[NAME_SHOWN];
    for (size_t n = 90; n < sizeof big; n++) {
        for (size_t i = 0; i < n; i++)
            big[i] = (char)('a' + i % 26);
        name_show(buf, big, n);
        assert_true(strlen(buf) < NAME_SHOWN);
        assert_memory_equal(buf, big, 64);
        assert_memory_equal(buf + strlen(buf) - 40, big + n - 40, 40);
        if (n > 104)
            assert_memory_equal(buf + 64, "...", 3);
        else
            assert_int_equal(strlen(buf), n);
        memset(big, 1, n); /* all escaped: cut, but whole escapes and a NUL */
        name_show(buf, big, n);
        assert_true(strlen(buf) < NAME_SHOWN);
        for (size_t i = 0; i < n; i++)
            memcpy(big + i, &"\xe2\x82\xac"[i % 3], 1); /* cut between, not inside, three-byte sequences */
        name_show(buf, big, n);
        for (const char *p = buf; *p; p++)
            assert_true((unsigned char)*p != 0xe2 || ((unsigned char)p[1] == 0x82 && (unsigned char)p[2] == 0xac));
    }
}

static void test_guess(void **state)
{
    (void)state;
    static const char zip[] = "PK\x03\x04", st[] = "\2\0\0\0\0\0\0\0{}", text[] = "{\"a\": 1, \"b\": 2}";
    assert_string_equal(file_guess("GGUF\3", 5), "a GGUF file");
    assert_string_equal(file_guess(zip, 4), "a zip archive (a PyTorch checkpoint?)");
    assert_null(file_guess(zip, 3));
    assert_string_equal(file_guess(st, 10), "a safetensors file");
    assert_null(file_guess(st, 9));
    assert_null(file_guess(text, sizeof text - 1));
    assert_null(file_guess("", 0));
}

static void test_elems(void **state)
{
    (void)state;
    struct tensor t = {.n_dim = 0, .dim = {1, 1, 1, 1, 1, 1}};
    assert_int_equal(tensor_elems(&t), 1);
    t = (struct tensor){.n_dim = 3, .dim = {3, 1ULL << 31, 5, 1, 1, 1}};
    assert_true(tensor_elems(&t) == 15ULL << 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool), cmocka_unit_test(test_index), cmocka_unit_test(test_sort),
        cmocka_unit_test(test_show), cmocka_unit_test(test_guess), cmocka_unit_test(test_elems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
