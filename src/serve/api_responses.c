/* The responses API: OpenAI's successor of chat completions, with a memory. */
#include "serve/api.h"
#include "serve/api_responses.h"
#include "serve/openai.h"

#include "base/mem.h"
#include "serve/store.h"

#include <string.h>

static glim_status refuse(struct call *c, const char *param, struct glim_err *e)
{
    return call_fail(c, 400, param, "invalid_value", e);
}

static glim_status not_found(struct call *c, const char *id, struct glim_err *e)
{
    err_set(e, GLIM_REFUSED, "response: have the id '%.60s', need one that is stored, or under way", id);
    return call_fail(c, 404, NULL, "response_not_found", e);
}

/* ---- making one ---- */

/* A request under preparation. */
struct asked {
    struct job_spec spec;
    json_t *own, *all; /* items: the request's, and with those it goes on from */
    struct responses_chat chat;
    bool logprobs;
};

static void asked_fini(struct asked *a)
{
    json_decref(a->own);
    json_decref(a->all);
    responses_chat_fini(&a->chat);
    job_spec_fini(&a->spec);
}

/* The items of the conversation that the request goes on from, then its own. */
static glim_status find_items(struct call *c, struct asked *a, struct glim_err *e)
{
    char missing[STORE_ID_MAX];
    size_t n;
    const char *previous = field_get_text(c->json, "previous_response_id", &n);
    TRY(responses_input(c, &a->own, e));
    if (!previous) {
        a->all = json_incref(a->own);
        return GLIM_OK;
    }
    if (!c->server->store) {
        err_set(e, GLIM_REFUSED, "previous_response_id: have one, need none: this server stores no responses");
        return refuse(c, "previous_response_id", e);
    }
    TRY(store_chain(c->server->store, previous, false, ROUTE_BODY_MAX, &a->all, missing, e));
    if (!a->all) {
        err_set(e, GLIM_REFUSED, "previous_response_id: have '%.60s', need a stored response%s%s", previous,
                strcmp(missing, previous) == 0 ? "" : ": it goes on from one that is gone, ",
                strcmp(missing, previous) == 0 ? "" : missing);
        return call_fail(c, 400, "previous_response_id", "previous_response_not_found", e);
    }
    return json_array_extend(a->all, a->own) == 0 ? GLIM_OK : err_nomem(e, "input", 0);
}

static glim_status read_logprobs(struct call *c, struct asked *a, struct glim_err *e)
{
    size_t i;
    json_t *word;
    json_array_foreach(field_get(c->json, "include"), i, word) a->logprobs |=
        strcmp(json_string_value(word), "message.output_text.logprobs") == 0;
    if (!a->logprobs && field_get_int(c->json, "top_logprobs", 0) > 0) {
        err_set(e, GLIM_REFUSED,
                "top_logprobs: have it without logprobs, need message.output_text.logprobs in include");
        return refuse(c, "top_logprobs", e);
    }
    a->spec.task.n_logprob = a->logprobs ? (int32_t)field_get_int(c->json, "top_logprobs", 0) : -1;
    return GLIM_OK;
}

static glim_status prepare(struct call *c, struct asked *a, struct glim_err *e)
{
    *a = (struct asked){0};
    job_spec_init(c, &a->spec);
    TRY(openai_check_model(c, e));
    if (field_get_bool(c->json, "background", false)) {
        err_set(e, GLIM_REFUSED, "background: have true, need false: a response ends with its request");
        return refuse(c, "background", e);
    }
    TRY(read_logprobs(c, a, e));
    TRY(find_items(c, a, e));
    TRY(responses_read(c, a->all, &a->chat, e));
    TRY(job_read_sampling(c, c->json, &a->spec, e));
    job_set_max_tokens(&a->spec, field_get_int(c->json, "max_output_tokens", 0));
    return job_chat(c, &a->chat.chat, &a->spec, e);
}

static glim_status run_create(struct call *c, struct glim_err *e)
{
    struct asked a;
    glim_status st = prepare(c, &a, e);
    struct responses_ask ask = {.stream = field_get_bool(c->json, "stream", false),
                                .store = field_get_bool(c->json, "store", true),
                                .logprobs = a.logprobs,
                                .input = a.own};
    if (st == GLIM_OK)
        st = responses_start(c, &a.spec, &ask, e);
    asked_fini(&a);
    return st;
}

static glim_status run_count(struct call *c, struct glim_err *e)
{
    struct asked a;
    glim_status st = prepare(c, &a, e);
    if (st == GLIM_OK)
        st = call_reply_json(
            c, 200,
            json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens", (json_int_t)a.spec.input[0].n),
            e);
    asked_fini(&a);
    return st;
}

/* ---- coming back to one ---- */

static glim_status read_stored(struct call *c, char **body, struct glim_err *e)
{
    *body = NULL;
    return c->server->store ? store_get(c->server->store, c->match.param[0], body, e) : GLIM_OK;
}

static void answer_missing(struct call *c)
{
    struct glim_err e;
    not_found(c, c->match.param[0], &e);
    call_error(c, 404, &e);
}

/* In the event thread, where those under way are known. */
static void answer_running(struct call *c)
{
    struct str s = {0};
    struct job *j = responses_find(c->server, c->match.param[0]);
    if (!j) {
        answer_missing(c);
        return;
    }
    responses_print(&s, j, "in_progress");
    call_answer(c, 200, "application/json", &s);
}

static glim_status run_get(struct call *c, struct glim_err *e)
{
    char *body;
    struct str s = {0};
    TRY(read_stored(c, &body, e));
    if (!body) {
        call_take(c, answer_running, NULL, NULL);
        return GLIM_OK;
    }
    str_puts(&s, body);
    mem_free(body);
    return call_reply_text(c, 200, "application/json", &s, e);
}

static void answer_cancelled(struct call *c)
{
    struct str s = {0};
    struct job *j = responses_find(c->server, c->match.param[0]);
    if (!j) {
        answer_missing(c);
        return;
    }
    job_cancel(j);
    responses_print(&s, j, "cancelled");
    call_answer(c, 200, "application/json", &s);
}

static glim_status run_cancel(struct call *c, struct glim_err *e)
{
    char *body;
    TRY(read_stored(c, &body, e));
    if (body) {
        mem_free(body);
        err_set(e, GLIM_REFUSED, "response: have one that has ended, need one under way");
        return call_fail(c, 400, NULL, "response_ended", e);
    }
    call_take(c, answer_cancelled, NULL, NULL);
    return GLIM_OK;
}

static glim_status run_delete(struct call *c, struct glim_err *e)
{
    const char *id = c->match.param[0];
    bool found = false;
    if (c->server->store)
        TRY(store_delete(c->server->store, id, &found, e));
    if (!found)
        return not_found(c, id, e);
    return call_reply_json(c, 200, json_pack("{s:s, s:s, s:b}", "id", id, "object", "response", "deleted", 1), e);
}

/* ---- its input ---- */

static const char *id_of(const json_t *item)
{
    const char *id = json_string_value(json_object_get(item, "id"));
    return id ? id : "";
}

/* The page of a list that the query asks for. */
static glim_status page_of(struct call *c, const json_t *all, json_t **page, bool *more, struct glim_err *e)
{
    size_t n = json_array_size(all), from = 0, limit = (size_t)field_get_int(c->query, "limit", 20), n_text;
    const char *order = field_get_text(c->query, "order", &n_text), *after = field_get_text(c->query, "after", &n_text);
    bool newest_first = !order || strcmp(order, "desc") == 0;
    *page = json_array();
    bool ok = *page != NULL;
    for (size_t i = 0; after && i < n && from == 0; i++)
        if (strcmp(id_of(json_array_get(all, newest_first ? n - 1 - i : i)), after) == 0)
            from = i + 1;
    if (after && from == 0) {
        err_set(e, GLIM_REFUSED, "after: have '%.60s', need the id of one of the items", after);
        return refuse(c, "after", e);
    }
    size_t to = n - from < limit ? n : from + limit;
    for (size_t i = from; ok && i < to; i++)
        ok = json_array_append(*page, json_array_get(all, newest_first ? n - 1 - i : i)) == 0;
    *more = to < n;
    return ok ? GLIM_OK : err_nomem(e, "items", n);
}

static glim_status reply_items(struct call *c, const json_t *all, struct glim_err *e)
{
    json_t *page;
    bool more = false;
    glim_status st = page_of(c, all, &page, &more, e);
    size_t n = json_array_size(page);
    if (st == GLIM_OK)
        st = call_reply_json(c, 200,
                             json_pack("{s:s, s:O, s:s?, s:s?, s:b}", "object", "list", "data", page, "first_id",
                                       n ? id_of(json_array_get(page, 0)) : NULL, "last_id",
                                       n ? id_of(json_array_get(page, n - 1)) : NULL, "has_more", more),
                             e);
    json_decref(page);
    return st;
}

static glim_status run_items(struct call *c, struct glim_err *e)
{
    const char *id = c->match.param[0];
    char missing[STORE_ID_MAX];
    json_t *all = NULL;
    if (c->server->store)
        TRY(store_chain(c->server->store, id, true, 4 * (size_t)ROUTE_BODY_MAX, &all, missing, e));
    if (!all)
        return not_found(c, c->server->store && missing[0] ? missing : id, e);
    glim_status st = reply_items(c, all, e);
    json_decref(all);
    return st;
}

/* ---- the rows ---- */

const struct route responses_routes[RESPONSES_ROUTES] = {
    {.method = "POST",
     .path = "/v1/responses",
     .run = run_create,
     .request = &responses_request,
     .reply = &responses_reply,
     .event = &responses_event,
     .doc = "An answer to a text or a list of items."},
    {.method = "POST",
     .path = "/v1/responses/input_tokens",
     .run = run_count,
     .request = &responses_count,
     .reply = &responses_count_reply,
     .doc = "How many tokens a prompt has."},
    {.method = "POST", .path = "/v1/responses/compact", .absent = "the client keeps its conversation short"},
    {.method = "GET",
     .path = "/v1/responses/{id}",
     .run = run_get,
     .reply = &responses_reply,
     .doc = "A response that is stored or under way."},
    {.method = "DELETE",
     .path = "/v1/responses/{id}",
     .run = run_delete,
     .reply = &responses_deleted,
     .doc = "Delete a stored response; what went on from it cannot be gone on with any more."},
    {.method = "GET",
     .path = "/v1/responses/{id}/input_items",
     .run = run_items,
     .query = &responses_items_query,
     .reply = &responses_items,
     .doc = "What a stored response was an answer to: the items of its request, after those it went on from."},
    {.method = "POST",
     .path = "/v1/responses/{id}/cancel",
     .run = run_cancel,
     .reply = &responses_reply,
     .doc = "End a response that is under way; it is kept as far as it came."},
};
