/*
 * word_cache.h - the last short pieces and their tokens: 16 bytes of key, up to four ids, two
 * entries a set of 64 bytes.
 *
 * Natural text repeats its words, so most pieces end here. A cache belongs to one thread at a time;
 * it starts zeroed (an empty entry has length 0).
 */
#ifndef TEXT_TOKENIZER_FAST_WORD_CACHE_H
#define TEXT_TOKENIZER_FAST_WORD_CACHE_H

#include "base/base.h"

enum { WORD_CACHE_SETS = 32768, WORD_BYTES_MAX = 15, WORD_IDS_MAX = 4 };

struct word_key {
    uint64_t low, high; /* the bytes, zeros, and the length in the last byte */
};

struct word_entry {
    struct word_key key;
    uint32_t ids[WORD_IDS_MAX]; /* UINT32_MAX: unused */
};

struct word_cache {
    struct word_entry sets[WORD_CACHE_SETS][2]; /* best when it begins at a multiple of 64 bytes */
};

/* len is 1 to 15; bytes before limit may be read. */
static inline struct word_key word_key(const uint8_t *p, size_t len, const uint8_t *limit) {
    struct word_key k = {0, 0};
    if ((size_t)(limit - p) >= 16) {
        memcpy(&k, p, 16);
        if (len < 8) {
            k.low &= ((uint64_t)1 << 8 * len) - 1;
            k.high = 0;
        } else {
            k.high &= ((uint64_t)1 << 8 * (len - 8)) - 1;
        }
    } else {
        memcpy(&k, p, len);
    }
    k.high |= (uint64_t)len << 56;
    return k;
}

/* The two entries where the key may stand. */
static inline struct word_entry *word_set(struct word_cache *c, struct word_key k) {
    uint64_t h = k.low * 0x9E3779B97F4A7C15u + k.high * 0xC2B2AE3D27D4EB4Fu;
    return c->sets[h >> 49];
}

/* Keys hold the whole word: equal keys are equal words. */
static inline bool word_key_equal(struct word_key a, struct word_key b) {
    return a.low == b.low && a.high == b.high;
}

/* The set beside it, where entries go that had to make room. */
static inline struct word_entry *word_other_set(struct word_cache *c, struct word_entry *set) {
    return c->sets[(size_t)(set - c->sets[0]) / 2 ^ 1];
}

/* Entry for the key, or NULL; it becomes the first of its set. */
static inline const struct word_entry *word_find(struct word_cache *c, struct word_entry *set,
                                                 struct word_key k) {
    if (word_key_equal(set[0].key, k))
        return &set[0];
    struct word_entry *other = word_other_set(c, set), *at = NULL;
    if (word_key_equal(set[1].key, k))
        at = &set[1];
    else if (word_key_equal(other[0].key, k))
        at = &other[0];
    else if (word_key_equal(other[1].key, k))
        at = &other[1];
    if (!at)
        return NULL;
    struct word_entry found = *at;
    *at = set[1];
    set[1] = set[0];
    set[0] = found;
    return &set[0];
}

/* Adds the word's ids (1 to WORD_IDS_MAX) as first of its set; the last one moves to the set beside
 * it. */
static inline void word_put(struct word_cache *c, struct word_entry *set, struct word_key k,
                            const uint32_t *ids, size_t count) {
    if (set[1].key.high)
        word_other_set(c, set)[1] = set[1];
    set[1] = set[0];
    set[0].key = k;
    for (size_t i = 0; i < WORD_IDS_MAX; i++)
        set[0].ids[i] = i < count ? ids[i] : UINT32_MAX;
}

#endif
