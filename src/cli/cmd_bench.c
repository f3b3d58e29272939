/* glim bench: tokens a second of prefill and decode. Each test runs once unmeasured, then --repeat times. What a test
 * computes it computes anew; the context below its depth is kept between repetitions where a cache can be cut back.
 * Tokens are pseudo-random, nothing is sampled. */
#include "cli/bench.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 10000000, BATCH_MAX = 1024 };

/* ---- the tests ---- */

bool bench_next(const struct bench *b, size_t i, struct bench_test *t)
{
    size_t prefills = b->n_prompt > 0, row = prefills + (b->n_gen > 0 ? b->batch.n : 0);
    if (i >= row * b->depth.n)
        return false;
    bool prefill = i % row < prefills;
    *t = (struct bench_test){.prefill = prefill,
                             .n = (uint32_t)(prefill ? b->n_prompt : b->n_gen),
                             .depth = (uint32_t)b->depth.v[i / row],
                             .batch = prefill ? 1 : (uint32_t)b->batch.v[i % row - prefills]};
    int len = snprintf(t->name, sizeof t->name, "%s%u", prefill ? "pp" : "tg", t->n);
    if (t->depth > 0)
        len += snprintf(t->name + len, sizeof t->name - (size_t)len, "@d%u", t->depth);
    if (t->batch > 1)
        snprintf(t->name + len, sizeof t->name - (size_t)len, " b%u", t->batch);
    return true;
}

glim_status bench_measure(struct bench *b, const struct bench_test *t, struct run_profile *p, double *seconds)
{
    struct glim_err *e = &b->cli->err;
    const float *logits;
    for (uint32_t k = 0; k < t->batch; k++) {
        uint32_t held = run_streams_cut(b->streams, k, t->depth);
        TRY(run_streams_prefill(b->streams, k, b->tokens + k + held, t->depth - held, &logits, e));
    }
    glim_status st = GLIM_OK;
    run_streams_profile(b->streams, p);
    double begin = cli_now();
    if (t->prefill)
        st = run_streams_prefill(b->streams, 0, b->tokens + t->depth, t->n, &logits, e);
    for (uint32_t i = 0; !t->prefill && i < t->n && st == GLIM_OK; i++)
        st = run_streams_step(b->streams, b->tokens + t->depth + i, t->batch, &logits, e);
    *seconds = cli_now() - begin;
    run_streams_profile(b->streams, NULL);
    return st;
}

/* ---- rates ---- */

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

static void put_row(struct bench *b, const struct bench_test *t, const struct stats *s, struct str *rows)
{
    const struct glim_model_info *info = glim_model_info(b->cli->model);
    if (!b->json) {
        printf("%-12s %10.1f tok/s  (mean %.1f, min %.1f, max %.1f)\n", t->name, s->median, s->mean, s->min, s->max);
        return;
    }
    str_puts(rows, rows->n ? ",\n {\"model\":" : "[{\"model\":");
    str_json(rows, info->name, strlen(info->name));
    str_printf(rows, ",\"backend\":\"%s\",\"threads\":%d,\"test\":\"%s\",\"depth\":%u,\"batch\":%u,", info->backend,
               run_streams_threads(b->streams), t->name, t->depth, t->batch);
    str_printf(rows,
               "\"tok_s_mean\":%.3f,\"tok_s_median\":%.3f,\"tok_s_min\":%.3f,\"tok_s_max\":%.3f,\"kernels\":", s->mean,
               s->median, s->min, s->max);
    cli_json_kernels(rows, b->cli->model);
    str_putc(rows, '}');
}

static glim_status run_tests(struct bench *b)
{
    struct glim_err *e = &b->cli->err;
    struct str rows = {0};
    struct bench_test t;
    glim_status st = GLIM_OK;
    double *rate = mem_alloc((size_t)b->repeat * sizeof *rate), seconds;
    if (!rate)
        return err_nomem(e, "bench", (size_t)b->repeat * sizeof *rate);
    for (size_t i = 0; bench_next(b, i, &t); i++) {
        for (int64_t r = -1; r < b->repeat; r++) {
            TRY_OUT(bench_measure(b, &t, NULL, &seconds));
            if (r >= 0)
                rate[r] = seconds > 0 ? (double)t.n * t.batch / seconds : 0;
        }
        struct stats s = stats_of(rate, (size_t)b->repeat);
        put_row(b, &t, &s, &rows);
    }
    if (b->json)
        str_puts(&rows, "]\n");
    TRY_OUT(cli_print(&rows, e));
out:
    str_fini(&rows);
    mem_free(rate);
    return st;
}

/* ---- beginning ---- */

static glim_status read_list(const char *option, struct bench_list *l, int64_t min, int64_t max, struct glim_err *e)
{
    const size_t most = sizeof l->v / sizeof *l->v;
    for (const char *p = l->text; p; p = *p ? p + 1 : NULL) {
        char item[24];
        size_t n = strcspn(p, ",");
        snprintf(item, sizeof item, "%.*s", (int)(n < sizeof item ? n : sizeof item - 1), p);
        int64_t v;
        if (n >= sizeof item || !parse_i64(item, &v) || v < min || v > max)
            return err_set(e, GLIM_USAGE,
                           "option --%s: have '%s', need whole numbers from %lld to %lld with commas between", option,
                           l->text, (long long)min, (long long)max);
        if (l->n == most)
            return err_set(e, GLIM_USAGE, "option --%s: have '%s', need at most %zu numbers", option, l->text, most);
        l->v[l->n++] = v;
        p += n;
    }
    return GLIM_OK;
}

static int64_t largest(const struct bench_list *l)
{
    int64_t v = 0;
    for (size_t i = 0; i < l->n; i++)
        v = l->v[i] > v ? l->v[i] : v;
    return v;
}

static glim_status begin(struct cli *c, struct bench *b, int argc, char **argv)
{
    const struct arg arg[] = {
        {'m', "model", ARG_TEXT, &b->model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {'p', "n-prompt", ARG_INT, &b->n_prompt, "N", 0, 1e7, "tokens of the prefill test (512); 0: no such test"},
        {'n', "n-gen", ARG_INT, &b->n_gen, "N", 0, 1e7, "steps of the decode test (64); 0: no such test"},
        {'d', "depth", ARG_TEXT, &b->depth.text, "N,…", 0, 0, "tokens already in each context (0)"},
        {'b', "batch", ARG_TEXT, &b->batch.text, "N,…", 0, 0,
         "sequences that decode together (1): tok/s of all; prefill has one"},
        {'r', "repeat", ARG_INT, &b->repeat, "N", 1, 10000, "measured repetitions (5)"},
        {0, "roofline", ARG_FLAG, &b->roofline, NULL, 0, 0,
         "measure this machine's limits, then the time of each op against them"},
        {0, "engine", ARG_FLAG, &b->engine, NULL, 0, 0,
         "measure decode through an engine, its prefix cache, and answers beside a long prompt"},
        {0, "formats", ARG_FLAG, &b->formats, NULL, 0, 0, "measure the product of each number format; needs no model"},
        {0, "json", ARG_FLAG, &b->json, NULL, 0, 0, "JSON: a list, a row a test; with --roofline an object"},
    };
    const struct arg_spec spec = {
        "bench",
        "-m MODEL [-p N] [-n N] [-d N,…] [-b N,…] [-r N] [-t T] [--roofline | --engine] [OPTION …]\n"
        "       glim bench --formats [-t T] [--json]",
        "Measure prefill (pp) and decode (tg) in tokens a second.",
        arg,
        sizeof arg / sizeof *arg,
        true,
        0};
    TRY(cli_begin(c, &spec, argc, argv));
    if (c->args.help)
        return GLIM_OK;
    TRY(read_list("depth", &b->depth, 0, DEPTH_MAX, &c->err));
    TRY(read_list("batch", &b->batch, 1, BATCH_MAX, &c->err));
    if (b->n_prompt == 0 && b->n_gen == 0)
        return err_set(&c->err, GLIM_USAGE, "bench: tests: have -p 0 and -n 0, need one of them above 0");
    if (b->engine && (b->roofline || b->n_prompt == 0 || b->n_gen == 0))
        return err_set(&c->err, GLIM_USAGE, "bench: --engine: have %s, need %s",
                       b->roofline ? "--roofline too" : "no prompt or no tokens to generate",
                       b->roofline ? "one of them" : "both");
    if (b->formats && (b->roofline || b->model))
        return err_set(&c->err, GLIM_USAGE, "bench: --formats: have %s too, need one of them",
                       b->model ? "a model" : "--roofline");
    return GLIM_OK;
}

/* Tokens, and streams that hold the longest test. */
static glim_status prepare(struct bench *b)
{
    struct glim_err *e = &b->cli->err;
    size_t batch = b->n_gen > 0 ? (size_t)largest(&b->batch) : 1;
    size_t n_ctx = (size_t)(largest(&b->depth) + (b->n_prompt > b->n_gen ? b->n_prompt : b->n_gen)), n = n_ctx + batch;
    if (b->engine)
        n += model_default_ctx(cli_levers(b->cli), &b->cli->model->plan);
    TRY(run_streams_create(&b->streams, b->cli->model, (uint32_t)batch, (uint32_t)n_ctx, e));
    b->tokens = mem_alloc(n * sizeof *b->tokens);
    if (!b->tokens)
        return err_nomem(e, "bench", n * sizeof *b->tokens);
    uint64_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        b->tokens[i] = (int32_t)((x >> 33) % glim_model_info(b->cli->model)->n_vocab);
    }
    return GLIM_OK;
}

static glim_status put_head(const struct bench *b)
{
    const struct glim_model_info *info = glim_model_info(b->cli->model);
    struct str s = {0};
    str_printf(&s, "%s  %s  %d threads\n", info->name, info->backend, run_streams_threads(b->streams));
    cli_text_kernels(&s, b->cli->model);
    return cli_print(&s, &b->cli->err);
}

int cmd_bench(int argc, char **argv)
{
    struct cli c = {0};
    struct bench b = {
        .cli = &c, .n_prompt = 512, .n_gen = 64, .repeat = 5, .depth = {.text = "0"}, .batch = {.text = "1"}};
    glim_status st;
    TRY_OUT(begin(&c, &b, argc, argv));
    if (c.args.help)
        goto out;
    if (b.formats) {
        st = bench_formats(&c, (int)cli_levers(&c)->threads, b.json);
        goto out;
    }
    TRY_OUT(cli_open(&c, b.model));
    TRY_OUT(prepare(&b));
    if (!b.json)
        TRY_OUT(put_head(&b));
    st = b.roofline ? bench_roofline(&b) : b.engine ? bench_engine(&b) : run_tests(&b);
out:
    run_streams_free(b.streams);
    mem_free(b.tokens);
    return cli_end(&c, st);
}
