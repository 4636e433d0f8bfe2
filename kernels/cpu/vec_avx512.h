/* vec_avx512.h - 16 lanes of f32 (AVX-512 F, BW, VL, DQ). The contract of these names is in
 * vec_generic.h. */
#ifndef KERNELS_CPU_VEC_AVX512_H
#define KERNELS_CPU_VEC_AVX512_H

#include <immintrin.h>

#include "kernels/types.h"

#define VW      16
#define VEC_ISA avx512
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

static inline __mmask16 v_first(size_t n) {
    return (__mmask16)((1u << n) - 1);
}
static inline vf v_set1(float x) {
    return _mm512_set1_ps(x);
}
static inline vf v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline vf v_load_n(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(v_first(n), p);
}
static inline void v_store(float *p, vf a) {
    _mm512_storeu_ps(p, a);
}
static inline void v_store_n(float *p, vf a, size_t n) {
    _mm512_mask_storeu_ps(p, v_first(n), a);
}
static inline vf v_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
static inline vf v_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
static inline vf v_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf v_fms(vf a, vf b, vf c) {
    return _mm512_fmsub_ps(a, b, c);
}
static inline vf v_rint(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf v_scale2(vf a, vf n) {
    return _mm512_scalef_ps(a, n);
}
static inline vf v_scale1(vf a, vf n) {
    return _mm512_scalef_ps(a, n);
}
static inline vf v_zero_below(vf a, vf x, float limit) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_NLT_UQ), a);
}
static inline float v_hsum(vf a) {
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
/* Four sums at once: the same additions as v_hsum. */
static inline void v_hsum4(const vf *a, float *out) {
    vf ab = _mm512_add_ps(_mm512_shuffle_f32x4(a[0], a[1], 0x44),
                          _mm512_shuffle_f32x4(a[0], a[1], 0xee));
    vf cd = _mm512_add_ps(_mm512_shuffle_f32x4(a[2], a[3], 0x44),
                          _mm512_shuffle_f32x4(a[2], a[3], 0xee));
    vf q = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    q = _mm512_add_ps(q, _mm512_permute_ps(q, 0x4e));
    q = _mm512_add_ps(q, _mm512_permute_ps(q, 0xb1));
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, q)));
}
static inline float v_hmax(vf a) {
    return _mm512_reduce_max_ps(a);
}
static inline vf v_load_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
static inline vf v_load_bf16_n(const void *p, size_t n) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(v_first(n), p)), 16));
}
static inline vf v_load_i8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}
/* fp8 (e4m3). As f16 its bits are those of a 256th, but 0x7f and 0xff, which are NaN, are not. */
static inline __m256i vh_e4m3(__m128i bytes) {
    return _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7),
                            _mm256_set1_epi16((short)0xbfff));
}
#define V_LOAD_E4M3
static inline vf v_load_e4m3(const uint8_t *p) {
    __m128i bytes = _mm_loadu_si128((const void *)p), top = _mm_set1_epi8((char)0x80);
    __mmask16 nan = _mm_cmpeq_epi8_mask(_mm_or_si128(bytes, top), _mm_set1_epi8(-1));
    vf v = _mm512_mul_ps(_mm512_cvtph_ps(vh_e4m3(bytes)), _mm512_set1_ps(256));
    vi sign = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32((int)0x80000000));
    return _mm512_mask_mov_ps(
        v, nan, _mm512_castsi512_ps(_mm512_or_si512(sign, _mm512_set1_epi32(0x7fc00000))));
}
/* 2 * VW of them without NaN, each a 256th of itself. */
static inline void v_e4m3_of_256(const uint8_t *p, vf out[2]) {
    vi wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)p));
    wide = _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16((short)0xbfff));
    out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(wide));
    out[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(wide, 1));
}
/* The largest of some times 2 * VW bytes: with a sign, and without. */
typedef struct {
    __m256i with_sign, whole;
} vb;
static inline vb vb_none(void) {
    return (vb){_mm256_setzero_si256(), _mm256_setzero_si256()};
}
static inline vb vb_most_e4m3(vb most, const uint8_t *p) {
    __m256i bytes = _mm256_loadu_si256((const void *)p);
    return (vb){_mm256_max_epi8(most.with_sign, bytes), _mm256_max_epu8(most.whole, bytes)};
}
static inline bool vb_has_nan_e4m3(vb most) {
    return (_mm256_cmpeq_epi8_mask(most.with_sign, _mm256_set1_epi8(0x7f)) |
            _mm256_cmpeq_epi8_mask(most.whole, _mm256_set1_epi8(-1))) != 0;
}
#define V_LOAD_E5M2
/* fp8 (e5m2): the upper halves of f16. */
static inline vf v_load_e5m2(const uint8_t *p) {
    __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)p));
    return _mm512_cvtph_ps(_mm256_slli_epi16(wide, 8));
}
static inline vf v_load_f16(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
static inline float f16_at(const void *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return _cvtsh_ss(h);
}
static inline vf v_load_f16_n(const void *p, size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p));
}

/* Philox and noise: lanes of u32. */
static inline vi vi_set1(uint32_t x) {
    return _mm512_set1_epi32((int)x);
}
static inline vi vi_load(const uint32_t *p) {
    return _mm512_loadu_si512(p);
}
static inline void vi_store(uint32_t *p, vi a) {
    _mm512_storeu_si512(p, a);
}
static inline vi vi_add(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}
static inline vi vi_sub(vi a, vi b) {
    return _mm512_sub_epi32(a, b);
}
static inline vi vi_xor(vi a, vi b) {
    return _mm512_xor_si512(a, b);
}
static inline vi vi_mul_even(vi a, vi b) {
    return _mm512_mul_epu32(a, b);
}
static inline vi vi_odd(vi a) {
    return _mm512_srli_epi64(a, 32);
}
static inline vi vi_pair(vi even, vi odd) {
    return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, 0xa0);
}
static inline bool vi_any_at_most(vi a, uint32_t limit) {
    return _mm512_cmple_epu32_mask(a, vi_set1(limit)) != 0;
}
static inline uint32_t v_keep(float *out, vf x, vf limit) {
    __mmask16 kept = _mm512_cmp_ps_mask(x, limit, _CMP_GE_OQ);
    _mm512_storeu_ps(out, _mm512_maskz_compress_ps(kept, x));
    return (uint32_t)__builtin_popcount(kept);
}
/* VW bytes as numbers; VW numbers of four bits, the lower half of a byte first. */
static inline vi vi_load_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}
static inline vi vi_load_u4(const uint8_t *p) {
    vi pairs = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)p));
    return _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi64(pairs, 28)),
                            _mm512_set1_epi32(15));
}
static inline vi vi_load_high_u4(const uint8_t *p) {
    vi pairs = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)p));
    return _mm512_and_si512(
        _mm512_or_si512(_mm512_srli_epi64(pairs, 4), _mm512_slli_epi64(pairs, 32)),
        _mm512_set1_epi32(15));
}
static inline vf v_gather(const float *p, const uint32_t *idx) {
    return _mm512_i32gather_ps(_mm512_loadu_si512(idx), p, 4);
}
static inline vf v_lookup(const float table[16], vi idx) {
    return _mm512_permutexvar_ps(idx, _mm512_loadu_ps(table));
}
static inline vf v_low4(vi a) {
    return _mm512_permutexvar_ps(
        a, _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
static inline vi vi_and(vi a, vi b) {
    return _mm512_and_si512(a, b);
}
static inline vi vi_or(vi a, vi b) {
    return _mm512_or_si512(a, b);
}
static inline vi vi_shl(vi a, uint32_t n) {
    return _mm512_sll_epi32(a, _mm_cvtsi32_si128((int)n));
}
static inline vi vi_shr(vi a, uint32_t n) {
    return _mm512_srl_epi32(a, _mm_cvtsi32_si128((int)n));
}
static inline vi vi_sra23(vi a) {
    return _mm512_srai_epi32(a, 23);
}
static inline vi vi_shl23(vi a) {
    return _mm512_slli_epi32(a, 23);
}
static inline vi vi_sign(vi a) {
    return _mm512_srai_epi32(a, 31);
} /* all ones where the top bit is set */
static inline vf v_of_int(vi a) {
    return _mm512_cvtepi32_ps(a);
}
static inline vi vi_cast(vf a) {
    return _mm512_castps_si512(a);
}
static inline vf v_cast(vi a) {
    return _mm512_castsi512_ps(a);
}
static inline vf v_pick(vi mask, vf ones, vf zeros) {
    return _mm512_mask_mov_ps(zeros, _mm512_movepi32_mask(mask), ones);
}

#endif
