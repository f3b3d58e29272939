/* glim chat: a conversation at a terminal, or line by line through a pipe.
 *
 * A line is a message, or a command when it begins with a slash. The conversation is a list of messages; each answer is
 * made from the whole list, and what the session still holds of it is not computed again. Ctrl-C ends an answer, not
 * the conversation. */
#include "cli/lines.h"
#include "cli/talk.h"

#include "base/file.h"
#include "base/mem.h"
#include "run/model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct chat_options {
    const char *model;
    int64_t n;
    bool verbose;
    struct sampling_options sampling;
    struct talk_options talk;
    struct arg_list stop;
};

struct room {
    struct cli cli;
    struct chat_options o;
    struct arg param[SAMPLING_ARGS];
    struct talk talk;
    struct lines *lines;
    json_t *messages;
    struct bar bar;
    const char *edit; /* what the next line starts with */
    bool reasoning_open, done;
};

/* ---- one turn ---- */

static void on_shown(void *user, enum shown what, const char *text, size_t n)
{
    struct room *r = user;
    bar_clear(&r->bar);
    if (what == SHOWN_REASONING) {
        if (!lines_edited(r->lines)) /* a pipe carries answers */
            return;
        talk_dim(stdout, text, n);
        r->reasoning_open = true;
        return;
    }
    if (r->reasoning_open)
        putchar('\n');
    r->reasoning_open = false;
    fwrite(text, 1, n, stdout);
    fflush(stdout);
}

static bool on_prefill(void *user, uint64_t done, uint64_t total)
{
    bar_show(&((struct room *)user)->bar, done, total);
    return !cli_interrupted;
}

static void show_numbers(const struct room *r, const struct answer *a)
{
    const struct glim_result *g = &a->result;
    size_t read = a->n_prompt - g->n_reused, later = g->n_token ? g->n_token - 1 : 0;
    char text[200];
    snprintf(text, sizeof text, "[read %zu of %zu tokens at %.1f tok/s, wrote %zu at %.1f tok/s%s]\n", read,
             a->n_prompt, talk_rate(read, g->prefill_s), g->n_token, talk_rate(later, g->decode_s),
             g->finish == GLIM_FINISH_CANCELLED ? ", stopped"
             : g->finish == GLIM_FINISH_LENGTH  ? ", at the limit"
                                                : "");
    if (lines_edited(r->lines))
        talk_dim(stderr, text, strlen(text));
    else if (r->o.verbose)
        fputs(text, stderr);
}

static void print_calls(const json_t *calls)
{
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call)
    {
        char *text = json_dumps(call, JSON_COMPACT);
        printf("%s\n", text ? text : "(no memory)");
        mem_free(text);
    }
}

/* The model's turn. */
static glim_status answer(struct room *r, struct glim_err *e)
{
    struct answer a = {0};
    json_t *message = NULL;
    struct talk_job job = {.messages = r->messages,
                           .sampling = r->o.sampling.s,
                           .max_tokens = (uint32_t)r->o.n,
                           .stop = r->o.stop.item,
                           .n_stop = r->o.stop.n,
                           .show = on_shown,
                           .progress = on_prefill,
                           .user = r};
    glim_status st;
    cli_interrupted = 0;
    cli_catch_interrupt();
    r->bar = (struct bar){.what = "reading", .unit = "tokens", .scale = 1};
    r->reasoning_open = false;
    st = talk_answer(&r->talk, &job, &a, e);
    bar_clear(&r->bar);
    if (st != GLIM_OK)
        return st;
    putchar('\n');
    if (a.malformed.n)
        fprintf(stderr, "glim: tool call: have one that cannot be read: %s", a.malformed.s);
    print_calls(a.calls);
    fflush(stdout);
    show_numbers(r, &a);
    message = answer_message(&a);
    if (!message || json_array_append_new(r->messages, message) != 0)
        st = err_nomem(e, "conversation", a.content.n);
    answer_fini(&a);
    return st;
}

/* The text of a message; "" where it has none, or parts (a loaded conversation may). */
static const char *text_of(const struct room *r, size_t i)
{
    const char *s = json_string_value(json_object_get(json_array_get(r->messages, i), "content"));
    return s ? s : "";
}

static const char *role_of(const struct room *r, size_t i)
{
    return json_string_value(json_object_get(json_array_get(r->messages, i), "role"));
}

/* Take back messages from the end, up to the last user's; that one as well if asked. false: there is none. */
static bool take_back(struct room *r, bool the_users_too)
{
    size_t n = json_array_size(r->messages), i = n;
    while (i > 0 && strcmp(role_of(r, i - 1), "user") != 0)
        i--;
    if (i == 0)
        return false;
    for (size_t keep = the_users_too ? i - 1 : i; n > keep; n--)
        json_array_remove(r->messages, n - 1);
    return true;
}

static glim_status say(struct room *r, const char *text, size_t n, struct glim_err *e)
{
    json_t *message = json_pack("{s:s, s:s%}", "role", "user", "content", text, n);
    if (!message)
        return err_set(e, GLIM_REFUSED, "message: have invalid UTF-8, need text");
    if (json_array_append_new(r->messages, message) != 0)
        return err_nomem(e, "conversation", n);
    glim_status st = answer(r, e);
    if (st != GLIM_OK) /* as if it had not been said */
        take_back(r, true);
    return st;
}

/* ---- commands ---- */

static glim_status do_help(struct room *r, const char *arg, struct glim_err *e);

static glim_status set_system(struct room *r, const char *text, struct glim_err *e)
{
    bool has = json_array_size(r->messages) > 0 && strcmp(role_of(r, 0), "system") == 0;
    if (has)
        json_array_remove(r->messages, 0);
    if (!*text)
        return GLIM_OK;
    json_t *m = json_pack("{s:s, s:s}", "role", "system", "content", text);
    return m && json_array_insert_new(r->messages, 0, m) == 0 ? GLIM_OK : err_nomem(e, "conversation", strlen(text));
}

static glim_status do_system(struct room *r, const char *arg, struct glim_err *e)
{
    if (*arg)
        return set_system(r, strcmp(arg, "off") == 0 ? "" : arg, e);
    bool has = json_array_size(r->messages) > 0 && strcmp(role_of(r, 0), "system") == 0;
    printf("%s\n", has ? text_of(r, 0) : "(none)");
    return GLIM_OK;
}

static glim_status do_regenerate(struct room *r, const char *arg, struct glim_err *e)
{
    (void)arg;
    if (!take_back(r, false))
        return err_set(e, GLIM_REFUSED, "/regenerate: have no message yet, need one");
    r->o.sampling.s.seed++; /* greedy answers stay what they are */
    return answer(r, e);
}

static glim_status do_edit(struct room *r, const char *arg, struct glim_err *e)
{
    static char last[4096];
    size_t i = json_array_size(r->messages);
    while (i > 0 && strcmp(role_of(r, i - 1), "user") != 0)
        i--;
    if (i == 0)
        return err_set(e, GLIM_REFUSED, "/edit: have no message yet, need one");
    if (!*arg && (size_t)snprintf(last, sizeof last, "%s", text_of(r, i - 1)) >= sizeof last)
        return err_set(e, GLIM_REFUSED, "/edit: have %zu bytes, need at most %zu to edit in place: /edit TEXT",
                       strlen(text_of(r, i - 1)), sizeof last - 1);
    if (!*arg && !lines_edited(r->lines))
        return err_set(e, GLIM_USAGE, "/edit: have no text and no terminal, need the new message");
    take_back(r, true);
    if (*arg)
        return say(r, arg, strlen(arg), e);
    r->edit = last;
    return GLIM_OK;
}

static glim_status do_save(struct room *r, const char *arg, struct glim_err *e)
{
    if (!*arg)
        return err_set(e, GLIM_USAGE, "/save: have no file, need one");
    char *text = json_dumps(r->messages, JSON_INDENT(1));
    glim_status st = text ? file_write_atomic(arg, text, strlen(text), e) : err_nomem(e, "conversation", 0);
    mem_free(text);
    return st;
}

static glim_status do_load(struct room *r, const char *arg, struct glim_err *e)
{
    json_t *list, *m;
    size_t i;
    if (!*arg)
        return err_set(e, GLIM_USAGE, "/load: have no file, need one");
    TRY(json_parse_file(arg, (size_t)64 << 20, &list, e));
    bool good = json_is_array(list);
    json_array_foreach(list, i, m) good = good && json_is_string(json_object_get(m, "role"));
    if (!good) {
        json_decref(list);
        return err_set(e, GLIM_FAILED, "/load: %s: have no list of messages with a role, need one", arg);
    }
    json_decref(r->messages);
    r->messages = list;
    printf("(%zu messages)\n", json_array_size(list));
    return GLIM_OK;
}

static glim_status do_clear(struct room *r, const char *arg, struct glim_err *e)
{
    (void)arg;
    bool system = json_array_size(r->messages) > 0 && strcmp(role_of(r, 0), "system") == 0;
    json_t *first = system ? json_incref(json_array_get(r->messages, 0)) : NULL;
    json_array_clear(r->messages);
    if (first && json_array_append_new(r->messages, first) != 0)
        return err_nomem(e, "conversation", 0);
    return GLIM_OK;
}

static glim_status do_tools(struct room *r, const char *arg, struct glim_err *e)
{
    size_t i;
    json_t *tool;
    if (*arg)
        TRY(talk_set_tools(&r->talk, strcmp(arg, "off") == 0 ? NULL : arg, e));
    json_array_foreach(r->talk.tools, i, tool)
    {
        const json_t *f = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(f ? f : tool, "name"));
        printf("%s\n", name ? name : "(no name)");
    }
    if (!r->talk.tools)
        printf("(none)\n");
    return GLIM_OK;
}

static void print_param(const struct arg *a)
{
    switch (a->kind) {
    case ARG_INT:
        printf("%-18s %lld\n", a->name, (long long)*(int64_t *)a->out);
        return;
    case ARG_U64:
        printf("%-18s %llu\n", a->name, (unsigned long long)*(uint64_t *)a->out);
        return;
    case ARG_FLOAT:
        printf("%-18s %g\n", a->name, (double)*(float *)a->out);
        return;
    case ARG_FLAG:
    case ARG_TEXT:
    case ARG_LIST:
        return;
    }
}

/* "/params" lists, "/params temp 0.7" sets. */
static glim_status do_params(struct room *r, const char *arg, struct glim_err *e)
{
    size_t n = strcspn(arg, " =");
    for (size_t i = 0; i < SAMPLING_ARGS; i++) {
        const struct arg *a = &r->param[i];
        if (n == 0)
            print_param(a);
        if (n == 0 || a->kind == ARG_LIST || strlen(a->name) != n || memcmp(a->name, arg, n) != 0)
            continue;
        TRY(arg_set(a, arg + n + strspn(arg + n, " ="), e));
        sampling_apply(&r->o.sampling);
        print_param(a);
        return GLIM_OK;
    }
    return n ? err_set(e, GLIM_USAGE, "/params: have '%.*s', need one of those that /params lists", (int)n, arg)
             : GLIM_OK;
}

static glim_status do_image(struct room *r, const char *arg, struct glim_err *e)
{
    (void)r;
    (void)arg;
    return err_set(e, GLIM_REFUSED, "/image: have a picture, need text: this version reads no images");
}

static glim_status do_quit(struct room *r, const char *arg, struct glim_err *e)
{
    (void)arg;
    (void)e;
    r->done = true;
    return GLIM_OK;
}

static const struct room_command {
    const char *name, *meta, *help;
    glim_status (*run)(struct room *r, const char *arg, struct glim_err *e);
} commands[] = {
    {"help", "", "this list", do_help},
    {"system", "[TEXT|off]", "show, set or drop the system message", do_system},
    {"regenerate", "", "another answer to the last message (with a new seed)", do_regenerate},
    {"edit", "[TEXT]", "say the last message differently", do_edit},
    {"clear", "", "begin again; the system message stays", do_clear},
    {"save", "FILE", "write the conversation as JSON", do_save},
    {"load", "FILE", "go on with a saved conversation", do_load},
    {"tools", "[FILE|off]", "show, set or drop the tools", do_tools},
    {"params", "[NAME VALUE]", "show or set how tokens are drawn", do_params},
    {"image", "FILE", "show the model a picture (not in this version)", do_image},
    {"quit", "", "leave; so does Ctrl-D", do_quit},
};

static glim_status do_help(struct room *r, const char *arg, struct glim_err *e)
{
    (void)r;
    (void)arg;
    (void)e;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("/%-11s %-13s %s\n", commands[i].name, commands[i].meta, commands[i].help);
    printf("A backslash at the end of a line goes on with the next. Ctrl-C stops an answer.\n");
    return GLIM_OK;
}

static glim_status command(struct room *r, const char *line, struct glim_err *e)
{
    size_t n = strcspn(line, " \n");
    const char *arg = line + n + strspn(line + n, " \n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strlen(commands[i].name) == n && memcmp(commands[i].name, line, n) == 0)
            return commands[i].run(r, arg, e);
    return err_set(e, GLIM_USAGE, "/%.*s: have no such command, need one that /help lists", (int)n, line);
}

/* ---- the command line ---- */

static glim_status parse_options(struct room *r, int argc, char **argv)
{
    struct chat_options *o = &r->o;
    const struct arg own[] = {
        {'m', "model", ARG_TEXT, &o->model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {'n', "n-predict", ARG_INT, &o->n, "N", 0, 1e9, "at most N tokens an answer; 0, the default: what fits"},
        {0, "stop", ARG_LIST, &o->stop, "TEXT", 0, 0, "end an answer before this text appears; repeatable"},
        {'v', "verbose", ARG_FLAG, &o->verbose, NULL, 0, 0, "tokens read, reused and written, also without a terminal"},
    };
    enum { OWN = sizeof own / sizeof *own };
    struct arg arg[OWN + TALK_ARGS + SAMPLING_ARGS];
    sampling_args(&o->sampling, r->param);
    memcpy(arg, own, sizeof own);
    talk_args(&o->talk, arg + OWN);
    memcpy(arg + OWN + TALK_ARGS, r->param, sizeof r->param);
    const struct arg_spec spec = {
        "chat", "-m MODEL [OPTION …]",    "Talk with a model; /help lists what it takes beside messages.",
        arg,    sizeof arg / sizeof *arg, true,
        0};
    TRY(cli_begin(&r->cli, &spec, argc, argv));
    return r->cli.args.help ? GLIM_OK : sampling_read(&o->sampling, &r->cli.err);
}

static glim_status open_room(struct room *r)
{
    struct glim_err *e = &r->cli.err;
    TRY(cli_open(&r->cli, r->o.model));
    TRY(talk_init(&r->talk, r->cli.model, &r->o.talk, e));
    r->messages = json_array();
    if (!r->messages)
        return err_nomem(e, "conversation", 0);
    TRY(set_system(r, r->o.talk.system ? r->o.talk.system : "", e));
    const char *home = cli_levers(&r->cli)->home;
    char *history = isatty(STDIN_FILENO) && file_is_dir(home) ? path_join(home, "chat_history") : NULL;
    glim_status st = lines_open(&r->lines, history, e);
    mem_free(history);
    return st;
}

/* Without a terminal the first failure ends the command: nobody is there to read on. */
static glim_status talk(struct room *r)
{
    struct str line = {0};
    glim_status st = GLIM_OK;
    if (lines_edited(r->lines))
        printf("%s. /help lists commands, Ctrl-D leaves.\n", glim_model_info(r->cli.model)->name);
    while (!r->done) {
        const char *begin = r->edit;
        r->edit = NULL;
        cli_catch_interrupt();
        enum line_end end = lines_next(r->lines, "> ", begin, &line);
        if (end == LINE_END)
            break;
        if (end == LINE_INTERRUPTED) {
            cli_interrupted = 0;
            putchar('\n');
            continue;
        }
        if (line.failed)
            st = err_nomem(&r->cli.err, "message", line.n);
        else if (line.n && line.s[0] == '/')
            st = command(r, line.s + 1, &r->cli.err);
        else if (line.n)
            st = say(r, line.s, line.n, &r->cli.err);
        if (st != GLIM_OK && !lines_edited(r->lines))
            break;
        if (st != GLIM_OK)
            fprintf(stderr, "glim: %s\n", r->cli.err.message);
        st = GLIM_OK;
    }
    str_fini(&line);
    return st;
}

int cmd_chat(int argc, char **argv)
{
    struct room r = {0};
    glim_status st;
    TRY_OUT(parse_options(&r, argc, argv));
    if (r.cli.args.help)
        goto out;
    TRY_OUT(open_room(&r));
    TRY_OUT(talk(&r));
out:
    lines_close(r.lines);
    json_decref(r.messages);
    talk_fini(&r.talk);
    sampling_fini(&r.o.sampling);
    arg_list_fini(&r.o.stop);
    return cli_end(&r.cli, st);
}
