/* add, scale, softcap, glu and gather: ops whose elements stand alone.
 *
 * The rectangle [n, dim] is cut into row pieces of at most PIECE columns and every member takes an equal run of them,
 * so that one wide row and many narrow ones both spread over the crew. */
#include "cpu/cpu_impl.h"

#include "base/arith.h"

#include <string.h>

enum { PIECE = 1024 };

enum kind { ADD, SCALE, SOFTCAP, GLU, GATHER };

struct elementwise_job {
    enum kind kind;
    const struct elementwise_kernels *k;
    struct rows y, a, b; /* y is the output; a and b inputs where the kind has them */
    float arg;
    enum act_fn fn;
    const uint32_t *row; /* GATHER */
};

static float *cell(struct rows x, size_t r, size_t col)
{
    return x.p + r * x.stride + col;
}

/* Columns [col, col + n) of row r. */
static void piece(const struct elementwise_job *j, size_t r, size_t col, size_t n)
{
    float *y = cell(j->y, r, col);
    switch (j->kind) {
    case ADD:
        j->k->add(y, cell(j->a, r, col), n);
        break;
    case SCALE:
        j->k->scale(y, n, j->arg);
        break;
    case SOFTCAP:
        j->k->softcap(y, n, j->arg);
        break;
    case GLU:
        j->k->glu(y, cell(j->a, r, col), cell(j->b, r, col), n, j->fn);
        break;
    case GATHER:
        memcpy(y, cell(j->a, j->row[r], col), n * sizeof *y);
        break;
    }
}

static void elementwise_member(void *arg, int member, int n_member)
{
    const struct elementwise_job *j = arg;
    size_t per_row = ceil_div(j->y.dim, PIECE), first, last;
    cpu_share(j->y.n * per_row, member, n_member, &first, &last);
    for (size_t i = first; i < last; i++) {
        size_t col = i % per_row * PIECE, left = j->y.dim - col;
        piece(j, i / per_row, col, left < PIECE ? left : PIECE);
    }
}

/* ns: rough cost of an element. */
static void elementwise(struct op_ctx *c, struct elementwise_job *j, double ns)
{
    j->k = cpu_of(c)->k->elementwise;
    cpu_run(c, elementwise_member, j, ns * j->y.n * j->y.dim);
}

void cpu_add(struct op_ctx *c, struct rows y, struct rows x)
{
    struct elementwise_job j = {.kind = ADD, .y = y, .a = x};
    elementwise(c, &j, 0.1);
}

void cpu_scale(struct op_ctx *c, struct rows x, float s)
{
    struct elementwise_job j = {.kind = SCALE, .y = x, .arg = s};
    elementwise(c, &j, 0.1);
}

void cpu_softcap(struct op_ctx *c, struct rows x, float cap)
{
    struct elementwise_job j = {.kind = SOFTCAP, .y = x, .arg = cap};
    elementwise(c, &j, 0.7);
}

void cpu_glu(struct op_ctx *c, struct rows y, struct rows g, struct rows u, enum act_fn fn)
{
    struct elementwise_job j = {.kind = GLU, .y = y, .a = g, .b = u, .fn = fn};
    elementwise(c, &j, 0.5);
}

void cpu_gather(struct op_ctx *c, struct rows y, struct rows x, const uint32_t *row)
{
    struct elementwise_job j = {.kind = GATHER, .y = y, .a = x, .row = row};
    elementwise(c, &j, 0.1);
}
