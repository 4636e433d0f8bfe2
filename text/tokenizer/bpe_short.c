/*
 * bpe_short.c - merging pieces of up to 255 symbols, in plain C.
 */
#include "text/tokenizer/bpe_short.h"

SHORT_INLINE uint32_t least(const uint32_t *keys, size_t count) {
    uint32_t low = keys[0];
    for (size_t i = 1; i < count; i++)
        low = MIN(low, keys[i]);
    return low;
}

size_t bpe_merge_short(const struct bpe *b, uint32_t *ids, size_t symbol_count) {
    struct short_merge m;
    uint32_t count = (uint32_t)symbol_count;
    CHECK(count > 1 && count <= BPE_SHORT_MAX);
    short_link_up(&m, count);
    short_note_all(b, &m, ids, count);
    return short_merge_all(b, &m, ids, count, least);
}
