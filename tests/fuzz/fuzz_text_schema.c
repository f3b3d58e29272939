/* Any bytes as a JSON Schema: refused with a sentence, or a grammar whose random sentences end and are JSON. A schema
 * that takes long, or a walk that finds no next byte, is a crash as well. */
#include "base/mem.h"
#include "text/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok, const char *what, const char *detail)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, detail);
        abort();
    }
}

/* One walk of at most 400 bytes; when it reaches an end, the text must parse. */
static void walk(struct grammar_state *s, uint64_t seed)
{
    char text[401];
    size_t n = 0;
    uint64_t bits[5];
    struct glim_err e = {0};
    grammar_state_reset(s);
    while (n < 400) {
        uint32_t may[256], k = 0;
        if (grammar_mask(s, bits, &e) != GLIM_OK)
            return; /* a limit of the matcher, with its sentence */
        for (uint32_t i = 0; i < 256; i++)
            if (bits[i / 64] >> (i % 64) & 1)
                may[k++] = i;
        bool done = bits[4] & 1;
        check(done || k, "dead end", "");
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (done && (!k || seed >> 62 == 0)) {
            json_t *v = json_loadb(text, n, JSON_DECODE_ANY, NULL);
            check(v != NULL, "a sentence that is no JSON", text);
            json_decref(v);
            return;
        }
        text[n] = (char)may[(seed >> 33) % k];
        if (bits['"' / 64] >> ('"' % 64) & 1 && seed >> 61 & 1)
            text[n] = '"';
        check(grammar_accept(s, (uint8_t)text[n], &e) == GLIM_OK, "a byte of the mask is refused", e.message);
        text[++n] = 0;
    }
}

static void walks(const struct grammar *g)
{
    static char byte[256];
    struct grammar_piece piece[257];
    struct grammar_vocab *v = NULL;
    struct grammar_matcher *m = NULL;
    struct grammar_state *s = NULL;
    struct glim_err e = {0};
    uint32_t end = 256;
    for (int i = 0; i < 256; i++) {
        byte[i] = (char)i;
        piece[i] = (struct grammar_piece){&byte[i], 1};
    }
    piece[256] = (struct grammar_piece){"", 0};
    check(grammar_vocab_create(&v, piece, 257, &end, 1, &e) == GLIM_OK, "vocabulary", e.message);
    check(grammar_matcher_create(&m, g, v, &e) == GLIM_OK, "matcher", e.message);
    check(grammar_state_create(&s, m, &e) == GLIM_OK, "state", e.message);
    for (uint64_t i = 0; i < 4; i++)
        walk(s, i);
    grammar_state_free(s);
    grammar_matcher_free(m);
    grammar_vocab_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct glim_err e = {0};
    struct grammar *g;
    json_t *schema;
    uint8_t how = size ? data[size - 1] : 0;
    struct schema_opts opts = {.space = (enum schema_space)(how & 3), .closed = how & 4};
    if (size > 20000 || json_parse((const char *)data, size, "schema", &schema, &e) != GLIM_OK)
        return 0;
    glim_status st = schema_compile(&g, schema, &opts, &e);
    check(st == GLIM_OK || (e.message[0] && !g), "refused without a sentence", "");
    if (st == GLIM_OK)
        walks(g);
    grammar_free(g);
    json_decref(schema);
    return 0;
}
