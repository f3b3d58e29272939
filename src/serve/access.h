/* Who asks, under which names, and what came of it: a record for each exchange, from its header section to its line in
 * the access log.
 *
 * Names. `x-request-id` is the client's (1 to 128 letters, digits and .:_+/=@-), else made here; replies and the log
 * repeat it. `traceparent` (W3C Trace Context) goes on: replies carry the client's trace with a span of our own, the
 * log names all three. One that is malformed is as if there was none.
 *
 * Keys. Where the server has a file of keys, every route that is not open needs one, as `Authorization: Bearer KEY` or
 * `x-api-key: KEY`. The key's limits hold for requests that carry a body, which are those that cost something.
 *
 * Origins. A browser says which page asks; a page of this server's own is fine, one whose origin the lever `cors` lists
 * gets the headers it needs, preflight requests included, and all others are refused: without that any web page could
 * use a server on loopback.
 *
 * All of it belongs to the event thread. */
#ifndef GLIM_SERVE_ACCESS_H
#define GLIM_SERVE_ACCESS_H

#include "serve/access_log.h"
#include "serve/http.h"
#include "serve/keys.h"
#include "serve/route.h"

enum { ACCESS_MADE_MAX = 40, ACCESS_ID_MAX = 128, ACCESS_HEADERS = 5, ACCESS_ORIGIN_MAX = 256 };

struct hub; /* what the records of a server have in common */

struct hub_config {
    const char *cors;     /* the lever; must live as long as the hub */
    struct keys *keys;    /* the hub's from now on; NULL: nobody needs a key */
    const char *log_path; /* NULL: no log */
};
glim_status hub_create(struct hub **out, const struct hub_config *c, struct glim_err *e);
void hub_free(struct hub *h); /* NULL is fine; all records are gone */
void hub_set_keys(struct hub *h, struct keys *keys);
bool hub_has_keys(const struct hub *h);
void hub_reopen_log(struct hub *h); /* any thread */

struct access {
    struct hub *hub;
    int refs;
    char made[ACCESS_MADE_MAX];                     /* an id that is nobody else's */
    char id[ACCESS_ID_MAX + 1];                     /* what replies and the log say */
    char trace[33], parent[17], span[17], flags[3]; /* hexadecimal; trace "": there is none */
    char traceparent[56];                           /* the reply's */
    char origin[ACCESS_ORIGIN_MAX];                 /* listed by `cors`; "" else */
    const struct route *route;                      /* NULL: none of ours */
    struct limit *limit;                            /* the key's; NULL */
    bool counted;                                   /* limit_begin was called */
    uint64_t n_prompt, n_token;
};

/* With one reference, which access_ended gives back, and as http_data(x). NULL when out of memory. */
struct access *access_create(struct hub *h, struct http_exchange *x, const struct http_request *r,
                             const struct route *route);
void access_hold(struct access *a);
void access_drop(struct access *a); /* NULL is fine */

/* May a page with this Origin (NULL: there is none) ask? Sets a->origin. */
bool access_origin(struct access *a, const struct http_request *r);
bool access_is_preflight(const struct http_request *r);
/* Header fields of the answer to a preflight request. */
size_t access_preflight(const struct access *a, const struct http_request *r, struct http_field f[ACCESS_HEADERS + 3]);
/* Header fields that every reply has. They point into *a. */
size_t access_headers(const struct access *a, struct http_field f[ACCESS_HEADERS]);

/* false: this route needs a key and the request has none, or one that is not on the list. */
bool access_key(struct access *a, const struct http_request *r);
/* The limits of the key, if any: as limit_begin. */
bool access_begin(struct access *a, enum limit_kind *kind, double *wait_s);
/* Tokens the engine has taken in or given out. */
void access_tokens(struct access *a, uint64_t n_prompt, uint64_t n_token);
/* The exchange has ended (http_ended): counted and logged. */
void access_ended(struct hub *h, const struct http_record *rec);

/* Counters in Prometheus' text format. */
void hub_print_metrics(struct hub *h, struct str *out, const struct http_stats *http);

#endif
