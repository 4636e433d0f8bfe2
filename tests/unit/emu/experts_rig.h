/*
 * experts_rig.h - the experts' products of a mixture on emulated devices: which, how many rows each has, and rows
 * that find their expert among many.
 */
#ifndef TESTS_UNIT_EMU_EXPERTS_RIG_H
#define TESTS_UNIT_EMU_EXPERTS_RIG_H

#include "rig.h"

void emu_set_device(int arch, int compiled);

/* Compute capability and what the code was compiled for: early launches, and none. */
static const int DEVICES[][2] = {{90, 90}, {80, 80}, {120, 120}};

static inline void use_device(uint32_t i) {
    emu_set_device(DEVICES[i % ARRAY_LEN(DEVICES)][0], DEVICES[i % ARRAY_LEN(DEVICES)][1]);
}

enum { EXPERTS = 5 };

static inline uint32_t sum_of(const uint32_t counts[EXPERTS]) {
    uint32_t sum = 0;
    for (uint32_t e = 0; e < EXPERTS; e++)
        sum += counts[e];
    return sum;
}

/* More experts than a warp has lanes, most of them without rows, the others with `most` at most, each of this
 * matrix and a bias of its own: each row, of noughts, meets its own expert's. r's activations are bf16. */
static inline void check_many_experts(struct rig *r, const struct matrix *one, bool packed,
                                      uint32_t most) {
    enum { MANY = 75 };
    const uint32_t width = one->rows, cols = one->cols;
    struct matrix experts[MANY];
    uint32_t offsets[MANY + 1] = {0};
    float *bias = calloc((size_t)MANY * width, sizeof *bias);
    for (uint32_t e = 0; e < MANY; e++) {
        offsets[e + 1] =
            offsets[e] + (check_random() % 4 ? 0 : (uint32_t)check_random() % (most + 1));
        for (uint32_t n = 0; n < width; n++)
            bias[e * width + n] = (float)(e + 1);
    }
    offsets[MANY] += offsets[MANY] == 0; /* the last one has one at least */
    const float *biases = rig_up(r, bias, (size_t)MANY * width * sizeof *bias);
    for (uint32_t e = 0; e < MANY; e++) {
        experts[e] = *one;
        experts[e].bias = biases + (size_t)e * width;
    }
    const uint32_t pairs = offsets[MANY];
    const struct expert_matrix all = {.type = one->type,
                                      .rows = width,
                                      .cols = cols,
                                      .expert_count = MANY,
                                      .experts = rig_up(r, experts, sizeof experts),
                                      .packed = packed};
    const struct expert_plan plan = {.offsets = rig_up(r, offsets, sizeof offsets)};
    float *x = calloc((size_t)pairs * cols, sizeof *x);
    void *xs = rig_values(r, STORAGE_BF16, x, (size_t)pairs * cols),
         *out = rig_alloc(r, (size_t)pairs * width * 2);
    r->dev->ops->expert_linear(r->stream,
                               &(struct op_expert_linear){out, xs, &all, &plan, pairs, 1, NULL});
    float *got = rig_down(r, STORAGE_BF16, out, (size_t)pairs * width);
    for (uint32_t e = 0; e < MANY; e++)
        for (size_t at = (size_t)offsets[e] * width; at < (size_t)offsets[e + 1] * width; at++)
            EXPECT_EQ((int)got[at], (int)e + 1);
    free(got);
    free(x);
    free(bias);
}

#endif
