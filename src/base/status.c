/* Errors as sentences. The text is built in a local buffer first, because the arguments may point into the old message.
 */
#include "base/status.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERR_MAX = sizeof(((struct glim_err *)0)->message) };

/* Cut at a whole UTF-8 sequence and mark the cut; line breaks and other control bytes (a hostile file name) become '?'.
 */
static void store(struct glim_err *e, const char *text, int full)
{
    size_t n = strlen(text);
    if (full >= ERR_MAX) {
        n = ERR_MAX - 4;
        n -= utf8_partial_tail((const uint8_t *)text, n);
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        e->message[i] = c < 0x20 || c == 0x7f ? '?' : text[i];
    }
    strcpy(e->message + n, full >= ERR_MAX ? "..." : "");
}

glim_status err_set(struct glim_err *e, glim_status s, const char *fmt, ...)
{
    if (!e)
        return s;
    char text[ERR_MAX] = "";
    va_list ap;
    va_start(ap, fmt);
    int full = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    store(e, text, full);
    e->status = s;
    return s;
}

glim_status err_prefix(struct glim_err *e, const char *fmt, ...)
{
    if (!e)
        return GLIM_FAILED;
    char head[ERR_MAX] = "", text[ERR_MAX] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    int full = snprintf(text, sizeof text, "%s: %s", head, e->message);
    store(e, text, full);
    return e->status;
}

glim_status err_nomem(struct glim_err *e, const char *what, size_t bytes)
{
    return err_set(e, GLIM_FAILED, "out of memory: %s: need %zu bytes", what, bytes);
}
