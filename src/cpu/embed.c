/* embed: rows of a table that is packed in panels, one lane of a panel a row. Same values as the file format's decode.
 */
#include "cpu/cpu_impl.h"
#include "cpu/linear.h"

#include <string.h>

struct embed_job {
    struct rows y;
    const struct weight *table;
    const int32_t *token;
    float scale;
};

static void embed_plain(const struct pack_layout *l, const uint8_t *panel, unsigned lane, float *y, uint32_t n,
                        float scale)
{
    size_t size = l->file_bytes;
    for (uint32_t k = 0; k < n; k++) {
        const uint8_t *p = panel + ((size_t)k * PANEL + lane) * size;
        uint16_t h;
        float v;
        memcpy(&h, p, 2);
        if (l->type == QT_F32)
            memcpy(&v, p, 4);
        else
            v = l->type == QT_F16 ? f16_to_f32(h) : bf16_to_f32(h);
        y[k] = scale * v;
    }
}

static void embed_blocks(const struct pack_layout *l, const uint8_t *panel, unsigned lane, float *y, uint32_t n,
                         float scale)
{
    unsigned n_run = l->block / RUN;
    bool has_min = pack_has_min(l);
    struct pack_run r;
    for (uint32_t g = 0; g < n / RUN; g++, y += RUN) {
        uint32_t block = g / n_run;
        pack_unpack(l, panel + (size_t)block * l->scale_bytes, panel + pack_q_offset(l, n) + (size_t)block * l->q_bytes,
                    g % n_run, lane, 1, &r);
        for (unsigned i = 0; i < RUN; i++) {
            unsigned h = i / l->group;
            float v = r.a[h][lane] * (float)(r.u[i / 4][lane][i % 4] - l->zero);
            y[i] = scale * (has_min ? v + r.b[h][lane] : v);
        }
    }
}

static void embed_member(void *arg, int member, int n_member)
{
    const struct embed_job *j = arg;
    const struct weight *w = j->table;
    const struct pack_layout *l = pack_layout(w->fmt);
    size_t panel_bytes = pack_panel_bytes(l, w->n_in);
    uint32_t first = (uint32_t)((uint64_t)j->y.n * (uint64_t)member / (uint64_t)n_member);
    uint32_t last = (uint32_t)((uint64_t)j->y.n * ((uint64_t)member + 1) / (uint64_t)n_member);
    for (uint32_t r = first; r < last; r++) {
        uint32_t token = (uint32_t)j->token[r];
        const uint8_t *panel = (const uint8_t *)w->data + token / PANEL * panel_bytes;
        float *y = j->y.p + r * j->y.stride;
        if (l->shape == SHAPE_PLAIN)
            embed_plain(l, panel, token % PANEL, y, w->n_in, j->scale);
        else
            embed_blocks(l, panel, token % PANEL, y, w->n_in, j->scale);
    }
}

void cpu_embed(struct op_ctx *c, struct rows y, const struct weight *table, const int32_t *token, float scale)
{
    struct embed_job j = {y, table, token, scale};
    cpu_run(c, embed_member, &j, 2.0 * y.n * table->n_in);
}
