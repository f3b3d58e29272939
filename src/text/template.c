/* Rendering conversations. See template.h. */
#include "text/template.h"
#include "base/mem.h"

#include <string.h>

struct template
{
    struct jinja *j;
};

/* Roles that templates know. Another role is data wherever it is printed. */
static const char *const roles[] = {"system",    "developer",     "user",  "assistant",       "tool",     "function",
                                    "ipython",   "tool_response", "model", "documents",       "document", "context",
                                    "tool_call", "observation",   "human", "latest_reminder", NULL};

glim_status template_open(struct template **out, const char *text, size_t n, const char *name, struct glim_err *e)
{
    *out = NULL;
    struct template *t = mem_calloc(1, sizeof *t);
    if (!t)
        return err_nomem(e, "chat template", sizeof *t);
    glim_status st = jinja_open(&t->j, text, n, name, e);
    if (st != GLIM_OK)
        mem_free(t);
    else
        *out = t;
    return st;
}

void template_close(struct template *t)
{
    if (!t)
        return;
    jinja_close(t->j);
    mem_free(t);
}

bool template_mentions(const struct template *t, const char *name)
{
    return jinja_mentions(t->j, name);
}

/* Variables of a render, and the JSON values made for them. */
struct vars {
    struct jinja_var *v;
    size_t n, cap;
    json_t **made;
    size_t n_made, cap_made;
};

static bool add_var(struct vars *a, struct jinja_var v)
{
    if (!mem_grow((void **)&a->v, &a->cap, a->n, sizeof *a->v))
        return false;
    a->v[a->n++] = v;
    return true;
}

/* Takes `value`, which may be NULL for lack of memory. */
static bool add_made(struct vars *a, const char *name, json_t *value)
{
    if (!value || !mem_grow((void **)&a->made, &a->cap_made, a->n_made, sizeof *a->made)) {
        json_decref(value);
        return false;
    }
    a->made[a->n_made++] = value;
    return add_var(a, (struct jinja_var){.name = name, .value = value, .trusted = true});
}

static bool fill(struct vars *a, const struct template_input *in)
{
    json_t *extra = (json_t *)(uintptr_t)in->extra; /* only read */
    bool ok = true;
    for (size_t i = 0; i < in->n_token && ok; i++)
        if (in->token[i].text)
            ok = add_made(a, in->token[i].name, json_string(in->token[i].text));
    ok =
        ok && add_made(a, "add_generation_prompt", json_boolean(in->add_generation_prompt)) &&
        add_var(a, (struct jinja_var){.name = "messages", .value = in->messages, .word_key = "role", .words = roles}) &&
        add_var(a, (struct jinja_var){.name = "tools", .value = in->tools}) &&
        add_var(a, (struct jinja_var){.name = "documents", .value = in->documents});
    for (void *it = json_object_iter(extra); it && ok; it = json_object_iter_next(extra, it))
        ok = add_var(a, (struct jinja_var){.name = json_object_iter_key(it), .value = json_object_iter_value(it)});
    return ok;
}

static void drop(struct vars *a)
{
    for (size_t i = 0; i < a->n_made; i++)
        json_decref(a->made[i]);
    mem_free(a->made);
    mem_free(a->v);
}

/* json_string refuses what is no UTF-8; told apart from lack of memory here. */
static glim_status check_tokens(const struct template_input *in, struct glim_err *e)
{
    for (size_t i = 0; i < in->n_token; i++) {
        const char *s = in->token[i].text;
        size_t n = s ? strlen(s) : 0;
        uint32_t cp;
        for (size_t at = 0; at < n;) {
            int len = utf8_decode((const uint8_t *)s + at, n - at, &cp);
            if (len == 0)
                return err_set(e, GLIM_REFUSED, "chat template: %.60s: have invalid UTF-8, need text",
                               in->token[i].name);
            at += (size_t)len;
        }
    }
    return GLIM_OK;
}

glim_status template_render(const struct template *t, const struct template_input *in, struct jinja_output *out,
                            struct glim_err *e)
{
    struct vars a = {0};
    *out = (struct jinja_output){0};
    json_setup();
    TRY(check_tokens(in, e));
    glim_status st = fill(&a, in) ? jinja_render(t->j, a.v, a.n, &in->now, out, e)
                                  : err_nomem(e, "chat template", a.n * sizeof *a.v);
    drop(&a);
    return st;
}

bool template_trusted(const struct jinja_output *out, size_t at)
{
    for (size_t i = 0; i < out->n_span; i++) {
        if (at < out->span[i].n)
            return out->span[i].trusted;
        at -= out->span[i].n;
    }
    return false;
}
