/* The frame of a command: options, levers, logs, model; and the one place where errors are printed. */
#include "cli/cli.h"

#include "base/file.h"
#include "base/mem.h"
#include "run/model.h"

#include <stdio.h>
#include <string.h>

glim_status cli_begin(struct cli *c, const struct arg_spec *spec, int argc, char **argv)
{
    TRY(args_parse(spec, argc, argv, &c->args, &c->err));
    if (c->args.help)
        return GLIM_OK;
    TRY(glim_config_create(&c->config, &c->err));
    const struct arg_list *flag = &c->args.lever;
    for (size_t i = 0; i + 1 < flag->n; i += 2)
        TRY(glim_config_set(c->config, flag->item[i], flag->item[i + 1], &c->err));
    const struct levers *v = cli_levers(c);
    log_setup((enum log_level)v->log_level, (enum log_format)v->log_format);
    return GLIM_OK;
}

const struct levers *cli_levers(const struct cli *c)
{
    return lever_values(c->config->set);
}

int cli_end(struct cli *c, glim_status st)
{
    if (st != GLIM_OK)
        fprintf(stderr, "glim: %s\n", c->err.message);
    glim_model_close(c->model);
    glim_config_free(c->config);
    args_fini(&c->args);
    if ((fflush(stdout) != 0 || ferror(stdout)) && st == GLIM_OK) {
        fprintf(stderr, "glim: standard output: have a failed write, need a writable file or pipe\n");
        st = GLIM_FAILED;
    }
    return (int)st;
}

glim_status cli_models_dir(const struct cli *c, char **dir, struct glim_err *e)
{
    *dir = path_join(cli_levers(c)->home, "models");
    return *dir ? GLIM_OK : err_nomem(e, "path of the models folder", 64);
}

glim_status cli_model_path(const struct cli *c, const char *name, char **path, struct glim_err *e)
{
    *path = NULL;
    if (!name)
        return err_set(e, GLIM_USAGE, "model: have none, need -m PATH or -m NAME of a pulled model");
    if (file_exists(name)) {
        *path = mem_strdup(name);
        return *path ? GLIM_OK : err_nomem(e, "model path", strlen(name));
    }
    char *dir = NULL, *file = NULL;
    glim_status st = GLIM_OK;
    static const char *const ending[] = {".gguf", ""};
    for (size_t i = 0; i < 2 && !*path && !strchr(name, '/'); i++) {
        struct str s = {0};
        str_printf(&s, "%s%s", name, ending[i]);
        mem_free(dir);
        TRY_OUT(cli_models_dir(c, &dir, e));
        file = s.failed ? NULL : path_join(dir, s.s);
        str_fini(&s);
        if (!file) {
            st = err_nomem(e, "model path", strlen(name));
            goto out;
        }
        if (file_exists(file))
            *path = file;
        else
            mem_free(file);
    }
    if (!*path)
        st = err_set(e, GLIM_FAILED, "model: %s: have no such file%s%s, need a path, or a name fetched by glim pull",
                     name, dir ? " and none in " : "", dir ? dir : "");
out:
    mem_free(dir);
    return st;
}

struct load {
    struct bar bar;
};

static bool on_load(void *user, uint64_t done, uint64_t total)
{
    bar_show(&((struct load *)user)->bar, done, total);
    return !cli_interrupted;
}

glim_status cli_open(struct cli *c, const char *name)
{
    char *path;
    TRY(cli_model_path(c, name, &path, &c->err));
    struct load load = {.bar = {.what = "loading", .unit = "MiB", .scale = 1.0 / (1 << 20)}};
    glim_status st = glim_model_open(&c->model, path, c->config, on_load, &load, &c->err);
    bar_clear(&load.bar);
    mem_free(path);
    return st;
}

glim_status cli_print(struct str *s, struct glim_err *e)
{
    bool failed = s->failed;
    if (!failed && s->n > 0)
        fwrite(s->s, 1, s->n, stdout);
    str_fini(s);
    return failed ? err_nomem(e, "output", 0) : GLIM_OK;
}

const char *cli_bytes(double n, char buf[32])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int i = 0;
    while (n >= 1024 && i < 6) {
        n /= 1024;
        i++;
    }
    snprintf(buf, 32, i ? "%.1f %s" : "%.0f %s", n, unit[i]);
    return buf;
}
