/*
 * int8_units.inc.h - how each type's blocks lie in a panel's units (int8.h) and become bytes again:
 * a part of int8.inc.h, which includes it behind `struct block`.
 *
 *   pack_NAME    one row's block into lane `lane` of a unit of LANES outputs, but for its WORDS_OF
 *   unpack_NAME  block g of a unit, 32 columns, into bytes and scales
 *   INT8_TYPES   the types there are, and the arithmetic that each needs
 */

/* `words` words of 4 bytes of output `lane` among those of its neighbours. */
static void put_words(uint8_t *out, uint32_t lane, const uint8_t *from, uint32_t words) {
    for (uint32_t i = 0; i < words; i++)
        memcpy(out + (i * LANES + lane) * 4, from + 4 * i, 4);
}

typedef uint32_t v4 __attribute__((vector_size(16)));
#ifdef __clang__
#define SHUFFLE_4(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE_4(a, b, ...) __builtin_shuffle(a, b, (v4){__VA_ARGS__})
#endif

/* 4 words of 4 outputs, `stride` bytes apart, as put_words puts them: four memory operations of 16 bytes
 * each way instead of sixteen of four. */
ALWAYS_INLINE void put_4_words_of_4(uint8_t *out, const uint8_t *from, size_t stride) {
    v4 r[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        memcpy(&r[i], from + (size_t)i * stride, sizeof r[i]);
    v4 low[2] = {SHUFFLE_4(r[0], r[1], 0, 4, 1, 5), SHUFFLE_4(r[2], r[3], 0, 4, 1, 5)},
       high[2] = {SHUFFLE_4(r[0], r[1], 2, 6, 3, 7), SHUFFLE_4(r[2], r[3], 2, 6, 3, 7)};
    r[0] = SHUFFLE_4(low[0], low[1], 0, 1, 4, 5);
    r[1] = SHUFFLE_4(low[0], low[1], 2, 3, 6, 7);
    r[2] = SHUFFLE_4(high[0], high[1], 0, 1, 4, 5);
    r[3] = SHUFFLE_4(high[0], high[1], 2, 3, 6, 7);
    UNROLL
    for (int i = 0; i < 4; i++)
        memcpy(out + (size_t)i * BYTES, &r[i], sizeof r[i]);
}

/* put_words for the first `lanes` outputs, whose words lie `stride` bytes apart. */
static void put_words_of(uint32_t lanes, uint8_t *out, const uint8_t *from, size_t stride,
                         uint32_t words) {
    uint32_t fours = lanes / 4 * 4, whole = words / 4 * 4;
    for (uint32_t lane = 0; lane < fours; lane += 4)
        for (uint32_t i = 0; i < whole; i += 4)
            put_4_words_of_4(out + (i * LANES + lane) * 4, from + lane * stride + 4 * i, stride);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint32_t first = lane < fours ? whole : 0;
        put_words(out + first * BYTES, lane, from + lane * stride + 4 * first, words - first);
    }
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
static void pack_Q4_0(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
}
ALWAYS_INLINE void unpack_Q4_0(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    nibbles(unit + 2 * LANES, out->q);
}
static void pack_IQ4_NL(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
}
ALWAYS_INLINE void unpack_IQ4_NL(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    nibbles(unit + 2 * LANES, out->q);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        out->q[i] = eight_bits(q_lookup(IQ4_VALUES, out->q[i]));
}
static void pack_MXFP4(const uint8_t *row, uint32_t lane, uint8_t *out) {
    out[lane] = row[0];
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
}
ALWAYS_INLINE void unpack_Q5_0(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    nibbles(unit + 2 * LANES + BYTES, out->q);
    fifth_bits(unit + 2 * LANES, out->q);
}
static void pack_Q5_1(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
    memcpy(out + 2 * LANES + 2 * lane, row + 2, 2);
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
}
ALWAYS_INLINE void unpack_Q8_0(const uint8_t *unit, uint32_t g, struct block *out) {
    out->scale[0] = f_half(unit);
    UNROLL
    for (int i = 0; i < WORDS; i++)
        out->q[i] = eight_bits(q_at(unit + 2 * LANES + i * BYTES));
}

/* [LANES] d, [LANES] dmin, [8][2][LANES] bytes: scales and minima, words; Q5_K: high bits first. */
static void pack_k(const uint8_t *row, uint32_t lane, uint8_t *out) {
    memcpy(out + 2 * lane, row, 2);
    memcpy(out + 2 * LANES + 2 * lane, row + 2, 2);
    out += 4 * LANES;
    for (uint32_t g = 0; g < 8; g++)
        dequantize_k_scale(row + 4, g, &out[2 * g * LANES + lane],
                           &out[(2 * g + 1) * LANES + lane]);
}
ALWAYS_INLINE void unpack_k_scales(const uint8_t *unit, uint32_t g, struct block *out) {
    const uint8_t *six = unit + 4 * LANES + 2 * g * LANES;
    out->scale[0] = f_half(unit) * f_bytes(six);
    out->minimum = f_half(unit + 2 * LANES) * -f_bytes(six + LANES);
}
static void pack_Q4_K(const uint8_t *row, uint32_t lane, uint8_t *out) {
    pack_k(row, lane, out);
}
ALWAYS_INLINE void unpack_Q4_K(const uint8_t *unit, uint32_t g, struct block *out) {
    unpack_k_scales(unit, g, out);
    half_nibbles(unit + 20 * LANES + g / 2 * WORDS * BYTES, g % 2, out->q);
}
static void pack_Q5_K(const uint8_t *row, uint32_t lane, uint8_t *out) {
    pack_k(row, lane, out);
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
    for (uint32_t g = 0; g < 8; g++, out += 6 * BYTES)
        for (uint32_t j = 0; j < 2; j++) {
            const uint8_t *low = row + g / 4 * 64 + g % 2 * 32, *high = row + 128 + g / 4 * 32;
            v4 u, two;
            memcpy(&u, low + 16 * j, sizeof u);
            memcpy(&two, high + 16 * j, sizeof two);
            u = (u >> g % 4 / 2 * 4 & 0x0f0f0f0f) | (two >> g % 4 * 2 & 0x03030303) << 4;
            u |= (SHUFFLE_4(u, u, 3, 3, 3, 3) >> (v4){0, 2, 4, 6} & 0x03030303) << 6;
            put_words(out + 3 * j * BYTES, lane, (const uint8_t *)&u, 3);
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

/* Words of a block, `from` bytes behind its beginning, that lie `to` bytes times LANES behind that of
 * the unit as they are. The others are what pack_NAME makes of them. */
static const struct {
    uint8_t from, to, count;
} WORDS_OF[STORAGE_TYPE_COUNT] = {
    [STORAGE_Q4_0] = {2, 2, 4},    [STORAGE_Q4_1] = {4, 4, 4},     [STORAGE_Q5_0] = {2, 2, 5},
    [STORAGE_Q5_1] = {4, 4, 5},    [STORAGE_Q8_0] = {2, 2, WORDS}, [STORAGE_Q4_K] = {16, 20, 32},
    [STORAGE_Q5_K] = {16, 20, 40}, [STORAGE_MXFP4] = {1, 1, 4},    [STORAGE_IQ4_NL] = {2, 2, 4},
    [STORAGE_IQ4_XS] = {8, 10, 32}};

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
