/* One line a call: built in memory, then handed to standard error in a single write so that threads do not mix. */
#include "base/log.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int log_level = LOG_WARN, log_format = LOG_TEXT;
static const char *const level_name[] = {"error", "warn", "info", "debug"};

void log_setup(enum log_level level, enum log_format format)
{
    atomic_store(&log_level, (int)level);
    atomic_store(&log_format, (int)format);
}

bool log_on(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

static void write_all(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(STDERR_FILENO, p, n);
        if (w <= 0)
            return; /* nowhere left to complain */
        p += w;
        n -= (size_t)w;
    }
}

static void build_text(struct str *line, enum log_level level, const char *where, const char *msg)
{
    str_printf(line, "glim: %s: ", level_name[level]);
    if (where)
        str_printf(line, "%s: ", where);
    size_t first = line->n;
    str_puts(line, msg);
    for (size_t i = first; i < line->n; i++)
        if ((unsigned char)line->s[i] < 0x20)
            line->s[i] = ' ';
    str_putc(line, '\n');
}

static void build_json(struct str *line, enum log_level level, const char *where, const char *msg)
{
    struct timespec now;
    struct tm utc;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    str_printf(line, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",", stamp, now.tv_nsec / 1000000, level_name[level]);
    if (where) {
        str_puts(line, "\"where\":");
        str_json(line, where, strlen(where));
        str_putc(line, ',');
    }
    str_puts(line, "\"message\":");
    str_json(line, msg, strlen(msg));
    str_puts(line, "}\n");
}

void log_line(enum log_level level, const char *where, const char *fmt, ...)
{
    if (!log_on(level))
        return;
    char msg[2048] = ""; /* longer messages are cut */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);

    bool json = atomic_load_explicit(&log_format, memory_order_relaxed) == LOG_JSON;
    struct str line = {0};
    if (json)
        build_json(&line, level, where, msg);
    else
        build_text(&line, level, where, msg);
    if (!line.failed)
        write_all(line.s, line.n);
    else { /* no memory for the line: say at least that */
        const char *s = json ? "{\"level\":\"error\",\"message\":\"a log line was lost: out of memory\"}\n"
                             : "glim: error: a log line was lost: out of memory\n";
        write_all(s, strlen(s));
    }
    str_fini(&line);
}
