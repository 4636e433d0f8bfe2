/* linear, rmsnorm, gated activation, embedding: each instruction set against the scalar
 * definition. */
#include "rig.h"

/* ---- linear ---- */

struct problem {
    uint32_t rows, n, k;
    enum storage_type type;
    bool bias;
    float *x, *w, *bias_values; /* w as stored, widened */
    void *stored_w;
    struct matrix matrix;
};

/* Three parts, as merged Q, K and V have. */
static void problem_init(struct problem *p, uint32_t rows, uint32_t n, uint32_t k,
                         enum storage_type type, bool bias) {
    *p = (struct problem){.rows = rows, .n = n, .k = k, .type = type, .bias = bias};
    p->x = random_array((size_t)rows * k);
    p->w = random_array((size_t)n * k);
    p->stored_w = stored(type, p->w, (size_t)n * k);
    for (size_t i = 0; i < (size_t)n * k; i++)
        p->w[i] = storage_get(type, p->stored_w, i);
    p->bias_values = random_array(n);
    p->matrix =
        (struct matrix){.type = type, .rows = n, .cols = k, .bias = bias ? p->bias_values : NULL};
    uint32_t cuts[4] = {0, n / 2, n / 2 + n / 3, n};
    for (int i = 0; i < 3; i++)
        if (cuts[i + 1] > cuts[i])
            p->matrix.segments[p->matrix.segment_count++] = (struct matrix_segment){
                .data = (char *)p->stored_w + storage_bytes(type, (size_t)cuts[i] * k),
                .rows = cuts[i + 1] - cuts[i]};
}
static void problem_release(struct problem *p) {
    unguard(p->x);
    unguard(p->w);
    unguard(p->bias_values);
    free(p->stored_w);
}

static float *run_linear(struct bench *b, const struct problem *p, uint32_t stride) {
    float *out = guarded((size_t)p->rows * stride);
    b->dev->ops->linear(b->stream, &(struct op_linear){.out = out,
                                                       .x = p->x,
                                                       .w = &p->matrix,
                                                       .rows = p->rows,
                                                       .class_rows = p->rows,
                                                       .out_stride = stride});
    return out;
}

/* As ops.h promises: 2 u sum|terms| (terms / lanes + log2(lanes) + 2); the lanes are at least 4. */
static double linear_tolerance(const struct problem *p, uint32_t t, uint32_t n) {
    double sum = p->bias ? fabs((double)p->bias_values[n]) : 0;
    for (uint32_t k = 0; k < p->k; k++)
        sum += fabs((double)p->x[(size_t)t * p->k + k] * p->w[(size_t)n * p->k + k]);
    return 2 * UNIT_ROUNDOFF * sum * (p->k / 4.0 + 2 + 2);
}

static void check_linear(const char *isa, uint32_t rows, uint32_t n, uint32_t k,
                         enum storage_type type, bool bias) {
    struct bench b = bench_open(isa, 2), ref = bench_open("ref", 1);
    struct problem p;
    problem_init(&p, rows, n, k, type, bias);
    uint32_t stride = n + 3;
    float *out = run_linear(&b, &p, stride), *want = run_linear(&ref, &p, stride);
    if (!guards_intact(out, (size_t)rows * stride))
        check_fail(__FILE__, __LINE__, "%s: linear wrote outside its output", isa);
    for (uint32_t t = 0; t < rows; t++)
        for (uint32_t i = 0; i < stride; i++) {
            float x = out[t * stride + i], y = want[t * stride + i];
            if (i >= n ? memcmp(&x, &GUARD_BITS, 4) != 0
                       : !(fabs((double)x - y) <= linear_tolerance(&p, t, i)))
                check_fail(__FILE__, __LINE__,
                           "%s %s: [%u, %u] x %u: row %u column %u is %g, expected %g", isa,
                           storage_name(type), rows, n, k, t, i, (double)x, (double)y);
        }
    unguard(out);
    unguard(want);
    problem_release(&p);
    bench_close(&b);
    bench_close(&ref);
}

TEST(linear_equals_its_definition_over_the_sweep) {
    static const uint32_t rows[] = {0, 1, 2, 5, 6, 7, 13},
                          columns[] = {1, 3, 7, 8, 9, 15, 16, 17, 37},
                          widths[] = {1, 3, 15, 16, 17, 31, 32, 64, 97};
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(columns); i++)
        for (size_t t = 0; t < ARRAY_LEN(TYPES); t++) {
            uint32_t k = widths[check_random() % ARRAY_LEN(widths)];
            check_linear(isa, rows[i % ARRAY_LEN(rows)], columns[i / ARRAY_LEN(rows)], k, TYPES[t],
                         i & 1);
        }
}

TEST(linear_takes_every_width) {
    FOR_EACH_ISA(isa)
    for (uint32_t k = 1; k <= 66; k++)
        check_linear(isa, 3, 9, k, TYPES[k % 3], false);
}

TEST(linear_is_right_when_it_runs_in_parallel) {
    FOR_EACH_ISA(isa) {
        check_linear(isa, 1, 1031, 512, STORAGE_BF16, true);
        check_linear(isa, 19, 530, 257, STORAGE_F16, false);
    }
}

/* A row's bits depend neither on the number of rows, nor on its place, nor on threads. */
TEST(linear_rows_do_not_know_their_neighbours) {
    FOR_EACH_ISA(isa)
    for (size_t type = 0; type < ARRAY_LEN(TYPES); type++) {
        struct bench b = bench_open(isa, 1), two = bench_open(isa, 2);
        struct problem all;
        problem_init(&all, 29, 200, 515, TYPES[type], true);
        float *want = run_linear(&b, &all, 200), *parallel = run_linear(&two, &all, 200);
        EXPECT(same_bits(want, parallel, 29 * 200));
        for (uint32_t first = 0; first < 29; first += 3)
            for (uint32_t count = 1; count <= 29 - first; count += count < 9 ? 1 : 4) {
                struct problem some = all;
                some.x = all.x + (size_t)first * all.k;
                some.rows = count;
                float *out = run_linear(&b, &some, 200);
                EXPECT(same_bits(out, want + (size_t)first * 200, (size_t)count * 200));
                unguard(out);
            }
        unguard(want);
        unguard(parallel);
        problem_release(&all);
        bench_close(&b);
        bench_close(&two);
    }
}

/* More rows than one pass of any kernel takes, whole blocks of weights and a rest. */
static void check_many_rows(const char *isa, uint32_t rows, uint32_t columns, uint32_t width,
                            enum storage_type type) {
    struct bench b = bench_open(isa, 2);
    struct problem all;
    problem_init(&all, rows, columns, width, type, true);
    float *want = run_linear(&b, &all, columns);
    for (uint32_t t = check_random() % 9; t < rows; t += 9) {
        struct problem one = all;
        one.x = all.x + (size_t)t * width;
        one.rows = 1;
        float *out = run_linear(&b, &one, columns);
        EXPECT(same_bits(out, want + (size_t)t * columns, columns));
        unguard(out);
    }
    unguard(want);
    problem_release(&all);
    bench_close(&b);
}

TEST(linear_of_many_rows_has_the_bits_of_each_alone) {
    FOR_EACH_ISA(isa)
    for (size_t type = 0; type < ARRAY_LEN(TYPES); type++) {
        check_many_rows(isa, 270, 200, 544, TYPES[type]);
        /* columns past two blocks of the widest kernel, outputs that leave a rest */
        check_many_rows(isa, 101, 45, 2 * 2048 + 67, TYPES[type]);
        check_many_rows(isa, 49, 33, 2048 + 264, TYPES[type]);
    }
}

TEST(linear_hands_on_what_is_not_finite) {
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 1);
        struct problem p;
        problem_init(&p, 2, 5, 40, STORAGE_F32, false);
        p.x[3] = NAN;
        float *out = run_linear(&b, &p, 5);
        for (int i = 0; i < 5; i++)
            EXPECT(isnan(out[i]) && isfinite(out[5 + i]));
        unguard(out);
        problem_release(&p);
        bench_close(&b);
    }
}

/* ---- rmsnorm ---- */

static void check_rmsnorm(const char *isa, uint32_t rows, uint32_t width, bool delta,
                          float offset) {
    struct bench b = bench_open(isa, 2), ref = bench_open("ref", 1);
    size_t count = (size_t)rows * width;
    float *x = random_array(count), *y = guarded(count), *d = random_array(count),
          *w = random_array(width), *out = guarded(count), *want = guarded(count);
    memcpy(y, x, count * sizeof *x);
    struct op_rmsnorm op = {.out = out,
                            .x = x,
                            .delta = delta ? d : NULL,
                            .weight = width % 4 == 3 ? NULL : w, /* the sum itself */
                            .rows = rows,
                            .width = width,
                            .eps = 1e-5f,
                            .weight_offset = offset};
    b.dev->ops->rmsnorm(b.stream, &op);
    op.out = want;
    op.x = y;
    ref.dev->ops->rmsnorm(ref.stream, &op);
    EXPECT(guards_intact(x, count) && guards_intact(out, count));
    EXPECT(same_bits(x, y, count)); /* one rounded addition */
    for (size_t i = 0; i < count;
         i++) { /* the sum of squares is relatively exact; its root halves the error */
        double tolerance = UNIT_ROUNDOFF * (width / 4.0 + 16) * (fabs((double)want[i]) + 1e-30);
        if (!(fabs((double)out[i] - want[i]) <= tolerance))
            check_fail(__FILE__, __LINE__, "%s: [%u, %u] at %zu: %g, expected %g", isa, rows, width,
                       i, (double)out[i], (double)want[i]);
    }
    float *arrays[] = {x, y, d, w, out, want};
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
        unguard(arrays[i]);
    bench_close(&b);
    bench_close(&ref);
}

TEST(rmsnorm_equals_its_definition_over_the_sweep) {
    static const uint32_t widths[] = {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 61, 256, 1031};
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(widths); i++)
        for (uint32_t rows = 0; rows < 4; rows++)
            check_rmsnorm(isa, rows * 37 % 101, widths[i], rows & 1, rows == 2 ? 1.0f : 0.0f);
}

/* ---- gated activation ---- */

static void check_act(const char *isa, enum activation kind, uint32_t rows, uint32_t width) {
    struct bench b = bench_open(isa, 2), ref = bench_open("ref", 1);
    size_t count = (size_t)rows * width;
    float *x = random_array(2 * count), *out = guarded(count), *want = guarded(count);
    for (size_t i = 0; i < 2 * count; i++)
        x[i] *= 20;
    struct op_act_mul op = {
        .out = out, .gate_up = x, .rows = rows, .width = width, .activation = kind};
    b.dev->ops->act_mul(b.stream, &op);
    op.out = want;
    ref.dev->ops->act_mul(ref.stream, &op);
    EXPECT(guards_intact(out, count));
    for (size_t i = 0; i < count; i++) {
        /* silu: 4 ulp and the product's rounding. gelu: the argument of exp, up to 88, carries 4
         * roundings. */
        /* Past exp's range, at 88.72, the factor is 0 instead of at most 88.72 e^-88.72 = 2.7e-37
         * (gelu: much less). */
        double up = x[(i / width) * 2 * width + width + i % width];
        double tolerance =
            UNIT_ROUNDOFF * (kind == ACTIVATION_SILU ? 12 : 800) * fabs((double)want[i]) +
            2.7e-37 * fabs(up);
        if (!(fabs((double)out[i] - want[i]) <= tolerance))
            check_fail(__FILE__, __LINE__, "%s: %g, expected %g", isa, (double)out[i],
                       (double)want[i]);
    }
    unguard(x);
    unguard(out);
    unguard(want);
    bench_close(&b);
    bench_close(&ref);
}

TEST(gated_activations_equal_their_definition) {
    static const uint32_t widths[] = {1, 3, 8, 15, 16, 17, 172, 1031};
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        check_act(isa, ACTIVATION_SILU, 5, widths[i]);
        check_act(isa, ACTIVATION_GELU_TANH, 3, widths[i]);
    }
}

/* ---- embedding ---- */

TEST(embedding_copies_rows_exactly_and_zeroes_padding) {
    FOR_EACH_ISA(isa)
    for (size_t type = 0; type < ARRAY_LEN(TYPES); type++)
        for (uint32_t width = 1; width < 40; width += 6) {
            struct bench b = bench_open(isa, 1);
            float *values = random_array((size_t)11 * width), *out = guarded((size_t)6 * width);
            void *table = stored(TYPES[type], values, (size_t)11 * width);
            struct matrix m = {.type = TYPES[type],
                               .rows = 11,
                               .cols = width,
                               .segment_count = 1,
                               .segments = {{table, 11}}};
            /* a part of a larger table: the last two ids are of others */
            uint32_t first = width % 4 == 1 ? 20 : 0;
            uint32_t ids[] = {first + 10, first, first + 5, first + 3, first + 11, first - 1};
            uint32_t positions[] = {7, 0, ROW_NONE, 1, 2, 3};
            struct step_batch batch = {.row_count = 6, .ids = ids, .positions = positions};
            b.dev->ops->embed(
                b.stream,
                &(struct op_embed){
                    .out = out, .table = &m, .batch = &batch, .scale = 2, .first = first});
            for (uint32_t t = 0; t < 6; t++)
                for (uint32_t i = 0; i < width; i++) {
                    bool none = t == 2 || t > 3;
                    EXPECT(
                        out[t * width + i] ==
                        (none ? 0
                              : 2 * storage_get(TYPES[type], table, (ids[t] - first) * width + i)));
                }
            EXPECT(guards_intact(out, (size_t)6 * width));
            free(table);
            unguard(values);
            unguard(out);
            bench_close(&b);
        }
}
