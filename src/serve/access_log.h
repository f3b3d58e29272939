/* The access log's file: lines go to a thread that writes them, so that a full disk or a slow pipe holds up nobody.
 * What waits is bounded; lines beyond that are dropped and counted. */
#ifndef GLIM_SERVE_ACCESS_LOG_H
#define GLIM_SERVE_ACCESS_LOG_H

#include "base/str.h"

struct access_log;

enum { ACCESS_LOG_WAITING = 4 << 20 }; /* bytes */

/* Appends to the file (made with mode 0600), or to standard error when path is "-". */
glim_status access_log_open(struct access_log **out, const char *path, struct glim_err *e);
/* Any thread; p[n] ends with a newline. */
void access_log_put(struct access_log *l, const char *p, size_t n);
/* The file is opened anew by its name before the next line: it may have been moved away. Any thread. */
void access_log_reopen(struct access_log *l);
uint64_t access_log_dropped(struct access_log *l);
/* Writes what waits. NULL is fine. */
void access_log_close(struct access_log *l);

#endif
