/* Walks down a trie from a config.
 *
 * Most of a vocabulary is admitted or refused by the lot. Where a config goes on in the same way after whatever is of
 * some kinds (in a string: after all but quotes, backslashes and controls), these kinds are free in it: all leads to
 * one config, which often is the same one. A subtree whose kinds are free in the config, in the one after it, and so on
 * as often as the subtree is high, is admitted without being walked; so is what the hole would add there. What is
 * inside a character is never judged by this. */
#include "text/grammar_match.h"

enum { KIND_TRIES = 100 }; /* steps of finding out what follows the characters of one kind in one config */

/* ---- what is found ---- */

void v_admit(const struct grammar_vocab *v, const struct v_node *n, uint64_t *bits)
{
    bit_set(bits, n->token);
    if (n->more)
        for (uint32_t t = v->same[n->token]; t != V_NONE; t = v->same[t])
            bit_set(bits, t);
}

void m_flush(struct grammar_matcher *m, uint64_t *bits)
{
    const uint32_t *ranked = m->v->ranked;
    for (size_t i = 0; i < m->n_hit; i++)
        for (uint32_t r = m->hit[i].rank; r < m->hit[i].rank + m->hit[i].n; r++)
            bit_set(bits, ranked[r]);
    m->n_hit = 0;
}

/* The ranks from one node to another. */
static void hit(struct grammar_matcher *m, const struct v_node *from, const struct v_node *to, uint64_t *bits)
{
    struct m_range *last = m->n_hit ? &m->hit[m->n_hit - 1] : NULL;
    if (last && last->rank + last->n == from->rank) {
        last->n += to->rank - from->rank;
        return;
    }
    if (m->n_hit == M_HITS) {
        m_flush(m, bits);
        m->spilled = true;
    }
    m->hit[m->n_hit++] = (struct m_range){from->rank, to->rank - from->rank};
}

/* ---- free kinds ---- */

/* All lead to *home so far (M_FAILED: none tried), and now also to `to`. */
static void meet(uint32_t *home, uint32_t to)
{
    *home = *home == M_FAILED || *home == to ? to : M_DEAD;
}

/* The config that follows all characters of which `more` bytes are to come, the next lo .. hi, after config; M_DEAD:
 * there is none, or different ones, or *tries steps did not tell. Bytes of one class are tried once. */
static bool after_char(struct grammar_matcher *m, uint32_t config, uint8_t lo, uint8_t hi, int more, int *tries,
                       uint32_t *home)
{
    *home = M_FAILED;
    for (int b = lo; b <= hi && *home != M_DEAD; b++) {
        if (b > lo && m->g->cls[b] == m->g->cls[b - 1])
            continue;
        uint32_t to = m_step(m, config, m->g->cls[b]);
        if (to == M_FAILED)
            return false;
        if (--*tries < 0)
            to = M_DEAD;
        if (to != M_DEAD && more > 1 && !after_char(m, to, 0x80, 0xBF, more - 1, tries, &to))
            return false;
        meet(home, to);
    }
    return true;
}

/* The config that everything of a kind leads to, as `after_char` says it. *live: something of it leads on. */
static bool after_kind(struct grammar_matcher *m, uint32_t config, const struct v_kind *kind, uint32_t *home,
                       bool *live)
{
    const uint8_t *cls = m->g->cls;
    int tries = KIND_TRIES;
    *home = M_FAILED;
    *live = false;
    for (int b = kind->first; b <= kind->last; b++) {
        const struct v_lead *l = v_leads;
        while (b >= 0x80 && b > l->last)
            l++;
        if (b > kind->first && cls[b] == cls[b - 1] && (b < 0x80 || b > l->first))
            continue;
        uint32_t to = m_step(m, config, cls[b]);
        *live |= to > M_DEAD;
        if (b >= 0x80 && to > M_DEAD && !after_char(m, to, l->lo, l->hi, l->more, &tries, &to))
            return false;
        if (to == M_FAILED)
            return false;
        meet(home, to);
    }
    return true;
}

/* Try the kinds that have not been tried, until one is not free. The first live one decides what free ones lead to. */
static bool try_kinds(struct grammar_matcher *m, uint32_t config, uint64_t kinds)
{
    for (int k = V_KINDS - 1; k > V_KIND_BAD && !(kinds & ~m->config[config].open); k--) {
        uint64_t bit = (uint64_t)1 << k;
        uint32_t home;
        bool live;
        if (!(kinds & ~m->config[config].tried & bit))
            continue;
        if (!after_kind(m, config, &v_kinds[k], &home, &live))
            return false;
        struct m_config *c = &m->config[config];
        c->tried |= bit;
        if (!live)
            c->dead |= bit;
        if (c->then == M_FAILED && home != M_DEAD)
            c->then = home;
        if (home == M_DEAD || home != c->then)
            c->open &= ~bit;
    }
    return true;
}

/* *all: whatever is made of these kinds and of at most `height` bytes is admitted in config. false on failure. */
static bool is_free(struct grammar_matcher *m, uint32_t config, uint64_t kinds, uint32_t height, bool *all)
{
    *all = false;
    for (; height > 0; height--) {
        if (m->config[config].tried == 0)
            m->config[config].open = ~((uint64_t)1 << V_KIND_BAD);
        if ((kinds & ~m->config[config].tried) && !try_kinds(m, config, kinds))
            return false;
        if (kinds & ~m->config[config].open)
            return true;
        if (m->config[config].then == config)
            break;
        config = m->config[config].then;
    }
    *all = true;
    return true;
}

/* ---- walking ---- */

/* A walk comes to a place with n nodes below: kinds are tried once that pays. */
static bool look(struct grammar_matcher *m, uint32_t config, uint32_t n)
{
    struct m_config *c = &m->config[config];
    uint32_t seen = c->seen + n;
    if (c->seen < M_SEEN && seen >= M_SEEN && c->tried == 0 && !c->leaf)
        c->open = ~((uint64_t)1 << V_KIND_BAD);
    c->seen = (uint16_t)(seen < M_SEEN ? seen : M_SEEN);
    return m_row(m, config);
}

/* Into node i, with more below. *below: what is there must be walked, and if the hole is reached, it is popped. */
static bool enter(struct grammar_matcher *m, uint32_t config, uint32_t i, uint64_t *bits, bool *below)
{
    const struct v_node *n = &m->v->node[i];
    bool all = false;
    if (!look(m, config, n->skip - i))
        return false;
    if (!(n->kinds & ~m->config[config].open) && !is_free(m, config, n->kinds, n->height, &all))
        return false;
    *below = !all && !m->config[config].leaf && (n->kinds & ~m->config[config].dead);
    if (all)
        hit(m, n + 1, &m->v->node[n->skip], bits);
    if (all || !m->config[config].hole)
        return true;
    if (!m_room(m, (void **)&m->pops, &m->cap_pops, m->n_pops, 1, sizeof *m->pops))
        return false;
    m->pops[m->n_pops++] = i;
    return true;
}

bool m_walk_on(struct grammar_matcher *m, uint32_t config, uint32_t top, uint64_t *bits)
{
    const struct v_node *node = m->v->node;
    const uint8_t *cls = m->g->cls;
    size_t n_class = m->g->n_class;
    uint32_t end = node[top].skip, *path = m->path;
    if (!look(m, config, end - top))
        return false;
    if (!(node[top].kinds & ~m->config[config].dead))
        return true;
    path[node[top].depth] = config;
    for (uint32_t i = top + 1; i < end;) {
        const struct v_node *n = &node[i];
        uint32_t from = path[n->depth - 1];
        bool all = false, below;
        if (!(n->whole & ~m->config[from].open) && !is_free(m, from, n->whole, n->height + 1u, &all))
            return false;
        if (all) {
            hit(m, n, &node[n->skip], bits);
            i = n->skip;
            continue;
        }
        uint32_t to = m->row[(size_t)(m->config[from].row - 1) * n_class + cls[n->byte]];
        if (to == M_FAILED && (to = m_step(m, from, cls[n->byte])) == M_FAILED)
            return false;
        if (to != M_DEAD && n->token != V_NONE)
            hit(m, n, n + 1, bits);
        below = to != M_DEAD && n->skip > i + 1;
        if (below && !enter(m, to, i, bits, &below))
            return false;
        path[n->depth] = to;
        i = below ? i + 1 : n->skip;
    }
    return true;
}

bool m_walk(struct grammar_matcher *m, uint32_t config, uint32_t top, uint64_t *bits)
{
    bool done = m_walk_on(m, config, top, bits);
    m_flush(m, bits);
    m->spilled = false;
    return done;
}
