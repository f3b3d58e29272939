/* The OpenAI API's shapes. Members that clients of OpenAI send and that mean nothing here are taken and have no effect,
 * which their sentence says; what would change the answer and cannot be done is refused. */
#include "serve/openai.h"

#define NULLABLE_TEXT FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_NULL)
#define IDLE          "Taken for clients that send it; has no effect."

/* ---- messages ---- */

static const struct field text_part[] = {
    {"type", FIELD_WORDS("text"), .required = true},
    {"text", &field_text, .required = true},
};
static const struct field refusal_part[] = {
    {"type", FIELD_WORDS("refusal"), .required = true},
    {"refusal", &field_text, .required = true},
};
static const struct field_variant text_parts[] = {
    {"text", .shape = FIELD_SHAPE(FIELD_MEMBERS(text_part))},
    {"image_url", .refused = "glim reads no images"},
    {"input_audio", .refused = "glim hears no audio"},
    {"file", .refused = "glim reads no files"},
};
static const struct field_variant answer_parts[] = {
    {"text", .shape = FIELD_SHAPE(FIELD_MEMBERS(text_part))},
    {"refusal", .shape = FIELD_SHAPE(FIELD_MEMBERS(refusal_part))},
};
static const struct field_shape content = {
    .kinds = FIELD_STRING | FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", text_parts)), .min_items = 1};
static const struct field_shape answer_content = {
    .kinds = FIELD_STRING | FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", answer_parts)), .min_items = 1};

static const struct field called[] = {
    {"name", &field_text, .required = true},
    {"arguments", &field_text, .required = true, .doc = "A JSON object as text."},
};
static const struct field call[] = {
    {"id", &field_text, .required = true},
    {"type", FIELD_WORDS("function"), .required = true},
    {"function", FIELD_SHAPE(FIELD_MEMBERS(called)), .required = true},
    {"index", &field_count, .doc = IDLE},
};
static const struct field_shape calls = {.kinds = FIELD_ARRAY,
                                         .item = FIELD_SHAPE(.name = "ToolCall", FIELD_MEMBERS(call))};

static const struct field system_message[] = {
    {"role", FIELD_WORDS("system", "developer"), .required = true},
    {"content", &content, .required = true},
    {"name", &field_text, .nullable = true},
};
static const struct field user_message[] = {
    {"role", FIELD_WORDS("user"), .required = true},
    {"content", &content, .required = true},
    {"name", &field_text, .nullable = true},
};
static const struct field assistant_message[] = {
    {"role", FIELD_WORDS("assistant"), .required = true},
    {"content", &answer_content, .nullable = true},
    {"reasoning_content", &field_text, .nullable = true,
     .doc = "What it thought; the template decides what comes of it."},
    {"tool_calls", &calls, .nullable = true},
    {"name", &field_text, .nullable = true},
    {"refusal", &field_text, .nullable = true},
    {"annotations", FIELD_LIST_OF(&field_any), .nullable = true, .doc = IDLE},
    {"audio", &field_any, .refused = "glim hears no audio"},
    {"function_call", &field_any, .refused = "tool_calls took its place"},
};
static const struct field tool_message[] = {
    {"role", FIELD_WORDS("tool"), .required = true},
    {"content", &content, .required = true},
    {"tool_call_id", &field_text, .required = true},
    {"name", &field_text, .nullable = true},
};
static const struct field_shape system_shape = {.name = "SystemMessage", FIELD_MEMBERS(system_message)};
static const struct field_variant roles[] = {
    {"system", .shape = &system_shape},
    {"developer", .shape = &system_shape},
    {"user", .shape = FIELD_SHAPE(.name = "UserMessage", FIELD_MEMBERS(user_message))},
    {"assistant", .shape = FIELD_SHAPE(.name = "AssistantMessage", FIELD_MEMBERS(assistant_message))},
    {"tool", .shape = FIELD_SHAPE(.name = "ToolMessage", FIELD_MEMBERS(tool_message))},
    {"function", .refused = "the role tool took its place"},
};

/* ---- tools and formats ---- */

static const struct field function[] = {
    {"name", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1, .max_chars = 64), .required = true},
    {"description", &field_text, .nullable = true},
    {"parameters", &field_object, .nullable = true, .doc = "A JSON Schema; calls always fit it."},
    {"strict", &field_bool, .nullable = true, .doc = IDLE},
};
static const struct field tool[] = {
    {"type", FIELD_WORDS("function"), .required = true},
    {"function", FIELD_SHAPE(FIELD_MEMBERS(function)), .required = true},
};
static const struct field_variant tools[] = {
    {"function", .shape = FIELD_SHAPE(.name = "Tool", FIELD_MEMBERS(tool))},
    {"custom", .refused = "only functions with JSON arguments can be called"},
};
static const struct field chosen_name[] = {{"name", &field_text, .required = true}};
static const struct field chosen[] = {
    {"type", FIELD_WORDS("function"), .required = true},
    {"function", FIELD_SHAPE(FIELD_MEMBERS(chosen_name)), .required = true},
};
static const struct field_variant choices[] = {
    {"function", .shape = FIELD_SHAPE(FIELD_MEMBERS(chosen))},
    {"allowed_tools", .refused = "send only the tools that are allowed"},
    {"custom", .refused = "only functions with JSON arguments can be called"},
};
static const struct field_shape tool_choice = {.kinds = FIELD_STRING | FIELD_OBJECT,
                                               .words = (const char *const[]){"none", "auto", "required", NULL},
                                               .tag = "type",
                                               .variant = choices,
                                               .n_variant = sizeof choices / sizeof *choices};

static const struct field schema_spec[] = {
    {"name", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1, .max_chars = 64), .required = true},
    {"description", &field_text, .nullable = true},
    {"schema", &field_object, .nullable = true, .doc = "Absent: any object."},
    {"strict", &field_bool, .nullable = true, .doc = "The schema is kept to in any case."},
};
static const struct field format_text[] = {{"type", FIELD_WORDS("text"), .required = true}};
static const struct field format_json[] = {{"type", FIELD_WORDS("json_object"), .required = true}};
static const struct field format_schema[] = {
    {"type", FIELD_WORDS("json_schema"), .required = true},
    {"json_schema", FIELD_SHAPE(FIELD_MEMBERS(schema_spec)), .required = true},
};
static const struct field_variant formats[] = {
    {"text", .shape = FIELD_SHAPE(FIELD_MEMBERS(format_text))},
    {"json_object", .shape = FIELD_SHAPE(FIELD_MEMBERS(format_json))},
    {"json_schema", .shape = FIELD_SHAPE(FIELD_MEMBERS(format_schema))},
};
static const struct field_shape response_format = {.name = "ResponseFormat", FIELD_VARIANTS("type", formats)};

/* ---- members that several requests have ---- */

static const struct field stream_option[] = {
    {"include_usage", &field_bool, .nullable = true, .doc = "A last chunk with the usage, and null in the others."},
    {"include_obfuscation", &field_bool, .nullable = true, .doc = IDLE},
};
static const struct field common_fields[] = {
    {"model", &field_text, .nullable = true, .doc = "A name of the served model; absent: the one there is."},
    {"stream", &field_bool, .nullable = true, .doc = "Send the answer in pieces as server-sent events."},
    {"stream_options", FIELD_SHAPE(FIELD_MEMBERS(stream_option)), .nullable = true},
    {"n", FIELD_INT_IN(1, JOB_MAX_ANSWERS), .nullable = true,
     .doc = "Answers to the prompt; answer i draws with seed + i."},
    {"temperature", FIELD_NUMBER_IN(0, 2), .nullable = true, .doc = "1 unless given; 0 takes the likeliest token."},
    {"top_p", FIELD_NUMBER_IN(0, 1), .nullable = true, .doc = "Draw from the likeliest tokens up to this mass."},
    {"presence_penalty", FIELD_NUMBER_IN(-2, 2), .nullable = true,
     .doc = "Taken off the logits of tokens seen before."},
    {"frequency_penalty", FIELD_NUMBER_IN(-2, 2), .nullable = true, .doc = "The same for each time a token was seen."},
    {"response_format", &response_format, .nullable = true, .doc = "What the answer must be."},
    {"grammar", &field_text, .nullable = true, .doc = "GBNF that the answer is a sentence of."},
    {"json_schema", &field_object, .nullable = true, .doc = "A JSON Schema that the answer is valid under."},
    {"user", &field_text, .nullable = true, .doc = IDLE},
};
static const struct field_shape common = {FIELD_MEMBERS(common_fields), .also = &job_sampling_shape};

/* ---- chat/completions ---- */

static const struct field prediction[] = {
    {"type", FIELD_WORDS("content"), .required = true},
    {"content", &content, .required = true},
};
static const struct field chat_fields[] = {
    {"messages",
     FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = FIELD_SHAPE(.name = "Message", FIELD_VARIANTS("role", roles)),
                 .min_items = 1),
     .required = true, .doc = "The conversation so far."},
    {"max_completion_tokens", FIELD_INT_IN(1, INT32_MAX), .nullable = true,
     .doc = "At most so many new tokens; absent: as many as the context holds."},
    {"max_tokens", FIELD_INT_IN(1, INT32_MAX), .nullable = true, .doc = "The older name of max_completion_tokens."},
    {"tools", FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_VARIANTS("type", tools)), .max_items = 128),
     .nullable = true, .doc = "What the model may call."},
    {"tool_choice", &tool_choice, .nullable = true, .doc = "auto unless given. none: the model is told of no tools."},
    {"parallel_tool_calls", &field_bool, .nullable = true, .doc = "true unless given: several calls in one answer."},
    {"reasoning_effort", FIELD_WORDS("none", "minimal", "low", "medium", "high", "xhigh"), .nullable = true,
     .doc = "As the model's template allows; minimal is low, xhigh is high."},
    {"logprobs", &field_bool, .nullable = true,
     .doc = "Log probabilities of all tokens of the answer, markers included."},
    {"top_logprobs", FIELD_INT_IN(0, 20), .nullable = true, .doc = "And of the likeliest at each place."},
    {"prediction", FIELD_SHAPE(FIELD_MEMBERS(prediction)), .nullable = true,
     .doc = "Checked; drafting looks at the conversation alone, so it has no effect."},
    {"chat_template_kwargs", &field_object, .nullable = true, .doc = "Further variables of the chat template."},
    {"add_generation_prompt", &field_bool, .nullable = true, .doc = "false: the prompt ends with the last message."},
    {"metadata", &field_object, .nullable = true, .doc = IDLE},
    {"store", &field_bool, .nullable = true, .doc = IDLE " Nothing is stored."},
    {"service_tier", &field_text, .nullable = true, .doc = IDLE},
    {"safety_identifier", &field_text, .nullable = true, .doc = IDLE},
    {"prompt_cache_key", &field_text, .nullable = true, .doc = IDLE},
    {"prompt_cache_retention", &field_text, .nullable = true, .doc = IDLE},
    {"verbosity", FIELD_WORDS("low", "medium", "high"), .nullable = true, .doc = IDLE},
    {"modalities", FIELD_LIST_OF(FIELD_WORDS("text")), .nullable = true, .doc = "Text is all there is."},
    {"audio", &field_any, .refused = "glim speaks no audio"},
    {"web_search_options", &field_any, .refused = "glim searches no web"},
    {"functions", &field_any, .refused = "tools took its place"},
    {"function_call", &field_any, .refused = "tool_choice took its place"},
};
const struct field_shape openai_chat = {.name = "ChatRequest", FIELD_MEMBERS(chat_fields), .also = &common};

/* ---- completions ---- */

static const struct field completion_fields[] = {
    {"prompt", &job_prompt_shape, .required = true,
     .doc = "A text, in which <|im_start|> and the like are control tokens; token ids; or a list of either."},
    {"max_tokens", FIELD_INT_IN(0, INT32_MAX), .nullable = true, .doc = "At most so many new tokens; 16 unless given."},
    {"echo", &field_bool, .nullable = true, .doc = "Begin the text with the prompt."},
    {"logprobs", FIELD_INT_IN(0, 20), .nullable = true,
     .doc = "Log probabilities of the tokens, with echo the prompt's too, and of so many likeliest."},
    {"best_of", FIELD_INT_IN(1, JOB_MAX_ANSWERS), .nullable = true, .doc = "The same as n, or absent."},
    {"suffix", &field_text, .refused = "text before a suffix is not generated here"},
};
const struct field_shape openai_completion = {
    .name = "CompletionRequest", FIELD_MEMBERS(completion_fields), .also = &common};

/* ---- embeddings ---- */

static const struct field embedding_fields[] = {
    {"input", &job_prompt_shape, .required = true, .doc = "A text, token ids, or a list of either."},
    {"model", &field_text, .nullable = true, .doc = "A name of the served model; absent: the one there is."},
    {"encoding_format", FIELD_WORDS("float", "base64"), .nullable = true,
     .doc = "base64: the vector's little-endian 32-bit floats."},
    {"dimensions", FIELD_INT_IN(1, INT32_MAX), .nullable = true, .doc = "The model's width, or absent."},
    {"user", &field_text, .nullable = true, .doc = IDLE},
};
const struct field_shape openai_embeddings = {.name = "EmbeddingsRequest", FIELD_MEMBERS(embedding_fields)};

/* ---- replies ---- */

static const struct field cached[] = {
    {"cached_tokens", &field_count, .required = true, .doc = "Taken from the prefix cache."}};
static const struct field usage_fields[] = {
    {"prompt_tokens", &field_count, .required = true},
    {"completion_tokens", &field_count, .required = true},
    {"total_tokens", &field_count, .required = true},
    {"prompt_tokens_details", FIELD_SHAPE(FIELD_MEMBERS(cached)), .required = true},
};
static const struct field_shape usage = {.name = "Usage", FIELD_MEMBERS(usage_fields)};

static const struct field likely[] = {
    {"token", &field_text, .required = true, .doc = "Invalid UTF-8 shows as U+FFFD."},
    {"logprob", &field_number, .required = true,
     .doc = "Of the model's own distribution; -9999 where it is impossible."},
    {"bytes", FIELD_LIST_OF(&field_count), .required = true},
};
static const struct field token_fields[] = {
    {"token", &field_text, .required = true},
    {"logprob", &field_number, .required = true},
    {"bytes", FIELD_LIST_OF(&field_count), .required = true},
    {"top_logprobs", FIELD_LIST_OF(FIELD_SHAPE(.name = "TopLogprob", FIELD_MEMBERS(likely))), .required = true},
};
const struct field_shape openai_token_logprob = {.name = "TokenLogprob", FIELD_MEMBERS(token_fields)};
static const struct field chat_logprob_fields[] = {
    {"content", FIELD_LIST_OF(&openai_token_logprob), .required = true},
    {"refusal", &field_nothing, .required = true},
};
static const struct field_shape chat_logprobs = {.name = "ChatLogprobs", FIELD_MEMBERS(chat_logprob_fields)};
#define CHAT_FINISH FIELD_WORDS("stop", "length", "tool_calls")

static const struct field message_fields[] = {
    {"role", FIELD_WORDS("assistant"), .required = true},
    {"content", NULLABLE_TEXT, .required = true, .doc = "null where there are calls and no text."},
    {"refusal", &field_nothing, .required = true},
    {"reasoning_content", &field_text, .doc = "What the model thought, where it did."},
    {"tool_calls", .shape = &calls},
};
static const struct field chat_choice[] = {
    {"index", &field_count, .required = true},
    {"message", FIELD_SHAPE(.name = "AnswerMessage", FIELD_MEMBERS(message_fields)), .required = true},
    {"logprobs", &chat_logprobs, .required = true, .nullable = true},
    {"finish_reason", CHAT_FINISH, .required = true},
};
#define REPLY_HEAD(word)                                                                                               \
    {"id", &field_text, .required = true}, {"object", FIELD_WORDS(word), .required = true},                            \
        {"created", &field_count, .required = true}, {"model", &field_text, .required = true},                         \
    {                                                                                                                  \
        "system_fingerprint", &field_text, .required = true, .doc = "Changes with what may change an answer's bytes."  \
    }
static const struct field chat_reply[] = {
    REPLY_HEAD("chat.completion"),
    {"choices", FIELD_LIST_OF(FIELD_SHAPE(.name = "ChatChoice", FIELD_MEMBERS(chat_choice))), .required = true},
    {"usage", &usage, .required = true},
};
const struct field_shape openai_chat_reply = {.name = "ChatReply", FIELD_MEMBERS(chat_reply)};

static const struct field called_delta[] = {{"name", .shape = &field_text},
                                            {"arguments", &field_text, .required = true}};
static const struct field call_delta[] = {
    {"index", &field_count, .required = true},
    {"id", .shape = &field_text},
    {"type", .shape = FIELD_WORDS("function")},
    {"function", FIELD_SHAPE(FIELD_MEMBERS(called_delta)), .required = true},
};
static const struct field delta_fields[] = {
    {"role", .shape = FIELD_WORDS("assistant")},
    {"content", .shape = &field_text},
    {"reasoning_content", .shape = &field_text},
    {"tool_calls", .shape = FIELD_LIST_OF(FIELD_SHAPE(.name = "ToolCallDelta", FIELD_MEMBERS(call_delta)))},
};
static const struct field chunk_choice[] = {
    {"index", &field_count, .required = true},
    {"delta", FIELD_SHAPE(.name = "Delta", FIELD_MEMBERS(delta_fields)), .required = true},
    {"logprobs", &chat_logprobs, .required = true, .nullable = true},
    {"finish_reason", CHAT_FINISH, .required = true, .nullable = true},
};
static const struct field chunk[] = {
    REPLY_HEAD("chat.completion.chunk"),
    {"choices", FIELD_LIST_OF(FIELD_SHAPE(.name = "ChunkChoice", FIELD_MEMBERS(chunk_choice))), .required = true},
    {"usage", &usage, .nullable = true},
};
const struct field_shape openai_chat_chunk = {.name = "ChatChunk", FIELD_MEMBERS(chunk)};

static const struct field_shape maybe_number = {.kinds = FIELD_NUMBER | FIELD_NULL};
static const struct field_shape tops = {.kinds = FIELD_OBJECT | FIELD_NULL, .rest = &field_number};
static const struct field logprob_lists[] = {
    {"tokens", FIELD_LIST_OF(&field_text), .required = true, .doc = "What is no UTF-8 shows as bytes:\\\\xff."},
    {"token_logprobs", FIELD_LIST_OF(&maybe_number), .required = true, .doc = "null for the first token of a prompt."},
    {"top_logprobs", FIELD_LIST_OF(&tops), .required = true},
    {"text_offset", FIELD_LIST_OF(&field_count), .required = true, .doc = "Characters before the token."},
};
static const struct field completion_choice[] = {
    {"index", &field_count, .required = true},
    {"text", &field_text, .required = true},
    {"logprobs", FIELD_SHAPE(.name = "CompletionLogprobs", FIELD_MEMBERS(logprob_lists)), .required = true,
     .nullable = true},
    {"finish_reason", FIELD_WORDS("stop", "length"), .required = true, .nullable = true,
     .doc = "null in all chunks but the last."},
};
static const struct field completion_reply[] = {
    REPLY_HEAD("text_completion"),
    {"choices", FIELD_LIST_OF(FIELD_SHAPE(.name = "CompletionChoice", FIELD_MEMBERS(completion_choice))),
     .required = true},
    {"usage", &usage, .nullable = true},
};
const struct field_shape openai_completion_reply = {.name = "CompletionReply", FIELD_MEMBERS(completion_reply)};

static const struct field embedding[] = {
    {"object", FIELD_WORDS("embedding"), .required = true},
    {"index", &field_count, .required = true},
    {"embedding", FIELD_SHAPE(.kinds = FIELD_ARRAY | FIELD_STRING, .item = &field_number), .required = true,
     .doc = "Of length 1."},
};
static const struct field embedding_usage[] = {
    {"prompt_tokens", &field_count, .required = true},
    {"total_tokens", &field_count, .required = true},
};
static const struct field embeddings_reply[] = {
    {"object", FIELD_WORDS("list"), .required = true},
    {"data", FIELD_LIST_OF(FIELD_SHAPE(.name = "Embedding", FIELD_MEMBERS(embedding))), .required = true},
    {"model", &field_text, .required = true},
    {"usage", FIELD_SHAPE(FIELD_MEMBERS(embedding_usage)), .required = true},
};
const struct field_shape openai_embeddings_reply = {.name = "EmbeddingsReply", FIELD_MEMBERS(embeddings_reply)};

static const struct field model[] = {
    {"id", &field_text, .required = true},
    {"object", FIELD_WORDS("model"), .required = true},
    {"created", &field_count, .required = true, .doc = "When this server started."},
    {"owned_by", &field_text, .required = true},
    {"max_model_len", &field_count, .required = true, .doc = "Tokens that a prompt and its answer may have together."},
    {"architecture", &field_text, .required = true},
    {"n_params", &field_count, .required = true},
};
const struct field_shape openai_model_reply = {.name = "Model", FIELD_MEMBERS(model)};
static const struct field models_reply[] = {
    {"object", FIELD_WORDS("list"), .required = true},
    {"data", FIELD_LIST_OF(&openai_model_reply), .required = true},
};
const struct field_shape openai_models_reply = {.name = "ModelList", FIELD_MEMBERS(models_reply)};
