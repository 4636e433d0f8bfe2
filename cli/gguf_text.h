/*
 * gguf_text.h - the tokenizer of a model folder as a GGUF file has it, and the folder's text files
 * kept whole.
 *
 * Byte-level BPE with a known way of splitting, and SentencePiece-like BPE with byte fallback, get
 * the keys that other programs read (tokenizer.ggml.*). Every text file is also kept as it is
 * (GGUF_FILE_KEY and its name), so nothing is lost on the way back.
 */
#ifndef CLI_GGUF_TEXT_H
#define CLI_GGUF_TEXT_H

#include "base/error.h"
#include "formats/gguf_write.h"

/* Puts both for a folder whose model has `vocab` rows of embeddings: ids below that nobody has taken
 * become tokens without use, since other programs want one for each row. A tokenizer of another
 * kind: only the files. */
MUST_CHECK int gguf_text_put(struct gguf_writer *w, const char *dir, uint32_t vocab,
                             struct error *err);
/* Writes the kept files into a folder; *count: how many. */
MUST_CHECK int gguf_text_restore(const struct gguf *g, const char *dir, size_t *count,
                                 struct error *err);

#endif
