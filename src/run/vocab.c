/* The vocabulary a GGUF carries, as text/tokenizer.h wants it. */
#include "base/arith.h"
#include "run/model.h"

#include <string.h>

struct vocab {
    struct tok_piece *token, *merge;
    float *score;
    int32_t *type;
    char model[32], pre[64];
    int32_t end[4];
    struct tok_spec spec;
};

static void vocab_fini(struct vocab *v)
{
    mem_free(v->token);
    mem_free(v->merge);
    mem_free(v->score);
    mem_free(v->type);
}

static glim_status wrong(const char *key, const char *need, struct glim_err *e)
{
    return err_set(e, GLIM_FAILED, "open model: key %s: have another type or length, need %s", key, need);
}

static glim_status read_pieces(const struct gguf *g, const char *key, struct tok_piece **out, size_t *n,
                               struct glim_err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    *n = 0;
    if (!kv)
        return GLIM_OK;
    if (kv->type != GGUF_ARRAY || kv->elem != GGUF_STRING)
        return wrong(key, "an array of strings", e);
    *out = mem_calloc(kv->n, sizeof **out);
    if (!*out)
        return err_nomem(e, key, kv->n * sizeof **out);
    size_t cursor = 0, len;
    const char *s;
    while (*n < kv->n && gguf_next_string(kv, &cursor, &s, &len)) {
        if (len > UINT32_MAX)
            return wrong(key, "shorter strings", e);
        (*out)[(*n)++] = (struct tok_piece){.s = s, .n = (uint32_t)len};
    }
    return GLIM_OK;
}

static glim_status read_scores(const struct gguf *g, size_t n_token, float **out, struct glim_err *e)
{
    const char *key = "tokenizer.ggml.scores";
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv)
        return GLIM_OK;
    if (kv->type != GGUF_ARRAY || kv->elem != GGUF_F32 || kv->n != n_token)
        return wrong(key, "one F32 a token", e);
    *out = mem_calloc(n_token, sizeof **out);
    if (!*out)
        return err_nomem(e, key, n_token * sizeof **out);
    memcpy(*out, kv->data, n_token * sizeof **out);
    return GLIM_OK;
}

static glim_status read_types(const struct gguf *g, size_t n_token, int32_t **out, struct glim_err *e)
{
    const char *key = "tokenizer.ggml.token_type";
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv)
        return GLIM_OK;
    if (kv->type != GGUF_ARRAY || kv->n != n_token)
        return wrong(key, "one integer a token", e);
    *out = mem_calloc(n_token, sizeof **out);
    if (!*out)
        return err_nomem(e, key, n_token * sizeof **out);
    for (size_t i = 0; i < n_token; i++) {
        int64_t v;
        TRY(gguf_int_at(kv, i, 0, INT32_MAX, &v, e));
        (*out)[i] = (int32_t)v;
    }
    return GLIM_OK;
}

static glim_status read_id(const struct gguf *g, const char *key, size_t n_token, int32_t *id, struct glim_err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    int64_t v = -1;
    if (kv)
        TRY(gguf_int(kv, 0, (int64_t)n_token - 1, &v, e));
    *id = (int32_t)v;
    return GLIM_OK;
}

static glim_status read_flag(const struct gguf *g, const char *key, int8_t *flag, struct glim_err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    *flag = -1;
    if (!kv)
        return GLIM_OK;
    bool b;
    TRY(gguf_bool(kv, &b, e));
    *flag = b;
    return GLIM_OK;
}

static glim_status read_name(const struct gguf *g, const char *key, char *buf, size_t cap, struct glim_err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    buf[0] = 0;
    if (!kv)
        return GLIM_OK;
    const char *s;
    size_t n;
    TRY(gguf_string(kv, &s, &n, e));
    if (n >= cap || memchr(s, 0, n))
        return wrong(key, "a short name", e);
    memcpy(buf, s, n);
    buf[n] = 0;
    return GLIM_OK;
}

/* What a "t5" vocabulary does to text before it is cut; the bytes stay the file's. */
static glim_status read_normaliser(const struct gguf *g, struct tok_spec *s, struct glim_err *e)
{
    const char *key = "tokenizer.ggml.precompiled_charsmap";
    const struct gguf_kv *kv = gguf_find(g, key);
    if (kv && (kv->type != GGUF_ARRAY || (kv->elem != GGUF_U8 && kv->elem != GGUF_I8)))
        return wrong(key, "an array of bytes", e);
    if (kv) {
        s->charsmap = kv->data;
        s->n_charsmap = kv->n;
    }
    int8_t remove;
    TRY(read_flag(g, "tokenizer.ggml.remove_extra_whitespaces", &remove, e));
    s->remove_extra_spaces = remove > 0;
    return GLIM_OK;
}

static glim_status read_vocab(const struct gguf *g, struct vocab *v, struct glim_err *e)
{
    struct tok_spec *s = &v->spec;
    TRY(read_name(g, "tokenizer.ggml.model", v->model, sizeof v->model, e));
    TRY(read_name(g, "tokenizer.ggml.pre", v->pre, sizeof v->pre, e));
    TRY(read_pieces(g, "tokenizer.ggml.tokens", &v->token, &s->n_token, e));
    if (!v->model[0] || s->n_token == 0)
        return err_set(e, GLIM_FAILED, "open model: tokenizer: have no tokenizer.ggml.model and tokens, need both");
    TRY(read_pieces(g, "tokenizer.ggml.merges", &v->merge, &s->n_merge, e));
    TRY(read_scores(g, s->n_token, &v->score, e));
    TRY(read_types(g, s->n_token, &v->type, e));
    TRY(read_id(g, "tokenizer.ggml.bos_token_id", s->n_token, &s->bos, e));
    TRY(read_id(g, "tokenizer.ggml.eos_token_id", s->n_token, &s->eos, e));
    TRY(read_id(g, "tokenizer.ggml.eot_token_id", s->n_token, &s->eot, e));
    TRY(read_id(g, "tokenizer.ggml.unknown_token_id", s->n_token, &s->unk, e));
    TRY(read_flag(g, "tokenizer.ggml.add_bos_token", &s->add_bos, e));
    TRY(read_flag(g, "tokenizer.ggml.add_eos_token", &s->add_eos, e));
    TRY(read_flag(g, "tokenizer.ggml.add_space_prefix", &s->add_space_prefix, e));
    TRY(read_normaliser(g, s, e));
    int32_t eom;
    TRY(read_id(g, "tokenizer.ggml.eom_token_id", s->n_token, &eom, e));
    if (s->eot >= 0)
        v->end[s->n_end++] = s->eot;
    if (eom >= 0)
        v->end[s->n_end++] = eom;
    s->model = v->model;
    s->pre = v->pre[0] ? v->pre : NULL;
    s->token = v->token;
    s->score = v->score;
    s->type = v->type;
    s->merge = v->merge;
    s->end = v->end;
    return GLIM_OK;
}

glim_status model_tokenizer(const struct checkpoint *ck, struct tokenizer **out, struct glim_err *e)
{
    if (checkpoint_is_hf(ck))
        return tok_open_hf(out, ck->path, e);
    struct vocab v = {0};
    glim_status st = read_vocab(ck->gguf, &v, e);
    if (st == GLIM_OK)
        st = tok_open(out, &v.spec, e);
    vocab_fini(&v);
    return st;
}
