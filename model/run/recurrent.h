/*
 * recurrent.h - what the mixers with a state share: one struct of weights (each uses some), the
 * convolution, the decays, and how their buffers and states lie.
 */
#ifndef MODEL_RECURRENT_H
#define MODEL_RECURRENT_H

#include "model/run/column_scale.h"
#include "model/run/layer_kinds.h"

/* Of op_block_linear. */
struct block_weights {
    const float *weight, *bias;
};

struct recurrent_weights {
    /* products of the mixer's input; step: Mamba 1: of the convolution's output */
    struct matrix in, z, beta, step;
    struct matrix step_out; /* Mamba 1: dt_proj, without its bias */
    struct matrix out;
    const float *conv, *conv_bias; /* [taps, channels], [channels] or NULL */
    const float *decay;            /* negative: as the operation wants it */
    const float *skip, *step_bias;
    const float *inner_norm, *step_norm, *b_norm, *c_norm; /* NULL: no weight */
    /* RG-LRU: both gates' blocks [2 * heads, dim, dim] */
    const float *gates, *gates_bias;
    struct column_scale in_scale; /* Mamba 2: of what `in` gives */
    /* Mamba 3: mixes and angles of the mixer's input */
    struct matrix turn;
    const float *b_bias, *c_bias;
    struct block_weights mimo_up, mimo_down;
};

/* Adds `count` floats, rounded to 64 bytes, to a layer's state; the bytes before them. */
static inline size_t recurrent_state(size_t *used, size_t count) {
    size_t at = *used;
    *used += (count * sizeof(float) + 63) / 64 * 64;
    return at;
}

/* ---- loading; where ranks divide the mixer, this rank's part ---- */

/* Its channels, heads and groups: all of them where it is not divided. */
struct shard_state recurrent_own(const struct loader *l, uint32_t layer);

enum { RECURRENT_PIECES_MAX = 5 };
/* Of a tensor's rows (or a vector's values), these ranges behind each other. */
struct recurrent_pieces {
    struct product_segment segment; /* of the whole tensor */
    const uint32_t *order;          /* NULL, or: ranges are of the rows in this order */
    uint32_t count;
    struct shard_range ranges[RECURRENT_PIECES_MAX];
};
/* A product [rows of all pieces, cols] with an optional bias. */
MUST_CHECK int recurrent_rows(struct loader *l, struct matrix *m, uint32_t layer,
                              const struct recurrent_pieces *pieces, uint32_t count, uint32_t cols,
                              bool bias);
/* The same of one tensor and range. */
MUST_CHECK int recurrent_product(struct loader *l, struct matrix *m, uint32_t layer,
                                 const struct product_segment *segment, struct shard_range rows,
                                 uint32_t cols, bool bias);
/* A product [segment->rows, cols] of whose columns this rank has `own`; its results are to be
 * added up where those are not all. */
MUST_CHECK int recurrent_columns_of(struct loader *l, struct matrix *m, uint32_t layer,
                                    const struct product_segment *segment, struct shard_range own,
                                    uint32_t cols, bool bias);
/* `own` values of a vector [count]. */
MUST_CHECK int recurrent_vector(struct loader *l, const float **out, uint32_t layer,
                                enum weight_role role, struct shard_range own, uint32_t count);
/* weight [channels, 1, taps] as [taps, channels], and the bias. pieces->segment.rows: all
 * channels. */
MUST_CHECK int recurrent_load_conv(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                                   const struct recurrent_pieces *pieces);
/* A, of what files keep of it. */
float recurrent_decay_of(const struct recurrent_spec *r, float stored);
/* The same of `own` values of a tensor [count]. */
MUST_CHECK int recurrent_load_decay(struct loader *l, const float **out, uint32_t layer,
                                    struct shard_range own, uint32_t count);

/* Rows of a delta rule's fused product as all of q, all of k, all of v, all of z; the caller frees
 * it. */
uint32_t *delta_fused_order(const struct recurrent_spec *r);

/* ---- the step ---- */

/* Columns [first, ...) of rows of activations. */
static inline void *recurrent_columns(const struct forward *f, const void *x, size_t first) {
    return (char *)x + storage_bytes(f->dev->activation_type, first);
}
/* out[t, 0 .. width) = x[t, 0 .. width); rows of x are `from` apart, of out `to`. */
void recurrent_copy(struct forward *f, struct stream *s, void *out, const void *x, uint32_t width,
                    uint32_t from, uint32_t to);

#endif
