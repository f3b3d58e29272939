/* If this fails, an option a user sets is ignored, misread, or taken from the wrong place: a flag loses to the
 * environment, a typing error starts the program with other settings, or an option that does nothing here is accepted
 * in silence. */
#include "base/file.h"
#include "base/lever_row.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char work[] = "/tmp/lever.XXXXXX";
static struct glim_err err;

/* A working folder and a home folder of their own, and none of our names in the environment. */
static void clean(void)
{
    static const char *const prefix[] = {"GLIM_", "MUSER_", "METRALE_", "TQ_PLUS_", "MELON_"};
    for (bool again = true; again;) {
        again = false;
        for (char **p = environ; *p && !again; p++)
            for (size_t i = 0; i < sizeof prefix / sizeof *prefix && !again; i++)
                if (strncmp(*p, prefix[i], strlen(prefix[i])) == 0) {
                    char name[256];
                    snprintf(name, sizeof name, "%.*s", (int)strcspn(*p, "="), *p);
                    unsetenv(name);
                    again = true;
                }
    }
    unlink("glim.toml");
    unlink("home/.glim/glim.toml");
    unlink("other/glim.toml");
    err = (struct glim_err){0};
}

static int group_setup(void **state)
{
    (void)state;
    if (!mkdtemp(work) || chdir(work) != 0 || file_mkdirs("home/.glim", NULL) != GLIM_OK ||
        file_mkdirs("other", NULL) != GLIM_OK)
        return -1;
    char home[64];
    snprintf(home, sizeof home, "%s/home", work);
    return setenv("HOME", home, 1);
}

static int group_teardown(void **state)
{
    (void)state;
    clean();
    return rmdir("home/.glim") || rmdir("home") || rmdir("other") || chdir("/") || rmdir(work);
}

static int setup(void **state)
{
    (void)state;
    clean();
    return 0;
}

static void toml(const char *path, const char *text)
{
    assert_int_equal(file_write_atomic(path, text, strlen(text), &err), GLIM_OK);
}

static struct lever_set *load(void)
{
    struct lever_set *s = NULL;
    glim_status st = lever_load(&s, &err);
    if (st != GLIM_OK)
        fail_msg("lever_load: %s", err.message);
    return s;
}

/* lever_load fails with this status and a message that has every word (NULL ends the list). */
static void load_refused(glim_status want, const char *first, ...)
{
    struct lever_set *s = NULL;
    va_list ap;
    assert_int_equal(lever_load(&s, &err), want);
    assert_null(s);
    va_start(ap, first);
    for (const char *w = first; w; w = va_arg(ap, const char *))
        if (!strstr(err.message, w))
            fail_msg("\"%s\" is not in: %s", w, err.message);
    va_end(ap);
}

static void env1(const char *name, const char *value)
{
    clean();
    setenv(name, value, 1);
}

/* ---- values and precedence ---- */

static void defaults_are_those_of_the_header(void **state)
{
    (void)state;
    struct lever_set *s = load();
    const struct levers *v = lever_values(s);
    char home[96];
    snprintf(home, sizeof home, "%s/home/.glim", work);
    assert_string_equal(v->home, home);
    assert_int_equal(v->threads, 0);
    assert_int_equal(v->ctx, 0);
    assert_int_equal(v->prefill_chunk, 512);
    assert_int_equal(v->backend, LEVER_BACKEND_AUTO);
    assert_int_equal(v->cpu_isa, LEVER_ISA_AUTO);
    assert_int_equal(v->kv_type, LEVER_KV_AUTO);
    assert_int_equal(v->act, LEVER_ACT_MIXED);
    assert_false(v->kv_poison);
    assert_int_equal(v->mem_limit, 0);
    assert_int_equal(v->log_level, LOG_WARN);
    assert_int_equal(v->log_format, LOG_TEXT);
    assert_string_equal(v->host, "127.0.0.1");
    assert_int_equal(v->port, 4949);
    assert_null(v->alias);
    assert_int_equal(v->unknown_fields, LEVER_UNKNOWN_REFUSE);
    assert_int_equal(v->pooling, LEVER_POOLING_LAST);
    assert_false(v->insecure);
    lever_free(s);
}

static void a_value_reaches_the_field_of_its_name(void **state)
{
    (void)state;
    struct lever_set *s = load();
    const struct levers *v = lever_values(s);
    static const char *const set[][2] = {
        {"threads", "3"},        {"ctx", "8192"},        {"prefill-chunk", "64"}, {"GLIM_BACKEND", "cuda"},
        {"cpu_isa", "avx512"},   {"kv-type", "bf16"},    {"act", "q8"},           {"METRALE_KV_POISON", "1"},
        {"mem_limit", "123456"}, {"log-level", "debug"}, {"log_format", "json"},  {"home", "/x/y"},
    };
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (lever_put(s, set[i][0], set[i][1], &err) != GLIM_OK)
            fail_msg("%s", err.message);
    assert_int_equal(v->threads, 3);
    assert_int_equal(v->ctx, 8192);
    assert_int_equal(v->prefill_chunk, 64);
    assert_int_equal(v->backend, LEVER_BACKEND_CUDA);
    assert_int_equal(v->cpu_isa, LEVER_ISA_AVX512);
    assert_int_equal(v->kv_type, LEVER_KV_BF16);
    assert_int_equal(v->act, LEVER_ACT_Q8);
    assert_true(v->kv_poison);
    assert_int_equal(v->mem_limit, 123456);
    assert_int_equal(v->log_level, LOG_DEBUG);
    assert_int_equal(v->log_format, LOG_JSON);
    assert_string_equal(v->home, "/x/y");
    lever_free(s);
}

/* Every combination of the four sources: the strongest one present decides. */
static void flag_beats_environment_beats_file_beats_default(void **state)
{
    (void)state;
    for (int mask = 0; mask < 8; mask++) {
        clean();
        if (mask & 1)
            toml("glim.toml", "threads = 5\n");
        if (mask & 2)
            setenv("GLIM_THREADS", "6", 1);
        struct lever_set *s = load();
        if (mask & 4)
            assert_int_equal(lever_put(s, "threads", "7", &err), GLIM_OK);
        int want = mask & 4 ? 7 : mask & 2 ? 6 : mask & 1 ? 5 : 0;
        assert_int_equal(lever_values(s)->threads, want);
        lever_free(s);
    }
}

static void a_default_stated_outright_still_wins_over_weaker_sources(void **state)
{
    (void)state;
    toml("glim.toml", "threads = 5\nkv_poison = true\n");
    setenv("GLIM_THREADS", "0", 1);
    setenv("GLIM_KV_POISON", "off", 1);
    struct lever_set *s = load();
    assert_int_equal(lever_values(s)->threads, 0);
    assert_false(lever_values(s)->kv_poison);
    lever_free(s);
    /* An alias whose rule does not hold says nothing, so the file still counts. */
    clean();
    toml("glim.toml", "kv_poison = true\n");
    setenv("METRALE_KV_POISON", "0", 1);
    s = load();
    assert_true(lever_values(s)->kv_poison);
    lever_free(s);
}

static void defaults_alone_read_nothing(void **state)
{
    (void)state;
    toml("glim.toml", "this is = not toml");
    setenv("GLIM_THREADS", "6", 1);
    setenv("GLIM_NONSENSE", "1", 1);
    struct lever_set *s = NULL;
    assert_int_equal(lever_defaults(&s, &err), GLIM_OK);
    assert_int_equal(lever_values(s)->threads, 0);
    lever_free(s);
}

static void home_is_found_by_both_names_and_holds_the_second_file(void **state)
{
    (void)state;
    toml("home/.glim/glim.toml", "threads = 2\n");
    toml("other/glim.toml", "threads = 3\n");
    struct lever_set *s = load();
    assert_int_equal(lever_values(s)->threads, 2);
    lever_free(s);
    static const char *const name[] = {"GLIM_HOME", "MUSER_HOME"};
    for (int i = 0; i < 2; i++) {
        setenv(name[i], "other", 1);
        s = load();
        assert_string_equal(lever_values(s)->home, "other");
        assert_int_equal(lever_values(s)->threads, 3);
        lever_free(s);
        unsetenv(name[i]);
    }
    toml("glim.toml", "ctx = 9\n"); /* the working folder's file, and then no other */
    s = load();
    assert_int_equal(lever_values(s)->threads, 0);
    assert_int_equal(lever_values(s)->ctx, 9);
    lever_free(s);
}

static void a_tilde_is_the_users_home_folder(void **state)
{
    (void)state;
    char want[96];
    toml("glim.toml", "home = '~/models'\n");
    struct lever_set *s = load();
    snprintf(want, sizeof want, "%s/home/models", work);
    assert_string_equal(lever_values(s)->home, want);
    assert_int_equal(lever_put(s, "home", "~other/x", &err), GLIM_OK);
    assert_string_equal(lever_values(s)->home, "~other/x");
    lever_free(s);
}

/* ---- what is refused ---- */

static void values_outside_their_bounds_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"threads", "-1"},         {"threads", "257"},     {"threads", ""},
        {"threads", "4x"},         {"threads", "0x4"},     {"threads", " 4"},
        {"threads", "4.0"},        {"prefill_chunk", "0"}, {"ctx", "1e3"},
        {"kv_poison", "yes"},      {"kv_poison", "TRUE"},  {"kv_poison", "On"},
        {"kv_poison", ""},         {"kv_poison", "2"},     {"kv_type", "F16"},
        {"kv_type", ""},           {"kv_type", "f"},       {"kv_type", "f16|bf16"},
        {"kv_type", "|"},          {"home", ""},           {"mem_limit", "9223372036854775808"},
        {"prefill_chunk", "4097"}, {"log_level", "4"},
    };
    struct lever_set *s = load();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (lever_put(s, bad[i][0], bad[i][1], &err) != GLIM_REFUSED)
            fail_msg("%s took \"%s\"", bad[i][0], bad[i][1]);
        assert_non_null(strstr(err.message, bad[i][0]));
        assert_non_null(strstr(err.message, "need"));
    }
    assert_int_equal(lever_values(s)->prefill_chunk, 512); /* a refused value changes nothing */
    static const char *const good[][2] = {
        {"threads", "256"},    {"prefill_chunk", "1"}, {"prefill_chunk", "4096"}, {"mem_limit", "9223372036854775807"},
        {"kv_poison", "on"},   {"kv_poison", "off"},   {"kv_poison", "1"},        {"kv_poison", "0"},
        {"kv_poison", "true"}, {"kv_poison", "false"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (lever_put(s, good[i][0], good[i][1], &err) != GLIM_OK)
            fail_msg("%s", err.message);
    lever_free(s);
}

static void unknown_names_are_refused_with_the_nearest_known_one(void **state)
{
    (void)state;
    static const char *const name[][2] = {
        {"GLIM_THREDS", "GLIM_THREADS"},
        {"GLIM_threads", "unknown"},
        {"METRALE_KV_POISSON", "METRALE_KV_POISON"},
        {"MUSER_HOMES", "MUSER_HOME"},
        {"METRALE_CANONICAL_TIERS", "unknown"},
        {"MUSER_", "unknown"},
        {"GLIM_A_NAME_OF_MORE_THAN_SIXTY_THREE_CHARACTERS_THAT_NOBODY_WILL_EVER_NEED_X", "unknown"},
    };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        env1(name[i][0], "1");
        char head[41];
        snprintf(head, sizeof head, "%s", name[i][0]);
        load_refused(GLIM_REFUSED, head, name[i][1], NULL);
    }
    clean();
    setenv("GLIMMER_X", "1", 1); /* none of our prefixes */
    lever_free(load());
    unsetenv("GLIMMER_X");
    struct lever_set *s = load();
    assert_int_equal(lever_put(s, "prefil-chunk", "3", &err), GLIM_USAGE);
    assert_non_null(strstr(err.message, "prefill_chunk"));
    assert_int_equal(lever_put(s, "", "3", &err), GLIM_USAGE);
    lever_free(s);
}

static void a_file_error_names_file_and_line(void **state)
{
    (void)state;
    toml("glim.toml", "# levers\nthreads = 4\nthredas = 4\n");
    load_refused(GLIM_REFUSED, "glim.toml:3", "thredas", "threads", NULL);
    toml("glim.toml", "\nthreads = 400\n");
    load_refused(GLIM_REFUSED, "glim.toml:2", "threads", "400", "0..256", NULL);
    toml("glim.toml", "threads = \"4\"\n");
    load_refused(GLIM_REFUSED, "glim.toml:1", "threads", "a string", "whole number", NULL);
    toml("glim.toml", "kv_type = f16\n");
    load_refused(GLIM_FAILED, "glim.toml:1", "quotes", NULL);
    toml("glim.toml", "kv_poison = 1.0\n");
    load_refused(GLIM_REFUSED, "glim.toml:1", "kv_poison", "decimal", NULL);
    toml("glim.toml", "threads = 4\nthreads = 4\n");
    load_refused(GLIM_FAILED, "glim.toml:2", "threads", "line 1", NULL);
    toml("glim.toml", "METRALE_KV_POISON = true\n"); /* keys only: aliases belong to the environment */
    load_refused(GLIM_REFUSED, "glim.toml:1", "METRALE_KV_POISON", NULL);
    /* A mistake in the file does not hide behind a stronger source. */
    toml("glim.toml", "threads = -1\n");
    setenv("GLIM_THREADS", "2", 1);
    load_refused(GLIM_REFUSED, "glim.toml:1", "threads", NULL);
}

static void a_file_takes_each_boolean_spelling(void **state)
{
    (void)state;
    static const char *const on[] = {"true", "1", "'on'", "\"true\"", "\"1\""};
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        char text[40];
        snprintf(text, sizeof text, "kv_poison = %s # on\n", on[i]);
        toml("glim.toml", text);
        struct lever_set *s = load();
        assert_true(lever_values(s)->kv_poison);
        lever_free(s);
    }
}

static void two_names_of_one_lever_have_to_agree(void **state)
{
    (void)state;
    static const struct {
        const char *canonical, *value, *alias, *alias_value;
        bool agree;
    } c[] = {
        {"GLIM_KV_POISON", "on", "METRALE_KV_POISON", "1", true},
        {"GLIM_KV_POISON", "true", "METRALE_KV_POISON", "1", true},
        {"GLIM_KV_POISON", "off", "METRALE_KV_POISON", "0", true},
        {"GLIM_KV_POISON", "off", "METRALE_KV_POISON", "true", true}, /* only 1 is on for this alias */
        {"GLIM_KV_POISON", "off", "METRALE_KV_POISON", "1", false},
        {"GLIM_KV_POISON", "on", "METRALE_KV_POISON", "0", false},
        {"GLIM_HOME", "/a", "MUSER_HOME", "/a", true},
        {"GLIM_HOME", "/a", "MUSER_HOME", "/b", false},
        {"GLIM_PORT", "4949", "MUSER_PORT", "4949", true},
        {"GLIM_PORT", "4949", "MUSER_PORT", "4950", false},
        {"GLIM_SSD", "on", "METRALE_NO_SSD", "1", false},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        clean();
        setenv(c[i].canonical, c[i].value, 1);
        setenv(c[i].alias, c[i].alias_value, 1);
        if (c[i].agree)
            lever_free(load());
        else
            load_refused(GLIM_REFUSED, c[i].canonical, c[i].alias, "need one value", NULL);
    }
}

static void what_is_not_built_is_refused_from_every_source(void **state)
{
    (void)state;
    setenv("METRALE_NO_SSD", "0", 1); /* present, so off, and that is not the default */
    load_refused(GLIM_REFUSED, "GLIM_SSD (METRALE_NO_SSD)", "this build has no Mamba-2", "\"off\"", "need on", NULL);
    env1("GLIM_MAX_DECODE_SEQS", "4");
    load_refused(GLIM_REFUSED, "GLIM_MAX_DECODE_SEQS", "this build has no batched serving", "4", "need 1", NULL);
    env1("MUSER_CACHE_ABI", "x");
    load_refused(GLIM_REFUSED, "GLIM_CACHE_ABI (MUSER_CACHE_ABI)", "not an option", "need it unset", NULL);
    env1("MUSER_CUDA_CPU_ORDER_RMS_NORM", "");
    load_refused(GLIM_REFUSED, "MUSER_CUDA_CPU_ORDER_*", "patched llama.cpp", "MUSER_CUDA_CPU_ORDER_RMS_NORM", NULL);
    clean();
    toml("glim.toml", "\n\nfp32_gate = true\n");
    load_refused(GLIM_REFUSED, "GLIM_FP32_GATE", "this build has no", "glim.toml:3", NULL);
    clean();
    struct lever_set *s = load();
    assert_int_equal(lever_put(s, "fp32-gate", "on", &err), GLIM_REFUSED);
    assert_int_equal(lever_put(s, "METRALE_FP32_GATE", "1", &err), GLIM_REFUSED);
    assert_int_equal(lever_put(s, "fp32-gate", "off", &err), GLIM_OK);
    assert_int_equal(lever_put(s, "METRALE_FP32_GATE", "0", &err), GLIM_OK);
    assert_int_equal(lever_put(s, "max_decode_seqs", "1", &err), GLIM_OK);
    assert_int_equal(lever_put(s, "max_decode_seqs", "2", &err), GLIM_REFUSED);
    lever_free(s);
    /* The defaults of the two servers, stated outright, are no reason to stop. */
    setenv("MUSER_HOST", "127.0.0.1", 1);
    setenv("MUSER_PORT", "4949", 1);
    setenv("METRALE_FP32_GATE", "0", 1);
    setenv("METRALE_GDN_WY17", "1", 1);
    toml("glim.toml", "port = 4949\nssd = true\n");
    lever_free(load());
}

static void every_row_that_is_not_built_keeps_its_default(void **state)
{
    (void)state;
    struct lever_set *s = load();
    size_t n_later = 0;
    for (const struct lever_row *r = lever_rows; r < lever_rows + lever_n_row; r++) {
        if (r->built)
            continue;
        n_later++;
        if (r->def && lever_put(s, r->key, r->def, &err) != GLIM_OK)
            fail_msg("%s", err.message);
        char other[32], min[24];
        snprintf(min, sizeof min, "%lld", (long long)r->min);
        snprintf(other, sizeof other, "%s", r->def && strcmp(r->def, min) == 0 ? "1" : min);
        const char *value = r->type == TYPE_BOOL    ? strcmp(r->def, "on") == 0 ? "off" : "on"
                            : r->type == TYPE_ENUM  ? strrchr(r->values, '|') + 1
                            : r->type <= TYPE_FLOAT ? strcmp(r->key, "max_decode_seqs") == 0 ? "2" : other
                                                    : "something";
        if (r->def && strcmp(value, r->def) == 0)
            value = r->min ? "2" : "7";
        if (lever_put(s, r->key, value, &err) != GLIM_REFUSED)
            fail_msg("%s took %s", r->key, value);
        if (!strstr(err.message, r->why ? r->why : r->need))
            fail_msg("no reason in: %s", err.message);
    }
    assert_true(n_later > 130);
    lever_free(s);
}

/* ---- the table as a whole ---- */

static void rows_are_complete_and_names_unique(void **state)
{
    (void)state;
    for (const struct lever_row *r = lever_rows; r < lever_rows + lever_n_row; r++) {
        char name[LEVER_NAME_MAX];
        const struct lever_alias *a;
        lever_env_name(r, name);
        assert_true(strlen(r->key) + 5 < LEVER_NAME_MAX);
        assert_ptr_equal(lever_find(name, &a), r);
        assert_ptr_equal(lever_find_key(r->key), r);
        for (int i = 0; i < LEVER_ALIAS_MAX && r->alias[i].name; i++) {
            assert_true(strlen(r->alias[i].name) < LEVER_NAME_MAX);
            assert_true((r->alias[i].to != NULL) == (r->alias[i].rule < ONLY_1));
            if (lever_is_family(&r->alias[i]))
                continue;
            assert_ptr_equal(lever_find(r->alias[i].name, &a), r);
            assert_ptr_equal(a, &r->alias[i]);
        }
        if (!r->doc || !r->group || r->built == (r->need || r->why) || (r->need && r->why))
            fail_msg("%s: incomplete", r->key);
        if (r->doc[strlen(r->doc) - 1] != '.' || strchr(r->doc, '\n'))
            fail_msg("%s: doc is no sentence", r->key);
        if (r->def) { /* the default is a value, in its canonical spelling */
            char *text = NULL;
            assert_int_equal(lever_parse(r, r->key, r->def, &text, &err), GLIM_OK);
            assert_string_equal(text, r->def);
            mem_free(text);
        }
        assert_true((r->values != NULL) == (r->type == TYPE_ENUM));
        if (r->type == TYPE_BOOL || r->type == TYPE_ENUM)
            assert_non_null(r->def);
    }
}

static void system_names_are_a_closed_list(void **state)
{
    (void)state;
    setenv("COLUMNS", "80", 1);
    setenv("SHELL_LIKE", "1", 1);
    assert_string_equal(lever_system_env("COLUMNS"), "80");
    assert_non_null(lever_system_env("HOME"));
    assert_null(lever_system_env("SHELL_LIKE"));
    assert_null(lever_system_env("GLIM_THREADS"));
    unsetenv("COLUMNS");
    assert_null(lever_system_env("COLUMNS"));
}

static void running_out_of_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    toml("glim.toml", "threads = 5\nlog_format = 'json'\n");
    setenv("GLIM_CTX", "16", 1);
    setenv("METRALE_KV_POISON", "1", 1);
    int n_failed = 0;
    for (long n = 1;; n++) {
        struct lever_set *s = NULL;
        mem_fail_after(n);
        glim_status st = lever_load(&s, &err);
        mem_fail_after(0);
        if (st == GLIM_OK) {
            lever_free(s);
            break;
        }
        assert_int_equal(st, GLIM_FAILED);
        assert_non_null(strstr(err.message, "memory"));
        n_failed++;
    }
    assert_true(n_failed > 5);
    struct lever_set *s = load();
    assert_int_equal(lever_put(s, "home", "/before", &err), GLIM_OK);
    for (long n = 1; n <= 3; n++) {
        mem_fail_after(n);
        glim_status st = lever_put(s, "home", "/after", &err);
        mem_fail_after(0);
        assert_int_equal(st, GLIM_FAILED);
        assert_string_equal(lever_values(s)->home, "/before");
    }
    struct str out = {0};
    assert_int_equal(lever_print(s, LEVER_TEXT, &out, &err), GLIM_OK);
    assert_non_null(strstr(out.s, "/before"));
    assert_null(strstr(out.s, "/after"));
    str_fini(&out);
    lever_free(s);
}

static void an_unreadable_file_is_an_error(void **state)
{
    (void)state;
    toml("glim.toml", "threads = 5\n");
    file_fail_after(1);
    struct lever_set *s = NULL;
    glim_status st = lever_load(&s, &err);
    file_fail_after(0);
    assert_int_equal(st, GLIM_FAILED);
    assert_non_null(strstr(err.message, "glim.toml"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults_are_those_of_the_header, setup),
        cmocka_unit_test_setup(a_value_reaches_the_field_of_its_name, setup),
        cmocka_unit_test_setup(flag_beats_environment_beats_file_beats_default, setup),
        cmocka_unit_test_setup(a_default_stated_outright_still_wins_over_weaker_sources, setup),
        cmocka_unit_test_setup(defaults_alone_read_nothing, setup),
        cmocka_unit_test_setup(home_is_found_by_both_names_and_holds_the_second_file, setup),
        cmocka_unit_test_setup(a_tilde_is_the_users_home_folder, setup),
        cmocka_unit_test_setup(values_outside_their_bounds_are_refused, setup),
        cmocka_unit_test_setup(unknown_names_are_refused_with_the_nearest_known_one, setup),
        cmocka_unit_test_setup(a_file_error_names_file_and_line, setup),
        cmocka_unit_test_setup(a_file_takes_each_boolean_spelling, setup),
        cmocka_unit_test_setup(two_names_of_one_lever_have_to_agree, setup),
        cmocka_unit_test_setup(what_is_not_built_is_refused_from_every_source, setup),
        cmocka_unit_test_setup(every_row_that_is_not_built_keeps_its_default, setup),
        cmocka_unit_test_setup(rows_are_complete_and_names_unique, setup),
        cmocka_unit_test_setup(system_names_are_a_closed_list, setup),
        cmocka_unit_test_setup(running_out_of_memory_is_an_error_and_leaks_nothing, setup),
        cmocka_unit_test_setup(an_unreadable_file_is_an_error, setup),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
