/* A model's own way of holding conversations. */
#include "run/run.h"

#include "text/chat.h"

#include <string.h>

/* The token's text in fresh memory, "" where there is none. */
static char *token_text(const struct tokenizer *t, int32_t id)
{
    struct tok_piece p = tok_bytes(t, id, true, true);
    return p.n == 0 || memchr(p.s, 0, p.n) ? mem_strdup("") : mem_strndup(p.s, p.n);
}

glim_status run_chat_open(struct chat **out, const struct tokenizer *t, const struct run_templates *from,
                          const char *dialect, struct glim_err *e)
{
    char *bos = token_text(t, tok_bos(t)), *eos = token_text(t, tok_eos(t));
    const struct template_token token[2] = {{"bos_token", bos}, {"eos_token", eos}};
    const struct chat_spec s = {.text = from->text,
                                .tool_text = from->tool_text,
                                .name = from->name,
                                .token = token,
                                .n_token = 2,
                                .dialect = dialect};
    *out = NULL;
    glim_status st = bos && eos ? chat_open(out, &s, e) : err_nomem(e, "chat", 64);
    mem_free(bos);
    mem_free(eos);
    return st;
}
