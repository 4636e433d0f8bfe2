/*
 * wordpiece.h - WordPiece: the longest token that begins the word, then the longest continuation
 * ("##ing"), and so on; a word that cannot be covered is one unknown token.
 *
 * Threading: const after load.
 */
#ifndef TEXT_TOKENIZER_WORDPIECE_H
#define TEXT_TOKENIZER_WORDPIECE_H

#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocab.h"

enum { WORDPIECE_PREFIX_MAX = 16, WORDPIECE_CHARS_DEFAULT = 100 };

struct wordpiece {
    const struct vocab *vocab;             /* borrowed */
    char prefix[WORDPIECE_PREFIX_MAX + 1]; /* of continuations */
    uint32_t unk_id;
    uint32_t chars_max; /* longer words are unknown */
    size_t bytes_max;   /* of a token */
};

/* vocab is sealed and stays; prefix: at most WORDPIECE_PREFIX_MAX bytes. */
void wordpiece_init(struct wordpiece *w, const struct vocab *vocab, const char *prefix,
                    uint32_t chars_max, uint32_t unk_id);
/* Appends the ids of one word; scratch holds prefixed candidates. */
void wordpiece_encode(const struct wordpiece *w, struct buf *scratch, struct bytes word,
                      struct token_vec *out);

#endif
