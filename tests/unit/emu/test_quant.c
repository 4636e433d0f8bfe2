/* Quantized storage types on the emulated device: embedding has the values that matrix_dequantize
 * defines, a product is within the tolerance of the definition, and its bits know neither the other
 * rows nor the order of threads. */
#include <float.h>
#include <stdio.h>

#include "rig.h"

enum { COLS = 512, ROWS = 9, TOKENS = 7 };

/* Random bytes that hold no NaN and no infinity, with moderate scales: the block types' from the
 * goldens. */
struct table {
    struct matrix host, device;
    uint8_t *data;
    size_t bytes;
};

static bool take_golden(enum storage_type type, struct table *t) {
    FILE *f = fopen(TRIREME_SOURCE_DIR "/tests/goldens/quant/blocks.bin", "rb");
    uint32_t head[4];
    bool found = false;
    for (int i = STORAGE_Q4_0; f && !found && fread(head, 4, 4, f) == 4; i++) {
        uint8_t blocks[4096];
        size_t size = (size_t)head[1] * head[2];
        if (size > sizeof blocks || fread(blocks, 1, size, f) != size)
            break;
        fseek(f, (long)head[1] * (long)head[3] * 4, SEEK_CUR);
        found = i == (int)type;
        for (size_t b = 0; found && b < t->bytes / head[2]; b++)
            memcpy(t->data + b * head[2], blocks + check_random() % head[1] * head[2], head[2]);
    }
    if (f)
        fclose(f);
    return found;
}

static bool make_table(struct rig *r, struct table *t, enum storage_type type) {
    float scales[ROWS * COLS / 32], zeros[ROWS * COLS / 32];
    *t = (struct table){.bytes = ROWS * storage_bytes(type, COLS)};
    t->data = malloc(t->bytes);
    for (size_t i = 0; i < t->bytes; i++)
        t->data[i] = (uint8_t)(check_random() & 0x57);
    for (size_t i = 0; i < ARRAY_LEN(scales); i++) {
        scales[i] = 0.01f * (float)(check_random() % 100);
        zeros[i] = (float)(check_random() % 16);
    }
    t->host = (struct matrix){.type = type, .rows = ROWS, .cols = COLS, .segment_count = 1};
    t->host.segments[0] = (struct matrix_segment){.data = t->data, .rows = ROWS};
    if (storage_is_scaled(type)) {
        static float kept_scales[ARRAY_LEN(scales)], kept_zeros[ARRAY_LEN(zeros)];
        memcpy(kept_scales, scales, sizeof scales);
        memcpy(kept_zeros, zeros, sizeof zeros);
        t->host.segments[0].scale_rows = 1;
        t->host.segments[0].scale_cols = 32;
        t->host.segments[0].scale_stride = COLS / 32;
        t->host.segments[0].scales = kept_scales;
        t->host.segments[0].zeros = kept_zeros;
    } else if (!take_golden(type, t)) {
        return false;
    }
    t->device = t->host;
    t->device.segments[0].data = rig_up(r, t->data, t->bytes);
    if (storage_is_scaled(type)) {
        t->device.segments[0].scales = rig_up(r, t->host.segments[0].scales, sizeof scales);
        t->device.segments[0].zeros = rig_up(r, t->host.segments[0].zeros, sizeof zeros);
    }
    return true;
}

static void check_embed(struct rig *r, struct table *t) {
    uint32_t ids[ROWS], positions[ROWS];
    float want[COLS];
    for (uint32_t i = 0; i < ROWS; i++) {
        ids[i] = (i * 5) % ROWS;
        positions[i] = i == 2 ? ROW_NONE : i;
    }
    struct step_batch batch = {.row_count = ROWS,
                               .ids = rig_up(r, ids, sizeof ids),
                               .positions = rig_up(r, positions, sizeof positions)};
    void *out = rig_alloc(r, ROWS * COLS * 4);
    r->dev->ops->embed(
        r->stream,
        &(struct op_embed){.out = out, .table = &t->device, .batch = &batch, .scale = 1});
    float *got = rig_down(r, STORAGE_F32, out, ROWS * COLS);
    for (uint32_t i = 0; i < ROWS; i++) {
        matrix_dequantize(&t->host, ids[i], 0, COLS, want);
        if (positions[i] == ROW_NONE)
            memset(want, 0, sizeof want);
        if (!same_bits(got + i * COLS, want, COLS))
            check_fail(__FILE__, __LINE__, "%s: embedding of row %u has other values",
                       storage_name(t->host.type), i);
    }
    free(got);
}

/* What a float32 sum of n products whose sizes add up to size may be off: rounding, and the grid of
 * subnormal numbers (a block's scale may be that small). */
static double sum_bound(double size, uint32_t n) {
    return (n + 2) * (2 * UNIT_ROUNDOFF * size + FLT_TRUE_MIN);
}

static float *product(struct rig *r, struct table *t, const float *x, uint32_t rows) {
    void *xs = rig_up(r, x, (size_t)rows * COLS * 4), *out = rig_alloc(r, (size_t)rows * ROWS * 4);
    r->dev->ops->linear(r->stream, &(struct op_linear){.out = out,
                                                       .x = xs,
                                                       .w = &t->device,
                                                       .rows = rows,
                                                       .class_rows = rows / 2,
                                                       .out_stride = ROWS});
    return rig_down(r, STORAGE_F32, out, (size_t)rows * ROWS);
}

static void check_product(struct rig *r, struct table *t) {
    float *x = random_values((size_t)TOKENS * COLS), w[COLS], *got = product(r, t, x, TOKENS);
    for (uint32_t n = 0; n < ROWS; n++) {
        matrix_dequantize(&t->host, n, 0, COLS, w);
        for (uint32_t i = 0; i < TOKENS; i++) {
            double sum = 0, size = 0;
            for (uint32_t k = 0; k < COLS; k++) {
                sum += (double)x[i * COLS + k] * w[k];
                size += fabs((double)x[i * COLS + k] * w[k]);
            }
            if (!(fabs(got[i * ROWS + n] - sum) <= sum_bound(size, COLS)))
                check_fail(__FILE__, __LINE__, "%s: (%u, %u) is %g, expected %g",
                           storage_name(t->host.type), i, n, (double)got[i * ROWS + n], sum);
        }
    }
    for (uint32_t i = 0; i < TOKENS; i++) {
        float *alone = product(r, t, x + (size_t)i * COLS, 1);
        if (!same_bits(alone, got + (size_t)i * ROWS, ROWS))
            check_fail(__FILE__, __LINE__, "%s: row %u has other bits alone",
                       storage_name(t->host.type), i);
        free(alone);
    }
    free(got);
    free(x);
}

/* Two experts of the same matrix: their rows have the definition's values, and the same ones. */
static void check_experts(struct rig *r, struct table *t) {
    enum { PAIRS = 5 };
    uint32_t offsets[] = {0, 2, PAIRS};
    float *x = random_values((size_t)PAIRS * COLS), *want = calloc(PAIRS * ROWS, 4);
    struct matrix both[] = {t->device, t->device};
    struct expert_plan plan = {.offsets = rig_up(r, offsets, sizeof offsets)};
    struct expert_matrix w = {.type = t->device.type,
                              .rows = ROWS,
                              .cols = COLS,
                              .expert_count = 2,
                              .experts = rig_up(r, both, sizeof both)};
    /* the last row, of expert 1, is the first, of expert 0 */
    memcpy(x + 4 * COLS, x, COLS * sizeof *x);
    void *xs = rig_up(r, x, (size_t)PAIRS * COLS * 4), *out = rig_alloc(r, PAIRS * ROWS * 4);
    r->dev->ops->expert_linear(r->stream,
                               &(struct op_expert_linear){out, xs, &w, &plan, PAIRS, 1, NULL});
    r->ref->ops->linear(
        r->ref_stream,
        &(struct op_linear){.out = want, .x = x, .w = &t->host, .rows = PAIRS, .out_stride = ROWS});
    float *got = rig_down(r, STORAGE_F32, out, PAIRS * ROWS);
    EXPECT(same_bits(got, got + 4 * ROWS, ROWS));
    for (uint32_t i = 0; i < PAIRS * ROWS; i++) {
        float w_row[COLS];
        double size = 0;
        matrix_dequantize(&t->host, i % ROWS, 0, COLS, w_row);
        for (uint32_t k = 0; k < COLS; k++)
            size += fabs((double)x[i / ROWS * COLS + k] * w_row[k]);
        EXPECT(fabs((double)got[i] - want[i]) <= sum_bound(size, COLS));
    }
    free(got);
    free(want);
    free(x);
}

/* Three heads of three rows: products of two of them and, transposed, sums of rows. */
static void check_heads(struct rig *r, struct table *t) {
    enum { HEADS = 3, T = 2, COUNT = 2 };
    float *x = random_values(T * HEADS * COLS), *want = calloc(T * HEADS * COLS, 4);
    void *xs = rig_up(r, x, T * HEADS * COLS * 4);
    for (int transposed = 0; transposed < 2; transposed++) {
        void *out = rig_alloc(r, T * HEADS * COLS * 4);
        struct op_head_linear op = {out, xs,    &t->device, T,    HEADS,     ROWS / HEADS,
                                    1,   COUNT, COLS,       COLS, transposed};
        r->dev->ops->head_linear(r->stream, &op);
        op.out = want;
        op.x = x;
        op.w = &t->host;
        r->ref->ops->head_linear(r->ref_stream, &op);
        float *got = rig_down(r, STORAGE_F32, out, T * HEADS * COLS);
        for (uint32_t i = 0; i < T * HEADS; i++)
            for (uint32_t k = 0; k < (transposed ? COLS : COUNT); k++) {
                double size = 0;
                float w_row[COLS];
                for (uint32_t n = 0; n < COUNT; n++) {
                    matrix_dequantize(&t->host, i % HEADS * (ROWS / HEADS) + 1 + n, 0, COLS, w_row);
                    if (transposed)
                        size += fabs((double)x[i * COLS + n] * w_row[k]);
                    for (uint32_t c = 0; !transposed && n == k && c < COLS; c++)
                        size += fabs((double)x[i * COLS + c] * w_row[c]);
                }
                EXPECT(fabs((double)got[i * COLS + k] - want[i * COLS + k]) <=
                       sum_bound(size, transposed ? COUNT : COLS));
            }
        free(got);
    }
    free(x);
    free(want);
}

TEST(quantised_types_on_the_device) {
    for (int type = STORAGE_F8_E4M3; type < STORAGE_TYPE_COUNT; type++) {
        struct rig r = rig_open(STORAGE_F32);
        struct table t;
        EXPECT(make_table(&r, &t, (enum storage_type)type));
        check_embed(&r, &t);
        check_product(&r, &t);
        check_experts(&r, &t);
        check_heads(&r, &t);
        free(t.data);
        rig_close(&r);
    }
}
