/*
 * weights_rig.h - random weights of several segments for products, packed or not, and products run by a
 * device. How weights of a type are made is each test's own.
 */
#ifndef TESTS_UNIT_KERNELS_WEIGHTS_RIG_H
#define TESTS_UNIT_KERNELS_WEIGHTS_RIG_H

#include "rig.h"

/* What m refers to; owned. NULL: it has none. */
struct weights {
    struct matrix m;
    uint8_t *data[MATRIX_SEGMENTS_MAX];
    float *scales[MATRIX_SEGMENTS_MAX], *zeros[MATRIX_SEGMENTS_MAX], *bias;
    void *packed[MATRIX_SEGMENTS_MAX];
    uint32_t *groups;
};
static inline void free_weights(struct weights *w) {
    for (int i = 0; i < MATRIX_SEGMENTS_MAX; i++) {
        free(w->data[i]);
        unguard(w->scales[i]);
        unguard(w->zeros[i]);
    }
    free(w->groups);
    unguard(w->bias);
}

/* Random bytes whose values are finite, below 2^20, and above `least` where they are not 0. */
static inline void fill_usable(enum storage_type type, uint8_t *data, size_t blocks, float least) {
    uint32_t values = storage_block(type);
    size_t bytes = storage_bytes(type, values);
    for (size_t i = 0; i < blocks; i++, data += bytes) {
        struct matrix one = {.type = type, .rows = 1, .cols = values, .segment_count = 1};
        float out[256];
        bool usable = false;
        one.segments[0] = (struct matrix_segment){.data = data, .rows = 1, .scale_rows = 1};
        while (!usable) {
            for (size_t k = 0; k < bytes; k++)
                data[k] = (uint8_t)check_random();
            matrix_dequantize(&one, 0, 0, values, out);
            usable = true;
            for (uint32_t k = 0; k < values; k++)
                usable =
                    usable && fabsf(out[k]) < 0x1p20f && (out[k] == 0 || fabsf(out[k]) > least);
        }
    }
}

/* Each segment packed by the device, which writes no byte behind it. */
static inline void pack_segments(struct bench *b, struct weights *w) {
    for (uint32_t i = 0; i < w->m.segment_count; i++) {
        size_t size = b->dev->ops->packed_bytes(b->dev, &w->m, i);
        uint8_t *packed = aligned_alloc(64, (size + 127) / 64 * 64);
        memset(packed, 0x5a, size + 1);
        b->dev->ops->pack(b->stream, &w->m, i, packed);
        EXPECT_EQ(packed[size], 0x5a);
        w->m.segments[i].packed = w->packed[i] = packed;
    }
}
static inline void unpack_segments(struct weights *w) {
    for (uint32_t i = 0; i < w->m.segment_count; i++) {
        free(w->packed[i]);
        w->m.segments[i].packed = NULL;
    }
}

/* out [rows, m->rows] = x [rows, m->cols] times m. */
static inline void run(struct bench *b, const struct matrix *m, const float *x, uint32_t rows,
                       float *out) {
    b->dev->ops->linear(
        b->stream,
        &(struct op_linear){
            .out = out, .x = x, .w = m, .rows = rows, .class_rows = rows, .out_stride = m->rows});
}

/* ---- experts ---- */

/* With no rows, one, some and many; as many together as need two passes where rows are large. */
enum { RIG_EXPERTS = 4, RIG_PAIRS = 570, RIG_OUTPUTS = 70, RIG_COLS = 96 };
static const uint32_t RIG_OFFSETS[RIG_EXPERTS + 1]
    __attribute__((unused)) = {0, 1, 1, 19, RIG_PAIRS};

/* Experts [RIG_OUTPUTS, RIG_COLS] have the bits of each alone, on two threads of AMX. Frees them. */
static inline void check_experts(struct weights w[RIG_EXPERTS]) {
    struct matrix experts[RIG_EXPERTS];
    float *x = random_array(RIG_PAIRS * RIG_COLS), *got = guarded(RIG_PAIRS * RIG_OUTPUTS),
          *want = guarded(RIG_PAIRS * RIG_OUTPUTS);
    struct bench b = bench_open("amx", 2);
    for (int e = 0; e < RIG_EXPERTS; e++) {
        w[e].m.bias = NULL;
        experts[e] = w[e].m;
        run(&b, &experts[e], x + RIG_OFFSETS[e] * RIG_COLS, RIG_OFFSETS[e + 1] - RIG_OFFSETS[e],
            want + RIG_OFFSETS[e] * RIG_OUTPUTS);
    }
    struct expert_plan plan = {.offsets = (uint32_t *)RIG_OFFSETS};
    struct expert_matrix all = {
        .experts = experts, .expert_count = RIG_EXPERTS, .rows = RIG_OUTPUTS, .cols = RIG_COLS};
    b.dev->ops->expert_linear(
        b.stream, &(struct op_expert_linear){
                      .out = got, .x = x, .w = &all, .plan = &plan, .rows = RIG_PAIRS, .top_k = 1});
    EXPECT(same_bits(got, want, RIG_PAIRS * RIG_OUTPUTS));
    EXPECT(guards_intact(got, RIG_PAIRS * RIG_OUTPUTS));
    bench_close(&b);
    for (int e = 0; e < RIG_EXPERTS; e++)
        free_weights(&w[e]);
    unguard(x);
    unguard(got);
    unguard(want);
}

#endif
