/* The Anthropic API: messages, and how many tokens they have. */
#include "serve/api.h"
#include "serve/api_anthropic.h"
#include "serve/openai.h"

#include <string.h>

static glim_status refuse(struct call *c, const char *param, struct glim_err *e)
{
    return call_fail(c, 400, param, "invalid_value", e);
}

static glim_status check_numbers(struct call *c, struct glim_err *e)
{
    int64_t max = field_get_int(c->json, "max_tokens", 0);
    int64_t budget = field_get_int(field_get(c->json, "thinking"), "budget_tokens", 0);
    if (budget >= max) {
        err_set(e, GLIM_REFUSED, "thinking.budget_tokens: have %lld, need less than max_tokens, %lld",
                (long long)budget, (long long)max);
        return refuse(c, "thinking.budget_tokens", e);
    }
    if (field_get(c->json, "stop") && field_get(c->json, "stop_sequences")) {
        err_set(e, GLIM_REFUSED, "stop: have it and stop_sequences, need one of them");
        return refuse(c, "stop", e);
    }
    return GLIM_OK;
}

/* Stop sequences have another name here. */
static glim_status read_sampling(struct call *c, struct job_spec *s, struct glim_err *e)
{
    json_t *stops = json_object_get(c->json, "stop_sequences"), *body = json_copy(c->json);
    bool ok = body && (!json_is_array(stops) || json_object_set(body, "stop", stops) == 0);
    glim_status st = ok ? job_read_sampling(c, body, s, e) : err_nomem(e, "request", 0);
    json_decref(body);
    return st;
}

static glim_status prepare(struct call *c, struct anthropic_chat *a, struct job_spec *s, struct glim_err *e)
{
    TRY(openai_check_model(c, e));
    TRY(check_numbers(c, e));
    TRY(anthropic_read(c, a, e));
    TRY(read_sampling(c, s, e));
    job_set_max_tokens(s, field_get_int(c->json, "max_tokens", 0));
    return job_chat(c, &a->chat, s, e);
}

static const json_t *stops_of(const struct call *c)
{
    const json_t *stops = field_get(c->json, "stop_sequences");
    return stops ? stops : field_get(c->json, "stop");
}

static glim_status run_messages(struct call *c, struct glim_err *e)
{
    struct job_spec s;
    struct anthropic_chat a = {0};
    job_spec_init(c, &s);
    glim_status st = prepare(c, &a, &s, e);
    if (st == GLIM_OK)
        st = anthropic_start(c, &s, field_get_bool(c->json, "stream", false), stops_of(c), e);
    anthropic_chat_fini(&a);
    job_spec_fini(&s);
    return st;
}

static glim_status run_count(struct call *c, struct glim_err *e)
{
    struct job_spec s;
    struct anthropic_chat a = {0};
    job_spec_init(c, &s);
    glim_status st = openai_check_model(c, e);
    if (st == GLIM_OK)
        st = anthropic_read(c, &a, e);
    if (st == GLIM_OK)
        st = job_chat(c, &a.chat, &s, e);
    if (st == GLIM_OK)
        st = call_reply_json(c, 200, json_pack("{s:I}", "input_tokens", (json_int_t)s.input[0].n), e);
    anthropic_chat_fini(&a);
    job_spec_fini(&s);
    return st;
}

const struct route anthropic_routes[ANTHROPIC_ROUTES] = {
    {.method = "POST",
     .path = "/v1/messages",
     .style = ROUTE_ANTHROPIC,
     .run = run_messages,
     .request = &anthropic_request,
     .reply = &anthropic_reply,
     .event = &anthropic_event,
     .doc = "The next message of a conversation."},
    {.method = "POST",
     .path = "/v1/messages/count_tokens",
     .style = ROUTE_ANTHROPIC,
     .run = run_count,
     .request = &anthropic_count,
     .reply = &anthropic_count_reply,
     .doc = "How many tokens a prompt has."},
    {.method = "POST",
     .path = "/v1/messages/batches*",
     .style = ROUTE_ANTHROPIC,
     .absent = "send the requests themselves: the server queues them"},
    {.method = "POST", .path = "/v1/complete", .style = ROUTE_ANTHROPIC, .absent = "the messages API took its place"},
};
