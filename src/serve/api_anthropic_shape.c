/* The Anthropic API's shapes. As in openai_shape.c: what clients send and means nothing here is taken and said to have
 * no effect; what would change the answer and cannot be done is refused. */
#include "serve/api_anthropic.h"

#define IDLE       "Taken for clients that send it; has no effect."
#define CACHE_IDLE "Taken; the longest known prefix of a prompt is found without marks."
#define NO_IMAGES  "glim reads no images"
#define NO_FILES   "glim reads no files"
#define NO_TOOL    "the server runs no tools: describe it as a tool of your own"

/* ---- blocks of messages ---- */

static const struct field cache_fields[] = {
    {"type", FIELD_WORDS("ephemeral"), .required = true},
    {"ttl", .shape = FIELD_WORDS("5m", "1h")},
};
static const struct field_shape cache_control = {.name = "CacheControl", FIELD_MEMBERS(cache_fields)};

static const struct field text_fields[] = {
    {"type", FIELD_WORDS("text"), .required = true},
    {"text", &field_text, .required = true},
    {"cache_control", &cache_control, .nullable = true, .doc = CACHE_IDLE},
    {"citations", FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = &field_object), .nullable = true, .doc = IDLE},
};
static const struct field_shape text_block = {.name = "TextBlock", FIELD_MEMBERS(text_fields)};

static const struct field use_fields[] = {
    {"type", FIELD_WORDS("tool_use"), .required = true},
    {"id", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1), .required = true},
    {"name", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1), .required = true},
    {"input", &field_object, .required = true},
    {"caller", &field_object, .nullable = true, .doc = IDLE},
    {"toolset_name", &field_nothing, .doc = IDLE},
    {"cache_control", &cache_control, .nullable = true, .doc = CACHE_IDLE},
};
static const struct field thinking_fields[] = {
    {"type", FIELD_WORDS("thinking"), .required = true},
    {"thinking", &field_text, .required = true, .doc = "The template decides what comes of it."},
    {"signature", &field_text, .required = true, .doc = "Not looked at."},
};
static const struct field_variant result_parts[] = {
    {"text", .shape = &text_block},
    {"image", .refused = NO_IMAGES},
    {"document", .refused = NO_FILES},
    {"search_result", .refused = "send it as text"},
    {"tool_reference", .refused = "send all tools in tools"},
};
static const struct field result_fields[] = {
    {"type", FIELD_WORDS("tool_result"), .required = true},
    {"tool_use_id", &field_text, .required = true, .doc = "Of a tool_use block of an earlier message."},
    {"content",
     FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", result_parts))),
     .nullable = true},
    {"is_error", &field_bool, .nullable = true, .doc = "The model then reads `Error: ` before the content."},
    {"cache_control", &cache_control, .nullable = true, .doc = CACHE_IDLE},
};
static const struct field_variant user_blocks[] = {
    {"text", .shape = &text_block},
    {"tool_result", .shape = FIELD_SHAPE(.name = "ToolResultBlock", FIELD_MEMBERS(result_fields))},
    {"image", .refused = NO_IMAGES},
    {"document", .refused = NO_FILES},
    {"container_upload", .refused = NO_FILES},
    {"search_result", .refused = "send it as text"},
};
static const struct field_variant assistant_blocks[] = {
    {"text", .shape = &text_block},
    {"tool_use", .shape = FIELD_SHAPE(.name = "ToolUseBlock", FIELD_MEMBERS(use_fields))},
    {"thinking", .shape = FIELD_SHAPE(.name = "ThinkingBlock", FIELD_MEMBERS(thinking_fields))},
    {"redacted_thinking", .refused = "glim has no key to what others encrypted"},
    {"server_tool_use", .refused = NO_TOOL},
};
static const struct field user_message[] = {
    {"role", FIELD_WORDS("user"), .required = true},
    {"content",
     FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", user_blocks)),
                 .min_items = 1),
     .required = true},
};
static const struct field assistant_message[] = {
    {"role", FIELD_WORDS("assistant"), .required = true},
    {"content",
     FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", assistant_blocks))),
     .required = true},
};
static const struct field_variant roles[] = {
    {"user", .shape = FIELD_SHAPE(.name = "AnthropicUserMessage", FIELD_MEMBERS(user_message))},
    {"assistant", .shape = FIELD_SHAPE(.name = "AnthropicAssistantMessage", FIELD_MEMBERS(assistant_message))},
    {"system", .refused = "the request's system holds the system prompt"},
};

/* ---- tools ---- */

static const struct field tool_fields[] = {
    {"type", .shape = FIELD_WORDS("custom")},
    {"name", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1, .max_chars = 128), .required = true},
    {"description", &field_text, .nullable = true},
    {"input_schema", &field_object, .required = true, .doc = "A JSON Schema; calls always fit it."},
    {"strict", &field_bool, .nullable = true, .doc = "The schema is kept to in any case."},
    {"eager_input_streaming", &field_bool, .nullable = true, .doc = "Input is always streamed as it is written."},
    {"cache_control", &cache_control, .nullable = true, .doc = CACHE_IDLE},
    {"defer_loading", &field_any, .refused = "send only the tools that the model may see"},
    {"input_examples", &field_any, .refused = "put examples into the description"},
    {"allowed_callers", FIELD_LIST_OF(FIELD_WORDS("direct")), .nullable = true, .doc = "The model calls directly."},
};
static const struct field_shape tool_shape = {.name = "AnthropicTool", FIELD_MEMBERS(tool_fields)};
static const struct field_variant tool_types[] = {
    {"custom", .shape = &tool_shape},
    {"web_search_20250305", .refused = "glim searches no web"},
    {"web_search_20260209", .refused = "glim searches no web"},
    {"web_fetch_20250910", .refused = "glim reads no web pages"},
    {"code_execution_20250522", .refused = "glim runs no code"},
    {"code_execution_20250825", .refused = "glim runs no code"},
    {"bash_20250124", .refused = NO_TOOL},
    {"computer_20250124", .refused = NO_TOOL},
    {"computer_20251124", .refused = NO_TOOL},
    {"memory_20250818", .refused = NO_TOOL},
    {"text_editor_20250124", .refused = NO_TOOL},
    {"text_editor_20250429", .refused = NO_TOOL},
    {"text_editor_20250728", .refused = NO_TOOL},
    {"tool_search_tool_regex_20251119", .refused = NO_TOOL},
    {"tool_search_tool_bm25_20251119", .refused = NO_TOOL},
};

#define CHOICE_FIELDS(word)                                                                                            \
    {"type", FIELD_WORDS(word), .required = true},                                                                     \
    {                                                                                                                  \
        "disable_parallel_tool_use", &field_bool, .nullable = true, .doc = "At most one call an answer."               \
    }
static const struct field choice_auto[] = {CHOICE_FIELDS("auto")};
static const struct field choice_any[] = {CHOICE_FIELDS("any")};
static const struct field choice_none[] = {{"type", FIELD_WORDS("none"), .required = true}};
static const struct field choice_tool[] = {CHOICE_FIELDS("tool"), {"name", &field_text, .required = true}};
static const struct field_variant choices[] = {
    {"auto", .shape = FIELD_SHAPE(FIELD_MEMBERS(choice_auto))},
    {"any", .shape = FIELD_SHAPE(FIELD_MEMBERS(choice_any))},
    {"none", .shape = FIELD_SHAPE(FIELD_MEMBERS(choice_none))},
    {"tool", .shape = FIELD_SHAPE(FIELD_MEMBERS(choice_tool))},
};

/* ---- thinking and output ---- */

static const struct field thinking_on[] = {
    {"type", FIELD_WORDS("enabled"), .required = true},
    {"budget_tokens", FIELD_INT_IN(1, INT32_MAX), .required = true,
     .doc = "Less than max_tokens, which bounds thinking and answer together; the model itself decides how long it "
            "thinks."},
    {"display", FIELD_WORDS("summarized"), .nullable = true, .doc = "The thinking is returned as it is."},
};
static const struct field thinking_off[] = {{"type", FIELD_WORDS("disabled"), .required = true}};
static const struct field thinking_adaptive[] = {
    {"type", FIELD_WORDS("adaptive"), .required = true},
    {"display", FIELD_WORDS("summarized"), .nullable = true, .doc = "The thinking is returned as it is."},
};
static const struct field_variant thinking_types[] = {
    {"enabled", .shape = FIELD_SHAPE(FIELD_MEMBERS(thinking_on))},
    {"disabled", .shape = FIELD_SHAPE(FIELD_MEMBERS(thinking_off))},
    {"adaptive", .shape = FIELD_SHAPE(FIELD_MEMBERS(thinking_adaptive))},
    {"between_tools", .refused = "no template has such a switch"},
};
static const struct field format_fields[] = {
    {"type", FIELD_WORDS("json_schema"), .required = true},
    {"schema", &field_object, .required = true, .doc = "A JSON Schema that the answer's text fits."},
};
static const struct field output_fields[] = {
    {"format", FIELD_SHAPE(FIELD_MEMBERS(format_fields)), .nullable = true},
    {"effort", FIELD_WORDS("low", "medium", "high", "xhigh", "max"), .nullable = true,
     .doc = "How much the model thinks, where its template knows levels; xhigh and max are high."},
};

/* ---- requests ---- */

static const struct field prompt_fields[] = {
    {"model", &field_text, .nullable = true, .doc = "A name of the served model; absent: the one there is."},
    {"messages", FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("role", roles)), .min_items = 1),
     .required = true, .doc = "The last one is the user's: an answer that was begun is not gone on with."},
    {"system", FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY, .item = &text_block), .nullable = true},
    {"tools",
     FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", tool_types), .untagged = &tool_shape),
                 .max_items = 128),
     .nullable = true},
    {"tool_choice", FIELD_SHAPE(.name = "AnthropicToolChoice", FIELD_VARIANTS("type", choices)), .nullable = true},
    {"thinking", FIELD_SHAPE(.name = "Thinking", FIELD_VARIANTS("type", thinking_types)), .nullable = true,
     .doc = "Absent or adaptive: as the template has it."},
    {"output_config", FIELD_SHAPE(.name = "OutputConfig", FIELD_MEMBERS(output_fields)), .nullable = true},
    {"cache_control", &cache_control, .nullable = true, .doc = CACHE_IDLE},
    {"speed", FIELD_WORDS("standard"), .nullable = true, .doc = "There is one speed."},
    {"context_management", &field_any, .refused = "the client keeps its conversation short"},
    {"mcp_servers", &field_any, .refused = NO_TOOL},
};
static const struct field_shape prompt_shape = {FIELD_MEMBERS(prompt_fields), .also = &job_sampling_shape};

static const struct field request_fields[] = {
    {"max_tokens", FIELD_INT_IN(1, INT32_MAX), .required = true,
     .doc = "At most so many new tokens, thinking included."},
    {"stream", &field_bool, .nullable = true, .doc = "Send the answer in pieces as server-sent events."},
    {"temperature", FIELD_NUMBER_IN(0, 2), .nullable = true, .doc = "1 unless given; 0 takes the likeliest token."},
    {"top_p", FIELD_NUMBER_IN(0, 1), .nullable = true, .doc = "Draw from the likeliest tokens up to this mass."},
    {"stop_sequences",
     FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1),
                 .max_items = JOB_MAX_STOP),
     .nullable = true, .doc = "The answer ends before the first of these texts."},
    {"metadata", FIELD_SHAPE(.kinds = FIELD_OBJECT, .rest = &field_any), .nullable = true, .doc = IDLE},
    {"service_tier", FIELD_WORDS("auto", "standard_only"), .nullable = true, .doc = IDLE},
    {"inference_geo", &field_text, .nullable = true, .doc = IDLE},
    {"container", &field_any, .refused = "glim runs no code"},
};
const struct field_shape anthropic_request = {
    .name = "MessagesRequest", FIELD_MEMBERS(request_fields), .also = &prompt_shape};
const struct field_shape anthropic_count = {.name = "CountTokensRequest", FIELD_MEMBERS(prompt_fields)};

/* ---- replies ---- */

static const struct field count_reply[] = {{"input_tokens", &field_count, .required = true}};
const struct field_shape anthropic_count_reply = {.name = "CountTokensReply", FIELD_MEMBERS(count_reply)};

static const struct field output_details[] = {
    {"thinking_tokens", &field_count, .required = true, .doc = "Of the output tokens; markers are counted with them."}};
static const struct field usage_fields[] = {
    {"input_tokens", &field_count, .required = true,
     .doc = "Of the prompt, without those taken from the prefix cache."},
    {"cache_creation_input_tokens", &field_count, .required = true, .doc = "0: caching costs nothing."},
    {"cache_read_input_tokens", &field_count, .required = true,
     .doc = "Taken from the prefix cache; message_start does not know them yet and counts them as input_tokens."},
    {"output_tokens", &field_count, .required = true},
    {"output_tokens_details", .shape = FIELD_SHAPE(FIELD_MEMBERS(output_details))},
};
static const struct field_shape usage = {.name = "AnthropicUsage", FIELD_MEMBERS(usage_fields)};

static const struct field text_answer[] = {
    {"type", FIELD_WORDS("text"), .required = true},
    {"text", &field_text, .required = true},
    {"citations", &field_nothing, .required = true},
};
static const struct field thinking_answer[] = {
    {"type", FIELD_WORDS("thinking"), .required = true},
    {"thinking", &field_text, .required = true},
    {"signature", &field_text, .required = true, .doc = "The server's fingerprint; in content_block_start empty."},
};
static const struct field use_answer[] = {
    {"type", FIELD_WORDS("tool_use"), .required = true},
    {"id", &field_text, .required = true},
    {"name", &field_text, .required = true},
    {"input", &field_object, .required = true, .doc = "In content_block_start empty."},
};
static const struct field_variant answer_blocks[] = {
    {"text", .shape = FIELD_SHAPE(FIELD_MEMBERS(text_answer))},
    {"thinking", .shape = FIELD_SHAPE(FIELD_MEMBERS(thinking_answer))},
    {"tool_use", .shape = FIELD_SHAPE(FIELD_MEMBERS(use_answer))},
};
static const struct field_shape answer_block = {.name = "AnswerBlock", FIELD_VARIANTS("type", answer_blocks)};

#define STOP_FIELDS                                                                                                    \
    {"stop_reason",                                                                                                    \
     FIELD_WORDS("end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"),              \
     .required = true, .nullable = true},                                                                              \
    {                                                                                                                  \
        "stop_sequence", &field_text, .required = true, .nullable = true, .doc = "Which of the request's ended it."    \
    }
static const struct field message_fields[] = {
    {"id", &field_text, .required = true},
    {"type", FIELD_WORDS("message"), .required = true},
    {"role", FIELD_WORDS("assistant"), .required = true},
    {"model", &field_text, .required = true},
    {"content", FIELD_LIST_OF(&answer_block), .required = true,
     .doc = "A call that max_tokens or a stop sequence cut short is left out."},
    STOP_FIELDS,
    {"usage", &usage, .required = true},
};
const struct field_shape anthropic_reply = {.name = "MessagesReply", FIELD_MEMBERS(message_fields)};

static const struct field message_start[] = {
    {"type", FIELD_WORDS("message_start"), .required = true},
    {"message", &anthropic_reply, .required = true},
};
static const struct field block_start[] = {
    {"type", FIELD_WORDS("content_block_start"), .required = true},
    {"index", &field_count, .required = true},
    {"content_block", &answer_block, .required = true},
};
static const struct field text_delta[] = {{"type", FIELD_WORDS("text_delta"), .required = true},
                                          {"text", &field_text, .required = true}};
static const struct field thinking_delta[] = {{"type", FIELD_WORDS("thinking_delta"), .required = true},
                                              {"thinking", &field_text, .required = true}};
static const struct field signature_delta[] = {{"type", FIELD_WORDS("signature_delta"), .required = true},
                                               {"signature", &field_text, .required = true}};
static const struct field json_delta[] = {{"type", FIELD_WORDS("input_json_delta"), .required = true},
                                          {"partial_json", &field_text, .required = true}};
static const struct field_variant deltas[] = {
    {"text_delta", .shape = FIELD_SHAPE(FIELD_MEMBERS(text_delta))},
    {"thinking_delta", .shape = FIELD_SHAPE(FIELD_MEMBERS(thinking_delta))},
    {"signature_delta", .shape = FIELD_SHAPE(FIELD_MEMBERS(signature_delta))},
    {"input_json_delta", .shape = FIELD_SHAPE(FIELD_MEMBERS(json_delta))},
};
static const struct field block_delta[] = {
    {"type", FIELD_WORDS("content_block_delta"), .required = true},
    {"index", &field_count, .required = true},
    {"delta", FIELD_SHAPE(FIELD_VARIANTS("type", deltas)), .required = true},
};
static const struct field block_stop[] = {
    {"type", FIELD_WORDS("content_block_stop"), .required = true},
    {"index", &field_count, .required = true},
};
static const struct field stop_fields[] = {STOP_FIELDS};
static const struct field message_delta[] = {
    {"type", FIELD_WORDS("message_delta"), .required = true},
    {"delta", FIELD_SHAPE(FIELD_MEMBERS(stop_fields)), .required = true},
    {"usage", &usage, .required = true, .doc = "Of the whole answer."},
};
static const struct field message_stop[] = {{"type", FIELD_WORDS("message_stop"), .required = true}};
static const struct field ping[] = {{"type", FIELD_WORDS("ping"), .required = true}};
static const struct field error_fields[] = {{"type", &field_text, .required = true},
                                            {"message", &field_text, .required = true}};
static const struct field error_event[] = {
    {"type", FIELD_WORDS("error"), .required = true},
    {"error", FIELD_SHAPE(FIELD_MEMBERS(error_fields)), .required = true},
};
static const struct field_variant events[] = {
    {"message_start", .shape = FIELD_SHAPE(FIELD_MEMBERS(message_start))},
    {"content_block_start", .shape = FIELD_SHAPE(FIELD_MEMBERS(block_start))},
    {"content_block_delta", .shape = FIELD_SHAPE(FIELD_MEMBERS(block_delta))},
    {"content_block_stop", .shape = FIELD_SHAPE(FIELD_MEMBERS(block_stop))},
    {"message_delta", .shape = FIELD_SHAPE(FIELD_MEMBERS(message_delta))},
    {"message_stop", .shape = FIELD_SHAPE(FIELD_MEMBERS(message_stop))},
    {"ping", .shape = FIELD_SHAPE(FIELD_MEMBERS(ping))},
    {"error", .shape = FIELD_SHAPE(FIELD_MEMBERS(error_event))},
};
const struct field_shape anthropic_event = {.name = "MessagesEvent", FIELD_VARIANTS("type", events)};
