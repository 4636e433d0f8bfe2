/* linear, rmsnorm, gated activation. */
#include "kernels/ref/ref.h"

#include <math.h>

#include "kernels/integer_groups.h"
#include "kernels/integers.h"

/* kernels/integers.h, as it stands there. */
static float integer_sum(const struct integer_block *w, const int8_t *x, const struct int8_scale *s,
                         float acc) {
    for (uint32_t span = 0; span < 32 / w->span; span++) {
        int32_t sum = 0;
        for (uint32_t i = span * w->span; i < (span + 1) * w->span; i++)
            sum += w->values[i] * x[i];
        acc = fmaf((float)sum, w->scale[span] * s->d, acc);
    }
    return w->minima ? fmaf(-w->minimum, s->sum, acc) : acc;
}

static void ref_integer_linear(const struct op_linear *a) {
    uint32_t blocks = a->w->cols / 32, n = 0;
    int8_t *values = mem_alloc((size_t)a->rows * a->w->cols);
    struct int8_scale *scales = mem_calloc((size_t)a->rows * blocks, sizeof *scales);
    for (size_t b = 0; b < (size_t)a->rows * blocks; b++)
        quantize_block((const float *)a->x + 32 * b, values + 32 * b, &scales[b]);
    for (uint32_t i = 0; i < a->w->segment_count; i++)
        for (uint32_t row = 0; row < a->w->segments[i].rows; row++, n++)
            for (uint32_t b = 0; b < blocks; b++) {
                struct integer_block w;
                segment_integers(a->w, &a->w->segments[i], row, b, &w);
                for (uint32_t t = 0; t < a->rows; t++) {
                    float *out = (float *)a->out + (size_t)t * a->out_stride + n;
                    size_t at = (size_t)t * blocks + b;
                    *out = integer_sum(&w, values + 32 * at, &scales[at], b ? *out : 0);
                    if (b == blocks - 1)
                        *out += a->w->bias ? a->w->bias[n] : 0;
                }
            }
    mem_free(values);
    mem_free(scales);
}

/* kernels/integer_groups.h, as it stands there. */
static void ref_group_linear(const struct op_linear *a) {
    const uint32_t cols = a->w->cols, groups = (cols + GROUP_COLS - 1) / GROUP_COLS;
    int8_t v[GROUP_COLS], *q = mem_alloc((size_t)a->rows * groups * GROUP_COLS + 1);
    float *d = mem_calloc((size_t)a->rows * groups + 1, sizeof *d);
    uint32_t n = 0;
    for (size_t i = 0; i < (size_t)a->rows * groups; i++) {
        uint32_t k = (uint32_t)(i % groups) * GROUP_COLS;
        d[i] = group_of_activations((const float *)a->x + i / groups * cols + k,
                                    MIN(cols - k, (uint32_t)GROUP_COLS), q + i * GROUP_COLS);
    }
    for (uint32_t i = 0; i < a->w->segment_count; i++)
        for (uint32_t row = 0; row < a->w->segments[i].rows; row++, n++)
            for (uint32_t g = 0; g < groups; g++) {
                float scale = bf16_to_f32(segment_group(a->w, &a->w->segments[i], row, g, v));
                for (uint32_t t = 0; t < a->rows; t++) {
                    float *out = (float *)a->out + (size_t)t * a->out_stride + n;
                    size_t at = (size_t)t * groups + g;
                    int32_t sum = 0;
                    for (uint32_t k = 0; k < GROUP_COLS; k++)
                        sum += v[k] * q[at * GROUP_COLS + k];
                    *out = fmaf((float)sum, scale * d[at], g ? *out : 0);
                    if (g == groups - 1)
                        *out += a->w->bias ? a->w->bias[n] : 0;
                }
            }
    mem_free(q);
    mem_free(d);
}

/* kernels/cpu/bf16.h, as it stands there. */
static float bf16_sum(const uint16_t *w, const uint16_t *x, uint32_t cols) {
    float acc[16] = {0};
    for (uint32_t k = 0; k < cols; k += 32)
        for (uint32_t i = 0; i < 16; i++)
            for (uint32_t back = 2; back--;) {
                uint32_t at = k + 2 * i + back;
                float wv = at < cols ? bf16_to_f32(w[at]) : 0,
                      xv = at < cols ? bf16_to_f32(x[at]) : 0;
                acc[i] = fmaf(wv, xv, acc[i]);
            }
    for (uint32_t half = 8; half; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            acc[i] += acc[i + half];
    return acc[0];
}

static void ref_bf16_linear(const struct op_linear *a) {
    uint16_t *x = mem_alloc((size_t)a->rows * a->w->cols * sizeof *x);
    for (size_t i = 0; i < (size_t)a->rows * a->w->cols; i++)
        x[i] = f32_to_bf16(((const float *)a->x)[i]);
    for (uint32_t n = 0; n < a->w->rows; n++)
        for (uint32_t t = 0; t < a->rows; t++)
            ((float *)a->out)[(size_t)t * a->out_stride + n] =
                bf16_sum(matrix_row(a->w, n), x + (size_t)t * a->w->cols, a->w->cols) +
                (a->w->bias ? a->w->bias[n] : 0);
    mem_free(x);
}

/* x as fp8 has it (ops.h). */
static void round_to_fp8(float *out, const float *x, uint32_t cols) {
    float most = 0;
    for (uint32_t k = 0; k < cols; k++)
        most = fabsf(x[k]) > most || isnan(x[k]) ? fabsf(x[k]) : most;
    const bool none = most < 0x1p-100f;
    const float scale = none ? 0 : most / 448, inverse = none ? 0 : 448 / most;
    for (uint32_t k = 0; k < cols; k++) {
        uint8_t code = f32_to_e4m3(x[k] * inverse);
        out[k] = storage_get(STORAGE_F8_E4M3, &code, 0) * scale;
    }
}

/* The same product of rows that are rounded, from `first` on. */
static void ref_fp8_linear(struct stream *s, const struct op_linear *a) {
    struct matrix w = *a->w;
    const uint32_t first = w.compute & COMPUTE_FP8 ? 0 : a->class_rows;
    float *x = mem_alloc((size_t)a->rows * w.cols * sizeof *x);
    memcpy(x, a->x, (size_t)a->rows * w.cols * sizeof *x);
    for (uint32_t t = first; t < a->rows; t++)
        round_to_fp8(x + (size_t)t * w.cols, (const float *)a->x + (size_t)t * w.cols, w.cols);
    struct op_linear plain = *a;
    w.compute = COMPUTE_F32;
    plain.w = &w;
    plain.x = x;
    ref_linear(s, &plain);
    mem_free(x);
}

static void ref_gated_linear(struct stream *s, const struct op_linear *a) {
    const uint32_t width = a->w->rows / 2;
    struct op_linear whole = *a;
    float *y = mem_calloc((size_t)a->rows * a->w->rows + 1, sizeof *y);
    whole.out = y;
    whole.out_stride = a->w->rows;
    whole.gated = 0;
    ref_linear(s, &whole);
    for (uint32_t t = 0; t < a->rows; t++)
        ref_act_mul(s, &(struct op_act_mul){.out = (float *)a->out + (size_t)t * a->out_stride,
                                            .gate_up = y + (size_t)t * a->w->rows,
                                            .rows = 1,
                                            .width = width,
                                            .activation = (enum activation)a->gated});
    mem_free(y);
}

void ref_linear(struct stream *s, const struct op_linear *a) {
    const float *x = a->x;
    float *out = a->out;
    if (a->gated) {
        ref_gated_linear(s, a);
        return;
    }
    CHECK(a->out_stride >= a->w->rows);
    if (a->w->compute == COMPUTE_INT8) {
        ref_integer_linear(a);
        return;
    }
    if (a->w->compute == COMPUTE_INT8_GROUPS) {
        ref_group_linear(a);
        return;
    }
    if (a->w->compute == COMPUTE_BF16) {
        ref_bf16_linear(a);
        return;
    }
    if (a->w->compute & (COMPUTE_FP8 | COMPUTE_FP8_PROMPTS)) {
        ref_fp8_linear(s, a);
        return;
    }
    for (uint32_t n = 0; n < a->w->rows; n++)
        for (uint32_t t = 0; t < a->rows; t++) {
            float w[256];
            double sum = 0;
            for (uint32_t k = 0; k < a->w->cols; k++) {
                if (k % 256 == 0)
                    matrix_dequantize(a->w, n, k, MIN(a->w->cols - k, 256), w);
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
            if (delta)
                x[i] += delta[i] * (a->delta_scale != 0 ? a->delta_scale : 1);
            squares += (double)x[i] * x[i];
        }
        if (!a->out)
            continue;
        double scale = 1 / sqrt(squares / a->width + a->eps);
        float *out = (float *)a->out + (size_t)t * a->width;
        if (!a->weight)
            memcpy(out, x, a->width * sizeof *out);
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
        const float *gate = (const float *)a->gate_up + (size_t)t * 2 * a->width,
                    *up = gate + a->width;
        float *out = (float *)a->out + (size_t)t * a->width;
        for (uint32_t i = 0; i < a->width; i++)
            out[i] = (float)(ref_activate(a->activation, gate[i]) * up[i]);
    }
}
