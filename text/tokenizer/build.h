/*
 * build.h - a tokenizer from vocabularies in other forms than tokenizer.json: tiktoken files,
 * SentencePiece models, GGUF metadata.
 *
 * Such a form gives tokens and ranks; how text is normalized, split and decoded follows from its
 * kind. That part is said here in the words of tokenizer.json, so that one set of loaders serves
 * all forms.
 *
 * Order: tokenizer_new; tokens into t->vocab, sealed; the model (t->bpe, t->unigram);
 * tokenizer_set_rules; added tokens; prefix, suffix, bos, eos; tokenizer_finish.
 *
 * Threading: building only.
 */
#ifndef TEXT_TOKENIZER_BUILD_H
#define TEXT_TOKENIZER_BUILD_H

#include "text/tokenizer/tokenizer_data.h"

/* JSON values as in tokenizer.json; NULL: none. */
struct tokenizer_rules {
    const char *normalizer, *pre_tokenizer, *decoder;
};

/* Empty; id_limit: ids of the file stay below it. */
struct tokenizer *tokenizer_new(uint32_t id_limit);
/* Normalizer and pre-tokenizer; the decoder waits for tokenizer_finish. */
MUST_CHECK int tokenizer_set_rules(struct tokenizer *t, const struct tokenizer_rules *rules,
                                   struct error *err);
/* Of a tokenizer that decodes by a chain, only that. */
MUST_CHECK int tokenizer_set_chain(struct tokenizer *t, const struct tokenizer_rules *rules,
                                   struct error *err);
/* An added token. token.id is the wanted id; one whose content the vocabulary has keeps that one's,
 * as in HF (but not with vocab.keep_first: tiktoken's special tokens are no tokens of text). */
MUST_CHECK int tokenizer_add_token(struct tokenizer *t, struct bytes content,
                                   struct added_token token, struct error *err);
/* The decoder. */
MUST_CHECK int tokenizer_finish(struct tokenizer *t, const struct tokenizer_rules *rules,
                                struct error *err);
/* Appends an id that ends an answer, once. TOKEN_NONE: nothing. */
void tokenizer_add_eos(struct tokenizer *t, uint32_t id);
/* bos_token, eos_token and their ids, add_bos_token and add_eos_token from tokenizer_config.json
 * and generation_config.json (either may be empty). */
MUST_CHECK int tokenizer_load_ends(struct tokenizer *t, struct bytes config_json,
                                   struct bytes generation_json, bool with_prefix,
                                   struct error *err);

#endif
