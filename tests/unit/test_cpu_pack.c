/* If this fails, the last outputs of a matrix whose height is no multiple of 16 are wrong, or weights of odd widths are
 * laid out wrong. (test_cpu_linear.c compares whole panels with the formats' own view of a block.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/cpu_impl.h"
#include "cpu/linear.h"

#include <string.h>

static struct crew *one;

static int begin(void **state)
{
    (void)state;
    return crew_create(&one, 1, NULL) == GLIM_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    crew_free(one);
    return 0;
}

static void fill(uint8_t *p, size_t n, uint32_t x)
{
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (uint8_t)(x >> 24);
    }
}

/* Rows of the file into a layout whose padding is zeros. */
static struct weight pack(const struct quant_format *f, const uint8_t *file, uint32_t n_out, uint32_t n_in)
{
    struct weight w = {.fmt = f, .n_out = n_out, .n_in = n_in};
    assert_int_equal(cpu_weight_bytes(f, n_out, n_in, &w.bytes, NULL), GLIM_OK);
    w.data = mem_aligned(64, w.bytes);
    assert_non_null(w.data);
    memset(w.data, 0, w.bytes);
    cpu_weight_pack(one, &w, file, 0, n_out);
    return w;
}

/* Lane `lane` of n pieces of 16 lanes, `size` bytes a lane. */
static void same_lane(const uint8_t *a, const uint8_t *b, size_t n, unsigned size, unsigned lane, bool zero)
{
    static const uint8_t zeros[4];
    for (size_t i = 0; i < n; i++, a += 16 * size, b += 16 * size)
        assert_memory_equal(a + lane * size, zero ? zeros : b + lane * size, size);
}

/* Bytes a lane of the 16-lane pieces a record is made of: the two-byte ones first. */
static unsigned wide_parts(enum pack_scale s)
{
    switch (s) {
    case SCALE_NONE:
    case SCALE_E4M3:
        return 0;
    case SCALE_F16:
    case SCALE_BF16:
    case SCALE_I8:
        return 1;
    case SCALE_F16_MIN:
    case SCALE_K2:
    case SCALE_K4:
        return 2;
    }
    return 0;
}

/* A panel of fewer outputs has the lanes of a full one, then zeros. */
static void a_short_panel_is_a_full_one_with_zeros(void **state)
{
    (void)state;
    enum { IN = 512 };
    for (int i = 0; i < PACK_COUNT; i++) {
        const struct pack_layout *l = &pack_layouts[i];
        const struct quant_format *f = quant_format(l->type);
        static uint8_t file[PANEL * IN * 4];
        fill(file, sizeof file, (uint32_t)i);
        struct weight full = pack(f, file, PANEL, IN);
        for (uint32_t n_out = 1; n_out < PANEL; n_out++) {
            struct weight part = pack(f, file, n_out, IN);
            const uint8_t *a = part.data, *b = full.data;
            size_t q = pack_q_offset(l, IN), wide = wide_parts(l->scale);
            assert_int_equal(part.bytes, full.bytes);
            for (unsigned lane = 0; lane < PANEL; lane++) {
                bool zero = lane >= n_out;
                for (size_t r = 0; r < (size_t)(IN / l->block) * l->scale_bytes; r += l->scale_bytes) {
                    same_lane(a + r, b + r, wide, 2, lane, zero);
                    same_lane(a + r + 32 * wide, b + r + 32 * wide, (l->scale_bytes - 32 * wide) / 16, 1, lane, zero);
                }
                unsigned size = l->shape == SHAPE_PLAIN ? l->file_bytes : 4;
                same_lane(a + q, b + q, (size_t)(IN / l->block) * l->q_bytes / (16 * size), size, lane, zero);
            }
            mem_free(part.data);
        }
        mem_free(full.data);
    }
}

/* Plain numbers of any width, from rows that begin at any address. */
static void plain_numbers_are_transposed(void **state)
{
    (void)state;
    const enum quant_type type[] = {QT_F32, QT_F16, QT_BF16};
    enum { OUT = PANEL + 3, IN = 41 };
    static uint8_t file[1 + OUT * IN * 4];
    fill(file, sizeof file, 7);
    for (unsigned t = 0; t < 3; t++)
        for (uint32_t n_in = 1; n_in <= IN; n_in++) {
            size_t size = type[t] == QT_F32 ? 4 : 2;
            struct weight w = pack(quant_format(type[t]), file + 1, OUT, n_in);
            size_t panel = pack_panel_bytes(pack_layout(w.fmt), n_in);
            for (uint32_t row = 0; row < OUT; row++)
                for (uint32_t k = 0; k < n_in; k++)
                    assert_memory_equal((uint8_t *)w.data + row / PANEL * panel + (k * PANEL + row % PANEL) * size,
                                        file + 1 + (row * n_in + k) * size, size);
            mem_free(w.data);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_panel_is_a_full_one_with_zeros),
        cmocka_unit_test(plain_numbers_are_transposed),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
