/* Ollama's shapes. */
#include "serve/api_ollama.h"

#define IDLE "Taken for clients that send it; has no effect."

/* ---- what requests share ---- */

static const struct field option_fields[] = {
    {"temperature", FIELD_NUMBER_IN(0, 100), .nullable = true, .doc = "0.8 unless given; 0 takes the likeliest token."},
    {"top_p", FIELD_NUMBER_IN(0, 1), .nullable = true, .doc = "0.9 unless given; top_k is 40 then."},
    {"presence_penalty", FIELD_NUMBER_IN(-100, 100), .nullable = true,
     .doc = "Taken off the logits of tokens seen before."},
    {"frequency_penalty", FIELD_NUMBER_IN(-100, 100), .nullable = true,
     .doc = "The same for each time a token was seen."},
    {"num_predict", FIELD_INT_IN(-2, INT32_MAX), .nullable = true,
     .doc = "At most so many new tokens; below 1, or absent: as many as the context holds."},
    {"num_ctx", FIELD_INT_IN(1, INT32_MAX), .nullable = true,
     .doc = "Refused above the server's context; below it there is no effect."},
    {"mirostat", FIELD_INT_IN(0, 0), .nullable = true, .doc = "There is no such sampler: only 0 is taken."},
    {"tfs_z", FIELD_NUMBER_IN(1, 1), .nullable = true, .doc = "There is no such sampler: only 1 is taken."},
    {"mirostat_tau", &field_number, .nullable = true, .doc = IDLE},
    {"mirostat_eta", &field_number, .nullable = true, .doc = IDLE},
    {"num_keep", &field_int, .nullable = true, .doc = "No effect: a context is never shifted."},
    {"penalize_newline", &field_bool, .nullable = true, .doc = IDLE},
    {"draft_num_predict", &field_int, .nullable = true, .doc = IDLE},
    {"num_batch", &field_int, .nullable = true, .doc = IDLE},
    {"num_gpu", &field_int, .nullable = true, .doc = IDLE},
    {"main_gpu", &field_int, .nullable = true, .doc = IDLE},
    {"num_thread", &field_int, .nullable = true, .doc = IDLE},
    {"use_mmap", &field_bool, .nullable = true, .doc = IDLE},
    {"use_mlock", &field_bool, .nullable = true, .doc = IDLE},
    {"numa", &field_bool, .nullable = true, .doc = IDLE},
    {"low_vram", &field_bool, .nullable = true, .doc = IDLE},
    {"f16_kv", &field_bool, .nullable = true, .doc = IDLE},
};
static const struct field_shape options = {
    .name = "OllamaOptions", FIELD_MEMBERS(option_fields), .also = &job_sampling_shape};

static const struct field_shape think = {.kinds = FIELD_BOOL | FIELD_STRING,
                                         .words = (const char *const[]){"low", "medium", "high", "max", NULL}};
/* "json", a JSON Schema, or "" for none. */
static const struct field_shape format = {
    .kinds = FIELD_STRING | FIELD_OBJECT, .words = (const char *const[]){"json", "", NULL}, .rest = &field_any};
static const struct field_shape keep_alive = {.kinds = FIELD_STRING | FIELD_NUMBER};

static const struct field common_fields[] = {
    {"model", &field_text, .required = true, .doc = "A name of the served model; \":latest\" may follow it."},
    {"stream", &field_bool, .nullable = true, .doc = "true unless given: a line of JSON for each piece."},
    {"format", &format, .nullable = true, .doc = "\"json\", or a JSON Schema: what the answer must be."},
    {"options", &options, .nullable = true},
    {"think", &think, .nullable = true,
     .doc = "Reason, or not, or how much, where the model's template can say it; max is high."},
    {"keep_alive", &keep_alive, .nullable = true, .doc = "No effect: the model stays."},
    {"logprobs", &field_bool, .nullable = true, .doc = "Log probabilities of the answer's tokens."},
    {"top_logprobs", FIELD_INT_IN(0, 20), .nullable = true, .doc = "And of the likeliest at each place."},
    {"truncate", &field_bool, .nullable = true, .doc = "No effect: a prompt that is too long is refused."},
    {"shift", &field_bool, .nullable = true, .doc = "No effect: an answer ends where the context does."},
};
static const struct field_shape common = {FIELD_MEMBERS(common_fields)};

/* ---- chat ---- */

static const struct field called[] = {
    {"name", &field_text, .required = true},
    {"arguments", &field_object, .required = true},
    {"index", &field_count, .nullable = true, .doc = IDLE},
    {"description", &field_text, .nullable = true, .doc = IDLE},
};
static const struct field call[] = {
    {"function", FIELD_SHAPE(.name = "OllamaFunctionCall", FIELD_MEMBERS(called)), .required = true},
    {"id", &field_text, .nullable = true},
    {"type", FIELD_WORDS("function"), .nullable = true},
};
static const struct field_shape calls = {.kinds = FIELD_ARRAY,
                                         .item = FIELD_SHAPE(.name = "OllamaToolCall", FIELD_MEMBERS(call))};
static const struct field message[] = {
    {"role", FIELD_WORDS("system", "user", "assistant", "tool"), .required = true},
    {"content", &field_text, .nullable = true},
    {"thinking", &field_text, .nullable = true, .doc = "What it thought; the template decides what comes of it."},
    {"tool_calls", &calls, .nullable = true},
    {"tool_name", &field_text, .nullable = true, .doc = "Whose result a message of role tool is."},
    {"tool_call_id", &field_text, .nullable = true},
    {"images", &field_any, .refused = "glim reads no images"},
};
static const struct field function[] = {
    {"name", FIELD_SHAPE(.kinds = FIELD_STRING, .min_chars = 1, .max_chars = 64), .required = true},
    {"description", &field_text, .nullable = true},
    {"parameters", &field_object, .nullable = true, .doc = "A JSON Schema; calls always fit it."},
};
static const struct field tool[] = {
    {"type", FIELD_WORDS("function"), .nullable = true},
    {"function", FIELD_SHAPE(FIELD_MEMBERS(function)), .required = true},
};
static const struct field chat_fields[] = {
    {"messages", FIELD_LIST_OF(FIELD_SHAPE(.name = "OllamaMessage", FIELD_MEMBERS(message))), .nullable = true,
     .doc = "The conversation so far; none: a reply at once."},
    {"tools",
     FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = FIELD_SHAPE(.name = "OllamaTool", FIELD_MEMBERS(tool)),
                 .max_items = 128),
     .nullable = true, .doc = "What the model may call."},
};
const struct field_shape ollama_chat = {.name = "OllamaChatRequest", FIELD_MEMBERS(chat_fields), .also = &common};

/* ---- generate ---- */

static const struct field generate_fields[] = {
    {"prompt", &field_text, .nullable = true, .doc = "The user's message; with raw, the prompt as the model gets it."},
    {"suffix", &field_text, .nullable = true,
     .doc = "What follows the answer, where the vocabulary has tokens for prefix, suffix and middle."},
    {"system", &field_text, .nullable = true, .doc = "A system message before it."},
    {"raw", &field_bool, .nullable = true, .doc = "No template; control tokens in the prompt are found."},
    {"context", FIELD_LIST_OF(&field_token), .nullable = true,
     .doc = "What an earlier reply gave: its tokens come before the prompt."},
    {"template", FIELD_WORDS(""), .nullable = true, .doc = "Only \"\": the template is the server's."},
    {"images", &field_any, .refused = "glim reads no images"},
};
const struct field_shape ollama_generate = {
    .name = "OllamaGenerateRequest", FIELD_MEMBERS(generate_fields), .also = &common};

/* ---- replies ---- */

static const struct field likely[] = {
    {"token", &field_text, .required = true, .doc = "Invalid UTF-8 shows as U+FFFD."},
    {"logprob", &field_number, .required = true, .doc = "-9999 where it is impossible."},
    {"bytes", FIELD_LIST_OF(&field_count), .required = true},
};
static const struct field logprob[] = {
    {"token", &field_text, .required = true},
    {"logprob", &field_number, .required = true},
    {"bytes", FIELD_LIST_OF(&field_count), .required = true},
    {"top_logprobs", FIELD_LIST_OF(FIELD_SHAPE(.name = "OllamaLikely", FIELD_MEMBERS(likely))), .required = true},
};

static const struct field end_fields[] = {
    {"model", &field_text, .required = true},
    {"created_at", &field_text, .required = true, .doc = "RFC 3339."},
    {"done", &field_bool, .required = true},
    {"done_reason", FIELD_WORDS("stop", "length", "load"), .doc = "With done: how it ended; load: nothing was asked."},
    {"total_duration", &field_count, .doc = "Nanoseconds, as all durations."},
    {"load_duration", &field_count, .doc = "Always 0: the model is there."},
    {"prompt_eval_count", &field_count, .doc = "Tokens of the prompt, those from the prefix cache included."},
    {"prompt_eval_duration", .shape = &field_count},
    {"eval_count", .shape = &field_count},
    {"eval_duration", .shape = &field_count},
    {"logprobs", .shape = FIELD_LIST_OF(FIELD_SHAPE(.name = "OllamaLogprob", FIELD_MEMBERS(logprob)))},
};
static const struct field_shape end = {FIELD_MEMBERS(end_fields)};

static const struct field told_call[] = {
    {"name", &field_text, .required = true},
    {"index", &field_count, .required = true},
    {"arguments", &field_object, .required = true},
};
static const struct field told_calls[] = {
    {"id", &field_text, .required = true},
    {"function", FIELD_SHAPE(FIELD_MEMBERS(told_call)), .required = true},
};
static const struct field answer[] = {
    {"role", FIELD_WORDS("assistant"), .required = true},
    {"content", &field_text, .required = true},
    {"thinking", .shape = &field_text},
    {"tool_calls", .shape = FIELD_LIST_OF(FIELD_SHAPE(.name = "OllamaAnswerCall", FIELD_MEMBERS(told_calls)))},
};
static const struct field chat_reply[] = {
    {"message", FIELD_SHAPE(.name = "OllamaAnswer", FIELD_MEMBERS(answer)), .required = true},
};
const struct field_shape ollama_chat_reply = {
    .name = "OllamaChatReply",
    FIELD_MEMBERS(chat_reply),
    .also = &end,
    .doc = "Whole; or one of the lines of a stream, of which the last has done true."};
static const struct field generate_reply[] = {
    {"response", &field_text, .required = true},
    {"thinking", .shape = &field_text},
    {"context", FIELD_LIST_OF(&field_token), .doc = "With done, but not with raw: all tokens so far."},
};
const struct field_shape ollama_generate_reply = {
    .name = "OllamaGenerateReply",
    FIELD_MEMBERS(generate_reply),
    .also = &end,
    .doc = "Whole; or one of the lines of a stream, of which the last has done true."};

/* ---- models ---- */

static const struct field detail_fields[] = {
    {"parent_model", &field_text, .required = true},
    {"format", &field_text, .required = true},
    {"family", &field_text, .required = true},
    {"families", FIELD_LIST_OF(&field_text), .required = true},
    {"parameter_size", &field_text, .required = true, .doc = "\"134.5M\""},
    {"quantization_level", &field_text, .required = true, .doc = "\"unknown\": a file mixes several formats."},
};
static const struct field_shape details = {.name = "OllamaDetails", FIELD_MEMBERS(detail_fields)};
static const struct field model_fields[] = {
    {"name", &field_text, .required = true},
    {"model", &field_text, .required = true},
    {"size", &field_count, .required = true, .doc = "Bytes of the weights in memory."},
    {"digest", &field_text, .required = true, .doc = "Changes with what may change an answer's bytes."},
    {"details", &details, .required = true},
};
static const struct field_shape model = {FIELD_MEMBERS(model_fields)};
static const struct field tag[] = {
    {"modified_at", &field_text, .required = true, .doc = "When this server started."},
};
static const struct field tags[] = {
    {"models", FIELD_LIST_OF(FIELD_SHAPE(.name = "OllamaTag", FIELD_MEMBERS(tag), .also = &model)), .required = true}};
const struct field_shape ollama_tags_reply = {.name = "OllamaTags", FIELD_MEMBERS(tags)};
static const struct field running[] = {
    {"expires_at", &field_text, .required = true, .doc = "Never: far in the future."},
    {"size_vram", &field_count, .required = true},
    {"context_length", &field_count, .required = true},
};
static const struct field running_list[] = {
    {"models", FIELD_LIST_OF(FIELD_SHAPE(.name = "OllamaRunning", FIELD_MEMBERS(running), .also = &model)),
     .required = true}};
const struct field_shape ollama_ps_reply = {.name = "OllamaRunningList", FIELD_MEMBERS(running_list)};

static const struct field show_fields[] = {
    {"model", &field_text, .nullable = true, .doc = "A name of the served model; absent: the one there is."},
    {"name", &field_text, .nullable = true, .doc = "The older name of model."},
    {"verbose", &field_bool, .nullable = true, .doc = IDLE},
};
const struct field_shape ollama_show = {.name = "OllamaShowRequest", FIELD_MEMBERS(show_fields)};
static const struct field show_reply[] = {
    {"modelfile", &field_text, .required = true},
    {"parameters", &field_text, .required = true, .doc = "Always empty."},
    {"template", &field_text, .required = true, .doc = "A Jinja template, not one of Go's."},
    {"details", &details, .required = true},
    {"model_info", &field_object, .required = true},
    {"capabilities", FIELD_LIST_OF(FIELD_WORDS("completion", "tools", "thinking", "insert", "embedding")),
     .required = true},
    {"modified_at", &field_text, .required = true, .doc = "When this server started."},
};
const struct field_shape ollama_show_reply = {.name = "OllamaShow", FIELD_MEMBERS(show_reply)};
static const struct field version[] = {{"version", &field_text, .required = true, .doc = "glim's."}};
const struct field_shape ollama_version_reply = {.name = "OllamaVersion", FIELD_MEMBERS(version)};
