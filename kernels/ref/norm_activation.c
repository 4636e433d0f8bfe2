/* Layer norm, norms of heads, activations, learned positions, clamps, logits (ops_rows.h). */
#include "kernels/ref/ref.h"

#include <math.h>

static double squares_of(const float *x, uint32_t width, double mean) {
    double squares = 0;
    for (uint32_t i = 0; i < width; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return squares;
}

/* out = norm of x by its mean and its mean square; both [width]. */
static void norm_by(float *out, const float *x, const float *weight, const float *bias,
                    uint32_t width, double mean, double mean_square, float eps, float offset) {
    double scale = 1 / sqrt(mean_square + eps);
    for (uint32_t i = 0; i < width; i++)
        out[i] =
            (float)((x[i] - mean) * scale * ((double)weight[i] + offset) + (bias ? bias[i] : 0));
}

static void norm(float *out, const float *x, const float *weight, const float *bias, uint32_t width,
                 bool centered, float eps, float offset) {
    double mean = 0;
    for (uint32_t i = 0; centered && i < width; i++)
        mean += x[i];
    mean /= width;
    norm_by(out, x, weight, bias, width, mean, squares_of(x, width, mean) / width, eps, offset);
}

static void ref_layernorm(struct stream *s, const struct op_layernorm *a) {
    for (uint32_t t = 0; t < a->rows; t++) {
        float *x = (float *)a->x + (size_t)t * a->width;
        const float *delta = a->delta ? (const float *)a->delta + (size_t)t * a->width : NULL;
        for (uint32_t i = 0; delta && i < a->width; i++)
            x[i] += delta[i] * (a->delta_scale != 0 ? a->delta_scale : 1);
        if (a->out)
            norm((float *)a->out + (size_t)t * a->width, x, a->weight, a->bias, a->width, true,
                 a->eps, a->weight_offset);
    }
}

static void ref_head_norm(struct stream *s, const struct op_head_norm *a) {
    for (uint32_t t = 0; t < a->rows; t++)
        for (uint32_t h = 0; h < a->heads; h++) {
            float *x = (float *)a->x + (size_t)t * a->stride + (size_t)h * a->width;
            size_t at = a->weight_each ? (size_t)h * a->width : 0;
            const float *weight = a->weight + at, *bias = a->bias ? a->bias + at : NULL;
            if (a->squares)
                norm_by(x, x, weight, bias, a->width, 0,
                        (double)a->squares[(size_t)t * a->squares_stride] / a->whole, a->eps,
                        a->weight_offset);
            else
                norm(x, x, weight, bias, a->width, a->centered, a->eps, a->weight_offset);
        }
}

static void ref_row_squares(struct stream *s, const struct op_row_squares *a) {
    for (uint32_t t = 0; t < a->rows; t++)
        a->out[(size_t)t * a->out_stride] =
            (float)squares_of((const float *)a->x + (size_t)t * a->stride, a->width, 0);
}

static void ref_activate_rows(struct stream *s, const struct op_activate *a) {
    for (size_t i = 0; i < (size_t)a->rows * a->width; i++)
        ((float *)a->out)[i] = (float)ref_activate(a->activation, ((const float *)a->x)[i]);
}

void ref_add_positions(struct stream *s, const struct op_add_positions *a) {
    uint32_t width = a->table->cols;
    for (uint32_t t = 0; t < a->batch->row_count; t++) {
        uint32_t position = a->batch->positions[t];
        if (position == ROW_NONE || position + a->offset >= a->table->rows)
            continue;
        const void *row = matrix_row(a->table, position + a->offset);
        for (uint32_t i = 0; i < width; i++)
            ((float *)a->x)[(size_t)t * width + i] += storage_get(a->table->type, row, i);
    }
}

static void ref_clamp(struct stream *s, const struct op_clamp *a) {
    float *x = a->x;
    for (size_t i = 0; i < (size_t)a->rows * a->width; i++)
        x[i] = x[i] > a->limit ? a->limit : x[i] < -a->limit ? -a->limit : x[i];
}

static void ref_finish_logits(struct stream *s, const struct op_finish_logits *a) {
    for (size_t i = 0; i < (size_t)a->rows * a->width; i++) {
        double l = (double)a->logits[i] * a->scale;
        a->logits[i] = (float)(a->soft_cap != 0 ? a->soft_cap * tanh(l / a->soft_cap) : l);
    }
}

void ref_sum_addends(struct stream *s, const struct op_sum_addends *a) {
    for (size_t i = 0; i < a->count; i++) {
        const float *addend = (const float *)a->addends + i;
        float sum = *addend;
        for (uint32_t p = 1; p < a->addend_count; p++)
            sum += addend[p * a->count];
        ((float *)a->x)[i] = sum;
    }
}

const struct row_ops ref_row_ops = {.layernorm = ref_layernorm,
                                    .head_norm = ref_head_norm,
                                    .row_squares = ref_row_squares,
                                    .activate = ref_activate_rows,
                                    .add_positions = ref_add_positions,
                                    .clamp = ref_clamp,
                                    .finish_logits = ref_finish_logits,
                                    .sum_addends = ref_sum_addends};
