/* The table for people (text), programs (JSON) and the repository (Markdown, docs/LEVERS.md). Rows come grouped as they
 * stand in the table. */
#include "base/lever_row.h"

#include <string.h>

static const char *const type_name[] = {[TYPE_BOOL] = "bool", [TYPE_INT] = "int",   [TYPE_FLOAT] = "float",
                                        [TYPE_TEXT] = "text", [TYPE_PATH] = "path", [TYPE_ENUM] = "enum"};
static const char *const scope_name[] = {[PROCESS] = "process", [MODEL] = "model", [REQUEST] = "request"};
static const char *const phase_name[] = {
    [ANY_PHASE] = "any", [LOAD] = "load",     [PREFILL] = "prefill", [DECODE] = "decode",
    [DRAFT] = "draft",   [VERIFY] = "verify", [SERVE] = "serve"};
static const char *const on_name[] = {[ANY] = "any",       [CPU] = "cpu",   [CUDA] = "cuda", [METAL] = "metal",
                                      [COREML] = "coreml", [NODE] = "node", [TOOL] = "tool"};
static const char *const bits_name[] = {[KEEPS_BITS] = "keeps", [CHANGES_BITS] = "changes"};
static const char *const origin_name[] = {
    [FROM_DEFAULT] = "default", [FROM_FILE] = "file", [FROM_ENV] = "environment", [FROM_FLAG] = "flag"};

static const struct lever_cell *cell_of(const struct lever_set *s, const struct lever_row *r)
{
    static const struct lever_cell unset = {.origin = FROM_DEFAULT};
    return s ? &s->cell[r - lever_rows] : &unset;
}

static const char *value_of(const struct lever_set *s, const struct lever_row *r)
{
    const struct lever_cell *c = cell_of(s, r);
    return c->text ? c->text : r->def;
}

static bool begins_group(const struct lever_row *r)
{
    return r == lever_rows || strcmp(r->group, r[-1].group) != 0;
}

/* Why a row that is not built cannot be set, as a sentence. */
static void add_unbuilt(const struct lever_row *r, struct str *out)
{
    if (r->why)
        str_printf(out, "Not an option here: %s.", r->why);
    else
        str_printf(out, "Refused: this build has no %s.", r->need);
}

/* ---- text ---- */

static void text_row(const struct lever_set *s, const struct lever_row *r, struct str *out)
{
    char name[LEVER_NAME_MAX];
    const struct lever_cell *c = cell_of(s, r);
    const char *value = value_of(s, r);
    lever_env_name(r, name);
    str_printf(out, "  %-38s %-14s", name, value ? value : "-");
    if (s && r->built)
        str_printf(out, " %s%s%s", origin_name[c->origin], c->where ? " " : "", c->where ? c->where : "");
    else if (!r->built)
        str_puts(out, " not built");
    str_puts(out, "\n      ");
    lever_range_text(r, out);
    for (int i = 0; i < LEVER_ALIAS_MAX && r->alias[i].name; i++) {
        str_printf(out, "; %s: ", r->alias[i].name);
        lever_rule_text(&r->alias[i], out);
    }
    str_printf(out, "%s\n      %s\n", r->bits == CHANGES_BITS ? "; changes bits" : "", r->doc);
    if (!r->built) {
        str_puts(out, "      ");
        add_unbuilt(r, out);
        str_putc(out, '\n');
    }
}

static void print_text(const struct lever_set *s, struct str *out)
{
    for (const struct lever_row *r = lever_rows; r < lever_rows + lever_n_row; r++) {
        if (begins_group(r))
            str_printf(out, "%s%s\n", r == lever_rows ? "" : "\n", r->group);
        text_row(s, r, out);
    }
}

/* ---- JSON ---- */

static void json_string(struct str *out, const char *key, const char *value)
{
    str_printf(out, "\"%s\":", key);
    if (value)
        str_json(out, value, strlen(value));
    else
        str_puts(out, "null");
}

/* A canonical text as the JSON value it stands for. */
static void json_typed(struct str *out, const char *key, const struct lever_row *r, const char *text)
{
    if (text && r->type == TYPE_BOOL)
        str_printf(out, "\"%s\":%s", key, strcmp(text, "on") == 0 ? "true" : "false");
    else if (text && (r->type == TYPE_INT || r->type == TYPE_FLOAT))
        str_printf(out, "\"%s\":%s", key, text);
    else
        json_string(out, key, text);
}

static void json_values(struct str *out, const char *values)
{
    str_puts(out, "\"values\":");
    if (!values) {
        str_puts(out, "null");
        return;
    }
    str_putc(out, '[');
    for (const char *p = values;;) {
        size_t n = strcspn(p, "|");
        str_json(out, p, n);
        if (p[n] == 0)
            break;
        str_putc(out, ',');
        p += n + 1;
    }
    str_putc(out, ']');
}

static void json_bounds(struct str *out, const struct lever_row *r)
{
    bool bounded = r->min != 0 || r->max != 0;
    if (bounded)
        str_printf(out, "\"min\":%lld,", (long long)r->min);
    else
        str_puts(out, "\"min\":null,");
    if (bounded && r->max != INT64_MAX)
        str_printf(out, "\"max\":%lld", (long long)r->max);
    else
        str_puts(out, "\"max\":null");
}

static void json_aliases(struct str *out, const struct lever_row *r)
{
    str_puts(out, "\"aliases\":[");
    for (int i = 0; i < LEVER_ALIAS_MAX && r->alias[i].name; i++) {
        struct str rule = {0};
        const struct lever_alias *a = &r->alias[i];
        lever_rule_text(a, &rule);
        out->failed |= rule.failed;
        str_puts(out, i ? ",{" : "{");
        json_string(out, "name", a->name);
        str_putc(out, ',');
        json_string(out, "rule", lever_rule_name(a->rule));
        str_putc(out, ',');
        json_string(out, "sets", a->to);
        str_putc(out, ',');
        json_string(out, "meaning", rule.s);
        str_putc(out, '}');
        str_fini(&rule);
    }
    str_putc(out, ']');
}

/* "--prefill-chunk" */
static void json_flag(struct str *out, const struct lever_row *r)
{
    str_puts(out, "\"flag\":\"--");
    for (const char *p = r->key; *p; p++)
        str_putc(out, *p == '_' ? '-' : *p);
    str_putc(out, '"');
}

static void json_row(const struct lever_set *s, const struct lever_row *r, struct str *out)
{
    char name[LEVER_NAME_MAX];
    const struct {
        const char *key, *value;
    } attribute[] = {
        {"scope", scope_name[r->scope]},
        {"phase", phase_name[r->phase]},
        {"on", on_name[r->on]},
        {"bits", bits_name[r->bits]},
        {"needs", r->need},
        {"why_not", r->why},
        {"model_levers", r->theirs},
        {"doc", r->doc},
        {"group", r->group},
    };
    lever_env_name(r, name);
    str_putc(out, '{');
    json_string(out, "key", r->key);
    str_putc(out, ',');
    json_string(out, "env", name);
    str_putc(out, ',');
    json_flag(out, r);
    str_putc(out, ',');
    json_string(out, "type", type_name[r->type]);
    str_putc(out, ',');
    json_values(out, r->values);
    str_putc(out, ',');
    json_bounds(out, r);
    str_putc(out, ',');
    json_typed(out, "default", r, r->def);
    str_putc(out, ',');
    json_aliases(out, r);
    str_printf(out, ",\"built\":%s", r->built ? "true" : "false");
    for (size_t i = 0; i < sizeof attribute / sizeof *attribute; i++) {
        str_putc(out, ',');
        json_string(out, attribute[i].key, attribute[i].value);
    }
    if (s) {
        const struct lever_cell *c = cell_of(s, r);
        str_putc(out, ',');
        json_typed(out, "value", r, value_of(s, r));
        str_putc(out, ',');
        json_string(out, "origin", origin_name[c->origin]);
        str_putc(out, ',');
        json_string(out, "from", c->where);
    }
    str_putc(out, '}');
}

static void print_json(const struct lever_set *s, struct str *out)
{
    for (size_t i = 0; i < lever_n_row; i++) {
        str_puts(out, i ? ",\n" : "[\n");
        json_row(s, &lever_rows[i], out);
    }
    str_puts(out, "\n]\n");
}

/* ---- Markdown ---- */

/* Text of a table cell: bars would end it. */
static void md_text(struct str *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '|')
            str_putc(out, '\\');
        str_putc(out, *s);
    }
}

static void md_aliases(const struct lever_row *r, struct str *out)
{
    for (int i = 0; i < LEVER_ALIAS_MAX && r->alias[i].name; i++) {
        str_printf(out, "%s`%s`: ", i ? "<br>" : "", r->alias[i].name);
        lever_rule_text(&r->alias[i], out);
    }
}

static void md_row(const struct lever_set *s, const struct lever_row *r, struct str *out)
{
    char name[LEVER_NAME_MAX];
    struct str range = {0};
    const char *value = value_of(s, r);
    lever_env_name(r, name);
    lever_range_text(r, &range);
    out->failed |= range.failed;
    str_printf(out, "| `%s` | ", name);
    if (range.s)
        md_text(out, range.s);
    str_printf(out, " | %s | ", value ? value : "unset");
    md_aliases(r, out);
    str_printf(out, " | %s, %s, %s | %s | ", scope_name[r->scope], phase_name[r->phase], on_name[r->on],
               bits_name[r->bits]);
    md_text(out, r->doc);
    if (!r->built) {
        str_putc(out, ' ');
        add_unbuilt(r, out);
    }
    str_puts(out, " |\n");
    str_fini(&range);
}

static void print_markdown(const struct lever_set *s, struct str *out)
{
    str_puts(
        out,
        "<!-- Generated by `glim levers --markdown`; a test compares the two. -->\n"
        "# Levers\n\n"
        "Every option of the engine. `GLIM_KV_TYPE` is its environment name, `kv_type` its key in `glim.toml` and "
        "`--kv-type` its flag. A flag wins over the environment, the environment over the file, the file over the "
        "default. `glim.toml` is looked for in the working folder, then in `GLIM_HOME`.\n\n"
        "A boolean is `on`, `off`, `1`, `0`, `true` or `false`. The other names keep the rule they are read by where "
        "they come from; one that says nothing leaves the lever alone. A name and its lever that disagree are "
        "refused, and so is an unknown name that begins with `GLIM_`, `MUSER_` or `METRALE_`. \"Where\" is what a "
        "value holds for, in which phase, and on which backend or in which kind of program.\n");
    for (const struct lever_row *r = lever_rows; r < lever_rows + lever_n_row; r++) {
        if (begins_group(r))
            str_printf(out,
                       "\n## %s\n\n| Lever | Values | Default | Other names | Where | Bits | Meaning |\n"
                       "|---|---|---|---|---|---|---|\n",
                       r->group);
        md_row(s, r, out);
    }
}

glim_status lever_print(const struct lever_set *s, enum lever_style style, struct str *out, struct glim_err *e)
{
    switch (style) {
    case LEVER_TEXT:
        print_text(s, out);
        break;
    case LEVER_JSON:
        print_json(s, out);
        break;
    case LEVER_MARKDOWN:
        print_markdown(s, out);
        break;
    }
    return out->failed ? err_nomem(e, "table of levers", out->n) : GLIM_OK;
}
