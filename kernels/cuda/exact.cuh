/*
 * exact.cuh - kernels/scalar_math.h and kernels/philox.h on the device, operation by operation,
 * with the roundings spelled out so that no compiler contracts a product and a sum: the same bits
 * as on every other device.
 */
#ifndef KERNELS_CUDA_EXACT_CUH
#define KERNELS_CUDA_EXACT_CUH

#include "kernels/cuda/cuda.cuh"

extern "C" {
#include "kernels/philox.h"
#include "kernels/scalar_math.h"
}

/* a * b + c in two roundings. */
__device__ __forceinline__ float mul_add(float a, float b, float c) {
    return __fadd_rn(__fmul_rn(a, b), c);
}
__device__ __forceinline__ double mul_add(double a, double b, double c) {
    return __dadd_rn(__dmul_rn(a, b), c);
}

__device__ __forceinline__ float exact_atanh2(float s) {
    float z = __fmul_rn(s, s), p = LOG_C13;
    p = mul_add(p, z, LOG_C11);
    p = mul_add(p, z, LOG_C9);
    p = mul_add(p, z, LOG_C7);
    p = mul_add(p, z, LOG_C5);
    p = mul_add(p, z, LOG_C3);
    float d = __fadd_rn(s, s);
    return mul_add(d, __fmul_rn(z, p), d);
}

__device__ __forceinline__ float exact_log(float x) {
    uint32_t bits = __float_as_uint(x);
    int32_t e = (int32_t)(bits - LOG_SQRT_HALF_BITS) >> 23;
    float m = __uint_as_float(bits - ((uint32_t)e << 23)), n = (float)e;
    float l = exact_atanh2(__fdiv_rn(__fsub_rn(m, 1.0f), __fadd_rn(m, 1.0f)));
    return __fadd_rn(__fmul_rn(n, LOG_LN2_HI), mul_add(n, LOG_LN2_LO, l));
}

__device__ __forceinline__ float exact_gumbel(uint32_t bits) {
    bool small = bits < 0x80000000u;
    float w = __fmul_rn(__fadd_rn((float)(int32_t)(small ? bits : ~bits), 0.5f), 0x1p-32f);
    float e = small ? exact_atanh2(__fdiv_rn(w, __fsub_rn(2.0f, w))) : -exact_log(w);
    return -exact_log(e);
}

__device__ __forceinline__ uint32_t exact_noise(uint64_t seed, uint32_t choice, uint32_t position,
                                                uint32_t token,
                                                enum noise_purpose purpose = NOISE_SAMPLE) {
    uint32_t c0 = token / 4, c1 = position, c2 = choice, c3 = (uint32_t)purpose,
             k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    return token % 4 == 0 ? c0 : token % 4 == 1 ? c1 : token % 4 == 2 ? c2 : c3;
}

__device__ __forceinline__ float exact_turned(float angle, float step) {
    const float rounder = 0x1.8p23f;
    float x = __fadd_rn(angle, step), turns = __fsub_rn(mul_add(x, TURN_INVERSE, rounder), rounder);
    return __fsub_rn(__fsub_rn(x, __fmul_rn(turns, TURN_HI)), __fmul_rn(turns, TURN_LO));
}

__device__ __forceinline__ void exact_sincos(float angle, float *sine, float *cosine) {
    const double rounder = 0x1.8p52;
    double a = angle, k = __dsub_rn(mul_add(a, 0.63661977236758134308, rounder), rounder);
    double r = __dsub_rn(__dsub_rn(a, __dmul_rn(k, 1.57079632673412561417)),
                         __dmul_rn(k, 6.07710050650619224932e-11));
    double z = __dmul_rn(r, r), s = -7.6471637318198164759e-13;
    s = mul_add(s, z, 1.6059043836821614599e-10);
    s = mul_add(s, z, -2.5052108385441718775e-8);
    s = mul_add(s, z, 2.7557319223985890653e-6);
    s = mul_add(s, z, -1.9841269841269841270e-4);
    s = mul_add(s, z, 8.3333333333333333333e-3);
    s = mul_add(s, z, -1.6666666666666666667e-1);
    s = mul_add(r, __dmul_rn(z, s), r);
    double c = 4.7794773323873852974e-14;
    c = mul_add(c, z, -1.1470745597729724714e-11);
    c = mul_add(c, z, 2.0876756987868098979e-9);
    c = mul_add(c, z, -2.7557319223985890653e-7);
    c = mul_add(c, z, 2.4801587301587301587e-5);
    c = mul_add(c, z, -1.3888888888888888889e-3);
    c = mul_add(c, z, 4.1666666666666666667e-2);
    c = mul_add(c, z, -0.5);
    c = mul_add(z, c, 1.0);
    int quadrant = (int)((int64_t)k & 3);
    double sv = quadrant & 1 ? c : s, cv = quadrant & 1 ? s : c;
    *sine = (float)(quadrant & 2 ? -sv : sv);
    *cosine = (float)((quadrant + 1) & 2 ? -cv : cv);
}

#endif
