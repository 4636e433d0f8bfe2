/* int8_quantize.h - quantize_block of kernels/integers.h with AVX2's vectors. */
#ifndef KERNELS_CPU_INT8_QUANTIZE_H
#define KERNELS_CPU_INT8_QUANTIZE_H

#include <immintrin.h>

#include "kernels/integers.h"

#define INLINE static inline __attribute__((always_inline))

INLINE int32_t sum_words(__m128i words) { /* of four */
    words = _mm_add_epi32(words, _mm_shuffle_epi32(words, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(words, _mm_shuffle_epi32(words, 0xb1)));
}

/* quantize_block. x - x is 0, or NaN where x is not finite. */
INLINE void f_quantize(const float *x, int8_t *values, struct int8_scale *out) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 v[4], most = _mm256_setzero_ps(), strange = most;
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        most = _mm256_max_ps(most, _mm256_andnot_ps(sign, v[i]));
        strange = _mm256_or_ps(strange, _mm256_sub_ps(v[i], v[i]));
    }
    __m128 top = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    top = _mm_max_ps(top, _mm_movehl_ps(top, top));
    float m = _mm_cvtss_f32(_mm_max_ss(top, _mm_movehdup_ps(top)));
    bool finite = _mm256_testz_si256(_mm256_castps_si256(strange), _mm256_castps_si256(strange));
    float factor = finite && m >= 0x1p-100f ? 127.0f / m : 0;
    __m256i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = factor != 0 ? _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(factor)))
                           : _mm256_setzero_si256();
    __m256i first = _mm256_add_epi32(q[0], q[1]), second = _mm256_add_epi32(q[2], q[3]);
    int32_t sums[2] = {
        sum_words(_mm_add_epi32(_mm256_castsi256_si128(first), _mm256_extracti128_si256(first, 1))),
        sum_words(
            _mm_add_epi32(_mm256_castsi256_si128(second), _mm256_extracti128_si256(second, 1)))};
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)values, bytes);
    out->d = !finite ? __builtin_nanf("") : factor != 0 ? m / 127.0f : 0;
    out->first = sums[0];
    out->total = sums[0] + sums[1];
    out->sum = out->d * (float)out->total;
}

/* Minus the sums of a block's 32 values, and of its first 16, as int8.inc.h wants them in 16 bits: in
 * the lower half of the columns whose place is 0 or 1 in a word of four, in the upper half of the others. */
INLINE void int8_sums_16(const int8_t *values, void *whole, void *first) {
    const __m128i ones = _mm_set1_epi8(1);
    __m128i sums[2];
    for (int i = 0; i < 2; i++) {
        sums[i] = _mm_maddubs_epi16(ones, _mm_loadu_si128((const __m128i *)values + i));
        sums[i] = _mm_add_epi16(sums[i], _mm_shuffle_epi32(sums[i], 0x4e));
        sums[i] = _mm_sub_epi16(_mm_sub_epi16(_mm_setzero_si128(), sums[i]),
                                _mm_shuffle_epi32(sums[i], 0xb1));
    }
    _mm_storeu_si32(first, sums[0]);
    _mm_storeu_si32(whole, _mm_add_epi16(sums[0], sums[1]));
}

#endif
