/*
 * spm_normalize.h - the normalizer of SentencePiece: the longest rule of a character map at each
 * place, white space escaped as U+2581, a dummy prefix (or suffix), perhaps without leading,
 * trailing and repeated spaces.
 *
 * Unlike HF's Precompiled step it knows no graphemes, and user-defined symbols pass unchanged.
 *
 * Threading: const after it is built.
 */
#ifndef TEXT_TOKENIZER_SPM_NORMALIZE_H
#define TEXT_TOKENIZER_SPM_NORMALIZE_H

#include "text/tokenizer/added.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/offsets.h"

struct spm_normalizer {
    struct charsmap charsmap; /* units NULL: none */
    struct added_set symbols; /* user-defined */
    bool dummy_prefix, suffix, remove_extra, escape;
};

/* True when nothing but spaces changes, each to U+2581, and perhaps one stands before. */
static inline bool spm_only_spaces(const struct spm_normalizer *n) {
    return n->escape && !n->suffix && !n->remove_extra && !n->charsmap.units &&
           !n->symbols.tokens.count;
}
/* Gives back all memory, but not n itself. */
void spm_normalizer_release(struct spm_normalizer *n);
/* Appends the normalized text (valid UTF-8 in). */
void spm_normalize(const struct spm_normalizer *n, struct bytes text, struct buf *out);

/* Writes where each of the len bytes that spm_normalize makes of text comes from, as SentencePiece
 * has it: the spans cover the text without gaps. */
void spm_normalize_offsets(const struct spm_normalizer *n, struct bytes text, size_t len,
                           struct offset_map *out);

#endif
