/*
 * scalar_math.h - log for the sampler's noise, sin/cos for rotary angles, and angles that go on, of
 * our own: multiplications, additions and divisions in a fixed order and no fma, so that every
 * compiler, instruction set and device that rounds each operation gives the same bits. Vector
 * kernels repeat these operations lane by lane.
 */
#ifndef KERNELS_SCALAR_MATH_H
#define KERNELS_SCALAR_MATH_H

#include "base/base.h"

/* log(m) = 2 atanh(s), s = (m - 1) / (m + 1): 2 s (1 + s^2 / 3 + s^4 / 5 + ...), cut after s^12:
 * below 2^-25 for |s| <= 1/3. */
#define LOG_C3             0.333333333f
#define LOG_C5             0.2f
#define LOG_C7             0.142857143f
#define LOG_C9             0.111111111f
#define LOG_C11            0.0909090909f
#define LOG_C13            0.0769230769f
#define LOG_LN2_HI         0.693359375f
#define LOG_LN2_LO         (-2.12194440e-4f)
#define LOG_SQRT_HALF_BITS 0x3f3504f3u

/* The bits of a float. */
static inline uint32_t float_bits(float f) {
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}
/* The float of these bits. */
static inline float bits_float(uint32_t b) {
    float f;
    memcpy(&f, &b, 4);
    return f;
}

/* 2 atanh(s) for |s| <= 1/3. */
static inline float scalar_atanh2(float s) {
    float z = s * s, p = LOG_C13;
    p = p * z + LOG_C11;
    p = p * z + LOG_C9;
    p = p * z + LOG_C7;
    p = p * z + LOG_C5;
    p = p * z + LOG_C3;
    float d = s + s;
    return d + d * (z * p);
}

/* Natural logarithm of a positive normal number; error below 3 ulp of the result or of 1, whichever
 * is smaller in effect. */
static inline float scalar_log(float x) {
    uint32_t bits = float_bits(x);
    int32_t e = (int32_t)(bits - LOG_SQRT_HALF_BITS) >> 23;
    float m = bits_float(bits - ((uint32_t)e << 23)), n = (float)e;
    float l = scalar_atanh2((m - 1.0f) / (m + 1.0f));
    return n * LOG_LN2_HI + (n * LOG_LN2_LO + l);
}

/* angle + step less whole turns: within [-pi, pi] and a few ulp, where |angle + step| < 2^20. The
 * first part of 2 pi has 8 bits, so its product with a number of turns is exact. */
#define TURN_HI      6.28125f
#define TURN_LO      0.00193530718f
#define TURN_INVERSE 0.159154943f
static inline float scalar_turned(float angle, float step) {
    const float rounder = 0x1.8p23f;
    float x = angle + step, turns = (x * TURN_INVERSE + rounder) - rounder;
    return (x - turns * TURN_HI) - turns * TURN_LO;
}

/* sin and cos of |angle| <= 2^20, rounded from double: right within 1 ulp. */
static inline void scalar_sincos(float angle, float *sine, float *cosine) {
    const double rounder = 0x1.8p52;
    double a = angle, k = (a * 0.63661977236758134308 + rounder) - rounder;
    double r = (a - k * 1.57079632673412561417) - k * 6.07710050650619224932e-11, z = r * r;
    double s = -7.6471637318198164759e-13; /* -1 / 15! */
    s = s * z + 1.6059043836821614599e-10;
    s = s * z - 2.5052108385441718775e-8;
    s = s * z + 2.7557319223985890653e-6;
    s = s * z - 1.9841269841269841270e-4;
    s = s * z + 8.3333333333333333333e-3;
    s = s * z - 1.6666666666666666667e-1;
    s = r + r * (z * s);
    double c = 4.7794773323873852974e-14; /* 1 / 16! */
    c = c * z - 1.1470745597729724714e-11;
    c = c * z + 2.0876756987868098979e-9;
    c = c * z - 2.7557319223985890653e-7;
    c = c * z + 2.4801587301587301587e-5;
    c = c * z - 1.3888888888888888889e-3;
    c = c * z + 4.1666666666666666667e-2;
    c = c * z - 0.5;
    c = 1.0 + z * c;
    int quadrant = (int)((int64_t)k & 3);
    double sv = quadrant & 1 ? c : s, cv = quadrant & 1 ? s : c;
    *sine = (float)(quadrant & 2 ? -sv : sv);
    *cosine = (float)((quadrant + 1) & 2 ? -cv : cv);
}

#endif
