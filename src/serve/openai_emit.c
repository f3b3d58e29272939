/* Answers in OpenAI's words: whole, or in chunks. Both gather the same pieces; a stream sends and clears them after
 * each batch of events, a whole reply keeps them to the end. Text is kept as it stands inside of JSON's quotes. */
#include "serve/openai.h"

#include "base/mem.h"
#include "run/model.h"

#include <math.h>
#include <string.h>

enum piece { PIECE_CONTENT, PIECE_REASONING, PIECE_ARGUMENTS };

/* The lists of a completion's logprobs, each without its brackets. */
struct lists {
    struct str token, logprob, top, offset;
    size_t chars; /* of the tokens so far */
};

struct told { /* an answer */
    struct str content, reasoning;
    struct str calls;  /* whole: items of tool_calls; stream: a piece of arguments */
    struct str tokens; /* items of logprobs.content */
    struct lists lists;
    enum piece piece; /* stream: what is gathered */
    size_t call;      /* stream: whose arguments */
    bool started, dirty, has_content, has_calls, open;
};

struct teller {
    struct openai_ask ask;
    struct str head; /* {"id":…,"choices":[ */
    struct str line; /* under construction */
    struct told *answer;
    struct lists *prompt; /* [n_input] logprobs of prompts */
    size_t *dirty, n_dirty, n_answer, n_input;
    const struct tokenizer *tok;
};

/* ---- tokens ---- */

static struct tok_piece piece_of(const struct tokenizer *tok, int32_t id)
{
    return tok_bytes(tok, id, true, false);
}

static bool is_utf8(const char *p, size_t n)
{
    uint32_t cp;
    for (size_t i = 0; i < n;) {
        int len = utf8_decode((const uint8_t *)p + i, n - i, &cp);
        if (len == 0)
            return false;
        i += (size_t)len;
    }
    return true;
}

static size_t count_chars(const char *p, size_t n)
{
    size_t chars = 0;
    for (size_t i = 0; i < n; i++)
        chars += ((unsigned char)p[i] & 0xC0) != 0x80;
    return chars;
}

static void put_logprob(struct str *s, float logprob)
{
    if (isfinite(logprob))
        str_printf(s, "%.9g", (double)logprob);
    else
        str_puts(s, "-9999");
}

static void comma(struct str *s)
{
    if (s->n && s->s[s->n - 1] != '[' && s->s[s->n - 1] != '{')
        str_putc(s, ',');
}

/* "token":…,"logprob":…,"bytes":[…] */
static void put_token(struct str *s, const struct tokenizer *tok, const struct glim_logprob *l)
{
    struct tok_piece p = piece_of(tok, l->token);
    str_puts(s, "{\"token\":");
    str_json(s, p.s ? p.s : "", p.n);
    str_puts(s, ",\"logprob\":");
    put_logprob(s, l->logprob);
    str_puts(s, ",\"bytes\":[");
    for (uint32_t i = 0; i < p.n; i++)
        str_printf(s, "%s%u", i ? "," : "", (unsigned char)p.s[i]);
    str_putc(s, ']');
}

void openai_put_token(struct str *s, const struct tokenizer *tok, const struct job_token *t)
{
    comma(s);
    put_token(s, tok, &t->logprob[0]);
    str_puts(s, ",\"top_logprobs\":[");
    for (size_t i = 1; i < t->n; i++) {
        str_puts(s, i > 1 ? "," : "");
        put_token(s, tok, &t->logprob[i]);
        str_putc(s, '}');
    }
    str_puts(s, "]}");
}

/* Bytes that are no text of their own are spelled out. */
static void put_piece(struct str *s, struct tok_piece p)
{
    if (is_utf8(p.s ? p.s : "", p.n)) {
        str_json(s, p.s ? p.s : "", p.n);
        return;
    }
    str_puts(s, "\"bytes:");
    for (uint32_t i = 0; i < p.n; i++)
        str_printf(s, "\\\\x%02x", (unsigned char)p.s[i]);
    str_putc(s, '"');
}

/* {"likely": -0.1, …}; of tokens that look alike, the likeliest. */
static void put_top(struct str *s, const struct tokenizer *tok, const struct glim_logprob *l, size_t n)
{
    comma(s);
    str_putc(s, '{');
    for (size_t i = 1; i <= n; i++) {
        const struct glim_logprob *t = &l[i % n]; /* the token itself last */
        struct tok_piece p = piece_of(tok, t->token);
        bool twice = false;
        for (size_t k = 1; k < i && !twice; k++) {
            struct tok_piece q = piece_of(tok, l[k].token);
            twice = q.n == p.n && memcmp(q.s, p.s, p.n) == 0;
        }
        if (twice)
            continue;
        comma(s);
        put_piece(s, p);
        str_putc(s, ':');
        put_logprob(s, t->logprob);
    }
    str_putc(s, '}');
}

/* l NULL: the first token of a prompt, which has none. */
static void list_token(struct lists *to, const struct tokenizer *tok, int32_t id, const struct glim_logprob *l,
                       size_t n, bool counts)
{
    struct tok_piece p = piece_of(tok, id);
    comma(&to->token);
    put_piece(&to->token, p);
    comma(&to->offset);
    str_printf(&to->offset, "%zu", to->chars);
    comma(&to->logprob);
    if (l) {
        put_logprob(&to->logprob, l->logprob);
        put_top(&to->top, tok, l, n);
    } else {
        str_puts(&to->logprob, "null");
        comma(&to->top);
        str_puts(&to->top, "null");
    }
    to->chars += counts ? count_chars(p.s ? p.s : "", p.n) : 0;
}

static void lists_clear(struct lists *l)
{
    str_clear(&l->token);
    str_clear(&l->logprob);
    str_clear(&l->top);
    str_clear(&l->offset);
}

static void lists_fini(struct lists *l)
{
    str_fini(&l->token);
    str_fini(&l->logprob);
    str_fini(&l->top);
    str_fini(&l->offset);
}

static void append(struct str *to, const struct str *from)
{
    to->failed |= from->failed;
    if (from->n) {
        comma(to);
        str_add(to, from->s, from->n);
    }
}

/* ---- parts of a reply ---- */

static void put_str(struct str *to, const struct str *from)
{
    to->failed |= from->failed;
    str_add(to, from->s ? from->s : "", from->n);
}

static void put_logprobs(struct str *s, const struct teller *o, const struct told *a)
{
    str_puts(s, ",\"logprobs\":");
    if (!o->ask.logprobs || (o->ask.stream && a->tokens.n + a->lists.token.n == 0)) {
        str_puts(s, "null");
    } else if (o->ask.chat) {
        str_puts(s, "{\"content\":[");
        put_str(s, &a->tokens);
        str_puts(s, "],\"refusal\":null}");
    } else {
        str_puts(s, "{\"tokens\":[");
        put_str(s, &a->lists.token);
        str_puts(s, "],\"token_logprobs\":[");
        put_str(s, &a->lists.logprob);
        str_puts(s, "],\"top_logprobs\":[");
        put_str(s, &a->lists.top);
        str_puts(s, "],\"text_offset\":[");
        put_str(s, &a->lists.offset);
        str_puts(s, "]}");
    }
}

static void put_finish(struct str *s, const struct job *j, uint32_t answer)
{
    static const char *const word[] = {
        [JOB_STOP] = "stop", [JOB_LENGTH] = "length", [JOB_CALLS] = "tool_calls", [JOB_CANCELLED] = "stop"};
    str_printf(s, ",\"finish_reason\":\"%s\"", word[j->answer[answer].finish]);
}

static void put_usage(struct str *s, const struct job *j)
{
    struct glim_usage u = job_usage(j);
    str_printf(s,
               "\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%zu}}",
               u.n_prompt, u.n_token, u.n_prompt + u.n_token, u.n_cached);
}

static void make_head(struct str *s, const struct server *server, const struct openai_ask *ask)
{
    const char *object = !ask->chat ? "text_completion" : ask->stream ? "chat.completion.chunk" : "chat.completion";
    char id[CALL_ID_MAX];
    serve_id(ask->chat ? "chatcmpl-" : "cmpl-", id);
    str_printf(s, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", id, object, (long long)time(NULL));
    str_json(s, server->name[0], strlen(server->name[0]));
    str_printf(s, ",\"system_fingerprint\":\"%s\",\"choices\":[", server->fingerprint);
}

/* ---- chunks ---- */

static void begin_line(struct teller *o)
{
    str_clear(&o->line);
    put_str(&o->line, &o->head);
}

/* After the choice's delta or text. */
static void send_line(struct job *j, uint32_t answer, bool last)
{
    struct teller *o = j->user;
    struct told *a = &o->answer[answer];
    struct str *s = &o->line;
    put_logprobs(s, o, a);
    str_clear(&a->tokens);
    lists_clear(&a->lists);
    if (last)
        put_finish(s, j, answer);
    else
        str_puts(s, ",\"finish_reason\":null");
    str_puts(s, o->ask.usage ? "}],\"usage\":null}" : "}]}");
    call_event(j->call, NULL, s);
}

static void begin_choice(struct job *j, uint32_t answer)
{
    struct teller *o = j->user;
    begin_line(o);
    str_printf(&o->line, o->ask.chat ? "{\"index\":%u,\"delta\":{" : "{\"index\":%u,\"text\":\"", answer);
}

/* What was gathered, as one chunk. */
static void send_pieces(struct job *j, uint32_t answer)
{
    struct teller *o = j->user;
    struct told *a = &o->answer[answer];
    struct str *piece = a->piece == PIECE_CONTENT     ? &a->content
                        : a->piece == PIECE_REASONING ? &a->reasoning
                                                      : &a->calls;
    bool nothing = piece->n == 0 && a->tokens.n == 0 && a->lists.token.n == 0;
    if (nothing && !piece->failed)
        return;
    begin_choice(j, answer);
    struct str *s = &o->line;
    if (!o->ask.chat) {
        put_str(s, piece);
        str_putc(s, '"');
    } else if (a->piece == PIECE_ARGUMENTS && piece->n) {
        str_printf(s, "\"tool_calls\":[{\"index\":%zu,\"function\":{\"arguments\":\"", a->call);
        put_str(s, piece);
        str_puts(s, "\"}}]}");
    } else {
        str_printf(s, "\"%s\":\"", a->piece == PIECE_REASONING ? "reasoning_content" : "content");
        put_str(s, piece);
        str_puts(s, "\"}");
    }
    str_clear(piece);
    send_line(j, answer, false);
}

static void gather(struct job *j, uint32_t answer, enum piece piece)
{
    struct teller *o = j->user;
    struct told *a = &o->answer[answer];
    if (!o->ask.stream)
        return;
    if (a->piece != piece)
        send_pieces(j, answer);
    a->piece = piece;
    if (!a->dirty) {
        a->dirty = true;
        o->dirty[o->n_dirty++] = answer;
    }
}

/* ---- what the job tells ---- */

static void on_begin(struct job *j)
{
    struct teller *o = j->user;
    if (!o->ask.stream)
        return;
    call_stream(j->call, 200, "text/event-stream");
    for (uint32_t i = 0; o->ask.chat && i < j->n_answer; i++) {
        begin_choice(j, i);
        str_puts(&o->line, "\"role\":\"assistant\",\"content\":\"\"}");
        send_line(j, i, false);
    }
}

static void on_prompt(struct job *j, uint32_t input, const struct glim_logprob *logprob, size_t each)
{
    struct teller *o = j->user;
    const struct job_input *in = &j->input[input];
    if (!o->prompt)
        return;
    for (size_t i = 1; i < in->n; i++)
        list_token(&o->prompt[input], o->tok, in->id[i], logprob + (i - 1) * each, each, true);
}

/* A completion that echoes begins with its prompt. */
static void start(struct job *j, uint32_t answer)
{
    struct teller *o = j->user;
    struct told *a = &o->answer[answer];
    uint32_t input = answer / j->n;
    if (a->started)
        return;
    a->started = true;
    if (!o->ask.echo)
        return;
    const struct openai_prompt *p = &o->ask.prompt[input];
    gather(j, answer, PIECE_CONTENT);
    str_json_part(&a->content, p->text, p->n);
    if (o->prompt) {
        const struct lists *from = &o->prompt[input];
        append(&a->lists.token, &from->token);
        append(&a->lists.logprob, &from->logprob);
        append(&a->lists.top, &from->top);
        append(&a->lists.offset, &from->offset);
        a->lists.chars = from->chars;
    }
}

static void on_text(struct job *j, uint32_t answer, enum job_part part, const char *p, size_t n)
{
    struct teller *o = j->user;
    struct told *a = &o->answer[answer];
    start(j, answer);
    gather(j, answer, part == JOB_REASONING ? PIECE_REASONING : PIECE_CONTENT);
    str_json_part(part == JOB_REASONING ? &a->reasoning : &a->content, p, n);
    a->has_content |= part == JOB_CONTENT;
}

static void on_call_begin(struct job *j, uint32_t answer, const struct job_call *call)
{
    struct teller *o = j->user;
    struct told *a = &o->answer[answer];
    struct str *s = &a->calls;
    gather(j, answer, PIECE_ARGUMENTS);
    a->has_calls = true;
    a->call = call->index;
    if (o->ask.stream) {
        send_pieces(j, answer);
        begin_choice(j, answer);
        s = &o->line;
        str_printf(s, "\"tool_calls\":[{\"index\":%zu,", call->index);
    } else {
        str_puts(s, a->open ? "\"}}" : "");
        comma(s);
        str_putc(s, '{');
        a->open = true;
    }
    str_puts(s, "\"id\":");
    str_json(s, call->id, strlen(call->id));
    str_puts(s, ",\"type\":\"function\",\"function\":{\"name\":");
    str_json(s, call->name, strlen(call->name));
    str_puts(s, ",\"arguments\":\"");
    if (o->ask.stream) {
        str_puts(s, "\"}}]}");
        send_line(j, answer, false);
    }
}

static void on_call_args(struct job *j, uint32_t answer, size_t index, const char *p, size_t n)
{
    struct told *a = &((struct teller *)j->user)->answer[answer];
    gather(j, answer, PIECE_ARGUMENTS);
    a->call = index;
    str_json_part(&a->calls, p, n);
}

static void on_token(struct job *j, uint32_t answer, const struct job_token *t)
{
    struct teller *o = j->user;
    struct told *a = &o->answer[answer];
    start(j, answer);
    if (t->n == 0)
        return;
    gather(j, answer, a->piece);
    if (o->ask.chat)
        openai_put_token(&a->tokens, o->tok, t);
    else
        list_token(&a->lists, o->tok, t->id, t->logprob, t->n, true);
}

static void on_flush(struct job *j)
{
    struct teller *o = j->user;
    for (size_t i = 0; i < o->n_dirty; i++) {
        o->answer[o->dirty[i]].dirty = false;
        send_pieces(j, (uint32_t)o->dirty[i]);
    }
    o->n_dirty = 0;
}

static void on_end(struct job *j, uint32_t answer)
{
    struct teller *o = j->user;
    start(j, answer);
    if (!o->ask.stream)
        return;
    send_pieces(j, answer);
    begin_choice(j, answer);
    str_puts(&o->line, o->ask.chat ? "}" : "\"");
    send_line(j, answer, true);
}

static void put_message(struct str *s, struct told *a)
{
    str_puts(s, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (a->has_content || !a->has_calls) {
        str_putc(s, '"');
        put_str(s, &a->content);
        str_putc(s, '"');
    } else {
        str_puts(s, "null");
    }
    str_puts(s, ",\"refusal\":null");
    if (a->reasoning.n) {
        str_puts(s, ",\"reasoning_content\":\"");
        put_str(s, &a->reasoning);
        str_putc(s, '"');
    }
    if (a->has_calls) {
        str_puts(s, ",\"tool_calls\":[");
        put_str(s, &a->calls);
        str_puts(s, "\"}}]");
    }
    str_putc(s, '}');
}

static void answer_whole(struct job *j)
{
    struct teller *o = j->user;
    struct str *s = &o->line;
    begin_line(o);
    for (uint32_t i = 0; i < j->n_answer; i++) {
        struct told *a = &o->answer[i];
        str_printf(s, "%s{\"index\":%u,", i ? "," : "", i);
        if (o->ask.chat) {
            put_message(s, a);
        } else {
            str_puts(s, "\"text\":\"");
            put_str(s, &a->content);
            str_putc(s, '"');
        }
        put_logprobs(s, o, a);
        put_finish(s, j, i);
        str_putc(s, '}');
    }
    str_puts(s, "],");
    put_usage(s, j);
    str_putc(s, '}');
    call_answer(j->call, 200, "application/json", s);
}

static void on_done(struct job *j)
{
    struct teller *o = j->user;
    if (!o->ask.stream) {
        answer_whole(j);
        return;
    }
    if (o->ask.usage) {
        begin_line(o);
        str_puts(&o->line, "],");
        put_usage(&o->line, j);
        str_putc(&o->line, '}');
        call_event(j->call, NULL, &o->line);
    }
    call_send(j->call, "data: [DONE]\n\n", 14);
    call_end(j->call);
}

/* ---- life ---- */

void openai_ask_fini(struct openai_ask *ask)
{
    for (size_t i = 0; i < ask->n_prompt; i++)
        mem_free(ask->prompt[i].text);
    mem_free(ask->prompt);
    *ask = (struct openai_ask){0};
}

static void teller_free(struct teller *o)
{
    for (size_t i = 0; o->answer && i < o->n_answer; i++) {
        struct told *a = &o->answer[i];
        str_fini(&a->content);
        str_fini(&a->reasoning);
        str_fini(&a->calls);
        str_fini(&a->tokens);
        lists_fini(&a->lists);
    }
    for (size_t i = 0; o->prompt && i < o->n_input; i++)
        lists_fini(&o->prompt[i]);
    openai_ask_fini(&o->ask);
    str_fini(&o->head);
    str_fini(&o->line);
    mem_free(o->answer);
    mem_free(o->prompt);
    mem_free(o->dirty);
    mem_free(o);
}

static void on_free(struct job *j)
{
    teller_free(j->user);
}

static const struct job_emitter emitter = {.begin = on_begin,
                                           .prompt = on_prompt,
                                           .text = on_text,
                                           .call_begin = on_call_begin,
                                           .call_args = on_call_args,
                                           .token = on_token,
                                           .end = on_end,
                                           .flush = on_flush,
                                           .done = on_done,
                                           .free = on_free};

static glim_status teller_fill(struct teller *o, const struct job_spec *s, struct glim_err *e)
{
    o->answer = mem_calloc(o->n_answer, sizeof *o->answer);
    o->dirty = mem_calloc(o->n_answer, sizeof *o->dirty);
    if (!o->answer || !o->dirty)
        return err_nomem(e, "answers", o->n_answer * sizeof *o->answer);
    if (!o->ask.echo || !o->ask.logprobs)
        return GLIM_OK;
    if (!(o->prompt = mem_calloc(o->n_input, sizeof *o->prompt)))
        return err_nomem(e, "prompts", o->n_input * sizeof *o->prompt);
    for (size_t i = 0; i < o->n_input; i++)
        if (s->input[i].n)
            list_token(&o->prompt[i], o->tok, s->input[i].id[0], NULL, 0, !o->ask.prompt[i].bos);
    return GLIM_OK;
}

glim_status openai_start(struct call *c, struct job_spec *s, struct openai_ask *ask, struct glim_err *e)
{
    struct teller *o = mem_calloc(1, sizeof *o);
    if (!o) {
        openai_ask_fini(ask);
        return err_nomem(e, "answer", sizeof *o);
    }
    o->ask = *ask;
    *ask = (struct openai_ask){0};
    o->tok = c->server->model->tok;
    o->n_input = s->n_input;
    o->n_answer = s->n_input * (s->task.n_answer ? s->task.n_answer : 1);
    make_head(&o->head, c->server, &o->ask);
    glim_status st = o->head.failed ? err_nomem(e, "answer", 256) : teller_fill(o, s, e);
    if (st == GLIM_OK)
        return job_start(c, s, &emitter, o, e);
    teller_free(o);
    return st;
}
