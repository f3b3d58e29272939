/* Responses that a client may come back to: the response API's store, one SQLite file.
 *
 * A stored response has its own input and names the one it goes on from; a conversation is the chain of these. Reading
 * a chain counts as using all of it, so what is dropped first is what nobody has gone on with for longest. The file may
 * be shared by several servers and outlives them; it is readable by its owner alone. What is deleted is overwritten.
 *
 * Calls are safe from any thread and wait for the disk: they belong into workers. */
#ifndef GLIM_SERVE_STORE_H
#define GLIM_SERVE_STORE_H

#include "base/json.h"

struct store;

struct store_config {
    const char *path;  /* its folder is made where it is missing */
    int64_t max_bytes; /* of JSON kept; the least recently used goes first */
    int64_t max_age_s; /* since the last use */
};

/* GLIM_FAILED where the file cannot be used, with its path and what SQLite says. */
glim_status store_open(struct store **out, const struct store_config *c, struct glim_err *e);
void store_close(struct store *s); /* NULL is fine */

struct store_entry {
    const char *id, *previous; /* previous: NULL for the first of a conversation */
    const char *body;          /* the response object, as JSON */
    const char *input;         /* its own input items, as a JSON list */
};
/* Refused: an entry that is larger than the whole store. */
glim_status store_put(struct store *s, const struct store_entry *entry, struct glim_err *e);
/* *body: fresh, the response object as it was put; NULL when there is none of this id. */
glim_status store_get(struct store *s, const char *id, char **body, struct glim_err *e);
/* *found: there was one. What went on from it cannot be gone on with any more. */
glim_status store_delete(struct store *s, const char *id, bool *found, struct glim_err *e);

enum { STORE_MAX_CHAIN = 4096 };
/* The conversation up to and including a response: each link's input items and, but for the last where only_input is
 * set, its output items. *items: a fresh list; NULL when the response, or one it goes on from, is not there (*missing
 * then names it). Refused: more than STORE_MAX_CHAIN links, or max_bytes of JSON. */
enum { STORE_ID_MAX = 64 };
glim_status store_chain(struct store *s, const char *id, bool only_input, size_t max_bytes, json_t **items,
                        char missing[STORE_ID_MAX], struct glim_err *e);

/* Bytes of JSON kept, and entries: for metrics and tests. */
glim_status store_size(struct store *s, int64_t *bytes, int64_t *n, struct glim_err *e);

#endif
