/* What the transport calls; user is the struct server. */
#ifndef GLIM_SERVE_CALL_H
#define GLIM_SERVE_CALL_H

#include "serve/http.h"

void call_on_head(void *user, struct http_exchange *x, const struct http_request *r);
void call_on_request(void *user, struct http_exchange *x, const struct http_request *r);
void call_on_ended(void *user, const struct http_record *rec);
void call_on_refusal(void *user, const char *path, int status, const char *sentence, struct str *body);

#endif
