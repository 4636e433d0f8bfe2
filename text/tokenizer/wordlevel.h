/*
 * wordlevel.h - a model of whole words: each is a token or unknown.
 *
 * Threading: const after wordlevel_init.
 */
#ifndef TEXT_TOKENIZER_WORDLEVEL_H
#define TEXT_TOKENIZER_WORDLEVEL_H

#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocab.h"

struct wordlevel {
    const struct vocab *vocab; /* borrowed */
    uint32_t unk_id;           /* UINT32_MAX: none */
    bool fuse_unk;             /* SentencePiece: neighbouring unknown words are one */
    bool byte_fallback;        /* ... or each is its bytes */
    uint32_t fallback_ids[256];
};

/* vocab is sealed and stays. */
void wordlevel_init(struct wordlevel *w, const struct vocab *vocab, uint32_t unk_id, bool fuse_unk,
                    bool byte_fallback);
/* Appends the ids of one word; in out, what is behind `first` came from the same text. ERR_INVALID:
 * it is unknown and the model has no unknown token. */
MUST_CHECK int wordlevel_encode(const struct wordlevel *w, struct bytes word, size_t first,
                                struct token_vec *out, struct error *err);

#endif
