/* If these fail, dashboards and alarms show numbers that are not true, or a scraper cannot read them at all. */
#include "base/mem.h"
#include "run/metrics.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct metrics m;
static struct metrics_view view;

static int begin(void **state)
{
    (void)state;
    memset(&m, 0, sizeof m);
    return 0;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* ---- the table ---- */

static void check_name(const char *name, const char *begins, enum metric_kind kind)
{
    assert_memory_equal(name, begins, strlen(begins));
    assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_:"), strlen(name));
    if (kind == METRIC_COUNTER)
        assert_true(ends_with(name, "_total"));
}

static void rows_are_well_formed(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric_info *a = metric_info(i);
        check_name(a->name, "glim_", a->kind);
        if (a->vllm)
            check_name(a->vllm, "vllm:", a->kind);
        assert_true(ends_with(a->help, ".") && !strpbrk(a->help, "\\\n"));
        assert_true(a->kind == METRIC_HISTOGRAM ? a->n_edge > 0 && a->n_edge <= METRIC_EDGES : a->n_edge == 0);
        for (uint32_t k = 1; k < a->n_edge; k++)
            assert_true(a->edge[k - 1] < a->edge[k]);
        bool gap = false;
        for (uint32_t k = i + 1; k < METRIC_COUNT; k++) { /* a family: together, alike, told apart by labels */
            const struct metric_info *b = metric_info(k);
            bool same = strcmp(a->name, b->name) == 0;
            assert_false(same && gap);
            gap = gap || !same;
            assert_true((a->vllm && b->vllm && strcmp(a->vllm, b->vllm) == 0) == (same && a->vllm));
            if (same) {
                assert_int_equal(a->kind, b->kind);
                assert_string_equal(a->help, b->help);
                assert_true(a->label && b->label && strcmp(a->label, b->label) != 0);
            }
        }
    }
}

/* ---- values ---- */

static void values_and_buckets(void **state)
{
    (void)state;
    metrics_read(&view, &m);
    for (uint32_t i = 0; i < METRIC_COUNT; i++)
        assert_true(view.of[i].count == 0 && view.of[i].value == 0);
    metrics_add(&m, METRIC_PROMPT_TOKENS, 7);
    metrics_add(&m, METRIC_PROMPT_TOKENS, (uint64_t)1 << 60);
    metrics_set(&m, METRIC_KV_USAGE, 0.75);
    metrics_set(&m, METRIC_KV_USAGE, 0.25);
    metrics_set(&m, METRIC_KV_USAGE, NAN);
    metrics_set(&m, METRIC_REQUESTS_RUNNING, -1.5);
    const struct metric_info *rows = metric_info(METRIC_STEP_ROWS);
    for (uint32_t k = 0; k < rows->n_edge; k++)
        metrics_observe(&m, METRIC_STEP_ROWS, rows->edge[k]); /* a bound belongs to the bucket it bounds */
    metrics_observe(&m, METRIC_STEP_ROWS, nextafter(rows->edge[0], 1e9));
    metrics_observe(&m, METRIC_STEP_ROWS, -3);
    metrics_observe(&m, METRIC_STEP_ROWS, 1e6);
    metrics_observe(&m, METRIC_STEP_ROWS, NAN);
    metrics_observe(&m, METRIC_STEP_ROWS, INFINITY);
    metrics_read(&view, &m);
    assert_int_equal(view.of[METRIC_PROMPT_TOKENS].count, 7 + ((uint64_t)1 << 60));
    assert_true(view.of[METRIC_KV_USAGE].value == 0.25);
    assert_true(view.of[METRIC_REQUESTS_RUNNING].value == -1.5);
    const struct metric_view *v = &view.of[METRIC_STEP_ROWS];
    double sum = 1 - 3 + 1e6;
    for (uint32_t k = 0; k < rows->n_edge; k++) {
        sum += rows->edge[k];
        assert_int_equal(v->bucket[k], k < 2 ? 2 : 1);
    }
    assert_int_equal(v->bucket[rows->n_edge], 1);
    assert_int_equal(v->count, rows->n_edge + 3);
    assert_true(fabs(v->value - sum) < 1e-6);
    for (uint32_t i = 0; i < METRIC_COUNT; i++) /* and nothing else moved */
        if (i != METRIC_PROMPT_TOKENS && i != METRIC_KV_USAGE && i != METRIC_REQUESTS_RUNNING && i != METRIC_STEP_ROWS)
            assert_true(view.of[i].count == 0 && view.of[i].value == 0);
}

/* ---- text ---- */

static void exact_text(void **state)
{
    (void)state;
    metrics_add(&m, METRIC_FINISHED_STOP, 3);
    metrics_set(&m, METRIC_LAST_STEP, 1764510578.125);
    metrics_observe(&m, METRIC_SCHEDULE_SECONDS, 0.00003);
    metrics_observe(&m, METRIC_SCHEDULE_SECONDS, 5);
    metrics_read(&view, &m);
    struct str s = {0};
    metrics_print(&s, &view, false, "a \"b\"\\c\nd");
    static const char *const part[] = {
        "# HELP glim_requests_finished_total Answers that ended, by reason.\n"
        "# TYPE glim_requests_finished_total counter\n"
        "glim_requests_finished_total{model_name=\"a \\\"b\\\"\\\\c\\nd\",finished_reason=\"length\"} 0\n",
        "{model_name=\"a \\\"b\\\"\\\\c\\nd\",finished_reason=\"stop\"} 3\n",
        "\nglim_last_step_timestamp_seconds{model_name=\"a \\\"b\\\"\\\\c\\nd\"} 1764510578.125\n",
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        assert_non_null(strstr(s.s, part[i]));
    str_clear(&s);
    metrics_print(&s, &view, false, NULL);
    const char *want = "# HELP glim_schedule_seconds Time of a step outside the forward pass, sampling and callbacks.\n"
                       "# TYPE glim_schedule_seconds histogram\n"
                       "glim_schedule_seconds_bucket{le=\"1e-06\"} 0\n"
                       "glim_schedule_seconds_bucket{le=\"2e-06\"} 0\n"
                       "glim_schedule_seconds_bucket{le=\"5e-06\"} 0\n"
                       "glim_schedule_seconds_bucket{le=\"1e-05\"} 0\n"
                       "glim_schedule_seconds_bucket{le=\"2e-05\"} 0\n"
                       "glim_schedule_seconds_bucket{le=\"5e-05\"} 1\n"
                       "glim_schedule_seconds_bucket{le=\"0.0001\"} 1\n"
                       "glim_schedule_seconds_bucket{le=\"0.0002\"} 1\n"
                       "glim_schedule_seconds_bucket{le=\"0.0005\"} 1\n"
                       "glim_schedule_seconds_bucket{le=\"0.001\"} 1\n"
                       "glim_schedule_seconds_bucket{le=\"0.002\"} 1\n"
                       "glim_schedule_seconds_bucket{le=\"0.005\"} 1\n"
                       "glim_schedule_seconds_bucket{le=\"0.01\"} 1\n"
                       "glim_schedule_seconds_bucket{le=\"+Inf\"} 2\n"
                       "glim_schedule_seconds_sum 5.00003\n"
                       "glim_schedule_seconds_count 2\n";
    assert_non_null(strstr(s.s, want));
    assert_non_null(strstr(s.s, "\nglim_requests_finished_total{finished_reason=\"stop\"} 3\n"));
    str_fini(&s);
}

/* The next line of *at, without its end; NULL at the end. */
static char *line_of(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    if (*line == 0)
        return NULL;
    assert_non_null(end); /* the last line ends, too */
    *end = 0;
    *at = end + 1;
    return line;
}

/* One family: HELP, TYPE, then its series and nothing else. Counts its rows of the table off from *row. */
static void check_family(char **at, char *line, bool vllm, uint32_t *row)
{
    char name[80], type[20];
    while (vllm && !metric_info(*row)->vllm)
        ++*row;
    const struct metric_info *info = metric_info(*row);
    assert_int_equal(sscanf(line, "# HELP %79s", name), 1);
    assert_string_equal(name, vllm ? info->vllm : info->name);
    assert_string_equal(line + strlen("# HELP ") + strlen(name) + 1, info->help);
    assert_int_equal(sscanf(line_of(at), "# TYPE %*s %19s", type), 1);
    for (; *row < METRIC_COUNT; ++*row) {
        const struct metric_info *r = metric_info(*row);
        const struct metric_view *v = &view.of[*row];
        const char *own = vllm ? r->vllm : r->name;
        if (!own || strcmp(own, name) != 0)
            break;
        uint64_t below = 0;
        for (uint32_t k = 0; r->kind == METRIC_HISTOGRAM && k <= r->n_edge; k++) {
            line = line_of(at);
            below += v->bucket[k];
            assert_int_equal(strtoull(strrchr(line, ' '), NULL, 10), below);
            const char *le = strstr(line, "le=\"") + 4;
            assert_true(k < r->n_edge ? strtod(le, NULL) == r->edge[k] : strncmp(le, "+Inf\"}", 6) == 0);
            assert_true(!r->label || strstr(line, r->label));
        }
        assert_int_equal(below, r->kind == METRIC_HISTOGRAM ? v->count : 0);
        if (r->kind != METRIC_COUNTER) {
            line = line_of(at);
            assert_memory_equal(line, name, strlen(name));
            assert_true(fabs(strtod(strrchr(line, ' '), NULL) - v->value) <= 1e-14 * fabs(v->value));
        }
        if (r->kind != METRIC_GAUGE) {
            line = line_of(at);
            assert_memory_equal(line, name, strlen(name));
            assert_int_equal(strtoull(strrchr(line, ' '), NULL, 10), v->count);
        }
    }
    static const char *const type_name[] = {"counter", "gauge", "histogram"};
    assert_string_equal(type, type_name[info->kind]);
}

static void text_says_what_the_view_says(void **state)
{
    (void)state;
    uint32_t x = 1;
    for (uint32_t i = 0; i < METRIC_COUNT; i++)
        for (uint32_t k = 0; k < 200; k++) {
            x = x * 1664525u + 1013904223u;
            double v = exp(((double)(x >> 8) * 0x1p-24 - 0.6) * 25);
            if (metric_info(i)->kind == METRIC_COUNTER)
                metrics_add(&m, i, x >> 20);
            else if (metric_info(i)->kind == METRIC_GAUGE)
                metrics_set(&m, i, v);
            else
                metrics_observe(&m, i, v);
        }
    metrics_read(&view, &m);
    for (int k = 0; k < 4; k++) {
        struct str s = {0};
        bool vllm = k % 2;
        uint32_t row = 0, families = 0;
        metrics_print(&s, &view, vllm, k / 2 ? "model" : NULL);
        assert_false(s.failed);
        char *at = s.s, *line;
        for (; (line = line_of(&at)); families++)
            check_family(&at, line, vllm, &row);
        for (; row < METRIC_COUNT; row++)
            assert_true(vllm && !metric_info(row)->vllm);
        assert_true(families > 10);
        str_fini(&s);
    }
}

static void text_without_memory(void **state)
{
    (void)state;
    metrics_read(&view, &m);
    long n = 1;
    for (;; n++) {
        struct str s = {0};
        mem_fail_after(n);
        metrics_print(&s, &view, false, "model");
        mem_fail_after(0);
        bool failed = s.failed;
        str_fini(&s);
        if (!failed)
            break;
    }
    assert_true(n > 1);
}

/* ---- threads ---- */

enum { N_WRITER = 3, N_UPDATE = 100000 };

static pthread_barrier_t start;

static void *write_some(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&start);
    for (uint32_t i = 0; i < N_UPDATE; i++) {
        metrics_add(&m, METRIC_STEPS, 1);
        metrics_set(&m, METRIC_PAGES_USED, i % 2 ? 1e300 : -1e-300); /* halves of two writes would be seen */
        metrics_observe(&m, METRIC_STEP_ROWS, 1 + i % 7);
    }
    return NULL;
}

static void *read_some(void *arg)
{
    static struct metrics_view own;
    uint64_t steps = 0, rows = 0;
    (void)arg;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 2000; i++) {
        metrics_read(&own, &m);
        const struct metric_view *v = &own.of[METRIC_STEP_ROWS];
        uint64_t sum = 0;
        for (uint32_t k = 0; k <= METRIC_EDGES; k++)
            sum += v->bucket[k];
        double used = own.of[METRIC_PAGES_USED].value;
        if (v->count != sum || v->count < rows || own.of[METRIC_STEPS].count < steps ||
            (used != 0 && used != 1e300 && used != -1e-300))
            return (void *)"a reader saw what was never there";
        rows = v->count;
        steps = own.of[METRIC_STEPS].count;
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    pthread_t t[N_WRITER + 1];
    assert_int_equal(pthread_barrier_init(&start, NULL, N_WRITER + 1), 0);
    for (int i = 0; i <= N_WRITER; i++)
        assert_int_equal(pthread_create(&t[i], NULL, i < N_WRITER ? write_some : read_some, NULL), 0);
    for (int i = 0; i <= N_WRITER; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    pthread_barrier_destroy(&start);
    metrics_read(&view, &m);
    double sum = 0;
    for (uint32_t i = 0; i < N_UPDATE; i++)
        sum += 1 + i % 7;
    assert_int_equal(view.of[METRIC_STEPS].count, N_WRITER * N_UPDATE);
    assert_int_equal(view.of[METRIC_STEP_ROWS].count, N_WRITER * N_UPDATE);
    assert_true(view.of[METRIC_STEP_ROWS].value == N_WRITER * sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_well_formed),
        cmocka_unit_test_setup(values_and_buckets, begin),
        cmocka_unit_test_setup(exact_text, begin),
        cmocka_unit_test_setup(text_says_what_the_view_says, begin),
        cmocka_unit_test_setup(text_without_memory, begin),
        cmocka_unit_test_setup(many_threads, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
