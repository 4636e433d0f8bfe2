/*
 * vector_head.h - what becomes of a pooled state: layers one behind another, each a product with an
 * activation or a norm. A cross-encoder's classifier is one, and so are the Dense modules of
 * sentence-transformers.
 *
 * A vector is one row, so this is computed on the host: sums are float64, in one order on every
 * machine.
 *
 * Threading: read-only after it was loaded.
 */
#ifndef MODEL_VECTOR_HEAD_H
#define MODEL_VECTOR_HEAD_H

#include "base/base.h"

enum { VECTOR_HEAD_LAYERS_MAX = 8 };

enum head_activation {
    HEAD_IDENTITY,
    HEAD_TANH,
    HEAD_GELU,
    HEAD_GELU_TANH,
    HEAD_RELU,
    HEAD_SILU,
    HEAD_SIGMOID,
    HEAD_ACTIVATION_COUNT
};

struct head_layer {
    uint32_t in, out; /* equal in a norm */
    bool norm;        /* (x - mean) / sqrt(variance + eps) weight + bias */
    float eps;
    enum head_activation activation;
    float *weight; /* owned: [out, in]; of a norm [out] */
    float *bias;   /* owned: [out]; NULL: none */
};

struct vector_head {
    struct head_layer layers[VECTOR_HEAD_LAYERS_MAX];
    uint32_t count; /* 0: there is none */
};

/* Zeroes are fine; they are left. */
void vector_head_release(struct vector_head *h);
/* Values that come out of one that is there. */
uint32_t vector_head_width(const struct vector_head *h);
/* The most values that go in or come out of a layer. */
uint32_t vector_head_widest(const struct vector_head *h);
/* x [in of the first layer] -> out [vector_head_width]; room [2, vector_head_widest]. */
void vector_head_apply(const struct vector_head *h, const float *x, double *room, float *out);

#endif
