/*
 * Products on AMX's tiles (kernels/cpu/tile_product.h): the definition, written here in scalars from
 * its description, against the kernel's bits, for weights of every type, any number of rows and any
 * shape.
 */
#include <stdio.h>

#include "kernels/cpu/cpu.h"
#include "weights_rig.h"

static bool have_tiles(void) {
    return cpu_isa_runs(CPU_ISA_AMX, cpu_features());
}
#define NEED_TILES()                                                                               \
    if (!have_tiles())                                                                             \
    SKIP("isa", "no amx on this machine")

/* ---- weights ---- */

enum { SCALES_A_ROW = 1, SCALES_A_GROUP, SCALES_FLAT, SCALES_BY_ORDER, SCALES_OF_SQUARES };

static void make_segment(struct weights *w, uint32_t i, enum storage_type type, uint32_t rows,
                         int scales) {
    struct matrix_segment *p = &w->m.segments[i];
    uint32_t cols = w->m.cols,
             group = scales == SCALES_A_ROW  ? 0
                     : scales == SCALES_FLAT ? 48
                                             : 64,
             stride = group ? (cols + group - 1) / group : 1;
    size_t size = storage_bytes(type, cols) * rows;
    w->data[i] = malloc(size + 1);
    fill_usable(type, w->data[i], size / storage_bytes(type, storage_block(type)), 0x1p-30f);
    *p = (struct matrix_segment){.data = w->data[i], .rows = rows, .type = type};
    w->m.rows += rows;
    if (!storage_is_scaled(type))
        return;
    size_t count = scales == SCALES_FLAT ? (size_t)rows * cols / group + 1 : (size_t)rows * stride;
    p->scale_rows = scales == SCALES_FLAT ? 0 : scales == SCALES_OF_SQUARES ? 16 : 1;
    p->scale_cols = group;
    p->scale_stride = stride;
    p->scales = w->scales[i] = random_array(count);
    if (type == STORAGE_U4 || type == STORAGE_U8)
        p->zeros = w->zeros[i] = random_array(count);
    if (scales == SCALES_BY_ORDER) {
        w->groups = calloc(cols, sizeof *w->groups);
        for (uint32_t k = 0; k < cols; k++)
            w->groups[k] = (uint32_t)(check_random() % stride);
        p->groups = w->groups;
    }
}
static struct weights make_weights(const enum storage_type *types, uint32_t segments,
                                   const uint32_t *rows, uint32_t cols, int scales) {
    struct weights w = {
        .m = {.type = types[0], .compute = COMPUTE_BF16, .cols = cols, .segment_count = segments}};
    for (uint32_t i = 0; i < segments; i++)
        make_segment(&w, i, types[i], rows[i], scales);
    w.m.bias = w.bias = random_array(w.m.rows);
    return w;
}

/* ---- the definition ---- */

static float truncated(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits &= 0xffff0000;
    memcpy(&x, &bits, 4);
    return x;
}
/* x as terms in bf16, the least first. */
static uint32_t terms_of(enum compute_type compute, float x, float *terms) {
    if (compute == COMPUTE_BF16) {
        terms[0] = bf16_to_f32(f32_to_bf16(x));
        return 1;
    }
    for (int p = 2; p >= 0; p--) {
        terms[p] = truncated(x);
        x = isfinite(x) ? x - terms[p] : 0;
    }
    return 3;
}

/* w: a row of weights, in bf16 already. */
static float defined(enum compute_type compute, const float *w, const float *x, uint32_t cols,
                     float bias) {
    float acc = 0;
    for (uint32_t k = 0; k < cols; k += 32) {
        float terms[32][3] = {{0}}, in[32] = {0};
        uint32_t count = 0;
        for (uint32_t i = 0; i < MIN(cols - k, 32u); i++) {
            count = terms_of(compute, x[k + i], terms[i]);
            in[i] = w[k + i];
        }
        for (uint32_t p = 0; p < count; p++) {
            float even = 0, odd = 0;
            for (int i = 0; i < 32; i += 2) {
                even = fmaf(in[i], terms[i][p], even);
                odd = fmaf(in[i + 1], terms[i + 1][p], odd);
            }
            acc = acc + (even + odd);
        }
    }
    return acc + bias;
}

static void define(const struct matrix *m, const float *x, uint32_t rows, float *out) {
    float *w = malloc(m->cols * sizeof *w);
    for (uint32_t n = 0; n < m->rows; n++) {
        matrix_dequantize(m, n, 0, m->cols, w);
        for (uint32_t k = 0; k < m->cols; k++)
            w[k] = bf16_to_f32(f32_to_bf16(w[k]));
        for (uint32_t t = 0; t < rows; t++)
            out[(size_t)t * m->rows + n] =
                defined(m->compute, w, x + (size_t)t * m->cols, m->cols, m->bias[n]);
    }
    free(w);
}

/* ---- the kernel ---- */

/* The first of x's rows, so many of each count, against the definition of all. */
static void check_rows(const struct weights *w, const float *x, const uint32_t *counts,
                       size_t count_count, const char *what) {
    uint32_t most = 0;
    for (size_t i = 0; i < count_count; i++)
        most = MAX(most, counts[i]);
    float *want = guarded((size_t)most * w->m.rows);
    define(&w->m, x, most, want);
    for (size_t i = 0; i < count_count; i++)
        for (int threads = 1; threads <= 2; threads++) {
            size_t size = (size_t)counts[i] * w->m.rows;
            float *got = guarded(size);
            struct bench b = bench_open("amx", threads);
            run(&b, &w->m, x, counts[i], got);
            if (!guards_intact(got, size))
                check_fail(__FILE__, __LINE__, "%s: wrote outside its output", what);
            if (!same_bits(got, want, size))
                check_fail(__FILE__, __LINE__, "%s, %u rows x [%u, %u], %d threads: other bits",
                           what, counts[i], w->m.rows, w->m.cols, threads);
            bench_close(&b);
            unguard(got);
        }
    unguard(want);
}

static void check_type(enum storage_type type, uint32_t outputs, uint32_t cols, int scales,
                       const uint32_t *counts, size_t count_count) {
    uint32_t most = counts[count_count - 1];
    struct weights w = make_weights(&type, 1, &outputs, cols, scales);
    float *x = random_array((size_t)most * cols);
    check_rows(&w, x, counts, count_count, storage_name(type));
    unguard(x);
    free_weights(&w);
}

TEST(any_number_of_rows_has_the_definitions_bits) {
    NEED_TILES();
    uint32_t counts[34];
    for (uint32_t i = 0; i < 34; i++)
        counts[i] = i < 33 ? i + 1 : 70;
    check_type(STORAGE_BF16, 70, 288, 0, counts, 34);
    check_type(STORAGE_Q4_0, 65, 544, 0, counts, 34);
}

TEST(any_shape_has_the_definitions_bits) {
    NEED_TILES();
    static const uint32_t OUTPUTS[] = {1, 15, 16, 17, 63, 64, 65, 130},
                          COLS[] = {1, 2, 31, 32, 33, 255, 256, 257, 513, 1100},
                          COUNTS[] = {1, 2, 19};
    for (size_t i = 0; i < ARRAY_LEN(COLS); i++)
        check_type(STORAGE_BF16, OUTPUTS[i % ARRAY_LEN(OUTPUTS)], COLS[i], 0, COUNTS, 3);
    check_type(STORAGE_BF16, 600, 64, 0, COUNTS, 3);
}

TEST(weights_of_every_type_are_their_values_rounded) {
    NEED_TILES();
    static const uint32_t COUNTS[] = {1, 21};
    for (int type = STORAGE_F8_E4M3; type < STORAGE_TYPE_COUNT; type++) {
        if (!storage_is_scaled((enum storage_type)type)) {
            uint32_t block = storage_block((enum storage_type)type), cols = block == 32 ? 352 : 768;
            check_type((enum storage_type)type, 37, cols, 0, COUNTS, 2);
            continue;
        }
        check_type((enum storage_type)type, 37, 352, SCALES_A_ROW, COUNTS, 2);
        check_type((enum storage_type)type, 37, 320, SCALES_A_GROUP, COUNTS, 2);
        check_type((enum storage_type)type, 21, 352, SCALES_FLAT, COUNTS, 2);
        check_type((enum storage_type)type, 21, 352, SCALES_BY_ORDER, COUNTS, 2);
        check_type((enum storage_type)type, 37, 320, SCALES_OF_SQUARES, COUNTS, 2);
        check_type((enum storage_type)type, 9, 334, SCALES_A_ROW, COUNTS, 2);
    }
}

TEST(segments_of_several_types_are_one_product) {
    NEED_TILES();
    static const enum storage_type TYPES_OF[] = {STORAGE_Q4_K, STORAGE_BF16, STORAGE_Q6_K};
    static const uint32_t COUNTS[] = {1, 17};
    struct weights w = make_weights(TYPES_OF, 3, (uint32_t[]){33, 5, 18}, 768, 0);
    float *x = random_array(17 * 768);
    check_rows(&w, x, COUNTS, 2, "three types");
    unguard(x);
    free_weights(&w);
}

/* Three terms make an activation whole: what f32 means there. */
TEST(whole_activations_have_the_definitions_bits) {
    NEED_TILES();
    static const uint32_t COUNTS[] = {1, 16, 35}, COLS[] = {32, 77, 640};
    static const enum storage_type BF16 = STORAGE_BF16;
    for (size_t i = 0; i < ARRAY_LEN(COLS); i++) {
        struct weights w = make_weights(&BF16, 1, (uint32_t[]){83}, COLS[i], 0);
        float *x = random_array((size_t)35 * COLS[i]);
        w.m.compute = COMPUTE_F32;
        check_rows(&w, x, COUNTS, 3, "whole activations");
        unguard(x);
        free_weights(&w);
    }
}

/* A row that is not finite, and a NaN among the weights, spoil what they meet and no more. */
TEST(what_is_not_finite_is_handed_on) {
    NEED_TILES();
    enum { ROWS = 18, COLS = 96, OUTPUTS = 5 };
    static const enum storage_type FP8 = STORAGE_F8_E4M3;
    struct weights w = make_weights(&FP8, 1, (uint32_t[]){OUTPUTS}, COLS, SCALES_A_ROW);
    float *x = random_array(ROWS * COLS), got[ROWS * OUTPUTS];
    struct bench b = bench_open("amx", 1);
    x[4 * COLS + 33] = NAN;
    x[17 * COLS + 64] = -INFINITY;
    w.data[0][3 * COLS + 50] = 0xff;
    run(&b, &w.m, x, ROWS, got);
    for (int t = 0; t < ROWS; t++)
        for (int n = 0; n < OUTPUTS; n++)
            EXPECT_EQ(isfinite(got[t * OUTPUTS + n]) != 0, t != 4 && t != 17 && n != 3);
    bench_close(&b);
    unguard(x);
    free_weights(&w);
}

/* Rows over several passes of the device's buffer. */
TEST(passes_do_not_change_bits) {
    NEED_TILES();
    enum { ROWS = 530, COLS = 32768 };
    static const enum storage_type Q8 = STORAGE_Q8_0;
    struct weights w = make_weights(&Q8, 1, (uint32_t[]){2}, COLS, 0);
    float *x = random_array((size_t)ROWS * COLS), *alone = guarded(2), *all = guarded(ROWS * 2);
    struct bench b = bench_open("amx", 2);
    run(&b, &w.m, x, ROWS, all);
    for (uint32_t r = 0; r < ROWS; r += 37) {
        run(&b, &w.m, x + (size_t)r * COLS, 1, alone);
        EXPECT(same_bits(alone, all + r * 2, 2));
    }
    bench_close(&b);
    unguard(x);
    unguard(alone);
    unguard(all);
    free_weights(&w);
}

/* Experts with no rows, one, many, and so many that they need two passes: the bits are linear's. */
TEST(experts_have_the_bits_of_linear) {
    NEED_TILES();
    static const enum storage_type TYPES_OF[RIG_EXPERTS] = {STORAGE_Q4_0, STORAGE_Q4_0,
                                                            STORAGE_Q8_0, STORAGE_MXFP4};
    struct weights w[RIG_EXPERTS];
    for (int e = 0; e < RIG_EXPERTS; e++)
        w[e] = make_weights(&TYPES_OF[e], 1, (uint32_t[]){RIG_OUTPUTS}, RIG_COLS, 0);
    check_experts(w);
}

TEST(asked_for_bf16_a_device_with_tiles_takes_all_but_finer_weights) {
    NEED_TILES();
    struct error err;
    struct device *dev = NULL;
    struct matrix m = {.rows = 1, .cols = 256, .segment_count = 1};
    m.segments[0] = (struct matrix_segment){.rows = 1, .scale_rows = 1};
    EXPECT_EQ(device_open(&(struct device_options){.compute = "bf16", .isa = "amx"}, &dev, &err),
              0);
    for (int type = STORAGE_F32; type < STORAGE_TYPE_COUNT; type++) {
        m.type = (enum storage_type)type;
        EXPECT_EQ(device_compute(dev, &m),
                  type == STORAGE_F32 || type == STORAGE_F16 ? COMPUTE_F32 : COMPUTE_BF16);
    }
    device_close(&dev);
}
