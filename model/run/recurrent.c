#include "model/run/recurrent.h"

#include <math.h>

/* ---- loading ---- */

struct shard_state recurrent_own(const struct loader *l, uint32_t layer) {
    const struct layer_spec *spec = &l->spec->layers[layer];
    const struct recurrent_spec *r = &spec->recurrent;
    if (shard_divides_state(l->shard, l->spec, layer))
        return shard_state(l->shard, spec);
    return (struct shard_state){
        .channels = {0, r->width}, .heads = {0, r->heads}, .groups = {0, r->groups}};
}

static uint32_t rows_of(const struct recurrent_pieces *p) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < p->count; i++)
        rows += p->ranges[i].count;
    return rows;
}

/* The tensor's rows that the pieces are, one after the other, at `out`. */
static uint32_t *put_order(uint32_t *out, const struct recurrent_pieces *p) {
    for (uint32_t i = 0; i < p->count; i++)
        for (uint32_t k = 0; k < p->ranges[i].count; k++) {
            uint32_t row = p->ranges[i].first + k;
            *out++ = p->order ? p->order[row] : row;
        }
    return out;
}

/* Rows that lie as the file has them may stay there. */
static bool is_one_range(const struct recurrent_pieces *p) {
    return !p->order && (p->count == 1 || rows_of(p) == p->segment.rows);
}

int recurrent_rows(struct loader *l, struct matrix *m, uint32_t layer,
                   const struct recurrent_pieces *pieces, uint32_t count, uint32_t cols,
                   bool bias) {
    struct product_segment segments[MATRIX_SEGMENTS_MAX];
    struct cut cuts[MATRIX_SEGMENTS_MAX];
    uint32_t rows = 0;
    bool in_place = true;
    CHECK(count <= MATRIX_SEGMENTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        segments[i] = pieces[i].segment;
        cuts[i] = (struct cut){.rows = {pieces[i].ranges[0].first, rows_of(&pieces[i])}};
        rows += cuts[i].rows.count;
        in_place = in_place && is_one_range(&pieces[i]);
    }
    if (in_place)
        return loader_cut(l, m, segments, cuts, count, cols, bias, layer, NULL);
    uint32_t *order = mem_calloc(rows, sizeof *order), *end = order;
    for (uint32_t i = 0; i < count; i++)
        end = put_order(end, &pieces[i]);
    int rc = loader_cut(l, m, segments, cuts, count, cols, bias, layer, order);
    mem_free(order);
    return rc;
}

int recurrent_product(struct loader *l, struct matrix *m, uint32_t layer,
                      const struct product_segment *segment, struct shard_range rows, uint32_t cols,
                      bool bias) {
    const struct recurrent_pieces pieces = {.segment = *segment, .count = 1, .ranges = {rows}};
    return recurrent_rows(l, m, layer, &pieces, 1, cols, bias);
}

int recurrent_columns_of(struct loader *l, struct matrix *m, uint32_t layer,
                         const struct product_segment *segment, struct shard_range own,
                         uint32_t cols, bool bias) {
    if (own.count == cols)
        own = (struct shard_range){0};
    return loader_partial(l, m, segment, own, cols, bias, layer);
}

int recurrent_vector(struct loader *l, const float **out, uint32_t layer, enum weight_role role,
                     struct shard_range own, uint32_t count) {
    int rc = loader_vector(l, out, role, layer, count);
    if (!rc)
        *out += own.first;
    return rc;
}

int recurrent_load_conv(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                        const struct recurrent_pieces *pieces) {
    const struct recurrent_spec *spec = &l->spec->layers[layer].recurrent;
    uint32_t all = pieces->segment.rows, own = rows_of(pieces), taps = spec->taps;
    float *x = loader_values(l, ROLE_CONV, layer, (uint32_t[]){all, 1, taps, 0});
    float *bias =
        x && spec->conv_bias ? loader_values(l, ROLE_CONV_BIAS, layer, (uint32_t[]){all, 0}) : NULL;
    if (!x || (spec->conv_bias && !bias)) {
        mem_free(x);
        return l->err->code;
    }
    uint32_t *order = mem_calloc(own, sizeof *order);
    float *turned = mem_calloc((size_t)own * taps, sizeof *turned),
          *biases = mem_calloc(own, sizeof *biases);
    put_order(order, pieces);
    for (uint32_t c = 0; c < own; c++) {
        for (uint32_t j = 0; j < taps; j++)
            turned[(size_t)j * own + c] = x[(size_t)order[c] * taps + j];
        if (bias)
            biases[c] = bias[order[c]];
    }
    mem_free(x);
    mem_free(bias);
    mem_free(order);
    int rc = loader_put(l, &w->conv, turned, (size_t)own * taps);
    if (!rc && spec->conv_bias)
        return loader_put(l, &w->conv_bias, biases, own);
    mem_free(biases);
    return rc;
}

float recurrent_decay_of(const struct recurrent_spec *r, float stored) {
    if (r->kind == MIXER_MAMBA1 && r->mamba1.rising)
        return expf(-stored);
    return r->decay_plain ? stored : -expf(stored);
}

int recurrent_load_decay(struct loader *l, const float **out, uint32_t layer,
                         struct shard_range own, uint32_t count) {
    float *x = loader_values(l, ROLE_DECAY, layer, (uint32_t[]){count, 0});
    for (uint32_t i = 0; x && i < count; i++)
        x[i] = recurrent_decay_of(&l->spec->layers[layer].recurrent, x[i]);
    int rc = loader_put(l, out, x, count);
    if (!rc)
        *out += own.first;
    return rc;
}

/* ---- the step ---- */

void recurrent_copy(struct forward *f, struct stream *s, void *out, const void *x, uint32_t width,
                    uint32_t from, uint32_t to) {
    f->dev->ops->state->gate(s, &(struct op_gate){.out = out,
                                                  .gate = x,
                                                  .rows = f->batch.row_count,
                                                  .width = width,
                                                  .gate_stride = from,
                                                  .out_stride = to,
                                                  .kind = GATE_IDENTITY});
}
