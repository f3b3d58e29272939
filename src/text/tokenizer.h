/* Tokenizers: byte-level BPE with the pre-tokenisers of the known families, SentencePiece (unigram and BPE), from a
 * GGUF's vocabulary arrays or a Hugging Face tokenizer.json.
 *
 * What detokenising cannot give back: U+2581 in a vocabulary that writes spaces so (it comes back as a space); text
 * that a tokenizer.json normalises (NFC; a GGUF does not say that its model wants it, so there it is not done); a first
 * space where a Metaspace component adds one only if it is missing; and, without byte tokens, what became the unknown
 * token.
 *
 * This module depends on base alone: whoever has a GGUF open copies the arrays into a struct tok_spec.
 * Promises: ids equal to the original implementation's; detokenising gives the input bytes back, invalid UTF-8
 * included; time linear in the input (a heap of merges, not rescans); user text becomes control tokens only with
 * TOK_SPECIAL (user-defined tokens, such as <tool_call> of some models, are text and always found). A tokenizer is
 * immutable after open and may be used from several threads at once. */
#ifndef GLIM_TEXT_TOKENIZER_H
#define GLIM_TEXT_TOKENIZER_H

#include "base/status.h"

enum tok_kind { TOK_BPE, TOK_SPM, TOK_UNIGRAM };

/* GGUF's token types (tokenizer.ggml.token_type). */
enum tok_type { TOK_NORMAL = 1, TOK_UNKNOWN = 2, TOK_CONTROL = 3, TOK_USER = 4, TOK_UNUSED = 5, TOK_BYTE = 6 };

struct tok_piece {
    const char *s;
    uint32_t n;
};

/* A vocabulary as a GGUF carries it. Arrays belong to the caller and may go after tok_open. */
struct tok_spec {
    const char *model; /* tokenizer.ggml.model: "gpt2", "llama", "gemma4", "t5", … */
    const char *pre;   /* tokenizer.ggml.pre: "llama-bpe", "qwen2", "smollm", …; NULL = absent */
    size_t n_token;
    const struct tok_piece *token;
    const float *score;  /* [n_token] or NULL */
    const int32_t *type; /* [n_token] or NULL: all normal */
    size_t n_merge;
    const struct tok_piece *merge; /* "left right" */
    int32_t bos, eos, eot, unk;    /* -1 = none */
    int8_t add_bos, add_eos,
        add_space_prefix; /* -1 = the model's default, else 0 or 1; add_eos is for encoders: ignored */
    /* further ids that end a generation (eot, eom, end-of-turn) as the checkpoint lists them */
    const int32_t *end;
    size_t n_end;
    /* "t5" alone: tokenizer.ggml.precompiled_charsmap and tokenizer.ggml.remove_extra_whitespaces */
    const uint8_t *charsmap;
    size_t n_charsmap;
    bool remove_extra_spaces;
};

struct tokenizer;
glim_status tok_open(struct tokenizer **out, const struct tok_spec *spec, struct glim_err *e);
/* From a checkpoint folder: tokenizer.json (required), tokenizer_config.json, generation_config.json, config.json. */
glim_status tok_open_hf(struct tokenizer **out, const char *dir, struct glim_err *e);
void tok_close(struct tokenizer *t);

size_t tok_n(const struct tokenizer *t);
bool tok_is_control(const struct tokenizer *t, int32_t id);
int32_t tok_bos(const struct tokenizer *t); /* -1 when there is none */
int32_t tok_eos(const struct tokenizer *t);
bool tok_adds_bos(const struct tokenizer *t);
bool tok_is_end(const struct tokenizer *t, int32_t id); /* eos, eot, and what the family treats so */
/* Id of a special token by its exact text; -1 when there is none. */
int32_t tok_special(const struct tokenizer *t, const char *s, size_t n);
const char *tok_pre_name(const struct tokenizer *t); /* for inspect: "smollm", "spm", … */

/* The first two are glim.h's. TOK_GOES_ON: the text goes on after other tokens, the last of them a control token. */
enum { TOK_ADD_BOS = 1, TOK_SPECIAL = 2, TOK_GOES_ON = 4 };
/* *ids in fresh memory (mem_free). Refused: text over 1 GiB, and a byte that the vocabulary has no token for. */
glim_status tok_encode(const struct tokenizer *t, const char *text, size_t n, int flags, int32_t **ids, size_t *n_id,
                       struct glim_err *e);
/* A stretch of a text, and whether control tokens may be looked for in it. */
struct tok_run {
    size_t n; /* bytes */
    bool trusted;
};
/* As tok_encode, but a control token is recognised only where all of its bytes lie in one trusted run (TOK_SPECIAL is
 * implied). The runs' n add up to the text's. Words are cut as if the text were one piece, so trusted text alone gives
 * tok_encode's ids. */
glim_status tok_encode_runs(const struct tokenizer *t, const char *text, const struct tok_run *run, size_t n_run,
                            int flags, int32_t **ids, size_t *n_id, struct glim_err *e);
/* The bytes one token stands for; control tokens give none unless `special`. Valid while t lives. first: the token
 * opens the text (a SentencePiece vocabulary then drops the space it added). Out-of-range ids give none. */
struct tok_piece tok_bytes(const struct tokenizer *t, int32_t id, bool special, bool first);
/* Whole sequences; NUL-terminated, mem_free. The inverse of tok_encode: where that added a space, this drops it. */
glim_status tok_decode(const struct tokenizer *t, const int32_t *ids, size_t n_id, bool special, char **text, size_t *n,
                       struct glim_err *e);

#endif
