/*
 * bpe_block.c - the hot loop of encoding: the pieces of a block, most of which are words met before.
 */
#include "text/tokenizer/bpe_internal.h"

#if defined(__SSE2__)
#include <emmintrin.h>

#define KEEP(n) (((uint64_t)1 << 8 * (n)) - 1)
/* What remains of 16 bytes for a piece of so many. */
static const uint64_t KEEP_LOW[16] = {0,          KEEP(1),    KEEP(2),    KEEP(3),    KEEP(4),    KEEP(5),
                                      KEEP(6),    KEEP(7),    UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                      UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
static const uint64_t KEEP_HIGH[16] = {0, 0,       0,       0,       0,       0,       0,       0,
                                       0, KEEP(1), KEEP(2), KEEP(3), KEEP(4), KEEP(5), KEEP(6), KEEP(7)};

static inline struct word_key block_key(const uint8_t *p, size_t len) {
    struct word_key k;
    memcpy(&k, p, sizeof k);
    k.low &= KEEP_LOW[len];
    k.high = (k.high & KEEP_HIGH[len]) | (uint64_t)len << 56;
    return k;
}

/* Writes the entry's four ids and returns how many of them count: those without a sign. */
static inline unsigned put_ids(const struct word_entry *e, uint32_t *to) {
    __m128i ids = _mm_loadu_si128((const __m128i *)(const void *)e->ids);
    _mm_storeu_si128((__m128i *)(void *)to, ids);
    return (unsigned)__builtin_ctz((unsigned)_mm_movemask_ps(_mm_castsi128_ps(ids)) | 1u << WORD_IDS_MAX);
}

void bpe_encode_block(const struct bpe *b, struct bpe_scratch *s, const uint8_t *p, uint64_t starts,
                      const uint8_t *limit, struct token_vec *out) {
    bpe_need_caches(s);
    vec_reserve(out, out->count + 64 * WORD_IDS_MAX);
    unsigned at = 0;
    for (uint64_t rest = starts & (starts - 1); rest; rest &= rest - 1) {
        unsigned next = (unsigned)__builtin_ctzll(rest), len = next - at;
        const uint8_t *piece = p + at;
        at = next;
        if (len <= WORD_BYTES_MAX) {
            struct word_key key = block_key(piece, len);
            const struct word_entry *set = word_set(&s->caches->words, key);
            bool first = word_key_equal(set[0].key, key);
            if (first || word_key_equal(set[1].key, key)) {
                out->count += put_ids(first ? &set[0] : &set[1], out->items + out->count);
                continue;
            }
        }
        bpe_encode(b, s, piece, len, limit, out);
        vec_reserve(out, out->count + 64 * WORD_IDS_MAX);
    }
}

#else

void bpe_encode_block(const struct bpe *b, struct bpe_scratch *s, const uint8_t *p, uint64_t starts,
                      const uint8_t *limit, struct token_vec *out) {
    while (starts & (starts - 1)) {
        unsigned at = (unsigned)__builtin_ctzll(starts);
        starts &= starts - 1;
        bpe_encode(b, s, p + at, (unsigned)__builtin_ctzll(starts) - at, limit, out);
    }
}

#endif
