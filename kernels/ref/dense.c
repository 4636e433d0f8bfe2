/* linear, rmsnorm, gated activation. */
#include "kernels/ref/ref.h"

#include <math.h>

void ref_linear(struct stream *s, const struct op_linear *a) {
    const float *x = a->x;
    float *out = a->out;
    CHECK(a->out_stride >= a->w->rows);
    for (uint32_t n = 0; n < a->w->rows; n++)
        for (uint32_t t = 0; t < a->rows; t++) {
            float w[256];
            double sum = 0;
            for (uint32_t k = 0; k < a->w->cols; k++) {
                if (k % 256 == 0) matrix_decode(a->w, n, k, MIN(a->w->cols - k, 256), w);
                sum += (double)x[(size_t)t * a->w->cols + k] * w[k % 256];
            }
            out[(size_t)t * a->out_stride + n] = (float)(sum + (a->w->bias ? a->w->bias[n] : 0));
        }
}

void ref_rmsnorm(struct stream *s, const struct op_rmsnorm *a) {
    for (uint32_t t = 0; t < a->rows; t++) {
        float *x = (float *)a->x + (size_t)t * a->width;
        const float *delta = a->delta ? (const float *)a->delta + (size_t)t * a->width : NULL;
        double squares = 0;
        for (uint32_t i = 0; i < a->width; i++) {
            if (delta) x[i] += delta[i] * (a->delta_scale != 0 ? a->delta_scale : 1);
            squares += (double)x[i] * x[i];
        }
        if (!a->out) continue;
        double scale = 1 / sqrt(squares / a->width + a->eps);
        float *out = (float *)a->out + (size_t)t * a->width;
        if (!a->weight) memcpy(out, x, a->width * sizeof *out);
        for (uint32_t i = 0; a->weight && i < a->width; i++)
            out[i] = (float)(x[i] * scale * ((double)a->weight[i] + a->weight_offset));
    }
}

double ref_activate(enum activation kind, double x) {
    switch (kind) {
    case ACTIVATION_SILU: return x / (1 + exp(-x));
    case ACTIVATION_GELU: return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case ACTIVATION_GELU_QUICK: return x / (1 + exp(-1.702 * x));
    case ACTIVATION_RELU: return x > 0 || isnan(x) ? x : 0;
    case ACTIVATION_RELU2: return x > 0 || isnan(x) ? x * x : 0;
    default: /* = 0.5 x (1 + tanh(u)), without its cancellation */
        return x / (1 + exp(-1.5957691216057307118 * (x + 0.044715 * x * x * x)));
    }
}

void ref_act_mul(struct stream *s, const struct op_act_mul *a) {
    for (uint32_t t = 0; t < a->rows; t++) {
        const float *gate = (const float *)a->gate_up + (size_t)t * 2 * a->width, *up = gate + a->width;
        float *out = (float *)a->out + (size_t)t * a->width;
        for (uint32_t i = 0; i < a->width; i++) out[i] = (float)(ref_activate(a->activation, gate[i]) * up[i]);
    }
}
