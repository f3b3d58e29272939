/* From a request's fields to what a job needs. In workers. */
#include "serve/job.h"

#include "base/mem.h"
#include "run/model.h"
#include "serve/grammars.h"

#include <math.h>
#include <string.h>

enum { MAX_INPUTS = 2048, MAX_STOP_TOKENS = 64 };

/* ---- life ---- */

void job_spec_init(struct call *c, struct job_spec *s)
{
    *s = (struct job_spec){.grammars = c->server->grammars};
    s->task.request.sampling = glim_sampling_default();
    s->task.request.sampling.temperature = 1;
    s->task.request.sampling.seed = serve_random();
    s->task.n_logprob = s->task.n_prompt_logprob = -1;
    s->task.n_answer = 1;
}

void job_spec_fini(struct job_spec *s)
{
    for (size_t i = 0; i < s->n_input; i++)
        mem_free(s->input[i].id);
    mem_free(s->input);
    for (size_t i = 0; i < s->task.request.n_stop && s->stop; i++)
        mem_free(s->stop[i]);
    mem_free(s->stop);
    mem_free(s->bias);
    mem_free(s->end);
    json_decref(s->tools);
    grammar_drop(s->grammars, s->grammar);
    *s = (struct job_spec){0};
}

static bool is_nomem(const struct glim_err *e)
{
    return strncmp(e->message, "out of memory", 13) == 0;
}

/* What the client sent is at fault, whatever status the module below gave it. */
static glim_status blame(struct call *c, const char *member, const char *code, const struct glim_err *e)
{
    return is_nomem(e) ? e->status : call_fail(c, 400, member, code, e);
}

/* ---- sampling ---- */

/* OpenAI's {"42": -1.5} and llama.cpp's [[42, -1.5], ["word", false]]. */
static const struct field_shape bias_value = {
    .kinds = FIELD_NUMBER | FIELD_BOOL | FIELD_STRING, .bounded = true, .min = -1e6, .max = 1e6};
static const struct field_shape bias_pair = {.kinds = FIELD_ARRAY,
                                             .item = FIELD_SHAPE(.kinds = FIELD_NUMBER | FIELD_BOOL | FIELD_STRING),
                                             .min_items = 2,
                                             .max_items = 2};
static const struct field_shape bias_shape = {
    .kinds = FIELD_OBJECT | FIELD_ARRAY, .item = &bias_pair, .rest = &bias_value, .max_items = 4096};

static const struct field sampling_fields[] = {
    {"top_k", FIELD_INT_IN(-1, INT32_MAX), .nullable = true, .doc = "Draw from the k likeliest tokens; 0 or -1: all."},
    {"min_p", FIELD_NUMBER_IN(0, 1), .nullable = true,
     .doc = "Drop tokens less likely than this part of the likeliest; 0: none."},
    {"typical_p", FIELD_NUMBER_IN(0, 1), .nullable = true,
     .doc = "Keep the most typical tokens up to this mass; 1: all."},
    {"repeat_penalty", FIELD_NUMBER_IN(0.01, 100), .nullable = true,
     .doc = "Divides logits of tokens seen before; 1: off."},
    {"repetition_penalty", FIELD_NUMBER_IN(0.01, 100), .nullable = true, .doc = "Another name of repeat_penalty."},
    {"repeat_last_n", FIELD_INT_IN(-1, INT32_MAX), .nullable = true,
     .doc = "How many of the last tokens, the prompt's included, the penalties see: 64 unless given; -1: all."},
    {"seed", &field_int, .nullable = true,
     .doc = "Equal requests with the same seed get the same bytes; absent or -1: a random one."},
    {"logit_bias", &bias_shape, .nullable = true,
     .doc = "Added to the logits of tokens: {\"42\": -100}, or a list of pairs of a token id or a text and a number; "
            "false forbids."},
    {"stop",
     FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY, .min_chars = 1, .max_items = JOB_MAX_STOP,
                 .item = FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1)),
     .nullable = true, .doc = "The answer ends before the first of these texts."},
    {"stop_token_ids", FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = &field_token, .max_items = MAX_STOP_TOKENS),
     .nullable = true, .doc = "The answer ends at the first of these tokens, which are none of its text."},
    {"ignore_eos", &field_bool, .nullable = true, .doc = "Go on after the model says that it is done."},
    {"cache_prompt", &field_bool, .nullable = true,
     .doc = "false: take nothing from the prefix cache and leave nothing there. The answer is the same."},
};
const struct field_shape job_sampling_shape = {FIELD_MEMBERS(sampling_fields)};

static glim_status add_bias(struct job_spec *s, size_t *cap, int64_t token, double add, uint32_t n_vocab,
                            struct glim_err *e)
{
    struct glim_sampling *p = &s->task.request.sampling;
    void *list = s->bias;
    if (token < 0 || token >= n_vocab)
        return err_set(e, GLIM_REFUSED, "logit_bias: have token %lld, need 0 to %u", (long long)token, n_vocab - 1);
    if (!mem_grow(&list, cap, p->n_bias, sizeof *s->bias))
        return err_nomem(e, "logit bias", p->n_bias * sizeof *s->bias);
    s->bias = list;
    s->bias[p->n_bias++] = (struct glim_bias){.token = (int32_t)token, .add = (float)add};
    return GLIM_OK;
}

static glim_status bias_amount(const json_t *v, double *add, struct glim_err *e)
{
    if (json_is_false(v)) {
        *add = -INFINITY;
        return GLIM_OK;
    }
    *add = json_number_value(v);
    if (!json_is_number(v) || fabs(*add) > 1e6)
        return err_set(e, GLIM_REFUSED, "logit_bias: have no number within 1e6 of 0, need one, or false");
    return GLIM_OK;
}

/* A text stands for each of its tokens. */
static glim_status bias_text(struct call *c, struct job_spec *s, size_t *cap, const json_t *text, double add,
                             struct glim_err *e)
{
    int32_t *id;
    size_t n;
    glim_status st = GLIM_OK;
    uint32_t n_vocab = glim_model_info(c->server->model)->n_vocab;
    TRY(glim_tokenize(c->server->model, json_string_value(text), json_string_length(text), 0, &id, &n, e));
    for (size_t i = 0; i < n && st == GLIM_OK; i++)
        st = add_bias(s, cap, id[i], add, n_vocab, e);
    glim_free(id);
    return st;
}

static glim_status read_bias(struct call *c, const json_t *v, struct job_spec *s, struct glim_err *e)
{
    uint32_t n_vocab = glim_model_info(c->server->model)->n_vocab;
    size_t cap = 0, i;
    const char *key;
    json_t *item;
    double add;
    int64_t token;
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        TRY(bias_amount(item, &add, e));
        if (!parse_i64(key, &token))
            return err_set(e, GLIM_REFUSED, "logit_bias: have the key '%.40s', need a token id", key);
        TRY(add_bias(s, &cap, token, add, n_vocab, e));
    }
    json_array_foreach(v, i, item)
    {
        const json_t *who = json_array_get(item, 0);
        TRY(bias_amount(json_array_get(item, 1), &add, e));
        if (json_is_string(who))
            TRY(bias_text(c, s, &cap, who, add, e));
        else if (json_is_integer(who))
            TRY(add_bias(s, &cap, json_integer_value(who), add, n_vocab, e));
        else
            return err_set(e, GLIM_REFUSED, "logit_bias: entry %zu: have no token id or text, need one", i);
    }
    return GLIM_OK;
}

static glim_status read_stops(const json_t *v, struct job_spec *s, struct glim_err *e)
{
    size_t n = json_is_string(v) ? 1 : json_array_size(v);
    s->stop = mem_calloc(n, sizeof *s->stop);
    if (!s->stop)
        return err_nomem(e, "stop", n * sizeof *s->stop);
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_is_string(v) ? v : json_array_get(v, i));
        if (!(s->stop[i] = mem_strdup(text)))
            return err_nomem(e, "stop", strlen(text));
        s->task.request.n_stop++;
    }
    return GLIM_OK;
}

/* The server's own ends, and those of the request. */
static glim_status add_ends(struct job_spec *s, const int32_t *id, size_t n, struct glim_err *e)
{
    size_t have = s->task.request.n_end;
    int32_t *end = mem_realloc(s->end, (have + n) * sizeof *end);
    if (!end)
        return err_nomem(e, "ends", (have + n) * sizeof *end);
    s->end = end;
    memcpy(end + have, id, n * sizeof *end);
    s->task.request.n_end += n;
    return GLIM_OK;
}

static glim_status read_ends(const json_t *v, struct job_spec *s, struct glim_err *e)
{
    size_t i;
    json_t *item;
    json_array_foreach(v, i, item)
    {
        int32_t id = (int32_t)json_number_value(item);
        TRY(add_ends(s, &id, 1, e));
    }
    return GLIM_OK;
}

static void read_numbers(const json_t *body, struct glim_sampling *p)
{
    p->temperature = (float)field_get_number(body, "temperature", (double)p->temperature);
    p->top_p = (float)field_get_number(body, "top_p", (double)p->top_p);
    p->min_p = (float)field_get_number(body, "min_p", (double)p->min_p);
    p->typical_p = (float)field_get_number(body, "typical_p", (double)p->typical_p);
    p->repeat_penalty = (float)field_get_number(body, "repetition_penalty", (double)p->repeat_penalty);
    p->repeat_penalty = (float)field_get_number(body, "repeat_penalty", (double)p->repeat_penalty);
    p->presence_penalty = (float)field_get_number(body, "presence_penalty", (double)p->presence_penalty);
    p->frequency_penalty = (float)field_get_number(body, "frequency_penalty", (double)p->frequency_penalty);
    p->repeat_last_n = (int32_t)field_get_int(body, "repeat_last_n", p->repeat_last_n);
    int64_t top_k = field_get_int(body, "top_k", p->top_k), seed = field_get_int(body, "seed", -1);
    p->top_k = top_k > 0 ? (uint32_t)top_k : 0;
    p->seed = seed == -1 ? p->seed : (uint64_t)seed;
}

glim_status job_read_sampling(struct call *c, const json_t *body, struct job_spec *s, struct glim_err *e)
{
    struct glim_request *r = &s->task.request;
    const json_t *v;
    read_numbers(body, &r->sampling);
    r->ignore_end = field_get_bool(body, "ignore_eos", r->ignore_end);
    s->task.no_cache = !field_get_bool(body, "cache_prompt", !s->task.no_cache);
    if ((v = field_get(body, "logit_bias")) && read_bias(c, v, s, e) != GLIM_OK)
        return blame(c, "logit_bias", "invalid_value", e);
    if ((v = field_get(body, "stop")))
        TRY(read_stops(v, s, e));
    if ((v = field_get(body, "stop_token_ids")))
        TRY(read_ends(v, s, e));
    return GLIM_OK;
}

void job_set_max_tokens(struct job_spec *s, int64_t n)
{
    s->task.request.max_tokens = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* ---- prompts ---- */

static const struct field_shape prompt_item = {.kinds = FIELD_STRING | FIELD_INT | FIELD_ARRAY,
                                               .bounded = true,
                                               .max = INT32_MAX,
                                               .item = &field_token,
                                               .min_items = 1};
const struct field_shape job_prompt_shape = {
    .kinds = FIELD_STRING | FIELD_ARRAY, .item = &prompt_item, .min_items = 1, .uniform = true};

glim_status job_add_tokens(struct job_spec *s, int32_t *id, size_t n, struct glim_err *e)
{
    void *list = s->input;
    if (!mem_grow(&list, &s->cap_input, s->n_input, sizeof *s->input)) {
        mem_free(id);
        return err_nomem(e, "prompts", s->n_input * sizeof *s->input);
    }
    s->input = list;
    s->input[s->n_input++] = (struct job_input){.id = id, .n = n};
    return GLIM_OK;
}

glim_status job_add_text(struct call *c, const char *text, size_t n, bool special, struct job_spec *s,
                         struct glim_err *e)
{
    int32_t *id;
    size_t n_id;
    glim_status st =
        glim_tokenize(c->server->model, text, n, GLIM_TOK_BOS | (special ? GLIM_TOK_SPECIAL : 0), &id, &n_id, e);
    return st == GLIM_OK ? job_add_tokens(s, id, n_id, e) : blame(c, s->member, "invalid_value", e);
}

/* Token ids, checked against the vocabulary. */
static glim_status add_ids(struct call *c, const json_t *list, struct job_spec *s, struct glim_err *e)
{
    uint32_t n_vocab = glim_model_info(c->server->model)->n_vocab;
    size_t n = json_array_size(list);
    int32_t *id = mem_alloc(n * sizeof *id);
    if (!id)
        return err_nomem(e, "prompt", n * sizeof *id);
    for (size_t i = 0; i < n; i++) {
        double v = json_number_value(json_array_get(list, i));
        if (v >= n_vocab) {
            mem_free(id);
            err_set(e, GLIM_REFUSED, "%s: token %zu: have id %.0f, need 0 to %u", s->member ? s->member : "prompt", i,
                    v, n_vocab - 1);
            return call_fail(c, 400, s->member ? s->member : "prompt", "invalid_value", e);
        }
        id[i] = (int32_t)v;
    }
    return job_add_tokens(s, id, n, e);
}

glim_status job_add_prompts(struct call *c, const json_t *prompt, bool special, struct job_spec *s, struct glim_err *e)
{
    size_t i;
    json_t *item;
    if (json_is_string(prompt))
        return job_add_text(c, json_string_value(prompt), json_string_length(prompt), special, s, e);
    if (json_is_number(json_array_get(prompt, 0)))
        return add_ids(c, prompt, s, e);
    if (json_array_size(prompt) > MAX_INPUTS) {
        err_set(e, GLIM_REFUSED, "%s: have %zu items, need at most %d", s->member ? s->member : "prompt",
                json_array_size(prompt), MAX_INPUTS);
        return call_fail(c, 400, s->member ? s->member : "prompt", "invalid_value", e);
    }
    json_array_foreach(prompt, i, item)
    {
        if (json_is_string(item))
            TRY(job_add_text(c, json_string_value(item), json_string_length(item), special, s, e));
        else
            TRY(add_ids(c, item, s, e));
    }
    return GLIM_OK;
}

/* ---- grammars ---- */

static glim_status take_grammar(struct call *c, const struct grammar_spec *g, const char *member, struct job_spec *s,
                                struct glim_err *e)
{
    if (s->task.request.ignore_end && !(g->source == GRAMMAR_CALLS && g->calls.lazy)) {
        err_set(e, GLIM_REFUSED, "%s: have it and ignore_eos, need one of them", member);
        return call_fail(c, 400, member, "invalid_value", e);
    }
    grammar_drop(s->grammars, s->grammar);
    s->grammar = NULL;
    glim_status st = grammars_get(s->grammars, g, &s->grammar, e);
    return st == GLIM_OK ? GLIM_OK : blame(c, member, "invalid_value", e);
}

/* after: the grammar begins behind this text; NULL: at once. */
static glim_status constrain(struct call *c, const struct job_constraint *f, const char *member, const char *after,
                             struct job_spec *s, struct glim_err *e)
{
    static const char any_object[] = "{\"type\":\"object\"}";
    struct grammar_spec g = {.source = GRAMMAR_SCHEMA, .after = after};
    char *schema = NULL;
    switch (f->format) {
    case JOB_FORMAT_TEXT:
        return GLIM_OK;
    case JOB_FORMAT_JSON:
        g.text = any_object;
        g.n = sizeof any_object - 1;
        break;
    case JOB_FORMAT_SCHEMA:
        if (!(schema = json_dumps(f->schema, JSON_COMPACT | JSON_ENCODE_ANY)))
            return err_nomem(e, "schema", 0);
        g.text = schema;
        g.n = strlen(schema);
        break;
    case JOB_FORMAT_GBNF:
        g.source = GRAMMAR_GBNF;
        g.text = f->gbnf;
        g.n = f->n_gbnf;
        break;
    }
    glim_status st = take_grammar(c, &g, member, s, e);
    mem_free(schema);
    return st;
}

glim_status job_constrain(struct call *c, const struct job_constraint *f, const char *member, struct job_spec *s,
                          struct glim_err *e)
{
    return constrain(c, f, member, NULL, s, e);
}

/* ---- conversations ---- */

static const char *named(const char *member, const char *otherwise)
{
    return member ? member : otherwise;
}

static glim_status check_chat(struct call *c, const struct job_chat *chat, bool tools, struct glim_err *e)
{
    static const char *const taken[] = {"messages",  "tools",    "documents", "add_generation_prompt",
                                        "bos_token", "eos_token"};
    const char *format = named(chat->format_member, "response_format");
    if (!c->server->chat) {
        *e = c->server->no_chat;
        return call_fail(c, 400, named(chat->messages_member, "messages"), "no_chat_template", e);
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (json_object_get(chat->extra, taken[i])) {
            err_set(e, GLIM_REFUSED, "chat_template_kwargs.%s: have a value, need another name: this is the server's",
                    taken[i]);
            return call_fail(c, 400, "chat_template_kwargs", "invalid_value", e);
        }
    if (tools && chat->format.format != JOB_FORMAT_TEXT) {
        err_set(e, GLIM_REFUSED, "%s: have it and tools, need one of them, or tool_choice none", format);
        return call_fail(c, 400, format, "invalid_value", e);
    }
    return GLIM_OK;
}

/* The grammar of an answer that may call tools, or must. */
static glim_status constrain_calls(struct call *c, const struct job_chat *chat, const char *after, struct job_spec *s,
                                   struct glim_err *e)
{
    struct grammar_spec g = {.source = GRAMMAR_CALLS,
                             .tools = chat->tools,
                             .calls = {.only_name = chat->choice == JOB_TOOLS_NAMED ? chat->tool : NULL,
                                       .parallel = chat->parallel,
                                       .lazy = chat->choice == JOB_TOOLS_AUTO}};
    if (g.calls.lazy && s->task.request.ignore_end)
        return GLIM_OK; /* nothing says when the answer is over, so calls are read but not enforced */
    g.after = g.calls.lazy ? NULL : after;
    return take_grammar(c, &g, named(chat->tools_member, "tools"), s, e);
}

/* As templates know messages: no role developer, and always a content. */
static glim_status fit_messages(const json_t *messages, json_t **out, struct glim_err *e)
{
    size_t i, n;
    json_t *m, *copy = *out = json_copy((json_t *)(uintptr_t)messages);
    json_array_foreach(copy, i, m)
    {
        const char *role = field_get_text(m, "role", &n);
        bool developer = role && strcmp(role, "developer") == 0, empty = !field_get(m, "content");
        if (!developer && !empty)
            continue;
        json_t *fitted = json_copy(m);
        if (!fitted || (developer && json_object_set_new(fitted, "role", json_string("system")) != 0) ||
            (empty && json_object_set_new(fitted, "content", json_string("")) != 0) ||
            json_array_set(copy, i, fitted) != 0) {
            json_decref(fitted);
            return err_nomem(e, "messages", 0);
        }
        json_decref(fitted);
    }
    return copy ? GLIM_OK : err_nomem(e, "messages", 0);
}

static bool has_tools(const struct job_chat *chat)
{
    return json_array_size(chat->tools) > 0 && chat->choice != JOB_TOOLS_NONE;
}

glim_status job_chat_prompt(struct call *c, const struct job_chat *chat, struct chat_prompt *p, struct glim_err *e)
{
    json_t *messages = NULL;
    struct chat_input in = {.tools = has_tools(chat) ? chat->tools : NULL,
                            .extra = chat->extra,
                            .reasoning = chat->reasoning,
                            .no_answer = chat->no_answer};
    time_t now = time(NULL);
    localtime_r(&now, &in.now);
    TRY(check_chat(c, chat, has_tools(chat), e));
    glim_status st = fit_messages(chat->messages, &messages, e);
    in.messages = messages;
    if (st == GLIM_OK)
        st = chat_prompt_make(c->server->chat, &in, p, e);
    json_decref(messages);
    return st == GLIM_OK ? GLIM_OK : blame(c, named(chat->messages_member, "messages"), "invalid_value", e);
}

glim_status job_chat(struct call *c, const struct job_chat *chat, struct job_spec *s, struct glim_err *e)
{
    const struct server *server = c->server;
    bool tools = has_tools(chat);
    struct chat_prompt p = {0};
    int32_t *id;
    size_t n;
    s->member = named(chat->messages_member, "messages");
    TRY(job_chat_prompt(c, chat, &p, e));
    glim_status st = chat_encode(&p, server->model->tok, NULL, &id, &n, e);
    st = st == GLIM_OK ? job_add_tokens(s, id, n, e) : blame(c, s->member, "invalid_value", e);
    s->prompt_end = p.end;
    chat_prompt_fini(&p);
    TRY(st);
    s->dialect = chat_dialect(server->chat);
    s->parse_tools = tools;
    s->tools = tools ? json_incref((json_t *)(uintptr_t)chat->tools) : NULL;
    s->task.request.special = true;
    s->task.request.thinks = s->prompt_end == DIALECT_PROMPT_THINKS;
    if (!s->task.request.ignore_end)
        TRY(add_ends(s, server->end, server->n_end, e));
    const char *after = s->task.request.thinks ? s->dialect->think_end : NULL;
    return tools ? constrain_calls(c, chat, after, s, e)
                 : constrain(c, &chat->format, named(chat->format_member, "response_format"), after, s, e);
}
