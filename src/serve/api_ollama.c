/* Ollama's API: chat, generate, and what it tells of models. Requests may name the model with ":latest" behind it. */
#include "serve/api_ollama.h"
#include "serve/api.h"
#include "serve/api_llamacpp.h"

#include "base/mem.h"
#include "run/model.h"

#include <string.h>

static glim_status refuse(struct call *c, const char *member, struct glim_err *e)
{
    return call_fail(c, 400, member, "invalid_value", e);
}

/* ---- what the requests share ---- */

static glim_status check_model(struct call *c, const char *member, struct glim_err *e)
{
    static const char latest[] = ":latest";
    char name[256];
    size_t n, tag = sizeof latest - 1;
    const char *text = field_get_text(c->json, member, &n);
    if (!text)
        return GLIM_OK;
    if (n > tag && strcmp(text + n - tag, latest) == 0)
        n -= tag;
    snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, text);
    if (serve_knows_model(c->server, text) || serve_knows_model(c->server, name))
        return GLIM_OK;
    err_set(e, GLIM_REFUSED, "model: have '%.100s', need '%s'", text, c->server->name[0]);
    return call_fail(c, 404, member, "model_not_found", e);
}

static glim_status read_options(struct call *c, struct job_spec *s, struct glim_err *e)
{
    const json_t *options = field_get(c->json, "options");
    struct glim_sampling *p = &s->task.request.sampling;
    int64_t max = field_get_int(options, "num_predict", -1), ctx = field_get_int(options, "num_ctx", 1);
    bool logprobs = field_get_bool(c->json, "logprobs", false);
    p->temperature = 0.8f;
    p->top_k = 40;
    p->top_p = 0.9f;
    if (ctx > c->server->n_ctx) {
        err_set(e, GLIM_REFUSED, "options.num_ctx: have %lld, need at most the server's %u", (long long)ctx,
                c->server->n_ctx);
        return refuse(c, "options.num_ctx", e);
    }
    if (!logprobs && field_get_int(c->json, "top_logprobs", 0) > 0) {
        err_set(e, GLIM_REFUSED, "top_logprobs: have it without logprobs, need logprobs true");
        return refuse(c, "top_logprobs", e);
    }
    s->task.n_logprob = logprobs ? (int32_t)field_get_int(c->json, "top_logprobs", 0) : -1;
    job_set_max_tokens(s, max > 0 ? max : 0);
    return job_read_sampling(c, options, s, e);
}

static void read_format(struct call *c, struct job_constraint *f)
{
    const json_t *format = field_get(c->json, "format");
    *f = (struct job_constraint){0};
    if (json_is_object(format)) {
        f->format = JOB_FORMAT_SCHEMA;
        f->schema = format;
    } else if (json_string_length(format)) {
        f->format = JOB_FORMAT_JSON;
    }
}

/* A model that never reasons is asked not to in vain. */
static enum chat_reasoning read_think(struct call *c)
{
    static const struct {
        const char *word;
        enum chat_reasoning how;
    } row[] = {{"low", CHAT_REASONING_LOW},
               {"medium", CHAT_REASONING_MEDIUM},
               {"high", CHAT_REASONING_HIGH},
               {"max", CHAT_REASONING_HIGH}};
    const json_t *think = field_get(c->json, "think");
    const char *word = json_string_value(think);
    if (json_is_true(think))
        return CHAT_REASONING_ON;
    if (json_is_false(think))
        return c->server->chat && chat_dialect(c->server->chat)->think ? CHAT_REASONING_OFF : CHAT_REASONING_DEFAULT;
    for (size_t i = 0; word && i < sizeof row / sizeof *row; i++)
        if (strcmp(word, row[i].word) == 0)
            return row[i].how;
    return CHAT_REASONING_DEFAULT;
}

/* ---- messages, as OpenAI's API has them ---- */

/* Arguments become text; a call without an id gets one that its result can name. */
static json_t *openai_calls(const json_t *calls, size_t message)
{
    json_t *list = json_array(), *item;
    size_t i, n;
    json_array_foreach(calls, i, item)
    {
        const json_t *function = field_get(item, "function");
        const char *id = field_get_text(item, "id", &n);
        char made[48];
        snprintf(made, sizeof made, "call_%zu_%zu", message, i);
        char *text = json_dumps(field_get(function, "arguments"), JSON_COMPACT);
        json_t *call = text ? json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id ? id : made, "type", "function",
                                        "function", "name", field_get_text(function, "name", &n), "arguments", text)
                            : NULL;
        mem_free(text);
        if (json_array_append_new(list, call) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The id of the last call of that name, or of the last of all. */
static const char *answered(const json_t *messages, const char *name)
{
    size_t n;
    for (size_t m = json_array_size(messages); m-- > 0;) {
        const json_t *calls = json_object_get(json_array_get(messages, m), "tool_calls");
        for (size_t i = json_array_size(calls); i-- > 0;) {
            const json_t *call = json_array_get(calls, i);
            const char *have = field_get_text(field_get(call, "function"), "name", &n);
            if (!name || (have && strcmp(have, name) == 0))
                return field_get_text(call, "id", &n);
        }
    }
    return NULL;
}

static json_t *openai_message(const json_t *message, const json_t *before, size_t at)
{
    size_t n;
    const char *content = field_get_text(message, "content", &n), *role = field_get_text(message, "role", &n);
    const char *thinking = field_get_text(message, "thinking", &n), *name = field_get_text(message, "tool_name", &n);
    const char *id = field_get_text(message, "tool_call_id", &n);
    const json_t *calls = field_get(message, "tool_calls");
    json_t *o = json_pack("{s:s, s:s}", "role", role, "content", content ? content : "");
    if (!o)
        return NULL;
    int failed = 0;
    if (thinking)
        failed |= json_object_set_new(o, "reasoning_content", json_string(thinking));
    if (json_array_size(calls))
        failed |= json_object_set_new(o, "tool_calls", openai_calls(calls, at));
    if (strcmp(role, "tool") == 0) {
        id = id ? id : answered(before, name);
        failed |= json_object_set_new(o, "tool_call_id", json_string(id ? id : "call_0"));
        if (name)
            failed |= json_object_set_new(o, "name", json_string(name));
    }
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static glim_status openai_messages(const json_t *messages, json_t **out, struct glim_err *e)
{
    json_t *list = json_array(), *item;
    size_t i;
    *out = list;
    json_array_foreach(messages, i, item)
    {
        if (json_array_append_new(list, openai_message(item, list, i)) != 0)
            return err_nomem(e, "messages", 0);
    }
    return list ? GLIM_OK : err_nomem(e, "messages", 0);
}

/* A tool's type may be left out. */
static glim_status openai_tools(const json_t *tools, json_t **out, struct glim_err *e)
{
    json_t *list = json_array(), *item;
    size_t i;
    *out = list;
    json_array_foreach(tools, i, item)
    {
        if (json_array_append_new(
                list, json_pack("{s:s, s:O}", "type", "function", "function", json_object_get(item, "function"))) != 0)
            return err_nomem(e, "tools", 0);
    }
    return list ? GLIM_OK : err_nomem(e, "tools", 0);
}

/* ---- chat ---- */

static glim_status prepare_chat(struct call *c, struct job_spec *s, json_t **messages, json_t **tools,
                                struct glim_err *e)
{
    struct job_chat chat = {.parallel = true, .format_member = "format", .reasoning = read_think(c)};
    TRY(read_options(c, s, e));
    TRY(openai_messages(field_get(c->json, "messages"), messages, e));
    TRY(openai_tools(field_get(c->json, "tools"), tools, e));
    chat.messages = *messages;
    chat.tools = *tools;
    read_format(c, &chat.format);
    return job_chat(c, &chat, s, e);
}

static glim_status run_chat(struct call *c, struct glim_err *e)
{
    struct job_spec s;
    struct ollama_ask ask = {.chat = true, .stream = field_get_bool(c->json, "stream", true)};
    json_t *messages = NULL, *tools = NULL;
    TRY(check_model(c, "model", e));
    if (json_array_size(field_get(c->json, "messages")) == 0)
        return ollama_reply_loaded(c, true, e);
    job_spec_init(c, &s);
    glim_status st = prepare_chat(c, &s, &messages, &tools, e);
    if (st == GLIM_OK)
        st = ollama_start(c, &s, &ask, e);
    json_decref(messages);
    json_decref(tools);
    job_spec_fini(&s);
    return st;
}

/* ---- generate ---- */

/* What an earlier reply gave comes before the prompt, in which there is no second BOS then. */
static glim_status prepend(struct call *c, const json_t *context, struct job_spec *s, struct glim_err *e)
{
    const struct glim_model *m = c->server->model;
    struct job_input *in = &s->input[0];
    size_t n = json_array_size(context);
    bool bos = n && in->n && tok_adds_bos(m->tok) && in->id[0] == tok_bos(m->tok);
    size_t skip = bos ? 1 : 0;
    if (n == 0)
        return GLIM_OK;
    int32_t *id = mem_alloc((n + in->n) * sizeof *id);
    if (!id)
        return err_nomem(e, "context", (n + in->n) * sizeof *id);
    memcpy(id + n, in->id + skip, (in->n - skip) * sizeof *id);
    mem_free(in->id);
    in->id = id;
    in->n += n - skip;
    for (size_t i = 0; i < n; i++) {
        id[i] = (int32_t)json_number_value(json_array_get(context, i));
        if ((uint32_t)id[i] >= m->info.n_vocab) {
            err_set(e, GLIM_REFUSED, "context: token %zu: have %d, need 0 to %u", i, id[i], m->info.n_vocab - 1);
            return refuse(c, "context", e);
        }
    }
    return GLIM_OK;
}

static glim_status ask_model(struct call *c, const char *prompt, struct job_spec *s, struct glim_err *e)
{
    struct job_chat chat = {.format_member = "format", .messages_member = "prompt", .reasoning = read_think(c)};
    size_t n;
    const char *system = field_get_text(c->json, "system", &n);
    json_t *messages = system && n ? json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "system", "content", system, "role",
                                               "user", "content", prompt)
                                   : json_pack("[{s:s, s:s}]", "role", "user", "content", prompt);
    if (!messages)
        return err_nomem(e, "prompt", 0);
    chat.messages = messages;
    read_format(c, &chat.format);
    glim_status st = job_chat(c, &chat, s, e);
    json_decref(messages);
    return st;
}

/* A prompt without a template: raw, or before a suffix. */
static glim_status go_on(struct call *c, struct job_spec *s, struct glim_err *e)
{
    struct lcpp_gap gap = {0};
    struct job_constraint format;
    gap.prefix = field_get_text(c->json, "prompt", &gap.n_prefix);
    gap.suffix = field_get_text(c->json, "suffix", &gap.n_suffix);
    read_format(c, &format);
    if (gap.n_suffix) {
        s->member = "suffix";
        TRY(lcpp_add_gap(c, &gap, s, e));
    } else {
        TRY(job_add_text(c, gap.prefix, gap.n_prefix, true, s, e));
    }
    return job_constrain(c, &format, "format", s, e);
}

static glim_status prepare_generate(struct call *c, bool plain, const char *prompt, struct job_spec *s,
                                    struct glim_err *e)
{
    size_t n;
    const char *system = field_get_text(c->json, "system", &n);
    if (plain && system && n) {
        err_set(e, GLIM_REFUSED, "system: have it without a template, need none with raw or suffix");
        return refuse(c, "system", e);
    }
    TRY(read_options(c, s, e));
    TRY(plain ? go_on(c, s, e) : ask_model(c, prompt, s, e));
    return prepend(c, field_get(c->json, "context"), s, e);
}

static glim_status run_generate(struct call *c, struct glim_err *e)
{
    struct job_spec s;
    size_t n, n_suffix = 0;
    const char *prompt = field_get_text(c->json, "prompt", &n);
    bool raw = field_get_bool(c->json, "raw", false);
    TRY(check_model(c, "model", e));
    if (!prompt || n == 0)
        return ollama_reply_loaded(c, false, e);
    bool plain = raw || (field_get_text(c->json, "suffix", &n_suffix) && n_suffix);
    struct ollama_ask ask = {.stream = field_get_bool(c->json, "stream", true), .context = !raw};
    job_spec_init(c, &s);
    glim_status st = prepare_generate(c, plain, prompt, &s, e);
    if (st == GLIM_OK)
        st = ollama_start(c, &s, &ask, e);
    job_spec_fini(&s);
    return st;
}

/* ---- models ---- */

static json_t *details_json(const struct glim_model_info *m)
{
    char size[32];
    double n = (double)m->n_param;
    if (n >= 1e9)
        snprintf(size, sizeof size, "%.1fB", n / 1e9);
    else
        snprintf(size, sizeof size, "%.1fM", n / 1e6);
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", m->format, "family", m->arch,
                     "families", m->arch, "parameter_size", size, "quantization_level", "unknown");
}

static json_t *model_json(const struct server *s, size_t i)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s", s->name[i], strchr(s->name[i], ':') ? "" : ":latest");
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "name", name, "model", name, "size",
                     (json_int_t)s->model->info.weight_bytes, "digest", s->fingerprint, "details",
                     details_json(&s->model->info));
}

static void started(const struct server *s, char out[OLLAMA_TIME_MAX])
{
    ollama_time(out, &(struct timespec){.tv_sec = s->started});
}

static glim_status reply_models(struct call *c, json_t *more, struct glim_err *e)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < c->server->n_name; i++) {
        json_t *m = model_json(c->server, i);
        failed |= json_object_update(m, more);
        failed |= json_array_append_new(list, m);
    }
    json_decref(more);
    return call_reply_json(c, 200, json_pack("{s:o}", "models", lcpp_whole(list, failed)), e);
}

static glim_status run_tags(struct call *c, struct glim_err *e)
{
    char when[OLLAMA_TIME_MAX];
    started(c->server, when);
    return reply_models(c, json_pack("{s:s}", "modified_at", when), e);
}

static glim_status run_ps(struct call *c, struct glim_err *e)
{
    return reply_models(c,
                        json_pack("{s:s, s:i, s:I}", "expires_at", "2318-01-01T00:00:00.000000000Z", "size_vram", 0,
                                  "context_length", (json_int_t)c->server->n_ctx),
                        e);
}

static json_t *info_json(const struct server *s)
{
    static const char *const key[] = {"context_length", "embedding_length", "block_count", "vocab_size"};
    const struct glim_model_info *m = &s->model->info;
    json_int_t value[] = {m->n_ctx_train, m->dim, m->n_layer, m->n_vocab};
    json_t *o = json_pack("{s:s, s:I, s:s}", "general.architecture", m->arch, "general.parameter_count",
                          (json_int_t)m->n_param, "general.basename", m->name);
    int failed = 0;
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s.%s", m->arch, key[i]);
        failed |= json_object_set_new(o, name, json_integer(value[i]));
    }
    return lcpp_whole(o, failed);
}

static json_t *capabilities(const struct server *s)
{
    const struct dialect *d = s->chat ? chat_dialect(s->chat) : NULL;
    const struct {
        const char *name;
        bool can;
    } row[] = {{"completion", true},
               {"embedding", true},
               {"tools", d && d->syntax != DIALECT_NO_CALLS && chat_caps(s->chat, true)->can[TEMPLATE_TOOLS]},
               {"thinking", d && d->think},
               {"insert", lcpp_has_gap_tokens(s)}};
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].can)
            failed |= json_array_append_new(list, json_string(row[i].name));
    return lcpp_whole(list, failed);
}

static glim_status run_show(struct call *c, struct glim_err *e)
{
    const struct server *s = c->server;
    char when[OLLAMA_TIME_MAX], *text;
    struct str file = {0};
    TRY(check_model(c, "model", e));
    TRY(check_model(c, "name", e));
    TRY(lcpp_template_text(s, &text, e));
    started(s, when);
    str_printf(&file, "FROM %s\n", s->name[0]);
    json_t *o = file.failed
                    ? NULL
                    : json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "modelfile", file.s, "parameters", "",
                                "template", text ? text : "", "details", details_json(&s->model->info), "model_info",
                                info_json(s), "capabilities", capabilities(s), "modified_at", when);
    mem_free(text);
    str_fini(&file);
    return call_reply_json(c, 200, o, e);
}

static glim_status run_version(struct call *c, struct glim_err *e)
{
    return call_reply_json(c, 200, json_pack("{s:s}", "version", glim_version()), e);
}

/* ---- the rows ---- */

#define LIST(at, how, shape, sentence)                                                                                 \
    {                                                                                                                  \
        .method = "GET", .path = at, .style = ROUTE_OLLAMA, .quick = true, .run = how, .reply = &(shape),              \
        .doc = sentence                                                                                                \
    }
#define ABSENT(at, why)                                                                                                \
    {                                                                                                                  \
        .method = "POST", .path = at, .style = ROUTE_OLLAMA, .absent = why                                             \
    }

const struct route ollama_routes[OLLAMA_ROUTES] = {
    {.method = "POST",
     .path = "/api/chat",
     .style = ROUTE_OLLAMA,
     .run = run_chat,
     .request = &ollama_chat,
     .reply = &ollama_chat_reply,
     .doc = "The next message of a conversation; a stream is lines of the same JSON."},
    {.method = "POST",
     .path = "/api/generate",
     .style = ROUTE_OLLAMA,
     .run = run_generate,
     .request = &ollama_generate,
     .reply = &ollama_generate_reply,
     .doc = "The answer to one message, or text that goes on from a prompt; a stream is lines of the same JSON."},
    LIST("/api/tags", run_tags, ollama_tags_reply, "The names of the served model."),
    LIST("/api/ps", run_ps, ollama_ps_reply, "The same: it is always loaded."),
    {.method = "POST",
     .path = "/api/show",
     .style = ROUTE_OLLAMA,
     .run = run_show,
     .request = &ollama_show,
     .reply = &ollama_show_reply,
     .doc = "What the model is."},
    LIST("/api/version", run_version, ollama_version_reply, "The version of this server."),
    ABSENT("/api/create", "models are files: glim serve -m names one"),
    ABSENT("/api/copy", "models are files: --alias gives names"),
    ABSENT("/api/delete", "models are files, which a server does not delete"),
    ABSENT("/api/pull", "glim pull brings models"),
    ABSENT("/api/push", "glim publishes no models"),
    ABSENT("/api/blobs/*", "models are files: glim serve -m names one"),
    ABSENT("/api/embed*", "/v1/embeddings and /embedding give vectors"),
};
