/* Chat templates: a conversation to the text a model expects.
 *
 * A thin layer over jinja.h that knows what the template of a chat model is given: messages, tools, documents, the
 * tokenizer's special tokens, whether the answer comes next, and whatever else a client passes. What of the result came
 * from the template and its tokens is trusted, all else is data (jinja.h); only in trusted bytes may special tokens be
 * looked for.
 *
 * template_probe finds what a template can do by rendering small conversations and looking for their words. */
#ifndef GLIM_TEXT_TEMPLATE_H
#define GLIM_TEXT_TEMPLATE_H

#include "text/jinja.h"

struct template;

glim_status template_open(struct template **t, const char *text, size_t n, const char *name, struct glim_err *e);
void template_close(struct template *t);

/* bos_token, eos_token, pad_token, unk_token …: names as in special_tokens_map.json. */
struct template_token {
    const char *name, *text;
};

struct template_input {
    const json_t *messages;  /* list of objects with role and content */
    const json_t *tools;     /* list of {"type": "function", "function": {…}}; NULL: None */
    const json_t *documents; /* NULL: None */
    const json_t *extra; /* object of further variables (enable_thinking …), which win over all others; may be NULL */
    bool add_generation_prompt;
    const struct template_token *token;
    size_t n_token;
    struct tm now; /* local time, all fields set, for strftime_now */
};

/* Free with jinja_output_fini. Fails with the line and the reason when the template refuses the conversation. */
glim_status template_render(const struct template *t, const struct template_input *in, struct jinja_output *out,
                            struct glim_err *e);

/* Is byte `at` of the text trusted? */
bool template_trusted(const struct jinja_output *out, size_t at);
/* The marker with which a prompt's end opens a block of reasoning, so that the answer begins inside it; NULL when it
 * does not. White space behind the marker does not matter. */
const char *template_opens_reasoning(const char *text, size_t n);
/* Does the template read a variable or attribute of this name? */
bool template_mentions(const struct template *t, const char *name);

/* ---- what a template can do ---- */

enum template_cap { /* described in template_cap_rows */
                    TEMPLATE_STRING_CONTENT,
                    TEMPLATE_PARTS_CONTENT,
                    TEMPLATE_GENERATION_PROMPT,
                    TEMPLATE_SYSTEM,
                    TEMPLATE_TOOLS,
                    TEMPLATE_OBJECT_ARGUMENTS,
                    TEMPLATE_STRING_ARGUMENTS,
                    TEMPLATE_TOOL_RESULTS,
                    TEMPLATE_PARALLEL_CALLS,
                    TEMPLATE_REASONING_KEPT,
                    TEMPLATE_REASONING_SWITCH,
                    TEMPLATE_REASONING_EFFORT,
                    TEMPLATE_REASONING_OPEN,
                    TEMPLATE_CAP_COUNT
};

/* name: for programs; doc: one sentence of what it means that a template can do it. */
struct template_cap_row {
    const char *name, *doc;
};
extern const struct template_cap_row template_cap_rows[TEMPLATE_CAP_COUNT];

/* Strings are constants. */
struct template_caps {
    bool can[TEMPLATE_CAP_COUNT];
    const char *switch_key;      /* variable that is true or false to reason or not; NULL when there is none */
    const char *effort_key;      /* variable with the words low, medium, high; NULL when there is none */
    const char *reasoning_field; /* member of a message that carries its reasoning; NULL when none is printed */
    const char *open;            /* template_opens_reasoning of a prompt without further variables */
    char why_not[TEMPLATE_CAP_COUNT][200]; /* the template's own reason where it refused, else empty */
};

/* in: token, n_token and now are used. Fails only for lack of memory: a template that refuses everything can do
 * nothing. A tool call can be rendered when OBJECT_ARGUMENTS or STRING_ARGUMENTS can. */
glim_status template_probe(const struct template *t, const struct template_input *in, struct template_caps *caps,
                           struct glim_err *e);

/* The variables that are tried as switch_key and effort_key, for docs: i = 0, 1, … until NULL. */
const char *template_switch_key(size_t i);
const char *template_effort_key(size_t i);
const char *template_opener(size_t i); /* what template_opens_reasoning knows */

#endif
