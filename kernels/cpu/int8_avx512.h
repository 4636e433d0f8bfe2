/*
 * int8_avx512.h - the operations of int8.inc.h on vectors of 64 bytes, 16 outputs each. The
 * including file gives INT8_VARIANT and INT8_NAME. With AVX-512 VNNI four products go into 32 bits at
 * once; without it pairs are added to 16 bits, as in int8_avx2.h.
 */
#include "kernels/cpu/int8.h"
#include "kernels/cpu/int8_quantize.h"

#ifdef __AVX512VNNI__
#define DOT_8 1
#ifdef INT8_TILES
#define STREAMS 1
#else
#define STREAMS 16
#endif
enum { LANES = 16, SUMS_5 = 8 };
#else
#define DOT_8   0
#define STREAMS 1
enum { LANES = 16, SUMS_5 = 4 };
#endif
typedef uint8_t vq __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef float vf __attribute__((vector_size(64)));
typedef __m512i vs;
#if DOT_8
typedef vu vn;
#else
typedef uint16_t vn __attribute__((vector_size(64)));
#endif

/* Keeps the compiler from making a tree of a chain of sums, for which it has no registers. */
INLINE __m512i in_order(__m512i v) {
    __asm__("" : "+v"(v));
    return v;
}
#ifdef __AVX512VNNI__
INLINE vs s_add(vs s, vq u, vq x) {
    return _mm512_dpbusd_epi32(s, (__m512i)u, (__m512i)x);
}
INLINE vs s_behind(vs start, vq u, vq x) {
    return s_add(start, u, x);
}
INLINE vs s_first(vq u, vq x) {
    return s_add(_mm512_setzero_si512(), u, x);
}
INLINE vi s_end(vs s) {
    return (vi)s;
}
/* The compiler would shift before it fills the lanes, by way of a general register. */
INLINE vs s_start(vn sums, int bits) {
    return _mm512_slli_epi32(in_order((__m512i)sums), (unsigned)bits);
}
INLINE void s_sums(const int8_t *values, const struct int8_scale *s, void *whole, void *first) {
    int8_sums_32(s, whole, first);
}
#else
INLINE vs s_first(vq u, vq x) {
    return _mm512_maddubs_epi16((__m512i)u, (__m512i)x);
}
INLINE vs s_behind(vs start, vq u, vq x) {
    return in_order(_mm512_add_epi16(start, s_first(u, x)));
}
INLINE vs s_add(vs s, vq u, vq x) {
    return in_order(_mm512_add_epi16(s, _mm512_maddubs_epi16((__m512i)u, (__m512i)x)));
}
INLINE vi s_end(vs s) {
    return (vi)in_order(_mm512_madd_epi16(s, _mm512_set1_epi16(1)));
}
INLINE vs s_start(vn sums, int bits) {
    return (vs)(sums << bits);
}
INLINE void s_sums(const int8_t *values, const struct int8_scale *s, void *whole, void *first) {
    int8_sums_16(values, whole, first);
}
/* |w| (x with the sign of w): pairs are at most 2 * 128 * 127. */
INLINE vi i_dot(vi i, vq w, vq x) {
    __m512i negated = _mm512_mask_sub_epi8((__m512i)x, _mm512_movepi8_mask((__m512i)w),
                                           _mm512_setzero_si512(), (__m512i)x);
    __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8((__m512i)w), negated);
    return (vi)in_order(
        _mm512_add_epi32((__m512i)i, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1))));
}
#endif
INLINE vf f_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vf f_half(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
INLINE vi i_bytes(const uint8_t *p) {
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
INLINE vf f_bytes(const uint8_t *p) {
    return _mm512_cvtepi32_ps((__m512i)i_bytes(p));
}
INLINE vf f_signed(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
INLINE vf f_set(float x) {
    return _mm512_set1_ps(x);
}
INLINE vf f_of_int(vi i) {
    return _mm512_cvtepi32_ps((__m512i)i);
}
INLINE vq q_word(const int8_t *p) {
    int word;
    memcpy(&word, p, 4);
    return (vq)_mm512_set1_epi32(word);
}
INLINE vq q_lookup(const int8_t *table, vq idx) {
    __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table));
    return (vq)_mm512_shuffle_epi8(t, (__m512i)idx);
}

#include "kernels/cpu/int8.inc.h"
