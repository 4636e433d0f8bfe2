/*
 * mixer_short_conv.c - gated short convolution (LFM2): b, c, x = in(h);  out(c * conv(b * x)).
 */
#include "model/run/recurrent.h"

static int short_conv_load(struct loader *l, uint32_t layer, void **weights) {
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    struct recurrent_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t hidden = l->spec->hidden, width = r->width;
    struct shard_range own = recurrent_own(l, layer).channels;
    const struct recurrent_pieces in = {{ROLE_IN, ROLE_IN_BIAS, 3 * width},
                                        NULL,
                                        3,
                                        {own,
                                         {width + own.first, own.count},
                                         {2 * width + own.first, own.count}}},
                                  conv = {{.rows = width}, NULL, 1, {own}};
    const struct product_segment out = {ROLE_MIX_OUT, ROLE_MIX_OUT_BIAS, hidden};
    CHECK(l->spec->layers[layer].recurrent.kind == MIXER_SHORT_CONV);
    int rc = recurrent_rows(l, &w->in, layer, &in, 1, hidden, r->in_bias);
    if (!rc)
        rc = recurrent_load_conv(l, w, layer, &conv);
    return rc ? rc : recurrent_columns_of(l, &w->out, layer, &out, own, width, r->out_bias);
}

struct short_conv_buffers {
    void *bcx, *y;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct short_conv_buffers *b) {
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0;
    b->bcx = forward_take(base, &used, act * rows * 3 * layer->recurrent.width);
    b->y = forward_take(base, &used, act * rows * layer->recurrent.width);
    return used;
}

static size_t short_conv_buffers(const struct forward *f, const struct layer_spec *layer,
                                 char *base) {
    struct short_conv_buffers b;
    return lay_out(f, layer, base, &b);
}

static size_t short_conv_state(const struct model_spec *spec, const struct layer_spec *layer) {
    return (size_t)(layer->recurrent.taps - 1) * layer->recurrent.width * sizeof(float);
}

static void short_conv_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct recurrent_spec *r = &f->model->spec.layers[layer].recurrent;
    const struct recurrent_weights *w = f->model->weights.layers[layer].mixer;
    uint32_t width = r->width;
    struct short_conv_buffers b;
    lay_out(f, &f->model->spec.layers[layer], f->scratch, &b);
    forward_product(f, s, b.bcx, f->in, &w->in);
    f->dev->ops->state->conv(
        s,
        &(struct op_conv){.out = b.y,
                          .x = recurrent_columns(f, b.bcx, 2 * (size_t)width),
                          .gate_in = b.bcx,
                          .gate_out = recurrent_columns(f, b.bcx, width),
                          .weight = w->conv,
                          .bias = w->conv_bias,
                          .width = width,
                          .taps = r->taps,
                          .in_stride = 3 * width,
                          .out_stride = width,
                          .state = forward_state(f, f->slots->kv.geometry.mixer_states[layer], 0),
                          .batch = &f->batch});
    forward_product(f, s, f->out, b.y, &w->out);
}

const struct layer_kind mixer_short_conv = {.name = "short convolution",
                                            .read = short_conv_read,
                                            .load = short_conv_load,
                                            .buffers = short_conv_buffers,
                                            .step = short_conv_step,
                                            .state_bytes = short_conv_state};
