/* glim levers: the table of options, with the values this process would run with and where each came from. */
#include "cli/cli.h"

#include <stdio.h>

/* Markdown shows defaults, so that its text does not depend on who prints it. */
static glim_status show(const struct args *a, enum lever_style style, struct glim_err *e)
{
    struct lever_set *s = NULL;
    struct str text = {0};
    glim_status st = style == LEVER_MARKDOWN ? GLIM_OK : lever_load(&s, e);
    for (size_t i = 0; st == GLIM_OK && s && i + 1 < a->lever.n; i += 2)
        st = lever_put(s, a->lever.item[i], a->lever.item[i + 1], e);
    if (st == GLIM_OK)
        st = lever_print(s, style, &text, e);
    if (st == GLIM_OK && (fwrite(text.s, 1, text.n, stdout) != text.n || fflush(stdout) != 0))
        st = err_set(e, GLIM_FAILED, "standard output: have a failed write, need a writable file or pipe");
    str_fini(&text);
    lever_free(s);
    return st;
}

int cmd_levers(int argc, char **argv)
{
    bool json = false, markdown = false;
    const struct arg arg[] = {
        {0, "json", ARG_FLAG, &json, NULL, 0, 0, "as a JSON array, one object a lever"},
        {0, "markdown", ARG_FLAG, &markdown, NULL, 0, 0, "as docs/LEVERS.md, with the defaults"},
    };
    const struct arg_spec spec = {
        "levers", "[--json|--markdown] [--LEVER VALUE …]", "Print every option of the engine.", arg, 2, true, 0};
    struct args a = {0};
    struct glim_err e = {0};
    glim_status st = args_parse(&spec, argc, argv, &a, &e);
    if (st == GLIM_OK && json && markdown)
        st = err_set(&e, GLIM_USAGE, "levers: have --json and --markdown, need one of them");
    if (st == GLIM_OK && !a.help)
        st = show(&a, json ? LEVER_JSON : markdown ? LEVER_MARKDOWN : LEVER_TEXT, &e);
    if (st != GLIM_OK)
        fprintf(stderr, "glim: %s\n", e.message);
    args_fini(&a);
    return (int)st;
}
