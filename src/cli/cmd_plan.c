/* glim plan: the memory a model would take, before anything is loaded. */
#include "cli/cli.h"

#include "base/mem.h"
#include "run/run.h"

#include <stdio.h>
#include <string.h>

/* "+2.8 %" over the file, or nothing where the size is the file's. */
static const char *growth(const struct mem_row *r, char buf[16])
{
    double more = r->file_bytes ? 100 * ((double)r->bytes / (double)r->file_bytes - 1) : 0;
    buf[0] = 0;
    if (more >= 0.05 || more <= -0.05)
        snprintf(buf, 16, "%+.1f %%", more);
    return buf;
}

static void print_table(const struct mem_plan *p, size_t limit)
{
    char size[32], file[32], more[16];
    printf("%-10s %12s %12s %9s  %s\n", "kind", "size", "in file", "change", "what");
    for (size_t i = 0; i < p->n_row; i++) {
        const struct mem_row *r = &p->row[i];
        printf("%-10s %12s %12s %9s  %s\n", mem_kind_name(r->kind), cli_bytes((double)r->bytes, size),
               r->file_bytes ? cli_bytes((double)r->file_bytes, file) : "", growth(r, more), r->what);
    }
    printf("%-10s %12s\n", "total", cli_bytes((double)mem_plan_total(p), size));
    printf("%-10s %12s\n", "available", limit == SIZE_MAX ? "unknown" : cli_bytes((double)limit, size));
}

static glim_status print_json(const struct mem_plan *p, size_t limit, struct glim_err *e)
{
    struct str s = {0};
    str_puts(&s, "{\"rows\":[");
    for (size_t i = 0; i < p->n_row; i++) {
        str_printf(&s, "%s{\"kind\":\"%s\",\"bytes\":%zu,\"file_bytes\":%zu,\"what\":", i ? "," : "",
                   mem_kind_name(p->row[i].kind), p->row[i].bytes, p->row[i].file_bytes);
        str_json(&s, p->row[i].what, strlen(p->row[i].what));
        str_putc(&s, '}');
    }
    str_printf(&s, "],\"total\":%zu,\"available\":", mem_plan_total(p));
    if (limit == SIZE_MAX)
        str_puts(&s, "null");
    else
        str_printf(&s, "%zu", limit);
    str_printf(&s, ",\"fits\":%s}\n", !p->overflow && mem_plan_total(p) <= limit ? "true" : "false");
    return cli_print(&s, e);
}

int cmd_plan(int argc, char **argv)
{
    const char *model = NULL;
    int64_t seqs = 1;
    bool json = false;
    const struct arg arg[] = {
        {'m', "model", ARG_TEXT, &model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {0, "seqs", ARG_INT, &seqs, "N", 1, 65536, "sequences held at once (1)"},
        {0, "json", ARG_FLAG, &json, NULL, 0, 0, "a JSON object instead of the table"},
    };
    const struct arg_spec spec = {"plan",
                                  "-m MODEL [--ctx N] [--seqs N] [OPTION …]",
                                  "Print the memory a model would take; exit code 3 when it does not fit.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  0};
    struct cli c = {0};
    struct mem_plan plan = {0};
    char *path = NULL;
    glim_status st;
    TRY_OUT(cli_begin(&c, &spec, argc, argv));
    if (c.args.help)
        goto out;
    TRY_OUT(cli_model_path(&c, model, &path, &c.err));
    TRY_OUT(run_plan(path, c.config, 0, (uint32_t)seqs, &plan, &c.err));
    int64_t mem_limit = cli_levers(&c)->mem_limit;
    size_t limit = mem_limit ? (size_t)mem_limit : mem_available();
    if (json)
        TRY_OUT(print_json(&plan, limit, &c.err));
    else
        print_table(&plan, limit);
    st = mem_plan_check(&plan, limit, &c.err);
out:
    mem_plan_free(&plan);
    mem_free(path);
    return cli_end(&c, st);
}
