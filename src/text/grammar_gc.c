/* Making room in a matcher: what no state needs goes, the rest moves together.
 *
 * Kept are the configs that states are or were at (they may go back), and the frames below these. Frames and configs
 * are numbered in the order they were made, so an entry's parent has a smaller number than its frame, and moving in
 * ascending order never overwrites what is still to be moved. Masks, rows and divisions are computed again. */
#include "text/grammar_match.h"

#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

struct marks {
    uint32_t *config, *frame; /* 0 = goes; else, once moved, the new number (those below 2 stay) */
};

static void mark(const struct grammar_matcher *m, struct marks *k)
{
    for (uint32_t i = 0; i < 2; i++)
        k->config[i] = k->frame[i] = 1;
    k->config[m->start] = 1;
    for (const struct grammar_state *s = m->states; s; s = s->next)
        for (size_t i = 0; i < s->n; i++)
            k->config[s->at[i]] = 1;
    for (size_t i = 2; i < m->n_config; i++)
        for (uint32_t t = 0; k->config[i] && t < m->config[i].n; t++)
            k->frame[(uint32_t)m->thread[m->config[i].first + t]] = 1;
    for (size_t i = m->n_frame; i > 2; i--)
        for (uint32_t t = 0; k->frame[i - 1] && t < m->frame[i - 1].n; t++)
            k->frame[m->entry[m->frame[i - 1].first + t].parent] = 1;
}

static void move_frames(struct grammar_matcher *m, struct marks *k)
{
    size_t n = 2, n_entry = 0;
    k->frame[0] = 0;
    k->frame[1] = 1;
    m->frame[0].pop = m->frame[1].pop = M_FAILED;
    for (size_t i = 2; i < m->n_frame; i++) {
        struct m_frame f = m->frame[i];
        if (!k->frame[i])
            continue;
        memmove(m->entry + n_entry, m->entry + f.first, f.n * sizeof *m->entry);
        f.first = (uint32_t)n_entry;
        f.pop = M_FAILED;
        n_entry += f.n;
        for (uint32_t t = 0; t < f.n; t++)
            m->entry[f.first + t].parent = k->frame[m->entry[f.first + t].parent];
        k->frame[i] = (uint32_t)n;
        m->frame[n++] = f;
    }
    m->n_frame = n;
    m->n_entry = n_entry;
}

static void move_configs(struct grammar_matcher *m, struct marks *k)
{
    size_t n = 2, n_thread = 0;
    k->config[0] = 0;
    k->config[1] = 1;
    m->config[0].row = m->config[1].row = 0;
    for (size_t i = 2; i < m->n_config; i++) {
        struct m_config c = m->config[i];
        if (!k->config[i])
            continue;
        memmove(m->thread + n_thread, m->thread + c.first, c.n * sizeof *m->thread);
        c.first = (uint32_t)n_thread;
        c.row = 0;
        c.seen = 0;
        c.then = M_FAILED;
        c.tried = c.dead = c.open = 0;
        n_thread += c.n;
        for (uint32_t t = 0; t < c.n; t++) {
            uint64_t x = m->thread[c.first + t];
            m->thread[c.first + t] = (x >> 32) << 32 | k->frame[(uint32_t)x];
        }
        k->config[i] = (uint32_t)n;
        m->config[n++] = c;
    }
    m->n_config = n;
    m->n_thread = n_thread;
}

static void forget(struct grammar_matcher *m, struct g_table *t)
{
    m->bytes -= t->cap * sizeof *t->slot;
    mem_free(t->slot);
    *t = (struct g_table){0};
}

/* Give back what an array does not need; a failure to shrink is none. */
static void shrink(struct grammar_matcher *m, void **arr, size_t *cap, size_t n, size_t size)
{
    size_t to = n < 16 ? 16 : n;
    void *p = to < *cap ? mem_realloc(*arr, to * size) : NULL;
    if (!p)
        return;
    m->bytes -= (*cap - to) * size;
    *arr = p;
    *cap = to;
}

#define SHRINK(m, arr) shrink(m, (void **)&(m)->arr, &(m)->cap_##arr, (m)->n_##arr, sizeof *(m)->arr)

static bool number_again(struct grammar_matcher *m)
{
    for (size_t i = 2; i < m->n_frame; i++) {
        const struct m_frame *f = &m->frame[i];
        uint64_t hash = xxh3(m->entry + f->first, f->n * sizeof *m->entry) + f->wide;
        if (!m_table_room(m, &m->slot_frame))
            return false;
        struct g_slot *s = g_table_first(&m->slot_frame, hash);
        while (s->number)
            s = g_table_next(&m->slot_frame, s, hash);
        g_table_put(&m->slot_frame, s, hash, (uint32_t)i);
    }
    for (size_t i = 2; i < m->n_config; i++) {
        uint64_t hash = xxh3(m->thread + m->config[i].first, m->config[i].n * sizeof *m->thread);
        if (!m_table_room(m, &m->slot_config))
            return false;
        struct g_slot *s = g_table_first(&m->slot_config, hash);
        while (s->number)
            s = g_table_next(&m->slot_config, s, hash);
        g_table_put(&m->slot_config, s, hash, (uint32_t)i);
    }
    return true;
}

bool m_collect(struct grammar_matcher *m)
{
    struct marks k = {mem_calloc(m->n_config, sizeof *k.config), mem_calloc(m->n_frame, sizeof *k.frame)};
    if (!k.config || !k.frame) {
        mem_free(k.config);
        mem_free(k.frame);
        m->why = GLIM_FAILED;
        return false;
    }
    mark(m, &k);
    move_frames(m, &k);
    move_configs(m, &k);
    m->start = k.config[m->start];
    for (struct grammar_state *s = m->states; s; s = s->next)
        for (size_t i = 0; i < s->n; i++)
            s->at[i] = k.config[s->at[i]];
    mem_free(k.config);
    mem_free(k.frame);
    m->n_row = m->n_data = m->n_bits = m->n_list = m->n_memo = 0;
    m->n_due = m->n_out = m->n_heap = m->n_set = m->n_pops = m->n_group = m->n_work = 0;
    forget(m, &m->slot_frame);
    forget(m, &m->slot_config);
    forget(m, &m->slot_memo);
    forget(m, &m->slot_list);
    forget(m, &m->slot_divided);
    shrink(m, (void **)&m->row, &m->cap_row, 0, m->g->n_class * sizeof *m->row);
    SHRINK(m, frame);
    SHRINK(m, entry);
    SHRINK(m, config);
    SHRINK(m, thread);
    SHRINK(m, data);
    SHRINK(m, bits);
    SHRINK(m, list);
    SHRINK(m, memo);
    SHRINK(m, due);
    SHRINK(m, out);
    SHRINK(m, heap);
    SHRINK(m, set);
    SHRINK(m, pops);
    SHRINK(m, group);
    SHRINK(m, work);
    memset(m->run, 0, M_RUNS * sizeof *m->run);
    m->why = GLIM_OK;
    return number_again(m) && m_mask_init(m);
}
