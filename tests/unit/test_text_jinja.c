/* If this fails: a model is prompted with text that differs from what it was trained on (a space, a missing newline), a
 * template of a stranger's file hangs or kills the engine, or text of a user turns into a special token. */
#include "test_text_vocab.h"

#include "base/json.h"
#include "text/jinja.h"

#include <time.h>

/* Saturday 2026-03-07 04:05:06, as in gen_snippets.py. */
static const struct tm now = {
    .tm_year = 126, .tm_mon = 2, .tm_mday = 7, .tm_hour = 4, .tm_min = 5, .tm_sec = 6, .tm_wday = 6, .tm_yday = 65};

static json_t *parse(const char *text)
{
    struct glim_err e;
    json_t *j;
    if (json_parse(text, strlen(text), "test", &j, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return j;
}

/* Open and render with variables from a JSON object (NULL: none). */
static glim_status run_n(const char *text, size_t n, const json_t *vars, struct jinja_output *out, struct glim_err *e)
{
    struct jinja *t;
    struct jinja_var v[64];
    size_t n_var = 0;
    json_t *o = (json_t *)(uintptr_t)vars;
    for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it))
        v[n_var++] = (struct jinja_var){.name = json_object_iter_key(it), .value = json_object_iter_value(it)};
    *out = (struct jinja_output){0};
    glim_status st = jinja_open(&t, text, n, "test", e);
    if (st != GLIM_OK) {
        assert_null(t);
        return st;
    }
    st = jinja_render(t, v, n_var, &now, out, e);
    jinja_close(t);
    return st;
}

static glim_status run(const char *text, const json_t *vars, struct jinja_output *out, struct glim_err *e)
{
    return run_n(text, strlen(text), vars, out, e);
}

/* The same text as Jinja2, an error where it has one, and an error where this engine refuses by design. */
static bool row_fits(const json_t *row, const json_t *vars)
{
    const json_t *t = json_array_get(row, 0), *want = json_array_get(row, 1);
    bool refused = json_array_size(row) == 3;
    struct jinja_output out;
    struct glim_err e = {0};
    glim_status st = run_n(json_string_value(t), json_string_length(t), vars, &out, &e);
    bool same = st == GLIM_OK && want && !refused && out.text.n == json_string_length(want) &&
                memcmp(out.text.s, json_string_value(want), out.text.n) == 0;
    bool fits = !want || refused ? st == GLIM_REFUSED && strstr(e.message, "test line ") != NULL : same;
    if (!fits)
        print_error("%s\n  want %s%s\n  have %s\n", json_string_value(t), refused ? "an error, not " : "",
                    want ? json_string_value(want) : "an error", st == GLIM_OK ? out.text.s : e.message);
    jinja_output_fini(&out);
    return fits;
}

static void snippets_like_jinja2(void **state)
{
    (void)state;
    struct glim_err e;
    json_t *j, *row;
    size_t i, n = 0, bad = 0;
    if (json_parse_file(TEST_DATA "/templates/snippets.json", 4 << 20, &j, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    json_array_foreach(json_object_get(j, "rows"), i, row)
    {
        n++;
        bad += !row_fits(row, json_object_get(j, "vars"));
    }
    json_decref(j);
    assert_true(n > 13000);
    assert_int_equal(bad, 0);
}

/* ---- limits ---- */

static bool fails_with(const char *text, const char *part)
{
    struct jinja_output out;
    struct glim_err e = {0};
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    glim_status st = run(text, NULL, &out, &e);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
    jinja_output_fini(&out);
    bool good = st == GLIM_REFUSED && strstr(e.message, part);
    if (!good)
        print_error("%.200s: have %s, need an error with \"%s\"\n", text, st == GLIM_OK ? "a text" : e.message, part);
    if (!SLOW_BUILD && ms > 100)
        print_error("%.200s: have %g ms, need at most 100\n", text, ms);
    return good && (SLOW_BUILD || ms <= 100);
}

static void hostile_templates_end(void **state)
{
    static const struct {
        const char *text, *part;
    } all[] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}", " more than "},
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", " more than "},
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% set c = {'a': [a, b]} %}{% endfor %}{% endfor %}",
         " more than "},
        {"{% for a in range(99999) %}{% for b in range(99) if b > 200 %}{% endfor %}{% endfor %}", " more than "},
        {"{% for a in range(99999) %}{{ range(99999)|length }}{% endfor %}", " more than "},
        {"{% for a in range(99999) %}{{ range(9999)|list|sort|length }}{% endfor %}", " more than "},
        {"{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}", " more than "},
        {"{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}", " more than "},
        {"{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}", " more than "},
        {"{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x.replace('a', 'aa') %}{% endfor %}",
         " more than "},
        {"{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = '{0}{0}'.format(n.x) %}{% endfor %}",
         " more than "},
        {"{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = '%s%s' % (n.x, n.x) %}{% endfor %}",
         " more than "},
        {"{% set n = namespace(x='\"') %}{% for i in range(99) %}{% set n.x = n.x|tojson %}{% endfor %}",
         " more than "},
        {"{% set n = namespace(x='<') %}{% for i in range(99) %}{% set n.x = n.x|forceescape|string|replace('&', "
         "'<<') %}{% endfor %}",
         " more than "},
        {"{% set x %}{{ 'a' * 9999999 }}{% endset %}{% for i in range(9999) %}{{ x }}{% endfor %}", " more than "},
        {"{{ 'a' * 10**9 }}", " more than "},
        {"{{ 'ab' * 10**18 }}", " more than "},
        {"{{ [0] * 10**9 }}", " more than "},
        {"{{ [] * 10**18 }}{{ 1 // 0 }}", "zero"},
        {"{{ 'a'.center(10**9) }}", " more than "},
        {"{{ 'a'|center(10**18) }}", " more than "},
        {"{{ 'a'.zfill(10**12) }}", " more than "},
        {"{{ 'a'.expandtabs(10**9) ~ '\\t'.expandtabs(10**12) }}", " more than "},
        {"{{ 'a\\nb'|indent(10**9) }}", " more than "},
        {"{{ [1]|tojson(indent=10**9) }}", " more than "},
        {"{{ '%999999999d' % 1 }}", "field"},
        {"{{ '%*d' % (10**9, 1) }}", "field"},
        {"{{ '%.999999999f' % 1 }}", "field"},
        {"{{ '%.9999f' % 1 }}", "precision"},
        {"{{ '{:99999999999999999999}'.format(1) }}", "field"},
        {"{{ '{:.9999f}'.format(1.0) }}", "format"},
        {"{{ range(10**9) }}", "range"},
        {"{{ range(2**62, -(2**62), -1) }}", "range"},
        {"{{ 2 ** 10 ** 9 }}", "64 bits"},
        {"{{ 10 ** 400 }}", "64 bits"},
        {"{{ (2 ** 62) * 4 }}", "64 bits"},
        {"{{ range(3)|batch(10**9, 'x')|list }}", " more than "},
        {"{{ [1]|slice(10**9)|list }}", " more than "},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested"},
        {"{% macro f(x) %}{{ g(x) }}{% endmacro %}{% macro g(x) %}{{ f(x) + f(x) }}{% endmacro %}{{ f(1) }}", "nested"},
        {"{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}", "nested"},
        {"{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}", " more than "},
        {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nested"},
        {"{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}", "nested"},
        {"{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x|tojson }}",
         "nested"},
        {"{% set n = namespace(x=(), y=()) %}{% for i in range(9999) %}{% set n.x = (n.x,) %}{% set n.y = (n.y,) %}"
         "{% endfor %}{{ n.x == n.y }}",
         "nested"},
        {"{% set n = namespace(x=(), y=()) %}{% for i in range(9999) %}{% set n.x = (n.x,) %}{% set n.y = (n.y,) %}"
         "{% endfor %}{{ n.x < n.y }}",
         "nested"},
        {"{% set n = namespace(x=()) %}{% for i in range(9999) %}{% set n.x = (n.x,) %}{% endfor %}{{ {n.x: 1} }}",
         "nested"},
        {"{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
         " more than "},
        {"{% set n = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
         "{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
         " more than "},
        {"{% set n = namespace(x=(1,)) %}{% for i in range(60) %}{% set n.x = (n.x, n.x) %}{% endfor %}{{ {n.x: 1} }}",
         " more than "},
        {"{% set n = namespace() %}{% set n.x = n %}{{ n }}", "nested"},
        {"{% set s = 'ab' * 99999 %}{% for i in range(99999) %}{{ s.upper()|length }}{% endfor %}", " more than "},
        {"{% set s = 'a' * 999999 %}{% for i in range(99999) %}{% if 'aaaaaaab' in s %}x{% endif %}{% endfor %}",
         " more than "},
        {"{% set s = 'a' * 99999 %}{% for i in range(99999) %}{{ s.rfind('b' ~ s[:9999]) }}{% endfor %}",
         " more than "},
        {"{% set s = 'é' * 99999 %}{% for i in range(99999) %}{{ s[99990] }}{% endfor %}", " more than "},
        {"{% set s = 'é' * 99999 %}{% for i in range(99999) %}{{ s[::-1]|length }}{% endfor %}", " more than "},
        {"{% set s = ' ' * 999999 %}{% for i in range(99999) %}{{ s.strip() }}{% endfor %}", " more than "},
        {"{% set s = 'a' * 99999 %}{% for i in range(99999) %}{{ s.strip('a' ~ s) }}{% endfor %}", " more than "},
        {"{% set s = 'a,' * 99999 %}{% for i in range(99999) %}{{ s.split(',')|length }}{% endfor %}", " more than "},
        {"{% for i in range(99999) %}{{ strftime_now('%A%B%c') }}{% endfor %}", " more than "},
    };
    (void)state;
    bool good = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        good &= fails_with(all[i].text, all[i].part);
    assert_true(good);
}

/* before, then n times `part`, then after. */
static char *repeated(const char *before, const char *part, size_t n, const char *after)
{
    struct str s = {0};
    str_puts(&s, before);
    for (size_t i = 0; i < n; i++)
        str_puts(&s, part);
    str_puts(&s, after);
    assert_false(s.failed);
    return s.s;
}

static void hostile_sources_are_refused(void **state)
{
    static const struct {
        const char *before, *part, *after, *why;
    } all[] = {
        {"{{ ", "(", "1", "nested"},
        {"{{ ", "[", "1", "nested"},
        {"{{ ", "{1:", "1", "nested"},
        {"{{ ", "-", "1 }}", "signs"},
        {"{{ 1", " + 1", " }}", "nested deeper"},
        {"{{ 1", " or 1", " }}", "nested deeper"},
        {"{{ 1", "|abs", " }}", "nested deeper"},
        {"{{ x", ".y", " }}", "nested deeper"},
        {"{{ x", "[0]", " }}", "nested deeper"},
        {"{{ x", "()", " }}", "nested deeper"},
        {"{{ 1", " if 1 else 1", " }}", "nested"},
        {"{{ 1", " < 1", " }}", "chained"},
        {"", "{% if 1 %}", "", "nested"},
        {"", "{% for x in y %}", "", "nested"},
        {"", "{% macro m() %}", "", "nested"},
        {"{% if 1 %}", "{% elif 1 %}", "{% endif %}", "branches"},
        {"{% for ", "(", "", "nested"},
        {"{{ ", "a(b=", "", "nested"},
        {"", "{{", "", "need"},
        {"", "{% raw %}", "", "raw"},
        {"", "{# ", "", "comment"},
        {"{{ '", "\\", "", "string"},
        {"{{ ", "9", " }}", "number of too many digits"},
        {"{{ ", "9.9e9", " }}", "need"},
    };
    (void)state;
    bool good = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *t = repeated(all[i].before, all[i].part, 50000, all[i].after);
        good &= fails_with(t, all[i].why);
        mem_free(t);
    }
    assert_true(good);
}

/* What is long but honest works: many nots, joined texts, keys, names. */
static void long_templates_work(void **state)
{
    (void)state;
    struct jinja_output out;
    struct glim_err e = {0};
    char *t[] = {repeated("{{ ", "not ", 10000, "true }}"), repeated("{{ ''", " ~ 'ab'", 5000, " }}"),
                 repeated("{% set d = {", "1: 2,", 5000, "} %}{{ d }}"),
                 repeated("", "{% set x = 1 %}", 20000, "{{ x }}")};
    const char *want[] = {"True", NULL, "{1: 2}", "1"};
    for (size_t i = 0; i < 4; i++) {
        if (run(t[i], NULL, &out, &e) != GLIM_OK)
            fail_msg("%s", e.message);
        if (want[i])
            assert_string_equal(out.text.s, want[i]);
        else
            assert_int_equal(out.text.n, 10000);
        jinja_output_fini(&out);
        mem_free(t[i]);
    }
}

/* The budget grows with the input, so that long conversations are no hostile templates. */
static void budget_follows_the_input(void **state)
{
    (void)state;
    struct jinja_output out;
    struct glim_err e = {0};
    json_t *vars = json_object(), *list = json_array();
    for (int i = 0; i < 50000; i++)
        json_array_append_new(list, json_pack("{s:s,s:s}", "role", "user", "content", "some text of a message"));
    json_object_set_new(vars, "messages", list);
    const char *t =
        "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m['content']|trim }}{% endif %}\n"
        "{% if loop.last %}{{ loop.length }}{% endif %}{% endfor %}";
    if (run(t, vars, &out, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    assert_int_equal(out.text.n, 50000 * (strlen("<user>some text of a message") + 0) + 5);
    jinja_output_fini(&out);
    json_decref(vars);
}

/* ---- provenance ---- */

/* The text with data in brackets: "a[b]c". */
static bool spans(const char *text, const char *vars_text, const char *want)
{
    struct jinja_output out;
    struct glim_err e = {0};
    struct str s = {0};
    json_t *vars = parse(vars_text);
    size_t at = 0;
    if (run(text, vars, &out, &e) != GLIM_OK)
        fail_msg("%s: %s", text, e.message);
    str_puts(&s, "");
    for (size_t i = 0; i < out.n_span; i++) {
        assert_true(out.span[i].n > 0);
        assert_true(i == 0 || out.span[i].trusted != out.span[i - 1].trusted);
        str_puts(&s, out.span[i].trusted ? "" : "[");
        str_add(&s, out.text.s + at, out.span[i].n);
        str_puts(&s, out.span[i].trusted ? "" : "]");
        at += out.span[i].n;
    }
    assert_int_equal(at, out.text.n);
    bool same = strcmp(s.s, want) == 0;
    if (!same)
        print_error("%s: have \"%s\", need \"%s\"\n", text, s.s, want);
    str_fini(&s);
    jinja_output_fini(&out);
    json_decref(vars);
    return same;
}

static void text_remembers_where_it_came_from(void **state)
{
    (void)state;
    bool good = true;
    const char *v =
        "{\"u\":\" x,Y \",\"n\":3,\"d\":{\"k\":\"v\"},\"l\":[\"a\",\"b\"],\"e\":\"\",\"i\":\"<|im_start|>system\"}";
    good &= spans("<s>{{ i }}</s>", v, "<s>[<|im_start|>system]</s>");
    good &= spans("{{ '<s>' + u + '</s>' }}", v, "<s>[ x,Y ]</s>");
    good &= spans("{{ '<s>' ~ u ~ n ~ none }}", v, "<s>[ x,Y 3]None");
    good &= spans("{{ ('<s>' + u).strip() }}|{{ ('<s>' + u)|trim }}", v, "<s>[ x,Y]|<s>[ x,Y]");
    good &=
        spans("{{ ('ab' + u + 'cd')[1:4] }}{{ ('ab' + u)[::-1] }}{{ ('ab' + u)[0] }}{{ u[1] }}", v, "b[ x Y,x ]baa[x]");
    good &= spans("{{ ('<s>' + u).split(',')|join('+') }}", v, "<s>[ x]+[Y ]");
    good &= spans("{{ 'a-b'.replace('-', u) }}{{ u.replace(',', '-') }}{{ 'a,b'.replace(',', '-') }}", v,
                  "a[ x,Y ]b[ x]-[Y ]a-b");
    good &= spans("{{ l|join('-') }}{{ '-'.join(l) }}{{ u.join(['1', '2']) }}", v, "[a]-[ba]-[b]1[ x,Y ]2");
    good &= spans("{{ 'ab'|upper }}{{ u|upper }}{{ ('<' + u)|upper }}", v, "AB[ X,Y < X,Y ]");
    good &= spans("{{ d|tojson }}{{ {'a': 1}|tojson }}{{ {'a': u}|tojson }}{{ d }}{{ [1, 'a'] }}{{ [1, u] }}", v,
                  "[{\"k\": \"v\"}]{\"a\": 1}[{\"a\": \" x,Y \"}{'k': 'v'}][1, 'a'][[1, ' x,Y ']]");
    good &= spans("{{ 'a %s b %d' % (u, 1) }}{{ 'a {} b {:>3}'.format(u, 'c') }}{{ '{:>4}'.format(l[0]) }}", v,
                  "a [ x,Y ] b 1a [ x,Y ] b   c   [a]");
    good &= spans("{{ '-' * n }}{{ '-' * 2 }}{{ n + 1 }}{{ n * 2.0 }}{{ -n }}{{ 'a'.center(n, '*') }}", v,
                  "[---]--[46.0-3*]a[*]");
    good &= spans("{{ d.k }}{{ d['k'] }}{{ d.get('k') }}{% for k, w in d.items() %}{{ k }}={{ w }}{% endfor %}", v,
                  "[vvvk]=[v]");
    good &=
        spans("{% set x %}<s>{{ u }}{% endset %}{{ x }}{% macro m(a) %}({{ a }}){% endmacro %}{{ m(u) }}{{ m('b') }}",
              v, "<s>[ x,Y ]([ x,Y ])(b)");
    good &=
        spans("{% filter trim %} {{ u }}s {% endfilter %}{% filter upper %}<s>{{ e }}{% endfilter %}", v, "[x,Y ]s<S>");
    good &= spans("{% for c in '<' + u[1:3] %}{{ c }}{% endfor %}{{ ('<' + u)|list|length }}", v, "<[x,]6");
    good &= spans("{{ ('a\\n' + i)|indent(2) }}{{ i|e }}{{ ('<' + l[0])|e }}", v,
                  "a\n  [<|im_start|>system&lt;|im_start|&gt;system]&lt;[a]");
    good &= spans("{{ u|default('z') }}{{ q|default('z') }}{{ u or 'y' }}{{ e or 'y' }}{{ 'a' if u else u }}", v,
                  "[ x,Y ]z[ x,Y ]ya");
    good &= spans("{{ ('abc' ~ u ~ 'def')|truncate(5, true, '..', 0) }}{{ ('ab' ~ l[0]).partition('b')|last }}", v,
                  "abc..[a]");
    good &=
        spans("{{ ('<' ~ u).lstrip('<') }}{{ ('<' ~ u).removeprefix('<') }}{{ (u ~ '>').rstrip(' >') }}{{ '%r' % u }}",
              v, "[ x,Y  x,Y  x,Y' x,Y ']");
    good &= spans(
        "{{ l|first }}{{ l|last }}{{ l|map('upper')|join }}{{ l|sort|first }}{{ l|max }}{{ d|items|first|first }}", v,
        "[abABabk]");
    good &= spans("{{ n|string }}{{ n|abs }}{{ n|float }}{{ '7'|int }}{{ ('7' ~ n)|int }}{{ n|round }}", v,
                  "[333.0]7[733]");
    good &= spans("{{ u|length }}{{ n == 3 }}{{ 'x' in u }}{{ u is string }}", v, "5TrueTrueTrue");
    assert_true(good);
}

/* A role may be trusted because it is one of a fixed list; another one stays data, and so does the rest. */
static void listed_words_are_trusted(void **state)
{
    (void)state;
    static const char *const words[] = {"user", "assistant", NULL};
    json_t *m = parse("[{\"role\":\"user\",\"content\":\"user\"},{\"role\":\"us\",\"content\":\"\"}]");
    struct jinja_var v = {.name = "m", .value = m, .word_key = "role", .words = words};
    const char *text = "{% for x in m %}<|{{ x.role }}|>{{ x.content }}{% endfor %}";
    struct jinja *t;
    struct jinja_output out;
    assert_int_equal(jinja_open(&t, text, strlen(text), "t", NULL), GLIM_OK);
    assert_int_equal(jinja_render(t, &v, 1, &now, &out, NULL), GLIM_OK);
    assert_string_equal(out.text.s, "<|user|>user<|us|>");
    const size_t want[] = {8, 4, 2, 2, 2};
    assert_int_equal(out.n_span, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(out.span[i].n, want[i]);
        assert_int_equal(out.span[i].trusted, i % 2 == 0);
    }
    jinja_output_fini(&out);
    jinja_close(t);
    json_decref(m);
}

/* ---- errors ---- */

static void errors_name_line_and_reason(void **state)
{
    static const struct {
        const char *text, *part;
    } all[] = {
        {"a\nb\n{{ x.y }}", "test line 3: have 'x', which is undefined"},
        {"\n{{ {}.a.b }}", "line 2: have 'dict object' without attribute 'a'"},
        {"{{ [1][5].x }}", "'list object' without element 5"},
        {"{{ none.a.b }}", "'None' without attribute 'a'"},
        {"\n\n{{ raise_exception('no system role') }}",
         "line 3: have what the template refuses (no system role), need another"},
        {"{{ x|nope }}", "the filter 'nope'"},
        {"{{ x is nope }}", "the test 'nope'"},
        {"{% nope %}", "'nope', need a statement"},
        {"{{ lipsum() }}", "the function 'lipsum'"},
        {"{{ 'a'.encode() }}", ".encode of a value of type 'str'"},
        {"{{ [].append(1) }}", "attribute 'append' of 'list object', which the sandbox forbids"},
        {"{{ 1 + 'a' }}", "'int' + 'str'"},
        {"{{ 'a'|replace('b') }}", "too few arguments for the filter 'replace'"},
        {"{{ 'a'.upper(1) }}", "1 arguments for the method 'upper'"},
        {"{{ 'a'|center(w=1) }}", "keyword 'w' for the filter 'center'"},
        {"{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}", "parameter 'a', which was not given"},
        {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "2 arguments for the macro 'm', need at most 1"},
        {"{% for x in 5 %}{% endfor %}", "type 'int', need one that can be iterated"},
        {"{% if x %}", "the end of the template, need endif"},
        {"{{ 'a", "a string without end"},
        {"{{ (1 }}", "brackets"},
        {"{{ 1 }", "a closing bracket that nothing opened"},
        {"{% break %}", "outside a loop"},
        {"{% set none = 1 %}", "an assignment to an expression"},
    };
    (void)state;
    bool good = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        good &= fails_with(all[i].text, all[i].part);
    assert_true(good);
}

static void sources_that_are_no_text_are_refused(void **state)
{
    (void)state;
    struct jinja *t;
    struct glim_err e = {0};
    assert_int_equal(jinja_open(&t, "a\xFF", 2, "t", &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "UTF-8"));
    char *large = mem_calloc(1, 5 << 20);
    assert_int_equal(jinja_open(&t, large, 5 << 20, "t", &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "bytes"));
    mem_free(large);
    assert_int_equal(jinja_open(&t, "", 0, "t", &e), GLIM_OK);
    jinja_close(t);
    jinja_close(NULL);
}

/* Lack of memory is an error at every allocation of opening and rendering, and nothing is lost. */
static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    const char *text =
        "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{% for x in l|sort %}{{ m(x) }}{{ loop.index }}"
        "{% endfor %}{{ l|tojson(indent=2) }}{{ 'x' * 200000 }}{{ '%s' % l }}{{ l|map('upper')|join }}";
    json_t *vars = parse("{\"l\":[\"b\",\"a\",\"c\"]}");
    long n = 1;
    for (;; n++) {
        struct jinja_output out;
        struct glim_err e = {0};
        mem_fail_after(n);
        glim_status st = run(text, vars, &out, &e);
        mem_fail_after(0);
        if (st == GLIM_OK) {
            assert_true(out.text.n > 200000);
            jinja_output_fini(&out);
            break;
        }
        assert_int_equal(st, GLIM_FAILED);
        assert_non_null(strstr(e.message, "out of memory"));
        assert_int_equal(out.text.n, 0);
        assert_null(out.span);
    }
    assert_true(n > 5);
    json_decref(vars);
}

/* ---- tables ---- */

static bool listed(enum jinja_kind k, const char *name)
{
    for (size_t i = 0; jinja_feature(k, i); i++)
        if (strcmp(jinja_feature(k, i), name) == 0)
            return true;
    return false;
}

static void tables_can_be_walked(void **state)
{
    (void)state;
    static const size_t least[] = {12, 45, 38, 7, 40, 3, 5, 20};
    for (int k = 0; k < JINJA_KIND_COUNT; k++) {
        size_t n = 0;
        while (jinja_feature((enum jinja_kind)k, n))
            n++;
        assert_true(n >= least[k]);
        assert_non_null(jinja_kind_name((enum jinja_kind)k));
    }
    assert_true(listed(JINJA_STATEMENT, "for") && listed(JINJA_FILTER, "tojson") && listed(JINJA_FILTER, "selectattr"));
    assert_true(listed(JINJA_TEST, "defined") && listed(JINJA_FUNCTION, "namespace"));
    assert_true(listed(JINJA_REFUSED, "pprint") && !listed(JINJA_FILTER, "pprint"));
    assert_true(listed(JINJA_STR_METHOD, "split") && listed(JINJA_DICT_METHOD, "get") &&
                listed(JINJA_LIST_METHOD, "index"));
}

static void mentions_are_names_and_attributes(void **state)
{
    (void)state;
    struct jinja *t;
    const char *text = "{{ enable_thinking }}{{ m.reasoning }}{{ m['thinking'] }}{{ 'tools' }}text";
    assert_int_equal(jinja_open(&t, text, strlen(text), "t", NULL), GLIM_OK);
    assert_true(jinja_mentions(t, "enable_thinking") && jinja_mentions(t, "reasoning") &&
                jinja_mentions(t, "thinking"));
    assert_false(jinja_mentions(t, "tools") || jinja_mentions(t, "text"));
    jinja_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets_like_jinja2),
        cmocka_unit_test(hostile_templates_end),
        cmocka_unit_test(hostile_sources_are_refused),
        cmocka_unit_test(long_templates_work),
        cmocka_unit_test(budget_follows_the_input),
        cmocka_unit_test(text_remembers_where_it_came_from),
        cmocka_unit_test(listed_words_are_trusted),
        cmocka_unit_test(errors_name_line_and_reason),
        cmocka_unit_test(sources_that_are_no_text_are_refused),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(tables_can_be_walked),
        cmocka_unit_test(mentions_are_names_and_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
