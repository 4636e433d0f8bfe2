/*
 * bpe_batch.c - the hot loop of encoding: many pieces at once, most of which were met before.
 *
 * Each step is done for all pieces before the next one begins, so that their memory is fetched side
 * by side: the set of a word's cache, the index of the cache of longer pieces, the entry there.
 */
#include "text/tokenizer/fast/bpe_caches.h"
#include "text/tokenizer/fast/fast.h"

static void encode_singly(const struct bpe *b, struct bpe_scratch *s,
                          const struct piece_batch *pieces, unsigned from, const uint8_t *limit,
                          struct token_vec *out) {
    for (unsigned i = from; i < pieces->count; i++)
        fast_encode_piece(b, s, pieces->at[i], pieces->len[i], limit, out);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2")))

/* What remains of 16 bytes for a piece of so many, and its length in the last byte; nothing remains
 * of longer ones. */
#define UP_TO(n)                                                                                   \
    {                                                                                              \
        {-(n > 0), -(n > 1), -(n > 2),  -(n > 3),  -(n > 4),  -(n > 5),  -(n > 6),  -(n > 7),      \
         -(n > 8), -(n > 9), -(n > 10), -(n > 11), -(n > 12), -(n > 13), -(n > 14), 0},            \
            {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n},                                      \
    }
static const int8_t KEEP[WORD_BYTES_MAX + 2][2][16]
    __attribute__((aligned(32))) = {UP_TO(0),
                                    UP_TO(1),
                                    UP_TO(2),
                                    UP_TO(3),
                                    UP_TO(4),
                                    UP_TO(5),
                                    UP_TO(6),
                                    UP_TO(7),
                                    UP_TO(8),
                                    UP_TO(9),
                                    UP_TO(10),
                                    UP_TO(11),
                                    UP_TO(12),
                                    UP_TO(13),
                                    UP_TO(14),
                                    UP_TO(15),
                                    {{0}, {[15] = WORD_BYTES_MAX + 1}}};

/* word_key's, as a vector; of a longer piece one that no entry has. */
TARGET static inline __m128i batch_key(const uint8_t *p, uint32_t len) {
    const __m128i *keep = (const __m128i *)(const void *)KEEP[MIN(len, WORD_BYTES_MAX + 1u)];
    return _mm_or_si128(_mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)p), keep[0]),
                        keep[1]);
}

TARGET static inline bool is_entry_of(const struct word_entry *e, __m128i key) {
    __m128i other = _mm_xor_si128(_mm_load_si128((const __m128i *)(const void *)&e->key), key);
    return _mm_testz_si128(other, other);
}

/* Writes the entry's four ids and returns how many of them count: those without a sign. */
TARGET static inline unsigned copy_ids(const struct word_entry *e, uint32_t *to) {
    __m128i ids = _mm_load_si128((const __m128i *)(const void *)e->ids);
    _mm_storeu_si128((__m128i *)(void *)to, ids);
    return (unsigned)__builtin_ctz((unsigned)_mm_movemask_ps(_mm_castsi128_ps(ids)) |
                                   1u << WORD_IDS_MAX);
}

struct lookups {
    __m128i keys[PIECE_BATCH];
    struct word_entry *sets[PIECE_BATCH];
    uint64_t hashes[PIECE_BATCH]; /* of longer pieces, as the next two */
    uint32_t cells[PIECE_BATCH];
    uint8_t longer[PIECE_BATCH];
    unsigned longer_count;
};

TARGET static inline void look_up_words(struct word_cache *c, const struct piece_batch *pieces,
                                        unsigned count, struct lookups *l) {
    unsigned longer_count = 0;
    for (unsigned i = 0; i < count; i++) {
        __m128i key = batch_key(pieces->at[i], pieces->len[i]);
        struct word_key halves = {(uint64_t)_mm_cvtsi128_si64(key),
                                  (uint64_t)_mm_extract_epi64(key, 1)};
        struct word_entry *set = word_set(c, halves);
        __builtin_prefetch(set);
        l->keys[i] = key;
        l->sets[i] = set;
        l->longer[longer_count] = (uint8_t)i;
        longer_count += pieces->len[i] > WORD_BYTES_MAX;
    }
    l->longer_count = longer_count;
}

static inline void look_up_longer(const struct bpe *b, const struct piece_cache *c,
                                  const struct piece_batch *pieces, struct lookups *l) {
    for (unsigned k = 0; k < l->longer_count; k++) {
        unsigned i = l->longer[k];
        if (pieces->len[i] > PIECE_BYTES_MAX)
            continue;
        l->hashes[k] = hash64(pieces->at[i], pieces->len[i], b->vocab->seed);
        __builtin_prefetch(piece_set(c, l->hashes[k]));
    }
    for (unsigned k = 0; k < l->longer_count; k++) {
        l->cells[k] =
            pieces->len[l->longer[k]] <= PIECE_BYTES_MAX ? piece_cell(c, l->hashes[k]) : 0;
        __builtin_prefetch(&c->cells[l->cells[k]]);
        __builtin_prefetch(&c->cells[l->cells[k]] + 16);
    }
}

/* Appends what the cache has of the piece; false: nothing. */
static inline bool copy_longer(const struct piece_cache *c, uint64_t hash, uint32_t cell,
                               const uint8_t *piece, size_t len, struct token_vec *out) {
    size_t count;
    const uint32_t *ids = cell ? piece_at(c, cell, hash, piece, len, &count) : NULL;
    if (!ids)
        return false;
    bpe_append(out, ids, count);
    return true;
}

TARGET static void encode_batch_avx2(const struct bpe *b, struct bpe_scratch *s,
                                     const struct piece_batch *pieces, const uint8_t *limit,
                                     struct token_vec *out) {
    struct lookups l;
    unsigned count = pieces->count, longer = 0;
    bpe_need_caches(s);
    const struct piece_cache *c = &s->caches->pieces;
    while (count && limit - pieces->at[count - 1] < 16)
        count--;
    look_up_words(&s->caches->words, pieces, count, &l);
    look_up_longer(b, c, pieces, &l);
    uint32_t emptied = c->emptied;
    vec_reserve(out, out->count + PIECE_BATCH * WORD_IDS_MAX);
    uint32_t *to = out->items + out->count;
    for (unsigned i = 0; i < count; i++) {
        const struct word_entry *set = l.sets[i];
        __m128i key = l.keys[i];
        bool first = is_entry_of(&set[0], key);
        if (first | is_entry_of(&set[1], key)) {
            to += copy_ids(first ? &set[0] : &set[1], to);
            continue;
        }
        out->count = (size_t)(to - out->items);
        bool done = false;
        if (pieces->len[i] > WORD_BYTES_MAX) {
            unsigned k = longer++;
            done = c->emptied == emptied &&
                   copy_longer(c, l.hashes[k], l.cells[k], pieces->at[i], pieces->len[i], out);
        }
        if (!done)
            fast_encode_piece(b, s, pieces->at[i], pieces->len[i], limit, out);
        vec_reserve(out, out->count + PIECE_BATCH * WORD_IDS_MAX);
        to = out->items + out->count;
    }
    out->count = (size_t)(to - out->items);
    encode_singly(b, s, pieces, count, limit, out);
}

void fast_encode_batch(const struct bpe *b, struct bpe_scratch *s, const struct piece_batch *pieces,
                       const uint8_t *limit, struct token_vec *out) {
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2"))
        encode_batch_avx2(b, s, pieces, limit, out);
    else
        encode_singly(b, s, pieces, 0, limit, out);
}

#else

void fast_encode_batch(const struct bpe *b, struct bpe_scratch *s, const struct piece_batch *pieces,
                       const uint8_t *limit, struct token_vec *out) {
    encode_singly(b, s, pieces, 0, limit, out);
}

#endif
