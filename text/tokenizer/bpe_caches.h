/*
 * bpe_caches.h - the caches of a scratch, as those see them who encode a word or a piece: take what is known, else find
 * it and put it there.
 *
 * Threading: a scratch belongs to one thread at a time.
 */
#ifndef TEXT_TOKENIZER_BPE_CACHES_H
#define TEXT_TOKENIZER_BPE_CACHES_H

#include "text/tokenizer/bpe_internal.h"

/* Keys of parts of pieces: a piece may be a token that merging does not make, its parts are merged. */
#define WORD_IS_PART ((uint64_t)1 << 63)

struct word_place {
    struct word_key key;
    struct word_entry *set;
    size_t before; /* ids in out */
};

/* Appends the tokens of a word of up to WORD_BYTES_MAX bytes; false: they are not known, and may be put there. */
static inline bool words_take(struct bpe_scratch *s, const uint8_t *p, size_t len, uint64_t kind, const uint8_t *limit,
                              struct word_place *place, struct token_vec *out) {
    struct word_cache *c = &s->caches->words;
    place->key = word_key(p, len, limit);
    place->key.high |= kind;
    place->set = word_set(c, place->key);
    place->before = out->count;
    const struct word_entry *found = word_find(c, place->set, place->key);
    vec_reserve(out, out->count + WORD_IDS_MAX);
    uint32_t *to = out->items + out->count;
    if (!found) return false;
    memcpy(to, found->ids, sizeof found->ids);
    out->count += 1u + (to[1] != NONE) + (to[2] != NONE) + (to[3] != NONE);
    return true;
}

/* Remembers what was appended since. */
static inline void words_put(struct bpe_scratch *s, const struct word_place *place, const struct token_vec *out) {
    size_t count = out->count - place->before;
    const uint32_t *ids = out->items + place->before;
    if (count && count <= WORD_IDS_MAX) word_put(&s->caches->words, place->set, place->key, ids, count);
}

struct piece_place {
    uint64_t hash;
    size_t before;
};

/* The same for pieces of up to PIECE_BYTES_MAX bytes. */
static inline bool pieces_take(const struct bpe *b, const struct bpe_scratch *s, const uint8_t *p, size_t len,
                               struct piece_place *place, struct token_vec *out) {
    size_t count;
    *place = (struct piece_place){hash64(p, len, b->vocab->seed), out->count};
    const uint32_t *ids = piece_find(&s->caches->pieces, place->hash, p, len, &count);
    if (!ids) return false;
    vec_reserve(out, out->count + count);
    memcpy(out->items + out->count, ids, count * sizeof *ids);
    out->count += count;
    return true;
}

static inline void pieces_put(struct bpe_scratch *s, const struct piece_place *place, const uint8_t *p, size_t len,
                              const struct token_vec *out) {
    size_t count = out->count - place->before;
    const uint32_t *ids = out->items + place->before;
    if (count && count <= PIECE_IDS_MAX) piece_put(&s->caches->pieces, place->hash, p, len, ids, count);
}

#endif
