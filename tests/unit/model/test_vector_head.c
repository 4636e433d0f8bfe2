/* Heads of vectors: products with each activation, and norms, against formulas by hand. */
#include "check.h"
#include "model/load/vector_head.h"

#include <math.h>

enum { IN = 19, OUT = 5 }; /* neither a multiple of what runs side by side */

static float fill(uint32_t i) {
    return (float)((int)(i * 37 % 23) - 11) / 8;
}

static double expected_activation(enum head_activation a, double x) {
    switch (a) {
    case HEAD_TANH: return 1 - 2 / (exp(2 * x) + 1);
    case HEAD_GELU: return x * 0.5 * erfc(-x / sqrt(2));
    case HEAD_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * pow(x, 3))));
    case HEAD_RELU: return fmax(x, 0);
    case HEAD_SILU: return x / (exp(-x) + 1);
    case HEAD_SIGMOID: return 0.5 + 0.5 * tanh(x / 2);
    case HEAD_IDENTITY:
    case HEAD_ACTIVATION_COUNT: break;
    }
    return x;
}

TEST(a_product_has_its_activation) {
    float weight[OUT * IN], bias[OUT], x[IN], out[OUT];
    double room[2 * IN];
    for (uint32_t i = 0; i < OUT * IN; i++)
        weight[i] = fill(i);
    for (uint32_t i = 0; i < IN; i++)
        x[i] = fill(i + 5) / 4;
    for (uint32_t i = 0; i < OUT; i++)
        bias[i] = fill(i + 3);
    for (int a = 0; a < HEAD_ACTIVATION_COUNT; a++) {
        const struct vector_head h = {.layers = {{.in = IN,
                                                  .out = OUT,
                                                  .activation = (enum head_activation)a,
                                                  .weight = weight,
                                                  .bias = a % 2 ? bias : NULL}},
                                      .count = 1};
        EXPECT(vector_head_width(&h) == OUT && vector_head_widest(&h) == IN);
        vector_head_apply(&h, x, room, out);
        for (uint32_t r = 0; r < OUT; r++) {
            double sum = a % 2 ? (double)bias[r] : 0;
            for (uint32_t i = 0; i < IN; i++)
                sum += (double)weight[r * IN + i] * (double)x[i];
            double want = expected_activation((enum head_activation)a, sum);
            if (!(fabs((double)out[r] - want) < 1e-6 * fmax(1, fabs(want))))
                check_fail(__FILE__, __LINE__, "activation %d, row %u: %g, not %g", a, r,
                           (double)out[r], want);
        }
    }
}

TEST(layers_follow_one_another) {
    float wide[2 * 3] = {1, 0, 0, 0, 2, -1}, scale[2] = {2, 0.5f}, shift[2] = {0.25f, -1},
                   narrow[2] = {3, -1}, x[3] = {4, 2, 2}, out[1];
    const struct vector_head h = {
        .layers = {{.in = 3, .out = 2, .weight = wide},
                   {.in = 2, .out = 2, .norm = true, .eps = 0.5f, .weight = scale, .bias = shift},
                   {.in = 2, .out = 1, .weight = narrow}},
        .count = 3};
    double room[6];
    /* (4, 2): mean 3, variance 1 */
    double a = 1 / sqrt(1.5) * 2 + 0.25, b = -1 / sqrt(1.5) * 0.5 - 1;
    vector_head_apply(&h, x, room, out);
    EXPECT(fabs((double)out[0] - (3 * a - b)) < 1e-6);
}
