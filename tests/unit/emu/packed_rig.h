/*
 * packed_rig.h - weights in units on the emulated device: random ones of each type, products with them, what
 * those must be (test_packed.c: on sm_90a; test_packed_mma.c: on other GPUs).
 */
#ifndef TESTS_UNIT_EMU_PACKED_RIG_H
#define TESTS_UNIT_EMU_PACKED_RIG_H

#include "kernels/dequantize.h"
#include "rig.h"

/* How a type's scales lie: of a scaled type; others hold their own. */
struct form {
    const char *name;
    enum storage_type type;
    uint32_t scale_rows, scale_cols; /* UINT32_MAX: all */
    bool zeros;
    float zero;
};
static const struct form FORMS[] = {
    {"fp8, one scale", STORAGE_F8_E4M3, UINT32_MAX, 0, false, 0},
    {"fp8, rows", STORAGE_F8_E4M3, 1, 0, false, 0},
    {"fp8, 128 x 128", STORAGE_F8_E4M3, 128, 128, false, 0},
    {"int8, rows", STORAGE_I8, 1, 0, false, 0},
    {"q8_0", STORAGE_Q8_0, 0, 0, false, 0},
    {"q4_0", STORAGE_Q4_0, 0, 0, false, 0},
    {"int4, 32, zeros", STORAGE_U4, 1, 32, true, 0},
    {"int4, 64", STORAGE_U4, 1, 64, false, 8},
    {"int4, 128, zeros", STORAGE_U4, 1, 128, true, 0},
    {"q4_k", STORAGE_Q4_K, 0, 0, false, 0},
    {"q6_k", STORAGE_Q6_K, 0, 0, false, 0},
    {"mxfp4", STORAGE_MXFP4, 0, 0, false, 0},
};

struct weights {
    struct matrix host;
    uint8_t *data;
    float *scales, *zeros;
    size_t scale_count;
    const float *bias;
};

static inline void put_half(uint8_t *at, float v) {
    storage_put(STORAGE_F16, at, 0, v);
}

/* Random codes; scales of moderate size, different from block to block. */
static inline void fill_block(enum storage_type type, uint8_t *b, size_t bytes) {
    float d = 0.001f * (float)(1 + check_random() % 50);
    for (size_t i = 0; i < bytes; i++)
        b[i] = (uint8_t)check_random();
    if (storage_is_plain(type))
        storage_put(type, b, 0, random_value());
    if (type == STORAGE_Q8_0 || type == STORAGE_Q4_0 || type == STORAGE_Q4_K)
        put_half(b, d);
    if (type == STORAGE_Q4_K)
        put_half(b + 2, d * 3);
    if (type == STORAGE_Q6_K)
        put_half(b + 208, d);
    if (type == STORAGE_MXFP4)
        b[0] = (uint8_t)(120 + check_random() % 10);
    if (type == STORAGE_F8_E4M3 && (b[0] & 0x7f) == 0x7f)
        b[0] = 0x3c;
}

static inline struct weights make_weights(const struct form *f, uint32_t rows, uint32_t cols) {
    struct weights w = {.host = {.type = f->type, .rows = rows, .cols = cols, .segment_count = 1}};
    struct matrix_segment *p = &w.host.segments[0];
    const uint32_t values = storage_block(f->type);
    const size_t block = storage_bytes(f->type, values);
    w.data = malloc(rows * storage_bytes(f->type, cols));
    for (size_t i = 0; i < (size_t)rows * cols / values; i++)
        fill_block(f->type, w.data + i * block, block);
    *p = (struct matrix_segment){.data = w.data, .rows = rows, .zero = f->zero};
    if (!storage_is_scaled(f->type))
        return w;
    p->scale_rows = f->scale_rows;
    p->scale_cols = f->scale_cols;
    p->scale_stride = f->scale_cols ? (cols + f->scale_cols - 1) / f->scale_cols : 1;
    w.scale_count = (size_t)((rows - 1) / f->scale_rows + 1) * p->scale_stride;
    w.scales = calloc(w.scale_count, sizeof *w.scales);
    w.zeros = f->zeros ? calloc(w.scale_count, sizeof *w.zeros) : NULL;
    for (size_t i = 0; i < w.scale_count; i++) {
        w.scales[i] = 0.001f * (float)(1 + check_random() % 1000);
        if (f->zeros)
            w.zeros[i] = (float)(check_random() % 17); /* GPTQ's go up to 16 */
    }
    p->scales = w.scales;
    p->zeros = w.zeros;
    return w;
}

static inline void free_weights(struct weights *w) {
    free(w->data);
    free(w->scales);
    free(w->zeros);
}

/* The segment on the device, as it lies in files. */
static inline struct matrix put_rows_up(struct rig *r, const struct weights *w) {
    struct matrix m = w->host;
    struct matrix_segment *p = &m.segments[0];
    p->data = rig_up(r, w->data, m.rows * storage_bytes(m.type, m.cols));
    p->scales = w->scales ? rig_up(r, w->scales, w->scale_count * 4) : NULL;
    p->zeros = w->zeros ? rig_up(r, w->zeros, w->scale_count * 4) : NULL;
    return m;
}
/* The same, in its units. */
static inline struct matrix put_up(struct rig *r, const struct weights *w, const char *name) {
    struct matrix m = put_rows_up(r, w);
    struct matrix_segment *p = &m.segments[0];
    if (r->dev->ops->packed_bytes(r->dev, &m, 0) != PACKED_IN_PLACE)
        check_fail(__FILE__, __LINE__, "%s [%u, %u] cannot be packed", name, m.rows, m.cols);
    r->dev->ops->pack(r->stream, &m, 0, (void *)p->data);
    p->packed = p->data;
    return m;
}

struct shape {
    const struct form *form;
    enum storage_type act;
    uint32_t rows, features, cols;
    bool bias, out_f32;
};

/* [rows, features]. x is rounded to its type. Between rows, 3 values are checked to be untouched. */
static inline float *run_rows(const struct shape *s, const struct weights *w, float *x, float *bias,
                              uint32_t class_rows) {
    struct rig r = rig_open(s->act);
    const uint32_t stride = s->features + 3;
    const enum storage_type out_type = s->out_f32 ? STORAGE_F32 : s->act;
    void *xs = rig_values(&r, s->act, x, (size_t)s->rows * s->cols);
    struct matrix m = put_up(&r, w, s->form->name);
    m.bias = s->bias ? rig_values(&r, STORAGE_F32, bias, s->features) : NULL;
    void *out = rig_alloc(&r, storage_bytes(out_type, (size_t)s->rows * stride));
    r.dev->ops->linear(r.stream, &(struct op_linear){.out = out,
                                                     .x = xs,
                                                     .w = &m,
                                                     .rows = s->rows,
                                                     .class_rows = class_rows,
                                                     .out_stride = stride,
                                                     .out_f32 = s->out_f32});
    float *all = rig_down(&r, out_type, out, (size_t)s->rows * stride),
          *dense = calloc((size_t)s->rows * s->features, 4);
    for (uint32_t t = 0; t < s->rows; t++) {
        memcpy(dense + (size_t)t * s->features, all + (size_t)t * stride, s->features * 4);
        for (uint32_t i = s->features; i < stride; i++)
            if (!isnan(all[(size_t)t * stride + i]))
                check_fail(__FILE__, __LINE__, "%s: wrote between rows", s->form->name);
    }
    free(all);
    rig_close(&r);
    return dense;
}

static inline float *run(const struct shape *s, const struct weights *w, float *x, float *bias) {
    return run_rows(s, w, x, bias, s->rows / 2);
}

/* |minimum| of values [k, k + 32) of a row as the product takes it off, from codes that it has 16 too large:
 * 0 for types without, and for int4, whose zeros meet the codes exactly. */
static inline float minimum_of(const struct weights *w, uint32_t row, uint32_t k) {
    if (w->host.type == STORAGE_Q4_K) {
        const uint8_t *b = w->data + (size_t)(row * (w->host.cols / 256) + k / 256) * 144;
        uint8_t scale, minimum;
        dequantize_k_scale(b + 4, k % 256 / 32, &scale, &minimum);
        return dequantize_f16(b + 2) * minimum + 16 * dequantize_f16(b) * scale;
    }
    return 0;
}

/* What a float32 sum may be off is in proportion to the sizes of what is added up: scale * code and
 * minimum, each times x. */
static inline void check_values(const struct shape *s, const struct weights *w, const float *x,
                                const float *bias, const float *got) {
    float *row = calloc(s->cols, 4);
    for (uint32_t n = 0; n < s->features; n++) {
        matrix_dequantize(&w->host, n, 0, s->cols, row);
        for (uint32_t t = 0; t < s->rows; t++) {
            double sum = s->bias ? bias[n] : 0, size = fabs(sum);
            for (uint32_t k = 0; k < s->cols; k++) {
                const double term = (double)x[(size_t)t * s->cols + k];
                sum += term * row[k];
                size += fabs(term) * (fabs(row[k]) + 2 * minimum_of(w, n, k / 32 * 32));
            }
            const enum storage_type out = s->out_f32 ? STORAGE_F32 : s->act;
            const double tolerance = 2 * UNIT_ROUNDOFF * size * (s->cols + 2) +
                                     rounding(out) * fabs(sum) * 1.01 + rounding_floor(out);
            const double value = got[(size_t)t * s->features + n];
            if (!(fabs(value - sum) <= tolerance)) {
                check_fail(__FILE__, __LINE__, "%s, %s, [%u, %u, %u]: (%u, %u) is %g, expected %g",
                           s->form->name, storage_name(s->act), s->rows, s->features, s->cols, t, n,
                           value, sum);
                free(row);
                return;
            }
        }
    }
    free(row);
}

static inline void check_shape(const struct shape *s) {
    struct weights w = make_weights(s->form, s->features, s->cols);
    float *x = small_values((size_t)s->rows * s->cols), *bias = random_values(s->features),
          *first = NULL;
    const struct drawn orders = drawn_of(ORDERS);
    for (int order = 0; order < ORDERS; order++) {
        if (!is_drawn(orders, (size_t)order))
            continue;
        emu_set_order(order, 5);
        float *got = run(s, &w, x, bias);
        if (first && !same_bits(got, first, (size_t)s->rows * s->features))
            check_fail(__FILE__, __LINE__, "%s, %u rows: bits depend on the order of threads",
                       s->form->name, s->rows);
        if (first)
            free(got);
        else
            first = got;
    }
    emu_set_order(0, 1);
    check_values(s, &w, x, bias, first);
    free(first);
    free(bias);
    free(x);
    free_weights(&w);
}

/* [rows, rows of m, or half of them] of act. */
static inline struct op_linear product_of(const struct matrix *m, void *out, const void *x,
                                          uint32_t rows) {
    return (struct op_linear){.out = out,
                              .x = x,
                              .w = m,
                              .rows = rows,
                              .class_rows = rows,
                              .out_stride = m->gated ? m->rows / 2 : m->rows,
                              .gated = m->gated ? ACTIVATION_SILU : 0};
}

/* The product with gate and up, of one segment or two, and silu(gate) * up behind it: in one launch
 * the same bits. */
static inline void check_gated(const struct form *form, enum storage_type act, uint32_t rows,
                               uint32_t segments, uint32_t stride) {
    enum { COLS = 768, WIDTH = 192 };
    struct rig r = rig_open(act);
    const struct ops *ops = r.dev->ops;
    struct matrix apart = {
        .type = form->type, .rows = 2 * WIDTH, .cols = COLS, .segment_count = segments};
    float *x = small_values((size_t)rows * COLS), *bias = random_values(apart.rows);
    void *xs = rig_values(&r, act, x, (size_t)rows * COLS),
         *y = rig_alloc(&r, storage_bytes(act, (size_t)rows * apart.rows)),
         *want = rig_alloc(&r, storage_bytes(act, (size_t)rows * WIDTH)),
         *got = rig_alloc(&r, storage_bytes(act, (size_t)rows * stride));
    if (stride % 2)
        apart.bias = rig_values(&r, STORAGE_F32, bias, apart.rows);
    struct matrix gated = apart;
    for (uint32_t i = 0; i < segments; i++) {
        struct weights w = make_weights(form, apart.rows / segments, COLS);
        apart.segments[i] = put_up(&r, &w, form->name).segments[0];
        gated.segments[i] = put_rows_up(&r, &w).segments[0];
        rig_wait(&r);
        free_weights(&w);
    }
    gated.gated = ops->gates(r.dev, &gated, ACTIVATION_SILU);
    if (!gated.gated || ops->gates(r.dev, &apart, ACTIVATION_GELU))
        check_fail(__FILE__, __LINE__, "%s: gated or not, the other was expected", form->name);
    for (uint32_t i = 0; i < segments; i++) {
        ops->pack(r.stream, &gated, i, (void *)gated.segments[i].data);
        gated.segments[i].packed = gated.segments[i].data;
    }
    struct op_linear product = product_of(&apart, y, xs, rows);
    product.class_rows = 0;
    ops->linear(r.stream, &product);
    ops->act_mul(r.stream, &(struct op_act_mul){want, y, rows, WIDTH, ACTIVATION_SILU});
    const uint64_t launched = emu_launch_count();
    product = product_of(&gated, got, xs, rows);
    product.class_rows = rows / 2;
    product.out_stride = stride;
    ops->linear(r.stream, &product);
    if (emu_launch_count())
        EXPECT_EQ(emu_launch_count() - launched, 1);
    float *wanted = rig_down(&r, act, want, (size_t)rows * WIDTH),
          *there = rig_down(&r, act, got, (size_t)rows * stride);
    for (uint32_t t = 0; t < rows; t++)
        if (!same_bits(there + (size_t)t * stride, wanted + (size_t)t * WIDTH, WIDTH) ||
            (stride > WIDTH && !isnan(there[(size_t)t * stride + WIDTH])))
            check_fail(__FILE__, __LINE__, "%s, %u segments: row %u of %u differs", form->name,
                       segments, t, rows);
    free(wanted);
    free(there);
    free(bias);
    free(x);
    rig_close(&r);
}

/* Queries, keys and values of form f: one launch, in which each has the bits that it has alone. */
static inline void check_segments(uint32_t f) {
    static const uint32_t features[] = {128, 64, 192}, counts[] = {5, 40, 70};
    enum { COLS = 768, ALL = 384 };
    struct shape s = {&FORMS[f], STORAGE_BF16, counts[f % 3], 0, COLS, true, f % 2};
    const enum storage_type out_type = s.out_f32 ? STORAGE_F32 : s.act;
    struct rig r = rig_open(s.act);
    struct matrix all = {.type = s.form->type, .rows = ALL, .cols = COLS, .segment_count = 3};
    float *x = small_values((size_t)s.rows * COLS), *bias = random_values(ALL), *alone[3];
    void *xs = rig_values(&r, s.act, x, (size_t)s.rows * COLS),
         *out = rig_alloc(&r, storage_bytes(out_type, (size_t)s.rows * ALL));
    for (uint32_t i = 0, n = 0; i < 3; n += features[i++]) {
        struct weights w = make_weights(s.form, features[i], COLS);
        s.features = features[i];
        alone[i] = run(&s, &w, x, bias + n);
        all.segments[i] = put_up(&r, &w, s.form->name).segments[0];
        rig_wait(&r);
        free_weights(&w);
    }
    all.bias = rig_values(&r, STORAGE_F32, bias, ALL);
    const uint64_t launched = emu_launch_count();
    r.dev->ops->linear(r.stream, &(struct op_linear){.out = out,
                                                     .x = xs,
                                                     .w = &all,
                                                     .rows = s.rows,
                                                     .class_rows = s.rows / 2,
                                                     .out_stride = ALL,
                                                     .out_f32 = s.out_f32});
    if (emu_launch_count())
        EXPECT_EQ(emu_launch_count() - launched, 1);
    float *got = rig_down(&r, out_type, out, (size_t)s.rows * ALL);
    for (uint32_t t = 0; t < s.rows; t++)
        for (uint32_t i = 0, n = 0; i < 3; n += features[i++])
            if (!same_bits(got + t * ALL + n, alone[i] + t * features[i], features[i]))
                check_fail(__FILE__, __LINE__, "%s: row %u of segment %u differs", s.form->name, t,
                           i);
    for (uint32_t i = 0; i < 3; i++)
        free(alone[i]);
    free(got);
    free(bias);
    free(x);
    rig_close(&r);
}

static inline bool has_large_blocks(const struct form *f) {
    return storage_block(f->type) == 256;
}

/* A multiple of what the form's blocks and scales want, near `cols`. */
static inline uint32_t cols_of(const struct form *f, uint32_t cols) {
    const uint32_t unit =
        MAX(has_large_blocks(f) ? 256u : 64u, f->type == STORAGE_U4 ? f->scale_cols : 0);
    return MAX(cols / unit, f->type == STORAGE_U4 ? 2u : 1u) * unit;
}

#endif
