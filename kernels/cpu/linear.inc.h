/*
 * linear.inc.h - out[t, n] = x[t, :] . w[n, :] + bias[n] for any storage type, reading weights where they lie.
 *
 * One output is one chain: VW lanes walk along the columns with one fma a step, the tail masked with zeros, lanes added
 * by v_hsum's tree, then the bias. Tiles only decide how many such chains run side by side, so a row's bits depend
 * neither on the number of rows nor on its place.
 *
 * Work: part = COLUMNS consecutive outputs; in it row tiles of up to ROWS_MAX rows reuse each widened weight, and the
 * part's weights stay in cache for all row tiles.
 */
#if VW == 16
enum { ROWS_MAX = 6 };
/* Chains side by side: enough to hide the fma's latency, few enough for 32 registers. */
#define TILE_COLUMNS(rows) ((rows) <= 2 ? 8 : 4)
#else
enum { ROWS_MAX = 5 };
#define TILE_COLUMNS(rows) ((rows) == 1 ? 8 : (rows) == 2 ? 4 : 2)
#endif
enum { PART_COLUMNS = 16 };

struct linear_task {
    const struct op_linear *a;
    uint32_t columns_a_part;
};

/* rows x columns chains; w[c] are the weight rows; out, bias begin at the tile's first column. */
ALWAYS_INLINE void linear_tile(const int rows, const int columns, const enum storage_type type, const float *x,
                               const void *const *w, size_t width, const float *bias, float *out, size_t out_stride) {
    vf acc[ROWS_MAX][8];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int c = 0; c < columns; c++) acc[r][c] = v_set1(0);
    size_t k = 0;
    for (; k + VW <= width; k += VW) {
        vf wv[8];
        UNROLL for (int c = 0; c < columns; c++) wv[c] = v_load_as(type, w[c], k);
        UNROLL for (int r = 0; r < rows; r++) {
            vf xv = v_load(x + r * width + k);
            UNROLL for (int c = 0; c < columns; c++) acc[r][c] = v_fma(xv, wv[c], acc[r][c]);
        }
    }
    if (k < width) {
        vf wv[8];
        UNROLL for (int c = 0; c < columns; c++) wv[c] = v_load_as_n(type, w[c], k, width - k);
        UNROLL for (int r = 0; r < rows; r++) {
            vf xv = v_load_n(x + r * width + k, width - k);
            UNROLL for (int c = 0; c < columns; c++) acc[r][c] = v_fma(xv, wv[c], acc[r][c]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int c = 0; c < columns; c++) out[r * out_stride + c] =
        v_hsum(acc[r][c]) + (bias ? bias[c] : 0.0f);
}

/* All columns [0, count) of a part for one row tile. */
ALWAYS_INLINE void linear_rows(const int rows, const enum storage_type type, const float *x, const void *const *w,
                               uint32_t count, size_t width, const float *bias, float *out, size_t out_stride) {
    uint32_t c = 0;
    for (; c + TILE_COLUMNS(rows) <= count; c += TILE_COLUMNS(rows))
        linear_tile(rows, TILE_COLUMNS(rows), type, x, w + c, width, bias ? bias + c : NULL, out + c, out_stride);
    for (; c < count; c++) linear_tile(rows, 1, type, x, w + c, width, bias ? bias + c : NULL, out + c, out_stride);
}

typedef void (*linear_rows_fn)(const float *x, const void *const *w, uint32_t count, size_t width, const float *bias,
                               float *out, size_t out_stride);

#define LINEAR_ROWS(rows, name, type)                                                                                  \
    static void linear_##name##_##rows(const float *x, const void *const *w, uint32_t count, size_t width,             \
                                       const float *bias, float *out, size_t out_stride) {                             \
        linear_rows(rows, type, x, w, count, width, bias, out, out_stride);                                            \
    }
#if VW == 16
#define LINEAR_TYPE(name, type)                                                                                        \
    LINEAR_ROWS(1, name, type)                                                                                         \
    LINEAR_ROWS(2, name, type)                                                                                         \
    LINEAR_ROWS(3, name, type) LINEAR_ROWS(4, name, type) LINEAR_ROWS(5, name, type) LINEAR_ROWS(6, name, type)
#define LINEAR_TABLE(name)                                                                                             \
    { linear_##name##_1, linear_##name##_2, linear_##name##_3, linear_##name##_4, linear_##name##_5, linear_##name##_6 }
#else
#define LINEAR_TYPE(name, type)                                                                                        \
    LINEAR_ROWS(1, name, type)                                                                                         \
    LINEAR_ROWS(2, name, type) LINEAR_ROWS(3, name, type) LINEAR_ROWS(4, name, type) LINEAR_ROWS(5, name, type)
#define LINEAR_TABLE(name)                                                                                             \
    { linear_##name##_1, linear_##name##_2, linear_##name##_3, linear_##name##_4, linear_##name##_5 }
#endif
LINEAR_TYPE(f32, STORAGE_F32)
LINEAR_TYPE(f16, STORAGE_F16)
LINEAR_TYPE(bf16, STORAGE_BF16)

static const linear_rows_fn LINEAR[STORAGE_TYPE_COUNT][ROWS_MAX] = {
    [STORAGE_F32] = LINEAR_TABLE(f32), [STORAGE_F16] = LINEAR_TABLE(f16), [STORAGE_BF16] = LINEAR_TABLE(bf16)};

static void linear_columns(const struct op_linear *a, uint32_t first, uint32_t count) {
    const void *w[PART_COLUMNS];
    for (uint32_t c = 0; c < count; c++) w[c] = matrix_row(a->w, first + c);
    size_t width = a->w->cols;
    const float *bias = a->w->bias ? a->w->bias + first : NULL;
    for (uint32_t t = 0; t < a->rows;) {
        uint32_t rows = MIN(a->rows - t, (uint32_t)ROWS_MAX);
        LINEAR[a->w->type][rows - 1]((const float *)a->x + t * width, w, count, width, bias,
                                     (float *)a->out + (size_t)t * a->out_stride + first, a->out_stride);
        t += rows;
    }
}

static void linear_part(void *ctx, size_t part_idx, int thread_idx) {
    const struct linear_task *task = ctx;
    uint32_t n = (uint32_t)part_idx * task->columns_a_part, end = MIN(n + task->columns_a_part, task->a->w->rows);
    for (; n < end; n += PART_COLUMNS) linear_columns(task->a, n, MIN((uint32_t)PART_COLUMNS, end - n));
}

static void cpu_linear(struct stream *s, const struct op_linear *a) {
    CHECK(a->out_stride >= a->w->rows && a->w->type > STORAGE_NONE && a->w->type < STORAGE_TYPE_COUNT);
    if (a->rows == 0) return;
    struct linear_task task = {.a = a, .columns_a_part = PART_COLUMNS};
    while (a->w->rows / task.columns_a_part > 256) task.columns_a_part *= 2;
    size_t parts = (a->w->rows + task.columns_a_part - 1) / task.columns_a_part;
    cpu_loop(s, parts, (size_t)a->rows * a->w->rows * a->w->cols / VW, linear_part, &task);
}
