/*
 * bpe_cuts.h - where text may be cut because no merge crosses: for vocabularies of characters (not
 * at byte level).
 *
 * A merge joins symbols, so the last character of its left side and the first of its right side
 * stand together in the text. Two characters that no merge brings together so are a place where a
 * piece may be cut: its tokens are those of its parts. Text without spaces becomes short parts by
 * this, and most lone characters need no merging at all.
 *
 * Invariants:
 *   (1) bpe_cuts_is_joined is true for every pair that a merge joins, and for a few others (pairs
 *       are hashed);
 *   (2) words, line_ends and known hold for all merges noted. Where not every character is known a
 *       cut needs a known one on both sides: unknown ones are fused, or dropped.
 *
 * Threading: const after the last bpe_cuts_add.
 */
#ifndef TEXT_TOKENIZER_FAST_BPE_CUTS_H
#define TEXT_TOKENIZER_FAST_BPE_CUTS_H

#include "text/tokenizer/vocab.h"

enum { BPE_CUTS_ROW = 64, BPE_CUTS_ROWS = 0x110000 / BPE_CUTS_ROW, METASPACE_CHAR = 0x2581 };

struct bpe_cuts {
    uint16_t *rows; /* by code point / 64: which row of ids; owned */
    /* rows: the symbols of characters, UINT32_MAX: none; row 0 has none; owned */
    VEC(uint32_t) ids;
    uint64_t *cut_bits; /* bits by bpe_cuts_hash; owned; NULL: there are no cuts */
    uint32_t cut_shift;
    bool words;     /* no merge joins something to a U+2581 behind it */
    bool line_ends; /* none joins a line end to anything but line ends, and all is known */
    /* each character has a symbol, or one for each of its bytes that no merge takes */
    bool known;
};

/* With room for so many merges; the vocabulary is sealed. */
void bpe_cuts_init(struct bpe_cuts *c, const struct vocab *vocab, size_t merge_count);
/* There are no cuts then; c may be zeroes. */
void bpe_cuts_release(struct bpe_cuts *c);
/* Notes the characters that a merge joins; once for each merge. */
void bpe_cuts_add(struct bpe_cuts *c, const struct vocab *vocab, uint32_t left, uint32_t right,
                  uint32_t result);

/* Which bit of cut_bits is that of two code points. */
static inline uint32_t bpe_cuts_hash(const struct bpe_cuts *c, uint32_t first, uint32_t second) {
    return (first * 0x9E3779B1u ^ second * 0x85EBCA6Bu) >> c->cut_shift;
}
/* Whether a merge may join them; true for a few that none joins. */
static inline bool bpe_cuts_is_joined(const struct bpe_cuts *c, uint32_t first, uint32_t second) {
    uint32_t bit = bpe_cuts_hash(c, first, second);
    return c->cut_bits[bit / 64] >> bit % 64 & 1;
}
/* Notes that one does. */
static inline void bpe_cuts_join(struct bpe_cuts *c, uint32_t first, uint32_t second) {
    uint32_t bit = bpe_cuts_hash(c, first, second);
    c->cut_bits[bit / 64] |= (uint64_t)1 << bit % 64;
}
/* The symbol of a code point, UINT32_MAX: it has none. */
static inline uint32_t bpe_cuts_symbol(const struct bpe_cuts *c, uint32_t cp) {
    return c->ids.items[(size_t)c->rows[cp / BPE_CUTS_ROW] * BPE_CUTS_ROW + cp % BPE_CUTS_ROW];
}

#endif
