/*
 * folder_vocab.h - the vocabulary of a model's folder that has no tokenizer.json: vocab.json with
 * merges.txt (byte-level BPE: GPT-2's also as encoder.json with vocab.bpe), or vocab.txt
 * (WordPiece).
 *
 * Such files say nothing about normalizing, splitting and special tokens; what HF transformers 5
 * makes of them by tokenizer_class and tokenizer_config.json is written down here as the
 * tokenizer.json that it would save.
 *
 * Threading: any thread.
 */
#ifndef TEXT_TOKENIZER_FOLDER_VOCAB_H
#define TEXT_TOKENIZER_FOLDER_VOCAB_H

#include "text/bundle.h"

/* True when the bundle has such files. */
bool folder_vocab_is(const struct bundle *bundle);
/* Appends the tokenizer.json. ERR_INVALID names the file that is wrong. */
MUST_CHECK int folder_vocab_json(const struct bundle *bundle, struct buf *out, struct error *err);

#endif
