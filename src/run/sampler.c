/* The sampler: filters first, then one Gumbel-max draw.
 *
 * Every step is a pure function of its inputs with a fixed order of operations, so the token of a position is the same
 * bits on every machine. Three ideas keep a vocabulary of 262 thousand cheap:
 *   - logits are first moved to x = (logit - max) / T, so 0 is the top, nothing overflows, and a "floor" such as -8
 * bounds a set of candidates. Top-k and top-p gather the tokens above the highest floor that is low enough to hold the
 * answer.
 *   - what was gathered becomes a max-heap of 64-bit keys (ordered value, complement of the id), popped only as far as
 * the filter needs: a partial sort in which ties go to the lower id.
 *   - with no filter at all, noise is made only where it could still win: the noise is bounded, and its magnitude is
 * bounded by the leading zeros of the random word before any logarithm is taken.
 *
 * Bits: the noise is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) with the seed
 * as key and (token / 4, position, tag) as counter, one 32-bit word a token; logarithm and exponential are those of
 * logits.h. */
#include "run/sampler.h"

#include "base/mem.h"
#include "run/logits.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct sampler {
    uint32_t n_vocab;
    float *x;        /* [n_vocab] edited logits, then (logit - max) / T */
    float *w;        /* [n_vocab] exp(x), where a filter needs it */
    uint64_t *key;   /* [n_vocab] candidates, as heap keys */
    uint32_t *count; /* [n_vocab] occurrences in the penalty window; all zero between calls */
};

/* What remains after the filters so far: keys list[0, n), unordered. */
struct candidates {
    uint64_t *list;
    size_t n;
};

/* ---- noise ---------------------------------------------------------------------------------------------------------
 */

enum { NOISE_TAG = 0x73616d70 }; /* "samp": keeps these counters apart from any later use of the seed */

static void philox4x32(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* The random words of tokens 4 * block … 4 * block + 3. */
static void noise_words(uint64_t seed, uint64_t position, uint32_t block, uint32_t word[4])
{
    word[0] = block;
    word[1] = (uint32_t)position;
    word[2] = (uint32_t)(position >> 32);
    word[3] = NOISE_TAG;
    philox4x32(word, (uint32_t)seed, (uint32_t)(seed >> 32));
}

static float gumbel_of(uint32_t word)
{
    double u = ((double)word + 0.5) * 0x1p-32; /* exact; in (0, 1) */
    return (float)-logits_ln(-logits_ln(u));
}

/* gumbel_of(word) <= this: -ln(-ln u) <= -ln(1 - u), and 1 - u >= 2^-(zeros + 1). The margin covers rounding. */
static float gumbel_bound(uint32_t word)
{
    uint32_t rest = ~word;
    int zeros = rest ? __builtin_clz(rest) : 32;
    return (float)(zeros + 1) * 0.6931473f + 1e-4f;
}

static const float GUMBEL_MAX = 22.8747f; /* gumbel_of(0xFFFFFFFF) = 33 ln 2 = 22.87386 */

float sample_gumbel(uint64_t seed, uint64_t position, uint32_t token)
{
    uint32_t word[4];
    noise_words(seed, position, token / 4, word);
    return gumbel_of(word[token % 4]);
}

/* ---- life and checks -----------------------------------------------------------------------------------------------
 */

glim_status sampler_create(struct sampler **out, uint32_t n_vocab, struct glim_err *e)
{
    *out = NULL;
    if (n_vocab == 0)
        return err_set(e, GLIM_USAGE, "sampler: vocabulary: have 0 tokens, need at least 1");
    struct sampler *s = mem_calloc(1, sizeof *s);
    if (!s)
        return err_nomem(e, "sampler", sizeof *s);
    s->n_vocab = n_vocab;
    s->x = mem_calloc(n_vocab, sizeof *s->x);
    s->w = mem_calloc(n_vocab, sizeof *s->w);
    s->key = mem_calloc(n_vocab, sizeof *s->key);
    s->count = mem_calloc(n_vocab, sizeof *s->count);
    if (!s->x || !s->w || !s->key || !s->count) {
        sampler_free(s);
        return err_nomem(e, "sampler scratch", (size_t)n_vocab * 20);
    }
    *out = s;
    return GLIM_OK;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    mem_free(s->x);
    mem_free(s->w);
    mem_free(s->key);
    mem_free(s->count);
    mem_free(s);
}

/* One row a float field: the interval it must lie in. NaN lies in none. */
glim_status sampler_check(const struct glim_sampling *p, uint32_t n_vocab, struct glim_err *e)
{
    const struct {
        const char *name;
        float value, min, max;
    } field[] = {
        {"temperature", p->temperature, 0.0f, 100.0f},
        {"top_p", p->top_p, 0.0f, 1.0f},
        {"min_p", p->min_p, 0.0f, 1.0f},
        {"typical_p", p->typical_p, 0.0f, 1.0f},
        {"repeat_penalty", p->repeat_penalty, 0.01f, 100.0f},
        {"presence_penalty", p->presence_penalty, -100.0f, 100.0f},
        {"frequency_penalty", p->frequency_penalty, -100.0f, 100.0f},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (!(field[i].value >= field[i].min && field[i].value <= field[i].max))
            return err_set(e, GLIM_USAGE, "sampling: %s: have %g, need %g to %g", field[i].name, (double)field[i].value,
                           (double)field[i].min, (double)field[i].max);
    if (p->repeat_last_n < -1)
        return err_set(e, GLIM_USAGE, "sampling: repeat_last_n: have %d, need -1 (all) or more", p->repeat_last_n);
    if (p->n_bias > 0 && !p->bias)
        return err_set(e, GLIM_USAGE, "sampling: logit bias: have %zu entries and no list, need the list", p->n_bias);
    for (size_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].token < 0 || (uint32_t)p->bias[i].token >= n_vocab)
            return err_set(e, GLIM_USAGE, "sampling: logit bias: have token %d, need 0 to %u", p->bias[i].token,
                           n_vocab - 1);
        if (!(p->bias[i].add <= FLT_MAX))
            return err_set(e, GLIM_USAGE, "sampling: logit bias of token %d: have %g, need a finite number or -inf",
                           p->bias[i].token, (double)p->bias[i].add);
    }
    return GLIM_OK;
}

/* ---- edits of the logits -------------------------------------------------------------------------------------------
 */

static bool wants_penalties(const struct glim_sampling *p)
{
    return p->repeat_last_n != 0 &&
           (p->repeat_penalty != 1.0f || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f);
}

/* Each distinct token of the window, c times in it:  l = l > 0 ? l / repeat : l * repeat;  l -= presence + frequency *
 * c. */
static glim_status penalise(struct sampler *s, const int32_t *prefix, size_t n_prefix, const struct glim_sampling *p,
                            struct glim_err *e)
{
    size_t n = n_prefix;
    if (p->repeat_last_n >= 0 && (size_t)p->repeat_last_n < n)
        n = (size_t)p->repeat_last_n;
    const int32_t *window = prefix + (n_prefix - n);
    for (size_t i = 0; i < n; i++)
        if (window[i] < 0 || (uint32_t)window[i] >= s->n_vocab)
            return err_set(e, GLIM_USAGE, "sampling: penalties: have token %d in the prefix, need 0 to %u", window[i],
                           s->n_vocab - 1);
    for (size_t i = 0; i < n; i++)
        s->count[window[i]]++;
    for (size_t i = 0; i < n; i++) {
        int32_t t = window[i];
        if (s->count[t] == 0)
            continue;
        float l = s->x[t];
        l = l > 0.0f ? l / p->repeat_penalty : l * p->repeat_penalty;
        s->x[t] = l - (p->presence_penalty + p->frequency_penalty * (float)s->count[t]);
        s->count[t] = 0;
    }
    return GLIM_OK;
}

static int32_t first_equal(const float *l, float v)
{
    int32_t i = 0;
    while (l[i] != v)
        i++;
    return i;
}

/* ---- candidates ----------------------------------------------------------------------------------------------------
 */

/* Larger value = larger key; equal values: lower id = larger key. (+ 0 turns -0 into 0.) */
static inline uint64_t make_key(float v, uint32_t id)
{
    v += 0.0f;
    uint32_t b;
    memcpy(&b, &v, 4);
    b ^= b >> 31 ? 0xFFFFFFFFu : 0x80000000u;
    return (uint64_t)b << 32 | (uint32_t)~id;
}

static inline uint32_t key_id(uint64_t key)
{
    return ~(uint32_t)key;
}

/* Tokens at or above floor, in id order. A token at -infinity never becomes one. */
static struct candidates gather(struct sampler *s, float floor)
{
    size_t n = 0;
    float lowest = floor > -FLT_MAX ? floor : -FLT_MAX;
    for (uint32_t i = 0; i < s->n_vocab; i++)
        if (s->x[i] >= lowest)
            s->key[n++] = make_key(s->x[i], i);
    return (struct candidates){s->key, n};
}

static void sift_down(uint64_t *h, size_t n, size_t i)
{
    uint64_t v = h[i];
    for (;;) {
        size_t kid = 2 * i + 1;
        if (kid >= n)
            break;
        if (kid + 1 < n && h[kid + 1] > h[kid])
            kid++;
        if (h[kid] <= v)
            break;
        h[i] = h[kid];
        i = kid;
    }
    h[i] = v;
}

static void heapify(struct candidates *c)
{
    for (size_t i = c->n / 2; i-- > 0;)
        sift_down(c->list, c->n, i);
}

/* Move the largest key behind the heap, which shrinks to n - 1; returns it. */
static uint64_t heap_pop(uint64_t *h, size_t n)
{
    uint64_t top = h[0];
    h[0] = h[n - 1];
    h[n - 1] = top;
    sift_down(h, n - 1, 0);
    return top;
}

/* Keep what heap_pop put behind a heap that has n_left keys. */
static void keep_popped(struct candidates *c, size_t n_left)
{
    c->list += n_left;
    c->n -= n_left;
}

static size_t count_above(const struct sampler *s, float floor)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_vocab; i++)
        n += s->x[i] >= floor;
    return n;
}

static double mass_above(const struct sampler *s, float floor)
{
    double sum[LOGITS_LANES] = {0};
    for (uint32_t i = 0; i < s->n_vocab; i++)
        sum[i % LOGITS_LANES] += s->x[i] >= floor ? (double)s->w[i] : 0.0;
    for (int j = 1; j < LOGITS_LANES; j++)
        sum[0] += sum[j];
    return sum[0];
}

/* Floors to try, highest first: the first that holds enough bounds the set a heap is made of. */
static const float LADDER[] = {-1, -2, -4, -8, -16, -32, -INFINITY};

static float floor_of_count(const struct sampler *s, size_t k)
{
    int i = 0;
    while (LADDER[i] > -INFINITY && count_above(s, LADDER[i]) < k)
        i++;
    return LADDER[i];
}

static float floor_of_mass(const struct sampler *s, double mass)
{
    int i = 0;
    while (LADDER[i] > -INFINITY && mass_above(s, LADDER[i]) < mass)
        i++;
    return LADDER[i];
}

/* ---- filters -------------------------------------------------------------------------------------------------------
 */

static void keep_top_k(struct candidates *c, size_t k)
{
    if (k >= c->n)
        return;
    heapify(c);
    size_t n = c->n;
    for (; k > 0; k--)
        heap_pop(c->list, n--);
    keep_popped(c, n);
}

static double mass_of(const struct sampler *s, const struct candidates *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->n; i++)
        sum += (double)s->w[key_id(c->list[i])];
    return sum;
}

/* The fewest keys, largest first, whose weights reach `need`; at least one. */
static void keep_mass(struct sampler *s, struct candidates *c, double need)
{
    heapify(c);
    size_t n = c->n;
    double sum = 0;
    do
        sum += (double)s->w[key_id(heap_pop(c->list, n--))];
    while (n > 0 && sum < need);
    keep_popped(c, n);
}

/* Locally typical sampling (Meister et al. 2023): order by |-ln p - H|, which with p = exp(x) / Z is |sum p x - x|. */
static void keep_typical(struct sampler *s, struct candidates *c, float typical_p)
{
    double mass = mass_of(s, c), mean = 0;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t id = key_id(c->list[i]);
        mean += (double)s->w[id] * (double)s->x[id];
    }
    mean /= mass;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t id = key_id(c->list[i]);
        c->list[i] = make_key((float)-fabs(mean - (double)s->x[id]), id);
    }
    keep_mass(s, c, (double)typical_p * mass);
}

static void keep_min_p(const struct sampler *s, struct candidates *c, float min_p)
{
    float top = 0;
    for (size_t i = 0; i < c->n; i++) {
        float w = s->w[key_id(c->list[i])];
        top = w > top ? w : top;
    }
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (s->w[key_id(c->list[i])] >= min_p * top)
            c->list[n++] = c->list[i];
    c->n = n;
}

static bool wants_top_k(const struct sampler *s, const struct glim_sampling *p)
{
    return p->top_k > 0 && p->top_k < s->n_vocab;
}

/* What the first filter can need, no more. *mass: of all tokens, where that was computed (then w is complete), else -1.
 */
static struct candidates first_candidates(struct sampler *s, const struct glim_sampling *p, double *mass)
{
    *mass = -1;
    if (wants_top_k(s, p)) {
        struct candidates c = gather(s, floor_of_count(s, p->top_k));
        keep_top_k(&c, p->top_k);
        return c;
    }
    if (p->typical_p < 1.0f)
        return gather(s, -INFINITY);
    if (p->top_p < 1.0f) {
        for (uint32_t i = 0; i < s->n_vocab; i++)
            s->w[i] = logits_exp(s->x[i]);
        *mass = mass_above(s, -INFINITY);
        return gather(s, floor_of_mass(s, (double)p->top_p * *mass));
    }
    int i = 0;
    while (LADDER[i] > -INFINITY && logits_exp(LADDER[i]) >= p->min_p)
        i++;
    return gather(s, LADDER[i]);
}

/* Run the filters in their order (sampler.h). */
static struct candidates filter(struct sampler *s, const struct glim_sampling *p)
{
    bool typical = p->typical_p < 1.0f;
    double mass;
    struct candidates c = first_candidates(s, p, &mass);
    if (mass < 0)
        for (size_t i = 0; i < c.n; i++)
            s->w[key_id(c.list[i])] = logits_exp(s->x[key_id(c.list[i])]);
    if (typical)
        keep_typical(s, &c, p->typical_p);
    if (p->top_p < 1.0f) {
        if (mass < 0)
            mass = mass_of(s, &c);
        for (size_t i = 0; typical && i < c.n; i++) /* back from typicality keys to values */
            c.list[i] = make_key(s->x[key_id(c.list[i])], key_id(c.list[i]));
        keep_mass(s, &c, (double)p->top_p * mass);
    }
    if (p->min_p > 0.0f)
        keep_min_p(s, &c, p->min_p);
    return c;
}

/* ---- the draw ------------------------------------------------------------------------------------------------------
 */

struct draw {
    uint64_t seed, position;
    float best; /* largest x + G so far */
    uint32_t id;
};

static void draw_try(struct draw *d, float x, uint32_t word, uint32_t id)
{
    if (x + gumbel_bound(word) < d->best)
        return;
    float v = x + gumbel_of(word);
    if (v > d->best || (v == d->best && id < d->id)) {
        d->best = v;
        d->id = id;
    }
}

static void draw_one(struct draw *d, float x, uint32_t id)
{
    if (!(x >= -FLT_MAX) || x + GUMBEL_MAX < d->best)
        return;
    uint32_t word[4];
    noise_words(d->seed, d->position, id / 4, word);
    draw_try(d, x, word[id % 4], id);
}

/* Every token is a candidate; `top`, one of the largest, goes first because a high best saves most of the noise. */
static void draw_all(struct draw *d, const float *x, uint32_t n, uint32_t top)
{
    draw_one(d, x[top], top);
    uint32_t block = 0;
    for (; block < n / 4; block++) {
        const float *v = x + 4 * (size_t)block;
        float a = v[0] > v[1] ? v[0] : v[1];
        float b = v[2] > v[3] ? v[2] : v[3];
        if ((a > b ? a : b) + GUMBEL_MAX < d->best)
            continue;
        uint32_t word[4];
        noise_words(d->seed, d->position, block, word);
        for (uint32_t j = 0; j < 4; j++)
            if (v[j] >= -FLT_MAX)
                draw_try(d, v[j], word[j], 4 * block + j);
    }
    for (uint32_t i = 4 * block; i < n; i++)
        draw_one(d, x[i], i);
}

glim_status sampler_draw(struct sampler *s, const float *logits, const int32_t *prefix, size_t n_prefix,
                         const struct glim_sampling *p, const uint64_t *mask, int32_t *token, struct glim_err *e)
{
    TRY(sampler_check(p, s->n_vocab, e));
    bool penalties = wants_penalties(p) && n_prefix > 0;
    const float *l = logits;
    if (penalties || p->n_bias > 0 || mask) {
        memcpy(s->x, logits, s->n_vocab * sizeof *s->x);
        for (uint32_t i = 0; mask && i < s->n_vocab; i++)
            if (!(mask[i / 64] >> i % 64 & 1))
                s->x[i] = -INFINITY;
        for (size_t i = 0; i < p->n_bias; i++)
            s->x[p->bias[i].token] += p->bias[i].add;
        if (penalties)
            TRY(penalise(s, prefix, n_prefix, p, e));
        l = s->x;
    }
    float max = 0;
    TRY(logits_max(l, s->n_vocab, "sampling", &max, e));
    int32_t top = first_equal(l, max);
    if (p->temperature == 0.0f) {
        *token = top;
        return GLIM_OK;
    }
    for (uint32_t i = 0; i < s->n_vocab; i++)
        s->x[i] = (l[i] - max) / p->temperature;

    struct draw d = {.seed = p->seed, .position = n_prefix, .best = -INFINITY, .id = UINT32_MAX};
    if (!wants_top_k(s, p) && p->typical_p == 1.0f && p->top_p == 1.0f && p->min_p == 0.0f) {
        draw_all(&d, s->x, s->n_vocab, (uint32_t)top);
    } else {
        struct candidates c = filter(s, p);
        for (size_t i = 0; i < c.n; i++)
            draw_one(&d, s->x[key_id(c.list[i])], key_id(c.list[i]));
    }
    *token = (int32_t)d.id;
    return GLIM_OK;
}
