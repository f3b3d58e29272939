/* Metrics: counters, gauges and histograms that threads update and read without a lock.
 *
 * A metric is a row of the table below: name, help, and for dashboards the name that vLLM gives to the same thing.
 * Rows of one family (same name) follow one another and differ by their label. Updates are relaxed atomics, so a
 * reader sees each number whole, but numbers of one moment only by chance; a histogram's count is made of its buckets
 * and always agrees with them. */
#ifndef GLIM_RUN_METRICS_H
#define GLIM_RUN_METRICS_H

#include "base/str.h"

#include <stdatomic.h>

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* ROW(id, kind, name, label or NULL, vLLM's name or NULL, buckets (metrics.c; histograms), help) */
#define METRIC_TABLE(ROW)                                                                                              \
    ROW(REQUESTS_WAITING, GAUGE, "glim_requests_waiting", NULL, "vllm:num_requests_waiting", NONE,                     \
        "Answers that wait for admission.")                                                                            \
    ROW(REQUESTS_RUNNING, GAUGE, "glim_requests_running", NULL, "vllm:num_requests_running", NONE, "Answers in work.") \
    ROW(QUEUE_SECONDS, HISTOGRAM, "glim_request_queue_seconds", NULL, "vllm:request_queue_time_seconds", REQUEST,      \
        "Time from submission to admission.")                                                                          \
    ROW(FIRST_TOKEN_SECONDS, HISTOGRAM, "glim_time_to_first_token_seconds", NULL, "vllm:time_to_first_token_seconds",  \
        REQUEST, "Time from submission to the first token.")                                                           \
    ROW(INTER_TOKEN_SECONDS, HISTOGRAM, "glim_inter_token_seconds", NULL, "vllm:inter_token_latency_seconds", STEP,    \
        "Time between two tokens of an answer.")                                                                       \
    ROW(REQUEST_SECONDS, HISTOGRAM, "glim_request_seconds", NULL, "vllm:e2e_request_latency_seconds", REQUEST,         \
        "Time from submission to the end of the answer.")                                                              \
    ROW(PROMPT_TOKENS, COUNTER, "glim_prompt_tokens_total", NULL, "vllm:prompt_tokens_total", NONE,                    \
        "Prompt tokens of admitted requests, those taken from the cache included.")                                    \
    ROW(CACHE_QUERY_TOKENS, COUNTER, "glim_cache_query_tokens_total", NULL, "vllm:prefix_cache_queries_total", NONE,   \
        "Prompt tokens that were looked up in the prefix cache.")                                                      \
    ROW(CACHE_HIT_TOKENS, COUNTER, "glim_cache_hit_tokens_total", NULL, "vllm:prefix_cache_hits_total", NONE,          \
        "Prompt tokens that were taken from the prefix cache.")                                                        \
    ROW(GENERATED_TOKENS, COUNTER, "glim_generated_tokens_total", NULL, "vllm:generation_tokens_total", NONE,          \
        "Tokens of answers.")                                                                                          \
    ROW(FINISHED_LENGTH, COUNTER, "glim_requests_finished_total", "finished_reason=\"length\"",                        \
        "vllm:request_success_total", NONE, "Answers that ended, by reason.")                                          \
    ROW(FINISHED_END, COUNTER, "glim_requests_finished_total", "finished_reason=\"end\"",                              \
        "vllm:request_success_total", NONE, "Answers that ended, by reason.")                                          \
    ROW(FINISHED_STOP, COUNTER, "glim_requests_finished_total", "finished_reason=\"stop\"",                            \
        "vllm:request_success_total", NONE, "Answers that ended, by reason.")                                          \
    ROW(FINISHED_CANCELLED, COUNTER, "glim_requests_finished_total", "finished_reason=\"cancelled\"",                  \
        "vllm:request_success_total", NONE, "Answers that ended, by reason.")                                          \
    ROW(FINISHED_DEADLINE, COUNTER, "glim_requests_finished_total", "finished_reason=\"deadline\"",                    \
        "vllm:request_success_total", NONE, "Answers that ended, by reason.")                                          \
    ROW(FINISHED_ERROR, COUNTER, "glim_requests_finished_total", "finished_reason=\"error\"",                          \
        "vllm:request_success_total", NONE, "Answers that ended, by reason.")                                          \
    ROW(REFUSED_BUSY, COUNTER, "glim_requests_busy_total", NULL, NULL, NONE,                                           \
        "Requests refused because the queue was full.")                                                                \
    ROW(PREEMPTIONS, COUNTER, "glim_preemptions_total", NULL, "vllm:num_preemptions_total", NONE,                      \
        "Answers that gave up their pages for others and resumed later.")                                              \
    ROW(STEPS, COUNTER, "glim_steps_total", NULL, NULL, NONE, "Forward passes.")                                       \
    ROW(STEP_PREFILL_SECONDS, HISTOGRAM, "glim_step_seconds", "phase=\"prefill\"", NULL, STEP,                         \
        "Time of a forward pass, by the rows in it: of prompts, of answers, or of both.")                              \
    ROW(STEP_DECODE_SECONDS, HISTOGRAM, "glim_step_seconds", "phase=\"decode\"", NULL, STEP,                           \
        "Time of a forward pass, by the rows in it: of prompts, of answers, or of both.")                              \
    ROW(STEP_MIXED_SECONDS, HISTOGRAM, "glim_step_seconds", "phase=\"mixed\"", NULL, STEP,                             \
        "Time of a forward pass, by the rows in it: of prompts, of answers, or of both.")                              \
    ROW(STEP_ROWS, HISTOGRAM, "glim_step_rows", NULL, "vllm:iteration_tokens_total", ROWS, "Rows of a forward pass.")  \
    ROW(SCHEDULE_SECONDS, HISTOGRAM, "glim_schedule_seconds", NULL, NULL, OVERHEAD,                                    \
        "Time of a step outside the forward pass, sampling and callbacks.")                                            \
    ROW(LAST_STEP, GAUGE, "glim_last_step_timestamp_seconds", NULL, NULL, NONE,                                        \
        "When the last forward pass ended, in seconds since 1970; 0 before the first.")                                \
    ROW(PAGES_TOTAL, GAUGE, "glim_kv_pages", NULL, NULL, NONE, "Pages of the KV pools.")                               \
    ROW(PAGES_USED, GAUGE, "glim_kv_pages_used", NULL, NULL, NONE, "KV pages held by answers in work.")                \
    ROW(PAGES_CACHED, GAUGE, "glim_kv_pages_cached", NULL, NULL, NONE, "KV pages held by the prefix cache alone.")     \
    ROW(KV_USAGE, GAUGE, "glim_kv_usage_ratio", NULL, "vllm:kv_cache_usage_perc", NONE,                                \
        "Part of the KV pages that answers in work hold, 0 to 1.")                                                     \
    ROW(DRAFTS, COUNTER, "glim_drafts_total", NULL, "vllm:spec_decode_num_drafts_total", NONE,                         \
        "Proposals of drafters that were verified.")                                                                   \
    ROW(DRAFT_TOKENS, COUNTER, "glim_draft_tokens_total", NULL, "vllm:spec_decode_num_draft_tokens_total", NONE,       \
        "Drafted tokens that were verified.")                                                                          \
    ROW(DRAFT_ACCEPTED, COUNTER, "glim_draft_accepted_tokens_total", NULL,                                             \
        "vllm:spec_decode_num_accepted_tokens_total", NONE, "Drafted tokens that were right.")

enum metric {
#define METRIC_ID(id, ...) METRIC_##id,
    METRIC_TABLE(METRIC_ID)
#undef METRIC_ID
        METRIC_COUNT
};

enum { METRIC_EDGES = 24 }; /* at most so many finite bucket bounds a histogram */

/* All zero is the beginning; there is nothing to free. */
struct metrics {
    struct {
        _Atomic uint64_t value;                    /* counter: the count; gauge, histogram's sum: a double's bits */
        _Atomic uint64_t bucket[METRIC_EDGES + 1]; /* observations at most an edge and above the one before */
    } of[METRIC_COUNT];
};

/* Each takes metrics of its kind. Any thread may call them. A value that is not finite is left out. */
void metrics_add(struct metrics *m, enum metric counter, uint64_t n);
void metrics_set(struct metrics *m, enum metric gauge, double value);
void metrics_observe(struct metrics *m, enum metric histogram, double value);

struct metric_view {
    double value;   /* gauge; histogram: the sum of the observations */
    uint64_t count; /* counter; histogram: observations */
    uint64_t bucket[METRIC_EDGES + 1];
};
struct metrics_view {
    struct metric_view of[METRIC_COUNT];
};
void metrics_read(struct metrics_view *v, const struct metrics *m);

struct metric_info {
    const char *name, *label, *vllm, *help; /* label, vllm: NULL where there is none */
    enum metric_kind kind;
    const double *edge; /* [n_edge] ascending upper bounds of a histogram's buckets; above the last comes +Inf */
    uint32_t n_edge;
};
const struct metric_info *metric_info(enum metric m);

/* Append the view in Prometheus' text format 0.0.4. vllm: the metrics that vLLM has too, under its names; else all
 * under ours. model: the label model_name of every line, escaped here; NULL = none. */
void metrics_print(struct str *out, const struct metrics_view *v, bool vllm, const char *model);

#endif
