/* Rotary frequencies and their scaling rules.
 *
 * Formulas as transformers states them (modeling_rope_utils.py): linear (position interpolation, Chen et al. 2023),
 * llama3 (Llama 3.1), YaRN (Peng et al. 2023). All in double, rounded once to f32. */
#include "arch/arch.h"

#include <math.h>
#include <string.h>

static const double two_pi = 6.283185307179586476925;

/* ---- reading ---- */

/* Keys of a rope dictionary in config.json; another one is refused. */
static glim_status check_rope_keys(const struct config *c, json_t *d, struct glim_err *e)
{
    static const char *const known[] = {
        "rope_type",
        "type",
        "rope_theta",
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "beta_fast",
        "beta_slow",
        "original_max_position_embeddings",
        "attention_factor",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "partial_rotary_factor",
    };
    const char *key;
    json_t *v;
    json_object_foreach(d, key, v)
    {
        bool ok = json_is_null(v);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            ok = ok || strcmp(key, known[i]) == 0;
        if (!ok)
            return err_set(e, GLIM_REFUSED,
                           "open model: %s/config.json: rope: have key \"%s\", which is not known, need a "
                           "glim that does",
                           c->ck->path, key);
    }
    return GLIM_OK;
}

static glim_status rope_number(const struct config *c, json_t *d, const char *key, float *out, struct glim_err *e)
{
    json_t *v = json_object_get(d, key);
    if (!v || json_is_null(v))
        return GLIM_OK;
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(x >= 0 && x <= 1e12))
        return err_set(e, GLIM_FAILED, "open model: %s/config.json: rope key %s: have no number in 0..1e12, need one",
                       c->ck->path, key);
    *out = (float)x;
    return GLIM_OK;
}

static glim_status read_type(const struct config *c, const char *s, struct rope_config *r, struct glim_err *e)
{
    static const struct {
        const char *name;
        enum rope_type type;
    } names[] = {{"default", ROPE_PLAIN},
                 {"none", ROPE_PLAIN},
                 {"linear", ROPE_LINEAR},
                 {"llama3", ROPE_LLAMA3},
                 {"yarn", ROPE_YARN}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(s, names[i].name) == 0) {
            r->type = names[i].type;
            return GLIM_OK;
        }
    }
    return err_set(e, GLIM_REFUSED,
                   "open model: %s: rope scaling: have type \"%s\", need default, linear, llama3 or yarn", c->ck->path,
                   s);
}

static glim_status read_dict(const struct config *c, json_t *d, struct rope_config *r, struct glim_err *e)
{
    if (!json_is_object(d))
        return err_set(e, GLIM_FAILED, "open model: %s/config.json: rope parameters: have no object, need one",
                       c->ck->path);
    TRY(check_rope_keys(c, d, e));
    json_t *type = json_object_get(d, "rope_type");
    if (!type)
        type = json_object_get(d, "type");
    if (type && !json_is_string(type))
        return err_set(e, GLIM_FAILED, "open model: %s/config.json: rope_type: have no string, need one", c->ck->path);
    if (type)
        TRY(read_type(c, json_string_value(type), r, e));
    TRY(rope_number(c, d, "rope_theta", &r->theta, e));
    TRY(rope_number(c, d, "factor", &r->factor, e));
    TRY(rope_number(c, d, "low_freq_factor", &r->low_freq_factor, e));
    TRY(rope_number(c, d, "high_freq_factor", &r->high_freq_factor, e));
    TRY(rope_number(c, d, "original_max_position_embeddings", &r->original_ctx, e));
    TRY(rope_number(c, d, "beta_fast", &r->beta_fast, e));
    TRY(rope_number(c, d, "beta_slow", &r->beta_slow, e));
    TRY(rope_number(c, d, "attention_factor", &r->attn_factor, e));
    TRY(rope_number(c, d, "mscale", &r->mscale, e));
    TRY(rope_number(c, d, "mscale_all_dim", &r->mscale_all_dim, e));
    json_t *t = json_object_get(d, "truncate");
    if (t)
        r->truncate = json_is_true(t);
    return GLIM_OK;
}

static glim_status read_hf(struct config *c, const char *sub, struct rope_config *r, struct glim_err *e)
{
    json_t *d = cfg_json(c, "rope_parameters");
    if (d && sub && json_object_get(d, sub))
        d = json_object_get(d, sub);
    if (d)
        return read_dict(c, d, r, e);
    TRY(cfg_float(c, "rope_theta", NULL, true, &r->theta, e));
    d = cfg_json(c, "rope_scaling");
    return d ? read_dict(c, d, r, e) : GLIM_OK;
}

static glim_status read_gguf(struct config *c, struct rope_config *r, struct glim_err *e)
{
    char type[32] = "none";
    TRY(cfg_float(c, NULL, "rope.freq_base", true, &r->theta, e));
    TRY(cfg_str(c, NULL, "rope.scaling.type", true, type, sizeof type, e));
    TRY(read_type(c, type, r, e));
    TRY(cfg_float(c, NULL, "rope.scaling.factor", true, &r->factor, e));
    int64_t ctx = (int64_t)r->original_ctx;
    TRY(cfg_int(c, NULL, "rope.scaling.original_context_length", true, 1, 1 << 30, &ctx, e));
    r->original_ctx = (float)ctx;
    TRY(cfg_float(c, NULL, "rope.scaling.yarn_beta_fast", true, &r->beta_fast, e));
    TRY(cfg_float(c, NULL, "rope.scaling.yarn_beta_slow", true, &r->beta_slow, e));
    float attn = 1.0f;
    TRY(cfg_float(c, NULL, "rope.scaling.attn_factor", true, &attn, e));
    if (attn != 1.0f && r->type == ROPE_YARN && r->factor > 1.0f)
        r->attn_factor = attn * (float)(1.0 + 0.1 * log((double)r->factor));
    return GLIM_OK;
}

glim_status rope_config_read(struct config *c, const char *sub, float default_theta, struct rope_config *r,
                             struct glim_err *e)
{
    int64_t ctx = 0;
    TRY(cfg_int(c, "max_position_embeddings", "context_length", true, 1, INT32_MAX, &ctx, e));
    *r = (struct rope_config){.theta = default_theta,
                              .factor = 1.0f,
                              .low_freq_factor = 1.0f,
                              .high_freq_factor = 4.0f,
                              .original_ctx = (float)ctx,
                              .beta_fast = 32.0f,
                              .beta_slow = 1.0f,
                              .truncate = true};
    TRY(config_is_hf(c) ? read_hf(c, sub, r, e) : read_gguf(c, r, e));
    if (!(r->theta > 1.0f))
        return err_set(e, GLIM_FAILED, "open model: %s: rope theta: have %g, need more than 1", c->ck->path,
                       (double)r->theta);
    if (r->type != ROPE_PLAIN && !(r->factor >= 1.0f))
        return err_set(e, GLIM_FAILED, "open model: %s: rope scaling factor: have %g, need at least 1", c->ck->path,
                       (double)r->factor);
    if ((r->type == ROPE_LLAMA3 || r->type == ROPE_YARN) && !(r->original_ctx >= 1.0f))
        return err_set(e, GLIM_FAILED, "open model: %s: rope scaling: have no original context length, need one",
                       c->ck->path);
    if (r->type == ROPE_LLAMA3 && !(r->high_freq_factor > r->low_freq_factor && r->low_freq_factor > 0.0f))
        return err_set(e, GLIM_FAILED,
                       "open model: %s: rope scaling: have low and high frequency factors %g and %g, need "
                       "0 < low < high",
                       c->ck->path, (double)r->low_freq_factor, (double)r->high_freq_factor);
    return GLIM_OK;
}

/* ---- frequencies ---- */

static double llama3_freq(const struct rope_config *r, double f)
{
    double wavelength = two_pi / f;
    double ctx = r->original_ctx, low = r->low_freq_factor, high = r->high_freq_factor;
    if (wavelength > ctx / low)
        return f / r->factor;
    if (wavelength < ctx / high)
        return f;
    double smooth = (ctx / wavelength - low) / (high - low);
    return (1.0 - smooth) * f / r->factor + smooth * f;
}

/* The rotated element whose wavelength makes n_turn turns in the original context. */
static double yarn_dim(const struct rope_config *r, double n_turn, uint32_t n_rot)
{
    return n_rot * log(r->original_ctx / (n_turn * two_pi)) / (2.0 * log(r->theta));
}

static double yarn_freq(const struct rope_config *r, double f, uint32_t i, uint32_t n_rot)
{
    double low = yarn_dim(r, r->beta_fast, n_rot), high = yarn_dim(r, r->beta_slow, n_rot);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, n_rot - 1.0);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax((i - low) / (high - low), 0.0), 1.0); /* 0: keep, 1: interpolate */
    return f / r->factor * ramp + f * (1.0 - ramp);
}

static double yarn_get_mscale(double factor, double m)
{
    return factor <= 1.0 ? 1.0 : 0.1 * m * log(factor) + 1.0;
}

static float rope_mscale(const struct rope_config *r)
{
    if (r->type != ROPE_YARN)
        return 1.0f;
    if (r->attn_factor > 0.0f)
        return r->attn_factor;
    if (r->mscale > 0.0f && r->mscale_all_dim > 0.0f)
        return (float)(yarn_get_mscale(r->factor, r->mscale) / yarn_get_mscale(r->factor, r->mscale_all_dim));
    return (float)yarn_get_mscale(r->factor, 1.0);
}

/* llama3's factors as a GGUF tensor: f32 [n_freq], each divides its frequency. */
static glim_status gguf_factors(const struct config *c, uint32_t n_freq, const struct tensor **t, struct glim_err *e)
{
    *t = config_is_hf(c) ? NULL : checkpoint_tensor(c->ck, "rope_freqs.weight");
    if (*t && ((*t)->n_dim != 1 || (*t)->dim[0] != n_freq || !(*t)->fmt || (*t)->fmt->type != QT_F32))
        return err_set(e, GLIM_FAILED,
                       "open model: %s: tensor rope_freqs.weight: have type %s and %llu elements, need F32 "
                       "and %u",
                       c->ck->path, (*t)->type_name, (unsigned long long)tensor_elems(*t), n_freq);
    return GLIM_OK;
}

glim_status rope_rule_make(const struct config *c, const struct rope_config *r, uint32_t n_rot, bool interleaved,
                           struct rope_rule *out, struct glim_err *e)
{
    memset(out, 0, sizeof *out);
    if (n_rot == 0 || n_rot % 2 || n_rot / 2 > ROPE_FREQ_MAX)
        return err_set(e, GLIM_REFUSED,
                       "open model: %s: rotated elements of a head: have %u, need an even number up to %d", c->ck->path,
                       n_rot, 2 * ROPE_FREQ_MAX);
    out->n_freq = n_rot / 2;
    out->interleaved = interleaved;
    out->mscale = rope_mscale(r);
    const struct tensor *factors;
    TRY(gguf_factors(c, out->n_freq, &factors, e));
    for (uint32_t i = 0; i < out->n_freq; i++) {
        double f = 1.0 / pow(r->theta, 2.0 * i / n_rot);
        if (r->type == ROPE_LINEAR)
            f /= r->factor;
        else if (r->type == ROPE_LLAMA3)
            f = llama3_freq(r, f);
        else if (r->type == ROPE_YARN)
            f = yarn_freq(r, f, i, n_rot);
        float divide = 1.0f;
        if (factors)
            memcpy(&divide, factors->data + 4 * (size_t)i, 4);
        if (!(divide > 0.0f))
            return err_set(e, GLIM_FAILED, "open model: %s: tensor rope_freqs.weight: have %g at %u, need more than 0",
                           c->ck->path, (double)divide, i);
        out->inv_freq[i] = (float)(f / divide);
    }
    return GLIM_OK;
}
