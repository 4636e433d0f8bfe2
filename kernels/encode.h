/*
 * encode.h - numbers into quantized types, on the host: for `trireme quantize` and for quantizing
 * at load.
 *
 * Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 give the bytes of ggml's reference. K-quants have a scale (and a
 * minimum) for each 16 or 32 values: chosen among several by the least squared error, then rounded
 * to the block's six (four, eight) bit multiples, then the values are rounded anew. Values that are
 * not finite count as 0.
 *
 * Threading: pure functions.
 */
#ifndef KERNELS_ENCODE_H
#define KERNELS_ENCODE_H

#include "kernels/types.h"

/* True for the block types below that can be written: Q4_0 .. Q8_0, Q2_K .. Q6_K; and the plain
 * ones. */
bool storage_can_encode(enum storage_type type);
/* x [count], a multiple of the type's block, into storage_bytes(type, count) bytes. */
void storage_encode(enum storage_type type, const float *x, size_t count, void *out);

/* A row of a scaled type with one scale for each `group` values (group 0: one for all): F8_E4M3
 * (largest to 448), I8 (127), U4 (symmetric, zero 8). data: storage_bytes(type, count); scales
 * [groups]. */
void storage_encode_scaled(enum storage_type type, const float *x, uint32_t count, uint32_t group,
                           void *data, float *scales);

#endif
