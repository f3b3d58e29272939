/* glim run: a prompt in, text out. */
#include "cli/cli.h"

#include "base/mem.h"
#include "run/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct run_options {
    const char *model, *prompt, *file, *tokens;
    int64_t index, n, top_k, repeat_last_n;
    bool special, chat, no_bos, ignore_eos, verbose, json;
    struct glim_sampling sampling;
    struct arg_list bias_text, stop;
    struct glim_bias *bias;
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
    o->sampling = glim_sampling_default();
    o->sampling.temperature = 0;
    o->top_k = o->sampling.top_k;
    o->repeat_last_n = o->sampling.repeat_last_n;
    struct glim_sampling *s = &o->sampling;
    const struct arg arg[] = {
        {'m', "model", ARG_TEXT, &o->model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {'p', "prompt", ARG_TEXT, &o->prompt, "TEXT", 0, 0, "the prompt"},
        {'f', "file", ARG_TEXT, &o->file, "FILE", 0, 0, "read the prompt from a file; - is standard input"},
        {0, "tokens", ARG_TEXT, &o->tokens, "JSON", 0, 0, "the prompt as token ids: '[1,2,3]' or a JSON file"},
        {0, "index", ARG_INT, &o->index, "I", 0, 1e9, "which list, when the token file holds several"},
        {0, "special", ARG_FLAG, &o->special, NULL, 0, 0, "text such as <|im_start|> in the prompt is a special token"},
        {0, "chat", ARG_FLAG, &o->chat, NULL, 0, 0, "send the prompt as one user turn (ChatML or Gemma form)"},
        {0, "no-bos", ARG_FLAG, &o->no_bos, NULL, 0, 0, "do not begin with the model's BOS token"},
        {'n', "n-predict", ARG_INT, &o->n, "N", 0, 1e9, "at most N new tokens; 0: as many as the context holds"},
        {0, "temp", ARG_FLOAT, &s->temperature, "T", 0, 100, "temperature; 0, the default, takes the likeliest token"},
        {0, "top-k", ARG_INT, &o->top_k, "K", 0, 4294967295.0, "keep the K likeliest tokens; 0: all"},
        {0, "top-p", ARG_FLOAT, &s->top_p, "P", 0, 1, "keep the likeliest tokens up to mass P; 1: all"},
        {0, "min-p", ARG_FLOAT, &s->min_p, "P", 0, 1, "keep tokens at least P times as likely as the likeliest"},
        {0, "typical-p", ARG_FLOAT, &s->typical_p, "P", 0, 1, "keep the most typical tokens up to mass P; 1: all"},
        {0, "repeat-penalty", ARG_FLOAT, &s->repeat_penalty, "X", 0.01, 100, "divide logits of seen tokens; 1: off"},
        {0, "presence-penalty", ARG_FLOAT, &s->presence_penalty, "X", -100, 100, "subtract from logits of seen tokens"},
        {0, "frequency-penalty", ARG_FLOAT, &s->frequency_penalty, "X", -100, 100,
         "subtract for each time it was seen"},
        {0, "repeat-last-n", ARG_INT, &o->repeat_last_n, "N", -1, 2147483647, "tokens the penalties see (64); -1: all"},
        {0, "logit-bias", ARG_LIST, &o->bias_text, "ID=V", 0, 0,
         "add V to a token's logit; -inf forbids it; repeatable"},
        {0, "seed", ARG_U64, &s->seed, "S", 0, 0, "seed of the noise; the same seed gives the same text"},
        {0, "stop", ARG_LIST, &o->stop, "TEXT", 0, 0, "end before this text appears; repeatable"},
        {0, "ignore-eos", ARG_FLAG, &o->ignore_eos, NULL, 0, 0, "go on after the model says it is done"},
        {'v', "verbose", ARG_FLAG, &o->verbose, NULL, 0, 0, "timings on standard error at the end"},
        {0, "json", ARG_FLAG, &o->json, NULL, 0, 0, "one JSON object instead of the text"},
    };
    const struct arg_spec spec = {"run",
                                  "-m MODEL (-p TEXT | -f FILE | --tokens JSON) [OPTION …]",
                                  "Generate text that follows a prompt.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  0};
    TRY(cli_begin(c, &spec, argc, argv));
    s->top_k = (uint32_t)o->top_k;
    s->repeat_last_n = (int32_t)o->repeat_last_n;
    return GLIM_OK;
}

/* "ID=V" → one entry. */
static glim_status parse_bias(const char *text, struct glim_bias *b, struct glim_err *e)
{
    const char *equals = strchr(text, '=');
    char id_text[16] = "";
    int64_t id;
    double v;
    if (equals && (size_t)(equals - text) < sizeof id_text)
        memcpy(id_text, text, (size_t)(equals - text));
    if (!parse_i64(id_text, &id) || id < 0 || id > INT32_MAX)
        return err_set(e, GLIM_USAGE, "option --logit-bias: have '%s', need ID=V such as 42=-1.5", text);
    b->token = (int32_t)id;
    if (strcmp(equals + 1, "-inf") == 0) {
        b->add = -INFINITY;
        return GLIM_OK;
    }
    if (!parse_f64(equals + 1, &v) || fabs(v) > 1e6)
        return err_set(e, GLIM_USAGE, "option --logit-bias: have '%s', need -inf or a number within 1e6 of 0", text);
    b->add = (float)v;
    return GLIM_OK;
}

static glim_status parse_biases(struct run_options *o, struct glim_err *e)
{
    size_t n = o->bias_text.n;
    o->bias = mem_calloc(n, sizeof *o->bias);
    if (!o->bias)
        return err_nomem(e, "logit bias", n * sizeof *o->bias);
    for (size_t i = 0; i < n; i++)
        TRY(parse_bias(o->bias_text.item[i], &o->bias[i], e));
    o->sampling.bias = o->bias;
    o->sampling.n_bias = n;
    return GLIM_OK;
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
    glim_status st = o->chat ? cli_chat_tokens(m, text, n, &r->prompt, &r->n_prompt, e)
                             : glim_tokenize(m, text, n, flags, &r->prompt, &r->n_prompt, e);
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
    }
    return "unknown";
}

/* Tokens a second; 0 when there was nothing to measure. */
static double rate(size_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

static glim_status print_json(const struct run *r, const struct glim_result *g, struct glim_err *e)
{
    struct str s = {0};
    size_t computed = r->n_prompt - g->n_reused, later = g->n_token > 0 ? g->n_token - 1 : 0;
    str_printf(&s, "{\"prompt_tokens\":%zu,\"reused_tokens\":%zu,\"tokens\":", r->n_prompt, g->n_reused);
    cli_json_tokens(&s, g->tokens, g->n_token);
    str_puts(&s, ",\"text\":");
    str_json(&s, g->text, g->n_text);
    str_printf(&s, ",\"finish_reason\":\"%s\",\"timings\":{\"load_s\":%.6f,\"prefill_s\":%.6f,\"prefill_tok_s\":%.3f,",
               finish_name(g->finish), r->load_s, g->prefill_s, rate(computed, g->prefill_s));
    str_printf(&s, "\"decode_s\":%.6f,\"decode_tok_s\":%.3f}}\n", g->decode_s, rate(later, g->decode_s));
    return cli_print(&s, e);
}

static void print_timings(const struct run *r, const struct glim_result *g)
{
    size_t later = g->n_token > 0 ? g->n_token - 1 : 0;
    fprintf(stderr, "load     %8.3f s\n", r->load_s);
    fprintf(stderr, "prefill  %8.3f s  %6zu tokens  %9.1f tok/s\n", g->prefill_s, r->n_prompt,
            rate(r->n_prompt - g->n_reused, g->prefill_s));
    fprintf(stderr, "decode   %8.3f s  %6zu tokens  %9.1f tok/s  (%s)\n", g->decode_s, g->n_token,
            rate(later, g->decode_s), finish_name(g->finish));
}

/* ---- the command ---------------------------------------------------------------------------------------------------
 */

enum { N_DEFAULT = 256 };

/* Without -n: N_DEFAULT, or what the context still holds. */
static uint32_t max_tokens(const struct run *r)
{
    if (r->o.n >= 0)
        return (uint32_t)r->o.n;
    uint32_t n_ctx = model_default_ctx(&r->cli->model->lv, &r->cli->model->plan);
    return r->n_prompt + N_DEFAULT <= n_ctx ? N_DEFAULT : 0;
}

static glim_status generate(struct run *r)
{
    struct glim_err *e = &r->cli->err;
    struct glim_session *session = NULL;
    struct glim_result result = {0};
    struct glim_request q = {
        .prompt = r->prompt,
        .n_prompt = r->n_prompt,
        .max_tokens = max_tokens(r),
        .sampling = r->o.sampling,
        .stop = r->o.stop.item,
        .n_stop = r->o.stop.n,
        .ignore_end = r->o.ignore_eos,
    };
    glim_status st;
    TRY_OUT(glim_session_create(&session, r->cli->model, 0, e));
    r->bar = (struct bar){.what = "reading", .unit = "tokens", .scale = 1};
    st = glim_generate(session, &q, on_text, on_prefill, r, &result, e);
    bar_clear(&r->bar);
    if (st != GLIM_OK)
        goto out;
    if (r->o.json)
        TRY_OUT(print_json(r, &result, e));
    else if (isatty(STDOUT_FILENO) && !r->ends_in_newline)
        putchar('\n');
    if (r->o.verbose) {
        fflush(stdout);
        print_timings(r, &result);
    }
out:
    glim_result_fini(&result);
    glim_session_free(session);
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
    TRY_OUT(parse_biases(&r.o, &c.err));
    double begin = cli_now();
    TRY_OUT(cli_open(&c, r.o.model));
    r.load_s = cli_now() - begin;
    TRY_OUT(make_prompt(&r, &c.err));
    cli_catch_interrupt();
    TRY_OUT(generate(&r));
out:
    mem_free(r.prompt);
    mem_free(r.o.bias);
    arg_list_fini(&r.o.bias_text);
    arg_list_fini(&r.o.stop);
    st = (glim_status)cli_end(&c, st);
    return cli_interrupted ? cli_end_interrupted() : (int)st;
}
