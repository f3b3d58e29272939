#include "run/logprob.h"

#include "run/logits.h"

/* Sum of exp(l - max): the terms in f32; lane j adds those of the elements i with i mod 16 = j, in f64. */
static double mass(const float *l, uint32_t n, float max)
{
    enum { N = LOGITS_LANES, RUN = 32 * N }; /* two loops over a run, for compilers to vectorise both */
    double sum[N] = {0};
    uint32_t i = 0;
    for (; i + RUN <= n; i += RUN) {
        const float *from = l + i;
        float x[RUN];
        for (int j = 0; j < RUN; j++)
            x[j] = logits_exp(from[j] - max);
        for (int j = 0; j < RUN; j += N)
            for (int k = 0; k < N; k++)
                sum[k] += (double)x[j + k];
    }
    for (; i < n; i++)
        sum[i % N] += (double)logits_exp(l[i] - max);
    for (int k = 1; k < N; k++)
        sum[0] += sum[k];
    return sum[0];
}

/* Put a token into the sorted list of n, whose last gives way. It goes behind its equals: ids come in ascending. */
static void insert(struct glim_logprob *top, uint32_t n, struct glim_logprob t)
{
    uint32_t i = n - 1;
    for (; i > 0 && top[i - 1].logprob < t.logprob; i--)
        top[i] = top[i - 1];
    top[i] = t;
}

static bool any_above(const float *l, float floor)
{
    int32_t any = 0; /* of a block */
    for (int j = 0; j < LOGITS_BLOCK; j++)
        any |= l[j] > floor;
    return any;
}

/* The n largest logits, 1 <= n <= n_vocab. After the first few blocks hardly a token is above the least of the list. */
static void find_top(const float *l, uint32_t n_vocab, uint32_t n, struct glim_logprob *top)
{
    uint32_t i = 0;
    for (; i < n; i++)
        insert(top, i + 1, (struct glim_logprob){(int32_t)i, l[i]});
    while (i < n_vocab) {
        uint32_t end = n_vocab - i < LOGITS_BLOCK ? n_vocab : i + LOGITS_BLOCK;
        if (end - i == LOGITS_BLOCK && !any_above(l + i, top[n - 1].logprob)) {
            i = end;
            continue;
        }
        for (; i < end; i++)
            if (l[i] > top[n - 1].logprob)
                insert(top, n, (struct glim_logprob){(int32_t)i, l[i]});
    }
}

glim_status logprob_row(const float *logits, uint32_t n_vocab, int32_t token, uint32_t n, struct glim_logprob *out,
                        struct glim_err *e)
{
    uint32_t most = n_vocab < LOGPROB_MAX ? n_vocab : LOGPROB_MAX;
    float max;
    if (n > most)
        return err_set(e, GLIM_USAGE, "logprobs: likeliest tokens: have %u, need 0 to %u", n, most);
    if (token < 0 || (uint32_t)token >= n_vocab)
        return err_set(e, GLIM_USAGE, "logprobs: token: have id %d, need 0 to %u", token, n_vocab - 1);
    TRY(logits_max(logits, n_vocab, "logprobs", &max, e));
    double ln_mass = (double)max + logits_ln(mass(logits, n_vocab, max));
    out[0] = (struct glim_logprob){token, logits[token]};
    if (n > 0)
        find_top(logits, n_vocab, n, out + 1);
    for (uint32_t i = 0; i <= n; i++)
        out[i].logprob = (float)((double)out[i].logprob - ln_mass);
    return GLIM_OK;
}
