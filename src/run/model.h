/* A loaded model: plan, weights in the backend's layout, tokenizer. Immutable once open. */
#ifndef GLIM_RUN_MODEL_H
#define GLIM_RUN_MODEL_H

#include "arch/arch.h"
#include "base/lever.h"
#include "cpu/cpu.h"
#include "run/kv.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

#include <pthread.h>

struct glim_config {
    struct lever_set *set;
};

/* What is made when it is first asked for. */
struct model_late {
    pthread_mutex_t lock;
    struct grammar_vocab *vocab; /* n_vocab pieces */
};

struct glim_model {
    struct glim_model_info info;
    struct levers lv; /* as the config stood at open; its strings are not kept */
    char *name;
    const struct arch *arch;
    const struct backend *be;
    struct plan plan;
    struct tokenizer *tok;
    struct arena weights;
    enum kv_type kv_type;
    char *chat_template; /* NULL: the checkpoint has none */
    char *tool_template; /* another one for conversations with tools, or NULL */
    struct model_late *late;
};

/* Backend the levers ask for. */
glim_status model_backend(const struct levers *lv, const struct backend **be, struct glim_err *e);
/* Positions a session gets when the caller names none. */
uint32_t model_default_ctx(const struct levers *lv, const struct plan *p);
/* Caches for quantised weights are q8 by default; for plain numbers f32, like everything else of such a model. */
enum kv_type model_kv_type(const struct levers *lv, const struct binder *b);
/* Rows of the memory plan for the weights, one a number format. */
glim_status model_plan_weights(const struct plan *p, const struct binder *b, const struct backend *be,
                               struct mem_plan *mp, struct glim_err *e);
/* The chat templates a checkpoint carries: tokenizer.chat_template and tokenizer.chat_template.tool_use of a GGUF, the
 * files chat_template.jinja, chat_template.json or tokenizer_config.json of a folder; NULL where there is none. */
glim_status model_chat_templates(const struct checkpoint *ck, char **chat, char **tools, struct glim_err *e);
/* The tokenizer a checkpoint carries. */
glim_status model_tokenizer(const struct checkpoint *ck, struct tokenizer **out, struct glim_err *e);

#endif
