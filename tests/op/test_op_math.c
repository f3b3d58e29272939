/* If this fails, the engine's exp, tanh and activations are less exact than they claim (perplexity drifts), or step
 * backwards or to infinity somewhere in their range (a single outlier activation ruins a token).
 *
 * Measured against the C library in double, over dense sweeps of the whole range. */
#include "op/op_math.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Distance of got from want in units of the f32 step at want. */
static double ulps(float got, double want)
{
    float near = (float)want;
    double step = (double)nextafterf(fabsf(near), INFINITY) - (double)fabsf(near);
    return fabs((double)got - want) / step;
}

/* Largest value of worst(x) over [lo, hi] in n even steps. */
static double sweep(double (*worst)(float), float lo, float hi, int n)
{
    double most = 0;
    for (int i = 0; i <= n; i++) {
        double w = worst((float)((double)lo + ((double)hi - (double)lo) * i / n));
        most = w > most || isnan(w) ? w : most;
    }
    return most;
}

/* The same over every 997th float of both signs up to magnitude top. */
static double sweep_floats(double (*worst)(float), float top)
{
    double most = 0;
    for (uint32_t u = 0; u <= bits(top); u += 997) {
        double a = worst(from_bits(u)), b = worst(from_bits(u | 0x80000000));
        most = a > most || isnan(a) ? a : most;
        most = b > most || isnan(b) ? b : most;
    }
    return most;
}

static double exp_ulps(float x)
{
    return ulps(op_exp(x), exp((double)x));
}

static void exp_is_exact_to_two_ulps(void **state)
{
    (void)state;
    assert_true(sweep(exp_ulps, OP_EXP_LO, OP_EXP_HI, 3000000) < 2.0);
    assert_true(sweep(exp_ulps, -1, 1, 1000000) < 2.0);
    assert_int_equal(bits(op_exp(0.0f)), bits(1.0f)); /* softmax: the largest score weighs exactly 1 */
    assert_int_equal(bits(op_exp(-0.0f)), bits(1.0f));
}

static void exp_is_clamped(void **state)
{
    (void)state;
    float lo = op_exp(OP_EXP_LO), hi = op_exp(OP_EXP_HI);
    assert_true(lo >= 0x1p-126f && lo < 1.3e-38f); /* a normal number */
    assert_true(isfinite(hi) && hi > 2.3e38f);
    static const float below[] = {-87.34f, -100, -1e10f, -3.4e38f, -INFINITY},
                       above[] = {88.38f, 100, 1e10f, 3.4e38f, INFINITY};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(bits(op_exp(below[i])), bits(lo));
        assert_int_equal(bits(op_exp(above[i])), bits(hi));
    }
    assert_int_equal(bits(op_exp(NAN)), bits(lo));
    assert_int_equal(bits(op_exp(-NAN)), bits(lo));
}

/* Neighbouring floats never step back by more than the error bound allows, nor across a power of two's seam. */
static void exp_does_not_step_back(void **state)
{
    (void)state;
    for (int k = -125; k < 127; k++) {
        float seam = ((float)k + 0.5f) * 0.69314718f, x = seam;
        for (int i = 0; i < 40; i++)
            x = nextafterf(x, -INFINITY);
        for (int i = 0; i < 80; i++) {
            float next = nextafterf(x, INFINITY);
            assert_true(op_exp(next) >= op_exp(x) * (1 - 3 * 0x1p-24f));
            x = next;
        }
    }
    /* and at a distance that outweighs the error it rises */
    for (float x = OP_EXP_LO; x < OP_EXP_HI; x += 1e-3f)
        assert_true(op_exp(x + 1e-3f) > op_exp(x) || x + 1e-3f > OP_EXP_HI);
}

/* Relative error where the series is used, absolute error where the difference is. */
static double tanh_error(float x)
{
    double want = tanh((double)x), error = fabs((double)op_tanh(x) - want);
    return fabsf(x) >= 0.02f || want == 0 ? error : error / fabs(want);
}

static void tanh_is_near(void **state)
{
    (void)state;
    assert_true(sweep(tanh_error, -12, 12, 3000000) < 1.5e-7);
    assert_true(sweep_floats(tanh_error, 3e38f) < 1.5e-7); /* below 0.02 the bound is on the relative error */
    static const float far[] = {10, 44.2f, 100, 3e38f, INFINITY};
    for (int i = 0; i < 5; i++) { /* it saturates at exactly 1 and keeps its sign */
        assert_int_equal(bits(op_tanh(far[i])), bits(1.0f));
        assert_int_equal(bits(op_tanh(-far[i])), bits(-1.0f));
    }
    assert_true(isnan(op_tanh(NAN))); /* a softcap must not turn a broken logit into a good one */
    assert_int_equal(bits(op_tanh(0.0f)), bits(0.0f));
    assert_int_equal(bits(op_tanh(-0.0f)), bits(-0.0f));
    for (float x = 0; x < 12; x += 1e-3f) {
        assert_true(op_tanh(x) <= 1 && op_tanh(x + 1e-3f) >= op_tanh(x) - 6e-8f);
        assert_int_equal(bits(op_tanh(-x)), bits(-op_tanh(x)));
    }
}

static double silu_error(float x)
{
    double want = (double)x / (1 + exp(-(double)x));
    return fabs((double)op_silu(x) - want) / (1e-30 + fabs(want));
}

static void silu_is_near(void **state)
{
    (void)state;
    assert_true(sweep(silu_error, -80, 100, 3000000) < 2.5e-7); /* relative */
    assert_true(fabsf(op_silu(-1000)) < 1e-34f);                /* the clamp: not exactly 0, but nothing */
    assert_int_equal(bits(op_silu(200)), bits(200.0f));
    assert_int_equal(bits(op_silu(0.0f)), bits(0.0f));
    assert_true(isnan(op_silu(NAN)));
}

static double gelu_tanh_error(float x)
{
    double d = (double)x, want = 0.5 * d * (1 + tanh(sqrt(2 / M_PI) * (d + 0.044715 * d * d * d)));
    return fabs((double)op_gelu_tanh(x) - want) / fmax(1, fabs(d));
}

static double gelu_erf_error(float x)
{
    double d = (double)x, want = 0.5 * d * (1 + erf(d / sqrt(2)));
    return fabs((double)op_gelu_erf(x) - want) / fmax(1, fabs(d));
}

static void gelu_is_near(void **state)
{
    (void)state;
    assert_true(sweep(gelu_tanh_error, -20, 20, 2000000) < 1.5e-7);
    assert_true(sweep_floats(gelu_tanh_error, 1e30f) < 1.5e-7);
    assert_true(sweep(gelu_erf_error, -20, 20, 2000000) < 2.5e-7);
    assert_true(sweep_floats(gelu_erf_error, 1e30f) < 2.5e-7);
    for (float x = 10; x < 3e38f; x *= 1.5f) { /* far out: the identity and nothing */
        assert_int_equal(bits(op_gelu_tanh(x)), bits(x));
        assert_int_equal(bits(op_gelu_erf(x)), bits(x));
        assert_true(op_gelu_tanh(-x) == 0 && op_gelu_erf(-x) == 0);
    }
    assert_true(isnan(op_gelu_tanh(NAN)) && isnan(op_gelu_erf(NAN)));
}

/* The tree, on numbers that show its order: lane 0 and 8 cancel first, and so on. */
static void sum16_adds_in_its_tree(void **state)
{
    (void)state;
    float lane[16];
    for (int first = 0; first < 4; first++) { /* each level brings a pair that only cancels when it meets there */
        int apart = 8 >> first;
        memset(lane, 0, sizeof lane);
        lane[0] = 1e30f;
        lane[apart] = -1e30f;
        lane[15] = 1;
        lane[1] = apart == 1 ? lane[1] : 3;
        float want = apart == 1 ? 0 : 4; /* at the last level the 1 has met 1e30's partner before */
        assert_int_equal(bits(op_sum16(lane)), bits(want));
    }
    for (int i = 0; i < 16; i++)
        lane[i] = (float)(1 << i);
    assert_true(op_sum16(lane) == 65535);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_exact_to_two_ulps),
        cmocka_unit_test(exp_is_clamped),
        cmocka_unit_test(exp_does_not_step_back),
        cmocka_unit_test(tanh_is_near),
        cmocka_unit_test(silu_is_near),
        cmocka_unit_test(gelu_is_near),
        cmocka_unit_test(sum16_adds_in_its_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
