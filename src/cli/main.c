/* glim: one binary, one file a subcommand. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static int cmd_version(int argc, char **argv);
static int cmd_help(int argc, char **argv);

static const struct command {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "generate text from a prompt", cmd_run},
    {"chat", "talk with a model", cmd_chat},
    {"serve", "serve a model over HTTP", cmd_serve},
    {"keys", "the API keys of a server", cmd_keys},
    {"tls", "certificates for a server", cmd_tls},
    {"tokenize", "token ids of a text", cmd_tokenize},
    {"detokenize", "text of token ids", cmd_detokenize},
    {"logits", "logits of a token list as a .npy file", cmd_logits},
    {"bench", "measure prefill and decode speed", cmd_bench},
    {"inspect", "what is in a model file; --check walks every block", cmd_inspect},
    {"plan", "the memory a model would take", cmd_plan},
    {"levers", "every option of the engine", cmd_levers},
    {"text", "dialects, template features and schema keywords", cmd_text},
    {"doctor", "this machine and the kernels it gets", cmd_doctor},
    {"pull", "fetch a model", cmd_pull},
    {"version", "version of this program", cmd_version},
    {"help", "this text", cmd_help},
};

static int finish_stdout(void)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "glim: standard output: have a failed write, need a writable file or pipe\n");
        return GLIM_FAILED;
    }
    return GLIM_OK;
}

static int cmd_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("usage: glim COMMAND [OPTION …]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  %-12s %s\n", commands[i].name, commands[i].about);
    printf("\nglim COMMAND --help tells more. Exit: 0 done, 1 failed, 2 usage, 3 refused by a rule, 75 a lock was "
           "busy.\n");
    return finish_stdout();
}

static int cmd_version(int argc, char **argv)
{
    bool json = false;
    const struct arg arg[] = {{0, "json", ARG_FLAG, &json, NULL, 0, 0, "as a JSON object"}};
    const struct arg_spec spec = {"version", "[--json]", "Print the version.", arg, 1, false, 0};
    struct args a = {0};
    struct glim_err e = {0};
    glim_status st = args_parse(&spec, argc, argv, &a, &e);
    if (st != GLIM_OK)
        fprintf(stderr, "glim: %s\n", e.message);
    else if (!a.help)
        printf(json ? "{\"version\":\"%s\"}\n" : "glim %s\n", glim_version());
    args_fini(&a);
    return st != GLIM_OK ? (int)st : finish_stdout();
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        fprintf(stderr, "glim: command: have none, need one: see glim help\n");
        return GLIM_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "glim: command: have '%s', need one of those in glim help\n", name);
    return GLIM_USAGE;
}
