/*
 * vec_generic.h - 4 lanes of f32 in the compiler's portable vectors: any machine. Also the contract
 * of the names that all vec_*.h define.
 *
 *   VW, vf, vi            lanes; a vector of f32; a vector of u32
 *   v_load_n, v_store_n   the first n < VW lanes (loads give zero for the rest and do not touch memory behind)
 *   v_load_bf16, _f16     VW stored values, as f32 exactly
 *   f16_at                a stored value, as f32 exactly
 *   v_lookup, v_low4      table[lane mod 16]; lane mod 16 as a number
 *   v_gather              p[idx[lane]], indexes below 2^31
 *   vi_load_u8, _u4       VW bytes, or numbers of four bits (the lower half of a byte first), as lanes
 *   vi_load_high_u4       the same, the upper half of a byte first
 *   v_fma(a, b, c)        a * b + c: fused where the set has it, else rounded twice (fixed for each set); v_fms: - c
 *   v_scale2(a, n)        a * 2^n for integral n in [-126, 128]
 *   v_scale1(a, n)        the same for n in [-126, 127], faster; any number where n is -127
 *   v_zero_below(a, x, l) lane: x < l ? 0 : a (NaN x: a)
 *   v_hsum, v_hmax        over all lanes, halves first: the same tree always; v_hsum4: four vectors to four floats, the
 *                         same sums
 *   v_pick(mask, a, b)    lane: top bit of mask ? a : b
 *   v_keep(out, x, limit) the lanes x >= limit to out, side by side (VW lanes of out may be written); how many
 *   vi_mul_even(a, b)     products of the even lanes, 64 bits each: the lower half in the even lane, the upper in the odd
 *   vi_odd(a)             odd lanes to the even ones
 *   vi_pair(even, odd)    even lanes of both, in turns
 *   vi_any_at_most(a, n)  whether a lane is n or less
 */
#ifndef KERNELS_CPU_VEC_GENERIC_H
#define KERNELS_CPU_VEC_GENERIC_H

#include "kernels/dequantize.h"

#define VW      4
#define VEC_ISA scalar
typedef float vf __attribute__((vector_size(16)));
typedef uint32_t vi __attribute__((vector_size(16)));
typedef int32_t vs __attribute__((vector_size(16)));
typedef float vf_unaligned __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t vi_unaligned __attribute__((vector_size(16), aligned(4), may_alias));

static inline vf v_set1(float x) {
    return (vf){x, x, x, x};
}
static inline vf v_load(const float *p) {
    return *(const vf_unaligned *)p;
}
static inline vf v_load_n(const float *p, size_t n) {
    vf a = v_set1(0);
    for (size_t i = 0; i < n; i++)
        a[i] = p[i];
    return a;
}
static inline void v_store(float *p, vf a) {
    *(vf_unaligned *)p = a;
}
static inline void v_store_n(float *p, vf a, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] = a[i];
}
static inline vf v_add(vf a, vf b) {
    return a + b;
}
static inline vf v_sub(vf a, vf b) {
    return a - b;
}
static inline vf v_mul(vf a, vf b) {
    return a * b;
}
static inline vf v_div(vf a, vf b) {
    return a / b;
}
static inline vf v_max(vf a, vf b) {
    return (vf)(((vi)a & (vi)(a > b)) | ((vi)b & ~(vi)(a > b)));
}
static inline vf v_min(vf a, vf b) {
    return (vf)(((vi)a & (vi)(a < b)) | ((vi)b & ~(vi)(a < b)));
}
static inline vf v_fma(vf a, vf b, vf c) {
    return a * b + c;
}
static inline vf v_fms(vf a, vf b, vf c) {
    return a * b - c;
}
static inline vf v_rint(vf a) {
    vf rounder = v_set1(0x1.8p23f); /* |a| < 2^22 here */
    return (a + rounder) - rounder;
}
static inline vf v_scale2(vf a, vf n) {
    vs i = __builtin_convertvector(n, vs), half = i >> 1, rest = i - half;
    return a * (vf)((vi)(half + 127) << 23) * (vf)((vi)(rest + 127) << 23);
}
static inline vf v_scale1(vf a, vf n) {
    return a * (vf)((vi)(__builtin_convertvector(n, vs) + 127) << 23);
}
static inline vf v_zero_below(vf a, vf x, float limit) {
    return (vf)((vi)a & ~(vi)(x < v_set1(limit)));
}
static inline float v_hsum(vf a) {
    return (a[0] + a[2]) + (a[1] + a[3]);
}
static inline void v_hsum4(const vf *a, float *out) {
    for (int i = 0; i < 4; i++)
        out[i] = v_hsum(a[i]);
}
static inline float v_hmax(vf a) {
    float m = a[0];
    for (int i = 1; i < VW; i++)
        m = a[i] > m ? a[i] : m;
    return m;
}
typedef uint16_t vh __attribute__((vector_size(8)));
/* The first n stored values, zero-extended. */
static inline vi v_load16_n(const void *p, size_t n) {
    vh h = {0, 0, 0, 0};
    memcpy(&h, p, 2 * n);
    return __builtin_convertvector(h, vi);
}
static inline vf v_load_bf16_n(const void *p, size_t n) {
    return (vf)(v_load16_n(p, n) << 16);
}
static inline vf v_load_bf16(const void *p) {
    return v_load_bf16_n(p, VW);
}
/* Exponent and fraction moved into place, rescaled by 2^112 (exact, subnormals too); infinities and
 * NaNs put right. */
static inline vf v_load_f16_n(const void *p, size_t n) {
    vi h = v_load16_n(p, n), magnitude = (h & 0x7fff) << 13,
       special = (vi)(magnitude >= 0x0f800000u);
    vi scaled = (vi)((vf)magnitude * v_set1(0x1p112f));
    return (vf)((h & 0x8000) << 16 | (special & (magnitude | 0x7f800000u)) | (~special & scaled));
}
static inline float f16_at(const void *p) {
    return dequantize_f16(p);
}
static inline vf v_load_i8(const int8_t *p) {
    return (vf){p[0], p[1], p[2], p[3]};
}
static inline vf v_load_f16(const void *p) {
    return v_load_f16_n(p, VW);
}

static inline vi vi_set1(uint32_t x) {
    return (vi){x, x, x, x};
}
static inline vi vi_load(const uint32_t *p) {
    return *(const vi_unaligned *)p;
}
static inline void vi_store(uint32_t *p, vi a) {
    *(vi_unaligned *)p = a;
}
static inline vi vi_add(vi a, vi b) {
    return a + b;
}
static inline vi vi_sub(vi a, vi b) {
    return a - b;
}
static inline vi vi_xor(vi a, vi b) {
    return a ^ b;
}
static inline vi vi_of_u64(uint64_t first, uint64_t second) {
    return (vi){(uint32_t)first, (uint32_t)(first >> 32), (uint32_t)second,
                (uint32_t)(second >> 32)};
}
static inline vi vi_mul_even(vi a, vi b) {
    return vi_of_u64((uint64_t)a[0] * b[0], (uint64_t)a[2] * b[2]);
}
static inline vi vi_odd(vi a) {
    return (vi){a[1], 0, a[3], 0};
}
static inline vi vi_pair(vi even, vi odd) {
    return (vi){even[0], odd[0], even[2], odd[2]};
}
static inline bool vi_any_at_most(vi a, uint32_t limit) {
    return a[0] <= limit || a[1] <= limit || a[2] <= limit || a[3] <= limit;
}
static inline uint32_t v_keep(float *out, vf x, vf limit) {
    uint32_t count = 0;
    for (int i = 0; i < VW; i++) {
        out[count] = x[i];
        count += x[i] >= limit[i];
    }
    return count;
}
static inline vi vi_load_u8(const uint8_t *p) {
    return (vi){p[0], p[1], p[2], p[3]};
}
static inline vi vi_load_u4(const uint8_t *p) {
    return (vi){p[0] & 15u, (uint32_t)p[0] >> 4, p[1] & 15u, (uint32_t)p[1] >> 4};
}
static inline vi vi_load_high_u4(const uint8_t *p) {
    return (vi){(uint32_t)p[0] >> 4, p[0] & 15u, (uint32_t)p[1] >> 4, p[1] & 15u};
}
static inline vf v_gather(const float *p, const uint32_t *idx) {
    return (vf){p[idx[0]], p[idx[1]], p[idx[2]], p[idx[3]]};
}
static inline vf v_lookup(const float table[16], vi idx) {
    return (vf){table[idx[0] & 15], table[idx[1] & 15], table[idx[2] & 15], table[idx[3] & 15]};
}
static inline vf v_low4(vi a) {
    return __builtin_convertvector((vs)(a & 15), vf);
}
static inline vi vi_and(vi a, vi b) {
    return a & b;
}
static inline vi vi_or(vi a, vi b) {
    return a | b;
}
static inline vi vi_shl(vi a, uint32_t n) {
    return a << n;
}
static inline vi vi_shr(vi a, uint32_t n) {
    return a >> n;
}
static inline vi vi_sra23(vi a) {
    return (vi)((vs)a >> 23);
}
static inline vi vi_shl23(vi a) {
    return a << 23;
}
static inline vi vi_sign(vi a) {
    return (vi)((vs)a >> 31);
}
static inline vf v_of_int(vi a) {
    return __builtin_convertvector((vs)a, vf);
}
static inline vi vi_cast(vf a) {
    return (vi)a;
}
static inline vf v_cast(vi a) {
    return (vf)a;
}
static inline vf v_pick(vi mask, vf ones, vf zeros) {
    vi m = vi_sign(mask);
    return (vf)((m & (vi)ones) | (~m & (vi)zeros));
}

#endif
