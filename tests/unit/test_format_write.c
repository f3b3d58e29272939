/* If this fails: `glim quantize` writes files that lose keys or weights, that other programs cannot read, or leaves
 * half a file behind when the disk is full. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../file/blob.h"
#include "base/mem.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

static struct gguf *open_ok(const char *path)
{
    struct glim_err e = {0};
    struct gguf *g = NULL;
    if (gguf_open(&g, path, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return g;
}

static void write_ok(struct gguf_writer *w, const char *path)
{
    struct glim_err e = {0};
    if (gguf_write(w, path, &e) != GLIM_OK)
        fail_msg("%s", e.message);
}

static void assert_same(const struct gguf *a, const struct gguf *b)
{
    assert_int_equal(gguf_n_kv(a), gguf_n_kv(b));
    assert_int_equal(gguf_n_tensor(a), gguf_n_tensor(b));
    for (size_t i = 0; i < gguf_n_kv(a); i++) {
        const struct gguf_kv *x = gguf_kv_at(a, i), *y = gguf_kv_at(b, i);
        assert_string_equal(x->key, y->key);
        assert_int_equal(x->type, y->type);
        assert_int_equal(x->elem, y->elem);
        assert_int_equal(x->n, y->n);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    for (size_t i = 0; i < gguf_n_tensor(a); i++) {
        const struct tensor *x = gguf_tensor_at(a, i), *y = gguf_tensor_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_ptr_equal(x->fmt, y->fmt);
        assert_string_equal(x->type_name, y->type_name);
        assert_int_equal(x->n_dim, y->n_dim);
        assert_memory_equal(x->dim, y->dim, sizeof x->dim);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
}

static struct gguf_writer *copy_of(const struct gguf *g)
{
    struct gguf_writer *w = NULL;
    struct glim_err e = {0};
    assert_int_equal(gguf_writer_create(&w, &e), GLIM_OK);
    for (size_t i = 0; i < gguf_n_kv(g); i++)
        if (gguf_put(w, gguf_kv_at(g, i), &e) != GLIM_OK)
            fail_msg("%s", e.message);
    for (size_t i = 0; i < gguf_n_tensor(g); i++)
        if (gguf_put_tensor(w, gguf_tensor_at(g, i), &e) != GLIM_OK)
            fail_msg("%s", e.message);
    return w;
}

/* Files of llama.cpp come back byte for byte: same order, same padding. */
static void test_copy_is_equal(void **state)
{
    (void)state;
    static const char *const name[] = {"llama.f32",      "qwen3.bf16",    "gemma3.f16",
                                       "llama_q.Q4_K_M", "llama_q.MXFP4", "llama_q.Q2_K"};
    char dir[64];
    blob_tmp_dir(dir);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char from[512], to[128];
        snprintf(from, sizeof from, TEST_DATA "/gguf/%s.gguf", name[i]);
        snprintf(to, sizeof to, "%s/out.gguf", dir);
        struct gguf *a = open_ok(from);
        struct gguf_writer *w = copy_of(a);
        write_ok(w, to);
        struct gguf *b = open_ok(to);
        assert_same(a, b);
        const struct file_map *x = gguf_tensor_at(a, 0)->map, *y = gguf_tensor_at(b, 0)->map;
        assert_int_equal(x->size, y->size);
        assert_memory_equal(x->data, y->data, x->size);
        gguf_close(b);
        write_ok(w, to); /* a writer can write again, over its own file */
        b = open_ok(to);
        assert_same(a, b);
        gguf_close(b);
        gguf_writer_free(w);
        gguf_close(a);
    }
    blob_remove_dir(dir);
}

/* Every key type, every array type, four dimensions, a scalar, another alignment, a type without a row. */
static void test_all_types(void **state)
{
    (void)state;
    char dir[64];
    struct glim_err e = {0};
    struct blob b = {0};
    struct gguf *a = NULL, *c = NULL;
    blob_tmp_dir(dir);
    blob_good_gguf(&b, 2);
    assert_int_equal(gguf_open_memory(&a, b.p, b.n, "blob", &e), GLIM_OK);
    struct gguf_writer *w = copy_of(a);
    char path[128];
    snprintf(path, sizeof path, "%s/x.gguf", dir);
    write_ok(w, path);
    c = open_ok(path);
    assert_int_equal(gguf_version(c), 3);
    assert_same(a, c);
    gguf_close(c);

    assert_int_equal(gguf_put_u32(w, "general.alignment", 4096, &e), GLIM_OK);
    assert_int_equal(gguf_put_f32(w, "f", -0.25f, &e), GLIM_OK);
    assert_int_equal(gguf_put_str(w, "s", "", &e), GLIM_OK);
    struct tensor rare = {.name = "rare", .type_name = "IQ1_S", .n_dim = 1, .dim = {256}, .data = b.p, .bytes = 50};
    assert_int_equal(gguf_put_tensor(w, &rare, &e), GLIM_OK);
    write_ok(w, path);
    c = open_ok(path);
    double f = 0;
    assert_int_equal(gguf_float(gguf_find(c, "f"), &f, NULL), GLIM_OK);
    assert_true(f == -0.25);
    assert_int_equal(gguf_find(c, "s")->n, 0);
    for (size_t i = 0; i < gguf_n_tensor(c); i++) {
        const struct tensor *t = gguf_tensor_at(c, i);
        assert_int_equal((t->data - t->map->data) % 4096, 0);
    }
    assert_string_equal(gguf_tensor(c, "rare")->type_name, "IQ1_S");
    assert_memory_equal(gguf_tensor(c, "rare")->data, b.p, 50);
    gguf_close(c);
    gguf_writer_free(w);
    gguf_close(a);
    blob_free(&b);
    blob_remove_dir(dir);
}

/* ---- what it refuses ---- */

static void put_fails(const struct gguf_kv *kv, const char *text)
{
    struct gguf_writer *w = NULL;
    struct glim_err e = {0};
    assert_int_equal(gguf_writer_create(&w, &e), GLIM_OK);
    glim_status st = gguf_put(w, kv, &e);
    if (st != GLIM_USAGE || !strstr(e.message, text))
        fail_msg("have %d '%s', need '…%s…'", st, e.message, text);
    gguf_writer_free(w);
}

static void put_tensor_fails(const struct tensor *t, const char *text)
{
    struct gguf_writer *w = NULL;
    struct glim_err e = {0};
    assert_int_equal(gguf_writer_create(&w, &e), GLIM_OK);
    glim_status st = gguf_put_tensor(w, t, &e);
    if (st != GLIM_USAGE || !strstr(e.message, text))
        fail_msg("have %d '%s', need '…%s…'", st, e.message, text);
    gguf_writer_free(w);
}

static void test_refuses_values(void **state)
{
    (void)state;
    static const uint8_t two[16] = {2};
    static const uint8_t strings[] = {1, 0, 0, 0, 0, 0, 0, 0, 'x', 9};
    put_fails(&(struct gguf_kv){"", GGUF_U8, GGUF_U8, 1, two, 1}, "its name: have 0 bytes, need 1 to 65535");
    put_fails(&(struct gguf_kv){"k", GGUF_TYPE_COUNT, GGUF_U8, 1, two, 1}, "key: k: have an unknown type");
    put_fails(&(struct gguf_kv){"k", GGUF_ARRAY, GGUF_ARRAY, 0, two, 0}, "have an array of arrays");
    put_fails(&(struct gguf_kv){"k", GGUF_ARRAY, GGUF_U16, 3, two, 5}, "byte count that does not match");
    put_fails(&(struct gguf_kv){"k", GGUF_ARRAY, GGUF_U64, 1ULL << 61, two, 0}, "byte count that does not match");
    put_fails(&(struct gguf_kv){"k", GGUF_U32, GGUF_U8, 1, two, 8}, "byte count that does not match");
    put_fails(&(struct gguf_kv){"k", GGUF_STRING, GGUF_U8, 3, two, 2}, "byte count that does not match");
    put_fails(&(struct gguf_kv){"k", GGUF_ARRAY, GGUF_STRING, 1, strings, 10}, "byte count that does not match");
    put_fails(&(struct gguf_kv){"k", GGUF_ARRAY, GGUF_STRING, 2, strings, 10}, "byte count that does not match");
    put_fails(&(struct gguf_kv){"k", GGUF_BOOL, GGUF_U8, 1, two, 1}, "boolean other than 0 and 1");
    put_fails(&(struct gguf_kv){"k", GGUF_ARRAY, GGUF_BOOL, 2, two, 2}, "boolean other than 0 and 1");
    put_fails(&(struct gguf_kv){"general.alignment", GGUF_U32, GGUF_U8, 1, two, 4}, "need a power of two from 8");
    put_fails(&(struct gguf_kv){"general.alignment", GGUF_STRING, GGUF_U8, 1, two, 1}, "need a power of two from 8");
}

static void test_refuses_tensors(void **state)
{
    (void)state;
    static const uint8_t data[64];
    const struct quant_format *f32 = quant_format(QT_F32), *q8 = quant_format(QT_Q8_0);
    struct tensor t = {.name = "t", .fmt = f32, .n_dim = 1, .dim = {4}, .data = data, .bytes = 16};
    struct tensor x = t;
    x.name = "";
    put_tensor_fails(&x, "its name: have 0 bytes");
    x = t;
    x.bytes = 12;
    put_tensor_fails(&x, "tensor: t: have 12 bytes, need 16 by its shape");
    x = t;
    x.dim[0] = 0;
    put_tensor_fails(&x, "have a dimension of 0, need at least 1");
    x = t;
    x.n_dim = 5;
    put_tensor_fails(&x, "have 5 dimensions, need at most 4");
    x = t;
    x.fmt = q8;
    put_tensor_fails(&x, "have rows of 4 elements, need a multiple of 32 (Q8_0 blocks)");
    x = t;
    x.fmt = NULL;
    snprintf(x.type_name, sizeof x.type_name, "F8_E4M3");
    put_tensor_fails(&x, "have type F8_E4M3, need one that GGUF has");
    x = t;
    x.dim[0] = 1ULL << 63;
    put_tensor_fails(&x, "product passes 64 bits");
}

static void test_refuses_duplicates(void **state)
{
    (void)state;
    static const uint8_t data[4];
    struct gguf_writer *w = NULL;
    struct glim_err e = {0};
    struct tensor t = {.name = "t", .fmt = quant_format(QT_F32), .data = data, .bytes = 4};
    assert_int_equal(gguf_writer_create(&w, &e), GLIM_OK);
    assert_int_equal(gguf_put_tensor(w, &t, &e), GLIM_OK);
    assert_int_equal(gguf_put_tensor(w, &t, &e), GLIM_OK);
    assert_int_equal(gguf_write(w, "/nonexistent/x", &e), GLIM_USAGE);
    assert_string_equal(e.message, "cannot write a GGUF file: tensor t: have it twice, need it once");
    assert_int_equal(gguf_put_u32(w, "k", 1, &e), GLIM_OK);
    assert_int_equal(gguf_put_u32(w, "k", 2, &e), GLIM_OK);
    assert_int_equal(gguf_write(w, "/nonexistent/x", &e), GLIM_USAGE);
    assert_string_equal(e.message, "cannot write a GGUF file: key k: have it twice, need it once");
    gguf_writer_free(w);
}

static int entries(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *x; (x = readdir(d));)
        n += x->d_name[0] != '.';
    closedir(d);
    return n;
}

/* When the disk is full the old file stays, and nothing is left beside it. */
static void test_disk_full(void **state)
{
    (void)state;
    char dir[64], path[128];
    struct glim_err e = {0};
    blob_tmp_dir(dir);
    snprintf(path, sizeof path, "%s/x.gguf", dir);
    struct gguf *a = open_ok(TEST_DATA "/gguf/llama_q.Q2_K.gguf");
    struct gguf_writer *w = copy_of(a);
    write_ok(w, path);

    struct rlimit old, small = {100000, 100000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    glim_status st = gguf_write(w, path, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(st, GLIM_FAILED);
    assert_non_null(strstr(e.message, "need room for the whole file"));
    assert_int_equal(entries(dir), 1);
    struct gguf *b = open_ok(path);
    assert_same(a, b);
    gguf_close(b);

    assert_int_equal(gguf_write(w, "/nonexistent/x.gguf", &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "need a writable folder"));
    assert_int_equal(gguf_write(w, dir, &e), GLIM_FAILED); /* a folder stands where the file should be */
    gguf_writer_free(w);
    gguf_close(a);
    blob_remove_dir(dir);
}

/* Every allocation may fail: an error or the right file, never half of one. */
static void test_out_of_memory(void **state)
{
    (void)state;
    char dir[64], path[128];
    struct glim_err e = {0};
    struct blob b = {0};
    struct gguf *a = NULL;
    blob_tmp_dir(dir);
    snprintf(path, sizeof path, "%s/x.gguf", dir);
    blob_good_gguf(&b, 3);
    assert_int_equal(gguf_open_memory(&a, b.p, b.n, "blob", &e), GLIM_OK);
    glim_status st = GLIM_FAILED;
    long n = 0;
    while (st != GLIM_OK) {
        struct gguf_writer *w = NULL;
        mem_fail_after(++n);
        st = gguf_writer_create(&w, &e);
        for (size_t i = 0; i < gguf_n_kv(a) && st == GLIM_OK; i++)
            st = gguf_put(w, gguf_kv_at(a, i), &e);
        for (size_t i = 0; i < gguf_n_tensor(a) && st == GLIM_OK; i++)
            st = gguf_put_tensor(w, gguf_tensor_at(a, i), &e);
        if (st == GLIM_OK)
            st = gguf_write(w, path, &e);
        mem_fail_after(0);
        if (st != GLIM_OK)
            assert_non_null(strstr(e.message, "out of memory"));
        assert_int_equal(entries(dir), st == GLIM_OK ? 1 : 0);
        gguf_writer_free(w);
    }
    assert_true(n > 10);
    struct gguf *c = open_ok(path);
    assert_same(a, c);
    gguf_close(c);
    gguf_close(a);
    blob_free(&b);
    blob_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_is_equal),      cmocka_unit_test(test_all_types),
        cmocka_unit_test(test_refuses_values),     cmocka_unit_test(test_refuses_tensors),
        cmocka_unit_test(test_refuses_duplicates), cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
