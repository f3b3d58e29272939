#include "arch/arch.h"

#include "base/str.h"

#include <string.h>

static const struct arch *const table[] = {&arch_llama, &arch_qwen2, &arch_qwen3, &arch_gemma3};

size_t arch_n(void)
{
    return sizeof table / sizeof *table;
}

const struct arch *arch_at(size_t i)
{
    return i < arch_n() ? table[i] : NULL;
}

static bool named(const char *const *names, const char *s, size_t n)
{
    for (; *names; names++)
        if (strlen(*names) == n && memcmp(*names, s, n) == 0)
            return true;
    return false;
}

glim_status arch_find(const struct config *c, const struct arch **out, struct glim_err *e)
{
    struct str known = {0};
    for (size_t i = 0; i < arch_n(); i++) {
        const char *const *names = config_is_hf(c) ? table[i]->hf : table[i]->gguf;
        if (named(names, c->arch, c->arch_len)) {
            *out = table[i];
            str_fini(&known);
            return GLIM_OK;
        }
        for (; *names; names++)
            str_printf(&known, "%s%s", known.n ? ", " : "", *names);
    }
    err_set(e, GLIM_REFUSED, "open model: %s: have architecture \"%.*s\", need one of %s", c->ck->path,
            (int)c->arch_len, c->arch, known.failed || !known.s ? "the known ones" : known.s);
    str_fini(&known);
    return GLIM_REFUSED;
}

glim_status arch_plan(struct config *c, const struct arch **arch, struct plan *p, struct glim_err *e)
{
    memset(p, 0, sizeof *p);
    TRY(arch_find(c, arch, e));
    glim_status st = (*arch)->plan(c, p, e);
    if (st == GLIM_OK)
        st = config_check_seen(c, e);
    if (st != GLIM_OK) {
        plan_fini(p);
        return st;
    }
    p->arch = (*arch)->name;
    return GLIM_OK;
}
