/* If this fails, an embedding is not what the model's last layer says, or asking for one changes somebody's logits in
 * the same batch. Everything here is compared byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "run/forward.h"
#include "run/run.h"

#include <string.h>

enum { N_SEQ = 3, N_TOKEN = 50, N_VOCAB = 320, MAX_DIM = 256, ROWS = 48 };

static const char *const models[] = {
    TEST_DATA "/hf/llama",
    TEST_DATA "/hf/qwen2",
    TEST_DATA "/hf/gemma3_text", /* windows, norms after the branches, a softcap */
    TEST_DATA "/gguf/llama_q.Q4_K_M.gguf",
};
enum { N_MODEL = sizeof models / sizeof *models };

static int32_t tokens[N_SEQ][N_TOKEN];
static float true_logits[N_SEQ][N_TOKEN][N_VOCAB], true_state[N_SEQ][N_TOKEN * MAX_DIM];
static uint32_t rng;

static void ok(glim_status st, const struct glim_err *e)
{
    if (st != GLIM_OK)
        fail_msg("%s", e->message);
}

static uint32_t draw(uint32_t n)
{
    rng = rng * 1664525u + 1013904223u;
    return (rng >> 8) % n;
}

static struct glim_model *open_model(const char *path)
{
    struct glim_err e;
    struct glim_config *c;
    struct glim_model *m;
    ok(glim_config_create(&c, &e), &e);
    ok(glim_model_open(&m, path, c, NULL, NULL, &e), &e);
    glim_config_free(c);
    assert_true(m->plan.dim <= MAX_DIM && m->plan.n_vocab == N_VOCAB);
    return m;
}

/* Each sequence alone, by the session: logits of every token, and the reference's norm of the last layer's rows. */
static void make_truth(const struct glim_model *m)
{
    static float hidden[32 * N_TOKEN * MAX_DIM];
    const struct plan *p = &m->plan;
    size_t layer = (size_t)N_TOKEN * p->dim;
    struct glim_err e;
    struct glim_session *s;
    assert_true(p->n_layer * layer <= sizeof hidden / sizeof *hidden);
    ok(glim_session_create(&s, m, N_TOKEN, &e), &e);
    for (uint32_t q = 0; q < N_SEQ; q++) {
        for (uint32_t i = 0; i < N_TOKEN; i++)
            tokens[q][i] = (int32_t)draw(N_VOCAB);
        ok(glim_session_eval_all(s, tokens[q], N_TOKEN, true_logits[q][0], &e), &e);
        ok(run_trace(s, tokens[q], N_TOKEN, hidden, &e), &e);
        struct rows x = {hidden + (p->n_layer - 1) * layer, N_TOKEN, p->dim, p->dim};
        struct rows y = {true_state[q], N_TOKEN, p->dim, p->dim};
        op_ref.rmsnorm(&(struct op_ctx){.be = &op_ref}, y, x, p->final_norm, p->final_eps);
    }
    glim_session_free(s);
}

struct want { /* an ascending list of rows and room for what they give, with a row behind it that stays as it is */
    uint32_t n, row[ROWS];
    const uint32_t *list; /* row, or NULL */
    float out[(ROWS + 1) * N_VOCAB];
};

/* Each row with a chance of k in 4; now and then all of them by NULL. */
static void pick(struct want *w, uint32_t n_row, uint32_t k)
{
    w->n = 0;
    for (uint32_t r = 0; r < n_row; r++)
        if (draw(4) < k)
            w->row[w->n++] = r;
    w->list = w->n == n_row && draw(2) ? NULL : w->row;
    memset(w->out, 0x7A, sizeof w->out);
}

static void check(const struct want *w, const struct batch *b, uint32_t dim, const char *what)
{
    static unsigned char untouched[N_VOCAB * sizeof(float)];
    memset(untouched, 0x7A, sizeof untouched);
    for (uint32_t i = 0; i < w->n; i++) {
        uint32_t row = w->list ? w->row[i] : i;
        const struct span *s = b->span;
        while (row >= s->row + s->n)
            s++;
        size_t pos = (size_t)b->pos[row];
        const float *want = dim == N_VOCAB ? true_logits[s->seq][pos] : true_state[s->seq] + pos * dim;
        if (memcmp(w->out + (size_t)i * dim, want, dim * sizeof *want) != 0)
            fail_msg("%s of sequence %u, position %zu: other bytes than alone", what, s->seq, pos);
    }
    assert_memory_equal(w->out + (size_t)w->n * dim, untouched, dim * sizeof(float));
}

/* The next rows of each sequence, at most `most` of one. Returns false at the end. */
static bool next_batch(struct batch *b, int32_t *token, int32_t *pos, struct span *span, struct kv *kv, uint32_t most)
{
    struct glim_err e;
    *b = (struct batch){.token = token, .pos = pos, .span = span};
    for (uint32_t q = 0; q < N_SEQ; q++) {
        uint32_t left = N_TOKEN - kv->len[q], n = left < most ? left : most;
        if (n == 0)
            continue;
        ok(kv_reserve(kv, q, n, &e), &e);
        span[b->n_span++] = (struct span){.row = b->n_row, .n = n, .pos = kv->len[q], .seq = q};
        for (uint32_t i = 0; i < n; i++, b->n_row++) {
            token[b->n_row] = tokens[q][kv->len[q] + i];
            pos[b->n_row] = (int32_t)(kv->len[q] + i);
        }
    }
    return b->n_row > 0;
}

/* Every batch is computed once for each pair of chances: the same positions again leave the same K and V. */
static void run_batches(const struct glim_model *m, struct forward *f, struct kv *kv, uint32_t most)
{
    struct glim_err e;
    int32_t token[ROWS], pos[ROWS];
    struct span span[N_SEQ];
    struct batch b;
    static struct want logits, states;
    while (next_batch(&b, token, pos, span, kv, most)) {
        for (uint32_t k = 0; k < 25; k++) {
            pick(&logits, b.n_row, k % 5);
            pick(&states, b.n_row, k / 5);
            struct forward_job j = {.batch = &b,
                                    .kv = kv,
                                    .logit_row = logits.list,
                                    .n_logit = logits.n,
                                    .logits = logits.out,
                                    .state_row = states.list,
                                    .n_state = states.n,
                                    .state = states.out};
            long before = mem_count();
            ok(forward_run(f, &j, &e), &e);
            assert_int_equal(mem_count(), before);
            check(&logits, &b, N_VOCAB, "logits");
            check(&states, &b, m->plan.dim, "state");
        }
        for (uint32_t i = 0; i < b.n_span; i++)
            kv_advance(kv, span[i].seq, span[i].n);
    }
}

static void test_states_and_logits(void **state)
{
    (void)state;
    struct glim_err e;
    for (size_t i = 0; i < N_MODEL; i++) {
        struct glim_model *m = open_model(models[i]);
        struct kv_shape shape = {.n_slot = N_SEQ, .n_ctx = N_TOKEN, .max_rows = ROWS, .type = m->kv_type};
        struct crew *crew;
        struct kv kv;
        struct forward f;
        shape.poison = true;
        ok(crew_create(&crew, 2, &e), &e);
        ok(kv_create(&kv, &m->plan, m->be, &shape, &e), &e);
        ok(forward_create(&f, &m->plan, m->be, crew, ROWS, &e), &e);
        make_truth(m);
        static const uint32_t most[] = {1, 7, 16};
        for (size_t k = 0; k < sizeof most / sizeof *most; k++) {
            run_batches(m, &f, &kv, most[k]);
            for (uint32_t q = 0; q < N_SEQ; q++)
                kv_trim(&kv, q, 0);
        }
        forward_fini(&f);
        kv_fini(&kv);
        crew_free(crew);
        glim_model_close(m);
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct glim_err e;
    struct glim_model *m = open_model(models[0]);
    struct kv_shape shape = {.n_slot = 1, .n_ctx = 16, .max_rows = 1, .type = m->kv_type};
    struct crew *crew;
    struct kv kv;
    struct forward f;
    ok(crew_create(&crew, 1, &e), &e);
    ok(kv_create(&kv, &m->plan, m->be, &shape, &e), &e);
    long n = 1;
    for (;; n++) {
        mem_fail_after(n);
        glim_status st = forward_create(&f, &m->plan, m->be, crew, 1, &e);
        mem_fail_after(0);
        if (st == GLIM_OK)
            break;
        assert_int_equal(st, GLIM_FAILED);
    }
    assert_true(n > 5);
    int32_t token = 1, pos = 0;
    struct span span = {.n = 1};
    struct batch b = {.n_row = 1, .n_span = 1, .token = &token, .pos = &pos, .span = &span};
    static float out[MAX_DIM], trace[32 * MAX_DIM];
    struct forward_job j = {.batch = &b, .kv = &kv, .n_state = 1, .state = out, .trace = trace, .trace_stride = 1};
    ok(kv_reserve(&kv, 0, 1, &e), &e);
    assert_int_equal(forward_run(&f, &j, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "1 of states"));
    j.trace = NULL;
    token = N_VOCAB;
    assert_int_equal(forward_run(&f, &j, &e), GLIM_REFUSED);
    assert_non_null(strstr(e.message, "have id 320"));
    forward_fini(&f);
    kv_fini(&kv);
    crew_free(crew);
    glim_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_and_logits),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
