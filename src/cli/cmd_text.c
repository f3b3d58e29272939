/* glim text: what the text library knows, from its own tables: dialects, chat templates, JSON Schema, regular
 * expressions. docs/TEXT.md is made of it. */
#include "cli/cli.h"

#include "text/regex.h"
#include "text/schema.h"
#include "text/chat.h"

#include <string.h>

/* A cell of a table: bars and line breaks would end it. */
static void cell(struct str *s, const char *text)
{
    str_puts(s, "| ");
    for (const char *p = text; *p; p++)
        if (*p == '|')
            str_puts(s, "\\|");
        else
            str_putc(s, *p == '\n' ? ' ' : *p);
    str_putc(s, ' ');
}

static void code_cell(struct str *s, const char *text)
{
    str_puts(s, "| ");
    if (text && *text) {
        str_putc(s, '`');
        for (const char *p = text; *p; p++)
            if (*p == '|')
                str_puts(s, "\\|");
            else if (*p == '\n')
                str_puts(s, "\\n");
            else
                str_putc(s, *p);
        str_putc(s, '`');
    }
    str_putc(s, ' ');
}

static void put_dialects(struct str *s)
{
    str_puts(s, "## Dialects\n\nHow models mark reasoning and tool calls. The dialect is found from the chat template; "
                "`--dialect NAME` names it.\n\n"
                "| dialect | models | reasoning | calls begin with | calls |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < dialect_count(); i++) {
        const struct dialect *d = dialect_at(i);
        str_printf(s, "| `%s` ", d->name);
        cell(s, d->families);
        code_cell(s, d->think);
        code_cell(s, dialect_trigger(d));
        cell(s, d->doc);
        str_puts(s, "|\n");
    }
}

static void put_templates(struct str *s)
{
    str_puts(s, "\n## Chat templates\n\nThe language is Jinja2 3.1 as transformers sets it up. Known:\n\n");
    for (int k = 0; k < JINJA_KIND_COUNT; k++) {
        str_printf(s, "- **%s**:", jinja_kind_name((enum jinja_kind)k));
        for (size_t i = 0; jinja_feature((enum jinja_kind)k, i); i++)
            str_printf(s, "%s `%s`", i ? "," : "", jinja_feature((enum jinja_kind)k, i));
        str_putc(s, '\n');
    }
    str_puts(s, "\nWhat a template can do is found by rendering small conversations (`glim inspect`):\n\n"
                "| it can | which means |\n|---|---|\n");
    for (int i = 0; i < TEMPLATE_CAP_COUNT; i++) {
        cell(s, template_cap_rows[i].name);
        cell(s, template_cap_rows[i].doc);
        str_puts(s, "|\n");
    }
    str_puts(s, "\nVariables that are tried as a switch of reasoning:");
    for (size_t i = 0; template_switch_key(i); i++)
        str_printf(s, "%s `%s`", i ? "," : "", template_switch_key(i));
    str_puts(s, "; as a level:");
    for (size_t i = 0; template_effort_key(i); i++)
        str_printf(s, "%s `%s`", i ? "," : "", template_effort_key(i));
    str_puts(s, ".\n");
}

static void put_schema(struct str *s)
{
    bool enforced;
    const char *name;
    str_puts(s, "\n## JSON Schema\n\nexact: enforced. partly: enforced, or refused where that cannot be done. ignored: "
                "says nothing about validity. Other keywords are refused by name.\n\n"
                "| keyword | support | |\n|---|---|---|\n");
    for (size_t i = 0; i < schema_n_keyword; i++) {
        const struct schema_keyword *k = &schema_keywords[i];
        str_printf(s, "| `%s` | %s ", k->name, schema_level_name(k->level));
        cell(s, k->doc);
        str_puts(s, "|\n");
    }
    str_puts(s, "\nFormats that are enforced:");
    for (size_t i = 0, n = 0; (name = schema_format_name(i, &enforced)); i++)
        if (enforced)
            str_printf(s, "%s `%s`", n++ ? "," : "", name);
    str_puts(s, "; that only annotate:");
    for (size_t i = 0, n = 0; (name = schema_format_name(i, &enforced)); i++)
        if (!enforced)
            str_printf(s, "%s `%s`", n++ ? "," : "", name);
    str_printf(s, ".\n\nProperties of `\\p{…}` in a `pattern`: %s.\n", regex_property_names);
}

int cmd_text(int argc, char **argv)
{
    const struct arg_spec spec = {
        "text", "", "List dialects, template features and schema keywords, as Markdown.", NULL, 0, false, 0};
    struct cli c = {0};
    struct str s = {0};
    glim_status st;
    TRY_OUT(cli_begin(&c, &spec, argc, argv));
    if (c.args.help)
        goto out;
    str_puts(&s, "# Text\n\nMade by `make docs` from the tables of `src/text` (`glim text`). Do not edit.\n\n");
    put_dialects(&s);
    put_templates(&s);
    put_schema(&s);
    TRY_OUT(cli_print(&s, &c.err));
out:
    return cli_end(&c, st);
}
