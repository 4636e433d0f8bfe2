/*
 * Quantized storage types: dequantizing against the Python package gguf
 * (tests/goldens/quant/blocks.bin) and against definitions in double written here; products have
 * the bits of the product with the dequantized f32 matrix, for every instruction set.
 */
#include <stdio.h>

#include "rig.h"

/* ---- blocks ---- */

struct golden {
    enum storage_type type;
    uint32_t count, size, values; /* blocks, bytes and values of each */
    uint8_t *blocks;
    float *decoded;
};

static bool next_golden(FILE *f, struct golden *g, enum storage_type type) {
    uint32_t head[4];
    if (fread(head, 4, 4, f) != 4)
        return false;
    *g = (struct golden){.type = type, .count = head[1], .size = head[2], .values = head[3]};
    g->blocks = malloc((size_t)g->count * g->size);
    g->decoded = malloc((size_t)g->count * g->values * 4);
    return fread(g->blocks, g->size, g->count, f) == g->count &&
           fread(g->decoded, 4 * g->values, g->count, f) == g->count;
}

/* One row a block: through the definition, and through each set's embedding. */
static void check_golden(const struct golden *g) {
    struct matrix m = {.type = g->type, .rows = g->count, .cols = g->values, .segment_count = 1};
    m.segments[0] = (struct matrix_segment){.data = g->blocks, .rows = g->count};
    float *out = guarded((size_t)g->count * g->values);
    uint32_t *ids = calloc(g->count, 4);
    for (uint32_t row = 0; row < g->count; row++) {
        matrix_dequantize(&m, row, 0, g->values, out + (size_t)row * g->values);
        ids[row] = row;
    }
    if (!same_bits(out, g->decoded, (size_t)g->count * g->values))
        check_fail(__FILE__, __LINE__, "%s: the definition decodes other values",
                   storage_name(g->type));
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 1);
        struct step_batch batch = {.row_count = g->count, .ids = ids, .positions = ids};
        memset(out, 0x55, (size_t)g->count * g->values * 4);
        b.dev->ops->embed(b.stream,
                          &(struct op_embed){.out = out, .table = &m, .batch = &batch, .scale = 1});
        if (!same_bits(out, g->decoded, (size_t)g->count * g->values))
            check_fail(__FILE__, __LINE__, "%s %s: embedding decodes other values", isa,
                       storage_name(g->type));
        bench_close(&b);
    }
    free(ids);
    unguard(out);
}

TEST(blocks_decode_as_the_gguf_package_does) {
    FILE *f = fopen(TRIREME_SOURCE_DIR "/tests/goldens/quant/blocks.bin", "rb");
    uint32_t types = 0;
    EXPECT(f);
    for (int type = STORAGE_Q4_0; type < STORAGE_TYPE_COUNT; type++, types++) {
        struct golden g = {0};
        EXPECT(next_golden(f, &g, (enum storage_type)type));
        EXPECT_EQ(g.values, storage_block(g.type));
        EXPECT_EQ(g.size, storage_bytes(g.type, g.values));
        check_golden(&g);
        free(g.blocks);
        free(g.decoded);
    }
    EXPECT_EQ(fgetc(f), EOF);
    EXPECT_EQ(types, 23);
    fclose(f);
}

/* ---- types with scales ---- */

static double e4m3_value(uint8_t b) {
    int exponent = b >> 3 & 15, fraction = b & 7;
    double v = (b & 127) == 127 ? NAN
               : exponent       ? ldexp(8 + fraction, exponent - 10)
                                : ldexp(fraction, -9);
    return b & 128 ? -v : v;
}
static double e5m2_value(uint8_t b) {
    int exponent = b >> 2 & 31, fraction = b & 3;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(4 + fraction, exponent - 17)
                              : ldexp(fraction, -16);
    return b & 128 ? -v : v;
}

TEST(every_fp8_byte_has_its_value) {
    uint8_t bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    for (int kind = 0; kind < 2; kind++) {
        struct matrix m = {.type = kind ? STORAGE_F8_E5M2 : STORAGE_F8_E4M3,
                           .rows = 1,
                           .cols = 256,
                           .segment_count = 1};
        float out[256];
        m.segments[0] = (struct matrix_segment){.data = bytes, .rows = 1, .scale_rows = 1};
        matrix_dequantize(&m, 0, 0, 256, out);
        for (int i = 0; i < 256; i++) {
            double want = kind ? e5m2_value((uint8_t)i) : e4m3_value((uint8_t)i);
            if (isnan(want) ? !isnan(out[i])
                            : (double)out[i] != want || !signbit(out[i]) != !(i & 128))
                check_fail(__FILE__, __LINE__, "kind %d: byte %d is %g, expected %g", kind, i,
                           (double)out[i], want);
        }
    }
}

TEST(narrowing_to_fp8_takes_the_nearest_and_even_among_two) {
    for (int i = 0; i < 126; i++) {
        float low = (float)e4m3_value((uint8_t)i), high = (float)e4m3_value((uint8_t)(i + 1)),
              middle = (low + high) / 2;
        EXPECT_EQ(f32_to_e4m3(low), i);
        EXPECT_EQ(f32_to_e4m3(-low), i | 128);
        EXPECT_EQ(f32_to_e4m3(middle), i % 2 ? i + 1 : i);
        EXPECT_EQ(f32_to_e4m3(nextafterf(middle, high)), i + 1);
        EXPECT_EQ(f32_to_e4m3(nextafterf(middle, low)), i);
    }
    EXPECT_EQ(f32_to_e4m3(448), 126);
    EXPECT_EQ(f32_to_e4m3(1e30f), 126);
    EXPECT_EQ(f32_to_e4m3(-INFINITY), 254);
    EXPECT_EQ(f32_to_e4m3(NAN) & 127, 127);
}

/* Which scale of how many belongs to (row, col). */
struct layout {
    const char *name;
    uint32_t scale_rows, scale_cols; /* as in matrix_segment; 0 cols: one along the row */
    bool groups, zeros;
};
static const struct layout LAYOUTS[] = {
    {"tensor", 1 << 20, 0, false, false}, {"channel", 1, 0, false, false},
    {"blocks", 128, 128, false, false},   {"groups", 1, 32, false, true},
    {"groups of 24", 1, 24, false, true}, {"order", 1, 32, true, true},
    {"flat", 0, 64, false, false}};
static const enum storage_type SCALED[] = {STORAGE_F8_E4M3, STORAGE_F8_E5M2, STORAGE_I8,
                                           STORAGE_U8,      STORAGE_U4,      STORAGE_NF4};

struct scaled {
    struct matrix m;
    uint8_t *data;
    float *scales, *zeros;
    uint32_t *groups;
    float *dense; /* [rows, cols] by the definition in double */
};

static double stored_value(enum storage_type type, const uint8_t *data, size_t i) {
    static const double NF4[] = {-1.0,
                                 -0.6961928009986877,
                                 -0.5250730514526367,
                                 -0.39491748809814453,
                                 -0.28444138169288635,
                                 -0.18477343022823334,
                                 -0.09105003625154495,
                                 0.0,
                                 0.07958029955625534,
                                 0.16093020141124725,
                                 0.24611230194568634,
                                 0.33791524171829224,
                                 0.44070982933044434,
                                 0.5626170039176941,
                                 0.7229568362236023,
                                 1.0};
    switch (type) {
    case STORAGE_F8_E4M3: return e4m3_value(data[i]);
    case STORAGE_F8_E5M2: return e5m2_value(data[i]);
    case STORAGE_I8: return (int8_t)data[i];
    case STORAGE_U8: return data[i];
    case STORAGE_U4: return i % 2 ? data[i / 2] / 16 : data[i / 2] % 16;
    default: return NF4[i % 2 ? data[i / 2] % 16 : data[i / 2] / 16];
    }
}

static struct scaled make_scaled(enum storage_type type, const struct layout *l, uint32_t rows,
                                 uint32_t cols) {
    struct scaled s = {.m = {.type = type, .rows = rows, .cols = cols, .segment_count = 1}};
    size_t count = (size_t)rows * cols,
           stride = l->scale_cols ? (cols + l->scale_cols - 1) / l->scale_cols : 1,
           places = l->scale_rows ? (rows + l->scale_rows - 1) / l->scale_rows * stride
                                  : count / l->scale_cols + 1;
    s.data = malloc(count);
    /* no NaN, no infinity */
    bool fp8 = type == STORAGE_F8_E4M3 || type == STORAGE_F8_E5M2;
    for (size_t i = 0; i < count; i++)
        s.data[i] = (uint8_t)(check_random() & (fp8 ? 0xf7 : 0xff));
    s.scales = random_array(places);
    s.zeros = random_array(places);
    for (size_t i = 0; i < places; i++)
        s.zeros[i] = (float)(check_random() % 16);
    s.groups = calloc(cols, 4);
    for (uint32_t k = 0; k < cols; k++)
        s.groups[k] = (uint32_t)(check_random() % stride);
    s.m.segments[0] = (struct matrix_segment){.data = s.data,
                                              .rows = rows,
                                              .scale_rows = l->scale_rows,
                                              .scale_cols = l->scale_cols,
                                              .scale_stride = (uint32_t)stride,
                                              .zero = l->zeros ? 99 : 3,
                                              .scales = s.scales,
                                              .zeros = l->zeros ? s.zeros : NULL,
                                              .groups = l->groups ? s.groups : NULL};
    s.dense = guarded(count);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < cols; k++) {
            size_t i = (size_t)r * cols + k,
                   at = !l->scale_rows
                            ? i / l->scale_cols
                            : r / l->scale_rows * stride + (l->groups       ? s.groups[k]
                                                            : l->scale_cols ? k / l->scale_cols
                                                                            : 0);
            /* The difference is rounded only for NF4 and fp8, which have no zeros in any file. */
            float difference =
                (float)(stored_value(type, s.data, i) - (l->zeros ? (double)s.zeros[at] : 3.0));
            s.dense[i] = (float)((double)difference * s.scales[at]);
        }
    return s;
}

static void free_scaled(struct scaled *s) {
    free(s->data);
    free(s->groups);
    unguard(s->scales);
    unguard(s->zeros);
    unguard(s->dense);
}

TEST(scaled_types_decode_to_stored_minus_zero_times_scale) {
    for (size_t t = 0; t < ARRAY_LEN(SCALED); t++)
        for (size_t l = 0; l < ARRAY_LEN(LAYOUTS); l++) {
            struct scaled s = make_scaled(SCALED[t], &LAYOUTS[l], 130, 160);
            float out[160];
            for (uint32_t r = 0; r < s.m.rows; r++) {
                matrix_dequantize(&s.m, r, 0, 160, out);
                matrix_dequantize(&s.m, r, 32, 64, out + 32); /* from the middle */
                if (!same_bits(out, s.dense + (size_t)r * 160, 160))
                    check_fail(__FILE__, __LINE__, "%s by %s: row %u is wrong",
                               storage_name(SCALED[t]), LAYOUTS[l].name, r);
            }
            free_scaled(&s);
        }
}

/* ---- products ---- */

static float *product(const char *isa, const struct matrix *m, const float *x, uint32_t rows) {
    struct bench b = bench_open(isa, 2);
    float *out = guarded((size_t)rows * m->rows);
    b.dev->ops->linear(
        b.stream,
        &(struct op_linear){
            .out = out, .x = x, .w = m, .rows = rows, .class_rows = rows, .out_stride = m->rows});
    if (!guards_intact(out, (size_t)rows * m->rows))
        check_fail(__FILE__, __LINE__, "%s %s: wrote outside its output", isa,
                   storage_name(m->type));
    bench_close(&b);
    return out;
}

static void check_product(const struct matrix *m, const float *dense, const char *what) {
    static const uint32_t ROWS[] = {1, 2, 3, 4, 6, 8, 13, 23, 110};
    struct matrix plain = {
        .type = STORAGE_F32, .rows = m->rows, .cols = m->cols, .segment_count = 1, .bias = m->bias};
    plain.segments[0] = (struct matrix_segment){.data = dense, .rows = m->rows};
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        float *x = random_array((size_t)ROWS[i] * m->cols), *got = product(isa, m, x, ROWS[i]),
              *want = product(isa, &plain, x, ROWS[i]);
        if (!same_bits(got, want, (size_t)ROWS[i] * m->rows))
            check_fail(__FILE__, __LINE__,
                       "%s %s %s, %u rows: not the product with the dequantized matrix", isa,
                       storage_name(m->type), what, ROWS[i]);
        unguard(x);
        unguard(got);
        unguard(want);
    }
}

TEST(scaled_products_are_those_of_the_decoded_matrix) {
    for (size_t t = 0; t < ARRAY_LEN(SCALED); t++)
        for (size_t l = 0; l < ARRAY_LEN(LAYOUTS); l++) {
            struct scaled s = make_scaled(SCALED[t], &LAYOUTS[l], 37, 160),
                          wide = make_scaled(SCALED[t], &LAYOUTS[l], 24, 512);
            check_product(&s.m, s.dense, LAYOUTS[l].name);
            check_product(&wide.m, wide.dense, LAYOUTS[l].name);
            free_scaled(&s);
            free_scaled(&wide);
        }
}

static void decode_all(struct scaled *s) {
    for (uint32_t n = 0; n < s->m.rows; n++)
        matrix_dequantize(&s->m, n, 0, s->m.cols, s->dense + (size_t)n * s->m.cols);
}

/* `at` is a weight of output `alone`: no other output changes where it is NaN. */
static void check_nan(const struct matrix *m, uint8_t *at, uint32_t alone) {
    uint8_t before = *at;
    FOR_EACH_ISA(isa)
    for (uint32_t rows = 1; rows <= 6; rows++) {
        float *x = random_array((size_t)rows * m->cols), *whole = product(isa, m, x, rows);
        for (int sign = 0; sign < 256; sign += 128) {
            *at = (uint8_t)(sign | 127);
            float *got = product(isa, m, x, rows);
            for (uint32_t i = 0; i < rows * m->rows; i++)
                if (i % m->rows == alone ? !isnan(got[i]) : !same_bits(&got[i], &whole[i], 1))
                    check_fail(__FILE__, __LINE__, "%s, %u rows: output %u is %g", isa, rows, i,
                               (double)got[i]);
            unguard(got);
        }
        *at = before;
        unguard(x);
        unguard(whole);
    }
}

/* Each byte of e4m3, and a scale that is almost too large. */
TEST(products_of_fp8_take_every_byte) {
    static const struct layout FP8[] = {{"channel", 1, 0, false, false},
                                        {"blocks", 128, 128, false, false},
                                        {"groups", 1, 32, false, false}};
    enum { OUTPUTS = 24, COLS = 384, ALONE = 9 };
    for (size_t l = 0; l < ARRAY_LEN(FP8); l++) {
        struct scaled s = make_scaled(STORAGE_F8_E4M3, &FP8[l], OUTPUTS, COLS);
        s.m.segments[0].zero = 0;
        for (size_t i = 0; i < (size_t)OUTPUTS * COLS; i++) {
            s.data[i] = (uint8_t)(i * 37 + i / COLS);
            if ((s.data[i] & 127) == 127)
                s.data[i] ^= 1;
        }
        decode_all(&s);
        check_product(&s.m, s.dense, FP8[l].name);
        check_nan(&s.m, s.data + ALONE * COLS + 77, ALONE);
        memset(s.data, 1, (size_t)OUTPUTS * COLS);
        s.scales[0] = 0x1.8p127f;
        decode_all(&s);
        check_product(&s.m, s.dense, "a large scale");
        free_scaled(&s);
    }
}

/* Three segments with bias, wide enough for several blocks of the dequantizing loop, from the
 * goldens' blocks. */
TEST(block_products_are_those_of_the_decoded_matrix) {
    FILE *f = fopen(TRIREME_SOURCE_DIR "/tests/goldens/quant/blocks.bin", "rb");
    EXPECT(f);
    for (int type = STORAGE_Q4_0; type < STORAGE_TYPE_COUNT; type++) {
        struct golden g = {0};
        EXPECT(next_golden(f, &g, (enum storage_type)type));
        uint32_t rows = 21, cols = 1280, blocks = cols / g.values;
        uint8_t *data = malloc((size_t)rows * blocks * g.size);
        float *dense = guarded((size_t)rows * cols), *bias = random_array(rows);
        for (size_t i = 0; i < (size_t)rows * blocks; i++) {
            size_t pick = check_random() % g.count;
            memcpy(data + i * g.size, g.blocks + pick * g.size, g.size);
            memcpy(dense + i * g.values, g.decoded + pick * g.values, g.values * sizeof *dense);
        }
        struct matrix m = {
            .type = g.type, .rows = rows, .cols = cols, .segment_count = 3, .bias = bias};
        uint32_t cuts[4] = {0, 10, 11, rows};
        for (int i = 0; i < 3; i++)
            m.segments[i] = (struct matrix_segment){
                .data = data + (size_t)cuts[i] * blocks * g.size, .rows = cuts[i + 1] - cuts[i]};
        check_product(&m, dense, "blocks");
        free(data);
        unguard(dense);
        unguard(bias);
        free(g.blocks);
        free(g.decoded);
    }
    fclose(f);
}

/* As a file that stores V finer than Q and K: segments of three types are one product. */
TEST(segments_may_differ_in_type) {
    struct scaled a = make_scaled(STORAGE_U4, &LAYOUTS[3], 21, 160),
                  b = make_scaled(STORAGE_I8, &LAYOUTS[1], 6, 160);
    float *dense = guarded(32 * 160), *plain = random_array(5 * 160);
    struct matrix m = {.type = STORAGE_U4, .rows = 32, .cols = 160, .segment_count = 3};
    m.segments[0] = a.m.segments[0];
    m.segments[1] = b.m.segments[0];
    m.segments[1].type = STORAGE_I8;
    m.segments[2] = (struct matrix_segment){.data = plain, .rows = 5, .type = STORAGE_F32};
    memcpy(dense, a.dense, 21 * 160 * 4);
    memcpy(dense + 21 * 160, b.dense, 6 * 160 * 4);
    memcpy(dense + 27 * 160, plain, 5 * 160 * 4);
    check_product(&m, dense, "mixed");
    m.type = STORAGE_F32;
    m.segments[0].type = STORAGE_U4;
    check_product(&m, dense, "mixed, the last first");
    unguard(dense);
    unguard(plain);
    free_scaled(&a);
    free_scaled(&b);
}

/* The definition sums in double; f32 chains of at least 4 lanes stay within what ops.h promises. */
TEST(the_definition_takes_every_type) {
    struct scaled s = make_scaled(STORAGE_U4, &LAYOUTS[3], 9, 160);
    float *x = random_array(3 * 160), *got = product("ref", &s.m, x, 3);
    for (uint32_t t = 0; t < 3; t++)
        for (uint32_t n = 0; n < 9; n++) {
            double sum = 0;
            for (uint32_t k = 0; k < 160; k++)
                sum += (double)x[t * 160 + k] * s.dense[n * 160 + k];
            EXPECT(got[t * 9 + n] == (float)sum);
        }
    unguard(x);
    unguard(got);
    free_scaled(&s);
}
