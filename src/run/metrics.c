#include "run/metrics.h"

#include <stdio.h>

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

/* Seconds; among them the bounds that vLLM uses. */
static const double step_edges[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                    0.3,    0.4,   0.5,    0.75,  1,    2.5,   5,    7.5,   10,  20,   40};
static const double request_edges[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                       1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
static const double overhead_edges[] = {1e-6, 2e-6, 5e-6,  1e-5,  2e-5,  5e-5, 1e-4,
                                        2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01};
static const double rows_edges[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

#define LENGTH(a)      (sizeof(a) / sizeof *(a))
#define EDGES_NONE     NULL, 0
#define EDGES_STEP     step_edges, LENGTH(step_edges)
#define EDGES_REQUEST  request_edges, LENGTH(request_edges)
#define EDGES_OVERHEAD overhead_edges, LENGTH(overhead_edges)
#define EDGES_ROWS     rows_edges, LENGTH(rows_edges)

static const struct metric_info table[METRIC_COUNT] = {
#define INFO(id, kind, name, label, vllm, edges, help)                                                                 \
    [METRIC_##id] = {name, label, vllm, help, METRIC_##kind, EDGES_##edges},
    METRIC_TABLE(INFO)
#undef INFO
};

_Static_assert(LENGTH(step_edges) <= METRIC_EDGES && LENGTH(request_edges) <= METRIC_EDGES, "room in struct metrics");

const struct metric_info *metric_info(enum metric m)
{
    return &table[m];
}

/* ---- updates ---- */

static uint64_t bits_of(double v)
{
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static double double_of(uint64_t b)
{
    double v;
    memcpy(&v, &b, sizeof v);
    return v;
}

void metrics_add(struct metrics *m, enum metric counter, uint64_t n)
{
    assert(table[counter].kind == METRIC_COUNTER);
    atomic_fetch_add_explicit(&m->of[counter].value, n, memory_order_relaxed);
}

void metrics_set(struct metrics *m, enum metric gauge, double value)
{
    assert(table[gauge].kind == METRIC_GAUGE);
    if (isfinite(value))
        atomic_store_explicit(&m->of[gauge].value, bits_of(value), memory_order_relaxed);
}

void metrics_observe(struct metrics *m, enum metric histogram, double value)
{
    const struct metric_info *info = &table[histogram];
    assert(info->kind == METRIC_HISTOGRAM);
    if (!isfinite(value))
        return;
    uint32_t i = 0;
    while (i < info->n_edge && value > info->edge[i])
        i++;
    atomic_fetch_add_explicit(&m->of[histogram].bucket[i], 1, memory_order_relaxed);
    _Atomic uint64_t *sum = &m->of[histogram].value;
    uint64_t old = atomic_load_explicit(sum, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(sum, &old, bits_of(double_of(old) + value), memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

/* ---- reading ---- */

void metrics_read(struct metrics_view *v, const struct metrics *m)
{
    memset(v, 0, sizeof *v);
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        struct metric_view *to = &v->of[i];
        uint64_t value = atomic_load_explicit(&m->of[i].value, memory_order_relaxed);
        if (table[i].kind == METRIC_COUNTER)
            to->count = value;
        else
            to->value = double_of(value);
        if (table[i].kind != METRIC_HISTOGRAM)
            continue;
        for (uint32_t k = 0; k <= table[i].n_edge; k++) {
            to->bucket[k] = atomic_load_explicit(&m->of[i].bucket[k], memory_order_relaxed);
            to->count += to->bucket[k];
        }
    }
}

/* ---- text ---- */

/* The value of a label: backslash, quote and newline are escaped. */
static void put_escaped(struct str *out, const char *s)
{
    for (; *s; s++)
        if (*s == '\n')
            str_puts(out, "\\n");
        else {
            if (*s == '\\' || *s == '"')
                str_putc(out, '\\');
            str_putc(out, *s);
        }
}

/* name and suffix, then {…} of the labels that are not NULL; le: the bucket's bound. */
static void put_series(struct str *out, const char *name, const char *suffix, const char *model, const char *label,
                       const char *le)
{
    const char *before = "{";
    str_printf(out, "%s%s", name, suffix);
    if (model) {
        str_puts(out, "{model_name=\"");
        put_escaped(out, model);
        str_putc(out, '"');
        before = ",";
    }
    if (label) {
        str_printf(out, "%s%s", before, label);
        before = ",";
    }
    if (le) {
        str_printf(out, "%sle=\"%s\"", before, le);
        before = ",";
    }
    str_puts(out, *before == ',' ? "} " : " ");
}

static void put_histogram(struct str *out, const struct metric_info *info, const struct metric_view *v,
                          const char *name, const char *model)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i <= info->n_edge; i++) {
        char le[32] = "+Inf";
        if (i < info->n_edge)
            snprintf(le, sizeof le, "%.15g", info->edge[i]);
        below += v->bucket[i];
        put_series(out, name, "_bucket", model, info->label, le);
        str_printf(out, "%" PRIu64 "\n", below);
    }
    put_series(out, name, "_sum", model, info->label, NULL);
    str_printf(out, "%.15g\n", v->value);
    put_series(out, name, "_count", model, info->label, NULL);
    str_printf(out, "%" PRIu64 "\n", v->count);
}

static void put_metric(struct str *out, const struct metric_info *info, const struct metric_view *v, const char *name,
                       const char *model)
{
    switch (info->kind) {
    case METRIC_COUNTER:
        put_series(out, name, "", model, info->label, NULL);
        str_printf(out, "%" PRIu64 "\n", v->count);
        return;
    case METRIC_GAUGE:
        put_series(out, name, "", model, info->label, NULL);
        str_printf(out, "%.15g\n", v->value);
        return;
    case METRIC_HISTOGRAM:
        put_histogram(out, info, v, name, model);
        return;
    }
}

void metrics_print(struct str *out, const struct metrics_view *v, bool vllm, const char *model)
{
    static const char *const kind_name[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};
    const char *family = "";
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric_info *info = &table[i];
        const char *name = vllm ? info->vllm : info->name;
        if (!name)
            continue;
        if (strcmp(name, family) != 0)
            str_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, info->help, name, kind_name[info->kind]);
        family = name;
        put_metric(out, info, &v->of[i], name, model);
    }
}
