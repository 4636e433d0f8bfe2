/*
 * linear.inc.h - out[t, n] = x[t, :] . w[n, :] + bias[n] for any storage type, reading weights
 * where they lie.
 *
 * One output is one chain: VW lanes walk along the columns with one fma a step, the tail masked
 * with zeros, lanes added by v_hsum's tree, then the bias. Tiles, blocks and threads only decide
 * which chains run side by side and when, so a row's bits depend neither on the number of rows nor
 * on its place.
 *
 * Work: unit = UNIT_COLUMNS consecutive outputs. Few rows: row tiles read the stored weights
 * directly, types in blocks dequantized into registers, and ask for those of the next outputs; a
 * second tile finds them in cache. Many rows, and types without such tiles: the unit's weights are
 * dequantized a block of WIDE_WIDTH columns at a time, for WIDE_ROWS rows; chains that go on in the
 * next block wait in `carry` as they are. So a product with any type has the bits of the product
 * with the same values as f32.
 */
enum { ROWS_MAX = 6 };
#if VW == 16
/* Chains side by side: enough to hide the fma's latency, few enough for 32 registers. */
#define TILE_COLUMNS(rows) ((rows) <= 2 ? 8 : 4)
enum { DIRECT_TILES = 2, WIDE_WIDTH = 1024 };
#else
/* 16 registers: up to 12 chains, some vectors of weights and of x. */
#define TILE_COLUMNS(rows) ((rows) == 1 ? 8 : (rows) <= 3 ? 4 : (rows) == 4 ? 3 : 2)
/* So many steps take a whole line of weights of 16 bits. */
enum { FETCH_STEPS = 4 };
/* A unit's block of columns and a tile's rows stay in a first-level cache of 32 KB. */
enum { DIRECT_TILES = 8, WIDE_WIDTH = 256 };
#endif
#define FOR_TILE_ROWS(X, ...)                                                                      \
    X(1, __VA_ARGS__)                                                                              \
    X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__)
#define TILE_TABLE(name)                                                                           \
    { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6 }
enum { UNIT_COLUMNS = 16, QUANT_COLUMNS = 4, QUANT_ROWS_MAX = VW / 4, WIDE_ROWS = 16 * ROWS_MAX };

struct linear_task {
    const struct op_linear *a;
    uint32_t columns_a_unit;
};

/* Columns [0, width) of a row tile: where x, weights and outputs of the unit begin. */
struct tile {
    const float *x;
    size_t x_stride;
    const void *const *w; /* [count] weight rows */
    uint32_t count;
    size_t width;
    size_t fetch; /* bytes from a weight row to the next one, which is asked for ahead; or 0 */
    float *carry; /* [rows, UNIT_COLUMNS, VW], or NULL: the chains begin and end here */
    bool begins, ends;
    const float *bias;
    float *out;
    size_t out_stride;
};

/* The chains of a tile into `carry`, or their sums and the bias into `out`. */
ALWAYS_INLINE void tile_finish(const int rows, const int columns, const struct tile *t, uint32_t c0,
                               vf acc[ROWS_MAX][8]) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        if (!t->ends) {
            UNROLL
            for (int c = 0; c < columns; c++)
                v_store(t->carry + ((size_t)r * UNIT_COLUMNS + c0 + (uint32_t)c) * VW, acc[r][c]);
            continue;
        }
        float sums[8];
        if (columns % 4 == 0) {
            UNROLL
            for (int c = 0; c < columns; c += 4)
                v_hsum4(&acc[r][c], sums + c);
        } else {
            UNROLL
            for (int c = 0; c < columns; c++)
                sums[c] = v_hsum(acc[r][c]);
        }
        float *out = t->out + (size_t)r * t->out_stride + c0;
        UNROLL
        for (int c = 0; c < columns; c++)
            out[c] = sums[c] + (t->bias ? t->bias[c0 + (uint32_t)c] : 0.0f);
    }
}

/* Keeps a vector in its register: as an operand of each fma it would be loaded for each. */
#if VW == 8
#define KEEP(v) __asm__("" : "+x"(v))
#else
#define KEEP(v) (void)0
#endif

/* One step of rows x columns chains: VW columns, x from its place on, weights from k on. Registers
 * hold the vectors of what there are fewer of, rows or columns, and one of the other. */
ALWAYS_INLINE void tile_step(const int rows, const int columns, const enum storage_type type,
                             const void *const *w, const float *x, size_t x_stride, size_t k,
                             vf acc[ROWS_MAX][8]) {
    vf few[ROWS_MAX];
    if (rows < columns) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            few[r] = v_load(x + (size_t)r * x_stride);
            KEEP(few[r]);
        }
        UNROLL
        for (int c = 0; c < columns; c++) {
            vf wv = v_load_as(type, w[c], k);
            KEEP(wv);
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r][c] = v_fma(few[r], wv, acc[r][c]);
        }
        return;
    }
    UNROLL
    for (int c = 0; c < columns; c++)
        few[c] = v_load_as(type, w[c], k);
    UNROLL
    for (int r = 0; r < rows; r++) {
        vf xv = v_load(x + (size_t)r * x_stride);
        KEEP(xv);
        UNROLL
        for (int c = 0; c < columns; c++)
            acc[r][c] = v_fma(xv, few[c], acc[r][c]);
    }
}

/* rows x columns chains from column c of the unit on. */
ALWAYS_INLINE void tile_chains(const int rows, const int columns, const enum storage_type type,
                               const struct tile *t, uint32_t c0) {
    vf acc[ROWS_MAX][8];
    const void *const *w = t->w + c0;
    const float *x = t->x;
    size_t k = 0, width = t->width;
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int c = 0; c < columns; c++)
            acc[r][c] = t->begins
                            ? v_set1(0)
                            : v_load(t->carry + ((size_t)r * UNIT_COLUMNS + c0 + (uint32_t)c) * VW);
    }
#if VW == 8
    const size_t ahead = t->fetch * (size_t)columns, value = type == STORAGE_F32 ? 4 : 2;
    for (; k + FETCH_STEPS * VW <= width; k += FETCH_STEPS * VW) {
        UNROLL
        for (int c = 0; c < columns && ahead; c++)
            for (size_t i = 0; i < FETCH_STEPS * VW * value; i += 64)
                __builtin_prefetch((const char *)w[c] + ahead + k * value + i, 0, 2);
        UNROLL
        for (size_t i = 0; i < FETCH_STEPS * VW; i += VW)
            tile_step(rows, columns, type, w, x + k + i, t->x_stride, k + i, acc);
    }
#endif
    for (; k + VW <= width; k += VW)
        tile_step(rows, columns, type, w, x + k, t->x_stride, k, acc);
    if (k < width) {
        vf wv[8];
        UNROLL
        for (int c = 0; c < columns; c++)
            wv[c] = v_load_as_n(type, w[c], k, width - k);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf xv = v_load_n(x + (size_t)r * t->x_stride + k, width - k);
            UNROLL
            for (int c = 0; c < columns; c++)
                acc[r][c] = v_fma(xv, wv[c], acc[r][c]);
        }
    }
    tile_finish(rows, columns, t, c0, acc);
}

/* All columns of the unit for one row tile. */
ALWAYS_INLINE void tile_columns(const int rows, const enum storage_type type,
                                const struct tile *t) {
    uint32_t c = 0;
    for (; c + TILE_COLUMNS(rows) <= t->count; c += TILE_COLUMNS(rows)) {
        if (TILE_COLUMNS(rows) == 3 && t->count - c == 4)
            break; /* two and two instead of three and one */
        tile_chains(rows, TILE_COLUMNS(rows), type, t, c);
    }
    for (; TILE_COLUMNS(rows) == 3 && c + 2 <= t->count; c += 2)
        tile_chains(rows, 2, type, t, c);
    for (; c < t->count; c++)
        tile_chains(rows, 1, type, t, c);
}

typedef void (*tile_fn)(const struct tile *t);
#define TILE_FUNCTION(rows, name, type)                                                            \
    static void name##_##rows(const struct tile *t) {                                              \
        tile_columns(rows, type, t);                                                               \
    }
FOR_TILE_ROWS(TILE_FUNCTION, tile_f32, STORAGE_F32)
FOR_TILE_ROWS(TILE_FUNCTION, tile_f16, STORAGE_F16)
FOR_TILE_ROWS(TILE_FUNCTION, tile_bf16, STORAGE_BF16)

/* ---- types in blocks, few rows ---- */

/* All chains of one row tile, as tile_columns; t->count a multiple of QUANT_COLUMNS. Memory is
 * asked for a group of columns ahead: the rows are too short for the machine to see it coming. */
ALWAYS_INLINE void quant_chains(const int rows, const enum storage_type type, const uint32_t values,
                                const uint32_t bytes, const struct tile *t, uint32_t c0) {
    const uint8_t *w[QUANT_COLUMNS];
    const float *x = t->x;
    const size_t size = t->width / values * bytes, groups = values / 32,
                 pair = MIN(groups, (size_t)2);
    vf acc[ROWS_MAX][8];
    UNROLL
    for (int c = 0; c < QUANT_COLUMNS; c++)
        w[c] = t->w[c0 + (uint32_t)c];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int c = 0; c < QUANT_COLUMNS; c++)
            acc[r][c] = v_set1(0);
    }
    for (size_t at = 0; at < size; at += bytes) {
        struct open_block o[QUANT_COLUMNS];
        UNROLL
        for (int c = 0; c < QUANT_COLUMNS; c++) {
            open_of(type, w[c] + at, &o[c]);
            for (uint32_t i = 0; i < bytes; i += 64)
                __builtin_prefetch(w[c] + at + QUANT_COLUMNS * size + i, 0, 2);
        }
        for (uint32_t g = 0; g < groups; g += pair) {
            UNROLL
            for (uint32_t h = 0; h < pair; h++, x += 32) {
                UNROLL
                for (int c = 0; c < QUANT_COLUMNS; c++) {
                    vf v[LANES];
                    lanes_of(type, w[c] + at, &o[c], g + h, v);
                    UNROLL
                    for (int i = 0; i < LANES; i++) {
                        UNROLL
                        for (int r = 0; r < rows; r++)
                            acc[r][c] = v_fma(v_load(x + (size_t)r * t->x_stride + i * VW), v[i],
                                              acc[r][c]);
                    }
                }
            }
        }
    }
    tile_finish(rows, QUANT_COLUMNS, t, c0, acc);
}

#define QUANT_TILE(rows, symbol, values, bytes, lower)                                             \
    static void tile_##lower##_##rows(const struct tile *t) {                                      \
        for (uint32_t c = 0; c < t->count; c += QUANT_COLUMNS)                                     \
            quant_chains(rows, STORAGE_##symbol, values, bytes, t, c);                             \
    }
#if VW == 16
#define QUANT_TILES(...)                                                                           \
    QUANT_TILE(1, __VA_ARGS__)                                                                     \
    QUANT_TILE(2, __VA_ARGS__) QUANT_TILE(3, __VA_ARGS__) QUANT_TILE(4, __VA_ARGS__)
#define QUANT_ROW(symbol, values, bytes, lower)                                                    \
    [STORAGE_##symbol] = {tile_##lower##_1, tile_##lower##_2, tile_##lower##_3, tile_##lower##_4},
#elif VW == 8
#define QUANT_TILES(...) QUANT_TILE(1, __VA_ARGS__) QUANT_TILE(2, __VA_ARGS__)
#define QUANT_ROW(symbol, values, bytes, lower)                                                    \
    [STORAGE_##symbol] = {tile_##lower##_1, tile_##lower##_2},
#else /* nothing is won */
#define QUANT_TILES(...)
#define QUANT_ROW(...)
#endif
LANE_TYPES(QUANT_TILES)

static const tile_fn TILES[STORAGE_TYPE_COUNT][ROWS_MAX] = {[STORAGE_F32] = TILE_TABLE(tile_f32),
                                                            [STORAGE_F16] = TILE_TABLE(tile_f16),
                                                            [STORAGE_BF16] = TILE_TABLE(tile_bf16),
                                                            LANE_TYPES(QUANT_ROW)};

/* Where weight rows [first, first + count) begin, if these tiles read them: few rows of x, weights
 * of one type that has such tiles. Else STORAGE_NONE. */
static enum storage_type direct_rows(const struct op_linear *a, uint32_t first, uint32_t count,
                                     const void **w) {
    enum storage_type type = STORAGE_NONE;
    size_t row_bytes = 0;
    for (uint32_t c = 0; c < count; c++) {
        uint32_t row = first + c;
        const struct matrix_segment *p = segment_of_row(a->w, &row);
        if (c && segment_type(a->w, p) != type)
            return STORAGE_NONE;
        if (c == 0)
            row_bytes = storage_bytes(type = segment_type(a->w, p), a->w->cols);
        w[c] = (const char *)p->data + row * row_bytes;
    }
    bool plain = storage_is_plain(type);
    if (!plain && (count % QUANT_COLUMNS || !TILES[type][0]))
        return STORAGE_NONE;
    return a->rows <= (plain ? DIRECT_TILES * (uint32_t)ROWS_MAX : (uint32_t)QUANT_ROWS_MAX)
               ? type
               : STORAGE_NONE;
}

/* Rows [0, rows) in tiles. */
static void run_tiles(enum storage_type type, const struct tile *first, uint32_t rows) {
    struct tile t = *first;
    for (uint32_t done = 0; done < rows;) {
        uint32_t n = MIN(rows - done, (uint32_t)ROWS_MAX);
        TILES[type][n - 1](&t);
        done += n;
        t.x += n * t.x_stride;
        t.out += n * t.out_stride;
        t.fetch = 0; /* the next tile finds these weights in a cache */
        if (t.carry)
            t.carry += (size_t)n * UNIT_COLUMNS * VW;
    }
}

/* Up to WIDE_ROWS rows of a unit, block by block along the columns. */
static void wide_rows(const struct matrix *m, uint32_t first, const struct tile *all,
                      uint32_t rows) {
    float wide[UNIT_COLUMNS][WIDE_WIDTH + 16] __attribute__((aligned(64))),
        carry[WIDE_ROWS * UNIT_COLUMNS * VW] __attribute__((aligned(64)));
    const void *w[UNIT_COLUMNS];
    struct tile t = *all;
    t.w = w;
    t.carry = carry;
    for (size_t k = 0; k < all->width; k += WIDE_WIDTH) {
        t.width = MIN(all->width - k, (size_t)WIDE_WIDTH);
        t.x = all->x + k;
        t.begins = k == 0;
        t.ends = k + t.width == all->width;
        for (uint32_t c = 0; c < t.count; c++) {
            uint32_t row = first + c;
            const struct matrix_segment *p = segment_of_row(m, &row);
            enum storage_type type = segment_type(m, p);
            w[c] =
                type == STORAGE_F32 ? (const float *)p->data + (size_t)row * m->cols + k : wide[c];
            if (type != STORAGE_F32)
                DEQUANTIZE[type](p, m->cols, row, k, t.width, wide[c]);
        }
        run_tiles(STORAGE_F32, &t, rows);
    }
}

#if VW >= 8
#include "kernels/cpu/linear_scaled.inc.h"
#endif

static void linear_columns(const struct op_linear *a, uint32_t first, uint32_t count) {
    const void *w[UNIT_COLUMNS];
    enum storage_type direct = direct_rows(a, first, count, w);
    struct tile t = {.x = a->x,
                     .x_stride = a->w->cols,
                     .w = w,
                     .count = count,
                     .width = a->w->cols,
                     .fetch = direct != STORAGE_NONE ? storage_bytes(direct, a->w->cols) : 0,
                     .begins = true,
                     .ends = true,
                     .bias = a->w->bias ? a->w->bias + first : NULL,
                     .out = (float *)a->out + first,
                     .out_stride = a->out_stride};
    if (direct != STORAGE_NONE) {
        run_tiles(direct, &t, a->rows);
        return;
    }
#if VW >= 8
    if (scaled_columns(a, first, &t))
        return;
#endif
    for (uint32_t done = 0; done < a->rows; done += WIDE_ROWS) {
        wide_rows(a->w, first, &t, MIN(a->rows - done, (uint32_t)WIDE_ROWS));
        t.x += WIDE_ROWS * t.x_stride;
        t.out += WIDE_ROWS * t.out_stride;
    }
}

static void linear_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct linear_task *task = ctx;
    uint32_t n = (uint32_t)unit_idx * task->columns_a_unit,
             end = MIN(n + task->columns_a_unit, task->a->w->rows);
    for (; n < end; n += UNIT_COLUMNS)
        linear_columns(task->a, n, MIN((uint32_t)UNIT_COLUMNS, end - n));
}

#if VW == 8
#include "kernels/cpu/linear_lanes.inc.h"
#endif

static void cpu_linear(struct stream *s, const struct op_linear *a) {
    CHECK(!a->gated);
    CHECK(a->out_stride >= a->w->rows && a->w->type > STORAGE_NONE &&
          a->w->type < STORAGE_TYPE_COUNT);
    if (a->rows == 0)
        return;
    if (a->w->compute == COMPUTE_INT8) {
        cpu_int8_linear(s, a);
        return;
    }
    if (a->w->compute == COMPUTE_BF16) {
        cpu_bf16_linear(s, a);
        return;
    }
#if VW == 16
    if (a->w->compute == COMPUTE_INT8_GROUPS) {
        cpu_group_linear(s, a);
        return;
    }
    if (((const struct cpu_device *)s->dev)->tiles && cpu_tiles_take(a->w)) {
        cpu_tile_linear(s, a);
        return;
    }
#endif
#if VW == 8
    if (a->rows >= LANE_ROWS_LEAST && lane_room(a->w) >= LANE_ROWS_LEAST) {
        lane_linear(s, a);
        return;
    }
#endif
    struct linear_task task = {.a = a, .columns_a_unit = UNIT_COLUMNS};
    while (a->w->rows / task.columns_a_unit > 256)
        task.columns_a_unit *= 2;
    size_t units = (a->w->rows + task.columns_a_unit - 1) / task.columns_a_unit;
    cpu_loop(s, units, (size_t)a->rows * a->w->rows * a->w->cols / VW, linear_unit, &task);
}
