/* If this fails, products with weights go wrong where the shapes of real models are: long rows that are worked through
 * in pieces, launches of hundreds of rows that are cut into items, matrices that arrive in parts, damaged scales; or a
 * model takes more memory than its file. (tests/op/test_cpu_ops_linear.c compares every format with op_ref at small
 * shapes.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arith.h"
#include "cpu/cpu_impl.h"
#include "cpu/linear.h"

#include <math.h>
#include <string.h>

static uint64_t seed;

static uint32_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static float uniform(void) /* in [-1, 1) */
{
    return (float)(next() % 65536) / 32768.0f - 1.0f;
}

static void *take(size_t n)
{
    void *p = mem_aligned(64, n);
    assert_non_null(p);
    return p;
}

/* n blocks of random bits that decode to finite numbers of moderate size. */
static void random_blocks(const struct quant_format *f, uint8_t *p, size_t n)
{
    float v[QUANT_BLOCK_MAX];
    for (size_t i = 0; i < n; i++, p += f->block_bytes)
        for (bool ok = false; !ok;) {
            for (int k = 0; k < f->block_bytes; k++)
                p[k] = (uint8_t)next();
            ok = f->finite(p);
            if (ok)
                f->decode(p, v, 1);
            for (int k = 0; ok && k < f->block_elems; k++)
                ok = fabsf(v[k]) < 1e5f;
        }
}

static size_t row_bytes(const struct quant_format *f, uint32_t n_in)
{
    size_t n;
    assert_int_equal(quant_row_bytes(f, n_in, &n, NULL), GLIM_OK);
    return n;
}

static struct weight weight(const struct quant_format *f, enum act_type act, uint32_t n_out, uint32_t n_in)
{
    struct weight w = {.fmt = f, .n_out = n_out, .n_in = n_in, .act = f->group ? act : ACT_F32};
    struct glim_err e;
    assert_int_equal(cpu_weight_bytes(f, n_out, n_in, &w.bytes, &e), GLIM_OK);
    w.data = take(w.bytes);
    memset(w.data, 0, w.bytes); /* padding between the parts of a panel is never written */
    return w;
}

/* ---- the layout ---- */

/* A matrix may arrive in parts of any multiple of 64 rows, packed by any crew. */
static void parts_make_the_whole(void **state)
{
    (void)state;
    struct crew *one, *two;
    assert_int_equal(crew_create(&one, 1, NULL), GLIM_OK);
    assert_int_equal(crew_create(&two, 2, NULL), GLIM_OK);
    seed = 1;
    for (int i = 0; i < PACK_COUNT; i++) {
        const struct quant_format *f = quant_format(pack_layouts[i].type);
        enum { ROWS = 64 * 3 + 21, IN = 512 };
        size_t bytes = row_bytes(f, IN);
        uint8_t *file = take(bytes * ROWS);
        random_blocks(f, file, bytes * ROWS / f->block_bytes);
        struct weight whole = weight(f, ACT_Q8, ROWS, IN), parts = weight(f, ACT_Q8, ROWS, IN);
        cpu_weight_pack(one, &whole, file, 0, ROWS);
        cpu_weight_pack(two, &parts, file + 128 * bytes, 128, ROWS - 128);
        cpu_weight_pack(one, &parts, file, 0, 64);
        cpu_weight_pack(two, &parts, file + 64 * bytes, 64, 64);
        assert_memory_equal(whole.data, parts.data, whole.bytes);
        mem_free(whole.data);
        mem_free(parts.data);
        mem_free(file);
    }
    crew_free(one);
    crew_free(two);
}

/* Every integer and scale of a block can be found again where pack_low, pack_high and the record say. */
static void layout_holds_the_view(void **state)
{
    (void)state;
    struct crew *crew;
    assert_int_equal(crew_create(&crew, 1, NULL), GLIM_OK);
    seed = 2;
    for (int i = PACK_Q4_0; i < PACK_COUNT; i++) {
        const struct pack_layout *l = &pack_layouts[i];
        const struct quant_format *f = quant_format(l->type);
        assert_int_equal(l->block, f->block_elems);
        assert_int_equal(l->group, f->group);
        assert_int_equal(l->file_bytes, f->block_bytes);
        assert_int_equal(pack_has_min(l), f->has_min);
        struct weight w = weight(f, ACT_Q8, PANEL, l->block);
        uint8_t file[PANEL * 256];
        random_blocks(f, file, PANEL);
        cpu_weight_pack(crew, &w, file, 0, PANEL);
        const uint8_t *record = w.data, *vecs = record + pack_q_offset(l, l->block);
        for (unsigned lane = 0; lane < PANEL; lane++) {
            struct quant_view v;
            f->view(file + lane * f->block_bytes, &v);
            for (unsigned k = 0; k < l->block; k++) {
                struct pack_run r;
                pack_unpack(l, record, vecs, k / RUN, lane, 1, &r);
                unsigned at = k % RUN, half = at / l->group;
                assert_int_equal(r.u[at / 4][lane][at % 4] - l->zero, v.q[k]);
                assert_memory_equal(&r.a[half][lane], &v.a[k / l->group], 4);
                if (f->has_min)
                    assert_memory_equal(&r.b[half][lane], &v.b[k / l->group], 4);
            }
        }
        mem_free(w.data);
    }
    crew_free(crew);
}

static void memory_is_the_files(void **state)
{
    (void)state;
    for (int i = 0; i < PACK_COUNT; i++) {
        const struct quant_format *f = quant_format(pack_layouts[i].type);
        size_t packed;
        assert_int_equal(cpu_weight_bytes(f, 1600, 4096, &packed, NULL), GLIM_OK);
        assert_in_range(packed, 1600 * row_bytes(f, 4096), 1600 * row_bytes(f, 4096) / 100 * 106);
    }
}

static void impossible_shapes_are_refused(void **state)
{
    (void)state;
    struct glim_err e;
    size_t n;
    assert_int_equal(cpu_weight_bytes(quant_format(QT_Q8_0), 0, 32, &n, &e), GLIM_REFUSED);
    assert_int_equal(cpu_weight_bytes(quant_format(QT_F32), 16, 0, &n, &e), GLIM_REFUSED);
    assert_int_equal(cpu_weight_bytes(quant_format(QT_Q4_1), 16, 40, &n, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "multiple of 32"));
    assert_int_equal(cpu_weight_bytes(quant_format(QT_I32), 16, 32, &n, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "I32"));
}

/* ---- activations ---- */

static const enum act_type acts[] = {ACT_Q8, ACT_MIXED, ACT_Q16};

/* A row of runs of every kind: ordinary, zero, tiny, huge, ties between integers, and now and then NaN or Inf. */
static void awkward_row(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = uniform() * powf(10, (float)(next() % 5) - 2);
    for (size_t g = 0; g < n; g += RUN)
        switch (next() % 8) {
        case 0:
            memset(x + g, 0, RUN * sizeof *x);
            break;
        case 1:
            for (int i = 0; i < RUN; i++)
                x[g + (size_t)i] *= 0x1p-99f;
            break;
        case 2:
            for (int i = 0; i < RUN; i++)
                x[g + (size_t)i] *= 0x1p120f;
            break;
        case 3:
            for (int i = 0; i < RUN; i++)
                x[g + (size_t)i] = 0.5f * (float)((int)(next() % 509) - 254);
            x[g] = 127;
            break;
        case 4:
            x[g + next() % RUN] = next() % 2 ? NAN : -INFINITY;
            break;
        default:
            break;
        }
}

static void check_encode(const struct linear_kernels *k, const float *x, size_t n, float cap)
{
    enum { MAX = 40 * RUN, STRIDE = 3 * RUN };
    static int8_t hi[MAX], lo[MAX], got_hi[3 * MAX], got_lo[3 * MAX];
    float d[MAX / RUN], got_d[MAX / RUN + 1];
    int32_t sum[MAX / 16], got_sum[MAX / 16 + 1];
    uint8_t spill[MAX / RUN + 1];
    act_encode(x, n, cap, lo, hi, d, sum);
    memset(got_hi, 99, sizeof got_hi);
    memset(got_lo, 99, sizeof got_lo);
    got_d[n / RUN] = 7;
    got_sum[n / 16] = 7;
    memset(spill, 2, sizeof spill); /* what an earlier row of the tile left */
    struct linear_encoded to = {got_lo, got_hi, STRIDE, got_d, got_sum, spill};
    k->encode(x, n, cap, &to);
    for (size_t g = 0; g < n / RUN; g++) {
        unsigned want = 2;
        for (size_t i = 0; i < RUN; i++)
            want |= (hi[g * RUN + i] != 0) * 1U << i / 4;
        assert_int_equal(spill[g], want);
        assert_memory_equal(hi + g * RUN, got_hi + g * STRIDE, RUN);
        assert_memory_equal(lo + g * RUN, got_lo + g * STRIDE, RUN);
        assert_true(got_hi[g * STRIDE + RUN] == 99 && got_lo[g * STRIDE + RUN] == 99); /* nothing between the runs */
        if (isnan(d[g]))
            assert_true(isnan(got_d[g]));
        else
            assert_memory_equal(&d[g], &got_d[g], 4);
    }
    assert_memory_equal(sum, got_sum, n / 16 * sizeof *sum);
    assert_true(got_d[n / RUN] == 7 && got_sum[n / 16] == 7 && spill[n / RUN] == 2);
}

static void encoding_is_act_encode(void **state)
{
    (void)state;
    seed = 3;
    for (int isa = CPU_GENERIC; isa < CPU_ISA_COUNT; isa++) {
        const struct backend *be = cpu_backend((enum cpu_isa)isa);
        struct op_ctx c;
        struct op_limits limits = {1, 32, 1, 16};
        struct crew *crew;
        float x[40 * RUN];
        if (!be)
            continue;
        assert_int_equal(crew_create(&crew, 1, NULL), GLIM_OK);
        assert_int_equal(be->open(&c, &limits, crew, NULL), GLIM_OK);
        for (int i = 0; i < 400; i++) {
            size_t n = (1 + next() % 40) * RUN;
            awkward_row(x, n);
            check_encode(cpu_of(&c)->k->linear, x, n, act_cap(acts[i % 3]));
        }
        be->close(&c);
        crew_free(crew);
    }
}

/* ---- products ---- */

enum { LONG = 2304, MANY = 530, OUT = 83 };

/* rows [0, n) in one launch. */
static void multiply(struct op_ctx *c, const struct weight *w, struct rows x, uint32_t n, float *y)
{
    x.n = n;
    struct linear_job job = {.y = {y, n, w->n_out, w->n_out}, .w = w};
    c->be->linear(c, &job, 1, x);
}

/* Long rows in large launches: rows of a launch of 530 are what they are alone, and alone they are quant_dot's. */
static void check_long(enum cpu_isa isa, const struct quant_format *f, enum act_type act, int n_thread)
{
    struct op_ctx c;
    struct crew *crew;
    struct op_limits limits = {MANY, LONG, 1, 16};
    assert_int_equal(crew_create(&crew, n_thread, NULL), GLIM_OK);
    assert_int_equal(cpu_backend(isa)->open(&c, &limits, crew, NULL), GLIM_OK);
    size_t bytes = row_bytes(f, LONG);
    uint8_t *file = take(bytes * OUT);
    random_blocks(f, file, bytes * OUT / f->block_bytes);
    struct weight w = weight(f, act, OUT, LONG);
    cpu_weight_pack(crew, &w, file, 0, OUT);
    struct rows x = {take(MANY * (LONG + 5) * sizeof(float)), MANY, LONG, LONG + 5};
    float *y = take(MANY * OUT * sizeof(float)), alone[OUT];
    for (size_t i = 0; i < MANY * x.stride; i++)
        x.p[i] = uniform() * (next() % 100 == 0 ? 20.0f : 1.0f);
    multiply(&c, &w, x, MANY, y);
    for (uint32_t r = 0; r < MANY; r += r % 7 + 40) {
        struct rows one = {x.p + r * x.stride, 1, LONG, x.stride};
        multiply(&c, &w, one, 1, alone);
        assert_memory_equal(alone, y + r * OUT, sizeof alone);
    }
    int8_t hi[LONG], lo[LONG];
    float d[LONG / RUN];
    int32_t sum16[LONG / 16];
    const float *last = x.p + (MANY - 1) * x.stride;
    act_encode(last, LONG, act_cap(act), lo, hi, d, sum16);
    struct act_row a = {lo, hi, d, sum16};
    for (size_t o = 0; o < OUT; o++) {
        float want = quant_dot(f, file + o * bytes, &a, LONG);
        assert_memory_equal(&want, y + (MANY - 1) * OUT + o, 4);
    }
    mem_free(file);
    mem_free(w.data);
    mem_free(x.p);
    mem_free(y);
    c.be->close(&c);
    crew_free(crew);
}

static void long_rows_in_large_launches(void **state)
{
    (void)state;
    static const enum quant_type types[] = {QT_Q4_1, QT_Q6_K, QT_Q2_K, QT_NVFP4, QT_Q8_0};
    seed = 4;
    for (int isa = CPU_AVX2; isa < CPU_ISA_COUNT; isa++)
        for (size_t i = 0; i < sizeof types / sizeof *types && cpu_backend((enum cpu_isa)isa); i++)
            for (int a = 0; a < 3; a++)
                check_long((enum cpu_isa)isa, quant_format(types[i]), acts[a], 1 + a % 2);
    check_long(CPU_GENERIC, quant_format(QT_Q5_K), ACT_MIXED, 2);
}

/* A scale code that stands for NaN, or a NaN in the activations, must show in the output, and in its own place only. */
static void damage_shows_where_it_is(void **state)
{
    (void)state;
    static const struct {
        enum quant_type type;
        size_t at; /* byte of a block */
        uint8_t code;
    } bad[] = {{QT_MXFP4, 0, 0xFF}, {QT_NVFP4, 2, 0x7F}};
    for (int isa = CPU_GENERIC; isa < CPU_ISA_COUNT; isa++)
        for (size_t i = 0; i < 2 && cpu_backend((enum cpu_isa)isa); i++) {
            enum { N = 18, IN = 128, ROWS = 3 };
            const struct quant_format *f = quant_format(bad[i].type);
            struct op_limits limits = {ROWS, IN, 1, 16};
            struct op_ctx c;
            struct crew *crew;
            uint8_t file[N * IN];
            size_t bytes = row_bytes(f, IN);
            assert_int_equal(crew_create(&crew, 1, NULL), GLIM_OK);
            assert_int_equal(cpu_backend((enum cpu_isa)isa)->open(&c, &limits, crew, NULL), GLIM_OK);
            seed = 5;
            random_blocks(f, file, bytes * N / f->block_bytes);
            file[17 * bytes + bad[i].at] = bad[i].code;
            struct weight w = weight(f, ACT_Q8, N, IN);
            cpu_weight_pack(crew, &w, file, 0, N);
            float x[ROWS * IN], y[ROWS * N];
            for (int k = 0; k < ROWS * IN; k++)
                x[k] = uniform();
            x[IN + 77] = NAN;
            multiply(&c, &w, (struct rows){x, ROWS, IN, IN}, ROWS, y);
            for (int r = 0; r < ROWS; r++)
                for (int o = 0; o < N; o++)
                    assert_int_equal(isnan(y[r * N + o]) != 0, r == 1 || o == 17);
            mem_free(w.data);
            c.be->close(&c);
            crew_free(crew);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_make_the_whole),     cmocka_unit_test(layout_holds_the_view),
        cmocka_unit_test(memory_is_the_files),      cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(encoding_is_act_encode),   cmocka_unit_test(long_rows_in_large_launches),
        cmocka_unit_test(damage_shows_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
