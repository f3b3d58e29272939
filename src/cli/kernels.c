/* Which kernel serves which kind of product of a model. */
#include "cli/cli.h"

#include "run/model.h"

#include <string.h>

enum { KINDS_MAX = 64 };

struct kinds { /* distinct pairs of number format and activations */
    struct {
        const struct quant_format *fmt;
        enum act_type act;
    } kind[KINDS_MAX];
    size_t n;
};

static void add(struct kinds *k, const struct weight *w)
{
    if (!w->fmt)
        return;
    for (size_t i = 0; i < k->n; i++)
        if (k->kind[i].fmt == w->fmt && k->kind[i].act == w->act)
            return;
    if (k->n == KINDS_MAX)
        return;
    k->kind[k->n].fmt = w->fmt;
    k->kind[k->n++].act = w->act;
}

const char *cli_act_name(enum act_type a)
{
    switch (a) {
    case ACT_F32:
        return "f32";
    case ACT_Q8:
        return "q8";
    case ACT_MIXED:
        return "mixed";
    case ACT_Q16:
        return "q16";
    }
    return "?";
}

static struct kinds kinds_of(const struct glim_model *m)
{
    struct kinds k = {0};
    for (uint32_t i = 0; i < m->plan.n_layer; i++) {
        const struct layer_weights *l = &m->plan.weights[i];
        const struct weight *w[] = {&l->attn.q,   &l->attn.k, &l->attn.v,  &l->attn.o,
                                    &l->ffn.gate, &l->ffn.up, &l->ffn.down};
        for (size_t j = 0; j < sizeof w / sizeof *w; j++)
            add(&k, w[j]);
    }
    add(&k, &m->plan.head);
    return k;
}

void cli_json_kernels(struct str *s, const struct glim_model *m)
{
    struct kinds k = kinds_of(m);
    str_putc(s, '{');
    for (size_t i = 0; i < k.n; i++) {
        const char *name = m->be->kernel_name(k.kind[i].fmt, k.kind[i].act);
        str_printf(s, "%s\"%s %s\":", i ? "," : "", k.kind[i].fmt->name, cli_act_name(k.kind[i].act));
        str_json(s, name, strlen(name));
    }
    str_putc(s, '}');
}

void cli_text_kernels(struct str *s, const struct glim_model *m)
{
    struct kinds k = kinds_of(m);
    for (size_t i = 0; i < k.n; i++)
        str_printf(s, "  %-8s %-6s %s\n", k.kind[i].fmt->name, cli_act_name(k.kind[i].act),
                   m->be->kernel_name(k.kind[i].fmt, k.kind[i].act));
}
