/* Answers in Ollama's words: whole, or as lines of JSON. Both gather the same pieces; a stream sends and clears them
 * after each batch of events, a whole reply keeps them to the end. */
#include "serve/api_ollama.h"

#include "base/mem.h"
#include "run/model.h"

#include <math.h>
#include <string.h>

struct teller {
    struct ollama_ask ask;
    struct str line;             /* under construction */
    struct str content, thought; /* as they stand inside of JSON's quotes */
    struct str calls, call;      /* items of tool_calls; the one whose arguments are still coming */
    struct str logprobs, tokens; /* items */
};

static void put_str(struct str *to, const struct str *from)
{
    to->failed |= from->failed;
    str_add(to, from->s ? from->s : "", from->n);
}

void ollama_time(char out[OLLAMA_TIME_MAX], const struct timespec *t)
{
    struct tm tm;
    gmtime_r(&t->tv_sec, &tm);
    size_t n = strftime(out, OLLAMA_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, OLLAMA_TIME_MAX - n, ".%09ldZ", t->tv_nsec);
}

/* ---- lines ---- */

static void put_head(struct str *s, const struct server *server)
{
    struct timespec now;
    char text[OLLAMA_TIME_MAX];
    clock_gettime(CLOCK_REALTIME, &now);
    ollama_time(text, &now);
    str_puts(s, "{\"model\":");
    str_json(s, server->name[0], strlen(server->name[0]));
    str_printf(s, ",\"created_at\":\"%s\"", text);
}

/* What was gathered. */
static void put_pieces(struct str *s, const struct teller *o)
{
    str_puts(s, o->ask.chat ? ",\"message\":{\"role\":\"assistant\",\"content\":\"" : ",\"response\":\"");
    put_str(s, &o->content);
    str_putc(s, '"');
    if (o->thought.n) {
        str_puts(s, ",\"thinking\":\"");
        put_str(s, &o->thought);
        str_putc(s, '"');
    }
    if (o->calls.n) {
        str_puts(s, ",\"tool_calls\":[");
        put_str(s, &o->calls);
        str_putc(s, ']');
    }
    str_puts(s, o->ask.chat ? "}" : "");
    if (o->logprobs.n) {
        str_puts(s, ",\"logprobs\":[");
        put_str(s, &o->logprobs);
        str_putc(s, ']');
    }
}

static void clear_pieces(struct teller *o)
{
    str_clear(&o->content);
    str_clear(&o->thought);
    str_clear(&o->calls);
    str_clear(&o->logprobs);
}

static bool has_pieces(const struct teller *o)
{
    return o->content.n || o->thought.n || o->calls.n || o->logprobs.n || o->content.failed || o->thought.failed ||
           o->calls.failed || o->logprobs.failed;
}

static void send_line(struct call *c, struct str *s)
{
    str_putc(s, '\n');
    if (s->failed) {
        str_fini(s);
        call_cut(c);
        return;
    }
    call_send(c, s->s, s->n);
    str_clear(s);
}

static void send_pieces(struct job *j)
{
    struct teller *o = j->user;
    put_head(&o->line, j->call->server);
    put_pieces(&o->line, o);
    str_puts(&o->line, ",\"done\":false}");
    clear_pieces(o);
    send_line(j->call, &o->line);
}

static void put_ids(struct str *s, const struct job_input *in, const struct str *tokens)
{
    str_puts(s, ",\"context\":[");
    for (size_t i = 0; i < in->n; i++)
        str_printf(s, "%s%d", i ? "," : "", in->id[i]);
    str_puts(s, tokens->n ? "," : "");
    put_str(s, tokens);
    str_putc(s, ']');
}

static uint64_t nanoseconds(double s)
{
    return s > 0 ? (uint64_t)(s * 1e9) : 0;
}

/* The end of the last line. */
static void put_end(struct str *s, const struct job *j)
{
    const struct teller *o = j->user;
    const struct job_answer *a = &j->answer[0];
    const struct timespec *at = &j->call->arrived;
    double total = serve_now() - ((double)at->tv_sec + 1e-9 * (double)at->tv_nsec);
    str_printf(s,
               ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%llu,\"load_duration\":0,"
               "\"prompt_eval_count\":%zu,\"prompt_eval_duration\":%llu,\"eval_count\":%zu,\"eval_duration\":%llu",
               a->finish == JOB_LENGTH ? "length" : "stop", (unsigned long long)nanoseconds(total), a->usage.n_prompt,
               (unsigned long long)nanoseconds(a->usage.prefill_s), a->usage.n_token,
               (unsigned long long)nanoseconds(a->usage.decode_s));
    if (o->ask.context)
        put_ids(s, &j->input[0], &o->tokens);
    str_putc(s, '}');
}

/* ---- what the job tells ---- */

static void on_begin(struct job *j)
{
    const struct teller *o = j->user;
    if (o->ask.stream)
        call_stream(j->call, 200, "application/x-ndjson");
}

static void on_text(struct job *j, uint32_t answer, enum job_part part, const char *p, size_t n)
{
    struct teller *o = j->user;
    (void)answer;
    str_json_part(part == JOB_REASONING ? &o->thought : &o->content, p, n);
}

static void on_call_begin(struct job *j, uint32_t answer, const struct job_call *call)
{
    struct teller *o = j->user;
    struct str *s = &o->call;
    (void)answer;
    str_clear(s); /* of a call that was malformed */
    str_puts(s, "{\"id\":");
    str_json(s, call->id, strlen(call->id));
    str_puts(s, ",\"function\":{\"name\":");
    str_json(s, call->name, strlen(call->name));
    str_printf(s, ",\"index\":%zu,\"arguments\":", call->index);
}

/* Joined they are one JSON object. */
static void on_call_args(struct job *j, uint32_t answer, size_t index, const char *p, size_t n)
{
    struct teller *o = j->user;
    (void)answer;
    (void)index;
    str_add(&o->call, p, n);
}

static void on_call_end(struct job *j, uint32_t answer, size_t index)
{
    struct teller *o = j->user;
    (void)answer;
    (void)index;
    str_puts(&o->calls, o->calls.n ? "," : "");
    put_str(&o->calls, &o->call);
    str_puts(&o->calls, "}}");
    str_clear(&o->call);
}

/* "token":…,"logprob":…,"bytes":[…] */
static void put_token(struct str *s, const struct tokenizer *tok, const struct glim_logprob *l)
{
    struct tok_piece p = tok_bytes(tok, l->token, true, false);
    str_puts(s, "{\"token\":");
    str_json(s, p.s ? p.s : "", p.n);
    str_printf(s, ",\"logprob\":%.9g,\"bytes\":[", isfinite(l->logprob) ? (double)l->logprob : -9999.0);
    for (uint32_t i = 0; i < p.n; i++)
        str_printf(s, "%s%u", i ? "," : "", (unsigned char)p.s[i]);
    str_putc(s, ']');
}

static void on_token(struct job *j, uint32_t answer, const struct job_token *t)
{
    struct teller *o = j->user;
    const struct tokenizer *tok = j->call->server->model->tok;
    (void)answer;
    if (o->ask.context)
        str_printf(&o->tokens, "%s%d", o->tokens.n ? "," : "", t->id);
    if (t->n == 0)
        return;
    str_puts(&o->logprobs, o->logprobs.n ? "," : "");
    put_token(&o->logprobs, tok, &t->logprob[0]);
    str_puts(&o->logprobs, ",\"top_logprobs\":[");
    for (size_t i = 1; i < t->n; i++) {
        str_puts(&o->logprobs, i > 1 ? "," : "");
        put_token(&o->logprobs, tok, &t->logprob[i]);
        str_putc(&o->logprobs, '}');
    }
    str_puts(&o->logprobs, "]}");
}

static void on_flush(struct job *j)
{
    const struct teller *o = j->user;
    if (o->ask.stream && has_pieces(o))
        send_pieces(j);
}

static void on_done(struct job *j)
{
    struct teller *o = j->user;
    if (o->ask.stream && has_pieces(o))
        send_pieces(j);
    put_head(&o->line, j->call->server);
    put_pieces(&o->line, o);
    put_end(&o->line, j);
    if (!o->ask.stream) {
        call_answer(j->call, 200, "application/json", &o->line);
        return;
    }
    send_line(j->call, &o->line);
    call_end(j->call);
}

/* A comment has no place among lines of JSON: an empty piece is sent. */
static void on_ping(struct job *j)
{
    const struct teller *o = j->user;
    if (o->ask.stream)
        send_pieces(j);
}

/* ---- life ---- */

static void on_free(struct job *j)
{
    struct teller *o = j->user;
    struct str *all[] = {&o->line, &o->content, &o->thought, &o->calls, &o->call, &o->logprobs, &o->tokens};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        str_fini(all[i]);
    mem_free(o);
}

glim_status ollama_start(struct call *c, struct job_spec *s, const struct ollama_ask *ask, struct glim_err *e)
{
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
    struct teller *o = mem_calloc(1, sizeof *o);
    if (!o)
        return err_nomem(e, "answer", sizeof *o);
    o->ask = *ask;
    return job_start(c, s, &emitter, o, e);
}

glim_status ollama_reply_loaded(struct call *c, bool chat, struct glim_err *e)
{
    struct teller nothing = {.ask.chat = chat};
    struct str s = {0};
    put_head(&s, c->server);
    put_pieces(&s, &nothing);
    str_puts(&s, ",\"done\":true,\"done_reason\":\"load\"}");
    return call_reply_text(c, 200, "application/json", &s, e);
}
