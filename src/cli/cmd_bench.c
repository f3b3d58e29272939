/* glim bench: tokens a second of prefill and decode. Each test runs once unmeasured, then --repeat times; every
 * repetition computes everything anew. Tokens are pseudo-random, nothing is sampled. */
#include "cli/cli.h"

#include "base/mem.h"
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_options {
    const char *model;
    int64_t n_prompt, n_gen, depth, batch, repeat;
    bool json;
};

struct bench {
    struct bench_options o;
    struct cli *cli;
    struct glim_session *session;
    int32_t *tokens; /* [depth + max(n_prompt, n_gen)] */
    double *rate;    /* [repeat] tok/s */
};

struct stats {
    double mean, median, min, max;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct stats stats_of(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    double median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    return (struct stats){sum / (double)n, median, v[0], v[n - 1]};
}

/* One repetition: bring an empty session to `depth` tokens, then time the rest. */
static glim_status measure(struct bench *b, bool prefill, double *seconds, struct glim_err *e)
{
    const float *logits;
    size_t depth = (size_t)b->o.depth;
    run_session_reset(b->session);
    if (depth > 0)
        TRY(glim_session_eval(b->session, b->tokens, depth, &logits, e));
    double begin = cli_now();
    if (prefill) {
        TRY(glim_session_eval(b->session, b->tokens, depth + (size_t)b->o.n_prompt, &logits, e));
    } else {
        for (size_t i = 0; i < (size_t)b->o.n_gen; i++)
            TRY(run_session_append(b->session, b->tokens[depth + i], &logits, e));
    }
    *seconds = cli_now() - begin;
    return GLIM_OK;
}

static glim_status run_test(struct bench *b, bool prefill, struct str *rows, bool first)
{
    struct glim_err *e = &b->cli->err;
    int64_t n = prefill ? b->o.n_prompt : b->o.n_gen;
    for (int64_t i = -1; i < b->o.repeat; i++) {
        double seconds;
        TRY(measure(b, prefill, &seconds, e));
        if (i >= 0)
            b->rate[i] = seconds > 0 ? (double)n / seconds : 0;
    }
    struct stats s = stats_of(b->rate, (size_t)b->o.repeat);
    const struct glim_model_info *info = glim_model_info(b->cli->model);
    char test[64];
    int len = snprintf(test, sizeof test, "%s%lld", prefill ? "pp" : "tg", (long long)n);
    if (b->o.depth > 0)
        snprintf(test + len, sizeof test - (size_t)len, "@d%lld", (long long)b->o.depth);
    if (!b->o.json) {
        printf("%-12s %10.1f tok/s  (mean %.1f, min %.1f, max %.1f)\n", test, s.median, s.mean, s.min, s.max);
        return GLIM_OK;
    }
    str_puts(rows, first ? "{\"model\":" : ",\n {\"model\":");
    str_json(rows, info->name, strlen(info->name));
    str_printf(rows, ",\"backend\":\"%s\",\"threads\":%d,\"test\":\"%s\",", info->backend,
               run_session_threads(b->session), test);
    str_printf(rows,
               "\"tok_s_mean\":%.3f,\"tok_s_median\":%.3f,\"tok_s_min\":%.3f,\"tok_s_max\":%.3f,\"kernels\":", s.mean,
               s.median, s.min, s.max);
    cli_json_kernels(rows, b->cli->model);
    str_putc(rows, '}');
    return GLIM_OK;
}

static glim_status begin(struct cli *c, struct bench_options *o, int argc, char **argv)
{
    const struct arg arg[] = {
        {'m', "model", ARG_TEXT, &o->model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {'p', "n-prompt", ARG_INT, &o->n_prompt, "N", 0, 1e7, "tokens of the prefill test (512); 0: no such test"},
        {'n', "n-gen", ARG_INT, &o->n_gen, "N", 0, 1e7, "tokens of the decode test (64); 0: no such test"},
        {'d', "depth", ARG_INT, &o->depth, "N", 0, 1e7, "tokens already in the context (0)"},
        {'b', "batch", ARG_INT, &o->batch, "N", 1, 1e6, "sequences at once (1)"},
        {'r', "repeat", ARG_INT, &o->repeat, "N", 1, 10000, "measured repetitions (5)"},
        {0, "json", ARG_FLAG, &o->json, NULL, 0, 0, "a JSON list, a row a test"},
    };
    const struct arg_spec spec = {"bench",
                                  "-m MODEL [-p N] [-n N] [-d N] [-r N] [-t T] [OPTION …]",
                                  "Measure prefill (pp) and decode (tg) in tokens a second.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  0};
    TRY(cli_begin(c, &spec, argc, argv));
    if (o->batch != 1)
        return err_set(&c->err, GLIM_REFUSED, "bench: --batch: have %lld, need 1 (this version runs one sequence)",
                       (long long)o->batch);
    if (!c->args.help && o->n_prompt == 0 && o->n_gen == 0)
        return err_set(&c->err, GLIM_USAGE, "bench: tests: have -p 0 and -n 0, need one of them above 0");
    return GLIM_OK;
}

/* Room, tokens and a session that holds the longest test. */
static glim_status prepare(struct bench *b)
{
    struct glim_err *e = &b->cli->err;
    const struct bench_options *o = &b->o;
    size_t n = (size_t)(o->depth + (o->n_prompt > o->n_gen ? o->n_prompt : o->n_gen));
    b->tokens = mem_alloc(n * sizeof *b->tokens);
    b->rate = mem_alloc((size_t)o->repeat * sizeof *b->rate);
    if (!b->tokens || !b->rate)
        return err_nomem(e, "bench", n * sizeof *b->tokens);
    uint64_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        b->tokens[i] = (int32_t)((x >> 33) % glim_model_info(b->cli->model)->n_vocab);
    }
    return glim_session_create(&b->session, b->cli->model, (uint32_t)n, e);
}

int cmd_bench(int argc, char **argv)
{
    struct cli c = {0};
    struct bench b = {.o = {.n_prompt = 512, .n_gen = 64, .batch = 1, .repeat = 5}, .cli = &c};
    struct str rows = {0};
    glim_status st;
    TRY_OUT(begin(&c, &b.o, argc, argv));
    if (c.args.help)
        goto out;
    TRY_OUT(cli_open(&c, b.o.model));
    TRY_OUT(prepare(&b));
    const struct glim_model_info *info = glim_model_info(c.model);
    if (!b.o.json)
        printf("%s  %s  %d threads\n", info->name, info->backend, run_session_threads(b.session));
    str_putc(&rows, '[');
    if (b.o.n_prompt > 0)
        TRY_OUT(run_test(&b, true, &rows, true));
    if (b.o.n_gen > 0)
        TRY_OUT(run_test(&b, false, &rows, b.o.n_prompt == 0));
    str_puts(&rows, "]\n");
    if (b.o.json)
        TRY_OUT(cli_print(&rows, &c.err));
out:
    str_fini(&rows);
    glim_session_free(b.session);
    mem_free(b.tokens);
    mem_free(b.rate);
    return cli_end(&c, st);
}
