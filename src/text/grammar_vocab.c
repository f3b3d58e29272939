/* The tokens of a vocabulary as tries, in depth-first order. */
#include "text/grammar_match.h"

#include "base/arith.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Most tokens are short; a count that is nearly used up matters to those longer than it alone. */
static const uint32_t part_longest[V_PART] = {8, 16, 32, V_PIECE_MAX};

/* Ascending; [V_KIND_BAD] is no range. */
const struct v_kind v_kinds[V_KINDS] = {
    {0xFF, 0x00}, {0x00, 0x08}, {0x09, 0x09}, {0x0A, 0x0A}, {0x0B, 0x0C}, {0x0D, 0x0D}, {0x0E, 0x1F}, {0x20, 0x20},
    {0x21, 0x21}, {0x22, 0x22}, {0x23, 0x23}, {0x24, 0x24}, {0x25, 0x25}, {0x26, 0x26}, {0x27, 0x27}, {0x28, 0x28},
    {0x29, 0x29}, {0x2A, 0x2A}, {0x2B, 0x2B}, {0x2C, 0x2C}, {0x2D, 0x2D}, {0x2E, 0x2E}, {0x2F, 0x2F}, {0x30, 0x39},
    {0x3A, 0x3A}, {0x3B, 0x3B}, {0x3C, 0x3C}, {0x3D, 0x3D}, {0x3E, 0x3E}, {0x3F, 0x3F}, {0x40, 0x40}, {0x41, 0x46},
    {0x47, 0x5A}, {0x5B, 0x5B}, {0x5C, 0x5C}, {0x5D, 0x5D}, {0x5E, 0x5E}, {0x5F, 0x5F}, {0x60, 0x60}, {0x61, 0x66},
    {0x67, 0x7A}, {0x7B, 0x7B}, {0x7C, 0x7C}, {0x7D, 0x7D}, {0x7E, 0x7E}, {0x7F, 0x7F}, {0xC2, 0xC2}, {0xC3, 0xC3},
    {0xC4, 0xCD}, {0xCE, 0xCE}, {0xCF, 0xCF}, {0xD0, 0xD0}, {0xD1, 0xD1}, {0xD2, 0xD7}, {0xD8, 0xDF}, {0xE0, 0xE0},
    {0xE1, 0xE1}, {0xE2, 0xE2}, {0xE3, 0xE3}, {0xE4, 0xE9}, {0xEA, 0xED}, {0xEE, 0xEF}, {0xF0, 0xF0}, {0xF1, 0xF4}};

/* kind[byte] of a character that begins with it. */
static void kinds_of_bytes(uint8_t kind[256])
{
    memset(kind, V_KIND_BAD, 256);
    for (int k = V_KIND_BAD + 1; k < V_KINDS; k++)
        memset(kind + v_kinds[k].first, k, v_kinds[k].last - v_kinds[k].first + 1u);
}

const struct v_lead v_leads[V_LEADS] = {
    {0xC2, 0xDF, 0x80, 0xBF, 1}, {0xE0, 0xE0, 0xA0, 0xBF, 2}, {0xE1, 0xEC, 0x80, 0xBF, 2}, {0xED, 0xED, 0x80, 0x9F, 2},
    {0xEE, 0xEF, 0x80, 0xBF, 2}, {0xF0, 0xF0, 0x90, 0xBF, 3}, {0xF1, 0xF3, 0x80, 0xBF, 3}, {0xF4, 0xF4, 0x80, 0x8F, 3},
};

/* Where in a character: how many bytes are to follow, and which the next may be; after a byte that none begins or goes
 * on with, `bad` for good. */
struct place {
    uint8_t left, lo, hi;
    bool bad;
};

static struct place after(struct place p, uint8_t byte)
{
    if (p.left > 0)
        return byte >= p.lo && byte <= p.hi ? (struct place){(uint8_t)(p.left - 1), 0x80, 0xBF, false}
                                            : (struct place){.bad = true};
    for (int i = 0; i < V_LEADS && byte >= 0x80 && !p.bad; i++)
        if (byte >= v_leads[i].first && byte <= v_leads[i].last)
            return (struct place){v_leads[i].more, v_leads[i].lo, v_leads[i].hi, false};
    return (struct place){.bad = p.bad || byte >= 0x80};
}

struct item {
    const char *s;
    uint32_t n, id;
};

static int by_bytes(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    int order = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
    if (order != 0)
        return order;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static bool node_add(struct grammar_vocab *v, size_t *cap, struct v_node x)
{
    if (!mem_grow((void **)&v->node, cap, v->n_node, sizeof *v->node))
        return false;
    x.rank = (uint32_t)v->n_ranked;
    v->node[v->n_node++] = x;
    return true;
}

struct open {
    uint32_t node;
    struct place place;
};

static bool inside(struct place p)
{
    return p.left > 0 || p.bad;
}

/* Nothing more comes below the open node of that depth. Inside a character its kinds are all, so that nothing takes it
 * for a beginning. */
static void node_close(struct grammar_vocab *v, const uint8_t kind[256], const struct open *path, uint32_t depth)
{
    struct v_node *n = &v->node[path[depth].node], *above = &v->node[path[depth - 1].node];
    struct place at = path[depth].place, before = path[depth - 1].place;
    uint64_t own = at.bad ? (uint64_t)1 << V_KIND_BAD : before.left > 0 ? 0 : (uint64_t)1 << kind[n->byte];
    n->skip = (uint32_t)v->n_node;
    n->whole = inside(before) ? UINT64_MAX : n->kinds | own;
    above->kinds |= n->kinds | own;
    above->height = n->height >= above->height ? (uint16_t)(n->height + 1) : above->height;
    if (inside(at))
        n->kinds = UINT64_MAX;
}

/* One trie of sorted items. path[d]: the open node of depth d. */
static bool trie_add(struct grammar_vocab *v, size_t *cap, uint32_t part, const struct item *x, size_t n,
                     struct open *path)
{
    uint32_t depth = 0;
    uint8_t kind[256];
    kinds_of_bytes(kind);
    path[0] = (struct open){.node = (uint32_t)v->n_node};
    v->root[part] = path[0].node;
    if (!node_add(v, cap, (struct v_node){.token = V_NONE}))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t same = 0;
        while (i > 0 && same < depth && same < x[i].n && x[i].s[same] == x[i - 1].s[same])
            same++;
        for (; depth > same; depth--)
            node_close(v, kind, path, depth);
        for (; depth < x[i].n; depth++) {
            path[depth + 1] = (struct open){(uint32_t)v->n_node, after(path[depth].place, (uint8_t)x[i].s[depth])};
            if (!node_add(
                    v, cap,
                    (struct v_node){.token = V_NONE, .depth = (uint16_t)(depth + 1), .byte = (uint8_t)x[i].s[depth]}))
                return false;
        }
        struct v_node *at = &v->node[path[depth].node];
        at->more = at->token != V_NONE;
        v->same[x[i].id] = at->token;
        at->token = x[i].id;
        v->ranked[v->n_ranked++] = x[i].id;
        v->longest[part] = x[i].n > v->longest[part] ? x[i].n : v->longest[part];
    }
    for (; depth > 0; depth--)
        node_close(v, kind, path, depth);
    v->node[path[0].node].skip = (uint32_t)v->n_node;
    return true;
}

static bool tries_add(struct grammar_vocab *v, const struct grammar_piece *piece)
{
    struct item *x = mem_alloc(v->n_piece * sizeof *x);
    struct open *path = mem_alloc((V_PIECE_MAX + 1) * sizeof *path);
    size_t cap = 0;
    bool done = x && path;
    for (uint32_t part = 0; part < V_PART && done; part++) {
        size_t n = 0;
        for (size_t i = 0; i < v->n_piece; i++)
            if (piece[i].n > (part ? part_longest[part - 1] : 0) && piece[i].n <= part_longest[part] &&
                !bit_get(v->end, i))
                x[n++] = (struct item){piece[i].s, piece[i].n, (uint32_t)i};
        qsort(x, n, sizeof *x, by_bytes);
        done = trie_add(v, &cap, part, x, n, path);
    }
    done = done && node_add(v, &cap, (struct v_node){.token = V_NONE});
    mem_free(x);
    mem_free(path);
    return done;
}

static bool text_add(struct grammar_vocab *v, const struct grammar_piece *piece)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n_piece; i++) {
        v->piece[i] = (uint32_t)n;
        n += piece[i].n;
    }
    v->piece[v->n_piece] = (uint32_t)n;
    if (!(v->text = mem_alloc(n)))
        return false;
    for (size_t i = 0; i < v->n_piece; i++)
        if (piece[i].n > 0)
            memcpy(v->text + v->piece[i], piece[i].s, piece[i].n);
    return true;
}

static glim_status check(const struct grammar_piece *piece, size_t n, const uint32_t *end, size_t n_end,
                         struct glim_err *e)
{
    size_t bytes = 0;
    if (n > INT32_MAX)
        return err_set(e, GLIM_REFUSED, "grammar: vocabulary: have %zu tokens, need fewer than 2^31", n);
    for (size_t i = 0; i < n; i++) {
        if (piece[i].n > V_PIECE_MAX)
            return err_set(e, GLIM_REFUSED, "grammar: token %zu: have %u bytes, need at most %d", i, piece[i].n,
                           V_PIECE_MAX);
        bytes += piece[i].n;
    }
    if (bytes > INT32_MAX)
        return err_set(e, GLIM_REFUSED, "grammar: vocabulary: have %zu bytes, need fewer than 2^31", bytes);
    for (size_t i = 0; i < n_end; i++)
        if (end[i] >= n)
            return err_set(e, GLIM_USAGE, "grammar: end token: have %u, need one below %zu", end[i], n);
    return GLIM_OK;
}

glim_status grammar_vocab_create(struct grammar_vocab **out, const struct grammar_piece *piece, size_t n_piece,
                                 const uint32_t *end, size_t n_end, struct glim_err *e)
{
    *out = NULL;
    TRY(check(piece, n_piece, end, n_end, e));
    struct grammar_vocab *v = mem_calloc(1, sizeof *v);
    if (!v)
        return err_nomem(e, "grammar vocabulary", sizeof *v);
    v->n_piece = n_piece;
    v->n_word = ceil_div(n_piece, 64);
    v->same = mem_alloc(n_piece * sizeof *v->same);
    v->ranked = mem_alloc(n_piece * sizeof *v->ranked);
    v->piece = mem_alloc((n_piece + 1) * sizeof *v->piece);
    v->end = mem_calloc(v->n_word, sizeof *v->end);
    bool done = v->same && v->ranked && v->piece && v->end;
    for (size_t i = 0; i < n_end && done; i++)
        bit_set(v->end, end[i]);
    if (!done || !text_add(v, piece) || !tries_add(v, piece)) {
        grammar_vocab_free(v);
        return err_nomem(e, "grammar vocabulary", n_piece * sizeof *v->same);
    }
    *out = v;
    return GLIM_OK;
}

void grammar_vocab_free(struct grammar_vocab *v)
{
    if (!v)
        return;
    mem_free(v->node);
    mem_free(v->same);
    mem_free(v->ranked);
    mem_free(v->piece);
    mem_free(v->text);
    mem_free(v->end);
    mem_free(v);
}

size_t grammar_vocab_words(const struct grammar_vocab *v)
{
    return v->n_word;
}
