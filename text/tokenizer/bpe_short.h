/*
 * bpe_short.h - merging up to 255 symbols, for bpe_short.c and fast/bpe_vectors.c, which differ in
 * how they find the least of an array.
 *
 * The pair to merge next is the least of an array of keys, each a rank and, below it, a position.
 */
#ifndef TEXT_TOKENIZER_BPE_SHORT_H
#define TEXT_TOKENIZER_BPE_SHORT_H

#include "text/tokenizer/bpe_internal.h"

enum { SHORT_POS_BITS = 8, SHORT_CELLS = 256, SHORT_LANES = 16 };
#define SHORT_INLINE static inline __attribute__((always_inline))

struct short_merge {
    /* rank << 8 | position of the pair that begins here, or NONE; behind the last symbol NONE up to
     * a multiple of SHORT_LANES */
    uint32_t keys[SHORT_CELLS] __attribute__((aligned(64)));
    uint32_t results[SHORT_CELLS];
    /* of symbols that are left; next of the last: count; prev of the first: 255 */
    uint8_t next[SHORT_CELLS], prev[SHORT_CELLS];
};

/* The least of count keys; those up to a multiple of SHORT_LANES may be read. */
typedef uint32_t least_fn(const uint32_t *keys, size_t count);

/* Notes what was found for the pair that begins at i. */
SHORT_INLINE void short_note(const struct bpe *b, struct short_merge *m, uint32_t i,
                             const struct bpe_merge *found) {
    if (found == &BPE_NO_MERGE) {
        m->keys[i] = NONE;
        return;
    }
    uint32_t rank = b->rising ? (uint32_t)(found - b->merges) : found->rank;
    m->keys[i] = rank << SHORT_POS_BITS | i;
    m->results[i] = found->result;
}

/* No pair is noted yet. */
SHORT_INLINE void short_link_up(struct short_merge *m, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        m->next[i] = (uint8_t)(i + 1);
        m->prev[i] = (uint8_t)(i - 1); /* of the first: 255 */
    }
    m->keys[count - 1] = NONE;
    for (uint32_t i = count; i % SHORT_LANES; i++)
        m->keys[i] = NONE;
}

/* Notes the pairs of count symbols as they stand. */
SHORT_INLINE void short_note_all(const struct bpe *b, struct short_merge *m, const uint32_t *ids,
                                 uint32_t count) {
    struct pair_place places[SHORT_CELLS];
    for (uint32_t i = 0; i + 1 < count; i++)
        places[i] = place_pair(b, ids[i], ids[i + 1]);
    for (uint32_t i = 0; i + 1 < count; i++)
        short_note(b, m, i, find_placed(b, places[i], ids[i], ids[i + 1]));
}

/* Merges count symbols, whose pairs are noted, in place; returns how many remain. */
SHORT_INLINE size_t short_merge_all(const struct bpe *b, struct short_merge *m, uint32_t *ids,
                                    uint32_t count, least_fn *least) {
    for (uint32_t best; (best = least(m->keys, count)) != NONE;) {
        uint32_t pos = best & 255, gone = m->next[pos], after = m->next[gone],
                 before = m->prev[pos];
        ids[pos] = m->results[pos];
        m->keys[gone] = NONE;
        m->next[pos] = (uint8_t)after;
        struct pair_place right =
            after < count ? place_pair(b, ids[pos], ids[after]) : (struct pair_place){0, 0};
        if (before != 255)
            short_note(b, m, before, find_pair(b, ids[before], ids[pos]));
        m->keys[pos] = NONE;
        if (after == count)
            continue;
        m->prev[after] = (uint8_t)pos;
        short_note(b, m, pos, find_placed(b, right, ids[pos], ids[after]));
    }
    size_t kept = 0;
    for (uint32_t i = 0; i < count; i = m->next[i])
        ids[kept++] = ids[i];
    return kept;
}

#endif
