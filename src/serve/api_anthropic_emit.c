/* Answers in Anthropic's words: a list of blocks, whole or as events. One block is open at a time; a stream sends what
 * was gathered of it after each batch of events, a whole reply keeps all of it. */
#include "serve/api_anthropic.h"

#include "base/mem.h"

#include <string.h>

enum block { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_TOOL };

struct teller {
    bool stream;
    json_t *stops; /* a string, a list, or NULL */
    char id[CALL_ID_MAX];
    struct str line; /* under construction */
    struct str done; /* whole: blocks that are complete, joined by commas */
    struct str head; /* of the open tool block: {"type":"tool_use","id":…,"name":…,"input": */
    struct str text; /* of the open block and not sent: as inside of JSON's quotes; whole: a tool's input as JSON */
    enum block open;
    size_t index;                    /* of the open block, or the next one */
    size_t n_token, n_thought, from; /* tokens so far; of finished thinking; before the thinking that is open */
};

/* ---- pieces ---- */

static void put_str(struct str *to, const struct str *from)
{
    to->failed |= from->failed;
    str_add(to, from->s ? from->s : "", from->n);
}

static void put_usage(struct str *s, const struct teller *o, const struct glim_usage *u)
{
    str_printf(s,
               "\"usage\":{\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%zu,"
               "\"output_tokens\":%zu,\"output_tokens_details\":{\"thinking_tokens\":%zu}}",
               u->n_prompt - u->n_cached, u->n_cached, u->n_token, o->n_thought);
}

/* "stop_reason":…,"stop_sequence":… */
static void put_stop(struct str *s, const struct job *j)
{
    const struct teller *o = j->user;
    const struct job_answer *a = &j->answer[0];
    const char *reason = "end_turn", *text = NULL;
    bool full = a->usage.n_prompt + a->usage.n_token >= j->call->server->n_ctx;
    switch (a->finish) {
    case JOB_STOP:
    case JOB_CALLS:
        if (a->stop >= 0)
            text = json_string_value(json_is_array(o->stops) ? json_array_get(o->stops, (size_t)a->stop) : o->stops);
        reason = text ? "stop_sequence" : a->finish == JOB_CALLS ? "tool_use" : "end_turn";
        break;
    case JOB_LENGTH:
        reason = full ? "model_context_window_exceeded" : "max_tokens";
        break;
    case JOB_CANCELLED:
        break;
    }
    str_printf(s, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (text)
        str_json(s, text, strlen(text));
    else
        str_puts(s, "null");
}

static void put_message_head(struct str *s, const struct job *j)
{
    const struct teller *o = j->user;
    const char *model = j->call->server->name[0];
    str_printf(s, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", o->id);
    str_json(s, model, strlen(model));
    str_puts(s, ",\"content\":[");
}

/* ---- events of a stream ---- */

/* The event's type is its name too. */
static void send(struct job *j, const char *type)
{
    call_event(j->call, type, &((struct teller *)j->user)->line);
}

static void begin_event(struct teller *o, const char *type)
{
    str_clear(&o->line);
    str_printf(&o->line, "{\"type\":\"%s\"", type);
}

static void send_delta(struct job *j, const char *type, const char *member, const struct str *text)
{
    struct teller *o = j->user;
    begin_event(o, "content_block_delta");
    str_printf(&o->line, ",\"index\":%zu,\"delta\":{\"type\":\"%s\",\"%s\":\"", o->index, type, member);
    put_str(&o->line, text);
    str_puts(&o->line, "\"}}");
    send(j, "content_block_delta");
}

static void send_text(struct job *j)
{
    struct teller *o = j->user;
    if (o->text.n == 0 && !o->text.failed)
        return;
    switch (o->open) {
    case BLOCK_TEXT:
        send_delta(j, "text_delta", "text", &o->text);
        break;
    case BLOCK_THINKING:
        send_delta(j, "thinking_delta", "thinking", &o->text);
        break;
    case BLOCK_TOOL:
        send_delta(j, "input_json_delta", "partial_json", &o->text);
        break;
    case BLOCK_NONE:
        break;
    }
    str_clear(&o->text);
}

/* ---- blocks ---- */

static void stream_open(struct job *j)
{
    struct teller *o = j->user;
    begin_event(o, "content_block_start");
    str_printf(&o->line, ",\"index\":%zu,\"content_block\":", o->index);
    if (o->open == BLOCK_TEXT)
        str_puts(&o->line, "{\"type\":\"text\",\"text\":\"\",\"citations\":null}}");
    else if (o->open == BLOCK_THINKING)
        str_puts(&o->line, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}");
    else {
        put_str(&o->line, &o->head);
        str_puts(&o->line, "{}}}");
    }
    send(j, "content_block_start");
}

static void stream_close(struct job *j)
{
    struct teller *o = j->user;
    struct str signature = {0};
    send_text(j);
    if (o->open == BLOCK_THINKING) {
        str_puts(&signature, j->call->server->fingerprint);
        send_delta(j, "signature_delta", "signature", &signature);
        str_fini(&signature);
    }
    begin_event(o, "content_block_stop");
    str_printf(&o->line, ",\"index\":%zu}", o->index);
    send(j, "content_block_stop");
}

static void whole_close(struct job *j)
{
    struct teller *o = j->user;
    struct str *s = &o->done;
    str_puts(s, s->n ? "," : "");
    if (o->open == BLOCK_TEXT) {
        str_puts(s, "{\"type\":\"text\",\"text\":\"");
        put_str(s, &o->text);
        str_puts(s, "\",\"citations\":null}");
    } else if (o->open == BLOCK_THINKING) {
        str_puts(s, "{\"type\":\"thinking\",\"thinking\":\"");
        put_str(s, &o->text);
        str_printf(s, "\",\"signature\":\"%s\"}", j->call->server->fingerprint);
    } else {
        put_str(s, &o->head);
        put_str(s, &o->text);
        str_putc(s, '}');
    }
}

/* complete: false for a call that was cut. */
static void close_block(struct job *j, bool complete)
{
    struct teller *o = j->user;
    if (o->open == BLOCK_NONE)
        return;
    if (o->open == BLOCK_THINKING)
        o->n_thought += o->n_token - o->from;
    if (o->stream)
        stream_close(j);
    else if (complete)
        whole_close(j);
    o->open = BLOCK_NONE;
    o->index++;
    str_clear(&o->text);
}

/* The markers before the first thinking are counted with it. */
static void open_block(struct job *j, enum block block)
{
    struct teller *o = j->user;
    if (o->open == block && block != BLOCK_TOOL)
        return;
    close_block(j, o->open != BLOCK_TOOL);
    o->open = block;
    o->from = o->index ? o->n_token : 0;
    if (o->stream)
        stream_open(j);
}

/* ---- what the job tells ---- */

static void on_ping(struct job *j)
{
    begin_event(j->user, "ping");
    str_putc(&((struct teller *)j->user)->line, '}');
    send(j, "ping");
}

static void on_begin(struct job *j)
{
    struct teller *o = j->user;
    struct glim_usage u = {.n_prompt = j->input[0].n};
    if (!o->stream)
        return;
    call_stream(j->call, 200, "text/event-stream");
    begin_event(o, "message_start");
    str_puts(&o->line, ",\"message\":");
    put_message_head(&o->line, j);
    str_puts(&o->line, "],\"stop_reason\":null,\"stop_sequence\":null,");
    put_usage(&o->line, o, &u);
    str_puts(&o->line, "}}");
    send(j, "message_start");
    on_ping(j);
}

static void on_text(struct job *j, uint32_t answer, enum job_part part, const char *p, size_t n)
{
    struct teller *o = j->user;
    (void)answer;
    open_block(j, part == JOB_REASONING ? BLOCK_THINKING : BLOCK_TEXT);
    str_json_part(&o->text, p, n);
}

static void on_call_begin(struct job *j, uint32_t answer, const struct job_call *call)
{
    struct teller *o = j->user;
    (void)answer;
    close_block(j, o->open != BLOCK_TOOL);
    str_clear(&o->head);
    str_puts(&o->head, "{\"type\":\"tool_use\",\"id\":");
    str_json(&o->head, call->id, strlen(call->id));
    str_puts(&o->head, ",\"name\":");
    str_json(&o->head, call->name, strlen(call->name));
    str_puts(&o->head, ",\"input\":");
    open_block(j, BLOCK_TOOL);
}

static void on_call_args(struct job *j, uint32_t answer, size_t index, const char *p, size_t n)
{
    struct teller *o = j->user;
    (void)answer, (void)index;
    if (o->stream)
        str_json_part(&o->text, p, n);
    else
        str_add(&o->text, p, n);
}

static void on_call_end(struct job *j, uint32_t answer, size_t index)
{
    (void)answer, (void)index;
    close_block(j, true);
}

static void on_token(struct job *j, uint32_t answer, const struct job_token *t)
{
    (void)answer, (void)t;
    ((struct teller *)j->user)->n_token++;
}

static void on_flush(struct job *j)
{
    struct teller *o = j->user;
    if (o->stream)
        send_text(j);
}

static void finish_stream(struct job *j)
{
    struct teller *o = j->user;
    begin_event(o, "message_delta");
    str_puts(&o->line, ",\"delta\":{");
    put_stop(&o->line, j);
    str_puts(&o->line, "},");
    put_usage(&o->line, o, &j->answer[0].usage);
    str_putc(&o->line, '}');
    send(j, "message_delta");
    begin_event(o, "message_stop");
    str_putc(&o->line, '}');
    send(j, "message_stop");
    call_end(j->call);
}

static void on_done(struct job *j)
{
    struct teller *o = j->user;
    close_block(j, o->open != BLOCK_TOOL);
    if (o->stream) {
        finish_stream(j);
        return;
    }
    str_clear(&o->line);
    put_message_head(&o->line, j);
    put_str(&o->line, &o->done);
    str_puts(&o->line, "],");
    put_stop(&o->line, j);
    str_putc(&o->line, ',');
    put_usage(&o->line, o, &j->answer[0].usage);
    str_putc(&o->line, '}');
    call_answer(j->call, 200, "application/json", &o->line);
}

/* ---- life ---- */

static void on_free(struct job *j)
{
    struct teller *o = j->user;
    json_decref(o->stops);
    str_fini(&o->line);
    str_fini(&o->done);
    str_fini(&o->head);
    str_fini(&o->text);
    mem_free(o);
}

static const struct job_emitter emitter = {.begin = on_begin,
                                           .text = on_text,
                                           .call_begin = on_call_begin,
                                           .call_args = on_call_args,
                                           .call_end = on_call_end,
                                           .token = on_token,
                                           .flush = on_flush,
                                           .done = on_done,
                                           .ping = on_ping,
                                           .free = on_free};

glim_status anthropic_start(struct call *c, struct job_spec *s, bool stream, const json_t *stops, struct glim_err *e)
{
    struct teller *o = mem_calloc(1, sizeof *o);
    if (!o)
        return err_nomem(e, "answer", sizeof *o);
    o->stream = stream;
    o->stops = json_incref((json_t *)(uintptr_t)stops);
    serve_id("msg_", o->id);
    return job_start(c, s, &emitter, o, e);
}
