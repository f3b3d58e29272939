/* If this fails: an answer is written from another one's keys and values, one that was promised its pages has to give
 * way, somebody waits for ever, or pages leak until the engine refuses everything.
 *
 * 10^6 steps of anything in any order: bursts of arrivals with common beginnings, guesses that are wrong, cancels,
 * evictions, forwards that fail, and few pages. */
#include "sched_world.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEPS = 200000 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { STEPS = 200000 };
#else
enum { STEPS = 1000000 };
#endif
#else
enum { STEPS = 1000000 };
#endif

/* Steps that one may take from its coming to its end. Each step computes at least one row of it or of one before it:
 * of those that were there, of those there when it had been passed over often enough to be first, of those that passed
 * it; and no one has more rows than the context. */
static uint64_t bound(const struct world *w)
{
    return (uint64_t)w->as.n_ctx * (2 * LIVE + PASS * (PRIORITIES - 1) + 1);
}

static struct world *walk(const struct setup *as, uint32_t n_step, uint32_t load, bool cache)
{
    struct world *w = world_open(as);
    w->random = as->n_page + as->n_seq;
    w->vocab = 2;
    w->lively = true;
    w->cache = cache;
    for (uint32_t i = 0; i < n_step; i++) {
        disturb(w, load);
        step(w);
        if (i % 4 == 0)
            check(w);
        for (uint32_t k = 0; k < LIVE; k++)
            assert_true(!w->answer[k].on || w->step - w->answer[k].arrived <= bound(w));
    }
    for (uint32_t i = 0; i < bound(w) && w->sched.n_run + w->sched.n_waiting; i++)
        step(w);
    print_message("%llu rows: %llu admitted, %llu ended, %llu cancelled, %llu tokens cached, %llu drafts right, "
                  "%llu wrong, %llu forced, %llu preempted, %llu evicted; passed over %u times, "
                  "waited %llu steps, lived %llu\n",
                  (unsigned long long)w->seen.rows, (unsigned long long)w->seen.admitted,
                  (unsigned long long)w->seen.ended, (unsigned long long)w->seen.cancelled,
                  (unsigned long long)w->seen.cached, (unsigned long long)w->seen.right,
                  (unsigned long long)w->seen.wrong, (unsigned long long)w->seen.forced,
                  (unsigned long long)w->seen.preempted, (unsigned long long)w->tree.n_evicted, w->seen.most_passed,
                  (unsigned long long)w->seen.longest_wait, (unsigned long long)w->seen.longest_life);
    return w;
}

static void saw_much(const struct world *w, bool cache)
{
    assert_true(w->seen.ended > STEPS / 200 && w->seen.cancelled > STEPS / 1000);
    assert_true(w->seen.right > STEPS / 200 && w->seen.wrong > STEPS / 200 && w->seen.forced > STEPS / 200);
    assert_true(w->seen.most_passed > PASS && w->seen.failed > STEPS / 20000);
    assert_true(cache == (w->seen.cached > STEPS / 200) && cache == (w->tree.n_evicted > STEPS / 200));
    assert_true(w->as.overcommit == (w->seen.preempted > STEPS / 10000));
}

static void anything(const struct setup *as, bool cache)
{
    struct world *w = walk(as, STEPS / 8, 100, cache);
    saw_much(w, cache);
    world_close(w);
}

static void anything_with_promised_pages(void **state)
{
    (void)state;
    struct setup as = mixed;
    anything(&as, true);
    as.n_page = 10; /* as many as one may have */
    as.n_more = 1;
    anything(&as, true);
    anything(&as, false);
}

static void anything_with_preemption(void **state)
{
    (void)state;
    struct setup as = mixed;
    as.overcommit = true;
    as.n_page = 16;
    anything(&as, true);
    as.n_page = 11;
    as.n_seq = 8;
    as.max_rows = 200;
    as.slot_rows = 30;
    anything(&as, true);
    anything(&as, false);
}

/* As few rows as there may be, and sequences that have more to compute than a slot gets. */
static void anything_with_few_rows(void **state)
{
    (void)state;
    struct setup as = mixed;
    as.n_seq = as.max_rows = SLOTS;
    as.max_logits = SLOTS + 4;
    as.slot_rows = 4;
    as.n_page = 80;
    anything(&as, true);
}

static void anything_without_full_layers(void **state)
{
    (void)state;
    struct setup as = mixed;
    as.window[0] = 17;
    anything(&as, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything_with_promised_pages),
        cmocka_unit_test(anything_with_preemption),
        cmocka_unit_test(anything_with_few_rows),
        cmocka_unit_test(anything_without_full_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
