/*
 * Products with activations of 8 bits (kernels/integers.h): the definition against the dequantized
 * matrix in double, with the error it may have; then every instruction set and variant, packed or
 * not, at any number of rows, has the definition's bits.
 */
#include <stdio.h>

#include "kernels/cpu/int8.h"
#include "weights_rig.h"

static const enum storage_type BLOCKS[] = {
    STORAGE_Q4_0,   STORAGE_Q4_1, STORAGE_Q5_0, STORAGE_Q5_1,  STORAGE_Q8_0,
    STORAGE_Q4_K,   STORAGE_Q5_K, STORAGE_Q6_K, STORAGE_MXFP4, STORAGE_IQ4_NL,
    STORAGE_IQ4_XS, STORAGE_U4,   STORAGE_I8};

/* A segment of random blocks: any byte, with scales that are small and finite. */

static void put_half(uint8_t *at) {
    uint16_t half = f32_to_f16(random_value() * 0.01f);
    memcpy(at, &half, 2);
}
static void fill_blocks(enum storage_type type, uint8_t *data, size_t size) {
    size_t block = storage_bytes(type, storage_block(type));
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)check_random();
    for (size_t at = 0; at < size; at += block)
        switch (type) {
        case STORAGE_Q6_K: put_half(data + at + 208); break;
        case STORAGE_MXFP4: data[at] = (uint8_t)(110 + check_random() % 20); break;
        case STORAGE_Q4_1:
        case STORAGE_Q5_1:
        case STORAGE_Q4_K:
        case STORAGE_Q5_K: put_half(data + at + 2); /* fall through */
        default: put_half(data + at);
        }
}

static void make_segment(struct weights *w, uint32_t i, enum storage_type type, uint32_t rows) {
    struct matrix_segment *p = &w->m.segments[i];
    size_t size = storage_bytes(type, w->m.cols) * rows;
    w->data[i] = malloc(size);
    *p = (struct matrix_segment){.data = w->data[i], .rows = rows, .type = type};
    if (!storage_is_scaled(type)) {
        fill_blocks(type, w->data[i], size);
        return;
    }
    for (size_t k = 0; k < size; k++)
        w->data[i][k] = (uint8_t)check_random();
    p->scale_rows = 1;
    p->scale_cols = type == STORAGE_U4 ? 32 : 0;
    p->scale_stride = type == STORAGE_U4 ? w->m.cols / 32 : 1;
    p->scales = w->scales[i] = random_array((size_t)rows * p->scale_stride);
    if (type == STORAGE_U4)
        p->zeros = w->zeros[i] = random_array((size_t)rows * p->scale_stride);
}

/* `segments` segments of these types, by turns. */
static struct weights make_weights(const enum storage_type *types, uint32_t segments,
                                   const uint32_t *rows, uint32_t cols) {
    struct weights w = {
        .m = {.type = types[0], .compute = COMPUTE_INT8, .cols = cols, .segment_count = segments}};
    for (uint32_t i = 0; i < segments; i++) {
        make_segment(&w, i, types[i], rows[i]);
        w.m.rows += rows[i];
    }
    w.m.bias = w.bias = random_array(w.m.rows);
    return w;
}

/* What the definition may be away from the exact product (kernels/integers.h): half a step of each
 * quantized value, and 2 roundings of each of the block's at most 4 f32 terms, whose sizes are
 * bounded by the integers' (values are up to 255 apart from their minimum). */
static double tolerance(const struct matrix *m, const struct matrix_segment *p, uint32_t row,
                        const float *x) {
    double steps = 0, terms = 0;
    for (uint32_t b = 0; b < m->cols / 32; b++) {
        struct integer_block w;
        struct int8_scale s;
        int8_t q[32];
        segment_integers(m, p, row, b, &w);
        quantize_block(x + 32 * b, q, &s);
        for (uint32_t i = 0; i < 32; i++) {
            double scale = w.scale[i / w.span], least = w.minimum;
            steps += fabs((double)s.d) * 0.5000001 * fabs(scale * w.values[i] - least);
            terms += fabs((double)s.d * q[i]) * (fabs(scale * w.values[i]) + fabs(least));
        }
    }
    return steps + UNIT_ROUNDOFF * terms * (4.0 * m->cols / 32 + 4);
}

TEST(the_definition_is_the_product_within_half_a_step_of_each_activation) {
    struct bench ref = bench_open("ref", 1);
    for (size_t t = 0; t < ARRAY_LEN(BLOCKS); t++) {
        enum { ROWS = 3, OUTPUTS = 7, COLS = 512 };
        struct weights w = make_weights(&BLOCKS[t], 1, (uint32_t[]){OUTPUTS}, COLS);
        float *x = random_array(ROWS * COLS), *got = guarded(ROWS * OUTPUTS);
        run(&ref, &w.m, x, ROWS, got);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t n = 0; n < OUTPUTS; n++) {
                float row[COLS];
                double want = (double)w.bias[n],
                       bound = tolerance(&w.m, w.m.segments, n, x + r * COLS);
                matrix_dequantize(&w.m, n, 0, COLS, row);
                for (uint32_t k = 0; k < COLS; k++)
                    want += (double)row[k] * x[r * COLS + k];
                double error = fabs((double)got[r * OUTPUTS + n] - want);
                if (!(error <= bound + UNIT_ROUNDOFF * fabs(want)))
                    check_fail(__FILE__, __LINE__, "%s: row %u, output %u is %g away from %g (%g)",
                               storage_name(BLOCKS[t]), r, n, error, want, bound);
            }
        EXPECT(guards_intact(got, ROWS * OUTPUTS));
        unguard(x);
        unguard(got);
        free_weights(&w);
    }
    bench_close(&ref);
}

/* Every set, on weights as they lie and packed, against the definition's bits. */
static void check_bits(struct weights *w, const float *x, uint32_t rows, const char *what) {
    size_t count = (size_t)rows * w->m.rows;
    float *want = guarded(count), *got = guarded(count);
    struct bench ref = bench_open("ref", 1);
    run(&ref, &w->m, x, rows, want);
    bench_close(&ref);
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 2);
        for (int packed = 0; packed < 2; packed++) {
            if (packed)
                pack_segments(&b, w);
            for (size_t i = 0; i < count; i++)
                memcpy(&got[i], &GUARD_BITS, 4);
            run(&b, &w->m, x, rows, got);
            if (!guards_intact(got, count))
                check_fail(__FILE__, __LINE__, "%s %s: wrote outside its output", isa, what);
            if (!same_bits(got, want, count))
                check_fail(__FILE__, __LINE__,
                           "%s %s, %u rows x [%u, %u]%s: other bits than the "
                           "definition's",
                           isa, what, rows, w->m.rows, w->m.cols, packed ? ", packed" : "");
        }
        unpack_segments(w);
        bench_close(&b);
    }
    unguard(want);
    unguard(got);
}

TEST(every_set_has_the_definitions_bits_at_any_shape) {
    static const uint32_t ROWS[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 131},
                          OUTPUTS[] = {1, 7, 15, 16, 17, 61}, BLOCK_COUNTS[] = {1, 3, 16, 17};
    for (size_t t = 0; t < ARRAY_LEN(BLOCKS); t++)
        for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
            uint32_t block = MAX(storage_block(BLOCKS[t]), 32u),
                     cols = block * (block == 256 ? 1 + i % 3 : BLOCK_COUNTS[i % 4]);
            struct weights w =
                make_weights(&BLOCKS[t], 1, &OUTPUTS[(i + t) % ARRAY_LEN(OUTPUTS)], cols);
            float *x = random_array((size_t)ROWS[i] * cols);
            check_bits(&w, x, ROWS[i], storage_name(BLOCKS[t]));
            unguard(x);
            free_weights(&w);
        }
}

/* The largest sums there are: every activation becomes 127 or -127, every byte of a weight is one
 * that gives its largest or its least integer, so intermediate sums of 16 bits are at their edge. */
TEST(sums_are_exact_at_their_largest) {
    static const uint8_t BYTES[] = {0xff, 0x7f, 0x80, 0x00};
    for (size_t t = 0; t < ARRAY_LEN(BLOCKS); t++)
        for (size_t i = 0; i < ARRAY_LEN(BYTES); i++) {
            enum { ROWS = 5, OUTPUTS = 16, COLS = 256 };
            struct weights w = make_weights(&BLOCKS[t], 1, (uint32_t[]){OUTPUTS}, COLS);
            size_t block = storage_bytes(BLOCKS[t], storage_block(BLOCKS[t])),
                   size = storage_bytes(BLOCKS[t], COLS) * OUTPUTS;
            float *x = guarded(ROWS * COLS);
            memset(w.data[0], BYTES[i], size);
            for (size_t at = 0; at < size && !storage_is_scaled(BLOCKS[t]); at += block) {
                put_half(w.data[0] + at + (BLOCKS[t] == STORAGE_Q6_K ? 208 : 0));
                if (BLOCKS[t] == STORAGE_Q4_K || BLOCKS[t] == STORAGE_Q5_K ||
                    BLOCKS[t] == STORAGE_Q4_1 || BLOCKS[t] == STORAGE_Q5_1)
                    put_half(w.data[0] + at + 2);
                if (BLOCKS[t] == STORAGE_MXFP4)
                    w.data[0][at] = 120;
            }
            for (uint32_t k = 0; k < ROWS * COLS; k++)
                x[k] = k / COLS % 2 ? -3 : 3;
            check_bits(&w, x, ROWS, storage_name(BLOCKS[t]));
            unguard(x);
            free_weights(&w);
        }
}

TEST(segments_of_several_types_are_one_product) {
    static const enum storage_type types[] = {STORAGE_Q4_K, STORAGE_Q6_K, STORAGE_Q8_0};
    struct weights w = make_weights(types, 3, (uint32_t[]){33, 5, 18}, 768);
    float *x = random_array(6 * 768);
    check_bits(&w, x, 6, "three types");
    unguard(x);
    free_weights(&w);
}

/* Zeros, tiny and huge values, an outlier of each sign; a block that is not finite spoils its own
 * row alone. */
TEST(strange_activations_are_quantized_as_defined) {
    enum { ROWS = 6, COLS = 96 };
    float *x = random_array(ROWS * COLS), got[ROWS * 5];
    struct weights w = make_weights(BLOCKS, 1, (uint32_t[]){5}, COLS);
    memset(x, 0, COLS * sizeof *x);
    for (int k = 0; k < COLS; k++)
        x[COLS + k] = ldexpf(x[COLS + k], -130);
    for (int k = 0; k < COLS; k++)
        x[2 * COLS + k] = ldexpf(x[2 * COLS + k], 100);
    x[3 * COLS + 7] = 1e30f;
    x[3 * COLS + 40] = -1e30f;
    x[4 * COLS + 33] = NAN;
    x[5 * COLS + 64] = INFINITY;
    check_bits(&w, x, ROWS, "strange activations");
    struct bench b = bench_open(NULL, 1);
    run(&b, &w.m, x, ROWS, got);
    for (int n = 0; n < ROWS * 5; n++)
        EXPECT_EQ(isfinite(got[n]) != 0, n < 20);
    bench_close(&b);
    unguard(x);
    free_weights(&w);
}

/* Every variant that this processor runs, whatever a device would choose, against the definition. */
TEST(every_variant_has_the_same_bits) {
    static const uint32_t ROWS[] = {1, 2, 3, 4, 5, 7, 8, 10, 11, 16, 19, 35};
    enum { IN_PLACE, PACKED, IN_ORDER, HOWS };
    static const char *const NAMES[HOWS] = {"", ", packed", ", packed, in order"};
    struct bench ref = bench_open("ref", 1);
    for (size_t t = 0; t < ARRAY_LEN(BLOCKS); t++) {
        enum { ROWS_MOST = 35, OUTPUTS = 37, COLS = 768 };
        struct weights w = make_weights(&BLOCKS[t], 1, (uint32_t[]){OUTPUTS}, COLS);
        float *x = random_array(ROWS_MOST * COLS), *want = guarded(ROWS_MOST * OUTPUTS);
        struct int8_rows rows = {.stride = int8_stride(COLS), .cols = COLS};
        rows.data = aligned_alloc(64, (rows.stride * (ROWS_MOST + INT8_SPARE_ROWS) + 63) / 64 * 64);
        run(&ref, &w.m, x, ROWS_MOST, want);
        for (size_t i = 0; i < INT8_VARIANT_COUNT; i++) {
            const struct int8_variant *v = INT8_VARIANTS[i].variant;
            if (INT8_VARIANTS[i].needs & ~cpu_features().bits)
                continue;
            for (size_t k = 0; k < HOWS * ARRAY_LEN(ROWS); k++) {
                float *got = guarded(ROWS_MOST * OUTPUTS);
                struct int8_product p = {.w = &w.m,
                                         .x = rows,
                                         .out = got,
                                         .out_stride = OUTPUTS,
                                         .in_order = k % HOWS == IN_ORDER};
                size_t panel = int8_panel_bytes(v, &w.m, w.m.segments);
                uint8_t *packed =
                    aligned_alloc(64, (panel * int8_panels(v, w.m.segments) + 63) / 64 * 64);
                p.x.row_count = ROWS[k / HOWS];
                memset(rows.data, 0x7f, rows.stride * (ROWS_MOST + INT8_SPARE_ROWS));
                for (uint32_t r = 0; r < p.x.row_count; r++)
                    v->quantize(x, &p.x, r);
                for (uint32_t n = 0; n < int8_panels(v, w.m.segments); n++)
                    v->pack(&w.m, 0, n, packed + n * panel);
                w.m.segments[0].packed = k % HOWS == IN_PLACE ? NULL : packed;
                for (uint32_t n = 0; n < int8_panels(v, w.m.segments); n++)
                    v->multiply(&p, 0, n);
                w.m.segments[0].packed = NULL;
                if (!same_bits(got, want, p.x.row_count * OUTPUTS) ||
                    !guards_intact(got, p.x.row_count * OUTPUTS))
                    check_fail(__FILE__, __LINE__, "%s, %s, %u rows%s: other bits", v->name,
                               storage_name(BLOCKS[t]), p.x.row_count, NAMES[k % HOWS]);
                free(packed);
                unguard(got);
            }
        }
        free(rows.data);
        unguard(x);
        unguard(want);
        free_weights(&w);
    }
    bench_close(&ref);
}

/* What a device of the set takes, on this and on other machines. */
TEST(a_set_takes_the_best_variant_that_the_features_allow) {
    const struct {
        enum cpu_isa isa;
        const char *hidden;
        const struct int8_variant *want;
    } rows[] = {
        {CPU_ISA_REF, "", &int8_plain},
        {CPU_ISA_SCALAR, "", &int8_plain},
        {CPU_ISA_NEON, "", &int8_plain},
#if defined(__x86_64__)
        {CPU_ISA_AVX2, "", &int8_avx_vnni},
        {CPU_ISA_AVX2, "-avx_vnni", &int8_avx2},
        {CPU_ISA_AVX512, "", &int8_vnni},
        {CPU_ISA_AVX512, "-avx512_vnni", &int8_avx512},
        {CPU_ISA_AMX, "", &int8_amx},
        {CPU_ISA_AMX, "-amx_int8", &int8_vnni},
        {CPU_ISA_AMX, "-amx_int8,-avx512_vnni", &int8_avx512},
#endif
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cpu_features f = {~(uint64_t)0};
        struct error err;
        EXPECT_EQ(cpu_features_hide(&f, rows[i].hidden, &err), 0);
        EXPECT(int8_best(rows[i].isa, f) == rows[i].want);
    }
}

/* Rows over several passes of the device's buffer (CPU_PACK_BYTES). */
TEST(passes_do_not_change_bits) {
    enum { ROWS = 260, COLS = 65536 };
    struct weights w = make_weights(BLOCKS, 1, (uint32_t[]){2}, COLS);
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

/* Experts of two segments, so many panels that a thread's runs of them begin and end within both. */
TEST(experts_have_the_bits_of_each_alone) {
    enum { EXPERTS = 4, PAIRS = 44, OUTPUTS = 420, COLS = 64 };
    static const uint32_t offsets[EXPERTS + 1] = {0, 1, 1, 6, PAIRS};
    static const enum storage_type types[] = {STORAGE_Q4_0, STORAGE_Q8_0};
    struct weights w[EXPERTS];
    struct matrix experts[EXPERTS];
    float *x = random_array(PAIRS * COLS), *got = guarded(PAIRS * OUTPUTS),
          *want = guarded(PAIRS * OUTPUTS);
    for (int e = 0; e < EXPERTS; e++) {
        w[e] = make_weights(types, 2, (uint32_t[]){305, OUTPUTS - 305}, COLS);
        experts[e] = w[e].m;
    }
    struct expert_plan plan = {.offsets = (uint32_t *)offsets};
    struct expert_matrix all = {
        .experts = experts, .expert_count = EXPERTS, .rows = OUTPUTS, .cols = COLS};
    FOR_EACH_ISA(isa)
    for (int threads = 1; threads <= 3; threads += 2) {
        struct bench b = bench_open(isa, threads);
        for (int e = 0; e < EXPERTS; e++)
            run(&b, &experts[e], x + offsets[e] * COLS, offsets[e + 1] - offsets[e],
                want + offsets[e] * OUTPUTS);
        memset(got, 0xff, PAIRS * OUTPUTS * sizeof *got);
        b.dev->ops->expert_linear(
            b.stream, &(struct op_expert_linear){
                          .out = got, .x = x, .w = &all, .plan = &plan, .rows = PAIRS, .top_k = 1});
        EXPECT(same_bits(got, want, PAIRS * OUTPUTS));
        EXPECT(guards_intact(got, PAIRS * OUTPUTS));
        bench_close(&b);
    }
    for (int e = 0; e < EXPERTS; e++)
        free_weights(&w[e]);
    unguard(x);
    unguard(got);
    unguard(want);
}

TEST(a_device_takes_int8_where_it_was_asked_and_the_matrix_allows_it) {
    struct error err;
    struct device *dev = NULL;
    struct matrix m = {.type = STORAGE_Q4_K, .rows = 1, .cols = 256, .segment_count = 2};
    m.segments[0] = (struct matrix_segment){.rows = 1, .type = STORAGE_Q4_K};
    m.segments[1] = (struct matrix_segment){.rows = 1, .type = STORAGE_Q6_K};
    EXPECT_EQ(device_open(&(struct device_options){.compute = "int7"}, &dev, &err),
              ERR_UNSUPPORTED);
    EXPECT_EQ(device_open(&(struct device_options){.compute = "int8"}, &dev, &err), 0);
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_INT8);
    m.segments[1].type = STORAGE_F16;
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_F32);
    device_close(&dev);
    m.segments[1].type = STORAGE_Q6_K;
    EXPECT_EQ(device_open(&(struct device_options){0}, &dev, &err), 0);
    EXPECT_EQ(device_compute(dev, &m), COMPUTE_F32);
    device_close(&dev);
    /* by itself where its vectors are wide; with tiles: test_group_product.c */
    const char *isas[CPU_ISAS_MAX];
    size_t count = device_cpu_isas(isas);
    for (size_t i = 0; i < count; i++) {
        struct device_options options = {.compute = "auto", .isa = isas[i]};
        if (strncmp(isas[i], "avx", 3))
            continue;
        EXPECT_EQ(device_open(&options, &dev, &err), 0);
        EXPECT_EQ(device_compute(dev, &m), COMPUTE_INT8);
        device_close(&dev);
    }
}
