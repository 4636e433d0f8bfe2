/*
 * widen.inc.h - runs of a weight row as f32, one function a storage type, compiled for each instruction set: decode.h
 * says what the values are, so no set changes a bit.
 */
#include "kernels/decode.h"

/* Values [k, k + n) of a part's row. k: a multiple of 256; n too, or up to the row's end. */
typedef void (*widen_fn)(const struct matrix_part *p, uint32_t cols, uint32_t row, size_t k, size_t n, float *out);

#define WIDEN_BLOCKS(symbol, name, values, bytes, lower)                                                               \
    static void widen_##lower(const struct matrix_part *p, uint32_t cols, uint32_t row, size_t k, size_t n,            \
                              float *out) {                                                                            \
        const uint8_t *b = (const uint8_t *)p->data + ((size_t)row * cols + k) / (values) * (bytes);                   \
        for (size_t i = 0; i < n; i += (values), b += (bytes))                                                         \
            for (uint32_t g = 0; g < (values) / 32; g++) decode_##lower(b, g, out + i + 32 * g);                       \
    }
STORAGE_BLOCK_TYPES(WIDEN_BLOCKS)
#undef WIDEN_BLOCKS

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

#define WIDEN_SCALED(symbol)                                                                                           \
    static void widen_##symbol(const struct matrix_part *p, uint32_t cols, uint32_t row, size_t k, size_t n,           \
                               float *out) {                                                                           \
        decode_scaled(STORAGE_##symbol, p, cols, row, (uint32_t)k, (uint32_t)n, out);                                  \
    }
WIDEN_SCALED(F8_E4M3)
WIDEN_SCALED(F8_E5M2)
WIDEN_SCALED(I8)
WIDEN_SCALED(U8)
WIDEN_SCALED(U4)
WIDEN_SCALED(NF4)

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
