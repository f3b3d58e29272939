/* The profile: a table of ops around the real backend's that adds up time, bytes and operations of each.
 *
 * The counts are what the mathematics needs, not what a kernel happens to do: weights once a call, a cache's visible
 * positions once a span, activations once in and once out. So a rate made of them is a lower bound of what the machine
 * did, and the machine's limits over them are upper bounds of what any kernel could reach. An op the table does not
 * know runs untimed; its time is then missing from the sum. */
#include "run/run.h"

#include <stddef.h>
#include <time.h>

const char *run_op_name(enum run_op op)
{
    static const char *const name[RUN_OP_COUNT] = {
        [RUN_EMBED] = "embed",
        [RUN_ROPE_TABLE] = "rope_table",
        [RUN_RMSNORM] = "rmsnorm",
        [RUN_QKV] = "qkv",
        [RUN_ATTN_PREPARE] = "attn_prepare",
        [RUN_ATTENTION] = "attention",
        [RUN_ATTN_OUT] = "attn_out",
        [RUN_ADD] = "add",
        [RUN_GATE_UP] = "gate_up",
        [RUN_GLU] = "glu",
        [RUN_DOWN] = "down",
        [RUN_GATHER] = "gather",
        [RUN_HEAD] = "head",
        [RUN_SOFTCAP] = "softcap",
        [RUN_SCALE] = "scale",
    };
    return name[op];
}

/* ---- counting ---- */

/* f32 operations of the functions in op_math.h, an element; a fused multiply-add is two. */
enum {
    OPS_NORM = 4,
    OPS_EXP = 23,
    OPS_TANH = OPS_EXP + 7,
    OPS_SILU = OPS_EXP + 3,
    OPS_GELU_TANH = OPS_TANH + 9,
    OPS_GELU_ERF = 44
};

/* With the multiplication by the other half. */
static double glu_ops(enum act_fn fn)
{
    static const double ops[] = {
        [ACT_FN_SILU] = OPS_SILU, [ACT_FN_GELU_TANH] = OPS_GELU_TANH, [ACT_FN_GELU_ERF] = OPS_GELU_ERF};
    return ops[fn] + 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct run_profile *of(const struct op_ctx *c)
{
    return (struct run_profile *)c->be;
}

static void add(struct op_ctx *c, enum run_op op, double begin, struct run_cost more)
{
    struct run_cost *k = &of(c)->cost[op];
    k->calls++;
    k->seconds += now() - begin;
    k->memory += more.memory;
    k->rows += more.rows;
    k->int8 += more.int8;
    k->f32 += more.f32;
}

/* An op over n numbers that reads or writes each of them `moves` times and does `ops` operations with it. */
static struct run_cost each(struct rows x, double moves, double ops)
{
    double n = (double)x.n * x.dim;
    return (struct run_cost){.rows = n * moves * sizeof(float), .f32 = n * ops};
}

/* Which product of the plan a weight is: weights lie in the plan's array of layers. */
static enum run_op product_of(const struct plan *p, const struct weight *w)
{
    if (w == &p->head)
        return RUN_HEAD;
    switch ((size_t)((const char *)w - (const char *)p->weights) % sizeof *p->weights) {
    case offsetof(struct layer_weights, attn.q):
    case offsetof(struct layer_weights, attn.k): /* alone where few rows of the last layer go on */
        return RUN_QKV;
    case offsetof(struct layer_weights, attn.o):
        return RUN_ATTN_OUT;
    case offsetof(struct layer_weights, ffn.gate):
        return RUN_GATE_UP;
    }
    return RUN_DOWN;
}

static struct run_cost product_cost(const struct linear_job *job, uint32_t n_job, struct rows x)
{
    struct run_cost k = each(x, 1, 0);
    for (uint32_t i = 0; i < n_job; i++) {
        const struct weight *w = job[i].w;
        double ops = 2.0 * x.n * w->n_in * w->n_out;
        k.memory += (double)w->bytes;
        k.rows += (double)x.n * w->n_out * sizeof(float) * (job[i].add ? 2 : 1);
        if (w->act == ACT_F32)
            k.f32 += ops;
        else
            k.int8 += ops * (w->act == ACT_Q16 ? 2 : 1);
    }
    return k;
}

/* Of K and V together. */
static double position_bytes(const struct kv_layer *kv)
{
    return 2.0 * (double)kv->page_bytes / KV_PAGE;
}

/* Scores and values are a multiply-add an element of a visible key and value; softmax is an exponential and about
 * three operations a score. */
static struct run_cost attention_cost(struct rows q, const struct kv_layer *kv, const struct batch *b,
                                      const struct attn_params *a)
{
    struct run_cost k = each(q, 2, 0);
    for (uint32_t i = 0; i < b->n_span; i++) {
        const struct span *s = &b->span[i];
        uint32_t lo = a->window && s->pos >= a->window ? s->pos - a->window + 1 : 0;
        double seen = 0;
        for (uint32_t p = s->pos; p < s->pos + s->n; p++)
            seen += a->window && p >= a->window ? a->window : p + 1;
        k.memory += (s->pos + s->n - lo) * position_bytes(kv);
        k.f32 += seen * a->n_head * (OPS_EXP + 3);
        *(kv->type == KV_Q8 ? &k.int8 : &k.f32) += seen * a->n_head * 4.0 * kv->head_dim;
    }
    return k;
}

/* ---- the ops ---- */

static void embed(struct op_ctx *c, struct rows y, const struct weight *table, const int32_t *token, float scale)
{
    double t = now();
    of(c)->real->embed(c, y, table, token, scale);
    struct run_cost k = each(y, 1, 2);
    k.memory = (double)table->bytes / table->n_out * y.n;
    add(c, RUN_EMBED, t, k);
}

static void rmsnorm(struct op_ctx *c, struct rows y, struct rows x, const float *w, float eps)
{
    double t = now();
    of(c)->real->rmsnorm(c, y, x, w, eps);
    add(c, RUN_RMSNORM, t, each(x, 2, OPS_NORM));
}

static void add_rows(struct op_ctx *c, struct rows y, struct rows x)
{
    double t = now();
    of(c)->real->add(c, y, x);
    add(c, RUN_ADD, t, each(x, 3, 1));
}

static void linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x)
{
    double t = now();
    of(c)->real->linear(c, job, n_job, x);
    add(c, product_of(of(c)->plan, job->w), t, product_cost(job, n_job, x));
}

static void norm_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows x, const float *w,
                        float eps)
{
    double t = now();
    of(c)->real->norm_linear(c, job, n_job, x, w, eps);
    struct run_cost k = product_cost(job, n_job, x);
    k.f32 += each(x, 0, OPS_NORM).f32;
    add(c, product_of(of(c)->plan, job->w), t, k);
}

static void glu_linear(struct op_ctx *c, const struct linear_job *job, uint32_t n_job, struct rows g, struct rows u,
                       enum act_fn fn)
{
    double t = now();
    of(c)->real->glu_linear(c, job, n_job, g, u, fn);
    struct run_cost k = product_cost(job, n_job, g), gate = each(u, 1, glu_ops(fn));
    k.rows += gate.rows;
    k.f32 += gate.f32;
    add(c, product_of(of(c)->plan, job->w), t, k);
}

static void rope_table(struct op_ctx *c, struct rows out, const int32_t *pos, const float *inv_freq, float mscale)
{
    double t = now();
    of(c)->real->rope_table(c, out, pos, inv_freq, mscale);
    add(c, RUN_ROPE_TABLE, t, each(out, 1, 0));
}

static void attn_prepare(struct op_ctx *c, const struct attn_prepare *p)
{
    double t = now();
    of(c)->real->attn_prepare(c, p);
    double ops = (p->norm ? OPS_NORM : 0) + (p->rope.p ? 3 : 0);
    struct run_cost cost = each(p->q, 2, ops), k = each(p->k, 2, ops);
    cost.rows += k.rows;
    cost.f32 += k.f32;
    if (p->k.n > 0) /* V is read, and the two leave position_bytes */
        cost.rows += each(p->v, 1, 0).rows + p->k.n * position_bytes(p->kv);
    add(c, RUN_ATTN_PREPARE, t, cost);
}

static void attention(struct op_ctx *c, struct rows y, struct rows q, const struct kv_layer *kv, const struct batch *b,
                      struct page_map map, const struct attn_params *p)
{
    double t = now();
    of(c)->real->attention(c, y, q, kv, b, map, p);
    add(c, RUN_ATTENTION, t, attention_cost(q, kv, b, p));
}

static void glu(struct op_ctx *c, struct rows y, struct rows g, struct rows u, enum act_fn fn)
{
    double t = now();
    of(c)->real->glu(c, y, g, u, fn);
    add(c, RUN_GLU, t, each(y, 3, glu_ops(fn)));
}

static void softcap(struct op_ctx *c, struct rows x, float cap)
{
    double t = now();
    of(c)->real->softcap(c, x, cap);
    add(c, RUN_SOFTCAP, t, each(x, 2, OPS_TANH + 2));
}

static void scale(struct op_ctx *c, struct rows x, float s)
{
    double t = now();
    of(c)->real->scale(c, x, s);
    add(c, RUN_SCALE, t, each(x, 2, 1));
}

static void gather(struct op_ctx *c, struct rows y, struct rows x, const uint32_t *row)
{
    double t = now();
    of(c)->real->gather(c, y, x, row);
    add(c, RUN_GATHER, t, each(y, 2, 0));
}

void run_profile_init(struct run_profile *p, const struct glim_model *m)
{
    *p = (struct run_profile){.be = *m->be, .real = m->be, .plan = &m->plan};
    p->be.embed = embed;
    p->be.rmsnorm = rmsnorm;
    p->be.add = add_rows;
    p->be.linear = linear;
    p->be.norm_linear = norm_linear;
    p->be.glu_linear = glu_linear;
    p->be.rope_table = rope_table;
    p->be.attn_prepare = attn_prepare;
    p->be.attention = attention;
    p->be.glu = glu;
    p->be.softcap = softcap;
    p->be.scale = scale;
    p->be.gather = gather;
}
