/*
 * pairs.cuh - what kernels do with pairs of 16-bit values, by the activations' type A (bf16 or
 * f16): the product of a warp's tiles, rounding, sums. ptx.cuh has the instructions.
 */
#ifndef KERNELS_CUDA_PAIRS_CUH
#define KERNELS_CUDA_PAIRS_CUH

#include "kernels/cuda/ptx.cuh"
#include "kernels/types.h"

/* d[16, 8] += a[16, 16] * b[16, 8], all 32 lanes, laid out as mma_bf16 has them: f32 sums d; pairs
 * a; b[2]. */
template <int A>
static __device__ __forceinline__ void mma(float d[4], const uint32_t a[4], const uint32_t *b) {
    if (A == STORAGE_BF16)
        mma_bf16(d, a, b);
    else
        mma_f16(d, a, b);
}

/* Both rounded to nearest even, lo in the low half; f16 beyond its largest value: that value. */
template <int A> static __device__ __forceinline__ uint32_t pack(float lo, float hi) {
    return A == STORAGE_BF16 ? float2_bf16x2(lo, hi) : float2_f16x2(lo, hi);
}
/* The values of a pair, low first; exact. */
template <int A> static __device__ __forceinline__ float2 unpack(uint32_t pair) {
    return A == STORAGE_BF16 ? bf16x2_float2(pair) : f16x2_float2(pair);
}
/* The sum of both values, in f32: of weights as the product that follows sees them. */
template <int A> static __device__ __forceinline__ float rounded_sum(uint32_t pair) {
    const float2 v = unpack<A>(pair);
    return v.x + v.y;
}

#endif
