/*
 * kv_scale.h - int8 caches, for C and for CUDA: what is stored of a vector, and where its scale
 * lies.
 *
 * A vector (of a position: one head's key or value; of a latent row: the latent, and the rotated
 * part) is stored as round(x / scale) with scale = max |x| / 127, so it errs by half a scale at
 * most. A vector that is not finite has scale NaN, so that whoever attends to it sees that. The
 * scales, f32, lie behind the values of a layer in a block, in every device's layout:
 *   attention  [2 * kv_heads, block_tokens], keys' first
 *   latent     [block_tokens, 2]: of the first `rank` values of a row, of the others
 */
#ifndef KERNELS_KV_SCALE_H
#define KERNELS_KV_SCALE_H

#include <math.h>

#include "kernels/dequantize.h"

/* Bytes of the scales of so many vectors in a cache of this type. */
static inline size_t kv_scale_bytes(enum storage_type type, size_t vectors) {
    return type == STORAGE_I8 ? vectors * sizeof(float) : 0;
}

/* most: the largest magnitude; NaN or infinite where one is. */
DEQUANTIZE_FN float kv_scale_of(float most) {
    return most <= 3.4e38f ? ROUNDED_MUL(most, 1.0f / 127.0f) : float_of_bits(0x7fc00000u);
}
/* For kv_stored; 0 where the vector is stored as zeros: too small a scale, or none. */
DEQUANTIZE_FN float kv_inverse(float scale) {
    return scale >= 1e-30f ? 1.0f / scale : 0.0f;
}
/* x / scale to the nearest even integer, within [-127, 127]; inverse: kv_inverse(scale). */
DEQUANTIZE_FN int8_t kv_stored(float x, float inverse) {
    float q = rintf(ROUNDED_MUL(x, inverse));
    return (int8_t)(q >= 127.0f ? 127 : q > -127.0f ? (int)q : -127);
}

#endif
