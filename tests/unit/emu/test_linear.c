/* linear on the emulated device: against the scalar definition over the sweep, and bits against row
 * count, neighbours and thread order. */
#include "rig.h"

struct shape {
    enum storage_type act, weights;
    uint32_t rows, class_rows, features, cols, extra; /* extra: of out_stride */
    bool bias, out_f32;
    uint32_t segments;
    bool packed; /* weights in the order of the device's kernels, where it has one */
};

/* As the loader does it; false: the device has no such order for this matrix. */
static bool pack(struct rig *r, struct matrix *m) {
    bool all = true;
    for (uint32_t i = 0; i < m->segment_count; i++) {
        size_t size = r->dev->ops->packed_bytes(r->dev, m, i);
        void *packed = size == PACKED_IN_PLACE ? (void *)m->segments[i].data
                       : size                  ? rig_alloc(r, size)
                                               : NULL;
        if (packed)
            r->dev->ops->pack(r->stream, m, i, packed);
        m->segments[i].packed = packed;
        all = all && packed;
    }
    return all;
}

struct inputs {
    float *x, *w, *bias;
};
static struct inputs make_inputs(const struct shape *s) {
    return (struct inputs){random_values((size_t)s->rows * s->cols),
                           random_values((size_t)s->features * s->cols),
                           random_values(s->features)};
}
static void free_inputs(struct inputs *in) {
    free(in->x);
    free(in->w);
    free(in->bias);
}

/* [rows, features], what lies between checked to be untouched. Rounds the inputs to their types. */
static float *run(const struct shape *s, struct inputs *in) {
    struct rig r = rig_open(s->act);
    uint32_t stride = s->features + s->extra,
             first = s->segments > 1 ? s->features / 2 : s->features;
    enum storage_type out_type = s->out_f32 ? STORAGE_F32 : s->act;
    void *x = rig_values(&r, s->act, in->x, (size_t)s->rows * s->cols);
    struct matrix m = {
        .type = s->weights, .rows = s->features, .cols = s->cols, .segment_count = s->segments};
    m.segments[0] = (struct matrix_segment){
        .data = rig_values(&r, s->weights, in->w, (size_t)first * s->cols), .rows = first};
    if (s->segments > 1)
        m.segments[1] = (struct matrix_segment){
            .data = rig_values(&r, s->weights, in->w + (size_t)first * s->cols,
                               (size_t)(s->features - first) * s->cols),
            .rows = s->features - first};
    m.bias = s->bias ? rig_values(&r, STORAGE_F32, in->bias, s->features) : NULL;
    if (s->packed && !pack(&r, &m))
        check_fail(__FILE__, __LINE__, "[%u, %u] cannot be packed", s->features, s->cols);
    size_t out_count = (size_t)s->rows * stride;
    void *out = rig_alloc(&r, storage_bytes(out_type, out_count));
    r.dev->ops->linear(r.stream, &(struct op_linear){.out = out,
                                                     .x = x,
                                                     .w = &m,
                                                     .rows = s->rows,
                                                     .class_rows = s->class_rows,
                                                     .out_stride = stride,
                                                     .out_f32 = s->out_f32});
    float *all = rig_down(&r, out_type, out, out_count),
          *dense = calloc((size_t)s->rows * s->features + 1, 4);
    for (size_t i = 0; i < out_count; i++) {
        if (i % stride < s->features)
            dense[i / stride * s->features + i % stride] = all[i];
        else if (!isnan(all[i]))
            check_fail(__FILE__, __LINE__, "linear wrote between rows");
    }
    free(all);
    rig_close(&r);
    return dense;
}

static void check_shape(const struct shape *s) {
    struct inputs in = make_inputs(s);
    float *first = NULL, *want = calloc((size_t)s->rows * s->features + 1, 4);
    for (int order = 0; order < ORDERS; order++) {
        emu_set_order(order, 5);
        float *got = run(s, &in);
        if (order && !same_bits(got, first, (size_t)s->rows * s->features))
            check_fail(__FILE__, __LINE__,
                       "rows %u, features %u, cols %u: bits depend on the order of threads",
                       s->rows, s->features, s->cols);
        if (order)
            free(got);
        else
            first = got;
    }
    emu_set_order(0, 1);
    for (uint32_t t = 0; t < s->rows; t++)
        for (uint32_t n = 0; n < s->features; n++) {
            double sum = s->bias ? in.bias[n] : 0, size = fabs(sum);
            for (uint32_t k = 0; k < s->cols; k++) {
                double term = (double)in.x[(size_t)t * s->cols + k] * in.w[(size_t)n * s->cols + k];
                sum += term;
                size += fabs(term);
            }
            enum storage_type out_type = s->out_f32 ? STORAGE_F32 : s->act;
            double tolerance = 2 * UNIT_ROUNDOFF * size * (s->cols + 2) +
                               rounding(out_type) * fabs(sum) * 1.01 + rounding_floor(out_type);
            double got = first[(size_t)t * s->features + n];
            if (!(fabs(got - sum) <= tolerance)) {
                check_fail(__FILE__, __LINE__,
                           "act %s, weights %s, [%u of %u, %u, %u]: (%u, %u) is %g, expected %g",
                           storage_name(s->act), storage_name(s->weights), s->class_rows, s->rows,
                           s->features, s->cols, t, n, got, sum);
                goto out;
            }
        }
out:
    free(first);
    free(want);
    free_inputs(&in);
}

static const uint32_t ROWS[] = {0, 1, 7, 8, 9, 16, 17, 33, 61, 64, 65},
                      FEATURES[] = {1, 15, 16, 17, 61, 64, 129},
                      COLS[] = {8, 24, 127, 128, 136, 264, 61, 520};

TEST(linear_equals_its_definition_over_the_sweep) {
    uint32_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        for (size_t j = 0; j < ARRAY_LEN(FEATURES); j++)
            for (size_t k = 0; k < ARRAY_LEN(COLS); k++, n++) {
                if (!is_long() && k != (i + j) % ARRAY_LEN(COLS))
                    continue;
                struct shape s = {.act = TYPES[(i + 2 * j) % 3],
                                  .rows = ROWS[i],
                                  .class_rows = (i + j) % 3 == 0   ? 0
                                                : (i + j) % 3 == 1 ? ROWS[i]
                                                                   : ROWS[i] / 2,
                                  .features = FEATURES[j],
                                  .cols = COLS[k],
                                  .extra = (uint32_t)((i + k) % 2 * 3),
                                  .bias = (j + k) % 2,
                                  .out_f32 = (i + j + k) % 3 == 0,
                                  .segments = FEATURES[j] > 1 && n % 4 == 0 ? 2 : 1};
                s.weights = (i + j + k) % 4 ? s.act : TYPES[k % 3];
                check_shape(&s);
            }
}

/* A row alone, among others, in another place: the same bits, in each class. */
TEST(a_row_has_the_same_bits_whatever_the_number_of_rows) {
    static const uint32_t counts[] = {1, 2, 9, 17, 40, 70, 130};
    for (size_t type = 1; type < 3; type++)
        for (int output_class = 0; output_class < 2; output_class++) {
            struct shape s = {.act = TYPES[type],
                              .weights = TYPES[type],
                              .features = type == 1 ? 33 : 200, /* few blocks and many */
                              .cols = 264,
                              .segments = 1,
                              .out_f32 = true};
            s.rows = 130;
            struct inputs in = make_inputs(&s);
            float *alone = NULL;
            for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
                s.rows = counts[i];
                s.class_rows = output_class ? s.rows : 0;
                struct inputs moved = make_inputs(&s);
                uint32_t place = (uint32_t)(check_random() % s.rows);
                memcpy(moved.x + (size_t)place * s.cols, in.x, s.cols * sizeof(float));
                memcpy(moved.w, in.w, (size_t)s.features * s.cols * sizeof(float));
                float *got = run(&s, &moved);
                if (!alone) {
                    alone = got;
                } else {
                    EXPECT(same_bits(alone, got + (size_t)place * s.features, s.features));
                    free(got);
                }
                free_inputs(&moved);
            }
            free(alone);
            free_inputs(&in);
        }
}

/* ---- weights in tiles: sm_90a ---- */

/* Whether the device has products of weights in tiles. */
static bool has_tiles(void) {
    struct rig r = rig_open(STORAGE_BF16);
    struct matrix m = {.type = STORAGE_BF16, .rows = 64, .cols = 64, .segment_count = 1};
    m.segments[0] = (struct matrix_segment){.data = rig_alloc(&r, 64 * 64 * 2), .rows = 64};
    bool has = r.dev->ops->packed_bytes(r.dev, &m, 0) != 0;
    rig_close(&r);
    return has;
}

TEST(products_of_weights_in_tiles_equal_the_definition) {
    static const uint32_t rows[] = {1, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257},
                          features[] = {64, 192, 128, 384}, cols[] = {64, 128, 192, 832, 1088};
    if (!has_tiles())
        SKIP("gpu", "it is no Hopper");
    for (uint32_t i = 0; i < ARRAY_LEN(rows); i++)
        for (uint32_t j = 0; j < ARRAY_LEN(features); j++)
            if (is_long() || j == i % ARRAY_LEN(features))
                check_shape(&(struct shape){.act = TYPES[1 + i % 2],
                                            .weights = TYPES[1 + i % 2],
                                            .rows = rows[i],
                                            .class_rows = rows[i] * (i % 3) / 2,
                                            .features = features[j],
                                            .cols = cols[(i + j) % ARRAY_LEN(cols)],
                                            .extra = i % 4 == 1 ? 3 : 0,
                                            .bias = i % 3 == 1,
                                            .out_f32 = i % 4 == 2,
                                            .segments = j == 3 ? 2 : 1,
                                            .packed = true});
}

/* One order of sums for all shapes of blocks, and for both classes. */
TEST(a_row_times_tiles_has_the_same_bits_whatever_the_number_of_rows) {
    static const uint32_t counts[] = {1, 8, 16, 30, 60, 100, 200, 300};
    if (!has_tiles())
        SKIP("gpu", "it is no Hopper");
    for (uint32_t wide = 0; wide < 2; wide++) {
        struct shape s = {.act = STORAGE_BF16,
                          .weights = STORAGE_BF16,
                          .rows = 1,
                          .features = wide ? 256 : 64,
                          .cols = 832,
                          .segments = 1,
                          .out_f32 = true,
                          .packed = true};
        struct inputs in = make_inputs(&s);
        float *alone = run(&s, &in);
        for (uint32_t i = 0; i < ARRAY_LEN(counts); i++) {
            s.rows = counts[i];
            s.class_rows = i % 2 ? s.rows : 0;
            struct inputs moved = make_inputs(&s);
            uint32_t place = (uint32_t)(check_random() % s.rows);
            memcpy(moved.x + (size_t)place * s.cols, in.x, s.cols * sizeof(float));
            memcpy(moved.w, in.w, (size_t)s.features * s.cols * sizeof(float));
            float *got = run(&s, &moved);
            EXPECT(same_bits(alone, got + (size_t)place * s.features, s.features));
            free(got);
            free_inputs(&moved);
        }
        free(alone);
        free_inputs(&in);
    }
}

/* ---- k in splits: output rows of few features (product_splits) ---- */

static struct shape splits_shape(uint32_t rows, uint32_t class_rows, uint32_t features,
                                 uint32_t cols) {
    return (struct shape){.act = STORAGE_BF16,
                          .weights = STORAGE_BF16,
                          .rows = rows,
                          .class_rows = class_rows,
                          .features = features,
                          .cols = cols,
                          .segments = 1,
                          .out_f32 = true,
                          .packed = true};
}

TEST(products_with_k_in_splits_equal_the_definition) {
    static const uint32_t rows[] = {1, 9, 33, 64, 70, 130, 257}, features[] = {256, 64, 192},
                          cols[] = {2112, 4160};
    if (!has_tiles())
        SKIP("gpu", "it is no Hopper");
    for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct shape s = splits_shape(rows[i], rows[i], features[i % 3], cols[i % 2]);
        s.act = s.weights = TYPES[1 + i / 2 % 2];
        s.bias = i % 2;
        s.out_f32 = i % 3;
        s.extra = i % 4 == 1 ? 3 : 0;
        if (is_long() || i % 3 != 2)
            check_shape(&s);
    }
}

/* Columns [first, first + cols) of a matrix [rows, all]. */
static float *columns_of(const float *x, uint32_t rows, uint32_t all, uint32_t first,
                         uint32_t cols) {
    float *some = calloc((size_t)rows * cols, sizeof *some);
    for (uint32_t t = 0; t < rows; t++)
        memcpy(some + (size_t)t * cols, x + (size_t)t * all + first, cols * sizeof *some);
    return some;
}

/* Each split is the product of its columns, to the bit, and split 0 has split 1 added, then 2, then 3.
 * Splits are whole tiles of 64; the last has what is left. Prompt rows have one chain. */
TEST(splits_of_k_are_added_in_ascending_order) {
    enum { ROWS_HERE = 40, OUTPUT = 11, FEATURES_HERE = 192, COLS_HERE = 65 * 64, SPLITS = 4 };
    if (!has_tiles())
        SKIP("gpu", "it is no Hopper");
    struct shape s = splits_shape(ROWS_HERE, OUTPUT, FEATURES_HERE, COLS_HERE);
    struct inputs in = make_inputs(&s);
    float *got = run(&s, &in), *sums = NULL;
    for (uint32_t split = 0; split < SPLITS; split++) {
        const uint32_t first = 65 * split / SPLITS * 64, end = 65 * (split + 1) / SPLITS * 64;
        struct shape alone = splits_shape(ROWS_HERE, 0, FEATURES_HERE, end - first);
        struct inputs some = {columns_of(in.x, ROWS_HERE, COLS_HERE, first, end - first),
                              columns_of(in.w, FEATURES_HERE, COLS_HERE, first, end - first), NULL};
        float *more = run(&alone, &some);
        for (size_t i = 0; sums && i < (size_t)ROWS_HERE * FEATURES_HERE; i++)
            sums[i] += more[i];
        if (sums)
            free(more);
        else
            sums = more;
        free_inputs(&some);
    }
    EXPECT(same_bits(got, sums, (size_t)OUTPUT * FEATURES_HERE));
    s.class_rows = 0;
    float *prompt = run(&s, &in);
    const size_t from = (size_t)OUTPUT * FEATURES_HERE,
                 count = (ROWS_HERE - OUTPUT) * FEATURES_HERE;
    EXPECT(same_bits(got + from, prompt + from, count) && !same_bits(got, prompt, from));
    free(prompt);
    free(sums);
    free(got);
    free_inputs(&in);
}

TEST(an_output_row_with_k_in_splits_has_the_same_bits_whatever_the_number_of_rows) {
    static const uint32_t counts[] = {7, 16, 30, 60, 100, 200};
    if (!has_tiles())
        SKIP("gpu", "it is no Hopper");
    for (uint32_t wide = 0; wide < 2; wide++) {
        struct shape s = splits_shape(1, 1, wide ? 256 : 64, wide ? 2112 : 4160);
        struct inputs in = make_inputs(&s);
        float *alone = run(&s, &in);
        for (uint32_t i = 0; i < ARRAY_LEN(counts); i++) {
            if (!is_long() && i % 2 != wide)
                continue;
            s.rows = counts[i];
            s.class_rows = s.rows - i % 2;
            struct inputs moved = make_inputs(&s);
            uint32_t place = (uint32_t)(check_random() % s.class_rows);
            memcpy(moved.x + (size_t)place * s.cols, in.x, s.cols * sizeof(float));
            memcpy(moved.w, in.w, (size_t)s.features * s.cols * sizeof(float));
            float *got = run(&s, &moved);
            EXPECT(same_bits(alone, got + (size_t)place * s.features, s.features));
            free(got);
            free_inputs(&moved);
        }
        free(alone);
        free_inputs(&in);
    }
}

/* ---- by cuBLASLt ---- */

/* Whether a device opens that multiplies so; *emulated: it is one. */
static bool has_blas(bool *emulated, struct error *err) {
    struct device *dev;
    struct device_options options = {
        .kind = "cuda", .activation = STORAGE_BF16, .gemm = "cublaslt"};
    if (device_open(&options, &dev, err))
        return false;
    *emulated = dev->kind == DEVICE_EMULATED;
    device_close(&dev);
    return true;
}

/* As run, by the library where it takes the product. */
static float *run_blas(const struct shape *s, struct inputs *in) {
    setenv("TRIREME_GEMM", "cublaslt", 1);
    float *out = run(s, in);
    unsetenv("TRIREME_GEMM");
    return out;
}

TEST(prompt_rows_by_cublaslt_equal_the_definition) {
    static const uint32_t rows[] = {1, 9, 255, 256, 257, 300}, features[] = {8, 64, 136},
                          cols[] = {8, 64, 264};
    struct error err;
    bool emulated;
    if (!has_blas(&emulated, &err))
        SKIP("gpu", err.text);
    for (size_t i = 0; i < ARRAY_LEN(rows) * 3; i++) {
        struct shape s = {.act = TYPES[1 + i % 2],
                          .weights = TYPES[1 + i % 2],
                          .rows = rows[i / 3],
                          .class_rows = i % 4 == 3 ? 1 : 0,
                          .features = features[i % 3],
                          .cols = cols[(i + i / 3) % 3],
                          .extra = i % 5 == 2 ? 8 : 0,
                          .out_f32 = i % 2,
                          .segments = i % 7 == 3 ? 2 : 1};
        setenv("TRIREME_GEMM", "cublaslt", 1);
        check_shape(&s);
        unsetenv("TRIREME_GEMM");
    }
}

TEST(a_prompt_row_has_the_same_bits_by_cublaslt_whatever_the_number_of_rows) {
    static const uint32_t counts[] = {1, 9, 255, 256, 300, 520};
    struct error err;
    bool emulated;
    if (!has_blas(&emulated, &err))
        SKIP("gpu", err.text);
    struct shape s = {.act = STORAGE_BF16,
                      .weights = STORAGE_BF16,
                      .rows = 1,
                      .features = 72,
                      .cols = 264,
                      .segments = 1,
                      .out_f32 = true};
    struct inputs in = make_inputs(&s);
    float *alone = run_blas(&s, &in), *own = run(&s, &in);
    /* it did multiply: it sums otherwise */
    if (emulated)
        EXPECT(!same_bits(alone, own, s.features));
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        s.rows = counts[i];
        struct inputs moved = make_inputs(&s);
        uint32_t place = (uint32_t)(check_random() % s.rows);
        memcpy(moved.x + (size_t)place * s.cols, in.x, s.cols * sizeof(float));
        memcpy(moved.w, in.w, (size_t)s.features * s.cols * sizeof(float));
        float *got = run_blas(&s, &moved);
        EXPECT(same_bits(alone, got + (size_t)place * s.features, s.features));
        free(got);
        free_inputs(&moved);
    }
    free(own);
    free(alone);
    free_inputs(&in);
}
