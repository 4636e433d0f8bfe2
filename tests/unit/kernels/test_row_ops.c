/* The operations of ops_rows.h and every activation: each instruction set against the scalar
 * definition. */
#include "rig.h"

static const uint32_t WIDTHS[] = {1, 3, 4, 7, 8, 15, 16, 17, 33, 64, 97};

/* |a - b| <= tolerance * (size of the terms) for all; the sizes are given a value each. */
static void compare(const char *what, const char *isa, const float *got, const float *want,
                    const float *size, size_t count, double ulps) {
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <=
              ulps * UNIT_ROUNDOFF * (fabs(size[i]) + fabs(want[i])) + 1e-37)) {
            check_fail(__FILE__, __LINE__, "%s, %s: value %zu is %.9g, expected %.9g", isa, what, i,
                       (double)got[i], (double)want[i]);
            return;
        }
}

static void copy(float *to, const float *from, size_t count) {
    memcpy(to, from, count * sizeof *to);
}

/* An error in the mean is one of all values: the row's largest is the size of a term. */
static void fill_sizes(float *size, const float *x, const float *w, const float *bias,
                       uint32_t rows, uint32_t width, uint32_t weight_rows, float eps) {
    for (uint32_t t = 0; t < rows; t++) {
        double largest = 0, mean = 0, squares = 0;
        for (uint32_t i = 0; i < width; i++)
            mean += x[(size_t)t * width + i] / (double)width;
        for (uint32_t i = 0; i < width; i++) {
            largest = fmax(largest, fabs(x[(size_t)t * width + i]));
            squares += pow(x[(size_t)t * width + i] - mean, 2);
        }
        for (uint32_t i = 0; i < width; i++)
            size[(size_t)t * width + i] =
                (float)(largest / sqrt(squares / width + eps) *
                            (fabs(w[(size_t)(t % weight_rows) * width + i]) + 1) +
                        fabs(bias[(size_t)(t % weight_rows) * width + i]));
    }
}

TEST(layer_norm_equals_its_definition_and_adds_first) {
    struct bench ref = bench_open("ref", 1);
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 2);
        for (size_t n = 0; n < ARRAY_LEN(WIDTHS); n++) {
            uint32_t width = WIDTHS[n], rows = 3;
            size_t count = (size_t)rows * width;
            float *x = random_array(count), *d = random_array(count), *w = random_array(width),
                  *bias = random_array(width), *mine = guarded(count), *theirs = guarded(count),
                  *got = guarded(count), *want = guarded(count), *size = guarded(count);
            copy(mine, x, count);
            copy(theirs, x, count);
            struct op_layernorm a = {.out = got,
                                     .x = mine,
                                     .delta = n % 2 ? d : NULL,
                                     .delta_scale = n % 3 ? 0.25f : 0,
                                     .weight = w,
                                     .bias = n % 3 == 1 ? NULL : bias,
                                     .rows = rows,
                                     .width = width,
                                     .eps = 1e-5f,
                                     .weight_offset = (float)(n % 2)};
            b.dev->ops->rows->layernorm(b.stream, &a);
            a.out = want;
            a.x = theirs;
            ref.dev->ops->rows->layernorm(ref.stream, &a);
            EXPECT(guards_intact(got, count) && guards_intact(mine, count));
            compare("sum", isa, mine, theirs, d, count, 2);
            fill_sizes(size, theirs, w, bias, rows, width, 1, 1e-5f);
            compare("layer norm", isa, got, want, size, count, width / 4.0 + 16);
            unguard(x), unguard(d), unguard(w), unguard(bias), unguard(mine), unguard(theirs),
                unguard(got), unguard(want), unguard(size);
        }
        bench_close(&b);
    }
    bench_close(&ref);
}

TEST(norms_of_heads_equal_their_definition_and_touch_nothing_else) {
    struct bench ref = bench_open("ref", 1);
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 2);
        for (size_t n = 0; n < ARRAY_LEN(WIDTHS) * 4; n++) {
            uint32_t width = WIDTHS[n / 4], rows = 3, heads = 2, stride = heads * width + 5;
            size_t count = (size_t)rows * stride;
            float *x = random_array(count), *w = random_array(heads * width),
                  *bias = random_array(heads * width), *got = guarded(count),
                  *want = guarded(count), *flat = guarded(width), *size = guarded(width);
            const float squares[] = {1.5f * (float)width, 0, 0.3f * (float)width, 0,
                                     9.0f * (float)width};
            copy(got, x, count);
            copy(want, x, count);
            struct op_head_norm a = {.x = got,
                                     .weight = w,
                                     .bias = n % 3 ? NULL : bias,
                                     .rows = rows,
                                     .stride = stride,
                                     .heads = heads,
                                     .width = width,
                                     .centered = n % 2,
                                     .weight_each = n % 4 > 1,
                                     .eps = 1e-6f,
                                     .weight_offset = (float)(n % 2),
                                     .squares = n % 8 == 4 ? squares : NULL,
                                     .squares_stride = 2,
                                     .whole = 3 * width};
            b.dev->ops->rows->head_norm(b.stream, &a);
            a.x = want;
            ref.dev->ops->rows->head_norm(ref.stream, &a);
            EXPECT(guards_intact(got, count));
            for (uint32_t t = 0; t < rows; t++) {
                EXPECT(
                    same_bits(got + t * stride + heads * width, x + t * stride + heads * width, 5));
                for (uint32_t h = 0; h < heads; h++) {
                    size_t at = (size_t)t * stride + h * width, wat = a.weight_each ? h * width : 0;
                    copy(flat, x + at, width);
                    fill_sizes(size, flat, w + wat, bias + wat, 1, width, 1, 1e-6f);
                    for (uint32_t i = 0; a.squares && i < width; i++)
                        size[i] = fabsf(flat[i]) / sqrtf(squares[2 * t] / (float)(3 * width)) *
                                      (fabsf(w[wat + i]) + 1) +
                                  fabsf(bias[wat + i]);
                    compare("head norm", isa, got + at, want + at, size, width, width / 4.0 + 24);
                }
            }
            unguard(x), unguard(w), unguard(bias), unguard(got), unguard(want), unguard(flat),
                unguard(size);
        }
        bench_close(&b);
    }
    bench_close(&ref);
}

TEST(sums_of_squares_equal_their_definition) {
    struct bench ref = bench_open("ref", 1);
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 2);
        for (size_t n = 0; n < ARRAY_LEN(WIDTHS); n++) {
            uint32_t width = WIDTHS[n], rows = 5, stride = width + 3;
            float *x = random_array(rows * stride), *got = guarded(rows * 2),
                  *want = guarded(rows * 2);
            struct op_row_squares a = {got, x, rows, stride, width, 2};
            for (uint32_t i = 0; i < rows * 2; i++)
                got[i] = want[i] = (float)i;
            b.dev->ops->rows->row_squares(b.stream, &a);
            a.out = want;
            ref.dev->ops->rows->row_squares(ref.stream, &a);
            EXPECT(guards_intact(got, rows * 2));
            /* the odd ones are untouched */
            compare("squares", isa, got, want, want, rows * 2, width / 4.0 + 8);
            unguard(x), unguard(got), unguard(want);
        }
        bench_close(&b);
    }
    bench_close(&ref);
}

TEST(activations_equal_their_definitions) {
    struct bench ref = bench_open("ref", 1);
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 2);
        for (int kind = 1; kind < ACTIVATION_COUNT; kind++)
            for (size_t n = 0; n < ARRAY_LEN(WIDTHS); n++) {
                uint32_t width = WIDTHS[n], rows = 3;
                size_t count = (size_t)rows * width;
                float *x = random_array(count * 2), *got = guarded(count), *want = guarded(count);
                struct op_activate a = {got, x, rows, width, kind};
                b.dev->ops->rows->activate(b.stream, &a);
                a.out = want;
                ref.dev->ops->rows->activate(ref.stream, &a);
                EXPECT(guards_intact(got, count));
                compare("activation", isa, got, want, x, count, 12);
                struct op_act_mul m = {got, x, rows, width, (enum activation)kind};
                b.dev->ops->act_mul(b.stream, &m);
                m.out = want;
                ref.dev->ops->act_mul(ref.stream, &m);
                float *size = guarded(count);
                for (uint32_t t = 0; t < rows; t++)
                    for (uint32_t i = 0; i < width; i++)
                        size[t * width + i] = x[t * 2 * width + i] * x[(t * 2 + 1) * width + i];
                compare("gated activation", isa, got, want, size, count, 12);
                unguard(x), unguard(got), unguard(want), unguard(size);
            }
        bench_close(&b);
    }
    bench_close(&ref);
}

TEST(positions_clamps_and_logits_equal_their_definitions) {
    struct bench ref = bench_open("ref", 1);
    static const uint32_t positions[] = {0, ROW_NONE, 3, 9};
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 2);
        for (size_t n = 0; n < ARRAY_LEN(WIDTHS); n++) {
            uint32_t width = WIDTHS[n], rows = 4, table_rows = 6;
            size_t count = (size_t)rows * width;
            float *x = random_array(count), *table = random_array((size_t)table_rows * width),
                  *got = guarded(count), *want = guarded(count);
            struct matrix m = {.type = STORAGE_F32,
                               .rows = table_rows,
                               .cols = width,
                               .segment_count = 1,
                               .segments = {{.data = table, .rows = table_rows}}};
            struct step_batch batch = {.row_count = rows,
                                       .positions = (uint32_t *)(uintptr_t)positions};
            copy(got, x, count);
            struct op_add_positions p = {got, &m, 2, &batch};
            b.dev->ops->rows->add_positions(b.stream, &p);
            for (uint32_t t = 0; t < rows; t++)
                for (uint32_t i = 0; i < width; i++) {
                    bool on = positions[t] != ROW_NONE && positions[t] + 2 < table_rows;
                    EXPECT(got[t * width + i] ==
                           (on ? x[t * width + i] + table[(positions[t] + 2) * width + i]
                               : x[t * width + i]));
                }
            copy(got, x, count);
            b.dev->ops->rows->clamp(b.stream, &(struct op_clamp){got, rows, width, 0.4f});
            for (size_t i = 0; i < count; i++)
                EXPECT(got[i] == fminf(fmaxf(x[i], -0.4f), 0.4f));
            for (int cap = 0; cap < 2; cap++) {
                copy(got, x, count);
                copy(want, x, count);
                struct op_finish_logits l = {got, rows, width, 1.7f, cap ? 0.8f : 0};
                b.dev->ops->rows->finish_logits(b.stream, &l);
                l.logits = want;
                ref.dev->ops->rows->finish_logits(ref.stream, &l);
                EXPECT(guards_intact(got, count));
                compare("logits", isa, got, want, want, count, 4);
            }
            unguard(x), unguard(table), unguard(got), unguard(want);
        }
        bench_close(&b);
    }
    bench_close(&ref);
}
