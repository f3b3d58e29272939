/* Two gates join the crew: `start`, which the caller opens for a job, and `done`, which the last worker opens when it
 * is over.
 *
 * A gate is a counter. Who waits for it to change spins for a bounded time, then sleeps in the kernel on the counter
 * itself. No wake-up is lost: a waiter announces itself (parked) before the kernel compares the counter, an opener
 * changes the counter before it looks at parked, and both orders are sequentially consistent.
 *
 * How long to spin: waking a sleeper takes 20 to 100 us. A bound below that lets one late wake-up make the other side
 * sleep too, and so on for each job that follows; above it, the crew is back in step after one job.
 *
 * Where to run: a worker on the caller's processor would take turns with the very thread that spins for it. Some
 * kernels pack threads like that after idle times and leave them there for many milliseconds, and every kernel may when
 * other programs run. So a worker that meets the caller on its processor keeps off that one from then on; nothing else
 * is pinned. */
#include "base/crew.h"
#include "base/machine.h"
#include "base/mem.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MEMBER_MAX = 256, SPIN_NS = 200000, SPIN_CROWDED_NS = 2000, PAUSES_A_LOOK = 32 };

struct gate {
    _Alignas(64) atomic_uint word; /* the futex */
    atomic_uint parked;            /* sleepers in the kernel, or about to be */
};

struct worker {
    pthread_t thread;
    struct crew *crew;
    int member;
};

struct crew {
    struct gate start, done;
    _Alignas(64) atomic_uint pending; /* workers still inside the job */
    int n;
    bool crowded; /* more members than processors */
    bool stop;    /* this, cpu and the job are written before `start` opens and read after */
    int cpu;      /* the caller's processor */
    crew_fn *fn;
    void *arg;
    struct worker worker[MEMBER_MAX];
};

static void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)t.tv_sec * 1000000000L + t.tv_nsec;
}

/* ---- gates ---- */

static unsigned gate_now(struct gate *g)
{
    return atomic_load_explicit(&g->word, memory_order_acquire);
}

/* Returns once the gate's counter is not `old` any more. */
static void gate_wait(struct gate *g, unsigned old, long spin_ns)
{
    for (int i = 0; i < PAUSES_A_LOOK; i++) {
        if (gate_now(g) != old)
            return;
        cpu_pause();
    }
    for (long end = now_ns() + spin_ns; now_ns() < end;)
        for (int i = 0; i < PAUSES_A_LOOK; i++) {
            if (gate_now(g) != old)
                return;
            cpu_pause();
        }
    atomic_fetch_add(&g->parked, 1);
    while (atomic_load(&g->word) ==
           old) /* the kernel returns at once when the word is not `old`, and now and then for nothing */
        syscall(SYS_futex, &g->word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&g->parked, 1);
}

static void gate_open(struct gate *g)
{
    atomic_fetch_add(&g->word, 1);
    if (atomic_load(&g->parked) != 0)
        syscall(SYS_futex, &g->word, FUTEX_WAKE_PRIVATE, MEMBER_MAX, NULL, NULL, 0);
}

/* ---- crew ---- */

static long spin_ns(const struct crew *c)
{
    return c->crowded ? SPIN_CROWDED_NS : SPIN_NS;
}

/* Have this thread run on all its processors but one; where there is no other, nothing happens. */
static void keep_off(int cpu, const cpu_set_t *all)
{
    cpu_set_t others = *all;
    CPU_CLR((size_t)cpu, &others);
    sched_setaffinity(0, sizeof others, &others);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct crew *c = w->crew;
    char name[16];
    snprintf(name, sizeof name, "glim-crew-%d", w->member & (MEMBER_MAX - 1));
    pthread_setname_np(pthread_self(), name);
    cpu_set_t all;
    bool may_move = !c->crowded && sched_getaffinity(0, sizeof all, &all) == 0;
    for (unsigned seen = 0;; seen++) { /* one opening a job: the caller waits for all before the next */
        gate_wait(&c->start, seen, spin_ns(c));
        if (c->stop)
            return NULL;
        if (may_move && sched_getcpu() == c->cpu)
            keep_off(c->cpu, &all);
        c->fn(c->arg, w->member, c->n);
        if (atomic_fetch_sub(&c->pending, 1) == 1)
            gate_open(&c->done);
    }
}

static void stop_workers(struct crew *c, int n_started)
{
    c->stop = true;
    gate_open(&c->start);
    for (int i = 1; i < n_started; i++)
        pthread_join(c->worker[i].thread, NULL);
}

/* Signals are for the program's own threads: workers are born with all of them blocked. */
static int start_workers(struct crew *c)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int i = 1;
    for (; i < c->n; i++) {
        c->worker[i].crew = c;
        c->worker[i].member = i;
        if (pthread_create(&c->worker[i].thread, NULL, worker_main, &c->worker[i]) != 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return i;
}

glim_status crew_create(struct crew **out, int n_thread, struct glim_err *e)
{
    *out = NULL;
    if (n_thread < 0 || n_thread > MEMBER_MAX)
        return err_set(e, GLIM_USAGE, "cannot start the thread crew: threads: have %d, need 0..%d", n_thread,
                       MEMBER_MAX);
    if (n_thread == 0)
        n_thread = machine_cores() < MEMBER_MAX ? machine_cores() : MEMBER_MAX;
    struct crew *c = mem_aligned(64, sizeof *c);
    if (!c)
        return err_nomem(e, "thread crew", sizeof *c);
    memset(c, 0, sizeof *c);
    c->n = n_thread;
    c->crowded = n_thread > machine_cpus();
    int started = start_workers(c);
    if (started < n_thread) {
        stop_workers(c, started);
        mem_free(c);
        return err_set(e, GLIM_FAILED, "cannot start the thread crew: threads: have %d, need %d", started, n_thread);
    }
    *out = c;
    return GLIM_OK;
}

void crew_free(struct crew *c)
{
    if (!c)
        return;
    stop_workers(c, c->n);
    mem_free(c);
}

int crew_size(const struct crew *c)
{
    return c->n;
}

void crew_run(struct crew *c, crew_fn *fn, void *arg)
{
    if (c->n == 1) {
        fn(arg, 0, 1);
        return;
    }
    unsigned before = gate_now(&c->done);
    c->fn = fn;
    c->arg = arg;
    c->cpu = sched_getcpu();
    atomic_store_explicit(&c->pending, (unsigned)(c->n - 1), memory_order_relaxed);
    gate_open(&c->start);
    fn(arg, 0, c->n);
    gate_wait(&c->done, before, spin_ns(c));
}
