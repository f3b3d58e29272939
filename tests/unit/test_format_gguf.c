/* If this fails: models in GGUF files load with the wrong keys, tensors or shapes, split models do not open, or a
 * person with a damaged download is told the wrong thing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../file/blob.h"
#include "base/json.h"
#include "base/mem.h"
#include "format/safetensors.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

#define GGUF(name) TEST_DATA "/gguf/" name

static struct gguf *open_ok(const char *path)
{
    struct glim_err e = {0};
    struct gguf *g = NULL;
    if (gguf_open(&g, path, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return g;
}

static void open_fails(const char *path, glim_status want, const char *text)
{
    struct glim_err e = {0};
    struct gguf *g = (struct gguf *)&e;
    glim_status st = gguf_open(&g, path, &e);
    if (st != want || !strstr(e.message, text))
        fail_msg("have %d '%s', need %d '…%s…'", st, e.message, want, text);
    assert_null(g);
}

/* ---- files of other tools ---- */

static int64_t int_of(const struct gguf *g, const char *key)
{
    int64_t v = -1;
    const struct gguf_kv *kv = gguf_find(g, key);
    assert_non_null(kv);
    assert_int_equal(gguf_int(kv, INT64_MIN, INT64_MAX, &v, NULL), GLIM_OK);
    return v;
}

/* Keys and tensors as gguf-py's reader prints them. */
static void test_known_file(void **state)
{
    (void)state;
    struct gguf *g = open_ok(GGUF("llama.f32.gguf"));
    assert_int_equal(gguf_version(g), 3);
    assert_int_equal(gguf_n_kv(g), 29);
    assert_int_equal(gguf_n_tensor(g), 30);
    assert_int_equal(int_of(g, "llama.block_count"), 3);
    assert_int_equal(int_of(g, "llama.vocab_size"), 320);
    double eps = 0;
    assert_int_equal(gguf_float(gguf_find(g, "llama.attention.layer_norm_rms_epsilon"), &eps, NULL), GLIM_OK);
    assert_true(eps == (double)1e-5f);
    bool bos = true;
    assert_int_equal(gguf_bool(gguf_find(g, "tokenizer.ggml.add_bos_token"), &bos, NULL), GLIM_OK);
    assert_false(bos);
    const char *s = NULL;
    size_t n = 0;
    assert_int_equal(gguf_string(gguf_find(g, "tokenizer.ggml.pre"), &s, &n, NULL), GLIM_OK);
    assert_int_equal(n, 5);
    assert_memory_equal(s, "gpt-2", 5);

    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    size_t cursor = 0, count = 0;
    static const char *const first[] = {"<pad>", "<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"};
    while (gguf_next_string(tokens, &cursor, &s, &n)) {
        if (count < 6)
            assert_true(n == strlen(first[count]) && memcmp(s, first[count], n) == 0);
        count++;
    }
    assert_int_equal(count, 320);
    int64_t type = 0;
    assert_int_equal(gguf_int_at(gguf_find(g, "tokenizer.ggml.token_type"), 7, 0, 10, &type, NULL), GLIM_OK);
    assert_int_equal(type, 1);

    const struct tensor *t = gguf_tensor(g, "blk.0.ffn_down.weight");
    assert_int_equal(t->n_dim, 2);
    assert_int_equal(t->dim[0], 96); /* outermost first */
    assert_int_equal(t->dim[1], 192);
    assert_int_equal(t->dim[2], 1);
    assert_int_equal(t->bytes, 73728);
    assert_int_equal(t->data - t->map->data, 131584);
    assert_string_equal(t->type_name, "F32");
    assert_ptr_equal(t->fmt, quant_format(QT_F32));
    assert_int_equal(tensor_elems(t), 96 * 192);
    assert_null(gguf_tensor(g, "blk.0.ffn_down"));
    assert_null(gguf_find(g, "llama"));
    assert_null(gguf_tensor_at(g, 30));
    assert_null(gguf_kv_at(g, 29));
    gguf_close(g);
}

/* Each quantised file: the types that the quantiser counted, and the size that it wrote. */
static void test_quantised_files(void **state)
{
    (void)state;
    json_t *quant = NULL;
    struct glim_err e = {0};
    if (json_parse_file(GGUF("quant.json"), 1 << 20, &quant, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    int n_file = 0;
    const char *name;
    json_t *row;
    json_object_foreach(quant, name, row)
    {
        char path[512];
        snprintf(path, sizeof path, GGUF("%s.gguf"), name);
        if (access(path, R_OK) != 0)
            continue;
        n_file++;
        struct gguf *g = open_ok(path);
        const char *type;
        json_t *want;
        size_t total = 0;
        json_object_foreach(json_object_get(row, "types"), type, want)
        {
            int have = 0;
            for (size_t i = 0; i < gguf_n_tensor(g); i++)
                have += strcmp(gguf_tensor_at(g, i)->type_name, type) == 0;
            assert_int_equal(have, json_integer_value(want));
            total += (size_t)have;
        }
        assert_int_equal(total, gguf_n_tensor(g));
        const struct tensor *last = gguf_tensor_at(g, total - 1);
        assert_int_equal(last->map->size, json_integer_value(json_object_get(row, "bytes")));
        size_t end = (size_t)(last->data - last->map->data) + last->bytes;
        assert_true(last->map->size - end < 32); /* nothing but padding behind the last tensor */
        gguf_close(g);
    }
    assert_int_equal(n_file, 14);
    json_decref(quant);
}

/* The converter only widens BF16 to F32, so both readers must see the same numbers at the same places. */
static void test_same_weights_as_safetensors(void **state)
{
    (void)state;
    static const char *const pair[][2] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"},
        {"blk.2.ffn_gate.weight", "model.layers.2.mlp.gate_proj.weight"},
        {"blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight"},
        {"output_norm.weight", "model.norm.weight"},
    };
    struct gguf *g = open_ok(GGUF("llama.f32.gguf"));
    struct safetensors *s = NULL;
    assert_int_equal(safetensors_open(&s, TEST_DATA "/hf/llama", NULL), GLIM_OK);
    for (size_t k = 0; k < sizeof pair / sizeof *pair; k++) {
        const struct tensor *a = gguf_tensor(g, pair[k][0]), *b = safetensors_tensor(s, pair[k][1]);
        assert_non_null(a);
        assert_non_null(b);
        assert_int_equal(a->n_dim, b->n_dim);
        assert_memory_equal(a->dim, b->dim, sizeof a->dim);
        for (uint64_t i = 0; i < tensor_elems(a); i++) {
            uint16_t h;
            float f, want;
            memcpy(&h, b->data + 2 * i, sizeof h);
            memcpy(&f, a->data + 4 * i, sizeof f);
            want = bf16_to_f32(h);
            assert_memory_equal(&f, &want, sizeof f);
        }
    }
    safetensors_close(s);
    gguf_close(g);
}

/* ---- our own files ---- */

static struct gguf *open_blob_ok(const struct blob *b)
{
    struct glim_err e = {0};
    struct gguf *g = NULL;
    if (gguf_open_memory(&g, b->p, b->n, "blob", &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return g;
}

/* Versions 2 and 3 have the same layout. */
static void test_hand_made(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct blob b = {0};
        blob_good_gguf(&b, version);
        struct gguf *g = open_blob_ok(&b);
        assert_int_equal(gguf_version(g), version);
        assert_int_equal(gguf_n_kv(g), 25);
        for (uint32_t t = 0; t < GGUF_TYPE_COUNT; t++) {
            char key[32];
            snprintf(key, sizeof key, "many.%u", t);
            const struct gguf_kv *kv = gguf_find(g, key);
            if (t == GGUF_ARRAY) {
                assert_null(kv);
                continue;
            }
            assert_int_equal(kv->type, GGUF_ARRAY);
            assert_int_equal(kv->elem, t);
            assert_int_equal(kv->n, 3);
        }
        const struct tensor *conv = gguf_tensor(g, "blk.0.conv"), *scale = gguf_tensor(g, "scale");
        static const uint64_t dim[TENSOR_DIMS] = {2, 3, 1, 2, 1, 1};
        assert_memory_equal(conv->dim, dim, sizeof dim);
        assert_int_equal(conv->data[0], 160);
        assert_int_equal(conv->bytes, 24);
        assert_int_equal(scale->n_dim, 0);
        assert_int_equal(tensor_elems(scale), 1);
        assert_int_equal(scale->data[3], 195);
        gguf_close(g);
        blob_free(&b);
    }
}

/* A type without a row: there, sized, and marked as not to be used. */
static void test_type_without_row(void **state)
{
    (void)state;
    struct blob b = {0};
    blob_header(&b, 3, 1, 0);
    blob_tensor(&b, "x", 2, (uint64_t[]){512, 3}, 16, 0); /* IQ2_XXS: 66 bytes for 256 */
    blob_pad(&b, 32);
    blob_zeros(&b, 66 * 6);
    struct gguf *g = open_blob_ok(&b);
    const struct tensor *t = gguf_tensor(g, "x");
    assert_null(t->fmt);
    assert_string_equal(t->type_name, "IQ2_XXS");
    assert_int_equal(t->bytes, 66 * 6);
    gguf_close(g);
    blob_free(&b);
}

static void test_alignment(void **state)
{
    (void)state;
    static const uint64_t good[] = {8, 16, 64, 1 << 20};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct blob b = {0};
        blob_header(&b, 3, 2, 1);
        blob_key(&b, "general.alignment", GGUF_U64);
        blob_u64(&b, good[i]);
        blob_tensor(&b, "b", 1, (uint64_t[]){1}, QT_F32, good[i]); /* in another order than in the file */
        blob_tensor(&b, "a", 1, (uint64_t[]){1}, QT_F32, 0);
        blob_pad(&b, good[i]);
        size_t start = b.n;
        blob_zeros(&b, good[i]);
        blob_u32(&b, 7);
        struct gguf *g = open_blob_ok(&b);
        assert_ptr_equal(gguf_tensor(g, "a")->data, b.p + start);
        assert_int_equal(gguf_tensor(g, "b")->data[0], 7);
        gguf_close(g);
        blob_free(&b);
    }
}

/* A vocabulary-only file ends with its keys, padded or not. */
static void test_no_tensors(void **state)
{
    (void)state;
    struct blob b = {0};
    blob_header(&b, 3, 0, 1);
    blob_key_u32(&b, "x", 1);
    struct gguf *g = open_blob_ok(&b);
    assert_int_equal(gguf_n_tensor(g), 0);
    assert_null(gguf_tensor(g, "x"));
    gguf_close(g);
    blob_free(&b);
}

/* ---- typed reads ---- */

static void read_fails(glim_status st, const struct glim_err *e, const char *text)
{
    if (st != GLIM_FAILED || !strstr(e->message, text))
        fail_msg("have %d '%s', need '…%s…'", st, e->message, text);
}

static void test_integers(void **state)
{
    (void)state;
    struct glim_err e = {0};
    int64_t v = 0;
    static const struct {
        enum gguf_type type;
        uint64_t bits;
        int64_t want;
    } row[] = {
        {GGUF_U8, 0xff, 255},
        {GGUF_I8, 0xff, -1},
        {GGUF_U16, 0xffff, 65535},
        {GGUF_I16, 0x8000, -32768},
        {GGUF_U32, 0xffffffff, 4294967295},
        {GGUF_I32, 0x80000000, -2147483648LL},
        {GGUF_U64, INT64_MAX, INT64_MAX},
        {GGUF_I64, (uint64_t)1 << 63, INT64_MIN},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct gguf_kv kv = {"k", row[i].type, GGUF_U8, 1, (const uint8_t *)&row[i].bits, 0};
        assert_int_equal(gguf_int(&kv, INT64_MIN, INT64_MAX, &v, &e), GLIM_OK);
        assert_true(v == row[i].want);
        assert_int_equal(gguf_int(&kv, row[i].want, row[i].want, &v, &e), GLIM_OK);
        if (row[i].want > INT64_MIN)
            read_fails(gguf_int(&kv, INT64_MIN, row[i].want - 1, &v, &e), &e, "bad GGUF key: k: have ");
        if (row[i].want < INT64_MAX)
            read_fails(gguf_int(&kv, row[i].want + 1, INT64_MAX, &v, &e), &e, "bad GGUF key: k: have ");
    }
    uint64_t big = UINT64_MAX;
    struct gguf_kv kv = {"k", GGUF_U64, GGUF_U8, 1, (const uint8_t *)&big, 8};
    read_fails(gguf_int(&kv, INT64_MIN, INT64_MAX, &v, &e), &e,
               "have 18446744073709551615, need -9223372036854775808 to");
    kv.type = GGUF_BOOL;
    read_fails(gguf_int(&kv, 0, 1, &v, &e), &e, "have type boolean, need an integer");
    kv.type = GGUF_F32;
    read_fails(gguf_int(&kv, 0, 1, &v, &e), &e, "have type f32, need an integer");
}

static void test_floats(void **state)
{
    (void)state;
    struct glim_err e = {0};
    double v = 0;
    float f = 0.1f;
    struct gguf_kv kv = {"k", GGUF_F32, GGUF_U8, 1, (const uint8_t *)&f, 4};
    assert_int_equal(gguf_float(&kv, &v, &e), GLIM_OK);
    assert_true(v == (double)0.1f);
    f = INFINITY;
    read_fails(gguf_float(&kv, &v, &e), &e, "have infinity, need a finite number");
    double d = (double)NAN;
    kv = (struct gguf_kv){"k", GGUF_F64, GGUF_U8, 1, (const uint8_t *)&d, 8};
    read_fails(gguf_float(&kv, &v, &e), &e, "have NaN, need a finite number");
    d = 1e300;
    assert_int_equal(gguf_float(&kv, &v, &e), GLIM_OK);
    assert_true(v == 1e300);
    kv.type = GGUF_U64;
    read_fails(gguf_float(&kv, &v, &e), &e, "have type u64, need a float");
}

static void test_arrays(void **state)
{
    (void)state;
    struct glim_err e = {0};
    struct blob b = {0};
    blob_good_gguf(&b, 3);
    struct gguf *g = open_blob_ok(&b);
    int64_t v = 0;
    double d = 0;
    bool flag = false;
    const char *s = NULL;
    size_t n = 0, cursor = 0;
    const struct gguf_kv *u16 = gguf_find(g, "many.2"), *f64 = gguf_find(g, "many.12"), *str = gguf_find(g, "many.8");
    assert_int_equal(gguf_int_at(u16, 2, 0, 1, &v, &e), GLIM_OK);
    assert_int_equal(v, 1);
    read_fails(gguf_int_at(u16, 3, 0, 1, &v, &e), &e, "many.2: have 3 elements, need at least 4");
    read_fails(gguf_int_at(u16, UINT64_MAX, 0, 1, &v, &e), &e, "have 3 elements, need at least 18446744073709551615");
    read_fails(gguf_int_at(u16, 0, 2, 3, &v, &e), &e, "have 1, need 2 to 3");
    read_fails(gguf_int_at(f64, 0, 0, 1, &v, &e), &e, "have an array of f64, need an integer");
    read_fails(gguf_int_at(str, 0, 0, 1, &v, &e), &e, "have an array of string, need an array of integers");
    read_fails(gguf_int_at(gguf_find(g, "one.2"), 0, 0, 1, &v, &e), &e, "have type u16, need an array of integers");
    read_fails(gguf_int(u16, 0, 1, &v, &e), &e, "have an array of u16, need an integer");
    assert_int_equal(gguf_float_at(f64, 1, &d, &e), GLIM_OK);
    assert_true(d == 1.5);
    read_fails(gguf_float_at(u16, 1, &d, &e), &e, "many.2: have an array of u16, need a float");
    read_fails(gguf_bool(gguf_find(g, "many.7"), &flag, &e), &e, "need a boolean");
    read_fails(gguf_string(str, &s, &n, &e), &e, "have an array of string, need a string");
    int count = 0;
    for (; gguf_next_string(str, &cursor, &s, &n); count++)
        assert_true(n == 4 && memcmp(s, "text", 4) == 0);
    assert_int_equal(count, 3);
    cursor = 0;
    assert_false(gguf_next_string(u16, &cursor, &s, &n));
    gguf_close(g);
    blob_free(&b);
}

/* ---- sentences ---- */

static void make_magic(struct blob *b)
{
    blob_add(b, "GGML\3\0\0\0", 8);
    blob_zeros(b, 32);
}
static void make_pointer(struct blob *b)
{
    static const char text[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    blob_add(b, text, sizeof text - 1);
}
static void make_other_format(struct blob *b)
{
    blob_safetensors(b, "{}", 0);
    blob_zeros(b, 20);
}
static void make_version_1(struct blob *b)
{
    blob_header(b, 1, 0, 0);
}
static void make_version_4(struct blob *b)
{
    blob_header(b, 4, 0, 0);
}
static void make_big_endian(struct blob *b)
{
    blob_header(b, 0x03000000, 0, 0);
}
static void make_many_keys(struct blob *b)
{
    blob_header(b, 3, 0, 3);
    blob_key_u32(b, "a", 1);
    blob_zeros(b, 20);
}
static void make_many_tensors(struct blob *b)
{
    blob_header(b, 3, (uint64_t)1 << 40, 0);
    blob_zeros(b, 60);
}
static void make_empty_key(struct blob *b)
{
    blob_header(b, 3, 0, 1);
    blob_key_u32(b, "", 1);
    blob_zeros(b, 8);
}
static void make_long_key(struct blob *b)
{
    blob_header(b, 3, 0, 1);
    blob_u64(b, 65536);
    blob_zeros(b, 65600);
}
static void make_nul_key(struct blob *b)
{
    blob_header(b, 3, 0, 1);
    blob_u64(b, 3);
    blob_add(b, "a\0b", 3);
    blob_u32(b, GGUF_U32);
    blob_u32(b, 1);
}
static void make_key_type(struct blob *b)
{
    blob_header(b, 3, 0, 1);
    blob_key(b, "x.\x1b[2J", 13);
    blob_u64(b, 1);
}
static void make_nested(struct blob *b)
{
    blob_header(b, 3, 0, 1);
    blob_key(b, "deep", GGUF_ARRAY);
    blob_u32(b, GGUF_ARRAY);
    blob_u64(b, 1);
    blob_u32(b, GGUF_U8);
    blob_u64(b, 0);
}
static void make_huge_array(struct blob *b)
{
    blob_header(b, 3, 0, 1);
    blob_key(b, "list", GGUF_ARRAY);
    blob_u32(b, GGUF_STRING);
    blob_u64(b, (uint64_t)1 << 61);
    blob_zeros(b, 80);
}
static void make_array_strings(struct blob *b)
{
    blob_header(b, 3, 0, 1);
    blob_key(b, "list", GGUF_ARRAY);
    blob_u32(b, GGUF_STRING);
    blob_u64(b, 2);
    blob_str(b, "ok");
    blob_u64(b, UINT64_MAX - 3);
}
static void make_bool(struct blob *b)
{
    blob_header(b, 3, 0, 1);
    blob_key(b, "flag", GGUF_BOOL);
    blob_u8(b, 2);
    blob_zeros(b, 8);
}
static void make_duplicate_key(struct blob *b)
{
    blob_header(b, 3, 0, 3);
    blob_key_u32(b, "b", 1);
    blob_key_u32(b, "a", 1);
    blob_key_u32(b, "b", 2);
}
static void make_alignment(struct blob *b, uint32_t type, uint64_t v)
{
    blob_header(b, 3, 0, 1);
    blob_key(b, "general.alignment", type);
    blob_u64(b, v);
    blob_u64(b, 0);
}
static void make_alignment_0(struct blob *b)
{
    make_alignment(b, GGUF_U32, 0);
}
static void make_alignment_48(struct blob *b)
{
    make_alignment(b, GGUF_U32, 48);
}
static void make_alignment_string(struct blob *b)
{
    make_alignment(b, GGUF_STRING, 2);
}
static void make_tensor(struct blob *b, uint32_t n_dim, const uint64_t *dim, uint32_t type, uint64_t offset)
{
    blob_header(b, 3, 1, 0);
    blob_tensor(b, "w", n_dim, dim, type, offset);
    blob_pad(b, 32);
    blob_zeros(b, 128);
}
static void make_dims_5(struct blob *b)
{
    make_tensor(b, 5, (uint64_t[]){1, 1, 1, 1, 1}, QT_F32, 0);
}
static void make_dim_0(struct blob *b)
{
    make_tensor(b, 2, (uint64_t[]){0, 3}, QT_F32, 0);
}
static void make_dim_overflow(struct blob *b)
{
    make_tensor(b, 2, (uint64_t[]){(1ULL << 42) + 1, 1ULL << 42}, QT_F32, 0);
}
static void make_bytes_overflow(struct blob *b)
{
    make_tensor(b, 1, (uint64_t[]){1ULL << 63}, QT_F32, 0);
}
static void make_block(struct blob *b)
{
    make_tensor(b, 2, (uint64_t[]){100, 2}, QT_Q4_K, 0);
}
static void make_type(struct blob *b)
{
    make_tensor(b, 1, (uint64_t[]){4}, 31, 0);
}
static void make_offset(struct blob *b)
{
    make_tensor(b, 1, (uint64_t[]){4}, QT_F32, 4);
}
static void make_offset_wrap(struct blob *b)
{
    make_tensor(b, 1, (uint64_t[]){32}, QT_F32, UINT64_MAX - 31);
}
static void make_one_past(struct blob *b)
{
    make_tensor(b, 1, (uint64_t[]){33}, QT_F32, 0); /* 132 of 128 bytes */
}
static void make_overlap(struct blob *b)
{
    blob_header(b, 3, 3, 0);
    blob_tensor(b, "w1", 1, (uint64_t[]){9}, QT_F32, 64);
    blob_tensor(b, "w2", 1, (uint64_t[]){9}, QT_F32, 32);
    blob_tensor(b, "w3", 1, (uint64_t[]){1}, QT_F32, 0);
    blob_pad(b, 32);
    blob_zeros(b, 128);
}
static void make_duplicate_tensor(struct blob *b)
{
    blob_header(b, 3, 2, 0);
    blob_tensor(b, "w", 1, (uint64_t[]){1}, QT_F32, 0);
    blob_tensor(b, "w", 1, (uint64_t[]){1}, QT_F32, 32);
    blob_pad(b, 32);
    blob_zeros(b, 64);
}
static void make_split(struct blob *b)
{
    blob_header(b, 3, 0, 2);
    blob_key_u32(b, "split.no", 0);
    blob_key_u32(b, "split.count", 2);
}
static void make_split_type(struct blob *b)
{
    blob_header(b, 3, 0, 1);
    blob_key(b, "split.count", GGUF_STRING);
    blob_str(b, "2");
}

static void test_sentences(void **state)
{
    (void)state;
    static const struct {
        void (*make)(struct blob *);
        glim_status want;
        const char *message;
    } row[] = {
        {make_magic, GLIM_FAILED,
         "damaged GGUF file: f.gguf: header: its magic: have bytes 47 47 4d 4c, need 47 47 55 46 (GGUF)"},
        {make_pointer, GLIM_FAILED,
         "damaged GGUF file: f.gguf: header: its magic: have a Git LFS pointer, not the file itself, need GGUF"},
        {make_other_format, GLIM_FAILED,
         "damaged GGUF file: f.gguf: header: its magic: have a safetensors file, need GGUF"},
        {make_version_1, GLIM_REFUSED, "unsupported GGUF file: f.gguf: header: its version: have 1, need 2 or 3"},
        {make_version_4, GLIM_REFUSED, "unsupported GGUF file: f.gguf: header: its version: have 4, need 2 or 3"},
        {make_big_endian, GLIM_REFUSED,
         "unsupported GGUF file: f.gguf: header: its byte order: have a big-endian file (version 3), need a "
         "little-endian one"},
        {make_many_keys, GLIM_FAILED,
         "damaged GGUF file: f.gguf: header: its number of keys: have 3, need at most 2 (limit 65536, and 37 bytes "
         "left)"},
        {make_many_tensors, GLIM_FAILED,
         "damaged GGUF file: f.gguf: header: its number of tensors: have 1099511627776, need at most 2 (limit 1048576, "
         "and "
         "60 bytes left)"},
        {make_empty_key, GLIM_FAILED,
         "damaged GGUF file: f.gguf: key 1 of 1: length of its name: have 0 bytes, need 1 to 65535"},
        {make_long_key, GLIM_FAILED,
         "damaged GGUF file: f.gguf: key 1 of 1: length of its name: have 65536 bytes, need 1 to 65535"},
        {make_nul_key, GLIM_FAILED,
         "damaged GGUF file: f.gguf: key 1 of 1: its name: have a NUL byte inside, need plain text"},
        {make_key_type, GLIM_FAILED, "damaged GGUF file: f.gguf: key x.\\x1b[2J: its type: have 13, need 0 to 12"},
        {make_nested, GLIM_REFUSED,
         "unsupported GGUF file: f.gguf: key deep: have an array of arrays, need an array of numbers, booleans or "
         "strings"},
        {make_huge_array, GLIM_FAILED,
         "damaged GGUF file: f.gguf: key list: its string elements: have 80 bytes left, need 2305843009213693952 times "
         "at "
         "least 8"},
        {make_array_strings, GLIM_FAILED,
         "damaged GGUF file: f.gguf: key list: its 2 strings: have lengths that pass the file's end, need them to fit "
         "18 "
         "bytes"},
        {make_bool, GLIM_FAILED, "damaged GGUF file: f.gguf: key flag: boolean: have 2, need 0 or 1"},
        {make_duplicate_key, GLIM_FAILED, "damaged GGUF file: f.gguf: keys: have b twice, need each key once"},
        {make_alignment_0, GLIM_FAILED,
         "damaged GGUF file: f.gguf: key general.alignment: have 0, need a power of two from 8 to 1048576"},
        {make_alignment_48, GLIM_FAILED,
         "damaged GGUF file: f.gguf: key general.alignment: have 48, need a power of two from 8 to 1048576"},
        {make_alignment_string, GLIM_FAILED,
         "damaged GGUF file: f.gguf: key general.alignment: have no whole number of bytes (string), need a power of "
         "two from "
         "8 to 1048576"},
        {make_dims_5, GLIM_FAILED,
         "damaged GGUF file: f.gguf: tensor w: its number of dimensions: have 5, need at most 4"},
        {make_dim_0, GLIM_FAILED, "damaged GGUF file: f.gguf: tensor w: dimension 1: have 0, need at least 1"},
        {make_dim_overflow, GLIM_FAILED,
         "damaged GGUF file: f.gguf: tensor w: its shape: have dimensions whose product passes 64 bits, need a size "
         "that a "
         "file can have"},
        {make_bytes_overflow, GLIM_FAILED,
         "damaged GGUF file: f.gguf: tensor w: its shape: have dimensions whose product passes 64 bits, need a size "
         "that a "
         "file can have"},
        {make_block, GLIM_FAILED,
         "damaged GGUF file: f.gguf: tensor w: its shape: have rows of 100 elements, need a multiple of 256 (Q4_K "
         "blocks)"},
        {make_type, GLIM_REFUSED,
         "unsupported GGUF file: f.gguf: tensor w: its type: have number 31, need one whose block size is known: a "
         "newer "
         "glim may read this file"},
        {make_offset, GLIM_FAILED, "damaged GGUF file: f.gguf: tensor w: its offset: have 4, need a multiple of 32"},
        {make_offset_wrap, GLIM_FAILED,
         "damaged GGUF file: f.gguf: tensor w: its range: have offset 18446744073709551584 and 128 bytes, need an end "
         "below "
         "2^64"},
        {make_one_past, GLIM_FAILED,
         "damaged GGUF file: f.gguf: size: have 192 bytes, need 196 (where w ends): the file is cut short"},
        {make_overlap, GLIM_FAILED,
         "damaged GGUF file: f.gguf: tensors: w1 overlaps w2: have offset 64, need at least 68"},
        {make_duplicate_tensor, GLIM_FAILED, "damaged GGUF file: f.gguf: tensors: have w twice, need each name once"},
        {make_split, GLIM_REFUSED, "cannot open a split set from memory: f.gguf: have 2 files, need 1"},
        {make_split_type, GLIM_FAILED,
         "damaged GGUF file: f.gguf: bad GGUF key: split.count: have type string, need an integer"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct blob b = {0};
        struct glim_err e = {0};
        struct gguf *g = NULL;
        row[i].make(&b);
        glim_status st = gguf_open_memory(&g, b.p, b.n, "f.gguf", &e);
        if (st != row[i].want || strcmp(e.message, row[i].message) != 0)
            fail_msg("have %d '%s'\nneed %d '%s'", st, e.message, row[i].want, row[i].message);
        assert_null(g);
        assert_int_equal(gguf_open_memory(&g, b.p, b.n, "f.gguf", NULL), row[i].want); /* err may be NULL */
        blob_free(&b);
    }
}

static void test_not_a_file(void **state)
{
    (void)state;
    open_fails("/nonexistent/x.gguf", GLIM_FAILED, "/nonexistent/x.gguf");
    open_fails(TEST_DATA "/gguf", GLIM_FAILED, "folder");
    open_fails(TEST_DATA "/hf/llama/config.json", GLIM_FAILED, "need 47 47 55 46 (GGUF)");
}

/* ---- split sets ---- */

/* One part with the tensors "t<first>" …, written by the writer; count < 0 leaves split.count out. */
static void write_part(const char *path, uint32_t no, int count, int total, int first, int n)
{
    static float value[16];
    char name[16][16];
    struct gguf_writer *w = NULL;
    struct glim_err e = {0};
    assert_int_equal(gguf_writer_create(&w, &e), GLIM_OK);
    if (no == 0)
        gguf_put_str(w, "general.architecture", "llama", &e);
    gguf_put_u32(w, "split.no", no, &e);
    if (count >= 0)
        gguf_put_u32(w, "split.count", (uint32_t)count, &e);
    if (total >= 0)
        gguf_put_u32(w, "split.tensors.count", (uint32_t)total, &e);
    for (int i = 0; i < n; i++) {
        snprintf(name[i], sizeof name[i], "t%d", first + i);
        value[first + i] = (float)(first + i);
        struct tensor t = {.name = name[i], .fmt = quant_format(QT_F32), .n_dim = 1, .dim = {1}, .bytes = 4};
        t.data = (const uint8_t *)&value[first + i];
        assert_int_equal(gguf_put_tensor(w, &t, &e), GLIM_OK);
    }
    if (gguf_write(w, path, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    gguf_writer_free(w);
}

static void part_path(char *path, const char *dir, int no, int count)
{
    snprintf(path, 128, "%s/m-%05d-of-%05d.gguf", dir, no + 1, count);
}

static void test_split_set(void **state)
{
    (void)state;
    char dir[64], part[3][128];
    blob_tmp_dir(dir);
    for (int i = 0; i < 3; i++)
        part_path(part[i], dir, i, 3);
    write_part(part[0], 0, 3, 6, 0, 1);
    write_part(part[1], 1, 3, 6, 1, 3);
    write_part(part[2], 2, 3, 6, 4, 2);

    struct gguf *g = open_ok(part[0]);
    assert_int_equal(gguf_n_tensor(g), 6);
    assert_non_null(gguf_find(g, "general.architecture"));
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        const struct tensor *t = gguf_tensor(g, name);
        float v = -1;
        memcpy(&v, t->data, sizeof v);
        assert_true(v == (float)i);
        assert_string_equal(t->map->path, part[i < 1 ? 0 : i < 4 ? 1 : 2]);
    }
    gguf_close(g);

    open_fails(part[1], GLIM_REFUSED, "have its file 2 of 3, need the first (...-00001-of-00003.gguf)");
    write_part(part[2], 1, 3, 6, 4, 2);
    open_fails(part[0], GLIM_FAILED, "have file 2 of 3 by its keys, need 3 of 3");
    write_part(part[2], 2, 4, 6, 4, 2);
    open_fails(part[0], GLIM_FAILED, "have file 3 of 4 by its keys, need 3 of 3");
    write_part(part[2], 2, -1, 6, 4, 2);
    open_fails(part[0], GLIM_FAILED, "have file 3 of 1 by its keys, need 3 of 3");
    write_part(part[2], 2, 3, 6, 4, 1);
    open_fails(part[0], GLIM_FAILED, "have 5 tensors, need 6 (split.tensors.count)");
    write_part(part[2], 2, 3, 6, 3, 2);
    open_fails(part[0], GLIM_FAILED, "have t3 twice, need each name once");
    assert_int_equal(unlink(part[2]), 0);
    open_fails(part[0], GLIM_FAILED, "m-00003-of-00003.gguf");

    char other[128];
    snprintf(other, sizeof other, "%s/renamed.gguf", dir);
    write_part(other, 0, 3, 6, 0, 1);
    open_fails(other, GLIM_REFUSED, "need one that ends in -00001-of-00003.gguf");
    write_part(other, 0, 1, 1, 0, 1);
    gguf_close(open_ok(other));
    write_part(other, 0, 5000, 1, 0, 1);
    open_fails(other, GLIM_FAILED, "split.count: have 5000, need 0 to 4096");
    blob_remove_dir(dir);
}

/* ---- size ---- */

/* Checkpoints with one tensor per expert have 100,000 of them; names in falling order are the sort's hard case. */
static void test_many_tensors(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct blob b = {0};
    char name[64];
    blob_header(&b, 3, N, 0);
    for (int i = N; i-- > 0;) {
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.down_proj.weight", i / 400, i % 400);
        blob_tensor(&b, name, 1, (uint64_t[]){1}, QT_F32, (uint64_t)i * 32);
    }
    blob_pad(&b, 32);
    size_t start = b.n;
    blob_zeros(&b, N * 32);
    clock_t t0 = clock();
    struct gguf *g = open_blob_ok(&b);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.down_proj.weight", i / 400, i % 400);
        assert_ptr_equal(gguf_tensor(g, name)->data, b.p + start + (size_t)i * 32);
    }
    assert_true((double)(clock() - t0) / CLOCKS_PER_SEC < 3); /* a quadratic step would take minutes */
    gguf_close(g);
    blob_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_file),
        cmocka_unit_test(test_quantised_files),
        cmocka_unit_test(test_same_weights_as_safetensors),
        cmocka_unit_test(test_hand_made),
        cmocka_unit_test(test_type_without_row),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_no_tensors),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_not_a_file),
        cmocka_unit_test(test_split_set),
        cmocka_unit_test(test_many_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
