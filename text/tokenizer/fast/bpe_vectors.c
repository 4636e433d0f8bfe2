/*
 * bpe_vectors.c - merging pieces of up to 255 symbols with vectors: the pair to merge next is found
 * without a branch for each symbol, and the first pairs of bytes come from a table.
 */
#include "text/tokenizer/bpe_short.h"
#include "text/tokenizer/fast/bpe_caches.h"
#include "text/tokenizer/fast/fast.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* At byte level most pairs looked up first are two single bytes. */
void bpe_make_byte_pairs(struct bpe *b) {
    b->byte_pairs = mem_alloc(BPE_BYTE_PAIRS * sizeof *b->byte_pairs);
    for (unsigned i = 0; i < BPE_BYTE_PAIRS; i++) {
        const struct bpe_merge *m = bpe_is_inner(b, i)
                                        ? find_pair(b, b->ascii_ids[i >> 8], b->ascii_ids[i & 255])
                                        : &BPE_NO_MERGE;
        b->byte_pairs[i] = (struct bpe_byte_pair){m->rank, m->result};
    }
}

SHORT_INLINE size_t merge(const struct bpe *b, uint32_t *ids, size_t symbol_count,
                          const uint8_t *piece, least_fn *least) {
    struct short_merge m;
    uint32_t count = (uint32_t)symbol_count;
    CHECK(count > 1 && count <= BPE_SHORT_MAX);
    short_link_up(&m, count);
    if (!piece)
        short_note_all(b, &m, ids, count);
    for (uint32_t i = 0; piece && i + 1 < count; i++) {
        const struct bpe_byte_pair *pair = &b->byte_pairs[(unsigned)piece[i] << 8 | piece[i + 1]];
        m.keys[i] = pair->rank == NONE ? NONE : pair->rank << SHORT_POS_BITS | i;
        m.results[i] = pair->result;
    }
    return short_merge_all(b, &m, ids, count, least);
}

SHORT_INLINE uint32_t least_plain(const uint32_t *keys, size_t count) {
    uint32_t low = keys[0];
    for (size_t i = 1; i < count; i++)
        low = MIN(low, keys[i]);
    return low;
}

static size_t merge_plain(const struct bpe *b, uint32_t *ids, size_t count, const uint8_t *piece) {
    return merge(b, ids, count, piece, least_plain);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) SHORT_INLINE uint32_t least_avx2(const uint32_t *keys,
                                                                 size_t count) {
    const __m256i *at = (const __m256i *)(const void *)keys;
    __m256i low = _mm256_load_si256(at);
    for (size_t i = 8; i < count; i += 8)
        low = _mm256_min_epu32(low, _mm256_load_si256(++at));
    __m128i four = _mm_min_epu32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    four = _mm_min_epu32(four, _mm_shuffle_epi32(four, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_min_epu32(four, _mm_shuffle_epi32(four, 0xB1)));
}

__attribute__((target("avx512f"))) SHORT_INLINE uint32_t least_avx512(const uint32_t *keys,
                                                                      size_t count) {
    __m512i low = _mm512_load_si512(keys);
    for (size_t i = SHORT_LANES; i < count; i += SHORT_LANES)
        low = _mm512_min_epu32(low, _mm512_load_si512(keys + i));
    return _mm512_reduce_min_epu32(low);
}

__attribute__((target("avx2,bmi,bmi2"))) static size_t
merge_avx2(const struct bpe *b, uint32_t *ids, size_t count, const uint8_t *piece) {
    return merge(b, ids, count, piece, least_avx2);
}

__attribute__((target("avx512f,bmi,bmi2"))) static size_t
merge_avx512(const struct bpe *b, uint32_t *ids, size_t count, const uint8_t *piece) {
    return merge(b, ids, count, piece, least_avx512);
}
#endif

size_t fast_short_variants(fast_short_fn *out[FAST_SHORT_VARIANTS_MAX]) {
    size_t count = 0;
    out[count++] = merge_plain;
#if defined(__x86_64__)
    bool bits = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (bits && __builtin_cpu_supports("avx2"))
        out[count++] = merge_avx2;
    if (bits && __builtin_cpu_supports("avx512f"))
        out[count++] = merge_avx512;
#endif
    return count;
}

size_t bpe_merge_vectors(const struct bpe *b, uint32_t *ids, size_t count, const uint8_t *piece) {
#if defined(__x86_64__)
    bool bits = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (bits && __builtin_cpu_supports("avx512f"))
        return merge_avx512(b, ids, count, piece);
    if (bits && __builtin_cpu_supports("avx2"))
        return merge_avx2(b, ids, count, piece);
#endif
    return merge_plain(b, ids, count, piece);
}
