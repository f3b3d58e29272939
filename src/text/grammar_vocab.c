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

/* An open node: its items are at .. end - 1, and those before `at` are done. */
struct open {
    uint32_t node, at, end;
    struct place place;
};

struct trie {
    struct grammar_vocab *v;
    size_t cap; /* of nodes */
    uint32_t part;
    struct item *x;
    struct open *path; /* [depth] */
    uint8_t kind[256];
};

static bool inside(struct place p)
{
    return p.left > 0 || p.bad;
}

static void rank_add(struct trie *t, uint32_t item, uint32_t chars, uint8_t last)
{
    struct grammar_vocab *v = t->v;
    uint32_t id = t->x[item].id;
    v->ranked[v->n_ranked] = id;
    v->chars[v->n_ranked] = (uint16_t)chars;
    v->last[v->n_ranked++] = last;
    bit_set(v->whole + t->part * v->n_word, id);
}

/* The kind of a byte that leads from one place to another. */
static uint64_t kind_of(const struct trie *t, struct place from, uint8_t byte, struct place to)
{
    return to.bad ? (uint64_t)1 << V_KIND_BAD : from.left > 0 ? 0 : (uint64_t)1 << t->kind[byte];
}

static void is_below(struct v_node *n, struct place place, uint64_t kinds, uint32_t height)
{
    height += place.left == 0 ? 1 : 0;
    n->kinds |= kinds;
    n->height = height > n->height ? (uint16_t)height : n->height;
}

/* The items from `at` on that have the same byte at that depth. */
static uint32_t group(const struct trie *t, uint32_t at, uint32_t end, uint32_t depth)
{
    char byte = t->x[at].s[depth];
    while (at < end && t->x[at].s[depth] == byte)
        at++;
    return at;
}

/* Add the node that path[depth] is to be, the tokens that end there, and its leaves. */
static bool node_open(struct trie *t, uint32_t depth)
{
    struct grammar_vocab *v = t->v;
    struct open *p = &t->path[depth];
    struct v_node n = {.rank = (uint32_t)v->n_ranked, .depth = (uint16_t)depth};
    if (!mem_grow((void **)&v->node, &t->cap, v->n_node, sizeof *v->node))
        return false;
    p->node = (uint32_t)v->n_node++;
    if (depth > 0) {
        n.byte = (uint8_t)t->x[p->at].s[depth - 1];
        n.chars = (uint16_t)(v->node[p[-1].node].chars + (p[-1].place.left == 0));
    }
    while (p->at < p->end && t->x[p->at].n == depth)
        rank_add(t, p->at++, n.chars, n.byte);
    n.leaf = (uint32_t)v->n_ranked;
    for (uint32_t i = p->at, end; i < p->end; i = end) {
        end = group(t, i, p->end, depth);
        if (t->x[end - 1].n > depth + 1)
            continue;
        uint8_t byte = (uint8_t)t->x[i].s[depth];
        is_below(&n, p->place, kind_of(t, p->place, byte, after(p->place, byte)), 0);
        for (; i < end; i++)
            rank_add(t, i, n.chars + (p->place.left == 0 ? 1u : 0), byte);
    }
    n.inner = (uint32_t)v->n_ranked;
    v->node[p->node] = n;
    return true;
}

/* Nothing more comes below the open node of that depth. Inside a character its kinds are all, so that nothing takes it
 * for a beginning. */
static void node_close(struct trie *t, uint32_t depth)
{
    const struct open *p = &t->path[depth];
    struct v_node *n = &t->v->node[p->node];
    n->skip = (uint32_t)t->v->n_node;
    if (depth > 0) {
        uint64_t whole = n->kinds | kind_of(t, p[-1].place, n->byte, p->place);
        is_below(&t->v->node[p[-1].node], p[-1].place, whole, n->height);
        n->whole = inside(p[-1].place) ? UINT64_MAX : whole;
    }
    if (inside(p->place))
        n->kinds = UINT64_MAX;
}

/* The next items below the open node of that depth that are a node: open it. */
static bool node_next(struct trie *t, uint32_t depth, bool *found)
{
    struct open *p = &t->path[depth];
    *found = false;
    while (p->at < p->end && !*found) {
        uint32_t at = p->at;
        p->at = group(t, at, p->end, depth);
        *found = t->x[p->at - 1].n > depth + 1;
        if (*found)
            p[1] = (struct open){.at = at, .end = p->at, .place = after(p->place, (uint8_t)t->x[at].s[depth])};
    }
    return !*found || node_open(t, depth + 1);
}

/* One trie of n sorted items. */
static bool trie_add(struct trie *t, uint32_t n)
{
    uint32_t depth = 0;
    bool found;
    t->v->root[t->part] = (uint32_t)t->v->n_node;
    t->path[0] = (struct open){.end = n};
    if (!node_open(t, 0))
        return false;
    for (;;) {
        if (!node_next(t, depth, &found))
            return false;
        if (found) {
            depth++;
            continue;
        }
        node_close(t, depth);
        if (depth-- == 0)
            return true;
    }
}

static bool tries_add(struct grammar_vocab *v, const struct grammar_piece *piece)
{
    struct trie t = {.v = v, .x = mem_alloc(v->n_piece * sizeof *t.x)};
    t.path = mem_alloc((V_PIECE_MAX + 1) * sizeof *t.path);
    kinds_of_bytes(t.kind);
    bool done = t.x && t.path;
    for (; t.part < V_PART && done; t.part++) {
        uint32_t n = 0, *longest = &v->longest[t.part];
        for (size_t i = 0; i < v->n_piece; i++) {
            if (piece[i].n <= (t.part ? part_longest[t.part - 1] : 0) || piece[i].n > part_longest[t.part] ||
                bit_get(v->end, i))
                continue;
            t.x[n++] = (struct item){piece[i].s, piece[i].n, (uint32_t)i};
            *longest = piece[i].n > *longest ? piece[i].n : *longest;
        }
        qsort(t.x, n, sizeof *t.x, by_bytes);
        done = trie_add(&t, n);
    }
    done = done && mem_grow((void **)&v->node, &t.cap, v->n_node, sizeof *v->node);
    if (done)
        v->node[v->n_node++] = (struct v_node){.rank = (uint32_t)v->n_ranked};
    mem_free(t.x);
    mem_free(t.path);
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
    v->ranked = mem_alloc(n_piece * sizeof *v->ranked);
    v->chars = mem_alloc(n_piece * sizeof *v->chars);
    v->last = mem_alloc(n_piece * sizeof *v->last);
    v->piece = mem_alloc((n_piece + 1) * sizeof *v->piece);
    v->end = mem_calloc(v->n_word, sizeof *v->end);
    v->whole = mem_calloc(V_PART * v->n_word, sizeof *v->whole);
    bool done = v->ranked && v->chars && v->last && v->piece && v->end && v->whole;
    for (size_t i = 0; i < n_end && done; i++)
        bit_set(v->end, end[i]);
    if (!done || !text_add(v, piece) || !tries_add(v, piece)) {
        grammar_vocab_free(v);
        return err_nomem(e, "grammar vocabulary", n_piece * sizeof *v->ranked);
    }
    *out = v;
    return GLIM_OK;
}

void grammar_vocab_free(struct grammar_vocab *v)
{
    if (!v)
        return;
    mem_free(v->node);
    mem_free(v->ranked);
    mem_free(v->chars);
    mem_free(v->last);
    mem_free(v->piece);
    mem_free(v->text);
    mem_free(v->end);
    mem_free(v->whole);
    mem_free(v);
}

size_t grammar_vocab_words(const struct grammar_vocab *v)
{
    return v->n_word;
}
