/* attention: cutting a batch into walks and sharing them out.
 *
 * The rows of a span are cut into blocks of positions that share a page. A walk is a block times some heads that read
 * one KV head. Usually a member takes walks from a queue, the longest contexts first, and does each alone. That
 * balances as long as no walk is a large part of the whole. Where one is (decoding a single long sequence), the crew
 * walks the block together with all its KV heads. Neither changes a bit. */
#include "cpu/attention_walk.h"

#include "base/arith.h"

enum { TOGETHER_NS = 20000 }; /* blocks below this are not worth the barriers */

struct attn_run {
    struct attn_call call;
    const struct attn_walker *walker;
    struct attn_block *block;
    size_t n_block;
    unsigned char *alone; /* a room for each member */
    size_t alone_bytes;
    size_t grain; /* walks a member takes at a time: one, or all of a block */
    struct crew_queue queue;
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t round_line(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* ---- scratch ---- */

struct attn_layout { /* members' rooms from 0 on; the room of walks done together; the blocks */
    size_t alone_bytes, together_at, block_at, bytes;
};

static struct attn_layout attn_layout(const struct op_limits *l, int n_thread)
{
    struct attn_layout a;
    a.alone_bytes = round_line(max_size(attn_walk_plain.alone_bytes(l), attn_walk_q8.alone_bytes(l)));
    a.together_at = a.alone_bytes * (size_t)n_thread;
    a.block_at = a.together_at + round_line(max_size(attn_walk_plain.together_bytes(l, n_thread),
                                                     attn_walk_q8.together_bytes(l, n_thread)));
    a.bytes = a.block_at + l->max_rows * sizeof(struct attn_block);
    return a;
}

size_t attn_scratch_bytes(const struct op_limits *l, int n_thread)
{
    return attn_layout(l, n_thread).bytes;
}

/* ---- walks ---- */

/* Walk number i: later positions go first, because they see more. Sequences that decode are done one after the other,
 * because a page holds all heads side by side; of a prompt, all blocks of a KV head before the next head, so that it
 * stays in a member's cache. */
static struct attn_item walk_number(const struct attn_run *r, size_t i)
{
    size_t parts = r->call.parts, n = r->n_block;
    size_t block = r->grain > 1 ? i / parts : i % n, part = r->grain > 1 ? i % parts : i / n;
    return (struct attn_item){&r->block[n - 1 - block], attn_part(&r->call, (uint32_t)part)};
}

static void alone_member(void *arg, int member, int n_member)
{
    struct attn_run *r = arg;
    size_t n = r->n_block * r->call.parts, i, last;
    while (crew_take(&r->queue, n, r->grain, &i, &last))
        for (; i < last; i++) {
            /* the others take theirs meanwhile */
            size_t next = i + 1 < last ? i + 1 : last + (size_t)(n_member - 1) * r->grain;
            r->walker->alone(&r->call, walk_number(r, i), walk_number(r, next < n ? next : i),
                             r->alone + (size_t)member * r->alone_bytes);
        }
}

/* Rough nanoseconds of a block on one thread. */
static double block_ns(const struct attn_call *a, const struct attn_block *b)
{
    double page = attn_end_page(b) - attn_first_page(a, b), dim = a->kv->head_dim;
    double query = a->kv->type == KV_Q8 ? dim * 0.1 + 6 : dim * 0.35 + 10;
    return page * (b->n_row * a->p->n_head * query + (double)a->kv->page_bytes * 0.03);
}

/* Cut the batch into blocks, and blocks into parts; returns the cost of all. */
static double cut_blocks(struct attn_run *r)
{
    struct attn_call *a = &r->call;
    a->share = a->p->n_head / a->kv->n_kv_head;
    a->split = min_u32(a->share, ATTN_MAX_QUERIES);
    a->parts = a->kv->n_kv_head * (uint32_t)ceil_div(a->share, a->split);
    uint32_t most = min_u32(ATTN_MAX_QUERIES / a->split, ATTN_MAX_ROWS);
    double ns = 0;
    r->n_block = 0;
    for (uint32_t i = 0; i < a->b->n_span; i++) {
        const struct span *s = &a->b->span[i];
        for (uint32_t at = 0, n; at < s->n; at += n) {
            n = min_u32(min_u32(KV_PAGE - (s->pos + at) % KV_PAGE, most), s->n - at);
            r->block[r->n_block] = (struct attn_block){s->row + at, n, s->pos + at, s->seq};
            ns += block_ns(a, &r->block[r->n_block++]);
        }
    }
    return ns;
}

/* Do the blocks whose walks would keep one member busy while the others have nothing left, and drop them from the list.
 * Returns the cost of the rest. */
static double do_large_blocks(struct op_ctx *c, struct attn_run *r, double ns, void *room)
{
    double all = ns;
    size_t keep = 0;
    for (size_t i = 0; i < r->n_block; i++) {
        double block = block_ns(&r->call, &r->block[i]);
        if (block > TOGETHER_NS && block / r->call.parts * 4 * cpu_of(c)->n_thread > all) {
            r->walker->together(c, &r->call, &r->block[i], room);
            ns -= block;
        } else {
            r->block[keep++] = r->block[i];
        }
    }
    r->n_block = keep;
    return ns;
}

void cpu_attention(struct op_ctx *c, struct rows y, struct rows q, const struct kv_layer *kv, const struct batch *b,
                   struct page_map map, const struct attn_params *p)
{
    struct cpu_priv *priv = cpu_of(c);
    struct attn_layout lay = attn_layout(&priv->limits, priv->n_thread);
    unsigned char *base = priv->attn_scratch;
    struct attn_run r = {.call = {.k = priv->k->attn, .y = y, .q = q, .kv = kv, .b = b, .map = map, .p = p}};
    r.walker = kv->type == KV_Q8 ? &attn_walk_q8 : &attn_walk_plain;
    r.block = (struct attn_block *)(void *)(base + lay.block_at);
    r.alone = base;
    r.alone_bytes = lay.alone_bytes;
    double ns = cut_blocks(&r);
    if (priv->n_thread > 1)
        ns = do_large_blocks(c, &r, ns, base + lay.together_at);
    r.grain = b->n_span == r.n_block && r.n_block >= 4 * (size_t)priv->n_thread ? r.call.parts : 1;
    if (r.n_block != 0)
        cpu_run(c, alone_member, &r, ns);
}
