/*
 * bpe_short.c - merging pieces of up to 255 symbols: the pair to merge next is the least of an array of keys, each a
 * rank and, below it, a position; found with vectors, without a branch for each symbol.
 */
#include "text/tokenizer/bpe_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { POS_BITS = 8, LANES = 16, CELLS = 256 };
#define INLINE static inline __attribute__((always_inline))

struct short_merge {
    uint32_t keys[CELLS] __attribute__((aligned(64))); /* rank << 8 | position of the pair that begins here, or NONE */
    uint32_t results[CELLS];
    uint8_t next[CELLS], prev[CELLS]; /* of symbols that are left; next of the last: count; prev of the first: 255 */
};

INLINE void note(const struct bpe *b, struct short_merge *m, uint32_t i, const struct bpe_merge *found) {
    if (found == &BPE_NO_MERGE) {
        m->keys[i] = NONE;
        return;
    }
    uint32_t rank = b->rising ? (uint32_t)(found - b->merges) : found->rank;
    m->keys[i] = rank << POS_BITS | i;
    m->results[i] = found->result;
}

static uint32_t least_plain(const uint32_t *keys, size_t count) {
    uint32_t low = keys[0];
    for (size_t i = 1; i < count; i++) low = MIN(low, keys[i]);
    return low;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) INLINE uint32_t least_avx2(const uint32_t *keys, size_t count) {
    const __m256i *at = (const __m256i *)(const void *)keys;
    __m256i low = _mm256_load_si256(at);
    for (size_t i = 8; i < count; i += 8) low = _mm256_min_epu32(low, _mm256_load_si256(++at));
    __m128i four = _mm_min_epu32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    four = _mm_min_epu32(four, _mm_shuffle_epi32(four, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_min_epu32(four, _mm_shuffle_epi32(four, 0xB1)));
}

__attribute__((target("avx512f"))) INLINE uint32_t least_avx512(const uint32_t *keys, size_t count) {
    __m512i low = _mm512_load_si512(keys);
    for (size_t i = LANES; i < count; i += LANES) low = _mm512_min_epu32(low, _mm512_load_si512(keys + i));
    return _mm512_reduce_min_epu32(low);
}
#endif

typedef uint32_t least_fn(const uint32_t *keys, size_t count);

INLINE size_t merge_all(const struct bpe *b, struct short_merge *m, uint32_t *ids, uint32_t count, least_fn *least) {
    for (uint32_t best; (best = least(m->keys, count)) != NONE;) {
        uint32_t pos = best & 255, gone = m->next[pos], after = m->next[gone], before = m->prev[pos];
        ids[pos] = m->results[pos];
        m->keys[gone] = NONE;
        m->next[pos] = (uint8_t)after;
        struct pair_place right = after < count ? place_pair(b, ids[pos], ids[after]) : (struct pair_place){0, 0};
        if (before != 255) note(b, m, before, find_pair(b, ids[before], ids[pos]));
        m->keys[pos] = NONE;
        if (after == count) continue;
        m->prev[after] = (uint8_t)pos;
        note(b, m, pos, find_placed(b, right, ids[pos], ids[after]));
    }
    size_t kept = 0;
    for (uint32_t i = 0; i < count; i = m->next[i]) ids[kept++] = ids[i];
    return kept;
}

static void link_up(struct short_merge *m, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        m->next[i] = (uint8_t)(i + 1);
        m->prev[i] = (uint8_t)(i - 1); /* of the first: 255 */
    }
    for (uint32_t i = count - 1; i < CELLS && (i == count - 1 || i % LANES); i++) m->keys[i] = NONE;
}

INLINE size_t merge(const struct bpe *b, uint32_t *ids, size_t symbol_count, const uint8_t *piece, least_fn *least) {
    struct short_merge m;
    uint32_t count = (uint32_t)symbol_count;
    link_up(&m, count);
    if (piece) { /* symbols are bytes: first pairs come from their table */
        for (uint32_t i = 0; i + 1 < count; i++) {
            const uint32_t *pair = b->byte_pairs[(size_t)piece[i] << 8 | piece[i + 1]];
            m.keys[i] = pair[0] == NONE ? NONE : pair[0] << POS_BITS | i;
            m.results[i] = pair[1];
        }
    } else {
        struct pair_place places[CELLS];
        for (uint32_t i = 0; i + 1 < count; i++) places[i] = place_pair(b, ids[i], ids[i + 1]);
        for (uint32_t i = 0; i + 1 < count; i++) note(b, &m, i, find_placed(b, places[i], ids[i], ids[i + 1]));
    }
    return merge_all(b, &m, ids, count, least);
}

static size_t merge_plain(const struct bpe *b, uint32_t *ids, size_t count, const uint8_t *piece) {
    return merge(b, ids, count, piece, least_plain);
}

#if defined(__x86_64__)
__attribute__((target("avx2,bmi,bmi2"))) static size_t merge_avx2(const struct bpe *b, uint32_t *ids, size_t count,
                                                                  const uint8_t *piece) {
    return merge(b, ids, count, piece, least_avx2);
}
__attribute__((target("avx512f,bmi,bmi2"))) static size_t merge_avx512(const struct bpe *b, uint32_t *ids, size_t count,
                                                                       const uint8_t *piece) {
    return merge(b, ids, count, piece, least_avx512);
}
#endif

size_t bpe_merge_variants(bpe_merge_fn *out[BPE_VARIANTS_MAX]) {
    size_t count = 0;
    out[count++] = merge_plain;
#if defined(__x86_64__)
    bool bits = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (bits && __builtin_cpu_supports("avx2")) out[count++] = merge_avx2;
    if (bits && __builtin_cpu_supports("avx512f")) out[count++] = merge_avx512;
#endif
    return count;
}
