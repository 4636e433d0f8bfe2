/* rows.inc.h - operations on rows: embedding, norm, rotary angles. A unit is a run of rows. */

struct rows_task {
    const void *a;
    uint32_t rows, rows_a_unit;
};

/* Cuts `rows` rows of `width` into at most 64 units. */
static void rows_loop(struct stream *s, const void *a, uint32_t rows, size_t width,
                      cpu_unit_fn run) {
    struct rows_task task = {.a = a, .rows = rows, .rows_a_unit = rows / 64 + 1};
    cpu_loop(s, (rows + task.rows_a_unit - 1) / task.rows_a_unit, rows * width / VW, run, &task);
}

#define ROWS_OF(task, unit_idx, t, end)                                                            \
    uint32_t t = (uint32_t)(unit_idx) * (task)->rows_a_unit,                                       \
             end = MIN(t + (task)->rows_a_unit, (task)->rows)

static void embed_row(const enum storage_type type, float *out, const void *row, uint32_t width,
                      float scale) {
    vf factor = v_set1(scale);
    uint32_t i = 0;
    for (; i + VW <= width; i += VW)
        v_store(out + i, v_mul(v_load_as(type, row, i), factor));
    if (i < width)
        v_store_n(out + i, v_mul(v_load_as_n(type, row, i, width - i), factor), width - i);
}

static void embed_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_embed *a = task->a;
    uint32_t width = a->table->cols;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        float *out = (float *)a->out + (size_t)t * width;
        uint32_t row = a->batch->ids[t] - a->first; /* wraps around for an id before the first */
        if (a->batch->positions[t] == ROW_NONE || row >= a->table->rows) {
            memset(out, 0, width * sizeof *out);
            continue;
        }
        const struct matrix_segment *p = segment_of_row(a->table, &row);
        DEQUANTIZE[segment_type(a->table, p)](p, width, row, 0, width, out);
        embed_row(STORAGE_F32, out, out, width, a->scale);
    }
}

static void cpu_embed(struct stream *s, const struct op_embed *a) {
    rows_loop(s, a, a->batch->row_count, a->table->cols, embed_unit);
}

/* x += delta * delta_scale (if any); the sum of squares. A scale of 1 changes no bit. */
ALWAYS_INLINE float add_and_square(float *x, const float *delta, uint32_t width,
                                   float delta_scale) {
    vf acc = v_set1(0), factor = v_set1(delta_scale);
    uint32_t i = 0;
    for (; i + VW <= width; i += VW) {
        vf h = v_load(x + i);
        if (delta)
            v_store(x + i, h = v_add(h, v_mul(v_load(delta + i), factor)));
        acc = v_fma(h, h, acc);
    }
    if (i < width) {
        vf h = v_load_n(x + i, width - i);
        if (delta)
            v_store_n(x + i, h = v_add(h, v_mul(v_load_n(delta + i, width - i), factor)),
                      width - i);
        acc = v_fma(h, h, acc);
    }
    return v_hsum(acc);
}

static void rmsnorm_row(const struct op_rmsnorm *a, float *x, const float *delta, float *out) {
    uint32_t width = a->width, i = 0;
    float squares = delta
                        ? add_and_square(x, delta, width, a->delta_scale != 0 ? a->delta_scale : 1)
                        : add_and_square(x, NULL, width, 1);
    if (!out)
        return;
    if (!a->weight) {
        memmove(out, x, width * sizeof *out);
        return;
    }
    vf scale = v_set1(1.0f / sqrtf(squares / (float)width + a->eps)),
       offset = v_set1(a->weight_offset);
    for (; i + VW <= width; i += VW)
        v_store(out + i, v_mul(v_mul(v_load(x + i), scale), v_add(v_load(a->weight + i), offset)));
    if (i < width)
        v_store_n(out + i,
                  v_mul(v_mul(v_load_n(x + i, width - i), scale),
                        v_add(v_load_n(a->weight + i, width - i), offset)),
                  width - i);
}

static void rmsnorm_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_rmsnorm *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        size_t at = (size_t)t * a->width;
        rmsnorm_row(a, (float *)a->x + at, a->delta ? (const float *)a->delta + at : NULL,
                    a->out ? (float *)a->out + at : NULL);
    }
}

static void cpu_rmsnorm(struct stream *s, const struct op_rmsnorm *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * 2, rmsnorm_unit);
}

static void rope_angles_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_rope_angles *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        float position = a->batch->positions[t] == ROW_NONE ? 0 : (float)a->batch->positions[t];
        float *out = a->out + (size_t)t * a->half * 2;
        const float *inv_freq =
            a->inv_freq + (a->per_slot ? (size_t)a->batch->slots[t] * a->half : 0);
        for (uint32_t i = 0; i < a->half; i++) {
            scalar_sincos(position * inv_freq[i], &out[2 * i + 1], &out[2 * i]);
            out[2 * i] *= a->scale;
            out[2 * i + 1] *= a->scale;
        }
    }
}

static void cpu_rope_angles(struct stream *s, const struct op_rope_angles *a) {
    rows_loop(s, a, a->batch->row_count, (size_t)a->half * 16 * VW, rope_angles_unit);
}
