#include "run/forward.h"

#include "base/arith.h"

#include <string.h>

/* ---- scratch ---- */

struct widths { /* widest rows of each kind over the layers */
    uint32_t q, kv, inner;
    struct op_limits op;
};

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static struct widths plan_widths(const struct plan *p, uint32_t max_rows)
{
    struct widths w = {.op = {.max_rows = max_rows, .max_in = p->dim}};
    for (uint32_t i = 0; i < p->n_layer; i++) {
        const struct layer_rule *l = &p->layer[i];
        w.q = max_u32(w.q, l->attn.n_head * l->attn.head_dim);
        w.kv = max_u32(w.kv, l->attn.n_kv_head * l->attn.head_dim);
        w.inner = max_u32(w.inner, l->ffn.inner);
        w.op.max_head = max_u32(w.op.max_head, l->attn.n_head);
        w.op.max_head_dim = max_u32(w.op.max_head_dim, l->attn.head_dim);
    }
    w.op.max_in = max_u32(w.op.max_in, max_u32(w.q, w.inner));
    return w;
}

/* Cut all scratch rows from f->arena, or, when f is NULL, only sum them. */
static glim_status lay_out(struct forward *f, const struct plan *p, uint32_t max_rows, size_t *total,
                           struct glim_err *e)
{
    struct widths w = plan_widths(p, max_rows);
    struct forward sum = {0};
    struct forward *t = f ? f : &sum;
    struct {
        struct rows *r;
        uint32_t n, dim;
    } want[9 + PLAN_ROPES] = {
        {&t->h, max_rows, p->dim},          {&t->y, max_rows, p->dim},
        {&t->last, max_rows, p->dim},       {&t->blocks.q, max_rows, w.q},
        {&t->blocks.k, max_rows, w.kv},     {&t->blocks.v, max_rows, w.kv},
        {&t->blocks.att, max_rows, w.q},    {&t->blocks.gate, max_rows, w.inner},
        {&t->blocks.up, max_rows, w.inner},
    };
    for (uint32_t i = 0; i < p->n_rope; i++) {
        want[9 + i].r = &t->rope[i];
        want[9 + i].n = max_rows;
        want[9 + i].dim = 2 * p->rope[i].n_freq;
    }
    *total = 0;
    for (uint32_t i = 0; i < 9 + p->n_rope; i++) {
        size_t stride = ((size_t)want[i].dim + 15) & ~(size_t)15, bytes;
        if (!mul_size(stride * sizeof(float), want[i].n, &bytes) || !add_size(*total, bytes, total))
            return err_set(e, GLIM_REFUSED, "plan: scratch: have a size beyond 64 bits, need a smaller prefill chunk");
        *want[i].r = (struct rows){.n = want[i].n, .dim = want[i].dim, .stride = stride};
        if (f && !(want[i].r->p = arena_take(&f->arena, bytes)))
            return err_set(e, GLIM_FAILED, "plan: scratch: have %zu bytes, need more (plan and layout disagree)",
                           f->arena.size);
    }
    return GLIM_OK;
}

glim_status forward_plan(const struct plan *p, const struct backend *be, int n_thread, uint32_t max_rows,
                         struct mem_plan *mp, struct glim_err *e)
{
    size_t rows;
    struct widths w = plan_widths(p, max_rows);
    TRY(lay_out(NULL, p, max_rows, &rows, e));
    TRY(mem_plan_add(mp, MEM_SCRATCH, rows, e, "activations, %u rows", max_rows));
    return mem_plan_add(mp, MEM_SCRATCH, be->scratch_bytes(&w.op, n_thread), e, "%s kernels, %d threads", be->name,
                        n_thread);
}

glim_status forward_create(struct forward *f, const struct plan *p, const struct backend *be, struct crew *crew,
                           uint32_t max_rows, struct glim_err *e)
{
    *f = (struct forward){.plan = p, .max_rows = max_rows};
    struct widths w = plan_widths(p, max_rows);
    size_t total;
    glim_status st;
    TRY_OUT(lay_out(NULL, p, max_rows, &total, e));
    TRY_OUT(arena_init(&f->arena, total, "activations", e));
    TRY_OUT(lay_out(f, p, max_rows, &total, e));
    f->pos = mem_alloc(max_rows * sizeof *f->pos);
    f->span = mem_alloc(max_rows * sizeof *f->span);
    f->want = mem_alloc(max_rows * sizeof *f->want);
    f->pick = mem_alloc(max_rows * sizeof *f->pick);
    if (!f->pos || !f->span || !f->want || !f->pick) {
        st = err_nomem(e, "rows of a forward", max_rows * sizeof *f->span);
        goto out;
    }
    f->op.be = be;
    f->op.crew = crew;
    TRY_OUT(be->open(&f->op, &w.op, crew, e));
    f->op_open = true;
out:
    if (st != GLIM_OK)
        forward_fini(f);
    return st;
}

void forward_fini(struct forward *f)
{
    if (f->op_open)
        f->op.be->close(&f->op);
    arena_fini(&f->arena);
    mem_free(f->pos);
    mem_free(f->span);
    mem_free(f->want);
    mem_free(f->pick);
    memset(f, 0, sizeof *f);
}

/* ---- the walk ---- */

/* What attention needs of the batch b, whose rows have rope tables. */
static struct attn_io layer_io(const struct forward *f, const struct forward_job *j, uint32_t i, const struct batch *b)
{
    const struct layer_rule *l = &f->plan->layer[i];
    struct attn_io io = {.batch = b, .kv = j->kv->layer[i], .map = kv_map(j->kv, l->attn.kv_group)};
    if (l->attn.rope >= 0) {
        io.rope = rows_cut(f->rope[l->attn.rope], b->n_row, 2 * f->plan->rope[l->attn.rope].n_freq);
        io.interleaved = f->plan->rope[l->attn.rope].interleaved;
    }
    return io;
}

/* h += post(y); without a norm after the branch, the branch added to h itself. */
static void add_branch(struct forward *f, const struct layer_rule *l, const float *post_norm, struct rows h,
                       struct rows y)
{
    if (!l->sandwich)
        return;
    f->op.be->rmsnorm(&f->op, y, y, post_norm, l->norm_eps);
    f->op.be->add(&f->op, h, y);
}

static void run_mixer(struct forward *f, const struct forward_job *j, uint32_t i, struct rows h, struct rows y)
{
    const struct layer_rule *l = &f->plan->layer[i];
    const struct layer_weights *w = &f->plan->weights[i];
    struct attn_io io = layer_io(f, j, i, j->batch);
    struct block_in x = {h, w->mix_norm, l->norm_eps};
    block_attention(&f->op, &l->attn, &w->attn, &f->blocks, &io, l->sandwich ? y : h, x, !l->sandwich);
    add_branch(f, l, w->mix_post_norm, h, y);
}

static void run_ffn(struct forward *f, uint32_t i, struct rows h, struct rows y)
{
    const struct layer_rule *l = &f->plan->layer[i];
    const struct layer_weights *w = &f->plan->weights[i];
    struct block_in x = {h, w->ffn_norm, l->norm_eps};
    block_ffn(&f->op, &l->ffn, &w->ffn, &f->blocks, l->sandwich ? y : h, x, !l->sandwich);
    add_branch(f, l, w->ffn_post_norm, h, y);
}

/* ---- wanted rows ---- */

/* Entry i of an ascending list of rows, NULL being all; past its end, a row that no batch has. */
static uint32_t row_of(const uint32_t *row, uint32_t n, uint32_t i)
{
    return i >= n ? UINT32_MAX : row ? row[i] : i;
}

/* Put the rows that give logits or a state into f->want; returns their number. */
static uint32_t wanted_rows(struct forward *f, const struct forward_job *j)
{
    uint32_t n = 0, l = 0, s = 0;
    while (l < j->n_logit || s < j->n_state) {
        uint32_t a = row_of(j->logit_row, j->n_logit, l), b = row_of(j->state_row, j->n_state, s);
        f->want[n++] = a < b ? a : b;
        l += a <= b;
        s += b <= a;
    }
    return n;
}

/* Those of h, the wanted rows, that a list of batch rows names, copied to y. */
static void pick_rows(struct forward *f, struct rows y, struct rows h, const uint32_t *row)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < y.n; i++) {
        while (f->want[at] != row_of(row, y.n, i))
            at++;
        f->pick[i] = at;
    }
    f->op.be->gather(&f->op, y, h, f->pick);
}

/* The batch of the wanted rows, in f's arrays. Neighbours of one sequence share a span. */
static struct batch asked_rows(struct forward *f, const struct batch *b, uint32_t n_want)
{
    struct batch to = {.n_row = n_want, .pos = f->pos, .span = f->span};
    const struct span *from = b->span;
    for (uint32_t i = 0; i < n_want; i++) {
        uint32_t row = f->want[i];
        while (row >= from->row + from->n)
            from++;
        f->pos[i] = b->pos[row];
        struct span *last = to.n_span ? &f->span[to.n_span - 1] : NULL;
        if (last && last->seq == from->seq && last->pos + last->n == (uint32_t)b->pos[row])
            last->n++;
        else
            f->span[to.n_span++] = (struct span){.row = i, .n = 1, .pos = (uint32_t)b->pos[row], .seq = from->seq};
    }
    return to;
}

static void rope_tables(struct forward *f, const struct batch *b)
{
    const struct plan *p = f->plan;
    for (uint32_t i = 0; i < p->n_rope; i++)
        f->op.be->rope_table(&f->op, rows_cut(f->rope[i], b->n_row, 2 * p->rope[i].n_freq), b->pos, p->rope[i].inv_freq,
                             p->rope[i].mscale);
}

/* The last layer when few rows are wanted: all rows leave their K and V, and only those go on. Returns them, in
 * f->last. */
static struct rows run_last_layer(struct forward *f, const struct forward_job *j, struct rows h, uint32_t n_want)
{
    uint32_t i = f->plan->n_layer - 1;
    const struct layer_rule *l = &f->plan->layer[i];
    const struct layer_weights *w = &f->plan->weights[i];
    struct rows last = rows_cut(f->last, n_want, h.dim), y = rows_cut(f->y, n_want, h.dim);
    struct attn_io io = layer_io(f, j, i, j->batch);
    block_attention_store(&f->op, &l->attn, &w->attn, &f->blocks, &io, (struct block_in){h, w->mix_norm, l->norm_eps});
    if (n_want == 0)
        return last;
    struct batch asked = asked_rows(f, j->batch, n_want);
    rope_tables(f, &asked);
    io = layer_io(f, j, i, &asked);
    f->op.be->gather(&f->op, last, h, f->want);
    block_attention_ask(&f->op, &l->attn, &w->attn, &f->blocks, &io, l->sandwich ? y : last,
                        (struct block_in){last, w->mix_norm, l->norm_eps}, !l->sandwich);
    add_branch(f, l, w->mix_post_norm, last, y);
    run_ffn(f, i, last, y);
    return last;
}

static void trace_layer(const struct forward_job *j, uint32_t i, struct rows h)
{
    for (uint32_t r = 0; r < h.n; r++)
        memcpy(j->trace + i * j->trace_stride + (size_t)r * h.dim, h.p + r * h.stride, h.dim * sizeof(float));
}

/* Final states of the rows that ask for them; h: the wanted rows. */
static void run_states(struct forward *f, const struct forward_job *j, struct rows h)
{
    struct rows state = {.p = j->state, .n = j->n_state, .dim = h.dim, .stride = h.dim};
    pick_rows(f, state, h, j->state_row);
    f->op.be->rmsnorm(&f->op, state, state, f->plan->final_norm, f->plan->final_eps);
}

/* Logits of the rows that ask for them; h: the wanted rows. */
static void run_head(struct forward *f, const struct forward_job *j, struct rows h)
{
    const struct plan *p = f->plan;
    const struct backend *be = f->op.be;
    struct rows logits = {.p = j->logits, .n = j->n_logit, .dim = p->n_vocab, .stride = p->n_vocab};
    struct linear_job head = {.y = logits, .w = &p->head};
    if (j->n_logit < h.n) { /* f->y is free again */
        struct rows asked = rows_cut(f->y, j->n_logit, h.dim);
        pick_rows(f, asked, h, j->logit_row);
        h = asked;
    }
    be->norm_linear(&f->op, &head, 1, h, p->final_norm, p->final_eps);
    if (p->logit_softcap > 0.0f)
        be->softcap(&f->op, logits, p->logit_softcap);
}

static glim_status check_job(const struct forward *f, const struct forward_job *j, struct glim_err *e)
{
    const struct batch *b = j->batch;
    uint32_t n_vocab = f->plan->n_vocab;
    if (j->trace && (j->n_logit || j->n_state))
        return err_set(e, GLIM_REFUSED, "forward: trace: have %u rows of logits and %u of states as well, need none",
                       j->n_logit, j->n_state);
    for (uint32_t r = 0; r < b->n_row; r++)
        if (b->token[r] < 0 || (uint32_t)b->token[r] >= n_vocab)
            return err_set(e, GLIM_REFUSED, "forward: token at row %u: have id %d, need 0..%u", r, b->token[r],
                           n_vocab - 1);
    return GLIM_OK;
}

glim_status forward_run(struct forward *f, const struct forward_job *j, struct glim_err *e)
{
    const struct plan *p = f->plan;
    const struct batch *b = j->batch;
    TRY(check_job(f, j, e));
    struct rows h = rows_cut(f->h, b->n_row, p->dim);
    struct rows y = rows_cut(f->y, b->n_row, p->dim);
    uint32_t n_want = wanted_rows(f, j);
    bool few = n_want < b->n_row && !j->trace;
    f->op.be->embed(&f->op, h, &p->embed, b->token, p->embed_scale);
    rope_tables(f, b);
    for (uint32_t i = 0; i < p->n_layer - few; i++) {
        run_mixer(f, j, i, h, y);
        run_ffn(f, i, h, y);
        if (j->trace)
            trace_layer(j, i, h);
    }
    if (few)
        h = run_last_layer(f, j, h, n_want);
    if (j->n_state)
        run_states(f, j, h);
    if (j->n_logit)
        run_head(f, j, h);
    return f->op.be->sync(&f->op, e);
}
