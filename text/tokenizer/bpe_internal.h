/*
 * bpe_internal.h - the table of merges, for bpe*.c and fast/ only.
 */
#ifndef TEXT_TOKENIZER_BPE_INTERNAL_H
#define TEXT_TOKENIZER_BPE_INTERNAL_H

#include "text/tokenizer/bpe.h"

#define NONE UINT32_MAX

extern const struct bpe_merge BPE_NO_MERGE;

/* Of a pair of symbols, for the table. */
static inline uint64_t pair_hash(uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
}
/* Where the table begins to look for the hash. */
static inline uint32_t hash_slot(const struct bpe *b, uint64_t hash) {
    return (uint32_t)((hash >> 32) * b->merge_slot_count >> 32);
}
/* Where it looks next. */
static inline uint32_t next_slot(const struct bpe *b, uint32_t slot) {
    return slot + 1 < b->merge_slot_count ? slot + 1 : 0;
}
/* Bits that tell pairs of one slot apart; never 0. */
static inline uint8_t hash_tag(uint64_t hash) {
    return (uint8_t)(hash >> 20 | 1);
}

/* The pair's place in the table, whose memory is on its way. */
struct pair_place {
    uint32_t slot;
    uint8_t tag;
};
/* Starts to load it. */
static inline struct pair_place place_pair(const struct bpe *b, uint32_t left, uint32_t right) {
    uint64_t hash = pair_hash(left, right);
    struct pair_place place = {hash_slot(b, hash), hash_tag(hash)};
    __builtin_prefetch(&b->merge_tags[place.slot]);
    __builtin_prefetch(&b->merge_slots[place.slot]);
    return place;
}

/* The merge of the pair whose place it is; &BPE_NO_MERGE: there is none. */
static inline const struct bpe_merge *find_placed(const struct bpe *b, struct pair_place place,
                                                  uint32_t left, uint32_t right) {
    for (uint32_t i = place.slot;; i = next_slot(b, i)) {
        if (!b->merge_tags[i])
            return &BPE_NO_MERGE;
        if (b->merge_tags[i] != place.tag)
            continue;
        const struct bpe_merge *m = &b->merges[b->merge_slots[i]];
        if (m->left == left && m->right == right)
            return m;
    }
}

/* The same without a place. */
static inline const struct bpe_merge *find_pair(const struct bpe *b, uint32_t left,
                                                uint32_t right) {
    uint64_t hash = pair_hash(left, right);
    return find_placed(b, (struct pair_place){hash_slot(b, hash), hash_tag(hash)}, left, right);
}

/* Appends count ids, which are not in out. */
static inline void bpe_append(struct token_vec *out, const uint32_t *ids, size_t count) {
    vec_reserve(out, out->count + count);
    if (count)
        memcpy(out->items + out->count, ids, count * sizeof *ids);
    out->count += count;
}

/* The piece's symbols, before merging, into s->ids: one a byte (at byte level) or character. */
void bpe_split_symbols(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece,
                       size_t len);
/* Makes b->unused, of the merges whose tokens are not given out: bpe_unused.c. */
void bpe_collect_unused(struct bpe *b);
/* Cuts those among the ids from `from` on into what they were merged from. */
void bpe_cut_unused(const struct bpe *b, size_t from, struct token_vec *out);

/* Merges 2 to BPE_SHORT_MAX symbols in place, returns how many remain. */
size_t bpe_merge_short(const struct bpe *b, uint32_t *ids, size_t count);

/* Buckets of positions by rank, in s: made when first needed, all empty between calls. */
void bpe_prepare_buckets(const struct bpe *b, struct bpe_scratch *s);
/* Adds pos to the bucket of rank. */
void bpe_bucket_push(struct bpe_scratch *s, uint32_t rank, uint32_t pos);
/* The lowest rank that has positions; NONE: there is none. */
uint32_t bpe_lowest_bucket(const struct bpe_scratch *s);
/* Takes its positions out, rising, into s->order. */
void bpe_empty_bucket(struct bpe_scratch *s, uint32_t rank);
/* Merges s->ids in place, returns how many remain. */
size_t bpe_merge_long(const struct bpe *b, struct bpe_scratch *s);

#endif
