#include "run/sched.h"

#include "base/arith.h"

#include <string.h>

enum { PASS = 8, GRACE = KV_PAGE }; /* GRACE: tokens that overcommit holds pages back for */

glim_status sched_create(struct sched *s, struct kv *kv, struct prefix *p, const struct sha256 *identity,
                         const struct sched_limits *l, struct glim_err *e)
{
    *s = (struct sched){.limit = *l, .kv = kv, .prefix = p, .identity = *identity};
    s->run = mem_calloc(l->n_seq, sizeof *s->run);
    s->slot = mem_calloc(l->n_seq, sizeof *s->slot);
    if (!s->run || !s->slot) {
        sched_fini(s);
        return err_nomem(e, "scheduler", l->n_seq * sizeof *s->run);
    }
    for (uint32_t i = 0; i < l->n_seq; i++)
        s->slot[s->n_slot++] = l->n_seq - 1 - i;
    return GLIM_OK;
}

void sched_fini(struct sched *s)
{
    mem_free(s->run);
    mem_free(s->slot);
    memset(s, 0, sizeof *s);
}

/* ---- pages ---- */

static uint32_t pages(uint32_t n_token)
{
    return (uint32_t)ceil_div(n_token, KV_PAGE);
}

/* Tokens whose pages are held back for q. */
static uint32_t planned(const struct sched *s, const struct sched_seq *q)
{
    if (!s->limit.overcommit || q->n_most - q->n < GRACE)
        return q->n_most;
    return q->n + GRACE;
}

glim_status sched_fits(const struct sched *s, uint32_t n_most, struct glim_err *e)
{
    if (n_most > s->kv->n_ctx)
        return err_set(e, GLIM_REFUSED, "engine: context: have room for %u tokens, need %u", s->kv->n_ctx, n_most);
    if (s->prefix->full >= 0 && pages(n_most) > s->kv->group[s->prefix->full].n_page)
        return err_set(e, GLIM_REFUSED, "engine: KV cache: have %u pages of %d tokens, need %u for %u tokens",
                       s->kv->group[s->prefix->full].n_page, KV_PAGE, pages(n_most), n_most);
    return GLIM_OK;
}

/* Pages of the full group that sequences in work are still promised. */
static uint64_t promised(const struct sched *s)
{
    const struct kv_table *t = &s->kv->group[s->prefix->full];
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_run; i++) {
        uint32_t all = pages(planned(s, s->run[i])), has = t->end[s->run[i]->slot];
        n += all > has ? all - has : 0;
    }
    return n;
}

static bool has_room(const struct sched *s, const struct sched_seq *q, const struct prefix_match *m)
{
    if (s->prefix->full < 0)
        return true;
    uint64_t free = (uint64_t)s->kv->group[s->prefix->full].n_free + s->prefix->n_idle - m->n_pin;
    return promised(s) + pages(planned(s, q)) - m->n_page <= free;
}

/* ---- the queue ---- */

void sched_queue(struct sched *s, struct sched_seq *q, bool first)
{
    if (!first)
        q->order = ++s->arrivals;
    q->state = SCHED_WAITING;
    q->next = s->first;
    s->first = q;
    s->n_waiting++;
}

static void unqueue(struct sched *s, struct sched_seq *q)
{
    struct sched_seq **at = &s->first;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    s->n_waiting--;
}

static int64_t rank(const struct sched_seq *q)
{
    return (int64_t)q->priority + q->passed / PASS;
}

static struct sched_seq *next_in_queue(const struct sched *s)
{
    struct sched_seq *best = s->first;
    for (struct sched_seq *q = best; q; q = q->next)
        if (rank(q) > rank(best) || (rank(q) == rank(best) && q->order < best->order))
            best = q;
    return best;
}

static void start(struct sched *s, struct sched_seq *q, const struct prefix_match *m)
{
    unqueue(s, q);
    for (struct sched_seq *w = s->first; w; w = w->next)
        w->passed += w->order < q->order;
    q->state = SCHED_RUNNING;
    q->slot = s->slot[--s->n_slot];
    q->start = q->n;
    q->rows = q->drafts = q->n_draft = 0;
    q->hold = q->cache ? prefix_start(s->prefix, m, q->slot) : (struct prefix_hold){0};
    q->n_cached = s->kv->len[q->slot];
    s->run[s->n_run++] = q;
}

struct sched_seq *sched_admit(struct sched *s)
{
    struct sched_seq *q = next_in_queue(s);
    struct prefix_match m = {0};
    if (!q || s->n_slot == 0)
        return NULL;
    if (q->cache)
        prefix_match(s->prefix, &s->identity, q->token, q->n_reuse, &m);
    if (!has_room(s, q, &m))
        return NULL;
    start(s, q, &m);
    /* A page that is used in part is copied now, while it is certain that there is one to copy it to. */
    if (prefix_reserve(s->prefix, q->slot, 1, NULL) != GLIM_OK) {
        sched_leave(s, q, false);
        sched_queue(s, q, true);
        return NULL;
    }
    return q;
}

void sched_leave(struct sched *s, struct sched_seq *q, bool keep)
{
    if (q->state == SCHED_WAITING)
        unqueue(s, q);
    if (q->state == SCHED_RUNNING) {
        uint32_t i = 0;
        while (s->run[i] != q)
            i++;
        memmove(s->run + i, s->run + i + 1, (s->n_run - i - 1) * sizeof(struct sched_seq *));
        s->n_run--;
        prefix_finish(s->prefix, &q->hold, q->slot, q->token, keep && q->cache);
        s->slot[s->n_slot++] = q->slot;
    }
    q->state = SCHED_OUT;
    q->rows = q->drafts = 0;
}

/* ---- a step ---- */

/* Rows of those that write: what they have not computed yet, then guesses while rows and logits last. A row is left for
 * every other sequence in work, so that a prompt gets on however much is guessed beside it. */
static void plan_decode(struct sched *s, uint32_t *rows, uint32_t *logits)
{
    uint32_t n = s->n_run; /* for whom a row is left */
    for (uint32_t i = 0; i < s->n_run; i++) {
        struct sched_seq *q = s->run[i];
        if (sched_prefills(s, q))
            continue;
        uint32_t most = *rows - --n, want = q->n - s->kv->len[q->slot];
        most = most < s->limit.slot_rows ? most : s->limit.slot_rows;
        q->rows = want < most ? want : most;
        *rows -= q->rows;
    }
    for (uint32_t i = 0; i < s->n_run; i++) {
        struct sched_seq *q = s->run[i];
        if (sched_prefills(s, q) || s->kv->len[q->slot] + q->rows < q->n)
            continue;
        uint32_t most = *rows - n < *logits ? *rows - n : *logits;
        most = most < s->limit.slot_rows - q->rows ? most : s->limit.slot_rows - q->rows;
        q->drafts = q->n_draft < most ? q->n_draft : most;
        q->rows += q->drafts;
        *rows -= q->drafts;
        *logits -= q->drafts;
    }
}

/* Rows of prompts beside those that write. */
static uint32_t prefill_budget(const struct sched *s, uint32_t rows)
{
    bool writes = false;
    for (uint32_t i = 0; i < s->n_run; i++)
        writes = writes || s->run[i]->rows > 0;
    if (!writes || s->row_s <= 0)
        return writes && rows > KV_PAGE ? KV_PAGE : rows;
    double n = (s->limit.step_s - s->decode_s) / s->row_s;
    if (n >= rows)
        return rows;
    return n > KV_PAGE ? (uint32_t)n : rows < KV_PAGE ? rows : KV_PAGE;
}

/* More of q's prompt, at most n rows. */
static void give(struct sched *s, struct sched_seq *q, uint32_t n, uint32_t *rows, uint32_t *logits)
{
    uint32_t left = q->start - s->kv->len[q->slot] - q->rows;
    n = n < left ? n : left;
    n = n < s->limit.slot_rows - q->rows ? n : s->limit.slot_rows - q->rows;
    if (q->all_logits) {
        uint32_t own = q->rows == 0; /* its row of logits, which all in work have */
        n = n < *logits + own ? n : *logits + own;
        *logits -= n > own ? n - own : 0;
    }
    q->rows += n;
    *rows -= n;
}

static bool takes_more(const struct sched *s, const struct sched_seq *q, uint32_t logits)
{
    return sched_prefills(s, q) && s->kv->len[q->slot] + q->rows < q->start && q->rows < s->limit.slot_rows &&
           (!q->all_logits || q->rows == 0 || logits > 0);
}

static void plan_prefill(struct sched *s, uint32_t rows, uint32_t logits)
{
    struct sched_seq *oldest = NULL;
    for (uint32_t i = 0; i < s->n_run; i++)
        if (takes_more(s, s->run[i], logits) && (!oldest || s->run[i]->order < oldest->order))
            oldest = s->run[i];
    if (oldest)
        give(s, oldest, (rows + 1) / 2, &rows, &logits);
    while (rows > 0) {
        struct sched_seq *q = NULL;
        uint32_t least = 0;
        for (uint32_t i = 0; i < s->n_run; i++) {
            struct sched_seq *c = s->run[i];
            uint32_t left = c->start - s->kv->len[c->slot] - c->rows;
            if (takes_more(s, c, logits) && (!q || left < least)) {
                q = c;
                least = left;
            }
        }
        if (!q)
            return;
        give(s, q, rows, &rows, &logits);
    }
}

/* The last admitted of the lowest priority. */
static struct sched_seq *who_gives_way(const struct sched *s)
{
    struct sched_seq *v = s->run[0];
    for (uint32_t i = 1; i < s->n_run; i++)
        if (s->run[i]->priority <= v->priority)
            v = s->run[i];
    return v;
}

static void give_way(struct sched *s, struct sched_seq *q)
{
    sched_leave(s, q, true);
    sched_queue(s, q, true);
    s->n_preempted++;
}

uint32_t sched_plan(struct sched *s)
{
    uint32_t rows = s->limit.max_rows, logits = s->limit.max_logits - s->n_run, n = 0;
    for (uint32_t i = 0; i < s->n_run; i++)
        s->run[i]->rows = s->run[i]->drafts = 0;
    plan_decode(s, &rows, &logits);
    plan_prefill(s, prefill_budget(s, rows), logits);
    for (uint32_t i = 0; i < s->n_run;) {
        struct sched_seq *q = s->run[i];
        if (q->rows == 0 || prefix_reserve(s->prefix, q->slot, q->rows, NULL) == GLIM_OK)
            i++;
        else {
            give_way(s, who_gives_way(s));
            i = 0; /* whoever has its pages already needs none now */
        }
    }
    for (uint32_t i = 0; i < s->n_run; i++)
        n += s->run[i]->rows;
    return n;
}

/* Windows up to a place are worth keeping: say so when the page that holds it has become whole. */
static void mark_at(struct sched *s, const struct sched_seq *q, uint32_t place, uint32_t before, uint32_t len)
{
    if (place && before / KV_PAGE < pages(place) && pages(place) <= len / KV_PAGE)
        prefix_mark(s->prefix, &q->hold, pages(place) * KV_PAGE);
}

void sched_advance(struct sched *s, struct sched_seq *q, uint32_t wrong)
{
    uint32_t before = s->kv->len[q->slot], len = before + q->rows - wrong;
    kv_advance(s->kv, q->slot, q->rows);
    if (wrong)
        kv_trim(s->kv, q->slot, len);
    prefix_extend(s->prefix, &q->hold, q->slot, q->token);
    mark_at(s, q, q->turn, before, len);
    mark_at(s, q, q->start, before, len);
    q->rows = q->drafts = q->n_draft = 0;
}

void sched_measure(struct sched *s, double seconds)
{
    uint32_t prefill = 0, decode = 0;
    for (uint32_t i = 0; i < s->n_run; i++)
        *(sched_prefills(s, s->run[i]) ? &prefill : &decode) += s->run[i]->rows;
    double *avg = prefill ? &s->row_s : &s->decode_s, v = seconds;
    if (prefill) {
        if (decode && s->decode_s > seconds) /* without the prompts it would have taken less still */
            s->decode_s = seconds;
        v -= decode ? s->decode_s : 0;
        v = (v > seconds / 4 ? v : seconds / 4) / prefill;
    }
    *avg = *avg > 0 ? *avg + 0.3 * (v - *avg) : v;
}

/* Each slot is free or of one sequence in work. taken: [n_seq], zero. */
static glim_status check_slots(const struct sched *s, bool *taken, struct glim_err *e)
{
    for (uint32_t i = 0; i < s->limit.n_seq; i++) {
        const struct sched_seq *q = i < s->n_run ? s->run[i] : NULL;
        uint32_t slot = q ? q->slot : s->slot[i - s->n_run];
        if ((q && q->state != SCHED_RUNNING) || slot >= s->limit.n_seq || taken[slot])
            return err_set(e, GLIM_FAILED,
                           "scheduler: slot %u: have it twice or for one that does not run, need it once", slot);
        taken[slot] = true;
    }
    return GLIM_OK;
}

glim_status sched_check(const struct sched *s, struct glim_err *e)
{
    uint32_t n = 0;
    for (const struct sched_seq *q = s->first; q; q = q->next, n++)
        if (q->state != SCHED_WAITING || n > s->n_waiting)
            return err_set(e, GLIM_FAILED, "scheduler: queue: have an entry in state %d, need one that waits",
                           q->state);
    if (n != s->n_waiting || s->n_run + s->n_slot != s->limit.n_seq)
        return err_set(e, GLIM_FAILED, "scheduler: have %u waiting, %u in work, %u free slots, need %u and %u in all",
                       n, s->n_run, s->n_slot, s->n_waiting, s->limit.n_seq);
    struct prefix_hold *hold = mem_calloc(s->limit.n_seq, sizeof *hold);
    bool *taken = mem_calloc(s->limit.n_seq, sizeof *taken);
    glim_status st =
        hold && taken ? check_slots(s, taken, e) : err_nomem(e, "scheduler check", s->limit.n_seq * sizeof *hold);
    for (uint32_t i = 0; st == GLIM_OK && i < s->n_run; i++)
        hold[i] = s->run[i]->hold;
    if (st == GLIM_OK)
        st = prefix_check(s->prefix, hold, s->n_run, e);
    mem_free(hold);
    mem_free(taken);
    return st;
}
