/*
 * types.h - how numbers are stored: storage types of weights and caches, and a weight matrix as the kernels see it.
 *
 * A weight is a matrix [rows, cols], row-major, one row per output, with a storage type; `linear` computes with it in
 * that type and nobody expands it in memory. A matrix may consist of several parts stacked by rows (merged Q, K, V or
 * gate and up): a device that reads mapped files in place keeps them as parts, one that copies makes them one.
 *
 * Invariants: (1) the parts' rows add up to matrix.rows; (2) each part is contiguous, rows are storage_bytes(type,
 * cols) apart; (3) part data lies in the device's memory (device.h) and is aligned to 2 bytes at least (mapped files
 * promise no more).
 */
#ifndef KERNELS_TYPES_H
#define KERNELS_TYPES_H

#include "base/base.h"

/* Values are part of fingerprints: never reuse one. */
enum storage_type { STORAGE_NONE = 0, STORAGE_F32 = 1, STORAGE_F16 = 2, STORAGE_BF16 = 3, STORAGE_TYPE_COUNT };

/* "f32"; "none" for what is no type. */
const char *storage_name(enum storage_type type);
/* STORAGE_NONE when unknown. */
enum storage_type storage_parse(const char *name);
/* Bytes of `count` consecutive values of one row. */
size_t storage_bytes(enum storage_type type, size_t count);

enum { MATRIX_PARTS_MAX = 3 };

struct matrix_part {
    const void *data; /* device memory, [rows, cols] */
    uint32_t rows;
};

struct matrix {
    enum storage_type type;
    uint32_t rows, cols;
    uint32_t part_count;
    struct matrix_part parts[MATRIX_PARTS_MAX];
    const float *bias; /* device memory, [rows] f32, or NULL */
};

/* Exact conversions and round-to-nearest-even ones, scalar. Every device gives the same bits for these. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* beyond the largest finite value: that value (saturates; NaN stays NaN) */
static inline float bf16_to_f32(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
uint16_t f32_to_bf16(float f);
/* Element `idx` of a run of `type`. */
float storage_get(enum storage_type type, const void *data, size_t idx);
void storage_put(enum storage_type type, void *data, size_t idx, float value);

#endif
