/* Conversations on the command line. See talk.h. */
#include "cli/talk.h"

#include "base/file.h"
#include "base/mem.h"
#include "run/model.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_FILE = 16 << 20, MAX_TEMPLATE = 1 << 20 };

/* ---- options ---- */

void talk_args(struct talk_options *o, struct arg *arg)
{
    const struct arg row[TALK_ARGS] = {
        {0, "system", ARG_TEXT, &o->system, "TEXT", 0, 0, "the system message"},
        {0, "tools", ARG_TEXT, &o->tools, "FILE", 0, 0, "tools the model may call: a JSON list as OpenAI's API has it"},
        {0, "json-schema", ARG_TEXT, &o->schema, "FILE", 0, 0, "the answer is JSON that this schema allows"},
        {0, "grammar", ARG_TEXT, &o->grammar, "FILE", 0, 0, "the answer is a sentence of this GBNF grammar"},
        {0, "reasoning", ARG_TEXT, &o->reasoning, "HOW", 0, 0,
         "on, off, low, medium or high, as the model's template allows"},
        {0, "chat-template", ARG_TEXT, &o->template, "FILE", 0, 0, "a Jinja template instead of the model's"},
        {0, "dialect", ARG_TEXT, &o->dialect, "NAME", 0, 0, "how the model marks reasoning and calls (glim text)"},
    };
    memcpy(arg, row, sizeof row);
}

glim_status talk_reasoning(const char *word, enum chat_reasoning *out, struct glim_err *e)
{
    static const struct {
        const char *word;
        enum chat_reasoning how;
    } row[] = {{"default", CHAT_REASONING_DEFAULT}, {"on", CHAT_REASONING_ON},         {"off", CHAT_REASONING_OFF},
               {"low", CHAT_REASONING_LOW},         {"medium", CHAT_REASONING_MEDIUM}, {"high", CHAT_REASONING_HIGH}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strcmp(word, row[i].word) == 0) {
            *out = row[i].how;
            return GLIM_OK;
        }
    return err_set(e, GLIM_USAGE, "reasoning: have '%.40s', need default, on, off, low, medium or high", word);
}

/* ---- life ---- */

glim_status talk_set_tools(struct talk *t, const char *file, struct glim_err *e)
{
    json_t *tools = NULL;
    if (file)
        TRY(json_parse_file(file, MAX_FILE, &tools, e));
    if (file && !json_is_array(tools)) {
        json_decref(tools);
        return err_set(e, GLIM_FAILED, "tools: %s: have no list, need a JSON list of tools", file);
    }
    struct glim_grammar *calls = NULL;
    struct calls_opts o = {.parallel = true, .lazy = true};
    if (json_array_size(tools)) {
        glim_status st = run_grammar_calls(&calls, t->model, chat_dialect(t->chat), tools, &o, e);
        if (st != GLIM_OK) {
            json_decref(tools);
            return st;
        }
    }
    glim_grammar_free(t->calls);
    json_decref(t->tools);
    t->calls = calls;
    t->tools = tools;
    return GLIM_OK;
}

glim_status talk_grammar(const struct talk_options *o, const struct glim_model *m, struct glim_grammar **out,
                         struct glim_err *e)
{
    const char *path = o->schema ? o->schema : o->grammar;
    char *text;
    size_t n;
    if (o->schema && o->grammar)
        return err_set(e, GLIM_USAGE, "answer: have --json-schema and --grammar, need one of them");
    *out = NULL;
    if (!path)
        return GLIM_OK;
    TRY(file_read(path, MAX_FILE, &text, &n, e));
    glim_status st = o->schema ? glim_grammar_json_schema(out, m, text, n, e) : glim_grammar_gbnf(out, m, text, n, e);
    mem_free(text);
    return st;
}

/* The dialect's further ends of a turn that are tokens of this vocabulary. */
static void find_ends(struct talk *t)
{
    const struct dialect *d = chat_dialect(t->chat);
    for (size_t i = 0; i < DIALECT_MAX_STOP && d->stop[i]; i++) {
        int32_t id = tok_special(t->model->tok, d->stop[i], strlen(d->stop[i]));
        if (id >= 0)
            t->end[t->n_end++] = id;
    }
}

/* The model's templates, or the one in a file. */
static glim_status open_chat(struct talk *t, const struct talk_options *o, struct glim_err *e)
{
    const struct glim_model *m = t->model;
    struct run_templates from = {m->chat_template, m->tool_template, m->info.name};
    char *text = NULL;
    size_t n;
    if (o->template) {
        TRY(file_read(o->template, MAX_TEMPLATE, &text, &n, e));
        from = (struct run_templates){text, NULL, o->template};
    }
    glim_status st = text && memchr(text, 0, n)
                         ? err_set(e, GLIM_FAILED, "chat: %s: have a zero byte, need text", o->template)
                         : run_chat_open(&t->chat, m->tok, &from, o->dialect, e);
    mem_free(text);
    return st;
}

glim_status talk_init(struct talk *t, const struct glim_model *m, const struct talk_options *o, struct glim_err *e)
{
    t->model = m;
    TRY(talk_reasoning(o->reasoning ? o->reasoning : "default", &t->reasoning, e));
    TRY(open_chat(t, o, e));
    TRY(talk_set_tools(t, o->tools, e));
    TRY(talk_grammar(o, m, &t->grammar, e));
    find_ends(t);
    return glim_session_create(&t->session, m, 0, e);
}

void talk_fini(struct talk *t)
{
    glim_grammar_free(t->grammar);
    glim_grammar_free(t->calls);
    json_decref(t->tools);
    chat_memory_fini(&t->memory);
    glim_session_free(t->session);
    chat_close(t->chat);
}

/* ---- one answer ---- */

double talk_rate(size_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

void talk_dim(FILE *to, const char *text, size_t n)
{
    const char *no_color = lever_system_env("NO_COLOR");
    bool plain = no_color && *no_color;
    fputs(plain ? "" : "\033[2m", to);
    fwrite(text, 1, n, to);
    fputs(plain ? "" : "\033[0m", to);
    fflush(to);
}

void answer_fini(struct answer *a)
{
    str_fini(&a->content);
    str_fini(&a->reasoning);
    str_fini(&a->malformed);
    json_decref(a->calls);
    glim_result_fini(&a->result);
    *a = (struct answer){0};
}

json_t *answer_message(const struct answer *a)
{
    json_t *m =
        json_pack("{s:s, s:s%}", "role", "assistant", "content", a->content.s ? a->content.s : "", a->content.n);
    bool ok = m != NULL;
    if (ok && a->reasoning.n)
        ok = json_object_set_new(m, "reasoning_content", json_stringn(a->reasoning.s, a->reasoning.n)) == 0;
    if (ok && json_array_size(a->calls)) {
        json_t *list = json_array();
        size_t i;
        json_t *call;
        ok = list != NULL;
        json_array_foreach(a->calls, i, call)
        {
            char id[32];
            snprintf(id, sizeof id, "call_%zu", i);
            const char *given = json_string_value(json_object_get(call, "id"));
            ok = ok &&
                 json_array_append_new(list, json_pack("{s:s, s:s, s:{s:O, s:O}}", "id", given ? given : id, "type",
                                                       "function", "function", "name", json_object_get(call, "name"),
                                                       "arguments", json_object_get(call, "arguments"))) == 0;
        }
        ok = ok && json_object_set(m, "tool_calls", list) == 0;
        json_decref(list);
    }
    if (ok)
        return m;
    json_decref(m);
    return NULL;
}

/* An answer under way. */
struct hearing {
    const struct talk_job *job;
    struct dialect_parser *parser;
    struct answer *a;
    json_t *call; /* the one that is being written */
    struct str args;
    glim_status st; /* of the parser, which has no way to say it through a callback of text */
    struct glim_err *e;
};

static glim_status take_call(struct hearing *h, const struct dialect_event *ev, struct glim_err *e)
{
    json_t *args;
    if (ev->kind == DIALECT_CALL_BEGIN) {
        json_decref(h->call);
        h->call = json_pack("{s:s}", "name", ev->name);
        str_clear(&h->args);
    }
    if (!h->call)
        return err_nomem(e, "tool call", h->args.n);
    if (ev->id && json_object_set_new(h->call, "id", json_string(ev->id)) != 0)
        return err_nomem(e, "tool call", h->args.n);
    if (ev->kind == DIALECT_ARGUMENTS)
        str_add(&h->args, ev->text, ev->n);
    if (ev->kind != DIALECT_CALL_END)
        return h->args.failed ? err_nomem(e, "tool call", h->args.n) : GLIM_OK;
    TRY(json_parse(h->args.s ? h->args.s : "", h->args.n, "arguments of a tool call", &args, e));
    int failed = json_object_set_new(h->call, "arguments", args);
    failed |= json_array_append_new(h->a->calls, h->call);
    h->call = NULL;
    return failed ? err_nomem(e, "tool call", h->args.n) : GLIM_OK;
}

static glim_status on_event(void *ctx, const struct dialect_event *ev, struct glim_err *e)
{
    struct hearing *h = ctx;
    struct answer *a = h->a;
    const struct talk_job *j = h->job;
    switch (ev->kind) {
    case DIALECT_REASONING:
        str_add(&a->reasoning, ev->text, ev->n);
        if (j->show)
            j->show(j->user, SHOWN_REASONING, ev->text, ev->n);
        return a->reasoning.failed ? err_nomem(e, "answer", a->reasoning.n) : GLIM_OK;
    case DIALECT_CONTENT:
        str_add(&a->content, ev->text, ev->n);
        if (j->show)
            j->show(j->user, SHOWN_CONTENT, ev->text, ev->n);
        return a->content.failed ? err_nomem(e, "answer", a->content.n) : GLIM_OK;
    case DIALECT_CALL_BEGIN:
    case DIALECT_ARGUMENTS:
    case DIALECT_CALL_END:
        return take_call(h, ev, e);
    case DIALECT_MALFORMED:
        str_printf(&a->malformed, "%s: ", ev->reason);
        str_add(&a->malformed, ev->text, ev->n);
        str_putc(&a->malformed, '\n');
        return a->malformed.failed ? err_nomem(e, "answer", a->malformed.n) : GLIM_OK;
    }
    return GLIM_OK;
}

static bool on_text(void *user, int32_t token, const char *text, size_t n)
{
    struct hearing *h = user;
    (void)token;
    struct dialect_sink sink = {on_event, h};
    if (h->st == GLIM_OK)
        h->st = dialect_push(h->parser, text, n, &sink, h->e);
    return h->st == GLIM_OK && !cli_interrupted;
}

/* glim_generate has one user for both callbacks. */
static bool on_progress(void *user, uint64_t done, uint64_t total)
{
    const struct talk_job *j = ((struct hearing *)user)->job;
    return j->progress ? j->progress(j->user, done, total) : !cli_interrupted;
}

/* Where reasoning comes first, grammars begin behind it. */
static glim_status let_reason(struct talk *t, const struct chat_prompt *p, struct glim_err *e)
{
    const struct dialect *d = chat_dialect(t->chat);
    if (!t->grammar || p->end != DIALECT_PROMPT_THINKS || t->grammar_waits)
        return GLIM_OK;
    t->grammar_waits = true;
    return glim_grammar_after(t->grammar, d->think_end, false, e);
}

static glim_status generate(struct talk *t, const int32_t *id, size_t n_id, bool thinks, struct hearing *h)
{
    const struct talk_job *j = h->job;
    struct answer *a = h->a;
    struct glim_request q = {.prompt = id,
                             .n_prompt = n_id,
                             .max_tokens = j->max_tokens,
                             .sampling = j->sampling,
                             .stop = j->stop,
                             .n_stop = j->n_stop,
                             .ignore_end = j->ignore_end,
                             .end = t->end,
                             .n_end = t->n_end,
                             .special = true,
                             .thinks = thinks,
                             .grammar = t->grammar      ? t->grammar
                                        : j->ignore_end ? NULL
                                                        : t->calls};
    a->n_prompt = n_id;
    TRY(glim_generate(t->session, &q, on_text, on_progress, h, &a->result, h->e));
    TRY(h->st);
    struct dialect_sink sink = {on_event, h};
    bool cut = a->result.finish == GLIM_FINISH_LENGTH || a->result.finish == GLIM_FINISH_CANCELLED;
    return dialect_end(h->parser, cut ? DIALECT_CUT_BY_LENGTH : DIALECT_STOPPED, &sink, h->e);
}

glim_status talk_answer(struct talk *t, const struct talk_job *j, struct answer *a, struct glim_err *e)
{
    struct hearing h = {.job = j, .a = a, .e = e};
    struct chat_prompt p = {0};
    struct chat_input in = {.messages = j->messages, .tools = t->tools, .reasoning = t->reasoning};
    int32_t *id = NULL;
    size_t n_id;
    glim_status st;
    time_t now = time(NULL);
    localtime_r(&now, &in.now);
    *a = (struct answer){.calls = json_array()};
    TRY_OUT(chat_prompt_make(t->chat, &in, &p, e));
    TRY_OUT(let_reason(t, &p, e));
    struct dialect_opts opts = {.tools = t->tools, .parse_tools = t->calls && !t->grammar, .prompt = p.end};
    TRY_OUT(dialect_parser_create(&h.parser, chat_dialect(t->chat), &opts, e));
    TRY_OUT(chat_encode(&p, t->model->tok, &t->memory, &id, &n_id, e));
    TRY_OUT(generate(t, id, n_id, p.end == DIALECT_PROMPT_THINKS, &h));
    TRY_OUT(chat_memory_begin(&t->memory, &p, id, n_id, e));
    TRY_OUT(chat_memory_add(&t->memory, t->model->tok, a->result.tokens, a->result.n_token, e));
out:
    dialect_parser_free(h.parser);
    json_decref(h.call);
    str_fini(&h.args);
    mem_free(id);
    chat_prompt_fini(&p);
    if (st != GLIM_OK)
        answer_fini(a);
    return st;
}
