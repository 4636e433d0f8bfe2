/*
 * bf16.inc.h - products in bf16 (bf16.h), once for each variant. The including file has included a
 * vec_*.h and gives BF16_VARIANT and BF16_NAME; with BF16_DOT the processor's own instruction makes a
 * step of 16 chains (VW is 16), else two fmas do.
 *
 * A call has up to BF16_UNIT outputs. Tiles of rows and outputs read the weights where they lie,
 * WIDTH columns at a time where there are several tiles; chains that go on in the next columns wait
 * in `carry` as they are, which changes nothing that a chain adds. Memory for the next outputs is
 * fetched meanwhile, by several tiles each its share: if the first asked for all, it would wait for
 * memory, and the others leave it idle.
 *
 * With the processor's own instruction a few rows, as many as stay in the first cache, meet one
 * output after the other: a step is so short that the order of memory decides.
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
enum { OUTPUTS_MAX = 8, WIDTH = 2048, PASS_ROWS = 96 };

/* What a tile asks memory for meanwhile: nothing, the weights of the next few outputs, or of those
 * of the next call, as far as they are its share. */
enum ask { ASK_NOTHING, ASK_NEXT, ASK_SHARE };

/* Columns [0, width) of a row tile: where x, weights and outputs begin. */
struct tile {
    const char *x;
    size_t x_stride;      /* bytes */
    const char *const *w; /* [count] */
    uint32_t count, width;
    enum ask ask;
    uint32_t share[2]; /* which of the next call's few outputs */
    size_t row_bytes;  /* from an output's weights to the next one's */
    float *carry;      /* [rows, BF16_UNIT, 16] */
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
ALWAYS_INLINE void tile_chains(const int rows, const int outputs, const enum ask ask,
                               const struct tile *t, uint32_t first) {
    struct chains acc[ROWS_MAX][OUTPUTS_MAX];
    const char *w[OUTPUTS_MAX], *x = t->x;
    const size_t x_stride = t->x_stride, ahead = t->row_bytes * (size_t)outputs;
    const char *behind = t->w[first] + BF16_UNIT * t->row_bytes,
               *share[2] = {behind + t->share[0] * t->row_bytes,
                            behind + t->share[1] * t->row_bytes};
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
            if (ask == ASK_NEXT)
                __builtin_prefetch(w[n] + ahead + 2 * (size_t)k, 0, 2);
        }
        for (int i = 0; i < 2 && ask == ASK_SHARE; i++)
            __builtin_prefetch(share[i] + 2 * (size_t)k, 0, 2);
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
            switch (t->ask) {                                                                      \
            case ASK_NOTHING: tile_chains(rows, TILE_OUTPUTS(rows), ASK_NOTHING, t, n); break;     \
            case ASK_NEXT: tile_chains(rows, TILE_OUTPUTS(rows), ASK_NEXT, t, n); break;           \
            case ASK_SHARE: tile_chains(rows, TILE_OUTPUTS(rows), ASK_SHARE, t, n); break;         \
            }                                                                                      \
        for (; n < t->count; n++)                                                                  \
            tile_chains(rows, 1, ASK_NOTHING, t, n);                                               \
    }
FOR_TILE_ROWS(TILE)
static void (*const TILES[ROWS_MAX])(const struct tile *t) = {TILE_TABLE};

#ifdef BF16_DOT
enum { AHEAD = 2048 };
/* The same chains, one output after the other from end to end: memory is read in order, AHEAD bytes
 * ahead. Outputs side by side lie 2 * cols bytes apart, and that many places of memory at once are
 * read slower. */
ALWAYS_INLINE void chains_in_order(const int rows, const int outputs, const struct tile *t,
                                   uint32_t first) {
    struct chains acc[ROWS_MAX][OUTPUTS_MAX];
    for (int n = 0; n < outputs; n++) {
        const char *w = t->w[first + (uint32_t)n], *x = t->x;
        struct chains own[ROWS_MAX][OUTPUTS_MAX];
        uint32_t k = 0;
        UNROLL
        for (int r = 0; r < rows; r++)
            own[r][0].v[0] = v_set1(0);
        for (; k + BF16_STEP <= t->width; k += BF16_STEP) {
            struct pairs wv = pairs_at(w + 2 * (size_t)k);
            __builtin_prefetch(w + 2 * (size_t)k + AHEAD, 0, 3);
            add_rows(rows, 1, &wv, x + 2 * (size_t)k, t->x_stride, own);
        }
        if (k < t->width) {
            struct pairs wv = some_pairs_at(w + 2 * (size_t)k, t->width - k);
            add_rows(rows, 1, &wv, x + 2 * (size_t)k, t->x_stride, own);
        }
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r][n] = own[r][0];
    }
    finish(rows, outputs, t, first, acc);
}
#define IN_ORDER(rows)                                                                             \
    static void in_order_##rows(const struct tile *t) {                                            \
        uint32_t n = 0;                                                                            \
        for (; n + OUTPUTS_MAX <= t->count; n += OUTPUTS_MAX)                                      \
            chains_in_order(rows, OUTPUTS_MAX, t, n);                                              \
        for (; n < t->count; n++)                                                                  \
            chains_in_order(rows, 1, t, n);                                                        \
    }
FOR_TILE_ROWS(IN_ORDER)
static void (*const ROWS_IN_ORDER[ROWS_MAX])(const struct tile *t) = {
    in_order_1, in_order_2, in_order_3, in_order_4, in_order_5, in_order_6};

/* Whether so many rows are better off so: they should stay in the first cache beside the weights
 * that pass, or reading them costs more than is won. */
static bool takes_order(const struct tile *t, uint32_t rows) {
    enum { NEAR_BYTES = 26 << 10 };
    return rows == 1 || (rows <= ROWS_MAX && rows * t->x_stride <= NEAR_BYTES);
}
#endif

/* Rows of the next tile where `left` are to do: about as many in each, since a small one reads as
 * many weights as a large one. */
static uint32_t tile_rows(uint32_t left) {
    uint32_t tiles = (left + ROWS_MAX - 1) / ROWS_MAX;
    return (left + tiles - 1) / tiles;
}

/* Rows [0, rows) in tiles. */
static void run_tiles(const struct tile *first, uint32_t rows) {
    const uint32_t tiles = (rows + ROWS_MAX - 1) / ROWS_MAX,
                   outputs = (uint32_t)TILE_OUTPUTS(ROWS_MAX);
    struct tile t = *first;
    uint32_t asked = 0;
    t.ask = tiles == 1 ? ASK_NEXT : ASK_SHARE;
    for (uint32_t i = 0, n; i < tiles; i++, rows -= n) {
        uint32_t end = (outputs * (i + 1) + tiles - 1) / tiles;
        n = tile_rows(rows);
        t.share[0] = asked;
        t.share[1] = MAX(end, asked + 1) - 1;
        asked = end;
        TILES[n - 1](&t);
        t.x += n * t.x_stride;
        t.out += n * t.out_stride;
        t.carry += (size_t)n * BF16_UNIT * 16;
    }
}

/* Up to PASS_ROWS rows. More than one tile of them, and all columns would not stay near. */
static void multiply_rows(const struct tile *all, uint32_t rows) {
    float carry[PASS_ROWS * BF16_UNIT * 16] __attribute__((aligned(64)));
    const char *w[BF16_UNIT];
    const uint32_t width = rows > ROWS_MAX ? WIDTH : all->width;
    struct tile t = *all;
#ifdef BF16_DOT
    if (takes_order(all, rows)) {
        ROWS_IN_ORDER[rows - 1](all);
        return;
    }
#endif
    t.w = w;
    t.carry = carry;
    for (uint32_t k = 0; k < all->width; k += width) {
        t.width = MIN(all->width - k, width);
        t.x = all->x + 2 * (size_t)k;
        t.begins = k == 0;
        t.ends = k + t.width == all->width;
        for (uint32_t n = 0; n < t.count; n++)
            w[n] = all->w[n] + 2 * (size_t)k;
        run_tiles(&t, rows);
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
                     .row_bytes = 2 * (size_t)p->w->cols,
                     .bias = p->w->bias ? p->w->bias + first : NULL,
                     .out = p->out + first,
                     .out_stride = p->out_stride};
    for (uint32_t done = 0; done < p->x.row_count; done += PASS_ROWS) {
        multiply_rows(&t, MIN(p->x.row_count - done, (uint32_t)PASS_ROWS));
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
