/* Unigram language model: of all ways to cut a word into pieces, the one whose log probabilities sum highest (Viterbi),
 * and SentencePiece's compiled normaliser.
 *
 * Time is O(n * longest piece): from each character the trie of pieces is walked as far as it goes. Where no piece
 * covers exactly one character, the unknown token may, at a penalty. Of equal sums the one found first, with the
 * longest last piece, stays, and sums are double: both as in the originals. */
#include "base/arith.h"
#include "base/mem.h"
#include "text/tok_impl.h"

#include <string.h>

struct best {
    double sum;
    uint32_t from; /* where its last piece begins */
    int32_t id;    /* -1 = unknown */
    bool reached;
};

static void improve(struct best *b, const struct best *from, uint32_t at, int32_t id, double score)
{
    double sum = from->sum + score;
    if (!b->reached || sum > b->sum)
        *b = (struct best){sum, at, id, true};
}

static void forward(const struct tokenizer *t, const uint8_t *p, size_t n, struct best *b)
{
    b[0].reached = true;
    for (size_t i = 0, len; i < n; i += len) {
        bool single = false;
        uint32_t node = 0;
        len = uc_at(p + i, p + n).len;
        for (size_t j = i; j < n; j++) {
            const struct trie_slot *x = trie_step(&t->words, node, p[j]);
            if (!x)
                break;
            if (x->id >= 0) {
                bool user = (t->type[x->id] & TOK_TYPE) == TOK_USER;
                single = single || j + 1 - i == len;
                improve(&b[j + 1], &b[i], (uint32_t)i, x->id, user ? 0 : (double)t->score[x->id]);
            }
            node = x->node;
        }
        if (!single)
            improve(&b[i + len], &b[i], (uint32_t)i, -1, t->unk_score);
    }
}

/* Turn the chain of last pieces around: afterwards b[i].from is where the piece that begins at i ends. Every chain runs
 * over reached positions only, as each position's `from` was reached. */
static void turn_around(struct best *b, size_t n)
{
    size_t next = n;
    uint32_t end = (uint32_t)n;
    int32_t id = b[n].id;
    for (size_t i = b[n].from;; i = next) {
        int32_t own = b[i].id;
        next = b[i].from;
        b[i].id = id;
        b[i].from = end;
        if (i == 0)
            break;
        id = own;
        end = (uint32_t)i;
    }
}

glim_status tok_unigram_word(struct tok_work *w, const uint8_t *p, size_t n)
{
    struct best *b = mem_calloc(n + 1, sizeof *b);
    glim_status st = GLIM_OK;
    if (!b)
        return err_nomem(w->e, "unigram paths", (n + 1) * sizeof *b);
    forward(w->t, p, n, b);
    turn_around(b, n);
    for (size_t i = 0; i < n && st == GLIM_OK;) {
        size_t end = b[i].from;
        if (b[i].id >= 0) {
            st = tok_push(w, b[i].id);
        } else {
            while (end < n && b[end].id < 0) /* neighbours fuse */
                end = b[end].from;
            st = tok_push_unknown(w, p + i, end - i);
        }
        i = end;
    }
    mem_free(b);
    return st;
}

/* ---- compiled normaliser ----
 *
 * u32 size of the trie in bytes, the trie, then replacement strings ended by NUL. The trie is a double array (Darts):
 * units of 32 bits with the label in bits 0-7, "has a value" in bit 8, an offset in bits 10-30 (scaled by 256 when bit
 * 9 is set). The child of node i by byte c is i ^ offset(i) ^ c, if its label is c; a value unit has bit 31 set. */

static uint32_t unit(const uint8_t *trie, size_t i)
{
    uint32_t u;
    memcpy(&u, trie + 4 * i, 4);
    return u;
}

static uint32_t unit_offset(uint32_t u)
{
    return (u >> 10) << ((u & 1u << 9) >> 6);
}

glim_status tok_charsmap_check(const uint8_t *p, size_t n, struct glim_err *e)
{
    uint32_t size = 0;
    if (n >= 4)
        memcpy(&size, p, 4);
    if (size < 4 || size % 4 || size > n - 4 || n == 4 + (size_t)size || p[n - 1] != 0)
        return err_set(
            e, GLIM_FAILED,
            "cannot open the vocabulary: precompiled_charsmap: have %zu bytes with a trie of %u, need a trie "
            "and NUL-ended strings",
            n, size);
    return GLIM_OK;
}

/* Length of the longest prefix of p that the normaliser replaces, 0 when none; *value: where the replacement stands. */
static size_t longest(const uint8_t *trie, size_t n_unit, const uint8_t *p, size_t n, size_t *value)
{
    size_t found = 0, node = unit_offset(unit(trie, 0));
    for (size_t i = 0; i < n && p[i]; i++) {
        node ^= p[i];
        if (node >= n_unit)
            break;
        uint32_t u = unit(trie, node);
        if ((u & (1u << 31 | 0xFF)) != p[i])
            break;
        node ^= unit_offset(u);
        if (u >> 8 & 1 && node < n_unit) {
            found = i + 1;
            *value = unit(trie, node) & 0x7FFFFFFF;
        }
    }
    return found;
}

struct spacing {
    bool in_word, prepended;
};

static void add_normal(const struct tok_rules *r, struct spacing *s, const char *p, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != ' ') {
            bool first = !s->in_word && ((r->prefix != TOK_PREFIX_NONE && !s->prepended) || r->merge_spaces);
            if (first) {
                str_puts(out, TOK_SPACE);
                s->prepended = true;
            }
            s->in_word = true;
            str_putc(out, p[i]);
        } else {
            s->in_word = false;
            if (!r->merge_spaces)
                str_puts(out, TOK_SPACE);
        }
    }
}

glim_status tok_charsmap(const struct tokenizer *t, const uint8_t *p, size_t n, struct str *out, struct glim_err *e)
{
    uint32_t size = 0;
    struct spacing s = {0};
    if (t->charsmap)
        memcpy(&size, t->charsmap, 4);
    const uint8_t *trie = t->charsmap ? t->charsmap + 4 : NULL;
    const char *strings = trie ? (const char *)trie + size : NULL;
    for (size_t i = 0; i < n;) {
        size_t value = 0, len = size ? longest(trie, size / 4, p + i, n - i, &value) : 0;
        if (len && value >= t->n_charsmap - 4 - size)
            return err_set(e, GLIM_FAILED,
                           "cannot normalise: precompiled_charsmap: have a replacement at %zu, need < %zu", value,
                           t->n_charsmap - 4 - size);
        if (len) {
            add_normal(&t->rules, &s, strings + value, strlen(strings + value), out);
        } else {
            len = uc_at(p + i, p + n).len;
            add_normal(&t->rules, &s, (const char *)p + i, len, out);
        }
        i += len;
    }
    if (t->rules.prefix != TOK_PREFIX_NONE && !s.prepended && !t->rules.merge_spaces) /* nothing but spaces */
        str_puts(out, TOK_SPACE);
    return out->failed ? err_nomem(e, "normalised text", n) : GLIM_OK;
}
