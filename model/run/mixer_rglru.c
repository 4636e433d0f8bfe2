/*
 * mixer_rglru.c - the recurrent block of Griffin (De et al. 2024; RecurrentGemma): x =
 * rglru(conv(in(h))), its gates products of diagonal blocks of conv(in(h)); out(x * f(z(h))).
 */
#include <math.h>

#include "model/run/recurrent.h"

/* Both gates' blocks behind each other, input gate first: weights [heads, dim, dim] (inputs first)
 * and biases, of this rank's heads. */
static int load_gates(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                      const struct recurrent_spec *r, const struct shard_state *own) {
    const uint32_t cube[] = {r->heads, r->head_dim, r->head_dim, 0},
                   flat[] = {r->heads, r->head_dim, 0};
    static const enum weight_role ROLES[2][2] = {{ROLE_INPUT_GATE, ROLE_INPUT_GATE_BIAS},
                                                 {ROLE_DECAY_GATE, ROLE_DECAY_GATE_BIAS}};
    size_t width = own->channels.count, size = width * r->head_dim,
           skip = (size_t)own->channels.first * r->head_dim;
    float *weights = mem_calloc(2 * size, sizeof *weights),
          *biases = mem_calloc(2 * width, sizeof *biases);
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++) {
        float *weight = loader_values(l, ROLES[i][0], layer, cube),
              *bias = weight ? loader_values(l, ROLES[i][1], layer, flat) : NULL;
        if (bias) {
            memcpy(weights + i * size, weight + skip, size * sizeof *weights);
            memcpy(biases + (size_t)i * width, bias + own->channels.first, width * sizeof *biases);
        } else {
            rc = l->err->code;
        }
        mem_free(weight);
        mem_free(bias);
    }
    if (rc) {
        mem_free(weights);
        mem_free(biases);
        return rc;
    }
    rc = loader_put(l, &w->gates_bias, biases, 2 * width);
    if (rc)
        mem_free(weights);
    return rc ? rc : loader_put(l, &w->gates, weights, 2 * size);
}

/* -8 softplus(x). */
static int load_decay(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                      const struct recurrent_spec *r, struct shard_range own) {
    float *x = loader_values(l, ROLE_DECAY, layer, (uint32_t[]){r->width, 0});
    for (uint32_t i = 0; x && i < r->width; i++)
        x[i] = (float)(-8 * (fmax((double)x[i], 0) + log1p(exp(-fabs((double)x[i])))));
    int rc = loader_put(l, &w->decay, x, r->width);
    if (!rc)
        w->decay += own.first;
    return rc;
}

static int rglru_load(struct loader *l, uint32_t layer, void **weights) {
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    struct recurrent_weights *w = *weights = loader_new(l, sizeof *w);
    const struct shard_state own = recurrent_own(l, layer);
    const struct recurrent_pieces conv = {{.rows = r->width}, NULL, 1, {own.channels}};
    const struct product_segment in = {ROLE_IN, ROLE_IN_BIAS, r->width},
                                 z = {ROLE_IN_Z, ROLE_IN_Z_BIAS, r->width},
                                 out = {ROLE_MIX_OUT, ROLE_MIX_OUT_BIAS, l->spec->hidden};
    CHECK(l->spec->layers[layer].recurrent.kind == MIXER_RGLRU);
    int rc = recurrent_product(l, &w->in, layer, &in, own.channels, l->spec->hidden, r->in_bias);
    if (!rc)
        rc = recurrent_product(l, &w->z, layer, &z, own.channels, l->spec->hidden, r->in_bias);
    if (!rc)
        rc = recurrent_load_conv(l, w, layer, &conv);
    if (!rc)
        rc = load_gates(l, w, layer, r, &own);
    if (!rc)
        rc = load_decay(l, w, layer, r, own.channels);
    return rc ? rc
              : recurrent_columns_of(l, &w->out, layer, &out, own.channels, r->width, r->out_bias);
}

struct rglru_buffers {
    void *x, *z, *conved, *gates;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct rglru_buffers *b) {
    size_t act = storage_bytes(f->dev->activation_type, 1),
           row = act * f->max_rows * layer->recurrent.width, used = 0;
    b->x = forward_take(base, &used, row);
    b->z = forward_take(base, &used, row);
    b->conved = forward_take(base, &used, row);
    b->gates = forward_take(base, &used, 2 * row);
    return used;
}

static size_t rglru_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct rglru_buffers b;
    return lay_out(f, layer, base, &b);
}

static size_t rglru_state(const struct model_spec *spec, const struct layer_spec *layer) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t used = 0;
    recurrent_state(&used, (size_t)(r->taps - 1) * r->width);
    recurrent_state(&used, r->width);
    return used;
}

/* The gates' products of the blocks, for each gate all blocks. */
static void gate_products(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                          const struct recurrent_weights *w, const struct rglru_buffers *b) {
    size_t block = (size_t)r->width * r->head_dim;
    for (uint32_t i = 0; i < 2; i++) {
        /* into x's buffer (its rows are read), then beside the other gate's */
        f->dev->ops->state->block_linear(
            s, &(struct op_block_linear){.out = b->x,
                                         .x = b->conved,
                                         .weight = w->gates + i * block,
                                         .bias = w->gates_bias + (size_t)i * r->width,
                                         .rows = f->batch.row_count,
                                         .blocks = r->heads,
                                         .inputs = r->head_dim,
                                         .cols = r->head_dim,
                                         .in_stride = r->width,
                                         .x_block = r->head_dim});
        f->dev->ops->state->gate(
            s, &(struct op_gate){.out = recurrent_columns(f, b->gates, (size_t)i * r->width),
                                 .gate = b->x,
                                 .rows = f->batch.row_count,
                                 .width = r->width,
                                 .gate_stride = r->width,
                                 .out_stride = 2 * r->width,
                                 .kind = GATE_IDENTITY});
    }
}

static void rglru_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct recurrent_spec *r = &spec->recurrent;
    const struct recurrent_weights *w = f->model->weights.layers[layer].mixer;
    size_t at = f->slots->kv.geometry.mixer_states[layer], used = 0;
    size_t conv = recurrent_state(&used, (size_t)(r->taps - 1) * r->width);
    struct rglru_buffers b;
    lay_out(f, spec, f->scratch, &b);
    forward_product(f, s, b.x, f->in, &w->in);
    forward_product(f, s, b.z, f->in, &w->z);
    f->dev->ops->state->conv(s, &(struct op_conv){.out = b.conved,
                                                  .x = b.x,
                                                  .weight = w->conv,
                                                  .bias = w->conv_bias,
                                                  .width = r->width,
                                                  .taps = r->taps,
                                                  .in_stride = r->width,
                                                  .out_stride = r->width,
                                                  .state = forward_state(f, at, conv),
                                                  .batch = &f->batch});
    gate_products(f, s, r, w, &b);
    f->dev->ops->state->rglru(s, &(struct op_rglru){.out = b.x,
                                                    .x = b.conved,
                                                    .gates = b.gates,
                                                    .a = w->decay,
                                                    .width = r->width,
                                                    .state = forward_state(f, at, used),
                                                    .batch = &f->batch});
    f->dev->ops->state->gate(s, &(struct op_gate){.out = b.x,
                                                  .x = b.x,
                                                  .gate = b.z,
                                                  .rows = f->batch.row_count,
                                                  .width = r->width,
                                                  .x_stride = r->width,
                                                  .gate_stride = r->width,
                                                  .out_stride = r->width,
                                                  .kind = r->rglru.branch});
    forward_product(f, s, f->out, b.x, &w->out);
}

const struct layer_kind mixer_rglru = {.name = "RG-LRU",
                                       .read = rglru_read,
                                       .load = rglru_load,
                                       .buffers = rglru_buffers,
                                       .step = rglru_step,
                                       .state_bytes = rglru_state};
