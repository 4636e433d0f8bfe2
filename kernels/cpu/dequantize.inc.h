/*
 * dequantize.inc.h - runs of a weight row as f32, one function a storage type, compiled for each
 * instruction set: dequantize.h says what the values are, so no set changes a bit.
 */
#include "kernels/dequantize.h"

/* Values [k, k + n) of a segment's row. k: a multiple of 256; n too, or up to the row's end. */
typedef void (*dequantize_fn)(const struct matrix_segment *p, uint32_t cols, uint32_t row, size_t k,
                              size_t n, float *out);

/* ---- the common types, VW values at a time: dequantize.h's operations lane by lane ----
 *
 * A block's scales first (open_<type>, once a block), then vectors of 32 values (lanes_<type>), so
 * that products take them from registers. Where v_fms stands for a multiplication and a subtraction
 * the product is exact in f32. */

enum { LANES = 32 / VW, LANES_OF_8 = MIN(VW, 8) };

struct open_block {
    float scales[16], minima[16];
    uint8_t values[256]; /* of types whose values lie in two places */
};

/* 32 bytes at p; operations go byte by byte. */
typedef uint8_t bytes32 __attribute__((vector_size(32), aligned(1), may_alias));
#define BYTES32(p)    (*(bytes32 *)(p))
#define BYTES32_AT(p) (*(const bytes32 *)(p))

ALWAYS_INLINE void open_half(const uint8_t *b, struct open_block *o) {
    o->scales[0] = f16_at(b);
}

#define open_q4_0 open_half
ALWAYS_INLINE void lanes_q4_0(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    vf d = v_set1(o->scales[0]), eight = v_set1(8);
    UNROLL
    for (uint32_t i = 0; i < LANES; i++) {
        vi q = vi_shr(vi_load_u8(b + 2 + i * VW % 16), i * VW / 16 * 4);
        out[i] = v_mul(d, v_sub(v_low4(q), eight));
    }
}

#define open_q8_0 open_half
ALWAYS_INLINE void lanes_q8_0(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    vf d = v_set1(o->scales[0]);
    UNROLL
    for (uint32_t i = 0; i < LANES; i++)
        out[i] = v_mul(v_load_i8((const int8_t *)b + 2 + i * VW), d);
}

/* Scales and minima are six bits each: dequantize_k_scale for all eight groups. */
ALWAYS_INLINE void open_q4_k(const uint8_t *b, struct open_block *o) {
    uint32_t low = load_u32(b + 4), middle = load_u32(b + 8), high = load_u32(b + 12), six[8];
    six[0] = low & 0x3f3f3f3f;
    six[1] = (high & 0x0f0f0f0f) | (low >> 2 & 0x30303030);
    six[2] = middle & 0x3f3f3f3f;
    six[3] = (high >> 4 & 0x0f0f0f0f) | (middle >> 2 & 0x30303030);
    vf d = v_set1(f16_at(b)), least = v_set1(f16_at(b + 2));
    six[4] = six[5] = 0;
    UNROLL
    for (uint32_t g = 0; g < 8; g += LANES_OF_8) {
        v_store_n(o->scales + g, v_mul(d, v_load_i8((const int8_t *)six + g)), LANES_OF_8);
        v_store_n(o->minima + g, v_mul(least, v_load_i8((const int8_t *)six + 8 + g)), LANES_OF_8);
    }
}
ALWAYS_INLINE void lanes_q4_k(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    vf d = v_set1(o->scales[g]), m = v_set1(o->minima[g]);
    UNROLL
    for (uint32_t i = 0; i < LANES; i++)
        out[i] =
            v_fms(v_low4(vi_shr(vi_load_u8(b + 16 + 32 * (g / 2) + i * VW), 4 * (g % 2))), d, m);
}

ALWAYS_INLINE void open_q5_k(const uint8_t *b, struct open_block *o) {
    bytes32 high = BYTES32_AT(b + 16);
    open_q4_k(b, o);
    UNROLL
    for (uint32_t g = 0; g < 8; g++) {
        BYTES32(o->values + 32 * g) =
            (BYTES32_AT(b + 48 + 32 * (g / 2)) >> 4 * (g % 2) & 15) | (high >> g & 1) << 4;
    }
}
ALWAYS_INLINE void lanes_q5_k(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    vf d = v_set1(o->scales[g]), m = v_set1(o->minima[g]);
    UNROLL
    for (uint32_t i = 0; i < LANES; i++)
        out[i] = v_fms(v_load_i8((const int8_t *)o->values + 32 * g + i * VW), d, m);
}

/* scales[i] = d * signed byte i. */
ALWAYS_INLINE void open_scales(float d, const int8_t *scales, struct open_block *o) {
    UNROLL
    for (uint32_t i = 0; i < 16; i += VW)
        v_store(o->scales + i, v_mul(v_set1(d), v_load_i8(scales + i)));
}
/* Signed values in o->values, a scale for each sixteen. */
ALWAYS_INLINE void lanes_by_16(const struct open_block *o, uint32_t g, vf *out) {
    UNROLL
    for (uint32_t i = 0; i < LANES; i++) {
        vf d = v_set1(o->scales[2 * g + i * VW / 16]);
        out[i] = v_mul(d, v_load_i8((const int8_t *)o->values + 32 * g + i * VW));
    }
}

ALWAYS_INLINE void open_q6_k(const uint8_t *b, struct open_block *o) {
    open_scales(f16_at(b + 208), (const int8_t *)b + 192, o);
    UNROLL
    for (uint32_t g = 0; g < 8; g++) {
        bytes32 low = BYTES32_AT(b + 64 * (g / 4) + 32 * (g % 2)),
                high = BYTES32_AT(b + 128 + 32 * (g / 4));
        BYTES32(o->values + 32 * g) =
            ((low >> 4 * (g % 4 / 2) & 15) | (high >> 2 * (g % 4) & 3) << 4) - 32;
    }
}
ALWAYS_INLINE void lanes_q6_k(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    lanes_by_16(o, g, out);
}

ALWAYS_INLINE void open_q3_k(const uint8_t *b, struct open_block *o) {
    int8_t scales[16];
    bytes32 high = BYTES32_AT(b);
    UNROLL
    for (uint32_t j = 0; j < 16; j++) {
        int low = b[96 + j % 8] >> (j < 8 ? 0 : 4) & 15, top = b[104 + j % 4] >> 2 * (j / 4) & 3;
        scales[j] = (int8_t)((low | top << 4) - 32);
    }
    open_scales(f16_at(b + 108), scales, o);
    UNROLL
    for (uint32_t g = 0; g < 8; g++) {
        BYTES32(o->values + 32 * g) =
            ((BYTES32_AT(b + 32 + 32 * (g / 4)) >> 2 * (g % 4) & 3) | (high >> g & 1) << 2) - 4;
    }
}
ALWAYS_INLINE void lanes_q3_k(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    lanes_by_16(o, g, out);
}

ALWAYS_INLINE void open_q2_k(const uint8_t *b, struct open_block *o) {
    float d = f16_at(b + 80), least = f16_at(b + 82);
    for (uint32_t i = 0; i < 16; i++)
        o->scales[i] = ROUNDED_MUL(d, (float)(b[i] & 15));
    for (uint32_t i = 0; i < 16; i++)
        o->minima[i] = ROUNDED_MUL(least, (float)(b[i] >> 4));
}
ALWAYS_INLINE void lanes_q2_k(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    UNROLL
    for (uint32_t i = 0; i < LANES; i++) {
        vi q = vi_and(vi_shr(vi_load_u8(b + 16 + 32 * (g / 4) + i * VW), 2 * (g % 4)), vi_set1(3));
        uint32_t j = 2 * g + i * VW / 16;
        out[i] = v_fms(v_of_int(q), v_set1(o->scales[j]), v_set1(o->minima[j]));
    }
}

/* d * table[..] of sixteen bytes: the lower halves, then the upper ones. */
ALWAYS_INLINE void lanes_table(const uint8_t *q, const float *table, float d, vf *out) {
    UNROLL
    for (uint32_t i = 0; i < LANES; i++)
        out[i] =
            v_mul(v_set1(d), v_lookup(table, vi_shr(vi_load_u8(q + i * VW % 16), i * VW / 16 * 4)));
}
static const float IQ4_TABLE[16] = {IQ4_LEVELS}, MXFP4_TABLE[16] = {MXFP4_LEVELS};

#define open_iq4_nl open_half
ALWAYS_INLINE void lanes_iq4_nl(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    lanes_table(b + 2, IQ4_TABLE, o->scales[0], out);
}
ALWAYS_INLINE void open_iq4_xs(const uint8_t *b, struct open_block *o) {
    float d = f16_at(b);
    UNROLL
    for (uint32_t g = 0; g < 8; g++) {
        int low = b[4 + g / 2] >> 4 * (g % 2) & 15, high = (int)(load_u16(b + 2) >> 2 * g & 3);
        o->scales[g] = ROUNDED_MUL(d, (float)((low | high << 4) - 32));
    }
}
ALWAYS_INLINE void lanes_iq4_xs(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    lanes_table(b + 8 + 16 * g, IQ4_TABLE, o->scales[g], out);
}
ALWAYS_INLINE void open_mxfp4(const uint8_t *b, struct open_block *o) {
    o->scales[0] = dequantize_mxfp4_scale(b);
}
ALWAYS_INLINE void lanes_mxfp4(const uint8_t *b, const struct open_block *o, uint32_t g, vf *out) {
    lanes_table(b + 1, MXFP4_TABLE, o->scales[0], out);
}

/* Types with lanes: X(symbol, values, bytes, lower). */
#define LANE_TYPES(X)                                                                              \
    X(Q4_0, 32, 18, q4_0)                                                                          \
    X(Q8_0, 32, 34, q8_0)                                                                          \
    X(Q2_K, 256, 84, q2_k)                                                                         \
    X(Q3_K, 256, 110, q3_k)                                                                        \
    X(Q4_K, 256, 144, q4_k)                                                                        \
    X(Q5_K, 256, 176, q5_k)                                                                        \
    X(Q6_K, 256, 210, q6_k)                                                                        \
    X(IQ4_NL, 32, 18, iq4_nl)                                                                      \
    X(IQ4_XS, 256, 136, iq4_xs)                                                                    \
    X(MXFP4, 32, 17, mxfp4)

ALWAYS_INLINE void open_of(const enum storage_type type, const uint8_t *b, struct open_block *o) {
#define OPEN_CASE(symbol, values, bytes, lower)                                                    \
    if (type == STORAGE_##symbol)                                                                  \
        open_##lower(b, o);
    LANE_TYPES(OPEN_CASE)
#undef OPEN_CASE
}
ALWAYS_INLINE void lanes_of(const enum storage_type type, const uint8_t *b,
                            const struct open_block *o, uint32_t g, vf *out) {
#define LANES_CASE(symbol, values, bytes, lower)                                                   \
    if (type == STORAGE_##symbol)                                                                  \
        lanes_##lower(b, o, g, out);
    LANE_TYPES(LANES_CASE)
#undef LANES_CASE
}

/* The others, value by value. */
#define LANES_BY_VALUE(lower)                                                                      \
    ALWAYS_INLINE void open_##lower(const uint8_t *b, struct open_block *o) {}                     \
    ALWAYS_INLINE void lanes_##lower(const uint8_t *b, const struct open_block *o, uint32_t g,     \
                                     vf *out) {                                                    \
        float values[32];                                                                          \
        dequantize_##lower(b, g, values);                                                          \
        UNROLL                                                                                     \
        for (uint32_t i = 0; i < LANES; i++)                                                       \
            out[i] = v_load(values + i * VW);                                                      \
    }
LANES_BY_VALUE(q4_1)
LANES_BY_VALUE(q5_0)
LANES_BY_VALUE(q5_1)
LANES_BY_VALUE(iq1_s)
LANES_BY_VALUE(iq1_m)
LANES_BY_VALUE(iq2_xxs)
LANES_BY_VALUE(iq2_xs)
LANES_BY_VALUE(iq2_s)
LANES_BY_VALUE(iq3_xxs)
LANES_BY_VALUE(iq3_s)
LANES_BY_VALUE(tq1_0)
LANES_BY_VALUE(tq2_0)
LANES_BY_VALUE(q1_0)

/* VW stored numbers from element idx on (of four bits: an even one). */
ALWAYS_INLINE vf v_stored(const enum storage_type type, const uint8_t *data, size_t idx) {
    if (type == STORAGE_U4)
        return v_of_int(vi_load_u4(data + idx / 2));
    if (type == STORAGE_NF4)
        return v_lookup(NF4_VALUES, vi_load_high_u4(data + idx / 2));
    if (type == STORAGE_F8_E5M2)
        return v_load_e5m2(data + idx);
    if (type == STORAGE_U8)
        return v_of_int(vi_load_u8(data + idx));
    return v_load_as(type, data, idx);
}

/* The first values of [k, k + n) of a row whose columns are in groups in any order, a scale and a zero for
 * each lane. How many. */
ALWAYS_INLINE uint32_t lanes_grouped(const enum storage_type type, const struct matrix_segment *p,
                                     uint32_t cols, uint32_t row, uint32_t k, uint32_t n,
                                     float *out) {
    size_t first = (size_t)row * cols + k,
           place = p->scale_rows ? (size_t)(row / p->scale_rows) * p->scale_stride : 0;
    uint32_t i = 0, end = (type == STORAGE_U4 || type == STORAGE_NF4) && first % 2 ? 0 : n;
    for (; i + VW <= end; i += VW) {
        const uint32_t *groups = p->groups + k + i;
        vf zero = p->zeros ? v_gather(p->zeros + place, groups) : v_set1(p->zero),
           scale = p->scales ? v_gather(p->scales + place, groups) : v_set1(1);
        v_store(out + i, v_mul(v_sub(v_stored(type, p->data, first + i), zero), scale));
    }
    return i;
}

ALWAYS_INLINE void lanes_scaled(const enum storage_type type, const struct matrix_segment *p,
                                uint32_t cols, uint32_t row, uint32_t k, uint32_t n, float *out) {
    const uint8_t *data = p->data;
    size_t first = (size_t)row * cols + k;
    for (uint32_t i = p->groups ? lanes_grouped(type, p, cols, row, k, n, out) : 0; i < n;) {
        float zero, scale;
        uint32_t end = dequantize_run(p, cols, row, k, n, i, &zero, &scale);
        bool even = (type != STORAGE_U4 && type != STORAGE_NF4) || (first + i) % 2 == 0;
        for (; even && i + VW <= end; i += VW)
            v_store(out + i,
                    v_mul(v_sub(v_stored(type, data, first + i), v_set1(zero)), v_set1(scale)));
        for (; i < end; i++)
            out[i] =
                ROUNDED_MUL(ROUNDED_SUB(dequantize_stored(type, data, first + i), zero), scale);
    }
}

/* ---- rows ---- */

#define DEQUANTIZE_BLOCKS(symbol, name, values, bytes, lower)                                      \
    static void dequantize_row_##lower(const struct matrix_segment *p, uint32_t cols,              \
                                       uint32_t row, size_t k, size_t n, float *out) {             \
        const uint8_t *b =                                                                         \
            (const uint8_t *)p->data + ((size_t)row * cols + k) / (values) * (bytes);              \
        struct open_block o;                                                                       \
        for (size_t i = 0; i < n; i += (values), b += (bytes)) {                                   \
            open_##lower(b, &o);                                                                   \
            for (uint32_t g = 0; g < (values) / 32; g++) {                                         \
                vf w[LANES];                                                                       \
                lanes_##lower(b, &o, g, w);                                                        \
                UNROLL                                                                             \
                for (uint32_t j = 0; j < LANES; j++)                                               \
                    v_store(out + i + 32 * g + j * VW, w[j]);                                      \
            }                                                                                      \
        }                                                                                          \
    }
STORAGE_BLOCK_TYPES(DEQUANTIZE_BLOCKS)
#undef DEQUANTIZE_BLOCKS

#define DEQUANTIZE_PLAIN(symbol, bytes)                                                            \
    static void dequantize_row_##symbol(const struct matrix_segment *p, uint32_t cols,             \
                                        uint32_t row, size_t k, size_t n, float *out) {            \
        const char *w = (const char *)p->data + ((size_t)row * cols + k) * (bytes);                \
        size_t i = 0;                                                                              \
        for (; i + VW <= n; i += VW)                                                               \
            v_store(out + i, v_load_as(STORAGE_##symbol, w, i));                                   \
        for (; i < n; i++)                                                                         \
            out[i] = storage_get(STORAGE_##symbol, w, i);                                          \
    }
DEQUANTIZE_PLAIN(F32, 4)
DEQUANTIZE_PLAIN(F16, 2)
DEQUANTIZE_PLAIN(BF16, 2)

#define DEQUANTIZE_SCALED(symbol, function)                                                        \
    static void dequantize_row_##symbol(const struct matrix_segment *p, uint32_t cols,             \
                                        uint32_t row, size_t k, size_t n, float *out) {            \
        function(STORAGE_##symbol, p, cols, row, (uint32_t)k, (uint32_t)n, out);                   \
    }
DEQUANTIZE_SCALED(F8_E4M3, lanes_scaled)
DEQUANTIZE_SCALED(F8_E5M2, lanes_scaled)
DEQUANTIZE_SCALED(I8, lanes_scaled)
DEQUANTIZE_SCALED(U8, lanes_scaled)
DEQUANTIZE_SCALED(U4, lanes_scaled)
DEQUANTIZE_SCALED(NF4, lanes_scaled)

static const dequantize_fn DEQUANTIZE[STORAGE_TYPE_COUNT] = {
    [STORAGE_F32] = dequantize_row_F32,         [STORAGE_F16] = dequantize_row_F16,
    [STORAGE_BF16] = dequantize_row_BF16,       [STORAGE_F8_E4M3] = dequantize_row_F8_E4M3,
    [STORAGE_F8_E5M2] = dequantize_row_F8_E5M2, [STORAGE_I8] = dequantize_row_I8,
    [STORAGE_U8] = dequantize_row_U8,           [STORAGE_U4] = dequantize_row_U4,
    [STORAGE_NF4] = dequantize_row_NF4,
#define DEQUANTIZE_ROW(symbol, name, values, bytes, lower)                                         \
    [STORAGE_##symbol] = dequantize_row_##lower,
    STORAGE_BLOCK_TYPES(DEQUANTIZE_ROW)
#undef DEQUANTIZE_ROW
};

/* The segment a row of the matrix lies in; *row becomes the row in it. */
__attribute__((unused)) static const struct matrix_segment *segment_of_row(const struct matrix *w,
                                                                           uint32_t *row) {
    const struct matrix_segment *p = w->segments;
    while (*row >= p->rows)
        *row -= (p++)->rows;
    return p;
}
