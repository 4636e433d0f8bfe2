/*
 * cache.cuh - what is stored in KV caches: the plain types, fp8 (e4m3) without scales, int8 with a
 * scale a vector (kernels/kv_scale.h).
 */
#ifndef KERNELS_CUDA_CACHE_CUH
#define KERNELS_CUDA_CACHE_CUH

#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/paged.cuh"
#include "kernels/kv_scale.h"

template <> struct values<STORAGE_F8_E4M3> {
    typedef uint8_t raw;
    static __device__ __forceinline__ float get(const raw *p) {
        return dequantize_e4m3(*p);
    }
    static __device__ __forceinline__ void set(raw *p, float v) {
        *p = encode_e4m3(v);
    }
};

/* The numbers without their scale. */
template <> struct values<STORAGE_I8> {
    typedef int8_t raw;
    static __device__ __forceinline__ float get(const raw *p) {
        return (float)*p;
    }
};

/* Calls body with K as constant of a cache's type. */
#define WITH_CACHE(type, K, body)                                                                  \
    do {                                                                                           \
        switch (type) {                                                                            \
            STORAGE_CASE(STORAGE_F8_E4M3, K, body)                                                 \
            STORAGE_CASE(STORAGE_I8, K, body)                                                      \
        default: WITH_ACTIVATION(type, K, body);                                                   \
        }                                                                                          \
    } while (0)

/* Two values of a head that are rotated together, by whomever: each operation is rounded. */
struct rotated_pair {
    float first, second;
};
static __device__ __forceinline__ struct rotated_pair rotate(float x0, float x1, float c, float s) {
    return {__fsub_rn(__fmul_rn(x0, c), __fmul_rn(x1, s)),
            __fadd_rn(__fmul_rn(x1, c), __fmul_rn(x0, s))};
}

/* Element i of a head whose first 2 * half dims are rotated. */
template <int A>
static __device__ __forceinline__ float rotated_value(const typename values<A>::raw *x, uint32_t i,
                                                      uint32_t half, bool interleaved,
                                                      const float *angles) {
    if (i >= 2 * half)
        return values<A>::get(x + i);
    const uint32_t pair = interleaved ? i / 2 : i % half;
    const bool second = interleaved ? i % 2 : i >= half;
    const float a = values<A>::get(x + (interleaved ? 2 * pair : pair)),
                b = values<A>::get(x + (interleaved ? 2 * pair + 1 : pair + half));
    const struct rotated_pair r = rotate(a, b, angles[2 * pair], angles[2 * pair + 1]);
    return second ? r.second : r.first;
}

/* The scale of a vector from each lane's largest magnitude and its sum of v * 0, which is NaN where
 * a v is not finite. */
static __device__ __forceinline__ float warp_kv_scale(float most, float poison) {
    return kv_scale_of(warp_max(most) + warp_sum(poison));
}

#endif
