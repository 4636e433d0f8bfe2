/* linear with quantised weights in the units of sm_90a: against the definition of each type over
 * the sweep, and bits against row count, neighbours and thread order. */
#include "packed_rig.h"

static bool has_units(void) {
    struct rig r = rig_open(STORAGE_BF16);
    bool has = ((struct device *)r.dev)->ops->packed_bytes != NULL;
    struct matrix m = {.type = STORAGE_BF16, .rows = 64, .cols = 64, .segment_count = 1};
    m.segments[0] = (struct matrix_segment){.data = rig_alloc(&r, 64 * 64 * 2), .rows = 64};
    has = has && r.dev->ops->packed_bytes(r.dev, &m, 0);
    rig_close(&r);
    return has;
}

TEST(products_of_weights_in_units_equal_the_definition) {
    static const uint32_t rows[] = {1, 8, 9, 33, 65, 130}, features[] = {64, 192, 128},
                          cols[] = {128, 448, 640, 1152}, large[] = {256, 512, 768, 1280};
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    const struct drawn forms = drawn_of(3); /* three neighbours at a time, which have other rows */
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++)
        for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
            if (!is_drawn(forms, f / 3) || (!is_long() && (i + f) % 3 != 0))
                continue;
            const struct form *form = &FORMS[f];
            uint32_t k = has_large_blocks(form) ? large[(i + f) % 4] : cols[(i + f) % 4];
            if (rows[i] <= 8) /* the ring comes round */
                k = 2304 * (i + 1);
            if (form->type == STORAGE_U4 && k % form->scale_cols)
                k = 640;
            if (form->type == STORAGE_U4 && k == form->scale_cols)
                k *= 2;
            check_shape(&(struct shape){.form = form,
                                        .act = TYPES[1 + (f + i / 2) % 2],
                                        .rows = rows[i],
                                        .features = rows[i] <= 8 ? 64 : features[(i + f / 2) % 3],
                                        .cols = k,
                                        .bias = i % 3 == 1,
                                        .out_f32 = (i + f) % 2});
        }
}

/* One order of sums for all shapes of blocks. */
TEST(a_row_times_units_has_the_same_bits_whatever_the_number_of_rows) {
    static const uint32_t counts[] = {8, 20, 50, 140};
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++) {
        if (!is_drawn(forms, f))
            continue;
        struct shape s = {&FORMS[f], STORAGE_BF16, 1, 64, 512, false, true};
        struct weights w = make_weights(s.form, s.features, s.cols);
        float *x = small_values(s.cols), *alone = run(&s, &w, x, NULL);
        for (uint32_t i = 0; i < ARRAY_LEN(counts); i++) {
            if (!is_long() && (i + f) % 2)
                continue;
            s.rows = counts[i];
            s.features = w.host.rows;
            float *others = small_values((size_t)s.rows * s.cols);
            uint32_t place = (uint32_t)(check_random() % s.rows);
            memcpy(others + (size_t)place * s.cols, x, s.cols * sizeof *x);
            float *got = run(&s, &w, others, NULL);
            if (!same_bits(alone, got + (size_t)place * s.features, s.features))
                check_fail(__FILE__, __LINE__, "%s: other bits among %u rows", s.form->name,
                           s.rows);
            free(got);
            free(others);
        }
        free(alone);
        free(x);
        free_weights(&w);
    }
}

/* Output rows of few features: k in splits, whatever their number. Prompt rows beside them: one
 * chain. */
TEST(output_rows_times_units_have_k_in_splits) {
    static const uint32_t counts[] = {9, 40, 70, 140}, cols[] = {2304, 4352};
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++) {
        if (!is_drawn(forms, f))
            continue;
        struct shape s = {&FORMS[f],   STORAGE_BF16, 1,   f % 3 ? 64 : 192,
                          cols[f % 2], f % 4 == 1,   true};
        struct weights w = make_weights(s.form, s.features, s.cols);
        float *x = small_values(s.cols), *bias = random_values(s.features),
              *prompt = run_rows(&s, &w, x, bias, 0), *alone = run_rows(&s, &w, x, bias, 1);
        check_values(&s, &w, x, bias, alone);
        if (same_bits(alone, prompt, s.features))
            check_fail(__FILE__, __LINE__, "%s: k is whole", s.form->name);
        for (uint32_t i = 0; i < ARRAY_LEN(counts); i++) {
            if (!is_long() && i != f % 4)
                continue;
            s.rows = counts[i];
            float *others = small_values((size_t)s.rows * s.cols);
            const uint32_t output = s.rows - 2, place = (uint32_t)(check_random() % output);
            memcpy(others + (size_t)place * s.cols, x, s.cols * sizeof *x);
            memcpy(others + (size_t)(s.rows - 1) * s.cols, x, s.cols * sizeof *x);
            float *got = run_rows(&s, &w, others, bias, output);
            if (!same_bits(alone, got + (size_t)place * s.features, s.features))
                check_fail(__FILE__, __LINE__, "%s: other bits among %u rows", s.form->name,
                           s.rows);
            if (!same_bits(prompt, got + (size_t)(s.rows - 1) * s.features, s.features))
                check_fail(__FILE__, __LINE__, "%s: a prompt row has other bits", s.form->name);
            free(got);
            free(others);
        }
        free(alone);
        free(prompt);
        free(bias);
        free(x);
        free_weights(&w);
    }
}

/* The last stage of a split has fewer than four tiles of 64 k: behind them lies the guard page of x. */
TEST(blocks_that_share_x_read_none_past_its_end_where_k_is_in_splits) {
    static const struct shape s = {.form = &FORMS[3],
                                   .act = STORAGE_BF16,
                                   .rows = 70,
                                   .features = 64,
                                   .cols = 2368,
                                   .out_f32 = true};
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    struct weights w = make_weights(s.form, s.features, s.cols);
    float *x = small_values((size_t)s.rows * s.cols), *whole = run_rows(&s, &w, x, NULL, 0),
          *split = run_rows(&s, &w, x, NULL, s.rows);
    EXPECT(!same_bits(whole, split, (size_t)s.rows * s.features)); /* k is in splits */
    check_values(&s, &w, x, NULL, split);
    free(whole);
    free(split);
    free(x);
    free_weights(&w);
}

TEST(the_segments_of_a_matrix_are_one_product) {
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++)
        if (is_drawn(forms, f))
            check_segments(f);
}

TEST(a_gated_product_has_the_bits_of_the_product_and_the_activation) {
    static const struct form plain[] = {{"bf16", STORAGE_BF16, 0, 0, false, 0},
                                        {"f16", STORAGE_F16, 0, 0, false, 0}};
    static const uint32_t rows[] = {5, 40, 70, 130};
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS) + 2; f++) {
        if (!is_drawn(forms, f))
            continue;
        const bool is_plain = f >= ARRAY_LEN(FORMS);
        const struct form *form = is_plain ? &plain[f - ARRAY_LEN(FORMS)] : &FORMS[f];
        for (uint32_t i = 0; i < ARRAY_LEN(rows); i++)
            if (is_long() || (i + f) % 4 == 0)
                check_gated(form, is_plain ? form->type : TYPES[1 + f % 2], rows[i],
                            /* 192 rows of one segment are no whole blocks of 128 */
                            form->scale_rows == 128 ? 2 : 1 + (f + i) % 2, 192 + f % 3);
    }
}

/* ---- norms on the way ---- */

struct residual_shape {
    const struct form *form;
    enum storage_type act;
    uint32_t rows, hidden, cols;
    bool bias, gated;
    float scale;
};

static struct matrix matrix_up(struct rig *r, const struct form *form, uint32_t rows, uint32_t cols,
                               bool gated) {
    struct weights w = make_weights(form, rows, cols);
    struct matrix m = gated ? put_rows_up(r, &w) : put_up(r, &w, form->name);
    m.gated = gated && r->dev->ops->gates(r->dev, &m, ACTIVATION_SILU);
    if (gated)
        r->dev->ops->pack(r->stream, &m, 0, (void *)m.segments[0].data);
    m.segments[0].packed = m.segments[0].data;
    rig_wait(r);
    free_weights(&w);
    return m;
}

/* A product into the residual and one that norms it: the bits of product, norm, product. */
static void check_residual(const struct residual_shape *s) {
    enum { WIDTH = 384 };
    struct rig r = rig_open(s->act);
    const struct ops *ops = r.dev->ops;
    struct matrix down = matrix_up(&r, s->form, s->hidden, s->cols, false),
                  up = matrix_up(&r, s->form, WIDTH, s->hidden, s->gated);
    const size_t count = (size_t)s->rows * s->hidden, outs = (size_t)s->rows * WIDTH;
    float *y = small_values((size_t)s->rows * s->cols), *x = random_values(count),
          *weight = random_values(s->hidden), *bias = random_values(s->hidden);
    if (s->bias)
        down.bias = rig_values(&r, STORAGE_F32, bias, s->hidden);
    void *ys = rig_values(&r, s->act, y, (size_t)s->rows * s->cols);
    float *apart = rig_values(&r, STORAGE_F32, x, count),
          *folded = rig_values(&r, STORAGE_F32, x, count),
          *weights = rig_values(&r, STORAGE_F32, weight, s->hidden),
          *squares = rig_alloc(&r, count / NORM_GROUP * sizeof *squares);
    void *delta = rig_alloc(&r, storage_bytes(s->act, count)),
         *normed = rig_alloc(&r, storage_bytes(s->act, count)),
         *want = rig_alloc(&r, storage_bytes(s->act, outs)),
         *got = rig_alloc(&r, storage_bytes(s->act, outs));
    const float offset = s->gated ? 1.0f : 0.0f, eps = 1e-5f;
    EXPECT(ops->folds_norm(r.dev, &down, s->rows) && ops->folds_norm(r.dev, &up, s->rows));
    EXPECT(!ops->folds_norm(r.dev, &up, 9));
    struct op_linear out = product_of(&down, delta, ys, s->rows),
                     in = product_of(&up, want, normed, s->rows);
    ops->linear(r.stream, &out);
    ops->rmsnorm(r.stream, &(struct op_rmsnorm){.out = normed,
                                                .x = apart,
                                                .delta = delta,
                                                .delta_scale = s->scale,
                                                .weight = weights,
                                                .rows = s->rows,
                                                .width = s->hidden,
                                                .eps = eps,
                                                .weight_offset = offset,
                                                .x_f32 = true});
    ops->linear(r.stream, &in);
    const uint64_t launched = emu_launch_count();
    out.out = folded;
    out.residual = (struct residual_out){squares, s->scale};
    in.out = got;
    in.x = folded;
    in.norm = (struct norm_of_x){squares, weights, eps, offset};
    ops->linear(r.stream, &out);
    ops->linear(r.stream, &in);
    if (emu_launch_count())
        EXPECT_EQ(emu_launch_count() - launched, 2);
    float *x_apart = rig_down(&r, STORAGE_F32, apart, count),
          *x_folded = rig_down(&r, STORAGE_F32, folded, count);
    const size_t used = (size_t)s->rows * in.out_stride;
    float *wanted = rig_down(&r, s->act, want, used), *there = rig_down(&r, s->act, got, used);
    for (size_t i = 0; i < used; i++)
        if (!isfinite(wanted[i]) && !isinf(wanted[i]))
            check_fail(__FILE__, __LINE__, "%s: not a number", s->form->name);
    if (!same_bits(x_apart, x_folded, count))
        check_fail(__FILE__, __LINE__, "%s, %u rows, [%u, %u]: the residual differs", s->form->name,
                   s->rows, s->hidden, s->cols);
    if (!same_bits(wanted, there, used))
        check_fail(__FILE__, __LINE__, "%s, %u rows, [%u, %u]: the product differs", s->form->name,
                   s->rows, s->hidden, s->cols);
    free(wanted);
    free(there);
    free(x_apart);
    free(x_folded);
    free(bias);
    free(weight);
    free(x);
    free(y);
    rig_close(&r);
}

TEST(products_around_a_norm_have_its_bits) {
    static const struct form forms[] = {{"bf16", STORAGE_BF16, 0, 0, false, 0},
                                        {"f16", STORAGE_F16, 0, 0, false, 0},
                                        {"fp8, rows", STORAGE_F8_E4M3, 1, 0, false, 0},
                                        {"fp8, 128 x 128", STORAGE_F8_E4M3, 128, 128, false, 0},
                                        {"int8, rows", STORAGE_I8, 1, 0, false, 0},
                                        {"q8_0", STORAGE_Q8_0, 0, 0, false, 0},
                                        {"int4, 128", STORAGE_U4, 1, 128, true, 0},
                                        {"int4, 32", STORAGE_U4, 1, 32, false, 8},
                                        {"q4_0", STORAGE_Q4_0, 0, 0, false, 0},
                                        {"q4_k", STORAGE_Q4_K, 0, 0, false, 0},
                                        {"mxfp4", STORAGE_MXFP4, 0, 0, false, 0}};
    static const uint32_t rows[] = {1, 8, 3, 7, 5, 6};
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    const struct drawn cases = drawn_of(6);
    for (uint32_t f = 0; f < ARRAY_LEN(forms); f++) {
        for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
            if (!is_drawn(cases, i + f))
                continue;
            emu_set_order((int)((i + f) % ORDERS), 7);
            check_residual(&(struct residual_shape){
                .form = &forms[f],
                .act = f < 2   ? forms[f].type
                       : i % 2 ? STORAGE_F16
                               : STORAGE_BF16,
                .rows = rows[i],
                .hidden = i % 3 == 2
                              ? 2304
                              : 256, /* k of the second product, or of the first, in splits */
                .cols = i % 3 == 1 ? 2304 : 256,
                .bias = i % 2,
                /* 192 rows are no whole blocks of 128 */
                .gated = (i + f) % 2 && forms[f].scale_rows != 128,
                .scale = i % 4 == 3 ? 0.25f : 1.0f});
        }
    }
    emu_set_order(0, 1);
}

/* ---- rotation on the way ---- */

struct qkv_shape {
    enum storage_type act;
    uint32_t rows, heads, kv_heads, dim, cols;
    bool bias, normed;
    struct form form; /* no name: weights as activations */
    bool one;         /* segment */
};

static struct matrix qkv_up(struct rig *r, const struct qkv_shape *s, const struct form *form) {
    const uint32_t heads[] = {s->heads, s->kv_heads, s->kv_heads},
                   rows = (s->heads + 2 * s->kv_heads) * s->dim;
    if (s->one || !s->form.name)
        return matrix_up(r, form, rows, s->cols, false);
    struct matrix m = {.type = form->type, .rows = rows, .cols = s->cols, .segment_count = 3};
    for (uint32_t i = 0; i < 3; i++)
        m.segments[i] = matrix_up(r, form, heads[i] * s->dim, s->cols, false).segments[0];
    return m;
}

/* The product of Q, K and V with the rotation in it: of qkv the same Q, the same cache, bit for bit, as
 * product and rope_kv leave, and nothing else written. */
static void check_rope(const struct qkv_shape *s) {
    enum { BLOCK = 16, BLOCKS = 4, SLOTS = 8, ROWS = 8 };
    const struct form plain = {"weights", s->act, 0, 0, false, 0},
                      *form = s->form.name ? &s->form : &plain;
    const uint32_t features = (s->heads + 2 * s->kv_heads) * s->dim, half = s->dim / 2;
    struct rig r = rig_open(s->act);
    const struct ops *ops = r.dev->ops;
    struct matrix w = qkv_up(&r, s, form);
    const size_t outs = (size_t)s->rows * features, ins = (size_t)s->rows * s->cols;
    const size_t block_bytes = ops->kv_layer_bytes(s->act, BLOCK, s->kv_heads, s->dim) + 64,
                 cache_bytes = block_bytes * BLOCKS * SLOTS;
    uint32_t tables[SLOTS * BLOCKS], slots[ROWS], positions[ROWS];
    for (uint32_t i = 0; i < SLOTS * BLOCKS; i++)
        tables[i] = (i * 7 + 3) % (SLOTS * BLOCKS);
    for (uint32_t t = 0; t < ROWS; t++) {
        slots[t] = (t * 3 + 1) % SLOTS;
        positions[t] = t == 2 ? (uint32_t)ROW_NONE : (t * 23 + 5) % (BLOCK * BLOCKS);
    }
    struct step_batch batch = {.row_count = s->rows,
                               .output_count = s->rows,
                               .slots = rig_up(&r, slots, sizeof slots),
                               .positions = rig_up(&r, positions, sizeof positions)};
    struct kv_view kv = {.block_stride = block_bytes,
                         .layer_offset = 64,
                         .type = s->act,
                         .block_tokens = BLOCK,
                         .kv_heads = s->kv_heads,
                         .head_dim = s->dim,
                         .block_count = BLOCKS * SLOTS,
                         .tables = rig_up(&r, tables, sizeof tables),
                         .max_blocks = BLOCKS};
    float *x = random_values(ins), *bias = random_values(features), *turns = random_values(half),
          *weight = random_values(s->cols), *squares = random_values(ins / NORM_GROUP);
    for (size_t i = 0; i < ins / NORM_GROUP; i++)
        squares[i] = fabsf(squares[i]) + 1;
    if (s->bias)
        w.bias = rig_values(&r, STORAGE_F32, bias, features);
    float *angles = rig_alloc(&r, (size_t)s->rows * half * 8);
    ops->rope_angles(r.stream,
                     &(struct op_rope_angles){angles, rig_values(&r, STORAGE_F32, turns, half),
                                              half, 1, &batch, false});
    void *apart = rig_alloc(&r, outs * 2), *folded = rig_alloc(&r, outs * 2),
         *cache_apart = rig_alloc(&r, cache_bytes), *cache_folded = rig_alloc(&r, cache_bytes);
    struct op_linear product =
        product_of(&w, apart, rig_values(&r, s->normed ? STORAGE_F32 : s->act, x, ins), s->rows);
    if (s->normed)
        product.norm = (struct norm_of_x){rig_values(&r, STORAGE_F32, squares, ins / NORM_GROUP),
                                          rig_values(&r, STORAGE_F32, weight, s->cols), 1e-5f, 0};
    struct op_rope_kv rope = {apart, angles, half, false, s->heads, &kv, &batch, NULL};
    EXPECT(ops->folds_rope(r.dev, &w, &rope));
    kv.base = cache_apart;
    ops->linear(r.stream, &product);
    ops->rope_kv(r.stream, &rope);
    const uint64_t launched = emu_launch_count();
    kv.base = cache_folded;
    product.out = rope.qkv = folded;
    product.rope = &rope;
    ops->linear(r.stream, &product);
    if (emu_launch_count())
        EXPECT_EQ(emu_launch_count() - launched, 1);
    uint8_t *want_cache = malloc(cache_bytes), *got_cache = malloc(cache_bytes);
    stream_copy_out(r.stream, want_cache, cache_apart, cache_bytes);
    stream_copy_out(r.stream, got_cache, cache_folded, cache_bytes);
    float *want = rig_down(&r, s->act, apart, outs), *got = rig_down(&r, s->act, folded, outs);
    if (memcmp(want_cache, got_cache, cache_bytes))
        check_fail(__FILE__, __LINE__,
                   "%s, %u rows, %u + 2 * %u heads of %u, [%u]: the cache differs", form->name,
                   s->rows, s->heads, s->kv_heads, s->dim, s->cols);
    for (uint32_t t = 0; t < s->rows; t++)
        for (uint32_t n = 0; n < features; n++) {
            const size_t at = (size_t)t * features + n;
            const bool written = positions[t] != (uint32_t)ROW_NONE && n < s->heads * s->dim;
            if (written ? !isfinite(got[at]) || !same_bits(want + at, got + at, 1)
                        : !isnan(got[at])) {
                check_fail(__FILE__, __LINE__, "%u rows, heads of %u, [%u]: row %u, feature %u",
                           s->rows, s->dim, s->cols, t, n);
                t = s->rows - 1;
                break;
            }
        }
    free(want_cache);
    free(got_cache);
    free(want);
    free(got);
    free(squares);
    free(weight);
    free(turns);
    free(bias);
    free(x);
    rig_close(&r);
}

#define FP8_ROWS                                                                                   \
    { "fp8, rows", STORAGE_F8_E4M3, 1, 0, false, 0 }
#define FP8_BLOCKS                                                                                 \
    { "fp8, 128 x 128", STORAGE_F8_E4M3, 128, 128, false, 0 }
#define INT8_ROWS                                                                                  \
    { "int8, rows", STORAGE_I8, 1, 0, false, 0 }
#define Q8_BLOCKS                                                                                  \
    { "q8_0", STORAGE_Q8_0, 0, 0, false, 0 }
#define INT4_GROUPS                                                                                \
    { "int4, 64", STORAGE_U4, 1, 64, true, 0 }
#define Q4_SUPERBLOCKS                                                                             \
    { "q4_k", STORAGE_Q4_K, 0, 0, false, 0 }
#define MX_BLOCKS                                                                                  \
    { "mxfp4", STORAGE_MXFP4, 0, 0, false, 0 }

TEST(a_product_of_q_k_and_v_rotates_and_writes_the_cache) {
    static const struct qkv_shape shapes[] = {
        {STORAGE_BF16, 1, 4, 1, 64, 192, true, false, {}, true},
        {STORAGE_BF16, 8, 2, 1, 128, 192, false, true, {}, true},
        {STORAGE_F16, 5, 1, 1, 128, 256, true, true, {}, true},
        {STORAGE_F16, 8, 2, 2, 64, 256, false, false, {}, true},
        {STORAGE_BF16, 3, 1, 1, 128, 2304, true, true, {}, true}, /* k in two splits, and in four */
        {STORAGE_BF16, 8, 1, 1, 64, 4096, false, false, {}, true},
        /* a whole stage of 256 k, and one of 64 */
        {STORAGE_BF16, 8, 3, 1, 128, 320, true, true, FP8_ROWS, false},
        {STORAGE_F16, 5, 2, 1, 64, 320, false, false, FP8_ROWS, false},
        {STORAGE_BF16, 2, 1, 1, 128, 2304, true, false, FP8_ROWS, true},
        {STORAGE_BF16, 7, 2, 2, 128, 384, false, true, FP8_BLOCKS, false},
        {STORAGE_BF16, 8, 2, 1, 128, 448, false, false, INT8_ROWS, true},
        {STORAGE_F16, 1, 1, 1, 128, 320, true, true, Q8_BLOCKS, false},
        {STORAGE_BF16, 6, 3, 1, 64, 256, false, true, Q8_BLOCKS, true},
        /* heads of 128 by two neighbours, also with k in splits; of 64 by one block */
        {STORAGE_BF16, 8, 3, 1, 128, 320, true, true, INT4_GROUPS, false},
        {STORAGE_F16, 3, 2, 2, 128, 512, false, false, Q4_SUPERBLOCKS, true},
        {STORAGE_BF16, 5, 1, 1, 128, 2304, true, true, Q4_SUPERBLOCKS, true},
        {STORAGE_F16, 1, 1, 1, 64, 4096, false, false, MX_BLOCKS, true},
        {STORAGE_BF16, 7, 2, 1, 64, 320, true, true, MX_BLOCKS, false},
    };
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    const struct drawn cases = drawn_of(4);
    for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++) {
        if (!is_drawn(cases, i))
            continue;
        emu_set_order((int)(i % ORDERS), 7 + i);
        check_rope(&shapes[i]);
    }
    emu_set_order(0, 1);
}

TEST(products_leave_norms_to_their_kernel_where_x_does_not_fit_or_instructions_are_scarce) {
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++) {
        const enum storage_type type = FORMS[f].type;
        const bool eight = type == STORAGE_F8_E4M3 || type == STORAGE_I8 || type == STORAGE_Q8_0,
                   four = !eight && type != STORAGE_Q6_K;
        struct rig r = rig_open(STORAGE_BF16);
        const struct ops *ops = r.dev->ops;
        struct matrix m = matrix_up(&r, &FORMS[f], 256, 256, false);
        EXPECT(ops->folds_norm(r.dev, &m, 8) == (eight || four));
        EXPECT(!ops->folds_norm(r.dev, &m, 9));
        m.cols = 16384; /* in four splits, of 4096 each */
        EXPECT(ops->folds_norm(r.dev, &m, 8) == (eight || four));
        m.cols += 256;
        EXPECT(ops->folds_norm(r.dev, &m, 8) == eight);
        m.rows = m.segments[0].rows = 67 * 64; /* k is whole */
        m.cols = 4096;
        EXPECT(ops->folds_norm(r.dev, &m, 8) == (eight || four));
        m.cols += 256;
        EXPECT(ops->folds_norm(r.dev, &m, 8) == eight);
        rig_close(&r);
    }
}

TEST(wide_products_leave_norms_of_many_rows_to_their_kernel) {
    static const struct form forms[] = {{"fp8, rows", STORAGE_F8_E4M3, 1, 0, false, 0},
                                        {"int4, 64", STORAGE_U4, 1, 64, true, 0},
                                        {"q4_k", STORAGE_Q4_K, 0, 0, false, 0}};
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    for (uint32_t f = 0; f < ARRAY_LEN(forms); f++) {
        const uint32_t most = f ? 4 : 6;
        struct rig r = rig_open(STORAGE_BF16);
        const struct ops *ops = r.dev->ops;
        struct matrix m = matrix_up(&r, &forms[f], 64, 256, false);
        m.rows = m.segments[0].rows = 132 * 64;
        EXPECT(ops->folds_norm(r.dev, &m, 8));
        m.rows = m.segments[0].rows = 133 * 64;
        EXPECT(ops->folds_norm(r.dev, &m, most));
        EXPECT(!ops->folds_norm(r.dev, &m, most + 1));
        rig_close(&r);
    }
}

TEST(what_the_product_does_not_know_stays_as_it_is) {
    static const struct form kept[] = {{"int8, groups", STORAGE_I8, 1, 32, false, 0},
                                       {"int8, zeros", STORAGE_I8, 1, 0, true, 0},
                                       {"fp8, 128 x 64", STORAGE_F8_E4M3, 128, 64, false, 0},
                                       {"int4, 16", STORAGE_U4, 1, 16, true, 0},
                                       {"int4, 192", STORAGE_U4, 1, 192, true, 0},
                                       {"q5_k", STORAGE_Q5_K, 0, 0, false, 0}};
    if (!has_units())
        SKIP("gpu", "it is no Hopper");
    struct rig r = rig_open(STORAGE_BF16);
    for (uint32_t i = 0; i < ARRAY_LEN(kept); i++) {
        struct weights w = make_weights(&kept[i], 64, 768);
        EXPECT(r.dev->ops->packed_bytes(r.dev, &w.host, 0) == 0);
        free_weights(&w);
    }
    for (uint32_t i = 0; i < ARRAY_LEN(FORMS); i++) { /* 96 columns, or rows, are no whole units */
        struct weights w = make_weights(&FORMS[i], 96, 512);
        EXPECT(r.dev->ops->packed_bytes(r.dev, &w.host, 0) == 0);
        free_weights(&w);
    }
    rig_close(&r);
}
