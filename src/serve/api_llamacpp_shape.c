/* llama.cpp's shapes. Its clients send every setting they know, so members that have no effect, or whose value switches
 * off what glim has not, are taken; what would change the answer and cannot be done is refused. */
#include "serve/api_llamacpp.h"

#define IDLE "Taken for clients that send it; has no effect."
#define OFF  "There is no such sampler: only the value that switches it off is taken."

/* ---- prompts ---- */

static const struct field prompt_members[] = {
    {"prompt_string", &field_text, .required = true, .doc = "The prompt."},
    {"multimodal_data", &field_any, .refused = "glim reads text only"},
};
static const struct field_shape mixed_item = {
    .kinds = FIELD_STRING | FIELD_INT, .bounded = true, .min = 0, .max = INT32_MAX};
static const struct field_shape prompt_item = {.kinds = FIELD_STRING | FIELD_INT | FIELD_ARRAY | FIELD_OBJECT,
                                               .bounded = true,
                                               .max = INT32_MAX,
                                               .item = &mixed_item,
                                               .min_items = 1,
                                               .field = prompt_members,
                                               .n_field = sizeof prompt_members / sizeof *prompt_members};
static const struct field_shape prompt = {.name = "LlamaPrompt",
                                          .kinds = FIELD_STRING | FIELD_ARRAY | FIELD_OBJECT,
                                          .item = &prompt_item,
                                          .min_items = 1,
                                          .field = prompt_members,
                                          .n_field = sizeof prompt_members / sizeof *prompt_members};

/* ---- settings of a completion ---- */

static const struct field_shape schema = {.kinds = FIELD_OBJECT | FIELD_BOOL, .rest = &field_any};

static const struct field settings[] = {
    {"model", &field_text, .nullable = true, .doc = "A name of the served model; absent: the one there is."},
    {"stream", &field_bool, .nullable = true, .doc = "Send each token as a server-sent event."},
    {"n_predict", FIELD_INT_IN(-1, INT32_MAX), .nullable = true,
     .doc = "At most so many new tokens; -1, or absent: as many as the context holds; 0: the prompt is only computed."},
    {"max_tokens", FIELD_INT_IN(-1, INT32_MAX), .nullable = true, .doc = "Another name of n_predict."},
    {"max_completion_tokens", FIELD_INT_IN(-1, INT32_MAX), .nullable = true, .doc = "Another name of n_predict."},
    {"n_cmpl", FIELD_INT_IN(1, JOB_MAX_ANSWERS), .nullable = true,
     .doc = "Answers to each prompt; answer i draws with seed + i."},
    {"n", FIELD_INT_IN(1, JOB_MAX_ANSWERS), .nullable = true, .doc = "Another name of n_cmpl."},
    {"temperature", FIELD_NUMBER_IN(0, 100), .nullable = true, .doc = "0.8 unless given; 0 takes the likeliest token."},
    {"top_p", FIELD_NUMBER_IN(0, 1), .nullable = true, .doc = "0.95 unless given. top_k is 40 and min_p 0.05 then."},
    {"presence_penalty", FIELD_NUMBER_IN(-100, 100), .nullable = true,
     .doc = "Taken off the logits of tokens seen before."},
    {"frequency_penalty", FIELD_NUMBER_IN(-100, 100), .nullable = true,
     .doc = "The same for each time a token was seen."},
    {"samplers", FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = &field_text, .max_items = 32), .nullable = true,
     .doc = "Which samplers are in use, by llama.cpp's names; the others are switched off. Their order is always that "
            "of glim: penalties, temperature, top_k, typ_p, top_p, min_p."},
    {"grammar", &field_text, .nullable = true, .doc = "GBNF that the answer is a sentence of; \"\": anything."},
    {"json_schema", &schema, .nullable = true, .doc = "A JSON Schema that the answer is valid under."},
    {"n_probs", FIELD_INT_IN(0, 20), .nullable = true,
     .doc = "Log probabilities of each token and of so many likeliest, by the model's own distribution; 0: none."},
    {"post_sampling_probs", &field_bool, .nullable = true,
     .doc = "Only false: probabilities are told before sampling."},
    {"return_tokens", &field_bool, .nullable = true, .doc = "Tell the answer's token ids; a stream does so always."},
    {"response_fields", FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = &field_text, .max_items = 64), .nullable = true,
     .doc = "Only these members of the reply; \"timings/predicted_n\" is one inside of another."},
    {"id_slot", FIELD_INT_IN(-1, -1), .nullable = true, .doc = "Only -1: sequences have no slot to come back to."},
    {"lora", &field_any, .refused = "glim applies no adapters"},
};

static const struct field off_fields[] = {
    {"n_indent", FIELD_INT_IN(0, 0), .nullable = true, .doc = OFF},
    {"min_keep", FIELD_INT_IN(0, 0), .nullable = true, .doc = OFF},
    {"t_max_predict_ms", FIELD_INT_IN(-1, 0), .nullable = true, .doc = "Only 0 or -1: answers do not depend on time."},
    {"dynatemp_range", FIELD_NUMBER_IN(0, 0), .nullable = true, .doc = OFF},
    {"top_n_sigma", FIELD_NUMBER_IN(-1e6, 0), .nullable = true, .doc = OFF},
    {"xtc_probability", FIELD_NUMBER_IN(0, 0), .nullable = true, .doc = OFF},
    {"dry_multiplier", FIELD_NUMBER_IN(0, 0), .nullable = true, .doc = OFF},
    {"mirostat", FIELD_INT_IN(0, 0), .nullable = true, .doc = OFF},
    {"adaptive_target", FIELD_NUMBER_IN(-1, -1), .nullable = true, .doc = OFF},
    {"dynatemp_exponent", &field_number, .nullable = true, .doc = IDLE},
    {"xtc_threshold", &field_number, .nullable = true, .doc = IDLE},
    {"dry_base", &field_number, .nullable = true, .doc = IDLE},
    {"dry_allowed_length", &field_int, .nullable = true, .doc = IDLE},
    {"dry_penalty_last_n", &field_int, .nullable = true, .doc = IDLE},
    {"dry_sequence_breakers", FIELD_LIST_OF(&field_text), .nullable = true, .doc = IDLE},
    {"mirostat_tau", &field_number, .nullable = true, .doc = IDLE},
    {"mirostat_eta", &field_number, .nullable = true, .doc = IDLE},
    {"adaptive_decay", &field_number, .nullable = true, .doc = IDLE},
    {"n_keep", FIELD_INT_IN(-1, INT32_MAX), .nullable = true, .doc = "No effect: a context is never shifted."},
    {"n_discard", FIELD_INT_IN(0, INT32_MAX), .nullable = true, .doc = "No effect: a context is never shifted."},
    {"n_cache_reuse", FIELD_INT_IN(0, INT32_MAX), .nullable = true, .doc = IDLE},
    {"timings_per_token", &field_bool, .nullable = true, .doc = "No effect: timings come with the last event."},
    {"return_progress", &field_bool, .nullable = true, .doc = "No effect: progress is not told."},
    {"sse_ping_interval", FIELD_INT_IN(-1, INT32_MAX), .nullable = true, .doc = "No effect: it is 10 s."},
    {"backend_sampling", &field_bool, .nullable = true, .doc = IDLE},
    {"verbose", &field_bool, .nullable = true, .doc = IDLE},
};
static const struct field_shape off = {FIELD_MEMBERS(off_fields), .also = &job_sampling_shape};
static const struct field_shape setting_shape = {FIELD_MEMBERS(settings), .also = &off};

static const struct field completion_fields[] = {
    {"prompt", &prompt, .required = true,
     .doc = "A text, in which <|im_start|> and the like are control tokens; token ids; a list that mixes both; "
            "{\"prompt_string\": a text}; or a list of these."},
};
const struct field_shape lcpp_completion = {
    .name = "LlamaCompletionRequest", FIELD_MEMBERS(completion_fields), .also = &setting_shape};

static const struct field extra[] = {
    {"filename", &field_text, .doc = "\"tmp\" unless given."},
    {"text", &field_text, .required = true},
};
static const struct field infill_fields[] = {
    {"input_prefix", &field_text, .required = true, .doc = "What comes before."},
    {"input_suffix", &field_text, .required = true, .doc = "What comes after."},
    {"prompt", &field_text, .nullable = true, .doc = "How the text between them begins."},
    {"input_extra", FIELD_LIST_OF(FIELD_SHAPE(.name = "LlamaExtra", FIELD_MEMBERS(extra))), .nullable = true,
     .doc = "Other files."},
};
const struct field_shape lcpp_infill = {
    .name = "LlamaInfillRequest", FIELD_MEMBERS(infill_fields), .also = &setting_shape};

/* ---- replies of completions ---- */

static const struct field likely[] = {
    {"id", &field_token, .required = true},
    {"token", &field_text, .required = true, .doc = "Invalid UTF-8 shows as U+FFFD."},
    {"bytes", FIELD_LIST_OF(&field_count), .required = true},
    {"logprob", &field_number, .required = true, .doc = "-9999 where it is impossible."},
};
static const struct field_shape likely_shape = {.name = "LlamaLikely", FIELD_MEMBERS(likely)};
static const struct field probability[] = {
    {"id", &field_token, .required = true},
    {"token", &field_text, .required = true},
    {"bytes", FIELD_LIST_OF(&field_count), .required = true},
    {"logprob", &field_number, .required = true},
    {"top_logprobs", FIELD_LIST_OF(&likely_shape), .required = true},
};
static const struct field_shape probabilities = {
    .kinds = FIELD_ARRAY, .item = FIELD_SHAPE(.name = "LlamaProbability", FIELD_MEMBERS(probability))};

static const struct field timing_fields[] = {
    {"cache_n", &field_count, .required = true, .doc = "Prompt tokens from the prefix cache."},
    {"prompt_n", &field_count, .required = true, .doc = "Prompt tokens that were computed."},
    {"prompt_ms", &field_number, .required = true},
    {"prompt_per_token_ms", &field_number, .required = true},
    {"prompt_per_second", &field_number, .required = true},
    {"predicted_n", &field_count, .required = true},
    {"predicted_ms", &field_number, .required = true, .doc = "From the first token on."},
    {"predicted_per_token_ms", &field_number, .required = true, .doc = "Of those after the first."},
    {"predicted_per_second", &field_number, .required = true},
    {"draft_n", .shape = &field_count},
    {"draft_n_accepted", .shape = &field_count},
};
static const struct field_shape timings = {.name = "LlamaTimings", FIELD_MEMBERS(timing_fields)};

/* None is required: response_fields may leave each out. */
static const struct field result[] = {
    {"index", .shape = &field_count},
    {"content", .shape = &field_text},
    {"tokens", FIELD_LIST_OF(&field_token), .doc = "Empty unless return_tokens is given."},
    {"id_slot", &field_int, .doc = "Always -1."},
    {"stop", .shape = &field_bool},
    {"model", .shape = &field_text},
    {"tokens_predicted", .shape = &field_count},
    {"tokens_evaluated", &field_count, .doc = "Tokens of the prompt."},
    {"generation_settings", .shape = &field_object},
    {"prompt", .shape = &field_text},
    {"has_new_line", .shape = &field_bool},
    {"truncated", &field_bool, .doc = "The context was full."},
    {"stop_type", FIELD_WORDS("eos", "limit", "word"), .doc = "What ended it."},
    {"stopping_word", .shape = &field_text},
    {"tokens_cached", &field_count, .doc = "Prompt tokens from the prefix cache."},
    {"timings", .shape = &timings},
    {"completion_probabilities", .shape = &probabilities},
};
static const struct field_shape result_shape = {
    .name = "LlamaResult",
    FIELD_MEMBERS(result),
    .rest = &field_any,
    .doc = "Members with a slash in their names are those that response_fields asked for."};
/* One result, or a list where there are several prompts or answers. */
const struct field_shape lcpp_completion_reply = {.name = "LlamaCompletionReply",
                                                  .kinds = FIELD_OBJECT | FIELD_ARRAY,
                                                  .item = &result_shape,
                                                  .field = result,
                                                  .n_field = sizeof result / sizeof *result,
                                                  .rest = &field_any};
const struct field_shape lcpp_completion_event = {
    .name = "LlamaCompletionEvent",
    .kinds = FIELD_OBJECT,
    .also = &result_shape,
    .rest = &field_any,
    .doc = "A piece of text with stop false; the last of an answer, with all but the text, has stop true."};

/* ---- embeddings ---- */

static const struct field part[] = {
    {"type", FIELD_WORDS("text"), .required = true},
    {"text", &field_text, .required = true},
};
static const struct field input_members[] = {
    {"prompt_string", &field_text, .doc = "The text."},
    {"content", FIELD_SHAPE(.kinds = FIELD_ARRAY, .item = FIELD_SHAPE(FIELD_MEMBERS(part)), .min_items = 1),
     .doc = "Or the text in parts."},
    {"multimodal_data", &field_any, .refused = "glim reads text only"},
};
static const struct field_shape input_item = {.kinds = FIELD_STRING | FIELD_INT | FIELD_ARRAY | FIELD_OBJECT,
                                              .bounded = true,
                                              .max = INT32_MAX,
                                              .item = &mixed_item,
                                              .min_items = 1,
                                              .field = input_members,
                                              .n_field = sizeof input_members / sizeof *input_members};
static const struct field_shape input = {.kinds = FIELD_STRING | FIELD_ARRAY | FIELD_OBJECT,
                                         .item = &input_item,
                                         .min_items = 1,
                                         .field = input_members,
                                         .n_field = sizeof input_members / sizeof *input_members};
static const struct field embedding_fields[] = {
    {"content", &input, .nullable = true, .doc = "A text, token ids, a list that mixes both, or a list of these."},
    {"input", &input, .nullable = true, .doc = "Another name of content."},
    {"model", &field_text, .nullable = true, .doc = "A name of the served model; absent: the one there is."},
    {"encoding_format", FIELD_WORDS("float"), .nullable = true, .doc = "/v1/embeddings gives base64 as well."},
    {"embd_normalize", FIELD_INT_IN(2, 2), .nullable = true, .doc = "Only 2: vectors have length 1."},
};
const struct field_shape lcpp_embedding = {.name = "LlamaEmbeddingRequest", FIELD_MEMBERS(embedding_fields)};
static const struct field embedding[] = {
    {"index", &field_count, .required = true},
    {"embedding", FIELD_LIST_OF(FIELD_LIST_OF(&field_number)), .required = true, .doc = "A list of one vector."},
};
const struct field_shape lcpp_embedding_reply = {.name = "LlamaEmbeddingReply",
                                                 .kinds = FIELD_ARRAY,
                                                 .item =
                                                     FIELD_SHAPE(.name = "LlamaEmbedding", FIELD_MEMBERS(embedding))};

/* ---- text and tokens ---- */

static const struct field tokenize_fields[] = {
    {"content", FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY, .item = &mixed_item), .required = true,
     .doc = "A text, or a list of texts and token ids."},
    {"add_special", &field_bool, .nullable = true, .doc = "Begin with the BOS token where the model wants one."},
    {"parse_special", &field_bool, .nullable = true,
     .doc = "true unless given: text such as <|im_start|> is its control token."},
    {"with_pieces", &field_bool, .nullable = true, .doc = "Give the text of each token too."},
};
const struct field_shape lcpp_tokenize = {.name = "TokenizeRequest", FIELD_MEMBERS(tokenize_fields)};

static const struct field piece[] = {
    {"id", &field_token, .required = true},
    {"piece", FIELD_SHAPE(.kinds = FIELD_STRING | FIELD_ARRAY, .item = &field_count), .required = true,
     .doc = "Its bytes where they are no text of their own."},
};
static const struct field_shape token_item = {.kinds = FIELD_INT | FIELD_OBJECT,
                                              .bounded = true,
                                              .max = INT32_MAX,
                                              .field = piece,
                                              .n_field = sizeof piece / sizeof *piece};
static const struct field tokens_fields[] = {{"tokens", FIELD_LIST_OF(&token_item), .required = true}};
const struct field_shape lcpp_tokens = {.name = "Tokens", FIELD_MEMBERS(tokens_fields)};
static const struct field ids_fields[] = {{"tokens", FIELD_LIST_OF(&field_token), .required = true}};
const struct field_shape lcpp_detokenize = {.name = "DetokenizeRequest", FIELD_MEMBERS(ids_fields)};
static const struct field content_fields[] = {{"content", &field_text, .required = true}};
const struct field_shape lcpp_content = {.name = "Content", FIELD_MEMBERS(content_fields)};
static const struct field prompt_fields[] = {{"prompt", &field_text, .required = true}};
const struct field_shape lcpp_prompt_reply = {.name = "TemplateReply", FIELD_MEMBERS(prompt_fields)};

/* ---- the server ---- */

static const struct field default_fields[] = {
    {"n_ctx", &field_count, .required = true, .doc = "Tokens that a prompt and its answer may have together."},
    {"params", &field_object, .required = true, .doc = "What a completion does that says nothing of it."},
};
static const struct field props_fields[] = {
    {"default_generation_settings", FIELD_SHAPE(FIELD_MEMBERS(default_fields)), .required = true},
    {"total_slots", &field_count, .required = true, .doc = "Answers in work at once, at most."},
    {"model_alias", &field_text, .required = true},
    {"model_path", &field_text, .required = true, .doc = "The model as the server was asked for it."},
    {"modalities", &field_object, .required = true},
    {"endpoint_slots", &field_bool, .required = true},
    {"endpoint_props", &field_bool, .required = true},
    {"endpoint_metrics", &field_bool, .required = true},
    {"chat_template", &field_text, .required = true, .doc = "\"\" where there is none."},
    {"chat_template_tool_use", &field_text, .doc = "Another one for conversations with tools."},
    {"chat_template_caps", FIELD_SHAPE(.kinds = FIELD_OBJECT, .rest = &field_bool), .required = true},
    {"bos_token", &field_text, .required = true},
    {"eos_token", &field_text, .required = true},
    {"build_info", &field_text, .required = true},
    {"is_sleeping", &field_bool, .required = true},
};
const struct field_shape lcpp_props_reply = {.name = "LlamaProps", FIELD_MEMBERS(props_fields)};

static const struct field slots_query[] = {
    {"fail_on_no_slot", FIELD_SHAPE(.kinds = FIELD_INT | FIELD_STRING), .doc = "503 where all slots are in use."},
};
const struct field_shape lcpp_slots_query = {FIELD_MEMBERS(slots_query)};
static const struct field slot[] = {
    {"id", &field_count, .required = true},
    {"n_ctx", &field_count, .required = true},
    {"speculative", &field_bool, .required = true},
    {"is_processing", &field_bool, .required = true},
};
const struct field_shape lcpp_slots_reply = {
    .name = "LlamaSlots", .kinds = FIELD_ARRAY, .item = FIELD_SHAPE(.name = "LlamaSlot", FIELD_MEMBERS(slot))};

static const struct field model_meta[] = {
    {"n_vocab", &field_count, .required = true},     {"n_ctx", &field_count, .required = true},
    {"n_ctx_train", &field_count, .required = true}, {"n_embd", &field_count, .required = true},
    {"n_params", &field_count, .required = true},    {"size", &field_count, .required = true},
};
static const struct field model[] = {
    {"id", &field_text, .required = true},
    {"aliases", FIELD_LIST_OF(&field_text), .required = true, .doc = "All names of the model."},
    {"tags", FIELD_LIST_OF(&field_text), .required = true, .doc = "Always empty."},
    {"object", FIELD_WORDS("model"), .required = true},
    {"created", &field_count, .required = true},
    {"owned_by", &field_text, .required = true},
    {"meta", FIELD_SHAPE(FIELD_MEMBERS(model_meta)), .required = true},
};
static const struct field models[] = {
    {"object", FIELD_WORDS("list"), .required = true},
    {"data", FIELD_LIST_OF(FIELD_SHAPE(.name = "LlamaModel", FIELD_MEMBERS(model))), .required = true},
};
const struct field_shape lcpp_models_reply = {.name = "LlamaModels", FIELD_MEMBERS(models)};
