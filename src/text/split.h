/* Pre-tokenisers: how a family cuts text into words before merging.
 *
 * A family is a list of stages, as Hugging Face's Sequence is: each stage cuts every piece of the stage before it. A
 * stage is one hand-written function that returns the end of the piece at p; it never looks past `end`, because a
 * lookahead such as
 * (?!\S) sees the end of its piece there. All stages run in time linear in the text. */
#ifndef GLIM_TEXT_SPLIT_H
#define GLIM_TEXT_SPLIT_H

#include "text/unicode.h"

struct split_stage;
typedef const uint8_t *split_fn(const struct split_stage *s, const uint8_t *p, const uint8_t *end);

struct split_stage {
    split_fn *next;  /* p < end; returns q with p < q <= end */
    int digits;      /* the most digits in one word; 0 = any number */
    uint8_t word;    /* classes that make words: UC_L, or UC_L | UC_M */
    bool contract;   /* words take a following 's, 't, 're … with them (split_cased) */
    bool han;        /* Han characters are words of their own (split_cased) */
    bool slash;      /* '/' may follow punctuation as line ends may (split_cased) */
    const char *lit; /* split_literal: cut after each of these */
};

enum { SPLIT_MAX = 8 };
struct split {
    struct split_stage stage[SPLIT_MAX];
    int n;
};

/* Fill *s with the family's stages; false when the name is unknown. The names: "gpt-2", "digits" (smollm, starcoder …),
 * "llama3", "qwen2", "qwen35", "gpt-4o", "tekken", "kimi-k2", "deepseek-llm", "deepseek-coder", "deepseek-v3",
 * "default", "none" (the text is one word). */
bool split_family(const char *name, struct split *s);
/* Append the stages that one Split of a tokenizer.json stands for, by its exact pattern; false when unknown or too
 * many. */
bool split_pattern(const char *regex, struct split *s);
bool split_add(struct split *s, struct split_stage stage); /* false when there are SPLIT_MAX already */
/* Does the stage's pattern match everywhere, so that nothing lies between matches? */
bool split_is_total(const struct split_stage *s);
/* The family with equal stages; "custom" when there is none. */
const char *split_name(const struct split *s);

/* Stages of their own, for the components of a tokenizer.json. */
split_fn split_gpt2, split_number, split_space_word, split_literal;

/* fn(user, p, n) for each word in order; stops at the first status that is not GLIM_OK and returns it. */
typedef glim_status split_word(void *user, const uint8_t *p, size_t n);
glim_status split_text(const struct split *s, const uint8_t *p, size_t n, split_word *fn, void *user);

#endif
