/* Leveled logs on standard error: text for people, JSON lines for machines. Thread safe; one line a call. */
#ifndef GLIM_BASE_LOG_H
#define GLIM_BASE_LOG_H

#include "base/status.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

void log_setup(enum log_level level, enum log_format format); /* before that: WARN, text */
bool log_on(enum log_level level);
/* `where` is the module ("gguf", "session"); NULL for none. */
void log_line(enum log_level level, const char *where, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
