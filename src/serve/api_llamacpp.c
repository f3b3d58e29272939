/* llama.cpp's own API: completions, infill, embeddings, tokens, and what it tells of itself. */
#include "serve/api.h"
#include "serve/api_llamacpp.h"
#include "serve/openai.h"

#include "base/mem.h"
#include "run/metrics.h"
#include "run/run.h"

/* ---- properties ---- */

static json_t *piece_json(const struct tokenizer *tok, int32_t id)
{
    struct tok_piece p = tok_bytes(tok, id, true, false);
    json_t *text = json_stringn(p.s ? p.s : "", p.n);
    return text ? text : json_string(""); /* a piece that is no UTF-8 */
}

/* By llama.cpp's names. */
static json_t *caps_json(const struct chat *chat)
{
    static const struct {
        const char *name;
        enum template_cap cap;
    } row[] = {{"supports_string_content", TEMPLATE_STRING_CONTENT},
               {"supports_typed_content", TEMPLATE_PARTS_CONTENT},
               {"supports_system_role", TEMPLATE_SYSTEM},
               {"supports_tools", TEMPLATE_TOOLS},
               {"supports_object_arguments", TEMPLATE_OBJECT_ARGUMENTS},
               {"supports_parallel_tool_calls", TEMPLATE_PARALLEL_CALLS},
               {"supports_preserve_reasoning", TEMPLATE_REASONING_KEPT}};
    json_t *o = json_object();
    int failed = 0;
    const struct template_caps *caps = chat ? chat_caps(chat, true) : NULL;
    for (size_t i = 0; caps && i < sizeof row / sizeof *row; i++)
        failed |= json_object_set_new(o, row[i].name, json_boolean(caps->can[row[i].cap]));
    if (caps)
        failed |= json_object_set_new(
            o, "supports_tool_calls",
            json_boolean(caps->can[TEMPLATE_OBJECT_ARGUMENTS] || caps->can[TEMPLATE_STRING_ARGUMENTS]));
    return lcpp_whole(o, failed);
}

static json_t *default_settings(const struct server *s)
{
    struct job_spec none = {.task.n_logprob = -1};
    struct lcpp_ask ask = {0};
    none.task.request.sampling = glim_sampling_default();
    none.task.request.sampling.seed = UINT32_MAX; /* what llama.cpp calls a random one */
    lcpp_default_sampling(&none.task.request.sampling);
    return lcpp_settings(s, &none, &ask, NULL);
}

static glim_status run_props(struct call *c, struct glim_err *e)
{
    const struct server *s = c->server;
    const struct tokenizer *tok = s->model->tok;
    char *text, build[64];
    TRY(lcpp_template_text(s, &text, e));
    snprintf(build, sizeof build, "glim-%s", glim_version());
    json_t *o = json_pack(
        "{s:{s:I, s:o}, s:I, s:s, s:s, s:{s:b, s:b, s:b}, s:b, s:b, s:b, s:s, s:o, s:o, s:o, s:s, s:b}",
        "default_generation_settings", "n_ctx", (json_int_t)s->n_ctx, "params", default_settings(s), "total_slots",
        (json_int_t)s->lv->n_seq, "model_alias", s->name[0], "model_path", s->path, "modalities", "vision", 0, "audio",
        0, "video", 0, "endpoint_slots", 1, "endpoint_props", 0, "endpoint_metrics", 1, "chat_template",
        text ? text : "", "chat_template_caps", caps_json(s->chat), "bos_token", piece_json(tok, tok_bos(tok)),
        "eos_token", piece_json(tok, tok_eos(tok)), "build_info", build, "is_sleeping", 0);
    mem_free(text);
    int failed = 0;
    if (s->chat && !s->lv->chat_template && s->model->tool_template)
        failed = json_object_set_new(o, "chat_template_tool_use", json_string(s->model->tool_template));
    return call_reply_json(c, 200, lcpp_whole(o, failed), e);
}

/* ---- slots ---- */

/* Sequences have no slots here: as many are said to be busy as are in work. */
static glim_status run_slots(struct call *c, struct glim_err *e)
{
    const struct server *s = c->server;
    struct metrics_view *v = mem_alloc(sizeof *v);
    size_t n = (size_t)s->lv->n_seq;
    if (!v)
        return err_nomem(e, "slots", sizeof *v);
    metrics_read(v, run_engine_metrics(s->engine));
    size_t busy = (size_t)v->of[METRIC_REQUESTS_RUNNING].value;
    mem_free(v);
    if (field_get(c->query, "fail_on_no_slot") && busy >= n) {
        err_set(e, GLIM_BUSY, "slots: have %zu answers in work, need fewer than %zu", busy, n);
        return call_fail(c, 503, NULL, NULL, e);
    }
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < n; i++)
        failed |= json_array_append_new(list, json_pack("{s:I, s:I, s:b, s:b}", "id", (json_int_t)i, "n_ctx",
                                                        (json_int_t)s->n_ctx, "speculative",
                                                        s->lv->draft != LEVER_DRAFT_OFF, "is_processing", i < busy));
    return call_reply_json(c, 200, lcpp_whole(list, failed), e);
}

/* ---- models ---- */

static glim_status run_models(struct call *c, struct glim_err *e)
{
    const struct server *s = c->server;
    const struct glim_model_info *m = &s->model->info;
    json_t *names = json_array();
    int failed = 0;
    for (size_t i = 0; i < s->n_name; i++)
        failed |= json_array_append_new(names, json_string(s->name[i]));
    json_t *meta =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "n_vocab", (json_int_t)m->n_vocab, "n_ctx", (json_int_t)s->n_ctx,
                  "n_ctx_train", (json_int_t)m->n_ctx_train, "n_embd", (json_int_t)m->dim, "n_params",
                  (json_int_t)m->n_param, "size", (json_int_t)m->weight_bytes);
    return call_reply_json(c, 200,
                           json_pack("{s:s, s:[{s:s, s:o, s:[], s:s, s:I, s:s, s:o}]}", "object", "list", "data", "id",
                                     s->name[0], "aliases", lcpp_whole(names, failed), "tags", "object", "model",
                                     "created", (json_int_t)s->started, "owned_by", "glim", "meta", meta),
                           e);
}

/* ---- the rows ---- */

#define COMPLETION(at)                                                                                                 \
    {                                                                                                                  \
        .method = "POST", .path = at, .style = ROUTE_LLAMACPP, .run = lcpp_run_completion,                             \
        .request = &lcpp_completion, .reply = &lcpp_completion_reply, .event = &lcpp_completion_event,                 \
        .doc = "Text that goes on from a prompt; a list of results where there are several."                           \
    }
#define EMBEDDING(at)                                                                                                  \
    {                                                                                                                  \
        .method = "POST", .path = at, .style = ROUTE_LLAMACPP, .run = lcpp_run_embedding, .request = &lcpp_embedding,  \
        .reply = &lcpp_embedding_reply, .doc = "A vector of length 1 for each text, by the lever pooling."             \
    }
#define ABSENT(at, why)                                                                                                \
    {                                                                                                                  \
        .method = "POST", .path = at, .style = ROUTE_LLAMACPP, .absent = why                                           \
    }

const struct route llamacpp_routes[LLAMACPP_ROUTES] = {
    COMPLETION("/completion"),
    COMPLETION("/completions"),
    {.method = "POST",
     .path = "/infill",
     .style = ROUTE_LLAMACPP,
     .run = lcpp_run_infill,
     .request = &lcpp_infill,
     .reply = &lcpp_completion_reply,
     .event = &lcpp_completion_event,
     .doc = "Text between two others; 501 where the vocabulary has no tokens for prefix, suffix and middle."},
    EMBEDDING("/embedding"),
    EMBEDDING("/embeddings"),
    {.method = "POST",
     .path = "/tokenize",
     .style = ROUTE_LLAMACPP,
     .run = lcpp_run_tokenize,
     .request = &lcpp_tokenize,
     .reply = &lcpp_tokens,
     .doc = "The tokens of a text."},
    {.method = "POST",
     .path = "/detokenize",
     .style = ROUTE_LLAMACPP,
     .run = lcpp_run_detokenize,
     .request = &lcpp_detokenize,
     .reply = &lcpp_content,
     .doc = "The text of tokens, control tokens included."},
    {.method = "POST",
     .path = "/apply-template",
     .style = ROUTE_LLAMACPP,
     .run = lcpp_run_apply_template,
     .request = &openai_chat,
     .reply = &lcpp_prompt_reply,
     .doc = "The prompt that a conversation becomes."},
    {.method = "GET",
     .path = "/props",
     .style = ROUTE_LLAMACPP,
     .run = run_props,
     .reply = &lcpp_props_reply,
     .doc = "What the server is set to."},
    {.method = "GET",
     .path = "/slots",
     .style = ROUTE_LLAMACPP,
     .run = run_slots,
     .query = &lcpp_slots_query,
     .reply = &lcpp_slots_reply,
     .doc = "How many answers are in work, as llama.cpp tells it."},
    {.method = "GET",
     .path = "/models",
     .style = ROUTE_LLAMACPP,
     .quick = true,
     .run = run_models,
     .reply = &lcpp_models_reply,
     .doc = "The served model and all of its names."},
    ABSENT("/props", "what a server is set to does not change while it runs"),
    ABSENT("/slots/*", "the prefix cache keeps what slots would, and saves nothing to files"),
    ABSENT("/lora-adapters", "glim applies no adapters"),
    ABSENT("/rerank", "glim ranks no documents"),
    ABSENT("/reranking", "glim ranks no documents"),
    ABSENT("/v1/reranking", "glim ranks no documents"),
};
