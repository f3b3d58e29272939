/* If these fail, guesses are made up instead of taken from the text, reach beyond the context, cost more with every
 * token of a long conversation, or go on being made where none is ever right. */
#include "base/hash.h"
#include "base/mem.h"
#include "run/drafter.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <string.h>
#include <time.h>

enum { N_CTX = 4096, ASK = 40 };

static const struct drafter_kind *const kind = &drafter_ngram;

static struct drafter *make(uint32_t n_ctx)
{
    struct drafter *d;
    struct glim_err e;
    if (kind->create(&d, n_ctx, &e) != GLIM_OK)
        fail_msg("%s", e.message);
    assert_ptr_equal(d->kind, kind);
    return d;
}

/* Tell it that everything was right, so that it proposes as much as it is asked for. */
static void encourage(struct drafter *d)
{
    for (uint32_t i = 0; i < 20; i++)
        kind->result(d, ASK, ASK);
}

static void expect(struct drafter *d, const int32_t *prefix, size_t n, const int32_t *want, uint32_t n_want)
{
    int32_t out[ASK + 1];
    memset(out, 0x5A, sizeof out);
    assert_int_equal(kind->propose(d, prefix, n, ASK, out), n_want > 0 ? ASK : 0);
    assert_memory_equal(out, want, n_want * sizeof *want);
    assert_int_equal(out[ASK], 0x5A5A5A5A);
}

/* ---- what is proposed ---- */

static void what_followed_the_last_occurrence(void **state)
{
    (void)state;
    struct drafter *d = make(N_CTX);
    encourage(d);
    const int32_t never[] = {1, 2, 3, 4, 5, 6};
    expect(d, never, 6, NULL, 0);
    expect(d, never, 0, NULL, 0);
    kind->reset(d);
    encourage(d);
    /* 1 2 3 occurs twice, last before 20; then what came after, and on into the guess itself */
    const int32_t twice[] = {1, 2, 3, 10, 11, 1, 2, 3, 20, 21, 22, 1, 2, 3};
    expect(d, twice, 14, (const int32_t[]){20, 21, 22, 1, 2, 3, 20, 21, 22, 1}, 10);
    kind->reset(d);
    encourage(d);
    /* three tokens win over two, though the two occurred later */
    const int32_t longer[] = {7, 1, 2, 30, 8, 1, 2, 40, 7, 1, 2};
    expect(d, longer, 11, (const int32_t[]){30, 8, 1, 2, 40, 7}, 6);
    kind->reset(d);
    encourage(d);
    const int32_t two[] = {7, 1, 2, 30, 9, 1, 2};
    expect(d, two, 7, (const int32_t[]){30, 9, 1, 2, 30, 9}, 6);
    kind->reset(d);
    encourage(d);
    const int32_t one[] = {7, 1, 30, 9, 1}; /* one token is not enough */
    expect(d, one, 5, NULL, 0);
    kind->reset(d);
    encourage(d);
    const int32_t same[] = {5, 5, 5, 5, 5};
    expect(d, same, 2, NULL, 0);
    expect(d, same, 3, (const int32_t[]){5, 5, 5, 5, 5, 5, 5}, 7);
    expect(d, same, 5, (const int32_t[]){5, 5, 5, 5, 5, 5, 5}, 7);
    kind->free(d);
}

/* The plain form: look backwards from the end. 0: nothing. */
static uint32_t naive(const int32_t *prefix, uint32_t n)
{
    for (uint32_t len = 3; len >= 2; len--)
        for (uint32_t at = n; at-- > 0;)
            if (at + len < n && memcmp(prefix + at, prefix + n - len, len * sizeof *prefix) == 0)
                return at + len;
    return 0;
}

static uint32_t draw(uint64_t *x, uint32_t n)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*x >> 33) % n;
}

static void check_all(struct drafter *d, const int32_t *prefix, uint32_t n)
{
    int32_t out[ASK];
    uint32_t from = naive(prefix, n), got = kind->propose(d, prefix, n, ASK, out);
    assert_int_equal(got, from ? (N_CTX - n < ASK ? N_CTX - n : ASK) : 0);
    for (uint32_t i = 0; i < got; i++)
        assert_int_equal(out[i], from + i < n ? prefix[from + i] : out[from + i - n]);
}

/* Any growth, by one token or many, cut back, replaced: always what a search through the whole prefix says. */
static void equals_a_search(void **state)
{
    (void)state;
    static int32_t prefix[N_CTX];
    uint64_t x = 3;
    struct drafter *d = make(N_CTX);
    for (uint32_t trial = 0; trial < 40; trial++) {
        uint32_t n = 0, words = 3 + draw(&x, 30) * draw(&x, 30);
        kind->reset(d);
        encourage(d);
        for (uint32_t step = 0; step < 300; step++) {
            uint32_t what = draw(&x, 20), old = n, more = 1 + draw(&x, what == 0 ? 200 : 3);
            if (what == 1 || what == 2)
                n = n > 0 ? draw(&x, n) : 0; /* cut back, and on from there */
            if (what == 3)
                n = 0; /* another text */
            if ((what == 2 || what == 3) && words > 30)
                more = old - n + draw(&x, 3) + (old == 0); /* at least as long as before: the tail tells */
            for (; more > 0 && n < N_CTX; more--)
                prefix[n++] = (int32_t)draw(&x, words) - 1;
            check_all(d, prefix, n);
        }
    }
    kind->free(d);
}

static void stays_in_range(void **state)
{
    (void)state;
    int32_t prefix[64], out[64];
    for (uint32_t i = 0; i < 64; i++)
        prefix[i] = (int32_t)(i % 3);
    struct drafter *d = make(50);
    for (uint32_t n = 0; n <= 64; n++)
        for (uint32_t max = 0; max < 14; max++) {
            encourage(d);
            memset(out, 0x5A, sizeof out);
            uint32_t got = kind->propose(d, prefix, n, max, out);
            assert_true(got <= max && (n > 50 ? got == 0 : n + got <= 50));
            if (n >= 6 && n <= 50)
                assert_int_equal(got, max < 50 - n ? max : 50 - n);
            assert_int_equal(out[got], 0x5A5A5A5A);
        }
    kind->free(d);
    d = make(0);
    assert_int_equal(kind->propose(d, prefix, 0, 5, out), 0);
    assert_int_equal(kind->propose(d, prefix, 1, 5, out), 0);
    kind->free(d);
    kind->free(NULL);
}

/* Where tokens far back change and the length stays, a guess may be an older occurrence but is still one. */
static void a_replaced_beginning_gives_no_made_up_guess(void **state)
{
    (void)state;
    static int32_t prefix[1000];
    uint64_t x = 9;
    struct drafter *d = make(N_CTX);
    for (uint32_t trial = 0; trial < 200; trial++) {
        for (uint32_t i = 0; i < 990; i++) /* the last ten stay */
            prefix[i] = (int32_t)draw(&x, 12);
        int32_t out[ASK];
        encourage(d);
        uint32_t got = kind->propose(d, prefix, 1000, ASK, out);
        bool real = got == 0;
        for (uint32_t at = 2; at < 1000 && !real; at++) {
            real = memcmp(prefix + at - 2, prefix + 998, 2 * sizeof *prefix) == 0;
            for (uint32_t i = 0; i < got && real; i++)
                real = out[i] == (at + i < 1000 ? prefix[at + i] : out[at + i - 1000]);
        }
        assert_true(real);
    }
    kind->free(d);
}

/* A text made so that all its runs of three tokens want one place: old ones are forgotten, none is mixed up. */
static void collisions(void **state)
{
    (void)state;
    enum { N = 120, SLOTS = 256 };
    int32_t prefix[N] = {1, 2}, out[ASK];
    struct drafter *d = make(SLOTS / 2);
    for (uint32_t n = 2; n < N - 10; n++)
        for (prefix[n] = 0; (xxh3(prefix + n - 2, 3 * sizeof *prefix) & (SLOTS - 1)) != 7;)
            prefix[n]++;
    memcpy(prefix + N - 10, prefix + 60, 10 * sizeof *prefix);
    uint32_t found = 0;
    for (uint32_t n = 1; n < N; n++) {
        encourage(d);
        uint32_t got = kind->propose(d, prefix, n, 1, out), at = 2;
        while (at < n && (out[0] != prefix[at] || memcmp(prefix + at - 2, prefix + n - 2, 2 * sizeof *prefix) != 0))
            at++;
        assert_true(got == 0 || at < n);
        found += n > N - 9 && got == 1;
    }
    assert_int_equal(found, 8); /* by the last two, which do not collide */
    kind->free(d);
}

/* ---- what it costs ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A call a token over the whole length: 64 times the tokens cost 64 times as much and not 4096 times. */
static void cost_is_linear(void **state)
{
    (void)state;
    enum { SMALL = 4096, LARGE = 64 * SMALL };
    static int32_t prefix[LARGE];
    double took[2];
    for (int k = 0; k < 2; k++) {
        uint32_t n_ctx = k ? LARGE : SMALL;
        uint64_t x = 5;
        for (uint32_t i = 0; i < n_ctx; i++)
            prefix[i] = (int32_t)draw(&x, 50);
        struct drafter *d = make(n_ctx);
        int32_t out[8];
        long before = mem_count();
        double begin = seconds();
        for (uint32_t n = 1; n <= n_ctx; n++)
            kind->propose(d, prefix, n, 8, out);
        took[k] = seconds() - begin;
        assert_int_equal(mem_count(), before);
        kind->free(d);
    }
    assert_true(took[1] < 64 * 12 * took[0]); /* caches that no longer hold the tables explain a factor, not 64 */
}

/* ---- how many ---- */

/* A text that repeats, and a model that accepts min(right, proposed) of what is proposed; returns the tokens proposed
 * in `steps` steps. */
static uint32_t run(struct drafter *d, uint32_t steps, uint32_t right, uint32_t *n, uint32_t *silent)
{
    static int32_t prefix[N_CTX];
    uint32_t sum = 0;
    for (uint32_t i = 0; i < steps; i++) {
        int32_t out[ASK];
        for (uint32_t k = 0; k <= *n; k++)
            prefix[k] = (int32_t)(k % 5);
        uint32_t got = kind->propose(d, prefix, ++*n, ASK, out);
        uint32_t accepted = got < right ? got : right;
        *silent += got == 0;
        sum += got;
        if (got > 0)
            kind->result(d, got, accepted);
    }
    return sum;
}

static void length_follows_acceptance(void **state)
{
    (void)state;
    uint32_t n = 10, silent = 0, bad, few, all;
    struct drafter *d = make(N_CTX);
    few = run(d, 100, 2, &n, &silent);
    assert_int_equal(silent, 0);
    assert_true(few >= 300 && few <= 500); /* about twice as many as are right */
    all = run(d, 100, ASK, &n, &silent);
    assert_true(all > 90 * ASK);
    assert_int_equal(silent, 0);
    bad = run(d, 1000, 0, &n, &silent);
    assert_true(silent > 900 && bad < 200); /* rests, but tries again now and then */
    uint32_t late = 0, quiet = 0;
    late = run(d, 1000, 0, &n, &quiet);
    assert_true(late >= 1 && late <= 10);
    silent = 0; /* the text has become predictable: found out in a rest or two, then as before */
    run(d, 1025, ASK, &n, &silent);
    silent = 0;
    all = run(d, 50, ASK, &n, &silent);
    assert_int_equal(silent, 0);
    assert_int_equal(all, 50 * ASK);
    kind->free(d);
}

/* The same calls give the same guesses, and a reset forgets everything. */
static void depends_on_its_own_calls_alone(void **state)
{
    (void)state;
    static int32_t prefix[400];
    static int32_t seen[3][400][ASK];
    uint64_t x = 77;
    for (uint32_t i = 0; i < 400; i++)
        prefix[i] = (int32_t)draw(&x, 6);
    struct drafter *d = make(N_CTX), *other = make(N_CTX);
    for (uint32_t k = 0; k < 3; k++) {
        if (k == 2) {
            encourage(d);
            kind->reset(d);
            uint32_t n = 1, silent = 0;
            run(other, 300, 0, &n, &silent);
        }
        struct drafter *use = k == 1 ? other : d;
        memset(seen[k], 0, sizeof seen[k]);
        for (uint32_t n = 1; n < 400; n++) {
            uint32_t got = kind->propose(use, prefix, n, ASK, seen[k][n]), right = 0;
            while (right < got && n + right < 400 && seen[k][n][right] == prefix[n + right])
                right++;
            if (got > 0)
                kind->result(use, got, right);
        }
    }
    assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
    assert_memory_equal(seen[0], seen[2], sizeof seen[0]);
    kind->free(d);
    kind->free(other);
}

static void memory_is_what_it_says(void **state)
{
    (void)state;
    struct drafter *d;
    struct glim_err e;
    assert_true(kind->bytes(N_CTX) >= 2 * 2 * N_CTX * sizeof(uint32_t) && kind->bytes(N_CTX) < 100 * 1024);
    long n = 1;
    for (;; n++) {
        mem_fail_after(n);
        glim_status st = kind->create(&d, N_CTX, &e);
        mem_fail_after(0);
        if (st == GLIM_OK)
            break;
        assert_int_equal(st, GLIM_FAILED);
        assert_null(d);
    }
    assert_int_equal(n, 4);
    kind->free(d);
    assert_int_equal(kind->create(&d, UINT32_MAX, &e), GLIM_REFUSED);
    assert_null(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_followed_the_last_occurrence),
        cmocka_unit_test(equals_a_search),
        cmocka_unit_test(stays_in_range),
        cmocka_unit_test(a_replaced_beginning_gives_no_made_up_guess),
        cmocka_unit_test(collisions),
        cmocka_unit_test(cost_is_linear),
        cmocka_unit_test(length_follows_acceptance),
        cmocka_unit_test(depends_on_its_own_calls_alone),
        cmocka_unit_test(memory_is_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
