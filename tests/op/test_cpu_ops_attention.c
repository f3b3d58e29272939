/* If this fails, attention on the CPU sees tokens it must not (the future, another sequence, what fell out of the
 * window, what a page held before), or its bits depend on instruction set, threads, chunking or on where pages lie.
 *
 * kv_append and attention over ragged batches against op_ref, bit for bit. Pools start as NaN, pages lie in random
 * order, and everything a row must not see is NaN. How to run one case: lab_cpu.h. */
#include "lab_cpu.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { SEQS = 5, PAGES = LAB_SMALL ? 8 : 16, POOL = SEQS * PAGES + 3, TOKENS = PAGES * KV_PAGE };

/* The rows of the batch: positions [pos, pos + n) of a slot; before them the cache is full. */
static const struct span spans[] = {
    {.row = 0, .n = 1, .pos = 0, .seq = 2},           /* the first token of a sequence */
    {.row = 1, .n = 1, .pos = 37, .seq = 0},          /* a decode step */
    {.row = 2, .n = 21, .pos = 5, .seq = 4},          /* a chunk that starts and ends inside pages */
    {.row = 23, .n = 1, .pos = 47, .seq = 1},         /* the last token of a page */
    {.row = 24, .n = 16, .pos = 64, .seq = 3},        /* a whole page */
    {.row = 40, .n = 3, .pos = TOKENS - 3, .seq = 1}, /* up to the last position (and a second span of slot 1) */
};
enum { ROWS = 43 };

struct scene {
    struct kv_layer kv;
    struct attn_params p;
    uint32_t page[SEQS][PAGES + 1];
    struct page_map map;
    struct batch b;
    int32_t pos[ROWS], token[ROWS];
    struct rows q, k, v; /* of the batch's rows */
    struct rows out;     /* op_ref's */
};

static void deal_pages(struct scene *s, struct rng *g)
{
    uint32_t order[POOL];
    for (uint32_t i = 0; i < POOL; i++)
        order[i] = i;
    for (uint32_t i = POOL - 1; i > 0; i--) {
        uint32_t j = rng_below(g, i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (uint32_t i = 0; i < SEQS; i++)
        for (uint32_t k = 0; k <= PAGES; k++)
            s->page[i][k] = k < PAGES ? order[i * PAGES + k] : order[POOL - 1]; /* behind the end: a page of NaN */
    s->map = (struct page_map){.page = s->page[0], .stride = PAGES + 1};
}

static struct kv_layer pools(enum kv_type type, uint32_t n_kv_head, uint32_t head_dim)
{
    struct kv_layer kv = {.type = type, .n_kv_head = n_kv_head, .head_dim = head_dim};
    kv.page_bytes = op_ref.kv_page_bytes(type, n_kv_head, head_dim);
    kv.k = lab_poison(lab_alloc(POOL * kv.page_bytes), POOL * kv.page_bytes);
    kv.v = lab_poison(lab_alloc(POOL * kv.page_bytes), POOL * kv.page_bytes);
    return kv;
}

static void pools_free(struct kv_layer *kv)
{
    mem_free(kv->k);
    mem_free(kv->v);
}

/* Store positions [first, first + n) of a slot through op_ref: random numbers, some large. */
static void fill(struct scene *s, struct rng *g, uint32_t seq, uint32_t first, uint32_t n)
{
    if (n == 0)
        return;
    uint32_t width = s->kv.n_kv_head * s->kv.head_dim;
    struct rows k = lab_rows_random(g, n, width, 0, 1), v = lab_rows_random(g, n, width, 0, 1);
    struct span span = {.n = n, .pos = first, .seq = seq};
    struct batch b = {.n_row = n, .n_span = 1, .span = &span};
    lab_kv_append(&op_ref, &lab.ref, &s->kv, &b, s->map, k, v);
    mem_free(k.p);
    mem_free(v.p);
}

/* The first position that some row of the batch reads in this slot. */
static uint32_t first_seen(const struct scene *s, uint32_t seq)
{
    uint32_t lo = UINT32_MAX;
    for (size_t i = 0; i < COUNT(spans); i++)
        if (spans[i].seq == seq) {
            uint32_t a = s->p.window != 0 && spans[i].pos >= s->p.window ? spans[i].pos - s->p.window + 1 : 0;
            lo = a < lo ? a : lo;
        }
    return lo;
}

/* Caches hold what rows may see; pages that lie wholly before it are gone from the table (they point at NaN). */
static void scene_init(struct scene *s, struct rng *g, enum kv_type type, uint32_t n_kv_head, uint32_t head_dim,
                       struct attn_params p)
{
    *s = (struct scene){.p = p};
    deal_pages(s, g);
    s->kv = pools(type, n_kv_head, head_dim);
    for (size_t i = 0; i < COUNT(spans); i++) {
        uint32_t from = first_seen(s, spans[i].seq), done = from;
        for (size_t j = 0; j < i; j++) /* an earlier span of the slot has filled part */
            if (spans[j].seq == spans[i].seq)
                done = spans[j].pos + spans[j].n;
        fill(s, g, spans[i].seq, done, spans[i].pos - done);
        for (uint32_t k = 0; k < from / KV_PAGE; k++)
            s->page[spans[i].seq][k] = s->page[0][PAGES];
        for (uint32_t k = 0; k < spans[i].n; k++) {
            s->pos[spans[i].row + k] = (int32_t)(spans[i].pos + k);
            s->token[spans[i].row + k] = 1;
        }
    }
    s->b = (struct batch){.n_row = ROWS, .n_span = COUNT(spans), .token = s->token, .pos = s->pos, .span = spans};
    s->q = lab_rows_random(g, ROWS, p.n_head * head_dim, 3, 2);
    s->k = lab_rows_random(g, ROWS, n_kv_head * head_dim, 1, 1);
    s->v = lab_rows_random(g, ROWS, n_kv_head * head_dim, 2, 1);
    s->out = lab_rows(ROWS, p.n_head * head_dim, 0);
    lab_kv_append(&op_ref, &lab.ref, &s->kv, &s->b, s->map, s->k, s->v);
    op_ref.attention(&lab.ref, s->out, s->q, &s->kv, &s->b, s->map, &s->p);
    for (uint32_t r = 0; r < ROWS; r++) /* the reference itself saw no hidden token */
        for (uint32_t j = 0; j < s->out.dim; j++)
            assert_true(isfinite(lab_row(s->out, r)[j]));
}

static void scene_free(struct scene *s)
{
    pools_free(&s->kv);
    mem_free(s->q.p);
    mem_free(s->k.p);
    mem_free(s->v.p);
    mem_free(s->out.p);
}

static void check_attention(struct dut *d, const struct scene *s)
{
    struct rows y = lab_rows(ROWS, s->out.dim, 5);
    lab_ready(d)->attention(&d->ctx, y, s->q, &s->kv, &s->b, s->map, &s->p);
    lab_done(d);
    lab_equal(y, s->out, "%s x%d: attention type %d heads %u/%u dim %u window %u softcap %g", d->ctx.be->name,
              d->n_thread, s->kv.type, s->p.n_head, s->kv.n_kv_head, s->kv.head_dim, s->p.window, (double)s->p.softcap);
    mem_free(y.p);
}

/* Each row in a launch of its own. */
static void check_alone(struct dut *d, const struct scene *s)
{
    for (size_t i = 0; i < COUNT(spans); i++)
        for (uint32_t k = 0; k < spans[i].n; k++) {
            struct span one = {.n = 1, .pos = spans[i].pos + k, .seq = spans[i].seq};
            uint32_t r = spans[i].row + k;
            struct batch b = {.n_row = 1, .n_span = 1, .token = s->token + r, .pos = s->pos + r, .span = &one};
            struct rows y = lab_rows(1, s->out.dim, 0);
            lab_ready(d)->attention(&d->ctx, y, lab_part(s->q, r, 1, s->q.dim), &s->kv, &b, s->map, &s->p);
            lab_equal(y, lab_part(s->out, r, 1, s->out.dim), "%s x%d: attention of row %u alone, dim %u window %u",
                      d->ctx.be->name, d->n_thread, r, s->kv.head_dim, s->p.window);
            mem_free(y.p);
        }
}

static const struct attn_params variants[] = {
    {.n_head = 4, .scale = 0.125f},
    {.n_head = 4, .scale = 0.3f, .window = 16},
    {.n_head = 8, .scale = 0.125f, .softcap = 20.0f, .window = 33},
    {.n_head = 6, .scale = -0.2f, .window = 1},
    {.n_head = 2, .scale = 3.0f, .window = 5}, /* one token takes nearly all: exp at its lower end */
};
static const uint32_t kv_heads[] = {4, 2, 2, 1, 2};
static const uint32_t head_dims[] = {16, 32, 64, 80, 96, 128, 256};

static void attention(void **state)
{
    enum kv_type type = *(const enum kv_type *)*state;
    struct rng g = {100 + (uint64_t)type};
    size_t n_dim = LAB_SMALL ? 4 : COUNT(head_dims);
    for (size_t i = 0; i < n_dim * COUNT(variants); i++) {
        struct scene s;
        size_t v = i % COUNT(variants);
        scene_init(&s, &g, type, kv_heads[v], head_dims[i / COUNT(variants)], variants[v]);
        for (int d = 0; d < lab.n_dut; d++)
            check_attention(&lab.dut[d], &s);
        if (i % 4 == 0)
            for (int d = 0; d < lab.n_dut; d += 2)
                check_alone(&lab.dut[d], &s);
        scene_free(&s);
    }
}

/* The same contents in other pages give the same bits. */
static void pages_may_lie_anywhere(void **state)
{
    (void)state;
    struct rng g = {5}, again = {5};
    struct scene a, b;
    scene_init(&a, &g, KV_F16, 2, 64, variants[2]);
    scene_init(&b, &again, KV_F16, 2, 64, variants[2]);
    struct kv_layer moved = pools(KV_F16, 2, 64);
    for (uint32_t i = 0; i < POOL; i++) /* page i becomes page POOL - 1 - i */
        for (int v = 0; v < 2; v++)
            memcpy((char *)(v ? moved.v : moved.k) + (POOL - 1 - i) * moved.page_bytes,
                   (char *)(v ? b.kv.v : b.kv.k) + i * moved.page_bytes, moved.page_bytes);
    for (uint32_t i = 0; i < SEQS; i++)
        for (uint32_t k = 0; k <= PAGES; k++)
            b.page[i][k] = POOL - 1 - b.page[i][k];
    pools_free(&b.kv);
    b.kv = moved;
    b.map.page = b.page[0];
    for (int d = 0; d < lab.n_dut; d++) {
        struct rows y = lab_rows(ROWS, a.out.dim, 0);
        lab_ready(&lab.dut[d])->attention(&lab.dut[d].ctx, y, b.q, &b.kv, &b.b, b.map, &b.p);
        lab_equal(y, a.out, "%s: other pages", lab.dut[d].ctx.be->name);
        mem_free(y.p);
    }
    scene_free(&a);
    scene_free(&b);
}

/* More pages than any inner loop takes at once, for one row (split over pages) and for a chunk, with and without a
 * window. */
static void long_context(void **state)
{
    (void)state;
    enum { LEN = LAB_SMALL ? 700 : 2100, PAGE_N = LEN / KV_PAGE + 1, HEADS = 8, KV_HEADS = 2, DIM = 64 };
    static uint32_t page[PAGE_N];
    struct rng g = {6};
    struct kv_layer kv = {.type = KV_F16, .n_kv_head = KV_HEADS, .head_dim = DIM};
    kv.page_bytes = op_ref.kv_page_bytes(kv.type, KV_HEADS, DIM);
    kv.k = lab_poison(lab_alloc(PAGE_N * kv.page_bytes), PAGE_N * kv.page_bytes);
    kv.v = lab_poison(lab_alloc(PAGE_N * kv.page_bytes), PAGE_N * kv.page_bytes);
    for (uint32_t i = 0; i < PAGE_N; i++)
        page[i] = i * 5 % PAGE_N; /* PAGE_N is not a multiple of 5 */
    struct page_map map = {.page = page, .stride = PAGE_N};
    struct rows k = lab_rows_random(&g, LEN, KV_HEADS * DIM, 0, 1), v = lab_rows_random(&g, LEN, KV_HEADS * DIM, 0, 1);
    struct span all = {.n = LEN};
    lab_kv_append(&op_ref, &lab.ref, &kv, &(struct batch){.n_row = LEN, .n_span = 1, .span = &all}, map, k, v);
    for (int i = 0; i < 4; i++) {
        uint32_t n = i % 2 ? 20 : 1;
        struct attn_params p = {.n_head = HEADS, .scale = 0.2f, .window = i < 2 ? 0 : 600};
        struct span span = {.n = n, .pos = LEN - n};
        int32_t pos[20];
        for (uint32_t r = 0; r < n; r++)
            pos[r] = (int32_t)(span.pos + r);
        struct batch b = {.n_row = n, .n_span = 1, .pos = pos, .token = pos, .span = &span};
        struct rows q = lab_rows_random(&g, n, HEADS * DIM, 0, 1), want = lab_rows(n, HEADS * DIM, 0);
        op_ref.attention(&lab.ref, want, q, &kv, &b, map, &p);
        for (int d = 0; d < lab.n_dut; d++) {
            struct rows y = lab_rows(n, HEADS * DIM, 1);
            lab_ready(&lab.dut[d])->attention(&lab.dut[d].ctx, y, q, &kv, &b, map, &p);
            lab_done(&lab.dut[d]);
            lab_equal(y, want, "%s x%d: attention over %d tokens, %u rows, window %u", lab.dut[d].ctx.be->name,
                      lab.dut[d].n_thread, LEN, n, p.window);
            mem_free(y.p);
        }
        mem_free(q.p);
        mem_free(want.p);
    }
    mem_free(k.p);
    mem_free(v.p);
    pools_free(&kv);
}

/* All of attn_prepare at once, on rows of a ragged batch. */
static void prepare(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        struct rng g = {(uint64_t)i};
        struct scene s;
        uint32_t n_kv_head = 1 + (uint32_t)i % 3, dim = i % 2 ? 64 : 48;
        scene_init(&s, &g, lab_kv_types[i / 2 % 4], n_kv_head, dim,
                   (struct attn_params){.n_head = 2 * n_kv_head, .scale = 0.1f});
        float q_norm[64], k_norm[64], inv_freq[16];
        rng_fill(&g, q_norm, 64, 1);
        rng_fill(&g, k_norm, 64, 1);
        for (int f = 0; f < 16; f++)
            inv_freq[f] = 1.0f / (float)(1 + f * f);
        struct rows table = lab_rows(ROWS, 32, 3);
        op_ref.rope_table(&lab.ref, table, s.pos, inv_freq, 1);
        struct attn_prepare p = {.q = lab_rows(ROWS, s.q.dim, 3),
                                 .k = lab_rows(ROWS, s.k.dim, 1),
                                 .v = s.v,
                                 .n_head = 2 * n_kv_head,
                                 .n_kv_head = n_kv_head,
                                 .norm = i % 3 != 0,
                                 .interleaved = i % 5 == 0,
                                 .q_norm = q_norm,
                                 .k_norm = i % 4 ? k_norm : NULL,
                                 .eps = 1e-6f,
                                 .batch = &s.b,
                                 .map = s.map};
        if (i % 7)
            p.rope = table;
        struct kv_layer want, got;
        want = pools(s.kv.type, n_kv_head, dim);
        struct rows q = lab_rows(ROWS, s.q.dim, 3), k = lab_rows(ROWS, s.k.dim, 1);
        lab_rows_copy(q, s.q);
        lab_rows_copy(k, s.k);
        struct attn_prepare ref = p;
        ref.q = q;
        ref.k = k;
        ref.kv = &want;
        op_ref.attn_prepare(&lab.ref, &ref);
        for (int d = 0; d < lab.n_dut; d++) {
            struct dut *u = &lab.dut[d];
            got = pools(s.kv.type, n_kv_head, dim);
            lab_rows_copy(p.q, s.q);
            lab_rows_copy(p.k, s.k);
            p.kv = &got;
            lab_ready(u)->attn_prepare(&u->ctx, &p);
            lab_done(u);
            lab_equal(p.q, q, "%s x%d: prepare %d, queries", u->ctx.be->name, u->n_thread, i);
            lab_equal(p.k, k, "%s x%d: prepare %d, keys", u->ctx.be->name, u->n_thread, i);
            if (memcmp(got.k, want.k, POOL * got.page_bytes) || memcmp(got.v, want.v, POOL * got.page_bytes))
                fail_msg("%s x%d: prepare %d: pools differ", u->ctx.be->name, u->n_thread, i);
            pools_free(&got);
        }
        pools_free(&want);
        mem_free(table.p);
        mem_free(p.q.p);
        mem_free(p.k.p);
        mem_free(q.p);
        mem_free(k.p);
        scene_free(&s);
    }
}

/* What is stored, where, and that nothing else is touched. */
static void kv_append(void **state)
{
    (void)state;
    for (int type = 0; type < 4; type++)
        for (size_t i = 0; i < COUNT(head_dims); i++) {
            struct rng g = {i};
            struct scene s;
            uint32_t n_kv_head = 1 + (uint32_t)i % 3, dim = head_dims[i];
            scene_init(&s, &g, lab_kv_types[type], n_kv_head, dim,
                       (struct attn_params){.n_head = n_kv_head, .scale = 0.1f});
            for (uint32_t r = 0; r < ROWS; r++) /* every order of magnitude: overflow, subnormals and ties of f16 */
                for (uint32_t j = 0; j < s.k.dim; j++) {
                    lab_row(s.k, r)[j] =
                        ldexpf(rng_normal(&g), (int)rng_below(&g, r % 2 ? 50 : 250) - (r % 2 ? 30 : 140));
                    if (j % 3 == 0)
                        lab_row(s.v, r)[j] = f16_to_f32((uint16_t)(rng_next(&g) & 0xFBFF)) * (1.0f + 0x1p-11f);
                }
            struct kv_layer want = pools(s.kv.type, n_kv_head, dim);
            lab_kv_append(&op_ref, &lab.ref, &want, &s.b, s.map, s.k, s.v);
            for (int d = 0; d < lab.n_dut; d++) {
                struct dut *u = &lab.dut[d];
                struct kv_layer got = pools(s.kv.type, n_kv_head, dim);
                assert_int_equal(u->ctx.be->kv_page_bytes(s.kv.type, n_kv_head, dim), got.page_bytes);
                lab_kv_append(lab_ready(u), &u->ctx, &got, &s.b, s.map, s.k, s.v);
                lab_done(u);
                if (memcmp(got.k, want.k, POOL * got.page_bytes) != 0 ||
                    memcmp(got.v, want.v, POOL * got.page_bytes) != 0)
                    fail_msg("%s x%d: kv_append type %d heads %u dim %u: pools differ", u->ctx.be->name, u->n_thread,
                             type, n_kv_head, dim);
                pools_free(&got);
            }
            pools_free(&want);
            scene_free(&s);
        }
}

int main(int argc, char **argv)
{
    if (lab_cpu_open(argc, argv) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kv_append),
        cmocka_unit_test(prepare),
        {"attention_f32", attention, NULL, NULL, (void *)(uintptr_t)&lab_kv_types[0]},
        {"attention_f16", attention, NULL, NULL, (void *)(uintptr_t)&lab_kv_types[1]},
        {"attention_bf16", attention, NULL, NULL, (void *)(uintptr_t)&lab_kv_types[2]},
        {"attention_q8", attention, NULL, NULL, (void *)(uintptr_t)&lab_kv_types[3]},
        cmocka_unit_test(pages_may_lie_anywhere),
        cmocka_unit_test(long_context),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lab_close();
    return failed;
}
