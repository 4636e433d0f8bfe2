/*
 * named_vocab.h - vocabularies that are known by name: cl100k_base, o200k_base, p50k_base,
 * r50k_base, llama3, deepseek_v3, mistral_v1, mistral_v2, mistral_v3; and the tokens their files do
 * not hold.
 *
 * The files are published by others and lie in a folder of the user's (--vocab-dir,
 * TRIREME_VOCAB_DIR), directly or one folder deeper, under any name of the table's. Splitting is
 * that of the models (Llama 3's cl100k-like pattern, DeepSeek's three stages), special tokens are
 * the models' own. Seven of them also have the 54 agent tokens of the splintr library (system,
 * user, think, function, ... as <|x|> and <|/x|>) at the ids that library gave them, so that models
 * trained with it read and write their tokens.
 *
 * Threading: pure functions.
 */
#ifndef TEXT_TOKENIZER_NAMED_VOCAB_H
#define TEXT_TOKENIZER_NAMED_VOCAB_H

#include "text/tokenizer/tiktoken.h"

struct named_vocab;

/* NULL: no such name. Names are compared without case; llama3.1, deepseek-v3, mistral and other
 * spellings are known. */
const struct named_vocab *named_vocab_find(const char *name);
/* The one whose file has these contents, NULL: none. */
const struct named_vocab *named_vocab_recognize(const struct tiktoken_file *f);
/* Appends the path of its file in dir; ERR_NOT_FOUND names the files looked for and where they are
 * published. */
MUST_CHECK int named_vocab_path(const struct named_vocab *v, const char *dir, struct buf *path,
                                struct error *err);
/* What tokenizer_set_rules wants for it; json holds the text. */
void named_vocab_rules(const struct named_vocab *v, struct buf *json);
/* Lines of a tiktoken file with lower ranks are special tokens, not text. */
uint32_t named_vocab_first_text_id(const struct named_vocab *v);
/* Special and agent tokens, BOS, EOS, prefix: into t, whose model is built. */
MUST_CHECK int named_vocab_add_tokens(const struct named_vocab *v, bool agent_tokens,
                                      struct tokenizer *t, struct error *err);
/* "cl100k_base, o200k_base, ..." for messages. */
const char *named_vocab_list(void);

#endif
