/* If this fails, a model file with a wrong number in its header crashes the engine or makes it compute garbage sizes.
 *
 * A good GGUF is written again with one integer key changed to each of a list of bad values, with each tensor left out,
 * and with each tensor's type or shape changed; every such file must open or be refused with a sentence, and what opens
 * must run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "run/run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static struct glim_config *config;

static int set_up(void **state)
{
    (void)state;
    struct glim_err e;
    snprintf(path, sizeof path, "/tmp/glim-run-hostile-%d.gguf", (int)getpid());
    if (glim_config_create(&config, &e) != GLIM_OK || glim_config_set(config, "threads", "1", &e) != GLIM_OK)
        return -1;
    /* What a sane machine would refuse anyway must not be allocated here. */
    return glim_config_set(config, "mem_limit", "100000000", &e) == GLIM_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    glim_config_free(config);
    return 0;
}

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

/* Open `path` and run two tokens; true when it went through. */
static bool try_file(void)
{
    struct glim_err e = {0};
    struct glim_model *m;
    struct glim_session *s = NULL;
    glim_status st = glim_model_open(&m, path, config, NULL, NULL, &e);
    if (st == GLIM_OK)
        st = glim_session_create(&s, m, 8, &e);
    if (st == GLIM_OK) {
        const float *logits;
        st = glim_session_eval(s, (const int32_t[]){5, 6}, 2, &logits, &e);
    }
    glim_session_free(s);
    glim_model_close(m);
    if (st != GLIM_OK) {
        assert_true(st == GLIM_FAILED || st == GLIM_REFUSED);
        assert_true(strlen(e.message) > 10);
    }
    return st == GLIM_OK;
}

struct change {
    const char *key;  /* this integer key … */
    uint32_t value;   /* … gets this value */
    size_t skip;      /* this tensor is left out (SIZE_MAX = none) */
    size_t transpose; /* this tensor's two dims change places */
};

/* Write the file again with one change; false when the change does not apply. */
static void rewrite(const struct gguf *g, const struct change *c)
{
    struct glim_err e;
    struct gguf_writer *w;
    ok(gguf_writer_create(&w, &e), &e);
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        struct gguf_kv kv = *gguf_kv_at(g, i);
        if (c->key && strcmp(kv.key, c->key) == 0)
            kv.data = (const uint8_t *)&c->value;
        ok(gguf_put(w, &kv, &e), &e);
    }
    for (size_t i = 0; i < gguf_n_tensor(g); i++) {
        struct tensor t = *gguf_tensor_at(g, i);
        if (i == c->skip)
            continue;
        if (i == c->transpose && t.n_dim == 2) {
            uint64_t d = t.dim[0];
            t.dim[0] = t.dim[1];
            t.dim[1] = d;
        }
        ok(gguf_put_tensor(w, &t, &e), &e);
    }
    ok(gguf_write(w, path, &e), &e);
    gguf_writer_free(w);
}

static const char *const sources[] = {TEST_DATA "/gguf/llama_q.Q4_K_M.gguf", TEST_DATA "/gguf/gemma3.f16.gguf",
                                      TEST_DATA "/gguf/qwen2.f32.gguf"};

static void test_integer_keys(void **state)
{
    (void)state;
    static const uint32_t values[] = {0, 1, 2, 3, 7, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    for (size_t f = 0; f < sizeof sources / sizeof *sources; f++) {
        struct glim_err e;
        struct gguf *g;
        ok(gguf_open(&g, sources[f], &e), &e);
        size_t tried = 0, refused = 0;
        for (size_t i = 0; i < gguf_n_kv(g); i++) {
            const struct gguf_kv *kv = gguf_kv_at(g, i);
            if (kv->type != GGUF_U32 && kv->type != GGUF_F32)
                continue;
            for (size_t v = 0; v < sizeof values / sizeof *values; v++, tried++) {
                rewrite(g,
                        &(struct change){.key = kv->key, .value = values[v], .skip = SIZE_MAX, .transpose = SIZE_MAX});
                refused += !try_file();
            }
        }
        assert_true(tried > 80);
        assert_true(refused > tried / 3);
        gguf_close(g);
    }
}

static void test_tensors(void **state)
{
    (void)state;
    for (size_t f = 0; f < sizeof sources / sizeof *sources; f++) {
        struct glim_err e;
        struct gguf *g;
        ok(gguf_open(&g, sources[f], &e), &e);
        for (size_t i = 0; i < gguf_n_tensor(g); i++) {
            const struct tensor *t = gguf_tensor_at(g, i);
            rewrite(g, &(struct change){.skip = i, .transpose = SIZE_MAX});
            if (strcmp(t->name, "output.weight") != 0) /* without it the embedding is the head: a good model */
                assert_false(try_file());
            if (t->n_dim == 2 && t->dim[0] != t->dim[1] && t->dim[0] % t->fmt->block_elems == 0) {
                rewrite(g, &(struct change){.skip = SIZE_MAX, .transpose = i});
                assert_false(try_file());
            }
        }
        gguf_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integer_keys),
        cmocka_unit_test(test_tensors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
