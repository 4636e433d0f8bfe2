/*
 * piece_cache.h - the last pieces too long, or of too many tokens, for word_cache.h: text without spaces, rare words.
 *
 * A chat sends its history again with every turn, so such pieces come back too. Entries are written one behind the
 * other, so that memory is touched only as far as it is filled; an index of hashes finds them and their bytes decide.
 * A full cache is emptied. It belongs to one thread at a time, and starts zeroed.
 */
#ifndef TEXT_TOKENIZER_PIECE_CACHE_H
#define TEXT_TOKENIZER_PIECE_CACHE_H

#include "base/base.h"

enum {
    PIECE_SETS = 1 << 14,
    PIECE_WAYS = 4,
    PIECE_AT_BITS = 21,
    PIECE_CELLS = 1 << PIECE_AT_BITS, /* of four bytes: 8 MB */
    PIECE_BYTES_MAX = 255,
    PIECE_IDS_MAX = 64
};

/* An entry: a cell {hash bits, length of the piece, count of ids}, the ids, the bytes. */
struct piece_cache {
    uint32_t index[PIECE_SETS][PIECE_WAYS]; /* other hash bits, and where the entry begins; 0: none */
    uint32_t used;                          /* cells; the first is never used */
    uint32_t cells[PIECE_CELLS];
};

static inline uint32_t piece_head(uint64_t hash, size_t len, size_t count) {
    return (uint32_t)(hash >> 48) << 16 | (uint32_t)len << 8 | (uint32_t)count;
}
static inline uint32_t piece_mark(uint64_t hash, uint32_t at) { return (uint32_t)(hash >> 16) << PIECE_AT_BITS | at; }

/* The ids of the piece, *count of them, or NULL. */
static inline const uint32_t *piece_find(const struct piece_cache *c, uint64_t hash, const uint8_t *piece, size_t len,
                                         size_t *count) {
    const uint32_t *set = c->index[hash % PIECE_SETS];
    for (int way = 0; way < PIECE_WAYS; way++) {
        uint32_t at = set[way] & (PIECE_CELLS - 1);
        if (!at || set[way] != piece_mark(hash, at)) continue;
        uint32_t head = c->cells[at];
        *count = head & 255;
        if (head == piece_head(hash, len, *count) && !memcmp(&c->cells[at + 1 + *count], piece, len))
            return &c->cells[at + 1];
    }
    return NULL;
}

/* len <= PIECE_BYTES_MAX, count <= PIECE_IDS_MAX. A full set forgets its oldest. */
static inline void piece_put(struct piece_cache *c, uint64_t hash, const uint8_t *piece, size_t len,
                             const uint32_t *ids, size_t count) {
    uint32_t size = (uint32_t)(1 + count + (len + 3) / 4), *set = c->index[hash % PIECE_SETS];
    if (c->used + 1 + size > PIECE_CELLS) {
        memset(c->index, 0, sizeof c->index);
        c->used = 0;
    }
    uint32_t at = MAX(c->used, 1u);
    c->used = at + size;
    memmove(set + 1, set, (PIECE_WAYS - 1) * sizeof *set);
    set[0] = piece_mark(hash, at);
    c->cells[at] = piece_head(hash, len, count);
    memcpy(&c->cells[at + 1], ids, count * sizeof *ids);
    memcpy(&c->cells[at + 1 + count], piece, len);
}

#endif
