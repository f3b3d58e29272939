/* The page at `/`: a chat and a dashboard in one HTML file that the program carries inside itself.
 *
 * Its sources are src/serve/page/ (HTML, CSS, plain JavaScript; nothing to compile). tools/page.py joins them with
 * marked and DOMPurify into one file and writes it, with its hash and its Content-Security-Policy, as C source into the
 * build folder. The page asks no other origin for anything: the policy names the hash of its one script and of its one
 * style sheet and allows requests to its own server, images in data: URLs, and nothing else.
 *
 * What an answer contains is never trusted: Markdown goes through marked, then through DOMPurify with a short list of
 * tags, and enters the document as nodes (the policy's `require-trusted-types-for` forbids strings).
 *
 * What the page asks of the server
 * --------------------------------
 * GET  /v1/models            the list of models; more than one makes a choice
 * GET  /props                facts for the head line, the defaults of the settings, levers and kernels (below)
 * GET  /telemetry            server-sent events, one `data:` line a second (below)
 * POST /v1/chat/completions  always with stream and stream_options.include_usage. Besides OpenAI's fields, when the
 *                            user has set them: top_k, min_p, seed, reasoning_effort, tools; messages of the assistant
 *                            carry reasoning_content and tool_calls as they were received.
 *                            Read of the answer: delta.content, .reasoning_content, .tool_calls; finish_reason; usage
 *                            (with prompt_tokens_details.cached_tokens); llama.cpp's timings (predicted_per_second,
 *                            prompt_per_second, draft_n, draft_n_accepted); a `data:` line {"error": {"message"}}.
 * POST /v1/requests/{id}/cancel   {id} of /telemetry; any 2xx is success, 404 = it has ended
 * A 401 makes the page ask for an API key, which it sends as `Authorization: Bearer …`.
 *
 * /telemetry: {                       all numbers; *_total since the start of the server, *_per_s over the last second
 *   "time": seconds since 1970, "uptime_s", "model": "name", "state": "ready" | "draining" | "failed",
 *   "queue":    {"waiting", "running", "max_waiting", "max_running"},
 *   "finished": {"length", "end", "stop", "cancelled", "deadline", "error", "refused"},     answers so far
 *   "tokens":   {"prompt_total", "cached_total", "generated_total", "prompt_per_s", "generated_per_s"},
 *   "ttft":     {"edges": [upper bounds in seconds, ascending], "counts": [edges + 1, the last above all], "sum"},
 *   "itl":      the same of the time between two tokens,
 *   "steps":    {"total", "last_age_s" (null before the first), "rows_mean" (of the last second's, null without)},
 *   "kv":       {"pages", "used" (by answers in work), "cached" (by the prefix cache alone), "page_tokens"},
 *   "drafts":   {"proposed_total", "accepted_total"},                                        drafted tokens
 *   "preemptions_total", "connections", "rss_bytes",
 *   "requests": [{"id", "api": "chat", "state": "queued" | "prefill" | "decode", "prompt", "cached",
 *                 "done" (prompt tokens in place), "generated", "age_s"}]                    at most 64, oldest first
 * }
 *
 * /props, besides llama.cpp's keys (of which the page reads default_generation_settings: {"n_ctx", "params": {
 * "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"}}): {
 *   "glim": {"version", "backend", "threads",
 *            "model":   {"name", "family", "params", "weight_bytes", "ctx"},
 *            "chat":    {"reasoning": bool, "efforts": ["low", …] ([] = the model has none), "tools": bool},
 *            "levers":  [{"key", "value", "origin": "default" | "toml" | "env" | "flag", "bits": "keeps" | "changes",
 *                         "doc"}],                                                   as `glim levers --json` has them
 *            "kernels": [{"op", "kernel", "why"}]}
 * }
 * A key that is missing leaves its place on the page empty; nothing else depends on it. */
#ifndef GLIM_SERVE_PAGE_H
#define GLIM_SERVE_PAGE_H

#include "serve/http.h"

struct page {
    const unsigned char *bytes; /* UTF-8 HTML, n bytes */
    size_t n;
    const char *etag; /* quoted, of the SHA-256 of bytes */
    const char *csp;  /* value of Content-Security-Policy */
};
extern const struct page page; /* generated */

#define PAGE_TYPE "text/html; charset=utf-8"

/* Further header fields of the reply to GET / (and of a 304), for http_reply: ETag, caching, policies. */
enum { PAGE_FIELDS = 9 };
void page_fields(struct http_field out[PAGE_FIELDS]);

/* Whether a request's If-None-Match (NULL = it has none) names the page, so that the reply is 304 without a body.
 * Compared weakly, as RFC 9110 section 13.1.2 says. */
bool page_unchanged(const char *if_none_match);

#endif
