/* If this fails: output that should be valid under a client's JSON Schema is not, a valid answer cannot be given, or a
 * schema that cannot be enforced is taken all the same. */
#include "test_text_schema.h"

/* ---- the cases ---- */

/* The spelling that the grammar has for a value, as far as jansson writes it so. */
static char *spelled(const json_t *v)
{
    char *s = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    for (char *p = s; (p = strstr(p, "\\u00")) != NULL; p += 6) /* jansson writes \u001F */
        p[5] = (char)(p[5] >= 'A' && p[5] <= 'F' ? p[5] + 32 : p[5]);
    return s;
}

static int check_text(struct bytes_grammar *g, const char *file, const char *name, const char *text, bool want)
{
    if (bytes_accept(g, text, strlen(text)) == want)
        return 0;
    print_error("%s: %s: %s %s\n", file, name, want ? "does not accept" : "accepts", text);
    return 1;
}

static int check_texts(struct bytes_grammar *g, const char *file, const json_t *c, const char *key, bool values,
                       bool want)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const json_t *list = json_object_get(c, key);
    int bad = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        char *s = values ? spelled(v) : NULL;
        bad += check_text(g, file, name, values ? s : json_string_value(v), want);
        free(s);
    }
    return bad;
}

static int check_case(const char *file, const json_t *c)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const char *refused = json_string_value(json_object_get(c, "refused"));
    struct bytes_grammar g;
    struct glim_err e = {0};
    glim_status st = schema_open(&g, json_object_get(c, "schema"), SCHEMA_SPACE_MAYBE, &e);
    if (refused ? st != GLIM_REFUSED || !strstr(e.message, refused) : st != GLIM_OK) {
        print_error("%s: %s: have %d \"%s\", need %s\n", file, name, st, e.message, refused ? refused : "success");
        bytes_close(&g);
        return 1;
    }
    if (refused)
        return 0;
    int bad = check_texts(&g, file, c, "valid", true, true) + check_texts(&g, file, c, "invalid", true, false) +
              check_texts(&g, file, c, "accepts", false, true) + check_texts(&g, file, c, "rejects", false, false);
    bytes_close(&g);
    return bad;
}

static void every_case_is_decided_as_it_says(void **state)
{
    (void)state;
    int bad = 0, n = 0;
    for (size_t f = 0; f < N_CASE_FILE; f++) {
        json_t *cases = cases_of(case_file[f]);
        for (size_t i = 0; i < json_array_size(cases); i++, n++)
            bad += check_case(case_file[f], json_array_get(cases, i));
        json_decref(cases);
    }
    assert_int_equal(bad, 0);
    assert_true(n > 150);
}

/* ---- walks ---- */

/* test_schema.py asks another program whether sentences are valid; here they must end, be JSON, and be taken whole. */
static int walk_case(const char *file, const json_t *c, enum schema_space space, int n)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    struct bytes_grammar g;
    struct glim_err e = {0};
    struct str s = {0};
    uint64_t seed = 7;
    int bad = 0;
    assert_int_equal(schema_open(&g, json_object_get(c, "schema"), space, &e), GLIM_OK);
    for (int i = 0; i < n && !bad; i++) {
        json_t *v = NULL;
        bool ended = walk_sentence(&g, &seed, &s, &e);
        if (ended)
            v = json_loadb(s.s, s.n, JSON_DECODE_ANY, NULL);
        if (!v || !bytes_accept(&g, s.s, s.n)) {
            print_error("%s: %s: %s\n", file, name, ended ? s.s : e.message);
            bad = 1;
        }
        json_decref(v);
    }
    str_fini(&s);
    bytes_close(&g);
    return bad;
}

static void walks_end_and_are_json(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t f = 0; f < N_CASE_FILE; f++) {
        json_t *cases = cases_of(case_file[f]);
        for (size_t i = 0; i < json_array_size(cases); i++)
            for (enum schema_space p = SCHEMA_SPACE_MAYBE; p <= SCHEMA_SPACE_FREE; p++)
                if (!json_object_get(json_array_get(cases, i), "refused"))
                    bad += walk_case(case_file[f], json_array_get(cases, i), p, 50);
        json_decref(cases);
    }
    assert_int_equal(bad, 0);
}

/* ---- single questions ---- */

static void open_text(struct bytes_grammar *g, const char *schema, enum schema_space space)
{
    struct glim_err e = {0};
    json_t *j;
    if (json_parse(schema, strlen(schema), "schema", &j, &e) != GLIM_OK || schema_open(g, j, space, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    json_decref(j);
}

static void white_space_is_what_was_asked_for(void **state)
{
    (void)state;
    static const char *const text[] = {"{\"a\":[1,2]}",   "{\"a\": [1, 2]}",
                                       "{\"a\": [1,2]}",  "{\n  \"a\": [\n    1,\n    2\n  ]\n}",
                                       "{\"a\":  [1,2]}", "{\"a\":[1,2]} "};
    static const char *const taken[] = {"111000", "010000", "100000", "111100"};
    for (enum schema_space p = SCHEMA_SPACE_MAYBE; p <= SCHEMA_SPACE_FREE; p++) {
        struct bytes_grammar g;
        open_text(
            &g, "{\"type\":\"object\",\"properties\":{\"a\":{\"items\":{\"type\":\"integer\"}}},\"required\":[\"a\"]}",
            p);
        for (size_t i = 0; i < sizeof text / sizeof *text; i++)
            if (bytes_accept(&g, text[i], strlen(text[i])) != (taken[p][i] == '1'))
                fail_msg("policy %u: %s", p, text[i]);
        bytes_close(&g);
        open_text(&g, "{\"const\":{\"a\":[1,2]}}", p);
        for (size_t i = 0; i < sizeof text / sizeof *text; i++)
            if (bytes_accept(&g, text[i], strlen(text[i])) != (taken[p][i] == '1'))
                fail_msg("const, policy %u: %s", p, text[i]);
        bytes_close(&g);
    }
}

static void schemas_are_parts_of_larger_grammars(void **state)
{
    (void)state;
    struct grammar_builder *b;
    struct grammar *grammar;
    struct bytes_grammar g;
    struct glim_err e = {0};
    grammar_node part[4];
    json_t *schema = json_pack("{s:s,s:{s:{s:s}}}", "type", "object", "properties", "x", "$ref", "#");
    assert_int_equal(grammar_builder_create(&b, NULL, &e), GLIM_OK);
    assert_int_equal(schema_any(b, NULL, &part[0], &e), GLIM_OK);
    part[1] = grammar_text(b, "|", 1);
    assert_int_equal(schema_node(b, schema, NULL, &part[2], &e), GLIM_OK);
    assert_int_equal(schema_any_object(b, NULL, &part[3], &e), GLIM_OK);
    json_decref(schema);
    uint32_t root = grammar_rule(b, "root", 4);
    grammar_define(b, root, grammar_seq(b, part, 4));
    assert_int_equal(grammar_compile(&grammar, b, root, &e), GLIM_OK);
    grammar_builder_free(b);
    assert_int_equal(bytes_open(&g, grammar, &e), GLIM_OK);
    static const char *const yes[] = {"[1]|{\"x\":{}}{\"y\":2}", "null|{}{}"}, *const no[] = {"1|{\"x\":1}{}",
                                                                                              "1|{}[]"};
    for (size_t i = 0; i < 2; i++) {
        assert_true(bytes_accept(&g, yes[i], strlen(yes[i])));
        assert_false(bytes_accept(&g, no[i], strlen(no[i])));
    }
    bytes_close(&g);
}

static void every_keyword_is_explained(void **state)
{
    (void)state;
    bool enforced;
    for (size_t i = 0; i < schema_n_keyword; i++) {
        const struct schema_keyword *k = &schema_keywords[i];
        assert_true(k->level == SCHEMA_IGNORED || strlen(k->doc) > 10);
        assert_non_null(schema_level_name(k->level));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(schema_keywords[j].name, k->name);
        json_t *schema = json_pack("{s:s}", k->name, "#x");
        struct grammar *g;
        struct glim_err e = {0};
        if (k->level == SCHEMA_REFUSED) {
            assert_int_equal(schema_compile(&g, schema, NULL, &e), GLIM_REFUSED);
            assert_non_null(strstr(e.message, k->name));
        }
        json_decref(schema);
    }
    assert_string_equal(schema_format_name(0, &enforced), "date");
    assert_true(enforced);
    assert_null(schema_format_name(1000, &enforced));
}

/* ---- limits ---- */

/* Closed objects hold what is declared, unless the schema speaks of others. */
static void objects_may_be_closed(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *accepted, *refused;
    } row[] = {
        {"{\"properties\": {\"a\": {}}}", "{\"a\": 1}", "{\"b\": 1}"},
        {"{\"properties\": {\"a\": {}}, \"additionalProperties\": true}", "{\"b\": 1}", "{\"b\": }"},
        {"{\"properties\": {\"a\": {}}, \"patternProperties\": {\"^x\": {}}}", "{\"x1\": 1}", "{\"x\"}"},
        {"{\"properties\": {\"a\": {}}, \"required\": [\"b\"]}", "{\"b\": 1}", "{\"b\": 1, \"c\": 2}"},
        {"{\"allOf\": [{\"properties\": {\"a\": {}}}, {\"properties\": {\"b\": {}}}]}", "{\"a\": 1, \"b\": 2}",
         "{\"c\": 1}"},
        {"{\"items\": {\"properties\": {\"a\": {}}}}", "[{\"a\": 1}, {}]", "[{\"b\": 1}]"},
        {"{\"properties\": {\"a\": {}}, \"minProperties\": 1}", "{\"b\": 1}", "{}"},
        {"{\"type\": \"object\"}", "{\"b\": 1}", "[]"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct schema_opts closed = {.closed = true};
        struct bytes_grammar g = {0};
        struct grammar *grammar;
        struct glim_err e;
        json_t *schema;
        assert_int_equal(json_parse(row[i].schema, strlen(row[i].schema), "schema", &schema, &e), GLIM_OK);
        if (schema_compile(&grammar, schema, &closed, &e) != GLIM_OK || bytes_open(&g, grammar, &e) != GLIM_OK)
            fail_msg("%s: %s", row[i].schema, e.message);
        if (!bytes_accept(&g, row[i].accepted, strlen(row[i].accepted)))
            fail_msg("%s does not accept %s", row[i].schema, row[i].accepted);
        if (bytes_accept(&g, row[i].refused, strlen(row[i].refused)))
            fail_msg("%s accepts %s", row[i].schema, row[i].refused);
        bytes_close(&g);
        json_decref(schema);
    }
}

static glim_status compile_text(const char *text, size_t n, double *ms, struct glim_err *e)
{
    struct timespec a, b;
    struct grammar *g;
    json_t *j;
    assert_int_equal(json_parse(text, n, "schema", &j, e), GLIM_OK);
    clock_gettime(CLOCK_MONOTONIC, &a);
    glim_status st = schema_compile(&g, j, NULL, e);
    clock_gettime(CLOCK_MONOTONIC, &b);
    *ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
    grammar_free(g);
    json_decref(j);
    return st;
}

#ifdef __SANITIZE_ADDRESS__
enum { SLOW = 30 }; /* how much longer things may take */
#else
enum { SLOW = 1 };
#endif

/* Objects as clients write them: n of them under $defs, and a list of any of them. */
static void big_schema(struct str *s, int n, const char *extra)
{
    str_puts(s, "{\"$defs\":{");
    for (int i = 0; i < n; i++)
        str_printf(
            s,
            "%s\"t%d\":{\"type\":\"object\",\"description\":\"Record number %d of the catalogue\",\"properties\":{"
            "\"kind\":{\"const\":\"k%d\"},\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":%d},"
            "\"code\":{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-%d-[0-9]{1,6}$\"},"
            "\"when\":{\"type\":\"string\",\"format\":\"date-time\"},\"n\":{\"type\":\"integer\",\"minimum\":0,"
            "\"maximum\":%d},\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/t%d\"},{\"type\":\"null\"}]}},"
            "\"required\":[\"kind\",\"name\"]%s}",
            i ? "," : "", i, i, i, 20 + i, i, 100 + i, (i + 1) % n, extra);
    str_puts(s, "},\"type\":\"array\",\"items\":{\"anyOf\":[");
    for (int i = 0; i < n; i++)
        str_printf(s, "%s{\"$ref\":\"#/$defs/t%d\"}", i ? "," : "", i);
    str_puts(s, "]}}");
}

static void large_schemas_compile_quickly(void **state)
{
    (void)state;
    for (int open = 0; open < 2; open++) {
        struct str s = {0};
        struct glim_err e = {0};
        double ms;
        big_schema(&s, 230, open ? "" : ",\"additionalProperties\":false");
        assert_true(s.n > 100000);
        if (compile_text(s.s, s.n, &ms, &e) != GLIM_OK)
            fail_msg("%s", e.message);
        print_message("%zu bytes, %s objects: %.0f ms\n", s.n, open ? "open" : "closed", ms);
        assert_true(ms < 200 * SLOW);
        str_fini(&s);
    }
}

static void many_optional_members_stay_linear(void **state)
{
    (void)state;
    struct str s = {0};
    struct glim_err e = {0};
    double ms;
    str_puts(&s, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 3000; i++)
        str_printf(&s, "%s\"member%d\":{\"type\":\"integer\"}", i ? "," : "", i);
    str_puts(&s, "}}");
    if (compile_text(s.s, s.n, &ms, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    print_message("3000 optional members: %.0f ms\n", ms);
    assert_true(ms < 200 * SLOW);
    str_fini(&s);
}

static void hostile_schemas_end_in_a_sentence(void **state)
{
    (void)state;
    struct str s = {0};
    struct glim_err e = {0};
    double ms;
    for (int i = 0; i < 300; i++) /* deep */
        str_puts(&s, "{\"items\":");
    str_puts(&s, "true");
    for (int i = 0; i < 300; i++)
        str_putc(&s, '}');
    assert_int_equal(compile_text(s.s, s.n, &ms, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "levels"));
    str_clear(&s);
    str_puts(&s, "{\"$defs\":{"); /* a long chain of references */
    for (int i = 0; i < 3000; i++)
        str_printf(&s, "\"a%d\":{\"$ref\":\"#/$defs/a%d\"},", i, i + 1);
    str_puts(&s, "\"a3000\":{}},\"$ref\":\"#/$defs/a0\"}");
    assert_int_equal(compile_text(s.s, s.n, &ms, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "1000 references"));
    str_clear(&s);
    str_puts(&s, "{\"allOf\":["); /* all pairs */
    for (int i = 0; i < 20; i++)
        str_printf(&s, "%s{\"anyOf\":[{\"minLength\":%d},{\"maxLength\":%d}]}", i ? "," : "", i, 100 - i);
    str_puts(&s, "]}");
    assert_int_equal(compile_text(s.s, s.n, &ms, &e), GLIM_REFUSED);
    assert_true(ms < 500 * SLOW);
    str_clear(&s);
    str_puts(&s, "{\"oneOf\":["); /* every pair must be compared */
    for (int i = 0; i < 400; i++)
        str_printf(&s, "%s{\"properties\":{\"k\":{\"const\":%d}},\"required\":[\"k\"],\"type\":\"object\"}",
                   i ? "," : "", i);
    str_puts(&s, "]}");
    glim_status st = compile_text(s.s, s.n, &ms, &e);
    print_message("400 branches of oneOf: %.0f ms\n", ms);
    if (st != GLIM_OK)
        fail_msg("%s", e.message);
    assert_true(ms < 1500 * SLOW);
    str_clear(&s);
    str_puts(&s, "{\"description\":\"");
    for (int i = 0; i <= SCHEMA_MAX_BYTES; i++)
        str_putc(&s, 'x');
    str_puts(&s, "\"}");
    assert_int_equal(compile_text(s.s, s.n, &ms, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "1048576 bytes"));
    str_fini(&s);
}

/* Each of these alone is fine; together they would take minutes. */
static void work_is_bounded_over_the_whole_schema(void **state)
{
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct str s = {0};
        struct glim_err e = {0};
        double ms;
        str_puts(&s, "{\"properties\":{");
        for (int i = 1; i < 400; i++) {
            char text[128];
            snprintf(text, sizeof text,
                     k == 0   ? "\"pattern\":\"^(a|b)*a(a|b){11}x{%d}$\""
                     : k == 1 ? "\"maxLength\":5000,\"pattern\":\"^[a-z]*%d$\""
                              : "\"type\":\"number\",\"multipleOf\":20%d.1",
                     i);
            str_printf(&s, "%s\"p%d\":{%s}", i > 1 ? "," : "", i, text);
        }
        str_puts(&s, "}}");
        assert_int_equal(compile_text(s.s, s.n, &ms, &e), GLIM_REFUSED);
        print_message("%s: %.0f ms\n", e.message, ms);
        assert_true(ms < 4000 * SLOW);
        str_fini(&s);
    }
}

/* The same shared "true" and the same object in two places, as a program may build a schema. */
static void shared_values_are_fine(void **state)
{
    (void)state;
    struct bytes_grammar g;
    struct glim_err e = {0};
    json_setup();
    json_t *part = json_pack("{s:s}", "type", "integer");
    json_t *schema = json_pack("{s:s,s:{s:O,s:o},s:[s,s]}", "type", "object", "properties", "a", part, "b", part,
                               "required", "a", "b");
    assert_int_equal(schema_open(&g, schema, SCHEMA_SPACE_NONE, &e), GLIM_OK);
    assert_true(bytes_accept(&g, "{\"a\":1,\"b\":2}", 13));
    json_decref(schema);
    bytes_close(&g);
}

static void lack_of_memory_is_an_error_at_every_point(void **state)
{
    (void)state;
    static const char *const schema[] = {
        "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/"
        "s\"},\"b\":{\"type\":[\"number\",\"null\"],\"minimum\":-1.5,"
        "\"multipleOf\":0.5}},\"patternProperties\":{\"^x\":{\"maxLength\":3}},\"required\":[\"a\"],\"$defs\":{\"s\":{"
        "\"type\":"
        "\"string\",\"pattern\":\"^[a-b]{1,2}$\",\"maxLength\":5}},\"propertyNames\":{\"maxLength\":4}}",
        "{\"oneOf\":[{\"multipleOf\":3},{\"multipleOf\":5,\"minimum\":1}],\"type\":\"integer\",\"not\":{\"enum\":[6,"
        "\"x\"]}}",
        "{\"if\":{\"properties\":{\"k\":{\"const\":1}}},\"then\":{\"prefixItems\":[{\"enum\":[[1,{\"a\":\"b\"}]]}],"
        "\"minItems\":1},"
        "\"else\":{\"dependentRequired\":{\"k\":[\"l\"]}},\"$id\":\"http://a/b\",\"$anchor\":\"c\"}"};
    for (size_t i = 0; i < sizeof schema / sizeof *schema; i++) {
        json_t *j;
        struct glim_err e = {0};
        struct grammar *g = NULL;
        long n = 0;
        glim_status st = GLIM_FAILED;
        assert_int_equal(json_parse(schema[i], strlen(schema[i]), "schema", &j, &e), GLIM_OK);
        while (st != GLIM_OK) {
            assert_true(++n < 100000);
            mem_fail_after(n);
            st = schema_compile(&g, j, NULL, &e);
            mem_fail_after(0);
            if (st != GLIM_OK && !strstr(e.message, "out of memory"))
                fail_msg("%zu, allocation %ld: %s", i, n, e.message);
            if (n > 400 && st != GLIM_OK)
                n += n / 50;
        }
        assert_true(n > 100);
        grammar_free(g);
        json_decref(j);
    }
}

/* ---- for tests/model/test_schema.py ---- */

/* For each case of a file that is not refused, n walks; every so many a line "index, tab, sentence". */
static int print_walks(const char *file, long n, long every)
{
    json_t *cases = cases_of(file);
    struct str s = {0};
    uint64_t seed = 1;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        struct bytes_grammar g;
        struct glim_err e = {0};
        if (json_object_get(c, "refused"))
            continue;
        if (schema_open(&g, json_object_get(c, "schema"), SCHEMA_SPACE_MAYBE, &e) != GLIM_OK) {
            fprintf(stderr, "%s\n", e.message);
            return 1;
        }
        for (long k = 0; k < n; k++) {
            if (!walk_sentence(&g, &seed, &s, &e)) {
                fprintf(stderr, "%s: case %zu: %s\n", file, i, e.message);
                return 1;
            }
            if (k % every == 0)
                printf("%zu\t%s\n", i, s.s);
        }
        bytes_close(&g);
    }
    str_fini(&s);
    json_decref(cases);
    return 0;
}

/* Lines "index, tab, text" from standard input, in ascending order: a 1 or 0 for each. */
static int print_checks(const char *file)
{
    json_t *cases = cases_of(file);
    struct bytes_grammar g = {0};
    struct glim_err e = {0};
    char *line = NULL;
    size_t cap = 0, open = SIZE_MAX;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        char *tab = strchr(line, '\t');
        size_t i = (size_t)strtoul(line, NULL, 10), len = (size_t)(line + n - tab) - 1;
        if (i != open) {
            bytes_close(&g);
            if (schema_open(&g, json_object_get(json_array_get(cases, i), "schema"), SCHEMA_SPACE_MAYBE, &e) != GLIM_OK)
                return 1;
            open = i;
        }
        puts(bytes_accept(&g, tab + 1, tab[len] == '\n' ? len - 1 : len) ? "1" : "0");
    }
    bytes_close(&g);
    free(line);
    json_decref(cases);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "walk") == 0)
        return print_walks(argv[2], strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "check") == 0)
        return print_checks(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_is_decided_as_it_says),
        cmocka_unit_test(objects_may_be_closed),
        cmocka_unit_test(walks_end_and_are_json),
        cmocka_unit_test(white_space_is_what_was_asked_for),
        cmocka_unit_test(schemas_are_parts_of_larger_grammars),
        cmocka_unit_test(every_keyword_is_explained),
        cmocka_unit_test(large_schemas_compile_quickly),
        cmocka_unit_test(many_optional_members_stay_linear),
        cmocka_unit_test(hostile_schemas_end_in_a_sentence),
        cmocka_unit_test(work_is_bounded_over_the_whole_schema),
        cmocka_unit_test(shared_values_are_fine),
        cmocka_unit_test(lack_of_memory_is_an_error_at_every_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
