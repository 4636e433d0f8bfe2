#include "model/recurrent.h"

#include <math.h>

int recurrent_load_conv(struct loader *l, struct recurrent_weights *w, uint32_t layer, uint32_t channels) {
    const struct recurrent_spec *spec = &l->spec->layers[layer].recurrent;
    float *x = loader_values(l, ROLE_CONV, layer, (uint32_t[]){channels, 1, spec->taps, 0});
    if (!x) return l->err->code;
    float *turned = mem_calloc((size_t)channels * spec->taps, sizeof *turned);
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t j = 0; j < spec->taps; j++) turned[(size_t)j * channels + c] = x[(size_t)c * spec->taps + j];
    mem_free(x);
    int rc = loader_put(l, &w->conv, turned, (size_t)channels * spec->taps);
    return rc || !spec->conv_bias ? rc : loader_vector(l, &w->conv_bias, ROLE_CONV_BIAS, layer, channels);
}

int recurrent_load_decay(struct loader *l, const float **out, uint32_t layer, const uint32_t *dims) {
    float *x = loader_values(l, ROLE_DECAY, layer, dims);
    size_t count = 1;
    for (; *dims; dims++) count *= *dims;
    for (size_t i = 0; x && i < count; i++) x[i] = -expf(x[i]);
    return loader_put(l, out, x, count);
}

int recurrent_product(struct loader *l, struct matrix *m, uint32_t layer, enum weight_role role,
                      enum weight_role bias_role, uint32_t rows, uint32_t cols, bool bias) {
    const struct part part = {role, bias_role, rows};
    return loader_matrix(l, m, &part, 1, cols, bias, layer);
}

void recurrent_copy(struct forward *f, struct stream *s, void *out, const void *x, uint32_t width, uint32_t stride) {
    f->dev->ops->state->gate(s, &(struct op_gate){.out = out,
                                                  .gate = x,
                                                  .rows = f->batch.row_count,
                                                  .width = width,
                                                  .gate_stride = stride,
                                                  .out_stride = width,
                                                  .kind = GATE_IDENTITY});
}
