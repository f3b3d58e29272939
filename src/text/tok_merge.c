/* Byte-pair merging of one word in O(n log n): a linked list of symbols and a heap of the pairs that could merge.
 *
 * The heap holds (priority << 32 | position of the left symbol), smallest first, so equal priorities go from left to
 * right, as in the originals. An entry is not removed when one of its symbols merges elsewhere; when it comes up, the
 * pair is looked up again and the entry counts only if it would still get the same priority.
 *
 * TOK_BPE: priority = index of the merge. TOK_SPM: pairs whose joined text is a token, the highest score first. */
#include "base/arith.h"
#include "base/mem.h"
#include "text/tok_impl.h"

#include <string.h>

enum { MERGED = -2 };

glim_status tok_push(struct tok_work *w, int32_t id)
{
    if (w->n_id == w->cap_id && !mem_grow((void **)&w->id, &w->cap_id, w->n_id, sizeof *w->id))
        return err_nomem(w->e, "token ids", w->n_id * sizeof *w->id * 2);
    w->id[w->n_id++] = id;
    return GLIM_OK;
}

glim_status tok_push_unknown(struct tok_work *w, const uint8_t *p, size_t n)
{
    const struct tokenizer *t = w->t;
    bool all = true;
    for (size_t i = 0; i < n; i++)
        all = all && t->byte_id[p[i]] >= 0;
    for (size_t i = 0; i < n && all; i++)
        TRY(tok_push(w, t->byte_id[p[i]]));
    if (all)
        return GLIM_OK;
    if (t->unk < 0)
        return err_set(w->e, GLIM_REFUSED,
                       "cannot tokenise: byte 0x%02X: have a vocabulary without a token for it, need byte tokens or an "
                       "unknown token",
                       p[0]);
    if (t->rules.fuse_unk && w->n_id > w->word_id && w->id[w->n_id - 1] == t->unk)
        return GLIM_OK;
    return tok_push(w, t->unk);
}

/* ---- the heap ---- */

static glim_status heap_push(struct tok_work *w, uint64_t v)
{
    if (w->n_heap == w->cap_heap && !mem_grow((void **)&w->heap, &w->cap_heap, w->n_heap, sizeof *w->heap))
        return err_nomem(w->e, "heap of merges", w->n_heap * sizeof *w->heap * 2);
    size_t i = w->n_heap++;
    for (; i > 0 && v < w->heap[(i - 1) / 2]; i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = v;
    return GLIM_OK;
}

static uint64_t heap_pop(struct tok_work *w)
{
    uint64_t top = w->heap[0], v = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < w->n_heap; i = k) {
        k += k + 1 < w->n_heap && w->heap[k + 1] < w->heap[k];
        if (v <= w->heap[k])
            break;
        w->heap[i] = w->heap[k];
    }
    w->heap[i] = v;
    return top;
}

/* ---- pairs ---- */

/* Bits of a float in an order where a higher score is a smaller number. */
static uint32_t score_rank(float score)
{
    uint32_t u;
    score += 0.0f; /* -0 and +0 are one score */
    memcpy(&u, &score, sizeof u);
    return u & 0x80000000u ? u : ~u & 0x7FFFFFFFu;
}

/* A token that merging may make: control, unknown and byte tokens are not text. */
static bool is_textual(uint8_t type)
{
    type &= TOK_TYPE;
    return type == TOK_NORMAL || type == TOK_USER || type == TOK_UNUSED;
}

static int32_t find_textual(const struct tokenizer *t, const uint8_t *p, size_t n)
{
    int32_t id = tok_find(t, (const char *)p, n);
    return id >= 0 && is_textual(t->type[id]) ? id : -1;
}

/* May symbols i and its next merge? Their priority and result. p, n: the word. */
static bool pair_at(const struct tok_work *w, const uint8_t *p, size_t n, int32_t i, uint32_t *rank, int32_t *id)
{
    const struct tokenizer *t = w->t;
    const struct tok_symbol *a = &w->sym[i], *b = a->next < 0 ? NULL : &w->sym[a->next];
    if (!b)
        return false;
    if (t->rules.kind == TOK_SPM) {
        size_t end = b->next < 0 ? n : w->sym[b->next].start;
        *id = find_textual(t, p + a->start, end - a->start);
        *rank = *id < 0 ? 0 : score_rank(t->score[*id]);
        return *id >= 0;
    }
    const struct pair_slot *m = a->id < 0 || b->id < 0 ? NULL : tok_find_pair(t, (uint32_t)a->id, (uint32_t)b->id);
    if (m) {
        *rank = m->rank;
        *id = (int32_t)m->id;
    }
    return m != NULL;
}

static glim_status offer(struct tok_work *w, const uint8_t *p, size_t n, int32_t i)
{
    uint32_t rank;
    int32_t id;
    if (i < 0 || !pair_at(w, p, n, i, &rank, &id))
        return GLIM_OK;
    return heap_push(w, (uint64_t)rank << 32 | (uint32_t)i);
}

static glim_status merge_all(struct tok_work *w, const uint8_t *p, size_t n)
{
    while (w->n_heap) {
        uint64_t top = heap_pop(w);
        int32_t i = (int32_t)(uint32_t)top, id;
        uint32_t rank;
        struct tok_symbol *a = &w->sym[i];
        if (a->id == MERGED || !pair_at(w, p, n, i, &rank, &id) || rank != top >> 32)
            continue;
        struct tok_symbol *b = &w->sym[a->next];
        a->id = id;
        a->next = b->next;
        if (b->next >= 0)
            w->sym[b->next].prev = i;
        b->id = MERGED;
        TRY(offer(w, p, n, a->prev));
        TRY(offer(w, p, n, i));
    }
    return GLIM_OK;
}

/* ---- words ---- */

/* Bytes for a byte-level vocabulary, else characters (an invalid byte is one). */
static size_t first_symbols(struct tok_work *w, const uint8_t *p, size_t n)
{
    const struct tokenizer *t = w->t;
    size_t k = 0;
    for (size_t i = 0, len; i < n; i += len) {
        len = t->rules.byte_level ? 1 : uc_at(p + i, p + n).len;
        int32_t id = t->rules.byte_level ? t->byte_id[p[i]] : find_textual(t, p + i, len);
        w->sym[k] = (struct tok_symbol){(uint32_t)i, (int32_t)k - 1, (int32_t)k + 1, id};
        k++;
    }
    w->sym[k - 1].next = -1;
    return k;
}

static glim_status whole_word(struct tok_work *w, const uint8_t *p, size_t n, int32_t *id)
{
    const struct tokenizer *t = w->t;
    char utf8[4];
    *id = -1;
    if (n > t->max_piece)
        return GLIM_OK;
    if (!t->rules.byte_level) {
        *id = find_textual(t, p, n);
        return GLIM_OK;
    }
    str_clear(&w->word);
    for (size_t i = 0; i < n; i++)
        str_add(&w->word, utf8, (size_t)utf8_encode(tok_letter_of_byte(p[i]), utf8));
    if (w->word.failed)
        return err_nomem(w->e, "word", 2 * n);
    *id = find_textual(t, (const uint8_t *)w->word.s, w->word.n);
    return GLIM_OK;
}

static glim_status reserve_symbols(struct tok_work *w, size_t n)
{
    if (n <= w->cap_sym)
        return GLIM_OK;
    size_t cap = n < 64 ? 64 : n + n / 4;
    mem_free(w->sym);
    w->cap_sym = 0;
    w->sym = mem_alloc(cap * sizeof *w->sym);
    if (!w->sym)
        return err_nomem(w->e, "symbols of a word", cap * sizeof *w->sym);
    w->cap_sym = cap;
    return GLIM_OK;
}

glim_status tok_merge_word(struct tok_work *w, const uint8_t *p, size_t n)
{
    if (w->t->rules.ignore_merges) {
        int32_t id;
        TRY(whole_word(w, p, n, &id));
        if (id >= 0)
            return tok_push(w, id);
    }
    TRY(reserve_symbols(w, n));
    size_t k = first_symbols(w, p, n);
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < k; i++)
        TRY(offer(w, p, n, (int32_t)i));
    TRY(merge_all(w, p, n));
    for (int32_t i = 0; i >= 0; i = w->sym[i].next) {
        const struct tok_symbol *s = &w->sym[i];
        size_t end = s->next < 0 ? n : w->sym[s->next].start;
        if (s->id >= 0)
            TRY(tok_push(w, s->id));
        else
            TRY(tok_push_unknown(w, p + s->start, end - s->start));
    }
    return GLIM_OK;
}
