/*
 * known_splits.h - how text is split for vocabularies that do not say it themselves (tiktoken
 * files, GGUF metadata): one table of names and patterns.
 *
 * The names are those of tiktoken's encodings and of GGUF's tokenizer.ggml.pre. A row's patterns
 * are applied one after the other, matches isolated, as a Sequence of Splits in tokenizer.json is;
 * then bytes. Sources: tiktoken_ext, llama.cpp's llama-vocab.cpp, and the tokenizer.json files of
 * the models.
 *
 * Threading: const.
 */
#ifndef TEXT_TOKENIZER_KNOWN_SPLITS_H
#define TEXT_TOKENIZER_KNOWN_SPLITS_H

#include "base/buf.h"

/* What goes with a name besides its patterns, where the vocabulary does not say it. */
struct known_split {
    bool ignore_merges; /* a piece that is a token by itself is that token */
    bool add_bos;
};

/* Appends the "pre_tokenizer" value of tokenizer.json for this name; false (nothing appended) for
 * an unknown one. more may be NULL. */
bool known_split_json(struct bytes name, struct buf *out, struct known_split *more);
/* Whether a row has this very pattern: it takes time that grows with the text alone, or PCRE2's limit
 * for one match ends it. */
bool known_split_has(struct bytes pattern);
/* The idx-th pattern of all rows, for tests; NULL behind the last. */
const char *known_split_pattern(size_t idx);

#endif
