#include "text/tokenizer/nfc.h"

#include <pthread.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "text/unicode.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { PLANE = 65536, FIRST_UNSTABLE = 0x300, JAMO_FIRST = 0x1100, JAMO_LAST = 0x11FF };

static uint64_t stable_bits[PLANE / 64];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static bool is_own_form(uint32_t cp) {
    utf8proc_int32_t codes[32];
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, codes, 32,
                                                 UTF8PROC_STABLE | UTF8PROC_COMPOSE, &boundary);
    if (n < 1 || n > 32)
        return false;
    return utf8proc_normalize_utf32(codes, n, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == 1 &&
           (uint32_t)codes[0] == cp;
}

/* utf8proc's comb_index: below this for the first of a composition, above for the second. */
enum { SECONDS = 0x8000 };

static bool ask(uint32_t cp) {
    if (cp < FIRST_UNSTABLE)
        return true;
    if (cp >= JAMO_FIRST && cp <= JAMO_LAST)
        return false; /* combine by rule */
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    bool is_second = p->comb_index != UINT16_MAX && p->comb_index >= SECONDS;
    if (p->combining_class || is_second)
        return false;
    return p->decomp_seqindex == UINT16_MAX || is_own_form(cp);
}

static void make(void) {
    for (uint32_t cp = 0; cp < PLANE; cp++)
        stable_bits[cp / 64] |= (uint64_t)ask(cp) << cp % 64;
}

void nfc_init(void) {
    pthread_once(&made, make);
}

bool nfc_is_stable(uint32_t cp) {
    if (cp < PLANE)
        return stable_bits[cp / 64] >> cp % 64 & 1;
    return (cp >= 0x1F300 && cp <= 0x1FAFF) || ask(cp);
}

#if defined(__SSE2__)
enum { BLOCK = 64, READ = BLOCK + 2 };

static inline __m128i load(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
static inline __m128i at_least(__m128i x, uint8_t low) {
    return _mm_cmpeq_epi8(_mm_max_epu8(x, _mm_set1_epi8((char)low)), x);
}
static inline __m128i in_range(__m128i x, uint8_t low, uint8_t high) {
    return _mm_and_si128(at_least(x, low),
                         _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8((char)high)), x));
}
static inline __m128i equal(__m128i x, uint8_t byte) {
    return _mm_cmpeq_epi8(x, _mm_set1_epi8((char)byte));
}

/* Of 16 bytes, those that begin a character which is not known to be stable. Known are those below
 * U+0300, Cyrillic (U+0400 to U+047F), general punctuation from U+2002, and U+3000 to U+9FFF
 * without two runs of marks. */
static inline unsigned unknown_starts(const uint8_t *p) {
    __m128i x = load(p), second = load(p + 1), third = load(p + 2);
    __m128i known = _mm_or_si128(in_range(x, 0xD0, 0xD1), in_range(x, 0xE3, 0xE9));
    __m128i marks = _mm_or_si128(_mm_and_si128(equal(second, 0x80), in_range(third, 0xAA, 0xAF)),
                                 _mm_and_si128(equal(second, 0x82), in_range(third, 0x99, 0x9A)));
    __m128i signs = _mm_and_si128(equal(second, 0x80), at_least(third, 0x82));
    known = _mm_andnot_si128(_mm_and_si128(equal(x, 0xE3), marks), known);
    known = _mm_or_si128(known, _mm_and_si128(equal(x, 0xE2), signs));
    return (unsigned)_mm_movemask_epi8(_mm_andnot_si128(known, at_least(x, 0xCC)));
}

/* Passes over blocks without such, up to the first one. */
static const uint8_t *skip_blocks(const uint8_t *p, const uint8_t *end) {
    for (; end - p >= READ; p += BLOCK) {
        __m128i highest = _mm_max_epu8(_mm_max_epu8(load(p), load(p + 16)),
                                       _mm_max_epu8(load(p + 32), load(p + 48)));
        if (!_mm_movemask_epi8(at_least(highest, 0xCC)))
            continue;
        for (int i = 0; i < BLOCK; i += 16) {
            unsigned unknown = unknown_starts(p + i);
            if (unknown)
                return p + i + __builtin_ctz(unknown);
        }
    }
    return p;
}
#else
enum { BLOCK = 64 };
static const uint8_t *skip_blocks(const uint8_t *p, const uint8_t *end) {
    (void)end;
    return p;
}
#endif

size_t nfc_skip_stable(struct bytes s, size_t at) {
    const uint8_t *p = s.data + at, *end = s.data + s.len;
    while (p < end) {
        p = skip_blocks(p, end);
        while (p < end && (*p & 0xC0) == 0x80)
            p++; /* of a character that the last block began */
        const uint8_t *stop = end - p > BLOCK ? p + BLOCK : end;
        for (size_t n; p < stop; p += n) {
            uint32_t cp;
            n = unicode_next(p, &cp);
            if (!nfc_is_stable(cp))
                return (size_t)(p - s.data);
        }
    }
    return s.len;
}
