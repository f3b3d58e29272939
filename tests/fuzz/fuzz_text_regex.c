/* Any bytes as a regular expression and a text: refused with a sentence, or an automaton whose answers fit together:
 * what matches as a whole matches anywhere, and only UTF-8 does. The expression ends at the first NUL. */
#include "base/str.h"
#include "text/regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static bool is_utf8(const char *p, size_t n)
{
    uint32_t cp;
    int len = 1;
    for (size_t i = 0; i < n && len; i += (size_t)len)
        len = utf8_decode((const uint8_t *)p + i, n - i, &cp);
    return len > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    size_t n = end ? (size_t)(end - data) : size;
    const char *text = (const char *)data + n + (end != NULL);
    size_t n_text = size - n - (end != NULL);
    struct dfa *whole, *part, *rest;
    struct glim_err e = {0}, f = {0};
    if (n > 2000)
        return 0;
    glim_status a = regex_dfa(&whole, (const char *)data, n, REGEX_WHOLE, &e);
    glim_status b = regex_dfa(&part, (const char *)data, n, REGEX_ANYWHERE, &f);
    check(a == GLIM_OK || (e.message[0] && !whole), "refused without a sentence");
    check(b == GLIM_OK || (f.message[0] && !part), "refused without a sentence");
    if (a == GLIM_OK) {
        bool match = dfa_match(whole, text, n_text);
        check(!match || is_utf8(text, n_text), "matches what is not UTF-8");
        if (b == GLIM_OK)
            check(!match || dfa_match(part, text, n_text), "a whole match is a match");
    }
    if (a == GLIM_OK && b == GLIM_OK && dfa_combine(&rest, whole, DFA_BUT_NOT, part, &e) == GLIM_OK) {
        check(dfa_is_empty(rest), "some whole match is no match");
        dfa_free(rest);
    }
    dfa_free(whole);
    dfa_free(part);
    return 0;
}
