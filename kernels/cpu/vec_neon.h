/* vec_neon.h - 4 lanes of f32 (Advanced SIMD, which every arm64 has). The contract of these names
 * is in vec_generic.h. */
#ifndef KERNELS_CPU_VEC_NEON_H
#define KERNELS_CPU_VEC_NEON_H

#include <arm_neon.h>

#include "kernels/types.h"

#define VW      4
#define VEC_ISA neon
typedef float32x4_t vf;
typedef uint32x4_t vi;

static inline vf v_set1(float x) {
    return vdupq_n_f32(x);
}
static inline vf v_load(const float *p) {
    return vld1q_f32(p);
}
static inline vf v_load_n(const float *p, size_t n) {
    float lanes[VW] = {0};
    memcpy(lanes, p, n * sizeof *p);
    return vld1q_f32(lanes);
}
static inline void v_store(float *p, vf a) {
    vst1q_f32(p, a);
}
static inline void v_store_n(float *p, vf a, size_t n) {
    float lanes[VW];
    vst1q_f32(lanes, a);
    memcpy(p, lanes, n * sizeof *p);
}
static inline vf v_add(vf a, vf b) {
    return vaddq_f32(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return vsubq_f32(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return vmulq_f32(a, b);
}
static inline vf v_div(vf a, vf b) {
    return vdivq_f32(a, b);
}
/* As the other sets: b where either is no number. vmaxq gives NaN there. */
static inline vf v_max(vf a, vf b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
static inline vf v_min(vf a, vf b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}
static inline vf v_fms(vf a, vf b, vf c) {
    return vfmaq_f32(vnegq_f32(c), a, b);
}
static inline vf v_rint(vf a) {
    return vrndnq_f32(a);
}
/* a * 2^n in two steps, so that n up to 128 works. */
static inline vf v_scale2(vf a, vf n) {
    int32x4_t i = vcvtnq_s32_f32(n), half = vshrq_n_s32(i, 1), rest = vsubq_s32(i, half);
    int32x4_t bias = vdupq_n_s32(127);
    vf x = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    vf y = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
    return vmulq_f32(vmulq_f32(a, x), y);
}
static inline vf v_scale1(vf a, vf n) {
    int32x4_t i = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
    return vmulq_f32(a, vreinterpretq_f32_s32(vshlq_n_s32(i, 23)));
}
static inline vf v_zero_below(vf a, vf x, float limit) {
    uint32x4_t below = vcltq_f32(x, vdupq_n_f32(limit));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), below));
}
/* (a0 + a2) + (a1 + a3) */
static inline float v_hsum(vf a) {
    return vaddv_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a)));
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

/* The first n stored values of 16 bits; zero behind them. */
static inline uint16x4_t v_load16_n(const void *p, size_t n) {
    uint16_t lanes[VW] = {0};
    memcpy(lanes, p, 2 * n);
    return vld1_u16(lanes);
}
static inline uint16x4_t v_load16(const void *p) {
    return vreinterpret_u16_u8(vld1_u8(p)); /* any alignment */
}
static inline vf v_of_bf16(uint16x4_t h) {
    return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}
static inline vf v_of_f16(uint16x4_t h) {
    return vcvt_f32_f16(vreinterpret_f16_u16(h));
}
static inline vf v_load_bf16(const void *p) {
    return v_of_bf16(v_load16(p));
}
static inline vf v_load_f16(const void *p) {
    return v_of_f16(v_load16(p));
}
static inline vf v_load_bf16_n(const void *p, size_t n) {
    return v_of_bf16(v_load16_n(p, n));
}
static inline vf v_load_f16_n(const void *p, size_t n) {
    return v_of_f16(v_load16_n(p, n));
}
static inline float f16_at(const void *p) {
    __fp16 h;
    memcpy(&h, p, 2);
    return h;
}

static inline vi vi_set1(uint32_t x) {
    return vdupq_n_u32(x);
}
static inline vi vi_load(const uint32_t *p) {
    return vld1q_u32(p);
}
static inline void vi_store(uint32_t *p, vi a) {
    vst1q_u32(p, a);
}
static inline vi vi_add(vi a, vi b) {
    return vaddq_u32(a, b);
}
static inline vi vi_sub(vi a, vi b) {
    return vsubq_u32(a, b);
}
static inline vi vi_xor(vi a, vi b) {
    return veorq_u32(a, b);
}
static inline vi vi_mul_even(vi a, vi b) {
    uint32x2_t x = vmovn_u64(vreinterpretq_u64_u32(a)), y = vmovn_u64(vreinterpretq_u64_u32(b));
    return vreinterpretq_u32_u64(vmull_u32(x, y));
}
static inline vi vi_odd(vi a) {
    return vreinterpretq_u32_u64(vshrq_n_u64(vreinterpretq_u64_u32(a), 32));
}
static inline vi vi_pair(vi even, vi odd) {
    return vtrn1q_u32(even, odd);
}
static inline bool vi_any_at_most(vi a, uint32_t limit) {
    return vminvq_u32(a) <= limit;
}
static inline uint32_t v_keep(float *out, vf x, vf limit) {
    float lanes[VW], limits[VW];
    uint32_t count = 0;
    vst1q_f32(lanes, x);
    vst1q_f32(limits, limit);
    for (int i = 0; i < VW; i++) {
        out[count] = lanes[i];
        count += lanes[i] >= limits[i];
    }
    return count;
}
/* Four bytes as the low half of a vector. */
static inline uint8x8_t v_load_bytes(const void *p) {
    uint32_t bytes;
    memcpy(&bytes, p, 4);
    return vcreate_u8(bytes);
}
static inline vi vi_load_u8(const uint8_t *p) {
    return vmovl_u16(vget_low_u16(vmovl_u8(v_load_bytes(p))));
}
static inline vf v_load_i8(const int8_t *p) {
    int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(v_load_bytes(p)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
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
/* The table is 64 bytes in four registers, looked up byte by byte. */
static inline vf v_lookup(const float table[16], vi idx) {
    uint8x16x4_t bytes = vld1q_u8_x4((const uint8_t *)table);
    vi first = vmulq_u32(vandq_u32(idx, vdupq_n_u32(15)), vdupq_n_u32(0x04040404));
    vi at = vaddq_u32(first, vdupq_n_u32(0x03020100));
    return vreinterpretq_f32_u8(vqtbl4q_u8(bytes, vreinterpretq_u8_u32(at)));
}
static inline vf v_low4(vi a) {
    return vcvtq_f32_u32(vandq_u32(a, vdupq_n_u32(15)));
}
static inline vi vi_and(vi a, vi b) {
    return vandq_u32(a, b);
}
static inline vi vi_or(vi a, vi b) {
    return vorrq_u32(a, b);
}
static inline vi vi_shl(vi a, uint32_t n) {
    return vshlq_u32(a, vdupq_n_s32((int)n));
}
static inline vi vi_shr(vi a, uint32_t n) {
    return vshlq_u32(a, vdupq_n_s32(-(int)n));
}
static inline vi vi_sra23(vi a) {
    return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(a), 23));
}
static inline vi vi_shl23(vi a) {
    return vshlq_n_u32(a, 23);
}
static inline vi vi_sign(vi a) {
    return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(a), 31));
}
static inline vf v_of_int(vi a) {
    return vcvtq_f32_s32(vreinterpretq_s32_u32(a));
}
static inline vi vi_cast(vf a) {
    return vreinterpretq_u32_f32(a);
}
static inline vf v_cast(vi a) {
    return vreinterpretq_f32_u32(a);
}
static inline vf v_pick(vi mask, vf ones, vf zeros) {
    return vbslq_f32(vi_sign(mask), ones, zeros);
}

#endif
