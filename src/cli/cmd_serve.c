/* glim serve: a model behind HTTP. */
#include "cli/cli.h"

#include "serve/signals.h"

#include <stdio.h>
#include <string.h>

struct serve_options {
    const char *model;
    bool markdown, openapi;
};

static glim_status print_table(const struct serve_options *o, struct glim_err *e)
{
    struct str s = {0};
    if (o->markdown)
        route_print_markdown(&s);
    else
        route_print_openapi(&s);
    return cli_print(&s, e);
}

/* A server that has ended as it was told to has done its work. */
static glim_status run(struct cli *c, struct signals *w)
{
    const struct levers *lv = cli_levers(c);
    TRY(signals_watch(w, &c->err));
    fprintf(stderr, "glim: serving %s on %s://%s%s%s:%d\n", w->server->name[0], lv->tls_cert ? "https" : "http",
            strchr(lv->host, ':') ? "[" : "", lv->host, strchr(lv->host, ':') ? "]" : "", serve_port(w->server));
    glim_status st = serve_run(w->server, &c->err);
    signals_end(w);
    return st;
}

static glim_status serve(struct cli *c, const struct serve_options *o)
{
    struct signals w = {.drain_s = (double)cli_levers(c)->drain_s};
    struct serve_config config = {.levers = cli_levers(c), .path = o->model};
    TRY(cli_open(c, o->model));
    config.model = c->model;
    signals_block(&w);
    glim_status st = serve_create(&w.server, &config, &c->err);
    if (st == GLIM_OK) {
        st = run(c, &w);
        serve_free(w.server);
    }
    signals_unblock(&w);
    return st;
}

int cmd_serve(int argc, char **argv)
{
    struct serve_options o = {0};
    struct cli c = {0};
    const struct arg arg[] = {
        {'m', "model", ARG_TEXT, &o.model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {0, "markdown", ARG_FLAG, &o.markdown, NULL, 0, 0, "print docs/SERVER.md instead"},
        {0, "openapi", ARG_FLAG, &o.openapi, NULL, 0, 0, "print /openapi.json instead"},
    };
    const struct arg_spec spec = {"serve",
                                  "-m MODEL [--host ADDRESS] [--port N] [--LEVER VALUE …]",
                                  "Serve a model over HTTP, as clients of OpenAI and others expect it.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  0};
    glim_status st = cli_begin(&c, &spec, argc, argv);
    if (st != GLIM_OK || c.args.help)
        return cli_end(&c, st);
    if (o.markdown || o.openapi)
        st = print_table(&o, &c.err);
    else if (!o.model)
        st = err_set(&c.err, GLIM_USAGE, "serve: model: have none, need -m MODEL");
    else
        st = serve(&c, &o);
    return cli_end(&c, st);
}
