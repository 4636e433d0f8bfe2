/* linear with weights and activations in fp8 (compute fp8, fp8-prompts): against the definition, and
 * bits against the number of rows, their neighbours, splits and the order of threads. */
#include "rig.h"

void emu_set_device(int arch, int compiled);

/* How the weights' scales lie. */
struct scales {
    const char *name;
    uint32_t rows, cols; /* UINT32_MAX: all */
};
static const struct scales SCALES[] = {
    {"one scale", UINT32_MAX, 0}, {"scales of rows", 1, 0}, {"scales of 128 x 128", 128, 128}};

struct weights {
    struct matrix host;
    uint8_t *codes;
    float *scales;
    size_t scale_count;
};

static struct weights make_weights(const struct scales *f, uint32_t rows, uint32_t cols) {
    struct weights w = {
        .host = {.type = STORAGE_F8_E4M3, .rows = rows, .cols = cols, .segment_count = 1}};
    const uint32_t stride = f->cols ? cols / f->cols : 1;
    w.codes = malloc((size_t)rows * cols);
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        w.codes[i] = (uint8_t)check_random();
        if ((w.codes[i] & 0x7f) == 0x7f)
            w.codes[i] = 0x3c;
    }
    w.scale_count = (size_t)((rows - 1) / f->rows + 1) * stride;
    w.scales = calloc(w.scale_count, sizeof *w.scales);
    for (size_t i = 0; i < w.scale_count; i++)
        w.scales[i] = 0.0001f * (float)(1 + check_random() % 1000);
    w.host.segments[0] = (struct matrix_segment){.data = w.codes,
                                                 .rows = rows,
                                                 .scale_rows = f->rows,
                                                 .scale_cols = f->cols,
                                                 .scale_stride = stride,
                                                 .scales = w.scales};
    return w;
}

static void free_weights(struct weights *w) {
    free(w->codes);
    free(w->scales);
}

static struct matrix_segment segment_up(struct rig *r, const struct weights *w) {
    struct matrix_segment p = w->host.segments[0];
    p.data = rig_up(r, w->codes, (size_t)w->host.rows * w->host.cols);
    p.scales = rig_up(r, w->scales, w->scale_count * sizeof *w->scales);
    return p;
}

/* As a model loads it: what activations become, and the order of the kernels. */
static void pack(struct rig *r, struct matrix *m) {
    m->compute = device_compute(r->dev, m);
    for (uint32_t i = 0; i < m->segment_count; i++) {
        EXPECT(r->dev->ops->packed_bytes(r->dev, m, i) == PACKED_IN_PLACE);
        r->dev->ops->pack(r->stream, m, i, (void *)m->segments[i].data);
        m->segments[i].packed = m->segments[i].data;
    }
}

static struct op_linear product_of(struct rig *r, const struct matrix *m, void *out, const void *x,
                                   uint32_t rows, uint32_t class_rows) {
    return (struct op_linear){.out = out,
                              .x = x,
                              .w = m,
                              .rows = rows,
                              .class_rows = class_rows,
                              .out_stride = m->gated ? m->rows / 2 : m->rows,
                              .gated = m->gated ? ACTIVATION_SILU : 0,
                              .scratch =
                                  rig_alloc(r, r->dev->ops->linear_scratch(r->dev, rows, m->cols))};
}

struct shape {
    const struct scales *scales;
    enum storage_type act;
    uint32_t rows, features, cols;
    bool bias;
    const char *compute;
};

/* [rows, features] in f32; x is rounded to its type. */
static float *run(const struct shape *s, const struct weights *w, float *x, float *bias,
                  uint32_t class_rows) {
    struct rig r = rig_open_to(s->act, s->compute);
    const size_t outs = (size_t)s->rows * s->features;
    void *xs = rig_values(&r, s->act, x, (size_t)s->rows * s->cols),
         *out = rig_alloc(&r, outs * sizeof(float));
    struct matrix m = w->host;
    m.segments[0] = segment_up(&r, w);
    m.bias = s->bias ? rig_values(&r, STORAGE_F32, bias, s->features) : NULL;
    pack(&r, &m);
    struct op_linear product = product_of(&r, &m, out, xs, s->rows, class_rows);
    product.out_f32 = true;
    r.dev->ops->linear(r.stream, &product);
    float *got = rig_down(&r, STORAGE_F32, out, outs);
    rig_close(&r);
    return got;
}

static bool has_fp8(void) {
    struct rig r = rig_open(STORAGE_BF16);
    struct matrix m = {.type = STORAGE_F8_E4M3, .rows = 64, .cols = 128, .segment_count = 1};
    m.segments[0] = (struct matrix_segment){.data = rig_alloc(&r, 64 * 128), .rows = 64};
    const bool has = r.dev->ops->packed_bytes(r.dev, &m, 0);
    rig_close(&r);
    return has;
}

/* Values of which a row's largest is 1 to 16 times the others', so that small ones are rounded too. */
static float *values_of_rows(uint32_t rows, uint32_t cols) {
    float *x = random_values((size_t)rows * cols);
    for (uint32_t t = 0; t < rows; t++)
        x[(size_t)t * cols + check_random() % cols] *= (float)(1 + check_random() % 16);
    return x;
}

/* What the definition makes of a row. */
static void round_row(const float *x, uint32_t cols, float *out) {
    float most = 0;
    for (uint32_t k = 0; k < cols; k++)
        most = fmaxf(most, fabsf(x[k]));
    for (uint32_t k = 0; k < cols; k++) {
        const uint8_t code = f32_to_e4m3(x[k] * (448 / most));
        out[k] = storage_get(STORAGE_F8_E4M3, &code, 0) * (most / 448);
    }
}

/* Sums of f32; a GPU's of fp8 keep 14 bits within 128 k. */
static double roundings(uint32_t cols) {
    return emu_launch_count() ? 2 * UNIT_ROUNDOFF * (cols + 3) : 0x1p-11;
}

static void check_values(const struct shape *s, const struct weights *w, const float *x,
                         const float *bias, const float *got) {
    float *row = calloc(s->cols, sizeof *row), *rounded = calloc(s->cols, sizeof *rounded);
    for (uint32_t t = 0; t < s->rows; t++) {
        round_row(x + (size_t)t * s->cols, s->cols, rounded);
        for (uint32_t n = 0; n < s->features; n++) {
            matrix_dequantize(&w->host, n, 0, s->cols, row);
            double sum = s->bias ? bias[n] : 0, size = fabs(sum);
            for (uint32_t k = 0; k < s->cols; k++) {
                sum += (double)rounded[k] * row[k];
                size += fabs((double)rounded[k] * row[k]);
            }
            const double value = got[(size_t)t * s->features + n];
            if (!(fabs(value - sum) <= roundings(s->cols) * size)) {
                check_fail(__FILE__, __LINE__, "%s, %s, [%u, %u, %u]: (%u, %u) is %g, expected %g",
                           s->scales->name, storage_name(s->act), s->rows, s->features, s->cols, t,
                           n, value, sum);
                t = s->rows;
                break;
            }
        }
    }
    free(row);
    free(rounded);
}

TEST(products_of_fp8_equal_the_definition) {
    static const uint32_t rows[] = {1, 8, 9, 33, 65, 130}, features[] = {64, 192, 256},
                          cols[] = {128, 384, 640, 1152};
    if (!has_fp8())
        SKIP("gpu", "it is no Hopper");
    const struct drawn cases = drawn_of(4), orders = drawn_of(ORDERS);
    for (uint32_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(SCALES); i++) {
        const uint32_t f = i % ARRAY_LEN(SCALES), j = i / ARRAY_LEN(SCALES);
        if (!is_drawn(cases, i) || (!is_long() && (j + f) % 2))
            continue;
        struct shape s = {&SCALES[f],
                          TYPES[1 + i % 2],
                          rows[j],
                          features[(j + f) % 3],
                          cols[(j + 2 * f) % 4],
                          j % 2,
                          "fp8"};
        if (rows[j] <= 8) /* the ring comes round */
            s.features = 64, s.cols = 2304 * (j + 1);
        struct weights w = make_weights(s.scales, s.features, s.cols);
        float *x = values_of_rows(s.rows, s.cols), *bias = random_values(s.features), *first = NULL;
        for (int order = 0; order < ORDERS; order++) {
            if (!is_drawn(orders, (size_t)order))
                continue;
            emu_set_order(order, 5);
            float *got = run(&s, &w, x, bias, s.rows / 2);
            if (first && !same_bits(got, first, (size_t)s.rows * s.features))
                check_fail(__FILE__, __LINE__, "%u rows: bits depend on the order of threads",
                           s.rows);
            if (!first)
                check_values(&s, &w, x, bias, got);
            free(first);
            first = got;
        }
        emu_set_order(0, 1);
        free(first);
        free(x);
        free(bias);
        free_weights(&w);
    }
}

/* One order of sums for all shapes of blocks and clusters; with splits (cols 2048 and more) too. */
TEST(a_row_of_fp8_has_the_same_bits_whatever_the_number_of_rows) {
    static const uint32_t counts[] = {8, 20, 50, 70, 250}, cols[] = {640, 2304};
    if (!has_fp8())
        SKIP("gpu", "it is no Hopper");
    const struct drawn cases = drawn_of(3);
    for (uint32_t i = 0; i < ARRAY_LEN(counts) * ARRAY_LEN(cols); i++) {
        if (!is_drawn(cases, i) || (!is_long() && i % 3 != 1))
            continue;
        struct shape s = {&SCALES[i % 3], STORAGE_BF16, 1, 256, cols[i % 2], true, "fp8"};
        struct weights w = make_weights(s.scales, s.features, s.cols);
        float *x = values_of_rows(1, s.cols), *bias = random_values(s.features),
              *output = run(&s, &w, x, bias, 1), *prompt = run(&s, &w, x, bias, 0);
        if (s.cols >= 2048 && same_bits(output, prompt, s.features))
            check_fail(__FILE__, __LINE__, "%s: k is whole", s.scales->name);
        s.rows = counts[i / 2];
        float *others = values_of_rows(s.rows, s.cols);
        const uint32_t class_rows = s.rows - 2, place = (uint32_t)(check_random() % class_rows);
        memcpy(others + (size_t)place * s.cols, x, s.cols * sizeof *x);
        memcpy(others + (size_t)(s.rows - 1) * s.cols, x, s.cols * sizeof *x);
        float *got = run(&s, &w, others, bias, class_rows);
        if (!same_bits(output, got + (size_t)place * s.features, s.features) ||
            !same_bits(prompt, got + (size_t)(s.rows - 1) * s.features, s.features))
            check_fail(__FILE__, __LINE__, "%s, [%u]: other bits among %u rows", s.scales->name,
                       s.cols, s.rows);
        free(got);
        free(others);
        free(output);
        free(prompt);
        free(bias);
        free(x);
        free_weights(&w);
    }
}

/* Many rows of one class: blocks of 128 that share x and weights, the last of them partly empty. */
TEST(blocks_that_share_x_and_weights_have_the_bits_of_those_that_do_not) {
    enum { ROWS = 200, COLS = 1792 }; /* the ring comes round */
    if (!has_fp8())
        SKIP("gpu", "it is no Hopper");
    const struct drawn forms = drawn_of(ARRAY_LEN(SCALES)), orders = drawn_of(ORDERS);
    for (uint32_t f = 0; f < ARRAY_LEN(SCALES); f++) {
        if (!is_drawn(forms, f) || (!is_long() && f != 2 && !emu_is_watched()))
            continue;
        struct shape s = {&SCALES[f], STORAGE_BF16, ROWS, 256, COLS, true, "fp8"}, few = s;
        struct weights w = make_weights(s.scales, s.features, COLS);
        float *x = values_of_rows(ROWS, COLS), *bias = random_values(s.features);
        for (int order = 0; order < ORDERS; order++) {
            if (!is_drawn(orders, (size_t)order))
                continue;
            emu_set_order(order, 3);
            float *all = run(&s, &w, x, bias, 0);
            for (uint32_t t = 0; t < ROWS; t += few.rows) {
                few.rows = t + 40 < ROWS ? 40 : ROWS - t;
                float *got = run(&few, &w, x + (size_t)t * COLS, bias, 0);
                if (!same_bits(got, all + (size_t)t * s.features, (size_t)few.rows * s.features))
                    check_fail(__FILE__, __LINE__, "%s: rows from %u on differ", s.scales->name, t);
                free(got);
            }
            free(all);
        }
        emu_set_order(0, 1);
        free(x);
        free(bias);
        free_weights(&w);
    }
}

/* The product with gate and up, and silu(gate) * up behind it: in one product the same bits. Queries,
 * keys and values likewise: each has the bits that it has alone. */
TEST(segments_of_fp8_are_one_product) {
    enum { ROWS = 40, COLS = 384, WIDTH = 128 };
    if (!has_fp8())
        SKIP("gpu", "it is no Hopper");
    const struct drawn forms = drawn_of(ARRAY_LEN(SCALES));
    for (uint32_t f = 0; f < ARRAY_LEN(SCALES); f++) {
        if (!is_drawn(forms, f))
            continue;
        struct rig r = rig_open_to(STORAGE_BF16, "fp8");
        const struct ops *ops = r.dev->ops;
        float *x = values_of_rows(ROWS, COLS), *alone[2];
        void *xs = rig_values(&r, r.act, x, ROWS * COLS), *y = rig_alloc(&r, ROWS * WIDTH * 4),
             *want = rig_alloc(&r, ROWS * WIDTH * 2), *got = rig_alloc(&r, ROWS * WIDTH * 2);
        struct matrix apart = {
            .type = STORAGE_F8_E4M3, .rows = 2 * WIDTH, .cols = COLS, .segment_count = 2};
        struct matrix gated = apart;
        for (uint32_t i = 0; i < 2; i++) {
            struct shape s = {&SCALES[f], r.act, ROWS, WIDTH, COLS, false, "fp8"};
            struct weights w = make_weights(s.scales, WIDTH, COLS);
            alone[i] = run(&s, &w, x, NULL, 0);
            apart.segments[i] = segment_up(&r, &w);
            gated.segments[i] = segment_up(&r, &w);
            rig_wait(&r);
            free_weights(&w);
        }
        gated.gated = ops->gates(r.dev, &gated, ACTIVATION_SILU);
        EXPECT(gated.gated);
        pack(&r, &apart);
        pack(&r, &gated);
        struct op_linear product = product_of(&r, &apart, y, xs, ROWS, 0);
        ops->linear(r.stream, &product);
        ops->act_mul(r.stream, &(struct op_act_mul){want, y, ROWS, WIDTH, ACTIVATION_SILU});
        float *both = rig_down(&r, r.act, y, ROWS * WIDTH * 2);
        for (uint32_t t = 0; t < ROWS; t++)
            for (uint32_t i = 0; i < 2 * WIDTH; i++) {
                float rounded = alone[i / WIDTH][t * WIDTH + i % WIDTH];
                uint16_t bits;
                storage_put(r.act, &bits, 0, rounded);
                EXPECT(both[t * 2 * WIDTH + i] == storage_get(r.act, &bits, 0));
            }
        product = product_of(&r, &gated, got, xs, ROWS, ROWS / 2);
        ops->linear(r.stream, &product);
        float *wanted = rig_down(&r, r.act, want, ROWS * WIDTH),
              *there = rig_down(&r, r.act, got, ROWS * WIDTH);
        EXPECT(same_bits(wanted, there, ROWS * WIDTH));
        for (uint32_t i = 0; i < 2; i++)
            free(alone[i]);
        free(both);
        free(wanted);
        free(there);
        free(x);
        rig_close(&r);
    }
}

TEST(fp8_prompts_leaves_output_rows_as_they_are) {
    enum { ROWS = 20, OUTPUT = 7 };
    if (!has_fp8())
        SKIP("gpu", "it is no Hopper");
    struct shape s = {&SCALES[1], STORAGE_BF16, ROWS, 128, 512, true, "fp8-prompts"};
    struct weights w = make_weights(s.scales, s.features, s.cols);
    float *x = values_of_rows(ROWS, s.cols), *bias = random_values(s.features),
          *got = run(&s, &w, x, bias, OUTPUT);
    s.compute = NULL;
    float *plain = run(&s, &w, x, bias, OUTPUT);
    s.compute = "fp8";
    float *rounded = run(&s, &w, x, bias, OUTPUT);
    const size_t output = (size_t)OUTPUT * s.features, all = (size_t)ROWS * s.features;
    EXPECT(same_bits(got, plain, output));
    EXPECT(!same_bits(got, rounded, output));
    EXPECT(same_bits(got + output, rounded + output, all - output));
    EXPECT(!same_bits(got + output, plain + output, all - output));
    free(got);
    free(plain);
    free(rounded);
    free(bias);
    free(x);
    free_weights(&w);
}

TEST(rows_of_zeros_give_zeros_and_those_with_nan_or_infinity_nan) {
    if (!has_fp8())
        SKIP("gpu", "it is no Hopper");
    struct shape s = {&SCALES[1], STORAGE_BF16, 5, 64, 256, false, "fp8"};
    struct weights w = make_weights(s.scales, s.features, s.cols);
    float *x = values_of_rows(s.rows, s.cols);
    memset(x, 0, s.cols * sizeof *x);
    for (uint32_t k = 0; k < s.cols; k++) /* the largest is below 2^-100 */
        x[s.cols + k] *= 0x1p-110f;
    x[2 * s.cols + 77] = NAN;
    x[3 * s.cols + 5] = INFINITY;
    float *got = run(&s, &w, x, NULL, s.rows);
    for (uint32_t n = 0; n < s.features; n++) {
        EXPECT(got[n] == 0 && got[s.features + n] == 0);
        EXPECT(isnan(got[2 * s.features + n]) && isnan(got[3 * s.features + n]));
        EXPECT(isfinite(got[4 * s.features + n]));
    }
    free(got);
    free(x);
    free_weights(&w);
}

/* The scalar definition, on the device of those. */
TEST(the_reference_rounds_activations_as_the_test_does) {
    enum { ROWS = 3, FEATURES = 5, COLS = 256 };
    struct rig r = rig_open(STORAGE_F32);
    struct weights w = make_weights(&SCALES[1], FEATURES, COLS);
    struct matrix m = w.host;
    float *x = values_of_rows(ROWS, COLS), out[ROWS * FEATURES], rounded[COLS], row[COLS];
    m.compute = COMPUTE_FP8_PROMPTS;
    r.ref->ops->linear(
        r.ref_stream,
        &(struct op_linear){
            .out = out, .x = x, .w = &m, .rows = ROWS, .class_rows = 1, .out_stride = FEATURES});
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t n = 0; n < FEATURES; n++) {
            double sum = 0, size = 0;
            memcpy(rounded, x + t * COLS, sizeof rounded);
            if (t >= 1)
                round_row(x + t * COLS, COLS, rounded);
            matrix_dequantize(&m, n, 0, COLS, row);
            for (uint32_t k = 0; k < COLS; k++) {
                sum += (double)rounded[k] * row[k];
                size += fabs((double)rounded[k] * row[k]);
            }
            EXPECT(fabs(out[t * FEATURES + n] - sum) <= UNIT_ROUNDOFF * 1.01 * size);
        }
    free(x);
    free_weights(&w);
    rig_close(&r);
}

TEST(fp8_is_for_weights_in_fp8_and_gpus_that_have_it) {
    struct device *dev = NULL;
    struct error err;
    EXPECT_EQ(device_open(&(struct device_options){.compute = "fp8"}, &dev, &err), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "'fp8' is one of GPUs"));
    if (!has_fp8())
        SKIP("gpu", "it is no Hopper");
    struct rig r = rig_open_to(STORAGE_BF16, "fp8");
    struct matrix m = {.type = STORAGE_F8_E4M3, .rows = 64, .cols = 256, .segment_count = 1};
    m.segments[0].rows = 64;
    EXPECT(device_compute(r.dev, &m) == COMPUTE_FP8);
    EXPECT_STR(compute_name(device_compute(r.dev, &m)), "fp8");
    m.cols = 192;
    EXPECT(device_compute(r.dev, &m) == COMPUTE_F32);
    m.cols = 256;
    m.type = STORAGE_BF16;
    EXPECT(device_compute(r.dev, &m) == COMPUTE_F32);
    rig_close(&r);
    if (!emu_launch_count())
        return; /* a GPU is what it is */
    emu_set_device(89, 89);
    EXPECT_EQ(
        device_open(&(struct device_options){.kind = "cuda", .compute = "fp8-prompts"}, &dev, &err),
        ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "needs a GPU of compute capability 9.0"));
    emu_set_device(90, 90);
}
