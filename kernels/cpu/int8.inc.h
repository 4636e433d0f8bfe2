/*
 * int8.inc.h - products with activations of 8 bits (kernels/integers.h), once for each variant.
 *
 * The including file gives LANES (outputs side by side in a vector), INT8_VARIANT, and operations on
 * vectors of 4 * LANES bytes:
 *
 *   vq, vi, vf    bytes, int32, f32; vectors of the compiler's, so +, &, >> are lane by lane
 *   vs, vn        sums of u * x over the four bytes of a lane, u unsigned; its numbers, uint16 for two
 *                 bytes each or uint32, which wrap: between the steps a sum may be too large for them,
 *                 not at the end. s_first, then s_add, s_behind: s_first after a start; s_end gives
 *                 them as int32
 *   s_start       its numbers moved up by so many bits, of sums that are the same in every lane
 *   s_sums        of a block's activations: minus their sum, and that of its first half, as numbers of
 *                 vs in 4 bytes each
 *   DOT_8         whether u may have 8 bits; i_dot where not: i + the sum of w * x, w from -128, x
 *                 from -127
 *   SUMS_5        so many s_add of u < 32 fit a number that does not wrap
 *   STREAMS       so many rows at most meet weights straight from memory: 1 where more were not
 *                 measured, 4, or 16 (STREAMED_ROWS has each kind's)
 *   q_word        the 4 bytes at p in every lane;  q_lookup  table[index], indexes below 16
 *   i_bytes, f_bytes, f_signed  LANES bytes at p, unsigned or signed: GCC 12 converts its own vectors
 *                 of bytes one by one
 *   f_fma, f_set, f_of_int;  f_half  LANES f16 at p;  f_quantize  quantize_block of integers.h
 *
 * Cost of a panel: its weights are read once for INT8_ROWS rows, made bytes a chunk of INT8_CHUNK
 * columns at a time (they stay in the first cache), and meet ROWS_MAX rows at once. The f32 sums of
 * a chunk go on where the last one's ended, so neither the chunk nor the rows side by side change a
 * bit.
 */
#include <math.h>

#include "kernels/cpu/inline.h"
#include "kernels/cpu/int8.h"
#include "kernels/dequantize.h"

enum {
    BYTES = 4 * LANES,
    WORDS = 8, /* of 4 columns in a block of 32 */
    ROWS_MAX = 4,
    INT8_ROWS = 128,
    CHUNK_BLOCKS = INT8_CHUNK / 32,
    FETCH_AHEAD = 4096
};

/* Which arithmetic a type's integers need: v = u - offset, or minima and u alone. */
enum kind {
    KIND_4,      /* u < 16, offset 8 */
    KIND_5,      /* u < 32, offset 16 */
    KIND_HALVES, /* u < 64, offset 32, a scale for each 16 */
    KIND_8,      /* offset 128; without DOT_8 v as it is */
    KIND_4_MINIMA,
    KIND_5_MINIMA
};
/* The offset is 2 to this power; 0 without one. */
ALWAYS_INLINE int offset_bits(const enum kind kind) {
    return kind == KIND_4            ? 3
           : kind == KIND_5          ? 4
           : kind == KIND_HALVES     ? 5
           : kind == KIND_8 && DOT_8 ? 7
                                     : 0;
}
ALWAYS_INLINE bool has_minima(const enum kind kind) {
    return kind == KIND_4_MINIMA || kind == KIND_5_MINIMA;
}

/* 32 columns of a vector of outputs. */
struct block {
    vq q[WORDS];
    vf scale[2], minimum; /* minima negated */
};
/* Of both halves of a panel. */
struct pair {
    struct block half[2];
};

#include "kernels/cpu/int8_units.inc.h"

/* ---- units ---- */

/* Unit `unit` of a half panel whose first output is `first`. */
static void pack_unit(const struct matrix *w, const struct matrix_segment *p, struct int8_layout l,
                      uint32_t first, uint32_t unit, uint8_t *out) {
    enum storage_type type = segment_type(w, p);
    const size_t stride = storage_bytes(type, w->cols);
    const uint8_t *row =
        (const uint8_t *)p->data + first * stride + storage_bytes(type, (size_t)unit * l.unit_cols);
    const uint32_t lanes = first < p->rows ? MIN(p->rows - first, (uint32_t)LANES) : 0;
    if (lanes < LANES)
        memset(out, 0, (size_t)l.row_bytes * LANES);
    switch (type) {
#define PACK_CASE(name, kind)                                                                      \
    case STORAGE_##name:                                                                           \
        for (uint32_t lane = 0; lane < lanes; lane++)                                              \
            pack_##name(row + lane * stride, lane, out);                                           \
        put_words_of(lanes, out + WORDS_OF[type].to * LANES, row + WORDS_OF[type].from, stride,    \
                     WORDS_OF[type].count);                                                        \
        break;
        INT8_BLOCK_TYPES(PACK_CASE)
#undef PACK_CASE
    default:
        for (uint32_t lane = 0; lane < lanes; lane++)
            pack_scaled(w, p, first + lane, unit * (l.unit_cols / 32), l.unit_cols / 32, lane, out);
    }
}

/* Asks for the share of the next panel's rows that falls to a unit: they lie one after the other, but
 * a panel's units take a little of each row at a time. */
static void fetch_rows(const struct matrix *w, const struct matrix_segment *p, uint32_t panel,
                       uint32_t unit, uint32_t units) {
    size_t bytes = storage_bytes(segment_type(w, p), w->cols) * 2 * LANES,
           share = (bytes + units - 1) / units;
    const uint8_t *from = (const uint8_t *)p->data + (panel + 1) * bytes + unit * share;
    for (size_t i = 0; i < share; i += 64)
        __builtin_prefetch(from + i, 0, 2);
}

static void int8_pack(const struct matrix *w, uint32_t segment, uint32_t panel, uint8_t *out) {
    const struct matrix_segment *p = &w->segments[segment];
    struct int8_layout l = int8_layout(w, p);
    const uint32_t units = w->cols / l.unit_cols;
    for (uint32_t unit = 0; unit < units; unit++) {
        fetch_rows(w, p, panel, unit, units);
        for (uint32_t half = 0; half < 2; half++, out += (size_t)l.row_bytes * LANES)
            pack_unit(w, p, l, (2 * panel + half) * LANES, unit, out);
    }
}

/* ---- rows x a panel ---- */

/* What some rows and a panel have to do with each other in a run of blocks. */
struct dots {
    const struct pair *w;
    uint32_t blocks;
    const int8_t *x;      /* the first row's values of the first block */
    const float *d;       /* its scale, with the other arrays of int8_scales behind it */
    size_t array;         /* items from one of these to the next */
    size_t stride;        /* bytes from row to row */
    float *acc;           /* [rows][2 * LANES] */
    bool begins;          /* with zeros in place of acc, which else goes on */
    const uint8_t *ahead; /* packed weights to fetch meanwhile, evenly */
    uint32_t ahead_lines;
};

/* What sums of a row's span begin with. */
ALWAYS_INLINE vs start_of(const enum kind kind, const int span, const float *row, size_t array) {
    vn sums =
        (vn)q_word((const int8_t *)(row + (kind == KIND_HALVES && span == 0 ? 3 : 2) * array));
    if (span)
        sums -= (vn)q_word((const int8_t *)(row + 3 * array));
    return s_start(sums, offset_bits(kind));
}

#if !DOT_8
ALWAYS_INLINE void dot_signed(const int rows, const struct pair *w, const int8_t *x, size_t stride,
                              vi (*sum)[2]) {
    UNROLL
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = (vi){0};
    UNROLL
    for (int i = 0; i < WORDS; i++) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            vq xv = q_word(x + (size_t)r * stride + 4 * i);
            sum[r][0] = i_dot(sum[r][0], w->half[0].q[i], xv);
            sum[r][1] = i_dot(sum[r][1], w->half[1].q[i], xv);
        }
    }
}
#endif

/* The span's words of both halves. */
ALWAYS_INLINE void dot_unsigned(const enum kind kind, const int rows, const int span,
                                const struct pair *w, const int8_t *x, const float *d,
                                const struct dots *m, vi (*sum)[2]) {
    const int words = kind == KIND_HALVES ? WORDS / 2 : WORDS, from = span * words,
              steps = kind == KIND_5_MINIMA ? MIN(words, SUMS_5) : words;
    UNROLL
    for (int i = from; i < from + words; i += steps) {
        vs s[ROWS_MAX][2];
        UNROLL
        for (int j = i; j < i + steps; j++) {
            UNROLL
            for (int r = 0; r < rows; r++) {
                vq xv = q_word(x + (size_t)r * m->stride + 4 * j);
                UNROLL
                for (int h = 0; h < 2; h++)
                    s[r][h] =
                        j > i ? s_add(s[r][h], w->half[h].q[j], xv)
                        : offset_bits(kind)
                            ? s_behind(start_of(kind, span, d + (size_t)r * (m->stride / sizeof *d),
                                                m->array),
                                       w->half[h].q[j], xv)
                            : s_first(w->half[h].q[j], xv);
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int h = 0; h < 2; h++)
                sum[r][h] = i > from ? sum[r][h] + s_end(s[r][h]) : s_end(s[r][h]);
        }
    }
}

/* The span's share of the f32 sums. */
ALWAYS_INLINE void add_span(const enum kind kind, const int rows, const int span,
                            const struct pair *w, const struct dots *m, const float *d,
                            vi (*sum)[2], vf (*acc)[2]) {
    UNROLL
    for (int r = 0; r < rows; r++) {
        const float *row = d + (size_t)r * (m->stride / sizeof *d);
        UNROLL
        for (int h = 0; h < 2; h++) {
            acc[r][h] = f_fma(f_of_int(sum[r][h]), w->half[h].scale[span] * f_set(*row), acc[r][h]);
            if (has_minima(kind))
                acc[r][h] = f_fma(w->half[h].minimum, f_set(row[m->array]), acc[r][h]);
        }
    }
}

ALWAYS_INLINE void dot_span(const enum kind kind, const int rows, const int span,
                            const struct pair *w, const int8_t *x, const float *d,
                            const struct dots *m, vf (*acc)[2]) {
    vi sum[ROWS_MAX][2];
#if !DOT_8
    if (kind == KIND_8)
        dot_signed(rows, w, x, m->stride, sum);
    else
#endif
        dot_unsigned(kind, rows, span, w, x, d, m, sum);
    add_span(kind, rows, span, w, m, d, sum, acc);
}

/* A block and `rows` rows: x and d are the first's, others m->stride further. */
ALWAYS_INLINE void dot_block(const enum kind kind, const int rows, const struct pair *w,
                             const int8_t *x, const float *d, const struct dots *m, vf (*acc)[2]) {
    dot_span(kind, rows, 0, w, x, d, m, acc);
    if (kind == KIND_HALVES)
        dot_span(kind, rows, 1, w, x, d, m, acc);
}

ALWAYS_INLINE void begin_sums(const int rows, const struct dots *m, vf (*acc)[2]) {
    UNROLL
    for (int i = 0; i < 2 * rows; i++)
        acc[i / 2][i % 2] = m->begins ? f_set(0) : f_at(m->acc + i * LANES);
}

/* `lines` of the cache are asked for at each block. */
ALWAYS_INLINE void dot(const enum kind kind, const int rows, const struct dots *m, uint32_t lines) {
    const int8_t *x = m->x;
    const float *d = m->d;
    const uint8_t *ahead = m->ahead;
    vf acc[ROWS_MAX][2];
    begin_sums(rows, m, acc);
    for (const struct pair *w = m->w; w < m->w + m->blocks; w++, x += 32, d++) {
        for (uint32_t i = 0; i < lines; i++, ahead += 64)
            __builtin_prefetch(ahead, 0, 2);
        dot_block(kind, rows, w, x, d, m, acc);
    }
    UNROLL
    for (int i = 0; i < 2 * rows; i++)
        memcpy(m->acc + i * LANES, &acc[i / 2][i % 2], sizeof acc[0][0]);
}

ALWAYS_INLINE void skip_rows(struct dots *m, uint32_t rows) {
    m->x += rows * m->stride;
    m->d += rows * (m->stride / sizeof *m->d);
    m->acc += rows * 2 * LANES;
}

/* How many lines each block of a tile of rows asks for: all tiles ask for what lies ahead, or the
 * first would wait for it and the others leave memory idle. */
static uint32_t lines_of_tile(const struct dots *m, uint32_t rows) {
    uint32_t blocks = m->blocks * ((rows + ROWS_MAX - 1) / ROWS_MAX);
    return (m->ahead_lines + blocks - 1) / blocks;
}
static void skip_tile(struct dots *m, uint32_t rows, uint32_t lines) {
    skip_rows(m, rows);
    m->ahead += (size_t)lines * m->blocks * 64;
    m->ahead_lines -= MIN(m->ahead_lines, lines * m->blocks);
}

#define DOT_ROWS(kind, name)                                                                       \
    static void dot_rows_##name(const struct dots *first, uint32_t rows) {                         \
        struct dots m = *first;                                                                    \
        while (rows) {                                                                             \
            uint32_t n = MIN(rows, (uint32_t)ROWS_MAX), lines = lines_of_tile(&m, rows);           \
            switch (n) {                                                                           \
            case 1: dot(kind, 1, &m, lines); break;                                                \
            case 2: dot(kind, 2, &m, lines); break;                                                \
            case 3: dot(kind, 3, &m, lines); break;                                                \
            case 4: dot(kind, 4, &m, lines); break;                                                \
            default: break;                                                                        \
            }                                                                                      \
            skip_tile(&m, n, lines);                                                               \
            rows -= n;                                                                             \
        }                                                                                          \
    }
DOT_ROWS(KIND_4, 4)
DOT_ROWS(KIND_5, 5)
DOT_ROWS(KIND_HALVES, halves)
DOT_ROWS(KIND_8, 8)
DOT_ROWS(KIND_4_MINIMA, 4_minima)
DOT_ROWS(KIND_5_MINIMA, 5_minima)
static void (*const ROW_DOTS[])(const struct dots *first,
                                uint32_t rows) = {[KIND_4] = dot_rows_4,
                                                  [KIND_5] = dot_rows_5,
                                                  [KIND_HALVES] = dot_rows_halves,
                                                  [KIND_8] = dot_rows_8,
                                                  [KIND_4_MINIMA] = dot_rows_4_minima,
                                                  [KIND_5_MINIMA] = dot_rows_5_minima};
#ifdef INT8_TILES
#include "kernels/cpu/int8_amx.inc.h"
#endif

/* A unit of a panel as bytes, and as tiles take them. */
#define UNPACK_UNIT(name, kind)                                                                    \
    static void unpack_unit_##name(const uint8_t *unit, size_t half_bytes, uint32_t blocks,        \
                                   struct pair *out) {                                             \
        for (uint32_t g = 0; g < blocks; g++)                                                      \
            for (uint32_t h = 0; h < 2; h++)                                                       \
                unpack_##name(unit + h * half_bytes, g, &out[g].half[h]);                          \
    }                                                                                              \
    UNPACK_SIGNED(name, kind)
#ifdef INT8_TILES
#define UNPACK_SIGNED(name, kind)                                                                  \
    static void unpack_signed_##name(const uint8_t *unit, size_t half_bytes, uint32_t blocks,      \
                                     struct pair *out) {                                           \
        for (uint32_t g = 0; g < blocks; g++)                                                      \
            for (uint32_t h = 0; h < 2; h++) {                                                     \
                unpack_##name(unit + h * half_bytes, g, &out[g].half[h]);                          \
                make_signed(kind, &out[g].half[h]);                                                \
            }                                                                                      \
    }
#define UNPACK_PAIR(name)                                                                          \
    { unpack_unit_##name, unpack_signed_##name }
#else
#define UNPACK_SIGNED(name, kind)
#define UNPACK_PAIR(name)                                                                          \
    { unpack_unit_##name }
#endif
INT8_TYPES(UNPACK_UNIT)

/* The first ROWS_MAX rows meet packed units while these become bytes, at m->w, for the rows behind
 * them: what unpacks and what multiplies are for the most part other ports of a processor. */
#define UNPACK_DOT(name, kind)                                                                     \
    static void unpack_dot_##name(const uint8_t *unit, size_t half_bytes, uint32_t unit_blocks,    \
                                  const struct dots *m, uint32_t lines, struct pair *w) {          \
        const int8_t *x = m->x;                                                                    \
        const float *d = m->d;                                                                     \
        const uint8_t *ahead = m->ahead;                                                           \
        vf acc[ROWS_MAX][2];                                                                       \
        begin_sums(ROWS_MAX, m, acc);                                                              \
        for (const struct pair *end = w + m->blocks; w < end; unit += 2 * half_bytes) {            \
            for (uint32_t g = 0; g < unit_blocks; g++, w++, x += 32, d++) {                        \
                for (uint32_t i = 0; i < lines; i++, ahead += 64)                                  \
                    __builtin_prefetch(ahead, 0, 2);                                               \
                unpack_##name(unit, g, &w->half[0]);                                               \
                unpack_##name(unit + half_bytes, g, &w->half[1]);                                  \
                dot_block(kind, ROWS_MAX, w, x, d, m, acc);                                        \
            }                                                                                      \
        }                                                                                          \
        memcpy(m->acc, acc, sizeof acc);                                                           \
    }
#if STREAMS > 1
INT8_TYPES(UNPACK_DOT)
#define UNPACK_DOT_OF(name) unpack_dot_##name
#else
#define UNPACK_DOT_OF(name) NULL
#endif

/* A few rows and a packed panel: a block goes from memory to registers, and its rows in as many
 * tiles as they need. `m` is without weights; its blocks are all of the rows'. Memory ahead is asked
 * for block by block: all of a unit's lines at once hold up the loads behind them. */
#define TILES_OF(rows)    (((rows) + ROWS_MAX - 1) / ROWS_MAX)
#define ROWS_A_TILE(rows) (((rows) + TILES_OF(rows) - 1) / TILES_OF(rows))
/* More than twelve rows fill the first cache, and take so long over a block that less is enough. */
#define STREAM_AHEAD(rows) ((rows) > 12 ? FETCH_AHEAD : 2 * FETCH_AHEAD)
#define STREAM_ROWS(rows, name, kind)                                                              \
    static void stream_##rows##_##name(const uint8_t *unit, size_t half_bytes,                     \
                                       uint32_t unit_blocks, const struct dots *m) {               \
        const size_t share = 2 * half_bytes / unit_blocks;                                         \
        const uint8_t *ahead = unit + STREAM_AHEAD(rows);                                          \
        vf acc[rows][2];                                                                           \
        UNROLL                                                                                     \
        for (int i = 0; i < 2 * (rows); i++)                                                       \
            acc[i / 2][i % 2] = f_set(0);                                                          \
        for (uint32_t b = 0; b < m->blocks; unit += 2 * half_bytes) {                              \
            for (uint32_t g = 0; g < unit_blocks; g++, b++, ahead += share) {                      \
                struct pair w;                                                                     \
                for (size_t i = 0; i < share; i += 64)                                             \
                    __builtin_prefetch(ahead + i, 0, 3);                                           \
                unpack_##name(unit, g, &w.half[0]);                                                \
                unpack_##name(unit + half_bytes, g, &w.half[1]);                                   \
                UNROLL                                                                             \
                for (int r = 0; r < (rows); r += ROWS_A_TILE(rows))                                \
                    dot_block(kind, MIN((rows)-r, ROWS_A_TILE(rows)), &w,                          \
                              m->x + 32 * b + (size_t)r * m->stride,                               \
                              m->d + b + (size_t)r * (m->stride / sizeof *m->d), m, acc + r);      \
            }                                                                                      \
        }                                                                                          \
        memcpy(m->acc, acc, sizeof acc);                                                           \
    }
/* As many rows as gain by it. */
#define HAS_MINIMA(kind) ((kind) == KIND_4_MINIMA || (kind) == KIND_5_MINIMA)
#define STREAMED_ROWS(kind)                                                                        \
    (STREAMS == 1                       ? 1                                                        \
     : HAS_MINIMA(kind) && STREAMS == 4 ? 3                                                        \
     : (kind) == KIND_HALVES            ? MIN(STREAMS - 1, 6)                                      \
     : HAS_MINIMA(kind)                 ? MIN(STREAMS, 12)                                         \
     : (kind) == KIND_4                 ? STREAMS                                                  \
                                        : MIN(STREAMS, 8))
#define IF_STREAMED(kind, rows, function) (STREAMED_ROWS(kind) >= (rows) ? (function) : NULL)
#if STREAMS == 1
#define STREAM_PANEL(name, kind) STREAM_ROWS(1, name, kind)
#define STREAM_TABLE(name, kind)                                                                   \
    { stream_1_##name }
#elif STREAMS == 4
#define STREAM_PANEL(name, kind)                                                                   \
    STREAM_ROWS(1, name, kind)                                                                     \
    STREAM_ROWS(2, name, kind) STREAM_ROWS(3, name, kind) STREAM_ROWS(4, name, kind)
#define STREAM_TABLE(name, kind)                                                                   \
    { stream_1_##name, stream_2_##name, stream_3_##name, IF_STREAMED(kind, 4, stream_4_##name) }
#else
/* Some rows go with spare ones (INT8_SPARE_ROWS); 9, 13 and 14 are not worth it. */
#define STREAM_PANEL(name, kind)                                                                   \
    STREAM_ROWS(1, name, kind)                                                                     \
    STREAM_ROWS(2, name, kind)                                                                     \
    STREAM_ROWS(3, name, kind)                                                                     \
    STREAM_ROWS(4, name, kind)                                                                     \
    STREAM_ROWS(6, name, kind)                                                                     \
    STREAM_ROWS(8, name, kind) STREAM_ROWS(12, name, kind) STREAM_ROWS(16, name, kind)
#define STREAM_TABLE(name, kind)                                                                   \
    {                                                                                              \
        stream_1_##name, stream_2_##name, stream_3_##name, IF_STREAMED(kind, 4, stream_4_##name),  \
            IF_STREAMED(kind, 6, stream_6_##name), IF_STREAMED(kind, 6, stream_6_##name),          \
            IF_STREAMED(kind, 8, stream_8_##name), IF_STREAMED(kind, 8, stream_8_##name), NULL,    \
            IF_STREAMED(kind, 12, stream_12_##name), IF_STREAMED(kind, 12, stream_12_##name),      \
            IF_STREAMED(kind, 12, stream_12_##name), NULL, NULL,                                   \
            IF_STREAMED(kind, 16, stream_16_##name), IF_STREAMED(kind, 16, stream_16_##name)       \
    }
#endif
INT8_TYPES(STREAM_PANEL)

enum { IN_ORDER_MAX = STREAMS == 16 ? 8 : 1 };
#if STREAMS == 16
#include "kernels/cpu/int8_in_order.inc.h"
#else
#define IN_ORDER_TABLE(name)                                                                       \
    { NULL }
#endif

typedef void (*stream_fn)(const uint8_t *unit, size_t half_bytes, uint32_t unit_blocks,
                          const struct dots *m);
static const struct {
    /* for vectors, for tiles */
    void (*unpack[2])(const uint8_t *unit, size_t half_bytes, uint32_t blocks, struct pair *out);
    stream_fn stream[STREAMS];        /* for one row, two and so on */
    stream_fn in_order[IN_ORDER_MAX]; /* likewise, instead of these where the product wants it */
    void (*unpack_dot)(const uint8_t *unit, size_t half_bytes, uint32_t unit_blocks,
                       const struct dots *m, uint32_t lines, struct pair *w);
    enum kind kind;
} TYPES[STORAGE_TYPE_COUNT] = {
#define TYPE_ROW(name, kind)                                                                       \
    [STORAGE_##name] = {UNPACK_PAIR(name), STREAM_TABLE(name, kind), IN_ORDER_TABLE(name),         \
                        UNPACK_DOT_OF(name), kind},
    INT8_TYPES(TYPE_ROW)
#undef TYPE_ROW
};

/* ---- a panel ---- */

struct panel {
    const struct matrix *w;
    const struct matrix_segment *segment;
    struct int8_layout layout;
    uint32_t idx, first_output; /* in the segment, in the matrix */
    enum kind kind;
    bool tiles; /* its rows meet it on tiles */
};

/* Where a unit of a panel that was packed before begins; that of the last one ends where the next
 * panel begins. */
static const uint8_t *packed_unit(const struct panel *p, uint32_t unit) {
    return (const uint8_t *)p->segment->packed +
           ((size_t)p->idx * (p->w->cols / p->layout.unit_cols) + unit) * 2 * p->layout.row_bytes *
               LANES;
}

/* Units [first, first + count) as bytes, packed now where they were not before. */
static void unpack_units(const struct panel *p, uint32_t first, uint32_t count, struct pair *out) {
    size_t half = (size_t)p->layout.row_bytes * LANES;
    uint32_t blocks = p->layout.unit_cols / 32;
    for (uint32_t unit = first; unit < first + count; unit++, out += blocks) {
        uint8_t own[2 * LANES * (INT8_UNIT_MAX + 8)];
        const uint8_t *from = own;
        if (p->segment->packed) {
            from = packed_unit(p, unit);
        } else {
            fetch_rows(p->w, p->segment, p->idx, unit, p->w->cols / p->layout.unit_cols);
            pack_unit(p->w, p->segment, p->layout, 2 * p->idx * LANES, unit, own);
            pack_unit(p->w, p->segment, p->layout, (2 * p->idx + 1) * LANES, unit, own + half);
        }
        TYPES[segment_type(p->w, p->segment)].unpack[p->tiles](from, half, blocks, out);
    }
}

/* Memory that is about to be written: no machine sees it coming, a row is far from the next. */
static void fetch_outputs(const struct int8_product *job, const struct panel *p, uint32_t first_row,
                          uint32_t rows) {
    uint32_t count = MIN(p->segment->rows - p->idx * 2 * LANES, (uint32_t)(2 * LANES));
    for (uint32_t t = 0; t < rows; t++) {
        const float *out = job->out + (first_row + t) * job->out_stride + p->first_output;
        __builtin_prefetch(out, 1, 2);
        __builtin_prefetch(out + count - 1, 1, 2);
    }
}

static void put_outputs(const struct int8_product *job, const struct panel *p, uint32_t first_row,
                        uint32_t rows, const float *acc) {
    uint32_t count = MIN(p->segment->rows - p->idx * 2 * LANES, (uint32_t)(2 * LANES));
    float bias[2 * LANES] = {0};
    if (p->w->bias)
        memcpy(bias, p->w->bias + p->first_output, count * sizeof *bias);
    for (uint32_t t = 0; t < rows; t++, acc += 2 * LANES) {
        float *out = job->out + (first_row + t) * job->out_stride + p->first_output;
        vf half[2] = {f_at(acc) + f_at(bias), f_at(acc + LANES) + f_at(bias + LANES)};
        if (count == 2 * LANES)
            memcpy(out, half, sizeof half);
        else
            memcpy(out, half, count * sizeof *out);
    }
}

/* So many rows straight from memory, some of them with spare ones (INT8_SPARE_ROWS). NULL: there is no
 * such function. */
static stream_fn stream_of_rows(const struct int8_product *job, enum storage_type type,
                                uint32_t rows) {
    stream_fn near = job->in_order && rows <= IN_ORDER_MAX ? TYPES[type].in_order[rows - 1] : NULL;
    return near ? near : TYPES[type].stream[rows - 1];
}

/* The rows, or the first STREAMS of more, straight from memory. NULL: by tiles. Up to half as many
 * more meet the panel, which is near by then, in a second go. */
static stream_fn stream_of(const struct int8_product *job, enum storage_type type) {
    uint32_t rows = job->x.row_count;
    if (rows <= STREAMS)
        return rows ? stream_of_rows(job, type, rows) : NULL;
    return STREAMS == 16 && rows <= STREAMS * 3 / 2 ? TYPES[type].stream[STREAMS - 1] : NULL;
}

static void stream_panel(const struct int8_product *job, const struct panel *p) {
    size_t half = (size_t)p->layout.row_bytes * LANES;
    uint32_t blocks = p->w->cols / 32;
    enum storage_type type = segment_type(p->w, p->segment);
    float acc[STREAMS * 2 * LANES] __attribute__((aligned(64)));
    for (uint32_t t = 0, rows; t < job->x.row_count; t += rows) {
        rows = MIN(job->x.row_count - t, (uint32_t)STREAMS);
        stream_fn stream = NULL;
        for (uint32_t with_spare = rows; !stream; with_spare++)
            stream = stream_of_rows(job, type, with_spare);
        stream(packed_unit(p, 0), half, p->layout.unit_cols / 32,
               &(struct dots){.blocks = blocks,
                              .x = int8_values(&job->x, t),
                              .d = int8_scales(&job->x, t),
                              .array = blocks,
                              .stride = job->x.stride,
                              .acc = acc});
        put_outputs(job, p, t, rows, acc);
    }
}

static void int8_multiply(const struct int8_product *job, uint32_t segment, uint32_t panel) {
    struct panel p = {.w = job->w,
                      .segment = &job->w->segments[segment],
                      .layout = int8_layout(job->w, &job->w->segments[segment]),
                      .idx = panel,
                      .first_output = panel * 2 * LANES,
                      .kind = TYPES[segment_type(job->w, &job->w->segments[segment])].kind};
    for (uint32_t i = 0; i < segment; i++)
        p.first_output += job->w->segments[i].rows;
    uint32_t cols = job->w->cols, units = cols / p.layout.unit_cols,
             chunk = INT8_CHUNK / p.layout.unit_cols;
    struct pair w[CHUNK_BLOCKS + 1]; /* tiles take two blocks at a time */
    float acc[INT8_ROWS * 2 * LANES] __attribute__((aligned(64)));
    enum storage_type type = segment_type(p.w, p.segment);
    if (p.segment->packed && stream_of(job, type)) {
        stream_panel(job, &p);
        return;
    }
    void (*dot_rows)(const struct dots *first, uint32_t rows) = ROW_DOTS[p.kind];
#ifdef INT8_TILES
    p.tiles = job->x.row_count >= TILE_ROWS_LEAST;
    if (p.tiles) {
        configure_tiles(p.kind);
        dot_rows = TILE_DOTS[p.kind];
    }
#endif
    for (uint32_t t = 0; t < job->x.row_count; t += INT8_ROWS) {
        uint32_t rows = MIN(job->x.row_count - t, (uint32_t)INT8_ROWS);
        for (uint32_t unit = 0; unit < units; unit += chunk) {
            uint32_t count = MIN(units - unit, chunk);
            uint32_t at = unit * p.layout.unit_cols;
            if (unit + count == units)
                fetch_outputs(job, &p, t, rows);
            struct dots m = {.w = w,
                             .blocks = count * p.layout.unit_cols / 32,
                             .x = int8_values(&job->x, t) + at,
                             .d = int8_scales(&job->x, t) + at / 32,
                             .array = cols / 32,
                             .stride = job->x.stride,
                             .acc = acc,
                             .begins = unit == 0};
            if (p.segment->packed) {
                m.ahead = packed_unit(&p, unit + count) + FETCH_AHEAD;
                m.ahead_lines = count * 2 * p.layout.row_bytes * LANES / 64;
            }
            uint32_t left = rows;
            if (p.segment->packed && TYPES[type].unpack_dot && rows >= ROWS_MAX) {
                uint32_t lines = lines_of_tile(&m, rows);
                TYPES[type].unpack_dot(packed_unit(&p, unit), (size_t)p.layout.row_bytes * LANES,
                                       p.layout.unit_cols / 32, &m, lines, w);
                skip_tile(&m, ROWS_MAX, lines);
                left -= ROWS_MAX;
            } else {
                unpack_units(&p, unit, count, w);
            }
            dot_rows(&m, left);
        }
        put_outputs(job, &p, t, rows, acc);
    }
#ifdef INT8_TILES
    if (p.tiles)
        tiles_release();
#endif
}

/* ---- activations ---- */

static void int8_quantize(const float *x, const struct int8_rows *rows, uint32_t t) {
    uint32_t blocks = rows->cols / 32;
    int8_t *values = int8_values(rows, t);
    float *d = int8_scales(rows, t);
    for (uint32_t b = 0; b < blocks; b++) {
        struct int8_scale s;
        f_quantize(x + (size_t)t * rows->cols + 32 * b, values + 32 * b, &s);
        d[b] = s.d;
        d[blocks + b] = s.sum;
        s_sums(values + 32 * b, &s, &d[2 * blocks + b], &d[3 * blocks + b]);
    }
}

const struct int8_variant INT8_VARIANT = {.name = INT8_NAME,
                                          .lanes = LANES,
                                          .quantize = int8_quantize,
                                          .pack = int8_pack,
                                          .multiply = int8_multiply};
