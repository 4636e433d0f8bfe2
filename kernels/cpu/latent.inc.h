/*
 * latent.inc.h - latent attention (kernels/ops_latent.h).
 *
 * The cache of a layer in a block is [block_tokens, rank + rope]: lanes walk along a row for scores
 * (one chain a query, summed by v_hsum's tree) and for the sum of values. A unit is one row and
 * LATENT_QUERIES heads, which share each load. Splits, their maximum and sums, and the
 * order they are merged in are attention.inc.h's; none of it depends on other rows.
 */

enum { LATENT_QUERIES = 4 };

/* ---- products per head ---- */

struct head_task {
    const struct op_head_linear *a;
    uint32_t rows_a_unit, row_units;
};

/* One output of each row: a chain of VW lanes over a dequantized row of w. */
static void head_dots(const struct op_head_linear *a, uint32_t h, uint32_t n, const float *w,
                      uint32_t t, uint32_t end) {
    uint32_t width = a->w->cols;
    for (; t < end; t++) {
        const float *x = (const float *)a->x + ((size_t)t * a->heads + h) * a->x_stride;
        vf acc = v_set1(0);
        uint32_t k = 0;
        for (; k + VW <= width; k += VW)
            acc = v_fma(v_load(x + k), v_load(w + k), acc);
        if (k < width)
            acc = v_fma(v_load_n(x + k, width - k), v_load_n(w + k, width - k), acc);
        ((float *)a->out)[((size_t)t * a->heads + h) * a->out_stride + n] = v_hsum(acc);
    }
}

/* out += x[n] * w, for each row. */
static void head_adds(const struct op_head_linear *a, uint32_t h, uint32_t n, const float *w,
                      uint32_t t, uint32_t end) {
    uint32_t width = a->w->cols;
    for (; t < end; t++) {
        size_t i = (size_t)t * a->heads + h;
        float *out = (float *)a->out + i * a->out_stride;
        vf x = v_set1(((const float *)a->x)[i * a->x_stride + n]);
        for (uint32_t k = 0; k < width; k += VW) {
            size_t count = MIN(width - k, (uint32_t)VW);
            vf sum = n ? v_load_n(out + k, count) : v_set1(0);
            v_store_n(out + k, v_fma(x, v_load_n(w + k, count), sum), count);
        }
    }
}

static void head_linear_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct head_task *task = ctx;
    const struct op_head_linear *a = task->a;
    uint32_t h = (uint32_t)(unit_idx / task->row_units),
             t = (uint32_t)(unit_idx % task->row_units) * task->rows_a_unit;
    float wide[LATENT_WIDTH_MAX + 16] __attribute__((aligned(64)));
    for (uint32_t n = 0; n < a->count; n++) {
        uint32_t row = h * a->head_rows + a->first + n;
        const struct matrix_segment *segment = segment_of_row(a->w, &row);
        DEQUANTIZE[a->w->type](segment, a->w->cols, row, 0, a->w->cols, wide);
        (a->transposed ? head_adds : head_dots)(a, h, n, wide, t,
                                                MIN(t + task->rows_a_unit, a->rows));
    }
}

static void cpu_head_linear(struct stream *s, const struct op_head_linear *a) {
    enum { HEAD_UNIT_ROWS = 64 };
    CHECK(a->w->cols <= LATENT_WIDTH_MAX && a->first + a->count <= a->head_rows &&
          a->heads * a->head_rows == a->w->rows &&
          a->x_stride >= (a->transposed ? a->count : a->w->cols) &&
          a->out_stride >= (a->transposed ? a->w->cols : a->count));
    struct head_task task = {
        .a = a, .rows_a_unit = HEAD_UNIT_ROWS, .row_units = (a->rows + 63) / HEAD_UNIT_ROWS};
    cpu_loop(s, (size_t)a->heads * task.row_units,
             (size_t)a->rows * a->heads * a->count * a->w->cols / VW, head_linear_unit, &task);
}

/* ---- cache rows ---- */

static void latent_row(const struct op_latent_write *a, const float *kv, float *row) {
    uint32_t i = 0, rank = a->rank;
    memcpy(row, kv, (rank + a->rope) * sizeof *row);
    if (!a->norm)
        return;
    vf scale = v_set1(1.0f / sqrtf(add_and_square(row, NULL, rank, 1) / (float)rank + a->eps));
    for (; i < rank; i += VW) {
        size_t n = MIN(rank - i, (uint32_t)VW);
        v_store_n(row + i, v_mul(v_mul(v_load_n(row + i, n), scale), v_load_n(a->norm + i, n)), n);
    }
}

static void latent_write_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_latent_write *a = task->a;
    uint32_t width = a->rank + a->rope;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        if (a->batch->positions[t] == ROW_NONE)
            continue;
        const float *angles = a->angles ? a->angles + (size_t)t * a->rope : NULL;
        float row[LATENT_WIDTH_MAX];
        latent_row(a, (const float *)a->kv + (size_t)t * width, row);
        if (angles)
            rotate_head(row + a->rank, angles, a->rope / 2, a->interleaved);
        latent_put(a->view, a->batch->slots[t], a->batch->positions[t], row, a->rank);
        for (uint32_t h = 0; h < a->heads; h++) {
            size_t i = (size_t)t * a->heads + h;
            float *q = (float *)a->q + i * width + a->rank;
            memcpy(q, (const float *)a->q_rope + i * a->q_stride + a->q_offset,
                   a->rope * sizeof *q);
            if (angles)
                rotate_head(q, angles, a->rope / 2, a->interleaved);
        }
    }
}

static void cpu_latent_write(struct stream *s, const struct op_latent_write *a) {
    CHECK(a->rank + a->rope <= LATENT_WIDTH_MAX && a->view->head_dim == a->rank + a->rope);
    rows_loop(s, a, a->batch->row_count, (size_t)a->heads * a->rope * 4 + a->rank * 4,
              latent_write_unit);
}

/* ---- attention ---- */

/* sums[i] = q_i . row over [from, to): one chain a query. */
ALWAYS_INLINE void latent_dots(const enum storage_type type, const struct queries *qs,
                               const void *row, uint32_t from, uint32_t to, float *sums) {
    vf acc[LATENT_QUERIES];
    uint32_t d = from;
    UNROLL
    for (int i = 0; i < LATENT_QUERIES; i++)
        acc[i] = v_set1(0);
    for (; d + VW <= to; d += VW) {
        vf k = v_load_as(type, row, d);
        UNROLL
        for (int i = 0; i < LATENT_QUERIES; i++)
            acc[i] = v_fma(v_load(qs->q[i] + d), k, acc[i]);
    }
    if (d < to) {
        vf k = v_load_as_n(type, row, d, to - d);
        UNROLL
        for (int i = 0; i < LATENT_QUERIES; i++)
            acc[i] = v_fma(v_load_n(qs->q[i] + d, to - d), k, acc[i]);
    }
    v_hsum4(acc, sums);
}

/* scores[i][j] = scale * q_i . row j, for `count` cached rows. scales: those of an int8 cache,
 * [count, 2]. */
ALWAYS_INLINE void latent_scores(const enum storage_type type, const struct queries *qs,
                                 const char *rows, uint32_t width, uint32_t rank, uint32_t count,
                                 const float *scales, float scale, float *const *scores) {
    for (uint32_t j = 0; j < count; j++) {
        const void *row = rows + j * storage_bytes(type, width);
        float sums[LATENT_QUERIES], others[LATENT_QUERIES];
        latent_dots(type, qs, row, 0, type == STORAGE_I8 ? rank : width, sums);
        if (type == STORAGE_I8)
            latent_dots(type, qs, row, rank, width, others);
        for (int i = 0; i < LATENT_QUERIES; i++) {
            float dot = type == STORAGE_I8 ? sums[i] * scales[2 * j] + others[i] * scales[2 * j + 1]
                                           : sums[i];
            scores[i][j] = dot * scale;
        }
    }
}

/* acc[i] += sum_j p[i][j] row j [0, rank). */
ALWAYS_INLINE void latent_add_values(const enum storage_type type, float *const *p,
                                     const char *rows, uint32_t width, uint32_t rank,
                                     uint32_t count, float *const *acc) {
    for (uint32_t d = 0; d < rank; d += VW) {
        uint32_t n = MIN(rank - d, (uint32_t)VW);
        vf sum[LATENT_QUERIES];
        UNROLL
        for (int i = 0; i < LATENT_QUERIES; i++)
            sum[i] = v_load_n(acc[i] + d, n);
        for (uint32_t j = 0; j < count; j++) {
            const void *row = rows + j * storage_bytes(type, width);
            vf v = n == VW ? v_load_as(type, row, d) : v_load_as_n(type, row, d, n);
            UNROLL
            for (int i = 0; i < LATENT_QUERIES; i++)
                sum[i] = v_fma(v_set1(p[i][j]), v, sum[i]);
        }
        UNROLL
        for (int i = 0; i < LATENT_QUERIES; i++)
            v_store_n(acc[i] + d, sum[i], n);
    }
}

#define LATENT_TYPE(name, type)                                                                    \
    static void latent_scores_##name(const struct queries *qs, const char *rows, uint32_t width,   \
                                     uint32_t rank, uint32_t count, const float *scales,           \
                                     float scale, float *const *scores) {                          \
        latent_scores(type, qs, rows, width, rank, count, scales, scale, scores);                  \
    }                                                                                              \
    static void latent_add_values_##name(float *const *p, const char *rows, uint32_t width,        \
                                         uint32_t rank, uint32_t count, float *const *acc) {       \
        latent_add_values(type, p, rows, width, rank, count, acc);                                 \
    }
LATENT_TYPE(f32, STORAGE_F32)
LATENT_TYPE(f16, STORAGE_F16)
LATENT_TYPE(bf16, STORAGE_BF16)
LATENT_TYPE(fp8, STORAGE_F8_E4M3)
LATENT_TYPE(int8, STORAGE_I8)
static const struct latent_functions {
    void (*scores)(const struct queries *qs, const char *rows, uint32_t width, uint32_t rank,
                   uint32_t count, const float *scales, float scale, float *const *scores);
    void (*add_values)(float *const *p, const char *rows, uint32_t width, uint32_t rank,
                       uint32_t count, float *const *acc);
} LATENT[STORAGE_TYPE_COUNT] = {[STORAGE_F32] = {latent_scores_f32, latent_add_values_f32},
                                [STORAGE_F16] = {latent_scores_f16, latent_add_values_f16},
                                [STORAGE_BF16] = {latent_scores_bf16, latent_add_values_bf16},
                                [STORAGE_F8_E4M3] = {latent_scores_fp8, latent_add_values_fp8},
                                [STORAGE_I8] = {latent_scores_int8, latent_add_values_int8}};

/* Positions [start, start + count) for LATENT_QUERIES queries. */
static void latent_attend_split(const struct op_latent_attention *a, uint32_t slot, uint32_t start,
                                uint32_t count, const struct queries *qs,
                                struct partial *const *partials) {
    const struct kv_view *kv = a->view;
    float scores[LATENT_QUERIES][ATTENTION_SPLIT] __attribute__((aligned(64))),
        *acc[LATENT_QUERIES];
    for (uint32_t j = 0; j < count; j += kv->block_tokens) {
        void *layer = kv_layer(kv, slot, start + j);
        float *at[LATENT_QUERIES];
        for (int i = 0; i < LATENT_QUERIES; i++)
            at[i] = scores[i] + j;
        LATENT[kv->type].scores(qs, layer, kv->head_dim, a->rank, MIN(count - j, kv->block_tokens),
                                latent_scales(kv, layer, 0), a->scale, at);
    }
    for (int i = 0; i < LATENT_QUERIES; i++) {
        softmax_split(scores[i], 0, count, (count + VW - 1) / VW * VW, partials[i]);
        acc[i] = partials[i]->acc;
        memset(acc[i], 0, a->rank * sizeof(float));
    }
    for (uint32_t j = 0; j < count; j += kv->block_tokens) {
        void *layer = kv_layer(kv, slot, start + j);
        uint32_t n = MIN(count - j, kv->block_tokens);
        float *at[LATENT_QUERIES];
        for (int i = 0; i < LATENT_QUERIES; i++)
            at[i] = scores[i] + j;
        for (uint32_t k = 0; kv->type == STORAGE_I8 && k < n * LATENT_QUERIES; k++)
            at[k % LATENT_QUERIES][k / LATENT_QUERIES] *=
                latent_scales(kv, layer, k / LATENT_QUERIES)[0];
        LATENT[kv->type].add_values(at, layer, kv->head_dim, a->rank, n, acc);
    }
}

/* A row and up to LATENT_QUERIES heads; heads past the last repeat it and are not written. */
static void latent_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct op_latent_attention *a = ctx;
    uint32_t tiles = (a->heads + LATENT_QUERIES - 1) / LATENT_QUERIES,
             t = (uint32_t)(unit_idx / tiles), width = a->view->head_dim;
    uint32_t first = (uint32_t)(unit_idx % tiles) * LATENT_QUERIES,
             heads = MIN((uint32_t)LATENT_QUERIES, a->heads - first);
    uint32_t position = a->batch->positions[t];
    float *out = (float *)a->out + ((size_t)t * a->heads + first) * a->rank;
    char memory[2 * LATENT_QUERIES][PARTIAL_BYTES(LATENT_WIDTH_MAX)] __attribute__((aligned(64)));
    struct partial *total[LATENT_QUERIES], *split[LATENT_QUERIES];
    struct queries qs = {.count = LATENT_QUERIES};
    if (position == ROW_NONE) {
        memset(out, 0, (size_t)heads * a->rank * sizeof *out);
        return;
    }
    for (uint32_t i = 0; i < LATENT_QUERIES; i++) {
        total[i] = (struct partial *)memory[i];
        split[i] = (struct partial *)memory[LATENT_QUERIES + i];
        qs.q[i] = (const float *)a->q + ((size_t)t * a->heads + first + MIN(i, heads - 1)) * width;
    }
    for (uint32_t start = 0; start <= position; start += ATTENTION_SPLIT) {
        uint32_t count = MIN((uint32_t)ATTENTION_SPLIT, position + 1 - start);
        latent_attend_split(a, a->batch->slots[t], start, count, &qs, start ? split : total);
        for (int i = 0; start && i < LATENT_QUERIES; i++)
            merge(total[i], split[i], a->rank);
    }
    for (uint32_t i = 0; i < heads; i++)
        finish(total[i], NULL, out + (size_t)i * a->rank, a->rank);
}

static void cpu_latent_attention(struct stream *s, const struct op_latent_attention *a) {
    CHECK(a->view->head_dim <= LATENT_WIDTH_MAX && a->rank <= a->view->head_dim &&
          LATENT[a->view->type].scores);
    size_t work = 0, tiles = (a->heads + LATENT_QUERIES - 1) / LATENT_QUERIES;
    for (uint32_t t = 0; t < a->batch->row_count; t++)
        work += a->batch->positions[t] == ROW_NONE ? 0 : a->batch->positions[t] + 1;
    cpu_loop(s, a->batch->row_count * tiles, work * a->heads * a->view->head_dim * 2 / VW,
             latent_unit, (void *)a);
}
