/* If this fails, somebody who comes from Muser or Metrale with an environment file gets other settings than there: a
 * name is missing, or read by another rule than the one it has at home. */
#include "base/file.h"
#include "base/lever_row.h"
#include "base/mem.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct glim_err err;
static const char *const values[] = {"", "0", "1", "true", "TRUE", "off", "x"};
enum { N_VALUE = sizeof values / sizeof *values };

/* What a rule of lever_names.txt makes of the values above: '.' the lever's default, '#' another value, '!' refused. */
static const struct {
    const char *rule, *result;
} rules[] = {
    /*           "01tTox */
    {"pres", "#######"},  {"!pres", "#######"},  {"=1", "..#...."},  {"!=1", "..#...."},
    {"!=0", ".#....."},   {"!=off", ".....#."},  {"tru", "..###.."}, {"truX", "..##..."},
    {"not-0", "..#####"}, {"1-only", "!!#!!!!"}, {"0/1", "!.#!!!!"}, {"1/0/auto", ".##...."},
    {"1/all", "..#...."}, {">0", "..#...."},     {"<=8", "..#...."}, {"text", "!######"},
};

static const char *expected(const char *rule)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].rule, rule) == 0)
            return rules[i].result;
    return NULL;
}

static char *names_file(void)
{
    char *text;
    size_t n;
    assert_int_equal(file_read(TEST_DATA "/lever_names.txt", 1 << 20, &text, &n, &err), GLIM_OK);
    return text;
}

/* Next line of the file that is no comment, cut at its space; false at the end. */
static bool next_name(char **at, char **name, char **rule)
{
    char *line;
    while ((line = strsep(at, "\n"))) {
        char *space = strchr(line, ' ');
        if (*line == '#' || !space)
            continue;
        *space = 0;
        *name = line;
        *rule = space + 1;
        return true;
    }
    return false;
}

/* A family's name with some ending. */
static const char *spelled(const char *name, char buf[96])
{
    snprintf(buf, 96, "%s", name);
    if (buf[strlen(buf) - 1] == '*')
        buf[strlen(buf) - 1] = 'X';
    return buf;
}

/* '.', '#' or '!' for one value, by the rule alone. */
static char outcome(const struct lever_row *r, const struct lever_alias *a, const char *value)
{
    char *text = NULL;
    glim_status st = lever_parse_alias(r, a, value, &text, &err);
    char c = st != GLIM_OK ? '!' : !text || (r->def && strcmp(text, r->def) == 0) ? '.' : '#';
    if (st != GLIM_OK)
        assert_null(text);
    mem_free(text);
    return c;
}

static void every_name_has_a_row_and_its_own_rule(void **state)
{
    (void)state;
    char *text = names_file(), *at = text, *name, *rule, buf[96];
    int n_name = 0, n_checked = 0;
    while (next_name(&at, &name, &rule)) {
        const struct lever_alias *a = NULL;
        if (strcmp(name, "field") == 0)
            continue;
        n_name++;
        const struct lever_row *r = lever_find(spelled(name, buf), &a);
        if (!r || !a || strcmp(a->name, name) != 0)
            fail_msg("no row for %s", name);
        const char *want = expected(rule);
        if (!want)
            continue; /* numbers: their own tests */
        n_checked++;
        for (int i = 0; i < N_VALUE; i++)
            if (outcome(r, a, values[i]) != want[i])
                fail_msg("%s=\"%s\" (%s): have %c, need %c", name, values[i], rule, outcome(r, a, values[i]), want[i]);
        if (r->type == TYPE_BOOL && strcmp(r->def, rule[0] == '!' ? "on" : "off") != 0)
            fail_msg("%s: polarity", name);
    }
    assert_int_equal(n_name, 62 + 10 + 72 + 3);
    assert_true(n_checked > 120);
    mem_free(text);
}

static void every_field_of_model_levers_has_a_row(void **state)
{
    (void)state;
    char *text = names_file(), *at = text, *name, *field;
    int n = 0;
    while (next_name(&at, &name, &field)) {
        bool found = strcmp(name, "field") != 0;
        for (size_t i = 0; i < lever_n_row && !found; i++)
            found = strcmp(lever_rows[i].theirs ? lever_rows[i].theirs : lever_rows[i].key, field) == 0;
        if (!found)
            fail_msg("no row for field %s", field);
        n += strcmp(name, "field") == 0;
    }
    assert_int_equal(n, 71);
    mem_free(text);
}

/* The same through the environment: whatever is not the default stops the start where the feature is missing. */
static void the_environment_is_read_by_these_rules(void **state)
{
    (void)state;
    char *text = names_file(), *at = text, *name, *rule, buf[96];
    while (next_name(&at, &name, &rule)) {
        const struct lever_alias *a;
        const char *want = expected(rule);
        if (!want)
            continue;
        const struct lever_row *r = lever_find(spelled(name, buf), &a);
        for (int i = 0; i < N_VALUE; i++) {
            struct lever_set *s = NULL;
            setenv(buf, values[i], 1);
            glim_status st = lever_load(&s, &err);
            unsetenv(buf);
            bool refused = want[i] == '!' || (want[i] == '#' && !r->built);
            if (st != (refused ? GLIM_REFUSED : GLIM_OK) || (refused && !strstr(err.message, name)))
                fail_msg("%s=\"%s\": %d %s", name, values[i], st, err.message);
            if (r->built && strcmp(r->key, "kv_poison") == 0)
                assert_int_equal(lever_values(s)->kv_poison, want[i] == '#');
            lever_free(s);
        }
    }
    mem_free(text);
}

/* Canonical text an alias gives; "" when it says nothing, "!" when it is refused. */
static void gives(const char *name, const char *value, const char *want)
{
    const struct lever_alias *a;
    const struct lever_row *r = lever_find(name, &a);
    char *text = NULL;
    assert_non_null(r);
    assert_non_null(a);
    const char *have = lever_parse_alias(r, a, value, &text, &err) != GLIM_OK ? "!" : text ? text : "";
    if (strcmp(have, want) != 0)
        fail_msg("%s=%s: have %s, need %s", name, value, have, want);
    mem_free(text);
}

static void numbers_keep_their_limits(void **state)
{
    (void)state;
    static const char *const c[][3] = {
        {"METRALE_MTP_SHADOW_TOPK", "8", "8"},
        {"METRALE_MTP_SHADOW_TOPK", "9", "8"},
        {"METRALE_MTP_SHADOW_TOPK", "18446744073709551615", "8"},
        {"METRALE_MTP_SHADOW_TOPK", "18446744073709551616", "0"}, /* no number that fits */
        {"METRALE_MTP_SHADOW_TOPK", "-1", "0"},
        {"METRALE_MTP_SHADOW_TOPK", "3 ", "0"},
        {"METRALE_MTP_SHADOW_TOPK", "+3", "3"},
        {"METRALE_MTP_DRAFT_CONF", "0.25", "0.25"},
        {"METRALE_MTP_DRAFT_CONF", "0.0", "0"},
        {"METRALE_MTP_DRAFT_CONF", "1.5", "!"},
        {"METRALE_MTP_DRAFT_CONF", "nan", "!"},
        {"METRALE_MOE_PREFILL_MAX_LOAD_FACTOR", "4", "4"},
        {"METRALE_MOE_PREFILL_MAX_LOAD_FACTOR", "0", ""},
        {"METRALE_MOE_PREFILL_MAX_LOAD_FACTOR", "-4", ""},
        {"METRALE_MOE_PREFILL_EXACT_TILES", "1", "on"},
        {"METRALE_MOE_PREFILL_EXACT_TILES", "0", "off"},
        {"METRALE_ATTN_DECODE_SPLITK", "auto", "0"},
        {"METRALE_ATTN_DECODE_SPLITK", "off", "1"},
        {"METRALE_ATTN_DECODE_SPLITK", "0", "1"},
        {"METRALE_ATTN_DECODE_SPLITK", "8", "8"},
        {"METRALE_ATTN_DECODE_SPLITK", "17", "!"},
        {"METRALE_ATTN_DECODE_SPLITK", "legacy", "!"},
        {"METRALE_NO_MTP_DRAFTER_CONTEXT", "1", "none"},
        {"METRALE_MTP_DRAFTER_CONTEXT_PREFILL_ONLY_UNSAFE", "1", "prefill"},
        {"MUSER_MULTI_COL_VERIFY", "1", "exact"},
        {"MUSER_MULTI_COL_VERIFY", "all", "all"},
        {"MUSER_MULTI_COL_VERIFY", "ALL", ""},
        {"MUSER_DFLASH_VERIFY_LEN", "15", "15"},
        {"MUSER_DFLASH_VERIFY_LEN", "0", ""},
        {"MUSER_DFLASH_PRE_DRAFT_IDLE_MS", "1000", "1000"},
        {"MUSER_DFLASH_PRE_DRAFT_IDLE_MS", "1001", "!"},
        {"MUSER_DFLASH_PRE_DRAFT_IDLE_MS", "x", "!"},
        {"MUSER_TTFT_CAPTURE_PAUSE_MS", "999", "!"},
        {"MUSER_TTFT_CAPTURE_PAUSE_MS", "1000", "1000"},
        {"MUSER_TTFT_CAPTURE_PAUSE_MS", "30001", "!"},
        {"MUSER_ACCELERATOR_LEASE_WAIT_SECONDS", "0.5", "0.5"},
        {"MUSER_ACCELERATOR_LEASE_WAIT_SECONDS", "60", "60"},
        {"MUSER_ACCELERATOR_LEASE_WAIT_SECONDS", "60.1", "!"},
        {"MUSER_ACCELERATOR_LEASE_FD", "2", "!"},
        {"MUSER_ACCELERATOR_LEASE_FD", "3", "3"},
        {"MUSER_GX10_PACING_BYTES_PER_SECOND", "0", "!"},
        {"MUSER_GX10_PACING_BYTES_PER_SECOND", "1000000000", "1000000000"},
        {"MUSER_PORT", "65536", "!"},
        {"MUSER_RDMA_GID", "two", "!"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        gives(c[i][0], c[i][1], c[i][2]);
}

static void of_two_names_for_the_drafters_context_the_kill_wins(void **state)
{
    (void)state;
    struct lever_set *s = NULL;
    setenv("METRALE_MTP_DRAFTER_CONTEXT_PREFILL_ONLY_UNSAFE", "1", 1);
    assert_int_equal(lever_load(&s, &err), GLIM_REFUSED);
    assert_non_null(strstr(err.message, "\"prefill\" from METRALE_MTP_DRAFTER_CONTEXT_PREFILL_ONLY_UNSAFE"));
    setenv("METRALE_NO_MTP_DRAFTER_CONTEXT", "1", 1);
    assert_int_equal(lever_load(&s, &err), GLIM_REFUSED);
    assert_non_null(strstr(err.message, "\"none\" from METRALE_NO_MTP_DRAFTER_CONTEXT"));
    setenv("METRALE_NO_MTP_DRAFTER_CONTEXT", "0", 1);
    assert_int_equal(lever_load(&s, &err), GLIM_REFUSED);
    assert_non_null(strstr(err.message, "\"prefill\""));
    unsetenv("METRALE_MTP_DRAFTER_CONTEXT_PREFILL_ONLY_UNSAFE");
    assert_int_equal(lever_load(&s, &err), GLIM_OK);
    lever_free(s);
    unsetenv("METRALE_NO_MTP_DRAFTER_CONTEXT");
}

/* ---- printing ---- */

static const json_t *row_named(const json_t *rows, const char *key)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(rows, i), "key")), key) == 0)
            return json_array_get(rows, i);
    return NULL;
}

static json_t *print_json(const struct lever_set *s)
{
    struct str out = {0};
    assert_int_equal(lever_print(s, LEVER_JSON, &out, &err), GLIM_OK);
    json_t *rows = json_loadb(out.s, out.n, JSON_REJECT_DUPLICATES, NULL);
    str_fini(&out);
    assert_true(json_is_array(rows));
    assert_int_equal(json_array_size(rows), lever_n_row);
    return rows;
}

static void json_has_values_and_where_they_came_from(void **state)
{
    (void)state;
    struct lever_set *s;
    setenv("METRALE_KV_POISON", "1", 1);
    assert_int_equal(lever_load(&s, &err), GLIM_OK);
    unsetenv("METRALE_KV_POISON");
    assert_int_equal(lever_put(s, "threads", "3", &err), GLIM_OK);
    json_t *rows = print_json(s);
    const json_t *r = row_named(rows, "kv_poison");
    assert_true(json_is_true(json_object_get(r, "value")));
    assert_true(json_is_false(json_object_get(r, "default")));
    assert_string_equal(json_string_value(json_object_get(r, "origin")), "environment");
    assert_string_equal(json_string_value(json_object_get(r, "from")), "METRALE_KV_POISON");
    assert_string_equal(json_string_value(json_object_get(r, "env")), "GLIM_KV_POISON");
    assert_string_equal(json_string_value(json_object_get(r, "flag")), "--kv-poison");
    const json_t *alias = json_array_get(json_object_get(r, "aliases"), 0);
    assert_string_equal(json_string_value(json_object_get(alias, "name")), "METRALE_KV_POISON");
    assert_string_equal(json_string_value(json_object_get(alias, "rule")), "is_1");
    assert_string_equal(json_string_value(json_object_get(alias, "sets")), "on");
    r = row_named(rows, "threads");
    assert_int_equal(json_integer_value(json_object_get(r, "value")), 3);
    assert_int_equal(json_integer_value(json_object_get(r, "max")), 256);
    assert_string_equal(json_string_value(json_object_get(r, "origin")), "flag");
    r = row_named(rows, "kv_type");
    assert_int_equal(json_array_size(json_object_get(r, "values")), 5);
    assert_string_equal(json_string_value(json_object_get(r, "bits")), "changes");
    assert_string_equal(json_string_value(json_object_get(r, "origin")), "default");
    assert_true(json_is_null(json_object_get(row_named(rows, "hf_repo"), "value")));
    assert_true(json_is_false(json_object_get(row_named(rows, "hf_repo"), "built")));
    json_decref(rows);
    lever_free(s);
    rows = print_json(NULL);
    assert_null(json_object_get(row_named(rows, "threads"), "value"));
    json_decref(rows);
}

static void text_shows_values_and_reasons(void **state)
{
    (void)state;
    struct lever_set *s;
    struct str out = {0};
    assert_int_equal(lever_defaults(&s, &err), GLIM_OK);
    assert_int_equal(lever_put(s, "ctx", "77", &err), GLIM_OK);
    assert_int_equal(lever_print(s, LEVER_TEXT, &out, &err), GLIM_OK);
    assert_non_null(strstr(out.s, "GLIM_CTX                               77             flag ctx\n"));
    assert_non_null(strstr(out.s, "Refused: this build has no batched serving."));
    assert_non_null(strstr(out.s, "METRALE_NO_SSD: any value = off"));
    str_fini(&out);
    lever_free(s);
    mem_fail_after(1);
    glim_status st = lever_print(NULL, LEVER_MARKDOWN, &out, &err);
    mem_fail_after(0);
    assert_int_equal(st, GLIM_FAILED);
    str_fini(&out);
}

static void the_page_in_docs_is_the_table(void **state)
{
    (void)state;
    struct str out = {0};
    char *page;
    size_t n;
    assert_int_equal(lever_print(NULL, LEVER_MARKDOWN, &out, &err), GLIM_OK);
    assert_int_equal(file_read(TEST_DATA "/../../docs/LEVERS.md", 1 << 20, &page, &n, &err), GLIM_OK);
    if (n != out.n || memcmp(page, out.s, n) != 0)
        fail_msg("docs/LEVERS.md: write it again with glim levers --markdown");
    assert_memory_equal(page, "<!-- Generated", 14);
    mem_free(page);
    str_fini(&out);
}

static int group_setup(void **state)
{
    (void)state;
    char cwd[] = "/tmp/lever.XXXXXX"; /* no glim.toml here */
    if (!mkdtemp(cwd) || setenv("HOME", cwd, 1) != 0 || chdir(cwd) != 0)
        return -1;
    return rmdir(cwd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_has_a_row_and_its_own_rule),
        cmocka_unit_test(every_field_of_model_levers_has_a_row),
        cmocka_unit_test(the_environment_is_read_by_these_rules),
        cmocka_unit_test(numbers_keep_their_limits),
        cmocka_unit_test(of_two_names_for_the_drafters_context_the_kill_wins),
        cmocka_unit_test(json_has_values_and_where_they_came_from),
        cmocka_unit_test(text_shows_values_and_reasons),
        cmocka_unit_test(the_page_in_docs_is_the_table),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
