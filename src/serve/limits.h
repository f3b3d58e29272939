/* What one API key may use: requests and tokens a minute, and requests at a time.
 *
 * Requests and tokens are buckets that hold a minute's worth and fill evenly. A request takes one request when it
 * begins; its prompt's tokens when the engine has it, and each token of its answers as it comes. It may begin while
 * any tokens are left, so the bucket may go below zero; then nothing begins until it has filled again, and the average
 * is what was promised. All of it belongs to the event thread. */
#ifndef GLIM_SERVE_LIMITS_H
#define GLIM_SERVE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LIMIT_NAME_MAX = 64 };

struct limit_rule {
    uint32_t requests, tokens; /* a minute; 0: any number */
    uint32_t concurrent;       /* requests at a time; 0: any number */
};

enum limit_kind { LIMIT_REQUESTS, LIMIT_TOKENS, LIMIT_CONCURRENT, LIMIT_KINDS };
extern const char *const limit_name[LIMIT_KINDS]; /* in the file of keys */
extern const char *const limit_says[LIMIT_KINDS]; /* to people */

struct limit {
    char name[LIMIT_NAME_MAX + 1]; /* the key's */
    struct limit_rule rule;
    double requests, tokens; /* left in the buckets */
    double filled_s;         /* when they were last filled; monotonic */
    uint32_t running;
    uint64_t n_request, n_prompt, n_token, n_refused[LIMIT_KINDS]; /* since the start */
    int refs;
};

/* With one reference; NULL when out of memory. */
struct limit *limit_create(const char *name, struct limit_rule rule, double now);
void limit_hold(struct limit *l);
void limit_drop(struct limit *l); /* NULL is fine */
/* Another rule from now on; what was used stays used. */
void limit_change(struct limit *l, struct limit_rule rule, double now);

/* true: a request begins, to be ended by limit_end. false: `kind` says which limit is reached and *wait_s (at least 1)
 * when it is worth trying again. */
bool limit_begin(struct limit *l, double now, enum limit_kind *kind, double *wait_s);
void limit_end(struct limit *l);
void limit_tokens(struct limit *l, double now, uint64_t n_prompt, uint64_t n_token);

#endif
