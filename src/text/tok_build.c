/* From a vocabulary to a tokenizer: one arena for the pieces and their tables, tries for special tokens and unigram
 * pieces. */
#include "base/arith.h"
#include "base/mem.h"
#include "text/tok_impl.h"

#include <string.h>

/* MAX_PIECE bounds the work of a step of every model, so that no vocabulary makes encoding slower than linear. */
enum { MAX_TOKEN = 1 << 24, MAX_MERGE = 1 << 26, MAX_PIECE = 4096 };
#define MAX_TEXT ((size_t)1 << 30)

/* ---- GPT-2's byte alphabet: printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up, in order ----
 */

static bool stands_for_itself(uint32_t b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xFF && b != 0xAD);
}

uint32_t tok_letter_of_byte(uint8_t b)
{
    if (stands_for_itself(b))
        return b;
    return b <= 0x20 ? 0x100u + b : b <= 0xA0 ? 0x121u + (b - 0x7Fu) : 0x143u;
}

int tok_byte_of_letter(uint32_t cp)
{
    if (cp < 0x100)
        return stands_for_itself(cp) ? (int)cp : -1;
    if (cp > 0x143)
        return -1;
    return cp <= 0x120 ? (int)cp - 0x100 : cp <= 0x142 ? (int)cp - 0x121 + 0x7F : 0xAD;
}

/* ---- checks ---- */

static glim_status check_id(int32_t id, size_t n, const char *what, struct glim_err *e)
{
    if (id >= -1 && id < (int64_t)n)
        return GLIM_OK;
    return err_set(e, GLIM_FAILED, "cannot open the vocabulary: %s: have token %d, need one below %zu", what, id, n);
}

static glim_status check_spec(const struct tok_spec *s, size_t *n_text, struct glim_err *e)
{
    *n_text = 0;
    if (s->n_token == 0 || s->n_token > MAX_TOKEN)
        return err_set(e, GLIM_FAILED, "cannot open the vocabulary: tokens: have %zu, need 1 to %d", s->n_token,
                       MAX_TOKEN);
    if (s->n_merge > MAX_MERGE)
        return err_set(e, GLIM_FAILED, "cannot open the vocabulary: merges: have %zu, need at most %d", s->n_merge,
                       MAX_MERGE);
    for (size_t i = 0; i < s->n_token; i++) {
        *n_text += s->token[i].n; /* 2^24 times 2^32 fits */
        if (s->token[i].n > MAX_PIECE)
            return err_set(e, GLIM_REFUSED, "cannot open the vocabulary: token %zu: have %u bytes, need at most %d", i,
                           s->token[i].n, MAX_PIECE);
    }
    if (*n_text > MAX_TEXT)
        return err_set(e, GLIM_FAILED,
                       "cannot open the vocabulary: text of all tokens: have %zu bytes, need at most %zu", *n_text,
                       MAX_TEXT);
    TRY(check_id(s->bos, s->n_token, "bos", e));
    TRY(check_id(s->eos, s->n_token, "eos", e));
    TRY(check_id(s->eot, s->n_token, "eot", e));
    TRY(check_id(s->unk, s->n_token, "unknown", e));
    for (size_t i = 0; i < s->n_end; i++)
        TRY(check_id(s->end[i], s->n_token, "end of generation", e));
    for (size_t i = 0; s->type && i < s->n_token; i++)
        if (s->type[i] < 0 || s->type[i] > TOK_BYTE)
            return err_set(e, GLIM_FAILED, "cannot open the vocabulary: type of token %zu: have %d, need 0 to %d", i,
                           s->type[i], TOK_BYTE);
    return GLIM_OK;
}

/* ---- arrays ---- */

static size_t padded(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static glim_status take_arrays(struct tokenizer *t, const struct tok_spec *s, size_t n_text, struct glim_err *e)
{
    size_t n = s->n_token, slots = tok_table_slots(n), pairs = tok_table_slots(s->n_merge);
    size_t total = 2 * padded(n_text) + 2 * padded((n + 1) * 4) + 2 * padded(n) + padded(n * 4) +
                   padded(slots * sizeof *t->slot) + padded(pairs * sizeof *t->pair);
    TRY(arena_init(&t->arena, total, "vocabulary", e));
    t->text = arena_take(&t->arena, n_text);
    t->bytes = arena_take(&t->arena, n_text);
    t->text_at = arena_take(&t->arena, (n + 1) * 4);
    t->bytes_at = arena_take(&t->arena, (n + 1) * 4);
    t->type = arena_take(&t->arena, n);
    t->ends = arena_take(&t->arena, n);
    t->score = arena_take(&t->arena, n * 4);
    t->slot = arena_take(&t->arena, slots * sizeof *t->slot);
    t->pair = arena_take(&t->arena, pairs * sizeof *t->pair);
    t->slot_mask = slots - 1;
    t->pair_mask = pairs - 1;
    return GLIM_OK;
}

static void copy_pieces(struct tokenizer *t, const struct tok_spec *s)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        struct tok_piece p = s->token[i];
        t->text_at[i] = at;
        if (p.n)
            memcpy(t->text + at, p.s, p.n);
        at += p.n;
        if (p.n > t->max_piece)
            t->max_piece = p.n;
    }
    t->text_at[t->n] = at;
    for (uint32_t i = 0; i < t->n; i++)
        t->score[i] = s->score ? s->score[i] : 0;
}

/* The byte of a piece such as <0x0A>, -1 when it is none. */
static int hex_byte(struct tok_piece p)
{
    int v = 0;
    if (p.n != 6 || memcmp(p.s, "<0x", 3) != 0 || p.s[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        char c = p.s[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* Types that a file leaves out: byte tokens show in their spelling. Type 0, "undefined", is never produced from text.
 */
static void set_types(struct tokenizer *t, const struct tok_spec *s, const uint8_t *strip)
{
    for (uint32_t i = 0; i < t->n; i++) {
        uint8_t type = s->type ? (uint8_t)s->type[i] : TOK_NORMAL;
        if (!s->type && t->rules.byte_fallback && hex_byte(tok_text(t, i)) >= 0)
            type = TOK_BYTE;
        t->type[i] = (uint8_t)((type ? type : TOK_UNUSED) | (strip ? strip[i] : 0));
    }
}

/* ---- the bytes of each token ---- */

/* Written in the byte alphabet? Then the bytes go to out and their number is returned; else SIZE_MAX. */
static size_t from_letters(struct tok_piece p, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < p.n;) {
        uint32_t cp;
        int len = utf8_decode((const uint8_t *)p.s + i, p.n - i, &cp), b = len ? tok_byte_of_letter(cp) : -1;
        if (b < 0)
            return SIZE_MAX;
        out[n++] = (char)b;
        i += (size_t)len;
    }
    return n;
}

static size_t unescape(struct tok_piece p, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < p.n;) {
        bool space = p.n - i >= 3 && memcmp(p.s + i, TOK_SPACE, 3) == 0;
        out[n++] = space ? ' ' : p.s[i];
        i += space ? 3 : 1;
    }
    return n;
}

static size_t bytes_of(const struct tokenizer *t, uint32_t id, char *out)
{
    struct tok_piece p = tok_text(t, id);
    int type = t->type[id] & TOK_TYPE, b;
    bool plain = type == TOK_NORMAL || type == TOK_UNUSED;
    if (type == TOK_BYTE && (b = hex_byte(p)) >= 0) {
        *out = (char)b;
        return 1;
    }
    if (plain && t->rules.byte_level) {
        size_t n = from_letters(p, out);
        if (n != SIZE_MAX)
            return n;
    }
    if (t->rules.escape_space && (plain || type == TOK_USER))
        return unescape(p, out);
    if (p.n)
        memcpy(out, p.s, p.n);
    return p.n;
}

/* An added token may be spelled like the letter of a byte; it stands for that letter then, and not for the byte. */
static int32_t plain_id(const struct tokenizer *t, const char *s, size_t n)
{
    int32_t id = tok_find(t, s, n);
    int type = id < 0 ? 0 : t->type[id] & TOK_TYPE;
    return type == TOK_NORMAL || type == TOK_UNUSED ? id : -1;
}

static void set_bytes(struct tokenizer *t)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        t->bytes_at[i] = at;
        at += (uint32_t)bytes_of(t, i, t->bytes + at);
    }
    t->bytes_at[t->n] = at;
    for (int b = 0; b < 256; b++) {
        char utf8[4], hex[] = "<0x00>";
        t->byte_id[b] = -1;
        if (t->rules.byte_level)
            t->byte_id[b] = plain_id(t, utf8, (size_t)utf8_encode(tok_letter_of_byte((uint8_t)b), utf8));
        if (t->rules.byte_fallback) {
            hex[3] = "0123456789ABCDEF"[b >> 4];
            hex[4] = "0123456789ABCDEF"[b & 15];
            int32_t id = tok_find(t, hex, 6);
            if (id >= 0 && (t->type[id] & TOK_TYPE) == TOK_BYTE)
                t->byte_id[b] = id;
        }
    }
}

/* ---- special tokens ---- */

/* Tokens that end a turn or a text, by their spelling; files often name only one of theirs. */
static const char *const end_texts[] = {"<|eot_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<|calls|>",
                                        "<|flush|>",
                                        "<|eot|>",
                                        "<|eom|>",
                                        "<|eom_id|>",
                                        "<end_of_turn>",
                                        "<|endoftext|>",
                                        "<eos>",
                                        "<turn|>",
                                        "<|tool_response>",
                                        "<|end_of_text|>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "[EOT]",
                                        "[EOS]",
                                        "[e~[",
                                        "[|endofturn|]",
                                        "<｜end▁of▁sentence｜>",
                                        "<end_of_utterance>"};

static bool is_control(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (t->type[id] & TOK_TYPE) == TOK_CONTROL;
}

static int32_t find_str(const struct tokenizer *t, const char *s)
{
    return tok_find(t, s, strlen(s));
}

/* Such a spelling as a user-defined token is a slip of the converter: as a control token it cannot come from plain
 * text. In OpenAI's harmony format <|end|> ends a message, not the turn; that format is known by its other two. */
static void set_ends(struct tokenizer *t, const struct tok_spec *s)
{
    memset(t->ends, 0, t->n);
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++) {
        int32_t id = find_str(t, end_texts[i]);
        if (id >= 0 && (t->type[id] & TOK_TYPE) == TOK_USER)
            t->type[id] = (uint8_t)((t->type[id] & ~TOK_TYPE) | TOK_CONTROL);
        if (is_control(t, id))
            t->ends[id] = 1;
    }
    bool calls = is_control(t, find_str(t, "<|call|>")) || is_control(t, find_str(t, "<|calls|>"));
    bool turns = is_control(t, find_str(t, "<|return|>")) || is_control(t, find_str(t, "<|flush|>"));
    if (calls && turns && find_str(t, "<|end|>") >= 0)
        t->ends[find_str(t, "<|end|>")] = 0;
    if (s->eos >= 0)
        t->ends[s->eos] = 1;
    if (s->eot >= 0)
        t->ends[s->eot] = 1;
    for (size_t i = 0; i < s->n_end; i++)
        if (s->end[i] >= 0)
            t->ends[s->end[i]] = 1;
}

/* The original Phi-3 tokenizer has rstrip on all special tokens but three; its GGUF cannot say so. */
static void set_phi3(struct tokenizer *t)
{
    const char *const plain[] = {"<unk>", "<s>", "<|endoftext|>"};
    for (uint32_t i = 0; i < t->n; i++) {
        int type = t->type[i] & TOK_TYPE;
        if (type == TOK_CONTROL || type == TOK_USER || type == TOK_UNKNOWN)
            t->type[i] |= TOK_RSTRIP;
    }
    for (size_t i = 0; i < 3; i++)
        if (find_str(t, plain[i]) >= 0)
            t->type[find_str(t, plain[i])] &= TOK_TYPE;
}

static glim_status add_specials(struct tokenizer *t, struct glim_err *e)
{
    for (uint32_t i = 0; i < t->n; i++) {
        int type = t->type[i] & TOK_TYPE;
        struct tok_piece p = tok_text(t, i);
        if (p.n == 0 || (type != TOK_CONTROL && type != TOK_USER && type != TOK_UNKNOWN))
            continue;
        t->special_first[(uint8_t)*p.s] = true;
        TRY(trie_add(&t->special, p.s, p.n, (int32_t)i, e));
    }
    return GLIM_OK;
}

/* ---- unigram ---- */

/* How much less likely than the rarest piece the unknown token is. */
#define UNK_PENALTY 10.0

static glim_status add_words(struct tokenizer *t, const struct tok_spec *s, struct glim_err *e)
{
    float least = 0;
    bool any = false;
    for (uint32_t i = 0; i < t->n; i++) {
        int type = t->type[i] & TOK_TYPE;
        struct tok_piece p = tok_text(t, i);
        if (!(t->score[i] == t->score[i]) || t->score[i] - t->score[i] != 0)
            return err_set(e, GLIM_FAILED, "cannot open the vocabulary: score of token %u: have %g, need a finite one",
                           i, (double)t->score[i]);
        if (type == TOK_NORMAL && (!any || t->score[i] < least)) {
            least = t->score[i];
            any = true;
        }
        bool textual = type == TOK_NORMAL || type == TOK_USER || type == TOK_UNUSED;
        if (textual &&
            tok_find(t, p.s, p.n) == (int32_t)i) /* of pieces spelled alike the first counts, whatever its type */
            TRY(trie_add(&t->words, p.s, p.n, (int32_t)i, e));
    }
    t->unk_score = (double)least - UNK_PENALTY;
    if (s->n_charsmap == 0)
        return GLIM_OK;
    TRY(tok_charsmap_check(s->charsmap, s->n_charsmap, e));
    t->charsmap = mem_alloc(s->n_charsmap);
    if (!t->charsmap)
        return err_nomem(e, "precompiled_charsmap", s->n_charsmap);
    memcpy(t->charsmap, s->charsmap, s->n_charsmap);
    t->n_charsmap = s->n_charsmap;
    return GLIM_OK;
}

/* ---- */

static glim_status build(struct tokenizer *t, const struct tok_spec *s, struct tok_extra extra, struct glim_err *e)
{
    size_t n_text;
    TRY(check_spec(s, &n_text, e));
    t->n = (uint32_t)s->n_token;
    t->bos = s->bos;
    t->eos = s->eos;
    t->unk = s->unk;
    TRY(take_arrays(t, s, n_text, e));
    copy_pieces(t, s);
    set_types(t, s, extra.strip);
    TRY(tok_table_text(t, e));
    set_bytes(t);
    TRY(tok_table_merges(t, s, extra.cut, e));
    set_ends(t, s);
    if (t->rules.phi3)
        set_phi3(t);
    TRY(add_specials(t, e));
    if (t->rules.kind == TOK_UNIGRAM)
        TRY(add_words(t, s, e));
    bool wants = s->add_bos < 0 ? t->rules.adds_bos : s->add_bos != 0;
    if (wants && s->add_bos > 0 && s->bos < 0)
        return err_set(e, GLIM_FAILED,
                       "cannot open the vocabulary: add_bos_token: have true without a bos token, need one");
    t->adds_bos = wants && s->bos >= 0;
    return GLIM_OK;
}

glim_status tok_build(struct tokenizer **out, const struct tok_spec *spec, const struct tok_rules *rules,
                      struct tok_extra extra, struct glim_err *e)
{
    struct tokenizer *t = mem_calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return err_nomem(e, "tokenizer", sizeof *t);
    t->rules = *rules;
    glim_status st = build(t, spec, extra, e);
    if (st == GLIM_OK)
        *out = t;
    else
        tok_close(t);
    return st;
}

void tok_close(struct tokenizer *t)
{
    if (!t)
        return;
    trie_fini(&t->special);
    trie_fini(&t->words);
    mem_free(t->charsmap);
    arena_fini(&t->arena);
    mem_free(t);
}
