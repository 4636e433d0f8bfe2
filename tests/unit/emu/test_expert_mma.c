/* Products of a mixture's experts with weights and rows of one 16-bit type, on Hopper and on other GPUs: against
 * the definition, and bits against how many rows an expert has, where they lie and thread order. */
#include "experts_rig.h"

/* Rows of each expert: blocks of 8, 32, 64 and 128 rows, by how many an expert has on average. */
static const uint32_t COUNTS[][EXPERTS] = {
    {3, 0, 9, 1, 5}, {0, 33, 7, 40, 1}, {65, 0, 130, 3, 1}, {0, 129, 360, 2, 1}};

/* Features of the two parts of a matrix: whole blocks; parts that end within one, and within a line of 8; one. */
static const uint32_t PARTS[][2] = {{64, 128}, {44, 91}, {0, 130}};

struct mixture {
    enum storage_type act;
    const uint32_t *parts;
    uint32_t features, cols;
    float *w, *bias; /* [EXPERTS, features, cols]; [EXPERTS, features], or NULL */
};

static struct mixture mixture_new(enum storage_type act, const uint32_t parts[2], uint32_t cols,
                                  bool bias) {
    struct mixture m = {.act = act, .parts = parts, .features = parts[0] + parts[1], .cols = cols};
    m.w = random_values((size_t)EXPERTS * m.features * cols);
    m.bias = bias ? random_values((size_t)EXPERTS * m.features) : NULL;
    return m;
}

static void mixture_free(struct mixture *m) {
    free(m->w);
    free(m->bias);
}

/* On the device, each expert of as many segments as it has parts; weights are rounded to their type. */
static struct expert_matrix put_experts_up(struct rig *r, struct mixture *m) {
    struct matrix experts[EXPERTS];
    const float *bias =
        m->bias ? rig_values(r, STORAGE_F32, m->bias, (size_t)EXPERTS * m->features) : NULL;
    for (uint32_t e = 0; e < EXPERTS; e++) {
        float *w = m->w + (size_t)e * m->features * m->cols;
        experts[e] = (struct matrix){.type = m->act,
                                     .rows = m->features,
                                     .cols = m->cols,
                                     .segment_count = 2,
                                     .bias = bias ? bias + (size_t)e * m->features : NULL};
        for (uint32_t i = 0; i < 2; w += (size_t)m->parts[i++] * m->cols)
            experts[e].segments[i] = (struct matrix_segment){
                .data = rig_values(r, m->act, w, (size_t)m->parts[i] * m->cols),
                .rows = m->parts[i]};
    }
    return (struct expert_matrix){.type = m->act,
                                  .rows = m->features,
                                  .cols = m->cols,
                                  .expert_count = EXPERTS,
                                  .experts = rig_up(r, experts, sizeof experts)};
}

/* [pairs, features]; x [pairs, cols] is rounded to its type. Three values behind the last row stay untouched. */
static float *run_experts(struct mixture *m, const uint32_t counts[EXPERTS], float *x) {
    struct rig r = rig_open(m->act);
    uint32_t offsets[EXPERTS + 1] = {0};
    for (uint32_t e = 0; e < EXPERTS; e++)
        offsets[e + 1] = offsets[e] + counts[e];
    const uint32_t pairs = offsets[EXPERTS];
    const size_t values = (size_t)pairs * m->features;
    const struct expert_matrix w = put_experts_up(&r, m);
    void *xs = rig_values(&r, m->act, x, (size_t)pairs * m->cols),
         *out = rig_alloc(&r, storage_bytes(m->act, values + 3));
    const struct expert_plan plan = {.offsets = rig_up(&r, offsets, sizeof offsets)};
    r.dev->ops->expert_linear(r.stream,
                              &(struct op_expert_linear){out, xs, &w, &plan, pairs, 1, NULL});
    float *got = rig_down(&r, m->act, out, values + 3);
    for (size_t i = values; i < values + 3; i++)
        if (!isnan(got[i]))
            check_fail(__FILE__, __LINE__, "wrote behind the last of %u rows", pairs);
    rig_close(&r);
    return got;
}

/* What a float32 sum may be off is in proportion to the sizes of what is added up (ops.h, lanes = 1). `each`: one
 * value of so many is looked at. */
static void check_values(const struct mixture *m, const uint32_t counts[EXPERTS], const float *x,
                         const float *got, size_t each) {
    for (uint32_t e = 0, t = 0; e < EXPERTS; e++)
        for (uint32_t i = 0; i < counts[e]; i++, t++)
            for (uint32_t n = 0; n < m->features; n++) {
                const size_t feature = (size_t)e * m->features + n;
                if (((size_t)t * m->features + n) % each)
                    continue;
                const float *row = m->w + feature * m->cols, *of = x + (size_t)t * m->cols;
                double sum = m->bias ? m->bias[feature] : 0, size = fabs(sum);
                for (uint32_t k = 0; k < m->cols; k++) {
                    sum += (double)of[k] * row[k];
                    size += fabs((double)of[k] * row[k]);
                }
                const double tolerance = 2 * UNIT_ROUNDOFF * size * (m->cols + 2) +
                                         rounding(m->act) * fabs(sum) * 1.01 +
                                         rounding_floor(m->act),
                             value = got[(size_t)t * m->features + n];
                if (!(fabs(value - sum) <= tolerance)) {
                    check_fail(__FILE__, __LINE__,
                               "%s, %u and %u features of %u: expert %u, row %u, feature %u is %g, "
                               "expected %g",
                               storage_name(m->act), m->parts[0], m->parts[1], m->cols, e, t, n,
                               value, sum);
                    return;
                }
            }
}

/* k: less than a stage and no whole 32, stages that end within one, rings that come round (those of few rows have the
 * longest). */
TEST(products_of_experts_of_16_bits_equal_the_definition) {
    static const uint32_t few[] = {8, 264, 712}, more[] = {8, 168, 328};
    const struct drawn drawn = drawn_of(ARRAY_LEN(COUNTS) * ARRAY_LEN(PARTS));
    for (uint32_t i = 0; i < ARRAY_LEN(COUNTS); i++)
        for (uint32_t p = 0; p < ARRAY_LEN(PARTS); p++) {
            if (!is_long() && !is_drawn(drawn, i * ARRAY_LEN(PARTS) + p) && p != i % 3)
                continue;
            use_device(i + p);
            struct mixture m =
                mixture_new(TYPES[1 + (i + p) % 2], PARTS[p], (i ? more : few)[(i + p) % 3], p % 2);
            const uint32_t pairs = sum_of(COUNTS[i]);
            float *x = small_values((size_t)pairs * m.cols), *first = NULL;
            for (int order = 0; order < (is_long() ? ORDERS : 2); order++) {
                emu_set_order(order, 5);
                float *got = run_experts(&m, COUNTS[i], x);
                if (first && !same_bits(first, got, (size_t)pairs * m.features))
                    check_fail(__FILE__, __LINE__, "%u rows: bits depend on the order of threads",
                               pairs);
                if (first)
                    free(got);
                else
                    first = got;
            }
            emu_set_order(0, 1);
            check_values(&m, COUNTS[i], x, first, is_long() || pairs < 200 ? 1 : 7);
            free(first);
            free(x);
            mixture_free(&m);
        }
    emu_set_device(90, 90);
}

/* Expert 2's row `place` of each count, and that row by itself. */
TEST(a_row_of_an_expert_of_16_bits_has_the_same_bits_whatever_the_rows_beside_it) {
    enum { EXPERT = 2, COLS = 200 };
    static const uint32_t alone[EXPERTS] = {[EXPERT] = 1};
    for (uint32_t p = 0; p < ARRAY_LEN(PARTS); p++) {
        use_device(p);
        struct mixture m = mixture_new(TYPES[1 + p % 2], PARTS[p], COLS, true);
        float *row = small_values(COLS), *one = run_experts(&m, alone, row);
        for (uint32_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
            const uint32_t pairs = sum_of(COUNTS[i]),
                           place = COUNTS[i][0] + COUNTS[i][1] +
                                   (uint32_t)(check_random() % COUNTS[i][EXPERT]);
            if (!is_long() && (i + p) % 3 == 1)
                continue;
            float *x = small_values((size_t)pairs * COLS);
            memcpy(x + (size_t)place * COLS, row, COLS * sizeof *x);
            float *got = run_experts(&m, COUNTS[i], x);
            if (emu_launch_count() && !same_bits(one, got + (size_t)place * m.features, m.features))
                check_fail(__FILE__, __LINE__, "other bits among %u rows", pairs);
            free(got);
            free(x);
        }
        free(one);
        free(row);
        mixture_free(&m);
    }
    emu_set_device(90, 90);
}

TEST(rows_find_their_expert_of_16_bits_among_many) {
    enum { COLS = 40, WIDTH = 24 };
    static const uint32_t most[] = {2, 60, 200}; /* rows an expert has, at most */
    for (uint32_t i = 0; i < ARRAY_LEN(most); i++) {
        struct rig r = rig_open(STORAGE_BF16);
        float zeros[WIDTH * COLS] = {0};
        const void *data = rig_values(&r, STORAGE_BF16, zeros, WIDTH * COLS);
        const struct matrix one = {.type = STORAGE_BF16,
                                   .rows = WIDTH,
                                   .cols = COLS,
                                   .segment_count = 1,
                                   .segments = {{.data = data, .rows = WIDTH}}};
        check_many_experts(&r, &one, false, most[i]);
        rig_close(&r);
    }
}

/* ---- with a gate ---- */

/* What the product makes of gates and ups equals, bit for bit, what their own kernel makes of its out. */
static void check_gated(struct mixture *m, const uint32_t counts[EXPERTS],
                        const struct expert_gate *gate) {
    struct rig r = rig_open(m->act);
    const struct ops *ops = r.dev->ops;
    uint32_t offsets[EXPERTS + 1] = {0};
    for (uint32_t e = 0; e < EXPERTS; e++)
        offsets[e + 1] = offsets[e] + counts[e];
    const uint32_t pairs = offsets[EXPERTS], width = m->features / 2;
    const size_t values = (size_t)pairs * width;
    const struct expert_matrix w = put_experts_up(&r, m);
    float *x = small_values((size_t)pairs * m->cols);
    void *xs = rig_values(&r, m->act, x, (size_t)pairs * m->cols),
         *both = rig_alloc(&r, storage_bytes(m->act, 2 * values)),
         *apart = rig_alloc(&r, storage_bytes(m->act, values)),
         *folded = rig_alloc(&r, storage_bytes(m->act, values + 3));
    const struct expert_plan plan = {.offsets = rig_up(&r, offsets, sizeof offsets)};
    EXPECT(ops->gates_experts(r.dev, &w, gate));
    struct op_expert_linear up = {both, xs, &w, &plan, pairs, 1, NULL};
    ops->expert_linear(r.stream, &up);
    if (gate->activation)
        ops->act_mul(r.stream, &(struct op_act_mul){apart, both, pairs, width, ACTIVATION_SILU});
    else
        ops->clamped_swiglu(r.stream, &(struct op_clamped_swiglu){apart, both, pairs, width,
                                                                  gate->interleaved, gate->limit,
                                                                  gate->alpha});
    up.out = folded;
    up.gate = gate;
    ops->expert_linear(r.stream, &up);
    float *want = rig_down(&r, m->act, apart, values),
          *got = rig_down(&r, m->act, folded, values + 3);
    for (size_t i = 0; i < values + 3; i++)
        if (i < values ? !same_bits(want + i, got + i, 1) || !isfinite(got[i]) : !isnan(got[i])) {
            check_fail(__FILE__, __LINE__, "%u rows, %u features of %u: value %zu is %g, not %g",
                       pairs, m->features, m->cols, i, (double)got[i],
                       i < values ? (double)want[i] : 0.0);
            break;
        }
    rig_close(&r);
    free(x), free(want), free(got);
}

/* Halves: as wide as blocks, no whole line of 8, one segment; gates first, or each before its up. */
TEST(gates_of_experts_have_the_bits_of_product_and_activation) {
    static const uint32_t HALVES[][2] = {{64, 64}, {43, 43}, {0, 90}};
    static const struct expert_gate GATES[] = {
        {ACTIVATION_SILU, false, 0, 0}, {0, true, 0.02f, 1.702f}, {0, false, 0.05f, 1.702f}};
    for (uint32_t i = 0; i < ARRAY_LEN(COUNTS) * 3; i++) {
        const uint32_t *parts = HALVES[i % 3];
        use_device(i);
        emu_set_order((int)(i % ORDERS), i + 1);
        struct mixture m = mixture_new(TYPES[1 + i % 2], parts, i % 2 ? 8 : 72, i / 2 % 2);
        check_gated(&m, COUNTS[i / 3], &GATES[(i + i / 3) % 3]);
        mixture_free(&m);
    }
    emu_set_order(0, 1);
    emu_set_device(90, 90);
}
