/* Inside of the tokenizer: what tok_open and tok_open_hf build, and what encoding reads. */
#ifndef GLIM_TEXT_TOK_IMPL_H
#define GLIM_TEXT_TOK_IMPL_H

#include "base/mem.h"
#include "text/split.h"
#include "text/tokenizer.h"

#define TOK_SPACE "\xE2\x96\x81" /* U+2581, how SentencePiece writes a space */

/* What is put in front of a stretch of ordinary text. */
enum tok_prefix {
    TOK_PREFIX_NONE,
    TOK_PREFIX_EACH, /* every stretch between special tokens */
    TOK_PREFIX_FIRST /* only a stretch that begins the text */
};

/* How a family turns text into words and words into ids, apart from its vocabulary. */
struct tok_rules {
    const char *name; /* static; tok_pre_name */
    enum tok_kind kind;
    bool
        byte_level; /* TOK_BPE: pieces are written in GPT-2's byte alphabet, words start as bytes; else as characters */
    bool ignore_merges; /* a word that is a token is that token, whatever the merges say */
    bool byte_fallback; /* what is no token becomes byte tokens <0x00> … */
    bool fuse_unk;      /* neighbouring unknowns of a word become one */
    bool escape_space;  /* ' ' is written as TOK_SPACE */
    bool nfc;
    bool adds_bos;
    bool phi3; /* special tokens swallow the spaces after them */
    enum tok_prefix prefix;
    const char *prefix_text;  /* TOK_SPACE or " " */
    bool prefix_unless_there; /* not where the stretch already begins with it */
    bool strip_first;         /* decoding drops the space that the prefix was */
    bool charsmap;            /* unigram of a GGUF: tok_charsmap does prefix and spaces */
    bool merge_spaces;        /* … and runs of spaces become one */
    struct split split;
};

/* Types are enum tok_type; tokens of a tokenizer.json may also swallow spaces beside them. */
enum { TOK_TYPE = 15, TOK_LSTRIP = 16, TOK_RSTRIP = 32 };

struct text_slot {
    uint32_t id; /* UINT32_MAX = empty */
    uint32_t tag;
};

struct pair_slot {
    uint32_t left, right; /* left = UINT32_MAX: empty */
    uint32_t id, rank;    /* what they merge to, and when */
};

/* A trie of byte strings, as a hash table of edges. Node 0 is the root. */
struct trie_slot {
    uint64_t key; /* parent << 8 | byte, plus 1; 0 = empty */
    uint32_t node;
    int32_t id; /* -1 = no string ends at this node */
};
struct trie {
    struct trie_slot *slot;
    size_t n_slot, n_node; /* n_slot: power of two */
};
glim_status trie_add(struct trie *t, const char *s, size_t n, int32_t id, struct glim_err *e); /* the first id stays */
/* The edge from node by byte c, NULL when there is none. */
const struct trie_slot *trie_step(const struct trie *t, uint32_t node, uint8_t c);
void trie_fini(struct trie *t);

struct tokenizer {
    struct tok_rules rules;
    uint32_t n; /* tokens */
    int32_t bos, eos, unk;
    bool adds_bos;
    struct arena arena; /* holds the arrays below */
    char *text;         /* the pieces as the checkpoint spells them, one after another */
    uint32_t *text_at;  /* [n + 1] */
    char *bytes;        /* the bytes they stand for */
    uint32_t *bytes_at; /* [n + 1] */
    uint8_t *type;      /* [n] */
    float *score;       /* [n] */
    uint8_t *ends;      /* [n] bool */
    struct text_slot *slot;
    size_t slot_mask;
    struct pair_slot *pair;
    size_t pair_mask;
    uint32_t max_piece;   /* longest piece, bytes */
    int32_t byte_id[256]; /* byte-level: the token of each byte; else byte tokens <0x00> …; -1 = none */
    struct trie special;  /* control, user-defined and unknown tokens */
    bool special_first[256];
    struct trie words; /* TOK_UNIGRAM: the vocabulary */
    double unk_score;
    uint8_t *charsmap; /* TOK_UNIGRAM: compiled normaliser of SentencePiece, NULL = none */
    size_t n_charsmap;
};

static inline struct tok_piece tok_text(const struct tokenizer *t, uint32_t id)
{
    return (struct tok_piece){t->text + t->text_at[id], t->text_at[id + 1] - t->text_at[id]};
}

/* What a tok_spec cannot say; both may be NULL. */
struct tok_extra {
    const uint8_t *strip; /* [n_token] TOK_LSTRIP | TOK_RSTRIP */
    const uint32_t *cut;  /* [n_merge] length of the left side; else the first space separates */
};

/* Build from a vocabulary and its family's rules. */
glim_status tok_build(struct tokenizer **out, const struct tok_spec *spec, const struct tok_rules *rules,
                      struct tok_extra extra, struct glim_err *e);

/* Id of a piece by its text, -1 when there is none. */
int32_t tok_find(const struct tokenizer *t, const char *s, size_t n);
/* The merge of two tokens, NULL when there is none. */
const struct pair_slot *tok_find_pair(const struct tokenizer *t, uint32_t left, uint32_t right);
/* Room for those tables, and filling them (tok_table.c). */
size_t tok_table_slots(size_t n);
glim_status tok_table_text(struct tokenizer *t, struct glim_err *e);
glim_status tok_table_merges(struct tokenizer *t, const struct tok_spec *spec, const uint32_t *cut, struct glim_err *e);

/* GPT-2's alphabet: the code point that stands for a byte, and back (-1 = none). */
uint32_t tok_letter_of_byte(uint8_t b);
int tok_byte_of_letter(uint32_t cp);

/* ---- encoding ---- */

struct tok_symbol {
    uint32_t start;     /* offset in the word */
    int32_t prev, next; /* -1 = none */
    int32_t id;         /* -1 = not a token; -2 = merged away */
};

struct tok_work {
    const struct tokenizer *t;
    struct glim_err *e;
    int32_t *id;
    size_t n_id, cap_id;
    size_t word_id; /* n_id where the word began */
    struct tok_symbol *sym;
    size_t cap_sym;
    uint64_t *heap;
    size_t n_heap, cap_heap;
    struct str text; /* a stretch of text after normalisation */
    struct str nfc;
    struct str word; /* a word in the byte alphabet */
};

glim_status tok_push(struct tok_work *w, int32_t id);
/* One word by merging (TOK_BPE and TOK_SPM), or by the best path (TOK_UNIGRAM). */
glim_status tok_merge_word(struct tok_work *w, const uint8_t *p, size_t n);
glim_status tok_unigram_word(struct tok_work *w, const uint8_t *p, size_t n);
/* Bytes that are no token: their byte tokens, or the unknown token, or an error. */
glim_status tok_push_unknown(struct tok_work *w, const uint8_t *p, size_t n);
/* Append SentencePiece's normalisation of p: charsmap, then spaces by the rules. */
glim_status tok_charsmap(const struct tokenizer *t, const uint8_t *p, size_t n, struct str *out, struct glim_err *e);
glim_status tok_charsmap_check(const uint8_t *p, size_t n, struct glim_err *e);

/* ---- tokenizer.json ---- */

struct tok_json {
    const char *tokenizer, *tokenizer_config, *generation_config, *config; /* the last three may be NULL */
    size_t n_tokenizer, n_tokenizer_config, n_generation_config, n_config;
};
glim_status tok_open_json(struct tokenizer **out, const struct tok_json *j, struct glim_err *e);

#endif
