/*
 * recurrent.h - what the mixers with a state share: one struct of weights (each uses its part), the convolution, the
 * decays, and how their buffers and states lie.
 */
#ifndef MODEL_RECURRENT_H
#define MODEL_RECURRENT_H

#include "model/column_scale.h"
#include "model/layer_kinds.h"

struct recurrent_weights {
    struct matrix in, z, beta, step; /* products of the mixer's input; step: Mamba 1: of the convolution's output */
    struct matrix step_out;          /* Mamba 1: dt_proj, without its bias */
    struct matrix out;
    const float *conv, *conv_bias; /* [taps, channels], [channels] or NULL */
    const float *decay;            /* negative: as the operation wants it */
    const float *skip, *step_bias;
    const float *inner_norm, *step_norm, *b_norm, *c_norm; /* NULL: no weight */
    const float *gates, *gates_bias;                       /* RG-LRU: both gates' blocks [2 * heads, dim, dim] */
    struct column_scale in_scale;                          /* Mamba 2: of what `in` gives */
};

/* Adds `count` floats, rounded to 64 bytes, to a layer's state; the bytes before them. */
static inline size_t recurrent_state(size_t *used, size_t count) {
    size_t at = *used;
    *used += (count * sizeof(float) + 63) / 64 * 64;
    return at;
}

/* weight [channels, 1, taps] as [taps, channels], and the bias. */
MUST_CHECK int recurrent_load_conv(struct loader *l, struct recurrent_weights *w, uint32_t layer, uint32_t channels);
/* -exp(x) of a tensor of these dims. */
MUST_CHECK int recurrent_load_decay(struct loader *l, const float **out, uint32_t layer, const uint32_t *dims);
/* One product [rows, cols] with an optional bias. */
MUST_CHECK int recurrent_product(struct loader *l, struct matrix *m, uint32_t layer, enum weight_role role,
                                 enum weight_role bias_role, uint32_t rows, uint32_t cols, bool bias);
/* Columns [first, ...) of rows of activations. */
static inline void *recurrent_columns(const struct forward *f, const void *x, size_t first) {
    return (char *)x + storage_bytes(f->dev->activation_type, first);
}
/* out[t, :] = x[t, 0 .. width) of rows `stride` apart. */
void recurrent_copy(struct forward *f, struct stream *s, void *out, const void *x, uint32_t width, uint32_t stride);

#endif
