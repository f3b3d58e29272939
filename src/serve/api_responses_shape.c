/* The responses API's shapes. As in openai_shape.c: what clients send and means nothing here is taken and said to have
 * no effect; what would change the answer and cannot be done is refused. */
#include "serve/api_responses.h"
#include "serve/openai.h"

#define IDLE    "Taken for clients that send it; has no effect."
#define NO_TOOL "the server runs no tools: describe it as a function of your own"
#define OTHERS  "only messages, function calls, their outputs and reasoning can be input"

/* ---- items of the input ---- */

static const struct field input_text[] = {
    {"type", FIELD_WORDS("input_text"), .required = true},
    {"text", &field_text, .required = true},
};
static const struct field output_text[] = {
    {"type", FIELD_WORDS("output_text"), .required = true},
    {"text", &field_text, .required = true},
    {"annotations", FIELD_LIST_OF(&field_object), .nullable = true, .doc = IDLE},
    {"logprobs", FIELD_LIST_OF(&field_object), .nullable = true, .doc = IDLE},
};
static const struct field refusal[] = {
    {"type", FIELD_WORDS("refusal"), .required = true},
    {"refusal", &field_text, .required = true},
};
static const struct field_shape input_text_part = {.name = "InputText", FIELD_MEMBERS(input_text)};
static const struct field_variant parts[] = {
    {"input_text", .shape = &input_text_part},
    {"output_text", .shape = FIELD_SHAPE(.name = "InputOutputText", FIELD_MEMBERS(output_text))},
    {"refusal", .shape = FIELD_SHAPE(FIELD_MEMBERS(refusal))},
    {"input_image", .refused = "glim reads no images"},
    {"input_file", .refused = "glim reads no files"},
    {"input_audio", .refused = "glim hears no audio"},
};
#define ITEM_ID                                                                                                        \
    {                                                                                                                  \
        "id", &field_text, .nullable = true, .doc = "Made where it is missing."                                        \
    }
#define ITEM_STATUS                                                                                                    \
    {                                                                                                                  \
        "status", FIELD_WORDS("in_progress", "completed", "incomplete"), .nullable = true                              \
    }

static const struct field message_fields[] = {
    {"type", .shape = FIELD_WORDS("message")},
    {"role", FIELD_WORDS("user", "assistant", "system", "developer"), .required = true},
    {"content", FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", parts))),
     .required = true},
    ITEM_ID,
    ITEM_STATUS,
    {"phase", FIELD_WORDS("commentary", "final_answer"), .nullable = true, .doc = IDLE},
};
static const struct field call_fields[] = {
    {"type", FIELD_WORDS("function_call"), .required = true},
    {"call_id", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1), .required = true},
    {"name", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1), .required = true},
    {"arguments", &field_text, .required = true, .doc = "A JSON object as text."},
    ITEM_ID,
    {"status", FIELD_WORDS("in_progress", "completed", "incomplete"), .nullable = true,
     .doc = "What is incomplete was no call, and the model is not told of it."},
    {"namespace", &field_nothing, .doc = IDLE},
    {"async", &field_nothing, .doc = IDLE},
    {"caller", &field_object, .nullable = true, .doc = IDLE},
};
static const struct field_variant result_parts[] = {
    {"input_text", .shape = &input_text_part},
    {"input_image", .refused = "glim reads no images"},
    {"input_file", .refused = "glim reads no files"},
};
static const struct field result_fields[] = {
    {"type", FIELD_WORDS("function_call_output"), .required = true},
    {"call_id", &field_text, .required = true, .doc = "Of an earlier function_call."},
    {"output",
     FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", result_parts))),
     .required = true},
    ITEM_ID,
    ITEM_STATUS,
};
static const struct field summary_text[] = {{"type", FIELD_WORDS("summary_text"), .required = true},
                                            {"text", &field_text, .required = true}};
static const struct field reasoning_text[] = {{"type", FIELD_WORDS("reasoning_text"), .required = true},
                                              {"text", &field_text, .required = true}};
static const struct field_shape reasoning_part = {.name = "ReasoningText", FIELD_MEMBERS(reasoning_text)};
static const struct field reasoning_fields[] = {
    {"type", FIELD_WORDS("reasoning"), .required = true},
    {"summary", FIELD_LIST_OF(FIELD_SHAPE(FIELD_MEMBERS(summary_text))), .nullable = true,
     .doc = "Read where there is no content."},
    {"content", FIELD_LIST_OF(&reasoning_part), .nullable = true, .doc = "The template decides what comes of it."},
    {"encrypted_content", &field_any, .refused = "glim has no key to what others encrypted"},
    ITEM_ID,
    ITEM_STATUS,
};
static const struct field_shape message_item = {.name = "InputMessage", FIELD_MEMBERS(message_fields)};
static const struct field_variant items[] = {
    {"message", .shape = &message_item},
    {"function_call", .shape = FIELD_SHAPE(.name = "InputFunctionCall", FIELD_MEMBERS(call_fields))},
    {"function_call_output", .shape = FIELD_SHAPE(.name = "FunctionCallOutput", FIELD_MEMBERS(result_fields))},
    {"reasoning", .shape = FIELD_SHAPE(.name = "InputReasoning", FIELD_MEMBERS(reasoning_fields))},
    {"item_reference", .refused = "send the item itself, or previous_response_id"},
    {"file_search_call", .refused = OTHERS},
    {"web_search_call", .refused = OTHERS},
    {"computer_call", .refused = OTHERS},
    {"computer_call_output", .refused = OTHERS},
    {"image_generation_call", .refused = OTHERS},
    {"code_interpreter_call", .refused = OTHERS},
    {"local_shell_call", .refused = OTHERS},
    {"local_shell_call_output", .refused = OTHERS},
    {"shell_call", .refused = OTHERS},
    {"shell_call_output", .refused = OTHERS},
    {"apply_patch_call", .refused = OTHERS},
    {"apply_patch_call_output", .refused = OTHERS},
    {"mcp_list_tools", .refused = OTHERS},
    {"mcp_approval_request", .refused = OTHERS},
    {"mcp_approval_response", .refused = OTHERS},
    {"mcp_call", .refused = OTHERS},
    {"custom_tool_call", .refused = OTHERS},
    {"custom_tool_call_output", .refused = OTHERS},
    {"compaction", .refused = OTHERS},
};
static const struct field_shape input_item = {
    .name = "InputItem", FIELD_VARIANTS("type", items), .untagged = &message_item};
static const struct field_shape input_shape = {
    .kinds = FIELD_STRING | FIELD_ARRAY, .item = &input_item, .min_items = 1};

/* ---- tools, text, reasoning ---- */

static const struct field tool_fields[] = {
    {"type", FIELD_WORDS("function"), .required = true},
    {"name", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1, .max_chars = 64), .required = true},
    {"description", &field_text, .nullable = true},
    {"parameters", &field_object, .nullable = true, .doc = "A JSON Schema; calls always fit it."},
    {"strict", &field_bool, .nullable = true, .doc = "The schema is kept to in any case."},
    {"defer_loading", &field_any, .refused = "send only the tools that the model may see"},
    {"output_schema", &field_object, .nullable = true, .doc = IDLE},
    {"allowed_callers", FIELD_LIST_OF(FIELD_WORDS("direct")), .nullable = true, .doc = "The model calls directly."},
};
static const struct field_variant tools[] = {
    {"function", .shape = FIELD_SHAPE(.name = "FunctionTool", FIELD_MEMBERS(tool_fields))},
    {"web_search", .refused = "glim searches no web"},
    {"web_search_preview", .refused = "glim searches no web"},
    {"file_search", .refused = "glim keeps no files"},
    {"image_generation", .refused = "glim draws no images"},
    {"code_interpreter", .refused = "glim runs no code"},
    {"computer", .refused = NO_TOOL},
    {"computer_use_preview", .refused = NO_TOOL},
    {"local_shell", .refused = NO_TOOL},
    {"shell", .refused = NO_TOOL},
    {"apply_patch", .refused = NO_TOOL},
    {"mcp", .refused = NO_TOOL},
    {"namespace", .refused = "list its functions one by one"},
    {"tool_search", .refused = "send only the tools that the model may see"},
    {"custom", .refused = "only functions with JSON arguments can be called"},
};
static const struct field chosen[] = {
    {"type", FIELD_WORDS("function"), .required = true},
    {"name", &field_text, .required = true},
};
static const struct field_variant choices[] = {
    {"function", .shape = FIELD_SHAPE(FIELD_MEMBERS(chosen))},
    {"allowed_tools", .refused = "send only the tools that are allowed"},
    {"custom", .refused = "only functions with JSON arguments can be called"},
    {"mcp", .refused = NO_TOOL},
};
static const struct field_shape tool_choice = {.kinds = FIELD_STRING | FIELD_OBJECT,
                                               .words = (const char *const[]){"none", "auto", "required", NULL},
                                               .tag = "type",
                                               .variant = choices,
                                               .n_variant = sizeof choices / sizeof *choices};

static const struct field format_text[] = {{"type", FIELD_WORDS("text"), .required = true}};
static const struct field format_json[] = {{"type", FIELD_WORDS("json_object"), .required = true}};
static const struct field format_schema[] = {
    {"type", FIELD_WORDS("json_schema"), .required = true},
    {"name", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1, .max_chars = 64), .required = true},
    {"schema", &field_object, .required = true},
    {"description", &field_text, .nullable = true},
    {"strict", &field_bool, .nullable = true, .doc = "The schema is kept to in any case."},
};
static const struct field_variant formats[] = {
    {"text", .shape = FIELD_SHAPE(FIELD_MEMBERS(format_text))},
    {"json_object", .shape = FIELD_SHAPE(FIELD_MEMBERS(format_json))},
    {"json_schema", .shape = FIELD_SHAPE(FIELD_MEMBERS(format_schema))},
};
static const struct field text_fields[] = {
    {"format", FIELD_SHAPE(.name = "TextFormat", FIELD_VARIANTS("type", formats)), .nullable = true,
     .doc = "What the answer's text must be."},
    {"verbosity", FIELD_WORDS("low", "medium", "high"), .nullable = true, .doc = IDLE},
};
static const struct field effort_fields[] = {
    {"effort", FIELD_WORDS("none", "minimal", "low", "medium", "high", "xhigh", "max"), .nullable = true,
     .doc = "As the model's template allows; minimal is low, xhigh and max are high."},
    {"summary", FIELD_WORDS("auto", "concise", "detailed"), .nullable = true,
     .doc = "Taken, and there are no summaries: the reasoning itself is in the reasoning item's content."},
    {"generate_summary", FIELD_WORDS("auto", "concise", "detailed"), .nullable = true, .doc = "The older name."},
};

/* ---- requests ---- */

static const struct field prompt_fields[] = {
    {"model", &field_text, .nullable = true, .doc = "A name of the served model; absent: the one there is."},
    {"input", &input_shape, .required = true, .doc = "A user's text, or items."},
    {"instructions", &field_text, .nullable = true,
     .doc = "A system message before all others, of this response only."},
    {"previous_response_id", &field_text, .nullable = true, .doc = "A stored response that this one goes on from."},
    {"tools", FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", tools)), .max_items = 128),
     .nullable = true, .doc = "What the model may call."},
    {"tool_choice", &tool_choice, .nullable = true, .doc = "auto unless given. none: the model is told of no tools."},
    {"parallel_tool_calls", &field_bool, .nullable = true, .doc = "true unless given: several calls in one answer."},
    {"reasoning", FIELD_SHAPE(.name = "ReasoningConfig", FIELD_MEMBERS(effort_fields)), .nullable = true},
    {"text", FIELD_SHAPE(.name = "TextConfig", FIELD_MEMBERS(text_fields)), .nullable = true},
    {"truncation", FIELD_WORDS("disabled"), .nullable = true, .doc = "A prompt that is too long is refused."},
    {"conversation", &field_any, .refused = "previous_response_id continues a conversation"},
};
static const struct field_shape prompt_shape = {FIELD_MEMBERS(prompt_fields), .also = &job_sampling_shape};
const struct field_shape responses_count = {.name = "InputTokensRequest", FIELD_MEMBERS(prompt_fields)};

static const struct field option_fields[] = {{"include_obfuscation", &field_bool, .nullable = true, .doc = IDLE}};
static const struct field_shape metadata = {.kinds = FIELD_OBJECT,
                                            .rest = FIELD_SHAPE(.kinds = FIELD_STRING, .max_chars = 512)};
static const struct field request_fields[] = {
    {"stream", &field_bool, .nullable = true, .doc = "Send the response in pieces as server-sent events."},
    {"stream_options", FIELD_SHAPE(FIELD_MEMBERS(option_fields)), .nullable = true},
    {"store", &field_bool, .nullable = true, .doc = "true unless given: keep the response for later requests."},
    {"max_output_tokens", FIELD_INT_IN(1, INT32_MAX), .nullable = true,
     .doc = "At most so many new tokens, reasoning included; absent: as many as the context holds."},
    {"temperature", FIELD_NUMBER_IN(0, 2), .nullable = true, .doc = "1 unless given; 0 takes the likeliest token."},
    {"top_p", FIELD_NUMBER_IN(0, 1), .nullable = true, .doc = "Draw from the likeliest tokens up to this mass."},
    {"top_logprobs", FIELD_INT_IN(0, 20), .nullable = true, .doc = "Of so many likeliest tokens too; needs include."},
    {"include", FIELD_LIST_OF(FIELD_WORDS("message.output_text.logprobs", "reasoning.encrypted_content")),
     .nullable = true,
     .doc = "message.output_text.logprobs: log probabilities of the text's tokens. Reasoning is never encrypted."},
    {"metadata", &metadata, .nullable = true, .doc = "Comes back with the response."},
    {"background", &field_bool, .nullable = true, .doc = "false, or absent: a response ends with its request."},
    {"prompt", &field_any, .refused = "glim keeps no prompts"},
    {"context_management", &field_any, .refused = "the client keeps its conversation short"},
    {"moderation", &field_any, .refused = "glim has no classifier"},
    {"max_tool_calls", FIELD_INT_IN(1, INT32_MAX), .nullable = true,
     .doc = "Of the server's own tools, which it has not."},
    {"user", &field_text, .nullable = true, .doc = IDLE},
    {"safety_identifier", &field_text, .nullable = true, .doc = IDLE},
    {"service_tier", &field_text, .nullable = true, .doc = IDLE},
    {"prompt_cache_key", &field_text, .nullable = true, .doc = IDLE},
    {"prompt_cache_retention", &field_text, .nullable = true, .doc = IDLE},
    {"prompt_cache_options", &field_object, .nullable = true, .doc = IDLE},
};
const struct field_shape responses_request = {
    .name = "ResponsesRequest", FIELD_MEMBERS(request_fields), .also = &prompt_shape};

static const struct field query_fields[] = {
    {"limit", FIELD_INT_IN(1, 100), .doc = "How many; 20 unless given."},
    {"order", FIELD_WORDS("asc", "desc"), .doc = "desc unless given: the newest first."},
    {"after", &field_text, .doc = "The id of the item before the first."},
};
const struct field_shape responses_items_query = {
    .kinds = FIELD_OBJECT, .field = query_fields, .n_field = sizeof query_fields / sizeof *query_fields};

/* ---- replies ---- */

static const struct field input_details[] = {
    {"cached_tokens", &field_count, .required = true, .doc = "Taken from the prefix cache."},
    {"cache_write_tokens", &field_count, .required = true, .doc = "0: caching costs nothing."},
};
static const struct field output_details[] = {{"reasoning_tokens", &field_count, .required = true,
                                               .doc = "Of the output tokens; markers are counted with them."}};
static const struct field usage_fields[] = {
    {"input_tokens", &field_count, .required = true},
    {"input_tokens_details", FIELD_SHAPE(FIELD_MEMBERS(input_details)), .required = true},
    {"output_tokens", &field_count, .required = true},
    {"output_tokens_details", FIELD_SHAPE(FIELD_MEMBERS(output_details)), .required = true},
    {"total_tokens", &field_count, .required = true},
};

static const struct field answer_text[] = {
    {"type", FIELD_WORDS("output_text"), .required = true},
    {"text", &field_text, .required = true},
    {"annotations", FIELD_LIST_OF(&field_object), .required = true},
    {"logprobs", FIELD_LIST_OF(&openai_token_logprob), .required = true},
};
static const struct field_shape answer_part = {.name = "OutputText", FIELD_MEMBERS(answer_text)};
#define DONE_STATUS                                                                                                    \
    {                                                                                                                  \
        "status", FIELD_WORDS("in_progress", "completed", "incomplete"), .required = true                              \
    }
static const struct field answer_message[] = {
    {"id", &field_text, .required = true},
    {"type", FIELD_WORDS("message"), .required = true},
    DONE_STATUS,
    {"role", FIELD_WORDS("assistant"), .required = true},
    {"content", FIELD_LIST_OF(&answer_part), .required = true},
};
static const struct field answer_call[] = {
    {"id", &field_text, .required = true},
    {"type", FIELD_WORDS("function_call"), .required = true},
    DONE_STATUS,
    {"call_id", &field_text, .required = true},
    {"name", &field_text, .required = true},
    {"arguments", &field_text, .required = true, .doc = "A JSON object as text; its beginning where incomplete."},
};
static const struct field answer_reasoning[] = {
    {"id", &field_text, .required = true},
    {"type", FIELD_WORDS("reasoning"), .required = true},
    DONE_STATUS,
    {"summary", FIELD_LIST_OF(&field_object), .required = true, .doc = "Empty."},
    {"content", FIELD_LIST_OF(&reasoning_part), .required = true},
};
static const struct field_variant answer_items[] = {
    {"message", .shape = FIELD_SHAPE(.name = "OutputMessage", FIELD_MEMBERS(answer_message))},
    {"function_call", .shape = FIELD_SHAPE(.name = "OutputFunctionCall", FIELD_MEMBERS(answer_call))},
    {"reasoning", .shape = FIELD_SHAPE(.name = "OutputReasoning", FIELD_MEMBERS(answer_reasoning))},
};
static const struct field_shape answer_item = {.name = "OutputItem", FIELD_VARIANTS("type", answer_items)};

static const struct field failure[] = {
    {"code", FIELD_WORDS("server_error"), .required = true},
    {"message", &field_text, .required = true},
};
static const struct field incomplete[] = {{"reason", FIELD_WORDS("max_output_tokens"), .required = true}};
static const struct field_shape any_object = {.kinds = FIELD_OBJECT, .rest = &field_any};
static const struct field response_fields[] = {
    {"id", &field_text, .required = true},
    {"object", FIELD_WORDS("response"), .required = true},
    {"created_at", &field_count, .required = true},
    {"status", FIELD_WORDS("in_progress", "completed", "incomplete", "failed", "cancelled"), .required = true},
    {"completed_at", &field_count, .required = true, .nullable = true},
    {"background", &field_bool, .required = true},
    {"error", FIELD_SHAPE(.name = "ResponseError", FIELD_MEMBERS(failure)), .required = true, .nullable = true},
    {"incomplete_details", FIELD_SHAPE(FIELD_MEMBERS(incomplete)), .required = true, .nullable = true},
    {"model", &field_text, .required = true},
    {"output", FIELD_LIST_OF(&answer_item), .required = true},
    {"usage", FIELD_SHAPE(.name = "ResponseUsage", FIELD_MEMBERS(usage_fields)), .required = true, .nullable = true},
    {"store", &field_bool, .required = true, .doc = "Is it kept? false also where that failed."},
    {"system_fingerprint", &field_text, .required = true, .doc = "Changes with what may change an answer's bytes."},
    {"service_tier", FIELD_WORDS("default"), .required = true},
    {"truncation", FIELD_WORDS("disabled"), .required = true},
    {"previous_response_id", &field_text, .required = true, .nullable = true},
    {"instructions", &field_text, .required = true, .nullable = true},
    {"max_output_tokens", &field_count, .required = true, .nullable = true},
    {"max_tool_calls", &field_count, .required = true, .nullable = true},
    {"parallel_tool_calls", &field_bool, .required = true},
    {"reasoning", &any_object, .required = true},
    {"temperature", &field_number, .required = true},
    {"text", &any_object, .required = true},
    {"tool_choice", FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_OBJECT, .rest = &field_any), .required = true},
    {"tools", FIELD_LIST_OF(&any_object), .required = true},
    {"top_logprobs", &field_count, .required = true},
    {"top_p", &field_number, .required = true},
    {"metadata", &any_object, .required = true},
    {"user", &field_text, .required = true, .nullable = true},
    {"safety_identifier", &field_text, .required = true, .nullable = true},
    {"prompt_cache_key", &field_text, .required = true, .nullable = true},
};
const struct field_shape responses_reply = {.name = "Response", FIELD_MEMBERS(response_fields)};

static const struct field deleted[] = {
    {"id", &field_text, .required = true},
    {"object", FIELD_WORDS("response"), .required = true},
    {"deleted", &field_bool, .required = true},
};
const struct field_shape responses_deleted = {.name = "ResponseDeleted", FIELD_MEMBERS(deleted)};
static const struct field list_fields[] = {
    {"object", FIELD_WORDS("list"), .required = true},
    {"data", FIELD_LIST_OF(&input_item), .required = true},
    {"first_id", &field_text, .required = true, .nullable = true},
    {"last_id", &field_text, .required = true, .nullable = true},
    {"has_more", &field_bool, .required = true},
};
const struct field_shape responses_items = {.name = "ItemList", FIELD_MEMBERS(list_fields)};
static const struct field count_fields[] = {
    {"object", FIELD_WORDS("response.input_tokens"), .required = true},
    {"input_tokens", &field_count, .required = true},
};
const struct field_shape responses_count_reply = {.name = "InputTokensReply", FIELD_MEMBERS(count_fields)};

/* ---- events ---- */

#define EVENT(word)                                                                                                    \
    {"type", FIELD_WORDS(word), .required = true},                                                                     \
    {                                                                                                                  \
        "sequence_number", &field_count, .required = true                                                              \
    }
#define WHOLE_EVENT(name, word)                                                                                        \
    static const struct field name[] = {EVENT(word), {"response", &responses_reply, .required = true}}
#define OF_ITEM                                                                                                        \
    {"item_id", &field_text, .required = true},                                                                        \
    {                                                                                                                  \
        "output_index", &field_count, .required = true                                                                 \
    }
#define OF_PART                                                                                                        \
    OF_ITEM,                                                                                                           \
    {                                                                                                                  \
        "content_index", &field_count, .required = true                                                                \
    }
WHOLE_EVENT(created, "response.created");
WHOLE_EVENT(in_progress, "response.in_progress");
WHOLE_EVENT(completed, "response.completed");
WHOLE_EVENT(cut, "response.incomplete");
WHOLE_EVENT(failed, "response.failed");
static const struct field item_added[] = {EVENT("response.output_item.added"),
                                          {"output_index", &field_count, .required = true},
                                          {"item", &answer_item, .required = true}};
static const struct field item_done[] = {EVENT("response.output_item.done"),
                                         {"output_index", &field_count, .required = true},
                                         {"item", &answer_item, .required = true}};
static const struct field_variant part_variants[] = {
    {"output_text", .shape = &answer_part},
    {"reasoning_text", .shape = &reasoning_part},
};
static const struct field_shape part_shape = {.name = "OutputPart", FIELD_VARIANTS("type", part_variants)};
static const struct field part_added[] = {
    EVENT("response.content_part.added"), OF_PART, {"part", &part_shape, .required = true}};
static const struct field part_done[] = {
    EVENT("response.content_part.done"), OF_PART, {"part", &part_shape, .required = true}};
static const struct field text_delta[] = {EVENT("response.output_text.delta"),
                                          OF_PART,
                                          {"delta", &field_text, .required = true},
                                          {"logprobs", FIELD_LIST_OF(&openai_token_logprob), .required = true}};
static const struct field text_done[] = {EVENT("response.output_text.done"),
                                         OF_PART,
                                         {"text", &field_text, .required = true},
                                         {"logprobs", FIELD_LIST_OF(&openai_token_logprob), .required = true}};
static const struct field thought_delta[] = {
    EVENT("response.reasoning_text.delta"), OF_PART, {"delta", &field_text, .required = true}};
static const struct field thought_done[] = {
    EVENT("response.reasoning_text.done"), OF_PART, {"text", &field_text, .required = true}};
static const struct field arguments_delta[] = {
    EVENT("response.function_call_arguments.delta"), OF_ITEM, {"delta", &field_text, .required = true}};
static const struct field arguments_done[] = {EVENT("response.function_call_arguments.done"),
                                              OF_ITEM,
                                              {"name", &field_text, .required = true},
                                              {"arguments", &field_text, .required = true}};
#define VARIANT(word, list)                                                                                            \
    {                                                                                                                  \
        word, .shape = FIELD_SHAPE(FIELD_MEMBERS(list))                                                                \
    }
static const struct field_variant events[] = {
    VARIANT("response.created", created),
    VARIANT("response.in_progress", in_progress),
    VARIANT("response.output_item.added", item_added),
    VARIANT("response.content_part.added", part_added),
    VARIANT("response.output_text.delta", text_delta),
    VARIANT("response.output_text.done", text_done),
    VARIANT("response.reasoning_text.delta", thought_delta),
    VARIANT("response.reasoning_text.done", thought_done),
    VARIANT("response.content_part.done", part_done),
    VARIANT("response.function_call_arguments.delta", arguments_delta),
    VARIANT("response.function_call_arguments.done", arguments_done),
    VARIANT("response.output_item.done", item_done),
    VARIANT("response.completed", completed),
    VARIANT("response.incomplete", cut),
    VARIANT("response.failed", failed),
};
const struct field_shape responses_event = {.name = "ResponseEvent", FIELD_VARIANTS("type", events)};
