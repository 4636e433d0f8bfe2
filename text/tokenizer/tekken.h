/*
 * tekken.h - tekken.json, the vocabulary file of Mistral's models: ranked tokens in base64, the
 * split pattern and the special tokens, which come first in the ids.
 *
 * The reference is mistral_common 1.13 (tokens/tokenizers/tekken.py), from which the special tokens
 * of files that list none (version v7 and before) and the names of those that have none
 * ("<SPECIAL_20>") are taken.
 *
 * Threading: building only.
 */
#ifndef TEXT_TOKENIZER_TEKKEN_H
#define TEXT_TOKENIZER_TEKKEN_H

#include "text/tokenizer/build.h"

/* By what is near the beginning of the file. */
bool tekken_is(struct bytes file);
/* Into t, which is empty. ERR_INVALID says what is wrong with the file. */
MUST_CHECK int tekken_build(struct bytes file, struct tokenizer *t, struct error *err);

#endif
