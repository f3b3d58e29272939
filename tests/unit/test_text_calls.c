/* If this fails: a call that a grammar forced out of a model is not read as one, names a tool that was not offered, or
 * has arguments that its schema forbids; a model is kept from writing a call as its family does; or a tool whose schema
 * cannot be enforced is taken all the same. */
#include "test_text_schema.h"

#include "text/calls.h"

/* ---- readings ---- */

enum { MAX_CALL = 400 };

/* What the dialect's parser made of a text. */
struct reading {
    struct call {
        char name[64];
        struct str args;
        bool ended;
    } call[MAX_CALL];
    size_t n_call;
    bool unknown;
    bool repeated;   /* a tool that declares nothing was given a name twice, which no grammar can forbid */
    char bad[600];   /* of another malformed call: its reason and text */
    struct str text; /* content and reasoning */
};

static void reading_clear(struct reading *r)
{
    for (size_t i = 0; i < r->n_call; i++)
        str_fini(&r->call[i].args);
    str_fini(&r->text);
    *r = (struct reading){0};
}

static bool may_repeat(const struct reading *r, const struct dialect_event *ev)
{
    const char *name = ev->index < r->n_call ? r->call[ev->index].name : "";
    return strstr(ev->reason, " twice, need each once") && (strcmp(name, "free") == 0 || strcmp(name, "set_env") == 0);
}

static glim_status on_event(void *ctx, const struct dialect_event *ev, struct glim_err *e)
{
    struct reading *r = ctx;
    (void)e;
    if (r->repeated) /* what follows may be read otherwise than it was meant */
        return GLIM_OK;
    switch (ev->kind) {
    case DIALECT_REASONING:
    case DIALECT_CONTENT:
        str_add(&r->text, ev->text, ev->n);
        break;
    case DIALECT_CALL_BEGIN:
        assert_true(r->n_call < MAX_CALL && ev->index == r->n_call);
        snprintf(r->call[r->n_call++].name, sizeof r->call->name, "%s", ev->name);
        r->unknown |= ev->unknown_tool;
        break;
    case DIALECT_ARGUMENTS:
        str_add(&r->call[ev->index].args, ev->text, ev->n);
        break;
    case DIALECT_CALL_END:
        r->call[ev->index].ended = true;
        break;
    case DIALECT_MALFORMED:
        if (may_repeat(r, ev))
            r->repeated = r->call[ev->index].ended = true;
        else if (!*r->bad)
            snprintf(r->bad, sizeof r->bad, "%s: %.300s", ev->reason, ev->text);
        break;
    }
    return GLIM_OK;
}

static void read_text(struct reading *r, const struct dialect *d, const json_t *tools, const char *s, size_t n)
{
    struct glim_err e = {0};
    struct dialect_sink sink = {on_event, r};
    struct dialect_opts o = {.tools = tools, .parse_tools = true, .prompt = DIALECT_PROMPT_HAS_THOUGHT};
    struct dialect_parser *p;
    *r = (struct reading){0};
    assert_int_equal(dialect_parser_create(&p, d, &o, &e), GLIM_OK);
    assert_int_equal(dialect_push(p, s, n, &sink, &e), GLIM_OK);
    assert_int_equal(dialect_end(p, DIALECT_STOPPED, &sink, &e), GLIM_OK);
    dialect_parser_free(p);
}

/* ---- validity, judged here: the keywords that the tools below use ---- */

static bool has_type(const json_t *v, const char *type)
{
    if (strcmp(type, "string") == 0)
        return json_is_string(v);
    if (strcmp(type, "integer") == 0)
        return json_is_integer(v);
    if (strcmp(type, "number") == 0)
        return json_is_number(v);
    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(v);
    if (strcmp(type, "null") == 0)
        return json_is_null(v);
    if (strcmp(type, "array") == 0)
        return json_is_array(v);
    assert_string_equal(type, "object");
    return json_is_object(v);
}

static size_t characters(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static bool valid(const json_t *root, const json_t *schema, const json_t *v);

static bool valid_type(const json_t *type, const json_t *v)
{
    size_t i;
    json_t *t;
    bool ok = !type || (json_is_string(type) && has_type(v, json_string_value(type)));
    json_array_foreach(type, i, t) ok |= has_type(v, json_string_value(t));
    return ok;
}

static bool valid_object(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *list = json_object_get(schema, "required"), *more = json_object_get(schema, "additionalProperties");
    const char *name;
    json_t *x;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_object_get(v, json_string_value(json_array_get(list, i))))
            return false;
    json_object_foreach((json_t *)(uintptr_t)v, name, x)
    {
        const json_t *s = json_object_get(json_object_get(schema, "properties"), name);
        if (!valid(root, s ? s : more, x))
            return false;
    }
    return true;
}

static bool valid_array(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *min = json_object_get(schema, "minItems"), *max = json_object_get(schema, "maxItems");
    size_t n = json_array_size(v);
    if ((min && (json_int_t)n < json_integer_value(min)) || (max && (json_int_t)n > json_integer_value(max)))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!valid(root, json_object_get(schema, "items"), json_array_get(v, i)))
            return false;
    return true;
}

static bool valid_scalar(const json_t *schema, const json_t *v)
{
    const json_t *min = json_object_get(schema, "minimum"), *max = json_object_get(schema, "maximum");
    const json_t *most = json_object_get(schema, "maxLength"), *least = json_object_get(schema, "minLength");
    if (json_is_number(v))
        return (!min || json_number_value(v) >= json_number_value(min)) &&
               (!max || json_number_value(v) <= json_number_value(max));
    if (!json_is_string(v))
        return true;
    size_t n = characters(json_string_value(v));
    bool code = json_object_get(schema, "pattern") != NULL; /* always ^[A-Z]{2}$ */
    const char *s = json_string_value(v);
    return (!most || (json_int_t)n <= json_integer_value(most)) &&
           (!least || (json_int_t)n >= json_integer_value(least)) &&
           (!code || (strlen(s) == 2 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'A' && s[1] <= 'Z'));
}

static bool valid(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *list = json_object_get(schema, "enum"), *any = json_object_get(schema, "anyOf");
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    bool found = !list, some = !any;
    if (!schema || json_is_true(schema))
        return true;
    if (json_is_false(schema))
        return false;
    if (ref && !valid(root, json_object_get(json_object_get(root, "$defs"), ref + strlen("#/$defs/")), v))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        found |= json_equal(json_array_get(list, i), v);
    for (size_t i = 0; i < json_array_size(any); i++)
        some |= valid(root, json_array_get(any, i), v);
    return found && some && valid_type(json_object_get(schema, "type"), v) && valid_scalar(schema, v) &&
           (!json_is_object(v) || valid_object(root, schema, v)) && (!json_is_array(v) || valid_array(root, schema, v));
}

/* ---- walks ---- */

/* Names and parameters. */
static const struct {
    const char *name, *parameters;
} tool_row[] = {
    {"now", "{'type':'object','properties':{}}"},
    {"ping", NULL},
    {"say", "{'type':'object','required':['text'],'properties':{'text':{'type':'string'},"
            "'tone':{'enum':['calm','1','Zürich <x>']},'code':{'type':'string','pattern':'^[A-Z]{2}$'}}}"},
    {"add", "{'type':'object','required':['a','b'],'properties':{'a':{'type':'number'},"
            "'b':{'type':'integer','minimum':-3,'maximum':12},'exact':{'type':'boolean'}}}"},
    {"plan",
     "{'type':'object','required':['steps'],'properties':{'steps':{'type':'array','minItems':1,'maxItems':3,"
     "'items':{'type':'object','required':['do'],'additionalProperties':false,"
     "'properties':{'do':{'type':'string','maxLength':6},'at':{'type':'integer'}}}},'tree':{'$ref':'#/$defs/t'}},"
     "'$defs':{'t':{'type':'object','additionalProperties':false,'properties':{"
     "'kids':{'type':'array','items':{'$ref':'#/$defs/t'},'maxItems':2},'k':{'type':['string','null']}}}}}"},
    {"mixed",
     "{'type':'object','$defs':{'flag':{'type':'string','minLength':2}},'properties':{"
     "'maybe':{'type':['string','null']},'either':{'anyOf':[{'type':'string','maxLength':3},{'type':'integer'}]},"
     "'choice':{'enum':['1',2,null,'x',[1,{'k':'v'}]]},'ref':{'$ref':'#/$defs/flag'},"
     "'any':{},'list':{'type':'array','items':{'type':'string'}}}}"},
    {"set_env", "{'type':'object','additionalProperties':{'type':'string','maxLength':4}}"},
    {"free", "{'type':'object'}"},
};

static json_t *parse(const char *text)
{
    struct glim_err e = {0};
    json_t *j;
    if (json_parse(text, strlen(text), "tools", &j, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return j;
}

/* JSON with ' for ". */
static json_t *parse_quoted(const char *text)
{
    char *copy = strdup(text);
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *j = parse(copy);
    free(copy);
    return j;
}

static json_t *all_tools(void)
{
    json_t *tools = json_array();
    for (size_t i = 0; i < sizeof tool_row / sizeof *tool_row; i++) {
        json_t *f = json_pack("{s:s}", "name", tool_row[i].name);
        if (tool_row[i].parameters)
            json_object_set_new(f, "parameters", parse_quoted(tool_row[i].parameters));
        json_array_append_new(tools, i == 1 ? f : json_pack("{s:s,s:o}", "type", "function", "function", f));
    }
    return tools;
}

static const json_t *parameters_of(const json_t *tools, const char *name, bool *known)
{
    *known = false;
    for (size_t i = 0; i < json_array_size(tools) && !*known; i++) {
        const json_t *t = json_array_get(tools, i), *f = json_object_get(t, "function");
        f = f ? f : t;
        *known = strcmp(json_string_value(json_object_get(f, "name")), name) == 0;
        if (*known)
            return json_object_get(f, "parameters");
    }
    return NULL;
}

static int judge(const struct reading *r, const struct dialect *d, const json_t *tools, const char *text)
{
    int bad = 0;
    if (*r->bad || r->unknown || r->text.n) {
        print_error("%s: %s\n  malformed: %s\n  unknown: %d, text: %s\n", d->name, text, r->bad, r->unknown,
                    r->text.s ? r->text.s : "");
        bad = 1;
    }
    for (size_t i = 0; i < r->n_call && !bad; i++) {
        const struct call *c = &r->call[i];
        bool known;
        if (r->repeated && (strcmp(c->name, "free") == 0 || strcmp(c->name, "set_env") == 0))
            continue;
        const json_t *schema = parameters_of(tools, c->name, &known);
        json_t *args = c->args.n ? json_loadb(c->args.s, c->args.n, JSON_REJECT_DUPLICATES, NULL) : NULL;
        if (!args && c->args.n) /* nested objects may repeat a name that is not declared */
            args = json_loadb(c->args.s, c->args.n, 0, NULL);
        bool ok = known && c->ended && json_is_object(args) && valid(schema, schema, args);
        if (!schema && json_object_size(args))
            ok = false;
        if (!ok)
            print_error("%s: %s: %s\n  of %s\n", d->name, c->name, c->args.s ? c->args.s : "", text);
        bad += !ok;
        json_decref(args);
    }
    return bad;
}

static void open_calls(struct bytes_grammar *g, struct calls *c, const struct dialect *d, const json_t *tools,
                       const struct calls_opts *o)
{
    struct glim_err e = {0};
    if (calls_make(c, d, tools, o, &e) != GLIM_OK)
        fail_msg("%s: %s", d->name, e.message);
    assert_int_equal(bytes_open(g, c->grammar, &e), GLIM_OK);
}

static void close_calls(struct bytes_grammar *g, struct calls *c)
{
    g->grammar = NULL;
    bytes_close(g);
    calls_fini(c);
}

/* A random sentence. Free text hardly ever ends by chance, so now and then what ends something is tried. */
static bool walk_calls(struct bytes_grammar *g, const struct dialect *d, uint64_t *seed, struct str *out,
                       struct glim_err *e)
{
    const struct dialect_frame *f = &d->frame;
    const char *end[] = {f->after_value, d->quote, "\"", "'", f->after_args, f->end, "]", "}", "\"}", "1", "0", "a"};
    enum { N_END = sizeof end / sizeof *end };
    uint64_t bits[(N_TOKEN + 63) / 64];
    str_clear(out);
    grammar_state_reset(g->state);
    for (size_t step = 0, soft = walk_random(seed) % 300; step < 20000; step++) {
        uint32_t may[256], n = 0;
        bool tried = step > soft || walk_random(seed) % 8 == 0, took = false;
        if (grammar_mask(g->state, bits, e) != GLIM_OK)
            return false;
        for (uint32_t i = 0; i < 256; i++)
            if (bits[i / 64] >> (i % 64) & 1)
                may[n++] = i;
        bool done = bits[END_TOKEN / 64] >> (END_TOKEN % 64) & 1;
        if (done && (!n || step > soft || walk_random(seed) % 4 == 0))
            return grammar_accept(g->state, END_TOKEN, e) == GLIM_OK;
        for (size_t k = 0, from = walk_random(seed) % N_END; tried && k < N_END && !took; k++) {
            const char *s = end[(from + k) % N_END];
            took = s && *s && grammar_accept_bytes(g->state, s, strlen(s), e) == GLIM_OK;
            if (took)
                str_puts(out, s);
        }
        if (took)
            continue;
        uint32_t pick = n ? may[walk_random(seed) % n] : 0;
        if (grammar_accept(g->state, pick, e) != GLIM_OK)
            return false;
        str_putc(out, (char)pick);
    }
    err_set(e, GLIM_FAILED, "endless sentence: %.100s", out->s);
    return false;
}

struct tally {
    size_t calls, many, with_args, repeated;
};

static int walk(const struct dialect *d, const json_t *tools, const struct calls_opts *o, int n, struct tally *t)
{
    static struct reading r;
    struct bytes_grammar g;
    struct calls c;
    struct glim_err e = {0};
    struct str s = {0};
    uint64_t seed = 11 + (o->only_name != NULL);
    int bad = 0;
    open_calls(&g, &c, d, tools, o);
    for (int i = 0; i < n && bad < 3; i++) {
        if (!walk_calls(&g, d, &seed, &s, &e)) {
            print_error("%s: %s\n", d->name, e.message);
            bad++;
            break;
        }
        read_text(&r, d, tools, s.s, s.n);
        bad += judge(&r, d, tools, s.s);
        if (r.n_call == 0 || (!o->parallel && r.n_call > 1) ||
            (o->only_name && strcmp(r.call[0].name, o->only_name) != 0)) {
            print_error("%s: have %zu calls in %s\n", d->name, r.n_call, s.s);
            bad++;
        }
        t->calls += r.n_call;
        t->many += r.n_call > 1;
        t->repeated += r.repeated;
        for (size_t k = 0; k < r.n_call; k++)
            t->with_args += r.call[k].args.n > 2;
        reading_clear(&r);
    }
    str_fini(&s);
    close_calls(&g, &c);
    return bad;
}

static void every_sentence_is_calls_of_the_tools_with_valid_arguments(void **state)
{
    (void)state;
    static const char *const each[] = {"say", "add", "plan", "mixed", "set_env", "free"};
    json_t *tools = all_tools();
    int bad = 0;
    size_t n = 0;
    for (size_t i = 0; i < dialect_count(); i++) {
        const struct dialect *d = dialect_at(i);
        struct tally t = {0};
        if (d->syntax == DIALECT_NO_CALLS)
            continue;
        n++;
        bad += walk(d, tools, &(struct calls_opts){.parallel = true}, 200, &t);
        bad += walk(d, tools, &(struct calls_opts){0}, 100, &t);
        for (size_t k = 0; k < sizeof each / sizeof *each; k++)
            bad += walk(d, tools, &(struct calls_opts){.only_name = each[k]}, 50, &t);
        bool single = strncmp(d->name, "gigachat3", 9) == 0;
        if (t.calls < 400 || (single ? t.many > 0 : t.many < 10) || t.with_args < 100 || t.repeated > 60) {
            print_error("%s: have %zu calls, %zu answers with several, %zu with arguments, %zu with a name twice\n",
                        d->name, t.calls, t.many, t.with_args, t.repeated);
            bad++;
        }
    }
    json_decref(tools);
    assert_int_equal(bad, 0);
    assert_true(n >= 30);
}

/* ---- what families' templates write ---- */

/* A text behind a gate: every byte as a token. */
struct gated {
    struct bytes_grammar g;
    struct calls calls;
    struct grammar_gate *gate;
};

static void open_gate(struct gated *x, const struct dialect *d, const json_t *tools, const struct calls_opts *o)
{
    struct glim_err e = {0};
    open_calls(&x->g, &x->calls, d, tools, o);
    x->gate = NULL;
    if (x->calls.n_trigger &&
        grammar_gate_create(&x->gate, x->g.matcher, x->calls.trigger, x->calls.n_trigger, true, &e) != GLIM_OK)
        fail_msg("%s: %s", d->name, e.message);
}

static void close_gate(struct gated *x)
{
    grammar_gate_free(x->gate);
    close_calls(&x->g, &x->calls);
}

/* How many bytes of the text are admitted. */
static size_t admitted(struct gated *x, const char *s, size_t n)
{
    size_t i = 0;
    if (x->gate)
        grammar_gate_rollback(x->gate, grammar_gate_taken(x->gate));
    else
        grammar_state_reset(x->g.state);
    while (i < n && (x->gate ? grammar_gate_accept(x->gate, (uint8_t)s[i], NULL)
                             : grammar_accept(x->g.state, (uint8_t)s[i], NULL)) == GLIM_OK)
        i++;
    return i;
}

static bool may_end(const struct gated *x)
{
    return x->gate ? grammar_gate_can_end(x->gate) : grammar_can_end(x->g.state);
}

static json_t *data(const char *name)
{
    char path[512];
    struct glim_err e = {0};
    json_t *j;
    snprintf(path, sizeof path, "%s/dialects/%s.json", TEST_DATA, name);
    if (json_parse_file(path, 4 << 20, &j, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    return j;
}

/* Apriel's template adds ids to calls. Kimi K3's closes the message after its calls, where the grammar has the end
 * token at once. */
static bool otherwise(const struct dialect *d)
{
    return strcmp(d->name, "apriel") == 0 || strcmp(d->name, "kimi-k3") == 0;
}

static void calls_that_templates_write_are_admitted(void **state)
{
    (void)state;
    json_t *tools = data("tools"), *cases = data("rendered");
    size_t n = 0, n_call = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *want = json_object_get(c, "want");
        const json_t *last = json_array_get(want, json_array_size(want) - 1);
        const struct dialect *d = dialect_by_name(json_string_value(json_object_get(c, "dialect")));
        const char *s = json_string_value(json_object_get(c, "text"));
        struct gated x;
        if (!json_object_get(last, "call") || otherwise(d))
            continue;
        open_gate(&x, d, tools, &(struct calls_opts){.parallel = true, .lazy = true});
        size_t n_text = strlen(s);
        while (n_text && strchr(" \n", s[n_text - 1]))
            n_text--;
        size_t taken = admitted(&x, s, n_text);
        if (!may_end(&x) || taken < n_text) {
            print_error("%s: at %zu: %.40s\n  of %s\n", json_string_value(json_object_get(c, "title")), taken,
                        s + taken, s);
            n++;
        }
        n_call++;
        close_gate(&x);
    }
    json_decref(tools);
    json_decref(cases);
    assert_int_equal(n, 0);
    assert_true(n_call > 90);
}

/* ---- calls that may come ---- */

/* Text before a call that leaves the parser where the call's first marker counts. */
static const char *before_of(const struct dialect *d)
{
    if (strcmp(d->name, "harmony") == 0)
        return "<|channel|>commentary ";
    if (strcmp(d->name, "atem") == 0)
        return " ";
    return "Let me <see>, [then] {call}.";
}

static int walk_gate(struct gated *x, const struct dialect *d, const json_t *tools, int n)
{
    static struct reading r;
    struct glim_err e = {0};
    struct str s = {0}, whole = {0};
    uint64_t seed = 5;
    int bad = 0;
    const char *before = x->gate ? before_of(d) : "";
    for (int i = 0; i < n && bad < 3; i++) {
        if (!walk_calls(&x->g, d, &seed, &s, &e)) {
            print_error("%s: %s\n", d->name, e.message);
            bad++;
            break;
        }
        if (strcmp(d->name, "atem") == 0 && strncmp(s.s, "to=", 3) != 0)
            continue; /* goes on in a message to a group of tools */
        str_clear(&whole);
        str_puts(&whole, before);
        str_add(&whole, s.s, s.n);
        if (admitted(x, whole.s, whole.n) != whole.n || !may_end(x)) {
            print_error("%s: the gate stops at %zu of %s\n", d->name, admitted(x, whole.s, whole.n), whole.s);
            bad++;
        }
        read_text(&r, d, tools, whole.s ? whole.s : "", whole.n);
        if (x->gate && r.n_call == 0) {
            print_error("%s: no call in %s\n", d->name, whole.s);
            bad++;
        }
        r.text.n = 0;
        bad += judge(&r, d, tools, whole.s ? whole.s : "");
        reading_clear(&r);
    }
    str_fini(&s);
    str_fini(&whole);
    return bad;
}

static void text_is_free_until_a_call_begins(void **state)
{
    (void)state;
    json_t *tools = all_tools();
    int bad = 0;
    for (size_t i = 0; i < dialect_count(); i++) {
        const struct dialect *d = dialect_at(i);
        struct gated x;
        static const char plain[] = "No <call> \xff needed, 2 < 3; [x] {y} `z` \"q\" and a line\n";
        if (d->syntax == DIALECT_NO_CALLS)
            continue;
        open_gate(&x, d, tools, &(struct calls_opts){.parallel = true, .lazy = true});
        bool bare = d->flags & DIALECT_BARE;
        if (bare != !x.gate || admitted(&x, "", 0) != 0 || !may_end(&x)) {
            print_error("%s: an empty answer\n", d->name);
            bad++;
        }
        size_t n = bare ? (size_t)(strchr(plain, '\xff') - plain) : strlen(plain);
        if (admitted(&x, plain, n) != n || !may_end(&x)) {
            print_error("%s: plain text\n", d->name);
            bad++;
        }
        bad += walk_gate(&x, d, tools, 200);
        close_gate(&x);
    }
    json_decref(tools);
    assert_int_equal(bad, 0);
}

/* dialect, text, whether it is a beginning of an answer, whether it is one. Tools: those of the walks. */
static const struct {
    const char *dialect, *text;
    bool taken, whole;
} lazy_case[] = {
    {"hermes", "Hi.<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", true, true},
    {"hermes", "Hi.<tool_call>\n{\"name\": \"now\", \"arguments\": {}}", true, false},
    {"hermes", "<tool_call>\n{\"name\": \"nowhere\"", false, false},
    {"hermes", "<tool_call>oops", false, false},
    {"hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call> and", false, false},
    {"hermes", "<tool_call>\n{\"name\": \"ping\", \"arguments\": {\"a\"", false, false},
    {"hermes", "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 13", false, false},
    {"hermes", "<tool_call>\n{\"name\": \"say\", \"arguments\": {\"text\": \"\", \"more\"", false, false},
    {"hermes", "<tool_call>\n{\"name\": \"free\", \"arguments\": {\"text\": \"\", \"more\"", true, false},
    {"pythonic", "[say(text='', more", false, false},
    {"pythonic", "[free(text='', more=[{'k': None", true, false},
    {"pythonic", "[mixed(choice=[1, {'k': \"v\"}])]", true, true},
    {"pythonic", "[free(text='', more=[{\"k\": None", true, false},
    {"qwen3-coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>", true, true},
    {"qwen3-coder", "Well.\n<function=now>\n</function>\n</tool_call>", true, true},
    {"qwen3-coder", "<function=then>", false, false},
    {"qwen3-coder", "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>", false, false},
    {"qwen3-coder", "<tool_call>\n<function=mixed>\n<parameter=maybe>\nnull\n</parameter>", true, false},
    {"qwen3-coder", "<tool_call>\n<function=mixed>\n<parameter=maybe>\nNull\n</parameter>", true, false},
    {"qwen3-coder", "<tool_call>\n<function=mixed>\n<parameter=either>\n12345\n</parameter>", true, false},
    {"qwen3-coder", "<tool_call>\n<function=mixed>\n<parameter=either>\n1.5\n</parameter>", false, false},
    {"qwen3-coder", "<tool_call>\n<function=mixed>\n<parameter=choice>\n1\n</parameter>", false, false},
    {"qwen3-coder", "<tool_call>\n<function=say>\n<parameter=text>\n1\n</parameter>", true, false},
    {"qwen3-coder", "<tool_call>\n<function=say>\n<parameter=text>\n1</parameter>", false, false},
    {"qwen3-coder", "<tool_call>\n<function=say>\n<parameter=text>\n</parameter>", false, false},
    {"qwen3-coder", "<tool_call>\n<function=say>\n<parameter=tone>", false, false},
    {"qwen3-coder", "<tool_call>\n<function=say>\n<parameter=text>\nx\n</parameter>\n<parameter=code>\nABC", false,
     false},
    {"glm", "<tool_call>say<arg_key>text</arg_key><arg_value> </arg_key> </arg_value></tool_call>", true, true},
    {"harmony",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.now "
     "<|constrain|>json<|message|>{}",
     true, true},
    {"harmony", "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>", true, true},
    {"harmony", " to=functions.now<|channel|>commentary json<|message|>{}", true, true},
    {"harmony", "<|channel|>commentary to=functions.noon", false, false},
    {"harmony", "<|channel|>final<|message|>Done.", true, true},
    {"atem", " to=user<|message|>Hello.<|eom|>", true, true},
    {"atem",
     " to=now<|message|><atem:function_calls>\n<atem:invoke name=\"now\">\n</atem:invoke>\n</atem:function_calls>",
     true, true},
    {"atem", " to=now<|message|>x", false, false},
    {"atem", " to=now<|message|><atem:function_calls>\n<atem:invoke name=\"add", false, false},
    {"atem", " to=web.*<|message|><atem:function_calls>\n<atem:invoke name=\"add", true, false},
    {"atem", " to=web.*<|message|><atem:function_calls>\n<atem:invoke name=\"web", false, false},
    {"llama3", "{\"name\": \"now\", \"parameters\": {}}", true, true},
    {"llama3", "{\"answer\"", false, false},
    {"llama3", "The set {1}.", true, true},
    {"llama3", "So:<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", true, true},
    {"llama3", "So:<|python_tag|>now", false, false},
    {"pythonic", "[now(), add(a=1, b=2, exact=True)]", true, true},
    {"pythonic", "[say(text='it\\'s', code=\"AB\")]", true, true},
    {"pythonic", "[1, 2]", false, false},
    {"pythonic", "[add(a=1, b=2, exact=true", false, false},
    {"gemma4", "<|tool_call>call:add{a:1,b:2,exact:true}<tool_call|>", true, true},
    {"gemma4", "<|tool_call>call:say{text:<|\"|>\"quoted\"<|\"|>}<tool_call|>", true, true},
    {"mistral", "[TOOL_CALLS]now[ARGS]{}", true, true},
    {"mistral", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}, \"id\": \"abc123DEF\"}]", true, true},
    {"mistral", "[TOOL_CALLS]now[CALL_ID]abc123DEF[ARGS]{}", true, true},
    {"kimi-k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:12<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     true, true},
};

static void answers_are_decided_byte_by_byte(void **state)
{
    (void)state;
    json_t *tools = all_tools();
    int bad = 0;
    for (size_t i = 0; i < sizeof lazy_case / sizeof *lazy_case; i++) {
        const char *s = lazy_case[i].text;
        struct gated x;
        open_gate(&x, dialect_by_name(lazy_case[i].dialect), tools,
                  &(struct calls_opts){.parallel = true, .lazy = true});
        bool taken = admitted(&x, s, strlen(s)) == strlen(s), whole = taken && may_end(&x);
        if (taken != lazy_case[i].taken || whole != lazy_case[i].whole) {
            print_error("%s: %s: stops at %zu, %s\n", lazy_case[i].dialect, s, admitted(&x, s, strlen(s)),
                        whole ? "may end" : "may not end");
            bad++;
        }
        close_gate(&x);
    }
    json_decref(tools);
    assert_int_equal(bad, 0);
}

static void one_call_is_one_call(void **state)
{
    (void)state;
    static const char two[] = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>";
    json_t *tools = all_tools();
    for (int parallel = 0; parallel < 2; parallel++) {
        struct gated x;
        open_gate(&x, dialect_by_name("hermes"), tools, &(struct calls_opts){.parallel = parallel});
        assert_null(x.gate);
        assert_int_equal(admitted(&x, two, strlen(two)) == strlen(two), parallel);
        assert_int_equal(admitted(&x, "\n\n<tool_call>", 13), 13);
        assert_int_equal(admitted(&x, "No", 2), 0);
        admitted(&x, "", 0);
        assert_false(may_end(&x));
        close_gate(&x);
    }
    json_decref(tools);
}

/* ---- refusals ---- */

#define ONE(name, parameters) "[{\"name\":\"" name "\",\"parameters\":" parameters "}]"
#define PROPERTY(schema)      ONE("t", "{\"type\":\"object\",\"properties\":{\"p\":" schema "}}")

static const struct {
    const char *dialect, *tools, *only, *message;
} refused[] = {
    {"think", ONE("t", "{}"), NULL, "dialect think: have one without calls"},
    {"none", ONE("t", "{}"), NULL, "dialect none: have one without calls"},
    {"hermes", "[]", NULL, "tools: have none"},
    {"hermes", "{}", NULL, "tools: have none"},
    {"hermes", "[{\"type\":\"function\"}]", NULL, "tools[0]: have no name"},
    {"hermes", "[{\"name\":\"a\"},{\"name\":\"a\"}]", NULL, "tools[1]: have \"a\" twice"},
    {"hermes", ONE("t", "{}"), "u", "tool \"u\": have none of that name"},
    {"hermes", ONE("a b", "{}"), NULL, "tool \"a b\": name \"a b\": have a name that calls of the dialect hermes"},
    {"hermes", ONE("t", "[]"), NULL, "tool \"t\": schema refused: #: have no schema"},
    {"hermes", ONE("t", "{\"type\":\"string\"}"), NULL, "tool \"t\": schema refused: #/type"},
    {"hermes", PROPERTY("{\"contains\":{}}"), NULL, "tool \"t\": schema refused: #/properties/p/contains"},
    {"hermes", PROPERTY("{\"type\":\"nothing\"}"), NULL, "tool \"t\": schema refused: #/properties/p/type"},
    {"qwen3-coder", PROPERTY("{\"pattern\":\"(?<=a)b\"}"), NULL, "tool \"t\": schema refused: #/properties/p/pattern"},
    {"qwen3-coder", PROPERTY("{\"unknown\":1}"), NULL, "tool \"t\": schema refused: #/properties/p/unknown"},
    {"qwen3-coder", PROPERTY("{\"const\":\"</parameter>\"}"), NULL,
     "#/properties/p: have no value that the dialect can"},
    {"qwen3-coder", PROPERTY("{\"type\":\"array\",\"prefixItems\":[{}]}"), NULL, "#/properties/p/prefixItems"},
    {"qwen3-coder", PROPERTY("{\"type\":\"array\",\"uniqueItems\":true}"), NULL, "#/properties/p/uniqueItems"},
    {"qwen3-coder", PROPERTY("{\"patternProperties\":{\"^x\":{}}}"), NULL, "#/properties/p/patternProperties"},
    {"qwen3-coder", PROPERTY("{\"propertyNames\":{\"maxLength\":3}}"), NULL, "#/properties/p/propertyNames"},
    {"pythonic", PROPERTY("{\"type\":\"object\",\"minProperties\":2}"), NULL, "#/properties/p/minProperties"},
    {"gemma4", PROPERTY("{\"type\":\"object\",\"maxProperties\":2}"), NULL, "#/properties/p/maxProperties"},
    {"gemma4", PROPERTY("{\"enum\":[\"<|\\\"|>\"]}"), NULL, "#/properties/p: have no value that the dialect can"},
    {"pythonic", ONE("t", "{\"type\":\"object\",\"properties\":{\"a-b\":{}}}"), NULL, "property \"a-b\": have a name"},
    {"pythonic", ONE("a-b", "{}"), NULL, "name \"a-b\": have a name"},
    {"tool-code", ONE("print", "{}"), NULL, "name \"print\": have a name"},
    {"atem", ONE("user", "{}"), NULL, "name \"user\": have a name"},
    {"glm", ONE("t", "{\"type\":\"object\",\"properties\":{\" x\":{}}}"), NULL, "property \" x\": have a name"},
    {"pythonic", ONE("t", "{\"enum\":[{}]}"), NULL, "enum or const of whole arguments"},
    {"qwen3-coder", ONE("t", "{\"type\":\"object\",\"required\":[\"p\"],\"properties\":{\"p\":false}}"), NULL,
     "tool \"t\": schema refused: #: have one that no object satisfies"},
    {"hermes", ONE("t", "{\"type\":\"object\",\"required\":[\"p\"],\"properties\":{\"q\":{}}}"), NULL,
     "tool \"t\": schema refused: #: have one that no value satisfies"},
};

static void what_cannot_be_enforced_is_refused_by_name(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        json_t *tools = parse(refused[i].tools);
        struct glim_err e = {0};
        struct calls c;
        glim_status st = calls_make(&c, dialect_by_name(refused[i].dialect), tools,
                                    &(struct calls_opts){.only_name = refused[i].only}, &e);
        if (st == GLIM_OK || c.grammar || !strstr(e.message, refused[i].message)) {
            print_error("%s: %s\n  have %d %s\n  need %s\n", refused[i].dialect, refused[i].tools, st, e.message,
                        refused[i].message);
            bad++;
        }
        calls_fini(&c);
        json_decref(tools);
    }
    assert_int_equal(bad, 0);
}

static void too_many_tools_are_refused(void **state)
{
    (void)state;
    json_t *tools = json_array();
    struct calls_opts o = {0};
    for (int i = 0; i <= CALLS_MAX_TOOLS; i++) {
        char name[16];
        struct glim_err e = {0};
        struct calls c;
        snprintf(name, sizeof name, "t%d", i);
        json_array_append_new(tools, json_pack("{s:s}", "name", name));
        if (i + 1 < CALLS_MAX_TOOLS)
            continue;
        assert_int_equal(calls_make(&c, dialect_by_name("glm"), tools, &o, &e),
                         i < CALLS_MAX_TOOLS ? GLIM_OK : GLIM_REFUSED);
        assert_true(i < CALLS_MAX_TOOLS || strstr(e.message, "tools: have 1025, need at most 1024"));
        calls_fini(&c);
    }
    json_decref(tools);
}

/* A name is refused, or its calls are read back. */
static void odd_names_are_refused_or_read_back(void **state)
{
    (void)state;
    static const char *const name[] = {"a.b",   "a-b",  "web.find:1", "x:7",         "functions.x", "a{b",   "a\\b",
                                       "größe", "[x]",  "a&quot;b",   "a&b",         "call",        "print", "a/b",
                                       "f(x",   "to=x", "user",       "</function>", "{",           "a,b",   "null"};
    int bad = 0;
    size_t n = 0, n_refused = 0;
    for (size_t i = 0; i < dialect_count(); i++)
        for (size_t k = 0; k < sizeof name / sizeof *name; k++) {
            const struct dialect *d = dialect_at(i);
            struct tally t = {0};
            struct glim_err e = {0};
            struct calls c;
            struct calls_opts o = {.parallel = true};
            json_t *tools = json_pack("[{s:s,s:{s:s,s:{s:{s:s},s:{}}}}]", "name", name[k], "parameters", "type",
                                      "object", "properties", name[k], "type", "string", "n");
            if (d->syntax != DIALECT_NO_CALLS && calls_make(&c, d, tools, &o, &e) == GLIM_OK) {
                calls_fini(&c);
                n++;
                bad += walk(d, tools, &o, 20, &t);
            } else {
                n_refused++;
            }
            json_decref(tools);
        }
    assert_int_equal(bad, 0);
    assert_true(n > 200 && n_refused > 100);
}

/* ---- the rest ---- */

static void control_tokens_of_a_dialect_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *dialect, *text;
        bool marker;
    } token[] = {{"mistral", "[TOOL_CALLS]", true},
                 {"mistral", "[ARGS]", true},
                 {"mistral", "[CALL_ID]", true},
                 {"mistral", "</s>", false},
                 {"mistral", "[INST]", false},
                 {"harmony", "<|channel|>", true},
                 {"harmony", "<|constrain|>", true},
                 {"harmony", "<|message|>", true},
                 {"harmony", "<|start|>", true},
                 {"harmony", "<|endoftext|>", false},
                 {"llama3", "<|python_tag|>", true},
                 {"llama3", "<|eot_id|>", false},
                 {"kimi-k3", "<|open|>", true},
                 {"gemma4", "<|\"|>", true},
                 {"hermes", "<|im_end|>", false},
                 {"deepseek-v3", "<｜tool▁sep｜>", true},
                 {"hermes", "", false}};
    for (size_t i = 0; i < sizeof token / sizeof *token; i++)
        if (calls_marker(dialect_by_name(token[i].dialect), token[i].text, strlen(token[i].text)) != token[i].marker)
            fail_msg("%s: %s", token[i].dialect, token[i].text);
}

/* Mistral's markers are control tokens: with their text as bytes they open the gate and are asked for by name. */
static void control_tokens_with_bytes_are_admitted(void **state)
{
    (void)state;
    enum { CALLS = N_TOKEN, ARGS, N };
    static char byte[256];
    struct grammar_piece piece[N] = {[CALLS] = {"[TOOL_CALLS]", 12}, [ARGS] = {"[ARGS]", 6}};
    const uint32_t end = END_TOKEN, way[] = {'H', 'i', CALLS, 'n', 'o', 'w', ARGS, '{', '}'};
    struct glim_err e = {0};
    struct grammar_vocab *v;
    struct grammar_matcher *m;
    struct grammar_gate *gate;
    struct calls c;
    json_t *tools = all_tools();
    for (int i = 0; i < 256; i++) {
        byte[i] = (char)i;
        piece[i] = (struct grammar_piece){&byte[i], 1};
    }
    assert_int_equal(calls_make(&c, dialect_by_name("mistral"), tools, &(struct calls_opts){.lazy = true}, &e),
                     GLIM_OK);
    assert_int_equal(grammar_vocab_create(&v, piece, N, &end, 1, &e), GLIM_OK);
    assert_int_equal(grammar_matcher_create(&m, c.grammar, v, &e), GLIM_OK);
    assert_int_equal(grammar_gate_create(&gate, m, c.trigger, c.n_trigger, true, &e), GLIM_OK);
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        uint64_t bits[(N + 63) / 64];
        bool free_text = i <= 2;
        assert_int_equal(grammar_gate_mask(gate, bits, &e), GLIM_OK);
        assert_true(bits[way[i] / 64] >> (way[i] % 64) & 1);
        assert_int_equal(bits[CALLS / 64] >> (CALLS % 64) & 1, free_text);
        assert_int_equal(bits[ARGS / 64] >> (ARGS % 64) & 1, free_text || way[i] == ARGS);
        assert_int_equal(bits[0] >> '!' & 1, free_text);
        assert_int_equal(grammar_gate_can_end(gate), free_text);
        assert_int_equal(grammar_gate_accept(gate, way[i], &e), GLIM_OK);
        assert_int_equal(grammar_gate_active(gate), i >= 2);
    }
    assert_true(grammar_gate_can_end(gate));
    grammar_gate_free(gate);
    grammar_matcher_free(m);
    grammar_vocab_free(v);
    calls_fini(&c);
    json_decref(tools);
}

static void every_lack_of_memory_is_told(void **state)
{
    (void)state;
    static const char *const dialect[] = {"hermes", "qwen3-coder", "kimi-k3", "pythonic", "gemma4", "atem", "mistral"};
    json_t *tools = parse_quoted("[{'name':'t','parameters':{'type':'object','required':['s'],'properties':{"
                                 "'s':{'type':['string','null']},'l':{'type':'array','items':{'enum':[1,'x']}}},"
                                 "'additionalProperties':{'type':'object'}}}]");
    for (size_t i = 0; i < sizeof dialect / sizeof *dialect; i++) {
        glim_status st = GLIM_FAILED;
        long n = 0, step = 1;
        for (; st != GLIM_OK; n += step) {
            struct glim_err e = {0};
            struct calls c;
            mem_fail_after(n + 1);
            st = calls_make(&c, dialect_by_name(dialect[i]), tools,
                            &(struct calls_opts){.lazy = true, .parallel = true}, &e);
            mem_fail_after(0);
            if (st != GLIM_OK && (st != GLIM_FAILED || c.grammar || !strstr(e.message, "out of memory")))
                fail_msg("%s: allocation %ld: %d %s", dialect[i], n + 1, st, e.message);
            calls_fini(&c);
            step = n < 300 ? 1 : 7;
        }
        assert_true(n > 100);
    }
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_free_until_a_call_begins),
        cmocka_unit_test(answers_are_decided_byte_by_byte),
        cmocka_unit_test(one_call_is_one_call),
        cmocka_unit_test(what_cannot_be_enforced_is_refused_by_name),
        cmocka_unit_test(too_many_tools_are_refused),
        cmocka_unit_test(odd_names_are_refused_or_read_back),
        cmocka_unit_test(control_tokens_of_a_dialect_are_known),
        cmocka_unit_test(control_tokens_with_bytes_are_admitted),
        cmocka_unit_test(every_lack_of_memory_is_told),
        cmocka_unit_test(calls_that_templates_write_are_admitted),
        cmocka_unit_test(every_sentence_is_calls_of_the_tools_with_valid_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
