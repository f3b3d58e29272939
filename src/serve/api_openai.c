/* The OpenAI API: chat and text completions, embeddings, models. */
#include "serve/api.h"
#include "serve/openai.h"

#include "base/mem.h"
#include "run/model.h"

#include <string.h>

/* ---- what the requests share ---- */

glim_status openai_check_model(struct call *c, struct glim_err *e)
{
    size_t n;
    const char *name = field_get_text(c->json, "model", &n);
    if (!name || serve_knows_model(c->server, name))
        return GLIM_OK;
    err_set(e, GLIM_REFUSED, "model: have '%.100s', need '%s'", name, c->server->name[0]);
    return call_fail(c, 404, "model", "model_not_found", e);
}

static glim_status refuse(struct call *c, const char *param, struct glim_err *e)
{
    return call_fail(c, 400, param, "invalid_value", e);
}

static void read_stream(const json_t *body, struct openai_ask *ask)
{
    ask->stream = field_get_bool(body, "stream", false);
    ask->usage = ask->stream && field_get_bool(field_get(body, "stream_options"), "include_usage", false);
}

/* response_format, grammar or json_schema: one of them. */
static glim_status read_format(struct call *c, struct job_constraint *f, const char **member, struct glim_err *e)
{
    static const char *const names[] = {"response_format", "grammar", "json_schema"};
    const json_t *format = field_get(c->json, "response_format");
    size_t n;
    const char *type = field_get_text(format, "type", &n);
    *f = (struct job_constraint){0};
    *member = "response_format";
    for (size_t i = 0, have = 0; i < 3; i++)
        if (field_get(c->json, names[i]) && !(i == 0 && strcmp(type, "text") == 0) && ++have > 1) {
            err_set(e, GLIM_REFUSED,
                    "%s: have two rules for the answer, need one of response_format, grammar and json_schema",
                    names[i]);
            return refuse(c, names[i], e);
        }
    if ((f->gbnf = field_get_text(c->json, "grammar", &f->n_gbnf))) {
        f->format = JOB_FORMAT_GBNF;
        *member = "grammar";
    } else if ((f->schema = field_get(c->json, "json_schema"))) {
        f->format = JOB_FORMAT_SCHEMA;
        *member = "json_schema";
    } else if (type && strcmp(type, "json_object") == 0) {
        f->format = JOB_FORMAT_JSON;
    } else if (type && strcmp(type, "json_schema") == 0) {
        f->schema = field_get(field_get(format, "json_schema"), "schema");
        f->format = f->schema ? JOB_FORMAT_SCHEMA : JOB_FORMAT_JSON;
    }
    return GLIM_OK;
}

/* ---- chat/completions ---- */

static const json_t *find_tool(const json_t *tools, const char *name)
{
    size_t i, n;
    json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        const char *have = field_get_text(field_get(tool, "function"), "name", &n);
        if (have && strcmp(have, name) == 0)
            return tool;
    }
    return NULL;
}

static glim_status read_tools(struct call *c, struct job_chat *chat, struct glim_err *e)
{
    const json_t *choice = field_get(c->json, "tool_choice");
    const char *word = json_string_value(choice);
    size_t n;
    chat->tools = field_get(c->json, "tools");
    chat->parallel = field_get_bool(c->json, "parallel_tool_calls", true);
    if (word && strcmp(word, "none") == 0)
        chat->choice = JOB_TOOLS_NONE;
    if (word && strcmp(word, "required") == 0)
        chat->choice = JOB_TOOLS_REQUIRED;
    if (json_is_object(choice)) {
        chat->choice = JOB_TOOLS_NAMED;
        chat->tool = field_get_text(field_get(choice, "function"), "name", &n);
    }
    if (chat->choice == JOB_TOOLS_REQUIRED && json_array_size(chat->tools) == 0) {
        err_set(e, GLIM_REFUSED, "tool_choice: have required and no tools, need some");
        return refuse(c, "tool_choice", e);
    }
    if (chat->tool && !find_tool(chat->tools, chat->tool)) {
        err_set(e, GLIM_REFUSED, "tool_choice: have the function '%.64s', need one of the tools", chat->tool);
        return refuse(c, "tool_choice", e);
    }
    return GLIM_OK;
}

enum chat_reasoning openai_effort(const char *word)
{
    static const struct {
        const char *word;
        enum chat_reasoning how;
    } row[] = {{"none", CHAT_REASONING_OFF},      {"minimal", CHAT_REASONING_LOW}, {"low", CHAT_REASONING_LOW},
               {"medium", CHAT_REASONING_MEDIUM}, {"high", CHAT_REASONING_HIGH},   {"xhigh", CHAT_REASONING_HIGH},
               {"max", CHAT_REASONING_HIGH}};
    for (size_t i = 0; word && i < sizeof row / sizeof *row; i++)
        if (strcmp(word, row[i].word) == 0)
            return row[i].how;
    return CHAT_REASONING_DEFAULT;
}

glim_status openai_read_conversation(struct call *c, struct job_chat *chat, struct glim_err *e)
{
    const json_t *body = c->json;
    chat->messages = field_get(body, "messages");
    TRY(read_tools(c, chat, e));
    chat->reasoning = openai_effort(json_string_value(field_get(body, "reasoning_effort")));
    chat->extra = field_get(body, "chat_template_kwargs");
    chat->no_answer = !field_get_bool(body, "add_generation_prompt", true);
    return GLIM_OK;
}

static glim_status read_chat_logprobs(struct call *c, struct job_spec *s, struct openai_ask *ask, struct glim_err *e)
{
    ask->logprobs = field_get_bool(c->json, "logprobs", false);
    if (!ask->logprobs && field_get_int(c->json, "top_logprobs", 0) > 0) {
        err_set(e, GLIM_REFUSED, "top_logprobs: have it without logprobs, need logprobs true");
        return refuse(c, "top_logprobs", e);
    }
    s->task.n_logprob = ask->logprobs ? (int32_t)field_get_int(c->json, "top_logprobs", 0) : -1;
    return GLIM_OK;
}

static glim_status prepare_chat(struct call *c, struct job_chat *chat, struct job_spec *s, struct openai_ask *ask,
                                struct glim_err *e)
{
    const json_t *body = c->json;
    read_stream(body, ask);
    TRY(read_chat_logprobs(c, s, ask, e));
    TRY(job_read_sampling(c, body, s, e));
    TRY(read_format(c, &chat->format, &chat->format_member, e));
    s->task.n_answer = (uint32_t)field_get_int(body, "n", 1);
    job_set_max_tokens(s, field_get_int(body, "max_completion_tokens", field_get_int(body, "max_tokens", 0)));
    return job_chat(c, chat, s, e);
}

static glim_status run_chat(struct call *c, struct glim_err *e)
{
    struct job_spec s;
    struct openai_ask ask = {.chat = true};
    struct job_chat chat = {0};
    job_spec_init(c, &s);
    glim_status st = openai_check_model(c, e);
    if (st == GLIM_OK)
        st = openai_read_conversation(c, &chat, e);
    if (st == GLIM_OK)
        st = prepare_chat(c, &chat, &s, &ask, e);
    if (st == GLIM_OK)
        st = openai_start(c, &s, &ask, e);
    job_spec_fini(&s);
    return st;
}

/* ---- completions ---- */

/* The text of prompt i: as it came, or its tokens'. */
static glim_status prompt_text(struct call *c, const struct job_spec *s, size_t i, struct openai_prompt *p,
                               struct glim_err *e)
{
    const struct tokenizer *tok = c->server->model->tok;
    const struct job_input *in = &s->input[i];
    const json_t *prompt = field_get(c->json, "prompt");
    const json_t *item = json_is_string(prompt) ? prompt : json_array_get(prompt, i);
    if (!json_is_string(item))
        return tok_decode(tok, in->id, in->n, true, &p->text, &p->n, e);
    p->n = json_string_length(item);
    p->text = mem_strndup(json_string_value(item), p->n);
    p->bos = tok_adds_bos(tok) && in->n && in->id[0] == tok_bos(tok);
    return p->text ? GLIM_OK : err_nomem(e, "prompt", p->n);
}

static glim_status keep_prompts(struct call *c, const struct job_spec *s, struct openai_ask *ask, struct glim_err *e)
{
    ask->prompt = mem_calloc(s->n_input, sizeof *ask->prompt);
    if (!ask->prompt)
        return err_nomem(e, "prompts", s->n_input * sizeof *ask->prompt);
    for (; ask->n_prompt < s->n_input; ask->n_prompt++)
        TRY(prompt_text(c, s, ask->n_prompt, &ask->prompt[ask->n_prompt], e));
    return GLIM_OK;
}

static glim_status read_completion(struct call *c, struct job_spec *s, struct openai_ask *ask, struct glim_err *e)
{
    const json_t *body = c->json;
    int64_t max = field_get_int(body, "max_tokens", 16), n = field_get_int(body, "n", 1);
    int32_t top = (int32_t)field_get_int(body, "logprobs", -1);
    read_stream(body, ask);
    ask->echo = field_get_bool(body, "echo", false);
    ask->logprobs = top >= 0;
    if (field_get_int(body, "best_of", n) != n) {
        err_set(e, GLIM_REFUSED, "best_of: have %lld, need n's %lld: all answers are returned",
                (long long)field_get_int(body, "best_of", n), (long long)n);
        return refuse(c, "best_of", e);
    }
    if (max == 0 && n > 1) {
        err_set(e, GLIM_REFUSED, "n: have %lld answers of no tokens, need max_tokens from 1", (long long)n);
        return refuse(c, "n", e);
    }
    s->task.n_answer = (uint32_t)n;
    s->task.n_logprob = max ? top : -1;
    s->task.n_prompt_logprob = ask->echo ? top : -1;
    s->task.prompt_only = max == 0;
    job_set_max_tokens(s, max);
    return job_read_sampling(c, body, s, e);
}

static glim_status prepare_completion(struct call *c, struct job_spec *s, struct openai_ask *ask, struct glim_err *e)
{
    struct job_constraint format;
    const char *member;
    TRY(openai_check_model(c, e));
    TRY(read_completion(c, s, ask, e));
    TRY(read_format(c, &format, &member, e));
    if (!s->task.prompt_only)
        TRY(job_constrain(c, &format, member, s, e));
    TRY(job_add_prompts(c, field_get(c->json, "prompt"), true, s, e));
    return ask->echo ? keep_prompts(c, s, ask, e) : GLIM_OK;
}

static glim_status run_completion(struct call *c, struct glim_err *e)
{
    struct job_spec s;
    struct openai_ask ask = {0};
    job_spec_init(c, &s);
    glim_status st = prepare_completion(c, &s, &ask, e);
    if (st == GLIM_OK)
        st = openai_start(c, &s, &ask, e);
    openai_ask_fini(&ask);
    job_spec_fini(&s);
    return st;
}

/* ---- embeddings ---- */

static glim_status run_embeddings(struct call *c, struct glim_err *e)
{
    struct job_spec s;
    size_t n;
    uint32_t dim = glim_model_info(c->server->model)->dim;
    const char *format = field_get_text(c->json, "encoding_format", &n);
    int64_t dimensions = field_get_int(c->json, "dimensions", dim);
    job_spec_init(c, &s);
    s.member = "input";
    glim_status st = openai_check_model(c, e);
    if (st == GLIM_OK && dimensions != dim) {
        err_set(e, GLIM_REFUSED, "dimensions: have %lld, need the model's %u", (long long)dimensions, dim);
        st = refuse(c, "dimensions", e);
    }
    if (st == GLIM_OK)
        st = job_add_prompts(c, field_get(c->json, "input"), false, &s, e);
    if (st == GLIM_OK)
        st = openai_start_embeddings(c, &s, format && strcmp(format, "base64") == 0, e);
    job_spec_fini(&s);
    return st;
}

/* ---- models ---- */

static json_t *model_json(const struct server *s, size_t i)
{
    const struct glim_model_info *m = glim_model_info(s->model);
    return json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:I}", "id", s->name[i], "object", "model", "created",
                     (json_int_t)s->started, "owned_by", "glim", "max_model_len", (json_int_t)s->n_ctx, "architecture",
                     m->arch, "n_params", (json_int_t)m->n_param);
}

static glim_status run_models(struct call *c, struct glim_err *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->server->n_name; i++)
        if (json_array_append_new(list, model_json(c->server, i)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return call_reply_json(c, 200, list ? json_pack("{s:s, s:o}", "object", "list", "data", list) : NULL, e);
}

static glim_status run_model(struct call *c, struct glim_err *e)
{
    const char *name = c->match.param[0];
    for (size_t i = 0; i < c->server->n_name; i++)
        if (strcmp(c->server->name[i], name) == 0)
            return call_reply_json(c, 200, model_json(c->server, i), e);
    err_set(e, GLIM_REFUSED, "model: have '%.100s', need '%s'", name, c->server->name[0]);
    return call_fail(c, 404, "model", "model_not_found", e);
}

/* ---- the rows ---- */

#define CHAT(at)                                                                                                       \
    {                                                                                                                  \
        .method = "POST", .path = at, .run = run_chat, .request = &openai_chat, .reply = &openai_chat_reply,           \
        .event = &openai_chat_chunk, .doc = "The next message of a conversation."                                      \
    }
#define COMPLETION(at)                                                                                                 \
    {                                                                                                                  \
        .method = "POST", .path = at, .run = run_completion, .request = &openai_completion,                            \
        .reply = &openai_completion_reply, .event = &openai_completion_reply,                                          \
        .doc = "Text that goes on from a prompt."                                                                      \
    }
#define ABSENT(at, why)                                                                                                \
    {                                                                                                                  \
        .method = "POST", .path = at, .absent = why                                                                    \
    }

const struct route openai_routes[OPENAI_ROUTES] = {
    CHAT("/v1/chat/completions"),
    CHAT("/chat/completions"),
    COMPLETION("/v1/completions"),
    {.method = "POST",
     .path = "/v1/embeddings",
     .run = run_embeddings,
     .request = &openai_embeddings,
     .reply = &openai_embeddings_reply,
     .doc = "A vector for each text, by the lever pooling."},
    {.method = "GET",
     .path = "/v1/models",
     .quick = true,
     .run = run_models,
     .reply = &openai_models_reply,
     .doc = "The names of the served model."},
    {.method = "GET",
     .path = "/v1/models/{model}",
     .quick = true,
     .run = run_model,
     .reply = &openai_model_reply,
     .doc = "One of them."},
    ABSENT("/v1/audio/*", "glim neither hears nor speaks"),
    ABSENT("/v1/images/*", "glim draws no images"),
    ABSENT("/v1/videos*", "glim makes no videos"),
    ABSENT("/v1/files*", "glim keeps no files"),
    ABSENT("/v1/uploads*", "glim keeps no files"),
    ABSENT("/v1/batches*", "send the requests themselves: the server queues them"),
    ABSENT("/v1/fine_tuning/*", "glim trains no models"),
    ABSENT("/v1/moderations*", "glim has no classifier"),
    ABSENT("/v1/assistants*", "the responses and chat APIs took their place"),
    ABSENT("/v1/threads*", "the responses and chat APIs took their place"),
    ABSENT("/v1/vector_stores*", "glim keeps no documents"),
    ABSENT("/v1/realtime*", "glim neither hears nor speaks"),
    ABSENT("/v1/containers*", "glim runs no code"),
    ABSENT("/v1/evals*", "glim judges no models"),
    ABSENT("/v1/conversations*", "glim keeps no conversations of this kind"),
    ABSENT("/v1/chatkit*", "glim has no such product"),
    ABSENT("/v1/organization*", "a server has no organisations"),
    ABSENT("/v1/rerank", "glim ranks no documents"),
};
