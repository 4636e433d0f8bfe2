/*
 * open.h - a tokenizer from whatever a person has: a model folder, tokenizer.json, a SentencePiece
 * tokenizer.model, a .tiktoken file, Mistral's tekken.json, RWKV's vocabulary file, a .gguf file,
 * or the name of a well-known vocabulary.
 *
 * What a file is shows in its first bytes, not in its name.
 *
 * Threading: any thread; nothing is shared.
 */
#ifndef TEXT_TOKENIZER_OPEN_H
#define TEXT_TOKENIZER_OPEN_H

#include "text/tokenizer/tokenizer.h"

/* ERR_NOT_FOUND says what was looked for. On success *out is owned by the caller. */
MUST_CHECK int tokenizer_open(const char *path, struct tokenizer **out, struct error *err);
/* vocab_dir: where vocabulary files lie (NULL: nowhere). */
MUST_CHECK int tokenizer_open_named(const char *name, const char *vocab_dir, struct tokenizer **out,
                                    struct error *err);
/* The contents of a file of any of the kinds; companions as in tokenizer_load, may be empty. */
MUST_CHECK int tokenizer_load_any(struct bytes file, struct bytes config_json,
                                  struct bytes generation_json, struct tokenizer **out,
                                  struct error *err);

#endif
