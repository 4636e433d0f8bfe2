/* vec_avx2.h - 8 lanes of f32 (AVX2, FMA, F16C). The contract of these names is in
 * vec_generic.h. */
#ifndef KERNELS_CPU_VEC_AVX2_H
#define KERNELS_CPU_VEC_AVX2_H

#include <immintrin.h>

#include "kernels/types.h"

#define VW      8
#define VEC_ISA avx2
typedef __m256 vf;
typedef __m256i vi;

static inline __m256i v_first(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf v_set1(float x) {
    return _mm256_set1_ps(x);
}
static inline vf v_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline vf v_load_n(const float *p, size_t n) {
    return _mm256_maskload_ps(p, v_first(n));
}
static inline void v_store(float *p, vf a) {
    _mm256_storeu_ps(p, a);
}
static inline void v_store_n(float *p, vf a, size_t n) {
    _mm256_maskstore_ps(p, v_first(n), a);
}
static inline vf v_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
static inline vf v_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
static inline vf v_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf v_fms(vf a, vf b, vf c) {
    return _mm256_fmsub_ps(a, b, c);
}
static inline vf v_rint(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* a * 2^n in two steps, so that n up to 128 works. */
static inline vf v_scale2(vf a, vf n) {
    __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1),
            rest = _mm256_sub_epi32(i, half);
    __m256i bias = _mm256_set1_epi32(127);
    vf x = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vf y = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(a, x), y);
}
static inline vf v_scale1(vf a, vf n) {
    __m256i i = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(i, 23)));
}
static inline vf v_zero_below(vf a, vf x, float limit) {
    return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_NLT_UQ), a);
}
static inline float v_hsum(vf a) {
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
static inline void v_hsum4(const vf *a, float *out) {
    for (int i = 0; i < 4; i++)
        out[i] = v_hsum(a[i]);
}
static inline float v_hmax(vf a) {
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
/* Each number's bytes to the upper half of a lane in one operation. */
static inline vf v_load_bf16(const void *p) {
    const __m256i places =
        _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1,
                         -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
    return _mm256_castsi256_ps(
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(p)), places));
}
static inline vf v_load_i8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}
/* fp8 (e4m3). As f16 its bits are those of a 256th, but 0x7f and 0xff, which are NaN, are not. */
static inline __m128i vh_e4m3(__m128i wide) {
    return _mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16((short)0xbfff));
}
#define V_LOAD_E4M3
static inline vf v_load_e4m3(const uint8_t *p) {
    __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)),
            top = _mm256_set1_epi32((int)0xffffff80);
    __m256i nan = _mm256_cmpeq_epi32(_mm256_or_si256(wide, top), _mm256_set1_epi32(-1));
    vf v = _mm256_cvtph_ps(vh_e4m3(_mm_cvtepi8_epi16(_mm_loadl_epi64((const void *)p))));
    vf quiet = _mm256_castsi256_ps(_mm256_or_si256(
        _mm256_slli_epi32(_mm256_srai_epi32(wide, 31), 31), _mm256_set1_epi32(0x7fc00000)));
    return _mm256_blendv_ps(_mm256_mul_ps(v, _mm256_set1_ps(256)), quiet, _mm256_castsi256_ps(nan));
}
/* 2 * VW of them without NaN, each a 256th of itself. */
static inline void v_e4m3_of_256(const uint8_t *p, vf out[2]) {
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)p));
    wide = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16((short)0xbfff));
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(wide));
    out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(wide, 1));
}
/* The largest of some times 2 * VW bytes: with a sign, and without. */
typedef struct {
    __m128i with_sign, whole;
} vb;
static inline vb vb_none(void) {
    return (vb){_mm_setzero_si128(), _mm_setzero_si128()};
}
static inline vb vb_most_e4m3(vb most, const uint8_t *p) {
    __m128i bytes = _mm_loadu_si128((const void *)p);
    return (vb){_mm_max_epi8(most.with_sign, bytes), _mm_max_epu8(most.whole, bytes)};
}
static inline bool vb_has_nan_e4m3(vb most) {
    return _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(most.with_sign, _mm_set1_epi8(0x7f)),
                                          _mm_cmpeq_epi8(most.whole, _mm_set1_epi8(-1)))) != 0;
}
#define V_LOAD_E5M2
/* fp8 (e5m2): the upper halves of f16. */
static inline vf v_load_e5m2(const uint8_t *p) {
    return _mm256_cvtph_ps(
        _mm_unpacklo_epi8(_mm_setzero_si128(), _mm_loadl_epi64((const void *)p)));
}
static inline vf v_load_f16(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
static inline float f16_at(const void *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return _cvtsh_ss(h);
}
static inline __m128i v_load16_n(const void *p, size_t n) {
    uint16_t lanes[8] = {0};
    memcpy(lanes, p, 2 * n);
    return _mm_loadu_si128((const __m128i *)lanes);
}
static inline vf v_load_bf16_n(const void *p, size_t n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v_load16_n(p, n)), 16));
}
static inline vf v_load_f16_n(const void *p, size_t n) {
    return _mm256_cvtph_ps(v_load16_n(p, n));
}

static inline vi vi_set1(uint32_t x) {
    return _mm256_set1_epi32((int)x);
}
static inline vi vi_load(const uint32_t *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
static inline void vi_store(uint32_t *p, vi a) {
    _mm256_storeu_si256((__m256i *)p, a);
}
static inline vi vi_add(vi a, vi b) {
    return _mm256_add_epi32(a, b);
}
static inline vi vi_sub(vi a, vi b) {
    return _mm256_sub_epi32(a, b);
}
static inline vi vi_xor(vi a, vi b) {
    return _mm256_xor_si256(a, b);
}
static inline vi vi_mul_even(vi a, vi b) {
    return _mm256_mul_epu32(a, b);
}
static inline vi vi_odd(vi a) {
    return _mm256_srli_epi64(a, 32);
}
static inline vi vi_pair(vi even, vi odd) {
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
static inline bool vi_any_at_most(vi a, uint32_t limit) {
    vi least = _mm256_min_epu32(a, vi_set1(limit));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(least, a)) != 0;
}
static inline uint32_t v_keep(float *out, vf x, vf limit) {
    float lanes[VW];
    uint32_t count = 0;
    unsigned kept = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, limit, _CMP_GE_OQ));
    _mm256_storeu_ps(lanes, x);
    for (; kept; kept &= kept - 1)
        out[count++] = lanes[__builtin_ctz(kept)];
    return count;
}
static inline vi vi_load_u8(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
}
static inline vi vi_load_u4(const uint8_t *p) {
    int bytes;
    memcpy(&bytes, p, 4);
    vi pairs = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(bytes));
    return _mm256_and_si256(_mm256_or_si256(pairs, _mm256_slli_epi64(pairs, 28)),
                            _mm256_set1_epi32(15));
}
static inline vi vi_load_high_u4(const uint8_t *p) {
    int bytes;
    memcpy(&bytes, p, 4);
    vi pairs = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(bytes));
    return _mm256_and_si256(
        _mm256_or_si256(_mm256_srli_epi64(pairs, 4), _mm256_slli_epi64(pairs, 32)),
        _mm256_set1_epi32(15));
}
static inline vf v_gather(const float *p, const uint32_t *idx) {
    return _mm256_i32gather_ps(p, _mm256_loadu_si256((const void *)idx), 4);
}
static inline vf v_lookup(const float table[16], vi idx) {
    vf low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), idx);
    vf high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), idx);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(idx, 28)));
}
static inline vf v_low4(vi a) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(a, _mm256_set1_epi32(15)));
}
static inline vi vi_and(vi a, vi b) {
    return _mm256_and_si256(a, b);
}
static inline vi vi_or(vi a, vi b) {
    return _mm256_or_si256(a, b);
}
static inline vi vi_shl(vi a, uint32_t n) {
    return _mm256_sll_epi32(a, _mm_cvtsi32_si128((int)n));
}
static inline vi vi_shr(vi a, uint32_t n) {
    return _mm256_srl_epi32(a, _mm_cvtsi32_si128((int)n));
}
static inline vi vi_sra23(vi a) {
    return _mm256_srai_epi32(a, 23);
}
static inline vi vi_shl23(vi a) {
    return _mm256_slli_epi32(a, 23);
}
static inline vi vi_sign(vi a) {
    return _mm256_srai_epi32(a, 31);
}
static inline vf v_of_int(vi a) {
    return _mm256_cvtepi32_ps(a);
}
static inline vi vi_cast(vf a) {
    return _mm256_castps_si256(a);
}
static inline vf v_cast(vi a) {
    return _mm256_castsi256_ps(a);
}
static inline vf v_pick(vi mask, vf ones, vf zeros) {
    return _mm256_blendv_ps(zeros, ones, _mm256_castsi256_ps(mask));
}

#endif
