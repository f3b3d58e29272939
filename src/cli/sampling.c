/* Options of sampling, shared by the commands that generate. */
#include "cli/talk.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

void sampling_args(struct sampling_options *o, struct arg *arg)
{
    struct glim_sampling *s = &o->s;
    *s = glim_sampling_default();
    s->temperature = 0;
    o->top_k = s->top_k;
    o->repeat_last_n = s->repeat_last_n;
    const struct arg row[SAMPLING_ARGS] = {
        {0, "temp", ARG_FLOAT, &s->temperature, "T", 0, 100, "temperature; 0, the default, takes the likeliest token"},
        {0, "top-k", ARG_INT, &o->top_k, "K", 0, 4294967295.0, "keep the K likeliest tokens; 0: all"},
        {0, "top-p", ARG_FLOAT, &s->top_p, "P", 0, 1, "keep the likeliest tokens up to mass P; 1: all"},
        {0, "min-p", ARG_FLOAT, &s->min_p, "P", 0, 1, "keep tokens at least P times as likely as the likeliest"},
        {0, "typical-p", ARG_FLOAT, &s->typical_p, "P", 0, 1, "keep the most typical tokens up to mass P; 1: all"},
        {0, "repeat-penalty", ARG_FLOAT, &s->repeat_penalty, "X", 0.01, 100, "divide logits of seen tokens; 1: off"},
        {0, "presence-penalty", ARG_FLOAT, &s->presence_penalty, "X", -100, 100, "subtract from logits of seen tokens"},
        {0, "frequency-penalty", ARG_FLOAT, &s->frequency_penalty, "X", -100, 100,
         "subtract for each time it was seen"},
        {0, "repeat-last-n", ARG_INT, &o->repeat_last_n, "N", -1, 2147483647, "tokens the penalties see (64); -1: all"},
        {0, "logit-bias", ARG_LIST, &o->bias_text, "ID=V", 0, 0,
         "add V to a token's logit; -inf forbids it; repeatable"},
        {0, "seed", ARG_U64, &s->seed, "S", 0, 0, "seed of the noise; the same seed gives the same text"},
    };
    memcpy(arg, row, sizeof row);
}

/* "ID=V" → one entry. */
static glim_status parse_bias(const char *text, struct glim_bias *b, struct glim_err *e)
{
    const char *equals = strchr(text, '=');
    char id_text[16] = "";
    int64_t id;
    double v;
    if (equals && (size_t)(equals - text) < sizeof id_text)
        memcpy(id_text, text, (size_t)(equals - text));
    if (!parse_i64(id_text, &id) || id < 0 || id > INT32_MAX)
        return err_set(e, GLIM_USAGE, "option --logit-bias: have '%s', need ID=V such as 42=-1.5", text);
    b->token = (int32_t)id;
    if (strcmp(equals + 1, "-inf") == 0) {
        b->add = -INFINITY;
        return GLIM_OK;
    }
    if (!parse_f64(equals + 1, &v) || fabs(v) > 1e6)
        return err_set(e, GLIM_USAGE, "option --logit-bias: have '%s', need -inf or a number within 1e6 of 0", text);
    b->add = (float)v;
    return GLIM_OK;
}

static glim_status parse_biases(struct sampling_options *o, struct glim_err *e)
{
    size_t n = o->bias_text.n;
    o->bias = mem_calloc(n, sizeof *o->bias);
    if (!o->bias)
        return err_nomem(e, "logit bias", n * sizeof *o->bias);
    for (size_t i = 0; i < n; i++)
        TRY(parse_bias(o->bias_text.item[i], &o->bias[i], e));
    o->s.bias = o->bias;
    o->s.n_bias = n;
    return GLIM_OK;
}

void sampling_apply(struct sampling_options *o)
{
    o->s.top_k = (uint32_t)o->top_k;
    o->s.repeat_last_n = (int32_t)o->repeat_last_n;
}

glim_status sampling_read(struct sampling_options *o, struct glim_err *e)
{
    sampling_apply(o);
    return parse_biases(o, e);
}

void sampling_fini(struct sampling_options *o)
{
    mem_free(o->bias);
    arg_list_fini(&o->bias_text);
}
