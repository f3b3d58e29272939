/* If this fails, weights of some format are read as other numbers than the ones its author stored: the model answers
 * nonsense, or subtly worse.
 *
 * Expectations: tests/data/quant/quant_blocks.safetensors, raw blocks of every type (the first ones with scale edges:
 * zeros, subnormals, largest) and their values from gguf-py, which ggml's C code gives too, bit for bit. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "quant/quant.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- just enough safetensors: u64 length, JSON header, data ---- */

struct oracle {
    struct file_map map;
    json_t *head;
    const uint8_t *data;
};

static int oracle_open(void **state)
{
    static struct oracle o;
    struct glim_err e;
    if (file_map_open(&o.map, TEST_DATA "/quant/quant_blocks.safetensors", &e) != GLIM_OK)
        return -1;
    uint64_t n;
    memcpy(&n, o.map.data, sizeof n);
    if (json_parse((const char *)o.map.data + 8, n, "oracle", &o.head, &e) != GLIM_OK)
        return -1;
    o.data = o.map.data + 8 + n;
    *state = &o;
    return 0;
}

static int oracle_close(void **state)
{
    struct oracle *o = *state;
    json_decref(o->head);
    file_map_close(&o->map);
    return 0;
}

/* The bytes of "<type>.<part>", NULL when there are none. */
static const uint8_t *oracle_get(const struct oracle *o, const char *type, const char *part, size_t *n)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", type, part);
    json_t *range = json_object_get(json_object_get(o->head, key), "data_offsets");
    if (range == NULL)
        return NULL;
    size_t a = (size_t)json_integer_value(json_array_get(range, 0)),
           b = (size_t)json_integer_value(json_array_get(range, 1));
    *n = b - a;
    return o->data + a;
}

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* ---- tests ---- */

/* Types of the oracle that the table has rows for; F32, I8 and I32 have no blocks to decode. */
static const char *const block_types[] = {"F16",  "BF16", "Q4_0", "Q4_1", "Q5_0",   "Q5_1",   "Q8_0",  "Q2_K",
                                          "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4"};
enum { N_TYPE = sizeof block_types / sizeof *block_types };

static void decode_matches_oracle(void **state)
{
    for (size_t t = 0; t < N_TYPE; t++) {
        const struct quant_format *f = quant_by_name(block_types[t]);
        assert_non_null(f);
        size_t n_raw = 0, n_val = 0;
        const uint8_t *raw = oracle_get(*state, f->name, "raw", &n_raw);
        const uint8_t *want = oracle_get(*state, f->name, "values", &n_val);
        size_t n_block = n_raw / f->block_bytes;
        assert_int_equal(n_raw % f->block_bytes, 0);
        assert_int_equal(n_block * f->block_elems * sizeof(float), n_val);
        float *got = mem_alloc(n_val);
        f->decode(raw, got, n_block);
        if (memcmp(got, want, n_val) != 0)
            fail_msg("%s does not decode to the oracle's bits", f->name);
        mem_free(got);
        for (size_t k = 0; k < n_block; k++)
            assert_true(f->finite(raw + k * f->block_bytes));
    }
}

/* a * q + b is the value: what the dot products and the kernels' layouts are built from. */
static void view_matches_oracle(void **state)
{
    int n_view = 0;
    for (size_t t = 0; t < N_TYPE; t++) {
        const struct quant_format *f = quant_by_name(block_types[t]);
        if (f->view == NULL)
            continue;
        n_view++;
        size_t n_raw = 0, n_val = 0;
        const uint8_t *raw = oracle_get(*state, f->name, "raw", &n_raw);
        const uint8_t *want = oracle_get(*state, f->name, "values", &n_val);
        for (size_t k = 0; k < n_raw / f->block_bytes; k++) {
            struct quant_view v;
            memset(&v, 0xFF, sizeof v); /* what the view leaves unset is NaN */
            f->view(raw + k * f->block_bytes, &v);
            for (size_t i = 0; i < f->block_elems; i++) {
                float value;
                memcpy(&value, want + (k * f->block_elems + i) * sizeof value, sizeof value);
                float a = v.a[i / f->group], b = v.b[i / f->group], q = v.q[i];
                if (f->has_min) {
                    assert_int_equal(bits(fmaf(a, q, b)), bits(value));
                } else {
                    assert_int_equal(bits(b), 0);
                    assert_int_equal(bits(a * q), bits(value));
                }
            }
        }
    }
    assert_int_equal(n_view, 14);
}

static void tables_match_oracle(void **state)
{
    static const struct {
        const char *name;
        float (*f)(uint8_t);
        size_t n;
    } row[] = {{"FP8_E4M3", e4m3_to_f32, 256},
               {"FP8_E5M2", e5m2_to_f32, 256},
               {"E8M0", e8m0_to_f32, 256},
               {"E2M1", e2m1_to_f32, 16}};
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        size_t n = 0;
        const uint8_t *want = oracle_get(*state, row[r].name, "table.values", &n);
        assert_int_equal(n, row[r].n * sizeof(float));
        for (size_t i = 0; i < row[r].n; i++) {
            float w, got = row[r].f((uint8_t)i);
            memcpy(&w, want + i * sizeof w, sizeof w);
            if (isnan(w))
                assert_true(isnan(got));
            else
                assert_int_equal(bits(got), bits(w));
        }
    }
    assert_int_equal(bits(e2m1_to_f32(0xF5)), bits(3.0f)); /* the low four bits count */
}

/* Every way in which a scale can be broken is seen, in the block where it is and only there. */
static void finite_sees_damage(void **state)
{
    static const struct {
        const char *name;
        int off;      /* of the field */
        uint16_t bad; /* f16 Inf / NaN or a one-byte code */
        int bytes;
    } c[] = {{"F16", 0, 0x7C00, 2},    {"F16", 0, 0xFE00, 2},    {"BF16", 0, 0x7F80, 2},   {"BF16", 0, 0xFFC0, 2},
             {"Q4_0", 0, 0x7C00, 2},   {"Q4_1", 0, 0xFC00, 2},   {"Q4_1", 2, 0x7E00, 2},   {"Q5_0", 0, 0x7C01, 2},
             {"Q5_1", 0, 0x7C00, 2},   {"Q5_1", 2, 0x7C00, 2},   {"Q8_0", 0, 0xFFFF, 2},   {"Q2_K", 80, 0x7C00, 2},
             {"Q2_K", 82, 0x7C00, 2},  {"Q3_K", 108, 0x7C00, 2}, {"Q4_K", 0, 0x7C00, 2},   {"Q4_K", 2, 0x7C00, 2},
             {"Q5_K", 0, 0x7C00, 2},   {"Q5_K", 2, 0xFC00, 2},   {"Q6_K", 208, 0x7C00, 2}, {"IQ4_NL", 0, 0x7C00, 2},
             {"IQ4_XS", 0, 0x7E00, 2}, {"MXFP4", 0, 0xFF, 1},    {"NVFP4", 0, 0x7F, 1},    {"NVFP4", 3, 0xFF, 1}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const struct quant_format *f = quant_by_name(c[i].name);
        size_t n = 0;
        const uint8_t *raw = oracle_get(*state, f->name, "raw", &n);
        uint8_t block[256];
        memcpy(block, raw + 20 * f->block_bytes, f->block_bytes);
        assert_true(f->finite(block));
        memcpy(block + c[i].off, &c[i].bad, (size_t)c[i].bytes);
        assert_false(f->finite(block));
        /* and it is true: the values are not finite */
        float value[QUANT_BLOCK_MAX];
        bool all = true;
        f->decode(block, value, 1);
        for (int k = 0; k < f->block_elems; k++)
            all = all && isfinite(value[k]);
        assert_false(all);
    }
    const struct quant_format *f32 = quant_format(QT_F32);
    assert_true(f32->finite(&(float){-3.4e38f}));
    assert_false(f32->finite(&(float){INFINITY}));
    assert_false(f32->finite(&(float){NAN}));
    /* MXFP4 with exponent 254: 1 * 2^127 fits, 6 * 2^127 does not */
    const struct quant_format *mx = quant_format(QT_MXFP4);
    uint8_t block[17] = {254};
    memset(block + 1, 0x2A, 16); /* elements -1 and 1 */
    assert_true(mx->finite(block));
    block[9] = 0x07;
    assert_false(mx->finite(block));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_matches_oracle),
        cmocka_unit_test(view_matches_oracle),
        cmocka_unit_test(tables_match_oracle),
        cmocka_unit_test(finite_sees_damage),
    };
    return cmocka_run_group_tests(tests, oracle_open, oracle_close);
}
