/*
 * linear_hopper.cuh - what the products for sm_90a share (linear_hopper.cu: weights of 16 bits,
 * linear_packed.cu: quantized ones): the ring of stages, and sums on their way out.
 */
#ifndef KERNELS_CUDA_LINEAR_HOPPER_CUH
#define KERNELS_CUDA_LINEAR_HOPPER_CUH

#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/ptx_hopper.cuh"

enum : uint32_t { TILE = 64, TILE_BYTES = TILE * TILE * 2, PRODUCERS = 128 };

struct hopper_ring {
    uint64_t *full, *empty;
    unsigned char *stages;
};

template <int STAGES, int BARRIERS>
static __device__ __forceinline__ hopper_ring ring_of(unsigned char *area) {
    const uintptr_t past = (uintptr_t)(area + BARRIERS) % 1024;
    return {(uint64_t *)area, (uint64_t *)area + STAGES,
            area + BARRIERS + (past ? 1024 - past : 0)};
}

/* A thread's sums: 8 j + i as wgmma lays them out. */
template <int A, int TOKENS>
static __device__ __forceinline__ void put_sums(const struct product &p, const float *sums,
                                                uint32_t n0, uint32_t t0) {
    typedef typename values<A>::raw raw;
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, odd = g & 1;
    const uint32_t n = n0 + threadIdx.x % 128 / 32 * 16 + g;
    const bool pairs = !p.out_f32 && p.out_stride % 2 == 0 && (uintptr_t)p.out % 4 == 0;
#pragma unroll
    for (int i = 0; i < 2; i++) { /* features n, n + 8 */
        const float bias = p.bias ? p.bias[n + i * 8] : 0;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j++) {
            const uint32_t t = t0 + j * 8 + lane % 4 * 2;
            float v[2] = {sums[j * 4 + i * 2], sums[j * 4 + i * 2 + 1]};
            if (p.bias)
                v[0] += bias, v[1] += bias;
            if (pairs) { /* two features of one row, from the lane with the other */
                const float other = __shfl_xor_sync(0xffffffffu, odd ? v[0] : v[1], 4);
                const float lo = odd ? other : v[0], hi = odd ? v[1] : other;
                raw *out = (raw *)p.out + (size_t)(t + odd) * p.out_stride + n - odd + i * 8;
                if (t + odd < p.rows)
                    *(uint32_t *)out =
                        A == STORAGE_BF16 ? float2_bf16x2(lo, hi) : float2_f16x2(lo, hi);
                continue;
            }
#pragma unroll
            for (uint32_t e = 0; e < 2; e++) {
                const size_t at = (size_t)(t + e) * p.out_stride + n + i * 8;
                if (t + e >= p.rows)
                    continue;
                if (p.out_f32)
                    ((float *)p.out)[at] = v[e];
                else
                    values<A>::set((raw *)p.out + at, v[e]);
            }
        }
    }
}

#endif
