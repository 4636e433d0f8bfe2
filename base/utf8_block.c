/*
 * utf8_block.c - after Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte"
 * (2020): what is wrong about two bytes that follow each other is looked up by three of their
 * halves, each table telling which faults it allows; a fault is one that all three allow.
 */
#include "base/utf8_block.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

enum { BLOCK = 32, REACH = 3 };

/* Of a byte and the one before it. LARGE_8 is LARGE for bytes 80 to 8F behind F5 and more, and
 * where F0 stands before, an overlong form of four bytes. BOTH_INSIDE is no fault behind a first
 * byte of three or four. */
enum {
    SHORT = 1,  /* a first byte, and none inside a character behind it */
    LONG = 2,   /* one inside behind ASCII */
    OVER_3 = 4, /* E0 80 */
    LARGE = 8,  /* F4 90 */
    SURROGATE = 16,
    OVER_2 = 32, /* C0, C1 */
    LARGE_8 = 64,
    BOTH_INSIDE = 128,
    ANY_LOW = SHORT | LONG | BOTH_INSIDE
};

#define REPEAT4(x) x, x, x, x
#define BEFORE_HIGH                                                                                \
    REPEAT4(LONG), REPEAT4(LONG), REPEAT4((char)BOTH_INSIDE), SHORT | OVER_2, SHORT,               \
        SHORT | OVER_3 | SURROGATE, SHORT | LARGE | LARGE_8
#define TOP (char)(ANY_LOW | LARGE | LARGE_8)
#define BEFORE_LOW                                                                                 \
    (char)(ANY_LOW | OVER_3 | OVER_2 | LARGE_8), (char)(ANY_LOW | OVER_2), (char)ANY_LOW,          \
        (char)ANY_LOW, (char)(ANY_LOW | LARGE), TOP, TOP, TOP, REPEAT4(TOP), TOP,                  \
        (char)(TOP | SURROGATE), TOP, TOP
#define INSIDE (char)(LONG | OVER_2 | BOTH_INSIDE)
#define BYTE_HIGH                                                                                  \
    REPEAT4(SHORT), REPEAT4(SHORT), INSIDE | OVER_3 | LARGE_8, INSIDE | OVER_3 | LARGE,            \
        INSIDE | SURROGATE | LARGE, INSIDE | SURROGATE | LARGE, REPEAT4(SHORT)

AVX2 static inline __m256i load(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

AVX2 static inline __m256i look_up(__m128i table, __m256i halves) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), halves);
}

/* True when nothing is wrong with the bytes at p, those before them being right. REACH bytes before
 * p are read. */
AVX2 static inline bool is_good(const uint8_t *p, __m256i bytes) {
    const __m256i low_half = _mm256_set1_epi8(15);
    __m256i before = load(p - 1);
    __m256i faults = look_up(_mm_setr_epi8(BEFORE_HIGH),
                             _mm256_and_si256(_mm256_srli_epi16(before, 4), low_half));
    faults = _mm256_and_si256(
        faults, look_up(_mm_setr_epi8(BEFORE_LOW), _mm256_and_si256(before, low_half)));
    faults =
        _mm256_and_si256(faults, look_up(_mm_setr_epi8(BYTE_HIGH),
                                         _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low_half)));
    /* The sign is set two behind E0 and more, three behind F0 and more: there BOTH_INSIDE must
     * be. */
    __m256i third = _mm256_subs_epu8(load(p - 2), _mm256_set1_epi8(0xE0 - 0x80));
    __m256i fourth = _mm256_subs_epu8(load(p - 3), _mm256_set1_epi8((char)(0xF0 - 0x80)));
    __m256i want =
        _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)BOTH_INSIDE));
    __m256i wrong = _mm256_xor_si256(want, faults);
    return _mm256_testz_si256(wrong, wrong);
}

AVX2 static size_t skip_avx2(const uint8_t *s, size_t at, size_t len) {
    size_t from = at;
    for (; len - at >= BLOCK; at += BLOCK) {
        __m256i bytes = load(s + at);
        if (!_mm256_movemask_epi8(bytes) && s[at - 1] < 0x80)
            continue;
        if (!is_good(s + at, bytes))
            break;
    }
    if (at == from)
        return at;
    /* The last character may go on in what follows. */
    for (at--; (s[at] & 0xC0) == 0x80;)
        at--;
    return at;
}

size_t utf8_skip_blocks(const uint8_t *s, size_t at, size_t len) {
    return at >= REACH && len - at >= BLOCK && __builtin_cpu_supports("avx2")
               ? skip_avx2(s, at, len)
               : at;
}

#else

size_t utf8_skip_blocks(const uint8_t *s, size_t at, size_t len) {
    (void)s, (void)len;
    return at;
}

#endif
