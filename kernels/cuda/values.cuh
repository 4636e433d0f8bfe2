/*
 * values.cuh - reading and writing numbers of a storage type in kernels: one at a time, and eight
 * at a time (16 bytes of 16-bit types, 32 of f32).
 *
 * STORAGE is enum storage_type as a template argument. Rounding is to nearest even.
 */
#ifndef KERNELS_CUDA_VALUES_CUH
#define KERNELS_CUDA_VALUES_CUH

#include "kernels/cuda/ptx.cuh"

template <int STORAGE> struct values;

template <> struct values<STORAGE_F32> {
    typedef float raw;
    static __device__ __forceinline__ float get(const raw *p) {
        return *p;
    }
    static __device__ __forceinline__ void set(raw *p, float v) {
        *p = v;
    }
    static __device__ __forceinline__ void get8(const raw *p, float v[8]) {
        float4 a = *(const float4 *)p, b = *(const float4 *)(p + 4);
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z,
        v[7] = b.w;
    }
    static __device__ __forceinline__ void set8(raw *p, const float v[8]) {
        *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
        *(float4 *)(p + 4) = make_float4(v[4], v[5], v[6], v[7]);
    }
};

template <> struct values<STORAGE_BF16> {
    typedef uint16_t raw;
    static __device__ __forceinline__ float get(const raw *p) {
        return bf16_bits_float(*p);
    }
    static __device__ __forceinline__ void set(raw *p, float v) {
        *p = (raw)float2_bf16x2(v, 0.0f);
    }
    static __device__ __forceinline__ void unpack8(uint4 w, float v[8]) {
        float2 a = bf16x2_float2(w.x), b = bf16x2_float2(w.y), c = bf16x2_float2(w.z),
               d = bf16x2_float2(w.w);
        v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y, v[4] = c.x, v[5] = c.y, v[6] = d.x,
        v[7] = d.y;
    }
    static __device__ __forceinline__ void get8(const raw *p, float v[8]) {
        unpack8(*(const uint4 *)p, v);
    }
    static __device__ __forceinline__ void set8(raw *p, const float v[8]) {
        *(uint4 *)p = make_uint4(float2_bf16x2(v[0], v[1]), float2_bf16x2(v[2], v[3]),
                                 float2_bf16x2(v[4], v[5]), float2_bf16x2(v[6], v[7]));
    }
};

template <> struct values<STORAGE_F16> {
    typedef uint16_t raw;
    static __device__ __forceinline__ float get(const raw *p) {
        return f16x2_float2(*p).x;
    }
    static __device__ __forceinline__ void set(raw *p, float v) {
        *p = (raw)float2_f16x2(v, 0.0f);
    }
    static __device__ __forceinline__ void unpack8(uint4 w, float v[8]) {
        float2 a = f16x2_float2(w.x), b = f16x2_float2(w.y), c = f16x2_float2(w.z),
               d = f16x2_float2(w.w);
        v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y, v[4] = c.x, v[5] = c.y, v[6] = d.x,
        v[7] = d.y;
    }
    static __device__ __forceinline__ void get8(const raw *p, float v[8]) {
        unpack8(*(const uint4 *)p, v);
    }
    static __device__ __forceinline__ void set8(raw *p, const float v[8]) {
        *(uint4 *)p = make_uint4(float2_f16x2(v[0], v[1]), float2_f16x2(v[2], v[3]),
                                 float2_f16x2(v[4], v[5]), float2_f16x2(v[6], v[7]));
    }
};

/* Sum over a warp in a fixed tree: the same bits whatever else runs. */
__device__ __forceinline__ float warp_sum(float v) {
    for (int by = 16; by; by >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, by);
    return v;
}
__device__ __forceinline__ float warp_max(float v) {
    for (int by = 16; by; by >>= 1) {
        float other = __shfl_xor_sync(0xffffffffu, v, by);
        v = v > other ? v : other;
    }
    return v;
}

#endif
