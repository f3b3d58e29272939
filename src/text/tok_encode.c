/* From text to ids: special tokens are cut out first, the stretches between them are normalised, split into words, and
 * each word goes to the model. */
#include "base/mem.h"
#include "text/tok_impl.h"

#include <string.h>

#define MAX_INPUT ((size_t)1 << 30)

/* ---- stretches of ordinary text ---- */

static glim_status word(void *user, const uint8_t *p, size_t n)
{
    struct tok_work *w = user;
    w->word_id = w->n_id;
    return w->t->rules.kind == TOK_UNIGRAM ? tok_unigram_word(w, p, n) : tok_merge_word(w, p, n);
}

static void add_escaped(struct str *out, const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;
    while (p < end) {
        const uint8_t *q = memchr(p, ' ', (size_t)(end - p));
        str_add(out, (const char *)p, (size_t)((q ? q : end) - p));
        if (!q)
            return;
        str_puts(out, TOK_SPACE);
        p = q + 1;
    }
}

static bool begins_with(const uint8_t *p, size_t n, const char *s, bool escaped)
{
    size_t k = strlen(s);
    return (n >= k && memcmp(p, s, k) == 0) || (escaped && n && *p == ' ');
}

/* w->text becomes p with prefix and spaces as the rules say. */
static void normalise(struct tok_work *w, const uint8_t *p, size_t n, bool at_start)
{
    const struct tok_rules *r = &w->t->rules;
    bool prefix = r->prefix == TOK_PREFIX_EACH || (r->prefix == TOK_PREFIX_FIRST && at_start);
    if (prefix && !(r->prefix_unless_there && begins_with(p, n, r->prefix_text, r->escape_space)))
        str_puts(&w->text, r->prefix_text);
    if (r->escape_space)
        add_escaped(&w->text, p, n);
    else
        str_add(&w->text, (const char *)p, n);
}

static glim_status stretch(struct tok_work *w, const uint8_t *p, size_t n, bool at_start)
{
    const struct tok_rules *r = &w->t->rules;
    if (n == 0)
        return GLIM_OK;
    if (r->nfc) {
        str_clear(&w->nfc);
        uc_nfc(p, n, &w->nfc);
        if (w->nfc.failed)
            return err_nomem(w->e, "normalised text", n);
        p = (const uint8_t *)w->nfc.s;
        n = w->nfc.n;
    }
    if (!r->charsmap && !r->escape_space && r->prefix == TOK_PREFIX_NONE)
        return split_text(&r->split, p, n, word, w);
    str_clear(&w->text);
    if (r->charsmap)
        TRY(tok_charsmap(w->t, p, n, &w->text, w->e));
    else
        normalise(w, p, n, at_start);
    if (w->text.failed)
        return err_nomem(w->e, "normalised text", n);
    return split_text(&r->split, (const uint8_t *)w->text.s, w->text.n, word, w);
}

/* ---- special tokens ---- */

/* The longest special token that begins at p; its length in *len, 0 when there is none. Control tokens: within the
 * first `trusted` bytes. */
static int32_t special_at(const struct tokenizer *t, const uint8_t *p, size_t n, size_t trusted, size_t *len)
{
    int32_t found = -1;
    uint32_t node = 0;
    *len = 0;
    for (size_t i = 0; i < n; i++) {
        const struct trie_slot *x = trie_step(&t->special, node, p[i]);
        if (!x)
            break;
        if (x->id >= 0 && (i < trusted || (t->type[x->id] & TOK_TYPE) == TOK_USER)) {
            found = x->id;
            *len = i + 1;
        }
        node = x->node;
    }
    return found;
}

static const uint8_t *skip_spaces(const uint8_t *p, const uint8_t *end)
{
    struct uc_char c;
    while ((c = uc_at(p, end)).cls & UC_SPACE)
        p += c.len;
    return p;
}

/* The start of the spaces that end at p, not before first. */
static const uint8_t *skip_spaces_back(const uint8_t *first, const uint8_t *p)
{
    while (p > first) {
        const uint8_t *q = p - 1;
        while (q > first && p - q < 4 && (*q & 0xC0) == 0x80)
            q--;
        struct uc_char c = uc_at(q, p);
        if (!(c.cls & UC_SPACE) || q + c.len != p)
            break;
        p = q;
    }
    return p;
}

/* Bytes from p on in which control tokens may be found; *run is the one that p lies in, and *from its first byte. */
static size_t trusted_at(const uint8_t *p, const struct tok_run **run, const uint8_t **from)
{
    while ((size_t)(p - *from) >= (*run)->n)
        *from += (*run)++->n;
    return (*run)->trusted ? (*run)->n - (size_t)(p - *from) : 0;
}

static glim_status partition(struct tok_work *w, const uint8_t *text, size_t n, const struct tok_run *run, int flags)
{
    const struct tokenizer *t = w->t;
    const uint8_t *end = text + n, *done = text, *from_run = text, *start = flags & TOK_GOES_ON ? NULL : text;
    for (const uint8_t *p = text; p < end;) {
        size_t len = 0;
        int32_t id = -1;
        if (t->special_first[*p])
            id = special_at(t, p, (size_t)(end - p), trusted_at(p, &run, &from_run), &len);
        if (id < 0) {
            p++;
            continue;
        }
        const uint8_t *from = t->type[id] & TOK_LSTRIP ? skip_spaces_back(done, p) : p;
        TRY(stretch(w, done, (size_t)(from - done), done == start));
        TRY(tok_push(w, id));
        p += len;
        if (t->type[id] & TOK_RSTRIP)
            p = skip_spaces(p, end);
        done = p;
    }
    return stretch(w, done, (size_t)(end - done), done == start);
}

static glim_status encode(struct tok_work *w, const uint8_t *text, size_t n, const struct tok_run *run, int flags)
{
    if (n > MAX_INPUT)
        return err_set(w->e, GLIM_REFUSED, "cannot tokenise: text: have %zu bytes, need at most %zu", n, MAX_INPUT);
    w->cap_id = n / 4 + 16;
    w->id = mem_alloc(w->cap_id * sizeof *w->id);
    if (!w->id)
        return err_nomem(w->e, "token ids", w->cap_id * sizeof *w->id);
    if (flags & TOK_ADD_BOS && w->t->adds_bos)
        TRY(tok_push(w, w->t->bos));
    return n ? partition(w, text, n, run, flags) : GLIM_OK;
}

glim_status tok_encode(const struct tokenizer *t, const char *text, size_t n, int flags, int32_t **ids, size_t *n_id,
                       struct glim_err *e)
{
    struct tok_run all = {.n = n, .trusted = flags & TOK_SPECIAL};
    return tok_encode_runs(t, text, &all, 1, flags, ids, n_id, e);
}

glim_status tok_encode_runs(const struct tokenizer *t, const char *text, const struct tok_run *run, size_t n_run,
                            int flags, int32_t **ids, size_t *n_id, struct glim_err *e)
{
    struct tok_work w = {.t = t, .e = e};
    size_t n = 0;
    for (size_t i = 0; i < n_run; i++)
        n += run[i].n;
    *ids = NULL;
    *n_id = 0;
    glim_status st = encode(&w, (const uint8_t *)text, n, run, flags);
    mem_free(w.sym);
    mem_free(w.heap);
    str_fini(&w.text);
    str_fini(&w.nfc);
    str_fini(&w.word);
    if (st != GLIM_OK) {
        mem_free(w.id);
        return st;
    }
    *ids = w.id;
    *n_id = w.n_id;
    return GLIM_OK;
}
