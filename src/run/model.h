/* A loaded model: plan, weights in the backend's layout, tokenizer. Immutable once open. */
#ifndef GLIM_RUN_MODEL_H
#define GLIM_RUN_MODEL_H

#include "arch/arch.h"
#include "base/lever.h"
#include "cpu/cpu.h"
#include "run/kv.h"
#include "text/tokenizer.h"

struct glim_config {
    struct lever_set *set;
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
/* The tokenizer a checkpoint carries. */
glim_status model_tokenizer(const struct checkpoint *ck, struct tokenizer **out, struct glim_err *e);

#endif
