/*
 * bpe_internal.h - the table of merges, for bpe.c and bpe_long.c.
 */
#ifndef TEXT_TOKENIZER_BPE_INTERNAL_H
#define TEXT_TOKENIZER_BPE_INTERNAL_H

#include "text/tokenizer/bpe.h"

#define NONE UINT32_MAX

extern const struct bpe_merge BPE_NO_MERGE;

static inline uint64_t pair_hash(uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
}
static inline uint32_t hash_slot(const struct bpe *b, uint64_t hash) {
    return (uint32_t)((hash >> 32) * b->merge_slot_count >> 32);
}
static inline uint32_t next_slot(const struct bpe *b, uint32_t slot) {
    return slot + 1 < b->merge_slot_count ? slot + 1 : 0;
}
static inline uint8_t hash_tag(uint64_t hash) { return (uint8_t)(hash >> 20 | 1); }

/* The pair's place in the table, whose memory is on its way. */
struct pair_place {
    uint32_t slot;
    uint8_t tag;
};
static inline struct pair_place place_pair(const struct bpe *b, uint32_t left, uint32_t right) {
    uint64_t hash = pair_hash(left, right);
    struct pair_place place = {hash_slot(b, hash), hash_tag(hash)};
    __builtin_prefetch(&b->merge_tags[place.slot]);
    __builtin_prefetch(&b->merge_slots[place.slot]);
    return place;
}

static inline const struct bpe_merge *find_placed(const struct bpe *b, struct pair_place place, uint32_t left,
                                                  uint32_t right) {
    for (uint32_t i = place.slot;; i = next_slot(b, i)) {
        if (!b->merge_tags[i]) return &BPE_NO_MERGE;
        if (b->merge_tags[i] != place.tag) continue;
        const struct bpe_merge *m = &b->merges[b->merge_slots[i]];
        if (m->left == left && m->right == right) return m;
    }
}

static inline const struct bpe_merge *find_pair(const struct bpe *b, uint32_t left, uint32_t right) {
    uint64_t hash = pair_hash(left, right);
    return find_placed(b, (struct pair_place){hash_slot(b, hash), hash_tag(hash)}, left, right);
}

/* At byte level: whether two bytes stand together in some token. */
static inline bool bpe_is_inner(const struct bpe *b, unsigned pair) {
    return b->inner_pairs[pair / 64] >> pair % 64 & 1;
}

/* b->unused: bpe_unused.c. The second cuts those among the ids from `from` on into what they were merged from. */
void bpe_collect_unused(struct bpe *b);
void bpe_cut_unused(const struct bpe *b, size_t from, struct token_vec *out);

/* b->chars, at byte level: bpe_chars.c. */
void bpe_make_chars(struct bpe *b);
/* The piece's symbols, whole characters where they are certain, into ids; how many, 0: more than max. Each of the
 * piece's bytes has its symbol. */
size_t bpe_char_symbols(const struct bpe *b, const uint8_t *piece, size_t len, uint32_t *ids, size_t max);

/* With chars: where text may be cut; bpe_far.c. */
void bpe_make_joints(struct bpe *b);
/* The part of a piece between two cuts, from bytes that stand for themselves. */
void bpe_encode_part(const struct bpe *b, struct bpe_scratch *s, const uint8_t *part, size_t len, const uint8_t *limit,
                     struct token_vec *out);
/* The piece by its parts; false, with nothing appended: it has no cut. b->cuts.joints is there. */
bool bpe_encode_far(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len, const uint8_t *limit,
                    struct token_vec *out);
/* Whether bpe_encode_far is worth trying: the piece begins with a character of three bytes, perhaps behind a space. */
static inline bool bpe_is_far(const struct bpe *b, const uint8_t *piece, size_t len) {
    return b->cuts.joints && b->chars && (piece[0] >= 0xE0 || (piece[0] < 0x80 && len > 1 && piece[1] >= 0xE0));
}

void bpe_make_caches(struct bpe_scratch *s);
static inline void bpe_need_caches(struct bpe_scratch *s) {
    if (!s->caches) bpe_make_caches(s);
}

/* Positions by rank: bpe_long.c. */
void bpe_prepare_buckets(const struct bpe *b, struct bpe_scratch *s);
void bpe_bucket_push(struct bpe_scratch *s, uint32_t rank, uint32_t pos);
uint32_t bpe_lowest_bucket(const struct bpe_scratch *s); /* NONE: all are empty */
void bpe_take_bucket(struct bpe_scratch *s, uint32_t rank);
/* Merges s->ids in place by runs of equal symbols; false, with nothing changed, where that does not pay. */
bool bpe_merge_runs(const struct bpe *b, struct bpe_scratch *s, size_t *count);
/* Merges s->ids in place, returns how many remain; piece: NULL, or their bytes when each symbol is that of one byte and
 * b->byte_pairs is there. */
size_t bpe_merge_long(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece);

#endif
