/* If this fails: when memory or a disk gives out while a model is opened, the engine crashes or leaks instead of saying
 * so. Every allocation and every file operation is made to fail in turn. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "blob.h"
#include "base/mem.h"
#include "format/safetensors.h"

static bool open_gguf(const char *path, struct glim_err *e)
{
    struct gguf *g = NULL;
    bool ok = gguf_open(&g, path, e) == GLIM_OK;
    assert_true(ok == (g != NULL));
    gguf_close(g);
    return ok;
}

static bool open_st(const char *path, struct glim_err *e)
{
    struct safetensors *s = NULL;
    bool ok = safetensors_open(&s, path, e) == GLIM_OK;
    assert_true(ok == (s != NULL));
    safetensors_close(s);
    return ok;
}

/* Until it opens; at least min faults must have been possible. */
static void every_fault(bool (*open)(const char *, struct glim_err *), const char *path, void (*fail_after)(long),
                        long min)
{
    struct glim_err e = {0};
    assert_true(open(path, &e));
    long n = 1;
    for (;; n++) {
        e = (struct glim_err){0};
        fail_after(n);
        bool ok = open(path, &e);
        fail_after(0);
        if (ok)
            break;
        if (e.status != GLIM_FAILED || strlen(e.message) < 10)
            fail_msg("%s: fault %ld: have %d '%s', need a sentence", path, n, e.status, e.message);
    }
    if (n - 1 < min)
        fail_msg("%s: have %ld faults, need at least %ld", path, n - 1, min);
    assert_true(open(path, &e));
}

static void make_split(char *first, const char *dir)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct blob b = {0};
        char name[40];
        blob_header(&b, 3, 1, 2);
        blob_key_u32(&b, "split.no", i);
        blob_key_u32(&b, "split.count", 3);
        snprintf(name, sizeof name, "w%u", i);
        blob_tensor(&b, name, 1, (uint64_t[]){2}, QT_F32, 0);
        blob_pad(&b, 32);
        blob_zeros(&b, 8);
        snprintf(name, sizeof name, "m-%05u-of-00003.gguf", i + 1);
        const char *path = blob_save(&b, dir, name);
        if (i == 0)
            strcpy(first, path);
        blob_free(&b);
    }
}

static void make_shards(const char *dir)
{
    struct blob b = {0};
    blob_safetensors(&b, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    blob_save(&b, dir, "m-1.safetensors");
    b.n = 0;
    blob_safetensors(&b, "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    blob_save(&b, dir, "m-2.safetensors");
    b.n = 0;
    static const char index[] = "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}";
    blob_add(&b, index, sizeof index - 1);
    blob_save(&b, dir, "model.safetensors.index.json");
    blob_free(&b);
}

static void test_faults(void **state)
{
    (void)state;
    char dir[64], split[200];
    blob_tmp_dir(dir);
    make_split(split, dir);
    make_shards(dir);
    static const char gguf[] = TEST_DATA "/gguf/llama_q.Q4_K_M.gguf", hf[] = TEST_DATA "/hf/qwen3";
    every_fault(open_gguf, gguf, mem_fail_after, 8);
    every_fault(open_gguf, gguf, file_fail_after, 2);
    every_fault(open_gguf, split, mem_fail_after, 20);
    every_fault(open_gguf, split, file_fail_after, 6);
    every_fault(open_st, hf, mem_fail_after, 8);
    every_fault(open_st, hf, file_fail_after, 2);
    every_fault(open_st, dir, mem_fail_after, 15);
    every_fault(open_st, dir, file_fail_after, 6);
    blob_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
