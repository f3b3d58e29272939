/* Answers in llama.cpp's words: whole, or an event for each token. Text is kept as it stands inside of JSON's quotes.
 */
#include "serve/api_llamacpp.h"

#include "base/mem.h"
#include "run/model.h"

#include <math.h>
#include <string.h>

struct told { /* an answer */
    struct str content, tokens, probs;
    uint32_t n_token;
    bool new_line;
};

struct teller {
    struct lcpp_ask ask;
    struct str line; /* under construction */
    struct told *answer;
    size_t n_answer;
};

static void put_str(struct str *to, const struct str *from)
{
    to->failed |= from->failed;
    str_add(to, from->s ? from->s : "", from->n);
}

static void put_text(struct str *to, const char *text)
{
    str_json(to, text, strlen(text));
}

static void put_json(struct str *to, const json_t *v)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    str_puts(to, text ? text : "");
    to->failed |= !text;
    mem_free(text);
}

/* ---- tokens ---- */

/* "id":…,"token":…,"bytes":[…],"logprob":… */
static void put_token(struct str *s, const struct tokenizer *tok, const struct glim_logprob *l)
{
    struct tok_piece p = tok_bytes(tok, l->token, true, false);
    str_printf(s, "\"id\":%d,\"token\":", l->token);
    str_json(s, p.s ? p.s : "", p.n);
    str_puts(s, ",\"bytes\":[");
    for (uint32_t i = 0; i < p.n; i++)
        str_printf(s, "%s%u", i ? "," : "", (unsigned char)p.s[i]);
    str_printf(s, "],\"logprob\":%.9g", isfinite(l->logprob) ? (double)l->logprob : -9999.0);
}

static void put_probability(struct str *s, const struct tokenizer *tok, const struct job_token *t)
{
    str_puts(s, s->n ? ",{" : "{");
    put_token(s, tok, &t->logprob[0]);
    str_puts(s, ",\"top_logprobs\":[");
    for (size_t i = 1; i < t->n; i++) {
        str_puts(s, i > 1 ? ",{" : "{");
        put_token(s, tok, &t->logprob[i]);
        str_putc(s, '}');
    }
    str_puts(s, "]}");
}

/* ---- members of a result ---- */

static double per(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* The first token comes from the prompt's own forward pass: rates are of those after it. */
static json_t *timings(const struct glim_usage *u)
{
    double n_prompt = (double)(u->n_prompt - u->n_cached), n_decode = u->n_token > 1 ? (double)(u->n_token - 1) : 0;
    double decode_s = n_decode > 0 ? u->decode_s : 0;
    json_t *o =
        json_pack("{s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f}", "cache_n", (json_int_t)u->n_cached, "prompt_n",
                  (json_int_t)(u->n_prompt - u->n_cached), "prompt_ms", u->prefill_s * 1e3, "prompt_per_token_ms",
                  per(u->prefill_s * 1e3, n_prompt), "prompt_per_second", per(n_prompt, u->prefill_s), "predicted_n",
                  (json_int_t)u->n_token, "predicted_ms", decode_s * 1e3, "predicted_per_token_ms",
                  per(decode_s * 1e3, n_decode), "predicted_per_second", per(n_decode, decode_s));
    int failed = 0;
    if (u->n_draft) {
        failed |= json_object_set_new(o, "draft_n", json_integer((json_int_t)u->n_draft));
        failed |= json_object_set_new(o, "draft_n_accepted", json_integer((json_int_t)u->n_accepted));
    }
    return lcpp_whole(o, failed);
}

enum part {
    PART_INDEX,
    PART_CONTENT,
    PART_TOKENS,
    PART_SLOT,
    PART_STOP,
    PART_MODEL,
    PART_PREDICTED,
    PART_EVALUATED,
    PART_SETTINGS,
    PART_PROMPT,
    PART_NEW_LINE,
    PART_TRUNCATED,
    PART_STOP_TYPE,
    PART_STOPPING_WORD,
    PART_CACHED,
    PART_TIMINGS,
    PART_PROBABILITIES,
    PARTS
};
static const char *const part_name[PARTS] = {"index",
                                             "content",
                                             "tokens",
                                             "id_slot",
                                             "stop",
                                             "model",
                                             "tokens_predicted",
                                             "tokens_evaluated",
                                             "generation_settings",
                                             "prompt",
                                             "has_new_line",
                                             "truncated",
                                             "stop_type",
                                             "stopping_word",
                                             "tokens_cached",
                                             "timings",
                                             "completion_probabilities"};

static const char *bool_text(bool v)
{
    return v ? "true" : "false";
}

/* Did the context end it, and not the request's limit? */
static bool is_truncated(const struct teller *o, const struct job_answer *a)
{
    return a->usage.n_token && a->finish == JOB_LENGTH &&
           (o->ask.max_tokens == 0 || a->usage.n_token < o->ask.max_tokens);
}

static void put_stop(struct str *s, const struct job *j, const struct job_answer *a, enum part part)
{
    const json_t *stop = field_get(j->call->json, "stop");
    const json_t *word = json_is_array(stop) ? json_array_get(stop, (size_t)(a->stop < 0 ? 0 : a->stop)) : stop;
    if (part == PART_STOP_TYPE)
        put_text(s, a->finish == JOB_LENGTH ? "limit" : a->stop >= 0 ? "word" : "eos");
    else
        put_text(s, a->stop >= 0 && json_is_string(word) ? json_string_value(word) : "");
}

static void put_list(struct str *s, const struct str *items)
{
    str_putc(s, '[');
    put_str(s, items);
    str_putc(s, ']');
}

static void put_part(struct str *s, const struct job *j, uint32_t answer, enum part part)
{
    const struct teller *o = j->user;
    const struct told *t = &o->answer[answer];
    const struct job_answer *a = &j->answer[answer];
    json_t *object;
    switch (part) {
    case PART_INDEX:
        str_printf(s, "%u", answer);
        return;
    case PART_CONTENT:
        str_putc(s, '"');
        put_str(s, &t->content);
        str_putc(s, '"');
        return;
    case PART_TOKENS:
        put_list(s, &t->tokens);
        return;
    case PART_SLOT:
        str_puts(s, "-1");
        return;
    case PART_STOP:
        str_puts(s, "true");
        return;
    case PART_MODEL:
        put_text(s, j->call->server->name[0]);
        return;
    case PART_PREDICTED:
        str_printf(s, "%zu", a->usage.n_token);
        return;
    case PART_EVALUATED:
        str_printf(s, "%zu", a->usage.n_prompt);
        return;
    case PART_SETTINGS:
        put_json(s, o->ask.settings);
        return;
    case PART_PROMPT:
        put_str(s, &o->ask.prompt[answer / j->n]);
        return;
    case PART_NEW_LINE:
        str_puts(s, bool_text(t->new_line));
        return;
    case PART_TRUNCATED:
        str_puts(s, bool_text(is_truncated(o, a)));
        return;
    case PART_STOP_TYPE:
    case PART_STOPPING_WORD:
        put_stop(s, j, a, part);
        return;
    case PART_CACHED:
        str_printf(s, "%zu", a->usage.n_cached);
        return;
    case PART_TIMINGS:
        object = timings(&a->usage);
        put_json(s, object);
        json_decref(object);
        return;
    case PART_PROBABILITIES:
        put_list(s, &t->probs);
        return;
    case PARTS:
        return;
    }
}

/* A stream has told what it generated; probabilities are there when they were asked for. */
static bool has_part(const struct job *j, enum part part)
{
    const struct teller *o = j->user;
    return part != PART_PROBABILITIES || (!o->ask.stream && field_get_int(j->call->json, "n_probs", 0) > 0);
}

/* "generation_settings/n_predict" or "timings/predicted_n" under its whole path. */
static void put_nested(struct str *s, const struct job *j, uint32_t answer, const char *path)
{
    const struct teller *o = j->user;
    size_t n = strcspn(path, "/");
    json_t *object = NULL;
    if (n == 19 && strncmp(path, "generation_settings", n) == 0)
        object = json_incref(o->ask.settings);
    else if (n == 7 && strncmp(path, "timings", n) == 0)
        object = timings(&j->answer[answer].usage);
    const json_t *v = json_object_get(object, path + n + 1);
    if (v) {
        str_puts(s, s->s[s->n - 1] == '{' ? "" : ",");
        put_text(s, path);
        str_putc(s, ':');
        put_json(s, v);
    }
    json_decref(object);
}

static void put_member(struct str *s, const struct job *j, uint32_t answer, enum part part)
{
    str_printf(s, "%s\"%s\":", s->n && s->s[s->n - 1] == '{' ? "" : ",", part_name[part]);
    put_part(s, j, answer, part);
}

/* Was the field asked for before? */
static bool is_repeated(const json_t *fields, size_t at)
{
    const char *name = json_string_value(json_array_get(fields, at));
    for (size_t i = 0; i < at; i++)
        if (strcmp(json_string_value(json_array_get(fields, i)), name) == 0)
            return true;
    return false;
}

static void put_chosen(struct str *s, const struct job *j, uint32_t answer, const json_t *fields)
{
    size_t i;
    json_t *item;
    json_array_foreach(fields, i, item)
    {
        const char *path = json_string_value(item);
        if (is_repeated(fields, i))
            continue;
        if (strchr(path, '/'))
            put_nested(s, j, answer, path);
        for (unsigned part = 0; part < PARTS; part++)
            if (strcmp(path, part_name[part]) == 0 && has_part(j, (enum part)part))
                put_member(s, j, answer, (enum part)part);
    }
}

static void put_result(struct str *s, const struct job *j, uint32_t answer)
{
    const struct teller *o = j->user;
    str_putc(s, '{');
    if (s->failed)
        return;
    if (o->ask.fields)
        put_chosen(s, j, answer, o->ask.fields);
    for (unsigned part = 0; !o->ask.fields && part < PARTS; part++)
        if (has_part(j, (enum part)part))
            put_member(s, j, answer, (enum part)part);
    str_putc(s, '}');
}

/* ---- what the job tells ---- */

static void on_begin(struct job *j)
{
    const struct teller *o = j->user;
    if (o->ask.stream)
        call_stream(j->call, 200, "text/event-stream");
}

static void on_text(struct job *j, uint32_t answer, enum job_part part, const char *p, size_t n)
{
    struct told *t = &((struct teller *)j->user)->answer[answer];
    (void)part; /* without a dialect it is all content */
    str_json_part(&t->content, p, n);
    t->new_line |= memchr(p, '\n', n) != NULL;
}

/* What was gathered since the last event. */
static void send_piece(struct job *j, uint32_t answer)
{
    struct teller *o = j->user;
    struct told *t = &o->answer[answer];
    struct str *s = &o->line;
    str_clear(s);
    str_printf(s, "{\"index\":%u,\"content\":\"", answer);
    put_str(s, &t->content);
    str_puts(s, "\",\"tokens\":");
    put_list(s, &t->tokens);
    str_printf(s, ",\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":%u,\"tokens_evaluated\":%zu", t->n_token,
               j->input[answer / j->n].n);
    if (t->probs.n) {
        str_puts(s, ",\"completion_probabilities\":");
        put_list(s, &t->probs);
    }
    str_putc(s, '}');
    str_clear(&t->content);
    str_clear(&t->tokens);
    str_clear(&t->probs);
    call_event(j->call, NULL, s);
}

static void on_token(struct job *j, uint32_t answer, const struct job_token *token)
{
    struct teller *o = j->user;
    struct told *t = &o->answer[answer];
    t->n_token++;
    if (o->ask.stream || o->ask.return_tokens)
        str_printf(&t->tokens, "%s%d", t->tokens.n ? "," : "", token->id);
    if (token->n)
        put_probability(&t->probs, j->call->server->model->tok, token);
    if (o->ask.stream)
        send_piece(j, answer);
}

static void on_end(struct job *j, uint32_t answer)
{
    struct teller *o = j->user;
    if (!o->ask.stream)
        return;
    if (o->answer[answer].content.n)
        send_piece(j, answer);
    str_clear(&o->line);
    put_result(&o->line, j, answer);
    call_event(j->call, NULL, &o->line);
}

static void on_done(struct job *j)
{
    struct teller *o = j->user;
    struct str *s = &o->line;
    bool list = j->n_answer > 1;
    if (o->ask.stream) {
        call_end(j->call);
        return;
    }
    for (uint32_t i = 0; i < j->n_answer; i++) {
        str_puts(s, !list ? "" : i ? "," : "[");
        put_result(s, j, i);
    }
    str_puts(s, list ? "]" : "");
    call_answer(j->call, 200, "application/json", s);
}

/* ---- life ---- */

void lcpp_ask_fini(struct lcpp_ask *ask)
{
    for (size_t i = 0; i < ask->n_prompt; i++)
        str_fini(&ask->prompt[i]);
    mem_free(ask->prompt);
    json_decref(ask->settings);
    *ask = (struct lcpp_ask){0};
}

static void teller_free(struct teller *o)
{
    for (size_t i = 0; o->answer && i < o->n_answer; i++) {
        str_fini(&o->answer[i].content);
        str_fini(&o->answer[i].tokens);
        str_fini(&o->answer[i].probs);
    }
    lcpp_ask_fini(&o->ask);
    str_fini(&o->line);
    mem_free(o->answer);
    mem_free(o);
}

static void on_free(struct job *j)
{
    teller_free(j->user);
}

glim_status lcpp_start(struct call *c, struct job_spec *s, struct lcpp_ask *ask, struct glim_err *e)
{
    static const struct job_emitter emitter = {
        .begin = on_begin, .text = on_text, .token = on_token, .end = on_end, .done = on_done, .free = on_free};
    struct teller *o = mem_calloc(1, sizeof *o);
    if (!o) {
        lcpp_ask_fini(ask);
        return err_nomem(e, "answer", sizeof *o);
    }
    o->ask = *ask;
    *ask = (struct lcpp_ask){0};
    o->n_answer = s->n_input * s->task.n_answer;
    if (!(o->answer = mem_calloc(o->n_answer, sizeof *o->answer))) {
        teller_free(o);
        return err_nomem(e, "answers", sizeof *o->answer);
    }
    return job_start(c, s, &emitter, o, e);
}

/* ---- embeddings ---- */

struct vectors {
    struct str *item; /* [n] an input's vector */
    size_t n;
};

static void on_embedding(struct job *j, uint32_t input, const float *v, size_t n)
{
    struct str *s = &((struct vectors *)j->user)->item[input];
    for (size_t i = 0; i < n; i++)
        str_printf(s, "%c%.9g", i ? ',' : '[', (double)v[i]);
    str_putc(s, ']');
}

static void on_vectors(struct job *j)
{
    struct vectors *all = j->user;
    struct str s = {0};
    for (size_t i = 0; i < all->n; i++) {
        str_printf(&s, "%s{\"index\":%zu,\"embedding\":[", i ? "," : "[", i);
        put_str(&s, &all->item[i]);
        str_puts(&s, "]}");
    }
    str_putc(&s, ']');
    call_answer(j->call, 200, "application/json", &s);
}

static void on_free_vectors(struct job *j)
{
    struct vectors *all = j->user;
    for (size_t i = 0; all->item && i < all->n; i++)
        str_fini(&all->item[i]);
    mem_free(all->item);
    mem_free(all);
}

glim_status lcpp_start_embeddings(struct call *c, struct job_spec *s, struct glim_err *e)
{
    static const struct job_emitter emitter = {.embedding = on_embedding, .done = on_vectors, .free = on_free_vectors};
    static const enum glim_pooling pool[] = {[LEVER_POOLING_LAST] = GLIM_POOL_LAST,
                                             [LEVER_POOLING_MEAN] = GLIM_POOL_MEAN,
                                             [LEVER_POOLING_CLS] = GLIM_POOL_CLS};
    struct vectors *all = mem_calloc(1, sizeof *all);
    struct str *item = mem_calloc(s->n_input, sizeof *item);
    if (!all || !item) {
        mem_free(all);
        mem_free(item);
        return err_nomem(e, "embeddings", s->n_input * sizeof *item);
    }
    *all = (struct vectors){item, s->n_input};
    s->task.pool = pool[c->server->lv->pooling];
    return job_start(c, s, &emitter, all, e);
}
