/* Matchers and states: the calls of grammar.h around pool and masks. */
#include "text/grammar_match.h"

#include "base/mem.h"

#include <string.h>

/* ---- matcher ---- */

/* Frames and configs that always exist, and the beginning of all texts. */
static bool begin(struct grammar_matcher *m)
{
    if (!m_room(m, (void **)&m->frame, &m->cap_frame, 0, 2, sizeof *m->frame) ||
        !m_room(m, (void **)&m->config, &m->cap_config, 0, 2, sizeof *m->config))
        return false;
    m->frame[m->n_frame++] = (struct m_frame){.wide = true};    /* M_BOTTOM */
    m->frame[m->n_frame++] = (struct m_frame){.wide = true};    /* M_HOLE */
    m->config[m->n_config++] = (struct m_config){.leaf = true}; /* M_FAILED */
    m->config[m->n_config++] = (struct m_config){.leaf = true}; /* M_DEAD */
    m_begin(m);
    m_reach(m, m->g->start, M_BOTTOM);
    m->start = m_end(m);
    return m->start != M_FAILED && m_mask_init(m);
}

glim_status m_failed(const struct grammar_matcher *m, struct glim_err *e)
{
    if (m->why == GLIM_FAILED)
        return err_nomem(e, "grammar matcher", m->bytes);
    return err_set(e, GLIM_REFUSED, "grammar: too ambiguous or too deep: have %zu bytes in %llu steps, need %zu and %d",
                   m->bytes, (unsigned long long)m->steps, m->g->limits.bytes, M_WORK_MAX);
}

glim_status grammar_matcher_create(struct grammar_matcher **out, const struct grammar *g, const struct grammar_vocab *v,
                                   struct glim_err *e)
{
    struct grammar_matcher *m = mem_calloc(1, sizeof *m);
    uint32_t longest = 0;
    *out = NULL;
    if (!m)
        return err_nomem(e, "grammar matcher", sizeof *m);
    m->g = g;
    m->v = v;
    for (int i = 0; i < V_PART; i++)
        longest = v->longest[i] > longest ? v->longest[i] : longest;
    m->scratch = mem_calloc(v->n_word, sizeof *m->scratch);
    m->path = mem_alloc((longest + 1) * sizeof *m->path);
    m->hit = mem_alloc(M_HITS * sizeof *m->hit);
    m->run = mem_calloc(M_RUNS, sizeof *m->run);
    glim_status st = GLIM_OK;
    if (!m->scratch || !m->path || !m->hit || !m->run)
        st = err_nomem(e, "grammar matcher", v->n_word * sizeof *m->scratch);
    else if (!begin(m))
        st = m_failed(m, e);
    if (st == GLIM_OK)
        *out = m;
    else
        grammar_matcher_free(m);
    return st;
}

void grammar_matcher_free(struct grammar_matcher *m)
{
    if (!m)
        return;
    void *const all[] = {m->frame, m->entry, m->config, m->thread, m->row,  m->due,  m->out,  m->seen,
                         m->heap,  m->set,   m->memo,   m->list,   m->data, m->bits, m->path, m->scratch,
                         m->pops,  m->group, m->work,   m->forced, m->hit,  m->run};
    struct g_table *const tables[] = {&m->slot_frame, &m->slot_config, &m->slot_memo, &m->slot_list, &m->slot_divided};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        mem_free(all[i]);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        mem_free(tables[i]->slot);
    mem_free(m);
}

/* ---- states ---- */

static glim_status state_new(struct grammar_state **out, struct grammar_matcher *m, size_t n, struct glim_err *e)
{
    struct grammar_state *s = mem_calloc(1, sizeof *s);
    *out = NULL;
    if (!s || !(s->at = mem_alloc(n * sizeof *s->at))) {
        mem_free(s);
        return err_nomem(e, "grammar state", n * sizeof *s->at);
    }
    s->cap = n;
    s->m = m;
    s->next = m->states;
    if (s->next)
        s->next->prev = s;
    m->states = s;
    *out = s;
    return GLIM_OK;
}

glim_status grammar_state_create(struct grammar_state **out, struct grammar_matcher *m, struct glim_err *e)
{
    TRY(state_new(out, m, 64, e));
    (*out)->at[(*out)->n++] = m->start;
    return GLIM_OK;
}

glim_status grammar_state_copy(struct grammar_state **out, const struct grammar_state *from, struct glim_err *e)
{
    TRY(state_new(out, from->m, from->n + 64, e));
    memcpy((*out)->at, from->at, from->n * sizeof *from->at);
    (*out)->n = from->n;
    return GLIM_OK;
}

void grammar_state_free(struct grammar_state *s)
{
    if (!s)
        return;
    if (s->prev)
        s->prev->next = s->next;
    else
        s->m->states = s->next;
    if (s->next)
        s->next->prev = s->prev;
    mem_free(s->at);
    mem_free(s);
}

void grammar_state_reset(struct grammar_state *s)
{
    s->n = 1;
}

size_t grammar_taken(const struct grammar_state *s)
{
    return s->n - 1;
}

void grammar_rollback(struct grammar_state *s, size_t steps)
{
    s->n -= steps < s->n ? steps : s->n - 1;
}

bool grammar_can_end(const struct grammar_state *s)
{
    return s->m->config[s->at[s->n - 1]].bottom;
}

/* ---- steps ---- */

void m_calm(struct grammar_matcher *m)
{
    m->why = GLIM_OK;
    m->steps = 0;
    m->n_hit = 0;
    m->spilled = false;
}

static uint32_t take(struct grammar_matcher *m, uint32_t config, const uint8_t *p, size_t n)
{
    m_calm(m);
    for (size_t i = 0; i < n && config > M_DEAD; i++) {
        m->steps = 0; /* long texts are many calls' worth */
        config = m_step(m, config, m->g->cls[p[i]]);
    }
    return config;
}

glim_status g_accept_from(struct grammar_state *s, const struct grammar_state *from, const void *p, size_t n,
                          struct glim_err *e)
{
    struct grammar_matcher *m = s->m;
    if (!mem_grow((void **)&s->at, &s->cap, s->n, sizeof *s->at))
        return err_nomem(e, "grammar state", s->n * sizeof *s->at);
    uint32_t to = take(m, from->at[from->n - 1], p, n);
    if (to == M_FAILED && m->why == GLIM_REFUSED && m_collect(m))
        to = take(m, from->at[from->n - 1], p, n);
    if (to == M_FAILED)
        return m_failed(m, e);
    if (to == M_DEAD)
        return err_set(e, GLIM_REFUSED,
                       "grammar: %zu bytes: have text that no sentence goes on with, need some that does", n);
    s->at[s->n++] = to;
    return GLIM_OK;
}

glim_status grammar_accept_bytes(struct grammar_state *s, const void *p, size_t n, struct glim_err *e)
{
    return g_accept_from(s, s, p, n, e);
}

glim_status grammar_accept(struct grammar_state *s, uint32_t id, struct glim_err *e)
{
    const struct grammar_vocab *v = s->m->v;
    if (id >= v->n_piece)
        return err_set(e, GLIM_USAGE, "grammar: token: have %u, need one below %zu", id, v->n_piece);
    if (!bit_get(v->end, id)) {
        size_t n = v->piece[id + 1] - v->piece[id];
        if (n == 0)
            return err_set(e, GLIM_REFUSED, "grammar: token %u: have one without text, need text or an end token", id);
        return grammar_accept_bytes(s, v->text + v->piece[id], n, e);
    }
    if (!grammar_can_end(s))
        return err_set(e, GLIM_REFUSED, "grammar: token %u: have an end before the text is complete, need more text",
                       id);
    if (!mem_grow((void **)&s->at, &s->cap, s->n, sizeof *s->at))
        return err_nomem(e, "grammar state", s->n * sizeof *s->at);
    s->at[s->n++] = M_DEAD;
    return GLIM_OK;
}

/* ---- masks ---- */

glim_status grammar_mask(struct grammar_state *s, uint64_t *bits, struct glim_err *e)
{
    struct grammar_matcher *m = s->m;
    m_calm(m);
    if (m_mask(m, s->at[s->n - 1], bits))
        return GLIM_OK;
    if (m->why == GLIM_REFUSED && m_collect(m)) {
        m_calm(m);
        if (m_mask(m, s->at[s->n - 1], bits))
            return GLIM_OK;
    }
    return m_failed(m, e);
}

glim_status grammar_forced(struct grammar_state *s, int64_t *id, struct glim_err *e)
{
    struct grammar_matcher *m = s->m;
    *id = -1;
    if (!m->forced && !(m->forced = mem_alloc(m->v->n_word * sizeof *m->forced)))
        return err_nomem(e, "grammar matcher", m->v->n_word * sizeof *m->forced);
    TRY(grammar_mask(s, m->forced, e));
    int64_t only = -1;
    for (size_t i = 0; i < m->v->n_word; i++) {
        uint64_t w = m->forced[i];
        if (w == 0)
            continue;
        if (only >= 0 || (w & (w - 1)))
            return GLIM_OK;
        only = (int64_t)(i * 64 + (size_t)__builtin_ctzll(w));
    }
    *id = only;
    return GLIM_OK;
}
