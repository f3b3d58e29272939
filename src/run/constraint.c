/* Grammars of a model: compiled text, the model's vocabulary as bytes, and what was computed for the two.
 *
 * The vocabulary's tree is made once a model. A matcher remembers masks, so a grammar that serves many answers gets
 * faster. An answer's position in it is a state, or a gate where the grammar begins later. */
#include "run/constraint.h"

#include "run/model.h"
#include "text/grammar_gate.h"
#include "text/schema.h"

#include <string.h>

struct glim_grammar {
    struct grammar *g;
    struct grammar_matcher *matcher;
    size_t n_word;
    struct grammar_trigger *after; /* [n_after] */
    size_t n_after;
    bool may_end;
};

/* ---- the model's vocabulary ---- */

static glim_status make_vocab(const struct glim_model *m, struct grammar_vocab **out, struct glim_err *e)
{
    size_t n = m->plan.n_vocab, n_end = 0;
    struct grammar_piece *piece = mem_calloc(n, sizeof *piece);
    uint32_t *end = mem_calloc(n, sizeof *end);
    glim_status st = GLIM_OK;
    if (!piece || !end)
        st = err_nomem(e, "grammar", n * sizeof *piece);
    for (size_t i = 0; st == GLIM_OK && i < tok_n(m->tok); i++) {
        struct tok_piece p = tok_bytes(m->tok, (int32_t)i, false, false);
        if (tok_is_end(m->tok, (int32_t)i))
            end[n_end++] = (uint32_t)i;
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
        st = make_vocab(m, &late->vocab, e);
    *out = late->vocab;
    pthread_mutex_unlock(&late->lock);
    return st;
}

/* ---- grammars ---- */

/* Takes g, also on failure. */
static glim_status with_model(struct glim_grammar **out, const struct glim_model *m, struct grammar *g,
                              struct glim_err *e)
{
    const struct grammar_vocab *v;
    glim_status st;
    struct glim_grammar *c = mem_calloc(1, sizeof *c);
    if (!c) {
        grammar_free(g);
        return err_nomem(e, "grammar", sizeof *c);
    }
    c->g = g;
    TRY_OUT(vocab_of(m, &v, e));
    c->n_word = grammar_vocab_words(v);
    TRY_OUT(grammar_matcher_create(&c->matcher, g, v, e));
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
    return with_model(out, m, g, err);
}

glim_status glim_grammar_json_schema(struct glim_grammar **out, const struct glim_model *m, const char *text, size_t n,
                                     struct glim_err *err)
{
    struct grammar *g;
    json_t *schema;
    *out = NULL;
    TRY(json_parse(text, n, "JSON schema", &schema, err));
    glim_status st = schema_compile(&g, schema, NULL, err);
    json_decref(schema);
    return st == GLIM_OK ? with_model(out, m, g, err) : st;
}

glim_status glim_grammar_after(struct glim_grammar *g, const char *trigger, bool may_end, struct glim_err *err)
{
    size_t n = strlen(trigger);
    if (n == 0)
        return err_set(err, GLIM_USAGE, "grammar: trigger: have an empty text, need at least one byte");
    struct grammar_trigger *more = mem_realloc(g->after, (g->n_after + 1) * sizeof *more);
    if (!more)
        return err_nomem(err, "grammar", (g->n_after + 1) * sizeof *more);
    g->after = more;
    char *text = mem_strndup(trigger, n);
    if (!text)
        return err_nomem(err, "grammar", n);
    g->after[g->n_after++] = (struct grammar_trigger){.s = text, .n = n};
    g->may_end = may_end;
    return GLIM_OK;
}

void glim_grammar_free(struct glim_grammar *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_after; i++)
        mem_free((char *)(uintptr_t)g->after[i].s);
    mem_free(g->after);
    grammar_matcher_free(g->matcher);
    grammar_free(g->g);
    mem_free(g);
}

/* ---- at work ---- */

struct constraint {
    struct grammar_state *state; /* or */
    struct grammar_gate *gate;
    size_t n_word;
    uint64_t mask[];
};

glim_status constraint_create(struct constraint **out, struct glim_grammar *g, struct glim_err *e)
{
    struct constraint *c = mem_calloc(1, sizeof *c + g->n_word * sizeof *c->mask);
    *out = NULL;
    if (!c)
        return err_nomem(e, "grammar", g->n_word * sizeof *c->mask);
    c->n_word = g->n_word;
    glim_status st = g->n_after ? grammar_gate_create(&c->gate, g->matcher, g->after, g->n_after, g->may_end, e)
                                : grammar_state_create(&c->state, g->matcher, e);
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
    mem_free(c);
}

glim_status constraint_next(struct constraint *c, const uint64_t **mask, int32_t *forced, bool *none,
                            struct glim_err *e)
{
    int64_t only;
    *forced = -1;
    *mask = c->mask;
    *none = false;
    TRY(c->gate ? grammar_gate_forced(c->gate, &only, e) : grammar_forced(c->state, &only, e));
    if (only >= 0) {
        *forced = (int32_t)only;
        return GLIM_OK;
    }
    TRY(c->gate ? grammar_gate_mask(c->gate, c->mask, e) : grammar_mask(c->state, c->mask, e));
    uint64_t any = 0;
    for (size_t i = 0; i < c->n_word; i++)
        any |= c->mask[i];
    *none = any == 0;
    return GLIM_OK;
}

glim_status constraint_accept(struct constraint *c, int32_t token, struct glim_err *e)
{
    return c->gate ? grammar_gate_accept(c->gate, (uint32_t)token, e) : grammar_accept(c->state, (uint32_t)token, e);
}
