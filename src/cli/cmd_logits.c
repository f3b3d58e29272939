/* glim logits: what the model computes for given tokens, as arrays for other tools. --dump-hidden and --compare find
 * the layer where two runs (or two engines) part. */
#include "cli/cli.h"

#include "base/mem.h"
#include "cli/npy.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct logits_options {
    const char *model, *tokens, *out, *dump, *compare;
    int64_t index;
    float tolerance;
    bool json;
};

static glim_status write_logits(struct glim_session *s, const struct cli *c, const int32_t *ids, size_t n,
                                const char *path, struct glim_err *e)
{
    struct npy a = {0};
    const size_t dim[] = {n, glim_model_info(c->model)->n_vocab};
    glim_status st;
    TRY_OUT(npy_create(&a, "logits", 2, dim, e));
    TRY_OUT(glim_session_eval_all(s, ids, n, a.data, e));
    TRY_OUT(npy_write(&a, path, e));
out:
    npy_fini(&a);
    return st;
}

struct layer_diff {
    double max_abs; /* largest difference */
    double scale;   /* largest magnitude of the reference */
};

/* NaN counts as infinitely far. */
static struct layer_diff diff_of(const float *x, const float *ref, size_t n)
{
    struct layer_diff d = {0};
    for (size_t i = 0; i < n; i++) {
        double a = fabs((double)x[i] - (double)ref[i]);
        if (!(a <= d.max_abs))
            d.max_abs = isnan(a) ? (double)INFINITY : a;
        if (fabs((double)ref[i]) > d.scale)
            d.scale = fabs((double)ref[i]);
    }
    return d;
}

static glim_status report(const struct npy *mine, const struct npy *ref, const struct logits_options *o,
                          struct glim_err *e)
{
    size_t n_layer = mine->dim[0], n = mine->dim[1] * mine->dim[2];
    long first = -1;
    struct str s = {0};
    str_puts(&s, o->json ? "{\"layers\":[" : "layer   max|diff|   max|ref|\n");
    for (size_t i = 0; i < n_layer; i++) {
        struct layer_diff d = diff_of(mine->data + i * n, ref->data + i * n, n);
        bool apart = d.max_abs > (double)o->tolerance * d.scale;
        if (apart && first < 0)
            first = (long)i;
        double shown = isinf(d.max_abs) ? 1e308 : d.max_abs;
        if (o->json)
            str_printf(&s, "%s{\"layer\":%zu,\"max_abs\":%.9g,\"scale\":%.9g}", i ? "," : "", i, shown, d.scale);
        else
            str_printf(&s, "%5zu %11.4g %10.4g%s\n", i, d.max_abs, d.scale, apart ? "  apart" : "");
    }
    if (o->json && first < 0)
        str_puts(&s, "],\"first_divergent\":null}\n");
    else if (o->json)
        str_printf(&s, "],\"first_divergent\":%ld}\n", first);
    TRY(cli_print(&s, e));
    if (first >= 0)
        return err_set(e, GLIM_FAILED,
                       "compare: layer %ld: have hidden states that differ, need at most %g of the largest", first,
                       (double)o->tolerance);
    return GLIM_OK;
}

static glim_status trace(struct glim_session *s, const struct cli *c, const int32_t *ids, size_t n,
                         const struct logits_options *o, struct glim_err *e)
{
    const struct glim_model_info *info = glim_model_info(c->model);
    struct npy a = {0}, ref = {0};
    const size_t dim[] = {info->n_layer, n, info->dim};
    glim_status st;
    TRY_OUT(npy_create(&a, "hidden states", 3, dim, e));
    TRY_OUT(run_trace(s, ids, n, a.data, e));
    if (o->dump)
        TRY_OUT(npy_write(&a, o->dump, e));
    if (o->compare) {
        TRY_OUT(npy_read(&ref, o->compare, e));
        if (ref.n_dim != 3 || memcmp(ref.dim, dim, sizeof dim) != 0) {
            st = err_set(e, GLIM_FAILED, "compare: %s: have %u dimensions (%zu, %zu, %zu), need (%zu, %zu, %zu)",
                         o->compare, ref.n_dim, ref.dim[0], ref.dim[1], ref.dim[2], dim[0], dim[1], dim[2]);
            goto out;
        }
        TRY_OUT(report(&a, &ref, o, e));
    }
out:
    npy_fini(&a);
    npy_fini(&ref);
    return st;
}

static glim_status begin(struct cli *c, struct logits_options *o, int argc, char **argv)
{
    const struct arg arg[] = {
        {'m', "model", ARG_TEXT, &o->model, "MODEL", 0, 0, "a model file or folder, or the name of a pulled model"},
        {0, "tokens", ARG_TEXT, &o->tokens, "JSON", 0, 0, "token ids: '[1,2,3]' or a JSON file"},
        {0, "index", ARG_INT, &o->index, "I", 0, 1e9, "which list, when the file holds several"},
        {'o', "out", ARG_TEXT, &o->out, "OUT.npy", 0, 0, "logits, f32 [n_tokens, n_vocab]"},
        {0, "dump-hidden", ARG_TEXT, &o->dump, "OUT.npy", 0, 0,
         "residual stream after each layer, f32 [n_layer, n_tokens, dim]"},
        {0, "compare", ARG_TEXT, &o->compare, "FILE.npy", 0, 0,
         "such a file: name the first layer that differs, exit code 1"},
        {0, "tolerance", ARG_FLOAT, &o->tolerance, "X", 0, 1e9,
         "of --compare, relative to a layer's largest value (1e-4)"},
        {0, "json", ARG_FLAG, &o->json, NULL, 0, 0, "what --compare found as a JSON object"},
    };
    const struct arg_spec spec = {"logits",
                                  "-m MODEL --tokens JSON -o OUT.npy [OPTION …]",
                                  "Write the logits after each token, computed from nothing.",
                                  arg,
                                  sizeof arg / sizeof *arg,
                                  true,
                                  0};
    TRY(cli_begin(c, &spec, argc, argv));
    if (!c->args.help && !o->out && !o->dump && !o->compare)
        return err_set(&c->err, GLIM_USAGE, "logits: output: have none, need -o, --dump-hidden or --compare");
    return GLIM_OK;
}

int cmd_logits(int argc, char **argv)
{
    struct logits_options o = {.index = -1, .tolerance = 1e-4f};
    struct cli c = {0};
    struct glim_session *session = NULL;
    int32_t *ids = NULL;
    size_t n;
    glim_status st;
    TRY_OUT(begin(&c, &o, argc, argv));
    if (c.args.help)
        goto out;
    TRY_OUT(cli_open(&c, o.model));
    TRY_OUT(cli_read_tokens(o.tokens, o.index, glim_model_info(c.model)->n_vocab, &ids, &n, &c.err));
    TRY_OUT(glim_session_create(&session, c.model, 0, &c.err));
    if (o.out)
        TRY_OUT(write_logits(session, &c, ids, n, o.out, &c.err));
    if (o.dump || o.compare)
        TRY_OUT(trace(session, &c, ids, n, &o, &c.err));
out:
    glim_session_free(session);
    mem_free(ids);
    return cli_end(&c, st);
}
