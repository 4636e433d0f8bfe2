/*
 * int8_amx.inc.h - rows x a panel on AMX's tiles, for int8.inc.h.
 *
 * A block of a half panel lies as a tile wants its second operand: 8 rows of 16 outputs, 4 columns
 * each. The first operand is up to 16 rows of activations where they lie, 32 columns wide (16 where
 * there is a scale for each 16). A tile of int32 sums goes to memory and from there, two blocks
 * later, into f32 sums that stay in registers for the run of blocks. Fewer than TILE_ROWS_LEAST rows
 * are met faster by vectors. Tiles: 0 to 3 sums, 4 and 5 rows, 6 and 7 weights.
 */
#include "kernels/cpu/tiles.h"

enum { TILE = 16, RING = 4, TILE_ROWS_LEAST = 13 };

/* Tiles of 16 rows: behind the last row come spare ones, read and forgotten. */
static void configure_tiles(enum kind kind) {
    struct tile_config config = {.palette = 1};
    uint32_t bytes = kind == KIND_HALVES ? 16 : 32;
    for (int i = 0; i < 8; i++) {
        config.rows[i] = (uint8_t)(i >= 6 ? bytes / 4 : TILE);
        config.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? bytes : BYTES);
    }
    tiles_configure(&config);
}

typedef int32_t sum_tile[TILE][LANES];

/* The products of one span of a block of a half panel, by tiles of `set`. */
#define SPAN_SUMS(c, a, b, w, x, stride, out)                                                      \
    TILE_ZERO(c);                                                                                  \
    TILE_LOAD(b, w, BYTES);                                                                        \
    TILE_LOAD(a, x, stride);                                                                       \
    TILE_ADD_INT8_DOT(c, a, b);                                                                    \
    TILE_STORE(c, out, BYTES)

/* Two blocks' products: a tile for each span of each. */
ALWAYS_INLINE void block_sums(const enum kind kind, const struct pair *w, uint32_t half,
                              const int8_t *x, size_t stride, sum_tile (*out)[2]) {
    const struct block *first = &w[0].half[half], *second = &w[1].half[half];
    SPAN_SUMS(0, 4, 6, first->q, x, stride, out[0][0]);
    SPAN_SUMS(1, 5, 7, second->q, x + 32, stride, out[1][0]);
    if (kind == KIND_HALVES) {
        SPAN_SUMS(2, 4, 6, first->q + 4, x + 16, stride, out[0][1]);
        SPAN_SUMS(3, 5, 7, second->q + 4, x + 48, stride, out[1][1]);
    }
}

/* Their share of the f32 sums. */
ALWAYS_INLINE void add_sums(const enum kind kind, const int rows, const struct block *w,
                            const float *d, const struct dots *m, sum_tile sums[2], vf acc[TILE]) {
    const size_t step = m->stride / sizeof *d;
    for (int span = 0; span < (kind == KIND_HALVES ? 2 : 1); span++) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            vi sum;
            memcpy(&sum, sums[span][r], sizeof sum);
            acc[r] = f_fma(f_of_int(sum), w->scale[span] * f_set(d[(size_t)r * step]), acc[r]);
        }
    }
    if (has_minima(kind)) {
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r] = f_fma(w->minimum, f_set(d[(size_t)r * step + m->array]), acc[r]);
    }
}

/* All blocks of a half panel and one tile of rows. */
ALWAYS_INLINE void dot_half(const enum kind kind, const int rows, const struct dots *m,
                            uint32_t half) {
    sum_tile sums[RING][2] __attribute__((aligned(64)));
    float *carry = m->acc + half * LANES;
    vf acc[TILE];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = m->begins ? f_set(0) : f_at(carry + r * 2 * LANES);
    block_sums(kind, m->w, half, m->x, m->stride, &sums[0]);
    for (uint32_t b = 0; b < m->blocks; b += 2) {
        if (b + 2 < m->blocks)
            block_sums(kind, &m->w[b + 2], half, m->x + 32 * (b + 2), m->stride,
                       &sums[(b + 2) % RING]);
        add_sums(kind, rows, &m->w[b].half[half], m->d + b, m, sums[b % RING], acc);
        if (b + 1 < m->blocks)
            add_sums(kind, rows, &m->w[b + 1].half[half], m->d + b + 1, m, sums[(b + 1) % RING],
                     acc);
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        memcpy(carry + r * 2 * LANES, &acc[r], sizeof acc[r]);
}

#define DOT_TILES(kind, name)                                                                      \
    static void dot_tiles_##name(const struct dots *first, uint32_t rows) {                        \
        struct dots m = *first;                                                                    \
        for (uint32_t t = 0; t < rows; t += TILE, skip_rows(&m, TILE))                             \
            for (uint32_t half = 0; half < 2; half++)                                              \
                dot_half(kind, TILE, &m, half);                                                    \
    }
DOT_TILES(KIND_4, 4)
DOT_TILES(KIND_5, 5)
DOT_TILES(KIND_HALVES, halves)
DOT_TILES(KIND_8, 8)
DOT_TILES(KIND_4_MINIMA, 4_minima)
DOT_TILES(KIND_5_MINIMA, 5_minima)
static void (*const TILE_DOTS[])(const struct dots *first,
                                 uint32_t rows) = {[KIND_4] = dot_tiles_4,
                                                   [KIND_5] = dot_tiles_5,
                                                   [KIND_HALVES] = dot_tiles_halves,
                                                   [KIND_8] = dot_tiles_8,
                                                   [KIND_4_MINIMA] = dot_tiles_4_minima,
                                                   [KIND_5_MINIMA] = dot_tiles_5_minima};

/* Tiles take signed bytes. */
ALWAYS_INLINE void make_signed(const enum kind kind, struct block *b) {
    UNROLL
    for (int i = 0; i < WORDS; i++)
        b->q[i] -= (uint8_t)(offset_bits(kind) ? 1 << offset_bits(kind) : 0);
}
