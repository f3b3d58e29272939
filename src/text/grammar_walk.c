/* Walks down a trie from a config.
 *
 * Most of a vocabulary is admitted or refused by the lot. Where a config goes on in the same way after whatever is of
 * some kinds (in a string: after all but quotes, backslashes and controls), these kinds are free in it: all leads to
 * one config, which often is the same one. Following such configs is a run of these kinds.
 *
 *   - A subtree that is not higher than the run of its kinds is long is admitted without being walked; so is what the
 *     hole would add there.
 *   - A run may be over sooner, where nothing of these kinds begins any more: a count is used up. Then the tokens of at
 *     most so many characters are admitted and no other, and tokens know how many they have.
 *   - If the hole is reached on the way, what is longer goes on in what is below the hole, from every node at these
 *     distances. One struct m_pop_at stands for them all: mostly nothing of these kinds begins there either.
 *
 * What is inside a character is never judged by this. Runs are remembered, because thousands of subtrees are made of
 * the same few kinds. What remains to be walked is what mixes kinds, a step of a row for a node or leaf. */
#include "text/grammar_match.h"

enum { KIND_TRIES = 100 }; /* steps of finding out what follows the characters of one kind in one config */

/* ---- what is found ---- */

void m_flush(struct grammar_matcher *m, uint64_t *bits)
{
    const uint32_t *ranked = m->v->ranked;
    for (size_t i = 0; i < m->n_hit; i++)
        for (uint32_t r = m->hit[i].rank; r < m->hit[i].rank + m->hit[i].n; r++)
            bit_set(bits, ranked[r]);
    m->n_hit = 0;
}

static void hit(struct grammar_matcher *m, uint32_t rank, uint32_t n, uint64_t *bits)
{
    struct m_range *last = m->n_hit ? &m->hit[m->n_hit - 1] : NULL;
    if (last && last->rank + last->n == rank) {
        last->n += n;
        return;
    }
    if (m->n_hit == M_HITS) {
        m_flush(m, bits);
        m->spilled = true;
    }
    m->hit[m->n_hit++] = (struct m_range){rank, n};
}

/* Of these ranks, the tokens of at most `chars` characters. */
static void hit_short(struct grammar_matcher *m, uint32_t rank, uint32_t end, uint32_t chars, uint64_t *bits)
{
    const uint16_t *n_char = m->v->chars;
    const uint32_t *ranked = m->v->ranked;
    m->spilled = true;
    for (uint32_t r = rank; r < end; r++)
        bits[ranked[r] / 64] |= (uint64_t)(n_char[r] <= chars) << (ranked[r] % 64);
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

static bool try_kind(struct grammar_matcher *m, uint32_t config, int kind)
{
    uint64_t bit = (uint64_t)1 << kind;
    uint32_t home;
    bool live;
    if (m->config[config].tried & bit)
        return true;
    if (!after_kind(m, config, &v_kinds[kind], &home, &live))
        return false;
    struct m_config *c = &m->config[config];
    if (c->tried == 0)
        c->open = V_KINDS_GOOD;
    c->tried |= bit;
    if (!live)
        c->dead |= bit;
    if (c->then == M_FAILED && home != M_DEAD)
        c->then = home;
    if (home == M_DEAD || home != c->then)
        c->open &= ~bit;
    return true;
}

/* Try the kinds that have not been tried, until one is not free. The first live one decides what free ones lead to:
 * letters, if they can, because most of a vocabulary begins with them. */
static bool try_kinds(struct grammar_matcher *m, uint32_t config, uint64_t kinds)
{
    if (!try_kind(m, config, V_KIND_LETTERS))
        return false;
    for (int k = V_KINDS - 1; k > V_KIND_BAD && !(kinds & ~m->config[config].open); k--)
        if (kinds >> k & 1 && !try_kind(m, config, k))
            return false;
    return true;
}

/* *none: nothing of these kinds begins in config. */
static bool begins_none(struct grammar_matcher *m, uint32_t config, uint64_t kinds, bool *none)
{
    *none = false;
    for (int k = V_KIND_BAD + 1; k < V_KINDS; k++) {
        if (kinds & m->config[config].tried & ~m->config[config].dead)
            return true;
        if (kinds >> k & 1 && !try_kind(m, config, k))
            return false;
    }
    *none = !(kinds & ~m->config[config].dead);
    return true;
}

/* Follow a run up to `height` characters. */
static bool run_on(struct grammar_matcher *m, struct m_run *r, uint32_t height)
{
    while (r->n < height && !r->over) {
        if ((r->kinds & ~m->config[r->at].tried) && !try_kinds(m, r->at, r->kinds))
            return false;
        r->over = (r->kinds & ~m->config[r->at].open) != 0;
        if (r->over)
            return begins_none(m, r->at, r->kinds, &r->none);
        if (m->config[r->at].then == r->at) {
            r->n = V_PIECE_MAX;
            return true;
        }
        r->at = m->config[r->at].then;
        r->n++;
        if (m->config[r->at].hole) {
            r->first = r->holes++ == 0 ? r->n : r->first;
            r->last = r->n;
        }
    }
    return true;
}

/* What a config admits of whatever is made of some kinds and has at most a certain height: any `most` characters, and
 * nothing longer but by holes, which it reaches after first .. last of them (first > last: none). most = 0: it does not
 * work like that. */
struct take {
    uint32_t most, first, last;
};

/* false on failure. */
static bool find_take(struct grammar_matcher *m, uint32_t config, uint64_t kinds, uint32_t height, struct take *t)
{
    const struct m_config *c = &m->config[config];
    if (c->then == config && !(kinds & ~(c->tried & c->open))) {
        *t = (struct take){height, 1, 0};
        return true;
    }
    struct m_run *r = &m->run[(kinds ^ config) * 0x9E3779B97F4A7C15u >> 32 & (M_RUNS - 1)];
    if (r->config != config || r->kinds != kinds)
        *r = (struct m_run){.config = config, .kinds = kinds, .at = config, .first = 1};
    if (!run_on(m, r, height)) {
        r->config = M_FAILED;
        return false;
    }
    *t = (struct take){r->n < height ? r->n : height, r->first, r->last};
    if (r->n < height && (r->holes != r->last + 1 - r->first || !r->none))
        t->most = 0;
    return true;
}

/* ---- walking ---- */

/* A walk comes to a place with n nodes below: kinds are tried once that pays. */
static bool look(struct grammar_matcher *m, uint32_t config, uint32_t n)
{
    struct m_config *c = &m->config[config];
    uint32_t seen = c->seen + n;
    if (c->seen < M_SEEN && seen >= M_SEEN && c->tried == 0 && !c->leaf)
        c->open = V_KINDS_GOOD;
    c->seen = (uint16_t)(seen < M_SEEN ? seen : M_SEEN);
    return m_row(m, config);
}

static bool pop_add(struct grammar_matcher *m, uint32_t node, uint32_t first, uint32_t last)
{
    if (!m_room(m, (void **)&m->pops, &m->cap_pops, m->n_pops, 1, sizeof *m->pops))
        return false;
    m->pops[m->n_pops++] = (struct m_pop_at){node, (uint16_t)first, (uint16_t)last};
    return true;
}

/* As a config, `chars` characters from the root, takes node i and what is below, or (inner) what is below alone. */
static bool take(struct grammar_matcher *m, struct take t, uint32_t i, bool inner, uint32_t chars, uint64_t *bits)
{
    const struct v_node *n = &m->v->node[i];
    uint32_t rank = inner ? n->leaf : n->rank, end = m->v->node[n->skip].rank;
    if (t.most == n->chars + n->height - chars) {
        hit(m, rank, end - rank, bits);
        return true;
    }
    hit_short(m, rank, end, chars + t.most, bits);
    return t.first > t.last || pop_add(m, i, chars + t.first, chars + t.last);
}

/* The leaves of a node, in config. */
static bool leaves(struct grammar_matcher *m, uint32_t config, const struct v_node *n, uint64_t *bits)
{
    const uint8_t *cls = m->g->cls, *last = m->v->last;
    const uint32_t *row = m->row + (size_t)(m->config[config].row - 1) * m->g->n_class;
    for (uint32_t r = n->leaf; r < n->inner; r++) {
        uint32_t to = row[cls[last[r]]];
        if (to == M_FAILED) {
            if ((to = m_step(m, config, cls[last[r]])) == M_FAILED)
                return false;
            row = m->row + (size_t)(m->config[config].row - 1) * m->g->n_class;
        }
        if (to != M_DEAD)
            hit(m, r, 1, bits);
    }
    return true;
}

/* Into node i. *below: its nodes must be walked, and if the hole is reached, it is popped. */
static bool enter(struct grammar_matcher *m, uint32_t config, uint32_t i, uint64_t *bits, bool *below)
{
    const struct v_node *n = &m->v->node[i];
    struct take t = {0};
    if (!look(m, config, n->skip - i))
        return false;
    if (!(n->kinds & ~m->config[config].open) && !find_take(m, config, n->kinds, n->height, &t))
        return false;
    *below = t.most == 0 && !m->config[config].leaf && (n->kinds & ~m->config[config].dead);
    if (m->config[config].hole && t.most < n->height && !pop_add(m, i, 0, 0))
        return false;
    if (t.most > 0)
        return take(m, t, i, true, n->chars, bits);
    return !*below || leaves(m, config, n, bits);
}

bool m_walk_on(struct grammar_matcher *m, uint32_t config, uint32_t top, uint64_t *bits)
{
    const struct v_node *node = m->v->node;
    const uint8_t *cls = m->g->cls;
    size_t n_class = m->g->n_class;
    uint32_t end = node[top].skip, *path = m->path;
    if (!look(m, config, end - top))
        return false;
    if (m->config[config].leaf || !(node[top].kinds & ~m->config[config].dead))
        return true;
    if (!leaves(m, config, &node[top], bits))
        return false;
    path[node[top].depth] = config;
    for (uint32_t i = top + 1; i < end;) {
        const struct v_node *n = &node[i];
        uint32_t from = path[n->depth - 1];
        struct take t = {0};
        bool below = false;
        if (!(n->whole & ~m->config[from].open) && !find_take(m, from, n->whole, n->height + 1u, &t))
            return false;
        if (t.most > 0) {
            if (!take(m, t, i, false, n->chars - 1u, bits))
                return false;
            i = n->skip;
            continue;
        }
        uint32_t to = m->row[(size_t)(m->config[from].row - 1) * n_class + cls[n->byte]];
        if (to == M_FAILED && (to = m_step(m, from, cls[n->byte])) == M_FAILED)
            return false;
        if (to != M_DEAD && n->leaf > n->rank)
            hit(m, n->rank, n->leaf - n->rank, bits);
        if (to != M_DEAD && !enter(m, to, i, bits, &below))
            return false;
        path[n->depth] = to;
        i = below ? i + 1 : n->skip;
    }
    return true;
}

bool m_walk_from(struct grammar_matcher *m, uint32_t config, struct m_pop_at at, uint64_t *bits)
{
    const struct v_node *node = m->v->node, *top = &node[at.node];
    bool none;
    if (at.first == 0)
        return m_walk_on(m, config, at.node, bits);
    if (!begins_none(m, config, top->kinds, &none) || none)
        return none;
    for (uint32_t i = at.node; i < top->skip;) {
        const struct v_node *n = &node[i];
        bool inside = n->kinds >> V_KIND_BAD & 1;
        if (!inside && n->chars >= at.first && !m_walk_on(m, config, i, bits))
            return false;
        i = inside || n->chars < at.last ? i + 1 : n->skip;
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
