/*
 * bf16.inc.h - products in bf16 (bf16.h), once for each variant. The including file has included a
 * vec_*.h and gives BF16_VARIANT and BF16_NAME; with BF16_DOT the processor's own instruction makes a
 * step of 16 chains (VW is 16), else two fmas do.
 *
 * A call has up to BF16_UNIT outputs. Few rows: tiles of rows and outputs read the weights where
 * they lie, and memory for the next outputs is fetched meanwhile. Many: the outputs' weights are
 * copied WIDTH columns at a time, which stay in the first cache, for PASS_ROWS rows; chains that go on in
 * the next columns wait in `carry` as they are. Neither changes what a chain adds.
 */
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/inline.h"
#include "kernels/ref/ref.h"

enum { VECTORS = 16 / VW };
#if VW == 16
enum { ROWS_MAX = 6 };
#define TILE_OUTPUTS(rows) ((rows) <= 2 ? 8 : 4)
#define FOR_TILE_ROWS(X)   X(1) X(2) X(3) X(4) X(5) X(6)
#define TILE_TABLE         tile_1, tile_2, tile_3, tile_4, tile_5, tile_6
#elif VW == 8
enum { ROWS_MAX = 2 };
#define TILE_OUTPUTS(rows) ((rows) == 1 ? 4 : 2)
#define FOR_TILE_ROWS(X)   X(1) X(2)
#define TILE_TABLE         tile_1, tile_2
#else
enum { ROWS_MAX = 1 };
#define TILE_OUTPUTS(rows) 2
#define FOR_TILE_ROWS(X)   X(1)
#define TILE_TABLE         tile_1
#endif
enum { OUTPUTS_MAX = 8, WIDTH = 512, PASS_ROWS = 96, DIRECT_ROWS = 4 * ROWS_MAX };

/* Columns [0, width) of a row tile: where x, weights and outputs begin. */
struct tile {
    const char *x;
    size_t x_stride;      /* bytes */
    const char *const *w; /* [count] */
    uint32_t count, width;
    size_t
        fetch; /* bytes from an output's weights to the next one's, which are asked for ahead; or 0 */
    float *carry; /* [rows, BF16_UNIT, 16], or NULL: the chains begin and end here */
    bool begins, ends;
    const float *bias;
    float *out;
    size_t out_stride;
};

/* 16 pairs of numbers. */
struct pairs {
    vi v[VECTORS];
};
struct chains {
    vf v[VECTORS];
};

ALWAYS_INLINE struct pairs pairs_at(const char *p) { /* aligned to 2 bytes alone */
    struct pairs a;
    UNROLL
    for (int i = 0; i < VECTORS; i++)
        memcpy(&a.v[i], p + (size_t)i * sizeof(vi), sizeof(vi));
    return a;
}
/* The first `count` columns, zeros behind. */
ALWAYS_INLINE struct pairs some_pairs_at(const char *p, uint32_t count) {
    uint32_t words[16] = {0};
    memcpy(words, p, 2 * (size_t)count);
    return pairs_at((const char *)words);
}

ALWAYS_INLINE void add_step(struct chains *acc, const struct pairs *w, const struct pairs *x) {
#ifdef BF16_DOT
    acc->v[0] = BF16_DOT(acc->v[0], w->v[0], x->v[0]);
#else
    const vi top = vi_set1(0xffff0000);
    UNROLL
    for (int i = 0; i < VECTORS; i++) {
        acc->v[i] = v_fma(v_cast(vi_and(w->v[i], top)), v_cast(vi_and(x->v[i], top)), acc->v[i]);
        acc->v[i] = v_fma(v_cast(vi_shl(w->v[i], 16)), v_cast(vi_shl(x->v[i], 16)), acc->v[i]);
    }
#endif
}

ALWAYS_INLINE vf join(const struct chains *acc) {
    vf v[VECTORS];
    memcpy(v, acc->v, sizeof v);
    UNROLL
    for (int half = VECTORS / 2; half; half /= 2) {
        UNROLL
        for (int i = 0; i < half; i++)
            v[i] = v_add(v[i], v[i + half]);
    }
    return v[0];
}

/* The chains of a tile into `carry`. */
ALWAYS_INLINE void carry_on(const int rows, const int outputs, const struct tile *t, uint32_t first,
                            struct chains acc[ROWS_MAX][OUTPUTS_MAX]) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        float *carry = t->carry + ((size_t)r * BF16_UNIT + first) * 16;
        UNROLL
        for (int n = 0; n < outputs; n++) {
            UNROLL
            for (int i = 0; i < VECTORS; i++)
                v_store(carry + n * 16 + i * VW, acc[r][n].v[i]);
        }
    }
}

/* Their sums and the bias into `out`. */
ALWAYS_INLINE void finish(const int rows, const int outputs, const struct tile *t, uint32_t first,
                          struct chains acc[ROWS_MAX][OUTPUTS_MAX]) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        float sums[OUTPUTS_MAX], *out = t->out + (size_t)r * t->out_stride + first;
        vf joined[OUTPUTS_MAX];
        UNROLL
        for (int n = 0; n < outputs; n++)
            joined[n] = join(&acc[r][n]);
        if (outputs % 4) {
            UNROLL
            for (int n = 0; n < outputs; n++)
                sums[n] = v_hsum(joined[n]);
        } else {
            UNROLL
            for (int n = 0; n < outputs; n += 4)
                v_hsum4(&joined[n], sums + n);
        }
        UNROLL
        for (int n = 0; n < outputs; n++)
            out[n] = sums[n] + (t->bias ? t->bias[first + (uint32_t)n] : 0.0f);
    }
}

/* A step of rows x outputs chains. */
ALWAYS_INLINE void add_rows(const int rows, const int outputs, const struct pairs *w, const char *x,
                            size_t x_stride, struct chains acc[ROWS_MAX][OUTPUTS_MAX]) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        struct pairs xv = pairs_at(x + (size_t)r * x_stride);
        UNROLL
        for (int n = 0; n < outputs; n++)
            add_step(&acc[r][n], &w[n], &xv);
    }
}

/* rows x outputs chains from output `first` on. */
ALWAYS_INLINE void tile_chains(const int rows, const int outputs, const struct tile *t,
                               uint32_t first) {
    struct chains acc[ROWS_MAX][OUTPUTS_MAX];
    const char *w[OUTPUTS_MAX], *x = t->x;
    const size_t x_stride = t->x_stride, ahead = t->fetch * (size_t)outputs;
    const uint32_t width = t->width;
    uint32_t k = 0;
    UNROLL
    for (int n = 0; n < outputs; n++)
        w[n] = t->w[first + (uint32_t)n];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int n = 0; n < outputs; n++) {
            UNROLL
            for (int i = 0; i < VECTORS; i++)
                acc[r][n].v[i] =
                    t->begins ? v_set1(0)
                              : v_load(t->carry +
                                       ((size_t)r * BF16_UNIT + first + (uint32_t)n) * 16 + i * VW);
        }
    }
    for (; k + BF16_STEP <= width; k += BF16_STEP) {
        struct pairs wv[OUTPUTS_MAX];
        UNROLL
        for (int n = 0; n < outputs; n++) {
            wv[n] = pairs_at(w[n] + 2 * (size_t)k);
            __builtin_prefetch(w[n] + ahead + 2 * (size_t)k, 0, 2);
        }
        add_rows(rows, outputs, wv, x + 2 * (size_t)k, x_stride, acc);
    }
    if (k < width) {
        struct pairs wv[OUTPUTS_MAX];
        UNROLL
        for (int n = 0; n < outputs; n++)
            wv[n] = some_pairs_at(w[n] + 2 * (size_t)k, width - k);
        add_rows(rows, outputs, wv, x + 2 * (size_t)k, x_stride, acc);
    }
    if (t->ends)
        finish(rows, outputs, t, first, acc);
    else
        carry_on(rows, outputs, t, first, acc);
}

/* All outputs for one row tile. */
#define TILE(rows)                                                                                 \
    static void tile_##rows(const struct tile *t) {                                                \
        uint32_t n = 0;                                                                            \
        for (; n + TILE_OUTPUTS(rows) <= t->count; n += TILE_OUTPUTS(rows))                        \
            tile_chains(rows, TILE_OUTPUTS(rows), t, n);                                           \
        for (; n < t->count; n++)                                                                  \
            tile_chains(rows, 1, t, n);                                                            \
    }
FOR_TILE_ROWS(TILE)
static void (*const TILES[ROWS_MAX])(const struct tile *t) = {TILE_TABLE};

/* Rows [0, rows) in tiles. next: [BF16_UNIT] weights to fetch meanwhile, WIDTH columns of each, or
 * NULL. */
static void run_tiles(const struct tile *first, uint32_t rows, const char *const *next) {
    struct tile t = *first;
    uint32_t fetched = 0;
    for (uint32_t done = 0; done < rows;) {
        uint32_t n = MIN(rows - done, (uint32_t)ROWS_MAX);
        done += n;
        for (; next && fetched < done * BF16_UNIT / rows; fetched++)
            for (uint32_t i = 0; i < 2 * WIDTH; i += 64)
                __builtin_prefetch(next[fetched] + i, 0, 2);
        TILES[n - 1](&t);
        t.x += n * t.x_stride;
        t.out += n * t.out_stride;
        t.fetch = 0;
        if (t.carry)
            t.carry += (size_t)n * BF16_UNIT * 16;
    }
}

/* Up to PASS_ROWS rows, WIDTH columns of weights at a time. */
static void many_rows(const struct tile *all, uint32_t rows) {
    enum { WIDE_BYTES = 2 * WIDTH + 64 }; /* not all in the same sets of a cache */
    char wide[BF16_UNIT * WIDE_BYTES] __attribute__((aligned(64)));
    float carry[PASS_ROWS * BF16_UNIT * 16] __attribute__((aligned(64)));
    const char *w[BF16_UNIT], *next[BF16_UNIT];
    struct tile t = *all;
    t.w = w;
    t.carry = carry;
    t.fetch = 0;
    for (uint32_t k = 0; k < all->width; k += WIDTH) {
        t.width = MIN(all->width - k, (uint32_t)WIDTH);
        t.x = all->x + 2 * (size_t)k;
        t.begins = k == 0;
        t.ends = k + t.width == all->width;
        for (uint32_t n = 0; n < BF16_UNIT; n++) {
            const char *row = all->w[MIN(n, t.count - 1)] + 2 * (size_t)k;
            next[n] =
                row + (t.ends ? (size_t)BF16_UNIT * 2 * all->width - 2 * (size_t)k : 2 * WIDTH);
            if (n < t.count)
                w[n] = memcpy(wide + n * WIDE_BYTES, row, 2 * (size_t)t.width);
        }
        run_tiles(&t, rows, next);
    }
}

static void bf16_multiply(const struct bf16_product *p, uint32_t first, uint32_t count) {
    const char *w[BF16_UNIT];
    for (uint32_t n = 0; n < count; n++)
        w[n] = matrix_row(p->w, first + n);
    struct tile t = {.x = p->x.data,
                     .x_stride = p->x.stride,
                     .w = w,
                     .count = count,
                     .width = p->w->cols,
                     .fetch = 2 * (size_t)p->w->cols,
                     .begins = true,
                     .ends = true,
                     .bias = p->w->bias ? p->w->bias + first : NULL,
                     .out = p->out + first,
                     .out_stride = p->out_stride};
    if (p->x.row_count <= DIRECT_ROWS) {
        run_tiles(&t, p->x.row_count, NULL);
        return;
    }
    for (uint32_t done = 0; done < p->x.row_count; done += PASS_ROWS) {
        many_rows(&t, MIN(p->x.row_count - done, (uint32_t)PASS_ROWS));
        t.x += PASS_ROWS * t.x_stride;
        t.out += PASS_ROWS * t.out_stride;
    }
}

/* ---- activations ---- */

static void bf16_round(const float *x, const struct bf16_rows *rows, uint32_t t) {
    uint16_t *out = (uint16_t *)(void *)(rows->data + t * rows->stride);
    const float *row = x + (size_t)t * rows->cols;
    for (uint32_t k = 0; k < rows->cols; k++) {
        uint32_t bits, rounded;
        memcpy(&bits, row + k, 4);
        rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        out[k] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
    }
    memset(out + rows->cols, 0, rows->stride - 2 * (size_t)rows->cols);
}

const struct bf16_variant BF16_VARIANT = {
    .name = BF16_NAME, .round = bf16_round, .multiply = bf16_multiply};
