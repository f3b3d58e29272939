/* From items to a conversation in the form that job_chat takes.
 *
 * An assistant's turn is several items here and one message there: reasoning, then a text, then calls. A call that is
 * incomplete was never made, and is left out. */
#include "serve/api_responses.h"
#include "serve/openai.h"

#include <string.h>

struct reading {
    struct call *call;
    json_t *out;    /* the conversation so far, but for */
    json_t *answer; /* an assistant's message */
    json_t *names;  /* of functions by the ids of their calls */
    bool failed;    /* out of memory */
};

static void append(struct reading *r, json_t *list, json_t *item)
{
    r->failed |= json_array_append_new(list, item) != 0;
}

static void set(struct reading *r, json_t *object, const char *name, json_t *value)
{
    r->failed |= json_object_set_new(object, name, value) != 0;
}

static bool is(const json_t *object, const char *member, const char *word)
{
    const char *have = json_string_value(json_object_get(object, member));
    return have && strcmp(have, word) == 0;
}

/* ---- a request's own items ---- */

static const char *prefix_of(const json_t *item)
{
    return is(item, "type", "message")         ? "msg_"
           : is(item, "type", "function_call") ? "fc_"
           : is(item, "type", "reasoning")     ? "rs_"
                                               : "fco_";
}

/* Content as a list of parts. */
static json_t *parts_of(const json_t *item)
{
    json_t *content = json_object_get(item, "content");
    if (!json_is_string(content))
        return json_incref(content);
    return is(item, "role", "assistant")
               ? json_pack("[{s:s, s:O, s:[]}]", "type", "output_text", "text", content, "annotations")
               : json_pack("[{s:s, s:O}]", "type", "input_text", "text", content);
}

static json_t *complete_item(struct reading *r, const json_t *from)
{
    char id[CALL_ID_MAX];
    json_t *item = json_copy((json_t *)(uintptr_t)from);
    if (!json_object_get(item, "type"))
        set(r, item, "type", json_string("message"));
    if (!field_get(item, "id")) {
        serve_id(prefix_of(item), id);
        set(r, item, "id", json_string(id));
    }
    if (!field_get(item, "status"))
        set(r, item, "status", json_string("completed"));
    if (is(item, "type", "message"))
        set(r, item, "content", parts_of(item));
    return item;
}

glim_status responses_input(const struct call *c, json_t **items, struct glim_err *e)
{
    struct reading r = {0};
    json_t *input = json_object_get(c->json, "input"), *item;
    size_t i;
    *items = json_array();
    r.failed = !*items;
    if (json_is_string(input)) {
        json_t *message = json_pack("{s:s, s:O}", "role", "user", "content", input);
        append(&r, *items, complete_item(&r, message));
        json_decref(message);
    }
    json_array_foreach(input, i, item) append(&r, *items, complete_item(&r, item));
    return r.failed ? err_nomem(e, "input", json_array_size(input)) : GLIM_OK;
}

/* ---- a conversation ---- */

static void end_answer(struct reading *r)
{
    if (r->answer)
        append(r, r->out, r->answer);
    r->answer = NULL;
}

/* The message that an item of the assistant belongs to. What comes before text or calls begins a new one after them. */
static json_t *answer(struct reading *r, bool after_text, bool after_calls)
{
    const json_t *have = r->answer;
    bool text = json_array_size(json_object_get(have, "content")) > 0, calls = json_object_get(have, "tool_calls");
    if ((text && !after_text) || (calls && !after_calls))
        end_answer(r);
    if (!r->answer)
        r->failed |= !(r->answer = json_pack("{s:s, s:[]}", "role", "assistant", "content"));
    return r->answer;
}

static void add_parts(struct reading *r, json_t *to, const json_t *from)
{
    size_t i;
    json_t *part;
    json_array_foreach(from, i, part)
    {
        json_t *text = json_object_get(part, "text");
        append(r, to, json_pack("{s:s, s:O}", "type", "text", "text", text ? text : json_object_get(part, "refusal")));
    }
}

static void read_message(struct reading *r, const json_t *item)
{
    const json_t *content = json_object_get(item, "content");
    if (is(item, "role", "assistant")) {
        add_parts(r, json_object_get(answer(r, false, false), "content"), content);
        return;
    }
    json_t *parts = json_array();
    end_answer(r);
    add_parts(r, parts, content);
    append(r, r->out, json_pack("{s:s, s:o}", "role", is(item, "role", "user") ? "user" : "system", "content", parts));
}

static void read_reasoning(struct reading *r, const json_t *item)
{
    const json_t *from = field_get(item, "content");
    json_t *message = answer(r, false, false), *part;
    size_t i;
    json_array_foreach(json_array_size(from) ? from : field_get(item, "summary"), i, part)
    {
        const char *have = json_string_value(json_object_get(message, "reasoning_content"));
        set(r, message, "reasoning_content",
            json_sprintf("%s%s", have ? have : "", json_string_value(json_object_get(part, "text"))));
    }
}

static void read_call(struct reading *r, const json_t *item)
{
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name");
    if (is(item, "status", "incomplete"))
        return;
    json_t *message = answer(r, true, true);
    if (!json_object_get(message, "tool_calls"))
        set(r, message, "tool_calls", json_array());
    append(r, json_object_get(message, "tool_calls"),
           json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function", "name", name, "arguments",
                     json_object_get(item, "arguments")));
    set(r, r->names, json_string_value(id), json_incref(name));
}

static glim_status read_output(struct reading *r, const json_t *item, struct glim_err *e)
{
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(r->names, json_string_value(id));
    json_t *output = json_object_get(item, "output"), *content = NULL;
    if (!name) {
        err_set(e, GLIM_REFUSED, "input: have an output of the call '%.60s', need a function_call of this id before it",
                json_string_value(id));
        return call_fail(r->call, 400, "input", "invalid_value", e);
    }
    end_answer(r);
    if (json_is_string(output))
        content = json_incref(output);
    else if ((content = json_array()))
        add_parts(r, content, output);
    append(r, r->out,
           json_pack("{s:s, s:O, s:O, s:o}", "role", "tool", "tool_call_id", id, "name", name, "content", content));
    return GLIM_OK;
}

static glim_status read_item(struct reading *r, const json_t *item, struct glim_err *e)
{
    if (is(item, "type", "message"))
        read_message(r, item);
    else if (is(item, "type", "reasoning"))
        read_reasoning(r, item);
    else if (is(item, "type", "function_call"))
        read_call(r, item);
    else
        return read_output(r, item, e);
    return GLIM_OK;
}

static glim_status read_items(struct reading *r, const json_t *items, struct glim_err *e)
{
    const json_t *instructions = field_get(r->call->json, "instructions");
    size_t i;
    json_t *item;
    if (instructions)
        append(r, r->out, json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    json_array_foreach(items, i, item)
    {
        TRY(read_item(r, item, e));
    }
    end_answer(r);
    return r->failed ? err_nomem(e, "input", json_array_size(items)) : GLIM_OK;
}

/* ---- tools and text ---- */

static glim_status read_tools(const json_t *from, json_t **out, struct glim_err *e)
{
    static const char *const kept[] = {"name", "description", "parameters"};
    struct reading r = {0};
    size_t i;
    json_t *tool;
    *out = json_array();
    r.failed = !*out;
    json_array_foreach(from, i, tool)
    {
        json_t *function = json_object();
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
            if (field_get(tool, kept[k]))
                set(&r, function, kept[k], json_incref(json_object_get(tool, kept[k])));
        append(&r, *out, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    return r.failed ? err_nomem(e, "tools", json_array_size(from)) : GLIM_OK;
}

static bool has_tool(const json_t *tools, const char *name)
{
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        if (is(tool, "name", name))
            return true;
    }
    return false;
}

static glim_status read_choice(struct call *c, struct job_chat *chat, struct glim_err *e)
{
    const json_t *choice = field_get(c->json, "tool_choice"), *tools = field_get(c->json, "tools");
    const char *word = json_string_value(choice);
    size_t n;
    chat->parallel = field_get_bool(c->json, "parallel_tool_calls", true);
    if (word && strcmp(word, "none") == 0)
        chat->choice = JOB_TOOLS_NONE;
    if (word && strcmp(word, "required") == 0)
        chat->choice = JOB_TOOLS_REQUIRED;
    if (json_is_object(choice)) {
        chat->choice = JOB_TOOLS_NAMED;
        chat->tool = field_get_text(choice, "name", &n);
    }
    if (chat->choice == JOB_TOOLS_REQUIRED && json_array_size(tools) == 0)
        err_set(e, GLIM_REFUSED, "tool_choice: have required and no tools, need some");
    else if (chat->tool && !has_tool(tools, chat->tool))
        err_set(e, GLIM_REFUSED, "tool_choice: have the function '%.64s', need one of the tools", chat->tool);
    else
        return GLIM_OK;
    return call_fail(c, 400, "tool_choice", "invalid_value", e);
}

static void read_format(const struct call *c, struct job_constraint *f)
{
    const json_t *format = field_get(field_get(c->json, "text"), "format");
    if (is(format, "type", "json_object"))
        f->format = JOB_FORMAT_JSON;
    if (is(format, "type", "json_schema")) {
        f->format = JOB_FORMAT_SCHEMA;
        f->schema = field_get(format, "schema");
    }
}

/* ---- all of it ---- */

glim_status responses_read(struct call *c, const json_t *items, struct responses_chat *own, struct glim_err *e)
{
    struct reading r = {.call = c, .out = json_array(), .names = json_object()};
    *own = (struct responses_chat){.messages = r.out};
    r.failed = !r.out || !r.names;
    glim_status st = read_items(&r, items, e);
    json_decref(r.answer);
    json_decref(r.names);
    TRY(st);
    TRY(read_tools(field_get(c->json, "tools"), &own->tools, e));
    TRY(read_choice(c, &own->chat, e));
    read_format(c, &own->chat.format);
    own->chat.messages = own->messages;
    own->chat.tools = own->tools;
    own->chat.messages_member = "input";
    own->chat.format_member = "text.format";
    own->chat.reasoning = openai_effort(json_string_value(field_get(field_get(c->json, "reasoning"), "effort")));
    return GLIM_OK;
}

void responses_chat_fini(struct responses_chat *own)
{
    json_decref(own->messages);
    json_decref(own->tools);
}
