/* The command line: what the subcommands share.
 *
 * Standard output carries the result and nothing else; progress, warnings and errors go to standard error. An error is
 * one line, "glim: …", and the exit code is its glim_status. Options are rows of a table (struct arg): one row parses,
 * checks and documents an option. Every command that opens a model also takes each lever as --its-name VALUE. */
#ifndef GLIM_CLI_CLI_H
#define GLIM_CLI_CLI_H

#include "base/lever.h"
#include "op/op.h"

#include <signal.h>

/* ---- subcommands (the table is in main.c) ---- */
int cmd_run(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_keys(int argc, char **argv);
int cmd_tls(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_detokenize(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_levers(int argc, char **argv);
int cmd_text(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_pull(int argc, char **argv);

/* ---- options ---- */

enum arg_kind {
    ARG_FLAG,  /* bool *: true when given */
    ARG_TEXT,  /* const char **: points into argv */
    ARG_LIST,  /* struct arg_list *: may be given many times */
    ARG_INT,   /* int64_t *, within [min, max] */
    ARG_U64,   /* uint64_t *, any */
    ARG_FLOAT, /* float *, within [min, max] */
};

struct arg {
    char letter; /* 0 = no short form */
    const char *name;
    enum arg_kind kind;
    void *out;
    const char *meta; /* what the value is called in the help */
    double min, max;
    const char *help;
};

struct arg_list {
    const char **item; /* fresh memory; the strings are argv's */
    size_t n, cap;
};

struct arg_spec {
    const char *name;  /* "run" */
    const char *usage; /* what follows the name */
    const char *about; /* one sentence */
    const struct arg *arg;
    size_t n_arg;
    bool levers;       /* lever flags are taken */
    size_t positional; /* at most so many */
};

/* What was on the command line beside the table's options. */
struct args {
    struct arg_list positional;
    struct arg_list lever; /* name, value, name, value, … */
    bool help;
};

/* Options and values of argv[1 …]. Refused by name: an unknown option, a missing or malformed value, too many
 * arguments.
 * --help prints the help and sets help: the command then returns success. Free with args_fini. */
glim_status args_parse(const struct arg_spec *spec, int argc, char **argv, struct args *a, struct glim_err *e);
/* One value, checked as on the command line. */
glim_status arg_set(const struct arg *a, const char *value, struct glim_err *e);
void args_fini(struct args *a);
void arg_list_fini(struct arg_list *l);
bool arg_list_add(struct arg_list *l, const char *s); /* false: out of memory */

/* ---- what a command works with ---- */

struct cli {
    struct args args;
    struct glim_config *config; /* file, environment, and the flags of the command line */
    struct glim_model *model;
    struct glim_err err;
};

/* Parse, read the levers, set up logging. Zeroed *c in; cli_end in every case. When c->args.help is true there is no
 * more to do. */
glim_status cli_begin(struct cli *c, const struct arg_spec *spec, int argc, char **argv);
const struct levers *cli_levers(const struct cli *c);
/* Open a model by path or pulled name into c->model, with a progress bar where there is a terminal. */
glim_status cli_open(struct cli *c, const char *name);
/* Print the error if there is one, flush standard output, free everything; returns the exit code. */
int cli_end(struct cli *c, glim_status st);
/* A file or folder for a model argument: the path itself, else a pulled model of that name. Free with mem_free. */
glim_status cli_model_path(const struct cli *c, const char *name, char **path, struct glim_err *e);
/* $GLIM_HOME/models; free with mem_free. */
glim_status cli_models_dir(const struct cli *c, char **dir, struct glim_err *e);

/* Print and clear a string on standard output; out of memory while building it is reported here. */
glim_status cli_print(struct str *s, struct glim_err *e);

/* "q8", as the lever act has it; "f32" for plain numbers. */
const char *cli_act_name(enum act_type a);
/* The kernels that serve the model's products, as a JSON object: {"Q4_K q8": "avx512-vnni …", …}. */
void cli_json_kernels(struct str *s, const struct glim_model *m);
/* The same as lines of text: format, activations, kernel. */
void cli_text_kernels(struct str *s, const struct glim_model *m);

/* ---- tokens ---- */

/* Token ids from `arg`: a JSON array, or a file that holds one. An array of arrays needs index >= 0 to pick one. Every
 * id is checked against n_vocab. Free with mem_free. */
glim_status cli_read_tokens(const char *arg, int64_t index, uint32_t n_vocab, int32_t **ids, size_t *n,
                            struct glim_err *e);
void cli_json_tokens(struct str *s, const int32_t *ids, size_t n);
/* The text of -p, -f FILE or -f -; exactly one must be given. Free with mem_free. */
glim_status cli_read_text(const char *text, const char *file, char **out, size_t *n, struct glim_err *e);

/* ---- terminal ---- */

/* A bar on standard error; silent when that is no terminal. Zeroed with `what` set to begin with. */
struct bar {
    const char *what, *unit; /* "loading", "MB" */
    double scale;            /* units a step */
    double last, begin;
    bool shown;
};
void bar_show(struct bar *b, uint64_t done, uint64_t total);
void bar_clear(struct bar *b);
double cli_now(void); /* seconds, monotonic */

/* Ctrl-C: the first one sets this, the second one ends the process. */
extern volatile sig_atomic_t cli_interrupted;
void cli_catch_interrupt(void);
/* End as an interrupted process does, after everything is cleaned up. */
int cli_end_interrupted(void);

/* "93.8 MiB" */
const char *cli_bytes(double n, char buf[32]);

#endif
