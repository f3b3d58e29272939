/* Conversations. See chat.h. */
#include "text/chat.h"

#include "base/mem.h"

#include <string.h>

/* A template, and what it can do. */
struct voice {
    struct template *t;
    struct template_caps caps;
};

struct chat {
    struct voice plain, tools; /* tools.t is NULL where one template serves both */
    const struct dialect *dialect;
    struct template_token *token;
    size_t n_token;
};

/* ---- life ---- */

static glim_status copy_tokens(struct chat *c, const struct chat_spec *s, struct glim_err *e)
{
    c->token = mem_calloc(s->n_token, sizeof *c->token);
    if (!c->token)
        return err_nomem(e, "chat", s->n_token * sizeof *c->token);
    for (; c->n_token < s->n_token; c->n_token++) {
        const struct template_token *from = &s->token[c->n_token];
        c->token[c->n_token] = (struct template_token){.name = from->name, .text = mem_strdup(from->text)};
        if (!c->token[c->n_token].text)
            return err_nomem(e, "chat", strlen(from->text));
    }
    return GLIM_OK;
}

static glim_status open_voice(struct voice *v, const struct chat *c, const char *text, const char *name,
                              struct glim_err *e)
{
    TRY(template_open(&v->t, text, strlen(text), name, e));
    struct template_input in = {.token = c->token, .n_token = c->n_token, .now = {.tm_year = 125, .tm_mday = 1}};
    return template_probe(v->t, &in, &v->caps, e);
}

static glim_status find_dialect(struct chat *c, const struct chat_spec *s, struct glim_err *e)
{
    const char *text = s->tool_text ? s->tool_text : s->text;
    c->dialect = s->dialect ? dialect_by_name(s->dialect) : dialect_find(text, strlen(text));
    if (c->dialect)
        return GLIM_OK;
    struct str names = {0};
    for (size_t i = 0; i < dialect_count(); i++)
        str_printf(&names, "%s%s", i ? ", " : "", dialect_at(i)->name);
    err_set(e, GLIM_USAGE, "chat: dialect: have '%.60s', need one of %s", s->dialect,
            names.s ? names.s : "those listed");
    str_fini(&names);
    return GLIM_USAGE;
}

glim_status chat_open(struct chat **out, const struct chat_spec *s, struct glim_err *e)
{
    glim_status st;
    *out = NULL;
    if (!s->text)
        return err_set(e, GLIM_REFUSED, "chat: %s: have no chat template, need one in the model or a file of its own",
                       s->name);
    struct chat *c = mem_calloc(1, sizeof *c);
    if (!c)
        return err_nomem(e, "chat", sizeof *c);
    TRY_OUT(copy_tokens(c, s, e));
    TRY_OUT(open_voice(&c->plain, c, s->text, s->name, e));
    if (s->tool_text)
        TRY_OUT(open_voice(&c->tools, c, s->tool_text, s->name, e));
    TRY_OUT(find_dialect(c, s, e));
out:
    if (st != GLIM_OK)
        chat_close(c);
    else
        *out = c;
    return st;
}

void chat_close(struct chat *c)
{
    if (!c)
        return;
    template_close(c->plain.t);
    template_close(c->tools.t);
    for (size_t i = 0; i < c->n_token; i++)
        mem_free((char *)(uintptr_t)c->token[i].text);
    mem_free(c->token);
    mem_free(c);
}

const struct dialect *chat_dialect(const struct chat *c)
{
    return c->dialect;
}

static const struct voice *voice_of(const struct chat *c, bool with_tools)
{
    return with_tools && c->tools.t ? &c->tools : &c->plain;
}

const struct template_caps *chat_caps(const struct chat *c, bool with_tools)
{
    return &voice_of(c, with_tools)->caps;
}

/* ---- messages, in the form the template takes ---- */

/* "refused: …" with the template's own words where it had any. */
static glim_status cannot(const struct template_caps *caps, enum template_cap cap, const char *what, struct glim_err *e)
{
    const char *why = caps->why_not[cap];
    return err_set(e, GLIM_REFUSED, "chat: %s: have a template that cannot do it%s%s, need one that can", what,
                   why[0] ? ": " : "", why);
}

/* The text of a list of parts, or NULL with an error. */
static glim_status join_parts(const json_t *parts, struct str *out, struct glim_err *e)
{
    size_t i;
    json_t *part;
    json_array_foreach(parts, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text))
            return err_set(e, GLIM_REFUSED,
                           "chat: content part %zu: have type '%.40s', need text (glim reads no images)", i,
                           type ? type : "none");
        str_add(out, json_string_value(text), json_string_length(text));
    }
    return out->failed ? err_nomem(e, "chat", out->n) : GLIM_OK;
}

static glim_status fit_content(json_t *message, const struct template_caps *caps, struct glim_err *e)
{
    const json_t *content = json_object_get(message, "content");
    struct str text = {0};
    glim_status st = GLIM_OK;
    json_t *fitted = NULL;
    if (json_is_array(content)) {
        st = join_parts(content, &text, e);
        if (st == GLIM_OK)
            fitted = caps->can[TEMPLATE_STRING_CONTENT] ? json_stringn(text.s ? text.s : "", text.n)
                                                        : json_incref(json_object_get(message, "content"));
    } else if (json_is_string(content) && !caps->can[TEMPLATE_STRING_CONTENT] && caps->can[TEMPLATE_PARTS_CONTENT]) {
        fitted = json_pack("[{s:s, s:O}]", "type", "text", "text", content);
    } else {
        return GLIM_OK;
    }
    str_fini(&text);
    TRY(st);
    return json_object_set_new(message, "content", fitted) == 0 ? GLIM_OK : err_nomem(e, "chat", 0);
}

/* Arguments as an object where the template takes one, else as text. */
static glim_status fit_arguments(json_t *function, const struct template_caps *caps, struct glim_err *e)
{
    json_t *args = json_object_get(function, "arguments"), *fitted = NULL;
    if (json_is_string(args) && caps->can[TEMPLATE_OBJECT_ARGUMENTS]) {
        TRY(json_parse(json_string_value(args), json_string_length(args), "arguments of a tool call", &fitted, e));
        if (!json_is_object(fitted)) {
            json_decref(fitted);
            return err_set(e, GLIM_REFUSED, "chat: arguments of a tool call: have '%.60s', need a JSON object",
                           json_string_value(args));
        }
    } else if (json_is_object(args) && !caps->can[TEMPLATE_OBJECT_ARGUMENTS]) {
        char *text = json_dumps(args, JSON_ENSURE_ASCII);
        fitted = text ? json_string(text) : NULL;
        mem_free(text);
    } else {
        return GLIM_OK;
    }
    return json_object_set_new(function, "arguments", fitted) == 0 ? GLIM_OK : err_nomem(e, "chat", 0);
}

static glim_status fit_message(json_t *message, const struct template_caps *caps, struct glim_err *e)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    size_t i;
    json_t *call, *thought = json_object_get(message, "reasoning_content");
    if (!role)
        return err_set(e, GLIM_REFUSED, "chat: message: have no role, need one");
    if (strcmp(role, "system") == 0 && !caps->can[TEMPLATE_SYSTEM])
        return cannot(caps, TEMPLATE_SYSTEM, "system message", e);
    TRY(fit_content(message, caps, e));
    if (thought && caps->reasoning_field && strcmp(caps->reasoning_field, "reasoning_content") != 0 &&
        json_object_set(message, caps->reasoning_field, thought) != 0)
        return err_nomem(e, "chat", 0);
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        json_t *function = json_object_get(call, "function");
        TRY(fit_arguments(function ? function : call, caps, e));
    }
    return GLIM_OK;
}

static glim_status fit_messages(const json_t *from, const struct template_caps *caps, json_t **out, struct glim_err *e)
{
    size_t i;
    json_t *message;
    glim_status st = GLIM_OK;
    *out = NULL;
    if (!json_is_array(from) || json_array_size(from) == 0)
        return err_set(e, GLIM_REFUSED, "chat: messages: have none, need a list of at least one");
    json_t *copy = json_deep_copy(from);
    if (!copy)
        return err_nomem(e, "chat", 0);
    for (i = 0; st == GLIM_OK && i < json_array_size(copy); i++) {
        message = json_array_get(copy, i);
        st = json_is_object(message) ? fit_message(message, caps, e)
                                     : err_set(e, GLIM_REFUSED, "chat: message %zu: have no object, need one", i);
    }
    if (st != GLIM_OK)
        json_decref(copy);
    else
        *out = copy;
    return st;
}

/* ---- reasoning ---- */

static const char *const reasoning_word[] = {
    [CHAT_REASONING_DEFAULT] = "default", [CHAT_REASONING_OFF] = "off",       [CHAT_REASONING_ON] = "on",
    [CHAT_REASONING_LOW] = "low",         [CHAT_REASONING_MEDIUM] = "medium", [CHAT_REASONING_HIGH] = "high"};

/* The template's variables: the caller's, and its switch of reasoning. */
static glim_status variables(const struct template_caps *caps, const struct chat_input *in, json_t **out,
                             struct glim_err *e)
{
    enum chat_reasoning how = in->reasoning;
    json_t *all = in->extra ? json_deep_copy(in->extra) : json_object(), *value;
    *out = all;
    if (!all)
        return err_nomem(e, "chat", 0);
    if (how == CHAT_REASONING_DEFAULT)
        return GLIM_OK;
    bool level = how != CHAT_REASONING_OFF && how != CHAT_REASONING_ON;
    const char *key = level ? caps->effort_key : caps->switch_key;
    if (!key)
        return err_set(e, GLIM_REFUSED, "chat: reasoning: have '%s' and a template %s, need %s", reasoning_word[how],
                       caps->switch_key   ? "that takes on or off"
                       : caps->effort_key ? "that takes a level"
                                          : "without a switch",
                       caps->switch_key   ? "one of these"
                       : caps->effort_key ? "low, medium or high"
                                          : "the default");
    value = level ? json_string(reasoning_word[how]) : json_boolean(how == CHAT_REASONING_ON);
    return json_object_set_new(all, key, value) == 0 ? GLIM_OK : err_nomem(e, "chat", 0);
}

/* ---- the prompt ---- */

static glim_status take_output(const struct chat *c, struct jinja_output *out, struct chat_prompt *p,
                               struct glim_err *e)
{
    p->run = mem_calloc(out->n_span, sizeof *p->run);
    if (!p->run)
        return err_nomem(e, "chat", out->n_span * sizeof *p->run);
    for (; p->n_run < out->n_span; p->n_run++)
        p->run[p->n_run] = (struct tok_run){.n = out->span[p->n_run].n, .trusted = out->span[p->n_run].trusted};
    p->text = out->text;
    out->text = (struct str){0};
    p->end = dialect_prompt_end(c->dialect, p->text.s ? p->text.s : "", p->text.n);
    return GLIM_OK;
}

glim_status chat_prompt_make(const struct chat *c, const struct chat_input *in, struct chat_prompt *p,
                             struct glim_err *e)
{
    bool with_tools = json_array_size(in->tools) > 0;
    const struct voice *v = voice_of(c, with_tools);
    struct jinja_output out = {0};
    json_t *messages = NULL, *extra = NULL;
    glim_status st;
    *p = (struct chat_prompt){0};
    if (with_tools && !v->caps.can[TEMPLATE_TOOLS])
        return cannot(&v->caps, TEMPLATE_TOOLS, "tools", e);
    if (with_tools && c->dialect->syntax == DIALECT_NO_CALLS)
        return err_set(e, GLIM_REFUSED,
                       "chat: tools: have a template whose calls no dialect reads, need one of those listed");
    TRY_OUT(fit_messages(in->messages, &v->caps, &messages, e));
    TRY_OUT(variables(&v->caps, in, &extra, e));
    struct template_input ti = {.messages = messages,
                                .tools = with_tools ? in->tools : NULL,
                                .extra = extra,
                                .add_generation_prompt = !in->no_answer,
                                .token = c->token,
                                .n_token = c->n_token,
                                .now = in->now};
    TRY_OUT(template_render(v->t, &ti, &out, e));
    TRY_OUT(take_output(c, &out, p, e));
out:
    json_decref(messages);
    json_decref(extra);
    jinja_output_fini(&out);
    if (st != GLIM_OK)
        chat_prompt_fini(p);
    return st;
}

void chat_prompt_fini(struct chat_prompt *p)
{
    str_fini(&p->text);
    mem_free(p->run);
    *p = (struct chat_prompt){0};
}

/* ---- tokens ---- */

static glim_status remember(struct chat_memory *m, const int32_t *id, size_t n, struct glim_err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!mem_grow((void **)&m->id, &m->cap_id, m->n_id, sizeof *m->id))
            return err_nomem(e, "chat", m->n_id * sizeof *m->id);
        m->id[m->n_id++] = id[i];
    }
    return m->text.failed ? err_nomem(e, "chat", m->text.n) : GLIM_OK;
}

glim_status chat_memory_begin(struct chat_memory *m, const struct chat_prompt *p, const int32_t *id, size_t n,
                              struct glim_err *e)
{
    chat_memory_clear(m);
    str_add(&m->text, p->text.s, p->text.n);
    return remember(m, id, n, e);
}

glim_status chat_memory_add(struct chat_memory *m, const struct tokenizer *t, const int32_t *id, size_t n,
                            struct glim_err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct tok_piece p = tok_bytes(t, id[i], true, false);
        str_add(&m->text, p.s, p.n);
    }
    return remember(m, id, n, e);
}

void chat_memory_clear(struct chat_memory *m)
{
    str_clear(&m->text);
    m->n_id = 0;
}

void chat_memory_fini(struct chat_memory *m)
{
    str_fini(&m->text);
    mem_free(m->id);
    *m = (struct chat_memory){0};
}

/* The tokens of the prompt from byte `at` on. */
static glim_status encode_from(const struct chat_prompt *p, const struct tokenizer *t, size_t at, int flags,
                               int32_t **id, size_t *n_id, struct glim_err *e)
{
    size_t i = 0, skip = at;
    for (; i < p->n_run && skip >= p->run[i].n; i++)
        skip -= p->run[i].n;
    struct tok_run *run = mem_calloc(p->n_run - i, sizeof *run);
    if (!run)
        return err_nomem(e, "chat", p->n_run * sizeof *run);
    if (i < p->n_run)
        memcpy(run, p->run + i, (p->n_run - i) * sizeof *run);
    if (i < p->n_run)
        run[0].n -= skip;
    glim_status st = tok_encode_runs(t, p->text.s ? p->text.s + at : "", run, p->n_run - i, flags, id, n_id, e);
    mem_free(run);
    return st;
}

static bool goes_on(const struct chat_prompt *p, const struct chat_memory *m)
{
    return m && m->n_id > 0 && p->text.n >= m->text.n && memcmp(p->text.s, m->text.s, m->text.n) == 0;
}

/* The beginning is BOS already, whoever wrote it. */
static bool has_bos(const struct tokenizer *t, const struct chat_prompt *p)
{
    struct tok_piece bos = tok_bytes(t, tok_bos(t), true, true);
    return bos.n > 0 && p->text.n >= bos.n && memcmp(p->text.s, bos.s, bos.n) == 0 && p->n_run > 0 &&
           p->run[0].trusted && p->run[0].n >= bos.n;
}

glim_status chat_encode(const struct chat_prompt *p, const struct tokenizer *t, const struct chat_memory *known,
                        int32_t **id, size_t *n_id, struct glim_err *e)
{
    int32_t *rest;
    size_t n_rest;
    if (goes_on(p, known)) {
        bool after_control = tok_is_control(t, known->id[known->n_id - 1]);
        TRY(encode_from(p, t, known->text.n, TOK_GOES_ON, &rest, &n_rest, e));
        /* a word must not lie on both sides of the seam */
        if (after_control || n_rest == 0 || tok_is_control(t, rest[0])) {
            *n_id = known->n_id + n_rest;
            *id = mem_alloc(*n_id * sizeof **id);
            if (*id) {
                memcpy(*id, known->id, known->n_id * sizeof **id);
                memcpy(*id + known->n_id, rest, n_rest * sizeof **id);
            }
            mem_free(rest);
            return *id ? GLIM_OK : err_nomem(e, "chat", *n_id * sizeof **id);
        }
        mem_free(rest);
    }
    return encode_from(p, t, 0, has_bos(t, p) ? 0 : TOK_ADD_BOS, id, n_id, e);
}
