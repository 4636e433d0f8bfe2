/*
 * int8.inc.h - products with activations of 8 bits (kernels/integers.h), once for each variant.
 *
 * The including file gives LANES (outputs side by side in a vector), INT8_VARIANT, and operations on
 * vectors of 4 * LANES bytes:
 *
 *   vq, vi, vf    bytes, int32, f32; vectors of the compiler's, so +, &, >> are lane by lane
 *   vs, vn        sums of u * x over the four bytes of a lane, u unsigned; its numbers, int16 for two
 *                 bytes each or int32, which wrap: between the steps a sum may be too large for them,
 *                 not at the end. s_first, then s_add, s_behind: s_first after a start; s_end gives
 *                 them as int32
 *   s_start       its numbers moved up by so many bits, of sums that are the same in every lane
 *   s_sums        of a block's activations: minus their sum, and that of its first half, as numbers of
 *                 vs in 4 bytes each
 *   DOT_8         whether u may have 8 bits; i_dot where not: i + the sum of w * x, w from -128, x
 *                 from -127
 *   SUMS_5        so many s_add of u < 32 fit a number that does not wrap
 *   STREAMS       so many rows at most meet weights straight from memory: 1 where more were not
 *                 measured, 4, or 16 (KIND_4 alone, 8 of others)
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

/* ---- units: from the file's blocks and to bytes ---- */

/* `words` words of 4 bytes of output `lane` among those of its neighbours. */
static void put_words(uint8_t *out, uint32_t lane, const uint8_t *from, uint32_t words) {
    for (uint32_t i = 0; i < words; i++)
        memcpy(out + (i * LANES + lane) * 4, from + 4 * i, 4);
}

static inline vq q_at(const uint8_t *p) {
    vq v;
    memcpy(&v, p, sizeof v);
    return v;
}
/* `mask`, below 16, of bytes moved down, as bits 4 and up of a byte. Words are shifted: no machine
 * shifts bytes alone, and GCC 12 adds them to themselves in turn. */
ALWAYS_INLINE vq high_bits(const uint8_t *p, uint32_t from, uint8_t mask) {
    return (vq)((vu)((vq)((vu)q_at(p) >> from) & mask) << 4);
}
static inline vf f_at(const void *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Signed bytes as KIND_8 has them. */
ALWAYS_INLINE vq eight_bits(vq v) {
    return DOT_8 ? v ^ 0x80 : v;
}

/* Low nibbles, then high ones, of 4 vectors: columns as in Q4_0. */
ALWAYS_INLINE void nibbles(const uint8_t *from, vq *q) {
    UNROLL
    for (int i = 0; i < 4; i++) {
        vq v = q_at(from + i * BYTES);
        q[i] = v & 15;
        q[i + 4] = v >> 4;
    }
}
/* Low or high nibbles of 8 vectors. */
ALWAYS_INLINE void half_nibbles(const uint8_t *from, uint32_t high, vq *q) {
    UNROLL
    for (int i = 0; i < WORDS; i++)
        q[i] = high ? q_at(from + i * BYTES) >> 4 : q_at(from + i * BYTES) & 15;
}

/* Q4_0, IQ4_NL: [LANES] f16, words. MXFP4: [LANES] bytes, words. */
static void pack_4(const uint8_t *row, uint32_t lane, uint32_t head, uint8_t *out) {
    memcpy(out + lane * head, row, head);
    put_words(out + LANES * head, lane, row + head, 4);
}
static void pack_Q4_0(const uint8_t *row, uint32_t lane, uint8_t *out) {
    pack_4(row, lane, 2, out);
}
ALWAYS_INLINE void unpack_Q4_0(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    nibbles(unit + 2 * LANES, out->q);
}
static void pack_IQ4_NL(const uint8_t *row, uint32_t lane, uint8_t *out) {
    pack_4(row, lane, 2, out);
}
ALWAYS_INLINE void unpack_IQ4_NL(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    nibbles(unit + 2 * LANES, out->q);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        out->q[i] = eight_bits(q_lookup(IQ4_VALUES, out->q[i]));
}
static void pack_MXFP4(const uint8_t *row, uint32_t lane, uint8_t *out) {
    pack_4(row, lane, 1, out);
}
ALWAYS_INLINE void unpack_MXFP4(const uint8_t *unit, uint32_t g, struct block *out) {
    static const int8_t LEVELS[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
    vu e = (vu)i_bytes(unit), tiny = (vu)(e < 2); /* dequantize_mxfp4_scale */
    out->scale[0] = (vf)((tiny & (0x00200000u << (e & 1))) | (~tiny & (e - 1) << 23));
    nibbles(unit + LANES, out->q);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        out->q[i] = q_lookup(LEVELS, out->q[i]);
}

/* [LANES] d, [LANES] least value, words. */
static void pack_Q4_1(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
    memcpy(out + 2 * LANES + 2 * lane, row + 2, 2);
    put_words(out + 4 * LANES, lane, row + 4, 4);
}
ALWAYS_INLINE void unpack_Q4_1(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    out->minimum = f_half(unit + 2 * LANES);
    nibbles(unit + 4 * LANES, out->q);
}

/* The fifth bits of 32 values, a word an output: bit i is value i's. */
ALWAYS_INLINE void fifth_bits(const uint8_t *words, vq *q) {
    vu w = (vu)q_at(words);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        q[i] |= (vq)(((w >> (uint32_t)(4 * i) & 15) * 0x00204081 & 0x01010101) << 4);
}
/* [LANES] d, [LANES] words of fifth bits, words. Q5_1: the least value behind d. */
static void pack_Q5_0(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
    put_words(out + 2 * LANES, lane, row + 2, 5);
}
ALWAYS_INLINE void unpack_Q5_0(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    nibbles(unit + 2 * LANES + BYTES, out->q);
    fifth_bits(unit + 2 * LANES, out->q);
}
static void pack_Q5_1(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
    memcpy(out + 2 * LANES + 2 * lane, row + 2, 2);
    put_words(out + 4 * LANES, lane, row + 4, 5);
}
ALWAYS_INLINE void unpack_Q5_1(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    out->minimum = f_half(unit + 2 * LANES);
    nibbles(unit + 4 * LANES + BYTES, out->q);
    fifth_bits(unit + 4 * LANES, out->q);
}

/* [LANES] f16, words. */
static void pack_Q8_0(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
    put_words(out + 2 * LANES, lane, row + 2, WORDS);
}
ALWAYS_INLINE void unpack_Q8_0(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        out->q[i] = eight_bits(q_at(unit + 2 * LANES + i * BYTES));
}

/* [LANES] d, [LANES] dmin, [8][2][LANES] bytes: scales and minima, words; Q5_K: high bits first. */
static void pack_k(const uint8_t *row, uint32_t lane, uint32_t words, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
    memcpy(out + 2 * LANES + 2 * lane, row + 2, 2);
    out += 4 * LANES;
    for (uint32_t g = 0; g < 8; g++)
        dequantize_k_scale(row + 4, g, &out[2 * g * LANES + lane],
                           &out[(2 * g + 1) * LANES + lane]);
    put_words(out + 16 * LANES, lane, row + 16, words);
}
ALWAYS_INLINE void unpack_k_scales(const uint8_t *unit, uint32_t g, struct block *out) {
    const uint8_t *six = unit + 4 * LANES + 2 * g * LANES;
    out->scale[0] = f_half(unit) * f_bytes(six);
    out->minimum = f_half(unit + 2 * LANES) * -f_bytes(six + LANES);
}
static void pack_Q4_K(const uint8_t *row, uint32_t lane, uint8_t *out) {
    pack_k(row, lane, 32, out);
}
ALWAYS_INLINE void unpack_Q4_K(const uint8_t *unit, uint32_t g, struct block *out) {
    unpack_k_scales(unit, g, out);
    half_nibbles(unit + 20 * LANES + g / 2 * WORDS * BYTES, g % 2, out->q);
}
static void pack_Q5_K(const uint8_t *row, uint32_t lane, uint8_t *out) {
    pack_k(row, lane, 40, out);
}
ALWAYS_INLINE void unpack_Q5_K(const uint8_t *unit, uint32_t g, struct block *out) {
    const uint8_t *high = unit + 20 * LANES;
    unpack_k_scales(unit, g, out);
    half_nibbles(high + WORDS * BYTES + g / 2 * WORDS * BYTES, g % 2, out->q);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        out->q[i] |= high_bits(high + i * BYTES, g, 1);
}

/* [LANES] d, [16][LANES] scales, then of each block 6 words: the values of words 0, 1, 2 and 4, 5, 6,
 * each with two bits of words 3 and 7 above its own six. So a block lies together, and three of four
 * words take one operation. */
static void pack_Q6_K(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row + 208, 2);
    out += 2 * LANES;
    for (uint32_t j = 0; j < 16; j++)
        out[j * LANES + lane] = row[192 + j];
    out += 16 * LANES;
    for (uint32_t g = 0; g < 8; g++, out += 6 * BYTES) {
        const uint8_t *low = row + g / 4 * 64 + g % 2 * 32, *high = row + 128 + g / 4 * 32;
        const uint32_t low_bits = g % 4 / 2 * 4, high_bits = g % 4 * 2;
        uint8_t u[32], words[24];
        for (uint32_t i = 0; i < 32; i++)
            u[i] = (uint8_t)((low[i] >> low_bits & 15) | (high[i] >> high_bits & 3) << 4);
        for (uint32_t i = 0; i < 12; i++) {
            words[i] = (uint8_t)(u[i] | u[12 + i % 4] >> i / 4 * 2 << 6);
            words[12 + i] = (uint8_t)(u[16 + i] | u[28 + i % 4] >> i / 4 * 2 << 6);
        }
        put_words(out, lane, words, 6);
    }
}
/* Words are shifted (high_bits); what comes from a neighbour's byte is masked away. */
ALWAYS_INLINE void unpack_Q6_K(const uint8_t *unit, uint32_t g, struct block *out) {
    const uint8_t *scales = unit + 2 * LANES + 2 * g * LANES,
                  *words = unit + 18 * LANES + (size_t)g * 6 * BYTES;
    vf d = f_half(unit);
    UNROLL
    for (int j = 0; j < 2; j++, words += 3 * BYTES) {
        vq v[3] = {q_at(words), q_at(words + BYTES), q_at(words + 2 * BYTES)}, *q = out->q + 4 * j;
        out->scale[j] = d * f_signed(scales + j * LANES);
        UNROLL
        for (int i = 0; i < 3; i++)
            q[i] = v[i] & 63;
        q[3] = ((vq)((vu)v[0] >> 6) & 3) | ((vq)((vu)v[1] >> 4) & 12) | ((vq)((vu)v[2] >> 2) & 48);
    }
}

/* [LANES] d, [8][LANES] signed scales, words. */
static void pack_IQ4_XS(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
    for (uint32_t g = 0; g < 8; g++) {
        int low = row[4 + g / 2] >> 4 * (g % 2) & 15, high = (int)(load_u16(row + 2) >> 2 * g & 3);
        out[(2 + g) * LANES + lane] = (uint8_t)((low | high << 4) - 32);
    }
    put_words(out + 10 * LANES, lane, row + 8, 32);
}
ALWAYS_INLINE void unpack_IQ4_XS(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit) * f_signed(unit + (2 + g) * LANES);
    nibbles(unit + 10 * LANES + g * 4 * BYTES, out->q);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        out->q[i] = eight_bits(q_lookup(IQ4_VALUES, out->q[i]));
}

/* ---- types with scales of their own: [LANES] f32 scales, minima (int4), words ---- */

ALWAYS_INLINE void unpack_U4(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_at(unit);
    out->minimum = -f_at(unit + BYTES);
    nibbles(unit + 2 * BYTES + g * 4 * BYTES, out->q);
}
ALWAYS_INLINE void unpack_I8(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_at(unit);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        out->q[i] = eight_bits(q_at(unit + BYTES + (g * WORDS + (uint32_t)i) * BYTES));
}
/* Value by value, from the definition. */
static void pack_scaled(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                        uint32_t block, uint32_t count, uint32_t lane, uint8_t *out) {
    bool four = segment_type(w, p) == STORAGE_U4;
    uint32_t head = four ? 2 : 1;
    for (uint32_t g = 0; g < count; g++) {
        struct integer_block b;
        uint8_t bytes[32];
        segment_integers(w, p, row, block + g, &b);
        memcpy(out + 4 * lane, &b.scale[0], 4);
        if (four)
            memcpy(out + BYTES + 4 * lane, &b.minimum, 4);
        for (int i = 0; i < (four ? 16 : 32); i++)
            bytes[i] = (uint8_t)(four ? b.values[i] | b.values[i + 16] << 4 : b.values[i]);
        put_words(out + (head + g * (four ? 4 : WORDS)) * BYTES, lane, bytes, four ? 4 : WORDS);
    }
}

/* X(type, kind): those whose block becomes a unit. */
#define INT8_BLOCK_TYPES(X)                                                                        \
    X(Q4_0, KIND_4)                                                                                \
    X(Q4_1, KIND_4_MINIMA)                                                                         \
    X(Q5_0, KIND_5)                                                                                \
    X(Q5_1, KIND_5_MINIMA)                                                                         \
    X(Q8_0, KIND_8)                                                                                \
    X(Q4_K, KIND_4_MINIMA)                                                                         \
    X(Q5_K, KIND_5_MINIMA)                                                                         \
    X(Q6_K, KIND_HALVES)                                                                           \
    X(MXFP4, KIND_5)                                                                               \
    X(IQ4_NL, KIND_8)                                                                              \
    X(IQ4_XS, KIND_8)
#define INT8_TYPES(X)                                                                              \
    INT8_BLOCK_TYPES(X)                                                                            \
    X(U4, KIND_4_MINIMA)                                                                           \
    X(I8, KIND_8)

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
    float *acc;           /* [rows][2 * LANES], goes on */
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

/* `lines` of the cache are asked for at each block. */
ALWAYS_INLINE void dot(const enum kind kind, const int rows, const struct dots *m, uint32_t lines) {
    const int8_t *x = m->x;
    const float *d = m->d;
    const uint8_t *ahead = m->ahead;
    vf acc[ROWS_MAX][2];
    UNROLL
    for (int i = 0; i < 2 * rows; i++)
        acc[i / 2][i % 2] = f_at(m->acc + i * LANES);
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

/* All tiles of rows ask for what lies ahead, or the first would wait for it and the others leave
 * memory idle. */
#define DOT_ROWS(kind, name)                                                                       \
    static void dot_rows_##name(const struct dots *first, uint32_t rows) {                         \
        struct dots m = *first;                                                                    \
        for (uint32_t tiles = (rows + ROWS_MAX - 1) / ROWS_MAX; tiles; tiles--) {                  \
            uint32_t n = MIN(rows, (uint32_t)ROWS_MAX), blocks = m.blocks * tiles,                 \
                     lines = (m.ahead_lines + blocks - 1) / blocks;                                \
            switch (n) {                                                                           \
            case 1: dot(kind, 1, &m, lines); break;                                                \
            case 2: dot(kind, 2, &m, lines); break;                                                \
            case 3: dot(kind, 3, &m, lines); break;                                                \
            case 4: dot(kind, 4, &m, lines); break;                                                \
            default: break;                                                                        \
            }                                                                                      \
            skip_rows(&m, n);                                                                      \
            rows -= n;                                                                             \
            m.ahead += (size_t)lines * m.blocks * 64;                                              \
            m.ahead_lines -= MIN(m.ahead_lines, lines * m.blocks);                                 \
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

/* A few rows and a packed panel: a block goes from memory to registers, and its rows in as many
 * tiles as they need. `m` is without weights; its blocks are all of the rows'. Memory ahead is asked
 * for block by block: all of a unit's lines at once hold up the loads behind them. */
#define TILES_OF(rows)    (((rows) + ROWS_MAX - 1) / ROWS_MAX)
#define ROWS_A_TILE(rows) (((rows) + TILES_OF(rows) - 1) / TILES_OF(rows))
#define STREAM_ROWS(rows, name, kind)                                                              \
    static void stream_##rows##_##name(const uint8_t *unit, size_t half_bytes,                     \
                                       uint32_t unit_blocks, const struct dots *m) {               \
        const size_t share = 2 * half_bytes / unit_blocks;                                         \
        const uint8_t *ahead = unit + FETCH_AHEAD;                                                 \
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
     : (kind) == KIND_HALVES            ? MIN(STREAMS - 1, 4)                                      \
     : HAS_MINIMA(kind)                 ? 4                                                        \
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

static const struct {
    /* for vectors, for tiles */
    void (*unpack[2])(const uint8_t *unit, size_t half_bytes, uint32_t blocks, struct pair *out);
    /* for one row, two and so on */
    void (*stream[STREAMS])(const uint8_t *unit, size_t half_bytes, uint32_t unit_blocks,
                            const struct dots *m);
    enum kind kind;
} TYPES[STORAGE_TYPE_COUNT] = {
#define TYPE_ROW(name, kind) [STORAGE_##name] = {UNPACK_PAIR(name), STREAM_TABLE(name, kind), kind},
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
    if (p.segment->packed && job->x.row_count <= STREAMS &&
        TYPES[type].stream[job->x.row_count - 1]) {
        size_t half = (size_t)p.layout.row_bytes * LANES;
        TYPES[type].stream[job->x.row_count - 1]((const uint8_t *)p.segment->packed +
                                                     (size_t)panel * units * 2 * half,
                                                 half, p.layout.unit_cols / 32,
                                                 &(struct dots){.blocks = cols / 32,
                                                                .x = int8_values(&job->x, 0),
                                                                .d = int8_scales(&job->x, 0),
                                                                .array = cols / 32,
                                                                .stride = job->x.stride,
                                                                .acc = acc});
        put_outputs(job, &p, 0, job->x.row_count, acc);
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
        memset(acc, 0, (size_t)rows * 2 * BYTES);
        for (uint32_t unit = 0; unit < units; unit += chunk) {
            uint32_t count = MIN(units - unit, chunk);
            uint32_t at = unit * p.layout.unit_cols;
            unpack_units(&p, unit, count, w);
            if (unit + count == units)
                fetch_outputs(job, &p, t, rows);
            struct dots m = {.w = w,
                             .blocks = count * p.layout.unit_cols / 32,
                             .x = int8_values(&job->x, t) + at,
                             .d = int8_scales(&job->x, t) + at / 32,
                             .array = cols / 32,
                             .stride = job->x.stride,
                             .acc = acc};
            if (p.segment->packed) {
                m.ahead = packed_unit(&p, unit + count) + FETCH_AHEAD;
                m.ahead_lines = count * 2 * p.layout.row_bytes * LANES / 64;
            }
            dot_rows(&m, rows);
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
