/* If this fails: after hours of mixed work pages leak until the engine refuses everything, or are given to two
 * sequences, one of which then answers from the other's text. A million random steps, all checked. */
#include "test_run_prefix.h"

#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEPS = 30000 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { STEPS = 30000 };
#else
enum { STEPS = 1000000 };
#endif
#else
enum { STEPS = 1000000 };
#endif

/* ---- anything, in any order ---- */

struct walk {
    struct lab l;
    uint64_t random;
    bool strict;        /* sequences start when the pages of all their planned tokens are certain */
    struct seq past[8]; /* to begin like */
    uint64_t n_hit, n_preempt, n_refused;
};

static uint32_t draw(struct walk *w, uint32_t below)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((w->random >> 33) % below);
}

/* Begins like a sequence that is or was, mostly. */
static void invent(struct walk *w, struct seq *q)
{
    const struct seq *like = draw(w, 2) ? &w->past[draw(w, 8)] : &w->l.seq[draw(w, SLOTS)];
    struct seq made = {.on = true, .identity = draw(w, 8) == 0, .planned = 1 + draw(w, CTX)};
    uint32_t n = like->n ? draw(w, like->n + 1) : 0;
    for (uint32_t i = 0; i < n && i < made.planned; i++)
        append(&made, like->token[i]);
    for (uint32_t i = 0, more = 1 + draw(w, 40); i < more && made.n < made.planned; i++)
        append(&made, (int32_t)draw(w, 2));
    *q = made;
}

/* Do the pages without a window suffice for what all running sequences will still take, and a new one? */
static bool is_certain(const struct walk *w, uint32_t planned, const struct prefix_match *m)
{
    const struct lab *l = &w->l;
    uint32_t full = (uint32_t)l->tree.full, need = (planned + KV_PAGE - 1) / KV_PAGE - m->n_page;
    for (uint32_t s = 0; s < SLOTS; s++)
        if (l->seq[s].on)
            need += kv_need(&l->kv, s, l->seq[s].planned - l->kv.len[s], full);
    return need <= l->kv.group[full].n_free + l->tree.n_idle - m->n_pin;
}

static void admit(struct walk *w, uint32_t slot)
{
    struct lab *l = &w->l;
    struct seq q;
    invent(w, &q);
    struct sha256 id = identity_of(q.identity);
    struct prefix_match m;
    prefix_match(&l->tree, &id, q.token, q.n - 1, &m);
    bool uncached = draw(w, 16) == 0;
    if (w->strict && !is_certain(w, q.planned, uncached ? &(struct prefix_match){0} : &m)) {
        w->n_refused++;
        return;
    }
    l->seq[slot] = q;
    if (uncached) {
        l->hold[slot] = (struct prefix_hold){0};
        return;
    }
    l->hold[slot] = prefix_start(&l->tree, &m, slot);
    w->n_hit += m.n_token;
    look(l, slot, m.n_token);
}

static void leave(struct walk *w, uint32_t slot, bool keep)
{
    w->past[draw(w, 8)] = w->l.seq[slot];
    w->l.seq[slot].n = w->l.kv.len[slot] > 0 ? w->l.kv.len[slot] : w->l.seq[slot].n;
    prefix_finish(&w->l.tree, &w->l.hold[slot], slot, w->l.seq[slot].token, keep);
    w->l.seq[slot].on = false;
}

/* Room for n rows. Only pages without a window may lack, and only when more was begun than fits: then others leave. */
static bool make_room(struct walk *w, uint32_t slot, uint32_t n)
{
    struct glim_err e;
    while (prefix_reserve(&w->l.tree, slot, n, &e) != GLIM_OK) {
        if (w->strict || !strstr(e.message, "window 0:"))
            fail_msg("slot %u: %s", slot, e.message);
        uint32_t other = draw(w, SLOTS);
        if (w->l.seq[other].on) {
            leave(w, other, draw(w, 4) > 0);
            w->n_preempt++;
        }
        if (other == slot)
            return false;
    }
    return true;
}

static void grow(struct walk *w, uint32_t slot)
{
    struct lab *l = &w->l;
    struct seq *q = &l->seq[slot];
    uint32_t pos = l->kv.len[slot], n = 1 + draw(w, ROWS);
    if (pos == q->planned) {
        leave(w, slot, true);
        return;
    }
    if (n > q->planned - pos)
        n = q->planned - pos;
    if (!make_room(w, slot, n))
        return;
    if (pos == q->n) /* all that is known is computed: a draft, of which some tokens are refused */
        for (uint32_t i = 0, good = 1 + draw(w, n); i < good; i++)
            append(q, (int32_t)draw(w, 2));
    uint32_t good = n < q->n - pos ? n : q->n - pos;
    compute(l, slot, good);
    for (uint32_t i = good; i < n; i++)
        write(l, slot, pos + i, w->random);
    kv_advance(&l->kv, slot, n - good);
    assert_int_equal(kv_trim(&l->kv, slot, pos + good), pos + good);
    if (draw(w, 10))
        prefix_extend(&l->tree, &l->hold[slot], slot, q->token);
    if (draw(w, 10) == 0)
        prefix_mark(&l->tree, &l->hold[slot], draw(w, pos + good + 1));
}

static void step(struct walk *w)
{
    uint32_t slot = draw(w, SLOTS), what = draw(w, 100);
    if (what < 2)
        prefix_evict(&w->l.tree, draw(w, w->l.plan.n_group), draw(w, 5));
    else if (!w->l.seq[slot].on)
        admit(w, slot);
    else if (what < 10)
        leave(w, slot, what < 6); /* ended early, or cancelled */
    else
        grow(w, slot);
}

/* Holders by another way than kv_check: those in tables are counted, the others are the tree's, one a page. */
static void count_holders(const struct lab *l)
{
    for (uint32_t g = 0; g < l->plan.n_group; g++) {
        const struct kv_table *t = &l->kv.group[g];
        uint32_t n[256] = {0}, in_tree = 0, n_free = 0;
        assert_true(t->n_page <= 256);
        for (uint32_t s = 0; s < SLOTS; s++)
            for (uint32_t i = 0; i < t->stride; i++)
                if (kv_page(&l->kv, s, g, i) != KV_NO_PAGE)
                    n[kv_page_index(t, kv_page(&l->kv, s, g, i))]++;
        for (uint32_t i = 0; i < t->n_page; i++) {
            assert_true(t->ref[i] == n[i] || t->ref[i] == n[i] + 1);
            in_tree += t->ref[i] - n[i];
            n_free += t->ref[i] == 0;
        }
        assert_int_equal(in_tree, l->tree.n_page[g]);
        assert_int_equal(n_free, t->n_free);
    }
}

static void anything_in_any_order(const uint32_t *window, uint32_t n_window, bool strict, uint32_t n_page,
                                  uint32_t n_more)
{
    static struct walk w;
    memset(&w, 0, sizeof w);
    w.random = n_page;
    w.strict = strict;
    lab_open(&w.l, window, n_window, n_page * KV_PAGE, n_more);
    for (long i = 0; i < STEPS / 4; i++) {
        step(&w);
        check(&w.l);
        count_holders(&w.l);
    }
    print_message("%u pages: %llu tokens reused, %llu pages evicted, %llu refused, %llu preempted\n", n_page,
                  (unsigned long long)w.n_hit, (unsigned long long)w.l.tree.n_evicted, (unsigned long long)w.n_refused,
                  (unsigned long long)w.n_preempt);
    assert_true(w.n_hit > STEPS / 16 && w.l.tree.n_evicted > STEPS / 100);
    assert_true((w.n_refused > 0) == strict && (w.n_preempt > 0) == (!strict && w.l.tree.full >= 0));
    for (uint32_t s = 0; s < SLOTS; s++)
        prefix_finish(&w.l.tree, &w.l.hold[s], s, w.l.seq[s].token, s % 2);
    lab_close(&w.l);
}

static void anything_with_certain_pages(void **state)
{
    (void)state;
    anything_in_any_order(mixed, 3, true, 14, 1);
    anything_in_any_order(mixed, 3, true, 40, 6);
}

static void anything_with_preemption(void **state)
{
    (void)state;
    anything_in_any_order(mixed, 3, false, 13, 1);
    anything_in_any_order(mixed, 3, false, 30, 4);
}

static void anything_without_full_layers(void **state)
{
    (void)state;
    anything_in_any_order(sliding, 2, false, 40, 2);
}

static uint32_t common(const struct seq *a, const struct seq *b)
{
    uint32_t n = 0;
    while (a->identity == b->identity && n < a->n && n < b->n && a->token[n] == b->token[n])
        n++;
    return n;
}

/* Against the plainest cache there is: all sequences that were, of which the longest common prefix counts. Nothing is
 * evicted and few begin alike (a match looks at 32 pages with one beginning), so the tree must find as much. */
static void hits_are_the_longest(void **state)
{
    (void)state;
    enum { N = 30 };
    static struct walk w;
    static struct seq past[N];
    for (uint32_t round = 0; round < STEPS / 5000; round++) {
        memset(&w, 0, sizeof w);
        w.random = round;
        lab_open(&w.l, mixed, 3, N * CTX, 4 * N);
        for (uint32_t i = 0; i < N; i++) {
            struct seq q;
            uint32_t best = 0;
            invent(&w, &q);
            for (uint32_t k = 0; k < i; k++)
                best = common(&q, &past[k]) > best ? common(&q, &past[k]) : best;
            best = best < q.n ? best : q.n - 1; /* a token is left to compute */
            assert_int_equal(serve(&w.l, i % SLOTS, q.identity, q.token, q.n), best);
            past[i] = w.past[i % 8] = q;
        }
        assert_int_equal(w.l.tree.n_evicted, 0);
        lab_close(&w.l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything_with_certain_pages),
        cmocka_unit_test(anything_with_preemption),
        cmocka_unit_test(anything_without_full_layers),
        cmocka_unit_test(hits_are_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
