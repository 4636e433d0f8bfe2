/* ffn_dense.h - the dense feed-forwards, gated and plain: their weights, and their part of a spec. */
#ifndef MODEL_FFN_DENSE_H
#define MODEL_FFN_DENSE_H

#include "model/spec_read.h"
#include "model/weights.h"

struct ffn_weights {
    struct matrix up;   /* gated: [2 * width, hidden], gate above up; plain: [width, hidden] */
    struct matrix down; /* [hidden, width] */
};

/* Fills layer->ffn from the config; its kind is set. */
int ffn_dense_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);

#endif
