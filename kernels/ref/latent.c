/* Latent attention: products per head, cache rows, attention in the latent space. */
#include "kernels/ref/ref.h"

#include <math.h>

size_t ref_latent_layer_bytes(enum storage_type type, uint32_t block_tokens, uint32_t width) {
    return (block_tokens * storage_bytes(type, width) +
            kv_scale_bytes(type, 2 * (size_t)block_tokens) + 63) /
           64 * 64;
}

/* One row and head. */
static void head_product(const struct op_head_linear *a, const float *x, uint32_t first,
                         float *out) {
    double sums[LATENT_WIDTH_MAX] = {0};
    float w[LATENT_WIDTH_MAX];
    for (uint32_t n = 0; n < a->count; n++) {
        double dot = 0;
        matrix_dequantize(a->w, first + n, 0, a->w->cols, w);
        for (uint32_t k = 0; a->transposed && k < a->w->cols; k++)
            sums[k] += (double)x[n] * w[k];
        for (uint32_t k = 0; !a->transposed && k < a->w->cols; k++)
            dot += (double)x[k] * w[k];
        if (!a->transposed)
            out[n] = (float)dot;
    }
    for (uint32_t k = 0; a->transposed && k < a->w->cols; k++)
        out[k] = (float)sums[k];
}

void ref_head_linear(struct stream *s, const struct op_head_linear *a) {
    uint32_t outputs = a->transposed ? a->w->cols : a->count,
             inputs = a->transposed ? a->count : a->w->cols;
    CHECK(a->x_stride >= inputs && a->out_stride >= outputs &&
          a->first + a->count <= a->head_rows && a->heads * a->head_rows == a->w->rows &&
          a->w->cols <= LATENT_WIDTH_MAX);
    for (uint32_t i = 0; i < a->rows * a->heads; i++)
        head_product(a, (const float *)a->x + (size_t)i * a->x_stride,
                     i % a->heads * a->head_rows + a->first,
                     (float *)a->out + (size_t)i * a->out_stride);
}

static void rotated(float *out, const float *x, const float *angles, uint32_t rope,
                    bool interleaved) {
    memcpy(out, x, rope * sizeof *out);
    for (uint32_t i = 0; angles && i < rope / 2; i++) {
        uint32_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + rope / 2;
        double c = angles[2 * i], sn = angles[2 * i + 1];
        out[a] = (float)(x[a] * c - x[b] * sn);
        out[b] = (float)(x[b] * c + x[a] * sn);
    }
}

static void write_row(const struct op_latent_write *a, uint32_t t, const float *angles) {
    const float *kv = (const float *)a->kv + (size_t)t * (a->rank + a->rope);
    float row[LATENT_WIDTH_MAX];
    double squares = 0;
    for (uint32_t i = 0; i < a->rank; i++)
        squares += (double)kv[i] * kv[i];
    double scale = 1 / sqrt(squares / a->rank + a->eps);
    for (uint32_t i = 0; i < a->rank; i++)
        row[i] = a->norm ? (float)(kv[i] * scale * a->norm[i]) : kv[i];
    rotated(row + a->rank, kv + a->rank, angles, a->rope, a->interleaved);
    latent_put(a->view, a->batch->slots[t], a->batch->positions[t], row, a->rank);
}

void ref_latent_write(struct stream *s, const struct op_latent_write *a) {
    CHECK(a->rank + a->rope <= LATENT_WIDTH_MAX && a->view->head_dim == a->rank + a->rope);
    for (uint32_t t = 0; t < a->batch->row_count; t++) {
        if (a->batch->positions[t] == ROW_NONE)
            continue;
        const float *angles = a->angles ? a->angles + (size_t)t * a->rope : NULL;
        write_row(a, t, angles);
        for (uint32_t h = 0; h < a->heads; h++) {
            size_t i = (size_t)t * a->heads + h;
            rotated((float *)a->q + i * (a->rank + a->rope) + a->rank,
                    (const float *)a->q_rope + i * a->q_stride + a->q_offset, angles, a->rope,
                    a->interleaved);
        }
    }
}

/* Position j's row as numbers. */
static void read_row(const struct op_latent_attention *a, uint32_t slot, uint32_t j, double *out) {
    const struct kv_view *kv = a->view;
    const void *row = ref_latent_at(kv, slot, j);
    const float *scales =
        kv->type == STORAGE_I8 ? latent_scales(kv, kv_layer(kv, slot, j), j) : NULL;
    for (uint32_t i = 0; i < kv->head_dim; i++) {
        out[i] = storage_get(kv->type, row, i);
        if (scales)
            out[i] *= scales[i >= a->rank];
    }
}

static double score(const struct op_latent_attention *a, const float *q, const double *row) {
    double dot = 0;
    for (uint32_t i = 0; i < a->view->head_dim; i++)
        dot += q[i] * row[i];
    return dot * a->scale;
}

static void attend(const struct op_latent_attention *a, const float *q, uint32_t slot,
                   uint32_t position, float *out) {
    double max = -INFINITY, total = 0, sum[LATENT_WIDTH_MAX] = {0}, row[LATENT_WIDTH_MAX];
    for (uint32_t j = 0; j <= position; j++) {
        read_row(a, slot, j, row);
        max = fmax(max, score(a, q, row));
    }
    for (uint32_t j = 0; j <= position; j++) {
        read_row(a, slot, j, row);
        double p = exp(score(a, q, row) - max);
        total += p;
        for (uint32_t i = 0; i < a->rank; i++)
            sum[i] += p * row[i];
    }
    for (uint32_t i = 0; i < a->rank; i++)
        out[i] = (float)(sum[i] / total);
}

void ref_latent_attention(struct stream *s, const struct op_latent_attention *a) {
    uint32_t width = a->view->head_dim;
    CHECK(width <= LATENT_WIDTH_MAX && a->rank <= width);
    for (uint32_t i = 0; i < a->batch->row_count * a->heads; i++) {
        uint32_t t = i / a->heads, position = a->batch->positions[t];
        float *out = (float *)a->out + (size_t)i * a->rank;
        if (position == ROW_NONE)
            memset(out, 0, a->rank * sizeof *out);
        else
            attend(a, (const float *)a->q + (size_t)i * width, a->batch->slots[t], position, out);
    }
}
