/* A scheduler with caches of a small plan, the sequences it serves, and a model that is none.
 *
 * A "forward" writes into each position's place in its page what a real one would depend on: a hash of all tokens up to
 * it. Before it writes it looks at every position its rows see. The next token is a function of that hash, so that
 * answers with common beginnings go on alike for a while. Time is a sum over rows. What every step must keep to is
 * asserted in every step: see admit, check_rows, check_order and plan. */
#ifndef GLIM_TEST_SCHED_WORLD_H
#define GLIM_TEST_SCHED_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "run/sched.h"

#include <string.h>

enum {
    MOST = 2048, /* tokens of a sequence */
    LIVE = 32,   /* sequences that wait or run */
    SLOTS = 12,  /* at most */
    DRAFTS = 6,
    PRIORITIES = 4,
    PASS = 8 /* the scheduler's */
};

struct answer {
    struct sched_seq s; /* first */
    bool on, ran;
    uint32_t n_prompt, salt;
    bool logprobs; /* of its prompt, of which done_rows are taken */
    uint32_t done_rows;
    uint32_t passed; /* as the scheduler should count */
    uint64_t arrived, admitted;
    int32_t token[MOST];
    uint64_t want[MOST]; /* content of each position */
    int32_t draft[DRAFTS];
};

struct setup {
    uint32_t window[3], n_window; /* layers take them in turn */
    uint32_t n_seq, n_ctx, n_page, n_more;
    uint32_t max_rows, max_logits, slot_rows;
    bool overcommit;
    double step_s;
};

struct world {
    struct setup as;
    struct plan plan;
    struct kv kv;
    struct prefix tree;
    struct sched sched;
    struct answer answer[LIVE];
    uint64_t random, step;
    double fixed_s, decode_s, prefill_s; /* what a forward, and a row of it, takes */
    /* a random walk */
    uint32_t vocab;
    bool cache;
    bool lively; /* answers end early, and have tokens that are known without logits */
    /* what the last step did */
    uint32_t rows, decode, prefill;
    double seconds;
    struct {
        uint64_t rows, admitted, ended, cancelled, cached, wrong, right, forced, preempted, failed, longest_wait,
            longest_life;
        uint32_t most_passed;
    } seen;
};

static size_t page_bytes(enum kv_type t, uint32_t n_kv_head, uint32_t head_dim)
{
    (void)t, (void)n_kv_head, (void)head_dim;
    return KV_PAGE * sizeof(uint64_t);
}
static const struct backend pages_only = {.kv_page_bytes = page_bytes};
static const struct sha256 identity = {{1, 2, 3}};

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

static struct kv_shape shape_of(const struct setup *as)
{
    return (struct kv_shape){.n_slot = as->n_seq,
                             .n_ctx = as->n_ctx,
                             .max_rows = as->slot_rows,
                             .n_token = (uint64_t)as->n_page * KV_PAGE,
                             .n_window = as->n_more,
                             .poison = true};
}

static struct sched_limits limits_of(const struct setup *as)
{
    return (struct sched_limits){.n_seq = as->n_seq,
                                 .max_rows = as->max_rows,
                                 .max_logits = as->max_logits,
                                 .slot_rows = as->slot_rows,
                                 .overcommit = as->overcommit,
                                 .step_s = as->step_s};
}

static void make_plan(struct plan *p, const struct setup *as)
{
    struct glim_err e;
    ok(plan_init(p, as->n_window, &e), &e);
    for (uint32_t i = 0; i < as->n_window; i++)
        ok(plan_group(p, as->window[i], &p->layer[i].attn.kv_group, &e), &e);
}

/* One at a time: it is large. */
static struct world *world_open(const struct setup *as)
{
    static struct world w;
    struct glim_err e;
    struct kv_shape shape = shape_of(as);
    struct sched_limits limits = limits_of(as);
    memset(&w, 0, sizeof w);
    w.as = *as;
    w.vocab = 1000;
    w.cache = true;
    w.fixed_s = 2e-3;
    w.decode_s = 0.5e-3;
    w.prefill_s = 0.25e-3;
    make_plan(&w.plan, as);
    ok(kv_create(&w.kv, &w.plan, &pages_only, &shape, &e), &e);
    ok(prefix_create(&w.tree, &w.kv, &shape, &e), &e);
    ok(sched_create(&w.sched, &w.kv, &w.tree, &identity, &limits, &e), &e);
    return &w;
}

static void check(const struct world *w)
{
    struct glim_err e;
    ok(sched_check(&w->sched, &e), &e);
}

/* All have left: every page is free or idle in the tree; without the tree's, every page is free. */
static void world_close(struct world *w)
{
    check(w);
    assert_int_equal(w->sched.n_run + w->sched.n_waiting, 0);
    for (uint32_t g = 0; g < w->plan.n_group; g++) {
        uint32_t in_tree = (int)g == w->tree.full ? w->tree.n_idle : w->tree.n_page[g];
        assert_int_equal(w->kv.group[g].n_free + in_tree, w->kv.group[g].n_page);
    }
    for (uint32_t g = 0; g < w->plan.n_group; g++)
        prefix_evict(&w->tree, g, UINT32_MAX);
    for (uint32_t g = 0; g < w->plan.n_group; g++)
        assert_int_equal(w->kv.group[g].n_free, w->kv.group[g].n_page);
    assert_int_equal(prefix_bytes(&w->tree), 0);
    if (w->tree.full >= 0)
        assert_int_equal(w->tree.n_free, w->tree.n_node);
    check(w);
    sched_fini(&w->sched);
    prefix_fini(&w->tree);
    kv_fini(&w->kv);
    plan_fini(&w->plan);
}

static uint32_t draw(struct world *w, uint32_t below)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((w->random >> 33) % below);
}

/* ---- sequences ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static void append(struct answer *q, int32_t token)
{
    uint32_t n = q->s.n++;
    q->want[n] = mix(n ? q->want[n - 1] : 1, (uint64_t)token + 1);
    q->token[n] = token;
}

/* What the engine says about a sequence that is going to wait: the rows of its prompt whose logits it has are not
 * needed again, the others must be computed. */
static void declare(struct answer *q)
{
    bool rows = q->logprobs && q->done_rows + 1 < q->n_prompt;
    q->s.n_reuse = rows ? q->done_rows : q->s.n - 1;
    q->s.all_logits = rows;
}

static struct answer *free_answer(struct world *w)
{
    for (uint32_t i = 0; i < LIVE; i++)
        if (!w->answer[i].on)
            return &w->answer[i];
    return NULL;
}

/* A sequence whose prompt has n tokens, the first of them as given; it will have n_new more. */
static struct answer *invent(struct world *w, const int32_t *like, uint32_t n_like, uint32_t n, uint32_t n_new)
{
    struct answer *q = free_answer(w);
    struct glim_err e;
    assert_non_null(q);
    q->s = (struct sched_seq){.token = q->token, .n_most = n + n_new, .cache = w->cache};
    q->on = true;
    q->ran = false;
    q->n_prompt = n;
    q->salt = 0;
    q->logprobs = false;
    q->done_rows = q->passed = 0;
    q->arrived = w->step;
    while (q->s.n < n)
        append(q, q->s.n < n_like ? like[q->s.n] : (int32_t)draw(w, w->vocab));
    ok(sched_fits(&w->sched, q->s.n_most, &e), &e);
    return q;
}

static void submit(struct world *w, struct answer *q)
{
    declare(q);
    sched_queue(&w->sched, &q->s, false);
}

static void leave(struct world *w, struct answer *q, bool keep)
{
    uint64_t life = w->step - q->arrived;
    w->seen.longest_life = life > w->seen.longest_life ? life : w->seen.longest_life;
    sched_leave(&w->sched, &q->s, keep);
    assert_int_equal(q->s.state, SCHED_OUT);
    q->on = false;
}

/* ---- what the model says ---- */

static uint64_t said(const struct answer *q)
{
    return mix(q->want[q->s.n - 1], q->salt);
}

static int32_t next_token(const struct world *w, uint64_t said)
{
    return (int32_t)((said >> 40) % w->vocab);
}

static bool is_over(const struct world *w, const struct answer *q)
{
    return q->s.n == q->s.n_most || (w->lively && q->s.n > q->n_prompt && said(q) % 64 == 0);
}

/* A grammar would leave nothing else: the token is known without logits. */
static bool is_forced(const struct world *w, const struct answer *q)
{
    return w->lively && said(q) % 3 == 0;
}

/* Up to n guesses, of which the first are right. Returns how many. */
static uint32_t guess(struct world *w, struct answer *q, uint32_t n)
{
    uint32_t left = q->s.n_most - q->s.n - 1, right = draw(w, n + 1); /* the last token is never computed */
    uint64_t h = q->want[q->s.n - 1];
    n = n < left ? n : left;
    for (uint32_t i = 0; i < n; i++) {
        int32_t token = next_token(w, mix(h, q->salt));
        q->draft[i] = i == right ? token + 1 : token;
        h = mix(h, (uint64_t)token + 1);
    }
    return n;
}

/* ---- the forward that is not one ---- */

static uint64_t *cell(const struct world *w, uint32_t layer, bool v, uint32_t slot, uint32_t pos)
{
    struct page_map map = kv_map(&w->kv, w->plan.layer[layer].attn.kv_group);
    const struct kv_layer *k = &w->kv.layer[layer];
    char *page = (char *)(v ? k->v : k->k) + map.page[slot * map.stride + pos / KV_PAGE] * k->page_bytes;
    return (uint64_t *)page + pos % KV_PAGE;
}

/* What rows from pos to end see of earlier ones is what the sequence has. */
static void look(const struct world *w, const struct answer *q, uint32_t pos)
{
    for (uint32_t i = 0; i < w->plan.n_layer; i++) {
        uint32_t window = w->plan.group[w->plan.layer[i].attn.kv_group].window;
        for (uint32_t at = window && pos >= window ? pos - window + 1 : 0; at < pos; at++)
            for (int v = 0; v < 2; v++)
                if (*cell(w, i, v, q->s.slot, at) != mix(q->want[at], 2 * i + (uint32_t)v))
                    fail_msg("slot %u, layer %u: position %u has other content (row at %u)", q->s.slot, i, at, pos);
    }
}

/* A row goes into a page that nobody else holds. */
static void write(const struct world *w, const struct answer *q, uint32_t pos, uint64_t h)
{
    for (uint32_t i = 0; i < w->plan.n_layer; i++) {
        uint32_t group = (uint32_t)w->plan.layer[i].attn.kv_group;
        uint32_t page = kv_page(&w->kv, q->s.slot, group, pos / KV_PAGE);
        if (page == KV_NO_PAGE || kv_holders(&w->kv, group, page) != 1)
            fail_msg("slot %u, layer %u: position %u: have no page or a shared one, need one to write", q->s.slot, i,
                     pos);
        for (int v = 0; v < 2; v++)
            *cell(w, i, v, q->s.slot, pos) = mix(h, 2 * i + (uint32_t)v);
    }
}

static void compute(struct world *w, struct answer *q)
{
    uint32_t pos = w->kv.len[q->s.slot], known = q->s.rows - q->s.drafts;
    look(w, q, pos);
    for (uint32_t i = 0; i < known; i++)
        write(w, q, pos + i, q->want[pos + i]);
    look(w, q, pos + known - 1);
    uint64_t h = q->want[pos + known - 1];
    for (uint32_t i = 0; i < q->s.drafts; i++) {
        h = mix(h, (uint64_t)q->draft[i] + 1);
        write(w, q, pos + known + i, h);
    }
}

/* ---- after it ---- */

/* As the engine does: draw from the row after the whole prefix; where a draft guessed right, from the row behind it;
 * tokens that are the only ones need no row. Returns how many drafts were right. */
static uint32_t answer_more(struct world *w, struct answer *q)
{
    uint32_t right = 0;
    for (bool row = true; !is_over(w, q) && (row || is_forced(w, q));) {
        w->seen.forced += !row;
        append(q, next_token(w, said(q)));
        row = row && right < q->s.drafts && q->draft[right] == q->token[q->s.n - 1];
        right += row;
    }
    return right;
}

static void after(struct world *w, struct answer *q)
{
    uint32_t pos = w->kv.len[q->s.slot], drafts = q->s.drafts, end = pos + q->s.rows - drafts, right = 0;
    for (uint32_t i = pos; q->s.all_logits && i < end && i + 1 < q->n_prompt; i++)
        q->done_rows += i == q->done_rows;
    if (end == q->s.n)
        right = answer_more(w, q);
    sched_advance(&w->sched, &q->s, drafts - right);
    assert_int_equal(w->kv.len[q->s.slot], end + right);
    w->seen.right += right;
    w->seen.wrong += drafts - right;
    if (end >= q->n_prompt) {
        assert_true(!q->logprobs || q->done_rows == q->n_prompt - 1);
        q->s.all_logits = false;
    }
    if (!is_over(w, q) || w->kv.len[q->s.slot] < q->n_prompt)
        return;
    look(w, q, w->kv.len[q->s.slot]);
    leave(w, q, true);
    w->seen.ended++;
}

/* ---- a step ---- */

static uint32_t pages(uint32_t n_token)
{
    return (n_token + KV_PAGE - 1) / KV_PAGE;
}

/* Whose turn it is: the highest priority, where being passed over PASS times counts one; then the first to come. */
static struct answer *expected(struct world *w)
{
    struct answer *best = NULL;
    int64_t most = 0;
    for (uint32_t i = 0; i < LIVE; i++) {
        struct answer *q = &w->answer[i];
        int64_t rank = (int64_t)q->s.priority + q->passed / PASS;
        if (q->on && q->s.state == SCHED_WAITING &&
            (!best || rank > most || (rank == most && q->s.order < best->s.order))) {
            best = q;
            most = rank;
        }
    }
    return best;
}

/* Pages for all that run and for q, where nobody shares any. */
static uint32_t naive_need(const struct world *w, const struct answer *q)
{
    uint32_t n = pages(q->s.n_most);
    for (uint32_t i = 0; i < w->sched.n_run; i++)
        n += pages(w->sched.run[i]->n_most);
    return n;
}

static void admitted(struct world *w, struct answer *q)
{
    uint64_t wait = w->step - q->arrived;
    assert_int_equal(q->s.state, SCHED_RUNNING);
    assert_int_equal(q->s.n_cached, w->kv.len[q->s.slot]);
    assert_true(q->s.n_cached <= q->s.n_reuse && q->s.n_reuse < q->s.n);
    for (uint32_t i = 0; i < w->sched.n_run; i++)
        assert_true(w->sched.run[i] == &q->s || w->sched.run[i]->slot != q->s.slot);
    look(w, q, q->s.n_cached);
    for (uint32_t i = 0; i < LIVE; i++)
        if (w->answer[i].on && w->answer[i].s.state == SCHED_WAITING)
            w->answer[i].passed += w->answer[i].s.order < q->s.order;
    w->seen.admitted++;
    w->seen.cached += q->s.n_cached;
    w->seen.most_passed = q->passed > w->seen.most_passed ? q->passed : w->seen.most_passed;
    if (q->ran)
        return;
    q->ran = true;
    q->admitted = w->step;
    w->seen.longest_wait = wait > w->seen.longest_wait ? wait : w->seen.longest_wait;
}

static void admit(struct world *w)
{
    for (;;) {
        struct answer *first = expected(w), *q = (struct answer *)sched_admit(&w->sched);
        if (q) {
            assert_ptr_equal(q, first);
            admitted(w, q);
            continue;
        }
        if (first && w->sched.n_slot) /* then there is no room, also not for an allocator that knows no sharing */
            assert_true(w->tree.full >= 0 && naive_need(w, first) > w->kv.group[w->tree.full].n_page);
        return;
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* One that runs, what is planned for it, and that it is within what it may have. Returns the rows of logits. */
static uint32_t check_rows(const struct world *w, const struct answer *q)
{
    uint32_t len = w->kv.len[q->s.slot], known = q->s.rows - q->s.drafts;
    assert_true(q->s.rows <= w->as.slot_rows && len + q->s.rows <= q->s.n_most && len + known <= q->s.n);
    if (sched_prefills(&w->sched, &q->s)) {
        assert_true(q->s.drafts == 0 && len + known <= q->s.start);
    } else {
        assert_true(known > 0 && q->s.drafts <= q->s.n_draft);
        assert_true(q->s.drafts == 0 || len + known == q->s.n);
    }
    return q->s.all_logits ? q->s.rows : q->s.drafts + (known > 0 && len + known == q->s.n);
}

/* Who writes comes before prompts: beyond a row for each of these, they get what those have left. */
static void check_order(const struct world *w)
{
    const struct answer *oldest = NULL;
    uint32_t n_prompt = 0, lack = 0;
    for (uint32_t i = 0; i < w->sched.n_run; i++) {
        const struct answer *q = (struct answer *)w->sched.run[i];
        if (sched_prefills(&w->sched, &q->s)) {
            n_prompt++;
            oldest = !oldest || q->s.order < oldest->s.order ? q : oldest;
        } else {
            uint32_t want = least(q->s.n - w->kv.len[q->s.slot], w->as.slot_rows);
            lack += want - (q->s.rows - q->s.drafts);
        }
    }
    assert_true(lack == 0 || w->prefill <= n_prompt);
    /* the prompt that came first always gets on, unless somebody gave way after the rows were given out */
    assert_true(!oldest || oldest->s.rows > 0 || w->seen.preempted < w->sched.n_preempted);
}

static void plan(struct world *w)
{
    uint32_t rows = sched_plan(&w->sched), logits = 0;
    w->rows = w->decode = w->prefill = 0;
    for (uint32_t i = 0; i < w->sched.n_run; i++) {
        const struct answer *q = (struct answer *)w->sched.run[i];
        assert_int_equal(q->s.state, SCHED_RUNNING);
        logits += check_rows(w, q);
        *(sched_prefills(&w->sched, &q->s) ? &w->prefill : &w->decode) += q->s.rows;
    }
    w->rows = w->prefill + w->decode;
    assert_int_equal(rows, w->rows);
    assert_true(rows <= w->as.max_rows && logits <= w->as.max_logits);
    check_order(w);
    for (uint32_t i = 0; i < LIVE && w->sched.n_preempted > w->seen.preempted; i++)
        if (w->answer[i].on && w->answer[i].s.state == SCHED_WAITING)
            declare(&w->answer[i]);
    assert_true(w->as.overcommit || w->sched.n_preempted == 0);
    /* nothing to do: nobody is there, or who was there has just given way */
    assert_true(rows > 0 || w->sched.n_run + w->sched.n_waiting == 0 || w->sched.n_preempted > w->seen.preempted);
    w->seen.preempted = w->sched.n_preempted;
    w->seen.rows += rows;
}

static void step(struct world *w)
{
    struct answer *in[SLOTS];
    uint32_t n = 0;
    admit(w);
    plan(w);
    for (uint32_t i = 0; i < w->sched.n_run; i++)
        if (w->sched.run[i]->rows) {
            in[n] = (struct answer *)w->sched.run[i];
            compute(w, in[n++]);
        }
    w->seconds = w->fixed_s + w->decode * w->decode_s + w->prefill * w->prefill_s;
    if (w->rows)
        sched_measure(&w->sched, w->seconds);
    bool failed = w->lively && draw(w, 500) == 0; /* the device gave up: none of these can go on */
    w->seen.failed += failed ? n : 0;
    for (uint32_t i = 0; i < n; i++)
        if (failed)
            leave(w, in[i], false);
        else
            after(w, in[i]);
    w->step++;
}

/* ---- load ---- */

/* Begins like one that is there or was, mostly. */
static void arrive(struct world *w)
{
    const struct answer *like = &w->answer[draw(w, LIVE)];
    uint32_t most = least(w->as.n_ctx, w->as.n_page * KV_PAGE), n = 1 + draw(w, most - 1);
    uint32_t n_like = draw(w, 4) ? draw(w, like->s.n + 1) : 0;
    if (draw(w, 3) == 0 && n > 20) /* short ones beside long ones */
        n = 1 + draw(w, 20);
    else if (n_like > 0 && draw(w, 2))
        n = least(n_like, most - 1); /* the same once more, or another answer */
    struct answer *q = invent(w, like->token, n_like, n, 1 + draw(w, least(most - n, 60)));
    q->salt = draw(w, 2);
    q->s.priority = draw(w, 2) ? 0 : (int32_t)draw(w, PRIORITIES);
    q->s.cache = w->cache && draw(w, 16) > 0;
    q->s.turn = draw(w, 2) ? draw(w, n + 1) : 0;
    q->logprobs = draw(w, 8) == 0;
    submit(w, q);
}

static void cancel(struct world *w)
{
    struct answer *q = &w->answer[draw(w, LIVE)];
    if (!q->on)
        return;
    leave(w, q, draw(w, 2));
    w->seen.cancelled++;
}

/* Guesses for half of those that write. */
static void propose(struct world *w)
{
    for (uint32_t i = 0; i < w->sched.n_run; i++) {
        struct answer *q = (struct answer *)w->sched.run[i];
        if (w->kv.len[q->s.slot] + 1 == q->s.n && q->s.n > q->s.start && draw(w, 2))
            q->s.n_draft = guess(w, q, 1 + draw(w, DRAFTS));
    }
}

static void disturb(struct world *w, uint32_t load)
{
    uint32_t what = draw(w, 1000);
    if (what < load)
        for (uint32_t i = 0, n = 1 + draw(w, 8); i < n && free_answer(w); i++)
            arrive(w);
    else if (what < load + 40)
        cancel(w);
    else if (what < load + 60)
        prefix_evict(&w->tree, draw(w, w->plan.n_group), 1 + draw(w, 5));
    propose(w);
}

static const struct setup mixed = {.window = {0, 20, 48},
                                   .n_window = 3,
                                   .n_seq = 6,
                                   .n_ctx = 160,
                                   .n_page = 24,
                                   .n_more = 2,
                                   .max_rows = 32,
                                   .max_logits = 16,
                                   .slot_rows = 16,
                                   .step_s = 8e-3};

#endif
