/*
 * widen.inc.h - runs of a weight row as f32, one function a storage type, compiled for each instruction set: decode.h
 * says what the values are, so no set changes a bit.
 */
#include "kernels/decode.h"

/* Values [k, k + n) of a part's row. k: a multiple of 256; n too, or up to the row's end. */
typedef void (*widen_fn)(const struct matrix_part *p, uint32_t cols, uint32_t row, size_t k, size_t n, float *out);

/* ---- the common types, VW values at a time: decode.h's operations lane by lane ---- */

/* mask: of VW bytes, shifted. */
ALWAYS_INLINE vi v_bits(const uint8_t *q, uint32_t shift, uint32_t mask) {
    return vi_and(vi_shr(vi_load_u8(q), shift), vi_set1(mask));
}

static void lanes_q4_0(const uint8_t *b, uint32_t g, float *out) {
    vf d = v_set1(decode_f16(b));
    for (uint32_t i = 0; i < 32; i += VW)
        v_store(out + i, v_mul(d, v_of_int(vi_sub(v_bits(b + 2 + i % 16, i / 16 * 4, 15), vi_set1(8)))));
}

static void lanes_q8_0(const uint8_t *b, uint32_t g, float *out) {
    vf d = v_set1(decode_f16(b));
    for (uint32_t i = 0; i < 32; i += VW) v_store(out + i, v_mul(v_load_i8((const int8_t *)b + 2 + i), d));
}

/* high: a bit of each value more; NULL: none. */
ALWAYS_INLINE void lanes_k(const uint8_t *b, const uint8_t *q, const uint8_t *high, uint32_t g, float *out) {
    uint8_t scale, minimum;
    decode_k_scale(b + 4, g, &scale, &minimum);
    vf d = v_set1(DECODE_MUL(decode_f16(b), (float)scale)), m = v_set1(DECODE_MUL(decode_f16(b + 2), (float)minimum));
    for (uint32_t i = 0; i < 32; i += VW) {
        vi x = v_bits(q + i, 4 * (g % 2), 15);
        if (high) x = vi_or(x, vi_shl(v_bits(high + i, g, 1), 4));
        v_store(out + i, v_sub(v_mul(d, v_of_int(x)), m));
    }
}
static void lanes_q4_k(const uint8_t *b, uint32_t g, float *out) { lanes_k(b, b + 16 + 32 * (g / 2), NULL, g, out); }
static void lanes_q5_k(const uint8_t *b, uint32_t g, float *out) { lanes_k(b, b + 48 + 32 * (g / 2), b + 16, g, out); }

static void lanes_q6_k(const uint8_t *b, uint32_t g, float *out) {
    const uint8_t *low = b + 64 * (g / 4) + 32 * (g % 2), *high = b + 128 + 32 * (g / 4);
    float d = decode_f16(b + 208);
    for (uint32_t i = 0; i < 32; i += VW) {
        vf dl = v_set1(DECODE_MUL(d, (float)(int8_t)b[192 + 2 * g + i / 16]));
        vi x = vi_or(v_bits(low + i, 4 * (g % 4 / 2), 15), vi_shl(v_bits(high + i, 2 * (g % 4), 3), 4));
        v_store(out + i, v_mul(dl, v_of_int(vi_sub(x, vi_set1(32)))));
    }
}

static void lanes_q2_k(const uint8_t *b, uint32_t g, float *out) {
    float d = decode_f16(b + 80), dmin = decode_f16(b + 82);
    const uint8_t *q = b + 16 + 32 * (g / 4);
    for (uint32_t i = 0; i < 32; i += VW) {
        uint8_t s = b[2 * g + i / 16];
        vf dl = v_set1(DECODE_MUL(d, (float)(s & 15))), ml = v_set1(DECODE_MUL(dmin, (float)(s >> 4)));
        v_store(out + i, v_sub(v_mul(dl, v_of_int(v_bits(q + i, 2 * (g % 4), 3))), ml));
    }
}

static void lanes_q3_k(const uint8_t *b, uint32_t g, float *out) {
    float d = decode_f16(b + 108);
    const uint8_t *q = b + 32 + 32 * (g / 4), *scales = b + 96;
    for (uint32_t i = 0; i < 32; i += VW) {
        uint32_t j = 2 * g + i / 16;
        int low = scales[j % 8] >> (j < 8 ? 0 : 4) & 15, high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
        vf dl = v_set1(DECODE_MUL(d, (float)((low | high << 4) - 32)));
        vi x = vi_or(v_bits(q + i, 2 * (g % 4), 3), vi_shl(v_bits(b + i, g, 1), 2));
        v_store(out + i, v_mul(dl, v_of_int(vi_sub(x, vi_set1(4)))));
    }
}

/* d * table[..] of sixteen bytes: the lower halves, then the upper ones. */
ALWAYS_INLINE void lanes_table(const uint8_t *q, const int8_t *values, float d, float *out) {
    float table[16];
    for (int i = 0; i < 16; i++) table[i] = values[i];
    for (uint32_t i = 0; i < 32; i += VW)
        v_store(out + i, v_mul(v_set1(d), v_lookup(table, v_bits(q + i % 16, i / 16 * 4, 15))));
}
static void lanes_iq4_nl(const uint8_t *b, uint32_t g, float *out) {
    lanes_table(b + 2, IQ4_VALUES, decode_f16(b), out);
}
static void lanes_iq4_xs(const uint8_t *b, uint32_t g, float *out) {
    int low = b[4 + g / 2] >> 4 * (g % 2) & 15, high = (int)(decode_u16(b + 2) >> 2 * g & 3);
    lanes_table(b + 8 + 16 * g, IQ4_VALUES, DECODE_MUL(decode_f16(b), (float)((low | high << 4) - 32)), out);
}
static void lanes_mxfp4(const uint8_t *b, uint32_t g, float *out) {
    lanes_table(b + 1, MXFP4_VALUES, decode_mxfp4_scale(b), out);
}

/* VW stored numbers from element idx on (of U4: an even one). */
ALWAYS_INLINE vf v_stored(const enum storage_type type, const uint8_t *data, size_t idx) {
    if (type == STORAGE_U4) return v_of_int(vi_load_u4(data + idx / 2));
    if (type == STORAGE_U8) return v_of_int(vi_load_u8(data + idx));
    return v_load_as(type, data, idx);
}

ALWAYS_INLINE void lanes_scaled(const enum storage_type type, const struct matrix_part *p, uint32_t cols, uint32_t row,
                                uint32_t k, uint32_t n, float *out) {
    const uint8_t *data = p->data;
    size_t first = (size_t)row * cols + k;
    for (uint32_t i = 0; i < n;) {
        float zero, scale;
        uint32_t end = decode_run(p, cols, row, k, n, i, &zero, &scale);
        bool even = type != STORAGE_U4 || (first + i) % 2 == 0;
        for (; even && i + VW <= end; i += VW)
            v_store(out + i, v_mul(v_sub(v_stored(type, data, first + i), v_set1(zero)), v_set1(scale)));
        for (; i < end; i++) out[i] = DECODE_MUL(DECODE_SUB(decode_stored(type, data, first + i), zero), scale);
    }
}

/* ---- rows ---- */

/* The table below takes lanes for these. */
#define decode_q4_0   lanes_q4_0
#define decode_q8_0   lanes_q8_0
#define decode_q2_k   lanes_q2_k
#define decode_q3_k   lanes_q3_k
#define decode_q4_k   lanes_q4_k
#define decode_q5_k   lanes_q5_k
#define decode_q6_k   lanes_q6_k
#define decode_iq4_nl lanes_iq4_nl
#define decode_iq4_xs lanes_iq4_xs
#define decode_mxfp4  lanes_mxfp4
#define WIDEN_BLOCKS(symbol, name, values, bytes, lower)                                                               \
    static void widen_##lower(const struct matrix_part *p, uint32_t cols, uint32_t row, size_t k, size_t n,            \
                              float *out) {                                                                            \
        const uint8_t *b = (const uint8_t *)p->data + ((size_t)row * cols + k) / (values) * (bytes);                   \
        for (size_t i = 0; i < n; i += (values), b += (bytes))                                                         \
            for (uint32_t g = 0; g < (values) / 32; g++) decode_##lower(b, g, out + i + 32 * g);                       \
    }
STORAGE_BLOCK_TYPES(WIDEN_BLOCKS)
#undef WIDEN_BLOCKS
#undef decode_q4_0
#undef decode_q8_0
#undef decode_q2_k
#undef decode_q3_k
#undef decode_q4_k
#undef decode_q5_k
#undef decode_q6_k
#undef decode_iq4_nl
#undef decode_iq4_xs
#undef decode_mxfp4

#define WIDEN_PLAIN(symbol, bytes)                                                                                     \
    static void widen_##symbol(const struct matrix_part *p, uint32_t cols, uint32_t row, size_t k, size_t n,           \
                               float *out) {                                                                           \
        const char *w = (const char *)p->data + ((size_t)row * cols + k) * (bytes);                                    \
        size_t i = 0;                                                                                                  \
        for (; i + VW <= n; i += VW) v_store(out + i, v_load_as(STORAGE_##symbol, w, i));                              \
        for (; i < n; i++) out[i] = storage_get(STORAGE_##symbol, w, i);                                               \
    }
WIDEN_PLAIN(F32, 4)
WIDEN_PLAIN(F16, 2)
WIDEN_PLAIN(BF16, 2)

#define WIDEN_SCALED(symbol, decode)                                                                                   \
    static void widen_##symbol(const struct matrix_part *p, uint32_t cols, uint32_t row, size_t k, size_t n,           \
                               float *out) {                                                                           \
        decode(STORAGE_##symbol, p, cols, row, (uint32_t)k, (uint32_t)n, out);                                         \
    }
WIDEN_SCALED(F8_E4M3, lanes_scaled)
WIDEN_SCALED(F8_E5M2, decode_scaled)
WIDEN_SCALED(I8, lanes_scaled)
WIDEN_SCALED(U8, lanes_scaled)
WIDEN_SCALED(U4, lanes_scaled)
WIDEN_SCALED(NF4, decode_scaled)

static const widen_fn WIDEN[STORAGE_TYPE_COUNT] = {
    [STORAGE_F32] = widen_F32,         [STORAGE_F16] = widen_F16,         [STORAGE_BF16] = widen_BF16,
    [STORAGE_F8_E4M3] = widen_F8_E4M3, [STORAGE_F8_E5M2] = widen_F8_E5M2, [STORAGE_I8] = widen_I8,
    [STORAGE_U8] = widen_U8,           [STORAGE_U4] = widen_U4,           [STORAGE_NF4] = widen_NF4,
#define WIDEN_ROW(symbol, name, values, bytes, lower) [STORAGE_##symbol] = widen_##lower,
    STORAGE_BLOCK_TYPES(WIDEN_ROW)
#undef WIDEN_ROW
};

/* The part a row of the matrix lies in; *row becomes the row in it. */
static const struct matrix_part *part_of_row(const struct matrix *w, uint32_t *row) {
    const struct matrix_part *p = w->parts;
    while (*row >= p->rows) *row -= (p++)->rows;
    return p;
}
