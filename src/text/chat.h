/* Conversations: from messages to the tokens of a prompt.
 *
 * A chat joins a model's template (what goes in) to its dialect (what comes out), and knows what both can do. What a
 * request asks for and the template cannot give is refused by name, never left out: a system message, tools, a way to
 * reason. Control tokens are looked for only in what the template itself wrote. */
#ifndef GLIM_TEXT_CHAT_H
#define GLIM_TEXT_CHAT_H

#include "text/dialect.h"
#include "text/template.h"
#include "text/tokenizer.h"

struct chat_spec {
    const char *text;                   /* the template; NULL: refused */
    const char *tool_text;              /* another one for conversations with tools, or NULL */
    const char *name;                   /* what errors call the template */
    const struct template_token *token; /* texts of bos_token and so on; copied */
    size_t n_token;
    const char *dialect; /* a name; NULL: what the template shows */
};

struct chat;
glim_status chat_open(struct chat **out, const struct chat_spec *s, struct glim_err *e);
void chat_close(struct chat *c);
const struct dialect *chat_dialect(const struct chat *c);
const struct template_caps *chat_caps(const struct chat *c, bool with_tools);

enum chat_reasoning {
    CHAT_REASONING_DEFAULT, /* as the template has it */
    CHAT_REASONING_OFF,
    CHAT_REASONING_ON,
    CHAT_REASONING_LOW,
    CHAT_REASONING_MEDIUM,
    CHAT_REASONING_HIGH
};

struct chat_input {
    const json_t *messages; /* as OpenAI's chat API has them; images are refused */
    const json_t *tools;    /* NULL or a list */
    const json_t *extra;    /* NULL or an object of further template variables */
    enum chat_reasoning reasoning;
    bool no_answer; /* the prompt does not end with the beginning of an answer */
    struct tm now;
};

struct chat_prompt {
    struct str text;
    struct tok_run *run; /* [n_run] */
    size_t n_run;
    enum dialect_prompt end; /* how the answer begins */
};
/* On failure *p is empty. */
glim_status chat_prompt_make(const struct chat *c, const struct chat_input *in, struct chat_prompt *p,
                             struct glim_err *e);
void chat_prompt_fini(struct chat_prompt *p);

/* What a cache holds of a conversation: its text, control tokens as text, and its tokens. */
struct chat_memory {
    struct str text;
    int32_t *id;
    size_t n_id, cap_id;
};
/* A prompt that was computed, instead of whatever was remembered; then the tokens a model went on with. */
glim_status chat_memory_begin(struct chat_memory *m, const struct chat_prompt *p, const int32_t *id, size_t n,
                              struct glim_err *e);
glim_status chat_memory_add(struct chat_memory *m, const struct tokenizer *t, const int32_t *id, size_t n,
                            struct glim_err *e);
void chat_memory_clear(struct chat_memory *m);
void chat_memory_fini(struct chat_memory *m);

/* The prompt's tokens, freed with mem_free. Where the prompt goes on from what is remembered (NULL: nothing is), the
 * remembered tokens come first, so that a model's own words keep the tokens it chose. BOS is added where the vocabulary
 * wants one and the template did not write it. */
glim_status chat_encode(const struct chat_prompt *p, const struct tokenizer *t, const struct chat_memory *known,
                        int32_t **id, size_t *n_id, struct glim_err *e);

#endif
