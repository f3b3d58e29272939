#include "run/model.h"

#include "base/arith.h"

#include <stdio.h>
#include <string.h>

/* ---- configuration (glim.h) ---- */

const char *glim_version(void)
{
    return "0.1.0";
}

glim_status glim_config_create(struct glim_config **out, struct glim_err *err)
{
    struct glim_config *c = mem_calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return err_nomem(err, "configuration", sizeof *c);
    glim_status st = lever_load(&c->set, err);
    if (st != GLIM_OK) {
        mem_free(c);
        return st;
    }
    *out = c;
    return GLIM_OK;
}

glim_status glim_config_set(struct glim_config *c, const char *name, const char *value, struct glim_err *err)
{
    return lever_put(c->set, name, value, err);
}

void glim_config_free(struct glim_config *c)
{
    if (!c)
        return;
    lever_free(c->set);
    mem_free(c);
}

/* ---- choices ---- */

glim_status model_backend(const struct levers *lv, const struct backend **be, struct glim_err *e)
{
    if (lv->backend == LEVER_BACKEND_CUDA)
        return err_set(e, GLIM_REFUSED, "open model: backend cuda: have a build without it, need --backend cpu");
    if (lv->backend == LEVER_BACKEND_REF) {
        *be = &op_ref;
        return GLIM_OK;
    }
    enum cpu_isa isa = cpu_isa_best();
    if (lv->cpu_isa == LEVER_ISA_GENERIC)
        isa = CPU_GENERIC;
    else if (lv->cpu_isa == LEVER_ISA_AVX2)
        isa = CPU_AVX2;
    else if (lv->cpu_isa == LEVER_ISA_AVX512)
        isa = CPU_AVX512;
    *be = cpu_backend(isa);
    if (!*be)
        return err_set(e, GLIM_REFUSED, "open model: cpu_isa: have a processor without %s, need it or cpu_isa=auto",
                       isa == CPU_AVX512 ? "AVX-512 VNNI" : "AVX2");
    return GLIM_OK;
}

uint32_t model_default_ctx(const struct levers *lv, const struct plan *p)
{
    enum { CTX_DEFAULT = 4096 };
    if (lv->ctx)
        return (uint32_t)lv->ctx;
    return p->n_ctx_train < CTX_DEFAULT ? p->n_ctx_train : CTX_DEFAULT;
}

enum kv_type model_kv_type(const struct levers *lv, const struct binder *b)
{
    switch ((enum lever_kv)lv->kv_type) {
    case LEVER_KV_F32:
        return KV_F32;
    case LEVER_KV_F16:
        return KV_F16;
    case LEVER_KV_BF16:
        return KV_BF16;
    case LEVER_KV_Q8:
        return KV_Q8;
    case LEVER_KV_AUTO:
        break;
    }
    for (size_t i = 0; i < b->n_matrix; i++)
        if (b->matrix[i].t->fmt->group)
            return KV_Q8;
    return KV_F32;
}

/* ---- weights ---- */

static glim_status matrix_bytes(const struct bind_matrix *m, const struct backend *be, size_t *bytes,
                                struct glim_err *e)
{
    glim_status st = be->weight_bytes(m->w->fmt, m->w->n_out, m->w->n_in, bytes, e);
    if (st != GLIM_OK)
        return err_prefix(e, "open model: tensor %s", m->t->name);
    if (!align_up(*bytes, 64, bytes))
        return err_set(e, GLIM_REFUSED, "plan: tensor %s: have a size beyond 64 bits", m->t->name);
    return GLIM_OK;
}

static glim_status weights_total(const struct binder *b, const struct backend *be, size_t *matrices, size_t *vectors,
                                 struct glim_err *e)
{
    *matrices = *vectors = 0;
    for (size_t i = 0; i < b->n_matrix; i++) {
        size_t bytes;
        TRY(matrix_bytes(&b->matrix[i], be, &bytes, e));
        if (!add_size(*matrices, bytes, matrices))
            return err_set(e, GLIM_REFUSED, "plan: weights: have a size beyond 64 bits");
    }
    for (size_t i = 0; i < b->n_vector; i++)
        *vectors += (b->vector[i].t->dim[0] * sizeof(float) + 63) & ~(size_t)63; /* dims are bounded by the config */
    return GLIM_OK;
}

/* Matrices of one format: how many, their bytes laid out and in the file. */
struct share {
    size_t n, bytes, file;
};

static glim_status share_row(struct mem_plan *mp, const struct share *s, const struct quant_format *f, const char *what,
                             struct glim_err *e)
{
    TRY(mem_plan_add(mp, MEM_WEIGHTS, s->bytes, e, "%s: %s", f->name, what));
    mp->row[mp->n_row - 1].file_bytes = s->file;
    return GLIM_OK;
}

glim_status model_plan_weights(const struct plan *p, const struct binder *b, const struct backend *be,
                               struct mem_plan *mp, struct glim_err *e)
{
    struct share embed = {0}, kind[QT_COUNT] = {{0}}, vectors = {0};
    size_t matrices;
    TRY(weights_total(b, be, &matrices, &vectors.bytes, e)); /* checks that the sums below fit */
    for (size_t i = 0; i < b->n_matrix; i++) {
        const struct bind_matrix *m = &b->matrix[i];
        struct share *s = m->w == &p->embed ? &embed : &kind[m->w->fmt->type];
        size_t bytes;
        TRY(matrix_bytes(m, be, &bytes, e));
        s->n++;
        s->bytes += bytes;
        s->file += m->t->bytes;
    }
    for (size_t i = 0; i < b->n_vector; i++)
        vectors.file += b->vector[i].t->bytes;
    TRY(share_row(mp, &embed, p->embed.fmt, p->tied ? "embedding and head" : "embedding", e));
    for (size_t i = 0; i < b->n_matrix; i++) { /* formats in the order of their first matrix */
        const struct quant_format *f = b->matrix[i].w->fmt;
        char what[32];
        snprintf(what, sizeof what, "%zu matri%s", kind[f->type].n, kind[f->type].n == 1 ? "x" : "ces");
        if (kind[f->type].n > 0)
            TRY(share_row(mp, &kind[f->type], f, what, e));
        kind[f->type].n = 0;
    }
    return share_row(mp, &vectors, quant_format(QT_F32), "norms and biases", e);
}

struct load {
    const struct backend *be;
    struct crew *crew;
    struct arena *arena;
    glim_progress *progress;
    void *user;
    uint64_t done, total;
};

/* Lay one matrix out, some rows at a time, so that the file's pages do not pile up beside the layout. */
static glim_status load_matrix(struct load *l, const struct bind_matrix *m, struct glim_err *e)
{
    enum { STEP_BYTES = 16 << 20, ROW_STEP = 64 };
    struct weight *w = m->w;
    TRY(matrix_bytes(m, l->be, &w->bytes, e));
    w->data = arena_take(l->arena, w->bytes);
    if (!w->data)
        return err_set(e, GLIM_FAILED, "open model: weights: have %zu bytes, need more (plan and layout disagree)",
                       l->arena->size);
    size_t row_bytes = m->t->bytes / w->n_out;
    size_t step = STEP_BYTES / row_bytes / ROW_STEP * ROW_STEP;
    if (step < ROW_STEP)
        step = ROW_STEP;
    for (size_t row = 0; row < w->n_out; row += step) {
        size_t n = w->n_out - row < step ? w->n_out - row : step;
        const uint8_t *src = m->t->data + row * row_bytes;
        l->be->weight_pack(l->crew, w, src, (uint32_t)row, (uint32_t)n);
        file_map_drop(m->t->map, (size_t)(src - m->t->map->data), n * row_bytes);
        l->done += n * row_bytes;
        if (l->progress && !l->progress(l->user, l->done, l->total))
            return err_set(e, GLIM_FAILED, "open model: cancelled: have %llu of %llu bytes",
                           (unsigned long long)l->done, (unsigned long long)l->total);
    }
    return GLIM_OK;
}

static glim_status load_vector(struct load *l, const struct bind_vector *v, struct glim_err *e)
{
    size_t n = (size_t)v->t->dim[0];
    float *p = arena_take(l->arena, n * sizeof *p);
    if (!p)
        return err_set(e, GLIM_FAILED, "open model: weights: have %zu bytes, need more (plan and layout disagree)",
                       l->arena->size);
    v->t->fmt->decode(v->t->data, p, n);
    for (size_t i = 0; i < n; i++)
        p[i] += v->add;
    *v->dst = p;
    return GLIM_OK;
}

static glim_status load_weights(struct glim_model *m, const struct binder *b, struct crew *crew,
                                glim_progress *progress, void *user, struct glim_err *e)
{
    size_t matrices, vectors;
    TRY(weights_total(b, m->be, &matrices, &vectors, e));
    TRY(arena_init(&m->weights, matrices + vectors, "weights", e));
    struct load l = {.be = m->be, .crew = crew, .arena = &m->weights, .progress = progress, .user = user};
    for (size_t i = 0; i < b->n_matrix; i++) {
        l.total += b->matrix[i].t->bytes;
        m->info.n_param += tensor_elems(b->matrix[i].t);
    }
    for (size_t i = 0; i < b->n_vector; i++)
        m->info.n_param += b->vector[i].t->dim[0];
    for (size_t i = 0; i < b->n_vector; i++)
        TRY(load_vector(&l, &b->vector[i], e));
    for (size_t i = 0; i < b->n_matrix; i++)
        TRY(load_matrix(&l, &b->matrix[i], e));
    m->info.weight_bytes = m->weights.size;
    return GLIM_OK;
}

/* The activations of quantised weights; the tied head is a second view of the embedding. In mixed form the head has 16
 * bits: its noise goes straight into the logits, and its products are few in prefill and wait for memory in decode. */
static void set_activations(struct plan *p, const struct binder *b, enum lever_act act)
{
    static const enum act_type of[] = {
        [LEVER_ACT_MIXED] = ACT_MIXED, [LEVER_ACT_Q16] = ACT_Q16, [LEVER_ACT_Q8] = ACT_Q8};
    for (size_t i = 0; i < b->n_matrix; i++)
        if (b->matrix[i].w->fmt->group)
            b->matrix[i].w->act = of[act];
    if (p->tied)
        p->head = p->embed;
    if (p->head.act == ACT_MIXED)
        p->head.act = ACT_Q16;
}

/* ---- open ---- */

static glim_status model_name(struct glim_model *m, const struct checkpoint *ck, struct glim_err *e)
{
    const struct gguf_kv *kv = ck->gguf ? gguf_find(ck->gguf, "general.name") : NULL;
    const char *s = strrchr(ck->path, '/') ? strrchr(ck->path, '/') + 1 : ck->path;
    size_t n = strlen(s);
    if (kv && kv->type == GGUF_STRING && kv->n > 0)
        TRY(gguf_string(kv, &s, &n, e));
    m->name = mem_strndup(s, n);
    return m->name ? GLIM_OK : err_nomem(e, "model name", n);
}

static glim_status check_memory(const struct glim_model *m, const struct binder *b, struct glim_err *e)
{
    struct mem_plan mp = {0};
    glim_status st = model_plan_weights(&m->plan, b, m->be, &mp, e);
    if (st == GLIM_OK)
        st = mem_plan_check(&mp, m->lv.mem_limit ? (size_t)m->lv.mem_limit : mem_available(), e);
    mem_plan_free(&mp);
    return st;
}

static glim_status open_parts(struct glim_model *m, const struct checkpoint *ck, struct config *c, struct binder *b,
                              glim_progress *progress, void *user, struct glim_err *e)
{
    TRY(arch_plan(c, &m->arch, &m->plan, e));
    TRY(m->arch->bind(b, &m->plan, e));
    TRY(bind_check_unused(b, e));
    TRY(check_memory(m, b, e));
    TRY(model_tokenizer(ck, &m->tok, e));
    if (tok_n(m->tok) > m->plan.n_vocab)
        return err_set(e, GLIM_FAILED,
                       "open model: %s: tokenizer: have %zu tokens, need at most the %u rows of the head", ck->path,
                       tok_n(m->tok), m->plan.n_vocab);
    TRY(model_chat_templates(ck, &m->chat_template, &m->tool_template, e));
    TRY(model_name(m, ck, e));
    m->kv_type = model_kv_type(&m->lv, b);
    struct crew *crew;
    TRY(crew_create(&crew, (int)m->lv.threads, e));
    glim_status st = load_weights(m, b, crew, progress, user, e);
    crew_free(crew);
    TRY(st);
    set_activations(&m->plan, b, (enum lever_act)m->lv.act);
    return GLIM_OK;
}

glim_status glim_model_open(struct glim_model **out, const char *path, const struct glim_config *c,
                            glim_progress *progress, void *user, struct glim_err *err)
{
    *out = NULL;
    struct glim_model *m = mem_calloc(1, sizeof *m);
    if (!m)
        return err_nomem(err, "model", sizeof *m);
    struct checkpoint ck = {0};
    struct config config = {0};
    struct binder b = {.ck = &ck};
    glim_status st;
    m->lv = *lever_values(c->set);
    m->lv.home = m->lv.host = m->lv.alias = m->lv.chat_template = m->lv.dialect = NULL;
    m->late = mem_calloc(1, sizeof *m->late);
    if (!m->late || pthread_mutex_init(&m->late->lock, NULL) != 0) {
        mem_free(m->late);
        mem_free(m);
        return err_nomem(err, "model", sizeof *m->late);
    }
    TRY_OUT(model_backend(&m->lv, &m->be, err));
    TRY_OUT(checkpoint_open(&ck, path, err));
    TRY_OUT(config_open(&config, &ck, err));
    TRY_OUT(open_parts(m, &ck, &config, &b, progress, user, err));
    const struct plan *p = &m->plan;
    m->info.name = m->name;
    m->info.arch = m->arch->name;
    m->info.format = checkpoint_is_hf(&ck) ? "hf" : "gguf";
    m->info.backend = m->be->name;
    m->info.n_vocab = p->n_vocab;
    m->info.n_layer = p->n_layer;
    m->info.dim = p->dim;
    m->info.n_ctx_train = p->n_ctx_train;
    m->info.bos = tok_bos(m->tok);
    m->info.eos = tok_eos(m->tok);
out:
    binder_fini(&b);
    config_close(&config);
    checkpoint_close(&ck);
    if (st != GLIM_OK)
        glim_model_close(m);
    else
        *out = m;
    return st;
}

void glim_model_close(struct glim_model *m)
{
    if (!m)
        return;
    grammar_vocab_free(m->late->vocab);
    pthread_mutex_destroy(&m->late->lock);
    mem_free(m->late);
    mem_free(m->chat_template);
    mem_free(m->tool_template);
    tok_close(m->tok);
    plan_fini(&m->plan);
    arena_fini(&m->weights);
    mem_free(m->name);
    mem_free(m);
}

const struct glim_model_info *glim_model_info(const struct glim_model *m)
{
    return &m->info;
}

/* ---- text ---- */

bool glim_token_is_end(const struct glim_model *m, int32_t token)
{
    return tok_is_end(m->tok, token);
}

glim_status glim_tokenize(const struct glim_model *m, const char *text, size_t n, int flags, int32_t **tokens,
                          size_t *n_token, struct glim_err *err)
{
    return tok_encode(m->tok, text, n, flags, tokens, n_token, err);
}

glim_status glim_detokenize(const struct glim_model *m, const int32_t *tokens, size_t n_token, bool special,
                            char **text, size_t *n, struct glim_err *err)
{
    return tok_decode(m->tok, tokens, n_token, special, text, n, err);
}

void glim_free(void *p)
{
    mem_free(p);
}
