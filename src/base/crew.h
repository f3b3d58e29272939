/* The thread crew: a fixed set of threads that runs one function at a time, all together.
 *
 * The caller is member 0. Workers spin for a fifth of a millisecond for the next job, then park on a futex, so that a
 * barrier of a decode step costs well under a microsecond and an idle engine uses no CPU. Nothing that depends on the
 * number of threads may reach a result: split work over outputs, never over a reduction. */
#ifndef GLIM_BASE_CREW_H
#define GLIM_BASE_CREW_H

#include "base/status.h"

#include <stdatomic.h>

struct crew;

/* n_thread: 1..256; 0 = one for each physical core this process may use. */
glim_status crew_create(struct crew **out, int n_thread, struct glim_err *e);
void crew_free(struct crew *c);
int crew_size(const struct crew *c);

/* Run fn(arg, member, n_member) on every member and return when all are done. Not reentrant. */
typedef void crew_fn(void *arg, int member, int n_member);
void crew_run(struct crew *c, crew_fn *fn, void *arg);

/* Work sharing inside a job: items [0, n) handed out in runs of `grain`, first come first served. Each job that wants
 * it keeps one of these, zeroed before crew_run. */
struct crew_queue {
    _Alignas(64) atomic_size_t next;
};
static inline bool crew_take(struct crew_queue *q, size_t n, size_t grain, size_t *first, size_t *last)
{
    size_t a = atomic_fetch_add_explicit(&q->next, grain, memory_order_relaxed);
    if (a >= n)
        return false;
    *first = a;
    *last = n - a < grain ? n : a + grain;
    return true;
}

#endif
