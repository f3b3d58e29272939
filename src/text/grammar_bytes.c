/* Code points as byte sequences, and classes of bytes. */
#include "text/grammar_impl.h"

#include <string.h>

/* ---- UTF-8 ---- */

static void put_seq(struct g_byte_seq *s, uint32_t first, uint32_t last)
{
    char a[4], b[4];
    s->n = (uint8_t)utf8_encode(first, a);
    utf8_encode(last, b);
    for (int i = 0; i < s->n; i++) {
        s->lo[i] = (uint8_t)a[i];
        s->hi[i] = (uint8_t)b[i];
    }
}

/* The last code point up to `last` so that first .. it is one sequence of byte ranges: all of one length, and whole
 * blocks of 64, 4096 or 262144 wherever an upper byte changes. */
static uint32_t one_seq(uint32_t first, uint32_t last)
{
    static const uint32_t longest[] = {0x7F, 0x7FF, 0xFFFF};
    for (int i = 0; i < 3; i++)
        if (first <= longest[i] && last > longest[i])
            last = longest[i];
    if (first <= 0x7F)
        return last;
    for (uint32_t bits = 6; bits <= 18; bits += 6) {
        uint32_t low = (1u << bits) - 1;
        if ((first & ~low) == (last & ~low))
            break;
        if (first & low)
            return first | low;
        if ((last & low) != low)
            last = (last & ~low) - 1;
    }
    return last;
}

size_t g_utf8_range(uint32_t first, uint32_t last, struct g_byte_seq out[G_SEQ_MAX])
{
    size_t n = 0;
    while (first <= last && n < G_SEQ_MAX) {
        uint32_t to = one_seq(first, last);
        put_seq(&out[n++], first, to);
        first = to + 1;
    }
    return n;
}

/* ---- classes ---- */

/* Split the classes of cls by a second partition of the bytes. */
static void refine(uint8_t cls[256], uint32_t *n_class, const uint8_t *other)
{
    uint16_t pair[256];
    uint8_t to[256];
    uint32_t n = 0;
    for (int i = 0; i < 256; i++)
        pair[i] = (uint16_t)(cls[i] << 8 | other[i]);
    for (int i = 0; i < 256; i++) {
        int k = 0;
        while (k < i && pair[k] != pair[i])
            k++;
        to[i] = k < i ? to[k] : (uint8_t)n++;
    }
    memcpy(cls, to, 256);
    *n_class = n;
}

void g_classes(struct grammar *g)
{
    bool begins[257] = {false};
    uint8_t range[256];
    uint8_t k = 0;
    for (size_t i = 0; i < g->n_edge; i++) {
        begins[g->edge[i].lo] = true;
        begins[g->edge[i].hi + 1] = true;
    }
    for (int i = 0; i < 256; i++) {
        if (i > 0 && begins[i])
            k++;
        range[i] = k;
    }
    memset(g->cls, 0, 256);
    refine(g->cls, &g->n_class, range);
    for (size_t i = 0; i < g->n_dfa; i++)
        refine(g->cls, &g->n_class, g->dfa[i]->cls);
    for (int i = 255; i >= 0; i--)
        g->byte[g->cls[i]] = (uint8_t)i;
}
