/* If this fails: a hostile file's sizes wrap around, and a buffer smaller than its content is allocated. */
#include "base/arith.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void mul_reports_overflow(void **state)
{
    (void)state;
    size_t s;
    uint64_t u;
    assert_true(mul_size(SIZE_MAX / 3, 3, &s));
    assert_int_equal(s, SIZE_MAX / 3 * 3);
    assert_false(mul_size(SIZE_MAX / 3 + 1, 3, &s));
    assert_false(mul_size((size_t)1 << 32, (size_t)1 << 32, &s));
    assert_true(mul_size(0, SIZE_MAX, &s));
    assert_int_equal(s, 0);
    assert_true(mul_u64(UINT64_MAX, 1, &u));
    assert_true(u == UINT64_MAX);
    assert_false(mul_u64(UINT64_MAX, 2, &u));
}

static void add_reports_overflow(void **state)
{
    (void)state;
    size_t s;
    uint64_t u;
    assert_true(add_size(SIZE_MAX - 1, 1, &s));
    assert_true(s == SIZE_MAX);
    assert_false(add_size(SIZE_MAX, 1, &s));
    assert_true(add_u64(UINT64_MAX, 0, &u));
    assert_false(add_u64(UINT64_MAX / 2 + 1, UINT64_MAX / 2 + 1, &u));
}

static void align_up_rounds_and_reports_overflow(void **state)
{
    (void)state;
    size_t s;
    const struct {
        size_t n, align, want;
    } row[] = {{0, 64, 0},
               {1, 64, 64},
               {63, 64, 64},
               {64, 64, 64},
               {65, 64, 128},
               {7, 1, 7},
               {SIZE_MAX - 63, 64, SIZE_MAX - 63}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_true(align_up(row[i].n, row[i].align, &s));
        assert_true(s == row[i].want);
    }
    assert_false(align_up(SIZE_MAX - 62, 64, &s));
    assert_false(align_up(SIZE_MAX, 2, &s));
}

static void ceil_div_never_overflows(void **state)
{
    (void)state;
    assert_int_equal(ceil_div(0, 7), 0);
    assert_int_equal(ceil_div(1, 7), 1);
    assert_int_equal(ceil_div(7, 7), 1);
    assert_int_equal(ceil_div(8, 7), 2);
    assert_true(ceil_div(SIZE_MAX, 1) == SIZE_MAX);
    assert_true(ceil_div(SIZE_MAX, 2) == SIZE_MAX / 2 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mul_reports_overflow),
        cmocka_unit_test(add_reports_overflow),
        cmocka_unit_test(align_up_rounds_and_reports_overflow),
        cmocka_unit_test(ceil_div_never_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
