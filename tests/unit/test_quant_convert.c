/* If this fails, numbers change when they are narrowed to f16, bf16 or 8-bit activations: KV caches and dot products
 * drift, a quantised file is worse than it must be, or a NaN is silently turned into a number. */
#include "quant/quant.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

static uint64_t seed = 88172645463325252u;
static uint32_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}
static float uniform(void) /* [-1, 1) */
{
    return (float)(int32_t)next() * 0x1p-31f;
}

/* ---- f16, bf16 ---- */

/* Value of a finite f16 from the format's definition. */
static double f16_value(uint16_t h)
{
    int exp = h >> 10 & 31, man = h & 1023;
    double v = exp == 0 ? ldexp(man, -24) : ldexp(1024 + man, exp - 25);
    return h & 0x8000 ? -v : v;
}

static void f16_widen(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h);
        if ((h & 0x7FFF) > 0x7C00) {
            assert_true(isnan(f));
        } else if ((h & 0x7FFF) == 0x7C00) {
            assert_true(isinf(f));
        } else {
            assert_true((double)f == f16_value((uint16_t)h));
        }
        assert_int_equal(signbit(f) != 0, h >> 15);
    }
}

static void f16_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t back = f32_to_f16(f16_to_f32((uint16_t)h));
        uint16_t want = (uint16_t)((h & 0x7FFF) > 0x7C00 ? h | 0x200 : h); /* NaNs come back quiet */
        assert_int_equal(back, want);
    }
}

/* Between any two neighbours: below the middle down, above it up, the middle to the even one. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7C00; h++) {
        double lo = f16_value((uint16_t)h), hi = h == 0x7BFF ? 65536.0 : f16_value((uint16_t)(h + 1));
        float mid = (float)((lo + hi) / 2); /* exact: one more bit than f16 has */
        uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
        assert_int_equal(f32_to_f16(mid), even);
        assert_int_equal(f32_to_f16(nextafterf(mid, 0)), h);
        assert_int_equal(f32_to_f16(nextafterf(mid, INFINITY)), h + 1);
        assert_int_equal(f32_to_f16(-mid), even | 0x8000);
    }
    assert_int_equal(f32_to_f16(3e38f), 0x7C00);
    assert_int_equal(f32_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(f32_to_f16(from_bits(1)), 0);
    assert_int_equal(f32_to_f16(from_bits(0x7F800001)) & 0x7C00, 0x7C00);
    assert_true((f32_to_f16(from_bits(0x7F800001)) & 0x3FF) != 0); /* a NaN whose leading payload bits are 0 */
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7F80; h++) {
        assert_int_equal(bits(bf16_to_f32((uint16_t)h)), h << 16);
        assert_int_equal(f32_to_bf16(from_bits(h << 16)), h);
        assert_int_equal(f32_to_bf16(from_bits(h << 16 | 0x7FFF)), h);
        assert_int_equal(f32_to_bf16(from_bits(h << 16 | 0x8000)), h + (h & 1));
        assert_int_equal(f32_to_bf16(from_bits(h << 16 | 0x8001)), h + 1);
        assert_int_equal(f32_to_bf16(from_bits(h << 16 | 0x80008001)), (h + 1) | 0x8000);
    }
    assert_int_equal(f32_to_bf16(INFINITY), 0x7F80);
    assert_true(isnan(bf16_to_f32(f32_to_bf16(from_bits(0x7F800001)))));
    assert_true(isnan(bf16_to_f32(f32_to_bf16(from_bits(0xFFFFFFFF)))));
}

/* ---- activations ---- */

enum { ACT_N = 77 }; /* two whole runs and one of 13 */

struct encoded {
    int8_t lo[96], hi[96];
    float d[3];
    int32_t sum16[6];
};

static const float caps[] = {ACT_CAP_8, ACT_CAP_MIXED, ACT_CAP_16};

static void encode(struct encoded *c, const float *x, size_t n, float cap)
{
    memset(c, 0x55, sizeof *c);
    act_encode(x, n, cap, c->lo, c->hi, c->d, c->sum16);
}

static int value(const struct encoded *c, int i)
{
    return 256 * c->hi[i] + c->lo[i];
}

static void act_follows_its_definition(void **state)
{
    (void)state;
    for (size_t mode = 0; mode < 3; mode++)
        for (int round = 0; round < 200; round++) {
            float x[ACT_N], peak[3] = {0};
            for (int i = 0; i < ACT_N; i++) {
                x[i] = uniform() * (round % 2 ? 1.0f : 3e-3f) * (next() % 20 == 0 ? 30.0f : 1.0f);
                peak[i / 32] = fmaxf(peak[i / 32], fabsf(x[i]));
            }
            float top = caps[mode] == 0 ? 0 : caps[mode] / 3.0f * ((peak[0] + peak[2]) + peak[1]);
            struct encoded c;
            encode(&c, x, ACT_N, caps[mode]);
            for (int r = 0; r < 3; r++) {
                int first = 32 * r, last = first + 32 < ACT_N ? first + 32 : ACT_N;
                float limit = fmaxf(fminf(top, peak[r]), peak[r] / 256);
                assert_int_equal(bits(c.d[r]), bits(limit / 127));
                int32_t sum[2] = {0, 0};
                for (int i = first; i < last; i++) {
                    int v = value(&c, i);
                    assert_int_equal(v, (int)nearbyintf(x[i] * (127 / limit)));
                    assert_true(abs(v) <= 32512);
                    assert_true((c.hi[i] == 0) == (v >= -128 && v <= 127));
                    assert_true(fabsf(c.d[r] * (float)v - x[i]) <= 0.51f * c.d[r]);
                    sum[(i - first) / 16] += v;
                }
                assert_int_equal(c.sum16[2 * r], sum[0]);
                assert_int_equal(c.sum16[2 * r + 1], sum[1]);
            }
            assert_int_equal(c.lo[ACT_N], 0x55); /* nothing is written past the row */
            assert_int_equal(c.hi[ACT_N], 0x55);
        }
}

/* What the modes are for: in a row with one outlier its neighbours keep fine steps in mixed form, without a second byte
 * for any other element; 8 bits make them coarse. */
static void outliers_spill(void **state)
{
    (void)state;
    float x[96];
    struct encoded c;
    for (int i = 0; i < 96; i++)
        x[i] = i % 2 ? 1.0f : -1.0f;
    x[37] = 100;
    encode(&c, x, 96, ACT_CAP_8);
    assert_int_equal(value(&c, 36), -1);
    encode(&c, x, 96, ACT_CAP_MIXED); /* a third of the peaks' sum 102, times 1.5 */
    assert_int_equal(value(&c, 36), (int)nearbyintf(-127.0f / 51));
    for (int i = 0; i < 96; i++)
        assert_true((c.hi[i] != 0) == (i == 37));
    x[37] = 1e6f; /* beyond 16 bits at that step: 1/256 of the peak is the least limit */
    encode(&c, x, 96, 1e-3f);
    assert_int_equal(value(&c, 37), 32512);
    encode(&c, x, 96, ACT_CAP_16);
    assert_int_equal(value(&c, 0), -32512);
}

static void act_has_an_answer_for_every_input(void **state)
{
    (void)state;
    for (size_t mode = 0; mode < 3; mode++) {
        struct encoded c;
        float x[96];
        for (int i = 0; i < 96; i++)
            x[i] = uniform();
        memset(x, 0, 32 * sizeof *x); /* run 0: nothing */
        x[40] = NAN;                  /* run 1: broken */
        encode(&c, x, 96, caps[mode]);
        assert_int_equal(bits(c.d[0]), 0);
        assert_true(isnan(c.d[1]));
        for (int i = 0; i < 64; i++)
            assert_int_equal(value(&c, i), 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(c.sum16[i], 0);
        assert_true(c.d[2] > 0); /* run 2 does not care */
        x[40] = -INFINITY;
        encode(&c, x, 96, caps[mode]);
        assert_true(isnan(c.d[1]) && value(&c, 41) == 0);

        /* too small to scale: counts as zero; the smallest that is not */
        for (int i = 0; i < 32; i++)
            x[i] = nextafterf(ACT_PEAK_MIN, 0);
        encode(&c, x, 96, caps[mode]);
        assert_true(c.d[0] == 0 && value(&c, 3) == 0 && c.sum16[0] == 0);
        x[5] = -ACT_PEAK_MIN;
        encode(&c, x, 96, caps[mode]);
        int full = caps[mode] == ACT_CAP_16 ? 32512 : 127;
        assert_true(c.d[0] > 0 && value(&c, 5) == -full && value(&c, 4) == full);

        /* both ends of the range */
        for (int i = 0; i < 32; i++)
            x[i] = i % 2 ? 3.4e38f : -3.4e38f;
        encode(&c, x, 96, caps[mode]);
        for (int i = 0; i < 32; i++)
            assert_true(value(&c, i) == (i % 2 ? -1 : 1) * value(&c, 0) &&
                        fabsf(c.d[0] * (float)value(&c, i)) > 3.3e38f);
    }
}

/* Ties go to even: 127 / 127 = 1, so x is its own level. */
static void act_ties_to_even(void **state)
{
    (void)state;
    float x[32] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f};
    int8_t want[7] = {127, 0, 2, 2, 0, -2, -2};
    struct encoded c;
    encode(&c, x, 32, ACT_CAP_8);
    assert_memory_equal(c.lo, want, sizeof want);
}

/* ---- encoders of weights ---- */

static void encode_is_near(void **state)
{
    (void)state;
    static const struct {
        enum quant_type t;
        float steps; /* the range of a block is cut into this many */
    } row[] = {{QT_Q4_0, 15}, {QT_Q4_1, 15}, {QT_Q5_0, 31}, {QT_Q5_1, 31}, {QT_Q8_0, 254}};
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        const struct quant_format *f = quant_format(row[r].t);
        for (int round = 0; round < 300; round++) {
            float x[64], y[64], lo = 0, hi = 0;
            uint8_t block[2 * 34];
            for (int i = 0; i < 64; i++) {
                x[i] = uniform() * 2;
                lo = fminf(lo, x[i]);
                hi = fmaxf(hi, x[i]);
            }
            f->encode(x, block, 2);
            f->decode(block, y, 2);
            /* Without a minimum the far end may lose a whole step (the levels are not symmetric); f16 scales cost
             * 2^-11. */
            float range = f->has_min ? hi - lo : 2 * fmaxf(hi, -lo);
            float step = range / row[r].steps, most = (f->has_min || row[r].t == QT_Q8_0 ? 0.51f : 1.07f) * step;
            for (int i = 0; i < 64; i++)
                if (!(fabsf(x[i] - y[i]) <= most + 2 * 0x1p-11f))
                    fail_msg("%s: %g became %g, a step is %g", f->name, (double)x[i], (double)y[i], (double)step);
        }
    }
}

/* What is on the grid stays: encoding is idempotent. */
static void encode_keeps_the_grid(void **state)
{
    (void)state;
    static const enum quant_type t[] = {QT_Q4_0, QT_Q4_1, QT_Q5_0, QT_Q5_1, QT_Q8_0};
    for (size_t r = 0; r < sizeof t / sizeof *t; r++) {
        const struct quant_format *f = quant_format(t[r]);
        struct quant_view v;
        uint8_t block[34];
        float x[32], y[32];
        int lo = t[r] == QT_Q4_0 ? -8 : t[r] == QT_Q5_0 ? -16 : t[r] == QT_Q8_0 ? -127 : 0;
        int hi = t[r] == QT_Q4_0 ? 7 : t[r] == QT_Q5_0 ? 15 : t[r] == QT_Q8_0 ? 127 : t[r] == QT_Q4_1 ? 15 : 31;
        for (int i = 0; i < 32; i++)
            x[i] = 0.25f * (float)(i == 0 ? lo : i == 1 ? hi : lo + (int)(next() % (uint32_t)(hi - lo + 1)));
        f->encode(x, block, 1);
        f->decode(block, y, 1);
        assert_memory_equal(x, y, sizeof x);
        f->view(block, &v);
        assert_int_equal(bits(v.a[0]), bits(0.25f));
    }
}

static void encode_takes_anything(void **state)
{
    (void)state;
    static const enum quant_type t[] = {QT_F32, QT_F16, QT_BF16, QT_Q4_0, QT_Q4_1, QT_Q5_0, QT_Q5_1, QT_Q8_0};
    for (size_t r = 0; r < sizeof t / sizeof *t; r++) {
        const struct quant_format *f = quant_format(t[r]);
        uint8_t block[128];
        float x[32] = {0}, y[32];
        size_t n = 32u / f->block_elems;
        f->encode(x, block, n);
        f->decode(block, y, n);
        for (int i = 0; i < 32; i++)
            assert_true(y[i] == 0);
        x[3] = NAN, x[4] = 3e38f, x[5] = -3e38f; /* must not trap; the damage shows in the block or the clamp */
        f->encode(x, block, n);
        x[4] = INFINITY;
        f->encode(x, block, n);
        assert_false(f->finite(f->block_elems == 1 ? block + 3 * f->block_bytes : block));
    }
}

/* ---- dot ---- */

/* quant_dot against the formula in double, on integers small enough that everything is exact; then its order, on ones
 * that are not. */
static void dot_follows_its_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < quant_n(); i++) {
        const struct quant_format *f = quant_at(i);
        if (f->view == NULL)
            continue;
        enum { N = 512 };
        static uint8_t row[N * 4];
        size_t bytes;
        assert_int_equal(quant_row_bytes(f, N, &bytes, NULL), GLIM_OK);
        for (size_t mode = 0; mode < 3; mode++) {
            for (size_t k = 0; k < bytes; k++)
                row[k] = (uint8_t)next();
            for (uint8_t *b = row; b < row + bytes; b += f->block_bytes) /* make every scale finite and moderate */
                for (int k = 0; k < f->block_bytes && !f->finite(b); k++)
                    b[k] &= 0x3B;
            float x[N], d[N / 32], w[N];
            int8_t lo[N], hi[N];
            int32_t sum16[N / 16];
            for (int k = 0; k < N; k++)
                x[k] = uniform() * (k % 50 == 0 ? 20.0f : 1.0f);
            act_encode(x, N, caps[mode], lo, hi, d, sum16);
            struct act_row a = {.lo = lo, .hi = hi, .d = d, .sum16 = sum16};
            float got = quant_dot(f, row, &a, N);
            f->decode(row, w, N / f->block_elems);
            double want = 0, size = 0;
            for (int k = 0; k < N; k++) {
                double v = (double)d[k / 32] * (256 * hi[k] + lo[k]);
                want += v * (double)w[k];
                size += fabs(v * (double)w[k]);
            }
            if (!(fabs((double)got - want) <= size * 1e-5))
                fail_msg("%s: dot is %.9g, want %.9g", f->name, (double)got, want);
            /* the order: the same sum restated over whole views */
            float acc = 0;
            struct quant_view v;
            for (int k = 0; k < N; k += f->group) {
                int in_block = k % f->block_elems, isum = 0, xsum = 0;
                f->view(row + (size_t)(k / f->block_elems) * f->block_bytes, &v);
                for (int j = 0; j < f->group; j++) {
                    int y = 256 * hi[k + j] + lo[k + j];
                    isum += v.q[in_block + j] * y;
                    xsum += y;
                }
                acc = fmaf(v.a[in_block / f->group] * d[k / 32], (float)isum, acc);
                if (f->has_min)
                    acc = fmaf(v.b[in_block / f->group], d[k / 32] * (float)xsum, acc);
            }
            assert_int_equal(bits(acc), bits(got));
        }
    }
}

/* ---- the table ---- */

static void table_is_consistent(void **state)
{
    (void)state;
    assert_int_equal(quant_n(), 19);
    assert_null(quant_at(quant_n()));
    for (size_t i = 0; i < quant_n(); i++) {
        const struct quant_format *f = quant_at(i);
        assert_ptr_equal(quant_format((uint32_t)f->type), f);
        assert_ptr_equal(quant_by_name(f->name), f);
        assert_true(f->type < QT_COUNT && (i == 0 || quant_at(i - 1)->type < f->type));
        assert_non_null(f->decode);
        assert_non_null(f->finite);
        assert_int_equal(f->view != NULL, f->group != 0);
        assert_true(f->block_elems <= QUANT_BLOCK_MAX);
        if (f->group != 0) {
            assert_true(f->group == 16 || f->group == 32);
            assert_int_equal(f->block_elems % 32, 0);
            assert_true(f->block_elems / f->group <= QUANT_GROUP_MAX);
        } else {
            assert_int_equal(f->block_elems, 1);
            assert_false(f->has_min);
        }
    }
    assert_ptr_equal(quant_by_name("q4_k"), quant_format(QT_Q4_K));
    assert_null(quant_by_name("Q4"));
    assert_null(quant_by_name(""));
    assert_null(quant_format(4)); /* a number GGUF gave up */
    assert_null(quant_format(41));
    assert_null(quant_format(0xFFFFFFFF));
}

static void row_bytes_are_checked(void **state)
{
    (void)state;
    struct glim_err e;
    size_t n = 0;
    const struct quant_format *k = quant_format(QT_Q4_K), *f32 = quant_format(QT_F32);
    assert_int_equal(quant_row_bytes(k, 2048, &n, &e), GLIM_OK);
    assert_int_equal(n, 8 * 144);
    assert_int_equal(quant_row_bytes(k, 0, &n, &e), GLIM_OK);
    assert_int_equal(n, 0);
    assert_int_equal(quant_row_bytes(k, 2049, &n, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "Q4_K"));
    assert_non_null(strstr(e.message, "have 2049 elements, need a multiple of 256"));
    assert_int_equal(quant_row_bytes(f32, (uint64_t)1 << 62, &n, &e), GLIM_FAILED);
    assert_int_equal(quant_row_bytes(f32, ((uint64_t)1 << 62) - 1, &n, &e), GLIM_OK);
}

static void i8_i32_decode(void **state)
{
    (void)state;
    float y[2];
    quant_format(QT_I8)->decode((int8_t[]){-128, 127}, y, 2);
    assert_true(y[0] == -128 && y[1] == 127);
    quant_format(QT_I32)->decode((int32_t[]){-5, 1 << 24}, y, 2);
    assert_true(y[0] == -5 && y[1] == 16777216);
    assert_false(quant_format(QT_I8)->is_weight || quant_format(QT_I32)->is_weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_widen),
        cmocka_unit_test(f16_round_trip),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(act_follows_its_definition),
        cmocka_unit_test(outliers_spill),
        cmocka_unit_test(act_has_an_answer_for_every_input),
        cmocka_unit_test(act_ties_to_even),
        cmocka_unit_test(encode_is_near),
        cmocka_unit_test(encode_keeps_the_grid),
        cmocka_unit_test(encode_takes_anything),
        cmocka_unit_test(dot_follows_its_order),
        cmocka_unit_test(table_is_consistent),
        cmocka_unit_test(row_bytes_are_checked),
        cmocka_unit_test(i8_i32_decode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
