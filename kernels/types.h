/*
 * types.h - how numbers are stored: storage types of weights and caches, and a weight matrix as the
 * kernels see it.
 *
 * A weight is a matrix [rows, cols], row-major, one row per output, with a storage type; `linear`
 * computes with it in that type and nobody expands it in memory. A matrix may consist of several
 * segments stacked by rows (merged Q, K, V or gate and up): a device that reads mapped files in
 * place keeps them as segments, one that copies makes them one.
 *
 * Segments may differ in type (files that store V finer than Q and K).
 *
 * Beside the storage type a matrix has a compute type: what activations become before they meet it.
 *
 * Invariants:
 *   (1) the segments' rows add up to matrix.rows;
 *   (2) each segment is contiguous, rows are storage_bytes(type, cols) apart;
 *   (3) segment data lies in the device's memory (device.h) and is aligned to 2 bytes at least
 *       (mapped files promise no more).
 */
#ifndef KERNELS_TYPES_H
#define KERNELS_TYPES_H

#include "base/base.h"

/*
 * X(symbol, name, values a block, bytes a block, kind). Numbers are part of fingerprints: add
 * behind, never reuse one. plain: one value after the other. block: GGUF's self-contained blocks;
 * rows are whole blocks. scaled: values here, scales (and zeros) in arrays of the segment.
 */
#define STORAGE_TYPES(X)                                                                           \
    X(F32, "f32", 1, 4, PLAIN)                                                                     \
    X(F16, "f16", 1, 2, PLAIN)                                                                     \
    X(BF16, "bf16", 1, 2, PLAIN)                                                                   \
    X(F8_E4M3, "fp8", 1, 1, SCALED)                                                                \
    X(F8_E5M2, "fp8_e5m2", 1, 1, SCALED)                                                           \
    X(I8, "int8", 1, 1, SCALED)                                                                    \
    X(U8, "uint8", 1, 1, SCALED)                                                                   \
    X(U4, "int4", 2, 1, SCALED)                                                                    \
    X(NF4, "nf4", 2, 1, SCALED)                                                                    \
    STORAGE_BLOCK_TYPES(X)
/* lower: of dequantize_<lower> (dequantize.h). */
#define STORAGE_BLOCK_TYPES(X)                                                                     \
    X(Q4_0, "q4_0", 32, 18, q4_0)                                                                  \
    X(Q4_1, "q4_1", 32, 20, q4_1)                                                                  \
    X(Q5_0, "q5_0", 32, 22, q5_0)                                                                  \
    X(Q5_1, "q5_1", 32, 24, q5_1)                                                                  \
    X(Q8_0, "q8_0", 32, 34, q8_0)                                                                  \
    X(Q2_K, "q2_k", 256, 84, q2_k)                                                                 \
    X(Q3_K, "q3_k", 256, 110, q3_k)                                                                \
    X(Q4_K, "q4_k", 256, 144, q4_k)                                                                \
    X(Q5_K, "q5_k", 256, 176, q5_k)                                                                \
    X(Q6_K, "q6_k", 256, 210, q6_k)                                                                \
    X(IQ1_S, "iq1_s", 256, 50, iq1_s)                                                              \
    X(IQ1_M, "iq1_m", 256, 56, iq1_m)                                                              \
    X(IQ2_XXS, "iq2_xxs", 256, 66, iq2_xxs)                                                        \
    X(IQ2_XS, "iq2_xs", 256, 74, iq2_xs)                                                           \
    X(IQ2_S, "iq2_s", 256, 82, iq2_s)                                                              \
    X(IQ3_XXS, "iq3_xxs", 256, 98, iq3_xxs)                                                        \
    X(IQ3_S, "iq3_s", 256, 110, iq3_s)                                                             \
    X(IQ4_NL, "iq4_nl", 32, 18, iq4_nl)                                                            \
    X(IQ4_XS, "iq4_xs", 256, 136, iq4_xs)                                                          \
    X(TQ1_0, "tq1_0", 256, 54, tq1_0)                                                              \
    X(TQ2_0, "tq2_0", 256, 66, tq2_0)                                                              \
    X(MXFP4, "mxfp4", 32, 17, mxfp4)                                                               \
    X(Q1_0, "q1_0", 128, 18, q1_0)

#define STORAGE_ENUM(symbol, name, values, bytes, kind) STORAGE_##symbol,
enum storage_type { STORAGE_NONE = 0, STORAGE_TYPES(STORAGE_ENUM) STORAGE_TYPE_COUNT };
#undef STORAGE_ENUM

/* "f32"; "none" for what is no type. */
const char *storage_name(enum storage_type type);
/* STORAGE_NONE when unknown. */
enum storage_type storage_parse(const char *name);
/* Bytes of `count` consecutive values of one row: whole blocks. */
size_t storage_bytes(enum storage_type type, size_t count);
/* Values in a block: 1, 2, 32, 128 or 256; a matrix's cols are a multiple of it. */
uint32_t storage_block(enum storage_type type);
/* A number for itself: f32, f16, bf16. */
static inline bool storage_is_plain(enum storage_type type) {
    return type >= STORAGE_F32 && type <= STORAGE_BF16;
}
/* Its scales lie beside the values, in matrix_segment; GGUF's types hold their own. */
static inline bool storage_is_scaled(enum storage_type type) {
    return type >= STORAGE_F8_E4M3 && type <= STORAGE_NF4;
}

/* What activations become before a product. Products have one order of sums for each storage type,
 * compute type and instruction set, whatever the number of rows. Numbers are part of
 * fingerprints. */
enum compute_type {
    COMPUTE_F32 = 0,
    COMPUTE_INT8 = 1, /* integers of 8 bits with a scale for each 32 (kernels/integers.h) */
    COMPUTE_BF16 =
        2, /* bf16, for weights in bf16 (kernels/cpu/bf16.h; tile_product.h: other types) */
    COMPUTE_INT8_GROUPS = 4, /* ... with a scale for each 128 (kernels/integer_groups.h) */
    /* fp8 (e4m3) with a scale for each row, for weights in fp8 (kernels/ops.h: op_linear); rows of both
     * classes, or of prompts alone */
    COMPUTE_FP8 = 8,
    COMPUTE_FP8_PROMPTS = 16
}; /* of a device a set: each for the weights that allow it */
/* "f32", "int8", "bf16", "int8x128", "fp8", "fp8-prompts", or several: "int8+bf16" */
const char *compute_name(enum compute_type type);

enum { MATRIX_SEGMENTS_MAX = 3 };

/*
 * Scaled types: value = (stored - zero) * scale, each step rounded in f32. The scale of (row, col)
 * is scales[row / scale_rows * scale_stride + col / scale_cols] (scale_cols 0: + 0; with groups: +
 * groups[col]); with scale_rows 0 scales run along the flat segment: scales[(row * cols + col) /
 * scale_cols]. No scales: 1. zeros: the same places; none: `zero` for all.
 */
struct matrix_segment {
    const void *data; /* device memory, [rows, cols] */
    uint32_t rows;
    enum storage_type type; /* STORAGE_NONE: the matrix's */
    uint32_t scale_rows, scale_cols, scale_stride;
    float zero;
    const float *scales, *zeros; /* device memory, or NULL */
    const uint32_t *groups;      /* device memory, [cols], or NULL */
    const void *packed;          /* device memory: what ops->pack made of the segment, or NULL */
};

struct matrix {
    enum storage_type type;
    enum compute_type compute; /* of linear and expert_linear; others take f32 */
    uint32_t rows, cols;
    uint32_t segment_count;
    struct matrix_segment segments[MATRIX_SEGMENTS_MAX];
    const float *bias; /* device memory, [rows] f32, or NULL */
    /* Its first half of rows is a gate for the other, and only linear reads it, with op_linear.gated:
     * set before ops->pack, which may put rows of both halves beside each other (ops->gates). */
    bool gated;
};

/* The type of a segment of w. */
static inline enum storage_type segment_type(const struct matrix *w,
                                             const struct matrix_segment *p) {
    return p->type != STORAGE_NONE ? p->type : w->type;
}
/* True when all segments have one type, and that is plain. */
static inline bool matrix_is_plain(const struct matrix *w) {
    for (uint32_t i = 0; i < w->segment_count; i++)
        if (segment_type(w, &w->segments[i]) != w->type)
            return false;
    return storage_is_plain(w->type);
}

/* Exact conversions and round-to-nearest-even ones, scalar. Every device gives the same bits for
 * these. */
float f16_to_f32(uint16_t h);
/* beyond the largest finite value: that value (saturates; NaN stays NaN) */
uint16_t f32_to_f16(float f);
/* Exact. */
static inline float bf16_to_f32(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
/* To nearest even; beyond the largest finite value infinity; NaN stays NaN. */
uint16_t f32_to_bf16(float f);
/* e4m3 (OCP, no infinities): beyond 448 that value; NaN stays NaN. */
uint8_t f32_to_e4m3(float f);
/* Element `idx` of a run of a plain type, of fp8 (e4m3) or of int8, without scale. */
float storage_get(enum storage_type type, const void *data, size_t idx);
/* Values [k, k + n) of a row (0 <= row < w->rows) as f32: the definition of every type. k: a
 * multiple of 32; k + n: one, or w->cols. */
void matrix_dequantize(const struct matrix *w, uint32_t row, uint32_t k, uint32_t n, float *out);
/* Rounds value into element idx of such a run; the reverse of storage_get. */
void storage_put(enum storage_type type, void *data, size_t idx, float value);

#endif
