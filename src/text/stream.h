/* Text as it becomes certain: bytes of tokens go in, whole UTF-8 sequences come out, and nothing that may still turn
 * out to be a stop string is shown. A stop string may begin and end anywhere inside tokens. Invalid UTF-8 from the
 * model comes out as U+FFFD once it is certain to be invalid. */
#ifndef GLIM_TEXT_STREAM_H
#define GLIM_TEXT_STREAM_H

#include "base/str.h"

struct text_stream;
glim_status text_stream_create(struct text_stream **out, const char *const *stop, size_t n_stop, struct glim_err *e);
void text_stream_free(struct text_stream *s);
/* Append a token's bytes; newly certain text is added to *out. *stopped becomes true when a stop string is complete:
 * the text before it has then been given out and later calls give nothing. Of several stops that complete, the earliest
 * start wins. */
glim_status text_stream_push(struct text_stream *s, const char *p, size_t n, struct str *out, bool *stopped,
                             struct glim_err *e);
/* Which stop string that was; none has been complete: n_stop. */
size_t text_stream_which(const struct text_stream *s);
/* The end of generation: whatever was held back is given out (an unfinished sequence as U+FFFD). */
glim_status text_stream_end(struct text_stream *s, struct str *out, struct glim_err *e);

#endif
