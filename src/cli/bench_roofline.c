/* glim bench --roofline: where the time of a test goes, and how near each op is to what this machine can do.
 *
 * An op's limit is the longest of four times: its weights and cache read from memory, its activations moved in the
 * caches, its byte products and its f32 operations, each at the machine's measured best. Ops run one after the other,
 * so a test's limit is the sum. */
#include "cli/bench.h"

#include "base/str.h"
#include "cpu/peak.h"

#include <stdio.h>
#include <string.h>

struct limit {
    const char *by; /* "memory", "cache", "int8", "f32" */
    double seconds;
};

static struct limit limit_of(const struct run_cost *k, const struct cpu_peaks *p)
{
    const struct limit all[] = {{"memory", k->memory / p->memory},
                                {"cache", k->rows / p->cache},
                                {"int8", k->int8 / p->int8},
                                {"f32", k->f32 / p->f32}};
    struct limit l = all[0];
    for (size_t i = 1; i < sizeof all / sizeof *all; i++)
        if (all[i].seconds > l.seconds)
            l = all[i];
    return l;
}

/* ---- one test ---- */

struct result {
    struct bench_test t;
    double passes; /* prefills or decode steps measured; every figure below is of one */
    double seconds, ops_seconds, limit_seconds;
    struct run_cost cost[RUN_OP_COUNT];
    struct limit limit[RUN_OP_COUNT];
};

static glim_status measure(struct bench *b, const struct cpu_peaks *peaks, struct result *r)
{
    struct run_profile p;
    double seconds;
    TRY(bench_measure(b, &r->t, NULL, &seconds));
    run_profile_init(&p, b->cli->model);
    for (int64_t i = 0; i < b->repeat; i++) {
        TRY(bench_measure(b, &r->t, &p, &seconds));
        r->seconds += seconds;
    }
    r->passes = (double)b->repeat * (r->t.prefill ? 1 : r->t.n);
    r->seconds /= r->passes;
    for (int i = 0; i < RUN_OP_COUNT; i++) {
        const struct run_cost *k = &p.cost[i];
        r->cost[i] = (struct run_cost){
            k->calls,          k->seconds / r->passes, k->memory / r->passes, k->rows / r->passes, k->int8 / r->passes,
            k->f32 / r->passes};
        r->limit[i] = limit_of(&r->cost[i], peaks);
        r->ops_seconds += r->cost[i].seconds;
        r->limit_seconds += r->limit[i].seconds;
    }
    return GLIM_OK;
}

static double tokens_of(const struct bench_test *t)
{
    return t->prefill ? t->n : t->batch;
}

/* ---- text ---- */

static void text_machine(struct str *s, const struct cpu_peaks *p)
{
    str_printf(s, "limits: %.1f GB/s from memory, %.0f GB/s from cache\n", p->memory * 1e-9, p->cache * 1e-9);
    str_printf(s, "        int8 %.0f GOP/s (%s), f32 %.0f GOP/s (%s)", p->int8 * 1e-9, p->int8_name, p->f32 * 1e-9,
               p->f32_name);
    if (p->bf16 > 0)
        str_printf(s, ", bf16 %.0f GOP/s (%s)\n", p->bf16 * 1e-9, p->bf16_name);
    else
        str_puts(s, ", bf16 none\n");
}

static void text_result(struct str *s, const struct result *r)
{
    str_printf(s, "\n%s: times of one %s\n", r->t.name, r->t.prefill ? "prefill" : "step");
    str_printf(s, "  %-11s %9s %6s %10s %7s %9s %7s  %s\n", "op", "ms", "share", "MB", "GB/s", "Gop", "GOP/s",
               "of limit");
    for (int i = 0; i < RUN_OP_COUNT; i++) {
        const struct run_cost *k = &r->cost[i];
        if (k->calls == 0)
            continue;
        double bytes = k->memory + k->rows, ops = k->int8 + k->f32;
        str_printf(s, "  %-11s %9.4f %5.1f%% %10.3f %7.1f %9.4f %7.1f  %3.0f%% %s\n", run_op_name((enum run_op)i),
                   k->seconds * 1e3, 100 * k->seconds / r->seconds, bytes * 1e-6, bytes / k->seconds * 1e-9, ops * 1e-9,
                   ops / k->seconds * 1e-9, 100 * r->limit[i].seconds / k->seconds, r->limit[i].by);
    }
    double other = r->seconds - r->ops_seconds, n = tokens_of(&r->t);
    str_printf(s, "  %-11s %9.4f %5.1f%%\n", "other", other * 1e3, 100 * other / r->seconds);
    str_printf(s, "  %-11s %9.4f  %.1f tok/s, %.0f%% of the limit's %.1f\n", "total", r->seconds * 1e3, n / r->seconds,
               100 * r->limit_seconds / r->seconds, n / r->limit_seconds);
}

/* ---- JSON ---- */

static void json_machine(struct str *s, const struct cpu_peaks *p)
{
    char cpu[128];
    cpu_model_name(cpu, sizeof cpu);
    str_puts(s, "{\"cpu\":");
    str_json(s, cpu, strlen(cpu));
    str_printf(s, ",\"memory_gb_s\":%.2f,\"cache_gb_s\":%.2f,\"int8_gop_s\":%.1f,\"f32_gop_s\":%.1f,", p->memory * 1e-9,
               p->cache * 1e-9, p->int8 * 1e-9, p->f32 * 1e-9);
    if (p->bf16 > 0)
        str_printf(s, "\"bf16_gop_s\":%.1f", p->bf16 * 1e-9);
    else
        str_puts(s, "\"bf16_gop_s\":null");
    str_printf(s, ",\"int8\":\"%s\",\"f32\":\"%s\",\"bf16\":\"%s\"}", p->int8_name, p->f32_name, p->bf16_name);
}

static void json_result(struct str *s, const struct result *r)
{
    double n = tokens_of(&r->t), other = r->seconds - r->ops_seconds;
    str_printf(s, "{\"test\":\"%s\",\"depth\":%u,\"batch\":%u,\"tokens\":%.0f,\"passes\":%.0f,\"seconds\":%.9g,",
               r->t.name, r->t.depth, r->t.batch, n, r->passes, r->seconds);
    str_printf(s, "\"tok_s\":%.3f,\"limit_tok_s\":%.3f,\"percent_of_limit\":%.2f,\"ops\":[", n / r->seconds,
               n / r->limit_seconds, 100 * r->limit_seconds / r->seconds);
    for (int i = 0; i < RUN_OP_COUNT; i++) {
        const struct run_cost *k = &r->cost[i];
        if (k->calls == 0)
            continue;
        double bytes = k->memory + k->rows, ops = k->int8 + k->f32;
        str_printf(s, "\n   {\"op\":\"%s\",\"calls\":%.6g,\"seconds\":%.9g,\"share\":%.6f,\"bytes\":%.0f,\"ops\":%.0f,",
                   run_op_name((enum run_op)i), (double)k->calls / r->passes, k->seconds, k->seconds / r->seconds,
                   bytes, ops);
        str_printf(s,
                   "\"gb_s\":%.3f,\"gop_s\":%.3f,\"limit\":\"%s\",\"limit_seconds\":%.9g,\"percent_of_limit\":%.2f},",
                   bytes / k->seconds * 1e-9, ops / k->seconds * 1e-9, r->limit[i].by, r->limit[i].seconds,
                   100 * r->limit[i].seconds / k->seconds);
    }
    str_printf(s, "\n   {\"op\":\"other\",\"seconds\":%.9g,\"share\":%.6f}]}", other, other / r->seconds);
}

/* ---- all of it ---- */

static glim_status measure_machine(struct bench *b, struct cpu_peaks *peaks)
{
    struct crew *crew;
    TRY(crew_create(&crew, run_streams_threads(b->streams), &b->cli->err));
    glim_status st = cpu_peaks(crew, peaks, &b->cli->err);
    crew_free(crew);
    return st;
}

static void json_head(struct str *s, const struct bench *b, const struct cpu_peaks *peaks)
{
    const struct glim_model_info *info = glim_model_info(b->cli->model);
    str_puts(s, "{\"model\":");
    str_json(s, info->name, strlen(info->name));
    str_printf(s, ",\"backend\":\"%s\",\"threads\":%d,\"kernels\":", info->backend, run_streams_threads(b->streams));
    cli_json_kernels(s, b->cli->model);
    str_puts(s, ",\n \"machine\":");
    json_machine(s, peaks);
    str_puts(s, ",\n \"tests\":[");
}

glim_status bench_roofline(struct bench *b)
{
    struct cpu_peaks peaks;
    struct str s = {0};
    struct result r = {0};
    glim_status st;
    TRY_OUT(measure_machine(b, &peaks));
    if (b->json)
        json_head(&s, b, &peaks);
    else
        text_machine(&s, &peaks);
    for (size_t i = 0; bench_next(b, i, &r.t); i++) {
        TRY_OUT(measure(b, &peaks, &r));
        if (b->json) {
            str_puts(&s, i ? ",\n  " : "\n  ");
            json_result(&s, &r);
        } else {
            text_result(&s, &r);
            TRY_OUT(cli_print(&s, &b->cli->err));
        }
        r = (struct result){0};
    }
    if (b->json)
        str_puts(&s, "]}\n");
    TRY_OUT(cli_print(&s, &b->cli->err));
out:
    str_fini(&s);
    return st;
}
