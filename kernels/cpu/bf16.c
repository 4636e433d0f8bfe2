/*
 * bf16.c - products in bf16 on the device's threads: rows are rounded once, then 16 outputs at a
 * time meet them all. A row's bits depend on its own values alone (bf16.h).
 */
#include "kernels/cpu/bf16.h"

#include "kernels/cpu/expert_range.h"
#include "kernels/cpu/tile_product.h"

#define AVX2_BITS (CPU_BIT(AVX2) | CPU_BIT(FMA) | CPU_BIT(F16C))
#define AVX512_BITS                                                                                \
    (AVX2_BITS | CPU_BIT(AVX512F) | CPU_BIT(AVX512BW) | CPU_BIT(AVX512DQ) | CPU_BIT(AVX512VL))

/* What folder.cmake compiles each with, and no more. */
const struct bf16_choice BF16_VARIANTS[] = {
    {&bf16_plain, CPU_ISA_REF, 0},
#if defined(__x86_64__)
    {&bf16_avx2, CPU_ISA_AVX2, AVX2_BITS},
    {&bf16_avx512, CPU_ISA_AVX512, AVX512_BITS},
    {&bf16_avx512_bf16, CPU_ISA_AVX512, AVX512_BITS | CPU_BIT(AVX512_BF16)},
#endif
};
const size_t BF16_VARIANT_COUNT = ARRAY_LEN(BF16_VARIANTS);

const struct bf16_variant *bf16_best(enum cpu_isa isa, struct cpu_features features) {
    size_t i = BF16_VARIANT_COUNT - 1;
    while (BF16_VARIANTS[i].least > isa || BF16_VARIANTS[i].needs & ~features.bits)
        i--;
    return BF16_VARIANTS[i].variant;
}

/* ---- linear ---- */

struct round_task {
    const struct bf16_variant *variant;
    const float *x;
    struct bf16_rows rows;
    uint32_t rows_a_unit;
};

static void round_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct round_task *task = ctx;
    uint32_t t = (uint32_t)unit_idx * task->rows_a_unit,
             end = MIN(t + task->rows_a_unit, task->rows.row_count);
    for (; t < end; t++)
        task->variant->round(task->x, &task->rows, t);
}

/* The rows at x in the device's buffer, which holds them. */
static struct bf16_rows round_rows(struct stream *s, const float *x, uint32_t rows, uint32_t cols) {
    struct cpu_device *cpu = (struct cpu_device *)s->dev;
    struct round_task task = {
        .variant = cpu->bf16,
        .x = x,
        .rows = {.data = cpu->pack, .stride = bf16_stride(cols), .row_count = rows, .cols = cols},
        .rows_a_unit = rows / 64 + 1};
    CHECK(task.rows.stride * rows <= CPU_PACK_BYTES);
    cpu_loop(s, (rows + task.rows_a_unit - 1) / task.rows_a_unit, (size_t)rows * cols / 8,
             round_unit, &task);
    return task.rows;
}

/* Rows of a pass: as many as stay in a second-level cache, and enough that reading the weights
 * again for the next pass does not show. */
static uint32_t rows_of_pass(uint32_t rows, uint32_t cols) {
    enum { NEAR_BYTES = 1 << 20, ROWS_LEAST = 192 };
    size_t stride = bf16_stride(cols), room = CPU_PACK_BYTES / stride;
    CHECK(room > 0);
    uint32_t near = (uint32_t)MAX(NEAR_BYTES / stride, (size_t)ROWS_LEAST);
    return MIN((uint32_t)room, cpu_even_pass(rows, near));
}

struct multiply_task {
    const struct bf16_variant *variant;
    struct bf16_product product;
    uint32_t outputs_a_unit;
};

static void multiply_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct multiply_task *task = ctx;
    uint32_t n = (uint32_t)unit_idx * task->outputs_a_unit,
             end = MIN(n + task->outputs_a_unit, task->product.w->rows);
    for (; n < end; n += BF16_UNIT)
        task->variant->multiply(&task->product, n, MIN((uint32_t)BF16_UNIT, end - n));
}

void cpu_bf16_linear(struct stream *s, const struct op_linear *a) {
#if defined(__x86_64__)
    if (((struct cpu_device *)s->dev)->tiles) {
        cpu_tile_linear(s, a);
        return;
    }
#endif
    uint32_t pass = rows_of_pass(a->rows, a->w->cols);
    struct multiply_task task = {.variant = ((struct cpu_device *)s->dev)->bf16,
                                 .product = {.w = a->w, .out_stride = a->out_stride},
                                 .outputs_a_unit = BF16_UNIT};
    /* what is asked for ahead lies behind: a thread should go on there, and yet all should end at
     * about the same time */
    while (a->w->rows / task.outputs_a_unit > 32 * s->dev->thread_count)
        task.outputs_a_unit *= 2;
    for (uint32_t t = 0; t < a->rows; t += pass) {
        uint32_t rows = MIN(a->rows - t, pass);
        task.product.x =
            round_rows(s, (const float *)a->x + (size_t)t * a->w->cols, rows, a->w->cols);
        task.product.out = (float *)a->out + (size_t)t * a->out_stride;
        cpu_loop(s, (a->w->rows + task.outputs_a_unit - 1) / task.outputs_a_unit,
                 (size_t)rows * a->w->rows * a->w->cols / 32, multiply_unit, &task);
    }
}

/* ---- mixtures ---- */

struct expert_product {
    const struct bf16_variant *variant;
    const struct op_expert_linear *a;
    struct expert_range range;
    struct bf16_rows x;             /* the range's pairs */
    uint32_t units, outputs_a_unit; /* of one expert */
};

static void expert_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct expert_product *task = ctx;
    const struct op_expert_linear *a = task->a;
    uint32_t e = task->range.experts[unit_idx / task->units], begin,
             count = expert_range_pairs(a, &task->range, e, &begin),
             n = (uint32_t)(unit_idx % task->units) * task->outputs_a_unit,
             end = MIN(n + task->outputs_a_unit, a->w->rows);
    struct bf16_product p = {.w = &a->w->experts[e],
                             .x = task->x,
                             .out =
                                 (float *)a->out + (size_t)(task->range.first + begin) * a->w->rows,
                             .out_stride = a->w->rows};
    p.x.data += begin * p.x.stride;
    p.x.row_count = count;
    for (; n < end; n += BF16_UNIT)
        task->variant->multiply(&p, n, MIN((uint32_t)BF16_UNIT, end - n));
}

void cpu_bf16_expert_linear(struct stream *s, const struct op_expert_linear *a) {
#if defined(__x86_64__)
    if (((struct cpu_device *)s->dev)->tiles) {
        cpu_tile_expert_linear(s, a);
        return;
    }
#endif
    uint32_t pass = (uint32_t)(CPU_PACK_BYTES / bf16_stride(a->w->cols));
    struct expert_product task = {
        .variant = ((struct cpu_device *)s->dev)->bf16, .a = a, .outputs_a_unit = 4 * BF16_UNIT};
    task.units = (a->w->rows + task.outputs_a_unit - 1) / task.outputs_a_unit;
    while (expert_range_next(a, pass, &task.range)) {
        uint32_t rows = task.range.count;
        task.x = round_rows(s, (const float *)a->x + (size_t)task.range.first * a->w->cols, rows,
                            a->w->cols);
        cpu_loop(s, (size_t)task.range.active * task.units,
                 (size_t)rows * a->w->rows * a->w->cols / 32, expert_unit, &task);
    }
}
