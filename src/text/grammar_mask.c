/* Masks: grammar_match.h says how they are put together. */
#include "text/grammar_match.h"

#include "base/hash.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 100,      /* narrow frames above one another, */
    HOLE_MAX = 64,        /* wide frames below one config, */
    DIVIDE_MAX = 1 << 16, /* steps of dividing it, and */
    PLACE_MAX = 512       /* continuations of one mask; what is larger is walked whole, without a hole */
};

#define ROOM(m, arr, more) m_room(m, (void **)&(m)->arr, &(m)->cap_##arr, (m)->n_##arr, more, sizeof *(m)->arr)

/* ---- lists of numbers, equal ones kept once ---- */

static uint32_t list_new(struct grammar_matcher *m, const void *p, size_t n)
{
    if (!m_table_room(m, &m->slot_list) || !ROOM(m, list, 1) || !ROOM(m, data, n))
        return 0;
    uint64_t hash = xxh3(p, n * sizeof *m->data);
    struct g_slot *s = g_table_first(&m->slot_list, hash);
    for (; s->number; s = g_table_next(&m->slot_list, s, hash)) {
        const struct m_list *l = &m->list[s->number];
        if (l->n == n && (n == 0 || memcmp(m->data + l->first, p, n * sizeof *m->data) == 0))
            return s->number;
    }
    m->list[m->n_list] = (struct m_list){(uint32_t)m->n_data, (uint32_t)n};
    if (n > 0)
        memcpy(m->data + m->n_data, p, n * sizeof *m->data);
    m->n_data += n;
    g_table_put(&m->slot_list, s, hash, (uint32_t)m->n_list);
    return (uint32_t)m->n_list++;
}

/* The lists 1 + p: the root of trie p. */
bool m_mask_init(struct grammar_matcher *m)
{
    m->n_list = m->n_data = m->n_bits = m->n_memo = 0;
    if (!ROOM(m, list, 1) || !ROOM(m, memo, 1))
        return false;
    m->list[m->n_list++] = (struct m_list){0, 0};
    m->memo[m->n_memo++] = (struct m_memo){0};
    for (uint32_t p = 0; p < V_PART; p++)
        if (list_new(m, &(struct m_pop_at){.node = m->v->root[p]}, M_POP_WORDS) == 0)
            return false;
    return true;
}

/* ---- numbers remembered for pairs ---- */

/* A bijection of the pair: equal hashes are equal pairs. */
static uint64_t pair_hash(uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    return x ^ x >> 32;
}

/* 0: none yet. */
static uint32_t pair_get(const struct g_table *t, uint32_t a, uint32_t b)
{
    return t->cap ? g_table_first(t, pair_hash(a, b))->number : 0;
}

static bool pair_put(struct grammar_matcher *m, struct g_table *t, uint32_t a, uint32_t b, uint32_t number)
{
    if (!m_table_room(m, t))
        return false;
    g_table_put(t, g_table_first(t, pair_hash(a, b)), pair_hash(a, b), number);
    return true;
}

/* ---- dividing a config by holes ---- */

static bool is_hole(const struct grammar_matcher *m, uint32_t frame)
{
    return frame <= M_HOLE || m->frame[frame].wide;
}

/* Collect the wide frames that are nearest below `frame` in m->group; false: too many, or on failure. */
static bool holes_below(struct grammar_matcher *m, uint32_t frame, int depth)
{
    if (is_hole(m, frame)) {
        for (size_t i = 0; i < m->n_group; i++)
            if (m->group[i] == frame)
                return true;
        if (m->n_group == HOLE_MAX || !ROOM(m, group, 1))
            return false;
        m->group[m->n_group++] = frame;
        return true;
    }
    struct m_frame f = m->frame[frame];
    for (uint32_t i = 0; i < f.n; i++)
        if (depth == DEPTH_MAX || ++m->steps > m->give_up || !holes_below(m, m->entry[f.first + i].parent, depth + 1))
            return false;
    return true;
}

/* The frame as far as it leads to the hole, which M_HOLE takes the place of; counts above `longest` are without end.
 * *to = M_BOTTOM: it does not lead there. */
static bool frame_above(struct grammar_matcher *m, uint32_t frame, uint32_t hole, uint32_t longest, uint32_t *to)
{
    *to = frame == hole ? M_HOLE : M_BOTTOM;
    if (is_hole(m, frame))
        return true;
    struct m_frame f = m->frame[frame];
    struct m_entry *set = mem_alloc(f.n * sizeof *set);
    size_t n = 0;
    bool done = set != NULL;
    if (!done)
        m->why = GLIM_FAILED;
    for (uint32_t i = 0; i < f.n && done; i++) {
        struct m_entry e = m->entry[f.first + i];
        done = ++m->steps <= m->give_up && frame_above(m, e.parent, hole, longest, &e.parent);
        e.min = e.min > longest ? longest + 1 : e.min;
        e.max = e.max > longest ? GRAMMAR_MANY : e.max;
        if (e.parent != M_BOTTOM)
            set[n++] = e;
    }
    m->n_set = 0;
    for (size_t i = 0; i < n && done; i++)
        done = m_set_add(m, set[i]);
    mem_free(set);
    return done && (n == 0 || m_frame_of_set(m, false, to));
}

/* The relative config of one hole, from the threads that lead to it. M_FAILED: give up. */
static uint32_t config_above(struct grammar_matcher *m, uint32_t config, uint32_t hole, uint32_t longest)
{
    struct m_config c = m->config[config];
    m->n_out = 0;
    for (uint32_t i = 0; i < c.n; i++) {
        uint64_t t = m->thread[c.first + i];
        uint32_t frame;
        if (!frame_above(m, (uint32_t)t, hole, longest, &frame))
            return M_FAILED;
        if (frame != M_BOTTOM && !m_out_add(m, (uint32_t)(t >> 32), frame))
            return M_FAILED;
    }
    return m_config_of_out(m);
}

/* m->group = (relative config, hole) for each hole; false: too many of something, or on failure. */
static bool divide(struct grammar_matcher *m, uint32_t config, uint32_t longest)
{
    struct m_config c = m->config[config];
    m->n_group = 0;
    m->give_up = m->steps + DIVIDE_MAX;
    for (uint32_t i = 0; i < c.n; i++)
        if (!holes_below(m, (uint32_t)m->thread[c.first + i], 0))
            return false;
    size_t n = m->n_group;
    if (!ROOM(m, group, n))
        return false;
    for (size_t i = n; i > 0; i--) { /* spread from n holes to n pairs, from the back */
        uint32_t hole = m->group[i - 1], above = config_above(m, config, hole, longest);
        if (above == M_FAILED)
            return false;
        m->group[2 * i - 2] = above;
        m->group[2 * i - 1] = hole;
    }
    m->n_group = 2 * n;
    return true;
}

enum { WHOLE = 1 }; /* a division that was given up */

/* The list of pairs that a config is divided into, + 1; WHOLE; 0 on failure. Remembered. */
static uint32_t division(struct grammar_matcher *m, uint32_t config, uint32_t part)
{
    uint32_t number = pair_get(&m->slot_divided, config, part);
    if (number != 0)
        return number;
    number = WHOLE;
    if (divide(m, config, m->v->longest[part])) {
        uint32_t list = list_new(m, m->group, m->n_group);
        number = list ? list + 1 : 0;
    }
    return m->why == GLIM_OK && pair_put(m, &m->slot_divided, config, part, number) ? number : 0;
}

/* ---- what a list leads to ---- */

static uint64_t pop_order(struct m_pop_at p)
{
    return (uint64_t)p.node << 32 | (uint32_t)p.first << 16 | p.last;
}

static int by_order(const void *x, const void *y)
{
    uint64_t a = pop_order(*(const struct m_pop_at *)x), b = pop_order(*(const struct m_pop_at *)y);
    return a < b ? -1 : a > b;
}

/* Ascending and each once. A list may hold a node and one below it, whose walks overlap. */
static void sort_pops(struct grammar_matcher *m)
{
    size_t n = 0;
    bool sorted = true;
    for (size_t i = 1; i < m->n_pops; i++)
        sorted &= pop_order(m->pops[i - 1]) < pop_order(m->pops[i]);
    if (sorted)
        return;
    qsort(m->pops, m->n_pops, sizeof *m->pops, by_order);
    for (size_t i = 0; i < m->n_pops; i++)
        if (n == 0 || pop_order(m->pops[i]) != pop_order(m->pops[n - 1]))
            m->pops[n++] = m->pops[i];
    m->n_pops = n;
}

/* The n hits as bits, into none. If they are most of a trie, ascending: all of it, without the gaps. */
static void hits_to_bits(struct grammar_matcher *m, size_t n, uint64_t *bits)
{
    const struct grammar_vocab *v = m->v;
    uint32_t part = 0, at, end;
    bool ascending = !m->spilled;
    for (size_t i = 1; i < m->n_hit; i++)
        ascending &= m->hit[i].rank >= m->hit[i - 1].rank + m->hit[i - 1].n;
    while (n > 0 && m->hit[0].rank >= v->node[v->node[v->root[part]].skip].rank)
        part++;
    at = v->node[v->root[part]].rank;
    end = v->node[v->node[v->root[part]].skip].rank;
    if (!ascending || n <= (end - at) / 2) {
        m_flush(m, bits);
        return;
    }
    memcpy(bits, v->whole + part * v->n_word, v->n_word * sizeof *bits);
    for (size_t i = 0; i <= m->n_hit; i++) {
        for (; at < (i < m->n_hit ? m->hit[i].rank : end); at++)
            bits[v->ranked[at] / 64] &= ~((uint64_t)1 << (v->ranked[at] % 64));
        at += i < m->n_hit ? m->hit[i].n : 0;
    }
}

/* What walks have found as a remembered set: ranges, or bits when that is many tokens. */
static bool keep_hits(struct grammar_matcher *m, struct m_memo *memo)
{
    size_t n_word = m->v->n_word, n = 0;
    for (size_t i = 0; i < m->n_hit; i++)
        n += m->hit[i].n;
    memo->dense = m->spilled || n > n_word;
    if (!memo->dense) {
        if (!ROOM(m, data, 2 * m->n_hit))
            return false;
        memo->first = (uint32_t)m->n_data;
        memo->n = (uint32_t)m->n_hit;
        for (size_t i = 0; i < m->n_hit; i++) {
            m->data[m->n_data++] = m->hit[i].rank;
            m->data[m->n_data++] = m->hit[i].n;
        }
        return true;
    }
    if (!ROOM(m, bits, n_word))
        return false;
    hits_to_bits(m, n, m->scratch);
    memo->first = (uint32_t)m->n_bits;
    memcpy(m->bits + m->n_bits, m->scratch, n_word * sizeof *m->bits);
    m->n_bits += n_word;
    return true;
}

/* Nothing found. */
static void drop_hits(struct grammar_matcher *m, bool dense)
{
    if (m->spilled || dense)
        memset(m->scratch, 0, m->v->n_word * sizeof *m->scratch);
    m->n_hit = 0;
    m->spilled = false;
}

/* What the nodes of a list lead to in a relative config. Remembered; 0 on failure. */
static uint32_t memo_of(struct grammar_matcher *m, uint32_t config, uint32_t list)
{
    struct m_memo memo = {0};
    uint32_t number = pair_get(&m->slot_memo, config, list);
    if (number != 0)
        return number;
    struct m_list l = m->list[list];
    bool done = true;
    m->n_pops = 0;
    for (uint32_t i = 0; i < l.n && done; i += M_POP_WORDS) {
        struct m_pop_at at;
        memcpy(&at, m->data + l.first + i, sizeof at);
        done = m_walk_from(m, config, at, m->scratch);
    }
    done = done && keep_hits(m, &memo);
    drop_hits(m, memo.dense);
    sort_pops(m);
    if (done && m->n_pops > 0)
        done = (memo.pops = list_new(m, m->pops, m->n_pops * M_POP_WORDS)) != 0;
    if (!done || !ROOM(m, memo, 1) || !pair_put(m, &m->slot_memo, config, list, (uint32_t)m->n_memo))
        return 0;
    m->memo[m->n_memo] = memo;
    return (uint32_t)m->n_memo++;
}

/* ---- joining ---- */

static void join(const struct grammar_matcher *m, const struct m_memo *memo, uint64_t *restrict bits)
{
    if (memo->dense) {
        const uint64_t *restrict from = m->bits + memo->first;
        for (size_t i = 0; i < m->v->n_word; i++)
            bits[i] |= from[i];
    } else {
        const uint32_t *range = m->data + memo->first;
        for (uint32_t i = 0; i < memo->n; i++)
            for (uint32_t r = range[2 * i]; r < range[2 * i] + range[2 * i + 1]; r++)
                bit_set(bits, m->v->ranked[r]);
    }
}

/* Go on from the nodes of `list` in `config`. false: too many places, or on failure. */
static bool place_add(struct grammar_matcher *m, uint32_t config, uint32_t list)
{
    for (size_t i = 0; i < m->n_work; i++)
        if (m->work[i].a == config && m->work[i].b == list)
            return true;
    if (m->n_work == PLACE_MAX || !ROOM(m, work, 1))
        return false;
    m->work[m->n_work++] = (struct m_pair){config, list};
    return true;
}

/* false: too many places, or it cannot be divided, or on failure. */
static bool join_all(struct grammar_matcher *m, uint32_t config, uint32_t part, uint64_t *bits)
{
    m->n_work = 0;
    if (!place_add(m, config, 1 + part))
        return false;
    for (size_t i = 0; i < m->n_work; i++) {
        struct m_pair at = m->work[i];
        uint32_t number = division(m, at.a, part);
        if (number <= WHOLE)
            return false;
        struct m_list l = m->list[number - 1];
        for (uint32_t k = 0; k < l.n; k += 2) {
            uint32_t hole = m->data[l.first + k + 1], memo = memo_of(m, m->data[l.first + k], at.b);
            if (memo == 0)
                return false;
            join(m, &m->memo[memo], bits);
            if (m->memo[memo].pops == 0)
                continue;
            uint32_t below = m_pop(m, hole);
            if (below == M_FAILED || !place_add(m, below, m->memo[memo].pops))
                return false;
        }
    }
    return true;
}

bool m_mask(struct grammar_matcher *m, uint32_t config, uint64_t *bits)
{
    const struct grammar_vocab *v = m->v;
    memset(bits, 0, v->n_word * sizeof *bits);
    for (uint32_t part = 0; part < V_PART && config != M_DEAD; part++) {
        if (v->longest[part] == 0 || join_all(m, config, part, bits))
            continue;
        m->n_pops = 0;
        if (m->why != GLIM_OK || !m_walk(m, config, v->root[part], bits)) {
            memset(bits, 0, v->n_word * sizeof *bits);
            return false;
        }
    }
    for (size_t i = 0; i < v->n_word && m->config[config].bottom; i++)
        bits[i] |= v->end[i];
    return true;
}
