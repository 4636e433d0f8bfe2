/* The operations of ops_rows.h on the emulated device against the definitions. */
#include "rig.h"

static const uint32_t WIDTHS[] = {1, 7, 31, 32, 33, 64, 257, 300};

/* Device results against the definition's, which took the same rounded inputs. */
static void compare_as(struct rig *r, const char *what, enum storage_type type, const void *dev,
                       const float *want, size_t count, double size) {
    float *got = rig_down(r, type, dev, count);
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <= rounding(type) * 1.01 * fabs(want[i]) +
                                                    UNIT_ROUNDOFF * 64 * (size + fabs(want[i])) +
                                                    rounding_floor(type))) {
            check_fail(__FILE__, __LINE__, "%s, %s: value %zu is %g, expected %g", what,
                       storage_name(type), i, (double)got[i], (double)want[i]);
            break;
        }
    free(got);
}
static void compare(struct rig *r, const char *what, const void *dev, const float *want,
                    size_t count, double size) {
    compare_as(r, what, r->act, dev, want, count, size);
}

TEST(norms_equal_their_definition) {
    for (size_t i = 0; i < ARRAY_LEN(WIDTHS) * 2; i++) {
        uint32_t width = WIDTHS[i / 2], rows = 3, heads = 2, stride = heads * width + 3;
        struct rig r = rig_open(TYPES[i % ARRAY_LEN(TYPES)]);
        size_t count = (size_t)rows * stride;
        float *x = random_values(count), *d = random_values(count), *w = random_values(2 * width),
              *bias = random_values(2 * width), *want = calloc(count, 4);
        emu_set_order((int)(i % ORDERS), i + 1);
        void *dx = rig_values(&r, r.act, x, count), *dd = rig_values(&r, r.act, d, count),
             *out = rig_alloc(&r, storage_bytes(r.act, count));
        void *dw = rig_values(&r, STORAGE_F32, w, 2 * width),
             *db = rig_values(&r, STORAGE_F32, bias, 2 * width);
        float squares[6] = {1, 2, 3, 4, 5, 6}, *dsquares = rig_values(&r, STORAGE_F32, squares, 6);
        struct op_head_norm h = {.x = dx,
                                 .weight = dw,
                                 .bias = i % 2 ? db : NULL,
                                 .rows = rows,
                                 .stride = stride,
                                 .heads = heads,
                                 .width = width,
                                 .centered = i % 2,
                                 .weight_each = i % 4 < 2,
                                 .eps = 1e-3f,
                                 .squares = i % 4 == 2 ? dsquares + 1 : NULL,
                                 .squares_stride = 2,
                                 .whole = 3 * width};
        struct op_row_squares q = {dsquares + 1, dx, rows, stride, width, 2};
        r.dev->ops->rows->row_squares(r.stream, &q);
        r.dev->ops->rows->head_norm(r.stream, &h);
        memcpy(want, x, count * 4);
        q.out = squares + 1, q.x = want;
        r.ref->ops->rows->row_squares(r.ref_stream, &q);
        compare_as(&r, "squares", STORAGE_F32, dsquares, squares, 2 * rows, width);
        h.x = want, h.weight = w, h.bias = i % 2 ? bias : NULL;
        if (h.squares)
            h.squares = squares + 1;
        r.ref->ops->rows->head_norm(r.ref_stream, &h);
        compare(&r, "head norm", dx, want, count, 32);
        for (size_t n = 0; n < count; n++)
            x[n] = 0; /* what the sum gives, exactly: delta alone */
        const enum storage_type x_type = i % 2 ? STORAGE_F32 : r.act;
        void *zero = rig_values(&r, x_type, x, count);
        struct op_layernorm l = {.out = out,
                                 .x = zero,
                                 .delta = dd,
                                 .delta_scale = 0.5f,
                                 .weight = dw,
                                 .bias = i % 2 ? db : NULL,
                                 .rows = rows,
                                 .width = width,
                                 .eps = 1e-3f,
                                 .weight_offset = 1,
                                 .x_f32 = i % 2};
        r.dev->ops->rows->layernorm(r.stream, &l);
        memset(x, 0, count * 4);
        l.out = want, l.x = x, l.delta = d, l.weight = w, l.bias = i % 2 ? bias : NULL;
        r.ref->ops->rows->layernorm(r.ref_stream, &l);
        compare(&r, "layer norm", out, want, (size_t)rows * width, 64);
        compare_as(&r, "sum", x_type, zero, x, (size_t)rows * width, 0);
        rig_close(&r);
        free(x), free(d), free(w), free(bias), free(want);
    }
    emu_set_order(0, 1);
}

/* Exactly: sums in order, in f32, rounded once, as ranks in shared memory make them. */
TEST(addends_are_summed_in_order_and_rounded_once) {
    enum { ADDENDS_MAX = 8 };
    for (size_t i = 0; i < ARRAY_LEN(WIDTHS) * 3; i++) {
        const enum storage_type act = TYPES[i % 3], type = i % 2 ? STORAGE_F32 : act;
        const uint32_t count = WIDTHS[i / 3] * (i % 4 ? 7 : 8),
                       addends = 1 + (uint32_t)i % ADDENDS_MAX;
        struct rig r = rig_open(act);
        float *x = random_values((size_t)count * addends), *want = calloc(count, 4);
        void *from = rig_values(&r, type, x, (size_t)count * addends),
             *out = rig_alloc(&r, storage_bytes(type, count));
        r.dev->ops->rows->sum_addends(r.stream,
                                      &(struct op_sum_addends){out, from, addends, count, i % 2});
        r.ref->ops->rows->sum_addends(r.ref_stream,
                                      &(struct op_sum_addends){want, x, addends, count, true});
        for (uint32_t n = 0; n < count; n++) {
            storage_put(type, x, 0, want[n]);
            want[n] = storage_get(type, x, 0);
        }
        float *got = rig_down(&r, type, out, count);
        EXPECT(same_bits(got, want, count));
        rig_close(&r);
        free(got), free(x), free(want);
    }
}

TEST(values_equal_their_definitions) {
    static const uint32_t positions[] = {0, ROW_NONE, 3, 9};
    for (size_t i = 0; i < ARRAY_LEN(WIDTHS) * 3; i++) {
        uint32_t width = WIDTHS[i / 3], rows = 4, table_rows = 6;
        struct rig r = rig_open(TYPES[i % ARRAY_LEN(TYPES)]);
        size_t count = (size_t)rows * width;
        float *x = random_values(count), *table = random_values((size_t)table_rows * width),
              *want = calloc(count, 4);
        void *dx = rig_values(&r, r.act, x, count),
             *out = rig_alloc(&r, storage_bytes(r.act, count));
        for (int kind = 1; kind < ACTIVATION_COUNT; kind++) {
            struct op_activate a = {out, dx, rows, width, kind};
            r.dev->ops->rows->activate(r.stream, &a);
            a.out = want, a.x = x;
            r.ref->ops->rows->activate(r.ref_stream, &a);
            compare(&r, "activation", out, want, count, 30);
        }
        float *logits = rig_values(&r, STORAGE_F32, memcpy(want, x, count * 4), count);
        struct op_finish_logits l = {logits, rows, width, 1.5f, i % 2 ? 2.0f : 0};
        r.dev->ops->rows->finish_logits(r.stream, &l);
        l.logits = want;
        r.ref->ops->rows->finish_logits(r.ref_stream, &l);
        float *got = rig_down(&r, STORAGE_F32, logits, count);
        for (size_t n = 0; n < count; n++)
            EXPECT(fabs((double)got[n] - want[n]) <= 8 * UNIT_ROUNDOFF * fabs(want[n]));
        free(got);
        memcpy(want, x, count * 4);
        struct matrix m = {.type = r.act, .rows = table_rows, .cols = width, .segment_count = 1};
        m.segments[0] = (struct matrix_segment){
            .data = rig_values(&r, r.act, table, (size_t)table_rows * width), .rows = table_rows};
        struct step_batch batch = {.row_count = rows,
                                   .positions = rig_up(&r, positions, sizeof positions)};
        r.dev->ops->rows->add_positions(r.stream, &(struct op_add_positions){dx, &m, 2, &batch});
        m = (struct matrix){.type = STORAGE_F32,
                            .rows = table_rows,
                            .cols = width,
                            .segment_count = 1,
                            .segments = {{.data = table, .rows = table_rows}}};
        batch.positions = (uint32_t *)(uintptr_t)positions;
        r.ref->ops->rows->add_positions(r.ref_stream,
                                        &(struct op_add_positions){want, &m, 2, &batch});
        compare(&r, "positions", dx, want, count, 0);
        void *dc = rig_values(&r, r.act, memcpy(want, x, count * 4), count);
        r.dev->ops->rows->clamp(r.stream, &(struct op_clamp){dc, rows, width, 0.5f});
        r.ref->ops->rows->clamp(r.ref_stream, &(struct op_clamp){want, rows, width, 0.5f});
        compare(&r, "clamp", dc, want, count, 0);
        rig_close(&r);
        free(x), free(table), free(want);
    }
}
