/* States of positions become a vector, however the prompt is cut. */
#include "check.h"
#include "worker/pooling.h"

#include <math.h>

enum { WIDTH = 3, SLOTS = 2, LENGTH = 7 };

static const float STATES[LENGTH][WIDTH] = {{1, -1, 0.5f}, {2, -9, 0}, {3, 4, 0.25f}, {-7, 4, 8},
                                            {0, 1, 2},     {5, 5, -5}, {1, 2, 3}};

/* The vector of STATES in chunks of so many rows, in slot 1. False: it is not finite. */
static bool pool(enum wire_pooling kind, uint32_t chunk, float out[WIDTH]) {
    struct pooling_state p;
    pooling_init(&p, kind, WIDTH, SLOTS, NULL);
    bool finite = true;
    for (int round = 0; round < 2; round++) /* another prompt was in the slot before */
        for (uint32_t at = 0; at < LENGTH; at += chunk) {
            struct mirror_row row = {.slot = 1,
                                     .position = at,
                                     .token_count = MIN(chunk, LENGTH - at),
                                     .fate = ROW_RUNS,
                                     .pools = true};
            uint32_t first, count;
            row.embeds = at + row.token_count == LENGTH;
            pooling_wants(kind, &row, &first, &count);
            finite = pooling_take(&p, &row, STATES[at + first], count, out);
        }
    pooling_release(&p);
    return finite;
}

TEST(each_way_of_pooling_is_what_it_says) {
    static const struct {
        enum wire_pooling kind;
        double want[WIDTH];
    } cases[] = {{WIRE_POOLING_LAST, {1, 2, 3}},
                 {WIRE_POOLING_CLS, {1, -1, 0.5}},
                 {WIRE_POOLING_MEAN, {5.0 / 7, 6.0 / 7, 8.75 / 7}},
                 {WIRE_POOLING_MAX, {5, 5, 8}}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (uint32_t chunk = 1; chunk <= LENGTH; chunk++) {
            float out[WIDTH];
            EXPECT(pool(cases[i].kind, chunk, out));
            for (int k = 0; k < WIDTH; k++)
                EXPECT(out[k] == (float)cases[i].want[k]);
        }
}

TEST(only_the_states_that_count_are_asked_for) {
    struct mirror_row row = {
        .position = 0, .token_count = 5, .fate = ROW_RUNS, .pools = true, .embeds = false};
    uint32_t first, count;
    pooling_wants(WIRE_POOLING_LAST, &row, &first, &count);
    EXPECT_EQ(count, 0u);
    pooling_wants(WIRE_POOLING_CLS, &row, &first, &count);
    EXPECT(first == 0 && count == 1);
    row.position = 5;
    pooling_wants(WIRE_POOLING_CLS, &row, &first, &count);
    EXPECT_EQ(count, 0u);
    row.embeds = true;
    pooling_wants(WIRE_POOLING_LAST, &row, &first, &count);
    EXPECT(first == 4 && count == 1);
    pooling_wants(WIRE_POOLING_MEAN, &row, &first, &count);
    EXPECT(first == 0 && count == 5);
    row.pools = false; /* a row of text */
    pooling_wants(WIRE_POOLING_MEAN, &row, &first, &count);
    EXPECT_EQ(count, 0u);
}

TEST(what_is_not_finite_is_told) {
    static const enum wire_pooling kinds[] = {WIRE_POOLING_LAST, WIRE_POOLING_CLS,
                                              WIRE_POOLING_MEAN, WIRE_POOLING_MAX};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct pooling_state p;
        const float states[2][WIDTH] = {{1, NAN, 2}, {1, NAN, 3}};
        float out[WIDTH];
        struct mirror_row row = {.token_count = 2, .fate = ROW_RUNS, .pools = true, .embeds = true};
        uint32_t first, count;
        pooling_init(&p, kinds[i], WIDTH, SLOTS, NULL);
        pooling_wants(kinds[i], &row, &first, &count);
        EXPECT(!pooling_take(&p, &row, states[first], count, out));
        pooling_release(&p);
    }
}

/* out . tanh(dense x + dense_bias) + out_bias, by hand. */
TEST(a_head_makes_one_score) {
    float dense[] = {1, 0, 0, 0, 0.5f, 0, 0, 0, 2}, bias[] = {0, 0.25f, -1}, last[] = {1, -2, 0.5f};
    float last_bias[] = {0.125f};
    const struct vector_head head = {
        .layers = {{.in = 3, .out = 3, .activation = HEAD_TANH, .weight = dense, .bias = bias},
                   {.in = 3, .out = 1, .weight = last, .bias = last_bias}},
        .count = 2};
    struct pooling_state p;
    struct mirror_row row = {
        .token_count = LENGTH, .fate = ROW_RUNS, .pools = true, .embeds = true};
    float out[2] = {0, 77};
    pooling_init(&p, WIRE_POOLING_CLS, WIDTH, SLOTS, &head);
    EXPECT_EQ(p.vector_width, 1u);
    EXPECT(pooling_take(&p, &row, STATES[0], 1, out));
    EXPECT(fabs((double)out[0] - (tanh(1) - 2 * tanh(-0.25) + 0.5 * tanh(0) + 0.125)) < 1e-6);
    EXPECT(out[1] == 77);
    pooling_release(&p);
}
