/*
 * int8_linear.c - products with activations of 8 bits on the device's threads: rows are quantized
 * once, then each panel of weights (int8.h) meets them all.
 *
 * Rows go in passes of as many as the device's `pack` holds. A row's bits depend on its own values
 * alone (kernels/integers.h), so neither passes nor panels nor threads change any.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/expert_range.h"
#include "kernels/cpu/group_product.h"
#include "kernels/cpu/int8.h"

struct quantize_task {
    const struct int8_variant *variant;
    const float *x;
    struct int8_rows rows;
    uint32_t rows_a_unit;
};

static void quantize_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct quantize_task *task = ctx;
    uint32_t t = (uint32_t)unit_idx * task->rows_a_unit,
             end = MIN(t + task->rows_a_unit, task->rows.row_count);
    for (; t < end; t++)
        task->variant->quantize(task->x, &task->rows, t);
}

/* Rows of a pass: as many as stay in a second-level cache while panels meet them, and enough that
 * reading the panels again for the next pass does not show. */
static uint32_t rows_of_pass(uint32_t rows, uint32_t cols) {
    enum { NEAR_BYTES = 5 << 18, ROWS_LEAST = 128 };
    size_t stride = int8_stride(cols), room = CPU_PACK_BYTES / stride;
    CHECK(room > INT8_SPARE_ROWS);
    uint32_t near = (uint32_t)MAX(NEAR_BYTES / stride, (size_t)ROWS_LEAST);
    return MIN((uint32_t)room - INT8_SPARE_ROWS, cpu_even_pass(rows, near));
}

/* The rows at x in the device's buffer, which holds them. */
static struct int8_rows quantize_rows(struct stream *s, const float *x, uint32_t rows,
                                      uint32_t cols) {
    struct cpu_device *cpu = (struct cpu_device *)s->dev;
    struct quantize_task task = {
        .variant = cpu->int8,
        .x = x,
        .rows = {.data = cpu->pack, .stride = int8_stride(cols), .row_count = rows, .cols = cols},
        .rows_a_unit = rows / 64 + 1};
    CHECK(task.rows.stride * (rows + INT8_SPARE_ROWS) <= CPU_PACK_BYTES);
    cpu_loop(s, (rows + task.rows_a_unit - 1) / task.rows_a_unit, (size_t)rows * cols / 4,
             quantize_unit, &task);
    return task.rows;
}

/* ---- linear ---- */

static uint32_t count_panels(const struct int8_variant *v, const struct matrix *w) {
    uint32_t panels = 0;
    for (uint32_t i = 0; i < w->segment_count; i++)
        panels += int8_panels(v, &w->segments[i]);
    return panels;
}

/* Panels [panel, end) of those of all segments. */
static void multiply_panels(const struct int8_variant *v, const struct int8_product *p,
                            uint32_t panel, uint32_t end) {
    for (uint32_t i = 0, first = 0, count; i < p->w->segment_count; i++, first += count) {
        count = int8_panels(v, &p->w->segments[i]);
        for (; panel < end && panel < first + count; panel++)
            v->multiply(p, i, panel - first);
    }
}

struct multiply_task {
    const struct int8_variant *variant;
    struct int8_product product;
    uint32_t panels, panels_a_unit;
};

static void multiply_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct multiply_task *task = ctx;
    uint32_t n = (uint32_t)unit_idx * task->panels_a_unit;
    multiply_panels(task->variant, &task->product, n, MIN(n + task->panels_a_unit, task->panels));
}

void cpu_int8_linear(struct stream *s, const struct op_linear *a) {
    const struct int8_variant *v = ((struct cpu_device *)s->dev)->int8;
    uint32_t pass = rows_of_pass(a->rows, a->w->cols);
    struct multiply_task task = {
        .variant = v,
        .product = {.w = a->w, .out_stride = a->out_stride, .in_order = int8_wants_order()},
        .panels = count_panels(v, a->w)};
    task.panels_a_unit = task.panels / (32 * s->dev->thread_count) + 1;
    for (uint32_t t = 0; t < a->rows; t += pass) {
        uint32_t rows = MIN(a->rows - t, pass);
        task.product.x =
            quantize_rows(s, (const float *)a->x + (size_t)t * a->w->cols, rows, a->w->cols);
        task.product.out = (float *)a->out + (size_t)t * a->out_stride;
        cpu_loop(s, (task.panels + task.panels_a_unit - 1) / task.panels_a_unit,
                 (size_t)rows * a->w->rows * a->w->cols / 32, multiply_unit, &task);
    }
}

/* ---- mixtures ---- */

struct expert_product {
    const struct int8_variant *variant;
    const struct op_expert_linear *a;
    struct expert_range range;
    struct int8_rows x;                    /* the range's pairs */
    uint32_t panels, panels_a_unit, units; /* of one expert */
};

/* Panels of a unit. They lie one behind the other, and a panel's product asks for memory ahead
 * beyond its end, so one thread should take what follows, too. But threads should end at about the
 * same time. */
static uint32_t panels_of_unit(const struct int8_variant *v, const struct matrix *w,
                               uint32_t active, uint32_t panels, uint32_t threads) {
    enum { UNIT_BYTES = 256 << 10, UNITS_A_THREAD = 8 };
    size_t most = UNIT_BYTES / int8_panel_bytes(v, w, &w->segments[0]),
           even = (size_t)active * panels / (UNITS_A_THREAD * threads);
    return (uint32_t)MAX(MIN(most, even), (size_t)1);
}

static void expert_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct expert_product *task = ctx;
    const struct op_expert_linear *a = task->a;
    uint32_t e = task->range.experts[unit_idx / task->units], begin,
             count = expert_range_pairs(a, &task->range, e, &begin),
             panel = (uint32_t)(unit_idx % task->units) * task->panels_a_unit;
    struct int8_product p = {.w = &a->w->experts[e],
                             .x = {.data = (char *)int8_values(&task->x, begin),
                                   .stride = task->x.stride,
                                   .row_count = count,
                                   .cols = a->w->cols},
                             .out =
                                 (float *)a->out + (size_t)(task->range.first + begin) * a->w->rows,
                             .out_stride = a->w->rows,
                             .in_order = int8_wants_order()};
    multiply_panels(task->variant, &p, panel, MIN(panel + task->panels_a_unit, task->panels));
}

void cpu_int8_expert_linear(struct stream *s, const struct op_expert_linear *a) {
    const struct int8_variant *v = ((struct cpu_device *)s->dev)->int8;
    uint32_t pass = (uint32_t)(CPU_PACK_BYTES / int8_stride(a->w->cols));
    CHECK(pass > INT8_SPARE_ROWS);
    pass -= INT8_SPARE_ROWS;
    struct expert_product task = {
        .variant = v, .a = a, .panels = count_panels(v, &a->w->experts[0])};
    while (expert_range_next(a, pass, &task.range)) {
        uint32_t rows = task.range.count;
        task.x = quantize_rows(s, (const float *)a->x + (size_t)task.range.first * a->w->cols, rows,
                               a->w->cols);
        task.panels_a_unit = panels_of_unit(v, &a->w->experts[0], task.range.active, task.panels,
                                            s->dev->thread_count);
        task.units = (task.panels + task.panels_a_unit - 1) / task.panels_a_unit;
        cpu_loop(s, (size_t)task.range.active * task.units,
                 (size_t)rows * a->w->rows * a->w->cols / 32, expert_unit, &task);
    }
}

/* ---- weights ---- */

size_t cpu_packed_bytes(const struct device *dev, const struct matrix *w, uint32_t segment) {
    const struct int8_variant *v = ((const struct cpu_device *)dev)->int8;
    const struct matrix_segment *p = &w->segments[segment];
#if defined(__x86_64__)
    if (w->compute == COMPUTE_INT8_GROUPS)
        return cpu_group_packed_bytes(w, p);
#endif
    return w->compute == COMPUTE_INT8 ? int8_panels(v, p) * int8_panel_bytes(v, w, p) : 0;
}

struct pack_task {
    const struct int8_variant *variant;
    const struct matrix *w;
    uint32_t segment;
    size_t panel_bytes;
    uint8_t *out;
};

static void pack_panel(void *ctx, size_t panel, int thread_idx) {
    const struct pack_task *task = ctx;
    task->variant->pack(task->w, task->segment, (uint32_t)panel,
                        task->out + panel * task->panel_bytes);
}

/* Asks for huge pages where memory is about to be written as a whole: fewer faults at load, fewer
 * misses of the TLB in every step. A system without them changes nothing. */
static void ask_huge_pages(void *memory, size_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)memory & ~(page - 1),
              to = ((uintptr_t)memory + size + page - 1) & ~(page - 1);
    (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

void cpu_pack(struct stream *s, const struct matrix *w, uint32_t segment, void *out) {
    const struct int8_variant *v = ((struct cpu_device *)s->dev)->int8;
    const struct matrix_segment *p = &w->segments[segment];
    ask_huge_pages(out, cpu_packed_bytes(s->dev, w, segment));
#if defined(__x86_64__)
    if (w->compute == COMPUTE_INT8_GROUPS) {
        cpu_group_pack(s, w, p, out);
        return;
    }
#endif
    struct pack_task task = {v, w, segment, int8_panel_bytes(v, w, p), out};
    cpu_loop(s, int8_panels(v, p), (size_t)p->rows * w->cols / 8, pack_panel, &task);
}
