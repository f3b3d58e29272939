/* If this fails: a model that does not fit is loaded anyway (or refused without saying why), or the fault injection
 * that the other tests rely on is not real. */
#include "base/mem.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void blocks_are_aligned_and_writable(void **state)
{
    (void)state;
    const size_t size[] = {0, 1, 4096, ((size_t)2 << 20) - 1, (size_t)2 << 20, ((size_t)5 << 20) + 17};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        for (size_t align = 16; align <= 4096; align *= 4) {
            unsigned char *p = mem_aligned(align, size[i]);
            assert_non_null(p);
            size_t want = size[i] >= ((size_t)2 << 20) ? (size_t)2 << 20 : align;
            assert_int_equal((uintptr_t)p % want, 0);
            memset(p, 1, size[i]);
            mem_free(p);
        }
    }
    mem_free(NULL);
}

static void calloc_zeroes_and_checks_the_product(void **state)
{
    (void)state;
    unsigned char *p = mem_calloc(100, 7);
    assert_non_null(p);
    for (int i = 0; i < 700; i++)
        assert_int_equal(p[i], 0);
    mem_free(p);
    p = mem_calloc(0, 8);
    assert_non_null(p);
    mem_free(p);
    assert_null(mem_calloc(SIZE_MAX / 2, 3));
    assert_null(mem_calloc(SIZE_MAX / 2 + 1, 2)); /* the product wraps to 0 */
    assert_null(mem_alloc(SIZE_MAX));
    assert_null(mem_realloc(NULL, SIZE_MAX));
    assert_null(mem_aligned(64, SIZE_MAX));
}

static void strings_are_copied(void **state)
{
    (void)state;
    char *a = mem_strdup("hello"), *b = mem_strndup("hello", 3), *c = mem_strndup("hi", 30);
    assert_string_equal(a, "hello");
    assert_string_equal(b, "hel");
    assert_string_equal(c, "hi");
    mem_free(a);
    mem_free(b);
    mem_free(c);
}

static void the_nth_allocation_and_all_later_ones_fail(void **state)
{
    (void)state;
    for (long n = 1; n <= 4; n++) {
        mem_fail_after(n);
        for (long i = 1; i <= 6; i++) {
            void *p = i % 2 ? mem_alloc(8) : mem_aligned(64, 8);
            assert_int_equal(p != NULL, i < n);
            mem_free(p);
        }
    }
    assert_null(mem_calloc(1, 1));
    assert_null(mem_realloc(NULL, 1));
    assert_null(mem_strdup("x"));
    mem_fail_after(0);
    void *p = mem_alloc(8);
    assert_non_null(p);
    mem_free(p);
}

static void failed_realloc_keeps_the_old_block(void **state)
{
    (void)state;
    char *p = mem_strdup("kept");
    mem_fail_after(1);
    assert_null(mem_realloc(p, 1 << 20));
    mem_fail_after(0);
    assert_string_equal(p, "kept");
    mem_free(p);
}

static void *allocate_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++)
        mem_free(mem_alloc(16));
    return NULL;
}

static void the_count_misses_nothing_between_threads(void **state)
{
    (void)state;
    pthread_t t[4];
    long before = mem_count();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, allocate_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(mem_count() - before, 4000);
}

static void grow_makes_room_for_one_more(void **state)
{
    (void)state;
    int *v = NULL;
    size_t cap = 0, n = 0;
    for (; n < 1000; n++) {
        void *p = v;
        assert_true(mem_grow(&p, &cap, n, sizeof *v));
        v = p;
        assert_true(cap > n);
        v[n] = (int)n;
    }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(v[i], i);
    void *p = v;
    size_t old = cap;
    mem_fail_after(1);
    assert_false(mem_grow(&p, &cap, cap, sizeof *v));
    mem_fail_after(0);
    assert_ptr_equal(p, v);
    assert_int_equal(cap, old);
    cap = SIZE_MAX / 2; /* bytes would not fit */
    assert_false(mem_grow(&p, &cap, cap, sizeof *v));
    mem_free(v);
}

static void plan_sums_by_kind(void **state)
{
    (void)state;
    struct mem_plan p = {0};
    struct glim_err e;
    assert_int_equal(mem_plan_add(&p, MEM_WEIGHTS, 100, &e, "layer %d", 0), GLIM_OK);
    assert_int_equal(mem_plan_add(&p, MEM_WEIGHTS, 50, &e, "head"), GLIM_OK);
    assert_int_equal(mem_plan_add(&p, MEM_KV, 7, &e, "pages"), GLIM_OK);
    assert_int_equal(mem_plan_total(&p), 157);
    assert_int_equal(mem_plan_kind(&p, MEM_WEIGHTS), 150);
    assert_int_equal(mem_plan_kind(&p, MEM_KV), 7);
    assert_int_equal(mem_plan_kind(&p, MEM_STATE), 0);
    assert_string_equal(p.row[0].what, "layer 0");
    assert_int_equal(mem_plan_check(&p, 157, &e), GLIM_OK);
    assert_int_equal(mem_plan_check(&p, 156, &e), GLIM_REFUSED);
    for (int k = 0; k < MEM_KIND_COUNT; k++)
        for (int j = 0; j < k; j++)
            assert_string_not_equal(mem_kind_name((enum mem_kind)k), mem_kind_name((enum mem_kind)j));
    mem_plan_free(&p);
    assert_int_equal(mem_plan_total(&p), 0);
}

static void refusal_names_the_largest_rows_in_order(void **state)
{
    (void)state;
    struct mem_plan p = {0};
    struct glim_err e;
    const size_t mib = 1 << 20;
    const size_t size[] = {3, 9, 1, 9, 5, 2}; /* in MiB */
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(mem_plan_add(&p, i % 2 ? MEM_KV : MEM_WEIGHTS, size[i] * mib, &e, "r%zu", i), GLIM_OK);
    assert_int_equal(mem_plan_check(&p, 20 * mib, &e), GLIM_REFUSED);
    assert_string_equal(
        e.message, "memory plan refused: kv r1 9.0 MiB, kv r3 9.0 MiB, weights r4 5.0 MiB, weights r0 3.0 MiB, ...: "
                   "have 20.0 MiB, need 29.0 MiB");
    mem_plan_free(&p);

    char longest[80];
    memset(longest, 'w', sizeof longest);
    longest[79] = 0;
    for (int i = 0; i < 9; i++)
        assert_int_equal(mem_plan_add(&p, MEM_SCRATCH, SIZE_MAX / 16, &e, "%s", longest), GLIM_OK);
    assert_int_equal(mem_plan_check(&p, mib, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "have 1.0 MiB, need ")); /* the figures survive the longest names */
    mem_plan_free(&p);
}

static void a_plan_beyond_64_bits_is_refused(void **state)
{
    (void)state;
    struct mem_plan p = {0};
    struct glim_err e;
    mem_plan_add(&p, MEM_WEIGHTS, SIZE_MAX - 5, &e, "a");
    assert_false(p.overflow);
    mem_plan_add(&p, MEM_WEIGHTS, 6, &e, "b");
    assert_true(p.overflow);
    assert_true(mem_plan_total(&p) == SIZE_MAX);
    assert_true(mem_plan_kind(&p, MEM_WEIGHTS) == SIZE_MAX);
    assert_int_equal(mem_plan_check(&p, SIZE_MAX, &e), GLIM_REFUSED);
    mem_plan_free(&p);

    p.overflow = true; /* a caller whose own product overflowed says so this way */
    assert_int_equal(mem_plan_check(&p, SIZE_MAX, &e), GLIM_REFUSED);
}

static void plan_survives_lack_of_memory(void **state)
{
    (void)state;
    struct mem_plan p = {0};
    struct glim_err e = {0};
    mem_fail_after(1);
    assert_int_equal(mem_plan_add(&p, MEM_KV, 1, &e, "x"), GLIM_FAILED);
    mem_fail_after(0);
    assert_int_equal(p.n_row, 0);
    assert_non_null(strstr(e.message, "out of memory"));
    mem_plan_free(&p);
}

static void arena_cuts_aligned_pieces_until_it_is_used_up(void **state)
{
    (void)state;
    struct arena a;
    struct glim_err e;
    assert_int_equal(arena_init(&a, 256, "test", &e), GLIM_OK);
    unsigned char *p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = arena_take(&a, i == 1 ? 64 : 33);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        assert_ptr_equal(p[i], a.base + 64 * i);
        memset(p[i], i, 64);
    }
    assert_null(arena_take(&a, 1));
    assert_non_null(arena_take(&a, 0));
    assert_null(arena_take(&a, SIZE_MAX));
    assert_null(arena_take(&a, SIZE_MAX - 64));
    assert_int_equal(a.used, 256);
    arena_fini(&a);
    arena_fini(&a);

    assert_int_equal(arena_init(&a, 0, "empty", &e), GLIM_OK);
    assert_null(arena_take(&a, 1));
    arena_fini(&a);
}

static void arena_init_reports_what_did_not_fit(void **state)
{
    (void)state;
    struct arena a;
    struct glim_err e = {0};
    assert_int_equal(arena_init(&a, SIZE_MAX, "scratch", &e), GLIM_FAILED);
    assert_null(a.base);
    mem_fail_after(1);
    assert_int_equal(arena_init(&a, 128, "scratch", &e), GLIM_FAILED);
    mem_fail_after(0);
    assert_string_equal(e.message, "out of memory: scratch: need 128 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_writable),
        cmocka_unit_test(calloc_zeroes_and_checks_the_product),
        cmocka_unit_test(strings_are_copied),
        cmocka_unit_test(the_nth_allocation_and_all_later_ones_fail),
        cmocka_unit_test(failed_realloc_keeps_the_old_block),
        cmocka_unit_test(the_count_misses_nothing_between_threads),
        cmocka_unit_test(grow_makes_room_for_one_more),
        cmocka_unit_test(plan_sums_by_kind),
        cmocka_unit_test(refusal_names_the_largest_rows_in_order),
        cmocka_unit_test(a_plan_beyond_64_bits_is_refused),
        cmocka_unit_test(plan_survives_lack_of_memory),
        cmocka_unit_test(arena_cuts_aligned_pieces_until_it_is_used_up),
        cmocka_unit_test(arena_init_reports_what_did_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
