/* Lookup tables of a vocabulary: piece → id, pair of ids → merge, and tries over byte strings. All are open addressing
 * with linear probing at a load of at most one half. A chain longer than MAX_PROBE cannot come from an honest file (it
 * would be hundreds of standard deviations out), so it is refused: a hostile vocabulary may not make opening quadratic.
 */
#include "base/arith.h"
#include "base/hash.h"
#include "base/mem.h"
#include "text/tok_impl.h"

#include <string.h>

enum { MAX_PROBE = 2000 };
#define EMPTY UINT32_MAX

static glim_status too_long(struct glim_err *e, const char *what)
{
    return err_set(e, GLIM_FAILED, "cannot open the vocabulary: %s: have more than %d colliding entries, need fewer",
                   what, MAX_PROBE);
}

size_t tok_table_slots(size_t n)
{
    size_t slots = 16;
    while (slots < 2 * n)
        slots *= 2;
    return slots;
}

/* ---- pieces ---- */

static bool same_text(const struct tokenizer *t, uint32_t id, const char *s, size_t n)
{
    struct tok_piece p = tok_text(t, id);
    return p.n == n && memcmp(p.s, s, n) == 0;
}

/* h: xxh3 of the text. */
static int32_t find_hashed(const struct tokenizer *t, const char *s, size_t n, uint64_t h)
{
    uint32_t tag = (uint32_t)(h >> 32);
    for (size_t i = h & t->slot_mask; t->slot[i].id != EMPTY; i = (i + 1) & t->slot_mask)
        if (t->slot[i].tag == tag && same_text(t, t->slot[i].id, s, n))
            return (int32_t)t->slot[i].id;
    return -1;
}

int32_t tok_find(const struct tokenizer *t, const char *s, size_t n)
{
    return n == 0 || n > t->max_piece ? -1 : find_hashed(t, s, n, xxh3(s, n));
}

/* Of pieces spelled alike the first stays; empty pieces are not found. */
glim_status tok_table_text(struct tokenizer *t, struct glim_err *e)
{
    memset(t->slot, 0xFF, (t->slot_mask + 1) * sizeof *t->slot);
    for (uint32_t id = 0; id < t->n; id++) {
        struct tok_piece p = tok_text(t, id);
        if (p.n == 0)
            continue;
        uint64_t h = xxh3(p.s, p.n);
        uint32_t tag = (uint32_t)(h >> 32);
        size_t i = h & t->slot_mask;
        int probe = 0;
        while (t->slot[i].id != EMPTY && !(t->slot[i].tag == tag && same_text(t, t->slot[i].id, p.s, p.n))) {
            if (++probe > MAX_PROBE)
                return too_long(e, "pieces");
            i = (i + 1) & t->slot_mask;
        }
        if (t->slot[i].id == EMPTY)
            t->slot[i] = (struct text_slot){id, tag};
    }
    return GLIM_OK;
}

/* ---- merges ---- */

static size_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (size_t)(h ^ h >> 29);
}

const struct pair_slot *tok_find_pair(const struct tokenizer *t, uint32_t left, uint32_t right)
{
    for (size_t i = pair_hash(left, right) & t->pair_mask; t->pair[i].left != EMPTY; i = (i + 1) & t->pair_mask)
        if (t->pair[i].left == left && t->pair[i].right == right)
            return &t->pair[i];
    return NULL;
}

static glim_status add_pair(struct tokenizer *t, struct pair_slot m, struct glim_err *e)
{
    size_t i = pair_hash(m.left, m.right) & t->pair_mask;
    for (int probe = 0; t->pair[i].left != EMPTY; probe++) {
        if (t->pair[i].left == m.left && t->pair[i].right == m.right)
            return GLIM_OK; /* the first, which is the stronger, stays */
        if (probe > MAX_PROBE)
            return too_long(e, "merges");
        i = (i + 1) & t->pair_mask;
    }
    t->pair[i] = m;
    return GLIM_OK;
}

/* Half a million merges look up three pieces each, nearly all of them out of cache. So they go in batches, and what the
 * next step of a batch will read is asked for while the others are worked on. */
enum { BATCH = 16 };

struct merge {
    struct tok_piece side[3]; /* left, right, joined */
    uint64_t hash[3];
    int32_t id[3];
};

/* joined: room for max_piece bytes. */
static glim_status cut_merge(const struct tokenizer *t, const struct tok_spec *spec, size_t i, const uint32_t *cut,
                             char *joined, struct merge *m, struct glim_err *e)
{
    struct tok_piece p = spec->merge[i];
    const char *space = p.n < 3 ? NULL : cut ? p.s + cut[i] : memchr(p.s + 1, ' ', p.n - 2);
    if (!space)
        return err_set(e, GLIM_FAILED, "cannot open the vocabulary: merge %zu: have \"%.*s\", need \"left right\"", i,
                       (int)(p.n < 60 ? p.n : 60), p.s ? p.s : "");
    uint32_t left = (uint32_t)(space - p.s), right = p.n - left - 1;
    m->side[0] = (struct tok_piece){p.s, left};
    m->side[1] = (struct tok_piece){space + 1, right};
    m->side[2] = (struct tok_piece){joined, left + right};
    if (left + right > t->max_piece) {
        m->side[2].n = 0; /* too long to be a piece */
    } else {
        memcpy(joined, p.s, left);
        memcpy(joined + left, space + 1, right);
    }
    for (int k = 0; k < 3; k++) {
        m->hash[k] = xxh3(m->side[k].s, m->side[k].n);
        __builtin_prefetch(&t->slot[m->hash[k] & t->slot_mask]);
    }
    return GLIM_OK;
}

static uint32_t first_guess(const struct tokenizer *t, const struct merge *m, int k)
{
    uint32_t id = t->slot[m->hash[k] & t->slot_mask].id;
    return id == EMPTY ? 0 : id;
}

static void find_sides(const struct tokenizer *t, struct merge *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            __builtin_prefetch(&t->text_at[first_guess(t, &m[i], k)]);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            __builtin_prefetch(t->text + t->text_at[first_guess(t, &m[i], k)]);
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++)
            m[i].id[k] = m[i].side[k].n ? find_hashed(t, m[i].side[k].s, m[i].side[k].n, m[i].hash[k]) : -1;
        __builtin_prefetch(&t->pair[pair_hash((uint32_t)m[i].id[0], (uint32_t)m[i].id[1]) & t->pair_mask]);
    }
}

static glim_status add_batch(struct tokenizer *t, const struct tok_spec *spec, size_t first, struct merge *m, size_t n,
                             struct glim_err *e)
{
    static const char *const names[] = {"left side", "right side", "result"};
    find_sides(t, m, n);
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++)
            if (m[i].id[k] < 0)
                return err_set(e, GLIM_FAILED,
                               "cannot open the vocabulary: merge %zu \"%.*s\": have no token for its %s, need one",
                               first + i, (int)(spec->merge[first + i].n < 60 ? spec->merge[first + i].n : 60),
                               spec->merge[first + i].s, names[k]);
        int type = t->type[m[i].id[2]] & TOK_TYPE;
        if (type == TOK_CONTROL || (t->rules.byte_level && type == TOK_USER))
            continue; /* ordinary text never becomes an added token, whatever the merges say */
        TRY(add_pair(
            t,
            (struct pair_slot){(uint32_t)m[i].id[0], (uint32_t)m[i].id[1], (uint32_t)m[i].id[2], (uint32_t)(first + i)},
            e));
    }
    return GLIM_OK;
}

glim_status tok_table_merges(struct tokenizer *t, const struct tok_spec *spec, const uint32_t *cut, struct glim_err *e)
{
    struct merge m[BATCH];
    char *joined = mem_alloc(BATCH * (size_t)t->max_piece);
    glim_status st = GLIM_OK;
    if (!joined)
        return err_nomem(e, "merges", BATCH * (size_t)t->max_piece);
    memset(t->pair, 0xFF, (t->pair_mask + 1) * sizeof *t->pair);
    for (size_t i = 0; i < spec->n_merge && st == GLIM_OK; i += BATCH) {
        size_t n = spec->n_merge - i < BATCH ? spec->n_merge - i : BATCH;
        for (size_t k = 0; k < n && st == GLIM_OK; k++)
            st = cut_merge(t, spec, i + k, cut, joined + k * t->max_piece, &m[k], e);
        if (st == GLIM_OK)
            st = add_batch(t, spec, i, m, n, e);
    }
    mem_free(joined);
    return st;
}

/* ---- tries ---- */

static size_t edge_hash(uint64_t key)
{
    uint64_t h = key * 0x9E3779B97F4A7C15u;
    return (size_t)(h ^ h >> 29);
}

static uint64_t edge_key(uint32_t node, uint8_t c)
{
    return ((uint64_t)node << 8 | c) + 1;
}

static struct trie_slot *edge_slot(const struct trie *t, uint64_t key, int *probe)
{
    size_t mask = t->n_slot - 1, i = edge_hash(key) & mask;
    for (*probe = 0; t->slot[i].key && t->slot[i].key != key && *probe <= MAX_PROBE; ++*probe)
        i = (i + 1) & mask;
    return &t->slot[i];
}

const struct trie_slot *trie_step(const struct trie *t, uint32_t node, uint8_t c)
{
    int probe;
    if (t->n_slot == 0)
        return NULL;
    const struct trie_slot *s = edge_slot(t, edge_key(node, c), &probe);
    return s->key == edge_key(node, c) ? s : NULL;
}

static glim_status grow(struct trie *t, struct glim_err *e)
{
    struct trie old = *t, fresh = {.n_slot = old.n_slot ? old.n_slot * 2 : 64, .n_node = old.n_slot ? old.n_node : 1};
    int probe;
    fresh.slot = mem_calloc(fresh.n_slot, sizeof *fresh.slot);
    if (!fresh.slot)
        return err_nomem(e, "trie", fresh.n_slot * sizeof *fresh.slot);
    for (size_t i = 0; i < old.n_slot; i++)
        if (old.slot[i].key)
            *edge_slot(&fresh, old.slot[i].key, &probe) = old.slot[i];
    mem_free(old.slot);
    *t = fresh;
    return GLIM_OK;
}

glim_status trie_add(struct trie *t, const char *s, size_t n, int32_t id, struct glim_err *e)
{
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        int probe;
        if (2 * (t->n_node + 1) > t->n_slot)
            TRY(grow(t, e));
        uint64_t key = edge_key(node, (uint8_t)s[i]);
        struct trie_slot *x = edge_slot(t, key, &probe);
        if (probe > MAX_PROBE)
            return too_long(e, "trie");
        if (!x->key)
            *x = (struct trie_slot){.key = key, .node = (uint32_t)t->n_node++, .id = -1};
        if (i + 1 == n && x->id < 0)
            x->id = id;
        node = x->node;
    }
    return GLIM_OK;
}

void trie_fini(struct trie *t)
{
    mem_free(t->slot);
    *t = (struct trie){0};
}
