/* What the dialect's parser makes of names. Which characters a name may hold depends on the dialect's markers and on
 * the code that reads them, so the parser itself is asked, with one short call. */
#include "text/calls_impl.h"
#include "text/regex.h"

#include <string.h>

void calls_spell_name(const struct dialect *d, struct str *out, const char *name)
{
    bool json = d->syntax == DIALECT_JSON, entities = d->flags & DIALECT_ENTITIES;
    for (const char *c = name; *c; c++) {
        if (json && (*c == '\\' || *c == '"'))
            str_printf(out, "\\%c", *c);
        else if (entities && *c == '"')
            str_puts(out, "&quot;");
        else if (entities && *c == '&')
            str_puts(out, "&amp;");
        else
            str_putc(out, *c);
    }
}

/* One whole turn with one call. */
static void sample(const struct dialect *d, const char *tool, const char *key, struct str *out)
{
    const struct dialect_frame *f = &d->frame;
    str_puts(out, f->begin);
    str_puts(out, f->before_name);
    calls_spell_name(d, out, tool);
    if (*f->again_name) {
        str_puts(out, f->again_name);
        calls_spell_name(d, out, tool);
    }
    str_puts(out, f->after_name);
    if (f->args == DIALECT_ARGS_JSON)
        str_puts(out, "{}");
    if (key && f->args == DIALECT_ARGS_PARAMS) {
        str_puts(out, f->before_key);
        calls_spell_name(d, out, key);
        str_puts(out, f->after_key);
        if (f->after_type)
            str_printf(out, "%s%s", f->string_type, f->after_type);
        str_printf(out, "x%s", f->after_value);
    } else if (key) {
        bool python = f->args == DIALECT_ARGS_PYTHON;
        str_printf(out, "%s%s0", key, python ? "=" : ":");
    }
    str_puts(out, f->after_args);
    str_puts(out, f->end);
}

struct reading {
    const char *tool;
    struct str args;
    size_t n_begin, n_end, n_other;
};

static glim_status on_event(void *ctx, const struct dialect_event *ev, struct glim_err *e)
{
    struct reading *r = ctx;
    (void)e;
    if (ev->kind == DIALECT_CALL_BEGIN)
        r->n_begin += strcmp(ev->name, r->tool) == 0 && !ev->unknown_tool;
    else if (ev->kind == DIALECT_ARGUMENTS)
        str_add(&r->args, ev->text, ev->n);
    else if (ev->kind == DIALECT_CALL_END)
        r->n_end++;
    else
        r->n_other++;
    return GLIM_OK;
}

/* How arguments begin that are {}, or one member of that name. */
static void arguments_begin(const char *key, struct str *out)
{
    str_putc(out, '{');
    if (!key)
        return;
    str_json(out, key, strlen(key));
    str_puts(out, ": ");
}

/* Was exactly this call read? */
static bool read_back(const struct reading *r, const struct str *begin, bool empty)
{
    return r->n_begin == 1 && r->n_end == 1 && r->n_other == 0 && r->args.n > begin->n &&
           memcmp(r->args.s, begin->s, begin->n) == 0 && r->args.s[r->args.n - 1] == '}' && (!empty || r->args.n == 2);
}

static glim_status read_sample(const struct dialect *d, const char *tool, const char *key, const struct str *text,
                               const json_t *tools, struct glim_err *e)
{
    struct reading r = {.tool = tool};
    struct dialect_sink sink = {on_event, &r};
    struct dialect_opts o = {.tools = tools, .parse_tools = true, .prompt = DIALECT_PROMPT_HAS_THOUGHT};
    struct dialect_parser *p;
    struct str begin = {0};
    TRY(dialect_parser_create(&p, d, &o, e));
    arguments_begin(key, &begin);
    glim_status st = dialect_push(p, text->s, text->n, &sink, e);
    if (st == GLIM_OK)
        st = dialect_end(p, DIALECT_STOPPED, &sink, e);
    dialect_parser_free(p);
    if (st == GLIM_OK && (r.args.failed || begin.failed))
        st = err_nomem(e, "tool calls", r.args.n);
    if (st == GLIM_OK && !read_back(&r, &begin, !key))
        st = err_set(e, GLIM_REFUSED,
                     "%s \"%.100s\": have a name that calls of the dialect %s cannot hold, need another",
                     key ? "property" : "name", key ? key : tool, d->name);
    str_fini(&r.args);
    str_fini(&begin);
    return st;
}

glim_status calls_check_name(const struct dialect *d, const char *tool, const char *key, struct glim_err *e)
{
    struct str text = {0};
    json_t *tools = json_pack("[{s:s}]", "name", tool);
    sample(d, tool, key, &text);
    glim_status st = tools && !text.failed ? GLIM_OK : err_nomem(e, "tool calls", text.n);
    if (st == GLIM_OK)
        st = read_sample(d, tool, key, &text, tools, e);
    json_decref(tools);
    str_fini(&text);
    return st;
}

/* Any text in which the mark occurs. */
static glim_status containing(const char *mark, struct dfa **out, struct glim_err *e)
{
    struct str regex = {0};
    for (const char *c = mark; *c; c++) {
        bool plain = (unsigned char)*c >= 0x80 || (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
                     (*c >= 'A' && *c <= 'Z') || *c == '_' || *c == '\n' || *c == ' ';
        if (!plain)
            str_putc(&regex, '\\');
        str_putc(&regex, *c);
    }
    glim_status st =
        regex.failed ? err_nomem(e, "tool calls", regex.n) : regex_dfa(out, regex.s, regex.n, REGEX_ANYWHERE, e);
    str_fini(&regex);
    return st;
}

glim_status calls_text_without(const char *const *mark, size_t n, struct dfa **out, struct glim_err *e)
{
    static const char any[] = "[^\\u0000]*";
    TRY(regex_dfa(out, any, sizeof any - 1, REGEX_WHOLE, e));
    glim_status st = GLIM_OK;
    for (size_t i = 0; i < n && st == GLIM_OK; i++) {
        struct dfa *with, *less = NULL;
        if (!mark[i])
            continue;
        st = containing(mark[i], &with, e);
        if (st == GLIM_OK) {
            st = dfa_combine(&less, *out, DFA_BUT_NOT, with, e);
            dfa_free(with);
        }
        if (st == GLIM_OK) {
            dfa_free(*out);
            *out = less;
        }
    }
    if (st != GLIM_OK) {
        dfa_free(*out);
        *out = NULL;
    }
    return st;
}
