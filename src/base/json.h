/* jansson, with our allocator and our manners: duplicates refused, depth limited, errors as sentences. */
#ifndef GLIM_BASE_JSON_H
#define GLIM_BASE_JSON_H

#include "base/status.h"

#include <jansson.h>

/* Route jansson's memory through mem_alloc (idempotent; called by json_parse). */
void json_setup(void);
/* Parse n bytes as one JSON value (any type at the top). The error names `what`, line and column. Free with
 * json_decref. */
glim_status json_parse(const char *p, size_t n, const char *what, json_t **out, struct glim_err *e);
glim_status json_parse_file(const char *path, size_t max, json_t **out, struct glim_err *e);

#endif
