/* If this fails: a request with a wrong member is taken or refused with the wrong path, a getter hands out what was not
 * checked, or /openapi.json says something else than the check does. */
#include "serve/api.h"
#include "serve/field.h"
#include "serve/route.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct field leaf_fields[] = {
    {"type", FIELD_WORDS("leaf"), .required = true},
    {"size", FIELD_INT_IN(1, 10), .required = true},
};
static const struct field twig_fields[] = {
    {"type", FIELD_WORDS("twig"), .required = true},
    {"names", .shape = FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = &field_text, .min_items = 1, .max_items = 2)},
};
static const struct field_shape leaf = {.name = "Leaf", FIELD_MEMBERS(leaf_fields)};
static const struct field_variant parts[] = {
    {"leaf", .shape = &leaf},
    {"twig", .shape = FIELD_SHAPE(.name = "Twig", FIELD_MEMBERS(twig_fields))},
    {"root", .refused = "nobody sees it"},
};
static const struct field more_fields[] = {{"extra", .shape = &field_bool}};
static const struct field_shape more = {FIELD_MEMBERS(more_fields)};
static const struct field_shape map = {.kinds = FIELD_OBJECT, .rest = FIELD_NUMBER_IN(-1, 1)};
static const struct field tree_fields[] = {
    {"name", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1, .max_chars = 3), .required = true, .doc = "Its name."},
    {"height", FIELD_NUMBER_IN(0, 2.5), .nullable = true},
    {"count", .shape = &field_int},
    {"kind", FIELD_WORDS("oak", "elm"), .nullable = true},
    {"parts", .shape = FIELD_LIST_OF(FIELD_SHAPE(FIELD_VARIANTS("type", parts)))},
    {"weights", .shape = &map},
    {"either", .shape = FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY,
                                    .item = FIELD_SHAPE(.kinds = FIELD_INT | FIELD_STRING), .uniform = true)},
    {"colour", &field_any, .refused = "trees are green"},
    {"free", .shape = &field_any},
};
static const struct field_shape tree = {.name = "Tree", FIELD_MEMBERS(tree_fields), .also = &more};

static json_t *parse(const char *text)
{
    struct glim_err e;
    json_t *j;
    if (json_parse(text, strlen(text), "test", &j, &e) != GLIM_OK)
        fail_msg("%s: %s", text, e.message);
    return j;
}

static void good_values_pass(void **state)
{
    (void)state;
    const char *good[] = {
        "{\"name\":\"a\"}",
        "{\"name\":\"\\u00e9\\u00e9\\u00e9\",\"height\":2.5,\"count\":-9223372036854775808,\"extra\":false}",
        "{\"name\":\"abc\",\"height\":null,\"kind\":null,\"colour\":null}",
        "{\"name\":\"abc\",\"count\":3.0,\"kind\":\"elm\",\"free\":{\"x\":[1,{}]}}",
        "{\"name\":\"a\",\"parts\":[{\"type\":\"leaf\",\"size\":10},{\"type\":\"twig\",\"names\":[\"x\",\"y\"]}]}",
        "{\"name\":\"a\",\"weights\":{\"1\":1,\"2\":-0.5},\"either\":[1,2]}",
        "{\"name\":\"a\",\"either\":[\"x\"],\"parts\":[]}",
        "{\"name\":\"a\",\"either\":\"x\"}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct field_report r = {0};
        struct glim_err e = {0};
        json_t *j = parse(good[i]);
        if (field_check(&tree, j, &r, &e) != GLIM_OK)
            fail_msg("%s: %s", good[i], e.message);
        assert_string_equal(r.path, "");
        json_decref(j);
    }
}

static void bad_values_are_refused_where_they_are(void **state)
{
    (void)state;
    const struct {
        const char *json, *path, *message;
    } row[] = {
        {"[]", "", "the body: have an array, need an object"},
        {"{}", "name", "name: have no such member, need one"},
        {"{\"name\":null}", "name", "name: have null, need a string"},
        {"{\"name\":\"\"}", "name", "name: have 0 characters, need at least 1"},
        {"{\"name\":\"\\u00e9bcd\"}", "name", "name: have 4 characters, need at most 3"},
        {"{\"name\":\"a\",\"height\":2.6}", "height", "height: have 2.6000000000000001, need a number from 0 to 2.5"},
        {"{\"name\":\"a\",\"height\":true}", "height", "height: have true, need a number or null"},
        {"{\"name\":\"a\",\"count\":3.5}", "count", "count: have a number, need a whole number"},
        {"{\"name\":\"a\",\"count\":1e300}", "count", "count: have a number, need a whole number"},
        {"{\"name\":\"a\",\"kind\":\"ash\"}", "kind", "kind: have 'ash', need oak or elm"},
        {"{\"name\":\"a\",\"colour\":1}", "colour", "colour: have a value, need none: trees are green"},
        {"{\"name\":\"a\",\"leaves\":1}", "leaves", "leaves: have an unknown member, need none"},
        {"{\"name\":\"a\",\"parts\":[{\"type\":\"leaf\",\"size\":1},{\"type\":\"leaf\",\"size\":11}]}", "parts[1].size",
         "parts[1].size: have 11, need a number from 1 to 10"},
        {"{\"name\":\"a\",\"parts\":[{\"type\":\"leaf\"}]}", "parts[0].size",
         "parts[0].size: have no such member, need one"},
        {"{\"name\":\"a\",\"parts\":[{\"size\":1}]}", "parts[0].type", "parts[0].type: have no such member, need one"},
        {"{\"name\":\"a\",\"parts\":[{\"type\":1}]}", "parts[0].type",
         "parts[0].type: have a whole number, need a string"},
        {"{\"name\":\"a\",\"parts\":[{\"type\":\"root\"}]}", "parts[0].type",
         "parts[0].type: have 'root', need another: nobody sees it"},
        {"{\"name\":\"a\",\"parts\":[{\"type\":\"bark\"}]}", "parts[0].type",
         "parts[0].type: have 'bark', need one of leaf, twig"},
        {"{\"name\":\"a\",\"parts\":[{\"type\":\"leaf\",\"size\":1,\"names\":[]}]}", "parts[0].names",
         "parts[0].names: have an unknown member, need none"},
        {"{\"name\":\"a\",\"parts\":[{\"type\":\"twig\",\"names\":[]}]}", "parts[0].names",
         "parts[0].names: have 0 items, need at least 1"},
        {"{\"name\":\"a\",\"parts\":[{\"type\":\"twig\",\"names\":[\"\",\"\",\"\"]}]}", "parts[0].names",
         "parts[0].names: have 3 items, need at most 2"},
        {"{\"name\":\"a\",\"weights\":{\"7\":2}}", "weights.7", "weights.7: have 2, need a number from -1 to 1"},
        {"{\"name\":\"a\",\"either\":[1,\"x\"]}", "either[1]",
         "either[1]: have a string after a whole number, need items of one kind"},
        {"{\"name\":\"a\",\"either\":{}}", "either", "either: have an object, need a string or an array"},
        {"{\"name\":\"a\",\"extra\":0}", "extra", "extra: have a whole number, need true or false"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct field_report r = {0};
        struct glim_err e = {0};
        json_t *j = parse(row[i].json);
        assert_int_equal(field_check(&tree, j, &r, &e), GLIM_REFUSED);
        assert_string_equal(e.message, row[i].message);
        assert_string_equal(r.path, row[i].path);
        json_decref(j);
    }
}

static void lax_checks_report_unknown_members_and_nothing_else(void **state)
{
    (void)state;
    struct field_report r = {.lax = true};
    struct glim_err e = {0};
    json_t *j = parse("{\"name\":\"a\",\"x\":1,\"parts\":[{\"type\":\"leaf\",\"size\":1,\"y\":{}}]}");
    assert_int_equal(field_check(&tree, j, &r, &e), GLIM_OK);
    assert_string_equal(r.ignored.s, "x, parts[0].y");
    json_decref(j);
    field_report_fini(&r);
    r = (struct field_report){.lax = true};
    j = parse("{\"name\":\"a\",\"x\":1,\"height\":9}");
    assert_int_equal(field_check(&tree, j, &r, &e), GLIM_REFUSED);
    assert_string_equal(r.path, "height");
    json_decref(j);
    field_report_fini(&r);
    /* a header has to hold it, whatever is sent */
    j = json_object();
    json_object_set_new(j, "name", json_string("a"));
    for (int i = 0; i < 1000; i++) {
        char name[24];
        snprintf(name, sizeof name, "unknown%d", i);
        json_object_set_new(j, name, json_null());
    }
    r = (struct field_report){.lax = true};
    assert_int_equal(field_check(&tree, j, &r, &e), GLIM_OK);
    assert_in_range(r.ignored.n, 900, 1000);
    json_decref(j);
    field_report_fini(&r);
}

static void long_paths_end_early(void **state)
{
    (void)state;
    struct field_report r = {0};
    struct glim_err e = {0};
    char name[400];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    json_t *j = json_object();
    json_object_set_new(j, name, json_null());
    assert_int_equal(field_check(&tree, j, &r, &e), GLIM_REFUSED);
    assert_int_equal(strlen(r.path), FIELD_PATH_MAX - 1);
    json_decref(j);
}

static void getters_read_what_is_there(void **state)
{
    (void)state;
    size_t n;
    json_t *j = parse("{\"b\":true,\"i\":7,\"r\":3.0,\"d\":0.5,\"s\":\"text\",\"z\":null}");
    assert_true(field_get_bool(j, "b", false));
    assert_true(field_get_bool(j, "z", true));
    assert_int_equal(field_get_int(j, "i", 1), 7);
    assert_int_equal(field_get_int(j, "r", 1), 3);
    assert_int_equal(field_get_int(j, "none", -4), -4);
    assert_true(field_get_number(j, "d", 0) == 0.5);
    assert_true(field_get_number(j, "i", 0) == 7);
    assert_string_equal(field_get_text(j, "s", &n), "text");
    assert_int_equal(n, 4);
    assert_null(field_get_text(j, "z", &n));
    assert_int_equal(n, 0);
    assert_null(field_get(j, "z"));
    assert_null(field_get(NULL, "z"));
    json_decref(j);
}

static void schemas_are_printed_as_they_are_checked(void **state)
{
    (void)state;
    struct str s = {0};
    struct field_seen seen = {0};
    str_putc(&s, '{');
    field_print_components(&s, &tree, &seen);
    str_putc(&s, '}');
    assert_false(s.failed);
    json_t *all = parse(s.s);
    const json_t *t = json_object_get(all, "Tree"), *p = json_object_get(t, "properties");
    assert_int_equal(json_object_size(all), 3);
    assert_true(json_is_false(json_object_get(t, "additionalProperties")));
    assert_int_equal(json_object_size(p), 10);
    const struct {
        const char *member, *schema;
    } row[] = {
        {"name", "{\"type\":\"string\",\"minLength\":1,\"maxLength\":3,\"description\":\"Its name.\"}"},
        {"height", "{\"type\":[\"number\",\"null\"],\"minimum\":0,\"maximum\":2.5}"},
        {"kind", "{\"anyOf\":[{\"type\":\"string\",\"enum\":[\"oak\",\"elm\"]},{\"type\":\"null\"}]}"},
        {"colour", "{\"type\":\"null\",\"description\":\"Refused: trees are green\"}"},
        {"weights", "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":{\"type\":\"number\",\"minimum\":-"
                    "1,\"maximum\":1}}"},
        {"either", "{\"type\":[\"string\",\"array\"],\"anyOf\":[{\"items\":{\"type\":\"string\"}},{\"items\":{\"type\":"
                   "\"integer\"}}]}"},
        {"free", "{}"},
        {"extra", "{\"type\":\"boolean\"}"},
        {"parts",
         "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"anyOf\":[{\"$ref\":\"#/components/schemas/Leaf\"},"
         "{\"$ref\":\"#/components/schemas/Twig\"}]}}"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        json_t *want = parse(row[i].schema);
        const json_t *have = json_object_get(p, row[i].member);
        char *text = json_dumps(have, JSON_COMPACT);
        if (!json_equal(have, want))
            fail_msg("%s: have %s", row[i].member, text);
        mem_free(text);
        json_decref(want);
    }
    json_decref(all);
    str_fini(&s);
    field_seen_fini(&seen);
}

/* ---- the table of routes ---- */

static void names_of_shapes_are_unique(void **state)
{
    (void)state;
    struct str s = {0};
    struct field_seen seen = {0};
    for (size_t g = 0; g < route_n_group; g++)
        for (size_t i = 0; i < route_groups[g].n; i++) {
            const struct route *r = &route_groups[g].route[i];
            field_print_components(&s, r->request, &seen);
            field_print_components(&s, r->reply, &seen);
            field_print_components(&s, r->event, &seen);
        }
    assert_true(seen.n > 20);
    for (size_t i = 0; i < seen.n; i++)
        for (size_t k = 0; k < i; k++)
            if (seen.shape[i]->name && seen.shape[k]->name && strcmp(seen.shape[i]->name, seen.shape[k]->name) == 0)
                fail_msg("two shapes are called %s", seen.shape[i]->name);
    str_fini(&s);
    field_seen_fini(&seen);
}

static void every_route_is_found_and_whole(void **state)
{
    (void)state;
    struct route_match m;
    size_t n = 0;
    for (size_t g = 0; g < route_n_group; g++)
        for (size_t i = 0; i < route_groups[g].n; i++, n++) {
            const struct route *r = &route_groups[g].route[i];
            assert_non_null(r->method);
            assert_int_equal(r->path[0], '/');
            assert_true(r->absent || (r->run && r->doc));
            assert_false(r->quick && r->request);
            if (strchr(r->path, '{') || strchr(r->path, '*'))
                continue;
            assert_int_equal(route_find(r->method, r->path, &m), r->absent ? 501 : 200);
            if (m.route != r)
                fail_msg("%s %s: have two rows, need one", r->method, r->path);
        }
    assert_true(n > 20);
    assert_int_equal(route_find("GET", "/v1/models/a%2Fb", &m), 200);
    assert_string_equal(m.param[0], "a/b");
    assert_int_equal(route_find("HEAD", "/v1/models", &m), 200);
    assert_int_equal(route_find("GET", "/v1/models/", &m), 404);
    assert_int_equal(route_find("GET", "/v1/models/a/b", &m), 404);
    assert_int_equal(route_find("GET", "/v1/models/a%zz", &m), 404);
    assert_int_equal(route_find("GET", "/v1/files", &m), 501);
    assert_int_equal(route_find("DELETE", "/v1/files/x/content", &m), 501);
    assert_int_equal(route_find("GET", "/v1/chat/completions", &m), 405);
    assert_string_equal(m.allow, "POST");
    assert_int_equal(route_find("GET", "/V1/models", &m), 404);
}

static void errors_have_their_apis_shape(void **state)
{
    (void)state;
    for (int style = ROUTE_OPENAI; style <= ROUTE_OLLAMA; style++) {
        const int http[] = {400, 401, 403, 404, 405, 408, 413, 415, 429, 500, 501, 503};
        for (size_t i = 0; i < sizeof http / sizeof *http; i++) {
            struct str s = {0};
            struct field_report r = {0};
            struct glim_err e = {0};
            route_print_error(&s, (enum route_style)style, http[i], "a \"sentence\"", i % 2 ? "p" : NULL,
                              i % 3 ? "c" : NULL);
            json_t *j = parse(s.s);
            if (field_check(route_error_shape((enum route_style)style), j, &r, &e) != GLIM_OK)
                fail_msg("%s: %s", s.s, e.message);
            json_decref(j);
            str_fini(&s);
        }
    }
}

static void pages_are_whole_or_not_there(void **state)
{
    (void)state;
    struct str all = {0}, some = {0};
    route_print_openapi(&all);
    assert_false(all.failed);
    json_decref(parse(all.s));
    for (long n = 1;; n += 7) {
        mem_fail_after(n);
        route_print_openapi(&some);
        mem_fail_after(0);
        bool failed = some.failed;
        if (!failed)
            assert_string_equal(some.s, all.s);
        str_fini(&some);
        if (!failed)
            break;
    }
    str_fini(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_values_pass),
        cmocka_unit_test(bad_values_are_refused_where_they_are),
        cmocka_unit_test(lax_checks_report_unknown_members_and_nothing_else),
        cmocka_unit_test(long_paths_end_early),
        cmocka_unit_test(getters_read_what_is_there),
        cmocka_unit_test(schemas_are_printed_as_they_are_checked),
        cmocka_unit_test(names_of_shapes_are_unique),
        cmocka_unit_test(every_route_is_found_and_whole),
        cmocka_unit_test(errors_have_their_apis_shape),
        cmocka_unit_test(pages_are_whole_or_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
