/*
 * bpe_caches.h - what the files of fast/ share: the caches of a scratch, and the parts of a piece
 * that merge on their own.
 *
 * Threading: a scratch belongs to one thread at a time.
 */
#ifndef TEXT_TOKENIZER_FAST_BPE_CACHES_H
#define TEXT_TOKENIZER_FAST_BPE_CACHES_H

#include "text/tokenizer/bpe_internal.h"
#include "text/tokenizer/fast/piece_cache.h"
#include "text/tokenizer/fast/word_cache.h"

struct bpe_caches {
    struct word_cache words;
    struct piece_cache pieces;
};

/* Maps empty caches; they are released with the scratch. */
void bpe_make_caches(struct bpe_scratch *s);
/* s->caches is there then. */
static inline void bpe_need_caches(struct bpe_scratch *s) {
    if (!s->caches)
        bpe_make_caches(s);
}

/* At byte level: whether two bytes stand together in some token. */
static inline bool bpe_is_inner(const struct bpe *b, unsigned pair) {
    return b->inner_pairs[pair / 64] >> pair % 64 & 1;
}

/* b->byte_pairs; b->inner_pairs is there: bpe_vectors.c. */
void bpe_make_byte_pairs(struct bpe *b);
/* Merges 2 to BPE_SHORT_MAX symbols in place in the fastest way of this machine, returns how many
 * remain. piece: NULL, or their bytes, where each symbol is that of one byte and b->byte_pairs is
 * there. */
size_t bpe_merge_vectors(const struct bpe *b, uint32_t *ids, size_t count, const uint8_t *piece);

/* Merges s->ids in place by runs of equal symbols, *count remain; false, with nothing changed, where
 * that does not pay: bpe_runs.c. */
bool bpe_merge_runs(const struct bpe *b, struct bpe_scratch *s, size_t *count);
/* Merges s->ids in place, returns how many remain. */
static inline size_t bpe_merge_fast(const struct bpe *b, struct bpe_scratch *s) {
    size_t count = s->ids.count;
    if (count < 2)
        return count;
    if (count <= b->short_max)
        return bpe_merge_vectors(b, s->ids.items, count, NULL);
    return bpe_merge_runs(b, s, &count) ? count : bpe_merge_long(b, s);
}

/* b->chars, at byte level: bpe_chars.c. */
void bpe_make_chars(struct bpe *b);
/* The piece's symbols, whole characters where they are certain, into ids; how many, 0: more than
 * max. Each of the piece's bytes has its symbol. */
size_t bpe_char_symbols(const struct bpe *b, const uint8_t *piece, size_t len, uint32_t *ids,
                        size_t max);

/* With chars: where text may be cut; bpe_wide.c. */
void bpe_make_cuts(struct bpe *b);
/* The subpiece of a piece between two cuts, from bytes that stand for themselves. */
void bpe_encode_subpiece(const struct bpe *b, struct bpe_scratch *s, const uint8_t *subpiece,
                         size_t len, const uint8_t *limit, struct token_vec *out);
/* The piece by its parts; false, with nothing appended: it has no cut. b->cuts.cut_bits is
 * there. */
bool bpe_encode_wide(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                     const uint8_t *limit, struct token_vec *out);
/* Whether bpe_encode_wide is worth trying: the piece begins with a character of three bytes,
 * perhaps behind a space. */
static inline bool bpe_is_wide(const struct bpe *b, const uint8_t *piece, size_t len) {
    return b->cuts.cut_bits && b->chars &&
           (piece[0] >= 0xE0 || (piece[0] < 0x80 && len > 1 && piece[1] >= 0xE0));
}

/* Keys of parts of pieces: a piece may be a token that merging does not make, its parts are
 * merged. */
#define WORD_IS_SUBPIECE ((uint64_t)1 << 63)

struct word_place {
    struct word_key key;
    struct word_entry *set;
    size_t before; /* ids in out */
};

/* Appends the tokens of a word of up to WORD_BYTES_MAX bytes; false: they are not known, and may be
 * put there. */
static inline bool words_find(struct bpe_scratch *s, const uint8_t *p, size_t len, uint64_t kind,
                              const uint8_t *limit, struct word_place *place,
                              struct token_vec *out) {
    struct word_cache *c = &s->caches->words;
    place->key = word_key(p, len, limit);
    place->key.high |= kind;
    place->set = word_set(c, place->key);
    place->before = out->count;
    const struct word_entry *found = word_find(c, place->set, place->key);
    vec_reserve(out, out->count + WORD_IDS_MAX);
    uint32_t *to = out->items + out->count;
    if (!found)
        return false;
    memcpy(to, found->ids, sizeof found->ids);
    out->count += 1u + (to[1] != NONE) + (to[2] != NONE) + (to[3] != NONE);
    return true;
}

/* Remembers what was appended since. */
static inline void words_add(struct bpe_scratch *s, const struct word_place *place,
                             const struct token_vec *out) {
    size_t count = out->count - place->before;
    const uint32_t *ids = out->items + place->before;
    if (count && count <= WORD_IDS_MAX)
        word_put(&s->caches->words, place->set, place->key, ids, count);
}

struct piece_place {
    uint64_t hash;
    size_t before;
};

/* The same for pieces of up to PIECE_BYTES_MAX bytes. */
static inline bool pieces_find(const struct bpe *b, const struct bpe_scratch *s, const uint8_t *p,
                               size_t len, struct piece_place *place, struct token_vec *out) {
    size_t count;
    *place = (struct piece_place){hash64(p, len, b->vocab->seed), out->count};
    const uint32_t *ids = piece_find(&s->caches->pieces, place->hash, p, len, &count);
    if (!ids)
        return false;
    bpe_append(out, ids, count);
    return true;
}

/* Remembers what was appended since pieces_find. */
static inline void pieces_add(struct bpe_scratch *s, const struct piece_place *place,
                              const uint8_t *p, size_t len, const struct token_vec *out) {
    size_t count = out->count - place->before;
    const uint32_t *ids = out->items + place->before;
    if (count && count <= PIECE_IDS_MAX)
        piece_put(&s->caches->pieces, place->hash, p, len, ids, count);
}

#endif
