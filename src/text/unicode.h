/* The few Unicode properties that pre-tokenisers ask for, and NFC. Version 16.0 (tools/gen_unicode.py says why).
 *
 * Text is bytes. Where a byte does not begin a well-formed UTF-8 sequence it stands for itself as one character of the
 * class of U+FFFD (a symbol), so that invalid input is split like the original would split its replacement character,
 * but is kept. */
#ifndef GLIM_TEXT_UNICODE_H
#define GLIM_TEXT_UNICODE_H

#include "base/str.h"

enum {
    UC_L = 1,      /* \p{L} letters */
    UC_N = 2,      /* \p{N} numbers */
    UC_M = 4,      /* \p{M} marks */
    UC_P = 8,      /* \p{P} punctuation */
    UC_S = 16,     /* \p{S} symbols */
    UC_SPACE = 32, /* \s, the White_Space property */
    UC_UPPER = 64, /* \p{Lu} and \p{Lt}; UC_L is set as well */
    UC_LOWER = 128 /* \p{Ll}; UC_L is set as well */
};

/* Class of a code point; 0 for controls, format characters and what is not assigned. */
uint8_t uc_class(uint32_t cp);
/* r: n values first, last, first, last, … in ascending order. */
bool uc_in(const uint32_t *r, size_t n, uint32_t cp);

/* One character of a text. len = 0 and cls = 0 at the end. */
struct uc_char {
    uint32_t cp;
    uint8_t cls, len;
};
static inline struct uc_char uc_at(const uint8_t *p, const uint8_t *end);

/* Append the NFC form of p to *out (which tells of lack of memory in out->failed). Invalid bytes pass through. */
void uc_nfc(const uint8_t *p, size_t n, struct str *out);
bool uc_is_ascii(const uint8_t *p, size_t n);

/* ---- tables (unicode_data.c) ---- */
extern const uint8_t uc_ascii[128];
extern const uint32_t uc_range[], uc_ccc[], uc_han[], uc_deepseek[];
extern const uint64_t uc_decomp[];
extern const uint16_t uc_block[], uc_comp[];
extern const char uc_deepseek_pattern[];
extern const size_t uc_range_n, uc_ccc_n, uc_han_n, uc_deepseek_n, uc_decomp_n, uc_comp_n;

static inline struct uc_char uc_at(const uint8_t *p, const uint8_t *end)
{
    struct uc_char c = {0, 0, 0};
    if (p == end)
        return c;
    if (*p < 128)
        return (struct uc_char){*p, uc_ascii[*p], 1};
    int len = utf8_decode(p, (size_t)(end - p), &c.cp);
    if (len == 0)
        return (struct uc_char){0xFFFD, UC_S, 1};
    c.cls = uc_class(c.cp);
    c.len = (uint8_t)len;
    return c;
}

#endif
