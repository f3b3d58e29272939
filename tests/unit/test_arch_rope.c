/* If this fails, long-context models rotate by wrong angles: text stays fluent and becomes wrong with distance.
 *
 * Expected frequencies were computed in Python (float64) from the formulas of the papers: position interpolation,
 * Llama 3.1's smooth band, YaRN with beta 32 and 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "arch/arch.h"

#include <math.h>
#include <string.h>

#include "rope_expected.h"

static void check(const struct rope_config *r, uint32_t n_rot, const double *want, double mscale)
{
    struct glim_err e;
    struct rope_rule rule;
    struct checkpoint ck = {
        .st = (struct safetensors *)&ck}; /* a Hugging Face checkpoint: no factor tensor is looked up */
    struct config c = {.ck = &ck};
    if (rope_rule_make(&c, r, n_rot, false, &rule, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    assert_int_equal(rule.n_freq, n_rot / 2);
    for (uint32_t i = 0; i < n_rot / 2; i++)
        if (fabs(rule.inv_freq[i] - want[i]) > 1e-6 * want[i])
            fail_msg("frequency %u: have %.9g, need %.9g", i, (double)rule.inv_freq[i], want[i]);
    assert_true(fabs(rule.mscale - mscale) < 1e-6);
}

static void test_linear(void **state)
{
    (void)state;
    struct rope_config r = {.type = ROPE_LINEAR, .theta = 1e6f, .factor = 8.0f};
    check(&r, 64, want_linear, 1.0);
}

static void test_llama3(void **state)
{
    (void)state;
    struct rope_config r = {.type = ROPE_LLAMA3,
                            .theta = 5e5f,
                            .factor = 8.0f,
                            .low_freq_factor = 1.0f,
                            .high_freq_factor = 4.0f,
                            .original_ctx = 8192.0f};
    check(&r, 128, want_llama3, 1.0);
}

static void test_yarn(void **state)
{
    (void)state;
    struct rope_config r = {.type = ROPE_YARN,
                            .theta = 1e6f,
                            .factor = 4.0f,
                            .original_ctx = 32768.0f,
                            .beta_fast = 32.0f,
                            .beta_slow = 1.0f,
                            .truncate = true};
    check(&r, 128, want_yarn, 1.138629436111989); /* 0.1 ln 4 + 1 */
    r.truncate = false;
    check(&r, 128, want_yarn_exact, 1.138629436111989);
    r.attn_factor = 1.5f;
    check(&r, 128, want_yarn_exact, 1.5);
}

static void test_limits(void **state)
{
    (void)state;
    struct glim_err e;
    struct rope_rule rule;
    struct checkpoint ck = {.path = "x", .st = (struct safetensors *)&ck};
    struct config c = {.ck = &ck};
    struct rope_config r = {.theta = 1e4f, .factor = 1.0f};
    static const uint32_t bad[] = {0, 7, 2 * ROPE_FREQ_MAX + 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rope_rule_make(&c, &r, bad[i], false, &rule, &e), GLIM_REFUSED);
        assert_non_null(strstr(e.message, "rotated elements"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
