/*
 * int8_avx2.h - the operations of int8.inc.h on vectors of 32 bytes, 8 outputs each. The including
 * file gives INT8_VARIANT and INT8_NAME. With AVX-VNNI four products go into 32 bits at once;
 * without it pairs are added to 16 bits: with an offset (int8.inc.h) sums of v * x fit them, 16 terms
 * of 5 bits or 8 of 6 bits, as do sums of u * x, 16 terms of 4 bits or 8 of 5 bits.
 */
#include "kernels/cpu/int8.h"
#include "kernels/cpu/int8_quantize.h"

#ifdef __AVXVNNI__
#define DOT_8   1
#define STREAMS 1
enum { LANES = 8, SUMS_5 = 8 };
#else
#define DOT_8   0
#define STREAMS 4
enum { LANES = 8, SUMS_5 = 4 };
#endif
typedef uint8_t vq __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef float vf __attribute__((vector_size(32)));
typedef __m256i vs;
#if DOT_8
typedef vu vn;
#else
typedef uint16_t vn __attribute__((vector_size(32)));
#endif

/* Keeps the compiler from making a tree of a chain of sums, for which it has no registers. */
INLINE __m256i in_order(__m256i v) {
    __asm__("" : "+x"(v));
    return v;
}
#ifdef __AVXVNNI__
INLINE vs s_add(vs s, vq u, vq x) {
    return _mm256_dpbusd_avx_epi32(s, (__m256i)u, (__m256i)x);
}
INLINE vs s_behind(vs start, vq u, vq x) {
    return s_add(start, u, x);
}
INLINE vs s_first(vq u, vq x) {
    return s_add(_mm256_setzero_si256(), u, x);
}
INLINE vi s_end(vs s) {
    return (vi)s;
}
INLINE void s_sums(const int8_t *values, const struct int8_scale *s, void *whole, void *first) {
    int8_sums_32(s, whole, first);
}
#else
INLINE vs s_first(vq u, vq x) {
    return _mm256_maddubs_epi16((__m256i)u, (__m256i)x);
}
INLINE vs s_behind(vs start, vq u, vq x) {
    return in_order(_mm256_add_epi16(start, s_first(u, x)));
}
INLINE vs s_add(vs s, vq u, vq x) {
    return in_order(_mm256_add_epi16(s, _mm256_maddubs_epi16((__m256i)u, (__m256i)x)));
}
INLINE vi s_end(vs s) {
    return (vi)in_order(_mm256_madd_epi16(s, _mm256_set1_epi16(1)));
}
INLINE void s_sums(const int8_t *values, const struct int8_scale *s, void *whole, void *first) {
    int8_sums_16(values, whole, first);
}
/* |w| (x with the sign of w): pairs are at most 2 * 128 * 127. */
INLINE vi i_dot(vi i, vq w, vq x) {
    __m256i pairs =
        _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)w), _mm256_sign_epi8((__m256i)x, (__m256i)w));
    return (vi)in_order(
        _mm256_add_epi32((__m256i)i, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}
#endif
INLINE vs s_start(vn sums, int bits) {
    return (vs)(sums << bits);
}
INLINE vf f_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vf f_half(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE vi i_bytes(const uint8_t *p) {
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
INLINE vf f_bytes(const uint8_t *p) {
    return _mm256_cvtepi32_ps((__m256i)i_bytes(p));
}
INLINE vf f_signed(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
INLINE vf f_set(float x) {
    return _mm256_set1_ps(x);
}
INLINE vf f_of_int(vi i) {
    return _mm256_cvtepi32_ps((__m256i)i);
}
INLINE vq q_word(const int8_t *p) {
    int word;
    memcpy(&word, p, 4);
    return (vq)_mm256_set1_epi32(word);
}
INLINE vq q_lookup(const int8_t *table, vq idx) {
    __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
    return (vq)_mm256_shuffle_epi8(t, (__m256i)idx);
}

#include "kernels/cpu/int8.inc.h"
