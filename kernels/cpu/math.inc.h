/* math.inc.h - exp, silu and gelu on vectors; typed loads. Error of exp: below 2 ulp with fma, 3
 * without. */
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/inline.h"
#include "kernels/dequantize.h"
#include "kernels/ref/ref.h"
#include "kernels/scalar_math.h"

#define EXP_MIN (-87.3365448f) /* below: 0 */
#define EXP_MAX 88.8f          /* 2^128 e^0.077: infinity, and n is still 128 */

/* Cody and Waite's reduction, Cephes' polynomial: e^x is the result times 2^*n. */
ALWAYS_INLINE vf exp_reduced(vf x, vf *n) {
    *n = v_rint(v_mul(x, v_set1(1.44269504088896341f)));
    vf r = v_fma(*n, v_set1(-0.693359375f), x);
    r = v_fma(*n, v_set1(2.12194440e-4f), r);
    vf p = v_set1(1.9875691500E-4f);
    p = v_fma(p, r, v_set1(1.3981999507E-3f));
    p = v_fma(p, r, v_set1(8.3334519073E-3f));
    p = v_fma(p, r, v_set1(4.1665795894E-2f));
    p = v_fma(p, r, v_set1(1.6666665459E-1f));
    p = v_fma(p, r, v_set1(5.0000001201E-1f));
    return v_add(v_fma(p, v_mul(r, r), r), v_set1(1.0f));
}
/* NaN gives NaN. */
ALWAYS_INLINE vf v_exp(vf x) {
    vf n, e = exp_reduced(v_min(v_set1(EXP_MAX), v_max(v_set1(EXP_MIN - 1.0f), x)), &n);
    return v_zero_below(v_scale2(e, n), x, EXP_MIN);
}
/* The same bits where x is not above 0, in fewer operations. */
ALWAYS_INLINE vf v_exp_down(vf x) {
    vf n, e = exp_reduced(v_max(v_set1(EXP_MIN - 1.0f), x), &n);
    return v_zero_below(v_scale1(e, n), x, EXP_MIN);
}

/* x / (1 + exp(-x)). */
ALWAYS_INLINE vf v_silu(vf x) {
    vf one = v_set1(1.0f);
    return v_div(x, v_add(one, v_exp(v_sub(v_set1(0.0f), x))));
}

/* 0.5 x (1 + tanh(u)) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3). */
ALWAYS_INLINE vf v_gelu_tanh(vf x) {
    vf cube = v_mul(v_mul(x, x), x), one = v_set1(1.0f);
    vf u2 = v_mul(v_set1(1.5957691216f), v_fma(cube, v_set1(0.044715f), x));
    return v_div(x, v_add(one, v_exp(v_sub(v_set1(0.0f), u2))));
}

#ifndef V_LOAD_E4M3
/* VW bytes as e4m3. Exponent 0 goes through integers: no step has a subnormal number, which would
 * take long. */
ALWAYS_INLINE vf v_load_e4m3(const uint8_t *p) {
    vi bits = vi_load_u8(p), magnitude = vi_and(bits, vi_set1(0x7f)),
       sign = vi_shl(vi_and(bits, vi_set1(0x80)), 24);
    vi large = vi_add(vi_shl(magnitude, 20), vi_set1(120u << 23)), nan = vi_set1(0x7fc00000u);
    vf value = v_pick(vi_sub(magnitude, vi_set1(8)), v_mul(v_of_int(magnitude), v_set1(0x1p-9f)),
                      v_cast(large));
    value = v_pick(vi_sub(vi_set1(0x7e), magnitude), v_cast(nan), value);
    return v_cast(vi_or(vi_cast(value), sign));
}
#endif
#ifndef V_LOAD_E5M2
ALWAYS_INLINE vf v_load_e5m2(const uint8_t *p) {
    float x[VW];
    for (int i = 0; i < VW; i++)
        x[i] = dequantize_e5m2(p[i]);
    return v_load(x);
}
#endif
ALWAYS_INLINE vf v_load_e4m3_n(const uint8_t *p, size_t n) {
    uint8_t x[VW] = {0};
    memcpy(x, p, n);
    return v_load_e4m3(x);
}

/* The first n bytes as signed numbers. */
ALWAYS_INLINE vf v_load_i8_n(const int8_t *p, size_t n) {
    int8_t x[VW] = {0};
    memcpy(x, p, n);
    return v_load_i8(x);
}

ALWAYS_INLINE vf v_load_as(enum storage_type type, const void *p, size_t idx) {
    if (type == STORAGE_F32)
        return v_load((const float *)p + idx);
    if (type == STORAGE_F16)
        return v_load_f16((const uint16_t *)p + idx);
    if (type == STORAGE_F8_E4M3)
        return v_load_e4m3((const uint8_t *)p + idx);
    if (type == STORAGE_I8)
        return v_load_i8((const int8_t *)p + idx);
    return v_load_bf16((const uint16_t *)p + idx);
}
ALWAYS_INLINE vf v_load_as_n(enum storage_type type, const void *p, size_t idx, size_t n) {
    if (type == STORAGE_F32)
        return v_load_n((const float *)p + idx, n);
    if (type == STORAGE_F16)
        return v_load_f16_n((const uint16_t *)p + idx, n);
    if (type == STORAGE_F8_E4M3)
        return v_load_e4m3_n((const uint8_t *)p + idx, n);
    if (type == STORAGE_I8)
        return v_load_i8_n((const int8_t *)p + idx, n);
    return v_load_bf16_n((const uint16_t *)p + idx, n);
}
