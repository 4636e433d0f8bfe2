/*
 * dequantize.cuh - the storage types of dequantize.h in kernels: groups of 32 values of a
 * weight's row.
 *
 * Products and sums are rounded one by one (no contraction), so the values are those of the CPU.
 */
#ifndef KERNELS_CUDA_DEQUANTIZE_CUH
#define KERNELS_CUDA_DEQUANTIZE_CUH

#include "kernels/cuda/cuda.cuh"

#define DEQUANTIZE_FN     static __device__ __forceinline__
#define DEQUANTIZE_TABLE  static __device__ const
#define ROUNDED_MUL(a, b) __fmul_rn(a, b)
#define ROUNDED_ADD(a, b) __fadd_rn(a, b)
#define ROUNDED_SUB(a, b) __fsub_rn(a, b)
#include "kernels/dequantize.h"

/* Values [k, k + count) of row n, k a multiple of 32, count 32 but at the row's end. All threads of
 * a warp have the same type, so the switch costs little; one kernel then serves all types. */
[[maybe_unused]] static __device__ __noinline__ void
dequantize_group(enum storage_type type, const struct matrix_segment &segment, uint32_t cols,
                 uint32_t n, uint32_t k, uint32_t count, float v[32]) {
    const uint8_t *data = (const uint8_t *)segment.data;
    switch (type) {
#define DEQUANTIZE_CASE(symbol, name, values, bytes, lower)                                        \
    case STORAGE_##symbol:                                                                         \
        dequantize_##lower(data + ((size_t)n * cols + k) / (values) * (bytes), k % (values) / 32,  \
                           v);                                                                     \
        break;
        STORAGE_BLOCK_TYPES(DEQUANTIZE_CASE)
#undef DEQUANTIZE_CASE
    default: dequantize_scaled(type, &segment, cols, n, k, count, v);
    }
}

#endif
