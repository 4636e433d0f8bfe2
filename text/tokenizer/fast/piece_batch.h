/*
 * piece_batch.h - pieces of text on their way from the splitter to the model.
 */
#ifndef TEXT_TOKENIZER_FAST_PIECE_BATCH_H
#define TEXT_TOKENIZER_FAST_PIECE_BATCH_H

#include "base/base.h"

enum { PIECE_BATCH = 192 };

/* In the order of the text; the i-th is [at[i], at[i] + len[i]), never empty. */
struct piece_batch {
    const uint8_t *at[PIECE_BATCH];
    uint32_t len[PIECE_BATCH];
    unsigned count;
};

#endif
