/*
 * ops_rows.h - operations on rows that dense families want beside those of ops.h: layer norm, norms
 * of heads, plain activations, learned positions, clamps, the last touch of logits.
 *
 * Conventions, numerics and promises are those of ops.h: a row's bits depend on that row alone,
 * sums run in f32 in a fixed lane order.
 */
#ifndef KERNELS_OPS_ROWS_H
#define KERNELS_OPS_ROWS_H

#include "kernels/device.h"

struct step_batch;

/* As op_rmsnorm, with out = (h - mean(h)) / sqrt(var(h) + eps) * (weight + weight_offset) + bias
 * (NULL: none); var is the mean of squared distances (Ba et al. 2016). weight is there. */
struct op_layernorm {
    void *out, *x;
    const void *delta;
    float delta_scale;          /* of delta; 0 counts as 1 */
    const float *weight, *bias; /* f32 [width] */
    uint32_t rows, width;
    float eps, weight_offset;
    bool x_f32;
};

/* Norms in place of `heads` neighbouring pieces of `width` values in each row: x is act, piece 0 of
 * row 0; rows are `stride` values apart. RMS norm, or layer norm where `centered`. weight: f32
 * [width], or [heads, width] where weight_each; bias the same, or NULL. squares: f32, rows
 * squares_stride apart, each the sum of squares of `whole` values of which x has a part: the RMS
 * norm's mean is theirs. NULL: x's own. */
struct op_head_norm {
    void *x;
    const float *weight, *bias;
    uint32_t rows, stride, heads, width;
    bool centered, weight_each;
    float eps, weight_offset;
    const float *squares;
    uint32_t squares_stride, whole;
};

/* out[t * out_stride] = sum_i x[t, i]^2, f32, i < width; x: act, rows `stride` values apart. */
struct op_row_squares {
    float *out;
    const void *x;
    uint32_t rows, stride, width, out_stride;
};

/* out[t, i] = f(x[t, i]), act [rows, width]; out may be x. */
struct op_activate {
    void *out;
    const void *x;
    uint32_t rows, width;
    int activation; /* enum activation */
};

/* x[t, :] += table[positions[t] + offset, :], act [T, cols]. Padding rows and positions past the
 * table: nothing. */
struct op_add_positions {
    void *x;
    const struct matrix *table; /* one segment */
    uint32_t offset;
    const struct step_batch *batch;
};

/* x[t, i] = min(max(x[t, i], -limit), limit), act [rows, width]. NaN stays. */
struct op_clamp {
    void *x;
    uint32_t rows, width;
    float limit;
};

/* l = logits * scale; logits = soft_cap ? soft_cap * tanh(l / soft_cap) : l. f32 [rows, width] in
 * place. */
struct op_finish_logits {
    float *logits;
    uint32_t rows, width;
    float scale, soft_cap;
};

/* x[i] = addends[0, i] + addends[1, i] + ..., in this order in f32, rounded once; x: act [count], or f32
 * where f32; addends: [addend_count, count] of the same type. */
struct op_sum_addends {
    void *x;
    const void *addends;
    uint32_t addend_count;
    size_t count;
    bool f32;
};

struct row_ops {
    void (*layernorm)(struct stream *s, const struct op_layernorm *a);
    void (*head_norm)(struct stream *s, const struct op_head_norm *a);
    void (*row_squares)(struct stream *s, const struct op_row_squares *a);
    void (*activate)(struct stream *s, const struct op_activate *a);
    void (*add_positions)(struct stream *s, const struct op_add_positions *a);
    void (*clamp)(struct stream *s, const struct op_clamp *a);
    void (*finish_logits)(struct stream *s, const struct op_finish_logits *a);
    void (*sum_addends)(struct stream *s, const struct op_sum_addends *a);
};

extern const struct row_ops ref_row_ops;

#endif
