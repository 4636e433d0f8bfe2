/*
 * metaspaced.h - BPE of text whose words begin with U+2581, as SentencePiece has them, straight
 * from the text with spaces.
 *
 * Text is cut in front of each run of spaces (and around line ends), and longer words where no
 * merge crosses (bpe_cuts.h), so that most parts are known to the cache or one symbol; nothing is
 * rewritten first. Keys of the caches are bytes as they stand in the text: a space and a U+2581 are
 * the same symbol, so either spelling has the same tokens.
 *
 * Threading: as bpe.h.
 */
#ifndef TEXT_TOKENIZER_FAST_METASPACED_H
#define TEXT_TOKENIZER_FAST_METASPACED_H

#include "text/tokenizer/bpe.h"

struct metaspaced {
    bool spaces; /* each space is a U+2581 to the model */
    bool prefix; /* the text begins with one more; only with spaces */
};

/* True when b can be used so. */
static inline bool metaspaced_fits(const struct bpe *b) {
    return b->cuts.cut_bits && b->cuts.words;
}
/* Appends the ids of text (valid UTF-8; empty: none, nor a prefix). For one b `spaces` is always
 * the same. */
void metaspaced_encode(const struct bpe *b, struct bpe_scratch *s, struct bytes text,
                       struct metaspaced how, struct token_vec *out);

#endif
