/* If this fails: somebody waits for ever while others are served, answers stutter while a long prompt is read or
 * prompts stand still beside answers, one that gave way starts over, or cancelled ones keep their pages. */
#include "sched_world.h"

#include <math.h>

/* Room for long prompts beside answers. */
static const struct setup roomy = {.window = {0},
                                   .n_window = 1,
                                   .n_seq = 8,
                                   .n_ctx = MOST,
                                   .n_page = 8 * MOST / KV_PAGE,
                                   .n_more = 1,
                                   .max_rows = 512,
                                   .max_logits = 32,
                                   .slot_rows = 512,
                                   .step_s = 50e-3};

static uint32_t computed(const struct world *w, const struct answer *q)
{
    return q->s.state == SCHED_RUNNING ? w->kv.len[q->s.slot] : 0;
}

static bool reads(const struct world *w, const struct answer *q)
{
    return q->on && (q->s.state == SCHED_WAITING || sched_prefills(&w->sched, &q->s));
}

static void steps(struct world *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        step(w);
}

static void end_all(struct world *w)
{
    for (uint32_t i = 0; i < LIVE; i++)
        if (w->answer[i].on)
            leave(w, &w->answer[i], false);
}

static struct answer *simple(struct world *w, uint32_t n, uint32_t n_new, int32_t priority)
{
    struct answer *q = invent(w, NULL, 0, n, n_new);
    q->s.priority = priority;
    submit(w, q);
    return q;
}

/* ---- who comes when ---- */

static void priority_then_arrival_decides(void **state)
{
    (void)state;
    struct setup as = roomy;
    as.n_seq = 1;
    struct world *w = world_open(&as);
    static const int32_t priority[] = {0, 0, -3, 7, 0, 7};
    static const uint32_t order[] = {0, 3, 5, 1, 4, 2};
    struct answer *q[6];
    for (uint32_t i = 0; i < 6; i++) {
        q[i] = simple(w, 4, 1, priority[i]);
        if (i == 0)
            admit(w); /* before the others come */
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(i == 0 || q[order[i]]->s.state == SCHED_WAITING);
        step(w);
        assert_false(q[order[i]]->on);
    }
    world_close(w);
}

/* A stream of others that come later and matter more: two steps of priority are made up for after 2 * PASS of them. */
static void who_is_passed_over_rises(void **state)
{
    (void)state;
    struct setup as = roomy;
    as.n_seq = 1;
    struct world *w = world_open(&as);
    simple(w, 4, 1, 0);
    step(w);
    struct answer *low = simple(w, 4, 1, 0);
    uint32_t n = 0;
    for (; low->on && n < 100; n++) {
        simple(w, 4, 1, 2);
        step(w);
    }
    assert_int_equal(n, 2 * PASS + 1);
    assert_int_equal(low->s.passed, 2 * PASS);
    steps(w, 1);
    world_close(w);
}

/* The first needs many pages: those behind it wait, though there is room for them. */
static void the_first_is_not_passed_over_for_its_size(void **state)
{
    (void)state;
    struct setup as = roomy;
    as.n_page = 10;
    struct world *w = world_open(&as);
    struct answer *runs = simple(w, 60, 30, 0), *large = simple(w, 60, 60, 0), *small = simple(w, 5, 5, 0);
    while (runs->on) {
        step(w);
        assert_true(large->s.state == SCHED_WAITING && small->s.state == SCHED_WAITING);
    }
    step(w);
    assert_true(large->s.state == SCHED_RUNNING && small->s.state == SCHED_RUNNING);
    end_all(w);
    world_close(w);
}

/* What the cache has need not be free: a second answer to a prompt finds room beside the first. */
static void shared_pages_count_once(void **state)
{
    (void)state;
    struct setup as = roomy;
    as.n_page = 10;
    struct world *w = world_open(&as);
    struct answer *a = simple(w, 100, 20, 0); /* 8 pages */
    step(w);
    struct answer *b = invent(w, a->token, 100, 100, 12), *c = invent(w, NULL, 0, 30, 3); /* 7 and 3 */
    b->salt = 1;
    submit(w, b);
    submit(w, c);
    step(w);
    assert_true(b->s.state == SCHED_RUNNING && c->s.state == SCHED_WAITING);
    assert_int_equal(b->s.n_cached, 96);
    steps(w, 40);
    assert_false(a->on || b->on || c->on);
    world_close(w);
}

static void what_never_fits_is_refused(void **state)
{
    (void)state;
    struct setup as = roomy;
    struct glim_err e;
    as.n_page = 10;
    struct world *w = world_open(&as);
    ok(sched_fits(&w->sched, 160, &e), &e);
    assert_int_equal(sched_fits(&w->sched, 161, &e), GLIM_REFUSED);
    assert_string_equal(e.message, "engine: KV cache: have 10 pages of 16 tokens, need 11 for 161 tokens");
    assert_int_equal(sched_fits(&w->sched, MOST + 1, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "engine: context: have room for 2048 tokens"));
    struct answer *q = simple(w, 150, 10, 0);
    steps(w, 30);
    assert_false(q->on);
    world_close(w);
}

/* ---- whose rows ---- */

/* A short prompt that comes while a long one is read is done first; the long one has half of the rows all the time, and
 * the answer that is being written a token each step. */
static void short_prompts_need_not_wait_for_long_ones(void **state)
{
    (void)state;
    struct world *w = world_open(&roomy);
    struct answer *writes = simple(w, 10, 400, 0);
    steps(w, 5);
    struct answer *big = simple(w, 2000, 10, 0), *little = NULL;
    uint32_t n_little = 0, n_step = 0, age = 0;
    for (; !big->ran || reads(w, big); n_step++, age++) {
        if (!little || !little->on) {
            little = simple(w, 60, 1, 0);
            n_little++;
            age = 0;
        }
        uint32_t before = computed(w, big), wrote = writes->s.n;
        step(w);
        uint32_t got = computed(w, big) - before;
        assert_true(got * 2 >= w->prefill || !reads(w, big));
        assert_true(got > 0 && writes->s.n == wrote + 1);
        assert_true(age <= 2); /* 60 rows at 16 or more a step beside the long one's */
    }
    assert_true(n_little > 3 && n_step < 60);
    end_all(w);
    world_close(w);
}

/* The same with prompts alone: nobody waits for what a step may take. */
static void prompts_alone_take_all_rows(void **state)
{
    (void)state;
    struct world *w = world_open(&roomy);
    simple(w, 2000, 10, 0);
    simple(w, 1000, 10, 0);
    step(w);
    assert_int_equal(w->rows, 512);
    step(w);
    assert_int_equal(w->rows, 512);
    end_all(w);
    world_close(w);
}

/* Guesses get what rows and rows of logits are left; a prompt, also one whose logits are wanted, gets on beside any
 * number of them. */
static void guesses_leave_room_for_prompts(void **state)
{
    (void)state;
    struct setup as = roomy;
    as.n_seq = 4;
    as.max_rows = 8;
    as.max_logits = 6;
    struct world *w = world_open(&as);
    struct answer *writes[3];
    for (int i = 0; i < 3; i++)
        writes[i] = simple(w, 3, 300, 0);
    steps(w, 4);
    struct answer *q = invent(w, NULL, 0, 50, 5);
    q->logprobs = true;
    submit(w, q);
    uint32_t n = 0;
    for (; n == 0 || reads(w, q); n++) {
        for (int i = 0; i < 3; i++)
            if (writes[i]->on)
                writes[i]->s.n_draft = guess(w, writes[i], DRAFTS);
        uint32_t before = computed(w, q);
        step(w);
        assert_true(computed(w, q) > before && w->decode > 3);
    }
    assert_true(n <= 50);
    end_all(w);
    world_close(w);
}

/* Run until prompts and answers have shared n steps; a prompt that has been read makes place for a new one. The mean
 * time of the last quarter, none of which may be far from it. */
static double settle(struct world *w, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        while (w->sched.n_run + w->sched.n_waiting < 8)
            simple(w, 1900, 1, 0);
        step(w);
        assert_true(w->decode > 0 && w->prefill >= KV_PAGE);
        if (i >= n - n / 4) {
            sum += w->seconds;
            assert_true(fabs(w->seconds - w->as.step_s) <= 0.2 * w->as.step_s);
        }
    }
    return sum / (n / 4);
}

/* Whatever a row takes, and whatever it took before, as many of them are planned as the aim allows. */
static void a_step_takes_the_time_aimed_at(void **state)
{
    (void)state;
    struct world *w = world_open(&roomy);
    struct answer *writes[4];
    for (int i = 0; i < 4; i++)
        writes[i] = simple(w, 10, 1500, 0);
    steps(w, 10);
    print_message("%.1f ms", 1e3 * settle(w, 40));
    w->prefill_s = 1e-3; /* the context grows, or another process came */
    print_message(", %.1f ms", 1e3 * settle(w, 40));
    w->prefill_s = 0.1e-3;
    print_message(", %.1f ms", 1e3 * settle(w, 40));
    leave(w, writes[0], true); /* prompts never end, so that answers alone are not measured again */
    leave(w, writes[1], true);
    w->decode_s = 8e-3;
    print_message(", %.1f ms", 1e3 * settle(w, 40));
    w->decode_s = 0.1e-3;
    print_message(", %.1f ms", 1e3 * settle(w, 40));
    end_all(w);
    for (int i = 0; i < 4; i++)
        writes[i] = simple(w, 10, 1500, 0);
    w->decode_s = 5e-3;
    steps(w, 30); /* half of the aim is the answers' */
    print_message(", %.1f ms", 1e3 * settle(w, 40));
    end_all(w);
    for (int i = 0; i < 4; i++)
        writes[i] = simple(w, 10, 1500, 0);
    w->decode_s = 20e-3;
    steps(w, 30); /* answers alone take more than the aim */
    w->decode_s = 0.5e-3;
    print_message(", %.1f ms\n", 1e3 * settle(w, 40));
    end_all(w);
    world_close(w);
}

/* Where answers alone take longer than a step should, prompts still get on, a page a step. */
static void prompts_get_on_where_time_is_over(void **state)
{
    (void)state;
    struct world *w = world_open(&roomy);
    w->decode_s = 30e-3;
    simple(w, 10, 500, 0);
    simple(w, 10, 500, 0);
    steps(w, 30);
    simple(w, 500, 1, 0);
    for (int i = 0; i < 30; i++) {
        step(w);
        assert_int_equal(w->prefill, KV_PAGE);
    }
    end_all(w);
    world_close(w);
}

/* ---- giving way ---- */

/* Both are promised 5 of 10 pages and need more: the later one gives way, keeps what the other does not need, and goes
 * on where it was. The one of lower priority gives way to the later one. */
static void who_gives_way_goes_on_later(void **state)
{
    (void)state;
    for (int32_t priority = 0; priority < 2; priority++) {
        struct setup as = roomy;
        as.n_page = 10;
        as.overcommit = true;
        struct world *w = world_open(&as);
        struct answer *q[2] = {simple(w, 60, 40, 0), simple(w, 60, 40, priority)};
        struct answer *stays = q[priority], *goes = q[1 - priority];
        step(w);
        assert_int_equal(w->sched.n_run, 2);
        while (w->sched.n_preempted == 0) {
            uint32_t n = goes->s.n;
            uint64_t order = goes->s.order;
            step(w);
            if (w->sched.n_preempted) {
                assert_int_equal(goes->s.state, SCHED_WAITING);
                assert_int_equal(goes->s.n, n);
                assert_int_equal(goes->s.order, order);
                assert_int_equal(n, 5 * KV_PAGE + 1);
            }
        }
        while (stays->on) {
            assert_int_equal(goes->s.state, SCHED_WAITING);
            step(w);
        }
        step(w);
        assert_int_equal(goes->s.state, SCHED_RUNNING);
        assert_int_equal(goes->s.n_cached, 3 * KV_PAGE); /* the other had 7 of the 10 */
        steps(w, 40);
        assert_false(goes->on);
        assert_int_equal(w->sched.n_preempted, 1);
        world_close(w);
    }
}

/* A stream of those that matter more, each of which may push it out again: it ends all the same. */
static void who_gives_way_again_and_again_ends(void **state)
{
    (void)state;
    struct setup as = roomy;
    as.n_seq = 3;
    as.n_page = 11;
    as.max_rows = 5;
    as.overcommit = true;
    struct world *w = world_open(&as);
    struct answer *low = simple(w, 90, 60, 0);
    while (low->on && w->step < 5000) {
        while (w->sched.n_waiting < 4)
            simple(w, 10, 150, 2);
        step(w);
    }
    print_message("%llu steps, %llu gave way, %u tokens, passed over %u times\n", (unsigned long long)w->step,
                  (unsigned long long)w->sched.n_preempted, low->s.n, low->passed);
    assert_false(low->on);
    end_all(w);
    world_close(w);
}

/* A prompt whose logits are wanted is computed with them once, also when it gave way in the middle. */
static void rows_that_are_taken_are_not_computed_again(void **state)
{
    (void)state;
    struct setup as = roomy;
    as.n_page = 10;
    as.overcommit = true;
    as.n_seq = 2;
    as.max_logits = 3; /* two rows of the prompt a step */
    struct world *w = world_open(&as);
    simple(w, 14, 60, 1);
    struct answer *q = invent(w, NULL, 0, 110, 20);
    q->logprobs = true;
    submit(w, q);
    while (w->sched.n_preempted == 0 && q->on)
        step(w);
    assert_int_equal(q->s.state, SCHED_WAITING);
    assert_int_equal(q->s.n_reuse, q->done_rows);
    assert_true(q->done_rows > 0 && q->done_rows < q->n_prompt - 1);
    while (q->on) /* after() looks at the rows */
        step(w);
    world_close(w);
}

/* ---- what is kept ---- */

static uint32_t matched(const struct world *w, const struct answer *q, uint32_t n)
{
    struct prefix_match m;
    prefix_match(&w->tree, &identity, q->token, n, &m);
    return m.n_token;
}

/* When window pages become scarce, those stay that the next turn needs: before the last user turn, at the prompt's end
 * and at the answer's. */
static void windows_of_turns_are_kept(void **state)
{
    (void)state;
    struct setup as = roomy;
    as.window[1] = 32;
    as.n_window = 2;
    as.n_more = 30;
    as.slot_rows = 16;
    struct world *w = world_open(&as);
    struct answer *q = invent(w, NULL, 0, 208, 100);
    q->s.turn = 112;
    submit(w, q);
    while (q->on)
        step(w);
    uint32_t group = (uint32_t)w->plan.layer[1].attn.kv_group, whole = pages(307), kept = 3 * 3;
    assert_int_equal(w->tree.n_page[group], whole); /* the last token is not computed */
    assert_int_equal(matched(w, q, 150), 150);
    prefix_evict(&w->tree, group, whole - kept);
    assert_int_equal(matched(w, q, 150), 112);
    assert_int_equal(matched(w, q, 250), 208);
    assert_int_equal(matched(w, q, 307), 307);
    world_close(w);
}

/* ---- leaving ---- */

/* 10^4 cancels, of those that wait, read and write: pages are back at once. */
static void cancelled_ones_leave_nothing_behind(void **state)
{
    (void)state;
    struct setup as = mixed;
    struct world *w = world_open(&as);
    w->vocab = 2;
    w->lively = true;
    while (w->seen.cancelled < 10000) {
        while (free_answer(w) && draw(w, 20))
            arrive(w);
        propose(w);
        steps(w, draw(w, 12));
        for (uint32_t i = 0, n = draw(w, 40); i < n; i++)
            cancel(w);
        if (draw(w, 4))
            continue;
        for (uint32_t i = 0; i < LIVE; i++)
            if (w->answer[i].on) {
                leave(w, &w->answer[i], draw(w, 2));
                w->seen.cancelled++;
            }
        check(w);
        for (uint32_t g = 0; g < w->plan.n_group; g++)
            assert_int_equal(w->kv.group[g].n_free + w->tree.n_page[g], w->kv.group[g].n_page);
    }
    end_all(w);
    world_close(w);
}

/* ---- memory, and what the check is worth ---- */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct world *w = world_open(&mixed);
    struct sched_limits limits = limits_of(&mixed);
    glim_status st = GLIM_FAILED;
    long n = 1;
    for (; st != GLIM_OK; n++) {
        struct sched s;
        struct glim_err e = {0};
        mem_fail_after(n);
        st = sched_create(&s, &w->kv, &w->tree, &identity, &limits, &e);
        if (st == GLIM_OK)
            st = sched_check(&s, &e);
        mem_fail_after(0);
        assert_true(st == GLIM_OK || e.message[0]);
        sched_fini(&s);
    }
    assert_true(n > 5);
    world_close(w);
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    struct world *w = world_open(&mixed);
    long before = mem_count();
    w->vocab = 2;
    for (int i = 0; i < 500; i++) {
        disturb(w, 100);
        step(w);
    }
    assert_int_equal(mem_count(), before);
    end_all(w);
    world_close(w);
}

static void assert_wrong(const struct world *w, const char *what)
{
    struct glim_err e = {0};
    assert_int_equal(sched_check(&w->sched, &e), GLIM_FAILED);
    if (!strstr(e.message, what))
        fail_msg("%s", e.message);
}

static void the_check_sees_what_is_wrong(void **state)
{
    (void)state;
    struct setup as = roomy;
    as.n_seq = 2;
    struct world *w = world_open(&as);
    struct answer *a = simple(w, 40, 5, 0), *b = simple(w, 40, 5, 0), *c = simple(w, 40, 5, 0);
    step(w);
    check(w);
    w->sched.n_waiting++;
    assert_wrong(w, "waiting");
    w->sched.n_waiting -= 2;
    assert_wrong(w, "waiting");
    w->sched.n_waiting++;
    c->s.state = SCHED_OUT;
    assert_wrong(w, "queue");
    c->s.state = SCHED_WAITING;
    a->s.state = SCHED_WAITING;
    assert_wrong(w, "slot");
    a->s.state = SCHED_RUNNING;
    uint32_t slot = b->s.slot;
    b->s.slot = a->s.slot;
    assert_wrong(w, "slot");
    b->s.slot = slot;
    struct prefix_hold hold = b->s.hold;
    b->s.hold = a->s.hold;
    assert_wrong(w, "pins");
    b->s.hold = hold;
    check(w);
    end_all(w);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(priority_then_arrival_decides),
        cmocka_unit_test(who_is_passed_over_rises),
        cmocka_unit_test(the_first_is_not_passed_over_for_its_size),
        cmocka_unit_test(shared_pages_count_once),
        cmocka_unit_test(what_never_fits_is_refused),
        cmocka_unit_test(short_prompts_need_not_wait_for_long_ones),
        cmocka_unit_test(prompts_alone_take_all_rows),
        cmocka_unit_test(guesses_leave_room_for_prompts),
        cmocka_unit_test(a_step_takes_the_time_aimed_at),
        cmocka_unit_test(prompts_get_on_where_time_is_over),
        cmocka_unit_test(who_gives_way_goes_on_later),
        cmocka_unit_test(who_gives_way_again_and_again_ends),
        cmocka_unit_test(rows_that_are_taken_are_not_computed_again),
        cmocka_unit_test(windows_of_turns_are_kept),
        cmocka_unit_test(cancelled_ones_leave_nothing_behind),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(the_check_sees_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
