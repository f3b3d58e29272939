/* If these fail, a client that asks for logprobs gets wrong numbers, wrong alternatives or an order that changes. The
 * reference here is written plainly, in double precision on libm, with a full sort. */
#include "base/hash.h"
#include "base/mem.h"
#include "run/logits.h"
#include "run/logprob.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VOCAB = 49152 };
static float logits[MAX_VOCAB];
static const float *by_logit; /* what the sort looks at */

static int order(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (by_logit[x] != by_logit[y])
        return by_logit[x] > by_logit[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static uint64_t rng = 1;

static double uniform(void)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (double)(rng >> 11) * 0x1p-53;
}

static double ln_mass(uint32_t n_vocab)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        max = logits[i] > max ? (double)logits[i] : max;
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

/* An exponential is off by at most 2^-23 of itself, and by another x * 2^-24 because its argument x was rounded: on
 * average over the mass x is below ln(n_vocab) + 1 = 12. The result is rounded once. */
static void assert_near(float have, double want)
{
    if (isinf(want))
        assert_true(isinf(have) && have < 0);
    else if (!(fabs((double)have - want) <= 12 * 0x1p-24 + 0x1p-23 + fabs(want) * 0x1p-24))
        fail_msg("have %.9g, need %.9g", (double)have, want);
}

static void check(uint32_t n_vocab, int32_t token, uint32_t n)
{
    static uint32_t sorted[MAX_VOCAB];
    struct glim_logprob out[LOGPROB_MAX + 2];
    struct glim_err e;
    memset(out, 0x5A, sizeof out);
    long before = mem_count();
    if (logprob_row(logits, n_vocab, token, n, out, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    assert_int_equal(mem_count(), before);
    double mass = ln_mass(n_vocab);
    assert_int_equal(out[0].token, token);
    assert_near(out[0].logprob, (double)logits[token] - mass);
    for (uint32_t i = 0; i < n_vocab; i++)
        sorted[i] = i;
    by_logit = logits;
    qsort(sorted, n_vocab, sizeof *sorted, order);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(out[1 + i].token, sorted[i]);
        assert_near(out[1 + i].logprob, (double)logits[sorted[i]] - mass);
        if (out[1 + i].token == token)
            assert_memory_equal(&out[1 + i], &out[0], sizeof *out);
    }
    assert_int_equal(out[1 + n].token, 0x5A5A5A5A);
}

static void random_rows(void **state)
{
    (void)state;
    static const uint32_t size[] = {1, 2, 15, 16, 17, 20, 63, 64, 65, 127, 320, 1000, 4099};
    for (size_t k = 0; k < sizeof size / sizeof *size; k++)
        for (uint32_t trial = 0; trial < 60; trial++) {
            double scale = 0.01 * exp(uniform() * 10), step = trial % 3 == 0 ? scale / 5 : 0; /* a third has ties */
            for (uint32_t i = 0; i < size[k]; i++) {
                double l = (uniform() - 0.5) * scale + (trial % 5 == 4 ? 1e4 : 0);
                logits[i] = (float)(step > 0 ? floor(l / step) * step : l);
                if (trial % 4 == 1 && i != trial % size[k] && uniform() < 0.4)
                    logits[i] = -INFINITY;
            }
            uint32_t n = (uint32_t)(uniform() * 21);
            check(size[k], (int32_t)(uniform() * size[k]), n < size[k] ? n : size[k]);
        }
}

static void whole_vocabulary(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MAX_VOCAB; i++)
        logits[i] = (float)(uniform() * 20 + uniform() * 15);
    check(MAX_VOCAB, 40000, 20);
    for (uint32_t i = 0; i < MAX_VOCAB; i++)
        logits[i] = 0; /* the lowest ids win */
    check(MAX_VOCAB, 777, 20);
    for (uint32_t i = 0; i < MAX_VOCAB; i++)
        logits[i] = (float)i * 1e-3f; /* every token is better than all before it */
    check(MAX_VOCAB, 0, 20);
    for (uint32_t i = 0; i < MAX_VOCAB; i++)
        logits[i] = -(float)i;
    check(MAX_VOCAB, MAX_VOCAB - 1, 20);
}

/* A token that is nearly certain: its logprob is small and still right. */
static void nearly_certain(void **state)
{
    (void)state;
    struct glim_logprob out[1];
    struct glim_err e;
    for (uint32_t i = 0; i < 100; i++)
        logits[i] = 0;
    logits[42] = 14;
    assert_int_equal(logprob_row(logits, 100, 42, 0, out, &e), GLIM_OK);
    double want = -log1p(99 * exp(-14));
    assert_true(fabs((double)out[0].logprob - want) < 1e-6 * fabs(want));
    logits[42] = 200;
    assert_int_equal(logprob_row(logits, 100, 42, 0, out, &e), GLIM_OK);
    assert_true(out[0].logprob == 0);
    assert_int_equal(logprob_row(logits, 100, 7, 0, out, &e), GLIM_OK);
    assert_true(out[0].logprob == -200);
}

static void zeros_of_both_signs_are_equal(void **state)
{
    (void)state;
    struct glim_logprob out[4];
    struct glim_err e;
    logits[0] = -1;
    logits[1] = -0.0f;
    logits[2] = 0;
    assert_int_equal(logprob_row(logits, 3, 2, 3, out, &e), GLIM_OK);
    assert_int_equal(out[1].token, 1);
    assert_int_equal(out[2].token, 2);
    assert_int_equal(out[3].token, 0);
}

static void refused(void **state)
{
    (void)state;
    enum { N = 133 };
    struct glim_logprob out[LOGPROB_MAX + 2];
    struct glim_err e;
    for (uint32_t i = 0; i < N; i++)
        logits[i] = (float)i;
    assert_int_equal(logprob_row(logits, N, 0, LOGPROB_MAX + 1, out, &e), GLIM_USAGE);
    assert_non_null(strstr(e.message, "have 21, need 0 to 20"));
    assert_int_equal(logprob_row(logits, 3, 0, 4, out, &e), GLIM_USAGE);
    assert_non_null(strstr(e.message, "have 4, need 0 to 3"));
    assert_int_equal(logprob_row(logits, N, -1, 1, out, &e), GLIM_USAGE);
    assert_int_equal(logprob_row(logits, N, N, 1, out, &e), GLIM_USAGE);
    assert_non_null(strstr(e.message, "have id 133, need 0 to 132"));
    for (uint32_t i = 0; i < N; i++) {
        char want[48];
        snprintf(want, sizeof want, "logprobs: logit of token %u: ", i);
        logits[i] = NAN;
        assert_int_equal(logprob_row(logits, N, 3, 1, out, &e), GLIM_FAILED);
        assert_memory_equal(e.message, want, strlen(want));
        logits[i] = INFINITY;
        assert_int_equal(logprob_row(logits, N, 3, 1, out, &e), GLIM_FAILED);
        assert_memory_equal(e.message, want, strlen(want));
        logits[i] = (float)i;
    }
    for (uint32_t i = 0; i < N; i++)
        logits[i] = -INFINITY;
    assert_int_equal(logprob_row(logits, N, 3, 1, out, &e), GLIM_REFUSED);
    logits[5] = -2; /* one is left: it is certain, and the others follow by their ids */
    assert_int_equal(logprob_row(logits, N, 3, 2, out, &e), GLIM_OK);
    assert_true(out[0].token == 3 && isinf(out[0].logprob) && out[0].logprob < 0);
    assert_true(out[1].token == 5 && out[1].logprob == 0);
    assert_true(out[2].token == 0 && isinf(out[2].logprob));
}

static void largest_anywhere(void **state)
{
    (void)state;
    struct glim_err e;
    float max;
    for (uint32_t i = 0; i < 200; i++)
        logits[i] = -(float)i;
    for (uint32_t i = 0; i < 200; i++) {
        logits[i] = 3 + (float)i;
        assert_int_equal(logits_max(logits, 200, "here", &max, &e), GLIM_OK);
        assert_true(max == 3 + (float)i);
        logits[i] = -(float)i;
    }
}

/* The same bits from gcc and clang, with vectors of any width and with none. */
static void bits_are_pinned(void **state)
{
    (void)state;
    struct glim_err e;
    struct glim_logprob out[LOGPROB_MAX + 1];
    uint64_t seen = 0;
    uint32_t x = 7;
    for (uint32_t row = 0; row < 50; row++) {
        uint32_t n_vocab = 900 + 61 * row;
        for (uint32_t i = 0; i < n_vocab; i++) {
            x = x * 1664525u + 1013904223u;
            logits[i] = (float)(x >> 12) * 0x1p-14f - 50; /* exact */
        }
        assert_int_equal(logprob_row(logits, n_vocab, (int32_t)row, 20, out, &e), GLIM_OK);
        seen = seen * 31 + xxh3(out, sizeof out);
    }
    assert_int_equal(seen, 0xadd6b5d5dfb61d76u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rows),     cmocka_unit_test(whole_vocabulary),
        cmocka_unit_test(nearly_certain),  cmocka_unit_test(zeros_of_both_signs_are_equal),
        cmocka_unit_test(refused),         cmocka_unit_test(largest_anywhere),
        cmocka_unit_test(bits_are_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
