/* glim tls: an authority of one's own, and certificates of it for servers. */
#include "cli/cli.h"

#include "base/file.h"
#include "base/mem.h"
#include "serve/tls_make.h"

#include <string.h>

static glim_status init(const char *dir, int days, struct glim_err *e)
{
    struct str s = {0};
    TRY(tls_make_authority(dir, days, e));
    str_printf(&s, "%s/ca.pem\n%s/ca-key.pem\n", dir, dir);
    return cli_print(&s, e);
}

static glim_status issue(const char *dir, const struct arg_list *name, int days, struct glim_err *e)
{
    struct str s = {0};
    TRY(tls_make_server(dir, name->item + 1, name->n - 1, days, e));
    const char *file = name->item[1] + (strncmp(name->item[1], "*.", 2) == 0 ? 2 : 0);
    str_printf(&s, "%s/%s.pem\n%s/%s-key.pem\n", dir, file, dir, file);
    return cli_print(&s, e);
}

static glim_status run(struct cli *c, const char *dir, int64_t days, struct glim_err *e)
{
    const struct arg_list *word = &c->args.positional;
    const char *what = word->n ? word->item[0] : "";
    char *standard = dir ? NULL : path_join(cli_levers(c)->home, "tls");
    glim_status st;
    if (!dir && !standard)
        return err_nomem(e, "tls", 0);
    dir = dir ? dir : standard;
    if (strcmp(what, "init") == 0 && word->n == 1)
        st = init(dir, days ? (int)days : 3650, e);
    else if (strcmp(what, "issue") == 0 && word->n > 1)
        st = issue(dir, word, days ? (int)days : 397, e);
    else
        st = err_set(e, GLIM_USAGE, "tls: what to do: have %.40s, need init, or issue and the server's names",
                     *what ? what : "nothing");
    mem_free(standard);
    return st;
}

int cmd_tls(int argc, char **argv)
{
    const char *dir = NULL;
    int64_t days = 0;
    struct cli c = {0};
    const struct arg arg[] = {
        {'d', "dir", ARG_TEXT, &dir, "DIR", 0, 0, "where the files are; $GLIM_HOME/tls"},
        {0, "days", ARG_INT, &days, "N", 1, 36500, "how long it is valid: 3650 of an authority, 397 of a server"},
    };
    const struct arg_spec spec = {
        "tls",
        "init | issue NAME … [--dir DIR] [--days N]",
        "Make an authority, or a certificate of it for a server of these names and addresses.",
        arg,
        sizeof arg / sizeof *arg,
        false,
        33};
    glim_status st = cli_begin(&c, &spec, argc, argv);
    if (st == GLIM_OK && !c.args.help)
        st = run(&c, dir, days, &c.err);
    return cli_end(&c, st);
}
