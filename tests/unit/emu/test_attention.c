/* Rotation, cache writes and attention on the emulated device: against the definition over the
 * sweep, bits against chunks, batches and thread order. */
#include "rig.h"

void emu_set_device(int arch, int compiled);
uint64_t emu_early_copy_count(void);

enum { SLOTS = 3 };

struct shape {
    enum storage_type act, kv;
    uint32_t heads, kv_heads, dim, block_tokens, window, max_blocks;
    bool interleaved, output_class;
    uint32_t chunk;
    int extra; /* 1: sinks, 2: soft cap, 4: ALiBi, 8: later positions too */
};

/* Some below the scores, some above. */
static const float SINKS[16] = {-1, 0.5f, 2,    -3, 4,    0,     -0.25f, 1,
                                -6, 3,    0.1f, -2, 1.5f, -0.5f, 5,      -4};

static const float SLOPES[16] = {0.5f, 0.25f, 0.01f, 0.125f, 1, 0.003f, 0.7f, 0.05f};

/* A cache on the device and the same for the definition, with scattered blocks. */
struct scene {
    struct rig r;
    struct shape shape;
    struct kv_view kv, ref_kv;
    uint32_t half;
    uint32_t class_rows; /* 0: all or none, as the shape says */
    float *inv_freq;
    void *inv_freq_dev;
};

static void scene_init(struct scene *s, const struct shape *shape) {
    *s = (struct scene){.r = rig_open(shape->act), .shape = *shape, .half = shape->dim / 2};
    uint32_t blocks = shape->max_blocks * SLOTS, *tables = calloc(blocks, 4);
    size_t layer =
        s->r.dev->ops->kv_layer_bytes(shape->kv, shape->block_tokens, shape->kv_heads, shape->dim);
    for (uint32_t i = 0; i < blocks; i++)
        tables[i] = (i * 7 + 3) % blocks;
    s->kv = (struct kv_view){.base = rig_alloc(&s->r, (layer + 64) * blocks),
                             .block_stride = layer + 64,
                             .layer_offset = 64,
                             .type = shape->kv,
                             .block_tokens = shape->block_tokens,
                             .kv_heads = shape->kv_heads,
                             .head_dim = shape->dim,
                             .block_count = blocks,
                             .tables = rig_up(&s->r, tables, blocks * 4),
                             .max_blocks = shape->max_blocks};
    s->ref_kv = s->kv;
    s->ref_kv.base = malloc((layer + 64) * blocks);
    s->ref_kv.tables = tables;
    s->inv_freq = calloc(s->half + 1, 4);
    for (uint32_t i = 0; i < s->half; i++)
        s->inv_freq[i] = (float)pow(10000, -2.0 * i / shape->dim);
    s->inv_freq_dev = rig_up(&s->r, s->inv_freq, s->half * 4);
}
static void scene_release(struct scene *s) {
    free(s->ref_kv.base);
    free((void *)s->ref_kv.tables);
    free(s->inv_freq);
    rig_close(&s->r);
}

/* The last position that each row sees: the last one of its slot here, or as far ahead as behind
 * where there is a window. */
static void make_last(const struct shape *sh, const uint32_t *slots, const uint32_t *positions,
                      uint32_t rows, uint32_t *last) {
    for (uint32_t t = 0; t < rows; t++) {
        uint32_t end = t;
        while (end + 1 < rows && slots[end + 1] == slots[t] && positions[end + 1] != ROW_NONE)
            end++;
        last[t] = sh->window ? MIN(positions[t] + sh->window - 1, positions[end]) : positions[end];
    }
}

/* Writes and attends rows on the emulated device; with want also by the definition, on the values
 * that the device read: the rotated Q, and K and V as they lie in its cache. [rows, heads *
 * dim]. */
static float *attend(struct scene *s, float *qkv, const uint32_t *slots, const uint32_t *positions,
                     uint32_t rows, float **want) {
    struct rig *r = &s->r;
    uint32_t last[600];
    make_last(&s->shape, slots, positions, rows, last);
    const struct shape *sh = &s->shape;
    size_t stride = (sh->heads + 2 * sh->kv_heads) * sh->dim, width = (size_t)sh->heads * sh->dim;
    struct step_batch b = {.row_count = rows,
                           .slots = rig_up(r, slots, rows * 4),
                           .positions = rig_up(r, positions, rows * 4)};
    void *x = rig_values(r, sh->act, qkv, rows * stride),
         *out = rig_alloc(r, storage_bytes(sh->act, rows * width));
    uint32_t context = sh->max_blocks * sh->block_tokens;
    void *scratch =
        rig_alloc(r, r->dev->ops->attention_scratch(r->dev, rows, sh->heads, sh->dim, context));
    float *angles = rig_alloc(r, (size_t)rows * s->half * 8 + 8);
    const struct ops *ops = r->dev->ops;
    ops->rope_angles(r->stream,
                     &(struct op_rope_angles){angles, s->inv_freq_dev, s->half, 1, &b, false});
    ops->rope_kv(r->stream, &(struct op_rope_kv){x, s->half ? angles : NULL, s->half,
                                                 sh->interleaved, sh->heads, &s->kv, &b, NULL});
    struct op_attention op = {.out = out,
                              .qkv = x,
                              .heads = sh->heads,
                              .window = sh->window,
                              .chunk = sh->chunk,
                              .sinks = sh->extra & 1 ? rig_up(r, SINKS, sizeof SINKS) : NULL,
                              .soft_cap = sh->extra & 2 ? 0.4f : 0,
                              .slopes = sh->extra & 4 ? rig_up(r, SLOPES, sizeof SLOPES) : NULL,
                              .last = sh->extra & 8 ? rig_up(r, last, rows * 4) : NULL,
                              .scale = 1 / sqrtf((float)sh->dim),
                              .class_rows = s->class_rows      ? s->class_rows
                                            : sh->output_class ? rows
                                                               : 0,
                              .kv = &s->kv,
                              .batch = &b,
                              .scratch = scratch};
    ops->attention(r->stream, &op);
    float *got = rig_down(r, sh->act, out, rows * width);
    if (!want)
        return got;
    size_t cache_bytes = s->kv.block_stride * s->kv.block_count;
    stream_copy_out(r->stream, s->ref_kv.base, s->kv.base, cache_bytes);
    float *rotated = rig_down(r, sh->act, x, rows * stride);
    struct step_batch hb = {
        .row_count = rows, .slots = (uint32_t *)slots, .positions = (uint32_t *)positions};
    op.sinks = sh->extra & 1 ? SINKS : NULL;
    op.slopes = sh->extra & 4 ? SLOPES : NULL;
    op.last = sh->extra & 8 ? last : NULL;
    op.out = *want = calloc(rows * width, 4);
    op.qkv = rotated;
    op.kv = &s->ref_kv;
    op.batch = &hb;
    r->ref->ops->attention(r->ref_stream, &op);
    free(rotated);
    return got;
}

/* Rows [0, n) of slot 0, padding, five rows of slot 2. */
static uint32_t make_rows(uint32_t n, uint32_t *slots, uint32_t *positions) {
    for (uint32_t t = 0; t < n + 6; t++) {
        slots[t] = t < n ? 0 : 2;
        positions[t] = t < n ? t : t == n ? ROW_NONE : t - n - 1;
    }
    return n + 6;
}

static void check_shape(const struct shape *sh, uint32_t n) {
    uint32_t slots[600], positions[600], rows = make_rows(n, slots, positions);
    size_t width = (size_t)sh->heads * sh->dim, stride = width + 2 * (size_t)sh->kv_heads * sh->dim;
    const struct drawn orders = drawn_of(ORDERS);
    float *qkv = random_values(rows * stride), *first = NULL;
    for (size_t i = 0; i < rows * stride; i++)
        qkv[i] = fminf(fmaxf(qkv[i], -1), 1);
    for (int order = 0; order < ORDERS; order++) {
        if (!is_drawn(orders, (size_t)order))
            continue;
        struct scene s;
        emu_set_order(order, 11);
        scene_init(&s, sh);
        float *want = NULL, *got = attend(&s, qkv, slots, positions, rows, first ? NULL : &want);
        if (first) {
            EXPECT(same_bits(got, first, rows * width));
            free(got);
        } else {
            first = got;
            /* Weights are relatively right within the scores' error (dim terms of at most 1, times
             * scale) and, where tensor cores take them, rounded to the activations' type; values are
             * at most 1. */
            double scores = UNIT_ROUNDOFF * (sh->dim + 16.0) * sqrt((double)sh->dim) * 2;
            bool tensor = sh->act != STORAGE_F32 && sh->dim % 16 == 0;
            double tolerance =
                4 * scores + (tensor ? 2 * rounding(sh->act) : 0) + UNIT_ROUNDOFF * 600;
            for (size_t i = 0; i < rows * width; i++)
                if (!(fabs((double)got[i] - want[i]) <=
                      tolerance + rounding(sh->act) * 1.01 * fabs(want[i]))) {
                    check_fail(__FILE__, __LINE__,
                               "%s/%s H %u G %u D %u block %u window %u %s: row %zu dim %zu: %g, "
                               "expected %g",
                               storage_name(sh->act), storage_name(sh->kv), sh->heads, sh->kv_heads,
                               sh->dim, sh->block_tokens, sh->window,
                               sh->output_class ? "output" : "prompt", i / width, i % width,
                               (double)got[i], (double)want[i]);
                    break;
                }
            for (size_t i = 0; i < width; i++)
                EXPECT(got[n * width + i] == 0);
        }
        free(want);
        scene_release(&s);
    }
    emu_set_order(0, 1);
    free(first);
    free(qkv);
}

/* Output rows by attention_decode.cuh: each head size, type, size of a block. */
static const struct shape DECODED[] = {
    {STORAGE_BF16, STORAGE_BF16, 4, 2, 64, 16, 0, 24, false, true, 0, 0},
    {STORAGE_F16, STORAGE_F16, 5, 1, 64, 256, 0, 2, true, true, 0, 1},
    {STORAGE_BF16, STORAGE_BF16, 2, 2, 80, 32, 70, 12, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 3, 1, 96, 16, 300, 24, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 18, 1, 128, 64, 0, 8, false, true, 0, 2},
    {STORAGE_F16, STORAGE_F16, 4, 1, 128, 16, 0, 24, false, true, 100, 4},
    {STORAGE_F16, STORAGE_F16, 2, 1, 256, 128, 0, 4, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 2, 1, 256, 16, 33, 24, false, true, 0, 7},
    {STORAGE_BF16, STORAGE_F8_E4M3, 4, 2, 64, 16, 0, 24, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_F8_E4M3, 8, 1, 128, 32, 70, 12, false, true, 0, 1},
    {STORAGE_BF16, STORAGE_F8_E4M3, 2, 1, 256, 64, 0, 8, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_I8, 4, 2, 64, 32, 0, 12, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_I8, 8, 1, 128, 16, 70, 24, false, true, 0, 4},
    {STORAGE_BF16, STORAGE_I8, 2, 1, 256, 256, 0, 2, false, true, 0, 0},
    {STORAGE_F16, STORAGE_F16, 3, 1, 80, 16, 0, 24, false, true, 0, 1},
    {STORAGE_F16, STORAGE_F16, 2, 1, 96, 32, 0, 12, false, true, 100, 0},
    {STORAGE_BF16, STORAGE_BF16, 2, 1, 112, 16, 70, 24, false, true, 0, 0},
    {STORAGE_F16, STORAGE_F16, 4, 2, 160, 64, 0, 8, false, true, 0, 2},
    {STORAGE_BF16, STORAGE_BF16, 3, 1, 192, 32, 0, 12, false, true, 0, 4},
    {STORAGE_F16, STORAGE_F8_E4M3, 4, 2, 64, 32, 70, 12, false, true, 0, 1},
    {STORAGE_F16, STORAGE_I8, 8, 1, 128, 16, 0, 24, false, true, 0, 0},
    {STORAGE_F16, STORAGE_F8_E4M3, 2, 1, 256, 128, 0, 4, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_F8_E4M3, 3, 1, 80, 16, 0, 24, false, true, 0, 0},
    {STORAGE_F16, STORAGE_I8, 2, 2, 80, 64, 33, 8, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_I8, 3, 1, 96, 16, 0, 24, false, true, 0, 4},
    {STORAGE_F16, STORAGE_F8_E4M3, 2, 1, 96, 16, 0, 24, false, true, 48, 0},
};

static const struct shape SHAPES[] = {
    /* act, kv, heads, kv heads, dim, block, window, blocks, interleaved, output class */
    {STORAGE_BF16, STORAGE_BF16, 4, 2, 64, 16, 0, 24, false, false, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 4, 2, 64, 16, 0, 24, false, true, 0, 0},
    {STORAGE_F16, STORAGE_F16, 2, 2, 16, 32, 0, 16, true, true, 0, 0},
    {STORAGE_F16, STORAGE_F16, 2, 1, 16, 32, 0, 16, true, false, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 8, 1, 128, 64, 0, 8, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 2, 1, 128, 64, 0, 8, false, false, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 2, 2, 80, 32, 70, 12, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 2, 1, 80, 32, 70, 12, false, false, 0, 0},
    {STORAGE_F16, STORAGE_F16, 2, 1, 256, 128, 0, 4, false, true, 0, 0},
    {STORAGE_F16, STORAGE_F16, 1, 1, 256, 128, 33, 4, false, false, 0, 0},
    /* more heads than a tile's 16 rows */
    {STORAGE_BF16, STORAGE_BF16, 18, 1, 32, 256, 0, 2, false, true, 0, 0},
    {STORAGE_F32, STORAGE_F32, 4, 2, 64, 16, 0, 24, false, false, 0, 0},
    {STORAGE_F32, STORAGE_F16, 2, 1, 20, 32, 50, 12, true, true, 0, 0},
    {STORAGE_BF16, STORAGE_F32, 2, 1, 48, 32, 0, 12, false, true, 0, 0},
    /* no multiple of 16: the plain kernel */
    {STORAGE_BF16, STORAGE_BF16, 2, 1, 24, 16, 0, 24, false, false, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 3, 1, 96, 16, 300, 24, false, true, 0, 0},
    {STORAGE_BF16, STORAGE_F8_E4M3, 4, 2, 64, 16, 0, 24, false, true, 0, 0},
    {STORAGE_F32, STORAGE_F8_E4M3, 2, 1, 20, 32, 50, 12, true, false, 0, 0},
    {STORAGE_BF16, STORAGE_I8, 4, 2, 64, 16, 0, 24, false, false, 0, 0},
    {STORAGE_F32, STORAGE_I8, 5, 5, 20, 32, 50, 12, true, true, 0, 0},
};

/* Sinks, soft caps, ALiBi, and attention within chunks of positions, in each kernel. */
static const struct shape OPTIONS[] = {
    {STORAGE_BF16, STORAGE_BF16, 4, 2, 64, 16, 0, 24, false, false, 0, 1},
    {STORAGE_BF16, STORAGE_BF16, 4, 2, 64, 16, 0, 24, false, true, 0, 1},
    {STORAGE_F16, STORAGE_F16, 2, 1, 32, 32, 40, 16, false, false, 0, 1},
    {STORAGE_F32, STORAGE_F32, 4, 2, 24, 16, 20, 24, false, false, 0, 1},
    {STORAGE_BF16, STORAGE_BF16, 2, 1, 16, 16, 0, 24, true, true, 48, 0},
    {STORAGE_BF16, STORAGE_BF16, 2, 1, 16, 16, 0, 24, true, false, 48, 1},
    {STORAGE_F32, STORAGE_F32, 2, 1, 20, 16, 0, 24, false, true, 270, 1},
    {STORAGE_BF16, STORAGE_BF16, 4, 2, 64, 16, 40, 24, false, false, 0, 2},
    {STORAGE_F16, STORAGE_F16, 2, 1, 256, 32, 0, 16, false, false, 0, 2},
    {STORAGE_BF16, STORAGE_I8, 2, 1, 128, 16, 90, 24, false, false, 0, 3},
    {STORAGE_BF16, STORAGE_BF16, 4, 2, 64, 16, 0, 24, false, false, 0, 4},
    {STORAGE_F16, STORAGE_F8_E4M3, 2, 2, 80, 32, 0, 16, false, false, 0, 6},
    {STORAGE_BF16, STORAGE_BF16, 4, 2, 64, 16, 0, 24, false, true, 0, 4},
    {STORAGE_F32, STORAGE_F32, 2, 1, 20, 16, 0, 24, false, true, 0, 6},
    {STORAGE_BF16, STORAGE_BF16, 4, 4, 64, 16, 0, 24, false, false, 0, 8},
    {STORAGE_F16, STORAGE_F16, 2, 1, 32, 32, 33, 16, false, false, 0, 8},
    {STORAGE_F32, STORAGE_F32, 2, 2, 20, 16, 0, 24, false, false, 0, 8},
    {STORAGE_F32, STORAGE_F16, 2, 1, 24, 16, 40, 24, false, false, 0, 8},
    {STORAGE_BF16, STORAGE_BF16, 4, 4, 64, 16, 0, 24, false, false, 0, 12},
    {STORAGE_F32, STORAGE_F32, 6, 2, 20, 16, 0, 24, false, false, 0, 12},
};

TEST(attention_with_options_equals_its_definition) {
    const struct drawn options = drawn_of(4);
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++) {
        if (!is_drawn(options, i))
            continue;
        check_shape(&OPTIONS[i], 67);
        if (is_long() || i % 3 == 0)
            check_shape(&OPTIONS[i], 300);
    }
}

TEST(attention_equals_its_definition_over_the_sweep) {
    static const uint32_t lengths[] = {1, 15, 63, 64, 65, 129, 257, 300};
    const struct drawn shapes = drawn_of(3);
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++)
        for (size_t j = 0; j < ARRAY_LEN(lengths); j++) {
            bool heavy = lengths[j] > 130;
            if (!is_drawn(shapes, i))
                continue;
            if (!is_long() && (heavy ? i % 8 != j : i % 4 != j % 4))
                continue;
            check_shape(&SHAPES[i], lengths[j]);
        }
}

/* By bulk copies (9.0) and by cp.async (8.0), whose steps are of other lengths. */
TEST(decoded_rows_equal_their_definition_on_old_and_new_architectures) {
    static const uint32_t lengths[] = {1, 17, 70};
    const struct drawn shapes = drawn_of(2);
    for (int arch = 80; arch <= 90; arch += 10) {
        emu_set_device(arch, arch);
        for (size_t i = 0; i < ARRAY_LEN(DECODED); i++)
            for (size_t j = 0; j < ARRAY_LEN(lengths); j++)
                if (is_drawn(shapes, i) &&
                    (is_long() || j == (i + (size_t)arch / 10) % ARRAY_LEN(lengths)))
                    check_shape(&DECODED[i], lengths[j]);
    }
    emu_set_device(90, 90);
}

/* Prompt rows by attention_prompt_hopper.cu: each head size and type, windows and chunks that leave tiles
 * out at the beginning, sinks, later positions; a page is less than a tile, and more. */
static const struct shape PROMPTS[] = {
    {STORAGE_BF16, STORAGE_BF16, 2, 1, 128, 16, 0, 24, false, false, 0, 1},
    {STORAGE_F16, STORAGE_F16, 1, 1, 128, 256, 40, 2, false, false, 0, 0},
    {STORAGE_BF16, STORAGE_BF16, 2, 2, 64, 32, 0, 12, true, false, 130, 0},
    {STORAGE_BF16, STORAGE_BF16, 1, 1, 128, 128, 90, 4, false, false, 0, 9},
    {STORAGE_BF16, STORAGE_BF16, 1, 1, 256, 16, 70, 24, false, false, 0, 0},
    {STORAGE_F16, STORAGE_F16, 1, 1, 256, 64, 0, 8, false, false, 0, 8},
    {STORAGE_BF16, STORAGE_F8_E4M3, 2, 1, 128, 16, 0, 24, false, false, 0, 1},
    {STORAGE_F16, STORAGE_I8, 2, 1, 128, 256, 40, 2, false, false, 0, 0},
    {STORAGE_BF16, STORAGE_I8, 2, 2, 64, 32, 0, 12, true, false, 130, 0},
    {STORAGE_F16, STORAGE_F8_E4M3, 1, 1, 64, 16, 90, 24, false, false, 0, 9},
    {STORAGE_BF16, STORAGE_I8, 1, 1, 256, 16, 70, 24, false, false, 0, 0},
    {STORAGE_BF16, STORAGE_F8_E4M3, 1, 1, 256, 64, 0, 8, false, false, 0, 8},
};

TEST(prompt_rows_equal_their_definition_in_tiles_of_each_head_size) {
    const struct drawn shapes = drawn_of(3);
    for (size_t i = 0; i < ARRAY_LEN(PROMPTS); i++) {
        if (!is_drawn(shapes, i))
            continue;
        check_shape(&PROMPTS[i], i % 2 ? 290 : 129);
        if (is_long())
            check_shape(&PROMPTS[i], i % 2 ? 40 : 400);
    }
}

/* The kernel of older GPUs, which a switch asks for, too. */
TEST(prompt_rows_equal_their_definition_without_wgmma) {
    const struct drawn shapes = drawn_of(2);
    struct device_options options = {.kind = "cuda", .activation = STORAGE_BF16};
    struct device *dev = NULL;
    struct error err;
    setenv("TRIREME_PROMPT_ATTENTION", "wgmma_", 1);
    EXPECT(device_open(&options, &dev, &err) && strstr(err.text, "known are wgmma, mma"));
    setenv("TRIREME_PROMPT_ATTENTION", "mma", 1);
    for (size_t i = 0; i < ARRAY_LEN(PROMPTS); i++)
        if (is_drawn(shapes, i / 4) && (is_long() || i % 4 == 0 || i % 5 == 1))
            check_shape(&PROMPTS[i], 100);
    unsetenv("TRIREME_PROMPT_ATTENTION");
}

/* Rotates and writes `rows` rows of random values, of which nothing is read. */
static void write_rows(struct scene *s, const uint32_t *slots, const uint32_t *positions,
                       uint32_t rows) {
    struct rig *r = &s->r;
    const struct shape *sh = &s->shape;
    size_t count = (size_t)rows * (sh->heads + 2 * sh->kv_heads) * sh->dim;
    float *qkv = random_values(count), *angles = rig_alloc(r, (size_t)rows * s->half * 8 + 8);
    struct step_batch b = {.row_count = rows,
                           .slots = rig_up(r, slots, rows * 4),
                           .positions = rig_up(r, positions, rows * 4)};
    for (size_t i = 0; i < count; i++)
        qkv[i] = fminf(fmaxf(qkv[i], -1), 1);
    void *x = rig_values(r, sh->act, qkv, count);
    r->dev->ops->rope_angles(
        r->stream, &(struct op_rope_angles){angles, s->inv_freq_dev, s->half, 1, &b, false});
    r->dev->ops->rope_kv(r->stream,
                         &(struct op_rope_kv){x, s->half ? angles : NULL, s->half, sh->interleaved,
                                              sh->heads, &s->kv, &b, NULL});
    free(qkv);
}

/* A decode step's rows against the definition, within what its numbers are rounded to. */
static void check_step(struct scene *s, const uint32_t *slots, const uint32_t *positions,
                       uint32_t rows) {
    const struct shape *sh = &s->shape;
    size_t width = (size_t)sh->heads * sh->dim, stride = width + 2 * (size_t)sh->kv_heads * sh->dim;
    float *qkv = random_values(rows * stride), *want = NULL;
    for (size_t i = 0; i < rows * stride; i++)
        qkv[i] = fminf(fmaxf(qkv[i], -1), 1);
    float *got = attend(s, qkv, slots, positions, rows, &want);
    double scores = UNIT_ROUNDOFF * (sh->dim + 16.0) * sqrt((double)sh->dim) * 2;
    for (size_t i = 0; i < rows * width; i++)
        if (!(fabs((double)got[i] - want[i]) <= 4 * scores + 2 * rounding(sh->act) +
                                                    UNIT_ROUNDOFF * 600 +
                                                    rounding(sh->act) * 1.01 * fabs(want[i]))) {
            check_fail(__FILE__, __LINE__, "%s D %u: row %zu of %u, dim %zu: %g, expected %g",
                       storage_name(sh->kv), sh->dim, i / width, rows, i % width, (double)got[i],
                       (double)want[i]);
            break;
        }
    free(got);
    free(want);
    free(qkv);
}

/* Steps of few rows behind a cache that earlier steps wrote: its keys and values may be asked for
 * before this step's are there, and are; this step's may not, be they the row's own (alone, at the
 * end of a group of positions that is copied at once) or those of rows of its slot before it, which
 * may be of the prompt class and lie behind. */
TEST(decode_asks_early_for_what_earlier_steps_wrote_and_for_nothing_else) {
    const struct drawn orders = drawn_of(ORDERS);
    for (size_t i = 0; i < ARRAY_LEN(DECODED); i++) {
        if (!is_long() && i % 3 != 2)
            continue;
        struct shape sh = DECODED[i];
        sh.chunk = 0;
        sh.extra = 0; /* what is uploaded ahead of attention keeps it from beginning early */
        for (int order = 0; order < ORDERS; order++) {
            uint32_t slots[320] = {0}, positions[320], count = 0;
            const uint32_t alone_slot = 0, alone_position = 271;
            if (!is_drawn(orders, (size_t)order))
                continue;
            struct scene s;
            emu_set_order(order, 5);
            scene_init(&s, &sh);
            for (uint32_t p = 0; p < 271; p++)
                positions[count++] = p;
            for (uint32_t p = 0; p < 40; p++) {
                slots[count] = 2;
                positions[count++] = p;
            }
            write_rows(&s, slots, positions, count);
            const uint64_t before = emu_early_copy_count();
            check_step(&s, &alone_slot, &alone_position, 1);
            if (emu_launch_count())
                EXPECT(emu_early_copy_count() > before);
            for (uint32_t p = 0; p < 5; p++)
                positions[p] = 272 + p;
            write_rows(&s, slots, positions, 5);
            const uint32_t step_slots[] = {0, 0, 0, 0, 0, 2},
                           step_positions[] = {ROW_NONE, 277, 278, 279, 280, 40};
            check_step(&s, step_slots, step_positions, 6);
            const uint32_t mixed_slots[] = {0, 0, 0, 0}, mixed_positions[] = {288, 285, 286, 287};
            for (uint32_t p = 0; p < 4; p++)
                positions[p] = 281 + p;
            write_rows(&s, slots, positions, 4);
            s.class_rows = 1;
            check_step(&s, mixed_slots, mixed_positions, 4);
            scene_release(&s);
        }
    }
    emu_set_order(0, 1);
}

/* A whole step on one stream, as a model asks for it: the rows that `prepare` makes are there when
 * attention reads them, which is before its wait, because the product of Q, K and V stands between
 * and holds back what lies behind it; for the order of weights that the device has of its own, and
 * for plain ones. Each step's row is the one that is known beforehand in `attend`. */
TEST(decode_reads_the_rows_that_its_step_has_prepared) {
    enum { KNOWN = 200, CONTEXT = 384, COLS = 128, STEPS = 2 };
    const struct shape *sh = &DECODED[0];
    const uint32_t features = (sh->heads + 2 * sh->kv_heads) * sh->dim;
    const size_t width = (size_t)sh->heads * sh->dim;
    uint32_t slots[KNOWN] = {0}, positions[KNOWN], tokens[CONTEXT] = {0};
    for (uint32_t p = 0; p < KNOWN; p++)
        positions[p] = p;
    for (int tiled = 0; tiled < 2; tiled++) {
        struct scene s;
        scene_init(&s, sh);
        struct rig *r = &s.r;
        const struct ops *ops = r->dev->ops;
        write_rows(&s, slots, positions, KNOWN);
        const struct slot_state state = {
            .active = 1, .token_count = KNOWN + STEPS, .computed_count = KNOWN};
        const struct slot_table table = {.slot_count = 1,
                                         .max_context = CONTEXT,
                                         .states = rig_up(r, &state, sizeof state),
                                         .tokens = rig_up(r, tokens, sizeof tokens)};
        const struct step_run run = {0, 0, 1};
        struct step_batch b = {.row_count = 1,
                               .output_count = 1,
                               .run_count = 1,
                               .runs = rig_up(r, &run, sizeof run),
                               .ids = rig_alloc(r, 4),
                               .slots = rig_alloc(r, 4),
                               .positions = rig_alloc(r, 4)};
        float *x = random_values(COLS), *weights = random_values((size_t)features * COLS);
        for (uint32_t i = 0; i < features * COLS; i++)
            weights[i] *= 0.1f;
        struct matrix w = {.type = sh->act, .rows = features, .cols = COLS, .segment_count = 1};
        w.segments[0] = (struct matrix_segment){
            .data = rig_values(r, sh->act, weights, (size_t)features * COLS), .rows = features};
        if (tiled) {
            const bool packs =
                ops->packed_bytes && ops->packed_bytes(r->dev, &w, 0) == PACKED_IN_PLACE;
            EXPECT(packs || !emu_launch_count()); /* a GPU before Hopper has no other order */
            if (packs) {
                ops->pack(r->stream, &w, 0, (void *)w.segments[0].data);
                w.segments[0].packed = (void *)w.segments[0].data;
            }
        }
        void *x_dev = rig_values(r, sh->act, x, COLS), *qkv = rig_alloc(r, features * 2),
             *products = rig_alloc(r, STEPS * features * 2), *out = rig_alloc(r, STEPS * width * 2);
        float *angles = rig_alloc(r, s.half * 8);
        void *scratch =
            rig_alloc(r, ops->attention_scratch(r->dev, 1, sh->heads, sh->dim, CONTEXT));
        const uint64_t before = emu_early_copy_count();
        for (uint32_t i = 0; i < STEPS; i++) {
            const struct op_linear linear = {
                .x = x_dev, .w = &w, .rows = 1, .class_rows = 1, .out_stride = features};
            struct op_linear kept = linear, now = linear;
            kept.out = (uint16_t *)products + i * features;
            now.out = qkv;
            ops->linear(r->stream, &kept);
            ops->prepare(r->stream, &(struct op_prepare){&table, &b});
            ops->rope_angles(
                r->stream, &(struct op_rope_angles){angles, s.inv_freq_dev, s.half, 1, &b, false});
            ops->linear(r->stream, &now);
            ops->rope_kv(r->stream, &(struct op_rope_kv){qkv, angles, s.half, sh->interleaved,
                                                         sh->heads, &s.kv, &b, NULL});
            ops->attention(r->stream, &(struct op_attention){.out = (uint16_t *)out + i * width,
                                                             .qkv = qkv,
                                                             .heads = sh->heads,
                                                             .scale = 1 / sqrtf((float)sh->dim),
                                                             .class_rows = 1,
                                                             .kv = &s.kv,
                                                             .batch = &b,
                                                             .scratch = scratch});
        }
        float *got = rig_down(r, sh->act, out, STEPS * width),
              *rows = rig_down(r, sh->act, products, STEPS * features);
        if (emu_launch_count())
            EXPECT(emu_early_copy_count() > before);
        for (uint32_t i = 0; i < STEPS; i++) {
            const uint32_t slot = 0, position = KNOWN + i;
            float *want = attend(&s, rows + i * features, &slot, &position, 1, NULL);
            EXPECT(same_bits(got + i * width, want, width));
            free(want);
        }
        free(got);
        free(rows);
        free(x);
        free(weights);
        scene_release(&s);
    }
}

/* A context of 1000 tokens lies in blocks for 1024: parts of every row fit into the scratch that was
 * asked for 1000. What they are is of no interest here: nobody wrote the cache. */
TEST(parts_fit_the_scratch_of_a_context_that_fills_no_block) {
    enum { ROWS = 4, CONTEXT = 1000 }; /* so few that no row is one block's alone */
    const struct shape sh = {STORAGE_BF16, STORAGE_BF16, 1, 1, 64, 32, 0, 32, false, true, 0, 0};
    struct scene s;
    uint32_t slots[ROWS] = {0}, positions[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        positions[i] = CONTEXT - 1;
    scene_init(&s, &sh);
    struct step_batch b = {.row_count = ROWS,
                           .slots = rig_up(&s.r, slots, sizeof slots),
                           .positions = rig_up(&s.r, positions, sizeof positions)};
    const struct ops *ops = s.r.dev->ops;
    void *scratch = rig_alloc(&s.r, ops->attention_scratch(s.r.dev, ROWS, 1, sh.dim, CONTEXT));
    ops->attention(s.r.stream, &(struct op_attention){.out = rig_alloc(&s.r, ROWS * sh.dim * 2),
                                                      .qkv = rig_alloc(&s.r, ROWS * sh.dim * 6),
                                                      .heads = 1,
                                                      .scale = 1,
                                                      .class_rows = ROWS,
                                                      .kv = &s.kv,
                                                      .batch = &b,
                                                      .scratch = scratch});
    EXPECT(rig_wait(&s.r));
    scene_release(&s);
}

/* The last row of 290 after chunks of 290, 64 and 17: the same bits. With 17 it is in a step of few
 * rows, so its parts are tasks of their own and are merged; else one task does the row. */
TEST(a_row_has_the_same_bits_in_any_chunk_and_batch) {
    static const uint32_t chunks[] = {290, 64, 17};
    const struct drawn shapes = drawn_of(8), cuts = drawn_of(2);
    for (size_t i = 0, tried = 0; i < 12; i++) {
        const struct shape *sh = i < 8    ? &SHAPES[i]
                                 : i < 10 ? &OPTIONS[i - 7]
                                          : &SHAPES[ARRAY_LEN(SHAPES) - 14 + i];
        if ((!is_long() && i < 8 && i % 4 > 1) || !is_drawn(shapes, tried++))
            continue;
        enum { N = 290 };
        size_t width = (size_t)sh->heads * sh->dim,
               stride = width + 2 * (size_t)sh->kv_heads * sh->dim;
        float *qkv = random_values(N * stride), *first = NULL;
        for (size_t c = 0; c < ARRAY_LEN(chunks); c++) {
            if (c && !is_drawn(cuts, c)) /* the whole, and another way at least */
                continue;
            struct scene s;
            scene_init(&s, sh);
            float *last = calloc(width, 4);
            for (uint32_t from = 0; from < N; from += chunks[c]) {
                uint32_t count = MIN(chunks[c], N - from), slots[N + 3], positions[N + 3], rows = 0;
                float *chunk = random_values((N + 3) * stride);
                for (uint32_t t = 0; c && t < c; t++) { /* rows of another slot before it */
                    slots[rows] = 1;
                    positions[rows++] = from / chunks[c] * (uint32_t)c + t;
                }
                memcpy(chunk + rows * stride, qkv + from * stride, count * stride * sizeof *qkv);
                for (uint32_t t = 0; t < count; t++) {
                    slots[rows] = 0;
                    positions[rows++] = from + t;
                }
                float *got = attend(&s, chunk, slots, positions, rows, NULL);
                memcpy(last, got + (rows - 1) * width, width * sizeof *got);
                free(got);
                free(chunk);
            }
            if (first)
                EXPECT(same_bits(first, last, width));
            else
                first = calloc(width, 4), memcpy(first, last, width * sizeof *first);
            free(last);
            scene_release(&s);
        }
        free(first);
        free(qkv);
    }
}
