/* Answers in the words of the responses API: a list of items, whole or as events, and kept.
 *
 * One item is open at a time, and all its text is gathered, since the event that closes it repeats it. When the job is
 * done its teller goes on alone: a worker writes the response into the store, and only then is it told, so that a
 * client can go on from what it was told. */
#include "serve/api_responses.h"
#include "serve/openai.h"

#include "base/log.h"
#include "base/mem.h"
#include "run/model.h"
#include "serve/store.h"

#include <string.h>

enum item { ITEM_NONE, ITEM_MESSAGE, ITEM_REASONING, ITEM_CALL };

struct teller {
    struct call *call;
    bool stream, store, logprobs;
    char id[CALL_ID_MAX];
    time_t created, completed;
    char *echo;               /* members that repeat the request: ,"name":… */
    char *input, *previous;   /* what is stored beside the response; previous may be NULL */
    struct str line;          /* under construction */
    struct str done;          /* items that are complete, joined by commas */
    struct str name;          /* of the open call: "call_id":…,"name":… */
    struct str text;          /* of the open item, as inside of JSON's quotes */
    struct str token, tokens; /* items of its logprobs: those that are not sent, those that are */
    enum item open;
    char item_id[CALL_ID_MAX];
    size_t sent, index, sequence;    /* bytes of text; of the open item, or the next one; of the next event */
    size_t n_token, n_thought, from; /* tokens so far; of finished reasoning; before the reasoning that is open */
    /* once the job is done */
    enum job_finish finish;
    struct glim_usage usage;
    struct str body; /* the response */
    struct work work;
    struct http_note note;
};

/* ---- pieces ---- */

static void put_str(struct str *to, const struct str *from)
{
    to->failed |= from->failed;
    str_add(to, from->s ? from->s : "", from->n);
}

static void put_list(struct str *to, const struct str *first, const struct str *second)
{
    str_putc(to, '[');
    put_str(to, first);
    str_puts(to, first->n && second->n ? "," : "");
    put_str(to, second);
    str_putc(to, ']');
}

/* The open item's content part; full: with its text. */
static void put_part(struct str *s, const struct teller *o, bool full)
{
    static const struct str none = {0};
    bool message = o->open == ITEM_MESSAGE;
    str_printf(s, "{\"type\":\"%s\",\"text\":\"", message ? "output_text" : "reasoning_text");
    if (full)
        put_str(s, &o->text);
    str_putc(s, '"');
    if (message) {
        str_puts(s, ",\"annotations\":[],\"logprobs\":");
        put_list(s, full ? &o->tokens : &none, full ? &o->token : &none);
    }
    str_putc(s, '}');
}

/* The open item; full: with its content. */
static void put_item(struct str *s, const struct teller *o, const char *status, bool full)
{
    static const char *const type[] = {
        [ITEM_MESSAGE] = "message", [ITEM_REASONING] = "reasoning", [ITEM_CALL] = "function_call"};
    str_printf(s, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\",", o->item_id, type[o->open], status);
    if (o->open == ITEM_CALL) {
        put_str(s, &o->name);
        str_puts(s, ",\"arguments\":\"");
        if (full)
            put_str(s, &o->text);
        str_puts(s, "\"}");
        return;
    }
    str_puts(s, o->open == ITEM_MESSAGE ? "\"role\":\"assistant\",\"content\":[" : "\"summary\":[],\"content\":[");
    if (full)
        put_part(s, o, true);
    str_puts(s, "]}");
}

static void put_usage(struct str *s, const struct teller *o)
{
    const struct glim_usage *u = &o->usage;
    str_printf(s,
               "{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":%zu,\"cache_write_tokens\":0},"
               "\"output_tokens\":%zu,\"output_tokens_details\":{\"reasoning_tokens\":%zu},\"total_tokens\":%zu}",
               u->n_prompt, u->n_cached, u->n_token, o->n_thought, u->n_prompt + u->n_token);
}

static bool is(const char *have, const char *word)
{
    return strcmp(have, word) == 0;
}

/* The response as it is now. */
static void put_response(struct str *s, const struct teller *o, const char *status, const struct glim_err *e)
{
    const struct server *server = o->call->server;
    bool over = is(status, "completed") || is(status, "incomplete");
    str_printf(s,
               "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"completed_at\":", o->id,
               (long long)o->created, status);
    if (over)
        str_printf(s, "%lld", (long long)o->completed);
    else
        str_puts(s, "null");
    str_puts(s, ",\"background\":false,\"error\":");
    if (e) {
        str_puts(s, "{\"code\":\"server_error\",\"message\":");
        str_json(s, e->message, strlen(e->message));
        str_putc(s, '}');
    } else {
        str_puts(s, "null");
    }
    str_printf(s, ",\"incomplete_details\":%s,\"model\":",
               is(status, "incomplete") ? "{\"reason\":\"max_output_tokens\"}" : "null");
    str_json(s, server->name[0], strlen(server->name[0]));
    str_puts(s, ",\"output\":[");
    put_str(s, &o->done);
    if (o->open != ITEM_NONE) {
        str_puts(s, o->done.n ? "," : "");
        put_item(s, o, "in_progress", true);
    }
    str_puts(s, "],\"usage\":");
    if (over)
        put_usage(s, o);
    else
        str_puts(s, "null");
    str_printf(s, ",\"store\":%s,\"system_fingerprint\":\"%s\"", o->store ? "true" : "false", server->fingerprint);
    str_puts(s, o->echo);
    str_putc(s, '}');
}

/* ---- events of a stream ---- */

static void begin_event(struct teller *o, const char *type)
{
    str_clear(&o->line);
    str_printf(&o->line, "{\"type\":\"%s\",\"sequence_number\":%zu", type, o->sequence++);
}

/* The event's type is its name too. */
static void send(struct teller *o, const char *type)
{
    str_putc(&o->line, '}');
    call_event(o->call, type, &o->line);
}

static void begin_item_event(struct teller *o, const char *type)
{
    begin_event(o, type);
    str_printf(&o->line, ",\"item_id\":\"%s\",\"output_index\":%zu%s", o->item_id, o->index,
               o->open == ITEM_CALL ? "" : ",\"content_index\":0");
}

static void send_response(struct teller *o, const char *type, const char *status, const struct glim_err *e)
{
    begin_event(o, type);
    str_puts(&o->line, ",\"response\":");
    put_response(&o->line, o, status, e);
    send(o, type);
}

static void send_item(struct teller *o, const char *type, const char *status, bool full)
{
    begin_event(o, type);
    str_printf(&o->line, ",\"output_index\":%zu,\"item\":", o->index);
    put_item(&o->line, o, status, full);
    send(o, type);
}

static void send_part(struct teller *o, const char *type, bool full)
{
    begin_item_event(o, type);
    str_puts(&o->line, ",\"part\":");
    put_part(&o->line, o, full);
    send(o, type);
}

static const char *const delta_type[] = {[ITEM_MESSAGE] = "response.output_text.delta",
                                         [ITEM_REASONING] = "response.reasoning_text.delta",
                                         [ITEM_CALL] = "response.function_call_arguments.delta"};
static const char *const done_type[] = {[ITEM_MESSAGE] = "response.output_text.done",
                                        [ITEM_REASONING] = "response.reasoning_text.done",
                                        [ITEM_CALL] = "response.function_call_arguments.done"};

/* What was gathered since the last time. */
static void send_delta(struct teller *o)
{
    static const struct str none = {0};
    if (o->open == ITEM_NONE || (o->text.n == o->sent && !o->text.failed))
        return;
    begin_item_event(o, delta_type[o->open]);
    str_puts(&o->line, ",\"delta\":\"");
    o->line.failed |= o->text.failed;
    str_add(&o->line, o->text.s + o->sent, o->text.n - o->sent);
    str_putc(&o->line, '"');
    o->sent = o->text.n;
    if (o->open == ITEM_MESSAGE) {
        str_puts(&o->line, ",\"logprobs\":");
        put_list(&o->line, &o->token, &none);
        str_puts(&o->tokens, o->tokens.n && o->token.n ? "," : "");
        put_str(&o->tokens, &o->token);
        str_clear(&o->token);
    }
    send(o, delta_type[o->open]);
}

static void send_done(struct teller *o, const char *status)
{
    send_delta(o);
    begin_item_event(o, done_type[o->open]);
    if (o->open == ITEM_CALL) {
        const char *name = strstr(o->name.s ? o->name.s : "", ",\"name\":");
        str_puts(&o->line, name ? name : "");
    }
    str_printf(&o->line, ",\"%s\":\"", o->open == ITEM_CALL ? "arguments" : "text");
    put_str(&o->line, &o->text);
    str_putc(&o->line, '"');
    if (o->open == ITEM_MESSAGE) {
        str_puts(&o->line, ",\"logprobs\":");
        put_list(&o->line, &o->tokens, &o->token);
    }
    send(o, done_type[o->open]);
    if (o->open != ITEM_CALL)
        send_part(o, "response.content_part.done", true);
    send_item(o, "response.output_item.done", status, true);
}

/* ---- items ---- */

static void close_item(struct teller *o, bool complete)
{
    const char *status = complete ? "completed" : "incomplete";
    if (o->open == ITEM_NONE)
        return;
    if (o->open == ITEM_REASONING)
        o->n_thought += o->n_token - o->from;
    if (o->stream)
        send_done(o, status);
    str_puts(&o->done, o->done.n ? "," : "");
    put_item(&o->done, o, status, true);
    o->open = ITEM_NONE;
    o->index++;
    o->sent = 0;
    str_clear(&o->text);
    str_clear(&o->token);
    str_clear(&o->tokens);
}

/* The markers before the first reasoning are counted with it. */
static void open_item(struct teller *o, enum item item)
{
    static const char *const prefix[] = {[ITEM_MESSAGE] = "msg_", [ITEM_REASONING] = "rs_", [ITEM_CALL] = "fc_"};
    if (o->open == item && item != ITEM_CALL)
        return;
    close_item(o, o->open != ITEM_CALL);
    o->open = item;
    o->from = o->index ? o->n_token : 0;
    serve_id(prefix[item], o->item_id);
    if (item != ITEM_MESSAGE)
        str_clear(&o->token);
    if (!o->stream)
        return;
    send_item(o, "response.output_item.added", "in_progress", false);
    if (item != ITEM_CALL)
        send_part(o, "response.content_part.added", false);
}

/* ---- what the job tells ---- */

static void on_begin(struct job *j)
{
    struct teller *o = j->user;
    if (!o->stream)
        return;
    call_stream(o->call, 200, "text/event-stream");
    send_response(o, "response.created", "in_progress", NULL);
    send_response(o, "response.in_progress", "in_progress", NULL);
}

static void on_text(struct job *j, uint32_t answer, enum job_part part, const char *p, size_t n)
{
    struct teller *o = j->user;
    (void)answer;
    open_item(o, part == JOB_REASONING ? ITEM_REASONING : ITEM_MESSAGE);
    str_json_part(&o->text, p, n);
}

static void on_call_begin(struct job *j, uint32_t answer, const struct job_call *call)
{
    struct teller *o = j->user;
    (void)answer;
    close_item(o, o->open != ITEM_CALL);
    str_clear(&o->name);
    str_puts(&o->name, "\"call_id\":");
    str_json(&o->name, call->id, strlen(call->id));
    str_puts(&o->name, ",\"name\":");
    str_json(&o->name, call->name, strlen(call->name));
    open_item(o, ITEM_CALL);
}

static void on_call_args(struct job *j, uint32_t answer, size_t index, const char *p, size_t n)
{
    (void)answer, (void)index;
    str_json_part(&((struct teller *)j->user)->text, p, n);
}

static void on_call_end(struct job *j, uint32_t answer, size_t index)
{
    (void)answer, (void)index;
    close_item(j->user, true);
}

static void on_token(struct job *j, uint32_t answer, const struct job_token *t)
{
    struct teller *o = j->user;
    (void)answer;
    o->n_token++;
    if (!o->logprobs || t->n == 0 || o->open == ITEM_CALL || o->open == ITEM_REASONING)
        return;
    openai_put_token(&o->token, o->call->server->model->tok, t);
}

static void on_flush(struct job *j)
{
    struct teller *o = j->user;
    if (o->stream)
        send_delta(o);
}

static void on_fail(struct job *j, int http, const struct glim_err *e)
{
    struct teller *o = j->user;
    if (!o->stream) {
        call_error(o->call, http, e);
        return;
    }
    o->store = false;
    send_response(o, "response.failed", "failed", e);
    call_end(o->call);
}

/* ---- the end ---- */

static void teller_free(struct teller *o)
{
    str_fini(&o->line);
    str_fini(&o->done);
    str_fini(&o->name);
    str_fini(&o->text);
    str_fini(&o->token);
    str_fini(&o->tokens);
    str_fini(&o->body);
    mem_free(o->echo);
    mem_free(o->input);
    mem_free(o->previous);
    mem_free(o);
}

static const char *status_of(const struct teller *o)
{
    switch (o->finish) {
    case JOB_STOP:
    case JOB_CALLS:
        return "completed";
    case JOB_LENGTH:
        return "incomplete";
    case JOB_CANCELLED:
        break;
    }
    return "cancelled";
}

/* In the event thread; the last of a teller. */
static void tell(void *arg)
{
    struct teller *o = arg;
    struct call *c = o->call;
    if (o->stream) {
        send_response(o, o->finish == JOB_STOP || o->finish == JOB_CALLS ? "response.completed" : "response.incomplete",
                      status_of(o), NULL);
        call_end(c);
    } else {
        str_clear(&o->body);
        put_response(&o->body, o, status_of(o), NULL);
        call_answer(c, 200, "application/json", &o->body);
    }
    teller_free(o);
    call_drop(c);
}

/* In a worker. An answer that cannot be kept is told all the same, and says so. */
static void keep(struct teller *o)
{
    struct glim_err e;
    put_response(&o->body, o, status_of(o), NULL);
    struct store_entry entry = {.id = o->id, .previous = o->previous, .body = o->body.s, .input = o->input};
    glim_status st =
        o->body.failed ? err_nomem(&e, "response", o->body.n) : store_put(o->call->server->store, &entry, &e);
    if (st == GLIM_OK)
        return;
    o->store = false;
    log_line(LOG_WARN, "serve", "a response was not kept: %s", e.message);
}

static void keep_in_worker(void *arg)
{
    struct teller *o = arg;
    keep(o);
    http_post(o->call->server->http, &o->note);
}

static void on_done(struct job *j)
{
    struct teller *o = j->user;
    struct server *server = j->call->server;
    o->completed = time(NULL);
    o->finish = j->answer[0].finish;
    o->usage = j->answer[0].usage;
    close_item(o, o->finish == JOB_STOP || o->finish == JOB_CALLS);
    o->store = o->store && (o->finish != JOB_CANCELLED || o->call->x);
    j->user = NULL;
    call_hold(o->call);
    if (o->store && !server->stopping) {
        serve_work(server, &o->work);
        return;
    }
    if (o->store)
        keep(o);
    tell(o);
}

static void on_free(struct job *j)
{
    teller_free(j->user);
}

static const struct job_emitter emitter = {.begin = on_begin,
                                           .text = on_text,
                                           .call_begin = on_call_begin,
                                           .call_args = on_call_args,
                                           .call_end = on_call_end,
                                           .token = on_token,
                                           .flush = on_flush,
                                           .done = on_done,
                                           .fail = on_fail,
                                           .free = on_free};

/* ---- the beginning ---- */

/* ,"name": and the request's member, or what it is when it is not there. */
static void echo(struct str *s, const json_t *body, const char *name, const char *otherwise)
{
    const json_t *v = field_get(body, name);
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    s->failed |= v && !text;
    str_printf(s, ",\"%s\":", name);
    str_puts(s, text ? text : otherwise);
    mem_free(text);
}

static glim_status make_echo(struct teller *o, const json_t *body, struct glim_err *e)
{
    static const struct {
        const char *name, *otherwise;
    } row[] = {{"previous_response_id", "null"},
               {"instructions", "null"},
               {"max_output_tokens", "null"},
               {"max_tool_calls", "null"},
               {"parallel_tool_calls", "true"},
               {"reasoning", "{\"effort\":null,\"summary\":null}"},
               {"temperature", "1"},
               {"text", "{\"format\":{\"type\":\"text\"}}"},
               {"tool_choice", "\"auto\""},
               {"tools", "[]"},
               {"top_logprobs", "0"},
               {"top_p", "1"},
               {"metadata", "{}"},
               {"user", "null"},
               {"safety_identifier", "null"},
               {"prompt_cache_key", "null"}};
    struct str s = {0};
    str_puts(&s, ",\"service_tier\":\"default\",\"truncation\":\"disabled\"");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        echo(&s, body, row[i].name, row[i].otherwise);
    if (s.failed) {
        str_fini(&s);
        return err_nomem(e, "response", s.n);
    }
    o->echo = s.s;
    return GLIM_OK;
}

static glim_status fill(struct teller *o, const struct responses_ask *ask, struct glim_err *e)
{
    size_t n;
    const json_t *body = o->call->json;
    const char *previous = field_get_text(body, "previous_response_id", &n);
    o->stream = ask->stream;
    o->logprobs = ask->logprobs;
    o->store = ask->store && o->call->server->store;
    o->created = time(NULL);
    o->work = (struct work){.fn = keep_in_worker, .arg = o};
    o->note = (struct http_note){.fn = tell, .arg = o};
    serve_id("resp_", o->id);
    if (o->store && !(o->input = json_dumps(ask->input, JSON_COMPACT)))
        return err_nomem(e, "response", 0);
    if (previous && !(o->previous = mem_strdup(previous)))
        return err_nomem(e, "response", n);
    return make_echo(o, body, e);
}

glim_status responses_start(struct call *c, struct job_spec *s, const struct responses_ask *ask, struct glim_err *e)
{
    struct teller *o = mem_calloc(1, sizeof *o);
    if (!o)
        return err_nomem(e, "response", sizeof *o);
    o->call = c;
    glim_status st = fill(o, ask, e);
    if (st == GLIM_OK)
        return job_start(c, s, &emitter, o, e);
    teller_free(o);
    return st;
}

/* ---- from other calls ---- */

struct job *responses_find(const struct server *s, const char *id)
{
    for (struct job *j = s->job; j; j = j->next)
        if (j->emit == &emitter && strcmp(((struct teller *)j->user)->id, id) == 0)
            return j;
    return NULL;
}

void responses_print(struct str *out, const struct job *j, const char *status)
{
    put_response(out, j->user, status, NULL);
}
