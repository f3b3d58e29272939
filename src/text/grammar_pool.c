/* Frames and configs of a matcher, and what follows a byte. */
#include "text/grammar_match.h"

#include "base/hash.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { END = 1 };

static bool fail(struct grammar_matcher *m, glim_status why)
{
    if (m->why == GLIM_OK)
        m->why = why;
    return false;
}

bool m_room(struct grammar_matcher *m, void **arr, size_t *cap, size_t n, size_t more, size_t size)
{
    if (m->why != GLIM_OK)
        return false;
    if (n + more <= *cap)
        return true;
    size_t to = (n + more) * 2 < 16 ? 16 : (n + more) * 2;
    if ((to - *cap) * size > m->g->limits.bytes - m->bytes || to > UINT32_MAX)
        return fail(m, GLIM_REFUSED);
    void *p = mem_realloc(*arr, to * size);
    if (!p)
        return fail(m, GLIM_FAILED);
    m->bytes += (to - *cap) * size;
    *arr = p;
    *cap = to;
    return true;
}

#define ROOM(m, arr, more) m_room(m, (void **)&(m)->arr, &(m)->cap_##arr, (m)->n_##arr, more, sizeof *(m)->arr)

bool m_table_room(struct grammar_matcher *m, struct g_table *t)
{
    size_t cap = t->cap;
    if (m->why != GLIM_OK)
        return false;
    if ((t->n + 1) * 4 >= cap * 3 && (cap + 64) * sizeof *t->slot > m->g->limits.bytes - m->bytes)
        return fail(m, GLIM_REFUSED);
    if (!g_table_room(t))
        return fail(m, GLIM_FAILED);
    m->bytes += (t->cap - cap) * sizeof *t->slot;
    return true;
}

static bool spend(struct grammar_matcher *m, size_t steps)
{
    m->steps += steps;
    return m->steps <= M_WORK_MAX || fail(m, GLIM_REFUSED);
}

/* ---- frames ---- */

bool m_set_add(struct grammar_matcher *m, struct m_entry e)
{
    if (!spend(m, 1) || !ROOM(m, set, 1))
        return false;
    m->set[m->n_set++] = e;
    return true;
}

static int compare(uint32_t a, uint32_t b)
{
    return a < b ? -1 : a > b;
}

static int by_entry(const void *x, const void *y)
{
    const struct m_entry *a = x, *b = y;
    int c = compare(a->rule, b->rule);
    c = c ? c : compare(a->ret, b->ret);
    c = c ? c : compare(a->parent, b->parent);
    c = c ? c : compare(a->min, b->min);
    return c ? c : compare(b->max, a->max);
}

/* Sort, and leave out what another entry allows as well: not fewer turns needed, not more turns left. */
static void normalise(struct grammar_matcher *m)
{
    size_t n = 0;
    if (m->n_set < 2)
        return;
    qsort(m->set, m->n_set, sizeof *m->set, by_entry);
    for (size_t i = 0; i < m->n_set; i++) {
        const struct m_entry *last = n ? &m->set[n - 1] : NULL, *e = &m->set[i];
        if (last && last->rule == e->rule && last->ret == e->ret && last->parent == e->parent && last->max >= e->max)
            continue;
        m->set[n++] = *e;
    }
    m->n_set = n;
}

/* Equal entries and width: the same frame. */
bool m_frame_of_set(struct grammar_matcher *m, bool wide, uint32_t *frame)
{
    normalise(m);
    const struct m_entry *e = m->set;
    size_t n = m->n_set, bytes = n * sizeof *e;
    if (n == 1 && e->ret == END && e->parent <= M_HOLE && e->min == 1 && e->max == 1) {
        *frame = e->parent; /* the caller has nothing left to read */
        return true;
    }
    if (!m_table_room(m, &m->slot_frame) || !ROOM(m, frame, 1) || !ROOM(m, entry, n))
        return false;
    uint64_t hash = xxh3(e, bytes) + wide;
    struct g_slot *s = g_table_first(&m->slot_frame, hash);
    for (; s->number; s = g_table_next(&m->slot_frame, s, hash)) {
        const struct m_frame *f = &m->frame[s->number];
        if (f->n == n && f->wide == wide && memcmp(m->entry + f->first, e, bytes) == 0) {
            *frame = s->number;
            return true;
        }
    }
    *frame = (uint32_t)m->n_frame++;
    m->frame[*frame] = (struct m_frame){.first = (uint32_t)m->n_entry, .n = (uint32_t)n, .wide = wide};
    memcpy(m->entry + m->n_entry, e, bytes);
    m->n_entry += n;
    g_table_put(&m->slot_frame, s, hash, *frame);
    return true;
}

/* ---- configs ---- */

bool m_out_add(struct grammar_matcher *m, uint32_t state, uint32_t frame)
{
    if (!ROOM(m, out, 1))
        return false;
    m->out[m->n_out++] = (uint64_t)state << 32 | frame;
    return true;
}

static int by_thread(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

uint32_t m_config_of_out(struct grammar_matcher *m)
{
    size_t n = 0, bytes;
    if (m->why != GLIM_OK)
        return M_FAILED;
    if (m->n_out == 0)
        return M_DEAD;
    if (m->n_out > 1)
        qsort(m->out, m->n_out, sizeof *m->out, by_thread);
    for (size_t i = 0; i < m->n_out; i++)
        if (n == 0 || m->out[i] != m->out[n - 1])
            m->out[n++] = m->out[i];
    bytes = n * sizeof *m->out;
    if (!m_table_room(m, &m->slot_config) || !ROOM(m, config, 1) || !ROOM(m, thread, n))
        return M_FAILED;
    uint64_t hash = xxh3(m->out, bytes);
    struct g_slot *s = g_table_first(&m->slot_config, hash);
    for (; s->number; s = g_table_next(&m->slot_config, s, hash)) {
        const struct m_config *c = &m->config[s->number];
        if (c->n == n && memcmp(m->thread + c->first, m->out, bytes) == 0)
            return s->number;
    }
    struct m_config c = {.first = (uint32_t)m->n_thread, .n = (uint32_t)n};
    for (size_t i = 0; i < n; i++) {
        c.bottom |= m->out[i] == ((uint64_t)END << 32 | M_BOTTOM);
        c.hole |= m->out[i] == ((uint64_t)END << 32 | M_HOLE);
    }
    c.leaf = n == (size_t)c.bottom + (size_t)c.hole;
    memcpy(m->thread + m->n_thread, m->out, bytes);
    m->n_thread += n;
    m->config[m->n_config] = c;
    g_table_put(&m->slot_config, s, hash, (uint32_t)m->n_config);
    return (uint32_t)m->n_config++;
}

/* ---- closure: what is reached without a byte ---- */

void m_begin(struct grammar_matcher *m)
{
    m->n_due = m->n_out = m->n_heap = m->n_seen = 0;
    if (++m->stamp == 0) { /* all stamps have been used: none of the old ones may look new */
        memset(m->seen, 0, m->cap_seen * sizeof *m->seen);
        m->stamp = 1;
    }
}

static bool seen_grow(struct grammar_matcher *m)
{
    size_t old = m->cap_seen, cap = 0;
    struct m_seen *to = NULL;
    if (!m_room(m, (void **)&to, &cap, 0, old ? old : 32, sizeof *to)) /* twice as many */
        return false;
    memset(to, 0, cap * sizeof *to);
    for (size_t i = 0; i < old; i++) {
        if (m->seen[i].stamp != m->stamp)
            continue;
        size_t k = (m->seen[i].thread * 0x9E3779B97F4A7C15u >> 32) & (cap - 1);
        while (to[k].stamp == m->stamp)
            k = (k + 1) & (cap - 1);
        to[k] = m->seen[i];
    }
    m->bytes -= old * sizeof *to;
    mem_free(m->seen);
    m->seen = to;
    m->cap_seen = cap;
    return true;
}

/* Is this the first time in this closure? */
static bool is_new(struct grammar_matcher *m, uint64_t thread)
{
    if (m->n_seen * 2 >= m->cap_seen && !seen_grow(m))
        return false;
    size_t k = (thread * 0x9E3779B97F4A7C15u >> 32) & (m->cap_seen - 1);
    for (; m->seen[k].stamp == m->stamp; k = (k + 1) & (m->cap_seen - 1))
        if (m->seen[k].thread == thread)
            return false;
    m->seen[k] = (struct m_seen){thread, m->stamp};
    m->n_seen++;
    return true;
}

void m_reach(struct grammar_matcher *m, uint32_t state, uint32_t frame)
{
    uint64_t thread = (uint64_t)state << 32 | frame;
    if (spend(m, 1) && is_new(m, thread) && ROOM(m, due, 1))
        m->due[m->n_due++] = thread;
}

static bool before(const struct m_pending *a, const struct m_pending *b)
{
    return a->order != b->order ? a->order < b->order : a->rule < b->rule;
}

static void heap_push(struct grammar_matcher *m, uint32_t rule, struct m_entry e)
{
    if (!spend(m, 1) || !ROOM(m, heap, 1))
        return;
    struct m_pending p = {m->g->rule[rule].order, rule, e};
    size_t i = m->n_heap++;
    for (; i > 0 && before(&p, &m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = p;
}

static struct m_pending heap_pop(struct grammar_matcher *m)
{
    struct m_pending top = m->heap[0], last = m->heap[--m->n_heap];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < m->n_heap; i = k) {
        if (k + 1 < m->n_heap && before(&m->heap[k + 1], &m->heap[k]))
            k++;
        if (!before(&m->heap[k], &last))
            break;
        m->heap[i] = m->heap[k];
    }
    m->heap[i] = last;
    return top;
}

/* A call of `rule` that is the last thing in what the entry calls takes its place. If the entry has nothing left to do
 * but to end its own frame, a wide rule takes over that frame's entries. */
static void call_last(struct grammar_matcher *m, uint32_t rule, struct m_entry e)
{
    const struct m_frame *f = &m->frame[e.parent];
    if (m->g->rule[rule].wide && e.ret == END && e.min == 1 && e.max == 1 && e.parent > M_HOLE)
        for (uint32_t i = 0; i < f->n; i++)
            heap_push(m, rule, m->entry[f->first + i]);
    else
        heap_push(m, rule, e);
}

/* A call in a frame. One that is the last thing in its frame takes over the frame's entries, so that right recursion
 * does not grow; but a wide frame is kept below what is not wide, because masks are remembered by it. */
static void call(struct grammar_matcher *m, const struct g_call *c, uint32_t frame)
{
    const struct m_frame *f = &m->frame[frame];
    bool last = c->ret == END && c->min == 1 && c->max == 1 && frame > M_HOLE;
    if (last && (m->g->rule[c->rule].wide || !f->wide))
        for (uint32_t i = 0; i < f->n; i++)
            call_last(m, c->rule, m->entry[f->first + i]);
    else
        heap_push(m, c->rule, (struct m_entry){c->rule, c->ret, frame, c->min, c->max});
}

/* The rule of a frame is complete. */
static void complete(struct grammar_matcher *m, uint32_t frame)
{
    struct m_frame f = m->frame[frame];
    if (frame <= M_HOLE)
        m_out_add(m, END, frame);
    for (uint32_t i = 0; i < f.n && m->why == GLIM_OK; i++) {
        struct m_entry e = m->entry[f.first + i];
        e.min -= e.min > 0;
        e.max -= e.max != GRAMMAR_MANY;
        if (e.min == 0)
            m_reach(m, e.ret, e.parent);
        if (e.max > 0)
            heap_push(m, e.rule, e);
    }
}

static void follow(struct grammar_matcher *m, uint32_t state, uint32_t frame)
{
    const struct grammar *g = m->g;
    const struct g_state *s = &g->state[state];
    switch ((enum g_state_kind)s->kind) {
    case G_S_FAIL:
        break;
    case G_S_END:
        complete(m, frame);
        break;
    case G_S_EDGES:
        m_out_add(m, state, frame);
        break;
    case G_S_SPLIT:
        for (uint32_t i = 0; i < s->n; i++)
            m_reach(m, g->data[s->a + i], frame);
        break;
    case G_S_CALL:
        call(m, &g->call[s->a], frame);
        break;
    case G_S_DFA:
        m_out_add(m, state, frame);
        if (dfa_accepts(g->dfa[s->a], s->n))
            m_reach(m, END, frame);
        break;
    }
}

static void follow_all(struct grammar_matcher *m)
{
    while (m->n_due > 0 && m->why == GLIM_OK) {
        uint64_t t = m->due[--m->n_due];
        follow(m, (uint32_t)(t >> 32), (uint32_t)t);
    }
}

/* Start the called rules in their order: when its turn comes, all calls of a rule are known. An automaton that may be
 * empty does not end where it starts: its callers went round it. */
uint32_t m_end(struct grammar_matcher *m)
{
    follow_all(m);
    while (m->n_heap > 0 && m->why == GLIM_OK) {
        uint32_t rule = m->heap[0].rule, start = m->g->rule[rule].start, frame;
        m->n_set = 0;
        while (m->n_heap > 0 && m->heap[0].rule == rule)
            m_set_add(m, heap_pop(m).e);
        if (m->why != GLIM_OK || !m_frame_of_set(m, m->g->rule[rule].wide, &frame))
            break;
        if (m->g->state[start].kind == G_S_DFA)
            m_out_add(m, start, frame);
        else
            m_reach(m, start, frame);
        follow_all(m);
    }
    return m_config_of_out(m);
}

/* ---- steps ---- */

/* Bytes around one that threads do not tell apart. */
struct alike {
    uint8_t lo, hi;
};

static void meet_edge(struct alike *a, const struct g_edge *e, uint8_t byte)
{
    uint8_t lo = e->lo, hi = e->hi;
    if (hi < byte) {
        lo = (uint8_t)(hi + 1);
        hi = UINT8_MAX;
    } else if (lo > byte) {
        hi = (uint8_t)(lo - 1);
        lo = 0;
    }
    a->lo = lo > a->lo ? lo : a->lo;
    a->hi = hi < a->hi ? hi : a->hi;
}

static uint32_t step_new(struct grammar_matcher *m, uint32_t config, uint8_t byte, struct alike *a)
{
    const struct grammar *g = m->g;
    const struct m_config c = m->config[config];
    *a = (struct alike){0, UINT8_MAX};
    m_begin(m);
    for (uint32_t i = 0; i < c.n && spend(m, 1); i++) {
        uint32_t state = (uint32_t)(m->thread[c.first + i] >> 32), frame = (uint32_t)m->thread[c.first + i];
        const struct g_state *s = &g->state[state];
        if (s->kind == G_S_DFA) {
            uint32_t to = dfa_step(g->dfa[s->a], s->n, byte);
            if (to != 0)
                m_reach(m, state - s->n + to, frame);
            *a = (struct alike){byte, byte};
        } else if (s->kind == G_S_EDGES) {
            for (uint32_t k = 0; k < s->n; k++) {
                const struct g_edge *e = &g->edge[s->a + k];
                meet_edge(a, e, byte);
                if (e->lo <= byte && byte <= e->hi)
                    m_reach(m, e->to, frame);
            }
        }
    }
    return m_end(m);
}

bool m_row(struct grammar_matcher *m, uint32_t config)
{
    size_t n_class = m->g->n_class;
    if (m->config[config].row != 0)
        return true;
    if (!m_room(m, (void **)&m->row, &m->cap_row, m->n_row, 1, n_class * sizeof *m->row))
        return false;
    memset(m->row + m->n_row * n_class, 0, n_class * sizeof *m->row);
    m->config[config].row = (uint32_t)++m->n_row;
    return true;
}

uint32_t m_step(struct grammar_matcher *m, uint32_t config, uint8_t cls)
{
    if (m->why != GLIM_OK || !m_row(m, config))
        return M_FAILED;
    size_t cell = (size_t)(m->config[config].row - 1) * m->g->n_class + cls;
    if (m->row[cell] == M_FAILED) {
        struct alike a;
        uint32_t to = step_new(m, config, m->g->byte[cls], &a);
        for (unsigned b = a.lo; b <= a.hi; b++)
            m->row[cell - cls + m->g->cls[b]] = to;
    }
    return m->row[cell];
}

uint32_t m_pop(struct grammar_matcher *m, uint32_t frame)
{
    if (m->frame[frame].pop == M_FAILED) {
        m_begin(m);
        m_reach(m, END, frame);
        uint32_t to = m_end(m);
        m->frame[frame].pop = to;
    }
    return m->frame[frame].pop;
}
