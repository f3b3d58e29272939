/* If these fail, a key gets more than its limits, or waits when it need not; or the server falls over for lack of
 * memory while it reads keys. */
#include "serve/keys.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static enum limit_kind kind;
static double wait_s;

static bool begins(struct limit *l, double now)
{
    bool yes = limit_begin(l, now, &kind, &wait_s);
    if (yes)
        limit_end(l);
    return yes;
}

static void test_requests_fill_evenly(void **state)
{
    (void)state;
    struct limit *l = limit_create("a", (struct limit_rule){.requests = 6}, 100);
    for (int i = 0; i < 6; i++)
        assert_true(begins(l, 100));
    assert_false(begins(l, 100));
    assert_int_equal(kind, LIMIT_REQUESTS);
    assert_true(wait_s == 10); /* one each ten seconds */
    assert_false(begins(l, 109.9));
    assert_true(wait_s == 1);
    assert_true(begins(l, 110.01));
    assert_false(begins(l, 110.02));
    for (int i = 0; i < 6; i++) /* a minute's worth at most, however long nobody asked */
        assert_true(begins(l, 10000));
    assert_false(begins(l, 10000));
    assert_true(l->n_request == 13 && l->n_refused[LIMIT_REQUESTS] == 4);
    limit_drop(l);
}

static void test_tokens_may_be_overdrawn_once(void **state)
{
    (void)state;
    struct limit *l = limit_create("a", (struct limit_rule){.tokens = 60}, 0);
    assert_true(begins(l, 0));
    limit_tokens(l, 0, 100, 80); /* 120 too many: two minutes, and a second for one token */
    assert_false(begins(l, 0));
    assert_int_equal(kind, LIMIT_TOKENS);
    assert_true(wait_s == 121);
    assert_false(begins(l, 120.5));
    assert_true(begins(l, 121.01));
    assert_true(l->n_prompt == 100 && l->n_token == 80);
    limit_drop(l);
}

static void test_so_many_at_a_time(void **state)
{
    (void)state;
    struct limit *l = limit_create("a", (struct limit_rule){.concurrent = 2, .requests = 100}, 0);
    assert_true(limit_begin(l, 0, &kind, &wait_s));
    assert_true(limit_begin(l, 0, &kind, &wait_s));
    assert_false(limit_begin(l, 0, &kind, &wait_s));
    assert_int_equal(kind, LIMIT_CONCURRENT);
    assert_true(wait_s == 1 && l->requests == 98); /* what did not begin costs nothing */
    limit_end(l);
    assert_true(limit_begin(l, 0, &kind, &wait_s));
    limit_drop(l);
}

static void test_without_limits_everything_begins(void **state)
{
    (void)state;
    struct limit *l = limit_create("a", (struct limit_rule){0}, 0);
    for (int i = 0; i < 1000; i++)
        assert_true(limit_begin(l, 0, &kind, &wait_s));
    limit_tokens(l, 0, 1 << 30, 1 << 30);
    assert_true(limit_begin(l, 0, &kind, &wait_s));
    limit_drop(l);
}

static void test_a_changed_rule_forgives_nothing(void **state)
{
    (void)state;
    struct limit *l = limit_create("a", (struct limit_rule){.requests = 4}, 0);
    for (int i = 0; i < 4; i++)
        assert_true(begins(l, 0));
    limit_change(l, (struct limit_rule){.requests = 6}, 0);
    assert_true(begins(l, 0) && begins(l, 0));
    assert_false(begins(l, 0));
    limit_change(l, (struct limit_rule){.requests = 2}, 0);
    assert_false(begins(l, 30)); /* six were used where two are allowed now */
    limit_drop(l);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, 0600), 0);
}

static char dir[] = "/tmp/test_serve_limits.XXXXXX";

static void test_keys_are_found_and_inherited(void **state)
{
    (void)state;
    char path[100], a[KEY_SECRET_MAX], b[KEY_SECRET_MAX], longer[KEY_SECRET_MAX + 2];
    struct keys *old, *fresh;
    struct glim_err e;
    snprintf(path, sizeof path, "%s/found", dir);
    assert_int_equal(keys_add(path, "a", (struct limit_rule){.requests = 2}, a, &e), GLIM_OK);
    assert_int_equal(keys_add(path, "b", (struct limit_rule){0}, b, &e), GLIM_OK);
    assert_int_equal(keys_read(&old, path, &e), GLIM_OK);
    assert_int_equal(keys_count(old), 2);
    assert_string_equal(keys_find(old, a)->name, "a");
    assert_string_equal(keys_find(old, b)->name, "b");
    snprintf(longer, sizeof longer, "%sx", a);
    assert_null(keys_find(old, longer));
    assert_null(keys_find(old, ""));
    struct limit *used = keys_find(old, a);
    assert_true(limit_begin(used, 1e9, &kind, &wait_s) && limit_begin(used, 1e9, &kind, &wait_s));
    assert_int_equal(keys_remove(path, "b", &e), GLIM_OK);
    assert_int_equal(keys_read(&fresh, path, &e), GLIM_OK);
    keys_inherit(fresh, old);
    keys_free(old);
    assert_ptr_equal(keys_find(fresh, a), used);
    assert_int_equal(used->running, 2);
    assert_null(keys_find(fresh, b));
    keys_free(fresh);
}

static void test_lack_of_memory(void **state)
{
    (void)state;
    char path[100], secret[KEY_SECRET_MAX];
    struct glim_err e;
    snprintf(path, sizeof path, "%s/memory", dir);
    write_file(path, "a 0000000000000000000000000000000000000000000000000000000000000000 tokens=3\n"
                     "b 1000000000000000000000000000000000000000000000000000000000000000\n");
    for (long n = 1;; n++) {
        struct keys *k;
        mem_fail_after(n);
        glim_status st = keys_read(&k, path, &e);
        mem_fail_after(0);
        assert_true((st == GLIM_OK) == (k != NULL));
        keys_free(k);
        if (st == GLIM_OK)
            break;
        assert_true(n < 100);
    }
    for (long n = 1;; n++) {
        mem_fail_after(n);
        glim_status st = keys_add(path, "c", (struct limit_rule){0}, secret, &e);
        mem_fail_after(0);
        if (st == GLIM_OK)
            break;
        assert_true(n < 100);
    }
    for (long n = 1;; n++) {
        mem_fail_after(n);
        glim_status st = keys_remove(path, "a", &e);
        mem_fail_after(0);
        if (st == GLIM_OK)
            break;
        assert_true(n < 100);
    }
    struct keys *k;
    assert_int_equal(keys_read(&k, path, &e), GLIM_OK);
    assert_int_equal(keys_count(k), 2);
    assert_string_equal(keys_find(k, secret)->name, "c");
    keys_free(k);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_fill_evenly),
        cmocka_unit_test(test_tokens_may_be_overdrawn_once),
        cmocka_unit_test(test_so_many_at_a_time),
        cmocka_unit_test(test_without_limits_everything_begins),
        cmocka_unit_test(test_a_changed_rule_forgives_nothing),
        cmocka_unit_test(test_keys_are_found_and_inherited),
        cmocka_unit_test(test_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
