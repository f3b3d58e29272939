/* If this fails: identities of models and caches change, so that every cache is cold or, worse, the wrong one is taken.
 */
#include "base/hash.h"
#include "base/file.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Messages and digests of FIPS 180-4's published examples, and the empty message. */
static const struct {
    const char *text, *hex;
} vector[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};
static const char million_a[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void published_vectors(void **state)
{
    (void)state;
    struct sha256 h;
    struct glim_err e;
    char hex[65];
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) {
        assert_int_equal(sha256_of(vector[i].text, strlen(vector[i].text), &h, &e), GLIM_OK);
        sha256_hex(&h, hex);
        assert_string_equal(hex, vector[i].hex);
    }
}

static void one_state_serves_many_messages(void **state)
{
    (void)state;
    struct sha256_ctx *c;
    struct sha256 h;
    struct glim_err e;
    char hex[65];
    assert_int_equal(sha256_begin(&c, &e), GLIM_OK);
    for (size_t i = 0; i < 3 * sizeof vector / sizeof *vector; i++) {
        size_t v = i % (sizeof vector / sizeof *vector);
        assert_int_equal(sha256_short(c, vector[v].text, strlen(vector[v].text), &h, &e), GLIM_OK);
        sha256_hex(&h, hex);
        assert_string_equal(hex, vector[v].hex);
    }
    assert_int_equal(sha256_end(c, &h, &e), GLIM_OK);
}

static void streaming_in_odd_pieces_gives_the_same(void **state)
{
    (void)state;
    struct sha256_ctx *c;
    struct sha256 h;
    struct glim_err e;
    char a[1000], hex[65];
    memset(a, 'a', sizeof a);
    assert_int_equal(sha256_begin(&c, &e), GLIM_OK);
    size_t left = 1000000;
    for (size_t step = 1; left > 0; step = step % 997 + 1) {
        size_t n = step < left ? step : left;
        assert_int_equal(sha256_add(c, a, n, &e), GLIM_OK);
        left -= n;
    }
    assert_int_equal(sha256_end(c, &h, &e), GLIM_OK);
    sha256_hex(&h, hex);
    assert_string_equal(hex, million_a);
}

static void files_hash_like_their_bytes(void **state)
{
    (void)state;
    char dir[] = "/tmp/glim-test-XXXXXX", path[64], hex[65];
    struct sha256 h;
    struct glim_err e;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    char *a = mem_alloc(1000000);
    memset(a, 'a', 1000000);
    assert_int_equal(file_write_atomic(path, a, 1000000, &e), GLIM_OK);
    mem_free(a);
    assert_int_equal(sha256_file(path, &h, &e), GLIM_OK);
    sha256_hex(&h, hex);
    assert_string_equal(hex, million_a);

    file_fail_after(2);
    assert_int_equal(sha256_file(path, &h, &e), GLIM_FAILED);
    file_fail_after(0);
    mem_fail_after(2);
    assert_int_equal(sha256_file(path, &h, &e), GLIM_FAILED);
    mem_fail_after(0);

    assert_int_equal(file_write_atomic(path, "", 0, &e), GLIM_OK);
    assert_int_equal(sha256_file(path, &h, &e), GLIM_OK);
    sha256_hex(&h, hex);
    assert_string_equal(hex, vector[0].hex);
    unlink(path);
    assert_int_equal(sha256_file(path, &h, &e), GLIM_FAILED);
    rmdir(dir);
}

static void begin_survives_lack_of_memory(void **state)
{
    (void)state;
    struct sha256_ctx *c;
    struct glim_err e = {0};
    mem_fail_after(1);
    assert_int_equal(sha256_begin(&c, &e), GLIM_FAILED);
    mem_fail_after(0);
    assert_null(c);
    assert_non_null(strstr(e.message, "out of memory"));
}

/* The published value of XXH3-64 of nothing, and that place, length and content alone decide. */
static void xxh3_is_a_function_of_the_bytes(void **state)
{
    (void)state;
    assert_true(xxh3("", 0) == UINT64_C(0x2D06800538D394C2));
    unsigned char a[600], b[601];
    for (size_t i = 0; i < sizeof a; i++)
        a[i] = (unsigned char)(i * 37 + 11);
    memcpy(b + 1, a, sizeof a);
    uint64_t seen[601];
    for (size_t n = 0; n <= sizeof a; n++) {
        seen[n] = xxh3(a, n);
        assert_true(seen[n] == xxh3(b + 1, n));
        assert_true(n == 0 || seen[n] != seen[n - 1]);
    }
    for (size_t i = 0; i < sizeof a; i++) {
        b[1 + i] ^= 1;
        assert_true(xxh3(b + 1, sizeof a) != seen[sizeof a]);
        b[1 + i] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(one_state_serves_many_messages),
        cmocka_unit_test(streaming_in_odd_pieces_gives_the_same),
        cmocka_unit_test(files_hash_like_their_bytes),
        cmocka_unit_test(begin_survives_lack_of_memory),
        cmocka_unit_test(xxh3_is_a_function_of_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
