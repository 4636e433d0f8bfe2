/*
 * row_norm.cuh - the arithmetic of RMSNorm over the residual, once for the kernel that does nothing
 * else (norm.cu) and for products that do it on the way (linear_hopper.cuh): the same bits.
 *
 * Squares of a row are summed over NORM_GROUP features at a time, by a fixed tree; then lane l of a
 * warp adds up the groups l, l + 32, ..., and the lanes by a fixed tree.
 */
#ifndef KERNELS_CUDA_ROW_NORM_CUH
#define KERNELS_CUDA_ROW_NORM_CUH

#include "kernels/cuda/values.cuh"

/* The residual with what is added to it. */
static __device__ __forceinline__ float residual_sum(float x, float delta, float scale) {
    return __fmaf_rn(delta, scale, x);
}

/* Of features i and i + 8 of a group. */
static __device__ __forceinline__ float square_pair(float a, float b) {
    return __fadd_rn(__fmul_rn(a, a), __fmul_rn(b, b));
}

/* The squares of a group that one thread has. */
static __device__ __forceinline__ float group_squares(const float h[NORM_GROUP]) {
    float s[NORM_GROUP / 2];
#pragma unroll
    for (int i = 0; i < NORM_GROUP / 2; i++)
        s[i] = square_pair(h[i], h[i + NORM_GROUP / 2]);
#pragma unroll
    for (int by = 1; by < NORM_GROUP / 2; by *= 2)
#pragma unroll
        for (int i = 0; i < NORM_GROUP / 2; i += 2 * by)
            s[i] = __fadd_rn(s[i], s[i + by]);
    return s[0];
}

/* The same of eight lanes, `by` apart, that have a square_pair each: all get the sum. */
static __device__ __forceinline__ float lanes_squares(float s, int by) {
#pragma unroll
    for (int i = 1; i < NORM_GROUP / 2; i *= 2)
        s = __fadd_rn(s, __shfl_xor_sync(0xffffffffu, s, by * i));
    return s;
}

/* By a warp: the sum of a row's groups. */
static __device__ __forceinline__ float total_squares(const float *groups, uint32_t count) {
    float sum = 0;
    for (uint32_t i = threadIdx.x % 32; i < count; i += 32)
        sum = __fadd_rn(sum, groups[i]);
    return warp_sum(sum);
}

static __device__ __forceinline__ float norm_scale(float total, uint32_t width, float eps) {
    return 1.0f / sqrtf(total / (float)width + eps);
}

/* weight: with its offset. */
static __device__ __forceinline__ float normed_value(float h, float scale, float weight) {
    return __fmul_rn(__fmul_rn(h, scale), weight);
}

#endif
