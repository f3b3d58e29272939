/* If this fails: Hugging Face checkpoints load with wrong tensors, sharded ones do not open, or a damaged one is taken
 * for a good one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../file/blob.h"
#include "format/safetensors_private.h"

#include <sys/stat.h>

static struct safetensors *open_ok(const char *path)
{
    struct glim_err e = {0};
    struct safetensors *s = NULL;
    if (safetensors_open(&s, path, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return s;
}

static void open_fails(const char *path, glim_status want, const char *text)
{
    struct glim_err e = {0};
    struct safetensors *s = (struct safetensors *)&e;
    glim_status st = safetensors_open(&s, path, &e);
    if (st != want || !strstr(e.message, text))
        fail_msg("have %d '%s', need %d '…%s…'", st, e.message, want, text);
    assert_null(s);
}

/* ---- files of other tools ---- */

static void test_known_files(void **state)
{
    (void)state;
    struct safetensors *s = open_ok(TEST_DATA "/hf/qwen3"), *file = open_ok(TEST_DATA "/hf/qwen3/model.safetensors");
    size_t n = safetensors_n_tensor(s);
    assert_int_equal(n, safetensors_n_tensor(file));
    const struct tensor *t = safetensors_tensor(s, "model.embed_tokens.weight");
    assert_int_equal(t->n_dim, 2);
    assert_int_equal(t->dim[0], 320);
    assert_string_equal(t->type_name, "BF16");
    assert_ptr_equal(t->fmt, quant_format(QT_BF16));
    assert_int_equal(t->bytes, tensor_elems(t) * 2);
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tensor *a = safetensors_tensor_at(s, i);
        total += a->bytes;
        assert_ptr_equal(safetensors_tensor(s, a->name), a);
        assert_memory_equal(a->data, safetensors_tensor(file, a->name)->data, a->bytes);
    }
    uint64_t header = 0;
    memcpy(&header, t->map->data, 8);
    assert_int_equal(8 + header + total, t->map->size);
    assert_null(safetensors_tensor_at(s, n));
    assert_null(safetensors_tensor(s, "model.embed_tokens"));
    safetensors_close(file);
    safetensors_close(s);
}

/* The case's own description of its expectations; greedy ids are I64, which has no row. */
static void test_expected_files(void **state)
{
    (void)state;
    static const char *const dir[] = {"llama", "qwen2", "qwen3", "gemma3_text"};
    for (size_t i = 0; i < 4; i++) {
        char path[512];
        snprintf(path, sizeof path, TEST_DATA "/hf/%s/expected.safetensors", dir[i]);
        struct safetensors *s = open_ok(path);
        const struct tensor *logits = safetensors_tensor(s, "logits.0"), *greedy = safetensors_tensor(s, "greedy.0");
        assert_int_equal(logits->dim[1], 320);
        assert_ptr_equal(logits->fmt, quant_format(QT_F32));
        assert_int_equal(greedy->dim[0], 24);
        assert_int_equal(greedy->bytes, 24 * 8);
        assert_null(greedy->fmt);
        assert_string_equal(greedy->type_name, "I64");
        safetensors_close(s);
    }
}

/* ---- our own files ---- */

static void test_hand_made(void **state)
{
    (void)state;
    struct blob b = {0};
    struct glim_err e = {0};
    struct safetensors *s = NULL;
    blob_safetensors(&b, BLOB_GOOD_SAFETENSORS, BLOB_GOOD_SAFETENSORS_DATA);
    if (safetensors_open_memory(&s, b.p, b.n, "blob", &e) != GLIM_OK)
        fail_msg("%s", e.message);
    assert_int_equal(safetensors_n_tensor(s), 3);
    const struct tensor *scalar = safetensors_tensor(s, "aé"), *m = safetensors_tensor(s, "b");
    const struct tensor *conv = safetensors_tensor(s, "c");
    static const uint64_t dim[TENSOR_DIMS] = {1, 2, 1, 3, 1, 1};
    assert_int_equal(scalar->n_dim, 0);
    assert_int_equal(scalar->dim[0], 1);
    assert_int_equal(tensor_elems(scalar), 1);
    assert_int_equal(scalar->data[1], 1);
    assert_int_equal(m->data[0], 2);
    assert_int_equal(m->dim[0], 2);
    assert_int_equal(m->dim[1], 3);
    assert_int_equal(conv->n_dim, 5);
    assert_memory_equal(conv->dim, dim, sizeof dim);
    assert_int_equal(conv->data[5], 31);
    assert_null(conv->fmt);
    assert_null(conv->map);
    safetensors_close(s);
    blob_free(&b);
}

static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int bytes_of_8; /* elements */
        int type;
    } row[] = {
        {"BOOL", 8, -1},    {"U8", 8, -1},       {"I8", 8, QT_I8},    {"F8_E4M3", 8, -1},  {"F8_E5M2", 8, -1},
        {"F8_E8M0", 8, -1}, {"U16", 16, -1},     {"I16", 16, -1},     {"F16", 16, QT_F16}, {"BF16", 16, QT_BF16},
        {"U32", 32, -1},    {"I32", 32, QT_I32}, {"F32", 32, QT_F32}, {"U64", 64, -1},     {"I64", 64, -1},
        {"F64", 64, -1},    {"C64", 64, -1},     {"F4", 4, -1},       {"F6_E2M3", 6, -1},  {"F6_E3M2", 6, -1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct blob b = {0};
        struct glim_err e = {0};
        struct safetensors *s = NULL;
        char header[200];
        snprintf(header, sizeof header, "{\"x\":{\"shape\":[8],\"data_offsets\":[0,%d],\"dtype\":\"%s\"}}",
                 row[i].bytes_of_8, row[i].name);
        blob_safetensors(&b, header, (size_t)row[i].bytes_of_8);
        if (safetensors_open_memory(&s, b.p, b.n, "blob", &e) != GLIM_OK)
            fail_msg("%s", e.message);
        const struct tensor *t = safetensors_tensor(s, "x");
        assert_ptr_equal(t->fmt, row[i].type < 0 ? NULL : quant_format((uint32_t)row[i].type));
        assert_string_equal(t->type_name, row[i].name);
        safetensors_close(s);
        blob_free(&b);
    }
}

static void test_empty_header(void **state)
{
    (void)state;
    struct blob b = {0};
    struct safetensors *s = NULL;
    blob_safetensors(&b, "{} \n", 0);
    assert_int_equal(safetensors_open_memory(&s, b.p, b.n, "blob", NULL), GLIM_OK);
    assert_int_equal(safetensors_n_tensor(s), 0);
    assert_null(safetensors_tensor(s, "x"));
    safetensors_close(s);
    blob_free(&b);
}

/* ---- sentences ---- */

#define T(dtype, shape, range) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" range "}"

static void test_sentences(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        const char *message;
    } row[] = {
        {"[]", 0, "header: have no object at its start, need '{'"},
        {"{", 0, "header: have no object at its start, need '{'"},
        {"{ ", 0, "header byte 2: have the end of the text, need more JSON"},
        {"{}{}", 0, "header byte 2: have more text, need the end of the JSON"},
        {"{\"a\"}", 0, "header byte 4: have something else, need ':'"},
        {"{\"a\":1}", 0, "header byte 5: have something else, need '{'"},
        {"{\"a\":{}}", 0, "tensor a: have no dtype, need dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\"}}", 0, "tensor a: have no shape, need dtype, shape and data_offsets"},
        {"{\"a\":{\"shape\":[],\"dtype\":\"F32\"}}", 0,
         "tensor a: have no data_offsets, need dtype, shape and data_offsets"},
        {"{\"\":" T("F32", "[]", "[0,4]") "}", 4, "header byte 4: have a tensor without a name, need one"},
        {"{\"a\":" T("Q4", "[1]", "[0,4]") "}", 4,
         "tensor a: dtype: have Q4, need one such as F32, BF16, I64 or F8_E4M3"},
        {"{\"a\":{\"dtype\":4}}", 4, "header byte 14: have something else, need a string"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 4, "tensor a: have dtype twice, need it once"},
        {"{\"a\":{\"shape\":[1],\"shape\":[1]}}", 4, "tensor a: have shape twice, need it once"},
        {"{\"a\":{\"data_offsets\":[0,4],\"data_offsets\":[0,4]}}", 4,
         "tensor a: have data_offsets twice, need it once"},
        {"{\"a\":{\"stride\":[1]}}", 4, "tensor a: have field stride, need dtype, shape and data_offsets only"},
        {"{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4,
         "header byte 29: have something else, need a whole number of at least 0"},
        {"{\"a\":" T("F32", "[1.5]", "[0,4]") "}", 4,
         "header byte 30: have a fraction or exponent, need a whole number"},
        {"{\"a\":" T("F32", "[01]", "[0,4]") "}", 4, "header byte 31: have a number with leading zeros, need none"},
        {"{\"a\":" T("F32", "[18446744073709551616]", "[0,4]") "}", 4,
         "header byte 48: have a number above 2^64 - 1, need a smaller one"},
        {"{\"a\":" T("F32", "[0]", "[0,0]") "}", 0, "tensor a: dimension 0: have 0, need at least 1"},
        {"{\"a\":" T("F32", "[1,1,1,1,1,1,1]", "[0,4]") "}", 4,
         "tensor a: shape: have more than 6 dimensions, need at most 6"},
        {"{\"a\":" T("F32", "[4294967296,4294967296]", "[0,4]") "}", 4,
         "tensor a: shape: have dimensions whose product passes 64 bits, need a size that a file can have"},
        {"{\"a\":" T("F4", "[3]", "[0,1]") "}", 1, "tensor a: shape: have 12 bits, need whole bytes"},
        {"{\"a\":" T("F32", "[2]", "[0,4]") "}", 4,
         "tensor a: data_offsets: have 0 to 4, need 8 bytes by dtype and shape"},
        {"{\"a\":" T("F32", "[1]", "[4,0]") "}", 4,
         "tensor a: data_offsets: have 4 to 0, need 4 bytes by dtype and shape"},
        {"{\"a\":" T("F32", "[1]", "[0]") "}", 4, "tensor a: data_offsets: have another number of elements, need 2"},
        {"{\"a\":" T("F32", "[1]", "[0,4,8]") "}", 4,
         "tensor a: data_offsets: have another number of elements, need 2"},
        {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 7,
         "have 7 bytes of data, need 8 (where tensor a ends): the file is cut short"},
        {"{\"a\":" T("F32", "[1]", "[18446744073709551611,18446744073709551615]") "}", 4,
         "have 4 bytes of data, need 18446744073709551615 (where tensor a ends): the file is cut short"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 5,
         "have 1 bytes that belong to no tensor behind the last one, need 0"},
        {"{\"a\":" T("F32", "[1]", "[1,5]") "}", 5, "tensor a: have a gap of 1 bytes before its offset 1, need none"},
        {"{\"a\":" T("F32", "[1]", "[2,6]") ",\"b\":" T("F32", "[1]", "[0,4]") "}", 6,
         "tensor a overlaps b: have offset 2, need 4"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[1]", "[4,8]") "}", 8,
         "tensor a: have it twice, need it once"},
        {"{\"__metadata__\":[]}", 0, "__metadata__: have another kind of value, need an object"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "have __metadata__ twice, need it once"},
        {"{\"a\\u0000\":1}", 0, "header byte 9: have a NUL in a string, need text without it"},
        {"{\"\\ud800\":1}", 0, "header byte 8: have half a surrogate pair, need both halves"},
        {"{\"\\ud800\\u0041\":1}", 0, "header byte 14: have half a surrogate pair, need both halves"},
        {"{\"\\u12g4\":1}", 0, "header byte 6: have a \\u escape without four hex digits, need four"},
        {"{\"\\x\":1}", 0, "header byte 4: have an unknown escape in a string, need one of JSON's"},
        {"{\"\n\":1}", 0, "header byte 2: have a control character in a string, need it escaped"},
        {"{\"\xff\":1}", 0, "header byte 2: have invalid UTF-8 in a string, need valid UTF-8"},
        {"{\"abc", 0, "header byte 5: have a string that does not end, need its closing quote"},
        {"{\"__metadata__\":{\"a\":nul}}", 0, "header byte 21: have something else, need a JSON value"},
        {"{\"__metadata__\":{\"a\":-}}", 0, "header byte 22: have a number without digits, need digits"},
        {"{\"__metadata__\":{\"a\":1 2}}", 0, "header byte 23: have something else, need ',' or '}'"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct blob b = {0};
        struct glim_err e = {0};
        struct safetensors *s = NULL;
        char want[600];
        snprintf(want, sizeof want, "damaged safetensors file: f.safetensors: %s", row[i].message);
        blob_safetensors(&b, row[i].header, row[i].n_data);
        glim_status st = safetensors_open_memory(&s, b.p, b.n, "f.safetensors", &e);
        if (st != GLIM_FAILED || strcmp(e.message, want) != 0)
            fail_msg("%s\nhave %d '%s'\nneed %d '%s'", row[i].header, st, e.message, GLIM_FAILED, want);
        assert_null(s);
        assert_int_equal(safetensors_open_memory(&s, b.p, b.n, "f.safetensors", NULL), GLIM_FAILED);
        blob_free(&b);
    }
}

static void length_fails(uint64_t header, size_t n_after, const char *text)
{
    struct blob b = {0};
    struct glim_err e = {0};
    struct safetensors *s = NULL;
    blob_u64(&b, header);
    blob_zeros(&b, n_after);
    assert_int_equal(safetensors_open_memory(&s, b.p, b.n, "f", &e), GLIM_FAILED);
    if (!strstr(e.message, text))
        fail_msg("%s", e.message);
    blob_free(&b);
}

static void test_header_length(void **state)
{
    (void)state;
    length_fails(3, 2, "header: have 2 bytes, need 3: the file is cut short");
    length_fails(UINT64_MAX, 10, "length of its header: have 18446744073709551615 bytes, need at most 104857600");
    length_fails(104857601, 10, "length of its header: have 104857601 bytes, need at most 104857600");
    length_fails(0, 10, "have no object at its start");
    open_fails(TEST_DATA "/hf/llama/config.json", GLIM_FAILED, "length of its header");
    open_fails(TEST_DATA "/gguf/llama.f32.gguf", GLIM_FAILED,
               "length of its header: have a GGUF file, need a safetensors file");
}

/* Deep nesting must not deepen our stack. */
static void test_nesting(void **state)
{
    (void)state;
    for (int deep = 0; deep < 2; deep++) {
        int n = deep ? 100000 : 60;
        struct blob h = {0}, b = {0};
        struct glim_err e = {0};
        struct safetensors *s = NULL;
        blob_add(&h, "{\"__metadata__\":{\"a\":", 21);
        for (int i = 0; i < n; i++)
            blob_u8(&h, '[');
        for (int i = 0; i < n; i++)
            blob_u8(&h, ']');
        blob_add(&h, "}}", 3);
        blob_safetensors(&b, (const char *)h.p, 0);
        glim_status st = safetensors_open_memory(&s, b.p, b.n, "f", &e);
        assert_int_equal(st, deep ? GLIM_FAILED : GLIM_OK);
        if (deep)
            assert_non_null(strstr(e.message, "have values nested deeper than 64, need fewer levels"));
        safetensors_close(s);
        blob_free(&h);
        blob_free(&b);
    }
}

/* ---- folders ---- */

static void save_text(const char *dir, const char *name, const char *text)
{
    struct blob b = {0};
    blob_add(&b, text, strlen(text));
    blob_save(&b, dir, name);
    blob_free(&b);
}

static void save_shard(const char *dir, const char *name, const char *header, size_t n_data)
{
    struct blob b = {0};
    blob_safetensors(&b, header, n_data);
    blob_save(&b, dir, name);
    blob_free(&b);
}

static void save_index(const char *dir, const char *weight_map)
{
    char text[1000];
    snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":1e3,\"x\":[true,false,null,-0.5E+1]},\"weight_map\":%s}",
             weight_map);
    save_text(dir, "model.safetensors.index.json", text);
}

#define SHARD1 "model-00001-of-00002.safetensors"
#define SHARD2 "model-00002-of-00002.safetensors"

static void test_shards(void **state)
{
    (void)state;
    char dir[64];
    blob_tmp_dir(dir);
    save_shard(dir, SHARD1, "{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":" T("F32", "[1]", "[4,8]") "}", 8);
    save_shard(dir, SHARD2, "{\"c\":" T("BF16", "[3]", "[0,6]") "}", 6);
    save_index(dir, "{\"a\":\"" SHARD1 "\",\"c\":\"" SHARD2 "\",\"b\":\"" SHARD1 "\"}");
    struct safetensors *s = open_ok(dir);
    assert_int_equal(safetensors_n_tensor(s), 3);
    assert_int_equal(safetensors_tensor(s, "b")->data[0], 4);
    assert_int_equal(safetensors_tensor(s, "c")->dim[0], 3);
    assert_non_null(strstr(safetensors_tensor(s, "c")->map->path, SHARD2));
    safetensors_close(s);

    save_index(dir, "{\"a\":\"" SHARD1 "\",\"c\":\"" SHARD2 "\"}");
    open_fails(dir, GLIM_FAILED, "index.json: tensor b: have nothing in the index, need " SHARD1);
    save_index(dir, "{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD2 "\",\"c\":\"" SHARD2 "\"}");
    open_fails(dir, GLIM_FAILED, "index.json: tensor b: have " SHARD2 " in the index, need " SHARD1);
    save_index(dir, "{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD1 "\",\"c\":\"" SHARD2 "\",\"d\":\"" SHARD2 "\"}");
    open_fails(dir, GLIM_FAILED, "index.json: tensor d: have it in the index, need it in " SHARD2);
    save_index(dir, "{\"a\":\"" SHARD1 "\",\"a\":\"" SHARD1 "\"}");
    open_fails(dir, GLIM_FAILED, "index.json: a: have it twice, need each tensor once");
    save_index(dir, "{\"a\":\"none.safetensors\"}");
    open_fails(dir, GLIM_FAILED, "none.safetensors");

    static const char *const bad_name[] = {"../x.safetensors", "/etc/x.safetensors", "x.bin", ".safetensors", ""};
    for (size_t i = 0; i < sizeof bad_name / sizeof *bad_name; i++) {
        char map[100];
        snprintf(map, sizeof map, "{\"a\":\"%s\"}", bad_name[i]);
        save_index(dir, map);
        open_fails(dir, GLIM_FAILED, "have another kind of file name, need <name>.safetensors in the same folder");
    }
    static const char *const bad_index[][2] = {
        {"[]", "byte 0: have something else, need '{'"},
        {"{}", "weight_map: have no tensors, need at least 1"},
        {"{\"weight_map\":{}}", "weight_map: have no tensors, need at least 1"},
        {"{\"weight_map\":[]}", "byte 14: have something else, need '{'"},
        {"{\"weight_map\":{\"a\":1}}", "byte 19: have something else, need a string"},
        {"{\"weight_map\":{\"\":\"a.safetensors\"}}", "weight_map: have a tensor without a name, need one"},
        {"{\"weight_map\":{\"a\":\"a.safetensors\"},\"weight_map\":{}}", "weight_map: have it twice, need it once"},
        {"{\"weight_map\":{\"a\":\"a.safetensors\"}} x", "byte 37: have more text, need the end of the JSON"},
        {"{\"metadata\":}", "byte 12: have a number without digits, need digits"},
    };
    for (size_t i = 0; i < sizeof bad_index / sizeof *bad_index; i++) {
        save_text(dir, "model.safetensors.index.json", bad_index[i][0]);
        open_fails(dir, GLIM_FAILED, bad_index[i][1]);
    }
    /* The same tensor in two shards. */
    save_shard(dir, SHARD2, "{\"a\":" T("F32", "[1]", "[0,4]") "}", 4);
    save_index(dir, "{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD1 "\",\"c\":\"" SHARD2 "\"}");
    open_fails(dir, GLIM_FAILED, "tensor a: have it twice, need it once");
    blob_remove_dir(dir);
}

/* A single file wins over an index, as in transformers; a folder with neither says what it lacks. */
static void test_folder(void **state)
{
    (void)state;
    char dir[64];
    blob_tmp_dir(dir);
    open_fails(dir, GLIM_FAILED, "have neither file, need model.safetensors or model.safetensors.index.json");
    save_text(dir, "model.safetensors.index.json", "nonsense");
    save_shard(dir, "model.safetensors", "{\"a\":" T("F32", "[1]", "[0,4]") "}", 4);
    struct safetensors *s = open_ok(dir);
    assert_int_equal(safetensors_n_tensor(s), 1);
    safetensors_close(s);
    open_fails("/nonexistent", GLIM_FAILED, "/nonexistent");
    blob_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_files),   cmocka_unit_test(test_expected_files), cmocka_unit_test(test_hand_made),
        cmocka_unit_test(test_dtypes),        cmocka_unit_test(test_empty_header),   cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_header_length), cmocka_unit_test(test_nesting),        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
