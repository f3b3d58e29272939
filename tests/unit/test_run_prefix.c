/* If this fails: an answer continues from keys and values of other text (another user's, or a draft that was refused),
 * a prompt that is cached is computed again, or what is asked for most goes first. */
#include "test_run_prefix.h"

static const uint32_t full_only[] = {0};

static uint32_t matched(const struct lab *l, uint32_t identity, const int32_t *token, uint32_t n)
{
    struct sha256 id = identity_of(identity);
    struct prefix_match m;
    prefix_match(&l->tree, &id, token, n, &m);
    return m.n_token;
}

static void count_up(int32_t *token, uint32_t n, int32_t from)
{
    for (uint32_t i = 0; i < n; i++)
        token[i] = from + (int32_t)i;
}

/* Every length of the common prefix, so every page boundary and the places beside it. */
static void hits_have_any_length(void **state)
{
    (void)state;
    for (int windows = 0; windows < 2; windows++) {
        struct lab l;
        int32_t a[CTX], b[CTX];
        lab_open(&l, windows ? mixed : full_only, windows ? 3 : 1, 1000 * KV_PAGE, 250);
        count_up(a, 101, 0);
        assert_int_equal(serve(&l, 0, 0, a, 101), 0);
        for (uint32_t n = 0; n <= 101; n++) {
            memcpy(b, a, sizeof a);
            count_up(b + n, 130 - n, 1000 * (int32_t)(n + 1));
            assert_int_equal(matched(&l, 0, a, n), n);
            assert_int_equal(serve(&l, n % SLOTS, 0, b, 130), n);
        }
        assert_int_equal(matched(&l, 0, a, 101), 101);
        lab_close(&l);
    }
}

/* Two sequences go on from the middle of one page: each gets its own, and the tree's stays as it is. */
static void shared_pages_are_copied_before_a_write(void **state)
{
    (void)state;
    struct lab l;
    struct glim_err e;
    int32_t a[CTX], b[CTX], c[CTX];
    uint64_t before[KV_PAGE];
    lab_open(&l, mixed, 3, 0, 2);
    count_up(a, 40, 0);
    serve(&l, 0, 0, a, 40);
    memcpy(b, a, sizeof a);
    memcpy(c, a, sizeof a);
    count_up(b + 37, 20, 500);
    count_up(c + 37, 20, 700);
    set_tokens(&l.seq[1], 0, b, 57);
    set_tokens(&l.seq[2], 0, c, 57);
    assert_int_equal(start(&l, 1), 37);
    assert_int_equal(start(&l, 2), 37);
    for (uint32_t g = 0; g < l.plan.n_group; g++) {
        uint32_t page = kv_page(&l.kv, 1, g, 2);
        assert_int_equal(page, kv_page(&l.kv, 2, g, 2));
        assert_int_equal(kv_holders(&l.kv, g, page), 3);
        assert_int_equal(kv_need(&l.kv, 1, 1, g), 1);       /* the copy */
        assert_int_equal(kv_need(&l.kv, 1, KV_PAGE, g), 2); /* and the next */
        assert_int_equal(kv_need(&l.kv, 1, 0, g), 0);
    }
    memcpy(before, cell(&l, 0, true, 1, 32), sizeof before);
    uint64_t *tree = cell(&l, 0, true, 1, 32);
    run_to(&l, 1, 57);
    ok(prefix_reserve(&l.tree, 2, 1, &e), &e);
    assert_memory_equal(cell(&l, 0, true, 2, 32), before, sizeof before);
    run_to(&l, 2, 57);
    assert_memory_equal(tree, before, sizeof before);
    for (uint32_t s = 1; s <= 2; s++)
        look(&l, s, 57);
    assert_int_equal(matched(&l, 0, a, 40), 40);
    lab_close(&l);
}

/* The last holder of a page needs no copy. */
static void the_last_holder_writes_in_place(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX];
    lab_open(&l, full_only, 1, 0, 1);
    count_up(a, 40, 0);
    serve(&l, 0, 0, a, 37);
    set_tokens(&l.seq[1], 0, a, 40);
    assert_int_equal(start(&l, 1), 37);
    uint32_t page = kv_page(&l.kv, 1, 0, 2);
    assert_int_equal(prefix_evict(&l.tree, 0, 1), 0); /* the leaf goes, its page stays with the slot */
    check(&l);
    assert_int_equal(kv_holders(&l.kv, 0, page), 1);
    assert_int_equal(kv_need(&l.kv, 1, 3, 0), 0);
    run_to(&l, 1, 40);
    assert_int_equal(kv_page(&l.kv, 1, 0, 2), page);
    finish(&l, 1, true);
    assert_int_equal(matched(&l, 0, a, 40), 40);
    lab_close(&l);
}

/* Of 160 tokens only the last window is kept: hits end where it was marked, or within the first windows' length. */
static void a_lost_window_shortens_the_hit(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX];
    lab_open(&l, mixed, 3, 0, 10);
    count_up(a, 160, 0);
    set_tokens(&l.seq[0], 0, a, 160);
    start(&l, 0);
    run_to(&l, 0, 80);
    prefix_mark(&l.tree, &l.hold[0], 70);
    run_to(&l, 0, 160);
    finish(&l, 0, true);
    for (uint32_t n = 0; n <= 160; n++)
        assert_int_equal(matched(&l, 0, a, n), n);
    uint32_t freed[2] = {0};
    for (uint32_t g = 0; g < l.plan.n_group; g++)
        if (l.plan.group[g].window)
            for (uint32_t i = l.tree.window[g][0].oldest; i; i = l.tree.window[g][0].oldest)
                freed[l.plan.group[g].window == 40] += prefix_evict(&l.tree, g, 1);
    check(&l);
    assert_int_equal(freed[0], 4); /* window 32, hits in page 4 and in page 9: pages 2, 3, 4 and 7, 8, 9 are kept */
    assert_int_equal(freed[1], 2); /* window 40: pages 1 and 6 too */
    for (uint32_t n = 0; n <= 160; n++) {
        uint32_t want = n < 64 ? 0 : n <= 80 ? n : n < 144 ? 80 : n;
        assert_int_equal(matched(&l, 0, a, n), want);
        if (want != n)
            continue;
        set_tokens(&l.seq[1], 0, a, n + 1);
        assert_int_equal(start(&l, 1), n);
        look(&l, 1, n);
        finish(&l, 1, false);
    }
    lab_close(&l);
}

/* Two slots that compute the same text at once end up with one set of pages. */
static void equal_pages_become_one(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX];
    lab_open(&l, mixed, 3, 0, 2);
    count_up(a, 96, 0);
    for (uint32_t s = 0; s < 2; s++) {
        set_tokens(&l.seq[s], 0, a, 96);
        assert_int_equal(start(&l, s), 0);
    }
    for (uint32_t n = 10; n < 96; n += 10)
        for (uint32_t s = 0; s < 2; s++)
            run_to(&l, s, n);
    for (uint32_t g = 0; g < l.plan.n_group; g++)
        for (uint32_t i = 3; i < 5; i++) {
            assert_int_equal(kv_page(&l.kv, 0, g, i), kv_page(&l.kv, 1, g, i));
            assert_int_equal(kv_holders(&l.kv, g, kv_page(&l.kv, 0, g, i)), 3);
        }
    assert_int_equal(l.kv.group[l.tree.full].n_page - l.kv.group[l.tree.full].n_free, 7);
    finish(&l, 0, true);
    finish(&l, 1, true);
    assert_int_equal(l.kv.group[l.tree.full].n_page - l.kv.group[l.tree.full].n_free, 6);
    assert_int_equal(matched(&l, 0, a, 96), 90);
    lab_close(&l);
}

/* A window page that a node has lost comes back with the next sequence that computes it. */
static void lost_window_pages_are_filled_in(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX];
    lab_open(&l, mixed, 3, 0, 10);
    count_up(a, 96, 0);
    serve(&l, 0, 0, a, 96);
    for (uint32_t g = 0; g < l.plan.n_group; g++)
        if (l.plan.group[g].window)
            prefix_evict(&l.tree, g, UINT32_MAX);
    assert_int_equal(matched(&l, 0, a, 96), 0);
    assert_int_equal(serve(&l, 1, 0, a, 96), 0);
    for (uint32_t n = 0; n <= 96; n++)
        assert_int_equal(matched(&l, 0, a, n), n);
    assert_int_equal(l.tree.n_page[l.tree.full], 6);
    lab_close(&l);
}

static void partial_leaves_are_replaced(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX], b[CTX];
    lab_open(&l, mixed, 3, 0, 4);
    count_up(a, 64, 0);
    serve(&l, 0, 0, a, 20);
    assert_int_equal(l.tree.n_idle, 2);
    serve(&l, 0, 0, a, 18); /* the leaf of 4 tokens begins with these 2 */
    assert_int_equal(l.tree.n_idle, 2);
    serve(&l, 0, 0, a, 25); /* takes its place */
    assert_int_equal(l.tree.n_idle, 2);
    assert_int_equal(matched(&l, 0, a, 64), 25);
    memcpy(b, a, sizeof a);
    count_up(b + 22, 5, 900);
    serve(&l, 0, 0, b, 27); /* stands beside it */
    assert_int_equal(l.tree.n_idle, 3);
    serve(&l, 0, 0, a, 40); /* the whole page replaces the first, not the second */
    assert_int_equal(l.tree.n_idle, 4);
    assert_int_equal(matched(&l, 0, b, 27), 27);
    assert_int_equal(matched(&l, 0, a, 64), 40);
    lab_close(&l);
}

static void the_least_recent_leaf_goes_first(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX], b[CTX];
    lab_open(&l, full_only, 1, 0, 1);
    count_up(a, 64, 0);
    memcpy(b, a, sizeof a);
    count_up(b + 32, 32, 500);
    serve(&l, 0, 0, a, 64);
    serve(&l, 0, 0, b, 64);
    assert_int_equal(prefix_evict(&l.tree, 0, 1), 1);
    assert_int_equal(matched(&l, 0, a, 64), 48);
    assert_int_equal(matched(&l, 0, b, 64), 64);
    set_tokens(&l.seq[1], 0, a, 49);
    assert_int_equal(start(&l, 1), 48);
    assert_int_equal(prefix_evict(&l.tree, 0, 100), 2); /* both pages of b; those of a are held */
    assert_int_equal(l.tree.n_evicted, 3);
    assert_int_equal(l.tree.n_hit, 32 + 48);
    assert_int_equal(matched(&l, 0, b, 64), 32);
    assert_int_equal(matched(&l, 0, a, 64), 48);
    finish(&l, 1, false);
    assert_int_equal(prefix_evict(&l.tree, 0, 1), 1);
    assert_int_equal(matched(&l, 0, a, 64), 32);
    lab_close(&l);
}

/* A page that was used again is not the oldest any more: a leaf that a sequence began with, one that it ends within,
 * and the pages of a window. */
static void use_renews(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX], b[CTX];
    for (int ends = 0; ends < 2; ends++) {
        lab_open(&l, full_only, 1, 0, 1);
        count_up(a, 64, 0);
        count_up(b, 64, 500);
        set_tokens(&l.seq[1], 0, a, 20);
        if (ends) /* this one does not begin with what is cached later, but is found to be the beginning of it */
            start(&l, 1);
        serve(&l, 0, 0, a, 24);
        serve(&l, 0, 0, b, 24);
        if (!ends)
            assert_int_equal(start(&l, 1), 19);
        run_to(&l, 1, 20);
        finish(&l, 1, ends);
        assert_int_equal(prefix_evict(&l.tree, 0, 1), 1);
        assert_int_equal(matched(&l, 0, a, 24), 24);
        assert_int_equal(matched(&l, 0, b, 24), 16);
        lab_close(&l);
    }
    lab_open(&l, mixed, 3, 0, 4);
    count_up(a, 64, 0);
    count_up(b, 64, 500);
    serve(&l, 0, 0, a, 16);
    serve(&l, 0, 0, b, 16);
    set_tokens(&l.seq[0], 0, a, 17);
    assert_int_equal(start(&l, 0), 16);
    finish(&l, 0, false);
    prefix_evict(&l.tree, (uint32_t)!l.tree.full, 1);
    assert_int_equal(matched(&l, 0, a, 16), 16);
    assert_int_equal(matched(&l, 0, b, 16), 0);
    lab_close(&l);
}

/* A whole page whose windows have moved on does not replace a leaf that has its own. */
static void what_lacks_a_page_replaces_nothing(void **state)
{
    (void)state;
    struct lab l;
    struct glim_err e;
    int32_t a[CTX];
    lab_open(&l, mixed, 3, 0, 4);
    count_up(a, 120, 0);
    set_tokens(&l.seq[1], 0, a, 120);
    start(&l, 1);
    serve(&l, 0, 0, a, 20);
    while (l.kv.len[1] < 120) {
        ok(prefix_reserve(&l.tree, 1, 20, &e), &e);
        compute(&l, 1, 20);
    }
    finish(&l, 1, true);
    assert_int_equal(matched(&l, 0, a, 30), 20);
    assert_int_equal(matched(&l, 0, a, 120), 120);
    lab_close(&l);
}

/* A sequence that ends where it began: the page it adopted has a node, even one that is out of sight by now. */
static void an_adopted_page_gets_no_second_node(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX], b[CTX];
    lab_open(&l, mixed, 3, 0, 30);
    count_up(a, 24, 0);
    serve(&l, 0, 0, a, 24);
    set_tokens(&l.seq[1], 0, a, 21);
    assert_int_equal(start(&l, 1), 20);
    memcpy(b, a, sizeof a);
    for (int i = 0; i < 40; i++) {
        count_up(b + 16, 2, 100 * i + 100);
        serve(&l, 0, 0, b, 18);
    }
    assert_int_equal(l.tree.n_idle, 41);
    finish(&l, 1, true);
    assert_int_equal(l.tree.n_idle, 42); /* the page they all begin with */
    lab_close(&l);
}

static void reserving_evicts_no_more_than_it_must(void **state)
{
    (void)state;
    struct lab l;
    struct glim_err e;
    int32_t a[CTX];
    lab_open(&l, full_only, 1, 10 * KV_PAGE, 1);
    count_up(a, 128, 0);
    serve(&l, 0, 0, a, 128);
    ok(prefix_reserve(&l.tree, 1, 3 * KV_PAGE, &e), &e);
    assert_int_equal(matched(&l, 0, a, 128), 112);
    assert_int_equal(prefix_reserve(&l.tree, 2, 8 * KV_PAGE, &e), GLIM_REFUSED);
    check(&l);
    lab_close(&l);
}

static void identities_share_nothing(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX];
    lab_open(&l, mixed, 3, 0, 4);
    count_up(a, 64, 0);
    serve(&l, 0, 0, a, 64);
    assert_int_equal(matched(&l, 1, a, 64), 0);
    assert_int_equal(serve(&l, 1, 1, a, 64), 0);
    assert_int_equal(matched(&l, 1, a, 64), 64);
    assert_int_equal(l.tree.n_page[l.tree.full], 8);
    lab_close(&l);
}

/* A request that keeps out of the cache. */
static void without_a_hold_nothing_is_cached(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX];
    lab_open(&l, mixed, 3, 0, 4);
    count_up(a, 64, 0);
    set_tokens(&l.seq[0], 0, a, 64);
    l.hold[0] = (struct prefix_hold){0};
    run_to(&l, 0, 60);
    prefix_mark(&l.tree, &l.hold[0], 50);
    finish(&l, 0, true);
    assert_int_equal(matched(&l, 0, a, 64), 0);
    assert_int_equal(l.tree.n_node, l.tree.n_free);
    lab_close(&l);
}

static void a_match_says_what_admission_costs(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX];
    struct sha256 id = identity_of(0);
    struct prefix_match m;
    lab_open(&l, mixed, 3, 0, 4);
    count_up(a, 64, 0);
    serve(&l, 0, 0, a, 60);
    prefix_match(&l.tree, &id, a, 50, &m);
    assert_int_equal(m.n_token, 50);
    assert_int_equal(m.n_page, 3);
    assert_int_equal(m.n_pin, 3);
    set_tokens(&l.seq[0], 0, a, 33);
    start(&l, 0);
    assert_int_equal(l.tree.n_idle, 2);
    prefix_match(&l.tree, &id, a, 50, &m);
    assert_int_equal(m.n_page, 3);
    assert_int_equal(m.n_pin, 1);
    finish(&l, 0, false);
    assert_int_equal(l.tree.n_idle, 4);
    lab_close(&l);
}

static void reserving_takes_all_or_nothing(void **state)
{
    (void)state;
    struct lab l;
    struct glim_err e;
    lab_open(&l, mixed, 3, 3 * KV_PAGE, 1);
    ok(kv_reserve(&l.kv, 0, 20, &e), &e);
    assert_int_equal(kv_need(&l.kv, 1, 20, (uint32_t)l.tree.full), 2);
    assert_int_equal(kv_reserve(&l.kv, 1, 20, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "have 1 free pages, need 2"));
    for (uint32_t g = 0; g < l.plan.n_group; g++)
        assert_int_equal(kv_page(&l.kv, 1, g, 0), KV_NO_PAGE);
    check(&l);
    assert_int_equal(kv_reserve(&l.kv, 1, CTX + 1, &e), GLIM_REFUSED);
    kv_trim(&l.kv, 0, 0);
    lab_close(&l);
}

static void fresh_pages_are_poisoned(void **state)
{
    (void)state;
    struct lab l;
    struct glim_err e;
    int32_t a[CTX];
    uint64_t nan = UINT64_MAX;
    lab_open(&l, mixed, 3, 0, 1);
    count_up(a, 40, 0);
    for (int again = 0; again < 2; again++) {
        set_tokens(&l.seq[0], 0, a, 40);
        ok(kv_reserve(&l.kv, 0, 20, &e), &e);
        for (uint32_t i = 0; i < LAYERS; i++)
            for (uint32_t at = 0; at < 32; at++)
                for (int v = 0; v < 2; v++)
                    assert_memory_equal(cell(&l, i, v, 0, at), &nan, sizeof nan);
        compute(&l, 0, 20);
        finish(&l, 0, true);
    }
    lab_close(&l);
}

/* All layers slide: what bounds the tree is the number of its nodes. */
static void a_tree_without_full_layers_is_bounded(void **state)
{
    (void)state;
    struct lab l;
    int32_t a[CTX];
    lab_open(&l, sliding, 2, 8 * KV_PAGE, 2);
    assert_int_equal(l.tree.full, -1);
    for (int i = 0; i < 20; i++) {
        count_up(a, 100, 1000 * i);
        assert_int_equal(serve(&l, 0, 0, a, 100), 0);
        assert_int_equal(matched(&l, 0, a, 100), 100);
    }
    assert_true(l.tree.n_evicted > 0);
    set_tokens(&l.seq[0], 0, a, 101);
    assert_int_equal(start(&l, 0), 100);
    count_up(a, CTX, 77); /* more pages than there are nodes: the rest goes uncached, and is computed */
    set_tokens(&l.seq[1], 0, a, CTX);
    start(&l, 1);
    run_to(&l, 1, CTX);
    finish(&l, 1, true);
    run_to(&l, 0, 101);
    lab_close(&l);
}

static void the_check_sees_what_is_wrong(void **state)
{
    (void)state;
    struct lab l;
    struct glim_err e;
    int32_t a[CTX];
    lab_open(&l, mixed, 3, 0, 1);
    count_up(a, 64, 0);
    set_tokens(&l.seq[0], 0, a, 64);
    start(&l, 0);
    run_to(&l, 0, 50);
    uint32_t g = (uint32_t)l.tree.full, page = kv_page(&l.kv, 0, g, 0), own = kv_page(&l.kv, 0, g, 3);
    kv_hold(&l.kv, g, page);
    assert_int_equal(prefix_check(&l.tree, l.hold, SLOTS, &e), GLIM_FAILED);
    assert_non_null(strstr(e.message, "have 3 holders, need 2"));
    kv_drop(&l.kv, g, page);
    check(&l);
    kv_drop(&l.kv, g, own);
    assert_int_equal(prefix_check(&l.tree, l.hold, SLOTS, &e), GLIM_FAILED);
    kv_hold(&l.kv, g, own);
    l.kv.group[g].n_free--;
    check(&l);
    assert_int_equal(prefix_check(&l.tree, l.hold, 0, &e), GLIM_FAILED); /* a hold that it does not know of */
    assert_non_null(strstr(e.message, "pins"));
    l.tree.n_page[g]++;
    assert_int_equal(prefix_check(&l.tree, l.hold, SLOTS, &e), GLIM_FAILED);
    l.tree.n_page[g]--;
    assert_int_equal(kv_check(&l.kv, NULL, &e), GLIM_FAILED);
    lab_close(&l);
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    struct lab l;
    struct glim_err e;
    int32_t a[CTX];
    lab_open(&l, mixed, 3, 12 * KV_PAGE, 1);
    long before = mem_count();
    for (int i = 0; i < 9; i++) {
        count_up(a, 90, i % 4 * 100);
        set_tokens(&l.seq[0], 0, a, 90);
        start(&l, 0);
        while (l.kv.len[0] < 90) {
            ok(prefix_reserve(&l.tree, 0, 1, &e), &e);
            compute(&l, 0, 1);
            prefix_extend(&l.tree, &l.hold[0], 0, a);
        }
        prefix_finish(&l.tree, &l.hold[0], 0, a, true);
    }
    assert_int_equal(mem_count(), before);
    assert_true(l.tree.n_evicted > 0);
    lab_close(&l);
}

static bool create(const struct plan *plan, const struct kv_shape *shape, long n_fail)
{
    struct glim_err e = {0};
    struct kv kv;
    struct prefix tree = {0};
    mem_fail_after(n_fail);
    glim_status st = kv_create(&kv, plan, &pages_only, shape, &e);
    if (st == GLIM_OK) {
        st = prefix_create(&tree, &kv, shape, &e);
        mem_fail_after(0);
        if (st == GLIM_OK)
            prefix_fini(&tree);
        kv_fini(&kv);
    }
    mem_fail_after(0);
    assert_true(st == GLIM_OK || e.message[0]);
    return st == GLIM_OK;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct plan plan;
    make_plan(&plan, mixed, 3);
    struct kv_shape shape = {.n_slot = SLOTS, .n_ctx = CTX, .max_rows = ROWS, .n_window = 1};
    long n = 1;
    while (!create(&plan, &shape, n))
        n++;
    assert_true(n > 15);
    plan_fini(&plan);
}

/* The memory plan has what is taken. */
static void memory_is_planned(void **state)
{
    (void)state;
    struct lab l;
    struct glim_err e;
    struct mem_plan mp = {0};
    lab_open(&l, mixed, 3, 20 * KV_PAGE, 3);
    ok(kv_plan(&l.plan, &pages_only, &l.shape, &mp, &e), &e);
    ok(prefix_plan(&l.shape, &mp, &e), &e);
    assert_int_equal(mem_plan_kind(&mp, MEM_KV), l.kv.arena.size);
    assert_true(mem_plan_kind(&mp, MEM_TABLES) > 0);
    assert_int_equal(l.kv.group[l.tree.full].n_page, 20);
    for (uint32_t g = 0; g < l.plan.n_group; g++) {
        uint32_t w = l.plan.group[g].window;
        if (w) /* the window, the rows, and a page at each end for a slot; then the windows */
            assert_int_equal(l.kv.group[g].n_page,
                             SLOTS * ((w + ROWS + 15) / KV_PAGE + 2) + 3 * ((w + 15) / KV_PAGE + 1));
    }
    mem_plan_free(&mp);
    l.shape.n_token = UINT64_MAX;
    assert_int_equal(prefix_plan(&l.shape, &mp, &e), GLIM_REFUSED);
    lab_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_have_any_length),
        cmocka_unit_test(shared_pages_are_copied_before_a_write),
        cmocka_unit_test(the_last_holder_writes_in_place),
        cmocka_unit_test(a_lost_window_shortens_the_hit),
        cmocka_unit_test(equal_pages_become_one),
        cmocka_unit_test(lost_window_pages_are_filled_in),
        cmocka_unit_test(partial_leaves_are_replaced),
        cmocka_unit_test(the_least_recent_leaf_goes_first),
        cmocka_unit_test(use_renews),
        cmocka_unit_test(what_lacks_a_page_replaces_nothing),
        cmocka_unit_test(an_adopted_page_gets_no_second_node),
        cmocka_unit_test(reserving_evicts_no_more_than_it_must),
        cmocka_unit_test(identities_share_nothing),
        cmocka_unit_test(without_a_hold_nothing_is_cached),
        cmocka_unit_test(a_match_says_what_admission_costs),
        cmocka_unit_test(reserving_takes_all_or_nothing),
        cmocka_unit_test(fresh_pages_are_poisoned),
        cmocka_unit_test(a_tree_without_full_layers_is_bounded),
        cmocka_unit_test(the_check_sees_what_is_wrong),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(memory_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
