/*
 * Products in bf16 (kernels/cpu/bf16.h): the definition against the exact product, with the error it
 * may have; then every instruction set and variant but AMX's tiles, at any number of rows, has the
 * definition's bits.
 */
#include "kernels/cpu/bf16.h"

#include <stdio.h>

#include "weights_rig.h"

/* Values of both signs in segments that lie apart, and a bias. */
static struct weights make_weights(uint32_t segments, const uint32_t *rows, uint32_t cols) {
    struct weights w = {.m = {.type = STORAGE_BF16,
                              .compute = COMPUTE_BF16,
                              .cols = cols,
                              .segment_count = segments}};
    for (uint32_t i = 0; i < segments; i++) {
        float *x = random_array((size_t)rows[i] * cols);
        w.data[i] = stored(STORAGE_BF16, x, (size_t)rows[i] * cols);
        w.m.segments[i] = (struct matrix_segment){.data = w.data[i], .rows = rows[i]};
        w.m.rows += rows[i];
        unguard(x);
    }
    w.m.bias = w.bias = random_array(w.m.rows);
    return w;
}

/* Rounding an activation costs at most 2^-8 of it (7 bits behind the first), one of the two roundings of each of a chain's
 * steps, of 4 additions and of the bias 2^-24 of the sums, which the sum of sizes bounds. */
TEST(the_definition_is_the_product_but_for_the_rounding_of_activations) {
    enum { ROWS = 3, OUTPUTS = 5, COLS = 333 };
    struct bench ref = bench_open("ref", 1);
    struct weights w = make_weights(1, (uint32_t[]){OUTPUTS}, COLS);
    float *x = random_array(ROWS * COLS), *got = guarded(ROWS * OUTPUTS), row[COLS];
    run(&ref, &w.m, x, ROWS, got);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t n = 0; n < OUTPUTS; n++) {
            double want = (double)w.bias[n], size = fabs(want);
            matrix_dequantize(&w.m, n, 0, COLS, row);
            for (uint32_t k = 0; k < COLS; k++) {
                want += (double)row[k] * x[r * COLS + k];
                size += fabs((double)row[k] * x[r * COLS + k]);
            }
            double bound = size * (0x1p-8 + UNIT_ROUNDOFF * (2 * COLS / 32 + 8));
            EXPECT(fabs((double)got[r * OUTPUTS + n] - want) <= bound);
        }
    EXPECT(guards_intact(got, ROWS * OUTPUTS));
    unguard(x);
    unguard(got);
    free_weights(&w);
    bench_close(&ref);
}

/* Every set but AMX's, whose sums have an order of their own, against the definition's bits. */
static void check_bits(const struct weights *w, const float *x, uint32_t rows, const char *what) {
    size_t count = (size_t)rows * w->m.rows;
    float *want = guarded(count), *got = guarded(count);
    struct bench ref = bench_open("ref", 1);
    run(&ref, &w->m, x, rows, want);
    bench_close(&ref);
    FOR_EACH_ISA(isa) {
        if (!strcmp(isa, "amx")) /* test_tile_product.c */
            continue;
        struct bench b = bench_open(isa, 2);
        for (size_t i = 0; i < count; i++)
            memcpy(&got[i], &GUARD_BITS, 4);
        run(&b, &w->m, x, rows, got);
        if (!guards_intact(got, count))
            check_fail(__FILE__, __LINE__, "%s %s: wrote outside its output", isa, what);
        if (!same_bits(got, want, count))
            check_fail(__FILE__, __LINE__, "%s %s, %u rows x [%u, %u]: other bits", isa, what, rows,
                       w->m.rows, w->m.cols);
        bench_close(&b);
    }
    unguard(want);
    unguard(got);
}

TEST(every_set_has_the_definitions_bits_at_any_shape) {
    static const uint32_t ROWS[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 25, 49, 109},
                          OUTPUTS[] = {1, 7, 8, 16, 17, 61},
                          COLS[] = {1, 31, 32, 33, 256, 511, 512, 513, 1100};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        for (size_t k = 0; k < ARRAY_LEN(COLS); k++) {
            struct weights w = make_weights(1, &OUTPUTS[(i + k) % ARRAY_LEN(OUTPUTS)], COLS[k]);
            float *x = random_array((size_t)ROWS[i] * COLS[k]);
            check_bits(&w, x, ROWS[i], "any shape");
            unguard(x);
            free_weights(&w);
        }
}

TEST(segments_that_lie_apart_are_one_product) {
    struct weights w = make_weights(3, (uint32_t[]){33, 5, 18}, 640);
    float *x = random_array(14 * 640);
    check_bits(&w, x, 14, "three segments");
    check_bits(&w, x, 2, "three segments");
    unguard(x);
    free_weights(&w);
}

/* Values between two of bf16, the largest there are, what is not finite: a row spoils itself
 * alone. */
TEST(strange_activations_are_rounded_as_defined) {
    enum { ROWS = 6, COLS = 96, OUTPUTS = 5 };
    static const uint32_t BITS[] = {0x3f808000, 0x3f818000, 0x3f808001, 0x3f817fff, 0xbf808000};
    float *x = random_array(ROWS * COLS), got[ROWS * OUTPUTS];
    struct weights w = make_weights(1, (uint32_t[]){OUTPUTS}, COLS);
    memset(x, 0, COLS * sizeof *x);
    for (size_t k = 0; k < COLS; k++)
        memcpy(&x[COLS + k], &BITS[k % ARRAY_LEN(BITS)], 4);
    for (int k = 0; k < COLS; k++)
        x[2 * COLS + k] = ldexpf(x[2 * COLS + k], 100);
    x[4 * COLS + 33] = NAN;
    x[5 * COLS + 64] = INFINITY;
    check_bits(&w, x, 4, "strange activations");
    struct bench b = bench_open(NULL, 1);
    run(&b, &w.m, x, ROWS, got);
    for (int n = 0; n < ROWS * OUTPUTS; n++)
        EXPECT_EQ(isfinite(got[n]) != 0, n < 4 * OUTPUTS);
    bench_close(&b);
    unguard(x);
    free_weights(&w);
}

/* Every variant that this processor runs, whatever a device would choose, against the definition. */
TEST(every_variant_has_the_same_bits) {
    enum { ROWS_MOST = 35, OUTPUTS = 16, COLS = 1056 };
    static const uint32_t ROWS[] = {1, 5, 8, 16, 25, ROWS_MOST};
    struct bench ref = bench_open("ref", 1);
    struct weights w = make_weights(1, (uint32_t[]){OUTPUTS}, COLS);
    float *x = random_array(ROWS_MOST * COLS), *want = guarded(ROWS_MOST * OUTPUTS);
    struct bf16_rows rows = {.stride = bf16_stride(COLS), .cols = COLS};
    rows.data = aligned_alloc(64, rows.stride * ROWS_MOST);
    run(&ref, &w.m, x, ROWS_MOST, want);
    for (size_t i = 0; i < BF16_VARIANT_COUNT; i++)
        for (size_t k = 0; k < ARRAY_LEN(ROWS); k++) {
            const struct bf16_variant *v = BF16_VARIANTS[i].variant;
            struct bf16_product p = {.w = &w.m, .x = rows, .out_stride = OUTPUTS};
            if (BF16_VARIANTS[i].needs & ~cpu_features().bits)
                continue;
            p.out = guarded(ROWS_MOST * OUTPUTS);
            p.x.row_count = ROWS[k];
            for (uint32_t r = 0; r < p.x.row_count; r++)
                v->round(x, &p.x, r);
            v->multiply(&p, 0, OUTPUTS);
            if (!same_bits(p.out, want, p.x.row_count * OUTPUTS) ||
                !guards_intact(p.out, p.x.row_count * OUTPUTS))
                check_fail(__FILE__, __LINE__, "%s, %u rows: other bits", v->name, ROWS[k]);
            unguard(p.out);
        }
    free(rows.data);
    unguard(x);
    unguard(want);
    free_weights(&w);
    bench_close(&ref);
}

/* What a device of the set takes, on this and on other machines. */
TEST(a_set_takes_the_best_variant_that_the_features_allow) {
    const struct {
        enum cpu_isa isa;
        const char *hidden;
        const struct bf16_variant *want;
    } rows[] = {
        {CPU_ISA_REF, "", &bf16_plain},
        {CPU_ISA_SCALAR, "", &bf16_plain},
        {CPU_ISA_NEON, "", &bf16_plain},
#if defined(__x86_64__)
        {CPU_ISA_AVX2, "", &bf16_avx2},
        {CPU_ISA_AVX512, "", &bf16_avx512_bf16},
        {CPU_ISA_AVX512, "-avx512_bf16", &bf16_avx512},
        {CPU_ISA_AMX, "", &bf16_avx512_bf16},
#endif
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cpu_features f = {~(uint64_t)0};
        struct error err;
        EXPECT_EQ(cpu_features_hide(&f, rows[i].hidden, &err), 0);
        EXPECT(bf16_best(rows[i].isa, f) == rows[i].want);
    }
}

/* Rows over several passes of the device's buffer (CPU_PACK_BYTES). */
TEST(passes_do_not_change_bits) {
    enum { ROWS = 260, COLS = 65536 };
    struct weights w = make_weights(1, (uint32_t[]){2}, COLS);
    float *x = random_array((size_t)ROWS * COLS), *alone = guarded(2), *all = guarded(ROWS * 2);
    struct bench b = bench_open(NULL, 2);
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

/* Experts with no rows, one and many: the bits are linear's. */
TEST(experts_have_the_bits_of_linear) {
    enum { EXPERTS = 3, PAIRS = 19, OUTPUTS = 70, COLS = 96 };
    static const uint32_t OFFSETS[EXPERTS + 1] = {0, 1, 1, PAIRS};
    struct weights w[EXPERTS];
    struct matrix experts[EXPERTS];
    float *x = random_array(PAIRS * COLS), *got = guarded(PAIRS * OUTPUTS),
          *want = guarded(PAIRS * OUTPUTS);
    for (int e = 0; e < EXPERTS; e++) {
        w[e] = make_weights(1, (uint32_t[]){OUTPUTS}, COLS);
        experts[e] = w[e].m;
    }
    struct expert_plan plan = {.offsets = (uint32_t *)OFFSETS};
    struct expert_matrix all = {
        .experts = experts, .expert_count = EXPERTS, .rows = OUTPUTS, .cols = COLS};
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 2);
        b.dev->ops->expert_linear(
            b.stream, &(struct op_expert_linear){
                          .out = got, .x = x, .w = &all, .plan = &plan, .rows = PAIRS, .top_k = 1});
        for (int e = 0; e < EXPERTS; e++)
            run(&b, &experts[e], x + OFFSETS[e] * COLS, OFFSETS[e + 1] - OFFSETS[e],
                want + OFFSETS[e] * OUTPUTS);
        if (!same_bits(got, want, PAIRS * OUTPUTS))
            check_fail(__FILE__, __LINE__, "%s: other bits", isa);
        EXPECT(guards_intact(got, PAIRS * OUTPUTS));
        bench_close(&b);
    }
    for (int e = 0; e < EXPERTS; e++)
        free_weights(&w[e]);
    unguard(x);
    unguard(got);
    unguard(want);
}

TEST(a_device_takes_bf16_where_it_was_asked_and_the_matrix_allows_it) {
    struct error err;
    struct device *dev = NULL;
    struct matrix m = {.type = STORAGE_BF16, .rows = 2, .cols = 256, .segment_count = 2};
    m.segments[0] = m.segments[1] = (struct matrix_segment){.rows = 1};
    EXPECT_EQ(device_open(&(struct device_options){.compute = "bf16", .isa = "scalar"}, &dev, &err),
              0);
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_BF16);
    m.segments[1].type = STORAGE_F16;
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_F32);
    m.type = STORAGE_Q8_0;
    m.segments[1].type = STORAGE_NONE;
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_F32);
    device_close(&dev);
    EXPECT_EQ(device_open(&(struct device_options){.compute = "int8"}, &dev, &err), 0);
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_INT8);
    m.type = STORAGE_BF16;
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_F32);
    device_close(&dev);
    if (!cpu_isa_runs(CPU_ISA_AVX512, cpu_features()) || !cpu_has(cpu_features(), CPU_AVX512_BF16))
        return;
    EXPECT_EQ(device_open(&(struct device_options){.compute = "auto", .isa = "avx512"}, &dev, &err),
              0);
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_BF16);
    EXPECT_STR(compute_name(dev->compute), "int8+bf16");
    device_close(&dev);
}
