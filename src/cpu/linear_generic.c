/* Products in plain C: any machine, any layout, through pack_unpack. */
#include "cpu/linear_encode.h"

/* Number i of row r in blocks of 16 n_each numbers. */
static size_t in_blocks(const struct linear_args *a, size_t n_each, size_t i, uint32_t r)
{
    return (i / (16 * n_each) * a->rows + r) * 16 * n_each + i % (16 * n_each);
}

/* acc[r][lane] += the products of one group (quads [q, q + n)) with each row of the tile. */
static void group_dot(const struct linear_args *a, const struct pack_run *w, unsigned h, unsigned q, unsigned n,
                      size_t run, size_t group, float acc[TILE_MAX][PANEL])
{
    bool has_min = pack_has_min(a->layout);
    for (uint32_t r = 0; r < a->rows; r++) {
        size_t at = (run * a->rows + r) * RUN;
        int32_t isum[PANEL] = {0};
        for (unsigned j = q; j < q + n; j++) {
            int32_t x[4];
            for (size_t i = 0; i < 4; i++)
                x[i] = 256 * a->hi[at + 4 * j + i] + a->lo[at + 4 * j + i];
            for (int lane = 0; lane < PANEL; lane++)
                isum[lane] += w->u[j][lane][0] * x[0] + w->u[j][lane][1] * x[1] + w->u[j][lane][2] * x[2] +
                              w->u[j][lane][3] * x[3];
        }
        const uint32_t *sum = (const uint32_t *)a->sum + in_blocks(a, RUN / a->layout->group, group, r);
        float d = a->d[in_blocks(a, 1, run, r)], s;
        int32_t correction = (int32_t)*sum;
        memcpy(&s, sum, 4);
        for (int lane = 0; lane < PANEL; lane++) {
            if (has_min)
                acc[r][lane] = fmaf(w->b[h][lane], s, fmaf(w->a[h][lane] * d, (float)isum[lane], acc[r][lane]));
            else
                acc[r][lane] = fmaf(w->a[h][lane] * d, (float)(isum[lane] + correction), acc[r][lane]);
        }
    }
}

static void finish(const struct linear_args *a, uint32_t panel, float acc[TILE_MAX][PANEL])
{
    uint32_t first = panel * PANEL, n = a->n_out - first < PANEL ? a->n_out - first : PANEL;
    for (uint32_t r = 0; r < a->rows; r++) {
        float *y = a->y + r * a->y_stride + first;
        for (uint32_t lane = 0; lane < n; lane++) {
            float v = acc[r][lane];
            if (a->bias)
                v += a->bias[first + lane];
            y[lane] = a->add ? y[lane] + v : v;
        }
    }
}

static void product_quant(const struct linear_args *a)
{
    const struct pack_layout *l = a->layout;
    unsigned n_run = l->block / RUN, n_group = RUN / l->group, quads = l->group / 4U;
    struct pack_run w;
    for (uint32_t p = 0; p < a->n_panel; p++) {
        const uint8_t *record = a->panel + p * a->panel_bytes, *vecs = record + a->q_offset;
        float acc[TILE_MAX][PANEL] = {{0}};
        for (size_t run = 0; run < a->n_in / RUN; run++) {
            pack_unpack(l, record, vecs, (unsigned)run % n_run, 0, PANEL, &w);
            for (unsigned h = 0; h < n_group; h++)
                group_dot(a, &w, h, h * quads, quads, run, run * n_group + h, acc);
            if (run % n_run == n_run - 1) {
                record += l->scale_bytes;
                vecs += l->q_bytes;
            }
        }
        finish(a, p, acc);
    }
}

static void product_plain(const struct linear_args *a)
{
    size_t size = a->layout->file_bytes;
    for (uint32_t p = 0; p < a->n_panel; p++) {
        const uint8_t *panel = a->panel + p * a->panel_bytes;
        float acc[TILE_MAX][PANEL] = {{0}}, w[PANEL];
        for (size_t k = 0; k < a->n_in; k++, panel += PANEL * size) {
            uint16_t half[PANEL];
            memcpy(size == 4 ? (void *)w : (void *)half, panel, PANEL * size);
            for (int i = 0; i < PANEL && size == 2; i++)
                w[i] = a->layout->type == QT_F16 ? f16_to_f32(half[i]) : bf16_to_f32(half[i]);
            for (uint32_t r = 0; r < a->rows; r++)
                for (int i = 0; i < PANEL; i++)
                    acc[r][i] = fmaf(a->x[k * a->rows + r], w[i], acc[r][i]);
        }
        finish(a, p, acc);
    }
}

static linear_product *find(const struct pack_layout *l, uint32_t rows, bool unpacked)
{
    (void)rows, (void)unpacked;
    return l->group ? product_quant : product_plain;
}

const struct linear_kernels linear_generic = {
    .encode = encode_row,
    .sums = encode_sums,
    .find = find,
    .kernel_plain = "generic panel16 f32",
    .kernel_quant = "generic panel16 int8",
};
