#include "model/load/vector_head.h"

#include <math.h>

/* Sums of a product that run beside each other. */
enum { LANES = 8 };

void vector_head_release(struct vector_head *h) {
    for (uint32_t i = 0; i < h->count; i++) {
        mem_free(h->layers[i].weight);
        mem_free(h->layers[i].bias);
    }
    *h = (struct vector_head){0};
}

uint32_t vector_head_width(const struct vector_head *h) {
    CHECK(h->count);
    return h->layers[h->count - 1].out;
}

uint32_t vector_head_widest(const struct vector_head *h) {
    uint32_t widest = 0;
    for (uint32_t i = 0; i < h->count; i++)
        widest = MAX(widest, MAX(h->layers[i].in, h->layers[i].out));
    return widest;
}

static double activate(enum head_activation activation, double x) {
    switch (activation) {
    case HEAD_TANH: return tanh(x);
    case HEAD_GELU: return x * (1 + erf(x * M_SQRT1_2)) / 2;
    case HEAD_GELU_TANH: return x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case HEAD_RELU: return x < 0 ? 0 : x;
    case HEAD_SILU: return x / (1 + exp(-x));
    case HEAD_SIGMOID: return 1 / (1 + exp(-x));
    case HEAD_IDENTITY:
    case HEAD_ACTIVATION_COUNT: break;
    }
    return x;
}

static double dot(const float *w, const double *x, uint32_t count) {
    double sums[LANES] = {0}, sum = 0;
    uint32_t whole = count / LANES * LANES;
    for (uint32_t i = 0; i < whole; i += LANES)
        for (uint32_t k = 0; k < LANES; k++)
            sums[k] += (double)w[i + k] * x[i + k];
    for (uint32_t i = whole; i < count; i++)
        sum += (double)w[i] * x[i];
    for (uint32_t k = 0; k < LANES; k++)
        sum += sums[k];
    return sum;
}

static void multiply(const struct head_layer *l, const double *x, double *out) {
    for (uint32_t r = 0; r < l->out; r++)
        out[r] = activate(l->activation, dot(l->weight + (size_t)r * l->in, x, l->in) +
                                             (l->bias ? (double)l->bias[r] : 0));
}

static void norm(const struct head_layer *l, const double *x, double *out) {
    double mean = 0, squares = 0;
    for (uint32_t i = 0; i < l->in; i++)
        mean += x[i] / l->in;
    for (uint32_t i = 0; i < l->in; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    double scale = 1 / sqrt(squares / l->in + (double)l->eps);
    for (uint32_t i = 0; i < l->in; i++)
        out[i] = activate(l->activation, (x[i] - mean) * scale * (double)l->weight[i] +
                                             (l->bias ? (double)l->bias[i] : 0));
}

void vector_head_apply(const struct vector_head *h, const float *x, double *room, float *out) {
    double *from = room, *to = room + vector_head_widest(h);
    for (uint32_t i = 0; i < h->layers[0].in; i++)
        from[i] = (double)x[i];
    for (uint32_t i = 0; i < h->count; i++) {
        const struct head_layer *l = &h->layers[i];
        CHECK(i == 0 || l->in == h->layers[i - 1].out);
        if (l->norm)
            norm(l, from, to);
        else
            multiply(l, from, to);
        double *made = to;
        to = from;
        from = made;
    }
    for (uint32_t i = 0; i < vector_head_width(h); i++)
        out[i] = (float)from[i];
}
