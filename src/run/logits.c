#include "run/logits.h"

#include <float.h>
#include <math.h>

/* 1 for NaN and +infinity; an int, for | without branches. */
static int is_bad(float l)
{
    return !(l <= FLT_MAX);
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

glim_status logits_max(const float *l, uint32_t n, const char *what, float *max, struct glim_err *e)
{
    enum { N = LOGITS_LANES };
    float m[N];
    int32_t bad[N] = {0};
    for (int j = 0; j < N; j++)
        m[j] = -INFINITY;
    uint32_t i = 0;
    for (; i + LOGITS_BLOCK <= n; i += LOGITS_BLOCK) {
        const float *p = l + i;
        for (int j = 0; j < N; j++) {
            float a = p[j], b = p[j + N], c = p[j + 2 * N], d = p[j + 3 * N];
            m[j] = larger(larger(larger(a, b), larger(c, d)), m[j]);
            bad[j] |= is_bad(a) | is_bad(b) | is_bad(c) | is_bad(d);
        }
    }
    for (; i < n; i++) {
        m[0] = larger(l[i], m[0]);
        bad[0] |= is_bad(l[i]);
    }
    for (int j = 1; j < N; j++) {
        m[0] = larger(m[0], m[j]);
        bad[0] |= bad[j];
    }
    if (bad[0])
        for (i = 0; i < n; i++)
            if (is_bad(l[i]))
                return err_set(e, GLIM_FAILED, "%s: logit of token %u: have %s, need a number", what, i,
                               isnan(l[i]) ? "NaN" : "infinity");
    if (m[0] == -INFINITY)
        return err_set(e, GLIM_REFUSED, "%s: candidates: have 0 tokens that are not forbidden, need at least 1", what);
    *max = m[0];
    return GLIM_OK;
}
