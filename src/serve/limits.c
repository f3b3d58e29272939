#include "serve/limits.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>

const char *const limit_name[LIMIT_KINDS] = {"requests", "tokens", "concurrent"};
const char *const limit_says[LIMIT_KINDS] = {"requests a minute", "tokens a minute", "requests at a time"};

struct limit *limit_create(const char *name, struct limit_rule rule, double now)
{
    struct limit *l = mem_calloc(1, sizeof *l);
    if (!l)
        return NULL;
    snprintf(l->name, sizeof l->name, "%s", name);
    l->rule = rule;
    l->requests = rule.requests;
    l->tokens = rule.tokens;
    l->filled_s = now;
    l->refs = 1;
    return l;
}

void limit_hold(struct limit *l)
{
    l->refs++;
}

void limit_drop(struct limit *l)
{
    if (l && --l->refs == 0)
        mem_free(l);
}

static void fill(struct limit *l, double now)
{
    double minutes = (now - l->filled_s) / 60;
    l->filled_s = now;
    l->requests = fmin(l->requests + minutes * l->rule.requests, l->rule.requests);
    l->tokens = fmin(l->tokens + minutes * l->rule.tokens, l->rule.tokens);
}

void limit_change(struct limit *l, struct limit_rule rule, double now)
{
    fill(l, now);
    l->requests += (double)rule.requests - l->rule.requests;
    l->tokens += (double)rule.tokens - l->rule.tokens;
    l->rule = rule;
}

static bool refuse(struct limit *l, enum limit_kind kind, double seconds, enum limit_kind *out, double *wait_s)
{
    l->n_refused[kind]++;
    *out = kind;
    *wait_s = fmax(1, ceil(seconds));
    return false;
}

bool limit_begin(struct limit *l, double now, enum limit_kind *kind, double *wait_s)
{
    fill(l, now);
    if (l->rule.concurrent && l->running >= l->rule.concurrent)
        return refuse(l, LIMIT_CONCURRENT, 1, kind, wait_s);
    if (l->rule.requests && l->requests < 1)
        return refuse(l, LIMIT_REQUESTS, (1 - l->requests) * 60 / l->rule.requests, kind, wait_s);
    if (l->rule.tokens && l->tokens < 1)
        return refuse(l, LIMIT_TOKENS, (1 - l->tokens) * 60 / l->rule.tokens, kind, wait_s);
    l->requests -= 1;
    l->running++;
    l->n_request++;
    return true;
}

void limit_end(struct limit *l)
{
    l->running--;
}

void limit_tokens(struct limit *l, double now, uint64_t n_prompt, uint64_t n_token)
{
    fill(l, now);
    l->tokens -= (double)(n_prompt + n_token);
    l->n_prompt += n_prompt;
    l->n_token += n_token;
}
