/* glim keys: the API keys of a server. */
#include "cli/cli.h"

#include "base/file.h"
#include "base/mem.h"
#include "serve/keys.h"

#include <stdio.h>
#include <string.h>

struct keys_options {
    int64_t limit[LIMIT_KINDS];
};

/* The key goes to standard output, and is nowhere else from then on. */
static glim_status add(const char *path, const char *name, const struct keys_options *o, struct glim_err *e)
{
    char secret[KEY_SECRET_MAX];
    struct str s = {0};
    struct limit_rule rule = {(uint32_t)o->limit[LIMIT_REQUESTS], (uint32_t)o->limit[LIMIT_TOKENS],
                              (uint32_t)o->limit[LIMIT_CONCURRENT]};
    TRY(keys_add(path, name, rule, secret, e));
    str_printf(&s, "%s\n", secret);
    memset(secret, 0, sizeof secret);
    fprintf(stderr, "glim: %s has a new key; it is shown this once\n", path);
    return cli_print(&s, e);
}

static glim_status list(const char *path, struct glim_err *e)
{
    struct keys *k;
    struct str s = {0};
    TRY(keys_read(&k, path, e));
    for (size_t i = 0; i < keys_count(k); i++) {
        const struct limit *l = keys_limit(k, i);
        const uint32_t value[LIMIT_KINDS] = {l->rule.requests, l->rule.tokens, l->rule.concurrent};
        str_puts(&s, l->name);
        for (size_t j = 0; j < LIMIT_KINDS; j++)
            if (value[j])
                str_printf(&s, " %s=%u", limit_name[j], value[j]);
        str_putc(&s, '\n');
    }
    keys_free(k);
    return cli_print(&s, e);
}

static glim_status run(struct cli *c, const struct keys_options *o, struct glim_err *e)
{
    const struct arg_list *word = &c->args.positional;
    const char *what = word->n ? word->item[0] : "", *path = cli_levers(c)->api_keys;
    char *standard = path ? NULL : path_join(cli_levers(c)->home, "keys");
    glim_status st;
    if (!path && !standard)
        return err_nomem(e, "keys", 0);
    path = path ? path : standard;
    if (strcmp(what, "add") == 0 && word->n == 2)
        st = add(path, word->item[1], o, e);
    else if (strcmp(what, "remove") == 0 && word->n == 2)
        st = keys_remove(path, word->item[1], e);
    else if (strcmp(what, "list") == 0 && word->n == 1)
        st = list(path, e);
    else
        st = err_set(e, GLIM_USAGE, "keys: what to do: have %.40s, need list, or add or remove and a name",
                     *what ? what : "nothing");
    mem_free(standard);
    return st;
}

int cmd_keys(int argc, char **argv)
{
    struct keys_options o = {0};
    struct cli c = {0};
    const struct arg arg[] = {
        {0, "requests", ARG_INT, &o.limit[LIMIT_REQUESTS], "N", 1, UINT32_MAX, "add: requests a minute"},
        {0, "tokens", ARG_INT, &o.limit[LIMIT_TOKENS], "N", 1, UINT32_MAX,
         "add: tokens a minute, of prompts and answers"},
        {0, "concurrent", ARG_INT, &o.limit[LIMIT_CONCURRENT], "N", 1, UINT32_MAX, "add: requests at a time"},
    };
    const struct arg_spec spec = {"keys",
                                  "list | add NAME [--requests N] [--tokens N] [--concurrent N] | remove NAME",
                                  "The API keys in the file of the lever api_keys, else in $GLIM_HOME/keys. A server "
                                  "reads it again at SIGHUP.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  2};
    glim_status st = cli_begin(&c, &spec, argc, argv);
    if (st == GLIM_OK && !c.args.help)
        st = run(&c, &o, &c.err);
    return cli_end(&c, st);
}
