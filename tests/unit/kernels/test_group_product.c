/*
 * Products of integers with a scale for each 128 columns (kernels/integer_groups.h): the definition
 * against the dequantized matrix in double, with the error it may have; then AMX's tiles
 * (kernels/cpu/group_product.h), packed or not, at any number of rows, have the definition's bits.
 */
#include <stdio.h>

#include "kernels/cpu/cpu.h"
#include "kernels/integer_groups.h"
#include "weights_rig.h"

static const enum storage_type TYPES_OF[] = {
    STORAGE_Q4_0, STORAGE_Q4_1,    STORAGE_Q4_K,    STORAGE_IQ4_NL, STORAGE_IQ4_XS, STORAGE_MXFP4,
    STORAGE_U4,   STORAGE_Q5_0,    STORAGE_Q5_1,    STORAGE_Q5_K,   STORAGE_Q6_K,   STORAGE_Q8_0,
    STORAGE_I8,   STORAGE_F8_E4M3, STORAGE_F8_E5M2, STORAGE_U8};

static bool have_tiles(void) {
    return cpu_isa_runs(CPU_ISA_AMX, cpu_features()) && cpu_features().bits & CPU_BIT(AMX_INT8);
}
#define NEED_TILES()                                                                               \
    if (!have_tiles())                                                                             \
    SKIP("isa", "no amx with int8 on this machine")

/* ---- weights ---- */

static void make_segment(struct weights *w, uint32_t i, enum storage_type type, uint32_t rows) {
    struct matrix_segment *p = &w->m.segments[i];
    size_t size = storage_bytes(type, w->m.cols) * rows;
    w->data[i] = malloc(size);
    fill_usable(type, w->data[i], size / storage_bytes(type, storage_block(type)), 0);
    *p = (struct matrix_segment){.data = w->data[i], .rows = rows, .type = type};
    w->m.rows += rows;
    if (!storage_is_scaled(type))
        return;
    p->scale_rows = 1;
    p->scale_cols = 64;
    p->scale_stride = (w->m.cols + 63) / 64;
    p->scales = w->scales[i] = random_array((size_t)rows * p->scale_stride);
    if (type == STORAGE_U4 || type == STORAGE_U8)
        p->zeros = w->zeros[i] = random_array((size_t)rows * p->scale_stride);
}
static struct weights make_weights(const enum storage_type *types, uint32_t segments,
                                   const uint32_t *rows, uint32_t cols) {
    struct weights w = {.m = {.type = types[0],
                              .compute = COMPUTE_INT8_GROUPS,
                              .cols = cols,
                              .segment_count = segments}};
    for (uint32_t i = 0; i < segments; i++)
        make_segment(&w, i, types[i], rows[i]);
    w.m.bias = w.bias = random_array(w.m.rows);
    return w;
}
/* ---- the definition ---- */

/* Weights of a group whose scale would be below 2^-100 count as zero. */
#define NOTHING (127 * 0x1p-100)

/* Away from the exact product: half a step of each activation, half a step of each weight (two of
 * codes) and what both make together; f32 sums of one term a group. */
static double tolerance(const struct matrix *m, uint32_t row, const float *w, const float *x) {
    double steps = 0, terms = 0;
    for (uint32_t k = 0; k < m->cols; k += GROUP_COLS) {
        uint32_t count = MIN(m->cols - k, (uint32_t)GROUP_COLS);
        int8_t v[GROUP_COLS], q[GROUP_COLS];
        double scale = (double)bf16_to_f32(segment_group(m, m->segments, row, k / GROUP_COLS, v)),
               off_w = scale * (segment_has_codes(m, m->segments) ? 2 : 0.5001) + NOTHING,
               off_x = (double)group_of_activations(x + k, count, q) * 0.5001;
        for (uint32_t i = 0; i < count; i++) {
            steps +=
                off_w * fabs((double)x[k + i]) + off_x * fabs((double)w[k + i]) + off_w * off_x;
            terms += fabs((double)w[k + i] * (double)x[k + i]) + steps;
        }
    }
    return steps + UNIT_ROUNDOFF * terms * (2.0 * m->cols / GROUP_COLS + 4);
}

TEST(the_definition_is_the_product_within_the_steps_of_both_sides) {
    enum { ROWS = 3, OUTPUTS = 19, COLS = 768 };
    struct bench ref = bench_open("ref", 1);
    for (size_t t = 0; t < ARRAY_LEN(TYPES_OF); t++) {
        struct weights w = make_weights(&TYPES_OF[t], 1, (uint32_t[]){OUTPUTS}, COLS);
        float *x = random_array(ROWS * COLS), *got = guarded(ROWS * OUTPUTS);
        run(&ref, &w.m, x, ROWS, got);
        for (uint32_t i = 0; i < ROWS * OUTPUTS; i++) {
            uint32_t r = i / OUTPUTS, n = i % OUTPUTS;
            float row[COLS];
            matrix_dequantize(&w.m, n, 0, COLS, row);
            double want = (double)w.bias[n], bound = tolerance(&w.m, n, row, x + r * COLS);
            for (uint32_t k = 0; k < COLS; k++)
                want += (double)row[k] * (double)x[r * COLS + k];
            double error = fabs((double)got[i] - want);
            if (!(error <= bound))
                check_fail(__FILE__, __LINE__, "%s: row %u, output %u is %g away from %g (%g)",
                           storage_name(TYPES_OF[t]), r, n, error, want, bound);
        }
        EXPECT(guards_intact(got, ROWS * OUTPUTS));
        unguard(x);
        unguard(got);
        free_weights(&w);
    }
    bench_close(&ref);
}

/* Each weight alone: v D is as near to it as the header says. */
TEST(a_group_is_near_its_weights) {
    enum { OUTPUTS = 40, COLS = 768 };
    for (size_t t = 0; t < ARRAY_LEN(TYPES_OF); t++) {
        struct weights w = make_weights(&TYPES_OF[t], 1, (uint32_t[]){OUTPUTS}, COLS);
        bool codes = segment_has_codes(&w.m, w.m.segments);
        for (uint32_t i = 0; i < OUTPUTS * COLS / GROUP_COLS; i++) {
            uint32_t n = i / (COLS / GROUP_COLS), g = i % (COLS / GROUP_COLS);
            int8_t v[GROUP_COLS];
            float row[COLS];
            double scale = (double)bf16_to_f32(segment_group(&w.m, w.m.segments, n, g, v));
            matrix_dequantize(&w.m, n, 0, COLS, row);
            for (uint32_t k = 0; k < GROUP_COLS; k++) {
                double error = fabs(scale * v[k] - (double)row[g * GROUP_COLS + k]);
                if (!(error <= scale * (codes ? 2 : 0.5001) + NOTHING) || v[k] == -128)
                    check_fail(__FILE__, __LINE__, "%s: column %u is %g of a step away",
                               storage_name(TYPES_OF[t]), k, error / scale);
            }
        }
        free_weights(&w);
    }
}

/* ---- tiles ---- */

/* The first of x's rows, so many of each count, against the definition of all. */
static void check_rows(struct weights *w, const float *x, const uint32_t *counts,
                       size_t count_count, bool packed, const char *what) {
    uint32_t most = counts[count_count - 1];
    float *want = guarded((size_t)most * w->m.rows);
    struct bench ref = bench_open("ref", 1);
    run(&ref, &w->m, x, most, want);
    for (size_t i = 0; i < count_count; i++)
        for (int threads = 1; threads <= 2; threads++) {
            size_t size = (size_t)counts[i] * w->m.rows;
            float *got = guarded(size);
            struct bench b = bench_open("amx", threads);
            if (packed)
                pack_segments(&b, w);
            run(&b, &w->m, x, counts[i], got);
            if (packed)
                unpack_segments(w);
            if (!guards_intact(got, size))
                check_fail(__FILE__, __LINE__, "%s: wrote outside its output", what);
            if (!same_bits(got, want, size))
                check_fail(__FILE__, __LINE__, "%s, %u rows x [%u, %u], %d threads: other bits",
                           what, counts[i], w->m.rows, w->m.cols, threads);
            bench_close(&b);
            unguard(got);
        }
    bench_close(&ref);
    unguard(want);
}
static void check_type(enum storage_type type, uint32_t outputs, uint32_t cols,
                       const uint32_t *counts, size_t count_count) {
    struct weights w = make_weights(&type, 1, &outputs, cols);
    float *x = random_array((size_t)counts[count_count - 1] * cols);
    check_rows(&w, x, counts, count_count, true, storage_name(type));
    check_rows(&w, x, counts, 1, false, storage_name(type));
    unguard(x);
    free_weights(&w);
}

TEST(any_number_of_rows_has_the_definitions_bits) {
    NEED_TILES();
    uint32_t counts[35];
    for (uint32_t i = 0; i < 35; i++)
        counts[i] = i < 33 ? i + 1 : i == 33 ? 70 : 530;
    check_type(STORAGE_Q4_0, 70, 288, counts, 35);
    check_type(STORAGE_Q8_0, 33, 672, counts, 34);
}

TEST(any_shape_of_every_type_has_the_definitions_bits) {
    NEED_TILES();
    static const uint32_t OUTPUTS[] = {1, 15, 16, 17, 63, 64, 65, 130}, COUNTS[] = {1, 2, 19},
                          COLS[] = {32, 64, 96, 128, 160, 512, 640, 1376};
    for (size_t t = 0; t < ARRAY_LEN(TYPES_OF); t++)
        for (size_t i = t % 2; i < 8; i += 2) {
            uint32_t cols = storage_block(TYPES_OF[t]) == 256 ? 256 * (uint32_t)(i + 1) : COLS[i];
            check_type(TYPES_OF[t], OUTPUTS[(t + i) % 8], cols, COUNTS, 3);
        }
}

TEST(segments_of_several_types_are_one_product) {
    NEED_TILES();
    static const enum storage_type SOME[] = {STORAGE_Q4_K, STORAGE_Q8_0, STORAGE_Q6_K};
    static const uint32_t COUNTS[] = {1, 17};
    struct weights w = make_weights(SOME, 3, (uint32_t[]){33, 5, 70}, 768);
    float *x = random_array(17 * 768);
    check_rows(&w, x, COUNTS, 2, true, "three types");
    unguard(x);
    free_weights(&w);
}

/* A row that is not finite, and a weight, spoil what they meet and no more; zeros are zeros. */
TEST(what_is_not_finite_is_handed_on) {
    NEED_TILES();
    enum { ROWS = 18, COLS = 160, OUTPUTS = 5 };
    static const enum storage_type SOME[] = {STORAGE_F8_E4M3, STORAGE_Q4_0};
    for (int s = 0; s < 2; s++) {
        struct weights w = make_weights(&SOME[s], 1, (uint32_t[]){OUTPUTS}, COLS);
        float *x = random_array(ROWS * COLS), got[ROWS * OUTPUTS];
        struct bench b = bench_open("amx", 1);
        x[4 * COLS + 33] = NAN;
        x[17 * COLS + 130] = -INFINITY;
        memset(x + 3 * COLS, 0, COLS * sizeof *x);
        if (s == 0)
            w.data[0][3 * COLS + 50] = 0xff;
        else
            memcpy(w.data[0] + 3 * (COLS / 32) * 18, &(uint16_t){0x7c00}, 2);
        run(&b, &w.m, x, ROWS, got);
        for (int t = 0; t < ROWS; t++)
            for (int n = 0; n < OUTPUTS; n++) {
                EXPECT_EQ(isfinite(got[t * OUTPUTS + n]) != 0, t != 4 && t != 17 && n != 3);
                if (t == 3 && n != 3)
                    EXPECT(got[t * OUTPUTS + n] == w.bias[n]);
            }
        bench_close(&b);
        unguard(x);
        free_weights(&w);
    }
}

/* Experts with no rows, one, some and many: the bits are linear's. */
TEST(experts_have_the_bits_of_linear) {
    NEED_TILES();
    struct weights w[RIG_EXPERTS];
    for (int e = 0; e < RIG_EXPERTS; e++)
        w[e] = make_weights(&TYPES_OF[5], 1, (uint32_t[]){RIG_OUTPUTS}, RIG_COLS);
    check_experts(w);
}

TEST(a_device_with_tiles_takes_groups_by_itself) {
    NEED_TILES();
    struct error err;
    struct device *dev = NULL;
    struct matrix m = {.rows = 1, .cols = 256, .segment_count = 1};
    m.segments[0] = (struct matrix_segment){.rows = 1, .scale_rows = 1};
    EXPECT_EQ(device_open(&(struct device_options){.compute = "auto", .isa = "amx"}, &dev, &err),
              0);
    EXPECT_STR(compute_name(dev->compute), "int8x128+bf16");
    for (size_t t = 0; t < ARRAY_LEN(TYPES_OF); t++) {
        m.type = TYPES_OF[t];
        EXPECT_EQ(device_compute(dev, &m), COMPUTE_INT8_GROUPS);
    }
    m.type = STORAGE_BF16;
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_BF16);
    device_close(&dev);
}
