/*
 * linear_scaled.inc.h - few rows and weights with scales beside them, fp8, integers of 8 bits and NF4:
 * the chains of linear.inc.h's tiles, each weight made f32 in a register.
 *
 * e4m3: value = v * scale, rounded once. As f16 the bits of v are those of v / 256, so a step of 2 * VW
 * columns takes few operations, and (v / 256) * (256 * scale) is the same product. Only a NaN is no
 * NaN then: the largest bytes that a chain has met tell, and the caller computes the unit another way.
 * The others: value = (v - zero) * scale.
 */
enum {
    SCALED_COLUMNS = 2 * VW,
    SCALED_ROWS_MAX = VW == 16 ? 8 : 3,         /* of a tile */
    SCALED_ROWS_ROOM = VW == 16 ? 8 : ROWS_MAX, /* of its chains */
    SCALED_ROWS_LIMIT = VW == 16 ? 24 : 12,     /* of more rows weights are made f32 once for all */
};
/* So many that a tile's chains and weights fit the registers; a divisor of QUANT_COLUMNS. */
#define SCALED_OUTPUTS(rows) ((rows) <= 5 ? QUANT_COLUMNS : QUANT_COLUMNS / 2)
/* Times 256 it is finite. */
#define SCALE_MOST 0x1p119f

/* The segment that outputs [first, first + count) lie in, *first in it; NULL: these chains do not take
 * them. */
static const struct matrix_segment *scaled_segment(const struct op_linear *a, uint32_t *first,
                                                   uint32_t count) {
    uint32_t last = *first + count - 1;
    const struct matrix_segment *p = segment_of_row(a->w, first);
    enum storage_type type = segment_type(a->w, p);
    if (a->rows > SCALED_ROWS_LIMIT || count % QUANT_COLUMNS || segment_of_row(a->w, &last) != p ||
        p->groups || a->w->cols % SCALED_COLUMNS || p->scale_cols % SCALED_COLUMNS)
        return NULL;
    /* Scales along the flat segment: a run must end in the same column of all outputs. */
    if (!p->scale_rows && (!p->scale_cols || a->w->cols % p->scale_cols))
        return NULL;
    if (type == STORAGE_F8_E4M3)
        return p->zeros || p->zero != 0 ? NULL : p;
    return storage_is_scaled(type) && type != STORAGE_U4 ? p : NULL;
}

/* Of a run of columns, for each output; of fp8 the scale is times 256. */
struct scaled_run {
    vf scale[QUANT_COLUMNS], zero[QUANT_COLUMNS];
};

/* The run from column k on. Where it ends; 0: a scale is too large. */
ALWAYS_INLINE uint32_t scaled_run_at(const enum storage_type type, const uint32_t outputs,
                                     const struct matrix_segment *p, uint32_t cols, uint32_t row,
                                     uint32_t k, struct scaled_run *out) {
    uint32_t end = cols;
    bool fits = true;
    UNROLL
    for (uint32_t c = 0; c < outputs; c++) {
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

/* A step of one output's chains in two vectors of x. */
ALWAYS_INLINE void add_weights(const int rows, const vf v[2], const struct tile *t, uint32_t k,
                               uint32_t c, vf acc[SCALED_ROWS_ROOM][8]) {
    UNROLL
    for (int i = 0; i < 2; i++) {
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r][c] = v_fma(v_load(t->x + (size_t)r * t->x_stride + k + i * VW), v[i], acc[r][c]);
    }
}

/* The same of some outputs, each vector of x loaded once. */
ALWAYS_INLINE void add_all_weights(const int rows, const uint32_t outputs, vf v[QUANT_COLUMNS][2],
                                   const struct tile *t, uint32_t k, vf acc[SCALED_ROWS_ROOM][8]) {
    UNROLL
    for (int i = 0; i < 2; i++) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf x = v_load(t->x + (size_t)r * t->x_stride + k + i * VW);
            UNROLL
            for (uint32_t c = 0; c < outputs; c++)
                acc[r][c] = v_fma(x, v[c][i], acc[r][c]);
        }
    }
}

/* All chains of a row tile and SCALED_OUTPUTS outputs, the first of them row `row` of p. False: another
 * way, nothing is written. Memory is asked for t->fetch bytes ahead. */
ALWAYS_INLINE bool scaled_chains(const int rows, const enum storage_type type,
                                 const struct matrix_segment *p, uint32_t row, const struct tile *t,
                                 uint32_t c0) {
    const uint32_t cols = (uint32_t)t->width, outputs = SCALED_OUTPUTS(rows);
    const size_t bits = type == STORAGE_NF4 ? 4 : 8, fetch = t->fetch,
                 stride = (size_t)cols * bits / 8;
    const uint8_t *w = (const uint8_t *)p->data + row * stride;
    vf acc[SCALED_ROWS_ROOM][8];
    struct scaled_run run;
    vb most = vb_none();
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (uint32_t c = 0; c < outputs; c++)
            acc[r][c] = v_set1(0);
    }
    for (uint32_t k = 0, end; k < cols;) {
        end = scaled_run_at(type, outputs, p, cols, row, k, &run);
        if (!end)
            return false;
        for (; k < end; k += SCALED_COLUMNS) {
            vf v[QUANT_COLUMNS][2];
            UNROLL
            for (uint32_t c = 0; c < outputs; c++) {
                const uint8_t *at = w + c * stride;
                if (fetch)
                    __builtin_prefetch(at + k * bits / 8 + fetch, 0, 2);
                if (type == STORAGE_F8_E4M3) {
                    most = vb_most_e4m3(most, at + k);
                    v_e4m3_of_256(at + k, v[c]);
                } else {
                    v[c][0] = v_sub(v_stored(type, at, k), run.zero[c]);
                    v[c][1] = v_sub(v_stored(type, at, k + VW), run.zero[c]);
                }
                v[c][0] = v_mul(v[c][0], run.scale[c]);
                v[c][1] = v_mul(v[c][1], run.scale[c]);
                if (VW < 16) /* no registers for several outputs' weights */
                    add_weights(rows, v[c], t, k, c, acc);
            }
            if (VW == 16)
                add_all_weights(rows, outputs, v, t, k, acc);
        }
    }
    if (type == STORAGE_F8_E4M3 && vb_has_nan_e4m3(most))
        return false;
    tile_finish(rows, (int)outputs, t, c0, acc);
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
#define SCALED_TILES_OF(name, type)                                                                \
    FOR_TILE_ROWS(SCALED_TILE, name, type)                                                         \
    SCALED_TILE(7, name, type) SCALED_TILE(8, name, type)
#define SCALED_TABLE(name)                                                                         \
    { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8 }
#else
#define SCALED_TILES_OF(name, type)                                                                \
    SCALED_TILE(1, name, type) SCALED_TILE(2, name, type) SCALED_TILE(3, name, type)
#define SCALED_TABLE(name)                                                                         \
    { name##_1, name##_2, name##_3 }
#endif
SCALED_TILES_OF(scaled_e4m3, STORAGE_F8_E4M3)
SCALED_TILES_OF(scaled_e5m2, STORAGE_F8_E5M2)
SCALED_TILES_OF(scaled_nf4, STORAGE_NF4)
SCALED_TILES_OF(scaled_i8, STORAGE_I8)
SCALED_TILES_OF(scaled_u8, STORAGE_U8)
static const scaled_fn SCALED_TILES[STORAGE_TYPE_COUNT][SCALED_ROWS_MAX] = {
    [STORAGE_F8_E4M3] = SCALED_TABLE(scaled_e4m3), [STORAGE_F8_E5M2] = SCALED_TABLE(scaled_e5m2),
    [STORAGE_NF4] = SCALED_TABLE(scaled_nf4),      [STORAGE_I8] = SCALED_TABLE(scaled_i8),
    [STORAGE_U8] = SCALED_TABLE(scaled_u8),
};

/* Outputs [first, first + all->count) of the matrix for all rows; false: another way. Tiles are of about
 * the same size, and all but the first find their weights in the first cache. */
static bool scaled_columns(const struct op_linear *a, uint32_t first, const struct tile *all) {
    const struct matrix_segment *p = scaled_segment(a, &first, all->count);
    uint32_t tiles = (a->rows + SCALED_ROWS_MAX - 1) / SCALED_ROWS_MAX,
             most = (a->rows + tiles - 1) / tiles;
    const enum storage_type type = p ? segment_type(a->w, p) : STORAGE_NONE;
    for (uint32_t c = 0; p && c < all->count; c += QUANT_COLUMNS) {
        struct tile t = *all;
        t.fetch = storage_bytes(type, (size_t)QUANT_COLUMNS * a->w->cols);
        for (uint32_t done = 0, n; done < a->rows; done += n) {
            n = MIN(a->rows - done, most);
            for (uint32_t i = 0; i < QUANT_COLUMNS; i += (uint32_t)SCALED_OUTPUTS(n))
                if (!SCALED_TILES[type][n - 1](p, first + c + i, &t, c + i))
                    return false;
            t.x += n * t.x_stride;
            t.out += n * t.out_stride;
            t.fetch = 0;
        }
    }
    return p;
}
