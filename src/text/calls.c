/* Tools and frames: a turn of calls, and what comes before the first one. */
#include "text/calls_impl.h"
#include "base/mem.h"
#include "text/dialect_impl.h"
#include "text/regex.h"
#include "text/schema.h"

#include <string.h>

struct maker {
    const struct dialect *d;
    const struct dialect_frame *f;
    const struct calls_opts *o;
    const json_t *tools;
    struct grammar_builder *b;
    struct calls *out;
    struct glim_err *e;
    grammar_node none;
    grammar_node rest;    /* from a call's name to the end of its arguments, of any tool */
    grammar_node invoked; /* the same from the second name on, where there is one */
    grammar_node object;  /* DIALECT_OR_JSON: a call as JSON */
};

static grammar_node text(const struct maker *m, const char *s)
{
    return grammar_text(m->b, s, strlen(s));
}

static grammar_node maybe(const struct maker *m, grammar_node x)
{
    return grammar_repeat(m->b, x, 0, 1);
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Line breaks of a frame that the parser does not look at: templates of one family differ in them. */
grammar_node calls_loose_text(struct grammar_builder *b, const struct dialect *d, const char *s)
{
    bool strict = (d->syntax != DIALECT_JSON && d->syntax != DIALECT_PARAMS) || (d->open && strchr(d->open, '\n'));
    grammar_node out = grammar_text(b, "", 0);
    for (size_t n; *s; s += n) {
        bool line = *s == '\n' && !strict;
        n = line ? 1 : strict ? strlen(s) : strcspn(s, "\n");
        grammar_node piece = grammar_text(b, s, n);
        grammar_node part[] = {out, line ? grammar_repeat(b, piece, 0, 1) : piece};
        out = grammar_seq(b, part, 2);
    }
    return out;
}

/* What a model may make up as the id of a call. */
static grammar_node any_id(const struct maker *m)
{
    static const struct code_range id[] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    return grammar_repeat(m->b, grammar_class(m->b, id, 3, false), 1, 32);
}

/* A frame's text; a digit in it is an example of an index, several are one of an id. */
static grammar_node frame_text(const struct maker *m, const char *s)
{
    static const struct code_range first[] = {{'1', '9'}}, number[] = {{'0', '9'}};
    size_t n = strcspn(s, "0123456789"), n_digit = 0;
    while (digit(s[n + n_digit]))
        n_digit++;
    if (!n_digit)
        return calls_loose_text(m->b, m->d, s);
    grammar_node index[] = {grammar_class(m->b, first, 1, false),
                            grammar_repeat(m->b, grammar_class(m->b, number, 1, false), 0, 2)};
    grammar_node either[] = {text(m, "0"), grammar_seq(m->b, index, 2)};
    grammar_node part[] = {grammar_text(m->b, s, n), n_digit == 1 ? grammar_alt(m->b, either, 2) : any_id(m),
                           text(m, s + n + n_digit)};
    return grammar_seq(m->b, part, 3);
}

/* ---- arguments ---- */

/* Does the schema declare properties, and say nothing else about which there may be? */
static bool only_declares(const json_t *schema)
{
    static const char *const more[] = {"additionalProperties",
                                       "patternProperties",
                                       "unevaluatedProperties",
                                       "$ref",
                                       "$dynamicRef",
                                       "allOf",
                                       "anyOf",
                                       "oneOf",
                                       "not",
                                       "if",
                                       "dependentSchemas",
                                       "dependencies",
                                       "enum",
                                       "const"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (json_object_get(schema, more[i]))
            return false;
    return json_object_get(schema, "properties");
}

static bool names_object(const json_t *type)
{
    size_t i;
    json_t *x;
    bool found = !type || (json_is_string(type) && strcmp(json_string_value(type), "object") == 0);
    json_array_foreach(type, i, x) found |= json_is_string(x) && strcmp(json_string_value(x), "object") == 0;
    return found;
}

/* The schema of a tool's arguments: an object, closed where the header says so. */
static glim_status arguments_schema(const json_t *tool, json_t **out, struct glim_err *e)
{
    const json_t *p = json_object_get(tool, "parameters");
    int bad = 0;
    *out = NULL;
    if (!p || json_is_null(p))
        *out = json_pack("{s:s, s:b}", "type", "object", "additionalProperties", 0);
    else if (json_is_true(p))
        *out = json_pack("{s:s}", "type", "object");
    else if (!json_is_object(p))
        return err_set(e, GLIM_REFUSED, "schema refused: #: have no schema, need an object");
    else if (!names_object(json_object_get(p, "type")))
        return err_set(e, GLIM_REFUSED, "schema refused: #/type: have another type, need object");
    else if ((*out = json_copy((json_t *)(uintptr_t)p))) {
        bad = json_object_set_new(*out, "type", json_string("object"));
        if (only_declares(p))
            bad |= json_object_set_new(*out, "additionalProperties", json_false());
    }
    if (*out && !bad)
        return GLIM_OK;
    json_decref(*out);
    *out = NULL;
    return err_nomem(e, "tool calls", 0);
}

static glim_status arguments_node(struct maker *m, const json_t *tool, size_t id, grammar_node *out)
{
    json_t *schema;
    TRY(arguments_schema(tool, &schema, m->e));
    glim_status st = m->f->args == DIALECT_ARGS_JSON ? schema_node(m->b, schema, NULL, out, m->e)
                                                     : calls_value_node(m->b, m->d, tool, schema, id, out, m->e);
    json_decref(schema);
    return st;
}

/* ---- tools ---- */

static const json_t *function_of(const json_t *entry)
{
    const json_t *f = json_object_get(entry, "function");
    return json_is_object(f) ? f : entry;
}

/* Between a name and its arguments. Templates of one family differ here: some add an id; and a message's header says
 * its channel before the recipient or after it. */
static grammar_node after_name(const struct maker *m)
{
    const struct dialect *d = m->d;
    grammar_node after = frame_text(m, m->f->after_name);
    if (d->syntax != DIALECT_NAMED)
        return after;
    if (d->id) {
        grammar_node id[] = {text(m, d->id), any_id(m)};
        grammar_node part[] = {maybe(m, grammar_seq(m->b, id, 2)), after};
        return grammar_seq(m->b, part, 2);
    }
    if (!d->channel)
        return after;
    grammar_node plain[] = {text(m, " json"), text(m, d->message)};
    grammar_node either[] = {grammar_seq(m->b, plain, 2), after};
    grammar_node late[] = {text(m, d->channel), text(m, "commentary"), grammar_alt(m->b, either, 2)};
    grammar_node all[] = {after, grammar_seq(m->b, late, 3)};
    return grammar_alt(m->b, all, 2);
}

/* {"name": …, "arguments": …, "id": …}, with the id or without. */
static glim_status json_call(const struct maker *m, const char *name, grammar_node args, grammar_node *out)
{
    struct str t = {0};
    str_puts(&t, "{\"name\": ");
    str_json(&t, name, strlen(name));
    str_puts(&t, ", \"arguments\": ");
    if (t.failed)
        return err_nomem(m->e, "tool calls", t.n);
    grammar_node id[] = {text(m, ", \"id\": \""), any_id(m), text(m, "\"")};
    grammar_node part[] = {grammar_text(m->b, t.s, t.n), args, maybe(m, grammar_seq(m->b, id, 3)), text(m, "}")};
    *out = grammar_seq(m->b, part, 4);
    str_fini(&t);
    return GLIM_OK;
}

struct call_nodes {
    grammar_node rest, invoked, object;
};

static glim_status add_tool(struct maker *m, const json_t *tool, size_t i, struct call_nodes *c)
{
    const char *name = json_string_value(json_object_get(tool, "name"));
    struct str spelled = {0};
    grammar_node args = 0;
    TRY(calls_check_name(m->d, name, NULL, m->e));
    TRY(arguments_node(m, tool, i, &args));
    calls_spell_name(m->d, &spelled, name);
    if (spelled.failed)
        return err_nomem(m->e, "tool calls", spelled.n);
    grammar_node named = grammar_text(m->b, spelled.s, spelled.n);
    str_fini(&spelled);
    grammar_node after[] = {named, after_name(m), args};
    c->invoked = c->rest = grammar_seq(m->b, after, 3);
    if (*m->f->again_name) {
        grammar_node twice[] = {named, text(m, m->f->again_name), c->invoked};
        c->rest = grammar_seq(m->b, twice, 3);
    }
    return m->d->flags & DIALECT_OR_JSON ? json_call(m, name, args, &c->object) : GLIM_OK;
}

static glim_status check_tools(const struct maker *m)
{
    const char *only = m->o->only_name;
    size_t n = json_array_size(m->tools);
    if (m->d->syntax == DIALECT_NO_CALLS)
        return err_set(m->e, GLIM_REFUSED, "tool calls: dialect %s: have one without calls, need one that has them",
                       m->d->name);
    if (!json_is_array(m->tools) || n == 0)
        return err_set(m->e, GLIM_USAGE, "tool calls: tools: have none, need a list of them");
    if (n > CALLS_MAX_TOOLS)
        return err_set(m->e, GLIM_REFUSED, "tool calls: tools: have %zu, need at most %d", n, CALLS_MAX_TOOLS);
    for (size_t i = 0; i < n; i++) {
        const json_t *tool = function_of(json_array_get(m->tools, i));
        const char *name = json_string_value(json_object_get(tool, "name"));
        if (!name)
            return err_set(m->e, GLIM_USAGE, "tool calls: tools[%zu]: have no name, need a function with one", i);
        if (dia_tool(m->tools, name) != tool)
            return err_set(m->e, GLIM_REFUSED, "tool calls: tools[%zu]: have \"%.100s\" twice, need each name once", i,
                           name);
    }
    if (only && !dia_tool(m->tools, only))
        return err_set(m->e, GLIM_USAGE, "tool calls: tool \"%.100s\": have none of that name, need one of the tools",
                       only);
    return GLIM_OK;
}

static glim_status add_tools(struct maker *m)
{
    size_t n = json_array_size(m->tools), k = 0;
    grammar_node *node = mem_calloc(3 * n, sizeof *node);
    if (!node)
        return err_nomem(m->e, "tool calls", 3 * n * sizeof *node);
    grammar_node *invoked = node + n, *object = invoked + n;
    glim_status st = GLIM_OK;
    for (size_t i = 0; i < n && st == GLIM_OK; i++) {
        const json_t *tool = function_of(json_array_get(m->tools, i));
        const char *name = json_string_value(json_object_get(tool, "name"));
        struct call_nodes c = {0};
        if (m->o->only_name && strcmp(m->o->only_name, name) != 0)
            continue;
        st = add_tool(m, tool, i, &c);
        node[k] = c.rest;
        invoked[k] = c.invoked;
        object[k++] = c.object;
        if (st != GLIM_OK)
            st = err_prefix(m->e, "tool \"%.100s\"", name);
    }
    if (st == GLIM_OK) {
        m->rest = grammar_alt(m->b, node, k);
        m->invoked = grammar_alt(m->b, invoked, k);
        m->object = m->d->flags & DIALECT_OR_JSON ? grammar_alt(m->b, object, k) : 0;
    }
    mem_free(node);
    return st;
}

/* ---- turns ---- */

/* The text after the last call; a stop token at its end may be missing. */
static glim_status last_text(const struct maker *m, grammar_node *out)
{
    struct str t = {0};
    size_t stop = 0;
    str_puts(&t, m->f->after_args);
    str_puts(&t, m->f->end);
    if (t.failed)
        return err_nomem(m->e, "tool calls", t.n);
    for (size_t i = 0; i < DIALECT_MAX_STOP && m->d->stop[i]; i++) {
        size_t n = strlen(m->d->stop[i]);
        if (t.n >= n && memcmp(t.s + t.n - n, m->d->stop[i], n) == 0)
            stop = n;
    }
    grammar_node part[2] = {0, maybe(m, grammar_text(m->b, t.s + t.n - stop, stop))};
    t.s[t.n - stop] = 0;
    part[0] = calls_loose_text(m->b, m->d, t.s);
    *out = grammar_seq(m->b, part, 2);
    str_fini(&t);
    return GLIM_OK;
}

/* A JSON object alone, without list or marks, is the only call of its turn. */
static bool one_only(const struct maker *m)
{
    return !m->o->parallel || (m->d->syntax == DIALECT_JSON && !*m->f->between);
}

static grammar_node two(const struct maker *m, grammar_node a, grammar_node b)
{
    grammar_node part[] = {a, b};
    return grammar_seq(m->b, part, 2);
}

/* [{…}, {…}] */
static grammar_node json_list(const struct maker *m)
{
    grammar_node more = two(m, text(m, ", "), m->object);
    grammar_node part[] = {text(m, "["), m->object,
                           m->o->parallel ? grammar_repeat(m->b, more, 0, GRAMMAR_MANY) : m->none, text(m, "]")};
    return grammar_seq(m->b, part, 4);
}

/* A turn whose first call begins with the text `before`, and goes on with `rest`. */
static glim_status turn(const struct maker *m, grammar_node before, grammar_node rest, grammar_node *out)
{
    grammar_node last = m->none;
    TRY(last_text(m, &last));
    grammar_node next[] = {calls_loose_text(m->b, m->d, m->f->after_args), calls_loose_text(m->b, m->d, m->f->between),
                           frame_text(m, m->f->before_name), m->rest};
    grammar_node more = one_only(m) ? m->none : grammar_repeat(m->b, grammar_seq(m->b, next, 4), 0, GRAMMAR_MANY);
    grammar_node part[] = {rest, more, last};
    grammar_node either[] = {grammar_seq(m->b, part, 3), 0};
    if (m->object)
        either[1] = json_list(m);
    *out = two(m, before, m->object ? grammar_alt(m->b, either, 2) : either[0]);
    return GLIM_OK;
}

/* The whole answer is calls. Blanks that come first are no content, unless the dialect takes all text as it is. */
static glim_status required(const struct maker *m, grammar_node *out)
{
    grammar_node begin = two(m, calls_loose_text(m->b, m->d, m->f->begin), frame_text(m, m->f->before_name));
    if (m->d->channel) {
        grammar_node either[] = {begin, two(m, text(m, " "), text(m, dialect_trigger(m->d)))};
        begin = grammar_alt(m->b, either, 2);
    }
    if (!(m->d->flags & DIALECT_VERBATIM))
        begin = two(m, grammar_repeat(m->b, text(m, "\n"), 0, 2), begin);
    return turn(m, begin, m->rest, out);
}

/* ---- calls that may come ---- */

enum { WAYS = 4 }; /* that a first call may begin */

struct ways {
    const struct maker *m;
    grammar_node node[WAYS];
    size_t n;
};

static glim_status add_trigger(const struct maker *m, const char *s, size_t n)
{
    struct calls *c = m->out;
    struct grammar_trigger *more = mem_realloc(c->trigger, (c->n_trigger + 1) * sizeof *more);
    if (!more)
        return err_nomem(m->e, "tool calls", (c->n_trigger + 1) * sizeof *more);
    c->trigger = more;
    char *copy = mem_strndup(s, n);
    if (!copy)
        return err_nomem(m->e, "tool calls", n);
    c->trigger[c->n_trigger++] = (struct grammar_trigger){.s = copy, .n = n, .keep = true};
    return GLIM_OK;
}

/* The trigger, then `after`, then a call from its name on. */
static glim_status add_way(struct ways *w, const char *trigger, const char *after, grammar_node rest)
{
    const struct maker *m = w->m;
    TRY(add_trigger(m, trigger, strlen(trigger)));
    return turn(m, two(m, text(m, trigger), frame_text(m, after)), rest, &w->node[w->n++]);
}

/* Messages to each of the tools; a header says which, before any marker. `open` stands for headers that name a group of
 * tools, which only the parser can compare with the call. */
static glim_status add_recipients(struct ways *w)
{
    const struct maker *m = w->m;
    static const char to[] = "to=", message[] = "<|message|>";
    const char *again = m->f->again_name + sizeof message - 1;
    for (size_t i = 0; i < json_array_size(m->tools); i++) {
        const char *name = json_string_value(json_object_get(function_of(json_array_get(m->tools, i)), "name"));
        struct str t = {0};
        if (m->o->only_name && strcmp(name, m->o->only_name) != 0)
            continue;
        str_printf(&t, "%s%s%s", to, name, message);
        glim_status st = t.failed ? err_nomem(m->e, "tool calls", t.n) : add_trigger(m, t.s, t.n);
        str_fini(&t);
        TRY(st);
    }
    TRY(turn(m, text(m, to), m->rest, &w->node[w->n++]));
    return add_way(w, m->d->open, again + strlen(m->d->open), m->invoked);
}

static glim_status add_ways(struct ways *w)
{
    const struct maker *m = w->m;
    const struct dialect *d = m->d;
    struct str first = {0};
    if (d->flags & DIALECT_RECIPIENT)
        return add_recipients(w);
    str_puts(&first, m->f->begin);
    str_puts(&first, m->f->before_name);
    const char *trigger = dialect_trigger(d), *at = first.failed ? NULL : strstr(first.s, trigger);
    glim_status st = at ? add_way(w, trigger, at + strlen(trigger), m->rest) : err_nomem(m->e, "tool calls", first.n);
    if (st == GLIM_OK && d->syntax == DIALECT_JSON && d->call) /* another spelling of open */
        st = add_way(w, d->call, at + strlen(trigger), m->rest);
    if (st == GLIM_OK && (d->flags & DIALECT_CALL_ALONE))
        st = add_way(w, d->call, strstr(m->f->before_name, d->call) + strlen(d->call), m->rest);
    str_fini(&first);
    return st;
}

/* Text that does not begin like a call without a marker, and in which none begins with one. */
static glim_status plain_text(const struct maker *m, grammar_node *out)
{
    const char *mark[] = {m->d->open};
    const char *regex = m->d->syntax == DIALECT_JSON ? "[ \\n\\t\\r]*(?:[^ \\n\\t\\r{][^]*)?"
                                                     : "[ \\n\\t\\r]*(?:[^ \\n\\t\\r\\[][^]*)?";
    struct dfa *without, *begins, *d;
    TRY(calls_text_without(mark, 1, &without, m->e));
    glim_status st = regex_dfa(&begins, regex, strlen(regex), REGEX_WHOLE, m->e);
    if (st == GLIM_OK) {
        st = dfa_combine(&d, without, DFA_AND, begins, m->e);
        dfa_free(begins);
    }
    if (st == GLIM_OK) {
        *out = grammar_dfa(m->b, d);
        dfa_free(d);
    }
    dfa_free(without);
    return st;
}

/* Where calls need no marker: a call, or text, after which calls with a marker may come. */
static glim_status whole_answer(struct maker *m, grammar_node *out)
{
    grammar_node answer[2], marked, plain;
    TRY(required(m, &answer[0]));
    TRY(plain_text(m, &plain));
    TRY(turn(m,
             two(m, text(m, m->d->open),
                 two(m, calls_loose_text(m->b, m->d, m->f->begin), frame_text(m, m->f->before_name))),
             m->rest, &marked));
    if (m->d->close)
        marked = two(m, marked, text(m, m->d->close));
    answer[1] = two(m, plain, maybe(m, marked));
    *out = grammar_alt(m->b, answer, 2);
    return GLIM_OK;
}

static glim_status answer(struct maker *m, grammar_node *out)
{
    struct ways w = {.m = m};
    if (!m->o->lazy)
        return required(m, out);
    if (!dialect_trigger(m->d))
        return whole_answer(m, out);
    TRY(add_ways(&w));
    *out = grammar_alt(m->b, w.node, w.n);
    return GLIM_OK;
}

/* ---- the whole ---- */

static glim_status make(struct maker *m)
{
    grammar_node root;
    m->none = text(m, "");
    TRY(add_tools(m));
    TRY(answer(m, &root));
    uint32_t rule = grammar_rule(m->b, "root", 4);
    grammar_define(m->b, rule, root);
    return grammar_compile(&m->out->grammar, m->b, rule, m->e);
}

glim_status calls_make(struct calls *out, const struct dialect *d, const json_t *tools, const struct calls_opts *o,
                       struct glim_err *e)
{
    struct glim_err own = {0};
    struct maker m = {.d = d, .f = &d->frame, .o = o, .tools = tools, .out = out, .e = e ? e : &own};
    *out = (struct calls){0};
    json_setup();
    TRY(check_tools(&m));
    TRY(grammar_builder_create(&m.b, NULL, m.e));
    glim_status st = make(&m);
    grammar_builder_free(m.b);
    if (st != GLIM_OK)
        calls_fini(out);
    return st;
}

void calls_fini(struct calls *c)
{
    for (size_t i = 0; i < c->n_trigger; i++)
        mem_free((char *)(uintptr_t)c->trigger[i].s);
    mem_free(c->trigger);
    grammar_free(c->grammar);
    *c = (struct calls){0};
}

bool calls_marker(const struct dialect *d, const char *s, size_t n)
{
    const struct dialect_frame *f = &d->frame;
    const char *part[] = {f->begin,       f->before_name, f->again_name, f->after_name, f->after_args,
                          f->between,     f->end,         f->before_key, f->after_key,  f->after_type,
                          f->after_value, d->open,        d->call,       d->close,      d->start,
                          d->quote,       d->id,          d->channel,    d->message};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (n && part[i] && memmem(part[i], strlen(part[i]), s, n))
            return true;
    return false;
}
