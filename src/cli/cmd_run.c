/* glim run: a prompt in, text out. */
#include "cli/talk.h"

#include "base/mem.h"
#include "run/model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct run_options {
    const char *model, *prompt, *file, *tokens;
    int64_t index, n;
    bool special, chat, no_bos, ignore_eos, verbose, json;
    struct sampling_options sampling;
    struct talk_options talk;
    struct arg_list stop;
};

struct run {
    struct run_options o;
    struct cli *cli;
    int32_t *prompt;
    size_t n_prompt;
    double load_s;
    struct bar bar;
    bool ends_in_newline;
};

/* ---- options -------------------------------------------------------------------------------------------------------
 */

static glim_status parse_options(struct cli *c, struct run_options *o, int argc, char **argv)
{
    o->index = -1;
    o->n = -1;
    const struct arg own[] = {
        {'m', "model", ARG_TEXT, &o->model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {'p', "prompt", ARG_TEXT, &o->prompt, "TEXT", 0, 0, "the prompt; may also stand by itself"},
        {'f', "file", ARG_TEXT, &o->file, "FILE", 0, 0, "read the prompt from a file; - is standard input"},
        {0, "tokens", ARG_TEXT, &o->tokens, "JSON", 0, 0, "the prompt as token ids: '[1,2,3]' or a JSON file"},
        {0, "index", ARG_INT, &o->index, "I", 0, 1e9, "which list, when the token file holds several"},
        {0, "special", ARG_FLAG, &o->special, NULL, 0, 0, "text such as <|im_start|> in the prompt is a special token"},
        {0, "chat", ARG_FLAG, &o->chat, NULL, 0, 0,
         "send the prompt as a user's message, in the model's chat template"},
        {0, "no-bos", ARG_FLAG, &o->no_bos, NULL, 0, 0, "do not begin with the model's BOS token"},
        {'n', "n-predict", ARG_INT, &o->n, "N", 0, 1e9, "at most N new tokens; 0: as many as the context holds"},
        {0, "stop", ARG_LIST, &o->stop, "TEXT", 0, 0, "end before this text appears; repeatable"},
        {0, "ignore-eos", ARG_FLAG, &o->ignore_eos, NULL, 0, 0, "go on after the model says it is done"},
        {'v', "verbose", ARG_FLAG, &o->verbose, NULL, 0, 0, "timings on standard error at the end"},
        {0, "json", ARG_FLAG, &o->json, NULL, 0, 0, "one JSON object instead of the text"},
    };
    enum { OWN = sizeof own / sizeof *own };
    struct arg arg[OWN + TALK_ARGS + SAMPLING_ARGS];
    memcpy(arg, own, sizeof own);
    talk_args(&o->talk, arg + OWN);
    sampling_args(&o->sampling, arg + OWN + TALK_ARGS);
    const struct arg_spec spec = {"run",
                                  "-m MODEL (TEXT | -p TEXT | -f FILE | --tokens JSON) [OPTION …]",
                                  "Generate text that follows a prompt, or answers it.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  1};
    TRY(cli_begin(c, &spec, argc, argv));
    if (c->args.help)
        return GLIM_OK;
    if (c->args.positional.n > 0 && o->prompt)
        return err_set(&c->err, GLIM_USAGE, "prompt: have -p and '%.60s', need one of them",
                       c->args.positional.item[0]);
    if (c->args.positional.n > 0)
        o->prompt = c->args.positional.item[0];
    return sampling_read(&o->sampling, &c->err);
}

/* ---- the prompt ----------------------------------------------------------------------------------------------------
 */

static glim_status check_prompt_options(const struct run_options *o, struct glim_err *e)
{
    if (o->tokens && (o->prompt || o->file))
        return err_set(e, GLIM_USAGE, "prompt: have --tokens and %s, need one of them", o->prompt ? "-p" : "-f");
    if (!o->tokens && !o->prompt == !o->file)
        return err_set(e, GLIM_USAGE, "prompt: have %s, need exactly one of -p, -f and --tokens",
                       o->prompt ? "both -p and -f" : "none");
    const char *text_only = o->chat ? "--chat" : o->special ? "--special" : o->no_bos ? "--no-bos" : NULL;
    if (o->tokens && text_only)
        return err_set(e, GLIM_USAGE, "prompt: have --tokens and %s, need a prompt in text for that", text_only);
    if (o->chat && (o->special || o->no_bos))
        return err_set(e, GLIM_USAGE, "prompt: have --chat and %s, need one of them",
                       o->special ? "--special" : "--no-bos");
    const struct talk_options *t = &o->talk;
    const char *chat_only = t->system      ? "--system"
                            : t->tools     ? "--tools"
                            : t->reasoning ? "--reasoning"
                            : t->template  ? "--chat-template"
                            : t->dialect   ? "--dialect"
                                           : NULL;
    if (chat_only && !o->chat)
        return err_set(e, GLIM_USAGE, "prompt: have %s without --chat, need both", chat_only);
    if (o->index >= 0 && !o->tokens)
        return err_set(e, GLIM_USAGE, "prompt: have --index without --tokens, need both");
    return GLIM_OK;
}

static glim_status make_prompt(struct run *r, struct glim_err *e)
{
    const struct run_options *o = &r->o;
    const struct glim_model *m = r->cli->model;
    if (o->tokens)
        return cli_read_tokens(o->tokens, o->index, glim_model_info(m)->n_vocab, &r->prompt, &r->n_prompt, e);
    char *text;
    size_t n;
    TRY(cli_read_text(o->prompt, o->file, &text, &n, e));
    int flags = (o->no_bos ? 0 : GLIM_TOK_BOS) | (o->special ? GLIM_TOK_SPECIAL : 0);
    glim_status st = glim_tokenize(m, text, n, flags, &r->prompt, &r->n_prompt, e);
    mem_free(text);
    return st;
}

/* ---- output --------------------------------------------------------------------------------------------------------
 */

static bool on_text(void *user, int32_t token, const char *text, size_t n)
{
    struct run *r = user;
    (void)token;
    bar_clear(&r->bar);
    if (n > 0 && !r->o.json) {
        fwrite(text, 1, n, stdout);
        fflush(stdout);
        r->ends_in_newline = text[n - 1] == '\n';
    }
    return !cli_interrupted;
}

static bool on_prefill(void *user, uint64_t done, uint64_t total)
{
    bar_show(&((struct run *)user)->bar, done, total);
    return !cli_interrupted;
}

static const char *finish_name(enum glim_finish f)
{
    switch (f) {
    case GLIM_FINISH_LENGTH:
        return "length";
    case GLIM_FINISH_END:
        return "end";
    case GLIM_FINISH_STOP:
        return "stop";
    case GLIM_FINISH_CANCELLED:
        return "cancelled";
    case GLIM_FINISH_DEADLINE:
        return "deadline";
    }
    return "unknown";
}

/* message: what a chat's answer consists of, or NULL. */
static glim_status print_json(const struct run *r, const struct glim_result *g, size_t n_prompt, const json_t *message,
                              struct glim_err *e)
{
    struct str s = {0};
    size_t computed = n_prompt - g->n_reused, later = g->n_token > 0 ? g->n_token - 1 : 0;
    str_printf(&s, "{\"prompt_tokens\":%zu,\"reused_tokens\":%zu,\"tokens\":", n_prompt, g->n_reused);
    cli_json_tokens(&s, g->tokens, g->n_token);
    str_puts(&s, ",\"text\":");
    str_json(&s, g->text, g->n_text);
    if (message) {
        char *text = json_dumps(message, JSON_COMPACT);
        s.failed |= !text;
        str_printf(&s, ",\"message\":%s", text ? text : "");
        mem_free(text);
    }
    str_printf(&s, ",\"finish_reason\":\"%s\",\"timings\":{\"load_s\":%.6f,\"prefill_s\":%.6f,\"prefill_tok_s\":%.3f,",
               finish_name(g->finish), r->load_s, g->prefill_s, talk_rate(computed, g->prefill_s));
    str_printf(&s, "\"decode_s\":%.6f,\"decode_tok_s\":%.3f}}\n", g->decode_s, talk_rate(later, g->decode_s));
    return cli_print(&s, e);
}

static void print_timings(const struct run *r, const struct glim_result *g, size_t n_prompt)
{
    size_t later = g->n_token > 0 ? g->n_token - 1 : 0;
    fprintf(stderr, "load     %8.3f s\n", r->load_s);
    fprintf(stderr, "prefill  %8.3f s  %6zu tokens  %9.1f tok/s\n", g->prefill_s, n_prompt,
            talk_rate(n_prompt - g->n_reused, g->prefill_s));
    fprintf(stderr, "decode   %8.3f s  %6zu tokens  %9.1f tok/s  (%s)\n", g->decode_s, g->n_token,
            talk_rate(later, g->decode_s), finish_name(g->finish));
}

/* After an answer: a last newline for a terminal, and the timings. */
static void finish_output(const struct run *r, const struct glim_result *g, size_t n_prompt)
{
    if (!r->o.json && isatty(STDOUT_FILENO) && !r->ends_in_newline)
        putchar('\n');
    if (r->o.verbose) {
        fflush(stdout);
        print_timings(r, g, n_prompt);
    }
}

/* ---- the command ---------------------------------------------------------------------------------------------------
 */

enum { N_DEFAULT = 256 };

/* Without -n: N_DEFAULT, or what the context still holds. */
static uint32_t max_tokens(const struct run *r, size_t n_prompt)
{
    if (r->o.n >= 0)
        return (uint32_t)r->o.n;
    uint32_t n_ctx = model_default_ctx(&r->cli->model->lv, &r->cli->model->plan);
    return n_prompt + N_DEFAULT <= n_ctx ? N_DEFAULT : 0;
}

static glim_status generate(struct run *r)
{
    struct glim_err *e = &r->cli->err;
    struct glim_session *session = NULL;
    struct glim_grammar *grammar = NULL;
    struct glim_result result = {0};
    glim_status st;
    TRY_OUT(make_prompt(r, e));
    TRY_OUT(talk_grammar(&r->o.talk, r->cli->model, &grammar, e));
    struct glim_request q = {
        .prompt = r->prompt,
        .n_prompt = r->n_prompt,
        .max_tokens = max_tokens(r, r->n_prompt),
        .sampling = r->o.sampling.s,
        .stop = r->o.stop.item,
        .n_stop = r->o.stop.n,
        .ignore_end = r->o.ignore_eos,
        .grammar = grammar,
    };
    TRY_OUT(glim_session_create(&session, r->cli->model, 0, e));
    r->bar = (struct bar){.what = "reading", .unit = "tokens", .scale = 1};
    st = glim_generate(session, &q, on_text, on_prefill, r, &result, e);
    bar_clear(&r->bar);
    if (st != GLIM_OK)
        goto out;
    if (r->o.json)
        TRY_OUT(print_json(r, &result, r->n_prompt, NULL, e));
    finish_output(r, &result, r->n_prompt);
out:
    glim_result_fini(&result);
    glim_session_free(session);
    glim_grammar_free(grammar);
    return st;
}

/* ---- a chat's answer ---- */

static void on_shown(void *user, enum shown what, const char *text, size_t n)
{
    struct run *r = user;
    if (what == SHOWN_CONTENT)
        on_text(user, -1, text, n);
    else if (!r->o.json && isatty(STDOUT_FILENO))
        talk_dim(stdout, text, n);
}

static glim_status print_calls(const struct answer *a, struct glim_err *e)
{
    struct str s = {0};
    char *text = json_dumps(a->calls, JSON_INDENT(2));
    s.failed = !text;
    str_printf(&s, "%s%s\n", a->content.n ? "\n" : "", text ? text : "");
    mem_free(text);
    return cli_print(&s, e);
}

static glim_status make_messages(const struct run *r, json_t **out, struct glim_err *e)
{
    char *text;
    size_t n;
    TRY(cli_read_text(r->o.prompt, r->o.file, &text, &n, e));
    json_t *list = json_array();
    int failed = !list;
    if (r->o.talk.system)
        failed |= json_array_append_new(list, json_pack("{s:s, s:s}", "role", "system", "content", r->o.talk.system));
    failed |= json_array_append_new(list, json_pack("{s:s, s:s%}", "role", "user", "content", text, n));
    mem_free(text);
    *out = list;
    return failed ? err_set(e, GLIM_FAILED, "prompt: have no memory or invalid UTF-8, need text") : GLIM_OK;
}

static glim_status answer(struct run *r)
{
    struct glim_err *e = &r->cli->err;
    struct talk talk = {0};
    struct answer a = {0};
    json_t *messages = NULL, *message = NULL;
    glim_status st;
    TRY_OUT(make_messages(r, &messages, e));
    TRY_OUT(talk_init(&talk, r->cli->model, &r->o.talk, e));
    struct talk_job job = {.messages = messages,
                           .sampling = r->o.sampling.s,
                           .max_tokens = r->o.n >= 0 ? (uint32_t)r->o.n : N_DEFAULT,
                           .stop = r->o.stop.item,
                           .n_stop = r->o.stop.n,
                           .ignore_end = r->o.ignore_eos,
                           .show = on_shown,
                           .progress = on_prefill,
                           .user = r};
    r->bar = (struct bar){.what = "reading", .unit = "tokens", .scale = 1};
    st = talk_answer(&talk, &job, &a, e);
    bar_clear(&r->bar);
    if (st != GLIM_OK)
        goto out;
    if (a.malformed.n)
        fprintf(stderr, "glim: tool call: have one that cannot be read: %s", a.malformed.s);
    message = answer_message(&a);
    if (!message)
        TRY_OUT(err_nomem(e, "answer", a.content.n));
    if (r->o.json)
        TRY_OUT(print_json(r, &a.result, a.n_prompt, message, e));
    else if (json_array_size(a.calls))
        TRY_OUT(print_calls(&a, e));
    finish_output(r, &a.result, a.n_prompt);
out:
    json_decref(message);
    json_decref(messages);
    answer_fini(&a);
    talk_fini(&talk);
    return st;
}

int cmd_run(int argc, char **argv)
{
    struct cli c = {0};
    struct run r = {.cli = &c};
    glim_status st;
    TRY_OUT(parse_options(&c, &r.o, argc, argv));
    if (c.args.help)
        goto out;
    TRY_OUT(check_prompt_options(&r.o, &c.err));
    double begin = cli_now();
    TRY_OUT(cli_open(&c, r.o.model));
    r.load_s = cli_now() - begin;
    cli_catch_interrupt();
    TRY_OUT(r.o.chat ? answer(&r) : generate(&r));
out:
    mem_free(r.prompt);
    sampling_fini(&r.o.sampling);
    arg_list_fini(&r.o.stop);
    st = (glim_status)cli_end(&c, st);
    return cli_interrupted ? cli_end_interrupted() : (int)st;
}
