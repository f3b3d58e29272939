/* If these fail, a seed no longer reproduces a text, a filter lets through (or cuts) tokens it should not, or the
 * sampled frequencies are not the model's probabilities. The references here are written plainly on libm and full
 * sorts. */
#include "base/mem.h"
#include "run/sampler.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct glim_sampling PLAIN = {
    .temperature = 1, .top_p = 1, .typical_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1};

/* ---- an independent copy of the noise ---- */

static void philox_round(uint32_t c[4], const uint32_t k[2])
{
    uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    uint32_t r[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
    memcpy(c, r, sizeof r);
}

static void philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t k[2] = {key[0], key[1]};
    memcpy(out, ctr, 16);
    for (int i = 0; i < 10; i++) {
        philox_round(out, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
}

static double plain_gumbel(uint64_t seed, uint64_t pos, uint32_t token)
{
    uint32_t c[4] = {token / 4, (uint32_t)pos, (uint32_t)(pos >> 32), 0x73616d70}, o[4];
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    philox(c, k, o);
    return -log(-log((o[token % 4] + 0.5) / 4294967296.0));
}

static void noise_is_philox_and_two_logarithms(void **state)
{
    (void)state;
    /* known answers published with the generator (Random123, kat_vectors, philox4x32-10) */
    uint32_t o[4];
    philox((uint32_t[4]){0}, (uint32_t[2]){0}, o);
    assert_int_equal(o[0], 0x6627e8d5);
    assert_int_equal(o[3], 0x9b00dbd8);
    philox((uint32_t[4]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, (uint32_t[2]){0xa4093822, 0x299f31d0}, o);
    assert_int_equal(o[0], 0xd16cfe09);
    assert_int_equal(o[3], 0x24126ea1);

    for (uint32_t i = 0; i < 200000; i++) {
        uint64_t seed = i * 0x9E3779B97F4A7C15u, pos = (uint64_t)i << (i % 40);
        float g = sample_gumbel(seed, pos, i * 7u);
        double want = plain_gumbel(seed, pos, i * 7u);
        assert_true(fabs((double)g - want) <= 1e-7 * fmax(1.0, fabs(want)));
    }
}

static void noise_bits_are_pinned(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed, pos;
        uint32_t token, bits;
    } pin[] = {
        {0, 0, 0, 0x3f59d582},
        {1, 17, 31999, 0xbf3a1fb2},
        {0xFFFFFFFFFFFFFFFFu, 1u << 20, 262143, 0x3ee8a1f9},
        {42, 0x100000000u, 5, 0x3eee93a4},
    };
    for (size_t i = 0; i < sizeof pin / sizeof *pin; i++) {
        float g = sample_gumbel(pin[i].seed, pin[i].pos, pin[i].token);
        uint32_t b;
        memcpy(&b, &g, 4);
        assert_int_equal(b, pin[i].bits);
    }
}

/* ---- helpers ---- */

static uint64_t rng_state = 88172645463325252u;

static double rnd(void) /* xorshift64*, in [0, 1) */
{
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return (double)((rng_state * 0x2545F4914F6CDD1Du) >> 11) * 0x1p-53;
}

static struct sampler *make(uint32_t n)
{
    struct sampler *s;
    assert_int_equal(sampler_create(&s, n, NULL), GLIM_OK);
    return s;
}

/* The draw for a position, when the prefix itself does not matter. */
static int32_t draw_at(struct sampler *s, const float *l, size_t pos, const struct glim_sampling *p)
{
    int32_t t = -1;
    struct glim_err e = {0};
    glim_status st = sampler_draw(s, l, NULL, pos, p, NULL, &t, &e);
    if (st != GLIM_OK)
        fail_msg("%s", e.message);
    return t;
}

/* ---- the plain reference: full sorts, double softmax ---- */

struct item {
    uint32_t id;
    double x, p, order;
};

static int by_order(const void *a, const void *b) /* order descending, then id ascending */
{
    const struct item *u = a, *v = b;
    if (u->order != v->order)
        return u->order > v->order ? -1 : 1;
    return u->id < v->id ? -1 : u->id > v->id;
}

static void renormalise(struct item *it, size_t n)
{
    double z = 0;
    for (size_t i = 0; i < n; i++)
        z += it[i].p = exp(it[i].x);
    for (size_t i = 0; i < n; i++)
        it[i].p /= z;
}

static size_t cut_at_mass(struct item *it, size_t n, double need)
{
    double sum = 0;
    qsort(it, n, sizeof *it, by_order);
    for (size_t i = 0; i < n; i++)
        if ((sum += it[i].p) >= need)
            return i + 1;
    return n;
}

/* it: room for n; returns how many remain, in any order. */
static size_t plain_filter(struct item *it, const float *l, uint32_t n_vocab, const struct glim_sampling *p)
{
    float max = -INFINITY;
    for (uint32_t i = 0; i < n_vocab; i++)
        max = fmaxf(max, l[i]);
    size_t n = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (l[i] > -INFINITY)
            it[n++] = (struct item){.id = i, .x = (double)((l[i] - max) / p->temperature)};
    if (p->top_k > 0 && p->top_k < n) {
        for (size_t i = 0; i < n; i++)
            it[i].order = it[i].x;
        qsort(it, n, sizeof *it, by_order);
        n = p->top_k;
    }
    if (p->typical_p < 1) {
        renormalise(it, n);
        double h = 0;
        for (size_t i = 0; i < n; i++)
            h -= it[i].p > 0 ? it[i].p * log(it[i].p) : 0;
        for (size_t i = 0; i < n; i++)
            it[i].order = -fabs(-log(it[i].p) - h);
        n = cut_at_mass(it, n, (double)p->typical_p);
    }
    if (p->top_p < 1) {
        renormalise(it, n);
        for (size_t i = 0; i < n; i++)
            it[i].order = it[i].x;
        n = cut_at_mass(it, n, (double)p->top_p);
    }
    if (p->min_p > 0) {
        renormalise(it, n);
        double top = 0;
        for (size_t i = 0; i < n; i++)
            top = fmax(top, it[i].p);
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            if (it[i].p >= (double)p->min_p * top)
                it[k++] = it[i];
        n = k;
    }
    return n;
}

static int32_t plain_pick(const struct item *it, size_t n, uint64_t seed, uint64_t pos)
{
    float best = -INFINITY;
    uint32_t id = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        float v = (float)it[i].x + sample_gumbel(seed, pos, it[i].id);
        if (v > best || (v == best && it[i].id < id)) {
            best = v;
            id = it[i].id;
        }
    }
    return (int32_t)id;
}

static void check_against_plain(uint32_t n, double spread, const struct glim_sampling *p, int n_pos)
{
    float *l = malloc(n * sizeof *l);
    struct item *it = malloc(n * sizeof *it);
    struct sampler *s = make(n);
    for (uint32_t i = 0; i < n; i++)
        l[i] = (float)(spread * (rnd() + rnd() + rnd() - 1.5));
    if (n > 8)
        l[n / 3] = -INFINITY;
    size_t kept = plain_filter(it, l, n, p);
    for (int pos = 0; pos < n_pos; pos++)
        assert_int_equal(draw_at(s, l, (size_t)pos, p), plain_pick(it, kept, p->seed, (uint64_t)pos));
    sampler_free(s);
    free(it);
    free(l);
}

static void filters_match_the_plain_reference(void **state)
{
    (void)state;
    static const uint32_t k[] = {0, 1, 2, 5, 40, 200};
    static const float top_p[] = {1, 0, 0.1f, 0.5f, 0.9f, 0.999f};
    static const float min_p[] = {0, 0.01f, 0.2f, 1};
    static const float typical[] = {1, 0.2f, 0.7f, 0.95f};
    for (int round = 0; round < 600; round++) {
        struct glim_sampling p = PLAIN;
        p.seed = (uint64_t)round;
        p.temperature = (float)(0.05 + 2 * rnd());
        /* half of the rounds exercise one filter alone */
        int only = round % 2 ? (int)(4 * rnd()) : -1;
        if (only < 0 || only == 0)
            p.top_k = k[(int)(6 * rnd())];
        if (only < 0 || only == 1)
            p.top_p = top_p[(int)(6 * rnd())];
        if (only < 0 || only == 2)
            p.min_p = min_p[(int)(4 * rnd())];
        if (only < 0 || only == 3)
            p.typical_p = typical[(int)(4 * rnd())];
        check_against_plain(1 + (uint32_t)(700 * rnd()), 1 + 25 * rnd(), &p, 60);
    }
}

static void large_vocabularies_match_too(void **state)
{
    (void)state;
    struct glim_sampling p = PLAIN;
    check_against_plain(262144, 3, &p, 2); /* flat: nearly all tokens are within reach of the noise */
    check_against_plain(262145, 40, &p, 2);
    p.top_k = 40;
    check_against_plain(262144, 20, &p, 2);
    p.top_k = 5000;
    check_against_plain(262144, 0.1, &p, 1);
    p.top_k = 0;
    p.top_p = 0.95f;
    check_against_plain(262144, 20, &p, 1);
}

/* ---- hand-made edges ---- */

/* Bit i of the result: token i was drawn at one of the positions. */
static uint32_t support(const float *l, uint32_t n, const struct glim_sampling *p)
{
    struct sampler *s = make(n);
    uint32_t seen = 0;
    for (size_t pos = 0; pos < 4000; pos++)
        seen |= 1u << draw_at(s, l, pos, p);
    sampler_free(s);
    return seen;
}

static void filter_edges(void **state)
{
    (void)state;
    const float ln2 = 0.6931472f;
    const float l[] = {0, ln2, 2 * ln2, 0}; /* p = 1/8 1/4 1/2 1/8 */
    struct glim_sampling p = PLAIN;
    assert_int_equal(support(l, 4, &p), 0xF);
    p.top_p = 0.49f;
    assert_int_equal(support(l, 4, &p), 0x4);
    p.top_p = 0.51f;
    assert_int_equal(support(l, 4, &p), 0x6);
    p.top_p = 0.76f; /* of the two equal ones the lower id comes first */
    assert_int_equal(support(l, 4, &p), 0x7);
    p.top_p = 0;
    assert_int_equal(support(l, 4, &p), 0x4);
    p = PLAIN;
    p.top_k = 3;
    assert_int_equal(support(l, 4, &p), 0x7);
    p.top_k = 1;
    assert_int_equal(support(l, 4, &p), 0x4);
    p.top_k = 4000000000u;
    assert_int_equal(support(l, 4, &p), 0xF);
    p = PLAIN;
    p.min_p = 0.26f;
    assert_int_equal(support(l, 4, &p), 0x6);
    p.min_p = 1;
    assert_int_equal(support(l, 4, &p), 0x4);
    p = PLAIN;
    p.typical_p = 0.2f; /* entropy 1.75 ln 2: the token at -ln p = 2 ln 2 is nearest */
    assert_int_equal(support(l, 4, &p), 0x2);
    /* order: top-k = 2 leaves 1/3, 2/3, so top-p 0.6 keeps one; on the whole distribution it would keep two */
    p = PLAIN;
    p.top_k = 2;
    p.top_p = 0.6f;
    assert_int_equal(support(l, 4, &p), 0x4);
}

static void a_mass_that_is_reached_exactly_is_enough(void **state)
{
    (void)state;
    const float l[4] = {0};
    struct glim_sampling p = PLAIN;
    p.top_p = 0.5f;
    assert_int_equal(support(l, 4, &p), 0x3);
    p = PLAIN;
    p.typical_p = 0.75f;
    assert_int_equal(support(l, 4, &p), 0x7);
}

/* Logits chosen so that two tokens come out at the same value, noise included. */
static void equal_draws_go_to_the_lower_id(void **state)
{
    (void)state;
    int n = 0;
    struct sampler *s = make(6);
    struct glim_sampling p = PLAIN;
    for (size_t pos = 0; pos < 300; pos++) {
        float a = sample_gumbel(p.seed, pos, 1), b = sample_gumbel(p.seed, pos, 5);
        float l[6] = {-INFINITY, 0, -INFINITY, -INFINITY, -INFINITY, 0};
        l[a < b ? 5 : 1] = -fabsf(a - b);
        if (l[1] + a != l[5] + b)
            continue;
        n++;
        p.top_k = 0;
        assert_int_equal(draw_at(s, l, pos, &p), 1);
        p.top_k = 3;
        assert_int_equal(draw_at(s, l, pos, &p), 1);
    }
    sampler_free(s);
    assert_true(n > 30);
}

static void negative_zero_is_zero(void **state)
{
    (void)state;
    float many[17];
    for (int i = 0; i < 17; i++)
        many[i] = -1;
    many[1] = -0.0f;
    many[16] = 0.0f;
    struct glim_sampling one = PLAIN;
    one.top_k = 1;
    assert_int_equal(support(many, 17, &one), 1u << 1);
    const float l[] = {-0.0f, 0.0f};
    struct glim_sampling p = PLAIN;
    p.top_k = 1;
    assert_int_equal(support(l, 2, &p), 0x1);
    p.temperature = 0;
    assert_int_equal(support(l, 2, &p), 0x1);
}

static void greedy_takes_the_lowest_id_of_the_largest(void **state)
{
    (void)state;
    struct glim_sampling p = PLAIN;
    p.temperature = 0;
    for (uint32_t n = 1; n < 70; n++) {
        float l[70];
        for (uint32_t at = 0; at < n; at++) {
            for (uint32_t i = 0; i < n; i++)
                l[i] = i >= at ? 2.5f : -1e30f;
            struct sampler *s = make(n);
            assert_int_equal(draw_at(s, l, 3, &p), at);
            sampler_free(s);
        }
    }
}

/* ---- distribution ---- */

static double chi_square(const long *seen, const double *p, int n, long total)
{
    double x = 0;
    for (int i = 0; i < n; i++)
        x += pow((double)seen[i] - p[i] * (double)total, 2) / (p[i] * (double)total);
    return x;
}

static void softmax(const float *l, int n, double t, double *p)
{
    double z = 0;
    for (int i = 0; i < n; i++)
        z += p[i] = exp((double)l[i] / t);
    for (int i = 0; i < n; i++)
        p[i] /= z;
}

static void draws_follow_the_softmax(void **state)
{
    (void)state;
    enum { N = 7, DRAWS = 60000 };
    const float l[N] = {1.5f, -2, 0.25f, 3, 3, -0.5f, 2};
    for (int round = 0; round < 6; round++) {
        struct glim_sampling p = PLAIN;
        p.temperature = round % 2 ? 1.0f : 2.5f;
        double want[N];
        long seen[N] = {0};
        softmax(l, N, (double)p.temperature, want);
        struct sampler *s = make(N);
        for (long i = 0; i < DRAWS; i++) { /* along positions, then along seeds at one position */
            p.seed = round < 3 ? (uint64_t)round : (uint64_t)i;
            seen[draw_at(s, l, round < 3 ? (size_t)i : 1000, &p)]++;
        }
        sampler_free(s);
        assert_true(chi_square(seen, want, N, DRAWS) < 22.46); /* 6 degrees of freedom, 0.1 % */
    }
}

static void consecutive_draws_are_independent(void **state)
{
    (void)state;
    enum { N = 4, DRAWS = 60000 };
    const float l[N] = {0, 1, 0.5f, -1};
    double one[N], want[N * N];
    long seen[N * N] = {0};
    softmax(l, N, 1, one);
    for (int i = 0; i < N * N; i++)
        want[i] = one[i / N] * one[i % N];
    struct sampler *s = make(N);
    for (size_t i = 0; i < DRAWS; i++)
        seen[N * draw_at(s, l, 2 * i, &PLAIN) + draw_at(s, l, 2 * i + 1, &PLAIN)]++;
    sampler_free(s);
    assert_true(chi_square(seen, want, N * N, DRAWS) < 37.70); /* 15 degrees of freedom, 0.1 % */
}

static void a_draw_depends_on_seed_and_position_only(void **state)
{
    (void)state;
    enum { N = 1000, POS = 50 };
    float l[N], other[N];
    int32_t prefix[POS], first[POS];
    for (int i = 0; i < N; i++) {
        l[i] = (float)(4 * rnd());
        other[i] = (float)(4 * rnd());
    }
    struct glim_sampling p = PLAIN, q = PLAIN;
    p.top_k = 300;
    q.temperature = 0.3f;
    q.top_p = 0.5f;
    q.presence_penalty = 1;
    struct sampler *s = make(N), *fresh;
    for (size_t i = 0; i < POS; i++)
        first[i] = draw_at(s, l, i, &p);
    for (size_t i = POS; i-- > 0;) { /* backwards, with other work between, and a fresh sampler */
        int32_t t;
        for (size_t j = 0; j < POS; j++)
            prefix[j] = (int32_t)(N * rnd());
        assert_int_equal(sampler_draw(s, other, prefix, POS, &q, NULL, &t, NULL), GLIM_OK);
        assert_int_equal(sampler_draw(s, l, prefix, i, &p, NULL, &t, NULL), GLIM_OK);
        assert_int_equal(t, first[i]);
        fresh = make(N);
        assert_int_equal(draw_at(fresh, l, i, &p), first[i]);
        sampler_free(fresh);
    }
    sampler_free(s);
    int differ = 0;
    for (int i = 1; i < POS; i++)
        differ += first[i] != first[i - 1];
    assert_true(differ > POS / 2);
}

/* ---- bias and penalties ---- */

static void bias_and_penalties_edit_the_logits(void **state)
{
    (void)state;
    const float l[] = {4, 3.5f, 3, -1};
    const int32_t prefix[] = {3, 3, 3, 0, 1, 0};
    struct sampler *s = make(4);
    struct glim_sampling p = PLAIN;
    int32_t t;
    p.temperature = 0;
#define GREEDY(want)                                                                                                   \
    do {                                                                                                               \
        assert_int_equal(sampler_draw(s, l, prefix, 6, &p, NULL, &t, NULL), GLIM_OK);                                  \
        assert_int_equal(t, want);                                                                                     \
    } while (0)
    GREEDY(0);
    p.bias = (struct glim_bias[]){{0, -INFINITY}, {1, -0.25f}, {1, -0.5f}}; /* entries of one token add up */
    p.n_bias = 2;
    GREEDY(1);
    p.n_bias = 3;
    GREEDY(2);
    p.n_bias = 0;
    p.repeat_penalty = 1.2f; /* 4 / 1.2 = 3.33, 3.5 / 1.2 = 2.9 */
    GREEDY(0);
    p.repeat_penalty = 1.4f; /* 2.86, 2.5, 3 */
    GREEDY(2);
    p.repeat_last_n = 1; /* sees only the last 0: 2.86, 3.5, 3 */
    GREEDY(1);
    p.repeat_last_n = 0; /* sees nothing */
    GREEDY(0);
    p.repeat_last_n = -1;
    p.repeat_penalty = 1;
    p.presence_penalty = 0.9f; /* 3.1, 2.6, 3 */
    GREEDY(0);
    p.frequency_penalty = 0.1f; /* 2.9, 2.5, 3: token 0 was seen twice */
    GREEDY(2);
    p.presence_penalty = -1.5f; /* 0: 4 + 1.5 - 0.2, 3: -1 + 1.5 - 0.3; negative values reward */
    GREEDY(0);
    p.presence_penalty = 0;
    p.frequency_penalty = -2.5f; /* 0: 9, 3: -1 + 7.5 = 6.5 */
    GREEDY(0);
    p.frequency_penalty = -5.5f; /* 0: 15, 3: 15.5 */
    GREEDY(3);
    p.frequency_penalty = 0;
    p.repeat_penalty = 0.1f; /* negative logits are multiplied: 3: -0.1; 0: 40 */
    GREEDY(0);
    sampler_free(s);
}

/* ---- refusals ---- */

static void every_field_has_bounds(void **state)
{
    (void)state;
    struct glim_sampling p = PLAIN;
    assert_int_equal(sampler_check(&p, 10, NULL), GLIM_OK);
#define BAD(field, value)                                                                                              \
    do {                                                                                                               \
        struct glim_err e = {0};                                                                                       \
        p = PLAIN;                                                                                                     \
        p.field = value;                                                                                               \
        assert_int_equal(sampler_check(&p, 10, &e), GLIM_USAGE);                                                       \
        assert_non_null(strstr(e.message, #field));                                                                    \
        assert_non_null(strstr(e.message, "need"));                                                                    \
    } while (0)
    BAD(temperature, -0.1f);
    BAD(temperature, 100.5f);
    BAD(temperature, NAN);
    BAD(top_p, -0.01f);
    BAD(top_p, 1.01f);
    BAD(top_p, NAN);
    BAD(min_p, -0.01f);
    BAD(min_p, 1.01f);
    BAD(typical_p, -0.01f);
    BAD(typical_p, 1.01f);
    BAD(repeat_penalty, 0.0f);
    BAD(repeat_penalty, INFINITY);
    BAD(presence_penalty, 101.0f);
    BAD(presence_penalty, NAN);
    BAD(frequency_penalty, -101.0f);
    BAD(repeat_last_n, -2);
#define BAD_BIAS(id, v)                                                                                                \
    do {                                                                                                               \
        p = PLAIN;                                                                                                     \
        p.bias = &(struct glim_bias){id, v};                                                                           \
        p.n_bias = 1;                                                                                                  \
        assert_int_equal(sampler_check(&p, 10, NULL), GLIM_USAGE);                                                     \
    } while (0)
    BAD_BIAS(10, 1.0f);
    BAD_BIAS(-1, 1.0f);
    BAD_BIAS(9, NAN);
    BAD_BIAS(9, INFINITY);
    p = PLAIN;
    p.n_bias = 1;
    assert_int_equal(sampler_check(&p, 10, NULL), GLIM_USAGE);
    struct sampler *s;
    assert_int_equal(sampler_create(&s, 0, NULL), GLIM_USAGE);
    assert_null(s);
}

static void bad_logits_are_errors(void **state)
{
    (void)state;
    enum { N = 100 };
    float l[N] = {0};
    struct sampler *s = make(N);
    struct glim_sampling p = PLAIN;
    struct glim_err e;
    int32_t t;
    for (int greedy = 0; greedy < 2; greedy++)
        for (int at = 0; at < N; at++)
            for (int kind = 0; kind < 2; kind++) {
                char want[20];
                snprintf(want, sizeof want, "token %d:", at);
                p.temperature = greedy ? 0.0f : 1.0f;
                l[at] = kind ? NAN : INFINITY;
                assert_int_equal(sampler_draw(s, l, NULL, 0, &p, NULL, &t, &e), GLIM_FAILED);
                assert_non_null(strstr(e.message, want));
                l[at] = 0;
            }
    for (int i = 0; i < N; i++)
        l[i] = -INFINITY;
    assert_int_equal(sampler_draw(s, l, NULL, 0, &p, NULL, &t, &e), GLIM_REFUSED);
    l[77] = -1e38f; /* the only one left, and far below */
    for (size_t pos = 0; pos < 50; pos++)
        assert_int_equal(draw_at(s, l, pos, &p), 77);
    p.repeat_penalty = 2;
    for (int i = 0; i < 2; i++) { /* and a refused prefix leaves no trace in the counts */
        assert_int_equal(sampler_draw(s, l, (int32_t[]){5, 5, N}, 3, &p, NULL, &t, &e), GLIM_USAGE);
        assert_int_equal(sampler_draw(s, l, (int32_t[]){5, -1, 5}, 3, &p, NULL, &t, &e), GLIM_USAGE);
    }
    sampler_free(s);
}

static void drawing_allocates_nothing(void **state)
{
    (void)state;
    enum { N = 5000 };
    float l[N];
    for (int i = 0; i < N; i++)
        l[i] = (float)(10 * rnd());
    struct sampler *s = make(N);
    struct glim_sampling p = PLAIN;
    p.top_p = 0.9f;
    p.typical_p = 0.9f;
    p.presence_penalty = 1;
    int32_t t, prefix[] = {1, 2, 3};
    long before = mem_count();
    for (int i = 0; i < 20; i++)
        assert_int_equal(sampler_draw(s, l, prefix, 3, &p, NULL, &t, NULL), GLIM_OK);
    assert_int_equal(mem_count(), before);
    sampler_free(s);
}

static void creation_survives_lack_of_memory(void **state)
{
    (void)state;
    struct sampler *s;
    struct glim_err e;
    for (long n = 1; n <= 5; n++) {
        mem_fail_after(n);
        assert_int_equal(sampler_create(&s, 100, &e), GLIM_FAILED);
        mem_fail_after(0);
        assert_null(s);
        assert_non_null(strstr(e.message, "memory"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_philox_and_two_logarithms),
        cmocka_unit_test(noise_bits_are_pinned),
        cmocka_unit_test(filters_match_the_plain_reference),
        cmocka_unit_test(large_vocabularies_match_too),
        cmocka_unit_test(filter_edges),
        cmocka_unit_test(a_mass_that_is_reached_exactly_is_enough),
        cmocka_unit_test(equal_draws_go_to_the_lower_id),
        cmocka_unit_test(negative_zero_is_zero),
        cmocka_unit_test(greedy_takes_the_lowest_id_of_the_largest),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(consecutive_draws_are_independent),
        cmocka_unit_test(a_draw_depends_on_seed_and_position_only),
        cmocka_unit_test(bias_and_penalties_edit_the_logits),
        cmocka_unit_test(every_field_has_bounds),
        cmocka_unit_test(bad_logits_are_errors),
        cmocka_unit_test(drawing_allocates_nothing),
        cmocka_unit_test(creation_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
