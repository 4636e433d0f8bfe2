/*
 * piece_cache.h - the last pieces too long, or of too many tokens, for word_cache.h: text without
 * spaces, rare words.
 *
 * A chat sends its history again with every turn, so such pieces come back too. Entries are written
 * one behind the other, so that memory is touched only as far as it is filled; an index of hashes
 * finds them and their bytes decide. A full cache is emptied. It belongs to one thread at a time,
 * and starts zeroed.
 */
#ifndef TEXT_TOKENIZER_FAST_PIECE_CACHE_H
#define TEXT_TOKENIZER_FAST_PIECE_CACHE_H

#include "base/base.h"

enum {
    PIECE_SETS = 1 << 12,
    PIECE_WAYS = 16,
    PIECE_AT_BITS = 21,
    PIECE_CELLS = 1 << PIECE_AT_BITS, /* of four bytes: 8 MB */
    PIECE_BYTES_MAX = 255,
    PIECE_IDS_MAX = 64
};

/* An entry: a cell {hash bits, length of the piece, count of ids}, the ids, the bytes. */
struct piece_cache {
    /* other hash bits, and the cell where the entry begins; 0: none */
    uint32_t index[PIECE_SETS][PIECE_WAYS];
    uint32_t used; /* cells; the first is never used */
    /* how often: cells found before are no longer entries */
    uint32_t emptied;
    uint32_t cells[PIECE_CELLS];
};

/* An entry's first cell: hash bits, bytes, ids. */
static inline uint32_t piece_head(uint64_t hash, size_t len, size_t count) {
    return (uint32_t)(hash >> 48) << 16 | (uint32_t)len << 8 | (uint32_t)count;
}
/* What the index has of an entry: other hash bits, and its cell. */
static inline uint32_t piece_mark(uint64_t hash, uint32_t cell) {
    return (uint32_t)(hash >> 16) << PIECE_AT_BITS | cell;
}
/* The PIECE_WAYS places of the index for a hash, the newest first. */
static inline const uint32_t *piece_set(const struct piece_cache *c, uint64_t hash) {
    return c->index[hash % PIECE_SETS];
}

/* Whether the index's entry may be the hash's. */
static inline bool piece_marked(uint32_t mark, uint64_t hash) {
    return mark && mark >> PIECE_AT_BITS == piece_mark(hash, 0) >> PIECE_AT_BITS;
}

/* Cell of the newest entry that may be the hash's, or 0. */
static inline uint32_t piece_cell(const struct piece_cache *c, uint64_t hash) {
    const uint32_t *set = piece_set(c, hash);
    for (int way = 0; way < PIECE_WAYS; way++)
        if (piece_marked(set[way], hash))
            return set[way] & (PIECE_CELLS - 1);
    return 0;
}

/* The ids of the entry if it is the piece's, *count of them, or NULL. */
static inline const uint32_t *piece_at(const struct piece_cache *c, uint32_t cell, uint64_t hash,
                                       const uint8_t *piece, size_t len, size_t *count) {
    uint32_t head = c->cells[cell];
    *count = head & 255;
    bool same =
        head == piece_head(hash, len, *count) && !memcmp(&c->cells[cell + 1 + *count], piece, len);
    return same ? &c->cells[cell + 1] : NULL;
}

/* The ids of the piece, *count of them, borrowed until the next piece_put; NULL: unknown. */
static inline const uint32_t *piece_find(const struct piece_cache *c, uint64_t hash,
                                         const uint8_t *piece, size_t len, size_t *count) {
    const uint32_t *set = piece_set(c, hash), *ids = NULL;
    for (int way = 0; way < PIECE_WAYS && !ids; way++)
        if (piece_marked(set[way], hash))
            ids = piece_at(c, set[way] & (PIECE_CELLS - 1), hash, piece, len, count);
    return ids;
}

/* len <= PIECE_BYTES_MAX, count <= PIECE_IDS_MAX. A full set forgets its oldest. */
static inline void piece_put(struct piece_cache *c, uint64_t hash, const uint8_t *piece, size_t len,
                             const uint32_t *ids, size_t count) {
    uint32_t size = (uint32_t)(1 + count + (len + 3) / 4), *set = c->index[hash % PIECE_SETS];
    if (c->used + 1 + size > PIECE_CELLS) {
        memset(c->index, 0, sizeof c->index);
        c->used = 0;
        c->emptied++;
    }
    uint32_t cell = MAX(c->used, 1u);
    c->used = cell + size;
    memmove(set + 1, set, (PIECE_WAYS - 1) * sizeof *set);
    set[0] = piece_mark(hash, cell);
    c->cells[cell] = piece_head(hash, len, count);
    memcpy(&c->cells[cell + 1], ids, count * sizeof *ids);
    memcpy(&c->cells[cell + 1 + count], piece, len);
}

#endif
