/*
 * linear_scaled.inc.h - few rows and weights of 8 bits with scales beside them, fp8 (e4m3) and
 * integers: the chains of linear.inc.h's tiles, each weight made f32 in a register.
 *
 * fp8: value = v * scale, rounded once. As f16 the bits of v are those of v / 256, so a step of 2 * VW
 * columns takes few operations, and (v / 256) * (256 * scale) is the same product. Only a NaN is no
 * NaN then: the largest bytes that a chain has met tell, and the caller computes the unit another way.
 * Integers: value = (v - zero) * scale.
 */
enum {
    SCALED_COLUMNS = 2 * VW,
    SCALED_ROWS_MAX = VW == 16 ? 6 : 3, /* of a tile */
    SCALED_TILES_MAX = 4                /* of more rows weights are made f32 once for all */
};
/* Times 256 it is finite. */
#define SCALE_MOST 0x1p119f

/* The segment that outputs [first, first + count) lie in, *first in it; NULL: these chains do not take
 * them. */
static const struct matrix_segment *scaled_segment(const struct op_linear *a, uint32_t *first,
                                                   uint32_t count) {
    uint32_t last = *first + count - 1;
    const struct matrix_segment *p = segment_of_row(a->w, first);
    enum storage_type type = segment_type(a->w, p);
    if (a->rows > SCALED_TILES_MAX * (uint32_t)SCALED_ROWS_MAX || count % QUANT_COLUMNS ||
        segment_of_row(a->w, &last) != p || !p->scale_rows || p->groups ||
        a->w->cols % SCALED_COLUMNS || p->scale_cols % SCALED_COLUMNS)
        return NULL;
    if (type == STORAGE_F8_E4M3)
        return p->zeros || p->zero != 0 ? NULL : p;
    return type == STORAGE_U8 || type == STORAGE_I8 ? p : NULL;
}

/* Of a run of columns, for each output; of fp8 the scale is times 256. */
struct scaled_run {
    vf scale[QUANT_COLUMNS], zero[QUANT_COLUMNS];
};

/* The run from column k on. Where it ends; 0: a scale is too large. */
ALWAYS_INLINE uint32_t scaled_run_at(const enum storage_type type, const struct matrix_segment *p,
                                     uint32_t cols, uint32_t row, uint32_t k,
                                     struct scaled_run *out) {
    uint32_t end = cols;
    bool fits = true;
    UNROLL
    for (uint32_t c = 0; c < QUANT_COLUMNS; c++) {
        float zero, scale;
        end = dequantize_run(p, cols, row + c, 0, cols, k, &zero, &scale);
        if (type == STORAGE_F8_E4M3) {
            fits = fits && fabsf(scale) <= SCALE_MOST;
            scale *= 256;
        }
        out->scale[c] = v_set1(scale);
        out->zero[c] = v_set1(zero);
    }
    return fits ? end : 0;
}

/* All chains of a row tile and QUANT_COLUMNS outputs, the first of them row `row` of p. False: another
 * way, nothing is written. Memory is asked for t->fetch bytes ahead. */
ALWAYS_INLINE bool scaled_chains(const int rows, const enum storage_type type,
                                 const struct matrix_segment *p, uint32_t row, const struct tile *t,
                                 uint32_t c0) {
    const uint32_t cols = (uint32_t)t->width;
    const uint8_t *w = (const uint8_t *)p->data + (size_t)row * cols;
    const size_t fetch = t->fetch;
    vf acc[ROWS_MAX][8];
    struct scaled_run run;
    vb most = vb_none();
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int c = 0; c < QUANT_COLUMNS; c++)
            acc[r][c] = v_set1(0);
    }
    for (uint32_t k = 0, end; k < cols;) {
        end = scaled_run_at(type, p, cols, row, k, &run);
        if (!end)
            return false;
        for (; k < end; k += SCALED_COLUMNS) {
            UNROLL
            for (size_t c = 0; c < QUANT_COLUMNS; c++) {
                vf v[2];
                if (fetch)
                    __builtin_prefetch(w + c * cols + k + fetch, 0, 2);
                if (type == STORAGE_F8_E4M3) {
                    most = vb_most_e4m3(most, w + c * cols + k);
                    v_e4m3_of_256(w + c * cols + k, v);
                } else {
                    v[0] = v_sub(v_stored(type, w, c * cols + k), run.zero[c]);
                    v[1] = v_sub(v_stored(type, w, c * cols + k + VW), run.zero[c]);
                }
                UNROLL
                for (int i = 0; i < 2; i++) {
                    vf weight = v_mul(v[i], run.scale[c]);
                    UNROLL
                    for (int r = 0; r < rows; r++)
                        acc[r][c] = v_fma(v_load(t->x + (size_t)r * t->x_stride + k + i * VW),
                                          weight, acc[r][c]);
                }
            }
        }
    }
    if (type == STORAGE_F8_E4M3 && vb_has_nan_e4m3(most))
        return false;
    tile_finish(rows, QUANT_COLUMNS, t, c0, acc);
    return true;
}

typedef bool (*scaled_fn)(const struct matrix_segment *p, uint32_t row, const struct tile *t,
                          uint32_t c0);
#define SCALED_TILE(rows, name, type)                                                              \
    static bool name##_##rows(const struct matrix_segment *p, uint32_t row, const struct tile *t,  \
                              uint32_t c0) {                                                       \
        return scaled_chains(rows, type, p, row, t, c0);                                           \
    }
#if VW == 16
#define SCALED_TILES_OF(name, type) FOR_TILE_ROWS(SCALED_TILE, name, type)
#define SCALED_TABLE(name)          TILE_TABLE(name)
#else
#define SCALED_TILES_OF(name, type)                                                                \
    SCALED_TILE(1, name, type) SCALED_TILE(2, name, type) SCALED_TILE(3, name, type)
#define SCALED_TABLE(name)                                                                         \
    { name##_1, name##_2, name##_3 }
#endif
SCALED_TILES_OF(scaled_e4m3, STORAGE_F8_E4M3)
SCALED_TILES_OF(scaled_i8, STORAGE_I8)
SCALED_TILES_OF(scaled_u8, STORAGE_U8)
static const scaled_fn SCALED_TILES[STORAGE_TYPE_COUNT][SCALED_ROWS_MAX] = {
    [STORAGE_F8_E4M3] = SCALED_TABLE(scaled_e4m3),
    [STORAGE_I8] = SCALED_TABLE(scaled_i8),
    [STORAGE_U8] = SCALED_TABLE(scaled_u8),
};

/* Outputs [first, first + all->count) of the matrix for all rows; false: another way. Tiles are of about
 * the same size, and all but the first find their weights in the first cache. */
static bool scaled_columns(const struct op_linear *a, uint32_t first, const struct tile *all) {
    const struct matrix_segment *p = scaled_segment(a, &first, all->count);
    uint32_t tiles = (a->rows + SCALED_ROWS_MAX - 1) / SCALED_ROWS_MAX,
             most = (a->rows + tiles - 1) / tiles;
    for (uint32_t c = 0; p && c < all->count; c += QUANT_COLUMNS) {
        struct tile t = *all;
        t.fetch = (size_t)QUANT_COLUMNS * a->w->cols;
        for (uint32_t done = 0, n; done < a->rows; done += n) {
            n = MIN(a->rows - done, most);
            if (!SCALED_TILES[segment_type(a->w, p)][n - 1](p, first + c, &t, c))
                return false;
            t.x += n * t.x_stride;
            t.out += n * t.out_stride;
            t.fetch = 0;
        }
    }
    return p;
}
