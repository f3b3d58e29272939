/* If this fails: a layer starts before the one it reads from is finished (wrong tokens), or the engine hangs between
 * two tokens. */
#include "base/crew.h"
#include "base/machine.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

struct tally {
    int seen[8], n_member;
    atomic_int inside;
};

static void count_member(void *arg, int member, int n_member)
{
    struct tally *t = arg;
    atomic_fetch_add(&t->inside, 1);
    t->seen[member]++; /* plain: each member has its own */
    if (member == 0)
        t->n_member = n_member;
    atomic_fetch_sub(&t->inside, 1);
}

static void every_member_runs_once_a_job(void **state)
{
    (void)state;
    struct glim_err e;
    for (int n = 1; n <= 8; n++) {
        struct crew *c;
        struct tally t = {0};
        int jobs = n <= 2 ? 10000 : 300;
        assert_int_equal(crew_create(&c, n, &e), GLIM_OK);
        assert_int_equal(crew_size(c), n);
        for (int i = 0; i < jobs; i++) {
            crew_run(c, count_member, &t);
            assert_int_equal(atomic_load(&t.inside), 0);
        }
        for (int i = 0; i < 8; i++)
            assert_int_equal(t.seen[i], i < n ? jobs : 0);
        assert_int_equal(t.n_member, n);
        crew_free(c);
    }
}

/* Each job reads what all members wrote in the job before: any missing ordering shows (and the thread sanitizer sees
 * it). */
struct relay {
    long a[4], b[4];
    bool flip;
};

static void add_all(void *arg, int member, int n_member)
{
    struct relay *r = arg;
    const long *src = r->flip ? r->b : r->a;
    long *dst = r->flip ? r->a : r->b;
    long sum = 0;
    for (int i = 0; i < n_member; i++)
        sum += src[i];
    dst[member] = (sum + member) % 1000003;
}

static void writes_of_one_job_are_seen_by_the_next(void **state)
{
    (void)state;
    struct glim_err e;
    long want[4];
    for (int n = 1; n <= 4; n++) {
        struct crew *c;
        struct relay r = {.a = {1, 2, 3, 4}}, plain = r;
        int jobs = n <= 2 ? 10000 : 1000;
        assert_int_equal(crew_create(&c, n, &e), GLIM_OK);
        for (int i = 0; i < jobs; i++) {
            r.flip = plain.flip = i % 2;
            crew_run(c, add_all, &r);
            for (int m = 0; m < n; m++)
                add_all(&plain, m, n);
        }
        memcpy(want, plain.a, sizeof want);
        assert_memory_equal(r.a, want, sizeof want);
        crew_free(c);
    }
}

struct sum {
    struct crew_queue q;
    unsigned char done[1003];
};

static void take_items(void *arg, int member, int n_member)
{
    (void)member;
    (void)n_member;
    struct sum *s = arg;
    for (size_t a, b; crew_take(&s->q, sizeof s->done, 7, &a, &b);)
        for (; a < b; a++)
            s->done[a]++;
}

static void the_queue_hands_out_each_item_once(void **state)
{
    (void)state;
    struct glim_err e;
    struct crew *c;
    assert_int_equal(crew_create(&c, 3, &e), GLIM_OK);
    for (int round = 0; round < 100; round++) {
        struct sum s = {0};
        crew_run(c, take_items, &s);
        for (size_t i = 0; i < sizeof s.done; i++)
            assert_int_equal(s.done[i], 1);
    }
    crew_free(c);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* Workers must be woken from deep sleep, and must not burn the processor while the engine is idle: not a hundredth of
 * one, whatever is left of their spinning included. */
static void idle_workers_sleep_and_wake_again(void **state)
{
    (void)state;
    struct glim_err e;
    struct crew *c;
    struct tally t = {0};
    assert_int_equal(crew_create(&c, 4, &e), GLIM_OK);
    for (int i = 0; i < 50; i++) {
        crew_run(c, count_member, &t);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    assert_int_equal(t.seen[3], 50);
    crew_run(c, count_member, &t);
    double before = cpu_seconds();
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    assert_true(cpu_seconds() - before < 0.01);
    crew_free(c);
}

static void note_cpu(void *arg, int member, int n_member)
{
    (void)n_member;
    ((int *)arg)[member] = sched_getcpu();
}

/* A worker on the processor of the caller would take turns with it for many milliseconds. */
static void workers_keep_off_the_callers_processor(void **state)
{
    (void)state;
    struct glim_err e;
    struct crew *c;
    enum { ROUNDS = 60 };
    int cpu[2], together = 0;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || machine_cpus() < 2)
        skip();
    assert_int_equal(crew_create(&c, 2, &e), GLIM_OK);
    for (int i = 0; i < ROUNDS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        crew_run(c, note_cpu, cpu);
        together += cpu[0] == cpu[1];
    }
    assert_true(together <= ROUNDS / 6); /* the caller may be moved in between */
    crew_free(c);
}

static void slow_member(void *arg, int member, int n_member)
{
    if (member == n_member - 1) {
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
        *(int *)arg += 1;
    }
}

static void the_caller_waits_for_the_slowest(void **state)
{
    (void)state;
    struct glim_err e;
    struct crew *c;
    int n = 0;
    assert_int_equal(crew_create(&c, 3, &e), GLIM_OK);
    for (int i = 1; i <= 20; i++) {
        crew_run(c, slow_member, &n);
        assert_int_equal(n, i);
    }
    crew_free(c);
}

static void note_name(void *arg, int member, int n_member)
{
    (void)n_member;
    char(*name)[16] = arg;
    pthread_getname_np(pthread_self(), name[member], sizeof *name);
}

static void workers_carry_names(void **state)
{
    (void)state;
    struct glim_err e;
    struct crew *c;
    char name[3][16];
    assert_int_equal(crew_create(&c, 3, &e), GLIM_OK);
    crew_run(c, note_name, name);
    assert_string_equal(name[1], "glim-crew-1");
    assert_string_equal(name[2], "glim-crew-2");
    crew_free(c);
}

static void limits_of_create(void **state)
{
    (void)state;
    struct glim_err e = {0};
    struct crew *c;
    assert_int_equal(crew_create(&c, -1, &e), GLIM_USAGE);
    assert_null(c);
    assert_int_equal(crew_create(&c, 257, &e), GLIM_USAGE);
    assert_string_equal(e.message, "cannot start the thread crew: threads: have 257, need 0..256");
    mem_fail_after(1);
    assert_int_equal(crew_create(&c, 2, &e), GLIM_FAILED);
    mem_fail_after(0);
    assert_null(c);
    assert_int_equal(crew_create(&c, 0, &e), GLIM_OK);
    assert_true(crew_size(c) >= 1 && crew_size(c) <= sysconf(_SC_NPROCESSORS_CONF));
    crew_free(c);
    crew_free(NULL);
}

static void created_and_freed_without_a_job(void **state)
{
    (void)state;
    struct glim_err e;
    for (int i = 0; i < 50; i++) {
        struct crew *c;
        assert_int_equal(crew_create(&c, 1 + i % 4, &e), GLIM_OK);
        crew_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_runs_once_a_job),
        cmocka_unit_test(writes_of_one_job_are_seen_by_the_next),
        cmocka_unit_test(the_queue_hands_out_each_item_once),
        cmocka_unit_test(idle_workers_sleep_and_wake_again),
        cmocka_unit_test(workers_keep_off_the_callers_processor),
        cmocka_unit_test(the_caller_waits_for_the_slowest),
        cmocka_unit_test(workers_carry_names),
        cmocka_unit_test(limits_of_create),
        cmocka_unit_test(created_and_freed_without_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
