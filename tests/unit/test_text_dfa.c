/* If this fails: a regular expression, a number range or a length in a schema means other texts than it should, because
 * automata are built, combined or shrunk wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "text/dfa.h"

#include <string.h>

/* Random automata over the bytes a, b and c, compared with a simulation on all texts of up to 5 bytes. */
enum { N_STATE = 6, LETTERS = 3, LENGTH = 5 };

static uint32_t seed;
static uint32_t pick(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 16) % n;
}

static void make_random(struct nfa *a, struct nfa_frag *f)
{
    *f = (struct nfa_frag){nfa_state(a), nfa_state(a)};
    for (int i = 2; i < N_STATE; i++)
        nfa_state(a);
    for (uint32_t i = 4 + pick(8); i-- > 0;) {
        uint8_t lo = (uint8_t)('a' + pick(LETTERS)), hi = (uint8_t)('a' + pick(LETTERS));
        nfa_bytes(a, pick(N_STATE), pick(N_STATE), lo < hi ? lo : hi, lo < hi ? hi : lo);
    }
    for (uint32_t i = pick(6); i-- > 0;)
        nfa_empty(a, pick(N_STATE), pick(N_STATE), (enum nfa_when)pick(3));
}

/* All states reachable from `set` (bits) at place i of n without a byte. */
static unsigned closure(const struct nfa *a, unsigned set, size_t i, size_t n)
{
    for (unsigned before = 0; before != set;) {
        before = set;
        for (uint32_t q = 0; q < N_STATE; q++)
            for (uint32_t k = a->first[q]; k != UINT32_MAX; k = a->edge[k].next) {
                const struct nfa_edge *x = &a->edge[k];
                bool open = x->lo == NFA_ALWAYS || (x->lo == NFA_AT_START ? i == 0 : i == n);
                if (set >> q & 1 && x->empty && open)
                    set |= 1u << x->to;
            }
    }
    return set;
}

static bool simulate(const struct nfa *a, struct nfa_frag f, const char *p, size_t n)
{
    unsigned set = closure(a, 1u << f.in, 0, n);
    for (size_t i = 0; i < n; i++) {
        unsigned next = 0;
        for (uint32_t q = 0; q < N_STATE; q++)
            for (uint32_t k = a->first[q]; k != UINT32_MAX; k = a->edge[k].next)
                if (set >> q & 1 && !a->edge[k].empty && a->edge[k].lo <= (uint8_t)p[i] &&
                    (uint8_t)p[i] <= a->edge[k].hi)
                    next |= 1u << a->edge[k].to;
        set = closure(a, next, i + 1, n);
    }
    return set >> f.out & 1;
}

/* The next text of up to LENGTH letters; false after the last. */
static bool next_text(char *p, size_t *n)
{
    for (size_t i = *n; i-- > 0;) {
        if (p[i] < 'a' + LETTERS - 1) {
            p[i]++;
            return true;
        }
        p[i] = 'a';
    }
    memset(p, 'a', LENGTH);
    return ++*n <= LENGTH;
}

/* Invariants of dfa.h, and that no two states accept the same texts of up to n_state letters (so it is minimal). */
static void check_shape(const struct dfa *d)
{
    assert_true(d->n_state >= 2 && d->n_class >= 1 && d->n_class <= 256);
    assert_false(dfa_accepts(d, 0));
    for (int b = 0; b < 256; b++) {
        assert_true(d->cls[b] < d->n_class);
        assert_int_equal(dfa_step(d, 0, (uint8_t)b), 0);
    }
    static uint8_t apart[200][200];
    if (d->n_state > 200)
        return; /* comparing all pairs takes too long; most are smaller */
    memset(apart, 0, sizeof apart);
    for (uint32_t round = 0; round <= d->n_state; round++)
        for (uint32_t x = 0; x < d->n_state; x++)
            for (uint32_t y = 0; y < d->n_state; y++) {
                apart[x][y] |= dfa_accepts(d, x) != dfa_accepts(d, y);
                for (int b = 0; b < 256 && !apart[x][y]; b++)
                    apart[x][y] = apart[dfa_step(d, x, (uint8_t)b)][dfa_step(d, y, (uint8_t)b)];
            }
    for (uint32_t x = 0; x < d->n_state; x++)
        for (uint32_t y = 0; y < x; y++)
            if (!apart[x][y] && !(dfa_is_empty(d) && d->n_state == 2))
                fail_msg("states %u and %u are the same", x, y);
    for (uint32_t c = 0; c < d->n_class; c++)
        for (uint32_t k = 0; k < c; k++) {
            bool same = true;
            for (uint32_t s = 0; s < d->n_state; s++)
                same = same && d->next[s * d->n_class + c] == d->next[s * d->n_class + k];
            if (same)
                fail_msg("classes %u and %u are the same", c, k);
        }
}

static void random_automata_accept_what_a_simulation_accepts(void **state)
{
    (void)state;
    int n_yes = 0, n_no = 0;
    for (seed = 1; seed < 400; seed++) {
        uint32_t keep = seed;
        struct nfa a = {0};
        struct nfa_frag f;
        struct dfa *d;
        make_random(&a, &f);
        assert_int_equal(nfa_to_dfa(&d, &a, f, NULL), GLIM_OK);
        check_shape(d);
        char p[LENGTH] = {0};
        bool some = false;
        for (size_t n = 0, more = 1; more; more = next_text(p, &n)) {
            bool want = simulate(&a, f, p, n);
            some = some || want;
            want ? n_yes++ : n_no++;
            if (dfa_match(d, p, n) != want)
                fail_msg("automaton %u: %.*s: have %d, need %d", keep, (int)n, p, !want, want);
        }
        assert_true(!some || !dfa_is_empty(d));
        dfa_free(d);
        nfa_fini(&a);
        seed = keep;
    }
    assert_true(n_yes > 10000 && n_no > 10000);
}

static void pairs_accept_by_the_rule(void **state)
{
    (void)state;
    for (seed = 1; seed < 200; seed++) {
        uint32_t keep = seed;
        struct dfa *d[2], *r;
        for (int i = 0; i < 2; i++) {
            struct nfa a = {0};
            struct nfa_frag f;
            make_random(&a, &f);
            assert_int_equal(nfa_to_dfa(&d[i], &a, f, NULL), GLIM_OK);
            nfa_fini(&a);
        }
        for (enum dfa_op op = DFA_AND; op <= DFA_BUT_NOT; op++) {
            assert_int_equal(dfa_combine(&r, d[0], op, d[1], NULL), GLIM_OK);
            check_shape(r);
            char p[LENGTH] = {0};
            for (size_t n = 0, more = 1; more; more = next_text(p, &n)) {
                bool x = dfa_match(d[0], p, n), y = dfa_match(d[1], p, n);
                assert_int_equal(dfa_match(r, p, n), op == DFA_AND ? x && y : op == DFA_OR ? x || y : x && !y);
            }
            dfa_free(r);
        }
        dfa_free(d[0]);
        dfa_free(d[1]);
        seed = keep;
    }
}

/* (a|b)*a(a|b){k}: 2^(k+1) states, all of them needed. */
static glim_status blow_up(struct dfa **out, int k, struct glim_err *e)
{
    struct nfa a = {0};
    struct nfa_frag f = {nfa_state(&a), 0};
    nfa_bytes(&a, f.in, f.in, 'a', 'b');
    f.out = nfa_state(&a);
    nfa_bytes(&a, f.in, f.out, 'a', 'a');
    for (int i = 0; i < k; i++) {
        uint32_t next = nfa_state(&a);
        nfa_bytes(&a, f.out, next, 'a', 'b');
        f.out = next;
    }
    glim_status st = nfa_to_dfa(out, &a, f, e);
    nfa_fini(&a);
    return st;
}

static void too_many_states_are_refused(void **state)
{
    (void)state;
    struct dfa *d;
    struct glim_err e = {0};
    assert_int_equal(blow_up(&d, 10, &e), GLIM_OK);
    assert_int_equal(d->n_state, 2048 + 1);
    dfa_free(d);
    assert_int_equal(blow_up(&d, 20, &e), GLIM_REFUSED);
    assert_null(d);
    assert_non_null(strstr(e.message, "automaton too large: have"));
}

static void pieces_can_be_put_together(void **state)
{
    (void)state;
    struct nfa a = {0}, b = {0};
    struct nfa_frag f = {nfa_state(&a), nfa_state(&a)}, g = {nfa_state(&b), nfa_state(&b)};
    struct dfa *d, *twice;
    nfa_bytes(&a, f.in, f.in, 'x', 'x');
    nfa_bytes(&a, f.in, f.out, 0, 255);
    assert_int_equal(nfa_to_dfa(&d, &a, f, NULL), GLIM_OK); /* x*. */
    uint32_t mid = nfa_state(&b);
    nfa_dfa(&b, g.in, mid, d);
    nfa_dfa(&b, mid, g.out, d);
    assert_int_equal(nfa_to_dfa(&twice, &b, g, NULL), GLIM_OK);
    assert_true(dfa_match(twice, "yxxz", 4));
    assert_true(dfa_match(twice, "xx", 2));
    assert_true(dfa_match(twice, "\xFFxx\x00", 4));
    assert_false(dfa_match(twice, "y", 1));
    assert_false(dfa_match(twice, "abc", 3));
    dfa_free(d);
    dfa_free(twice);
    nfa_fini(&a);
    nfa_fini(&b);
}

static void lack_of_memory_is_an_error_at_every_point(void **state)
{
    (void)state;
    struct dfa *a, *b, *r;
    struct glim_err e;
    long n;
    assert_int_equal(blow_up(&b, 3, NULL), GLIM_OK);
    glim_status st = GLIM_FAILED;
    for (n = 1; st != GLIM_OK; n++) {
        mem_fail_after(n);
        st = blow_up(&a, 5, &e);
        if (st == GLIM_OK) {
            st = dfa_combine(&r, a, DFA_OR, b, &e);
            dfa_free(a);
        }
        mem_fail_after(0);
        if (st != GLIM_OK)
            assert_non_null(strstr(e.message, "out of memory"));
    }
    assert_true(n > 30);
    dfa_free(r);
    dfa_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_automata_accept_what_a_simulation_accepts),
        cmocka_unit_test(pairs_accept_by_the_rule),
        cmocka_unit_test(too_many_states_are_refused),
        cmocka_unit_test(pieces_can_be_put_together),
        cmocka_unit_test(lack_of_memory_is_an_error_at_every_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
