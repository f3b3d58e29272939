/* If this fails: a model file from a stranger can crash the engine, read memory that is not its own, or make it ask for
 * gigabytes. Every case is a class of bug that other readers of these formats have had. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "hostile.h"

#include <dirent.h>
#include <sys/resource.h>

enum { MEMORY_MAX = 64 << 20 };

/* Under the sanitizer the limit on the address space is its own: a block above 64 MB is "out of memory". */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

static struct rlimit old_limit;

/* Bytes of address space this process has now. */
static size_t address_space(void)
{
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%zu", &pages) != 1)
        abort();
    fclose(f);
    return pages * 4096;
}

static int limit_memory(void **state)
{
    (void)state;
    if (UNDER_ASAN || getrlimit(RLIMIT_AS, &old_limit) != 0)
        return 0;
    struct rlimit l = {address_space() + MEMORY_MAX, old_limit.rlim_max};
    return setrlimit(RLIMIT_AS, &l);
}

static int unlimit_memory(void **state)
{
    (void)state;
    return UNDER_ASAN ? 0 : setrlimit(RLIMIT_AS, &old_limit);
}

static glim_status gguf_answer(const struct blob *b, const char *what, uint64_t i, uint64_t j)
{
    glim_status st = GLIM_OK;
    const char *fault = hostile_gguf(b->p, b->n, &st);
    if (fault)
        fail_msg("%s %llu %llu: %s", what, (unsigned long long)i, (unsigned long long)j, fault);
    return st;
}

static void gguf_must_fail(const struct blob *b, const char *what, uint64_t i, uint64_t j)
{
    if (gguf_answer(b, what, i, j) == GLIM_OK)
        fail_msg("%s %llu %llu: opened", what, (unsigned long long)i, (unsigned long long)j);
}

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

/* ---- cut short ---- */

static void test_gguf_every_cut(void **state)
{
    (void)state;
    struct blob b = {0};
    blob_good_gguf(&b, 3);
    assert_int_equal(gguf_answer(&b, "whole", 0, 0), GLIM_OK);
    size_t n = b.n;
    for (b.n = 0; b.n < n; b.n++)
        gguf_must_fail(&b, "cut at", b.n, 0);
    blob_free(&b);
}

/* A file of another program: each place in its header, and some in its data. The last bytes are padding. */
static void test_gguf_real_cut(void **state)
{
    (void)state;
    struct file_map m;
    struct gguf *g = NULL;
    const char *path = TEST_DATA "/gguf/llama_q.Q2_K.gguf";
    assert_int_equal(file_map_open(&m, path, NULL), GLIM_OK);
    assert_int_equal(gguf_open(&g, path, NULL), GLIM_OK);
    size_t end = 0;
    for (size_t i = 0; i < gguf_n_tensor(g); i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        size_t x = (size_t)(t->data - t->map->data) + t->bytes;
        end = x > end ? x : end;
    }
    gguf_close(g);
    for (size_t n = 0; n < end; n += n < 400 ? 1 : 97) {
        struct blob b = {(uint8_t *)(uintptr_t)m.data, n, n};
        gguf_must_fail(&b, "cut at", n, 0);
    }
    struct blob whole = {(uint8_t *)(uintptr_t)m.data, end, end}, one_less = {whole.p, end - 1, end - 1};
    assert_int_equal(gguf_answer(&whole, "to the last tensor's end", end, 0), GLIM_OK);
    gguf_must_fail(&one_less, "one byte less", end, 0);
    file_map_close(&m);
}

/* ---- types and counts ---- */

static const char *const known_key[] = {
    "general.architecture",
    "general.alignment",
    "general.name",
    "split.no",
    "split.count",
    "split.tensors.count",
    "llama.block_count",
    "llama.context_length",
    "llama.attention.head_count",
    "llama.rope.freq_base",
    "llama.attention.layer_norm_rms_epsilon",
    "tokenizer.ggml.model",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.chat_template",
};

static void one_key(struct blob *b, const char *key, uint32_t type, uint32_t elem, uint64_t n)
{
    blob_header(b, 3, 1, 1);
    if (type == GGUF_ARRAY) {
        blob_array(b, key, elem, n);
    } else {
        blob_key(b, key, type);
        blob_value(b, type);
    }
    blob_tensor(b, "w", 1, (uint64_t[]){2}, QT_F32, 0);
    blob_pad(b, 32);
    blob_zeros(b, 8);
}

static void test_key_types(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof known_key / sizeof *known_key; k++) {
        bool is_count = strncmp(known_key[k], "split.", 6) == 0 || strcmp(known_key[k], "general.alignment") == 0;
        for (uint32_t type = 0; type < 16; type++) { /* 13 to 15 do not exist */
            for (uint32_t elem = 0; elem < (type == GGUF_ARRAY ? 16 : 1); elem++) {
                for (uint64_t n = 0; n < (type == GGUF_ARRAY ? 3 : 1); n++) {
                    struct blob b = {0};
                    bool no_such = type >= GGUF_TYPE_COUNT || elem >= GGUF_TYPE_COUNT ||
                                   (type == GGUF_ARRAY && elem == GGUF_ARRAY);
                    bool is_int = type < GGUF_F32 || type == GGUF_U64 || type == GGUF_I64;
                    if (no_such) {
                        blob_header(&b, 3, 0, 1);
                        blob_key(&b, known_key[k], type);
                        blob_u32(&b, elem);
                        blob_zeros(&b, 64);
                    } else {
                        one_key(&b, known_key[k], type, elem, n);
                    }
                    if (no_such || (is_count && !is_int))
                        gguf_must_fail(&b, known_key[k], type, elem);
                    else if (!is_count && gguf_answer(&b, known_key[k], type, elem) != GLIM_OK)
                        fail_msg("%s of type %u/%u does not open", known_key[k], type, elem);
                    else
                        gguf_answer(&b, known_key[k], type, elem);
                    blob_free(&b);
                }
            }
        }
    }
}

static const uint64_t huge[] = {
    1ULL << 20,       1ULL << 31, (1ULL << 32) - 1, 1ULL << 32, 1ULL << 60,     1ULL << 61,
    (1ULL << 61) + 1, 1ULL << 62, (1ULL << 63) - 1, 1ULL << 63, UINT64_MAX - 7, UINT64_MAX,
};
enum { N_HUGE = sizeof huge / sizeof *huge };

static void test_huge_counts(void **state)
{
    (void)state;
    for (size_t h = 0; h < N_HUGE; h++) {
        for (uint32_t elem = 0; elem < GGUF_TYPE_COUNT; elem++) { /* elements of an array */
            struct blob b = {0};
            blob_header(&b, 3, 0, 1);
            blob_key(&b, "list", GGUF_ARRAY);
            blob_u32(&b, elem);
            blob_u64(&b, huge[h]);
            blob_zeros(&b, 200);
            gguf_must_fail(&b, "array", elem, huge[h]);
            blob_free(&b);
        }
        for (int where = 0; where < 6;
             where++) { /* tensors, keys, a key's name, a string, a string in a list, a tensor's name */
            struct blob b = {0};
            blob_header(&b, 3, where == 0 ? huge[h] : where == 5, where == 1 ? huge[h] : where > 1 && where < 5);
            if (where == 2 || where == 5) {
                blob_u64(&b, huge[h]);
            } else {
                blob_key(&b, "x", where == 4 ? GGUF_ARRAY : GGUF_STRING);
                if (where == 4) {
                    blob_u32(&b, GGUF_STRING);
                    blob_u64(&b, 2);
                    blob_str(&b, "first");
                }
                blob_u64(&b, huge[h]);
            }
            blob_zeros(&b, 200);
            gguf_must_fail(&b, "count", (uint64_t)where, huge[h]);
            blob_free(&b);
        }
    }
}

/* ---- shapes and ranges ---- */

static const uint64_t odd_dim[] = {
    0,          1,         32, 256, (1ULL << 31) - 1, 1ULL << 31, 1ULL << 32, (1ULL << 42) + 1, (1ULL << 63) - 1,
    1ULL << 63, UINT64_MAX};
enum { N_ODD = sizeof odd_dim / sizeof *odd_dim };

static void test_dims(void **state)
{
    (void)state;
    static const uint32_t type[] = {QT_F32, QT_F16, QT_Q8_0, QT_Q4_K, QT_NVFP4, QT_I8, 16, 28};
    for (size_t t = 0; t < sizeof type / sizeof *type; t++)
        for (size_t i = 0; i < N_ODD; i++)
            for (size_t j = 0; j < N_ODD; j++)
                for (uint32_t n_dim = 0; n_dim <= 6; n_dim++) {
                    uint64_t dim[6] = {odd_dim[i], odd_dim[j], 1, odd_dim[i], 1, 1};
                    struct blob b = {0};
                    blob_header(&b, 3, 1, 0);
                    blob_tensor(&b, "w", n_dim, dim, type[t], 0);
                    blob_pad(&b, 32);
                    blob_zeros(&b, 1100);
                    bool zero = false, large = n_dim > 4;
                    for (uint32_t d = 0; d < n_dim; d++) {
                        zero |= dim[d] == 0;
                        large |= dim[d] > 256;
                    }
                    if (zero || large)
                        gguf_must_fail(&b, "dims", i, j);
                    else
                        gguf_answer(&b, "dims", i, j);
                    blob_free(&b);
                }
}

static void test_n_dims(void **state)
{
    (void)state;
    for (size_t h = 0; h < 34; h++) {
        struct blob b = {0};
        blob_header(&b, 3, 1, 0);
        blob_str(&b, "w");
        blob_u32(&b, h < 2 ? UINT32_MAX - (uint32_t)h : 1u << (h - 2));
        for (int i = 0; i < 40; i++)
            blob_u64(&b, 1);
        if (h < 2 || h - 2 > 2)
            gguf_must_fail(&b, "number of dimensions", h, 0);
        else
            gguf_answer(&b, "number of dimensions", h, 0);
        blob_free(&b);
    }
}

static void test_offsets(void **state)
{
    (void)state;
    static const uint64_t offset[] = {1,
                                      8,
                                      31,
                                      33,
                                      64,
                                      1ULL << 31,
                                      1ULL << 32,
                                      1ULL << 62,
                                      1ULL << 63,
                                      UINT64_MAX - 31,
                                      UINT64_MAX - 63,
                                      UINT64_MAX - 95,
                                      UINT64_MAX};
    for (size_t i = 0; i < sizeof offset / sizeof *offset; i++) {
        struct blob b = {0};
        blob_header(&b, 3, 1, 0);
        blob_tensor(&b, "w", 1, (uint64_t[]){8}, QT_F32, offset[i]); /* 32 bytes; room for 64 */
        blob_pad(&b, 32);
        blob_zeros(&b, 64);
        gguf_must_fail(&b, "offset", offset[i], 0);
        blob_free(&b);
    }
    for (size_t extra = 0; extra < 9; extra++) { /* one element too many */
        struct blob b = {0};
        blob_header(&b, 3, 1, 0);
        blob_tensor(&b, "w", 1, (uint64_t[]){8 + extra}, QT_I8, 32);
        blob_pad(&b, 32);
        blob_zeros(&b, 40);
        glim_status st = gguf_answer(&b, "elements", extra, 0);
        assert_int_equal(st, extra == 0 ? GLIM_OK : GLIM_FAILED);
        blob_free(&b);
    }
}

/* Any two of many tensors may overlap, however they are listed. */
static void test_overlap(void **state)
{
    (void)state;
    enum { N = 12 };
    for (int move = -1; move < N; move++)
        for (int step = 1; step < N; step += 2) {
            if (step % 3 == 0)
                continue; /* only steps that visit all N */
            struct blob b = {0};
            blob_header(&b, 3, N, 0);
            for (int i = 0; i < N; i++) {
                char name[16];
                int slot = i * step % N;
                snprintf(name, sizeof name, "t%d", slot);
                uint64_t offset = (uint64_t)(slot * 64 + (slot == move ? slot < N - 1 ? 32 : -32 : 0));
                blob_tensor(&b, name, 1, (uint64_t[]){16}, QT_F32, offset);
            }
            blob_pad(&b, 32);
            blob_zeros(&b, N * 64);
            if (move >= 0)
                gguf_must_fail(&b, "overlap", (uint64_t)move, (uint64_t)step);
            else
                assert_int_equal(gguf_answer(&b, "no overlap", 0, (uint64_t)step), GLIM_OK);
            blob_free(&b);
        }
}

static void test_alignments(void **state)
{
    (void)state;
    static const uint64_t align[] = {0,  1,  2,       3,          4,          7,          9,         24,
                                     31, 33, 1 << 21, 1ULL << 31, 1ULL << 32, 1ULL << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof align / sizeof *align; i++)
        for (int type = 0; type < 4; type++) {
            static const uint32_t of[] = {GGUF_U32, GGUF_I32, GGUF_U64, GGUF_I64};
            struct blob b = {0};
            blob_header(&b, 3, 1, 1);
            blob_key(&b, "general.alignment", of[type]);
            blob_add(&b, &align[i], gguf_type_size(of[type]));
            blob_tensor(&b, "w", 1, (uint64_t[]){8}, QT_F32, 0);
            blob_zeros(&b, 4096);
            gguf_must_fail(&b, "alignment", align[i], of[type]);
            blob_free(&b);
        }
}

/* A small file that lists as many tensors or keys as it can hold. */
static void test_dense(void **state)
{
    (void)state;
    struct blob b = {0};
    enum { N = 20000 };
    blob_header(&b, 3, N, 0);
    for (int i = 0; i < N; i++) {
        char name[4] = {(char)('!' + i % 90), (char)('!' + i / 90 % 90), (char)('!' + i / 8100), 0};
        blob_tensor(&b, name, 0, NULL, QT_F32, 0);
    }
    gguf_must_fail(&b, "scalars at one place", 0, 0);
    b.n = 0;
    blob_header(&b, 3, 0, N);
    for (int i = 0; i < N; i++) {
        blob_key(&b, "k", GGUF_U8);
        blob_u8(&b, 0);
    }
    gguf_must_fail(&b, "the same key", 0, 0);
    blob_free(&b);
}

/* ---- damage ---- */

static void test_gguf_bit_flips(void **state)
{
    (void)state;
    struct blob b = {0};
    blob_good_gguf(&b, 3);
    for (size_t i = 0; i < b.n * 8; i++) {
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
        gguf_answer(&b, "flip of bit", i, 0);
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    blob_free(&b);
}

static void damage(struct blob *b, size_t header, uint64_t *r)
{
    static const uint64_t edge[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX};
    size_t at = next_random(r) % header, size = 1 + next_random(r) % 8;
    if (size > b->n - at)
        size = b->n - at;
    uint64_t v = next_random(r) % 2 ? edge[next_random(r) % 10] : next_random(r);
    memcpy(b->p + at, &v, size);
}

/* One to four damaged places in headers of our own and of another program's file. */
static void test_gguf_random_damage(void **state)
{
    (void)state;
    uint64_t r = 88172645463325252ULL;
    struct blob own = {0}, work = {0}, real = {0};
    blob_good_gguf(&own, 3);
    struct file_map m;
    assert_int_equal(file_map_open(&m, TEST_DATA "/gguf/llama_q.Q2_K.gguf", NULL), GLIM_OK);
    blob_add(&real, m.data, 12000); /* its header takes 7 KB, so that ranges fail last */
    file_map_close(&m);
    for (int i = 0; i < 6000; i++) {
        const struct blob *from = i % 3 ? &own : &real;
        work.n = 0;
        blob_add(&work, from->p, from->n);
        for (uint64_t k = 1 + next_random(&r) % 4; k > 0; k--)
            damage(&work, i % 3 ? own.n : 7300, &r);
        gguf_answer(&work, "damage", (uint64_t)i, 0);
    }
    blob_free(&own);
    blob_free(&work);
    blob_free(&real);
}

/* ---- safetensors ---- */

static glim_status st_answer(const struct blob *b, const char *what, uint64_t i)
{
    glim_status st = GLIM_OK;
    const char *fault = hostile_safetensors(b->p, b->n, &st);
    if (fault)
        fail_msg("%s %llu: %s", what, (unsigned long long)i, fault);
    return st;
}

static void test_st_every_cut(void **state)
{
    (void)state;
    struct blob b = {0};
    blob_safetensors(&b, BLOB_GOOD_SAFETENSORS, BLOB_GOOD_SAFETENSORS_DATA);
    assert_int_equal(st_answer(&b, "whole", 0), GLIM_OK);
    size_t n = b.n;
    for (b.n = 0; b.n < n; b.n++)
        assert_int_not_equal(st_answer(&b, "cut at", b.n), GLIM_OK);
    b.n = n;
    blob_u8(&b, 0);
    assert_int_not_equal(st_answer(&b, "one byte more", b.n), GLIM_OK);
    blob_free(&b);
    /* the header cut at every byte, with its length corrected */
    for (size_t cut = 0; cut < strlen(BLOB_GOOD_SAFETENSORS) - 2; cut++) {
        struct blob c = {0};
        blob_u64(&c, cut);
        blob_add(&c, BLOB_GOOD_SAFETENSORS, cut);
        blob_zeros(&c, BLOB_GOOD_SAFETENSORS_DATA);
        assert_int_not_equal(st_answer(&c, "header cut at", cut), GLIM_OK);
        blob_free(&c);
    }
}

static void test_st_bit_flips(void **state)
{
    (void)state;
    struct blob b = {0};
    blob_safetensors(&b, BLOB_GOOD_SAFETENSORS, BLOB_GOOD_SAFETENSORS_DATA);
    for (size_t i = 0; i < b.n * 8; i++) {
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
        st_answer(&b, "flip of bit", i);
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    blob_free(&b);
}

static void test_st_lengths(void **state)
{
    (void)state;
    for (size_t h = 0; h < N_HUGE; h++) {
        struct blob b = {0};
        blob_u64(&b, huge[h]);
        blob_add(&b, "{}", 2);
        assert_int_not_equal(st_answer(&b, "header length", huge[h]), GLIM_OK);
        blob_free(&b);
    }
}

static void test_st_numbers(void **state)
{
    (void)state;
    static const char *const number[] = {"0",
                                         "1",
                                         "-1",
                                         "2147483647",
                                         "2147483648",
                                         "4294967296",
                                         "4398046511105",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "99999999999999999999999999",
                                         "1e3",
                                         "1.0",
                                         "0x10",
                                         "\"1\"",
                                         "null",
                                         "[1]",
                                         "{}",
                                         ""};
    enum { N = sizeof number / sizeof *number };
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            for (int where = 0; where < 3; where++) {
                char header[300];
                const char *a = number[i], *c = number[j];
                snprintf(header, sizeof header,
                         "{\"w\":{\"dtype\":\"F32\",\"shape\":[%s,%s],\"data_offsets\":[%s,%s]}}", where == 2 ? "1" : a,
                         where == 0 ? c : "1",
                         where == 0   ? "0"
                         : where == 1 ? c
                                      : a,
                         where == 2 ? c : "4");
                struct blob b = {0};
                blob_safetensors(&b, header, 4);
                bool good = where == 0 ? i == 1 && j == 1 : where == 1 ? i == 1 && j == 0 : false;
                glim_status st = st_answer(&b, header, j);
                if ((st == GLIM_OK) != good)
                    fail_msg("%s: answer %d", header, st);
                blob_free(&b);
            }
}

/* Ten megabytes of the densest JSON: a reader that builds a tree needs forty times that. */
static void test_st_dense(void **state)
{
    (void)state;
    static const char *const open[] = {"{\"__metadata__\":{\"a\":[", "{\"__metadata__\":{", "{\"w\":{\"shape\":["};
    static const char *const item[] = {"[],", "\"a\":{},", "1,"};
    for (int k = 0; k < 3; k++) {
        struct blob b = {0};
        size_t n = 10 << 20, step = strlen(item[k]);
        blob_u64(&b, n);
        blob_add(&b, open[k], strlen(open[k]));
        while (b.n + step <= n + 8)
            blob_add(&b, item[k], step);
        blob_zeros(&b, n + 8 - b.n);
        glim_status st = GLIM_OK;
        const char *fault = hostile_safetensors(b.p, b.n, &st);
        if (fault)
            fail_msg("dense %d: %s", k, fault);
        assert_int_equal(st, GLIM_FAILED);
        blob_free(&b);
    }
}

static void test_st_index(void **state)
{
    (void)state;
    static const char good[] =
        "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}";
    struct blob b = {0};
    blob_add(&b, good, sizeof good - 1);
    glim_status st = GLIM_FAILED;
    assert_null(hostile_index(b.p, b.n, &st));
    assert_int_equal(st, GLIM_OK);
    for (size_t n = 0; n < b.n; n++) {
        const char *fault = hostile_index(b.p, n, &st);
        if (fault || st == GLIM_OK)
            fail_msg("index cut at %zu: %s", n, fault ? fault : "opened");
    }
    for (size_t i = 0; i < b.n * 8; i++) {
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
        const char *fault = hostile_index(b.p, b.n, &st);
        if (fault)
            fail_msg("index, flip of bit %zu: %s", i, fault);
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    blob_free(&b);
}

/* ---- what fuzzing found and began with ---- */

static void replay(const char *dir, const char *(*answer)(const void *, size_t, glim_status *))
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *x; (x = readdir(d));) {
        char path[600];
        struct file_map m;
        glim_status st;
        snprintf(path, sizeof path, "%s/%s", dir, x->d_name);
        if (x->d_name[0] == '.' || file_map_open(&m, path, NULL) != GLIM_OK)
            continue;
        const char *fault = answer(m.data, m.size, &st);
        if (fault)
            fail_msg("%s: %s", path, fault);
        file_map_close(&m);
        n++;
    }
    closedir(d);
    assert_true(n >= 5);
}

static void test_corpus(void **state)
{
    (void)state;
    replay(TEST_DATA "/../fuzz/corpus/format_gguf", hostile_gguf);
    replay(TEST_DATA "/../fuzz/corpus/format_safetensors", hostile_safetensors);
    replay(TEST_DATA "/../fuzz/corpus/format_safetensors", hostile_index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf_every_cut), cmocka_unit_test(test_gguf_real_cut),
        cmocka_unit_test(test_key_types),      cmocka_unit_test(test_huge_counts),
        cmocka_unit_test(test_dims),           cmocka_unit_test(test_n_dims),
        cmocka_unit_test(test_offsets),        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_alignments),     cmocka_unit_test(test_dense),
        cmocka_unit_test(test_gguf_bit_flips), cmocka_unit_test(test_gguf_random_damage),
        cmocka_unit_test(test_st_every_cut),   cmocka_unit_test(test_st_bit_flips),
        cmocka_unit_test(test_st_lengths),     cmocka_unit_test(test_st_numbers),
        cmocka_unit_test(test_st_dense),       cmocka_unit_test(test_st_index),
        cmocka_unit_test(test_corpus),
    };
    int failed = cmocka_run_group_tests(tests, limit_memory, unlimit_memory);
    printf("slowest answer: %.1f ms of processor time\n", hostile_slowest);
    return failed;
}
