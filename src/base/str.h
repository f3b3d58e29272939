/* Growable byte strings, JSON escaping and strict number parsing. */
#ifndef GLIM_BASE_STR_H
#define GLIM_BASE_STR_H

#include "base/status.h"

/* Appends never fail half way: on lack of memory `failed` is set, the content stays as it was, and later appends do
 * nothing. Check `failed` once at the end. `s` is NUL-terminated whenever it is not NULL. */
struct str {
    char *s;
    size_t n, cap;
    bool failed;
};
void str_add(struct str *b, const char *p, size_t n);
void str_puts(struct str *b, const char *s);
void str_putc(struct str *b, char c);
void str_printf(struct str *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_json(struct str *b, const char *p, size_t n);      /* quoted; invalid UTF-8 becomes U+FFFD */
void str_json_part(struct str *b, const char *p, size_t n); /* the same without the quotes; p ends no sequence early */
void str_clear(struct str *b);
void str_fini(struct str *b);

/* Whole-string parses: false on empty, trailing bytes, overflow. */
bool parse_i64(const char *s, int64_t *out);
bool parse_u64(const char *s, uint64_t *out);
bool parse_f64(const char *s, double *out); /* finite only; '.' whatever the locale */

/* Length of the UTF-8 sequence at p (1..4) or 0 when it is invalid or cut by n. *cp gets the code point. */
int utf8_decode(const uint8_t *p, size_t n, uint32_t *cp);
int utf8_encode(uint32_t cp, char out[4]); /* bytes written; 0 for surrogates and > 0x10FFFF */
/* Bytes at the end of [p, p+n) that are the valid beginning of an unfinished sequence (0..3). */
size_t utf8_partial_tail(const uint8_t *p, size_t n);

#endif
