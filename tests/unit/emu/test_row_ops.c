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

/* ---- norms of heads on the way of the rotation ---- */

struct heads_shape {
    enum storage_type act, cache;
    uint32_t heads, kv_heads, dim, half; /* half 0: nothing is rotated */
    bool interleaved;
};

/* What rope_kv does with norms equals, bit for bit, what the norms' own kernels and then rope_kv leave: Q,
 * and the cache; K and V of qkv stay as they were, and so do rows of padding. */
static void check_normed_rope(const struct heads_shape *s) {
    enum { BLOCK = 16, BLOCKS = 2, SLOTS = 3, ROWS = 5 };
    struct rig r = rig_open(s->act);
    const struct ops *ops = r.dev->ops;
    const uint32_t stride = (s->heads + 2 * s->kv_heads) * s->dim, half = s->half;
    const size_t count = (size_t)ROWS * stride,
                 block_bytes = ops->kv_layer_bytes(s->cache, BLOCK, s->kv_heads, s->dim) + 64,
                 cache_bytes = block_bytes * BLOCKS * SLOTS;
    uint32_t tables[SLOTS * BLOCKS], slots[ROWS], positions[ROWS];
    for (uint32_t i = 0; i < SLOTS * BLOCKS; i++)
        tables[i] = (i * 5 + 2) % (SLOTS * BLOCKS);
    for (uint32_t t = 0; t < ROWS; t++) {
        slots[t] = t % SLOTS;
        positions[t] = t == 1 ? (uint32_t)ROW_NONE : (t * 7 + 12) % (BLOCK * BLOCKS);
    }
    struct step_batch batch = {.row_count = ROWS,
                               .slots = rig_up(&r, slots, sizeof slots),
                               .positions = rig_up(&r, positions, sizeof positions)};
    struct kv_view kv = {.block_stride = block_bytes,
                         .layer_offset = 64,
                         .type = s->cache,
                         .block_tokens = BLOCK,
                         .kv_heads = s->kv_heads,
                         .head_dim = s->dim,
                         .block_count = BLOCKS * SLOTS,
                         .tables = rig_up(&r, tables, sizeof tables),
                         .max_blocks = BLOCKS};
    float *x = random_values(count), *turns = random_values(half + 1),
          *weights = random_values(2 * (size_t)s->dim),
          *angles = rig_alloc(&r, ROWS * half * 8 + 8);
    if (half)
        ops->rope_angles(r.stream,
                         &(struct op_rope_angles){angles, rig_values(&r, STORAGE_F32, turns, half),
                                                  half, 1, &batch, false});
    void *apart = rig_values(&r, s->act, x, count), *folded = rig_values(&r, s->act, x, count),
         *cache_apart = rig_alloc(&r, cache_bytes), *cache_folded = rig_alloc(&r, cache_bytes);
    const float *q = rig_values(&r, STORAGE_F32, weights, 2 * (size_t)s->dim);
    const struct rope_norms norms = {q, q + s->dim, 1e-3f, 0.25f};
    struct op_head_norm norm = {.x = apart,
                                .weight = norms.q,
                                .rows = ROWS,
                                .stride = stride,
                                .heads = s->heads,
                                .width = s->dim,
                                .eps = norms.eps,
                                .weight_offset = norms.weight_offset};
    ops->rows->head_norm(r.stream, &norm);
    norm.x = (char *)apart + storage_bytes(s->act, (size_t)s->heads * s->dim);
    norm.weight = norms.k;
    norm.heads = s->kv_heads;
    ops->rows->head_norm(r.stream, &norm);
    struct op_rope_kv rope = {
        apart, half ? angles : NULL, half, s->interleaved, s->heads, &kv, &batch, NULL};
    kv.base = cache_apart;
    ops->rope_kv(r.stream, &rope);
    rope.qkv = folded;
    rope.norms = &norms;
    kv.base = cache_folded;
    EXPECT(ops->norms_heads);
    const uint64_t launched = emu_launch_count();
    ops->rope_kv(r.stream, &rope);
    if (emu_launch_count())
        EXPECT_EQ(emu_launch_count() - launched, 1);
    uint8_t *want_cache = malloc(cache_bytes), *got_cache = malloc(cache_bytes);
    stream_copy_out(r.stream, want_cache, cache_apart, cache_bytes);
    stream_copy_out(r.stream, got_cache, cache_folded, cache_bytes);
    float *want = rig_down(&r, s->act, apart, count), *got = rig_down(&r, s->act, folded, count);
    if (memcmp(want_cache, got_cache, cache_bytes))
        check_fail(__FILE__, __LINE__, "%u + 2 * %u heads of %u, cache in %s: it differs", s->heads,
                   s->kv_heads, s->dim, storage_name(s->cache));
    for (size_t i = 0; i < count; i++) {
        const bool written =
            positions[i / stride] != (uint32_t)ROW_NONE && i % stride < s->heads * s->dim;
        if (!same_bits(got + i, (written ? want : x) + i, 1)) {
            check_fail(__FILE__, __LINE__, "%u + 2 * %u heads of %u: row %zu, value %zu", s->heads,
                       s->kv_heads, s->dim, i / stride, i % stride);
            break;
        }
    }
    rig_close(&r);
    free(x), free(turns), free(weights), free(want), free(got), free(want_cache), free(got_cache);
}

TEST(heads_normed_on_the_way_have_the_bits_of_norms_and_rotation) {
    static const struct heads_shape SHAPES[] = {
        {STORAGE_BF16, STORAGE_BF16, 5, 1, 128, 64, false},
        {STORAGE_BF16, STORAGE_I8, 4, 2, 64, 32, false},
        {STORAGE_BF16, STORAGE_F8_E4M3, 1, 1, 80, 20, true},
        {STORAGE_F16, STORAGE_F16, 3, 3, 256, 128, true},
        {STORAGE_F16, STORAGE_I8, 2, 1, 96, 0, false},
        {STORAGE_F32, STORAGE_F32, 6, 2, 40, 12, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(SHAPES) * ORDERS; i++) {
        emu_set_order((int)(i % ORDERS), i + 1);
        check_normed_rope(&SHAPES[i / ORDERS]);
    }
    emu_set_order(0, 1);
}
