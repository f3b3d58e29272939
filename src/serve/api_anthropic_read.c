/* From an Anthropic request to a conversation in the form that job_chat takes.
 *
 * Anthropic's turns are lists of blocks, and messages of one role that follow each other are one turn. Here a turn
 * becomes one message of its role, with a blank line between what were several; a tool's result becomes a message of
 * its own, in the place it had among the blocks. */
#include "serve/api_anthropic.h"

#include <string.h>

struct reading {
    struct call *call;
    json_t *out;      /* the conversation so far, but for */
    json_t *user;     /* parts of a user's turn, */
    json_t *answer;   /* or an assistant's message */
    json_t *tool;     /* names of tools by the ids of their calls */
    char path[64];    /* of the block that is read */
    bool gap, failed; /* gap: another message of the same turn begins. failed: out of memory */
};

static void append(struct reading *r, json_t *list, json_t *item)
{
    r->failed |= json_array_append_new(list, item) != 0;
}

static void set(struct reading *r, json_t *object, const char *name, json_t *value)
{
    r->failed |= json_object_set_new(object, name, value) != 0;
}

static json_t *text_part(const char *text, size_t n)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", json_stringn(text, n));
}

static void add_text(struct reading *r, json_t *parts, const json_t *text)
{
    if (r->gap && json_array_size(parts))
        append(r, parts, text_part("\n\n", 2));
    r->gap = false;
    append(r, parts, text_part(json_string_value(text), json_string_length(text)));
}

/* ---- turns ---- */

static void end_user(struct reading *r)
{
    if (r->user)
        append(r, r->out, json_pack("{s:s, s:o}", "role", "user", "content", r->user));
    r->user = NULL;
}

static void end_answer(struct reading *r)
{
    if (r->answer)
        append(r, r->out, r->answer);
    r->answer = NULL;
}

static json_t *user_parts(struct reading *r)
{
    end_answer(r);
    if (!r->user)
        r->failed |= !(r->user = json_array());
    return r->user;
}

/* A member of the assistant's message, made where it is missing. */
static json_t *answer_list(struct reading *r, const char *name)
{
    end_user(r);
    if (!r->answer)
        r->failed |= !(r->answer = json_pack("{s:s, s:[]}", "role", "assistant", "content"));
    if (!json_object_get(r->answer, name))
        set(r, r->answer, name, json_array());
    return json_object_get(r->answer, name);
}

/* ---- blocks ---- */

static void read_thinking(struct reading *r, const json_t *block)
{
    const json_t *more = json_object_get(block, "thinking");
    answer_list(r, "content");
    const char *have = json_string_value(json_object_get(r->answer, "reasoning_content"));
    set(r, r->answer, "reasoning_content", json_sprintf("%s%s", have ? have : "", json_string_value(more)));
}

static void read_use(struct reading *r, const json_t *block)
{
    json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name");
    append(r, answer_list(r, "tool_calls"),
           json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function", "name", name, "arguments",
                     json_object_get(block, "input")));
    set(r, r->tool, json_string_value(id), json_incref(name));
}

static glim_status read_result(struct reading *r, const json_t *block, struct glim_err *e)
{
    const json_t *content = field_get(block, "content");
    json_t *id = json_object_get(block, "tool_use_id"), *name = json_object_get(r->tool, json_string_value(id));
    json_t *parts = json_array(), *part;
    size_t i;
    if (!name) {
        json_decref(parts);
        err_set(e, GLIM_REFUSED, "%s.tool_use_id: have '%.60s', need the id of an earlier tool_use block", r->path,
                json_string_value(id));
        return call_fail(r->call, 400, r->path, "invalid_value", e);
    }
    end_user(r);
    end_answer(r);
    r->gap = false;
    if (field_get_bool(block, "is_error", false))
        append(r, parts, text_part("Error: ", 7));
    if (json_is_string(content))
        add_text(r, parts, content);
    json_array_foreach(content, i, part) add_text(r, parts, json_object_get(part, "text"));
    append(r, r->out,
           json_pack("{s:s, s:O, s:O, s:o}", "role", "tool", "tool_call_id", id, "name", name, "content", parts));
    return GLIM_OK;
}

static glim_status read_block(struct reading *r, bool user, const json_t *block, struct glim_err *e)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    if (strcmp(type, "text") == 0)
        add_text(r, user ? user_parts(r) : answer_list(r, "content"), json_object_get(block, "text"));
    else if (strcmp(type, "tool_result") == 0)
        return read_result(r, block, e);
    else if (strcmp(type, "thinking") == 0)
        read_thinking(r, block);
    else if (strcmp(type, "tool_use") == 0)
        read_use(r, block);
    return GLIM_OK;
}

static glim_status read_message(struct reading *r, size_t at, const json_t *message, struct glim_err *e)
{
    bool user = strcmp(json_string_value(json_object_get(message, "role")), "user") == 0;
    const json_t *content = json_object_get(message, "content");
    size_t i;
    json_t *block;
    r->gap = true;
    if (json_is_string(content))
        add_text(r, user ? user_parts(r) : answer_list(r, "content"), content);
    json_array_foreach(content, i, block)
    {
        snprintf(r->path, sizeof r->path, "messages[%zu].content[%zu]", at, i);
        TRY(read_block(r, user, block, e));
    }
    return GLIM_OK;
}

static void read_system(struct reading *r)
{
    const json_t *system = field_get(r->call->json, "system");
    json_t *parts = json_array(), *block;
    size_t i;
    if (json_string_length(system))
        add_text(r, parts, system);
    json_array_foreach(system, i, block) add_text(r, parts, json_object_get(block, "text"));
    if (json_array_size(parts))
        append(r, r->out, json_pack("{s:s, s:O}", "role", "system", "content", parts));
    json_decref(parts);
}

static glim_status read_messages(struct reading *r, struct glim_err *e)
{
    const json_t *messages = field_get(r->call->json, "messages");
    size_t i, n = json_array_size(messages);
    json_t *message;
    read_system(r);
    json_array_foreach(messages, i, message)
    {
        TRY(read_message(r, i, message, e));
    }
    if (r->answer) {
        err_set(e, GLIM_REFUSED,
                "messages[%zu]: have an assistant's message at the end, need a user's: an answer that was begun is not "
                "gone on with",
                n - 1);
        return call_fail(r->call, 400, "messages", "invalid_value", e);
    }
    end_user(r);
    return r->failed ? err_nomem(e, "messages", n) : GLIM_OK;
}

/* ---- tools ---- */

static glim_status read_tools(const json_t *from, json_t **out, struct glim_err *e)
{
    size_t i;
    json_t *tool;
    *out = json_array();
    bool ok = *out != NULL;
    json_array_foreach(from, i, tool)
    {
        json_t *function = json_pack("{s:O, s:O}", "name", json_object_get(tool, "name"), "parameters",
                                     json_object_get(tool, "input_schema"));
        json_t *doc = json_object_get(tool, "description");
        ok = ok && (!json_is_string(doc) || json_object_set(function, "description", doc) == 0);
        json_t *whole = json_pack("{s:s, s:o}", "type", "function", "function", function);
        ok = json_array_append_new(*out, whole) == 0 && ok;
    }
    return ok ? GLIM_OK : err_nomem(e, "tools", json_array_size(from));
}

static bool has_tool(const json_t *tools, const char *name)
{
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        if (strcmp(json_string_value(json_object_get(tool, "name")), name) == 0)
            return true;
    }
    return false;
}

static glim_status read_choice(struct call *c, struct job_chat *chat, struct glim_err *e)
{
    const json_t *choice = field_get(c->json, "tool_choice"), *tools = field_get(c->json, "tools");
    size_t n;
    const char *type = field_get_text(choice, "type", &n);
    chat->parallel = !field_get_bool(choice, "disable_parallel_tool_use", false);
    if (!type)
        return GLIM_OK;
    if (strcmp(type, "none") == 0)
        chat->choice = JOB_TOOLS_NONE;
    if (strcmp(type, "any") == 0)
        chat->choice = JOB_TOOLS_REQUIRED;
    if (strcmp(type, "tool") == 0) {
        chat->choice = JOB_TOOLS_NAMED;
        chat->tool = field_get_text(choice, "name", &n);
    }
    if (chat->choice == JOB_TOOLS_REQUIRED && json_array_size(tools) == 0)
        err_set(e, GLIM_REFUSED, "tool_choice: have any and no tools, need some");
    else if (chat->tool && !has_tool(tools, chat->tool))
        err_set(e, GLIM_REFUSED, "tool_choice.name: have '%.64s', need one of the tools", chat->tool);
    else
        return GLIM_OK;
    return call_fail(c, 400, "tool_choice", "invalid_value", e);
}

/* ---- thinking ---- */

static enum chat_reasoning effort_of(const json_t *config)
{
    size_t n;
    const char *word = field_get_text(config, "effort", &n);
    if (!word)
        return CHAT_REASONING_DEFAULT;
    return strcmp(word, "low") == 0      ? CHAT_REASONING_LOW
           : strcmp(word, "medium") == 0 ? CHAT_REASONING_MEDIUM
                                         : CHAT_REASONING_HIGH;
}

/* A model that never thinks, or always, is asked for nothing when that is what the request wants; what the template
 * cannot do is for the chat to refuse. */
static enum chat_reasoning read_thinking_config(const struct call *c, const struct template_caps *caps)
{
    size_t n;
    const char *type = field_get_text(field_get(c->json, "thinking"), "type", &n);
    enum chat_reasoning effort = effort_of(field_get(c->json, "output_config"));
    bool always = !caps->switch_key && (caps->effort_key || caps->open);
    if (type && strcmp(type, "enabled") == 0 && !always)
        return CHAT_REASONING_ON;
    if (type && strcmp(type, "disabled") == 0)
        return caps->switch_key || always ? CHAT_REASONING_OFF : CHAT_REASONING_DEFAULT;
    return caps->effort_key ? effort : CHAT_REASONING_DEFAULT;
}

static void read_format(const struct call *c, struct job_constraint *f)
{
    const json_t *format = field_get(field_get(c->json, "output_config"), "format");
    if (!format)
        return;
    f->format = JOB_FORMAT_SCHEMA;
    f->schema = field_get(format, "schema");
}

/* ---- all of it ---- */

glim_status anthropic_read(struct call *c, struct anthropic_chat *a, struct glim_err *e)
{
    struct reading r = {.call = c, .out = json_array(), .tool = json_object()};
    const json_t *tools = field_get(c->json, "tools");
    *a = (struct anthropic_chat){.messages = r.out};
    r.failed = !r.out || !r.tool;
    glim_status st = read_messages(&r, e);
    json_decref(r.user);
    json_decref(r.answer);
    json_decref(r.tool);
    TRY(st);
    TRY(read_tools(tools, &a->tools, e));
    TRY(read_choice(c, &a->chat, e));
    a->chat.messages = a->messages;
    a->chat.tools = a->tools;
    a->chat.format_member = "output_config.format";
    read_format(c, &a->chat.format);
    if (c->server->chat)
        a->chat.reasoning = read_thinking_config(c, chat_caps(c->server->chat, json_array_size(tools) > 0));
    return GLIM_OK;
}

void anthropic_chat_fini(struct anthropic_chat *a)
{
    json_decref(a->messages);
    json_decref(a->tools);
}
