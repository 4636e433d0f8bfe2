/*
 * world.h - RWKV's World vocabulary: at each place of a text the longest token that matches, bytes
 * included.
 *
 * Its own file (rwkv_vocab_v20230424.txt) has a line a token: an id, a Python literal, the token's
 * bytes:
 *     258 ' \n' 2
 *     3000 b'\xe4\xbd' 2
 * Id 0 is not in it: it ends a text. GGUF has the same tokens as llama.cpp escapes them
 * (gguf_vocab.h).
 *
 * Threading: building only.
 */
#ifndef TEXT_TOKENIZER_WORLD_H
#define TEXT_TOKENIZER_WORLD_H

#include "text/tokenizer/build.h"

/* True when the file's first line is one of such a file. */
bool world_is(struct bytes file);
/* Reads such a file into t, which is empty. ERR_INVALID names the line. */
MUST_CHECK int world_build(struct bytes file, struct tokenizer *t, struct error *err);

/* For other forms: t->vocab has the tokens as raw bytes, not sealed. types: one a token, enum
 * spm_type; control tokens are special, unused and unknown ones match nothing. */
MUST_CHECK int world_finish(struct tokenizer *t, const uint8_t *types, struct error *err);

#endif
