/* Grammars of a model: compiled text, the model's vocabulary as bytes, and what was computed for the two.
 *
 * The vocabulary's tree is made once a model; grammars of tool calls have one of their own, in which the dialect's
 * markers are text. A matcher remembers masks, so a grammar that serves many answers gets faster; answers at the same
 * time have one each, and leave it to later ones. An answer's position in it is a state, or a gate where the grammar
 * begins later. A gate for calls is not asked while the model reasons: a
 * call it thinks about is none. */
#include "run/constraint.h"

#include "run/run.h"
#include "text/schema.h"

#include <string.h>

struct glim_grammar {
    const struct tokenizer *tok;
    struct grammar *g;
    struct grammar_vocab *own; /* NULL: the model's */
    const struct grammar_vocab *vocab;
    struct grammar_matcher **idle; /* [n_idle] matchers that no answer uses */
    size_t n_idle, cap_idle;
    pthread_mutex_t lock;            /* of those */
    struct grammar_trigger *trigger; /* [n_trigger]; none: the grammar begins at once */
    size_t n_trigger;
    bool may_end;
    const char *think, *think_end; /* of calls: what reasoning stands between, or NULL */
};

/* ---- vocabularies ---- */

static bool is_stop(const struct dialect *d, struct tok_piece text)
{
    for (size_t i = 0; d && i < DIALECT_MAX_STOP && d->stop[i]; i++)
        if (strlen(d->stop[i]) == text.n && memcmp(d->stop[i], text.s, text.n) == 0)
            return true;
    return false;
}

/* d: the dialect whose calls it is for, or NULL. */
static glim_status make_vocab(const struct glim_model *m, const struct dialect *d, struct grammar_vocab **out,
                              struct glim_err *e)
{
    size_t n = m->plan.n_vocab, n_end = 0;
    struct grammar_piece *piece = mem_calloc(n, sizeof *piece);
    uint32_t *end = mem_calloc(n, sizeof *end);
    glim_status st = GLIM_OK;
    if (!piece || !end)
        st = err_nomem(e, "grammar", n * sizeof *piece);
    for (size_t i = 0; st == GLIM_OK && i < tok_n(m->tok); i++) {
        int32_t id = (int32_t)i;
        struct tok_piece text = tok_bytes(m->tok, id, true, false), p = tok_bytes(m->tok, id, false, false);
        if (tok_is_end(m->tok, id) || is_stop(d, text))
            end[n_end++] = (uint32_t)i;
        else if (d && p.n == 0 && calls_marker(d, text.s, text.n))
            piece[i] = (struct grammar_piece){text.s, text.n};
        else
            piece[i] = (struct grammar_piece){p.s, p.n};
    }
    if (st == GLIM_OK)
        st = grammar_vocab_create(out, piece, n, end, n_end, e);
    mem_free(piece);
    mem_free(end);
    return st;
}

static glim_status vocab_of(const struct glim_model *m, const struct grammar_vocab **out, struct glim_err *e)
{
    struct model_late *late = m->late;
    glim_status st = GLIM_OK;
    pthread_mutex_lock(&late->lock);
    if (!late->vocab)
        st = make_vocab(m, NULL, &late->vocab, e);
    *out = late->vocab;
    pthread_mutex_unlock(&late->lock);
    return st;
}

/* ---- grammars ---- */

/* A matcher for one answer. */
static glim_status take_matcher(struct glim_grammar *g, struct grammar_matcher **out, struct glim_err *e)
{
    *out = NULL;
    pthread_mutex_lock(&g->lock);
    if (g->n_idle)
        *out = g->idle[--g->n_idle];
    pthread_mutex_unlock(&g->lock);
    return *out ? GLIM_OK : grammar_matcher_create(out, g->g, g->vocab, e);
}

static void put_matcher(struct glim_grammar *g, struct grammar_matcher *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&g->lock);
    bool kept = mem_grow((void **)&g->idle, &g->cap_idle, g->n_idle, sizeof(struct grammar_matcher *));
    if (kept)
        g->idle[g->n_idle++] = m;
    pthread_mutex_unlock(&g->lock);
    if (!kept)
        grammar_matcher_free(m);
}

/* Takes g, also on failure. d: as for make_vocab. */
static glim_status with_model(struct glim_grammar **out, const struct glim_model *m, const struct dialect *d,
                              struct grammar *g, struct glim_err *e)
{
    struct grammar_matcher *first = NULL;
    glim_status st;
    struct glim_grammar *c = mem_calloc(1, sizeof *c);
    if (!c) {
        grammar_free(g);
        return err_nomem(e, "grammar", sizeof *c);
    }
    c->tok = m->tok;
    c->g = g;
    pthread_mutex_init(&c->lock, NULL);
    if (d)
        TRY_OUT(make_vocab(m, d, &c->own, e));
    if (!d)
        TRY_OUT(vocab_of(m, &c->vocab, e));
    if (d)
        c->vocab = c->own;
    TRY_OUT(take_matcher(c, &first, e)); /* so that one too large is refused here */
    put_matcher(c, first);
out:
    if (st != GLIM_OK)
        glim_grammar_free(c);
    else
        *out = c;
    return st;
}

glim_status glim_grammar_gbnf(struct glim_grammar **out, const struct glim_model *m, const char *text, size_t n,
                              struct glim_err *err)
{
    struct grammar *g;
    *out = NULL;
    TRY(grammar_gbnf(&g, text, n, err));
    return with_model(out, m, NULL, g, err);
}

glim_status glim_grammar_json_schema(struct glim_grammar **out, const struct glim_model *m, const char *text, size_t n,
                                     struct glim_err *err)
{
    struct grammar *g;
    json_t *schema;
    *out = NULL;
    TRY(json_parse(text, n, "JSON schema", &schema, err));
    glim_status st = schema_compile(&g, schema, &(struct schema_opts){.closed = true}, err);
    json_decref(schema);
    return st == GLIM_OK ? with_model(out, m, NULL, g, err) : st;
}

/* One more trigger; its text is copied. */
static glim_status add_trigger(struct glim_grammar *g, struct grammar_trigger t, struct glim_err *e)
{
    struct grammar_trigger *more = mem_realloc(g->trigger, (g->n_trigger + 1) * sizeof *more);
    if (!more)
        return err_nomem(e, "grammar", (g->n_trigger + 1) * sizeof *more);
    g->trigger = more;
    char *text = mem_strndup(t.s ? t.s : "", t.n);
    if (!text)
        return err_nomem(e, "grammar", t.n);
    t.s = text;
    g->trigger[g->n_trigger++] = t;
    return GLIM_OK;
}

glim_status glim_grammar_after(struct glim_grammar *g, const char *trigger, bool may_end, struct glim_err *err)
{
    struct grammar_trigger t = {.s = trigger, .n = strlen(trigger)};
    if (t.n == 0)
        return err_set(err, GLIM_USAGE, "grammar: trigger: have an empty text, need at least one byte");
    int32_t id = tok_special(g->tok, trigger, t.n);
    if (tok_is_control(g->tok, id)) /* it has no text in the vocabulary */
        t = (struct grammar_trigger){.token = (uint32_t)id};
    g->may_end = may_end;
    return add_trigger(g, t, err);
}

glim_status run_grammar_calls(struct glim_grammar **out, const struct glim_model *m, const struct dialect *d,
                              const json_t *tools, const struct calls_opts *o, struct glim_err *e)
{
    struct calls c;
    *out = NULL;
    TRY(calls_make(&c, d, tools, o, e));
    struct grammar *g = c.grammar;
    c.grammar = NULL;
    glim_status st = with_model(out, m, d, g, e);
    for (size_t i = 0; st == GLIM_OK && i < c.n_trigger; i++)
        st = add_trigger(*out, c.trigger[i], e);
    calls_fini(&c);
    if (st != GLIM_OK) {
        glim_grammar_free(*out);
        *out = NULL;
        return st;
    }
    (*out)->may_end = true;
    if ((*out)->n_trigger) {
        (*out)->think = d->think;
        (*out)->think_end = d->think_end;
    }
    return GLIM_OK;
}

void glim_grammar_free(struct glim_grammar *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_trigger; i++)
        mem_free((char *)(uintptr_t)g->trigger[i].s);
    mem_free(g->trigger);
    for (size_t i = 0; i < g->n_idle; i++)
        grammar_matcher_free(g->idle[i]);
    mem_free(g->idle);
    pthread_mutex_destroy(&g->lock);
    grammar_vocab_free(g->own);
    grammar_free(g->g);
    mem_free(g);
}

/* ---- at work ---- */

/* Where an answer is: what it begins with may still become the marker of reasoning; it reasons; or the grammar, or its
 * gate, decides. */
enum phase { BEGINNING, REASONING, DECIDING };
enum { EARLY = 32 }; /* tokens that may go by before the first word */

struct constraint {
    struct glim_grammar *g;
    struct grammar_matcher *matcher;
    struct grammar_state *state; /* or */
    struct grammar_gate *gate;
    enum phase phase;
    struct str seen; /* text of the phases before the last */
    int32_t early[EARLY];
    size_t n_early; /* tokens of the beginning, which the gate has not seen */
    uint64_t mask[];
};

glim_status constraint_create(struct constraint **out, struct glim_grammar *g, bool thinks, struct glim_err *e)
{
    size_t n_word = grammar_vocab_words(g->vocab);
    struct constraint *c = mem_calloc(1, sizeof *c + n_word * sizeof *c->mask);
    *out = NULL;
    if (!c)
        return err_nomem(e, "grammar", n_word * sizeof *c->mask);
    c->g = g;
    c->phase = !g->think_end ? DECIDING : thinks ? REASONING : g->think ? BEGINNING : DECIDING;
    glim_status st = take_matcher(g, &c->matcher, e);
    if (st == GLIM_OK && g->n_trigger)
        st = grammar_gate_create(&c->gate, c->matcher, g->trigger, g->n_trigger, g->may_end, e);
    else if (st == GLIM_OK)
        st = grammar_state_create(&c->state, c->matcher, e);
    if (st != GLIM_OK)
        constraint_free(c);
    else
        *out = c;
    return st;
}

void constraint_free(struct constraint *c)
{
    if (!c)
        return;
    grammar_state_free(c->state);
    grammar_gate_free(c->gate);
    put_matcher(c->g, c->matcher);
    str_fini(&c->seen);
    mem_free(c);
}

glim_status constraint_forced(struct constraint *c, int32_t *token, struct glim_err *e)
{
    int64_t only = -1;
    if (c->phase == DECIDING)
        TRY(c->gate ? grammar_gate_forced(c->gate, &only, e) : grammar_forced(c->state, &only, e));
    *token = (int32_t)only;
    return GLIM_OK;
}

glim_status constraint_mask(struct constraint *c, const uint64_t **mask, bool *none, struct glim_err *e)
{
    *mask = NULL;
    *none = false;
    if (c->phase != DECIDING)
        return GLIM_OK;
    *mask = c->mask;
    TRY(c->gate ? grammar_gate_mask(c->gate, c->mask, e) : grammar_mask(c->state, c->mask, e));
    uint64_t any = 0;
    for (size_t i = 0; i < grammar_vocab_words(c->g->vocab); i++)
        any |= c->mask[i];
    *none = any == 0;
    return GLIM_OK;
}

/* The phase after some more text. */
static void think_on(struct constraint *c)
{
    const char *s = c->seen.s ? c->seen.s : "";
    if (c->phase == BEGINNING) {
        s += strspn(s, " \t\r\n");
        size_t n = strlen(s), want = strlen(c->g->think);
        if (strncmp(s, c->g->think, n < want ? n : want) != 0 || c->n_early == EARLY)
            c->phase = DECIDING;
        else if (n >= want)
            c->phase = REASONING;
    }
    if (c->phase == REASONING && strstr(s, c->g->think_end))
        c->phase = DECIDING;
}

static glim_status take(struct constraint *c, int32_t token, struct glim_err *e)
{
    return c->gate ? grammar_gate_accept(c->gate, (uint32_t)token, e) : grammar_accept(c->state, (uint32_t)token, e);
}

glim_status constraint_accept(struct constraint *c, int32_t token, struct glim_err *e)
{
    if (c->phase == DECIDING)
        return take(c, token, e);
    struct tok_piece p = tok_bytes(c->g->tok, token, true, false);
    for (uint32_t i = 0; i < p.n; i++) /* a zero byte is no part of a marker */
        str_putc(&c->seen, p.s[i] ? p.s[i] : ' ');
    if (c->seen.failed)
        return err_nomem(e, "grammar", c->seen.n);
    bool beginning = c->phase == BEGINNING;
    if (beginning)
        c->early[c->n_early++] = token;
    think_on(c);
    for (size_t i = 0; beginning && c->phase == DECIDING && i < c->n_early; i++)
        TRY(take(c, c->early[i], e));
    return GLIM_OK;
}
